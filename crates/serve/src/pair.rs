//! One pair's cost, in the words of the command and of a running oracle alike.

use hopbyte_fabric::{Fabric, NodeId};
use hopbyte_observe::oracle::Ask;
use hopbyte_oracle::{Aggregate, Metric, Over, RouteCost, RouteCosts};
use serde::Serialize;
use std::str::FromStr;

/// What was asked for.
#[derive(Clone, Copy, Serialize)]
pub struct Asked {
    /// What is counted on a link.
    pub metric: Metric,
    /// How the links of a route become one number.
    pub aggregate: Aggregate,
    /// Which routes count.
    pub over: Over,
    unit: &'static str,
}

/// One pair.
#[derive(Serialize)]
pub struct Pair {
    /// `null` when links that decide it were not read, or without a route.
    pub cost: Option<f64>,
    /// The least and the most it can be, where links were not read (`null`: no limit).
    pub lower: Option<f64>,
    /// See `lower`.
    pub upper: Option<f64>,
    /// Links of the route.
    pub links: usize,
    /// Share of them that was read.
    pub coverage: f64,
    /// Why there is no route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unroutable: Option<String>,
}

impl Asked {
    /// What stands in a question; where nothing stands, hops, their sum, the request.
    pub fn read(ask: &Ask) -> Result<Self, String> {
        fn named<T: FromStr<Err = String>>(word: Option<&String>, default: T) -> Result<T, String> {
            word.map_or(Ok(default), |w| w.parse())
        }
        Ok(Self::new(
            named(ask.metric.as_ref(), Metric::Hops)?,
            named(ask.aggregate.as_ref(), Aggregate::Sum)?,
            named(ask.over.as_ref(), Over::Request)?,
        ))
    }

    /// With the metric's unit.
    pub fn new(metric: Metric, aggregate: Aggregate, over: Over) -> Self {
        Self {
            metric,
            aggregate,
            over,
            unit: metric.unit(),
        }
    }
}

impl Pair {
    /// What the route from one node to another costs.
    pub fn of(fabric: &Fabric, costs: &RouteCosts, (from, to): (NodeId, NodeId)) -> Self {
        let answer = costs.explain(from, to);
        let known = answer.as_ref().ok();
        Self {
            cost: known.and_then(RouteCost::value),
            lower: known.map(|c| c.lower),
            upper: known.map(|c| c.upper).filter(|u| u.is_finite()),
            links: known.map_or(0, |c| c.links),
            coverage: known.map_or(0.0, RouteCost::coverage),
            unroutable: answer.err().map(|u| u.describe(fabric)),
        }
    }
}
