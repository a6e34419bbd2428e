//! Searches on stored and on computed routes.

use crate::engine::Parts;
use crate::evaluate::evaluate;
use crate::graph::Graph;
use crate::mapper::Options;
use crate::paths::routers::{Between, RouterDistances, RouterPaths};
use crate::paths::tests::{MACHINES, computed, on_some, stored};
use crate::problem::{Baseline, Problem};
use crate::rounds::Run;
use crate::schedule::Stop;
use hopbyte_fabric::{Exchange, Placement};

/// A search finds the same placement on both.
#[test]
fn searches_do_not_depend_on_the_form() {
    for machine in MACHINES {
        on_some(machine, |problem, text| {
            let tasks = problem.allocation.nodes().len() as u32;
            let flows = (0..tasks)
                .flat_map(|t| [1, 5, 7].map(|d| (t, (t + d) % tasks, f64::from(1000 + t % 5), 1)));
            let exchange = Exchange::new(tasks as usize, flows).unwrap();
            let problem = &Problem {
                exchange: &exchange,
                ..*problem
            };
            let (a, b) = (stored(problem), computed(problem).unwrap());
            let (a, b) = (searched(problem, &a), searched(problem, &b));
            assert_eq!(a.1, b.1, "{text}");
            assert_eq!(a.0, b.0, "{text}");
        });
    }
}

/// The slots and the cost that a short search finds.
fn searched<B: Between>(problem: &Problem<'_>, paths: &RouterPaths<B>) -> (Placement, Vec<f64>) {
    let options = Options {
        trials: Some(4_000),
        ..Options::default()
    };
    let start = Placement::in_order(problem.allocation, problem.exchange.tasks()).unwrap();
    let cost = evaluate(problem, &start).unwrap();
    let candidates = [(Baseline::InOrder, start.clone(), cost.clone())];
    let run = Run {
        problem,
        options: &options,
        threads: 1,
        graph: &Graph::of_tasks(problem.exchange),
        candidates: &candidates,
        reference: 0,
        best: 0,
        bound: 0.0,
        progress: &|_| {},
    };
    let parts = Parts::new(problem, paths, Stop::default());
    let found = run.on(paths, &RouterDistances(paths), parts).unwrap();
    let (placement, cost) = found.best.unwrap_or((start, cost));
    (placement, cost.link_bytes)
}
