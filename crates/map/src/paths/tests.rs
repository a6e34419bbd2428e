//! All forms of route agree with the routing.

use super::Paths;
use super::grid::GridPaths;
use super::hosts::HostPaths;
use super::stored::StoredPaths;
use super::summed::Summed;
use crate::change::count as count_loads;
use crate::evaluate::evaluate;
use crate::graph::Graph;
use crate::linear::Distances;
use crate::problem::Problem;
use crate::schedule::Stop;
use hopbyte_fabric::random::Random;
use hopbyte_fabric::{Allocation, Exchange, Placement, Routing, spec};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn check<P: Paths>(problem: &Problem<'_>, paths: &P) {
    // The search stores shares in single precision.
    check_shares(problem, paths, |share| f64::from(share as f32));
}

fn check_shares<P: Paths>(problem: &Problem<'_>, paths: &P, stored: impl Fn(f64) -> f64) {
    let value = |l: usize| 1.0 + (l * l % 31) as f64;
    let mut prices = paths.prices();
    let all: Vec<u32> = (0..paths.links() as u32).collect();
    paths.reprice(&mut prices, &all, value);
    // Some prices change and change back.
    let some: Vec<u32> = all.iter().copied().filter(|l| l % 3 == 1).collect();
    paths.reprice(&mut prices, &some, |l| 7.0 + l as f64);
    paths.reprice(&mut prices, &some, value);
    let n = problem.allocation.nodes().len() as u32;
    for a in 0..n {
        for b in 0..n {
            let (from, to) = (problem.node_at(a), problem.node_at(b));
            let mut shares = Vec::new();
            problem
                .routing
                .shares(problem.fabric, from, to, &mut shares)
                .unwrap();
            // Stripes of one route may share a link inside a host.
            let mut expected = BTreeMap::new();
            for (link, share) in shares {
                *expected.entry(link.0).or_insert(0.0) += stored(share);
            }
            let mut found = BTreeMap::new();
            let mut sum = 0.0;
            paths.each(a, b, |l, share| {
                *found.entry(paths.link(l).0).or_insert(0.0) += share;
                sum += share * value(l);
            });
            assert_eq!(found, expected, "{a} -> {b}");
            assert!((paths.price(&prices, a, b) - sum).abs() < 1e-9 * sum.max(1.0));
        }
    }
}

proptest! {
    #[test]
    fn every_form_says_what_the_routing_says(
        dims in prop::collection::vec(1u32..6, 1..6), wrap: bool, nodes in 1u32..3,
    ) {
        let words: Vec<String> = dims.iter().map(u32::to_string).collect();
        let name = if wrap { "torus" } else { "mesh" };
        let fabric = spec::fabric(&format!("{name}:{}:nodes={nodes}", words.join("x"))).unwrap();
        let step = 1 + fabric.nodes().len() / 40;
        let list = fabric.node_ids().step_by(step).map(|n| (n, 1)).collect();
        let allocation = Allocation::new(&fabric, list).unwrap();
        let exchange = Exchange::new(1, []).unwrap();
        let order = Routing::default_for(&fabric);
        let problem = Problem::new(&fabric, &order, &exchange, &allocation);
        let places = problem.allocation.nodes().len();
        let grid = GridPaths::new(&problem).unwrap();
        check(&problem, &grid);
        let distances = grid.distances();
        for (a, b) in (0..places as u32).flat_map(|a| (0..places as u32).map(move |b| (a, b))) {
            let (from, to) = (problem.node_at(a), problem.node_at(b));
            let hops = if a == b { 0 } else { order.hops(&fabric, from, to).unwrap() };
            assert_eq!(distances.get(a, b), hops as f64, "{a} -> {b}");
        }
        check(&problem, &Summed::new(GridPaths::new(&problem).unwrap(), places));
        check_stored(&problem);
        let minimal = Routing::Minimal(hopbyte_fabric::routing::MinimalPaths::new(&fabric));
        check_stored(&Problem { routing: &minimal, ..problem });
    }
}

/// Stored routes and their distances.
fn check_stored(problem: &Problem<'_>) {
    let paths = StoredPaths::new(problem, Stop::default()).unwrap().unwrap();
    check(problem, &paths);
    let distances = paths.distances(problem.fabric);
    let places = problem.allocation.nodes().len() as u32;
    for (a, b) in (0..places).flat_map(|a| (0..places).map(move |b| (a, b))) {
        let mut hops = 0.0;
        paths.each(a, b, |link, share| {
            let is_hop = problem.fabric.is_hop(paths.link(link));
            hops += if is_hop { share } else { 0.0 };
        });
        let found = distances.get(a, b);
        assert!((found - hops).abs() < 1e-5, "{a} -> {b}: {found} {hops}");
    }
}

#[test]
fn stored_routes_of_trees_and_groups() {
    for text in [
        "fattree:down=4x3,up=1x2",
        "dragonfly:5x4:nodes=2",
        "slingshot:3x4:nodes=3",
    ] {
        let spec::Described { fabric, routing } = spec::machine(text).unwrap();
        let list = fabric.node_ids().step_by(2).map(|n| (n, 1)).collect();
        let allocation = Allocation::new(&fabric, list).unwrap();
        let exchange = Exchange::new(1, []).unwrap();
        check_stored(&Problem::new(&fabric, &routing, &exchange, &allocation));
    }
}

#[test]
fn gemini_in_closed_form() {
    let fabric = spec::fabric("gemini:3x4x8").unwrap();
    let list = fabric.node_ids().step_by(3).map(|n| (n, 1)).collect();
    let allocation = Allocation::new(&fabric, list).unwrap();
    let exchange = Exchange::new(1, []).unwrap();
    let order = Routing::default_for(&fabric);
    let problem = Problem::new(&fabric, &order, &exchange, &allocation);
    check(&problem, &GridPaths::new(&problem).unwrap());
}

/// Hops beyond 255 are not cut off.
#[test]
fn distances_on_a_long_line() {
    let fabric = spec::fabric("mesh:700").unwrap();
    let list = [0, 300, 699].map(|n| (hopbyte_fabric::NodeId(n), 1));
    let allocation = Allocation::new(&fabric, list.to_vec()).unwrap();
    let exchange = Exchange::new(1, []).unwrap();
    let order = Routing::default_for(&fabric);
    let problem = Problem::new(&fabric, &order, &exchange, &allocation);
    let distances = GridPaths::new(&problem).unwrap().distances();
    assert_eq!((distances.get(0, 1), distances.get(2, 0)), (300.0, 699.0));
}

/// Stored and computed routes between the leaves of hosts, with every choice of ports.
#[test]
fn hosts_with_links_inside() {
    for text in [
        "fattree:down=4x4,up=1x2,rails=4,hosts=gh200-quad",
        "fattree:down=4x4,up=1x2,rails=4,hosts=gh200-quad/striped",
        "fattree:down=4x4,up=1x2,rails=4,hosts=gh200-quad/nearest",
        "fattree:k=8,levels=3,hosts=mi300x",
        "dragonfly:3x2:hosts=plain",
        "torus:4x4x2:nodes=4,hosts=gh200-quad",
    ] {
        let machine = spec::machine(text).unwrap();
        let places = machine.fabric.places();
        let list = places.into_iter().step_by(3).map(|n| (n, 1)).collect();
        let allocation = Allocation::new(&machine.fabric, list).unwrap();
        let exchange = Exchange::new(1, []).unwrap();
        let problem = Problem::new(&machine.fabric, &machine.routing, &exchange, &allocation);
        let exact = |share| share;
        let mut paths = HostPaths::new(&problem, Stop::default()).unwrap().unwrap();
        check_shares(&problem, &paths, exact);
        check_loads(&problem, &paths);
        if machine.routing.network().is_single_path() {
            paths.compute_all();
            check_shares(&problem, &paths, exact);
            check_loads(&problem, &paths);
        }
    }
}

/// Loads of random placements are those of the evaluation.
fn check_loads(problem: &Problem<'_>, paths: &HostPaths<'_>) {
    let mut rng = Random::stream(11, 0);
    let count = problem.allocation.nodes().len();
    let mut places: Vec<u32> = (0..count as u32).collect();
    let tasks = count.min(24) as u32;
    for _ in 0..20 {
        rng.shuffle(&mut places);
        let pairs: Vec<(u32, u32, f64, u64)> = (0..4 * tasks)
            .map(|i| {
                let bytes = (1 + rng.below(1000)) as f64;
                (i % tasks, rng.below(tasks as usize) as u32, bytes, 1)
            })
            .filter(|pair| pair.0 != pair.1)
            .collect();
        let exchange = Exchange::new(tasks as usize, pairs).unwrap();
        let problem = Problem {
            exchange: &exchange,
            ..*problem
        };
        let nodes = places[..tasks as usize].iter().map(|&p| problem.node_at(p));
        let placement = Placement::on_nodes(problem.fabric, problem.allocation, nodes).unwrap();
        let cost = evaluate(&problem, &placement).unwrap();
        let graph = Graph::of_tasks(&exchange);
        let mut load = vec![0.0; paths.links()];
        let at = |task: u32| places[task as usize];
        count_loads(paths, &graph, &at, &mut load);
        for (link, (found, expected)) in load.iter().zip(&cost.link_bytes).enumerate() {
            let apart = (found - expected).abs();
            assert!(apart <= 1e-12 * expected, "{link}: {found} {expected}");
        }
    }
}
