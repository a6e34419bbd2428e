//! The lines of `hopbyte-probe --json` as measurements between nodes.

use super::date;
use crate::error::Result;
use hopbyte_fabric::{Fabric, InputError, NodeId};
use serde::Deserialize;

/// The schema of the lines.
pub(crate) const PROBE: &str = "hopbyte-probe-1";

/// A line of a probe; the first of each run names the nodes.
#[derive(Deserialize)]
struct Line {
    schema: String,
    /// When the following were measured (Unix time).
    time_seconds: Option<u64>,
    run: Option<Run>,
    probe: Option<String>,
    bytes: Option<f64>,
    /// Number of pairs (i, i + half of the ranks) at once; or the other rank of the only pair, with rank 0.
    pairs: Option<usize>,
    partner: Option<usize>,
    median_seconds: Option<f64>,
    least_seconds: Option<f64>,
    most_seconds: Option<f64>,
    bytes_per_second: Option<f64>,
    messages_per_second: Option<f64>,
    wrong_bytes: Option<f64>,
    at_least: Option<u8>,
    waited_seconds: Option<f64>,
    waited_after_seconds: Option<f64>,
}

#[derive(Deserialize)]
struct Run {
    nodes: Vec<String>,
}

/// Nodes of a pair of ranks: sender, receiver.
pub(super) type Pair = (NodeId, NodeId);

/// Whether a message of the pair leaves its node.
pub(super) fn is_apart(pair: Pair) -> bool {
    pair.0 != pair.1
}

/// Median, least and most seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Seconds {
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

/// What was measured.
#[derive(Clone, Debug, Default)]
pub(super) struct Measurements {
    /// Day of the last.
    pub(super) day: String,
    /// Half a round trip of messages of some bytes.
    pub(super) latencies: Vec<(Pair, f64, Seconds)>,
    /// Small messages per second of all pairs together.
    pub(super) rates: Vec<(Vec<Pair>, f64)>,
    /// Messages of some bytes: bytes per second of all pairs together.
    pub(super) bandwidths: Vec<(Vec<Pair>, f64, f64)>,
    /// Allreduce by one rank on each of more than two nodes.
    pub(super) together: Option<(Vec<NodeId>, Seconds)>,
    /// The largest message that is sent without its receiver; infinite if none waits.
    pub(super) eager: Option<(Pair, f64)>,
    /// Share of the wait for a larger message that is left after both ranks were outside MPI for longer than it takes.
    pub(super) left: Option<(Pair, f64)>,
}

impl Measurements {
    /// Reads the lines of a file written on a day.
    ///
    /// # Errors
    /// A line of another kind; nodes that the machine does not have; wrong bytes.
    pub(super) fn read(file: &str, text: &str, fabric: &Fabric, day: &str) -> Result<Self> {
        let mut found = Self {
            day: day.to_owned(),
            ..Self::default()
        };
        let mut nodes: Vec<NodeId> = Vec::new();
        let lines = (1u64..).zip(text.lines());
        for (number, line) in lines.filter(|l| !l.1.trim().is_empty()) {
            let wrong = |expected: &str| {
                let start: String = line.chars().take(80).collect();
                InputError::new(file, start, expected).at(number)
            };
            let read: Option<Line> = serde_json::from_str(line).ok();
            let line = read
                .filter(|l| l.schema == PROBE)
                .ok_or_else(|| wrong("a line of `hopbyte-probe --json`"))?;
            if let Some(seconds) = line.time_seconds {
                found.day = date(seconds / 86_400);
                continue;
            }
            if let Some(run) = line.run {
                let node =
                    |name: &String| fabric.find_node(name).map_err(|e| wrong(&e.to_string()));
                nodes = run.nodes.iter().map(node).collect::<Result<_, _>>()?;
                if nodes.len() < 2 {
                    return Err(wrong("a run of two ranks or more").into());
                }
                continue;
            }
            if nodes.is_empty() {
                return Err(wrong("a line with the nodes of the run before its results").into());
            }
            if line.wrong_bytes.is_some_and(|w| w > 0.0) {
                return Err(wrong("results without wrong bytes").into());
            }
            let pairs =
                pairs(&nodes, &line).ok_or_else(|| wrong("pairs among the ranks of the run"))?;
            found.add(&line, pairs, &nodes);
        }
        Ok(found)
    }

    fn add(&mut self, line: &Line, pairs: Vec<Pair>, nodes: &[NodeId]) {
        let bytes = line.bytes.unwrap_or(0.0);
        let seconds = line.median_seconds.map(|median| Seconds {
            median,
            least: line.least_seconds.unwrap_or(median),
            most: line.most_seconds.unwrap_or(median),
        });
        match (line.probe.as_deref(), seconds) {
            (Some("latency"), Some(seconds)) => self.latencies.push((pairs[0], bytes, seconds)),
            (Some("allreduce"), Some(seconds)) if are_apart(nodes) => {
                let smaller = |t: &(Vec<NodeId>, _)| t.0.len() < nodes.len();
                if self.together.as_ref().is_none_or(smaller) {
                    self.together = Some((nodes.to_vec(), seconds));
                }
            }
            (Some("bandwidth"), _) => {
                let rate = line.bytes_per_second;
                self.bandwidths.extend(rate.map(|r| (pairs, bytes, r)));
            }
            (Some("rate"), _) => {
                let rate = line.messages_per_second;
                self.rates.extend(rate.map(|r| (pairs, r)));
            }
            (Some("eager"), _) => {
                let limit = match line.at_least {
                    Some(1) => f64::INFINITY,
                    _ => bytes,
                };
                if is_apart(pairs[0]) || self.eager.is_none_or(|e| !is_apart(e.0)) {
                    self.eager = Some((pairs[0], limit));
                }
            }
            (Some("progress"), _) => {
                let both = line.waited_after_seconds.zip(line.waited_seconds);
                if let Some((after, at_once)) = both.filter(|b| b.1 > 0.0)
                    && (is_apart(pairs[0]) || self.left.is_none_or(|e| !is_apart(e.0)))
                {
                    self.left = Some((pairs[0], after / at_once));
                }
            }
            _ => {}
        }
    }
}

/// The pairs of a line, at least one; `None` if the run has fewer ranks.
fn pairs(nodes: &[NodeId], line: &Line) -> Option<Vec<Pair>> {
    let half = nodes.len() / 2;
    if let Some(partner) = line.partner {
        return Some(vec![(nodes[0], *nodes.get(partner)?)]);
    }
    let pair = |i: usize| (i < half).then(|| (nodes[i], nodes[i + half]));
    (0..line.pairs.unwrap_or(1).max(1)).map(pair).collect()
}

/// Whether more than two ranks are each on a node of their own.
fn are_apart(nodes: &[NodeId]) -> bool {
    let mut sorted = nodes.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    sorted.len() == nodes.len() && nodes.len() > 2
}
