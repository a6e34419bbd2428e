//! Peers that read or write slowly, or not at all.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{Collector, resident_bytes};
use hopbyte_collect::server::now_ns;
use hopbyte_collect::stream::Stream;
use hopbyte_collect::wire::{
    Header, Hello, Kind, PREAMBLE, Part, Sampled, frame, put_report, put_source,
};
use hopbyte_fabric::Quantity;
use hopbyte_observe::counters::reading::{Layout, Port};
use hopbyte_observe::counters::values::Values;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Tests measure the memory of their common process, one after the other.
static ALONE: Mutex<()> = Mutex::new(());

const PERIOD: u64 = 200_000_000;
const SOURCES: u8 = 5;
const AGENTS: usize = 3;
const COUNTERS: usize = 4096;
const VIEWERS: usize = 50;
const TICKS: u64 = 20;

/// An agent whose reports take some hundred kilobytes.
struct Agent {
    stream: TcpStream,
    sequence: u64,
}

impl Agent {
    fn new(node: &str, to: SocketAddr) -> Self {
        Self::greeted(node, to, SOURCES)
    }

    /// An agent that has declared so many sources.
    fn greeted(node: &str, to: SocketAddr, sources: u8) -> Self {
        let mut out = PREAMBLE.to_vec();
        let hello = Hello {
            node: node.into(),
            boot: 1,
            start: now_ns(),
            period_ns: PERIOD,
        };
        frame(&mut out, Kind::Hello, |b| hello.put(b));
        let mut layout = Layout::new("", "test");
        let port = Port::Named("eth0".into());
        for n in 0..COUNTERS {
            layout.counter(&port, format!("c{n}"), Quantity::ReceivedBytes, 1.0);
        }
        for source in 0..sources {
            frame(&mut out, Kind::Source, |b| {
                put_source(source, None, &layout, b).unwrap();
            });
        }
        let mut stream = TcpStream::connect(to).unwrap();
        stream.write_all(&out).unwrap();
        Self {
            stream,
            sequence: 0,
        }
    }

    fn report(&mut self) -> std::io::Result<()> {
        let out = self.next();
        self.stream.write_all(&out)
    }

    /// The next report's frame.
    fn next(&mut self) -> Vec<u8> {
        self.sequence += 1;
        let tick = (now_ns() + PERIOD / 2) / PERIOD;
        let header = Header {
            sequence: self.sequence,
            tick,
            time_ns: tick * PERIOD,
            ..Header::default()
        };
        let mut values = Values::new(COUNTERS);
        (0..COUNTERS).for_each(|i| values.set(i, Some((u64::MAX / 3) ^ (i as u64) << 50)));
        let sources = (0..SOURCES).map(|source| Sampled {
            part: Part {
                source,
                ..Sampled::new(&values, None).part
            },
            values: &values,
            base: None,
        });
        let mut out = Vec::new();
        frame(&mut out, Kind::Report, |b| {
            put_report(&header, sources.collect::<Vec<_>>(), b);
        });
        out
    }
}

#[test]
fn viewers_that_do_not_read_share_their_backlog_and_lose_no_tick() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let collector = Collector::start(common::setup(PERIOD), None);
    let mut agents: Vec<Agent> = (0..AGENTS)
        .map(|n| Agent::new(&format!("n{n}"), collector.tcp))
        .collect();
    let tcp = collector.tcp.to_string();
    let mut viewers: Vec<Stream> = (0..VIEWERS)
        .map(|_| Stream::connect(&tcp, None, None).unwrap())
        .collect();
    let before = resident_bytes();
    for _ in 0..TICKS {
        sleep(Duration::from_nanos(PERIOD - now_ns() % PERIOD));
        agents.iter_mut().for_each(|agent| agent.report().unwrap());
    }
    collector.until("all reports", |closings, _| {
        closings
            .iter()
            .filter(|c| c.reported == AGENTS as u64)
            .count()
            + 2
            >= TICKS as usize
    });
    let grown = resident_bytes().saturating_sub(before);
    println!("{VIEWERS} viewers behind by {TICKS} ticks: {grown} bytes");
    // Of their own, each would hold 10 MB.
    assert!(grown < 100_000_000, "{grown} bytes");
    // One of them reads at last: every tick is there, whole.
    let closings = collector.closings.lock().unwrap().clone();
    let (mut ticks, last) = (Vec::new(), closings.last().unwrap().tick);
    while ticks.last() < Some(&last) {
        let closing = viewers[7].next(|_, _, _| {}).unwrap().unwrap();
        ticks.push(closing.tick);
    }
    assert!(ticks.len() as u64 + 4 >= TICKS, "{ticks:?}");
    assert!(ticks.windows(2).all(|w| w[0] + 1 == w[1]), "{ticks:?}");
}

/// Begins a frame and does not end it.
fn stall(n: usize, to: SocketAddr) -> TcpStream {
    let Agent { mut stream, .. } = Agent::greeted(&format!("slow{n}"), to, 0);
    let mut begun = Vec::new();
    frame(&mut begun, Kind::Report, |b| {
        b.resize(b.len() + 255_000, 0);
    });
    begun.truncate(250_000);
    // Refused ones are closed.
    let _ = stream.write_all(&begun);
    stream
}

/// Agents that begin frames and do not end them: the sum is bounded, those that hold most for longest are closed, and the
/// reports of one that is served arrive in every tick, although in two pieces.
#[test]
fn incomplete_frames_are_bounded_together() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let collector = Collector::start(common::setup(PERIOD), None);
    let before = resident_bytes();
    let mut streams: Vec<TcpStream> = (0..1_200).map(|n| stall(n, collector.tcp)).collect();
    collector.noted("an incomplete frame, of which all connections hold");
    let grown = resident_bytes().saturating_sub(before);
    println!("1,200 incomplete frames: {grown} bytes");
    assert!(grown < 400_000_000, "{grown} bytes");
    let mut agent = Agent::new("n1", collector.tcp);
    let reports = 20;
    for n in 0..reports {
        sleep(Duration::from_nanos(PERIOD - now_ns() % PERIOD));
        let out = agent.next();
        let (first, second) = out.split_at(out.len() / 2);
        agent.stream.write_all(first).unwrap();
        // The sum is full again.
        streams.push(stall(10_000 + n, collector.tcp));
        sleep(Duration::from_millis(20));
        agent.stream.write_all(second).unwrap();
    }
    collector.until("all reports", |closings, _| {
        let reported: u64 = closings.iter().map(|c| c.reported.min(1)).sum();
        reported >= reports as u64 - 2
    });
    let notes = collector.notes.lock().unwrap();
    assert!(
        !notes.iter().any(|n| n.contains("a report of n1")),
        "{notes:?}"
    );
    // None of its connections was closed: it is the first one.
    agent.stream.set_nonblocking(true).unwrap();
    agent.report().unwrap();
    let shed = collector.health.incomplete_frames.load(Ordering::Relaxed);
    assert!(shed > 100 + reports as u64 / 2, "{shed}");
}

/// The kernel asks after peers that fell silent, as after a power failure: their connections end.
#[test]
fn silent_peers_are_asked_whether_they_live() {
    let collector = Collector::start(common::setup(PERIOD), None);
    let agent = Agent::new("n1", collector.tcp);
    collector.until("the node", |closings, _| {
        closings.last().is_some_and(|c| c.expected == 1)
    });
    let port = format!(":{:04X}", collector.tcp.port());
    // Local address, state 01 (established), and timer 02 (keep-alive). Data that the peer has yet to acknowledge has the
    // timer of retransmission in its place for a moment.
    let asks = |row: &str| {
        let words: Vec<&str> = row.split_whitespace().collect();
        words[1].ends_with(&port) && words[3] == "01" && words[5].starts_with("02:")
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        if table.lines().skip(1).any(asks) {
            break;
        }
        let rows: Vec<&str> = table.lines().filter(|row| row.contains(&port)).collect();
        assert!(Instant::now() < deadline, "{rows:#?}");
        sleep(Duration::from_millis(20));
    }
    drop(agent);
}
