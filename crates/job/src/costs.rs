//! Route costs as the command and a running oracle report them: one pair, a list, or a matrix summary.

use crate::error::{Result, refuse};
use hopbyte_fabric::{Allocation, Fabric, InputError, LinkState, NodeId, Routing};
use hopbyte_map::Goal;
use hopbyte_observe::oracle::Ask;
use hopbyte_observe::text::{Limits, Text, lossy};
use hopbyte_oracle::{Aggregate, Metric, Over, RouteCost, RouteCosts, RouterMatrix};
use serde::Serialize;
use std::convert::Infallible;
use std::io::{self, Write};
use std::path::Path;
use std::str::FromStr;

/// Costs of the routes between allocated nodes, row by row, for [`Goal::RouteCost`]; none for other objectives.
///
/// The default aggregate is [`Metric::default_aggregate`].
///
/// # Errors
/// The metric needs counters and there are none; a metric or aggregate for another objective; a matrix that does not fit in
/// memory.
pub fn costs_for(
    goal: Goal,
    (fabric, routing): (&Fabric, &Routing),
    state: Option<&LinkState>,
    allocation: &Allocation,
    (metric, aggregate): (Metric, Option<Aggregate>),
) -> Result<Option<Vec<f32>>> {
    if goal != Goal::RouteCost {
        if metric != Metric::default() || aggregate.is_some() {
            refuse!(
                "metric and aggregate: found objective {goal}, expected {}\nhint: choose that objective, or leave them out",
                Goal::RouteCost
            );
        }
        return Ok(None);
    }
    if metric.needs_state() && state.is_none() {
        refuse!("metric {metric} needs a reading of counters\nhint: give --background or --oracle");
    }
    let nodes: Vec<_> = allocation.nodes().iter().map(|&(n, _)| n).collect();
    let aggregate = aggregate.unwrap_or_else(|| metric.default_aggregate());
    let costs = RouteCosts::new(fabric, routing, state, metric, aggregate, Over::Request);
    Ok(Some(costs.among(&nodes)?.into_vec()))
}

/// A cost query.
#[derive(Clone, Copy, Serialize)]
pub struct Asked {
    /// Metric of a link.
    pub metric: Metric,
    /// Aggregation along a route.
    pub aggregate: Aggregate,
    /// Which routes count.
    pub over: Over,
    unit: &'static str,
}

/// One pair.
#[derive(Serialize)]
pub struct Pair {
    /// `null` if the deciding links were not read, or if there is no route.
    pub cost: Option<f64>,
    /// Lower and upper bound if links were not read (`null`: unbounded).
    pub lower: Option<f64>,
    /// See `lower`.
    pub upper: Option<f64>,
    /// Links on the route.
    pub links: usize,
    /// Share of the route's links that were read.
    pub coverage: f64,
    /// Reason for a missing route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unroutable: Option<String>,
}

/// The cost of one pair, with the query.
#[derive(Serialize)]
pub struct PairCost {
    schema: &'static str,
    /// Sending node.
    pub from: String,
    /// Receiving node.
    pub to: String,
    /// The query.
    #[serde(flatten)]
    pub asked: Asked,
    /// The answer.
    #[serde(flatten)]
    pub pair: Pair,
}

impl PairCost {
    /// Cost of the route of a pair.
    pub fn of(asked: Asked, fabric: &Fabric, costs: &RouteCosts, pair: (NodeId, NodeId)) -> Self {
        Self {
            schema: "hopbyte.cost/1",
            from: fabric.node(pair.0).name.clone(),
            to: fabric.node(pair.1).name.clone(),
            asked,
            pair: Pair::of(fabric, costs, pair),
        }
    }
}

impl Asked {
    /// The query in words, such as `sum of hops over the request route`.
    pub fn words(&self) -> String {
        let over = match self.over {
            Over::Request => "request",
            Over::Response => "response",
            Over::Both => "request and response",
        };
        format!(
            "{} of {} over the {over} route",
            self.aggregate, self.metric
        )
    }

    /// Unit of a cost.
    pub fn unit(&self) -> &'static str {
        self.unit
    }

    /// Builds a query from optional words; the defaults are hops, their sum, and the request route.
    pub fn read(ask: &Ask) -> std::result::Result<Self, String> {
        fn named<T: FromStr<Err = String>>(
            word: Option<&String>,
            default: T,
        ) -> std::result::Result<T, String> {
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
    /// Cost of the route from one node to another.
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

/// A node by its name, as an end of a route.
///
/// # Errors
/// There is no such node, or several; a further LID of a port (LMC), whose entries of forwarding tables are not used.
pub fn end_of_route(fabric: &Fabric, name: &str) -> Result<NodeId> {
    let node = fabric.find_node(name)?;
    let lid = name.strip_prefix("lid:").and_then(|lid| lid.parse().ok());
    let is_own = |lid: &u32| fabric.node_named(&format!("lid:{lid}")) == Some(node);
    match (0..lid.unwrap_or(0)).rev().take_while(is_own).last() {
        None => Ok(node),
        Some(base) => {
            let found = format!("{name}, a further LID of a port (LMC)");
            let error =
                InputError::new(fabric.source(), found, format!("its base LID, lid:{base}"));
            let hint = "switches may route each LID of a port differently, and the paths of base LIDs are used";
            Err(error.hint(hint).into())
        }
    }
}

/// Reads a list of pairs, separated by comma, tab or blank; `#` begins a comment.
///
/// # Errors
/// There is no pair, a line is not a pair, or it names an unknown node.
pub fn read_pairs(path: &Path, fabric: &Fabric) -> Result<Vec<(NodeId, NodeId)>> {
    let text = Text::read(path, Limits::TEXT)?;
    let mut pairs = Vec::new();
    for line in text.lines() {
        let content = lossy(line.trimmed());
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let halves = [',', '\t', ' '].iter().find_map(|&c| content.split_once(c));
        let Some((from, to)) = halves else {
            return Err(text.error_at(line, "FROM,TO").into());
        };
        let node = |name: &str| {
            end_of_route(fabric, name.trim()).map_err(|e| {
                let place = text.error_at(line, "the names of two nodes");
                place.hint(e.to_string())
            })
        };
        pairs.push((node(from)?, node(to)?));
    }
    if pairs.is_empty() {
        return Err(text.error("no pair", "FROM,TO in every line").into());
    }
    Ok(pairs)
}

/// NumPy's own format, version 1: a header padded to a multiple of 64 bytes, then the values.
///
/// # Errors
/// Those of `out`.
pub fn npy(matrix: &RouterMatrix<'_, '_>, out: &mut dyn Write) -> io::Result<()> {
    let n = matrix.size();
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({n}, {n}), }}");
    let unpadded = 10 + header.len() + 1;
    header.push_str(&" ".repeat(unpadded.next_multiple_of(64) - unpadded));
    header.push('\n');
    out.write_all(b"\x93NUMPY\x01\x00")?;
    out.write_all(&(header.len() as u16).to_le_bytes())?;
    out.write_all(header.as_bytes())?;
    let mut bytes = Vec::with_capacity(4 * n);
    matrix.each_row(|_, row| {
        bytes.clear();
        bytes.extend(row.iter().flat_map(|v| v.to_le_bytes()));
        out.write_all(&bytes)
    })
}

/// Bits of a value that are counted at a time.
const HALF: u32 = 16;

/// Values counted by the upper half of their bits, and then by the lower half of those that share it with a wanted one:
/// exact ranks without a copy of the values, which may take gigabytes.
struct Ranks {
    upper: Vec<u64>,
    /// Upper half, values below it, and the values that have it by their lower half.
    wanted: Vec<(u32, u64, Vec<u64>)>,
}

impl Ranks {
    fn new() -> Self {
        Self {
            upper: vec![0; 1 << HALF],
            wanted: Vec::new(),
        }
    }

    /// Unsigned numbers in the order of the values.
    fn key(value: f32) -> u32 {
        match value.to_bits() {
            bits if value.is_sign_negative() => !bits,
            bits => bits | 1 << 31,
        }
    }

    fn count(&mut self, value: f32) {
        self.upper[(Self::key(value) >> HALF) as usize] += 1;
    }

    /// The number that holds a rank, from 0, and the values before it.
    fn find(counts: &[u64], rank: u64) -> Option<(u32, u64)> {
        let mut before = 0;
        for (at, &count) in (0..).zip(counts) {
            if rank < before + count {
                return Some((at, before));
            }
            before += count;
        }
        None
    }

    /// Asks for the value of a rank, once all are counted.
    fn want(&mut self, rank: u64) {
        if let Some((upper, before)) = Self::find(&self.upper, rank)
            && self.wanted.iter().all(|w| w.0 != upper)
        {
            self.wanted.push((upper, before, vec![0; 1 << HALF]));
        }
    }

    /// Counts a value again, for the wanted ranks.
    fn refine(&mut self, value: f32) {
        let key = Self::key(value);
        for (upper, _, lower) in &mut self.wanted {
            if key >> HALF == *upper {
                lower[(key & ((1 << HALF) - 1)) as usize] += 1;
            }
        }
    }

    /// The value of a wanted rank.
    fn get(&self, rank: u64) -> Option<f32> {
        let (upper, _) = Self::find(&self.upper, rank)?;
        let (_, before, lower) = self.wanted.iter().find(|w| w.0 == upper)?;
        let (lower, _) = Self::find(lower, rank - before)?;
        let key = upper << HALF | lower;
        Some(f32::from_bits(match key >> 31 {
            1 => key & !(1 << 31),
            _ => !key,
        }))
    }
}

/// Summary of a cost matrix.
#[derive(Serialize)]
pub struct CostsSummary {
    schema: &'static str,
    /// The query.
    #[serde(flatten)]
    pub asked: Asked,
    /// Pairs of routers.
    pub pairs: usize,
    /// Pairs with unread links.
    pub unknown: usize,
    /// Pairs without a route.
    pub unroutable: usize,
    /// Minimum.
    pub min: Option<f32>,
    /// Median.
    pub median: Option<f32>,
    /// 99th percentile.
    pub percentile_99: Option<f32>,
    /// Maximum.
    pub max: Option<f32>,
    /// The most expensive pair.
    pub dearest: Option<(String, String)>,
}

impl CostsSummary {
    /// Of a matrix of costs between routers, which is passed over twice.
    pub fn of(asked: Asked, fabric: &Fabric, matrix: &RouterMatrix<'_, '_>) -> Self {
        let n = matrix.size();
        let (mut count, mut unknown, mut unroutable) = (0u64, 0, 0);
        let (mut min, mut max): (Option<f32>, Option<f32>) = (None, None);
        let mut dearest = None;
        let mut ranks = Ranks::new();
        each_pair(matrix, |pair, value| match value {
            v if v.is_nan() => unknown += 1,
            v if v.is_infinite() => unroutable += 1,
            v => {
                count += 1;
                ranks.count(v);
                min = Some(min.map_or(v, |m| m.min(v)));
                if max.is_none_or(|m| v > m) {
                    max = Some(v);
                    dearest = Some(pair);
                }
            }
        });
        let rank = |share: f64| ((count as f64 * share).ceil() as u64).checked_sub(1);
        let wanted = [0.5, 0.99].map(|share| rank(share).map(|r| r.min(count - 1)));
        wanted.iter().flatten().for_each(|&r| ranks.want(r));
        each_pair(matrix, |_, value| {
            if value.is_finite() {
                ranks.refine(value);
            }
        });
        let name = |r| fabric.router(hopbyte_fabric::RouterId::of(r)).name.clone();
        Self {
            schema: "hopbyte.costs/1",
            asked,
            min,
            median: wanted[0].and_then(|r| ranks.get(r)),
            percentile_99: wanted[1].and_then(|r| ranks.get(r)),
            max,
            dearest: dearest.map(|(from, to)| (name(from), name(to))),
            pairs: n * n.saturating_sub(1),
            unknown,
            unroutable,
        }
    }
}

/// Calls `take` for every pair of different routers.
fn each_pair(matrix: &RouterMatrix<'_, '_>, mut take: impl FnMut((usize, usize), f32)) {
    let all: std::result::Result<(), Infallible> = matrix.each_row(|from, row| {
        for (to, &value) in row.iter().enumerate().filter(|&(to, _)| to != from) {
            take((from, to), value);
        }
        Ok(())
    });
    let Ok(()) = all;
}

#[cfg(test)]
mod tests {
    use super::{Ranks, end_of_route};
    use hopbyte_fabric::random::Random;
    use hopbyte_fabric::units::BytesPerSecond;
    use hopbyte_fabric::{FabricBuilder, Family};

    /// Tables have entries of their own for further LIDs, which are not those of the paths shown.
    #[test]
    fn further_lids_of_a_port_are_no_ends_of_routes() {
        let mut b = FabricBuilder::new(Family::Generic, "scan.txt");
        let (cable, leaf) = (b.kind("cable", false), b.router("leaf", &[]));
        for (name, base) in [("n1", 4), ("n2", 8)] {
            let node = b.node_with_link(name, name, leaf, cable, BytesPerSecond(1e9));
            (base..base + 4).for_each(|lid| b.node_alias(format!("lid:{lid}"), node));
        }
        let fabric = b.finish().unwrap();
        let said = |name: &str| end_of_route(&fabric, name).map_err(|e| e.to_string());
        assert_eq!(said("lid:8").unwrap(), said("n2").unwrap());
        let refusal = said("lid:11").unwrap_err();
        assert!(refusal.contains("its base LID, lid:8"), "{refusal}");
        assert!(said("lid:12").is_err());
    }

    #[test]
    fn ranks_are_those_of_sorted_values() {
        let mut rng = Random::new(3);
        let mut values: Vec<f32> = (0..1_000)
            .map(|_| (rng.unit() * 8.0 - 2.0) as f32)
            .collect();
        values.extend([0.0, 0.0, -1.5, 2.0, f32::MAX, f32::MIN_POSITIVE]);
        let mut sorted = values.clone();
        sorted.sort_by(f32::total_cmp);
        let mut ranks = Ranks::new();
        values.iter().for_each(|&v| ranks.count(v));
        (0..values.len() as u64).for_each(|rank| ranks.want(rank));
        values.iter().for_each(|&v| ranks.refine(v));
        for (rank, &expected) in (0..).zip(&sorted) {
            assert_eq!(ranks.get(rank), Some(expected));
        }
        assert_eq!(ranks.get(values.len() as u64), None);
    }
}
