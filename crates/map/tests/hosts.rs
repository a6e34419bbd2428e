//! Mapping onto hosts with links inside: groups stay on their host, and nothing is worse than a baseline.

#![allow(clippy::unwrap_used)]

use hopbyte_fabric::faults::Fault;
use hopbyte_fabric::plan::reducing_groups;
use hopbyte_fabric::random::Random;
use hopbyte_fabric::spec::Described;
use hopbyte_fabric::{Allocation, Exchange, NodeId, Placement, declared, spec};
use hopbyte_map::{Baseline, MapError, Objective, Options, Problem, baseline, evaluate, map};
use std::collections::BTreeSet;

fn quick(trials: u64) -> Options {
    Options {
        trials: Some(trials),
        threads: 2,
        ..Options::default()
    }
}

/// The places of the first hosts, host by host.
fn hosts(machine: &Described, count: usize) -> Vec<NodeId> {
    let all = machine.fabric.places_by_host().into_iter();
    all.take(count).flat_map(|h| h.1).collect()
}

fn allocation(machine: &Described, nodes: &[NodeId]) -> Allocation {
    let rooms = nodes.iter().map(|&n| (n, 1)).collect();
    Allocation::new(&machine.fabric, rooms).unwrap()
}

/// Number of groups of `size` consecutive ranks with all ranks in one unit of hosts.
fn whole_groups(machine: &Described, placement: &Placement, size: usize) -> usize {
    let inside = machine.fabric.inside().unwrap();
    placement
        .slots()
        .chunks(size)
        .filter(|group| {
            let units = group.iter().map(|s| inside.unit_of(s.node).unwrap());
            units.collect::<BTreeSet<u32>>().len() == 1
        })
        .count()
}

/// The case that was answered wrongly: tensor-parallel groups of eight on hosts of eight GPUs.
#[test]
fn tensor_parallel_groups_stay_on_their_host() {
    let machine = spec::machine("gpu-rails").unwrap();
    let exchange = declared::traffic("plan:dp=16,tp=8,pp=1").unwrap().total();
    let in_order = hosts(&machine, 16);
    // As allocated by rail, and shuffled.
    let mut by_rail = in_order.clone();
    by_rail.sort_unstable();
    let mut shuffled = in_order.clone();
    Random::stream(7, 0).shuffle(&mut shuffled);
    for nodes in [in_order, by_rail, shuffled] {
        let allocation = allocation(&machine, &nodes);
        let problem = Problem::new(&machine.fabric, &machine.routing, &exchange, &allocation);
        let (placement, certificate) = map(&problem, &quick(20_000), &|_| {}).unwrap();
        assert_eq!(whole_groups(&machine, &placement, 8), 16);
        let best = &certificate.best_baseline.1;
        assert!(!best.better_than(&certificate.result, &problem.objective));
        let (result, bound) = (&certificate.result, &certificate.bound);
        assert!(bound.worst_link_seconds <= result.worst_link_seconds);
        // A ring of eight keeps 60 GB inside: no placement is better.
        assert!(bound.worst_link_seconds >= (1.0 - 1e-6) * result.worst_link_seconds);
        // The links inside are the slowest: 450 GB/s for most of the bytes.
        let worst = result.worst_link.unwrap();
        assert!(machine.fabric.is_inner(worst));
    }
}

/// Rings of context parallelism carry more bytes than tensor-parallel pairs: by the objective alone the pairs are divided.
#[test]
fn groups_of_the_problem_stay_together() {
    let machine = spec::machine("fattree:down=8x8,up=1x8,rails=8,link=25,hosts=dgx-h100").unwrap();
    let nodes: Vec<NodeId> = hosts(&machine, 8);
    let allocation = allocation(&machine, &nodes);
    let text = "plan:dp=2,tp=2,pp=4,cp=4";
    let groups = reducing_groups(text).unwrap().unwrap();
    let exchange = declared::traffic(text).unwrap().total();
    let free = Problem::new(&machine.fabric, &machine.routing, &exchange, &allocation);
    let problem = Problem {
        together: &groups[0].1,
        ..free
    };
    let (placement, c) = map(&free, &quick(1_000), &|_| {}).unwrap();
    assert!(whole_groups(&machine, &placement, 2) < 32);
    assert!(c.divided.is_none());
    let (kept, certificate) = map(&problem, &quick(1_000), &|_| {}).unwrap();
    assert_eq!(whole_groups(&machine, &kept, 2), 32);
    let time = certificate.result.worst_link_seconds;
    assert!(time <= certificate.baseline.worst_link_seconds);
    let divided = certificate.divided.unwrap();
    assert!(divided.worst_link_seconds < time);
    assert!(divided.worst_link_seconds <= c.result.worst_link_seconds * (1.0 + 1e-9));
    // Where a domain has no room for a group, all are placed by the objective.
    let wide: Vec<Vec<u32>> = (0..4).map(|g| (16 * g..16 * (g + 1)).collect()).collect();
    let problem = Problem {
        together: &wide,
        ..free
    };
    let (placement, _) = map(&problem, &quick(1_000), &|_| {}).unwrap();
    assert!(whole_groups(&machine, &placement, 2) < 32);
}

#[test]
fn an_nvlink_domain_of_several_hosts_takes_wide_groups() {
    let machine =
        spec::machine("fattree:down=72x32,up=1x72,rails=4,link=50,hosts=gb200-nvl72").unwrap();
    // Groups of 32 on racks of 72 GPUs; the allocation has half of one rack.
    let exchange = declared::traffic("plan:dp=4,tp=32,pp=1").unwrap().total();
    let mut nodes = hosts(&machine, 18 * 2);
    nodes.drain(72..104);
    assert_eq!(nodes.len(), 112);
    nodes.extend(hosts(&machine, 18 * 3).split_off(144).into_iter().take(32));
    Random::stream(3, 0).shuffle(&mut nodes);
    let allocation = allocation(&machine, &nodes);
    let problem = Problem::new(&machine.fabric, &machine.routing, &exchange, &allocation);
    let (placement, _) = map(&problem, &quick(40_000), &|_| {}).unwrap();
    assert_eq!(whole_groups(&machine, &placement, 32), 4);
}

#[test]
fn nothing_is_worse_than_a_baseline_and_nothing_better_than_the_bound() {
    for text in [
        "fattree:down=4x4,up=1x2,rails=4,hosts=gh200-quad",
        "fattree:down=4x4,up=1x2,rails=4,hosts=gh200-quad/striped",
        "fattree:down=4x4,up=1x2,rails=4,hosts=gh200-quad/nearest",
        "torus:4x4:hosts=tpu-v4",
        "dragonfly:3x2:nodes=4,hosts=plain",
        "fattree:down=8x4,up=1x4,hosts=mi300x",
    ] {
        let machine = spec::machine(text).unwrap();
        for (plan, objective) in [
            ("plan:dp=2,tp=4,pp=2", Objective::WorstLink),
            ("plan:dp=4,tp=2,pp=1", Objective::WorstNetworkLink),
            ("stencil:4x3:5", Objective::HopBytes),
            ("collective:alltoall:16:1000000", Objective::WorstLink),
        ] {
            let exchange = declared::traffic(plan).unwrap().total();
            let mut nodes = machine.fabric.places();
            Random::stream(5, 0).shuffle(&mut nodes);
            nodes.truncate(16);
            let allocation = allocation(&machine, &nodes);
            let problem = Problem {
                objective,
                ..Problem::new(&machine.fabric, &machine.routing, &exchange, &allocation)
            };
            let (placement, c) = map(&problem, &quick(4_000), &|_| {}).unwrap();
            assert_eq!(
                evaluate(&problem, &placement).unwrap(),
                c.result,
                "{text} {plan}"
            );
            for which in [Baseline::InOrder, Baseline::RoundRobin, Baseline::Random] {
                let other = baseline(&problem, which, 1).unwrap().unwrap();
                let cost = evaluate(&problem, &other).unwrap();
                assert!(!cost.better_than(&c.result, &objective), "{text} {plan}");
            }
            let (value, bound) = (c.result.score(&objective).0, c.bound.of(&objective));
            assert!(
                bound <= value * (1.0 + 1e-6),
                "{text} {plan}: {bound} > {value}"
            );
        }
    }
}

/// All placements of four tasks on four places of two hosts: the bound holds for the best, and the search comes near it.
#[test]
fn small_cases_are_solved() {
    let machine = spec::machine("fattree:down=4x2,up=1x2,rails=2,hosts=plain/rail").unwrap();
    let nodes: Vec<NodeId> = hosts(&machine, 2);
    assert_eq!(nodes.len(), 4);
    let allocation = allocation(&machine, &nodes);
    for seed in 0..20 {
        let mut rng = Random::stream(seed, 0);
        let entries: Vec<(u32, u32, f64, u64)> = (0..4)
            .flat_map(|a| (0..4).map(move |b| (a, b)))
            .filter(|(a, b)| a != b)
            .map(|(a, b)| (a, b, rng.below(1000) as f64 * 1e6, 1))
            .collect();
        let exchange = Exchange::new(4, entries).unwrap();
        let problem = Problem::new(&machine.fabric, &machine.routing, &exchange, &allocation);
        let mut best = f64::INFINITY;
        for order in permutations(4) {
            let nodes = order.iter().map(|&i| nodes[i]);
            let placement = Placement::on_nodes(&machine.fabric, &allocation, nodes).unwrap();
            best = best.min(evaluate(&problem, &placement).unwrap().worst_link_seconds);
        }
        let (_, c) = map(&problem, &quick(2_000), &|_| {}).unwrap();
        assert!(c.bound.worst_link_seconds <= best * (1.0 + 1e-6));
        let found = c.result.worst_link_seconds;
        assert!(
            found <= best * 1.15,
            "{seed}: {found} {best} {:?}",
            c.best_baseline
        );
    }
}

/// All placements of rings and cliques of six tasks on hosts with two or three places: the bound holds for the best, and
/// reaches it in most cases.
#[test]
fn rings_and_cliques_are_bounded() {
    let mut exact = 0;
    for (text, count) in [
        ("fattree:down=4x2,up=1x2,rails=2,hosts=plain/rail", 3),
        ("fattree:down=4x3,up=1x3,rails=3,hosts=plain/nearest", 2),
    ] {
        let machine = spec::machine(text).unwrap();
        let nodes: Vec<NodeId> = hosts(&machine, count);
        assert_eq!(nodes.len(), 6);
        let allocation = allocation(&machine, &nodes);
        let orders = permutations(6);
        for seed in 0..10 {
            let mut rng = Random::stream(seed, 1);
            let [ring, clique] = [0; 2].map(|_| 1e6 * (1 + rng.below(9)) as f64);
            let size = [2, 3, 6][rng.below(3)];
            let entry = |a: u32, b: u32| {
                let next = if (a + 1) % 6 == b { ring } else { 0.0 };
                let near = if a / size == b / size { clique } else { 0.0 };
                (a, b, next + near, 1)
            };
            let pairs = (0..6).flat_map(|a| (0..6).map(move |b| (a, b)));
            let entries: Vec<_> = pairs
                .filter(|(a, b)| a != b)
                .map(|(a, b)| entry(a, b))
                .collect();
            let exchange = Exchange::new(6, entries).unwrap();
            let problem = Problem::new(&machine.fabric, &machine.routing, &exchange, &allocation);
            let cost = |order: &Vec<usize>| {
                let nodes = order.iter().map(|&i| nodes[i]);
                let placement = Placement::on_nodes(&machine.fabric, &allocation, nodes).unwrap();
                evaluate(&problem, &placement).unwrap().worst_link_seconds
            };
            let best = orders.iter().map(cost).fold(f64::INFINITY, f64::min);
            let (_, c) = map(&problem, &quick(2_000), &|_| {}).unwrap();
            let bound = c.bound.worst_link_seconds;
            assert!(
                bound <= best * (1.0 + 1e-6),
                "{text} {seed}: {bound} > {best}"
            );
            assert!(
                c.result.worst_link_seconds <= best * (1.0 + 1e-6),
                "{text} {seed}"
            );
            exact += u32::from(bound >= best * (1.0 - 1e-6));
        }
    }
    assert!(exact >= 12, "{exact} of 20");
}

/// Experts in groups that no host has room for: each task's partners outside are counted, with its bytes in a ring.
#[test]
fn experts_on_hosts_are_bounded_exactly() {
    let machine = spec::machine("gpu-rails").unwrap();
    let nodes: Vec<NodeId> = hosts(&machine, 4);
    let allocation = allocation(&machine, &nodes);
    for plan in [
        "plan:dp=8,tp=4,ep=8",
        "plan:dp=32,tp=1,ep=16",
        "plan:dp=4,tp=8,ep=4",
    ] {
        let exchange = declared::traffic(plan).unwrap().total();
        let problem = Problem::new(&machine.fabric, &machine.routing, &exchange, &allocation);
        let (_, c) = map(&problem, &quick(500), &|_| {}).unwrap();
        let (bound, result) = (c.bound.worst_link_seconds, c.result.worst_link_seconds);
        assert!(bound >= result * (1.0 - 1e-6), "{plan}: {bound} {result}");
        assert!(bound <= result * (1.0 + 1e-6), "{plan}: {bound} {result}");
    }
}

fn permutations(n: usize) -> Vec<Vec<usize>> {
    if n == 0 {
        return vec![Vec::new()];
    }
    let shorter = permutations(n - 1);
    let insert = |p: &Vec<usize>, at: usize| {
        let mut p = p.clone();
        p.insert(at, n - 1);
        p
    };
    (0..n)
        .flat_map(|at| shorter.iter().map(move |p| insert(p, at)))
        .collect()
}

/// A search has seen everything that a shorter one has seen, and threads do not matter.
#[test]
fn longer_searches_are_never_worse_and_threads_change_nothing() {
    let machine = spec::machine("fattree:down=8x4,up=1x4,hosts=mi300x").unwrap();
    let exchange = declared::traffic("plan:dp=2,tp=4,pp=4").unwrap().total();
    let mut nodes = machine.fabric.places();
    Random::stream(9, 0).shuffle(&mut nodes);
    nodes.truncate(40);
    let allocation = allocation(&machine, &nodes);
    let problem = Problem::new(&machine.fabric, &machine.routing, &exchange, &allocation);
    let mut before = f64::INFINITY;
    for trials in [0, 1_000, 3_000, 10_000, 30_000] {
        let ends = [1, 3].map(|threads| {
            let options = Options {
                threads,
                ..quick(trials)
            };
            map(&problem, &options, &|_| {}).unwrap()
        });
        assert_eq!(ends[0].0.slots(), ends[1].0.slots(), "{trials}");
        assert_eq!(ends[0].1.result, ends[1].1.result, "{trials}");
        let now = ends[0].1.result.worst_link_seconds;
        assert!(now <= before, "{trials}: {now} > {before}");
        before = now;
    }
}

/// Dead links inside a host are named, not crossed.
#[test]
fn places_behind_dead_inner_links_are_refused() {
    let machine = spec::machine("fattree:down=4x4,up=1x2,rails=4,hosts=gh200-quad").unwrap();
    let inner = machine
        .fabric
        .link_ids()
        .nth(machine.fabric.network_links());
    let fault = Fault::Cable(inner.unwrap());
    let fabric = machine.fabric.clone().with_faults(&[fault]);
    let exchange = declared::traffic("collective:alltoall:16:1000")
        .unwrap()
        .total();
    let nodes: Vec<(NodeId, u32)> = fabric
        .places()
        .into_iter()
        .take(16)
        .map(|n| (n, 1))
        .collect();
    let allocation = Allocation::new(&fabric, nodes).unwrap();
    let problem = Problem::new(&fabric, &machine.routing, &exchange, &allocation);
    let refused = map(&problem, &quick(100), &|_| {}).unwrap_err();
    assert!(matches!(refused, MapError::Unroutable { .. }), "{refused}");
}
