//! What did a counter count between two readings? Wraps resolved, everything else told apart.

use hopbyte_fabric::Missing;

/// How a hardware or software counter behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Behaviour {
    /// Width: it counts modulo 2^bits (1 to 64).
    pub bits: u32,
    /// Whether it stays at its highest value instead of wrapping (error counters of InfiniBand).
    pub sticky: bool,
    /// The most it can count in a second, where the hardware sets a limit.
    pub most_per_second: Option<f64>,
    /// What it counts in a second at the speed that its link is said to have. The fabric or the device
    /// may be wrong by some factor ([`NOMINAL_ERROR`]).
    pub nominal_per_second: Option<f64>,
}

impl Behaviour {
    /// A 64-bit counter without a known limit.
    pub const PLAIN: Self = Self::bits(64);

    /// A wrapping counter of a width, without a known limit.
    pub const fn bits(bits: u32) -> Self {
        Self {
            bits,
            sticky: false,
            most_per_second: None,
            nominal_per_second: None,
        }
    }

    /// A counter that stays at its highest value.
    pub const fn sticky(bits: u32) -> Self {
        Self {
            bits,
            sticky: true,
            most_per_second: None,
            nominal_per_second: None,
        }
    }

    /// The same counter with a limit on its rate.
    #[must_use]
    pub fn at_most(mut self, per_second: f64) -> Self {
        self.most_per_second = Some(per_second);
        self
    }

    /// The same counter at a link of a said speed.
    #[must_use]
    pub fn nominally(mut self, per_second: f64) -> Self {
        self.nominal_per_second = Some(per_second);
        self
    }

    /// Its highest value.
    pub fn highest(self) -> u64 {
        u64::MAX >> (64 - self.bits.clamp(1, 64))
    }
}

/// Seconds by which a reading may lie beside its time stamp, and the share by which clocks may differ.
const JITTER_SECONDS: f64 = 0.25;
const CLOCK_ERROR: f64 = 1.1;
/// A rise by more than so many times the said speed of the link is not believed.
const NOMINAL_ERROR: f64 = 10.0;
/// Of a counter without any known speed, the largest part of its range that a wrap may span.
const BLIND_WRAP: u64 = 8;

/// The increase from `earlier` to `later` over `seconds`, if they are known: the one place where wrap,
/// reset, stuck, gap and impossible rates are told apart.
///
/// * At the highest value of a sticky counter: `Stuck`; a fall of one: `Reset`.
/// * A whole turn was possible in the time, at the hardware's limit or the link's said speed: `Gap`.
/// * A fall is a wrap when the counter could have counted that far in the time, at the hardware's limit,
///   else at the said speed; where neither is known, when it went round by an eighth of its range at
///   most. Any other fall is a `Reset`.
/// * A rise beyond the hardware's limit, or ten times the said speed, is a `Reset` too: the device was
///   exchanged, or the value is none.
pub fn increase(
    counter: Behaviour,
    earlier: u64,
    later: u64,
    seconds: Option<f64>,
) -> Result<u64, Missing> {
    let highest = counter.highest();
    if earlier > highest || later > highest {
        return Err(Missing::Unread);
    }
    if counter.sticky && later == highest {
        return Err(Missing::Stuck);
    }
    let possible = |rate: Option<f64>| {
        let (most, s) = rate.zip(seconds)?;
        Some(most * (s * CLOCK_ERROR + JITTER_SECONDS))
    };
    let hard = possible(counter.most_per_second);
    let nominal = possible(counter.nominal_per_second);
    let limit = hard.or(nominal);
    if !counter.sticky && limit.is_some_and(|p| p > highest as f64) {
        return Err(Missing::Gap);
    }
    let counted = later.wrapping_sub(earlier) & highest;
    let plausible = if later >= earlier {
        let believed = hard.or(nominal.map(|p| p * NOMINAL_ERROR));
        believed.is_none_or(|p| counted as f64 <= p)
    } else if counter.sticky {
        false
    } else {
        limit.map_or(counted <= highest / BLIND_WRAP, |p| counted as f64 <= p)
    };
    if plausible {
        Ok(counted)
    } else {
        Err(Missing::Reset)
    }
}

/// When and in which life a device was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Time of the source's own clock in nanoseconds (since 1970 where it knows).
    pub time_ns: Option<u64>,
    /// A clock that nobody sets (nanoseconds since some start in this life of the device). Intervals
    /// come from it where both readings have it.
    pub steady_ns: Option<u64>,
    /// Changes when the device starts anew (a hash of the boot id).
    pub boot: Option<u64>,
}

impl Moment {
    /// A time without a boot id.
    pub fn at_ns(time_ns: u64) -> Self {
        Self {
            time_ns: Some(time_ns),
            ..Self::default()
        }
    }

    /// Seconds from `self` to `later`; `None` when the source has no clock. `Reset` when the device
    /// started anew in between, `ZeroInterval` when its clock stands or went back.
    pub fn seconds_to(self, later: Self) -> Result<Option<f64>, Missing> {
        if let (Some(a), Some(b)) = (self.boot, later.boot)
            && a != b
        {
            return Err(Missing::Reset);
        }
        let steady = self.steady_ns.zip(later.steady_ns);
        let Some((a, b)) = steady.or(self.time_ns.zip(later.time_ns)) else {
            return Ok(None);
        };
        match b.checked_sub(a) {
            None | Some(0) => Err(Missing::ZeroInterval),
            Some(ns) => Ok(Some(ns as f64 / 1e9)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn wraps_are_exact_in_every_width() {
        for bits in [1, 8, 16, 32, 48, 52, 56, 63, 64] {
            let top = Behaviour::bits(bits).highest();
            assert_eq!(
                increase(Behaviour::bits(bits).at_most(1.0), top, 0, Some(0.75)),
                if bits == 1 { Err(Missing::Gap) } else { Ok(1) },
                "{bits}"
            );
        }
        // The wrap that other collectors count one short.
        let counter = Behaviour::PLAIN.at_most(2e9);
        assert_eq!(
            increase(counter, u64::MAX - 99, 900, Some(1.0)),
            Ok(1000),
            "100 to the top and round, 900 on"
        );
    }

    #[test]
    fn a_reset_is_no_wrap() {
        let counter = Behaviour::PLAIN.at_most(9.375e9);
        assert_eq!(
            increase(counter, 5_443_101_840_963, 4_687_500_000, Some(1.0)),
            Err(Missing::Reset)
        );
        let unlimited = Behaviour::PLAIN;
        assert_eq!(increase(unlimited, 1000, 999, None), Err(Missing::Reset));
        assert_eq!(increase(unlimited, u64::MAX, 4, Some(1.0)), Ok(5));
        // Up by more than the link can carry: another device answers.
        assert_eq!(
            increase(counter, 0, 1 << 40, Some(1.0)),
            Err(Missing::Reset)
        );
    }

    #[test]
    fn the_said_speed_of_a_link_tells_a_reset_from_a_wrap() {
        // 10 GbE, 64 bits: 10^15 bytes in a second are no traffic, twice the speed may be.
        let bytes = Behaviour::PLAIN.nominally(1.25e9);
        let second = |earlier, later| increase(bytes, earlier, later, Some(1.0));
        assert_eq!(second(1000, 1_000_000_000_000_000), Err(Missing::Reset));
        assert_eq!(second(1000, 2_500_001_000), Ok(2_500_000_000));
        assert_eq!(second(u64::MAX - 99, 900), Ok(1000));
        // 32 bits at 100 MB/s that begin anew above half their range.
        let narrow = Behaviour::bits(32).nominally(1e8);
        assert_eq!(
            increase(narrow, 3_000_000_000, 100, Some(1.0)),
            Err(Missing::Reset)
        );
        assert_eq!(increase(narrow, u32::MAX.into(), 99, Some(1.0)), Ok(100));
        assert_eq!(increase(narrow, 7, 9, Some(60.0)), Err(Missing::Gap));
        // Without a speed a fall from there is a reset too, near the top a wrap.
        let blind = Behaviour::bits(32);
        assert_eq!(
            increase(blind, 3_000_000_000, 100, Some(1.0)),
            Err(Missing::Reset)
        );
        assert_eq!(increase(blind, u32::MAX.into(), 99, None), Ok(100));
    }

    #[test]
    fn stuck_and_gap_are_told_apart() {
        let wait = Behaviour::sticky(32);
        assert_eq!(
            increase(wait, 7, 0xffff_ffff, Some(1.0)),
            Err(Missing::Stuck)
        );
        assert_eq!(
            increase(wait, 0xffff_ffff, 0xffff_ffff, Some(1.0)),
            Err(Missing::Stuck)
        );
        assert_eq!(increase(wait, 7, 6, Some(1.0)), Err(Missing::Reset));
        assert_eq!(increase(wait, 7, 9, None), Ok(2));
        // A 32-bit word counter at HDR fills in 0.69 s.
        let words = Behaviour::bits(32).at_most(25e9 / 4.0);
        assert_eq!(increase(words, 7, 9, Some(1.0)), Err(Missing::Gap));
        assert_eq!(increase(words, 7, 9, Some(0.2)), Ok(2));
        assert_eq!(
            increase(Behaviour::bits(48), 1 << 50, 0, Some(1.0)),
            Err(Missing::Unread)
        );
    }

    #[test]
    fn moments_know_reboots_and_standing_clocks() {
        let at = |time_ns, boot| Moment {
            time_ns: Some(time_ns),
            boot: Some(boot),
            steady_ns: None,
        };
        assert_eq!(
            at(1_000_000_000, 1).seconds_to(at(3_500_000_000, 1)),
            Ok(Some(2.5))
        );
        assert_eq!(at(1, 1).seconds_to(at(2, 2)), Err(Missing::Reset));
        assert_eq!(at(2, 1).seconds_to(at(2, 1)), Err(Missing::ZeroInterval));
        assert_eq!(at(3, 1).seconds_to(at(2, 1)), Err(Missing::ZeroInterval));
        assert_eq!(Moment::default().seconds_to(Moment::at_ns(1)), Ok(None));
        // The clock of the day was set back by an hour; the steady one was not.
        let steady = |time_ns, ns| Moment {
            steady_ns: Some(ns),
            ..at(time_ns, 1)
        };
        let hour = 3_600_000_000_000;
        assert_eq!(
            steady(hour, 5_000_000_000).seconds_to(steady(0, 6_000_000_000)),
            Ok(Some(1.0))
        );
    }

    proptest! {
        #[test]
        fn what_was_counted_is_found(bits in 8u32..=64, start: u64, share in 0.0f64..0.9, seconds in 0.5f64..100.0) {
            let counter = Behaviour::bits(bits);
            let top = counter.highest();
            let start = start & top;
            // As much as the limit allows, short of a whole turn.
            let most = top as f64 * share / (seconds * CLOCK_ERROR + JITTER_SECONDS);
            let counted = (most * seconds) as u64;
            let later = start.wrapping_add(counted) & top;
            prop_assert_eq!(increase(counter.at_most(most), start, later, Some(seconds)), Ok(counted));
        }
    }
}
