//! Routers: queues, virtual channels, switch, wires, credits.
//!
//! Two sorts of router on one set of wires, queues and counters. Packets of several flits go through
//! routers with input queues alone (`flits`), which allocate virtual channels and the switch cycle by
//! cycle; those with nothing to do sleep. Whole packets go through routers with queues behind the switch
//! too (`whole`), where everything is an event: an arrival crosses at once, or waits to be told.

mod flits;
mod inject;
mod parts;
mod whole;
mod wires;

use super::layout::{Layout, NODE};
use super::spec::RouterSpec;
use super::wheel::Wheel;
pub(super) use parts::{Count, Delivered, MAX_PORTS, Packet};
use parts::{Event, Input, Lane, NONE, OutQueue, Router, Source, Stall, Wire, fine};

/// Everything that moves.
#[derive(Clone, Debug)]
pub(super) struct Engine {
    pub(super) spec: RouterSpec,
    pub(super) layout: Layout,
    /// Virtual channels of an input, and their logarithm.
    lanes: usize,
    lane_bits: u32,
    /// Whether packets go whole.
    whole: bool,
    /// How long a phit keeps an input busy that it crosses.
    per_phit_switch: parts::Fine,
    now: u64,
    wheel: Wheel<Event>,
    events: Vec<Event>,
    packets: Vec<Packet>,
    free: u32,
    routers: Vec<Router>,
    inputs: Vec<Input>,
    counts: Vec<Count>,
    input_stalls: Vec<Stall>,
    /// By input and virtual channel.
    queues: Vec<Lane>,
    wires: Vec<Wire>,
    /// By wire and virtual channel: phits that the far end has room for, whose turn it is among queues
    /// that ask, the first queue that waits, and what is behind the switch.
    credits: Vec<i32>,
    asking_turns: Vec<u16>,
    blocked: Vec<u32>,
    out_queues: Vec<OutQueue>,
    /// The queue that waits behind each.
    behind: Vec<u32>,
    sources: Vec<Source>,
    awake: Vec<u32>,
    awake_sources: Vec<u32>,
    /// The two above while they are gone through.
    handled: Vec<u32>,
    scratch: flits::Scratch,
    /// Packets under way or waiting at their nodes.
    pub(super) under_way: u64,
    /// Flits and packets times routers that they crossed.
    pub(super) flit_hops: u64,
    pub(super) packet_hops: u64,
}

impl Engine {
    pub(super) fn new(layout: Layout, spec: RouterSpec) -> Self {
        let lanes = spec.lanes();
        let horizon = 4 + layout.longest_wait(&spec) as usize;
        let whole = spec.output_phits > 0;
        let (ins, channels) = (layout.ins.len(), layout.outs.len() * lanes);
        let credits = layout.outs.iter();
        let credits = credits.flat_map(|o| vec![parts::credits(o, &spec); lanes]);
        let out_queues = if whole { channels } else { 0 };
        Self {
            lanes,
            lane_bits: lanes.trailing_zeros(),
            whole,
            per_phit_switch: parts::fine_of(spec.switch_cycles_per_phit),
            now: 0,
            wheel: Wheel::new(horizon),
            events: Vec::new(),
            packets: Vec::new(),
            free: NONE,
            routers: vec![Router::default(); layout.routers()],
            inputs: layout.ins.iter().map(Input::new).collect(),
            counts: vec![Count::default(); ins],
            input_stalls: vec![Stall::default(); ins],
            queues: vec![Lane::EMPTY; ins * lanes],
            wires: layout.outs.iter().map(Wire::new).collect(),
            credits: credits.collect(),
            asking_turns: vec![0; channels],
            blocked: vec![NONE; channels],
            out_queues: vec![OutQueue::new(&spec); out_queues],
            behind: vec![NONE; if whole { ins * lanes } else { 0 }],
            sources: vec![Source::EMPTY; layout.nodes()],
            awake: Vec::new(),
            awake_sources: Vec::new(),
            handled: Vec::new(),
            scratch: flits::Scratch::default(),
            under_way: 0,
            flit_hops: 0,
            packet_hops: 0,
            spec,
            layout,
        }
    }

    /// The cycle that comes next.
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// What an input counted so far.
    pub(super) fn count(&self, input: usize) -> Count {
        Count {
            input_stall: self.input_stalls[input].until(self.now),
            ..self.counts[input]
        }
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
        self.free = self.packets[id as usize].next;
        self.packets[id as usize] = packet;
        id
    }

    fn forget(&mut self, id: u32) {
        self.packets[id as usize].next = self.free;
        self.free = id;
    }

    /// Gives a node a packet to send. Routers with queues behind the switch take packets of one flit.
    pub(super) fn send(&mut self, node: u32, packet: Packet) {
        debug_assert!(!self.whole || packet.flits == 1);
        let id = self.keep(packet);
        self.under_way += 1;
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

    /// The next cycle in which anything happens.
    pub(super) fn next(&self) -> Option<u64> {
        if self.awake.is_empty() && self.awake_sources.is_empty() {
            self.wheel.next()
        } else {
            Some(self.now)
        }
    }

    /// Names a node in `idle` at a cycle.
    pub(super) fn remind(&mut self, node: u32, cycle: u64) {
        self.wheel.put(cycle, Event::Remind { node });
    }

    /// Nothing is done before a cycle; events that are due earlier stay due.
    pub(super) fn rest_until(&mut self, cycle: u64) {
        if self.awake.is_empty() && self.awake_sources.is_empty() {
            let next = self.wheel.next().unwrap_or(cycle);
            self.now = self.now.max(cycle.min(next));
        }
    }

    /// Does one cycle, before which nothing happens. Nodes that could use another request are added
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
        std::mem::swap(&mut handled, &mut self.awake);
        for &router in &handled {
            self.routers[router as usize].awake = false;
        }
        for router in handled.drain(..) {
            self.allocate(router);
        }
        self.handled = handled;
        self.now = cycle + 1;
    }

    #[inline]
    fn happen(&mut self, event: Event, delivered: &mut Vec<Delivered>, idle: &mut Vec<u32>) {
        match event {
            Event::Head { queue, packet } if self.whole => self.arrive_whole(queue, packet),
            Event::Head { queue, packet } => self.arrive_head(queue, packet),
            Event::Body { queue } => self.arrive_body(queue),
            Event::Routed { queue } => self.ask(queue),
            Event::Credit { channel, phits } => self.credit(channel, phits),
            Event::Look { wire } => self.look(wire),
            Event::InputFree { input } => self.input_free(input),
            Event::Source { node } => self.wake_source(node),
            Event::Remind { node } => idle.push(node),
            Event::Deliver { node, packet } => {
                delivered.push(Delivered {
                    node,
                    packet: self.packets[packet as usize],
                });
                self.forget(packet);
                self.under_way -= 1;
            }
        }
    }

    #[inline]
    fn wake(&mut self, router: u32) {
        let r = &mut self.routers[router as usize];
        if !r.awake {
            r.awake = true;
            self.awake.push(router);
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

    /// Counts an arrival and puts it into its queue. Says whether it is the first there.
    #[inline]
    fn queue_up(&mut self, queue: u32, id: u32) -> bool {
        let packet = &mut self.packets[id as usize];
        packet.next = NONE;
        let count = &mut self.counts[(queue >> self.lane_bits) as usize];
        let network = usize::from(packet.network);
        count.packets[network] += 1;
        count.phits[network] += u64::from(packet.phits_per_flit) * u64::from(packet.flits);
        let lane = &mut self.queues[queue as usize];
        let is_first = lane.head == NONE;
        let last = std::mem::replace(&mut lane.tail, id);
        if is_first {
            lane.head = id;
        } else {
            self.packets[last as usize].next = id;
        }
        is_first
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

    /// Finds the output of a queue's first packet, and which virtual channels it may have there.
    #[inline]
    fn find_way(&mut self, queue: u32) {
        let router = self.inputs[(queue >> self.lane_bits) as usize].router;
        let lane = &mut self.queues[queue as usize];
        let packet = &mut self.packets[lane.head as usize];
        let step = self.layout.step(router, packet.to);
        if step.dim != packet.dim {
            packet.dim = step.dim;
            packet.class = u8::from(step.crosses);
        }
        lane.phits = packet.phits_per_flit;
        let first = self.layout.out_base[router as usize] + u32::from(step.out);
        lane.wire = first;
        if step.tiles > 1 {
            // Tiles of a link take turns.
            let turn = &mut self.wires[first as usize].tile_turn;
            lane.wire += u32::from(*turn);
            *turn = if *turn + 1 == step.tiles {
                0
            } else {
                *turn + 1
            };
        }
        // Those of its network, and of its dateline class unless it has arrived.
        let channels = self.spec.channels;
        let first = packet.network * 2 * channels;
        let (first, count) = if self.wires[lane.wire as usize].to & NODE != 0 {
            (first, 2 * channels)
        } else {
            (first + packet.class * channels, channels)
        };
        lane.range = (((1u16 << count) - 1) << first) as u8;
    }
}
