//! Routers that move packets whole, with output queues.
//!
//! The engine is driven by events: an arrival with its input free and room at its output crosses at once;
//! otherwise the resource that it waits for wakes it.

mod inject;
mod parts;
mod switch;
mod wires;

use super::bits::{CYCLE, Fine, fine_of};
use super::layout::{Layout, NODE};
use super::spec::RouterSpec;
use super::wheel::Wheel;
use crate::error::ModelError;
use parts::{Channel, Event, Input, NONE, Queue, Source, What, Wire};
pub(super) use parts::{Count, Delivered, Packet};

/// Cycles after which they are counted from zero again: times in fractions of a cycle end at 2^44 of them.
pub(super) const FAR: u64 = 1 << 42;

/// The whole state of the network.
#[derive(Clone, Debug)]
pub(super) struct Engine {
    pub(super) spec: RouterSpec,
    pub(super) layout: Layout,
    /// Virtual channels of an input, and their logarithm.
    lanes: usize,
    lane_bits: u32,
    /// Cycles of a crossing at the input for each phit.
    per_phit_switch: Fine,
    now: u64,
    /// Cycles before those that are counted.
    past: f64,
    wheel: Wheel<Event>,
    events: Vec<Event>,
    packets: Vec<Packet>,
    free: u32,
    inputs: Vec<Input>,
    /// By input and virtual channel.
    queues: Vec<Queue>,
    wires: Vec<Wire>,
    /// By wire and virtual channel.
    channels: Vec<Channel>,
    sources: Vec<Source>,
    awake_sources: Vec<u32>,
    /// The ones above during iteration.
    handled: Vec<u32>,
    /// Packets times routers on their way.
    pub(super) packet_hops: u64,
}

impl Engine {
    pub(super) fn new(layout: Layout, spec: RouterSpec) -> Result<Self, ModelError> {
        if spec.output_phits == 0 {
            return Err(ModelError::out_of_range(
                "phits behind the switch",
                &0,
                "more than 0 where packets go whole",
            ));
        }
        let lanes = spec.lanes();
        let horizon = 4 + layout.longest_wait(&spec) as usize;
        let channels = layout.outs.iter();
        let channels = channels.flat_map(|o| vec![Channel::new(o, &spec); lanes]);
        Ok(Self {
            lanes,
            lane_bits: lanes.trailing_zeros(),
            per_phit_switch: fine_of(spec.switch_cycles_per_phit),
            now: 0,
            past: 0.0,
            wheel: Wheel::new(horizon),
            events: Vec::new(),
            packets: Vec::new(),
            free: NONE,
            inputs: layout.ins.iter().map(Input::new).collect(),
            queues: vec![Queue::EMPTY; layout.ins.len() * lanes],
            wires: layout.outs.iter().map(Wire::new).collect(),
            channels: channels.collect(),
            sources: vec![Source::EMPTY; layout.nodes()],
            awake_sources: Vec::new(),
            handled: Vec::new(),
            packet_hops: 0,
            spec,
            layout,
        })
    }

    /// The next cycle.
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// Cycles since the beginning.
    pub(super) fn elapsed(&self) -> f64 {
        self.past + self.now as f64
    }

    /// Time of a cycle.
    pub(super) fn seconds(&self, cycle: u64) -> f64 {
        (self.past + cycle as f64) * self.spec.cycle.0
    }

    /// The cycle of a time, rounded down.
    pub(super) fn cycle_at(&self, seconds: f64) -> f64 {
        (seconds / self.spec.cycle.0).floor() - self.past
    }

    /// Counters of an input so far.
    pub(super) fn count(&self, input: usize) -> Count {
        self.inputs[input].count
    }

    /// Cycles in which an arrival waited in its input queue.
    pub(super) fn input_stall(&self, input: usize) -> u64 {
        self.inputs[input].stall.until(self.now)
    }

    /// Cycles in which packets at an output lacked credits.
    pub(super) fn credit_stall(&self, out: usize) -> u64 {
        self.wires[out].credit_stall.until(self.now)
    }

    fn keep(&mut self, packet: Packet) -> u32 {
        if self.free == NONE {
            self.packets.push(packet);
            return (self.packets.len() - 1) as u32;
        }
        let id = self.free;
        self.free = std::mem::replace(&mut self.packets[id as usize], packet).next;
        id
    }

    /// Queues a packet at a node.
    pub(super) fn send(&mut self, node: u32, packet: Packet) {
        let id = self.keep(packet);
        let source = &mut self.sources[node as usize];
        let network = usize::from(packet.network);
        if source.head[network] == NONE {
            source.head[network] = id;
        } else {
            self.packets[source.tail[network] as usize].next = id;
        }
        source.tail[network] = id;
        self.wake_source(node);
    }

    /// Whether packets of a network wait at a node.
    pub(super) fn waits_at(&self, node: u32, network: usize) -> bool {
        self.sources[node as usize].head[network] != NONE
    }

    /// The next cycle with an event.
    pub(super) fn next(&self) -> Option<u64> {
        if self.awake_sources.is_empty() {
            self.wheel.next()
        } else {
            Some(self.now)
        }
    }

    /// Lists a node in `idle` at a cycle.
    pub(super) fn remind(&mut self, node: u32, cycle: u64) {
        self.wheel.put(cycle, Event::new(What::Remind, node, 0));
    }

    /// Skips to a cycle; earlier pending events remain. Returns by how many fewer the cycles are counted from now on.
    pub(super) fn rest_until(&mut self, cycle: f64) -> u64 {
        if !self.awake_sources.is_empty() {
            return 0;
        }
        let next = self.wheel.next();
        let cycle = cycle.max(self.now as f64);
        self.now = (cycle as u64).min(next.unwrap_or(u64::MAX)).max(self.now);
        if self.now < FAR {
            return 0;
        }
        let past = self.past;
        let fewer = self.recount(self.now);
        if next.is_none() {
            // It may be beyond the largest number of cycles.
            self.past = past + cycle - self.now as f64;
        }
        fewer
    }

    /// Skips to a cycle before which there are no events, and counts cycles from there, or from a little before. Returns
    /// by how many fewer they are.
    pub(super) fn recount(&mut self, cycle: u64) -> u64 {
        let fewer = cycle & !(self.wheel.size() - 1);
        self.now = cycle - fewer;
        self.past += fewer as f64;
        self.wheel.recount(fewer);
        let ago = fewer.saturating_mul(CYCLE);
        let earlier = |time: &mut Fine| *time = time.saturating_sub(ago);
        self.packets
            .iter_mut()
            .for_each(|p| earlier(&mut p.tail_at));
        self.sources
            .iter_mut()
            .for_each(|s| earlier(&mut s.free_at));
        for input in &mut self.inputs {
            earlier(&mut input.busy);
            input.stall.recount(fewer);
        }
        for wire in &mut self.wires {
            earlier(&mut wire.free_at);
            wire.looks_at = wire.looks_at.saturating_sub(fewer);
            wire.credit_stall.recount(fewer);
        }
        fewer
    }

    /// Runs one cycle, before which there are no events. Nodes that could use another request are added
    /// to `idle`.
    pub(super) fn step(&mut self, cycle: u64, delivered: &mut Vec<Delivered>, idle: &mut Vec<u32>) {
        self.now = cycle;
        let mut events = std::mem::take(&mut self.events);
        self.wheel.take(cycle, &mut events);
        for &event in &events {
            self.happen(event, delivered, idle);
        }
        self.events = events;
        let mut handled = std::mem::take(&mut self.handled);
        std::mem::swap(&mut handled, &mut self.awake_sources);
        for &node in &handled {
            self.sources[node as usize].awake = false;
        }
        for node in handled.drain(..) {
            let had = self.waits_at(node, 0);
            self.inject(node);
            if had && !self.waits_at(node, 0) {
                idle.push(node);
            }
        }
        self.handled = handled;
        self.now = cycle + 1;
    }

    #[inline]
    fn happen(&mut self, event: Event, delivered: &mut Vec<Delivered>, idle: &mut Vec<u32>) {
        let (at, with) = (event.at(), event.with);
        match event.what() {
            What::Head => self.arrive(at, with),
            What::Credit => self.credit(at, with),
            What::Look => self.look(at),
            What::InputFree => self.input_free(at),
            What::Source => self.wake_source(at),
            What::Remind => idle.push(at),
            What::Deliver => {
                let (node, id) = (at, with);
                let packet = &mut self.packets[id as usize];
                let tag = packet.tag;
                packet.next = self.free;
                self.free = id;
                delivered.push(Delivered { node, tag });
            }
        }
    }

    #[inline]
    fn wake_source(&mut self, node: u32) {
        let source = &mut self.sources[node as usize];
        if !source.awake {
            source.awake = true;
            self.awake_sources.push(node);
        }
    }

    /// Number of a virtual channel among those of all inputs, or of all wires.
    #[inline]
    fn at(&self, port: usize, lane: u8) -> usize {
        port << self.lane_bits | usize::from(lane)
    }

    /// Input or wire, and virtual channel.
    #[inline]
    fn split(&self, queue: u32) -> (usize, u8) {
        let lane = queue & (self.lanes as u32 - 1);
        ((queue >> self.lane_bits) as usize, lane as u8)
    }
}
