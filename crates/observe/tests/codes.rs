//! CODES dragonflies against the raw numbers of their files.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::machine;
use hopbyte_fabric::{End, Fabric, Family, Reach, RouterId};
use hopbyte_observe::{MachineFiles, read_machine};
use hopbyte_testdata::shared;
use std::collections::BTreeMap;
use std::path::Path;

fn numbers(path: &Path) -> Vec<i32> {
    let bytes = std::fs::read(path).unwrap();
    let words = bytes.chunks_exact(4);
    words
        .map(|b| i32::from_le_bytes(b.try_into().unwrap()))
        .collect()
}

/// Parallel links by (from, to, kind), from the files alone.
fn raw(
    intra: &[i32],
    inter: &[i32],
    width: usize,
    groups: i32,
    size: i32,
) -> BTreeMap<(i32, i32, &'static str), usize> {
    let mut links = BTreeMap::new();
    for row in intra.chunks_exact(width) {
        let kind = ["green", "black", "local"][if width == 3 { row[2] as usize } else { 2 }];
        for g in 0..groups {
            *links
                .entry((g * size + row[0], g * size + row[1], kind))
                .or_default() += 1;
        }
    }
    for row in inter.chunks_exact(2) {
        *links.entry((row[0], row[1], "global")).or_default() += 1;
    }
    links
}

fn check(f: &Fabric, raw: &BTreeMap<(i32, i32, &'static str), usize>, capacities: &[(&str, f64)]) {
    let mut ours = BTreeMap::new();
    for l in f.link_ids().filter(|&l| f.is_hop(l)) {
        let (End::Router(a), End::Router(b)) = (f.link(l).from, f.link(l).to) else {
            panic!("{}", f.link_name(l))
        };
        let kind = f.kind(l).name.as_str();
        let (_, gib) = capacities.iter().find(|c| c.0 == kind).unwrap();
        let total = gib * f64::from(1 << 30) * f.ports(l).len() as f64;
        assert_eq!(f.link(l).nominal.0, total);
        assert!(f.reverse(l).is_some(), "{}", f.link_name(l));
        ours.insert((a.0 as i32, b.0 as i32, kind), f.ports(l).len());
    }
    assert_eq!(&ours, raw);
}

#[test]
fn theta_has_every_link_of_its_files() {
    let Some(conf) = shared("dragonfly/theta.conf") else {
        return;
    };
    let folder = conf.parent().unwrap();
    let (intra, inter) = (
        numbers(&folder.join("intra-theta")),
        numbers(&folder.join("inter-theta")),
    );
    let m = machine(&conf);
    let f = &m.fabric;
    assert_eq!(f.family(), Family::Dragonfly);
    assert_eq!((f.routers().len(), f.nodes().len()), (864, 3456));
    assert_eq!(f.port_count(), 9 * intra.len() / 3 + inter.len() / 2);
    let raw = raw(&intra, &inter, 3, 9, 96);
    check(
        f,
        &raw,
        &[("green", 5.25), ("black", 5.25), ("global", 1.5)],
    );
    // Green stays in a row, black in a column.
    for l in f.link_ids().filter(|&l| f.is_hop(l)) {
        let coord = |e: End| match e {
            End::Router(r) => f.coord(r).unwrap().to_vec(),
            _ => panic!(),
        };
        let (a, b) = (coord(f.link(l).from), coord(f.link(l).to));
        let fits = match f.kind(l).name.as_str() {
            "green" => a[..2] == b[..2],
            "black" => (a[0], a[2]) == (b[0], b[2]),
            _ => a[0] != b[0],
        };
        assert!(fits, "{}", f.link_name(l));
    }
    assert_eq!(f.components(), 1);
}

const PLUS: &str = "LPGROUPS\n{\n}\nPARAMS\n{\n# leaves come first\n num_router_leaf=\"18\";\n num_router_spine=\"18\";\n \
    num_groups=\"10\";\n num_cns_per_router=\"18\";\n local_bandwidth=\"5.25\";\n global_bandwidth=\"1.5\";\n \
    cn_bandwidth=\"8.0\";\n intra-group-connections=\"conf/dfp-3k-intra\";\n inter-group-connections=\"dfp-3k-inter\";\n}\n";

#[test]
fn dragonfly_plus_has_nodes_on_its_leaves() {
    let Some(intra) = shared("dragonfly/dfp-3k-intra") else {
        return;
    };
    let inter = intra.with_file_name("dfp-3k-inter");
    let folder = tempfile::tempdir().unwrap();
    for path in [&intra, &inter] {
        std::fs::copy(path, folder.path().join(path.file_name().unwrap())).unwrap();
    }
    let conf = folder.path().join("dfp.conf");
    std::fs::write(&conf, PLUS).unwrap();
    let m = machine(&conf);
    assert_eq!(
        (m.fabric.routers().len(), m.fabric.nodes().len()),
        (360, 3240)
    );
    check(
        &m.fabric,
        &raw(&numbers(&intra), &numbers(&inter), 2, 10, 36),
        &[("local", 5.25), ("global", 1.5)],
    );
    assert!((0..36).all(|r| m.fabric.nodes_on(RouterId(r)).is_empty() == (r >= 18)));
    assert_eq!(Reach::of(&m.fabric, &m.routing).unroutable_pairs(), 0);
}

#[test]
fn models_and_files_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
    let pairs = |list: &[i32]| -> Vec<u8> { list.iter().flat_map(|n| n.to_le_bytes()).collect() };
    let model = |from: &str, to: &str| {
        write("dfp.conf", PLUS.replace(from, to).as_bytes());
        let path = folder.path().join("dfp.conf");
        let result = read_machine(&MachineFiles::new(path.to_str().unwrap()));
        result.map(|m| m.notes).map_err(|e| e.to_string())
    };
    assert!(
        model("", "").unwrap_err().contains("dfp-3k-intra: "),
        "missing file"
    );
    write("dfp-3k-intra", &pairs(&[0, 18, 18, 0]));
    write("dfp-3k-inter", &pairs(&[18, 54]));
    let notes = model("", "").unwrap();
    assert!(
        notes
            .iter()
            .any(|n| n.contains("1 links are listed in one direction only")),
        "{notes:?}"
    );
    for (from, to, expected) in [
        (
            "\"18\"",
            "\"eighteen\"",
            "dfp.conf:7: found eighteen, expected a number above 0 for num_router_leaf",
        ),
        (
            "num_groups=\"10\"",
            "",
            "found no such setting, expected num_groups",
        ),
        (
            "\"5.25\"",
            "\"-1\"",
            "found -1, expected GiB/s above 0 for local_bandwidth",
        ),
        (
            "\"18\"",
            "\"4000000\"",
            "expected at most 32768 routers and 1048576 nodes",
        ),
        (
            "\"18\"",
            "\"4\"",
            "found router 18, expected one from 0 to 7",
        ),
    ] {
        let error = model(from, to).unwrap_err();
        assert!(error.contains(expected), "{to}: {error}");
    }
    write("dfp-3k-intra", &pairs(&[0, 18, 18]));
    assert!(
        model("", "")
            .unwrap_err()
            .contains("found 12 bytes, expected rows of 2 32-bit numbers")
    );
    let error = read_machine(&MachineFiles::new(
        folder.path().join("dfp-3k-inter").to_str().unwrap(),
    ));
    assert!(
        error
            .unwrap_err()
            .to_string()
            .contains("read through the model (.conf)")
    );
}

/// Networks of CODES that numbers alone describe.
#[test]
fn models_without_files_name_the_spec_that_describes_them() {
    let refused = |settings: &str| {
        let text = format!("LPGROUPS\n{{\n}}\nPARAMS\n{{\n{settings}\n}}\n");
        crate::common::parse(&text).unwrap_err()
    };
    let torus = refused("   modelnet_order=( \"torus\" );\n   dim_length=\"4,4,2\";");
    assert!(
        torus.contains("found a network (torus) without files of links"),
        "{torus}"
    );
    assert!(torus.contains("give a spec, torus:4x4x2"), "{torus}");
    let tree = refused("   modelnet_order=( \"fattree\" );\n   switch_radix=\"8\";");
    assert!(
        tree.contains("(fattree)") && tree.contains("fattree:…"),
        "{tree}"
    );
}
