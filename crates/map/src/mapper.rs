//! The complete search: baselines, starts, stages, and the certificate.

use crate::bound::{Bound, bound};
use crate::engine::{Engine, Parts};
use crate::evaluate::{Evaluation, evaluate, known_costs};
use crate::graph::Graph;
use crate::linear::{Distances, MatrixDistances};
use crate::paths::Paths;
use crate::paths::grid::GridPaths;
use crate::paths::stored::StoredPaths;
use crate::paths::summed::Summed;
use crate::problem::{Baseline, MapError, Objective, Problem};
use crate::schedule::{Effort, Stop};
use crate::starts::starts;
use hopbyte_fabric::random::Random;
use hopbyte_fabric::{Placement, Slot};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Upper limit of [`Options::threads`].
pub const MAX_THREADS: usize = 1024;

/// Options of a search.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Wall time of the search, in seconds; baselines and bounds take additional time.
    pub seconds: f64,
    /// Number of trials of all runs together, instead of a time: the result is then the same on any machine and
    /// any number of threads.
    pub trials: Option<u64>,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Number of threads, at most [`MAX_THREADS`]; 0 for one per core.
    pub threads: usize,
    /// Independent searches, from different starts and seeds, that share the time or the trials.
    pub runs: usize,
    /// Stop flag: once set, the search ends and returns the best placement so far, with
    /// [`Certificate::interrupted`] set.
    pub stop: Option<&'static AtomicBool>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seconds: 2.0,
            trials: None,
            seed: 1,
            threads: 0,
            runs: 2,
            stop: None,
        }
    }
}

/// Progress report of a running search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Share of the budget used so far, 0 to 1.
    pub done: f64,
    /// Best value of the objective so far.
    pub best: f64,
    /// Lower bound of the objective.
    pub bound: f64,
}

/// Result of a search, in brief.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// A placement better than every baseline was found.
    Improved,
    /// The best baseline is returned unchanged.
    NoImprovement,
}

/// Quality of a result, with all data needed to reproduce it.
#[derive(Clone, Debug, Serialize)]
pub struct Certificate {
    /// Name of the minimised objective.
    pub objective: String,
    /// The in-order placement, the default of launchers.
    pub baseline: Evaluation,
    /// The best baseline by the objective, and its cost.
    pub best_baseline: (Baseline, Evaluation),
    /// The current placement, if given.
    pub current: Option<Evaluation>,
    /// The placement returned.
    pub result: Evaluation,
    /// Bound that no placement can go below.
    pub bound: Bound,
    /// Whether the result is better than the best baseline.
    pub verdict: Verdict,
    /// Tasks on another node than in the current placement (in the in-order placement, if none was given).
    pub moved_tasks: usize,
    /// Seed of the search.
    pub seed: u64,
    /// Number of trials.
    pub trials: u64,
    /// Number of threads used.
    pub threads: usize,
    /// Whether the stop flag ended the search before its time or trials were used.
    pub interrupted: bool,
    /// Time from call to return.
    pub wall_seconds: f64,
    /// Processor time of the whole process over the same span, all threads.
    pub cpu_seconds: f64,
}

/// Processor time that this process has used, in seconds.
fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// A placement that every result is compared with; `None` for [`Baseline::Current`] if the problem has no
/// current placement.
///
/// # Errors
/// More tasks than slots.
pub fn baseline(
    problem: &Problem<'_>,
    which: Baseline,
    seed: u64,
) -> Result<Option<Placement>, MapError> {
    let tasks = problem.exchange.tasks();
    Ok(match which {
        Baseline::InOrder => Some(Placement::in_order(problem.allocation, tasks)?),
        Baseline::RoundRobin => Some(Placement::round_robin(problem.allocation, tasks)?),
        Baseline::Random => {
            let mut slots: Vec<Slot> = problem.allocation.slots().collect();
            Random::stream(seed, RANDOM_STREAM).shuffle(&mut slots);
            slots.truncate(tasks);
            Some(Placement::new(problem.fabric, problem.allocation, slots)?)
        }
        Baseline::Current => problem.current.cloned(),
    })
}

/// Minimum gain, as a share of the objective, that makes a placement worth a change; smaller gains are within a
/// run's own noise.
const LEAST_GAIN: f64 = 0.01;

/// Maximum number of nodes for which route prices are stored.
const FEW: usize = 64;

/// Random stream of the random baseline.
const RANDOM_STREAM: u64 = 1 << 32;

/// Searches for a placement that minimises the problem's objective.
///
/// The result is never worse than the best baseline. With [`Options::trials`] it is the same for the
/// same input and seed on any number of threads; with a time budget it depends on the machine's speed.
///
/// # Errors
/// Sizes that do not fit, invalid options, or nodes of the allocation without a route between them (named).
pub fn map(
    problem: &Problem<'_>,
    options: &Options,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<(Placement, Certificate), MapError> {
    let (begin, begin_cpu) = (Instant::now(), cpu_seconds());
    problem.check()?;
    problem.check_partners()?;
    if !(options.seconds.is_finite() && (0.0..=1e7).contains(&options.seconds)) {
        return Err(MapError::BadOption {
            what: "seconds",
            found: options.seconds.to_string(),
            expected: "a time from 0 to 10,000,000",
        });
    }
    let threads = match options.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n if n <= MAX_THREADS => n,
        n => {
            return Err(MapError::BadOption {
                what: "threads",
                found: n.to_string(),
                expected: "a number from 0 to 1024",
            });
        }
    };
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .build()
        .map_err(|error| MapError::BadOption {
            what: "threads",
            found: error.to_string(),
            expected: "a number of threads that the system can start",
        })?;
    let (placement, mut certificate) =
        pool.install(|| searched(problem, options, threads, progress))?;
    certificate.wall_seconds = begin.elapsed().as_secs_f64();
    certificate.cpu_seconds = cpu_seconds() - begin_cpu;
    Ok((placement, certificate))
}

/// [`map`], with the number of threads resolved.
fn searched(
    problem: &Problem<'_>,
    options: &Options,
    threads: usize,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<(Placement, Certificate), MapError> {
    let all = [
        Baseline::InOrder,
        Baseline::RoundRobin,
        Baseline::Random,
        Baseline::Current,
    ];
    let candidate = |&which: &Baseline| -> Result<Option<_>, MapError> {
        let Some(placement) = baseline(problem, which, options.seed)? else {
            return Ok(None);
        };
        let cost = evaluate(problem, &placement)?;
        Ok(Some((which, placement, cost)))
    };
    // Of several errors the first in this order is returned, not the first in time.
    let found: Vec<Result<Option<_>, MapError>> = all.par_iter().map(candidate).collect();
    let found = found.into_iter().filter_map(Result::transpose);
    let candidates: Vec<(Baseline, Placement, Evaluation)> = found.collect::<Result<_, _>>()?;
    let requests = Graph::of_tasks(problem.exchange);
    let on_wire = problem.loads.map(Graph::of_tasks);
    let flows = on_wire.as_ref().unwrap_or(&requests);
    let bound = bound(problem, &requests, flows);
    let graph = match problem.objective {
        Objective::WorstLink | Objective::WorstNetworkLink => flows,
        Objective::HopBytes | Objective::RouteCost(_) => &requests,
    };
    let mut best = 0;
    for i in 1..candidates.len() {
        if candidates[i]
            .2
            .better_than(&candidates[best].2, &problem.objective)
        {
            best = i;
        }
    }
    let run = Run {
        problem,
        options,
        threads,
        graph,
        candidates: &candidates,
        best: candidates[best].2.score(&problem.objective).0,
        bound: bound.of(&problem.objective),
        progress,
    };
    let stop = Stop(options.stop);
    let found = match GridPaths::new(problem) {
        _ if stop.is_set() => Found {
            best: None,
            trials: 0,
        },
        Some(paths) if !matches!(problem.objective, Objective::RouteCost(_)) => {
            let (distances, places) = (paths.distances(), problem.allocation.nodes().len());
            if places <= FEW {
                run.on(&Summed::new(paths, places), &distances, None)?
            } else {
                run.on(&paths, &distances, None)?
            }
        }
        _ => {
            let paths = StoredPaths::new(problem)?;
            let distances = match problem.objective {
                Objective::RouteCost(costs) => MatrixDistances {
                    places: problem.allocation.nodes().len(),
                    cost: known_costs(costs),
                },
                _ => paths.distances(problem.fabric),
            };
            run.on(&paths, &distances, Parts::new(problem, &paths))?
        }
    };
    let (which, start, start_cost) = candidates[best].clone();
    let improved = found
        .best
        .filter(|(_, cost)| worth(cost, &start_cost, &problem.objective));
    let verdict = if improved.is_some() {
        Verdict::Improved
    } else {
        Verdict::NoImprovement
    };
    let (placement, result) = improved.unwrap_or((start, start_cost.clone()));
    let reference = problem.current.unwrap_or(&candidates[0].1);
    let certificate = Certificate {
        objective: problem.objective.to_string(),
        baseline: candidates[0].2.clone(),
        best_baseline: (which, start_cost),
        current: candidates
            .iter()
            .find(|c| c.0 == Baseline::Current)
            .map(|c| c.2.clone()),
        result,
        bound,
        verdict,
        moved_tasks: placement.moved(reference),
        seed: options.seed,
        trials: found.trials,
        threads,
        interrupted: stop.is_set(),
        wall_seconds: 0.0,
        cpu_seconds: 0.0,
    };
    Ok((placement, certificate))
}

/// Whether a placement beats the best baseline significantly: by [`LEAST_GAIN`] of the objective, or of the
/// tie-breaker while the objective is no worse.
fn worth(cost: &Evaluation, baseline: &Evaluation, objective: &Objective<'_>) -> bool {
    let ((new, new_tie), (old, old_tie)) = (cost.score(objective), baseline.score(objective));
    let gains = |new: f64, old: f64| new < old * (1.0 - LEAST_GAIN);
    cost.better_than(baseline, objective) && (gains(new, old) || gains(new_tie, old_tie))
}

/// Results of all starts.
struct Found {
    best: Option<(Placement, Evaluation)>,
    trials: u64,
}

/// A search on one problem.
struct Run<'a> {
    problem: &'a Problem<'a>,
    options: &'a Options,
    threads: usize,
    graph: &'a Graph,
    candidates: &'a [(Baseline, Placement, Evaluation)],
    best: f64,
    bound: f64,
    progress: &'a (dyn Fn(Progress) + Sync),
}

impl Run<'_> {
    /// A placement by place, and its cost.
    fn placed(&self, place_of: &[u32]) -> Result<(Placement, Evaluation), MapError> {
        let problem = self.problem;
        let nodes = place_of.iter().map(|&p| problem.node_at(p));
        let placement = Placement::on_nodes(problem.fabric, problem.allocation, nodes)?;
        let cost = evaluate(problem, &placement)?;
        Ok((placement, cost))
    }

    /// Searches from the starts and keeps the best.
    fn on<P: Paths, D: Distances>(
        &self,
        paths: &P,
        distances: &D,
        parts: Option<Parts>,
    ) -> Result<Found, MapError> {
        let (problem, options) = (self.problem, self.options);
        let engine = Engine::new(problem, self.graph, (paths, distances), parts, options.seed);
        let runs = options.runs.max(1);
        // A large search is parallel itself, small ones run side by side.
        let waves = if engine.wide {
            runs
        } else {
            runs.div_ceil(self.threads)
        };
        let stop = Stop(options.stop);
        let effort = match options.trials {
            Some(trials) => Effort::of_trials(trials / runs as u64, stop),
            None => Effort::of_seconds(options.seconds / waves as f64, stop),
        };
        let starts = starts(
            &engine,
            self.candidates,
            effort.trials(),
            options.seed,
            stop,
        );
        let told = std::sync::Mutex::new((0usize, self.best));
        let tell = |found: Option<f64>| {
            if let Ok(mut told) = told.lock() {
                told.0 += 1;
                told.1 = told.1.min(found.unwrap_or(f64::INFINITY));
                (self.progress)(Progress {
                    done: told.0 as f64 / (runs * (1 + engine.stages())) as f64,
                    best: told.1,
                    bound: self.bound,
                });
            }
        };
        let one = |number: usize| -> Result<(u64, Placement, Evaluation), MapError> {
            let mut rng = Random::stream(options.seed, number as u64 + 1);
            let start = starts[number % starts.len()].clone();
            let end = engine.run((start, number % 2 == 1), effort, &mut rng, || tell(None));
            let (placement, cost) = self.placed(&end.place_of)?;
            tell(Some(cost.score(&problem.objective).0));
            Ok((end.trials, placement, cost))
        };
        let ends: Vec<Result<_, MapError>> = if engine.wide {
            (0..runs).map(one).collect()
        } else {
            (0..runs).into_par_iter().map(one).collect()
        };
        // A search that started too hot may end worse than its start.
        let starts = starts.par_iter().map(|start| self.placed(start));
        let begins: Vec<Result<_, MapError>> = starts
            .map(|placed| placed.map(|(p, cost)| (0, p, cost)))
            .collect();
        let mut found = Found {
            best: None,
            trials: 0,
        };
        for end in ends.into_iter().chain(begins) {
            let (trials, placement, cost) = end?;
            found.trials += trials;
            let better =
                |(_, best): &(Placement, Evaluation)| cost.better_than(best, &problem.objective);
            if found.best.as_ref().is_none_or(better) {
                found.best = Some((placement, cost));
            }
        }
        Ok(found)
    }
}
