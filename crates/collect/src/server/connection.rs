//! One connection: its socket, its peer and the bytes that wait to be written.

use super::peer::Peer;
use crate::Refusal;
use crate::gather::Gathering;
use crate::tls::{Identity, Wire, send};
use crate::wire::{Kind, Token, frame};
use std::io;
use std::net::{SocketAddr, TcpStream};

/// Maximum number of pending bytes for an agent (acknowledgements).
const MOST_WAITING: usize = 64 * 1024;

/// A connection.
pub struct Connection {
    pub stream: Wire,
    pub address: SocketAddr,
    pub serial: u32,
    pub born_ns: u64,
    pub peer: Peer,
    /// Whether its read was put off.
    pub deferred: bool,
    waiting: Vec<u8>,
}

impl Connection {
    pub fn new(
        stream: TcpStream,
        identity: Option<&Identity>,
        address: SocketAddr,
        serial: u32,
        born_ns: u64,
    ) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: match identity {
                Some(identity) => identity.accept(stream)?,
                None => Wire::Plain(stream),
            },
            address,
            serial,
            born_ns,
            peer: Peer::default(),
            deferred: false,
            waiting: Vec::new(),
        })
    }

    /// Handles received bytes; `slot` is the connection's number.
    pub fn received(
        &mut self,
        slot: u32,
        bytes: &[u8],
        token: Option<&Token>,
        gathering: &mut Gathering,
        now: u64,
    ) -> Result<(), Refusal> {
        let out = &mut self.waiting;
        self.peer
            .received(slot, bytes, token, gathering, now, out)?;
        if !self.waiting.is_empty() {
            // Errors are reported by an event of their own.
            let _ = self.flush();
        }
        Ok(())
    }

    /// Queues a frame and writes as much as the socket accepts; the rest follows on the next event.
    pub fn send_frame(&mut self, kind: Kind, body: &[u8]) {
        if self.waiting.len() < MOST_WAITING {
            frame(&mut self.waiting, kind, |out| out.extend_from_slice(body));
            // Errors are reported by an event of their own.
            let _ = self.flush();
        }
    }

    /// Queues a block for a viewer; `false` if its backlog would exceed `most` bytes.
    pub fn show(&mut self, block: &[u8], most: usize) -> bool {
        if self.waiting.len() + block.len() > most {
            return false;
        }
        frame(&mut self.waiting, Kind::Block, |out| {
            out.extend_from_slice(block);
        });
        let _ = self.flush();
        true
    }

    /// Writes pending bytes.
    pub fn flush(&mut self) -> io::Result<()> {
        let sent = send(&mut self.stream, &mut self.waiting);
        if self.waiting.is_empty() {
            self.waiting = Vec::new();
        }
        sent
    }
}
