//! A connection to a server of the bus, used by agents and collectors.

use super::protocol::greet;
use super::url::Url;
use crate::Refusal;
use crate::tls::{self, Trust, Wire};
use std::io;
use std::net::TcpStream;

/// A socket with its buffers.
pub struct Talk {
    stream: Wire,
    /// Whether INFO was received; a TLS handshake begins only after it.
    greeted: bool,
    /// Received bytes of an incomplete operation.
    pub came: Vec<u8>,
    /// Bytes that the socket has not accepted yet.
    pub goes: Vec<u8>,
}

impl Talk {
    /// Over a non-blocking socket, which may not be connected yet.
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

    /// Whether bytes wait to be written.
    pub fn writes(&self) -> bool {
        self.greeted && self.stream.waits_for_room(!self.goes.is_empty())
    }

    /// Receives available bytes, at most `room.len()`; false if there were none.
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

    /// Handles INFO: answers the first one, and returns whether it was the first.
    pub fn greet(&mut self, info: &str, url: &Url, name: &str) -> io::Result<bool> {
        if std::mem::replace(&mut self.greeted, true) {
            return Ok(false);
        }
        greet(info, url, name, &mut self.goes).map_err(found)?;
        Ok(true)
    }

    /// Writes pending bytes, after INFO was received.
    pub fn flush(&mut self) -> io::Result<()> {
        if !self.greeted {
            return Ok(());
        }
        tls::send(&mut self.stream, &mut self.goes)
    }
}

/// Converts a refusal of a server's data.
#[allow(clippy::needless_pass_by_value, reason = "for `map_err(found)`")]
pub fn found(refusal: Refusal) -> io::Error {
    io::Error::other(format!("found {refusal}"))
}
