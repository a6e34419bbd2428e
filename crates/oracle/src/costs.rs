//! Route costs, one route at a time.

use crate::code::{Code, mean_of};
use crate::grid::Grid;
use crate::metric::{Aggregate, Metric, Over};
use hopbyte_fabric::{Fabric, LinkId, LinkState, NodeId, Routing, Unroutable};
use rayon::prelude::*;
use std::sync::{Arc, OnceLock};

/// Shorter lists are walked: building the tables of a grid would take longer.
const TABLES_FROM: usize = 512;

/// The cost of a pair, with bounds if some link values are unknown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RouteCost {
    /// Lower bound: unknown links as 0.
    pub lower: f64,
    /// Upper bound: unknown links as 1 for ratios, otherwise infinite.
    pub upper: f64,
    /// Links that count.
    pub links: usize,
    /// Links among them with known values.
    pub known: usize,
}

impl RouteCost {
    /// The cost, if the known values determine it.
    pub fn value(&self) -> Option<f64> {
        (self.lower == self.upper).then_some(self.lower)
    }

    /// Share of the route's links with known values (1 for a route without links).
    pub fn coverage(&self) -> f64 {
        if self.links == 0 {
            1.0
        } else {
            self.known as f64 / self.links as f64
        }
    }
}

/// Costs of routes for one metric, aggregate and choice of routes.
#[derive(Clone, Debug)]
pub struct RouteCosts<'a> {
    pub(crate) fabric: &'a Fabric,
    pub(crate) routing: &'a Routing,
    pub(crate) metric: Metric,
    pub(crate) aggregate: Aggregate,
    pub(crate) over: Over,
    /// By link id; NaN is unknown.
    pub(crate) values: Arc<[f64]>,
    /// Tables of a grid, built at the first long list.
    grid: OnceLock<Option<(Grid, Code)>>,
}

/// Accumulated state of a walk.
#[derive(Clone, Copy, Default)]
struct Seen {
    sum: f64,
    max: f64,
    /// Links, weighted by the share of the pair's traffic on them.
    weight: f64,
    unknown_weight: f64,
    links: usize,
    known: usize,
}

impl<'a> RouteCosts<'a> {
    /// Prepares the values of all links. Without a state, metrics that need one are unknown.
    pub fn new(
        fabric: &'a Fabric,
        routing: &'a Routing,
        state: Option<&LinkState>,
        metric: Metric,
        aggregate: Aggregate,
        over: Over,
    ) -> Self {
        let values = link_values(fabric, state, metric);
        Self::of_values(fabric, routing, values, metric, aggregate, over)
    }

    /// From the values of all links, which other aggregates of the same view share.
    pub(crate) fn of_values(
        fabric: &'a Fabric,
        routing: &'a Routing,
        values: Arc<[f64]>,
        metric: Metric,
        aggregate: Aggregate,
        over: Over,
    ) -> Self {
        Self {
            fabric,
            routing,
            metric,
            aggregate,
            over,
            values,
            grid: OnceLock::new(),
        }
    }

    /// The metric.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// The aggregate.
    pub fn aggregate(&self) -> Aggregate {
        self.aggregate
    }

    /// The routes that count.
    pub fn over(&self) -> Over {
        self.over
    }

    /// Share of all hops of the fabric with known values.
    pub fn coverage(&self) -> f64 {
        let hops = self.fabric.link_ids().filter(|&l| self.fabric.is_hop(l));
        let (mut all, mut known) = (0usize, 0usize);
        for link in hops {
            all += 1;
            known += usize::from(!self.values[link.index()].is_nan());
        }
        known as f64 / all.max(1) as f64
    }

    /// Whether a link counts: hops, and links inside hosts, which are no hops.
    fn counts(&self, link: LinkId) -> bool {
        let inner = self.metric != Metric::Hops && self.fabric.is_inner(link);
        inner || self.fabric.is_hop(link)
    }

    /// The cost from `from` to `to` with its bounds, or why there is no route.
    pub fn explain(&self, from: NodeId, to: NodeId) -> Result<RouteCost, Unroutable> {
        let mut seen = Seen::default();
        let mut shares = Vec::new();
        if self.over != Over::Response {
            self.walk(from, to, &mut shares, &mut seen)?;
        }
        if self.over != Over::Request {
            self.walk(to, from, &mut shares, &mut seen)?;
        }
        Ok(self.cost(&seen))
    }

    /// The cost from `from` to `to`; `None` if unknown links leave it undetermined.
    pub fn pair(&self, from: NodeId, to: NodeId) -> Result<Option<f64>, Unroutable> {
        Ok(self.explain(from, to)?.value())
    }

    /// [`RouteCosts::pair`] for every pair of a list, in parallel.
    pub fn pairs(&self, pairs: &[(NodeId, NodeId)]) -> Vec<Result<Option<f64>, Unroutable>> {
        pairs
            .par_iter()
            .with_min_len(256)
            .map(|&(from, to)| self.pair(from, to))
            .collect()
    }

    /// The costs of a list of pairs, encoded as in a matrix: NaN is unknown, infinite is no route. On a healthy grid
    /// with on-board hosts a pair costs a few table look-ups.
    pub fn many(&self, pairs: &[(NodeId, NodeId)]) -> Vec<f32> {
        let mut costs = vec![0f32; pairs.len()];
        let each = costs.par_iter_mut().with_min_len(1024).zip(pairs);
        match self.tables(pairs.len()) {
            Some((grid, code)) => each.for_each(|(cost, &(from, to))| {
                *cost = self.look_up(grid, *code, from, to);
            }),
            None => each.for_each(|(cost, &(from, to))| {
                *cost = match self.pair(from, to) {
                    Ok(known) => known.map_or(f32::NAN, |c| c as f32),
                    Err(_) => f32::INFINITY,
                };
            }),
        }
        costs
    }

    /// Tables for a number of pairs, if the machine is a grid and the pairs are enough to repay them.
    pub(crate) fn tables(&self, pairs: usize) -> Option<&(Grid, Code)> {
        if pairs < TABLES_FROM && self.grid.get().is_none() {
            return None;
        }
        let make = || {
            let Routing::DimensionOrder(order) = self.routing else {
                return None;
            };
            let onboard = |n: NodeId| {
                let node = self.fabric.node(n);
                let cheap = |l| !self.fabric.is_hop(l) && self.fabric.link(l).is_up();
                cheap(node.inject) && cheap(node.eject)
            };
            let grid = order.is_healthy() && self.fabric.node_ids().all(onboard);
            grid.then(|| {
                let (values, code) = self.encoded();
                (Grid::new(self.fabric, order, &values, code), code)
            })
        };
        self.grid.get_or_init(make).as_ref()
    }

    /// One pair from the tables.
    pub(crate) fn look_up(&self, grid: &Grid, code: Code, from: NodeId, to: NodeId) -> f32 {
        let (a, b) = (self.fabric.node(from), self.fabric.node(to));
        let (a, b) = (
            grid.position(a.router.index()),
            grid.position(b.router.index()),
        );
        let mut cost = match self.over {
            Over::Request => grid.segment_cost(a, b, code),
            Over::Response => grid.segment_cost(b, a, code),
            Over::Both => code.join(grid.segment_cost(a, b, code), grid.segment_cost(b, a, code)),
        };
        if self.aggregate == Aggregate::Mean {
            let routes = if self.over == Over::Both { 2.0 } else { 1.0 };
            cost = mean_of(cost, routes * grid.hops_between(a, b));
        }
        code.decode(cost as f32)
    }

    fn walk(
        &self,
        from: NodeId,
        to: NodeId,
        shares: &mut Vec<(LinkId, f64)>,
        seen: &mut Seen,
    ) -> Result<(), Unroutable> {
        shares.clear();
        self.routing.shares(self.fabric, from, to, shares)?;
        for &(link, share) in shares.iter() {
            if !self.counts(link) {
                continue;
            }
            let (value, share) = (self.values[link.index()], share);
            seen.links += 1;
            seen.weight += share;
            if value.is_nan() {
                seen.unknown_weight += share;
            } else {
                seen.known += 1;
                seen.sum += share * value;
                seen.max = seen.max.max(value);
            }
        }
        Ok(())
    }

    fn cost(&self, seen: &Seen) -> RouteCost {
        // Without unknown links nothing may be added: infinity times zero is NaN.
        let open = |weight: f64| match self.metric.ceiling() {
            _ if seen.known == seen.links => 0.0,
            ceiling => ceiling * weight,
        };
        let (lower, upper) = match self.aggregate {
            Aggregate::Max => (seen.max, seen.max.max(open(1.0))),
            Aggregate::Sum => (seen.sum, seen.sum + open(seen.unknown_weight)),
            Aggregate::Mean if seen.links == 0 => (0.0, 0.0),
            Aggregate::Mean => (
                seen.sum / seen.weight,
                (seen.sum + open(seen.unknown_weight)) / seen.weight,
            ),
        };
        RouteCost {
            lower,
            upper,
            links: seen.links,
            known: seen.known,
        }
    }
}

/// A metric's value of every link by id; NaN is unknown.
pub(crate) fn link_values(
    fabric: &Fabric,
    state: Option<&LinkState>,
    metric: Metric,
) -> Arc<[f64]> {
    let value = |link| metric.of_link(fabric, state, link).unwrap_or(f64::NAN);
    fabric.link_ids().map(value).collect()
}
