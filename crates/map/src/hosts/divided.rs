//! Times that no placement reaches, by the partners of single tasks.
//!
//! Suppose that the worst link takes less than a time T. Two tasks are in one unit of hosts if their bytes take T over a
//! port. Beyond that, the bytes of a task to its unit are less than T times its rate inside, those to other units less than T
//! times its rate outside: of its partners some must be near, and some may not be; a unit has room for so many of them.
//! With the parts that tasks of one unit form, this gives pairs of parts that are in one unit, and pairs that are not; the
//! parts must fit into the units.
//!
//! If parts of a heavier level do not fit as wholes, some are divided. In a ring each unit with some but not all of a part
//! has a task whose heavy bytes arrive from another unit. If those and the bytes of partners that have no room take T, the
//! part stays whole. The task's other heavy bytes may not come from another unit too: the part of these has tasks in that
//! unit, and is divided over the same units, and so on.

use super::apart::{self, Offer, Rates};
use super::packing::Packing;
use crate::graph::{Edge, Graph};
use std::collections::{BTreeMap, BTreeSet};

/// Largest graph, by its edge ends, and the most parts that are looked at.
const MOST_EDGES: usize = 1 << 14;
const MOST_PARTS: usize = 4096;

/// Budget of the packing searches of one bound, in looks at partners; a search gets one part in [`SHARE`] of the rest.
const MOST_LOOKS: usize = 200_000_000;
const SHARE: usize = 4;

/// Levels of bytes below the ones that join tasks, whose parts may be divided.
const LEVELS: usize = 4;

/// Longest time that is looked at, by the bound so far.
const MOST: f64 = 4.0;

/// Partners of a task with the most bytes that sums may lack.
const HEAVIEST: usize = 3;

/// Steps between two times of tasks.
const STEPS: usize = 4;

/// Share by which times are taken shorter: sums of bytes are rounded.
const ROUNDED: f64 = 1.0 - 1e-9;

/// Bytes of an edge in one direction: sent, received.
pub(super) const DIRECTIONS: [fn(&Edge) -> f64; 2] = [|e| f64::from(e.out), |e| f64::from(e.back)];

/// The longest time below which no placement is possible, at least `known`; `reached` is the time of some placement.
pub(super) fn raise(graph: &Graph, offer: &Offer<'_>, known: f64, reached: f64) -> f64 {
    let rates = offer.rates;
    if graph.ends() > MOST_EDGES || rates[0].pair.min(rates[1].pair) <= 0.0 {
        return known;
    }
    let mut looks = MOST_LOOKS;
    let mut is_impossible = |time: f64| {
        let mut share = looks / SHARE;
        looks -= share;
        let found = Parts::of(graph, offer, time).is_none_or(|p| p.are_impossible(&mut share));
        looks += share;
        found
    };
    let mut times = times(graph, &rates, known);
    times.retain(|&t| t <= reached);
    let (mut low, mut high) = (0, times.len());
    let mut best = known;
    while low < high {
        let middle = (low + high) / 2;
        let time = times[middle] * ROUNDED;
        match is_impossible(time) {
            true => {
                best = best.max(time);
                low = middle + 1;
            }
            false => high = middle,
        }
    }
    // Between two of these times the bytes of all tasks of a unit fill its ports.
    let mut most = times
        .get(low)
        .map_or(2.0 * best, |&next| next.min(2.0 * best))
        .min(reached);
    for _ in 0..STEPS {
        let middle = best.midpoint(most);
        match is_impossible(middle) {
            true => best = middle,
            false => most = middle,
        }
    }
    best
}

/// Times at which the bytes of a task and some of its partners fill a link, beyond the known bound.
fn times(graph: &Graph, rates: &[Rates; 2], known: f64) -> Vec<f64> {
    let mut sums: BTreeSet<(usize, u32)> = BTreeSet::new();
    let mut bytes: Vec<f64> = Vec::new();
    for task in 0..graph.units() as u32 {
        for (direction, of) in DIRECTIONS.iter().enumerate() {
            bytes.clear();
            bytes.extend(graph.edges(task).iter().map(of).filter(|&b| b > 0.0));
            bytes.sort_unstable_by(|a, b| b.total_cmp(a));
            let mut add = |sum: f64| sums.insert((direction, (sum as f32).to_bits()));
            for &b in &bytes {
                add(b);
                if let Some(first) = bytes.first() {
                    add(first + b);
                }
            }
            // The heaviest of all may be inside.
            for from in 0..bytes.len().min(HEAVIEST) {
                let mut sum = 0.0;
                for &b in &bytes[from..] {
                    sum += b;
                    add(sum);
                }
            }
        }
    }
    let mut times: Vec<f64> = sums
        .into_iter()
        .flat_map(|(direction, bits)| {
            let bytes = f64::from(f32::from_bits(bits)) * (1.0 - f64::from(f32::EPSILON));
            let of = &rates[direction];
            [of.pair, of.task, of.inner].map(|rate| if rate > 0.0 { bytes / rate } else { 0.0 })
        })
        .filter(|&t| t > known && t <= known * MOST)
        .collect();
    times.sort_unstable_by(f64::total_cmp);
    times.dedup_by(|a, b| *a <= *b * (1.0 + 1e-7));
    times
}

/// The least number of single precision that is no less.
fn at_least(bytes: f64) -> f32 {
    let near = bytes as f32;
    if f64::from(near) < bytes {
        near.next_up()
    } else {
        near
    }
}

/// Parts with some of them joined.
fn joined(of: &[u32], joins: impl Iterator<Item = (u32, u32)>) -> Vec<u32> {
    fn find(root: &mut [u32], part: u32) -> u32 {
        let mut at = part;
        while root[at as usize] != at {
            root[at as usize] = root[root[at as usize] as usize];
            at = root[at as usize];
        }
        at
    }
    let count = of.iter().max().map_or(0, |&last| last + 1);
    let mut root: Vec<u32> = (0..count).collect();
    for (a, b) in joins {
        let (a, b) = (find(&mut root, a), find(&mut root, b));
        root[a.max(b) as usize] = a.min(b);
    }
    let mut number: BTreeMap<u32, u32> = BTreeMap::new();
    let mut renumbered = |part: &u32| {
        let root = find(&mut root, *part);
        let next = number.len() as u32;
        *number.entry(root).or_insert(next)
    };
    of.iter().map(&mut renumbered).collect()
}

/// Parts with the tasks of every block in one.
fn together(of: &[u32], block_of: &[u32]) -> Vec<u32> {
    let mut first: BTreeMap<u32, u32> = BTreeMap::new();
    let pairs = block_of.iter().zip(of);
    let joins: Vec<(u32, u32)> = pairs
        .map(|(&block, &part)| (*first.entry(block).or_insert(part), part))
        .collect();
    joined(of, joins.into_iter())
}

/// Bytes of a task in one direction, by where its partners are.
struct Partners {
    /// In its own part, and in parts of other units.
    inside: f64,
    outside: f64,
    /// Bytes, size and number of the other parts, most bytes by task first.
    others: Vec<(f64, usize, u32)>,
    /// Tasks of these that its unit has room for.
    room: usize,
}

impl Partners {
    /// Other parts that are the first to stay.
    fn near(&self) -> impl Iterator<Item = &(f64, usize, u32)> {
        let mut left = self.room;
        self.others.iter().take_while(move |o| {
            let stays = left > 0;
            left = left.saturating_sub(o.1);
            stays
        })
    }

    /// Fewest bytes to other units; `part` is in one of those.
    fn leaving(&self, part: Option<u32>) -> f64 {
        let (mut left, mut bytes) = (self.room as f64, self.outside);
        for &(own, size, number) in &self.others {
            let share = match Some(number) == part {
                true => 0.0,
                false => (left / size as f64).min(1.0),
            };
            left -= share * size as f64;
            bytes += own * (1.0 - share);
        }
        bytes
    }
}

/// Parts whose tasks are in one unit if the worst link takes less than `time`.
struct Parts<'a> {
    graph: &'a Graph,
    offer: &'a Offer<'a>,
    time: f64,
    /// Part of every task, and tasks of every part.
    of: Vec<u32>,
    sizes: Vec<usize>,
    /// Pairs of parts in different units.
    apart: BTreeSet<(u32, u32)>,
}

impl<'a> Parts<'a> {
    /// The parts; `None` if no placement is so fast.
    fn of(graph: &'a Graph, offer: &'a Offer<'a>, time: f64) -> Option<Self> {
        let pair = offer.rates[0].pair.min(offer.rates[1].pair);
        let mut of = apart::parts(graph, at_least(time * pair));
        if let Some(block_of) = offer.block_of {
            of = together(&of, block_of);
        }
        let mut parts = Self {
            graph,
            offer,
            time,
            sizes: Vec::new(),
            apart: BTreeSet::new(),
            of,
        };
        loop {
            parts.count();
            let joins = parts.look()?;
            if joins.is_empty() {
                return Some(parts);
            }
            parts.join(&joins);
        }
    }

    fn count(&mut self) {
        let count = self.of.iter().max().map_or(0, |&last| last as usize + 1);
        self.sizes = vec![0; count];
        self.of.iter().for_each(|&p| self.sizes[p as usize] += 1);
    }

    /// The partners of a task in one direction.
    fn partners(&self, task: u32, direction: usize) -> Partners {
        let own = self.of[task as usize];
        let mut by_part: BTreeMap<u32, f64> = BTreeMap::new();
        for edge in self.graph.edges(task) {
            *by_part.entry(self.of[edge.to as usize]).or_default() += DIRECTIONS[direction](edge);
        }
        let inside = by_part.remove(&own).unwrap_or(0.0);
        let most = self.offer.rooms.iter().copied().max().unwrap_or(0);
        let room = most.saturating_sub(self.sizes[own as usize]);
        let size = |p: u32| self.sizes[p as usize];
        let is_apart = |p: u32| size(p) > room || self.apart.contains(&(own.min(p), own.max(p)));
        let (away, rest): (Vec<_>, Vec<_>) = by_part.into_iter().partition(|b| is_apart(b.0));
        let mut others: Vec<_> = rest.into_iter().map(|(p, b)| (b, size(p), p)).collect();
        let dense = |o: &(f64, usize, u32)| o.0 / o.1 as f64;
        others.sort_by(|a, b| dense(b).total_cmp(&dense(a)));
        Partners {
            inside,
            outside: away.iter().map(|b| b.1).sum(),
            others,
            room,
        }
    }

    /// Whether bytes take the whole time at a rate.
    fn fills(&self, bytes: f64, rate: f64) -> bool {
        rate > 0.0 && bytes >= self.time * rate
    }

    /// Parts that must be joined, by the bytes of every task; `None` if a task has too many either way.
    fn look(&mut self) -> Option<Vec<(u32, u32)>> {
        let mut joins = Vec::new();
        // Tasks of one place exchange bytes without a link.
        let one = self.offer.place == 1;
        loop {
            let before = self.apart.len();
            for task in 0..self.graph.units() as u32 {
                let own = self.of[task as usize];
                for (direction, rates) in self.offer.rates.iter().enumerate() {
                    let all = self.partners(task, direction);
                    let near = |bytes: f64| one && self.fills(all.inside + bytes, rates.inner);
                    if near(0.0) || self.fills(all.leaving(None), rates.task) {
                        return None;
                    }
                    let far =
                        |o: &&(f64, usize, u32)| self.fills(all.leaving(Some(o.2)), rates.task);
                    let stay: Vec<u32> = all.near().filter(far).map(|o| o.2).collect();
                    let leave: Vec<u32> = all
                        .others
                        .iter()
                        .filter(|o| near(o.0))
                        .map(|o| o.2)
                        .collect();
                    if stay.iter().any(|p| leave.contains(p)) {
                        return None;
                    }
                    joins.extend(stay.into_iter().map(|p| (own, p)));
                    self.apart
                        .extend(leave.into_iter().map(|p| (own.min(p), own.max(p))));
                }
            }
            if !joins.is_empty() || self.apart.len() == before {
                return Some(joins);
            }
        }
    }

    fn join(&mut self, joins: &[(u32, u32)]) {
        self.of = joined(&self.of, joins.iter().copied());
        // Found again from the joined parts.
        self.apart.clear();
    }

    /// Whether the parts do not fit into the units.
    fn are_impossible(&self, looks: &mut usize) -> bool {
        let rooms = self.rooms();
        if !apart::fit(&self.sizes, &rooms) {
            return true;
        }
        let parts = (&self.of[..], &self.sizes[..]);
        self.sizes.len() <= MOST_PARTS
            && (self.is_unit_too_slow()
                || self.levels().iter().any(|l| self.is_indivisible(l, &rooms))
                || Packing::is_impossible(self.graph, self.offer, parts, self.time, looks))
    }

    /// Whether a unit that must have tasks, for want of room in the others, has ports that are too slow for any.
    fn is_unit_too_slow(&self) -> bool {
        let between = self.graph.quotient(&self.of, self.sizes.len());
        let spare = self
            .offer
            .rooms
            .iter()
            .sum::<usize>()
            .saturating_sub(self.of.len());
        let mut fewest: BTreeMap<(usize, usize), f64> = BTreeMap::new();
        let units = self.offer.rooms.iter().zip(self.offer.ports);
        let mut needy = units.filter(|u| *u.0 > spare);
        needy.any(|(&room, ports)| {
            (0..2).any(|direction| {
                let bytes = fewest.entry((room, direction));
                let bytes =
                    bytes.or_insert_with(|| self.fewest(&between, (room, room - spare), direction));
                self.fills(*bytes, ports[direction])
            })
        })
    }

    /// Fewest bytes in a direction of `tasks` tasks in a unit with some room.
    fn fewest(&self, between: &Graph, (room, tasks): (usize, usize), direction: usize) -> f64 {
        let mut parts: Vec<(f64, usize)> = Vec::new();
        let mut others = Vec::new();
        for (part, &size) in (0..).zip(&self.sizes).filter(|p| *p.1 <= room) {
            others.clear();
            let edges = between.edges(part).iter();
            others.extend(edges.map(|e| (DIRECTIONS[direction](e), self.sizes[e.to as usize])));
            parts.push((apart::beyond(&mut others, room - size), size));
        }
        let each = |p: &(f64, usize)| p.0 / p.1 as f64;
        parts.sort_unstable_by(|a, b| each(a).total_cmp(&each(b)));
        let (mut left, mut bytes) = (tasks as f64, 0.0);
        for (own, size) in parts {
            let share = (left / size as f64).min(1.0);
            left -= share * size as f64;
            bytes += own * share;
        }
        bytes
    }

    /// Slots of the units that can be used: of two parts that are apart, a unit has one at most.
    fn rooms(&self) -> Vec<usize> {
        let mut matched = vec![false; self.sizes.len()];
        let mut most = self.of.len();
        for &(a, b) in &self.apart {
            if !matched[a as usize] && !matched[b as usize] {
                (matched[a as usize], matched[b as usize]) = (true, true);
                most -= self.sizes[a as usize].min(self.sizes[b as usize]);
            }
        }
        self.offer
            .rooms
            .iter()
            .map(|&room| room.min(most))
            .collect()
    }

    /// Parts of heavier levels than those that are known to be together.
    fn levels(&self) -> Vec<(f32, Vec<u32>)> {
        let tasks = 0..self.graph.units() as u32;
        let own = |t: u32| self.of[t as usize];
        let beyond = |t: u32| {
            self.graph
                .edges(t)
                .iter()
                .filter(move |e| own(t) != own(e.to))
        };
        let mut steps: Vec<f32> = tasks.flat_map(|t| beyond(t).map(|e| e.out)).collect();
        steps.retain(|&b| b > 0.0);
        steps.sort_unstable_by(|a, b| b.total_cmp(a));
        steps.dedup();
        steps.truncate(LEVELS);
        let parts = |b| (b, apart::parts(self.graph, b));
        steps.into_iter().map(parts).collect()
    }

    /// Whether parts of a level do not fit as wholes, and too few can be divided.
    fn is_indivisible(&self, (level, part_of): &(f32, Vec<u32>), rooms: &[usize]) -> bool {
        let count = part_of.iter().max().map_or(0, |&last| last as usize + 1);
        let mut members = vec![Vec::new(); count];
        for (task, &part) in (0..).zip(part_of) {
            members[part as usize].push(task);
        }
        let sizes: Vec<usize> = members.iter().map(Vec::len).collect();
        let mut follow: Vec<Vec<u32>> = vec![Vec::new(); count];
        let mut stays = vec![false; count];
        for (part, tasks) in members.iter().enumerate().filter(|m| m.1.len() > 1) {
            let Some(heavy) = self.ring(tasks, part_of, *level) else {
                continue;
            };
            stays[part] = (0..2).any(|direction| !self.can_be_cut(tasks, *level, direction));
            for (direction, of) in DIRECTIONS.iter().enumerate() {
                follow[part].extend(self.followers(
                    tasks,
                    part_of,
                    (heavy[direction], direction),
                    of,
                ));
            }
        }
        let reached = |next: &[Vec<u32>], from: usize| -> BTreeSet<u32> {
            let mut seen = BTreeSet::from([from as u32]);
            let mut open = vec![from as u32];
            while let Some(part) = open.pop() {
                open.extend(next[part as usize].iter().filter(|&&n| seen.insert(n)));
            }
            seen
        };
        let mut back: Vec<Vec<u32>> = vec![Vec::new(); count];
        for (part, next) in (0..).zip(&follow) {
            next.iter().for_each(|&n| back[n as usize].push(part));
        }
        let mut pieces = Vec::new();
        let mut is_known = vec![None; count];
        for part in 0..count {
            let divides = is_known[part].unwrap_or_else(|| {
                let all = reached(&follow, part);
                // Those divided over the same units.
                let same: Vec<u32> = reached(&back, part).intersection(&all).copied().collect();
                let tasks: usize = same.iter().map(|&p| sizes[p as usize]).sum();
                let large = rooms.iter().filter(|&&room| room >= all.len());
                let divides = all.iter().all(|&p| !stays[p as usize])
                    && large.clone().count() > 1
                    && large.sum::<usize>() >= tasks;
                same.iter()
                    .for_each(|&p| is_known[p as usize] = Some(divides));
                divides
            });
            match divides && sizes[part] > 1 {
                true => pieces.extend(std::iter::repeat_n(1, sizes[part])),
                false => pieces.push(sizes[part]),
            }
        }
        !apart::fit(&pieces, rooms)
    }

    /// Whether some task of a ring has time for heavy bytes in a direction from or to another unit.
    fn can_be_cut(&self, tasks: &[u32], level: f32, direction: usize) -> bool {
        let rate = self.offer.rates[direction].task;
        tasks.iter().any(|&task| {
            let heavy = |e: &&Edge| DIRECTIONS[direction](e) >= f64::from(level);
            let edges = self.graph.edges(task).iter().filter(heavy);
            let mut parts: Vec<u32> = edges.map(|e| self.of[e.to as usize]).collect();
            parts.retain(|&p| p != self.of[task as usize]);
            parts.sort_unstable();
            parts.dedup();
            let all = (!parts.is_empty()).then(|| self.partners(task, direction));
            all.is_some_and(|all| {
                parts
                    .iter()
                    .any(|&p| !self.fills(all.leaving(Some(p)), rate))
            })
        })
    }

    /// The least heavy bytes of a task from others of a part, and to them, if each sends to as many as it receives from:
    /// then bytes enter every set of some of its tasks, and leave it.
    fn ring(&self, tasks: &[u32], part_of: &[u32], level: f32) -> Option<[f64; 2]> {
        let mut least = [f64::INFINITY; 2];
        for &task in tasks {
            let mut counts = [0; 2];
            for edge in self.graph.edges(task) {
                if part_of[edge.to as usize] != part_of[task as usize] {
                    continue;
                }
                for (i, of) in DIRECTIONS.iter().enumerate() {
                    if of(edge) >= f64::from(level) {
                        counts[i] += 1;
                        least[i] = least[i].min(of(edge));
                    }
                }
            }
            if counts[0] != counts[1] || counts[0] == 0 {
                return None;
            }
        }
        Some(least)
    }

    /// Parts with a task in every unit of a divided part: one of its tasks there has heavy bytes of another unit, and no
    /// room beside them for the bytes of all partners in such a part.
    fn followers(
        &self,
        tasks: &[u32],
        part_of: &[u32],
        (heavy, direction): (f64, usize),
        of: &dyn Fn(&Edge) -> f64,
    ) -> Vec<u32> {
        let rate = self.offer.rates[direction].task;
        let mut always: Option<BTreeSet<u32>> = None;
        for &task in tasks {
            let mut by_part: BTreeMap<u32, f64> = BTreeMap::new();
            for edge in self.graph.edges(task) {
                let part = part_of[edge.to as usize];
                if part != part_of[task as usize] {
                    *by_part.entry(part).or_default() += of(edge);
                }
            }
            let full = by_part
                .into_iter()
                .filter(|b| heavy + b.1 >= self.time * rate);
            let full: BTreeSet<u32> = full.map(|b| b.0).collect();
            always = Some(match always {
                None => full,
                Some(before) => before.intersection(&full).copied().collect(),
            });
        }
        always.unwrap_or_default().into_iter().collect()
    }
}
