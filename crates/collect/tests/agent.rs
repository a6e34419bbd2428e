//! Live agents: sources that fail and recover, collectors that are slower than their agents.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::Collector;
use hopbyte_collect::agent::{Agent, Setup, Target};
use hopbyte_collect::block::{Closing, Cluster, split};
use hopbyte_collect::wire::{Header, Kind, PREAMBLE, frame, next_frame};
use hopbyte_observe::sources::{Places, open};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

const PERIOD: u64 = 50_000_000;

/// A router's registers as text, replaced atomically.
fn registers(path: &Path, value: u64) {
    let text = format!("AR_RTR_0_0_INQ_PRF_INCOMING_FLIT_VC0 {value}\n");
    let next = path.with_extension("next");
    fs::write(&next, text).unwrap();
    fs::rename(next, path).unwrap();
}

/// An agent in its own thread.
struct Running {
    stop: Arc<AtomicBool>,
    state: Arc<Mutex<(Header, u64)>>,
    said: Arc<Mutex<Vec<String>>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start(name: &str, to: SocketAddr, keep: usize, files: Vec<PathBuf>) -> Self {
        let mut places = Places::captured("/nonexistent", name);
        places.live = true;
        places.files = files;
        let sources = open(&places).into_iter().map(Result::unwrap).collect();
        let setup = Setup {
            node: name.into(),
            to: Target::parse(&to.to_string()).unwrap(),
            token: None,
            trust: None,
            period_ns: PERIOD,
            keep,
        };
        let (stop, state, said) = <(
            Arc<AtomicBool>,
            Arc<Mutex<(Header, u64)>>,
            Arc<Mutex<Vec<String>>>,
        )>::default();
        let shared = (stop.clone(), state.clone(), said.clone());
        let thread = std::thread::spawn(move || {
            let (stop, state, said) = shared;
            let mut agent = Agent::new(setup, sources);
            let say = |text: &str| said.lock().unwrap().push(text.to_owned());
            let go_on = |header: &Header, acknowledged| {
                *state.lock().unwrap() = (*header, acknowledged);
                !stop.load(Ordering::Relaxed)
            };
            agent.run(say, go_on).unwrap();
        });
        Self {
            stop,
            state,
            said,
            thread: Some(thread),
        }
    }

    fn state(&self) -> (Header, u64) {
        *self.state.lock().unwrap()
    }

    fn until(&self, what: &str, holds: impl Fn(&Header, u64) -> bool) {
        until(what, || {
            let (header, acknowledged) = self.state();
            holds(&header, acknowledged)
        });
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(120), "{what}");
        sleep(Duration::from_millis(20));
    }
}

/// Closings, each with the first node's values.
type Seen = Arc<Mutex<Vec<(Closing, Vec<Option<u64>>)>>>;

fn collector() -> (Collector, Seen) {
    let seen = Seen::default();
    let kept = seen.clone();
    let mut cluster = Cluster::default();
    let collector = Collector::watched(common::setup(PERIOD), None, move |block| {
        let (entries, _) = split(block).unwrap().unwrap();
        let closing = cluster.read(entries, |_, _, _| {}).unwrap();
        let sources = cluster.node(0).map(|n| n.sources.iter().flatten());
        let values = sources.into_iter().flatten().map(|s| s.values.get(0));
        kept.lock().unwrap().push((closing, values.collect()));
    });
    (collector, seen)
}

#[test]
fn a_source_that_vanishes_is_missing_until_it_returns() {
    let folder = tempfile::tempdir().unwrap();
    let (left, right) = (folder.path().join("left"), folder.path().join("right"));
    registers(&left, 10);
    registers(&right, 20);
    let (collector, seen) = collector();
    let agent = Running::start("n1", collector.tcp, 60, vec![left.clone(), right.clone()]);
    let last = |holds: fn(&Closing, &[Option<u64>]) -> bool| {
        let seen = seen.lock().unwrap();
        seen.last()
            .is_some_and(|(c, v)| c.reported == 1 && holds(c, v))
    };
    until("both", || last(|_, v| v == [Some(10), Some(20)]));
    fs::remove_file(&left).unwrap();
    until("one, and its failure", || {
        last(|c, v| v == [None, Some(20)] && c.failed == [0])
    });
    registers(&right, 21);
    until("the other goes on", || last(|_, v| v == [None, Some(21)]));
    registers(&left, 11);
    until("both again", || {
        last(|c, v| v == [Some(11), Some(21)] && c.failed.is_empty())
    });
    let said = agent.said.lock().unwrap();
    let told = |text: &str| said.iter().filter(|s| s.contains(text)).count();
    assert_eq!(
        (told("other sources are still read"), told("readable again")),
        (1, 1),
        "{said:?}"
    );
    let (header, _) = agent.state();
    assert!(header.cost.failed_reads > 1);
}

#[test]
fn a_collector_that_is_slower_than_its_agents_costs_the_oldest_reports() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("registers");
    registers(&file, 1);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let agent = Running::start("n1", listener.local_addr().unwrap(), 5, vec![file.clone()]);
    // A collector that sends its welcome and then neither reads nor acknowledges.
    let (mut stream, _) = listener.accept().unwrap();
    let mut welcome = Vec::new();
    frame(&mut welcome, Kind::Welcome, |b| {
        b.extend_from_slice(&[0; 8]);
    });
    stream.write_all(&welcome).unwrap();
    agent.until("reports are given up", |h, _| h.cost.dropped_reports > 20);
    let (header, acknowledged) = agent.state();
    assert_eq!(acknowledged, 0);
    let waiting = header.sequence - header.cost.dropped_reports;
    assert!(waiting <= 6, "{waiting} reports wait, --keep is 5");
    // It resumes: all sent reports arrive in order, and acknowledged ones are released.
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let (mut came, mut room, mut last) = (Vec::new(), [0; 4096], 0);
    while last < header.sequence {
        let n = stream.read(&mut room).unwrap();
        assert!(n > 0, "the agent gave up");
        came.extend_from_slice(&room[..n]);
        if came.starts_with(&PREAMBLE) {
            came.drain(..PREAMBLE.len());
        }
        while let Some((kind, body, whole)) = next_frame(&came, 1 << 20).unwrap() {
            if kind == Kind::Report {
                let sequence = Header::take(&mut hopbyte_collect::bytes::Take(body))
                    .unwrap()
                    .sequence;
                assert!(sequence > last, "{sequence} after {last}");
                last = sequence;
            }
            came.drain(..whole);
        }
    }
    let mut answer = Vec::new();
    frame(&mut answer, Kind::Acknowledged, |b| {
        b.extend_from_slice(&last.to_le_bytes());
    });
    stream.write_all(&answer).unwrap();
    agent.until("the acknowledgement", |_, a| a >= last);
    // It closes the connection; the agent continues with its ring and prints a message.
    drop((stream, listener));
    agent.until("it reads on", |h, _| h.sequence > last + 40);
    let said = agent.said.lock().unwrap();
    assert!(
        said.iter().any(|s| s.contains("readings are buffered")),
        "{said:?}"
    );
}
