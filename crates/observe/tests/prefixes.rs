//! Files that are read while they are written, or were cut: every prefix of a small file of every format of counters is
//! refused, or gives only numbers that the whole file gives too; of machines and traffic it is refused, noted, or gives the
//! same as the whole file.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::{SUBNET, seeds, text};
use hopbyte_fabric::{Fabric, NodeId, Quantity, compact, spec};
use hopbyte_observe::counters::jobs;
use hopbyte_observe::counters::{Counted, counter_series, known_formats};
use hopbyte_observe::fabric::{Companions, read_machine_text};
use hopbyte_observe::kinds::kinds;
use hopbyte_observe::placement::placement;
use hopbyte_observe::text::{Limits, Text};
use hopbyte_observe::traffic::traffic;
use hopbyte_observe::{CounterOptions, ObserveError, Then, parse_node_list, parse_nodes};
use std::collections::BTreeSet;

/// Interval, quantity, link and bits of a value.
type Number = (usize, Quantity, u32, u64);

/// All numbers of a text, and whether they are totals.
fn numbers(content: &[u8], fabric: &Fabric) -> Result<(BTreeSet<Number>, bool), ObserveError> {
    let text = Text::from_bytes("file", content, Limits::TEXT)?;
    let other = fabric.find_node(NODE).is_err() && fabric.find_node(ARIES_NODE).is_ok();
    let options = CounterOptions {
        node: Some(if other { ARIES_NODE } else { NODE }.into()),
        ..CounterOptions::default()
    };
    let series = counter_series(&[text], fabric, &options)?.all();
    let totals = matches!(series[..], [Counted::Totals(_)]);
    let mut found = BTreeSet::new();
    for (interval, counted) in series.iter().enumerate() {
        for quantity in counted.quantities() {
            for link in fabric.link_ids() {
                if let Some(value) = counted.get(quantity, link) {
                    let link = link.index() as u32;
                    found.insert((interval, quantity, link, value.to_bits()));
                }
            }
        }
    }
    Ok((found, totals))
}

const NODE: &str = "nid00000";
const ARIES_NODE: &str = "c0-0c0s0n0";

/// Registers of a whole Gemini, tile by tile, as a program prints them.
fn registers() -> String {
    let tiles = (0..48).flat_map(|tile| (0..6).map(move |k| (tile, k)));
    let line = |(tile, k): (u32, u32)| {
        let value = 1_000_003 * (tile + 1) * (k + 2);
        let at = format!("{}_{}", tile / 8, tile % 8);
        format!("c0-0c0s0g0 GM_{at}_TILE_PERFORMANCE_COUNTERS_{k} {value}\n")
    };
    tiles.map(line).collect()
}

const INTERFACE: &str = "#Time,Time_usec,ProducerName,rx_bytes#eth0\n\
    1000.000000,0,nid00000,1000001000\n1001.000000,0,nid00000,1003998996\n1002.000000,0,nid00000,1004998996\n";

const OPENMETRICS: &str = "# HELP node_network_receive_bytes bytes\n# TYPE node_network_receive_bytes counter\n\
    # UNIT node_network_receive_bytes bytes\n\
    node_network_receive_bytes_total{device=\"eth0\",instance=\"nid00000\"} 1003976838\n\
    # TYPE node_network_receive_errs counter\n\
    node_network_receive_errs_total{device=\"eth0\",instance=\"nid00000\"} 31\n\
    # TYPE node_network_transmit_errs counter\n\
    node_network_transmit_errs_total{device=\"eth0\",instance=\"nid00000\"} 12\n# EOF\n";

const PROMETHEUS: &str = "# HELP node_network_receive_bytes_total bytes\n# TYPE node_network_receive_bytes_total counter\n\
    node_network_receive_bytes_total{device=\"eth0\",instance=\"nid00000\"} 1003976838\n\
    # TYPE node_network_receive_errs_total counter\n\
    node_network_receive_errs_total{device=\"eth0\",instance=\"nid00000\"} 31\n\
    # TYPE node_network_transmit_errs_total counter\n\
    node_network_transmit_errs_total{device=\"eth0\",instance=\"nid00000\"} 12\n\
    # HELP node_nfs_connections_total Total number of NFSd TCP connections.\n";

const PERFQUERY: &str = "# Port counters: Lid 2 port 1 (CapMask: 0x1300)\nPortSelect:......................1\n\
    CounterSelect:...................0x0000\nSymbolErrorCounter:..............15\nPortRcvErrors:...................12\n\
    PortXmitDiscards:................17\nVL15Dropped:.....................0\nPortXmitData:....................7704012\n\
    PortRcvData:.....................7768812\nPortXmitPkts:....................10701\nPortRcvPkts:.....................10791\n\
    PortXmitWait:....................33\n\
    # Port extended counters: Lid 2 port 1 (CapMask: 0x1300)\nPortSelect:......................1\n\
    CounterSelect:...................0x0000\nPortXmitData:....................7704012\nPortRcvData:.....................7768812\n\
    PortXmitPkts:....................10701\nPortRcvPkts:.....................10791\nPortUnicastXmitPkts:.............0\n\
    PortUnicastRcvPkts:..............0\nPortMulticastXmitPkts:...........0\nPortMulticastRcvPkts:............0\n";

const ARIES: &str = "sg,sr,sc,dg,dr,dc,color,flits,stalls,stalls/flit\n0,0,0,0,0,5,g,3612,2011,0.55\n\
    0,0,0,0,3,0,k,811,212,0.25\n0,0,0,0,3,0,k,4012,517,0.12\n0,0,0,0,3,0,k,99,100,1.01\n";

/// All tiles of the first router of an Aries machine whose links are to routers, by router and tile or of one rank.
fn aries_tiles(by_rank: bool) -> String {
    let fabric = spec::fabric("aries:2x6x16").unwrap();
    let router = fabric.router_at(&[0, 0, 0]).unwrap();
    let links = fabric.links_from(router).iter();
    let tiles = links.flat_map(|&l| fabric.ports(l).iter().map(|p| p.from));
    let row = |tile: u16| {
        let (flits, stalls) = (1000 + 17 * tile, 11 + tile);
        match by_rank {
            true => format!("0 {} {} {flits} {stalls}\n", tile / 8, tile % 8),
            false => format!("0,0,0,{tile},{flits},{stalls}\n"),
        }
    };
    let head = match by_rank {
        true => {
            "---\nkey: ARIESCOUNTER_NETWORK\n---\n- [mpirank, int32]\n- [tilex, int32]\n- [tiley, int32]\n\
             - [\"INQ_PRF_INCOMING_FLIT_VC0\", int128]\n- [\"INQ_PRF_ROWBUS_STALL_CNT\", int128]\n...\n"
        }
        false => "group,row,col,port,INQ_PRF_INCOMING_FLIT_VC0,INQ_PRF_ROWBUS_STALL_CNT\n",
    };
    head.to_owned() + &tiles.map(row).collect::<String>()
}

/// Errors of one port, by their causes.
const DETAILS: &str = "# PortRcvErrorDetails counters: Lid 2 port 1\nPortSelect:......................1\n\
    CounterSelect:...................0x0000\nPortLocalPhysicalErrors:.........12\nPortMalformedPktErrors:..........10\n\
    PortBufferOverrunErrors:.........13\nPortDLIDMappingErrors:...........0\nPortVLMappingErrors:.............0\n\
    PortLoopingErrors:...............15\n";

/// A listing without the name of its set.
const LDMS_BARE: &str = "U64 0 nettopo_mesh_coord_X\nU64 0 nettopo_mesh_coord_Y\nU64 0 nettopo_mesh_coord_Z\n\
    U64 10011 X+_traffic (B)\nU64 24 X+_sendlinkstatus (1)\nU64 70044 Z+_inq_stall (ns)\n";

/// Rows without a header, of two routers.
const RELEASED: &str = "1419984060,10000,21000,3,4,5,6,7,8,9,100,11,12,13,14,15,16,17,18,0,0,0\n\
    1419984060,10001,21001,3,4,5,6,7,8,9,101,11,12,13,14,15,16,17,18,0,0,10\n";

const ETHTOOL: &str = "nid00000: NIC statistics:\nnid00000:      rx_packets: 17\nnid00000:      rx_bytes: 991\n\
    nid00000:      rx_crc_errors_phy: 12\nnid00000:      rx_discards_phy: 31\nnid00000:      rx_bytes_phy: 1003976838\n\
    nid00000:      tx_bytes_phy: 20039768\nnid00000:      rx_prio3_pause_duration: 4012\n\
    nid00000:      rx_prio4_pause_duration: 99017\nnid00000:      ch_events: 5\n";

const SNMP: &str = "SNMPv2-MIB::sysName.0 = STRING: nid00000\nIF-MIB::ifName.3 = STRING: eth0\n\
    IF-MIB::ifInDiscards.3 = Counter32: 1201\nIF-MIB::ifInErrors.3 = Counter32: 31\n\
    IF-MIB::ifOutDiscards.3 = Counter32: 17\nIF-MIB::ifOutErrors.3 = Counter32: 12\n\
    IF-MIB::ifHCInOctets.3 = Counter64: 1003976838\nIF-MIB::ifHCOutOctets.3 = Counter64: 20039768\n";

const GNMI: &str = "{\"source\": \"nid00000:57400\", \"timestamp\": 1658000000000000000, \"updates\": [\n\
    {\"Path\": \"interfaces/interface[name=eth0]/state/counters\", \"values\": {\"interfaces/interface/state/counters\":\n\
    {\"in-octets\": \"1003976838\", \"out-octets\": \"20039768\", \"in-errors\": 31, \"in-discards\": 0}}}]}\n\
    {\"source\": \"nid00000:57400\", \"timestamp\": 1658000002000000000, \"updates\": [\n\
    {\"Path\": \"interfaces/interface[name=eth0]/state/counters/in-octets\", \"values\":\n\
    {\"interfaces/interface/state/counters/in-octets\": \"1003979999\"}}]}\n";

const API: &str = include_str!("../../../fuzz/seeds/prometheus/matrix.json");

/// Of the type of a switch, which has no numbers.
const IBSWINFO: &str =
    "part number        | MSB7790-XY\nGUID               | 0x2\nfan status         | ERROR\n";

/// All links of a ring of three, router by router, as in the table of Blue Gene: one region is entered twice.
fn torus() -> String {
    let head = "---\nkey: T\n---\n- [linkid, int32]\n- [sx, int32]\n- [tx, int32]\n- [code_region, int32]\n\
        - [packets, int64]\n...\n";
    let rows = (0..3).flat_map(|router| [1, 2, 1].map(|region| (router, region)));
    let lines = rows.enumerate().flat_map(|(i, (router, region))| {
        [1, 2].map(|step| {
            let to = (router + step) % 3;
            let packets = 1009 * (i + 1) + 17 * step;
            format!("{} {router} {to} {region} {packets} \n", step - 1)
        })
    });
    head.to_owned() + &lines.collect::<String>()
}

const LDMS_LS: &str = "nid00000/r: consistent, last update: Wed Jan 14 15:08:00 2015 [9395us]\nU64 0 nettopo_mesh_coord_X\n\
    U64 0 nettopo_mesh_coord_Y\nU64 0 nettopo_mesh_coord_Z\nU64 10011 X+_traffic (B)\nU64 24 X+_sendlinkstatus (1)\n\
    U64 70044 Z+_inq_stall (ns)\nU64 13 X+_SAMPLE_GEMINI_LINK_USED_BW (%)\n\
    nid00000/r: consistent, last update: Wed Jan 14 15:08:01 2015 [9395us]\nU64 0 nettopo_mesh_coord_X\n\
    U64 0 nettopo_mesh_coord_Y\nU64 0 nettopo_mesh_coord_Z\nU64 50013 X+_traffic (B)\nU64 24 X+_sendlinkstatus (1)\n\
    U64 70099 Z+_inq_stall (ns)\nU64 14 X+_SAMPLE_GEMINI_LINK_USED_BW (%)\n";

const GPCDR: &str = "timestamp 1700000000123 ms\ntraffic_X+ 1004 bytes\npackets_X+ 41 packets\ninq_stall_X+ 7001 ns\n\
    credit_stall_X+ 52 ns\nsendlinkstatus_X+ 24 1\nrecvlinkstatus_X+ 24 1\ntraffic_Z- 93 bytes\n";

const GM: &str = include_str!("../../../fuzz/seeds/gm/two-routers.txt");

const LINKS: &str = "{\"schema\":\"hopbyte.link/1\",\"link\":\"r0-0 X+\",\"received_bytes\":125017,\"packets\":121,\"lanes\":1}\n\
    {\"schema\":\"hopbyte.link/1\",\"link\":\"r0-0 X-\",\"received_bytes\":1}\n\
    {\"schema\":\"hopbyte.link/1\",\"summary\":{\"window_seconds\":0.5,\"rows\":2}}\n";

const IP: &str = include_str!("../../../fuzz/seeds/interfaces/pdsh.txt");

/// Format, content and fabric.
fn samples() -> Vec<(&'static str, String, &'static str)> {
    vec![
        ("libgm text", GM.into(), "gemini:16x12x24"),
        (
            "output of `hopbyte links --json`",
            LINKS.into(),
            "torus:4x4",
        ),
        ("Aries link CSV", ARIES.into(), "aries:2x6x16"),
        ("Aries tile counters", aries_tiles(false), "aries:2x6x16"),
        ("Aries tile counters", aries_tiles(true), "aries:2x6x16"),
        ("Boxfish link table", torus(), "torus:3"),
        ("ldms_ls -l", LDMS_LS.into(), "gemini:4x4x24"),
        ("ldms_ls -l", LDMS_BARE.into(), "gemini:4x4x24"),
        ("LDMS store_csv", INTERFACE.into(), "gemini:4x4x24"),
        ("LDMS store_csv", RELEASED.into(), "gemini:16x4x24"),
        ("gpcdr metrics", GPCDR.into(), "gemini:4x4x24"),
        (
            "ibqueryerrors and perfquery",
            PERFQUERY.into(),
            "gemini:4x4x24",
        ),
        (
            "ibqueryerrors and perfquery",
            DETAILS.into(),
            "gemini:4x4x24",
        ),
        ("OpenMetrics text", OPENMETRICS.into(), "gemini:4x4x24"),
        ("OpenMetrics text", PROMETHEUS.into(), "gemini:4x4x24"),
        ("ethtool -S", ETHTOOL.into(), "gemini:4x4x24"),
        ("ip -s link, /proc/net/dev", IP.into(), "gemini:4x4x24"),
        ("snmpwalk of ifXTable", SNMP.into(), "gemini:4x4x24"),
        ("gNMI JSON", GNMI.into(), "gemini:4x4x24"),
        ("Prometheus JSON", API.into(), "gemini:4x4x24"),
        ("Gemini and Aries registers", registers(), "gemini:4x4x24"),
    ]
}

#[test]
fn no_prefix_gives_a_number_that_the_whole_file_does_not() {
    let samples = samples();
    for format in known_formats() {
        assert!(
            ["ibswinfo", "table of ports"].contains(&format.name)
                || samples.iter().any(|(name, ..)| *name == format.name),
            "no sample of {}",
            format.name
        );
    }
    for (name, content, fabric) in samples {
        let fabric = spec::fabric(fabric).unwrap();
        let bytes = content.as_bytes();
        let (whole, totals) = numbers(bytes, &fabric).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(!whole.is_empty(), "{name}");
        let mut accepted = 0;
        // The registers of a whole router take long: of each line the middle, the end, and the line end.
        let lengths: Vec<usize> = match bytes.len() {
            ..2000 => (0..bytes.len()).collect(),
            _ => content
                .match_indices('\n')
                .flat_map(|(at, _)| [at - 4, at, at + 1])
                .filter(|&n| n < bytes.len())
                .collect(),
        };
        for length in lengths {
            let Ok((found, only_totals)) = numbers(&bytes[..length], &fabric) else {
                continue;
            };
            accepted += 1;
            let shown = String::from_utf8_lossy(&bytes[length.saturating_sub(60)..length]);
            if only_totals && !totals {
                // Before the second reading of a device: its counts themselves.
                let cells: BTreeSet<&str> = content.split([',', ' ', '\n', '"', '}']).collect();
                for (.., bits) in found {
                    let value = f64::from_bits(bits);
                    let is_there = [1.0, 1e-2, 1.0 / 4.0, 1.0 / 8.0]
                        .iter()
                        .any(|factor| cells.contains(&format!("{}", value / factor).as_str()));
                    assert!(is_there, "{name}, {length} bytes, {value}: …{shown}");
                }
                continue;
            }
            let more: Vec<&Number> = found.difference(&whole).collect();
            assert!(
                more.is_empty(),
                "{name}, {length} bytes, {more:?}: …{shown}"
            );
        }
        println!("{name}: {accepted} prefixes of {} accepted", bytes.len());
    }
}

/// The two files of the report: a row cut at `1004` is not exported, and a text without its end is refused.
#[test]
fn cut_numbers_are_not_read() {
    let fabric = spec::fabric("gemini:4x4x24").unwrap();
    let cut = INTERFACE.strip_suffix("998996\n").unwrap();
    let text = Text::from_bytes("ldms.csv", cut.as_bytes(), Limits::TEXT).unwrap();
    let series = counter_series(&[text], &fabric, &CounterOptions::default()).unwrap();
    let all = series.all();
    assert_eq!(all.len(), 1);
    let said: Vec<String> = all[0].left_out.sentences().collect();
    assert!(
        said.iter().any(|s| s.contains("unfinished last row")),
        "{said:?}"
    );
    for end in ["# EOF\n", "\n# EOF\n", "976838\n", "EOF\n", "OF\n", "F\n"] {
        let at = OPENMETRICS.rfind(end).unwrap();
        let error = numbers(&OPENMETRICS.as_bytes()[..at], &fabric).unwrap_err();
        assert!(error.to_string().contains("expected"), "{error}");
    }
    // The standard lets the last line end be absent.
    let whole = numbers(OPENMETRICS.as_bytes(), &fabric).unwrap();
    let without = OPENMETRICS.trim_end().as_bytes();
    assert_eq!(numbers(without, &fabric).unwrap(), whole);
}

/// The type of a switch is refused without counters beside it, whole or cut.
#[test]
fn the_type_of_a_switch_gives_no_number() {
    let fabric = spec::fabric("gemini:4x4x24").unwrap();
    for length in 0..=IBSWINFO.len() {
        assert!(numbers(&IBSWINFO.as_bytes()[..length], &fabric).is_err());
    }
}

/// Increases that a file gives are compared with the link's speed too.
#[test]
fn an_impossible_increase_of_a_file_is_missing() {
    let fabric = spec::fabric("torus:4x4").unwrap();
    let link = fabric.find_link("r0-0 X+").unwrap();
    for (bytes, expected) in [("125017", Some(125_017.0)), ("1e16", None)] {
        let content = LINKS.replace("125017", bytes);
        let text = Text::from_bytes("links", content.as_bytes(), Limits::TEXT).unwrap();
        let all = counter_series(&[text], &fabric, &CounterOptions::default()).unwrap();
        let found = all.all().remove(0);
        assert_eq!(found.get(Quantity::ReceivedBytes, link), expected);
        let why = found.missing(Quantity::ReceivedBytes, link);
        assert_eq!(why.is_some(), expected.is_none());
    }
}

/// Content of a file as read, for comparison, and its notes.
type Content = (Vec<u8>, Vec<String>);

/// Reads a machine, or a companion of one, by the folder of its seeds.
fn machine_content(folder: &str, bytes: &[u8]) -> Result<Content, String> {
    let own = Text::from_bytes("file", bytes, Limits::ANY).map_err(|e| e.to_string())?;
    let gemini = hopbyte_testdata::own("cray/gemini-2x2x8.interconnect.txt.zst");
    let main = match folder {
        "ib_tables" | "lid_matrix" | "guid_names" | "torus_dump" => text("file", SUBNET),
        "phys_routes" => Text::read(&gemini, Limits::ANY).unwrap(),
        _ => own.clone(),
    };
    let parts = ["intra", "inter"].map(|name| {
        let found = seeds("codes_links")
            .into_iter()
            .find(|s| s.0.ends_with(name));
        Text::from_bytes(name, &found.unwrap().1, Limits::ANY).unwrap()
    });
    let mut with = Companions::default();
    match folder {
        "ib_tables" | "lid_matrix" | "phys_routes" => with.routes = std::slice::from_ref(&own),
        "guid_names" => with.names = Some(&own),
        "torus_dump" => with.system_map = Some(&own),
        "codes" => with.parts = &parts,
        _ => {}
    }
    let machine = read_machine_text(&main, None, with).map_err(|e| e.to_string())?;
    let hosts = format!("{:?}", machine.hosts).into_bytes();
    let fabric = compact::to_bytes(&machine.fabric, &machine.routing);
    Ok(([fabric, hosts].concat(), machine.notes))
}

fn traffic_content(bytes: &[u8]) -> Result<Content, String> {
    let text = Text::from_bytes("file", bytes, Limits::ANY).map_err(|e| e.to_string())?;
    let read = traffic(&text).map_err(|e| e.to_string())?;
    let data = format!("{} {:?} {}", read.tasks, read.phases, read.in_turn);
    Ok((data.into_bytes(), read.notes))
}

/// A machine, its companions, traffic and traces: cut within a line, they are refused, noted, or read as the whole file. A
/// list that was cut behind a line cannot be told from a whole one.
#[test]
fn no_prefix_of_a_machine_or_of_traffic_is_believed() {
    let folders: BTreeSet<&str> = kinds()
        .iter()
        .filter(|k| ["machines", "traffic", "traces"].contains(&k.name))
        .flat_map(|k| k.formats.iter().map(|f| f.fuzz))
        .collect();
    let mut believed = Vec::new();
    for folder in folders.iter().copied().chain(["guid_names", "lid_matrix"]) {
        let read = |bytes: &[u8]| match folder {
            "traffic" | "archive" => traffic_content(bytes),
            _ => machine_content(folder, bytes),
        };
        let mut is_read = false;
        for (name, mut bytes) in seeds(folder) {
            if folder == "compact" {
                compact::seal(&mut bytes);
            }
            // Some seeds are refused as a whole.
            let Ok((whole, _)) = read(&bytes) else {
                continue;
            };
            is_read = true;
            let is_line = |n: usize| bytes[n - 1] == b'\n' || bytes[n] == b'\n';
            let silent = (1..bytes.len()).filter(|&n| {
                let found = read(&bytes[..n]);
                let is_told = |notes: &[String]| notes.iter().any(|n| n.contains("cut"));
                !is_line(n) && found.is_ok_and(|f| f.0 != whole && !is_told(&f.1))
            });
            let all: Vec<usize> = silent.collect();
            if let Some(&n) = all.first() {
                let shown = String::from_utf8_lossy(&bytes[n.saturating_sub(60)..n]).into_owned();
                believed.push(format!(
                    "{folder}/{name}, {} prefixes, {n} bytes: …{shown}",
                    all.len()
                ));
            }
        }
        assert!(is_read, "no seed of {folder} is read");
    }
    assert!(believed.is_empty(), "{}", believed.join("\n"));
}

/// Placements and lists of nodes that are cut within a line are refused, noted, or read as the whole file; lists of jobs are
/// refused.
#[test]
fn no_prefix_of_a_placement_or_of_a_list_is_believed() {
    let fabric = spec::fabric("gemini:4x4x4").unwrap();
    let nodes = |bytes: &[u8]| {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        let (list, mut notes) = (format!("@{}", file.path().display()), Vec::new());
        let read = parse_node_list(&list, &fabric, &mut |note| notes.push(note));
        let read = read.map_err(|e| e.to_string())?;
        Ok((format!("{read:?}").into_bytes(), notes))
    };
    let allocation = parse_nodes("nid[00000-00015]:12", 1, &fabric).unwrap();
    let placed = |bytes: &[u8]| {
        let text = Text::from_bytes("file", bytes, Limits::ANY).map_err(|e| e.to_string())?;
        let read = placement(&text, &fabric, Some(&allocation)).map_err(|e| e.to_string())?;
        let slots = format!("{:?}", read.placement.slots()).into_bytes();
        Ok((slots, read.notes))
    };
    let listed = |bytes: &[u8]| {
        let text = Text::from_bytes("file", bytes, Limits::ANY).map_err(|e| e.to_string())?;
        let read = jobs(&text, &fabric, Then::Live(150.0)).map_err(|e| e.to_string())?;
        let jobs = format!("{:?} {:?}", read.ids(), read.jobs_on(NodeId(10)));
        Ok((jobs.into_bytes(), Vec::new()))
    };
    type Read<'a> = &'a dyn Fn(&[u8]) -> Result<Content, String>;
    let of: [(Read<'_>, &str); 10] = [
        (&nodes, "nid00001,nid[00010-00011]\nnid00012:12\n"),
        (&nodes, "nid00001 slots=4\nnid00010 slots=12\n"),
        (&placed, "rank 0=nid00001 slot=1\nrank 1=nid00010 slot=10\n"),
        (&placed, "rank,node,slot\n0,nid00001,1\n1,nid00010,10\n"),
        (&placed, "0,nid00001\n1,nid00010\n"),
        (&placed, "nid00001\nnid00010\nnid00011\n"),
        (&placed, "nid00001 slots=2\nnid00010 slots=12\n"),
        (&placed, "2,1,0\n"),
        (
            &listed,
            "job,node,start,end\n7,nid00001,100,\n8,nid00010,120,1500\n",
        ),
        (
            &listed,
            "JobId=7 JobState=RUNNING NodeList=nid00001\nJobId=8 JobState=RUNNING NodeList=nid00010\n",
        ),
    ];
    for (read, content) in of {
        let bytes = content.as_bytes();
        let (whole, notes) = read(bytes).unwrap_or_else(|e| panic!("{content}: {e}"));
        assert_eq!(notes, [""; 0], "{content}");
        let is_line = |n: usize| bytes[n - 1] == b'\n' || bytes[n] == b'\n';
        for n in (1..bytes.len()).filter(|&n| !is_line(n)) {
            let Ok((found, notes)) = read(&bytes[..n]) else {
                continue;
            };
            let is_told = notes.iter().any(|n| n.contains("cut"));
            assert!(found == whole || is_told, "{}", &content[..n]);
        }
        // A last line without a line end may be whole.
        if let Ok((found, notes)) = read(&bytes[..bytes.len() - 1]) {
            assert_eq!((found, notes.len()), (whole, 1), "{content}");
        }
    }
}
