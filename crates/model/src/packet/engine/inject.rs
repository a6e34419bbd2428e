//! Nodes put packets on their wires.

use super::*;

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
        if source.free_at >= (self.now + 1) as f64 {
            self.wheel
                .put(source.free_at.floor() as u64, Event::Source { node });
            return;
        }
        let id = source.head[network];
        let packet = self.packets[id as usize];
        let channels = usize::from(self.spec.channels);
        let range = (((1u16 << (2 * channels)) - 1) << (network * 2 * channels)) as u8;
        let base = self.layout.inject_base[node as usize];
        let wires = self.layout.host_channels;
        let first_turn = source.wire_turn;
        for i in 0..wires {
            let turn = (first_turn + i) % wires;
            let wire = base + u32::from(turn);
            let w = &self.wires[wire as usize];
            let fits = |l: &usize| w.credits[*l] >= i32::from(packet.phits_per_flit);
            let mut free = (0..self.lanes).filter(fits).fold(0u8, |m, l| m | (1 << l)) & range;
            if packet.flits > 1 {
                free &= !w.held;
            }
            if free == 0 {
                continue;
            }
            if w.free_at >= (self.now + 1) as f64 {
                self.look_when_free(wire);
                continue;
            }
            let lane = first_from(u64::from(free), w.lane_turn);
            self.begin_packet(node, network, wire, turn, lane);
            return;
        }
    }

    pub(super) fn begin_packet(
        &mut self,
        node: u32,
        network: usize,
        wire: u32,
        turn: u8,
        lane: u8,
    ) {
        let id = self.sources[node as usize].head[network];
        let packet = self.packets[id as usize];
        let several = packet.flits > 1;
        let w = &mut self.wires[wire as usize];
        w.lane_turn = lane + 1;
        if several {
            w.held |= 1 << lane;
        }
        let source = &mut self.sources[node as usize];
        source.head[network] = packet.next;
        source.wire_turn = (turn + 1) % self.layout.host_channels;
        source.free_at = source.free_at.max(self.now as f64) + f64::from(packet.pace);
        if several {
            source.wire = wire;
            source.lane = lane;
            source.left = packet.flits - 1;
            source.phits = packet.phits_per_flit;
        }
        let more = several || source.head != [NONE; 2];
        self.packets[id as usize].tail_at = 0.0;
        self.onto_wire(wire as usize, lane, id, true, !several);
        if more {
            self.wake_source(node);
        }
    }

    pub(super) fn inject_body(&mut self, node: u32) {
        let Source {
            wire,
            lane,
            left,
            phits,
            ..
        } = self.sources[node as usize];
        let w = &self.wires[wire as usize];
        if w.credits[usize::from(lane)] < i32::from(phits) {
            return;
        }
        if w.free_at >= (self.now + 1) as f64 {
            return self.look_when_free(wire);
        }
        self.sources[node as usize].left -= 1;
        let last = left == 1;
        let out = self.layout.outs[wire as usize];
        let w = &mut self.wires[wire as usize];
        w.free_at = w.free_at.max(self.now as f64) + f64::from(phits) * out.cycles_per_phit;
        w.credits[usize::from(lane)] -= i32::from(phits);
        if last {
            w.held &= !(1 << lane);
        }
        let there = self.now + u64::from(out.forward);
        self.wheel.put(
            there,
            Event::Body {
                input: out.to,
                lane,
            },
        );
        let source = &self.sources[node as usize];
        if source.left > 0 || source.head != [NONE; 2] {
            self.wake_source(node);
        }
    }
}
