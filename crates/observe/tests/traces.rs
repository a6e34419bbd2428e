//! Traces of real applications and schedules against independent counts.

#![allow(clippy::unwrap_used, clippy::panic)]

use hopbyte_fabric::Exchange;
use hopbyte_fabric::trace::Call;
use hopbyte_observe::{read_trace, read_traffic};
use hopbyte_testdata::shared;

fn phase<'a>(traffic: &'a hopbyte_fabric::Traffic, name: &str) -> &'a Exchange {
    let found = traffic.phases.iter().find(|p| p.name == name);
    &found.unwrap_or_else(|| panic!("no phase {name}")).exchange
}

/// Sums computed by a script over the 32 files: bytes sent by a rank are 8 per count.
#[test]
fn a_simgrid_trace_of_32_ranks() {
    let Some(path) = shared("traces/simgrid-ti-32ranks.tar.zst") else {
        return;
    };
    let path = path.to_str().unwrap();
    let trace = read_trace(path).unwrap();
    assert_eq!(trace.ranks.len(), 32);
    let count = |wanted: fn(&Call) -> bool| {
        let calls = trace.ranks.iter().flat_map(|r| &r.calls);
        calls.filter(|c| wanted(c)).count()
    };
    assert_eq!(count(|c| matches!(c, Call::Collective { .. })), 1248);
    let traffic = read_traffic(path).unwrap();
    let names: Vec<&str> = traffic.phases.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(
        names,
        ["barrier", "broadcast", "allreduce", "gather", "alltoall"]
    );
    let moved = phase(&traffic, "alltoall");
    assert_eq!(moved.total_bytes(), (6_482_431_616u64 + 452_685_312) as f64);
}

/// A binomial broadcast: every rank but the first receives one byte.
#[test]
fn a_goal_schedule_of_a_broadcast() {
    let Some(path) = shared("traces/binary_tree_32.goal") else {
        return;
    };
    let traffic = read_traffic(path.to_str().unwrap()).unwrap();
    let tree = phase(&traffic, "point-to-point");
    assert_eq!(
        (traffic.tasks, tree.pairs(), tree.total_bytes()),
        (32, 31, 31.0)
    );
    let mut received = [0; 32];
    tree.iter().for_each(|(_, m)| received[m.to as usize] += 1);
    assert_eq!(
        (received[0], received[1..].iter().all(|&n| n == 1)),
        (0, true)
    );
}

/// The text of one of four ranks is not a trace of the job; the error states this.
#[test]
fn a_dumpi_trace_without_most_of_its_ranks() {
    let Some(path) = shared("traces/dumpi-testtrace.tar.zst") else {
        return;
    };
    let error = read_trace(path.to_str().unwrap()).unwrap_err().to_string();
    assert!(
        error.contains("found 1 ranks; rank 1 is missing"),
        "{error}"
    );
}
