//! Routers with input queues: a cycle gives virtual channels to queues and the switch to flits.
//!
//! They act only on what arrived before, so that their order within a cycle does not matter. Virtual
//! channels and the switch are allocated in one round a cycle, both sides round robin.

use super::parts::{CYCLE, MAX_LANES, MAX_PORTS, ceil, first_from, take_lowest};
use super::{Engine, Event, NODE, NONE, fine};

/// Most queues of a router; most of them that ask for a virtual channel in one cycle.
const TOTAL_LANES: u16 = (MAX_PORTS * MAX_LANES) as u16;
const MOST_WISHES: usize = 64;

/// A queue (`number` among its router's) would like one of the free channels of a wire.
#[derive(Clone, Copy, Debug, Default)]
struct Wish {
    wire: u32,
    queue: u32,
    number: u16,
    free: u8,
    granted: u8,
}

/// What a router's cycle works with; empty between cycles.
#[derive(Clone, Debug)]
pub(super) struct Scratch {
    wishes: Vec<Wish>,
    /// Queues that got a virtual channel in this cycle and may use it in the next.
    fresh: Vec<u32>,
    /// Inputs that want an output, by output; outputs that chose an input, by input.
    wanted_by: [u64; MAX_PORTS],
    granted: [u64; MAX_PORTS],
    /// Queues that could send, by input.
    able: [u8; MAX_PORTS],
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            wishes: Vec::with_capacity(MOST_WISHES),
            fresh: Vec::with_capacity(MOST_WISHES),
            wanted_by: [0; MAX_PORTS],
            granted: [0; MAX_PORTS],
            able: [0; MAX_PORTS],
        }
    }
}

impl Engine {
    pub(super) fn arrive_head(&mut self, queue: u32, id: u32) {
        let is_first = self.queue_up(queue, id);
        self.queues[queue as usize].flits += 1;
        if is_first {
            self.begin_routing(queue, u64::from(self.spec.route_cycles));
        }
    }

    pub(super) fn arrive_body(&mut self, queue: u32) {
        let lane = &mut self.queues[queue as usize];
        lane.flits += 1;
        if lane.active && lane.flits == 1 {
            self.make_ready(queue);
        }
    }

    /// The first packet of a queue will know its output in some cycles.
    fn begin_routing(&mut self, queue: u32, cycles: u64) {
        let lane = &mut self.queues[queue as usize];
        lane.left = self.packets[lane.head as usize].flits;
        lane.active = false;
        lane.begun = false;
        self.wheel.put(self.now + cycles, Event::Routed { queue });
    }

    /// The first packet of a queue knows its output and asks for a virtual channel there.
    pub(super) fn ask(&mut self, queue: u32) {
        self.find_way(queue);
        let (port, lane) = self.split(queue);
        let input = &mut self.inputs[port];
        input.asking |= 1 << lane;
        let router = input.router;
        self.routers[router as usize].asking |= 1 << input.index;
        self.wake(router);
    }

    /// A queue has a flit that may ask for the switch.
    #[inline]
    pub(super) fn make_ready(&mut self, queue: u32) {
        let (port, lane) = self.split(queue);
        let input = &mut self.inputs[port];
        let lane_state = &mut self.queues[queue as usize];
        if !lane_state.stalled {
            lane_state.stalled = true;
            self.input_stalls[port].begin(self.now);
        }
        input.ready |= 1 << lane;
        let router = input.router;
        self.routers[router as usize].ready |= 1 << input.index;
        self.wake(router);
    }

    /// One cycle of a router: virtual channels by what was free before, then the switch among queues
    /// that were ready before.
    pub(super) fn allocate(&mut self, router: u32) {
        if self.routers[router as usize].asking != 0 {
            self.allocate_lanes(router);
        }
        if self.routers[router as usize].ready != 0 {
            self.allocate_switch(router);
        }
        while let Some(queue) = self.scratch.fresh.pop() {
            self.make_ready(queue);
        }
        if self.routers[router as usize].ready != 0 {
            self.wake(router);
        }
    }

    /// Gives asking queues virtual channels: each free one goes to one of those that could use it, each
    /// asking queue takes one of those that it got.
    fn allocate_lanes(&mut self, router: u32) {
        let mut wishes = std::mem::take(&mut self.scratch.wishes);
        let base = self.layout.in_base[router as usize];
        let mut ports = self.routers[router as usize].asking;
        let mut again = false;
        while ports != 0 {
            let index = take_lowest(&mut ports);
            let port = base as usize + index;
            let mut lanes = u64::from(self.inputs[port].asking);
            while lanes != 0 {
                let queue = self.at(port, take_lowest(&mut lanes) as u8);
                let lane = &self.queues[queue];
                let wire = lane.wire;
                let free = lane.range & !self.wires[wire as usize].held;
                if free != 0 && wishes.len() < MOST_WISHES {
                    wishes.push(Wish {
                        wire,
                        queue: queue as u32,
                        number: (queue - (base as usize) * self.lanes) as u16,
                        free,
                        granted: 0,
                    });
                } else {
                    again |= free != 0;
                }
            }
        }
        for i in 0..wishes.len() {
            wishes[i].granted = self.granted(&wishes, i);
        }
        for wish in &wishes {
            if wish.granted == 0 {
                again = true;
            } else {
                self.give_lane(router, wish);
            }
        }
        wishes.clear();
        self.scratch.wishes = wishes;
        if again {
            self.wake(router);
        }
    }

    /// Channels that go to a wish when every channel chooses among those that could use it, in turn.
    fn granted(&self, wishes: &[Wish], i: usize) -> u8 {
        let mine = wishes[i];
        if wishes.iter().filter(|w| w.wire == mine.wire).count() == 1 {
            return mine.free;
        }
        let goes_to_me = |lane: usize| {
            let turn = self.asking_turns[self.at(mine.wire as usize, lane as u8)];
            let rank = |w: &Wish| (w.number + TOTAL_LANES - turn) % TOTAL_LANES;
            let could = |w: &&Wish| w.wire == mine.wire && w.free & (1 << lane) != 0;
            let winner = wishes.iter().filter(could).min_by_key(|w| rank(w));
            winner.is_some_and(|w| w.number == mine.number)
        };
        let mut granted = 0;
        let mut lanes = u64::from(mine.free);
        while lanes != 0 {
            let lane = take_lowest(&mut lanes);
            granted |= u8::from(goes_to_me(lane)) << lane;
        }
        granted
    }

    /// Gives a queue one of the channels that it got.
    fn give_lane(&mut self, router: u32, wish: &Wish) {
        let (port, lane) = self.split(wish.queue);
        let input = &mut self.inputs[port];
        input.asking &= !(1 << lane);
        if input.asking == 0 {
            self.routers[router as usize].asking &= !(1 << input.index);
        }
        let queue = &mut self.queues[wish.queue as usize];
        let lane = first_from(u64::from(wish.granted), queue.turn);
        queue.active = true;
        queue.out_lane = lane;
        queue.turn = lane + 1;
        self.wires[wish.wire as usize].held |= 1 << lane;
        if queue.flits > 0 {
            self.scratch.fresh.push(wish.queue);
        }
        let channel = self.at(wish.wire as usize, lane);
        self.asking_turns[channel] = (wish.number + 1) % TOTAL_LANES;
    }

    /// Sends flits through the switch: each output chooses among the inputs that have something for it,
    /// each input among the outputs that chose it, both in turn (iSLIP with one iteration).
    fn allocate_switch(&mut self, router: u32) {
        let ins = self.layout.in_base[router as usize] as usize;
        let outs = self.layout.out_base[router as usize] as usize;
        let mut asked = self.ask_for_outputs(router, ins, outs);
        let mut inputs = 0u64;
        while asked != 0 {
            let out = take_lowest(&mut asked);
            let wanted_by = std::mem::take(&mut self.scratch.wanted_by[out]);
            let index = first_from(wanted_by, self.wires[outs + out].input_turn);
            self.scratch.granted[usize::from(index)] |= 1 << out;
            inputs |= 1 << index;
        }
        while inputs != 0 {
            let index = take_lowest(&mut inputs);
            let granted = std::mem::take(&mut self.scratch.granted[index]);
            let port = ins + index;
            let out = first_from(granted, self.inputs[port].turn);
            let wire = outs + usize::from(out);
            let lane = self.choose_lane(port, wire as u32, self.scratch.able[index]);
            self.wires[wire].input_turn = (index + 1) as u8;
            self.inputs[port].turn = out + 1;
            self.inputs[port].lane_turn = (lane + 1) & (self.lanes as u8 - 1);
            self.pass(router, port, lane, wire);
        }
    }

    /// Which inputs could send to which outputs now. Returns the outputs.
    #[inline]
    fn ask_for_outputs(&mut self, router: u32, ins: usize, outs: usize) -> u64 {
        let mut asked = 0u64;
        let mut ports = self.routers[router as usize].ready;
        while ports != 0 {
            let index = take_lowest(&mut ports);
            let port = ins + index;
            if self.inputs[port].busy > fine(self.now) {
                continue;
            }
            let mut able = 0;
            let mut lanes = u64::from(self.inputs[port].ready);
            while lanes != 0 {
                let lane = take_lowest(&mut lanes) as u8;
                if let Some(wire) = self.may_go(router, port, lane) {
                    let out = wire as usize - outs;
                    able |= 1 << lane;
                    self.scratch.wanted_by[out] |= 1 << index;
                    asked |= 1 << out;
                }
            }
            self.scratch.able[index] = able;
        }
        asked
    }

    /// The queue of an input that sends to a wire.
    #[inline]
    fn choose_lane(&self, port: usize, wire: u32, able: u8) -> u8 {
        let mut lanes = u64::from(able);
        let mut fitting = 0;
        while lanes != 0 {
            let lane = take_lowest(&mut lanes);
            let fits = self.queues[self.at(port, lane as u8)].wire == wire;
            fitting |= u64::from(fits) << lane;
        }
        first_from(fitting, self.inputs[port].lane_turn)
    }

    /// Where the first flit of a ready queue could go now; if nowhere, the queue waits for its channel.
    #[inline]
    fn may_go(&mut self, router: u32, port: usize, lane: u8) -> Option<u32> {
        let at = self.at(port, lane);
        let queue = &self.queues[at];
        let out = queue.wire;
        let channel = self.at(out as usize, queue.out_lane);
        let has_room = self.credits[channel] >= i32::from(queue.phits);
        if has_room && self.wires[out as usize].is_free(self.now) {
            return Some(out);
        }
        // Nobody else holds the channel.
        self.blocked[channel] = at as u32;
        self.no_longer_ready(router, port, lane);
        self.look_when_free(out);
        None
    }

    #[inline]
    fn no_longer_ready(&mut self, router: u32, port: usize, lane: u8) {
        let input = &mut self.inputs[port];
        input.ready &= !(1 << lane);
        if input.ready == 0 {
            self.routers[router as usize].ready &= !(1 << input.index);
        }
    }

    /// The queue that waits for a channel may try again.
    #[inline]
    pub(super) fn try_again(&mut self, channel: usize) {
        let queue = std::mem::replace(&mut self.blocked[channel], NONE);
        if queue != NONE {
            self.make_ready(queue);
        }
    }

    /// Moves one flit of a queue through the switch.
    fn pass(&mut self, router: u32, port: usize, lane: u8, wire: usize) {
        let at = self.at(port, lane);
        self.no_longer_ready(router, port, lane);
        let queue = &mut self.queues[at];
        let first = !std::mem::replace(&mut queue.begun, true);
        queue.left -= 1;
        queue.flits -= 1;
        queue.stalled = false;
        let (id, out_lane, phits) = (queue.head, queue.out_lane, queue.phits);
        let (last, more) = (queue.left == 0, queue.flits > 0);
        self.input_stalls[port].end(self.now);
        let input = &mut self.inputs[port];
        let switched = (u64::from(phits) * self.per_phit_switch).max(CYCLE);
        input.busy = fine(self.now) + switched;
        let channel = self.at(self.inputs[port].from as usize, lane) as u32;
        self.flit_hops += 1;
        self.packet_hops += u64::from(last);
        let gone = self.now + ceil(switched) - 1 + u64::from(self.spec.credit_cycles);
        self.wheel.put(gone, Event::Credit { channel, phits });
        if last {
            self.next_packet(router, at);
        } else if more {
            self.make_ready(at as u32);
        }
        self.send_flit(wire, out_lane, id, phits, first, last);
    }

    /// The last flit of a queue's first packet has left.
    fn next_packet(&mut self, router: u32, at: usize) {
        let queue = &mut self.queues[at];
        queue.head = self.packets[queue.head as usize].next;
        queue.active = false;
        if queue.head != NONE {
            let cycles = u64::from(self.spec.route_cycles) + 1;
            self.begin_routing(at as u32, cycles);
        }
        // The channel is free for those that ask.
        if self.routers[router as usize].asking != 0 {
            self.wake(router);
        }
    }

    /// Puts a flit on a wire. A packet of several flits may lie in several queues: each has its own copy.
    fn send_flit(&mut self, wire: usize, lane: u8, id: u32, phits: u8, first: bool, last: bool) {
        let goes_on = self.wires[wire].to & NODE == 0;
        if goes_on && !first {
            self.body_onto_wire(wire, lane, phits, last);
            if last {
                self.forget(id);
            }
            return;
        }
        let sent = if goes_on && !last {
            self.keep(self.packets[id as usize])
        } else {
            id
        };
        self.flit_onto_wire(wire, lane, sent, first, last);
    }
}
