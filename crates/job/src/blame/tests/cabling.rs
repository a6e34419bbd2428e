//! Cables and routes that are not as the fabric has them.

use super::*;
use crate::attribution::Recorded;
use hopbyte_observe::Then;
use hopbyte_observe::counters::jobs as read_jobs;
use hopbyte_observe::text::{Limits, Text};

/// What one cable is sent arrives at the end of another, however little it is.
#[test]
fn exchanged_cables_are_told_by_what_arrives() {
    let (fabric, mut state) = quiet("torus:4x4");
    for l in fabric.link_ids() {
        state.sent_bytes.set(l, Some(5e3));
        state.received_bytes.set(l, Some(5e3));
        state.packets.set(l, Some(4.0));
    }
    let healthy = state.clone();
    let counts = |state: &mut LinkState, name: &str, sent: f64, received: f64| {
        let link = link(&fabric, name);
        state.sent_bytes.set(link, Some(sent));
        state.received_bytes.set(link, Some(received));
        state.packets.set(link, Some(received / 1500.0));
    };
    counts(&mut state, "r0-0 X+", 90e3, 0.0);
    counts(&mut state, "r2-2 Y+", 0.0, 90e3);
    let told = [(Kind::Miscabled, "r0-0 X+".to_owned())];
    assert_eq!(faults(&fabric, &state), told);
    // A few packets are no evidence.
    let few = |state: &mut LinkState| {
        let (one, other) = (link(&fabric, "r0-0 X+"), link(&fabric, "r2-2 Y+"));
        state.sent_bytes.set(one, Some(9e3));
        state.received_bytes.set(other, Some(9e3));
        state.packets.set(other, Some(6.0));
    };
    few(&mut state);
    assert_eq!(faults(&fabric, &state), []);
    // What the other end sends must arrive as well.
    let mut state = healthy.clone();
    counts(&mut state, "r0-0 X+", 90e3, 0.0);
    counts(&mut state, "r2-2 Y+", 45e3, 90e3);
    assert_eq!(faults(&fabric, &state), []);
    // Two links in a row that were read between the messages of one flow.
    let mut state = healthy;
    for (name, sent, received) in [("r0-0 X+", 90e3, 100e3), ("r1-0 X+", 100e3, 90e3)] {
        let link = link(&fabric, name);
        state.sent_bytes.set(link, Some(sent));
        state.received_bytes.set(link, Some(received));
        state.packets.set(link, Some(60.0));
    }
    assert_eq!(faults(&fabric, &state), []);
}

/// After a failure other routes are in force than the fabric's: said, and nobody is accused of it.
#[test]
fn traffic_beside_the_routes_is_told() {
    let (fabric, mut state) = quiet("torus:4x4");
    let routing = Routing::default_for(&fabric);
    let csv = "job,node\na,n0-0\na,n1-0\nb,n2-2\nb,n2-3\n";
    let text = Text::from_bytes("jobs.csv", csv.as_bytes(), Limits::TEXT).unwrap();
    let jobs = read_jobs(&text, &fabric, Then::Now(0.0)).unwrap();
    for l in fabric.link_ids() {
        state.used_ratio.set(l, Some(0.0));
        state.received_bytes.set(l, Some(0.0));
    }
    let carries = |state: &mut LinkState, name: &str| {
        let link = link(&fabric, name);
        state.used_ratio.set(link, Some(0.2));
        state.received_bytes.set(link, Some(25e9));
    };
    for name in ["n0-0->r0-0 host", "r0-0 X+", "r1-0->n1-0 host"] {
        carries(&mut state, name);
    }
    let say = |state: &LinkState| {
        let recorded = Recorded::default();
        let jobs = Attribution::of(&fabric, &routing, state, &jobs, recorded);
        let found = blame(&fabric, &routing, state, Some(&jobs)).unwrap();
        assert_eq!(found.causes, []);
        let routes = found.not_judged.into_iter();
        routes
            .filter(|n| n.starts_with("routes"))
            .collect::<Vec<_>>()
    };
    assert_eq!(say(&state), [""; 0]);
    // The cable is cut, and the bytes go round.
    state.used_ratio.set(link(&fabric, "r0-0 X+"), Some(0.0));
    state
        .received_bytes
        .set(link(&fabric, "r0-0 X+"), Some(0.0));
    for name in ["r0-0 Y+", "r0-1 X+", "r1-1 Y-"] {
        carries(&mut state, name);
    }
    let told = "routes: 3 links carry more than the routes of jobs lead over them, such as r0-0 Y+";
    assert_eq!(say(&state), [told]);
}

/// A link and its way back that both wait without a reason are one cable.
#[test]
fn both_directions_of_a_slow_cable_are_told_once() {
    let (fabric, mut state) = quiet("torus:4x4");
    let ends = ["r1-1 X+", "r2-1 X-"].map(|name| link(&fabric, name));
    assert_eq!(fabric.reverse(ends[0]), Some(ends[1]));
    for l in ends {
        state.credit_stall_ratio.set(l, Some(0.6));
    }
    let found = blame(&fabric, &Routing::default_for(&fabric), &state, None).unwrap();
    let [cause] = &found.causes[..] else {
        panic!("{:?}", found.causes);
    };
    let told = (cause.fault, cause.kind, cause.waiting_links);
    assert_eq!(told, (Kind::Slow, "cable", 2));
    assert_eq!(cause.name, fabric.link_name(ends[0].min(ends[1])));
    // One direction alone is a link.
    state.credit_stall_ratio.set(ends[1], Some(0.0));
    let found = faults(&fabric, &state);
    assert_eq!(found, [(Kind::Slow, "r1-1 X+".to_owned())]);
}
