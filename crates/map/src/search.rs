//! Swap search over placements with incremental link loads.
//!
//! The cost is Σ over links of (time / scale)^p plus a linear share of hop-bytes; with growing p it
//! follows the worst link. It is convex in the loads, so the sum of link prices (its derivative)
//! along the old and new routes bounds a swap's change from below: most swaps are refused from a few
//! price sums, without touching a load, and none is refused that the full change would allow.

use crate::graph::Graph;
use crate::near::Near;
use crate::paths::{Paths, Prices};
use crate::rng::Rng;
use std::time::Instant;

/// No unit.
pub(crate) const FREE: u32 = u32::MAX;

/// Where units can be: slots of places, by place.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    /// Place of every slot.
    pub(crate) place: Vec<u32>,
    /// Tasks that a slot can hold.
    pub(crate) room: Vec<u32>,
    /// First slot of every place, and the end.
    first: Vec<u32>,
}

impl Slots {
    /// `rooms` lists (place, room) by place.
    pub(crate) fn new(places: usize, rooms: impl IntoIterator<Item = (u32, u32)>) -> Self {
        let (place, room): (Vec<u32>, Vec<u32>) = rooms.into_iter().unzip();
        let mut first = vec![0; places + 1];
        for &p in &place {
            first[p as usize + 1] += 1;
        }
        for p in 0..places {
            first[p + 1] += first[p];
        }
        Self { place, room, first }
    }

    /// Number of slots.
    pub(crate) fn count(&self) -> usize {
        self.place.len()
    }

    /// Slots of a place.
    pub(crate) fn of(&self, place: u32) -> std::ops::Range<u32> {
        self.first[place as usize]..self.first[place as usize + 1]
    }

    /// The slots of every place.
    pub(crate) fn first_free(&self) -> Vec<std::ops::Range<u32>> {
        (0..self.first.len() as u32 - 1)
            .map(|p| self.of(p))
            .collect()
    }

    #[inline]
    fn pick(&self, place: u32, rng: &mut Rng) -> Option<u32> {
        let range = self.of(place);
        let n = range.len();
        (n > 0).then(|| range.start + rng.below(n) as u32)
    }
}

/// What every link weighs in the cost, in the numbering of [`Paths`].
pub(crate) struct Weights {
    /// Seconds per byte at live capacity; 0 for links that do not count.
    pub(crate) seconds_per_byte: Vec<f64>,
    /// 1 for links that are a hop.
    pub(crate) hop: Vec<f64>,
}

/// How long to search.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Budget {
    /// From now to a moment.
    Until(Instant),
    /// A number of trials, whatever the clock says.
    Trials(u64),
}

/// One stage of a search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stage {
    /// Exponent of link times; 0 leaves the linear part alone.
    pub(crate) power: i32,
    /// Weight of hop-bytes relative to the sum of powers at the start.
    pub(crate) hop_weight: f64,
    /// Starting temperature relative to the mean cost of a unit; 0 only goes downhill.
    pub(crate) heat: f64,
    /// When to stop.
    pub(crate) budget: Budget,
}

/// What is known of a placement while searching.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Standing {
    /// Worst time of the links that count.
    pub(crate) worst: f64,
    /// Bytes × hops, or the linear cost in force.
    pub(crate) linear: f64,
}

/// A placement of units in slots and everything that is kept up to date with it.
pub(crate) struct Search<'a, P: Paths> {
    paths: &'a P,
    graph: &'a Graph,
    slots: &'a Slots,
    weights: &'a Weights,
    near: &'a Near,
    slot_of: Vec<u32>,
    unit_at: Vec<u32>,
    load: Vec<f64>,
    price: Vec<f64>,
    prices: Prices,
    delta: Vec<f64>,
    mark: Vec<bool>,
    touched: Vec<u32>,
    power: i32,
    scale: f64,
    linear: f64,
    hot: Vec<(u32, u32)>,
    /// Trials made so far.
    pub(crate) trials: u64,
}

impl<'a, P: Paths> Search<'a, P> {
    /// Begins at a slot for every unit.
    pub(crate) fn new(
        paths: &'a P,
        graph: &'a Graph,
        slots: &'a Slots,
        weights: &'a Weights,
        near: &'a Near,
        slot_of: Vec<u32>,
    ) -> Self {
        let mut unit_at = vec![FREE; slots.count()];
        for (unit, &slot) in slot_of.iter().enumerate() {
            unit_at[slot as usize] = unit as u32;
        }
        let links = paths.links();
        Self {
            paths,
            graph,
            slots,
            weights,
            near,
            slot_of,
            unit_at,
            load: vec![0.0; links],
            price: vec![0.0; links],
            prices: paths.prices(),
            delta: vec![0.0; links],
            mark: vec![false; links],
            touched: Vec::new(),
            power: 0,
            scale: 0.0,
            linear: 1.0,
            hot: Vec::new(),
            trials: 0,
        }
    }

    /// Slots by unit.
    pub(crate) fn into_slots(self) -> Vec<u32> {
        self.slot_of
    }

    #[inline]
    fn place(&self, unit: u32) -> u32 {
        self.slots.place[self.slot_of[unit as usize] as usize]
    }

    /// Recomputes all loads, which ends the drift of adding and subtracting.
    fn reload(&mut self) {
        self.load.fill(0.0);
        let load = &mut self.load;
        for unit in 0..self.graph.units() as u32 {
            let from = self.slots.place[self.slot_of[unit as usize] as usize];
            for edge in self.graph.edges(unit) {
                let to = self.slots.place[self.slot_of[edge.to as usize] as usize];
                if edge.out > 0.0 {
                    self.paths
                        .each(from, to, |l, share| load[l] += edge.out * share);
                }
            }
        }
    }

    /// Worst link and linear cost of the loads as they are.
    fn standing(&self) -> Standing {
        let times = self.load.iter().zip(&self.weights.seconds_per_byte);
        let hops = self.load.iter().zip(&self.weights.hop);
        Standing {
            worst: times.map(|(l, s)| l * s).fold(0.0, f64::max),
            linear: hops.map(|(l, h)| l * h).sum(),
        }
    }

    /// Σ (time · scale)^p.
    fn powers(&self) -> f64 {
        let times = self.load.iter().zip(&self.weights.seconds_per_byte);
        times
            .map(|(l, s)| (l * s * self.scale).powi(self.power))
            .sum()
    }

    /// Derivative of the cost of one link.
    #[inline]
    fn slope(&self, link: usize) -> f64 {
        let per_byte = self.weights.seconds_per_byte[link] * self.scale;
        let linear = self.linear * self.weights.hop[link];
        if self.power == 0 {
            return linear;
        }
        let time = self.load[link] * per_byte;
        f64::from(self.power) * time.powi(self.power - 1) * per_byte + linear
    }

    fn reprice_all(&mut self) {
        for link in 0..self.price.len() {
            self.price[link] = self.slope(link);
        }
        let all: Vec<u32> = (0..self.price.len() as u32).collect();
        let price = &self.price;
        self.paths.reprice(&mut self.prices, &all, |l| price[l]);
    }

    /// Recomputes loads, prices and the flows over the hottest links; returns where we stand.
    fn refresh(&mut self, stage: &Stage) -> Standing {
        self.reload();
        let standing = self.standing();
        self.power = stage.power;
        self.scale = if standing.worst > 0.0 {
            1.0 / standing.worst
        } else {
            0.0
        };
        self.linear = if stage.power == 0 {
            1.0
        } else if standing.linear > 0.0 {
            stage.hop_weight * self.powers() / standing.linear
        } else {
            0.0
        };
        self.reprice_all();
        if stage.power > 0 {
            self.find_hot();
        }
        standing
    }

    /// Lists the flows that cross the hottest hundredth of the loaded links (16 at least).
    fn find_hot(&mut self) {
        let times = self.load.iter().zip(&self.weights.seconds_per_byte);
        let mut loaded: Vec<(f64, u32)> = times
            .enumerate()
            .filter(|(_, (load, seconds))| *load * *seconds > 0.0)
            .map(|(link, (load, seconds))| (load * seconds, link as u32))
            .collect();
        self.hot.clear();
        if loaded.is_empty() {
            return;
        }
        let count = (loaded.len() / 100).max(16).min(loaded.len());
        loaded.select_nth_unstable_by(count - 1, |a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for &(_, link) in &loaded[..count] {
            self.mark[link as usize] = true;
        }
        for unit in 0..self.graph.units() as u32 {
            let from = self.place(unit);
            for edge in self.graph.edges(unit) {
                let to = self.place(edge.to);
                let mut hit = false;
                self.paths.each(from, to, |l, _| hit |= self.mark[l]);
                if hit && edge.out > 0.0 {
                    self.hot.push((unit, edge.to));
                }
            }
        }
        for &(_, link) in &loaded[..count] {
            self.mark[link as usize] = false;
        }
    }

    /// Sum of price changes when `unit` moves between places and `partner` the other way.
    #[inline]
    fn price_change(&self, unit: u32, from: u32, to: u32, partner: u32) -> f64 {
        let mut sum = 0.0;
        for edge in self.graph.edges(unit) {
            if edge.to == partner {
                continue;
            }
            let other = self.place(edge.to);
            let price = |a, b| self.paths.price(&self.prices, a, b);
            if edge.out > 0.0 {
                sum += edge.out * (price(to, other) - price(from, other));
            }
            if edge.back > 0.0 {
                sum += edge.back * (price(other, to) - price(other, from));
            }
        }
        sum
    }

    /// The lower bound of a swap's change of cost; exact when the cost is linear.
    fn bound(&self, a: u32, from: u32, to: u32, b: u32) -> f64 {
        let mut sum = self.price_change(a, from, to, b);
        if b != FREE {
            sum += self.price_change(b, to, from, a);
            if let Some(edge) = self.edge(a, b) {
                let price = |x, y| self.paths.price(&self.prices, x, y);
                sum += (edge.out - edge.back) * (price(to, from) - price(from, to));
            }
        }
        sum
    }

    fn edge(&self, a: u32, b: u32) -> Option<crate::graph::Edge> {
        let edges = self.graph.edges(a);
        edges
            .binary_search_by_key(&b, |e| e.to)
            .ok()
            .map(|i| edges[i])
    }

    fn add(&mut self, from: u32, to: u32, bytes: f64) {
        let (delta, mark, touched) = (&mut self.delta, &mut self.mark, &mut self.touched);
        self.paths.each(from, to, |link, share| {
            if !mark[link] {
                mark[link] = true;
                touched.push(link as u32);
            }
            delta[link] += bytes * share;
        });
    }

    fn shift(&mut self, unit: u32, from: u32, to: u32, partner: u32) {
        let graph = self.graph;
        for edge in graph.edges(unit) {
            if edge.to == partner {
                continue;
            }
            let other = self.place(edge.to);
            if edge.out > 0.0 {
                self.add(from, other, -edge.out);
                self.add(to, other, edge.out);
            }
            if edge.back > 0.0 {
                self.add(other, from, -edge.back);
                self.add(other, to, edge.back);
            }
        }
    }

    /// Collects the change of every load and returns the exact change of cost.
    fn exact(&mut self, a: u32, from: u32, to: u32, b: u32) -> f64 {
        self.shift(a, from, to, b);
        if b != FREE {
            self.shift(b, to, from, a);
            if let Some(edge) = self.edge(a, b) {
                self.add(from, to, edge.back - edge.out);
                self.add(to, from, edge.out - edge.back);
            }
        }
        let mut change = 0.0;
        for &link in &self.touched {
            let l = link as usize;
            let delta = self.delta[l];
            if delta == 0.0 {
                continue;
            }
            let per_byte = self.weights.seconds_per_byte[l] * self.scale;
            let old = self.load[l] * per_byte;
            let new = (self.load[l] + delta).max(0.0) * per_byte;
            change += new.powi(self.power) - old.powi(self.power)
                + self.linear * self.weights.hop[l] * delta;
        }
        change
    }

    /// Puts the collected changes into force, or drops them.
    fn settle(&mut self, accept: bool) {
        if accept {
            for i in 0..self.touched.len() {
                let l = self.touched[i] as usize;
                self.load[l] = (self.load[l] + self.delta[l]).max(0.0);
                self.price[l] = self.slope(l);
            }
            let price = &self.price;
            self.paths
                .reprice(&mut self.prices, &self.touched, |l| price[l]);
        }
        for &link in &self.touched {
            self.delta[link as usize] = 0.0;
            self.mark[link as usize] = false;
        }
        self.touched.clear();
    }

    /// Tries to move unit `a` to `slot`, swapping with who is there, and does it when the cost grows
    /// by no more than `limit`.
    fn attempt(&mut self, a: u32, slot: u32, limit: f64) -> bool {
        let home = self.slot_of[a as usize];
        let (from, to) = (
            self.slots.place[home as usize],
            self.slots.place[slot as usize],
        );
        if from == to {
            return false;
        }
        let b = self.unit_at[slot as usize];
        let fits = |unit: u32, slot: u32| {
            unit == FREE || self.graph.size[unit as usize] <= self.slots.room[slot as usize]
        };
        if !fits(a, slot) || !fits(b, home) || self.bound(a, from, to, b) > limit {
            return false;
        }
        if self.power > 0 {
            let accept = self.exact(a, from, to, b) <= limit;
            self.settle(accept);
            if !accept {
                return false;
            }
        }
        self.slot_of[a as usize] = slot;
        self.unit_at[slot as usize] = a;
        self.unit_at[home as usize] = b;
        if b != FREE {
            self.slot_of[b as usize] = home;
        }
        true
    }

    /// A unit and a slot worth trying: half of the time an end of a flow over a hot link, otherwise a
    /// unit and a place near it or near a partner, seldom any place.
    fn candidate(&self, rng: &mut Rng) -> Option<(u32, u32)> {
        let dice = rng.below(100);
        let (unit, place) = if dice < 50 && !self.hot.is_empty() {
            let (a, b) = self.hot[rng.below(self.hot.len())];
            let (unit, other) = if rng.below(2) == 0 { (a, b) } else { (b, a) };
            let around = if rng.below(3) > 0 { other } else { unit };
            (unit, self.near.pick(self.place(around), rng))
        } else {
            let unit = rng.below(self.graph.units()) as u32;
            let edges = self.graph.edges(unit);
            if edges.is_empty() || dice >= 97 {
                let slot = rng.below(self.slots.count()) as u32;
                return Some((unit, slot));
            }
            let around = if dice < 82 {
                edges[rng.below(edges.len())].to
            } else {
                unit
            };
            (unit, self.near.pick(self.place(around), rng))
        };
        self.slots.pick(place, rng).map(|slot| (unit, slot))
    }

    /// Searches one stage and ends at the best placement seen (by worst link, then linear cost; by
    /// linear cost alone in a linear stage).
    pub(crate) fn run(&mut self, stage: &Stage, rng: &mut Rng) -> Standing {
        let begin = Instant::now();
        let start_trials = self.trials;
        let units = self.graph.units();
        let period = (units as u64 * 16).clamp(1_000, 1 << 18);
        let mut best = self.refresh(stage);
        let mut best_slots = self.slot_of.clone();
        let mut moved = 0u64;
        let total = |s: &Self, now: Standing| {
            if stage.power == 0 {
                now.linear
            } else {
                s.powers() + s.linear * now.linear
            }
        };
        let mut mean_cost = total(self, best) / units.max(1) as f64;
        let mut heat = stage.heat * mean_cost;
        loop {
            let done = self.trials - start_trials;
            if done.is_multiple_of(256) {
                let progress = match stage.budget {
                    Budget::Trials(n) => done as f64 / n.max(1) as f64,
                    Budget::Until(end) => {
                        let whole = end.saturating_duration_since(begin).as_secs_f64();
                        begin.elapsed().as_secs_f64() / whole.max(1e-9)
                    }
                };
                if progress >= 1.0 {
                    break;
                }
                heat = if progress < 0.8 {
                    stage.heat * mean_cost * 1e-3f64.powf(progress / 0.8)
                } else {
                    0.0
                };
            }
            if done > 0 && done.is_multiple_of(period) && moved > 0 {
                let now = self.refresh(stage);
                mean_cost = total(self, now) / units.max(1) as f64;
                moved = 0;
                if improves(stage, now, best) {
                    best = now;
                    best_slots.clone_from(&self.slot_of);
                }
            }
            self.trials += 1;
            let Some((unit, slot)) = self.candidate(rng) else {
                continue;
            };
            let limit = if heat > 0.0 {
                -heat * (1.0 - rng.unit()).ln()
            } else {
                -1e-9 * mean_cost
            };
            moved += u64::from(self.attempt(unit, slot, limit));
        }
        let now = self.refresh(stage);
        if improves(stage, best, now) {
            self.restore(&best_slots);
            return best;
        }
        now
    }

    fn restore(&mut self, slots: &[u32]) {
        self.slot_of.copy_from_slice(slots);
        self.unit_at.fill(FREE);
        for (unit, &slot) in slots.iter().enumerate() {
            self.unit_at[slot as usize] = unit as u32;
        }
    }
}

/// Whether one standing is better than another by a stage's measure.
fn improves(stage: &Stage, a: Standing, b: Standing) -> bool {
    let less = |x: f64, y: f64| x < y - 1e-9 * y.abs();
    if stage.power == 0 {
        return less(a.linear, b.linear);
    }
    less(a.worst, b.worst) || (!less(b.worst, a.worst) && less(a.linear, b.linear))
}
