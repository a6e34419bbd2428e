//! The oracle against a naive walk of every route, and against cases worked out by hand.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use hopbyte_fabric::routing::{DimensionOrder, ForwardingTables, MinimalPaths};
use hopbyte_fabric::units::{BytesPerSecond, Seconds};
use hopbyte_fabric::{
    Direction, End, Fabric, FabricBuilder, Family, LinkId, LinkSpec, LinkState, NodeId, RouterId,
    Routing, Shape, spec,
};
use hopbyte_oracle::{Aggregate, CostMatrix, Metric, Over, RouteCosts, View};
use proptest::prelude::*;
use std::collections::HashSet;

/// A small generator, so that one seed makes a whole case.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % n
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }
}

fn add_nodes(b: &mut FabricBuilder, random: &mut Random, router: RouterId, onboard: bool) {
    let kind = b.kind(if onboard { "host" } else { "host cable" }, onboard);
    for _ in 0..random.below(3) {
        let n = b.node_count();
        let (node, at) = (End::Node(NodeId(n as u32)), End::Router(router));
        let rate = BytesPerSecond(1e9 * (1 + random.below(4)) as f64);
        let mut spec = LinkSpec::new(node, at, kind, rate, Seconds(0.0));
        spec.lanes_in_service = u16::from(!random.chance(12));
        let inject = b.link(spec);
        let eject = b.link(LinkSpec::new(at, node, kind, rate, Seconds(0.0)));
        b.node(
            format!("n{n}"),
            format!("h{n}"),
            None,
            router,
            inject,
            eject,
        );
    }
}

/// A grid with unequal links, some of them down, and some routers missing.
fn grid(dims: &[u32], wrap: &[bool], seed: u64) -> Fabric {
    let mut random = Random(seed);
    let mut b = FabricBuilder::new(Family::Torus, "test grid");
    let shape = Shape {
        dims: dims.to_vec(),
        wrap: wrap.to_vec(),
    };
    b.shape(shape.clone());
    let mut routers = vec![None; shape.positions()];
    let coord = |mut p: usize| {
        let mut c: Vec<u32> = dims
            .iter()
            .rev()
            .map(|&d| {
                let at = p % d as usize;
                p /= d as usize;
                at as u32
            })
            .collect();
        c.reverse();
        c
    };
    // Ids in another order than positions.
    let mut at: Vec<usize> = (0..routers.len()).collect();
    if random.chance(2) {
        at.reverse();
    }
    for p in at {
        if p == 0 || !random.chance(20) {
            routers[p] = Some(b.router(format!("r{p}"), &coord(p)));
        }
    }
    let cable = b.kind("cable", false);
    for (p, &from) in routers.iter().enumerate() {
        for index in 0..2 * dims.len() {
            let direction = Direction::of(index);
            let d = direction.dim as usize;
            let mut to = coord(p);
            let n = i64::from(dims[d]);
            let moved = i64::from(to[d]) + if direction.positive { 1 } else { -1 };
            if n == 1 || !(wrap[d] || (0..n).contains(&moved)) {
                continue;
            }
            to[d] = moved.rem_euclid(n) as u32;
            let (Some(from), Some(to)) = (from, routers[shape.position(&to).unwrap()]) else {
                continue;
            };
            let rate = BytesPerSecond(1e9 * (1 + random.below(5)) as f64);
            let ends = (End::Router(from), End::Router(to));
            b.link(LinkSpec {
                direction: Some(direction),
                lanes: 3,
                lanes_in_service: if random.chance(25) {
                    0
                } else {
                    1 + random.below(3) as u16
                },
                ..LinkSpec::new(ends.0, ends.1, cable, rate, Seconds(0.0))
            });
        }
    }
    let onboard = random.chance(2);
    for router in routers.into_iter().flatten() {
        add_nodes(&mut b, &mut random, router, onboard);
    }
    b.finish().unwrap()
}

/// A random graph of switches with cabled hosts.
fn graph(switches: u32, seed: u64) -> Fabric {
    let mut random = Random(seed);
    let mut b = FabricBuilder::new(Family::InfiniBand, "test graph");
    let ids: Vec<RouterId> = (0..switches)
        .map(|s| b.router(format!("s{s}"), &[]))
        .collect();
    let kind = b.kind("cable", false);
    for i in 1..switches as u64 {
        for _ in 0..1 + random.below(3) {
            let (from, to) = (ids[i as usize], ids[random.below(i) as usize]);
            let rate = BytesPerSecond(1e9 * (1 + random.below(5)) as f64);
            for (a, z) in [(from, to), (to, from)] {
                let mut spec =
                    LinkSpec::new(End::Router(a), End::Router(z), kind, rate, Seconds(0.0));
                spec.lanes_in_service = u16::from(!random.chance(15));
                b.link(spec);
            }
        }
    }
    for id in ids {
        add_nodes(&mut b, &mut random, id, false);
    }
    b.finish().unwrap()
}

/// Shortest ways with some entries missing or wrong.
fn tables(fabric: &Fabric, seed: u64) -> Routing {
    let mut random = Random(seed ^ 0xdead);
    let paths = MinimalPaths::new(fabric);
    let mut tables = ForwardingTables::new(fabric);
    for at in fabric.router_ids() {
        for to in fabric.node_ids() {
            let target = fabric.node(to);
            let out = fabric.links_from(at);
            let link = if random.chance(30) {
                out.get(random.below(out.len().max(1) as u64) as usize)
                    .copied()
            } else if at == target.router {
                Some(target.eject)
            } else {
                let near: Vec<LinkId> = paths
                    .nearer(fabric, at, target.router)
                    .map(|n| n.0)
                    .collect();
                near.get(random.below(near.len().max(1) as u64) as usize)
                    .copied()
            };
            if let Some(link) = link {
                assert!(tables.set(fabric, at, to, link));
            }
        }
    }
    Routing::Tables(tables)
}

fn state(fabric: &Fabric, seed: u64) -> LinkState {
    let mut random = Random(seed ^ 0xbeef);
    let mut state = LinkState::unknown(fabric);
    let gaps = [2, 10, 1_000_000][random.below(3) as usize];
    for link in fabric.link_ids() {
        let mut ratio = || match random.below(8) {
            0 => Some(1.0),
            1 => Some(0.0),
            _ if random.chance(gaps) => None,
            _ => Some(random.below(1000) as f64 / 999.0),
        };
        let (used, input, credit) = (ratio(), ratio(), ratio());
        state.used_ratio.set(link, used);
        state.input_stall_ratio.set(link, input);
        state.credit_stall_ratio.set(link, credit);
        state.received_bytes.set(link, used.map(|u| u * 1e12));
    }
    state
}

/// Cost of all links of some paths, each with its probability, by the definitions alone.
/// `None` is unknown; links of probability 1 on a single path.
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

fn close(a: f64, b: f64) -> bool {
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
                        // Between routers: as between their first nodes, without the host links,
                        // where these are up.
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

fn node_at(fabric: &Fabric, coord: &[u32]) -> NodeId {
    fabric.nodes_on(fabric.router_at(coord).unwrap())[0]
}

#[test]
fn inverse_bandwidth_on_gemini_by_hand() {
    let fabric = spec::fabric("gemini:4x4x16").unwrap();
    let routing = Routing::default_for(&fabric);
    let cost = |aggregate, over, a: &[u32], b: &[u32]| {
        RouteCosts::new(
            &fabric,
            &routing,
            None,
            Metric::InverseBandwidth,
            aggregate,
            over,
        )
        .pair(node_at(&fabric, a), node_at(&fabric, b))
        .unwrap()
        .unwrap()
    };
    // X cable 9.375, Y mezzanine 9.375 (0-1), Y cable 4.6875 (1-2), Z backplane 15, Z cable 9.375
    // between z=7 and z=8.
    let (a, b) = ([0, 0, 6], [1, 2, 8]);
    // Request: X+ at (0,0,6); Y+ 0-1, 1-2 at x=1; Z+ 6-7, 7-8.
    let expected = (1.0 / 9.375 + 1.0 / 9.375 + 1.0 / 4.6875 + 1.0 / 15.0 + 1.0 / 9.375) / 1e9;
    assert!(close(cost(Aggregate::Sum, Over::Request, &a, &b), expected));
    assert!(close(
        cost(Aggregate::Mean, Over::Request, &a, &b),
        expected / 5.0
    ));
    assert!(close(
        cost(Aggregate::Max, Over::Request, &a, &b),
        1.0 / 4.6875e9
    ));
    // Response: half way round Y both ways are equal and the positive one is taken: 2-3, 3-0.
    assert!(close(
        cost(Aggregate::Sum, Over::Response, &a, &b),
        expected
    ));
    assert!(close(
        cost(Aggregate::Sum, Over::Both, &a, &b),
        2.0 * expected
    ));
}

#[test]
fn only_the_routes_own_links_count() {
    let fabric = spec::fabric("gemini:4x4x8").unwrap();
    let routing = Routing::default_for(&fabric);
    let mut state = LinkState::unknown(&fabric);
    for link in fabric.link_ids() {
        state.used_ratio.set(link, Some(0.0));
    }
    let at = |c: &[u32], d| {
        let r = fabric.router_at(c).unwrap();
        fabric
            .link_towards(r, Direction::parse(d).unwrap())
            .unwrap()
    };
    state.used_ratio.set(at(&[0, 0, 0], "X+"), Some(0.61));
    state.used_ratio.set(at(&[1, 1, 1], "X-"), None);
    let (a, b) = (node_at(&fabric, &[0, 0, 0]), node_at(&fabric, &[1, 1, 1]));
    let of = |aggregate, over| {
        RouteCosts::new(
            &fabric,
            &routing,
            Some(&state),
            Metric::Used,
            aggregate,
            over,
        )
        .explain(a, b)
        .unwrap()
    };
    let request = of(Aggregate::Max, Over::Request);
    assert_eq!((request.value(), request.coverage()), (Some(0.61), 1.0));
    // The response starts X- at (1,1,1), which was not read: between 0 and 1.
    let response = of(Aggregate::Max, Over::Response);
    assert_eq!(
        (
            response.lower,
            response.upper,
            response.links,
            response.known
        ),
        (0.0, 1.0, 3, 2)
    );
    assert_eq!(response.value(), None);
    let both = of(Aggregate::Mean, Over::Both);
    assert!(close(both.lower, 0.61 / 6.0) && close(both.upper, 1.61 / 6.0));
    // A full link decides the maximum although another one was not read.
    state.used_ratio.set(at(&[0, 0, 0], "X+"), Some(1.0));
    let costs = RouteCosts::new(
        &fabric,
        &routing,
        Some(&state),
        Metric::Used,
        Aggregate::Max,
        Over::Both,
    );
    assert_eq!(costs.pair(a, b), Ok(Some(1.0)));
}

/// Paper 003, «256 possible unique routes»: 16 nodes of a 2x2x8 Gemini machine, each to each.
#[test]
fn sixteen_nodes_have_256_routes() {
    let fabric = spec::fabric("gemini:2x2x8").unwrap();
    let routing = Routing::default_for(&fabric);
    let nodes: Vec<NodeId> = fabric
        .router_ids()
        .step_by(2)
        .map(|r| fabric.nodes_on(r)[0])
        .collect();
    assert_eq!(nodes.len(), 16);
    let mut routes = HashSet::new();
    let mut asymmetric = 0;
    let walk = |a, b| {
        let mut route = Vec::new();
        routing.route(&fabric, a, b, &mut route).unwrap();
        route
    };
    for &a in &nodes {
        for &b in &nodes {
            routes.insert((a, b, walk(a, b)));
            let mut back: Vec<_> = walk(b, a)
                .into_iter()
                .map(|l| fabric.reverse(l).unwrap())
                .collect();
            back.reverse();
            asymmetric += usize::from(back != walk(a, b));
        }
    }
    assert_eq!(routes.len(), 256);
    assert!(
        asymmetric > 0,
        "forward and reverse routes differ for some pairs"
    );
    let costs = RouteCosts::new(
        &fabric,
        &routing,
        None,
        Metric::Hops,
        Aggregate::Sum,
        Over::Request,
    );
    let matrix = costs.among(&nodes).unwrap();
    assert_eq!(matrix.as_slice().len(), 256);
    for (i, &a) in nodes.iter().enumerate() {
        for (j, &b) in nodes.iter().enumerate() {
            assert_eq!(
                matrix.get(i, j),
                Some(routing.hops(&fabric, a, b).unwrap() as f32)
            );
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
    let costs = RouteCosts::new(
        &fabric,
        &routing,
        None,
        Metric::Hops,
        Aggregate::Sum,
        Over::Request,
    );
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
        let costs = RouteCosts::new(
            &fabric,
            &routing,
            None,
            Metric::Hops,
            Aggregate::Sum,
            Over::Both,
        );
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
