//! Max-min fair rates, updated as flows start and stop.
//!
//! Each flow crosses resources and uses `weight` of their capacity for each unit of its rate. Rates
//! are max-min fair: every flow has a *bottleneck*, a resource without spare capacity on which no
//! flow is faster, or its own limit. That property singles out one allocation, so a change is
//! repaired locally: flows near the change are filled again, and a neighbour is added only if its
//! bottleneck is no longer valid. The result equals that of filling everything again.

use super::lists::Lists;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Rates this close count as equal, and resources this full as full.
const EPSILON: f64 = 1e-10;
/// Smaller differences of rates are no change.
const SAME_RATE: f64 = 1e-13;
/// Bottleneck of a flow at its own limit, or without one yet.
const OWN: u32 = u32::MAX;
/// Marks heap entries of flows with limits; resources and flows number below it.
const LIMIT: u32 = 1 << 31;
/// Longer lists are cleared of stopped flows when most of their flows do not wait.
const LONG_LIST: usize = 32;
/// From this number of flows on, filling begins with rounds over all of them.
const ROUNDS_FROM: usize = 1024;
/// Rounds continue while they stop at least this share of the flows.
const ROUND_PAYS: usize = 16;
/// Local repair that does not converge in this number of rounds is replaced by a full fill.
const MAX_ROUNDS: usize = 40;

/// A path through the resources, shared by the flows that take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PathId(pub u32);

/// A flow, or several equal ones, between two calls of [`Sharing::start`] and [`Sharing::stop`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowId(pub u32);

/// One resource of a path and its capacity taken for each unit of the flow's rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Use {
    /// Index of the resource.
    pub resource: u32,
    /// Capacity taken for each unit of rate, above zero.
    pub weight: f32,
}

/// State of a resource that filling reads and writes.
#[derive(Clone, Copy, Debug, Default)]
struct Filling {
    /// Capacity taken by all flows that have a rate.
    taken: f64,
    /// Weight of the flows being filled that have no rate yet, and their number of uses.
    weight: f64,
    waiting: u32,
    /// The latest fill that changed it, and the latest repair that has to check it.
    epoch: u32,
    repair: u32,
    /// Highest new rate of a flow being filled that crosses the resource.
    fastest: f64,
}

/// Other state of a resource.
#[derive(Clone, Copy, Debug)]
struct Resource {
    capacity: f64,
    /// Rate of the flows with their bottleneck here, and the highest on it; infinite if no flow has its
    /// bottleneck here.
    level: f64,
    /// Rate at which the resource filled up in the latest fill; infinite if it did not.
    filled_at: f64,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    path: u32,
    bottleneck: u32,
    /// Number of equal flows; 0 when stopped.
    count: f64,
    rate: f64,
    limit: f64,
    /// Epoch of the latest repair that filled it.
    repaired: u32,
    /// Fill in which it waits for its rate.
    waiting: u32,
}

/// Flows on resources, with max-min fair rates after each [`Sharing::settle`].
#[derive(Clone, Debug, Default)]
pub struct Sharing {
    resources: Vec<Resource>,
    filling: Vec<Filling>,
    path_ends: Vec<usize>,
    uses: Vec<Use>,
    flows: Vec<Flow>,
    /// Flows by resource; stopped ones are dropped when the list is next searched.
    crossing: Lists,
    /// Flows below this number are in the lists.
    listed: u32,
    epoch: u32,
    fill_epoch: u32,
    /// Resources with changed flows or capacity since the last settlement.
    dirty: Vec<u32>,
    /// Flows started or changed since.
    fresh: Vec<u32>,
    /// The set being filled, with the rates before.
    filled: Vec<u32>,
    before: Vec<f64>,
    changed: Vec<FlowId>,
    active: Vec<u32>,
    /// Waiting flows of the set, their lowest share, and for each resource its share and the lowest
    /// share of a flow that crosses it.
    waiting: Vec<u32>,
    lowest: Vec<f64>,
    shares: Vec<[f64; 2]>,
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    /// Flows that run.
    running: usize,
    fills: u64,
    flows_filled: u64,
}

impl Sharing {
    /// Resources with their capacities (above zero); no flows.
    pub fn new(capacities: &[f64]) -> Self {
        let resource = |&capacity: &f64| Resource {
            capacity,
            level: f64::INFINITY,
            filled_at: f64::INFINITY,
        };
        Self {
            resources: capacities.iter().map(resource).collect(),
            filling: vec![Filling::default(); capacities.len()],
            path_ends: vec![0],
            crossing: Lists::new(capacities.len()),
            ..Self::default()
        }
    }

    /// Adds a path. A resource named twice takes both weights.
    pub fn add_path(&mut self, uses: &[Use]) -> PathId {
        self.uses.extend_from_slice(uses);
        self.path_ends.push(self.uses.len());
        PathId((self.path_ends.len() - 2) as u32)
    }

    /// Positions of a path's resources in `uses`.
    #[inline]
    fn span(&self, path: u32) -> std::ops::Range<usize> {
        self.path_ends[path as usize]..self.path_ends[path as usize + 1]
    }

    /// The resources of a path.
    pub fn path(&self, path: PathId) -> &[Use] {
        &self.uses[self.span(path.0)]
    }

    /// Reserves memory for more paths with `uses` uses in all, and as many flows.
    pub fn reserve(&mut self, paths: usize, uses: usize) {
        self.path_ends.reserve(paths);
        self.uses.reserve(uses);
        self.flows.reserve(paths);
        self.fresh.reserve(paths);
    }

    /// Starts `count` equal flows, none faster than `limit` (infinite for no limit).
    pub fn start(&mut self, path: PathId, count: f64, limit: f64) -> FlowId {
        let id = self.flows.len() as u32;
        self.flows.push(Flow {
            path: path.0,
            bottleneck: OWN,
            count,
            rate: 0.0,
            limit,
            repaired: 0,
            waiting: 0,
        });
        self.fresh.push(id);
        self.running += 1;
        FlowId(id)
    }

    /// Sets the number of equal flows; 0 stops the flow for good.
    pub fn set_count(&mut self, flow: FlowId, count: f64) {
        let f = &mut self.flows[flow.0 as usize];
        let change = (count - f.count) * f.rate;
        if f.count > 0.0 && count <= 0.0 {
            self.running -= 1;
        }
        f.count = count;
        let span = self.span(self.flows[flow.0 as usize].path);
        for used in &self.uses[span] {
            let filling = &mut self.filling[used.resource as usize];
            filling.taken += change * f64::from(used.weight);
            if filling.repair != self.epoch + 1 {
                filling.repair = self.epoch + 1;
                self.dirty.push(used.resource);
            }
        }
    }

    /// Ends a flow.
    pub fn stop(&mut self, flow: FlowId) {
        self.set_count(flow, 0.0);
    }

    /// Capacity of a resource.
    pub fn capacity(&self, resource: u32) -> f64 {
        self.resources[resource as usize].capacity
    }

    /// Rate of each of the equal flows, as of the last settlement.
    #[inline]
    pub fn rate(&self, flow: FlowId) -> f64 {
        self.flows[flow.0 as usize].rate
    }

    /// Capacity of a resource that is taken.
    pub fn taken(&self, resource: u32) -> f64 {
        self.filling[resource as usize].taken
    }

    /// The bottleneck of a flow; `None` if it runs at its own limit.
    pub fn bottleneck(&self, flow: FlowId) -> Option<u32> {
        let b = self.flows[flow.0 as usize].bottleneck;
        (b != OWN).then_some(b)
    }

    /// The path of a flow.
    pub fn path_of(&self, flow: FlowId) -> PathId {
        PathId(self.flows[flow.0 as usize].path)
    }

    /// Running flows with their counts.
    pub fn running(&self) -> impl Iterator<Item = (FlowId, f64)> + '_ {
        let flows = self.flows.iter().enumerate();
        flows.filter_map(|(i, f)| (f.count > 0.0).then_some((FlowId(i as u32), f.count)))
    }

    /// Flows with a new rate since the last settlement.
    pub fn changed(&self) -> &[FlowId] {
        &self.changed
    }

    /// Number of fills, and number of flows that they filled in all.
    pub fn effort(&self) -> (u64, u64) {
        (self.fills, self.flows_filled)
    }

    /// Makes all rates max-min fair again.
    pub fn settle(&mut self) {
        self.epoch += 1;
        self.changed.clear();
        self.filled.clear();
        self.before.clear();
        let mut check = std::mem::take(&mut self.dirty);
        let mut fresh = std::mem::take(&mut self.fresh);
        fresh.drain(..).for_each(|flow| self.join(flow));
        self.fresh = fresh;
        for &r in &check {
            self.resources[r as usize].filled_at = f64::INFINITY;
            self.filling[r as usize].fastest = 0.0;
        }
        for round in 0.. {
            let before = self.filled.len();
            if before < self.running && round < MAX_ROUNDS {
                check.iter().for_each(|&r| self.evict_from(r));
            } else if before < self.running {
                (0..self.flows.len() as u32).for_each(|flow| self.join(flow));
            }
            if self.filled.len() == if round == 0 { 0 } else { before } {
                break;
            }
            self.fill(&mut check);
        }
        for &r in &check {
            let (full, fastest) = (self.is_full(r), self.filling[r as usize].fastest);
            let resource = &mut self.resources[r as usize];
            resource.level = if resource.filled_at.is_finite() {
                resource.filled_at
            } else if full {
                resource.level.max(fastest)
            } else {
                f64::INFINITY
            };
        }
        for (&flow, before) in self.filled.iter().zip(&self.before) {
            let now = self.flows[flow as usize].rate;
            if (now - before).abs() > SAME_RATE * now {
                self.changed.push(FlowId(flow));
            }
        }
        check.clear();
        self.dirty = check;
    }

    /// Enters flows started since the last settlement into the lists of their resources.
    fn list_new_flows(&mut self) {
        let new = self.listed..self.flows.len() as u32;
        if new.is_empty() {
            return;
        }
        let (flows, all, ends) = (&self.flows, &self.uses, &self.path_ends);
        let uses = |flow: u32| {
            let f = &flows[flow as usize];
            let at = f.path as usize;
            // Stopped flows need no entry.
            let end = if f.count > 0.0 {
                ends[at + 1]
            } else {
                ends[at]
            };
            &all[ends[at]..end]
        };
        if new.len() > self.resources.len() / 16 {
            let mut more = vec![0u32; self.resources.len()];
            for used in new.clone().flat_map(uses) {
                more[used.resource as usize] += 1;
            }
            self.crossing.reserve(&more);
        }
        for flow in new {
            for used in uses(flow) {
                self.crossing.push(used.resource, flow);
            }
        }
        self.listed = self.flows.len() as u32;
    }

    /// Puts a flow into the set to fill.
    #[inline]
    fn join(&mut self, flow: u32) {
        let f = &mut self.flows[flow as usize];
        if f.repaired != self.epoch && f.count > 0.0 {
            f.repaired = self.epoch;
            self.filled.push(flow);
            self.before.push(f.rate);
        }
    }

    /// Adds to the set the flows whose bottleneck at a resource is no longer valid, and those that
    /// are faster than a filled flow that has its bottleneck there.
    fn evict_from(&mut self, r: u32) {
        let resource = self.resources[r as usize];
        let Filling { taken, fastest, .. } = self.filling[r as usize];
        let full = self.is_full(r);
        let over = taken > resource.capacity * (1.0 + EPSILON);
        let (level, filled_at) = (resource.level, resource.filled_at);
        let owners_hold = full && fastest <= level * (1.0 + EPSILON);
        let others_hold = filled_at >= level * (1.0 - EPSILON);
        let nobody_has_it = level == f64::INFINITY && filled_at == f64::INFINITY;
        if !over && (nobody_has_it || (level.is_finite() && owners_hold && others_hold)) {
            return;
        }
        self.list_new_flows();
        let flows = &self.flows;
        self.crossing
            .retain(r, |flow| flows[flow as usize].count > 0.0);
        let mut top = fastest;
        for &flow in self.crossing.get(r) {
            let f = &self.flows[flow as usize];
            if f.repaired != self.epoch {
                top = top.max(f.rate);
            }
        }
        for i in 0..self.crossing.get(r).len() {
            let flow = self.crossing.get(r)[i];
            let f = &self.flows[flow as usize];
            let lost = f.bottleneck == r && (!full || f.rate < top * (1.0 - EPSILON));
            if over || lost || f.rate > filled_at * (1.0 + EPSILON) {
                self.join(flow);
            }
        }
    }

    /// Progressive filling of the set with all other rates fixed. Resources on the way are added to `check`.
    fn fill(&mut self, check: &mut Vec<u32>) {
        self.fills += 1;
        self.flows_filled += self.filled.len() as u64;
        self.fill_epoch += 1;
        let fill_epoch = self.fill_epoch;
        self.active.clear();
        for &flow in &self.filled {
            let span = self.span(self.flows[flow as usize].path);
            let f = &mut self.flows[flow as usize];
            f.waiting = fill_epoch;
            let (count, taken) = (f.count, f.count * f.rate);
            for used in &self.uses[span] {
                let filling = &mut self.filling[used.resource as usize];
                if filling.epoch != fill_epoch {
                    filling.epoch = fill_epoch;
                    filling.weight = 0.0;
                    filling.waiting = 0;
                    filling.fastest = 0.0;
                    self.active.push(used.resource);
                }
                filling.weight += count * f64::from(used.weight);
                filling.waiting += 1;
                filling.taken -= taken * f64::from(used.weight);
            }
        }
        for &r in &self.active {
            self.resources[r as usize].filled_at = f64::INFINITY;
            let filling = &mut self.filling[r as usize];
            if filling.repair != self.epoch {
                filling.repair = self.epoch;
                check.push(r);
            }
        }
        self.waiting.clear();
        self.waiting.extend_from_slice(&self.filled);
        let mut pays = self.filled.len() >= ROUNDS_FROM;
        while pays {
            let before = self.waiting.len();
            self.round();
            pays = before - self.waiting.len() > before / ROUND_PAYS && !self.waiting.is_empty();
        }
        if !self.waiting.is_empty() {
            self.fill_in_order();
        }
    }

    /// One round over all waiting flows: every resource with the lowest share of all resources that its
    /// flows cross fills up at once. The order among such resources does not matter, because none of them
    /// leaves spare capacity for the others' flows.
    fn round(&mut self) {
        self.shares.resize(self.resources.len(), [0.0; 2]);
        for i in 0..self.active.len() {
            let r = self.active[i];
            if self.filling[r as usize].waiting > 0 {
                self.shares[r as usize] = [self.share(r), f64::INFINITY];
            }
        }
        self.lowest.clear();
        for &flow in &self.waiting {
            let f = &self.flows[flow as usize];
            let uses = &self.uses[self.span(f.path)];
            let shares = uses.iter().map(|u| self.shares[u.resource as usize][0]);
            let lowest = shares.fold(f.limit, f64::min);
            for used in uses {
                let least = &mut self.shares[used.resource as usize][1];
                *least = least.min(lowest);
            }
            self.lowest.push(lowest);
        }
        let mut waiting = std::mem::take(&mut self.waiting);
        let mut kept = 0;
        for i in 0..waiting.len() {
            let (flow, lowest) = (waiting[i], self.lowest[i]);
            let f = &self.flows[flow as usize];
            let fills = |used: &&Use| {
                let [share, least] = self.shares[used.resource as usize];
                share <= lowest * (1.0 + SAME_RATE) && least >= share * (1.0 - SAME_RATE)
            };
            let full = self.uses[self.span(f.path)].iter().find(fills);
            match full.map(|used| used.resource) {
                Some(r) => {
                    self.resources[r as usize].filled_at = self.shares[r as usize][0];
                    self.freeze(flow, lowest, r);
                }
                None if f.limit <= lowest => self.freeze(flow, lowest, OWN),
                None => {
                    waiting[kept] = flow;
                    kept += 1;
                }
            }
        }
        waiting.truncate(kept);
        self.waiting = waiting;
    }

    /// Stops waiting flows in the order in which resources fill up.
    fn fill_in_order(&mut self) {
        self.list_new_flows();
        let mut entries = std::mem::take(&mut self.heap).into_vec();
        entries.clear();
        for &r in &self.active {
            if self.filling[r as usize].waiting > 0 {
                entries.push(Reverse((self.share(r).to_bits(), r)));
            }
        }
        for &flow in &self.waiting {
            let limit = self.flows[flow as usize].limit;
            if limit < f64::INFINITY {
                entries.push(Reverse((limit.to_bits(), flow | LIMIT)));
            }
        }
        self.heap = BinaryHeap::from(entries);
        let mut left = self.waiting.len();
        while left > 0 {
            let Some(Reverse((share, who))) = self.heap.pop() else {
                break;
            };
            left -= self.stop_at(f64::from_bits(share), who);
        }
    }

    /// Stops the flows that a heap entry limits, unless it is out of date; returns their number.
    fn stop_at(&mut self, share: f64, who: u32) -> usize {
        if who & LIMIT != 0 {
            let flow = who & !LIMIT;
            let waits = self.flows[flow as usize].waiting == self.fill_epoch;
            if waits {
                self.freeze(flow, share, OWN);
            }
            return usize::from(waits);
        }
        if self.filling[who as usize].waiting == 0 {
            return 0;
        }
        let now = self.share(who);
        if now > share * (1.0 + SAME_RATE) {
            self.heap.push(Reverse((now.to_bits(), who)));
            return 0;
        }
        self.resources[who as usize].filled_at = now;
        let flows = &self.flows;
        let waiting = self.filling[who as usize].waiting as usize;
        if self.crossing.get(who).len() > LONG_LIST.max(4 * waiting) {
            self.crossing
                .retain(who, |flow| flows[flow as usize].count > 0.0);
        }
        let mut stopped = 0;
        for i in 0..self.crossing.get(who).len() {
            let flow = self.crossing.get(who)[i];
            if self.flows[flow as usize].waiting == self.fill_epoch {
                self.freeze(flow, now, who);
                stopped += 1;
            }
        }
        stopped
    }

    /// Gives a waiting flow its rate.
    #[inline]
    fn freeze(&mut self, flow: u32, rate: f64, bottleneck: u32) {
        let span = self.span(self.flows[flow as usize].path);
        let f = &mut self.flows[flow as usize];
        f.waiting = 0;
        f.rate = rate;
        f.bottleneck = bottleneck;
        let (count, taken) = (f.count, f.count * rate);
        for used in &self.uses[span] {
            let filling = &mut self.filling[used.resource as usize];
            let weight = f64::from(used.weight);
            filling.taken += taken * weight;
            filling.weight -= count * weight;
            filling.waiting -= 1;
            filling.fastest = filling.fastest.max(rate);
        }
    }

    /// Rate at which the waiting flows fill a resource up.
    #[inline]
    fn share(&self, r: u32) -> f64 {
        let filling = &self.filling[r as usize];
        let free = self.resources[r as usize].capacity - filling.taken;
        (free / filling.weight).max(f64::MIN_POSITIVE)
    }

    #[inline]
    fn is_full(&self, r: u32) -> bool {
        self.filling[r as usize].taken >= self.resources[r as usize].capacity * (1.0 - EPSILON)
    }
}
