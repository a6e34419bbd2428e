//! Initial placements of the search.

use crate::bisect::planned;
use crate::boxes::boxed;
use crate::construct::greedy;
use crate::coords::{DIMS, Point, grid_points, place_points, point, reflected};
use crate::dual::dual_bisect;
use crate::engine::Engine;
use crate::evaluate::Evaluation;
use crate::linear::Distances;
use crate::paths::Paths;
use crate::problem::{Baseline, Objective};
use crate::regrid::TaskGrid;
use crate::schedule::Stop;
use hopbyte_fabric::Placement;
use hopbyte_fabric::random::Random;
use std::cmp::Reverse;

/// Maximum places × tasks for the greedy start.
const GREEDY: usize = 1 << 21;

/// Maximum number of tasks of a grid that is bisected by its traffic as well.
const BISECTED: usize = 2_048;

/// Random stream of the bisections.
const STREAM: u64 = 1 << 33;

/// Minimum and maximum number of plans per shape of block.
const PLANS: (u64, u64) = (12, 1_200);

/// Flows counted per trial of the search, a tenth of its time; and the remaining cost of a plan, in flows.
const FLOWS: (u64, u64) = (6, 512);

/// Maximum number of placements to start from, and number of those that are results themselves.
const MOST: usize = 24;
const KEPT: usize = 4;

/// Initial placements, as the place of every task, the most promising first.
pub(crate) struct Starts {
    scored: Vec<(f64, Vec<u32>)>,
    /// Boxes of a grid. They are results, and runs from the best placement start there: of others that start from a box
    /// most end near it, at 335 ms on SPt of `bench/map` where 280 are found from other starts.
    boxes: Vec<(f64, Vec<u32>)>,
    /// Numbers of tasks on every place that grids are folded into.
    fills: Vec<Vec<u32>>,
    grid: Option<TaskGrid>,
    points: Option<Vec<Point>>,
}

impl Starts {
    /// `baselines` begin with the placement in order; `trials` is the approximate number of trials of the search.
    pub(crate) fn new<P: Paths, D: Distances>(
        engine: &Engine<'_, P, D>,
        baselines: &[(Baseline, Placement, Evaluation)],
        trials: u64,
        seed: u64,
        stop: Stop,
    ) -> Self {
        let problem = engine.problem;
        let (tasks, place_of) = (problem.exchange.tasks(), problem.places());
        let scored = |start: Vec<u32>| (engine.cost(engine.graph, &start), start);
        let mut all: Vec<(f64, Vec<u32>)> = baselines
            .iter()
            // From afar a search of a large machine does not reach it, where a structured start loads few links.
            .filter(|b| b.0 != Baseline::Random || engine.wide)
            .map(|(_, placement, _)| {
                let slots = placement.slots().iter();
                scored(slots.map(|s| place_of[s.node.index()]).collect())
            })
            .collect();
        // The first baseline is in order and fills the fewest nodes.
        let mut fills = vec![counted(&all[0].1, engine.rooms.len())];
        let spread = spread(&engine.rooms, tasks)
            .take_while(|_| !stop.is_set())
            .map(scored);
        if let Some(best) = spread.min_by(|a, b| a.0.total_cmp(&b.0)) {
            if all.iter().all(|s| best.0 < s.0) {
                fills.push(counted(&best.1, engine.rooms.len()));
            }
            all.push(best);
        }
        let mut starts = Self {
            scored: all,
            boxes: Vec::new(),
            fills,
            grid: TaskGrid::of(problem.exchange, engine.graph),
            points: place_points(problem),
        };
        let corner = match (&starts.grid, &starts.points) {
            (Some(grid), Some(points)) => corner(points, &engine.rooms, &grid.dims),
            _ => None,
        };
        let is_new = |fill: &Vec<u32>| !starts.fills.contains(fill);
        let corner = corner.filter(is_new);
        starts.fills.extend(corner);
        starts.fold(engine, trials, (seed, 0), stop);
        if tasks <= BISECTED || starts.grid.is_none() || starts.points.is_none() {
            for fill in starts.fills.iter().take_while(|_| !stop.is_set()) {
                let distance = |a, b| engine.distances.get(a, b);
                let mut rng = Random::stream(seed, STREAM);
                let map = dual_bisect(engine.graph, fill, &distance, (&mut rng, stop));
                starts.scored.extend(map.map(scored));
            }
        }
        if tasks.saturating_mul(engine.rooms.len()) <= GREEDY && !stop.is_set() {
            let map = greedy(engine.graph, &engine.rooms, engine.distances);
            starts.scored.push(scored(map));
        }
        starts.sort();
        starts
    }

    /// Adds the folds of a grid of tasks for a search of `trials`, and returns the best placements if there are new
    /// ones; `wave` is the number of such calls so far.
    pub(crate) fn more<P: Paths, D: Distances>(
        &mut self,
        engine: &Engine<'_, P, D>,
        trials: u64,
        (seed, wave): (u64, u64),
        stop: Stop,
    ) -> Vec<Vec<u32>> {
        let before = self.scored.len();
        self.fold(engine, trials, (seed, wave), stop);
        if self.scored.len() == before {
            return Vec::new();
        }
        self.sort();
        self.best().cloned().collect()
    }

    fn fold<P: Paths, D: Distances>(
        &mut self,
        engine: &Engine<'_, P, D>,
        trials: u64,
        (seed, wave): (u64, u64),
        stop: Stop,
    ) {
        let Some(grid) = &self.grid else { return };
        if let Objective::RouteCost(_) = engine.problem.objective {
            return;
        }
        for fill in self.fills.iter().take_while(|_| !stop.is_set()) {
            // Without coordinates only the order of the allocation is known.
            let line = || (0..fill.len()).map(|p| point(&[p as f32])).collect();
            let points = self.points.clone().unwrap_or_else(line);
            if wave == 0 {
                let boxes = boxed(engine, grid, fill, stop);
                // Plans of large machines take more time than the search that follows.
                if engine.wide && !boxes.is_empty() {
                    self.scored.extend(boxes);
                    continue;
                }
                self.boxes.extend(boxes);
            }
            let found = folded(engine, grid, (&points, fill), trials, (seed, wave), stop);
            let scored = |start: Vec<u32>| (engine.cost(engine.graph, &start), start);
            self.scored.extend(found.into_iter().map(scored));
        }
    }

    fn sort(&mut self) {
        self.scored.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.scored.dedup_by(|a, b| a.0 == b.0 && a.1 == b.1);
        self.scored.truncate(MOST);
        self.boxes.sort_by(|a, b| a.0.total_cmp(&b.0));
        self.boxes.truncate(KEPT);
    }

    /// The most promising placements.
    pub(crate) fn best(&self) -> impl Iterator<Item = &Vec<u32>> {
        let scored = self.scored.iter().take(KEPT);
        scored.chain(&self.boxes).map(|s| &s.1)
    }

    /// The placement of a rank, counted round.
    pub(crate) fn get(&self, rank: usize) -> Vec<u32> {
        let count = self.scored.len().max(1);
        self.scored
            .get(rank % count)
            .map_or_else(Vec::new, |s| s.1.clone())
    }
}

/// For each shape of block that fills a place, the best plan's fold of a grid of tasks into the places; single
/// tasks if no shape does.
fn folded<P: Paths, D: Distances>(
    engine: &Engine<'_, P, D>,
    grid: &TaskGrid,
    (points, fill): (&[Point], &[u32]),
    trials: u64,
    (seed, wave): (u64, u64),
    stop: Stop,
) -> Vec<Vec<u32>> {
    let tasks = engine.problem.exchange.tasks();
    let dims = &grid.dims[..];
    let all = grid_points(dims, tasks);
    let cells: Vec<Point> = grid.cell.iter().map(|&c| all[c as usize]).collect();
    let rooms: Vec<u32> = fill.iter().copied().filter(|&r| r > 0).collect();
    let same = rooms.iter().all(|&r| r == rooms[0]);
    let shapes = blocks(dims, if same { rooms[0] } else { 1 });
    let mut found = Vec::new();
    for (number, shape) in shapes.iter().enumerate() {
        if stop.is_set() {
            break;
        }
        let volume: u32 = shape.iter().product();
        let counts: Vec<u32> = dims.iter().zip(shape).map(|(d, b)| d / b).collect();
        let block_of = |cell: &Point| {
            let each = counts.iter().zip(shape).zip(cell);
            each.fold(0, |at, ((&n, &b), &c)| at * n + c as u32 / b)
        };
        let unit_of: Vec<u32> = cells.iter().map(block_of).collect();
        let units = tasks / volume as usize;
        let single = volume == 1;
        let quotient = (!single).then(|| engine.graph.quotient(&unit_of, units));
        let graph = quotient.as_ref().unwrap_or(engine.graph);
        let centres: Vec<Point> = grid_points(&counts, units)
            .into_iter()
            .map(|p| std::array::from_fn(|d| p[d] * shape.get(d).map_or(1.0, |&b| b as f32)))
            .collect();
        let room: Vec<u32> = fill.iter().map(|r| r / volume).collect();
        let flows: u64 = (0..units as u32).map(|u| graph.edges(u).len() as u64).sum();
        let tries = trials * FLOWS.0 / (flows + FLOWS.1) / shapes.len() as u64;
        // The straight plans and the first others were made before the first wave.
        if wave > 0 && tries < PLANS.0 {
            continue;
        }
        // A plan assigns the halves of one side to those of the other. Over a Gray code they are neighbours on
        // rings as well.
        let gray = reflected(&centres).zip(reflected(points));
        let forms = 1 + u64::from(gray.is_some());
        let tries = (tries / forms).clamp(PLANS.0, PLANS.1) as usize;
        let stream = STREAM + 1 + (wave << 16) + number as u64;
        let mut rng = Random::stream(seed, stream);
        let cost = |map: &[u32]| engine.cost(graph, map);
        let plain = Some((&centres[..], points));
        let gray = gray.as_ref().map(|(c, p)| (&c[..], &p[..]));
        for (centres, points) in plain.into_iter().chain(gray) {
            let sides = (centres, points, &room[..]);
            if let Some(map) = planned(sides, tries, cost, (&mut rng, stop)) {
                found.push(unit_of.iter().map(|&unit| map[unit as usize]).collect());
            }
        }
    }
    found
}

/// Blocks of `room` cells that tile a grid with minimum surface, in every orientation; single cells if none
/// tiles it.
fn blocks(dims: &[u32], room: u32) -> Vec<Vec<u32>> {
    let mut shapes: Vec<Vec<u32>> = vec![Vec::new()];
    for (d, &size) in dims.iter().enumerate() {
        let last = d + 1 == dims.len();
        let longer = |shape: &Vec<u32>| -> Vec<Vec<u32>> {
            let left = room / shape.iter().product::<u32>();
            (1..=left)
                .filter(|&b| {
                    size.is_multiple_of(b) && left.is_multiple_of(b) && (!last || b == left)
                })
                .map(|b| shape.iter().copied().chain([b]).collect())
                .collect()
        };
        shapes = shapes.iter().flat_map(longer).collect();
    }
    // Surface by volume; a dimension that spans the grid adds none.
    let surface = |shape: &[u32]| -> f64 {
        let sides = shape.iter().zip(dims).filter(|(b, d)| b < d);
        sides.map(|(&b, _)| 1.0 / f64::from(b)).sum()
    };
    let least = shapes.iter().map(|s| surface(s)).fold(f64::MAX, f64::min);
    shapes.retain(|s| surface(s) <= least * (1.0 + 1e-9));
    if shapes.is_empty() {
        shapes.push(vec![1; dims.len()]);
    }
    shapes
}

/// Tasks in order on every second slot, every fourth and so on. With spare slots fewer tasks then share a link;
/// swaps do not find this if intermediate placements are worse.
fn spread(rooms: &[u32], tasks: usize) -> impl Iterator<Item = Vec<u32>> {
    let slots = || {
        let places = rooms.iter().enumerate();
        places.flat_map(|(place, &room)| std::iter::repeat_n(place as u32, room as usize))
    };
    let widest = rooms.iter().map(|&room| room as usize).sum::<usize>() / tasks;
    let strides = (1..usize::BITS).map(|b| 1 << b);
    strides
        .take_while(move |s| *s <= widest)
        .map(move |s| slots().step_by(s).take(tasks).collect())
}

/// Tasks on a corner of the places that is as wide as the grid of tasks, the longest side along the longest: with spare
/// nodes neighbours are then one hop apart. `None` if places take several tasks, or have no such corner.
fn corner(points: &[Point], rooms: &[u32], dims: &[u32]) -> Option<Vec<u32>> {
    if rooms.iter().any(|&room| room != 1) {
        return None;
    }
    let mut sizes = dims.to_vec();
    sizes.sort_by_key(|&size| Reverse(size));
    let mut sides: Vec<(usize, Vec<f32>)> = (0..DIMS)
        .map(|d| {
            let mut values: Vec<f32> = points.iter().map(|p| p[d]).collect();
            values.sort_by(f32::total_cmp);
            values.dedup();
            (d, values)
        })
        .collect();
    sides.sort_by_key(|(_, values)| Reverse(values.len()));
    let mut last = [0.0; DIMS];
    for (number, (d, values)) in sides.iter().enumerate() {
        let size = sizes.get(number).map_or(1, |&size| size as usize);
        last[*d] = *values.get(size - 1)?;
    }
    let is_inside = |p: &Point| p.iter().zip(&last).all(|(c, last)| c <= last);
    let fill: Vec<u32> = points.iter().map(|p| u32::from(is_inside(p))).collect();
    let is_whole = fill.iter().sum::<u32>() == sizes.iter().product::<u32>();
    is_whole.then_some(fill)
}

/// Tasks on every place.
fn counted(start: &[u32], places: usize) -> Vec<u32> {
    let mut fill = vec![0; places];
    for &place in start {
        fill[place as usize] += 1;
    }
    fill
}

#[cfg(test)]
mod tests {
    use super::{blocks, counted, spread};

    #[test]
    fn spare_slots_are_left_between_tasks() {
        let all: Vec<Vec<u32>> = spread(&[2, 2, 2, 2, 1], 2).collect();
        assert_eq!(all, [[0, 1], [0, 2]]);
        assert_eq!(counted(&all[1], 5), [1, 0, 1, 0, 0]);
        assert_eq!(spread(&[2, 1], 2).count(), 0);
    }

    #[test]
    fn blocks_tile_the_grid_and_are_round() {
        assert_eq!(blocks(&[32, 32, 16], 16), [[2, 2, 4], [2, 4, 2], [4, 2, 2]]);
        assert_eq!(blocks(&[8, 8, 8], 4), [[1, 2, 2], [2, 1, 2], [2, 2, 1]]);
        // 7 divides nothing here; a block that spans the grid has no sides there.
        assert_eq!(blocks(&[8, 8], 7), [[1, 1]]);
        assert_eq!(blocks(&[64, 2], 8), [[4, 2]]);
    }
}
