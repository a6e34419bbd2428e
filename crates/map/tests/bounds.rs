//! No placement goes below a bound: exhaustive over all placements on small machines.

#![allow(clippy::unwrap_used)]

use hopbyte_fabric::wire::{Network, Overhead};
use hopbyte_fabric::{Allocation, Exchange, LinkState, NodeId, Placement, Routing, spec};
use hopbyte_map::{Evaluation, Objective, Options, Problem, evaluate, map};
use proptest::prelude::*;

/// Machines and routings: single paths, paths by target, and path sets with shares; "" is the machine's
/// default.
const MACHINES: [(&str, &str); 11] = [
    ("torus:3x2:nodes=2", "dimension-order"),
    ("gemini:2x2x2", "dimension-order"),
    ("mesh:5", "shortest"),
    ("torus:4x2", "shortest"),
    ("fattree:down=2x3,up=1x2", ""),
    ("fattree:down=2x3,up=1x2", "updown"),
    ("fattree:down=3x2,up=1x2", "shortest"),
    ("dragonfly:3x2:nodes=2", "minimal"),
    ("dragonfly:4x2:nodes=1,global=2", "valiant"),
    ("dragonfly:3x3:nodes=1", "adaptive:0.6"),
    ("hyperx:3x2:nodes=2", "shortest"),
];

/// All assignments of tasks to nodes with room.
fn everywhere(tasks: usize, rooms: &[u32]) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for _ in 0..tasks {
        let longer = |placed: &Vec<usize>| -> Vec<Vec<usize>> {
            let room = |&n: &usize| placed.iter().filter(|&&p| p == n).count() < rooms[n] as usize;
            let next = (0..rooms.len()).filter(room);
            next.map(|n| placed.iter().copied().chain([n]).collect())
                .collect()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

/// Overheads on top of the payload.
const COUNTED: [fn() -> Overhead; 4] = [
    || Overhead::Payload,
    || Overhead::Response(0.4),
    || network("gemini"),
    || network("infiniband"),
];

fn network(name: &str) -> Overhead {
    Overhead::Network(Network::named(name).unwrap())
}

/// Nodes, slots and tasks of small jobs with at most some ten thousand placements.
const JOBS: [(usize, u32, usize); 8] = [
    (6, 1, 6),
    (7, 1, 6),
    (7, 1, 7),
    (3, 3, 8),
    (4, 2, 7),
    (5, 2, 6),
    (3, 3, 9),
    (2, 5, 10),
];

/// The best value by every objective over all placements that keep its limits.
#[test]
fn small_jobs_are_mapped_to_the_optimum_of_every_objective() {
    let mut random = hopbyte_fabric::random::Random::new(23);
    for case in 0..56 {
        let (text, way) = MACHINES[case % MACHINES.len()];
        let (nodes, each, tasks) = JOBS[case % JOBS.len()];
        let spec::Described {
            fabric, routing, ..
        } = spec::machine(text).unwrap();
        let routing = match way {
            "" => routing,
            way => Routing::named(&fabric, way).unwrap(),
        };
        let mut all = random.permutation(fabric.nodes().len());
        all.truncate(nodes);
        let list: Vec<(NodeId, u32)> = all.into_iter().map(|n| (NodeId(n), each)).collect();
        let alloc = Allocation::new(&fabric, list.clone()).unwrap();
        let rooms = vec![each; list.len()];
        let tasks = tasks.min(alloc.capacity());
        let pairs = (0..tasks * 2).map(|_| {
            let ends = [0, 1].map(|_| random.below(tasks) as u32);
            (ends[0], ends[1], (1 + random.below(9)) as f64 * 1e5, 1)
        });
        let exchange = Exchange::new(tasks, pairs.collect::<Vec<_>>()).unwrap();
        let costs: Vec<f32> = (0..list.len() * list.len())
            .map(|_| random.below(7) as f32)
            .collect();
        let problem = Problem {
            objective: Objective::RouteCost(&costs),
            ..Problem::new(&fabric, &routing, &exchange, &alloc)
        };
        let placed = everywhere(tasks, &rooms);
        let every: Vec<Evaluation> = placed
            .iter()
            .map(|placed| {
                let nodes = placed.iter().map(|&p| list[p].0);
                evaluate(
                    &problem,
                    &Placement::on_nodes(&fabric, &alloc, nodes).unwrap(),
                )
                .unwrap()
            })
            .collect();
        let in_order = evaluate(&problem, &Placement::in_order(&alloc, tasks).unwrap()).unwrap();
        for objective in [
            Objective::WorstLink,
            Objective::WorstNetworkLink,
            Objective::HopBytes,
            Objective::RouteCost(&costs),
        ] {
            let within = every
                .iter()
                .filter(|e| e.keeps_limits(&in_order, &objective));
            let least = within
                .map(|e| e.score(&objective).0)
                .fold(f64::INFINITY, f64::min);
            let problem = Problem {
                objective,
                ..problem
            };
            let options = Options {
                trials: Some(300),
                seed: 1,
                threads: 1,
                ..Options::default()
            };
            let (_, certificate) = map(&problem, &options, &|_| {}).unwrap();
            let found = certificate.result.score(&objective).0;
            assert!(
                found <= least * (1.0 + 1e-9),
                "{text} {way} {objective}, {case}: {found} {least}"
            );
            assert!(certificate.optimal, "{text} {way} {objective}");
            // What is left out is said.
            let all = every.iter().map(|e| e.score(&objective).0);
            let excluded = all.fold(f64::INFINITY, f64::min) < found * (1.0 - 1e-9);
            assert!(
                !excluded || certificate.limited,
                "{text} {way} {objective}, {case}"
            );
            let bound = match objective {
                Objective::WorstLink => Some(certificate.bound.worst_link_seconds),
                _ => None,
            };
            assert!(
                bound.is_none_or(|b| (b - found).abs() <= 1e-9 * found),
                "{text}"
            );
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn no_placement_of_all_passes_a_bound(
        machine in 0..MACHINES.len(),
        nodes in prop::collection::vec((0usize..64, 1u32..4), 2..5),
        edges in prop::collection::vec((0u32..6, 0u32..6, 1u32..4), 1..24),
        used in prop::collection::vec((0usize..256, 0.0f64..0.9), 0..6),
        counted in 0..COUNTED.len(), most in 2usize..=6, seed: u64,
    ) {
        let (text, way) = MACHINES[machine];
        let spec::Described { fabric, routing, .. } = spec::machine(text).unwrap();
        let routing = match way {
            "" => routing,
            way => Routing::named(&fabric, way).unwrap(),
        };
        let mut list: Vec<(NodeId, u32)> = Vec::new();
        for (number, slots) in nodes {
            let node = NodeId((number % fabric.nodes().len()) as u32);
            if list.iter().all(|n| n.0 != node) {
                list.push((node, slots));
            }
        }
        let rooms: Vec<u32> = list.iter().map(|n| n.1).collect();
        let alloc = Allocation::new(&fabric, list.clone()).unwrap();
        let tasks = alloc.capacity().min(most);
        let n = tasks as u32;
        let heavy = edges.iter().map(|&(a, b, w)| (a % n, b % n, f64::from(1 << (2 * w)), 1));
        let exchange = Exchange::new(tasks, heavy).unwrap();
        let mut state = LinkState::unknown(&fabric);
        for (link, ratio) in used {
            let link = hopbyte_fabric::LinkId((link % fabric.links().len()) as u32);
            state.used_ratio.set(link, Some(ratio));
        }
        let loads = COUNTED[counted]().loads(&fabric, &exchange).unwrap();
        let problem = Problem {
            background: Some(&state),
            loads: loads.exchange.as_ref(),
            ..Problem::new(&fabric, &routing, &exchange, &alloc)
        };
        let options = Options { trials: Some(2_000), seed, threads: 1, ..Options::default() };
        let (_, certificate) = map(&problem, &options, &|_| {}).unwrap();
        let mut best: Option<Evaluation> = None;
        for placed in everywhere(tasks, &rooms) {
            let placed = placed.iter().map(|&p| list[p].0);
            let placement = Placement::on_nodes(&fabric, &alloc, placed).unwrap();
            let cost = evaluate(&problem, &placement).unwrap();
            let best = best.get_or_insert_with(|| cost.clone());
            let least = |known: &mut f64, new: f64| *known = known.min(new);
            least(&mut best.worst_link_seconds, cost.worst_link_seconds);
            least(&mut best.worst_network_link_seconds, cost.worst_network_link_seconds);
            least(&mut best.hop_bytes, cost.hop_bytes);
            least(&mut best.average_dilation, cost.average_dilation);
            least(&mut best.off_node_bytes, cost.off_node_bytes);
        }
        let (best, bound) = (best.unwrap(), certificate.bound);
        let holds = |bound: f64, best: f64| bound <= best * (1.0 + 1e-9) + 1e-15;
        prop_assert!(holds(bound.worst_link_seconds, best.worst_link_seconds));
        prop_assert!(holds(bound.worst_network_link_seconds, best.worst_network_link_seconds));
        prop_assert!(holds(bound.hop_bytes, best.hop_bytes));
        prop_assert!(holds(bound.average_dilation, best.average_dilation));
        prop_assert!(holds(bound.off_node_bytes, best.off_node_bytes));
        // No result is better than the exhaustive optimum.
        prop_assert!(holds(best.worst_link_seconds, certificate.result.worst_link_seconds));
    }
}
