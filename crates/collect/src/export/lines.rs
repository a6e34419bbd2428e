//! Influx line protocol with the tags of ClusterCockpit: rates of every port, one line per value.
//!
//! `net_bytes_in_bw,cluster=c,hostname=n1,type=node,stype=network,stype-id=eth0 value=125000 1700000000`

use crate::block::{Closing, Cluster};
use crate::flows::Flows;
use hopbyte_fabric::Quantity;
use std::fmt::Write;

/// ClusterCockpit's names where defined, else hopbyte's.
const NAMES: [(Quantity, &str, f64); 8] = [
    (Quantity::ReceivedBytes, "net_bytes_in_bw", 1.0),
    (Quantity::SentBytes, "net_bytes_out_bw", 1.0),
    (Quantity::ReceivedPackets, "net_pkts_in_bw", 1.0),
    (Quantity::SentPackets, "net_pkts_out_bw", 1.0),
    (Quantity::InputStallNs, "net_input_stall", 1e-9),
    (Quantity::CreditStallNs, "net_credit_stall", 1e-9),
    (Quantity::CreditStallCount, "net_credit_stalls", 1.0),
    (Quantity::Errors, "net_errors", 1.0),
];

/// The rates of every report since the last closing, each at the time of its own tick: a report that comes late is of an
/// earlier one. Missing values have no line. Times are in seconds.
pub struct Lines {
    cluster: String,
    from_ns: u64,
    flows: Flows,
    /// Ticks of reports and the lines of each, without a time.
    reports: Vec<(u64, String)>,
}

impl Lines {
    /// Lines with the name of the cluster, of readings from a time on (nanoseconds since 1970).
    pub fn new(cluster: &str, from_ns: u64) -> Self {
        Self {
            cluster: cluster.to_owned(),
            from_ns,
            flows: Flows::default(),
            reports: Vec::new(),
        }
    }

    /// Handles the latest report of a node.
    pub fn report(&mut self, cluster: &Cluster, id: u32) {
        self.flows.report(cluster, id);
        let node = cluster.node(id);
        let Some(node) = node.filter(|n| n.header.time_ns >= self.from_ns) else {
            return;
        };
        let place = format!("cluster={},hostname={}", self.cluster, escaped(&node.name));
        let mut out = String::new();
        for source in self.flows.of(cluster, id).filter(|source| source.is_latest) {
            for flow in &source.flows {
                let known = NAMES.iter().find(|n| n.0 == flow.quantity);
                let (Some((_, metric, factor)), Ok(rate)) = (known, flow.rate) else {
                    continue;
                };
                let port = escaped(&source.layout.ports[usize::from(flow.port)].to_string());
                let tags = format!("{place},type=node,stype=network,stype-id={port}");
                let _ = writeln!(out, "{metric},{tags} value={}", rate * factor);
            }
        }
        self.reports.push((node.header.tick, out));
    }

    /// The lines since the last closing.
    pub fn close(&mut self, cluster: &Cluster, closing: &Closing) -> String {
        self.flows.close(cluster, closing);
        let mut out = String::new();
        for (tick, lines) in self.reports.drain(..) {
            let ns = u128::from(tick) * u128::from(closing.period_ns);
            for line in lines.lines() {
                let _ = writeln!(out, "{line} {}", ns / 1_000_000_000);
            }
        }
        out
    }
}

/// A tag value with the protocol's escapes.
fn escaped(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    for c in word.chars() {
        if matches!(c, ',' | '=' | ' ' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
