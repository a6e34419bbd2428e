//! Descriptions of nodes: switches, domains and kinds of hosts by independent counts.

#![allow(clippy::unwrap_used)]

use hopbyte_observe::fabric::{MachineFiles, read_machine};
use hopbyte_observe::{Machine, ObserveError};
use std::path::PathBuf;

fn seed(path: &str) -> PathBuf {
    hopbyte_testdata::workspace().join("fuzz/seeds").join(path)
}

fn read(path: &str, hosts: &[&str]) -> Result<Machine, ObserveError> {
    let mut files = MachineFiles::new(seed(path).display().to_string());
    files.hosts = hosts.iter().map(|&h| h.to_owned()).collect();
    read_machine(&files)
}

fn gb_of(machine: &Machine, name: &str) -> f64 {
    let node = machine.fabric.find_node(name).unwrap();
    let link = machine.fabric.node(node).inject;
    machine.fabric.link(link).nominal.gb()
}

fn has_note(machine: &Machine, words: &str) -> bool {
    machine.notes.iter().any(|n| n.contains(words))
}

#[test]
fn nodes_of_kubernetes_have_their_gpus_and_domains() {
    let machine = read("kubernetes/mixed.json", &[]).unwrap();
    let inside = machine.fabric.inside().unwrap();
    let summary = inside.summary();
    // Four hosts of eight, and two of four in one domain; the control plane is left out.
    assert_eq!((summary.hosts, summary.units, summary.places), (6, 5, 40));
    let (a, b) = ("rack-0 gpu0", "rack-1 gpu3");
    let place = |name: &str| machine.fabric.find_node(name).unwrap();
    assert!(inside.is_joined(place(a), place(b)));
    assert!(!inside.is_joined(place("gpu-0 gpu0"), place("gpu-1 gpu0")));
    assert_eq!(machine.fabric.network_nodes(), 6);
    for word in [
        "no GPU",
        "cordoned",
        "400 GB/s each way for 4 nodes",
        "200 GB/s each way for 2",
    ] {
        assert!(has_note(&machine, word), "{word}: {:?}", machine.notes);
    }
    // Leaves, spine and zone.
    assert_eq!(machine.fabric.network_routers(), 5);
}

/// `kubectl get -o yaml` prints a list; files of objects have them one after the other.
#[test]
fn nodes_of_several_documents_are_one_cluster() {
    let node = |name: &str, rack: &str| {
        let labels = format!("  labels:\n    topology.kubernetes.io/rack: {rack}\n");
        format!("---\napiVersion: v1\nkind: Node\nmetadata:\n  name: {name}\n{labels}")
    };
    let other = "---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: default\n";
    let text = [&node("a", "r1"), other, &node("b", "r1"), &node("c", "r2")].concat();
    let machine = crate::common::parse(&text).unwrap();
    assert_eq!(machine.fabric.nodes().len(), 3);
}

#[test]
fn a_level_of_single_nodes_is_told() {
    let node = |name: &str, rack: &str| {
        let label =
            |word: &str, value: &str| format!("    cloud.provider.com/topology-{word}: {value}\n");
        let labels = format!("{}{}", label("block", "b1"), label("rack", rack));
        format!("---\napiVersion: v1\nkind: Node\nmetadata:\n  name: {name}\n  labels:\n{labels}")
    };
    let of = |racks: [&str; 2]| {
        let text = [node("a", racks[0]), node("b", racks[1])].concat();
        crate::common::parse(&text).unwrap()
    };
    let single = of(["r1", "r2"]);
    assert!(has_note(&single, "2 values are each the lowest label"));
    assert!(has_note(&single, "r1, r2"), "{:?}", single.notes);
    assert!(!has_note(&of(["r1", "r1"]), "lowest label"));
}

#[test]
fn hyper_nodes_are_switches() {
    let machine = read("kubernetes/hyper.yaml", &[]).unwrap();
    assert!(machine.fabric.find_router("s0").is_ok());
    // The second node has no product: PCIe alone.
    let kinds = machine.fabric.inside().unwrap().summary().kinds;
    assert_eq!(
        kinds.into_iter().collect::<Vec<_>>(),
        ["mi300x", "pcie-gpus"]
    );
    assert!(has_note(&machine, "unknown product"));
}

#[test]
fn domains_of_a_model_are_units() {
    let plain = read("topograph_model/domains.yaml", &[]).unwrap();
    assert!(plain.fabric.inside().is_none());
    assert!(has_note(&plain, "--hosts gb200-nvl72"));
    assert_eq!(gb_of(&plain, "a1"), 12.5);
    let machine = read("topograph_model/domains.yaml", &["gb200-nvl72"]).unwrap();
    assert!(!has_note(&machine, "--hosts gb200-nvl72"));
    let summary = machine.fabric.inside().unwrap().summary();
    assert_eq!((summary.hosts, summary.units, summary.places), (5, 2, 20));
    let old = read("topograph_model/lists.yaml", &[]).unwrap();
    let summary = old.fabric.inside().unwrap().summary();
    // DGX H100 hosts have no links between hosts, also if the file names a domain.
    assert_eq!((summary.hosts, summary.units), (4, 3));
    assert!(has_note(&old, "below no switch"));
    let mixed = read("topograph_model/lists.yaml", &["mi300x@n1-1"]).unwrap();
    let kinds = mixed.fabric.inside().unwrap().summary().kinds;
    assert_eq!(kinds.len(), 3);
}

/// A kind without hosts, and a second kind for the hosts that a first one takes.
#[test]
fn options_that_describe_no_host_are_refused() {
    let of = |hosts: &[&str]| {
        let mut files = MachineFiles::new("fattree:k=4,levels=2");
        files.hosts = hosts.iter().map(|&h| h.to_owned()).collect();
        read_machine(&files).map_err(|e| e.to_string())
    };
    assert!(of(&["mi300x"]).is_ok());
    for (hosts, expected) in [
        (
            &["mi300x@"][..],
            "--hosts mi300x@: found no name, expected names of hosts behind @",
        ),
        (
            &["mi300x", "dgx-h100"],
            "--hosts dgx-h100: found no host that is left for it",
        ),
    ] {
        let error = of(hosts).unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn instances_have_their_switches() {
    let machine = read("topograph_graph/two-leaves.json", &[]).unwrap();
    assert_eq!(machine.fabric.network_routers(), 3);
    assert_eq!(machine.fabric.inside().unwrap().summary().places, 32);
    let gb = machine
        .fabric
        .links()
        .iter()
        .map(|l| l.nominal.gb())
        .fold(0.0, f64::max);
    assert!(gb >= 800.0, "the uplink of two hosts of 400 GB/s, not {gb}");
}

/// A host of the file: below each of two CPUs a GPU behind switches of its own, one beside an adapter, and an adapter alone.
/// The first adapter of a CPU is as near to both GPUs, and over NVLink to all.
fn topology(link: &str) -> String {
    let pci = |bus: &str, class: &str, content: &str| {
        format!(
            "<pci busid=\"0000:{bus}:00.0\" class=\"{class}\" link_speed=\"16.0 GT/s PCIe\" link_width=\"16\">{content}</pci>"
        )
    };
    let switch = |bus: &str, content: &str| pci(bus, "0x060400", content);
    let gpu = |bus: &str, dev: u32| {
        let target = "<LINK target=\"0000:c7:00.0\" count=\"12\" tclass=\"0x068000\"/>";
        let target = target.replace("LINK", link);
        pci(
            bus,
            "0x030200",
            &format!("<gpu dev=\"{dev}\" sm=\"80\">{target}</gpu>"),
        )
    };
    let nic = |bus: &str, dev: u32| {
        let net = format!("<nic><net name=\"mlx5_{dev}\" dev=\"{dev}\" speed=\"200000\"/></nic>");
        pci(bus, "0x020700", &net)
    };
    let cpu = |c: u32, gpus: [u32; 2]| {
        let deep = switch(
            &format!("{c}1"),
            &switch(&format!("{c}2"), &gpu(&format!("{c}3"), gpus[0])),
        );
        let beside = nic(&format!("{c}5"), 2 * c)
            + &switch(&format!("{c}6"), &gpu(&format!("{c}7"), gpus[1]));
        let beside = switch(&format!("{c}4"), &beside);
        let alone = switch(&format!("{c}8"), &nic(&format!("{c}9"), 2 * c + 1));
        let top = switch(&format!("{c}0"), &(deep + &beside + &alone));
        format!("<cpu numaid=\"{c}\">{top}</cpu>")
    };
    format!(
        "<system version=\"1\">\n{}{}</system>\n",
        cpu(0, [3, 2]),
        cpu(1, [0, 1])
    )
}

#[test]
fn gpus_of_a_file_have_their_numbers_and_the_adapters_next_to_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("topology.xml");
    std::fs::write(&file, topology("nvlink")).unwrap();
    let with = |hosts: &str| {
        let mut files = MachineFiles::new("fattree:down=8x4,up=1x8,rails=4,link=50");
        files.hosts = vec![format!("{}{hosts}", file.display())];
        read_machine(&files)
    };
    let machine = with("@h[0-7]").unwrap();
    let fabric = &machine.fabric;
    let inside = fabric.inside().unwrap();
    let places = fabric.places_of_host("h1");
    let ports: Vec<(Option<u32>, &str, &str)> = places
        .iter()
        .map(|&p| {
            let port = fabric.node(inside.port_of(p));
            (
                inside.number_on_host(p),
                &fabric.node(p).name[..],
                &port.name[..],
            )
        })
        .collect();
    let expected = [
        (Some(0), "h1 gpu0", "h1-r3"),
        (Some(1), "h1 gpu1", "h1-r2"),
        (Some(2), "h1 gpu2", "h1-r0"),
        (Some(3), "h1 gpu3", "h1-r1"),
    ];
    assert_eq!(ports, expected);
    assert_eq!(inside.rule().name(), "rail");
    // The way out leads over PCIe.
    let mut links = Vec::new();
    let place = |name: &str| fabric.find_node(name).unwrap();
    let ends = (place("h0 gpu3"), place("h1 gpu3"));
    machine
        .routing
        .route(fabric, ends.0, ends.1, &mut links)
        .unwrap();
    let names: Vec<String> = links.iter().map(|&l| fabric.link_name(l)).collect();
    assert!(names.iter().all(|n| !n.contains("NVLink")), "{names:?}");
    // A rule after the file; hosts that the file does not fit.
    let machine = with("/nearest@h[0-7]").unwrap();
    assert_eq!(machine.fabric.inside().unwrap().rule().name(), "nearest");
    let error = with("/near@h0").unwrap_err().to_string();
    assert!(error.contains("one of nearest, rail, striped"), "{error}");
    let error = with("").unwrap_err().to_string();
    assert!(
        error.contains("mlx5_0") && error.contains("h0-r0"),
        "{error}"
    );
    // xGMI joins GPUs as NVLink does.
    std::fs::write(&file, topology("xgmi")).unwrap();
    let machine = with("@h[0-7]").unwrap();
    assert_eq!(machine.fabric.inside().unwrap().rule().name(), "rail");
}

/// Adapters of hosts without OpenFabrics names: Slingshot, then Ethernet; drivers' names without an underscore.
#[test]
fn adapters_of_hwloc_have_the_names_of_their_drivers() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lstopo.xml");
    let device = |bus: u32, class: &str, names: &[(&str, u32)]| {
        let os = |(name, kind): &(&str, u32)| {
            format!("<object type=\"OSDev\" name=\"{name}\" osdev_type=\"{kind}\"/>")
        };
        let os: String = names.iter().map(os).collect();
        format!(
            "<object type=\"PCIDev\" pci_busid=\"0000:0{bus}:00.0\" pci_type=\"{class} [0:0]\" pci_link_speed=\"31.5\">{os}</object>"
        )
    };
    let with = |adapters: &[&[(&str, u32)]], gpu: &[(&str, u32)]| {
        let nics = (1..).zip(adapters).map(|(n, a)| device(n, "0200", a));
        let devices: String = nics.chain([device(9, "0380", gpu)]).collect();
        let text = format!(
            "<topology version=\"2.0\">\n<object type=\"Machine\"><object type=\"Package\" os_index=\"0\">\
             <object type=\"Bridge\">{devices}</object></object></object>\n</topology>\n"
        );
        std::fs::write(&file, text).unwrap();
        let mut files = MachineFiles::new("fattree:down=8x4,up=1x8,link=25");
        files.hosts = vec![format!("{}@h[0-7]", file.display())];
        read_machine(&files).map_err(|e| e.to_string())
    };
    let gpu = &[("rsmi0", 1)][..];
    // A host has one endpoint, so the file has one adapter: the others do not count.
    let cases: [&[&[(&str, u32)]]; 3] = [
        &[&[("enp1s0", 2)], &[("hsi0", 2)]],
        &[&[("eth0", 2)]],
        &[&[("enp1s0", 2), ("i40iw0", 3)], &[("enp2s0", 2)]],
    ];
    for adapters in cases {
        let m = with(adapters, gpu).unwrap();
        assert_eq!(m.fabric.places_of_host("h1").len(), 1);
        assert!(!has_note(&m, "logical"));
    }
    let divided = [("rsmi0", 1), ("rsmi1", 1), ("rsmi2", 1)];
    let m = with(&[&[("hsi0", 2)]], &divided).unwrap();
    assert!(has_note(&m, "3 logical GPUs are parts"));
    assert!(with(&[], gpu).unwrap_err().contains("no adapter"));
}

#[test]
fn a_machine_has_one_choice_of_ports() {
    let with = |hosts: [&str; 2]| {
        let mut files = MachineFiles::new("fattree:down=8x8,up=1x8,rails=8,link=50");
        files.hosts = hosts.map(str::to_owned).to_vec();
        read_machine(&files)
    };
    let error = with(["dgx-h100/nearest@h[0-3]", "dgx-a100/rail@h[4-7]"]).unwrap_err();
    assert!(error.to_string().contains("one choice of ports"), "{error}");
    let machine = with(["dgx-h100@h[0-3]", "dgx-a100/nearest@h[4-7]"]).unwrap();
    assert_eq!(machine.fabric.inside().unwrap().rule().name(), "nearest");
    assert!(has_note(&machine, "chosen by one rule, nearest"));
}

/// A node of an NVLink domain with a GPU less stays in it.
#[test]
fn a_node_with_fewer_gpus_is_in_its_domain() {
    let text = std::fs::read_to_string(seed("kubernetes/mixed.json")).unwrap();
    let at = text.find("\"name\": \"rack-1\"").unwrap();
    let (before, after) = text.split_at(at);
    let less = after.replacen("\"nvidia.com/gpu\": \"4\"", "\"nvidia.com/gpu\": \"3\"", 2);
    assert_ne!(less, after);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nodes.json");
    std::fs::write(&file, before.to_owned() + &less).unwrap();
    let machine = read_machine(&MachineFiles::new(file.display().to_string())).unwrap();
    let inside = machine.fabric.inside().unwrap();
    let summary = inside.summary();
    assert_eq!((summary.hosts, summary.units, summary.places), (6, 5, 39));
    let place = |name: &str| machine.fabric.find_node(name).unwrap();
    assert!(inside.is_joined(place("rack-0 gpu3"), place("rack-1 gpu2")));
    assert!(machine.fabric.find_node("rack-1 gpu3").is_err());
}
