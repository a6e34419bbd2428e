//! Transmission over wires, returning credits, and wake-ups.

use super::super::bits::{ceil, fine, floor};
use super::{Engine, Event, NODE, What};

impl Engine {
    /// Schedules a check of a wire for the time when it is free.
    #[inline]
    pub(super) fn look_when_free(&mut self, out: u32) {
        let wire = &mut self.wires[out as usize];
        let at = floor(wire.free_at);
        if at > self.now && wire.looks_at != at {
            wire.looks_at = at;
            self.wheel.put(at, Event::new(What::Look, out, 0));
        }
    }

    /// Credits arrive for a channel.
    #[inline]
    pub(super) fn credit(&mut self, channel: u32, phits: u32) {
        self.channels[channel as usize].credits += phits as i32;
        self.look(channel >> self.lane_bits);
    }

    /// A wire is free, or can be used again.
    #[inline]
    pub(super) fn look(&mut self, out: u32) {
        let wire = &self.wires[out as usize];
        if wire.from & NODE != 0 {
            let node = wire.from & !NODE;
            self.wake_source(node);
        } else {
            self.send_queued(out);
        }
    }

    /// Puts a packet on a wire: occupies it for its phits, and takes their credits.
    #[inline]
    pub(super) fn onto_wire(&mut self, out: usize, lane: u8, id: u32) {
        let packet = &mut self.packets[id as usize];
        let phits = packet.phits;
        let wire = &mut self.wires[out];
        let start = wire.free_at.max(fine(self.now));
        wire.free_at = (start + u64::from(phits) * wire.per_phit).max(packet.tail_at);
        let (to, forward) = (wire.to, u64::from(wire.forward));
        packet.tail_at = wire.free_at + fine(forward);
        let there = self.now + forward;
        if to & NODE != 0 {
            let node = to & !NODE;
            let at = ceil(packet.tail_at).max(there);
            self.wheel.put(at, Event::new(What::Deliver, node, id));
        } else {
            let channel = self.at(out, lane);
            self.channels[channel].credits -= i32::from(phits);
            let queue = self.at(to as usize, lane) as u32;
            let at = there + u64::from(self.spec.route_cycles);
            self.wheel.put(at, Event::new(What::Head, queue, id));
        }
    }
}
