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
