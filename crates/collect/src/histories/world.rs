//! The state of an agent, its connections, a collector and its store, and the events that change it.

use super::PATIENCE;
use super::disk::{Block, Disk, Number, block, value};
use super::search::State;
use crate::agent::ring::Ring;
use crate::agent::session::Session;
use crate::gather::{Channel, Gathering, Rules};
use crate::server::peer::{Peer, Role};
use crate::wire::{Header, Hello, Kind, Token, frame};
use hopbyte_fabric::Quantity;
use hopbyte_observe::counters::delta::Moment;
use hopbyte_observe::counters::reading::{Layout, Port, Reading};
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::{self, Write as _};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

const SECOND: u64 = 1_000_000_000;
const T0: u64 = 1_800_000_000 * SECOND;
/// A clock that is set: by some ticks, or by more than a year.
pub const JUMPS: [i64; 3] = [-3, 400 * 86_400, -400 * 86_400];

/// Bounds on the events of a history.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Budget {
    /// Reports that agents read.
    pub reports: u8,
    /// Connections that agents begin.
    pub connections: u8,
    /// Connections that break.
    pub cuts: u8,
    /// Ticks that the collector closes.
    pub closings: u8,
    /// Writes of the store that fail.
    pub failures: u8,
    /// Kills of the collector.
    pub kills: u8,
    /// Restarts of the agent.
    pub restarts: u8,
    /// Steps of the clock.
    pub jumps: u8,
    /// Capacity of the agent's ring.
    pub ring: u8,
    /// Whether the collector requires a token.
    pub token: bool,
}

/// One step of a history.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// The agent reads its counters.
    Read,
    /// The agent connects.
    Connect,
    /// The collector receives the next write on a connection.
    Up(usize),
    /// The agent receives the next write on its connection.
    Down,
    /// The agent gives its connection up; bytes on the way to the collector still arrive.
    Leave,
    /// A connection breaks at both ends; bytes on the way are lost.
    Cut,
    /// The collector notices that the agent left.
    End(usize),
    /// The collector closes a tick and stores it; the log may be full, and all nodes' acknowledgements sent
    /// or only this tick's share.
    Close { full: bool, all: bool },
    /// The store refuses the block.
    Fail,
    /// The collector is killed: before it stores a block, within, or after.
    Kill(Moments),
    /// The agent starts again, after a reboot or not.
    Restart { boots: bool },
    /// The clock is set.
    Jump(i64),
}

/// Moments of a kill.
#[derive(Clone, Copy, Debug)]
pub enum Moments {
    /// Between ticks.
    Idle,
    /// With half a block written.
    Within,
    /// After the block, before acknowledgements.
    After,
}

/// A connection; writes arrive whole, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Wire {
    up: VecDeque<Vec<u8>>,
    /// `None`: the collector closed the connection.
    down: VecDeque<Option<Vec<u8>>>,
    /// The collector's number of it; `None` before it is accepted and after it is closed.
    slot: Option<u32>,
    closed: bool,
}

/// Hashes formatted text.
pub struct Digest(pub DefaultHasher);

impl fmt::Write for Digest {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct World {
    budget: Budget,
    now: u64,
    // The agent.
    ring: Ring,
    session: Session,
    wire: Option<usize>,
    sequence: u64,
    last_tick: u64,
    /// Reports that a full ring gave up; the agent counts them.
    evicted: BTreeSet<Number>,
    // The network.
    wires: Vec<Wire>,
    // The collector.
    token: Option<Token>,
    gathering: Gathering,
    peers: Vec<Option<(Peer, usize)>>,
    free: Vec<u32>,
    // The store.
    disk: Disk,
    /// The highest sequence number that each agent had acknowledged.
    acknowledged: BTreeMap<u64, u64>,
}

fn gathering(now: u64) -> Gathering {
    Gathering::new(Rules::default(), now)
}

/// The layout of the agent's source: one counter.
fn layout() -> Arc<Layout> {
    let mut layout = Layout::new("", "test");
    let port = Port::Named("eth0".into());
    layout.counter(&port, "bytes", Quantity::ReceivedBytes, 1.0);
    Arc::new(layout)
}

thread_local! {
    static LAYOUT: Arc<Layout> = layout();
}

/// Adds the values of a report to the agent's ring.
pub fn read(ring: &mut Ring, number: Number, tick: u64, now: u64) {
    let layout = LAYOUT.with(Arc::clone);
    let mut reading = Reading::new(layout.clone(), Moment::default());
    reading.values.set(0, value(number));
    ring.begin().take(0, Some(&reading), &layout);
    ring.end(Header {
        sequence: number.1,
        tick,
        time_ns: now,
        steady_ns: number.1 * SECOND,
        ..Header::default()
    });
}

impl State for World {
    type Event = Event;

    fn fingerprint(&self) -> u64 {
        let mut digest = Digest(DefaultHasher::new());
        (
            &self.budget,
            self.now,
            self.wire,
            self.sequence,
            self.last_tick,
        )
            .hash(&mut digest.0);
        (&self.evicted, &self.wires, &self.free).hash(&mut digest.0);
        self.acknowledged.hash(&mut digest.0);
        self.disk.digest(self.budget.kills > 0, &mut digest);
        let parts = (&self.ring, &self.session, &self.gathering, &self.peers);
        let _ = write!(digest, "{parts:?}");
        digest.0.finish()
    }

    fn events(&self) -> Vec<Event> {
        let b = &self.budget;
        let mut events = Vec::new();
        let mut add = |allowed: bool, event| events.extend(allowed.then_some(event));
        add(b.reports > 0, Event::Read);
        add(b.connections > 0 && self.wire.is_none(), Event::Connect);
        let mine = self.wire.map(|at| &self.wires[at]);
        add(mine.is_some_and(|w| !w.down.is_empty()), Event::Down);
        add(b.cuts > 0 && mine.is_some(), Event::Leave);
        add(b.cuts > 0 && mine.is_some(), Event::Cut);
        for (at, wire) in self.wires.iter().enumerate() {
            add(!wire.closed && !wire.up.is_empty(), Event::Up(at));
            let left = self.wire != Some(at) && wire.up.is_empty();
            add(left && wire.slot.is_some(), Event::End(at));
        }
        for (full, all) in [(false, true), (true, false)] {
            add(b.closings > 0, Event::Close { full, all });
        }
        add(b.closings > 0 && b.failures > 0, Event::Fail);
        add(b.kills > 0, Event::Kill(Moments::Idle));
        for moment in [Moments::Within, Moments::After] {
            add(b.kills > 0 && b.closings > 0, Event::Kill(moment));
        }
        for boots in [false, true] {
            add(b.restarts > 0, Event::Restart { boots });
        }
        for jump in JUMPS {
            add(b.jumps > 0, Event::Jump(jump));
        }
        events
    }

    fn step(&mut self, event: Event) -> Result<(), String> {
        let b = &mut self.budget;
        match event {
            Event::Read => {
                b.reports -= 1;
                self.read();
            }
            Event::Connect => {
                b.connections -= 1;
                self.connect();
            }
            Event::Up(at) => self.up(at),
            Event::Down => self.down(),
            Event::Leave => {
                b.cuts -= 1;
                self.leave();
            }
            Event::Cut => {
                b.cuts -= 1;
                if let Some(at) = self.wire {
                    self.leave();
                    self.wires[at].up.clear();
                    self.end(at);
                }
            }
            Event::End(at) => self.end(at),
            Event::Close { full, all } => {
                b.closings -= 1;
                self.close(full, all)?;
            }
            Event::Fail => {
                b.closings -= 1;
                b.failures -= 1;
                self.fail()?;
            }
            Event::Kill(moment) => {
                b.kills -= 1;
                b.closings -= u8::from(!matches!(moment, Moments::Idle));
                self.kill(moment)?;
            }
            Event::Restart { boots } => {
                b.restarts -= 1;
                self.restart(boots);
            }
            Event::Jump(seconds) => {
                b.jumps -= 1;
                self.now = self.now.saturating_add_signed(seconds * SECOND as i64);
            }
        }
        self.check()
    }

    fn settle(mut self) -> Result<(), String> {
        let reports = self.sequence;
        for _ in 0..PATIENCE {
            if self.wire.is_none() {
                self.connect();
            }
            self.read();
            self.deliver();
            self.check()?;
            self.close(false, false)?;
        }
        self.deliver();
        self.check()?;
        let acknowledged = self.ring.acknowledged();
        if acknowledged >= reports {
            return Ok(());
        }
        Err(format!(
            "{acknowledged} of {reports} reports acknowledged after {PATIENCE} ticks"
        ))
    }
}

impl World {
    pub fn new(budget: Budget) -> Self {
        let token = budget
            .token
            .then(|| Token::new(b"0123456789abcdef").unwrap());
        let hello = Hello {
            node: "n1".into(),
            boot: 1,
            start: T0,
            period_ns: SECOND,
        };
        Self {
            budget,
            now: T0,
            ring: Ring::new(budget.ring.into()),
            session: Session::new(hello, token.clone()),
            wire: None,
            sequence: 0,
            last_tick: 0,
            evicted: BTreeSet::new(),
            wires: Vec::new(),
            token,
            gathering: gathering(T0),
            peers: Vec::new(),
            free: Vec::new(),
            disk: Disk::default(),
            acknowledged: BTreeMap::new(),
        }
    }

    /// Every acknowledged report is stored.
    fn check(&mut self) -> Result<(), String> {
        let start = self.session.hello.start;
        let upto = self.ring.acknowledged();
        let before = self.acknowledged.entry(start).or_insert(0);
        let from = *before + 1;
        *before = upto.max(*before);
        for sequence in from..=upto {
            let number = (start, sequence);
            if !self.disk.stored.contains_key(&number) && !self.evicted.contains(&number) {
                return Err(format!("report {sequence} is acknowledged and not stored"));
            }
        }
        Ok(())
    }

    /// Delivers all writes on all connections.
    fn deliver(&mut self) {
        loop {
            let before = self.wires.clone();
            for at in 0..self.wires.len() {
                while !self.wires[at].closed && !self.wires[at].up.is_empty() {
                    self.up(at);
                }
                if self.wire != Some(at) {
                    self.end(at);
                }
            }
            while self.wire.is_some_and(|at| !self.wires[at].down.is_empty()) {
                self.down();
            }
            if self.wires == before {
                return;
            }
        }
    }

    fn read(&mut self) {
        let tick = |now: u64| (now + SECOND / 2) / SECOND;
        if tick(self.now) == self.last_tick {
            self.now = (self.last_tick + 1) * SECOND;
        }
        self.last_tick = tick(self.now);
        self.sequence += 1;
        let number = (self.session.hello.start, self.sequence);
        let dropped = self.ring.dropped();
        read(&mut self.ring, number, self.last_tick, self.now);
        if self.ring.dropped() > dropped {
            let oldest = self.sequence - u64::from(self.budget.ring);
            self.evicted.insert((number.0, oldest));
        }
        self.send();
    }

    /// Sends the session's pending frames, as the agent's link does.
    fn send(&mut self) {
        let Some(at) = self.wire else { return };
        self.session.open();
        loop {
            if !self.session.goes.is_empty() {
                let bytes = std::mem::take(&mut self.session.goes);
                self.wires[at].up.push_back(bytes);
            }
            if !self.session.offer(&mut self.ring) {
                return;
            }
        }
    }

    fn connect(&mut self) {
        self.session.anew(&mut self.ring);
        self.wire = Some(self.wires.len());
        self.wires.push(Wire::default());
        if self.token.is_some() {
            self.accept(self.wires.len() - 1);
        }
        self.send();
    }

    fn leave(&mut self) {
        if let Some(at) = self.wire.take() {
            self.wires[at].down.clear();
        }
    }

    fn down(&mut self) {
        let Some(at) = self.wire else { return };
        let Some(Some(bytes)) = self.wires[at].down.pop_front() else {
            return self.leave();
        };
        self.session.came.extend_from_slice(&bytes);
        if self.session.received(&mut self.ring).is_err() {
            return self.leave();
        }
        self.send();
    }

    fn restart(&mut self, boots: bool) {
        self.leave();
        let hello = &mut self.session.hello;
        // The clock may have been set back: starts differ, and do not always rise.
        hello.start = self.now + 1 + u64::from(self.budget.restarts);
        hello.boot += u64::from(boots);
        self.ring = Ring::new(self.budget.ring.into());
        self.sequence = 0;
    }

    /// The collector's number of a connection; accepts it first.
    fn accept(&mut self, at: usize) -> u32 {
        if let Some(slot) = self.wires[at].slot {
            return slot;
        }
        let slot = self.free.pop().unwrap_or_else(|| {
            self.peers.push(None);
            self.peers.len() as u32 - 1
        });
        let mut peer = Peer::default();
        if self.token.is_some() {
            peer.challenge = [at as u8; 16];
            let mut out = Vec::new();
            frame(&mut out, Kind::Challenge, |b| b.extend([at as u8; 16]));
            self.wires[at].down.push_back(Some(out));
        }
        self.peers[slot as usize] = Some((peer, at));
        self.wires[at].slot = Some(slot);
        slot
    }

    fn up(&mut self, at: usize) {
        let slot = self.accept(at);
        let Some(bytes) = self.wires[at].up.pop_front() else {
            return;
        };
        let Some((peer, _)) = &mut self.peers[slot as usize] else {
            return;
        };
        let mut out = Vec::new();
        let token = self.token.as_ref();
        let said = peer.received(slot, &bytes, token, &mut self.gathering, self.now, &mut out);
        if let Err(refusal) = &said {
            let text = refusal.to_string();
            frame(&mut out, Kind::No, |b| b.extend_from_slice(text.as_bytes()));
        }
        if !out.is_empty() && self.wire == Some(at) {
            self.wires[at].down.push_back(Some(out));
        }
        if said.is_err() {
            self.end(at);
        }
    }

    /// The collector closes a connection.
    fn end(&mut self, at: usize) {
        let wire = &mut self.wires[at];
        wire.closed = true;
        wire.up.clear();
        if self.wire == Some(at) {
            wire.down.push_back(None);
        }
        let Some(slot) = wire.slot.take() else { return };
        if let Some((peer, _)) = self.peers[slot as usize].take()
            && let Role::Agent(id) = peer.role
        {
            self.gathering.gone(id, Channel::Stream(slot));
        }
        self.free.push(slot);
    }

    fn block(&mut self) -> Result<Block, String> {
        block(&mut self.gathering, &mut self.now)
    }

    /// As the collector's server closes a tick.
    fn close(&mut self, full: bool, all: bool) -> Result<(), String> {
        let block = self.block()?;
        self.disk.append(block)?;
        if full {
            self.disk.end_segment();
            self.gathering.begin_segment();
        }
        self.gathering.next(self.now, true);
        let (peers, wires, mine) = (&self.peers, &mut self.wires, self.wire);
        self.gathering.acknowledge(all, |channel, sequence| {
            if let Channel::Stream(slot) = channel
                && let Some((_, at)) = &peers[slot as usize]
                && mine == Some(*at)
            {
                let mut out = Vec::new();
                frame(&mut out, Kind::Acknowledged, |b| {
                    b.extend_from_slice(&sequence.to_le_bytes());
                });
                wires[*at].down.push_back(Some(out));
            }
        });
        Ok(())
    }

    fn fail(&mut self) -> Result<(), String> {
        self.block()?;
        self.gathering.begin_segment();
        self.gathering.next(self.now, false);
        self.disk.end_segment();
        self.end_all();
        Ok(())
    }

    fn end_all(&mut self) {
        for at in 0..self.wires.len() {
            if self.wires[at].slot.is_some() {
                self.end(at);
            }
        }
    }

    fn kill(&mut self, moment: Moments) -> Result<(), String> {
        match moment {
            Moments::Idle => {}
            Moments::Within => {
                let torn = self.block()?;
                self.disk.tear(torn);
            }
            Moments::After => {
                let block = self.block()?;
                self.disk.append(block)?;
            }
        }
        // All connections end, those that wait to be accepted too.
        for at in 0..self.wires.len() {
            self.end(at);
        }
        (self.peers, self.free) = (Vec::new(), Vec::new());
        self.gathering = gathering(self.now);
        let remembered = self.disk.open()?;
        remembered
            .iter()
            .for_each(|node| self.gathering.remember(node));
        Ok(())
    }
}
