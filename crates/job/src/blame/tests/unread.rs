//! Counters that are not read, or that stand still, and faults that have passed.

use super::*;
use hopbyte_fabric::Quantity;

/// A link may wait for one behind it whose waiting nothing counts, as where only hosts or some switches are read.
#[test]
fn links_that_wait_before_unread_ones_are_not_accused() {
    let (fabric, mut state) = quiet("torus:4x4:nodes=2");
    let slow = link(&fabric, "r0-0 X+");
    state.credit_stall_ratio.set(slow, Some(0.6));
    assert_eq!(faults(&fabric, &state).len(), 1);
    state.credit_stall_ratio.set(link(&fabric, "r1-0 Y+"), None);
    let found = blame(&fabric, &Routing::default_for(&fabric), &state, None).unwrap();
    assert_eq!(found.causes, []);
    let told = "waiting at 1 link: that of links behind is not known".to_owned();
    assert!(found.not_judged.contains(&told), "{:?}", found.not_judged);
    // Pauses that a node sends make it a slow receiver where its router counts no waiting.
    let eject = fabric.node(fabric.node_ids().next().unwrap()).eject;
    state.credit_stall_ratio.set(eject, None);
    state.input_stall_ratio.set(eject, Some(0.9));
    assert_eq!(faults(&fabric, &state)[0].0, Kind::SlowReceiver);
}

/// A switch that repeats its values is neither idle nor slow.
#[test]
fn a_frozen_router_is_told_and_not_accused() {
    let (fabric, mut state) = quiet("torus:4x4:nodes=2");
    let router = fabric.router_ids().next().unwrap();
    for l in fabric.link_ids() {
        let bytes = 5.0 * fabric.link(l).capacity().0;
        state.used_ratio.set(l, Some(0.5));
        state.sent_bytes.set(l, Some(bytes));
        state.received_bytes.set(l, Some(bytes));
        if fabric.link(l).from == End::Router(router) {
            state.sent_bytes.set(l, Some(0.0));
            state.credit_stall_ratio.set(l, Some(0.0));
        }
        if fabric.link(l).to == End::Router(router) {
            state.received_bytes.set(l, Some(0.0));
            state.used_ratio.set(l, Some(0.0));
            state.credit_stall_ratio.set(l, Some(0.7));
        }
    }
    let found = blame(&fabric, &Routing::default_for(&fabric), &state, None).unwrap();
    assert_eq!(found.causes, []);
    let of = |words: &str| found.not_judged.iter().any(|n| n.contains(words));
    let name = &fabric.router(router).name;
    assert!(
        of("counters that stand still") && of(name),
        "{:?}",
        found.not_judged
    );
}

/// Lanes that were out of service within the window are told though they are back, those of a cable once.
#[test]
fn lanes_and_rates_that_came_back_are_told() {
    let (fabric, mut state) = quiet("torus:4x4:nodes=2");
    let [flapped, slower, hardly] = ["r0-0 X+", "r1-1 Y+", "r2-2 X+"].map(|n| link(&fabric, n));
    let back = fabric.reverse(flapped).unwrap();
    for l in [flapped, back] {
        state.lanes.set(l, Some(1.0));
        state.least.insert((Quantity::Lanes, l), 0.0);
    }
    for (l, share) in [(slower, 0.25), (hardly, 0.98)] {
        let rate = fabric.link(l).capacity().0;
        state.agreed.set(l, Some(rate));
        state.least.insert((Quantity::Capacity, l), share * rate);
    }
    let found = blame(&fabric, &Routing::default_for(&fabric), &state, None).unwrap();
    let causes = found.causes.iter();
    let told: Vec<_> = causes.map(|c| (c.fault, c.kind, &*c.evidence[0])).collect();
    let part = |share| format!("For a part of the window it had {share} of its ");
    let expected = [
        (Kind::Down, "cable", part("0 %") + "lanes."),
        (Kind::Slow, "link", part("25.0 %") + "rate."),
    ];
    let expected = expected.each_ref().map(|(k, c, words)| (*k, *c, &**words));
    assert_eq!(told, expected);
}

/// Lanes out of service lower the rate on which the ends agree: one fault, unless it is lower still.
#[test]
fn lost_lanes_and_their_rate_are_one_fault() {
    let (fabric, mut state) = quiet("gemini:2x2x8");
    let l = link(&fabric, "c0-0c0s0g0 Z+");
    let (lanes, rate) = (fabric.link(l).lanes, fabric.link(l).capacity().0);
    state.lanes.set(l, Some(f64::from(lanes / 2)));
    for (share, expected) in [
        (0.5, vec![Kind::Lanes]),
        (0.2, vec![Kind::Lanes, Kind::Slow]),
    ] {
        state.agreed.set(l, Some(share * rate));
        let told: Vec<Kind> = faults(&fabric, &state).iter().map(|f| f.0).collect();
        assert_eq!(told, expected);
    }
}

/// A link that is up at both readings may have been down in between.
#[test]
fn a_link_that_went_down_within_the_window_is_told() {
    let (fabric, mut state) = quiet("torus:4x4:nodes=2");
    let flaps = link(&fabric, "r0-0 X+");
    state.downs.set(flaps, Some(20.0));
    state.downs.set(fabric.reverse(flaps).unwrap(), Some(19.0));
    state.downs.set(link(&fabric, "r1-1 Y+"), Some(0.0));
    let told = |state: &LinkState| -> Vec<_> {
        let found = blame(&fabric, &Routing::default_for(&fabric), state, None).unwrap();
        let causes = found.causes.into_iter();
        causes
            .map(|c| (c.fault, c.kind, c.evidence.join(" ")))
            .collect()
    };
    let evidence = "It went down 20 times in the window. So did 0 other links.";
    assert_eq!(told(&state), [(Kind::Down, "cable", evidence.to_owned())]);
    state.ended.insert((Quantity::Downs, flaps), 20.0);
    let evidence = evidence.replace("window.", "window, the last time 20.0 s before its end.");
    assert_eq!(told(&state), [(Kind::Down, "cable", evidence)]);
    // That of a host goes down when the host restarts, and is told once.
    state.downs.set(flaps, Some(0.0));
    state.downs.set(fabric.reverse(flaps).unwrap(), Some(0.0));
    let node = &fabric.nodes()[0];
    state.downs.set(node.eject, Some(1.0));
    state.downs.set(node.inject, Some(1.0));
    let evidence = "It went down once in the window, by its cable, or because its host restarted. So did 0 other links.";
    assert_eq!(
        told(&state),
        [(Kind::Down, "host link", evidence.to_owned())]
    );
    // Of totals it is not known when.
    state.window_seconds = None;
    assert_eq!(told(&state), []);
}

/// Cables of nodes are hops on a tree of switches, and are not between routers.
#[test]
fn cables_of_nodes_are_not_between_routers() {
    use hopbyte_fabric::units::{BytesPerSecond, Seconds};
    use hopbyte_fabric::{FabricBuilder, Family, LinkSpec};
    let mut b = FabricBuilder::new(Family::Generic, "two leaves");
    let (cable, rate) = (b.kind("cable", false), BytesPerSecond(1e9));
    let leaves = ["leaf1", "leaf2"].map(|name| b.router(name, &[]));
    for (leaf, name) in leaves.into_iter().zip(["n1", "n2"]) {
        b.node_with_link(name, name, leaf, cable, rate);
    }
    let [one, two] = leaves.map(End::Router);
    for (from, to) in [(one, two), (two, one)] {
        b.link(LinkSpec::new(from, to, cable, rate, Seconds(0.0)));
    }
    let fabric = b.finish().unwrap();
    let mut state = LinkState::unknown(&fabric);
    state.window_seconds = Some(10.0);
    for node in fabric.nodes() {
        for link in [node.inject, node.eject] {
            state.coverage[link.index()] = 1.0;
            state.used_ratio.set(link, Some(0.05));
        }
    }
    let found = blame(&fabric, &Routing::default_for(&fabric), &state, None).unwrap();
    let told = |words: &str| found.not_judged.iter().any(|n| n.contains(words));
    assert!(
        told("2 of 2 between routers") && !told("slow nodes"),
        "{:?}",
        found.not_judged
    );
}

/// Metrics of Gemini have no links of nodes, which may be full: that is why nothing is named.
#[test]
fn waiting_that_links_of_nodes_may_explain_is_told() {
    let (fabric, mut state) = quiet("torus:4x4");
    for l in fabric.link_ids() {
        if !fabric.is_hop(l) {
            state.coverage[l.index()] = 0.0;
            state.used_ratio.set(l, None);
            state.credit_stall_ratio.set(l, None);
        }
    }
    let router = fabric.router_named("r1-1").unwrap();
    let into = fabric
        .link_ids()
        .filter(|&l| fabric.link(l).to == End::Router(router));
    let into: Vec<LinkId> = into.filter(|&l| fabric.is_hop(l)).collect();
    // As much as fills the node's link alone, and less.
    for used in [0.3, 0.13] {
        for &l in &into {
            state.used_ratio.set(l, Some(used));
            state.credit_stall_ratio.set(l, Some(0.6));
        }
        let found = blame(&fabric, &Routing::default_for(&fabric), &state, None).unwrap();
        assert_eq!(found.causes, []);
        let told = |words: &str| found.not_judged.iter().any(|n| n.starts_with(words));
        let hidden = told("waiting at r1-1: links to nodes") && told("slow nodes: no link of");
        assert!(hidden, "{:?}", found.not_judged);
    }
}

/// Four paths between two routers lose packets in a full queue that is not read: the links before it, which count no drops,
/// explain that as well and are not accused.
#[test]
fn losses_that_an_unread_queue_explains_accuse_nobody() {
    let (fabric, mut state) = quiet("torus:4x4:nodes=2");
    for l in fabric.link_ids() {
        state.drops.set(l, Some(0.0));
        state.packets.set(l, Some(20_000.0));
    }
    let nodes = |name: &str| {
        let router = fabric.router_named(name).unwrap();
        fabric.nodes_on(router).to_vec()
    };
    for (to, lost) in [("r2-0", 100.0), ("r0-2", 0.0)] {
        let counts = PathCounts {
            sent_bytes: 0.0,
            packets: 2000.0,
            lost,
        };
        for &from in &nodes("r0-0") {
            let pairs = nodes(to).into_iter().map(|to| (from, to));
            state.paths.extend(pairs.map(|ends| (ends, counts)));
        }
    }
    assert_eq!(faults(&fabric, &state)[0].0, Kind::Loses);
    state.drops.set(link(&fabric, "r1-0 X+"), None);
    let found = blame(&fabric, &Routing::default_for(&fabric), &state, None).unwrap();
    assert_eq!(found.causes, []);
    let last = found.not_judged.last().unwrap();
    assert!(last.starts_with("lost packets at 1 component"), "{last}");
}

/// Adapters count their waiting in ticks of an unknown length: several that are never idle tell it.
#[test]
fn adapters_that_are_never_idle_tell_their_tick() {
    let (fabric, mut state) = quiet("fattree:k=4,levels=2");
    let nodes: Vec<NodeId> = fabric.node_ids().collect();
    let per_second = fabric.link(fabric.node(nodes[0]).inject).capacity().0 / 8.0;
    let mut set = |node: usize, used: f64, waits: f64| {
        let l = fabric.node(nodes[node]).inject;
        state.credit_stall_ratio.set(l, None);
        state.used_ratio.set(l, Some(used));
        let ticks = waits * per_second * 10.0;
        state.credit_stall_count.set(l, Some(ticks));
    };
    for node in 0..5 {
        let used = 0.1 * node as f64;
        set(node, used, 1.0 - used);
    }
    set(5, 0.3, 0.2);
    let shares = |state: &LinkState| -> Vec<Option<f64>> {
        let state = super::ticks::with_adapters(&fabric, std::borrow::Cow::Borrowed(state));
        let of = |&n: &NodeId| state.credit_stall_ratio.get(fabric.node(n).inject);
        nodes[..6].iter().map(of).collect()
    };
    let found = shares(&state);
    for (found, expected) in found.iter().zip([1.0, 0.9, 0.8, 0.7, 0.6, 0.2]) {
        assert!((found.unwrap() - expected).abs() < 1e-9, "{found:?}");
    }
    // Those that send alike may wait alike, too.
    for &node in &nodes[..5] {
        let l = fabric.node(node).inject;
        state.used_ratio.set(l, Some(0.2));
        let ticks = 0.8 * per_second * 10.0;
        state.credit_stall_count.set(l, Some(ticks));
    }
    assert_eq!(shares(&state), [None; 6]);
}
