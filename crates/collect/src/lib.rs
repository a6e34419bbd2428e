//! What did every node count in this second? Agents read, a collector gathers, a store keeps.
//!
//! One tick is one second of UTC (or another period). Every agent reads its node's counters at the start
//! of a tick and pushes them; the collector closes the tick when all expected nodes reported or a
//! deadline passed, and says who is missing, late, reset or frozen ([`gather`]). What it gathered is a
//! block of bytes ([`block`]) that is written before it is acknowledged, sent to whoever watches, and
//! read back by the same code when it is replayed.
//!
//! Everything that comes from the network is hostile until checked: sizes are bounded, names are
//! validated, and what is refused is refused with a sentence that says what was found.
//!
//! # Example
//!
//! A tick that closes at its deadline names the nodes that did not report:
//!
//! ```
//! use hopbyte_collect::gather::{Gathering, Rules};
//!
//! let rules = Rules { expected: vec!["n1".into(), "n2".into()], ..Rules::default() };
//! let mut gathering = Gathering::new(rules, 0);
//! let deadline_ns = gathering.closes_ns();
//! assert!(!gathering.due(deadline_ns - 1) && gathering.due(deadline_ns));
//! let (closing, _block) = gathering.close(deadline_ns);
//! assert_eq!((closing.expected, closing.missing.len()), (2, 2));
//! ```

#![forbid(unsafe_code)]

pub mod agent;
pub mod block;
pub mod bus;
pub mod bytes;
pub mod columns;
pub mod datagram;
pub mod export;
pub mod flows;
pub mod gather;
pub mod lines;
pub mod links;
pub mod node;
pub mod packed;
pub mod server;
pub mod shape;
pub mod store;
pub mod stream;
pub mod tick;
pub mod tls;
pub mod wire;

use rustix::time::Timespec;
use std::fmt;

/// A length of time as the kernel takes it.
fn timespec(ns: u64) -> Timespec {
    Timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    }
}

/// Why something from the network or from a store is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(String);

impl Refusal {
    /// A refusal that says what was found.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}
