//! The collector's logic without sockets and clocks: files reports under their ticks and closes ticks.
//!
//! Reports are filed under the tick in their header. The open tick closes when all expected nodes have
//! reported or the deadline after its start has passed ([`Gathering::due`]), to which the time is added that a node of the
//! tick says its reading takes. Later reports are stored too
//! and listed in the next closing. Only the latest values of each node are held in memory.

use crate::Refusal;
use crate::block::{Absence, Arrival, Closing, LONGEST_BLOCK, Late, MOST_NODES, Writer};
use crate::bytes::Take;
use crate::earlier::Agent;
use crate::node::{NodeState, Shapes};
use crate::store::Remembered;
use crate::wire::{Header, Hello, Origin};

mod members;
mod room;

use self::members::NODE_BYTES;
pub use self::members::{Channel, Members};
use self::room::Room;

/// Parameters of a collector.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Tick length.
    pub period_ns: u64,
    /// Time from the start of a tick to its deadline.
    pub deadline_ns: u64,
    /// Names of expected nodes; if empty, every node is expected from its first report on.
    pub expected: Vec<String>,
    /// Ticks without a report after which an unnamed node is no longer expected.
    pub forget_ticks: u64,
    /// Bound on the bytes of values and names in memory.
    pub memory_bytes: usize,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            period_ns: 1_000_000_000,
            deadline_ns: 250_000_000,
            expected: Vec::new(),
            forget_ticks: 600,
            memory_bytes: 2 << 30,
        }
    }
}

/// A part of the stream of blocks that is self-contained: a log file or a viewer's stream.
#[derive(Clone, Debug, Default)]
struct Segment {
    number: u32,
    shapes: Vec<u32>,
    /// Whether the next block begins a new segment.
    ends: bool,
}

/// State of the collector.
#[derive(Clone, Debug)]
pub struct Gathering {
    rules: Rules,
    shapes: Shapes,
    members: Members,
    segment: Segment,
    block: Writer,
    open: u64,
    reported: u64,
    expected: u64,
    late: Vec<Late>,
    skipped: u64,
    /// Bytes of names and values.
    bytes: usize,
    room: Room,
    /// Sentences about sources that a node's agent had and its successor has not.
    gone: Vec<String>,
    /// Nodes whose readings take a large part of the deadline, and how long they take: queries of a whole fabric.
    slow: Vec<(u32, u64)>,
    /// Time of the start: nodes of the store count as silent from then on.
    began_ns: u64,
    /// Events since the start.
    pub events: Events,
}

/// Events since the start of a collector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Packets that repeat or precede one that arrived.
    pub stale_packets: u64,
    /// Names dropped before their first report, or long after their last one.
    pub forgotten_names: u64,
    /// Shapes that no node has any more.
    pub reclaimed_shapes: u64,
    /// Sources that a node's agent had and its successor has not.
    pub gone_sources: u64,
}

/// Acknowledgements are spread over this many ticks: an eighth of a packet per node and tick.
const ACKNOWLEDGE_EVERY: u64 = 8;
/// Ticks that an unsynchronised clock may be ahead.
const AHEAD_TICKS: u64 = 1;
/// Ticks that are closed one by one after a pause; more are skipped and counted.
const CATCH_UP: u64 = 2;
/// A reading is slow if it takes more than this part of the deadline.
const SLOW: u64 = 4;
/// Late reports and bytes of a block beyond which a backlog waits for the next tick.
const MOST_LATE: usize = 100_000;
const FULL_BLOCK: usize = 64 << 20;
/// Bytes of a block beyond which reports are refused on every path: agents send them again. The rest up to the
/// longest block that readers accept is for the closing and for one more report with its sources.
const MOST_BLOCK: usize = LONGEST_BLOCK - (192 << 20);
/// Periods of silence after which another agent may take over a node name.
const TAKE_OVER_PERIODS: u64 = 3;

impl Gathering {
    /// Starts with the tick after `now_ns`.
    pub fn new(rules: Rules, now_ns: u64) -> Self {
        let mut gathering = Self {
            open: now_ns / rules.period_ns + 1,
            shapes: Shapes::default(),
            members: Members::default(),
            segment: Segment {
                number: 1,
                ..Segment::default()
            },
            block: Writer::default(),
            reported: 0,
            expected: 0,
            late: Vec::new(),
            skipped: 0,
            bytes: 0,
            room: Room::default(),
            gone: Vec::new(),
            slow: Vec::new(),
            began_ns: now_ns,
            events: Events::default(),
            rules,
        };
        for name in std::mem::take(&mut gathering.rules.expected) {
            // A name listed twice is one node.
            if gathering.members.find(&name).is_none() {
                gathering.add(NodeState::new(&name, 0, 0), true);
                gathering.rules.expected.push(name);
            }
        }
        gathering
    }

    fn add(&mut self, state: NodeState, expected: bool) -> u32 {
        self.expected += u64::from(expected);
        self.bytes += NODE_BYTES;
        self.members.add(state, expected)
    }

    /// Drops a name with its values.
    fn remove(&mut self, id: u32) {
        let member = &self.members[id];
        self.expected -= u64::from(member.expected);
        self.reported = self
            .reported
            .saturating_sub(u64::from(member.expected && member.tick >= self.open));
        self.bytes -= NODE_BYTES + member.bytes;
        self.members.remove(id);
        self.events.forgotten_names += 1;
    }

    /// Silence after which a node is no longer expected.
    pub fn forget_ns(&self) -> u64 {
        self.rules.forget_ticks * self.rules.period_ns
    }

    /// Restores a node from the store: its sources and the highest stored sequence number.
    pub fn remember(&mut self, known: &Remembered) {
        let state = &known.state;
        let named = !self.rules.expected.is_empty();
        let found = self.members.find(&state.name);
        if found.is_none() && (named || self.members.len() >= MOST_NODES) {
            return;
        }
        let id = found.unwrap_or_else(|| {
            self.add(NodeState::new(&state.name, state.boot, state.start), false)
        });
        let member = &mut self.members[id];
        (member.state.boot, member.state.start) = (state.boot, state.start);
        member.state.earlier = state.earlier.clone();
        member.sequence = state.header.sequence;
        member.kept = state.header.sequence;
        member.reported = true;
        for (origin, shape) in &known.sources {
            // Beyond --memory: the agent is asked for its hello and then receives the refusal.
            if self.declare(id, origin.clone(), shape).is_err() {
                break;
            }
        }
    }

    /// Handles an agent's hello. Returns the node's number and the highest stored sequence number.
    pub fn hello(
        &mut self,
        hello: &Hello,
        channel: Channel,
        now_ns: u64,
    ) -> Result<(u32, u64), Refusal> {
        if hello.period_ns != self.rules.period_ns {
            return Err(Refusal::new(format!(
                "node {} samples every {} s, this collector closes a tick every {} s",
                hello.node,
                hello.period_ns as f64 / 1e9,
                self.rules.period_ns as f64 / 1e9
            )));
        }
        let id = match self.members.find(&hello.node) {
            Some(id) => id,
            None => self.newcomer(hello, channel, now_ns)?,
        };
        let quiet_ns = TAKE_OVER_PERIODS * self.rules.period_ns;
        let member = &mut self.members[id];
        let same = member.state.start == hello.start && member.state.boot == hello.boot;
        // An agent takes precedence over lines from other tools.
        let speaks = !matches!(member.channel, Channel::None | Channel::Lines);
        let alive = speaks && now_ns < member.heard_ns + quiet_ns;
        let succeeds = channel == Channel::Log && hello.start > member.state.header.time_ns;
        if !same && alive && !succeeds {
            let whose = if member.state.boot == hello.boot {
                "another one of the same machine"
            } else {
                "one of another machine, or of this one before it booted,"
            };
            return Err(Refusal::new(format!(
                "a second agent named {}: {whose} reported under this name within \
                 {TAKE_OVER_PERIODS} ticks; give one of them another --name",
                hello.node
            )));
        }
        if !same {
            member.reset |= member.state.boot != 0 && member.state.boot != hello.boot;
            let was = Agent {
                boot: member.state.boot,
                start: member.state.start,
                sequence: member.sequence,
                kept: member.kept,
            };
            let now = member.state.earlier.change(was, hello.boot, hello.start);
            (member.state.boot, member.state.start) = (now.boot, now.start);
            (member.sequence, member.kept, member.acknowledged) = (now.sequence, now.kept, 0);
            member.state.expect_declarations();
        }
        if !member.expected && matches!(channel, Channel::Stream(_)) {
            member.expected = true;
            self.expected += 1;
        }
        member.state.forget_base();
        member.segment = 0;
        member.channel = channel;
        member.heard_ns = now_ns;
        member.greeted_ns = now_ns;
        Ok((id, member.kept))
    }

    /// Handles the declaration of a source: its [`Origin`] and its shape.
    pub fn source(&mut self, id: u32, body: &[u8]) -> Result<(), Refusal> {
        let mut take = Take(body);
        let origin = Origin::take(&mut take)?;
        self.declare(id, origin, take.0)
    }

    /// Sets the channel of a node that was restored from the store and reports by packet without a hello.
    pub fn heard_on(&mut self, id: u32, channel: Channel) {
        let member = &mut self.members[id];
        if member.channel == Channel::None {
            member.channel = channel;
            self.expected += u64::from(!std::mem::replace(&mut member.expected, true));
        }
    }

    /// Whether a node's last report is older than the tick that closed last.
    pub fn is_behind(&self, id: u32) -> bool {
        let member = &self.members[id];
        member.reported && member.state.header.tick + 1 < self.open
    }

    /// Whether the tick's block is full, so that further input waits for the next tick.
    pub fn is_full(&self) -> bool {
        self.late.len() >= MOST_LATE || self.block.bytes().len() >= FULL_BLOCK
    }

    /// Handles a report. Reports that are already stored are skipped.
    pub fn report(&mut self, id: u32, body: &[u8], now_ns: u64) -> Result<(), Refusal> {
        if self.block.bytes().len() > MOST_BLOCK {
            return Err(Refusal::new(format!(
                "a report beyond the {MOST_BLOCK} bytes of a tick; send it again"
            )));
        }
        let member = &mut self.members[id];
        // A packet holds absolute values: one that was replayed or overtaken changes nothing, and is no sign of life.
        if !matches!(
            member.channel,
            Channel::Stream(_) | Channel::Log | Channel::Lines
        ) && Header::sequence(body)? <= member.sequence
        {
            self.events.stale_packets += 1;
            return Ok(());
        }
        self.drop_undeclared(id);
        let member = &mut self.members[id];
        let seen = member.state.apply(body, &self.shapes);
        let seen = seen.inspect_err(|_| {
            member.segment = 0;
            member.state.forget_base();
        })?;
        let header = member.state.header;
        let tick = header.tick;
        member.heard_ns = now_ns;
        if header.sequence <= member.sequence {
            // Later differences build on this report, which is not in the block: start from absolute values.
            member.segment = 0;
            return Ok(());
        }
        member.sequence = header.sequence;
        member.reported = true;
        if member.channel != Channel::Lines {
            self.expected += u64::from(!std::mem::replace(&mut member.expected, true));
        }
        member.reset |= seen.reset;
        member.frozen |= seen.frozen;
        member.failed |= seen.failed > 0;
        let arrival = if tick > now_ns / self.rules.period_ns + AHEAD_TICKS {
            member.ahead = true;
            Arrival::Ahead
        } else if tick < self.open {
            if member.channel != Channel::Lines {
                member.behind = true;
                let delay_ns = now_ns.wrapping_sub(header.time_ns) as i64;
                self.late.push(Late {
                    node: id,
                    tick,
                    delay_ns,
                });
            }
            Arrival::Late
        } else {
            if tick == self.open && member.tick < tick {
                self.reported += u64::from(member.expected);
            }
            member.tick = member.tick.max(tick);
            Arrival::OnTime
        };
        self.file(id, arrival, body);
        Ok(())
    }

    /// Writes the latest report of a member into the block: as received, or with absolute values if the
    /// segment does not contain the member yet.
    fn file(&mut self, id: u32, arrival: Arrival, body: &[u8]) {
        if self.members[id].segment == self.segment.number {
            self.block.report(id, arrival, body);
            return;
        }
        self.introduce(id);
        let state = &self.members[id].state;
        self.block.whole_report(id, arrival, state);
    }

    fn introduce(&mut self, id: u32) {
        let member = &mut self.members[id];
        member.segment = self.segment.number;
        member.named = self.segment.number;
        self.block.node(id, &member.state);
        for held in member.state.sources.iter().flatten() {
            let shape = held.shape as usize;
            if self.segment.shapes.len() <= shape {
                self.segment.shapes.resize(shape + 1, 0);
            }
            if self.segment.shapes[shape] != self.segment.number {
                self.segment.shapes[shape] = self.segment.number;
                self.block.shape(held.shape, self.shapes.bytes(held.shape));
            }
            self.block.source(id, &held.origin, held.shape);
        }
    }

    /// Handles the end of a connection.
    pub fn gone(&mut self, id: u32, channel: Channel) {
        let member = &mut self.members[id];
        if member.channel != channel {
            return;
        }
        member.channel = Channel::None;
        if !member.reported && self.rules.expected.is_empty() {
            self.remove(id);
        }
    }

    /// The channel of a node.
    pub fn channel(&self, id: u32) -> Channel {
        self.members[id].channel
    }

    /// All known nodes.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// The next block begins a new segment.
    pub fn begin_segment(&mut self) {
        self.segment.ends = true;
    }

    /// Deadline of the open tick: later by the readings of nodes that are still expected, up to a period.
    pub fn closes_ns(&self) -> u64 {
        let Rules {
            period_ns,
            deadline_ns,
            ..
        } = self.rules;
        let awaited = self.slow.iter().filter(|&&(id, _)| {
            let member = &self.members[id];
            member.expected && member.channel != Channel::None && member.tick < self.open
        });
        let longest = awaited.map(|&(_, took_ns)| took_ns).max().unwrap_or(0);
        let lasts = deadline_ns.saturating_add(longest);
        self.open * period_ns + lasts.min(period_ns.max(deadline_ns))
    }

    /// Whether the open tick must close.
    pub fn due(&self, now_ns: u64) -> bool {
        let complete = self.expected > 0 && self.reported >= self.expected;
        let begun = now_ns >= self.open * self.rules.period_ns;
        now_ns >= self.closes_ns() || (complete && begun) || self.is_far_off(now_ns)
    }

    /// Whether the clock was set back: the open tick would begin long after the next one by the clock.
    fn is_far_off(&self, now_ns: u64) -> bool {
        now_ns / self.rules.period_ns + CATCH_UP < self.open
    }

    /// Closes the open tick and begins the next. The block is valid until [`Gathering::next`].
    pub fn close(&mut self, now_ns: u64) -> (Closing, &[u8]) {
        let closing = self.closing(now_ns);
        let absent: Vec<u32> = closing.missing.iter().map(|m| m.0).collect();
        for id in absent {
            let member = &mut self.members[id];
            if std::mem::replace(&mut member.named, self.segment.number) != self.segment.number {
                // Its sources follow with its next report.
                self.block.node(id, &member.state);
            }
        }
        (closing.clone(), self.block.close(&closing))
    }

    fn closing(&mut self, now_ns: u64) -> Closing {
        let mut closing = Closing {
            tick: self.open,
            period_ns: self.rules.period_ns,
            closed_ns: now_ns,
            expected: self.expected,
            skipped: std::mem::take(&mut self.skipped),
            late: std::mem::take(&mut self.late),
            ..Closing::default()
        };
        let mut times: Option<(u64, u64)> = None;
        self.slow.clear();
        for (member, id) in self.members.all.iter_mut().zip(0u32..) {
            let here = member.tick >= self.open;
            if here && member.state.header.tick == self.open {
                let t = member.state.header.time_ns;
                times = Some(times.map_or((t, t), |(a, b)| (a.min(t), b.max(t))));
            }
            let took_ns = member.state.header.took_ns;
            if member.expected && took_ns.saturating_mul(SLOW) > self.rules.deadline_ns {
                self.slow.push((id, took_ns));
            }
            if here {
                closing.reported += u64::from(member.expected);
            } else if member.expected {
                let connected = member.channel != Channel::None;
                let why = match (connected, member.heard_ns) {
                    (true, _) if member.behind => Absence::Behind,
                    (true, _) => Absence::Silent,
                    (_, 0) => Absence::Never,
                    _ => Absence::Gone,
                };
                closing.missing.push((id, why));
                let mute = why == Absence::Silent && !member.ahead;
                member.frozen |= mute && member.tick > 0;
            }
            member.behind = false;
            let flags = [
                (&mut member.reset, &mut closing.reset),
                (&mut member.frozen, &mut closing.frozen),
                (&mut member.ahead, &mut closing.ahead),
                (&mut member.failed, &mut closing.failed),
            ];
            for (flag, list) in flags {
                if std::mem::take(flag) {
                    list.push(id);
                }
            }
        }
        closing.spread_ns = times
            .filter(|(a, b)| a < b || closing.reported > 1)
            .map(|(a, b)| b - a);
        closing
    }

    /// Opens the next tick. If the block was `kept`, its reports may be acknowledged. If not, agents must
    /// reconnect and send them again.
    pub fn next(&mut self, now_ns: u64, kept: bool) {
        self.block.clear();
        // Without a store no log ends.
        self.segment.ends |= self.members.has_many_retired();
        if std::mem::take(&mut self.segment.ends) {
            self.segment.number += 1;
            self.members.begin_segment();
        }
        self.open += 1;
        let now_tick = now_ns / self.rules.period_ns;
        if now_tick > self.open + CATCH_UP {
            self.skipped = now_tick - self.open;
            self.open = now_tick;
            // The collector stood, or its clock was set: no node was silent meanwhile.
            self.began_ns = self.began_ns.max(now_ns);
        } else if self.is_far_off(now_ns) {
            // Continue with the tick numbers of the agents' clocks. Earlier times would count as signs of life until the
            // clock reaches them.
            self.open = now_tick + 1;
            self.began_ns = self.began_ns.min(now_ns);
            for member in &mut self.members.all {
                member.tick = member.tick.min(now_tick);
                member.heard_ns = member.heard_ns.min(now_ns);
                member.greeted_ns = member.greeted_ns.min(now_ns);
            }
        }
        let forget_ns = self.forget_ns();
        let learned = self.rules.expected.is_empty();
        self.reported = 0;
        for member in &mut self.members.all {
            if kept {
                member.kept = member.sequence;
            } else {
                member.sequence = member.kept;
                // The stream is read again from before this tick: earlier agents of the name come first.
                if member.channel == Channel::Log {
                    member.channel = Channel::None;
                }
            }
            member.state.earlier.settle(kept);
            self.reported += u64::from(member.expected && member.tick >= self.open);
            let silent = now_ns > member.heard_ns.max(self.began_ns) + forget_ns;
            let holds = member.expected || member.bytes > 0;
            if learned && silent && holds && !matches!(member.channel, Channel::Stream(_)) {
                self.expected -= u64::from(std::mem::take(&mut member.expected));
                self.bytes -= std::mem::take(&mut member.bytes);
                member.state.sources = Vec::new();
                member.channel = Channel::None;
            }
        }
    }

    /// Sends pending acknowledgements: calls `send` with channel and sequence number of every node in this
    /// tick's share, or of all nodes.
    pub fn acknowledge(&mut self, all: bool, mut send: impl FnMut(Channel, u64)) {
        let turn = self.open % ACKNOWLEDGE_EVERY;
        for (member, id) in self.members.all.iter_mut().zip(0u64..) {
            let due = all || id % ACKNOWLEDGE_EVERY == turn;
            if due && member.kept > member.acknowledged && member.channel != Channel::None {
                member.acknowledged = member.kept;
                send(member.channel, member.kept);
            }
        }
    }

    /// Tick length.
    pub fn period_ns(&self) -> u64 {
        self.rules.period_ns
    }

    /// Sentences about sources that a node's agent had and its successor has not, each once.
    pub fn gone_sources(&mut self) -> Vec<String> {
        std::mem::take(&mut self.gone)
    }

    /// Number of known nodes, and bytes of their values.
    pub fn size(&self) -> (usize, usize) {
        (self.members.len(), self.memory())
    }

    /// The name of a node.
    pub fn name(&self, id: u32) -> &str {
        &self.members[id].state.name
    }

    /// The last closed block.
    pub fn block(&self) -> &[u8] {
        self.block.bytes()
    }
}

#[cfg(test)]
mod tests;
