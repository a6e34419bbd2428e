//! The search as a whole: baselines, starts, stages, and the certificate.

use crate::bound::{Bound, bound};
use crate::construct::greedy;
use crate::evaluate::{Evaluation, evaluate, is_network, known_costs};
use crate::graph::Graph;
use crate::near::Near;
use crate::paths::{GridPaths, MatrixPaths, Paths, StoredPaths};
use crate::problem::{Baseline, MapError, Objective, Problem};
use crate::rng::Rng;
use crate::search::{Budget, Search, Slots, Stage, Weights};
use hopbyte_fabric::{Placement, Slot};
use rayon::prelude::*;
use serde::Serialize;
use std::time::{Duration, Instant};

/// How to search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Wall time to search for, in seconds; reading baselines and bounds comes on top.
    pub seconds: f64,
    /// Trials for each start instead of a time: the result is then the same on any machine and any
    /// number of threads.
    pub trials: Option<u64>,
    /// Seed of everything random.
    pub seed: u64,
    /// Threads to search on; 0 is one for every core.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seconds: 2.0,
            trials: None,
            seed: 1,
            threads: 0,
        }
    }
}

/// A word on the search while it runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Share of the budget that is used, 0 to 1.
    pub done: f64,
    /// Best value of the objective so far.
    pub best: f64,
    /// Value that nothing can go below.
    pub bound: f64,
}

/// What came of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// A placement better than every baseline was found.
    Improved,
    /// The best baseline is returned as it is.
    NoImprovement,
}

/// What a result is worth, with everything needed to get it again.
#[derive(Clone, Debug, Serialize)]
pub struct Certificate {
    /// What was made small.
    pub objective: String,
    /// The in-order placement: what the launcher would have done.
    pub baseline: Evaluation,
    /// The best baseline by the objective, and what it costs.
    pub best_baseline: (Baseline, Evaluation),
    /// The placement that the tasks have now, if it was given.
    pub current: Option<Evaluation>,
    /// The placement returned.
    pub result: Evaluation,
    /// What no placement can go below.
    pub bound: Bound,
    /// Whether the result is better than the best baseline.
    pub verdict: Verdict,
    /// Tasks on another node than in the current placement (in order, where none was given).
    pub moved_tasks: usize,
    /// Seed of the search.
    pub seed: u64,
    /// Swaps tried.
    pub trials: u64,
    /// Threads that searched.
    pub threads: usize,
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

/// One of the placements that every result is compared with; `None` for [`Baseline::Current`] where
/// the problem gives none.
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
            Rng::new(seed, RANDOM_STREAM).shuffle(&mut slots);
            slots.truncate(tasks);
            Some(Placement::new(problem.fabric, problem.allocation, slots)?)
        }
        Baseline::Current => problem.current.cloned(),
    })
}

/// Stream of random numbers of the random baseline.
const RANDOM_STREAM: u64 = 1 << 32;

/// Searches for a placement that makes the problem's objective small.
///
/// The result is never worse than the best baseline. With [`Options::trials`] it is the same for the
/// same input and seed on any number of threads; with a time budget it depends on the machine's speed.
///
/// # Errors
/// Sizes that do not fit, options that make no sense, or nodes of the allocation that cannot reach
/// each other (named).
pub fn map(
    problem: &Problem<'_>,
    options: &Options,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<(Placement, Certificate), MapError> {
    let (begin, begin_cpu) = (Instant::now(), cpu_seconds());
    problem.check()?;
    if !(options.seconds.is_finite() && (0.0..=1e7).contains(&options.seconds)) {
        return Err(MapError::BadOption {
            what: "seconds",
            found: options.seconds.to_string(),
            expected: "a time from 0 to 10,000,000",
        });
    }
    let mut candidates: Vec<(Baseline, Placement, Evaluation)> = Vec::new();
    let all = [
        Baseline::InOrder,
        Baseline::RoundRobin,
        Baseline::Random,
        Baseline::Current,
    ];
    for which in all {
        if let Some(placement) = baseline(problem, which, options.seed)? {
            let cost = evaluate(problem, &placement)?;
            candidates.push((which, placement, cost));
        }
    }
    let requests = Graph::of_tasks(problem.exchange, 0.0);
    let flows = Graph::of_tasks(problem.exchange, problem.response_fraction);
    let bound = bound(problem, &requests, &flows);
    let graph = match problem.objective {
        Objective::WorstLink | Objective::WorstNetworkLink => &flows,
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
        graph,
        candidates: &candidates,
        best: candidates[best].2.score(&problem.objective).0,
        bound: bound.of(&problem.objective),
        progress,
    };
    let found = match problem.objective {
        Objective::RouteCost(_) => run.on(&MatrixPaths {
            places: problem.allocation.nodes().len(),
        })?,
        _ => match GridPaths::new(problem) {
            Some(paths) => run.on(&paths)?,
            None => run.on(&StoredPaths::new(problem)?)?,
        },
    };
    let (which, start, start_cost) = candidates[best].clone();
    let improved = found
        .best
        .filter(|(_, cost)| cost.better_than(&start_cost, &problem.objective));
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
        threads: found.threads,
        wall_seconds: begin.elapsed().as_secs_f64(),
        cpu_seconds: cpu_seconds() - begin_cpu,
    };
    Ok((placement, certificate))
}

/// What the starts found together.
struct Found {
    best: Option<(Placement, Evaluation)>,
    trials: u64,
    threads: usize,
}

/// A search on one problem.
struct Run<'a> {
    problem: &'a Problem<'a>,
    options: &'a Options,
    graph: &'a Graph,
    candidates: &'a [(Baseline, Placement, Evaluation)],
    best: f64,
    bound: f64,
    progress: &'a (dyn Fn(Progress) + Sync),
}

impl Run<'_> {
    /// Searches from every start on the given routes and keeps the best.
    fn on<P: Paths>(&self, paths: &P) -> Result<Found, MapError> {
        let problem = self.problem;
        let places = problem.allocation.nodes().len();
        let weights = self.weights(paths);
        let near = Near::new(problem, &mut Rng::new(self.options.seed, 0));
        let rooms = problem.allocation.nodes().iter().enumerate();
        let slots = Slots::new(
            places,
            rooms.flat_map(|(place, &(_, slots))| (0..slots).map(move |_| (place as u32, 1))),
        );
        let threads = match self.options.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            n => n,
        };
        let starts: Vec<Vec<u32>> = self
            .candidates
            .iter()
            .map(|(_, placement, _)| self.slots_of(placement, &slots))
            .chain([greedy(self.graph, &slots, paths, &weights)])
            .collect();
        let waves = starts.len().div_ceil(threads).max(1);
        let share = self.options.seconds / waves as f64;
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .map_err(|error| MapError::BadOption {
                what: "threads",
                found: error.to_string(),
                expected: "a number of threads that the system can start",
            })?;
        let best = std::sync::Mutex::new((0usize, self.best));
        let searched: Vec<(Vec<u32>, u64)> = pool.install(|| {
            starts
                .into_par_iter()
                .enumerate()
                .map(|(number, start)| {
                    let mut rng = Rng::new(self.options.seed, number as u64 + 1);
                    let mut search = Search::new(paths, self.graph, &slots, &weights, &near, start);
                    let stages = stages(&problem.objective);
                    let begin = Instant::now();
                    for (k, (power, heat, hop_weight)) in stages.iter().copied().enumerate() {
                        let part = (k + 1) as f64 / stages.len() as f64;
                        let budget = match self.options.trials {
                            Some(trials) => Budget::Trials(trials / stages.len() as u64),
                            None => Budget::Until(begin + Duration::from_secs_f64(share * part)),
                        };
                        let stage = Stage {
                            power,
                            hop_weight,
                            heat,
                            budget,
                        };
                        let now = search.run(&stage, &mut rng);
                        if let (Ok(mut told), true) =
                            (best.lock(), stage.power > 0 || stages.len() == 1)
                        {
                            told.0 += 1;
                            let value = if stage.power == 0 {
                                now.linear
                            } else {
                                now.worst
                            };
                            told.1 = told.1.min(value);
                            (self.progress)(Progress {
                                done: (told.0 as f64
                                    / (stages.len() * (self.candidates.len() + 1)) as f64)
                                    .min(1.0),
                                best: told.1,
                                bound: self.bound,
                            });
                        }
                    }
                    let trials = search.trials;
                    (search.into_slots(), trials)
                })
                .collect()
        });
        let mut found = Found {
            best: None,
            trials: 0,
            threads,
        };
        for (slot_of, trials) in searched {
            found.trials += trials;
            let nodes = slot_of
                .iter()
                .map(|&s| problem.node_at(slots.place[s as usize]));
            let placement = Placement::on_nodes(problem.fabric, problem.allocation, nodes)?;
            let cost = evaluate(problem, &placement)?;
            let better =
                |(_, best): &(Placement, Evaluation)| cost.better_than(best, &problem.objective);
            if found.best.as_ref().is_none_or(better) {
                found.best = Some((placement, cost));
            }
        }
        Ok(found)
    }

    /// The slots of a placement in the search's numbering.
    fn slots_of(&self, placement: &Placement, slots: &Slots) -> Vec<u32> {
        let place_of = self.problem.places();
        let mut next: Vec<u32> = (0..self.problem.allocation.nodes().len() as u32)
            .map(|place| slots.of(place).start)
            .collect();
        placement
            .slots()
            .iter()
            .map(|slot| {
                let free = &mut next[place_of[slot.node.index()] as usize];
                *free += 1;
                *free - 1
            })
            .collect()
    }

    fn weights<P: Paths>(&self, paths: &P) -> Weights {
        let problem = self.problem;
        if let Objective::RouteCost(costs) = problem.objective {
            let hop = known_costs(costs).into_iter().map(f64::from).collect();
            return Weights {
                seconds_per_byte: vec![0.0; paths.links()],
                hop,
            };
        }
        let links = problem.fabric.links().len();
        let counts = |number: usize| {
            let link = paths.link(number);
            let real = link.index() < links;
            let scope = !matches!(problem.objective, Objective::WorstNetworkLink)
                || (real && is_network(problem, link));
            let capacity = if real {
                problem.live_capacity(link)
            } else {
                0.0
            };
            if scope && capacity > 0.0 {
                1.0 / capacity
            } else {
                0.0
            }
        };
        let hop = |number: usize| {
            let link = paths.link(number);
            f64::from(u8::from(
                link.index() < links && problem.fabric.is_hop(link),
            ))
        };
        Weights {
            seconds_per_byte: (0..paths.links()).map(counts).collect(),
            hop: (0..paths.links()).map(hop).collect(),
        }
    }
}

/// Power, heat and weight of hop-bytes of each stage.
fn stages(objective: &Objective<'_>) -> &'static [(i32, f64, f64)] {
    match objective {
        Objective::WorstLink | Objective::WorstNetworkLink => &[
            (0, 0.05, 0.0),
            (2, 0.02, 0.1),
            (8, 0.01, 0.05),
            (20, 0.005, 0.02),
        ],
        Objective::HopBytes | Objective::RouteCost(_) => &[(0, 0.1, 0.0)],
    }
}
