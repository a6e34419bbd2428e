//! NATS transport: agents publish reports to an existing message bus, and collectors subscribe to them.
//!
//! Agents publish packets ([`datagram`](crate::datagram)) to `hopbyte.CLUSTER.BLOCK`. A block is a range of
//! neighbouring nodes, so that several collectors can share a cluster. A collector answers to the agent's
//! inbox. With JetStream the server stores published reports. Its acknowledgement then lets an agent
//! release a report, and a collector resumes after the last stored report.

mod jetstream;
mod protocol;
mod talk;
mod url;

pub use jetstream::{Consumer, Stored, acknowledgement, consumer, delivered, stream};
pub use protocol::{Message, Op, greet, next, ping, pong, publish, subscribe};
pub use talk::{Talk, found};
pub use url::Url;

use crate::Refusal;

/// Number of blocks of a cluster.
pub const BLOCKS: u32 = 64;
/// Number of neighbouring nodes in a block, for numbered names.
const NODES_A_BLOCK: u64 = 64;

/// Checks that a word is a valid cluster name: one token of a subject.
pub fn check_cluster(name: &str) -> Result<(), Refusal> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if !name.is_empty() && name.len() <= 64 && name.bytes().all(plain) {
        return Ok(());
    }
    Err(Refusal::new(format!(
        "{name:?}, expected letters, digits, '-' and '_'"
    )))
}

/// The block of a node by its name: 64 neighbouring numbers share a block, other names are hashed.
pub fn block(node: &str) -> u32 {
    let end = node.trim_end_matches(|c: char| !c.is_ascii_digit());
    let digits = end.len() - end.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let number = end[end.len() - digits..].parse::<u64>();
    // Names such as c0-1c2s3n1 number the node within its blade: use the blade's position instead.
    let simple = end[..end.len() - digits]
        .bytes()
        .all(|b| !b.is_ascii_digit());
    match number {
        Ok(number) if simple => (number / NODES_A_BLOCK % u64::from(BLOCKS)) as u32,
        Ok(_) => crc32fast::hash(&end.as_bytes()[..end.len() - digits]) % BLOCKS,
        Err(_) => crc32fast::hash(node.as_bytes()) % BLOCKS,
    }
}

/// The subject of a block's reports.
pub fn subject(cluster: &str, block: u32) -> String {
    format!("hopbyte.{cluster}.{block}")
}

/// The subject of an agent's acknowledgements (`of` is the sequence number) and requests (`ask`).
pub fn inbox(start: u64, of: &str) -> String {
    format!("_INBOX.hopbyte.{start:016x}.{of}")
}

/// One of several collectors of a cluster: `0/4` is the first of four.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    index: u32,
    of: u32,
}

impl Shard {
    /// The only collector.
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    /// Parses `INDEX/COUNT`.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let numbers = text.split_once('/');
        let numbers = numbers.and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        match numbers {
            Some((index, of)) if index < of && of <= BLOCKS => Ok(Self { index, of }),
            _ => Err(Refusal::new(format!(
                "{text}, expected INDEX/COUNT such as 0/4, at most {BLOCKS}"
            ))),
        }
    }

    /// Whether a block belongs to this collector.
    pub fn has(self, block: u32) -> bool {
        block % self.of == self.index
    }

    /// The subjects of this collector.
    pub fn subjects(self, cluster: &str) -> Vec<String> {
        if self.of == 1 {
            return vec![format!("hopbyte.{cluster}.*")];
        }
        let blocks = (0..BLOCKS).filter(|&b| self.has(b));
        blocks.map(|b| subject(cluster, b)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_share_a_block_and_every_block_has_one_collector() {
        assert_eq!((block("nid00000"), block("nid00063")), (0, 0));
        assert_eq!((block("nid00064"), block("nid04096")), (1, 0));
        assert_eq!(block("c0-1c2s3n0"), block("c0-1c2s3n3"));
        assert_ne!(block("c0-1c2s3n0"), block("c0-1c2s4n0"));
        assert!(block("login") < BLOCKS && block("node7-ib") == 0);
        let shards: Vec<Shard> = (0..5)
            .map(|i| Shard::parse(&format!("{i}/5")).unwrap())
            .collect();
        for b in 0..BLOCKS {
            assert_eq!(shards.iter().filter(|s| s.has(b)).count(), 1);
        }
        let subjects: usize = shards.iter().map(|s| s.subjects("c").len()).sum();
        assert_eq!(subjects, BLOCKS as usize);
        assert_eq!(Shard::WHOLE.subjects("c"), ["hopbyte.c.*"]);
        for bad in ["4/4", "0/0", "1", "0/65", "-1/2"] {
            assert!(Shard::parse(bad).is_err(), "{bad}");
        }
        assert!(check_cluster("a.b").is_err() && check_cluster("mutrino-2").is_ok());
    }
}
