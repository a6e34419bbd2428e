//! Placements to start from.

use crate::bisect::bisect;
use crate::construct::greedy;
use crate::coords::{grid_points, place_points, task_grid};
use crate::dual::dual_bisect;
use crate::engine::Engine;
use crate::evaluate::Evaluation;
use crate::linear::Distances;
use crate::paths::Paths;
use crate::problem::{Baseline, Objective};
use crate::rng::Rng;
use hopbyte_fabric::Placement;

/// Places × tasks up to which the greedy start is worth its time.
const GREEDY: usize = 1 << 21;

/// Ways of matching the axes of tasks and machine.
const TURNS: [[usize; 3]; 6] = [
    [0, 1, 2],
    [0, 2, 1],
    [1, 0, 2],
    [1, 2, 0],
    [2, 0, 1],
    [2, 1, 0],
];

/// Stream of random numbers of the bisection.
const STREAM: u64 = 1 << 33;

/// Starts by place of every task, the most promising first.
pub(crate) fn starts<P: Paths, D: Distances>(
    engine: &Engine<'_, P, D>,
    baselines: &[(Baseline, Placement, Evaluation)],
    seed: u64,
) -> Vec<Vec<u32>> {
    let problem = engine.problem;
    let (tasks, place_of) = (problem.exchange.tasks(), problem.places());
    let mut all: Vec<Vec<u32>> = baselines
        .iter()
        .filter(|b| b.0 != Baseline::Random)
        .map(|(_, placement, _)| {
            let slots = placement.slots().iter();
            slots.map(|s| place_of[s.node.index()]).collect()
        })
        .collect();
    let fill = fill(&engine.rooms, tasks);
    let points = place_points(problem);
    let grid = task_grid(problem.exchange);
    let hops = !matches!(problem.objective, Objective::RouteCost(_));
    if let (Some(dims), Some(points), true) = (&grid, &points, hops) {
        let cells = grid_points(dims, tasks);
        for turn in TURNS {
            let turned: Vec<_> = points.iter().map(|p| turn.map(|d| p[d])).collect();
            all.push(bisect(&cells, &turned, &fill));
        }
    }
    if grid.is_none() || points.is_none() {
        let distance = |a, b| engine.distances.get(a, b);
        let mut rng = Rng::new(seed, STREAM);
        all.push(dual_bisect(engine.graph, &fill, &distance, &mut rng));
    }
    if tasks.saturating_mul(fill.len()) <= GREEDY {
        all.push(greedy(engine.graph, &engine.rooms, engine.distances));
    }
    let mut scored: Vec<(f64, Vec<u32>)> =
        all.into_iter().map(|s| (engine.linear(&s), s)).collect();
    scored.sort_by(|a, b| a.0.total_cmp(&b.0));
    scored.into_iter().map(|s| s.1).collect()
}

/// Tasks on every place when places are filled in order, as many nodes used as there are tasks for.
fn fill(rooms: &[u32], tasks: usize) -> Vec<u32> {
    let mut left = tasks as u32;
    let mut take = |&room: &u32| {
        let n = room.min(left);
        left -= n;
        n
    };
    rooms.iter().map(&mut take).collect()
}
