//! Nodes inject packets.

use super::super::bits::{fine, fine_of, first_from, floor};
use super::{Engine, Event, NONE, What};

impl Engine {
    /// One cycle of a node: sends a packet if it may.
    pub(super) fn inject(&mut self, node: u32) {
        let source = &self.sources[node as usize];
        let network = match source.head {
            [NONE, NONE] => return,
            // Responses first: they complete the requests that others wait for.
            [_, NONE] => 0,
            _ => 1,
        };
        if source.free_at >= fine(self.now + 1) {
            let at = floor(source.free_at);
            return self.wheel.put(at, Event::new(What::Source, node, 0));
        }
        let phits = self.packets[source.head[network] as usize].phits;
        let base = self.layout.inject_base[node as usize];
        let wires = self.layout.host_channels;
        let first_turn = source.wire_turn;
        for i in 0..wires {
            let turn = (first_turn + i) % wires;
            let out = base + u32::from(turn);
            let free = self.lanes_with_room(out, network, phits);
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
        let packet = &self.packets[id as usize];
        source.head[network] = packet.next;
        source.free_at = source.free_at.max(fine(self.now)) + fine_of(f64::from(packet.pace));
        let more = source.head != [NONE; 2];
        self.wires[out as usize].lane_turn = lane + 1;
        self.onto_wire(out as usize, lane, id);
        if more {
            self.wake_source(node);
        }
    }

    /// Channels of a network over a node's wire with at least `phits` credits.
    #[inline]
    fn lanes_with_room(&self, out: u32, network: usize, phits: u8) -> u8 {
        let count = 2 * self.spec.channels;
        let first = network as u8 * count;
        let mut fitting = 0;
        for lane in first..first + count {
            let credits = self.channels[self.at(out as usize, lane)].credits;
            fitting |= u8::from(credits >= i32::from(phits)) << lane;
        }
        fitting
    }
}
