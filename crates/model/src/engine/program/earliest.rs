//! The earliest of many events.

/// A heap of numbers whose smallest comes first. Events mostly follow one that has just been taken, so that its place stays
/// open for the next one: a number goes down from there, instead of the last one for it and then another one up.
#[derive(Clone, Debug)]
pub(super) struct Earliest {
    /// Every number is at most its children, which are those at `CHILDREN * i + 1` and after it; `NONE` after the last.
    heap: Vec<u128>,
    count: usize,
    /// The first place is open.
    open: bool,
}

const CHILDREN: usize = 4;
const NONE: u128 = u128::MAX;

impl Default for Earliest {
    fn default() -> Self {
        Self {
            heap: vec![NONE; 1 + CHILDREN],
            count: 0,
            open: false,
        }
    }
}

impl Earliest {
    /// The smallest.
    #[inline]
    pub(super) fn first(&self) -> Option<u128> {
        let first = match self.open {
            true => self.least_child(0).0,
            false => self.heap[0],
        };
        (first < NONE).then_some(first)
    }

    /// Takes the smallest, if there is one.
    #[inline]
    pub(super) fn take_first(&mut self) {
        if self.open {
            self.close();
        }
        self.open = self.count > 0;
    }

    /// Adds a number, which is not the greatest of all.
    #[inline]
    pub(super) fn add(&mut self, number: u128) {
        if self.open {
            self.open = false;
            self.down(number);
        } else {
            self.up(number);
        }
    }

    fn close(&mut self) {
        self.open = false;
        self.count -= 1;
        let last = std::mem::replace(&mut self.heap[self.count], NONE);
        if self.count > 0 {
            self.down(last);
        }
    }

    /// The smallest child of a place, and its place.
    #[inline]
    fn least_child(&self, at: usize) -> (u128, usize) {
        let begin = CHILDREN * at + 1;
        let least = |a: (u128, usize), b: (u128, usize)| if b.0 < a.0 { b } else { a };
        match self.heap.get(begin..begin + CHILDREN) {
            Some(&[a, b, c, d]) => least(
                least((a, begin), (b, begin + 1)),
                least((c, begin + 2), (d, begin + 3)),
            ),
            _ => (NONE, begin),
        }
    }

    /// Puts a number in place of the first.
    fn down(&mut self, number: u128) {
        let mut at = 0;
        loop {
            let (least, place) = self.least_child(at);
            if number <= least {
                break;
            }
            self.heap[at] = least;
            at = place;
        }
        self.heap[at] = number;
    }

    fn up(&mut self, number: u128) {
        let mut at = self.count;
        self.count += 1;
        if self.heap.len() < self.count + CHILDREN {
            self.heap.resize(2 * self.heap.len(), NONE);
        }
        while at > 0 {
            let parent = (at - 1) / CHILDREN;
            if self.heap[parent] <= number {
                break;
            }
            self.heap[at] = self.heap[parent];
            at = parent;
        }
        self.heap[at] = number;
    }
}

#[cfg(test)]
mod tests {
    use super::Earliest;
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    #[test]
    fn the_order_is_that_of_a_binary_heap() {
        let mut draw = 7u64;
        let mut next = || {
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            draw >> 40
        };
        let (mut found, mut expected) = (Earliest::default(), BinaryHeap::new());
        for turn in 0..20_000 {
            // Grows, then shrinks.
            if next() % 10 < if turn < 10_000 { 6 } else { 4 } {
                let number = u128::from(next());
                found.add(number);
                expected.push(Reverse(number));
            } else {
                assert_eq!(found.first(), expected.pop().map(|r| r.0));
                found.take_first();
            }
        }
        while let Some(Reverse(number)) = expected.pop() {
            assert_eq!(found.first(), Some(number));
            found.take_first();
        }
        assert_eq!(found.first(), None);
    }
}
