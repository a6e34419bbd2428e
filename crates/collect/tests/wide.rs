//! Nodes with hundreds and thousands of interfaces, by every way.

#![allow(clippy::unwrap_used)]

mod common;

use common::Collector;
use hopbyte_collect::agent::{Agent, Setup, Target};
use hopbyte_collect::block::{Cluster, split};
use hopbyte_observe::sources::{Places, open};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

const PERIOD: u64 = 200_000_000;

/// Files of an interface whose content is the same for all.
const SAME: [(&str, &str); 12] = [
    ("speed", "100000\n"),
    ("operstate", "up\n"),
    ("mtu", "9000\n"),
    ("statistics/tx_bytes", "1000000000001\n"),
    ("statistics/rx_packets", "1000000000002\n"),
    ("statistics/tx_packets", "1000000000003\n"),
    ("statistics/rx_errors", "1000000000004\n"),
    ("statistics/tx_errors", "1000000000005\n"),
    ("statistics/rx_dropped", "1000000000006\n"),
    ("statistics/tx_dropped", "1000000000007\n"),
    ("statistics/rx_crc_errors", "1000000000008\n"),
    ("statistics/collisions", "1000000000009\n"),
];

/// A captured tree with the statistics of many interfaces. Equal files are links: a disk takes minutes to create so many.
fn tree(root: &Path, interfaces: usize) {
    for n in 0..interfaces {
        let folder = root.join(format!("sys/class/net/enp{n}s0f0"));
        fs::create_dir_all(folder.join("statistics")).unwrap();
        fs::create_dir_all(folder.join("device")).unwrap();
        let value = 1_000_000_000_000 + 1000 * n as u64;
        fs::write(folder.join("statistics/rx_bytes"), format!("{value}\n")).unwrap();
        for (name, content) in SAME {
            let first = root.join(name.replace('/', "-"));
            if n == 0 {
                fs::write(&first, content).unwrap();
            }
            fs::hard_link(first, folder.join(name)).unwrap();
        }
    }
}

/// Received bytes by port.
type Ports = BTreeMap<String, Option<u64>>;

#[test]
fn five_hundred_interfaces_arrive_by_tcp_and_by_udp() {
    let said = arrive(500, PERIOD, &["tcp", "udp"]);
    assert!(said.is_empty(), "{said:?}");
}

/// Of 50,000 counters the absolute values do not fit into one report: those that are left out follow in the next ones.
#[test]
fn five_thousand_interfaces_arrive_by_tcp() {
    let said = arrive(5_000, 2_000_000_000, &["tcp"]);
    println!("{said:?}");
}

/// Waits until all interfaces of a node arrived with their values; returns the agent's messages of what does not fit.
fn arrive(interfaces: usize, period_ns: u64, ways: &[&str]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    tree(folder.path(), interfaces);
    let messages = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::new(Mutex::new(BTreeMap::<String, Ports>::new()));
    let kept = seen.clone();
    let mut cluster = Cluster::default();
    let collector = Collector::watched(common::setup(period_ns), None, move |block| {
        let (entries, _) = split(block).unwrap().unwrap();
        let read = cluster.read(entries, |cluster, id, _| {
            let node = cluster.node(id).unwrap();
            let mut ports = Ports::new();
            for reading in node.readings(&cluster.shapes) {
                for (counter, i) in reading.layout.counters.iter().zip(0..) {
                    if counter.name == "rx_bytes" {
                        let port = &reading.layout.ports[usize::from(counter.port)];
                        ports.insert(port.to_string(), reading.get(i));
                    }
                }
            }
            kept.lock()
                .unwrap()
                .entry(node.name.to_string())
                .or_default()
                .extend(ports);
        });
        read.unwrap();
    });
    for &name in ways {
        let to = match name {
            "udp" => format!("udp://{}", collector.udp),
            _ => collector.tcp.to_string(),
        };
        let places = Places::captured(folder.path(), name);
        let sources = open(&places).into_iter().map(Result::unwrap).collect();
        let setup = Setup {
            node: name.into(),
            to: Target::parse(&to).unwrap(),
            token: None,
            trust: None,
            period_ns,
            keep: 10,
        };
        let messages = messages.clone();
        std::thread::spawn(move || {
            let mut agent = Agent::new(setup, sources);
            let say = |text: &str| {
                if text.contains("fit") {
                    messages.lock().unwrap().push(text.to_owned());
                }
            };
            agent.run(say, |_, _| true).unwrap();
        });
    }
    let complete = |name: &str| {
        let seen = seen.lock().unwrap();
        let ports = seen.get(name);
        ports.is_some_and(|p| p.len() == interfaces && p.values().all(Option::is_some))
    };
    collector.until("all ports by every way", |_, _| {
        ways.iter().all(|way| complete(way))
    });
    let seen = seen.lock().unwrap();
    for way in ways {
        let last = format!("enp{}s0f0", interfaces - 1);
        let value = 1_000_000_000_000 + 1000 * (interfaces as u64 - 1);
        assert_eq!(seen[*way][&last], Some(value));
        assert_eq!(seen[*way], seen[ways[0]]);
    }
    messages.lock().unwrap().clone()
}
