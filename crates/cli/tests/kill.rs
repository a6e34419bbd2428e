//! An agent and a collector are killed at random moments; no acknowledged report is lost, and
//! none is stored twice. `HOPBYTE_KILLS=200` for more kills than the default of twenty.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use hopbyte_collect::store::{LogReader, logs};
use hopbyte_fabric::random::Random;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::Duration;

fn hopbyte(words: &[&str], out: File) -> Child {
    Command::new(env!("CARGO_BIN_EXE_hopbyte"))
        .args(["--quiet", "--json"])
        .args(words)
        .stdout(out)
        .spawn()
        .unwrap()
}

/// Both processes; dropping them kills them.
struct Pair {
    collector: Child,
    agent: Child,
}

impl Drop for Pair {
    fn drop(&mut self) {
        for child in [&mut self.collector, &mut self.agent] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The highest acknowledged sequence number of every agent.
fn acknowledged(lines: &Path) -> BTreeMap<u64, u64> {
    let mut highest = BTreeMap::new();
    for line in BufReader::new(File::open(lines).unwrap()).lines() {
        // The last line of a killed agent may be torn.
        let Ok(tick) = serde_json::from_str::<Value>(&line.unwrap()) else {
            continue;
        };
        assert_eq!(tick["dropped_reports"], 0);
        let sequence = highest
            .entry(tick["start_ns"].as_u64().unwrap())
            .or_default();
        *sequence = tick["acknowledged"].as_u64().unwrap().max(*sequence);
    }
    highest
}

/// Sequence numbers of every agent in the order of the store.
fn kept(store: &Path) -> BTreeMap<u64, Vec<u64>> {
    let mut kept: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for log in logs(store).unwrap() {
        let mut reader = LogReader::open(&log).unwrap();
        while reader
            .next_block(|cluster, id, _| {
                let node = cluster.node(id).unwrap();
                kept.entry(node.start)
                    .or_default()
                    .push(node.header.sequence);
            })
            .unwrap()
            .is_some()
        {}
    }
    kept
}

#[test]
fn kills_at_random_moments_lose_nothing_that_was_acknowledged() {
    let kills: u64 = std::env::var("HOPBYTE_KILLS").map_or(20, |n| n.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let lines = folder.path().join("agent.jsonl");
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .to_string();
    let append = || {
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(&lines)
            .unwrap()
    };
    let null = || OpenOptions::new().write(true).open("/dev/null").unwrap();
    let collector = || {
        let store = store.to_str().unwrap();
        let words = [
            "collect",
            "--listen",
            &address,
            "--store",
            store,
            "--period",
            "0.02",
            "--deadline",
            "10",
        ];
        hopbyte(&words, null())
    };
    let agent = || {
        let words = [
            "agent",
            "--to",
            &address,
            "--name",
            "n1",
            "--interface",
            "lo",
            "--period",
            "0.02",
            "--keep",
            "5000",
        ];
        hopbyte(&words, append())
    };
    let mut pair = Pair {
        collector: collector(),
        agent: agent(),
    };
    let mut random = Random::new(std::process::id().into());
    for _ in 0..kills {
        sleep(Duration::from_micros(50_000 + random.next_u64() % 900_000));
        // Two of three kills hit the collector.
        let victim = if random.below(3) < 2 {
            &mut pair.collector
        } else {
            &mut pair.agent
        };
        victim.kill().unwrap();
        victim.wait().unwrap();
        if std::ptr::eq(victim, &raw const pair.collector) {
            pair.collector = collector();
        } else {
            pair.agent = agent();
        }
    }
    sleep(Duration::from_secs(3));
    drop(pair);

    let (told, kept) = (acknowledged(&lines), kept(&store));
    let all: u64 = told.values().sum();
    assert!(
        all > kills,
        "{all} reports were acknowledged over {kills} kills"
    );
    for (start, sequence) in told {
        let has = kept.get(&start).map_or(&[][..], Vec::as_slice);
        assert!(
            has.len() as u64 >= sequence,
            "{sequence} acknowledged, {} kept",
            has.len()
        );
        assert!(
            has.iter().copied().eq(1..=has.len() as u64),
            "a gap or a report twice: {has:?}"
        );
    }
}
