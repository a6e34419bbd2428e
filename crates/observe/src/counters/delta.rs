//! Increase of a counter between two readings, with wrap, reset, stuck and gap told apart.

use hopbyte_fabric::Missing;

/// How a hardware or software counter behaves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Behaviour {
    /// Width: it counts modulo 2^bits (1 to 64).
    pub bits: u32,
    /// Saturates at its highest value instead of wrapping (InfiniBand error counters).
    pub sticky: bool,
    /// Upper limit of its rate per second, if the hardware sets one.
    pub most_per_second: Option<f64>,
    /// Rate per second at the link's nominal speed. The fabric's or the device's value may be wrong by up to
    /// `NOMINAL_ERROR`.
    pub nominal_per_second: Option<f64>,
    /// The value is a rate per second; it becomes a total before readings are compared (`counters/rates.rs`).
    pub rate: bool,
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
            rate: false,
        }
    }

    /// A counter that saturates at its highest value.
    pub const fn sticky(bits: u32) -> Self {
        Self {
            bits,
            sticky: true,
            most_per_second: None,
            nominal_per_second: None,
            rate: false,
        }
    }

    /// The same counter with a limit on its rate.
    #[must_use]
    pub fn at_most(mut self, per_second: f64) -> Self {
        self.most_per_second = Some(per_second);
        self
    }

    /// The same counter on a link with a nominal speed.
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

/// Uncertainty of a reading's time stamp in seconds, and of the clock rate as a ratio.
const JITTER_SECONDS: f64 = 0.25;
const CLOCK_ERROR: f64 = 1.1;
/// Increases above this multiple of the link's nominal speed are rejected.
const NOMINAL_ERROR: f64 = 10.0;
/// If no speed is known: a fall counts as a wrap up to 1/8 of the counter's range.
const BLIND_WRAP: u64 = 8;

/// The largest increase in `seconds` that is believed of a link with a nominal rate per second.
pub fn most_believed(nominal_per_second: f64, seconds: f64) -> f64 {
    possible(nominal_per_second, seconds) * NOMINAL_ERROR
}

/// The largest increase in `seconds` at a rate, with the errors of clocks.
fn possible(per_second: f64, seconds: f64) -> f64 {
    per_second * (seconds * CLOCK_ERROR + JITTER_SECONDS)
}

/// The increase from `earlier` to `later` over `seconds`, if known. The only function that tells wrap, reset, stuck,
/// gap and impossible rates apart.
///
/// * A sticky counter at its highest value: `Stuck` (`Counter::increase` has the least increase of errors); a sticky counter
///   that fell: `Reset`.
/// * A full wrap was possible within the time, at the hardware's limit or the nominal speed: `Gap`.
/// * A fall is a wrap if the counter could have advanced that far in the time, at the hardware's limit, else at the
///   nominal speed; if neither is known, if it advanced by at most an eighth of its range. Any other fall is a
///   `Reset`.
/// * An increase beyond the hardware's limit, or ten times the nominal speed, is also a `Reset`: the device was
///   replaced, or the value is invalid.
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
    let possible = |rate: Option<f64>| rate.zip(seconds).map(|(rate, s)| possible(rate, s));
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

/// Time of a reading, and the boot of the device that it belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Wall-clock time of the source in nanoseconds (since 1970 if the source knows the date).
    pub time_ns: Option<u64>,
    /// Monotonic clock of the source: nanoseconds since some start within this boot. Intervals use it if both
    /// readings have it.
    pub steady_ns: Option<u64>,
    /// Changes when the device restarts (a hash of the boot id).
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

    /// Seconds from `self` to `later`; `None` if the source has no clock. `Reset` if the device restarted in between,
    /// `ZeroInterval` if its clock stood still or went back.
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
        // Other collectors get this wrap wrong by one.
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
        // An increase beyond the link's capacity: the device was replaced.
        assert_eq!(
            increase(counter, 0, 1 << 40, Some(1.0)),
            Err(Missing::Reset)
        );
    }

    #[test]
    fn the_said_speed_of_a_link_tells_a_reset_from_a_wrap() {
        // 10 GbE, 64 bits: 10^15 bytes in a second are impossible, twice the nominal speed is accepted.
        let bytes = Behaviour::PLAIN.nominally(1.25e9);
        let second = |earlier, later| increase(bytes, earlier, later, Some(1.0));
        assert_eq!(second(1000, 1_000_000_000_000_000), Err(Missing::Reset));
        assert_eq!(second(1000, 2_500_001_000), Ok(2_500_000_000));
        assert_eq!(second(u64::MAX - 99, 900), Ok(1000));
        // 32 bits at 100 MB/s, reset above half the range.
        let narrow = Behaviour::bits(32).nominally(1e8);
        assert_eq!(
            increase(narrow, 3_000_000_000, 100, Some(1.0)),
            Err(Missing::Reset)
        );
        assert_eq!(increase(narrow, u32::MAX.into(), 99, Some(1.0)), Ok(100));
        assert_eq!(increase(narrow, 7, 9, Some(60.0)), Err(Missing::Gap));
        // Without a speed a fall from there is also a reset; a fall from near the top is a wrap.
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
        // The wall clock was set back by an hour; the monotonic clock was not.
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
            // The maximum that the limit allows, short of a full wrap.
            let most = top as f64 * share / (seconds * CLOCK_ERROR + JITTER_SECONDS);
            let counted = (most * seconds) as u64;
            let later = start.wrapping_add(counted) & top;
            prop_assert_eq!(increase(counter.at_most(most), start, later, Some(seconds)), Ok(counted));
        }
    }
}
