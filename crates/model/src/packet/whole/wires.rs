//! What goes over wires, what comes back, and who is told.

use super::parts::{Fine, ceil, fine, floor, take_lowest};
use super::{Engine, Event, NODE};

impl Engine {
    /// Makes sure that somebody looks at a wire when it is free.
    #[inline]
    pub(super) fn look_when_free(&mut self, out: u32) {
        let wire = &mut self.wires[out as usize];
        let at = floor(wire.free_at);
        if at > self.now && wire.looks_at != at {
            wire.looks_at = at;
            self.wheel.put(at, Event::Look { wire: out });
        }
    }

    /// The far end of a channel has room again.
    #[inline]
    pub(super) fn credit(&mut self, channel: u32, phits: u8) {
        self.credits[channel as usize] += i32::from(phits);
        let (out, _) = self.split(channel);
        let wire = &self.wires[out];
        if wire.from & NODE != 0 {
            let node = wire.from & !NODE;
            self.wake_source(node);
        } else if !self.whole {
            self.try_again(channel as usize);
        } else if wire.waits != 0 {
            self.send_queued(out as u32);
        }
    }

    /// A wire is free.
    pub(super) fn look(&mut self, out: u32) {
        let from = self.wires[out as usize].from;
        if from & NODE != 0 {
            self.wake_source(from & !NODE);
        } else if self.whole {
            self.send_queued(out);
        } else {
            for lane in 0..self.lanes as u8 {
                self.try_again(self.at(out as usize, lane));
            }
        }
    }

    /// Keeps a wire busy for some phits from now on, and their channel's room. Returns when it is free.
    #[inline]
    fn occupy(&mut self, out: usize, lane: u8, phits: u8, tail_at: Fine) -> Fine {
        let wire = &mut self.wires[out];
        let start = wire.free_at.max(fine(self.now));
        wire.free_at = (start + u64::from(phits) * wire.per_phit).max(tail_at);
        let free_at = wire.free_at;
        if wire.to & NODE == 0 {
            let channel = self.at(out, lane);
            self.credits[channel] -= i32::from(phits);
        }
        free_at
    }

    /// Puts a flit on a wire. Nodes hear of whole packets.
    pub(super) fn flit_onto_wire(
        &mut self,
        out: usize,
        lane: u8,
        id: u32,
        first: bool,
        last: bool,
    ) {
        let phits = self.packets[id as usize].phits_per_flit;
        if !first && self.wires[out].to & NODE == 0 {
            return self.body_onto_wire(out, lane, phits, last);
        }
        let there = self.give_flit(out, lane, phits, last);
        let to = self.wires[out].to;
        if to & NODE == 0 {
            let queue = self.at(to as usize, lane) as u32;
            self.wheel.put(there, Event::Head { queue, packet: id });
        } else if last {
            let node = to & !NODE;
            self.wheel.put(there, Event::Deliver { node, packet: id });
        }
    }

    /// Puts a flit that is not a packet's first on a wire to a router.
    pub(super) fn body_onto_wire(&mut self, out: usize, lane: u8, phits: u8, last: bool) {
        let there = self.give_flit(out, lane, phits, last);
        let queue = self.at(self.wires[out].to as usize, lane) as u32;
        self.wheel.put(there, Event::Body { queue });
    }

    /// A flit occupies a wire; the last one leaves the channel to others. Returns when it arrives.
    #[inline]
    fn give_flit(&mut self, out: usize, lane: u8, phits: u8, last: bool) -> u64 {
        self.occupy(out, lane, phits, 0);
        let wire = &mut self.wires[out];
        wire.held &= !(u8::from(last) << lane);
        self.now + u64::from(wire.forward)
    }

    /// Puts a whole packet on a wire.
    #[inline]
    pub(super) fn packet_onto_wire(&mut self, out: usize, lane: u8, id: u32) {
        let packet = &self.packets[id as usize];
        let free_at = self.occupy(out, lane, packet.phits_per_flit, packet.tail_at);
        let (to, forward) = (self.wires[out].to, u64::from(self.wires[out].forward));
        let tail_at = free_at + fine(forward);
        self.packets[id as usize].tail_at = tail_at;
        let there = self.now + forward;
        if to & NODE != 0 {
            let node = to & !NODE;
            let at = ceil(tail_at).max(there);
            self.wheel.put(at, Event::Deliver { node, packet: id });
        } else {
            let queue = self.at(to as usize, lane) as u32;
            let at = there + u64::from(self.spec.route_cycles);
            self.wheel.put(at, Event::Head { queue, packet: id });
        }
    }

    /// Channels of a wire whose far ends have room for so many phits.
    #[inline]
    pub(super) fn lanes_with_room(&self, out: u32, among: u8, phits: u8) -> u8 {
        let mut lanes = u64::from(among);
        let mut fitting = 0;
        while lanes != 0 {
            let lane = take_lowest(&mut lanes);
            let credits = self.credits[self.at(out as usize, lane as u8)];
            fitting |= u8::from(credits >= i32::from(phits)) << lane;
        }
        fitting
    }
}
