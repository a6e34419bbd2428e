//! Bit sets of small integers.

use std::sync::atomic::{AtomicU64, Ordering};

const WORD: usize = u64::BITS as usize;

/// A set of integers below a fixed size.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BitSet(Vec<u64>);

impl BitSet {
    /// An empty set for integers below `size`.
    pub fn new(size: usize) -> Self {
        Self(vec![0; size.div_ceil(WORD)])
    }

    /// Adds a number, which must be below the size.
    #[inline]
    pub fn insert(&mut self, number: usize) {
        self.0[number / WORD] |= 1 << (number % WORD);
    }

    /// Removes a number.
    #[inline]
    pub fn remove(&mut self, number: usize) {
        self.0[number / WORD] &= !(1 << (number % WORD));
    }

    /// Whether the set contains a number.
    #[inline]
    pub fn contains(&self, number: usize) -> bool {
        self.0[number / WORD] >> (number % WORD) & 1 == 1
    }

    /// Adds all members of another set of the same size.
    pub fn union_with(&mut self, other: &Self) {
        let words = self.0.iter_mut().zip(&other.0);
        words.for_each(|(word, other)| *word |= other);
    }

    /// The lowest member that is at least `from`.
    #[inline]
    pub fn next_from(&self, from: usize) -> Option<usize> {
        let mut at = from / WORD;
        let mut word = self.0.get(at)? & (u64::MAX << (from % WORD));
        while word == 0 {
            at += 1;
            word = *self.0.get(at)?;
        }
        Some(at * WORD + word.trailing_zeros() as usize)
    }

    /// The members as words of 64 bits: word `i` holds members 64 `i` to 64 `i` + 63.
    #[inline]
    pub fn words(&self) -> &[u64] {
        &self.0
    }
}

/// A set with concurrent insertion.
#[derive(Debug)]
pub struct SharedBitSet(Vec<AtomicU64>);

impl SharedBitSet {
    /// An empty set for integers below `size`.
    pub fn new(size: usize) -> Self {
        Self(
            (0..size.div_ceil(WORD))
                .map(|_| AtomicU64::new(0))
                .collect(),
        )
    }

    /// Adds a number, which must be below the size; returns whether it is new.
    #[inline]
    pub fn insert(&self, number: usize) -> bool {
        let (word, mask) = (&self.0[number / WORD], 1 << (number % WORD));
        // Reading first keeps the cache line shared if the bit is already set.
        word.load(Ordering::Relaxed) & mask == 0
            && word.fetch_or(mask, Ordering::Relaxed) & mask == 0
    }

    /// The plain set, after all threads have finished.
    pub fn into_set(self) -> BitSet {
        BitSet(self.0.into_iter().map(AtomicU64::into_inner).collect())
    }
}

/// Round robin: the lowest member of a set of numbers below 64 that is at least `turn`, else the lowest of all (64 if
/// the set is empty).
#[inline]
pub fn first_from(set: u64, turn: u8) -> u8 {
    let later = set & u64::MAX.checked_shl(u32::from(turn)).unwrap_or(0);
    (if later != 0 { later } else { set }).trailing_zeros() as u8
}

/// Removes and returns the lowest member of a set of numbers below 64, which must not be empty.
#[inline]
pub fn take_lowest(set: &mut u64) -> usize {
    let lowest = set.trailing_zeros() as usize;
    *set &= *set - 1;
    lowest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_is_a_set(changes in prop::collection::vec((0usize..200, any::<bool>()), 0..100), from in 0usize..250) {
            let (mut set, mut expected) = (BitSet::new(200), BTreeSet::new());
            for (number, add) in changes {
                if add {
                    set.insert(number);
                    expected.insert(number);
                } else {
                    set.remove(number);
                    expected.remove(&number);
                }
            }
            prop_assert!((0..200).all(|n| set.contains(n) == expected.contains(&n)));
            prop_assert_eq!(set.next_from(from), expected.range(from..).next().copied());
            let mut words = Vec::new();
            for (i, &word) in set.words().iter().enumerate() {
                let mut word = word;
                while word != 0 {
                    words.push(64 * i + take_lowest(&mut word));
                }
            }
            prop_assert!(words.iter().eq(&expected));
        }
    }

    #[test]
    fn shared_sets_say_who_was_first_and_unite() {
        let shared = SharedBitSet::new(130);
        assert!(shared.insert(129) && !shared.insert(129) && shared.insert(0));
        let mut set = BitSet::new(130);
        set.insert(64);
        set.union_with(&shared.into_set());
        let members: Vec<_> = (0..130).filter(|&n| set.contains(n)).collect();
        assert_eq!(members, [0, 64, 129]);
    }

    #[test]
    fn turns_go_round() {
        assert_eq!(first_from(0b1010, 2), 3);
        assert_eq!(first_from(0b1010, 4), 1);
        assert_eq!(first_from(0b1010, 64), 1);
        assert_eq!(first_from(0, 0), 64);
    }
}
