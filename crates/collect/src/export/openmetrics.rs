//! The cluster as OpenMetrics text (version 1.0): totals in base units; a reset changes `_created`.

use crate::block::{Closing, Cluster};
use crate::flows::{Flow, Flows};
use crate::wire::Cost;
use hopbyte_fabric::{Quantity, Side};
use hopbyte_observe::counters::reading::Layout;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// A metric family of ports or nodes: name, help, and the factor to its unit.
struct Family {
    quantity: Quantity,
    /// Direction, for lanes and capacities.
    side: Option<Side>,
    name: &'static str,
    help: &'static str,
    factor: f64,
}

const FAMILIES: [Family; 15] = [
    family(
        Quantity::ReceivedBytes,
        "received_bytes",
        "Bytes that arrived at the port",
        1.0,
    ),
    family(
        Quantity::SentBytes,
        "sent_bytes",
        "Bytes that left through the port",
        1.0,
    ),
    family(
        Quantity::ReceivedPackets,
        "received_packets",
        "Packets that arrived",
        1.0,
    ),
    family(
        Quantity::SentPackets,
        "sent_packets",
        "Packets that left",
        1.0,
    ),
    family(
        Quantity::InputStallNs,
        "input_stall_seconds",
        "Time that arrived packets waited in the input queue",
        1e-9,
    ),
    family(
        Quantity::CreditStallNs,
        "credit_stall_seconds",
        "Time that packets waited to leave for lack of credits",
        1e-9,
    ),
    family(
        Quantity::CreditStallCount,
        "credit_stalls",
        "Times that departures were held back",
        1.0,
    ),
    family(
        Quantity::Errors,
        "errors",
        "Transmission errors and drops",
        1.0,
    ),
    family(
        Quantity::Downs,
        "downs",
        "Times that the port's link went down",
        1.0,
    ),
    family(
        Quantity::Lanes,
        "lanes",
        "Lanes in service for arrivals",
        1.0,
    ),
    outwards(
        Quantity::Lanes,
        "sent_lanes",
        "Lanes in service for departures",
    ),
    family(
        Quantity::Capacity,
        "capacity_bytes_per_second",
        "Capacity for arrivals, as the device negotiated it",
        1.0,
    ),
    outwards(
        Quantity::Capacity,
        "sent_capacity_bytes_per_second",
        "Capacity for departures: negotiated, or the limit of a shaper",
    ),
    family(
        Quantity::QueuedBytes,
        "queued_bytes",
        "Bytes queued for departure",
        1.0,
    ),
    family(
        Quantity::ProcessorWaitNs,
        "processor_wait_seconds",
        "Time that the most delayed thread was ready to run and had no processor",
        1e-9,
    ),
];

impl Family {
    fn full_name(&self) -> String {
        let of = if self.quantity.is_of_node() {
            "node"
        } else {
            "port"
        };
        format!("hopbyte_{of}_{}", self.name)
    }
}

const fn family(quantity: Quantity, name: &'static str, help: &'static str, factor: f64) -> Family {
    Family {
        quantity,
        side: match quantity {
            Quantity::Lanes | Quantity::Capacity => Some(Side::Arrivals),
            _ => None,
        },
        name,
        help,
        factor,
    }
}

/// The counterpart for departures of a family for arrivals.
const fn outwards(quantity: Quantity, name: &'static str, help: &'static str) -> Family {
    Family {
        side: Some(Side::Departures),
        ..family(quantity, name, help, 1.0)
    }
}

/// A metric of an agent: name, whether it is a gauge, help, value.
type AgentMetric = (&'static str, bool, &'static str, fn(&Cost) -> f64);

/// The content type of the text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The end of a complete text.
pub const END: &str = "# EOF\n";

/// A metric of the collector's own process.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    name: &'static str,
    is_gauge: bool,
    help: &'static str,
    value: f64,
}

impl Own {
    /// A counter since the start of the process.
    pub fn counter(name: &'static str, help: &'static str, value: &AtomicU64) -> Self {
        Self {
            name,
            is_gauge: false,
            help,
            value: value.load(Ordering::Relaxed) as f64,
        }
    }

    /// A current value.
    pub fn gauge(name: &'static str, help: &'static str, value: f64) -> Self {
        Self {
            name,
            is_gauge: true,
            help,
            value,
        }
    }
}

/// Appends metrics `hopbyte_collector_…`.
pub fn own(metrics: impl IntoIterator<Item = Own>, out: &mut String) {
    for metric in metrics {
        let name = format!("hopbyte_collector_{}", metric.name);
        head(out, &name, metric.is_gauge, metric.help);
        let suffix = if metric.is_gauge { "" } else { "_total" };
        let _ = writeln!(out, "{name}{suffix} {}", metric.value);
    }
}

/// The text after a tick closed, without [`END`].
pub fn text(cluster: &Cluster, flows: &Flows, closing: &Closing) -> String {
    let mut out = String::new();
    for family in &FAMILIES {
        ports(family, cluster, flows, &mut out);
    }
    for kind in &FULL {
        full(kind, cluster, flows, &mut out);
    }
    nodes(cluster, closing, &mut out);
    ticks(closing, &mut out);
    out
}

fn ports(family: &Family, cluster: &Cluster, flows: &Flows, out: &mut String) {
    let gauge = family.quantity.is_gauge();
    let mut begun = false;
    for (id, source) in flows.iter(cluster) {
        let layout = &source.layout;
        let node = cluster.name(id);
        for flow in source
            .flows
            .iter()
            .filter(|f| f.quantity == family.quantity)
            .filter(|f| family.side.is_none_or(|side| f.side == side))
        {
            if gauge && flow.rate.is_err() {
                continue;
            }
            if !std::mem::replace(&mut begun, true) {
                head(out, &family.full_name(), gauge, family.help);
            }
            let labels = match family.quantity.is_of_node() {
                true => format!("node=\"{node}\""),
                false => of_port(layout, &node, flow),
            };
            sample(family, flow, gauge, &labels, out);
        }
    }
}

fn of_port(layout: &Layout, node: &str, flow: &Flow) -> String {
    let port = &layout.ports[usize::from(flow.port)];
    let source = &layout.source;
    format!("node=\"{node}\",source=\"{source}\",port=\"{port}\"")
}

/// Counters that may be at their highest value: name of the metric, help, and whether a quantity is one of theirs.
type Full = (&'static str, &'static str, fn(Quantity) -> bool);

const FULL: [Full; 2] = [
    (
        "hopbyte_port_full_error_counters",
        "Counters of errors at their highest value, where there are some: the port has at least the errors counted",
        |q| q == Quantity::Errors,
    ),
    (
        "hopbyte_port_full_wait_counters",
        "Counters of waiting at their highest value, where there are some: how long the port waits is not known",
        |q| {
            use Quantity::{CreditStallBytes, CreditStallCount, CreditStallNs, InputStallNs};
            matches!(
                q,
                CreditStallBytes | CreditStallCount | CreditStallNs | InputStallNs
            )
        },
    ),
];

/// Ports with counters at their highest value.
fn full(&(name, help, counts): &Full, cluster: &Cluster, flows: &Flows, out: &mut String) {
    let mut begun = false;
    for (id, source) in flows.iter(cluster) {
        let flows = source.flows.iter();
        for flow in flows.filter(|f| f.full > 0 && counts(f.quantity)) {
            if !std::mem::replace(&mut begun, true) {
                head(out, name, true, help);
            }
            let labels = of_port(&source.layout, &cluster.name(id), flow);
            let _ = writeln!(out, "{name}{{{labels}}} {}", flow.full);
        }
    }
}

fn sample(family: &Family, flow: &Flow, gauge: bool, labels: &str, out: &mut String) {
    let name = family.full_name();
    let suffix = if gauge { "" } else { "_total" };
    let Some(total) = flow.total else { return };
    let value = total * family.factor;
    let _ = writeln!(out, "{name}{suffix}{{{labels}}} {value}");
    if let Some(since) = flow.since_ns.filter(|_| !gauge) {
        let since = since as f64 / 1e9;
        let _ = writeln!(out, "{name}_created{{{labels}}} {since:.3}");
    }
}

/// Appends the head of a family; `help` is a sentence without its full stop.
pub fn head(out: &mut String, name: &str, gauge: bool, help: &str) {
    let kind = if gauge { "gauge" } else { "counter" };
    let _ = writeln!(out, "# TYPE {name} {kind}\n# HELP {name} {help}.");
}

fn nodes(cluster: &Cluster, closing: &Closing, out: &mut String) {
    let all = || {
        (0u32..)
            .zip(&cluster.nodes)
            .filter_map(|(id, n)| n.as_ref().map(|n| (id, n)))
    };
    let mut missing: Vec<u32> = closing.missing.iter().map(|m| m.0).collect();
    missing.sort_unstable();
    head(
        out,
        "hopbyte_node_reported",
        true,
        "Whether the node is in the last tick",
    );
    for (id, node) in all() {
        let here = u8::from(missing.binary_search(&id).is_err());
        let _ = writeln!(
            out,
            "hopbyte_node_reported{{node=\"{}\"}} {here}",
            node.name
        );
    }
    let costs: [AgentMetric; 5] = [
        ("cpu_seconds", false, "Processor time of the agent", |c| {
            c.cpu_us as f64 / 1e6
        }),
        ("resident_bytes", true, "Memory of the agent", |c| {
            c.resident_bytes as f64
        }),
        ("missed_ticks", false, "Ticks without a reading", |c| {
            c.missed_ticks as f64
        }),
        ("failed_reads", false, "Failed readings of sources", |c| {
            c.failed_reads as f64
        }),
        ("dropped_reports", false, "Discarded reports", |c| {
            c.dropped_reports as f64
        }),
    ];
    for (name, gauge, help, value) in costs {
        head(out, &format!("hopbyte_agent_{name}"), gauge, help);
        let suffix = if gauge { "" } else { "_total" };
        for (_, node) in all().filter(|(_, n)| n.header.sequence > 0) {
            let value = value(&node.header.cost);
            let _ = writeln!(
                out,
                "hopbyte_agent_{name}{suffix}{{node=\"{}\"}} {value}",
                node.name
            );
        }
    }
}

fn ticks(closing: &Closing, out: &mut String) {
    let time = closing.tick as f64 * closing.period_ns as f64 / 1e9;
    let after = closing.closed_ns as f64 / 1e9 - time;
    let numbers = [
        ("time_seconds", "Time of the last tick", time),
        (
            "expected_nodes",
            "Nodes expected in the tick",
            closing.expected as f64,
        ),
        (
            "reported_nodes",
            "Nodes reported in the tick",
            closing.reported as f64,
        ),
        (
            "late_reports",
            "Reports of earlier ticks received since the previous tick",
            closing.late.len() as f64,
        ),
        (
            "reset_nodes",
            "Nodes that rebooted or whose counters were reset",
            closing.reset.len() as f64,
        ),
        (
            "frozen_nodes",
            "Connected nodes without reports, and nodes whose device clock stopped",
            closing.frozen.len() as f64,
        ),
        (
            "ahead_nodes",
            "Nodes whose clock is more than a tick ahead",
            closing.ahead.len() as f64,
        ),
        (
            "failed_nodes",
            "Nodes with a source that could not be read",
            closing.failed.len() as f64,
        ),
        (
            "closed_after_seconds",
            "From the start of the tick to its closing",
            after,
        ),
    ];
    let spread = closing.spread_ns.map(|ns| ns as f64 / 1e9);
    let spread = spread.map(|s| ("spread_seconds", "From the first reading to the last", s));
    for (name, help, value) in numbers.into_iter().chain(spread) {
        head(out, &format!("hopbyte_tick_{name}"), true, help);
        let _ = writeln!(out, "hopbyte_tick_{name} {value}");
    }
}

/// The metrics of a store, before those of a tick.
pub fn store(counts: &crate::store::Counts) -> String {
    let mut out = String::new();
    let failing = "Whether the last tick could not be stored";
    head(&mut out, "hopbyte_store_failing", true, failing);
    let _ = writeln!(out, "hopbyte_store_failing {}", u8::from(counts.failing));
    let counters = [
        ("ticks", "Ticks stored", counts.ticks),
        (
            "unkept_ticks",
            "Ticks that could not be stored",
            counts.unkept_ticks,
        ),
        (
            "rebuilt_blocks",
            "Damaged blocks rebuilt from their parity",
            counts.rebuilt_blocks,
        ),
        ("lost_blocks", "Damaged blocks lost", counts.lost_blocks),
        (
            "damaged_logs",
            "Damaged logs, repaired or not",
            counts.damaged_logs,
        ),
        (
            "deleted_segments",
            "Segments deleted by their age",
            counts.deleted_segments,
        ),
        (
            "deleted_bytes",
            "Bytes of deleted segments",
            counts.deleted_bytes,
        ),
        (
            "unsealed_logs",
            "Logs that could not be written as Parquet",
            counts.unsealed_logs,
        ),
    ];
    for (name, help, value) in counters {
        let name = format!("hopbyte_store_{name}");
        head(&mut out, &name, false, help);
        let _ = writeln!(out, "{name}_total {value}");
    }
    out
}
