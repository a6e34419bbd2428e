//! The Linux source on real interfaces: a cable in a network namespace of its own, shaped and flooded.

#![allow(unsafe_code)]

use hopbyte_fabric::Quantity;
use hopbyte_observe::counters::reading::Reading;
use hopbyte_observe::sources::{Places, Source, glancing, open};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// Runs a command in the thread's namespace; false if it failed.
fn run(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let done = Command::new(words[0]).args(&words[1..]).output();
    done.is_ok_and(|d| d.status.success())
}

fn linux(places: &Places) -> Option<Source> {
    let mut sources = open(places).into_iter().flatten();
    sources.find(|s| s.layout().source == "linux")
}

fn value(reading: &Reading, port: &str, name: &str) -> Option<u64> {
    let layout = &reading.layout;
    let port = layout.ports.iter().position(|p| p.to_string() == port)?;
    let mut counters = layout.counters.iter();
    let at = counters.position(|c| c.port as usize == port && c.name == name);
    reading.get(at?)
}

#[test]
fn a_flooded_cable_shows_its_queue_and_what_it_carried() {
    // SAFETY: only this thread gets a namespace of its own; it shares no descriptor with others.
    if unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.is_err() || !run("ip link set lo up") {
        eprintln!("skipped: needs root and ip");
        return;
    }
    assert!(run("ip link add left type veth peer name right"));
    assert!(run("ip link set left up") && run("ip link set right up"));
    assert!(run("ip addr add 10.9.9.1/24 dev left"));
    assert!(run(
        "ip neigh add 10.9.9.2 lladdr 02:00:00:00:00:01 dev left"
    ));
    let mut source = linux(&Places::here("n1")).unwrap();
    let plain = source.sample().unwrap().layout.clone();
    let names: Vec<String> = plain.ports.iter().map(ToString::to_string).collect();
    let mut sorted = names.clone();
    sorted.sort();
    assert_eq!(sorted, ["left", "right"], "no loopback");

    // 1 Mbit/s with a queue of 50 kB.
    assert!(run(
        "tc qdisc add dev left root tbf rate 1mbit burst 2kb limit 50kb"
    ));
    let first = source.sample().unwrap().clone();
    assert!(!Arc::ptr_eq(&plain, &first.layout), "a queue came");
    assert_eq!(value(&first, "left", "qdisc_rate"), Some(125_000));
    assert_eq!(value(&first, "right", "qdisc_backlog"), None);
    let socket = std::net::UdpSocket::bind("10.9.9.1:0").unwrap();
    for _ in 0..100 {
        let _ = socket.send_to(&[0; 1000], "10.9.9.2:9");
    }
    glancing(
        std::slice::from_mut(&mut source),
        Duration::from_millis(200),
    );
    let second = source.sample().unwrap().clone();
    assert!(Arc::ptr_eq(&first.layout, &second.layout));
    let grew =
        |port, name| value(&second, port, name).unwrap() - value(&first, port, name).unwrap();
    assert!(value(&second, "left", "qdisc_backlog").unwrap() > 10_000);
    assert!(grew("left", "qdisc_overlimits") > 0);
    assert!(grew("left", "qdisc_drops") > 0, "100 kB do not fit in 50");
    let waited = grew("left", "qdisc_waited_ns");
    assert!((150_000_000..2_000_000_000).contains(&waited), "{waited}");
    // What left the full queue, at the rate of the shaper within a frame or two a look.
    let served = ["qdisc_served_bytes", "qdisc_served_ns"].map(|n| grew("left", n) as f64);
    assert!((1e8..2e9).contains(&served[1]), "{served:?}");
    let rate = served[0] / served[1] * 1e9;
    assert!((100e3..150e3).contains(&rate), "{rate}");
    assert_eq!(grew("left", "tx_bytes"), grew("right", "rx_bytes"));
    assert!(grew("left", "tx_bytes") > 1000);
    let queued = second
        .layout
        .counters
        .iter()
        .filter(|c| c.quantity == Quantity::QueuedBytes);
    assert_eq!(queued.count(), 1);

    // A discipline that holds packets back of its own accord says nothing about the link.
    if run("tc qdisc replace dev left root fq") {
        let paced = source.sample().unwrap();
        assert_eq!(value(paced, "left", "qdisc_waited_ns"), None);
        assert_eq!(value(paced, "left", "qdisc_backlog"), Some(0));
    } else {
        eprintln!("this kernel has no fq");
    }

    // Without a carrier both ends have a rate of 0.
    assert!(run("ip link set right down"));
    let cut = source.sample().unwrap();
    for end in ["left", "right"] {
        assert_eq!(value(cut, end, "rx_speed"), Some(0), "{end}");
    }

    // An interface is removed with its counters; another is added.
    assert!(run("ip link del left") && run("ip link add east type veth peer name west"));
    let third = source.sample().unwrap();
    assert_eq!(value(third, "east", "rx_bytes"), Some(0));
    assert_eq!(value(third, "left", "rx_bytes"), None);
}
