//! A killed sweep resumes; parts and one run give the same file.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A job with varying computing times, so that trials differ.
const SCENARIO: &str = include_str!("../../../tests/halo.toml");

fn sweep(folder: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hopbyte"));
    command.current_dir(folder).args([
        "--quiet",
        "--json",
        "sweep",
        "s.toml",
        "--link",
        "1/4,1/2,3/4,1",
        "--cpu",
        "0.5,1",
        "--trials",
        "40",
    ]);
    command.args(more).stdout(Stdio::piped());
    command
}

/// Lines of the answer.
fn answer(mut command: Command) -> Vec<Value> {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect()
}

#[test]
fn a_killed_sweep_goes_on_and_says_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("s.toml"), SCENARIO).unwrap();
    let whole = answer(sweep(at, &["--out", "whole.parquet"]));
    // 1 + 3 + 1 points of 40 trials, and two sensitivities.
    assert_eq!(whole.len(), 202);
    let journal = at.join("killed.parquet.jsonl");
    let mut kept = 0;
    for _ in 0..3 {
        let mut child = sweep(at, &["--out", "killed.parquet", "--jobs", "1"])
            .spawn()
            .unwrap();
        let begin = Instant::now();
        let lines = || fs::read_to_string(&journal).map_or(0, |t| t.lines().count());
        while lines() < kept + 8 && child.try_wait().unwrap().is_none() {
            assert!(
                begin.elapsed() < Duration::from_secs(300),
                "no run was kept"
            );
            std::thread::sleep(Duration::from_millis(2));
        }
        child.kill().unwrap();
        let ended = child.wait().unwrap();
        kept = lines();
        assert!(
            !ended.success() && kept >= 8,
            "killed too late: {kept} lines"
        );
    }
    // A line torn by a kill.
    let torn = fs::read_to_string(&journal).unwrap() + "{\"schema\":\"hop";
    fs::write(&journal, torn).unwrap();
    assert_eq!(answer(sweep(at, &["--out", "killed.parquet"])), whole);
    assert!(!journal.exists());
    let bytes = |name: &str| fs::read(at.join(name)).unwrap();
    assert_eq!(bytes("killed.parquet"), bytes("whole.parquet"));
}

#[test]
fn parts_are_gathered_and_another_plan_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("s.toml"), SCENARIO).unwrap();
    let whole = answer(sweep(at, &["--out", "whole.parquet"]));
    for part in ["1/3", "3/3"] {
        let lines = answer(sweep(at, &["--out", "all.parquet", "--points", part]));
        assert!((66..=67).contains(&lines.len()), "{}", lines.len());
    }
    assert!(!at.join("all.parquet").exists());
    let refused = sweep(at, &["--out", "all.parquet", "--noise", "0.1"])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2));
    // The missing part is run, the others are reused.
    assert_eq!(answer(sweep(at, &["--out", "all.parquet"])), whole);
    assert_eq!(
        fs::read(at.join("all.parquet")).unwrap(),
        fs::read(at.join("whole.parquet")).unwrap()
    );
    let left: Vec<_> = fs::read_dir(at)
        .unwrap()
        .map(|e| e.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 3, "{left:?}");
}
