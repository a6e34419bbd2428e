//! Boxes of a grid of tasks on a grid of places of any dimension, by construction.
//!
//! The number of tasks along each dimension is split into factors, one for every dimension of the places; the slots of a
//! node and the nodes of a router are dimensions too. A coordinate of a task counts in reflected code, with its cheapest
//! digit as the fastest, so a step changes one digit by one. Digits of several dimensions of tasks that share one of the
//! places are stacked; the slower reverses the faster where that is shorter. Bytes × distance of a split are then a sum
//! over digits, and the cheapest splits are found without a look at any message.

use crate::coords::DIMS;
use crate::engine::Engine;
use crate::graph::Graph;
use crate::linear::Distances;
use crate::paths::Paths;
use crate::problem::{Objective, Problem};
use crate::regrid::TaskGrid;
use crate::schedule::Stop;
use hopbyte_fabric::{Direction, RouterId};
use std::collections::BTreeMap;

/// Dimensions of places: slots, nodes of a router, and the machine's.
const SIDES: usize = DIMS + 2;

/// Splits kept for every filling of the places, and fillings for every set of dimensions of the tasks.
const KEPT: (usize, usize) = (4, 512);

/// Searches among splits if link times count; after each, dimensions cost more by the share of the worst time that their
/// links have.
const ROUNDS: usize = 6;

/// Number of edges above which only the boxes of a node of the cheapest splits are evaluated, and their number.
const MANY: (usize, usize) = (1 << 20, 2);

/// One dimension of the places.
struct Side {
    size: u32,
    /// Hops between positions, by how far they are apart.
    hops: Vec<f64>,
    /// Hops of leaving the node.
    leave: f64,
    /// Bytes per second of all its links.
    rate: f64,
}

/// Places that form a complete grid.
struct PlaceGrid {
    /// Slots of a node first.
    sides: Vec<Side>,
    /// Places row by row, without the slots.
    places: Vec<u32>,
    /// Bytes per second into the network of all nodes.
    inject: f64,
}

impl PlaceGrid {
    /// The places with tasks, `None` unless all have the same number and their coordinates are complete.
    fn of(problem: &Problem<'_>, fill: &[u32], distances: &impl Distances) -> Option<Self> {
        let fabric = problem.fabric;
        let shape = fabric.shape().filter(|s| s.dims.len() <= DIMS)?;
        let used: Vec<u32> = (0..fill.len() as u32)
            .filter(|&p| fill[p as usize] > 0)
            .collect();
        let room = fill[*used.first()? as usize];
        if used.len() < 2 || used.iter().any(|&p| fill[p as usize] != room) {
            return None;
        }
        let node = |place: u32| fabric.node(problem.allocation.nodes()[place as usize].0);
        let mut beside: BTreeMap<RouterId, u32> = BTreeMap::new();
        let mut points = Vec::with_capacity(used.len());
        for &place in &used {
            let router = node(place).router;
            let number = beside.entry(router).or_default();
            let coord = fabric.coord(router)?.iter().copied();
            points.push(coord.chain([*number]).collect::<Vec<u32>>());
            *number += 1;
        }
        let values: Vec<Vec<u32>> = (0..=shape.dims.len())
            .map(|d| {
                let mut values: Vec<u32> = points.iter().map(|p| p[d]).collect();
                values.sort_unstable();
                values.dedup();
                values
            })
            .collect();
        if values.iter().map(Vec::len).product::<usize>() != used.len() {
            return None;
        }
        let mut places = vec![u32::MAX; used.len()];
        for (point, &place) in points.iter().zip(&used) {
            let each = point.iter().zip(&values);
            let at = each.fold(0, |at, (c, v)| {
                at * v.len() + v.partition_point(|known| known < c)
            });
            places[at] = place;
        }
        let mut sides = vec![Side {
            size: room,
            hops: vec![0.0; room as usize],
            leave: 0.0,
            rate: 0.0,
        }];
        let mut stride = used.len();
        for (d, values) in values.iter().enumerate() {
            stride /= values.len();
            let apart = |n: usize| match n {
                0 => 0.0,
                n => {
                    let (a, b) = (places[0], places[n * stride]);
                    0.5 * (distances.get(a, b) + distances.get(b, a))
                }
            };
            let first = apart(usize::from(values.len() > 1));
            let within = d == shape.dims.len();
            let near = if within { 0.0 } else { first.min(1.0) };
            let leave = first - near;
            let hops = |n: usize| if n == 0 { 0.0 } else { apart(n) - leave };
            sides.push(Side {
                size: values.len() as u32,
                hops: (0..values.len()).map(hops).collect(),
                leave,
                rate: if within {
                    0.0
                } else {
                    rate(problem, d, beside.keys())
                },
            });
        }
        let inject = used.iter().map(|&p| problem.live_capacity(node(p).inject));
        Some(Self {
            sides,
            places,
            inject: inject.sum(),
        })
    }
}

/// Bytes per second of the links along a dimension from these routers, both ways.
fn rate<'a>(problem: &Problem<'_>, dim: usize, routers: impl Iterator<Item = &'a RouterId>) -> f64 {
    let fabric = problem.fabric;
    let along = |router: &RouterId| {
        let ways = [true, false].map(|positive| Direction {
            dim: dim as u8,
            positive,
        });
        let links = ways
            .into_iter()
            .filter_map(|w| fabric.link_towards(*router, w));
        links.map(|l| problem.live_capacity(l)).sum::<f64>()
    };
    routers.map(along).sum()
}

/// Bytes along one dimension of the tasks: times steps within the grid, and over its ends.
#[derive(Clone, Copy, Default)]
struct Steps {
    inner: f64,
    closing: f64,
}

fn steps(graph: &Graph, grid: &TaskGrid) -> Vec<Steps> {
    let coords = |task: u32| {
        let mut rest = grid.cell[task as usize];
        let mut coord = [0u32; DIMS];
        for (c, &n) in coord.iter_mut().zip(&grid.dims).rev() {
            *c = rest % n;
            rest /= n;
        }
        coord
    };
    let mut all = vec![Steps::default(); grid.dims.len()];
    for task in 0..graph.units() as u32 {
        let here = coords(task);
        for edge in graph.edges(task) {
            let there = coords(edge.to);
            for (d, steps) in all.iter_mut().enumerate() {
                let apart = here[d].abs_diff(there[d]);
                if 2 * apart > grid.dims[d] {
                    steps.closing += f64::from(edge.out);
                } else {
                    steps.inner += f64::from(edge.out) * f64::from(apart);
                }
            }
        }
    }
    all
}

/// A factor of a dimension of the tasks on one of the places.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Digit {
    task: usize,
    side: usize,
    factor: u32,
    /// Positions that one step passes.
    stride: u32,
    /// Whether every second value reverses the digits below.
    reversed: bool,
    /// Cost of a byte over one step, and from the last value to the first.
    step: f64,
    close: f64,
}

/// Price of a hop by side, and of leaving a node; without one the hops of that.
struct Prices {
    hop: Vec<f64>,
    leave: Option<f64>,
}

/// Mean hops of a step and of the way from the last value to the first, and whether values reverse.
fn hops(side: &Side, factor: u32, stride: u32) -> (f64, f64, bool) {
    let (s, whole) = (stride as usize, (factor * stride) as usize);
    let last = whole - s;
    let straight = (side.hops[s], side.hops[last]);
    let mean =
        |of: &dyn Fn(usize) -> usize| (0..s).map(|p| side.hops[of(p)]).sum::<f64>() / s as f64;
    let close = if factor.is_multiple_of(2) {
        mean(&|p| whole - 1 - 2 * p)
    } else {
        straight.1
    };
    let reversed = (mean(&|p| 2 * p + 1), close);
    match reversed.0 < straight.0 || (reversed.0 == straight.0 && reversed.1 < straight.1) {
        true => (reversed.0, reversed.1, true),
        false => (straight.0, straight.1, false),
    }
}

type Strides = [u32; SIDES];

/// Digits of some dimensions of the tasks.
#[derive(Clone)]
struct Split {
    cost: f64,
    digits: Vec<Digit>,
}

/// Search among splits for given prices.
struct Splits<'a> {
    grid: &'a PlaceGrid,
    dims: &'a [u32],
    steps: &'a [Steps],
    prices: &'a Prices,
    stop: Stop,
}

impl Splits<'_> {
    fn digit(&self, task: usize, side: usize, factor: u32, stride: u32) -> Digit {
        let from = &self.grid.sides[side];
        let (step, close, reversed) = hops(from, factor, stride);
        let leave = match self.prices.leave {
            Some(price) if side > 0 => price,
            Some(_) => 0.0,
            None => from.leave,
        };
        let cost = |hops: f64| self.prices.hop[side] * hops + leave;
        Digit {
            task,
            side,
            factor,
            stride,
            reversed,
            step: cost(step),
            close: cost(close),
        }
    }

    /// Ways to split a dimension of the tasks over what is left of the sides.
    fn ways(&self, task: usize, strides: &Strides) -> Vec<Vec<Digit>> {
        let mut found = Vec::new();
        let mut digits = Vec::new();
        self.extend(task, (0, self.dims[task]), strides, &mut digits, &mut found);
        found
    }

    fn extend(
        &self,
        task: usize,
        (side, left): (usize, u32),
        strides: &Strides,
        digits: &mut Vec<Digit>,
        found: &mut Vec<Vec<Digit>>,
    ) {
        if left == 1 {
            let mut digits = digits.clone();
            // The cheapest digit makes most steps; slots of a node are one box.
            digits.sort_by(|a, b| {
                (a.side > 0, a.step)
                    .partial_cmp(&(b.side > 0, b.step))
                    .unwrap_or(std::cmp::Ordering::Equal)
            });
            found.push(digits);
            return;
        }
        let Some(from) = self.grid.sides.get(side) else {
            return;
        };
        let stride = strides[side];
        let open = from.size / stride;
        for factor in
            (1..=open.min(left)).filter(|f| left.is_multiple_of(*f) && open.is_multiple_of(*f))
        {
            let digit = (factor > 1).then(|| self.digit(task, side, factor, stride));
            digits.extend(digit);
            self.extend(task, (side + 1, left / factor), strides, digits, found);
            if digit.is_some() {
                digits.pop();
            }
        }
    }

    /// Cost of the digits of one dimension of the tasks, the fastest first.
    fn cost(&self, task: usize, digits: &[Digit]) -> f64 {
        let steps = self.steps[task];
        let (mut slower, mut sum) = (self.dims[task], 0.0);
        for digit in digits {
            slower /= digit.factor;
            sum += f64::from((digit.factor - 1) * slower) * digit.step;
        }
        let mut close = 0.0;
        for digit in digits.iter().rev() {
            close += digit.close;
            if digit.factor.is_multiple_of(2) {
                break;
            }
        }
        sum * steps.inner / f64::from(self.dims[task] - 1).max(1.0) + close * steps.closing
    }

    /// The cheapest splits that fill all places.
    fn cheapest(&self) -> Vec<Split> {
        let all = (1usize << self.dims.len()) - 1;
        let mut of: Vec<BTreeMap<Strides, Vec<Split>>> = vec![BTreeMap::new(); all + 1];
        let none = Split {
            cost: 0.0,
            digits: Vec::new(),
        };
        of[0].insert([1; SIDES], vec![none]);
        for mask in 0..all {
            if self.stop.is_set() {
                return Vec::new();
            }
            let mut states: Vec<(Strides, Vec<Split>)> =
                std::mem::take(&mut of[mask]).into_iter().collect();
            states.sort_by(|a, b| a.1[0].cost.total_cmp(&b.1[0].cost));
            states.truncate(KEPT.1);
            for (strides, splits) in &states {
                for task in (0..self.dims.len()).filter(|t| mask & (1 << t) == 0) {
                    for digits in self.ways(task, strides) {
                        let mut next = *strides;
                        for digit in &digits {
                            next[digit.side] *= digit.factor;
                        }
                        let cost = self.cost(task, &digits);
                        let kept = of[mask | (1 << task)].entry(next).or_default();
                        for split in splits {
                            keep(kept, split, (cost, &digits));
                        }
                    }
                }
            }
        }
        let mut full: Strides = [1; SIDES];
        for (full, side) in full.iter_mut().zip(&self.grid.sides) {
            *full = side.size;
        }
        of[all].remove(&full).unwrap_or_default()
    }

    /// Longest time by the links of a dimension, and of the nodes, for every one; relative.
    fn times(&self, split: &Split) -> (Vec<f64>, f64) {
        let sides = &self.grid.sides;
        let (mut bytes, mut leaving) = (vec![0.0; sides.len()], 0.0);
        for (task, steps) in self.steps.iter().enumerate() {
            let mut slower = self.dims[task];
            let each = steps.inner / f64::from(self.dims[task] - 1).max(1.0);
            for digit in split.digits.iter().filter(|d| d.task == task) {
                slower /= digit.factor;
                let moves = f64::from((digit.factor - 1) * slower) * each;
                bytes[digit.side] += moves * hops(&sides[digit.side], digit.factor, digit.stride).0;
                leaving += if digit.side > 0 { moves } else { 0.0 };
            }
        }
        let time = |(b, s): (f64, &Side)| if s.rate > 0.0 { b / s.rate } else { 0.0 };
        let times = bytes.into_iter().zip(sides).map(time).collect();
        (times, leaving / self.grid.inject.max(f64::MIN_POSITIVE))
    }
}

/// Adds the digits of one more dimension to a split, if the result is among the cheapest.
fn keep(kept: &mut Vec<Split>, split: &Split, (cost, digits): (f64, &[Digit])) {
    let cost = split.cost + cost;
    let at = kept.partition_point(|k| k.cost <= cost);
    if at >= KEPT.0 {
        return;
    }
    let mut all = split.digits.clone();
    all.extend(digits);
    // Dimensions of tasks that share no side may come in any order.
    all.sort_by_key(|d| d.task);
    if kept.iter().all(|k| k.digits != all) {
        kept.insert(at, Split { cost, digits: all });
        kept.truncate(KEPT.0);
    }
}

/// Place and box within the node's grid of every task.
struct Laid {
    place_of: Vec<u32>,
    /// Tasks along each dimension of the box of a node.
    shape: Vec<u32>,
}

fn lay(grid: &PlaceGrid, tasks: &TaskGrid, split: &Split) -> Laid {
    let mut values: Vec<Vec<Vec<u32>>> = Vec::new();
    let digits_of = |task: usize| split.digits.iter().filter(move |d| d.task == task);
    for (task, &size) in tasks.dims.iter().enumerate() {
        let coded = |coordinate: u32| {
            let (mut rest, mut block) = (coordinate, size);
            let mut values: Vec<u32> = digits_of(task)
                .rev()
                .map(|digit| {
                    block /= digit.factor;
                    let value = rest / block;
                    rest %= block;
                    if value % 2 == 1 {
                        rest = block - 1 - rest;
                    }
                    value
                })
                .collect();
            values.reverse();
            values
        };
        values.push((0..size).map(coded).collect());
    }
    // Digits of every side, the fastest first, with their number within their dimension of the tasks.
    let mut layers: Vec<Vec<(usize, Digit)>> = vec![Vec::new(); grid.sides.len()];
    for task in 0..tasks.dims.len() {
        for (number, digit) in digits_of(task).enumerate() {
            layers[digit.side].push((number, *digit));
        }
    }
    for layer in &mut layers {
        layer.sort_by_key(|l| l.1.stride);
    }
    let mut coord = vec![0; tasks.dims.len()];
    let place = |cell: u32| {
        let mut rest = cell;
        for (c, &n) in coord.iter_mut().zip(&tasks.dims).rev() {
            *c = (rest % n) as usize;
            rest /= n;
        }
        let mut at = 0;
        for (side, layer) in grid.sides.iter().zip(&layers).skip(1) {
            let mut position = 0;
            for (number, digit) in layer {
                let value = values[digit.task][coord[digit.task]][*number];
                if digit.reversed && value % 2 == 1 {
                    position = digit.stride - 1 - position;
                }
                position += value * digit.stride;
            }
            at = at * side.size as usize + position as usize;
        }
        grid.places[at]
    };
    let mut shape = vec![1; tasks.dims.len()];
    for digit in split.digits.iter().filter(|d| d.side == 0) {
        shape[digit.task] = digit.factor;
    }
    Laid {
        place_of: tasks.cell.iter().copied().map(place).collect(),
        shape,
    }
}

/// Placements of the cheapest splits with their costs, if places and tasks are complete grids that split.
pub(crate) fn boxed<P: Paths, D: Distances>(
    engine: &Engine<'_, P, D>,
    tasks: &TaskGrid,
    fill: &[u32],
    stop: Stop,
) -> Vec<(f64, Vec<u32>)> {
    let problem = engine.problem;
    let Some(grid) = PlaceGrid::of(problem, fill, engine.distances) else {
        return Vec::new();
    };
    if tasks.dims.len() > DIMS {
        return Vec::new();
    }
    let steps = steps(engine.graph, tasks);
    let mut units: BTreeMap<Vec<u32>, (Vec<u32>, Graph)> = BTreeMap::new();
    let few = engine.graph.ends() <= MANY.0;
    let mut found: Vec<(f64, Vec<u32>)> = Vec::new();
    for split in splits(problem, &grid, (&tasks.dims, &steps), stop) {
        if stop.is_set() {
            break;
        }
        let laid = lay(&grid, tasks, &split);
        if !few && units.len() >= MANY.1 && !units.contains_key(&laid.shape) {
            continue;
        }
        let mut unit_at = vec![0; fill.len()];
        let (first, graph) = units.entry(laid.shape).or_insert_with(|| {
            // A box of tasks is a unit, whatever its place.
            for (unit, &place) in grid.places.iter().enumerate() {
                unit_at[place as usize] = unit as u32;
            }
            let unit_of: Vec<u32> = laid.place_of.iter().map(|&p| unit_at[p as usize]).collect();
            let graph = engine.graph.quotient(&unit_of, grid.places.len());
            let mut first = vec![0; grid.places.len()];
            for (task, &unit) in unit_of.iter().enumerate() {
                first[unit as usize] = task as u32;
            }
            (first, graph)
        });
        let places: Vec<u32> = first.iter().map(|&t| laid.place_of[t as usize]).collect();
        let cost = engine.cost(graph, &places);
        if found.iter().all(|f| f.0 != cost || f.1 != laid.place_of) {
            found.push((cost, laid.place_of));
        }
    }
    found
}

/// The cheapest splits for several prices.
fn splits(
    problem: &Problem<'_>,
    grid: &PlaceGrid,
    (dims, steps): (&[u32], &[Steps]),
    stop: Stop,
) -> Vec<Split> {
    let loads = matches!(
        problem.objective,
        Objective::WorstLink | Objective::WorstNetworkLink
    );
    let inverse = |rate: f64| if rate > 0.0 { 1.0 / rate } else { 0.0 };
    let mut prices = Prices {
        hop: vec![1.0; grid.sides.len()],
        leave: None,
    };
    let mut found: Vec<Split> = Vec::new();
    for round in 0..if loads { ROUNDS } else { 1 } {
        let search = Splits {
            grid,
            dims,
            steps,
            prices: &prices,
            stop,
        };
        let next = search.cheapest();
        let Some(best) = next.first() else { break };
        let (times, leave) = search.times(best);
        let worst = times.iter().copied().fold(leave, f64::max);
        for ((price, time), side) in prices.hop.iter_mut().zip(times).zip(&grid.sides) {
            if round == 0 {
                *price = inverse(side.rate);
            }
            *price *= 1.0 + time / worst.max(f64::MIN_POSITIVE);
        }
        let before = prices.leave.unwrap_or(inverse(grid.inject));
        prices.leave = Some(before * (1.0 + leave / worst.max(f64::MIN_POSITIVE)));
        for split in next {
            if found.iter().all(|f| f.digits != split.digits) {
                found.push(split);
            }
        }
    }
    found
}
