//! Histories of an agent that publishes to a stream of a message bus, and a collector that reads it: publications are
//! lost on the way or stored twice, acknowledgements are lost, the collector is killed between the store and its note
//! of the place in the stream.

use super::PATIENCE;
use super::disk::{Block, Disk, Number, block};
use super::packets::challenges;
use super::search::State;
use super::world::{Digest, read};
use crate::agent::ring::Ring;
use crate::agent::sending::packet;
use crate::gather::{Channel, Gathering, Rules};
use crate::server::packets::take;
use crate::wire::Hello;
use std::collections::BTreeSet;
use std::collections::hash_map::DefaultHasher;
use std::fmt::Write as _;
use std::hash::{Hash, Hasher};

const SECOND: u64 = 1_000_000_000;
const T0: u64 = 1_800_000_000 * SECOND;

/// Bounds on the events of a history.
#[derive(Clone, Copy, Debug, Hash)]
pub struct Budget {
    /// Reports that agents read.
    pub reports: u8,
    /// Publications that are lost.
    pub losses: u8,
    /// Connections of the agent that break.
    pub breaks: u8,
    /// Ticks that the collector closes.
    pub closings: u8,
    /// Writes of the store or of its note that fail.
    pub failures: u8,
    /// Kills of the collector.
    pub kills: u8,
    /// Restarts of the agent.
    pub restarts: u8,
}

/// One step of a history.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// The agent reads its counters.
    Read,
    /// The agent publishes a report, which the stream stores or loses.
    Publish { stored: bool },
    /// The agent receives an acknowledgement.
    Acknowledged,
    /// The agent connects again; acknowledgements on the way are lost.
    Break,
    /// The agent starts again.
    Restart,
    /// The collector reads a message.
    Deliver,
    /// The collector connects again to the bus.
    Again,
    /// The collector closes a tick; the note of its place in the stream is written or not.
    Close { noted: bool },
    /// The store refuses the block.
    Fail,
    /// The collector is killed, before or after it stored a block.
    Kill { after: bool },
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Stream {
    budget: Budget,
    now: u64,
    // The agent.
    ring: Ring,
    hello: Hello,
    introduced: bool,
    sequence: u64,
    last_tick: u64,
    // The stream: packets with their reports.
    packets: Vec<(Vec<u8>, Number)>,
    acknowledgements: Vec<u64>,
    // The collector: the places that it received and noted.
    gathering: Gathering,
    place: usize,
    noted: usize,
    disk: Disk,
}

impl Stream {
    pub fn new(budget: Budget) -> Self {
        Self {
            budget,
            now: T0,
            ring: Ring::new(9),
            hello: Hello {
                node: "n1".into(),
                boot: 1,
                start: T0,
                period_ns: SECOND,
            },
            introduced: false,
            sequence: 0,
            last_tick: 0,
            packets: Vec::new(),
            acknowledgements: Vec::new(),
            gathering: Gathering::new(Rules::default(), T0),
            place: 0,
            noted: 0,
            disk: Disk::default(),
        }
    }

    fn read(&mut self) {
        self.last_tick = (self.last_tick + 1).max(self.now / SECOND);
        self.now = self.now.max(self.last_tick * SECOND);
        self.sequence += 1;
        let number = (self.hello.start, self.sequence);
        read(&mut self.ring, number, self.last_tick, self.now);
    }

    /// As the agent's line publishes.
    fn publish(&mut self, stored: bool) {
        let Some(sequence) = self.ring.next_in_turn() else {
            return;
        };
        let packet = packet(&self.hello, None, !self.introduced, &mut self.ring);
        self.introduced = true;
        if stored {
            self.packets.push((packet, (self.hello.start, sequence)));
            self.acknowledgements.push(sequence);
        }
    }

    fn connect(&mut self) {
        self.acknowledgements.clear();
        self.ring.anew();
        self.introduced = false;
    }

    fn acknowledged(&mut self) {
        if !self.acknowledgements.is_empty() {
            let sequence = self.acknowledgements.remove(0);
            self.ring.kept_one(sequence);
        }
    }

    /// As the collector's server handles a message of a stream: the place moves on whether it was accepted or not.
    fn deliver(&mut self) {
        let Some((packet, number)) = self.packets.get(self.place) else {
            return;
        };
        self.place += 1;
        let gathering = &mut self.gathering;
        let outcome = take(
            packet,
            Channel::Log,
            self.now,
            None,
            &challenges(0),
            gathering,
        );
        // A live agent answers a refusal with its hello.
        self.introduced &= outcome.is_ok() || number.0 != self.hello.start;
    }

    fn block(&mut self) -> Result<Block, String> {
        block(&mut self.gathering, &mut self.now)
    }

    fn close(&mut self, noted: bool) -> Result<(), String> {
        let block = self.block()?;
        self.disk.append(block)?;
        self.gathering.next(self.now, true);
        if noted {
            self.noted = self.place;
        }
        Ok(())
    }

    /// Messages stored by the stream are in the store.
    fn complete(&self) -> Result<(), String> {
        let all: BTreeSet<Number> = self.packets.iter().map(|p| p.1).collect();
        match all.iter().find(|n| !self.disk.stored.contains_key(n)) {
            Some(number) => Err(format!("{number:?} is in the stream and not stored")),
            None => Ok(()),
        }
    }
}

impl State for Stream {
    type Event = Event;

    fn fingerprint(&self) -> u64 {
        let mut digest = Digest(DefaultHasher::new());
        let numbers = (self.now, self.sequence, self.last_tick, self.introduced);
        (&self.budget, numbers, self.place, self.noted).hash(&mut digest.0);
        (&self.packets, &self.acknowledgements).hash(&mut digest.0);
        self.disk.digest(self.budget.kills > 0, &mut digest);
        let _ = write!(digest, "{:?}", (&self.ring, &self.hello, &self.gathering));
        digest.0.finish()
    }

    fn events(&self) -> Vec<Event> {
        let b = &self.budget;
        let publishes = self.ring.next_in_turn().is_some();
        let closes = b.closings > 0;
        let mut events = Vec::new();
        let mut add = |allowed: bool, event| events.extend(allowed.then_some(event));
        add(b.reports > 0, Event::Read);
        add(publishes, Event::Publish { stored: true });
        add(publishes && b.losses > 0, Event::Publish { stored: false });
        add(!self.acknowledgements.is_empty(), Event::Acknowledged);
        add(b.breaks > 0, Event::Break);
        add(b.restarts > 0, Event::Restart);
        add(self.place < self.packets.len(), Event::Deliver);
        add(b.failures > 0 && self.place > self.noted, Event::Again);
        add(closes, Event::Close { noted: true });
        add(closes && b.failures > 0, Event::Close { noted: false });
        add(closes && b.failures > 0, Event::Fail);
        add(b.kills > 0, Event::Kill { after: false });
        add(b.kills > 0 && closes, Event::Kill { after: true });
        events
    }

    fn step(&mut self, event: Event) -> Result<(), String> {
        let b = &mut self.budget;
        match event {
            Event::Read => {
                b.reports -= 1;
                self.read();
            }
            Event::Publish { stored } => {
                b.losses -= u8::from(!stored);
                self.publish(stored);
            }
            Event::Acknowledged => self.acknowledged(),
            Event::Break => {
                b.breaks -= 1;
                self.connect();
            }
            Event::Restart => {
                b.restarts -= 1;
                self.hello.start = self.now + 1;
                self.ring = Ring::new(9);
                self.sequence = 0;
                self.connect();
            }
            Event::Deliver => self.deliver(),
            Event::Again => {
                b.failures -= 1;
                self.place = self.noted;
            }
            Event::Close { noted } => {
                b.closings -= 1;
                b.failures -= u8::from(!noted);
                self.close(noted)?;
            }
            Event::Fail => {
                b.closings -= 1;
                b.failures -= 1;
                self.block()?;
                self.gathering.begin_segment();
                self.gathering.next(self.now, false);
                self.disk.end_segment();
                self.place = self.noted;
            }
            Event::Kill { after } => {
                b.kills -= 1;
                if after {
                    b.closings -= 1;
                    self.close(false)?;
                }
                self.gathering = Gathering::new(Rules::default(), self.now);
                let remembered = self.disk.open()?;
                remembered
                    .iter()
                    .for_each(|node| self.gathering.remember(node));
                self.place = self.noted;
            }
        }
        Ok(())
    }

    fn settle(mut self) -> Result<(), String> {
        let (start, reports) = (self.hello.start, self.sequence);
        self.connect();
        for _ in 0..PATIENCE {
            self.read();
            while self.ring.next_in_turn().is_some() {
                self.publish(true);
                self.acknowledged();
            }
            while self.place < self.packets.len() {
                self.deliver();
            }
            self.close(true)?;
        }
        self.complete()?;
        match (1..=reports).find(|&n| !self.disk.stored.contains_key(&(start, n))) {
            Some(n) => Err(format!("report {n} of {reports} is not stored")),
            None => Ok(()),
        }
    }
}
