//! Times that no placement reaches, by the partners of single tasks.
//!
//! Suppose that the worst link takes less than a time T. Two tasks are in one unit of hosts if their bytes take T over a
//! port. Beyond that, the bytes of a task to its unit are less than T times its rate inside, those to other units less than T
//! times its rate outside: of its partners some must be near, and some may not be. With the parts that tasks of one unit
//! form, this gives pairs of parts that are in one unit, and pairs that are not; the parts must fit into the units.
//!
//! If parts of a heavier level do not fit as wholes, some are divided. In a ring each unit with some but not all of a part
//! has a task whose heavy bytes arrive from another unit, so that its other heavy bytes may not: the part of these has
//! tasks in that unit too, and is divided over the same units, and so on.

use super::apart::{self, Offer, Rates};
use super::packing::Packing;
use crate::graph::{Edge, Graph};
use std::collections::{BTreeMap, BTreeSet};

/// Largest graph, by its edge ends, and the most parts that are looked at.
const MOST_EDGES: usize = 1 << 14;
const MOST_PARTS: usize = 4096;

/// Levels of bytes below the ones that join tasks, whose parts may be divided.
const LEVELS: usize = 4;

/// Longest time that is looked at, by the bound so far.
const MOST: f64 = 4.0;

/// Steps between two times of tasks.
const STEPS: usize = 4;

/// Share by which times are taken shorter: sums of bytes are rounded.
const ROUNDED: f64 = 1.0 - 1e-9;

/// Bytes of an edge in one direction: sent, received.
pub(super) const DIRECTIONS: [fn(&Edge) -> f64; 2] = [|e| f64::from(e.out), |e| f64::from(e.back)];

/// The longest time below which no placement is possible, at least `known`.
pub(super) fn raise(graph: &Graph, offer: &Offer<'_>, known: f64) -> f64 {
    let rates = offer.rates;
    if graph.ends() > MOST_EDGES || rates[0].pair.min(rates[1].pair) <= 0.0 {
        return known;
    }
    let is_impossible =
        |time: f64| Parts::of(graph, offer, time).is_none_or(|p| p.are_impossible());
    let times = times(graph, &rates, known);
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
        .map_or(2.0 * best, |&next| next.min(2.0 * best));
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
            let mut sum = 0.0;
            let mut add = |sum: f64| sums.insert((direction, (sum as f32).to_bits()));
            for (at, &b) in bytes.iter().enumerate() {
                sum += b;
                add(sum);
                add(b);
                if let Some(first) = bytes.first().filter(|_| at > 0) {
                    add(first + b);
                }
            }
            if let [a, b, c, ..] = bytes[..] {
                [b + c, a + c].into_iter().for_each(|s| {
                    add(s);
                });
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

    /// Parts that must be joined, by the bytes of every task; `None` if a task has too many either way.
    fn look(&mut self) -> Option<Vec<(u32, u32)>> {
        let mut joins = Vec::new();
        let mut by_part: BTreeMap<u32, f64> = BTreeMap::new();
        // Tasks of one place exchange bytes without a link.
        let (one, most) = (self.offer.place == 1, self.time);
        loop {
            let before = self.apart.len();
            for task in 0..self.graph.units() as u32 {
                let own = self.of[task as usize];
                for (rates, of) in self.offer.rates.iter().zip(DIRECTIONS) {
                    by_part.clear();
                    for edge in self.graph.edges(task) {
                        *by_part.entry(self.of[edge.to as usize]).or_default() += of(edge);
                    }
                    let inside = by_part.remove(&own).unwrap_or(0.0);
                    let is_apart = |p: u32| self.apart.contains(&(own.min(p), own.max(p)));
                    let away = by_part.iter().filter(|b| is_apart(*b.0));
                    let outside: f64 = away.map(|b| b.1).sum();
                    let fills = |bytes: f64, rate: f64| rate > 0.0 && bytes >= most * rate;
                    if (one && fills(inside, rates.inner)) || fills(outside, rates.task) {
                        return None;
                    }
                    let mut new = Vec::new();
                    for (&part, &bytes) in by_part.iter().filter(|b| !is_apart(*b.0)) {
                        let far = fills(outside + bytes, rates.task);
                        let near = one && fills(inside + bytes, rates.inner);
                        if far && near {
                            return None;
                        }
                        if far {
                            joins.push((own, part));
                        }
                        if near {
                            new.push((own.min(part), own.max(part)));
                        }
                    }
                    self.apart.extend(new);
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
    fn are_impossible(&self) -> bool {
        let rooms = self.rooms();
        if !apart::fit(&self.sizes, &rooms) {
            return true;
        }
        let parts = (&self.of[..], &self.sizes[..]);
        self.sizes.len() <= MOST_PARTS
            && (self.levels().iter().any(|l| self.is_indivisible(l, &rooms))
                || Packing::is_impossible(self.graph, self.offer, parts, self.time))
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
        for (part, tasks) in members.iter().enumerate().filter(|m| m.1.len() > 1) {
            let Some(heavy) = self.ring(tasks, part_of, *level) else {
                continue;
            };
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
                let divides = large.clone().count() > 1 && large.sum::<usize>() >= tasks;
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
