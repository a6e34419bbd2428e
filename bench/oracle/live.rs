//! Response times of a running oracle: `cargo bench -p hopbyte-cli --bench oracle`.
//!
//! The program itself, on 4,608 routers (gemini:16x12x24) that all report in every tick: from a
//! tick in the store to the first reply based on it; one pair over the socket (p50, p99), alone
//! and while ticks arrive; a million packed pairs; an allocation of 1,000 nodes.

#![allow(clippy::unwrap_used)]

#[path = "../../crates/cli/tests/common/cluster.rs"]
mod cluster;

use cluster::{Cluster, Served};
use hopbyte_fabric::spec;
use hopbyte_observe::oracle::{Ask, Oracle, Place};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn main() {
    let real = std::env::args().any(|word| word == "--bench");
    // `cargo test --benches` starts this without `--bench`: a small case shows that it runs.
    let (case, ticks, singles, pairs) = match real {
        true => ("gemini:16x12x24", 20, 20_000, 1_000_000),
        false => ("gemini:4x4x4", 2, 100, 1000),
    };
    let folder = tempfile::tempdir().unwrap();
    let (store, socket) = (folder.path().join("store"), folder.path().join("socket"));
    let fabric = spec::fabric(case).unwrap();
    let mut cluster = Cluster::new(&store, &fabric, |_| false);
    cluster.tick(1);
    cluster.tick(2);
    let (store, path) = (store.to_str().unwrap(), socket.to_str().unwrap());
    let words = ["--fabric", case, store, "--socket", path];
    let began = Instant::now();
    let program = std::env::var("HOPBYTE");
    let program = program.unwrap_or_else(|_| env!("CARGO_BIN_EXE_hopbyte").into());
    let served = Served::start(&program, &words);
    let mut row = Rows::new(served.pid());
    let mut oracle = Oracle::connect(path).unwrap();
    println!(
        "{case}: {} routers, {} links",
        fabric.routers().len(),
        fabric.links().len()
    );
    row.add("start to serving", &mut [began.elapsed()]);

    let nodes = fabric.nodes().len() as u32;
    let mut fresh: Vec<Duration> = (3..3 + ticks)
        .map(|tick| {
            cluster.tick(tick);
            let kept = Instant::now();
            while single(&mut oracle, 1, nodes - 1).0 < tick {}
            kept.elapsed()
        })
        .collect();
    row.add("tick kept to first answer of it", &mut fresh);
    let ask = |oracle: &mut Oracle, i: u32| {
        single(
            oracle,
            i.wrapping_mul(2_654_435_761) % nodes,
            i.wrapping_mul(40_503) % nodes,
        )
        .1
    };
    let mut alone: Vec<Duration> = (0..singles).map(|i| ask(&mut oracle, i)).collect();
    row.add("one pair, nothing else", &mut alone);
    let stop = AtomicBool::new(false);
    let mut beside = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut tick = 3 + ticks;
            while !stop.load(Ordering::Relaxed) {
                cluster.tick(tick);
                tick += 1;
                std::thread::sleep(Duration::from_millis(1000));
            }
        });
        let beside: Vec<Duration> = (0..4 * singles).map(|i| ask(&mut oracle, i)).collect();
        stop.store(true, Ordering::Relaxed);
        beside
    });
    row.add("one pair, a tick each second", &mut beside);

    let list: Vec<(u32, u32)> = (0..pairs)
        .map(|i: u32| {
            (
                i.wrapping_mul(2_654_435_761) % nodes,
                i.wrapping_mul(40_503) % nodes,
            )
        })
        .collect();
    let packed = Ask {
        packed: Some(list.len()),
        ..used()
    };
    let mut lists: Vec<Duration> = (0..10)
        .map(|_| timed(&mut oracle, &packed, &list))
        .collect();
    row.add(&format!("{pairs} pairs, packed"), &mut lists);
    let among = Ask {
        among: Some((0..1000.min(nodes)).map(Place::Number).collect()),
        pack: true,
        ..used()
    };
    let mut all: Vec<Duration> = (0..10).map(|_| timed(&mut oracle, &among, &[])).collect();
    row.add("all pairs among 1,000 nodes, packed", &mut all);
    let json = Ask {
        pack: false,
        ..among.clone()
    };
    let mut all: Vec<Duration> = (0..5).map(|_| timed(&mut oracle, &json, &[])).collect();
    row.add("the same as JSON", &mut all);
}

fn used() -> Ask {
    Ask {
        metric: Some("used".into()),
        aggregate: Some("max".into()),
        ..Ask::default()
    }
}

fn timed(oracle: &mut Oracle, ask: &Ask, pairs: &[(u32, u32)]) -> Duration {
    let began = Instant::now();
    oracle.ask(ask, pairs).unwrap();
    began.elapsed()
}

/// The version, and the time from request to reply.
fn single(oracle: &mut Oracle, from: u32, to: u32) -> (u64, Duration) {
    let ask = Ask {
        from: Some(Place::Number(from)),
        to: Some(Place::Number(to)),
        ..used()
    };
    let began = Instant::now();
    let (reply, _) = oracle.ask(&ask, &[]).unwrap();
    (reply.version, began.elapsed())
}

/// Output rows, and the oracle's processor time so far.
struct Rows {
    pid: u32,
    spent: f64,
}

impl Rows {
    fn new(pid: u32) -> Self {
        Self { pid, spent: 0.0 }
    }

    /// User and system time of the oracle, all threads, in seconds (Linux, 10 ms exactly).
    fn processor(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap();
        let rest = stat.rsplit(')').next().unwrap_or_default();
        let ticks = rest.split_whitespace().skip(11).take(2);
        ticks.filter_map(|t| t.parse::<f64>().ok()).sum::<f64>() / 100.0
    }

    fn add(&mut self, what: &str, times: &mut [Duration]) {
        let now = self.processor();
        let each = (now - std::mem::replace(&mut self.spent, now)) / times.len() as f64;
        times.sort();
        let at = |share: f64| times[((times.len() as f64 * share) as usize).min(times.len() - 1)];
        println!(
            "{what:<36} p50 {:>10.1} us  p99 {:>10.1} us  most {:>10.1} us  ({})  oracle's CPU {:>9.1} us each",
            at(0.5).as_secs_f64() * 1e6,
            at(0.99).as_secs_f64() * 1e6,
            at(1.0).as_secs_f64() * 1e6,
            times.len(),
            each * 1e6
        );
    }
}
