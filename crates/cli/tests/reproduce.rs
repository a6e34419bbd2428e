//! `hopbyte model reproduce`, the whole table: any change of a row, better or worse, fails here.

#![allow(clippy::unwrap_used, clippy::panic)]

use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

/// Every row: its basis, and its failed checks.
const EXPECTED: [(&str, &str, &[&str]); 45] = [
    ("G1", "computed", &[]),
    ("G2", "computed", &[]),
    ("G3", "restated", &[]),
    ("G4", "computed", &[]),
    ("G5", "computed", &[]),
    ("G6", "restated", &[]),
    ("G7", "fitted", &[]),
    ("G8", "restated", &[]),
    ("G9", "computed", &[]),
    ("G10", "elsewhere", &[]),
    ("G11", "elsewhere", &[]),
    ("G12", "fitted", &[]),
    ("G13", "computed", &[]),
    (
        "G14",
        "computed",
        &["X: largest input stall, no remap over remap", "Z: the same"],
    ),
    ("D1", "computed", &[]),
    ("D2", "computed", &[]),
    ("D3", "fitted", &[]),
    ("D4", "computed", &[]),
    ("D5", "computed", &["ratio of the two slowdowns"]),
    ("D6", "computed", &["slowdown at a quarter, percent"]),
    ("T1", "restated", &[]),
    ("T2", "computed", &[]),
    ("T3", "computed", &[]),
    ("T4", "computed", &["Y+ round the ring of two Geminis"]),
    ("T5", "computed", &[]),
    ("T6", "computed", &[]),
    ("T7", "computed", &[]),
    ("T8", "computed", &[]),
    ("T9", "fitted", &[]),
    ("T10", "fitted", &[]),
    ("M1", "computed", &[]),
    ("M2", "elsewhere", &[]),
    ("M3", "fitted", &["largest credit stall, percent"]),
    (
        "M4",
        "computed",
        &[
            "recovered by remapping on used bandwidth, percent of the time lost",
            "recovered by remapping on credit stalls, percent",
            "hops and uniform weights recover less than either",
        ],
    ),
    ("M5", "elsewhere", &[]),
    ("M6", "elsewhere", &[]),
    ("M7", "elsewhere", &[]),
    ("M8", "elsewhere", &[]),
    ("R1", "computed", &[]),
    ("R2", "elsewhere", &[]),
    ("R3", "elsewhere", &[]),
    ("R4", "elsewhere", &[]),
    ("R5", "elsewhere", &[]),
    ("R6", "elsewhere", &[]),
    ("R7", "elsewhere", &[]),
];

#[test]
fn every_row_is_as_it_is_written_down() {
    let root = hopbyte_testdata::workspace();
    let output = Command::new(env!("CARGO_BIN_EXE_hopbyte"))
        .current_dir(&root)
        .args(["--quiet", "--json", "model", "reproduce"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut verdicts: Vec<Value> = text
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    let summary = verdicts.pop().unwrap()["summary"].clone();
    let mut found: BTreeMap<&str, (&str, Vec<&str>)> = BTreeMap::new();
    for v in &verdicts {
        let text = |field: &str| v[field].as_str().unwrap();
        let row = found
            .entry(text("row"))
            .or_insert((text("row_basis"), Vec::new()));
        if v["holds"] == false {
            row.1.push(text("what"));
        }
        assert!(
            v["holds"] == true || !text("why").is_empty(),
            "no reason: {v}"
        );
        assert!(
            v["basis"] != "fitted" || !text("fitted_to").is_empty(),
            "{v}"
        );
    }
    for (row, basis, broken) in EXPECTED {
        assert_eq!(
            found.remove(row),
            Some((basis, broken.to_vec())),
            "row {row}"
        );
    }
    assert!(
        found.is_empty(),
        "rows that are not written down: {found:?}"
    );
    // The summary counts the rows, and only computed rows as reproduced.
    let count = |basis: &str| EXPECTED.iter().filter(|e| e.1 == basis).count();
    for basis in ["computed", "fitted", "restated", "elsewhere"] {
        assert_eq!(summary[basis], count(basis), "{basis}");
    }
    let missed = summary["not_holding"].as_array().unwrap().len();
    assert_eq!(summary["reproduced"], count("computed") - missed);
    assert_eq!(summary["rows"], EXPECTED.len());
    let broken = verdicts
        .iter()
        .any(|v| v["kind"] == "exact" && v["holds"] == false);
    assert_eq!(output.status.code(), Some(i32::from(broken)));
}

/// Changes of inputs (or, where a check has none, of its expression), and the computed checks that then fail.
type Mutation = (
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static [&'static str],
);

const MUTATIONS: &[Mutation] = &[
    ("G1", &[("16x12x24", "16x12x23")], &["lines"]),
    (
        "G2",
        &[(
            "gemini:16x12x24\", network = \"gemini\" }",
            "gemini:4x4x8\", network = \"gemini\", down = [\"c0-0c0s0g0l41 lanemask=3\", \"c0-0c0s0g0 Z+\", \"c0-0c0s0g0 Y+\", \"c0-0c0s0g1 Y+\", \"c0-0c0s7g0 Z+\"] }",
        )],
        &[
            "X GB/s",
            "Y mezzanine GB/s",
            "Y cable GB/s",
            "Z backplane GB/s",
            "Z cable GB/s",
        ],
    ),
    ("G4", &[("64)", "72)")], &["VC1 phits", "bytes, both ways"]),
    (
        "G5",
        &[("64)", "72)"), ("4194304", "512")],
        &[
            "64 / 105 of a transaction, percent",
            "efficiency of a 4 MiB message, percent",
        ],
    ),
    (
        "G6",
        &[
            ("base, 1, source_bytes", "base, 64, source_bytes"),
            ("base, 4096, bytes", "base, 8, bytes"),
        ],
        &[
            "source bytes of a 1-byte message beyond those of its data, bytes",
            "efficiency rises with size, all bytes",
        ],
    ),
    (
        "G8",
        &[("gemini:5x4x8", "gemini:1x1x7")],
        &["some responses come another way than requests went"],
    ),
    (
        "G9",
        &[
            ("share = 1.0", "share = 0.0"),
            (
                "workload.halo = { grid = [2, 2, 4], bytes = [3.2e6], periodic = true }",
                "workload.synthetic = { ranks = 16, pattern = { hot-spot = { share = 0.9 } }, bytes = 64e3, messages = 1 }",
            ),
        ],
        &["PUTs over X+ alone", "VC1 packets / VC0 packets"],
    ),
    (
        "G10",
        &[("gemini:4x4x8", "torus:4x4")],
        &["logical links of a Gemini"],
    ),
    (
        "G11",
        &[("gemini:4x4x8", "torus:4x4")],
        &["counters of 10,000 Geminis"],
    ),
    (
        "G12",
        &[
            ("scattered = { count = 8192 }", "first = { count = 8192 }"),
            (
                "case.in-order.job = { ranks_per_node = 16, workload.halo = { grid = [32, 64, 64]",
                "case.in-order.job = { ranks_per_node = 16, workload.halo = { grid = [32, 64, 32]",
            ),
        ],
        &[
            "routers of an allocation in order",
            "nodes scattered over the machine",
        ],
    ),
    (
        "G13",
        &[(
            "case.random = { job.placement = \"random\", seed = 1 }",
            "case.random = {}",
        )],
        &["random > no remap > remap"],
    ),
    (
        "G14",
        &[
            (
                "case.linear = {}",
                "case.linear = { job.placement.blocks = [2, 2, 4] }",
            ),
            ("grid = [16, 32, 32]", "grid = [32, 64, 64]"),
        ],
        &[
            "Y: the same",
            "X output stall with remap",
            "no remap: exchange at 8,192 nodes",
        ],
    ),
    (
        "G14",
        &[(
            "level = \"stalls\"",
            "level = \"stalls\", point.link = 50.0",
        )],
        &["host links: input stalls many"],
    ),
    (
        "G14",
        &[(
            "level = \"stalls\"",
            "level = \"stalls\", routing = \"dimension-order:ZYX\"",
        )],
        &["largest input stall in X above Y and Z"],
    ),
    (
        "D1",
        &[
            ("case.half.point.link = 0.5", "case.half.point.link = 0.55"),
            (
                "case.three.point.link = 0.75",
                "case.three.point.link = 0.6",
            ),
        ],
        &["1/2: MB/s", "3/4: MB/s", "3/4 and all are equal"],
    ),
    (
        "D2",
        &[("case.quarter.point.link", "case.quarter.point.latency")],
        &["latency at 1/4 over latency at all"],
    ),
    (
        "D3",
        &[(
            "case.m800.point.injection = 0.25",
            "case.m800.point.injection = 0.4",
        )],
        &["800 and 1,600 MB/s lie between"],
    ),
    (
        "D4",
        &[
            (
                "case.three.point.link = 0.75",
                "case.three.point.link = 1.0",
            ),
            (
                "ranks = 16, bytes = 8.0 } }\ncase.small.",
                "ranks = 16, bytes = 8e4 } }\ncase.small.",
            ),
        ],
        &["large messages", "small messages"],
    ),
    (
        "D5",
        &[(
            "case.sn-quarter.point.link = 0.25",
            "case.sn-quarter.point.link = 1.0",
        )],
        &["a quarter is slower"],
    ),
    (
        "D5",
        &[(
            "case.vn-quarter = { job.ranks_per_node = 2,",
            "case.vn-quarter = { job.ranks_per_node = 1,",
        )],
        &["VN suffers more"],
    ),
    (
        "D6",
        &[
            (
                "case.sweep-quarter.point.link = 0.25",
                "case.sweep-quarter.point.link = 1.0",
            ),
            (
                "case.sweep-accelerated.point.latency = 0.7",
                "case.sweep-accelerated.point.cpu = 2.0",
            ),
        ],
        &["Partisn's slowdown is below", "30 % less latency"],
    ),
    (
        "T1",
        &[("put(vc0_phits, 64)))", "put(vc0_phits, 48)))")],
        &["share of a full PUT"],
    ),
    (
        "T2",
        &[("link_efficiency = 0.96", "link_efficiency = 0.90")],
        &["exclusive MB/s", "shared MB/s"],
    ),
    (
        "T3",
        &[(
            "network = \"gemini\", ",
            "network = \"gemini\", point.injection = 0.6, ",
        )],
        &["Y mezzanine alone", "Z backplane alone", "Z cable shared"],
    ),
    (
        "T4",
        &[("topobw_line(all", "topobw_line(alone")],
        &["X cable", "Z: backplane", "Y: two nodes"],
    ),
    (
        "T5",
        &[("phases_hold(25)", "phases_hold(1)")],
        &["rings and lines"],
    ),
    ("T6", &[("lanemask=7", "lanemask=3")], &["7: share"]),
    (
        "T6",
        &[("l31 lanemask=5", "l31 lanemask=4")],
        &["3, 5, 6: share"],
    ),
    (
        "T6",
        &[(
            "l13 lanemask=2\"]",
            "l13 lanemask=2\", \"c1-0c0s0g0l41 lanemask=1\", \"c2-0c0s0g0l41 lanemask=1\", \"c3-0c0s0g0l41 lanemask=1\"]",
        )],
        &["1, 2, 4: share", "the link goes on"],
    ),
    (
        "T7",
        &[
            (
                "case.one.down = [\"c0-0c0s0g0 X+\"]",
                "case.one.down = [\"c0-0c0s0g0\"]",
            ),
            (", \"c0-0c0s4g0 Z+\"", ""),
            (
                "\"gemini:8x4x8\", down = [\"c0-0c0s0g0 X+\"]",
                "\"gemini:8x4x8\"",
            ),
        ],
        &[
            "routable with one cable down",
            "two failures in one Z loop",
            "uniform traffic",
        ],
    ),
    (
        "T8",
        &[(
            "(1,2,3)\", bytes_per_s = 4e9",
            "(1,2,3)\", bytes_per_s = 6.9e9",
        )],
        &["components that `probe analyse` names"],
    ),
    (
        "T8",
        &[("bytes_per_s = 5e9", "bytes_per_s = 6.95e9")],
        &["the same at 2.9, 3.5 and 5 GB/s"],
    ),
    (
        "T8",
        &[("case.well.slow = []", "case.well = {}")],
        &["slow pairs without an explanation"],
    ),
    (
        "T8",
        &[(
            "located(well, components) == slowed(well)",
            "located(well, components) == slowed(sick)",
        )],
        &["components named on a healthy machine"],
    ),
    (
        "T9",
        &[
            ("bytes_per_s = 7e8", "bytes_per_s = 6e9"),
            ("patience_s = 0.0005", "patience_s = 5.0"),
        ],
        &["one throttled node", "controller lost"],
    ),
    (
        "M1",
        &[
            ("count = 16", "count = 15"),
            ("gemini:2x2x8", "gemini:1x1x17"),
        ],
        &["ordered pairs", "forward and reverse routes differ"],
    ),
    (
        "R1",
        &[
            (
                "job.placement.blocks = [2, 2, 2]",
                "job.placement.blocks = [1, 1, 8]",
            ),
            ("placement = \"geometric\"", "placement = \"random\""),
        ],
        &["less time at 65,536 ranks", "the same with 16 ranks a node"],
    ),
];

/// The verdicts of one row after replacements in its file.
fn mutated(row: &str, changes: &[(&str, &str)]) -> Vec<Value> {
    let file = format!("{row}.toml");
    let mut text =
        std::fs::read_to_string(hopbyte_testdata::workspace().join("scenarios").join(&file))
            .unwrap();
    for (old, new) in changes {
        assert!(text.contains(old), "{row} has no {old}");
        text = text.replace(old, new);
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(&file), text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_hopbyte"));
    command.args(["--quiet", "--json", "model", "reproduce", "--from"]);
    let output = command.arg(folder.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() < Some(2), "{row} {changes:?}: {said}");
    let lines = String::from_utf8(output.stdout).unwrap();
    lines
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

#[test]
fn every_computed_check_fails_for_other_inputs() {
    for &(row, changes, expected) in MUTATIONS {
        let verdicts = mutated(row, changes);
        for prefix in expected {
            let found = verdicts.iter().find(|v| {
                v["basis"] == "computed"
                    && v["what"].as_str().is_some_and(|w| w.starts_with(prefix))
            });
            let found = found.unwrap_or_else(|| panic!("{row} has no computed check {prefix}"));
            assert_eq!(found["holds"], false, "{row} {changes:?}: {found}");
        }
    }
}

/// Every computed check that holds has a mutation, and every tolerance excludes a published value that is twice as far
/// away.
#[test]
fn every_check_can_fail() {
    let folder = hopbyte_testdata::workspace().join("scenarios");
    for (row, _, broken) in EXPECTED {
        let text = std::fs::read_to_string(folder.join(format!("{row}.toml"))).unwrap();
        let parsed = hopbyte_model::reproduce::Row::parse(row, &text).unwrap();
        let listed = MUTATIONS.iter().filter(|m| m.0 == row).flat_map(|m| m.2);
        let listed: Vec<&&str> = listed.collect();
        for check in &parsed.check {
            let is_listed = || listed.iter().any(|prefix| check.what.starts_with(**prefix));
            if check.basis(&parsed).to_string() == "computed"
                && !broken.contains(&check.what.as_str())
            {
                assert!(
                    is_listed(),
                    "{row}: no input of '{}' is changed",
                    check.what
                );
            }
        }
    }
    // The published value, moved by twice its tolerance in both directions.
    for (row, value, within) in [
        ("G1", "184320", 1e-6),
        ("G5", "61", 0.002),
        ("T1", "6", 0.02),
        ("T1", "35", 0.1),
        ("T2", "5946", 0.02),
        ("T2", "2975", 0.02),
        ("D1", "1546", 0.03),
    ] {
        for factor in [1.0 - 2.0 * within, 1.0 + 2.0 * within] {
            let moved = value.parse::<f64>().unwrap() * factor;
            let verdicts = mutated(
                row,
                &[(&format!("is = {value}\n"), &format!("is = {moved}\n"))],
            );
            assert!(
                verdicts.iter().any(|v| v["holds"] == false),
                "{row} {moved}"
            );
        }
    }
}
