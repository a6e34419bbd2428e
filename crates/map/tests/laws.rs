//! Laws of costs and mappings: cases computed by hand, and random instances.

#![allow(clippy::unwrap_used)]

use crate::common::{allocation, quick};
use hopbyte_fabric::routing::MinimalPaths;
use hopbyte_fabric::units::{BytesPerSecond, Seconds};
use hopbyte_fabric::wire::Overhead;
use hopbyte_fabric::{
    Allocation, End, Exchange, FabricBuilder, Family, LinkSpec, LinkState, NodeId, Placement,
    RouterId, Routing, declared, spec,
};
use hopbyte_map::{
    Baseline, Certificate, MapError, Objective, Options, Problem, Verdict, baseline, evaluate, map,
};
use proptest::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn costs_of_a_ring_are_those_counted_by_hand() {
    // A ring of 4 routers, links of 1 GB/s, host links of 2 GB/s. Task 0 on node 0 sends 4 GB to task 1
    // on node 1 and 1 GB to task 2 on node 3; task 2 sends 2 GB to task 1, two hops (positive way).
    let fabric = spec::fabric("torus:4:link=1,host=2").unwrap();
    let routing = Routing::default_for(&fabric);
    let exchange = Exchange::new(3, [(0, 1, 4e9, 1), (0, 2, 1e9, 1), (2, 1, 2e9, 1)]).unwrap();
    let alloc = allocation(&fabric, &[(0, 1), (1, 1), (3, 1)]);
    let placement = Placement::in_order(&alloc, 3).unwrap();
    let mut problem = Problem::new(&fabric, &routing, &exchange, &alloc);
    let e = evaluate(&problem, &placement).unwrap();
    assert_eq!(e.hop_bytes, 4e9 + 1e9 + 2.0 * 2e9);
    assert_eq!(e.average_dilation, 9.0 / 7.0);
    // Link 0 -> 1 carries 4 GB and, after 3 -> 0, the 2 GB of task 2.
    assert_eq!(e.worst_link_seconds, 6.0);
    assert_eq!(e.worst_network_link_seconds, 6.0);
    // Node 1 receives 6 GB over 2 GB/s.
    assert_eq!(e.worst_host_link_seconds, 3.0);
    assert_eq!((e.off_node_bytes, e.worst_injection_bytes), (7e9, 5e9));
    let zero = fabric.router_at(&[0]).unwrap();
    let up = fabric
        .link_towards(zero, hopbyte_fabric::Direction::parse("X+").unwrap())
        .unwrap();
    assert_eq!((e.worst_link, e.link_bytes[up.index()]), (Some(up), 6e9));

    // Half of that link is used by other jobs: twice the time.
    let mut state = LinkState::unknown(&fabric);
    state.used_ratio.set(up, Some(0.5));
    problem.background = Some(&state);
    assert_eq!(
        evaluate(&problem, &placement).unwrap().worst_link_seconds,
        12.0
    );

    // Responses of a tenth travel back: node 1 answers task 0 with 0.4 GB over link 1 -> 0, and task 2 with 0.2
    // GB; half way round a ring of four both go the positive way, 1 -> 2 -> 3.
    problem.background = None;
    let loads = Overhead::Response(0.1).loads(&fabric, &exchange).unwrap();
    problem.loads = loads.exchange.as_ref();
    let r = evaluate(&problem, &placement).unwrap();
    assert_eq!(r.hop_bytes, e.hop_bytes);
    let grown: f64 = r.link_bytes.iter().sum::<f64>() - e.link_bytes.iter().sum::<f64>();
    assert!(
        (grown - (0.4e9 * 3.0 + 0.1e9 * 3.0 + 0.2e9 * 4.0)).abs() < 1.0,
        "{grown}"
    );
}

#[test]
fn a_shared_host_link_carries_both_nodes() {
    let fabric = spec::fabric("gemini:2x2x8").unwrap();
    let routing = Routing::default_for(&fabric);
    let router = fabric.router_at(&[0, 0, 0]).unwrap();
    let [a, b] = fabric.nodes_on(router) else {
        panic!("a Gemini has two nodes")
    };
    let far = fabric.nodes_on(fabric.router_at(&[0, 0, 1]).unwrap())[0];
    let alloc = allocation(&fabric, &[(a.0, 1), (b.0, 1), (far.0, 1)]);
    let exchange =
        Exchange::new(3, [(0, 1, 10.0, 1), (0, 2, 100.0, 1), (1, 2, 1000.0, 1)]).unwrap();
    let problem = Problem::new(&fabric, &routing, &exchange, &alloc);
    let e = evaluate(&problem, &Placement::in_order(&alloc, 3).unwrap()).unwrap();
    // Two nodes of one Gemini: no hop, but over the host link.
    assert_eq!(e.hop_bytes, 1100.0);
    let inject = fabric.node(*a).inject;
    assert_eq!(fabric.node(*b).inject, inject);
    assert_eq!(e.link_bytes[inject.index()], 1110.0);
}

#[test]
fn a_known_optimum_is_found_and_certified() {
    // A ring of eight tasks on a ring of eight routers: one hop each way is the bound.
    let fabric = spec::fabric("torus:8").unwrap();
    let routing = Routing::default_for(&fabric);
    let ring = |i: u32| (i * 3 % 8, (i + 1) * 3 % 8);
    let exchange = Exchange::new(
        8,
        (0..8).flat_map(|i| {
            let (a, b) = ring(i);
            [(a, b, 1e6, 1), (b, a, 1e6, 1)]
        }),
    )
    .unwrap();
    let nodes: Vec<(u32, u32)> = (0..8).map(|n| (n, 1)).collect();
    let alloc = allocation(&fabric, &nodes);
    for objective in [Objective::WorstNetworkLink, Objective::HopBytes] {
        let problem = Problem {
            objective,
            ..Problem::new(&fabric, &routing, &exchange, &alloc)
        };
        let (placement, certificate) = map(&problem, &quick(1, 20_000), &|_| {}).unwrap();
        assert_eq!(certificate.result.hop_bytes, 16e6, "{objective}");
        assert_eq!(certificate.bound.hop_bytes, 16e6);
        assert_eq!(certificate.verdict, Verdict::Improved);
        assert_eq!(evaluate(&problem, &placement).unwrap(), certificate.result);
    }
}

/// Boxes of a grid that fill nodes, and lines of these boxes that are folded into two dimensions of the machine: every
/// byte that leaves a node crosses one link, and no placement divides fewer neighbours.
#[test]
fn grids_are_folded_into_grids_of_other_dimensions() {
    for (traffic, machine, each) in [
        ("stencil:8x8x8x8:9", "torus:4x4x4x4x2", 8),
        ("stencil:6x6x6x6:9", "torus:3x3x3x3x2", 8),
        ("stencil:8x8x8x8x2:11", "torus:4x4x4x4x2", 16),
        ("stencil:16x12:5", "torus:4x4x4x3", 1),
        ("stencil:12x8x2:7:periodic", "torus:4x3x2x4x2", 1),
        ("stencil:12x12:5", "gemini:6x3x2", 4),
        // More nodes than tasks: a corner of the machine.
        ("stencil:3x5x3:7", "torus:8x6x4", 1),
        ("stencil:3x3x3x3:9", "torus:8x8x8x8", 1),
    ] {
        let fabric = spec::fabric(machine).unwrap();
        let routing = Routing::default_for(&fabric);
        let exchange = declared::traffic(traffic).unwrap().total();
        let nodes = fabric.node_ids().map(|n| (n.0, each));
        let alloc = allocation(&fabric, &nodes.collect::<Vec<_>>());
        let problem = Problem {
            objective: Objective::HopBytes,
            ..Problem::new(&fabric, &routing, &exchange, &alloc)
        };
        let (_, c) = map(&problem, &quick(1, 0), &|_| {}).unwrap();
        let (found, bound) = (c.result.hop_bytes, c.bound.hop_bytes);
        assert!(
            found <= bound * (1.0 + 1e-6),
            "{traffic} on {machine}: {found}, no less than {bound}"
        );
    }
}

#[test]
fn spare_slots_spread_a_job_that_would_fill_its_links() {
    // Six leaves of eight nodes with one uplink. All twelve tasks send to all. On two leaves 8 x 4 pairs cross
    // an uplink, and moving a single task makes it 7 x 5; two per leaf are 2 x 10.
    let fabric = spec::fabric("fattree:down=8x6,up=1x1,link=1").unwrap();
    let routing = Routing::default_for(&fabric);
    let pairs = (0..12u32).flat_map(|a| (0..12).filter(move |&b| b != a).map(move |b| (a, b)));
    let exchange = Exchange::new(12, pairs.map(|(a, b)| (a, b, 1e9, 1))).unwrap();
    let alloc = allocation(&fabric, &(0..48).map(|n| (n, 1)).collect::<Vec<_>>());
    let problem = Problem::new(&fabric, &routing, &exchange, &alloc);
    let (_, certificate) = map(&problem, &quick(1, 2_000), &|_| {}).unwrap();
    assert_eq!(certificate.baseline.worst_link_seconds, 32.0);
    assert_eq!(certificate.result.worst_link_seconds, 20.0);
}

#[test]
fn bad_questions_are_refused() {
    let fabric = spec::fabric("torus:4").unwrap();
    let routing = Routing::default_for(&fabric);
    let alloc = allocation(&fabric, &[(0, 1), (1, 1)]);
    let none = Exchange::new(0, []).unwrap();
    let three = Exchange::new(3, [(0, 1, 1.0, 1)]).unwrap();
    let two = Exchange::new(2, [(0, 1, 1.0, 1)]).unwrap();
    let ask = |exchange: &Exchange, objective: Objective<'_>, options: &Options| {
        let problem = Problem {
            objective,
            ..Problem::new(&fabric, &routing, exchange, &alloc)
        };
        map(&problem, options, &|_| {}).map(|_| ())
    };
    let options = quick(1, 10);
    assert_eq!(
        ask(&none, Objective::WorstLink, &options),
        Err(MapError::NoTasks)
    );
    assert_eq!(
        ask(&three, Objective::WorstLink, &options),
        Err(MapError::TooManyTasks { tasks: 3, slots: 2 })
    );
    let short = [1.0f32; 3];
    let negative = [0.0, -1.0, 1.0, 0.0f32];
    assert!(matches!(
        ask(&two, Objective::RouteCost(&short), &options),
        Err(MapError::CostShape { found: 3, nodes: 2 })
    ));
    assert!(matches!(
        ask(&two, Objective::RouteCost(&negative), &options),
        Err(MapError::BadCost { .. })
    ));
    let forever = Options {
        seconds: f64::NAN,
        trials: None,
        ..options
    };
    assert!(matches!(
        ask(&two, Objective::WorstLink, &forever),
        Err(MapError::BadOption { .. })
    ));
    let many = Options {
        threads: 1_000_000,
        ..options
    };
    assert!(matches!(
        ask(&two, Objective::WorstLink, &many),
        Err(MapError::BadOption {
            what: "threads",
            ..
        })
    ));
}

#[test]
fn a_search_that_is_ended_from_outside_returns_its_best_at_once() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let fabric = spec::fabric("torus:16x16x16").unwrap();
    let routing = Routing::default_for(&fabric);
    // Pairs that fit no grid, of which something better is found for minutes.
    let pairs = (0..4096u32).flat_map(|t| [(t, t * 5 % 4091, 8.0, 1), (t, t ^ 1, 64.0, 1)]);
    let exchange = Exchange::new(4096, pairs).unwrap();
    let nodes = fabric.node_ids().map(|n| (n, 1)).collect();
    let allocation = Allocation::new(&fabric, nodes).unwrap();
    let problem = Problem::new(&fabric, &routing, &exchange, &allocation);
    let options = Options {
        seconds: 600.0,
        stop: Some(&STOP),
        ..Options::default()
    };
    let setter = std::thread::spawn(|| {
        std::thread::sleep(std::time::Duration::from_secs(3));
        STOP.store(true, Ordering::Relaxed);
    });
    let (_, certificate) = map(&problem, &options, &|_| {}).unwrap();
    setter.join().unwrap();
    assert!(certificate.interrupted);
    assert!(certificate.trials > 0);
    assert!(certificate.wall_seconds < 100.0, "{certificate:?}");
    // A stop flag that is already set leaves the placement in order.
    let (_, certificate) = map(&problem, &options, &|_| {}).unwrap();
    assert_eq!((certificate.trials, certificate.interrupted), (0, true));
    STOP.store(false, Ordering::Relaxed);
    let whole = Options {
        trials: Some(1_000),
        ..options
    };
    assert!(!map(&problem, &whole, &|_| {}).unwrap().1.interrupted);
}

#[test]
fn hostile_traffic_and_machines_are_refused_or_handled() {
    let fabric = spec::fabric("torus:4:nodes=2").unwrap();
    let routing = Routing::default_for(&fabric);
    // Weights that are not finite numbers of bytes, and a node listed twice.
    for bytes in [f64::NAN, f64::INFINITY, -1.0] {
        let error = Exchange::new(2, [(0, 1, bytes, 1)])
            .unwrap_err()
            .to_string();
        assert!(error.contains("from task 0 to task 1"), "{error}");
    }
    let twice = Allocation::new(&fabric, vec![(NodeId(1), 1), (NodeId(1), 1)]);
    assert!(twice.unwrap_err().to_string().contains("n0-1"));
    // Self-messages and empty messages cross no link.
    let alloc = allocation(&fabric, &[(0, 1), (2, 1)]);
    for exchange in [
        Exchange::new(2, [(0, 0, 1e9, 1), (1, 1, 1e9, 1)]).unwrap(),
        Exchange::new(2, [(0, 1, 0.0, 3)]).unwrap(),
    ] {
        let problem = Problem::new(&fabric, &routing, &exchange, &alloc);
        let (_, certificate) = map(&problem, &quick(1, 1_000), &|_| {}).unwrap();
        assert_eq!(certificate.result.worst_link_seconds, 0.0);
        assert_eq!(certificate.verdict, Verdict::NoImprovement);
    }
    // Communicating tasks without a route: the error names the pairs.
    let mut builder = FabricBuilder::new(Family::Generic, "two islands");
    let (host, rate) = (builder.kind("host", true), BytesPerSecond::from_gb(1.0));
    for i in 0..2 {
        builder.router(format!("r{i}"), &[]);
        let (node, router) = (End::Node(NodeId(i)), End::Router(RouterId(i)));
        let link = |from, to| LinkSpec::new(from, to, host, rate, Seconds(0.0));
        let (inject, eject) = (
            builder.link(link(node, router)),
            builder.link(link(router, node)),
        );
        builder.node(
            format!("n{i}"),
            format!("n{i}"),
            None,
            RouterId(i),
            inject,
            eject,
        );
    }
    let islands = builder.finish().unwrap();
    let routing = Routing::default_for(&islands);
    let alloc = allocation(&islands, &[(0, 1), (1, 1)]);
    let exchange = Exchange::new(2, [(0, 1, 1.0, 1)]).unwrap();
    let problem = Problem::new(&islands, &routing, &exchange, &alloc);
    let error = map(&problem, &quick(1, 10), &|_| {}).unwrap_err();
    assert!(
        matches!(error, MapError::Unroutable { count: 1, .. }),
        "{error}"
    );
    let costs = [0.0, f32::INFINITY, f32::INFINITY, 0.0];
    let costly = Problem {
        objective: Objective::RouteCost(&costs),
        ..problem
    };
    let error = map(&costly, &quick(1, 10), &|_| {}).unwrap_err();
    assert!(
        matches!(error, MapError::Unroutable { count: 2, .. }),
        "{error}"
    );

    // In order has one unroutable pair, round robin two: the first is reported, independent of thread timing.
    let alloc = allocation(&islands, &[(0, 2), (1, 2)]);
    let exchange = Exchange::new(4, [(0, 1, 1.0, 1), (1, 0, 1.0, 1), (0, 2, 1.0, 1)]).unwrap();
    let problem = Problem::new(&islands, &routing, &exchange, &alloc);
    for _ in 0..100 {
        let error = map(&problem, &quick(1, 10), &|_| {}).unwrap_err();
        assert!(
            matches!(error, MapError::Unroutable { count: 1, .. }),
            "{error}"
        );
    }
}

/// A task that sends to every other one.
fn star(tasks: usize) -> Exchange {
    Exchange::new(tasks, (1..tasks as u32).map(|t| (0, t, 8.0, 1))).unwrap()
}

#[test]
fn a_task_that_talks_to_everybody_does_not_stop_the_search() {
    let fabric = spec::fabric("torus:8x8x8").unwrap();
    let routing = Routing::default_for(&fabric);
    let list: Vec<(u32, u32)> = (0..512).map(|n| (n, 100)).collect();
    let alloc = allocation(&fabric, &list);
    let exchange = star(51_200);
    let problem = Problem::new(&fabric, &routing, &exchange, &alloc);
    let begin = std::time::Instant::now();
    let (_, certificate) = map(&problem, &quick(1, 100_000), &|_| {}).unwrap();
    assert!(certificate.result.worst_link_seconds <= certificate.baseline.worst_link_seconds);
    assert!(begin.elapsed().as_secs() < 60);
}

#[test]
fn a_task_with_millions_of_messages_is_refused_by_name() {
    let fabric = spec::fabric("torus:2").unwrap();
    let routing = Routing::default_for(&fabric);
    let tasks = (1usize << 22) + 2;
    let alloc = allocation(&fabric, &[(0, tasks as u32 / 2), (1, tasks as u32 / 2)]);
    let exchange = star(tasks);
    let problem = Problem::new(&fabric, &routing, &exchange, &alloc);
    let error = map(&problem, &quick(1, 10), &|_| {}).unwrap_err();
    assert!(
        matches!(error, MapError::TooManyPartners { task: 0, partners, .. } if partners as usize == tasks - 1),
        "{error}"
    );
}

/// The same search on one thread and on three; the maps must be identical.
fn on_one_and_three_threads(
    problem: &Problem<'_>,
    options: Options,
) -> [(Placement, Certificate); 2] {
    let found =
        [1, 3].map(|threads| map(problem, &Options { threads, ..options }, &|_| {}).unwrap());
    assert_eq!(found[0].0, found[1].0, "{}", problem.objective);
    found
}

#[test]
fn a_large_search_is_the_same_on_any_number_of_threads() {
    let fabric = spec::fabric("torus:16x16x16").unwrap();
    let routing = Routing::default_for(&fabric);
    let list: Vec<(u32, u32)> = (0..4096).map(|n| (n, 2)).collect();
    let alloc = allocation(&fabric, &list);
    // Pairs that fit no grid, so that all parts of the search have work.
    let pairs = (0..8192u32).flat_map(|t| [(t, t * 5 % 8191, 8.0, 1), (t, t ^ 1, 64.0, 1)]);
    let exchange = Exchange::new(8192, pairs).unwrap();
    for objective in [Objective::WorstNetworkLink, Objective::HopBytes] {
        let problem = Problem {
            objective,
            ..Problem::new(&fabric, &routing, &exchange, &alloc)
        };
        let options = Options {
            runs: 1,
            ..quick(3, 20_000)
        };
        let [one, three] = on_one_and_three_threads(&problem, options);
        assert_eq!((one.1.threads, three.1.threads), (1, 3));
        assert_eq!(one.1.trials, three.1.trials);
    }
}

#[test]
fn a_fat_tree_is_searched_the_same_on_any_number_of_threads() {
    let fabric = spec::fabric("fattree:k=8,levels=3").unwrap();
    let routing = Routing::named(&fabric, "updown").unwrap();
    let alloc = allocation(&fabric, &(0..128).map(|n| (n, 1)).collect::<Vec<_>>());
    let pairs =
        (0..120u32).flat_map(|t| [7, 11, 60].map(|d| (t, (t * 5 + d) % 120, f64::from(d), 1)));
    let exchange = Exchange::new(120, pairs).unwrap();
    for objective in [Objective::WorstNetworkLink, Objective::WorstLink] {
        let problem = Problem {
            objective,
            ..Problem::new(&fabric, &routing, &exchange, &alloc)
        };
        let [one, _] = on_one_and_three_threads(&problem, quick(3, 40_000));
        let scores = [&one.1.result, &one.1.baseline].map(|e| e.score(&objective));
        assert!(scores[0] < scores[1], "{scores:?}");
    }
}

/// A triangular torus of tasks. A patch of it in every group sends too much to six other groups; with the best
/// assignment no cable carries more than six flows. A search among all places ends at seven.
#[test]
fn a_dragonfly_is_searched_by_groups_the_same_on_any_number_of_threads() {
    let fabric = spec::fabric("dragonfly:17x8:nodes=4,global=1").unwrap();
    let routing = Routing::default_for(&fabric);
    let alloc = allocation(&fabric, &(0..512).map(|n| (n, 1)).collect::<Vec<_>>());
    let at = |x: u32, y: u32| x % 32 * 16 + y % 16;
    let steps = [(0, 1), (0, 15), (1, 0), (31, 0), (1, 15), (31, 1)];
    let pairs = (0..512u32).flat_map(|t| {
        let (x, y) = (t / 16, t % 16);
        steps.map(|(i, j)| (t, at(x + i, y + j), 12.5e6, 1))
    });
    let exchange = Exchange::new(512, pairs).unwrap();
    let problem = Problem {
        objective: Objective::WorstNetworkLink,
        ..Problem::new(&fabric, &routing, &exchange, &alloc)
    };
    let [one, _] = on_one_and_three_threads(&problem, quick(3, 1_000_000));
    let flows = one.1.result.worst_network_link_seconds / 1e-3;
    assert!(
        flows < 6.5,
        "{flows} of {}",
        one.1.baseline.worst_network_link_seconds / 1e-3
    );
}

#[test]
fn progress_comes_with_the_seconds_and_ends_at_the_result() {
    let fabric = spec::fabric("torus:4x4").unwrap();
    let routing = Routing::default_for(&fabric);
    let list: Vec<(u32, u32)> = (0..16).map(|n| (n, 2)).collect();
    let alloc = allocation(&fabric, &list);
    let ring = (0..32u32).map(|t| (t, (t * 7 + 3) % 32, 8.0 + f64::from(t % 5), 1));
    let exchange = Exchange::new(32, ring).unwrap();
    let problem = Problem::new(&fabric, &routing, &exchange, &alloc);
    let options = Options {
        seconds: 0.05,
        trials: None,
        ..quick(1, 0)
    };
    let told = std::sync::Mutex::new(Vec::new());
    let (_, certificate) = map(&problem, &options, &|p| told.lock().unwrap().push(p)).unwrap();
    let told = told.into_inner().unwrap();
    assert!(told.len() > 2, "{told:?}");
    assert!(told.is_sorted_by(|a, b| a.done <= b.done && a.best >= b.best));
    let last = told.last().unwrap();
    assert_eq!(last.done, 1.0);
    assert_eq!(last.bound, certificate.bound.worst_link_seconds);
    assert_eq!(last.best, certificate.result.worst_link_seconds);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn never_worse_than_any_baseline_and_the_bound_holds(
        dims in prop::collection::vec(1u32..5, 1..4),
        nodes_per_router in 1u32..3,
        slots in prop::collection::vec(1u32..4, 1..12),
        edges in prop::collection::vec((0u32..64, 0u32..64, 0u32..1000), 0..80),
        minimal: bool, objective in 0..4u8, fill in 1usize..=100, seed: u64,
    ) {
        let words: Vec<String> = dims.iter().map(u32::to_string).collect();
        let text = format!("torus:{}:nodes={nodes_per_router}", words.join("x"));
        let fabric = spec::fabric(&text).unwrap();
        let routing = if minimal {
            Routing::Minimal(MinimalPaths::new(&fabric))
        } else {
            Routing::default_for(&fabric)
        };
        let count = fabric.nodes().len();
        let list: Vec<(u32, u32)> = slots.iter().take(count).enumerate()
            .map(|(i, &c)| (((i * 7) % count) as u32, c)).collect();
        let mut seen = std::collections::HashSet::new();
        let list: Vec<_> = list.into_iter().filter(|(n, _)| seen.insert(*n)).collect();
        let alloc = allocation(&fabric, &list);
        let tasks = (alloc.capacity() * fill).div_ceil(100);
        let n = tasks as u32;
        let exchange = Exchange::new(
            tasks, edges.iter().map(|&(a, b, w)| (a % n, b % n, f64::from(w), 1)),
        ).unwrap();
        let places = alloc.nodes().len();
        let costs: Vec<f32> = (0..places * places).map(|i| (i * i % 17) as f32).collect();
        let objective = match objective {
            0 => Objective::WorstLink,
            1 => Objective::WorstNetworkLink,
            2 => Objective::HopBytes,
            _ => Objective::RouteCost(&costs),
        };
        let problem = Problem { objective, ..Problem::new(&fabric, &routing, &exchange, &alloc) };
        let (placement, certificate) = map(&problem, &quick(seed, 2_000), &|_| {}).unwrap();
        // The placement is valid and its cost matches the certificate.
        Placement::new(&fabric, &alloc, placement.slots().to_vec()).unwrap();
        prop_assert_eq!(&evaluate(&problem, &placement).unwrap(), &certificate.result);
        for which in [Baseline::InOrder, Baseline::RoundRobin, Baseline::Random] {
            let other = baseline(&problem, which, seed).unwrap().unwrap();
            let cost = evaluate(&problem, &other).unwrap();
            let keeps = cost.keeps_limits(&certificate.baseline, &objective);
            // A placement that is better by less than a change is worth is not returned.
            let ((value, tie), (found, found_tie)) =
                (cost.score(&objective), certificate.result.score(&objective));
            let hardly = match value < found * (1.0 - 1e-9) {
                true => value >= found * 0.999 && tie > found_tie * 1.01,
                false => tie >= found_tie * 0.99,
            };
            prop_assert!(!keeps || hardly || !cost.better_than(&certificate.result, &objective));
        }
        prop_assert!(certificate.result.keeps_limits(&certificate.baseline, &objective));
        let above = |value: f64, bound: f64| value >= bound * (1.0 - 1e-6);
        let (r, b) = (&certificate.result, &certificate.bound);
        prop_assert!(above(r.worst_link_seconds, b.worst_link_seconds));
        prop_assert!(above(r.worst_network_link_seconds, b.worst_network_link_seconds));
        prop_assert!(above(r.hop_bytes, b.hop_bytes));
        prop_assert!(above(r.off_node_bytes, b.off_node_bytes));
        // The same on one thread.
        let single = Options { threads: 1, ..quick(seed, 2_000) };
        prop_assert_eq!(map(&problem, &single, &|_| {}).unwrap().0, placement);
    }
}

#[test]
fn small_messages_on_gemini_load_links_with_their_packets() {
    // Task 0 sends 1,000 messages of 16 B: one PUT of 96 B each, answered by 9 B; task 2 sends 16,000 B in one
    // message: 250 GETs of 81 B there, 105 B around them. By payload both links carry the same.
    let fabric = spec::fabric("gemini:4x2x2").unwrap();
    let routing = Routing::default_for(&fabric);
    let node = |x, z| fabric.nodes_on(fabric.router_at(&[x, 0, z]).unwrap())[0].0;
    let alloc = allocation(
        &fabric,
        &[(0, 0), (1, 0), (0, 1), (1, 1)].map(|(x, z)| (node(x, z), 1)),
    );
    let exchange = Exchange::new(4, [(0, 1, 16e3, 1000), (2, 3, 16e3, 1)]).unwrap();
    let placement = Placement::in_order(&alloc, 4).unwrap();
    let loads = Overhead::of(&fabric).loads(&fabric, &exchange).unwrap();
    let mut problem = Problem::new(&fabric, &routing, &exchange, &alloc);
    let payload = evaluate(&problem, &placement).unwrap();
    problem.loads = loads.exchange.as_ref();
    let wire = evaluate(&problem, &placement).unwrap();
    let [small, large] = [0, 2].map(|t| fabric.node(placement.node(t)).inject.index());
    assert_eq!(
        (payload.link_bytes[small], payload.link_bytes[large]),
        (16e3, 16e3)
    );
    assert_eq!(wire.link_bytes[small], 96e3);
    assert_eq!(wire.link_bytes[large], 250.0 * 81.0 + 105.0);
    // Acknowledgements load the way back; hop-bytes still count the payload only.
    let back = fabric.node(placement.node(1)).inject.index();
    assert_eq!(
        (payload.link_bytes[back], wire.link_bytes[back]),
        (0.0, 9e3)
    );
    assert_eq!(
        (payload.hop_bytes, payload.off_node_bytes),
        (wire.hop_bytes, wire.off_node_bytes)
    );
}

/// Every link's bytes are those of exact fractions: seven of nine parts of a valiant split are not seven of nine in
/// single precision.
#[test]
fn shares_of_path_sets_are_in_double_precision() {
    let spec::Described { fabric, .. } = spec::machine("aries:4x2x4").unwrap();
    for way in ["minimal", "valiant", "adaptive:0.6"] {
        let routing = Routing::named(&fabric, way).unwrap();
        let alloc = allocation(&fabric, &[(0, 1), (fabric.nodes().len() as u32 - 1, 1)]);
        let exchange = Exchange::new(2, [(0, 1, 9e9, 1)]).unwrap();
        let problem = Problem::new(&fabric, &routing, &exchange, &alloc);
        let placement = Placement::in_order(&alloc, 2).unwrap();
        let cost = evaluate(&problem, &placement).unwrap();
        for router in fabric.router_ids() {
            let sum = |ends: &dyn Fn(hopbyte_fabric::LinkId) -> End| -> f64 {
                let at = fabric
                    .link_ids()
                    .filter(|&l| ends(l) == End::Router(router));
                at.map(|l| cost.link_bytes[l.index()]).sum()
            };
            let into = sum(&|l| fabric.link(l).to);
            let out = sum(&|l| fabric.link(l).from);
            assert!((into - out).abs() < 1e-4, "{way}: {into} {out}");
        }
    }
}
