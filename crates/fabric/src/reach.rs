//! Which pairs of nodes can talk, and how far apart are they?

use crate::fabric::{End, Fabric};
use crate::ids::{LinkId, NodeId, RouterId};
use crate::routing::{Routing, Unroutable};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Most unroutable pairs that are kept by name; all are counted.
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

/// Destinations that one thread takes in a run.
const RUN: usize = 64;

/// The nodes of a router as sources: how many inject without a hop, by a hop, and not at all.
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

/// What a node's link adds to a route, as a position in [`Sources::counts`].
fn injection(fabric: &Fabric, link: LinkId) -> usize {
    match fabric.link(link).is_up() {
        true => usize::from(fabric.is_hop(link)),
        false => 2,
    }
}

/// What is known of the way from a router to one destination.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Unknown,
    Hops(u32),
    Dead,
}

impl Reach {
    /// Looks at all pairs, in time proportional to routers × nodes where the next hop depends on the
    /// destination alone. Same result on any number of threads.
    pub fn of(fabric: &Fabric, routing: &Routing) -> Self {
        let parts: Vec<Self> = if routing.is_destination_based() {
            let mut nodes: Vec<NodeId> = fabric.node_ids().collect();
            // Where the next hop depends on the destination's router, its nodes share the way there.
            let shared = !matches!(routing, Routing::Tables(_) | Routing::Tree(_));
            if shared {
                nodes.sort_by_key(|&n| fabric.node(n).router);
            }
            let sources = Sources::of(fabric);
            // Neighbouring destinations share lines of the tables: one thread takes a run of them.
            let run = |ways: &mut Vec<Way>, run: &[NodeId]| {
                let mut sum = Self::default();
                let mut before = None;
                for &to in run {
                    let node = fabric.node(to);
                    let end = (node.router, injection(fabric, node.eject));
                    if !shared || before.replace(end) != Some(end) {
                        ways.clear();
                        ways.resize(fabric.routers().len(), Way::Unknown);
                    }
                    sum.add(Self::into_tree(fabric, routing, &sources, to, ways));
                }
                sum.keep_first();
                sum
            };
            nodes.par_chunks(RUN).map_init(Vec::new, run).collect()
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

    /// Pairs that have no route.
    pub fn unroutable_pairs(&self) -> u64 {
        self.pairs - self.routable
    }

    fn count(&mut self, hops: usize) {
        self.routable += 1;
        *self.hops.entry(hops).or_default() += 1;
    }

    /// All pairs with their destination on one router; the route between two routers is walked once,
    /// for it does not depend on which of their nodes talk.
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

    /// All sources to one destination over the tree of next hops; the sources of a router that inject
    /// alike are counted at once.
    fn into_tree(
        fabric: &Fabric,
        routing: &Routing,
        sources: &[Sources],
        to: NodeId,
        ways: &mut [Way],
    ) -> Self {
        let mut part = Self::default();
        let mut hops_of: Vec<u64> = Vec::new();
        let (target, own) = (fabric.node(to).router, fabric.node(to).inject);
        for at in sources {
            let mut counts = at.counts;
            if at.router == target {
                counts[injection(fabric, own)] -= 1;
            }
            let total: u64 = counts.iter().sum();
            part.pairs += total;
            let way = match counts[0] + counts[1] {
                0 => Way::Dead,
                _ => follow(fabric, routing, at.router, to, ways),
            };
            let Way::Hops(hops) = way else {
                part.note_router(fabric, routing, at.router, to);
                continue;
            };
            for (extra, &count) in counts[..2].iter().enumerate() {
                let hops = hops as usize + extra;
                hops_of.resize(hops_of.len().max(hops + 1), 0);
                hops_of[hops] += count;
            }
            if counts[2] > 0 {
                part.note_router(fabric, routing, at.router, to);
            }
        }
        for (hops, &count) in hops_of.iter().enumerate().filter(|(_, c)| **c > 0) {
            part.routable += count;
            part.hops.insert(hops, count);
        }
        part
    }

    /// Notes the nodes of a router that have no way to a node.
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

/// Walks the failing route once more for its reason.
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

/// The way from `router` to node `to`, filling in every router passed.
fn follow(
    fabric: &Fabric,
    routing: &Routing,
    router: RouterId,
    to: NodeId,
    ways: &mut [Way],
) -> Way {
    let mut passed: Vec<(RouterId, LinkId)> = Vec::new();
    let mut at = router;
    let mut way = loop {
        if ways[at.index()] != Way::Unknown {
            break ways[at.index()];
        }
        let link = match routing.next_link(fabric, at, to) {
            Ok(link) if fabric.link(link).is_up() && passed.len() <= fabric.routers().len() => link,
            _ => {
                ways[at.index()] = Way::Dead;
                break Way::Dead;
            }
        };
        match fabric.link(link).to {
            End::Router(next) => {
                passed.push((at, link));
                at = next;
            }
            _ => {
                let delivered = link == fabric.node(to).eject;
                let hops = Way::Hops(u32::from(fabric.is_hop(link)));
                ways[at.index()] = if delivered { hops } else { Way::Dead };
                break ways[at.index()];
            }
        }
    };
    for (at, link) in passed.into_iter().rev() {
        if let Way::Hops(hops) = way {
            way = Way::Hops(hops + u32::from(fabric.is_hop(link)));
        }
        ways[at.index()] = way;
    }
    way
}
