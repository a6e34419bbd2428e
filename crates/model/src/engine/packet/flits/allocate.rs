//! Allocation of virtual channels and of the switch: one round a cycle, round robin on both sides.

use super::super::bits::{fine, first_from, take_lowest};
use super::super::layout::{MAX_LANES, MAX_PORTS, NODE};
use super::{Flits, NONE, State};

/// Maximum number of queues of a router.
const TOTAL_LANES: u16 = (MAX_PORTS * MAX_LANES) as u16;

/// A request of a queue (`number` among its router's) for one of the free channels of an output.
#[derive(Clone, Copy, Debug)]
struct Wish {
    number: u16,
    out: u8,
    free: u8,
    granted: u8,
}

/// Scratch space of a router's cycle; empty between cycles.
#[derive(Clone, Debug)]
pub(super) struct Scratch {
    wishes: Vec<Wish>,
    /// Queues (input, channel) that got a channel in this cycle and may use it in the next.
    fresh: Vec<(u32, u8)>,
    /// Inputs that request an output, by output; outputs that chose an input, by input.
    wanted_by: [u64; MAX_PORTS],
    granted: [u64; MAX_PORTS],
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            wishes: Vec::new(),
            fresh: Vec::new(),
            wanted_by: [0; MAX_PORTS],
            granted: [0; MAX_PORTS],
        }
    }
}

impl Flits {
    /// One cycle of a router: virtual channels among those free before this cycle, then the switch among queues
    /// that were ready before it.
    #[inline]
    pub(super) fn allocate(&mut self, router: usize, ins: usize, outs: usize) {
        if self.routers[router].may_give {
            self.allocate_lanes(router, ins, outs);
        }
        if self.routers[router].able != 0 {
            self.allocate_switch(router, ins, outs);
        }
        while let Some((input, lane)) = self.scratch.fresh.pop() {
            self.find_able(outs, input as usize, lane);
        }
    }

    /// Allocates virtual channels to requesting queues: each free channel is granted to one of the queues that
    /// could use it, each queue accepts one of its grants.
    fn allocate_lanes(&mut self, router: usize, ins: usize, outs: usize) {
        let mut wishes = std::mem::take(&mut self.scratch.wishes);
        // Outputs with several requests.
        let (mut wished, mut contended) = (0u64, 0u64);
        let mut ports = self.routers[router].asking;
        while ports != 0 {
            let index = take_lowest(&mut ports);
            let mut lanes = u64::from(self.inputs[ins + index].asking);
            while lanes != 0 {
                let number = self.at(index, take_lowest(&mut lanes) as u8);
                let queue = &self.queues[(ins << self.lane_bits) + number];
                let free = queue.range & !self.wires[outs + usize::from(queue.out)].held;
                if free != 0 {
                    contended |= wished & 1 << queue.out;
                    wished |= 1 << queue.out;
                    wishes.push(Wish {
                        number: number as u16,
                        out: queue.out,
                        free,
                        granted: free,
                    });
                }
            }
        }
        if contended != 0 {
            for i in 0..wishes.len() {
                if contended & 1 << wishes[i].out != 0 {
                    wishes[i].granted = self.granted(outs, &wishes, i);
                }
            }
        }
        let mut again = false;
        for wish in wishes.drain(..) {
            if wish.granted == 0 {
                again = true;
            } else {
                self.give_lane(router, ins, outs, wish);
            }
        }
        self.scratch.wishes = wishes;
        self.routers[router].may_give = again;
    }

    /// Channels granted to a request when every channel chooses round robin among the queues that could use it.
    fn granted(&self, outs: usize, wishes: &[Wish], i: usize) -> u8 {
        let mine = wishes[i];
        let base = self.at(outs + usize::from(mine.out), 0);
        let mut granted = 0;
        let mut lanes = u64::from(mine.free);
        while lanes != 0 {
            let lane = take_lowest(&mut lanes);
            let turn = self.lanes[base + lane].turn;
            let rank = |w: &Wish| (w.number + TOTAL_LANES - turn) % TOTAL_LANES;
            let my_rank = rank(&mine);
            let before =
                |w: &Wish| w.out == mine.out && w.free & (1 << lane) != 0 && rank(w) < my_rank;
            granted |= u8::from(!wishes.iter().any(before)) << lane;
        }
        granted
    }

    /// Allocates one of the granted channels to a queue.
    #[inline]
    fn give_lane(&mut self, router: usize, ins: usize, outs: usize, wish: Wish) {
        let number = usize::from(wish.number);
        let (index, lane) = (
            number >> self.lane_bits,
            (number & ((1 << self.lane_bits) - 1)) as u8,
        );
        let input = &mut self.inputs[ins + index];
        input.asking &= !(1 << lane);
        if input.asking == 0 {
            self.routers[router].asking &= !(1 << index);
        }
        let queue = &mut self.queues[(ins << self.lane_bits) + number];
        queue.state = State::Holds;
        queue.lane = first_from(u64::from(wish.granted), queue.turn);
        queue.turn = queue.lane + 1;
        let wire = outs + usize::from(wish.out);
        self.wires[wire].held |= 1 << queue.lane;
        let channel = wire << self.lane_bits | usize::from(queue.lane);
        self.lanes[channel].holder = wish.number;
        self.lanes[channel].turn = (wish.number + 1) % TOTAL_LANES;
        self.scratch.fresh.push(((ins + index) as u32, lane));
    }

    /// Sends flits through the switch: each output chooses among the inputs with a flit for it, each input
    /// among the outputs that chose it, both round robin (iSLIP with one iteration).
    fn allocate_switch(&mut self, router: usize, ins: usize, outs: usize) {
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
            let out = first_from(granted, self.inputs[ins + index].turn);
            self.pass(router, ins + index, outs, out);
        }
    }

    /// Collects the inputs that can send to each output now. Returns the outputs.
    #[inline]
    fn ask_for_outputs(&mut self, router: usize, ins: usize, outs: usize) -> u64 {
        let mut asked = 0u64;
        let mut ports = self.routers[router].able;
        while ports != 0 {
            let index = take_lowest(&mut ports);
            let port = ins + index;
            if self.inputs[port].busy > fine(self.now) {
                continue;
            }
            let mut lanes = u64::from(self.inputs[port].able);
            while lanes != 0 {
                let lane = take_lowest(&mut lanes) as u8;
                let out = self.queues[self.at(port, lane)].out;
                if self.wires[outs + usize::from(out)].is_free(self.now) {
                    self.scratch.wanted_by[usize::from(out)] |= 1 << index;
                    asked |= 1 << out;
                }
            }
        }
        asked
    }

    /// The queue of an input that sends to an output, round robin.
    #[inline]
    fn choose_lane(&self, port: usize, out: u8) -> u8 {
        let input = &self.inputs[port];
        let mut lanes = u64::from(input.able);
        let mut fitting = 0;
        while lanes != 0 {
            let lane = take_lowest(&mut lanes);
            let fits = self.queues[self.at(port, lane as u8)].out == out;
            fitting |= u64::from(fits) << lane;
        }
        first_from(fitting, input.lane_turn)
    }

    /// Moves one flit of an input through the switch.
    #[inline]
    fn pass(&mut self, router: usize, port: usize, outs: usize, out: u8) {
        let lane = self.choose_lane(port, out);
        let wire = outs + usize::from(out);
        self.wires[wire].input_turn = self.inputs[port].index + 1;
        let input = &mut self.inputs[port];
        input.turn = out + 1;
        input.lane_turn = (lane + 1) & ((1 << self.lane_bits) - 1);
        input.busy = fine(self.now) + self.switched;
        self.ring
            .put_credit(self.now + self.credit_cycles, input, lane);
        let at = self.at(port, lane);
        let queue = &mut self.queues[at];
        let id = queue.head;
        let first = std::mem::replace(&mut queue.state, State::Goes) == State::Holds;
        queue.left -= 1;
        queue.flits -= 1;
        let (last, more, out_lane) = (queue.left == 0, queue.flits > 0, queue.lane);
        self.flit_hops += 1;
        if self.wires[wire].to & NODE == 0 {
            self.flit_onto_wire(wire, out_lane, if first { id + 1 } else { 0 });
        } else {
            let wire = &mut self.wires[wire];
            wire.occupy(self.now);
            if last {
                let slot = self.ring.slot(self.now + u64::from(wire.forward));
                self.ring.deliveries[slot].push(id);
            }
        }
        if last {
            self.wires[wire].held &= !(1 << out_lane);
            self.next_packet(router, port, lane);
        }
        if last || !more || self.lanes[self.at(wire, out_lane)].credits == 0 {
            let input = &mut self.inputs[port];
            input.able &= !(1 << lane);
            if input.able == 0 {
                self.routers[router].able &= !(1 << input.index);
            }
        }
    }

    /// Removes a queue's first packet after its last flit has left.
    #[inline]
    fn next_packet(&mut self, router: usize, port: usize, lane: u8) {
        self.packet_hops += 1;
        // The channel is free for other queues.
        self.routers[router].may_give = self.routers[router].asking != 0;
        let at = self.at(port, lane);
        self.queues[at].state = State::Waits;
        self.queues[at].head = NONE;
        let id = self.behind[at][0];
        if id != NONE {
            self.behind[at][0] = self.packets[id as usize].next;
            self.begin_routing(port, lane, id, self.route_cycles + 1);
        }
    }
}
