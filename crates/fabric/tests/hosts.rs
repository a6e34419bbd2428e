//! Hosts with links inside: routes, ports, names, and machines that come back from their own format.

#![allow(clippy::unwrap_used)]

use hopbyte_fabric::compact::{from_bytes, to_bytes};
use hopbyte_fabric::document::Document;
use hopbyte_fabric::faults::Fault;
use hopbyte_fabric::hosts::{HOST_KINDS, HostShape, HostSpec, PortRule, describe};
use hopbyte_fabric::{End, Fabric, NodeId, Reach, Routing, spec};

fn machine(text: &str) -> (Fabric, Routing) {
    let described = spec::machine(text).unwrap();
    (described.fabric, described.routing)
}

/// Names of the links from one node to another.
fn way((fabric, routing): &(Fabric, Routing), from: &str, to: &str) -> Vec<String> {
    let node = |name: &str| fabric.find_node(name).unwrap();
    let mut links = Vec::new();
    routing
        .route(fabric, node(from), node(to), &mut links)
        .unwrap();
    links.iter().map(|&l| fabric.link_name(l)).collect()
}

const RAILS: &str = "fattree:down=2x4,up=1x2,rails=2,link=50";

#[test]
fn bytes_stay_inside_a_host() {
    let rails = machine("gpu-rails");
    assert_eq!(
        way(&rails, "h3-r0", "h3-r7"),
        ["h3-r0->h3 nvswitch NVLink", "h3 nvswitch->h3-r7 NVLink"]
    );
    let mesh = machine("fattree:down=8x4,up=1x8,hosts=mi300x");
    assert_eq!(way(&mesh, "h1-r0", "h1-r5"), ["h1-r0->h1-r5 xGMI"]);
    // Chips of one host are joined by the torus alone.
    let chips = machine("torus:4x4x4:hosts=tpu-v4");
    assert_eq!(chips.0.inside().unwrap().units().len(), 16);
    assert!(
        way(&chips, "h0-r0", "h0-r1")
            .iter()
            .all(|l| !l.contains("nvswitch"))
    );
}

/// NCCL's PXN: from GPU 0 to another host's GPU 1, first over NVLink to the own host's GPU 1.
#[test]
fn ports_follow_the_rule() {
    // Two GPUs a host stand for eight.
    let with = |rule: PortRule| {
        let (fabric, routing) = machine(RAILS);
        let groups: Vec<_> = fabric
            .places_by_host()
            .into_iter()
            .map(|(name, nodes)| (name.to_owned(), nodes))
            .collect();
        let mut kind = HostSpec::parse("plain").unwrap();
        kind.rule = rule;
        let record = describe(kind, &groups, kind.kind.hosts, &|_, _| None).unwrap();
        (fabric.with_hosts(record).unwrap(), routing.within(rule))
    };
    let leaves = |m: &(Fabric, Routing)| {
        let links = way(m, "h0-r0", "h1-r1");
        links.iter().filter(|l| l.contains("h0 memory")).count()
    };
    assert_eq!(
        (
            leaves(&with(PortRule::Nearest)),
            leaves(&with(PortRule::Rail))
        ),
        (0, 2)
    );
    let rail = way(&with(PortRule::Rail), "h0-r0", "h1-r1");
    assert_eq!(rail.len(), 4, "{rail:?}");
    assert_eq!(rail[2], "h0-r1->leaf1 host");
    // Striped: half of the bytes over each port, in at the ports of the same number.
    let (fabric, routing) = with(PortRule::Striped);
    let mut shares = Vec::new();
    let node = |name: &str| fabric.find_node(name).unwrap();
    routing
        .shares(&fabric, node("h0-r0"), node("h1-r1"), &mut shares)
        .unwrap();
    for name in ["h0-r0", "h0-r1", "h1-r0", "h1-r1"] {
        let node = fabric.node(node(name));
        let own = [node.inject, node.eject];
        let share = shares.iter().find(|s| own.contains(&s.0)).unwrap().1;
        assert_eq!(share, 0.5, "{name}");
    }
    assert!(!routing.is_single_path());
}

#[test]
fn all_pairs_have_chained_routes_and_shares_sum_to_one() {
    for text in [
        "fattree:down=4x8,up=1x4,rails=8,hosts=dgx-h100/nearest",
        "fattree:down=4x8,up=1x4,rails=8,hosts=dgx-a100/striped",
        "fattree:down=6x4,up=1x3,rails=4,hosts=gb200-nvl72",
        "fattree:down=8x4,up=1x8,hosts=mi300x/striped",
        "dragonfly:5x4:hosts=gh200-quad",
        "torus:4x4x2:hosts=tpu-v4",
        "fattree:down=4x4,up=1x2,hosts=gh200",
    ] {
        let (fabric, routing) = machine(text);
        assert_eq!(Reach::of(&fabric, &routing).unroutable_pairs(), 0, "{text}");
        let places = fabric.places();
        assert!(places.len() >= 16, "{text}");
        for &from in &places {
            for &to in &places {
                chained(&fabric, &routing, from, to);
                let mut shares = Vec::new();
                routing.shares(&fabric, from, to, &mut shares).unwrap();
                let into = shares
                    .iter()
                    .filter(|s| fabric.link(s.0).to == End::Node(to));
                let sum: f64 = into.map(|s| s.1).sum();
                assert!(from == to || (sum - 1.0).abs() < 1e-5, "{text}: {sum}");
            }
        }
    }
}

/// Each link of a route begins at the end of the one before.
fn chained(fabric: &Fabric, routing: &Routing, from: NodeId, to: NodeId) {
    let mut links = Vec::new();
    routing.route(fabric, from, to, &mut links).unwrap();
    let mut at = End::Node(from);
    for &link in &links {
        assert_eq!(fabric.link(link).from, at);
        at = fabric.link(link).to;
    }
    assert_eq!(at, End::Node(to));
}

/// Eight GPUs behind four adapters have nodes of their own, and two share an adapter.
#[test]
fn gpus_share_adapters() {
    let fabric = spec::fabric(RAILS).unwrap();
    let routing = spec::machine(RAILS).unwrap().routing;
    let groups: Vec<_> = fabric
        .places_by_host()
        .into_iter()
        .map(|(name, nodes)| (name.to_owned(), nodes))
        .collect();
    let spec = HostSpec::parse("dgx-h100").unwrap();
    let record = describe(spec, &groups, spec.kind.hosts, &|_, _| None).unwrap();
    let described = fabric.clone().with_hosts(record).unwrap();
    let routing = routing.within(spec.rule);
    let places = described.places_of_host("h1");
    assert_eq!(places.len(), 8);
    assert_eq!(described.node(places[3]).name, "h1 gpu3");
    let inside = described.inside().unwrap();
    assert_eq!(inside.number_on_host(places[3]), Some(3));
    let port = described.find_node("h1-r1").unwrap();
    assert!(!inside.is_place(port));
    assert_eq!(described.places_at(port), places[4..]);
    let whole = (described, routing);
    let inner = ["h0 gpu0->h0 pcie0 PCIe", "h0 pcie0->h0-r0 PCIe"];
    assert_eq!(way(&whole, "h0 gpu0", "h1 gpu1")[..2], inner);
    // The other rail: over NVLink to the GPU beside that adapter.
    let far = way(&whole, "h0 gpu0", "h1 gpu7");
    assert_eq!(
        far[1..3],
        ["h0 nvswitch->h0 gpu4 NVLink", "h0 gpu4->h0 pcie1 PCIe"]
    );
    for &from in &whole.0.places() {
        for &to in &whole.0.places() {
            chained(&whole.0, &whole.1, from, to);
        }
    }
    // The network alone is the fabric from before.
    let network = whole.0.network().into_owned();
    assert_eq!(network, fabric);
}

#[test]
fn hosts_come_back_from_both_forms() {
    for text in [
        "gpu-rails",
        "fattree:down=6x4,up=1x3,rails=4,hosts=gb200-nvl72/nearest",
        "torus:4x4x2:hosts=tpu-v4",
        "fattree:down=4x4,up=1x2,hosts=gh200",
    ] {
        let (fabric, routing) = machine(text);
        let nvlink = fabric.link_ids().find(|&l| fabric.is_inner(l));
        let faults: Vec<Fault> = nvlink.map(Fault::Cable).into_iter().collect();
        let fabric = fabric.with_faults(&faults);
        let (a, ra) = Document::of(&fabric, &routing).build().unwrap();
        assert_eq!(a, fabric, "{text}");
        let (b, rb) = from_bytes(&to_bytes(&fabric, &routing)).unwrap();
        assert_eq!(b, fabric, "{text}");
        assert_eq!(ra.describe(), routing.describe());
        assert_eq!(rb.describe(), routing.describe());
    }
}

#[test]
fn presets_have_the_published_rates() {
    let rate = |text: &str, kind: &str| {
        let fabric = spec::fabric(text).unwrap();
        let summary = fabric.kind_summary();
        summary[kind].1.0 / 1e9
    };
    assert_eq!(rate("gpu-rails", "NVLink"), 450.0);
    assert_eq!(rate("fattree:k=16,hosts=dgx-a100", "NVLink"), 300.0);
    assert_eq!(
        rate(
            "fattree:down=72x32,up=1x72,rails=4,link=50,hosts=gb200-nvl72",
            "NVLink"
        ),
        900.0
    );
    assert_eq!(rate("fattree:k=16,hosts=gh200", "C2C"), 450.0);
    for kind in HOST_KINDS {
        assert!(!kind.source.is_empty());
        // Every number of adapters up to twice the GPUs is a valid structure.
        for ports in 1..=2 * kind.gpus.max(1) {
            let text = format!("fattree:down=4x{ports},up=1x2,rails={ports}");
            let fabric = spec::fabric(&text).unwrap();
            let mut groups: Vec<(String, Vec<NodeId>)> = Vec::new();
            for (name, nodes) in fabric.places_by_host() {
                groups.push((name.to_owned(), nodes));
            }
            let spec = HostSpec::parse(kind.name).unwrap();
            let record = describe(spec, &groups, spec.kind.hosts, &|_, _| None).unwrap();
            let fabric = fabric.with_hosts(record).map_err(|e| e.to_string());
            assert!(fabric.is_ok(), "{} {ports}: {fabric:?}", kind.name);
        }
    }
}

#[test]
fn wrong_hosts_are_refused() {
    for (text, found) in [
        (
            "fattree:k=16,hosts=dgx-h900",
            "found dgx-h900, expected a kind of hosts",
        ),
        (
            "fattree:k=16,hosts=dgx-h100/far",
            "found far, expected a choice of ports",
        ),
        (
            "torus:3x3:hosts=dgx-h100",
            "found 9 endpoints, expected whole hosts of 8",
        ),
        (
            "fattree:down=4x4,up=1x2,rails=2,hosts=dgx-h100",
            "found 2 endpoints a host, expected 8",
        ),
    ] {
        let error = spec::fabric(text).unwrap_err().to_string();
        assert!(error.contains(found), "{text}: {error}");
    }
    let (fabric, routing) = machine("gpu-rails");
    let document = || Document::of(&fabric, &routing);
    let twice = |change: &dyn Fn(&mut Document)| {
        let mut d = document();
        change(&mut d);
        d.build().unwrap_err().to_string()
    };
    let hosts = |d: &mut Document, change: &dyn Fn(&mut hopbyte_fabric::hosts::HostsRecord)| {
        change(d.hosts.as_mut().unwrap());
    };
    let used = twice(&|d| hosts(d, &|h| h.units[1].ports[0] = h.units[0].ports[0]));
    assert!(used.contains("each once"), "{used}");
    let kind = twice(&|d| hosts(d, &|h| h.units[1].kind = 9));
    assert!(kind.contains("a kind of the list"), "{kind}");
    let rate = twice(&|d| hosts(d, &|h| h.kinds[0].links[0].capacity_bytes_per_s = -1.0));
    assert!(rate.contains("a rate"), "{rate}");
    let name = twice(&|d| hosts(d, &|h| h.units[1].hosts[0] = "h0".into()));
    assert!(name.contains("h0"), "{name}");
}

#[test]
fn a_domain_of_too_many_hosts_is_refused() {
    let spec = HostSpec::parse("gb200-nvl72").unwrap();
    for (hosts, ports) in [(16_384, 4), (600, 4), (1, 70_000), (16_384, 1)] {
        let shapes = vec![HostShape::whole(&spec.kind, ports); hosts];
        let error = spec.kind.structure(&shapes).unwrap_err().to_string();
        assert!(error.contains("at most 2048"), "{error}");
    }
    let shapes = vec![HostShape::whole(&spec.kind, 4); 512];
    assert_eq!(spec.kind.structure(&shapes).unwrap().ports.len(), 2048);
}
