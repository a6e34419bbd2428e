//! A range of times of a store.

use crate::error::{Result, ServeError};
use hopbyte_fabric::{Class, InputError};

/// Part of a store, by time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Range {
    /// First time in nanoseconds since 1970; without it only the newest tick is read before new ones.
    pub from_ns: Option<u64>,
    /// Last time in nanoseconds since 1970; without it new ticks are followed.
    pub to_ns: Option<u64>,
}

impl Range {
    /// From a first and a last time in seconds since 1970, with the names of both.
    ///
    /// # Errors
    /// A time that is no number, or a last time before the first.
    pub fn of_seconds(
        (first, from): (&str, Option<f64>),
        (last, to): (&str, Option<f64>),
    ) -> Result<Self> {
        let refused = |name: &str, found: String, expected: &str| {
            let error = InputError::new(name, found, expected);
            Err(ServeError::from(error.of(Class::OptionValue)))
        };
        for (name, seconds) in [(first, from), (last, to)] {
            if let Some(bad) = seconds.filter(|s| !s.is_finite()) {
                return refused(name, bad.to_string(), "seconds since 1970");
            }
        }
        if let Some((from, to)) = from.zip(to).filter(|(from, to)| from > to) {
            let found = format!("{from}, after {last} {to}");
            return refused(first, found, "an earlier time");
        }
        let ns = |seconds: Option<f64>| seconds.map(|s| (s.max(0.0) * 1e9) as u64);
        Ok(Self {
            from_ns: ns(from),
            to_ns: ns(to),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Range;

    #[test]
    fn ranges_are_of_finite_times_in_order() {
        let of = |from, to| Range::of_seconds(("start", Some(from)), ("end", Some(to)));
        let range = of(-1.0, 2.0).unwrap();
        assert_eq!((range.from_ns, range.to_ns), (Some(0), Some(2_000_000_000)));
        for (from, to) in [(f64::NAN, 1.0), (1.0, f64::INFINITY), (2.0, 1.0)] {
            assert!(of(from, to).is_err(), "{from} to {to}");
        }
    }
}
