use super::*;
use crate::counters::delta::Moment;
use crate::counters::join::PortMap;
use crate::counters::reading::{Port, Reading};
use crate::counters::series;
use hopbyte_fabric::{Missing, Quantity as Q, Side, spec};
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Writes files below a root.
fn write(root: &Path, files: &[(&str, &str)]) {
    for (name, content) in files {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
}

const BOOT_HASH: u64 = 0xe0c6_59b5_3474_2563;

#[test]
fn a_boot_is_known_by_a_hash_that_is_stated() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(boot(folder.path()), None);
    let id = "6c1b28de-6a3a-4b0a-9d3b-0f7f1f0b6a55\n";
    write(folder.path(), &[("proc/sys/kernel/random/boot_id", id)]);
    // FNV-1a of the 36 bytes; the standard library's hasher gives another value.
    assert_eq!(boot(folder.path()), Some(BOOT_HASH));
    let places = Places::captured(folder.path(), "n1");
    assert_eq!(places.clock().now().boot, Some(BOOT_HASH));
}

fn only(places: &Places) -> Source {
    let mut sources = open(places);
    assert_eq!(sources.len(), 1);
    sources.remove(0).unwrap()
}

/// Value of a counter by name; the first if there are several.
fn value(reading: &Reading, name: &str) -> Option<u64> {
    let at = reading.layout.counters.iter().position(|c| c.name == name);
    reading.get(at.unwrap_or_else(|| panic!("no counter {name}")))
}

const MLX: &str = "sys/class/infiniband/mlx5_0";

fn adapter(root: &Path, data: u64, wait: u64, state: &str) {
    let port = format!("{MLX}/ports/1");
    let file = |name: &str| format!("{port}/{name}");
    write(
        root,
        &[
            (&format!("{MLX}/node_guid"), "0a7f:bc12:45ef:d23b\n"),
            (&file("link_layer"), "InfiniBand\n"),
            (&file("rate"), "100 Gb/sec (4X EDR)\n"),
            (&file("state"), state),
            (&file("counters/port_rcv_data"), &format!("{data}\n")),
            (&file("counters/port_xmit_data"), "7\n"),
            (&file("counters/port_xmit_wait"), &format!("{wait}\n")),
            (&file("counters/link_downed"), "3\n"),
            (&file("counters/symbol_error"), "N/A (no PMA)\n"),
            (&file("hw_counters/lifespan"), "10\n"),
        ],
    );
}

#[test]
fn infiniband_words_ticks_and_states() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    adapter(root, 1000, 5, "4: ACTIVE\n");
    let mut source = only(&Places::captured(root, "n1"));
    assert_eq!(source.layout().source, "mlx5_0");
    let port = Port::InfiniBand {
        guid: 0x0a7f_bc12_45ef_d23b,
        port: 1,
    };
    assert_eq!(source.layout().ports, [port]);
    let first = source.sample().unwrap().clone();
    assert_eq!(value(&first, "port_rcv_data"), Some(1000));
    assert_eq!(value(&first, "symbol_error"), None, "words are no zero");
    assert_eq!(value(&first, "rate"), Some(12_500_000_000));
    assert_eq!(value(&first, "width"), Some(4));
    assert_eq!(first.moment, Moment::default(), "a copy has no clock");
    adapter(root, 1500, 0xffff_ffff, "4: ACTIVE\n");
    let second = source.sample().unwrap().clone();
    let fabric = spec::fabric("torus:2x2").unwrap();
    let node = fabric.nodes()[0].name.clone();
    let at = |mut reading: Reading| {
        let mut layout = (*reading.layout).clone();
        layout.node.clone_from(&node);
        reading.layout = Arc::new(layout);
        reading
    };
    let joined = series(&fabric, "t", vec![at(first), at(second)], &PortMap::new())
        .unwrap()
        .all();
    let host = fabric.node(fabric.find_node(&node).unwrap());
    assert_eq!(joined[0].get(Q::ReceivedBytes, host.eject), Some(2000.0));
    assert_eq!(joined[0].get(Q::SentBytes, host.inject), Some(0.0));
    assert_eq!(
        joined[0].missing(Q::CreditStallCount, host.inject),
        Some(Missing::Stuck)
    );
    assert_eq!(joined[0].missing(Q::Errors, host.eject), None);
    assert_eq!(joined[0].get(Q::Errors, host.eject), None);
}

#[test]
fn a_device_that_vanishes_is_an_error_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    adapter(root, 1000, 5, "4: ACTIVE\n");
    let mut source = only(&Places::captured(root, "n1"));
    source.sample().unwrap();
    fs::remove_dir_all(root.join("sys")).unwrap();
    // Deleted files can still be read through a descriptor; a device's cannot.
    let mut source = {
        drop(source);
        adapter(root, 0, 0, "4: ACTIVE\n");
        let source = only(&Places::captured(root, "n1"));
        fs::remove_dir_all(root.join("sys")).unwrap();
        source
    };
    adapter(root, 4, 0, "1: DOWN\n");
    let reading = source.sample().unwrap();
    assert_eq!(value(reading, "port_rcv_data"), Some(0), "the kept file");
    assert_eq!(value(reading, "width"), Some(4), "was kept open, too");
    assert!(open(&Places::captured(folder.path().join("none"), "n1")).is_empty());
}

const NIC: &str = "sys/class/cxi/cxi0/device";

fn nic(root: &Path, seconds: u64, octets: u64, paused: [u64; 2], version: &str) {
    let item = |name: &str| format!("{NIC}/telemetry/{name}");
    let at = |value: u64| format!("{value}@{seconds}.000000000\n");
    write(
        root,
        &[
            (&format!("{NIC}/properties/cassini_version"), version),
            (&format!("{NIC}/properties/speed"), "200000\n"),
            (&item("hni_sts_rx_ok_octets"), &at(octets)),
            (&item("hni_tx_paused_0"), &at(paused[0])),
            (&item("hni_tx_paused_3"), &at(paused[1])),
            (&item("ALL-in-binary"), "\u{1}\u{2}"),
            (&item("reset_counters"), ""),
        ],
    );
}

#[test]
fn slingshot_counts_by_its_own_clock_modulo_2_to_the_56() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let fabric = spec::fabric("slingshot:2x2:nodes=2").unwrap();
    let node = &fabric.nodes()[0];
    let top = (1 << 56) - 1;
    nic(root, 1_700_000_000, top - 9, [0, 100], "2.0\n");
    let mut source = only(&Places::captured(root, &node.name));
    assert_eq!(
        source.layout().counters.len(),
        5,
        "three and the speed each way"
    );
    let first = source.sample().unwrap().clone();
    nic(root, 1_700_000_002, 990, [1_100_000_000, 300], "2.0\n");
    let second = source.sample().unwrap().clone();
    assert_eq!(first.moment.time_ns, Some(1_700_000_000_000_000_000));
    let series = series(&fabric, "t", vec![first, second], &PortMap::new())
        .unwrap()
        .all();
    let state = series[0].state(&fabric);
    assert_eq!(state.window_seconds, Some(2.0));
    assert_eq!(state.received_bytes.get(node.eject), Some(1000.0));
    // 200 Gbit/s over two seconds; one of two seconds paused at 1.1 GHz.
    assert_eq!(state.used_ratio.get(node.eject), Some(1000.0 / 50e9));
    let stall = state.credit_stall_ratio.get(node.inject).unwrap();
    assert!((stall - 0.5).abs() < 1e-12, "{stall}");
}

#[test]
fn gpcdr_and_registers_are_read_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let metrics = "sys/devices/virtual/gni/gpcdr0/metricsets/links/metrics";
    write(root, &[(metrics, "timestamp 5 ms\ntraffic_X+ 9 B\n")]);
    let mut source = only(&Places::captured(root, "nid00000"));
    let layout = source.layout().clone();
    write(root, &[(metrics, "timestamp 1005 ms\ntraffic_X+ 12 B\n")]);
    let reading = source.sample().unwrap();
    assert!(Arc::ptr_eq(&layout, &reading.layout));
    assert_eq!(
        (reading.get(0), reading.moment.time_ns),
        (Some(12), Some(1_005_000_000))
    );
    write(root, &[(metrics, "timestamp 5 ms\nnothing\n")]);
    let error = source.sample().unwrap_err().to_string();
    assert!(error.contains("metrics:2: found nothing"), "{error}");
    write(root, &[(metrics, "timestamp 6 ms\ntraffic_X+ 13 B\n")]);
    assert_eq!(source.sample().unwrap().get(0), Some(13));

    let registers = root.join("router");
    fs::write(&registers, "GM_0_0_TILE_PERFORMANCE_COUNTERS_0 17\n").unwrap();
    let mut places = Places::captured(root.join("none"), "c0-0c0s0g0");
    places.files.push(registers);
    assert_eq!(only(&places).sample().unwrap().get(0), Some(17));
    places.files[0] = root.join("missing");
    let error = open(&places).remove(0).unwrap_err().to_string();
    assert!(
        error.contains("missing") && error.contains("hint"),
        "{error}"
    );
}

#[test]
fn files_of_ldms_and_of_exporters_are_read_again_and_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("node.prom");
    let scrape = |bytes: u64| {
        let text = format!(
            "# TYPE node_network_receive_bytes_total counter\n\
             node_network_receive_bytes_total{{device=\"eth0\"}} {bytes}\n"
        );
        fs::write(&file, text).unwrap();
    };
    scrape(17);
    let mut places = Places::captured(folder.path().join("none"), "n1");
    places.files.push(file.clone());
    let mut source = only(&places);
    assert_eq!(source.layout().source, "openmetrics");
    let layout = source.layout().clone();
    scrape(18);
    let reading = source.sample().unwrap();
    assert_eq!(reading.get(0), Some(18));
    assert!(Arc::ptr_eq(&layout, &reading.layout));
    // Rows of several nodes and times: ours, the newest.
    let row = |node: &str, time: u32, count: u32| format!("{time}.0,1,{node},{node}/set,{count}\n");
    let head = "#Time,Time_usec,ProducerName,instance,X+_traffic (B)\n";
    let table = [
        row("n2", 1, 5),
        row("n1", 1, 6),
        row("n1", 2, 7),
        row("n2", 3, 8),
    ]
    .concat();
    fs::write(&file, head.to_owned() + &table).unwrap();
    let reading = only(&places).sample().unwrap().clone();
    assert_eq!(
        (reading.get(0), reading.moment.time_ns),
        (Some(7), Some(2_000_000_000))
    );
    places.node = "n3".into();
    let error = open(&places).remove(0).unwrap_err().to_string();
    assert!(error.contains("counters of 2 nodes (n1, n2 …)"), "{error}");
    fs::write(&file, "(0,0,0)c0-0c0s0g0[X+] GEMINI_LINK 1 2 3\n").unwrap();
    assert!(open(&places).remove(0).is_err());
}

#[test]
fn interfaces_of_a_captured_tree() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write(
        root,
        &[
            ("class/net/lo/statistics/rx_bytes", "5\n"),
            ("class/net/lo/type", "772\n"),
            ("class/net/eth0/type", "1\n"),
            ("class/net/eth0/statistics/rx_bytes", "17\n"),
            ("class/net/eth0/statistics/tx_dropped", "2\n"),
            ("class/net/eth0/speed", "-1\n"),
            ("class/net/br0/bridge/root_id", "1\n"),
            ("class/net/br0/statistics/rx_bytes", "5\n"),
        ],
    );
    let mut source = only(&Places::captured(root, "n1"));
    let reading = source.sample().unwrap();
    assert_eq!(reading.layout.ports, [Port::Named("eth0".into())]);
    assert_eq!(value(reading, "rx_bytes"), Some(17));
    assert_eq!(value(reading, "rx_speed"), None, "-1 is no speed");
    let dropped = reading
        .layout
        .counters
        .iter()
        .find(|c| c.name == "tx_dropped");
    assert_eq!(dropped.map(|c| c.side), Some(Side::Departures));
}

#[test]
fn this_machine_s_loopback_counts_what_it_carries() {
    let places = Places {
        interfaces: vec!["lo".into()],
        ..Places::here("n1")
    };
    let mut source = open(&places)
        .into_iter()
        .map(Result::unwrap)
        .find(|s| s.layout().source == "linux")
        .unwrap();
    let first = source.sample().unwrap().clone();
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let bytes = [0; 1000];
    for _ in 0..20 {
        socket
            .send_to(&bytes, socket.local_addr().unwrap())
            .unwrap();
    }
    let second = source.sample().unwrap().clone();
    let grew = |name| value(&second, name).unwrap() - value(&first, name).unwrap();
    assert!(grew("rx_bytes") >= 20_000 && grew("tx_packets") >= 20);
    assert!(Arc::ptr_eq(&first.layout, &second.layout));
    assert!(first.moment.boot.is_some() && first.moment.boot == second.moment.boot);
    let seconds = first.moment.seconds_to(second.moment).unwrap().unwrap();
    assert!(seconds > 0.0 && seconds < 60.0);
    let file = fs::read_to_string("/sys/class/net/lo/statistics/rx_bytes");
    if let Ok(file) = file {
        let now: u64 = file.trim().parse().unwrap();
        assert!(now >= value(&second, "rx_bytes").unwrap());
    }
}

/// A process that may have few descriptors reads a tree of more files than that, in another process: limits are shared.
#[test]
fn a_tree_of_more_files_than_descriptors_is_read() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    const CHILD: &str = "HOPBYTE_TEST_FEW_DESCRIPTORS";
    if let Ok(root) = std::env::var(CHILD) {
        let limit = getrlimit(Resource::Nofile);
        let few = Rlimit {
            current: Some(64),
            ..limit
        };
        setrlimit(Resource::Nofile, few).unwrap();
        let mut source = only(&Places::captured(root, "n1"));
        for _ in 0..3 {
            let reading = source.sample().unwrap();
            let read = (0..reading.layout.counters.len()).filter(|&i| reading.get(i).is_some());
            assert_eq!(read.count(), 500 * 3);
        }
        // Half of them are left to the rest of the process.
        let free: Vec<_> = (0..20)
            .map(|_| fs::File::open("/dev/null").unwrap())
            .collect();
        assert_eq!(free.len(), 20);
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for n in 0..500 {
        let of = |file: &str| format!("class/net/eth{n}/{file}");
        let files = ["statistics/rx_bytes", "speed"].map(of);
        write(folder.path(), &[(&files[0], "7\n"), (&files[1], "1000\n")]);
    }
    let name = "sources::tests::a_tree_of_more_files_than_descriptors_is_read";
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success() && said.contains("1 passed"),
        "{said}"
    );
}

/// The rate of a file that an agent reads becomes a total; after its writer stopped there is none.
#[test]
fn rates_of_a_file_are_added_up_while_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("dcgm.prom");
    let line = "DCGM_FI_PROF_NVLINK_TX_BYTES{gpu=\"0\",Hostname=\"n1\"} 2000000000\n";
    fs::write(&file, line).unwrap();
    let places = Places {
        files: vec![file.clone()],
        live: true,
        ..Places::captured(folder.path(), "n1")
    };
    let mut source = only(&places);
    let first = source.sample().unwrap().clone();
    let name = "DCGM_FI_PROF_NVLINK_TX_BYTES";
    assert!(!first.layout.counters[0].behaviour.rate);
    std::thread::sleep(std::time::Duration::from_millis(50));
    let second = source.sample().unwrap().clone();
    let seconds = first.moment.seconds_to(second.moment).unwrap().unwrap();
    let grown = value(&second, name).unwrap() - value(&first, name).unwrap();
    assert!(
        (grown as f64 - 2e9 * seconds).abs() < 2.0,
        "{grown} in {seconds} s"
    );
    assert!(Arc::ptr_eq(&first.layout, &second.layout));
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(120);
    let opened = fs::File::options().write(true).open(&file).unwrap();
    opened.set_modified(old).unwrap();
    assert_eq!(value(source.sample().unwrap(), name), None);
}

/// Each NIC is a source of its own; `cxi3` is the fourth port of its host, also where others are not read.
#[test]
fn cassini_nics_have_their_own_ports_of_a_host() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let fabric = spec::fabric("gpu-rails").unwrap();
    let write_all = |bytes: usize, seconds: usize| {
        for nic in [3, 5] {
            let item = format!("sys/class/cxi/cxi{nic}/device/telemetry/hni_sts_rx_ok_octets");
            let value = format!("{}@{seconds}.000000000\n", bytes * nic);
            write(root, &[(&item, &value)]);
        }
    };
    write_all(1000, 1);
    let mut sources: Vec<Source> = open(&Places::captured(root, "h0"))
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert_eq!(sources.len(), 2);
    let mut readings = Vec::new();
    for second in [1, 2] {
        write_all(1000 * second, second);
        readings.extend(sources.iter_mut().map(|s| s.sample().unwrap().clone()));
    }
    let joined = series(&fabric, "t", readings, &PortMap::new())
        .unwrap()
        .all();
    for (port, nic) in fabric.ports_of_host("h0").into_iter().zip(0..) {
        let expected = [3, 5].contains(&nic).then_some(1000.0 * f64::from(nic));
        let eject = fabric.node(port).eject;
        assert_eq!(joined[0].get(Q::ReceivedBytes, eject), expected, "cxi{nic}");
    }
}
