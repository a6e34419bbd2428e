//! The nodes that the collector knows: by number, by name, and fetched before they are needed.

use crate::ahead;
use crate::node::NodeState;
use hashbrown::HashTable;
use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::ops::{Index, IndexMut};

/// How a node talks to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// Not at the moment.
    None,
    /// A connection.
    Stream(u32),
    /// Datagrams from an address.
    Datagrams(SocketAddr),
    /// A subject of a message bus.
    Bus,
    /// A stream of a bus, that is read from where the store ends: an agent and its successor may come
    /// in one go.
    Log,
    /// Lines of other tools, at times of their own: nobody waits for them.
    Lines,
}

/// A node as the collector knows it.
#[derive(Debug)]
pub struct Member {
    pub(super) state: NodeState,
    pub(super) channel: Channel,
    pub(super) expected: bool,
    pub(super) heard_ns: u64,
    /// Latest tick that was reported.
    pub(super) tick: u64,
    /// Highest sequence number that came, and that is kept.
    pub(super) sequence: u64,
    pub(super) kept: u64,
    pub(super) acknowledged: u64,
    /// Segments in which it was introduced, and in which it was named, last.
    pub(super) segment: u32,
    pub(super) named: u32,
    pub(super) reset: bool,
    pub(super) frozen: bool,
    pub(super) failed: bool,
    pub(super) ahead: bool,
    /// Whether a report of an earlier tick came since the last closing.
    pub(super) behind: bool,
    pub(super) bytes: usize,
}

/// How near [`Members::approach`] comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// What is known of the node.
    Member,
    /// Its sources.
    Sources,
    /// Their values.
    Values,
}

/// Nodes by number.
#[derive(Debug, Default)]
pub struct Members {
    pub(super) all: Vec<Member>,
    /// Numbers by the hash of the names.
    by_name: HashTable<u32>,
    hashes: RandomState,
}

impl Members {
    /// Adds a node of another name than all others; returns its number.
    pub(super) fn add(&mut self, state: NodeState, expected: bool) -> u32 {
        let id = self.all.len() as u32;
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
        let (all, hashes) = (&self.all, &self.hashes);
        let hash = |&id: &u32| hashes.hash_one(&*all[id as usize].state.name);
        self.by_name.insert_unique(hash(&id), id, hash);
        id
    }

    /// The number of a node.
    pub fn find(&self, name: &str) -> Option<u32> {
        self.find_hashed(self.hash(name), name)
    }

    /// What [`Members::find_hashed`] wants to know of a name.
    pub fn hash(&self, name: &str) -> u64 {
        self.hashes.hash_one(name)
    }

    /// The number of a node. Of many nodes all hashes first: the processor then looks for several at once.
    #[inline]
    pub fn find_hashed(&self, hash: u64, name: &str) -> Option<u32> {
        let is = |&id: &u32| *self[id].state.name == *name;
        self.by_name.find(hash, is).copied()
    }

    /// Whether the agent of a node began at this moment.
    pub fn began_at(&self, id: u32, start: u64) -> bool {
        self[id].state.start == start
    }

    /// A report of a node comes soon: fetches what is known of it, a step nearer to its values each time.
    /// Every step looks at what the one before it fetched.
    #[inline]
    pub fn approach(&self, id: u32, step: Step) {
        let sources = &self[id].state.sources;
        match step {
            Step::Member => ahead::fetch(&self[id]),
            Step::Sources => ahead::fetch(&sources[..]),
            Step::Values => sources
                .iter()
                .flatten()
                .for_each(|held| ahead::fetch(held.values.words())),
        }
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
