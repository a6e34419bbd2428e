//! Compact encoding of a source's counter values and their differences.
//!
//! A packed row is half a byte per counter, the number of bytes of its difference (15: missing), then those
//! bytes. Differences are taken modulo 2^64 and zigzag-encoded, so that small decreases are short too. An
//! unchanged counter takes half a byte. Missing values count as zero in differences.

use crate::Refusal;
use crate::bytes::{Take, unzigzag, zigzag};
use hopbyte_observe::counters::values::Values;

/// Marks a missing value.
const NOT_READ: u8 = 15;

/// Appends the differences of values from `base`, or from zero.
pub fn put(values: &Values, base: Option<&Values>, out: &mut Vec<u8>) {
    let lengths = out.len();
    out.resize(lengths + values.len().div_ceil(2), 0);
    for (i, value) in values.iter().enumerate() {
        let from = base.and_then(|b| b.get(i)).unwrap_or(0);
        let length = match value {
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

/// Callback with a counter's number, old value and new value.
type Leapt<'a> = &'a mut dyn FnMut(usize, u64, u64);

/// Increases from here on are worth comparing with the link's speed: ten times the bytes of a 10 Gb/s link in a second,
/// above the load of most links, so that the comparison is rare.
const LEAP: u64 = 1 << 34;

/// Decodes the output of [`put`] on top of the current values, or of zeroes (`key`). Calls `leapt` with
/// counter, old and new value for every counter that had a value before and decreases modulo 2^64, or increases by
/// `LEAP` (2^34) or more.
pub fn take(
    values: &mut Values,
    take: &mut Take<'_>,
    key: bool,
    leapt: Leapt<'_>,
) -> Result<(), Refusal> {
    // Two monomorphised loops: no test of `key` per counter.
    if key {
        unpack::<true>(values, take, leapt)
    } else {
        unpack::<false>(values, take, leapt)
    }
}

/// See [`take`].
fn unpack<const KEY: bool>(
    values: &mut Values,
    take: &mut Take<'_>,
    leapt: Leapt<'_>,
) -> Result<(), Refusal> {
    let lengths = take.bytes(values.len().div_ceil(2))?;
    let mut rest = take.0;
    let rows = values.rows_mut().zip(lengths.chunks(32)).enumerate();
    for (row, ((values, read), lengths)) in rows {
        let (known, mut now) = (*read, 0);
        for (i, value) in values.iter_mut().enumerate() {
            let length = lengths[i / 2] >> (i % 2 * 4) & 15;
            if length == NOT_READ {
                continue;
            }
            let folded = front(rest, length)?;
            rest = &rest[usize::from(length)..];
            let old = *value;
            let was_read = known >> i & 1;
            let from = if KEY {
                0
            } else {
                old & 0u64.wrapping_sub(was_read)
            };
            let new = from.wrapping_add(unzigzag(folded) as u64);
            now |= 1 << i;
            *value = new;
            if new.wrapping_sub(old) >= LEAP && was_read == 1 {
                leapt(row * 64 + i, old, new);
            }
        }
        *read = now;
    }
    take.0 = rest;
    Ok(())
}

/// Masks of the lowest 0 to 8 bytes of a number.
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

    /// Numbers of every length.
    fn number() -> impl Strategy<Value = Option<u64>> {
        prop::option::of((any::<u64>(), 0u32..64).prop_map(|(value, shift)| value >> shift))
    }

    proptest! {
        #[test]
        fn rows_come_back(rows in prop::collection::vec(prop::collection::vec(number(), 131), 1..6)) {
            let (mut sent, mut got): (Option<Values>, _) = (None, Values::new(131));
            for row in rows {
                let mut now = sent.clone().unwrap_or_else(|| Values::new(131));
                row.iter().enumerate().for_each(|(i, &v)| now.set(i, v));
                let mut out = Vec::new();
                put(&now, sent.as_ref(), &mut out);
                let mut left = Take(&out);
                let before: Vec<_> = got.iter().collect();
                let mut leapt = Vec::new();
                let key = sent.is_none();
                take(&mut got, &mut left, key, &mut |i, old, new| leapt.push((i, old, new)))
                    .map_err(|r| TestCaseError::fail(r.to_string()))?;
                prop_assert!(left.end().is_ok());
                prop_assert!(got.iter().eq(row.iter().copied()));
                let leaps = before.iter().zip(&row).enumerate().filter_map(|(i, (a, b))| {
                    let (a, b) = a.zip(*b)?;
                    (b.wrapping_sub(a) >= LEAP).then_some((i, a, b))
                });
                prop_assert_eq!(leapt, leaps.collect::<Vec<_>>());
                // Every other row has absolute values.
                sent = sent.is_none().then_some(now);
            }
        }

        #[test]
        fn garbage_is_taken_or_refused(bytes: Vec<u8>, counters in 0usize..200, key: bool) {
            let mut left = Take(&bytes);
            let taken = take(&mut Values::new(counters), &mut left, key, &mut |_, _, _| {});
            let lengths = bytes.get(..counters.div_ceil(2));
            let nibbles = lengths.iter().flat_map(|l| l.iter()).flat_map(|b| [b & 15, b >> 4]);
            let nibbles: Vec<u8> = nibbles.take(counters).filter(|&n| n != NOT_READ).collect();
            let needed = counters.div_ceil(2) + nibbles.iter().map(|&n| usize::from(n)).sum::<usize>();
            let sound = needed <= bytes.len() && nibbles.iter().all(|&n| n <= 8);
            prop_assert_eq!(taken.is_ok(), sound);
            prop_assert!(taken.is_err() || left.0.len() == bytes.len() - needed);
        }
    }

    #[test]
    fn bytes_stay_as_they_are() {
        let row = [Some(0), Some(1), None, Some(300), Some(u64::MAX)];
        let bytes = [
            0x10, 0x2f, 0x01, // lengths 0 and 1, missing and 2, 1
            0x02, // 1, zigzag
            0x58, 0x02, // 300, zigzag
            0x01, // -1, zigzag
        ];
        let mut out = Vec::new();
        put(&of(&row), None, &mut out);
        assert_eq!(out, bytes);
        let mut got = Values::new(row.len());
        take(&mut got, &mut Take(&bytes), true, &mut |_, _, _| {}).unwrap();
        assert!(got.iter().eq(row));
    }

    #[test]
    fn falls_are_told_and_still_counters_are_short() {
        let before = of(&[Some(5), Some(7), None, Some(u64::MAX)]);
        let mut now = before.clone();
        now.set(1, Some(3));
        now.set(2, Some(1));
        now.set(3, Some(4));
        let mut out = Vec::new();
        put(&now, Some(&before), &mut out);
        assert_eq!(
            out.len(),
            2 + 3,
            "half a byte each and three differences of a byte"
        );
        let mut fell = Vec::new();
        let mut got = before.clone();
        take(&mut got, &mut Take(&out), false, &mut |i, a, b| {
            fell.push((i, a, b));
        })
        .unwrap();
        // A counter that was missing has no base to decrease from.
        // A wrapped 64-bit counter did not decrease.
        assert_eq!(fell, [(1, 7, 3)]);
        assert_eq!(got, now);
    }
}
