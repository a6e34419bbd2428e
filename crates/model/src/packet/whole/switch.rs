//! Routers with queues behind the switch, for whole packets: an arrival that finds its input free and
//! room at its output crosses at once; if not, whatever it waits for tells it.

use super::parts::{CYCLE, ceil, fine, first_from, take_lowest};
use super::{Engine, Event, NONE};

impl Engine {
    /// A packet's head has come and found its way.
    pub(super) fn arrive_whole(&mut self, queue: u32, id: u32) {
        if self.queue_up(queue, id) {
            self.choose_way(queue);
            self.go(queue, false);
        }
    }

    /// Output and channel of a queue's first packet.
    #[inline]
    fn choose_way(&mut self, queue: u32) {
        self.find_way(queue);
        let lane = &mut self.queues[queue as usize];
        lane.out_lane = first_from(u64::from(lane.range), lane.turn);
        lane.turn = lane.out_lane + 1;
    }

    /// Lets the first packet of a queue cross, or wait for its input, or for room at its output behind
    /// others that wait (unless it was the first of those).
    #[inline]
    fn go(&mut self, queue: u32, was_first: bool) {
        let (port, _) = self.split(queue);
        if self.inputs[port].busy > fine(self.now) {
            self.stall(queue);
            return self.wait_for_input(queue);
        }
        let lane = &self.queues[queue as usize];
        let out = self.at(lane.wire as usize, lane.out_lane);
        let waits = self.blocked[out] != NONE && !was_first;
        if waits || !self.has_room(out, lane.phits) {
            self.stall(queue);
            return self.wait_for_room(queue, out);
        }
        self.cross(queue);
    }

    /// Whether a queue behind the switch takes so many phits; an empty one takes any packet.
    #[inline]
    fn has_room(&self, out: usize, phits: u8) -> bool {
        let queue = &self.out_queues[out];
        queue.room >= i32::from(phits) || queue.head == NONE
    }

    #[inline]
    fn stall(&mut self, queue: u32) {
        let lane = &mut self.queues[queue as usize];
        if !lane.stalled {
            lane.stalled = true;
            let (port, _) = self.split(queue);
            self.input_stalls[port].begin(self.now);
        }
    }

    fn wait_for_input(&mut self, queue: u32) {
        let (port, lane) = self.split(queue);
        let input = &mut self.inputs[port];
        input.ready |= 1 << lane;
        if !input.watched {
            input.watched = true;
            let at = ceil(input.busy);
            self.wheel.put(at, Event::InputFree { input: port as u32 });
        }
    }

    fn wait_for_room(&mut self, queue: u32, out: usize) {
        self.behind[queue as usize] = NONE;
        let last = std::mem::replace(&mut self.out_queues[out].last_blocked, queue);
        if self.blocked[out] == NONE {
            self.blocked[out] = queue;
        } else {
            self.behind[last as usize] = queue;
        }
    }

    /// Queues that wait for an input cross in turn; the first that does keeps it busy for the others.
    pub(super) fn input_free(&mut self, port: u32) {
        let input = &mut self.inputs[port as usize];
        input.watched = false;
        let mut waiting = std::mem::take(&mut input.ready);
        while waiting != 0 {
            let lane = first_from(u64::from(waiting), self.inputs[port as usize].lane_turn);
            waiting &= !(1 << lane);
            self.go(self.at(port as usize, lane) as u32, false);
        }
    }

    /// Room at an output: those that waited for it cross as far as it goes.
    #[inline]
    fn give_room(&mut self, out: usize) {
        loop {
            let queue = self.blocked[out];
            if queue == NONE || !self.has_room(out, self.queues[queue as usize].phits) {
                return;
            }
            self.blocked[out] = self.behind[queue as usize];
            self.go(queue, true);
        }
    }

    /// Moves the first packet of a queue behind the switch.
    fn cross(&mut self, queue: u32) {
        let (port, number) = self.split(queue);
        let lane = &mut self.queues[queue as usize];
        let (id, wire, out_lane) = (lane.head, lane.wire, lane.out_lane);
        let packet = &mut self.packets[id as usize];
        let phits = packet.phits_per_flit;
        lane.head = packet.next;
        let more = lane.head != NONE;
        let input = &mut self.inputs[port];
        if std::mem::take(&mut lane.stalled) {
            self.input_stalls[port].end(self.now);
        }
        let switched = (u64::from(phits) * self.per_phit_switch).max(CYCLE);
        input.busy = fine(self.now) + switched;
        input.lane_turn = number + 1;
        // The room is free when the last phit has gone, which may still be on its way here.
        let gone = ceil((input.busy - CYCLE).max(packet.tail_at));
        packet.tail_at = packet.tail_at.max(input.busy);
        packet.next = NONE;
        let from = input.from as usize;
        self.flit_hops += 1;
        self.packet_hops += 1;
        let channel = self.at(from, number) as u32;
        let at = gone + u64::from(self.spec.credit_cycles);
        self.wheel.put(at, Event::Credit { channel, phits });
        if more {
            self.choose_way(queue);
            self.wait_for_input(queue);
        }
        self.queue_at_output(wire as usize, out_lane, id, phits);
    }

    /// Puts a packet behind the switch.
    #[inline]
    fn queue_at_output(&mut self, wire: usize, lane: u8, id: u32, phits: u8) {
        let at = self.at(wire, lane);
        let queue = &mut self.out_queues[at];
        queue.room -= i32::from(phits);
        let last = std::mem::replace(&mut queue.tail, id);
        if queue.head == NONE {
            queue.head = id;
            self.wires[wire].waits |= 1 << lane;
        } else {
            self.packets[last as usize].next = id;
        }
        self.send_queued(wire as u32);
    }

    /// Sends what waits behind the switch while the wire is free and the far end has room.
    pub(super) fn send_queued(&mut self, out: u32) {
        while self.wires[out as usize].waits != 0 {
            if !self.wires[out as usize].is_free(self.now) {
                return self.look_when_free(out);
            }
            let can = self.lanes_that_can(out);
            let wire = &mut self.wires[out as usize];
            if can == 0 {
                if !wire.lacks_credit {
                    wire.lacks_credit = true;
                    wire.credit_stall.begin(self.now);
                }
                return;
            }
            if std::mem::take(&mut wire.lacks_credit) {
                wire.credit_stall.end(self.now);
            }
            let lane = first_from(u64::from(can), wire.lane_turn);
            wire.lane_turn = lane + 1;
            self.send_first(out as usize, lane);
        }
    }

    /// Sends the first packet of a channel that waits behind the switch.
    #[inline]
    fn send_first(&mut self, out: usize, lane: u8) {
        let at = self.at(out, lane);
        let queue = &mut self.out_queues[at];
        let id = queue.head;
        let packet = &self.packets[id as usize];
        queue.head = packet.next;
        queue.room += i32::from(packet.phits_per_flit);
        if packet.next == NONE {
            self.wires[out].waits &= !(1 << lane);
        }
        self.packet_onto_wire(out, lane, id);
        self.give_room(at);
    }

    /// Channels whose first packet behind the switch has room at the far end.
    #[inline]
    fn lanes_that_can(&self, out: u32) -> u8 {
        let mut lanes = u64::from(self.wires[out as usize].waits);
        let mut can = 0;
        while lanes != 0 {
            let lane = take_lowest(&mut lanes);
            let channel = self.at(out as usize, lane as u8);
            let head = self.out_queues[channel].head;
            let phits = self.packets[head as usize].phits_per_flit;
            can |= u8::from(self.credits[channel] >= i32::from(phits)) << lane;
        }
        can
    }
}
