//! Swap search for costs that are a sum over pairs: hop-bytes and route costs.
//!
//! Simulated annealing with a geometric schedule; a trial costs two distance look-ups per partner.

use crate::arrangement::{Arrangement, FREE, Slots, Swap};
use crate::batch::Batch;
use crate::graph::{Edge, Graph};
use crate::near::Near;
use crate::paths::grid::Broken;
use crate::problem::{APART, Problem};
use crate::schedule::{Budget, Schedule};
use hopbyte_fabric::Direction;
use hopbyte_fabric::random::Random;

/// Cost of a byte between places.
pub(crate) trait Distances: Sync {
    /// Cost of a byte from `a` to `b`; 0 if they are the same place.
    fn get(&self, a: u32, b: u32) -> f64;
}

/// Distances in which a byte that leaves its node costs a little by itself, where such bytes must not grow.
pub(crate) struct Apart<D> {
    distances: D,
    apart: f64,
}

impl<D: Distances> Apart<D> {
    pub(crate) fn new(problem: &Problem<'_>, distances: D) -> Self {
        let limited = problem.objective.has_limits();
        let apart = if limited { APART } else { 0.0 };
        Self { distances, apart }
    }
}

impl<D: Distances> Distances for Apart<D> {
    #[inline]
    fn get(&self, a: u32, b: u32) -> f64 {
        let apart = if a == b { 0.0 } else { self.apart };
        self.distances.get(a, b) + apart
    }
}

/// Distances as a matrix, row by row.
pub(crate) struct MatrixDistances {
    /// Number of places.
    pub(crate) places: usize,
    /// Row-major costs.
    pub(crate) cost: Vec<f32>,
}

impl Distances for MatrixDistances {
    #[inline]
    fn get(&self, a: u32, b: u32) -> f64 {
        f64::from(self.cost[a as usize * self.places + b as usize])
    }
}

/// Hops on a grid, summed over dimensions.
pub(crate) struct GridDistances {
    /// Coordinates by place.
    coord: Vec<[u16; Direction::MAX_DIMENSIONS]>,
    /// For each dimension its size, and the first of its hops.
    dims: Vec<(u32, u32)>,
    /// Hops by first of the dimension + from × size + to.
    hops: Vec<u16>,
    /// The rings where links are down, and the position of every place.
    broken: Option<(Broken, Vec<u32>)>,
}

impl GridDistances {
    /// Coordinates by place, and for each dimension its size and hops by from × size + to.
    pub(crate) fn new(
        coord: Vec<[u16; Direction::MAX_DIMENSIONS]>,
        tables: impl Iterator<Item = (u32, Vec<u16>)>,
        broken: Option<(Broken, Vec<u32>)>,
    ) -> Self {
        let (mut dims, mut hops) = (Vec::new(), Vec::new());
        for (size, table) in tables {
            dims.push((size, hops.len() as u32));
            hops.extend(table);
        }
        Self {
            coord,
            dims,
            hops,
            broken,
        }
    }
}

impl Distances for GridDistances {
    #[inline]
    fn get(&self, a: u32, b: u32) -> f64 {
        if let Some((broken, position)) = &self.broken {
            let from = (position[a as usize], &self.coord[a as usize]);
            return f64::from(broken.hops(from, &self.coord[b as usize]));
        }
        let (a, b) = (&self.coord[a as usize], &self.coord[b as usize]);
        let mut sum = 0;
        // Zipped iterators are not always inlined, and then take four fifths of a search.
        for (d, &(size, first)) in self.dims.iter().enumerate().take(a.len()) {
            let at = first + u32::from(a[d]) * size + u32::from(b[d]);
            sum += u32::from(self.hops[at as usize]);
        }
        f64::from(sum)
    }
}

/// Bytes × distance of an arrangement.
pub(crate) fn total<D: Distances>(graph: &Graph, at: &Arrangement<'_>, distances: &D) -> f64 {
    (0..graph.units() as u32)
        .map(|unit| {
            let here = at.place(unit);
            let cost = |e: &Edge| f64::from(e.out) * distances.get(here, at.place(e.to));
            graph.edges(unit).iter().map(cost).sum::<f64>()
        })
        .sum()
}

/// Change of cost when a unit moves, without its swap partner.
#[inline]
fn change_of<D: Distances>(
    graph: &Graph,
    at: &Arrangement<'_>,
    d: &D,
    (unit, from, to, partner): (u32, u32, u32, u32),
) -> f64 {
    let mut sum = 0.0;
    for edge in graph.edges(unit) {
        if edge.to != partner {
            let other = at.place(edge.to);
            sum += f64::from(edge.out) * (d.get(to, other) - d.get(from, other))
                + f64::from(edge.back) * (d.get(other, to) - d.get(other, from));
        }
    }
    sum
}

/// Change of cost by a swap.
pub(crate) fn change<D: Distances>(graph: &Graph, at: &Arrangement<'_>, d: &D, s: Swap) -> f64 {
    let mut sum = change_of(graph, at, d, (s.unit, s.from, s.to, s.partner));
    if s.partner != FREE {
        sum += change_of(graph, at, d, (s.partner, s.to, s.from, s.unit));
        if let Some(edge) = graph.edge(s.unit, s.partner) {
            sum += f64::from(edge.out - edge.back) * (d.get(s.to, s.from) - d.get(s.from, s.to));
        }
    }
    sum
}

/// Searches from a slot for every unit, on all threads with `many`; returns the best arrangement seen, the number of
/// trials, and whether they ended before the planned number.
pub(crate) fn anneal<D: Distances>(
    graph: &Graph,
    slots: &Slots,
    near: &Near,
    distances: &D,
    start: &[u32],
    (heat, budget, many): (f64, Budget, bool),
    rng: &mut Random,
) -> (Vec<u32>, u64, bool) {
    let mut at = Arrangement::new(slots, graph, start);
    let mean = total(graph, &at, distances) / graph.units().max(1) as f64;
    let mut schedule = Schedule::new(budget, heat * mean, 1e-9 * mean);
    let mut best = (-1e-9 * mean.abs(), at.slot_of().to_vec());
    let period = (graph.units() as u64).next_power_of_two().max(256);
    let mut grown = 0.0;
    let mut attempt = |at: &mut Arrangement<'_>, swap: Swap, limit: f64| {
        let change = change(graph, at, distances, swap);
        if change <= limit {
            grown += change;
            at.perform(swap);
        }
        grown
    };
    let mut sum = 0.0;
    let mut keep = |at: &Arrangement<'_>, grown: f64| {
        if grown < best.0 {
            best.0 = grown;
            best.1.copy_from_slice(at.slot_of());
        }
    };
    if many {
        let mut batch = Batch::new(|| ());
        while schedule.go_on(Batch::<()>::TRIALS) {
            let now = &at;
            let candidate = |rng: &mut Random| now.candidate(graph, near, rng);
            let judge =
                |(): &mut (), s: Swap, limit: f64| change(graph, now, distances, s) <= limit;
            batch.judge(&schedule, rng, candidate, judge);
            for (swap, limit) in batch.taken() {
                if let Some(swap) = at.again(swap) {
                    sum = attempt(&mut at, swap, limit);
                }
            }
            keep(&at, sum);
        }
    } else {
        while schedule.go_on(1) {
            if let Some(swap) = at.candidate(graph, near, rng) {
                sum = attempt(&mut at, swap, schedule.limit(rng));
            }
            if schedule.trials().is_multiple_of(period) {
                keep(&at, sum);
            }
        }
    }
    // Only costs at fixed trials count, see `Search::run`.
    if !schedule.is_cut() {
        keep(&at, sum);
    }
    (best.1, schedule.trials(), schedule.is_cut())
}
