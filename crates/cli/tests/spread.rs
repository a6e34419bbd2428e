//! Many seeds: parts and one run find the same, an interrupted search resumes, other questions are refused.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn map(folder: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hopbyte"));
    let nodes = "n0-0-0,n0-0-1,n1-0-0,n1-2-3,n2-2-2,n3-1-0,n3-3-3,n0-2-1";
    command
        .current_dir(folder)
        .args(["--json", "map", "stencil:4x4x4:27", "--fabric"]);
    command.args(["torus:4x4x4", "--nodes", nodes, "--trials", "2000"]);
    command.args(more).output().unwrap()
}

/// The lines of an answer.
fn said(output: &Output) -> Vec<Value> {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = std::str::from_utf8(&output.stdout).unwrap();
    text.lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

fn same(a: &Value, b: &Value) {
    for key in [
        "placement",
        "slots",
        "baseline",
        "best_baseline",
        "result",
        "bound",
        "verdict",
        "moved_tasks",
        "seed",
    ] {
        assert_eq!(a[key], b[key], "{key}");
    }
}

#[test]
fn parts_are_gathered_into_what_one_run_finds() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let seeds = ["--seeds", "6", "--seed", "3"];
    let whole = &said(&map(at, &seeds))[0];
    // A seed by itself, and the best of them again from its certificate.
    let mut values = Vec::new();
    for part in ["1/4", "4/4", "3/4"] {
        let lines = said(&map(
            at,
            &[&seeds[..], &["--out", "all", "--part", part]].concat(),
        ));
        assert!(!at.join("all/mapping.json").exists());
        values.extend(lines);
    }
    let found: Vec<u64> = values.iter().filter_map(|v| v["seed"].as_u64()).collect();
    assert_eq!(found, [3, 7, 6, 5]);
    // Only the missing part is searched.
    let output = map(at, &[&seeds[..], &["--out", "all"]].concat());
    assert!(String::from_utf8_lossy(&output.stderr).contains("4 of 6 seeds were done before"));
    let gathered = &said(&output)[0];
    same(gathered, whole);
    assert_eq!(
        (&gathered["seeds"], &gathered["trials"]),
        (&whole["seeds"], &whole["trials"])
    );
    let seed = whole["seed"].to_string();
    let alone = &said(&map(at, &["--seed", &seed]))[0];
    same(alone, whole);
    let worst = whole["result"]["worst_link_seconds"].as_f64().unwrap();
    for value in &values {
        assert!(value["value"].as_f64().unwrap() >= worst, "{value}");
    }
    let left: Vec<_> = fs::read_dir(at.join("all")).unwrap().flatten().collect();
    assert!(
        left.iter()
            .all(|e| !e.file_name().to_string_lossy().starts_with("part"))
    );
    let saved: Value =
        serde_json::from_slice(&fs::read(at.join("all/mapping.json")).unwrap()).unwrap();
    same(&saved, whole);
}

#[test]
fn parts_of_another_question_and_damaged_ones_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let part = ["--seeds", "2", "--out", "all", "--part", "1/2"];
    said(&map(at, &part));
    let refuses = |more: &[&str], words: &str| {
        let output = map(at, &[&["--seeds", "2", "--out", "all"], more].concat());
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(2) && error.contains(words),
            "{error}"
        );
    };
    refuses(&["--response-fraction", "0.1"], "question");
    refuses(&["--seed", "2"], "question");
    // A placement whose cost differs from the stated one.
    let path = at.join("all/part-1of2.json");
    let text = fs::read_to_string(&path).unwrap();
    let mut bent: Value = serde_json::from_str(&text).unwrap();
    bent["best"]["places"].as_array_mut().unwrap().swap(0, 63);
    fs::write(&path, bent.to_string()).unwrap();
    refuses(&[], "one with the stated cost");
    bent["best"]["places"][0] = 8.into();
    fs::write(&path, bent.to_string()).unwrap();
    refuses(&[], "one with the stated cost");
    fs::write(&path, &text[..text.len() / 2]).unwrap();
    refuses(&[], "a part of a search");
    fs::write(&path, text).unwrap();
    assert_eq!(
        said(&map(at, &["--seeds", "2", "--out", "all"]))[0]["seeds"],
        2
    );
}
