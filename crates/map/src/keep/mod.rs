//! Placements that keep hosts whole: blocks of consecutive ranks move from host to host, and local ranks keep their slots.
//!
//! torchrun, schedulers of Kubernetes and others number hosts and start the same local ranks on each, so that an order of
//! hosts is all that they can obey.

mod pack;
mod search;

use crate::evaluate::{Evaluation, evaluate_until, pair_costs};
use crate::graph::Graph;
use crate::paths::Paths;
use crate::paths::grid::GridPaths;
use crate::paths::hosts::HostPaths;
use crate::paths::routers::Made;
use crate::problem::{MapError, Objective, Problem};
use crate::rounds::{Found, Run};
use crate::schedule::{Effort, Length, Span};
use crate::threads::each;
use hopbyte_fabric::random::Random;
use hopbyte_fabric::{Exchange, NodeId, Placement, Routing, Slot, natural};
use search::{Machine, Walk};
use std::cmp::Reverse;
use std::collections::HashMap;

/// No host, no block.
pub(crate) const NONE: u32 = u32::MAX;

/// Trials of the first runs by block, and the fewest; later runs have twice as many each. Guessed.
const FIRST: (u64, u64) = (64, 2_048);

/// A search ends when nothing better was found in so many times the trials up to the best placement, and in (by block,
/// at least) trials of every run. Guessed.
const STUCK: (u64, u64, u64) = (4, 1_000, 60_000);

/// Rotated and transposed orders: the most of each, and pairs of ranks that their costs count together.
const REGULAR: (usize, usize) = (128, 300_000);

/// Random stream of the runs.
const STREAM: u64 = 1 << 35;

/// The hosts of an allocation in its order, and the blocks of ranks that fill them in turn.
pub(crate) struct Hosts<'a> {
    pub(crate) names: Vec<&'a str>,
    /// Slots of every host in the order of local ranks: GPUs by their numbers, other slots as allocated.
    slots: Vec<Vec<Slot>>,
    /// First rank of every block, and the number of ranks at the end.
    first: Vec<u32>,
}

impl<'a> Hosts<'a> {
    pub(crate) fn of(problem: &Problem<'a>) -> Self {
        let fabric = problem.fabric;
        let inside = fabric.inside();
        let mut index: HashMap<&str, usize> = HashMap::new();
        let (mut names, mut numbered) = (Vec::new(), Vec::<Vec<(u32, Slot)>>::new());
        for &(node, room) in problem.allocation.nodes() {
            let name = fabric.node(node).host.as_str();
            let at = *index.entry(name).or_insert_with(|| {
                names.push(name);
                numbered.push(Vec::new());
                names.len() - 1
            });
            let gpu = inside.filter(|i| i.is_exclusive(node));
            let number = gpu.and_then(|i| i.number_on_host(node)).unwrap_or(0);
            numbered[at].extend((0..room).map(|slot| (number, Slot { node, slot })));
        }
        let ordered = numbered.into_iter().map(|mut slots| {
            slots.sort_by_key(|s| s.0);
            slots.into_iter().map(|s| s.1).collect()
        });
        let slots: Vec<Vec<Slot>> = ordered.collect();
        let tasks = problem.exchange.tasks();
        let mut first = vec![0u32];
        let mut placed = 0;
        for host in &slots {
            placed = tasks.min(placed + host.len());
            if placed as u32 > first[first.len() - 1] {
                first.push(placed as u32);
            }
        }
        Self {
            names,
            slots,
            first,
        }
    }

    /// Units of hosts in portions of `size` places, and the blocks of as many consecutive ranks; `None` if they do not
    /// divide the job, or places have several slots.
    pub(crate) fn portions(problem: &Problem<'a>, size: usize) -> Option<Self> {
        let fabric = problem.fabric;
        let (inside, nodes) = (fabric.inside()?, problem.allocation.nodes());
        let tasks = problem.exchange.tasks();
        if !tasks.is_multiple_of(size) || nodes.iter().any(|n| n.1 != 1) {
            return None;
        }
        let mut places: Vec<(u32, Option<u16>, NodeId)> = Vec::with_capacity(nodes.len());
        for &(node, _) in nodes {
            places.push((inside.unit_of(node)?, inside.number_in_unit(node), node));
        }
        places.sort_unstable();
        let slots: Vec<Vec<Slot>> = places
            .chunk_by(|a, b| a.0 == b.0)
            .flat_map(|unit| unit.chunks_exact(size))
            .map(|part| part.iter().map(|p| Slot { node: p.2, slot: 0 }).collect())
            .collect();
        let blocks = tasks / size;
        let names = slots.iter().map(|s| fabric.node(s[0].node).host.as_str());
        let names = names.collect();
        (slots.len() >= blocks && blocks > 1).then(|| Self {
            names,
            first: (0..=blocks).map(|b| (b * size) as u32).collect(),
            slots,
        })
    }

    /// Number of blocks.
    pub(crate) fn blocks(&self) -> usize {
        self.first.len() - 1
    }

    /// Ranks of a block; none of one beyond the last.
    pub(crate) fn size(&self, block: usize) -> usize {
        self.first
            .get(block + 1)
            .map_or(0, |&end| (end - self.first[block]) as usize)
    }

    /// The block of every rank.
    pub(crate) fn block_of(&self) -> Vec<u32> {
        let blocks = 0..self.blocks();
        blocks
            .flat_map(|b| std::iter::repeat_n(b as u32, self.size(b)))
            .collect()
    }

    /// The node that stands for a host.
    fn node(&self, host: usize) -> NodeId {
        self.slots[host][0].node
    }

    /// Whether blocks take hosts in this order; otherwise a host has too few slots.
    pub(crate) fn takes(&self, order: &[u32]) -> bool {
        let mut sizes = (0..).map(|block| self.size(block));
        order.iter().all(|&host| {
            let size = sizes.next().unwrap_or(0);
            self.slots[host as usize].len() >= size
        })
    }

    /// The placement with every block on the host of its number in `order`.
    pub(crate) fn placement(
        &self,
        problem: &Problem<'_>,
        order: &[u32],
    ) -> Result<Placement, MapError> {
        let mut slots = Vec::with_capacity(problem.exchange.tasks());
        for (block, &host) in order.iter().enumerate() {
            slots.extend_from_slice(&self.slots[host as usize][..self.size(block)]);
        }
        Ok(Placement::new(problem.fabric, problem.allocation, slots)?)
    }

    /// Hosts in the order of their blocks in a placement.
    ///
    /// # Errors
    /// A rank is elsewhere than its block.
    pub(crate) fn order_of(
        &self,
        problem: &Problem<'_>,
        placement: &Placement,
    ) -> Result<Vec<u32>, MapError> {
        let mut host_of: HashMap<NodeId, u32> = HashMap::new();
        for (host, slots) in (0..).zip(&self.slots) {
            host_of.extend(slots.iter().map(|s| (s.node, host)));
        }
        let mut order = Vec::with_capacity(self.blocks());
        for block in 0..self.blocks() {
            let ranks = self.first[block] as usize..self.first[block + 1] as usize;
            let placed = &placement.slots()[ranks.clone()];
            let host = host_of.get(&placed[0].node).copied().unwrap_or(0);
            let own = &self.slots[host as usize];
            let wrong = (0..placed.len()).find(|&i| own.get(i) != Some(&placed[i]));
            if let Some(local) = wrong {
                return Err(MapError::BadOption {
                    what: "current placement",
                    found: format!(
                        "rank {} on {}",
                        ranks.start + local,
                        problem.fabric.node(placed[local].node).name
                    ),
                    expected: "each host's ranks consecutive and on its slots in order, where hosts are kept whole",
                });
            }
            order.push(host);
        }
        Ok(order)
    }

    /// Hosts in the order of some keys, as many as there are blocks.
    fn sorted<K: Ord>(&self, key: impl Fn(usize) -> K) -> Vec<u32> {
        let mut all: Vec<usize> = (0..self.names.len()).collect();
        all.sort_by_cached_key(|&host| key(host));
        let order = all.into_iter().map(|host| host as u32);
        order.take(self.blocks()).collect()
    }

    /// In the order of the allocation.
    pub(crate) fn in_order(&self) -> Vec<u32> {
        (0..self.blocks() as u32).collect()
    }

    /// By name as text, as torchrun's dynamic rendezvous sorts them.
    pub(crate) fn by_text(&self) -> Vec<u32> {
        self.sorted(|host| self.names[host])
    }

    /// By name, numbers as numbers.
    pub(crate) fn by_number(&self) -> Vec<u32> {
        let mut order = self.sorted_by_number();
        order.truncate(self.blocks());
        order
    }

    /// All hosts by name, numbers as numbers.
    fn sorted_by_number(&self) -> Vec<u32> {
        let mut all: Vec<u32> = (0..self.names.len() as u32).collect();
        all.sort_by_cached_key(|&host| natural(self.names[host as usize]));
        all
    }

    /// Rank of every host by name, numbers as numbers.
    fn sorted_all(&self) -> Vec<usize> {
        let mut rank = vec![0; self.names.len()];
        for (at, host) in self.sorted_by_number().into_iter().enumerate() {
            rank[host as usize] = at;
        }
        rank
    }

    /// Orders by number that begin at another host and end before it, so many at most. Rings of consecutive ranks remain;
    /// those that do not fit into one unit are divided at other ranks.
    fn rotations(&self, most: usize) -> Vec<Vec<u32>> {
        let all = self.sorted_by_number();
        let step = all.len().div_ceil(most + 1).max(1);
        let rotated = |first: usize| {
            let order = all[first..].iter().chain(&all[..first]);
            order.take(self.blocks()).copied().collect()
        };
        (step..all.len()).step_by(step).map(rotated).collect()
    }

    /// Orders by number in which every k-th block is on neighbouring hosts: other orders of a plan's dimensions.
    fn transposed(&self) -> impl Iterator<Item = Vec<u32>> + use<> {
        let (all, blocks) = (self.sorted_by_number(), self.blocks());
        let steps = (1..12).map(|bit| 1 << bit);
        let steps = steps.filter(move |k| k * 2 <= blocks && blocks.is_multiple_of(*k));
        steps.map(move |k| {
            let at = |block: usize| block % k * (blocks / k) + block / k;
            (0..blocks).map(|block| all[at(block)]).collect()
        })
    }

    /// Any order.
    pub(crate) fn shuffled(&self, rng: &mut Random) -> Vec<u32> {
        let mut all: Vec<u32> = (0..self.names.len() as u32).collect();
        rng.shuffle(&mut all);
        // Hosts with few slots take small blocks only.
        let mut order = vec![NONE; self.blocks()];
        let mut blocks: Vec<usize> = (0..self.blocks()).collect();
        blocks.sort_by_key(|&b| Reverse(self.size(b)));
        for block in blocks {
            let fits = |&h: &u32| self.slots[h as usize].len() >= self.size(block);
            match all.iter().position(fits) {
                Some(at) => order[block] = all.swap_remove(at),
                None => return self.in_order(),
            }
        }
        order
    }
}

/// A lower bound of the worst link where every order of hosts loads the links of hosts alike: hosts of one kind with the
/// same slots, each a unit of its own, without load of others and broken links.
pub(crate) fn bound(problem: &Problem<'_>, hosts: &Hosts<'_>, in_order: &Evaluation) -> f64 {
    let fabric = problem.fabric;
    let Some(inside) = fabric.inside().filter(|_| problem.background.is_none()) else {
        return 0.0;
    };
    let units: Vec<_> = inside.units().collect();
    // Kind and slots of a host that is a unit of its own.
    let form = |slots: &[Slot]| -> Option<(u32, Vec<Option<u16>>)> {
        let unit = inside.unit_of(slots.first()?.node)?;
        let spec = units[unit as usize];
        let numbers = slots.iter().map(|s| inside.number_in_unit(s.node));
        (spec.hosts.len() == 1).then(|| (spec.kind, numbers.collect()))
    };
    let first = hosts.slots.first().and_then(|s| form(s));
    let alike = first.is_some() && hosts.slots.iter().all(|s| form(s) == first);
    let ends = || fabric.node_ids().take(fabric.network_nodes());
    let rate = |link| fabric.link(link).capacity().0;
    let mut rates = ends()
        .flat_map(|n| [fabric.node(n).inject, fabric.node(n).eject])
        .map(rate);
    let one = rates.next();
    let even = rates.all(|r| Some(r) == one);
    match alike && even && fabric.links().iter().all(hopbyte_fabric::Link::is_up) {
        true => in_order.worst_host_link_seconds * (1.0 - 1e-9),
        false => 0.0,
    }
}

/// Searches orders of hosts.
pub(crate) fn search(run: &Run<'_>, hosts: &Hosts<'_>) -> Result<Found, MapError> {
    let (problem, flag) = (run.problem, run.options.flag());
    if matches!(problem.routing, Routing::Hosts(_)) {
        return match HostPaths::new(problem, flag)? {
            Some(paths) => over(run, hosts, &paths),
            None => Ok(Found::default()),
        };
    }
    match (GridPaths::new(problem), problem.objective) {
        (Some(_), Objective::RouteCost(_)) | (None, _) => match Made::new(problem, flag)? {
            Some(Made::Stored(paths)) => over(run, hosts, &paths),
            Some(Made::Computed(paths)) => over(run, hosts, &paths),
            None => Ok(Found::default()),
        },
        (Some(paths), _) => over(run, hosts, &paths),
    }
}

/// An order with its cost.
type Scored = (Vec<u32>, Placement, Evaluation);

/// [`search`] on one form of routes.
pub(crate) fn over<P: Paths>(
    run: &Run<'_>,
    hosts: &Hosts<'_>,
    paths: &P,
) -> Result<Found, MapError> {
    let (problem, options) = (run.problem, run.options);
    let flag = options.flag();
    let machine = Machine::new(problem, hosts, paths, run.graph);
    let mut starts: Vec<Vec<u32>> = vec![hosts.in_order(), hosts.by_text(), hosts.by_number()];
    starts.extend(machine.packed(hosts));
    let current = problem.current.map(|c| hosts.order_of(problem, c));
    // Where single ranks may move, the current placement need not be an order of hosts.
    starts.extend(current.and_then(Result::ok));
    starts.retain(|s| hosts.takes(s));
    let mut tried = Tried {
        run,
        hosts,
        found: Found::default(),
        order: starts.first().cloned().unwrap_or_default(),
    };
    let by_score = |a: &Scored, b: &Scored| less_than(&a.2, &b.2, &problem.objective);
    let mut scored = tried.all(starts)?;
    let most = REGULAR.0.min(REGULAR.1 / (1 + problem.exchange.pairs()));
    for mut others in [
        hosts.rotations(most),
        hosts.transposed().take(most).collect(),
    ] {
        others.retain(|s| hosts.takes(s));
        scored.extend(tried.all(others)?.into_iter().min_by(by_score));
    }
    scored.sort_by(by_score);
    let starts: Vec<Vec<u32>> = scored.into_iter().map(|s| s.0).collect();
    if starts.is_empty() || hosts.names.len() < 2 {
        return Ok(tried.found);
    }
    let runs = options.runs.max(1);
    let mut left = options.trials.map_or(u64::MAX, |t| t / runs as u64);
    let span = Span::begin(options.seconds);
    let stop = match options.trials {
        Some(_) => flag,
        None => span.stop(flag),
    };
    let blocks = hosts.blocks() as u64;
    let (mut spent, mut best_at) = (0u64, 0u64);
    for wave in 0u32.. {
        let planned = (FIRST.0 * blocks)
            .max(FIRST.1)
            .saturating_mul(1 << wave.min(40));
        let clock = options.trials.is_none() && wave > 0 && {
            let grows = (spent + planned) as f64 / spent as f64;
            span.passed() * grows > 1.0
        };
        let length = match clock {
            true => Length::Seconds(options.seconds * (1.0 - span.passed())),
            false => Length::Trials(planned),
        };
        let effort = Effort::new(length, left, stop);
        let from = |number: usize| match (wave as usize * runs + number) % 3 {
            0 => tried.order.clone(),
            n => starts[(wave as usize + n - 1) % starts.len()].clone(),
        };
        let one = |number: usize| {
            let stream = STREAM + (u64::from(wave) << 16) + number as u64;
            let mut rng = Random::stream(options.seed, stream);
            Walk::new(&machine, &from(number)).run(effort, &mut rng)
        };
        let ends: Vec<_> = match run.threads {
            1 => (0..runs).map(one).collect(),
            _ => each(runs, &one),
        };
        spent += planned;
        let mut most = 0;
        let mut orders = Vec::new();
        for (order, trials) in ends {
            tried.found.trials += trials;
            most = most.max(trials);
            orders.push(order);
        }
        left = left.saturating_sub(most);
        let before = tried.found.best.as_ref().map(|b| b.1.clone());
        // Runs go by all phases at once: the best one of a run that was cut short is not seen by a longer search.
        if !(problem.in_turn() && left == 0) {
            tried.all(orders)?;
        }
        if tried.found.best.as_ref().map(|b| &b.1) != before.as_ref() {
            best_at = spent;
        }
        let patience = (best_at * STUCK.0).max(STUCK.1 * blocks).max(STUCK.2);
        if clock || left == 0 || stop.is_set() || spent - best_at >= patience {
            break;
        }
        tell(run, &tried.found, span.passed());
    }
    tell(run, &tried.found, 1.0);
    Ok(tried.found)
}

fn tell(run: &Run<'_>, found: &Found, done: f64) {
    let best = found.best.as_ref().map(|b| &b.1);
    let best = best.unwrap_or(&run.candidates[run.best].2);
    (run.progress)(crate::mapper::Progress {
        done,
        best: best.score(&run.problem.objective).0,
        bound: run.bound,
    });
}

fn less_than(a: &Evaluation, b: &Evaluation, objective: &Objective<'_>) -> std::cmp::Ordering {
    let (a, b) = (a.score(objective), b.score(objective));
    a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
}

/// The best order so far.
struct Tried<'r, 'a> {
    run: &'r Run<'r>,
    hosts: &'r Hosts<'a>,
    found: Found,
    order: Vec<u32>,
}

impl Tried<'_, '_> {
    /// Evaluates orders and keeps the best that is better than every baseline.
    fn all(&mut self, orders: Vec<Vec<u32>>) -> Result<Vec<Scored>, MapError> {
        let (run, hosts) = (self.run, self.hosts);
        let problem = run.problem;
        let flag = run.options.flag();
        let cost = |number: usize| -> Result<Option<(Placement, Evaluation)>, MapError> {
            let placement = hosts.placement(problem, &orders[number])?;
            let cost = evaluate_until(problem, &placement, flag)?;
            Ok(cost.map(|cost| (placement, cost)))
        };
        let costs = each(orders.len(), &cost);
        let all = orders.into_iter().zip(costs).filter_map(|(order, cost)| {
            let scored = cost.transpose()?;
            Some(scored.map(|(placement, cost)| (order, placement, cost)))
        });
        let all: Vec<Scored> = all.collect::<Result<_, _>>()?;
        let limits = &run.candidates[run.reference].2;
        for (order, placement, cost) in &all {
            let best = self.found.best.as_ref().map(|b| &b.1);
            let best = best.unwrap_or(&run.candidates[run.best].2);
            if cost.keeps_limits(limits, &problem.objective)
                && cost.better_than(best, &problem.objective)
            {
                self.found.best = Some((placement.clone(), cost.clone()));
                self.order.clone_from(order);
            }
        }
        Ok(all)
    }
}

/// Bytes × cost of pairs of places, if that is the objective.
fn pair_cost(problem: &Problem<'_>) -> Option<impl Fn(u32, u32) -> f64 + use<>> {
    let Objective::RouteCost(costs) = problem.objective else {
        return None;
    };
    let costs = pair_costs(costs);
    let places = problem.allocation.nodes().len();
    Some(move |a: u32, b: u32| match a == b {
        true => 0.0,
        false => f64::from(costs[a as usize * places + b as usize]),
    })
}

/// The graph of a job's blocks.
fn quotient(exchange: &Exchange, hosts: &Hosts<'_>) -> Graph {
    Graph::of_tasks(exchange).quotient(&hosts.block_of(), hosts.blocks())
}
