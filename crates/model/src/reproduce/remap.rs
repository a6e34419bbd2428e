//! Paper 003's remapping: ranks change places until the sum of bytes times route cost stops falling.

use super::case::Case;
use crate::error::ModelError;
use crate::outcome::Outcome;
use crate::question::scenario::PlacementRule;
use hopbyte_fabric::{Exchange, LinkId, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// Time of the case's job after remapping by a metric of its congested run: `uniform`, `hops`, `used`,
/// `credit_stall`, or `worst_link` (ours: the fullest link with the other job's load on it).
pub(super) fn time(case: &Case, congested: &Outcome, metric: &str) -> Result<f64, ModelError> {
    let question = case.question()?;
    let exchange = case.scenario.job.workload.exchange(None)?;
    let mut nodes: Vec<NodeId> = question.placement.slots().iter().map(|s| s.node).collect();
    let routes = Routes::new(case, &nodes);
    let of_link = by_link(case, congested, metric);
    improve(&exchange, &mut nodes, &|nodes| match metric {
        "worst_link" => fullest(case, &exchange, nodes, &routes, &of_link),
        _ => route_cost(&exchange, nodes, &routes, &of_link, metric),
    });
    let mut scenario = case.scenario.clone();
    let name = |n: &NodeId| case.fabric.node(*n).name.clone();
    scenario.job.placement = PlacementRule::Nodes(nodes.iter().map(name).collect());
    let mapped = Case {
        scenario,
        fabric: case.fabric.clone(),
        routing: case.routing.clone(),
    };
    Ok(mapped.question()?.answer()?.time_seconds)
}

/// Swaps ranks of different nodes while that makes the cost smaller.
fn improve(exchange: &Exchange, nodes: &mut [NodeId], cost: &dyn Fn(&[NodeId]) -> f64) {
    debug_assert_eq!(exchange.tasks(), nodes.len());
    let mut best = cost(nodes);
    loop {
        let before = best;
        for a in 0..nodes.len() {
            for b in a + 1..nodes.len() {
                if nodes[a] == nodes[b] {
                    continue;
                }
                nodes.swap(a, b);
                let now = cost(nodes);
                if now < best * (1.0 - 1e-9) {
                    best = now;
                } else {
                    nodes.swap(a, b);
                }
            }
        }
        if best >= before * (1.0 - 1e-6) {
            return;
        }
    }
}

/// Links between routers for every pair of a job's nodes.
struct Routes(BTreeMap<(NodeId, NodeId), Vec<LinkId>>);

impl Routes {
    fn new(case: &Case, nodes: &[NodeId]) -> Self {
        let nodes: BTreeSet<NodeId> = nodes.iter().copied().collect();
        let mut routes = BTreeMap::new();
        for &a in &nodes {
            for &b in &nodes {
                let mut links = Vec::new();
                let found = case.routing.route(&case.fabric, a, b, &mut links);
                links.retain(|&l| found.is_ok() && case.fabric.is_hop(l));
                routes.insert((a, b), links);
            }
        }
        Self(routes)
    }

    fn of(&self, from: NodeId, to: NodeId) -> &[LinkId] {
        self.0.get(&(from, to)).map_or(&[], Vec::as_slice)
    }
}

/// A metric of the congested run by link; for `worst_link` the capacity that is left.
fn by_link(case: &Case, congested: &Outcome, metric: &str) -> Vec<f64> {
    let mut of_link = vec![0.0; case.fabric.links().len()];
    if metric == "worst_link" {
        let capacity = |l: LinkId| case.fabric.link(l).capacity().0;
        of_link = case.fabric.link_ids().map(capacity).collect();
    }
    for link in &congested.links {
        let value = &mut of_link[link.id as usize];
        *value = match metric {
            "used" => link.used_ratio,
            "credit_stall" => link.credit_stall_ratio.unwrap_or(0.0),
            _ => *value * (1.0 - link.used_ratio).max(LEAST_LEFT),
        };
    }
    of_link
}

/// Share of a link's capacity that others always leave.
const LEAST_LEFT: f64 = 0.05;

/// Largest value of the metric on the route (number of its links for `hops`) times bytes, summed.
fn route_cost(
    exchange: &Exchange,
    nodes: &[NodeId],
    routes: &Routes,
    of_link: &[f64],
    metric: &str,
) -> f64 {
    let pair = |a: NodeId, b: NodeId| match metric {
        _ if a == b => 0.0,
        "uniform" => 1.0,
        "hops" => routes.of(a, b).len() as f64,
        _ => {
            let values = routes.of(a, b).iter().map(|l| of_link[l.index()]);
            values.fold(0.0, f64::max)
        }
    };
    let cost = |(from, m): (u32, &hopbyte_fabric::Message)| {
        pair(nodes[from as usize], nodes[m.to as usize]) * m.bytes
    };
    exchange.iter().map(cost).sum()
}

/// Time that the fullest link needs beside what the other job carries; hop-bytes break ties.
fn fullest(
    case: &Case,
    exchange: &Exchange,
    nodes: &[NodeId],
    routes: &Routes,
    left: &[f64],
) -> f64 {
    let mut bytes = vec![0.0; case.fabric.links().len()];
    let mut hop_bytes = 0.0;
    for (from, m) in exchange.iter() {
        for link in routes.of(nodes[from as usize], nodes[m.to as usize]) {
            bytes[link.index()] += m.bytes;
            hop_bytes += m.bytes;
        }
    }
    let seconds = bytes.iter().zip(left).map(|(b, left)| b / left.max(1.0));
    seconds.fold(0.0, f64::max) + hop_bytes * 1e-15
}
