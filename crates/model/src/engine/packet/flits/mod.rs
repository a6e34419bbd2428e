//! Routers with input queues: packets of several flits; each cycle allocates virtual channels to queues and
//! the switch to flits.
//!
//! A router acts only on earlier arrivals, and its output arrives in later cycles, so that the order of routers
//! within a cycle does not matter. Each is handled once in a cycle with all its pending events: its queues,
//! ports and channels are adjacent in memory. Flits in flight are in a ring of the next cycles, with one slot for
//! each port: a wire delivers at most one flit in a cycle, and an input returns at most one credit.

mod allocate;
mod nodes;

use super::bits::{Fine, ceil, fine, fine_of, take_lowest};
use super::layout::{In, Layout, NODE, Out};
use super::spec::RouterSpec;
use crate::error::ModelError;
use hopbyte_fabric::bits::BitSet;

/// No packet, no router.
const NONE: u32 = u32::MAX;
/// Buffer of wires that end at a node: nodes always accept flits.
const PLENTY: u16 = u16::MAX;
/// Maximum number of slots of the ring: machines with longer wires are rejected.
const MOST_PLACES: usize = 1 << 26;
/// Bits of a flit in flight for its virtual channel; above them, of a head, its packet's number plus 1.
const LANE_BITS: u32 = 3;

/// A packet in flight.
#[derive(Clone, Copy, Debug)]
struct Packet {
    born: u64,
    to: u32,
    /// The packet that waits behind it, at its node or at an input.
    next: u32,
    flits: u8,
    /// Dimension of travel, to detect turns, and dateline class in that ring.
    dim: u8,
    class: u8,
}

/// State of a queue's first packet: without a channel of its output, with one, or sending on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waits,
    Holds,
    Goes,
}

/// A virtual channel's queue at an input.
#[derive(Clone, Copy, Debug)]
struct Queue {
    /// The first packet.
    head: u32,
    /// Flits in the queue, and remaining flits of the first packet.
    flits: u16,
    left: u8,
    state: State,
    /// Output of the first packet among its router's, its channel there, and its permitted channels.
    out: u8,
    lane: u8,
    range: u8,
    /// Start of its next search for a channel.
    turn: u8,
}

/// A port that flits arrive at.
#[derive(Clone, Debug)]
struct Input {
    /// Busy with a crossing until this cycle.
    busy: Fine,
    router: u32,
    /// Other end of its wire: router (or node, marked) and number among its outputs.
    from_router: u32,
    from: u32,
    from_index: u8,
    /// Number among the router's inputs.
    index: u8,
    /// Queues that request a channel; queues with a channel, a flit, and credits.
    asking: u8,
    able: u8,
    /// Round-robin positions: output, queue.
    turn: u8,
    lane_turn: u8,
}

/// A port that flits leave by, of a router or a node.
#[derive(Clone, Debug)]
struct Wire {
    free_at: Fine,
    per_flit: Fine,
    /// Far end: input (or node, marked), its router and number there.
    to: u32,
    to_router: u32,
    to_index: u8,
    /// Channels that packets hold.
    held: u8,
    /// Round-robin positions: input, channel, tile of the link that begins here.
    input_turn: u8,
    lane_turn: u8,
    tile_turn: u8,
    /// Outputs of its link, and its dimension.
    tiles: u8,
    dim: u8,
    /// Cycles to the far end.
    forward: u32,
}

impl Wire {
    /// Whether the wire is idle at the end of this cycle.
    #[inline]
    fn is_free(&self, now: u64) -> bool {
        self.free_at < fine(now + 1)
    }

    #[inline]
    fn occupy(&mut self, now: u64) {
        self.free_at = self.free_at.max(fine(now)) + self.per_flit;
    }
}

/// A virtual channel of a wire.
#[derive(Clone, Copy, Debug)]
struct Channel {
    /// Credits, in flits.
    credits: u16,
    /// The queue that holds it, and the next queue in turn, by number among the router's queues.
    holder: u16,
    turn: u16,
}

/// Pending work of a router, as sets of its inputs.
#[derive(Clone, Copy, Debug, Default)]
struct Router {
    asking: u64,
    able: u64,
    /// Whether a request could be granted: there is a new request or a newly free channel.
    may_give: bool,
}

/// Events at a router in a cycle, as sets of ports: flits, outputs of first packets, credits.
#[derive(Clone, Copy, Debug, Default)]
struct Due {
    flits: u64,
    routed: u64,
    credits: u64,
}

/// Ring of the next cycles, each with slots for all its events.
#[derive(Clone, Debug)]
struct Ring {
    mask: u64,
    routers: usize,
    ins: usize,
    outs: usize,
    due: Vec<Due>,
    /// By input: the flit; queues whose first packet has its output. By output: channels with new credits.
    flits: Vec<u32>,
    routed: Vec<u8>,
    credits: Vec<u8>,
    /// Packets that reach their nodes, and channels of nodes' wires with new credits.
    deliveries: Vec<Vec<u32>>,
    node_credits: Vec<Vec<u32>>,
}

impl Ring {
    fn new(layout: &Layout, longest: u64) -> Result<Self, ModelError> {
        let slots = (longest + 1).next_power_of_two() as usize;
        let (ins, outs) = (layout.ins.len(), layout.outs.len());
        if slots.saturating_mul(ins + outs) > MOST_PLACES {
            return Err(ModelError::out_of_range(
                "cycles that a flit is under way",
                &longest,
                format!(
                    "at most {} where every flit is followed",
                    MOST_PLACES / (ins + outs)
                ),
            ));
        }
        let routers = layout.routers();
        Ok(Self {
            mask: slots as u64 - 1,
            routers,
            ins,
            outs,
            due: vec![Due::default(); slots * routers],
            flits: vec![0; slots * ins],
            routed: vec![0; slots * ins],
            credits: vec![0; slots * outs],
            deliveries: vec![Vec::new(); slots],
            node_credits: vec![Vec::new(); slots],
        })
    }

    #[inline]
    fn slot(&self, cycle: u64) -> usize {
        (cycle & self.mask) as usize
    }

    #[inline]
    fn put_flit(&mut self, cycle: u64, wire: &Wire, flit: u32) {
        let slot = self.slot(cycle);
        self.flits[slot * self.ins + wire.to as usize] = flit;
        self.due[slot * self.routers + wire.to_router as usize].flits |= 1 << wire.to_index;
    }

    #[inline]
    fn put_routed(&mut self, cycle: u64, input: usize, port: &Input, lane: u8) {
        let slot = self.slot(cycle);
        self.routed[slot * self.ins + input] |= 1 << lane;
        self.due[slot * self.routers + port.router as usize].routed |= 1 << port.index;
    }

    #[inline]
    fn put_credit(&mut self, cycle: u64, port: &Input, lane: u8) {
        let slot = self.slot(cycle);
        if port.from_router & NODE != 0 {
            self.node_credits[slot].push(port.from << LANE_BITS | u32::from(lane));
            return;
        }
        self.credits[slot * self.outs + port.from as usize] |= 1 << lane;
        self.due[slot * self.routers + port.from_router as usize].credits |= 1 << port.from_index;
    }
}

/// Sending side of a node.
#[derive(Clone, Debug)]
struct Source {
    /// Waiting packets.
    head: u32,
    tail: u32,
    /// Wire and channel of the packet being sent, and its remaining flits.
    wire: u32,
    lane: u8,
    left: u8,
    wire_turn: u8,
}

/// The whole state of the network.
#[derive(Clone, Debug)]
pub(super) struct Flits {
    layout: Layout,
    channels: u8,
    lane_bits: u32,
    route_cycles: u64,
    /// Cycles of a crossing at the input, and delay of a credit.
    switched: Fine,
    credit_cycles: u64,
    now: u64,
    packets: Vec<Packet>,
    free: u32,
    routers: Vec<Router>,
    inputs: Vec<Input>,
    /// By input and virtual channel; the first and last packet that wait behind the queue's first one.
    queues: Vec<Queue>,
    behind: Vec<[u32; 2]>,
    wires: Vec<Wire>,
    /// By wire and virtual channel.
    lanes: Vec<Channel>,
    ring: Ring,
    sources: Vec<Source>,
    /// Nodes with packets to send, a bit each.
    sending: BitSet,
    scratch: allocate::Scratch,
    under_way: u64,
    /// Flits and packets times routers on their way.
    pub(super) flit_hops: u64,
    pub(super) packet_hops: u64,
}

impl Flits {
    pub(super) fn new(layout: Layout, spec: &RouterSpec) -> Result<Self, ModelError> {
        let lanes = spec.lanes();
        let switched = fine_of(spec.switch_cycles_per_phit).max(fine(1));
        let credit_cycles = (ceil(switched) - 1 + u64::from(spec.credit_cycles)).max(1);
        let route_cycles = u64::from(spec.route_cycles).max(1);
        let wires = layout.outs.iter().map(|o| u64::from(o.forward));
        let longest = wires.fold(credit_cycles.max(route_cycles + 1), u64::max);
        let ring = Ring::new(&layout, longest)?;
        let queue = Queue {
            head: NONE,
            flits: 0,
            left: 0,
            state: State::Waits,
            out: 0,
            lane: 0,
            range: 0,
            turn: 0,
        };
        let source = Source {
            head: NONE,
            tail: NONE,
            wire: 0,
            lane: 0,
            left: 0,
            wire_turn: 0,
        };
        let channel = |out: &Out| Channel {
            credits: if out.to & NODE != 0 {
                PLENTY
            } else {
                spec.buffer_phits.min(u32::from(PLENTY)) as u16
            },
            holder: 0,
            turn: 0,
        };
        Ok(Self {
            channels: spec.channels,
            lane_bits: lanes.trailing_zeros(),
            route_cycles,
            switched,
            credit_cycles,
            now: 0,
            packets: Vec::new(),
            free: NONE,
            routers: vec![Router::default(); layout.routers()],
            inputs: layout.ins.iter().map(|i| input(&layout, i)).collect(),
            queues: vec![queue; layout.ins.len() * lanes],
            behind: vec![[NONE; 2]; layout.ins.len() * lanes],
            wires: layout.outs.iter().map(|o| wire(&layout, o)).collect(),
            lanes: layout
                .outs
                .iter()
                .flat_map(|o| vec![channel(o); lanes])
                .collect(),
            ring,
            sources: vec![source; layout.nodes()],
            sending: BitSet::new(layout.nodes()),
            scratch: allocate::Scratch::default(),
            under_way: 0,
            flit_hops: 0,
            packet_hops: 0,
            layout,
        })
    }

    /// The next cycle that may have an event.
    pub(super) fn next(&self) -> Option<u64> {
        (self.under_way > 0).then_some(self.now)
    }

    /// Runs one cycle, before which there are no events. Births of packets that reached their nodes are added
    /// to `delivered`.
    pub(super) fn step(&mut self, cycle: u64, delivered: &mut Vec<u64>) {
        self.now = cycle;
        let slot = self.ring.slot(cycle);
        self.deliver(slot, delivered);
        self.inject_all(slot);
        for router in 0..self.routers.len() {
            self.handle(router, slot);
        }
        self.now = cycle + 1;
    }

    /// A router's cycle: arrivals, then allocation.
    #[inline]
    fn handle(&mut self, router: usize, slot: usize) {
        let due = std::mem::take(&mut self.ring.due[slot * self.routers.len() + router]);
        let ins = self.layout.in_base[router] as usize;
        let outs = self.layout.out_base[router] as usize;
        let mut ports = due.flits;
        while ports != 0 {
            let input = ins + take_lowest(&mut ports);
            let flit = self.ring.flits[slot * self.ring.ins + input];
            self.arrive(outs, input, flit);
        }
        let mut ports = due.credits;
        while ports != 0 {
            let out = take_lowest(&mut ports);
            let lanes = &mut self.ring.credits[slot * self.ring.outs + outs + out];
            let lanes = std::mem::take(lanes);
            self.credit(router, ins, outs + out, lanes);
        }
        let mut ports = due.routed;
        while ports != 0 {
            let index = take_lowest(&mut ports);
            let lanes = &mut self.ring.routed[slot * self.ring.ins + ins + index];
            let lanes = std::mem::take(lanes);
            self.ask(router, index, lanes);
        }
        if self.routers[router].asking | self.routers[router].able != 0 {
            self.allocate(router, ins, outs);
        }
    }

    /// A flit arrives at its queue.
    #[inline]
    fn arrive(&mut self, outs: usize, input: usize, flit: u32) {
        let lane = (flit & ((1 << LANE_BITS) - 1)) as u8;
        let at = self.at(input, lane);
        let queue = &mut self.queues[at];
        queue.flits += 1;
        if let Some(id) = (flit >> LANE_BITS).checked_sub(1) {
            if queue.head == NONE {
                self.begin_routing(input, lane, id, self.route_cycles);
            } else {
                self.wait_behind(at, id);
            }
        } else if queue.state != State::Waits && queue.flits == 1 {
            self.find_able(outs, input, lane);
        }
    }

    /// A packet becomes first in its queue; its output is known some cycles later.
    #[inline]
    fn begin_routing(&mut self, input: usize, lane: u8, id: u32, cycles: u64) {
        let at = self.at(input, lane);
        let queue = &mut self.queues[at];
        queue.head = id;
        queue.left = self.packets[id as usize].flits;
        self.ring
            .put_routed(self.now + cycles, input, &self.inputs[input], lane);
    }

    fn wait_behind(&mut self, at: usize, id: u32) {
        let last = std::mem::replace(&mut self.behind[at][1], id);
        self.packets[id as usize].next = NONE;
        if self.behind[at][0] == NONE {
            self.behind[at][0] = id;
        } else {
            self.packets[last as usize].next = id;
        }
    }

    /// Credits arrive at a wire.
    #[inline]
    fn credit(&mut self, router: usize, ins: usize, wire: usize, lanes: u8) {
        let mut lanes = u64::from(lanes);
        while lanes != 0 {
            let lane = take_lowest(&mut lanes) as u8;
            let at = self.at(wire, lane);
            let channel = &mut self.lanes[at];
            channel.credits += 1;
            if channel.credits > 1 || self.wires[wire].held & (1 << lane) == 0 {
                continue;
            }
            let number = usize::from(channel.holder);
            let queue = &self.queues[(ins << self.lane_bits) + number];
            if queue.flits > 0 {
                let input = &mut self.inputs[ins + (number >> self.lane_bits)];
                input.able |= 1 << (number & ((1 << self.lane_bits) - 1));
                self.routers[router].able |= 1 << input.index;
            }
        }
    }

    /// First packets have their outputs and request channels there.
    #[inline]
    fn ask(&mut self, router: usize, index: usize, lanes: u8) {
        let input = self.layout.in_base[router] as usize + index;
        self.inputs[input].asking |= lanes;
        self.routers[router].asking |= 1 << index;
        self.routers[router].may_give = true;
        let mut lanes = u64::from(lanes);
        while lanes != 0 {
            let lane = take_lowest(&mut lanes) as u8;
            self.find_way(router, self.at(input, lane));
        }
    }

    /// Finds the output of a queue's first packet and its permitted virtual channels there.
    #[inline]
    fn find_way(&mut self, router: usize, at: usize) {
        let queue = &mut self.queues[at];
        let packet = &mut self.packets[queue.head as usize];
        let (first, crosses) = self.layout.step(router as u32, packet.to);
        queue.out = (first - self.layout.out_base[router]) as u8;
        let wire = &mut self.wires[first as usize];
        if wire.dim != packet.dim {
            packet.dim = wire.dim;
            packet.class = u8::from(crosses);
        }
        if wire.tiles > 1 {
            // Round robin over a link's tiles.
            let turn = &mut wire.tile_turn;
            queue.out += *turn;
            *turn = if *turn + 1 == wire.tiles {
                0
            } else {
                *turn + 1
            };
        }
        // Channels of its dateline class, unless it has arrived.
        let (first, count) = if wire.to & NODE != 0 {
            (0, 2 * self.channels)
        } else {
            (packet.class * self.channels, self.channels)
        };
        queue.range = (((1u16 << count) - 1) << first) as u8;
    }

    /// Updates whether a queue with a channel and a flit has credits.
    #[inline]
    fn find_able(&mut self, outs: usize, input: usize, lane: u8) {
        let queue = &self.queues[self.at(input, lane)];
        let channel = self.at(outs + usize::from(queue.out), queue.lane);
        if self.lanes[channel].credits > 0 {
            let port = &mut self.inputs[input];
            port.able |= 1 << lane;
            self.routers[port.router as usize].able |= 1 << port.index;
        }
    }

    /// Number of a virtual channel among those of all inputs, or of all wires.
    #[inline]
    fn at(&self, port: usize, lane: u8) -> usize {
        port << self.lane_bits | usize::from(lane)
    }
}

fn input(layout: &Layout, port: &In) -> Input {
    let from = &layout.outs[port.from as usize];
    let from_index = match from.router {
        node if node & NODE != 0 => 0,
        router => port.from - layout.out_base[router as usize],
    };
    Input {
        busy: 0,
        router: port.router,
        from_router: from.router,
        from: port.from,
        from_index: from_index as u8,
        index: port.index,
        asking: 0,
        able: 0,
        turn: 0,
        lane_turn: 0,
    }
}

fn wire(layout: &Layout, out: &Out) -> Wire {
    let (to_router, to_index) = if out.to & NODE != 0 {
        (NONE, 0)
    } else {
        let port = &layout.ins[out.to as usize];
        (port.router, port.index)
    };
    Wire {
        free_at: 0,
        per_flit: fine_of(out.cycles_per_phit),
        to: out.to,
        to_router,
        to_index,
        held: 0,
        input_turn: 0,
        lane_turn: 0,
        tile_turn: 0,
        tiles: out.tiles,
        dim: out.dim,
        forward: out.forward.max(1),
    }
}
