//! A lower bound from the tasks that must share a unit of hosts.
//!
//! Where the worst link takes less than a time T, two tasks whose bytes take longer than T over a port are in one unit,
//! and so are all tasks that such pairs join. These parts must fit into the units side by side, the bytes between the
//! tasks of a part cross inner links, and what leaves a part shares ports. The bound is the least T without a
//! contradiction: between two times at which pairs join, the parts are the same.

use crate::graph::{Edge, Graph};
use std::collections::BTreeSet;

/// Maximum number of edge ends of a graph whose bytes between parts are counted at every step.
const MOST_EDGES: usize = 1 << 20;

/// Bytes of an edge in one direction.
type Bytes = fn(&Edge) -> f32;

/// Highest rates in one direction, bytes per second.
#[derive(Clone, Copy)]
pub(super) struct Rates {
    /// Over the inner links of a place.
    pub(super) inner: f64,
    /// Over the ports that the bytes between two tasks use, and that those of one task use.
    pub(super) pair: f64,
    pub(super) task: f64,
    /// Over all ports of a unit, and of the allocation.
    pub(super) unit: f64,
    pub(super) all: f64,
}

/// What the tasks are placed on.
pub(super) struct Offer<'a> {
    /// Slots of the units, and the most of a place.
    pub(super) rooms: &'a [usize],
    pub(super) place: usize,
    /// Rates out of places, and into them.
    pub(super) rates: [Rates; 2],
    /// Rates of the ports of each unit, out and in, and of the host with the most.
    pub(super) ports: &'a [[f64; 2]],
    /// Highest rates of one task in each unit over its ports, out and in.
    pub(super) tasks: [&'a [f64]; 2],
    pub(super) host: [f64; 2],
    /// The block of every task, if the tasks of a block are on one host.
    pub(super) block_of: Option<&'a [u32]>,
}

/// The time below which no placement is possible.
pub(super) fn least(graph: &Graph, offer: &Offer<'_>) -> f64 {
    let [out, into] = &offer.rates;
    let rate = out.pair.min(into.pair);
    if rate <= 0.0 {
        return 0.0;
    }
    let flows = (0..graph.units() as u32).flat_map(|t| graph.edges(t));
    let mut steps: Vec<f32> = flows.map(|e| e.out).filter(|&b| b > 0.0).collect();
    steps.sort_unstable_by(f32::total_cmp);
    steps.dedup();
    // Below the time of step `i` the pairs of its bytes and more are joined.
    let joined = |i: usize| steps.get(i).map_or(0.0, |&s| of_parts(graph, offer, s));
    let time = |i: usize| i.checked_sub(1).map_or(0.0, |i| f64::from(steps[i]) / rate);
    // The first step whose parts are possible before its pairs are apart.
    let (mut low, mut high) = (0, steps.len());
    while low < high {
        let middle = (low + high) / 2;
        match joined(middle) <= time(middle) {
            true => high = middle,
            false => low = middle + 1,
        }
    }
    let before = low.checked_sub(1).map_or(f64::INFINITY, joined);
    time(low).min(before)
}

/// Time of the bytes in and between the parts that flows of at least `bytes` join; infinite if they do not fit.
fn of_parts(graph: &Graph, offer: &Offer<'_>, bytes: f32) -> f64 {
    let part_of = parts(graph, bytes);
    let count = part_of.iter().max().map_or(0, |&last| last as usize + 1);
    let mut sizes = vec![0usize; count];
    part_of.iter().for_each(|&p| sizes[p as usize] += 1);
    if !fit(&sizes, offer.rooms) {
        return f64::INFINITY;
    }
    if graph.ends() > MOST_EDGES {
        return 0.0;
    }
    let between = graph.quotient(&part_of, count);
    let directions: [[Bytes; 2]; 2] = [[|e| e.out, |e| e.back], [|e| e.back, |e| e.out]];
    let mut worst = 0.0f64;
    for (rates, [of, other]) in offer.rates.iter().zip(directions) {
        let inside = within(graph, &part_of, offer.place, of);
        worst = worst.max(ratio(inside, rates.inner));
        worst = worst.max(leaving(&between, &sizes, offer, (rates, of)));
        if offer.place == 1 {
            let most = largest(graph, &part_of, offer.rooms, [of, other]);
            worst = worst.max(ratio(most, rates.inner));
        }
    }
    worst
}

/// Mean bytes of the tasks in the largest unit that stay inside: it has the tasks for which the others have no room, and
/// no more leaves it than the tasks of the others take from beyond their parts.
fn largest(graph: &Graph, part_of: &[u32], rooms: &[usize], [of, other]: [Bytes; 2]) -> f64 {
    let tasks = graph.units();
    let room = rooms.iter().copied().max().unwrap_or(0).min(tasks);
    let others = rooms.iter().sum::<usize>() - rooms.iter().copied().max().unwrap_or(0);
    let sums = |of: &dyn Fn(u32, &Edge) -> f32| -> Vec<f64> {
        let sum = |t: u32| graph.edges(t).iter().map(|e| f64::from(of(t, e))).sum();
        (0..tasks as u32).map(sum).collect()
    };
    let mut all = sums(&|_, e| of(e));
    let is_apart = |t: u32, e: &Edge| part_of[t as usize] != part_of[e.to as usize];
    let mut taken = sums(&|t, e| if is_apart(t, e) { other(e) } else { 0.0 });
    all.sort_unstable_by(f64::total_cmp);
    taken.sort_unstable_by(|a, b| b.total_cmp(a));
    let stay = |count: usize| {
        let sent: f64 = all[..count].iter().sum();
        let left: f64 = taken[..tasks - count].iter().sum();
        (sent - left) / count as f64
    };
    let counts = tasks.saturating_sub(others).max(1)..=room;
    counts.map(stay).fold(f64::INFINITY, f64::min).max(0.0)
}

/// The part of every task.
pub(super) fn parts(graph: &Graph, bytes: f32) -> Vec<u32> {
    let mut part_of = vec![u32::MAX; graph.units()];
    let (mut open, mut count) = (Vec::new(), 0);
    for first in 0..graph.units() as u32 {
        if part_of[first as usize] != u32::MAX {
            continue;
        }
        part_of[first as usize] = count;
        open.push(first);
        while let Some(task) = open.pop() {
            let heavy = |e: &&Edge| e.out >= bytes || e.back >= bytes;
            for edge in graph.edges(task).iter().filter(heavy) {
                if part_of[edge.to as usize] == u32::MAX {
                    part_of[edge.to as usize] = count;
                    open.push(edge.to);
                }
            }
        }
        count += 1;
    }
    part_of
}

/// Whether nothing says that the parts cannot be packed: counted in pieces of any size, a unit has room for as many
/// pieces as fit into it, and a part fills at least those that fit into the part.
pub(super) fn fit(sizes: &[usize], rooms: &[usize]) -> bool {
    let most = |of: &[usize]| of.iter().copied().max().unwrap_or(0);
    let pieces = |of: &[usize], size: usize| of.iter().map(|n| n / size).sum::<usize>();
    let kinds: BTreeSet<usize> = sizes.iter().copied().collect();
    let mut kinds = kinds.into_iter();
    most(sizes) <= most(rooms) && kinds.all(|size| pieces(sizes, size) <= pieces(rooms, size))
}

/// Most bytes between one task and others of its part, without those that may be on its place.
fn within(graph: &Graph, part_of: &[u32], place: usize, of: Bytes) -> f64 {
    let mut bytes: Vec<f64> = Vec::new();
    let tasks = 0..graph.units() as u32;
    let sum = |task: u32| {
        bytes.clear();
        let own = part_of[task as usize];
        let inside = graph
            .edges(task)
            .iter()
            .filter(|e| part_of[e.to as usize] == own);
        bytes.extend(inside.map(|e| f64::from(of(e))));
        bytes.sort_unstable_by(|a, b| b.total_cmp(a));
        bytes.iter().skip(place.saturating_sub(1)).sum()
    };
    tasks.map(sum).fold(0.0, f64::max)
}

/// Time of the bytes that leave parts, or arrive.
fn leaving(
    between: &Graph,
    sizes: &[usize],
    offer: &Offer<'_>,
    (rates, of): (&Rates, Bytes),
) -> f64 {
    let room = offer.rooms.iter().copied().max().unwrap_or(0);
    let (mut sum, mut worst) = (0.0, 0.0f64);
    let mut others: Vec<(f64, usize)> = Vec::new();
    for part in 0..between.units() as u32 {
        let size = sizes[part as usize];
        others.clear();
        let edges = between.edges(part).iter();
        others.extend(edges.map(|e| (f64::from(of(e)), sizes[e.to as usize])));
        let bytes = beyond(&mut others, room.saturating_sub(size));
        sum += bytes;
        // Each task of the part has ports, and the unit has not more than its own.
        let rate = rates.unit.min(size as f64 * rates.task);
        worst = worst.max(ratio(bytes, rate));
    }
    worst.max(ratio(sum, rates.all))
}

/// Bytes that remain when the densest other parts fill the room; of the last one a share.
pub(super) fn beyond(others: &mut [(f64, usize)], room: usize) -> f64 {
    let dense = |o: &(f64, usize)| o.0 / o.1 as f64;
    others.sort_unstable_by(|a, b| dense(b).total_cmp(&dense(a)));
    let (mut left, mut bytes) = (room as f64, 0.0);
    for &(own, size) in others.iter() {
        let share = (left / size as f64).min(1.0);
        left -= share * size as f64;
        bytes += own * (1.0 - share);
    }
    bytes
}

/// Time of bytes at a rate; 0 where no rate is known.
fn ratio(bytes: f64, rate: f64) -> f64 {
    if rate > 0.0 { bytes / rate } else { 0.0 }
}
