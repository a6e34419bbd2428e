//! A Slingshot point-to-point file against counts and joins on the raw text.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::{content, machine, parse};
use hopbyte_fabric::{End, Family, Reach};
use hopbyte_testdata::shared;
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn the_published_cables_are_all_there() {
    let Some(path) = shared("slingshot/Shasta_system_hsn_pt_pt.valid.1.csv") else {
        return;
    };
    let raw = content(&path);
    let m = machine(&path);
    let f = &m.fabric;
    assert_eq!(f.family(), Family::Slingshot);
    let mut switches = BTreeSet::new();
    let mut cards: BTreeMap<&str, Vec<(&str, u16)>> = BTreeMap::new();
    let mut ends = 0;
    for line in raw.lines().skip(1) {
        let c: Vec<&str> = line.split(',').collect();
        let (switch, jack) = c[1].rsplit_once('j').unwrap();
        let jack: u16 = jack.parse().unwrap();
        switches.insert(switch);
        let router = f.find_router(switch).unwrap();
        assert_eq!(
            f.coord(router).unwrap()[0],
            c[11].parse::<u32>().unwrap(),
            "{line}"
        );
        if c[10] == "edge" {
            for (i, card) in c[3..5].iter().enumerate() {
                cards
                    .entry(card)
                    .or_default()
                    .push((switch, 2 * jack + i as u16));
                ends += 2;
            }
            continue;
        }
        let (far, far_jack) = c[3].rsplit_once('j').unwrap();
        switches.insert(far);
        let to = End::Router(f.find_router(far).unwrap());
        for port in [0, 1] {
            let link = f.links_from(router).iter().find(|&&l| {
                let far_port = 2 * far_jack.parse::<u16>().unwrap() + port;
                f.link(l).to == to
                    && f.ports(l)
                        .iter()
                        .any(|p| (p.from, p.to) == (2 * jack + port, far_port))
            });
            let link = *link.unwrap_or_else(|| panic!("{line}"));
            assert_eq!(f.kind(link).name, c[10], "{line}");
            assert_eq!(f.link(link).nominal.gb(), 25.0 * f.ports(link).len() as f64);
            assert!(f.reverse(link).is_some(), "{line}");
            ends += 2;
        }
    }
    assert_eq!(f.port_count(), ends);
    assert_eq!(
        (f.routers().len(), f.nodes().len()),
        (switches.len(), cards.len())
    );
    for (card, ports) in cards {
        let node = f.node(f.find_node(card).unwrap());
        assert_eq!(f.router(node.router).name, ports[0].0);
        let ours: Vec<u16> = f.ports(node.inject).iter().map(|p| p.to).collect();
        assert_eq!(ours, ports.iter().map(|p| p.1).collect::<Vec<_>>());
    }
    assert_eq!(f.components(), 1);
    assert_eq!(Reach::of(f, &m.routing).unroutable_pairs(), 0);
}

#[test]
fn a_file_without_its_header_is_refused() {
    let Some(path) = shared("slingshot/Shasta_system_hsn_pt_pt.invalid.csv") else {
        return;
    };
    let error = parse(&content(&path)).unwrap_err();
    for part in [
        "input:1: found 3000.9000.00.0001,x3000c0r15j1,none",
        "expected column names with src_conn_a among them",
        "hint: the first line that is not a comment must be cable_id",
    ] {
        assert!(error.contains(part), "{error}");
    }
}

const HEAD: &str = "\"# made by hand, quoted\"\n# a comment\n\
    cable_id,src_conn_a,dst_conn_a,dst_conn_b,link_type,src_group,dst_group,part_length,route\n";

#[test]
fn other_spellings_are_read_and_contradictions_refused() {
    let good = "0,x9.c1.r3.j1,x10.c0.r1.j2,n/a,global,0,1,20,\"['a', 'b']\"\n\
                0,x9c1r3j2,x9c1s0b0n0h0,,edge,0,none,none,none\n\
                0,x10c0r1j3,x10c0s0b0n0h0,x10c0s0b0n0h1,edge,1,,1.5,[]\n";
    let m = parse(&format!("{HEAD}{good}")).unwrap();
    let names: Vec<&str> = m.fabric.routers().iter().map(|r| r.name.as_str()).collect();
    assert_eq!(names, ["x9c1r3", "x10c0r1"]);
    assert_eq!((m.fabric.nodes().len(), m.fabric.port_count()), (3, 4 + 6));
    assert_eq!(m.fabric.find_host("x10c0s0b0n0").len(), 2);
    let latency = m
        .fabric
        .links()
        .iter()
        .map(|l| l.latency.0)
        .fold(0.0, f64::max);
    assert!((latency - 450e-9).abs() < 1e-12, "{latency}");
    for (bad, expected) in [
        (
            "0,x9c1r3j1,x10c0r1j2,n/a,optical,0,1,20,[]",
            ":4: found optical, expected local, global or edge",
        ),
        (
            "0,x9c1r3j1,x10c0r1j2,n/a,global,0,1",
            ":4: found 7 cells, expected 9, as in the header",
        ),
        (
            "0,x9c1r3,x10c0r1j2,n/a,global,0,1,20,[]",
            ":4: found x9c1r3, expected a jack of a switch",
        ),
        (
            "0,x9c1r3j1,x9c1r3j2,n/a,local,0,0,20,[]",
            "expected a jack of another switch",
        ),
        (
            "0,x9c1r3j1,x10c0r1j2,n/a,global,zero,1,20,[]",
            ":4: found zero, expected a group's number",
        ),
        (
            "0,x9c1r3j1,none,none,edge,0,none,2,[]",
            "expected a network card in dst_conn_a",
        ),
        (
            "0,x9c1r3j1,x1c0s0b0n0,none,edge,0,none,2,[]",
            ":4: found x1c0s0b0n0, expected a network card such as",
        ),
        (
            "0,x9c1r3j1,x9c1r4j1,,local,0,0,2,[]\n0,x9c1r3j1,x9c1r5j1,,local,0,0,2,[]",
            ":5: found x9c1r3j1, expected a free jack; line 4",
        ),
        (
            "0,x9c1r3j1,x9c1r4j1,,local,0,0,2,[]\n0,x9c1r3j2,x9c1r4j2,,local,1,0,2,[]",
            ":5: found 1, expected group 0, in which x9c1r3 is",
        ),
        (
            "0,x9c1r3j1,x1c0s0b0n0h0,,edge,0,,2,[]\n0,x9c1r3j2,x1c0s0b0n0h0,,edge,0,,2,[]",
            ":5: found x1c0s0b0n0h0, expected every network card on one cable",
        ),
    ] {
        let error = parse(&format!("{HEAD}{bad}\n"))
            .err()
            .unwrap_or_else(|| panic!("{bad} was read"));
        assert!(
            error.contains(expected),
            "{bad}\n  says {error}\n  lacks {expected}"
        );
    }
}

/// Groups are all-to-all; a list that was cut after a line has gaps.
#[test]
fn pairs_of_a_group_without_a_cable_are_noted() {
    let cable =
        |jack: u32, a: u32, b: u32| format!("0,x9c1r{a}j{jack},x9c1r{b}j{jack},,local,0,0,2,[]\n");
    let cut = format!("{HEAD}{}{}", cable(1, 1, 3), cable(2, 3, 5));
    let notes = |text: &str| parse(text).unwrap().notes.join("\n");
    assert!(
        notes(&cut).contains(
            "1 of 3 pairs of switches of one group are not cabled to each other; was the file cut?: x9c1r1 and x9c1r5"
        ),
        "{}",
        notes(&cut)
    );
    let whole = format!("{cut}{}", cable(3, 1, 5));
    assert!(!notes(&whole).contains("cabled to each other"));
    let bare = "3 of 3 switches have no network card; was the file cut?";
    assert!(notes(&whole).contains(bare), "{}", notes(&whole));
    let card = |n: u32| format!("0,x9c1r{n}j9,x9c1s{n}b0n0h0,,edge,0,,2,[]\n");
    let whole = [whole, card(1), card(3), card(5)].concat();
    assert_eq!(notes(&whole), "");
    assert!(notes(whole.trim_end()).contains("the last line has no line end"));
}
