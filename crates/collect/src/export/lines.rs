//! Influx line protocol with the tags of ClusterCockpit: rates of every port, one line per value.
//!
//! `net_bytes_in_bw,cluster=c,hostname=n1,type=node,stype=network,stype-id=eth0 value=125000 1700000000`

use crate::block::{Closing, Cluster};
use crate::flows::Flows;
use crate::store::logs;
use crate::stream::Stream;
use hopbyte_fabric::Quantity;
use std::fmt::Write;
use std::io;
use std::path::Path;

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

    /// Handles the end of a store, of which it gives no lines: the first reports after a restart have their bases there.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn go_on(&mut self, folder: &Path) -> io::Result<()> {
        if logs(folder)?.is_empty() {
            return Ok(());
        }
        let mut stream = Stream::newest(folder)?;
        while let Some(closing) = stream.next(|cluster, id, _| self.report(cluster, id))? {
            self.close(stream.cluster(), &closing);
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{Arrival, Writer};
    use crate::node::NodeState;
    use crate::shape;
    use crate::store::{Keeping, Store};
    use crate::wire::{Header, Origin, Sampled, put_report};
    use hopbyte_observe::counters::reading::{Layout, Port};
    use hopbyte_observe::counters::values::Values;

    const SECOND: u64 = 1_000_000_000;

    fn body(tick: u64, bytes: u64) -> Vec<u8> {
        let header = Header {
            tick,
            time_ns: tick * SECOND,
            steady_ns: tick * SECOND,
            ..Header::default()
        };
        let mut values = Values::new(1);
        values.set(0, Some(bytes));
        let mut body = Vec::new();
        put_report(&header, [Sampled::new(&values, None)], &mut body);
        body
    }

    #[test]
    fn the_first_report_after_a_restart_has_its_base_in_the_store() {
        let mut layout = Layout::new("", "test");
        layout.counter(&Port::Host, "bytes", Quantity::ReceivedBytes, 1.0);
        let shape = shape::of(&layout).unwrap();
        let closing = Closing {
            tick: 1,
            period_ns: SECOND,
            closed_ns: SECOND,
            ..Closing::default()
        };
        let folder = tempfile::tempdir().unwrap();
        let mut lines = Lines::new("c", 0);
        lines.go_on(folder.path()).unwrap();
        let mut store = Store::open(folder.path(), Keeping::default()).unwrap();
        let mut writer = Writer::default();
        writer.shape(0, &shape);
        writer.node(0, &NodeState::new("n1", 1, 1));
        writer.source(0, &Origin::default(), 0);
        writer.report(0, Arrival::OnTime, &body(1, 100));
        store.append(&closing, writer.close(&closing)).unwrap();
        lines.go_on(folder.path()).unwrap();

        let mut cluster = Cluster::default();
        let shape = cluster.shapes.intern(&shape).unwrap();
        let mut node = NodeState::new("n1", 1, 1);
        node.declare(Origin::default(), shape, &cluster.shapes)
            .unwrap();
        node.apply(&body(3, 350), &cluster.shapes).unwrap();
        cluster.nodes.push(Some(node));
        lines.report(&cluster, 0);
        let text = lines.close(&cluster, &closing);
        assert!(text.ends_with("value=125 3\n"), "{text}");
    }
}
