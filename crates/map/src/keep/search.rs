//! Annealing over orders of hosts, with exact link loads: blocks, and runs of neighbouring blocks, swap their hosts.

use super::{Hosts, NONE, pack, pair_cost, quotient};
use crate::change::{Change, count};
use crate::graph::{Edge, Graph};
use crate::paths::Paths;
use crate::problem::{Objective, Problem};
use crate::schedule::{Effort, Schedule};
use crate::search::Weights;
use crate::weights::weights;
use hopbyte_fabric::random::Random;
use std::collections::HashMap;

/// Power of the time of a link in the cost, by its share of the worst at the last look, in the first half of a run and
/// in the second: close to the maximum, and lower if fewer links are as slow.
const POWERS: (i32, i32) = (8, 32);

/// Weight of all hop-bytes in the cost, where the worst link has the weight 1.
const HOPS: f64 = 0.05;

/// Weight of a link outside the objective that is slower than its limit, by share.
const OVER: f64 = 10.0;

/// Share of the worst time from which the blocks behind a link are tried first.
const HOT: f64 = 0.98;

/// Blocks that one move swaps. Runs of blocks are groups of ranks of a plan as a rule.
const SIZES: [usize; 8] = [1, 1, 1, 1, 2, 4, 8, 16];

/// Swaps from which the heat of a run is taken, and its share of their median increase of cost.
const SAMPLES: usize = 33;
const HEAT: f64 = 0.3;

/// Cost of the bytes between two places.
type PairCost = Box<dyn Fn(u32, u32) -> f64 + Sync>;

/// What all runs share: the traffic of the blocks, routes between the places of hosts, and weights of links.
pub(super) struct Machine<'a, P: Paths> {
    paths: &'a P,
    graph: std::borrow::Cow<'a, Graph>,
    blocks: Graph,
    /// First rank (or only unit of the graph) of every block, and the end.
    first: Vec<u32>,
    block_of: Vec<u32>,
    /// Ranks of every block, and slots of every host.
    sizes: Vec<usize>,
    rooms: Vec<usize>,
    /// Place of every slot of every host.
    places: Vec<Vec<u32>>,
    weights: Weights,
    cost: Option<PairCost>,
    linear: bool,
    /// Areas of hosts, by host: hosts of one unit, hosts of one leaf.
    areas: [Vec<u32>; 2],
    members: [Vec<Vec<u32>>; 2],
}

impl<'a, P: Paths> Machine<'a, P> {
    pub(super) fn new(
        problem: &Problem<'_>,
        hosts: &Hosts<'_>,
        paths: &'a P,
        graph: &'a Graph,
    ) -> Self {
        let place = problem.places();
        let places: Vec<Vec<u32>> = hosts
            .slots
            .iter()
            .map(|slots| slots.iter().map(|s| place[s.node.index()]).collect())
            .collect();
        let blocks = quotient(problem.exchange, hosts);
        let single = places.iter().all(|p| p.iter().all(|&at| at == p[0]));
        let rooms = places.iter().map(Vec::len).collect();
        let sizes = (0..hosts.names.len()).map(|b| hosts.size(b)).collect();
        // Ranks on one place have the same routes.
        let (graph, first, block_of, places) = if single {
            let merged = graph.quotient(&hosts.block_of(), hosts.blocks());
            let numbers: Vec<u32> = (0..=hosts.blocks() as u32).collect();
            let block_of = numbers[..hosts.blocks()].to_vec();
            let one = places.iter().map(|p| vec![p[0]]).collect();
            (std::borrow::Cow::Owned(merged), numbers, block_of, one)
        } else {
            let graph = std::borrow::Cow::Borrowed(graph);
            (graph, hosts.first.clone(), hosts.block_of(), places)
        };
        let inside = problem.fabric.inside();
        let unit = |host: usize| {
            let unit = inside.and_then(|i| i.unit_of(hosts.node(host)));
            unit.map_or((false, host as u32), |u| (true, u))
        };
        let (units, in_units) = numbered(hosts.names.len(), unit);
        let (leaves, on_leaves) = numbered(hosts.names.len(), |h| problem.leaf(hosts.node(h)));
        let cost = pair_cost(problem).map(|f| Box::new(f) as PairCost);
        let linear = matches!(
            problem.objective,
            Objective::HopBytes | Objective::RouteCost(_)
        );
        Self {
            weights: weights(problem, paths),
            paths,
            graph,
            blocks,
            first,
            block_of,
            sizes,
            rooms,
            places,
            cost,
            linear,
            areas: [units, leaves],
            members: [in_units, on_leaves],
        }
    }

    /// Orders that keep groups of blocks with much mutual traffic in units of hosts, and on leaves.
    pub(super) fn packed(&self, hosts: &Hosts<'_>) -> Vec<Vec<u32>> {
        let most = self.sizes.iter().copied().max().unwrap_or(0);
        if self.rooms.iter().any(|&room| room < most) {
            return Vec::new();
        }
        let natural = hosts.sorted_all();
        let [units, leaves] = &self.members;
        let mut kinds = vec![leaves];
        if units.len() < hosts.names.len() {
            kinds.insert(0, units);
        }
        let tree = pack::Tree::of(&self.blocks);
        kinds
            .into_iter()
            .flat_map(|areas| {
                let sorted = |area: &Vec<u32>| {
                    let mut area = area.clone();
                    area.sort_by_key(|&h| natural[h as usize]);
                    area
                };
                let mut areas: Vec<Vec<u32>> = areas.iter().map(sorted).collect();
                areas.sort_by_key(|a| (self.areas[1][a[0] as usize], natural[a[0] as usize]));
                let in_turn: Vec<u32> = areas.concat();
                [tree.packed(&areas), in_turn[..hosts.blocks()].to_vec()]
            })
            .collect()
    }

    fn place(&self, host_of: &[u32], rank: u32) -> u32 {
        let block = self.block_of[rank as usize];
        let local = rank - self.first[block as usize];
        self.places[host_of[block as usize] as usize][local as usize]
    }
}

/// Numbers of groups by member, and their members.
fn numbered<K: std::hash::Hash + Eq>(
    count: usize,
    key: impl Fn(usize) -> K,
) -> (Vec<u32>, Vec<Vec<u32>>) {
    let mut index: HashMap<K, usize> = HashMap::new();
    let (mut of, mut members) = (Vec::new(), Vec::<Vec<u32>>::new());
    for one in 0..count {
        let at = *index.entry(key(one)).or_insert_with(|| {
            members.push(Vec::new());
            members.len() - 1
        });
        of.push(at as u32);
        members[at].push(one as u32);
    }
    (of, members)
}

/// The state of a run.
pub(super) struct Walk<'m, 'a, P: Paths> {
    machine: &'m Machine<'a, P>,
    /// Host of every block, then the hosts without one.
    host_of: Vec<u32>,
    block_at: Vec<u32>,
    load: Vec<f64>,
    /// Bytes × cost of pairs.
    pairs: f64,
    /// Reciprocal of the worst time, and of all hop-bytes, at the last look.
    scale: (f64, f64),
    others: f64,
    power: i32,
    /// Blocks behind the slowest links.
    hot: Vec<u32>,
    moved: Vec<bool>,
}

/// Worst time and hop-bytes, or the linear objective.
type Cost = (f64, f64);

impl<'m, 'a, P: Paths> Walk<'m, 'a, P> {
    pub(super) fn new(machine: &'m Machine<'a, P>, order: &[u32]) -> Self {
        let hosts = machine.rooms.len();
        let mut taken = vec![false; hosts];
        order.iter().for_each(|&h| taken[h as usize] = true);
        let free = (0..hosts as u32).filter(|&h| !taken[h as usize]);
        let host_of: Vec<u32> = order.iter().copied().chain(free).collect();
        let mut block_at = vec![NONE; hosts];
        for (block, &host) in (0..).zip(&host_of) {
            block_at[host as usize] = block;
        }
        let mut walk = Self {
            machine,
            host_of,
            block_at,
            load: vec![0.0; machine.paths.links()],
            pairs: 0.0,
            scale: (1.0, 1.0),
            others: f64::INFINITY,
            power: POWERS.0,
            hot: Vec::new(),
            moved: vec![false; hosts],
        };
        walk.look();
        walk.others = walk.machine.weights.of(&walk.load).others;
        walk
    }

    fn blocks(&self) -> usize {
        self.machine.first.len() - 1
    }

    /// Counts loads anew; returns the cost.
    fn look(&mut self) -> Cost {
        let machine = self.machine;
        let place = |rank: u32| machine.place(&self.host_of, rank);
        count(machine.paths, &machine.graph, &place, &mut self.load);
        if let Some(cost) = &machine.cost {
            let ranks = 0..machine.graph.units() as u32;
            let sums = ranks.map(|r| {
                let edges = machine.graph.edges(r).iter().filter(|e| e.out > 0.0);
                edges
                    .map(|e| f64::from(e.out) * cost(place(r), place(e.to)))
                    .sum::<f64>()
            });
            self.pairs = sums.sum();
        }
        let weights = &machine.weights;
        let standing = weights.standing(&self.load);
        let pull: f64 = self
            .load
            .iter()
            .zip(&weights.pull)
            .map(|(l, p)| l * p)
            .sum();
        let linear = if machine.cost.is_some() {
            self.pairs
        } else {
            pull
        };
        let inverse = |x: f64| if x > 0.0 { 1.0 / x } else { 0.0 };
        let worst = standing.worst;
        self.scale = (inverse(worst), inverse(linear));
        self.find_hot(worst);
        let over = (weights.of(&self.load).others / self.others - 1.0).max(0.0);
        match machine.linear {
            true => (
                linear * (1.0 + if over > 1e-9 { over + 1.0 } else { 0.0 }),
                worst,
            ),
            false => (worst, standing.hop_bytes),
        }
    }

    /// Blocks with flows over links that are nearly the slowest.
    fn find_hot(&mut self, worst: f64) {
        let machine = self.machine;
        self.hot.clear();
        if machine.linear || worst <= 0.0 {
            return;
        }
        let weights = &machine.weights;
        let slow: Vec<bool> = (0..self.load.len())
            .map(|l| weights.counts[l] && self.load[l] * weights.seconds_per_byte[l] >= HOT * worst)
            .collect();
        for block in 0..self.blocks() {
            let ranks = machine.first[block]..machine.first[block + 1];
            let mut hit = false;
            for rank in ranks {
                let from = machine.place(&self.host_of, rank);
                for edge in machine.graph.edges(rank).iter().filter(|e| e.out > 0.0) {
                    if machine.block_of[edge.to as usize] as usize != block {
                        let to = machine.place(&self.host_of, edge.to);
                        machine.paths.each(from, to, |l, _| hit |= slow[l]);
                    }
                }
            }
            if hit {
                self.hot.push(block as u32);
            }
        }
    }

    /// A pair of first blocks (or free hosts) and the number of neighbours that move along.
    fn candidate(&self, rng: &mut Random) -> Option<(usize, usize, usize)> {
        let machine = self.machine;
        let all = self.host_of.len();
        let block = match rng.below(2) {
            0 if !self.hot.is_empty() => self.hot[rng.below(self.hot.len())] as usize,
            _ => rng.below(self.blocks()),
        };
        let near = rng.below(3);
        let edges = machine.blocks.edges(block as u32);
        let other = if near < 2 && !edges.is_empty() {
            // A host beside that of a partner.
            let partner = edges[rng.below(edges.len())].to;
            let host = self.host_of[partner as usize];
            let members = &machine.members[near][machine.areas[near][host as usize] as usize];
            self.block_at[members[rng.below(members.len())] as usize] as usize
        } else {
            rng.below(all)
        };
        let size = SIZES[rng.below(SIZES.len())];
        let size = size.min(block.abs_diff(other));
        let (a, b) = match size {
            0 => return None,
            1 => (block, other),
            // Groups begin at multiples of their size.
            n => (block / n * n, other / n * n),
        };
        let fits = |item: usize, host: u32| machine.rooms[host as usize] >= machine.sizes[item];
        let inside = a != b && a.max(b) + size <= all && a.min(b) + size <= a.max(b);
        let fit = || {
            (0..size).all(|i| fits(a + i, self.host_of[b + i]) && fits(b + i, self.host_of[a + i]))
        };
        (inside && fit()).then_some((a, b, size))
    }

    fn swap(&mut self, (a, b, size): (usize, usize, usize)) {
        for i in 0..size {
            self.host_of.swap(a + i, b + i);
            for item in [a + i, b + i] {
                self.block_at[self.host_of[item] as usize] = item as u32;
            }
        }
    }

    /// Adds the flows of the moving blocks; returns the sum of bytes × cost of pairs.
    fn flows(&self, blocks: &[usize], sign: f64, change: &mut Change) -> f64 {
        let machine = self.machine;
        let mut pairs = 0.0;
        let mut add = |from: u32, to: u32, bytes: f32| {
            let bytes = sign * f64::from(bytes);
            change.add(machine.paths, from, to, bytes);
            if let Some(cost) = &machine.cost {
                pairs += bytes * cost(from, to);
            }
        };
        for &block in blocks {
            for rank in machine.first[block]..machine.first[block + 1] {
                let here = machine.place(&self.host_of, rank);
                for &Edge { to, out, back } in machine.graph.edges(rank) {
                    let there = machine.place(&self.host_of, to);
                    if out > 0.0 {
                        add(here, there, out);
                    }
                    // Its other end counts a flow between two moving blocks.
                    let moves = self.moved[machine.block_of[to as usize] as usize];
                    if back > 0.0 && !moves {
                        add(there, here, back);
                    }
                }
            }
        }
        pairs
    }

    fn of_link(&self, link: usize, load: f64) -> f64 {
        let weights = &self.machine.weights;
        let time = load.max(0.0) * weights.seconds_per_byte[link];
        if weights.counts[link] {
            (time * self.scale.0).powi(self.power)
        } else if time > self.others * (1.0 + 1e-9) {
            OVER * (time / self.others)
        } else {
            0.0
        }
    }

    /// Performs a swap if the cost grows by at most `limit`; returns the change of cost and whether it was performed.
    fn attempt(
        &mut self,
        swap: (usize, usize, usize),
        limit: f64,
        change: &mut Change,
    ) -> (f64, bool) {
        let (a, b, size) = swap;
        let real = self.blocks();
        let blocks: Vec<usize> = (a..a + size)
            .chain(b..b + size)
            .filter(|&x| x < real)
            .collect();
        blocks.iter().for_each(|&x| self.moved[x] = true);
        let mut pairs = self.flows(&blocks, -1.0, change);
        self.swap(swap);
        pairs += self.flows(&blocks, 1.0, change);
        blocks.iter().for_each(|&x| self.moved[x] = false);
        let (mut links, mut pull) = (0.0, 0.0);
        for &link in &change.touched {
            let l = link as usize;
            let (delta, load) = (change.delta[l], self.load[l]);
            if delta != 0.0 {
                links += self.of_link(l, load + delta) - self.of_link(l, load);
                pull += self.machine.weights.pull[l] * delta;
            }
        }
        let linear = if self.machine.cost.is_some() {
            pairs
        } else {
            pull
        };
        let weight = if self.machine.linear { 1.0 } else { HOPS };
        let total = links + weight * linear * self.scale.1;
        let accept = total <= limit;
        if accept {
            for &link in &change.touched {
                let l = link as usize;
                self.load[l] = (self.load[l] + change.delta[l]).max(0.0);
            }
        } else {
            self.swap(swap);
        }
        change.clear();
        (total, accept)
    }

    /// The heat of the run, from increases of the cost by random swaps.
    fn heat(&mut self, change: &mut Change, rng: &mut Random) -> f64 {
        let mut all: Vec<f64> = (0..SAMPLES)
            .filter_map(|_| {
                let swap = self.candidate(rng)?;
                Some(self.attempt(swap, f64::NEG_INFINITY, change).0)
            })
            .filter(|d| d.is_finite() && *d > 0.0)
            .collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).map_or(0.0, |m| HEAT * m)
    }

    /// Runs to the end of the effort; returns the best order seen at fixed numbers of trials, and the trials.
    pub(super) fn run(mut self, effort: Effort, rng: &mut Random) -> (Vec<u32>, u64) {
        let blocks = self.blocks();
        let mut change = Change::new(self.load.len());
        let mut best = (self.look(), self.host_of[..blocks].to_vec());
        let mut trials = 0;
        let mut left = effort;
        // The hot half, then a descent by the worst link from the best order.
        for (part, power) in [(0.6, POWERS.0), (0.4, POWERS.1)] {
            if left.is_over() {
                break;
            }
            self.power = power;
            let heat = self.heat(&mut change, rng);
            let mut schedule = Schedule::new(left.part(part, false), heat, 1e-12);
            let period = (blocks as u64 * 8).clamp(256, 1 << 14);
            let mut next = period;
            let mut moved = false;
            while schedule.go_on(1) {
                if schedule.trials() >= next {
                    next += period;
                    if std::mem::take(&mut moved) {
                        self.keep(&mut best);
                    }
                }
                if let Some(swap) = self.candidate(rng) {
                    let limit = schedule.limit(rng);
                    moved |= self.attempt(swap, limit, &mut change).1;
                }
            }
            trials += schedule.trials();
            left.charge(schedule.trials(), false);
            // Only costs at fixed numbers of trials may count: a longer search has then seen the same and more.
            if schedule.is_cut() {
                break;
            }
            self.keep(&mut best);
            self = Self::new(self.machine, &best.1);
        }
        (best.1, trials)
    }

    fn keep(&mut self, best: &mut (Cost, Vec<u32>)) {
        let now = self.look();
        let less = |x: f64, y: f64| x < y - 1e-9 * y.abs();
        let ((a, a_tie), (b, b_tie)) = (now, best.0);
        if less(a, b) || (!less(b, a) && less(a_tie, b_tie)) {
            *best = (now, self.host_of[..self.blocks()].to_vec());
        }
    }
}
