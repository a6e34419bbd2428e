//! Search for small jobs in which most tasks exchange bytes with most others, for costs that are a sum over pairs.
//!
//! A swap of such a job changes the cost of every other swap, and all of them are known after one pass over a matrix.
//! So each step takes the best swap instead of a random one, and a pair that has moved may not return for a while
//! (Taillard, "Robust taboo search for the quadratic assignment problem", Parallel Computing 17, 1991). Where that
//! finds nothing for long, the places on which two good arrangements agree are kept and the others are taken from
//! either (uniform crossover, as in Merz and Freisleben, IEEE Transactions on Evolutionary Computation 4, 2000).

use crate::arrangement::Slots;
use crate::graph::Graph;
use crate::linear::Distances;
use crate::schedule::{Budget, Schedule};
use hopbyte_fabric::random::Random;

/// Maximum number of slots; their matrices then fit the cache.
const MOST: usize = 128;

/// Rows are padded to a multiple of this many numbers, for vector instructions.
const LANES: usize = 8;
/// Above every change of cost.
const FAR: f32 = 1e30;

type Lanes = [f32; LANES];

/// Steps by slot without improvement before the next descent, and arrangements that are kept. Chosen on tai60a of
/// QAPLIB; `bench/map` has instances that they were not chosen on.
const PATIENCE: usize = 50;
const KEPT: usize = 16;

/// Longest time, by slot, that a pair may not return. Taillard's distribution: eight times a cubed random number.
const BARRED: f64 = 8.0;

/// Relative difference of two costs that rounding does not explain.
const SAME: f64 = 1e-6;

/// Whether a job is of the kind this search is for: every unit exchanges bytes with a quarter of the others, on
/// average, and half of the slots are taken.
pub(crate) fn is_dense(graph: &Graph, slots: usize) -> bool {
    let units = graph.units();
    // Edges are counted of small jobs only.
    let edges = || -> usize { (0..units as u32).map(|u| graph.edges(u).len()).sum() };
    slots <= MOST && units > 2 && 2 * units >= slots && 4 * edges() >= units * units
}

/// Searches from a slot for every unit; returns the best arrangement seen, the number of trials, and whether they ended
/// before the planned number. A step counts as a trial by four slots or so, which takes as long.
pub(crate) fn search<D: Distances>(
    graph: &Graph,
    slots: &Slots,
    distances: &D,
    start: &[u32],
    budget: Budget,
    rng: &mut Random,
) -> (Vec<u32>, u64, bool) {
    let mut now = Dense::new(graph, slots, distances);
    let n = now.n;
    let mut schedule = Schedule::new(budget, 0.0, 0.0);
    let weight = (n / 4).next_power_of_two() as u64;
    now.restart(with_free(start, n));
    let mut best = (now.cost, now.slot_of.clone());
    let mut kept: Vec<(f64, Vec<u32>)> = Vec::new();
    let mut going = true;
    while going {
        let mut here = (now.cost, now.slot_of.clone());
        let mut since = 0;
        while since <= PATIENCE * n {
            going = schedule.go_on(weight);
            if !going {
                break;
            }
            since += 1;
            now.step(here.0, rng);
            if now.cost < here.0 - now.same {
                here = (now.cost, now.slot_of.clone());
                since = 0;
            }
        }
        here.0 = now.cost_of(&here.1);
        if here.0 < best.0 {
            best.clone_from(&here);
        }
        if kept.iter().all(|k| (k.0 - here.0).abs() > now.same) {
            kept.push(here);
            kept.sort_by(|a, b| a.0.total_cmp(&b.0));
            kept.truncate(KEPT);
        }
        let next = if kept.len() < KEPT {
            rng.permutation(n)
        } else {
            let one = rng.below(KEPT);
            let two = (one + 1 + rng.below(KEPT - 1)) % KEPT;
            crossed(&kept[one].1, &kept[two].1, rng)
        };
        now.restart(next);
    }
    best.1.truncate(start.len());
    (best.1, schedule.trials(), schedule.is_cut())
}

/// A slot for every unit, followed by the free slots.
fn with_free(start: &[u32], n: usize) -> Vec<u32> {
    let mut taken = vec![false; n];
    for &slot in start {
        taken[slot as usize] = true;
    }
    let free = (0..n as u32).filter(|&s| !taken[s as usize]);
    start.iter().copied().chain(free).collect()
}

/// The slots that two arrangements share, and for every other unit that of either if it is free, else any.
fn crossed(one: &[u32], two: &[u32], rng: &mut Random) -> Vec<u32> {
    let n = one.len();
    let mut free = vec![true; n];
    let mut slot_of = vec![u32::MAX; n];
    let mut take = |unit: usize, slot: u32, slot_of: &mut Vec<u32>| {
        let can = slot_of[unit] == u32::MAX && free[slot as usize];
        if can {
            slot_of[unit] = slot;
            free[slot as usize] = false;
        }
    };
    for unit in (0..n).filter(|&u| one[u] == two[u]) {
        take(unit, one[unit], &mut slot_of);
    }
    for unit in rng.permutation(n) {
        let unit = unit as usize;
        let (first, second) = match rng.below(2) {
            0 => (one, two),
            _ => (two, one),
        };
        take(unit, first[unit], &mut slot_of);
        take(unit, second[unit], &mut slot_of);
    }
    let mut rest: Vec<u32> = (0..n as u32).filter(|&s| free[s as usize]).collect();
    rng.shuffle(&mut rest);
    let open = slot_of.iter_mut().filter(|s| **s == u32::MAX);
    for (slot, left) in open.zip(rest) {
        *slot = left;
    }
    slot_of
}

/// An arrangement of units in as many slots, with the change of cost by every swap. Units beyond those of the graph stand
/// for free slots. Matrices are row by row, of `width` numbers.
struct Dense {
    n: usize,
    width: usize,
    /// Bytes from unit to unit, and cost of a byte from slot to slot.
    flow: Vec<f32>,
    far: Vec<f32>,
    slot_of: Vec<u32>,
    cost: f64,
    /// Costs that differ by no more are the same.
    same: f64,
    /// Cost of a byte between the slots of two units.
    apart: Vec<f32>,
    /// Cost of the bytes of the first unit if it were in the slot of the second, both directions.
    there: Vec<f32>,
    /// Change of cost by a swap of the unit of the row and a later one; infinite elsewhere.
    change: Vec<f32>,
    /// Steps taken, and the step until which a unit may not return to the slot of another; for every pair of `change` the
    /// earlier of both.
    steps: f32,
    until: Vec<f32>,
    barred: Vec<f32>,
    /// Differences of rows and columns of the two units of a swap.
    rows: [Vec<f32>; 2],
    columns: [Vec<f32>; 2],
}

impl Dense {
    fn new<D: Distances>(graph: &Graph, slots: &Slots, distances: &D) -> Self {
        let n = slots.count();
        let width = n.next_multiple_of(LANES);
        let (mut flow, mut far) = (vec![0.0; n * width], vec![0.0; n * width]);
        for unit in 0..graph.units() {
            let others = graph.edges(unit as u32).iter();
            for edge in others.filter(|e| e.to as usize != unit) {
                flow[unit * width + edge.to as usize] = edge.out;
            }
        }
        for a in 0..n {
            for b in 0..n {
                far[a * width + b] = distances.get(slots.place[a], slots.place[b]) as f32;
            }
        }
        let matrix = || vec![0.0; n * width];
        let rows = || [vec![0.0; width], vec![0.0; width]];
        Self {
            n,
            width,
            flow,
            far,
            slot_of: Vec::new(),
            cost: 0.0,
            same: 0.0,
            apart: matrix(),
            there: matrix(),
            change: matrix(),
            steps: 0.0,
            until: matrix(),
            barred: matrix(),
            rows: rows(),
            columns: rows(),
        }
    }

    /// Cost of an arrangement.
    fn cost_of(&self, slot_of: &[u32]) -> f64 {
        let pair = |i: usize, j: usize| {
            let way = slot_of[i] as usize * self.width + slot_of[j] as usize;
            f64::from(self.flow[i * self.width + j]) * f64::from(self.far[way])
        };
        let row = |i: usize| (0..self.n).map(|j| pair(i, j)).sum::<f64>();
        (0..self.n).map(row).sum()
    }

    /// Begins at an arrangement, with no pair barred.
    fn restart(&mut self, slot_of: Vec<u32>) {
        let (n, w) = (self.n, self.width);
        self.cost = self.cost_of(&slot_of);
        self.same = SAME * self.cost.abs() / n as f64;
        self.slot_of = slot_of;
        for i in 0..n {
            for j in 0..n {
                let way = self.slot_of[i] as usize * w + self.slot_of[j] as usize;
                self.apart[i * w + j] = self.far[way];
            }
        }
        let turned = |m: &[f32]| {
            let mut to = vec![0.0f32; n * w];
            for i in 0..n {
                for j in 0..n {
                    to[i * w + j] = m[j * w + i];
                }
            }
            to
        };
        let (flow_back, apart_back) = (turned(&self.flow), turned(&self.apart));
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f32>();
        for i in 0..n {
            for j in 0..n {
                let (i_row, j_row) = (i * w..(i + 1) * w, j * w..(j + 1) * w);
                self.there[i * w + j] = dot(&self.flow[i_row.clone()], &self.apart[j_row.clone()])
                    + dot(&flow_back[i_row], &apart_back[j_row]);
            }
        }
        self.change.fill(f32::INFINITY);
        for i in 0..n {
            for j in i + 1..n {
                self.change[i * w + j] = self.change_of(i, j);
            }
        }
        self.until.fill(-1.0);
        self.barred.fill(-1.0);
        self.steps = 0.0;
    }

    /// Change of cost by a swap, from the costs of both units in the slot of the other, which count the traffic between
    /// them as if the other had stayed.
    fn change_of(&self, i: usize, j: usize) -> f32 {
        let (ij, ji) = (i * self.width + j, j * self.width + i);
        let (ii, jj) = (i * self.width + i, j * self.width + j);
        let between = (self.flow[ij] + self.flow[ji]) * (self.apart[ij] + self.apart[ji]);
        self.there[ij] + self.there[ji] - self.there[ii] - self.there[jj] + between
    }

    /// Performs the best swap that is not barred, or the best of all if it leads below `least`.
    fn step(&mut self, least: f64, rng: &mut Random) {
        let (free, any) = self.best();
        let leads = self.cost + f64::from(any.1) < least - self.same;
        let (row, change) = if leads || free.1 >= FAR / 4.0 {
            any
        } else {
            free
        };
        let is_it = |j: &usize| {
            let at = row * self.width + j;
            self.change[at] == change && (change == any.1 || self.barred[at] < self.steps)
        };
        let Some(column) = (row + 1..self.n).find(is_it) else {
            return;
        };
        self.swap(row, column, rng);
    }

    /// The row and the change of the best swap that is not barred, and of the best of all.
    fn best(&self) -> ((usize, f32), (usize, f32)) {
        let (mut free, mut any) = ((0, f32::INFINITY), (0, f32::INFINITY));
        let lower = |a: f32, b: f32| if b < a { b } else { a };
        let higher = |a: f32, b: f32| if b > a { b } else { a };
        let blocks = self.width / LANES;
        let (changes, barred) = (self.change.as_chunks().0, self.barred.as_chunks().0);
        for i in 0..self.n {
            let row = i * blocks + (i + 1) / LANES..(i + 1) * blocks;
            let mut lanes: (Lanes, Lanes) = ([f32::INFINITY; LANES], [f32::INFINITY; LANES]);
            for (change, barred) in changes[row.clone()].iter().zip(&barred[row]) {
                let (change, barred): (&Lanes, &Lanes) = (change, barred);
                for l in 0..LANES {
                    // Arithmetic instead of a branch: the second is above every change if the swap is barred, else below.
                    let open = higher(change[l], (barred[l] - self.steps + 0.5) * FAR);
                    lanes.0[l] = lower(lanes.0[l], open);
                    lanes.1[l] = lower(lanes.1[l], change[l]);
                }
            }
            let least = lanes.0.into_iter().fold(f32::INFINITY, lower);
            if least < free.1 {
                free = (i, least);
            }
            let least = lanes.1.into_iter().fold(f32::INFINITY, lower);
            if least < any.1 {
                any = (i, least);
            }
        }
        (free, any)
    }

    /// Swaps two units, and bars both from their slots.
    fn swap(&mut self, r: usize, s: usize, rng: &mut Random) {
        let (n, w) = (self.n, self.width);
        self.cost += f64::from(self.change[r * w + s]);
        self.differ(r, s);
        self.update(r, s);
        self.slot_of.swap(r, s);
        for k in 0..w {
            self.apart.swap(r * w + k, s * w + k);
        }
        for k in 0..n {
            self.apart.swap(k * w + r, k * w + s);
            self.until.swap(k * w + r, k * w + s);
        }
        self.steps += 1.0;
        for at in [r * w + s, s * w + r] {
            let length = rng.unit().powi(3) * BARRED * n as f64;
            self.until[at] = self.steps + length.floor() as f32;
        }
        for unit in [r, s] {
            for other in (0..n).filter(|&k| k != unit) {
                let (i, j) = (unit.min(other), unit.max(other));
                self.change[i * w + j] = self.change_of(i, j);
                self.barred[i * w + j] = self.until[i * w + j].min(self.until[j * w + i]);
            }
        }
    }

    /// The differences of rows and columns of two units.
    fn differ(&mut self, r: usize, s: usize) {
        let w = self.width;
        for k in 0..self.n {
            self.columns[0][k] = self.flow[k * w + r] - self.flow[k * w + s];
            self.columns[1][k] = self.apart[k * w + s] - self.apart[k * w + r];
            self.rows[0][k] = self.flow[r * w + k] - self.flow[s * w + k];
            self.rows[1][k] = self.apart[s * w + k] - self.apart[r * w + k];
        }
    }

    /// Updates the sums and the changes of all swaps without `r` and `s`, which are about to be swapped.
    fn update(&mut self, r: usize, s: usize) {
        let w = self.width;
        let ([u, v], [x, y]) = (&self.columns, &self.rows);
        let d = &self.apart;
        let (rr, rs, sr, ss) = (d[r * w + r], d[r * w + s], d[s * w + r], d[s * w + s]);
        for i in 0..self.n {
            let (ui, vi, xi, yi) = (u[i], v[i], x[i], y[i]);
            // Bounds are checked once, so that the loops are vector instructions.
            let from = (i + 1) / LANES * LANES;
            let changes = &mut self.change[i * w + from..(i + 1) * w];
            let after = changes.len();
            let ends = [u, v, x, y].map(|row| &row[from..][..after]);
            for l in 0..after {
                let columns = (ui - ends[0][l]) * (ends[1][l] - vi);
                changes[l] += columns + (xi - ends[2][l]) * (ends[3][l] - yi);
            }
            let row = &mut self.there[i * w..(i + 1) * w];
            let (at_r, at_s) = (row[r], row[s]);
            let (v, y) = (&v[..row.len()], &y[..row.len()]);
            for l in 0..row.len() {
                row[l] += ui * v[l] + xi * y[l];
            }
            row[r] = at_s + ui * (ss - sr) + xi * (ss - rs);
            row[s] = at_r - ui * (rr - rs) - xi * (rr - sr);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linear::MatrixDistances;
    use crate::schedule::{Effort, Length, Stop};
    use hopbyte_fabric::Exchange;

    fn drawn(n: usize, places: usize) -> (Graph, Slots, MatrixDistances) {
        let mut rng = Random::new(7);
        let pairs = (0..n as u32).flat_map(|a| (0..n as u32).map(move |b| (a, b)));
        let pairs = pairs.filter(|p| p.0 != p.1);
        let entries: Vec<_> = pairs
            .map(|(a, b)| (a, b, rng.below(90) as f64, 1))
            .collect();
        let cost = (0..places * places)
            .map(|i| match i / places == i % places {
                true => 0.0,
                false => rng.below(50) as f32,
            })
            .collect();
        (
            Graph::of_tasks(&Exchange::new(n, entries).unwrap()),
            Slots::new(places, (0..places as u32).map(|p| (p, 1))),
            MatrixDistances { places, cost },
        )
    }

    /// Both matrices are asymmetric, and two slots are free.
    #[test]
    fn changes_are_those_of_the_cost() {
        let (graph, slots, distances) = drawn(19, 21);
        let mut dense = Dense::new(&graph, &slots, &distances);
        let mut rng = Random::new(3);
        dense.restart(rng.permutation(21));
        for _ in 0..200 {
            for (i, j) in [(0, 1), (2, 20), (7, 13), (19, 20)] {
                let mut swapped = dense.slot_of.clone();
                swapped.swap(i, j);
                let change = dense.cost_of(&swapped) - dense.cost_of(&dense.slot_of);
                let kept = f64::from(dense.change[i * dense.width + j]);
                assert!((kept - change).abs() < 0.5, "{kept} {change}");
            }
            dense.step(f64::NEG_INFINITY, &mut rng);
            assert!((dense.cost - dense.cost_of(&dense.slot_of)).abs() < 0.5);
        }
    }

    #[test]
    fn a_longer_search_is_never_worse() {
        let (graph, slots, distances) = drawn(24, 24);
        let start: Vec<u32> = (0..24).collect();
        let dense = Dense::new(&graph, &slots, &distances);
        let mut last = dense.cost_of(&start);
        for most in [0, 1_000, 10_000, 50_000, 400_000] {
            let effort = Effort {
                planned: Length::Trials(400_000),
                left: most,
                stop: Stop::default(),
            };
            let budget = effort.part(1.0, false);
            let mut rng = Random::new(1);
            let (end, _, cut) = search(&graph, &slots, &distances, &start, budget, &mut rng);
            let cost = dense.cost_of(&end);
            assert!(cost <= last, "{most} trials: {cost} > {last}");
            assert_eq!(cut, most < 400_000);
            last = cost;
        }
    }

    #[test]
    fn crossing_keeps_the_slots_that_both_share() {
        let mut rng = Random::new(5);
        let one = [3, 1, 0, 2, 4];
        let two = [2, 1, 0, 4, 3];
        for _ in 0..20 {
            let child = crossed(&one, &two, &mut rng);
            assert_eq!(child[1..3], [1, 0]);
            let mut all = child;
            all.sort_unstable();
            assert_eq!(all, [0, 1, 2, 3, 4]);
        }
    }
}
