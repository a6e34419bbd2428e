//! Costs of all routes to one destination.

use crate::code::Code;
use hopbyte_fabric::routing::MinimalPaths;
use hopbyte_fabric::{End, Fabric, LinkId, NodeId, RouterId, Routing};

/// Destination of routes.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    /// To a router: links to its nodes do not count.
    Router(RouterId),
    /// To a node: its ejection link counts if it is a hop.
    Node(NodeId),
}

/// End of a link that does not end at a router.
const NO_ROUTER: u32 = u32::MAX;

fn leads_to(end: End) -> u32 {
    match end {
        End::Router(router) => router.0,
        _ => NO_ROUTER,
    }
}

/// States of a router: unvisited, on the stack, done.
const ON_STACK: u32 = 1;
const DONE: u32 = 2;

/// Costs towards one destination at a time; routes that merge share their remaining links, so each router is visited
/// once per destination.
pub(crate) struct Tree<'a> {
    fabric: &'a Fabric,
    routing: &'a Routing,
    values: &'a [f64],
    code: Code,
    /// Router at the end of a link, in a compact array for the walk.
    leads_to: Vec<u32>,
    /// `epoch + ON_STACK` or `epoch + DONE`; lower values are unvisited.
    mark: Vec<u32>,
    epoch: u32,
    cost: Vec<f64>,
    hops: Vec<f64>,
    stack: Vec<(RouterId, LinkId)>,
    by_distance: Vec<RouterId>,
}

impl<'a> Tree<'a> {
    pub(crate) fn new(
        fabric: &'a Fabric,
        routing: &'a Routing,
        values: &'a [f64],
        code: Code,
    ) -> Self {
        let n = fabric.routers().len();
        Self {
            fabric,
            routing,
            values,
            code,
            leads_to: fabric.links().iter().map(|l| leads_to(l.to)).collect(),
            mark: vec![0; n],
            epoch: 0,
            cost: vec![0.0; n],
            hops: vec![0.0; n],
            stack: Vec::new(),
            by_distance: Vec::new(),
        }
    }

    /// Cost code and number of links from a router that was among the sources of [`Tree::grow`].
    #[inline]
    pub(crate) fn cost(&self, from: RouterId) -> (f64, f64) {
        (self.cost[from.index()], self.hops[from.index()])
    }

    /// Computes the costs from every source to the target.
    pub(crate) fn grow(&mut self, target: Target, sources: impl Iterator<Item = RouterId>) {
        let (router, arrival) = match target {
            Target::Router(router) => (router, (0.0, 0.0)),
            Target::Node(node) => {
                let node = self.fabric.node(node);
                (node.router, host_link(self.fabric, self.values, node.eject))
            }
        };
        if let Routing::Minimal(paths) = self.routing {
            self.grow_minimal(paths, router, arrival);
            return;
        }
        let node = match target {
            Target::Node(node) => Some(node),
            Target::Router(router) => self.fabric.nodes_on(router).first().copied(),
        };
        let Some(node) = node else {
            self.cost.fill(self.code.unknown);
            self.cost[router.index()] = 0.0;
            return;
        };
        self.epoch += DONE;
        for source in sources {
            self.follow(source, node, arrival);
        }
    }

    /// Follows the single route from a router to the first visited router, then returns along it.
    fn follow(&mut self, source: RouterId, node: NodeId, arrival: (f64, f64)) {
        let mut at = source;
        let (mut cost, mut hops) = loop {
            let mark = self.mark[at.index()].saturating_sub(self.epoch);
            if mark == DONE {
                break self.cost(at);
            }
            if mark == ON_STACK {
                break (f64::INFINITY, 0.0);
            }
            self.mark[at.index()] = self.epoch + ON_STACK;
            let Ok(link) = self.routing.next_link(self.fabric, at, node) else {
                break self.settle(at, (f64::INFINITY, 0.0));
            };
            match self.leads_to[link.index()] {
                NO_ROUTER if link == self.fabric.node(node).eject => {
                    break self.settle(at, arrival);
                }
                NO_ROUTER => break self.settle(at, (f64::INFINITY, 0.0)),
                next => {
                    self.stack.push((at, link));
                    at = RouterId(next);
                }
            }
        };
        while let Some((router, link)) = self.stack.pop() {
            cost = self.code.join(self.values[link.index()], cost);
            hops += 1.0;
            self.settle(router, (cost, hops));
        }
    }

    fn settle(&mut self, router: RouterId, (cost, hops): (f64, f64)) -> (f64, f64) {
        self.mark[router.index()] = self.epoch + DONE;
        self.cost[router.index()] = cost;
        self.hops[router.index()] = hops;
        (cost, hops)
    }

    /// All shortest paths: nearest routers first, each from its closer neighbours. Sums are expectations over the
    /// shares of the paths, maxima are over all paths.
    fn grow_minimal(&mut self, paths: &MinimalPaths, target: RouterId, arrival: (f64, f64)) {
        let fabric = self.fabric;
        let far = |r: &RouterId| paths.distance(*r, target).map_or(u32::MAX, u32::from);
        self.by_distance.clear();
        self.by_distance.extend(fabric.router_ids());
        self.by_distance.sort_by_cached_key(far);
        for i in 0..self.by_distance.len() {
            let at = self.by_distance[i];
            let settled = match paths.distance(at, target) {
                None => (f64::INFINITY, 0.0),
                Some(0) => arrival,
                Some(hops) => {
                    let cost = self.over_nearer(paths, at, target);
                    (cost, f64::from(hops) + arrival.1)
                }
            };
            self.settle(at, settled);
        }
    }

    fn over_nearer(&self, paths: &MinimalPaths, at: RouterId, target: RouterId) -> f64 {
        let nearer = paths.nearer(self.fabric, at, target);
        let part = |link: LinkId, next: RouterId| {
            self.code
                .join(self.values[link.index()], self.cost[next.index()])
        };
        if self.code.is_max() {
            return nearer.fold(0.0, |worst, (link, next)| f64::max(worst, part(link, next)));
        }
        let capacity = |link: LinkId| self.fabric.link(link).capacity().0;
        let total: f64 = nearer.clone().map(|(link, _)| capacity(link)).sum();
        nearer
            .map(|(link, next)| capacity(link) / total * part(link, next))
            .sum()
    }
}

/// Cost code and hops of a host link: none if it is not a hop, infinite if it is down.
pub(crate) fn host_link(fabric: &Fabric, values: &[f64], link: LinkId) -> (f64, f64) {
    if !fabric.link(link).is_up() {
        (f64::INFINITY, 0.0)
    } else if fabric.is_hop(link) {
        (values[link.index()], 1.0)
    } else {
        (0.0, 0.0)
    }
}
