//! All forms of route agree with the routing.

use super::Paths;
use super::grid::GridPaths;
use super::stored::StoredPaths;
use super::summed::Summed;
use crate::linear::Distances;
use crate::problem::Problem;
use crate::schedule::Stop;
use hopbyte_fabric::{Allocation, Exchange, Routing, spec};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn check<P: Paths>(problem: &Problem<'_>, paths: &P) {
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
            let mut expected = Vec::new();
            let (from, to) = (problem.node_at(a), problem.node_at(b));
            problem
                .routing
                .shares(problem.fabric, from, to, &mut expected)
                .unwrap();
            let expected: BTreeMap<u32, f64> = expected
                .into_iter()
                // The search stores shares in single precision.
                .map(|(l, s)| (l.0, f64::from(s as f32)))
                .collect();
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
