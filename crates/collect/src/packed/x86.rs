//! Differences of several counters at a time, by instructions that only some processors have.

use super::{Fell, NOT_READ, Way};
use std::arch::is_x86_feature_detected as has;

/// Those that this processor has, the fastest first.
pub(super) fn ways<const KEY: bool>() -> [Option<Way>; 2] {
    let wide = has!("avx512f") && has!("avx512bw") && has!("avx512vbmi2") && has!("popcnt");
    [
        wide.then_some(eights::<KEY> as Way),
        has!("ssse3").then_some(pairs::<KEY> as Way),
    ]
}

/// Which of eight bytes a difference of so many takes, by a bit each.
const KEPT: [u8; 16] = [0, 1, 3, 7, 15, 31, 63, 127, 255, 0, 0, 0, 0, 0, 0, 0];

/// Eight at a time, as long as there are as many; none where a length is wrong.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
fn eights<const KEY: bool>(
    values: &mut [u64],
    known: u64,
    lengths: &[u8],
    rest: &mut &[u8],
    fell: Fell<'_>,
) -> (usize, u64) {
    use std::arch::x86_64::{
        _mm_loadu_si128, _mm512_add_epi64, _mm512_and_si512, _mm512_broadcast_i32x4,
        _mm512_castsi512_si256, _mm512_cmpgt_epu8_mask, _mm512_cmplt_epi64_mask,
        _mm512_cmpneq_epu8_mask, _mm512_cvtepu8_epi16, _mm512_loadu_epi64,
        _mm512_mask_storeu_epi64, _mm512_maskz_expand_epi8, _mm512_maskz_loadu_epi8,
        _mm512_maskz_mov_epi64, _mm512_or_si512, _mm512_set1_epi8, _mm512_set1_epi64,
        _mm512_setzero_si512, _mm512_shuffle_epi8, _mm512_slli_epi16, _mm512_srli_epi64,
        _mm512_storeu_epi64, _mm512_sub_epi64, _mm512_xor_si512,
    };
    let first = |n: usize| u64::MAX.checked_shr(64 - n as u32).unwrap_or(0);
    // SAFETY: only those bytes are read that `first` has a bit for, all of which are there.
    let load = |bytes: &[u8]| unsafe {
        _mm512_maskz_loadu_epi8(first(bytes.len()), bytes.as_ptr().cast())
    };
    // A length a byte.
    let wide = _mm512_cvtepu8_epi16(_mm512_castsi512_si256(load(
        &lengths[..lengths.len().min(32)],
    )));
    let spread = _mm512_or_si512(wide, _mm512_slli_epi16::<4>(wide));
    let lengths = _mm512_and_si512(spread, _mm512_set1_epi8(15));
    let read = _mm512_cmpneq_epu8_mask(lengths, _mm512_set1_epi8(NOT_READ as i8));
    if read & _mm512_cmpgt_epu8_mask(lengths, _mm512_set1_epi8(8)) != 0 {
        return (0, 0);
    }
    let mut kept = [0u64; 8];
    // SAFETY: sixteen bytes are read, and sixty-four written, that are there.
    unsafe {
        let table = _mm512_broadcast_i32x4(_mm_loadu_si128(KEPT.as_ptr().cast()));
        let bits = _mm512_shuffle_epi8(table, lengths);
        _mm512_storeu_epi64(kept.as_mut_ptr().cast(), bits);
    }
    let (zero, one) = (_mm512_setzero_si512(), _mm512_set1_epi64(1));
    let (mut done, mut left) = (0, *rest);
    for (eight, kept) in values.as_chunks_mut::<8>().0.iter_mut().zip(kept) {
        let Some((bytes, after)) = left.split_at_checked(kept.count_ones() as usize) else {
            break;
        };
        left = after;
        let folded = _mm512_maskz_expand_epi8(kept, load(bytes));
        let sign = _mm512_sub_epi64(zero, _mm512_and_si512(folded, one));
        let difference = _mm512_xor_si512(_mm512_srli_epi64::<1>(folded), sign);
        // SAFETY: there are eight of 64 bits.
        let old = unsafe { _mm512_loadu_epi64(eight.as_ptr().cast()) };
        let (was, is) = ((known >> done) as u8, (read >> done) as u8);
        let from = if KEY {
            zero
        } else {
            _mm512_maskz_mov_epi64(was, old)
        };
        let new = _mm512_add_epi64(from, difference);
        // SAFETY: as above.
        unsafe { _mm512_mask_storeu_epi64(eight.as_mut_ptr().cast(), is, new) };
        let less = _mm512_cmplt_epi64_mask(_mm512_sub_epi64(new, old), zero) & was & is;
        if less != 0 {
            let mut before = [0u64; 8];
            // SAFETY: as above.
            unsafe { _mm512_storeu_epi64(before.as_mut_ptr().cast(), old) };
            let which = (0..8).filter(|i| less >> i & 1 == 1);
            which.for_each(|i| fell(done + i, before[i], eight[i]));
        }
        done += 8;
    }
    *rest = left;
    (done, read & first(done))
}

/// What the lengths of two neighbours say, by the byte that holds them.
#[derive(Clone, Copy)]
struct Two {
    /// Where the bytes of both differences lie among the next sixteen, as `pshufb` takes it.
    places: [u64; 2],
    /// Bytes of both; [`Two::WRONG`] where a length is none.
    bytes: u8,
    /// A bit each: whether they were read.
    read: u8,
}

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

static TWO: [Two; 256] = {
    let mut all = [Two::of(0); 256];
    let mut byte = 0;
    while byte < 256 {
        all[byte] = Two::of(byte);
        byte += 1;
    }
    all
};

/// Two at a time, as long as sixteen bytes follow.
#[target_feature(enable = "ssse3")]
fn pairs<const KEY: bool>(
    values: &mut [u64],
    known: u64,
    lengths: &[u8],
    rest: &mut &[u8],
    fell: Fell<'_>,
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
