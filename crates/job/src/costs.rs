//! Route costs as the command and a running oracle report them: one pair, a list, or a matrix summary.

use crate::error::Result;
use hopbyte_fabric::{Fabric, NodeId};
use hopbyte_observe::oracle::Ask;
use hopbyte_observe::text::{Limits, Text, lossy};
use hopbyte_oracle::{Aggregate, CostMatrix, Metric, Over, RouteCost, RouteCosts};
use serde::Serialize;
use std::path::Path;
use std::str::FromStr;

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

impl Asked {
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
            fabric.find_node(name.trim()).map_err(|e| {
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
pub fn npy(matrix: &CostMatrix) -> Vec<u8> {
    let n = matrix.size();
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({n}, {n}), }}");
    let unpadded = 10 + header.len() + 1;
    header.push_str(&" ".repeat(unpadded.next_multiple_of(64) - unpadded));
    header.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(matrix.as_slice().iter().flat_map(|v| v.to_le_bytes()));
    bytes
}

/// The value of a rank, from 0, in ascending order; the values are counted twice rather than copied, since a matrix may
/// take gigabytes.
fn ranked<I: Iterator<Item = f32>>(values: impl Fn() -> I, rank: usize) -> Option<f32> {
    const HALF: u32 = 16;
    // Unsigned numbers in the order of the values.
    let key = |v: f32| match v.to_bits() {
        bits if v.is_sign_negative() => !bits,
        bits => bits | 1 << 31,
    };
    let find = |counts: &[usize], mut rank: usize| {
        for (at, &count) in counts.iter().enumerate() {
            if rank < count {
                return Some((at as u32, rank));
            }
            rank -= count;
        }
        None
    };
    let mut counts = vec![0usize; 1 << HALF];
    values().for_each(|v| counts[(key(v) >> HALF) as usize] += 1);
    let (high, rank) = find(&counts, rank)?;
    counts.fill(0);
    let low = values().map(key).filter(|k| k >> HALF == high);
    low.for_each(|k| counts[(k & ((1 << HALF) - 1)) as usize] += 1);
    let (low, _) = find(&counts, rank)?;
    let found = high << HALF | low;
    Some(f32::from_bits(match found >> 31 {
        1 => found & !(1 << 31),
        _ => !found,
    }))
}

/// Summary of a cost matrix.
#[derive(Serialize)]
pub struct CostsSummary {
    schema: &'static str,
    #[serde(flatten)]
    asked: Asked,
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
    /// Of a matrix of costs between routers.
    pub fn of(asked: Asked, fabric: &Fabric, matrix: &CostMatrix) -> Self {
        let n = matrix.size();
        let off_diagonal = || {
            (0..n).flat_map(move |from| {
                let row = matrix.row(from).iter().enumerate();
                row.filter(move |&(to, _)| to != from)
                    .map(move |(to, &v)| (from, to, v))
            })
        };
        let finite = || off_diagonal().map(|(.., v)| v).filter(|v| v.is_finite());
        let count = finite().count();
        let max = finite().reduce(f32::max);
        let dearest = off_diagonal()
            .find(|&(.., v)| Some(v) == max)
            .map(|(from, to, _)| {
                let name = |r| fabric.router(hopbyte_fabric::RouterId::of(r)).name.clone();
                (name(from), name(to))
            });
        let min = finite().reduce(f32::min);
        let quantile = |share: f64| {
            let at = ((count as f64 * share).ceil() as usize).checked_sub(1)?;
            ranked(finite, at.min(count - 1))
        };
        Self {
            schema: "hopbyte.costs/1",
            asked,
            min,
            median: quantile(0.5),
            percentile_99: quantile(0.99),
            max,
            dearest,
            pairs: n * n.saturating_sub(1),
            unknown: off_diagonal().filter(|(.., v)| v.is_nan()).count(),
            unroutable: off_diagonal().filter(|(.., v)| v.is_infinite()).count(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ranked;
    use hopbyte_fabric::random::Random;

    #[test]
    fn ranks_are_those_of_sorted_values() {
        let mut rng = Random::new(3);
        let mut values: Vec<f32> = (0..1_000)
            .map(|_| (rng.unit() * 8.0 - 2.0) as f32)
            .collect();
        values.extend([0.0, 0.0, -1.5, 2.0, f32::MAX, f32::MIN_POSITIVE]);
        let mut sorted = values.clone();
        sorted.sort_by(f32::total_cmp);
        for (rank, &expected) in sorted.iter().enumerate() {
            assert_eq!(ranked(|| values.iter().copied(), rank), Some(expected));
        }
        assert_eq!(ranked(|| values.iter().copied(), values.len()), None);
    }
}
