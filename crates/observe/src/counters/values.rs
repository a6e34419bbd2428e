//! Values of a source's counters at one moment, those that were not read told apart.

/// The values of one source's counters.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Values {
    /// The values, then a bit a counter: whether it was read. In one piece, so that a collector of many
    /// nodes waits for memory once.
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

    /// Keeps the memory, as what is derived would not.
    fn clone_from(&mut self, other: &Self) {
        self.words.clone_from(&other.words);
        self.counters = other.counters;
    }
}

impl Values {
    /// Zeroes, none of them read.
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

    /// The value of a counter, `None` when it was not read.
    #[inline]
    pub fn get(&self, counter: usize) -> Option<u64> {
        let (values, read) = self.parts();
        (read[counter / 64] >> (counter % 64) & 1 == 1).then(|| values[counter])
    }

    /// Sets a value, or says that it was not read.
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

    /// Nothing was read.
    pub fn unread(&mut self) {
        self.parts_mut().1.fill(0);
    }

    /// How many values were read.
    pub fn known(&self) -> usize {
        let read = self.parts().1.iter();
        read.map(|w| w.count_ones() as usize).sum()
    }

    /// All values in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<u64>> + '_ {
        (0..self.len()).map(|i| self.get(i))
    }

    /// Sixty-four counters at a time: their values, zero or what was read before where they were not
    /// read, and a bit for each that was.
    pub fn rows(&self) -> impl Iterator<Item = (&[u64], u64)> {
        let (values, read) = self.parts();
        values.chunks(64).zip(read.iter().copied())
    }

    /// The same, to be changed.
    pub fn rows_mut(&mut self) -> impl Iterator<Item = (&mut [u64], &mut u64)> {
        let (values, read) = self.parts_mut();
        values.chunks_mut(64).zip(read)
    }

    /// All that lies on the heap, as it lies there.
    pub fn words(&self) -> &[u64] {
        &self.words
    }
}
