//! Cray interconnects and maps against independent counts and against the rules.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::{content, machine, machine_of, parse};
use hopbyte_fabric::{End, Fabric, LinkId, Reach, spec};
use hopbyte_observe::MachineFiles;
use hopbyte_testdata::{own, shared};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Compares an Aries machine with every line of its dump.
fn check_aries(path: &Path) -> (Fabric, usize) {
    let raw = content(path);
    let m = machine(path);
    let f = m.fabric;
    let mut ends = 0;
    for line in raw.lines() {
        let w: Vec<&str> = line.split_whitespace().collect();
        let (from, at) = w[0].split_once('(').unwrap();
        let (router, tile) = from.rsplit_once('l').unwrap();
        let router = f.find_router(router).unwrap();
        let coord: Vec<u32> = at
            .trim_end_matches(')')
            .split(':')
            .map(|c| c.parse().unwrap())
            .collect();
        assert_eq!(f.coord(router), Some(&coord[..]), "{line}");
        let number = u16::from_str_radix(tile, 8).unwrap();
        let of_tile: Vec<LinkId> = f
            .links_from(router)
            .iter()
            .copied()
            .filter(|&l| f.ports(l).iter().any(|p| p.from == number))
            .collect();
        if matches!(w[3], "unused" | "processor") {
            assert!(of_tile.is_empty(), "{line}");
            continue;
        }
        ends += 1;
        let [link] = of_tile[..] else {
            panic!("{line}: {} links", of_tile.len())
        };
        let (to, far_tile) = w[3].split('(').next().unwrap().rsplit_once('l').unwrap();
        assert_eq!(
            f.link(link).to,
            End::Router(f.find_router(to).unwrap()),
            "{line}"
        );
        let pair = f.ports(link).iter().find(|p| p.from == number).unwrap();
        assert_eq!(pair.to, u16::from_str_radix(far_tile, 8).unwrap(), "{line}");
        assert_eq!(f.kind(link).name, w[1], "{line}");
        let tile_gb = if w[1] == "blue" { 4.6875 } else { 5.25 };
        assert_eq!(
            f.link(link).nominal.gb(),
            tile_gb * f.ports(link).len() as f64
        );
        assert!(f.reverse(link).is_some(), "{line}");
    }
    assert_eq!(f.port_count(), ends);
    (f, ends)
}

#[test]
fn edison_is_read_completely() {
    let Some(path) = shared("cray/edison.interconnect.txt.zst") else {
        return;
    };
    let (f, ends) = check_aries(&path);
    assert_eq!(
        (f.routers().len(), f.nodes().len(), ends),
        (1440, 5760, 48_240)
    );
    // Counted another way: every line has one coordinate, and link ends a second one.
    let raw = content(&path);
    let coordinates = raw.matches('(').count();
    assert_eq!(coordinates - raw.lines().count(), 48_240);
    assert_eq!(f.components(), 1);
    let groups: BTreeSet<u32> = f.router_ids().map(|r| f.coord(r).unwrap()[0]).collect();
    assert!(!groups.contains(&12) && groups.len() == 15);
    check_map(
        &f,
        &content(&shared("cray/edison.system-map.txt.zst").unwrap()),
        5760,
    );
    let kinds = f.kind_summary();
    assert_eq!((kinds["green"].0, kinds["black"].0), (1440 * 15, 1440 * 5));
}

/// Every line of a system map against the fabric: name, nid, router, coordinate.
fn check_map(f: &Fabric, map: &str, nodes: usize) {
    let mut lines = 0;
    for line in map.lines().skip(2) {
        let w: Vec<&str> = line.split_whitespace().collect();
        let node = f.find_node(w[2]).unwrap();
        let known = f.node(node);
        assert_eq!(f.find_node(&format!("nid{:0>5}", w[0])).unwrap(), node);
        assert_eq!(known.nid, Some(w[0].parse().unwrap()), "{line}");
        assert_eq!(f.router(known.router).name, w[3], "{line}");
        let coord: Vec<u32> = w[4..].iter().map(|c| c.parse().unwrap()).collect();
        assert_eq!(f.coord(known.router), Some(&coord[..]), "{line}");
        lines += 1;
    }
    assert_eq!((lines, f.nodes().len()), (nodes, nodes));
}

#[test]
fn edison_without_its_map_has_the_same_nodes_by_rule() {
    let Some(path) = shared("cray/edison.interconnect.txt.zst") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let alone = folder.path().join("interconnect.txt");
    std::fs::write(&alone, content(&path)).unwrap();
    let m = machine(&alone);
    assert!(
        m.notes.iter().any(|n| n.contains("no system map")),
        "{:?}",
        m.notes
    );
    check_map(
        &m.fabric,
        &content(&shared("cray/edison.system-map.txt.zst").unwrap()),
        5760,
    );
}

#[test]
fn mutrino_is_read_completely() {
    let Some(path) = shared("cray/mutrino.interconnect.txt") else {
        return;
    };
    let (f, ends) = check_aries(&path);
    assert_eq!((f.routers().len(), f.nodes().len(), ends), (68, 272, 1598));
    let m = machine(&path);
    let reach = Reach::of(&m.fabric, &m.routing);
    assert_eq!((reach.pairs, reach.unroutable_pairs()), (272 * 271, 0));
}

#[test]
fn cielo_follows_the_rules_in_every_node() {
    let Some(path) = shared("cray/cielo.system-map.txt") else {
        return;
    };
    let m = machine(&path);
    check_map(&m.fabric, &content(&path), 9216);
    assert_eq!(m.fabric.port_count(), 184_320);
    assert!(m.notes[0].contains("whole 16x12x24"), "{:?}", m.notes);
}

#[test]
fn hopper_follows_the_rules_in_every_node() {
    let Some(path) = shared("cray/hopper_nodemap.txt") else {
        return;
    };
    let m = machine(&path);
    check_node_map(&m.fabric, &content(&path));
}

fn check_node_map(f: &Fabric, map: &str) {
    let mut lines = 0;
    for line in map.lines().skip(1) {
        let w: Vec<&str> = line.split_whitespace().collect();
        let node = f.find_node(w[0]).unwrap();
        let coord: Vec<u32> = w[1..4].iter().map(|c| c.parse().unwrap()).collect();
        assert_eq!(f.coord(f.node(node).router), Some(&coord[..]), "{line}");
        let g: u32 = coord[1] % 2;
        let last = f.node(node).name.rsplit('n').next().unwrap().parse::<u32>();
        assert_eq!(last, Ok(2 * g + w[4].parse::<u32>().unwrap()), "{line}");
        lines += 1;
    }
    assert_eq!((lines, f.nodes().len()), (6528, 6528));
}

/// Text of an interconnect or map from the generator beside the shared captures.
fn generated(size: [u32; 3], what: &[&str]) -> Option<String> {
    let script = shared("make_gemini.py")?;
    let mut command = Command::new("python3");
    command
        .arg(script)
        .args(size.map(|n| n.to_string()))
        .args(what);
    let output = command.output().expect("python3 runs");
    assert!(output.status.success());
    Some(String::from_utf8(output.stdout).unwrap())
}

/// Everything that makes a Gemini fabric, in comparable form.
type Links = BTreeMap<String, (String, String, u64, u16, BTreeSet<(u16, u16)>)>;

fn links(f: &Fabric) -> Links {
    f.link_ids()
        .map(|l| {
            let link = f.link(l);
            let ports = f.ports(l).iter().map(|p| (p.from, p.to)).collect();
            let to = f.end_name(link.to);
            let kind = f.kind(l).name.clone();
            (
                f.link_name(l),
                (to, kind, link.nominal.0.to_bits(), link.lanes, ports),
            )
        })
        .collect()
}

fn assert_equal(read: &Fabric, spec: &Fabric) {
    assert_eq!(read.shape(), spec.shape());
    assert_eq!(read.routers(), spec.routers());
    for r in spec.router_ids() {
        assert_eq!(read.coord(r), spec.coord(r));
    }
    assert_eq!(read.nodes(), spec.nodes());
    assert_eq!(read.kind_summary(), spec.kind_summary());
    assert_eq!(links(read), links(spec));
}

#[test]
fn generated_gemini_machines_equal_their_specs() {
    for size in [[2, 2, 8], [16, 12, 24], [17, 8, 24]] {
        let (Some(interconnect), Some(map)) = (
            generated(size, &["--interconnect"]),
            generated(size, &["--system-map"]),
        ) else {
            return;
        };
        let [x, y, z] = size;
        let spec = spec::fabric(&format!("gemini:{x}x{y}x{z}")).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let dump = folder.path().join("interconnect.txt");
        std::fs::write(&dump, &interconnect).unwrap();
        let by_rule = machine(&dump);
        assert_equal(&by_rule.fabric, &spec);
        assert_eq!(by_rule.fabric.port_count(), interconnect.lines().count());
        // From now on the map is in the same folder and is found.
        std::fs::write(folder.path().join("system-map.txt"), &map).unwrap();
        let with_map = machine(&dump);
        assert!(
            with_map.notes[0].contains("found beside"),
            "{:?}",
            with_map.notes
        );
        assert_equal(&with_map.fabric, &spec);
        if size == [17, 8, 24] {
            let mut files = MachineFiles::new(dump.to_str().unwrap());
            files.system_map = shared("cray/hopper_nodemap.txt");
            let hopper = machine_of(&files);
            assert_equal(&hopper.fabric, &spec);
            check_node_map(
                &hopper.fabric,
                &content(&shared("cray/hopper_nodemap.txt").unwrap()),
            );
        }
    }
}

#[test]
fn the_golden_gemini_equals_its_spec() {
    let m = machine(&own("cray/gemini-2x2x8.interconnect.txt.zst"));
    assert_equal(&m.fabric, &spec::fabric("gemini:2x2x8").unwrap());
    // Lines in any order, blanks for tabs, comments: the same machine.
    let raw = content(&own("cray/gemini-2x2x8.interconnect.txt.zst"));
    let mut lines: Vec<String> = raw.lines().map(|l| l.replace(' ', "   ")).collect();
    lines.reverse();
    lines.insert(0, "# a comment".into());
    assert_equal(&parse(&lines.join("\r\n")).unwrap().fabric, &m.fabric);
}

#[test]
fn what_a_gemini_dump_leaves_out_is_noted() {
    let raw = content(&own("cray/gemini-2x2x8.interconnect.txt.zst"));
    // One tile less at one end: the cable's other end is not wired to a listed tile.
    let cut: String = raw.lines().skip(1).map(|l| format!("{l}\n")).collect();
    let m = parse(&cut).unwrap();
    let notes = m.notes.join("\n");
    assert!(notes.contains("c0-0c0s1g0l32 -> c0-0c0s0g0l00"), "{notes}");
    assert!(notes.contains("c0-0c0s0g0 Z+ 7 tiles"), "{notes}");
    assert_eq!(m.fabric.port_count(), 1279);
    // Without the upper joint of Z the machine is a mesh in Z.
    let mesh: String = raw
        .lines()
        .filter(|l| !(l.contains("Z") && l.contains("cable15z")))
        .map(|l| format!("{l}\n"))
        .collect();
    let m = parse(&mesh).unwrap();
    assert_eq!(m.fabric.shape().unwrap().wrap, [true, true, false]);
    assert_eq!(Reach::of(&m.fabric, &m.routing).unroutable_pairs(), 0);
}

#[test]
fn generated_routes_are_ours() {
    for (size, select, count) in [
        ([2, 2, 8], "all", 32 * 31),
        ([16, 12, 24], "sample:3000:7", 3000),
    ] {
        let Some(routes) = generated(size, &["--phys-routes", select]) else {
            return;
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("routes");
        // With line breaks after arrows, as on slides.
        std::fs::write(&path, routes.replace(" -> ", " ->\n  ")).unwrap();
        let [x, y, z] = size;
        let mut files = MachineFiles::new(format!("gemini:{x}x{y}x{z}"));
        files.routes = vec![path];
        let m = machine_of(&files);
        let expected = format!("{count} routes of the machine agree with dimension order X-Y-Z");
        assert!(m.notes[0].starts_with(&expected), "{:?}", m.notes);
    }
}

/// Across half of a ring of eight there are two routes; this machine takes the lower one.
const OTHER_WAY: &str = "{23,24,33,34,43,44,53,54}c0-0c0s0g0{06,07,16-22,32} -> \
    {00,01,10,11,25-27,35}c0-0c0s7g0{06,07,16-22,32} -> {00,01,10,11,25-27,35}c0-0c0s6g0{06,07,16-22,32} ->\n \
    {00,01,10,11,25-27,35}c0-0c0s5g0{06,07,16-22,32} -> {00,01,10,11,25-27,35}c0-0c0s4g0{23,24,33,34,43,44,53,54}\n";

fn with_phys_routes(routes: &str) -> Result<hopbyte_observe::Machine, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("routes");
    std::fs::write(&path, routes).unwrap();
    let mut files = MachineFiles::new(
        own("cray/gemini-2x2x8.interconnect.txt.zst")
            .to_str()
            .unwrap(),
    );
    files.routes = vec![path];
    hopbyte_observe::read_machine(&files).map_err(|e| e.to_string())
}

#[test]
fn routes_of_the_machine_count_where_they_differ() {
    let m = with_phys_routes(OTHER_WAY).unwrap();
    let note = m.notes.iter().find(|n| n.starts_with("1 route")).unwrap();
    assert!(note.contains("c0-0c0s0g0 to c0-0c0s4g0"), "{note}");
    let node = |name: &str| m.fabric.find_node(name).unwrap();
    let mut links = Vec::new();
    m.routing
        .route(
            &m.fabric,
            node("c0-0c0s0n0"),
            node("c0-0c0s4n1"),
            &mut links,
        )
        .unwrap();
    let names: Vec<String> = links[1..5].iter().map(|&l| m.fabric.link_name(l)).collect();
    assert_eq!(
        names,
        [
            "c0-0c0s0g0 Z-",
            "c0-0c0s7g0 Z-",
            "c0-0c0s6g0 Z-",
            "c0-0c0s5g0 Z-"
        ]
    );
    // The route back and all others are computed.
    assert_eq!(Reach::of(&m.fabric, &m.routing).unroutable_pairs(), 0);
    links.clear();
    m.routing
        .route(
            &m.fabric,
            node("c0-0c0s4n1"),
            node("c0-0c0s0n0"),
            &mut links,
        )
        .unwrap();
    assert_eq!(m.fabric.link_name(links[1]), "c0-0c0s4g0 Z+");
}

#[test]
fn routes_that_do_not_fit_are_refused() {
    for (from, to, expected) in [
        ("16-22,32} ->", "16-23,32} ->", ":1: found"),
        (
            "c0-0c0s7g0",
            "c0-0c9s7g0",
            "expected a Gemini of this machine",
        ),
        (
            "c0-0c0s7g0",
            "c0-0c0s6g0",
            "expected a Gemini that c0-0c0s0g0l06 is wired to",
        ),
        (
            "{00,01,10,11,25-27,35}c0-0c0s7g0",
            "{00,01,10,11,25-26,35}c0-0c0s7g0",
            "expected the tiles that the hop before",
        ),
        ("-> {00", "{00", "expected -> between hops"),
        (
            "{00,01,10,11,25-27,35}c0-0c0s4g0{23,24,33,34,43,44,53,54}",
            "",
            "hint: is the file cut?",
        ),
        ("25-27", "27-25", "expected a hop"),
    ] {
        let error = with_phys_routes(&OTHER_WAY.replacen(from, to, 1)).err();
        let error = error.unwrap_or_else(|| panic!("{to} was read"));
        assert!(error.contains(expected), "{to}: {error}");
    }
    let error = parse(OTHER_WAY).unwrap_err();
    assert!(error.contains("give its interconnect"), "{error}");
}
