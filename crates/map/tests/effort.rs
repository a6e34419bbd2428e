//! Laws of searches with more or less time, and the limits of objectives without host links.

#![allow(clippy::unwrap_used)]

use crate::common::{allocation, quick};
use hopbyte_fabric::{Exchange, NodeId, Placement, Routing, declared, spec};
use hopbyte_map::{Baseline, Certificate, Objective, Options, Problem, baseline, evaluate, map};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// On a large dragonfly a search of a few trials starts from a random placement too, which spreads the load over all cables
/// between groups, and lowers its hop-bytes.
#[test]
fn the_random_baseline_of_a_large_machine_is_improved() {
    let spec::Described { fabric, routing } =
        spec::machine("slingshot:16x16:nodes=16,global=4").unwrap();
    let exchange = declared::traffic("stencil:16x16x16:27").unwrap().total();
    let alloc = allocation(&fabric, &(0..4096).map(|n| (n, 1)).collect::<Vec<_>>());
    let problem = Problem::new(&fabric, &routing, &exchange, &alloc);
    let (_, found) = map(&problem, &quick(1, 10_000), &|_| {}).unwrap();
    let (which, random) = found.best_baseline;
    assert_eq!(which, Baseline::Random);
    let (was, now) = (random.hop_bytes, found.result.hop_bytes);
    assert!(now < was, "{now} hop-bytes, {was} of the random baseline");
}

/// With one seed a search is the beginning of every longer one.
#[test]
fn a_longer_search_is_never_worse() {
    let stencil = |text: &str| declared::traffic(text).unwrap().total();
    let shuffled = |of: &Exchange, by: u32| {
        let n = of.tasks() as u32;
        let name = |t: u32| t * by % n;
        let entries = of.iter().map(|(t, m)| (name(t), name(m.to), m.bytes, 1));
        Exchange::new(n as usize, entries).unwrap()
    };
    let cases = [
        ("torus:6x6x6", 1, shuffled(&stencil("stencil:6x6x6:7"), 7)),
        ("gemini:4x4x4", 4, stencil("stencil:8x4x4:27")),
        (
            "fattree:down=8x8,up=1x4",
            1,
            shuffled(&stencil("stencil:8x8:9"), 5),
        ),
        (
            "dragonfly:5x4:nodes=4",
            1,
            shuffled(&stencil("stencil:10x7:9"), 3),
        ),
        ("aries:3x1x4", 3, shuffled(&stencil("stencil:8x9:5"), 5)),
    ];
    for (machine, each, exchange) in &cases {
        let spec::Described { fabric, routing } = spec::machine(machine).unwrap();
        let nodes = exchange.tasks().div_ceil(*each as usize) as u32;
        let alloc = allocation(&fabric, &(0..nodes).map(|n| (n, *each)).collect::<Vec<_>>());
        for objective in [
            Objective::WorstLink,
            Objective::WorstNetworkLink,
            Objective::HopBytes,
        ] {
            let problem = Problem {
                objective,
                ..Problem::new(&fabric, &routing, exchange, &alloc)
            };
            let mut last: Option<Certificate> = None;
            for trials in [0, 100, 700, 2_000, 3_000, 8_000] {
                let (_, now) = map(&problem, &quick(3, trials), &|_| {}).unwrap();
                if let Some(last) = last {
                    let worse = last.result.better_than(&now.result, &objective);
                    assert!(!worse, "{machine}, {objective}: {trials} trials");
                }
                last = Some(now);
            }
        }
    }
}

/// Round robin has the faster network, but sends three times as much over host links.
#[test]
fn network_and_hop_bytes_do_not_raise_host_links_or_bytes_off_node() {
    let spec::Described { fabric, routing } =
        spec::machine("fattree:down=8x16,up=1x4,link=50").unwrap();
    let exchange = declared::traffic("plan:dp=16,tp=8,pp=8").unwrap().total();
    let alloc = allocation(&fabric, &(0..128).map(|n| (n, 8)).collect::<Vec<_>>());
    for objective in [Objective::WorstNetworkLink, Objective::HopBytes] {
        let problem = Problem {
            objective,
            ..Problem::new(&fabric, &routing, &exchange, &alloc)
        };
        let (_, c) = map(&problem, &quick(1, 20_000), &|_| {}).unwrap();
        let in_order = &c.baseline;
        let robin = baseline(&problem, Baseline::RoundRobin, 1)
            .unwrap()
            .unwrap();
        assert!(
            !evaluate(&problem, &robin)
                .unwrap()
                .keeps_limits(in_order, &objective)
        );
        assert!(
            c.result.worst_host_link_seconds <= in_order.worst_host_link_seconds * (1.0 + 1e-9)
        );
        assert!(c.result.off_node_bytes <= in_order.off_node_bytes * (1.0 + 1e-9));
        assert!(!in_order.better_than(&c.result, &objective));
    }
}

#[test]
fn a_search_ends_when_nothing_is_found_any_more() {
    let fabric = spec::fabric("torus:4x4").unwrap();
    let routing = Routing::default_for(&fabric);
    let exchange = declared::traffic("stencil:4x4:5").unwrap().total();
    let alloc = allocation(&fabric, &(0..16).map(|n| (n, 1)).collect::<Vec<_>>());
    let problem = Problem::new(&fabric, &routing, &exchange, &alloc);
    let options = Options {
        seconds: 600.0,
        trials: None,
        ..quick(1, 0)
    };
    let (_, certificate) = map(&problem, &options, &|_| {}).unwrap();
    assert!(
        certificate.wall_seconds < 100.0,
        "{}",
        certificate.wall_seconds
    );
}

/// Wherever the flag is set, in the preparation or in the search, the rest takes seconds and a baseline is the least.
#[test]
fn every_phase_of_a_large_search_stops() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let spec::Described { fabric, routing } = spec::machine("dragonfly:24x12:nodes=12").unwrap();
    let n = fabric.nodes().len() as u32;
    let pairs = (0..n).flat_map(|t| [(t, t * 5 % (n - 5), 8.0, 1), (t, t ^ 1, 64.0, 1)]);
    let exchange = Exchange::new(n as usize, pairs).unwrap();
    let nodes: Vec<(u32, u32)> = (0..n).map(|n| (n, 1)).collect();
    let alloc = allocation(&fabric, &nodes);
    let problem = Problem::new(&fabric, &routing, &exchange, &alloc);
    let options = Options {
        seconds: 600.0,
        trials: None,
        stop: Some(&STOP),
        ..quick(1, 0)
    };
    for milliseconds in [0, 100, 400, 1600, 6400] {
        STOP.store(milliseconds == 0, Ordering::Relaxed);
        let setter = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(milliseconds));
            STOP.store(true, Ordering::Relaxed);
            Instant::now()
        });
        let (_, certificate) = map(&problem, &options, &|_| {}).unwrap();
        let took = setter.join().unwrap().elapsed();
        assert!(certificate.interrupted);
        assert!(
            !certificate
                .baseline
                .better_than(&certificate.result, &problem.objective)
        );
        // Without optimisation, on a busy machine.
        assert!(
            took < Duration::from_secs(20),
            "{milliseconds} ms: {took:?}"
        );
    }
}

/// Pairs of nodes 2 hops apart, and 7 from the other pair: a tree that is searched level by level.
#[test]
fn levels_of_a_tree_keep_the_laws() {
    let fabric = spec::fabric("torus:12x4").unwrap();
    let routing = Routing::default_for(&fabric);
    // The node of a column and row; columns are the first dimension.
    let node = |x: u32, y: u32| {
        let router = fabric.router_at(&[x, y]).unwrap();
        (router.0, 16)
    };
    let alloc = allocation(&fabric, &[node(0, 0), node(0, 2), node(6, 1), node(6, 3)]);
    let exchange = declared::traffic("stencil:8x8:5:1000").unwrap().total();
    let name = |t: u32| t * 5 % 64;
    let entries = exchange
        .iter()
        .map(|(t, m)| (name(t), name(m.to), m.bytes, 1));
    let exchange = Exchange::new(64, entries).unwrap();
    let problem = Problem {
        objective: Objective::HopBytes,
        ..Problem::new(&fabric, &routing, &exchange, &alloc)
    };
    let mut last = f64::INFINITY;
    for trials in [0, 1_000, 10_000, 40_000] {
        let (placement, now) = map(&problem, &quick(3, trials), &|_| {}).unwrap();
        let again = map(&problem, &quick(3, trials), &|_| {}).unwrap();
        assert_eq!(placement, again.0);
        assert!(now.result.keeps_limits(&now.baseline, &problem.objective));
        assert!(now.result.hop_bytes <= last);
        last = now.result.hop_bytes;
    }
    // Eight flows and back between the halves, and four within each.
    assert_eq!(last, 2.0 * 1000.0 * (8.0 * 7.0 + 8.0 * 2.0));
}

/// The launcher's order stays where another baseline is better by half a thousandth and sends twice as much, even if the
/// current placement is worse than both.
#[test]
fn baselines_that_are_hardly_better_do_not_win() {
    let fabric = spec::fabric("torus:2").unwrap();
    let routing = Routing::default_for(&fabric);
    let alloc = allocation(&fabric, &[(0, 2), (1, 2)]);
    let flows = [(0, 2, 1000.0, 1), (0, 1, 999.5, 1), (3, 2, 999.5, 1)];
    let exchange = Exchange::new(4, flows).unwrap();
    let nodes = [0, 1, 1, 0].map(NodeId);
    let current = Placement::on_nodes(&fabric, &alloc, nodes).unwrap();
    let problem = Problem {
        current: Some(&current),
        ..Problem::new(&fabric, &routing, &exchange, &alloc)
    };
    let robin = baseline(&problem, Baseline::RoundRobin, 1)
        .unwrap()
        .unwrap();
    let (_, found) = map(&problem, &quick(1, 0), &|_| {}).unwrap();
    let robin = evaluate(&problem, &robin).unwrap();
    let (which, best) = found.best_baseline;
    assert!(robin.worst_link_seconds < best.worst_link_seconds);
    assert_eq!(which, Baseline::InOrder);
}

/// A search that still finds something uses the time it has, and little more.
#[test]
fn a_search_by_time_uses_its_time() {
    let fabric = spec::fabric("torus:8x8x8").unwrap();
    let routing = Routing::default_for(&fabric);
    let alloc = allocation(&fabric, &(0..512).map(|n| (n, 1)).collect::<Vec<_>>());
    let pairs = (0..512u32).flat_map(|t| [7, 91, 200].map(|d| (t, (t * 5 + d) % 512, 8.0, 1)));
    let exchange = Exchange::new(512, pairs).unwrap();
    let problem = Problem {
        objective: Objective::WorstNetworkLink,
        ..Problem::new(&fabric, &routing, &exchange, &alloc)
    };
    let options = Options {
        seconds: 1.5,
        trials: None,
        ..quick(1, 0)
    };
    let (_, found) = map(&problem, &options, &|_| {}).unwrap();
    assert!(found.wall_seconds > 1.3, "{} s", found.wall_seconds);
}
