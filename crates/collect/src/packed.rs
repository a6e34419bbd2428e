//! Values of a source's counters, and their differences, in few bytes.
//!
//! A packed row is half a byte a counter, which says how many bytes its difference takes (15: not read),
//! then those bytes. Differences are taken modulo 2^64 and folded so that small falls are short too.
//! A counter that did not move costs half a byte. What was not read counts as zero when differences are
//! taken.

use crate::Refusal;
use crate::bytes::{Take, unzigzag, zigzag};
use hopbyte_observe::counters::values::Values;

#[cfg(target_arch = "x86_64")]
mod x86;

/// Marks a counter that was not read.
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

/// Is told the number of a counter, what it was and what it is.
type Fell<'a> = &'a mut dyn FnMut(usize, u64, u64);

/// A way to read the first counters of a row of 64, of which those with a bit in the second argument were read
/// before; says how many it read, and which of them have a value. The lengths come before the differences, of
/// which those that were read are taken away.
///
/// # Safety
///
/// Some need instructions that not every processor has.
type Way = unsafe fn(&mut [u64], u64, &[u8], &mut &[u8], Fell<'_>) -> (usize, u64);

/// Leaves all counters to be read one by one.
fn none(_: &mut [u64], _: u64, _: &[u8], _: &mut &[u8], _: Fell<'_>) -> (usize, u64) {
    (0, 0)
}

/// The ways that this processor has, the fastest first.
fn ways<const KEY: bool>() -> impl Iterator<Item = Way> {
    #[cfg(target_arch = "x86_64")]
    let several = x86::ways::<KEY>();
    #[cfg(not(target_arch = "x86_64"))]
    let several: [Option<Way>; 0] = [];
    several.into_iter().flatten().chain([none as Way])
}

/// Reads what [`put`] wrote, on top of the values as they are or of zeroes (`key`), and calls `fell` with
/// counter, old and new value where a counter that was read before is less now, modulo 2^64.
pub fn take(
    values: &mut Values,
    take: &mut Take<'_>,
    key: bool,
    fell: Fell<'_>,
) -> Result<(), Refusal> {
    // Two loops, neither of which asks at every counter which one it is.
    // SAFETY: the ways are those that this processor has.
    unsafe {
        if key {
            unpack::<true>(values, take, fastest::<true>(), fell)
        } else {
            unpack::<false>(values, take, fastest::<false>(), fell)
        }
    }
}

fn fastest<const KEY: bool>() -> Way {
    ways::<KEY>().next().unwrap_or(none)
}

/// See [`take`].
///
/// # Safety
///
/// The way must be one of [`ways`].
unsafe fn unpack<const KEY: bool>(
    values: &mut Values,
    take: &mut Take<'_>,
    way: Way,
    fell: Fell<'_>,
) -> Result<(), Refusal> {
    let lengths = take.bytes(values.len().div_ceil(2))?;
    let mut rest = take.0;
    let rows = values.rows_mut().zip(lengths.chunks(32)).enumerate();
    for (row, ((values, read), lengths)) in rows {
        let fell = &mut |i, old, new| fell(row * 64 + i, old, new);
        let known = *read;
        // SAFETY: the caller says so.
        let (done, mut now) = unsafe { way(values, known, lengths, &mut rest, fell) };
        for (i, value) in values.iter_mut().enumerate().skip(done) {
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
            if (new.wrapping_sub(old) as i64) < 0 && was_read == 1 {
                fell(i, old, new);
            }
        }
        *read = now;
    }
    take.0 = rest;
    Ok(())
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

    /// Numbers of every length.
    fn number() -> impl Strategy<Value = Option<u64>> {
        prop::option::of((any::<u64>(), 0u32..64).prop_map(|(value, shift)| value >> shift))
    }

    /// Reads a row in all ways, checks that they agree, and says what fell.
    fn in_all_ways(before: &Values, bytes: &[u8], key: bool) -> Vec<(usize, u64, u64)> {
        let read = |way| {
            let (mut values, mut left, mut fell) = (before.clone(), Take(bytes), Vec::new());
            let mut told = |i, old, new| fell.push((i, old, new));
            // SAFETY: it is of those that this processor has.
            let done = unsafe {
                if key {
                    unpack::<true>(&mut values, &mut left, way, &mut told)
                } else {
                    unpack::<false>(&mut values, &mut left, way, &mut told)
                }
            };
            let values: Vec<_> = values.iter().collect();
            (done.map(|()| (left.0.len(), values)), fell)
        };
        let ways: Vec<Way> = if key {
            ways::<true>().collect()
        } else {
            ways::<false>().collect()
        };
        let mut all = ways.into_iter().map(read);
        let first = all.next().unwrap();
        all.for_each(|other| assert_eq!(first, other));
        first.1
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
                let mut fell = Vec::new();
                let key = sent.is_none();
                let agreed = in_all_ways(&got, &out, key);
                take(&mut got, &mut left, key, &mut |i, old, new| fell.push((i, old, new)))
                    .map_err(|r| TestCaseError::fail(r.to_string()))?;
                prop_assert!(left.end().is_ok());
                prop_assert_eq!(&fell, &agreed);
                prop_assert!(got.iter().eq(row.iter().copied()));
                let falls = before.iter().zip(&row).enumerate().filter_map(|(i, (a, b))| {
                    let (a, b) = a.zip(*b)?;
                    ((b.wrapping_sub(a) as i64) < 0).then_some((i, a, b))
                });
                prop_assert_eq!(fell, falls.collect::<Vec<_>>());
                // Every other row comes whole.
                sent = sent.is_none().then_some(now);
            }
        }

        #[test]
        fn garbage_is_the_same_in_all_ways(bytes: Vec<u8>, counters in 0usize..200, key: bool) {
            let _ = in_all_ways(&Values::new(counters), &bytes, key);
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
        // What was missing before has no base to fall from.
        // A counter of 64 bits that went round did not fall.
        assert_eq!(fell, [(1, 7, 3)]);
        assert_eq!(got, now);
    }
}
