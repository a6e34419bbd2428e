//! The table of published figures: complete, and of checks that can fail. The rows that hold are
//! listed in the command's test (crates/cli/tests/reproduce.rs).

#![allow(clippy::unwrap_used, clippy::panic)]

use hopbyte_model::reproduce::{Basis, Row, Summary, Tools, Verdict};
use std::collections::BTreeSet;
use std::path::Path;

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

/// Neither a mapper nor probes: rows that need them are run by the command's own test.
fn none() -> Tools<'static> {
    Tools {
        remap: &|_| Err("no mapper here".into()),
        locate: &|_, _, _| Err("no probes here".into()),
    }
}

#[test]
fn every_claim_is_in_the_table() {
    let rows = rows();
    let claims: BTreeSet<&str> = rows
        .iter()
        .flat_map(|r| r.check.iter().filter_map(|c| c.id.as_deref()))
        .collect();
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
}

#[test]
fn checks_that_cannot_fail_are_refused() {
    let text = "id = \"X\"\npaper = \"-\"\nclaim = \"-\"\nBASIS\n[[check]]\nkind = \"KIND\"\nwhat = \"w\"\npublished = \"p\"\n";
    let row = |basis: &str, kind: &str, more: &str| {
        let text = text.replace("BASIS", basis).replace("KIND", kind);
        Row::parse("x.toml", &format!("{text}{more}")).map_err(|e| e.to_string())
    };
    let computed = "basis = \"computed\"";
    assert!(row(computed, "exact", "ours = \"1\"\nis = 1").is_ok());
    let unpublished = text.replace("\"p\"", "\"- (ours)\"");
    let unpublished = unpublished
        .replace("BASIS", computed)
        .replace("KIND", "exact");
    let error = Row::parse("x.toml", &format!("{unpublished}ours = \"1\"\nis = 1"));
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("statement of the paper")
    );
    for (basis, kind, more, word) in [
        ("", "exact", "ours = \"1\"\nis = 1", "basis"),
        (
            "basis = \"guessed\"",
            "exact",
            "ours = \"1\"\nis = 1",
            "guessed",
        ),
        (
            "basis = \"fitted\"",
            "shape",
            "ours = \"1\"\nis = 1",
            "fitted_to",
        ),
        (
            "basis = \"computed\"\nfitted_to = \"p\"",
            "shape",
            "ours = \"1\"\nis = 1",
            "fitted_to",
        ),
        (
            computed,
            "shape",
            "ours = \"1\"\nbetween = [50, 1000]",
            "factor of ten",
        ),
        (
            computed,
            "shape",
            "ours = \"1\"\nbetween = [8200, 1e99]",
            "factor of ten",
        ),
        (
            computed,
            "shape",
            "ours = \"1\"\nbetween = [2, 1]",
            "factor of ten",
        ),
        (
            computed,
            "shape",
            "ours = \"1\"\nis = 1\nwithin = 1.0",
            "within",
        ),
        (
            computed,
            "exact",
            "ours = \"max(1, 2) + 0 * min(1, 2)\"\nis = 2",
            "multiplied by zero",
        ),
        (computed, "exact", "", "ours"),
        (computed, "elsewhere", "ours = \"1\"\nis = 1", "elsewhere"),
        (
            "basis = \"restated\"",
            "exact",
            "basis = \"computed\"\nours = \"1\"\nis = 1",
            "basis of its row",
        ),
    ] {
        let error = row(basis, kind, more).unwrap_err();
        assert!(error.contains(word), "{basis} {kind} {more}: {error}");
    }
}

#[test]
fn only_rows_whose_computed_checks_all_hold_count_as_reproduced() {
    let check = |basis: &str, is: u32| {
        format!(
            "[[check]]\nkind = \"exact\"\nbasis = \"{basis}\"\nwhat = \"w\"\npublished = \"p\"\nours = \"1\"\nis = {is}\n"
        )
    };
    let verdicts: Vec<Verdict> = [
        (
            "A",
            "computed",
            [check("computed", 1), check("restated", 1)],
        ),
        (
            "B",
            "computed",
            [check("computed", 1), check("computed", 2)],
        ),
        (
            "C",
            "restated",
            [check("restated", 1), check("computed", 1)],
        ),
    ]
    .iter()
    .flat_map(|(id, basis, checks)| {
        let head = format!("id = \"{id}\"\npaper = \"-\"\nclaim = \"-\"\nbasis = \"{basis}\"\n");
        let row = Row::parse("x.toml", &(head + &checks.concat())).unwrap();
        row.reproduce(&none()).unwrap()
    })
    .collect();
    let summary = Summary::of(&verdicts);
    assert_eq!(
        (summary.rows, summary.computed, summary.reproduced),
        (3, 2, 1)
    );
    assert_eq!(summary.not_holding, ["B"]);
    assert_eq!(
        (summary.restated, summary.fitted, summary.elsewhere),
        (1, 0, 0)
    );
    let computed = summary.checks[&Basis::Computed];
    assert_eq!(
        (computed.hold, computed.do_not, computed.not_modelled),
        (3, 1, 0)
    );
}

#[test]
fn mistakes_in_a_row_are_named() {
    let text = "id = \"X\"\npaper = \"-\"\nclaim = \"-\"\nbasis = \"computed\"\n[[check]]\nkind = \"exact\"\nwhat = \"w\"\npublished = \"p\"\n";
    let with = |more: &str| Row::parse("x.toml", &format!("{text}{more}"));
    assert!(with("tpyo = 1").unwrap_err().to_string().contains("x.toml"));
    for (ours, word) in [
        ("time(none)", "none"),
        ("speed(base)", "fabric"),
        ("1 +", "1 +"),
    ] {
        let row = with(&format!("ours = \"{ours}\"")).unwrap();
        let error = row.reproduce(&none()).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
    // A number without a published value or range never holds.
    let row = with("ours = \"1\"").unwrap();
    assert_eq!(row.reproduce(&none()).unwrap()[0].holds, Some(false));
}

#[test]
fn figures_have_the_values_of_their_rows() {
    let rows = rows();
    let row = |id: &str| rows.iter().find(|r| r.id == id).unwrap();
    let figure = row("D1").figure(&none()).unwrap().unwrap();
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
    let efficiency = row("G6").figure(&none()).unwrap().unwrap();
    let all = &efficiency.panel[0].curve[1].points;
    assert!(
        all.is_sorted_by(|a, b| a.y <= b.y * 1.2) && (all.last().unwrap().y - 60.95).abs() < 0.1
    );
    assert!(row("G1").figure(&none()).unwrap().is_none());
    let drawn = rows.iter().filter(|r| r.figure.is_some()).count();
    assert_eq!(drawn, 12);
    let mut bent = row("D1").clone();
    bent.figure.as_mut().unwrap().at.clear();
    assert!(
        bent.figure(&none())
            .unwrap_err()
            .to_string()
            .contains("figure of row D1")
    );
}
