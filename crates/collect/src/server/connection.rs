//! One connection: who is at its other end, what waits to be read or written.

use crate::Refusal;
use crate::bytes::Take;
use crate::tls::{Identity, Wire, send};
use crate::wire::{Hello, Kind, PROOF, Token, frame};
use std::io;
use std::net::{SocketAddr, TcpStream};

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Nobody said so yet.
    Stranger {
        /// Whether the preamble came.
        greeted: bool,
    },
    /// The agent of a node.
    Agent(u32),
    /// Somebody who wants to see the blocks, from the next one on.
    Newcomer,
    /// Somebody who sees the blocks.
    Viewer,
}

/// Frames that a connection may send at once, and per tick after that.
const BURST: u32 = 512;
const PER_TICK: u32 = 64;
/// Bytes that wait for an agent at most: acknowledgements.
const MOST_WAITING: usize = 64 * 1024;

/// A connection.
pub struct Connection {
    pub stream: Wire,
    pub peer: SocketAddr,
    pub serial: u32,
    pub role: Role,
    pub born_ns: u64,
    pub challenge: [u8; PROOF],
    /// The beginning of a frame.
    pub partial: Vec<u8>,
    waiting: Vec<u8>,
    frames_left: u32,
}

impl Connection {
    pub fn new(
        stream: TcpStream,
        identity: Option<&Identity>,
        peer: SocketAddr,
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
            peer,
            serial,
            role: Role::Stranger { greeted: false },
            born_ns,
            challenge: [0; PROOF],
            partial: Vec::new(),
            waiting: Vec::new(),
            frames_left: BURST,
        })
    }

    /// Pays for a frame.
    pub fn spend(&mut self) -> Result<(), Refusal> {
        self.frames_left = self.frames_left.checked_sub(1).ok_or_else(|| {
            Refusal::new(format!(
                "more than {BURST} frames at once or {PER_TICK} a tick"
            ))
        })?;
        Ok(())
    }

    /// A tick passed.
    pub fn refill(&mut self) {
        self.frames_left = (self.frames_left + PER_TICK).min(BURST);
    }

    /// Sends a frame, or as much of it as fits now; the end comes with the next event.
    pub fn send_frame(&mut self, kind: Kind, body: &[u8]) {
        if self.waiting.len() < MOST_WAITING {
            frame(&mut self.waiting, kind, |out| out.extend_from_slice(body));
            // A connection that broke tells so with an event of its own.
            let _ = self.flush();
        }
    }

    /// Shows a block to a viewer; `false` when too much waits already.
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

    /// Writes what waits.
    pub fn flush(&mut self) -> io::Result<()> {
        let sent = send(&mut self.stream, &mut self.waiting);
        if self.waiting.is_empty() {
            self.waiting = Vec::new();
        }
        sent
    }
}

/// Reads a hello and checks its proof.
pub fn hello(body: &[u8], token: Option<&Token>, challenge: &[u8]) -> Result<Hello, Refusal> {
    let mut take = Take(body);
    let hello = Hello::take(&mut take)?;
    let start = hello.start.to_le_bytes();
    let parts = [hello.node.as_bytes(), &start];
    check(take.0, &parts, token, challenge)?;
    Ok(hello)
}

/// Checks a proof where a token is required.
pub fn check(
    proof: &[u8],
    parts: &[&[u8]],
    token: Option<&Token>,
    challenge: &[u8],
) -> Result<(), Refusal> {
    let Some(token) = token else { return Ok(()) };
    let all: Vec<&[u8]> = std::iter::once(challenge)
        .chain(parts.iter().copied())
        .collect();
    if token.agrees(&all, proof) {
        return Ok(());
    }
    Err(Refusal::new(if proof.is_empty() {
        "a hello without a token, which this collector requires (--token FILE)"
    } else {
        "a token that is not this collector's"
    }))
}
