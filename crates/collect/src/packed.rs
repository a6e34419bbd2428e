//! Values of a source's counters, and their differences, in few bytes.
//!
//! A packed row is half a byte a counter, which says how many bytes its difference takes (15: not read),
//! then those bytes. Differences are taken modulo 2^64 and folded so that small falls are short too.
//! A counter that did not move costs half a byte. What was not read counts as zero when differences are
//! taken.

use crate::Refusal;
use crate::bytes::{Take, unzigzag, zigzag};
use hopbyte_observe::counters::values::Values;

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

/// Reads what [`put`] wrote, on top of the values as they are or of zeroes (`key`), and calls `fell` with
/// counter, old and new value where a counter that was read before is less now, modulo 2^64.
pub fn take(
    values: &mut Values,
    take: &mut Take<'_>,
    key: bool,
    fell: &mut dyn FnMut(usize, u64, u64),
) -> Result<(), Refusal> {
    // Two loops, neither of which asks at every counter which one it is.
    if key {
        unpack::<true>(values, take, fell)
    } else {
        unpack::<false>(values, take, fell)
    }
}

fn unpack<const KEY: bool>(
    values: &mut Values,
    take: &mut Take<'_>,
    fell: &mut dyn FnMut(usize, u64, u64),
) -> Result<(), Refusal> {
    let lengths = take.bytes(values.len().div_ceil(2))?;
    let mut rest = take.0;
    let rows = values.rows_mut().zip(lengths.chunks(32)).enumerate();
    for (row, ((values, read), lengths)) in rows {
        let fell = &mut |i, old, new| fell(row * 64 + i, old, new);
        let known = *read;
        // As many as the processor's own instructions can; the others one by one.
        #[cfg(target_arch = "x86_64")]
        let (done, mut now) = if std::arch::is_x86_feature_detected!("ssse3") {
            // SAFETY: the processor has what the function is compiled for.
            unsafe { pairs::<KEY>(values, known, lengths, &mut rest, fell) }
        } else {
            (0, 0)
        };
        #[cfg(not(target_arch = "x86_64"))]
        let (done, mut now) = (0, 0);
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

/// What the lengths of two neighbours say, by the byte that holds them.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
struct Two {
    /// Where the bytes of both differences lie among the next sixteen, as `pshufb` takes it.
    places: [u64; 2],
    /// Bytes of both; [`Two::WRONG`] where a length is none.
    bytes: u8,
    /// A bit each: whether they were read.
    read: u8,
}

#[cfg(target_arch = "x86_64")]
impl Two {
    const WRONG: u8 = u8::MAX;

    const fn of(byte: usize) -> Self {
        let lengths = [byte % 16, byte / 16];
        let mut two = Self {
            places: [u64::MAX; 2],
            bytes: 0,
            read: 0,
        };
        let mut i = 0;
        while i < 2 {
            if lengths[i] <= 8 {
                let mut places = [u8::MAX; 8];
                let mut k = 0;
                while k < lengths[i] {
                    places[k] = two.bytes + k as u8;
                    k += 1;
                }
                two.places[i] = u64::from_le_bytes(places);
                two.bytes += lengths[i] as u8;
                two.read |= 1 << i;
            } else if lengths[i] != NOT_READ as usize {
                two.bytes = Self::WRONG;
                return two;
            }
            i += 1;
        }
        two
    }
}

#[cfg(target_arch = "x86_64")]
static TWO: [Two; 256] = {
    let mut all = [Two::of(0); 256];
    let mut byte = 0;
    while byte < 256 {
        all[byte] = Two::of(byte);
        byte += 1;
    }
    all
};

/// Reads the first counters of a row of 64, of which those in `known` were read before, two at a time as
/// long as sixteen bytes follow; says how many, and which of them were read.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "ssse3")]
fn pairs<const KEY: bool>(
    values: &mut [u64],
    known: u64,
    lengths: &[u8],
    rest: &mut &[u8],
    fell: &mut dyn FnMut(usize, u64, u64),
) -> (usize, u64) {
    use std::arch::x86_64::{
        _mm_add_epi64, _mm_and_si128, _mm_castsi128_pd, _mm_cvtsi128_si64, _mm_movemask_pd,
        _mm_set_epi64x, _mm_set1_epi64x, _mm_setzero_si128, _mm_shuffle_epi8, _mm_srli_epi64,
        _mm_sub_epi64, _mm_unpackhi_epi64, _mm_xor_si128,
    };
    let both = |[low, high]: [u64; 2]| _mm_set_epi64x(high as i64, low as i64);
    let zero = _mm_setzero_si128();
    let (mut done, mut now) = (0, 0);
    for (pair, &byte) in values.as_chunks_mut::<2>().0.iter_mut().zip(lengths) {
        let two = &TWO[usize::from(byte)];
        let Some(sixteen) = rest.first_chunk::<16>().filter(|_| two.bytes <= 16) else {
            break;
        };
        let sixteen = u128::from_le_bytes(*sixteen);
        let sixteen = both([sixteen as u64, (sixteen >> 64) as u64]);
        *rest = &rest[usize::from(two.bytes)..];
        let folded = _mm_shuffle_epi8(sixteen, both(two.places));
        let sign = _mm_sub_epi64(zero, _mm_and_si128(folded, _mm_set1_epi64x(1)));
        let difference = _mm_xor_si128(_mm_srli_epi64(folded, 1), sign);
        let (before, old) = (*pair, both(*pair));
        let was = known >> done & 3;
        let from = if KEY {
            zero
        } else {
            let kept = [0u64.wrapping_sub(was & 1), 0u64.wrapping_sub(was >> 1)];
            _mm_and_si128(old, both(kept))
        };
        let new = _mm_add_epi64(from, difference);
        *pair = [new, _mm_unpackhi_epi64(new, new)].map(|v| _mm_cvtsi128_si64(v) as u64);
        now |= u64::from(two.read) << done;
        let less = _mm_movemask_pd(_mm_castsi128_pd(_mm_sub_epi64(new, old))) as u64;
        let less = less & was & u64::from(two.read);
        if less != 0 {
            let which = (0..2).filter(|i| less >> i & 1 == 1);
            which.for_each(|i| fell(done + i, before[i], pair[i]));
        }
        done += 2;
    }
    (done, now)
}

/// Asks the processor to fetch values that are wanted soon: those of ten thousand nodes fit into no cache.
#[inline]
pub fn prefetch(values: &Values) {
    #[cfg(target_arch = "x86_64")]
    for line in values.rows().flat_map(|(row, _)| row.iter().step_by(8)) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch changes nothing that the program sees, wherever it points.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(line).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = values;
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
                take(&mut got, &mut left, sent.is_none(), &mut |i, old, new| fell.push((i, old, new)))
                    .map_err(|r| TestCaseError::fail(r.to_string()))?;
                prop_assert!(left.end().is_ok());
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
        fn garbage_never_panics(bytes: Vec<u8>, counters in 0usize..80) {
            let _ = take(&mut Values::new(counters), &mut Take(&bytes), false, &mut |_, _, _| {});
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
