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
            let nodes: Vec<NodeId> = fabric.node_ids().collect();
            let tree =
                |ways: &mut Vec<Way>, &to: &NodeId| Self::into_tree(fabric, routing, to, ways);
            nodes.par_iter().map_init(Vec::new, tree).collect()
        } else {
            let routers: Vec<RouterId> = fabric.router_ids().collect();
            routers
                .par_iter()
                .map(|&to| Self::into_router(fabric, routing, to))
                .collect()
        };
        let mut all = Self::default();
        for part in parts {
            all.pairs += part.pairs;
            all.routable += part.routable;
            for (hops, count) in part.hops {
                *all.hops.entry(hops).or_default() += count;
            }
            all.unroutable.extend(part.unroutable);
        }
        all.unroutable.sort_by_key(|u| (u.from, u.to));
        all.unroutable.truncate(EXAMPLES);
        all
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

    /// All sources to one destination over the tree of next hops.
    fn into_tree(fabric: &Fabric, routing: &Routing, to: NodeId, ways: &mut Vec<Way>) -> Self {
        ways.clear();
        ways.resize(fabric.routers().len(), Way::Unknown);
        let mut part = Self::default();
        for router in fabric.router_ids() {
            for &from in fabric.nodes_on(router).iter().filter(|&&n| n != to) {
                part.pairs += 1;
                let inject = fabric.node(from).inject;
                let way = if fabric.link(inject).is_up() {
                    follow(fabric, routing, router, to, ways)
                } else {
                    Way::Dead
                };
                match way {
                    Way::Hops(hops) => {
                        part.count(hops as usize + usize::from(fabric.is_hop(inject)));
                    }
                    _ => part.note(explain(fabric, routing, from, to)),
                }
            }
        }
        part
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
