//! Addresses of a host name, without waiting for them: a name server that does not answer delays the caller for many
//! seconds, in which an agent would miss its readings.

use crate::threads::refused;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::Duration;

/// Stack of the thread that asks; the C library's modules use some of it.
const STACK: usize = 512 << 10;

/// A question to the name service.
#[derive(Debug)]
pub struct Lookup(Receiver<io::Result<Vec<SocketAddr>>>);

impl Lookup {
    /// Asks for the addresses of `HOST:PORT`. An address in digits is its own answer; names are asked for in a thread,
    /// which ends with the answer.
    pub fn start(host: &str) -> io::Result<Self> {
        let (send, receive) = channel();
        if let Ok(address) = host.parse() {
            // The receiver exists.
            let _ = send.send(Ok(vec![address]));
            return Ok(Self(receive));
        }
        let host = host.to_owned();
        let ask = move || {
            // Without a receiver the answer is not wanted any more.
            let _ = send.send(addresses(&host));
        };
        Builder::new()
            .name("lookup".into())
            .stack_size(STACK)
            .spawn(ask)
            .map_err(|e| refused(&e))?;
        Ok(Self(receive))
    }

    /// Waits for the answer; `None` after `patience`.
    pub fn wait(&self, patience: Duration) -> Option<io::Result<Vec<SocketAddr>>> {
        match self.0.recv_timeout(patience) {
            Ok(answer) => Some(answer),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err(io::ErrorKind::NotFound.into())),
        }
    }
}

/// All addresses of `HOST:PORT`; at least one.
pub fn addresses(host: &str) -> io::Result<Vec<SocketAddr>> {
    let all: Vec<SocketAddr> = host.to_socket_addrs()?.collect();
    match all.is_empty() {
        false => Ok(all),
        true => Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("{host} has no address"),
        )),
    }
}
