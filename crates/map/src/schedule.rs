//! Temperature of an annealing run, and its budget of time or trials.

use hopbyte_fabric::random::Random;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Trials between two readings of the clock.
const STRIDE: u64 = 256;

/// Temperature at the end of cooling, as a share of the start, for [`Schedule::new`].
const COLD: f64 = 1e-2;

/// Share of the budget after which only improvements are accepted.
const COOLED: f64 = 0.9;

/// A flag that ends a search early when set.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stop(pub(crate) Option<&'static AtomicBool>);

impl Stop {
    /// Whether the search must end.
    #[inline]
    pub(crate) fn is_set(self) -> bool {
        self.0.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}

/// Limit of a search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    span: Span,
    stop: Stop,
}

#[derive(Clone, Copy, Debug)]
enum Span {
    /// Until a point in time.
    Until(Instant),
    /// A number of trials, independent of time.
    Trials(u64),
}

/// Trials of a linear search are cheaper than those of a search on loads by this factor.
const LINEAR_TRIALS: u64 = 4;

/// Budget of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    amount: Amount,
    stop: Stop,
}

#[derive(Clone, Copy, Debug)]
enum Amount {
    /// Wall time.
    Seconds(f64),
    /// Trials.
    Trials(u64),
}

/// Approximate trials per second of a search on loads.
const TRIALS_PER_SECOND: f64 = 4e5;

impl Effort {
    /// A wall time in seconds.
    pub(crate) fn of_seconds(seconds: f64, stop: Stop) -> Self {
        let amount = Amount::Seconds(seconds);
        Self { amount, stop }
    }

    /// A number of trials.
    pub(crate) fn of_trials(trials: u64, stop: Stop) -> Self {
        let amount = Amount::Trials(trials);
        Self { amount, stop }
    }

    /// Approximate number of trials.
    pub(crate) fn trials(self) -> u64 {
        match self.amount {
            Amount::Seconds(s) => (s * TRIALS_PER_SECOND) as u64,
            Amount::Trials(n) => n,
        }
    }

    /// A share of the budget, starting now; `cheap` trials are counted fourfold.
    pub(crate) fn part(self, share: f64, cheap: bool) -> Budget {
        let span = match self.amount {
            Amount::Seconds(s) => Span::Until(Instant::now() + Duration::from_secs_f64(s * share)),
            Amount::Trials(n) => {
                let many = if cheap { LINEAR_TRIALS } else { 1 };
                Span::Trials(((n as f64 * share) as u64).saturating_mul(many))
            }
        };
        Budget {
            span,
            stop: self.stop,
        }
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
        if self.budget.stop.is_set() {
            return false;
        }
        self.progress = match self.budget.span {
            Span::Trials(n) => self.trials as f64 / n.max(1) as f64,
            Span::Until(end) => {
                let whole = end.saturating_duration_since(self.begin).as_secs_f64();
                self.begin.elapsed().as_secs_f64() / whole.max(1e-9)
            }
        };
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

    /// Share of the budget used, 0 to 1, at the last reading of the clock.
    pub(crate) fn progress(&self) -> f64 {
        self.progress.min(1.0)
    }

    /// Trials so far.
    pub(crate) fn trials(&self) -> u64 {
        self.trials
    }
}
