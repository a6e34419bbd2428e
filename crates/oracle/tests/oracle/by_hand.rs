//! Cases calculated by hand.

use crate::hops;
use crate::naive::close;
use hopbyte_fabric::{Direction, Fabric, LinkState, NodeId, Routing, spec};
use hopbyte_oracle::{Aggregate, Metric, Over, RouteCosts};
use std::collections::HashSet;

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
    // Response: half way round Y both directions are equally long and the positive one is taken: 2-3, 3-0.
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
    // The response starts at X- of (1,1,1), which was not read: between 0 and 1.
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
    // A full link determines the maximum although another was not read.
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
    let costs = hops(&fabric, &routing, Over::Request);
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
