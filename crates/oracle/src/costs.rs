//! One route at a time.

use crate::metric::{Aggregate, Metric, Over};
use hopbyte_fabric::{Fabric, LinkId, LinkState, NodeId, Routing, Unroutable};
use rayon::prelude::*;

/// What a pair costs, with bounds where values of links are unknown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RouteCost {
    /// The least that the cost can be: unknown links taken as 0.
    pub lower: f64,
    /// The most that it can be: unknown links taken as 1 for ratios, else infinite.
    pub upper: f64,
    /// Links that counted.
    pub links: usize,
    /// Links among them whose value is known.
    pub known: usize,
}

impl RouteCost {
    /// The cost, if what is known decides it.
    pub fn value(&self) -> Option<f64> {
        (self.lower == self.upper).then_some(self.lower)
    }

    /// Share of the route's links whose value is known (1 for a route without links).
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
    /// By link; not-a-number is unknown.
    pub(crate) values: Vec<f64>,
}

/// What a walk has seen.
#[derive(Clone, Copy, Default)]
struct Seen {
    sum: f64,
    max: f64,
    /// Links, by share of the traffic that uses them.
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
        let values = fabric
            .link_ids()
            .map(|link| metric.of_link(fabric, state, link).unwrap_or(f64::NAN))
            .collect();
        Self {
            fabric,
            routing,
            metric,
            aggregate,
            over,
            values,
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

    /// Share of all hops of the fabric whose value is known.
    pub fn coverage(&self) -> f64 {
        let hops = self.fabric.link_ids().filter(|&l| self.fabric.is_hop(l));
        let (mut all, mut known) = (0usize, 0usize);
        for link in hops {
            all += 1;
            known += usize::from(!self.values[link.index()].is_nan());
        }
        known as f64 / all.max(1) as f64
    }

    /// The cost from `from` to `to` as far as it is known, or why there is no route.
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

    /// The cost from `from` to `to`; `None` when unknown links leave it open.
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

    fn walk(
        &self,
        from: NodeId,
        to: NodeId,
        shares: &mut Vec<(LinkId, f32)>,
        seen: &mut Seen,
    ) -> Result<(), Unroutable> {
        shares.clear();
        self.routing.shares(self.fabric, from, to, shares)?;
        for &(link, share) in shares.iter() {
            if !self.fabric.is_hop(link) {
                continue;
            }
            let (value, share) = (self.values[link.index()], f64::from(share));
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
        // Where nothing is unknown nothing may be added, not even infinity times zero.
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
