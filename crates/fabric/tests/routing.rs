//! Invariants of routes: connected, of the length given by the metric, and complete.

#![allow(clippy::unwrap_used)]

use hopbyte_fabric::faults::Fault;
use hopbyte_fabric::routing::MinimalPaths;
use hopbyte_fabric::{End, Fabric, LinkId, NodeId, Reach, Routing, spec};
use proptest::prelude::*;

/// Checks that a route is a chain from one node's injection to the other's ejection.
fn assert_chain(fabric: &Fabric, from: NodeId, to: NodeId, route: &[LinkId]) {
    assert_eq!(route[0], fabric.node(from).inject);
    assert_eq!(*route.last().unwrap(), fabric.node(to).eject);
    for pair in route.windows(2) {
        assert_eq!(fabric.link(pair[0]).to, fabric.link(pair[1]).from);
    }
}

/// Shortest distance on a ring.
fn ring(a: u32, b: u32, n: u32, wrap: bool) -> u32 {
    let d = a.abs_diff(b);
    if wrap { d.min(n - d) } else { d }
}

proptest! {
    #[test]
    fn dimension_order_takes_the_shortest_way(
        dims in prop::collection::vec(1u32..6, 1..4), wrap: bool, nodes in 1u32..3, seed: u64
    ) {
        let words: Vec<String> = dims.iter().map(u32::to_string).collect();
        let name = if wrap { "torus" } else { "mesh" };
        let fabric = spec::fabric(&format!("{name}:{}:nodes={nodes}", words.join("x"))).unwrap();
        let routing = Routing::default_for(&fabric);
        let minimal = MinimalPaths::new(&fabric);
        let n = fabric.nodes().len() as u64;
        let (from, to) = (NodeId((seed % n) as u32), NodeId((seed / n % n) as u32));
        let mut route = Vec::new();
        routing.route(&fabric, from, to, &mut route).unwrap();
        if from == to {
            prop_assert!(route.is_empty());
            return Ok(());
        }
        assert_chain(&fabric, from, to, &route);
        let (a, b) = (fabric.node(from).router, fabric.node(to).router);
        let expected: u32 = (0..dims.len())
            .map(|d| ring(fabric.coord(a).unwrap()[d], fabric.coord(b).unwrap()[d], dims[d], wrap))
            .sum();
        prop_assert_eq!(routing.hops(&fabric, from, to).unwrap(), expected as usize);
        prop_assert_eq!(u32::from(minimal.distance(a, b).unwrap()), expected);
        // The same as a lookup of the next link at every router.
        let mut at = a;
        for &link in &route[1..] {
            prop_assert_eq!(routing.next_link(&fabric, at, to), Ok(link));
            if let End::Router(next) = fabric.link(link).to {
                at = next;
            }
        }
        // A dimension is not entered again after it was left.
        let order: Vec<u8> = route.iter().filter_map(|&l| fabric.link(l).direction).map(|d| d.dim).collect();
        prop_assert!(order.is_sorted());
    }

    #[test]
    fn minimal_shares_conserve_traffic(dims in prop::collection::vec(2u32..5, 1..4), seed: u64) {
        let words: Vec<String> = dims.iter().map(u32::to_string).collect();
        let fabric = spec::fabric(&format!("torus:{}", words.join("x"))).unwrap();
        let routing = Routing::Minimal(MinimalPaths::new(&fabric));
        let n = fabric.nodes().len() as u64;
        let (from, to) = (NodeId((seed % n) as u32), NodeId((seed / n % n) as u32));
        let mut shares = Vec::new();
        routing.shares(&fabric, from, to, &mut shares).unwrap();
        if from == to {
            prop_assert!(shares.is_empty());
            return Ok(());
        }
        // Flow conservation at every router.
        for r in fabric.router_ids() {
            let sum = |f: &dyn Fn(End, End) -> bool| -> f64 {
                shares.iter().filter(|(l, _)| f(fabric.link(*l).from, fabric.link(*l).to)).map(|s| s.1).sum()
            };
            let into = sum(&|_, to| to == End::Router(r));
            let out = sum(&|from, _| from == End::Router(r));
            prop_assert!((into - out).abs() < 1e-5);
        }
        let hops: f64 = shares.iter().filter(|(l, _)| fabric.is_hop(*l)).map(|s| s.1).sum();
        prop_assert!((hops - routing.hops(&fabric, from, to).unwrap() as f64).abs() < 1e-4);
    }
}

#[test]
fn distances_are_those_of_a_search_from_every_router() {
    // More routers than are searched together, and cables of one direction or none.
    let whole = spec::fabric("dragonfly:9x12:nodes=1").unwrap();
    let cables: Vec<LinkId> = whole.link_ids().filter(|&l| whole.is_hop(l)).collect();
    let faults: Vec<_> = cables.iter().step_by(3).map(|&l| Fault::Cable(l)).collect();
    for fabric in [
        whole.with_faults(&faults),
        spec::fabric("torus:5x4x7").unwrap(),
    ] {
        let paths = MinimalPaths::new(&fabric);
        for from in fabric.router_ids() {
            let mut hops = vec![None; fabric.routers().len()];
            hops[from.index()] = Some(0u16);
            let mut queue = std::collections::VecDeque::from([from]);
            while let Some(at) = queue.pop_front() {
                for &link in fabric.links_from(at) {
                    let link = fabric.link(link);
                    if let (true, End::Router(to)) = (link.is_up(), link.to)
                        && hops[to.index()].is_none()
                    {
                        hops[to.index()] = hops[at.index()].map(|h| h + 1);
                        queue.push_back(to);
                    }
                }
            }
            let found: Vec<_> = fabric
                .router_ids()
                .map(|to| paths.distance(from, to))
                .collect();
            assert_eq!(found, hops);
        }
        // Pairs are counted by these distances, or by following every route.
        let routing = Routing::Minimal(paths);
        let reach = Reach::of(&fabric, &routing);
        let mut pairs = std::collections::BTreeMap::new();
        for (a, b) in fabric
            .node_ids()
            .flat_map(|a| fabric.node_ids().map(move |b| (a, b)))
        {
            if let (true, Ok(hops)) = (a != b, routing.hops(&fabric, a, b)) {
                *pairs.entry(hops).or_insert(0u64) += 1;
            }
        }
        assert_eq!(reach.hops, pairs);
    }
}

#[test]
fn request_and_response_differ() {
    let fabric = spec::fabric("gemini:4x4x8").unwrap();
    let routing = Routing::default_for(&fabric);
    let at = |c: &[u32]| fabric.nodes_on(fabric.router_at(c).unwrap())[0];
    let (a, b) = (at(&[0, 0, 0]), at(&[1, 1, 1]));
    let names = |from, to| {
        let mut route = Vec::new();
        routing.route(&fabric, from, to, &mut route).unwrap();
        route
            .iter()
            .filter_map(|&l| fabric.link(l).direction)
            .map(|d| d.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(a, b), ["X+", "Y+", "Z+"]);
    assert_eq!(names(b, a), ["X-", "Y-", "Z-"]);
    // Half way round a ring of four both directions are equally long: the positive one, both ways.
    assert_eq!(names(a, at(&[2, 0, 0])), ["X+", "X+"]);
    assert_eq!(names(at(&[2, 0, 0]), a), ["X+", "X+"]);
    // Two nodes of one Gemini are zero hops apart.
    let nodes = fabric.nodes_on(fabric.router_at(&[0, 0, 0]).unwrap());
    assert_eq!(routing.hops(&fabric, nodes[0], nodes[1]), Ok(0));
}

#[test]
fn reach_counts_what_walking_finds() {
    for spec in ["gemini:3x4x8", "mesh:3x4:nodes=2", "torus:5x2"] {
        let fabric = spec::fabric(spec).unwrap();
        for routing in [
            Routing::default_for(&fabric),
            Routing::Minimal(MinimalPaths::new(&fabric)),
        ] {
            let reach = Reach::of(&fabric, &routing);
            let n = fabric.nodes().len() as u64;
            assert_eq!((reach.pairs, reach.routable), (n * (n - 1), n * (n - 1)));
            let mut walked = std::collections::BTreeMap::new();
            for from in fabric.node_ids() {
                for to in fabric.node_ids().filter(|&to| to != from) {
                    *walked
                        .entry(routing.hops(&fabric, from, to).unwrap())
                        .or_insert(0) += 1;
                }
            }
            assert_eq!(reach.hops, walked, "{spec}");
        }
    }
}
