//! Search on machines with links inside hosts: units of hosts first, then single places.
//!
//! In a coarse problem units are places with several slots, and inner links carry nothing. A unit's tasks then take its
//! places in order, so that the partners of a regular pattern are on the same rail, and the search of single places
//! starts from there.

mod apart;
pub(crate) mod bound;
mod divided;
mod packing;
mod rates;
pub(crate) mod whole;

use crate::engine::{Engine, Recipe};
use crate::evaluate::{Evaluation, evaluate, less, pair_costs};
use crate::keep::{self, Hosts};
use crate::linear::{Apart, Distances, MatrixDistances};
use crate::mapper::Options;
use crate::paths::hosts::{HostPaths, UnitDistances, UnitPaths};
use crate::problem::{APART, Baseline, MapError, Objective, Problem};
use crate::rounds::{Found, Run};
use crate::schedule::{Effort, Length, Span, Stop};
use crate::starts::Starts;
use crate::threads::each;
use hopbyte_fabric::random::Random;
use hopbyte_fabric::{Allocation, NodeId, Placement};
use whole::MOST_TASKS;

/// Random stream of the runs over units.
const STREAM: u64 = 1 << 34;

/// Runs over units, and the start and the recipe of each.
const RUNS: [(usize, Recipe); 4] = [
    (0, Recipe::Whole),
    (1, Recipe::Whole),
    (0, Recipe::Linear),
    (2, Recipe::Single),
];

/// Trials of a run over units by task, the fewest and the most.
const TRIALS: (u64, u64, u64) = (100, 1 << 13, 1 << 16);

/// Trials of the orders of whole hosts by host, the fewest and the most; and the longest time of these, as a share of a
/// search with a time budget.
const ORDERS: (u64, u64, u64) = (64, 1 << 10, 1 << 14);
const SHARE_OF_ORDERS: f64 = 0.2;

/// Sizes of portions of units that are tried beside those of the job's own groups.
const PORTIONS: [usize; 6] = [2, 4, 8, 16, 32, 64];

/// Time for one of these, by that for groups of the job.
const LESS: f64 = 0.25;

/// Longest time of the runs over units, as a share of a search with a time budget.
const SHARE: f64 = 0.3;

/// Searches on hosts with links inside.
pub(crate) fn search(run: &Run<'_>) -> Result<Found, MapError> {
    let problem = run.problem;
    if run.options.trials == Some(0) {
        return Ok(Found::default());
    }
    let flag = Stop {
        flag: run.options.stop,
        until: None,
    };
    let Some(paths) = HostPaths::new(problem, flag)? else {
        return Ok(Found::default());
    };
    if let Objective::RouteCost(costs) = problem.objective {
        let distances = MatrixDistances {
            places: problem.allocation.nodes().len(),
            cost: pair_costs(costs),
        };
        return run.on(&paths, &Apart::new(problem, distances), None);
    }
    let span = Span::begin(run.options.seconds);
    // On large machines a stage's first evaluations alone take long.
    let is_late = || run.options.trials.is_none() && span.passed() >= 1.0;
    let limited = problem.objective.has_limits();
    let distances = paths.distances(if limited { APART } else { 0.0 });
    let mut candidates = run.candidates.to_vec();
    let kept = whole(run, &paths)?;
    for (placement, cost) in kept.iter().cloned() {
        candidates.push((Baseline::Current, placement, cost));
    }
    let by_unit = if is_late() {
        Vec::new()
    } else {
        by_unit(run, &paths, &distances)?
    };
    for place_of in by_unit {
        let nodes = place_of.iter().map(|&p| problem.node_at(p));
        let placement = Placement::on_nodes(problem.fabric, problem.allocation, nodes)?;
        let cost = evaluate(problem, &placement)?;
        // One more placement to begin from, like the current one.
        candidates.push((Baseline::Current, placement, cost));
    }
    let limits = &candidates[run.reference].2;
    let objective = &problem.objective;
    let (begin, own) = candidates.split_at(run.candidates.len());
    let mut best: Option<(Placement, Evaluation)> = None;
    for (_, placement, cost) in own.iter().filter(|c| c.2.keeps_limits(limits, objective)) {
        let so_far = best.as_ref().map_or(&begin[run.best].2, |b| &b.1);
        if cost.better_than(so_far, objective) {
            best = Some((placement.clone(), cost.clone()));
        }
    }
    let options = Options {
        seconds: run.options.seconds * (1.0 - span.passed()),
        ..*run.options
    };
    let single = Run {
        candidates: &candidates,
        options: &options,
        ..*run
    };
    let mut found = if is_late() {
        Found::default()
    } else {
        single.on(&paths, &distances, None)?
    };
    found.best = match (found.best, best) {
        (Some(a), Some(b)) if b.1.better_than(&a.1, objective) => Some(b),
        (a, b) => a.or(b),
    };
    found.kept = kept;
    Ok(found)
}

/// The best order of whole hosts, and of portions of units for groups of ranks, that are better than every baseline.
/// Where many hosts take part, swaps of single places hardly find one.
fn whole(run: &Run<'_>, paths: &HostPaths<'_>) -> Result<Vec<(Placement, Evaluation)>, MapError> {
    let (problem, runs) = (run.problem, run.options.runs.max(1) as u64);
    let mut all = vec![(Hosts::of(problem), true)];
    if problem.exchange.tasks() <= MOST_TASKS {
        let most = paths.units().iter().map(Vec::len).max().unwrap_or(0);
        let own = whole::run_sizes(run.graph, most);
        let other = PORTIONS
            .into_iter()
            .filter(|s| *s <= most && !own.contains(s));
        let sizes: Vec<(usize, bool)> = own.iter().map(|&s| (s, true)).collect();
        for (size, is_own) in sizes.into_iter().chain(other.map(|s| (s, false))) {
            let hosts = &all[0].0;
            let is_new = (0..hosts.blocks()).any(|b| hosts.size(b) != size);
            let portions = Hosts::portions(problem, size).filter(|_| is_new);
            all.extend(portions.map(|p| (p, is_own)));
        }
    }
    let weight = |is_own| if is_own { 1.0 } else { LESS };
    let weights: f64 = all.iter().map(|a| weight(a.1)).sum();
    let mut found: Vec<(Placement, Evaluation)> = Vec::new();
    for (number, (hosts, is_own)) in all.iter().enumerate() {
        let at_bound = |c: &Evaluation| !less(run.bound, c.score(&problem.objective).0);
        // Orders of hosts lower the bytes between hosts even then.
        let best = &run.candidates[run.best].2;
        if number > 0 && (at_bound(best) || found.iter().any(|f| at_bound(&f.1))) {
            break;
        }
        let planned = (ORDERS.0 * hosts.blocks() as u64).clamp(ORDERS.1, ORDERS.2);
        // No fewer than a search that keeps hosts has.
        let trials = |given: u64| match is_own {
            true => given.max(planned * runs),
            false => given.min(planned),
        };
        let options = Options {
            seconds: run.options.seconds * SHARE_OF_ORDERS * weight(*is_own) / weights,
            trials: run.options.trials.map(trials),
            ..*run.options
        };
        let run = Run {
            options: &options,
            progress: &|_| {},
            ..*run
        };
        found.extend(keep::over(&run, hosts, paths)?.best);
    }
    Ok(found)
}

/// The coarse problem: for each unit its first place with the slots of all.
struct Coarse<'p> {
    units: &'p [Vec<u32>],
    /// Unit of every place, and its slots.
    unit_of: Vec<u32>,
    rooms: Vec<u32>,
    allocation: Allocation,
    /// Node that stands for each unit.
    nodes: Vec<NodeId>,
}

impl<'p> Coarse<'p> {
    fn of(problem: &Problem<'_>, units: &'p [Vec<u32>]) -> Result<Self, MapError> {
        let rooms: Vec<u32> = problem.allocation.nodes().iter().map(|n| n.1).collect();
        let nodes: Vec<NodeId> = units.iter().map(|u| problem.node_at(u[0])).collect();
        let room = |unit: &Vec<u32>| unit.iter().map(|&p| rooms[p as usize]).sum::<u32>();
        let slots = nodes.iter().copied().zip(units.iter().map(room));
        let allocation = Allocation::new(problem.fabric, slots.collect())?;
        let mut unit_of = vec![0u32; rooms.len()];
        for (number, unit) in units.iter().enumerate() {
            unit.iter()
                .for_each(|&p| unit_of[p as usize] = number as u32);
        }
        Ok(Self {
            units,
            unit_of,
            rooms,
            allocation,
            nodes,
        })
    }

    /// A placement of the problem in units.
    fn lifted(
        &self,
        problem: &Problem<'_>,
        place_of: &[u32],
        placement: &Placement,
    ) -> Result<Placement, MapError> {
        let unit = |node: NodeId| self.unit_of[place_of[node.index()] as usize];
        let slots = placement.slots().iter();
        let nodes = slots.map(|s| self.nodes[unit(s.node) as usize]);
        Ok(Placement::on_nodes(
            problem.fabric,
            &self.allocation,
            nodes,
        )?)
    }

    /// The place of every task: a unit's tasks take its places in order.
    fn expanded(&self, unit_of_task: &[u32]) -> Vec<u32> {
        let slots = |unit: &Vec<u32>| -> Vec<u32> {
            let each = unit.iter();
            each.flat_map(|&p| std::iter::repeat_n(p, self.rooms[p as usize] as usize))
                .collect()
        };
        let mut free: Vec<_> = self.units.iter().map(|u| slots(u).into_iter()).collect();
        let first = |unit: u32| self.units[unit as usize][0];
        let next = |&u: &u32| free[u as usize].next().unwrap_or(first(u));
        unit_of_task.iter().map(next).collect()
    }
}

/// Placements by place from a search over units; none if every unit has one place, or there is one unit.
fn by_unit<D: Distances>(
    run: &Run<'_>,
    paths: &HostPaths<'_>,
    distances: &D,
) -> Result<Vec<Vec<u32>>, MapError> {
    let (problem, options) = (run.problem, run.options);
    let units = paths.units();
    if units.len() < 2 || units.len() == problem.allocation.nodes().len() {
        return Ok(Vec::new());
    }
    let coarse = Coarse::of(problem, &units)?;
    let place_of = problem.places();
    let lifted: Vec<(Baseline, Placement, Evaluation)> = run
        .candidates
        .iter()
        .map(|(which, placement, cost)| {
            let placement = coarse.lifted(problem, &place_of, placement)?;
            Ok((*which, placement, cost.clone()))
        })
        .collect::<Result<_, MapError>>()?;
    let unit_paths = UnitPaths {
        paths,
        units: &units,
    };
    let unit_distances = UnitDistances {
        distances,
        first: units.iter().map(|u| u[0]).collect(),
    };
    let whole = Problem {
        allocation: &coarse.allocation,
        current: None,
        ..*problem
    };
    let unit_at = whole.places();
    let reference = lifted[run.reference].1.slots().iter();
    let reference: Vec<u32> = reference.map(|s| unit_at[s.node.index()]).collect();
    let engine = Engine::new(
        &whole,
        run.graph,
        (&unit_paths, &unit_distances),
        None,
        (&reference, options.seed),
    );
    let flag = Stop {
        flag: options.stop,
        until: None,
    };
    let stop = match options.trials {
        Some(_) => flag,
        None => Span::begin(options.seconds * SHARE).stop(flag),
    };
    let tasks = problem.exchange.tasks() as u64;
    let planned = (TRIALS.0 * tasks).clamp(TRIALS.1, TRIALS.2);
    let starts = Starts::new(&engine, &lifted, planned, options.seed, stop);
    let one = |number: usize| {
        let mut rng = Random::stream(options.seed, STREAM + number as u64);
        let (rank, recipe) = RUNS[number];
        let effort = Effort::new(Length::Trials(planned), u64::MAX, stop);
        engine
            .run((recipe, starts.get(rank)), effort, &mut rng, &|| {})
            .into_best()
    };
    let ends: Vec<Vec<u32>> = if engine.wide || run.threads == 1 {
        (0..RUNS.len()).map(one).collect()
    } else {
        each(RUNS.len(), &one)
    };
    let all = ends.iter().chain(starts.best());
    Ok(all.map(|units| coarse.expanded(units)).collect())
}
