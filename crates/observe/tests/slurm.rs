//! Slurm topologies against counts on the raw text.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::{content, machine, parse};
use hopbyte_fabric::units::BytesPerSecond;
use hopbyte_fabric::{Fabric, Family, Reach};
use hopbyte_observe::{Machine, MachineFiles, read_machine};
use hopbyte_testdata::shared;
use std::collections::BTreeSet;

fn notes(m: &Machine) -> String {
    m.notes.join("\n")
}

fn switch_of<'a>(f: &'a Fabric, node: &str) -> &'a str {
    &f.router(f.node(f.find_node(node).unwrap()).router).name
}

fn hops(m: &Machine, a: &str, b: &str) -> Option<usize> {
    let (a, b) = (
        m.fabric.find_node(a).unwrap(),
        m.fabric.find_node(b).unwrap(),
    );
    m.routing.hops(&m.fabric, a, b).ok()
}

#[test]
fn what_scontrol_prints_is_the_file_that_it_was_read_from() {
    let file =
        "SwitchName=s0 Nodes=n[0-1]\nSwitchName=s1 Nodes=n[2-3]\nSwitchName=top Switches=s[0-1]\n";
    let printed = "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[0-1]\n\
                   SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[2-3]\n\
                   SwitchName=top Level=1 LinkSpeed=1 Nodes=n[0-3] Switches=s0,s1\n";
    let (a, b) = (parse(file).unwrap(), parse(printed).unwrap());
    for (from, to) in [("n0", "n1"), ("n0", "n3")] {
        assert_eq!(hops(&a, from, to), hops(&b, from, to));
    }
    assert_eq!(a.fabric.links().len(), b.fabric.links().len());
    let error = parse("SwitchName=s0 Level=high Nodes=n0\n").unwrap_err();
    assert!(error.contains("a level"), "{error}");
}

#[test]
fn the_large_tree_is_read_completely() {
    let Some(path) = shared("slurm/testcase1.topology.conf") else {
        return;
    };
    let raw = content(&path);
    let m = machine(&path);
    let f = &m.fabric;
    let lines: Vec<&str> = raw
        .lines()
        .filter(|l| l.starts_with("SwitchName"))
        .collect();
    assert_eq!(f.routers().len(), lines.len());
    let mut nodes = 0;
    for line in lines.iter().filter(|l| l.contains("Nodes=")) {
        let (leaf, range) = line["SwitchName=".len()..]
            .split_once(" Nodes=peta[")
            .unwrap();
        let (low, high) = range.trim_end_matches([']', ' ']).split_once('-').unwrap();
        let (low, high): (u32, u32) = (low.parse().unwrap(), high.parse().unwrap());
        for n in low..=high {
            assert_eq!(switch_of(f, &format!("peta{n}")), leaf);
            nodes += 1;
        }
    }
    assert_eq!(f.nodes().len(), nodes);
    // A tree has one cable less than switches, and a cable for each node.
    assert_eq!(f.links().len(), 2 * (lines.len() - 1 + nodes));
    assert_eq!((f.family(), f.components()), (Family::FatTree, 1));
    assert_eq!(hops(&m, "peta10000", "peta10019"), Some(2));
    assert_eq!(hops(&m, "peta10000", "peta10020"), Some(4));
    let assumed =
        "12.5 GB/s each way for every node and full bisection between switches are assumed";
    assert!(notes(&m).contains(assumed));
}

#[test]
fn a_forest_has_no_routes_between_its_trees() {
    let Some(path) = shared("slurm/testcase6.topology.conf") else {
        return;
    };
    let m = machine(&path);
    assert_eq!((m.fabric.routers().len(), m.fabric.nodes().len()), (7, 40));
    assert!(notes(&m).contains("a forest of 3 trees"), "{}", notes(&m));
    assert_eq!(hops(&m, "node1", "node16"), Some(4));
    assert_eq!(hops(&m, "node1", "node17"), None);
    let reach = Reach::of(&m.fabric, &m.routing);
    assert_eq!(reach.routable, 2 * 16 * 15 + 8 * 7);
}

#[test]
fn x5_is_a_graph_and_says_so() {
    let Some(path) = shared("infiniband/x5/X5.topology.conf") else {
        return;
    };
    let raw = content(&path);
    let m = machine(&path);
    let mut cables = BTreeSet::new();
    for line in raw.lines().filter(|l| l.contains("Switches=")) {
        let (name, list) = line["SwitchName=".len()..]
            .split_once(" Switches=")
            .unwrap();
        cables.extend(
            list.split(',')
                .map(|child| [name.min(child), name.max(child)]),
        );
    }
    let between = m.fabric.links().len() - 2 * m.fabric.nodes().len();
    assert_eq!(between, 2 * cables.len());
    assert!(notes(&m).contains("a graph, not a tree"), "{}", notes(&m));
    assert_eq!(Reach::of(&m.fabric, &m.routing).unroutable_pairs(), 0);
}

#[test]
fn blocks_combine_to_their_sizes() {
    for (file, blocks, each) in [("block.topology", 8, 4), ("topograph-block", 12, 8)] {
        let Some(path) = shared(&format!("slurm/{file}.conf")) else {
            return;
        };
        let m = machine(&path);
        assert_eq!(m.fabric.nodes().len(), blocks * each, "{file}");
        let leaves = m
            .fabric
            .router_ids()
            .filter(|&r| !m.fabric.nodes_on(r).is_empty());
        assert_eq!(leaves.count(), blocks);
        assert_eq!(m.fabric.components(), 1);
    }
    let m = parse("BlockName=a Nodes=n[1-2]\nBlockName=b Nodes=n[3-4]\nBlockName=c Nodes=n[5-6]\nBlockSizes=2,4\n").unwrap();
    let distances = ["n2", "n3", "n5"].map(|to| hops(&m, "n1", to));
    assert_eq!(distances, [Some(2), Some(4), Some(6)]);
}

#[test]
fn topograph_s_tree_is_read() {
    let Some(path) = shared("slurm/topograph-tree.conf") else {
        return;
    };
    let m = machine(&path);
    assert_eq!((m.fabric.routers().len(), m.fabric.nodes().len()), (19, 96));
    assert_eq!(switch_of(&m.fabric, "srv6203"), "switch.1.12");
    assert_eq!(hops(&m, "srv1101", "srv1201"), Some(4));
    assert_eq!(hops(&m, "srv1101", "srv6208"), Some(6));
}

#[test]
fn the_default_topology_of_a_yaml_file_is_read() {
    let Some(path) = shared("slurm/man-example.topology.yaml") else {
        return;
    };
    let m = machine(&path);
    assert!(
        notes(&m).contains(
            "topology topo1 is read; the file has topo2, topo3, topo3a, topo4, topo5 too"
        )
    );
    assert_eq!((m.fabric.routers().len(), m.fabric.nodes().len()), (3, 4));
    let raw = content(&path);
    let only = |name: &str| {
        let swapped = raw.replace("cluster_default: true", "cluster_default: false");
        let at = format!("- topology: {name}\n  cluster_default: ");
        parse(&swapped.replace(&format!("{at}false"), &format!("{at}true")))
    };
    let blocks = only("topo2").unwrap();
    assert_eq!(
        (
            blocks.fabric.nodes().len(),
            hops(&blocks, "node01", "node16")
        ),
        (16, Some(4))
    );
    let rings = only("topo4").unwrap();
    assert_eq!(
        (rings.fabric.nodes().len(), rings.fabric.components()),
        (16, 2)
    );
    assert_eq!(hops(&rings, "node01", "node05"), Some(4));
    assert_eq!(hops(&rings, "node01", "node08"), Some(1));
    assert_eq!(hops(&rings, "node01", "node09"), None);
    let torus = only("topo5").unwrap();
    assert_eq!(torus.fabric.shape().unwrap().dims, [4, 4, 2]);
    let at = |name| {
        torus
            .fabric
            .coord(
                torus
                    .fabric
                    .node(torus.fabric.find_node(name).unwrap())
                    .router,
            )
            .unwrap()
            .to_vec()
    };
    assert_eq!(
        (at("node02"), at("node05"), at("node17")),
        (vec![1, 0, 0], vec![0, 1, 0], vec![0, 0, 1])
    );
    for flat in ["topo3", "topo3a"] {
        assert!(
            only(flat)
                .unwrap_err()
                .contains("hint: a flat topology does not describe the network"),
            "{flat}"
        );
    }
}

#[test]
fn the_default_is_marked_by_any_word_for_true() {
    let file = |yes: &str, no: &str| {
        format!(
            "- topology: a\n  cluster_default: {no}\n  flat: {yes}\n- topology: b\n  cluster_default: {yes}\n  flat: {no}\n  \
             tree:\n    switches:\n      - switch: s1\n        nodes: n[1-2]\n"
        )
    };
    for (yes, no) in [("yes", "no"), ("on", "Off"), ("Y", "n"), ("T", "f")] {
        let m = parse(&file(yes, no)).unwrap();
        assert!(notes(&m).contains("topology b is read"), "{}", notes(&m));
    }
    let error = parse(&file("true", "never")).unwrap_err();
    assert!(error.contains("found never"), "{error}");
}

#[test]
fn topologies_that_slurm_refuses_are_refused() {
    for (file, expected) in [
        (
            "torus3d_mutually_exclusive",
            ":7: found topology, cluster_default, block, torus3d, expected exactly one of tree",
        ),
        (
            "torus3d_toruses_not_list",
            ":9: found pod1=node[1-16], expected a list of toruses",
        ),
    ] {
        let Some(path) = shared(&format!("slurm/{file}.yaml")) else {
            return;
        };
        let error = parse(&content(&path)).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    for (input, expected) in [
        (
            "RingName=a Switches=b",
            ":1: found RingName=a Switches=b, expected SwitchName=… with Nodes=…",
        ),
        (
            "SwitchName=b Nodes=n2\nSwitchName=a Nodes=n1 Switches=b",
            ":2: found SwitchName=a Nodes=n1 Switches=b, expected a switch with either",
        ),
        (
            "SwitchName=a Switches=b\nSwitchName=b Switches=c\nSwitchName=c Switches=a",
            ":1: found a below itself, over b",
        ),
        (
            "SwitchName=top Switches=a[1-2]\nSwitchName=a1 Nodes=n1",
            ":1: found a2 below top",
        ),
        (
            "SwitchName=a Nodes=n1\nBlockName=b Nodes=n2",
            "found switches, blocks and rings mixed",
        ),
        ("# nothing", "expected a description of a machine"),
        (
            "SwitchName=a Nodes=n[1-",
            ":1: found Nodes=n[1-, expected names such as",
        ),
        ("SwitchName=a Nodes=n[5-1]", ":1: found Nodes=n[5-1]"),
        (
            "SwitchName=a Nodes=n[1-99999999]",
            "at most a million names",
        ),
        (
            "SwitchName=a Nodes=n1 Color=red",
            ":1: found Color=red, expected SwitchName, Switches",
        ),
        (
            "SwitchName=a Nodes=n1\nswitchname=a nodes=n2",
            ":2: found a, expected every switch once, but line 1 has it too",
        ),
        (
            "SwitchName=a Switches=a",
            ":1: found a below a, expected a tree of switches",
        ),
        (
            "SwitchName=a Nodes=n1 extra",
            ":1: found extra, expected KEY=VALUE",
        ),
        (
            "SwitchName=a Nodes=n1\nInclude racks.conf",
            ":2: found Include, expected the lines of the included file",
        ),
        (
            "BlockSizes=4,x",
            ":1: found BlockSizes=4,x, expected sizes such as",
        ),
        (
            "BlockName=a Nodes=n1\nRingName=r Nodes=n2",
            "found switches, blocks and rings mixed",
        ),
        (
            "SwitchName=a Nodes=x[0-1048575]\nSwitchName=b Nodes=y[0-1048575]\nSwitchName=c Nodes=z[0-1048575]",
            ":3: found Nodes=z[0-1048575]",
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

/// Uplinks of leaves of two sizes have two capacities.
#[test]
fn links_of_one_kind_may_differ_in_capacity() {
    let tree =
        "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-6]\nSwitchName=top Switches=a,b\n";
    let fabric = parse(tree).unwrap().fabric;
    let rates: Vec<Vec<(f64, usize)>> = fabric
        .kind_rates()
        .values()
        .map(|rates| rates.iter().map(|&(rate, n)| (rate.0, n)).collect())
        .collect();
    assert_eq!(rates, [[(12.5e9, 12), (50e9, 2), (25e9, 2)]]);
    let summary = fabric.kind_summary();
    assert_eq!(summary["cable"], (16, BytesPerSecond(12.5e9)));
}

/// `scontrol show topology` of the plugins block, ring and torus3d.
#[test]
fn what_scontrol_prints_of_other_plugins_is_read() {
    let printed = "BlockName=b1 BlockIndex=0 Nodes=n[001-018] BlockSize=18\n\
        BlockName=b2 BlockIndex=1 Nodes=n[019-036] BlockSize=18\n\
        AggregatedBlock=b[1-2] BlockIndex=2 Nodes=n[001-036] BlockSize=36\n";
    let conf = "BlockName=b1 Nodes=n[001-018]\nBlockName=b2 Nodes=n[019-036]\nBlockSizes=18,36\n";
    let same = |printed: &str, conf: &str| {
        let [printed, conf] = [printed, conf].map(|content| parse(content).unwrap());
        assert_eq!(printed.fabric.fingerprint(), conf.fabric.fingerprint());
    };
    same(printed, conf);
    same(
        "RingName=r1 Nodes=n[1-8] RingSize=8\n",
        "RingName=r1 Nodes=n[1-8]\n",
    );
    let yaml = "- topology: t\n  torus3d:\n    toruses:\n      - name: t1\n        dims: {x: 2, y: 2, z: 2}\n        nodes: n[1-8]\n";
    let torus =
        "TorusName=t1 Dims=2x2x2 Nodes=n[1-8]\n  TorusName=t1 PlacementDims=2x2x1(4) Anchors=2\n";
    same(torus, yaml);
    for (wrong, expected) in [
        (
            "TorusName=t1 Dims=2x2 Nodes=n[1-8]",
            ":1: found TorusName=t1 Dims=2x2",
        ),
        (
            "BlockName=a Nodes=n1\nAggregatedBlock=a",
            ":2: found AggregatedBlock=a",
        ),
        (
            "BlockName=a BlockIndex=x Nodes=n1",
            ":1: found BlockIndex=x",
        ),
    ] {
        let error = parse(wrong).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn what_is_odd_is_noted() {
    let m = parse(
        "# odd\nSwitchName=top Switches=a,b,ghost \\\n  LinkSpeed=400 Level=1\nSwitchName=a Nodes=n[1-3],5 # comment\n\
         SwitchName=b Nodes=n[3-4]\n",
    )
    .unwrap();
    for expected in [
        "LinkSpeed of 1 lines is not used",
        "1 switch is named and not described: ghost",
        "1 node is under several switches, with an endpoint on each: n3",
        "1 node name begins with no letter; was a prefix lost in the list?: 5",
    ] {
        assert!(notes(&m).contains(expected), "{expected}\n{}", notes(&m));
    }
    assert_eq!(m.fabric.find_host("n3").len(), 2);
    assert_eq!(switch_of(&m.fabric, "n3 [b]"), "b");
}

#[test]
fn parts_of_what_scontrol_prints_tell_of_nodes_without_a_leaf() {
    let m = parse(
        "SwitchName=l2 Level=1 LinkSpeed=1 Nodes=n[01-06] Switches=s[1-3]\n\
         SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[01-02]\n",
    )
    .unwrap();
    let said = notes(&m);
    assert!(
        said.contains("4 nodes are listed by a switch of switches alone"),
        "{said}"
    );
    assert!(said.contains("and left out: n03, n04"), "{said}");
    assert!(!said.contains("Slurm refuses"), "{said}");
}

#[test]
fn all_names_no_node() {
    for file in [
        "SwitchName=s1 Nodes=ALL\n",
        "- topology: a\n  cluster_default: true\n  tree:\n    switches:\n      - switch: s1\n        nodes: ALL\n",
    ] {
        let error = parse(file).unwrap_err();
        assert!(error.contains("ALL names no node"), "{error}");
    }
}

/// A block of 18 nodes is not 18:1 oversubscribed unless the user says so.
#[test]
fn uplinks_have_full_bisection_unless_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("topology.conf");
    let text = "BlockName=b1 Nodes=n[01-18]\nBlockName=b2 Nodes=n[19-36]\nBlockSizes=18,36\n";
    std::fs::write(&path, text).unwrap();
    let files = MachineFiles::new(path.display().to_string());
    let rates = |files: &MachineFiles| {
        let m = read_machine(files).unwrap();
        let f = &m.fabric;
        let up = f.link(f.find_link("b1->36 nodes #0 cable").unwrap());
        let host = f.link(f.node(f.find_node("n01").unwrap()).inject);
        (host.nominal.gb(), up.nominal.gb())
    };
    assert_eq!(rates(&files), (12.5, 18.0 * 12.5));
    let half = MachineFiles {
        uplink_ratio: Some(2.0),
        rates: vec![50.0],
        ..files.clone()
    };
    assert_eq!(rates(&half), (50.0, 18.0 * 25.0));
    let listed = MachineFiles {
        rates: vec![50.0, 400.0],
        ..files.clone()
    };
    assert_eq!(rates(&listed), (50.0, 400.0));
    for (wrong, found) in [
        (
            MachineFiles {
                uplink_ratio: Some(0.5),
                ..files.clone()
            },
            "a ratio from 1",
        ),
        (
            MachineFiles {
                rates: vec![-1.0],
                ..files.clone()
            },
            "GB/s above zero",
        ),
        (
            MachineFiles {
                main: "torus:4x4".into(),
                ..half.clone()
            },
            "a topology without speeds",
        ),
    ] {
        let error = read_machine(&wrong).unwrap_err().to_string();
        assert!(error.contains(found), "{error}");
    }
    // Blocks are NVLink domains.
    let racks = MachineFiles {
        hosts: vec!["gb200-nvl72".into()],
        ..files
    };
    let m = read_machine(&racks).unwrap();
    let inside = m.fabric.inside().unwrap();
    assert_eq!((inside.units().len(), m.fabric.places().len()), (2, 144));
    assert_eq!(m.fabric.places_of_host("n20").len(), 4);
}
