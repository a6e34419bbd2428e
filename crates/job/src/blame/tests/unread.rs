//! Counters that are not read, or that stand still.

use super::*;

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
