//! Whether parts can be put into units so that the worst link takes less than a given time: a complete search.
//!
//! A part is in one unit. The bytes of a task to its unit, those to other units, and all bytes between units must take less
//! than the time, each on the links that all of them share. Parts are assigned in the order of their traffic with those before.

use super::apart::Offer;
use super::divided::DIRECTIONS;
use crate::graph::Graph;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of parts.
const MOST_PARTS: usize = 128;

/// No unit.
const NONE: usize = usize::MAX;

/// Bytes of a task, or of several at one host, in one direction.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Demand {
    /// The part of the tasks.
    part: u32,
    direction: usize,
    /// Whether these are all bytes of the ranks of one host.
    host: bool,
    /// Bits of the bytes inside the part, and by other part: nonnegative numbers are in the order of their bits.
    inside: u64,
    bytes: Vec<(u32, u64)>,
}

/// A search for units of all parts.
pub(super) struct Packing<'a> {
    offer: &'a Offer<'a>,
    time: f64,
    sizes: &'a [usize],
    demands: Vec<Demand>,
    /// The demands of every part, and those of others with bytes from or to it.
    own: Vec<Vec<usize>>,
    with: Vec<Vec<(usize, f64)>>,
    /// Bytes of every demand from or to the assigned parts of each unit.
    placed: Vec<Vec<f64>>,
    /// Bytes to every other part with traffic, and from it.
    between: Vec<BTreeMap<u32, [f64; 2]>>,
    /// Looks at partners after an assignment of each part.
    effort: Vec<usize>,
    /// Parts in the order of assignment.
    order: Vec<usize>,
    unit_of: Vec<usize>,
    left: Vec<usize>,
    loads: Vec<[f64; 2]>,
    /// Partners that may still be looked at.
    looks: &'a mut usize,
}

impl<'a> Packing<'a> {
    /// Whether it is proven that the parts cannot be assigned, with so many looks at partners.
    pub(super) fn is_impossible(
        graph: &Graph,
        offer: &'a Offer<'a>,
        (of, sizes): (&[u32], &'a [usize]),
        time: f64,
        looks: &'a mut usize,
    ) -> bool {
        let units = offer.rooms.len();
        if sizes.len() > MOST_PARTS || units < 2 {
            return false;
        }
        let mut packing = Self {
            offer,
            time,
            sizes,
            demands: Vec::new(),
            own: vec![Vec::new(); sizes.len()],
            with: vec![Vec::new(); sizes.len()],
            placed: Vec::new(),
            between: vec![BTreeMap::new(); sizes.len()],
            effort: Vec::new(),
            order: Vec::new(),
            unit_of: vec![NONE; sizes.len()],
            left: offer.rooms.to_vec(),
            loads: vec![[0.0; 2]; units],
            looks,
        };
        packing.count(graph, of);
        packing.sort();
        packing.assign(0) == Some(false)
    }

    /// Bytes of all tasks and hosts by part.
    fn count(&mut self, graph: &Graph, of: &[u32]) {
        let mut tasks: BTreeSet<Demand> = BTreeSet::new();
        let mut hosts: BTreeMap<(u32, usize), (u32, BTreeMap<u32, f64>)> = BTreeMap::new();
        for task in 0..graph.units() as u32 {
            let own = of[task as usize];
            for (direction, bytes_of) in DIRECTIONS.iter().enumerate() {
                let mut by_part: BTreeMap<u32, f64> = BTreeMap::new();
                let mut inside = 0.0;
                for edge in graph.edges(task) {
                    let (part, bytes) = (of[edge.to as usize], bytes_of(edge));
                    if part == own {
                        inside += bytes;
                    } else if bytes > 0.0 {
                        *by_part.entry(part).or_default() += bytes;
                        self.between[own as usize].entry(part).or_default()[direction] += bytes;
                    }
                }
                if let Some(block_of) = self.offer.block_of {
                    let key = (block_of[task as usize], direction);
                    let all = &mut hosts.entry(key).or_insert((own, BTreeMap::new())).1;
                    for (&part, &bytes) in &by_part {
                        *all.entry(part).or_default() += bytes;
                    }
                }
                tasks.insert(Demand {
                    part: own,
                    direction,
                    host: false,
                    inside: inside.to_bits(),
                    bytes: by_part.iter().map(|(&p, b)| (p, b.to_bits())).collect(),
                });
            }
        }
        let hosts = hosts
            .into_iter()
            .map(|((_, direction), (part, by_part))| Demand {
                part,
                direction,
                host: true,
                inside: 0,
                bytes: by_part.iter().map(|(&p, b)| (p, b.to_bits())).collect(),
            });
        self.demands = tasks.into_iter().chain(hosts).collect();
        for (number, demand) in self.demands.iter_mut().enumerate() {
            self.own[demand.part as usize].push(number);
            for &(part, bits) in &demand.bytes {
                self.with[part as usize].push((number, f64::from_bits(bits)));
            }
            let dense = |b: &(u32, u64)| f64::from_bits(b.1) / self.sizes[b.0 as usize] as f64;
            demand.bytes.sort_by(|a, b| dense(b).total_cmp(&dense(a)));
        }
        self.placed = vec![vec![0.0; self.left.len()]; self.demands.len()];
        let looks = |p: usize| self.own[p].iter().map(|&d| 1 + self.demands[d].bytes.len());
        let partners = |p: usize| self.between[p].keys().flat_map(|&q| looks(q as usize));
        let parts = 0..self.sizes.len();
        self.effort = parts.map(|p| looks(p).chain(partners(p)).sum()).collect();
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
            let [out, into] = self.offer.tasks.map(|rates| rates[unit].to_bits());
            let rates = (self.offer.ports[unit].map(f64::to_bits), out, into);
            // Empty units that are alike are one choice.
            let is_new = self.left[unit] < room || seen.insert((room, rates));
            if !is_new || self.left[unit] < self.sizes[part] {
                continue;
            }
            *self.looks = self.looks.checked_sub(self.effort[part])?;
            let loads = self.loads.clone();
            let placed: Vec<f64> = self.with[part]
                .iter()
                .map(|w| self.placed[w.0][unit])
                .collect();
            self.put(part, unit);
            let fits = self.is_fast(part) && self.is_fast_if_full(unit);
            let found = if fits {
                self.assign(at + 1)
            } else {
                Some(false)
            };
            self.unit_of[part] = NONE;
            self.left[unit] += self.sizes[part];
            self.loads = loads;
            for (w, before) in self.with[part].iter().zip(placed) {
                self.placed[w.0][unit] = before;
            }
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
        for &(demand, bytes) in &self.with[part] {
            self.placed[demand][unit] += bytes;
        }
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

    /// Whether a part, its partners and their units are fast enough so far, and partners without a unit may have one.
    fn is_fast(&self, part: usize) -> bool {
        let over = |bytes: f64, rate: f64| rate > 0.0 && bytes >= self.time * rate;
        let partners = self.between[part].keys().map(|&p| p as usize);
        std::iter::once(part).chain(partners).all(|p| {
            let fits = |unit: usize| self.own[p].iter().all(|&d| !self.is_slow(d, unit));
            match self.unit_of[p] {
                NONE => (0..self.left.len()).any(|u| self.left[u] >= self.sizes[p] && fits(u)),
                unit => {
                    let [out, into] = self.offer.ports[unit];
                    !over(self.loads[unit][0], out)
                        && !over(self.loads[unit][1], into)
                        && fits(unit)
                }
            }
        })
    }

    /// Whether all bytes to and from a unit without room are fast enough: all other parts are elsewhere.
    fn is_fast_if_full(&self, unit: usize) -> bool {
        if self.left[unit] > 0 {
            return true;
        }
        let is_here = |p: usize| self.unit_of[p] == unit;
        let mut sums = [0.0; 2];
        for part in (0..self.sizes.len()).filter(|&p| is_here(p)) {
            let away = self.between[part]
                .iter()
                .filter(|b| !is_here(*b.0 as usize));
            away.for_each(|b| (0..2).for_each(|d| sums[d] += b.1[d]));
        }
        let rates = self.offer.ports[unit];
        (0..2).all(|d| rates[d] <= 0.0 || sums[d] < self.time * rates[d])
    }

    /// Whether the bytes of a demand take the time or more if its part is in a unit.
    fn is_slow(&self, number: usize, unit: usize) -> bool {
        let (demand, placed) = (&self.demands[number], &self.placed[number]);
        let rates = &self.offer.rates[demand.direction];
        let over = |bytes: f64, rate: f64| rate > 0.0 && bytes >= self.time * rate;
        let inside = f64::from_bits(demand.inside) + placed[unit];
        if !demand.host && self.offer.place == 1 && over(inside, rates.inner) {
            return true;
        }
        let mut outside = placed.iter().sum::<f64>() - placed[unit];
        // Partners without a unit, as many as there is room for, may come into this one.
        let own = match self.unit_of[demand.part as usize] {
            NONE => self.sizes[demand.part as usize],
            _ => 0,
        };
        let mut left = (self.left[unit] - own) as f64;
        for &(part, bits) in &demand.bytes {
            if self.unit_of[part as usize] == NONE {
                let size = self.sizes[part as usize] as f64;
                let share = (left / size).min(1.0);
                left -= share * size;
                outside += f64::from_bits(bits) * (1.0 - share);
            }
        }
        let rate = match demand.host {
            true => self.offer.host[demand.direction],
            false => self.offer.tasks[demand.direction][unit],
        };
        over(outside, rate)
    }
}
