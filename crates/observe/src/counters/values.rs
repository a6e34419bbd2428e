//! Values of a source's counters at one time, with missing values told apart.

/// The values of one source's counters.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Values {
    /// The values, then one bit per counter: whether it was read. A single allocation, so that a collector of many
    /// nodes misses the cache once.
    words: Box<[u64]>,
    counters: usize,
}

impl Clone for Values {
    fn clone(&self) -> Self {
        Self {
            words: self.words.clone(),
            counters: self.counters,
        }
    }

    /// Reuses the allocation, unlike the derived implementation.
    fn clone_from(&mut self, other: &Self) {
        self.words.clone_from(&other.words);
        self.counters = other.counters;
    }
}

impl Values {
    /// Zeroes, all of them missing.
    pub fn new(counters: usize) -> Self {
        Self {
            words: vec![0; counters + counters.div_ceil(64)].into(),
            counters,
        }
    }

    /// Number of counters.
    pub fn len(&self) -> usize {
        self.counters
    }

    /// Whether there is no counter.
    pub fn is_empty(&self) -> bool {
        self.counters == 0
    }

    fn parts(&self) -> (&[u64], &[u64]) {
        self.words.split_at(self.counters)
    }

    fn parts_mut(&mut self) -> (&mut [u64], &mut [u64]) {
        self.words.split_at_mut(self.counters)
    }

    /// The value of a counter, `None` if it was not read.
    #[inline]
    pub fn get(&self, counter: usize) -> Option<u64> {
        let (values, read) = self.parts();
        (read[counter / 64] >> (counter % 64) & 1 == 1).then(|| values[counter])
    }

    /// Sets a value, or marks it as missing.
    #[inline]
    pub fn set(&mut self, counter: usize, value: Option<u64>) {
        let (values, read) = self.parts_mut();
        let bit = 1 << (counter % 64);
        match value {
            Some(value) => {
                values[counter] = value;
                read[counter / 64] |= bit;
            }
            None => read[counter / 64] &= !bit,
        }
    }

    /// Marks all values as missing.
    pub fn unread(&mut self) {
        self.parts_mut().1.fill(0);
    }

    /// Number of values that were read.
    pub fn known(&self) -> usize {
        let read = self.parts().1.iter();
        read.map(|w| w.count_ones() as usize).sum()
    }

    /// All values in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<u64>> + '_ {
        (0..self.len()).map(|i| self.get(i))
    }

    /// Sixty-four counters at a time: their values (zero or the previous value if missing), and a bit for each value
    /// that was read.
    pub fn rows(&self) -> impl Iterator<Item = (&[u64], u64)> {
        let (values, read) = self.parts();
        values.chunks(64).zip(read.iter().copied())
    }

    /// The same, mutable.
    pub fn rows_mut(&mut self) -> impl Iterator<Item = (&mut [u64], &mut u64)> {
        let (values, read) = self.parts_mut();
        values.chunks_mut(64).zip(read)
    }

    /// The whole heap allocation: values and bits.
    pub fn words(&self) -> &[u64] {
        &self.words
    }
}
