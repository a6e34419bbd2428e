//! `hopbyte model reproduce`, the whole table: any change of a row, better or worse, fails here.

#![allow(clippy::unwrap_used)]

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
