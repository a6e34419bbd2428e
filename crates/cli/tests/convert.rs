//! Output of `fabric convert` is read back: by our readers here, by the formats' own tools in
//! `tests/formats`.

#![allow(clippy::unwrap_used)]

use hopbyte_apply::{ApplyError, FabricFormat, write_fabric};
use hopbyte_fabric::{Fabric, NodeId, Routing, spec};
use hopbyte_observe::fabric::{Companions, read_machine_text};
use hopbyte_observe::text::{Limits, Text};
use hopbyte_observe::{Machine, MachineFiles, read_machine};
use std::collections::BTreeMap;

fn written(format: FabricFormat, fabric: &Fabric, routing: &Routing) -> Text {
    let bytes = write_fabric(format, fabric, routing).unwrap().bytes;
    Text::from_bytes("written", &bytes, Limits::ANY).unwrap()
}

fn read(text: &Text, routes: &[Text]) -> Machine {
    let with = Companions {
        routes,
        ..Companions::default()
    };
    read_machine_text(text, None, with).unwrap()
}

/// Names along the route of a pair; `None` without one.
fn names(fabric: &Fabric, routing: &Routing, from: &str, to: &str) -> Option<Vec<String>> {
    let mut route = Vec::new();
    let find = |name| fabric.find_node(name).unwrap();
    routing
        .route(fabric, find(from), find(to), &mut route)
        .ok()?;
    let ends = route.iter().map(|&l| fabric.end_name(fabric.link(l).from));
    Some(ends.collect())
}

/// A sample of pairs that covers every node.
fn pairs(fabric: &Fabric) -> Vec<(String, String)> {
    let n = fabric.nodes().len();
    let name = |i: usize| fabric.node(NodeId::of(i % n)).name.clone();
    (0..n.min(400))
        .map(|i| (name(i * 7), name(i * 13 + 5)))
        .filter(|(a, b)| a != b)
        .collect()
}

fn own_formats_keep_all(fabric: &Fabric, routing: &Routing) {
    for format in [FabricFormat::Json, FabricFormat::Binary] {
        let again = read(&written(format, fabric, routing), &[]);
        assert_eq!(&again.fabric, fabric, "{}", fabric.source());
        assert_eq!(again.routing.describe(), routing.describe());
        for (a, b) in pairs(fabric) {
            let (was, is) = (
                names(fabric, routing, &a, &b),
                names(fabric, &again.routing, &a, &b),
            );
            assert_eq!(was, is, "{a} {b}");
        }
    }
}

#[test]
fn machines_of_every_family_come_back() {
    for text in [
        "gemini:4x4x6",
        "torus:3x4x5:nodes=2",
        "mesh:4x4",
        "aries:2x6x16",
        "slingshot:5x8",
        "fattree:k=8,levels=3",
        "gpu-rails",
        "hyperx:4x4",
        "edison",
    ] {
        let machine = spec::machine(text).unwrap();
        own_formats_keep_all(&machine.fabric, &machine.routing);
    }
}

#[test]
fn machines_from_dumps_come_back() {
    let Some(shared) = hopbyte_testdata::shared("infiniband") else {
        println!("skipped: no shared data");
        return;
    };
    for file in [
        "infiniband/plafrim/ib-subnet-fe80_0000_0000_0000.txt",
        "infiniband/plafrim2/ib-subnet-fe80_0000_0000_0000.txt",
        "infiniband/opensm-torus-5x4x3/ibnetdiscover.out.zst",
        "infiniband/opensm-x5-minhop/opensm-subnet.lst.zst",
        "infiniband/dgx-ndr.ibnetdiscover",
        "cray/mutrino.interconnect.txt",
        "cray/edison.interconnect.txt.zst",
        "cray/cielo.system-map.txt",
        "cray/hopper_nodemap.txt",
        "dragonfly/theta.conf",
        "slingshot/Shasta_system_hsn_pt_pt.valid.1.csv",
        "slurm/testcase1.topology.conf",
        "slurm/man-example.topology.yaml",
    ] {
        let path = shared.with_file_name(file);
        let machine = read_machine(&MachineFiles::new(path.display().to_string())).unwrap();
        own_formats_keep_all(&machine.fabric, &machine.routing);
    }
}

/// A subnet with its tables has the same routes: switch by switch, by name.
#[test]
fn a_subnet_and_its_tables_say_the_same_routes() {
    for text in [
        "fattree:k=6,levels=3",
        "torus:4x3x3",
        "gemini:2x3x4",
        "fattree:down=4x8,up=1x4",
    ] {
        let machine = spec::machine(text).unwrap();
        let (fabric, routing) = (&machine.fabric, &machine.routing);
        let subnet = written(FabricFormat::Ibnetdiscover, fabric, routing);
        let tables = written(FabricFormat::Lfts, fabric, routing);
        let again = read(&subnet, &[tables]);
        assert_eq!(again.fabric.nodes().len(), fabric.nodes().len());
        assert!(matches!(again.routing, Routing::Tables(_)));
        let plain = |names: Option<Vec<String>>| {
            names.map(|n| {
                n.iter()
                    .map(|n| n.replace(" hosts", ""))
                    .collect::<Vec<_>>()
            })
        };
        for (a, b) in pairs(fabric) {
            // A shared host link is named by its router, a cable by its node: the first hop differs.
            let was = plain(names(fabric, routing, &a, &b)).unwrap();
            let is = plain(names(&again.fabric, &again.routing, &a, &b)).unwrap();
            assert_eq!(was[1..], is[1..], "{text}: {a} {b}");
        }
    }
}

/// Every width and speed is written as it was read.
#[test]
fn rates_of_a_subnet_come_back() {
    let ports = ["12xQDR", "2xHDR", "12xNDR", "4xEDR", "1xSDR"];
    let cable = |(port, rate): (usize, &&str)| {
        (
            format!(
                "[{port}]\t\"H-00000000000000{port}1\"[1]({port}2) \t\t# \"n{port}\" lid {port} {rate}\n"
            ),
            format!(
                "\ncaguid=0x{port}1\nCa\t1 \"H-00000000000000{port}1\"\t\t# \"n{port}\"\n[1]({port}2) \t\"S-0000000000000001\"[{port}]\t\t# lid {port} lmc 0 \"sw\" lid 9 {rate}\n"
            ),
        )
    };
    let (near, far): (Vec<String>, Vec<String>) = (1..).zip(&ports).map(cable).unzip();
    let content = format!(
        "switchguid=0x1(1)\nSwitch\t5 \"S-0000000000000001\"\t\t# \"sw\" base port 0 lid 9 lmc 0\n{}{}",
        near.concat(),
        far.concat()
    );
    let text = Text::from_bytes("subnet", content.as_bytes(), Limits::ANY).unwrap();
    let machine = read(&text, &[]);
    let subnet = written(
        FabricFormat::Ibnetdiscover,
        &machine.fabric,
        &machine.routing,
    );
    let again = String::from_utf8_lossy(subnet.bytes()).into_owned();
    for rate in ports {
        assert_eq!(again.matches(rate).count(), 2, "{rate}: {again}");
    }
}

/// Leaves at several heights: the written tree equals the one that was read.
#[test]
fn unbalanced_trees_go_to_slurm() {
    for conf in [
        "SwitchName=leaf1 Nodes=n[1-2]\nSwitchName=leaf2 Nodes=n[3-4]\nSwitchName=leaf3 Nodes=n[5-6]\n\
         SwitchName=a Switches=leaf[1-2]\nSwitchName=root Switches=a,leaf3\n",
        "SwitchName=l1 Nodes=n1\nSwitchName=l2 Nodes=n2\nSwitchName=l3 Nodes=n3\nSwitchName=l4 Nodes=n4\n\
         SwitchName=c Switches=l[3-4]\nSwitchName=b Switches=c,l2\nSwitchName=top Switches=b,l1\n",
        // Two trees, one of them a lone leaf.
        "SwitchName=lone Nodes=m1\nSwitchName=l1 Nodes=n1\nSwitchName=l2 Nodes=n2\nSwitchName=l3 Nodes=n3\n\
         SwitchName=a Switches=l[1-2]\nSwitchName=r Switches=a,l3\n",
    ] {
        let text = Text::from_bytes("conf", conf.as_bytes(), Limits::ANY).unwrap();
        let tree = read(&text, &[]);
        let children = |conf: &str| -> Vec<String> {
            let mut lines: Vec<String> = conf
                .lines()
                .map(|line| {
                    let (name, list) = line.split_once(' ').unwrap();
                    let (key, list) = list.split_once('=').unwrap();
                    let mut names = hopbyte_observe::host_list(list).unwrap();
                    names.sort();
                    format!("{name} {key} {names:?}")
                })
                .collect();
            lines.sort();
            lines
        };
        for format in [FabricFormat::SlurmConf, FabricFormat::SlurmYaml] {
            let out = written(format, &tree.fabric, &tree.routing);
            let again = read(&out, &[]);
            assert_eq!(again.fabric.routers().len(), tree.fabric.routers().len());
            for (a, b) in pairs(&tree.fabric) {
                let [was, is] = [&tree, &again].map(|m| names(&m.fabric, &m.routing, &a, &b));
                assert_eq!(was.map(|r| r.len()), is.map(|r| r.len()), "{a} {b}");
            }
            if format == FabricFormat::SlurmConf {
                let out = String::from_utf8(out.bytes().to_vec()).unwrap();
                assert_eq!(children(&out), children(conf));
            }
        }
    }
    let ring = spec::machine("torus:17").unwrap();
    let error = write_fabric(FabricFormat::SlurmYaml, &ring.fabric, &ring.routing).unwrap_err();
    assert!(error.to_string().contains("at most 16 nodes"), "{error}");
    // A switch with nodes and switches below it is no leaf of Slurm's.
    let mixed = "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\nSwitchName=b Switches=a\n";
    assert!(
        read_machine_text(
            &Text::from_bytes("c", mixed.as_bytes(), Limits::ANY).unwrap(),
            None,
            Companions::default()
        )
        .is_err()
    );
}

/// Two cores above two pods of two spines and two leaves, and a leaf of their own.
#[test]
fn fat_trees_with_a_leaf_at_the_top_go_to_slurm() {
    let mut cables: Vec<(String, String)> = Vec::new();
    for core in ["core0", "core1"] {
        let below = ["s00", "s01", "s10", "s11", "lx"];
        cables.extend(below.map(|b| (core.into(), b.into())));
    }
    for pod in 0..2 {
        for (spine, leaf) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            cables.push((format!("s{pod}{spine}"), format!("l{pod}{leaf}")));
        }
    }
    for leaf in ["l00", "l01", "l10", "l11", "lx"] {
        cables.push((leaf.into(), format!("n-{leaf}")));
    }
    let scan = |cables: &[(String, String)]| {
        let mut devices: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (a, b) in cables {
            devices.entry(a).or_default().push(b);
            devices.entry(b).or_default().push(a);
        }
        let mut text = String::new();
        for (device, peers) in &devices {
            let kind = if device.starts_with("n-") {
                "Hca"
            } else {
                "Switch"
            };
            text += &format!("{kind} 8 \"{device}\" # \"{device}\"\n");
            for (i, peer) in peers.iter().enumerate() {
                let back = devices[peer].iter().position(|p| p == device).unwrap();
                text += &format!("[{}] \"{peer}\"[{}]\n", i + 1, back + 1);
            }
        }
        Text::from_bytes("scan", text.as_bytes(), Limits::ANY).unwrap()
    };
    let tree = read(&scan(&cables), &[]);
    let out = written(FabricFormat::SlurmConf, &tree.fabric, &tree.routing);
    let mut lines: Vec<&str> = out
        .bytes()
        .split(|&b| b == b'\n')
        .map(|l| std::str::from_utf8(l).unwrap())
        .collect();
    lines.retain(|l| l.contains("Switches="));
    assert_eq!(
        lines,
        [
            "SwitchName=s00_and_1_more Switches=l[00-01]",
            "SwitchName=s10_and_1_more Switches=l[10-11]",
            "SwitchName=core0_and_1_more Switches=lx,s00_and_1_more,s10_and_1_more",
        ]
    );
    // A cable between two spines is in no tree.
    cables.push(("s00".into(), "s10".into()));
    let other = read(&scan(&cables), &[]);
    assert!(write_fabric(FabricFormat::SlurmConf, &other.fabric, &other.routing).is_err());
}

#[test]
fn trees_go_to_slurm_and_others_are_refused() {
    let tree = spec::machine("fattree:k=8,levels=3").unwrap();
    for format in [FabricFormat::SlurmConf, FabricFormat::SlurmYaml] {
        let again = read(&written(format, &tree.fabric, &tree.routing), &[]);
        assert_eq!(again.fabric.nodes().len(), 128);
        // 32 leaves, one switch per pod, one top switch.
        assert_eq!(again.fabric.routers().len(), 32 + 8 + 1);
        for node in tree.fabric.nodes() {
            let found = again
                .fabric
                .node(again.fabric.find_node(&node.host).unwrap());
            let leaf = |f: &Fabric, r| f.router(r).name.clone();
            assert_eq!(
                leaf(&again.fabric, found.router),
                leaf(&tree.fabric, node.router)
            );
        }
    }
    let refusal = |text: &str, format| {
        let machine = spec::machine(text).unwrap();
        let error = write_fabric(format, &machine.fabric, &machine.routing).unwrap_err();
        assert!(matches!(error, ApplyError::Inexpressible { .. }), "{error}");
        error.to_string()
    };
    assert!(refusal("torus:4x4", FabricFormat::SlurmConf).contains("not a tree"));
    assert!(refusal("gpu-rails", FabricFormat::SlurmConf).contains("is on both"));
    assert!(refusal("torus:3x3x3:nodes=2", FabricFormat::SlurmYaml).contains("one node"));
    assert!(refusal("slingshot:3x4", FabricFormat::Lfts).contains("minimal"));
    assert!(refusal("fattree:k=64,levels=3", FabricFormat::Lfts).contains("LIDs"));

    let torus = spec::machine("torus:4x3x2").unwrap();
    let again = read(
        &written(FabricFormat::SlurmYaml, &torus.fabric, &torus.routing),
        &[],
    );
    for (a, b) in pairs(&torus.fabric) {
        let hops = |m: &Fabric, r: &Routing| {
            r.hops(m, m.find_node(&a).unwrap(), m.find_node(&b).unwrap())
                .unwrap()
        };
        assert_eq!(
            hops(&again.fabric, &again.routing),
            hops(&torus.fabric, &torus.routing)
        );
    }
}
