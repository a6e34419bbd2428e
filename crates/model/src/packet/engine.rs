//! Routers, cycle by cycle: queues, virtual channels, switch, wires, credits.
//!
//! Routers act only on what arrived before, so that their order within a cycle does not matter; those
//! with nothing to do sleep. Virtual channels and the switch are allocated in one round a cycle, inputs
//! first, both sides round robin.

mod allocate;
mod inject;
mod wires;

use super::layout::{AT_HOME, In, Layout, NODE, Out};
use super::spec::RouterSpec;
use super::wheel::Wheel;

/// No packet, no lane.
const NONE: u32 = u32::MAX;
/// Most virtual channels of an input.
pub(super) const MAX_LANES: usize = 8;
/// Words of a set of a router's lanes.
const WORDS: usize = 6;
/// Most ports of a router.
pub(super) const MAX_PORTS: usize = 64 * WORDS / MAX_LANES;
/// Lanes of a router; most of them that ask for a virtual channel in one cycle.
const TOTAL_LANES: usize = 64 * WORDS;
const MOST_WISHES: usize = 64;
/// Room or credits of wires that end at a node, which always takes what comes.
const PLENTY: i32 = i32::MAX / 2;

/// A packet on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    /// Node that it goes to.
    pub(super) to: u32,
    /// What it means to whoever sent it.
    pub(super) tag: u64,
    /// When it was made.
    pub(super) born: u64,
    /// Network: 0 request, 1 response.
    pub(super) network: u8,
    pub(super) flits: u8,
    pub(super) phits_per_flit: u8,
    /// Cycles for which its node sends nothing else.
    pub(super) pace: f32,
    /// When its last phit is where its first one is.
    tail_at: f64,
    next: u32,
    /// Dimension that it travels, to see turns, and dateline class in that ring.
    dim: u8,
    class: u8,
}

impl Packet {
    pub(super) fn new(to: u32, tag: u64, born: u64) -> Self {
        Self {
            to,
            tag,
            born,
            network: 0,
            flits: 1,
            phits_per_flit: 1,
            pace: 0.0,
            tail_at: 0.0,
            next: NONE,
            dim: AT_HOME,
            class: 0,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Empty.
    Idle,
    /// Its first packet finds its way.
    Routing,
    /// It asks for a virtual channel.
    Asking,
    /// It has one.
    Active,
}

/// A virtual channel's queue at an input.
#[derive(Clone, Copy, Debug)]
struct Lane {
    head: u32,
    tail: u32,
    /// Flits here.
    flits: u16,
    /// Flits of the first packet that have not left.
    left: u8,
    state: State,
    /// Output among the router's, and its virtual channel.
    out: u8,
    out_lane: u8,
    /// Where its search for a virtual channel begins.
    turn: u8,
}

type Set = [u64; WORDS];

#[derive(Clone, Debug)]
struct Router {
    /// Lanes that ask for a virtual channel; lanes that may ask for the switch.
    asking: Set,
    ready: Set,
    awake: bool,
}

/// A lane of a router (`bit`) would like one of the free lanes at the far end of a wire.
#[derive(Clone, Copy, Debug, Default)]
struct Wish {
    wire: u32,
    free: u8,
    bit: u16,
}

/// The sending side of a wire.
#[derive(Clone, Debug)]
struct Wire {
    free_at: f64,
    credits: [i32; MAX_LANES],
    /// Lanes at the far end that a packet of several flits holds.
    held: u8,
    /// Whose turn it is: input, asking lane, lane at the far end, tile of the link that begins here.
    input_turn: u8,
    asking_turn: [u16; MAX_LANES],
    lane_turn: u8,
    tile_turn: u8,
    /// When an event looks at it again, if one is under way.
    looks_at: u64,
    /// Room behind the switch and packets there, by lane: lanes that shared room could wait for each
    /// other in a circle.
    room: [i32; MAX_LANES],
    head: [u32; MAX_LANES],
    tail: [u32; MAX_LANES],
    /// Router lanes that wait for this output.
    blocked: Set,
    is_blocked: bool,
    lacks_credit: bool,
    credit_stall: Stall,
}

/// Where a node sends from.
#[derive(Clone, Debug)]
struct Source {
    /// Packets that wait, by network.
    head: [u32; 2],
    tail: [u32; 2],
    /// The wire and lane over which a packet of several flits is being sent, and its flits left.
    wire: u32,
    lane: u8,
    left: u8,
    phits: u8,
    wire_turn: u8,
    /// When the next packet may begin.
    free_at: f64,
    awake: bool,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Head { input: u32, lane: u8, packet: u32 },
    Body { input: u32, lane: u8 },
    Credit { out: u32, lane: u8, phits: u8 },
    Ready { input: u32, lane: u8 },
    Look { out: u32 },
    InputFree { input: u32 },
    Source { node: u32 },
    Remind { node: u32 },
    Deliver { node: u32, packet: u32 },
}

/// A packet that reached its node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivered {
    pub(super) node: u32,
    pub(super) packet: Packet,
}

/// What a tile counted of arrivals.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Count {
    /// By network: requests are virtual channel 0 to the counters, responses 1.
    pub(super) packets: [u64; 2],
    pub(super) phits: [u64; 2],
    /// Cycles in which an arrival waited to go on.
    pub(super) input_stall: u64,
}

/// Cycles in which at least one of several waits.
#[derive(Clone, Copy, Debug, Default)]
struct Stall {
    waiting: u16,
    since: u64,
    cycles: u64,
}

impl Stall {
    #[inline]
    fn begin(&mut self, now: u64) {
        if self.waiting == 0 {
            self.since = now;
        }
        self.waiting += 1;
    }

    #[inline]
    fn end(&mut self, now: u64) {
        self.waiting -= 1;
        if self.waiting == 0 {
            self.cycles += now - self.since;
        }
    }

    fn until(&self, now: u64) -> u64 {
        let open = if self.waiting > 0 {
            now.saturating_sub(self.since)
        } else {
            0
        };
        self.cycles + open
    }
}

/// Everything that moves.
#[derive(Clone, Debug)]
pub(super) struct Engine {
    pub(super) spec: RouterSpec,
    pub(super) layout: Layout,
    lanes: usize,
    now: u64,
    wheel: Wheel<Event>,
    events: Vec<Event>,
    packets: Vec<Packet>,
    free: u32,
    routers: Vec<Router>,
    queues: Vec<Lane>,
    input_busy: Vec<f64>,
    input_turn: Vec<u8>,
    lane_turn: Vec<u8>,
    counts: Vec<Count>,
    input_stall: Vec<Stall>,
    wires: Vec<Wire>,
    sources: Vec<Source>,
    awake: Vec<u32>,
    awake_sources: Vec<u32>,
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
        let router = Router {
            asking: [0; WORDS],
            ready: [0; WORDS],
            awake: false,
        };
        let lane = Lane {
            head: NONE,
            tail: NONE,
            flits: 0,
            left: 0,
            state: State::Idle,
            out: 0,
            out_lane: 0,
            turn: 0,
        };
        let source = Source {
            head: [NONE; 2],
            tail: [NONE; 2],
            wire: 0,
            lane: 0,
            left: 0,
            phits: 0,
            wire_turn: 0,
            free_at: 0.0,
            awake: false,
        };
        let ins = layout.ins.len();
        Self {
            lanes,
            now: 0,
            wheel: Wheel::new(horizon),
            events: Vec::new(),
            packets: Vec::new(),
            free: NONE,
            routers: vec![router; layout.routers()],
            queues: vec![lane; ins * lanes],
            input_busy: vec![0.0; ins],
            input_turn: vec![0; ins],
            lane_turn: vec![0; ins],
            counts: vec![Count::default(); ins],
            input_stall: vec![Stall::default(); ins],
            wires: layout
                .outs
                .iter()
                .map(|out| Wire::new(out, &spec))
                .collect(),
            sources: vec![source; layout.nodes()],
            awake: Vec::new(),
            awake_sources: Vec::new(),
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
            input_stall: self.input_stall[input].until(self.now),
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

    /// Gives a node a packet to send.
    pub(super) fn send(&mut self, node: u32, packet: Packet) {
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
            match event {
                Event::Remind { node } => idle.push(node),
                _ => self.happen(event, delivered),
            }
        }
        self.events = events;
        let mut sources = std::mem::take(&mut self.awake_sources);
        for &node in &sources {
            self.sources[node as usize].awake = false;
        }
        for node in sources.drain(..) {
            let had = self.waits_at(node, 0);
            self.inject(node);
            if had && !self.waits_at(node, 0) {
                idle.push(node);
            }
        }
        // The list's memory is used again.
        std::mem::swap(&mut sources, &mut self.awake_sources);
        self.awake_sources.append(&mut sources);
        let routers = std::mem::take(&mut self.awake);
        for &r in &routers {
            self.routers[r as usize].awake = false;
        }
        for r in routers {
            self.allocate(r);
        }
        self.now = cycle + 1;
    }

    fn happen(&mut self, event: Event, delivered: &mut Vec<Delivered>) {
        match event {
            Event::Head {
                input,
                lane,
                packet,
            } => self.arrive(input, lane, packet),
            Event::Body { input, lane } => {
                let queue = &mut self.queues[input as usize * self.lanes + usize::from(lane)];
                queue.flits += 1;
                if queue.state == State::Active && queue.flits == 1 {
                    self.make_ready(input, lane);
                }
            }
            Event::Credit { out, lane, phits } => {
                self.wires[out as usize].credits[usize::from(lane)] += i32::from(phits);
                self.look(out);
            }
            Event::Ready { input, lane } => self.ask(input, lane),
            Event::Look { out } => self.look(out),
            Event::InputFree { input } => self.wake(self.layout.ins[input as usize].router),
            Event::Source { node } => self.wake_source(node),
            Event::Remind { .. } => {}
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

    /// Router of an input, and the number of a lane within it.
    #[inline]
    fn bit(&self, input: u32, lane: u8) -> (u32, usize) {
        let In { router, index, .. } = self.layout.ins[input as usize];
        (router, usize::from(index) * self.lanes + usize::from(lane))
    }

    /// A lane has a flit that may ask for the switch.
    #[inline]
    fn make_ready(&mut self, input: u32, lane: u8) {
        let (r, bit) = self.bit(input, lane);
        add(&mut self.routers[r as usize].ready, bit);
        self.input_stall[input as usize].begin(self.now);
        self.wake(r);
    }

    fn arrive(&mut self, input: u32, lane: u8, id: u32) {
        let packet = &mut self.packets[id as usize];
        packet.next = NONE;
        let count = &mut self.counts[input as usize];
        let network = usize::from(packet.network);
        count.packets[network] += 1;
        count.phits[network] += u64::from(packet.phits_per_flit) * u64::from(packet.flits);
        let queue = &mut self.queues[input as usize * self.lanes + usize::from(lane)];
        queue.flits += 1;
        if queue.head == NONE {
            queue.head = id;
            queue.tail = id;
            self.begin_routing(input, lane, u64::from(self.spec.route_cycles));
        } else {
            let tail = std::mem::replace(&mut queue.tail, id);
            self.packets[tail as usize].next = id;
        }
    }

    /// The first packet of a lane will know its output in some cycles.
    fn begin_routing(&mut self, input: u32, lane: u8, cycles: u64) {
        let queue = &mut self.queues[input as usize * self.lanes + usize::from(lane)];
        queue.left = self.packets[queue.head as usize].flits;
        queue.state = State::Routing;
        self.wheel
            .put(self.now + cycles, Event::Ready { input, lane });
    }

    /// The first packet of a lane knows its output and asks for a virtual channel there.
    fn ask(&mut self, input: u32, lane: u8) {
        let (r, bit) = self.bit(input, lane);
        let queue = &mut self.queues[input as usize * self.lanes + usize::from(lane)];
        let packet = &mut self.packets[queue.head as usize];
        let step = self.layout.step(r, packet.to);
        if step.dim != packet.dim {
            packet.dim = step.dim;
            packet.class = u8::from(step.crosses);
        }
        let mut out = step.out;
        if step.tiles > 1 {
            // Tiles of a link take turns.
            let first = self.layout.out_base[r as usize] + u32::from(step.out);
            let turn = &mut self.wires[first as usize].tile_turn;
            out += *turn % step.tiles;
            *turn = (*turn + 1) % step.tiles;
        }
        queue.out = out;
        queue.state = State::Asking;
        add(&mut self.routers[r as usize].asking, bit);
        self.wake(r);
    }
}

impl Wire {
    fn new(out: &Out, spec: &RouterSpec) -> Self {
        let ends_at_node = out.to & NODE != 0;
        let credits = if ends_at_node {
            PLENTY
        } else {
            spec.buffer_phits as i32
        };
        Self {
            free_at: 0.0,
            credits: [credits; MAX_LANES],
            held: 0,
            input_turn: 0,
            asking_turn: [0; MAX_LANES],
            lane_turn: 0,
            tile_turn: 0,
            looks_at: 0,
            room: [spec.output_phits as i32; MAX_LANES],
            head: [NONE; MAX_LANES],
            tail: [NONE; MAX_LANES],
            blocked: [0; WORDS],
            is_blocked: false,
            lacks_credit: false,
            credit_stall: Stall::default(),
        }
    }
}

#[inline]
fn add(set: &mut Set, bit: usize) {
    set[bit / 64] |= 1 << (bit % 64);
}

#[inline]
fn remove(set: &mut Set, bit: usize) {
    set[bit / 64] &= !(1 << (bit % 64));
}

fn members(set: &Set) -> impl Iterator<Item = usize> + '_ {
    set.iter().enumerate().flat_map(|(i, &word)| {
        let mut bits = word;
        std::iter::from_fn(move || {
            let bit = bits.trailing_zeros() as usize;
            (bits != 0).then(|| {
                bits &= bits - 1;
                64 * i + bit
            })
        })
    })
}

/// The lanes of one input in a router's set; lanes of an input never straddle words.
#[inline]
fn lanes_of(set: &Set, first: usize, lanes: usize) -> u64 {
    set[first / 64] >> (first % 64) & ((1 << lanes) - 1)
}

/// The lowest member from `turn` on, else the lowest of all.
#[inline]
fn first_from(set: u64, turn: u8) -> u8 {
    let later = set & u64::MAX.checked_shl(u32::from(turn)).unwrap_or(0);
    (if later != 0 { later } else { set }).trailing_zeros() as u8
}
