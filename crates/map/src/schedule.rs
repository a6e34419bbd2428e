//! Temperature of an annealing run, and its budget of trials.

use hopbyte_fabric::random::Random;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Trials between two readings of the clock and of the flag.
const STRIDE: u64 = 256;

/// Temperature at the end of cooling, as a share of the start, for [`Schedule::new`].
const COLD: f64 = 1e-2;

/// Share of the budget after which only improvements are accepted.
const COOLED: f64 = 0.9;

/// The end of a search before its plan: a flag, or a point in time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stop {
    pub(crate) flag: Option<&'static AtomicBool>,
    pub(crate) until: Option<Instant>,
}

impl Stop {
    /// Whether the search must end.
    #[inline]
    pub(crate) fn is_set(self) -> bool {
        self.flagged() || self.until.is_some_and(|end| Instant::now() >= end)
    }

    /// Whether the flag is set.
    #[inline]
    pub(crate) fn flagged(self) -> bool {
        self.flag.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}

/// A span of wall time that begins now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    begin: Instant,
    seconds: f64,
}

impl Span {
    pub(crate) fn begin(seconds: f64) -> Self {
        let begin = Instant::now();
        Self { begin, seconds }
    }

    /// A stop at the end of the span, or at the flag.
    pub(crate) fn stop(&self, flag: Stop) -> Stop {
        self.until(1.0, flag)
    }

    /// A stop after a share of the span, or at the flag.
    pub(crate) fn until(&self, share: f64, flag: Stop) -> Stop {
        Stop {
            until: Some(self.begin + Duration::from_secs_f64(share * self.seconds)),
            ..flag
        }
    }

    /// Share of the span that has passed, at most 1.
    pub(crate) fn passed(&self) -> f64 {
        (self.begin.elapsed().as_secs_f64() / self.seconds.max(1e-9)).min(1.0)
    }
}

/// Trials of a linear search are cheaper than those of a search on loads by this factor.
const LINEAR_TRIALS: u64 = 4;

/// Length of a run or of a part of it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Length {
    Trials(u64),
    /// Wall time, in seconds. The temperature follows the clock.
    Seconds(f64),
}

/// Length of a part of a run. A part of planned trials has a temperature that depends on their number alone, so a
/// search that is cut short is the beginning of a longer one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    planned: Length,
    /// Trials after which the part is cut short.
    most: u64,
    stop: Stop,
}

/// Length of one run, and the trials that are left before the search is cut short.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) planned: Length,
    pub(crate) left: u64,
    pub(crate) stop: Stop,
    begin: Instant,
    /// Shares of the parts so far.
    given: f64,
}

impl Effort {
    /// Begins now.
    pub(crate) fn new(planned: Length, left: u64, stop: Stop) -> Self {
        Self {
            planned,
            left,
            stop,
            begin: Instant::now(),
            given: 0.0,
        }
    }

    /// A share of the planned length; `cheap` trials are counted fourfold. Time between parts, which is long on large
    /// machines, is taken off the next one.
    pub(crate) fn part(&mut self, share: f64, cheap: bool) -> Budget {
        let many = if cheap { LINEAR_TRIALS } else { 1 };
        self.given += share;
        let planned = match self.planned {
            Length::Trials(n) => Length::Trials(((n as f64 * share) as u64).saturating_mul(many)),
            Length::Seconds(seconds) => {
                let left = seconds * self.given - self.begin.elapsed().as_secs_f64();
                Length::Seconds(left.max(0.0))
            }
        };
        Budget {
            planned,
            most: self.left.saturating_mul(many),
            stop: self.stop,
        }
    }

    /// Takes trials off the rest.
    pub(crate) fn charge(&mut self, trials: u64, cheap: bool) {
        let many = if cheap { LINEAR_TRIALS } else { 1 };
        self.left = self.left.saturating_sub(trials.div_ceil(many));
    }

    /// Whether nothing is left.
    pub(crate) fn is_over(&self) -> bool {
        let late = match self.planned {
            Length::Trials(_) => false,
            Length::Seconds(seconds) => self.begin.elapsed().as_secs_f64() >= seconds,
        };
        late || self.left == 0 || self.stop.is_set()
    }
}

/// Geometric cooling over a budget.
pub(crate) struct Schedule {
    budget: Budget,
    begin: Instant,
    /// Temperature at the start and, as a share of it, at the end.
    range: (f64, f64),
    heat: f64,
    slack: f64,
    /// Cost of one unit of heat and slack; it may change during the search.
    pub(crate) unit: f64,
    trials: u64,
    progress: f64,
    cold: bool,
    cut: bool,
}

impl Schedule {
    /// Starts now at a temperature; without heat only changes below `-slack` are accepted.
    pub(crate) fn new(budget: Budget, heat: f64, slack: f64) -> Self {
        Self {
            budget,
            begin: Instant::now(),
            range: (heat, COLD),
            heat,
            slack,
            unit: 1.0,
            trials: 0,
            progress: 0.0,
            cold: heat <= 0.0,
            cut: false,
        }
    }

    /// Sets the final temperature, as a share of the start.
    pub(crate) fn down_to(mut self, share: f64) -> Self {
        self.range.1 = share;
        self
    }

    /// Counts trials, one or many; false once the budget is used up.
    #[inline]
    pub(crate) fn go_on(&mut self, trials: u64) -> bool {
        if self.trials.is_multiple_of(STRIDE) && !self.cool() {
            return false;
        }
        self.trials += trials;
        true
    }

    fn cool(&mut self) -> bool {
        self.progress = match self.budget.planned {
            Length::Trials(n) => self.trials as f64 / n.max(1) as f64,
            Length::Seconds(s) => self.begin.elapsed().as_secs_f64() / s.max(1e-9),
        };
        self.cut =
            self.progress < 1.0 && (self.trials >= self.budget.most || self.budget.stop.is_set());
        if self.cut {
            return false;
        }
        self.cold = self.range.0 <= 0.0 || self.progress >= COOLED;
        self.heat = self.range.0 * self.range.1.powf(self.progress / COOLED);
        self.progress < 1.0
    }

    /// The largest change of cost to accept now.
    #[inline]
    pub(crate) fn limit(&self, rng: &mut Random) -> f64 {
        if self.cold {
            -self.slack * self.unit
        } else {
            -self.heat * self.unit * (1.0 - rng.unit()).ln()
        }
    }

    /// Whether the search ended before its planned trials.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut
    }

    /// Share of the planned length used, 0 to 1.
    pub(crate) fn progress(&self) -> f64 {
        self.progress.min(1.0)
    }

    /// Trials so far.
    pub(crate) fn trials(&self) -> u64 {
        self.trials
    }
}

#[cfg(test)]
mod tests {
    use super::{Budget, Effort, Length, Stop};
    use std::time::Duration;

    #[test]
    fn time_between_parts_is_taken_off_the_next() {
        let mut effort = Effort::new(Length::Seconds(1000.0), u64::MAX, Stop::default());
        let seconds = |budget: Budget| match budget.planned {
            Length::Seconds(seconds) => seconds.round(),
            Length::Trials(_) => f64::NAN,
        };
        effort.begin -= Duration::from_secs(70);
        assert_eq!(seconds(effort.part(0.05, false)), 0.0);
        assert_eq!(seconds(effort.part(0.5, true)), 480.0);
        assert!(!effort.is_over());
        effort.begin -= Duration::from_secs(930);
        assert!(effort.is_over());
        let trials = Effort::new(Length::Trials(0), 1, Stop::default());
        assert!(!trials.is_over());
    }
}
