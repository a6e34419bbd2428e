//! What the engine is made of: packets, queues, ports, wires, events.

use super::super::layout::{AT_HOME, In, NODE, Out};
use super::super::spec::RouterSpec;

/// No packet, no queue.
pub(super) const NONE: u32 = u32::MAX;
/// Most virtual channels of an input: sets of them are bytes.
pub(in crate::packet) const MAX_LANES: usize = 8;
/// Most ports of a router: sets of them are words.
pub(in crate::packet) const MAX_PORTS: usize = 64;
/// Room or credits of wires that end at a node, which always takes what comes.
const PLENTY: i32 = i32::MAX / 2;

/// A time in fractions of a cycle, as wires need it: 2^20 to a cycle.
pub(super) type Fine = u64;
const FRACTION_BITS: u32 = 20;
/// One cycle.
pub(super) const CYCLE: Fine = 1 << FRACTION_BITS;

/// The beginning of a cycle.
#[inline]
pub(super) fn fine(cycle: u64) -> Fine {
    cycle << FRACTION_BITS
}

/// Cycles, with fractions, as a time.
#[inline]
pub(super) fn fine_of(cycles: f64) -> Fine {
    (cycles * CYCLE as f64) as Fine
}

/// The cycle that a time is in.
#[inline]
pub(super) fn floor(time: Fine) -> u64 {
    time >> FRACTION_BITS
}

/// The first cycle that does not begin before a time.
#[inline]
pub(super) fn ceil(time: Fine) -> u64 {
    floor(time + CYCLE - 1)
}

/// A packet on its way.
#[derive(Clone, Copy, Debug)]
pub(in crate::packet) struct Packet {
    /// Node that it goes to.
    pub(in crate::packet) to: u32,
    pub(super) next: u32,
    /// What it means to whoever sent it.
    pub(in crate::packet) tag: u64,
    /// When it was made.
    pub(in crate::packet) born: u64,
    /// When its last phit is where its first one is; whole packets only.
    pub(super) tail_at: Fine,
    /// Cycles for which its node sends nothing else.
    pub(in crate::packet) pace: f32,
    /// Network: 0 request, 1 response.
    pub(in crate::packet) network: u8,
    pub(in crate::packet) flits: u8,
    pub(in crate::packet) phits_per_flit: u8,
    /// Dimension that it travels, to see turns, and dateline class in that ring.
    pub(super) dim: u8,
    pub(super) class: u8,
}

impl Packet {
    pub(in crate::packet) fn new(to: u32, tag: u64, born: u64) -> Self {
        Self {
            to,
            next: NONE,
            tag,
            born,
            tail_at: 0,
            pace: 0.0,
            network: 0,
            flits: 1,
            phits_per_flit: 1,
            dim: AT_HOME,
            class: 0,
        }
    }
}

/// A packet that reached its node.
#[derive(Clone, Copy, Debug)]
pub(in crate::packet) struct Delivered {
    pub(in crate::packet) node: u32,
    pub(in crate::packet) packet: Packet,
}

/// A virtual channel's queue at an input.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    pub(super) head: u32,
    pub(super) tail: u32,
    /// Flits here.
    pub(super) flits: u32,
    /// Flits of the first packet that have not left.
    pub(super) left: u8,
    /// Whether its first flit has left; whether it holds a virtual channel of its output.
    pub(super) begun: bool,
    pub(super) active: bool,
    /// Whether the first packet was kept from going on.
    pub(super) stalled: bool,
    /// Output of the first packet, and its virtual channel.
    pub(super) wire: u32,
    pub(super) out_lane: u8,
    /// Virtual channels that it may have there, and phits of its flits.
    pub(super) range: u8,
    pub(super) phits: u8,
    /// Where its search for a virtual channel begins.
    pub(super) turn: u8,
}

impl Lane {
    pub(super) const EMPTY: Self = Self {
        head: NONE,
        tail: NONE,
        flits: 0,
        left: 0,
        begun: false,
        active: false,
        stalled: false,
        wire: 0,
        out_lane: 0,
        range: 0,
        phits: 0,
        turn: 0,
    };
}

/// The receiving side of a wire: a port of a router.
#[derive(Clone, Debug)]
pub(super) struct Input {
    /// Until when a crossing keeps it busy.
    pub(super) busy: Fine,
    pub(super) router: u32,
    /// The sending side.
    pub(super) from: u32,
    /// Number among the router's inputs.
    pub(super) index: u8,
    /// Queues with a flit that may ask for the switch (whole packets: that wait for the input).
    pub(super) ready: u8,
    /// Queues that ask for a virtual channel.
    pub(super) asking: u8,
    /// Whose turn it is: output, queue.
    pub(super) turn: u8,
    pub(super) lane_turn: u8,
    /// Whether an event says when it is free.
    pub(super) watched: bool,
}

impl Input {
    pub(super) fn new(port: &In) -> Self {
        Self {
            busy: 0,
            router: port.router,
            from: port.from,
            index: port.index,
            ready: 0,
            asking: 0,
            turn: 0,
            lane_turn: 0,
            watched: false,
        }
    }
}

/// What a router has to do, as sets of inputs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Router {
    /// Inputs with queues that ask for a virtual channel; inputs with queues that may ask for the switch.
    pub(super) asking: u64,
    pub(super) ready: u64,
    pub(super) awake: bool,
}

/// The sending side of a wire.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    pub(super) free_at: Fine,
    pub(super) per_phit: Fine,
    /// Where it ends and begins: inputs and routers, or nodes marked with [`NODE`].
    pub(super) to: u32,
    pub(super) from: u32,
    /// Cycles to the far end.
    pub(super) forward: u32,
    /// Queues at the far end that a packet of flits holds.
    pub(super) held: u8,
    /// Queues behind the switch that hold packets.
    pub(super) waits: u8,
    /// Whose turn it is: input, queue at the far end, tile of the link that begins here.
    pub(super) input_turn: u8,
    pub(super) lane_turn: u8,
    pub(super) tile_turn: u8,
    pub(super) lacks_credit: bool,
    /// When an event looks at it again, if one is under way.
    pub(super) looks_at: u64,
    pub(super) credit_stall: Stall,
}

impl Wire {
    pub(super) fn new(out: &Out) -> Self {
        Self {
            free_at: 0,
            per_phit: fine_of(out.cycles_per_phit.min(1e9)),
            to: out.to,
            from: out.router,
            forward: out.forward,
            held: 0,
            waits: 0,
            input_turn: 0,
            lane_turn: 0,
            tile_turn: 0,
            lacks_credit: false,
            looks_at: 0,
            credit_stall: Stall::default(),
        }
    }

    /// Whether nothing is on the wire when this cycle ends.
    #[inline]
    pub(super) fn is_free(&self, now: u64) -> bool {
        self.free_at < fine(now + 1)
    }
}

/// The queue behind the switch of a wire's virtual channel. Channels that shared room could wait for
/// each other in a circle.
#[derive(Clone, Copy, Debug)]
pub(super) struct OutQueue {
    /// Phits that it has room for.
    pub(super) room: i32,
    pub(super) head: u32,
    pub(super) tail: u32,
    /// The last queue of the router that waits for room here.
    pub(super) last_blocked: u32,
}

impl OutQueue {
    pub(super) fn new(spec: &RouterSpec) -> Self {
        Self {
            room: spec.output_phits as i32,
            head: NONE,
            tail: NONE,
            last_blocked: NONE,
        }
    }
}

/// Phits that the far end of a wire has room for in each virtual channel.
pub(super) fn credits(out: &Out, spec: &RouterSpec) -> i32 {
    if out.to & NODE != 0 {
        PLENTY
    } else {
        spec.buffer_phits as i32
    }
}

/// Where a node sends from.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// Packets that wait, by network.
    pub(super) head: [u32; 2],
    pub(super) tail: [u32; 2],
    /// The wire and queue over which a packet of several flits is being sent, and its flits left.
    pub(super) wire: u32,
    pub(super) lane: u8,
    pub(super) left: u8,
    pub(super) phits: u8,
    pub(super) wire_turn: u8,
    pub(super) awake: bool,
    /// When the next packet may begin.
    pub(super) free_at: Fine,
}

impl Source {
    pub(super) const EMPTY: Self = Self {
        head: [NONE; 2],
        tail: [NONE; 2],
        wire: 0,
        lane: 0,
        left: 0,
        phits: 0,
        wire_turn: 0,
        awake: false,
        free_at: 0,
    };
}

/// What happens in a cycle. Queues are named by input and virtual channel at once.
#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    /// A packet's head arrives.
    Head { queue: u32, packet: u32 },
    /// Another of its flits arrives.
    Body { queue: u32 },
    /// The first packet of a queue knows its output.
    Routed { queue: u32 },
    /// The far end of a wire has room again.
    Credit { channel: u32, phits: u8 },
    /// A wire is free.
    Look { wire: u32 },
    /// An input is free.
    InputFree { input: u32 },
    /// A node may send again.
    Source { node: u32 },
    /// Somebody wanted to be told.
    Remind { node: u32 },
    /// A packet is at its node.
    Deliver { node: u32, packet: u32 },
}

/// What a tile counted of arrivals.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::packet) struct Count {
    /// By network: requests are virtual channel 0 to the counters, responses 1.
    pub(in crate::packet) packets: [u64; 2],
    pub(in crate::packet) phits: [u64; 2],
    /// Cycles in which an arrival waited to go on.
    pub(in crate::packet) input_stall: u64,
}

/// Cycles in which at least one of several waits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stall {
    since: u64,
    cycles: u64,
    waiting: u16,
}

impl Stall {
    #[inline]
    pub(super) fn begin(&mut self, now: u64) {
        if self.waiting == 0 {
            self.since = now;
        }
        self.waiting += 1;
    }

    #[inline]
    pub(super) fn end(&mut self, now: u64) {
        self.waiting -= 1;
        if self.waiting == 0 {
            self.cycles += now - self.since;
        }
    }

    pub(super) fn until(&self, now: u64) -> u64 {
        let open = if self.waiting > 0 {
            now.saturating_sub(self.since)
        } else {
            0
        };
        self.cycles + open
    }
}

/// The lowest member from `turn` on, else the lowest of all.
#[inline]
pub(super) fn first_from(set: u64, turn: u8) -> u8 {
    let later = set & u64::MAX.checked_shl(u32::from(turn)).unwrap_or(0);
    (if later != 0 { later } else { set }).trailing_zeros() as u8
}

/// Takes the lowest member out of a set.
#[inline]
pub(super) fn take_lowest(set: &mut u64) -> usize {
    let lowest = set.trailing_zeros() as usize;
    *set &= *set - 1;
    lowest
}
