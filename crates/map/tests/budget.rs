//! Laws of migration: within the budget, never worse than staying, and only if it pays.

#![allow(clippy::unwrap_used)]

use hopbyte_fabric::random::Random;
use hopbyte_fabric::wire::{Network, Overhead};
use hopbyte_fabric::{Allocation, Exchange, NodeId, Placement, Routing, Slot, spec};
use hopbyte_map::budget::{Advice, Stakes, weigh, within};
use hopbyte_map::{Objective, Options, Problem, evaluate, map};
use proptest::prelude::*;

const STAKES: Stakes = Stakes {
    budget: None,
    remaining_seconds: None,
    communication_ratio: 1.0,
    bytes_per_task: 1e6,
};

fn options() -> Options {
    Options {
        trials: Some(4000),
        threads: 1,
        ..Options::default()
    }
}

/// A ring of tasks in a random order by the seed.
fn shuffled(tasks: u32, seed: u64) -> Vec<u32> {
    Random::new(seed).permutation(tasks as usize)
}

fn ring(tasks: u32, bytes: f64) -> Exchange {
    let sends = (0..tasks).map(|t| (t, (t + 1) % tasks, bytes * f64::from(1 + t % 3), 1));
    Exchange::new(tasks as usize, sends).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn moves_keep_to_the_budget_and_are_never_worse(
        budget in 0usize..20, seed: u64, spare in 0u32..2, goal in 0u8..4, counted in 0usize..3
    ) {
        let fabric = spec::fabric("torus:4x4").unwrap();
        let routing = Routing::default_for(&fabric);
        let exchange = ring(16, 1e6);
        // Two slots per node, half of them or fewer taken.
        let nodes = (0..8 + 8 * spare).map(|n| (NodeId(n), 2)).collect();
        let allocation = Allocation::new(&fabric, nodes).unwrap();
        let all: Vec<Slot> = allocation.slots().collect();
        let order = shuffled(16, seed);
        let slots = order.iter().map(|&i| all[i as usize]).collect();
        let current = Placement::new(&fabric, &allocation, slots).unwrap();
        let costs: Vec<f32> = shuffled((allocation.nodes().len() * allocation.nodes().len()) as u32, seed)
            .iter().map(|&c| c as f32).collect();
        let objective = match goal {
            0 => Objective::WorstLink,
            1 => Objective::WorstNetworkLink,
            2 => Objective::HopBytes,
            _ => Objective::RouteCost(&costs),
        };
        let gemini = Overhead::Network(Network::named("gemini").unwrap());
        let counted = [Overhead::Payload, Overhead::Response(0.25), gemini][counted];
        let loads = counted.loads(&fabric, &exchange).unwrap();
        let problem = Problem {
            current: Some(&current),
            objective,
            loads: loads.exchange.as_ref(),
            ..Problem::new(&fabric, &routing, &exchange, &allocation)
        };
        let found = map(&problem, &options(), &|_| {}).unwrap();
        let (target, target_cost) = (found.0.clone(), found.1.result.clone());
        let now = evaluate(&problem, &current).unwrap();
        let (placement, cost) = within(&problem, &current, &target, budget, None).unwrap();
        prop_assert!(placement.moved(&current) <= budget);
        prop_assert!(!now.better_than(&cost, &objective));
        prop_assert_eq!(cost.score(&objective), evaluate(&problem, &placement).unwrap().score(&objective));
        let stakes = Stakes { budget: Some(budget), ..STAKES };
        let (placed, certificate, migration) = weigh(&problem, found, &stakes, None).unwrap();
        prop_assert!(placed.moved(&current) <= budget && migration.moving_tasks <= budget);
        prop_assert_eq!(certificate.moved_tasks, placed.moved(&current));
        if migration.advice == Advice::Stay {
            prop_assert_eq!(&placed, &current);
        } else {
            prop_assert!(certificate.result.better_than(&now, &objective));
            prop_assert!(migration.move_seconds > 0.0);
        }
        // A budget for all tasks reaches the target.
        let (_, best) = within(&problem, &current, &target, 64, None).unwrap();
        prop_assert!(!target_cost.better_than(&best, &objective) || now.score(&objective) == best.score(&objective)
            || best.better_than(&now, &objective));
    }
}

#[test]
fn a_single_move_to_a_free_slot_near_the_partner_is_found() {
    let fabric = spec::fabric("fattree:down=2x3,up=1x1").unwrap();
    let routing = Routing::default_for(&fabric);
    let exchange = Exchange::new(2, [(1, 0, 1.0, 1)]).unwrap();
    let node = |name: &str| fabric.find_node(name).unwrap();
    let nodes = [("h4", 1), ("h1", 3), ("h2", 1), ("h3", 2)];
    let nodes = nodes.iter().map(|&(name, slots)| (node(name), slots));
    let allocation = Allocation::new(&fabric, nodes.collect()).unwrap();
    let slots = ["h2", "h4"].map(|name| Slot {
        node: node(name),
        slot: 0,
    });
    let current = Placement::new(&fabric, &allocation, slots.to_vec()).unwrap();
    let problem = Problem {
        current: Some(&current),
        objective: Objective::HopBytes,
        ..Problem::new(&fabric, &routing, &exchange, &allocation)
    };
    let target = map(&problem, &options(), &|_| {}).unwrap().0;
    let (_, cost) = within(&problem, &current, &target, 1, None).unwrap();
    assert_eq!(cost.hop_bytes, 0.0);
}

#[test]
fn a_move_that_takes_longer_than_it_gains_is_not_made() {
    let fabric = spec::fabric("torus:8:link=1,host=1").unwrap();
    let routing = Routing::default_for(&fabric);
    let exchange = ring(8, 1e6);
    let allocation = Allocation::new(&fabric, (0..8).map(|n| (NodeId(n), 1)).collect()).unwrap();
    let all: Vec<Slot> = allocation.slots().collect();
    // Neighbours are half the ring apart.
    let slots = [0, 4, 1, 5, 2, 6, 3, 7].map(|i| all[i]).to_vec();
    let current = Placement::new(&fabric, &allocation, slots).unwrap();
    let problem = Problem {
        current: Some(&current),
        objective: Objective::WorstNetworkLink,
        ..Problem::new(&fabric, &routing, &exchange, &allocation)
    };
    let found = map(&problem, &options(), &|_| {}).unwrap();
    let ask = |stakes: &Stakes| weigh(&problem, found.clone(), stakes, None).unwrap();
    let (placement, certificate, free) = ask(&STAKES);
    assert_eq!((free.advice, free.gain_seconds), (Advice::Move, None));
    assert_eq!(placement.moved(&current), free.moving_tasks);
    assert_eq!(free.moving_bytes, free.moving_tasks as f64 * 1e6);
    // At least one task's megabyte crosses a link of 1 GB/s.
    assert!(free.move_seconds >= 1e-3);
    let ratio = certificate.result.worst_network_link_seconds
        / certificate.current.unwrap().worst_network_link_seconds;
    for (remaining, communication, advice) in [
        (100.0, 1.0, Advice::Move),
        (1e-4, 1.0, Advice::Stay),
        (100.0, 0.0, Advice::Stay),
    ] {
        let (placement, certificate, migration) = ask(&Stakes {
            remaining_seconds: Some(remaining),
            communication_ratio: communication,
            ..STAKES
        });
        let gain = remaining * communication * (1.0 - ratio);
        assert!((migration.gain_seconds.unwrap() - gain).abs() <= 1e-12 * remaining);
        assert_eq!(migration.advice, advice, "{remaining}");
        assert_eq!(placement == current, advice == Advice::Stay);
        assert_eq!(certificate.moved_tasks == 0, advice == Advice::Stay);
    }
    for wrong in [
        Stakes {
            communication_ratio: 1.5,
            ..STAKES
        },
        Stakes {
            bytes_per_task: f64::NAN,
            ..STAKES
        },
        Stakes {
            remaining_seconds: Some(-1.0),
            ..STAKES
        },
    ] {
        assert!(weigh(&problem, found.clone(), &wrong, None).is_err());
    }
    let homeless = Problem {
        current: None,
        ..problem
    };
    let found = map(&homeless, &options(), &|_| {}).unwrap();
    assert!(
        weigh(&homeless, found, &STAKES, None)
            .unwrap_err()
            .to_string()
            .contains("current")
    );
}

#[test]
fn whole_nodes_change_places_where_no_single_task_is_worth_it() {
    // Planes of a 4x4x4 stencil on four nodes of a ring, the second and the third exchanged.
    let fabric = spec::fabric("torus:8").unwrap();
    let routing = Routing::default_for(&fabric);
    let at = |t: u32| [t / 16, t / 4 % 4, t % 4];
    let near = |a: u32, b: u32| (0..3).map(|d| at(a)[d].abs_diff(at(b)[d])).sum::<u32>() == 1;
    let pairs = (0..64).flat_map(|a| (0..64).map(move |b| (a, b)));
    let sends = pairs
        .filter(|&(a, b)| near(a, b))
        .map(|(a, b)| (a, b, 1e4, 1));
    let exchange = Exchange::new(64, sends).unwrap();
    let allocation = Allocation::new(&fabric, (0..4).map(|n| (NodeId(n), 16)).collect()).unwrap();
    let on = |order: [u32; 4]| {
        let nodes = (0..64).map(|t| NodeId(order[t / 16]));
        Placement::on_nodes(&fabric, &allocation, nodes).unwrap()
    };
    let (current, target) = (on([0, 2, 1, 3]), on([3, 2, 1, 0]));
    let problem = Problem {
        current: Some(&current),
        ..Problem::new(&fabric, &routing, &exchange, &allocation)
    };
    let (placement, cost) = within(&problem, &current, &target, 32, None).unwrap();
    assert_eq!(placement.moved(&current), 32);
    let best = evaluate(&problem, &target).unwrap();
    assert_eq!(cost.worst_link_seconds, best.worst_link_seconds);
    let (placement, _) = within(&problem, &current, &target, 31, None).unwrap();
    assert!(placement.moved(&current) <= 31);
}
