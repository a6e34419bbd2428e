//! The collector's side of a connection without its socket: received bytes in, answers out.

use super::TLS_HELLO;
use crate::Refusal;
use crate::bytes::{Take, unused};
use crate::gather::{Channel, Gathering};
use crate::wire::{
    Hello, Kind, LONGEST_FRAME, PREAMBLE, PROOF, Readers, Token, frame, next_frame, stranger,
};

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

/// State of the conversation with a peer.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Role of the peer.
    pub role: Role,
    /// Random bytes for the proof of the token.
    pub challenge: [u8; PROOF],
    /// Further secrets, which admit viewers only.
    pub readers: Option<Readers>,
    /// Received bytes of an incomplete frame, and the time when its first ones arrived.
    partial: Vec<u8>,
    begun_ns: u64,
    frames_left: u32,
}

impl Default for Peer {
    fn default() -> Self {
        Self {
            role: Role::Stranger { greeted: false },
            challenge: [0; PROOF],
            readers: None,
            partial: Vec::new(),
            begun_ns: 0,
            frames_left: BURST,
        }
    }
}

impl Peer {
    /// Bytes of an incomplete frame.
    pub fn partial(&self) -> usize {
        self.partial.len()
    }

    /// Bytes of an incomplete frame, times the time that they have waited for its end.
    pub fn burden(&self, now: u64) -> u128 {
        // At least a millisecond: the frames of one wake-up count by their bytes.
        let waited_ns = now.abs_diff(self.begun_ns).max(1_000_000);
        self.partial.len() as u128 * u128::from(waited_ns)
    }

    /// Refills the rate limit after a tick.
    pub fn refill(&mut self) {
        self.frames_left = (self.frames_left + PER_TICK).min(BURST);
    }

    /// Handles the frames in `bytes`, which continue the connection's incomplete frame; `slot` is the
    /// connection's number. Appends the answers to `out`.
    pub fn received(
        &mut self,
        slot: u32,
        bytes: &[u8],
        token: Option<&Token>,
        gathering: &mut Gathering,
        now: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let mut waiting = std::mem::take(&mut self.partial);
        let mut rest = if waiting.is_empty() {
            bytes
        } else {
            waiting.extend_from_slice(bytes);
            &waiting
        };
        loop {
            if let Role::Stranger { greeted: false } = self.role {
                let n = rest.len().min(PREAMBLE.len());
                if rest.first() == Some(&TLS_HELLO) {
                    return Err(Refusal::new(
                        "TLS, for which this collector has no certificate (--tls-cert FILE --tls-key FILE)",
                    ));
                }
                if rest[..n] != PREAMBLE[..n] {
                    return Err(stranger(rest));
                }
                if n < PREAMBLE.len() {
                    break;
                }
                rest = &rest[n..];
                self.role = Role::Stranger { greeted: true };
            }
            let stranger = matches!(self.role, Role::Stranger { .. });
            let longest = if stranger { 1024 } else { LONGEST_FRAME };
            let Some((kind, body, whole)) = next_frame(rest, longest)? else {
                break;
            };
            self.spend()?;
            self.take_frame(slot, (kind, body), token, gathering, now, out)?;
            rest = &rest[whole..];
        }
        let left = rest.len();
        if left <= bytes.len() {
            // The incomplete frame began with these bytes.
            self.begun_ns = now;
        }
        self.partial = match waiting.is_empty() {
            true => rest.to_vec(),
            false => unused(waiting, left),
        };
        Ok(())
    }

    /// Counts a frame against the rate limit.
    fn spend(&mut self) -> Result<(), Refusal> {
        self.frames_left = self.frames_left.checked_sub(1).ok_or_else(|| {
            Refusal::new(format!(
                "more than {BURST} frames at once or {PER_TICK} a tick"
            ))
        })?;
        Ok(())
    }

    fn take_frame(
        &mut self,
        slot: u32,
        (kind, body): (Kind, &[u8]),
        token: Option<&Token>,
        gathering: &mut Gathering,
        now: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        match (self.role, kind) {
            // Differences from two agents must not be mixed on one base.
            (Role::Agent(node), _) if gathering.channel(node) != Channel::Stream(slot) => {
                Err(Refusal::new(format!(
                    "a report of {}, whose name another connection uses",
                    gathering.name(node)
                )))
            }
            (Role::Agent(node), Kind::Report) => gathering.report(node, body, now),
            (Role::Agent(node), Kind::Source) => gathering.source(node, body),
            (Role::Stranger { .. }, Kind::Hello) => {
                let hello = hello(body, token, &self.challenge)?;
                let (id, kept) = gathering.hello(&hello, Channel::Stream(slot), now)?;
                self.role = Role::Agent(id);
                frame(out, Kind::Welcome, |out| {
                    out.extend_from_slice(&kept.to_le_bytes());
                });
                Ok(())
            }
            (Role::Stranger { .. }, Kind::Viewer) => {
                let check = |token| check(body, &[b"viewer"], token, &self.challenge);
                let readers = self.readers.as_ref().map(|readers| readers.get());
                let mut readers = readers.iter().flat_map(|all| all.iter());
                if !readers.any(|reader| check(Some(reader)).is_ok()) {
                    check(token)?;
                }
                self.role = Role::Newcomer;
                frame(out, Kind::Welcome, |out| {
                    out.extend_from_slice(&gathering.period_ns().to_le_bytes());
                });
                gathering.begin_segment();
                Ok(())
            }
            (_, kind) => Err(Refusal::new(format!("an unexpected frame {kind:?}"))),
        }
    }
}

/// Decodes a hello and checks its proof.
fn hello(body: &[u8], token: Option<&Token>, challenge: &[u8]) -> Result<Hello, Refusal> {
    let mut take = Take(body);
    let hello = Hello::take(&mut take)?;
    let start = hello.start.to_le_bytes();
    let parts = [hello.node.as_bytes(), &start];
    check(take.0, &parts, token, challenge)?;
    Ok(hello)
}

/// Checks a proof if a token is required.
fn check(
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
