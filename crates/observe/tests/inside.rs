//! Topologies inside a node: both versions of hwloc, NCCL.

#![allow(clippy::unwrap_used)]

use crate::common::{content, parse, seeds};
use hopbyte_fabric::{Fabric, Routing};
use hopbyte_observe::{Machine, MachineFiles, read_machine};
use hopbyte_testdata::{own, shared};

fn hops(m: &Machine, from: &str, to: &str) -> usize {
    let find = |name| m.fabric.find_node(name).unwrap();
    m.routing.hops(&m.fabric, find(from), find(to)).unwrap()
}

/// Lowest capacity along a route, GB/s.
fn narrowest(m: &Machine, from: &str, to: &str) -> f64 {
    let find = |name| m.fabric.find_node(name).unwrap();
    let mut route = Vec::new();
    m.routing
        .route(&m.fabric, find(from), find(to), &mut route)
        .unwrap();
    let rates = route.iter().map(|&l| m.fabric.link(l).capacity().gb());
    rates.fold(f64::INFINITY, f64::min)
}

fn node_names(fabric: &Fabric) -> Vec<&str> {
    let mut names: Vec<&str> = fabric.nodes().iter().map(|n| n.name.as_str()).collect();
    names.sort_unstable();
    names
}

/// Clouds show their adapters and GPUs as host bridges, accelerators or co-processors.
#[test]
fn elements_below_a_pci_device_tell_what_it_is() {
    let system = |classes: [&str; 2]| {
        format!(
            r#"<system version="1"><cpu numaid="0">
<pci busid="0000:00:00.0" class="{}" link_speed="" link_width="0"><nic><net name="mlx5_0" speed="400000" guid="0x1"/></nic></pci>
<pci busid="0002:00:01.0" class="{}" link_speed="32.0 GT/s PCIe" link_width="16"><gpu dev="0" sm="100"/></pci>
</cpu></system>"#,
            classes[0], classes[1]
        )
    };
    for classes in [
        ["0x020000", "0x030200"],
        ["0x060000", "0x030200"],
        ["0x120000", "0x0b4000"],
    ] {
        let m = parse(&system(classes)).unwrap();
        let notes = m.notes.join("\n");
        assert!(notes.contains("1 CPU, 1 adapter, 1 GPU"), "{notes}");
        assert!(m.fabric.find_node("mlx5_0").is_ok() && m.fabric.find_node("gpu0").is_ok());
        assert_eq!(narrowest(&m, "gpu0", "mlx5_0"), 50.0, "{classes:?}");
    }
    // A switch with an adapter of its own keeps what is below it.
    let switch = r#"<system version="1"><cpu numaid="0"><pci busid="0000:00:00.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
<nic><net name="mlx5_0" speed="400000"/></nic>
<pci busid="0002:00:01.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16"><gpu dev="0" sm="100"/></pci></pci></cpu></system>"#;
    let m = parse(switch).unwrap();
    assert_eq!(hops(&m, "gpu0", "mlx5_0"), 2);
    assert_eq!(narrowest(&m, "gpu0", "mlx5_0"), 50.0);
}

#[test]
fn ports_of_an_adapter_are_names_of_it() {
    let text = r#"<system version="1"><cpu numaid="0">
<pci busid="0000:01:00.0" class="0x030000" link_speed="16.0 GT/s PCIe" link_width="16"><gpu dev="0" sm="89"/><gpu dev="0" sm="89"/></pci>
<pci busid="0000:02:00.0" class="0x020700" link_speed="8.0 GT/s PCIe" link_width="16"><nic>
<net name="mlx5_0" dev="0" speed="100000" port="1" guid="0x84c3"/><net name="mlx5_1" dev="1" speed="100000" port="2" guid="0x84c3"/>
</nic></pci></cpu></system>"#;
    let m = parse(text).unwrap();
    let [first, second] = ["mlx5_0", "mlx5_1"].map(|n| m.fabric.find_node(n).unwrap());
    assert_eq!(first, second);
    assert_eq!(hops(&m, "mlx5_1", "gpu0"), hops(&m, "mlx5_0", "gpu0"));
    let notes = m.notes.join("\n");
    assert!(notes.contains("1 PCI device has several <gpu>"), "{notes}");
}

/// NCCL lists the networks without a PCI device at every CPU.
#[test]
fn networks_of_software_are_no_adapters() {
    let nic = r#"<nic><net name="tunl0" speed="10000" guid="0x1"/><net name="br-702d9f064725" speed="10000" guid="0x2"/>
<net name="cali1c7388b97f5" speed="10000" guid="0x3"/><net name="bond0" speed="100000" guid="0x4"/></nic>"#;
    let cpu = |n: u32| format!(r#"<cpu numaid="{n}">{nic}</cpu>"#);
    let m = parse(&format!(
        r#"<system version="1">{}{}</system>"#,
        cpu(0),
        cpu(1)
    ))
    .unwrap();
    let notes = m.notes.join("\n");
    assert!(notes.contains("2 CPUs, 1 adapter"), "{notes}");
    assert!(
        notes.contains("3 networks are an interface of software"),
        "{notes}"
    );
    assert!(
        notes.contains("1 network is listed at a further CPU and left out there: bond0"),
        "{notes}"
    );
    assert_eq!(narrowest(&m, "cores 0", "bond0"), 12.5);
    assert!(m.fabric.find_node("tunl0").is_err());
}

/// Output of `lstopo` for the same file: 2 packages, 4 L3, 16 cores, 32 hardware threads, 2 memories.
#[test]
fn both_versions_of_hwloc_say_the_same() {
    let read = |file: &str| parse(&content(&own("node-topology").join(file))).unwrap();
    let (one, two) = (read("hwloc-1.xml"), read("hwloc-2.xml"));
    assert_eq!(node_names(&one.fabric), node_names(&two.fabric));
    for m in [&one, &two] {
        assert_eq!(m.fabric.nodes().len(), 16 + 2);
        assert_eq!(m.fabric.components(), 1);
        let count = |what: &str| {
            m.fabric
                .routers()
                .iter()
                .filter(|r| r.name.starts_with(what))
                .count()
        };
        assert_eq!((count("package"), count("L3")), (2, 4));
        let note = m.notes.join("\n");
        for words in [
            "2 packages",
            "16 cores",
            "32 hardware threads",
            "2 NUMA nodes",
        ] {
            assert!(note.contains(words), "{words}: {note}");
        }
        // Two threads of a core, cores of one L3, of two L3s, of two packages.
        let core = |pu: &str| m.fabric.node(m.fabric.find_node(pu).unwrap()).name.clone();
        assert_eq!(
            (core("pu 8"), core("pu 9"), core("pu 31")),
            ("core 4".into(), "core 4".into(), "core 15".into())
        );
        let far = ["pu 2", "pu 8", "pu 16"].map(|to| hops(m, "pu 0", to));
        assert!(far[0] == 2 && far[0] < far[1] && far[1] < far[2], "{far:?}");
        assert_eq!(narrowest(m, "pu 0", "memory 0"), 100.0);
        assert_eq!(narrowest(m, "pu 0", "memory 1"), 41.6);
        assert!(hops(m, "pu 0", "memory 0") < hops(m, "pu 0", "memory 1"));
    }
}

#[test]
fn devices_of_real_nodes_are_found() {
    let Some(folder) = shared("node-topology") else {
        return;
    };
    let read = |file: &str| {
        read_machine(&MachineFiles::new(folder.join(file).display().to_string())).unwrap()
    };
    let dgx2 = read("hwloc-nvidiaDGX2.xml");
    let gpus = dgx2
        .fabric
        .nodes()
        .iter()
        .filter(|n| n.name.starts_with("nvml"))
        .count();
    assert_eq!((gpus, dgx2.fabric.nodes().len()), (16, 16 + 4 + 2));
    // Two GPUs of one switch, of one root port, of two packages.
    let far = ["0000:36:00.0", "0000:39:00.0", "0000:e5:00.0"].map(|to| hops(&dgx2, "nvml0", to));
    assert!(far[0] < far[1] && far[1] < far[2], "{far:?}");
    assert!((narrowest(&dgx2, "nvml0", "nvml1") - 15.753_846).abs() < 1e-6);
    let text = content(&folder.join("hwloc-nvidiaDGX2.xml"));
    assert_eq!(text.matches("pci_type=\"0302 ").count(), 16);

    let xeon = read("hwloc-96em64t-4n4d3ca2co-pci.xml");
    let text = content(&folder.join("hwloc-96em64t-4n4d3ca2co-pci.xml"));
    let cores = xeon
        .fabric
        .nodes()
        .iter()
        .filter(|n| n.name.starts_with("core "))
        .count();
    assert_eq!(cores, text.matches("type=\"Core\" ").count());
    let eth = xeon
        .fabric
        .nodes()
        .iter()
        .filter(|n| n.name.starts_with("eth"))
        .count();
    assert_eq!(eth, text.matches("name=\"eth").count());

    let amd = read("hwloc-16amd64-4distances.xml");
    let cores = amd
        .fabric
        .nodes()
        .iter()
        .filter(|n| n.name.starts_with("core "))
        .count();
    assert_eq!(cores, 16);

    let p4d = read("nccl-p4d-24xl-topo.xml");
    let count = |what: &str| {
        p4d.fabric
            .nodes()
            .iter()
            .filter(|n| n.name.starts_with(what))
            .count()
    };
    assert_eq!((count("gpu"), count("nic"), count("cores")), (8, 4, 2));
    assert_eq!(
        (
            hops(&p4d, "gpu0", "nic0"),
            hops(&p4d, "0000:10:1c.0", "gpu2")
        ),
        (2, 4)
    );
    // 8 GT/s, 128b/130b, 16 lanes.
    assert!((narrowest(&p4d, "gpu0", "nic0") - 15.753_846).abs() < 1e-5);
}

#[test]
fn nvlinks_are_shorter_than_pci() {
    let (_, seed) = seeds("nccl").remove(0);
    let m = parse(&String::from_utf8(seed).unwrap()).unwrap();
    // A GPU's own router, the NVLink, the other GPU's router.
    assert_eq!(hops(&m, "gpu0", "gpu1"), 3);
    assert_eq!(narrowest(&m, "gpu0", "gpu1"), 50.0);
    assert!((narrowest(&m, "gpu1", "mlx5_0") - 7.876_923).abs() < 1e-5);
    assert!(m.fabric.find_router("nvswitch 0000:c4:00.0").is_ok());
    assert!(matches!(m.routing, Routing::Minimal(_)));
}

#[test]
fn hostile_xml_is_refused() {
    let deep = format!(
        "<topology version=\"2.0\">{}",
        "<object type=\"Group\">".repeat(30_000)
    );
    let bomb = "<!DOCTYPE topology [<!ENTITY a \"aaaaaaaaaa\"><!ENTITY b \"&a;&a;&a;&a;&a;&a;&a;&a;\">\
        <!ENTITY c \"&b;&b;&b;&b;&b;&b;&b;&b;\"><!ENTITY d \"&c;&c;&c;&c;&c;&c;&c;&c;\">]>\n\
        <topology version=\"2.0\">\n&d;&d;&d;&d;</topology>";
    for (bad, expected) in [
        (deep.as_str(), ":1: found elements more than 64 deep"),
        (bomb, "expected"),
        (
            "<topology version=\"2.0\">\n<object type=\"Machine\">\n</topology>",
            ":3: found",
        ),
        (
            "<topology version=\"2.0\">\n</topology>",
            ":1: found 0 objects at the top",
        ),
        (
            "<topology version=\"2.0\">\n<object type=\"Machine\"/></topology>",
            "no core and no device",
        ),
        (
            "<topology version=\"2.0\"><object type=\"Machine\">\n<object/></object></topology>",
            ":2: found an object without a type",
        ),
        (
            "<system version=\"1\"><cpu>\n<pci class=\"0x060400\"/></cpu></system>",
            ":2: found <pci>, expected a busid",
        ),
        (
            "<system version=\"1\"><cpu>\n<pci busid=\"1\" class=\"x\"/></cpu></system>",
            ":2: found <pci>, expected a class",
        ),
    ] {
        match parse(bad) {
            Ok(m) => assert!(m.fabric.nodes().is_empty(), "read: {}", &bad[..60]),
            Err(text) => assert!(text.contains(expected), "{expected}: {text}"),
        }
    }
}

/// OpenSM's hop counts equal those of the cables.
#[test]
fn lid_matrix_agrees_with_the_scan() {
    let Some(folder) = shared("infiniband/opensm-x5-minhop") else {
        return;
    };
    let mut files = MachineFiles::new(folder.join("opensm-subnet.lst.zst").display().to_string());
    files.routes = vec![
        folder.join("opensm-lid-matrix.dump"),
        folder.join("opensm.fdbs"),
    ];
    let m = read_machine(&files).unwrap();
    let note = m.notes.iter().find(|n| n.contains("lid-matrix")).unwrap();
    // Eleven switches: all ordered pairs, including each to itself.
    assert!(
        note.contains(": 121 distances between switches agree with the cables"),
        "{note}"
    );
    assert!(
        !m.notes
            .iter()
            .any(|n| n.contains("different from the cables")),
        "{:?}",
        m.notes
    );

    // dfsssp lists the LIDs of adapters, too; 0x7000 is of no device.
    let scratch = tempfile::tempdir().unwrap();
    let plain = content(&folder.join("opensm-lid-matrix.dump"));
    for (lid, strangers) in [("0060", 0), ("7000", 1)] {
        let more = format!("0x{lid}: 02 02 ff # portguid 0x003048c749000001\n");
        std::fs::write(scratch.path().join("m"), format!("{plain}{more}")).unwrap();
        files.routes[0] = scratch.path().join("m");
        let m = read_machine(&files).unwrap();
        let told = m.notes.iter().filter(|n| n.contains("does not list"));
        assert_eq!(told.count(), strangers, "{lid}: {:?}", m.notes);
    }
    let bent = plain.replacen("0x0007: 01", "0x0007: 04", 1);
    std::fs::write(scratch.path().join("m"), bent).unwrap();
    files.routes[0] = scratch.path().join("m");
    let m = read_machine(&files).unwrap();
    assert!(
        m.notes
            .iter()
            .any(|n| n.contains("1 distance different from the cables")),
        "{:?}",
        m.notes
    );
}

/// Rates that NCCL files have: the architecture's NVLink, C2C, the speed of a network interface.
#[test]
fn rates_of_nccl_files_are_used() {
    let text = r#"<system version="1">
  <cpu host_hash="0x1" numaid="0">
    <pci busid="0008:01:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu dev="0" sm="100" rank="0"><nvlink target="fffffff:ffff:ff" count="18"/><c2c bw="44712" count="10"/></gpu>
    </pci>
    <pci busid="0000:03:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16">
      <nic><net name="mlx5_0" speed="400000" port="1" guid="0xa262550003a1420c"/></nic>
    </pci>
  </cpu>
  <cpu host_hash="0x2" numaid="0">
    <pci busid="0008:01:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
      <gpu dev="0" sm="100" rank="1"><nvlink target="fffffff:ffff:ff" count="18"/></gpu>
    </pci>
  </cpu>
</system>
"#;
    let m = parse(text).unwrap();
    assert_eq!(narrowest(&m, "host0 gpu0", "host1 gpu0"), 900.0);
    let c2c = m.fabric.kind_summary()["C2C"].1;
    assert!((c2c.gb() - 447.12).abs() < 1e-6);
    assert_eq!(narrowest(&m, "host0 gpu0", "host0 mlx5_0"), 50.0);
    assert!(m.fabric.find_node("0xa262550003a1420c").is_ok());
    // Nothing but NVLink joins the two machines.
    let (a, b) = ["host0 mlx5_0", "host1 cores 0"]
        .map(|n| m.fabric.find_node(n).unwrap())
        .into();
    let mut route = Vec::new();
    m.routing.route(&m.fabric, a, b, &mut route).unwrap();
    let kinds: Vec<&str> = route
        .iter()
        .map(|&l| m.fabric.kind(l).name.as_str())
        .collect();
    assert!(kinds.contains(&"NVLink"), "{kinds:?}");
    assert!(
        m.notes.iter().any(|n| n.contains("2 machines")),
        "{:?}",
        m.notes
    );
    for (bad, expected) in [
        (text.replace("bw=\"44712\"", "bw=\"x\""), "bw in MB/s"),
        (
            text.replace("count=\"18\"", "count=\"0\""),
            "a target and a count",
        ),
    ] {
        let error = parse(&bad).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_dgx_a100_sends_300_gb_per_s() {
    let Some(folder) = shared("ai/infragraph") else {
        return;
    };
    let m = parse(&content(&folder.join("dgx_a100_nccl_topo.xml"))).unwrap();
    let gpu = m.fabric.node(m.fabric.find_node("gpu0").unwrap());
    assert!(m.fabric.link(gpu.inject).capacity().gb() > 300.0);
    let out = m.fabric.links_from(gpu.router).iter();
    let nvlinks = out.filter(|&&l| m.fabric.kind(l).name == "NVLink");
    let sum: f64 = nvlinks.map(|&l| m.fabric.link(l).capacity().gb()).sum();
    assert_eq!(sum, 300.0);
}

/// An NCCL file joined with a scan by the GUIDs of its adapters: the GPUs of that host are places.
#[test]
fn a_file_describes_the_host_with_its_adapters() {
    let folder = tempfile::tempdir().unwrap();
    let scan = folder.path().join("scan.txt");
    let text = r#"
vendid=0x2c9
devid=0xd2f2
sysimgguid=0x1
switchguid=0x1(1)
Switch	3 "S-0000000000000001"		# "leaf" enhanced port 0 lid 1 lmc 0
[1]	"H-0c42a103005562a2"[1](c42a103005562a2) 		# "a mlx5_0" lid 2 4xHDR
[2]	"H-0c42a103005562a3"[1](c42a103005562a3) 		# "a mlx5_1" lid 3 4xHDR
[3]	"H-0c42a103005562a4"[1](c42a103005562a4) 		# "b mlx5_7" lid 4 4xHDR

vendid=0x2c9
devid=0x1017
sysimgguid=0xc42a103005562a2
caguid=0xc42a103005562a2
Ca	1 "H-0c42a103005562a2"		# "a mlx5_0"
[1](c42a103005562a2) 	"S-0000000000000001"[1]		# lid 2 lmc 0 "leaf" lid 1 4xHDR

vendid=0x2c9
devid=0x1017
sysimgguid=0xc42a103005562a3
caguid=0xc42a103005562a3
Ca	1 "H-0c42a103005562a3"		# "a mlx5_1"
[1](c42a103005562a3) 	"S-0000000000000001"[2]		# lid 3 lmc 0 "leaf" lid 1 4xHDR

vendid=0x2c9
devid=0x1017
sysimgguid=0xc42a103005562a4
caguid=0xc42a103005562a4
Ca	1 "H-0c42a103005562a4"		# "b mlx5_7"
[1](c42a103005562a4) 	"S-0000000000000001"[3]		# lid 4 lmc 0 "leaf" lid 1 4xHDR
"#;
    std::fs::write(&scan, text.trim_start()).unwrap();
    let gpu = |n: u32| {
        format!(
            r#"<pci busid="0000:1{n}:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"><gpu dev="{n}" sm="80"><nvlink target="0000:c4:00.0" count="6"/><nvlink target="0000:c5:00.0" count="6"/></gpu></pci>"#
        )
    };
    let topology = format!(
        r#"<system version="1">
<cpu host_hash="0x1" numaid="0">
<pci busid="0000:01:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
{}{}
<pci busid="0000:03:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16"><nic><net name="mlx5_9" speed="200000" guid="0xa262550003a1420c"/></nic></pci>
</pci></cpu></system>"#,
        gpu(0),
        gpu(1)
    );
    let xml = folder.path().join("topo.xml");
    std::fs::write(&xml, topology).unwrap();
    let files = MachineFiles {
        hosts: vec![xml.display().to_string()],
        ..MachineFiles::new(scan.display().to_string())
    };
    let m = read_machine(&files).unwrap();
    let names: Vec<&str> = m
        .fabric
        .places_of_host("a")
        .into_iter()
        .map(|n| m.fabric.node(n).name.as_str())
        .collect();
    assert_eq!(names, ["a gpu0", "a gpu1"]);
    // Both NVSwitches together; the only adapter of the file is the way out, the other one is no place.
    assert_eq!(narrowest(&m, "a gpu0", "a gpu1"), 300.0);
    assert_eq!(narrowest(&m, "a gpu1", "b mlx5_7"), 25.0);
    assert_eq!(m.fabric.places().len(), 3, "{:?}", m.notes);
    let other = MachineFiles {
        hosts: vec![format!("{}@b", xml.display())],
        ..files
    };
    // One adapter each, and the host is listed: the file's adapters are taken in order.
    let m = read_machine(&other).unwrap();
    assert_eq!(m.fabric.places_of_host("b").len(), 2);
    assert_eq!(m.fabric.places_of_host("a").len(), 2);
}

/// RCCL's files: Infinity Fabric in the place of NVLink, the chip in `gcn`, adapters that are no PCI devices.
#[test]
fn infinity_fabric_and_adapters_without_pci_are_read() {
    let gpu = |n: u32, chip: &str, peers: &[(u32, u32)]| {
        let links: String = peers
            .iter()
            .map(|(to, count)| {
                format!(r#"<xgmi target="0000:0{to}:00.0" count="{count}" tclass="0x038000"/>"#)
            })
            .collect();
        format!(
            r#"<pci busid="0000:0{n}:00.0" class="0x038000" link_speed="16 GT/s" link_width="16">
<gpu dev="{n}" sm="104" gcn="{chip}" arch="38911" rank="{n}" gdr="1">{links}</gpu></pci>"#
        )
    };
    let system = |gpus: &[String]| {
        format!(
            r#"<system version="2"><cpu numaid="0" arch="x86_64">{}
<nic><net name="bond0" dev="0" speed="100000" port="0" guid="0x0"/></nic></cpu></system>"#,
            gpus.concat()
        )
    };
    let pair = |chip: &str| system(&[gpu(1, chip, &[(2, 4)]), gpu(2, chip, &[(1, 4)])]);
    for (chip, each) in [
        ("906", 46.0),
        ("910", 50.0),
        ("gfx90a", 50.0),
        ("gfx942", 64.0),
        ("gfx950", 76.8),
    ] {
        let m = parse(&pair(chip)).unwrap();
        let rate = narrowest(&m, "gpu1", "gpu2");
        assert!((rate - 4.0 * each).abs() < 1e-9, "{chip}: {rate}");
        let notes = m.notes.join("\n");
        assert!(notes.contains("1 XGMI joints"), "{notes}");
        assert!(!notes.contains("known gcn"), "{notes}");
    }
    let m = parse(&pair("gfx1")).unwrap();
    assert_eq!(narrowest(&m, "gpu1", "gpu2"), 184.0);
    let notes = m.notes.join("\n");
    assert!(notes.contains("2 GPUs without a known gcn"), "{notes}");
    assert!(notes.contains("1 CPU, 1 adapter, 2 GPUs"), "{notes}");
    // The network's speed, behind the CPU; a GUID of 0 names nothing.
    assert_eq!(narrowest(&m, "gpu1", "bond0"), 12.5);
    assert!(m.fabric.find_node("0x0").is_err());
    let error = parse(&pair("906").replace("count=\"4\"", "count=\"0\"")).unwrap_err();
    assert!(error.contains("a target and a count from 1"), "{error}");
}

/// The matrix of `nvidia-smi topo -m`: words of distance become a tree of switches and CPUs.
#[test]
fn words_of_distance_become_a_tree() {
    let of = |name: &str| {
        let seed = seeds("gpu_topology").into_iter().find(|(n, _)| n == name);
        String::from_utf8(seed.unwrap().1).unwrap()
    };
    let text = of("switch.txt");
    let m = parse(&text).unwrap();
    let notes = m.notes.join("\n");
    let all = "2 CPUs, 3 PCI switches, 1 host bridge, 4 GPUs, 4 adapters";
    for words in [all, "4 NVLink joints, which end at switches"] {
        let has = |word: &str| notes.contains(word);
        assert!(words.split(", ").all(has), "{words}: {notes}");
    }
    // Below one PCI switch, one CPU, and between CPUs.
    let far = ["GPU2", "mlx5_3", "NIC0"].map(|to| hops(&m, "mlx5_2", to));
    assert!(far[0] < far[1] && far[1] < far[2], "{far:?}");
    assert!(hops(&m, "gpu0", "NIC0") < hops(&m, "gpu0", "NIC1"));
    assert_eq!(narrowest(&m, "gpu0", "gpu3"), 450.0);
    assert_eq!(narrowest(&m, "mlx5_0", "cores 1"), 41.6);
    // The copy of a narrow terminal, without the codes of underlines.
    let plain = text.replace("\x1b[4m", "").replace("\x1b[0m", "");
    let narrow = plain
        .replacen("\tCPU Affinity", "\tCPU\nAffinity", 1)
        .replace("NV18\tPXB", "NV18\nPXB");
    let other = parse(&narrow).unwrap();
    assert_eq!(node_names(&m.fabric), node_names(&other.fabric));

    let pair = of("pair.txt");
    let m = parse(&pair).unwrap();
    assert_eq!(narrowest(&m, "gpu0", "gpu1"), 100.0);
    assert!(hops(&m, "gpu0", "mlx5_0") < hops(&m, "gpu1", "mlx5_0"));
    assert!(m.fabric.find_router("cpu 16-31").is_ok());
    for (good, bad, expected) in [
        ("SOC     16", "FAR     16", ":4: found FAR, expected X, PIX"),
        (
            "NV4     PIX",
            "NV5     PIX",
            ":4: found the distance of GPU0 and GPU1",
        ),
        (
            "mlx5_0  PIX     SOC      X",
            "",
            ":4: found another word or the end, expected the row of mlx5_0",
        ),
    ] {
        let error = parse(&pair.replace(good, bad)).unwrap_err();
        assert!(error.contains(expected), "{expected}: {error}");
    }
    // The same NUMA node and a distance between NUMA nodes contradict each other.
    let m = parse(&pair.replace("16-31", "0-15")).unwrap();
    let notes = m.notes.join("\n");
    assert!(notes.contains("1 pair is nearer by other rows"), "{notes}");
    assert!(notes.contains("GPU1 and mlx5_0"), "{notes}");
    // An adapter within the NUMA node of two GPUs that are in different ones.
    let matrix = "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV18\tNODE\t0-7\t0\n\
                  GPU1\tNV18\t X \tNODE\t8-15\t1\nNIC0\tNODE\tNODE\t X \n";
    let notes = |text: &str| parse(text).unwrap().notes.join("\n");
    let said = notes(matrix);
    assert!(said.contains("1 GPU has another affinity"), "{said}");
    let alike = notes(&matrix.replace("8-15\t1", "0-7\t0"));
    assert!(!alike.contains("another affinity"), "{alike}");
}
