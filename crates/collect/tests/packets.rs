//! Packets that were recorded and are sent again, and packets of many names.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::{Collector, resident_bytes};
use hopbyte_collect::block::Closing;
use hopbyte_collect::datagram;
use hopbyte_collect::gather::{Channel, Gathering, Rules};
use hopbyte_collect::server::{Setup, now_ns};
use hopbyte_collect::wire::{
    Header, Hello, Kind, Sampled, Token, frame, next_frame, put_report, put_source,
};
use hopbyte_fabric::Quantity;
use hopbyte_observe::counters::reading::{Layout, Port};
use hopbyte_observe::counters::values::Values;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

const PERIOD: u64 = 100_000_000;

fn token() -> Token {
    Token::new(b"correct horse battery").unwrap()
}

fn start() -> Collector {
    let setup = common::setup(PERIOD);
    let token = Some(token());
    Collector::start(Setup { token, ..setup }, None)
}

fn source() -> Vec<u8> {
    let mut layout = Layout::new("", "test");
    let port = Port::Named("eth0".into());
    layout.counter(&port, "bytes", Quantity::ReceivedBytes, 1.0);
    let mut out = Vec::new();
    frame(&mut out, Kind::Source, |b| put_source(0, None, &layout, b)).unwrap();
    out
}

fn socket_to(to: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(to).unwrap();
    socket
}

/// An agent that speaks by packets; everything it sends is recorded.
struct Agent {
    socket: UdpSocket,
    hello: Hello,
    sequence: u64,
    sent: Vec<Vec<u8>>,
}

impl Agent {
    fn new(node: &str, boot: u64, to: SocketAddr) -> Self {
        Self {
            socket: socket_to(to),
            hello: Hello {
                node: node.into(),
                boot,
                start: now_ns(),
                period_ns: PERIOD,
            },
            sequence: 0,
            sent: Vec::new(),
        }
    }

    fn send(&mut self, frames: &[u8]) {
        let mut packet = Vec::new();
        let (node, start) = (&self.hello.node, self.hello.start);
        datagram::wrap(node, start, Some(&token()), frames, &mut packet);
        self.socket.send(&packet).unwrap();
        self.sent.push(packet);
    }

    fn hello_frame(&self, challenge: &[u8]) -> Vec<u8> {
        let mut frames = Vec::new();
        frame(&mut frames, Kind::Hello, |b| {
            self.hello.put(b);
            b.extend_from_slice(challenge);
        });
        frames
    }

    /// The collector's challenge to a hello.
    fn challenge(&mut self) -> Vec<u8> {
        self.socket
            .set_read_timeout(Some(Duration::from_millis(300)))
            .unwrap();
        let mut room = [0; 512];
        // A challenge to an earlier hello, which was sent twice, is not this one's.
        self.socket.set_nonblocking(true).unwrap();
        while self.socket.recv(&mut room).is_ok() {}
        self.socket.set_nonblocking(false).unwrap();
        loop {
            self.send(&self.hello_frame(&[]));
            let Ok(n) = self.socket.recv(&mut room) else {
                continue;
            };
            assert!(n <= self.sent.last().unwrap().len(), "no amplification");
            let answer = next_frame(&room[..n], 512).unwrap();
            if let Some((Kind::Challenge, challenge, _)) = answer {
                return challenge.to_vec();
            }
        }
    }

    fn greet(&mut self) {
        let challenge = self.challenge();
        let mut frames = self.hello_frame(&challenge);
        frames.extend(source());
        self.send(&frames);
    }

    fn report(&mut self) {
        self.sequence += 1;
        let tick = (now_ns() + PERIOD / 2) / PERIOD;
        let header = Header {
            sequence: self.sequence,
            tick,
            time_ns: tick * PERIOD,
            ..Header::default()
        };
        let mut values = Values::new(1);
        values.set(0, Some(self.hello.boot * 1000 + self.sequence));
        let mut frames = Vec::new();
        frame(&mut frames, Kind::Report, |b| {
            put_report(&header, [Sampled::new(&values, None)], b);
        });
        self.send(&frames);
    }

    fn tick(&mut self) {
        let now = now_ns();
        sleep(Duration::from_nanos(PERIOD - now % PERIOD));
        self.report();
    }
}

/// Sends recorded packets again and again until dropped, also from the recorded address.
struct Replay(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Replay {
    fn start(old: Agent, to: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = stop.clone();
        let thread = std::thread::spawn(move || {
            let other = UdpSocket::bind("127.0.0.1:0").unwrap();
            while !asked.load(Ordering::Relaxed) {
                for packet in &old.sent {
                    other.send_to(packet, to).unwrap();
                    old.socket.send(packet).unwrap();
                    sleep(Duration::from_millis(1));
                }
            }
        });
        Self(stop, Some(thread))
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        if let Some(thread) = self.1.take() {
            let _ = thread.join();
        }
    }
}

#[test]
fn replayed_packets_neither_lock_out_nor_evict_a_rebooted_node() {
    let collector = start();
    let mut old = Agent::new("n1", 1, collector.udp);
    old.greet();
    (0..5).for_each(|_| old.tick());
    collector.until("the first boot", |c, _| c.iter().any(|c| c.reported == 1));
    // The node reboots; everything that it sent is replayed from now on.
    let _replay = Replay::start(old, collector.udp);
    sleep(Duration::from_nanos(4 * PERIOD));
    let mut new = Agent::new("n1", 2, collector.udp);
    new.greet();
    let begun = collector.closings.lock().unwrap().len();
    (0..30).for_each(|_| new.tick());
    let closings = collector.closings.lock().unwrap();
    let after = &closings[begun..];
    let reported = after.iter().filter(|c| c.reported == 1).count();
    // A busy machine may close a tick before the report; a node that was evicted would stay away.
    assert!(
        reported >= 20,
        "{reported} of {} ticks: {after:?}",
        after.len()
    );
    let resets: usize = closings.iter().map(|c| c.reset.len()).sum();
    assert_eq!(resets, 1, "one reboot");
    let notes = collector.notes.lock().unwrap();
    assert!(
        !notes.iter().any(|n| n.contains("a second agent")),
        "{notes:?}"
    );
}

#[test]
fn replayed_reports_are_no_sign_of_life() {
    let collector = start();
    let mut agent = Agent::new("n1", 1, collector.udp);
    agent.greet();
    (0..5).for_each(|_| agent.tick());
    collector.until("the node", |c, _| c.iter().any(|c| c.reported == 1));
    let _replay = Replay::start(agent, collector.udp);
    collector.until("its absence", |c, _| {
        c.len() > 10
            && c[c.len() - 5..]
                .iter()
                .all(|c| c.reported == 0 && c.missing.len() == 1)
    });
    let stale = collector.health.stale_packets.load(Ordering::Relaxed);
    assert!(stale > 5, "{stale} stale packets");
    let closings = collector.closings.lock().unwrap();
    let late: usize = closings.iter().map(|c| c.late.len()).sum();
    assert!(late <= 5, "{late} late reports of 5");
}

/// Hellos of so many names, with the answers to their challenges if `answers`; meanwhile the known agent reports.
fn flood(collector: &Collector, known: &mut Agent, names: usize, answers: bool) {
    let mut agent = Agent::new("flood", 1, collector.udp);
    for n in 0..names {
        if n % 1000 == 0 {
            known.report();
        }
        agent.hello.node = format!("flood{n}");
        agent.sent.clear();
        if answers {
            // A socket for each name: on a busy machine the challenge to an earlier name would arrive as that to this one.
            agent.socket = socket_to(collector.udp);
            agent.greet();
        } else {
            let frames = agent.hello_frame(&[]);
            agent.send(&frames);
        }
    }
}

#[test]
fn a_flood_of_names_takes_no_memory_and_no_names() {
    let collector = start();
    let mut known = Agent::new("n1", 1, collector.udp);
    known.greet();
    known.tick();
    collector.until("the node", |c, _| c.iter().any(|c| c.reported == 1));
    let before = resident_bytes();
    // The full run of a million: HOPBYTE_FULL=1.
    let many = if std::env::var_os("HOPBYTE_FULL").is_some() {
        50
    } else {
        1
    };
    flood(&collector, &mut known, 20_000 * many, false);
    let idle = resident_bytes().saturating_sub(before);
    flood(&collector, &mut known, 6_000 * many, true);
    let grown = resident_bytes().saturating_sub(before);
    println!(
        "{} hellos: {idle} bytes; {} answered challenges: {grown} bytes",
        20_000 * many,
        6_000 * many
    );
    // Of names without a report 4,096 are kept; replayed and recorded packets of this test are not.
    assert!(grown < 24_000_000, "{grown} bytes");
    let forgotten = || collector.health.forgotten_names.load(Ordering::Relaxed);
    collector.until("forgotten names", |_, _| forgotten() > 1000);
    // The known name and a new one report as before.
    let mut new = Agent::new("n2", 1, collector.udp);
    new.greet();
    let both = |closings: &[Closing]| closings.iter().rev().take(3).any(|c| c.reported == 2);
    for _ in 0..100 {
        let now = now_ns();
        sleep(Duration::from_nanos(PERIOD - now % PERIOD));
        known.report();
        new.report();
        if both(&collector.closings.lock().unwrap()) {
            return;
        }
    }
    let closings = collector.closings.lock().unwrap();
    panic!("{:?}", &closings[closings.len() - 3..]);
}

/// A collector that was stopped, or whose clock was set, for longer than the silence after which a node is forgotten.
#[test]
fn a_collector_that_stood_for_long_still_knows_the_agents_of_packets() {
    const SECOND: u64 = 1_000_000_000;
    let mut gathering = Gathering::new(Rules::default(), SECOND);
    let hello = Hello {
        node: "n1".into(),
        boot: 1,
        start: 1,
        period_ns: SECOND,
    };
    let from = Channel::Datagrams("127.0.0.1:7".parse().unwrap());
    let (id, _) = gathering.hello(&hello, from, SECOND).unwrap();
    let frames = source();
    let (_, body, _) = next_frame(&frames, 1 << 16).unwrap().unwrap();
    gathering.source(id, body).unwrap();
    let mut now = SECOND;
    for (sequence, pause) in [(1, 1), (2, 1), (3, 400 * 86_400), (4, 1), (5, 700)] {
        now += pause * SECOND;
        // The tick that was open closes first; packets waited in the socket.
        gathering.close(now);
        gathering.next(now, true);
        let header = Header {
            sequence,
            tick: now / SECOND,
            time_ns: now,
            ..Header::default()
        };
        let mut values = Values::new(1);
        values.set(0, Some(sequence));
        let mut body = Vec::new();
        put_report(&header, [Sampled::new(&values, None)], &mut body);
        gathering.heard_on(id, from);
        let taken = gathering.report(id, &body, now);
        assert!(taken.is_ok(), "{sequence}: {taken:?}");
    }
    // Silence is silence again.
    for _ in 0..700 {
        now += SECOND;
        gathering.close(now);
        gathering.next(now, true);
    }
    assert_eq!(gathering.channel(id), Channel::None);
}
