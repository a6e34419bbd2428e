//! Names of every kind by every way: spaces, line ends, zero bytes, four kilobytes, bytes that are not UTF-8.

#![allow(clippy::unwrap_used, clippy::panic)]

mod common;

use common::Collector;
use hopbyte_collect::agent::{Agent, Setup, Target};
use hopbyte_collect::block::{Cluster, split};
use hopbyte_collect::bytes::{put_number, put_u64};
use hopbyte_collect::lines::parse;
use hopbyte_collect::wire::{Kind, PREAMBLE, frame, next_frame};
use hopbyte_observe::sources::{Places, open};
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PERIOD: u64 = 100_000_000;

fn bad_names() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = [
        "",
        " ",
        "a b",
        "a\nb",
        "a\0b",
        "a\r\n\r\nb",
        "\x1b[2J",
        "a\"b",
        "../etc",
        "a,b",
        "é",
        "a{b}",
    ]
    .map(|name| name.as_bytes().to_vec())
    .into();
    all.extend([
        vec![b'x'; 129],
        vec![b'x'; 4096],
        vec![0xff, 0xfe],
        vec![b'a', 0xc3],
    ]);
    all
}

/// A hello under a name, as no agent would send it.
fn hello(name: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame(&mut out, Kind::Hello, |b| {
        put_number(b, name.len() as u64);
        b.extend_from_slice(name);
        [1, 1, PERIOD].iter().for_each(|&n| put_u64(b, n));
    });
    out
}

/// The text of the refusal that a connection ends with.
fn refused(mut stream: TcpStream, what: &[u8]) -> String {
    stream.write_all(what).unwrap();
    let mut answer = Vec::new();
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    stream.read_to_end(&mut answer).unwrap();
    let Some((Kind::No, text, _)) = next_frame(&answer, 4096).unwrap() else {
        panic!("{answer:?}");
    };
    String::from_utf8(text.to_vec()).unwrap()
}

#[test]
fn bad_names_of_nodes_are_refused_by_every_way_and_shown_escaped() {
    let collector = Collector::start(common::setup(PERIOD), None);
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.connect(collector.udp).unwrap();
    udp.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    for name in bad_names() {
        let shown = String::from_utf8_lossy(&name);
        let text = refused(
            TcpStream::connect(collector.tcp).unwrap(),
            &[&PREAMBLE[..], &hello(&name)].concat(),
        );
        // Of a name of 4 kB the frame is too long for a stranger.
        let why = ["node", "a frame of"];
        assert!(why.iter().any(|w| text.contains(w)), "{shown:?}: {text}");
        assert!(
            text.len() < 1000 && !text.contains(char::is_control),
            "{text:?}"
        );
        let mut packet = PREAMBLE.to_vec();
        put_u64(&mut packet, 1);
        put_number(&mut packet, name.len() as u64);
        packet.extend_from_slice(&name);
        packet.extend(hello(&name));
        udp.send(&packet).unwrap();
        let mut room = [0; 8192];
        let n = udp.recv(&mut room).unwrap();
        assert!(
            n <= packet.len() && room[4] == Kind::No as u8,
            "{shown:?}: {:?}",
            &room[..n]
        );
        // Lines are text; a line end or a space ends the name.
        let line = format!("net_bytes_in,hostname={shown},stype-id=eth0 value=1\n");
        let (points, verdict) = parse(&line);
        let sound = |node: &str| node.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.');
        assert!(
            points.iter().all(|p| sound(&p.node) && p.node.len() <= 128),
            "{points:?}"
        );
        assert!(
            points.is_empty() || shown.contains(','),
            "{points:?} {verdict:?}"
        );
        let plain = |text: &String| text.len() < 1000 && !text.contains(char::is_control);
        assert!(verdict.refusals.iter().all(plain), "{verdict:?}");
    }
    collector.until("ticks without a node", |closings, _| closings.len() > 3);
    let many = 2 * bad_names().len() as u64;
    assert_eq!(collector.health.refused.load(Ordering::Relaxed), many);
    let notes = collector.notes.lock().unwrap();
    assert!(
        notes
            .iter()
            .all(|n| n.len() < 1000 && !n.contains(char::is_control)),
        "{notes:?}"
    );
    let closings = collector.closings.lock().unwrap();
    assert!(closings.iter().all(|c| c.expected == 0), "{closings:?}");
}

/// The kernel accepts nearly every name of an interface, also from inside a container.
#[test]
fn an_interface_with_a_hostile_name_costs_its_node_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let names = [
        "eth0",
        "a$b",
        "a\"b",
        "a`b",
        "back\\slash",
        "schnittstelle-ü",
        "\x1b[2J",
        "{}",
        "%41",
    ];
    for name in names {
        let place = folder.path().join("sys/class/net").join(name);
        fs::create_dir_all(place.join("statistics")).unwrap();
        fs::create_dir_all(place.join("device")).unwrap();
        fs::write(place.join("operstate"), "up\n").unwrap();
        for (counter, value) in [("rx_bytes", "7\n"), ("tx_bytes", "8\n")] {
            fs::write(place.join("statistics").join(counter), value).unwrap();
        }
    }
    let seen = Arc::new(Mutex::new(BTreeSet::<String>::new()));
    let kept = seen.clone();
    let mut cluster = Cluster::default();
    let collector = Collector::watched(common::setup(PERIOD), None, move |block| {
        let (entries, _) = split(block).unwrap().unwrap();
        let read = cluster.read(entries, |cluster, id, _| {
            for reading in cluster.node(id).unwrap().readings(&cluster.shapes) {
                let all = reading.layout.counters.iter().enumerate();
                for (i, counter) in all.filter(|(_, c)| c.name == "rx_bytes") {
                    assert_eq!(reading.get(i), Some(7));
                    let port = &reading.layout.ports[usize::from(counter.port)];
                    kept.lock().unwrap().insert(port.to_string());
                }
            }
        });
        read.unwrap();
    });
    let setup = Setup {
        node: "n1".into(),
        to: Target::parse(&collector.tcp.to_string()).unwrap(),
        token: None,
        trust: None,
        period_ns: PERIOD,
        keep: 10,
    };
    let places = Places::captured(folder.path(), "n1");
    let sources = open(&places).into_iter().map(Result::unwrap).collect();
    std::thread::spawn(move || {
        let mut agent = Agent::new(setup, sources);
        agent.run(|_| {}, |_, _| true).unwrap();
    });
    collector.until("all interfaces", |closings, notes| {
        assert!(!notes.iter().any(|n| n.contains("refused")), "{notes:?}");
        closings.last().is_some_and(|c| c.reported == 1)
            && seen.lock().unwrap().len() == names.len()
    });
    let seen = seen.lock().unwrap();
    assert!(
        seen.contains("a%24b") && seen.contains("%1B[2J") && seen.contains("eth0"),
        "{seen:?}"
    );
}
