//! A router's cycle: virtual channels to lanes, the switch to flits.

use super::*;

impl Engine {
    /// Lanes of an output that a packet may take: those of its network, and of its dateline class
    /// unless it has arrived.
    pub(super) fn range(&self, packet: &Packet, to: u32) -> u8 {
        let channels = usize::from(self.spec.channels);
        let first = usize::from(packet.network) * 2 * channels;
        let (first, count) = if to & NODE != 0 {
            (first, 2 * channels)
        } else {
            (first + usize::from(packet.class) * channels, channels)
        };
        (((1u16 << count) - 1) << first) as u8
    }

    /// One cycle of a router: virtual channels by what was free before, then the switch among lanes that
    /// were ready before.
    pub(super) fn allocate(&mut self, r: u32) {
        let ready = self.routers[r as usize].ready;
        let mut again = false;
        if self.routers[r as usize].asking != [0; WORDS] {
            again |= self.allocate_lanes(r);
        }
        if ready != [0; WORDS] {
            again |= self.allocate_switch(r, ready);
        }
        if again {
            self.wake(r);
        }
    }

    /// Gives asking lanes virtual channels: each free one goes to one of those that could use it, each
    /// asking lane takes one of those that it got. Says whether some may have one in the next cycle.
    pub(super) fn allocate_lanes(&mut self, r: u32) -> bool {
        let asking = self.routers[r as usize].asking;
        let (ins, outs) = (
            self.layout.in_base[r as usize],
            self.layout.out_base[r as usize],
        );
        let mut wishes = [Wish::default(); MOST_WISHES];
        let mut count = 0;
        let mut again = false;
        for bit in members(&asking) {
            let queue = &self.queues[ins as usize * self.lanes + bit];
            let packet = &self.packets[queue.head as usize];
            let wire = outs + u32::from(queue.out);
            let range = self.range(packet, self.layout.outs[wire as usize].to);
            let bit = bit as u16;
            if packet.flits == 1 {
                // Whole packets do not hold the lanes that they go through.
                let free = range;
                self.give_lane(r, ins, Wish { wire, free, bit }, false);
                continue;
            }
            let free = range & !self.wires[wire as usize].held;
            if free != 0 && count < MOST_WISHES {
                wishes[count] = Wish { wire, free, bit };
                count += 1;
            } else {
                again |= free != 0;
            }
        }
        let mut granted = [0u8; MOST_WISHES];
        for (i, granted) in granted.iter_mut().enumerate().take(count) {
            *granted = self.granted(&wishes[..count], i);
        }
        for (wish, &free) in wishes[..count].iter().zip(&granted) {
            if free == 0 {
                again = true;
            } else {
                self.give_lane(r, ins, Wish { free, ..*wish }, true);
            }
        }
        again
    }

    /// Lanes that go to a wish when every lane chooses among those that could use it, in turn.
    fn granted(&self, wishes: &[Wish], i: usize) -> u8 {
        let mine = wishes[i];
        let turns = &self.wires[mine.wire as usize].asking_turn;
        let goes_to_me = |lane: usize| {
            let turn = usize::from(turns[lane]);
            let rank = |w: &Wish| (usize::from(w.bit) + TOTAL_LANES - turn) % TOTAL_LANES;
            let could = |w: &&Wish| w.wire == mine.wire && w.free & (1 << lane) != 0;
            let winner = wishes.iter().filter(could).min_by_key(|w| rank(w));
            winner.is_some_and(|w| w.bit == mine.bit)
        };
        let mut granted = 0;
        let mut bits = mine.free;
        while bits != 0 {
            let lane = bits.trailing_zeros() as usize;
            bits &= bits - 1;
            granted |= u8::from(goes_to_me(lane)) << lane;
        }
        granted
    }

    /// Gives one of the lanes of a wish.
    fn give_lane(&mut self, r: u32, ins: u32, wish: Wish, hold: bool) {
        let bit = usize::from(wish.bit);
        remove(&mut self.routers[r as usize].asking, bit);
        let queue = &mut self.queues[ins as usize * self.lanes + bit];
        let lane = first_from(u64::from(wish.free), queue.turn);
        queue.state = State::Active;
        queue.out_lane = lane;
        queue.turn = lane + 1;
        let has_flits = queue.flits > 0;
        if hold {
            let wire = &mut self.wires[wish.wire as usize];
            wire.held |= 1 << lane;
            wire.asking_turn[usize::from(lane)] = (wish.bit + 1) % TOTAL_LANES as u16;
        }
        if has_flits {
            let input = ins + (bit / self.lanes) as u32;
            self.make_ready(input, (bit % self.lanes) as u8);
        }
    }

    /// Sends flits through the switch: each output chooses among the inputs that have something for it,
    /// each input among the outputs that chose it, both in turn (iSLIP with one iteration). Says
    /// whether the router has more to do in the next cycle.
    pub(super) fn allocate_switch(&mut self, r: u32, ready: Set) -> bool {
        let (ins, outs) = (
            self.layout.in_base[r as usize],
            self.layout.out_base[r as usize],
        );
        let in_count = (self.layout.in_base[r as usize + 1] - ins) as usize;
        let mut asked = 0u64;
        let mut wishes = [0u64; MAX_PORTS];
        let mut able = [0u8; MAX_PORTS];
        let now = self.now as f64;
        for (index, able) in able.iter_mut().enumerate().take(in_count) {
            let input = ins as usize + index;
            let mut bits = lanes_of(&ready, index * self.lanes, self.lanes);
            if bits == 0 || self.input_busy[input] > now {
                continue;
            }
            while bits != 0 {
                let lane = bits.trailing_zeros() as usize;
                bits &= bits - 1;
                let out = usize::from(self.queues[input * self.lanes + lane].out);
                if self.may_go(r, input, lane, outs + out as u32) {
                    *able |= 1 << lane;
                    wishes[out] |= 1 << index;
                    asked |= 1 << out;
                }
            }
        }
        let mut granted = [0u64; MAX_PORTS];
        let mut inputs = 0u64;
        while asked != 0 {
            let out = asked.trailing_zeros() as usize;
            asked &= asked - 1;
            let index = first_from(wishes[out], self.wires[outs as usize + out].input_turn);
            granted[usize::from(index)] |= 1 << out;
            inputs |= 1 << index;
        }
        let mut again = (0..in_count).any(|i| able[i] != 0 && granted[i] == 0);
        while inputs != 0 {
            let index = inputs.trailing_zeros() as usize;
            inputs &= inputs - 1;
            let input = ins as usize + index;
            let out = first_from(granted[index], self.input_turn[input]);
            let wire = outs as usize + usize::from(out);
            let lanes = (0..self.lanes).filter(|&lane| {
                able[index] & (1 << lane) != 0 && self.queues[input * self.lanes + lane].out == out
            });
            let lane = first_from(lanes.fold(0, |m, l| m | (1 << l)), self.lane_turn[input]);
            self.wires[wire].input_turn = (index + 1) as u8;
            self.input_turn[input] = out + 1;
            self.lane_turn[input] = (lane + 1) % self.lanes as u8;
            again |= self.pass(r, input, lane, wire);
            // Other lanes of this input may go in the next cycle.
            let ready = &self.routers[r as usize].ready;
            again |= lanes_of(ready, index * self.lanes, self.lanes) != 0;
        }
        again
    }

    /// Whether the first flit of a ready lane could leave now; if not, the lane waits for its output.
    #[inline]
    pub(super) fn may_go(&mut self, r: u32, input: usize, lane: usize, out: u32) -> bool {
        let queue = &self.queues[input * self.lanes + lane];
        let phits = i32::from(self.packets[queue.head as usize].phits_per_flit);
        let wire = &mut self.wires[out as usize];
        let room = if self.spec.output_phits > 0 {
            wire.room[usize::from(queue.out_lane)] >= phits
        } else {
            let credit = wire.credits[usize::from(queue.out_lane)] >= phits;
            credit && wire.free_at < (self.now + 1) as f64
        };
        if room {
            return true;
        }
        let bit = usize::from(self.layout.ins[input].index) * self.lanes + lane;
        add(&mut wire.blocked, bit);
        wire.is_blocked = true;
        remove(&mut self.routers[r as usize].ready, bit);
        if self.spec.output_phits == 0 {
            self.look_when_free(out);
        }
        false
    }

    /// Moves one flit of a lane through the switch. Says whether the router has more to do.
    pub(super) fn pass(&mut self, r: u32, input: usize, lane: u8, wire: usize) -> bool {
        let at = input * self.lanes + usize::from(lane);
        let queue = &mut self.queues[at];
        let id = queue.head;
        let packet = self.packets[id as usize];
        let phits = packet.phits_per_flit;
        let (first, out_lane) = (queue.left == packet.flits, queue.out_lane);
        queue.left -= 1;
        queue.flits -= 1;
        let (last, more) = (queue.left == 0, queue.flits > 0);
        let bit = usize::from(self.layout.ins[input].index) * self.lanes + usize::from(lane);
        remove(&mut self.routers[r as usize].ready, bit);
        self.input_stall[input].end(self.now);
        self.flit_hops += 1;
        self.packet_hops += u64::from(last);
        let switched = (f64::from(phits) * self.spec.switch_cycles_per_phit).max(1.0);
        self.input_busy[input] = self.now as f64 + switched;
        // The room is free when the last phit has gone, which may still be on its way here.
        let gone = if packet.flits == 1 {
            (self.now as f64 + switched - 1.0)
                .max(packet.tail_at)
                .ceil() as u64
        } else {
            self.now
        };
        let credit = Event::Credit {
            out: self.layout.ins[input].from,
            lane,
            phits,
        };
        self.wheel
            .put(gone + u64::from(self.spec.credit_cycles), credit);
        if self.spec.output_phits > 0 {
            self.queue_at_output(wire, out_lane, id, switched);
        } else {
            // A packet of several flits may lie in several queues: each has its own copy.
            let goes_on = self.layout.outs[wire].to & NODE == 0;
            let sent = if goes_on && first && !last {
                self.keep(packet)
            } else {
                id
            };
            self.onto_wire(wire, out_lane, sent, first, last);
            if goes_on && last && !first {
                self.forget(id);
            }
        }
        if last {
            let queue = &mut self.queues[at];
            queue.head = packet.next;
            if queue.head == NONE {
                queue.state = State::Idle;
            } else {
                let cycles = u64::from(self.spec.route_cycles) + 1;
                self.begin_routing(input as u32, lane, cycles);
            }
        } else if more {
            self.make_ready(input as u32, lane);
        }
        if switched > 1.0 {
            let input = input as u32;
            self.wheel.put(
                self.now + switched.ceil() as u64,
                Event::InputFree { input },
            );
            return false;
        }
        last || more
    }
}
