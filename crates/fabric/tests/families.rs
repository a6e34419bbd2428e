//! Invariants of the other families: fat trees, dragonflies, HyperX, arbitrary graphs.

#![allow(clippy::unwrap_used)]

use hopbyte_fabric::check::{Check, uniform_load};
use hopbyte_fabric::faults::Fault;
use hopbyte_fabric::routing::dependencies::credit_loop;
use hopbyte_fabric::routing::{GroupPaths, MinimalPaths, Spread, up_down};
use hopbyte_fabric::units::{BytesPerSecond, Seconds};
use hopbyte_fabric::{
    End, Fabric, FabricBuilder, Family, LinkId, LinkSpec, NodeId, Reach, RouterId, Routing,
    declared, spec,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Flow conservation: inflow equals outflow at every router, and the whole flow arrives.
fn assert_conserved(fabric: &Fabric, routing: &Routing, from: NodeId, to: NodeId) -> f64 {
    let mut shares = Vec::new();
    routing.shares(fabric, from, to, &mut shares).unwrap();
    for r in fabric.router_ids() {
        let (mut into, mut out) = (0.0f64, 0.0f64);
        for &(l, s) in &shares {
            into += if fabric.link(l).to == End::Router(r) {
                s
            } else {
                0.0
            };
            out += if fabric.link(l).from == End::Router(r) {
                s
            } else {
                0.0
            };
        }
        assert!((into - out).abs() < 1e-12, "{into} {out}");
    }
    shares
        .iter()
        .filter(|(l, _)| fabric.is_hop(*l))
        .map(|s| s.1)
        .sum()
}

/// A random connected graph of switches with one node each.
fn graph(edges: &[(usize, usize)], n: usize) -> Fabric {
    let mut b = FabricBuilder::new(Family::Generic, "random");
    let kind = b.kind("cable", false);
    let host = b.kind("host", true);
    for r in 0..n {
        b.router(format!("s{r}"), &[]);
    }
    let tree = (1..n).map(|r| (r, r / 2));
    for (port, (a, z)) in tree
        .chain(edges.iter().map(|&(a, z)| (a % n, z % n)))
        .enumerate()
    {
        if a == z {
            continue;
        }
        for (x, y) in [(a, z), (z, a)] {
            let (x, y) = (End::Router(RouterId::of(x)), End::Router(RouterId::of(y)));
            let l = b.link(LinkSpec::new(x, y, kind, BytesPerSecond(1e9), Seconds(0.0)));
            b.port(l, port as u16, port as u16);
        }
    }
    for r in 0..n {
        b.node_with_link(
            format!("n{r}"),
            format!("n{r}"),
            RouterId::of(r),
            host,
            BytesPerSecond(1e9),
        );
    }
    b.finish().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn up_down_reaches_all_without_a_credit_loop(
        n in 2usize..14, edges in prop::collection::vec((0usize..14, 0usize..14), 0..20)
    ) {
        let fabric = graph(&edges, n);
        let routing = Routing::Tables(up_down(&fabric));
        let reach = Reach::of(&fabric, &routing);
        prop_assert_eq!(reach.unroutable_pairs(), 0, "{:?}", reach.unroutable);
        prop_assert_eq!(credit_loop(&fabric, &routing), None);
    }

    // With cables down, routers other than the first have no neighbour of a smaller id.
    #[test]
    fn up_down_reaches_whatever_is_connected(
        dims in prop::collection::vec(2u32..6, 1..4), cuts in prop::collection::vec(any::<u16>(), 0..12),
    ) {
        let words: Vec<String> = dims.iter().map(u32::to_string).collect();
        let whole = spec::fabric(&format!("torus:{}", words.join("x"))).unwrap();
        let cables: Vec<_> = whole.link_ids().filter(|&l| whole.is_hop(l)).collect();
        let faults: Vec<_> = cuts
            .iter()
            .map(|&cut| Fault::Cable(cables[cut as usize % cables.len()]))
            .collect();
        let fabric = whole.with_faults(&faults);
        let routing = Routing::Tables(up_down(&fabric));
        let shortest = Routing::Minimal(MinimalPaths::new(&fabric));
        prop_assert_eq!(
            Reach::of(&fabric, &routing).unroutable_pairs(),
            Reach::of(&fabric, &shortest).unroutable_pairs()
        );
        prop_assert_eq!(credit_loop(&fabric, &routing), None);
    }

    #[test]
    fn fat_trees_route_every_pair_the_shortest_way(
        down in prop::collection::vec(1u32..5, 1..4), up in prop::collection::vec(1u32..4, 3)
    ) {
        let words = |v: &[u32]| v.iter().map(u32::to_string).collect::<Vec<_>>().join("x");
        let mut up = up[..down.len()].to_vec();
        up[0] = 1;
        let machine = spec::machine(&format!("fattree:down={},up={}", words(&down), words(&up))).unwrap();
        let reach = Reach::of(&machine.fabric, &machine.routing);
        prop_assert_eq!(reach.unroutable_pairs(), 0, "{:?}", reach.unroutable.first());
        let shortest = Reach::of(&machine.fabric, &Routing::Minimal(MinimalPaths::new(&machine.fabric)));
        prop_assert_eq!(reach.hops, shortest.hops);
        prop_assert_eq!(credit_loop(&machine.fabric, &machine.routing), None);
    }

    #[test]
    fn dragonfly_shares_conserve_traffic(
        groups in 2u32..7, routers in 2u32..6, global in 1u32..3, share in 0f64..=1.0, seed: u64
    ) {
        let fabric = spec::fabric(&format!("dragonfly:{groups}x{routers}:nodes=2,global={global}")).unwrap();
        let n = fabric.nodes().len() as u64;
        let (from, to) = (NodeId((seed % n) as u32), NodeId((seed / n % n) as u32));
        let group = |node: NodeId| fabric.coord(fabric.node(node).router).unwrap()[0];
        let at_most = [(Spread::Minimal, 3.0), (Spread::Valiant, 5.0), (Spread::Adaptive(share), 5.0)];
        for (spread, most) in at_most {
            let routing = Routing::Groups(GroupPaths::new(&fabric, spread).unwrap());
            let hops = assert_conserved(&fabric, &routing, from, to);
            prop_assert!(hops <= most + 1e-12, "{:?} {}", spread, hops);
            if group(from) != group(to) {
                let globals: f64 = {
                    let mut shares = Vec::new();
                    routing.shares(&fabric, from, to, &mut shares).unwrap();
                    shares.iter().filter(|(l, _)| fabric.kind(*l).name == "global").map(|s| s.1).sum()
                };
                let detour = match spread {
                    Spread::Minimal => 0.0,
                    Spread::Valiant => 1.0,
                    Spread::Adaptive(share) => 1.0 - share,
                };
                let expected = if groups > 2 { 1.0 + detour } else { 1.0 };
                prop_assert!((globals - expected).abs() < 1e-12, "{} {}", globals, expected);
            }
        }
    }
}

#[test]
fn a_pure_fat_tree_spreads_shift_traffic_evenly() {
    // D-mod-k assigns every uplink the same number of destinations: uniform traffic is equal within a level.
    let m = spec::machine("fattree:k=8,levels=3").unwrap();
    let load = uniform_load(&m.fabric, &m.routing);
    let upward: Vec<f64> = m
        .fabric
        .link_ids()
        .filter(|&l| matches!((m.fabric.link(l).from, m.fabric.link(l).to),
            (End::Router(a), End::Router(b)) if a < b && m.fabric.router(a).name.starts_with("leaf")))
        .map(|l| load[l.index()])
        .collect();
    assert_eq!(upward.len(), 32 * 4);
    assert!(upward.iter().all(|&x| x == upward[0]), "{upward:?}");
}

#[test]
fn groups_without_a_cable_are_joined_through_a_third() {
    for spread in [Spread::Minimal, Spread::Valiant, Spread::Adaptive(0.5)] {
        let whole = spec::fabric("dragonfly:4x4:nodes=2").unwrap();
        let group = |fabric: &Fabric, end| match end {
            End::Router(r) => Some(fabric.coord(r).unwrap()[0]),
            _ => None,
        };
        let ends = |fabric: &Fabric, l| {
            [fabric.link(l).from, fabric.link(l).to].map(|end| group(fabric, end))
        };
        let cut: Vec<Fault> = whole
            .link_ids()
            .filter(|&l| ends(&whole, l) == [Some(0), Some(1)])
            .map(Fault::Cable)
            .collect();
        assert!(!cut.is_empty());
        let fabric = whole.with_faults(&cut);
        let routing = Routing::Groups(GroupPaths::new(&fabric, spread).unwrap());
        let reach = Reach::of(&fabric, &routing);
        assert_eq!(
            reach.unroutable_pairs(),
            0,
            "{spread:?}: {:?}",
            reach.unroutable.first()
        );
        let on = |g: u32| {
            let first = |&n: &NodeId| group(&fabric, End::Router(fabric.node(n).router)) == Some(g);
            fabric.node_ids().find(first).unwrap()
        };
        for (from, to) in [(on(0), on(1)), (on(1), on(0))] {
            assert_conserved(&fabric, &routing, from, to);
            let mut shares = Vec::new();
            routing.shares(&fabric, from, to, &mut shares).unwrap();
            let between = |l| matches!(ends(&fabric, l), [Some(a), Some(b)] if a != b);
            let global: f64 = shares.iter().filter(|s| between(s.0)).map(|s| s.1).sum();
            assert!((global - 2.0).abs() < 1e-12, "{global}");
            let mut route = Vec::new();
            routing.route(&fabric, from, to, &mut route).unwrap();
            assert_eq!(route.iter().filter(|&&l| between(l)).count(), 2);
        }
    }
}

#[test]
fn up_down_takes_the_shortest_way_that_never_turns_up_again() {
    // More destinations than are searched together.
    let machine = spec::machine("fattree:k=8,levels=3").unwrap();
    let (fabric, shortest) = (
        &machine.fabric,
        Reach::of(&machine.fabric, &machine.routing),
    );
    let reach = Reach::of(fabric, &Routing::Tables(up_down(fabric)));
    assert_eq!((reach.hops, reach.unroutable.len()), (shortest.hops, 0));
    // A leaf has 124 destinations elsewhere, of which each of its four links takes as many.
    let load = uniform_load(fabric, &Routing::Tables(up_down(fabric)));
    let upward = |l: &LinkId| match (fabric.link(*l).from, fabric.link(*l).to) {
        (End::Router(a), End::Router(_)) => fabric.router(a).name.starts_with("leaf"),
        _ => false,
    };
    let loads: Vec<f64> = fabric
        .link_ids()
        .filter(upward)
        .map(|l| load[l.index()])
        .collect();
    assert_eq!(loads.len(), 32 * 4);
    assert!(loads.iter().all(|&l| l == loads[0]), "{loads:?}");
}

#[test]
fn hyperx_and_aries_have_their_diameter() {
    let hops = |spec: &str| {
        let m = spec::machine(spec).unwrap();
        let reach = Reach::of(&m.fabric, &m.routing);
        assert_eq!(reach.unroutable_pairs(), 0, "{spec}");
        *reach.hops.keys().max().unwrap()
    };
    assert_eq!(hops("hyperx:3x4x2"), 3);
    assert_eq!(hops("aries:1x6x16"), 2);
    assert!(hops("aries:3x2x4:blue=2") <= 5);
}

#[test]
fn tables_that_turn_in_a_circle_have_a_credit_loop() {
    // Four switches in a ring, all traffic clockwise: the textbook deadlock.
    let fabric = graph(&[], 1);
    assert_eq!(credit_loop(&fabric, &Routing::default_for(&fabric)), None);
    let mut b = FabricBuilder::new(Family::Generic, "ring");
    let (kind, host) = (b.kind("cable", false), b.kind("host", true));
    let routers: Vec<RouterId> = (0..4).map(|i| b.router(format!("s{i}"), &[])).collect();
    let links: Vec<_> = (0..4)
        .map(|i| {
            let (x, y) = (End::Router(routers[i]), End::Router(routers[(i + 1) % 4]));
            b.link(LinkSpec::new(x, y, kind, BytesPerSecond(1e9), Seconds(0.0)))
        })
        .collect();
    let nodes: Vec<NodeId> = (0..4)
        .map(|i| {
            b.node_with_link(
                format!("n{i}"),
                format!("n{i}"),
                routers[i],
                host,
                BytesPerSecond(1e9),
            )
        })
        .collect();
    let fabric = b.finish().unwrap();
    let mut tables = hopbyte_fabric::routing::ForwardingTables::new(&fabric);
    for (i, &at) in routers.iter().enumerate() {
        for (j, &to) in nodes.iter().enumerate() {
            let link = if i == j {
                fabric.node(to).eject
            } else {
                links[i]
            };
            assert!(tables.set(&fabric, at, to, link));
        }
    }
    let routing = Routing::Tables(tables);
    let check = Check::of(&fabric, &routing, None);
    assert_eq!(check.reach.unroutable_pairs(), 0);
    assert!(!check.deadlock_free && !check.is_sound());
    let found = check
        .findings
        .iter()
        .find(|f| f.kind == "credit_loop")
        .unwrap();
    assert_eq!(found.links.len(), 4);
    // The cables are one-way, which the check reports too.
    assert!(check.findings.iter().any(|f| f.kind == "asymmetric_cable"));
}

/// An adapter that trained to half of its width is told by the other hosts with as many adapters.
#[test]
fn an_adapter_slower_than_those_of_other_hosts_is_told() {
    let machine = |slow: &[(usize, usize)]| {
        let mut b = FabricBuilder::new(Family::InfiniBand, "rails");
        let kinds = [b.kind("4xNDR", false), b.kind("2xNDR", false)];
        for rail in 0..8 {
            let leaf = b.router(format!("leaf{rail}"), &[]);
            for host in 0..4 {
                let is_slow = slow.contains(&(host, rail));
                let rate = BytesPerSecond(if is_slow { 25e9 } else { 50e9 });
                let (name, kind) = (format!("h{host} mlx5_{rail}"), kinds[usize::from(is_slow)]);
                b.node_with_link(name, format!("h{host}"), leaf, kind, rate);
            }
        }
        b.finish().unwrap()
    };
    let slow = |fabric: &Fabric| {
        let check = Check::of(fabric, &Routing::default_for(fabric), None);
        let of = check.findings.into_iter().find(|f| f.kind == "slow_link");
        of.map_or(Vec::new(), |f| f.links)
    };
    let one = machine(&[(1, 3)]);
    let node = one.node(one.node_named("h1 mlx5_3").unwrap());
    let mut expected = vec![node.inject, node.eject];
    expected.sort();
    assert_eq!(slow(&one), expected);
    // A rail that is slower on every host, or all adapters of a host, were built so; of two kinds of hosts neither is usual.
    let rail: Vec<_> = (0..4).map(|host| (host, 7)).collect();
    let half: Vec<_> = (0..2).map(|host| (host, 7)).collect();
    let all: Vec<_> = (0..8).map(|rail| (1, rail)).collect();
    for built in [vec![], rail, half, all] {
        assert_eq!(slow(&machine(&built)), []);
    }
}

#[test]
fn a_healthy_torus_is_sound_and_a_broken_one_says_what_carries_more() {
    let whole = spec::machine("torus:4x4x4").unwrap();
    let check = Check::of(&whole.fabric, &whole.routing, None);
    assert!(
        check.is_sound() && check.findings.is_empty(),
        "{:?}",
        check.findings
    );
    assert_eq!(
        (check.order.as_deref(), check.deadlock_free),
        (Some("X-Y-Z"), true)
    );
    let cut = whole.fabric.find_link("r0-0-0 X+").unwrap();
    let broken = whole
        .fabric
        .clone()
        .with_faults(&[hopbyte_fabric::faults::Fault::Cable(cut)]);
    let routing = Routing::default_for(&broken);
    let check = Check::of(&broken, &routing, Some((&whole.fabric, &whole.routing)));
    assert!(check.is_sound());
    assert!(
        check
            .findings
            .iter()
            .any(|f| f.kind == "oversubscribed_link"),
        "{:?}",
        check.findings
    );
    assert!(
        check
            .findings
            .iter()
            .any(|f| f.kind == "link_down" && f.links.contains(&cut))
    );
}

/// Hops of all pairs, pair by pair.
fn counted(machine: &spec::Described) -> BTreeMap<usize, u64> {
    let mut hops = BTreeMap::new();
    for a in machine.fabric.node_ids() {
        for b in machine.fabric.node_ids().filter(|&b| b != a) {
            let found = machine.routing.hops(&machine.fabric, a, b).unwrap();
            *hops.entry(found).or_default() += 1;
        }
    }
    hops
}

#[test]
fn the_pairs_of_a_grid_are_counted_as_their_routes_are() {
    for text in [
        "torus:5",
        "torus:2x3x4",
        "torus:4x4:nodes=3",
        "mesh:4x3",
        "mesh:1x5x2:nodes=2",
        "gemini:3x2x4",
        "torus:1x1",
        "torus:5x4x3:open=XY",
    ] {
        let machine = spec::machine(text).unwrap();
        let reach = Reach::of(&machine.fabric, &machine.routing);
        assert_eq!(reach.hops, counted(&machine), "{text}");
        assert_eq!(reach.pairs, reach.routable, "{text}");
        let nodes = machine.fabric.nodes().len() as u64;
        assert_eq!(reach.pairs, nodes * (nodes - 1), "{text}");
    }
}

/// Some 69 thousand million pairs: walked route by route they take minutes.
#[test]
fn the_pairs_of_a_large_grid_take_no_walk() {
    let machine = spec::machine("torus:64x64x64").unwrap();
    let reach = Reach::of(&machine.fabric, &machine.routing);
    assert_eq!(reach.routable, (1 << 36) - (1 << 18));
    // Only one node is half way round in every dimension.
    assert_eq!(reach.hops.last_key_value(), Some((&96, &(1 << 18))));
}

#[test]
fn misspelt_options_are_told_with_their_value() {
    for (text, meant) in [
        ("torus:4x4:nods=2", "did you mean nodes=2? write torus:"),
        ("mesh:4x4:lnik=25", "did you mean link=25? write mesh:"),
        (
            "fattree:k=4,level=2",
            "did you mean levels=2? write fattree:",
        ),
        (
            "dragonfly:9x4:globla=1",
            "did you mean global=1? write dragonfly:",
        ),
        // The name is right, its value is not.
        ("torus:4x4:nodes=none", "write torus:"),
    ] {
        let said = spec::fabric(text).unwrap_err().to_string();
        assert!(said.contains(&format!("hint: {meant}")), "{text}: {said}");
    }
}

#[test]
fn a_line_has_one_stencil() {
    for (text, expected) in [
        ("stencil:8", "found no points, expected 3 points"),
        ("stencil:8:5", "found 5, expected 3 points"),
        ("stencil:8x8:7", "found 7, expected 5 or 9 points"),
    ] {
        let said = declared::traffic(text).unwrap_err().to_string();
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn every_link_has_a_name_of_its_own() {
    let specs = [
        "aries:2x1x3:blue=10",
        "aries:3x2x4:blue=24",
        "dragonfly:3x2:global=7",
        "slingshot:2x2:global=5",
        "fattree:k=4,levels=3",
        "fattree:k=4,levels=2,rails=2",
        "fattree:down=2x3,up=1x4",
        "hyperx:2x2x3:nodes=2",
        "torus:2x2x1",
        "mesh:2x1",
        "gemini:2x1x2",
        "fattree:down=8x4,up=1x8,hosts=dgx-h100",
        "fattree:down=8x4,up=1x8,hosts=mi300x",
    ];
    let presets = hopbyte_fabric::presets::PRESETS.iter().map(|p| p.0);
    for text in specs.into_iter().chain(presets) {
        let fabric = spec::fabric(text).unwrap();
        let mut names: Vec<String> = fabric.link_ids().map(|l| fabric.link_name(l)).collect();
        names.sort_unstable();
        let equal = names.windows(2).find(|w| w[0] == w[1]);
        assert_eq!(equal, None, "{text}");
    }
    let parallel = spec::fabric("aries:2x1x3:blue=10").unwrap();
    let second = parallel.find_link("c0-0c0s0a0->c2-0c0s0a0 blue 2").unwrap();
    assert_ne!(
        second,
        parallel.find_link("c0-0c0s0a0->c2-0c0s0a0 blue 1").unwrap()
    );
}
