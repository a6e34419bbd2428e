//! Histories of an agent that reports by UDP: packets and answers are lost, overtaken and sent again by others, agent and
//! collector start again, the clock is set.

use super::PATIENCE;
use super::disk::{Block, Disk, block};
use super::search::State;
use super::world::{Digest, JUMPS, read};
use crate::agent::ring::Ring;
use crate::agent::udp::Exchange;
use crate::datagram::Challenges;
use crate::gather::{Channel, Gathering, Rules};
use crate::server::packets::{answer, take};
use crate::wire::{Hello, Token};
use std::collections::BTreeSet;
use std::collections::hash_map::DefaultHasher;
use std::fmt::Write as _;
use std::hash::{Hash, Hasher};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

const SECOND: u64 = 1_000_000_000;
const T0: u64 = 1_800_000_000 * SECOND;
/// The port from which attackers send recorded packets; agents have the ports above.
const OTHER: u16 = 1000;
/// Ticks after which, while nothing fails, every report arrives: the name of an agent that is silent is free after three.
const HEARD_AFTER: u64 = 6;

/// Bounds on the events of a history.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Budget {
    /// Reports that agents read.
    pub reports: u8,
    /// Packets and answers that are lost.
    pub losses: u8,
    /// Recorded packets that are sent again.
    pub repeats: u8,
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
}

/// One step of a history.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// The agent reads its counters, and sends.
    Read,
    /// A packet arrives, before or after others that were sent earlier.
    Up(usize),
    /// A packet is lost.
    Lose(usize),
    /// The answer to the agent arrives.
    Down,
    /// It is lost.
    LoseDown,
    /// A recorded packet arrives again, from its own address or another one.
    Repeat(usize, bool),
    /// The collector closes a tick; the log may be full.
    Close { full: bool },
    /// The store refuses the block.
    Fail,
    /// The collector is killed.
    Kill,
    /// The agent starts again, after a reboot or not.
    Restart { boots: bool },
    /// The clock is set.
    Jump(i64),
}

/// The challenges of the collector's `n`th process.
pub fn challenges(n: u8) -> Challenges {
    Challenges::with_key([0x80 | n; 32]).unwrap()
}

static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// A packet and the port that it was sent from.
type Packet = (Vec<u8>, u16);

/// Places of the packets that are equal to none before them.
fn firsts(packets: &[Packet]) -> impl Iterator<Item = usize> {
    (0..packets.len()).filter(|&at| !packets[..at].contains(&packets[at]))
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Packets {
    budget: Budget,
    now: u64,
    token: Token,
    // The agent.
    ring: Ring,
    hello: Hello,
    exchange: Exchange,
    port: u16,
    sequence: u64,
    last_tick: u64,
    // The network: packets and answers on the way, and all packets that were ever sent.
    up: Vec<Packet>,
    down: Vec<Vec<u8>>,
    recorded: Vec<Packet>,
    // The collector.
    processes: u8,
    gathering: Gathering,
    disk: Disk,
}

impl Packets {
    pub fn new(budget: Budget) -> Self {
        Self {
            budget,
            now: T0,
            token: Token::new(b"0123456789abcdef").unwrap(),
            ring: Ring::new(9),
            hello: Hello {
                node: "n1".into(),
                boot: 1,
                start: T0,
                period_ns: SECOND,
            },
            exchange: Exchange::default(),
            port: OTHER + 1,
            sequence: 0,
            last_tick: 0,
            up: Vec::new(),
            down: Vec::new(),
            recorded: Vec::new(),
            processes: 0,
            gathering: Gathering::new(Rules::default(), T0),
            disk: Disk::default(),
        }
    }

    fn read(&mut self) {
        let tick = (self.now + SECOND / 2) / SECOND;
        if tick == self.last_tick {
            self.now = (self.last_tick + 1) * SECOND;
        }
        self.last_tick = (self.now + SECOND / 2) / SECOND;
        self.sequence += 1;
        let number = (self.hello.start, self.sequence);
        read(&mut self.ring, number, self.last_tick, self.now);
        self.send();
    }

    fn send(&mut self) {
        // Every report is a second after the one before: the agent's own clock is not set.
        let since = Duration::from_secs(self.sequence);
        let now = *BEGAN + since;
        let (hello, token) = (&self.hello, Some(&self.token));
        loop {
            let packets = self.exchange.next(hello, token, &mut self.ring, now);
            if packets.is_empty() {
                return;
            }
            for packet in packets {
                self.recorded.push((packet.clone(), self.port));
                self.up.push((packet, self.port));
            }
        }
    }

    /// The collector receives a packet.
    fn arrive(&mut self, packet: &[u8], port: u16) {
        let from = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let (channel, challenges) = (Channel::Datagrams(from), challenges(self.processes));
        let (token, gathering) = (Some(&self.token), &mut self.gathering);
        let outcome = take(packet, channel, self.now, token, &challenges, gathering);
        if port == self.port
            && let Some(answer) = answer(&outcome, packet.len())
        {
            self.down.push(answer);
        }
    }

    fn down(&mut self) {
        if !self.down.is_empty() {
            let answer = self.down.remove(0);
            self.exchange.answered(&answer);
            self.send();
        }
    }

    /// Delivers everything, in order.
    fn deliver(&mut self) {
        while !self.up.is_empty() || !self.down.is_empty() {
            while !self.up.is_empty() {
                let (packet, port) = self.up.remove(0);
                self.arrive(&packet, port);
            }
            self.down();
        }
    }

    fn block(&mut self) -> Result<Block, String> {
        block(&mut self.gathering, &mut self.now)
    }

    fn close(&mut self, full: bool) -> Result<(), String> {
        let block = self.block()?;
        self.disk.append(block)?;
        if full {
            self.disk.end_segment();
            self.gathering.begin_segment();
        }
        self.gathering.next(self.now, true);
        Ok(())
    }
}

impl State for Packets {
    type Event = Event;

    fn fingerprint(&self) -> u64 {
        let mut digest = Digest(DefaultHasher::new());
        let numbers = (
            self.now,
            self.sequence,
            self.last_tick,
            self.port,
            self.processes,
        );
        // Packets arrive in any order, and recorded ones are sent again in any order and number.
        let mut up: Vec<&Packet> = self.up.iter().collect();
        up.sort_unstable();
        let recorded: BTreeSet<&Packet> = self.recorded.iter().collect();
        (&self.budget, numbers, up, &self.down, recorded).hash(&mut digest.0);
        self.disk.digest(self.budget.kills > 0, &mut digest);
        let parts = (&self.ring, &self.hello, &self.exchange, &self.gathering);
        let _ = write!(digest, "{parts:?}");
        digest.0.finish()
    }

    fn events(&self) -> Vec<Event> {
        let b = &self.budget;
        let mut events = Vec::new();
        let mut add = |allowed: bool, event| events.extend(allowed.then_some(event));
        add(b.reports > 0, Event::Read);
        for at in firsts(&self.up) {
            add(true, Event::Up(at));
            add(b.losses > 0, Event::Lose(at));
        }
        add(!self.down.is_empty(), Event::Down);
        add(!self.down.is_empty() && b.losses > 0, Event::LoseDown);
        for at in firsts(&self.recorded) {
            add(b.repeats > 0, Event::Repeat(at, false));
            add(b.repeats > 0, Event::Repeat(at, true));
        }
        for full in [false, true] {
            add(b.closings > 0, Event::Close { full });
        }
        add(b.closings > 0 && b.failures > 0, Event::Fail);
        add(b.kills > 0, Event::Kill);
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
            Event::Up(at) => {
                let (packet, port) = self.up.remove(at);
                self.arrive(&packet, port);
            }
            Event::Lose(at) => {
                b.losses -= 1;
                self.up.remove(at);
            }
            Event::Down => self.down(),
            Event::LoseDown => {
                b.losses -= 1;
                self.down.remove(0);
            }
            Event::Repeat(at, elsewhere) => {
                b.repeats -= 1;
                let (packet, port) = self.recorded[at].clone();
                self.arrive(&packet, if elsewhere { OTHER } else { port });
            }
            Event::Close { full } => {
                b.closings -= 1;
                self.close(full)?;
            }
            Event::Fail => {
                b.closings -= 1;
                b.failures -= 1;
                self.block()?;
                self.gathering.begin_segment();
                self.gathering.next(self.now, false);
                self.disk.end_segment();
            }
            Event::Kill => {
                b.kills -= 1;
                self.processes += 1;
                self.gathering = Gathering::new(Rules::default(), self.now);
                let remembered = self.disk.open()?;
                remembered
                    .iter()
                    .for_each(|node| self.gathering.remember(node));
            }
            Event::Restart { boots } => {
                b.restarts -= 1;
                self.hello.start = self.now + 1 + u64::from(b.restarts);
                self.hello.boot += u64::from(boots);
                self.port += 1;
                self.ring = Ring::new(9);
                self.exchange = Exchange::default();
                self.sequence = 0;
                self.down.clear();
            }
            Event::Jump(seconds) => {
                b.jumps -= 1;
                self.now = self.now.saturating_add_signed(seconds * SECOND as i64);
            }
        }
        Ok(())
    }

    /// All recorded packets are sent again in every tick, from both addresses: no agent is locked out.
    fn settle(mut self) -> Result<(), String> {
        let recorded = self.recorded.clone();
        let mut first = self.sequence + 1;
        for tick in 0..PATIENCE {
            if tick == HEARD_AFTER {
                first = self.sequence + 1;
            }
            self.read();
            self.deliver();
            for (packet, port) in &recorded {
                self.arrive(packet, *port);
                self.arrive(packet, OTHER);
            }
            self.deliver();
            self.close(false)?;
        }
        let start = self.hello.start;
        match (first..=self.sequence).find(|&n| !self.disk.stored.contains_key(&(start, n))) {
            Some(n) => Err(format!("report {n} of {} is not stored", self.sequence)),
            None => Ok(()),
        }
    }
}
