//! The bounds on names and values, and what makes room: names of silent nodes, and kinds of sources without a node.

use super::members::Member;
use super::{Channel, Gathering};
use crate::Refusal;
use crate::block::MOST_NODES;
use crate::node::NodeState;
use crate::wire::{Hello, Origin};
use std::collections::HashSet;

/// Minimum number of shapes at which unused ones are reclaimed.
const SWEEP_AT: usize = 64;
/// At a bound, one in so many of the nodes may ask for room before all of them are looked through again.
const SWEEP_EVERY: usize = 8;

/// Sources without a successor that are told between two ticks.
const MOST_GONE: usize = 64;

/// State of the search for room.
#[derive(Clone, Debug)]
pub(super) struct Room {
    names: Sweep,
    shapes: Sweep,
    /// Number of shapes at which unused ones are reclaimed.
    shapes_at: usize,
    /// Bytes that the nodes of lines take elsewhere.
    lines: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            names: Sweep::default(),
            shapes: Sweep::default(),
            shapes_at: SWEEP_AT,
            lines: 0,
        }
    }
}

/// A search through all nodes. At a bound every newcomer asks for it: without a limit, a flood of them would cost the
/// square of their number.
#[derive(Clone, Debug, Default)]
struct Sweep {
    tick: u64,
    asked: usize,
}

impl Sweep {
    /// Whether to search: for the first one that asks in a tick, then for every eighth of the nodes.
    fn is_due(&mut self, tick: u64, nodes: usize) -> bool {
        self.asked += 1;
        let due = self.tick != tick || SWEEP_EVERY * self.asked >= nodes;
        if due {
            *self = Self { tick, asked: 0 };
        }
        due
    }
}

impl Gathering {
    /// Adds a name that is not known yet; the names of silent nodes make room.
    pub(super) fn newcomer(
        &mut self,
        hello: &Hello,
        channel: Channel,
        now_ns: u64,
    ) -> Result<u32, Refusal> {
        if !self.rules.expected.is_empty() {
            return Err(Refusal::new(format!(
                "node {}, which is not among the {} expected ones",
                hello.node, self.expected
            )));
        }
        if !self.has_room(channel) && self.room.names.is_due(self.open, self.members.all.len()) {
            self.reclaim_names(now_ns);
        }
        if !self.has_room(channel) {
            return Err(Refusal::new(format!(
                "one more node than {}, for which neither numbers nor --memory are left",
                self.members.len()
            )));
        }
        let state = NodeState::new(&hello.node, hello.boot, hello.start);
        // By packet, a name is expected from its first report on.
        let expected = matches!(channel, Channel::Stream(_));
        let id = self.add(state, expected);
        if let Some(oldest) = self.members.add_newcomer(id) {
            self.remove(oldest);
        }
        Ok(id)
    }

    /// Drops the names of nodes that have been silent for long.
    fn reclaim_names(&mut self, now_ns: u64) {
        let forget_ns = self.forget_ns();
        let silent: Vec<u32> = (self.members.all.iter().zip(0u32..))
            .filter(|(m, _)| !m.state.name.is_empty() && !m.expected)
            .filter(|(m, _)| !matches!(m.channel, Channel::Stream(_)))
            .filter(|(m, _)| now_ns > m.heard_ns.max(m.greeted_ns).max(self.began_ns) + forget_ns)
            .map(|(_, id)| id)
            .collect();
        silent.into_iter().for_each(|id| self.remove(id));
    }

    /// Frees the shapes that no node has any more.
    fn reclaim_shapes(&mut self) {
        let mut used = HashSet::new();
        for member in &self.members.all {
            used.extend(member.state.sources.iter().flatten().map(|h| h.shape));
        }
        let freed = self.shapes.retain(|id| used.contains(&id));
        for &id in &freed {
            if let Some(segment) = self.segment.shapes.get_mut(id as usize) {
                *segment = 0;
            }
        }
        self.events.reclaimed_shapes += freed.len() as u64;
        self.room.shapes_at = SWEEP_AT.max(2 * self.shapes.len());
    }

    /// Bytes of names and values, with those that lines take elsewhere.
    pub(super) fn memory(&self) -> usize {
        self.bytes + self.room.lines + self.shapes.memory()
    }

    /// Whether there is room for one more name or counter that comes by a channel. Lines leave a quarter to agents.
    pub fn has_room(&self, channel: Channel) -> bool {
        let share = |most: usize| match channel {
            Channel::Lines => most / 4 * 3,
            _ => most,
        };
        self.members.len() < share(MOST_NODES) && self.memory() < share(self.rules.memory_bytes)
    }

    /// Sets the bytes that the nodes of lines take outside of this state.
    pub fn hold_lines(&mut self, bytes: usize) {
        self.room.lines = bytes;
    }

    /// Drops the sources of earlier agents of a node that the present one has not.
    pub(super) fn drop_undeclared(&mut self, id: u32) {
        let Member {
            state, replaced, ..
        } = &mut self.members[id];
        let mut earlier = std::mem::take(replaced);
        let dropped = state.drop_undeclared();
        earlier.extend(
            dropped
                .iter()
                .map(|&s| self.shapes.layout(s).source.as_str().into()),
        );
        if earlier.is_empty() {
            return;
        }
        let held = state.sources.iter().flatten();
        let now: Vec<&str> = held.map(|h| &*self.shapes.layout(h.shape).source).collect();
        // A source that is still read may have another place, or other ports.
        for source in earlier.iter().filter(|s| !now.contains(&&***s)) {
            self.events.gone_sources += 1;
            if self.gone.len() < MOST_GONE {
                let name = &state.name;
                let text = format!("{name}: the agent that started last has no source {source}");
                self.gone.push(text);
            }
        }
        self.measure(id);
    }

    /// Updates the bytes of a node's sources.
    fn measure(&mut self, id: u32) {
        let member = &mut self.members[id];
        let sources = member.state.sources.iter().flatten();
        let bytes: usize = sources.map(|s| size_of_val(s.values.words()) + 128).sum();
        self.bytes = self.bytes + bytes - member.bytes;
        member.bytes = bytes;
    }

    pub(super) fn declare(&mut self, id: u32, origin: Origin, shape: &[u8]) -> Result<(), Refusal> {
        let new = self.shapes.find(shape).is_none();
        let nodes = self.members.all.len();
        let many = self.shapes.len() >= self.room.shapes_at;
        if new && (many || self.shapes.is_full() && self.room.shapes.is_due(self.open, nodes)) {
            self.reclaim_shapes();
        }
        let shape = self.shapes.intern(shape)?;
        let member = &mut self.members[id];
        let held = member.state.sources.get(usize::from(origin.source));
        if let Some(Some(held)) = held
            && !held.declared
            && held.shape != shape
        {
            let source = &self.shapes.layout(held.shape).source;
            member.replaced.push(source.as_str().into());
        }
        member.state.declare(origin, shape, &self.shapes)?;
        member.segment = 0;
        self.measure(id);
        let full = self.memory() > self.rules.memory_bytes;
        if full && self.room.shapes.is_due(self.open, nodes) {
            self.reclaim_shapes();
        }
        if self.memory() > self.rules.memory_bytes {
            let member = &mut self.members[id];
            member.state.sources.clear();
            self.bytes -= std::mem::take(&mut member.bytes);
            return Err(Refusal::new(format!(
                "counters of {}: they would take more than the {} MB that --memory allows",
                self.name(id),
                self.rules.memory_bytes / 1_000_000
            )));
        }
        Ok(())
    }
}
