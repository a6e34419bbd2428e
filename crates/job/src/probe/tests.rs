//! Emulated measurements with a single fault.

#![allow(clippy::unwrap_used)]

use super::component::*;
use super::explain::*;
use hopbyte_fabric::random::Random;
use hopbyte_fabric::{End, Fabric, LinkId, NodeId, RouterId};
use hopbyte_fabric::{Routing, spec};
use std::collections::{BTreeMap, HashMap};

/// Emulated topobw results: neighbours, nodes of a router together; 5 % of noise.
fn measure(
    fabric: &Fabric,
    routing: &Routing,
    slow: &dyn Fn(LinkId) -> f64,
    random: &mut Random,
) -> Vec<Path> {
    measure_within(0.05, fabric, routing, slow, random)
}

fn measure_within(
    noise: f64,
    fabric: &Fabric,
    routing: &Routing,
    slow: &dyn Fn(LinkId) -> f64,
    random: &mut Random,
) -> Vec<Path> {
    let mut paths: Vec<Path> = Vec::new();
    let mut phases: HashMap<Vec<LinkId>, u32> = HashMap::new();
    for from in fabric.node_ids() {
        for to in fabric.node_ids().filter(|&to| to != from) {
            let mut route = Vec::new();
            routing.route(fabric, from, to, &mut route).unwrap();
            if route.len() > 3 {
                continue;
            }
            let alone = route.len() == 2;
            let share = if alone {
                1.0
            } else {
                fabric.nodes_on(fabric.node(from).router).len() as f64
            };
            let narrowest = route
                .iter()
                .map(|&l| slow(l) / if fabric.is_hop(l) { share } else { 1.0 })
                .fold(f64::MAX, f64::min);
            // The nodes of a router send together over a cable; transfers on a router are alone.
            let next = paths.len() as u32;
            let nodes = fabric.nodes_on(fabric.node(from).router);
            let slot = |n: NodeId| nodes.iter().position(|&o| o == n).unwrap_or(0);
            let there = fabric.nodes_on(fabric.node(to).router);
            let shift = there.iter().position(|&o| o == to).unwrap_or(0) + nodes.len() - slot(from);
            let mut key = route[1..route.len() - 1].to_vec();
            key.push(LinkId::of(shift % nodes.len()));
            let phase = if alone {
                next
            } else {
                *phases.entry(key).or_insert(next)
            };
            let kind = if alone { "same router" } else { "cable" };
            paths.push(Path {
                from,
                to,
                class: (kind.into(), "shared".into()),
                phase: Some(phase),
                route,
                rate: 6e6 * narrowest * (0.97 + noise * random.unit()),
            });
        }
    }
    paths
}

/// Links that a faulty component slows.
fn slowed(fabric: &Fabric, component: Component) -> Vec<LinkId> {
    let at = |end: End| match component {
        Component::Host(n) => end == End::Node(n),
        Component::Router(r) => end == End::Router(r),
        _ => false,
    };
    let hit = |&l: &LinkId| match component {
        Component::Link(one) | Component::HostLink(one) => l == one,
        Component::Cable(one) => l == one || Some(l) == fabric.reverse(one),
        _ => at(fabric.link(l).from) || at(fabric.link(l).to),
    };
    fabric.link_ids().filter(hit).collect()
}

#[test]
fn exactly_the_broken_component_is_found() {
    let mut random = Random::new(7);
    let (mut tried, mut kinds) = (0, BTreeMap::new());
    for machine in [
        "torus:4x3:nodes=2",
        "torus:3x3x3:nodes=2",
        "mesh:3x4:nodes=2",
    ] {
        let m = spec::machine(machine).unwrap();
        let (f, r) = (&m.fabric, &m.routing);
        let healthy = measure(f, r, &|_| 1.0, &mut random);
        let none = explain(f, &healthy, 0.15, &BTreeMap::new());
        assert!(
            none.findings.is_empty() && none.unexplained.is_empty(),
            "{machine}"
        );
        let all: Vec<Component> = components(f, &healthy).into_keys().collect();
        for round in 0..60 {
            let broken = all[random.below(all.len())];
            let factor = [0.2, 1.0 / 3.0, 0.5][round % 3];
            let hit = slowed(f, broken);
            let paths = measure(
                f,
                r,
                &|l| if hit.contains(&l) { factor } else { 1.0 },
                &mut random,
            );
            let found = explain(f, &paths, 0.15, &BTreeMap::new());
            // A host link at half the rate of a link that two nodes share is no bottleneck there;
            // only paths to or from the partner show the fault.
            let named: Vec<Component> =
                found.findings.iter().map(|x| x.suspect.component).collect();
            if factor >= 0.5 && matches!(broken, Component::HostLink(_) | Component::Host(_)) {
                let or = |f: &Finding| f.or.iter().any(|s| s.component == broken);
                let right = |f: &Finding| f.suspect.component == broken || or(f);
                assert!(found.findings.iter().all(right), "{:?}", found.findings);
                continue;
            }
            assert_eq!(
                named,
                [broken],
                "{machine} {factor} {:?}",
                found.unexplained
            );
            assert!(found.unexplained.is_empty());
            assert!((found.findings[0].measured / found.findings[0].expected) < 0.8);
            *kinds.entry(broken.kind()).or_insert(0) += 1;
            tried += 1;
        }
    }
    assert!(tried >= 100 && kinds.len() == 5, "{tried} {kinds:?}");
}

#[test]
fn two_faults_are_two_findings() {
    let m = spec::machine("torus:4x4:nodes=2").unwrap();
    let (f, r) = (&m.fabric, &m.routing);
    let mut random = Random::new(3);
    let (a, b) = (Component::Router(RouterId(5)), Component::Host(NodeId(0)));
    let hit = [slowed(f, a), slowed(f, b)].concat();
    let paths = measure(
        f,
        r,
        &|l| if hit.contains(&l) { 0.2 } else { 1.0 },
        &mut random,
    );
    let found = explain(f, &paths, 0.15, &BTreeMap::new());
    let named: Vec<Component> = found.findings.iter().map(|x| x.suspect.component).collect();
    assert_eq!(named, [a, b]);
}

#[test]
fn what_cannot_be_told_apart_is_said() {
    let m = spec::machine("torus:4x4").unwrap();
    let mut random = Random::new(5);
    let hit = slowed(&m.fabric, Component::Router(RouterId(3)));
    let slow = |l: LinkId| if hit.contains(&l) { 0.2 } else { 1.0 };
    let paths = measure(&m.fabric, &m.routing, &slow, &mut random);
    let found = explain(&m.fabric, &paths, 0.15, &BTreeMap::new());
    assert_eq!(found.findings.len(), 1);
    assert_eq!(
        found.findings[0].suspect.component,
        Component::Host(NodeId(3))
    );
    let or: Vec<Component> = found.findings[0].or.iter().map(|s| s.component).collect();
    assert_eq!(or, [Component::Router(RouterId(3))]);
}

/// As measured in the lab: a slow router does not slow all of its links alike, and its links are not accused beside it.
#[test]
fn links_of_a_slow_router_are_not_accused_beside_it() {
    let m = spec::machine("mesh:3x2:nodes=2").unwrap();
    let (f, r) = (&m.fabric, &m.routing);
    let mut random = Random::new(11);
    let router = Component::Router(RouterId(2));
    let hit = slowed(f, router);
    for round in 0..50 {
        let shares: Vec<f64> = hit.iter().map(|_| 0.15 + 0.2 * random.unit()).collect();
        let slow = |l: LinkId| hit.iter().position(|&h| h == l).map_or(1.0, |i| shares[i]);
        let paths = measure(f, r, &slow, &mut random);
        let found = explain(f, &paths, 0.3, &BTreeMap::new());
        let named: Vec<Component> = found.findings.iter().map(|x| x.suspect.component).collect();
        assert!(named.contains(&router), "{round}: {named:?}");
        assert_eq!(named, [router], "{round}: {:?}", found.findings);
    }
}

#[test]
fn a_clean_machine_is_not_accused() {
    let mut random = Random::new(19);
    for machine in ["torus:4x4x3:nodes=2", "dragonfly:5x4:nodes=2"] {
        let m = spec::machine(machine).unwrap();
        for round in 0..40 {
            let noise = [0.02, 0.05][round % 2];
            let paths = measure_within(noise, &m.fabric, &m.routing, &|_| 1.0, &mut random);
            let found = explain(&m.fabric, &paths, TOLERANCE, &BTreeMap::new());
            assert_eq!(found.findings, [], "{machine} {round}");
        }
    }
}

#[test]
fn a_slowdown_within_the_tolerance_is_not_reported() {
    let m = spec::machine("torus:4x4:nodes=2").unwrap();
    let (f, r) = (&m.fabric, &m.routing);
    for component in [
        Component::Router(RouterId(5)),
        Component::Host(NodeId(3)),
        Component::Cable(LinkId::of(0)),
    ] {
        let hit = slowed(f, component);
        let named = |factor: f64, tolerance: f64| -> Vec<Component> {
            let slow = |l: LinkId| if hit.contains(&l) { factor } else { 1.0 };
            let paths = measure_within(0.01, f, r, &slow, &mut Random::new(23));
            let found = explain(f, &paths, tolerance, &BTreeMap::new());
            found.findings.iter().map(|x| x.suspect.component).collect()
        };
        assert_eq!(named(0.97, 0.05), [], "{component:?}");
        assert!(!named(0.97, 0.01).is_empty(), "{component:?}");
        assert!(!named(0.9, 0.05).is_empty(), "{component:?}");
    }
}

#[test]
fn a_router_with_slow_links_in_one_direction_is_named() {
    let m = spec::machine("torus:4x4x3:nodes=2").unwrap();
    let f = &m.fabric;
    let mut random = Random::new(29);
    for router in [RouterId(0), RouterId(21)] {
        for (leaves, expected) in [(true, "leave it"), (false, "end at it")] {
            let slow = |l: LinkId| {
                let link = f.link(l);
                let end = if leaves { link.from } else { link.to };
                if end == End::Router(router) { 0.5 } else { 1.0 }
            };
            let paths = measure_within(0.02, f, &m.routing, &slow, &mut random);
            let found = explain(f, &paths, TOLERANCE, &BTreeMap::new());
            let named: Vec<_> = found.findings.iter().map(|x| x.suspect).collect();
            let [Suspect { component, limit }] = named[..] else {
                panic!("{named:?}")
            };
            assert_eq!(component, Component::Router(router));
            let share = match limit {
                Limit::Outgoing(share) if leaves => share,
                Limit::Incoming(share) if !leaves => share,
                _ => panic!("{expected}: {limit:?}"),
            };
            assert!((share - 0.5).abs() < 0.03, "{share}");
        }
    }
}
