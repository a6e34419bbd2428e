//! More agents than processor time: ticks close at their deadline, late reports are kept, and the collector recovers.
//!
//! The collector is a process of its own, limited by a throttle that stops and continues it by signals (like
//! `cpulimit`; no cgroup and no root needed). The sample has 500 agents at an eightieth of a core, so that an agent has
//! the same share as in the full run of 10,000 agents at a quarter of a core: `HOPBYTE_FULL=1 cargo test --release -p
//! hopbyte-collect --test overload -- --nocapture`.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use hopbyte_collect::bytes::Take;
use hopbyte_collect::server::{Server, Told, now_ns};
use hopbyte_collect::wire::{
    Header, Hello, Kind, PREAMBLE, Sampled, frame, next_frame, put_report, put_source,
};
use hopbyte_fabric::Quantity;
use hopbyte_observe::counters::reading::{Layout, Port};
use hopbyte_observe::counters::values::Values;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::sleep;
use std::time::Duration;

const PERIOD: u64 = 500_000_000;
const COUNTERS: usize = 200;

fn raise_descriptors() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
}

/// The throttled process: prints its address, then a line for every tick.
#[test]
#[ignore = "a part of the other test"]
fn collector_process() {
    let mut server = Server::new(common::setup(PERIOD), None).unwrap();
    println!("\naddress {}", server.addresses().unwrap()[0]);
    let health = server.health();
    let told = |told: Told<'_>| {
        if let Told::Closed(c, ..) = told {
            let deferred = health.deferred_reads.load(Ordering::Relaxed);
            let after = c.closed_ns.saturating_sub(c.tick * PERIOD);
            println!(
                "tick {} {} {} {} {after} {deferred}",
                c.tick,
                c.expected,
                c.reported,
                c.late.len()
            );
        }
        true
    };
    server.run(told).unwrap();
}

/// How a tick closed.
#[derive(Clone, Debug)]
struct Closed {
    tick: u64,
    expected: u64,
    reported: u64,
    late: u64,
    after_ns: u64,
    deferred: u64,
}

impl Closed {
    fn read(line: &str) -> Option<Self> {
        let numbers = line.strip_prefix("tick ")?.split(' ').map(str::parse);
        let n: Vec<u64> = numbers.collect::<Result<_, _>>().ok()?;
        Some(Self {
            tick: n[0],
            expected: n[1],
            reported: n[2],
            late: n[3],
            after_ns: n[4],
            deferred: n[5],
        })
    }
}

/// Kills the process at the end.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Lets a process run for `share` ten-thousandths of the time, until it ends.
fn throttle(pid: Pid, share: Arc<AtomicU64>) {
    const TURN_US: u64 = 100_000;
    std::thread::spawn(move || {
        loop {
            let runs = TURN_US * share.load(Ordering::Relaxed) / 10_000;
            if runs < TURN_US && kill_process(pid, Signal::STOP).is_err() {
                return;
            }
            sleep(Duration::from_micros(TURN_US - runs));
            if runs > 0 && kill_process(pid, Signal::CONT).is_err() {
                return;
            }
            sleep(Duration::from_micros(runs));
        }
    });
}

/// All agents: they connect, and then report in every tick until told to stop. Returns the connections and the number
/// of reports on each.
fn fleet(agents: usize, to: SocketAddr, stop: &AtomicU64) -> (Vec<TcpStream>, u64) {
    let mut layout = Layout::new("", "emulated");
    for i in 0..COUNTERS {
        let port = Port::Tile((i % 48) as u16);
        layout.counter(
            &port,
            format!("counter_{i:03}"),
            Quantity::ReceivedBytes,
            1.0,
        );
    }
    let mut source = Vec::new();
    frame(&mut source, Kind::Source, |b| {
        put_source(0, None, &layout, b)
    })
    .unwrap();
    let mut streams: Vec<TcpStream> = (0..agents)
        .map(|i| {
            let mut stream = TcpStream::connect(to).unwrap();
            let hello = Hello {
                node: format!("n{i:05}"),
                boot: 1,
                start: 1,
                period_ns: PERIOD,
            };
            let mut out = PREAMBLE.to_vec();
            frame(&mut out, Kind::Hello, |b| hello.put(b));
            out.extend_from_slice(&source);
            stream.write_all(&out).unwrap();
            stream
        })
        .collect();
    let mut before: Option<Values> = None;
    for sequence in 1.. {
        let now = now_ns();
        sleep(Duration::from_nanos(PERIOD - now % PERIOD));
        let tick = (now_ns() + PERIOD / 2) / PERIOD;
        if tick >= stop.load(Ordering::Relaxed) {
            return (streams, sequence - 1);
        }
        let header = Header {
            sequence,
            tick,
            time_ns: tick * PERIOD,
            ..Header::default()
        };
        let mut values = Values::new(COUNTERS);
        (0..COUNTERS).for_each(|c| values.set(c, Some(sequence * 1_000_003 * (c as u64 + 1))));
        let mut out = Vec::new();
        frame(&mut out, Kind::Report, |b| {
            put_report(&header, [Sampled::new(&values, before.as_ref())], b);
        });
        before = Some(values);
        streams.iter_mut().for_each(|s| s.write_all(&out).unwrap());
    }
    (streams, 0)
}

/// The highest sequence number that the collector acknowledged on a connection, once it is the last one.
fn acknowledged(stream: &mut TcpStream, last: u64) -> u64 {
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let (mut came, mut room, mut highest) = (Vec::new(), [0; 4096], 0);
    while highest < last {
        let Ok(n @ 1..) = stream.read(&mut room) else {
            break;
        };
        came.extend_from_slice(&room[..n]);
        while let Some((kind, body, whole)) = next_frame(&came, 1 << 16).unwrap() {
            if kind == Kind::Acknowledged {
                highest = Take(body).u64().unwrap();
            }
            came.drain(..whole);
        }
    }
    highest
}

#[test]
fn an_overloaded_collector_keeps_everything_and_recovers_in_two_ticks() {
    raise_descriptors();
    let full = std::env::var_os("HOPBYTE_FULL").is_some();
    // Of ten thousand: the full run has a quarter of a core.
    let (agents, share) = if full { (10_000, 2500) } else { (500, 125) };
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "collector_process", "--nocapture"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = Process(child);
    let pid = Pid::from_child(&child.0);
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    let address = loop {
        let line = lines.next().unwrap().unwrap();
        if let Some(address) = line.strip_prefix("address ") {
            break address.parse().unwrap();
        }
    };
    let (send, closed) = mpsc::channel();
    std::thread::spawn(move || {
        let all = lines.map_while(Result::ok);
        let mut all = all.filter_map(|line| Closed::read(&line));
        let _ = all.try_for_each(|c| send.send(c));
    });
    let stop = Arc::new(AtomicU64::new(u64::MAX));
    let asked = stop.clone();
    let fleet = std::thread::spawn(move || fleet(agents, address, &asked));
    let mut seen: Vec<Closed> = Vec::new();
    let until = |seen: &mut Vec<Closed>, holds: &dyn Fn(&Closed) -> bool| {
        loop {
            let next = closed.recv_timeout(Duration::from_secs(60));
            let next = next.unwrap_or_else(|_| panic!("no tick; {:?}", seen.last()));
            let done = holds(&next);
            seen.push(next);
            if done {
                return;
            }
            assert!(seen.len() < 400, "{:?}", &seen[380..]);
        }
    };
    let complete = |c: &Closed| c.reported == agents as u64 && c.expected == c.reported;
    until(&mut seen, &complete);

    // No processor time at all for six ticks, then its share.
    let limit = Arc::new(AtomicU64::new(0));
    throttle(pid, limit.clone());
    sleep(Duration::from_nanos(6 * PERIOD));
    limit.store(share, Ordering::Relaxed);
    let throttled = now_ns() / PERIOD;
    until(&mut seen, &|c| c.tick >= throttled + 12);
    limit.store(10_000, Ordering::Relaxed);
    let released = now_ns() / PERIOD;
    until(&mut seen, &|c| c.tick > released && complete(c));
    let recovered = seen.last().unwrap().tick;
    stop.store(recovered + 2, Ordering::Relaxed);
    let (mut streams, sent) = fleet.join().unwrap();
    // Every report of every agent is acknowledged, at most eight ticks after the last one.
    for stream in &mut streams {
        assert_eq!(acknowledged(stream, sent), sent);
    }

    let during: Vec<&Closed> = (seen.iter())
        .filter(|c| (throttled..=released).contains(&c.tick))
        .collect();
    for c in &during {
        println!("{c:?}");
    }
    println!("recovered in {} ticks", recovered - released);
    let late: u64 = seen.iter().map(|c| c.late).sum();
    let deferred = seen.last().unwrap().deferred;
    println!("{sent} reports of each agent, {late} late, {deferred} reads put off");
    assert!(late > 0, "no overload");
    // Ticks close while more is waiting: half a tick after the deadline at most, with the throttle's turns.
    let slow = during.iter().filter(|c| c.after_ns > 2 * PERIOD).count();
    assert!(slow <= during.len() / 3, "{during:?}");
    // A loaded machine may delay the fleet itself.
    let most = if full { 2 } else { 6 };
    assert!(
        recovered - released <= most,
        "{} ticks",
        recovered - released
    );
}
