//! Other tools' forms of the same InfiniBand fabrics, compared with the scans and tables of `ibnetdiscover`.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::{SUBNET, content, machine, machine_of, parse, with_routes};
use hopbyte_fabric::check::Check;
use hopbyte_fabric::{Fabric, LinkId, NodeId, Reach};
use hopbyte_observe::Machine;
use hopbyte_testdata::{own, shared};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// All links as text: ports, rates, ends.
fn links(f: &Fabric) -> BTreeSet<String> {
    f.link_ids()
        .map(|l| {
            let (name, to) = (f.link_name(l), f.end_name(f.link(l).to));
            format!("{name} -> {to}[{}] {}", f.ports(l)[0].to, f.kind(l).name)
        })
        .collect()
}

/// The links between two nodes, or where they end.
fn route(m: &Machine, from: NodeId, to: NodeId, links: &mut Vec<LinkId>) -> Result<(), String> {
    links.clear();
    let found = m.routing.route(&m.fabric, from, to, links);
    found.map(|_| ()).map_err(|e| format!("{:?}", e.reason))
}

/// Compares the routes of all pairs by the names of nodes and links.
fn same_routes(a: &Machine, b: &Machine) -> usize {
    let by_name: HashMap<String, LinkId> = b
        .fabric
        .link_ids()
        .map(|l| (b.fabric.link_name(l), l))
        .collect();
    let ids = a.fabric.link_ids().map(|l| by_name[&a.fabric.link_name(l)]);
    let ids: Vec<LinkId> = ids.collect();
    let node = |id: NodeId| b.fabric.find_node(&a.fabric.node(id).name).unwrap();
    let nodes: Vec<(NodeId, NodeId)> = a.fabric.node_ids().map(|id| (id, node(id))).collect();
    let mut routable = 0;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for &(from, other_from) in &nodes {
        for &(to, other_to) in nodes.iter().filter(|&&(to, _)| to != from) {
            let ends = route(a, from, to, &mut ours);
            assert_eq!(ends, route(b, other_from, other_to, &mut theirs));
            if ends.is_ok() {
                ours.iter_mut().for_each(|l| *l = ids[l.index()]);
                assert_eq!(
                    ours,
                    theirs,
                    "{} to {}",
                    a.fabric.node(from).name,
                    a.fabric.node(to).name
                );
                routable += 1;
            }
        }
    }
    routable
}

#[test]
fn x5_is_one_fabric_in_four_forms() {
    let folder = own("infiniband/opensm-x5-minhop");
    let reference = machine(&folder.join("ibnetdiscover-p.out.zst"));
    for form in ["iblinkinfo.out.zst", "opensm-subnet.lst.zst"] {
        let other = machine(&folder.join(form));
        assert_eq!(links(&other.fabric), links(&reference.fabric), "{form}");
        assert!(other.notes[0].contains("found beside"), "{:?}", other.notes);
        assert_eq!(other.notes.len(), 1, "{:?}", other.notes);
        assert_eq!(same_routes(&other, &reference), 89 * 88, "{form}");
    }
    let files = with_routes(
        &folder.join("iblinkinfo.out.zst"),
        &[folder.join("opensm.fdbs")],
    );
    assert_eq!(same_routes(&machine_of(&files), &reference), 89 * 88);
}

#[test]
fn the_torus_is_one_fabric_in_two_forms() {
    let folder = own("infiniband/opensm-torus-5x4x3");
    let reference = machine(&folder.join("ibnetdiscover.out.zst"));
    let scan = folder.join("opensm-subnet.lst.zst");
    let list = machine_of(&with_routes(&scan, &[folder.join("opensm.fdbs.zst")]));
    assert_eq!(links(&list.fabric), links(&reference.fabric));
    assert_eq!(same_routes(&list, &reference), 120 * 119);
}

#[test]
fn the_torus_has_the_coordinates_that_opensm_found() {
    let folder = own("infiniband/opensm-torus-5x4x3");
    let m = machine(&folder.join("ibnetdiscover.out.zst"));
    let f = &m.fabric;
    let shape = f.shape().unwrap();
    assert_eq!(
        (&shape.dims[..], &shape.wrap[..]),
        (&[5, 4, 3][..], &[true; 3][..])
    );
    for r in f.router_ids() {
        let coord: Vec<String> = f.coord(r).unwrap().iter().map(u32::to_string).collect();
        assert_eq!(f.router(r).name, format!("sw-{}", coord.join("-")));
    }
    assert!(
        !m.notes.iter().any(|n| n.contains("configuration")),
        "{:?}",
        m.notes
    );
    // A configuration of another torus, and a switch without a place.
    let scratch = tempfile::tempdir().unwrap();
    let conf = scratch.path().join("torus.conf");
    std::fs::write(
        &conf,
        "torus 5 4 3m\nxp_link 0x100000 0x100003\nym_link 0x100000 0x100009\n",
    )
    .unwrap();
    let scan = folder.join("ibnetdiscover.out.zst");
    let tables = folder.join("opensm-lfts.dump.zst");
    let m = machine_of(&with_routes(&scan, &[conf, tables]));
    let note = m
        .notes
        .iter()
        .find(|n| n.contains("configuration"))
        .unwrap();
    assert!(
        note.starts_with("2 lines") && note.contains("torus 5 4 3m, xp_link"),
        "{note}"
    );
    let dump = content(&folder.join("opensm-torus.dump"));
    let short = scratch.path().join("opensm-torus.dump");
    std::fs::write(
        &short,
        dump.lines()
            .skip(1)
            .map(|l| format!("{l}\n"))
            .collect::<String>(),
    )
    .unwrap();
    let mut files = with_routes(&scan, &[folder.join("opensm-lfts.dump.zst")]);
    files.system_map = Some(short);
    let m = machine_of(&files);
    assert!(m.fabric.shape().is_none());
    assert!(
        m.notes
            .iter()
            .any(|n| n.contains("no coordinate, so none is used: sw-0-0-0"))
    );
}

#[test]
fn lids_from_guid2lid_serve_a_scan_without_lids() {
    let folder = own("infiniband/opensm-torus-5x4x3");
    let reference = machine(&folder.join("ibnetdiscover.out.zst"));
    let scratch = tempfile::tempdir().unwrap();
    let node = |name: String| reference.fabric.node_named(&name);
    // Of several GUIDs of an adapter the lowest.
    let guids: HashMap<NodeId, u64> = (0x20_0001..0x20_0800u64)
        .rev()
        .filter_map(|guid| Some((node(format!("0x{guid:016x}"))?, guid)))
        .collect();
    assert_eq!(guids.len(), reference.fabric.nodes().len());
    // In OpenSM's form: a line for each port GUID, blank lines between.
    let lids: Vec<String> = (1..=180)
        .filter_map(|lid| Some((lid, guids[&node(format!("lid:{lid}"))?])))
        .map(|(lid, guid)| format!("0x{guid:016x} 0x{lid:04x} 0x{lid:04x}\n\n"))
        .collect();
    let path = scratch.path().join("guid2lid");
    std::fs::write(&path, lids.concat()).unwrap();
    // fdbs have no GUIDs, the input of ibsim no LIDs: only together they give routes.
    let (scan, tables) = (folder.join("torus.net.zst"), folder.join("opensm.fdbs.zst"));
    let without = hopbyte_observe::read_machine(&with_routes(&scan, std::slice::from_ref(&tables)));
    assert!(
        without
            .unwrap_err()
            .to_string()
            .contains("no entry for any node")
    );
    let with = machine_of(&with_routes(&scan, &[path, tables]));
    assert_eq!(same_routes(&with, &reference), 120 * 119);
}

#[test]
fn the_old_subnet_list_is_read_and_routes_by_its_fdbs() {
    let Some(path) = shared("infiniband/opensm-2003/subnet.lst.gz") else {
        return;
    };
    let m = machine(&path);
    let raw = content(&path);
    assert_eq!((raw.lines().count(), m.fabric.port_count()), (344, 344));
    let guids: BTreeSet<&str> = raw
        .match_indices("{ SW")
        .map(|(i, _)| {
            raw[i..]
                .split("NodeGUID:")
                .nth(1)
                .unwrap()
                .get(..16)
                .unwrap()
        })
        .collect();
    assert_eq!(m.fabric.routers().len(), guids.len());
    // Another walk, on text: cables by GUID and port, tables by GUID and LID.
    let field = |side: &str, name: &str| {
        let from = side.split(name).nth(1).unwrap();
        u64::from_str_radix(from.split(' ').next().unwrap(), 16).unwrap()
    };
    let mut peer = HashMap::new();
    let mut adapters = BTreeMap::new();
    for line in raw.lines() {
        let sides: Vec<&str> = line.split("} {").collect();
        let end = |s: &str| (field(s, "NodeGUID:"), field(s, "PN:"));
        peer.insert(end(sides[0]), end(sides[1]));
        if sides[0].starts_with("{ CA") {
            adapters.insert(
                end(sides[0]),
                (field(sides[0], "PortGUID:"), field(sides[0], "LID:")),
            );
        }
    }
    assert_eq!(m.fabric.nodes().len(), adapters.len());
    let mut tables: HashMap<(u64, u64), u64> = HashMap::new();
    let mut switch = 0;
    for line in content(&shared("infiniband/opensm-2003/osm.fdbs.gz").unwrap()).lines() {
        let w: Vec<&str> = line.split_whitespace().collect();
        match w[..] {
            ["dump_ucast_routes:", _, guid] => {
                switch = u64::from_str_radix(&guid[2..], 16).unwrap();
            }
            [lid, ":", port, ..] if lid.starts_with("0x") => {
                let lid = u64::from_str_radix(&lid[2..], 16).unwrap();
                tables.insert((switch, lid), port.parse().unwrap());
            }
            _ => {}
        }
    }
    let mut routable = 0;
    for (&from, &(from_guid, _)) in &adapters {
        for (&to, &(to_guid, lid)) in adapters.iter().filter(|&(k, _)| *k != from) {
            let mut expected = vec![from.1];
            let mut at = peer[&from];
            while at != to && expected.len() < 40 {
                let Some(&port) = tables.get(&(at.0, lid)) else {
                    break;
                };
                expected.push(port);
                let Some(&next) = peer.get(&(at.0, port)) else {
                    break;
                };
                at = next;
            }
            let name = |g: u64| m.fabric.find_node(&format!("0x{g:016x}")).unwrap();
            let mut ours = Vec::new();
            let result = m
                .routing
                .route(&m.fabric, name(from_guid), name(to_guid), &mut ours);
            assert_eq!(result.is_ok(), at == to, "{from_guid:x} to {to_guid:x}");
            let ports: Vec<u64> = ours
                .iter()
                .map(|&l| m.fabric.ports(l)[0].from.into())
                .collect();
            if at == to {
                assert_eq!(ports, expected);
                routable += 1;
            }
        }
    }
    assert_eq!(routable, adapters.len() * (adapters.len() - 1));
}

#[test]
fn netloc_read_plafrim_as_we_do() {
    let Some(folder) = shared("infiniband/plafrim") else {
        return;
    };
    let ours = machine(&folder.join("ib-subnet-fe80_0000_0000_0000.txt"));
    let theirs = machine(&folder.join("netloc-IB-fe80_0000_0000_0000-nodes.txt.zst"));
    assert_eq!(links(&theirs.fabric), links(&ours.fabric));
    assert_eq!(same_routes(&theirs, &ours), 15_500);
}

#[test]
fn netloc_read_plafrim_2_as_we_do() {
    let Some(folder) = shared("infiniband/plafrim2") else {
        return;
    };
    for subnet in ["0000", "0001"] {
        let name = format!("fe80_0000_0000_{subnet}");
        let ours = machine(&folder.join(format!("ib-subnet-{name}.txt")));
        let theirs = machine(&folder.join(format!("netloc-IB-{name}-nodes.txt.zst")));
        assert_eq!(links(&theirs.fabric), links(&ours.fabric), "{subnet}");
    }
}

#[test]
fn ibdm_topologies_have_their_cables() {
    for (file, switches, hosts, cables) in
        [("4-ary-3-tree", 48, 64, 192), ("IS3-128", 17, 128, 256)]
    {
        let Some(path) = shared(&format!("infiniband/ibdm-topo/{file}.topo")) else {
            return;
        };
        let raw = content(&path);
        let m = machine(&path);
        // Every cable once, from either end.
        let mut seen = BTreeSet::new();
        let mut here = "";
        for line in raw
            .lines()
            .filter(|l| !l.starts_with('#') && !l.trim().is_empty())
        {
            let w: Vec<&str> = line.split_whitespace().collect();
            if line.starts_with(char::is_whitespace) {
                let mut ends = [(here, w[0]), (w[3], w[4])];
                ends.sort_unstable();
                seen.insert(ends);
            } else {
                here = w[1];
            }
        }
        assert_eq!(m.fabric.port_count(), 2 * seen.len(), "{file}");
        let counts = (m.fabric.routers().len(), m.fabric.nodes().len(), seen.len());
        assert_eq!(counts, (switches, hosts, cables), "{file}");
        assert_eq!(m.fabric.components(), 1);
        assert_eq!(Reach::of(&m.fabric, &m.routing).unroutable_pairs(), 0);
    }
    let rated = parse("SWITCH s\n  P1 -4x-2.5G-> HOST a P1\n  P2 -12x-10G-> HOST b P1\n").unwrap();
    let kinds = rated.fabric.kind_summary();
    assert_eq!(
        kinds.keys().copied().collect::<Vec<_>>(),
        ["12xQDR", "4xSDR"]
    );
}

#[test]
fn other_forms_say_what_is_wrong() {
    for (input, expected) in [
        (
            "{ SW NodeGUID:1 } {",
            ":1: found { SW NodeGUID:1 } {, expected { TYPE",
        ),
        (
            "{ SW Ports:08 NodeGUID:01 PortGUID:01 {a} LID:0002 PN:05 } { SW Ports:08 NodeGUID:02 PortGUID:02 {b} LID:0003 PN:04 } PHY=9x LOG=ACT",
            ":1: found 9x, expected a link width",
        ),
        (
            "Switch: 0x1 a:\n 1 1[ ] ==( 4X 10.0 Gbps Active/ LinkUp)==> 2[ ] \"b\" ( )",
            ":2: found 2[ ], expected LID PORT[ ]",
        ),
        (
            " 1 1[ ] ==( 4X 10.0 Gbps Active/ LinkUp)==> 2 1[ ] \"b\" ( )",
            ":1:",
        ),
        (
            "SWITCH s\n  P1 -> HOST a P1\n  L1/P2 -> HOST b P1",
            "hint: ports inside systems of several chips",
        ),
        (
            "# of several chips\nSWITCH s CFG: leaf3=R\n  L1/P1 -4x-5G-> HOST a P1\n",
            "hint: ports inside systems of several chips",
        ),
        (
            "CA: a HCA-1:\n 0x1 3 1[ ] ==( 4X 5.0 Gbps Active/ LinkUp)==> 4 1[ ] \"b HCA-1\" ( )\n\
             CA: b HCA-1:\n 0x2 4 1[ ] ==( 4X 5.0 Gbps Active/ LinkUp)==> 3 1[ ] \"a HCA-1\" ( )",
            "hint: adapters that are cabled to each other",
        ),
        (
            "SWITCH s\n  P1 -> HOST a P1\n  P2 -> CARD a P2",
            ":3: found CARD, expected HOST, its type",
        ),
        (
            "1\nfe80:0000:0000:0000\nx\n3\n0002:c903:004e:26b1,139,0,0,'a',a\n",
            "hint: is the file cut?",
        ),
        (
            "1\nfe80:0000:0000:0000\nx\n1\n0002:c903:004e:26b1,139,7,0,'a',a\n",
            ":5: found 0002",
        ),
        (
            "0x0000000000100000 0x0001 0x0001",
            "found forwarding tables or LIDs, expected a machine",
        ),
    ] {
        let error = parse(input)
            .err()
            .unwrap_or_else(|| panic!("{input} was read"));
        assert!(
            error.contains(expected),
            "{input}\n  says {error}\n  lacks {expected}"
        );
    }
}

/// Old versions of iblinkinfo print the width and speed of ports that are down, too.
#[test]
fn ports_that_are_down_have_a_width_in_old_versions() {
    let scan = "Switch 0x0000000000000010 IBM HSSM:\n\
        \x20   4    1[  ] ==( 4X 5.0 Gbps Active/  LinkUp)==>       1    1[  ] \"a HCA-1\" ( )\n\
        \x20   4    2[  ] ==( 4X 10.0 Gbps Active/  LinkUp)==>       2    1[  ] \"b HCA-1\" ( )\n\
        \x20   4    3[  ] ==( 4X 2.5 Gbps   Down/Disabled)==>             [  ] \"\" ( )\n\
        \x20   4    4[  ] ==( 4X 2.5 Gbps   Down/ Polling)==>             [  ] \"\" ( )\n";
    let m = parse(scan).unwrap();
    assert_eq!((m.fabric.nodes().len(), m.fabric.links().len()), (2, 4));
    let notes = m.notes.join("\n");
    assert!(
        notes.contains("was the file cut, or does it list switches alone?"),
        "{notes}"
    );
}

/// A cable that came up with one lane of four, beside one with all: `1xEDR` and `4xEDR` are kinds of their own.
#[test]
fn a_cable_slower_than_its_parallel_is_found() {
    let cable =
        |rate: &str| format!("[6]\t\"S-0000000000000002\"[6]\t\t# \"leaf two\" lid 2 {rate}\n");
    let back =
        |rate: &str| format!("[6]\t\"S-0000000000000001\"[6]\t\t# \"leaf one\" lid 1 {rate}\n");
    let found = |rate: &str| {
        let scan = SUBNET
            .replacen("[3]\t\"S-", &(cable(rate) + "[3]\t\"S-"), 1)
            .replacen("[4]\t\"S-", &(back(rate) + "[4]\t\"S-"), 1);
        let machine = parse(&scan).unwrap();
        let check = Check::of(&machine.fabric, &machine.routing, None);
        let slow: Vec<LinkId> = (check.findings.into_iter())
            .filter(|f| f.kind == "slow_link")
            .flat_map(|f| f.links)
            .collect();
        (machine.fabric.links().len(), slow.len())
    };
    let (links, slow) = found("4xQDR");
    assert_eq!(slow, 0);
    assert_eq!(found("1xQDR"), (links, 2));
}
