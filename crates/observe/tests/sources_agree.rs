//! One node by every reader: the same bytes on its links from every source; everything left out is reported.

#![allow(clippy::unwrap_used)]

use hopbyte_fabric::{Fabric, LinkId, LinkState, Missing, Quantity as Q, spec};
use hopbyte_observe::counters::delta::increase;
use hopbyte_observe::counters::{Counted, Follow, join_readings, sum};
use hopbyte_observe::sources::{Places, open};
use hopbyte_observe::{CounterOptions, read_counters};
use std::fs;
use std::path::{Path, PathBuf};

fn machine() -> (Fabric, String, LinkId) {
    let fabric = spec::fabric("torus:2x2").unwrap();
    let node = fabric.nodes()[0].clone();
    (fabric, node.name, node.eject)
}

fn write(root: &Path, name: &str, content: &str) -> PathBuf {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, content).unwrap();
    path
}

fn options(node: &str) -> CounterOptions {
    CounterOptions {
        node: Some(node.into()),
        ..CounterOptions::default()
    }
}

/// Bytes that arrived by adapter and interfaces in the second reading, all zero in the first: the adapter's counters
/// include ib0, eth0 is not part of the fabric, the others are virtual.
const MOVED: [(&str, u64); 5] = [
    ("ib0", 900),
    ("eth0", 70),
    ("lo", 5),
    ("docker0", 7),
    ("br-1a2b", 3),
];
const ADAPTER: u64 = 1000;

#[test]
fn an_adapter_speaks_for_its_interfaces_in_every_reader() {
    let (fabric, node, link) = machine();
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let mut answers = Vec::new();

    // A tree of sysfs, twice.
    let mut readings = Vec::new();
    for on in [0, 1] {
        let root = root.join(format!("tree{on}"));
        let port = "sys/class/infiniband/mlx5_0/ports/1";
        write(
            &root,
            "sys/class/infiniband/mlx5_0/node_guid",
            "0a7f:bc12:45ef:d23b\n",
        );
        write(&root, &format!("{port}/link_layer"), "InfiniBand\n");
        write(&root, &format!("{port}/state"), "4: ACTIVE\n");
        write(&root, &format!("{port}/rate"), "100 Gb/sec (4X EDR)\n");
        let words = (on * ADAPTER / 4).to_string();
        write(&root, &format!("{port}/counters/port_rcv_data"), &words);
        for (name, bytes) in MOVED {
            let file = format!("sys/class/net/{name}/statistics/rx_bytes");
            write(&root, &file, &(on * bytes).to_string());
        }
        for source in open(&Places::captured(&root, &node)) {
            let mut source = source.unwrap();
            let left_out: usize = source.left_out().counts().map(|(_, n)| n).sum();
            assert_eq!(
                left_out,
                if source.layout().source == "linux" {
                    3
                } else {
                    0
                }
            );
            readings.push(source.sample().unwrap().clone());
        }
    }
    // Also with a single reading: totals since the counters began.
    for count in [readings.len(), 2] {
        let last = readings[readings.len() - count..].to_vec();
        let joined = join_readings(last, "tree", &fabric, &options(&node)).unwrap();
        answers.push(("sysfs", sum(joined).unwrap()));
    }

    // An exporter's text, twice.
    let scrape = |on: u64| {
        let mut text = format!(
            "node_infiniband_port_data_received_bytes_total{{device=\"mlx5_0\",port=\"1\",host=\"{node}\"}} {}\n",
            on * ADAPTER
        );
        for (name, bytes) in MOVED {
            let bytes = on * bytes;
            text += &format!(
                "node_network_receive_bytes_total{{device=\"{name}\",host=\"{node}\"}} {bytes}\n"
            );
        }
        write(root, &format!("scrape{on}"), &text)
    };
    let files = [scrape(0), scrape(1)];
    answers.push((
        "OpenMetrics",
        read_counters(&files, &fabric, &options(&node)).unwrap(),
    ));

    // LDMS's CSV.
    let columns: Vec<String> = MOVED.iter().map(|(n, _)| format!("rx_bytes#{n}")).collect();
    let mut csv = format!(
        "#Time,Time_usec,ProducerName,port_rcv_data#mlx5_0.1,{}\n",
        columns.join(",")
    );
    for on in [0, 1] {
        let row: Vec<String> = MOVED.iter().map(|(_, b)| (on * b).to_string()).collect();
        csv += &format!(
            "{}.0,0,{node},{},{}\n",
            10 + on,
            on * ADAPTER / 4,
            row.join(",")
        );
    }
    let file = write(root, "ldms.csv", &csv);
    answers.push((
        "LDMS",
        read_counters(&[file], &fabric, &options(&node)).unwrap(),
    ));

    for (reader, counted) in &answers {
        assert_eq!(
            counted.get(Q::ReceivedBytes, link),
            Some(1000.0),
            "{reader}"
        );
        let words: Vec<String> = counted.left_out.sentences().collect();
        assert!(
            words
                .iter()
                .any(|w| w.contains("eth0") && w.contains("ib0")),
            "{reader}: {words:?}"
        );
        let left_out: usize = counted.left_out.counts().map(|(_, n)| n).sum();
        // The reader of the tree reports that it does not read virtual interfaces.
        assert_eq!(
            left_out,
            if *reader == "sysfs" { 2 } else { 5 },
            "{reader}: {words:?}"
        );
    }
}

#[test]
fn two_adapters_of_a_node_add_up_and_one_without_a_link_is_silent() {
    let (fabric, node, link) = machine();
    let folder = tempfile::tempdir().unwrap();
    for (device, state, words, guid) in [
        ("mlx5_0", "4: ACTIVE\n", "25", 1),
        ("mlx5_1", "4: ACTIVE\n", "50", 2),
        ("mlx5_2", "1: DOWN\n", "9", 3),
    ] {
        let base = format!("sys/class/infiniband/{device}");
        write(
            folder.path(),
            &format!("{base}/node_guid"),
            &format!("0000:0000:0000:000{guid}\n"),
        );
        for (file, content) in [
            ("link_layer", "InfiniBand\n"),
            ("state", state),
            ("rate", "100 Gb/sec (4X EDR)\n"),
            ("counters/port_rcv_data", words),
        ] {
            write(folder.path(), &format!("{base}/ports/1/{file}"), content);
        }
    }
    let sources = open(&Places::captured(folder.path(), &node));
    let readings = sources
        .into_iter()
        .map(|s| s.unwrap().sample().unwrap().clone());
    let joined = join_readings(readings.collect(), "t", &fabric, &options(&node)).unwrap();
    let counted = sum(joined).unwrap();
    assert_eq!(counted.get(Q::ReceivedBytes, link), Some(300.0));
    assert_eq!(counted.left_out.counts().count(), 1);
}

#[test]
fn an_ethernet_adapter_adds_its_rdma_to_its_interface() {
    let (fabric, node, link) = machine();
    let folder = tempfile::tempdir().unwrap();
    let base = "sys/class/infiniband/mlx5_0";
    write(
        folder.path(),
        &format!("{base}/ports/1/link_layer"),
        "Ethernet\n",
    );
    write(
        folder.path(),
        &format!("{base}/ports/1/counters/port_rcv_data"),
        "25\n",
    );
    write(
        folder.path(),
        &format!("{base}/device/net/eth2/mtu"),
        "9000\n",
    );
    write(
        folder.path(),
        "sys/class/net/eth2/statistics/rx_bytes",
        "11\n",
    );
    let sources = open(&Places::captured(folder.path(), &node));
    let readings = sources
        .into_iter()
        .map(|s| s.unwrap().sample().unwrap().clone());
    let joined = join_readings(readings.collect(), "t", &fabric, &options(&node)).unwrap();
    let counted = sum(joined).unwrap();
    assert_eq!(counted.get(Q::ReceivedBytes, link), Some(111.0));
    assert!(counted.left_out.is_empty());
}

#[test]
fn a_producer_that_misses_a_sample_keeps_its_place() {
    let fabric = spec::fabric("gemini:4x4x24").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut csv = String::from("#Time,Time_usec,ProducerName,X+_traffic (B),loadavg\n");
    for second in 0..4 {
        for (node, rate) in [("nid00000", 100), ("nid00010", 10), ("nid00020", 1)] {
            let is_there = match node {
                "nid00010" => second != 2,
                "nid00020" => second == 1,
                _ => true,
            };
            if is_there {
                csv += &format!("{}.0,0,{node},{},0\n", 10 + second, 5 + second * rate);
            }
        }
    }
    let file = write(folder.path(), "ldms.csv", &csv);
    let counted = read_counters(&[file], &fabric, &CounterOptions::default()).unwrap();
    let state = counted.state(&fabric);
    let arriving = |nid: &str| {
        let router = fabric.node(fabric.find_node(nid).unwrap()).router;
        let direction = hopbyte_fabric::Direction::parse("X+").unwrap();
        let leaves = fabric.link_towards(router, direction).unwrap();
        fabric.reverse(leaves).unwrap()
    };
    for (nid, bytes) in [("nid00000", 300.0), ("nid00010", 30.0)] {
        let link = arriving(nid);
        assert_eq!(state.received_bytes.get(link), Some(bytes), "{nid}");
        assert_eq!(state.window.get(link), Some(3.0), "{nid}");
        assert_eq!(state.coverage[link.index()], 1.0, "{nid}");
    }
    let words: Vec<String> = counted.left_out.sentences().collect();
    assert_eq!(
        words,
        [
            "1 left out, column that belongs to no link: loadavg",
            "1 left out, device with a single reading: nid00020 ldms"
        ]
    );
}

/// The states from files while they are rewritten.
fn followed(fabric: &Fabric, contents: &[&str], node: &str) -> Vec<LinkState> {
    let folder = tempfile::tempdir().unwrap();
    let mut follow = Follow::default();
    let mut look = |content: &&str| {
        let file = write(folder.path(), "metrics", content);
        follow
            .read(&[file], fabric, &options(node))
            .unwrap()
            .state(fabric)
    };
    contents.iter().map(&mut look).collect()
}

#[test]
fn a_followed_file_is_compared_as_two_files_are() {
    let fabric = spec::fabric("gemini:4x4x24").unwrap();
    let leaves = fabric.find_link("c0-0c0s0g0 X+").unwrap();
    let link = fabric.reverse(leaves).unwrap();
    let metrics = |ms: u64, bytes: u64| format!("timestamp {ms} ms\ntraffic_X+ {bytes} B\n");
    let contents = [
        metrics(1000, 1000),
        metrics(2000, 1_000_000_000_000_000),
        metrics(3000, 1_000_000_000_001_000),
        metrics(3000, 1_000_000_000_001_000),
    ];
    let contents = contents.each_ref().map(String::as_str);
    let states = followed(&fabric, &contents, "nid00000");
    assert_eq!(states[0].window_seconds, None, "totals have no window");
    assert_eq!(states[1].received_bytes.read(link), Err(Missing::Reset));
    assert_eq!(states[1].used_ratio.read(link), Err(Missing::Reset));
    for state in &states[2..] {
        assert_eq!(state.received_bytes.read(link), Ok(1000.0));
        assert_eq!(state.window.get(link), Some(1.0));
    }
    // The same two readings as files.
    let folder = tempfile::tempdir().unwrap();
    let files = [0, 1].map(|i| write(folder.path(), &i.to_string(), contents[i]));
    let counted = read_counters(&files, &fabric, &options("nid00000")).unwrap();
    assert_eq!(
        counted.missing(Q::ReceivedBytes, link),
        Some(Missing::Reset)
    );
    assert!(matches!(counted, Counted::Increase(_)));
}

#[test]
fn a_jump_that_the_interface_cannot_carry_is_a_reset() {
    let (fabric, node, link) = machine();
    let folder = tempfile::tempdir().unwrap();
    let scrape = |name: &str, bytes: u64, ms: u64| {
        let text = format!(
            "node_network_receive_bytes_total{{device=\"eth0\",host=\"{node}\"}} {bytes} {ms}\n"
        );
        write(folder.path(), name, &text)
    };
    let begin = 1_700_000_000_000;
    let first = scrape("a", 1000, begin);
    let read = |file: PathBuf| {
        let files = [first.clone(), file];
        read_counters(&files, &fabric, &options(&node)).unwrap()
    };
    let jump = read(scrape("b", 1_000_000_000_000_000, begin + 1000));
    assert_eq!(jump.missing(Q::ReceivedBytes, link), Some(Missing::Reset));
    let fine = read(scrape("c", 1_000_001_000, begin + 1000));
    assert_eq!(fine.get(Q::ReceivedBytes, link), Some(1e9));
}

/// Without a clock in the source, `--interval` is its time: the same limits hold.
#[test]
fn a_jump_within_the_stated_interval_is_a_reset() {
    let (fabric, node, link) = machine();
    let folder = tempfile::tempdir().unwrap();
    let options = CounterOptions {
        interval_seconds: Some(1.0),
        ..options(&node)
    };
    let scrape = |i: usize, bytes: u64| {
        let text = format!(
            "node_network_receive_bytes_total{{device=\"eth0\",host=\"{node}\"}} {bytes}\n"
        );
        write(folder.path(), &format!("scrape{i}"), &text)
    };
    let perfquery = |i: usize, bytes: u64| {
        let text = format!(
            "# Port extended counters: Lid 1 port 1 (CapMask: 0x1300)\nPortSelect:....1\n\
             PortRcvData:....{}\nPortMulticastRcvPkts:....0\n",
            bytes / 4
        );
        write(folder.path(), &format!("perfquery{i}"), &text)
    };
    let tree = |i: usize, bytes: u64| {
        let root = folder.path().join(format!("tree{i}"));
        let name = "sys/class/net/eth0/statistics/rx_bytes";
        write(&root, name, &bytes.to_string());
        let mut sources = open(&Places::captured(&root, &node));
        sources.remove(0).unwrap().sample().unwrap().clone()
    };
    for (later, expected) in [
        (1_000_001_000, Ok(1e9)),
        (1_000_000_000_000_000, Err(Missing::Reset)),
    ] {
        for files in [
            [scrape(0, 1000), scrape(1, later)],
            [perfquery(0, 1000), perfquery(1, later)],
        ] {
            let counted = read_counters(&files, &fabric, &options).unwrap();
            let state = counted.state(&fabric);
            assert_eq!(state.received_bytes.read(link), expected, "{files:?}");
            assert_eq!(counted.window_seconds(), Some(1.0));
        }
        let readings = vec![tree(0, 1000), tree(1, later)];
        let counted = sum(join_readings(readings, "tree", &fabric, &options).unwrap()).unwrap();
        assert_eq!(counted.state(&fabric).received_bytes.read(link), expected);
    }
}

/// An interface that comes or goes takes nothing from the node's other interfaces.
#[test]
fn ports_that_stay_are_compared_when_others_come_and_go() {
    let fabric = spec::fabric("torus:2x2:nodes=1").unwrap();
    let node = fabric.nodes()[0].clone();
    let folder = tempfile::tempdir().unwrap();
    let tree = |i: usize, interfaces: &[(&str, u64)]| {
        let root = folder.path().join(format!("tree{i}"));
        for (name, bytes) in interfaces {
            let file = format!("sys/class/net/{name}/statistics/rx_bytes");
            write(&root, &file, &bytes.to_string());
        }
        let mut sources = open(&Places::captured(&root, &node.name));
        sources.remove(0).unwrap().sample().unwrap().clone()
    };
    let options = CounterOptions {
        interval_seconds: Some(1.0),
        ..options(&node.name)
    };
    let readings = vec![
        tree(0, &[("eth0", 1000)]),
        tree(1, &[("eth0", 1900), ("eth1", 70)]),
        tree(2, &[("eth0", 2000)]),
    ];
    let joined = join_readings(readings, "tree", &fabric, &options).unwrap();
    let all = joined.all();
    // With eth1 the increase of the host link is not known: only one of two interfaces has one.
    assert_eq!(
        all[0].missing(Q::ReceivedBytes, node.eject),
        Some(Missing::Unread)
    );
    assert_eq!(all[1].get(Q::ReceivedBytes, node.eject), Some(100.0));
    let words: Vec<String> = all.iter().flat_map(|c| c.left_out.sentences()).collect();
    assert!(
        words
            .iter()
            .any(|w| w.contains("port whose counters changed") && w.contains("eth1")),
        "{words:?}"
    );
}

/// A speed that an OpenMetrics file gives once per port bounds what is sent as well as what is received.
#[test]
fn a_speed_of_a_port_bounds_both_directions() {
    let folder = tempfile::tempdir().unwrap();
    let families = [
        (
            "node_network_speed_bytes",
            ["node_network_receive_bytes", "node_network_transmit_bytes"],
        ),
        (
            "node_infiniband_rate_bytes_per_second",
            [
                "node_infiniband_port_data_received_bytes",
                "node_infiniband_port_data_transmitted_bytes",
            ],
        ),
    ];
    for (speed, totals) in families {
        let port = "{device=\"d\",port=\"1\"}";
        let [received, sent] = totals.map(|name| format!("{name}_total{port} 7\n"));
        let content = format!("{received}{speed}{port} 1.25e9\n{sent}# EOF\n");
        let mut places = Places::captured(folder.path().join("none"), "n");
        places.files = vec![write(folder.path(), "m", &content)];
        let mut source = open(&places).remove(0).unwrap();
        let reading = source.sample().unwrap();
        let (layout, speeds) = (&reading.layout, reading.layout.speeds());
        let totals = layout.counters.iter().enumerate();
        let totals = totals.filter(|(_, counter)| !counter.quantity.is_gauge());
        let jumps = totals.map(|(i, _)| {
            let behaviour = layout.behaviour(i, &speeds, |at| reading.get(at));
            increase(behaviour, 7, 1 << 53, Some(1.0))
        });
        assert_eq!(
            jumps.collect::<Vec<_>>(),
            [Err(Missing::Reset); 2],
            "{speed}"
        );
    }
}
