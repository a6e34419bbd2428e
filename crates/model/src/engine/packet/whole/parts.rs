//! Parts of the engine: packets, queues, ports, wires, events.

use super::super::bits::{Fine, fine, fine_of};
use super::super::layout::{AT_HOME, In, NODE, Out};
use super::super::spec::RouterSpec;

/// No packet, no queue.
pub(super) const NONE: u32 = u32::MAX;
/// Buffer or credits of wires that end at a node: nodes always accept packets.
const PLENTY: i32 = i32::MAX / 2;

/// A packet in flight.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine::packet) struct Packet {
    /// Tag of the sender.
    pub(in crate::engine::packet) tag: u64,
    /// Time at which its last phit reaches the position of its first.
    pub(super) tail_at: Fine,
    /// Destination node.
    pub(in crate::engine::packet) to: u32,
    pub(super) next: u32,
    /// Cycles for which its node sends nothing else.
    pub(in crate::engine::packet) pace: f32,
    pub(in crate::engine::packet) phits: u8,
    /// Network: 0 request, 1 response.
    pub(in crate::engine::packet) network: u8,
    /// Dimension of travel, to detect turns, and dateline class in that ring.
    pub(super) dim: u8,
    pub(super) class: u8,
}

impl Packet {
    /// A request without data.
    pub(in crate::engine::packet) fn new(to: u32, tag: u64, phits: u8) -> Self {
        Self {
            tag,
            tail_at: 0,
            to,
            next: NONE,
            pace: 0.0,
            phits,
            network: 0,
            dim: AT_HOME,
            class: 0,
        }
    }
}

/// A packet that reached its node.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine::packet) struct Delivered {
    pub(in crate::engine::packet) node: u32,
    pub(in crate::engine::packet) tag: u64,
}

/// A virtual channel's queue at an input.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queue {
    pub(super) head: u32,
    pub(super) tail: u32,
    /// Output channel of the first packet.
    pub(super) out: u32,
    /// The queue behind this one that waits for room there.
    pub(super) behind: u32,
    /// Phits of the first packet.
    pub(super) phits: u8,
    /// Start of its next search for a virtual channel.
    pub(super) turn: u8,
    /// Whether the first packet is blocked.
    pub(super) stalled: bool,
}

impl Queue {
    pub(super) const EMPTY: Self = Self {
        head: NONE,
        tail: NONE,
        out: NONE,
        behind: NONE,
        phits: 0,
        turn: 0,
        stalled: false,
    };
}

/// The receiving side of a wire: a port of a router.
#[derive(Clone, Debug)]
pub(super) struct Input {
    /// Busy with a crossing until this cycle.
    pub(super) busy: Fine,
    pub(super) router: u32,
    /// The sending side.
    pub(super) from: u32,
    /// Queues whose first packet waits for it, and the next in turn.
    pub(super) waits: u8,
    pub(super) lane_turn: u8,
    /// Whether an event is pending for the time when it is free.
    pub(super) watched: bool,
    /// Queues whose first packet is blocked.
    stalled: u8,
    /// Arrivals, and cycles in which any of them was blocked.
    pub(super) count: Count,
    pub(super) stall: Stall,
}

impl Input {
    pub(super) fn new(port: &In) -> Self {
        Self {
            busy: 0,
            router: port.router,
            from: port.from,
            waits: 0,
            lane_turn: 0,
            watched: false,
            stalled: 0,
            count: Count::default(),
            stall: Stall::NONE,
        }
    }

    #[inline]
    pub(super) fn begin_stall(&mut self, now: u64) {
        if self.stalled == 0 {
            self.stall.begin(now);
        }
        self.stalled += 1;
    }

    #[inline]
    pub(super) fn end_stall(&mut self, now: u64) {
        self.stalled -= 1;
        if self.stalled == 0 {
            self.stall.end(now);
        }
    }
}

/// The sending side of a wire.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    pub(super) free_at: Fine,
    pub(super) per_phit: Fine,
    /// Far end and near end: inputs and routers, or nodes marked with [`NODE`].
    pub(super) to: u32,
    pub(super) from: u32,
    /// Cycles to the far end.
    pub(super) forward: u32,
    /// Output queues that hold packets.
    pub(super) waits: u8,
    /// Round-robin positions: queue at the far end, tile of the link that begins here.
    pub(super) lane_turn: u8,
    pub(super) tile_turn: u8,
    /// Outputs of that link, and its dimension.
    pub(super) tiles: u8,
    pub(super) dim: u8,
    /// Cycle of the pending event that checks it, if any.
    pub(super) looks_at: u64,
    pub(super) credit_stall: Stall,
}

impl Wire {
    pub(super) fn new(out: &Out) -> Self {
        Self {
            free_at: 0,
            per_phit: fine_of(out.cycles_per_phit),
            to: out.to,
            from: out.router,
            forward: out.forward,
            waits: 0,
            lane_turn: 0,
            tile_turn: 0,
            tiles: out.tiles,
            dim: out.dim,
            looks_at: 0,
            credit_stall: Stall::NONE,
        }
    }

    /// Whether the wire is idle at the end of this cycle.
    #[inline]
    pub(super) fn is_free(&self, now: u64) -> bool {
        self.free_at < fine(now + 1)
    }
}

/// A virtual channel of a wire, with its output queue. Channels with a shared buffer could
/// deadlock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Channel {
    /// Credits at the far end, and free phits of its queue here.
    pub(super) credits: i32,
    pub(super) room: i32,
    pub(super) head: u32,
    pub(super) tail: u32,
    /// The first and last queue of the router that wait for room here.
    pub(super) blocked: u32,
    pub(super) last_blocked: u32,
}

impl Channel {
    pub(super) fn new(out: &Out, spec: &RouterSpec) -> Self {
        Self {
            credits: if out.to & NODE != 0 {
                PLENTY
            } else {
                spec.buffer_phits as i32
            },
            room: spec.output_phits as i32,
            head: NONE,
            tail: NONE,
            blocked: NONE,
            last_blocked: NONE,
        }
    }
}

/// Sending side of a node.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// Waiting packets, by network.
    pub(super) head: [u32; 2],
    pub(super) tail: [u32; 2],
    /// Earliest cycle of the next packet.
    pub(super) free_at: Fine,
    pub(super) wire_turn: u8,
    pub(super) awake: bool,
}

impl Source {
    pub(super) const EMPTY: Self = Self {
        head: [NONE; 2],
        tail: [NONE; 2],
        free_at: 0,
        wire_turn: 0,
        awake: false,
    };
}

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// At a queue (input and virtual channel together): a packet's head has arrived and is routed.
    Head,
    /// At a channel: credits for a number of phits arrive.
    Credit,
    /// A wire is free.
    Look,
    /// An input is free.
    InputFree,
    /// A node may send again.
    Source,
    /// A node's listing was requested.
    Remind,
    /// At a node: a packet has arrived.
    Deliver,
}

/// An event in eight bytes: events are most of the engine's memory traffic.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    what_at: u32,
    pub(super) with: u32,
}

/// Bits of a place's number; above them is the kind of event.
const PLACE_BITS: u32 = 29;

impl Event {
    /// An event at a queue, channel, wire, input or node, with a packet or a number of phits.
    #[inline]
    pub(super) fn new(what: What, at: u32, with: u32) -> Self {
        debug_assert!(at < 1 << PLACE_BITS);
        Self {
            what_at: (what as u32) << PLACE_BITS | at,
            with,
        }
    }

    #[inline]
    pub(super) fn what(self) -> What {
        match self.what_at >> PLACE_BITS {
            0 => What::Head,
            1 => What::Credit,
            2 => What::Look,
            3 => What::InputFree,
            4 => What::Source,
            5 => What::Remind,
            _ => What::Deliver,
        }
    }

    #[inline]
    pub(super) fn at(self) -> u32 {
        self.what_at & ((1 << PLACE_BITS) - 1)
    }
}

/// Arrival counters of a tile.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::engine::packet) struct Count {
    /// By network: requests are virtual channel 0 in the counters, responses 1.
    pub(in crate::engine::packet) packets: [u64; 2],
    pub(in crate::engine::packet) phits: [u64; 2],
}

/// Cycles in which at least one packet waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stall {
    since: u64,
    cycles: u64,
}

impl Stall {
    /// No packet waits, none has waited.
    const NONE: Self = Self {
        since: u64::MAX,
        cycles: 0,
    };

    #[inline]
    pub(super) fn begin(&mut self, now: u64) {
        self.since = now;
    }

    #[inline]
    pub(super) fn end(&mut self, now: u64) {
        self.cycles += now - self.since;
        self.since = u64::MAX;
    }

    /// Whether any packet waits.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.since != u64::MAX
    }

    /// Counts so many cycles fewer.
    pub(super) fn recount(&mut self, fewer: u64) {
        if self.is_open() {
            self.cycles += fewer.saturating_sub(self.since);
            self.since = self.since.saturating_sub(fewer);
        }
    }

    pub(super) fn until(&self, now: u64) -> u64 {
        self.cycles + now.saturating_sub(self.since)
    }
}
