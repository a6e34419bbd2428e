//! The nodes known to the collector, by number and by name.

use crate::node::NodeState;
use std::collections::{HashMap, VecDeque};
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
    /// Whether it ever reported, also to an earlier collector with the same store.
    pub(super) reported: bool,
    /// Time of the last hello, by the collector's clock; 0: none since the start of the collector.
    pub(super) greeted_ns: u64,
    /// Sources of an earlier agent whose numbers the present one declared for others.
    pub(super) replaced: Vec<Box<str>>,
    /// Distinguishes the names that a number had.
    born: u64,
}

impl Member {
    fn new(state: NodeState, expected: bool, born: u64) -> Self {
        Self {
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
            reported: false,
            greeted_ns: 0,
            replaced: Vec::new(),
            born,
        }
    }
}

/// Bytes of a node without sources, for the bound on memory.
pub(super) const NODE_BYTES: usize = 512;
/// Names that have not reported yet, other than of open connections.
const MOST_NEWCOMERS: usize = 4096;

/// Words of 64 bits in two neighbouring lines of the processor's cache, of which it fetches both.
const WORDS_OF_PAIR: usize = 16;
/// Maximum number of pairs fetched at a time, 256 kB: a packet without a proof may name a node with many counters.
const MOST_FETCHED: usize = 2048;

/// Nodes by number.
#[derive(Clone, Debug, Default)]
pub struct Members {
    pub(super) all: Vec<Member>,
    by_name: HashMap<Box<str>, u32>,
    /// Names that have not reported yet, oldest first.
    newcomers: VecDeque<(u32, u64)>,
    /// Numbers without a name: usable now, and from the next segment on.
    free: Vec<u32>,
    retired: Vec<u32>,
    births: u64,
    changes: u64,
}

impl Members {
    /// Adds a node with a new name; returns its number.
    pub(super) fn add(&mut self, state: NodeState, expected: bool) -> u32 {
        let name = state.name.clone();
        self.births += 1;
        self.changes += 1;
        let member = Member::new(state, expected, self.births);
        let id = match self.free.pop() {
            Some(id) => {
                self.all[id as usize] = member;
                id
            }
            None => {
                self.all.push(member);
                self.all.len() as u32 - 1
            }
        };
        self.by_name.insert(name, id);
        id
    }

    /// Lists a name that has not reported yet; returns the oldest one beyond their maximum number.
    pub(super) fn add_newcomer(&mut self, id: u32) -> Option<u32> {
        self.newcomers.push_back((id, self[id].born));
        while self.newcomers.len() > MOST_NEWCOMERS {
            let (id, born) = self.newcomers.pop_front()?;
            let member = &self[id];
            let bounded = matches!(member.channel, Channel::Stream(_) | Channel::Lines);
            if member.born == born && !member.reported && !bounded {
                return Some(id);
            }
        }
        None
    }

    /// Drops a name. Its number is given to another one in the next segment.
    pub(super) fn remove(&mut self, id: u32) {
        let name = self[id].state.name.clone();
        self.changes += 1;
        self.by_name.remove(&name);
        self[id] = Member::new(NodeState::new("", 0, 0), false, 0);
        self.retired.push(id);
    }

    /// Whether so many names were dropped that their numbers are needed again.
    pub(super) fn has_many_retired(&self) -> bool {
        self.retired.len() >= MOST_NEWCOMERS
    }

    /// A segment begins: numbers of dropped names may be used again.
    pub(super) fn begin_segment(&mut self) {
        self.free.append(&mut self.retired);
    }

    /// Number of names.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there are no names.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// The number of a node.
    pub fn find(&self, name: &str) -> Option<u32> {
        self.by_name.get(name).copied()
    }

    /// Changes when a name is added or dropped: until then, numbers that were found stay valid.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Fetches values of nodes whose reports are handled next. The values of 10,000 nodes are larger than the processor's
    /// cache; here it waits for those of several nodes at the same time, later for one after the other.
    pub fn fetch(&self, ids: impl Iterator<Item = u32>) {
        let members = ids.filter_map(|id| self.all.get(id as usize));
        let held = members.flat_map(|m| m.state.sources.iter().flatten());
        let pairs = held.flat_map(|held| held.values.words().chunks(WORDS_OF_PAIR));
        // The loads are of use if their values are not.
        std::hint::black_box(pairs.take(MOST_FETCHED).fold(0, |sum, pair| sum ^ pair[0]));
    }

    /// Whether the node's agent started at this moment.
    pub fn began_at(&self, id: u32, start: u64) -> bool {
        self[id].state.start == start
    }

    /// Whether the node's agent said hello to this collector.
    pub fn has_greeted(&self, id: u32) -> bool {
        self[id].greeted_ns > 0
    }

    /// Whether something issued at a time is newer than the last hello under a name.
    pub fn is_news(&self, name: &str, issued_ns: u64) -> bool {
        self.find(name)
            .is_none_or(|id| self[id].greeted_ns < issued_ns)
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
