//! Migration of a running job: every task that changes its node costs time.
//!
//! [`within`] looks for a placement within a migration budget, step by step from the current one towards the
//! result of an unbounded search. [`weigh`] compares the time gained over the rest of the run with the time of
//! the migration, and advises to stay if it does not pay (paper 003 moved matrix and vector in 4 ms and gained
//! for the rest of its products).

mod walk;

use self::walk::{Walk, add};
use crate::evaluate::{Evaluation, evaluate};
use crate::mapper::{Certificate, Verdict};
use crate::problem::{MapError, Problem};
use hopbyte_fabric::Placement;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicBool, Ordering};

/// Minimum share of the objective that a migration must gain; a run's own noise is larger.
const LEAST_GAIN: f64 = 0.01;
/// Maximum steps times links. Larger problems get a new placement instead of a migration.
const MOST_WORK: usize = 200_000_000;

/// Costs and constraints of a migration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stakes {
    /// Tasks that may change their node; `None`: all.
    pub budget: Option<usize>,
    /// Remaining run time of the job on its current placement, in seconds; `None`: any gain is worth a
    /// migration.
    pub remaining_seconds: Option<f64>,
    /// Share of that time that the job spends in communication, 0 to 1.
    pub communication_ratio: f64,
    /// Bytes that migrate with each task.
    pub bytes_per_task: f64,
}

/// Whether to migrate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Advice {
    /// The migration pays.
    Move,
    /// The migration does not pay, or no better placement was found.
    Stay,
}

/// Cost and gain of a migration.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Migration {
    /// Whether to migrate.
    pub advice: Advice,
    /// Tasks that may change their node.
    pub budget: Option<usize>,
    /// Tasks that an unbounded search would have moved.
    pub wanted_tasks: usize,
    /// Tasks that the best placement within the budget moves.
    pub moving_tasks: usize,
    /// Bytes that migrate with these tasks.
    pub moving_bytes: f64,
    /// Time of the migration on the worst link, at live capacity.
    pub move_seconds: f64,
    /// Time of the worst link after the migration over the time before (1: no change).
    pub worst_link_ratio: f64,
    /// Time gained over the rest of the run, at the ratio of the objective; `None` without
    /// [`Stakes::remaining_seconds`].
    pub gain_seconds: Option<f64>,
}

impl Stakes {
    fn check(&self) -> Result<(), MapError> {
        let wrong = |what, found: f64, expected| {
            let found = found.to_string();
            Err(MapError::BadOption {
                what,
                found,
                expected,
            })
        };
        let size = |value: f64| value.is_finite() && value >= 0.0;
        match self {
            s if !size(s.bytes_per_task) => wrong("bytes per rank", s.bytes_per_task, "0 or more"),
            s if !(0.0..=1.0).contains(&s.communication_ratio) => wrong(
                "communication",
                s.communication_ratio,
                "a share from 0 to 1",
            ),
            s if s.remaining_seconds.is_some_and(|r| !size(r)) => {
                let found = s.remaining_seconds.unwrap_or(f64::NAN);
                wrong("remaining seconds", found, "0 or more")
            }
            _ => Ok(()),
        }
    }
}

/// Compares a search's result with staying at [`Problem::current`]. Returns the advised placement; the
/// certificate's result describes it. `stop` ends the search for a placement within the budget, as [`within`] does.
///
/// # Errors
/// No current placement, invalid stakes, nodes without a route.
pub fn weigh(
    problem: &Problem<'_>,
    found: (Placement, Certificate),
    stakes: &Stakes,
    stop: Option<&AtomicBool>,
) -> Result<(Placement, Certificate, Migration), MapError> {
    stakes.check()?;
    let (target, mut certificate) = found;
    let (Some(current), Some(now)) = (problem.current, certificate.current.clone()) else {
        return Err(MapError::BadOption {
            what: "migration",
            found: "no current placement".into(),
            expected: "the current node of every task",
        });
    };
    if problem.keep_hosts && stakes.budget.is_some() {
        return Err(MapError::BadOption {
            what: "migration budget",
            found: "a number of ranks where hosts are kept whole".into(),
            expected: "no budget, or ranks that may move one by one",
        });
    }
    let wanted_tasks = target.moved(current);
    let searched = target.clone();
    let (placement, cost) = match stakes.budget {
        Some(budget) if budget < wanted_tasks => within(problem, current, &target, budget, stop)?,
        _ => (target, certificate.result.clone()),
    };
    let (was, is) = (
        now.score(&problem.objective).0,
        cost.score(&problem.objective).0,
    );
    let ratio = if was > 0.0 { is / was } else { 1.0 };
    let better = ratio < 1.0 - LEAST_GAIN;
    let (placement, cost, ratio) = match better {
        true => (placement, cost, ratio),
        false => (current.clone(), now.clone(), 1.0),
    };
    let moving_tasks = placement.moved(current);
    let move_seconds = move_seconds(problem, current, &placement, stakes.bytes_per_task)?;
    let gain_seconds = stakes
        .remaining_seconds
        .map(|left| left * stakes.communication_ratio * (1.0 - ratio));
    let pays = gain_seconds.is_none_or(|gain| gain > move_seconds);
    let advice = match moving_tasks > 0 && pays {
        true => Advice::Move,
        false => Advice::Stay,
    };
    let migration = Migration {
        advice,
        budget: stakes.budget,
        wanted_tasks,
        moving_tasks,
        moving_bytes: moving_tasks as f64 * stakes.bytes_per_task,
        move_seconds,
        worst_link_ratio: match now.worst_link_seconds > 0.0 {
            true => cost.worst_link_seconds / now.worst_link_seconds,
            false => 1.0,
        },
        gain_seconds,
    };
    let (placement, result) = match advice {
        Advice::Move => (placement, cost),
        Advice::Stay => (current.clone(), now),
    };
    certificate.moved_tasks = placement.moved(current);
    certificate.verdict = match advice {
        Advice::Move => Verdict::Improved,
        Advice::Stay => Verdict::NoImprovement,
    };
    certificate.interrupted |= stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
    certificate.optimal &= placement.moved(&searched) == 0;
    certificate.result = result;
    Ok((placement, certificate, migration))
}

/// The best placement that moves at most `budget` tasks, with its cost, on a path from `current` towards
/// `target` or towards co-locating communicating tasks; `current` itself if no step improves it. Once `stop` is set, the best
/// so far.
///
/// # Errors
/// Nodes without a route.
pub fn within(
    problem: &Problem<'_>,
    current: &Placement,
    target: &Placement,
    budget: usize,
    stop: Option<&AtomicBool>,
) -> Result<(Placement, Evaluation), MapError> {
    let is_set = || stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
    if is_set() {
        return Ok((current.clone(), evaluate(problem, current)?));
    }
    let mut walk = Walk::new(problem, current, target)?;
    let (mut best, mut best_score) = (walk.slots.clone(), walk.score());
    // Whole nodes first: with many ranks per node, moving a single rank never pays.
    for _ in 0..problem.allocation.nodes().len() {
        if is_set() || !walk.node_step(budget)? {
            break;
        }
        (best, best_score) = (walk.slots.clone(), walk.score());
    }
    let most = MOST_WORK / problem.fabric.links().len().max(1);
    for _ in 0..budget.saturating_mul(2).min(most) {
        if is_set() || !walk.step(budget)? {
            break;
        }
        let score = walk.score();
        if score < best_score {
            (best, best_score) = (walk.slots.clone(), score);
        }
    }
    let placement = Placement::new(problem.fabric, problem.allocation, best)?;
    let (cost, now) = (evaluate(problem, &placement)?, evaluate(problem, current)?);
    let objective = &problem.objective;
    if cost.keeps_limits(&now, objective) && cost.better_than(&now, objective) {
        return Ok((placement, cost));
    }
    Ok((current.clone(), now))
}

/// Time of the worst link when all migrating tasks transfer their bytes at once.
fn move_seconds(
    problem: &Problem<'_>,
    from: &Placement,
    to: &Placement,
    bytes: f64,
) -> Result<f64, MapError> {
    let mut load = vec![0.0; problem.fabric.links().len()];
    let mut shares = Vec::new();
    for (a, b) in from.slots().iter().zip(to.slots()) {
        if a.node != b.node {
            add(problem, (a.node, b.node), bytes, &mut load, &mut shares)
                .map_err(|dead| MapError::unroutable(problem.fabric, vec![dead]))?;
        }
    }
    let seconds = problem.fabric.link_ids().map(|link| {
        let load: f64 = load[link.index()];
        if load > 0.0 {
            load / problem.live_capacity(link)
        } else {
            0.0
        }
    });
    Ok(seconds.fold(0.0, f64::max))
}
