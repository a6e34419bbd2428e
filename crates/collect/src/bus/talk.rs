//! A connection to a server of the bus, whoever of us holds it.

use super::protocol::greet;
use super::url::Url;
use crate::Refusal;
use crate::tls::{self, Trust, Wire};
use std::io;
use std::net::TcpStream;

/// What goes to and fro between us and a server.
pub struct Talk {
    stream: Wire,
    /// Whether the server said who it is; only from then on it talks TLS.
    greeted: bool,
    /// What came and is no whole operation yet.
    pub came: Vec<u8>,
    /// What does not fit into the socket at the moment.
    pub goes: Vec<u8>,
}

impl Talk {
    /// Over a socket in non-blocking mode, which may not be connected yet.
    pub fn new(socket: TcpStream, to: &Url, trust: Option<&Trust>) -> io::Result<Self> {
        let stream = match trust {
            Some(trust) if to.tls => trust.connect(&to.address, socket)?,
            None if to.tls => {
                return Err(io::Error::other(format!("{to:?} needs --tls-ca FILE")));
            }
            _ => Wire::Plain(socket),
        };
        Ok(Self {
            stream,
            greeted: false,
            came: Vec::new(),
            goes: Vec::new(),
        })
    }

    /// The socket.
    pub fn socket(&self) -> &TcpStream {
        self.stream.socket()
    }

    /// Whether something waits to be written.
    pub fn writes(&self) -> bool {
        self.greeted && self.stream.waits_for_room(!self.goes.is_empty())
    }

    /// Takes what waits at the socket, at most a `room` full of it; false when nothing did.
    pub fn receive(&mut self, room: &mut [u8]) -> io::Result<bool> {
        let got = if self.greeted {
            tls::receive(&mut self.stream, room, &mut self.came)
        } else {
            tls::receive(&mut self.stream.socket(), room, &mut self.came)
        };
        match got? {
            None => Ok(false),
            Some(0) => Err(io::Error::other("the server closed the connection")),
            Some(_) => Ok(true),
        }
    }

    /// The server says who it is (`INFO`): to its first word we answer, and say whether it was.
    pub fn greet(&mut self, info: &str, url: &Url, name: &str) -> io::Result<bool> {
        if std::mem::replace(&mut self.greeted, true) {
            return Ok(false);
        }
        greet(info, url, name, &mut self.goes).map_err(found)?;
        Ok(true)
    }

    /// Writes what fits into the socket, when the server said who it is.
    pub fn flush(&mut self) -> io::Result<()> {
        if !self.greeted {
            return Ok(());
        }
        tls::send(&mut self.stream, &mut self.goes)
    }
}

/// What a server said is not understood.
#[allow(clippy::needless_pass_by_value, reason = "for `map_err(found)`")]
pub fn found(refusal: Refusal) -> io::Error {
    io::Error::other(format!("found {refusal}"))
}
