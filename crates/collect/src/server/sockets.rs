//! Sockets with kernel limits raised: many descriptors, long queues.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};

/// Maximum number of open descriptors, after raising the soft limit to the hard limit.
pub fn descriptors() -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(1 << 20, |m| m.min(1 << 20));
    if limit.current.is_some_and(|c| c < wanted) {
        limit.current = Some(wanted);
        let _ = setrlimit(Resource::Nofile, limit);
    }
    let now = getrlimit(Resource::Nofile).current.unwrap_or(1 << 20);
    now.saturating_sub(64) as usize
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
