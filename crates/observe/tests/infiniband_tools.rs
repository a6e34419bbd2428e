//! Output of InfiniBand tools with other options and on other subnets: several LIDs a port, no port GUIDs, routers,
//! listings without a section of every switch.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::{parse, with_tables};
use hopbyte_observe::Machine;

/// Two adapters on a leaf each, two spines; LMC 1.
const LMC: &str = r#"switchguid=0x10
Switch 4 "S-10" # "leaf a" base port 0 lid 2 lmc 1
[1] "S-30"[1] # "spine a" lid 6 4xSDR
[2] "S-40"[1] # "spine b" lid 8 4xSDR
[3] "H-50"[1](51) # "n1 HCA-1" lid 10 4xSDR
switchguid=0x20
Switch 4 "S-20" # "leaf b" base port 0 lid 4 lmc 1
[1] "S-30"[2] # "spine a" lid 6 4xSDR
[2] "S-40"[2] # "spine b" lid 8 4xSDR
[3] "H-60"[1](61) # "n2 HCA-1" lid 12 4xSDR
switchguid=0x30
Switch 4 "S-30" # "spine a" base port 0 lid 6 lmc 1
[1] "S-10"[1] # "leaf a" lid 2 4xSDR
[2] "S-20"[1] # "leaf b" lid 4 4xSDR
switchguid=0x40
Switch 4 "S-40" # "spine b" base port 0 lid 8 lmc 1
[1] "S-10"[2] # "leaf a" lid 2 4xSDR
[2] "S-20"[2] # "leaf b" lid 4 4xSDR
caguid=0x50
Ca 1 "H-50" # "n1 HCA-1"
[1](51) "S-10"[3] # lid 10 lmc 1 "leaf a" lid 2 4xSDR
caguid=0x60
Ca 1 "H-60" # "n2 HCA-1"
[1](61) "S-20"[3] # lid 12 lmc 1 "leaf b" lid 4 4xSDR
"#;

/// Tables in which the base LIDs go over spine a, the others over spine b.
fn tables() -> String {
    let mut text = String::new();
    for (guid, rows) in [
        ("10", ["a 3", "b 3", "c 1", "d 2"]),
        ("20", ["a 1", "b 2", "c 3", "d 3"]),
        ("30", ["a 1", "b 1", "c 2", "d 2"]),
        ("40", ["a 1", "b 1", "c 2", "d 2"]),
    ] {
        text += &format!("Unicast lids [0x0-0xd] of switch DR path slid 0; guid 0x{guid} (x):\n");
        for row in rows {
            let (lid, port) = row.split_once(' ').unwrap();
            let to = if "ab".contains(lid) { "51" } else { "61" };
            text += &format!("0x000{lid} 00{port} : (Channel Adapter portguid 0x{to}: 'n')\n");
        }
        text += "4 valid lids dumped\n";
    }
    text
}

/// The links from n1 to n2.
fn route(m: &Machine) -> Vec<String> {
    let [from, to] = ["n1 HCA-1", "n2 HCA-1"].map(|n| m.fabric.find_node(n).unwrap());
    let mut links = Vec::new();
    m.routing.route(&m.fabric, from, to, &mut links).unwrap();
    links.iter().map(|&l| m.fabric.link_name(l)).collect()
}

#[test]
fn a_route_is_that_of_the_base_lid() {
    let expected = ["n1 HCA-1[1]", "leaf a[1]", "spine a[2]", "leaf b[3]"];
    let m = with_tables(LMC, &tables()).unwrap();
    assert_eq!(route(&m), expected);
    let said = m.notes.join("\n");
    assert!(said.contains("2 further LIDs"), "{said}");
    assert!(!said.contains("several entries"), "{said}");
    // A scan without LIDs or their number: the GUIDs of the tables give the ports.
    let without = LMC
        .replace(" lid 10 lmc 1", "")
        .replace(" lid 12 lmc 1", "");
    let without = without.replace(" lid 10", "").replace(" lid 12", "");
    assert_eq!(route(&with_tables(&without, &tables()).unwrap()), expected);
    let without = LMC.replace("lmc 1", "lmc 0");
    assert_eq!(route(&with_tables(&without, &tables()).unwrap()), expected);
    // A base LID that is not reached is not replaced by another LID of its port.
    let unreached = tables().replace("0x000c 001", "0x000c 255");
    let m = with_tables(LMC, &unreached).unwrap();
    let [from, to] = ["n1 HCA-1", "n2 HCA-1"].map(|n| m.fabric.find_node(n).unwrap());
    assert!(
        m.routing
            .route(&m.fabric, from, to, &mut Vec::new())
            .is_err()
    );
}

#[test]
fn headings_of_old_opensm_begin_a_table() {
    let entries = ["10 3 1", "20 1 3", "30 1 2", "40 1 2"];
    for name in ["", "osm_ucast_mgr_", "__osm_ucast_mgr_"] {
        let table = |row: &str| {
            let words: Vec<&str> = row.split(' ').collect();
            format!(
                "{name}dump_ucast_routes: Switch 0x{}\nLID    : Port : Hops : Optimal\n\
                 0x000a : 00{} : 01 : yes\n0x000c : 00{} : 02 : yes\n",
                words[0], words[1], words[2]
            )
        };
        let m = with_tables(LMC, &entries.map(table).concat()).unwrap();
        let expected = ["n1 HCA-1[1]", "leaf a[1]", "spine a[2]", "leaf b[3]"];
        assert_eq!(route(&m), expected, "{name}");
    }
}

#[test]
fn adapters_without_port_guids_are_hosts_of_their_own() {
    let factory = LMC
        .replace("n1 HCA-1", "MT1 X")
        .replace("n2 HCA-1", "MT1 X");
    let without = factory.replace("(51)", " ").replace("(61)", " ");
    for scan in [factory, without] {
        let m = parse(&scan).unwrap();
        let hosts: Vec<&str> = m.fabric.nodes().iter().map(|n| &*n.host).collect();
        assert_ne!(hosts[0], hosts[1], "{hosts:?}");
    }
}

#[test]
fn two_ports_of_an_adapter_without_port_guids_are_told_by_number() {
    let scan = "switchguid=0x10\nSwitch 4 \"S-10\" # \"leaf\"\n[1] \"H-20\"[1] # \"n1 HCA-1\"\n[2] \"H-20\"[2] # \"n1 HCA-1\"\n\
        caguid=0x20\nCa 2 \"H-20\" # \"n1 HCA-1\"\n[1] \"S-10\"[1]\n[2] \"S-10\"[2]\n";
    let m = parse(scan).unwrap();
    let nodes = m.fabric.nodes().iter();
    let nodes: Vec<(&str, &str)> = nodes.map(|n| (&*n.name, &*n.host)).collect();
    let name = |port| format!("n1 HCA-1 [0x0000000000000020 port {port}]");
    assert_eq!(nodes, [(&*name(1), "n1"), (&*name(2), "n1")]);
}

#[test]
fn routers_to_other_subnets_are_no_nodes() {
    let routed = LMC.replace("caguid=0x60\nCa 1 \"H-60\"", "rtguid=0x60\nRt 1 \"R-60\"");
    let routed = routed.replace("\"H-60\"", "\"R-60\"");
    let tables = tables();
    let m = with_tables(&routed, &tables).unwrap();
    let names: Vec<&str> = m.fabric.nodes().iter().map(|n| &*n.name).collect();
    assert_eq!(names, ["n1 HCA-1"]);
    let said = m.notes.join("\n");
    assert!(
        said.contains("1 router to another subnet is not among the nodes"),
        "{said}"
    );
    assert!(!said.contains("not in the scan"), "{said}");
    let whole = parse(LMC).unwrap();
    assert_eq!(m.fabric.links().len(), whole.fabric.links().len());
}

/// A port of `iblinkinfo`: LID and port at both ends, and the far name.
fn port(lid: u32, number: u16, far: (u32, u16, &str)) -> String {
    format!(
        "  0x1 {lid} {number}[ ] ==( 4X 2.5 Gbps Active/ LinkUp)==> {} {}[ ] \"{}\" ( )\n",
        far.0, far.1, far.2
    )
}

const DOWN: &str = "  2 9[ ] ==( Down/ Polling)==> [ ] \"\" ( )\n";

#[test]
fn a_switch_without_a_section_is_told_by_its_ports() {
    let adapter = format!("CA: n1 HCA-1:\n{}", port(10, 1, (4, 3, "leaf b")));
    let spine = format!(
        "Switch: 0x30 spine a:\n{}{}",
        port(6, 1, (2, 1, "leaf a")),
        port(6, 2, (4, 1, "leaf b"))
    );
    let m = parse(&(adapter.clone() + &spine)).unwrap();
    let names: Vec<&str> = m.fabric.routers().iter().map(|n| &*n.name).collect();
    // Leaf a is cabled by one port that an adapter could have too.
    assert_eq!(names, ["leaf b", "spine a"]);
    let said = m.notes.join("\n");
    assert!(said.contains("1 switch has no heading"), "{said}");
    assert!(said.contains("leaf b"), "{said}");
    assert!(m.fabric.router_named("lid:4").is_some());
    let refused = |text: &str, words: &str| {
        let error = parse(text).unwrap_err();
        assert!(error.contains(words), "{error}");
    };
    refused(&adapter, "cas-only");
    refused(&format!("Switch: 0x30 spine a:\n{DOWN}"), "down");
}

#[test]
fn ports_with_lid_0_are_not_one_device() {
    let none = format!(
        "Switch: 0x30 spine a:\n{}{}",
        port(0, 1, (0, 1, "leaf a")),
        port(0, 2, (0, 1, "leaf b"))
    );
    let error = parse(&none).unwrap_err();
    assert!(
        error.contains("LID 0") && error.contains("iblinkinfo -l"),
        "{error}"
    );
    let one = format!(
        "Switch: 0x30 spine a:\n{}{}",
        port(6, 1, (0, 1, "n1")),
        port(6, 2, (8, 1, "n2 HCA-1"))
    );
    let m = parse(&one).unwrap();
    assert_eq!(m.fabric.nodes().len(), 1);
    assert!(
        m.notes.join("\n").contains("1 cabled port has LID 0"),
        "{:?}",
        m.notes
    );
}

/// A log of a terminal, which has lost its tabs and keeps its prompts, is the scan itself.
#[test]
fn logs_of_terminals_are_read() {
    let scan = parse(LMC).unwrap();
    let log = format!(
        "=~=~=~= PuTTY log 2021.06.15 12:06:05 =~=~=~=\n[standalone: master] > ibnetdiscover\n{LMC}sm1-ufm [ mgmt-ha-active ] (config) # \n"
    );
    let log = log.replace("Switch 4", "Switch4").replace("Ca 1", "Ca1");
    let log = log.replace("] \"", "]\"").replace(" # \"", "# \"");
    let m = parse(&log).unwrap();
    assert_eq!(m.fabric.links().len(), scan.fabric.links().len());
    assert_eq!(m.fabric.routers().len(), scan.fabric.routers().len());
    assert_eq!(m.notes, scan.notes);
}

#[test]
fn ports_without_a_lid_share_none() {
    let scan = LMC.replace("lid 10 ", "lid 65535 ");
    let scan = scan.replace("lid 12 ", "lid 65535 ");
    let said = parse(&scan).unwrap().notes.join("\n");
    assert!(said.contains("2 ports have no LID (65535"), "{said}");
    assert!(!said.contains("of two ports"), "{said}");
}

#[test]
fn lists_of_devices_and_remarks_are_known() {
    let error = parse("Ca\t: 0x0000000000000050 ports 1 \"n1 HCA-1\"\n").unwrap_err();
    assert!(error.contains("without cables"), "{error}");
    let remark = "*** WARNING ***: this command has been replaced by dump_fts\n";
    let m = with_tables(LMC, &format!("{remark}{}", tables())).unwrap();
    let said = m.notes.join("\n");
    assert!(!said.contains("could not read"), "{said}");
}
