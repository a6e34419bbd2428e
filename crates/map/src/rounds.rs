//! The sequence of runs of a search.
//!
//! Runs are short at first and grow by [`GROWTH`]; each ends at a fixed number of trials, and the best placement is kept
//! at fixed points of each. The sequence depends on the problem and the seed alone. A budget of time or of trials
//! only cuts it off, so a search has seen everything that a shorter one has seen, and is never worse.

use crate::engine::{Engine, Parts, Recipe};
use crate::evaluate::{Evaluation, evaluate};
use crate::exact::exact;
use crate::graph::Graph;
use crate::linear::Distances;
use crate::mapper::{Options, Progress};
use crate::paths::Paths;
use crate::problem::{Baseline, MapError, Problem};
use crate::schedule::{Effort, Span, Stop};
use crate::starts::Starts;
use hopbyte_fabric::Placement;
use hopbyte_fabric::random::Random;
use rayon::prelude::*;
use std::sync::Mutex;

/// Trials of the first runs by task, and the fewest. Fitted: with the efforts of `bench/map`, whose first set of problems
/// the shares of stages were chosen on, the last run then ends just before the budget.
const FIRST: (u64, u64) = (2, 512);

/// Ratio of the trials of a wave of runs to those of the wave before.
const GROWTH: u64 = 3;

/// Trials of the longest runs by task, and the fewest.
const LONGEST: (u64, u64) = (1_000, 1 << 16);

/// A search ends when nothing better was found in this many times the trials up to the best placement, and in
/// (by task, at least) trials of every run.
const STUCK: (u64, u64, u64) = (8, 300, 150_000);

/// A search on one problem.
pub(crate) struct Run<'a> {
    pub(crate) problem: &'a Problem<'a>,
    pub(crate) options: &'a Options,
    pub(crate) threads: usize,
    pub(crate) graph: &'a Graph,
    pub(crate) candidates: &'a [(Baseline, Placement, Evaluation)],
    /// The candidate whose limits hold.
    pub(crate) reference: usize,
    /// The best candidate.
    pub(crate) best: usize,
    /// Bound of the objective.
    pub(crate) bound: f64,
    pub(crate) progress: &'a (dyn Fn(Progress) + Sync),
}

/// Results of all runs.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) best: Option<(Placement, Evaluation)>,
    pub(crate) trials: u64,
    /// Whether every placement was searched.
    pub(crate) optimal: bool,
    /// Whether the optimum is also a bound of placements beyond the objective's limits.
    pub(crate) free: bool,
}

/// The start of a run.
#[derive(Clone, Copy, Debug)]
enum Start {
    /// The best placement so far.
    Best,
    /// An initial placement, by rank.
    Initial(usize),
    /// A permutation of the slots.
    Random,
}

/// The way and the start of a run, by its number: the whole recipe in turn with the others, from the best placement in
/// turn with new starts.
fn plan(number: usize) -> (Recipe, Start) {
    let round = number / 8;
    match number % 8 {
        0 if round == 0 => (Recipe::Whole, Start::Initial(0)),
        0 | 2 | 6 => (Recipe::Whole, Start::Best),
        1 => (Recipe::Whole, Start::Initial(1 + round)),
        3 => (Recipe::Linear, Start::Initial(round)),
        4 => (Recipe::Single, Start::Best),
        5 => (Recipe::Whole, Start::Initial(0)),
        _ => (Recipe::Linear, Start::Random),
    }
}

/// Trials of the runs of a wave.
fn trials(wave: u32, tasks: usize) -> u64 {
    let n = tasks as u64;
    let first = (FIRST.0 * n).max(FIRST.1);
    let longest = (LONGEST.0 * n).max(LONGEST.1);
    first
        .saturating_mul(GROWTH.saturating_pow(wave))
        .min(longest)
}

/// Progress, at most as far as it was told.
struct Told {
    done: f64,
    best: f64,
}

impl Run<'_> {
    /// A placement by place, and its cost; `None` if it exceeds the limits of the objective.
    fn placed(&self, place_of: &[u32]) -> Result<Option<(Placement, Evaluation)>, MapError> {
        let problem = self.problem;
        let nodes = place_of.iter().map(|&p| problem.node_at(p));
        let placement = Placement::on_nodes(problem.fabric, problem.allocation, nodes)?;
        let cost = evaluate(problem, &placement)?;
        let limits = &self.candidates[self.reference].2;
        let keeps = cost.keeps_limits(limits, &problem.objective);
        Ok(keeps.then_some((placement, cost)))
    }

    /// Keeps a placement if it is the best; whether it is.
    fn keep(&self, found: &mut Found, place_of: &[u32]) -> Result<bool, MapError> {
        let objective = &self.problem.objective;
        let Some((placement, cost)) = self.placed(place_of)? else {
            return Ok(false);
        };
        let better = match &found.best {
            Some((_, best)) => cost.better_than(best, objective),
            None => cost.better_than(&self.candidates[self.best].2, objective),
        };
        if better {
            found.best = Some((placement, cost));
        }
        Ok(better)
    }

    /// The best cost so far.
    fn cost<'a>(&'a self, found: &'a Found) -> &'a Evaluation {
        found
            .best
            .as_ref()
            .map_or(&self.candidates[self.best].2, |b| &b.1)
    }

    /// The place of every task in the best placement so far.
    fn places(&self, found: &Found, place: &[u32]) -> Vec<u32> {
        let best = found
            .best
            .as_ref()
            .map_or(&self.candidates[self.best].1, |b| &b.0);
        best.slots().iter().map(|s| place[s.node.index()]).collect()
    }

    /// Runs until the budget is used up, the best placement is proven, or nothing is found any more.
    pub(crate) fn on<P: Paths, D: Distances>(
        &self,
        paths: &P,
        distances: &D,
        parts: Option<Parts>,
    ) -> Result<Found, MapError> {
        let (problem, options) = (self.problem, self.options);
        let place = problem.places();
        let by_place = |p: &Placement| -> Vec<u32> {
            p.slots().iter().map(|s| place[s.node.index()]).collect()
        };
        let reference = by_place(&self.candidates[self.reference].1);
        let limits = (&reference[..], options.seed);
        let engine = Engine::new(problem, self.graph, (paths, distances), parts, limits);
        let runs = options.runs.max(1);
        let tasks = problem.exchange.tasks();
        let flag = Stop {
            flag: options.stop,
            until: None,
        };
        let first = trials(0, tasks);
        let mut starts = Starts::new(&engine, self.candidates, first, options.seed, flag);
        let mut found = Found::default();
        for start in starts.best() {
            self.keep(&mut found, start)?;
        }
        let span = Span::begin(options.seconds);
        let stop = match options.trials {
            Some(_) => flag,
            None => span.stop(flag),
        };
        let mut left = vec![options.trials.map_or(u64::MAX, |t| t / runs as u64); runs];
        let told = Mutex::new(Told {
            done: 0.0,
            best: f64::INFINITY,
        });
        let tell = |best: f64, used: f64| {
            if let Ok(mut told) = told.lock() {
                let done = match options.trials {
                    Some(_) => used,
                    None => used.max(span.passed()),
                };
                told.done = told.done.max(done);
                told.best = told.best.min(best);
                (self.progress)(Progress {
                    done: told.done,
                    best: told.best,
                    bound: self.bound,
                });
            }
        };
        let share = |left: &[u64]| match options.trials {
            Some(trials) => {
                let whole = (trials / runs as u64).max(1) as f64;
                1.0 - left.iter().copied().max().unwrap_or(0) as f64 / whole
            }
            None => 0.0,
        };
        let (mut spent, mut best_at) = (0u64, 0u64);
        for wave in 0u32.. {
            let planned = trials(wave, tasks);
            if wave > 0 {
                let again = (options.seed, u64::from(wave));
                for start in starts.more(&engine, planned, again, stop) {
                    if self.keep(&mut found, &start)? {
                        best_at = spent;
                    }
                }
            }
            let used = share(&left);
            let value = self.cost(&found).score(&problem.objective).0;
            let one = |run: usize| {
                let number = wave as usize * runs + run;
                let mut rng = Random::stream(options.seed, number as u64 + 1);
                let (recipe, start) = plan(number);
                let start = match start {
                    Start::Best => self.places(&found, &place),
                    Start::Initial(rank) => starts.get(rank),
                    Start::Random => anywhere(&engine.rooms, tasks, &mut rng),
                };
                let effort = Effort {
                    planned,
                    left: left[run],
                    stop,
                };
                engine.run((recipe, start), effort, &mut rng, &|| tell(value, used))
            };
            // A large search is parallel itself, small ones run side by side.
            let ends: Vec<_> = if engine.wide || self.threads == 1 {
                (0..runs).map(one).collect()
            } else {
                (0..runs).into_par_iter().map(one).collect()
            };
            spent = spent.saturating_add(planned);
            for (end, left) in ends.into_iter().zip(&mut left) {
                found.trials += end.trials;
                *left = end.left();
                if self.keep(&mut found, &end.into_best())? {
                    best_at = spent;
                }
            }
            if wave == 0 && self.settle(&mut found, stop)? {
                break;
            }
            tell(self.cost(&found).score(&problem.objective).0, share(&left));
            let patience = (best_at * STUCK.0).max(STUCK.1 * tasks as u64).max(STUCK.2);
            let stuck = spent - best_at >= patience;
            // A run that was cut short has not found what it finds in a longer search; no run may start from that.
            if stuck || stop.is_set() || left.contains(&0) {
                break;
            }
        }
        tell(self.cost(&found).score(&problem.objective).0, 1.0);
        Ok(found)
    }

    /// Searches all placements of a small job; whether that succeeded.
    fn settle(&self, found: &mut Found, stop: Stop) -> Result<bool, MapError> {
        let reference = &self.candidates[self.reference].2;
        let Some(optimum) = exact(self.problem, self.cost(found), reference, stop) else {
            return Ok(false);
        };
        if let Some(place_of) = optimum.place_of {
            self.keep(found, &place_of)?;
        }
        found.optimal = true;
        found.free = optimum.free;
        Ok(true)
    }
}

/// Tasks on random slots.
fn anywhere(rooms: &[u32], tasks: usize, rng: &mut Random) -> Vec<u32> {
    let places = rooms.iter().enumerate();
    let mut slots: Vec<u32> = places
        .flat_map(|(place, &room)| std::iter::repeat_n(place as u32, room as usize))
        .collect();
    rng.shuffle(&mut slots);
    slots.truncate(tasks);
    slots
}

#[cfg(test)]
mod tests {
    use super::trials;

    #[test]
    fn runs_grow_up_to_a_limit() {
        let sizes: Vec<u64> = (0..8).map(|wave| trials(wave, 100)).collect();
        let expected = [512, 1536, 4608, 13824, 41472, 100_000, 100_000, 100_000];
        assert_eq!(sizes, expected);
    }
}
