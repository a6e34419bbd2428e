//! From an input through the switch to an output queue, and from there onto the wire.

use super::super::bits::{CYCLE, ceil, fine, first_from, take_lowest};
use super::{Engine, Event, NODE, NONE, What};

impl Engine {
    /// A packet's head has arrived and is routed.
    pub(super) fn arrive(&mut self, queue: u32, id: u32) {
        let (port, _) = self.split(queue);
        let packet = &mut self.packets[id as usize];
        packet.next = NONE;
        let count = &mut self.inputs[port].count;
        let network = usize::from(packet.network);
        count.packets[network] += 1;
        count.phits[network] += u64::from(packet.phits);
        let line = &mut self.queues[queue as usize];
        let last = std::mem::replace(&mut line.tail, id);
        if line.head != NONE {
            self.packets[last as usize].next = id;
            return;
        }
        line.head = id;
        self.find_way(queue);
        self.go(queue, false);
    }

    /// Finds the output of a queue's first packet and its virtual channel there.
    #[inline]
    fn find_way(&mut self, queue: u32) {
        let router = self.inputs[(queue >> self.lane_bits) as usize].router;
        let line = &mut self.queues[queue as usize];
        let packet = &mut self.packets[line.head as usize];
        let (mut number, crosses) = self.layout.step(router, packet.to);
        let wire = &mut self.wires[number as usize];
        if wire.dim != packet.dim {
            packet.dim = wire.dim;
            packet.class = u8::from(crosses);
        }
        line.phits = packet.phits;
        if wire.tiles > 1 {
            // Round robin over a link's tiles.
            let turn = wire.tile_turn;
            number += u32::from(turn);
            wire.tile_turn = if turn + 1 == wire.tiles { 0 } else { turn + 1 };
        }
        // Channels of its network, and of its dateline class unless it has arrived.
        let channels = self.spec.channels;
        let first = packet.network * 2 * channels;
        let (first, count) = if wire.to & NODE != 0 {
            (first, 2 * channels)
        } else {
            (first + packet.class * channels, channels)
        };
        let lane = first_from(((1 << count) - 1) << first, line.turn);
        line.turn = lane + 1;
        line.out = number << self.lane_bits | u32::from(lane);
    }

    /// Lets the first packet of a queue cross, or wait for its input, or for room at its output after
    /// other waiting queues (unless it was the first of those).
    #[inline]
    fn go(&mut self, queue: u32, was_first: bool) {
        let (port, _) = self.split(queue);
        if self.inputs[port].busy > fine(self.now) {
            self.stall(queue);
            return self.wait_for_input(queue);
        }
        let line = &self.queues[queue as usize];
        let out = line.out as usize;
        let waits = self.channels[out].blocked != NONE && !was_first;
        if waits || !self.has_room(out, line.phits) {
            self.stall(queue);
            return self.wait_for_room(queue, out);
        }
        self.cross(queue);
    }

    /// Whether an output queue has room for `phits` phits; an empty one takes any packet.
    #[inline]
    fn has_room(&self, out: usize, phits: u8) -> bool {
        let channel = &self.channels[out];
        channel.room >= i32::from(phits) || channel.head == NONE
    }

    #[inline]
    fn stall(&mut self, queue: u32) {
        let line = &mut self.queues[queue as usize];
        if !line.stalled {
            line.stalled = true;
            let (port, _) = self.split(queue);
            self.inputs[port].begin_stall(self.now);
        }
    }

    fn wait_for_input(&mut self, queue: u32) {
        let (port, lane) = self.split(queue);
        let input = &mut self.inputs[port];
        input.waits |= 1 << lane;
        if !input.watched {
            input.watched = true;
            let at = ceil(input.busy);
            self.wheel
                .put(at, Event::new(What::InputFree, port as u32, 0));
        }
    }

    fn wait_for_room(&mut self, queue: u32, out: usize) {
        self.queues[queue as usize].behind = NONE;
        let channel = &mut self.channels[out];
        let last = std::mem::replace(&mut channel.last_blocked, queue);
        if channel.blocked == NONE {
            channel.blocked = queue;
        } else {
            self.queues[last as usize].behind = queue;
        }
    }

    /// Queues that wait for an input cross round robin; the first crossing occupies it for the others.
    pub(super) fn input_free(&mut self, port: u32) {
        let input = &mut self.inputs[port as usize];
        input.watched = false;
        let mut waiting = std::mem::take(&mut input.waits);
        while waiting != 0 {
            let lane = first_from(u64::from(waiting), self.inputs[port as usize].lane_turn);
            waiting &= !(1 << lane);
            self.go(self.at(port as usize, lane) as u32, false);
        }
    }

    /// Room at an output: queues that waited for it cross as far as it suffices.
    #[inline]
    fn give_room(&mut self, out: usize) {
        loop {
            let queue = self.channels[out].blocked;
            if queue == NONE || !self.has_room(out, self.queues[queue as usize].phits) {
                return;
            }
            self.channels[out].blocked = self.queues[queue as usize].behind;
            self.go(queue, true);
        }
    }

    /// Moves the first packet of a queue to its output queue.
    fn cross(&mut self, queue: u32) {
        let (port, lane) = self.split(queue);
        let line = &mut self.queues[queue as usize];
        let (id, out) = (line.head, line.out);
        let packet = &mut self.packets[id as usize];
        let phits = packet.phits;
        line.head = packet.next;
        let more = line.head != NONE;
        let input = &mut self.inputs[port];
        if std::mem::take(&mut line.stalled) {
            input.end_stall(self.now);
        }
        let switched = (u64::from(phits) * self.per_phit_switch).max(CYCLE);
        input.busy = fine(self.now) + switched;
        input.lane_turn = lane + 1;
        // The room is free when the last phit has left, which may still be in flight to this input.
        let gone = ceil((input.busy - CYCLE).max(packet.tail_at));
        packet.tail_at = packet.tail_at.max(input.busy);
        packet.next = NONE;
        let from = input.from as usize;
        self.packet_hops += 1;
        let channel = self.at(from, lane) as u32;
        let at = gone + u64::from(self.spec.credit_cycles);
        self.wheel
            .put(at, Event::new(What::Credit, channel, phits.into()));
        if more {
            self.find_way(queue);
            self.wait_for_input(queue);
        }
        self.queue_at_output(out, id, phits);
    }

    /// Puts a packet into an output queue.
    #[inline]
    fn queue_at_output(&mut self, out: u32, id: u32, phits: u8) {
        let (wire, lane) = self.split(out);
        let channel = &mut self.channels[out as usize];
        channel.room -= i32::from(phits);
        let last = std::mem::replace(&mut channel.tail, id);
        if channel.head == NONE {
            channel.head = id;
            self.wires[wire].waits |= 1 << lane;
        } else {
            self.packets[last as usize].next = id;
        }
        self.send_queued(wire as u32);
    }

    /// Sends packets of output queues while the wire is free and the far end has room.
    pub(super) fn send_queued(&mut self, out: u32) {
        while self.wires[out as usize].waits != 0 {
            if !self.wires[out as usize].is_free(self.now) {
                return self.look_when_free(out);
            }
            let can = self.lanes_that_can(out);
            let wire = &mut self.wires[out as usize];
            let lacked = wire.credit_stall.is_open();
            if can == 0 {
                if !lacked {
                    wire.credit_stall.begin(self.now);
                }
                return;
            }
            if lacked {
                wire.credit_stall.end(self.now);
            }
            let lane = first_from(u64::from(can), wire.lane_turn);
            wire.lane_turn = lane + 1;
            self.send_first(out as usize, lane);
        }
    }

    /// Sends the first packet of a channel's output queue.
    #[inline]
    fn send_first(&mut self, out: usize, lane: u8) {
        let at = self.at(out, lane);
        let channel = &mut self.channels[at];
        let id = channel.head;
        let packet = &self.packets[id as usize];
        channel.head = packet.next;
        channel.room += i32::from(packet.phits);
        if packet.next == NONE {
            self.wires[out].waits &= !(1 << lane);
        }
        self.onto_wire(out, lane, id);
        self.give_room(at);
    }

    /// Channels whose first packet in the output queue has credits.
    #[inline]
    fn lanes_that_can(&self, out: u32) -> u8 {
        let mut lanes = u64::from(self.wires[out as usize].waits);
        let mut can = 0;
        while lanes != 0 {
            let lane = take_lowest(&mut lanes);
            let channel = &self.channels[self.at(out as usize, lane as u8)];
            let phits = self.packets[channel.head as usize].phits;
            can |= u8::from(channel.credits >= i32::from(phits)) << lane;
        }
        can
    }
}
