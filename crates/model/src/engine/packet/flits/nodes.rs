//! Nodes inject packets flit by flit, and accept arrivals.

use super::super::bits::{first_from, take_lowest};
use super::super::layout::AT_HOME;
use super::{Flits, LANE_BITS, NONE, Packet};

impl Flits {
    /// Queues a packet of `flits` flits at a node.
    pub(in crate::engine::packet) fn send(&mut self, node: u32, to: u32, flits: u8, born: u64) {
        let packet = Packet {
            born,
            to,
            next: NONE,
            flits,
            dim: AT_HOME,
            class: 0,
        };
        let id = self.free;
        let id = if id == NONE {
            self.packets.push(packet);
            (self.packets.len() - 1) as u32
        } else {
            self.free = std::mem::replace(&mut self.packets[id as usize], packet).next;
            id
        };
        self.under_way += 1;
        let source = &mut self.sources[node as usize];
        let last = std::mem::replace(&mut source.tail, id);
        if source.head == NONE {
            source.head = id;
        } else {
            self.packets[last as usize].next = id;
        }
        self.sending.insert(node as usize);
    }

    pub(super) fn deliver(&mut self, slot: usize, delivered: &mut Vec<u64>) {
        for id in self.ring.deliveries[slot].drain(..) {
            let packet = &mut self.packets[id as usize];
            delivered.push(packet.born);
            packet.next = self.free;
            self.free = id;
            self.under_way -= 1;
        }
    }

    /// Runs all nodes with packets to send.
    pub(super) fn inject_all(&mut self, slot: usize) {
        for credit in self.ring.node_credits[slot].drain(..) {
            let lane = credit & ((1 << LANE_BITS) - 1);
            let at = (credit >> LANE_BITS) << self.lane_bits | lane;
            self.lanes[at as usize].credits += 1;
        }
        for word in 0..self.sending.words().len() {
            let mut nodes = self.sending.words()[word];
            while nodes != 0 {
                let node = word * 64 + take_lowest(&mut nodes);
                self.inject(node);
                let source = &self.sources[node];
                if source.left == 0 && source.head == NONE {
                    self.sending.remove(node);
                }
            }
        }
    }

    /// One cycle of a node: sends a flit if it may.
    #[inline]
    fn inject(&mut self, node: usize) {
        let source = &self.sources[node];
        if source.left > 0 {
            return self.inject_body(node);
        }
        let (base, wires) = (self.layout.inject_base[node], self.layout.host_channels);
        let first_turn = source.wire_turn;
        for i in 0..wires {
            let turn = (first_turn + i) % wires;
            let wire = (base + u32::from(turn)) as usize;
            let mut free = 0u64;
            for lane in 0..2 * self.channels {
                free |= u64::from(self.lanes[self.at(wire, lane)].credits > 0) << lane;
            }
            if free != 0 && self.wires[wire].is_free(self.now) {
                let lane = first_from(free, self.wires[wire].lane_turn);
                self.wires[wire].lane_turn = lane + 1;
                self.sources[node].wire_turn = (turn + 1) % wires;
                return self.begin_packet(node, wire, lane);
            }
        }
    }

    fn begin_packet(&mut self, node: usize, wire: usize, lane: u8) {
        let source = &mut self.sources[node];
        let id = source.head;
        let packet = &self.packets[id as usize];
        source.head = packet.next;
        source.wire = wire as u32;
        source.lane = lane;
        source.left = packet.flits - 1;
        self.flit_onto_wire(wire, lane, id + 1);
    }

    fn inject_body(&mut self, node: usize) {
        let source = &self.sources[node];
        let (wire, lane) = (source.wire as usize, source.lane);
        if self.lanes[self.at(wire, lane)].credits > 0 && self.wires[wire].is_free(self.now) {
            self.sources[node].left -= 1;
            self.flit_onto_wire(wire, lane, 0);
        }
    }

    /// Puts a flit on a wire to a router: of a head, its packet's number plus 1.
    #[inline]
    pub(super) fn flit_onto_wire(&mut self, wire: usize, lane: u8, head: u32) {
        let at = self.at(wire, lane);
        self.lanes[at].credits -= 1;
        let wire = &mut self.wires[wire];
        wire.occupy(self.now);
        let there = self.now + u64::from(wire.forward);
        self.ring
            .put_flit(there, wire, head << LANE_BITS | u32::from(lane));
    }
}
