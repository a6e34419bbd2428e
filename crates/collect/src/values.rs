//! Values of a source's counters, and their differences in few bytes.
//!
//! A packed row is half a byte a counter, which says how many bytes its difference takes (15: not read),
//! then those bytes. Differences are taken modulo 2^64 and folded so that small falls are short too.
//! A counter that did not move costs half a byte.

use crate::Refusal;
use crate::bytes::{Take, unzigzag, zigzag};

/// Marks a counter that was not read.
const NOT_READ: u8 = 15;

/// The values of one source. What was not read counts as zero when differences are taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Values {
    values: Box<[u64]>,
    missing: Box<[u64]>,
}

impl Values {
    /// Zeroes, none of them read.
    pub fn new(counters: usize) -> Self {
        Self {
            values: vec![0; counters].into(),
            missing: vec![u64::MAX; counters.div_ceil(64)].into(),
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
        (self.missing[counter / 64] >> (counter % 64) & 1 == 0).then(|| self.values[counter])
    }

    /// Sets a value, or says that it was not read.
    #[inline]
    pub fn set(&mut self, counter: usize, value: Option<u64>) {
        let bit = 1 << (counter % 64);
        match value {
            Some(value) => {
                self.values[counter] = value;
                self.missing[counter / 64] &= !bit;
            }
            None => self.missing[counter / 64] |= bit,
        }
    }

    /// Nothing was read.
    pub fn unread(&mut self) {
        self.missing.fill(u64::MAX);
    }

    /// All values in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<u64>> + '_ {
        (0..self.len()).map(|i| self.get(i))
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        8 * (self.values.len() + self.missing.len())
    }

    /// Appends the differences from `base`, or from zero.
    pub fn pack(&self, base: Option<&Self>, out: &mut Vec<u8>) {
        let lengths = out.len();
        out.resize(lengths + self.len().div_ceil(2), 0);
        for i in 0..self.len() {
            let from = base.and_then(|b| b.get(i)).unwrap_or(0);
            let length = match self.get(i) {
                None => NOT_READ,
                Some(value) => {
                    let folded = zigzag(value.wrapping_sub(from) as i64);
                    let length = 8 - folded.leading_zeros() as usize / 8;
                    out.extend_from_slice(&folded.to_le_bytes()[..length]);
                    length as u8
                }
            };
            out[lengths + i / 2] |= length << (i % 2 * 4);
        }
    }

    /// Reads what [`Values::pack`] wrote, on top of the values as they are or of zeroes (`key`), and
    /// calls `fell` with counter, old and new value where a difference is negative.
    pub fn unpack(
        &mut self,
        take: &mut Take<'_>,
        key: bool,
        mut fell: impl FnMut(usize, u64, u64),
    ) -> Result<(), Refusal> {
        let lengths = take.bytes(self.len().div_ceil(2))?;
        let mut rest = take.0;
        let rows = self.values.chunks_mut(64).zip(&mut self.missing);
        for (row, (values, missing)) in rows.enumerate() {
            let lengths = &lengths[row * 32..];
            let before = if key { u64::MAX } else { *missing };
            let known = !*missing;
            let mut now = !0u64;
            for (i, value) in values.iter_mut().enumerate() {
                let length = lengths[i / 2] >> (i % 2 * 4) & 15;
                if length == NOT_READ {
                    continue;
                }
                let folded = front(rest, length)?;
                rest = &rest[usize::from(length)..];
                let old = *value;
                let from = if before >> i & 1 == 0 { old } else { 0 };
                let new = from.wrapping_add(unzigzag(folded) as u64);
                now &= !(1 << i);
                *value = new;
                if new < old && known >> i & 1 == 1 {
                    fell(row * 64 + i, old, new);
                }
            }
            *missing = now;
        }
        take.0 = rest;
        Ok(())
    }
}

/// The lowest bytes of a number, by their number.
const MASKS: [u64; 9] = [
    0,
    0xff,
    0xffff,
    0xff_ffff,
    0xffff_ffff,
    0xff_ffff_ffff,
    0xffff_ffff_ffff,
    0xff_ffff_ffff_ffff,
    u64::MAX,
];

/// The number in the first `length` bytes.
#[inline]
fn front(rest: &[u8], length: u8) -> Result<u64, Refusal> {
    let length = usize::from(length);
    let Some(&mask) = MASKS.get(length) else {
        return Err(Refusal::new(format!("a value of {length} bytes")));
    };
    if let Some(eight) = rest.first_chunk::<8>() {
        return Ok(u64::from_le_bytes(*eight) & mask);
    }
    let Some(bytes) = rest.get(..length) else {
        return Err(Refusal::new("a row that ends early"));
    };
    let mut eight = [0; 8];
    eight[..length].copy_from_slice(bytes);
    Ok(u64::from_le_bytes(eight))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(row: &[Option<u64>]) -> Values {
        let mut values = Values::new(row.len());
        row.iter().enumerate().for_each(|(i, &v)| values.set(i, v));
        values
    }

    proptest! {
        #[test]
        fn rows_come_back(rows in prop::collection::vec(prop::collection::vec(any::<Option<u64>>(), 37), 1..6)) {
            let (mut sent, mut got): (Option<Values>, _) = (None, Values::new(37));
            for row in rows {
                let mut now = sent.clone().unwrap_or_else(|| Values::new(37));
                row.iter().enumerate().for_each(|(i, &v)| now.set(i, v));
                let mut out = Vec::new();
                now.pack(sent.as_ref(), &mut out);
                let mut take = Take(&out);
                got.unpack(&mut take, sent.is_none(), |_, _, _| {}).map_err(|r| TestCaseError::fail(r.to_string()))?;
                prop_assert!(take.end().is_ok());
                prop_assert!(got.iter().eq(row.iter().copied()));
                sent = Some(now);
            }
        }

        #[test]
        fn garbage_never_panics(bytes: Vec<u8>, counters in 0usize..80) {
            let _ = Values::new(counters).unpack(&mut Take(&bytes), false, |_, _, _| {});
        }
    }

    #[test]
    fn falls_are_told_and_still_counters_are_short() {
        let before = of(&[Some(5), Some(7), None, Some(u64::MAX)]);
        let mut now = before.clone();
        now.set(1, Some(3));
        now.set(2, Some(1));
        now.set(3, Some(4));
        let mut out = Vec::new();
        now.pack(Some(&before), &mut out);
        assert_eq!(
            out.len(),
            2 + 3,
            "half a byte each and three differences of a byte"
        );
        let mut fell = Vec::new();
        let mut got = before.clone();
        got.unpack(&mut Take(&out), false, |i, a, b| fell.push((i, a, b)))
            .unwrap();
        // What was missing before has no base to fall from.
        assert_eq!(fell, [(1, 7, 3), (3, u64::MAX, 4)]);
        assert_eq!(got, now);
    }
}
