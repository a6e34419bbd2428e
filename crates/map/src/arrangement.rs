//! The assignment of units to slots during a search.

use crate::graph::{Edge, Graph};
use crate::near::Near;
use hopbyte_fabric::random::Random;

/// No unit.
pub(crate) const FREE: u32 = u32::MAX;

/// Slots of places, ordered by place.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    /// Place of every slot.
    pub(crate) place: Vec<u32>,
    /// Tasks that a slot can hold.
    pub(crate) room: Vec<u32>,
    /// First slot of every place, with the end appended.
    first: Vec<u32>,
}

impl Slots {
    /// `rooms` lists (place, room) by place.
    pub(crate) fn new(places: usize, rooms: impl IntoIterator<Item = (u32, u32)>) -> Self {
        let (place, room): (Vec<u32>, Vec<u32>) = rooms.into_iter().unzip();
        let mut first = vec![0; places + 1];
        for &p in &place {
            first[p as usize + 1] += 1;
        }
        for p in 0..places {
            first[p + 1] += first[p];
        }
        Self { place, room, first }
    }

    /// The same slots regrouped into coarser places, with `of` giving the new place of each place here. Also
    /// returns the index here of every new slot.
    pub(crate) fn gathered(&self, of: &[u32]) -> (Self, Vec<u32>) {
        let place = |slot: u32| of[self.place[slot as usize] as usize];
        let mut order: Vec<u32> = (0..self.place.len() as u32).collect();
        order.sort_by_key(|&slot| place(slot));
        let rooms = order.iter().map(|&s| (place(s), self.room[s as usize]));
        let places = of.iter().max().map_or(0, |&p| p as usize + 1);
        (Self::new(places, rooms), order)
    }

    /// Number of slots.
    pub(crate) fn count(&self) -> usize {
        self.place.len()
    }

    /// Slots of a place.
    pub(crate) fn of(&self, place: u32) -> std::ops::Range<u32> {
        self.first[place as usize]..self.first[place as usize + 1]
    }

    /// Whether any place has several slots.
    pub(crate) fn several(&self) -> bool {
        self.first.len() <= self.place.len()
    }

    /// The slots of every place, as ranges.
    pub(crate) fn first_free(&self) -> Vec<std::ops::Range<u32>> {
        (0..self.first.len() as u32 - 1)
            .map(|p| self.of(p))
            .collect()
    }

    #[inline]
    fn pick(&self, place: u32, rng: &mut Random) -> Option<u32> {
        let range = self.of(place);
        let n = range.len();
        (n > 0).then(|| range.start + rng.below(n) as u32)
    }
}

/// A slot for every unit, and its inverse.
#[derive(Clone, Debug)]
pub(crate) struct Arrangement<'a> {
    slots: &'a Slots,
    sizes: &'a [u32],
    slot_of: Vec<u32>,
    unit_at: Vec<u32>,
    place_of: Vec<u32>,
    /// Units that never move: a trial of such a unit costs more than many others together.
    fixed: Vec<bool>,
}

/// Number of partners above which a unit keeps its initial slot.
const MOST_PARTNERS: usize = 1 << 14;

/// Units of a part that are looked at for one with a partner in another part.
const LOOKED_AT: usize = 6;

/// A unit that exchanges slots with another, or moves to a free slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Swap {
    /// The unit that moves to `slot`.
    pub(crate) unit: u32,
    /// The unit in `slot`, or [`FREE`].
    pub(crate) partner: u32,
    /// The current place of `unit`.
    pub(crate) from: u32,
    /// The place of `slot`.
    pub(crate) to: u32,
    slot: u32,
}

impl<'a> Arrangement<'a> {
    /// Starts from a slot for every unit of a graph.
    pub(crate) fn new(slots: &'a Slots, graph: &'a Graph, slot_of: &[u32]) -> Self {
        let busy = |unit| graph.edges(unit).len() > MOST_PARTNERS;
        let mut all = Self {
            fixed: (0..graph.units() as u32).map(busy).collect(),
            slots,
            sizes: &graph.size,
            place_of: vec![0; slot_of.len()],
            unit_at: Vec::new(),
            slot_of: Vec::new(),
        };
        all.restore(slot_of);
        all
    }

    /// Puts every unit back into the given slots.
    pub(crate) fn restore(&mut self, slot_of: &[u32]) {
        self.slot_of = slot_of.to_vec();
        self.unit_at.clear();
        self.unit_at.resize(self.slots.count(), FREE);
        for (unit, &slot) in slot_of.iter().enumerate() {
            self.unit_at[slot as usize] = unit as u32;
            self.place_of[unit] = self.slots.place[slot as usize];
        }
    }

    /// Slots by unit.
    pub(crate) fn slot_of(&self) -> &[u32] {
        &self.slot_of
    }

    /// Place of a unit.
    #[inline]
    pub(crate) fn place(&self, unit: u32) -> u32 {
        self.place_of[unit as usize]
    }

    /// The swap that moves `unit` to `slot`; `None` if both are on one place, if either unit does not fit, or
    /// if either is fixed.
    #[inline]
    pub(crate) fn swap(&self, unit: u32, slot: u32) -> Option<Swap> {
        let home = self.slot_of[unit as usize];
        let (from, to) = (self.place(unit), self.slots.place[slot as usize]);
        if from == to {
            return None;
        }
        let partner = self.unit_at[slot as usize];
        if self.fixed[unit as usize] || (partner != FREE && self.fixed[partner as usize]) {
            return None;
        }
        let fits = |unit: u32, slot: u32| {
            unit == FREE || self.sizes[unit as usize] <= self.slots.room[slot as usize]
        };
        (fits(unit, slot) && fits(partner, home)).then_some(Swap {
            unit,
            partner,
            from,
            to,
            slot,
        })
    }

    /// The swap of the same unit to the same slot in the current arrangement.
    #[inline]
    pub(crate) fn again(&self, swap: Swap) -> Option<Swap> {
        self.swap(swap.unit, swap.slot)
    }

    /// Performs a swap.
    #[inline]
    pub(crate) fn perform(&mut self, swap: Swap) {
        let home = self.slot_of[swap.unit as usize];
        self.slot_of[swap.unit as usize] = swap.slot;
        self.place_of[swap.unit as usize] = swap.to;
        self.unit_at[swap.slot as usize] = swap.unit;
        self.unit_at[home as usize] = swap.partner;
        if swap.partner != FREE {
            self.slot_of[swap.partner as usize] = home;
            self.place_of[swap.partner as usize] = swap.from;
        }
    }

    /// A promising random swap: a unit and a place near one of its partners or near itself, rarely any place.
    #[inline]
    pub(crate) fn candidate(&self, graph: &Graph, near: &Near, rng: &mut Random) -> Option<Swap> {
        let unit = rng.below(graph.units()) as u32;
        let edges = graph.edges(unit);
        let dice = rng.below(64);
        if edges.is_empty() || dice < 2 {
            let slot = rng.below(self.slots.count()) as u32;
            return self.swap(unit, slot);
        }
        let around = if dice < 44 {
            edges[rng.below(edges.len())].to
        } else {
            unit
        };
        self.near(unit, around, near, rng)
    }

    /// A swap of `unit` with a unit that is on a partner's place and has a partner on the place of `unit`.
    #[inline]
    pub(crate) fn across(&self, graph: &Graph, unit: u32, rng: &mut Random) -> Option<Swap> {
        let home = self.place(unit);
        let edges = graph.edges(unit);
        let there = self.place(edges[rng.below(edges.len())].to);
        for _ in 0..4 {
            let neighbour = self.unit_at[self.slots.pick(home, rng)? as usize];
            if neighbour == FREE || graph.edges(neighbour).is_empty() {
                continue;
            }
            let edges = graph.edges(neighbour);
            let other = edges[rng.below(edges.len())].to;
            if self.place(other) == there {
                return self.swap(unit, self.slot_of[other as usize]);
            }
        }
        None
    }

    /// A swap of `unit` with a unit on a partner's place, if possible one that has a partner on the place of `unit`; rarely
    /// with any unit.
    #[inline]
    pub(crate) fn to_part(&self, graph: &Graph, unit: u32, rng: &mut Random) -> Option<Swap> {
        let edges = graph.edges(unit);
        if edges.is_empty() || rng.below(64) == 0 {
            return self.swap(unit, rng.below(self.slots.count()) as u32);
        }
        let home = self.place(unit);
        let there = self.place(edges[rng.below(edges.len())].to);
        if there == home {
            return None;
        }
        let mut slot = self.slots.pick(there, rng)?;
        for _ in 0..LOOKED_AT {
            let other = self.unit_at[slot as usize];
            let beside = |e: &Edge| self.place(e.to) == home;
            if other != FREE && graph.edges(other).iter().any(beside) {
                break;
            }
            slot = self.slots.pick(there, rng)?;
        }
        self.swap(unit, slot)
    }

    /// A swap of `unit` with a unit near `around`.
    #[inline]
    pub(crate) fn near(
        &self,
        unit: u32,
        around: u32,
        near: &Near,
        rng: &mut Random,
    ) -> Option<Swap> {
        let place = near.pick(self.place(around), rng);
        self.swap(unit, self.slots.pick(place, rng)?)
    }
}
