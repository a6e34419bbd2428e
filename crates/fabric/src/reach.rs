//! Routability and distances of all pairs of nodes.

use crate::fabric::{End, Fabric, Node};
use crate::ids::{LinkId, NodeId, RouterId};
use crate::routing::{DimensionOrder, MinimalPaths, Routing, Unroutable};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Largest number of unroutable pairs that are listed; all are counted.
const EXAMPLES: usize = 1000;

/// Routability and distance over all ordered pairs of different nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Ordered pairs of different nodes.
    pub pairs: u64,
    /// Pairs that have a route.
    pub routable: u64,
    /// Number of routable pairs by hops of the request route.
    pub hops: BTreeMap<usize, u64>,
    /// The first unroutable pairs, by source and destination.
    pub unroutable: Vec<Unroutable>,
}

/// Destinations per unit of work.
const RUN: usize = 32;

/// The nodes of a router as sources: number with an on-board injection link, with a cabled one, and with one that is
/// down.
#[derive(Clone, Copy, Debug)]
struct Sources {
    router: RouterId,
    counts: [u64; 3],
}

impl Sources {
    fn of(fabric: &Fabric) -> Vec<Self> {
        let with_nodes = fabric
            .router_ids()
            .filter(|&r| !fabric.nodes_on(r).is_empty());
        with_nodes
            .map(|router| {
                let mut counts = [0; 3];
                for &n in fabric.nodes_on(router) {
                    counts[injection(fabric, fabric.node(n).inject)] += 1;
                }
                Self { router, counts }
            })
            .collect()
    }
}

/// Hops of a node's injection link as an index into [`Sources::counts`]; 2 is a link that is down.
fn injection(fabric: &Fabric, link: LinkId) -> usize {
    match fabric.link(link).is_up() {
        true => usize::from(fabric.is_hop(link)),
        false => 2,
    }
}

/// State of the route from a router to one destination: unknown, dead, or its hops plus [`HOPS`].
type Way = u32;
const UNKNOWN: Way = 0;
const DEAD: Way = 1;
const HOPS: Way = 2;

/// End of every link in four bytes: the router, and whether the link is a hop.
struct Ends {
    of: Vec<u32>,
    /// Whether all links between routers are hops: the hops of shortest paths are then their distances.
    all_hops: bool,
}

/// A link that leads to nodes, plus one if it is a hop.
const TO_NODES: u32 = u32::MAX - 2;
/// A link that is down.
const DOWN: u32 = u32::MAX;

impl Ends {
    fn of(fabric: &Fabric) -> Self {
        let end = |id: LinkId| {
            let (link, hop) = (fabric.link(id), u32::from(fabric.is_hop(id)));
            match link.to {
                _ if !link.is_up() => DOWN,
                End::Router(r) => r.0 << 1 | hop,
                _ => TO_NODES + hop,
            }
        };
        let of: Vec<u32> = fabric.link_ids().map(end).collect();
        let all_hops = of.iter().all(|&end| end >= TO_NODES || end & 1 == 1);
        Self { of, all_hops }
    }
}

/// Routes from all routers to a run of destinations, router by router, with scratch space.
#[derive(Default)]
struct Ways {
    of: Vec<Way>,
    passed: Vec<(RouterId, u32)>,
    hops: Vec<[u64; 2]>,
}

impl Reach {
    /// Examines all pairs, in time proportional to routers × nodes if the next hop depends only on the destination.
    /// Same result on any number of threads. With described hosts the pairs are those of the network's endpoints.
    pub fn of(fabric: &Fabric, routing: &Routing) -> Self {
        if let Routing::Hosts(hosts) = routing {
            return Self::of(&fabric.network(), &hosts.network);
        }
        if let Routing::DimensionOrder(order) = routing
            && let Some(all) = Self::of_grid(fabric, order)
        {
            return all;
        }
        if let Routing::DimensionOrder(order) = routing
            && let Some(all) = Self::of_rings(fabric, routing, order)
        {
            return all;
        }
        Self::walked(fabric, routing)
    }

    /// All pairs, by following routes.
    fn walked(fabric: &Fabric, routing: &Routing) -> Self {
        let parts: Vec<Self> = if routing.is_destination_based() {
            let mut nodes: Vec<NodeId> = fabric.node_ids().collect();
            // If the next hop depends on the destination's router, its nodes share the route.
            let shared = !matches!(routing, Routing::Tables(_) | Routing::Tree(_));
            if shared {
                nodes.sort_by_key(|&n| fabric.node(n).router);
            }
            let (sources, ends) = (Sources::of(fabric), Ends::of(fabric));
            let walks = |ways: &mut Ways, run: &[NodeId]| {
                ways.of.clear();
                ways.of.resize(fabric.routers().len() * RUN, UNKNOWN);
                ways.hops.clear();
                let mut sum = Self::default();
                let mut column = 0;
                let mut before = None;
                let walks: Vec<Walk<'_>> = run
                    .iter()
                    .map(|&to| {
                        let node = fabric.node(to);
                        let end = Some((node.router, injection(fabric, node.eject)));
                        let new = !shared || before != end;
                        column += usize::from(new && before.is_some());
                        before = end;
                        Walk {
                            fabric,
                            routing,
                            ends: &ends,
                            to,
                            column,
                        }
                    })
                    .collect();
                sum.add_trees(&walks, &sources, ways);
                sum.keep_first();
                sum
            };
            nodes
                .par_chunks(RUN)
                .map_init(Ways::default, walks)
                .collect()
        } else {
            let routers: Vec<RouterId> = fabric.router_ids().collect();
            routers
                .par_iter()
                .map(|&to| Self::into_router(fabric, routing, to))
                .collect()
        };
        let mut all = Self::default();
        for part in parts {
            all.add(part);
        }
        all.keep_first();
        all
    }

    /// All pairs of a complete grid in order with as many nodes on every router: their hops are the distances on the
    /// grid, so no route is walked. `None` for other grids.
    fn of_grid(fabric: &Fabric, order: &DimensionOrder) -> Option<Self> {
        let (routers, nodes) = (fabric.routers().len(), fabric.nodes());
        let kind = |link| injection(fabric, link);
        let (into, out) = (kind(nodes.first()?.inject), kind(nodes.first()?.eject));
        let each = nodes.len() / routers;
        let even = fabric
            .router_ids()
            .all(|r| fabric.nodes_on(r).len() == each);
        let alike = |n: &Node| (kind(n.inject), kind(n.eject)) == (into, out);
        let up = fabric.link_ids().all(|id| {
            let link = fabric.link(id);
            link.is_up() && (!link.is_between_routers() || fabric.is_hop(id))
        });
        if !order.is_healthy() || order.shape().positions() != routers || !even || !up {
            return None;
        }
        nodes.iter().all(alike).then(|| {
            let mut all = Self::default();
            for (hops, routes) in order.shape().distances().into_iter().enumerate() {
                let pairs = routes * (each * each) as u64;
                let own = if hops == 0 { nodes.len() as u64 } else { 0 };
                if pairs > own {
                    all.routable += pairs - own;
                    all.hops.insert(hops + into + out, pairs - own);
                }
            }
            all.pairs = all.routable;
            all
        })
    }

    /// All pairs of a grid with breaks, from the legs of its rings: no route is walked. `None` where links between routers
    /// are no hops, or the grid is too large for its legs.
    fn of_rings(fabric: &Fabric, routing: &Routing, order: &DimensionOrder) -> Option<Self> {
        let legs = order.legs(fabric)?;
        let is_hop = |id| !fabric.link(id).is_between_routers() || fabric.is_hop(id);
        if !fabric.link_ids().all(is_hop) {
            return None;
        }
        let ends = |r: RouterId, link: fn(&Node) -> LinkId| {
            let mut counts = [0u64; 3];
            for &n in fabric.nodes_on(r) {
                counts[injection(fabric, link(fabric.node(n)))] += 1;
            }
            counts
        };
        let routers: Vec<RouterId> = fabric
            .router_ids()
            .filter(|&r| !fabric.nodes_on(r).is_empty())
            .collect();
        let place = |r: RouterId| (legs.position_of(r), fabric.coord(r).unwrap_or(&[]));
        let targets: Vec<_> = routers
            .iter()
            .map(|&r| (r, place(r), ends(r, |n| n.eject)))
            .collect();
        let from = |&router: &RouterId| {
            let mut part = Self::default();
            let (source, out) = (place(router), ends(router, |n| n.inject));
            let mut hops: Vec<[u64; 3]> = Vec::new();
            for &(to, target, into) in &targets {
                let mut orders = order.orders().iter();
                let links = orders.find_map(|o| legs.links(o, source, target.1));
                let all = fabric.nodes_on(router).len() * fabric.nodes_on(to).len();
                let own = if router == to {
                    fabric.nodes_on(router).len()
                } else {
                    0
                };
                part.pairs += (all - own) as u64;
                if links.is_none() || out[2] + into[2] > 0 {
                    for &to in fabric.nodes_on(to) {
                        part.note_router(fabric, routing, router, to);
                    }
                }
                let Some(links) = links else { continue };
                if hops.len() <= links as usize {
                    hops.resize(links as usize + 1, [0; 3]);
                }
                let sums = &mut hops[links as usize];
                for (a, &from) in out[..2].iter().enumerate() {
                    for (b, &to) in into[..2].iter().enumerate() {
                        sums[a + b] += from * to;
                    }
                }
                if router == to {
                    // A node does not send to itself.
                    for node in fabric.nodes_on(to).iter().map(|&n| fabric.node(n)) {
                        let ends = [node.inject, node.eject].map(|l| injection(fabric, l));
                        if !ends.contains(&2) {
                            sums[ends[0] + ends[1]] -= 1;
                        }
                    }
                }
            }
            for (links, sums) in hops.into_iter().enumerate() {
                for (own, &count) in sums.iter().enumerate().filter(|s| *s.1 > 0) {
                    part.routable += count;
                    *part.hops.entry(links + own).or_default() += count;
                }
            }
            part
        };
        let parts: Vec<Self> = routers.par_iter().map(from).collect();
        let mut all = Self::default();
        parts.into_iter().for_each(|part| all.add(part));
        all.keep_first();
        Some(all)
    }

    fn keep_first(&mut self) {
        self.unroutable.sort_by_key(|u| (u.from, u.to));
        self.unroutable.truncate(EXAMPLES);
    }

    fn add(&mut self, part: Self) {
        self.pairs += part.pairs;
        self.routable += part.routable;
        for (hops, count) in part.hops {
            *self.hops.entry(hops).or_default() += count;
        }
        self.unroutable.extend(part.unroutable);
    }

    /// Number of pairs without a route.
    pub fn unroutable_pairs(&self) -> u64 {
        self.pairs - self.routable
    }

    fn count(&mut self, hops: usize) {
        self.routable += 1;
        *self.hops.entry(hops).or_default() += 1;
    }

    /// All pairs with their destination on one router; the route between two routers is walked once, since it is the
    /// same for all of their nodes.
    fn into_router(fabric: &Fabric, routing: &Routing, to: RouterId) -> Self {
        let mut part = Self::default();
        let mut route = Vec::new();
        for from in fabric.router_ids() {
            let mut between = None;
            for &a in fabric.nodes_on(from) {
                for &b in fabric.nodes_on(to).iter().filter(|&&b| b != a) {
                    part.pairs += 1;
                    let up = |l| fabric.link(l).is_up();
                    if !(up(fabric.node(a).inject) && up(fabric.node(b).eject)) {
                        part.note(explain(fabric, routing, a, b));
                        continue;
                    }
                    let hops = between.get_or_insert_with(|| {
                        route.clear();
                        routing.route(fabric, a, b, &mut route)?;
                        Ok(route.iter().filter(|&&l| fabric.is_hop(l)).count())
                    });
                    match *hops {
                        Ok(hops) => part.count(hops),
                        Err(error) => part.note(Unroutable {
                            from: a,
                            to: b,
                            ..error
                        }),
                    }
                }
            }
        }
        part
    }

    /// Adds all sources to a run of destinations over the trees of next hops; sources of a router with equal
    /// injection are counted together. Router by router, because a table row stores neighbouring destinations side by
    /// side.
    fn add_trees(&mut self, walks: &[Walk<'_>], sources: &[Sources], ways: &mut Ways) {
        for at in sources {
            for walk in walks {
                let mut way = ways.of[walk.place(at.router)];
                if way == UNKNOWN && at.counts[0] + at.counts[1] > 0 {
                    way = walk.follow(at.router, ways);
                }
                if way < HOPS || at.counts[2] > 0 {
                    self.note_router(walk.fabric, walk.routing, at.router, walk.to);
                }
                if way >= HOPS {
                    let hops = (way - HOPS) as usize;
                    if hops >= ways.hops.len() {
                        ways.hops.resize(hops + 1, [0; 2]);
                    }
                    ways.hops[hops][0] += at.counts[0];
                    ways.hops[hops][1] += at.counts[1];
                }
            }
        }
        for walk in walks {
            // A node does not send to itself.
            let target = walk.fabric.node(walk.to);
            let way = ways.of[walk.place(target.router)];
            let own = injection(walk.fabric, target.inject);
            if way >= HOPS && own < 2 {
                ways.hops[(way - HOPS) as usize][own] -= 1;
            }
            self.pairs += walk.fabric.nodes().len() as u64 - 1;
        }
        for (hops, counts) in ways.hops.iter().enumerate() {
            for (extra, &count) in counts.iter().enumerate().filter(|(_, c)| **c > 0) {
                self.routable += count;
                *self.hops.entry(hops + extra).or_default() += count;
            }
        }
    }

    /// Records the nodes of a router without a route to a node.
    fn note_router(&mut self, fabric: &Fabric, routing: &Routing, at: RouterId, to: NodeId) {
        for &from in fabric.nodes_on(at).iter().filter(|&&n| n != to) {
            if self.unroutable.len() >= EXAMPLES {
                return;
            }
            if routing.route(fabric, from, to, &mut Vec::new()).is_err() {
                self.note(explain(fabric, routing, from, to));
            }
        }
    }

    fn note(&mut self, error: Unroutable) {
        if self.unroutable.len() < EXAMPLES {
            self.unroutable.push(error);
        }
    }
}

/// Repeats the walk of a failing route to find the reason.
fn explain(fabric: &Fabric, routing: &Routing, from: NodeId, to: NodeId) -> Unroutable {
    let at = fabric.node(from).router;
    let reason = crate::routing::Dead::NoEntry;
    routing
        .route(fabric, from, to, &mut Vec::new())
        .err()
        .unwrap_or(Unroutable {
            from,
            to,
            at,
            reason,
        })
}

/// The routes to one node.
struct Walk<'a> {
    fabric: &'a Fabric,
    routing: &'a Routing,
    ends: &'a Ends,
    to: NodeId,
    /// Column of [`Ways::of`]; destinations with a shared route have the same one.
    column: usize,
}

impl Walk<'_> {
    /// Storage of the state for a router.
    #[inline]
    fn place(&self, router: RouterId) -> usize {
        router.index() * RUN + self.column
    }

    /// The state of `router`; also stores it for every router on the route.
    fn follow(&self, router: RouterId, ways: &mut Ways) -> Way {
        if let Routing::Minimal(paths) = self.routing
            && self.ends.all_hops
        {
            let way = self.by_distance(paths, router);
            ways.of[self.place(router)] = way;
            return way;
        }
        ways.passed.clear();
        let mut at = router;
        let mut way = loop {
            if ways.of[self.place(at)] != UNKNOWN {
                break ways.of[self.place(at)];
            }
            let link = match self.routing.next_link(self.fabric, at, self.to) {
                Ok(link) if ways.passed.len() <= self.fabric.routers().len() => link,
                _ => {
                    ways.of[self.place(at)] = DEAD;
                    break DEAD;
                }
            };
            let end = self.ends.of[link.index()];
            if end < TO_NODES {
                ways.passed.push((at, end & 1));
                at = RouterId(end >> 1);
                continue;
            }
            let way = self.last(link);
            ways.of[self.place(at)] = way;
            break way;
        };
        for &(at, hop) in ways.passed.iter().rev() {
            if way >= HOPS {
                way += hop;
            }
            ways.of[self.place(at)] = way;
        }
        way
    }

    /// The state of a router whose next link leads to nodes.
    fn last(&self, link: LinkId) -> Way {
        let end = self.ends.of[link.index()];
        if end != DOWN && link == self.fabric.node(self.to).eject {
            end - TO_NODES + HOPS
        } else {
            DEAD
        }
    }

    /// The state of a router by its distance.
    fn by_distance(&self, paths: &MinimalPaths, router: RouterId) -> Way {
        let target = self.fabric.node(self.to);
        match (
            paths.distance(router, target.router),
            self.last(target.eject),
        ) {
            (Some(hops), way) if way >= HOPS => way + Way::from(hops),
            _ => DEAD,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::tests::some_failed;

    /// Pairs and hops by legs are those of routes that are followed.
    #[test]
    fn reach_of_grids_with_failed_cables() {
        let mut without = 0;
        for seed in 0..60 {
            let (fabric, routing) = some_failed(seed);
            let Routing::DimensionOrder(order) = &routing else {
                panic!("{seed}");
            };
            let found = Reach::of_rings(&fabric, &routing, order).unwrap();
            without += found.unroutable_pairs();
            assert_eq!(found, Reach::walked(&fabric, &routing), "{seed}");
        }
        assert!(without > 0);
    }
}
