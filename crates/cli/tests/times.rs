//! Times of a store: the last tick before one, and ranges.

#![allow(clippy::unwrap_used)]

use crate::cluster::{Cluster, level};
use hopbyte_fabric::spec;
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const MACHINE: &str = "torus:4x4x4";

/// Exit code, the used share of the first link with one, and standard error.
fn links(store: &Path, more: &[&str]) -> (Option<i32>, Option<f64>, String) {
    let done = Command::new(env!("CARGO_BIN_EXE_hopbyte"))
        .args([
            "--json",
            "links",
            store.to_str().unwrap(),
            "--fabric",
            MACHINE,
        ])
        .args(more)
        .output()
        .unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    let rows = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let used = rows.filter_map(|row| row["used_ratio"].as_f64()).next();
    (
        done.status.code(),
        used,
        String::from_utf8(done.stderr).unwrap(),
    )
}

#[test]
fn the_last_tick_before_a_time_is_found_however_long_before() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let mut cluster = Cluster::new(&store, &spec::fabric(MACHINE).unwrap(), |_| false);
    for tick in (1000..1010).chain([5000, 5001]) {
        cluster.tick(tick);
    }
    let old = "s before the time asked for";
    for (at, tick, is_old) in [
        ("1005.5", 1005, false),
        ("1068", 1009, false),
        ("1069", 1009, true),
        ("4999", 1009, true),
        ("5000", 5000, false),
        ("999999", 5001, true),
    ] {
        for more in [&["--at", at][..], &["--at", at, "--interval", "2"]] {
            let (code, used, said) = links(&store, more);
            assert_eq!(
                (code, used),
                (Some(0), Some(level(tick))),
                "{more:?} {said}"
            );
            assert_eq!(said.contains(old), is_old, "{more:?} {said}");
        }
    }
    let (code, _, said) = links(&store, &["--at", "999"]);
    assert_eq!(code, Some(2), "{said}");
}

/// Once for each port, however many ticks are added up.
#[test]
fn full_counters_of_waiting_in_a_store_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let mut cluster = Cluster::new(&store, &spec::fabric(MACHINE).unwrap(), |r| r > 1);
    cluster.full = true;
    (1000..1010).for_each(|tick| cluster.tick(tick));
    for more in [&[][..], &["--interval", "5"]] {
        let (_, _, said) = links(&store, more);
        let told = said.lines().filter(|line| line.contains("waits"));
        let told: Vec<&str> = told.collect();
        assert!(
            matches!(told[..], [one] if one.contains("2 left out, counter at its highest")),
            "{said}"
        );
    }
    // Followers tell it when it appears.
    let mut watch = Command::new(env!("CARGO_BIN_EXE_hopbyte"));
    watch.arg("watch").arg(&store).args(["--fabric", MACHINE]);
    let done = watch.args(["--speed", "0"]).output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    let told = said.matches("2 left out, counter at its highest").count();
    assert_eq!((done.status.code(), told), (Some(0), 1), "{said}");
}

#[test]
fn a_range_that_ends_before_it_begins_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let done = Command::new(env!("CARGO_BIN_EXE_hopbyte"))
        .arg("replay")
        .arg(folder.path())
        .args(["--from", "200", "--to", "100"])
        .output()
        .unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(2), "{said}");
    assert!(said.contains("found 200, after --to 100"), "{said}");
}

/// An agent that nobody accepts says so with its exit code.
#[test]
fn an_agent_whose_reports_arrive_nowhere_answers_no() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/sysfs/before");
    let agent = |to: &str| {
        let done = Command::new(env!("CARGO_BIN_EXE_hopbyte"))
            .args(["agent", "--root", root, "--name", "n1", "--period", "0.1"])
            .args(["--ticks", "2", "--to", to])
            .output()
            .unwrap();
        (done.status.code(), String::from_utf8(done.stderr).unwrap())
    };
    let (code, said) = agent("127.0.0.1:1");
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains("does a collector run") && said.contains("no report was delivered"),
        "{said}"
    );

    let mut collector = Command::new(env!("CARGO_BIN_EXE_hopbyte"));
    collector.args([
        "collect",
        "--listen",
        "127.0.0.1:0",
        "--expect",
        "n2",
        "--print",
        "none",
    ]);
    collector.args(["--period", "0.1", "--deadline", "50"]);
    let mut running = collector
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut told = std::io::BufReader::new(running.stderr.take().unwrap());
    std::io::BufRead::read_line(&mut told, &mut line).unwrap();
    let address = line.trim().rsplit(' ').next().unwrap().to_owned();
    let (code, said) = agent(&address);
    running.kill().unwrap();
    running.wait().unwrap();
    assert_eq!(code, Some(1), "{line}{said}");
    assert!(
        said.contains("not among the 1 expected") && !said.contains("does a collector run"),
        "{said}"
    );
}
