//! Times in fractions of a cycle, and small sets as words.

pub(super) use hopbyte_fabric::bits::{first_from, take_lowest};

/// A time in fractions of a cycle, as wires need it: 2^20 to a cycle.
pub(super) type Fine = u64;
const FRACTION_BITS: u32 = 20;
/// One cycle.
pub(super) const CYCLE: Fine = 1 << FRACTION_BITS;

/// The beginning of a cycle.
#[inline]
pub(super) fn fine(cycle: u64) -> Fine {
    cycle << FRACTION_BITS
}

/// Cycles, with fractions, as a time.
#[inline]
pub(super) fn fine_of(cycles: f64) -> Fine {
    (cycles * CYCLE as f64) as Fine
}

/// The cycle that contains a time.
#[inline]
pub(super) fn floor(time: Fine) -> u64 {
    time >> FRACTION_BITS
}

/// The first cycle that begins at a time or after it.
#[inline]
pub(super) fn ceil(time: Fine) -> u64 {
    floor(time + CYCLE - 1)
}
