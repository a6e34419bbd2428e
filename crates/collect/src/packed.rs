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
        unpack::<true, true>(values, take, leapt)
    } else {
        unpack::<false, true>(values, take, leapt)
    }
}

/// See [`take`]. Without `WHOLE` all rows are decoded counter by counter.
fn unpack<const KEY: bool, const WHOLE: bool>(
    values: &mut Values,
    take: &mut Take<'_>,
    leapt: Leapt<'_>,
) -> Result<(), Refusal> {
    let lengths = take.bytes(values.len().div_ceil(2))?;
    let mut rest = take.0;
    let rows = values.rows_mut().zip(lengths.chunks(32)).enumerate();
    for (row, ((values, read), lengths)) in rows {
        let leapt = &mut |i, old, new| leapt(row * 64 + i, old, new);
        let is_whole = WHOLE && (KEY || *read == !0) && lengths.iter().all(|&b| is_short(b));
        rest = match values.first_chunk_mut().filter(|_| is_whole) {
            Some(row) => whole_row::<KEY>(row, read, lengths, rest, leapt)?,
            None => some_of_row::<KEY>(values, read, lengths, rest, leapt)?,
        };
    }
    take.0 = rest;
    Ok(())
}

/// Whether both lengths of a byte are those of values.
fn is_short(lengths: u8) -> bool {
    const SHORT: [bool; 256] = {
        let mut short = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            short[byte] = byte & 15 <= 8 && byte >> 4 <= 8;
            byte += 1;
        }
        short
    };
    SHORT[usize::from(lengths)]
}

/// Decodes values counter by counter; returns the rest of the bytes.
fn some_of_row<'a, const KEY: bool>(
    values: &mut [u64],
    read: &mut u64,
    lengths: &[u8],
    mut rest: &'a [u8],
    leapt: Leapt<'_>,
) -> Result<&'a [u8], Refusal> {
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
            leapt(i, old, new);
        }
    }
    *read = now;
    Ok(rest)
}

/// Maximum length of the differences of a row, and that with the eight bytes that are read for the last one.
const ROW: usize = 64 * 8;
const WINDOW: usize = ROW + 8;

/// Decodes 64 values without a missing one, on top of such values unless `KEY`: no test at any of them, and arithmetic on
/// several at a time. Half the time of counter by counter.
fn whole_row<'a, const KEY: bool>(
    values: &mut [u64; 64],
    read: &mut u64,
    lengths: &[u8],
    rest: &'a [u8],
    leapt: Leapt<'_>,
) -> Result<&'a [u8], Refusal> {
    let mut end;
    let window: &[u8; WINDOW] = match rest.first_chunk() {
        Some(window) => window,
        None => {
            end = [0; WINDOW];
            end[..rest.len()].copy_from_slice(rest);
            &end
        }
    };
    let (mut at, mut new) = (0, [0; 64]);
    for (pair, &two) in new.as_chunks_mut::<2>().0.iter_mut().zip(lengths) {
        let (low, high) = (usize::from(two & 15), usize::from(two >> 4));
        *pair = [front_of(window, at, low), front_of(window, at + low, high)];
        at += low + high;
    }
    let early = || Refusal::new("a row that ends early");
    let rest = rest.get(at..).ok_or_else(early)?;
    let mut leaps = 0;
    for (new, &old) in new.iter_mut().zip(values.iter()) {
        let difference = unzigzag(*new) as u64;
        *new = if KEY {
            difference
        } else {
            old.wrapping_add(difference)
        };
        leaps |= new.wrapping_sub(old);
    }
    if leaps >= LEAP {
        let all = new.iter().zip(values.iter()).enumerate();
        let known = all.filter(|(i, _)| *read >> i & 1 == 1);
        known
            .filter(|(_, (new, old))| new.wrapping_sub(**old) >= LEAP)
            .for_each(|(i, (&new, &old))| leapt(i, old, new));
    }
    (*values, *read) = (new, !0);
    Ok(rest)
}

/// The number in `length` bytes of a window, at a position of up to [`ROW`].
#[inline]
fn front_of(window: &[u8; WINDOW], at: usize, length: usize) -> u64 {
    // The mask and the window's length spare the check of the bounds.
    let mut eight = [0; 8];
    eight.copy_from_slice(&window[at & (ROW - 1)..][..8]);
    u64::from_le_bytes(eight) & MASKS[length & 15]
}

/// Masks of the lowest 0 to 8 bytes of a number; no other length is one of a value.
const MASKS: [u64; 16] = {
    let mut masks = [0; 16];
    let mut length = 1;
    while length <= 8 {
        masks[length] = u64::MAX >> (64 - 8 * length);
        length += 1;
    }
    masks
};

/// The number in the first `length` bytes.
#[inline]
fn front(rest: &[u8], length: u8) -> Result<u64, Refusal> {
    let length = usize::from(length);
    if length > 8 {
        return Err(Refusal::new(format!("a value of {length} bytes")));
    }
    if let Some(eight) = rest.first_chunk::<8>() {
        return Ok(u64::from_le_bytes(*eight) & MASKS[length]);
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
        fn whole_rows_are_as_counter_by_counter(
            rows in prop::collection::vec((any::<u64>(), 0u32..64, any::<u64>(), 0u32..64), 200),
            missing in prop::collection::vec(0usize..200, 0..3),
            cut in 0usize..2000,
            key: bool,
        ) {
            let mut before = of(&rows.iter().map(|r| Some(r.0 >> r.1)).collect::<Vec<_>>());
            missing.iter().take(1).for_each(|&i| before.set(i, None));
            let mut row: Vec<_> = rows.iter().map(|r| Some(r.2 >> r.3)).collect();
            missing.iter().skip(1).for_each(|&i| row[i] = None);
            let mut out = Vec::new();
            put(&of(&row), (!key).then_some(&before), &mut out);
            out.truncate(cut.max(out.len().saturating_sub(cut)));
            let decode = |whole: bool| {
                let (mut values, mut left, mut leapt) = (before.clone(), Take(&out), Vec::new());
                let mut note = |i, old, new| leapt.push((i, old, new));
                let done = match (key, whole) {
                    (true, true) => unpack::<true, true>(&mut values, &mut left, &mut note),
                    (true, false) => unpack::<true, false>(&mut values, &mut left, &mut note),
                    (false, true) => unpack::<false, true>(&mut values, &mut left, &mut note),
                    (false, false) => unpack::<false, false>(&mut values, &mut left, &mut note),
                };
                done.map(|()| (values, left.0.len(), leapt)).map_err(|r| r.to_string())
            };
            prop_assert_eq!(decode(true), decode(false));
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
