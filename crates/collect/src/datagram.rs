//! Reports in single packets: for UDP and for message buses.
//!
//! A packet is [`PREAMBLE`], the start of the agent, its node, a proof if a token is required, and frames
//! with absolute values. A collector without state for the node answers with an `N` frame. The agent
//! then sends its hello and declares its sources again.
//!
//! A signature does not make a packet fresh: it can be recorded and sent again. By UDP a hello is therefore
//! answered with a challenge ([`Challenges`]), and counts only if it repeats one that was issued after the last
//! hello under that name; the collector holds no state for it. Of reports, only those with a higher sequence
//! number than the last one count.

use crate::Refusal;
use crate::bytes::{Take, put_u64, put_word};
use crate::wire::{Hello, PREAMBLE, PROOF, Token, next_frame, stranger};
use std::io;
use std::net::SocketAddr;

/// Maximum length of a datagram.
pub const LONGEST: usize = 65_507;
/// Last words of a refusal that asks an agent for its hello.
pub const STRANGER: &str = "who did not say hello";

/// Bytes of a challenge by packet: its time and its proof.
pub const CHALLENGE: usize = 8 + PROOF;
/// Time for which a challenge is valid, nanoseconds.
const VALID_NS: u64 = 10_000_000_000;

/// Issues challenges and recognises them without storing them.
#[derive(Clone, Debug)]
pub struct Challenges(Token);

impl Challenges {
    /// With a key of this process.
    ///
    /// # Errors
    /// No randomness from the operating system.
    pub fn new() -> io::Result<Self> {
        let mut key = [0; 32];
        rustix::rand::getrandom(&mut key, rustix::rand::GetRandomFlags::empty())?;
        // White space at the ends of a token does not count: bytes that are not.
        Self::with_key(key.map(|b| b | 0x80)).map_err(io::Error::other)
    }

    /// With a given key, without white space at its ends.
    pub(crate) fn with_key(key: [u8; 32]) -> Result<Self, Refusal> {
        Token::new(&key).map(Self)
    }

    /// A challenge for a hello that came from an address.
    pub fn issue(&self, hello: &Hello, from: SocketAddr, now_ns: u64) -> [u8; CHALLENGE] {
        let mut challenge = [0; CHALLENGE];
        challenge[..8].copy_from_slice(&now_ns.to_le_bytes());
        let (parts, address) = (parts_of(hello), from.to_string());
        let proof = self.0.proof(&[&challenge[..8], &parts, address.as_bytes()]);
        challenge[8..].copy_from_slice(&proof);
        challenge
    }

    /// The time at which a valid challenge was issued.
    pub fn issued(
        &self,
        hello: &Hello,
        from: SocketAddr,
        challenge: &[u8],
        now_ns: u64,
    ) -> Option<u64> {
        let (time, proof) = challenge.split_first_chunk::<8>()?;
        let (parts, address) = (parts_of(hello), from.to_string());
        let issued = u64::from_le_bytes(*time);
        let agrees = self.0.agrees(&[time, &parts, address.as_bytes()], proof);
        let age = now_ns.checked_sub(issued)?;
        (agrees && age < VALID_NS.max(3 * hello.period_ns)).then_some(issued)
    }
}

fn parts_of(hello: &Hello) -> Vec<u8> {
    let mut parts = Vec::new();
    hello.put(&mut parts);
    parts
}

/// Bytes of a packet before its frames.
pub fn head(hello: &Hello) -> usize {
    PREAMBLE.len() + 8 + 2 + hello.node.len() + PROOF
}

/// Divides frames into parts of at most `most` bytes, each of whole frames; a longer frame is a part of its own.
pub fn parts(frames: &[u8], most: usize) -> Vec<&[u8]> {
    let (mut parts, mut rest, mut end) = (Vec::new(), frames, 0);
    while let Ok(Some((_, _, whole))) = next_frame(&rest[end..], usize::MAX) {
        if end > 0 && end + whole > most {
            let (part, more) = rest.split_at(end);
            parts.push(part);
            (rest, end) = (more, 0);
        }
        end += whole;
    }
    if end > 0 {
        parts.push(&rest[..end]);
    }
    parts
}

/// Wraps frames from [`wire::frame`](crate::wire::frame) into a packet.
pub fn wrap(node: &str, start: u64, token: Option<&Token>, frames: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&PREAMBLE);
    put_u64(out, start);
    put_word(out, node);
    if let Some(token) = token {
        let proof = token.proof(&[&start.to_le_bytes(), node.as_bytes(), frames]);
        out.extend_from_slice(&proof);
    }
    out.extend_from_slice(frames);
}

/// A packet whose proof is not checked yet.
#[derive(Clone, Copy, Debug)]
pub struct Envelope<'a> {
    /// The node that it names.
    pub node: &'a str,
    /// Start of its agent.
    pub start: u64,
    rest: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Decodes the bytes before the proof.
    pub fn open(packet: &'a [u8]) -> Result<Self, Refusal> {
        let mut take = Take(packet);
        if take.bytes(PREAMBLE.len()).ok() != Some(&PREAMBLE) {
            return Err(stranger(packet));
        }
        let start = take.u64()?;
        let node = take.word("node")?;
        let rest = take.0;
        Ok(Self { node, start, rest })
    }

    /// The frames, after a check of the proof if a token is required.
    pub fn frames(&self, token: Option<&Token>) -> Result<&'a [u8], Refusal> {
        let mut take = Take(self.rest);
        if let Some(token) = token {
            let (node, start) = (self.node, self.start.to_le_bytes());
            let proof = take.bytes(PROOF)?;
            if !token.agrees(&[&start, node.as_bytes(), take.0], proof) {
                return Err(Refusal::new(format!(
                    "a packet of {node} without the token"
                )));
            }
        }
        Ok(take.0)
    }
}

/// Node, start and frames of a packet.
pub fn unwrap<'a>(
    packet: &'a [u8],
    token: Option<&Token>,
) -> Result<(&'a str, u64, &'a [u8]), Refusal> {
    let envelope = Envelope::open(packet)?;
    let frames = envelope.frames(token)?;
    Ok((envelope.node, envelope.start, frames))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_divided_between_packets() {
        use crate::wire::{Kind, frame};
        let mut frames = Vec::new();
        for n in [10, 20, 30, 200, 1, 1] {
            frame(&mut frames, Kind::Source, |out| {
                out.resize(out.len() + n, 0);
            });
        }
        let parts = parts(&frames, 60);
        let lengths: Vec<usize> = parts.iter().map(|p| p.len()).collect();
        assert_eq!(lengths, [15 + 25, 35, 205, 12]);
        assert_eq!(parts.concat(), frames);
    }

    #[test]
    fn challenges_are_for_one_hello_from_one_address_and_for_a_while() {
        let challenges = Challenges::new().unwrap();
        let hello = Hello {
            node: "n1".into(),
            boot: 1,
            start: 2,
            period_ns: 1_000_000_000,
        };
        let from: SocketAddr = "127.0.0.1:7".parse().unwrap();
        let challenge = challenges.issue(&hello, from, 100);
        let issued = |hello: &Hello, from, challenge: &[u8], now| {
            challenges.issued(hello, from, challenge, now)
        };
        assert_eq!(issued(&hello, from, &challenge, 100), Some(100));
        assert_eq!(issued(&hello, from, &challenge, 100 + VALID_NS), None);
        assert_eq!(issued(&hello, from, &challenge, 99), None, "of the future");
        let other = Hello {
            start: 3,
            ..hello.clone()
        };
        assert_eq!(issued(&other, from, &challenge, 100), None);
        let elsewhere = "127.0.0.1:8".parse().unwrap();
        assert_eq!(issued(&hello, elsewhere, &challenge, 100), None);
        for at in 0..CHALLENGE {
            let mut bent = challenge;
            bent[at] ^= 1;
            assert_eq!(issued(&hello, from, &bent, 100), None, "byte {at}");
            assert_eq!(issued(&hello, from, &challenge[..at], 100), None);
        }
    }

    #[test]
    fn packets_come_back_and_need_the_token() {
        let token = Token::new(b"0123456789abcdef").unwrap();
        let mut packet = Vec::new();
        wrap("n1", 5, Some(&token), b"frames", &mut packet);
        assert_eq!(unwrap(&packet, Some(&token)), Ok(("n1", 5, &b"frames"[..])));
        let last = packet.len() - 1;
        packet[last] ^= 1;
        let error = unwrap(&packet, Some(&token)).unwrap_err().to_string();
        assert_eq!(error, "a packet of n1 without the token");
        for cut in 0..packet.len() {
            assert!(unwrap(&packet[..cut], Some(&token)).is_err());
        }
    }
}
