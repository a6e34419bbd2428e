//! Rerouting around faults, checked against a brute-force search.

#![allow(clippy::unwrap_used)]

use hopbyte_fabric::faults::{self, Fault};
use hopbyte_fabric::routing::DimensionOrder;
use hopbyte_fabric::{Direction, Fabric, LinkId, Reach, RouterId, Routing, spec};
use proptest::prelude::*;

/// Whether some order connects the pair, by walking: in each dimension the short direction, then the long one, link
/// by link.
fn some_order_serves(fabric: &Fabric, from: RouterId, to: RouterId) -> bool {
    let dims = fabric.shape().unwrap().dims.len();
    let mut orders: Vec<Vec<usize>> = vec![vec![]];
    for _ in 0..dims {
        orders = orders
            .iter()
            .flat_map(|o| {
                (0..dims)
                    .filter(|d| !o.contains(d))
                    .map(|d| [&o[..], &[d]].concat())
                    .collect::<Vec<_>>()
            })
            .collect();
    }
    orders.iter().any(|order| {
        let mut at = Some(from);
        for &dim in order {
            let target = fabric.coord(to).unwrap()[dim];
            at = at.and_then(|r| {
                [true, false]
                    .iter()
                    .find_map(|&p| travel(fabric, r, dim, p, target))
            });
        }
        at == Some(to)
    })
}

/// Walks in one direction of a ring until the coordinate is reached, over links that are up.
fn travel(
    fabric: &Fabric,
    mut at: RouterId,
    dim: usize,
    positive: bool,
    target: u32,
) -> Option<RouterId> {
    for _ in 0..fabric.shape().unwrap().dims[dim] {
        if fabric.coord(at).unwrap()[dim] == target {
            return Some(at);
        }
        let link = fabric.link_towards(
            at,
            Direction {
                dim: dim as u8,
                positive,
            },
        )?;
        if !fabric.link(link).is_up() {
            return None;
        }
        let hopbyte_fabric::End::Router(next) = fabric.link(link).to else {
            return None;
        };
        at = next;
    }
    (fabric.coord(at).unwrap()[dim] == target).then_some(at)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn rerouted_pairs_are_exactly_those_that_some_order_serves(
        dims in prop::collection::vec(2u32..5, 2..4),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), 0u8..3), 0..8),
    ) {
        let words: Vec<String> = dims.iter().map(u32::to_string).collect();
        let whole = spec::fabric(&format!("torus:{}", words.join("x"))).unwrap();
        let faults: Vec<Fault> = cuts
            .iter()
            .map(|(index, kind)| match kind {
                0 => Fault::Cable(LinkId::of(index.index(whole.links().len() / 2))),
                1 => Fault::OneWay(LinkId::of(index.index(whole.links().len() / 2))),
                _ => Fault::Router(RouterId::of(index.index(whole.routers().len()))),
            })
            .collect();
        let fabric = whole.with_faults(&faults);
        let routing = Routing::DimensionOrder(DimensionOrder::rerouted(&fabric).unwrap());
        let mut route = Vec::new();
        let mut routable = 0;
        for from in fabric.node_ids() {
            for to in fabric.node_ids().filter(|&to| to != from) {
                route.clear();
                let up = fabric.link(fabric.node(from).inject).is_up() && fabric.link(fabric.node(to).eject).is_up();
                let serves = up && some_order_serves(&fabric, fabric.node(from).router, fabric.node(to).router);
                let result = routing.route(&fabric, from, to, &mut route);
                prop_assert_eq!(result.is_ok(), serves, "{:?} {:?}", from, to);
                routable += u64::from(serves);
                if serves {
                    prop_assert!(route.iter().all(|&l| fabric.link(l).is_up()));
                    prop_assert!(route.windows(2).all(|w| fabric.link(w[0]).to == fabric.link(w[1]).from));
                    // One order: a finished dimension is not entered again.
                    let mut seen: Vec<u8> = route.iter().filter_map(|&l| fabric.link(l).direction).map(|d| d.dim).collect();
                    seen.dedup();
                    let distinct = seen.iter().collect::<std::collections::BTreeSet<_>>().len();
                    prop_assert_eq!(distinct, seen.len());
                }
            }
        }
        let reach = Reach::of(&fabric, &routing);
        prop_assert_eq!(reach.routable, routable);
    }
}

#[test]
fn two_failures_in_one_z_loop_are_found_and_named() {
    let whole = spec::fabric("gemini:2x2x8").unwrap();
    let z = |z: u32| {
        let r = whole.router_at(&[0, 0, z]).unwrap();
        whole
            .link_towards(r, Direction::parse("Z+").unwrap())
            .unwrap()
    };
    let one = whole.clone().with_faults(&[Fault::Cable(z(1))]);
    let routing = DimensionOrder::rerouted(&one).unwrap();
    assert_eq!(routing.order(), [0, 1, 2]);
    assert_eq!(
        Reach::of(&one, &Routing::DimensionOrder(routing)).unroutable_pairs(),
        0
    );
    // Two: within the loop itself no order helps, because only Z changes.
    let two = whole
        .clone()
        .with_faults(&[Fault::Cable(z(1)), Fault::Cable(z(5))]);
    let routing = Routing::DimensionOrder(DimensionOrder::rerouted(&two).unwrap());
    let reach = Reach::of(&two, &routing);
    // The loop splits into routers 2-5 and 6-1: 4 x 4 x 2 ordered router pairs, 2 x 2 nodes each.
    assert_eq!(reach.unroutable_pairs(), 4 * 4 * 2 * 4);
    assert!(
        reach.unroutable[0]
            .describe(&two)
            .contains("no route from c0-0")
    );
}

#[test]
fn masks_and_log_lines_take_lanes_away() {
    let lanes: Vec<_> = (0..=7).map(|m| faults::lanes_of_mask(m).unwrap()).collect();
    assert_eq!(lanes, [0, 1, 1, 2, 1, 2, 2, 3]);
    assert_eq!(faults::lanes_of_mask(8), None);
    let whole = spec::fabric("gemini:16x12x24").unwrap();
    let text = "# netwatch\n2012-04-01 12:00 c0-0c1s1g0l17 lanemask=3 mode degraded\nan unrelated line of the log file\n\
                c0-0c0s0g0 X+\none-way c0-0c0s0g0 Y+\nc1-0c0s0g0\n";
    let (faults, other) = faults::parse(&whole, "log", text).unwrap();
    assert_eq!(other, ["an unrelated line of the log file"]);
    assert_eq!(faults.len(), 4);
    let fabric = whole.with_faults(&faults);
    let find = |name: &str| *fabric.link(fabric.find_link(name).unwrap());
    let Fault::Lanes { link, lost: 1 } = faults[0] else {
        panic!("{:?}", faults[0])
    };
    assert_eq!(
        (fabric.link(link).lanes, fabric.link(link).lanes_in_service),
        (24, 23)
    );
    let back = fabric.reverse(link).unwrap();
    assert_eq!(fabric.link(back).lanes_in_service, 23);
    assert!(
        (fabric.link(link).capacity().0 / fabric.link(link).nominal.0 - 23.0 / 24.0).abs() < 1e-12
    );
    assert!(!find("c0-0c0s0g0 X+").is_up());
    assert!(!find("c0-0c0s0g0 Y+").is_up() && find("c0-0c0s0g1 Y-").is_up());
    assert!(!find("c1-0c0s0g0 Z+").is_up());
    let error = faults::parse(&fabric, "list", "\nc9-9c9s9g9\n")
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("list:2: found c9-9c9s9g9, expected a link or router"),
        "{error}"
    );
    assert!(faults::parse(&fabric, "log", "c0-0c1s1g0l17 lanemask 9").is_err());
}

#[test]
fn tiles_by_their_own_names_are_octal() {
    let gemini = spec::fabric("gemini:16x12x24").unwrap();
    let (faults, _) = faults::parse(&gemini, "list", "c0-0c1s1g0l17").unwrap();
    assert!(
        matches!(faults[..], [Fault::Lanes { lost: 3, .. }]),
        "{faults:?}"
    );
    let aries = spec::fabric("aries:2x6x16").unwrap();
    let green = aries.find_link("c0-0c0s0a0[15]").unwrap();
    let (faults, _) = faults::parse(&aries, "list", "c0-0c0s0a0l17").unwrap();
    assert_eq!(faults.len(), 1);
    let aries = aries.with_faults(&faults);
    assert!(!aries.link(green).is_up() && !aries.link(aries.reverse(green).unwrap()).is_up());
    assert!(faults::parse(&aries, "list", "c0-0c0s0a0l19").is_err());
}

/// Random sets of failed cables: wherever orders are mixed, the mixture has no credit loop, or the routing says that
/// none of its lists of orders is free of one. Sometimes another list than the natural one is.
#[test]
fn mixed_orders_have_no_credit_loop_or_say_so() {
    use hopbyte_fabric::random::Random;
    use hopbyte_fabric::routing::dependencies::credit_loop;
    let mut random = Random::new(23);
    let mut below = |n: u32| (random.next_u64() % u64::from(n)) as u32;
    let (mut mixed, mut given_up, mut other) = (0, 0, 0);
    for _ in 0..120 {
        let spec = ["torus:3x3x3", "torus:4x4x4", "torus:4x3x5"][below(3) as usize];
        let whole = spec::fabric(spec).unwrap();
        let cables: Vec<LinkId> = whole.link_ids().filter(|&l| whole.is_hop(l)).collect();
        let cuts = 2 + below(7);
        let faults: Vec<Fault> = (0..cuts)
            .map(|_| Fault::Cable(cables[below(cables.len() as u32) as usize]))
            .collect();
        let fabric = whole.clone().with_faults(&faults);
        let order = DimensionOrder::rerouted(&fabric).unwrap();
        let (said, first) = (order.is_mixed_safely(), order.order().to_vec());
        assert_eq!(said.is_some(), !order.is_one_order());
        let found = credit_loop(&fabric, &Routing::DimensionOrder(order));
        mixed += usize::from(said.is_some());
        given_up += usize::from(said == Some(false));
        if said == Some(true) && first != [0, 1, 2] {
            other += 1;
            let names: Vec<String> = faults
                .iter()
                .map(|f| match f {
                    Fault::Cable(l) => whole.link_name(*l),
                    _ => String::new(),
                })
                .collect();
            println!("{spec} {first:?} {names:?}");
        }
        assert!(found.is_none() || said == Some(false), "{spec}: {faults:?}");
    }
    println!(
        "{mixed} mixed, {given_up} without a safe list, {other} in another order than the first"
    );
    assert!(
        mixed > 10 && given_up < mixed && other > 0,
        "{mixed} mixed, {given_up} given up, {other} others"
    );
}
