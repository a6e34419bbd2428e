//! All forms of route agree with the routing.

use super::Paths;
use super::computed::Computed;
use super::grid::{self, GridPaths};
use super::hosts::HostPaths;
use super::routers::{Between, Ends, RouterDistances, RouterPaths};
use super::summed::Summed;
use super::table::Table;
use crate::change::count as count_loads;
use crate::evaluate::evaluate;
use crate::graph::Graph;
use crate::linear::Distances;
use crate::problem::{MapError, Problem};
use crate::schedule::Stop;
use hopbyte_fabric::Unroutable;
use hopbyte_fabric::faults::Fault;
use hopbyte_fabric::random::Random;
use hopbyte_fabric::{
    Allocation, End, Exchange, Fabric, LinkId, NodeId, Placement, RouterId, Routing, spec,
};
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

/// The problem of a machine with all of its nodes, and failed cables between routers by number.
pub(crate) fn on_all<T>(text: &str, failed: &[usize], ask: impl FnOnce(&Problem<'_>) -> T) -> T {
    let spec::Described { fabric, routing } = spec::machine(text).unwrap();
    let nodes: Vec<NodeId> = fabric.node_ids().collect();
    let (fabric, routing) = broken(fabric, routing, failed);
    let allocation = Allocation::new(&fabric, nodes.into_iter().map(|n| (n, 1)).collect()).unwrap();
    let exchange = Exchange::empty(2);
    ask(&Problem::new(&fabric, &routing, &exchange, &allocation))
}

/// The machine without some cables between routers, and its routing around them.
fn broken(fabric: Fabric, routing: Routing, failed: &[usize]) -> (Fabric, Routing) {
    let between = |&l: &LinkId| {
        let ends = (fabric.link(l).from, fabric.link(l).to);
        matches!(
            ends,
            (
                hopbyte_fabric::End::Router(_),
                hopbyte_fabric::End::Router(_)
            )
        )
    };
    let links: Vec<LinkId> = fabric.link_ids().filter(between).collect();
    if failed.is_empty() {
        return (fabric, routing);
    }
    let faults: Vec<Fault> = failed.iter().map(|&i| Fault::Cable(links[i])).collect();
    let fabric = fabric.with_faults(&faults);
    let routing = routing.rerouted(&fabric);
    (fabric, routing)
}

/// Stored routes.
pub(crate) fn stored(problem: &Problem<'_>) -> RouterPaths<Table> {
    let ends = Ends::of(problem);
    RouterPaths::stored(problem, &ends, Stop::default())
        .unwrap()
        .unwrap()
}

/// Computed routes, if the routing has a form for them.
pub(crate) fn computed<'a>(problem: &Problem<'a>) -> Option<RouterPaths<Computed<'a>>> {
    let ends = Ends::of(problem);
    let routes = ends.computed(problem)?;
    RouterPaths::computed(problem, &ends, routes, Stop::default()).unwrap()
}

/// Stored routes and, if there are any, computed ones, and their distances.
fn check_stored(problem: &Problem<'_>) {
    let paths = stored(problem);
    check(problem, &paths);
    check_hops(problem, &paths);
    if let Some(paths) = computed(problem) {
        check(problem, &paths);
        check_hops(problem, &paths);
    }
}

fn check_hops<B: Between>(problem: &Problem<'_>, paths: &RouterPaths<B>) {
    let distances = RouterDistances(paths);
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

/// Machines of every family, with their routing and some failed cables.
pub(crate) const MACHINES: [(&str, &str, &[usize]); 18] = [
    ("fattree:down=4x3,up=1x2", "", &[]),
    ("fattree:k=4,levels=3", "", &[]),
    ("fattree:down=4x4x3,up=1x2x2", "", &[3, 40]),
    ("fattree:down=4x3,up=1x2", "updown", &[]),
    ("torus:4x3x2:nodes=2", "updown", &[]),
    ("torus:4x3x2:nodes=2", "shortest", &[1, 20]),
    ("dragonfly:5x4:nodes=2", "", &[]),
    ("dragonfly:5x4:nodes=2", "", &[2, 30]),
    ("dragonfly:5x4:nodes=2,global=2", "valiant", &[]),
    ("dragonfly:5x4:nodes=2,global=2", "adaptive:0.5", &[7]),
    ("dragonfly:6x3:nodes=2", "updown", &[]),
    ("slingshot:3x4:nodes=3", "", &[]),
    ("aries:3x2x4", "", &[]),
    ("aries:3x2x4", "", &[1, 90]),
    ("aries:3x2x4", "adaptive", &[]),
    ("hyperx:3x4x2:nodes=2", "", &[]),
    ("hyperx:3x4x2:nodes=2", "", &[11]),
    ("hyperx:3x3x2x2", "updown", &[]),
];

/// The problem of one of [`MACHINES`] with most of its nodes.
pub(crate) fn on_some(
    (text, routing, failed): (&str, &str, &[usize]),
    ask: impl Fn(&Problem<'_>, &str),
) {
    let machine = spec::machine(text).unwrap();
    let named = match routing {
        "" => machine.routing,
        name => Routing::named(&machine.fabric, name).unwrap(),
    };
    let (fabric, routing) = broken(machine.fabric, named, failed);
    let list = fabric
        .node_ids()
        .filter(|n| n.0 % 4 != 1)
        .map(|n| (n, 1))
        .collect();
    let allocation = Allocation::new(&fabric, list).unwrap();
    let exchange = Exchange::new(1, []).unwrap();
    ask(
        &Problem::new(&fabric, &routing, &exchange, &allocation),
        text,
    );
}

#[test]
fn stored_and_computed_routes_of_every_family() {
    for machine in MACHINES {
        on_some(machine, |problem, _| check_stored(problem));
    }
}

/// Links and shares, in the order of links.
fn steps<P: Paths>(paths: &P, a: u32, b: u32) -> Vec<(usize, f64)> {
    let mut steps = Vec::new();
    paths.each(a, b, |link, share| steps.push((link, share)));
    steps.sort_by_key(|step| step.0);
    steps
}

/// The same links, shares, hops and last links, exactly, whichever form is used.
#[test]
fn computed_routes_are_those_that_are_stored() {
    for machine in MACHINES {
        on_some(machine, |problem, text| {
            let (stored, computed) = (stored(problem), computed(problem).unwrap());
            let places = problem.allocation.nodes().len() as u32;
            let hops = (RouterDistances(&stored), RouterDistances(&computed));
            for (a, b) in (0..places).flat_map(|a| (0..places).map(move |b| (a, b))) {
                assert_eq!(
                    steps(&stored, a, b),
                    steps(&computed, a, b),
                    "{text}: {a} -> {b}"
                );
                assert_eq!(hops.0.get(a, b), hops.1.get(a, b), "{text}: {a} -> {b}");
            }
            let last = (
                stored.ways_in(Stop::default()),
                computed.ways_in(Stop::default()),
            );
            let some =
                |ways: Option<Vec<Vec<u32>>>| ways.filter(|w| w.iter().all(|w| !w.is_empty()));
            assert_eq!(some(last.0), some(last.1), "{text}");
        });
    }
}

/// Nodes that a form cannot reach are named, as many by either.
#[test]
fn nodes_without_a_route_are_refused_by_both_forms() {
    for (text, routing) in [
        ("fattree:down=4x3,up=1x1", "updown"),
        ("hyperx:3:nodes=2", ""),
    ] {
        let machine = spec::machine(text).unwrap();
        let named = match routing {
            "" => machine.routing,
            name => Routing::named(&machine.fabric, name).unwrap(),
        };
        let own = machine.fabric.node(NodeId(1)).eject;
        let fabric = machine.fabric.with_faults(&[Fault::OneWay(own)]);
        let list = fabric.node_ids().map(|n| (n, 1)).collect();
        let allocation = Allocation::new(&fabric, list).unwrap();
        let exchange = Exchange::new(1, []).unwrap();
        let problem = Problem::new(&fabric, &named, &exchange, &allocation);
        let ends = Ends::of(&problem);
        let stored = RouterPaths::stored(&problem, &ends, Stop::default());
        let routes = ends.computed(&problem).unwrap();
        let computed = RouterPaths::computed(&problem, &ends, routes, Stop::default());
        assert_eq!(stored.err(), computed.err(), "{text}");
        assert!(RouterPaths::stored(&problem, &ends, Stop::default()).is_err());
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

/// Routes round failed cables, without a list of any; where a pair has none, it is named.
#[test]
fn grids_with_failed_cables_in_closed_form() {
    let (mut closed, mut dead, mut mixed) = (0, 0, 0);
    for seed in 0..40 {
        let mut rng = Random::stream(seed, 0);
        let machine = [
            "torus:4x3x5",
            "gemini:2x3x4",
            "torus:5x2x3:nodes=2",
            "mesh:4x3x2",
        ];
        let failed: Vec<usize> = (0..1 + rng.below(5)).map(|_| rng.below(90)).collect();
        on_all(machine[rng.below(4)], &failed, |problem| {
            let unroutable = grid::unroutable(problem);
            let Some(grid) = GridPaths::new(problem) else {
                let refused = RouterPaths::stored(problem, &Ends::of(problem), Stop::default());
                assert!(matches!(refused.err(), Some(MapError::Unroutable { .. })));
                let route = |a: NodeId, b: NodeId| {
                    let (routing, mut links) = (problem.routing, Vec::new());
                    routing.route(problem.fabric, a, b, &mut links).err()
                };
                let nodes = || problem.fabric.node_ids();
                let mut walked: Vec<Unroutable> = nodes()
                    .flat_map(|a| nodes().filter_map(move |b| route(a, b)))
                    .collect();
                let mut found = unroutable;
                for list in [&mut walked, &mut found] {
                    list.sort_by_key(|u| (u.from, u.to));
                }
                assert_eq!(found, walked, "{seed}");
                // The other nodes reach each other, each pair by the first order that does.
                let lost = |n: NodeId| found.iter().any(|u| u.from == n);
                let list = nodes().filter(|&n| !lost(n)).map(|n| (n, 1)).collect();
                if let Ok(allocation) = Allocation::new(problem.fabric, list) {
                    let rest = Problem {
                        allocation: &allocation,
                        ..*problem
                    };
                    check_grid(&rest, &GridPaths::new(&rest).unwrap());
                    mixed += usize::from(!problem.routing.is_destination_based());
                }
                dead += 1;
                return;
            };
            assert!(unroutable.is_empty());
            check_grid(problem, &grid);
            closed += 1;
        });
    }
    assert!(
        closed > 10 && dead > 0 && mixed > 0,
        "{closed} {dead} {mixed}"
    );
}

fn check_grid(problem: &Problem<'_>, grid: &GridPaths) {
    check(problem, grid);
    let distances = grid.distances();
    let places = problem.allocation.nodes().len() as u32;
    for (a, b) in (0..places).flat_map(|a| (0..places).map(move |b| (a, b))) {
        let (from, to) = (problem.node_at(a), problem.node_at(b));
        let hops = problem.routing.hops(problem.fabric, from, to).unwrap();
        assert_eq!(distances.get(a, b), hops as f64, "{a} -> {b}");
    }
}

/// A group that failed links divide: only one part of it has nodes of the job, so every pair has a route.
#[test]
fn divided_groups_are_computed() {
    for routing in ["minimal", "valiant", "adaptive:0.5"] {
        let machine = spec::machine("dragonfly:5x4:nodes=2,global=4").unwrap();
        let whole = machine.fabric;
        let group = |r: RouterId| whole.coord(r).unwrap()[0];
        let lost = |r: RouterId| group(r) == 1 && r.0 % 2 == 1;
        let divides = |&l: &LinkId| match (whole.link(l).from, whole.link(l).to) {
            (End::Router(a), End::Router(b)) => group(a) == group(b) && lost(a) != lost(b),
            _ => false,
        };
        let faults: Vec<Fault> = whole
            .link_ids()
            .filter(divides)
            .map(Fault::OneWay)
            .collect();
        assert!(!faults.is_empty());
        // Groups to which the rest of the divided one has cables.
        let joined = |g: u32| {
            whole.links().iter().any(|l| match (l.from, l.to) {
                (End::Router(a), End::Router(b)) => group(a) == 1 && !lost(a) && group(b) == g,
                _ => false,
            })
        };
        let kept = |&n: &NodeId| {
            let router = whole.node(n).router;
            !lost(router) && joined(group(router))
        };
        let list = whole.node_ids().filter(kept);
        let list: Vec<(NodeId, u32)> = list.map(|n| (n, 1)).collect();
        let all: Vec<(NodeId, u32)> = whole.node_ids().map(|n| (n, 1)).collect();
        let fabric = whole.clone().with_faults(&faults);
        let named = Routing::named(&fabric, routing).unwrap();
        let exchange = Exchange::new(1, []).unwrap();
        let ask = |list| {
            let allocation = Allocation::new(&fabric, list).unwrap();
            let problem = Problem::new(&fabric, &named, &exchange, &allocation);
            let (ends, stop) = (Ends::of(&problem), Stop::default());
            let stored = RouterPaths::stored(&problem, &ends, stop);
            let routes = ends.computed(&problem).unwrap();
            let computed = RouterPaths::computed(&problem, &ends, routes, stop);
            if computed.is_ok() {
                check_stored(&problem);
            }
            (stored.err(), computed.err())
        };
        assert_eq!(ask(list), (None, None), "{routing}");
        // The two parts have no route to each other.
        let (stored, computed) = ask(all);
        assert!(stored.is_some() && stored == computed, "{routing}");
    }
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
        } else {
            assert!(paths.compute_sets(&problem, Stop::default()).unwrap());
        }
        {
            check_shares(&problem, &paths, exact);
            check_loads(&problem, &paths);
        }
    }
}

/// Two cuts of one ring: pairs take different orders of dimensions.
#[test]
fn hosts_on_a_torus_with_mixed_orders() {
    let machine = spec::machine("torus:5x4x2:nodes=4,hosts=gh200-quad").unwrap();
    let names = ["r0-0-0 X+", "r2-0-0 X+"];
    let faults = names.map(|l| Fault::Cable(machine.fabric.find_link(l).unwrap()));
    let fabric = machine.fabric.with_faults(&faults);
    let routing = machine.routing.rerouted(&fabric);
    assert!(!routing.network().is_destination_based());
    // The ring itself stays divided.
    let outside = |n: &NodeId| {
        let port = fabric.inside().unwrap().port_of(*n);
        fabric.coord(fabric.node(port).router).unwrap()[1..] != [0, 0]
    };
    let places: Vec<NodeId> = fabric.places().into_iter().filter(outside).collect();
    let list = places.into_iter().step_by(3).map(|n| (n, 1)).collect();
    let allocation = Allocation::new(&fabric, list).unwrap();
    let exchange = Exchange::new(1, []).unwrap();
    let problem = Problem::new(&fabric, &routing, &exchange, &allocation);
    let mut paths = HostPaths::new(&problem, Stop::default()).unwrap().unwrap();
    check_shares(&problem, &paths, |share| share);
    paths.compute_all();
    check_shares(&problem, &paths, |share| share);
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
