//! Variants of tools' output: options, old versions, text around it. Each example was written for this test.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::{SUBNET, TABLE, parse, text, with_tables};
use hopbyte_fabric::{Fabric, Quantity, spec};
use hopbyte_observe::Machine;
use hopbyte_observe::counters::{CounterOptions, counters};

const LINES: &str = include_str!("../../../fuzz/seeds/link_info/lines.txt");

/// Kinds of the links between switches and to hosts.
fn kinds(m: &Machine) -> Vec<String> {
    m.fabric
        .kind_summary()
        .keys()
        .map(|k| (*k).to_owned())
        .collect()
}

#[test]
fn text_around_tables_is_noted() {
    let routes = |m: &Machine| {
        let [a, b] = ["h1 HCA-1", "h2 HCA-1"].map(|n| m.fabric.find_host(n));
        (a.len(), b.len(), m.routing.describe())
    };
    let plain = routes(&with_tables(SUBNET, TABLE).unwrap());
    for after in [
        "ibroute: iberror: failed: dump tables: dump failed",
        "Connection timed out",
        "Killed",
        "Segmentation fault (core dumped)",
        "bash: line 1: ibroute: command not found",
        "SubnGet(LFT) failed on switch 'x' DLID 5; MAD status 0x110 AM 0x0",
    ] {
        let m = with_tables(SUBNET, &format!("{TABLE}{after}\n")).unwrap();
        assert_eq!(routes(&m), plain);
        assert!(m.notes.iter().any(|n| n.contains(after)), "{:?}", m.notes);
    }
    // A prompt says nothing about ports that are missing.
    let typed = with_tables(SUBNET, &format!("{TABLE}user@login:~$ exit\n")).unwrap();
    assert_eq!(routes(&typed), plain);
    assert_eq!(typed.notes, with_tables(SUBNET, TABLE).unwrap().notes);
    for before in [
        "Failed to open 'mlx4_0' port '1'\n",
        "ibwarn: [7] x: y\n",
        "user@sm:~$ sudo ibroute 1\n",
    ] {
        assert_eq!(
            routes(&with_tables(SUBNET, &format!("{before}{TABLE}")).unwrap()),
            plain
        );
        assert!(
            with_tables(SUBNET, before)
                .unwrap_err()
                .contains("an empty file")
        );
    }
    let groups = "Multicast mlids [0xc000-0xc3ff] of switch Lid 1 guid 0x0000000000000001 (leaf one):\n            0\n     \
                  Ports: 0 1 2\n MLid\n0xc000      x x\n1 valid mlids dumped \n";
    for all in [format!("{TABLE}{groups}"), format!("{groups}{TABLE}")] {
        let m = with_tables(SUBNET, &all).unwrap();
        assert_eq!(routes(&m), plain);
        assert!(
            m.notes.iter().any(|n| n.contains("1 tables of multicast")),
            "{:?}",
            m.notes
        );
    }
}

#[test]
fn ibnetdiscover_with_more_fields_and_headings() {
    let plain = parse(SUBNET).unwrap();
    let rates: Vec<&str> = [
        "4xSDR", "4xDDR", "4xQDR", "4xFDR10", "4xFDR", "4xEDR", "4xHDR",
    ]
    .into();
    let more = |after: &str| {
        rates.iter().fold(SUBNET.to_owned(), |t, r| {
            t.replace(&format!("{r}\n"), &format!("{r}{after}\n"))
        })
    };
    for full in [more(" s=4 w=2 v=4"), more(" slot 3 (scp)")] {
        assert_ne!(full, SUBNET);
        assert_eq!(kinds(&parse(&full).unwrap()), kinds(&plain));
    }
    let grouped = format!(
        "Chassis 1 (guid 0x1)\nHostname: core1\n\n# Spine Nodes\n{SUBNET}\nNon-Chassis Nodes\n"
    );
    let m = parse(&grouped).unwrap();
    assert_eq!(m.fabric.links().len(), plain.fabric.links().len());
}

#[test]
fn iblinkinfo_of_old_versions_and_fdr10() {
    let old = "Switch 0x0008f105001086a2 leaf one:\n\
        \x20          1    1[  ]  ==( 4X 10.0 Gbps Active /   LinkUp)==>       2    1[  ] \"leaf two\" (  )\n\
        \x20          1    2[  ]  ==( 4X 10.0 Gbps Active /   LinkUp)==>       3    1[  ] \"h1 HCA-1\" (  )\n\
        \x20          1    3[  ]  ==(           Down /  Polling)==>             [  ] \"\" (  )\n\
        Switch 0x0008f105001086a3 leaf two:\n\
        \x20          2    1[  ]  ==( 4X 10.0 Gbps Active /   LinkUp)==>       1    1[  ] \"leaf one\" (  )\n\
        \x20          2    2[  ]  ==( 4X 10.0 Gbps Active /   LinkUp)==>       4    1[  ] \"h2 HCA-1\" (  )\n";
    let m = parse(old).unwrap();
    assert_eq!((m.fabric.routers().len(), m.fabric.nodes().len()), (2, 2));
    assert!(m.fabric.find_router("0x0008f105001086a3").is_ok());
    for other in [
        old.replace("Switch 0x", "Switch: 0x"),
        format!("{old}Killed\n"),
    ] {
        assert_eq!(
            parse(&other).unwrap().fabric.links().len(),
            m.fabric.links().len()
        );
    }
    assert!(parse(&old.replace("Switch 0x", "Bridge 0x")).is_err());
    let fdr10 = LINES.replace("2.5 Gbps", "10.0 Gbps (FDR10)");
    assert_ne!(fdr10, LINES);
    assert!(
        kinds(&parse(&fdr10).unwrap())
            .iter()
            .all(|k| k.ends_with("FDR10"))
    );
    // `--additional`.
    let more = LINES.replace("LinkUp)==>", "LinkUp) (HOQ:18 VL_Stall:7)==>");
    assert_eq!(kinds(&parse(&more).unwrap()), kinds(&parse(LINES).unwrap()));
}

#[test]
fn what_slurm_loads_is_read() {
    for (content, routers, nodes) in [
        (
            "SwitchName=top Switches=s1,s2\nSwitchName=s1 Nodes=n1\nSwitchName=s2\n",
            3,
            1,
        ),
        ("SwitchName=\"s1\" Nodes=\"n[1-2]\"\n", 1, 2),
        (
            "\u{feff}SwitchName=s1 Nodes=n[1-2]\r\nswitchname=top switches=s1\r\n",
            2,
            2,
        ),
        (
            "BlockName=b1 Nodes=n[1-4]\nBlockName=b2\nBlockSizes=4,8\n",
            3,
            4,
        ),
        (
            "topology: t\ncluster_default: true\ntree:\n  switches:\n    - switch: s1\n      nodes: n[1-2]\n",
            1,
            2,
        ),
        (
            "- cluster_default: true\n  topology: t\n  tree:\n    switches:\n      - switch: s1\n        nodes: n[1-2]\n",
            1,
            2,
        ),
        (
            "---\n- topology: t\n  tree:\n    switches:\n      - switch: r\n        children: s1,s2\n      - switch: s1\n        nodes: n[1-2]\n      - switch: s2\n",
            3,
            2,
        ),
        (
            "- topology: t\n  block:\n    blocks:\n      - block: a\n        nodes: n[1-2]\n      - block: b\n",
            3,
            2,
        ),
        (
            "- topology: t\n  torus3d:\n    toruses:\n      - name: p\n        dims:\n          x: 2\n          y: 2\n          z: 1\n        nodes: n[1-4]\n        placements:\n          - dims:\n              x: 2\n              y: 1\n              z: 1\n            anchor_seed:\n              x: 1\n",
            4,
            4,
        ),
    ] {
        let m = parse(content).unwrap_or_else(|e| panic!("{content}\n{e}"));
        let size = (m.fabric.routers().len(), m.fabric.nodes().len());
        assert_eq!(size, (routers, nodes), "{content}");
    }
    // Slurm loads every topology of a file.
    let tree = "- topology: t\n  cluster_default: true\n  tree:\n    switches:\n      - switch: s1\n        nodes: n1\n";
    for (other, why) in [
        (
            "- topology: u\n  tree:\n    switches:\n      - switch: r\n        children: zz\n",
            "zz below r",
        ),
        (
            "- topology: u\n  block:\n    block_sizes:\n      - 4\n      - 6\n    blocks:\n      - block: b\n        nodes: n1\n",
            "block size 6",
        ),
        ("- topology: u\n", "exactly one of"),
    ] {
        let error = parse(&format!("{tree}{other}")).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
    assert!(parse(&format!("{tree}- topology: u\n  flat: true\n")).is_ok());
    let far = "- topology: t\n  torus3d:\n    toruses:\n      - name: p\n        dims:\n          x: 2\n          y: 2\n          z: 1\n        nodes: n[1-4]\n        placements:\n          - dims:\n              x: 2\n              y: 1\n              z: 1\n            anchor_seed:\n              x: 2\n";
    assert!(parse(far).unwrap_err().contains("within the torus"));
}

#[test]
fn targets_and_graphs_with_other_fields() {
    for (content, nodes) in [
        ("cmpltw 4 1 2 1 1\n", 4),
        ("ltleaf 2 2 4 3 1 6 0 1 2 3 4 5\n", 6),
    ] {
        let m = parse(content).unwrap();
        assert_eq!(m.fabric.nodes().len(), nodes);
        assert!(
            m.notes.iter().any(|n| n.contains("not used")),
            "{:?}",
            m.notes
        );
    }
    for bad in [
        "cmpltw 4 1 2 1\n",
        "ltleaf 2 2 4 3 1 6 0 1 2 3 4\n",
        "cmpltw 2 1 0\n",
    ] {
        assert!(parse(bad).is_err(), "{bad}");
    }
    // The last part of the path names a node without a name.
    let graph = "{\"graph\": {\"nodes\": [\n\
        {\"id\": \"0\", \"metadata\": {\"type\": \"cluster\", \"paths\": {\"containment\": \"/tiny0\"}}},\n\
        {\"id\": \"1\", \"metadata\": {\"type\": \"node\", \"id\": 3, \"paths\": {\"containment\": \"/tiny0/node3\"}}}], \"edges\": []}}";
    assert!(parse(graph).unwrap().fabric.find_node("node3").is_ok());
}

fn read(content: &str, fabric: &Fabric) -> hopbyte_observe::counters::Counted {
    counters(
        &text("counters", content),
        fabric,
        &CounterOptions::default(),
    )
    .unwrap()
}

#[test]
fn listings_of_ldms_with_text_before_registers_and_markdown() {
    let fabric = spec::fabric("gemini:4x4x24").unwrap();
    let plain = "n/r: consistent, last update: Wed Jan 14 15:08:00 2015 [5us]\nU64 1 nettopo_mesh_coord_X\nU64 2 nettopo_mesh_coord_Y\n\
                 U64 3 nettopo_mesh_coord_Z\nU64 7000 X+_traffic (B)\n";
    let before = format!(
        "$ ldms_ls -h n -l -v\nSchema  Instance  Flags\n------- --------- -----\nr  n/r  CL\nTotal Sets: 1\n\n{plain}"
    );
    let marked = plain.replace('_', "\\_");
    let bytes = |content: &str| {
        let read = read(content, &fabric);
        let state = read.state(&fabric);
        fabric
            .link_ids()
            .filter_map(|l| state.received_bytes.get(l))
            .sum::<f64>()
    };
    for content in [plain, &before, &marked] {
        assert_eq!(bytes(content), 7000.0, "{content}");
    }
    let set = "n/r: consistent, last update: Wed Jan 14 15:08:00 2015 [5us]\nM u64 component_id 62\nM char[] aries_rtr_id \"c0-0c0s0a0\"\n";
    let aries = spec::fabric("aries:1x6x16").unwrap();
    let router = aries.find_router("c0-0c0s15a0").unwrap();
    let link = aries
        .links_from(router)
        .iter()
        .find(|&&l| aries.kind(l).name == "green");
    let link = *link.unwrap();
    let tile = aries.ports(link)[0].from;
    let content = format!(
        "{}D u64 AR_RTR_{}_{}_INQ_PRF_INCOMING_FLIT_VC0 3000\n",
        set.replace("n/r", "nid00062_60020/aries_rtr_mmr"),
        tile / 8,
        tile % 8
    );
    let state = read(&content, &aries).state(&aries);
    let back = aries.reverse(link).unwrap();
    assert!((state.received_bytes.get(back).unwrap() - 20_000.0).abs() < 1e-6);
}

#[test]
fn store_csv_of_other_options() {
    let fabric = spec::fabric("gemini:4x4x24").unwrap();
    for (header, first, second) in [
        (
            "#Time_msec,Time_usec,ProducerName,X+_traffic (B)",
            "10001,0,nid00000,1000",
            "11001,0,nid00000,4000",
        ),
        (
            "Time,Time_usec,comp_id,X+_traffic (B)",
            "10.001,1000,0,1000",
            "11.001,1000,0,4000",
        ),
        (
            "#timestamp,producer,component_id,X+_traffic (B)",
            "10.001,nid00000,1,1000",
            "11.001,nid00000,1,4000",
        ),
        (
            "#Time,Time_usec,ProducerName,DT,DT_usec,X+_traffic (B)",
            "10.001,1000,nid00000,1,0,1000",
            "11.001,1000,nid00000,1,0,4000",
        ),
    ] {
        let read = read(&format!("{header}\n{first}\n{second}\n"), &fabric);
        assert_eq!(
            (read.matched, read.window_seconds()),
            (1, Some(1.0)),
            "{header}"
        );
    }
}

/// A source of ratios alone covers its links.
#[test]
fn ratios_alone_are_readings() {
    let fabric = spec::fabric("gemini:4x4x24").unwrap();
    let mut cells = vec!["1483250400".to_owned()];
    cells.extend((0..18).map(|i| if i == 17 { "25000000" } else { "0" }.to_owned()));
    cells.extend(["7", "3", "2"].map(str::to_owned));
    let state = read(&format!("{}\n", cells.join(",")), &fabric).state(&fabric);
    let known = fabric
        .link_ids()
        .filter(|&l| state.coverage[l.index()] > 0.0);
    let used: Vec<f64> = known.filter_map(|l| state.used_ratio.get(l)).collect();
    assert_eq!(used.len(), 6);
    assert!(used.contains(&0.25));
}

#[test]
fn discards_by_cause_are_errors() {
    let fabric = parse(SUBNET).unwrap().fabric;
    let block = "# PortXmitDiscardDetails counters: Lid 1 port 1\nPortSelect:......................1\nCounterSelect:...................0x0000\n\
        PortInactiveDiscards:............2\nPortNeighborMTUDiscards:.........0\nPortSwLifetimeLimitDiscards:.....0\n\
        PortSwHOQLifetimeLimitDiscards:..5\n";
    let options = CounterOptions::default();
    let read = counters(&text("perfquery", block), &fabric, &options).unwrap();
    let errors: f64 = fabric
        .link_ids()
        .filter_map(|l| read.get(Quantity::Errors, l))
        .sum();
    assert_eq!(errors, 7.0);
    let cut = block.lines().take(5).collect::<Vec<_>>().join("\n") + "\n";
    assert!(counters(&text("perfquery", &cut), &fabric, &options).is_err());
}
