//! The table of published figures beside ours: complete, and honest about what does not hold.

#![allow(clippy::unwrap_used, clippy::panic)]

use hopbyte_model::reproduce::{Kind, Row, Verdict};
use rayon::prelude::*;
use std::collections::BTreeSet;
use std::path::Path;

/// Most rows whose shape may not hold.
const MOST_BROKEN_ROWS: usize = 4;

fn rows() -> Vec<Row> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|f| f.unwrap().path());
    let tables = files.filter(|f| f.extension().is_some_and(|e| e == "toml"));
    tables
        .map(|f| {
            let text = std::fs::read_to_string(&f).unwrap();
            Row::parse(&f.display().to_string(), &text).unwrap()
        })
        .collect()
}

#[test]
fn every_claim_is_in_the_table_and_what_does_not_hold_says_why() {
    let rows = rows();
    let verdicts: Vec<Verdict> = rows
        .par_iter()
        .map(|row| {
            row.reproduce()
                .unwrap_or_else(|e| panic!("{}: {e}", row.id))
        })
        .flatten()
        .collect();
    let claims: BTreeSet<&str> = verdicts.iter().map(|v| v.id.as_str()).collect();
    for (paper, last) in [(0, 23), (1, 12), (2, 14), (3, 7), (4, 2)] {
        for claim in 1..=last {
            let id = format!("{paper}.{claim}");
            assert!(claims.contains(id.as_str()), "claim {id} is missing");
        }
    }
    let row_ids: BTreeSet<&str> = rows.iter().map(|r| r.id.as_str()).collect();
    let expected = (1..=14).map(|i| format!("G{i}"));
    let expected = expected.chain((1..=6).map(|i| format!("D{i}")));
    let expected = expected.chain((1..=10).map(|i| format!("T{i}")));
    let expected = expected.chain((1..=8).map(|i| format!("M{i}")));
    for id in expected.chain((1..=7).map(|i| format!("R{i}"))) {
        assert!(row_ids.contains(id.as_str()), "row {id} is missing");
    }
    let mut broken = BTreeSet::new();
    for v in &verdicts {
        let shown = format!("{} ({}) {}: {:?}", v.row, v.id, v.what, v.ours);
        assert!(v.kind != Kind::Exact || v.holds == Some(true), "{shown}");
        assert!(
            v.holds == Some(true) || !v.why.is_empty(),
            "no reason: {shown}"
        );
        if v.holds == Some(false) {
            broken.insert(v.row.as_str());
        }
    }
    assert!(broken.len() <= MOST_BROKEN_ROWS, "{broken:?}");
}

#[test]
fn mistakes_in_a_row_are_named() {
    let text = "id = \"X\"\npaper = \"-\"\nclaim = \"-\"\n[[check]]\nkind = \"exact\"\nwhat = \"w\"\npublished = \"p\"\n";
    let with = |more: &str| Row::parse("x.toml", &format!("{text}{more}"));
    assert!(with("tpyo = 1").unwrap_err().to_string().contains("x.toml"));
    for (ours, word) in [
        ("time(none)", "none"),
        ("speed(base)", "fabric"),
        ("1 +", "1 +"),
    ] {
        let row = with(&format!("ours = \"{ours}\"")).unwrap();
        let error = row.reproduce().unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
    // A number without a published value or range never holds.
    let row = with("ours = \"1\"").unwrap();
    assert_eq!(row.reproduce().unwrap()[0].holds, Some(false));
}

#[test]
fn figures_have_the_values_of_their_rows() {
    let rows = rows();
    let row = |id: &str| rows.iter().find(|r| r.id == id).unwrap();
    let figure = row("D1").figure().unwrap().unwrap();
    let curve = |panel: usize, name: &str| {
        let curves = &figure.panel[panel].curve;
        curves
            .iter()
            .find(|c| c.name == name)
            .unwrap()
            .points
            .clone()
    };
    // Plateaus of the papers, and the same latency at every speed of the links.
    let quarter = *curve(0, "1/4").last().unwrap();
    assert!((quarter.y / 773.0 - 1.0).abs() < 0.03, "{quarter:?}");
    assert!(curve(0, "3/4").last().unwrap().y > 1.9e3);
    let (slow, fast) = (curve(1, "1/4")[0].y, curve(1, "all of the link")[0].y);
    assert!((slow / fast - 1.0).abs() < 0.01);
    assert!(
        curve(1, "1/4").len() < curve(0, "1/4").len(),
        "a panel that ends before"
    );
    let efficiency = row("G6").figure().unwrap().unwrap();
    let all = &efficiency.panel[0].curve[1].points;
    assert!(
        all.is_sorted_by(|a, b| a.y <= b.y * 1.2) && (all.last().unwrap().y - 60.95).abs() < 0.1
    );
    assert!(row("G1").figure().unwrap().is_none());
    let drawn = rows.iter().filter(|r| r.figure.is_some()).count();
    assert_eq!(drawn, 10);
    let mut bent = row("D1").clone();
    bent.figure.as_mut().unwrap().at.clear();
    assert!(
        bent.figure()
            .unwrap_err()
            .to_string()
            .contains("figure of row D1")
    );
}
