//! The sequence of runs of a search, and its last run.
//!
//! Runs are short at first and grow by [`GROWTH`]; each ends at a fixed number of trials, and the best placement is kept
//! at fixed points of each. The sequence depends on the problem and the seed alone. A budget of trials only cuts it
//! off, so a search has seen everything that one with fewer trials has seen, and is never worse.
//!
//! One long annealing finds more than several short ones, and a run that is cut short finds little. So most trials of
//! a wave belong to a run from a promising start, and a few to one of the other ways ([`SIDE`]). A budget of time, whose
//! results cannot be repeated exactly anyway, gives the sequence [`SEQUENCE`] of it at most, and the rest to a last run
//! whose temperature follows the clock.
//!
//! Where phases follow one another, waves begin with descents ([`crate::turns`]), and a budget of time ends with one.

mod in_turn;

use crate::engine::{Engine, Outcome, Parts, Recipe};
use crate::evaluate::{Evaluation, evaluate};
use crate::exact::exact;
use crate::graph::Graph;
use crate::linear::Distances;
use crate::mapper::{Options, Progress};
use crate::paths::Paths;
use crate::problem::{Baseline, MapError, Problem};
use crate::schedule::{Effort, Length, Span, Stop};
use crate::search::Weights;
use crate::starts::Starts;
use crate::threads::each;
use crate::turns::{DESCENT, Descents};
use hopbyte_fabric::Placement;
use hopbyte_fabric::random::Random;
use std::sync::Mutex;

/// Trials of the first runs by task, and the fewest. Guessed: enough for the first run to improve its start.
const FIRST: (u64, u64) = (2, 512);

/// Ratio of the trials of a wave of runs to those of the wave before, and trials of the other ways in a wave by those of
/// its main run: the longest run that fits into a budget of trials is between a fifth and two fifths of it. Guessed.
const GROWTH: u64 = 2;
const SIDE: f64 = 0.25;

/// Largest share of a budget of time for the sequence, and share of the rest for new starts of the last run. Chosen on
/// SPd, SPt and P3 of `bench/map` at 2 s and seeds 1 to 4: with 20 % and 10 % SPd ends at 209 ms for two seeds and SPt at
/// 335 for two, with these shares none did. Another run of SPd had one of three at 209, so the difference is small.
const SEQUENCE: f64 = 0.05;
const STARTS: f64 = 0.03;

/// The same share where short runs leave out host links ([`Engine::fixed`]). On SPt of `bench/map` they find the optimum
/// with 200,000 to 400,000 trials.
const SEQUENCE_FIXED: f64 = 0.35;

/// Longest time of the first starts on many described hosts, as a share of a budget of time.
const STARTS_OF_HOSTS: f64 = 0.25;

/// A search ends when nothing better was found in this many times the trials up to the best placement, and in
/// (by task, at least) trials of every run. Guessed.
const STUCK: (u64, u64, u64) = (8, 2_000, 150_000);

/// The trials by task on trees that are searched level by level, where a short run says little: it leaves a good start far
/// behind in its first level. Guessed.
const STUCK_LEVELS: u64 = 8_000;

/// The trials by pair of tasks for dense jobs: a step tries half of the pairs. With 2,000 by task two of ten seeds of tai60a
/// (QAPLIB) ended after 0.2 s.
const STUCK_DENSE: u64 = 8_000;

/// First numbers of the main runs and of the last runs, which have random numbers of their own.
const MAIN: usize = 1 << 19;
const LAST: usize = 1 << 20;

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
    /// Placements of blocks that stay together, better than every baseline.
    pub(crate) kept: Vec<(Placement, Evaluation)>,
    pub(crate) trials: u64,
    /// Whether every placement was searched.
    pub(crate) optimal: bool,
    /// Whether the optimum is also a bound of placements beyond the objective's limits.
    pub(crate) free: bool,
}

/// The way of a run and its first placement.
type Origin = (Recipe, Vec<u32>);

/// The start of a run.
#[derive(Clone, Copy, Debug)]
enum Start {
    /// The best placement so far.
    Best,
    /// An initial placement, by rank.
    Initial(usize),
    /// A permutation of the slots.
    Random,
    /// The start of the run that found the best placement.
    Origin,
}

/// The way and the start of a run beside the main ones, by its number.
fn side(number: usize) -> (Recipe, Start) {
    let round = number / 8;
    match number % 8 {
        0 if round == 0 => (Recipe::Whole, Start::Initial(0)),
        0 | 2 => (Recipe::Whole, Start::Best),
        6 => (Recipe::Other, Start::Best),
        1 => (Recipe::Whole, Start::Initial(1 + round)),
        3 => (Recipe::Linear, Start::Initial(round)),
        4 => (Recipe::Single, Start::Best),
        5 => (Recipe::Whole, Start::Initial(0)),
        _ => (Recipe::Linear, Start::Random),
    }
}

/// The start of a main run, by its number within the wave. Every second wave repeats the way to the best placement
/// with more trials: on SPt of `bench/map` one of three seeds ends at 279 ms instead of 335 by that.
fn main(wave: u32, number: usize) -> Start {
    match number {
        0 if wave % 2 == 1 => Start::Origin,
        _ => Start::Initial(number),
    }
}

/// The start of a last run. The second one starts where the best placement came from.
fn last(number: usize) -> Start {
    match number {
        0 => Start::Initial(0),
        1 => Start::Origin,
        _ => Start::Initial(number - 1),
    }
}

/// Largest share of a budget of time for the sequence.
fn sequence(fixed: Option<&Weights>) -> f64 {
    match fixed {
        Some(_) => SEQUENCE_FIXED,
        None => SEQUENCE,
    }
}

/// Trials of the runs of a wave.
fn trials(wave: u32, tasks: usize) -> u64 {
    let first = (FIRST.0 * tasks as u64).max(FIRST.1);
    first.saturating_mul(GROWTH.saturating_pow(wave))
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
        if self.is_best(found, place_of) {
            return Ok(false);
        }
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

    /// Whether every task is on its node of the best placement so far.
    fn is_best(&self, found: &Found, place_of: &[u32]) -> bool {
        let best = self.best(found).slots().iter().map(|s| s.node);
        best.eq(place_of.iter().map(|&p| self.problem.node_at(p)))
    }

    /// The best placement so far.
    fn best<'a>(&'a self, found: &'a Found) -> &'a Placement {
        found
            .best
            .as_ref()
            .map_or(&self.candidates[self.best].1, |b| &b.0)
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
        let best = self.best(found).slots().iter();
        best.map(|s| place[s.node.index()]).collect()
    }

    /// Runs until the budget is used up, the best placement is proven, or nothing is found any more.
    pub(crate) fn on<P: Paths, D: Distances>(
        &self,
        paths: &P,
        distances: &D,
        parts: Option<Parts>,
    ) -> Result<Found, MapError> {
        if self.options.flag().is_set() {
            return Ok(Found::default());
        }
        let mut rounds = Rounds::begin(self, (paths, distances), parts)?;
        if rounds.sequence()? {
            rounds.last()?;
        }
        rounds.tell(1.0);
        Ok(rounds.end())
    }
}

/// The runs of a search so far.
struct Rounds<'r, P: Paths, D: Distances> {
    run: &'r Run<'r>,
    engine: Engine<'r, P, D>,
    starts: Starts,
    /// Place of every node.
    place: Vec<u32>,
    found: Found,
    told: Mutex<Told>,
    span: Span,
    flag: Stop,
    /// The flag, or the end of the time.
    end: Stop,
    /// The flag, or the end of the sequence's share of the time.
    stop: Stop,
    /// Trials that are left, of each run of a wave.
    left: Vec<u64>,
    /// Trials planned so far of each, and up to the best placement.
    spent: u64,
    best_at: u64,
    /// Way and start of the run that found the best placement; `None` as long as no run did.
    origin: Option<Origin>,
    /// Descents on phases in turn, and the best placement of these.
    descents: Option<Descents<'r>>,
    descended: Found,
}

impl<'r, P: Paths, D: Distances> Rounds<'r, P, D> {
    /// Makes the initial placements.
    fn begin(
        run: &'r Run<'r>,
        (paths, distances): (&'r P, &'r D),
        parts: Option<Parts>,
    ) -> Result<Self, MapError> {
        let (problem, options) = (run.problem, run.options);
        let place = problem.places();
        let reference = run.candidates[run.reference].1.slots().iter();
        let reference: Vec<u32> = reference.map(|s| place[s.node.index()]).collect();
        let limits = (&reference[..], options.seed);
        let engine = Engine::new(problem, run.graph, (paths, distances), parts, limits);
        let flag = options.flag();
        let first = trials(0, problem.exchange.tasks());
        let span = Span::begin(options.seconds);
        // Many hosts have good starts already.
        let limited = options.trials.is_none() && engine.wide && problem.fabric.inside().is_some();
        let stop = if limited {
            span.until(STARTS_OF_HOSTS, flag)
        } else {
            flag
        };
        let starts = Starts::new(&engine, run.candidates, first, options.seed, stop);
        let end = match options.trials {
            Some(_) => flag,
            None => span.stop(flag),
        };
        let mut found = Found::default();
        for (number, start) in starts.best().enumerate() {
            // The most promising one even late: on large machines the starts alone take longer than a short time.
            if flag.is_set() || (number > 0 && end.is_set()) {
                break;
            }
            run.keep(&mut found, start)?;
        }
        let runs = options.runs.max(1);
        let share = sequence(engine.fixed.as_ref());
        Ok(Self {
            run,
            engine,
            starts,
            place,
            found,
            told: Mutex::new(Told {
                done: 0.0,
                best: f64::INFINITY,
            }),
            flag,
            end,
            stop: match options.trials {
                Some(_) => flag,
                None => span.until(share, flag),
            },
            span,
            left: vec![options.trials.map_or(u64::MAX, |t| t / runs as u64); runs],
            spent: 0,
            best_at: 0,
            origin: None,
            descents: Descents::of(problem),
            descended: Found::default(),
        })
    }

    /// Runs the sequence as far as the budget goes; whether time is left for the last run.
    fn sequence(&mut self) -> Result<bool, MapError> {
        let tasks = self.run.problem.exchange.tasks();
        for wave in 0u32.. {
            let main_trials = trials(wave, tasks);
            let side_trials = (main_trials as f64 * SIDE) as u64;
            if wave > 0 {
                if self.run.options.trials.is_none()
                    && !self.has_time_for(main_trials.saturating_add(side_trials))
                {
                    return Ok(true);
                }
                self.draw(main_trials, u64::from(wave), self.stop)?;
            }
            self.descend(wave, main_trials.saturating_add(side_trials))?;
            if wave > 0 && self.is_cut() {
                return Ok(false);
            }
            let first = wave as usize * self.left.len();
            let from_start = |number: usize| (Recipe::Whole, main(wave, number - MAIN - first));
            self.wave(
                (MAIN + first, &from_start),
                Length::Trials(main_trials),
                self.stop,
            )?;
            if (wave == 0 && self.settle()?) || self.is_cut() {
                return Ok(false);
            }
            self.wave((first, &side), Length::Trials(side_trials), self.stop)?;
            self.tell(self.used());
            // A run that was cut short has not found what it finds in a longer search; no run may start from that.
            if self.is_stuck() || self.flag.is_set() || self.left.contains(&0) {
                return Ok(false);
            }
            if self.stop.is_set() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Searches all placements of a small job; whether that succeeded.
    fn settle(&mut self) -> Result<bool, MapError> {
        let (run, found) = (self.run, &mut self.found);
        let reference = &run.candidates[run.reference].2;
        let Some(optimum) = exact(run.problem, run.cost(found), reference, self.end) else {
            return Ok(false);
        };
        if let Some(place_of) = optimum.place_of {
            run.keep(found, &place_of)?;
        }
        found.optimal = true;
        found.free = optimum.free;
        Ok(true)
    }

    /// Whether a wave ends in the time of the sequence, at the speed so far.
    fn has_time_for(&self, planned: u64) -> bool {
        let grows = (self.spent + planned) as f64 / self.spent as f64;
        self.span.passed() * grows <= sequence(self.engine.fixed.as_ref())
    }

    /// Whether nothing was found for long.
    fn is_stuck(&self) -> bool {
        let tasks = self.run.problem.exchange.tasks() as u64;
        let by_task = match self.engine.levels {
            _ if self.engine.is_dense() => STUCK_DENSE * tasks,
            Some(_) => STUCK_LEVELS,
            None => STUCK.1,
        };
        let patience = (self.best_at * STUCK.0).max(by_task * tasks).max(STUCK.2);
        self.spent - self.best_at >= patience
    }

    /// Runs from the most promising start until the time ends.
    fn last(&mut self) -> Result<(), MapError> {
        if self.end.is_set() {
            return Ok(());
        }
        let passed = self.span.passed();
        let planned = self.spent as f64 * (1.0 / passed.max(1e-9) - 1.0);
        let until = passed + STARTS * (1.0 - passed);
        let stop = self.span.until(until, self.flag);
        self.draw(planned as u64, LAST as u64, stop)?;
        let runs = if self.is_serial() { self.left.len() } else { 1 };
        let share = if self.descents.is_some() {
            1.0 - DESCENT
        } else {
            1.0
        };
        let seconds = self.run.options.seconds * (1.0 - self.span.passed()) * share / runs as f64;
        let way = |number: usize| (Recipe::Whole, last(number - LAST));
        self.wave((LAST, &way), Length::Seconds(seconds), self.flag)?;
        self.descend_last()
    }

    /// Makes more initial placements, for runs of as many trials.
    fn draw(&mut self, trials: u64, wave: u64, stop: Stop) -> Result<(), MapError> {
        let again = (self.run.options.seed, wave);
        for start in self.starts.more(&self.engine, trials, again, stop) {
            if self.end.is_set() {
                break;
            }
            if self.run.keep(&mut self.found, &start)? {
                self.best_at = self.spent;
                self.origin = Some((Recipe::Whole, start));
            }
        }
        Ok(())
    }

    /// A large search is parallel itself, small ones run side by side.
    fn is_serial(&self) -> bool {
        self.engine.wide || self.run.threads == 1
    }

    /// Runs of one length; `way` is the recipe and the start by number, from `first` on.
    fn wave(
        &mut self,
        (first, way): (usize, &(dyn Fn(usize) -> (Recipe, Start) + Sync)),
        planned: Length,
        stop: Stop,
    ) -> Result<(), MapError> {
        let used = self.used();
        let one = |(run, &left): (usize, &u64)| {
            // Even a run that is over at once evaluates its start.
            if stop.is_set() {
                return None;
            }
            let seed = self.run.options.seed;
            let mut rng = Random::stream(seed, (first + run) as u64 + 1);
            let (recipe, start) = way(first + run);
            let recipe = match (start, &self.origin) {
                (Start::Origin, Some((found, _))) => *found,
                _ => recipe,
            };
            let from = self.placement(start, &mut rng);
            // A run from the best placement continues the run that found it.
            let origin = (!matches!(start, Start::Best)).then(|| (recipe, from.clone()));
            let effort = Effort::new(planned, left, stop);
            let tell = || self.tell(used);
            let outcome = self.engine.run((recipe, from), effort, &mut rng, &tell);
            Some((outcome, origin))
        };
        let ends: Vec<Option<(Outcome, Option<Origin>)>> = if self.is_serial() {
            self.left.iter().enumerate().map(one).collect()
        } else {
            each(self.left.len(), &|run| one((run, &self.left[run])))
        };
        let planned = match planned {
            Length::Trials(trials) => trials,
            Length::Seconds(_) => 0,
        };
        self.spent = self.spent.saturating_add(planned);
        for (end, left) in ends.into_iter().zip(&mut self.left) {
            let Some((end, origin)) = end else { continue };
            self.found.trials += end.trials;
            *left = end.left();
            // Runs go by all phases at once: the best one of a run that was cut short is not seen by a longer search.
            if self.descents.is_some() && *left == 0 {
                continue;
            }
            if self.run.keep(&mut self.found, &end.into_best())? {
                self.best_at = self.spent;
                self.origin = origin.or_else(|| self.origin.take());
            }
        }
        Ok(())
    }

    /// The placement that a run starts from.
    fn placement(&self, start: Start, rng: &mut Random) -> Vec<u32> {
        match (start, &self.origin) {
            (Start::Best, _) => self.run.places(&self.found, &self.place),
            (Start::Origin, Some((_, start))) => start.clone(),
            (Start::Origin, None) => self.starts.get(1),
            (Start::Initial(rank), _) => self.starts.get(rank),
            (Start::Random, _) => self.anywhere(rng),
        }
    }

    /// Share of the trials that are used.
    fn used(&self) -> f64 {
        let Some(trials) = self.run.options.trials else {
            return 0.0;
        };
        let whole = (trials / self.left.len() as u64).max(1) as f64;
        1.0 - self.left.iter().copied().max().unwrap_or(0) as f64 / whole
    }

    /// Reports progress, of which `used` is the share of the trials used.
    fn tell(&self, used: f64) {
        let Ok(mut told) = self.told.lock() else {
            return;
        };
        let done = match self.run.options.trials {
            Some(_) => used,
            None => used.max(self.span.passed()),
        };
        let best = match self.is_descended() {
            true => self.run.cost(&self.descended),
            false => self.run.cost(&self.found),
        };
        told.done = told.done.max(done);
        told.best = told.best.min(best.score(&self.run.problem.objective).0);
        (self.run.progress)(Progress {
            done: told.done,
            best: told.best,
            bound: self.run.bound,
        });
    }

    /// Tasks on random slots.
    fn anywhere(&self, rng: &mut Random) -> Vec<u32> {
        let places = self.engine.rooms.iter().enumerate();
        let mut slots: Vec<u32> = places
            .flat_map(|(place, &room)| std::iter::repeat_n(place as u32, room as usize))
            .collect();
        rng.shuffle(&mut slots);
        slots.truncate(self.run.problem.exchange.tasks());
        slots
    }
}

#[cfg(test)]
mod tests {
    use super::trials;

    #[test]
    fn runs_grow_without_limit() {
        let sizes: Vec<u64> = (0..4).map(|wave| trials(wave, 300)).collect();
        assert_eq!(sizes, [600, 1200, 2400, 4800]);
        assert_eq!(trials(500, 300), u64::MAX);
    }
}
