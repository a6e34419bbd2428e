//! One connection: the peer's role and buffers for reading and writing.

use crate::Refusal;
use crate::bytes::Take;
use crate::tls::{Identity, Wire, send};
use crate::wire::{Hello, Kind, PROOF, Token, frame};
use std::io;
use std::net::{SocketAddr, TcpStream};

/// Role of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Not yet known.
    Stranger {
        /// Whether the preamble was received.
        greeted: bool,
    },
    /// The agent of a node.
    Agent(u32),
    /// A viewer that receives its first block at the next closing.
    Newcomer,
    /// A viewer that receives blocks.
    Viewer,
}

/// Rate limit: frames in a burst, and frames per tick after that.
const BURST: u32 = 512;
const PER_TICK: u32 = 64;
/// Maximum number of pending bytes for an agent (acknowledgements).
const MOST_WAITING: usize = 64 * 1024;

/// A connection.
pub struct Connection {
    pub stream: Wire,
    pub peer: SocketAddr,
    pub serial: u32,
    pub role: Role,
    pub born_ns: u64,
    pub challenge: [u8; PROOF],
    /// Received bytes of an incomplete frame.
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

    /// Counts a frame against the rate limit.
    pub fn spend(&mut self) -> Result<(), Refusal> {
        self.frames_left = self.frames_left.checked_sub(1).ok_or_else(|| {
            Refusal::new(format!(
                "more than {BURST} frames at once or {PER_TICK} a tick"
            ))
        })?;
        Ok(())
    }

    /// Refills the rate limit after a tick.
    pub fn refill(&mut self) {
        self.frames_left = (self.frames_left + PER_TICK).min(BURST);
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

/// Decodes a hello and checks its proof.
pub fn hello(body: &[u8], token: Option<&Token>, challenge: &[u8]) -> Result<Hello, Refusal> {
    let mut take = Take(body);
    let hello = Hello::take(&mut take)?;
    let start = hello.start.to_le_bytes();
    let parts = [hello.node.as_bytes(), &start];
    check(take.0, &parts, token, challenge)?;
    Ok(hello)
}

/// Checks a proof if a token is required.
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
