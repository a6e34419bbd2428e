//! The same cost by several methods: lists, matrices, any number of threads.

use crate::hops;
use crate::machines::state;
use crate::naive::close;
use hopbyte_fabric::routing::MinimalPaths;
use hopbyte_fabric::{NodeId, Routing, spec};
use hopbyte_oracle::{Aggregate, Metric, Over, RouteCosts, View};

#[test]
fn long_lists_cost_what_their_pairs_cost() {
    let fabric = spec::fabric("gemini:5x4x3").unwrap();
    let routing = Routing::default_for(&fabric);
    let state = state(&fabric, 11);
    let nodes: Vec<NodeId> = fabric.node_ids().collect();
    let pairs: Vec<(NodeId, NodeId)> = nodes
        .iter()
        .flat_map(|&a| nodes.iter().step_by(7).map(move |&b| (a, b)))
        .collect();
    for metric in Metric::ALL {
        for aggregate in Aggregate::ALL {
            for over in Over::ALL {
                let view = View::new(&fabric, &routing, Some(state.clone()), 3, None);
                let costs = view.costs(metric, aggregate, over);
                let long = costs.many(&pairs);
                let among = costs.among(&nodes).unwrap();
                let bits = |costs: &[f32]| costs.iter().map(|c| c.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&costs.many(&pairs[..9])), bits(&long[..9]));
                for (&(a, b), &cost) in pairs.iter().zip(&long) {
                    let same = among.get(a.index(), b.index());
                    assert_eq!(same, (!cost.is_nan()).then_some(cost));
                    let known = match costs.pair(a, b).unwrap() {
                        Some(pair) => close(pair, cost.into()),
                        None => cost.is_nan(),
                    };
                    assert!(known, "{metric} {aggregate} {over} {a}->{b}: {cost}");
                }
            }
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bytes() {
    let fabric = spec::fabric("gemini:4x4x8").unwrap();
    let state = state(&fabric, 7);
    let minimal = Routing::Minimal(MinimalPaths::new(&fabric));
    for routing in [&Routing::default_for(&fabric), &minimal] {
        for aggregate in Aggregate::ALL {
            let costs = RouteCosts::new(
                &fabric,
                routing,
                Some(&state),
                Metric::Bytes,
                aggregate,
                Over::Both,
            );
            let run = |threads| {
                let pool = rayon::ThreadPoolBuilder::new()
                    .num_threads(threads)
                    .build()
                    .unwrap();
                let matrix = pool.install(|| costs.all_routers().unwrap());
                matrix
                    .as_slice()
                    .iter()
                    .map(|v| v.to_bits())
                    .collect::<Vec<_>>()
            };
            assert_eq!(run(1), run(3));
        }
    }
}

#[test]
fn a_matrix_that_does_not_fit_is_refused() {
    let fabric = spec::fabric("torus:300x300").unwrap();
    let routing = Routing::default_for(&fabric);
    let costs = hops(&fabric, &routing, Over::Request);
    let error = costs.all_routers().unwrap_err().to_string();
    assert!(
        error.contains("90000 x 90000") && error.contains("hint"),
        "{error}"
    );
}

#[test]
fn matrices_go_round_faults_and_over_groups_as_pairs_do() {
    use hopbyte_fabric::faults::Fault;
    let torus = spec::fabric("torus:5x4x3").unwrap();
    let cuts =
        ["r0-0-0 X+", "r2-0-0 X+", "r1-1-1 Z+"].map(|l| Fault::Cable(torus.find_link(l).unwrap()));
    for fabric in [
        torus.clone().with_faults(&cuts[..1]),
        torus.with_faults(&cuts),
        spec::fabric("dragonfly:4x3").unwrap(),
    ] {
        let routing = Routing::default_for(&fabric);
        let costs = hops(&fabric, &routing, Over::Both);
        let nodes: Vec<NodeId> = fabric.node_ids().collect();
        let among = costs.among(&nodes).unwrap();
        let routers = costs.all_routers().unwrap();
        for &from in &nodes {
            for &to in &nodes {
                let pair = costs
                    .pair(from, to)
                    .map_or(Some(f32::INFINITY), |c| c.map(|c| c as f32));
                assert_eq!(among.get(from.index(), to.index()), pair, "{from} {to}");
                let (a, b) = (fabric.node(from).router, fabric.node(to).router);
                if a != b {
                    assert_eq!(routers.get(a.index(), b.index()), pair, "{from} {to}");
                }
            }
        }
    }
}
