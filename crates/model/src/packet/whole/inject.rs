//! Nodes put packets on their wires.

use super::parts::{Source, fine, fine_of, first_from, floor};
use super::{Engine, Event, NONE};

impl Engine {
    /// One cycle of a node: sends a flit if it may.
    pub(super) fn inject(&mut self, node: u32) {
        let source = &self.sources[node as usize];
        if source.left > 0 {
            return self.inject_body(node);
        }
        let network = match source.head {
            [NONE, NONE] => return,
            // Responses first: they free what requests wait for.
            [_, NONE] => 0,
            _ => 1,
        };
        if source.free_at >= fine(self.now + 1) {
            let at = floor(source.free_at);
            return self.wheel.put(at, Event::Source { node });
        }
        let packet = &self.packets[source.head[network] as usize];
        let (phits, several) = (packet.phits_per_flit, packet.flits > 1);
        let channels = 2 * usize::from(self.spec.channels);
        let range = (((1u16 << channels) - 1) << (network * channels)) as u8;
        let base = self.layout.inject_base[node as usize];
        let wires = self.layout.host_channels;
        let first_turn = source.wire_turn;
        for i in 0..wires {
            let turn = (first_turn + i) % wires;
            let out = base + u32::from(turn);
            let held = if several {
                self.wires[out as usize].held
            } else {
                0
            };
            let free = self.lanes_with_room(out, range & !held, phits);
            if free == 0 {
                continue;
            }
            let wire = &self.wires[out as usize];
            if !wire.is_free(self.now) {
                self.look_when_free(out);
                continue;
            }
            let lane = first_from(u64::from(free), wire.lane_turn);
            self.sources[node as usize].wire_turn = (turn + 1) % wires;
            return self.begin_packet(node, network, out, lane);
        }
    }

    fn begin_packet(&mut self, node: u32, network: usize, out: u32, lane: u8) {
        let source = &mut self.sources[node as usize];
        let id = source.head[network];
        let packet = &mut self.packets[id as usize];
        packet.tail_at = 0;
        let several = packet.flits > 1;
        source.head[network] = packet.next;
        source.free_at = source.free_at.max(fine(self.now)) + fine_of(f64::from(packet.pace));
        if several {
            source.wire = out;
            source.lane = lane;
            source.left = packet.flits - 1;
            source.phits = packet.phits_per_flit;
        }
        let more = several || source.head != [NONE; 2];
        let wire = &mut self.wires[out as usize];
        wire.lane_turn = lane + 1;
        if self.whole {
            self.packet_onto_wire(out as usize, lane, id);
        } else {
            wire.held |= u8::from(several) << lane;
            self.flit_onto_wire(out as usize, lane, id, true, !several);
        }
        if more {
            self.wake_source(node);
        }
    }

    fn inject_body(&mut self, node: u32) {
        let Source {
            wire: out,
            lane,
            left,
            phits,
            ..
        } = self.sources[node as usize];
        if self.lanes_with_room(out, 1 << lane, phits) == 0 {
            return;
        }
        if !self.wires[out as usize].is_free(self.now) {
            return self.look_when_free(out);
        }
        self.body_onto_wire(out as usize, lane, phits, left == 1);
        let source = &mut self.sources[node as usize];
        source.left -= 1;
        if source.left > 0 || source.head != [NONE; 2] {
            self.wake_source(node);
        }
    }
}
