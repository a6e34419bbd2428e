//! Groups of tasks that fit into a unit of hosts are put into one, where that costs nothing.
//!
//! If some groups must be divided, their bytes are the slowest, and the objective says nothing of the others. Every group
//! then gets a unit with enough slots that no whole group takes, and the tasks of divided groups change places until the
//! objective is as good as before; otherwise the placement stays.

use super::apart::{fit, parts};
use crate::evaluate::{Evaluation, evaluate_until, less};
use crate::graph::Graph;
use crate::problem::{MapError, Problem};
use crate::schedule::Stop;
use hopbyte_fabric::hosts::Inside;
use hopbyte_fabric::random::Random;
use hopbyte_fabric::{NodeId, Placement, Slot};
use std::cell::Cell;
use std::collections::HashMap;

/// Maximum number of tasks, and of evaluations: in all, and for one group in one unit.
pub(super) const MOST_TASKS: usize = 2_048;
const MOST: (usize, usize) = (2_000, 150);

/// Pairs of tasks that all evaluations together count.
const MOST_PAIRS: usize = 4_000_000;

/// Sizes of flows that form groups, the heaviest ones.
const LEVELS: usize = 4;

/// Random stream of the exchanges.
const STREAM: u64 = 1 << 36;

/// Groups of tasks that the heaviest flows join, of at most the size of a unit: large groups first.
fn levels(graph: &Graph, room: usize) -> Vec<Vec<u32>> {
    let tasks = 0..graph.units() as u32;
    let flows = tasks.flat_map(|t| graph.edges(t)).map(|e| e.out);
    let mut steps: Vec<f32> = flows.filter(|&b| b > 0.0).collect();
    steps.sort_unstable_by(f32::total_cmp);
    steps.dedup();
    let heaviest = &steps[steps.len().saturating_sub(LEVELS)..];
    let mut levels: Vec<Vec<u32>> = heaviest.iter().map(|&b| parts(graph, b)).collect();
    levels.dedup();
    levels.retain(|level| by_group(level).iter().all(|m| m.len() <= room));
    levels
}

/// Size of groups that are runs of consecutive tasks, all alike: those of tensor parallelism, as a rule.
fn run_size(group_of: &[u32]) -> Option<usize> {
    let size = group_of.iter().take_while(|&&g| g == group_of[0]).count();
    let is_run = |m: &Vec<u32>| m.len() == size && m[size - 1] - m[0] == size as u32 - 1;
    (size > 1 && by_group(group_of).iter().all(is_run)).then_some(size)
}

/// Sizes of such groups that the heaviest flows join.
pub(super) fn run_sizes(graph: &Graph, room: usize) -> Vec<usize> {
    let mut sizes: Vec<usize> = levels(graph, room)
        .iter()
        .filter_map(|l| run_size(l))
        .collect();
    sizes.dedup();
    sizes
}

/// The tasks of every group.
fn by_group(group_of: &[u32]) -> Vec<Vec<u32>> {
    let count = group_of.iter().max().map_or(0, |&last| last as usize + 1);
    let mut members = vec![Vec::new(); count];
    for (task, &group) in (0..).zip(group_of) {
        members[group as usize].push(task);
    }
    members
}

/// The groups of a problem that stay together: none if the units have no room for all.
pub(crate) fn fitting<'a>(problem: &Problem<'a>) -> &'a [Vec<u32>] {
    let Some(inside) = problem
        .fabric
        .inside()
        .filter(|_| !problem.together.is_empty())
    else {
        return &[];
    };
    let mut rooms: HashMap<u32, usize> = HashMap::new();
    for &(node, slots) in problem.allocation.nodes() {
        *rooms.entry(unit(inside, node)).or_default() += slots as usize;
    }
    let rooms: Vec<usize> = rooms.into_values().collect();
    let sizes: Vec<usize> = problem.together.iter().map(Vec::len).collect();
    if fit(&sizes, &rooms) {
        problem.together
    } else {
        &[]
    }
}

/// The number of groups that a placement has in one unit each.
pub(crate) fn count(problem: &Problem<'_>, groups: &[Vec<u32>], placement: &Placement) -> usize {
    let Some(inside) = problem.fabric.inside() else {
        return 0;
    };
    let is_whole = |group: &&Vec<u32>| {
        let mut units = group
            .iter()
            .map(|&t| unit(inside, placement.slots()[t as usize].node));
        let first = units.next();
        units.all(|u| Some(u) == first)
    };
    groups.iter().filter(is_whole).count()
}

/// The unit of a node. One without an inside is a unit of its own.
fn unit(inside: &Inside, node: NodeId) -> u32 {
    inside.unit_of(node).unwrap_or(!node.0)
}

/// The search for whole groups.
struct Gather<'a> {
    problem: &'a Problem<'a>,
    /// Group of every task, and its tasks.
    group_of: Vec<u32>,
    members: Vec<Vec<u32>>,
    /// All slots, the number of each, and the number of its unit.
    slots: Vec<Slot>,
    number: HashMap<Slot, u32>,
    unit_of: Vec<u32>,
    stop: Stop,
    /// Evaluations that are left.
    left: Cell<usize>,
}

/// A placement by the numbers of slots, with its cost.
struct State {
    slot_of: Vec<u32>,
    placement: Placement,
    cost: Evaluation,
}

/// The placement with more whole groups and a cost that is no worse. One of `others` takes its place if the objective is as
/// good and more runs of tasks that the heaviest flows join are whole, even for more hop-bytes.
pub(crate) fn gather(
    problem: &Problem<'_>,
    graph: &Graph,
    (placement, cost): (Placement, Evaluation),
    others: &[(Placement, Evaluation)],
    seed: u64,
    stop: Stop,
) -> Result<(Placement, Evaluation), MapError> {
    let Some(inside) = problem.fabric.inside() else {
        return Ok((placement, cost));
    };
    if problem.exchange.tasks() > MOST_TASKS {
        return Ok((placement, cost));
    }
    let mut search = Gather::new(problem, inside, stop);
    let levels = levels(graph, search.room());
    let mut state = search.numbered(placement, cost);
    if let Some(runs) = levels.iter().rfind(|l| run_size(l).is_some()) {
        search.members = by_group(runs);
        state = search.preferred(state, others);
    }
    let mut rng = Random::stream(seed, STREAM);
    for group_of in levels {
        search.members = by_group(&group_of);
        search.group_of = group_of;
        for group in 0..search.members.len() {
            if !search.is_whole(&state.slot_of, group) {
                state = search.gathered(state, group, &mut rng)?;
            }
        }
    }
    Ok((state.placement, state.cost))
}

impl<'a> Gather<'a> {
    fn new(problem: &'a Problem<'a>, inside: &Inside, stop: Stop) -> Self {
        let slots: Vec<Slot> = problem.allocation.slots().collect();
        Self {
            problem,
            group_of: Vec::new(),
            members: Vec::new(),
            number: slots.iter().copied().zip(0..).collect(),
            unit_of: slots.iter().map(|s| unit(inside, s.node)).collect(),
            slots,
            stop,
            left: Cell::new(MOST.0.min(MOST_PAIRS / (1 + problem.exchange.pairs()))),
        }
    }

    /// Slots of the largest unit.
    fn room(&self) -> usize {
        let mut rooms: HashMap<u32, usize> = HashMap::new();
        let units = self.unit_of.iter();
        units.for_each(|&u| *rooms.entry(u).or_default() += 1);
        rooms.into_values().max().unwrap_or(0)
    }

    fn numbered(&self, placement: Placement, cost: Evaluation) -> State {
        State {
            slot_of: placement.slots().iter().map(|s| self.number[s]).collect(),
            placement,
            cost,
        }
    }

    /// The state, or one of `others` that is no slower and has more whole groups.
    fn preferred(&self, state: State, others: &[(Placement, Evaluation)]) -> State {
        let time = |cost: &Evaluation| cost.score(&self.problem.objective).0;
        let count = |state: &State| {
            let groups = 0..self.members.len();
            groups.filter(|&g| self.is_whole(&state.slot_of, g)).count()
        };
        let (first, mut most) = (time(&state.cost), count(&state));
        let mut best = state;
        for (placement, cost) in others {
            let other = self.numbered(placement.clone(), cost.clone());
            if !less(first, time(cost)) && count(&other) > most {
                most = count(&other);
                best = other;
            }
        }
        best
    }

    fn unit(&self, slot_of: &[u32], task: u32) -> u32 {
        self.unit_of[slot_of[task as usize] as usize]
    }

    fn is_whole(&self, slot_of: &[u32], group: usize) -> bool {
        let mut units = self.members[group].iter().map(|&t| self.unit(slot_of, t));
        let first = units.next();
        units.all(|u| Some(u) == first)
    }

    /// The state with one more whole group, if a unit has room and the cost allows it.
    fn gathered(&self, state: State, group: usize, rng: &mut Random) -> Result<State, MapError> {
        let mut task_at = vec![None; self.slots.len()];
        for (task, &slot) in (0u32..).zip(&state.slot_of) {
            task_at[slot as usize] = Some(task);
        }
        let whole: Vec<bool> = (0..self.members.len())
            .map(|g| self.is_whole(&state.slot_of, g) && self.members[g].len() > 1)
            .collect();
        // Slots that are free or have tasks of divided groups.
        let is_open = |slot: &usize| {
            task_at[*slot].is_none_or(|t| !whole[self.group_of[t as usize] as usize])
        };
        let open: Vec<usize> = (0..self.slots.len()).filter(is_open).collect();
        let own =
            |slot: usize| task_at[slot].filter(|&t| self.group_of[t as usize] as usize == group);
        // Room and own tasks by unit.
        let mut units: HashMap<u32, (usize, usize)> = HashMap::new();
        for &slot in &open {
            let unit = units.entry(self.unit_of[slot]).or_default();
            unit.0 += 1;
            unit.1 += usize::from(own(slot).is_some());
        }
        let size = self.members[group].len();
        let mut units: Vec<(u32, (usize, usize))> =
            units.into_iter().filter(|u| u.1.0 >= size).collect();
        // A unit that is filled leaves others whole; then the one with most of the group.
        units.sort_unstable_by_key(|&(unit, (room, own))| (room % size, usize::MAX - own, unit));
        for (unit, _) in units {
            let mut new = state.slot_of.clone();
            let mut inner: Vec<usize> = open
                .iter()
                .copied()
                .filter(|&s| self.unit_of[s] == unit)
                .collect();
            // Free slots first, then those of others.
            inner.retain(|&s| own(s).is_none());
            inner.sort_by_key(|&s| task_at[s].is_some());
            let outside = self.members[group]
                .iter()
                .filter(|&&t| self.unit(&state.slot_of, t) != unit);
            for (&task, &slot) in outside.zip(&inner) {
                if let Some(other) = task_at[slot] {
                    new[other as usize] = new[task as usize];
                }
                new[task as usize] = slot as u32;
            }
            if let Some(found) = self.settled(&state, new, (group, &open), rng)? {
                return Ok(found);
            }
        }
        Ok(state)
    }

    /// A placement with its cost; `None` at the end of the effort.
    fn state(&self, slot_of: Vec<u32>) -> Result<Option<State>, MapError> {
        let Some(left) = self.left.get().checked_sub(1) else {
            return Ok(None);
        };
        self.left.set(left);
        let slots = slot_of.iter().map(|&s| self.slots[s as usize]).collect();
        let placement = Placement::new(self.problem.fabric, self.problem.allocation, slots)?;
        let cost = evaluate_until(self.problem, &placement, self.stop)?;
        Ok(cost.map(|cost| State {
            slot_of,
            placement,
            cost,
        }))
    }

    /// Exchanges tasks of divided groups until the cost is no worse than before; `None` if it stays worse.
    fn settled(
        &self,
        before: &State,
        slot_of: Vec<u32>,
        (group, open): (usize, &[usize]),
        rng: &mut Random,
    ) -> Result<Option<State>, MapError> {
        let objective = self.problem.objective;
        let Some(mut best) = self.state(slot_of)? else {
            return Ok(None);
        };
        for _ in 0..MOST.1 {
            if !before.cost.better_than(&best.cost, &objective) {
                return Ok(Some(best));
            }
            let [a, b] = [0; 2].map(|_| open[rng.below(open.len())] as u32);
            let mut new = best.slot_of.clone();
            let mut tasks = Vec::new();
            for (task, slot) in (0u32..).zip(&mut new) {
                if *slot == a || *slot == b {
                    tasks.push(task);
                    *slot = if *slot == a { b } else { a };
                }
            }
            if a == b || tasks.is_empty() || !self.is_whole(&new, group) {
                continue;
            }
            match self.state(new)? {
                None => return Ok(None),
                Some(next) if !best.cost.better_than(&next.cost, &objective) => best = next,
                Some(_) => {}
            }
        }
        Ok((!before.cost.better_than(&best.cost, &objective)).then_some(best))
    }
}
