//! A collector on real sockets: misbehaving peers are refused with a reason, others are unaffected.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;
#[allow(dead_code, reason = "the store's tests use more of it")]
#[path = "faults/disk.rs"]
mod disk;

use common::{Collector, resident_bytes};
use hopbyte_collect::block::{Cluster, split};
use hopbyte_collect::bytes::Take;
use hopbyte_collect::datagram;
use hopbyte_collect::lines;
use hopbyte_collect::server::{Server, Setup, now_ns};
use hopbyte_collect::store::{Keeping, LogReader, Store, logs};
use hopbyte_collect::wire::{
    Header, Hello, Kind, PREAMBLE, Sampled, Token, frame, next_frame, put_report, put_source,
};
use hopbyte_fabric::Quantity;
use hopbyte_fabric::random::Random;
use hopbyte_observe::counters::reading::{Layout, Port};
use hopbyte_observe::counters::values::Values;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

const PERIOD: u64 = 100_000_000;

fn start(token: Option<Token>, store: Option<Store>) -> Collector {
    let setup = common::setup(PERIOD);
    Collector::start(Setup { token, ..setup }, store)
}

fn hello(node: &str) -> Hello {
    Hello {
        node: node.into(),
        boot: 1,
        start: now_ns(),
        period_ns: PERIOD,
    }
}

fn source(out: &mut Vec<u8>) {
    let mut layout = Layout::new("", "test");
    let port = Port::Named("eth0".into());
    layout.counter(&port, "bytes", Quantity::ReceivedBytes, 1.0);
    frame(out, Kind::Source, |b| put_source(0, None, &layout, b)).unwrap();
}

fn report(out: &mut Vec<u8>, sequence: u64, tick: u64, value: u64) {
    let header = Header {
        sequence,
        tick,
        time_ns: tick * PERIOD,
        ..Header::default()
    };
    let mut values = Values::new(1);
    values.set(0, Some(value));
    frame(out, Kind::Report, |b| {
        put_report(&header, [Sampled::new(&values, None)], b);
    });
}

/// A node that reports every tick from its own thread until dropped.
struct Node(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Node {
    fn start(name: &str, to: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (asked, hello) = (stop.clone(), hello(name));
        let thread = std::thread::spawn(move || {
            let mut stream = TcpStream::connect(to).unwrap();
            let mut out = PREAMBLE.to_vec();
            frame(&mut out, Kind::Hello, |b| hello.put(b));
            source(&mut out);
            stream.write_all(&out).unwrap();
            for sequence in 1.. {
                let now = now_ns();
                sleep(Duration::from_nanos(PERIOD - now % PERIOD));
                let mut out = Vec::new();
                report(
                    &mut out,
                    sequence,
                    (now_ns() + PERIOD / 2) / PERIOD,
                    sequence * 10,
                );
                if asked.load(Ordering::Relaxed) || stream.write_all(&out).is_err() {
                    return;
                }
            }
        });
        Self(stop, Some(thread))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        if let Some(thread) = self.1.take() {
            let _ = thread.join();
        }
    }
}

fn answer(stream: &mut TcpStream) -> (Kind, Vec<u8>) {
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    let mut got = Vec::new();
    // Byte by byte, so that the next frame stays in the socket.
    let mut room = [0];
    loop {
        if let Some((kind, body, _)) = next_frame(&got, 1 << 20).unwrap() {
            return (kind, body.to_vec());
        }
        let n = stream.read(&mut room).unwrap();
        assert!(n > 0, "closed without an answer");
        got.extend_from_slice(&room[..n]);
    }
}

fn refused(to: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.write_all(bytes).unwrap();
    let (kind, body) = answer(&mut stream);
    assert_eq!(kind, Kind::No);
    String::from_utf8(body).unwrap()
}

#[test]
fn garbage_is_answered_with_a_sentence_and_the_rest_goes_on() {
    let collector = start(None, None);
    let _node = Node::start("n1", collector.tcp);
    let text = refused(collector.tcp, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(
        text,
        "data that is not an agent's (\"GET / HTTP/1.1\\r\\n\")"
    );
    let mut long = PREAMBLE.to_vec();
    long.extend_from_slice(b"\xff\xff\xff\x7fH");
    assert_eq!(
        refused(collector.tcp, &long),
        "a frame of 2147483647 bytes, the maximum is 1024"
    );
    let mut early = PREAMBLE.to_vec();
    report(&mut early, 1, 1, 1);
    assert_eq!(refused(collector.tcp, &early), "an unexpected frame Report");
    let mut evil = PREAMBLE.to_vec();
    frame(&mut evil, Kind::Hello, |b| hello("../../etc").put(b));
    assert!(refused(collector.tcp, &evil).starts_with("node name \"../../etc\", expected letters"));
    // Random bytes of many kinds, on both sockets.
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut random = Random::new(1);
    for n in 0..300 {
        let bytes: Vec<u8> = (0..n).map(|_| random.next_u64() as u8).collect();
        let mut framed = PREAMBLE.to_vec();
        framed.extend_from_slice(&bytes);
        for bytes in [&bytes, &framed] {
            let _ = TcpStream::connect(collector.tcp).and_then(|mut s| s.write_all(bytes));
            let _ = udp.send_to(bytes, collector.udp);
        }
    }
    let before = collector.closings.lock().unwrap().len();
    collector.until("five more complete ticks", |closings, _| {
        closings.len() > before + 5
            && closings[closings.len() - 5..]
                .iter()
                .all(|c| c.reported == 1)
    });
    // The number of messages per tick is limited.
    collector.noted("more messages");
}

#[test]
fn a_token_is_required_where_others_can_connect() {
    let token = || Some(Token::new(b"correct horse battery").unwrap());
    let setup = Setup {
        listen: vec!["0.0.0.0:0".parse().unwrap()],
        ..common::setup(PERIOD)
    };
    let error = Server::new(setup, None).err().unwrap().to_string();
    assert!(error.contains("needs a token"), "{error}");

    let collector = start(token(), None);
    let attempt = |token: Option<Token>| {
        let mut stream = TcpStream::connect(collector.tcp).unwrap();
        let (kind, challenge) = answer(&mut stream);
        assert_eq!(kind, Kind::Challenge);
        let hello = hello("n1");
        let mut out = PREAMBLE.to_vec();
        frame(&mut out, Kind::Hello, |b| {
            hello.put(b);
            if let Some(token) = token {
                let start = hello.start.to_le_bytes();
                b.extend_from_slice(&token.proof(&[&challenge, b"n1", &start]));
            }
        });
        stream.write_all(&out).unwrap();
        let (kind, body) = answer(&mut stream);
        (kind, String::from_utf8_lossy(&body).into_owned())
    };
    assert_eq!(attempt(token()).0, Kind::Welcome);
    let none = "a hello without a token, which this collector requires (--token FILE)";
    assert_eq!(attempt(None), (Kind::No, none.to_owned()));
    let other = Token::new(b"another horse battery").unwrap();
    assert_eq!(
        attempt(Some(other)).1,
        "a token that is not this collector's"
    );
    // The proof of a packet covers all of its bytes.
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (mut frames, mut packet) = (Vec::new(), Vec::new());
    frame(&mut frames, Kind::Hello, |b| hello("n2").put(b));
    datagram::wrap("n2", 5, None, &frames, &mut packet);
    udp.send_to(&packet, collector.udp).unwrap();
    collector.noted("a packet of n2 without the token");
}

#[test]
fn five_thousand_idle_connections_are_closed_and_cost_little() {
    let mut limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    limit.current = limit.maximum;
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    let collector = start(None, None);
    let _node = Node::start("n1", collector.tcp);
    collector.until("the node", |closings, _| {
        closings.last().is_some_and(|c| c.reported == 1)
    });
    let before = resident_bytes();
    let mut idle: Vec<TcpStream> = (0..5000)
        .map(|_| TcpStream::connect(collector.tcp).unwrap())
        .collect();
    collector.noted("too many connections without a hello");
    let grown = resident_bytes().saturating_sub(before);
    assert!(
        grown < 20_000_000,
        "{grown} bytes for 5,000 idle connections"
    );
    // The last connection is closed with a refusal after its timeout.
    let (kind, body) = answer(idle.last_mut().unwrap());
    assert_eq!((kind, &body[..]), (Kind::No, &b"no hello within 5 s"[..]));
    let closings = collector.closings.lock().unwrap();
    let since = closings.iter().skip_while(|c| c.reported == 0);
    let lost = since.filter(|c| c.reported == 0).count();
    // Other tests load the machine; the node may be late but is never refused.
    assert!(
        lost <= closings.len() / 4,
        "{lost} of {} ticks without the node",
        closings.len()
    );
}

#[test]
fn of_two_agents_with_one_name_the_first_is_heard() {
    let collector = start(None, None);
    let _first = Node::start("n1", collector.tcp);
    collector.until("the first", |closings, _| {
        closings.last().is_some_and(|c| c.reported == 1)
    });
    // A second agent on this machine, and one on another machine.
    for (boot, whose) in [(1, "of the same machine"), (2, "of another machine")] {
        let twin = Hello {
            boot,
            ..hello("n1")
        };
        let mut out = PREAMBLE.to_vec();
        frame(&mut out, Kind::Hello, |b| twin.put(b));
        let text = refused(collector.tcp, &out);
        assert!(text.starts_with("a second agent named n1"), "{text}");
        assert!(text.contains(whose), "{text}");
    }
    let resets = collector.closings.lock().unwrap();
    assert!(
        resets.iter().all(|c| c.reset.is_empty()),
        "values of two agents never mix"
    );
}

#[test]
fn an_agent_that_connects_anew_is_heard_there_alone() {
    let collector = start(None, None);
    let hello = hello("n1");
    let connect = || {
        let mut stream = TcpStream::connect(collector.tcp).unwrap();
        let mut out = PREAMBLE.to_vec();
        frame(&mut out, Kind::Hello, |b| hello.put(b));
        source(&mut out);
        stream.write_all(&out).unwrap();
        assert_eq!(answer(&mut stream).0, Kind::Welcome);
        stream
    };
    let mut old = connect();
    let mut new = connect();
    let mut out = Vec::new();
    report(&mut out, 1, now_ns() / PERIOD + 2, 7);
    old.write_all(&out).unwrap();
    let (kind, body) = answer(&mut old);
    let text = String::from_utf8(body).unwrap();
    assert_eq!(kind, Kind::No);
    assert_eq!(text, "a report of n1, whose name another connection uses");
    out.clear();
    report(&mut out, 1, now_ns() / PERIOD + 1, 7);
    new.write_all(&out).unwrap();
    collector.until("the report", |closings, _| {
        closings.iter().any(|c| c.reported == 1)
    });
}

#[test]
fn who_sends_too_much_is_refused() {
    let collector = start(None, None);
    let mut stream = TcpStream::connect(collector.tcp).unwrap();
    let mut out = PREAMBLE.to_vec();
    frame(&mut out, Kind::Hello, |b| hello("flood").put(b));
    source(&mut out);
    (1..2000).for_each(|i| report(&mut out, i, now_ns() / PERIOD, i));
    stream.write_all(&out).unwrap();
    collector.noted("more than 512 frames at once or 64 a tick");
    collector.until("the end of it", |closings, _| {
        closings.iter().any(|c| !c.missing.is_empty())
    });
}

#[test]
fn what_is_acknowledged_is_in_the_store_and_viewers_see_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), Keeping::default()).unwrap();
    let collector = start(None, Some(store));
    // A viewer that never reads does not slow the collector; one that reads receives complete blocks.
    let viewer = || {
        let mut stream = TcpStream::connect(collector.tcp).unwrap();
        let mut out = PREAMBLE.to_vec();
        frame(&mut out, Kind::Viewer, |_| {});
        stream.write_all(&out).unwrap();
        stream
    };
    let _lazy = viewer();
    let mut stream = TcpStream::connect(collector.tcp).unwrap();
    let mut out = PREAMBLE.to_vec();
    frame(&mut out, Kind::Hello, |b| hello("n1").put(b));
    source(&mut out);
    let tick = now_ns() / PERIOD;
    (1..=3).for_each(|i| report(&mut out, i, tick + i, 10 * i));
    stream.write_all(&out).unwrap();
    assert_eq!(answer(&mut stream).0, Kind::Welcome);
    let (kind, body) = answer(&mut stream);
    assert_eq!(kind, Kind::Acknowledged);
    let kept = Take(&body).u64().unwrap();
    assert!(kept >= 1);
    let mut log = LogReader::open(&logs(folder.path()).unwrap()[0]).unwrap();
    let mut seen = Vec::new();
    while let Some(_closing) = log
        .next_block(|cluster, id, _| {
            let node = cluster.node(id).unwrap();
            let value = node.readings(&cluster.shapes).next().unwrap().get(0);
            seen.push((node.header.sequence, value));
        })
        .unwrap()
    {}
    assert_eq!(
        seen[..kept as usize],
        [(1, Some(10)), (2, Some(20)), (3, Some(30))][..kept as usize]
    );

    let mut eager = viewer();
    // So that viewers wait for a tick, however long.
    assert_eq!(
        answer(&mut eager),
        (Kind::Welcome, PERIOD.to_le_bytes().to_vec())
    );
    let (kind, block) = answer(&mut eager);
    assert_eq!(kind, Kind::Block);
    let (entries, _) = split(&block).unwrap().unwrap();
    let mut cluster = Cluster::default();
    let closing = cluster.read(entries, |_, _, _| {}).unwrap();
    assert_eq!((closing.expected, cluster.name(0).as_str()), (1, "n1"));
    // A second writer is refused.
    let error = Store::open(folder.path(), Keeping::default())
        .unwrap_err()
        .to_string();
    assert!(
        error.ends_with("another collector writes to this store"),
        "{error}"
    );
}

#[test]
fn a_full_disk_stops_no_tick_and_costs_no_report() {
    let folder = tempfile::tempdir().unwrap();
    let disk = disk::Faulty::default();
    let store = Store::open_on(Arc::new(disk.clone()), folder.path(), Keeping::default());
    let collector = start(None, Some(store.unwrap()));
    let hello = hello("n1");
    let connect = || {
        let mut stream = TcpStream::connect(collector.tcp).unwrap();
        let mut out = PREAMBLE.to_vec();
        frame(&mut out, Kind::Hello, |b| hello.put(b));
        source(&mut out);
        stream.write_all(&out).unwrap();
        let (kind, kept) = answer(&mut stream);
        assert_eq!(kind, Kind::Welcome);
        (stream, Take(&kept).u64().unwrap())
    };
    let send = |stream: &mut TcpStream, sequence: u64| {
        let mut out = Vec::new();
        report(&mut out, sequence, now_ns() / PERIOD + 1, 10 * sequence);
        stream.write_all(&out).unwrap();
    };
    let acknowledged = |stream: &mut TcpStream, sequence: u64| {
        while Take(&answer(stream).1).u64().unwrap() < sequence {}
    };
    let (mut stream, _) = connect();
    send(&mut stream, 1);
    acknowledged(&mut stream, 1);
    disk.fail(0..u64::MAX, disk::Fault::Short);
    collector.noted("is not stored: No space left on device");
    let before = collector.closings.lock().unwrap().len();
    for sequence in 2..=4 {
        send(&mut stream, sequence);
        let seen = collector.closings.lock().unwrap().len();
        collector.until("a tick with the report", |closings, _| {
            closings[seen..].iter().any(|c| c.reported == 1)
        });
    }
    assert!(collector.closings.lock().unwrap().len() >= before + 3);
    disk.fail(0..0, disk::Fault::Full);
    collector.noted("writable again after");
    // The agent is asked to connect anew, and sends unacknowledged reports again.
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.is_empty(), "nothing was acknowledged meanwhile");
    let (mut stream, kept) = connect();
    assert_eq!(kept, 1);
    (2..=5).for_each(|sequence| send(&mut stream, sequence));
    acknowledged(&mut stream, 5);
    drop(collector);
    let mut stored = Vec::new();
    for log in logs(folder.path()).unwrap() {
        let mut log = LogReader::open(&log).unwrap();
        let mut next = || {
            log.next_block(|cluster, id, _| {
                let node = cluster.node(id).unwrap();
                let value = node.readings(&cluster.shapes).next().unwrap().get(0);
                stored.push((node.header.sequence, value));
            })
        };
        while next().unwrap().is_some() {}
        assert!(log.damage().is_none());
    }
    let expected: Vec<_> = (1..=5).map(|i| (i, Some(10 * i))).collect();
    assert_eq!(stored, expected);
}

#[test]
fn every_refused_line_is_counted() {
    let collector = start(None, None);
    let _node = Node::start("n1", collector.tcp);
    collector.until("the node", |closings, _| {
        closings.iter().any(|c| c.reported == 1)
    });
    let line = |node: &str, value: &str| {
        format!("net_bytes_in,hostname={node},stype-id=eth0 value={value}\n")
    };
    // Two that do not parse, one of a node with an agent, a metric of another subsystem, and a good one.
    let other = "load_one,hostname=n2 value=1\n".to_owned();
    let post = [
        line("n2", "-1"),
        line("../n", "1"),
        line("n1", "1"),
        other,
        line("n2", "7"),
    ];
    let verdict = collector.inlet.give(lines::parse(&post.concat())).unwrap();
    assert_eq!((verdict.kept, verdict.refused), (2, 3), "{verdict:?}");
    let counted = |c: &std::sync::atomic::AtomicU64| c.load(Ordering::Relaxed);
    let health = &collector.health;
    let found = (counted(&health.lines_kept), counted(&health.lines_refused));
    assert_eq!(found, (2, 3));
    collector.noted("lines: refused 3: line 1: found");
    // Accepted, and lost because an agent takes over the name before they are complete.
    for n in 0..50 {
        let name = format!("taken{n}");
        let verdict = collector.inlet.give(lines::parse(&line(&name, "1")));
        assert_eq!(verdict.unwrap().kept, 1);
        let _node = Node::start(&name, collector.tcp);
        sleep(Duration::from_nanos(6 * PERIOD));
        if counted(&health.lines_refused) > 3 {
            return collector.noted("lines: refused 1 that were accepted");
        }
    }
    panic!("no accepted line is counted as refused");
}
