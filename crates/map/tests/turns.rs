//! Phases that follow one another: their times add up.

#![allow(clippy::unwrap_used)]

use hopbyte_fabric::random::Random;
use hopbyte_fabric::{Allocation, Exchange, Fabric, Phase, Placement, Routing, Traffic, spec};
use hopbyte_map::{Baseline, Certificate, Options, Problem, Turn, baseline, evaluate, map};

fn traffic(tasks: usize, phases: &[&[(u32, u32, f64)]]) -> Traffic {
    let phases = phases.iter().enumerate().map(|(i, list)| Phase {
        name: format!("p{i}"),
        exchange: Exchange::new(tasks, list.iter().map(|&(a, b, n)| (a, b, n, 1))).unwrap(),
    });
    Traffic {
        in_turn: true,
        ..Traffic::phased("test", tasks, phases.collect())
    }
}

fn turns(traffic: &Traffic) -> Vec<Turn> {
    Turn::all(traffic, |_| Ok::<_, ()>(None)).unwrap()
}

fn searched(problem: &Problem<'_>, trials: u64) -> (Placement, Certificate) {
    let options = Options {
        trials: Some(trials),
        threads: 1,
        ..Options::default()
    };
    map(problem, &options, &|_| {}).unwrap()
}

fn machine(text: &str) -> (Fabric, Routing, Allocation) {
    let spec::Described { fabric, routing } = spec::machine(text).unwrap();
    let nodes = fabric.node_ids().map(|n| (n, 1)).collect();
    let allocation = Allocation::new(&fabric, nodes).unwrap();
    (fabric, routing, allocation)
}

#[test]
fn two_phases_over_one_cable_take_the_time_of_both() {
    let (fabric, routing, allocation) = machine("torus:2x1x1");
    let there_and_back = traffic(2, &[&[(0, 1, 1e6)], &[(1, 0, 1e6)]]);
    let total = there_and_back.total();
    let both = turns(&there_and_back);
    let problem = Problem {
        turns: &both,
        ..Problem::new(&fabric, &routing, &total, &allocation)
    };
    let placement = baseline(&problem, Baseline::InOrder, 1).unwrap().unwrap();
    let cost = evaluate(&problem, &placement).unwrap();
    assert_eq!(cost.turn_seconds, vec![cost.worst_link_seconds; 2]);
    assert_eq!(cost.exchange_seconds(), 2.0 * cost.worst_link_seconds);
    let (_, certificate) = searched(&problem, 100);
    assert_eq!(certificate.objective, "worst link of each phase in turn");
    assert_eq!(
        certificate.bound.turns_seconds,
        Some(cost.exchange_seconds())
    );
    assert!(
        turns(&Traffic {
            in_turn: false,
            ..there_and_back
        })
        .is_empty()
    );
}

/// All placements of a few tasks on as many nodes, one each.
fn least(problem: &Problem<'_>) -> f64 {
    let nodes: Vec<u32> = (0..problem.allocation.nodes().len() as u32).collect();
    let mut best = f64::INFINITY;
    let mut order = nodes.clone();
    permute(&mut order, 0, &mut |order| {
        let of = order
            .iter()
            .map(|&p| problem.allocation.nodes()[p as usize].0);
        let placement = Placement::on_nodes(problem.fabric, problem.allocation, of).unwrap();
        best = best.min(evaluate(problem, &placement).unwrap().exchange_seconds());
    });
    best
}

fn permute(order: &mut Vec<u32>, at: usize, visit: &mut impl FnMut(&[u32])) {
    if at == order.len() {
        return visit(order);
    }
    for i in at..order.len() {
        order.swap(at, i);
        permute(order, at + 1, visit);
        order.swap(at, i);
    }
}

#[test]
fn drawn_jobs_of_six_tasks_end_at_the_optimum_and_above_their_bounds() {
    let mut random = Random::new(7);
    for text in [
        "torus:3x2x1",
        "fattree:down=2x3,up=1x1,link=1",
        "torus:6x1x1",
    ] {
        let (fabric, routing, allocation) = machine(text);
        for case in 0..8 {
            let mut phase = || -> Vec<(u32, u32, f64)> {
                let pair = |r: &mut Random| {
                    (
                        r.below(6) as u32,
                        r.below(6) as u32,
                        (1 + r.below(9)) as f64,
                    )
                };
                (0..5).map(|_| pair(&mut random)).collect()
            };
            let lists = [phase(), phase(), phase()];
            let job = traffic(6, &lists.each_ref().map(|l| &l[..]));
            let (total, all) = (job.total(), turns(&job));
            let problem = Problem {
                turns: &all,
                ..Problem::new(&fabric, &routing, &total, &allocation)
            };
            let (placement, certificate) = searched(&problem, 100);
            let found = evaluate(&problem, &placement).unwrap();
            assert_eq!(found.turn_seconds, certificate.result.turn_seconds);
            let (found, least) = (found.exchange_seconds(), least(&problem));
            assert!(
                (found / least - 1.0).abs() < 1e-9,
                "{text} {case}: {found} for {least}"
            );
            let bound = certificate.bound.turns_seconds.unwrap();
            assert!(
                bound <= least * (1.0 + 1e-9),
                "{text} {case}: {bound} above {least}"
            );
            assert!(certificate.optimal && (bound / least - 1.0).abs() < 1e-9);
            let in_order = certificate.baseline.exchange_seconds();
            assert!(found <= in_order, "{text} {case}");
        }
    }
}

#[test]
fn a_longer_search_of_phases_is_never_worse() {
    let (fabric, routing, _) = machine("hyperx:2x2x3");
    let nodes = fabric.node_ids().map(|n| (n, 4)).collect();
    let allocation = Allocation::new(&fabric, nodes).unwrap();
    for seed in 0..8 {
        let mut random = Random::new(seed);
        let mut phase = || -> Vec<(u32, u32, f64)> {
            let mut end = || random.below(24) as u32;
            let pairs: Vec<(u32, u32)> = (0..30).map(|_| (end(), end())).collect();
            let bytes = |(a, b)| (a, b, (1 + random.below(1_000_000)) as f64);
            pairs.into_iter().map(bytes).collect()
        };
        let lists = [phase(), phase()];
        let job = traffic(24, &lists.each_ref().map(|l| &l[..]));
        let (total, all) = (job.total(), turns(&job));
        for keep_hosts in [false, true] {
            let problem = Problem {
                turns: &all,
                keep_hosts,
                ..Problem::new(&fabric, &routing, &total, &allocation)
            };
            let times = [100, 300, 1000, 2000, 3000, 5000, 10_000].map(|trials| {
                let (_, certificate) = searched(&problem, trials);
                certificate.result.exchange_seconds()
            });
            let is_lower = times.is_sorted_by(|a, b| b <= &(a * (1.0 + 1e-9)));
            assert!(is_lower, "seed {seed}, hosts {keep_hosts}: {times:?}");
        }
    }
}
