//! What leaves the switch, and wires that become free.

use super::*;

impl Engine {
    /// Makes sure that somebody looks at a wire when it is free.
    pub(super) fn look_when_free(&mut self, out: u32) {
        let wire = &mut self.wires[out as usize];
        let at = wire.free_at.floor() as u64;
        if at > self.now && wire.looks_at != at {
            wire.looks_at = at;
            self.wheel.put(at, Event::Look { out });
        }
    }

    /// A wire got credits or became free.
    pub(super) fn look(&mut self, out: u32) {
        let router = self.layout.outs[out as usize].router;
        if router & NODE != 0 {
            return self.wake_source(router & !NODE);
        }
        if self.spec.output_phits > 0 {
            self.send_queued(out);
        } else {
            self.unblock(out);
        }
    }

    pub(super) fn unblock(&mut self, out: u32) {
        let wire = &mut self.wires[out as usize];
        if !wire.is_blocked {
            return;
        }
        wire.is_blocked = false;
        let blocked = std::mem::take(&mut wire.blocked);
        let router = self.layout.outs[out as usize].router;
        let ready = &mut self.routers[router as usize].ready;
        for (word, more) in ready.iter_mut().zip(blocked) {
            *word |= more;
        }
        self.wake(router);
    }

    /// Puts a flit on a wire.
    pub(super) fn onto_wire(&mut self, wire: usize, lane: u8, id: u32, first: bool, last: bool) {
        let out = self.layout.outs[wire];
        let packet = &mut self.packets[id as usize];
        let phits = packet.phits_per_flit;
        let w = &mut self.wires[wire];
        let start = w.free_at.max(self.now as f64);
        let mut end = start + f64::from(phits) * out.cycles_per_phit;
        if packet.flits == 1 {
            end = end.max(packet.tail_at);
            packet.tail_at = end + f64::from(out.forward);
        }
        w.free_at = end;
        if last {
            w.held &= !(1 << lane);
        }
        let there = self.now + u64::from(out.forward);
        if out.to & NODE != 0 {
            if last {
                let node = out.to & !NODE;
                let whole = if packet.flits == 1 {
                    packet.tail_at.ceil() as u64
                } else {
                    there
                };
                let at = whole.max(there);
                self.wheel.put(at, Event::Deliver { node, packet: id });
            }
            return;
        }
        w.credits[usize::from(lane)] -= i32::from(phits);
        let input = out.to;
        let event = if first {
            Event::Head {
                input,
                lane,
                packet: id,
            }
        } else {
            Event::Body { input, lane }
        };
        self.wheel.put(there, event);
    }

    /// Puts a packet behind the switch.
    pub(super) fn queue_at_output(&mut self, wire: usize, lane: u8, id: u32, switched: f64) {
        let packet = &mut self.packets[id as usize];
        packet.tail_at = packet.tail_at.max(self.now as f64 + switched);
        packet.next = NONE;
        let w = &mut self.wires[wire];
        let lane = usize::from(lane);
        w.room[lane] -= i32::from(packet.phits_per_flit);
        if w.head[lane] == NONE {
            w.head[lane] = id;
        } else {
            self.packets[w.tail[lane] as usize].next = id;
        }
        w.tail[lane] = id;
        self.send_queued(wire as u32);
    }

    /// Sends the next packet that waits behind the switch, if the wire is free and the far end has room.
    pub(super) fn send_queued(&mut self, out: u32) {
        let w = &mut self.wires[out as usize];
        let waits = (0..self.lanes).fold(0u64, |m, l| m | (u64::from(w.head[l] != NONE) << l));
        if waits == 0 {
            return;
        }
        if w.free_at >= (self.now + 1) as f64 {
            return self.look_when_free(out);
        }
        let fits = |l: &usize| {
            let id = w.head[*l];
            id != NONE && w.credits[*l] >= i32::from(self.packets[id as usize].phits_per_flit)
        };
        let can = (0..self.lanes).filter(fits).fold(0u64, |m, l| m | (1 << l));
        if can == 0 {
            if !w.lacks_credit {
                w.lacks_credit = true;
                w.credit_stall.begin(self.now);
            }
            return;
        }
        if std::mem::take(&mut w.lacks_credit) {
            w.credit_stall.end(self.now);
        }
        let lane = first_from(can, w.lane_turn);
        w.lane_turn = lane + 1;
        let id = w.head[usize::from(lane)];
        let packet = self.packets[id as usize];
        w.head[usize::from(lane)] = packet.next;
        w.room[usize::from(lane)] += i32::from(packet.phits_per_flit);
        self.onto_wire(out as usize, lane, id, true, true);
        self.unblock(out);
        if waits.count_ones() > 1 || packet.next != NONE {
            self.look_when_free(out);
        }
    }
}
