//! The best of all placements of a small job, by branch and bound.
//!
//! Tasks are placed one after the other, the cheapest place first. Loads only grow, so the cost of a part of the tasks
//! is a bound of all placements that it begins; for sums, and for the tie-breaker of times, the cheapest way to reach
//! the placed partners is added for every other task. Of placements that differ by an exchange of equal places or equal
//! tasks only the first is searched. Phases that follow one another have loads of their own, and their worst times add up.

use crate::evaluate::{Evaluation, is_network, less, pair_costs};
use crate::problem::{Objective, Problem};
use crate::schedule::Stop;
use hopbyte_fabric::{Exchange, LinkId};
use std::collections::HashMap;

/// Maximum number of tasks and places.
const MOST: (usize, usize) = (10, 64);

/// Maximum number of link loads that a search changes, and of fours of distances that it looks up, so that it ends in a
/// second or two.
const STEPS: u64 = 150_000_000;

/// Steps between two looks at the flag and the clock: about a millisecond.
const STRIDE: u64 = 1 << 16;

/// Result of a complete search.
pub(crate) struct Optimum {
    /// Place of every task, if better than the incumbent.
    pub(crate) place_of: Option<Vec<u32>>,
    /// Whether limits excluded no placement, so that the optimum is a bound of all placements.
    pub(crate) free: bool,
}

/// Cost of some placed tasks.
#[derive(Clone, Copy, Debug, Default)]
struct Partial {
    worst: f64,
    network: f64,
    host: f64,
    off_node: f64,
    hop_bytes: f64,
    cost: f64,
}

/// A link that a route crosses, and the share of the bytes.
type Step = (u32, f64);

struct Exact<'a> {
    objective: Objective<'a>,
    tasks: usize,
    places: usize,
    room: Vec<u32>,
    /// By task × task.
    payload: Vec<f64>,
    /// Bytes on the wire, of every phase if phases follow one another.
    wire: Vec<Vec<f64>>,
    /// By place × place.
    routes: Vec<Vec<Step>>,
    hops: Vec<f64>,
    /// Whether bytes stay inside hosts.
    inside: Vec<bool>,
    costs: Vec<f64>,
    /// By link of the routes.
    seconds: Vec<f64>,
    network: Vec<bool>,
    /// Bytes by link, of every phase, and then the worst time of every phase.
    load: Vec<f64>,
    /// Tasks in the order of their placement; for each the earlier equal task, if any.
    order: Vec<usize>,
    twin: Vec<Option<usize>>,
    /// The first equal place of every place.
    class: Vec<usize>,
    /// Time of host links and bytes off node that may not be exceeded.
    limits: Option<(f64, f64)>,
    place_of: Vec<usize>,
    /// Hop-bytes and cost between each task, on each place, and the placed tasks; a level for each of these.
    near: Vec<Vec<(f64, f64)>>,
    best: (f64, f64),
    found: Option<Vec<u32>>,
    free: bool,
    steps: u64,
    /// Steps at which the flag and the clock are looked at next.
    look: u64,
    stop: Stop,
}

/// Searches all placements; `None` if the job is too large, the search takes too long, or `incumbent` cannot be compared.
/// `reference` is the placement whose limits hold, where the objective has some.
pub(crate) fn exact(
    problem: &Problem<'_>,
    incumbent: &Evaluation,
    reference: &Evaluation,
    stop: Stop,
) -> Option<Optimum> {
    let (tasks, places) = (problem.exchange.tasks(), problem.allocation.nodes().len());
    if tasks > MOST.0 || places > MOST.1 {
        return None;
    }
    let mut all = Exact::new(problem, incumbent, reference, stop)?;
    let done = all.place(0, Partial::default());
    done.then_some(Optimum {
        place_of: all.found,
        free: all.free,
    })
}

impl<'a> Exact<'a> {
    fn new(
        problem: &Problem<'a>,
        incumbent: &Evaluation,
        reference: &Evaluation,
        stop: Stop,
    ) -> Option<Self> {
        let (tasks, places) = (problem.exchange.tasks(), problem.allocation.nodes().len());
        let dense = |exchange: &Exchange| {
            let mut bytes = vec![0.0; tasks * tasks];
            for (from, message) in exchange.iter() {
                bytes[from as usize * tasks + message.to as usize] += message.bytes;
            }
            bytes
        };
        let payload = dense(problem.exchange);
        let wire = match problem.in_turn() {
            true => problem.turns.iter().map(|t| dense(t.messages())).collect(),
            false => vec![dense(problem.loads.unwrap_or(problem.exchange))],
        };
        let mut number: HashMap<LinkId, u32> = HashMap::new();
        let mut links = Vec::new();
        let mut routes = Vec::new();
        let (mut hops, mut inside) = (Vec::new(), Vec::new());
        let mut shares = Vec::new();
        for a in 0..places as u32 {
            for b in 0..places as u32 {
                shares.clear();
                let ends = (problem.node_at(a), problem.node_at(b));
                if a != b {
                    let routed =
                        problem
                            .routing
                            .shares(problem.fabric, ends.0, ends.1, &mut shares);
                    routed.ok()?;
                }
                let step = |&(link, share): &(LinkId, f64)| {
                    let number = *number.entry(link).or_insert_with(|| {
                        links.push(link);
                        links.len() as u32 - 1
                    });
                    (number, share)
                };
                routes.push(shares.iter().map(step).collect());
                let hop = shares.iter().filter(|s| problem.fabric.is_hop(s.0));
                inside.push(problem.is_inside(ends.0, ends.1));
                hops.push(hop.map(|s| s.1).sum());
            }
        }
        let costs = match problem.objective {
            Objective::RouteCost(costs) => pair_costs(costs).into_iter().map(f64::from).collect(),
            _ => vec![0.0; places * places],
        };
        let mut exact = Self {
            objective: problem.objective,
            tasks,
            places,
            room: problem.allocation.nodes().iter().map(|n| n.1).collect(),
            load: vec![0.0; (links.len() + 1) * wire.len()],
            wire,
            payload,
            routes,
            hops,
            inside,
            costs,
            seconds: links
                .iter()
                .map(|&l| 1.0 / problem.live_capacity(l))
                .collect(),
            network: links.iter().map(|&l| is_network(problem, l)).collect(),
            order: Vec::new(),
            twin: Vec::new(),
            class: Vec::new(),
            limits: (problem.objective.has_limits())
                .then_some((reference.worst_host_link_seconds, reference.off_node_bytes)),
            place_of: vec![usize::MAX; tasks],
            near: vec![vec![(0.0, 0.0); tasks * places]; tasks + 1],
            best: incumbent.score(&problem.objective),
            found: None,
            free: true,
            steps: 0,
            look: 0,
            stop,
        };
        exact.order = exact.by_weight();
        exact.twin = (0..tasks).map(|i| exact.equal_before(i)).collect();
        exact.class = exact.classes();
        Some(exact)
    }

    /// Task by task the one with most bytes to those before it, the heaviest first.
    fn by_weight(&self) -> Vec<usize> {
        let n = self.tasks;
        let both = |a: usize, b: usize| -> f64 {
            let each = self.wire.iter();
            each.map(|wire| wire[a * n + b] + wire[b * n + a]).sum()
        };
        let mut order: Vec<usize> = Vec::new();
        while order.len() < n {
            let key = |t: usize| -> (f64, f64) {
                let near = order.iter().map(|&o| both(t, o)).sum();
                (near, (0..n).map(|o| both(t, o)).sum())
            };
            let rest = (0..n).filter(|t| !order.contains(t));
            let next = rest.max_by(|&a, &b| {
                let (a_key, b_key) = (key(a), key(b));
                let by = a_key
                    .0
                    .total_cmp(&b_key.0)
                    .then(a_key.1.total_cmp(&b_key.1));
                by.then(b.cmp(&a))
            });
            order.extend(next);
        }
        order
    }

    /// An earlier task of the order that can be exchanged with the one at `at` without any change of the traffic.
    fn equal_before(&self, at: usize) -> Option<usize> {
        let (n, b) = (self.tasks, self.order[at]);
        let same = |bytes: &[f64], a: usize| {
            bytes[a * n + b] == bytes[b * n + a]
                && (0..n).filter(|&c| c != a && c != b).all(|c| {
                    bytes[a * n + c] == bytes[b * n + c] && bytes[c * n + a] == bytes[c * n + b]
                })
        };
        let mut before = self.order[..at].iter().rev().copied();
        before.find(|&a| same(&self.payload, a) && self.wire.iter().all(|w| same(w, a)))
    }

    /// For every place the first one that can be exchanged with it without any change of costs.
    fn classes(&self) -> Vec<usize> {
        let p = self.places;
        let mut users: Vec<Vec<usize>> = vec![Vec::new(); self.seconds.len()];
        for a in 0..p {
            for b in 0..p {
                for &(link, _) in &self.routes[a * p + b] {
                    users[link as usize].extend([a * p + b]);
                }
            }
        }
        // The place that is an end of every route over a link.
        let own: Vec<Option<usize>> = users
            .iter()
            .map(|pairs| {
                let first = pairs.first()?;
                let ends = [first / p, first % p];
                ends.into_iter()
                    .find(|&e| pairs.iter().all(|x| x / p == e || x % p == e))
            })
            .collect();
        let mut class: Vec<usize> = (0..p).collect();
        for b in 0..p {
            let equal = |a: &usize| {
                class[*a] == *a && self.room[*a] == self.room[b] && self.exchangeable(*a, b, &own)
            };
            if let Some(a) = (0..b).find(equal) {
                class[b] = a;
            }
        }
        class
    }

    fn exchangeable(&self, a: usize, b: usize, own: &[Option<usize>]) -> bool {
        let p = self.places;
        let mut other: HashMap<u32, u32> = HashMap::new();
        let mut matched = |x: &[Step], y: &[Step]| {
            x.len() == y.len()
                && x.iter().zip(y).all(|(&(l, share), &(m, part))| {
                    let (i, j) = (l as usize, m as usize);
                    let moves = own[i] == Some(a)
                        && own[j] == Some(b)
                        && self.seconds[i] == self.seconds[j]
                        && self.network[i] == self.network[j];
                    let back = own[i] == Some(b)
                        && own[j] == Some(a)
                        && self.seconds[i] == self.seconds[j]
                        && self.network[i] == self.network[j];
                    share == part
                        && ((l == m && own[i] != Some(a) && own[i] != Some(b)) || moves || back)
                        && *other.entry(l).or_insert(m) == m
                        && *other.entry(m).or_insert(l) == l
                })
        };
        let alike =
            |x: usize, y: usize| self.hops[x] == self.hops[y] && self.costs[x] == self.costs[y];
        let others = (0..p).filter(|&c| c != a && c != b);
        let mut pairs: Vec<(usize, usize)> = others
            .flat_map(|c| [(a * p + c, b * p + c), (c * p + a, c * p + b)])
            .collect();
        pairs.push((a * p + b, b * p + a));
        pairs
            .into_iter()
            .all(|(x, y)| alike(x, y) && matched(&self.routes[x], &self.routes[y]))
    }

    /// Adds the traffic between a task and the placed ones; the old loads go to `undo`.
    fn add(
        &mut self,
        task: usize,
        place: usize,
        mut sum: Partial,
        undo: &mut Vec<Step>,
    ) -> Partial {
        let (n, p, links) = (self.tasks, self.places, self.seconds.len());
        let worst = self.wire.len() * links;
        for other in 0..n {
            let at = self.place_of[other];
            if at == usize::MAX || at == place || other == task {
                continue;
            }
            for (pair, way) in [
                (task * n + other, place * p + at),
                (other * n + task, at * p + place),
            ] {
                let payload = self.payload[pair];
                if payload <= 0.0 && self.wire.iter().all(|wire| wire[pair] <= 0.0) {
                    continue;
                }
                sum.off_node += if self.inside[way] { 0.0 } else { payload };
                sum.hop_bytes += payload * self.hops[way];
                sum.cost += payload * self.costs[way];
                for (turn, wire) in self.wire.iter().enumerate() {
                    // One phase may have payload without bytes on the wire.
                    if wire[pair] <= 0.0 && self.wire.len() > 1 {
                        continue;
                    }
                    let mut highest = self.load[worst + turn];
                    for &(link, share) in &self.routes[way] {
                        let (l, at) = (link as usize, turn * links + link as usize);
                        undo.push((at as u32, self.load[at]));
                        self.load[at] += wire[pair] * share;
                        let time = self.load[at] * self.seconds[l];
                        highest = highest.max(time);
                        let part = if self.network[l] {
                            &mut sum.network
                        } else {
                            &mut sum.host
                        };
                        *part = part.max(time);
                    }
                    if highest > self.load[worst + turn] {
                        undo.push(((worst + turn) as u32, self.load[worst + turn]));
                        self.load[worst + turn] = highest;
                    }
                    self.steps += self.routes[way].len() as u64;
                }
            }
        }
        sum.worst = self.load[worst..].iter().sum();
        sum
    }

    fn take_back(&mut self, undo: &mut Vec<Step>) {
        while let Some((link, load)) = undo.pop() {
            self.load[link as usize] = load;
        }
    }

    /// Objective and tie-breaker of placed tasks, with `rest` = (hop-bytes, cost) of the others at least.
    fn score(&self, sum: &Partial, rest: (f64, f64)) -> (f64, f64) {
        match self.objective {
            Objective::WorstLink => (sum.worst, sum.hop_bytes + rest.0),
            Objective::WorstNetworkLink => (sum.network, sum.hop_bytes + rest.0),
            Objective::HopBytes => (sum.hop_bytes + rest.0, sum.worst),
            Objective::RouteCost(_) => (sum.cost + rest.1, sum.worst),
        }
    }

    fn improves(&self, score: (f64, f64)) -> bool {
        less(score.0, self.best.0) || (!less(self.best.0, score.0) && less(score.1, self.best.1))
    }

    /// Least hop-bytes and cost of the traffic between unplaced and placed tasks, each on its best place. The level
    /// before `depth` is that of the same tasks without the last.
    fn rest(&mut self, depth: usize) -> (f64, f64) {
        let (n, p) = (self.tasks, self.places);
        let last = self.order[depth - 1];
        let at = self.place_of[last];
        let (before, after) = self.near.split_at_mut(depth);
        let (before, after) = (&before[depth - 1], &mut after[0]);
        let mut sum = (0.0, 0.0);
        for &task in &self.order[depth..] {
            let pair = (self.payload[task * n + last], self.payload[last * n + task]);
            let mut least = (f64::INFINITY, f64::INFINITY);
            for place in 0..p {
                let (to, back) = (place * p + at, at * p + place);
                let far = before[task * p + place];
                let here = (
                    far.0 + (pair.0 * self.hops[to] + pair.1 * self.hops[back]),
                    far.1 + (pair.0 * self.costs[to] + pair.1 * self.costs[back]),
                );
                after[task * p + place] = here;
                if self.room[place] > 0 {
                    least = (least.0.min(here.0), least.1.min(here.1));
                }
            }
            sum = (sum.0 + least.0, sum.1 + least.1);
        }
        self.steps += ((n - depth) * p) as u64 / 4;
        sum
    }

    /// Whether the search must end; asked every [`STRIDE`] steps.
    fn is_stopped(&mut self) -> bool {
        self.look = self.steps + STRIDE;
        self.stop.is_set()
    }

    /// Whether limits are kept.
    fn keeps(&mut self, sum: &Partial) -> bool {
        let above = |(host, off)| less(host, sum.host) || less(off, sum.off_node);
        let keeps = !self.limits.is_some_and(above);
        self.free &= keeps;
        keeps
    }

    /// Places the tasks from `depth` on; false if the search takes too long.
    fn place(&mut self, depth: usize, before: Partial) -> bool {
        if depth == self.tasks {
            let score = self.score(&before, (0.0, 0.0));
            if self.improves(score) {
                self.best = score;
                self.found = Some(self.place_of.iter().map(|&p| p as u32).collect());
            }
            return true;
        }
        if self.steps > STEPS || (self.steps >= self.look && self.is_stopped()) {
            return false;
        }
        let task = self.order[depth];
        let least = self.twin[depth].map_or(0, |twin| self.place_of[twin]);
        let mut undo = Vec::new();
        let mut next: Vec<((f64, f64), usize, Partial)> = Vec::new();
        for place in least..self.places {
            if self.room[place] == 0 || self.has_equal_before(place) {
                continue;
            }
            let sum = self.add(task, place, before, &mut undo);
            self.take_back(&mut undo);
            if !self.keeps(&sum) || !self.improves(self.score(&sum, (0.0, 0.0))) {
                continue;
            }
            next.push((self.score(&sum, (0.0, 0.0)), place, sum));
        }
        next.sort_by(|(a, p, _), (b, q, _)| {
            let by = a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1));
            by.then(p.cmp(q))
        });
        for (_, place, sum) in next {
            self.place_of[task] = place;
            self.room[place] -= 1;
            let rest = self.rest(depth + 1);
            let mut done = true;
            if self.improves(self.score(&sum, rest)) {
                self.place_of[task] = usize::MAX;
                self.add(task, place, before, &mut undo);
                self.place_of[task] = place;
                done = self.place(depth + 1, sum);
                self.take_back(&mut undo);
            }
            self.place_of[task] = usize::MAX;
            self.room[place] += 1;
            if !done {
                return false;
            }
        }
        true
    }

    /// Whether an empty place before this empty one is equal to it.
    fn has_equal_before(&self, place: usize) -> bool {
        let empty = |p: usize| !self.place_of.contains(&p);
        self.class[place] != place
            && empty(place)
            && (0..place).any(|p| self.class[p] == self.class[place] && empty(p))
    }
}
