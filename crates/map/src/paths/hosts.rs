//! Routes between places of hosts: inner links, and stored or computed routes between the leaves of the network.

use super::computed::Computed;
use super::routers::Between;
use super::{Paths, Prices};
use crate::linear::Distances;
use crate::problem::{MapError, Problem};
use crate::schedule::Stop;
use hopbyte_fabric::hosts::{Inside, Leg};
use hopbyte_fabric::{End, Fabric, LinkId, NodeId, RouterId, Routing};
use std::collections::HashMap;

/// Maximum number of stored routes between leaves, where they can be computed.
const MOST_LISTS: usize = 1 << 20;
/// Maximum number of stored links of these routes.
const MOST_LINKS: usize = 1 << 26;
/// Number of leaves up to which hops between them are stored.
const MOST_LEAVES: usize = 4096;

/// No leaf, no column.
const NONE: u32 = u32::MAX;

/// Routes between the places of an allocation on hosts with inner links.
pub(crate) struct HostPaths<'a> {
    fabric: &'a Fabric,
    inside: &'a Inside,
    routing: &'a Routing,
    /// Node of every place.
    nodes: Vec<NodeId>,
    /// Number of the leaf and of the table's column by endpoint of the network.
    leaf: Vec<u32>,
    column: Vec<u32>,
    /// An endpoint of every leaf.
    first: Vec<NodeId>,
    middle: Middle<'a>,
}

/// Links between leaves, without the endpoints' own.
enum Middle<'a> {
    /// By leaf × column.
    Stored {
        columns: usize,
        offsets: Vec<u32>,
        links: Vec<u32>,
        shares: Vec<f64>,
    },
    /// Path sets by leaf × leaf, computed when needed.
    Sets(Box<Computed<'a>>),
    /// Computed from the routing, which has one path for each pair.
    Computed,
}

impl<'a> HostPaths<'a> {
    /// Paths of a problem; `None` if its machine has no described hosts, or if stopped.
    pub(crate) fn new(problem: &Problem<'a>, stop: Stop) -> Result<Option<Self>, MapError> {
        let fabric = problem.fabric;
        let Some(inside) = fabric.inside() else {
            return Ok(None);
        };
        let nodes: Vec<NodeId> = problem.allocation.nodes().iter().map(|n| n.0).collect();
        let mut paths = Self {
            fabric,
            inside,
            routing: problem.routing.network(),
            leaf: vec![NONE; fabric.network_nodes()],
            column: vec![NONE; fabric.network_nodes()],
            first: Vec::new(),
            middle: Middle::Computed,
            nodes,
        };
        let ports = paths.number_ports();
        paths.store(problem, &ports, stop)?;
        if !stop.is_set() {
            paths.check_inner(problem)?;
        }
        Ok((!stop.is_set()).then_some(paths))
    }

    /// Refuses places that links inside hosts do not reach because they are down, as [`Self::store`] does for the network.
    fn check_inner(&self, problem: &Problem<'_>) -> Result<(), MapError> {
        let fabric = self.fabric;
        let inner = &fabric.links()[fabric.network_links()..];
        if inner.iter().all(hopbyte_fabric::Link::is_up) {
            return Ok(());
        }
        let (mut dead, mut found) = (Vec::new(), Vec::new());
        let mut check = |a: u32, b: u32| {
            let (from, to) = (problem.node_at(a), problem.node_at(b));
            found.clear();
            dead.extend(problem.routing.shares(fabric, from, to, &mut found).err());
        };
        let units = self.units();
        // Ports depend on the numbers of places in their units, so two other units stand for all.
        for (number, unit) in units.iter().enumerate() {
            let next = (1..=2).map(|i| &units[(number + i) % units.len()]);
            for other in std::iter::once(unit).chain(next) {
                for (&a, &b) in unit.iter().flat_map(|a| other.iter().map(move |b| (a, b))) {
                    if a != b {
                        check(a, b);
                        check(b, a);
                    }
                }
            }
        }
        match dead.is_empty() {
            true => Ok(()),
            false => Err(MapError::unroutable(fabric, dead)),
        }
    }

    /// Numbers the leaves of all ports that routes can use; returns these ports.
    fn number_ports(&mut self) -> Vec<NodeId> {
        let mut numbers: HashMap<RouterId, u32> = HashMap::new();
        let mut ports = Vec::new();
        for &node in &self.nodes {
            let own = [node];
            let all = match self.inside.unit_of(node) {
                Some(unit) => self.inside.ports_of(unit),
                None => &own[..],
            };
            for &port in all {
                if self.leaf[port.index()] != NONE {
                    continue;
                }
                let next = numbers.len() as u32;
                let leaf = *numbers.entry(self.fabric.node(port).router).or_insert(next);
                if leaf == next {
                    self.first.push(port);
                }
                self.leaf[port.index()] = leaf;
                ports.push(port);
            }
        }
        ports
    }

    /// Stores the routes between leaves, if they fit; incomplete if stopped.
    fn store(
        &mut self,
        problem: &Problem<'a>,
        ports: &[NodeId],
        stop: Stop,
    ) -> Result<(), MapError> {
        // Only tables and trees tell the endpoints of a leaf apart.
        let by_node = matches!(self.routing, Routing::Tables(_) | Routing::Tree(_));
        for &port in ports {
            self.column[port.index()] = self.leaf[port.index()];
        }
        if by_node {
            for (column, port) in ports.iter().enumerate() {
                self.column[port.index()] = column as u32;
            }
        }
        let single = self.routing.is_single_path();
        let columns = if by_node { ports } else { &self.first }.len();
        if self.first.len() * columns > MOST_LISTS
            && (single || self.compute_sets(problem, stop)?)
        {
            return Ok(());
        }
        let targets: &[NodeId] = if by_node { ports } else { &self.first };
        let too_many = || MapError::BadOption {
            what: "allocation",
            found: format!("{} endpoints on {} switches", ports.len(), self.first.len()),
            expected: "routes that fit in 1 GB: fewer hosts",
        };
        let (mut offsets, mut links, mut shares) = (vec![0u32], Vec::new(), Vec::new());
        let (mut dead, mut found) = (Vec::new(), Vec::new());
        for &from in &self.first {
            if stop.is_set() {
                return Ok(());
            }
            for &to in targets {
                // An endpoint has no route to itself; another one of its leaf needs the list.
                let source = if from == to {
                    beside(self, ports, to)
                } else {
                    Some(from)
                };
                found.clear();
                if let Some(from) = source {
                    match self.routing.shares(self.fabric, from, to, &mut found) {
                        Ok(()) => {}
                        Err(error) => dead.push(error),
                    }
                    let ends = [self.fabric.node(from).inject, self.fabric.node(to).eject];
                    for &(link, share) in found.iter().filter(|s| !ends.contains(&s.0)) {
                        links.push(link.0);
                        if !single {
                            shares.push(share);
                        }
                    }
                }
                offsets.push(links.len() as u32);
            }
            if links.len() > MOST_LINKS {
                return Err(too_many());
            }
        }
        if !dead.is_empty() {
            return Err(MapError::unroutable(self.fabric, dead));
        }
        self.middle = Middle::Stored {
            columns: targets.len(),
            offsets,
            links,
            shares,
        };
        Ok(())
    }

    /// Computes path sets when they are asked for; false if the routing has no form for that.
    pub(crate) fn compute_sets(
        &mut self,
        problem: &Problem<'a>,
        stop: Stop,
    ) -> Result<bool, MapError> {
        let ends = (&self.first[..], &self.first[..]);
        let Some(mut sets) = Computed::new(self.fabric, self.routing, ends) else {
            return Ok(false);
        };
        sets.check(problem, ends, stop)?;
        self.middle = Middle::Sets(Box::new(sets));
        Ok(true)
    }

    /// Computes every route when it is asked for, as in large allocations.
    #[cfg(test)]
    pub(crate) fn compute_all(&mut self) {
        self.middle = Middle::Computed;
    }

    /// Links between the leaves of two endpoints.
    #[inline]
    fn between(&self, from: NodeId, to: NodeId, mut f: impl FnMut(usize, f64)) {
        match &self.middle {
            Middle::Stored {
                columns,
                offsets,
                links,
                shares,
            } => {
                let row = self.leaf[from.index()] as usize;
                let at = row * columns + self.column[to.index()] as usize;
                let range = offsets[at] as usize..offsets[at + 1] as usize;
                if shares.is_empty() {
                    links[range].iter().for_each(|&l| f(l as usize, 1.0));
                } else {
                    let steps = links[range.clone()].iter().zip(&shares[range]);
                    steps.for_each(|(&l, &s)| f(l as usize, s));
                }
            }
            Middle::Sets(sets) => {
                let leaf = |n: NodeId| self.leaf[n.index()];
                sets.each(leaf(from), leaf(to), f);
            }
            // Every pair chooses its order of dimensions.
            Middle::Computed if !self.routing.is_destination_based() => {
                let mut links = Vec::new();
                let routed = self.routing.route(self.fabric, from, to, &mut links);
                if let (Ok(()), [_, inner @ .., _]) = (routed, &links[..]) {
                    inner.iter().for_each(|l| f(l.index(), 1.0));
                }
            }
            Middle::Computed => {
                let (mut at, eject) = (self.fabric.node(from).router, self.fabric.node(to).eject);
                for _ in 0..self.fabric.network_routers() {
                    match self.routing.next_link(self.fabric, at, to) {
                        Ok(link) if link != eject => {
                            f(link.index(), 1.0);
                            let End::Router(next) = self.fabric.link(link).to else {
                                return;
                            };
                            at = next;
                        }
                        _ => return,
                    }
                }
            }
        }
    }

    /// Links of a part of a route; with `inner` those inside hosts too.
    #[inline]
    fn leg(&self, leg: &Leg<'_>, inner: bool, mut f: impl FnMut(usize, f64)) {
        let share = leg.share;
        if inner {
            leg.out.iter().for_each(|l| f(l.index(), share));
        }
        if let Some((from, to)) = leg.ports {
            f(self.fabric.node(from).inject.index(), share);
            self.between(from, to, |l, s| f(l, s * share));
            f(self.fabric.node(to).eject.index(), share);
        }
        if inner {
            leg.into.iter().for_each(|l| f(l.index(), share));
        }
    }

    /// Places of every unit, in the order of first places, and the unit of every place. A node without an inside is a
    /// unit of its own.
    pub(crate) fn units(&self) -> Vec<Vec<u32>> {
        let mut number: HashMap<(bool, u32), usize> = HashMap::new();
        let mut units: Vec<Vec<u32>> = Vec::new();
        for (place, &node) in self.nodes.iter().enumerate() {
            let key = match self.inside.unit_of(node) {
                Some(unit) => (true, unit),
                None => (false, node.0),
            };
            let at = *number.entry(key).or_insert_with(|| {
                units.push(Vec::new());
                units.len() - 1
            });
            units[at].push(place as u32);
        }
        // Whatever the order of the allocation, equal numbers are on the same rail.
        for unit in &mut units {
            unit.sort_by_key(|&p| self.inside.number_in_unit(self.nodes[p as usize]));
        }
        units
    }

    /// Hops between places; bytes that leave a unit cost `apart` more.
    pub(crate) fn distances(&self, apart: f64) -> HostDistances<'_, 'a> {
        let leaves = self.first.len();
        let mut hops = Vec::new();
        if leaves <= MOST_LEAVES {
            hops.reserve(leaves * leaves);
            for &from in &self.first {
                hops.extend(self.first.iter().map(|&to| self.hops(from, to) as f32));
            }
        }
        HostDistances {
            paths: self,
            hops,
            apart,
        }
    }

    /// Hops between the leaves of two endpoints, with those of their own links.
    fn hops(&self, from: NodeId, to: NodeId) -> f64 {
        let hop = |l: LinkId| f64::from(u8::from(self.fabric.is_hop(l)));
        let ends = hop(self.fabric.node(from).inject) + hop(self.fabric.node(to).eject);
        let mut sum = ends;
        if self.leaf[from.index()] != self.leaf[to.index()] {
            self.between(from, to, |l, share| sum += share * hop(LinkId::of(l)));
        }
        sum
    }
}

/// Another endpoint on the leaf of `of`.
fn beside(paths: &HostPaths<'_>, ports: &[NodeId], of: NodeId) -> Option<NodeId> {
    let leaf = paths.leaf[of.index()];
    let mut others = ports.iter().copied();
    others.find(|&p| p != of && paths.leaf[p.index()] == leaf)
}

impl Paths for HostPaths<'_> {
    fn links(&self) -> usize {
        self.fabric.links().len()
    }

    fn link(&self, number: usize) -> LinkId {
        LinkId::of(number)
    }

    #[inline]
    fn each(&self, a: u32, b: u32, mut f: impl FnMut(usize, f64)) {
        if a == b {
            return;
        }
        let (from, to) = (self.nodes[a as usize], self.nodes[b as usize]);
        self.inside
            .legs(from, to, |leg| self.leg(&leg, true, &mut f));
    }

    fn prices(&self) -> Prices {
        Prices(vec![0.0; self.links()])
    }

    fn reprice(&self, prices: &mut Prices, changed: &[u32], value: impl Fn(usize) -> f64) {
        for &link in changed {
            prices.0[link as usize] = value(link as usize);
        }
    }

    #[inline]
    fn price(&self, prices: &Prices, a: u32, b: u32) -> f64 {
        let mut sum = 0.0;
        self.each(a, b, |l, share| sum += share * prices.0[l]);
        sum
    }
}

/// Hops between places of hosts; none inside a unit.
pub(crate) struct HostDistances<'p, 'a> {
    paths: &'p HostPaths<'a>,
    /// By leaf × leaf, if they are few.
    hops: Vec<f32>,
    /// Cost of leaving a unit by a port, where such bytes must not grow.
    apart: f64,
}

impl Distances for HostDistances<'_, '_> {
    #[inline]
    fn get(&self, a: u32, b: u32) -> f64 {
        if a == b {
            return 0.0;
        }
        let paths = self.paths;
        let (from, to) = (paths.nodes[a as usize], paths.nodes[b as usize]);
        let mut sum = 0.0;
        paths.inside.legs(from, to, |leg| {
            let Some((from, to)) = leg.ports else { return };
            let hops = if self.hops.is_empty() {
                paths.hops(from, to)
            } else {
                let (row, column) = (paths.leaf[from.index()], paths.leaf[to.index()]);
                f64::from(self.hops[row as usize * paths.first.len() + column as usize])
            };
            sum += leg.share * (hops + self.apart);
        });
        sum
    }
}

/// Routes between whole units, as places of a coarser problem: the mean over their places of equal number. Inner links
/// carry nothing.
pub(crate) struct UnitPaths<'p, 'a> {
    pub(crate) paths: &'p HostPaths<'a>,
    /// Places of every unit.
    pub(crate) units: &'p [Vec<u32>],
}

impl Paths for UnitPaths<'_, '_> {
    fn links(&self) -> usize {
        self.paths.links()
    }

    fn link(&self, number: usize) -> LinkId {
        LinkId::of(number)
    }

    fn each(&self, a: u32, b: u32, mut f: impl FnMut(usize, f64)) {
        if a == b {
            return;
        }
        let (from, to) = (&self.units[a as usize], &self.units[b as usize]);
        let count = from.len().max(to.len());
        let part = 1.0 / count as f64;
        for i in 0..count {
            let (a, b) = (from[i % from.len()], to[i % to.len()]);
            let (a, b) = (self.paths.nodes[a as usize], self.paths.nodes[b as usize]);
            self.paths.inside.legs(a, b, |leg| {
                self.paths.leg(&leg, false, |l, share| f(l, share * part));
            });
        }
    }

    fn prices(&self) -> Prices {
        self.paths.prices()
    }

    fn reprice(&self, prices: &mut Prices, changed: &[u32], value: impl Fn(usize) -> f64) {
        self.paths.reprice(prices, changed, value);
    }

    fn price(&self, prices: &Prices, a: u32, b: u32) -> f64 {
        let mut sum = 0.0;
        self.each(a, b, |l, share| sum += share * prices.0[l]);
        sum
    }
}

/// Hops between units, by their first places.
pub(crate) struct UnitDistances<'d, D: Distances> {
    pub(crate) distances: &'d D,
    /// First place of every unit.
    pub(crate) first: Vec<u32>,
}

impl<D: Distances> Distances for UnitDistances<'_, D> {
    fn get(&self, a: u32, b: u32) -> f64 {
        let first = |unit: u32| self.first[unit as usize];
        self.distances.get(first(a), first(b))
    }
}
