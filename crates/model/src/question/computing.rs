//! Time that computing takes on a node: its share that waits for memory, and interruptions by the operating system.

use super::parameters::OperatingPoint;
use crate::error::ModelError;
use hopbyte_fabric::random::Random;
use serde::{Deserialize, Serialize};

/// Interruptions of every processor by its operating system, at regular times: the noise of paper 001, Figs. 4b and 5b.
/// The times of the first ones differ from rank to rank, by the seed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interruptions {
    /// Time from the beginning of one to that of the next.
    pub period_s: f64,
    /// Length of one.
    pub duration_s: f64,
}

impl Interruptions {
    /// Rejects durations that leave no time to compute, at this factor on the duration.
    pub(crate) fn check(&self, factor: f64) -> Result<(), ModelError> {
        let duration = self.duration_s * factor;
        if self.period_s > 0.0
            && self.period_s.is_finite()
            && (0.0..self.period_s).contains(&duration)
        {
            return Ok(());
        }
        Err(ModelError::out_of_range(
            "interruptions",
            &format!("{duration} s every {} s", self.period_s),
            "a period above zero and a shorter duration",
        ))
    }
}

/// Computing of a scenario's ranks at its operating point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Computing {
    point: OperatingPoint,
    memory_bound: f64,
    interruptions: Option<Interruptions>,
    seed: u64,
}

/// Mixed into a seed where it draws the first interruptions.
const FIRST: u64 = 0x6672_7374;
/// Steps for which the slowest rank is drawn.
const STEPS: u32 = 64;

impl Computing {
    /// At an operating point, with the share of computing that waits for memory.
    pub(crate) fn of(
        point: &OperatingPoint,
        memory_bound: f64,
        interruptions: Option<Interruptions>,
        seed: u64,
    ) -> Self {
        let own = interruptions.map(|i| Interruptions {
            duration_s: i.duration_s * point.interruptions,
            ..i
        });
        Self {
            point: *point,
            memory_bound,
            interruptions: own.filter(|i| i.duration_s > 0.0),
            seed,
        }
    }

    /// Time of undisturbed computing.
    pub(crate) fn seconds(&self, seconds: f64) -> f64 {
        let waiting = seconds * self.memory_bound;
        (seconds - waiting) / self.point.cpu + waiting / self.point.memory
    }

    /// End of undisturbed processor time that begins at `start`.
    pub(crate) fn end(&self, rank: u32, start: f64, seconds: f64) -> f64 {
        match self.interruptions {
            None => start + seconds,
            Some(own) => {
                let first = Random::stream(self.seed ^ FIRST, rank.into()).unit() * own.period_s;
                own.end(start - first, seconds) + first
            }
        }
    }

    /// Mean time of the slowest of so many ranks that begin together, over steps that each begin anywhere in a
    /// period.
    pub(crate) fn slowest(&self, ranks: usize, seconds: f64) -> f64 {
        let Some(own) = self.interruptions else {
            return seconds;
        };
        let mut random = Random::new(self.seed ^ FIRST);
        let mut slowest = || {
            let starts = (0..ranks).map(|_| random.unit() * own.period_s);
            let times = starts.map(|start| own.end(start, seconds) - start);
            times.fold(0.0, f64::max)
        };
        (0..STEPS).map(|_| slowest()).sum::<f64>() / f64::from(STEPS)
    }
}

impl Interruptions {
    /// End of work that begins at `start`, with interruptions from time 0 on.
    fn end(&self, start: f64, work: f64) -> f64 {
        let Self {
            period_s: period,
            duration_s: duration,
        } = *self;
        if work <= 0.0 || start + work <= 0.0 {
            return start + work;
        }
        // What is left of the work, and where in its period.
        let (mut left, mut at) = match start < 0.0 {
            true => (work + start, 0.0),
            false => (work, start),
        };
        let cycle = (at / period).floor() * period;
        at = cycle + (at - cycle).max(duration);
        let here = cycle + period - at;
        if left <= here {
            return at + left;
        }
        left -= here;
        let free = period - duration;
        // The last period is entered only if work is left for it.
        let whole = ((left / free).ceil() - 1.0).max(0.0);
        cycle + period * (whole + 1.0) + duration + (left - whole * free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOISE: Interruptions = Interruptions {
        period_s: 10.0,
        duration_s: 1.0,
    };

    #[test]
    fn work_ends_as_if_counted_step_by_step() {
        // In steps of 1/4 s, of which those within an interruption do no work.
        let counted = |start: f64, work: f64| {
            let (mut now, mut left) = (start, work);
            while left > 0.0 {
                if !(now >= 0.0 && now.rem_euclid(10.0) < 1.0) {
                    left -= 0.25;
                }
                now += 0.25;
            }
            now
        };
        for start in (-20..50).map(|i| f64::from(i) * 0.5) {
            for work in (1..200).map(|i| f64::from(i) * 0.25) {
                assert_eq!(
                    NOISE.end(start, work),
                    counted(start, work),
                    "{start} {work}"
                );
            }
        }
    }

    #[test]
    fn many_ranks_are_delayed_in_every_step_and_one_by_its_share() {
        let point = OperatingPoint::default();
        let noisy = Computing::of(&point, 0.0, Some(NOISE), 7);
        // One rank loses a tenth of its processor; of ten thousand ranks one is interrupted in every step.
        let one = noisy.slowest(1, 1000.0);
        assert!((1110.0..1112.5).contains(&one), "{one}");
        let many = noisy.slowest(10_000, 1.0);
        assert!((1.99..=2.0).contains(&many), "{many}");
        let doubled = OperatingPoint {
            interruptions: 2.0,
            ..point
        };
        let many = Computing::of(&doubled, 0.0, Some(NOISE), 7).slowest(10_000, 1.0);
        assert!((2.99..=3.0).contains(&many), "{many}");
    }

    #[test]
    fn half_the_memory_bandwidth_doubles_the_share_that_waits_for_it() {
        let point = OperatingPoint {
            memory: 0.5,
            ..OperatingPoint::default()
        };
        assert_eq!(Computing::of(&point, 0.25, None, 0).seconds(4.0), 5.0);
        assert_eq!(Computing::of(&point, 0.0, None, 0).seconds(4.0), 4.0);
    }
}
