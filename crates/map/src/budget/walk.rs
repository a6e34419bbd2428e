//! A path of placements: swaps of tasks and of whole nodes, with incrementally updated link loads.

use crate::evaluate::{is_network, pair_costs};
use crate::problem::{MapError, Objective, Problem};
use hopbyte_fabric::{LinkId, NodeId, Placement, Slot, Unroutable};
use std::collections::{HashMap, HashSet};

/// Candidate swaps of either kind in one step.
const CANDIDATES: usize = 96;
/// Most pairs of a task and a slot of which all are candidates.
const MOST_PAIRS: usize = 4096;
/// Largest allocation, in nodes, of which all pairs are candidates.
const MOST_NODES: usize = 64;
/// Links that are compared between candidates; the step that is taken is evaluated on all links.
const WORST: usize = 64;

/// Adds bytes to the links of a request route.
pub(super) fn add(
    problem: &Problem<'_>,
    (from, to): (NodeId, NodeId),
    bytes: f64,
    load: &mut [f64],
    shares: &mut Vec<(LinkId, f64)>,
) -> Result<(), Unroutable> {
    shares.clear();
    problem.routing.shares(problem.fabric, from, to, shares)?;
    for &(link, share) in shares.iter() {
        load[link.index()] += bytes * share;
    }
    Ok(())
}

/// A placement on the path from the current one to the target.
pub(super) struct Walk<'a> {
    problem: &'a Problem<'a>,
    current: &'a Placement,
    target: &'a Placement,
    pub(super) slots: Vec<Slot>,
    /// The task in every taken slot; free slots have no entry.
    taken: HashMap<Slot, u32>,
    /// Messages that a task sends, by task, in rows by receiver; and those that it receives.
    sends: Vec<Vec<Sent>>,
    arrivals: Vec<Vec<Sent>>,
    /// Bytes by link, and the reciprocal of the live capacity of links that the objective covers (else 0).
    load: Vec<f64>,
    per_byte: Vec<f64>,
    /// Sum of bytes times links, or times the cost of the pair.
    cost: f64,
    costs: Option<Vec<f32>>,
    places: Vec<u32>,
    moved: usize,
    /// (task, node) pairs that were left on the path; tasks do not return there.
    left: HashSet<(u32, NodeId)>,
    shares: Vec<(LinkId, f64)>,
    touched: Vec<LinkId>,
    worst: Vec<LinkId>,
}

/// Bytes between a task and a partner, one way.
#[derive(Clone, Copy)]
struct Sent {
    partner: u32,
    /// Payload.
    bytes: f64,
    /// On the wire.
    load: f64,
}

/// Messages of every task.
fn sends_of(problem: &Problem<'_>) -> Vec<Vec<Sent>> {
    let mut sends: Vec<Vec<Sent>> = vec![Vec::new(); problem.exchange.tasks()];
    for (from, message) in problem.exchange.iter() {
        let load = match problem.loads {
            Some(_) => 0.0,
            None => message.bytes,
        };
        sends[from as usize].push(Sent {
            partner: message.to,
            bytes: message.bytes,
            load,
        });
    }
    for (from, message) in problem.loads.iter().flat_map(|l| l.iter()) {
        let row = &mut sends[from as usize];
        match row.binary_search_by_key(&message.to, |s| s.partner) {
            Ok(at) => row[at].load = message.bytes,
            Err(at) => row.insert(
                at,
                Sent {
                    partner: message.to,
                    bytes: 0.0,
                    load: message.bytes,
                },
            ),
        }
    }
    sends
}

/// Two tasks that exchange slots, or one that moves to a free slot.
#[derive(Clone, Copy)]
struct Swap {
    task: u32,
    other: Option<u32>,
    to: Slot,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        problem: &'a Problem<'a>,
        current: &'a Placement,
        target: &'a Placement,
    ) -> Result<Self, MapError> {
        let tasks = problem.exchange.tasks();
        let counts = |link: LinkId| match problem.objective {
            Objective::WorstNetworkLink => is_network(problem, link),
            Objective::WorstLink => true,
            _ => false,
        };
        let per_byte = |link: LinkId| match counts(link) && problem.fabric.link(link).is_up() {
            true => 1.0 / problem.live_capacity(link),
            false => 0.0,
        };
        let mut arrivals = vec![Vec::new(); tasks];
        let sends = sends_of(problem);
        for (from, row) in (0..).zip(&sends) {
            for sent in row {
                let partner = from;
                arrivals[sent.partner as usize].push(Sent { partner, ..*sent });
            }
        }
        let slots = current.slots().to_vec();
        let mut walk = Self {
            problem,
            current,
            target,
            taken: slots.iter().copied().zip(0..).collect(),
            sends,
            arrivals,
            load: vec![0.0; problem.fabric.links().len()],
            per_byte: problem.fabric.link_ids().map(per_byte).collect(),
            cost: 0.0,
            costs: match problem.objective {
                Objective::RouteCost(costs) => Some(pair_costs(costs)),
                _ => None,
            },
            places: problem.places(),
            moved: 0,
            left: HashSet::new(),
            shares: Vec::new(),
            touched: Vec::new(),
            worst: Vec::new(),
            slots,
        };
        for task in 0..tasks as u32 {
            walk.flows_of(task, true, 1.0)?;
        }
        walk.touched.clear();
        walk.rank();
        Ok(walk)
    }

    /// The objective and its tie-breaker, as accumulated along the path.
    pub(super) fn score(&self) -> (f64, f64) {
        match self.problem.objective {
            Objective::WorstLink | Objective::WorstNetworkLink => {
                let times = self.load.iter().zip(&self.per_byte).map(|(l, p)| l * p);
                (times.fold(0.0, f64::max), self.cost)
            }
            _ => (self.cost, 0.0),
        }
    }

    /// The same over the [`WORST`] links only.
    fn estimate(&self) -> (f64, f64) {
        let time = |l: &LinkId| self.load[l.index()] * self.per_byte[l.index()];
        let links = self.worst.iter().chain(&self.touched);
        (links.map(time).fold(0.0, f64::max), self.cost)
    }

    /// Finds the worst links.
    fn rank(&mut self) {
        let time = |l: &LinkId| self.load[l.index()] * self.per_byte[l.index()];
        let mut links: Vec<LinkId> = self.problem.fabric.link_ids().collect();
        let keep = WORST.min(links.len().saturating_sub(1));
        links.select_nth_unstable_by(keep, |a, b| time(b).total_cmp(&time(a)));
        links.truncate(keep + 1);
        self.worst = links;
    }

    /// Adds (or, with `sign` -1, subtracts) the messages that a task sends and, unless `sends_only`, receives.
    fn flows_of(&mut self, task: u32, sends_only: bool, sign: f64) -> Result<(), MapError> {
        for i in 0..self.sends[task as usize].len() {
            let sent = self.sends[task as usize][i];
            self.flow(task, sent.partner, (sent, sign))?;
        }
        if !sends_only {
            for i in 0..self.arrivals[task as usize].len() {
                let sent = self.arrivals[task as usize][i];
                self.flow(sent.partner, task, (sent, sign))?;
            }
        }
        Ok(())
    }

    fn flow(&mut self, from: u32, to: u32, (sent, sign): (Sent, f64)) -> Result<(), MapError> {
        let (a, b) = (self.slots[from as usize].node, self.slots[to as usize].node);
        if a == b {
            return Ok(());
        }
        let problem = self.problem;
        let dead = |d| MapError::unroutable(problem.fabric, vec![d]);
        let (bytes, load) = (sign * sent.bytes, sign * sent.load);
        add(problem, (a, b), load, &mut self.load, &mut self.shares).map_err(dead)?;
        self.touched.extend(self.shares.iter().map(|s| s.0));
        self.cost += match &self.costs {
            Some(costs) => {
                let (i, j) = (self.places[a.index()], self.places[b.index()]);
                bytes * f64::from(costs[i as usize * problem.allocation.nodes().len() + j as usize])
            }
            None => {
                let hops = self.shares.iter().filter(|s| problem.fabric.is_hop(s.0));
                bytes * hops.map(|s| s.1).sum::<f64>()
            }
        };
        Ok(())
    }

    /// Performs a swap, or undoes it when called again with the roles reversed.
    fn apply(&mut self, swap: Swap) -> Result<(), MapError> {
        let pair = [Some(swap.task), swap.other];
        // Flows between the two are counted for the first task and skipped for the second.
        for task in pair.into_iter().flatten() {
            self.flows_of(task, false, -1.0)?;
        }
        self.between(swap, 1.0)?;
        let from = self.slots[swap.task as usize];
        self.slots[swap.task as usize] = swap.to;
        self.taken.insert(swap.to, swap.task);
        match swap.other {
            Some(other) => {
                self.slots[other as usize] = from;
                self.taken.insert(from, other);
            }
            None => {
                self.taken.remove(&from);
            }
        }
        for task in pair.into_iter().flatten() {
            self.flows_of(task, false, 1.0)?;
        }
        self.between(swap, -1.0)?;
        let moved = |t: u32| self.slots[t as usize].node != self.current.node(t);
        let was = |node: NodeId, t: u32| node != self.current.node(t);
        let before = usize::from(was(from.node, swap.task))
            + swap.other.map_or(0, |o| usize::from(was(swap.to.node, o)));
        let after = usize::from(moved(swap.task)) + swap.other.map_or(0, |o| usize::from(moved(o)));
        self.moved = self.moved + after - before;
        Ok(())
    }

    /// Adds the messages between the two tasks of a swap.
    fn between(&mut self, swap: Swap, sign: f64) -> Result<(), MapError> {
        let Some(other) = swap.other else {
            return Ok(());
        };
        for (a, b) in [(swap.task, other), (other, swap.task)] {
            let sends = &self.sends[a as usize];
            if let Ok(at) = sends.binary_search_by_key(&b, |s| s.partner) {
                let sent = sends[at];
                self.flow(a, b, (sent, sign))?;
            }
        }
        Ok(())
    }

    /// Exchanges all tasks of two nodes of equal room; a second call undoes it.
    fn exchange(&mut self, (a, b, room): (NodeId, NodeId, u32)) -> Result<(), MapError> {
        for slot in 0..room {
            let (here, there) = (Slot { node: a, slot }, Slot { node: b, slot });
            let both = (
                self.taken.get(&here).copied(),
                self.taken.get(&there).copied(),
            );
            let (task, other, to) = match both {
                (Some(task), other) => (task, other, there),
                (None, Some(task)) => (task, None, here),
                (None, None) => continue,
            };
            self.apply(Swap { task, other, to })?;
        }
        Ok(())
    }

    /// Takes the best exchange of two whole nodes that lowers the objective; `false` if there is none within
    /// the budget.
    pub(super) fn node_step(&mut self, budget: usize) -> Result<bool, MapError> {
        let nodes = self.problem.allocation.nodes();
        if nodes.len() > MOST_NODES || self.moved >= budget {
            return Ok(false);
        }
        let mut best = (self.score(), None);
        for (i, &(a, room)) in nodes.iter().enumerate() {
            for &(b, other) in &nodes[i + 1..] {
                let pair = (a, b, room);
                if other != room {
                    continue;
                }
                self.touched.clear();
                self.exchange(pair)?;
                let estimate = match self.costs.is_some() || self.worst_free() {
                    true => (self.cost, 0.0),
                    false => self.estimate(),
                };
                // Underestimates are evaluated on all links before they are taken.
                if self.moved <= budget && estimate < best.0 && self.score() < best.0 {
                    best = (self.score(), Some(pair));
                }
                self.exchange(pair)?;
            }
        }
        self.touched.clear();
        let Some(pair) = best.1 else {
            return Ok(false);
        };
        self.exchange(pair)?;
        self.touched.clear();
        self.rank();
        Ok(true)
    }

    /// Takes the best candidate swap; `false` if none fits into the budget.
    pub(super) fn step(&mut self, budget: usize) -> Result<bool, MapError> {
        let mut best: Option<((f64, f64), Swap)> = None;
        for swap in self.candidates() {
            let from = self.slots[swap.task as usize];
            self.touched.clear();
            self.apply(swap)?;
            let estimate = match self.costs.is_some() || self.worst_free() {
                true => (self.cost, 0.0),
                false => self.estimate(),
            };
            if self.moved <= budget && best.as_ref().is_none_or(|(b, _)| estimate < *b) {
                best = Some((estimate, swap));
            }
            self.apply(Swap { to: from, ..swap })?;
        }
        self.touched.clear();
        let Some((_, swap)) = best else {
            return Ok(false);
        };
        self.left
            .insert((swap.task, self.slots[swap.task as usize].node));
        self.left
            .extend(swap.other.map(|other| (other, swap.to.node)));
        self.apply(swap)?;
        self.touched.clear();
        self.rank();
        Ok(true)
    }

    /// Whether no link's time matters.
    fn worst_free(&self) -> bool {
        matches!(self.problem.objective, Objective::HopBytes)
    }

    /// Swaps that bring a task to its target node, or to the node of its heaviest partner; all swaps of small problems.
    fn candidates(&self) -> Vec<Swap> {
        let tasks = 0..self.slots.len() as u32;
        let fresh = |swap: &Swap| !self.left.contains(&(swap.task, swap.to.node));
        if self.slots.len() * self.problem.allocation.capacity() <= MOST_PAIRS {
            return tasks.flat_map(|t| self.anywhere(t)).filter(fresh).collect();
        }
        let away = |t: &u32| self.slots[*t as usize].node != self.target.node(*t);
        let homeward = self.some(tasks.clone().filter(away).collect());
        let homeward = homeward.into_iter().filter_map(|t| self.homeward(t));
        let together = self.some(tasks.collect()).into_iter();
        let together = together.filter_map(|t| self.together(t));
        homeward.chain(together).filter(fresh).collect()
    }

    /// The swaps of a task with tasks of higher number on other nodes, and its moves to their free slots.
    fn anywhere(&self, task: u32) -> impl Iterator<Item = Swap> + '_ {
        let here = self.slots[task as usize].node;
        let nodes = self.problem.allocation.nodes().iter();
        let slots = nodes.flat_map(|&(node, room)| (0..room).map(move |slot| Slot { node, slot }));
        let swaps = slots.map(move |to| Swap {
            task,
            other: self.taken.get(&to).copied(),
            to,
        });
        swaps.filter(move |s| s.to.node != here && s.other.is_none_or(|other| other > task))
    }

    /// At most [`CANDIDATES`] tasks, spread evenly over all and different in every step.
    fn some(&self, tasks: Vec<u32>) -> Vec<u32> {
        let stride = tasks.len().div_ceil(CANDIDATES).max(1);
        let first = self.left.len() % stride;
        tasks.into_iter().skip(first).step_by(stride).collect()
    }

    /// Bytes that a task exchanges with the tasks on a node.
    fn pull(&self, task: u32, node: NodeId) -> f64 {
        let (sends, arrivals) = (&self.sends[task as usize], &self.arrivals[task as usize]);
        let all = sends.iter().chain(arrivals);
        let there = all.filter(|s| self.slots[s.partner as usize].node == node);
        there.map(|s| s.bytes).sum()
    }

    /// The node of the task on another node that receives most from this one.
    fn dearest(&self, task: u32) -> Option<NodeId> {
        let here = self.slots[task as usize].node;
        let node = |t: u32| self.slots[t as usize].node;
        let sends = self.problem.exchange.sends(task).iter();
        let abroad = sends.filter(|m| node(m.to) != here);
        let most = abroad.max_by(|a, b| a.bytes.total_cmp(&b.bytes))?;
        Some(node(most.to))
    }

    /// The swap that brings a task to the node of its heaviest receiver, for the task there with the weakest
    /// ties to that node.
    fn together(&self, task: u32) -> Option<Swap> {
        let (here, to) = (self.slots[task as usize].node, self.dearest(task)?);
        let place = self.problem.allocation.position(to)?;
        let (_, room) = self.problem.allocation.nodes()[place];
        let slots = (0..room).map(|slot| Slot { node: to, slot });
        let loss = |to: &Slot| match self.taken.get(to) {
            Some(&other) => self.pull(other, to.node) - self.pull(other, here),
            None => 0.0,
        };
        let slot = slots.min_by(|a, b| loss(a).total_cmp(&loss(b)))?;
        Some(Swap {
            task,
            other: self.taken.get(&slot).copied(),
            to: slot,
        })
    }

    /// The swap that brings a task to its target node: with a task there that has another target, preferably
    /// this task's current node; else to a free slot.
    fn homeward(&self, task: u32) -> Option<Swap> {
        let (here, home) = (self.slots[task as usize].node, self.target.node(task));
        let place = self.problem.allocation.position(home)?;
        let (_, room) = self.problem.allocation.nodes()[place];
        let slots = (0..room).map(|slot| Slot { node: home, slot });
        let mut found: Option<(u8, Swap)> = None;
        for to in slots {
            let other = self.taken.get(&to).copied();
            let rank = match other {
                Some(other) if self.target.node(other) == here => 3,
                None => 2,
                Some(other) if self.target.node(other) != home => 1,
                Some(_) => 0,
            };
            let swap = Swap { task, other, to };
            if rank > 0 && found.is_none_or(|(best, _)| rank > best) {
                found = Some((rank, swap));
            }
        }
        found.map(|(_, swap)| swap)
    }
}
