//! Routes as stored lists, for forwarding tables and path sets.

use super::{Paths, Prices};
use crate::linear::Distances;
use crate::problem::{MapError, Problem};
use crate::schedule::Stop;
use hopbyte_fabric::routing::Unroutable;
use hopbyte_fabric::{Fabric, LinkId, Node, NodeId, RouterId, Routing};
use rayon::prelude::*;
use std::collections::HashMap;
use std::ops::Range;

/// Maximum number of stored list entries (8 bytes each), by the estimate from a sample.
const MAX_ENTRIES: usize = 1 << 27;

/// The same while they are stored: an estimate that is a little too low must not end in a refusal after the work.
const HARD_LIMIT: usize = MAX_ENTRIES + MAX_ENTRIES / 8;

/// Sources whose lists are made side by side.
const SOURCES: usize = 64;

/// Routes from which the memory of all is estimated.
const SAMPLE: usize = 2048;

/// Links from every router of the allocation to every place, without each place's own links into the network
/// and out of it. Routes depend on the source's router, not on its node. If they depend on the target's router
/// only, they are stored once for all of its places.
pub(crate) struct StoredPaths {
    /// Router of every place, numbered from 0 in the order of first places.
    router: Vec<u32>,
    routers: usize,
    /// Column of every place in the table of routes, and the number of columns: routers or places.
    column: Vec<u32>,
    columns: usize,
    inject: Vec<u32>,
    eject: Vec<u32>,
    /// By router × column: start of its list of links.
    offsets: Vec<u32>,
    links: Vec<u32>,
    /// Shares of the links; empty if all are 1.
    shares: Vec<f32>,
    fabric_links: usize,
}

/// The lists of one source.
#[derive(Default)]
struct Lists {
    links: Vec<u32>,
    /// Empty if all are 1.
    shares: Vec<f32>,
    /// End of the list of every target.
    ends: Vec<u32>,
    dead: Vec<Unroutable>,
}

impl Lists {
    fn of(problem: &Problem<'_>, nodes: &[NodeId], source: NodeId, targets: &[NodeId]) -> Self {
        let mut lists = Self::default();
        let mut shares = Vec::new();
        for &to in targets {
            shares.clear();
            // A place has no route to itself; another place on its router needs the list.
            let from = if source == to {
                neighbour(problem, nodes, to).unwrap_or(source)
            } else {
                source
            };
            let routed = problem
                .routing
                .shares(problem.fabric, from, to, &mut shares);
            lists.dead.extend(routed.err());
            let own = [
                problem.fabric.node(from).inject,
                problem.fabric.node(to).eject,
            ];
            for &(link, share) in shares.iter().filter(|step| !own.contains(&step.0)) {
                lists.links.push(link.0);
                lists.shares.push(share as f32);
            }
            lists.ends.push(lists.links.len() as u32);
        }
        if lists.shares.iter().all(|&s| s == 1.0) {
            lists.shares = Vec::new();
        }
        lists
    }
}

impl StoredPaths {
    /// Queries the routing for every pair; `None` if stopped.
    pub(crate) fn new(problem: &Problem<'_>, stop: Stop) -> Result<Option<Self>, MapError> {
        let ends = Ends::of(problem);
        let Ends {
            nodes,
            sources,
            router,
            ..
        } = &ends;
        let own = |link: fn(&Node) -> LinkId| {
            let nodes = nodes.iter();
            nodes.map(|&n| link(problem.fabric.node(n)).0).collect()
        };
        let (column, targets) = ends.targets();
        let mut paths = Self {
            router: router.clone(),
            routers: sources.len(),
            column,
            columns: targets.len(),
            inject: own(|n| n.inject),
            eject: own(|n| n.eject),
            offsets: vec![0],
            links: Vec::new(),
            shares: Vec::new(),
            fabric_links: problem.fabric.links().len(),
        };
        let mut dead = Vec::new();
        for sources in sources.chunks(SOURCES) {
            if stop.is_set() {
                return Ok(None);
            }
            let lists = |&from: &NodeId| Lists::of(problem, nodes, from, targets);
            let all: Vec<Lists> = sources.par_iter().map(lists).collect();
            for mut of in all {
                let begin = paths.links.len() as u32;
                paths.append(&of.links, &of.shares);
                if paths.links.len() > HARD_LIMIT {
                    return Err(too_large(problem, &ends.sources));
                }
                paths.offsets.extend(of.ends.iter().map(|end| begin + end));
                dead.append(&mut of.dead);
            }
        }
        let mut shares = Vec::new();
        if ends.to_routers {
            // The links of nodes that stand for no router were not looked at.
            for &to in nodes {
                let from = sources.iter().find(|&&s| s != to);
                let routes = from.map(|&from| [(from, to), (to, from)]);
                for (from, to) in routes.into_iter().flatten() {
                    shares.clear();
                    let routed = problem
                        .routing
                        .shares(problem.fabric, from, to, &mut shares);
                    dead.extend(routed.err());
                }
            }
        }
        if !dead.is_empty() {
            return Err(MapError::unroutable(problem.fabric, dead));
        }
        let merged = paths.merged();
        Ok(Some(merged.unwrap_or(paths)))
    }

    /// Adds links with their shares, none of which are given if all are 1. Shares of single paths are never stored, not even
    /// meanwhile: on a large machine they would take as much memory as its links.
    fn append(&mut self, links: &[u32], shares: &[f32]) {
        if !shares.is_empty() || !self.shares.is_empty() {
            self.shares.resize(self.links.len(), 1.0);
            self.shares.extend(shares);
            self.shares.resize(self.links.len() + links.len(), 1.0);
        }
        self.links.extend(links);
    }

    /// Routes between `routers` routers with one place each; the last link number stands for all host links.
    /// `list(from, to)` gives the other links with their shares. `None` if they would take too much memory.
    pub(crate) fn among(
        routers: usize,
        links: usize,
        mut list: impl FnMut(usize, usize) -> Vec<(u32, f32)>,
    ) -> Option<Self> {
        let all: Vec<u32> = (0..routers as u32).collect();
        let own = vec![links as u32 - 1; routers];
        let mut paths = Self {
            router: all.clone(),
            routers,
            column: all,
            columns: routers,
            inject: own.clone(),
            eject: own,
            offsets: vec![0],
            links: Vec::new(),
            shares: Vec::new(),
            fabric_links: links,
        };
        for from in 0..routers {
            for to in 0..routers {
                if from != to {
                    let (links, shares): (Vec<u32>, Vec<f32>) = list(from, to).into_iter().unzip();
                    paths.links.extend(links);
                    paths.shares.extend(shares);
                }
                paths.offsets.push(paths.links.len() as u32);
            }
            if paths.links.len() > MAX_ENTRIES {
                return None;
            }
        }
        Some(paths)
    }

    /// Places of every router.
    fn members(&self) -> Vec<Vec<u32>> {
        let mut members = vec![Vec::new(); self.routers];
        for (place, &router) in self.router.iter().enumerate() {
            members[router as usize].push(place as u32);
        }
        members
    }

    /// The same with one column per router; `None` if a route depends on the place on the target router.
    fn merged(&self) -> Option<Self> {
        let members = self.members();
        let same = |from: u32, to: &Vec<u32>| {
            let list = |p: u32| {
                let range = self.range(from, p);
                (&self.links[range.clone()], self.shares.get(range))
            };
            to.windows(2).all(|pair| list(pair[0]) == list(pair[1]))
        };
        let all = (0..self.routers as u32).all(|from| members.iter().all(|to| same(from, to)));
        if !all || self.routers == self.columns {
            return None;
        }
        let first: Vec<u32> = members.iter().map(|m| m[0]).collect();
        let mut paths = Self {
            column: self.router.clone(),
            columns: self.routers,
            ..self.without_links()
        };
        for from in 0..self.routers as u32 {
            for &to in &first {
                let range = self.range(from, to);
                let shares = self.shares.get(range.clone()).unwrap_or_default();
                paths.append(&self.links[range], shares);
                paths.offsets.push(paths.links.len() as u32);
            }
        }
        Some(paths)
    }

    fn without_links(&self) -> Self {
        Self {
            router: self.router.clone(),
            column: self.column.clone(),
            inject: self.inject.clone(),
            eject: self.eject.clone(),
            offsets: vec![0],
            links: Vec::new(),
            shares: Vec::new(),
            ..*self
        }
    }

    /// For every place the links that carry all bytes from other routers to it and none to another place: with
    /// one path down to every place, as in a fat tree, those below the top. `None` if no router has two places, if the
    /// places of a router have the same lists (no link is a single place's then), or if stopped.
    pub(crate) fn ways_in(&self, stop: Stop) -> Option<Vec<Vec<u32>>> {
        let places = self.router.len();
        if self.routers < 2 || self.routers == places || self.columns < places {
            return None;
        }
        // Number of lists that contain each link: over all places, and for the current place with a share of 1.
        let (mut all, mut here) = (vec![0; self.fabric_links], vec![0; self.fabric_links]);
        let mut found: Vec<Vec<u32>> = Vec::with_capacity(self.router.len());
        let mut used = Vec::new();
        for (place, &own) in self.router.iter().enumerate() {
            if stop.is_set() {
                return None;
            }
            used.clear();
            for router in (0..self.routers as u32).filter(|&r| r != own) {
                for at in self.range(router, place as u32) {
                    let link = self.links[at];
                    all[link as usize] += 1;
                    if self.shares.get(at).is_none_or(|&s| s >= 1.0) {
                        here[link as usize] += 1;
                        used.push(link);
                    }
                }
            }
            used.sort_unstable();
            used.dedup();
            used.retain(|&l| std::mem::take(&mut here[l as usize]) == self.routers - 1);
            // A copy: the room for all links of all routes is a hundred times that of the few that are kept.
            found.push(used.clone());
        }
        for links in &mut found {
            links.retain(|&l| all[l as usize] == self.routers - 1);
        }
        Some(found)
    }

    /// Router of every place, numbered from 0.
    pub(crate) fn routers(&self) -> &[u32] {
        &self.router
    }

    /// Hops between all places.
    pub(crate) fn distances(&self, fabric: &Fabric) -> StoredDistances {
        let is_hop = |link: u32| fabric.is_hop(LinkId(link));
        let own = |links: &[u32]| -> Vec<f32> {
            let hops = links.iter().map(|&l| f32::from(u8::from(is_hop(l))));
            hops.collect()
        };
        let lists = self.offsets.windows(2);
        let lists = lists.map(|ends| ends[0] as usize..ends[1] as usize);
        let hops = lists.map(|list| {
            let share = |at: usize| self.shares.get(at).copied().unwrap_or(1.0);
            let hops = list.filter(|&at| is_hop(self.links[at])).map(share);
            hops.map(f64::from).sum::<f64>() as f32
        });
        StoredDistances {
            router: self.router.clone(),
            column: self.column.clone(),
            columns: self.columns,
            out: own(&self.inject),
            into: own(&self.eject),
            hops: hops.collect(),
        }
    }

    /// Range of the links from a router to a place.
    #[inline]
    fn range(&self, router: u32, place: u32) -> Range<usize> {
        let at = router as usize * self.columns + self.column[place as usize] as usize;
        self.offsets[at] as usize..self.offsets[at + 1] as usize
    }
}

/// Hops between places, stored as their routes are.
pub(crate) struct StoredDistances {
    router: Vec<u32>,
    column: Vec<u32>,
    columns: usize,
    /// Hops of every place's own links into the network and out of it.
    out: Vec<f32>,
    into: Vec<f32>,
    /// By router × column.
    hops: Vec<f32>,
}

impl Distances for StoredDistances {
    #[inline]
    fn get(&self, a: u32, b: u32) -> f64 {
        if a == b {
            return 0.0;
        }
        let (a, b) = (a as usize, b as usize);
        let at = self.router[a] as usize * self.columns + self.column[b] as usize;
        f64::from(self.out[a] + self.hops[at] + self.into[b])
    }
}

fn too_large(problem: &Problem<'_>, sources: &[NodeId]) -> MapError {
    let nodes = problem.allocation.nodes().len();
    MapError::BadOption {
        what: "allocation",
        found: format!("{nodes} nodes on {} routers", sources.len()),
        expected: "routes that fit in 1 GB: fewer nodes",
    }
}

/// Ends of the routes to store.
struct Ends {
    nodes: Vec<NodeId>,
    /// The first node of every router.
    sources: Vec<NodeId>,
    /// Router of every node, numbered in the order of their first nodes.
    router: Vec<u32>,
    /// Whether routes lead to a router (path sets, dimension order), not to a node (tables, trees).
    to_routers: bool,
}

impl Ends {
    fn of(problem: &Problem<'_>) -> Self {
        let nodes: Vec<NodeId> = problem.allocation.nodes().iter().map(|n| n.0).collect();
        let mut sources: Vec<NodeId> = Vec::new();
        let mut number: HashMap<RouterId, u32> = HashMap::new();
        let router = nodes.iter().map(|&n| {
            let new = || {
                sources.push(n);
                sources.len() as u32 - 1
            };
            *number
                .entry(problem.fabric.node(n).router)
                .or_insert_with(new)
        });
        Self {
            router: router.collect(),
            nodes,
            sources,
            to_routers: matches!(
                problem.routing,
                Routing::Minimal(_) | Routing::Groups(_) | Routing::DimensionOrder(_)
            ),
        }
    }

    /// The target of every column of the table of routes, and the column of every node.
    fn targets(&self) -> (Vec<u32>, &[NodeId]) {
        match self.to_routers {
            true => (self.router.clone(), &self.sources),
            false => ((0..self.nodes.len() as u32).collect(), &self.nodes),
        }
    }
}

/// Refuses routes that would clearly take too much memory, from a sample of them, before any other work.
///
/// # Errors
/// Too many nodes for the length of their routes.
pub(crate) fn refuse_if_large(problem: &Problem<'_>) -> Result<(), MapError> {
    let ends = Ends::of(problem);
    let (sources, (_, targets)) = (&ends.sources, ends.targets());
    let pairs = sources.len() as f64 * targets.len() as f64;
    let (mut entries, mut shares) = (0, Vec::new());
    let sample = SAMPLE.min(sources.len() * targets.len());
    for i in 0..sample {
        let from = sources[i * sources.len() / sample];
        let to = targets[(i * 29 + 7) % sample * targets.len() / sample];
        shares.clear();
        // Missing routes are reported later, by pair.
        let routed = from != to
            && (problem
                .routing
                .shares(problem.fabric, from, to, &mut shares))
            .is_ok();
        if routed {
            entries += shares.len().saturating_sub(2);
        }
    }
    let expected = pairs * entries as f64 / sample as f64;
    match expected > MAX_ENTRIES as f64 {
        true => Err(too_large(problem, sources)),
        false => Ok(()),
    }
}

/// Another allocated node on the same router.
fn neighbour(problem: &Problem<'_>, nodes: &[NodeId], of: NodeId) -> Option<NodeId> {
    let router = problem.fabric.node(of).router;
    nodes
        .iter()
        .copied()
        .find(|&n| n != of && problem.fabric.node(n).router == router)
}

impl Paths for StoredPaths {
    fn links(&self) -> usize {
        self.fabric_links
    }

    fn link(&self, number: usize) -> LinkId {
        LinkId::of(number)
    }

    #[inline]
    fn each(&self, a: u32, b: u32, mut f: impl FnMut(usize, f64)) {
        if a == b {
            return;
        }
        f(self.inject[a as usize] as usize, 1.0);
        let range = self.range(self.router[a as usize], b);
        if self.shares.is_empty() {
            for &link in &self.links[range] {
                f(link as usize, 1.0);
            }
        } else {
            let shares = &self.shares[range.clone()];
            for (&link, &share) in self.links[range].iter().zip(shares) {
                f(link as usize, f64::from(share));
            }
        }
        f(self.eject[b as usize] as usize, 1.0);
    }

    fn prices(&self) -> Prices {
        Prices(vec![0.0; self.fabric_links])
    }

    fn reprice(&self, prices: &mut Prices, changed: &[u32], value: impl Fn(usize) -> f64) {
        for &link in changed {
            prices.0[link as usize] = value(link as usize);
        }
    }

    #[inline]
    fn price(&self, prices: &Prices, a: u32, b: u32) -> f64 {
        if a == b {
            return 0.0;
        }
        let prices = &prices.0;
        let ends =
            prices[self.inject[a as usize] as usize] + prices[self.eject[b as usize] as usize];
        let range = self.range(self.router[a as usize], b);
        if self.shares.is_empty() {
            let links = self.links[range].iter();
            return links.fold(ends, |sum, &l| sum + prices[l as usize]);
        }
        let shares = &self.shares[range.clone()];
        let steps = self.links[range].iter().zip(shares);
        steps.fold(ends, |sum, (&l, &s)| {
            sum + prices[l as usize] * f64::from(s)
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use hopbyte_fabric::{Allocation, Exchange, spec};

    fn with<T>(machine: &str, ask: impl Fn(&Problem<'_>) -> T) -> T {
        let spec::Described { fabric, routing } = spec::machine(machine).unwrap();
        let nodes = fabric.node_ids().map(|n| (n, 1)).collect();
        let allocation = Allocation::new(&fabric, nodes).unwrap();
        let exchange = Exchange::empty(2);
        ask(&Problem::new(&fabric, &routing, &exchange, &allocation))
    }

    #[test]
    fn single_paths_take_no_room_for_shares_nor_the_last_links_for_all_routes() {
        with("fattree:k=8,levels=3", |problem| {
            let paths = StoredPaths::new(problem, Stop::default()).unwrap().unwrap();
            assert_eq!(paths.shares.capacity(), 0);
            let ways = paths.ways_in(Stop::default()).unwrap();
            assert_eq!(ways.len(), 128);
            for way in ways {
                assert!(!way.is_empty() && way.capacity() < 8, "{way:?}");
            }
        });
    }

    /// By an estimate of more samples: with few ones these 135 million entries were refused only when stored.
    #[test]
    fn routes_that_do_not_fit_are_refused_before_they_are_made() {
        assert!(with("hyperx:16x16x16:nodes=4", refuse_if_large).is_err());
        assert!(with("hyperx:16x16x8:nodes=4", refuse_if_large).is_ok());
    }
}
