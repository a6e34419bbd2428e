//! The complete search: baselines, starts, stages, and the certificate.

use crate::bound::{Bound, bound};
use crate::engine::Parts;
use crate::evaluate::{Evaluation, evaluate_until, less, pair_costs};
use crate::graph::Graph;
use crate::hosts;
use crate::keep::{self, Hosts};
use crate::linear::{Apart, MatrixDistances};
use crate::paths::grid::GridPaths;
use crate::paths::routers::{Between, Made, RouterDistances, RouterPaths, refuse_if_large};
use crate::paths::summed::Summed;
use crate::problem::{Baseline, MapError, Objective, Problem};
use crate::rounds::{Found, Run};
use crate::schedule::{Span, Stop};
use crate::threads;
use crate::turns;
use hopbyte_fabric::hosts::Inside;
use hopbyte_fabric::random::Random;
use hopbyte_fabric::{Placement, Routing, Slot};
use rayon::ThreadPool;
use serde::{Deserialize, Serialize};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Upper limit of [`Options::threads`].
pub const MAX_THREADS: usize = 1024;

/// Options of a search.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Longest wall time, in seconds; the search ends sooner if nothing is found any more. Most of it is one long run.
    /// Baselines and bounds count, but a quarter is left for the search; its first starts may take longer.
    pub seconds: f64,
    /// Greatest number of trials of all runs together, instead of a time: the result is then the same on any machine
    /// and any number of threads, and never worse than with fewer.
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

impl Options {
    /// A stop at the flag.
    pub(crate) fn flag(&self) -> Stop {
        Stop {
            flag: self.stop,
            until: None,
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
    /// A better placement that was found and not taken, because it divides groups of [`Problem::together`].
    pub divided: Option<Evaluation>,
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
    /// Whether every placement was searched, and none is better (small jobs).
    pub optimal: bool,
    /// Whether placements that send more over host links or between nodes than the one in order were left out of it: they
    /// are no answers of objectives that do not count these bytes.
    pub limited: bool,
    /// Whether the stop flag ended the search before its time or trials were used.
    pub interrupted: bool,
    /// Time from call to return.
    pub wall_seconds: f64,
    /// Processor time of the whole process over the same span, all threads.
    pub cpu_seconds: f64,
}

/// Processor time that this process has used, in seconds.
fn cpu_seconds() -> f64 {
    // Miri has no clock of processor time.
    if cfg!(miri) {
        return 0.0;
    }
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
    let in_order = || Placement::in_order(problem.allocation, tasks);
    let ordered = |order: &dyn Fn(&Hosts<'_>) -> Vec<u32>| {
        let hosts = Hosts::of(problem);
        let order = order(&hosts);
        let takes = hosts.takes(&order);
        takes.then(|| hosts.placement(problem, &order)).transpose()
    };
    // Names say something of hosts with several places.
    let named = problem.keep_hosts || problem.fabric.inside().is_some();
    let sorted = |order: &dyn Fn(&Hosts<'_>) -> Vec<u32>| -> Result<Option<Placement>, MapError> {
        if !named {
            return Ok(None);
        }
        let found = ordered(order)?;
        let first = baseline(problem, Baseline::InOrder, seed)?;
        Ok(found.filter(|p| first.as_ref() != Some(p)))
    };
    let kept = problem.keep_hosts;
    // More tasks than slots are refused before hosts are filled.
    in_order()?;
    Ok(match which {
        Baseline::InOrder if kept => ordered(&|hosts| hosts.in_order())?,
        Baseline::InOrder => Some(in_order()?),
        Baseline::RoundRobin if kept => None,
        Baseline::RoundRobin => Some(Placement::round_robin(problem.allocation, tasks)?),
        Baseline::Random if kept => {
            let rng = Random::stream(seed, RANDOM_STREAM);
            ordered(&|hosts| hosts.shuffled(&mut rng.clone()))?
        }
        Baseline::Random => {
            let mut slots: Vec<Slot> = problem.allocation.slots().collect();
            Random::stream(seed, RANDOM_STREAM).shuffle(&mut slots);
            slots.truncate(tasks);
            Some(Placement::new(problem.fabric, problem.allocation, slots)?)
        }
        Baseline::Current => problem.current.cloned(),
        Baseline::TextOrder => sorted(&|hosts| hosts.by_text())?,
        Baseline::NumberOrder => sorted(&|hosts| hosts.by_number())?,
    })
}

/// Minimum gain of the tie-breaker, as a share, that makes a placement worth a change.
const LEAST_GAIN: f64 = 0.01;

/// Share of [`Options::seconds`] that is left for the search however long baselines and bounds take.
const LEAST_SHARE: f64 = 0.25;

/// Share of the time of the search after which it goes without parts of the machine, if they are not made by then.
const PARTED: f64 = 0.5;

/// Share of the objective that is hardly a gain: headers on the wire differ by less between placements.
const HARDLY: f64 = 1e-3;

/// Maximum number of nodes for which route prices are stored.
const FEW: usize = 64;

/// Random stream of the random baseline.
const RANDOM_STREAM: u64 = 1 << 32;

/// Searches for a placement that minimises the problem's objective.
///
/// The result is never worse than the best baseline that keeps the limits of the objective
/// ([`Objective::has_limits`]). With [`Options::trials`] it is the same for the same input and seed on any number of
/// threads, and a search is the beginning of every one with more trials and the same seed, so that one is never worse.
/// With a time budget the result depends on the machine's speed, and more time gives a better one as a rule only.
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
    let refused = |expected| MapError::BadOption {
        what: "threads",
        found: options.threads.to_string(),
        expected,
    };
    if options.threads > MAX_THREADS {
        return Err(refused("a number from 0 to 1024"));
    }
    let pool = threads::pool(options.threads);
    let threads = pool.as_ref().map_or(1, ThreadPool::current_num_threads);
    if threads < options.threads {
        return Err(refused("a number of threads that the system can start"));
    }
    // Without links between places the routes are those of the network.
    let network = Problem {
        routing: problem.routing.network(),
        ..*problem
    };
    let is_network = problem.fabric.inside().is_some_and(Inside::is_transparent);
    let problem = if is_network { &network } else { problem };
    let search = || searched(problem, options, threads, progress, begin);
    let (placement, mut certificate) = match &pool {
        Some(pool) => pool.install(search),
        None => search(),
    }?;
    certificate.wall_seconds = begin.elapsed().as_secs_f64();
    certificate.cpu_seconds = cpu_seconds() - begin_cpu;
    Ok((placement, certificate))
}

/// [`map`], called at `begin`, with the number of threads resolved.
fn searched(
    problem: &Problem<'_>,
    options: &Options,
    threads: usize,
    progress: &(dyn Fn(Progress) + Sync),
    begin: Instant,
) -> Result<(Placement, Certificate), MapError> {
    let costs = matches!(problem.objective, Objective::RouteCost(_));
    let grid = GridPaths::new(problem).filter(|_| !costs);
    let hosts = matches!(problem.routing, Routing::Hosts(_));
    if grid.is_none() && !hosts {
        refuse_if_large(problem)?;
    }
    let kept = problem.keep_hosts.then(|| Hosts::of(problem));
    if let (Some(hosts), Some(current)) = (&kept, problem.current) {
        hosts.order_of(problem, current)?;
    }
    let flagged = options.flag();
    let candidate = |&which: &Baseline| -> Result<Option<_>, MapError> {
        // The limits of objectives are those of the placement in order or the current one.
        let needed = matches!(which, Baseline::InOrder | Baseline::Current);
        if !needed && flagged.is_set() {
            return Ok(None);
        }
        let Some(placement) = baseline(problem, which, options.seed)? else {
            return Ok(None);
        };
        let stop = if needed { Stop::default() } else { flagged };
        let cost = evaluate_until(problem, &placement, stop)?;
        Ok(cost.map(|cost| (which, placement, cost)))
    };
    // Of several errors the first in this order is returned, not the first in time.
    let found = threads::each(Baseline::ALL.len(), &|number| {
        candidate(&Baseline::ALL[number])
    });
    let found = found.into_iter().filter_map(Result::transpose);
    let candidates: Vec<(Baseline, Placement, Evaluation)> = found.collect::<Result<_, _>>()?;
    // Links outside the objective, and bytes off node, may not exceed those of the placement that the job has, or
    // would have.
    let current = candidates.iter().position(|c| c.0 == Baseline::Current);
    let reference = current.unwrap_or(0);
    let groups = hosts::whole::fitting(problem);
    let together = |placement: &Placement| hosts::whole::count(problem, groups, placement);
    let pays = |a: (&Placement, &Evaluation), b: (&Placement, &Evaluation)| {
        let more = together(a.0).cmp(&together(b.0));
        more.is_gt() || (more.is_eq() && worth(a.1, b.1, &problem.objective))
    };
    let better = |a: (&Placement, &Evaluation), b: (&Placement, &Evaluation)| {
        let more = together(a.0).cmp(&together(b.0));
        more.is_gt() || (more.is_eq() && a.1.better_than(b.1, &problem.objective))
    };
    let placed = |i: usize| (&candidates[i].1, &candidates[i].2);
    let mut best = reference;
    for i in 0..candidates.len() {
        let limits = &candidates[reference].2;
        let keeps_limits = placed(i).1.keeps_limits(limits, &problem.objective);
        if keeps_limits && pays(placed(i), placed(best)) {
            best = i;
        }
    }
    let requests = Graph::of_tasks(problem.exchange);
    let on_wire = problem.loads.map(Graph::of_tasks);
    let flows = on_wire.as_ref().unwrap_or(&requests);
    let block_of = kept.as_ref().map(Hosts::block_of);
    let bound_of = |problem: &Problem<'_>, requests: &Graph, flows: &Graph, reached| match hosts {
        _ if flagged.is_set() => Bound::default(),
        true => hosts::bound::bound(problem, requests, flows, block_of.as_deref(), reached),
        false => bound(problem, requests, flows),
    };
    let reached = candidates.iter().map(|c| c.2.worst_link_seconds);
    let reached = reached.fold(f64::INFINITY, f64::min);
    let mut bound = bound_of(problem, &requests, flows, reached);
    if let Some(hosts) = kept.as_ref().filter(|_| !flagged.is_set()) {
        let least = keep::bound(problem, hosts, &candidates[0].2);
        bound.worst_link_seconds = bound.worst_link_seconds.max(least);
    }
    turns::raise(&mut bound, problem, |turn| {
        let requests = Graph::of_tasks(turn.exchange);
        let on_wire = turn.loads.map(Graph::of_tasks);
        let flows = on_wire.as_ref().unwrap_or(&requests);
        bound_of(turn, &requests, flows, f64::INFINITY)
    });
    let graph = match problem.objective {
        Objective::WorstLink | Objective::WorstNetworkLink => flows,
        Objective::HopBytes | Objective::RouteCost(_) => &requests,
    };
    let in_turn = problem.in_turn();
    let left = options.seconds - begin.elapsed().as_secs_f64();
    let options = &Options {
        seconds: left.max(LEAST_SHARE * options.seconds),
        ..*options
    };
    let run = Run {
        problem,
        options,
        threads,
        graph,
        candidates: &candidates,
        reference,
        best,
        bound: bound.of(&problem.objective),
        progress,
    };
    let found = match grid {
        _ if flagged.is_set() => Found::default(),
        _ if let Some(hosts) = &kept => keep::search(&run, hosts)?,
        None if hosts => hosts::search(&run)?,
        Some(paths) => {
            let (distances, places) = (
                Apart::new(problem, paths.distances()),
                problem.allocation.nodes().len(),
            );
            if places <= FEW {
                run.on(&Summed::new(paths, places), &distances, None)?
            } else {
                run.on(&paths, &distances, None)?
            }
        }
        None => match Made::new(problem, flagged)? {
            Some(Made::Stored(paths)) => run.between(&paths)?,
            Some(Made::Computed(paths)) => run.between(&paths)?,
            None => Found::default(),
        },
    };
    if found.free {
        let result = found.best.as_ref().map(|b| &b.1);
        let least = result.filter(|r| r.better_than(&candidates[best].2, &problem.objective));
        bound.raise(&problem.objective, least.unwrap_or(&candidates[best].2));
    }
    let (which, start, start_cost) = candidates[best].clone();
    let is_worth =
        |(_, cost): &(Placement, Evaluation)| worth(cost, &start_cost, &problem.objective);
    // Better, but not worth it: the proof is of another placement than the returned one.
    let declined = (found.best.as_ref())
        .is_some_and(|b| b.1.better_than(&start_cost, &problem.objective) && !is_worth(b));
    let improved = found.best.filter(is_worth);
    let mut best_found = improved.unwrap_or((start, start_cost.clone()));
    let start = &candidates[best];
    let mut others = found.kept;
    others.retain(|(_, cost)| worth(cost, &start.2, &problem.objective));
    others.push((start.1.clone(), start.2.clone()));
    let more = others
        .iter()
        .filter(|o| together(&o.0) > together(&best_found.0));
    let whole = more.reduce(|a, b| match better((&b.0, &b.1), (&a.0, &a.1)) {
        true => b,
        false => a,
    });
    let divided = whole.map(|w| std::mem::replace(&mut best_found, w.clone()).1);
    let searched = options.trials != Some(0) && matches!(problem.objective, Objective::WorstLink);
    if hosts && searched && kept.is_none() && !flagged.is_set() {
        if found.optimal || in_turn {
            others.clear();
        }
        let gathered = hosts::whole::gather(
            problem,
            graph,
            best_found.clone(),
            &others,
            options.seed,
            flagged,
        )?;
        if together(&gathered.0) >= together(&best_found.0) {
            best_found = gathered;
        }
    }
    let (placement, result) = best_found;
    let divided = divided.filter(|d: &Evaluation| d.better_than(&result, &problem.objective));
    let optimal = found.optimal && divided.is_none() && !declined;
    let limited = optimal && !found.free;
    let verdict = match placement == start.1 {
        true => Verdict::NoImprovement,
        false => Verdict::Improved,
    };
    let reference = problem.current.unwrap_or(&candidates[0].1);
    let certificate = Certificate {
        objective: match in_turn {
            true => format!("{} of each phase in turn", problem.objective),
            false => problem.objective.to_string(),
        },
        baseline: candidates[0].2.clone(),
        best_baseline: (which, start_cost),
        current: candidates
            .iter()
            .find(|c| c.0 == Baseline::Current)
            .map(|c| c.2.clone()),
        result,
        divided,
        bound,
        verdict,
        moved_tasks: placement.moved(reference),
        seed: options.seed,
        trials: found.trials,
        threads,
        interrupted: flagged.is_set(),
        optimal,
        limited,
        wall_seconds: 0.0,
        cpu_seconds: 0.0,
    };
    Ok((placement, certificate))
}

impl Run<'_> {
    /// Searches on routes between routers.
    fn between<B: Between>(&self, paths: &RouterPaths<B>) -> Result<Found, MapError> {
        let problem = self.problem;
        let flag = self.options.flag();
        let stop = match self.options.trials {
            Some(_) => flag,
            None => Span::begin(self.options.seconds).until(PARTED, flag),
        };
        let parts = Parts::new(problem, paths, stop);
        match problem.objective {
            Objective::RouteCost(costs) => {
                let distances = MatrixDistances {
                    places: problem.allocation.nodes().len(),
                    cost: pair_costs(costs),
                };
                self.on(paths, &Apart::new(problem, distances), parts)
            }
            _ => self.on(paths, &Apart::new(problem, RouterDistances(paths)), parts),
        }
    }
}

/// Whether a placement is worth a change from the best baseline: it is better by the objective, or by
/// [`LEAST_GAIN`] of the tie-breaker while the objective is the same. A gain below [`HARDLY`] is not worth more of the
/// tie-breaker.
fn worth(cost: &Evaluation, baseline: &Evaluation, objective: &Objective<'_>) -> bool {
    let ((new, new_tie), (old, old_tie)) = (cost.score(objective), baseline.score(objective));
    let better = less(new, old);
    let costly = new >= old * (1.0 - HARDLY) && new_tie > old_tie * (1.0 + LEAST_GAIN);
    (better && !costly) || (!less(old, new) && new_tie < old_tie * (1.0 - LEAST_GAIN))
}

#[cfg(test)]
mod tests {
    use super::{Evaluation, Objective, worth};

    #[test]
    fn hardly_better_is_not_worth_twice_the_bytes() {
        let cost = |worst_link_seconds: f64, hop_bytes: f64| Evaluation {
            worst_link_seconds,
            hop_bytes,
            ..Evaluation::default()
        };
        let was = cost(1.0, 100.0);
        for (now, expected) in [
            (cost(0.9999, 200.0), false),
            (cost(0.9999, 100.0), true),
            (cost(0.99, 200.0), true),
            (cost(1.0, 90.0), true),
            (cost(1.0, 99.5), false),
            (cost(1.01, 10.0), false),
        ] {
            assert_eq!(
                worth(&now, &was, &Objective::WorstLink),
                expected,
                "{now:?}"
            );
        }
    }
}
