//! Routes between routers: as stored lists, or computed when needed.

use super::computed::Computed;
use super::computed::grouped::Grouped;
use super::table::{MAX_ENTRIES, Table};
use super::{Paths, Prices, grid};
use crate::linear::Distances;
use crate::problem::{MapError, Problem};
use crate::schedule::Stop;
use hopbyte_fabric::{LinkId, Node, NodeId, RouterId, Routing};
use std::collections::HashMap;

/// Routes from which the memory of all is estimated.
const SAMPLE: usize = 2048;

/// Routes from numbered routers to numbered columns, which are routers or places.
pub(crate) trait Between: Sync {
    /// Calls `f(link, share)` for every link.
    fn each(&self, router: u32, column: u32, f: impl FnMut(usize, f64));

    /// Adds flows, (router, column, bytes), to the loads of links.
    fn load(&self, flows: impl Iterator<Item = (u32, u32, f64)>, load: &mut [f64]) {
        for (a, b, bytes) in flows {
            self.each(a, b, |link, share| load[link] += bytes * share);
        }
    }

    /// Calls `f(link, share)` for every link of the routes from each of some routers to each of some columns.
    fn all(&self, from: &[u32], to: &[u32], mut f: impl FnMut(usize, f64)) {
        for &a in from {
            to.iter().for_each(|&b| self.each(a, b, &mut f));
        }
    }

    /// `first` plus the sum of price × share.
    fn price(&self, pair: (u32, u32), prices: &[f64], first: f64) -> f64;

    /// Hops.
    fn hops(&self, router: u32, column: u32) -> f32;

    /// For every column the links that all routes from other routers to it share and that no other route uses. Routers
    /// are given by column; `None` if stopped.
    fn ways_in(&self, router: &[u32], stop: Stop) -> Option<Vec<Vec<u32>>>;
}

/// Links from every router of the allocation to every place, without each place's own links into the network
/// and out of it. Routes depend on the source's router, not on its node. If they depend on the target's router
/// only, there is one for all of its places.
pub(crate) struct RouterPaths<B> {
    /// Router of every place, numbered from 0 in the order of first places.
    router: Vec<u32>,
    routers: usize,
    /// Column of every place in the table of routes, and the number of columns: routers or places.
    column: Vec<u32>,
    columns: usize,
    inject: Vec<u32>,
    eject: Vec<u32>,
    /// Hops of these two links.
    own_hops: [Vec<f32>; 2],
    between: B,
    fabric_links: usize,
}

/// Routes in the faster form of those that fit.
pub(crate) enum Made<'a> {
    Stored(RouterPaths<Table>),
    Computed(RouterPaths<Computed<'a>>),
}

impl<'a> Made<'a> {
    /// The routes of a problem; `None` if stopped.
    ///
    /// # Errors
    /// Nodes without a route, or routes that can only be stored and do not fit.
    pub(crate) fn new(problem: &Problem<'a>, stop: Stop) -> Result<Option<Self>, MapError> {
        let ends = Ends::of(problem);
        let computed = ends.computed(problem).filter(|c| {
            let few = c.most_stored();
            few == 0 || ends.expected_entries(problem) > few as f64
        });
        Ok(match computed {
            Some(routes) => {
                RouterPaths::computed(problem, &ends, routes, stop)?.map(Self::Computed)
            }
            None => RouterPaths::stored(problem, &ends, stop)?.map(Self::Stored),
        })
    }
}

impl<'a> RouterPaths<Computed<'a>> {
    pub(super) fn computed(
        problem: &Problem<'a>,
        ends: &Ends,
        mut routes: Computed<'a>,
        stop: Stop,
    ) -> Result<Option<Self>, MapError> {
        let (column, targets) = ends.targets();
        if !routes.check(problem, (&ends.sources, targets), stop)? {
            return Ok(None);
        }
        ends.check_own(problem)?;
        Ok(Some(Self::of(
            problem,
            ends,
            (column, targets.len()),
            routes,
        )))
    }
}

impl RouterPaths<Table> {
    pub(super) fn stored(
        problem: &Problem<'_>,
        ends: &Ends,
        stop: Stop,
    ) -> Result<Option<Self>, MapError> {
        let (column, targets) = ends.targets();
        let Some(table) = Table::new(problem, ends, targets, stop)? else {
            return Ok(None);
        };
        ends.check_own(problem)?;
        let (routers, columns) = (ends.sources.len(), targets.len());
        let merged = (columns > routers)
            .then(|| table.merged(&ends.router, routers))
            .flatten();
        Ok(Some(match merged {
            Some(table) => Self::of(problem, ends, (ends.router.clone(), routers), table),
            None => Self::of(problem, ends, (column, columns), table),
        }))
    }

    /// Routes between `routers` routers with one place each; the last link number stands for all host links.
    /// `list(from, to)` gives the other links with their shares. `None` if it gives none, or if they would take too much
    /// memory.
    pub(crate) fn among(
        routers: usize,
        links: usize,
        list: impl FnMut(usize, usize) -> Option<Vec<(u32, f64)>>,
    ) -> Option<Self> {
        let all: Vec<u32> = (0..routers as u32).collect();
        let own = vec![links as u32 - 1; routers];
        Some(Self {
            router: all.clone(),
            routers,
            column: all,
            columns: routers,
            inject: own.clone(),
            eject: own,
            own_hops: [Vec::new(), Vec::new()],
            between: Table::among(routers, list)?,
            fabric_links: links,
        })
    }
}

impl<B: Between> RouterPaths<B> {
    fn of(
        problem: &Problem<'_>,
        ends: &Ends,
        (column, columns): (Vec<u32>, usize),
        between: B,
    ) -> Self {
        let fabric = problem.fabric;
        let own = |link: fn(&Node) -> LinkId| -> Vec<u32> {
            let nodes = ends.nodes.iter();
            nodes.map(|&n| link(fabric.node(n)).0).collect()
        };
        let hops = |links: &Vec<u32>| {
            let hop = |&l: &u32| f32::from(u8::from(fabric.is_hop(LinkId(l))));
            links.iter().map(hop).collect()
        };
        let own = [own(|n| n.inject), own(|n| n.eject)];
        let own_hops = own.each_ref().map(hops);
        let [inject, eject] = own;
        Self {
            router: ends.router.clone(),
            routers: ends.sources.len(),
            column,
            columns,
            inject,
            eject,
            own_hops,
            between,
            fabric_links: fabric.links().len(),
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
        self.between.ways_in(&self.router, stop)
    }

    /// Router of every place, numbered from 0.
    pub(crate) fn routers(&self) -> &[u32] {
        &self.router
    }

    /// Calls `f(link, share)` for the links between routers from each of some places to each of others. Shares of a link may
    /// come together.
    pub(crate) fn all(&self, from: &[u32], to: &[u32], f: impl FnMut(usize, f64)) {
        let from = from.iter().map(|&place| self.router[place as usize]);
        let to = to.iter().map(|&place| self.column[place as usize]);
        let (from, to): (Vec<u32>, Vec<u32>) = (from.collect(), to.collect());
        self.between.all(&from, &to, f);
    }
}

/// Hops between places.
pub(crate) struct RouterDistances<'p, B>(pub(crate) &'p RouterPaths<B>);

impl<B: Between> Distances for RouterDistances<'_, B> {
    #[inline]
    fn get(&self, a: u32, b: u32) -> f64 {
        if a == b {
            return 0.0;
        }
        let (a, b) = (a as usize, b as usize);
        let hops = self.0.between.hops(self.0.router[a], self.0.column[b]);
        let [out, into] = &self.0.own_hops;
        f64::from(out[a] + hops + into[b])
    }
}

/// Ends of the routes of a problem.
pub(super) struct Ends {
    pub(super) nodes: Vec<NodeId>,
    /// The first node of every router.
    pub(super) sources: Vec<NodeId>,
    /// Router of every node, numbered in the order of their first nodes.
    pub(super) router: Vec<u32>,
    /// Whether routes lead to a router (path sets, dimension order), not to a node (tables, trees).
    to_routers: bool,
}

impl Ends {
    pub(super) fn of(problem: &Problem<'_>) -> Self {
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

    /// Where routes lead to routers: refuses nodes whose own links are down, which stand for no router.
    fn check_own(&self, problem: &Problem<'_>) -> Result<(), MapError> {
        let (mut dead, mut shares) = (Vec::new(), Vec::new());
        let fabric = problem.fabric;
        let is_down = |&&n: &&NodeId| {
            let own = [fabric.node(n).inject, fabric.node(n).eject];
            self.to_routers && !own.iter().all(|&l| fabric.link(l).is_up())
        };
        for &to in self.nodes.iter().filter(is_down) {
            let from = self.sources.iter().find(|&&s| s != to);
            let routes = from.map(|&from| [(from, to), (to, from)]);
            for (from, to) in routes.into_iter().flatten() {
                shares.clear();
                let routed = problem
                    .routing
                    .shares(problem.fabric, from, to, &mut shares);
                dead.extend(routed.err());
            }
        }
        match dead.is_empty() {
            true => Ok(()),
            false => Err(MapError::unroutable(problem.fabric, dead)),
        }
    }

    /// The target of every column of the table of routes, and the column of every node.
    fn targets(&self) -> (Vec<u32>, &[NodeId]) {
        match self.to_routers {
            true => (self.router.clone(), &self.sources),
            false => ((0..self.nodes.len() as u32).collect(), &self.nodes),
        }
    }

    /// Routes between these ends that are computed.
    pub(super) fn computed<'a>(&self, problem: &Problem<'a>) -> Option<Computed<'a>> {
        Computed::new(
            problem.fabric,
            problem.routing,
            (&self.sources, self.targets().1),
        )
    }

    pub(super) fn too_large(&self, problem: &Problem<'_>) -> MapError {
        let nodes = problem.allocation.nodes().len();
        MapError::BadOption {
            what: "allocation",
            found: format!("{nodes} nodes on {} routers", self.sources.len()),
            expected: "routes that fit in 1 GB: fewer nodes",
        }
    }

    /// Links of all routes, estimated from a sample.
    fn expected_entries(&self, problem: &Problem<'_>) -> f64 {
        let (sources, (_, targets)) = (&self.sources, self.targets());
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
        pairs * entries as f64 / sample as f64
    }
}

/// Refuses routes that can only be stored and would clearly take too much memory, before any other work.
///
/// # Errors
/// Too many nodes for the length of their routes, or nodes of a grid without a route.
pub(crate) fn refuse_if_large(problem: &Problem<'_>) -> Result<(), MapError> {
    let ends = Ends::of(problem);
    let is_computed = match problem.routing {
        Routing::Groups(groups) => Grouped::fits(problem.fabric, groups, &ends.sources),
        Routing::DimensionOrder(_) | Routing::Hosts(_) => false,
        Routing::Tables(_) | Routing::Tree(_) | Routing::Minimal(_) => true,
    };
    if is_computed || ends.expected_entries(problem) <= MAX_ENTRIES as f64 {
        return Ok(());
    }
    match grid::unroutable(problem) {
        dead if dead.is_empty() => Err(ends.too_large(problem)),
        dead => Err(MapError::unroutable(problem.fabric, dead)),
    }
}

impl<B: Between> Paths for RouterPaths<B> {
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
        let (a, b) = (a as usize, b as usize);
        f(self.inject[a] as usize, 1.0);
        self.between.each(self.router[a], self.column[b], &mut f);
        f(self.eject[b] as usize, 1.0);
    }

    fn load(&self, flows: impl Iterator<Item = (u32, u32, f64)>, load: &mut [f64]) {
        let mut own = vec![0.0; self.router.len() * 2];
        let flows = flows.filter(|(a, b, _)| a != b).map(|(a, b, bytes)| {
            own[a as usize * 2] += bytes;
            own[b as usize * 2 + 1] += bytes;
            (self.router[a as usize], self.column[b as usize], bytes)
        });
        self.between.load(flows, load);
        for (place, own) in own.chunks(2).enumerate() {
            load[self.inject[place] as usize] += own[0];
            load[self.eject[place] as usize] += own[1];
        }
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
        let (a, b) = (a as usize, b as usize);
        let prices = &prices.0;
        let ends = prices[self.inject[a] as usize] + prices[self.eject[b] as usize];
        self.between
            .price((self.router[a], self.column[b]), prices, ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::tests::{on_all, stored};

    #[test]
    fn last_links_take_no_room_for_all_routes() {
        on_all("fattree:k=8,levels=3", &[], |problem| {
            let ways = stored(problem).ways_in(Stop::default()).unwrap();
            assert_eq!(ways.len(), 128);
            for way in ways {
                assert!(!way.is_empty() && way.capacity() < 8, "{way:?}");
            }
        });
    }

    /// Route costs on a torus with a failed cable need stored routes; other objectives do not.
    #[test]
    fn routes_that_do_not_fit_are_refused_before_they_are_made() {
        for (machine, fits) in [
            ("torus:32x16x16", false),
            ("torus:16x16x8", true),
            ("hyperx:16x16x16:nodes=4", true),
            ("aries:20x6x16", true),
        ] {
            let refused = |problem: &Problem<'_>| refuse_if_large(problem).is_err();
            assert_eq!(on_all(machine, &[0], refused), !fits, "{machine}");
        }
        let closed = |problem: &Problem<'_>| grid::GridPaths::new(problem).is_some();
        assert!(on_all("torus:32x16x16", &[0], closed));
    }
}
