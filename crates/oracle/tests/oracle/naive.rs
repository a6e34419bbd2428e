//! Every cost directly from the definitions, along every path, on random machines.

use crate::machines::{graph, grid, state, tables};
use hopbyte_fabric::routing::{DimensionOrder, MinimalPaths};
use hopbyte_fabric::{End, Fabric, LinkId, LinkState, NodeId, RouterId, Routing};
use hopbyte_oracle::{Aggregate, CostMatrix, Metric, Over, RouteCosts};
use proptest::prelude::*;

/// Cost of the links of some paths, each with its probability, directly from the definitions. `None` is unknown;
/// links of probability 1 on a single path.
fn naive(
    fabric: &Fabric,
    state: &LinkState,
    (metric, aggregate): (Metric, Aggregate),
    links: &[(LinkId, f64)],
) -> Option<f64> {
    let ratio = matches!(
        metric,
        Metric::Used | Metric::InputStall | Metric::CreditStall
    );
    let hops: Vec<_> = links.iter().filter(|l| fabric.is_hop(l.0)).collect();
    let values: Vec<Option<f64>> = hops
        .iter()
        .map(|&&(link, _)| match metric {
            Metric::Hops => Some(1.0),
            Metric::InverseBandwidth => Some(1.0 / fabric.link(link).capacity().0),
            Metric::Used => state.used_ratio.get(link),
            Metric::InputStall => state.input_stall_ratio.get(link),
            Metric::CreditStall => state.credit_stall_ratio.get(link),
            Metric::Bytes => state.received_bytes.get(link),
            Metric::Packets => state.packets.get(link),
            Metric::Errors => state.errors.get(link),
        })
        .collect();
    if aggregate == Aggregate::Max {
        let known = values.iter().flatten().fold(0.0, |m, &v| f64::max(m, v));
        let decided = values.iter().all(Option::is_some) || (ratio && known >= 1.0);
        return decided.then_some(known);
    }
    let mut sum = 0.0;
    for (value, (_, share)) in values.iter().zip(hops.iter().copied()) {
        sum += (*value)? * share;
    }
    let weight: f64 = hops.iter().map(|h| h.1).sum();
    Some(match aggregate {
        Aggregate::Mean if !hops.is_empty() => sum / weight,
        _ => sum,
    })
}

/// Every path of the routing from router to node, link by link, with its probability.
fn paths(
    fabric: &Fabric,
    routing: &Routing,
    from: NodeId,
    to: NodeId,
) -> Option<Vec<(LinkId, f64)>> {
    if from == to {
        return Some(Vec::new());
    }
    let (source, target) = (fabric.node(from), fabric.node(to));
    let up = |l: LinkId| fabric.link(l).is_up();
    if !up(source.inject) || !up(target.eject) {
        return None;
    }
    let Routing::Minimal(minimal) = routing else {
        let mut route = Vec::new();
        routing.route(fabric, from, to, &mut route).ok()?;
        return Some(route.into_iter().map(|l| (l, 1.0)).collect());
    };
    minimal.distance(source.router, target.router)?;
    let mut links = vec![(source.inject, 1.0), (target.eject, 1.0)];
    spread(
        fabric,
        minimal,
        source.router,
        target.router,
        1.0,
        &mut links,
    );
    Some(links)
}

fn spread(
    fabric: &Fabric,
    minimal: &MinimalPaths,
    at: RouterId,
    to: RouterId,
    share: f64,
    out: &mut Vec<(LinkId, f64)>,
) {
    let next: Vec<_> = minimal.nearer(fabric, at, to).collect();
    let total: f64 = next.iter().map(|n| fabric.link(n.0).capacity().0).sum();
    for (link, router) in next {
        let part = share * fabric.link(link).capacity().0 / total;
        out.push((link, part));
        spread(fabric, minimal, router, to, part, out);
    }
}

pub fn close(a: f64, b: f64) -> bool {
    a == b || (a - b).abs() <= 2e-6 * a.abs().max(b.abs())
}

fn matches_matrix(expected: Option<Option<f64>>, matrix: &CostMatrix, i: usize, j: usize) -> bool {
    match (expected, matrix.get(i, j)) {
        (None, Some(v)) => v == f32::INFINITY,
        (Some(None), None) => true,
        (Some(Some(e)), Some(v)) => close(e, f64::from(v)),
        _ => false,
    }
}

/// Checks pair, among and all_routers for every metric, aggregate and choice of routes.
fn check(fabric: &Fabric, routing: &Routing, state: &LinkState) {
    let nodes: Vec<NodeId> = fabric.node_ids().collect();
    for metric in Metric::ALL {
        for aggregate in Aggregate::ALL {
            for over in Over::ALL {
                let costs = RouteCosts::new(fabric, routing, Some(state), metric, aggregate, over);
                let among = costs.among(&nodes).unwrap();
                let routers = costs.all_routers().unwrap();
                for (i, &a) in nodes.iter().enumerate() {
                    for (j, &b) in nodes.iter().enumerate() {
                        let both = |cut: bool| {
                            let mut links = Vec::new();
                            if over != Over::Response {
                                links.extend(paths(fabric, routing, a, b)?);
                            }
                            if over != Over::Request {
                                links.extend(paths(fabric, routing, b, a)?);
                            }
                            let inner = |l: LinkId| {
                                matches!(
                                    (fabric.link(l).from, fabric.link(l).to),
                                    (End::Router(_), End::Router(_))
                                )
                            };
                            links.retain(|l| !cut || inner(l.0));
                            Some(links)
                        };
                        let label = || format!("{metric} {aggregate} {over} {a}->{b}");
                        let expected = both(false)
                            .map(|links| naive(fabric, state, (metric, aggregate), &links));
                        let pair = costs.pair(a, b);
                        match (expected, pair) {
                            (None, Err(_)) | (Some(None), Ok(None)) => {}
                            (Some(Some(e)), Ok(Some(p))) if close(e, p) => {}
                            other => panic!("{}: {other:?}", label()),
                        }
                        assert!(
                            matches_matrix(expected, &among, i, j),
                            "among {}: {expected:?} {:?}",
                            label(),
                            among.get(i, j)
                        );
                        // Between routers: as between their first nodes, without the host links, if these are up.
                        let (ra, rb) = (fabric.node(a).router, fabric.node(b).router);
                        let first = |r: RouterId, n: NodeId| fabric.nodes_on(r).first() == Some(&n);
                        if first(ra, a) && first(rb, b) && expected.is_some() {
                            let expected = both(true)
                                .map(|links| naive(fabric, state, (metric, aggregate), &links));
                            assert!(
                                matches_matrix(expected, &routers, ra.index(), rb.index()),
                                "routers {}: {expected:?} {:?}",
                                label(),
                                routers.get(ra.index(), rb.index())
                            );
                        }
                    }
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn grids_agree_with_a_naive_walk(
        dims in prop::collection::vec((1u32..5, any::<bool>()), 1..4), swap: bool, seed: u64
    ) {
        let (sizes, wrap): (Vec<u32>, Vec<bool>) = dims.into_iter().unzip();
        let fabric = grid(&sizes, &wrap, seed);
        let mut order: Vec<u8> = (0..sizes.len() as u8).collect();
        if swap {
            order.reverse();
        }
        let order = DimensionOrder::with_order(&fabric, order).unwrap();
        check(&fabric, &Routing::DimensionOrder(order), &state(&fabric, seed));
    }

    #[test]
    fn tables_agree_with_a_naive_walk(switches in 1u32..12, seed: u64) {
        let fabric = graph(switches, seed);
        check(&fabric, &tables(&fabric, seed), &state(&fabric, seed));
    }

    #[test]
    fn path_sets_agree_with_all_their_paths(switches in 1u32..10, seed: u64) {
        let fabric = graph(switches, seed);
        let routing = Routing::Minimal(MinimalPaths::new(&fabric));
        check(&fabric, &routing, &state(&fabric, seed));
    }
}
