//! A timing wheel: events of the next cycles.

use hopbyte_fabric::bits::BitSet;

/// Events by cycle for a number of cycles ahead; insertion order within a cycle.
#[derive(Clone, Debug)]
pub(super) struct Wheel<E> {
    slots: Vec<Vec<E>>,
    /// Slots with events.
    busy: BitSet,
    /// Events beyond the wheel's range.
    later: std::collections::BTreeMap<u64, Vec<E>>,
    /// Time of the first event beyond the range.
    first_later: u64,
    now: u64,
}

impl<E> Wheel<E> {
    /// A wheel with a range of `horizon` cycles.
    pub(super) fn new(horizon: usize) -> Self {
        let size = horizon.next_power_of_two().max(64);
        Self {
            slots: (0..size).map(|_| Vec::new()).collect(),
            busy: BitSet::new(size),
            later: std::collections::BTreeMap::new(),
            first_later: u64::MAX,
            now: 0,
        }
    }

    /// Number of cycles of its range.
    pub(super) fn size(&self) -> u64 {
        self.slots.len() as u64
    }

    /// Counts so many cycles fewer, a multiple of the range; there are no events before.
    pub(super) fn recount(&mut self, fewer: u64) {
        self.now = self.now.saturating_sub(fewer);
        let mut later = std::collections::BTreeMap::<u64, Vec<E>>::new();
        for (cycle, events) in std::mem::take(&mut self.later) {
            let at = cycle.saturating_sub(fewer);
            later.entry(at).or_default().extend(events);
        }
        self.later = later;
        self.first_later = self.later.keys().next().copied().unwrap_or(u64::MAX);
    }

    #[inline]
    pub(super) fn put(&mut self, cycle: u64, event: E) {
        let cycle = cycle.max(self.now);
        let size = self.slots.len();
        if cycle - self.now >= size as u64 {
            self.later.entry(cycle).or_default().push(event);
            self.first_later = self.first_later.min(cycle);
            return;
        }
        let slot = cycle as usize & (size - 1);
        self.busy.insert(slot);
        self.slots[slot].push(event);
    }

    /// The first cycle from `now` on that has an event.
    pub(super) fn next(&self) -> Option<u64> {
        let size = self.slots.len();
        let start = self.now as usize & (size - 1);
        let slot = self.busy.next_from(start);
        let slot = slot.or_else(|| self.busy.next_from(0));
        let found = slot.map(|slot| self.now + ((slot + size - start) & (size - 1)) as u64);
        let next = found.unwrap_or(u64::MAX).min(self.first_later);
        (next < u64::MAX).then_some(next)
    }

    /// Moves to a cycle before which there is no event and takes that cycle's events.
    pub(super) fn take(&mut self, cycle: u64, events: &mut Vec<E>) {
        self.now = cycle;
        events.clear();
        let slot = cycle as usize & (self.slots.len() - 1);
        self.busy.remove(slot);
        std::mem::swap(events, &mut self.slots[slot]);
        if self.first_later <= cycle {
            self.take_later(cycle, events);
        }
    }

    /// Events from beyond the range come before those from the wheel.
    #[cold]
    fn take_later(&mut self, cycle: u64, events: &mut Vec<E>) {
        let mut due = Vec::new();
        while let Some(entry) = self.later.first_entry() {
            if *entry.key() > cycle {
                break;
            }
            due.extend(entry.remove());
        }
        self.first_later = self.later.keys().next().copied().unwrap_or(u64::MAX);
        due.append(events);
        *events = due;
    }
}

#[cfg(test)]
mod tests {
    use super::Wheel;

    #[test]
    fn events_come_in_order_near_and_far() {
        let mut wheel = Wheel::new(64);
        for cycle in [70, 3, 64, 5000, 3, 63] {
            wheel.put(cycle, cycle);
        }
        let (mut seen, mut events) = (Vec::new(), Vec::new());
        while let Some(cycle) = wheel.next() {
            wheel.take(cycle, &mut events);
            seen.extend(events.iter().map(|&e| (cycle, e)));
            if cycle == 63 {
                wheel.put(90, 90);
            }
        }
        let expected = [3, 3, 63, 64, 70, 90, 5000].map(|c| (c, c));
        assert_eq!(seen, expected);
    }

    #[test]
    fn fewer_cycles_leave_the_distances_of_events() {
        let mut wheel = Wheel::new(64);
        let mut events = Vec::new();
        wheel.put(100, 0);
        wheel.take(100, &mut events);
        for cycle in [130, 161, 7000] {
            wheel.put(cycle, cycle);
        }
        wheel.recount(128);
        let mut seen = Vec::new();
        while let Some(cycle) = wheel.next() {
            wheel.take(cycle, &mut events);
            seen.extend(events.iter().map(|&e| (cycle, e)));
        }
        assert_eq!(seen, [130, 161, 7000].map(|c| (c - 128, c)));
    }
}
