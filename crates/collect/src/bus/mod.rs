//! NATS: how agents and collectors meet on an existing message bus, beyond one machine's connections.
//!
//! Agents publish packets ([`datagram`](crate::datagram)) to `hopbyte.CLUSTER.BLOCK`, where a block is a
//! range of neighbouring nodes, so that several collectors share a cluster's blocks among them. What a
//! collector wants to say to an agent goes to the agent's inbox. With JetStream the server keeps what is
//! published; then its acknowledgement lets an agent forget, and a collector reads on from where its
//! store ends.

mod jetstream;
mod protocol;
mod talk;

pub use jetstream::{Consumer, Stored, acknowledgement, consumer, delivered, stream};
pub use protocol::{Message, Op, greet, next, ping, pong, publish, subscribe};
pub use talk::{Talk, found};

use crate::Refusal;
use serde::{Deserialize, Serialize};

/// Blocks of a cluster.
pub const BLOCKS: u32 = 64;
/// Neighbouring nodes of one block, where names are numbered.
const NODES_A_BLOCK: u64 = 64;

/// A server of the bus: `nats://[USER:PASSWORD@|TOKEN@]HOST[:PORT]`, or `tls://…`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Url {
    /// `HOST:PORT`.
    pub address: String,
    /// Whether what is said to it is encrypted.
    pub tls: bool,
    user: Option<String>,
    password: Option<String>,
}

impl std::fmt::Debug for Url {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.tls { "tls" } else { "nats" };
        write!(f, "{scheme}://{}", self.address)
    }
}

impl Url {
    /// Reads one; the scheme may be left out.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let (tls, rest) = match text.strip_prefix("tls://") {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix("nats://").unwrap_or(text)),
        };
        let (secret, host) = match rest.rsplit_once('@') {
            Some((secret, host)) => (Some(secret), host),
            None => (None, rest),
        };
        let host = host.trim_end_matches('/');
        let ported = host.rsplit_once(':').is_some_and(|(name, port)| {
            (!name.contains(':') || name.ends_with(']')) && port.parse::<u16>().is_ok()
        });
        let sound = !host.is_empty() && !host.contains(['/', ' ', '\t']) && !host.ends_with(':');
        if !sound || rest.contains("://") {
            return Err(Refusal::new(format!(
                "{text}, expected nats://[USER:PASSWORD@]HOST[:PORT] or tls://…"
            )));
        }
        let address = if ported {
            host.to_owned()
        } else {
            format!("{host}:4222")
        };
        let (user, password) = match secret.map(|s| s.split_once(':').ok_or(s)) {
            None => (None, None),
            Some(Ok((user, password))) => (Some(user.to_owned()), Some(password.to_owned())),
            Some(Err(token)) => (Some(token.to_owned()), None),
        };
        Ok(Self {
            address,
            tls,
            user,
            password,
        })
    }
}

/// Whether a word can name a cluster: a part of a subject.
pub fn check_cluster(name: &str) -> Result<(), Refusal> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if !name.is_empty() && name.len() <= 64 && name.bytes().all(plain) {
        return Ok(());
    }
    Err(Refusal::new(format!(
        "{name:?}, expected letters, digits, '-' and '_'"
    )))
}

/// The block of a node by its name: of numbered nodes 64 neighbours share one, others are spread.
pub fn block(node: &str) -> u32 {
    let end = node.trim_end_matches(|c: char| !c.is_ascii_digit());
    let digits = end.len() - end.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let number = end[end.len() - digits..].parse::<u64>();
    // Names such as c0-1c2s3n1 number the node within its blade: the blade is what neighbours share.
    let simple = end[..end.len() - digits]
        .bytes()
        .all(|b| !b.is_ascii_digit());
    match number {
        Ok(number) if simple => (number / NODES_A_BLOCK % u64::from(BLOCKS)) as u32,
        Ok(_) => crc32fast::hash(&end.as_bytes()[..end.len() - digits]) % BLOCKS,
        Err(_) => crc32fast::hash(node.as_bytes()) % BLOCKS,
    }
}

/// Where the nodes of a block report.
pub fn subject(cluster: &str, block: u32) -> String {
    format!("hopbyte.{cluster}.{block}")
}

/// Where an agent hears: that a report is kept (its number), or that it is not known (`ask`).
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

    /// Reads `INDEX/COUNT`.
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

    /// Whether it gathers a block.
    pub fn has(self, block: u32) -> bool {
        block % self.of == self.index
    }

    /// The subjects that it gathers.
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
    fn addresses_are_read() {
        let of = |text: &str| Url::parse(text).map(|u| (u.address, u.user, u.password));
        let word = |s: &str| Some(s.to_owned());
        assert_eq!(of("nats://bus"), Ok(("bus:4222".into(), None, None)));
        assert_eq!(
            of("nats://a:b@[::1]:99/"),
            Ok(("[::1]:99".into(), word("a"), word("b")))
        );
        assert_eq!(of("[::1]").unwrap().0, "[::1]:4222");
        let tls = Url::parse("tls://a:b@bus").unwrap();
        assert_eq!((tls.tls, &*format!("{tls:?}")), (true, "tls://bus:4222"));
        assert_eq!(
            of("nats://t0k@bus:1"),
            Ok(("bus:1".into(), word("t0k"), None))
        );
        for bad in ["", "nats://", "http://bus", "bus:", "a b", "nats://x/y"] {
            assert!(of(bad).is_err(), "{bad}");
        }
        let secret = format!("{:?}", Url::parse("nats://a:secret@bus").unwrap());
        assert_eq!(secret, "nats://bus:4222", "no secret in a log");
    }

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
