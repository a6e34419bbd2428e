//! Collection of every node's counters: agents read them each second, a collector gathers them, a store
//! keeps them.
//!
//! One tick is one second of UTC (or another period). Every agent reads its node's counters at the start
//! of a tick and pushes them. The collector closes the tick when all expected nodes have reported or a
//! deadline has passed, and lists missing, late, reset and frozen nodes ([`gather`]). The reports of a
//! tick form a block of bytes ([`block`]). It is stored before it is acknowledged and sent to viewers.
//! The same code decodes it in a replay.
//!
//! All data from the network is untrusted: sizes are bounded, names are validated, and a refusal states
//! the value found.
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
pub mod earlier;
pub mod export;
pub mod flows;
pub mod gather;
#[cfg(test)]
mod histories;
pub mod lines;
pub mod links;
pub mod node;
pub mod packed;
pub mod renewed;
pub mod restart;
pub mod server;
pub mod shape;
pub mod store;
pub mod stream;
pub mod tick;
pub mod tls;
pub mod wire;

use rustix::time::Timespec;
use std::fmt;

/// A duration in the kernel's format.
fn timespec(ns: u64) -> Timespec {
    Timespec {
        tv_sec: (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    }
}

/// A tick length in nanoseconds.
///
/// # Errors
/// Shorter than 10 ms or longer than an hour.
pub fn period_ns(seconds: f64) -> Result<u64, Refusal> {
    if !(0.01..=3600.0).contains(&seconds) {
        let text = format!("a period of {seconds} s, expected 0.01 to 3600");
        return Err(Refusal::new(text));
    }
    Ok((seconds * 1e9).round() as u64)
}

/// The reason why data from the network or a store is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(String);

impl Refusal {
    /// A refusal that states the value found.
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
