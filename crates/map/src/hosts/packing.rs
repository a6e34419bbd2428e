//! Whether parts can be put into units so that the worst link takes less than a given time: a complete search.
//!
//! A part is in one unit. The bytes of a task to its unit, those to other units, and all bytes between units must take less
//! than the time, each on the links that all of them share. Parts are assigned in the order of their traffic with those before.

use super::apart::Offer;
use super::divided::DIRECTIONS;
use crate::graph::Graph;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of parts, and of assignments that are tried.
const MOST_PARTS: usize = 128;
const MOST_TRIED: usize = 1_000;

/// No unit.
const NONE: usize = usize::MAX;

/// Bytes of a task, or of several at one host, in one direction, by part.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Demand {
    direction: usize,
    /// Bits of the bytes: nonnegative numbers are in the order of their bits.
    bytes: Vec<(u32, u64)>,
    /// Whether these are all bytes of the ranks of one host.
    host: bool,
}

pub(super) struct Packing<'a> {
    offer: &'a Offer<'a>,
    time: f64,
    sizes: &'a [usize],
    /// Demands of every part, without those that others exceed in all parts.
    demands: Vec<Vec<Demand>>,
    /// Bytes to every other part with traffic, and from it.
    between: Vec<BTreeMap<u32, [f64; 2]>>,
    /// Parts in the order of assignment.
    order: Vec<usize>,
    unit_of: Vec<usize>,
    left: Vec<usize>,
    loads: Vec<[f64; 2]>,
    tried: usize,
}

impl<'a> Packing<'a> {
    /// Whether it is proven that the parts cannot be assigned.
    pub(super) fn is_impossible(
        graph: &Graph,
        offer: &'a Offer<'a>,
        (of, sizes): (&[u32], &'a [usize]),
        time: f64,
    ) -> bool {
        if sizes.len() > MOST_PARTS || offer.rooms.len() < 2 {
            return false;
        }
        let mut packing = Self {
            offer,
            time,
            sizes,
            demands: vec![Vec::new(); sizes.len()],
            between: vec![BTreeMap::new(); sizes.len()],
            order: Vec::new(),
            unit_of: vec![NONE; sizes.len()],
            left: offer.rooms.to_vec(),
            loads: vec![[0.0; 2]; offer.rooms.len()],
            tried: 0,
        };
        packing.count(graph, of);
        packing.sort();
        packing.assign(0) == Some(false)
    }

    /// Bytes of all tasks by part.
    fn count(&mut self, graph: &Graph, of: &[u32]) {
        let mut demands: Vec<BTreeSet<Demand>> = vec![BTreeSet::new(); self.sizes.len()];
        let mut hosts: BTreeMap<(u32, usize), BTreeMap<u32, f64>> = BTreeMap::new();
        for task in 0..graph.units() as u32 {
            let own = of[task as usize];
            for (direction, bytes_of) in DIRECTIONS.iter().enumerate() {
                let mut by_part: BTreeMap<u32, f64> = BTreeMap::new();
                for edge in graph.edges(task) {
                    let (part, bytes) = (of[edge.to as usize], bytes_of(edge));
                    if bytes > 0.0 {
                        *by_part.entry(part).or_default() += bytes;
                    }
                    if part != own && bytes > 0.0 {
                        self.between[own as usize].entry(part).or_default()[direction] += bytes;
                    }
                }
                if let Some(block_of) = self.offer.block_of {
                    let all = hosts
                        .entry((block_of[task as usize], direction))
                        .or_default();
                    for (&part, &bytes) in &by_part {
                        *all.entry(part).or_default() += bytes;
                    }
                }
                let bytes = by_part.iter().map(|(&p, b)| (p, b.to_bits())).collect();
                let host = false;
                demands[own as usize].insert(Demand {
                    direction,
                    bytes,
                    host,
                });
            }
        }
        if let Some(block_of) = self.offer.block_of {
            let owner: BTreeMap<u32, u32> =
                block_of.iter().copied().zip(of.iter().copied()).collect();
            for ((block, direction), by_part) in hosts {
                let bytes = by_part.iter().map(|(&p, b)| (p, b.to_bits())).collect();
                let host = true;
                demands[owner[&block] as usize].insert(Demand {
                    direction,
                    bytes,
                    host,
                });
            }
        }
        self.demands = demands
            .into_iter()
            .map(|d| d.into_iter().collect())
            .collect();
    }

    /// Parts by their traffic with those before, larger ones first.
    fn sort(&mut self) {
        let mut rest: BTreeSet<usize> = (0..self.sizes.len()).collect();
        let mut pull = vec![0.0f64; self.sizes.len()];
        while let Some(&first) = rest.iter().max_by(|&&a, &&b| {
            let by_size = self.sizes[a].cmp(&self.sizes[b]);
            pull[a].total_cmp(&pull[b]).then(by_size).then(b.cmp(&a))
        }) {
            rest.remove(&first);
            self.order.push(first);
            for (&other, bytes) in &self.between[first] {
                pull[other as usize] += bytes[0] + bytes[1];
            }
        }
    }

    /// Whether the parts from `at` on can be assigned; `None` if too many assignments were tried.
    fn assign(&mut self, at: usize) -> Option<bool> {
        let Some(&part) = self.order.get(at) else {
            return Some(true);
        };
        if !self.have_room(at) {
            return Some(false);
        }
        let rooms = self.offer.rooms;
        let mut seen = BTreeSet::new();
        for (unit, &room) in rooms.iter().enumerate() {
            let rates = self.offer.ports[unit].map(f64::to_bits);
            // Empty units that are alike are one choice.
            let is_new = self.left[unit] < room || seen.insert((room, rates));
            if !is_new || self.left[unit] < self.sizes[part] {
                continue;
            }
            self.tried += 1;
            if self.tried > MOST_TRIED {
                return None;
            }
            let before = self.loads.clone();
            self.put(part, unit);
            let fits = self.is_fast(part);
            let found = if fits {
                self.assign(at + 1)
            } else {
                Some(false)
            };
            self.unit_of[part] = NONE;
            self.left[unit] += self.sizes[part];
            self.loads = before;
            if found != Some(false) {
                return found;
            }
        }
        Some(false)
    }

    /// Whether the parts from `at` on may have room, by the smallest of them.
    fn have_room(&self, at: usize) -> bool {
        let rest = self.order[at..].iter().map(|&p| self.sizes[p]);
        let least = rest.clone().min().unwrap_or(1);
        let pieces: usize = self.left.iter().map(|l| l / least).sum();
        pieces >= rest.map(|size| size / least).sum::<usize>()
    }

    fn put(&mut self, part: usize, unit: usize) {
        self.unit_of[part] = unit;
        self.left[unit] -= self.sizes[part];
        for (&other, &[sent, received]) in &self.between[part] {
            let far = self.unit_of[other as usize];
            if far != NONE && far != unit {
                self.loads[unit][0] += sent;
                self.loads[unit][1] += received;
                self.loads[far][0] += received;
                self.loads[far][1] += sent;
            }
        }
    }

    /// Whether the tasks of a part and of its partners, and their units, are fast enough so far.
    fn is_fast(&self, part: usize) -> bool {
        let over = |bytes: f64, rate: f64| rate > 0.0 && bytes >= self.time * rate;
        let unit_is_fast =
            |unit: usize| (0..2).all(|d| !over(self.loads[unit][d], self.offer.ports[unit][d]));
        let is_known = |p: &&u32| self.unit_of[**p as usize] != NONE;
        let partners = self.between[part].keys().filter(is_known);
        let own = part as u32;
        std::iter::once(&own).chain(partners).all(|&p| {
            unit_is_fast(self.unit_of[p as usize])
                && self.demands[p as usize].iter().all(|demand| {
                    let (mut inside, mut outside) = (0.0, 0.0);
                    for &(other, bits) in &demand.bytes {
                        let bytes = f64::from_bits(bits);
                        match self.unit_of[other as usize] {
                            NONE => {}
                            unit if unit == self.unit_of[p as usize] => inside += bytes,
                            _ => outside += bytes,
                        }
                    }
                    let rates = &self.offer.rates[demand.direction];
                    match demand.host {
                        true => !over(outside, self.offer.host[demand.direction]),
                        false => {
                            let near = self.offer.place == 1 && over(inside, rates.inner);
                            !near && !over(outside, rates.task)
                        }
                    }
                })
        })
    }
}
