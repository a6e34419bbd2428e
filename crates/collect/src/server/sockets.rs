//! Sockets with kernel limits raised: many descriptors, long queues.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

/// Maximum number of connections of agents and viewers. Other descriptors are for the store, whose logs must be created also
/// while all connections are taken, and for the connections of exports.
pub fn connections() -> usize {
    let all = descriptors();
    all - (3 * all / 8).min(1200)
}

/// Maximum number of open descriptors, after raising the soft limit to the hard limit.
pub fn descriptors() -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(1 << 20, |m| m.min(1 << 20));
    if limit.current.is_some_and(|c| c < wanted) {
        limit.current = Some(wanted);
        let _ = setrlimit(Resource::Nofile, limit);
    }
    getrlimit(Resource::Nofile).current.unwrap_or(1 << 20) as usize
}

fn named(address: SocketAddr, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("listening on {address}: {error}"))
}

/// A listener with a backlog for a whole cluster.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let open = || -> io::Result<TcpListener> {
        let socket =
            rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        rustix::net::bind(&socket, &address)?;
        // All agents of a cluster may reconnect in the same second.
        rustix::net::listen(&socket, 32_768)?;
        Ok(socket.into())
    };
    open().map_err(|e| named(address, &e))
}

/// Bounds the life of a connection whose peer is gone without a word, as after a power failure: its kernel is asked after a
/// minute of silence, and then every ten seconds. Agents report more often, and are not asked.
pub fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    use rustix::net::sockopt;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, Duration::from_secs(60))?;
    sockopt::set_tcp_keepintvl(stream, Duration::from_secs(10))?;
    sockopt::set_tcp_keepcnt(stream, 6)?;
    Ok(())
}

/// A UDP socket with a buffer for the reports of a whole tick.
pub fn bind_udp(address: SocketAddr) -> io::Result<UdpSocket> {
    use rustix::net::sockopt;
    let socket = UdpSocket::bind(address).map_err(|e| named(address, &e))?;
    socket.set_nonblocking(true)?;
    // The buffer may have to hold all reports of a tick; the privileged option comes first.
    let bytes = 256 << 20;
    if sockopt::set_socket_recv_buffer_size_force(&socket, bytes).is_err() {
        sockopt::set_socket_recv_buffer_size(&socket, bytes)?;
    }
    Ok(socket)
}
