//! Orders of whole hosts: what launchers can obey, never worse than any sorted order, groups in their NVLink domain.

#![allow(clippy::unwrap_used)]

use hopbyte_fabric::random::Random;
use hopbyte_fabric::spec::Described;
use hopbyte_fabric::{Allocation, NodeId, Placement, declared, spec};
use hopbyte_map::{MapError, Objective, Options, Problem, evaluate, map};
use std::collections::{BTreeMap, BTreeSet};

const NVL72: &str = "fattree:down=72x8,up=1x72,rails=4,link=50,hosts=gb200-nvl72";

fn quick(trials: u64) -> Options {
    Options {
        trials: Some(trials),
        threads: 2,
        ..Options::default()
    }
}

/// Hosts with their places.
type Hosts = Vec<(String, Vec<NodeId>)>;

fn hosts(machine: &Described) -> Hosts {
    let all = machine.fabric.places_by_host().into_iter();
    all.map(|(name, places)| (name.to_owned(), places))
        .collect()
}

fn allocation(machine: &Described, hosts: &Hosts) -> Allocation {
    let nodes = hosts.iter().flat_map(|h| h.1.iter().map(|&n| (n, 1)));
    Allocation::new(&machine.fabric, nodes.collect()).unwrap()
}

fn placed(machine: &Described, allocation: &Allocation, hosts: &Hosts, tasks: usize) -> Placement {
    let nodes = hosts.iter().flat_map(|h| h.1.iter().copied()).take(tasks);
    Placement::on_nodes(&machine.fabric, allocation, nodes).unwrap()
}

/// Whether the places of every `each` consecutive ranks are those of one host, in order.
fn is_whole(placement: &Placement, hosts: &Hosts) -> bool {
    let each = hosts[0].1.len();
    let all: BTreeSet<&[NodeId]> = hosts.iter().map(|h| &h.1[..]).collect();
    let nodes: Vec<NodeId> = placement.slots().iter().map(|s| s.node).collect();
    nodes.chunks(each).all(|c| all.contains(c))
}

/// Groups of consecutive ranks with all ranks in one unit, and the most that fit.
fn whole_groups(
    machine: &Described,
    placement: &Placement,
    size: usize,
    hosts: &Hosts,
) -> (usize, usize) {
    let inside = machine.fabric.inside().unwrap();
    let unit = |n: NodeId| inside.unit_of(n).unwrap();
    let mut rooms: BTreeMap<u32, usize> = BTreeMap::new();
    for (_, places) in hosts {
        *rooms.entry(unit(places[0])).or_default() += places.len();
    }
    let groups = placement.slots().chunks(size);
    let count = groups.len();
    let whole = groups
        .filter(|g| g.iter().all(|s| unit(s.node) == unit(g[0].node)))
        .count();
    (whole, count.min(rooms.values().map(|r| r / size).sum()))
}

/// Drawn plans on drawn allocations: nothing is worse than an order that people use, and groups stay in their domain.
#[test]
fn drawn_plans_on_drawn_allocations() {
    let mut rng = Random::stream(11, 0);
    let machines = [
        "fattree:down=16x8,up=1x8,rails=8,link=50,hosts=dgx-h100",
        "fattree:down=8x8,up=1x4,rails=8,link=50,hosts=mi300x",
        NVL72,
    ]
    .map(|text| spec::machine(text).unwrap());
    let mut wide = 0;
    for case in 0..36 {
        let machine = &machines[case % machines.len()];
        let mut all = hosts(machine);
        rng.shuffle(&mut all);
        let count = [4, 8, 16, 32][rng.below(4)].min(all.len() / 2);
        // Racks that are allocated whole, or fragments.
        if rng.below(2) == 0 {
            all = hosts(machine);
        }
        all.truncate(count + rng.below(3));
        rng.shuffle(&mut all);
        let ranks = count * all[0].1.len();
        // A tensor group of up to the domain.
        let tp = match case % machines.len() {
            2 => 4 << rng.below(4),
            _ => 1 << rng.below(5),
        };
        let pp = 1 << rng.below(3);
        if !ranks.is_multiple_of(tp * pp) || tp * pp > ranks {
            continue;
        }
        let dp = ranks / (tp * pp);
        let ep = if dp.is_multiple_of(4) && rng.below(2) == 0 {
            4
        } else {
            1
        };
        let plan = format!("plan:dp={dp},tp={tp},pp={pp},ep={ep}");
        let exchange = declared::traffic(&plan).unwrap().total();
        let allocation = allocation(machine, &all);
        let problem = Problem {
            keep_hosts: true,
            ..Problem::new(&machine.fabric, &machine.routing, &exchange, &allocation)
        };
        let (placement, c) = map(&problem, &quick(6_000), &|_| {}).unwrap();
        assert!(is_whole(&placement, &all), "{case} {plan}");
        assert_eq!(evaluate(&problem, &placement).unwrap(), c.result);
        let mut orders = vec![all.clone(), all.clone(), all.clone()];
        orders[1].sort();
        orders[2].sort_by_key(|h| h.0[1..].parse::<usize>().unwrap());
        for order in &orders {
            let other = placed(machine, &allocation, order, ranks);
            let cost = evaluate(&problem, &other).unwrap();
            assert!(
                !cost.better_than(&c.result, &problem.objective),
                "{case} {plan}"
            );
        }
        let (result, bound) = (c.result.worst_link_seconds, c.bound.worst_link_seconds);
        assert!(
            bound <= result * (1.0 + 1e-6),
            "{case} {plan}: {bound} > {result}"
        );
        let (whole, fit) = whole_groups(machine, &placement, tp, &all);
        // If not all fit, the divided ones are the slowest, and hop-bytes decide where the others are.
        let each = all[0].1.len();
        if fit == ranks / tp && (tp.is_multiple_of(each) || each.is_multiple_of(tp)) {
            assert_eq!(whole, fit, "{case} {plan}: groups in one domain");
            wide += usize::from(tp > each);
        }
    }
    assert!(wide > 2, "{wide} cases with groups of several hosts");
}

/// A search has seen everything that a shorter one has seen, and threads do not matter.
#[test]
fn longer_searches_are_never_worse_and_threads_change_nothing() {
    let machine = spec::machine(NVL72).unwrap();
    let mut all = hosts(&machine);
    Random::stream(2, 0).shuffle(&mut all);
    all.truncate(20);
    let exchange = declared::traffic("plan:dp=4,tp=2,pp=8,cp=1")
        .unwrap()
        .total();
    let allocation = allocation(&machine, &all);
    for objective in [
        Objective::WorstLink,
        Objective::WorstNetworkLink,
        Objective::HopBytes,
    ] {
        let problem = Problem {
            objective,
            keep_hosts: true,
            ..Problem::new(&machine.fabric, &machine.routing, &exchange, &allocation)
        };
        let mut before: Option<(f64, f64)> = None;
        for trials in [0, 500, 2_000, 9_000, 30_000] {
            let ends = [1, 3].map(|threads| {
                let options = Options {
                    threads,
                    ..quick(trials)
                };
                map(&problem, &options, &|_| {}).unwrap()
            });
            assert_eq!(ends[0].0.slots(), ends[1].0.slots(), "{trials}");
            let now = ends[0].1.result.score(&objective);
            if let Some(before) = before {
                assert!(
                    now.0 <= before.0 * (1.0 + 1e-9),
                    "{trials}: {now:?} > {before:?}"
                );
            }
            before = Some(now);
        }
    }
}

/// Nodes with several slots on a machine without described hosts, and hosts of different sizes.
#[test]
fn nodes_with_slots_are_hosts_too() {
    let fabric = spec::fabric("torus:4x4x2").unwrap();
    let routing = hopbyte_fabric::Routing::default_for(&fabric);
    let exchange = declared::traffic("stencil:8x8:9:1000").unwrap().total();
    for rooms in [
        vec![4u32; 20],
        (0..20).map(|i| if i % 3 == 0 { 8 } else { 4 }).collect(),
    ] {
        let mut nodes: Vec<NodeId> = fabric.node_ids().collect();
        Random::stream(5, 0).shuffle(&mut nodes);
        let nodes: Vec<(NodeId, u32)> = nodes.into_iter().zip(rooms).collect();
        let allocation = Allocation::new(&fabric, nodes.clone()).unwrap();
        // Host links carry the same in any order of nodes.
        for objective in [Objective::WorstNetworkLink, Objective::HopBytes] {
            let problem = Problem {
                objective,
                keep_hosts: true,
                ..Problem::new(&fabric, &routing, &exchange, &allocation)
            };
            let (placement, c) = map(&problem, &quick(20_000), &|_| {}).unwrap();
            let (now, was) = (c.result.score(&objective).0, c.baseline.score(&objective).0);
            assert!(now < 0.9 * was, "{}: {now} of {was}", objective);
            // Every run of ranks on a node is a block of the order of the allocation.
            let mut first = 0;
            for &(_, room) in &nodes {
                let block = first..(first + room).min(64);
                first = block.end;
                let on: BTreeSet<NodeId> = block.map(|t| placement.node(t)).collect();
                assert!(on.len() <= 1);
            }
        }
    }
}

/// A current placement that splits a host can not be continued by an order of hosts.
#[test]
fn a_current_placement_that_splits_hosts_is_refused() {
    let machine = spec::machine(NVL72).unwrap();
    let mut all = hosts(&machine);
    all.truncate(4);
    let exchange = declared::traffic("plan:dp=4,tp=4,pp=1").unwrap().total();
    let allocation = allocation(&machine, &all);
    let whole = placed(&machine, &allocation, &all, 16);
    let split = Placement::round_robin(&allocation, 16).unwrap();
    let mut nodes: Vec<NodeId> = split.slots().iter().map(|s| s.node).collect();
    nodes.swap(3, 4);
    let split = Placement::on_nodes(&machine.fabric, &allocation, nodes).unwrap();
    for (current, good) in [(&whole, true), (&split, false)] {
        let problem = Problem {
            keep_hosts: true,
            current: Some(current),
            ..Problem::new(&machine.fabric, &machine.routing, &exchange, &allocation)
        };
        let found = map(&problem, &quick(500), &|_| {});
        match good {
            true => assert!(found.unwrap().1.current.is_some()),
            false => {
                let error = found.unwrap_err();
                assert!(matches!(error, MapError::BadOption { .. }), "{error}");
                assert!(error.to_string().contains("rank 3"), "{error}");
            }
        }
    }
}

/// Where ranks of hosts may mix, nothing is worse than a short search over orders of hosts: many hosts in a bad order, of
/// which swaps of single ranks find little.
#[test]
fn mixing_is_no_worse_than_keeping() {
    let machine =
        spec::machine("fattree:down=32x16,up=1x32,rails=8,link=50,hosts=dgx-h100").unwrap();
    let mut all = hosts(&machine);
    Random::stream(4, 0).shuffle(&mut all);
    let exchange = declared::traffic("plan:dp=16,tp=8,pp=4").unwrap().total();
    let allocation = allocation(&machine, &all);
    let mixed = Problem::new(&machine.fabric, &machine.routing, &exchange, &allocation);
    let kept = Problem {
        keep_hosts: true,
        ..mixed
    };
    let [(_, mixed), (_, kept)] =
        [mixed, kept].map(|problem| map(&problem, &quick(2_000), &|_| {}).unwrap());
    assert!(
        !kept
            .result
            .better_than(&mixed.result, &Objective::WorstLink)
    );
    assert!(mixed.result.hop_bytes < 0.5 * mixed.baseline.hop_bytes);
}
