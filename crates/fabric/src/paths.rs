//! What the transports of nodes count on the paths between them, such as TCP.

use crate::ids::NodeId;
use std::collections::BTreeMap;

/// Counts of one direction over an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PathCounts {
    /// Payload that the sender's transport sent.
    pub sent_bytes: f64,
    /// Its packets, with those sent again.
    pub packets: f64,
    /// Packets sent again that were lost: those that the receiver had already are not among them.
    pub lost: f64,
}

/// By sender and receiver.
pub type Paths = BTreeMap<(NodeId, NodeId), PathCounts>;

impl PathCounts {
    /// Adds the counts of another connection or interval.
    pub fn add(&mut self, other: &Self) {
        self.sent_bytes += other.sent_bytes;
        self.packets += other.packets;
        self.lost += other.lost;
    }
}
