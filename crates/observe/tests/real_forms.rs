//! Forms of files that real tools and sites write, each with a small example made for this test.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::common::{SUBNET, TABLE, machine, parse, text, with_tables};
use hopbyte_fabric::{Quantity, spec};
use hopbyte_observe::counters::{CounterOptions, counter_series};
use hopbyte_observe::{Machine, MachineFiles, read_machine};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

#[test]
fn routes_without_content_are_refused() {
    for empty in ["", "\n\n", "# a comment\n", "  # another\n\n"] {
        let error = with_tables(SUBNET, empty).unwrap_err();
        assert!(
            error.contains("found an empty file, or comments alone"),
            "{error}"
        );
        let files = tempfile::tempdir().unwrap();
        let routes = files.path().join("routes");
        std::fs::write(&routes, empty).unwrap();
        let gemini = MachineFiles {
            routes: vec![routes],
            ..MachineFiles::new("gemini:2x2x2")
        };
        let error = read_machine(&gemini).unwrap_err().to_string();
        assert!(
            error.contains("an empty file, or comments alone"),
            "{error}"
        );
        // A folder of such files has no tables either.
        let scan = files.path().join("scan.txt");
        std::fs::write(&scan, SUBNET).unwrap();
        let folder = files.path().join("tables");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("notes"), empty).unwrap();
        let of_folder = MachineFiles {
            routes: vec![folder],
            ..MachineFiles::new(scan.to_str().unwrap())
        };
        let error = read_machine(&of_folder).unwrap_err().to_string();
        assert!(error.contains("files without forwarding tables"), "{error}");
    }
    assert!(with_tables(SUBNET, TABLE).is_ok());
}

#[test]
fn messages_of_the_tools_among_their_output_are_noted() {
    for message in [
        "ibroute: iberror: failed: dump tables: not a switch",
        "ibwarn: [2112] mad_rpc: _do_madrpc failed; dport (Lid 5)",
        "SubnGet() failed; MAD status 0x110 AM 0x2",
    ] {
        let m = with_tables(SUBNET, &format!("{TABLE}{message}\n")).unwrap();
        let noted = m
            .notes
            .iter()
            .find(|n| n.contains("is a message of the tool"));
        assert!(noted.is_some_and(|n| n.contains(message)), "{:?}", m.notes);
        let m = parse(&format!("{message}\n{SUBNET}{message}\n")).unwrap();
        assert!(
            m.notes[0].contains("2 lines are messages of the tool"),
            "{:?}",
            m.notes
        );
    }
    // Within a table any other line is wrong.
    let within = TABLE.replace("3 valid lids", "failed\n3 valid lids");
    assert!(with_tables(SUBNET, &within).is_err());
}

#[test]
fn iblinkinfo_by_line_is_the_fabric_that_ibnetdiscover_prints() {
    let seeds = hopbyte_testdata::workspace().join("fuzz/seeds");
    let [one, other] =
        ["ibnetdiscover/ibsim.txt", "link_info/lines.txt"].map(|f| machine(&seeds.join(f)));
    let links = |m: &Machine| -> BTreeSet<String> {
        let f = &m.fabric;
        let end = |l| {
            format!(
                "{} -> {}[{}]",
                f.link_name(l),
                f.end_name(f.link(l).to),
                f.ports(l)[0].to
            )
        };
        f.link_ids().map(end).collect()
    };
    assert_eq!(links(&one), links(&other));
    assert_eq!(
        (other.fabric.routers().len(), other.fabric.nodes().len()),
        (2, 3)
    );
    for guid in ["0x0000000000100003", "0x100003"] {
        let name = |m: &Machine| {
            m.fabric
                .node(m.fabric.find_node(guid).unwrap())
                .name
                .clone()
        };
        assert_eq!(name(&one), name(&other));
    }
}

#[test]
fn guids_need_no_leading_zeros() {
    let short = SUBNET
        .replace("S-0000000000000002\"[4]", "S-2\"[4]")
        .replace("H-0000000000000030\"[2]", "H-30\"[2]");
    assert_ne!(short, SUBNET);
    let (a, b) = (parse(SUBNET).unwrap(), parse(&short).unwrap());
    assert_eq!(a.fabric.links().len(), b.fabric.links().len());
    assert_eq!(a.fabric.routers().len(), b.fabric.routers().len());
    assert_eq!(
        b.fabric.find_router("0x2"),
        b.fabric.find_router("0x0000000000000002")
    );
    let lids = "0x11 0x3 0x3\n0x0000000000000032 0x0004 0x0004\n";
    assert!(with_tables(SUBNET, lids).is_ok());
}

#[test]
fn service_levels_are_a_check() {
    let seeds = hopbyte_testdata::workspace().join("fuzz/seeds/ib_tables/opensm-sl2vl.dump");
    let dump = std::fs::read_to_string(seeds).unwrap();
    let m = with_tables(SUBNET, &dump).unwrap();
    let said = "1 switches map service levels to 2 virtual lanes";
    assert!(m.notes.iter().any(|n| n.contains(said)), "{:?}", m.notes);
    let m = with_tables(SUBNET, &dump.replace("0   3  ", "0   9  ")).unwrap();
    assert!(
        m.notes
            .iter()
            .any(|n| n.contains("mapped and not cabled: leaf one[9]")),
        "{:?}",
        m.notes
    );
    for bad in [
        dump.replace(" 15\n", "\n"),
        dump.replace(" 15\n", " 16\n"),
        dump.replace("Switch 0x", "# 0x"),
    ] {
        assert!(with_tables(SUBNET, &bad).is_err(), "{bad}");
    }
}

#[test]
fn a_scan_whose_switches_are_listed_as_adapters_says_so() {
    let side = |guid: u32, port: u32| {
        format!(
            "{{ CA Ports:18 SystemGUID:{guid:016x} NodeGUID:{guid:016x} PortGUID:{guid:016x} VenID:0 DevID:0 Rev:0 {{d{guid}}} LID:{guid:04x} PN:{port:02x} }}"
        )
    };
    let lines: Vec<String> = (1..4)
        .map(|p| format!("{} {} PHY=4x LOG=ACT SPD=2.5", side(9, p), side(p, 1)))
        .collect();
    let error = parse(&lines.join("\n")).unwrap_err();
    assert!(
        error.contains("lists its switches as adapters") && !error.contains("port is down"),
        "{error}"
    );
    let error = parse(&lines[0]).unwrap_err();
    assert!(error.contains("cabled to each other"), "{error}");
    let alone = "devid=0x1021\ncaguid=0x1\nCa\t1 \"H-0000000000000001\"\t\t# \"a HCA-1\"\n";
    let error = parse(alone).unwrap_err();
    assert!(error.contains("port is down"), "{error}");
}

/// A topology of one kind in Slurm's YAML.
fn topology(body: &str) -> Result<Machine, String> {
    parse(&format!("- topology: t\n  cluster_default: true\n{body}"))
}

#[test]
fn what_slurm_refuses_is_refused() {
    let tree = |switches: &[[&str; 3]]| {
        let mut all = "  tree:\n    switches:\n".to_owned();
        for [name, key, list] in switches {
            let _ = write!(all, "      - switch: {name}\n        {key}: {list}\n");
        }
        all
    };
    let torus = |x: u32, more: &str| {
        format!(
            "  torus3d:\n    toruses:\n      - name: p\n        dims:\n          x: {x}\n          y: 2\n          z: 1\n{more}"
        )
    };
    let blocks = |sizes: &[u32], names: [&str; 2]| {
        let sizes: String = sizes.iter().map(|s| format!("      - {s}\n")).collect();
        format!(
            "  block:\n    block_sizes:\n{sizes}    blocks:\n      - block: {}\n        nodes: n[1-4]\n      - block: {}\n        nodes: n[5-8]\n",
            names[0], names[1]
        )
    };
    let ring =
        |nodes: &str| format!("  ring:\n    rings:\n      - ring: r\n        nodes: {nodes}\n");
    for (body, why) in [
        (
            tree(&[["top", "children", "s[1-2]"], ["s1", "nodes", "n1"]]),
            "s2 below top",
        ),
        (
            tree(&[["a", "children", "b"], ["b", "children", "a"]]),
            "below itself",
        ),
        (
            tree(&[["a", "nodes", "n1"], ["a", "nodes", "n2"]]),
            "every switch once",
        ),
        (blocks(&[4, 12], ["a", "b"]), "block size 12"),
        (blocks(&[4, 6], ["a", "b"]), "block size 6"),
        (blocks(&[4, 8], ["a", "a"]), "every block once"),
        (ring("n[1-17]"), "17 nodes in ring r"),
        (
            torus(2, "        nodes: n[1-4]\n        placements: \"2x2x1\"\n"),
            "a list of placements",
        ),
        (
            torus(
                2,
                "        nodes: n[1-4]\n        placements:\n          - dims:\n              x: 3\n              y: 1\n              z: 1\n",
            ),
            "within the torus",
        ),
        (
            torus(2, "        regions: \"r1=n[1-4]\"\n"),
            "a list of regions",
        ),
        (torus(2, "        nodes: n[1-3],n1\n"), "every node once"),
        (
            torus(3, "        nodes: n[1-4]\n"),
            "6, the number of positions",
        ),
    ] {
        let error = topology(&body).map(|_| "was read").unwrap_err();
        assert!(error.contains(why), "{body}\n{error}");
    }
    for good in [
        tree(&[["top", "children", "s1"], ["s1", "nodes", "n1"]]),
        blocks(&[4, 8], ["a", "b"]),
        ring("n[1-16]"),
        torus(2, "        nodes: n[1-4]\n"),
    ] {
        assert!(topology(&good).is_ok(), "{good}");
    }
    // Lists of an InfiniBand subnet's cables in this form are read as the graph that they describe, and say so.
    let [a, b, c] = ["1a", "1b", "1c"].map(|n| format!("S-00000000000000{n}"));
    let m = parse(&format!(
        "SwitchName={a} Switches={b}\nSwitchName={b} Switches={a},{c}\nSwitchName={c} Nodes=n[1-2]\n"
    ))
    .unwrap();
    assert!(
        m.notes
            .iter()
            .any(|n| n.contains("Slurm refuses this file")),
        "{:?}",
        m.notes
    );
}

#[test]
fn regions_of_a_torus_place_nodes() {
    let seed = hopbyte_testdata::workspace().join("fuzz/seeds/slurm_yaml/regions.yaml");
    let m = machine(&seed);
    assert_eq!((m.fabric.routers().len(), m.fabric.nodes().len()), (4, 2));
    let at = |n: &str| {
        m.fabric
            .coord(m.fabric.node(m.fabric.find_node(n).unwrap()).router)
            .unwrap()
            .to_vec()
    };
    assert_eq!((at("n0"), at("n1")), (vec![0, 0, 0], vec![1, 0, 0]));
    assert!(
        m.notes
            .iter()
            .any(|n| n.contains("2 positions are in no region")),
        "{:?}",
        m.notes
    );
}

#[test]
fn a_canonical_dragonfly_of_codes_has_routers_per_group() {
    let folder = tempfile::tempdir().unwrap();
    let rows = |rows: &[&[i32]]| -> Vec<u8> {
        rows.iter()
            .flat_map(|r| r.iter().flat_map(|n| n.to_le_bytes()))
            .collect()
    };
    std::fs::write(folder.path().join("in"), rows(&[&[0, 1, 0], &[1, 0, 0]])).unwrap();
    std::fs::write(
        folder.path().join("out"),
        rows(&[&[0, 2], &[2, 0], &[1, 4], &[4, 1], &[3, 5], &[5, 3]]),
    )
    .unwrap();
    let model = |more: &str| {
        format!(
            "num_routers=\"2\";\nnum_groups=\"3\";\nnum_cns_per_router=\"2\";\n{more}local_bandwidth=\"2.0\";\n\
             global_bandwidth=\"4.0\";\ncn_bandwidth=\"2.0\";\nintra-group-connections=\"../x/in\";\n\
             inter-group-connections=\"out\";\n"
        )
    };
    let read = |more: &str| {
        let file = folder.path().join("dally.conf");
        std::fs::write(&file, model(more)).unwrap();
        read_machine(&MachineFiles::new(file.to_str().unwrap())).map_err(|e| e.to_string())
    };
    let m = read("").unwrap();
    assert_eq!((m.fabric.routers().len(), m.fabric.nodes().len()), (6, 12));
    assert_eq!(m.fabric.components(), 1);
    assert_eq!(
        read("num_planes=\"1\";\n").unwrap().fabric.nodes().len(),
        12
    );
    let error = read("num_rails=\"2\";\n").unwrap_err();
    assert!(error.contains("1 for num_rails"), "{error}");
}

#[test]
fn targets_of_scotch_are_machines() {
    for (content, nodes, diameter) in [
        ("torus3D 4 4 2\n", 32, 5),
        ("torus2D 3\n5\n", 15, 3),
        ("mesh2D 4 4", 16, 6),
        ("meshXD 4 2 2 2 2", 16, 4),
        ("hcub 5\n", 32, 5),
        ("hcub 0\n", 1, 0),
        ("hcub 1\n", 2, 1),
        ("cmplt 6\n", 6, 1),
        ("tleaf\n2 4 10 8 1\n", 32, 2),
        ("sub\n3 0 5 9\ntorus2D 4 4\n", 16, 4),
    ] {
        let m = parse(content).unwrap();
        assert_eq!(m.fabric.nodes().len(), nodes, "{content}");
        let reach = hopbyte_fabric::Reach::of(&m.fabric, &m.routing);
        assert_eq!(reach.unroutable_pairs(), 0, "{content}");
        let longest = m.fabric.node_ids().filter_map(|to| {
            let from = m.fabric.node_ids().next()?;
            m.routing.hops(&m.fabric, from, to).ok()
        });
        assert_eq!(longest.max(), Some(diameter), "{content}");
    }
    for bad in [
        "torus3D 4 4\n",
        "torus3D 4 4 4 4\n",
        "torus3D 4 0 4\n",
        "hcub 99\n",
        "sub 2 0 99 torus2D 2 2\n",
        "meshXD 9 1 1 1 1 1 1 1 1 1\n",
        "deco 0 1 1\n",
    ] {
        assert!(parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn resource_graphs_of_flux_are_trees() {
    let seeds = hopbyte_testdata::workspace().join("fuzz/seeds/flux");
    let graph = std::fs::read_to_string(seeds.join("graph.json")).unwrap();
    let wrapped = format!("{{\"version\": 1, \"execution\": {{}}, \"scheduling\": {graph}}}");
    for content in [&graph, &wrapped] {
        let m = parse(content).unwrap();
        assert_eq!((m.fabric.routers().len(), m.fabric.nodes().len()), (3, 3));
        let hops = |a: &str, b: &str| {
            let [a, b] = [a, b].map(|n| m.fabric.find_node(n).unwrap());
            m.routing.hops(&m.fabric, a, b).unwrap()
        };
        assert_eq!((hops("n0", "n1"), hops("n0", "n2")), (2, 4));
    }
    let r1 = std::fs::read_to_string(seeds.join("r1.json")).unwrap();
    let error = parse(&r1).unwrap_err();
    assert!(error.contains("an R without a graph"), "{error}");
}

#[test]
fn cores_outside_the_allowed_set_are_left_out() {
    let core = |n: u32| {
        format!(
            "<object type=\"Core\" os_index=\"{n}\"><object type=\"PU\" os_index=\"{n}\"/></object>"
        )
    };
    let node = |allowed: &str| {
        let cores: String = (0..4).map(core).collect();
        format!(
            "<topology version=\"2.0\">\n<object type=\"Machine\" os_index=\"0\"{allowed}><object type=\"Package\" os_index=\"0\">{cores}</object></object></topology>\n"
        )
    };
    for (allowed, cores) in [
        ("", vec![0, 1, 2, 3]),
        (" allowed_cpuset=\"0x0000000f\"", vec![0, 1, 2, 3]),
        (" allowed_cpuset=\"0x0000000a\"", vec![1, 3]),
        (" allowed_cpuset=\"0xf...f,0x00000001\"", vec![0]),
        (" allowed_cpuset=\"0x00000001,,0x00000004\"", vec![2]),
    ] {
        let m = parse(&node(allowed)).unwrap();
        let found: Vec<u32> = (0..4)
            .filter(|n| m.fabric.find_node(&format!("core {n}")).is_ok())
            .collect();
        assert_eq!(found, cores, "{allowed}");
        let noted = m
            .notes
            .iter()
            .any(|n| n.contains(&format!("{} of 4 cores are outside", 4 - cores.len())));
        assert_eq!(noted, cores.len() < 4, "{:?}", m.notes);
    }
}

#[test]
fn nccl_files_may_lack_what_nccl_fills_in() {
    let full = "<system version=\"1\">\n<cpu numaid=\"0\">\n<pci busid=\"0000:10:00.0\" class=\"0x060400\" link_speed=\"8 GT/s\" link_width=\"16\">\n\
        <pci busid=\"0000:10:1c.0\" class=\"0x030200\"><gpu dev=\"0\"/></pci>\n\
        <pci busid=\"0000:10:1b.0\" class=\"0x020000\"><nic><net name=\"mlx5_0\"/></nic></pci>\n</pci>\n</cpu>\n</system>\n";
    let bare = full
        .replace(
            " class=\"0x060400\" link_speed=\"8 GT/s\" link_width=\"16\"",
            "",
        )
        .replace(" class=\"0x030200\"", "")
        .replace(" class=\"0x020000\"", "")
        .replace(" version=\"1\"", "")
        .replace(
            "</pci>\n</cpu>",
            "<pci busid=\"0000:10:1a.0\"/></pci>\n</cpu>",
        );
    let (full, bare) = (parse(full).unwrap(), parse(&bare).unwrap());
    let names = |m: &Machine| {
        m.fabric
            .nodes()
            .iter()
            .map(|n| n.name.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(&full), names(&bare));
    assert!(
        bare.notes
            .iter()
            .any(|n| n.contains("1 PCI devices have no class")),
        "{:?}",
        bare.notes
    );
}

fn totals(fabric: &str, content: &str) -> Result<hopbyte_fabric::Totals, String> {
    let fabric = if fabric == "subnet" {
        parse(SUBNET).unwrap().fabric
    } else {
        spec::fabric(fabric).unwrap()
    };
    let series = counter_series(
        &[text("counters", content)],
        &fabric,
        &CounterOptions::default(),
    );
    match series.map_err(|e| e.to_string())? {
        hopbyte_observe::counters::Series::Totals(totals) => Ok(totals),
        hopbyte_observe::counters::Series::Increases(_) => Err("increases".into()),
    }
}

#[test]
fn the_listing_of_paper_003_is_read_on_any_gemini() {
    let listing = "U64 1 nettopo_mesh_coord_X\nU64 1 nettopo_mesh_coord_Y\nU64 6 nettopo_mesh_coord_Z\n\
        U64 511796170434 X+_traffic (B)\nU64 11550455465 X+_packets (1)\nU64 279915898696 X+_inq_stall (ns)\n\
        U64 53317089003 X+_credit_stall (ns)\nU64 48 X+_sendlinkstatus (1)\nU64 48 X+_recvlinkstatus (1)\n\
        U64 13 X+_SAMPLE_GEMINI_LINK_USED_BW (%)\n";
    let head = "nid00064/cray_gemini_r_sampler: consistent, last update: Wed Jan 14 15:08:00 2015 [9395us]\n";
    for fabric in ["gemini:2x2x8", "gemini:4x4x8", "bluewaters"] {
        for content in [listing.to_owned(), format!("{head}{listing}")] {
            let totals = totals(fabric, &content).unwrap();
            assert_eq!((totals.matched, totals.unmatched), (1, 0), "{fabric}");
            let built = spec::fabric(fabric).unwrap();
            let bytes: f64 = built
                .link_ids()
                .filter_map(|l| totals.get(Quantity::ReceivedBytes, l))
                .sum();
            assert_eq!(bytes, 511_796_170_434.0, "{fabric}");
            let lanes: Vec<f64> = built
                .link_ids()
                .filter_map(|l| totals.get(Quantity::Lanes, l))
                .collect();
            assert!(lanes.iter().all(|&l| l == 24.0), "{fabric}: {lanes:?}");
            assert_eq!(
                totals
                    .left_out
                    .counts()
                    .any(|(why, _)| why.contains("count of lanes")),
                fabric != "gemini:2x2x8"
            );
        }
    }
    let error = totals("gemini:4x4x8", &listing.replace("U64 48", "U64 49")).unwrap_err();
    assert!(error.contains("49 lanes"), "{error}");
}

#[test]
fn sets_named_after_a_daemon_s_port_are_of_its_host() {
    let content = "nid00062_60020/aries_linkstatus: consistent, last update: Wed Jan 14 15:08:00 2015 [5us]\n\
        D u64 traffic_000 (B) 7\n".replace("traffic_000 (B)", "traffic_000");
    let totals = totals("aries:2x6x16", &content).unwrap();
    assert_eq!(totals.matched, 1);
}

#[test]
fn a_full_counter_of_32_bits_has_no_value() {
    let block = |data: u64| {
        format!(
            "# Port counters: Lid 2 port 4 (CapMask: 0x1300)\nPortSelect:......................4\n\
             CounterSelect:...................0x0000\nPortXmitData:....................{data}\nPortRcvData:.....................8\n\
             PortXmitWait:....................0\n"
        )
    };
    let sent = |data| {
        let fabric = parse(SUBNET).unwrap().fabric;
        let totals = totals("subnet", &block(data)).unwrap();
        let link = fabric.find_link("leaf two[4]").unwrap();
        (
            totals.get(Quantity::SentBytes, link),
            totals.missing(Quantity::SentBytes, link),
        )
    };
    assert_eq!(
        sent(0xffff_fffe),
        (Some(4.0 * f64::from(0xffff_fffe_u32)), None)
    );
    assert_eq!(
        sent(0xffff_ffff),
        (None, Some(hopbyte_fabric::Missing::Stuck))
    );
}

#[test]
fn presets_are_cabled_as_the_published_dumps() {
    let Some(edison) = hopbyte_testdata::shared("cray/edison.interconnect.txt.zst") else {
        return;
    };
    let dump = machine(Path::new(&edison)).fabric;
    let preset = spec::fabric("edison").unwrap();
    let cables = |f: &hopbyte_fabric::Fabric| -> BTreeSet<String> {
        let hops = f.link_ids().filter(|&l| f.is_hop(l));
        hops.map(|l| {
            format!(
                "{} {} {} {}",
                f.end_name(f.link(l).from),
                f.end_name(f.link(l).to),
                f.kind(l).name,
                f.ports(l).len()
            )
        })
        .collect()
    };
    assert_eq!(cables(&preset), cables(&dump));
    let Some(model) = hopbyte_testdata::shared("dragonfly/theta.conf") else {
        return;
    };
    // CODES numbers the routers of Theta by group, chassis and slot, and has one link a tile.
    let model = machine(Path::new(&model)).fabric;
    let theta = spec::fabric("theta").unwrap();
    let joints = |f: &hopbyte_fabric::Fabric| -> BTreeSet<(Vec<u32>, Vec<u32>, usize)> {
        let coord = |end| match end {
            hopbyte_fabric::End::Router(r) => f.coord(r).unwrap().to_vec(),
            _ => Vec::new(),
        };
        let hops = f.link_ids().filter(|&l| f.is_hop(l));
        let joint = |l| (coord(f.link(l).from), coord(f.link(l).to), f.ports(l).len());
        hops.map(joint).filter(|(a, b, _)| a[0] != b[0]).collect()
    };
    assert_eq!(joints(&theta), joints(&model));
}
