//! The nodes known to the collector, by number and by name.

use crate::node::NodeState;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::{Index, IndexMut};

/// The path on which a node reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// None at the moment.
    None,
    /// A connection.
    Stream(u32),
    /// Datagrams from an address.
    Datagrams(SocketAddr),
    /// A subject of a message bus.
    Bus,
    /// A JetStream stream, read from the last stored report on: reports of an agent and its successor may
    /// arrive in one read.
    Log,
    /// Lines of other tools at their own times; no tick waits for them.
    Lines,
}

/// The collector's state of a node.
#[derive(Clone, Debug)]
pub struct Member {
    pub(super) state: NodeState,
    pub(super) channel: Channel,
    pub(super) expected: bool,
    pub(super) heard_ns: u64,
    /// Latest reported tick.
    pub(super) tick: u64,
    /// Highest received and highest stored sequence number.
    pub(super) sequence: u64,
    pub(super) kept: u64,
    pub(super) acknowledged: u64,
    /// Last segment that defines the node with its sources, and last one with its name.
    pub(super) segment: u32,
    pub(super) named: u32,
    pub(super) reset: bool,
    pub(super) frozen: bool,
    pub(super) failed: bool,
    pub(super) ahead: bool,
    /// Whether a report of an earlier tick arrived since the last closing.
    pub(super) behind: bool,
    pub(super) bytes: usize,
}

/// Nodes by number.
#[derive(Clone, Debug, Default)]
pub struct Members {
    pub(super) all: Vec<Member>,
    by_name: HashMap<Box<str>, u32>,
}

impl Members {
    /// Adds a node with a new name; returns its number.
    pub(super) fn add(&mut self, state: NodeState, expected: bool) -> u32 {
        let id = self.all.len() as u32;
        self.by_name.insert(state.name.clone(), id);
        self.all.push(Member {
            state,
            channel: Channel::None,
            expected,
            heard_ns: 0,
            tick: 0,
            sequence: 0,
            kept: 0,
            acknowledged: 0,
            segment: 0,
            named: 0,
            reset: false,
            frozen: false,
            failed: false,
            ahead: false,
            behind: false,
            bytes: 0,
        });
        id
    }

    /// The number of a node.
    pub fn find(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    /// Whether the node's agent started at this moment.
    pub fn began_at(&self, id: u32, start: u64) -> bool {
        self[id].state.start == start
    }
}

impl Index<u32> for Members {
    type Output = Member;

    fn index(&self, id: u32) -> &Member {
        &self.all[id as usize]
    }
}

impl IndexMut<u32> for Members {
    fn index_mut(&mut self, id: u32) -> &mut Member {
        &mut self.all[id as usize]
    }
}
