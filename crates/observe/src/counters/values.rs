//! Values of a source's counters at one moment, those that were not read told apart.

/// The values of one source's counters.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Values {
    values: Box<[u64]>,
    /// A bit a counter: whether it was read.
    read: Box<[u64]>,
}

impl Clone for Values {
    fn clone(&self) -> Self {
        Self {
            values: self.values.clone(),
            read: self.read.clone(),
        }
    }

    /// Keeps the memory, as what is derived would not.
    fn clone_from(&mut self, other: &Self) {
        self.values.clone_from(&other.values);
        self.read.clone_from(&other.read);
    }
}

impl Values {
    /// Zeroes, none of them read.
    pub fn new(counters: usize) -> Self {
        Self {
            values: vec![0; counters].into(),
            read: vec![0; counters.div_ceil(64)].into(),
        }
    }

    /// Number of counters.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is no counter.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The value of a counter, `None` when it was not read.
    #[inline]
    pub fn get(&self, counter: usize) -> Option<u64> {
        (self.read[counter / 64] >> (counter % 64) & 1 == 1).then(|| self.values[counter])
    }

    /// Sets a value, or says that it was not read.
    #[inline]
    pub fn set(&mut self, counter: usize, value: Option<u64>) {
        let bit = 1 << (counter % 64);
        match value {
            Some(value) => {
                self.values[counter] = value;
                self.read[counter / 64] |= bit;
            }
            None => self.read[counter / 64] &= !bit,
        }
    }

    /// Nothing was read.
    pub fn unread(&mut self) {
        self.read.fill(0);
    }

    /// How many values were read.
    pub fn known(&self) -> usize {
        self.read.iter().map(|w| w.count_ones() as usize).sum()
    }

    /// All values in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<u64>> + '_ {
        (0..self.len()).map(|i| self.get(i))
    }

    /// Sixty-four counters at a time: their values, zero or what was read before where they were not
    /// read, and a bit for each that was.
    pub fn rows(&self) -> impl Iterator<Item = (&[u64], u64)> {
        self.values.chunks(64).zip(self.read.iter().copied())
    }

    /// All of them in order: their values, zero or what was read before where they were not read.
    pub fn all(&self) -> &[u64] {
        &self.values
    }

    /// The rows, to be changed.
    pub fn rows_mut(&mut self) -> impl Iterator<Item = (&mut [u64], &mut u64)> {
        self.values.chunks_mut(64).zip(&mut self.read)
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        8 * (self.values.len() + self.read.len())
    }
}
