//! Functions shared by the agent's transports: connecting, packets from reports, pauses after failures.

use super::ring::Ring;
use crate::datagram;
use crate::wire::{Hello, Kind, Token, frame};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The next report as a message of a bus; with `introduce`, hello and sources precede it.
pub fn packet(hello: &Hello, token: Option<&Token>, introduce: bool, ring: &mut Ring) -> Vec<u8> {
    let mut frames = Vec::new();
    if introduce {
        ring.restart();
        frames = introduction(hello, &[]);
    }
    ring.next(true, &mut frames);
    let mut packet = Vec::new();
    datagram::wrap(&hello.node, hello.start, token, &frames, &mut packet);
    packet
}

/// The frame of a hello by packet, with the answer to a collector's challenge.
pub fn introduction(hello: &Hello, challenge: &[u8]) -> Vec<u8> {
    let mut frames = Vec::new();
    frame(&mut frames, Kind::Hello, |out| {
        hello.put(out);
        out.extend_from_slice(challenge);
    });
    frames
}

/// Begins a non-blocking connection.
pub fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
    let family = if address.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
        Err(error) => return Err(error.into()),
    }
    // A collector whose host fails sends no FIN: without this timeout the connection would stay open.
    rustix::net::sockopt::set_tcp_user_timeout(&socket, 10_000)?;
    let stream = TcpStream::from(socket);
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Pause before the next attempt after `failures` attempts.
pub fn pause(failures: u32) -> Duration {
    Duration::from_millis(500 << failures.min(6))
}
