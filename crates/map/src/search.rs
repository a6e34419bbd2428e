//! Swap search over placements with incremental link loads.
//!
//! The cost is bytes × hops plus, for every link above its limit, a penalty that grows with the square of the
//! excess. Limits fall during the search: about one link in fifty is above its limit at any moment, until only
//! the worst are. A limit is a time minus a number of bytes that is the same on every link: if flows are few
//! and alike, a slow link with one flow too many is as far above its limit as a fast one. An excess of one
//! typical flow weighs as much as `stiffness` hops of detour, so the trade-off is dimensionless and needs no
//! tuning by machine.
//!
//! The cost is convex in the loads, so the sum of link prices (its derivative) along the old and new routes is
//! a lower bound of a swap's change. Most swaps are rejected from a few price sums, without reading loads, and
//! no swap is rejected that the exact change would accept.

use crate::arrangement::{Arrangement, FREE, Slots, Swap};
use crate::batch::Batch;
use crate::change::{Change, count, is_large};
use crate::graph::Graph;
use crate::near::Near;
use crate::paths::{Paths, Prices};
use crate::schedule::{Budget, Schedule};
use crate::threads::each;
use hopbyte_fabric::random::Random;

/// Share of the loaded links that stays above its limit.
const ABOVE: f64 = 0.02;
/// Units whose flows are listed together.
const PART: u32 = 4096;

/// Limits stay this share below the worst link's time, and some flows below that.
const LEAST_STEP: f64 = 0.015;

/// Weights of the links in the cost, in the numbering of [`Paths`].
#[derive(Clone)]
pub(crate) struct Weights {
    /// Seconds per byte at live capacity; 0 for links without load or limit.
    pub(crate) seconds_per_byte: Vec<f64>,
    /// Whether the link's time is part of the objective; other links only must not get worse.
    pub(crate) counts: Vec<bool>,
    /// 1 for links that are a hop.
    pub(crate) hop: Vec<f64>,
    /// Cost of a byte on a link without penalty, in hops.
    pub(crate) pull: Vec<f64>,
    /// Whether a byte that leaves its node crosses the link first.
    pub(crate) leaves: Vec<bool>,
    pub(crate) limits: Limits,
    /// Time that no placement goes below, of links in the objective that are left out because their worst time is the
    /// same for all.
    pub(crate) floor: f64,
}

/// Limits of a placement beside the objective.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Time of the links outside the objective.
    pub(crate) others: f64,
    /// Bytes that leave their node.
    pub(crate) off_node: f64,
}

impl Limits {
    pub(crate) const NONE: Self = Self {
        others: f64::INFINITY,
        off_node: f64::INFINITY,
    };
}

impl Weights {
    /// Mean bytes per second of the links in the objective.
    fn mean_rate(&self) -> f64 {
        let links = self.seconds_per_byte.iter().zip(&self.counts);
        let rates = links.filter(|l| *l.1 && *l.0 > 0.0).map(|l| 1.0 / *l.0);
        let (sum, count) = rates.fold((0.0, 0.0), |(sum, count), rate| (sum + rate, count + 1.0));
        if count > 0.0 { sum / count } else { 1.0 }
    }

    /// Longest time of the links in the objective, or of the others.
    fn worst_of(&self, load: &[f64], counts: bool) -> f64 {
        let links = load.iter().zip(&self.seconds_per_byte).zip(&self.counts);
        let times = links.filter(|l| *l.1 == counts).map(|((l, s), _)| l * s);
        times.fold(0.0, f64::max)
    }

    /// The limits that some link loads keep exactly.
    pub(crate) fn of(&self, load: &[f64]) -> Limits {
        let leaves = load.iter().zip(&self.leaves).filter(|l| *l.1);
        Limits {
            others: self.worst_of(load, false),
            off_node: leaves.map(|l| l.0).sum(),
        }
    }

    /// Cost of link loads.
    pub(crate) fn standing(&self, load: &[f64]) -> Standing {
        let above = |value: f64, limit: f64| match limit {
            l if value <= l * (1.0 + SAME) => 0.0,
            l if l > 0.0 => value / l - 1.0,
            _ => 1.0,
        };
        let hops = load.iter().zip(&self.hop);
        let now = self.of(load);
        Standing {
            over: above(now.others, self.limits.others) + above(now.off_node, self.limits.off_node),
            worst: self.worst_of(load, true).max(self.floor),
            hop_bytes: hops.map(|(l, h)| l * h).sum(),
        }
    }
}

/// Relative difference up to which two costs are the same.
const SAME: f64 = 1e-9;

/// A fixed target time for all links, for a search that starts hot: limits do not fall, and the weight of hops
/// decreases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aim {
    /// The target time.
    pub(crate) time: f64,
    /// Time above the target that is the unit of the penalty and of the heat.
    pub(crate) excess: f64,
    /// Heat at the start and, as a share of it, at the end.
    pub(crate) heat: (f64, f64),
    /// Weight of a hop of a typical flow at the start.
    pub(crate) hop: f64,
}

/// Share of the initial hop weight at the end of a search with an aim.
const HOP_LEFT: f64 = 0.02;

/// One stage of a search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stage {
    /// Weight of one typical flow in excess, in hops of detour, at the start and at the end.
    pub(crate) stiffness: (f64, f64),
    /// Starting temperature in hops of a mean edge; 0 for pure descent.
    pub(crate) heat: f64,
    /// Probability in percent that a trial starts from a flow over a link above its limit.
    pub(crate) hot: usize,
    /// Distance of every limit below the load at the worst time, in typical flows.
    pub(crate) step: f64,
    /// A fixed target that replaces falling limits, stiffness and heat.
    pub(crate) aim: Option<Aim>,
    /// Whether units only move to places near their own.
    pub(crate) home: bool,
}

/// Cost of a placement during the search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Standing {
    /// Share by which limits are exceeded.
    pub(crate) over: f64,
    /// Worst time of the links in the objective.
    pub(crate) worst: f64,
    /// Bytes × hops.
    pub(crate) hop_bytes: f64,
}

impl Standing {
    /// Whether this is better: limits first, then worst link, then hop-bytes.
    pub(crate) fn better_than(&self, other: &Self) -> bool {
        let pairs = [
            (self.over, other.over),
            (self.worst, other.worst),
            (self.hop_bytes, other.hop_bytes),
        ];
        let differs = |(a, b): &(f64, f64)| (a - b).abs() > SAME * a.abs().max(b.abs());
        pairs.into_iter().find(differs).is_some_and(|(a, b)| a < b)
    }
}

/// A placement of units in slots with all data that is updated incrementally.
pub(crate) struct Search<'a, P: Paths> {
    paths: &'a P,
    graph: &'a Graph,
    weights: &'a Weights,
    near: &'a Near,
    at: Arrangement<'a>,
    load: Vec<f64>,
    /// Bytes that a link may carry without penalty.
    limit: Vec<f64>,
    price: Vec<f64>,
    prices: Prices,
    /// Penalty price per byte of excess.
    steep: f64,
    hot: Vec<(u32, u32)>,
    /// Whether places hold several units.
    shared: bool,
    /// Typical flow (mean over bytes) and mean edge, bytes.
    flow: f64,
    edge: f64,
    /// Mean bytes per second of the links in the objective.
    rate: f64,
    /// Number of trials so far.
    pub(crate) trials: u64,
}

impl<'a, P: Paths> Search<'a, P> {
    /// Starts with a slot for every unit.
    pub(crate) fn new(
        paths: &'a P,
        graph: &'a Graph,
        slots: &'a Slots,
        weights: &'a Weights,
        near: &'a Near,
        slot_of: &[u32],
    ) -> Self {
        let links = paths.links();
        let mut search = Self {
            paths,
            graph,
            weights,
            near,
            at: Arrangement::new(slots, graph, slot_of),
            load: vec![0.0; links],
            limit: vec![f64::INFINITY; links],
            price: vec![0.0; links],
            prices: paths.prices(),
            steep: 0.0,
            hot: Vec::new(),
            shared: slots.several(),
            flow: graph.typical_flow(),
            edge: graph.mean_flow(),
            rate: weights.mean_rate(),
            trials: 0,
        };
        search.reload();
        search
    }

    /// Slots by unit.
    pub(crate) fn into_slots(self) -> Vec<u32> {
        self.at.slot_of().to_vec()
    }

    /// Recomputes all loads, which removes accumulated rounding errors.
    fn reload(&mut self) {
        let at = &self.at;
        count(self.paths, self.graph, &|u| at.place(u), &mut self.load);
    }

    fn time(&self, link: usize) -> f64 {
        self.load[link] * self.weights.seconds_per_byte[link]
    }

    /// Cost of the current loads.
    pub(crate) fn standing(&self) -> Standing {
        self.weights.standing(&self.load)
    }

    /// The time that all but a few of the loaded links stay below.
    fn common_time(&self, worst: f64) -> f64 {
        let mut times: Vec<f64> = (0..self.load.len())
            .filter(|&l| self.weights.counts[l])
            .map(|l| self.time(l))
            .filter(|&t| t > 0.0)
            .collect();
        if times.is_empty() {
            return worst;
        }
        let above = ((times.len() as f64 * ABOVE) as usize).min(times.len() - 1);
        *times.select_nth_unstable_by(above, |a, b| b.total_cmp(a)).1
    }

    /// Recomputes loads, limits, prices and the flows over links above their limit; returns the current cost.
    fn refresh(&mut self, stage: &Stage, progress: f64) -> Standing {
        self.reload();
        let standing = self.standing();
        let worst = standing.worst;
        // Below the floor nothing is gained but the tie-breaker.
        let (floor, least) = (self.weights.floor, self.weights.floor * (1.0 - LEAST_STEP));
        let reached = floor > 0.0 && worst <= floor * (1.0 + SAME);
        let common = self.common_time(worst).max(least);
        for link in 0..self.limit.len() {
            let seconds = self.weights.seconds_per_byte[link];
            self.limit[link] = if seconds <= 0.0 {
                f64::INFINITY
            } else if let Some(aim) = stage.aim.filter(|_| self.weights.counts[link]) {
                aim.time / seconds
            } else if self.weights.counts[link] && reached {
                least / seconds
            } else if self.weights.counts[link] {
                let most = worst / seconds;
                (most * (1.0 - LEAST_STEP) - stage.step * self.flow)
                    .min(common / seconds)
                    .max(0.5 * most)
            } else {
                self.weights.limits.others / seconds
            };
        }
        let (soft, stiff) = stage.stiffness;
        self.steep = match stage.aim {
            Some(aim) => 2.0 * self.unit(stage, progress) / (aim.excess * self.rate).powi(2),
            None => soft * (stiff / soft).powf(progress) / self.flow,
        };
        for link in 0..self.price.len() {
            self.price[link] = self.slope(link);
        }
        let all: Vec<u32> = (0..self.price.len() as u32).collect();
        let price = &self.price;
        self.paths.reprice(&mut self.prices, &all, |l| price[l]);
        self.find_hot(worst);
        standing
    }

    /// The unit of heat in the cost: a mean edge's hop, or with an aim an excess of [`Aim::excess`] on one
    /// link.
    fn unit(&self, stage: &Stage, progress: f64) -> f64 {
        stage.aim.map_or(self.edge, |aim| {
            self.flow / (aim.hop * (1.0 - (1.0 - HOP_LEFT) * progress))
        })
    }

    /// Derivative of the cost of one link.
    #[inline]
    fn slope(&self, link: usize) -> f64 {
        self.weights.pull[link] + self.steep * (self.load[link] - self.limit[link]).max(0.0)
    }

    /// Lists the flows over links that are closer to the worst time than to their limit.
    fn find_hot(&mut self, worst: f64) {
        let hot: Vec<bool> = (0..self.load.len())
            .map(|l| {
                let most = worst / self.weights.seconds_per_byte[l];
                let middle = 0.5 * (self.limit[l] + most);
                self.weights.counts[l] && self.load[l] >= 0.999 * middle
            })
            .collect();
        let (paths, graph, at) = (self.paths, self.graph, &self.at);
        let crosses = |&(unit, to): &(u32, u32)| {
            let mut hit = false;
            paths.each(at.place(unit), at.place(to), |l, _| hit |= hot[l]);
            hit
        };
        let flows = |unit: u32| {
            let sent = graph.edges(unit).iter().filter(|e| e.out > 0.0);
            sent.map(move |e| (unit, e.to)).filter(crosses)
        };
        let units = graph.units() as u32;
        self.hot = if is_large(graph) {
            let part = |first| (first..units.min(first + PART)).flat_map(flows).collect();
            let parts = units.div_ceil(PART) as usize;
            each::<Vec<_>>(parts, &|number| part(number as u32 * PART)).concat()
        } else {
            (0..units).flat_map(flows).collect()
        };
    }

    /// Sum of price changes when `unit` moves between places and `partner` the other way.
    #[inline]
    fn price_change(&self, unit: u32, from: u32, to: u32, partner: u32) -> f64 {
        let mut sum = 0.0;
        for edge in self.graph.edges(unit) {
            if edge.to == partner {
                continue;
            }
            let other = self.at.place(edge.to);
            let price = |a, b| self.paths.price(&self.prices, a, b);
            if edge.out > 0.0 {
                sum += f64::from(edge.out) * (price(to, other) - price(from, other));
            }
            if edge.back > 0.0 {
                sum += f64::from(edge.back) * (price(other, to) - price(other, from));
            }
        }
        sum
    }

    /// Lower bound of a swap's change of cost.
    fn bound(&self, s: Swap) -> f64 {
        let mut sum = self.price_change(s.unit, s.from, s.to, s.partner);
        if s.partner != FREE {
            sum += self.price_change(s.partner, s.to, s.from, s.unit);
            if let Some(edge) = self.graph.edge(s.unit, s.partner) {
                let price = |x, y| self.paths.price(&self.prices, x, y);
                sum +=
                    f64::from(edge.out - edge.back) * (price(s.to, s.from) - price(s.from, s.to));
            }
        }
        sum
    }

    fn shift(&self, (unit, partner): (u32, u32), (from, to): (u32, u32), change: &mut Change) {
        for edge in self.graph.edges(unit) {
            if edge.to == partner {
                continue;
            }
            let other = self.at.place(edge.to);
            if edge.out > 0.0 {
                change.add(self.paths, from, other, -f64::from(edge.out));
                change.add(self.paths, to, other, f64::from(edge.out));
            }
            if edge.back > 0.0 {
                change.add(self.paths, other, from, -f64::from(edge.back));
                change.add(self.paths, other, to, f64::from(edge.back));
            }
        }
    }

    /// Collects the change of every load and returns the exact change of cost.
    fn exact(&self, s: Swap, change: &mut Change) -> f64 {
        self.shift((s.unit, s.partner), (s.from, s.to), change);
        if s.partner != FREE {
            self.shift((s.partner, s.unit), (s.to, s.from), change);
            if let Some(edge) = self.graph.edge(s.unit, s.partner) {
                let more = f64::from(edge.back - edge.out);
                change.add(self.paths, s.from, s.to, more);
                change.add(self.paths, s.to, s.from, -more);
            }
        }
        let (mut hops, mut excess) = (0.0, 0.0);
        for &link in &change.touched {
            let l = link as usize;
            let delta = change.delta[l];
            let over = self.load[l] - self.limit[l];
            let (old, new) = (over.max(0.0), (over + delta).max(0.0));
            excess += new * new - old * old;
            hops += self.weights.pull[l] * delta;
        }
        hops + 0.5 * self.steep * excess
    }

    /// Applies the collected changes.
    fn settle(&mut self, change: &mut Change) {
        for &link in &change.touched {
            let l = link as usize;
            self.load[l] = (self.load[l] + change.delta[l]).max(0.0);
        }
        // Prices of links below their limit never change.
        let (load, limit, price) = (&self.load, &self.limit, &mut self.price);
        let (pull, steep) = (&self.weights.pull, self.steep);
        let (delta, mark) = (&mut change.delta, &mut change.mark);
        change.touched.retain(|&link| {
            let l = link as usize;
            (delta[l], mark[l]) = (0.0, false);
            let new = pull[l] + steep * (load[l] - limit[l]).max(0.0);
            let changed = new != price[l];
            price[l] = new;
            changed
        });
        let price = &self.price;
        self.paths
            .reprice(&mut self.prices, &change.touched, |l| price[l]);
        change.touched.clear();
    }

    /// Performs a swap if the cost grows by no more than `limit`.
    fn attempt(&mut self, swap: Swap, limit: f64, change: &mut Change) -> bool {
        if self.bound(swap) > limit {
            return false;
        }
        let accept = self.exact(swap, change) <= limit;
        if accept {
            self.settle(change);
            self.at.perform(swap);
        } else {
            change.clear();
        }
        accept
    }

    /// Evaluates a batch of swaps on all threads, then performs the accepted ones in order, each after a second
    /// check. Returns whether any was performed.
    fn attempts(
        &mut self,
        stage: &Stage,
        schedule: &Schedule,
        (batch, change): (&mut Batch<Change>, &mut Change),
        rng: &mut Random,
    ) -> bool {
        let this = &*self;
        let candidate = |rng: &mut Random| this.candidate(stage, rng);
        let judge = |change: &mut Change, swap: Swap, limit: f64| {
            if this.bound(swap) > limit {
                return false;
            }
            let takes = this.exact(swap, change) <= limit;
            change.clear();
            takes
        };
        batch.judge(schedule, rng, candidate, judge);
        let mut moved = false;
        for (swap, limit) in batch.taken() {
            if let Some(swap) = self.at.again(swap) {
                moved |= self.attempt(swap, limit, change);
            }
        }
        moved
    }

    /// A promising swap, often an end of a flow over a hot link.
    fn candidate(&self, stage: &Stage, rng: &mut Random) -> Option<Swap> {
        let any = self.hot.is_empty() || rng.below(100) >= stage.hot;
        if stage.home {
            let unit = if any {
                rng.below(self.graph.units()) as u32
            } else {
                let (from, to) = self.hot[rng.below(self.hot.len())];
                if rng.below(8) == 0 { from } else { to }
            };
            return self.at.near(unit, unit, self.near, rng);
        }
        if any {
            return self.at.candidate(self.graph, self.near, rng);
        }
        let (a, b) = self.hot[rng.below(self.hot.len())];
        let (unit, other) = if rng.below(2) == 0 { (a, b) } else { (b, a) };
        if self.shared && rng.below(2) == 0 {
            return self.at.across(self.graph, unit, rng);
        }
        let around = if rng.below(3) > 0 { other } else { unit };
        self.at.near(unit, around, self.near, rng)
    }

    /// Runs one stage and ends at the best placement seen. `wide` evaluates many trials together, on all threads.
    /// Returns its cost, and whether the stage ended before its planned trials.
    pub(crate) fn run(
        &mut self,
        stage: &Stage,
        budget: Budget,
        (wide, rng): (bool, &mut Random),
    ) -> (Standing, bool) {
        let period = (self.graph.units() as u64 * 8).clamp(256, 1 << 17);
        let mut best = self.refresh(stage, 0.0);
        let mut best_slots = self.at.slot_of().to_vec();
        let mut moved = false;
        let mut schedule = match stage.aim {
            Some(aim) => Schedule::new(budget, aim.heat.0, 1e-6).down_to(aim.heat.1),
            None => Schedule::new(budget, stage.heat, 1e-6),
        };
        schedule.unit = self.unit(stage, 0.0);
        let mut next = period;
        let mut change = Change::new(self.load.len());
        let mut batch = wide.then(|| Batch::new(|| Change::new(self.load.len())));
        let trials = batch.as_ref().map_or(1, |_| Batch::<Change>::TRIALS);
        while schedule.go_on(trials) {
            if schedule.trials() >= next {
                next += period;
                if moved {
                    let now = self.refresh(stage, schedule.progress());
                    schedule.unit = self.unit(stage, schedule.progress());
                    moved = false;
                    if now.better_than(&best) {
                        best = now;
                        best_slots.copy_from_slice(self.at.slot_of());
                    }
                }
            }
            if let Some(batch) = &mut batch {
                moved |= self.attempts(stage, &schedule, (batch, &mut change), rng);
            } else if let Some(swap) = self.candidate(stage, rng) {
                moved |= self.attempt(swap, schedule.limit(rng), &mut change);
            }
        }
        self.trials += schedule.trials();
        // Where a stage is cut short depends on the budget, and only costs at fixed trials may count: then a
        // search with a larger budget has seen the same and more.
        if !schedule.is_cut() {
            self.reload();
            let now = self.standing();
            if now.better_than(&best) {
                return (now, false);
            }
        }
        self.at.restore(&best_slots);
        self.reload();
        (best, schedule.is_cut())
    }
}
