//! A collective is the same messages from every source: a spec, a record, a trace, a program of the model.

#![allow(clippy::unwrap_used, clippy::panic)]

use hopbyte_fabric::collective::{Algorithms, Collective, How};
use hopbyte_fabric::trace::{Call, RankTrace, Trace};
use hopbyte_fabric::{Traffic, declared};
use hopbyte_model::program::Program;
use hopbyte_observe::read_traffic;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Bytes and messages by pair.
type Pairs = BTreeMap<(u32, u32), (f64, u64)>;

fn pairs(traffic: &Traffic) -> Pairs {
    let total = traffic.total();
    let entry = |(from, m): (u32, &hopbyte_fabric::Message)| ((from, m.to), (m.bytes, m.messages));
    total.iter().map(entry).collect()
}

/// A record in which every rank called `kind` `calls` times with `bytes`.
fn recorded(library: &str, kind: &str, ranks: u32, bytes: u64, calls: u64) -> Traffic {
    let folder = tempfile::tempdir().unwrap();
    for rank in 0..ranks {
        let mut text = format!(
            "# hopbyte-record 2\nrank\t{rank}\nsize\t{ranks}\nspawned\t0\nlibrary\t{library}\nphase\t0\tmain\n"
        );
        let list = if rank == 0 {
            format!("0-{}", ranks - 1)
        } else {
            "-".into()
        };
        writeln!(text, "group\tab\t{ranks}\t{list}").unwrap();
        let rooted = matches!(kind, "bcast" | "reduce" | "gather" | "scatter");
        let root = if rooted { "0" } else { "-1" };
        // In two lines, as in a table written in two steps.
        for calls in [calls - 1, 1] {
            let sum = bytes * calls;
            writeln!(text, "K\t0\tab\t{kind}\t{root}\t{bytes}\t{sum}\t{calls}").unwrap();
        }
        text.push_str("ended\tfinalize\n");
        let lines = text.lines().count();
        writeln!(text, "end\t{lines}").unwrap();
        std::fs::write(folder.path().join(format!("rank.{rank}.hbr")), text).unwrap();
    }
    read_traffic(folder.path().to_str().unwrap()).unwrap()
}

fn trace(kind: Collective, ranks: u32, bytes: f64) -> Trace {
    let call = Call::Collective {
        kind,
        how: How::default(),
        group: 0,
        root: 0,
        bytes,
        row: None,
        request: None,
        neighbors: false,
    };
    let rank = RankTrace {
        calls: vec![call],
        ..RankTrace::default()
    };
    Trace {
        source: "t".into(),
        ranks: vec![rank; ranks as usize],
        groups: vec![(0..ranks).collect()],
    }
}

const KINDS: [&str; 10] = [
    "barrier",
    "bcast",
    "reduce",
    "allreduce",
    "gather",
    "scatter",
    "allgather",
    "reduce_scatter_block",
    "alltoall",
    "scan",
];

fn collective(kind: &str) -> Collective {
    Collective::named(kind.trim_end_matches("_block")).unwrap()
}

#[test]
fn spec_record_trace_and_model_agree() {
    for kind in KINDS {
        let collective = collective(kind);
        let name = collective.name();
        for (ranks, bytes) in [
            (8, 8u64),
            (8, 1000),
            (12, 100_000),
            (16, 65_536),
            (5, 4_000_000),
        ] {
            let bytes = if kind == "barrier" { 0 } else { bytes };
            let label = format!("{kind} of {ranks} ranks, {bytes} B");
            for (word, library) in [
                ("openmpi", "Open MPI v4.1.4, package"),
                ("mpich", "MPICH Version: 4.0"),
            ] {
                let spec = declared::traffic(&format!("collective:{name}:{ranks}:{bytes}:{word}"));
                let spec = spec.unwrap();
                let record = recorded(library, kind, ranks, bytes, 3);
                let times_three = |(pair, (b, n)): (_, (f64, u64))| (pair, (3.0 * b, 3 * n));
                let thrice: Pairs = pairs(&spec).into_iter().map(times_three).collect();
                close(&pairs(&record), &thrice, &format!("{label} {word}"));
                let of_trace = trace(collective, ranks, bytes as f64);
                let rules = Algorithms::parse(word).unwrap();
                let of_trace = of_trace.traffic_by(&rules).unwrap();
                close(&pairs(&of_trace), &pairs(&spec), &label);
                // All name the algorithm.
                let said = format!("{name} by ");
                for traffic in [&spec, &record, &of_trace] {
                    assert!(traffic.notes[0].starts_with(&said), "{:?}", traffic.notes);
                    assert!(traffic.notes[0].contains("decides"), "{:?}", traffic.notes);
                }
            }
            let spec = declared::traffic(&format!("collective:{name}:{ranks}:{bytes}")).unwrap();
            let program = Program::of_trace(&trace(collective, ranks, bytes as f64), None).unwrap();
            let mut sent = Pairs::new();
            for (from, to, bytes) in program.messages() {
                let entry = sent.entry((from, to)).or_default();
                *entry = (entry.0 + bytes, entry.1 + 1);
            }
            close(&sent, &pairs(&spec), &format!("{label} in the model"));
        }
    }
}

/// Equal but for the rounding of sums.
fn close(found: &Pairs, expected: &Pairs, label: &str) {
    let keys = |p: &Pairs| p.iter().map(|(k, v)| (*k, v.1)).collect::<Vec<_>>();
    assert_eq!(keys(found), keys(expected), "{label}");
    for (pair, (bytes, _)) in found {
        let other = expected[pair].0;
        assert!(
            (bytes - other).abs() <= 1e-9 * other,
            "{label} {pair:?}: {bytes} B, {other} B"
        );
    }
}

/// 64 ranks and a million bytes: a record gave 384 MB for the allreduce and 63 MB for the scan, the spec 126 and 384.
#[test]
fn totals_of_64_ranks() {
    for (library, word, allreduce, scan) in [
        ("Open MPI v4.1.4", "openmpi", 126e6, 63e6),
        ("MPICH Version: 4.0", "mpich", 126e6, 384e6),
        ("another", "", 126e6, 384e6),
    ] {
        for (kind, expected) in [("allreduce", allreduce), ("scan", scan)] {
            let spec = format!("collective:{kind}:64:1000000:{word}");
            let spec = declared::traffic(spec.trim_end_matches(':')).unwrap();
            let record = recorded(library, kind, 64, 1_000_000, 2);
            assert!(
                (spec.total().total_bytes() - expected).abs() < 1.0,
                "{kind} {word}"
            );
            assert!(
                (record.total().total_bytes() - 2.0 * expected).abs() < 1.0,
                "{kind} {word}"
            );
        }
    }
}
