//! Bus bandwidths of a job's own collectives: predicted from its placement, and measured by NCCL's Inspector.

use crate::error::Result;
use hopbyte_apply::same_host;
use hopbyte_fabric::collective::{Algorithm, Cost, Operation, Sizes};
use hopbyte_fabric::units::BytesPerSecond;
use hopbyte_fabric::{Fabric, InputError, NodeId, Placement, Routing};
use hopbyte_observe::{Measured, measurement};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write;

/// The answer.
#[derive(Serialize)]
pub struct BusReport {
    schema: &'static str,
    /// Whether the median difference is within the tolerance, and all ranks were on the mapping's hosts.
    pub as_predicted: bool,
    /// The tolerance.
    pub tolerance_percent: f64,
    /// Median over the rows of the differences, of the measured value.
    pub median_apart_percent: f64,
    /// Ranks with logs from another host than the mapping's.
    pub elsewhere: usize,
    /// Calls that could not be compared.
    pub left_out: usize,
    /// By collective, algorithm, size and ranks.
    pub collectives: Vec<Row>,
}

/// Calls of one kind, of all communicators that make them at once.
#[derive(Serialize)]
pub struct Row {
    /// The operation.
    pub collective: &'static str,
    /// Its algorithm.
    pub algorithm: &'static str,
    /// Whether the logs do not name the algorithm, or one that is not known here.
    pub assumed: bool,
    /// Ranks of a communicator.
    pub ranks: usize,
    /// Communicators.
    pub communicators: usize,
    /// Size of the call: the vector, or the block of a rank.
    pub bytes: u64,
    /// Measurements of all ranks.
    pub calls: usize,
    /// Predicted bus bandwidth, bytes per second.
    pub predicted_bytes_per_s: f64,
    /// Median of the measured ones.
    pub seen_bytes_per_s: f64,
    /// Their difference, of the measured value.
    pub apart_percent: f64,
}

/// The algorithm of the logs, or a ring; and whether it is assumed. `inner`: the ranks that are on one host.
fn algorithm(measured: &Measured, inner: u32) -> (Algorithm, bool) {
    let known = match measured.algorithm.as_deref() {
        Some("RING") => Some(Algorithm::Ring),
        Some("TREE") => Some(Algorithm::Tree),
        Some("NVLS" | "NVLS_TREE") => Some(Algorithm::NvlsTree(inner)),
        _ => None,
    };
    let fits = |a: &Algorithm| measured.collective.algorithms().contains(&a.of_hosts(0));
    match known.filter(fits) {
        Some(algorithm) => (algorithm, false),
        None if fits(&Algorithm::Ring) => (Algorithm::Ring, true),
        None => (measured.collective.algorithms()[0], true),
    }
}

/// Compares the logs of a job with the prediction for its placement.
///
/// # Errors
/// Files that are no logs of NCCL's Inspector, of more ranks than the mapping's, or without a measured collective.
pub fn compare(
    (fabric, routing): (&Fabric, &Routing),
    placement: &Placement,
    logs: &str,
    tolerance: f64,
) -> Result<BusReport> {
    let found = measurement(logs)?;
    let wrong = |what: String, expected: String| InputError::new(logs, what, expected);
    if found.hosts.len() > placement.tasks() {
        let what = format!("a communicator of {} ranks", found.hosts.len());
        return Err(wrong(
            what,
            format!("at most {} as in the mapping", placement.tasks()),
        )
        .into());
    }
    let host = |rank: usize| fabric.node(placement.slots()[rank].node).host.as_str();
    let is_elsewhere = |(rank, seen): &(usize, &Option<String>)| {
        seen.as_ref().is_some_and(|s| !same_host(s, host(*rank)))
    };
    let elsewhere = found.hosts.iter().enumerate().filter(is_elsewhere).count();
    let mut left_out = found.left_out;
    let mut collectives = Vec::new();
    for measured in &found.collectives {
        let place = |&rank: &u32| placement.slots()[rank as usize].node;
        let groups: Vec<Vec<NodeId>> = measured
            .groups
            .iter()
            .map(|g| g.iter().map(place).collect())
            .collect();
        let ranks = groups[0].len() as u32;
        // Ranks of the first host, if all have as many.
        let first = &groups[0];
        let hosts: BTreeSet<&str> = first
            .iter()
            .map(|&n| fabric.node(n).host.as_str())
            .collect();
        let inner = (ranks as usize / hosts.len().max(1)) as u32;
        let (algorithm, assumed) = algorithm(measured, inner);
        let operation = |ranks| Operation {
            collective: measured.collective,
            algorithm,
            ranks,
            root: 0,
            sizes: Sizes::Same(measured.bytes as f64),
            hosts: &[],
        };
        let cost = Cost::of(fabric, routing, &groups, operation);
        let bus = measured.collective.bus_bytes(ranks, measured.bytes as f64);
        let (Ok(cost), Some(bus)) = (cost, bus) else {
            left_out += measured.calls;
            continue;
        };
        let predicted = bus / cost.seconds();
        if !(predicted.is_finite() && predicted > 0.0) {
            left_out += measured.calls;
            continue;
        }
        let seen = measured.bus_bytes_per_s;
        collectives.push(Row {
            collective: measured.collective.name(),
            algorithm: algorithm.name(),
            assumed,
            ranks: ranks as usize,
            communicators: groups.len(),
            bytes: measured.bytes,
            calls: measured.calls,
            predicted_bytes_per_s: predicted,
            seen_bytes_per_s: seen,
            apart_percent: (predicted / seen - 1.0) * 100.0,
        });
    }
    if collectives.is_empty() {
        let what = format!("{left_out} calls without a comparable bus bandwidth");
        return Err(wrong(what, "collectives with coll_busbw_gbs".into()).into());
    }
    let mut apart: Vec<f64> = collectives.iter().map(|r| r.apart_percent.abs()).collect();
    apart.sort_unstable_by(f64::total_cmp);
    let median = apart[(apart.len() - 1) / 2].midpoint(apart[apart.len() / 2]);
    Ok(BusReport {
        schema: "hopbyte.verify.collectives/1",
        as_predicted: median <= tolerance && elsewhere == 0,
        tolerance_percent: tolerance,
        median_apart_percent: median,
        elsewhere,
        left_out,
        collectives,
    })
}

impl BusReport {
    /// The report for people.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{:<16} {:<12} {:>6} {:>6} {:>13} {:>8} {:>14} {:>9} {:>7}\n",
            "collective",
            "algorithm",
            "ranks",
            "comms",
            "B",
            "calls",
            "predicted GB/s",
            "seen GB/s",
            "%"
        );
        for r in &self.collectives {
            // Writing to a String cannot fail, here and below.
            let _ = writeln!(
                text,
                "{:<16} {:<12} {:>6} {:>6} {:>13} {:>8} {:>14} {:>9} {:>+7.1}",
                r.collective,
                format!("{}{}", r.algorithm, if r.assumed { "?" } else { "" }),
                r.ranks,
                r.communicators,
                r.bytes,
                r.calls,
                BytesPerSecond(r.predicted_bytes_per_s).gb_text(3),
                BytesPerSecond(r.seen_bytes_per_s).gb_text(3),
                r.apart_percent
            );
        }
        let _ = writeln!(
            text,
            "bus bandwidths differ by {:.1} % in the median; tolerance {} %",
            self.median_apart_percent, self.tolerance_percent
        );
        if self.collectives.iter().any(|r| r.assumed) {
            text.push_str("?: the logs do not name this algorithm\n");
        }
        if self.elsewhere > 0 {
            let _ = writeln!(
                text,
                "{} ranks ran on other hosts than the mapping's",
                self.elsewhere
            );
        }
        if self.left_out > 0 {
            let _ = writeln!(text, "{} measurements could not be compared", self.left_out);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopbyte_fabric::{Allocation, spec};
    use std::fs;

    /// Two hosts of four GPUs: an allreduce over all of 8 GB by a ring has 50 GB/s on the bus, less the latencies.
    #[test]
    fn seen_and_predicted_bus_bandwidths_are_compared() {
        let folder = tempfile::tempdir().unwrap();
        let spec = "fattree:down=4x4,up=1x4,rails=4,link=50,hosts=gh200-quad";
        let log = |seen: f64, host: &str| {
            let lines: Vec<String> = (0..8)
                .map(|rank| {
                    let host = if rank < 4 { "h0" } else { host };
                    format!(
                        r#"{{"header": {{"id": "0x1", "comm_name": "world", "rank": {rank}, "n_ranks": 8, "nnodes": 2}}, "metadata": {{"inspector_output_format_version": "v4.0", "hostname": "{host}", "pid": {rank}}}, "coll_perf": {{"coll": "AllReduce", "coll_algo": "RING", "coll_sn": 1, "coll_msg_size_bytes": 8000000000, "coll_exec_time_us": 1, "coll_busbw_gbs": {seen}}}}}"#
                    )
                })
                .collect();
            let path = folder.path().join("inspector.log");
            fs::write(&path, lines.join("\n")).unwrap();
            path.display().to_string()
        };
        let machine = spec::machine(spec).unwrap();
        let places = machine.fabric.places().into_iter().take(8);
        let allocation =
            Allocation::new(&machine.fabric, places.map(|n| (n, 1)).collect()).unwrap();
        let placement = Placement::in_order(&allocation, 8).unwrap();
        let of = (&machine.fabric, &machine.routing);
        let report = |seen, host: &str| compare(of, &placement, &log(seen, host), 15.0).unwrap();
        let found = report(48.0, "h1");
        assert!(found.as_predicted, "{}", found.text());
        assert!((found.collectives[0].predicted_bytes_per_s / 50e9 - 1.0).abs() < 1e-3);
        assert!(!report(30.0, "h1").as_predicted);
        let moved = report(48.0, "h2.example.org");
        assert_eq!((moved.elsewhere, moved.as_predicted), (4, false));
        assert!(compare(of, &placement, spec, 15.0).is_err());
    }
}
