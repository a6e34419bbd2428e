//! Reports in single packets: for UDP and for message buses.
//!
//! A packet is [`PREAMBLE`], the start of the agent, its node, a proof if a token is required, and frames
//! with absolute values. A collector without state for the node answers with an `N` frame. The agent
//! then sends its hello and declares its sources again.

use crate::Refusal;
use crate::bytes::{Take, put_u64, put_word};
use crate::wire::{PREAMBLE, PROOF, Token, stranger};

/// Maximum length of a datagram.
pub const LONGEST: usize = 65_507;
/// Last words of a refusal that asks an agent for its hello.
pub const STRANGER: &str = "who did not say hello";

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

/// Node, start and frames of a packet.
pub fn unwrap<'a>(
    packet: &'a [u8],
    token: Option<&Token>,
) -> Result<(&'a str, u64, &'a [u8]), Refusal> {
    let mut take = Take(packet);
    if take.bytes(PREAMBLE.len()).ok() != Some(&PREAMBLE) {
        return Err(stranger(packet));
    }
    let start = take.u64()?;
    let node = take.word("node")?;
    if let Some(token) = token {
        let proof = take.bytes(PROOF)?;
        if !token.agrees(&[&start.to_le_bytes(), node.as_bytes(), take.0], proof) {
            return Err(Refusal::new(format!(
                "a packet of {node} without the token"
            )));
        }
    }
    Ok((node, start, take.0))
}

#[cfg(test)]
mod tests {
    use super::*;

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
