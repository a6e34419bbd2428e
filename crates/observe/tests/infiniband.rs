//! InfiniBand scans and tables against an independent reading of the raw text.
//!
//! The walker below shares nothing with the readers: it splits lines by white space and quotes into string maps, and
//! follows LIDs through the tables port by port.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::{content, machine, machine_of, parse, with_routes};
use hopbyte_fabric::{End, Fabric, Reach, Routing};
use hopbyte_observe::Machine;
use hopbyte_testdata::{own, shared};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::{Path, PathBuf};

type Guid = u64;
type Port = (Guid, u16);

/// Cables and adapter LIDs from the text of a scan. Adapters are identified by port GUID.
#[derive(Default)]
struct Raw {
    peer: HashMap<Port, Port>,
    adapters: BTreeMap<Guid, u32>,
    aggregators: Vec<Guid>,
}

fn hex(word: &str) -> u64 {
    u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap()
}

impl Raw {
    fn of(text: &str) -> Self {
        if text.lines().any(|l| l.starts_with("vendid")) {
            Self::of_records(text)
        } else {
            Self::of_port_lines(text)
        }
    }

    fn of_port_lines(text: &str) -> Self {
        let mut raw = Self::default();
        for line in text.lines() {
            let w: Vec<&str> = line.split_whitespace().collect();
            if !matches!(w.first(), Some(&"SW" | &"CA")) || w[6] != "-" {
                continue;
            }
            let a = (hex(w[3]), w[2].parse().unwrap());
            let b = (hex(w[10]), w[9].parse().unwrap());
            raw.peer.insert(a, b);
            if w[0] == "CA" {
                raw.adapters.insert(a.0, w[1].parse().unwrap());
            }
        }
        raw
    }

    fn of_records(text: &str) -> Self {
        let mut raw = Self::default();
        let (mut own, mut is_switch, mut aggregates) = (0, false, false);
        for line in text.lines() {
            let quoted: Vec<&str> = line.split('"').collect();
            if line.starts_with("Switch") || line.starts_with("Ca") {
                is_switch = line.starts_with("Switch");
                own = hex(&quoted[1][2..]);
                aggregates = quoted[3].contains("Aggregation");
            } else if line.starts_with('[') {
                let number =
                    |t: &str| -> u16 { t.split(['[', ']']).nth(1).unwrap().parse().unwrap() };
                let in_parentheses = |t: &str| {
                    let inner = t.split(['(', ')']).nth(1).filter(|_| t.contains('('));
                    inner.map(hex)
                };
                let near = if is_switch {
                    own
                } else {
                    in_parentheses(quoted[0]).unwrap()
                };
                let far = match in_parentheses(quoted[2].split('#').next().unwrap()) {
                    Some(guid) => guid,
                    None if quoted[1].starts_with("H-") => hex(&quoted[1][2..]) + 1,
                    None => hex(&quoted[1][2..]),
                };
                raw.peer
                    .insert((near, number(quoted[0])), (far, number(quoted[2])));
                if !is_switch && aggregates {
                    raw.aggregators.push(near);
                } else if !is_switch {
                    let comment: Vec<&str> = quoted[2].split_whitespace().collect();
                    let at = comment.iter().position(|w| *w == "lid").unwrap();
                    raw.adapters.insert(near, comment[at + 1].parse().unwrap());
                }
            }
        }
        raw
    }
}

/// Port by switch GUID and LID.
type Lft = HashMap<Guid, HashMap<u32, u16>>;

fn lft(files: &[PathBuf]) -> Lft {
    let mut tables = Lft::new();
    for file in files {
        let mut switch = 0;
        for line in content(file).lines() {
            if let Some(rest) = line.strip_prefix("Unicast") {
                switch = hex(rest
                    .split(" guid ")
                    .nth(1)
                    .unwrap()
                    .split(' ')
                    .next()
                    .unwrap());
            } else if line.starts_with("0x") {
                let w: Vec<&str> = line.split_whitespace().collect();
                let table = tables.entry(switch).or_default();
                table.insert(hex(w[0]) as u32, w[1].parse().unwrap());
            }
        }
    }
    tables
}

fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|e| e.unwrap().path()).collect()
}

/// The ports that a packet leaves by, from adapter to adapter; `None` if the tables do not deliver it.
fn walk(raw: &Raw, tables: &Lft, from: Guid, to: Guid) -> Option<Vec<Port>> {
    let first = (1..=2)
        .map(|p| (from, p))
        .find(|p| raw.peer.contains_key(p))?;
    let mut ports = vec![first];
    let mut at = raw.peer[&first].0;
    for _ in 0..64 {
        if raw.adapters.contains_key(&at) {
            return (at == to).then_some(ports);
        }
        let out = (at, *tables.get(&at)?.get(&raw.adapters[&to])?);
        at = raw.peer.get(&out)?.0;
        ports.push(out);
    }
    None
}

/// Compares every pair of adapters; returns (routable, unroutable) and the histogram of links.
fn agrees(raw: &Raw, tables: &Lft, m: &Machine) -> (usize, usize, BTreeMap<usize, usize>) {
    let fabric = &m.fabric;
    let name = |guid: u64| format!("0x{guid:016x}");
    let node: BTreeMap<Guid, _> = raw
        .adapters
        .keys()
        .map(|&g| (g, fabric.find_node(&name(g)).unwrap()))
        .collect();
    let guid_of: HashMap<End, Guid> = raw
        .peer
        .keys()
        .map(|&(g, _)| match node.get(&g) {
            Some(&n) => (End::Node(n), g),
            None => (End::Router(fabric.find_router(&name(g)).unwrap()), g),
        })
        .collect();
    let (mut histogram, mut dead) = (BTreeMap::new(), 0);
    let mut route = Vec::new();
    for (&from, &a) in &node {
        for (&to, &b) in node.iter().filter(|&(&to, _)| to != from) {
            route.clear();
            let ours = m.routing.route(fabric, a, b, &mut route);
            let Some(expected) = walk(raw, tables, from, to) else {
                let error = ours.expect_err("a route that the tables do not have");
                let text = error.describe(fabric);
                assert!(text.contains(&fabric.node(a).name) && text.contains(&fabric.node(b).name));
                dead += 1;
                continue;
            };
            ours.unwrap();
            let ports: Vec<Port> = route
                .iter()
                .map(|&l| (guid_of[&fabric.link(l).from], fabric.ports(l)[0].from))
                .collect();
            assert_eq!(ports, expected, "{from:x} to {to:x}");
            *histogram.entry(ports.len()).or_default() += 1;
        }
    }
    (histogram.values().sum(), dead, histogram)
}

fn hops(fabric: &Fabric, routing: &Routing) -> BTreeMap<usize, usize> {
    let hops = Reach::of(fabric, routing).hops;
    hops.into_iter().map(|(h, n)| (h, n as usize)).collect()
}

#[test]
fn plafrim_routes_as_its_tables_say() {
    let Some(folder) = shared("infiniband/plafrim") else {
        return;
    };
    let scan = folder.join("ib-subnet-fe80_0000_0000_0000.txt");
    let m = machine(&scan);
    let raw = Raw::of(&content(&scan));
    assert_eq!((m.fabric.routers().len(), m.fabric.nodes().len()), (9, 125));
    assert_eq!(m.fabric.port_count(), raw.peer.len());
    assert_eq!(m.fabric.port_count(), 402);
    let tables = lft(&files_in(&folder.join("ibroutes-fe80_0000_0000_0000")));
    let (routable, dead, histogram) = agrees(&raw, &tables, &m);
    assert_eq!((routable, dead), (15_500, 0));
    let published = [
        (2, 2410),
        (3, 1518),
        (4, 4978),
        (5, 3150),
        (6, 2040),
        (7, 1404),
    ];
    assert_eq!(histogram, BTreeMap::from(published));
    assert_eq!(hops(&m.fabric, &m.routing), histogram);
    let kinds = m.fabric.kind_summary();
    assert_eq!(kinds["4xQDR"].1.gb(), 4.0);
    assert_eq!((kinds["4xDDR"].0, kinds["4xSDR"].0), (64, 12));
    assert!(
        m.notes.iter().any(|n| n.contains("found beside")),
        "{:?}",
        m.notes
    );
}

#[test]
fn plafrim_2_routes_as_its_tables_say_and_no_further() {
    let Some(folder) = shared("infiniband/plafrim2") else {
        return;
    };
    for (subnet, routable, dead) in [("0000", 7005, 2115), ("0001", 506, 0)] {
        let name = format!("fe80_0000_0000_{subnet}");
        let scan = folder.join(format!("ib-subnet-{name}.txt"));
        let m = machine(&scan);
        let tables = lft(&files_in(&folder.join(format!("ibroutes-{name}"))));
        let raw = Raw::of(&content(&scan));
        let counted = agrees(&raw, &tables, &m);
        assert_eq!((counted.0, counted.1), (routable, dead), "subnet {subnet}");
        let incomplete = m.notes.iter().find(|n| n.contains("incomplete"));
        assert_eq!(incomplete.is_some(), dead > 0, "{:?}", m.notes);
        if let Some(note) = incomplete {
            assert!(note.contains("TS-i12k00066a00e30076ab 55 of 96"), "{note}");
        }
    }
}

#[test]
fn x5_routes_alike_in_all_forms() {
    let folder = own("infiniband/opensm-x5-minhop");
    let lines = folder.join("ibnetdiscover-p.out.zst");
    let (opensm, dumped) = (
        folder.join("opensm-lfts.dump.zst"),
        folder.join("dump_fts.out.zst"),
    );
    let raw = Raw::of(&content(&lines));
    for tables in [&opensm, &dumped] {
        let m = machine_of(&with_routes(&lines, std::slice::from_ref(tables)));
        assert_eq!((m.fabric.routers().len(), m.fabric.nodes().len()), (11, 89));
        assert_eq!(m.fabric.port_count(), 318);
        let (routable, dead, _) = agrees(&raw, &lft(std::slice::from_ref(tables)), &m);
        assert_eq!((routable, dead), (89 * 88, 0));
        assert!(m.notes.is_empty(), "{:?}", m.notes);
    }
    let Some(records) = shared("infiniband/x5/X5.topofile") else {
        return;
    };
    let raw = Raw::of(&content(&records));
    let m = machine_of(&with_routes(&records, std::slice::from_ref(&opensm)));
    let (routable, dead, _) = agrees(&raw, &lft(&[opensm]), &m);
    assert_eq!((routable, dead), (89 * 88, 0));
    // Both forms give one fabric: the same links under the same names.
    let other = machine(&lines);
    let links = |f: &Fabric| {
        let mut all: Vec<String> = f
            .link_ids()
            .map(|l| {
                format!(
                    "{} {} {}",
                    f.link_name(l),
                    f.end_name(f.link(l).to),
                    f.kind(l).name
                )
            })
            .collect();
        all.sort();
        all
    };
    assert_eq!(links(&m.fabric), links(&other.fabric));
}

#[test]
fn names_are_taken_from_a_map() {
    let Some(records) = shared("infiniband/x5/X5.topofile") else {
        return;
    };
    let mut files = crate::common::with_routes(&records, &[]);
    files.names = shared("infiniband/x5/X5.map");
    let m = machine_of(&files);
    let node = m.fabric.find_node("x5570comp1").unwrap();
    assert_eq!(m.fabric.find_node("0x003048c74e4a0000").unwrap(), node);
    assert_eq!(m.fabric.node(node).host, "x5570comp1");
}

/// Two names of one GUID and two ports with one LID: one counts, and a note tells of the other.
#[test]
fn names_and_lids_given_twice_are_told() {
    use hopbyte_observe::fabric::{Companions, read_machine_text};
    let scan = crate::common::SUBNET.replace("lid 4 ", "lid 3 ");
    let names = "0x11 \"a\"\n0x30 \"b\"\n0x11 \"a\"\n0x30 \"c\"\n";
    let names = crate::common::text("names", names);
    let with = Companions {
        names: Some(&names),
        ..Companions::default()
    };
    let m = read_machine_text(&crate::common::text("scan", &scan), None, with).unwrap();
    assert!(m.fabric.find_node("c").is_ok());
    let notes = m.notes.join("\n");
    for expected in [
        "1 GUID has two names in names, of which the later one counts: 0x0000000000000030 (b on line 2, c on line 4)",
        "1 LID is of two ports in scan, the first of which counts: 3 (a, c)",
    ] {
        assert!(notes.contains(expected), "{expected}: {notes}");
    }
}

#[test]
fn the_torus_routes_as_opensm_made_it() {
    let folder = own("infiniband/opensm-torus-5x4x3");
    let scan = folder.join("ibnetdiscover.out.zst");
    let m = machine(&scan);
    assert_eq!(
        (m.fabric.routers().len(), m.fabric.nodes().len()),
        (60, 120)
    );
    assert_eq!(m.fabric.port_count(), 720);
    let tables = lft(&[folder.join("opensm-lfts.dump.zst")]);
    let (routable, dead, histogram) = agrees(&Raw::of(&content(&scan)), &tables, &m);
    assert_eq!((routable, dead), (120 * 119, 0));
    // No pair of a 5×4×3 torus is further than 2 + 2 + 1 switches and the two host links.
    assert_eq!(histogram.keys().max(), Some(&7));
    // The input of ibsim has no LIDs: the nodes are found by the tables' GUIDs.
    let input = machine(&folder.join("torus.net.zst"));
    assert_eq!(hops(&input.fabric, &input.routing), histogram);
    assert!(input.fabric.kind_summary().contains_key("4xQDR"));
}

#[test]
fn the_dgx_fabric_has_its_cables_and_minimal_routes() {
    let Some(scan) = shared("infiniband/dgx-ndr.ibnetdiscover") else {
        return;
    };
    let m = machine(&scan);
    let raw = Raw::of(&content(&scan));
    assert_eq!(raw.peer.len(), 2228);
    assert_eq!(m.fabric.port_count(), 2228);
    assert_eq!((raw.adapters.len(), raw.aggregators.len()), (542, 40));
    assert_eq!(
        (m.fabric.routers().len(), m.fabric.nodes().len()),
        (40, 542)
    );
    assert!(
        m.notes
            .iter()
            .any(|n| n.starts_with("40 aggregation nodes"))
    );
    assert!(m.notes.iter().any(|n| n.contains("no forwarding tables")));
    // Distances from each adapter, by breadth-first search over the raw cables.
    let mut neighbours: HashMap<Guid, Vec<Guid>> = HashMap::new();
    for (&(a, _), &(b, _)) in &raw.peer {
        neighbours.entry(a).or_default().push(b);
    }
    let mut histogram = BTreeMap::new();
    for &from in raw.adapters.keys() {
        let mut distance = HashMap::from([(from, 0)]);
        let mut queue = VecDeque::from([from]);
        while let Some(at) = queue.pop_front() {
            for &next in &neighbours[&at] {
                if !distance.contains_key(&next) {
                    distance.insert(next, distance[&at] + 1);
                    queue.push_back(next);
                }
            }
        }
        for to in raw.adapters.keys().filter(|&&to| to != from) {
            *histogram.entry(distance[to]).or_default() += 1;
        }
    }
    assert_eq!(hops(&m.fabric, &m.routing), histogram);
    // Hosts with several adapters are found by host name; factory default names do not make a host.
    assert_eq!(m.fabric.find_host("a08-p1-dgx-04-c01").len(), 4);
    assert!(m.fabric.find_host("MT4129").is_empty());
}

#[test]
fn a_scan_without_switches_is_refused() {
    let Some(scan) = shared("infiniband/dgx-bad.ibnetdiscover") else {
        return;
    };
    let error = hopbyte_observe::read_machine(&crate::common::with_routes(&scan, &[])).unwrap_err();
    let text = error.to_string();
    assert!(
        text.contains("expected at least one switch") && text.contains("hint: "),
        "{text}"
    );
}

/// Two switches, three adapters of which one has two ports, one of each kind of trouble.
const SMALL: &str = r#"
Switch	4 "S-0000000000000001"	# "leaf" base port 0 lid 1 lmc 0
[1]	"H-0000000000000010"[1](11)	# "h1 HCA-1" lid 3 4xEDR
[2]	"H-0000000000000010"[2](12)	# "h1 HCA-1" lid 4 4xEDR
[3]	"S-0000000000000002"[3]	# "leaf" lid 2 4xQDR
[4]	"S-0000000000000002"[4]	# "leaf" lid 2 4x???

Switch	4 "S-0000000000000002"	# "leaf" base port 0 lid 2 lmc 0
[1]	"H-0000000000000020"[1](21)	# "h2 HCA-1" lid 8 4x???
[3]	"S-0000000000000001"[3]	# "leaf" lid 1 4xDDR
[4]	"S-0000000000000001"[4]	# "leaf" lid 1 4xFDR

Ca	2 "H-0000000000000010"	# "h1 HCA-1"
[1](11)	"S-0000000000000001"[1]	# lid 3 lmc 0 "leaf" lid 1 4xEDR
[2](12)	"S-0000000000000001"[2]	# lid 4 lmc 0 "leaf" lid 1 4xEDR
"#;

#[test]
fn names_with_spaces_are_hosts_of_their_own() {
    let text = SMALL
        .replace("h1 HCA", "node 1 HCA")
        .replace("h2 HCA", "node 2 HCA");
    let f = parse(&text).unwrap().fabric;
    let ports = |host: &str| f.find_host(host).len();
    assert_eq!([ports("node 1"), ports("node 2"), ports("node")], [2, 1, 0]);
}

#[test]
fn trouble_is_noted_and_never_guessed() {
    let m = parse(SMALL).unwrap();
    let f = &m.fabric;
    let names: Vec<&str> = f.routers().iter().map(|r| r.name.as_str()).collect();
    assert_eq!(
        names,
        ["leaf [0x0000000000000001]", "leaf [0x0000000000000002]"]
    );
    let nodes: Vec<&str> = f.nodes().iter().map(|n| n.name.as_str()).collect();
    assert_eq!(
        nodes,
        [
            "h1 HCA-1 [0x0000000000000011]",
            "h1 HCA-1 [0x0000000000000012]",
            "h2 HCA-1"
        ]
    );
    assert_eq!(f.find_host("h1").len(), 2);
    assert_eq!(f.find_node("h2").unwrap(), f.find_node("lid:8").unwrap());
    let notes = m.notes.join("\n");
    for expected in [
        "1 cable is listed from one end only and assumed complete: leaf[1]",
        "1 cable has two rates at their ends; the slower one counts: leaf[3] 4xQDR / 4xDDR",
        "1 cable has no known speed; SDR is assumed: leaf[1]",
    ] {
        assert!(notes.contains(expected), "{expected}\n{notes}");
    }
    let kinds = f.kind_summary();
    let count = |kind: &str| kinds.get(kind).map_or(0, |k| k.0);
    assert_eq!((count("4xDDR"), count("4xFDR"), count("4x???")), (2, 2, 2));
    assert_eq!(kinds["4x???"].1.gb(), 1.0);
}

#[test]
fn contradictions_are_refused_with_their_line() {
    let moved = SMALL.replace(
        "[3]	\"S-0000000000000001\"[3]",
        "[3]	\"S-0000000000000001\"[2]",
    );
    let error = parse(&moved).unwrap_err();
    assert!(error.starts_with("input:"), "{error}");
    assert!(
        error.contains("leaf[3] cabled to leaf[2]") || error.contains("cabled to"),
        "{error}"
    );
    assert!(error.contains("hint: "), "{error}");
    let doubled = format!("{SMALL}\n{SMALL}");
    assert!(
        parse(&doubled)
            .unwrap_err()
            .contains("one record for each device")
    );
}

#[test]
fn tables_of_another_fabric_and_cut_tables_are_refused() {
    let scan = own("infiniband/opensm-x5-minhop/ibnetdiscover-p.out.zst");
    let foreign = own("infiniband/opensm-torus-5x4x3/opensm-lfts.dump.zst");
    let error = hopbyte_observe::read_machine(&with_routes(&scan, &[foreign])).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("do the tables belong to this fabric?"),
        "{error}"
    );

    let folder = tempfile::tempdir().unwrap();
    let whole = content(&own("infiniband/opensm-x5-minhop/dump_fts.out.zst"));
    let without = |n: usize| -> String {
        let lines = whole.lines().enumerate().filter(|(i, _)| *i != n);
        lines.map(|(_, l)| format!("{l}\n")).collect()
    };
    let path = folder.path().join("tables");
    std::fs::write(&path, without(50)).unwrap();
    let error = hopbyte_observe::read_machine(&with_routes(&scan, std::slice::from_ref(&path)))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("expected the number of entries above, 99"),
        "{error}"
    );
    // Without the table of one switch: its pairs have no route, and a note names the switch.
    let leaf = whole.find(" guid 0x0008f10500200b50").unwrap();
    let start = whole[..leaf].rfind("Unicast").unwrap();
    let end = whole[leaf..]
        .find("Unicast")
        .map_or(whole.len(), |i| leaf + i);
    std::fs::write(&path, [&whole[..start], &whole[end..]].concat()).unwrap();
    let m = machine_of(&with_routes(&scan, &[path]));
    let note = m
        .notes
        .iter()
        .find(|n| n.contains("no forwarding table"))
        .unwrap();
    assert!(note.contains("0x0008f10500200b50"), "{note}");
    assert!(Reach::of(&m.fabric, &m.routing).unroutable_pairs() > 0);
}
