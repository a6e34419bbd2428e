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
/// for free slots. Matrices are row by row, of `width` numbers, a multiple of [`LANES`].
struct Dense {
    n: usize,
    width: usize,
    /// Whether both matrices are asymmetric. Else both are made symmetric, the bytes of both directions in every pair.
    both: bool,
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
    /// Steps taken, and the step until which a unit may not return to a slot; for every pair of `change` the earlier of both.
    steps: f32,
    until: Vec<f32>,
    barred: Vec<f32>,
    /// Differences of rows and columns of the two units of a swap: of bytes, and of costs.
    rows: [Vec<f32>; 2],
    columns: [Vec<f32>; 2],
    /// The columns of `there` of the two units, and its diagonal.
    turned: [Vec<f32>; 2],
    own: Vec<f32>,
}

impl Dense {
    fn new<D: Distances>(graph: &Graph, slots: &Slots, distances: &D) -> Self {
        let n = slots.count();
        let width = n.next_multiple_of(LANES);
        let matrix = || vec![0.0; n * width];
        let (mut flow, mut far) = (matrix(), matrix());
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
        let turned = |m: &[f32]| -> Vec<f32> {
            let mut to = matrix();
            for (i, row) in m.chunks_exact(width).enumerate() {
                row[..n]
                    .iter()
                    .enumerate()
                    .for_each(|(j, v)| to[j * width + i] = *v);
            }
            to
        };
        let (back, back_far) = (turned(&flow), turned(&far));
        let both = flow != back && far != back_far;
        if !both {
            flow.iter_mut().zip(&back).for_each(|(f, b)| *f += b);
            far.iter_mut()
                .zip(&back_far)
                .for_each(|(f, b)| *f = 0.5 * (*f + b));
        }
        let row = || vec![0.0; width];
        Self {
            n,
            width,
            both,
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
            rows: [row(), row()],
            columns: [row(), row()],
            turned: [row(), row()],
            own: row(),
        }
    }

    /// Cost of an arrangement.
    fn cost_of(&self, slot_of: &[u32]) -> f64 {
        let pair = |i: usize, j: usize| {
            let way = slot_of[i] as usize * self.width + slot_of[j] as usize;
            f64::from(self.flow[i * self.width + j]) * f64::from(self.far[way])
        };
        let row = |i: usize| (0..self.n).map(|j| pair(i, j)).sum::<f64>();
        let sum: f64 = (0..self.n).map(row).sum();
        if self.both { sum } else { 0.5 * sum }
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
        // Bytes of a unit to the others times their costs from the slot of another, row by row for vector instructions.
        self.there.fill(0.0);
        for i in 0..n {
            let row = &mut self.there[i * w..(i + 1) * w];
            for k in 0..n {
                let (out, apart) = (self.flow[i * w + k], &self.apart[k * w..(k + 1) * w]);
                if self.both {
                    let back = self.flow[k * w + i];
                    for j in 0..n {
                        row[j] += out * self.apart[j * w + k] + back * apart[j];
                    }
                } else {
                    row.iter_mut().zip(apart).for_each(|(t, a)| *t += out * a);
                }
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
        let back = if self.both { self.flow[ji] } else { 0.0 };
        let between = (self.flow[ij] + back) * (self.apart[ij] + self.apart[ji]);
        self.there[ij] + self.there[ji] - self.there[ii] - self.there[jj] + between
    }

    /// Performs the best swap that is not barred or leads below `least`; the best of all if there is none.
    fn step(&mut self, least: f64, rng: &mut Random) {
        let mut leads = (least - self.same - self.cost) as f32;
        let mut found = self.best(leads);
        if found.1 == f32::INFINITY {
            leads = f32::INFINITY;
            found = self.best(leads);
        }
        let (row, change) = found;
        let is_it = |j: &usize| {
            let at = row * self.width + j;
            self.change[at] == change && (self.barred[at] < self.steps || change < leads)
        };
        if let Some(column) = (row + 1..self.n).find(is_it) {
            self.swap(row, column, rng);
        }
    }

    /// The row and the change of the best swap that is not barred or changes the cost to less than `leads`.
    fn best(&self, leads: f32) -> (usize, f32) {
        let mut best = (0, f32::INFINITY);
        let lower = |a: f32, b: f32| if b < a { b } else { a };
        let blocks = self.width / LANES;
        let (changes, barred) = (self.change.as_chunks().0, self.barred.as_chunks().0);
        let now = self.steps;
        for i in 0..self.n {
            let row = i * blocks + (i + 1) / LANES..(i + 1) * blocks;
            let mut least: Lanes = [f32::INFINITY; LANES];
            for (change, barred) in changes[row.clone()].iter().zip(&barred[row]) {
                let (change, barred): (&Lanes, &Lanes) = (change, barred);
                for l in 0..LANES {
                    // No short-circuit, which would be a branch.
                    let open = (barred[l] < now) | (change[l] < leads);
                    least[l] = lower(least[l], if open { change[l] } else { f32::INFINITY });
                }
            }
            // In pairs: eight comparisons in a row take as long as the loop above.
            let [a, b, c, d, e, f, g, h] = least;
            let (low, high) = (
                lower(lower(a, e), lower(c, g)),
                lower(lower(b, f), lower(d, h)),
            );
            let least = lower(low, high);
            if least < best.1 {
                best = (i, least);
            }
        }
        best
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
        self.apart
            .chunks_exact_mut(w)
            .for_each(|row| row.swap(r, s));
        self.steps += 1.0;
        for (unit, other) in [(r, s), (s, r)] {
            let length = rng.unit().powi(3) * BARRED * n as f64;
            let back = self.slot_of[other] as usize;
            self.until[unit * w + back] = self.steps + length.floor() as f32;
        }
        self.renew(r, 0);
        self.renew(s, 1);
    }

    /// Computes the changes of all swaps with a unit, the first or second of the last swap, and whether they are barred.
    fn renew(&mut self, unit: usize, which: usize) {
        let (n, w) = (self.n, self.width);
        let row = unit * w..(unit + 1) * w;
        let (there, apart) = (&self.there[row.clone()], &self.apart[row.clone()]);
        let (out, until) = (&self.flow[row.clone()], &self.until[row]);
        let (turned, own) = (&self.turned[which][..w], &self.own[..w]);
        // The differences are not needed any more.
        let ([changes, barred], slot) = (&mut self.rows, self.slot_of[unit] as usize);
        if self.both {
            for (k, change) in changes[..n].iter_mut().enumerate() {
                let back = (self.flow[k * w + unit], self.apart[k * w + unit]);
                let between = (out[k] + back.0) * (apart[k] + back.1);
                *change = there[k] + turned[k] - own[unit] - own[k] + between;
            }
        } else {
            for (k, change) in changes[..w].iter_mut().enumerate() {
                *change = there[k] + turned[k] - own[unit] - own[k] + 2.0 * out[k] * apart[k];
            }
        }
        let others = self.until.chunks_exact(w).zip(&self.slot_of);
        for (barred, (other, &place)) in barred.iter_mut().zip(others) {
            *barred = until[place as usize].min(other[slot]);
        }
        let later = unit * w + unit + 1..unit * w + n;
        self.change[later.clone()].copy_from_slice(&changes[unit + 1..n]);
        self.barred[later].copy_from_slice(&barred[unit + 1..n]);
        for k in 0..unit {
            self.change[k * w + unit] = changes[k];
            self.barred[k * w + unit] = barred[k];
        }
    }

    /// The differences of rows and columns of two units.
    fn differ(&mut self, r: usize, s: usize) {
        let w = self.width;
        let row = |m: &[f32], from: usize, to: usize, of: &mut [f32]| {
            let (from, to) = (&m[from * w..][..w], &m[to * w..][..w]);
            of.iter_mut()
                .zip(from.iter().zip(to))
                .for_each(|(d, (f, t))| *d = t - f);
        };
        row(&self.flow, s, r, &mut self.rows[0]);
        row(&self.apart, r, s, &mut self.rows[1]);
        if self.both {
            for k in 0..self.n {
                self.columns[0][k] = self.flow[k * w + r] - self.flow[k * w + s];
                self.columns[1][k] = self.apart[k * w + s] - self.apart[k * w + r];
            }
        }
    }

    /// Updates the sums and the changes of all swaps without `r` and `s`, which are about to be swapped.
    fn update(&mut self, r: usize, s: usize) {
        let (w, blocks) = (self.width, self.width / LANES);
        let both = self.both;
        let [[u, v], [x, y]] = [&self.columns, &self.rows].map(|of| [&of[0][..w], &of[1][..w]]);
        let d = &self.apart;
        let (rr, rs, sr, ss) = (d[r * w + r], d[r * w + s], d[s * w + r], d[s * w + s]);
        let changes = self.change.as_chunks_mut().0.chunks_exact_mut(blocks);
        let there = self.there.as_chunks_mut().0.chunks_exact_mut(blocks);
        let ends = self.turned.split_at_mut(1);
        let (at_ends, own) = (
            (&mut ends.0[0][..w], &mut ends.1[0][..w]),
            &mut self.own[..w],
        );
        for (i, (changes, there)) in changes.zip(there).enumerate().take(self.n) {
            let changes = &mut changes[(i + 1) / LANES..];
            let old = there.as_flattened();
            let (at_r, at_s) = (old[r], old[s]);
            one_way(changes, there, i, (x, y));
            let back = if both {
                one_way(changes, there, i, (u, v));
                u[i]
            } else {
                0.0
            };
            let row = there.as_flattened_mut();
            row[r] = at_s + back * (ss - sr) + x[i] * (ss - rs);
            row[s] = at_r - back * (rr - rs) - x[i] * (rr - sr);
            (at_ends.0[i], at_ends.1[i], own[i]) = (row[r], row[s], row[i]);
        }
    }
}

/// The update of a row of sums and changes by the bytes of one direction: the differences of bytes and costs.
#[inline]
fn one_way(changes: &mut [Lanes], there: &mut [Lanes], i: usize, (bytes, costs): (&[f32], &[f32])) {
    // Slices of whole blocks, checked once, are vector instructions without a rest.
    let (changes, there) = (changes.as_flattened_mut(), there.as_flattened_mut());
    let from = there.len() - changes.len();
    let (later, far) = (
        &bytes[from..][..changes.len()],
        &costs[from..][..changes.len()],
    );
    let (byte, cost) = (bytes[i], costs[i]);
    for l in 0..changes.len() {
        changes[l] += (byte - later[l]) * (far[l] - cost);
    }
    let costs = &costs[..there.len()];
    for l in 0..there.len() {
        there[l] += byte * costs[l];
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
            let mut effort = Effort::new(Length::Trials(400_000), most, Stop::default());
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
