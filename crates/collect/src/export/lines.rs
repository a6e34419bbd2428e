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

/// The rates of the last tick, one line each, with the cluster's `name`. Missing values have no line. Times
/// are in seconds.
pub fn text(name: &str, cluster: &Cluster, flows: &Flows, closing: &Closing) -> String {
    let mut out = String::new();
    let seconds = closing.tick as u128 * u128::from(closing.period_ns) / 1_000_000_000;
    for (id, source) in flows.iter() {
        let layout = &source.layout;
        let node = escaped(&cluster.name(id));
        for flow in &source.flows {
            let known = NAMES.iter().find(|n| n.0 == flow.quantity);
            let (Some((_, metric, factor)), Ok(rate)) = (known, flow.rate) else {
                continue;
            };
            let port = escaped(&layout.ports[usize::from(flow.port)].to_string());
            let place = format!("cluster={name},hostname={node}");
            let tags = format!("{place},type=node,stype=network,stype-id={port}");
            let _ = writeln!(out, "{metric},{tags} value={} {seconds}", rate * factor);
        }
    }
    out
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
