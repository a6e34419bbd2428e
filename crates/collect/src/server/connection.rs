//! One connection: its socket, its peer and the bytes that wait to be written.

use super::peer::Peer;
use super::sockets::keep_alive;
use crate::Refusal;
use crate::gather::Gathering;
use crate::tls::{Identity, Wire, send, send_part};
use crate::wire::{Kind, Token, frame};
use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

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
    /// Blocks for a viewer, which wait behind `waiting`, and bytes of the first one that are written.
    blocks: VecDeque<Arc<[u8]>>,
    written: usize,
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
        keep_alive(&stream)?;
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
            blocks: VecDeque::new(),
            written: 0,
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

    /// Queues a frame and writes as much as the socket accepts; the rest follows on the next event. A viewer with a backlog
    /// gets none: it would come between the bytes of a block.
    pub fn send_frame(&mut self, kind: Kind, body: &[u8]) {
        if self.blocks.is_empty() && self.waiting.len() < MOST_WAITING {
            frame(&mut self.waiting, kind, |out| out.extend_from_slice(body));
            // Errors are reported by an event of their own.
            let _ = self.flush();
        }
    }

    /// Queues a block, as a frame, for a viewer; `false` if its backlog would exceed `most` bytes. All viewers share the
    /// bytes of a block.
    pub fn show(&mut self, block: &Arc<[u8]>, most: usize) -> bool {
        let backlog: usize = self.blocks.iter().map(|b| b.len()).sum();
        if backlog + block.len() > most {
            return false;
        }
        self.blocks.push_back(block.clone());
        let _ = self.flush();
        true
    }

    /// Whether the socket's room may be used: bytes are pending, or a handshake may have some.
    pub fn has_pending(&self) -> bool {
        !self.waiting.is_empty() || !self.blocks.is_empty() || !self.stream.is_plain()
    }

    /// Writes pending bytes.
    pub fn flush(&mut self) -> io::Result<()> {
        send(&mut self.stream, &mut self.waiting)?;
        if !self.waiting.is_empty() {
            return Ok(());
        }
        self.waiting = Vec::new();
        while let Some(block) = self.blocks.front() {
            self.written += send_part(&mut self.stream, &block[self.written..])?;
            if self.written < block.len() {
                return Ok(());
            }
            self.blocks.pop_front();
            self.written = 0;
        }
        Ok(())
    }
}
