//! Recorded programs in time, worked out by hand.

#![allow(clippy::unwrap_used, clippy::panic)]

use hopbyte_fabric::collective::Collective;
use hopbyte_fabric::trace::{Call, Dependency, Order, RankTrace};
use hopbyte_fabric::{NodeId, Trace, spec};
use hopbyte_model::network::Network;
use hopbyte_model::parameters::{OperatingPoint, Parameters};
use hopbyte_model::program::{Program, ProgramTimes, Settings, run};

fn trace(ranks: Vec<Vec<Call>>) -> Trace {
    let groups = vec![(0..ranks.len() as u32).collect()];
    let rank = |calls| RankTrace {
        calls,
        ..RankTrace::default()
    };
    Trace {
        source: "by hand".into(),
        ranks: ranks.into_iter().map(rank).collect(),
        groups,
    }
}

fn send(to: u32, tag: u32, bytes: f64) -> Call {
    Call::Send {
        to,
        tag,
        group: 0,
        request: None,
        bytes,
    }
}

fn receive(from: Option<u32>, tag: Option<u32>) -> Call {
    Call::Receive {
        from,
        tag,
        group: 0,
        request: None,
    }
}

fn compute(seconds: f64) -> Call {
    Call::Compute { seconds }
}

fn collective(kind: Collective, bytes: f64) -> Call {
    Call::Collective {
        kind,
        group: 0,
        root: 0,
        bytes,
        row: None,
    }
}

/// On a ring whose links and hosts move 1 GB/s without latency or overhead.
fn times(trace: &Trace) -> ProgramTimes {
    let machine = spec::machine("torus:8:link=1,host=1").unwrap();
    let parameters = Parameters::plain();
    let point = OperatingPoint {
        latency: 0.0,
        ..OperatingPoint::default()
    };
    let network = Network::new(&machine.fabric, &machine.routing, &parameters, point);
    let program = Program::of_trace(trace, Some(1e9)).unwrap();
    let nodes: Vec<NodeId> = (0..program.ranks() as u32).map(NodeId).collect();
    run(&network, &program, &nodes, &Settings::default()).unwrap()
}

fn near(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-9 * b.abs().max(1e-9), "{a} is not {b}");
}

#[test]
fn calls_come_in_turn_and_waits_wait() {
    let asked = |request| Call::Receive {
        from: Some(0),
        tag: None,
        group: 0,
        request: Some(request),
    };
    let t = times(&trace(vec![
        vec![compute(1.0), send(1, 7, 1e9), send(1, 8, 2e9)],
        vec![
            asked(1),
            asked(2),
            compute(0.5),
            Call::Wait { request: 1 },
            Call::Work { operations: 4e9 },
            Call::Wait { request: 2 },
            compute(1.0),
        ],
    ]));
    // Both messages leave after a second and share the link, until the small one ends after two
    // more; the work takes four seconds, so that the wait for the other one, which ends after four, is over at once.
    near(t.by_rank[1], 1.0 + 2.0 + 4.0 + 1.0);
}

#[test]
fn tags_and_anybody_are_matched() {
    // The receive of tag 2 takes the second message, the one from any source the other.
    let t = times(&trace(vec![
        vec![send(2, 1, 1e9), send(2, 2, 1e9)],
        vec![compute(10.0), send(2, 5, 0.0)],
        vec![
            receive(Some(0), Some(2)),
            compute(1.0),
            receive(None, Some(1)),
            receive(None, None),
        ],
    ]));
    near(t.by_rank[2], 10.0);
    let error = |ranks| {
        Program::of_trace(&trace(ranks), None)
            .unwrap_err()
            .to_string()
    };
    let nobody = error(vec![vec![], vec![receive(Some(0), None)]]);
    assert!(
        nobody.contains("rank 1") && nobody.contains("without a send"),
        "{nobody}"
    );
    let left = error(vec![vec![send(1, 0, 1.0)], vec![]]);
    assert!(left.contains("does not receive"), "{left}");
    let beyond = error(vec![vec![send(9, 0, 1.0)]]);
    assert!(beyond.contains("rank"), "{beyond}");
    let slow = error(vec![vec![Call::Work { operations: 1.0 }]]);
    assert!(slow.contains("operations_per_s"), "{slow}");
}

#[test]
fn collectives_wait_for_everybody() {
    // Four ranks: a barrier has two rounds of messages without bytes.
    let mut ranks: Vec<Vec<Call>> = (0..4u32)
        .map(|r| vec![compute(f64::from(r)), collective(Collective::Barrier, 0.0)])
        .collect();
    near(times(&trace(ranks.clone())).seconds, 3.0);
    // A pending request remains pending across it.
    ranks[0].insert(
        0,
        Call::Receive {
            from: Some(1),
            tag: None,
            group: 0,
            request: Some(0),
        },
    );
    ranks[1].extend([compute(5.0), send(0, 0, 1e9)]);
    ranks[0].extend([compute(1.0), Call::WaitAll]);
    near(times(&trace(ranks.clone())).by_rank[0], 3.0 + 5.0 + 1.0);
    let broadcast = |bytes| vec![collective(Collective::Broadcast, bytes)];
    let two = times(&trace(vec![broadcast(1e9), broadcast(1e9)]));
    near(two.seconds, 1.0);
    // Members that call different collectives.
    let error = |ranks| {
        Program::of_trace(&trace(ranks), None)
            .unwrap_err()
            .to_string()
    };
    let other = error(vec![
        broadcast(1.0),
        vec![collective(Collective::Barrier, 0.0)],
    ]);
    assert!(other.contains("barrier"), "{other}");
    let missing = error(vec![broadcast(1.0), vec![]]);
    assert!(missing.contains("collective"), "{missing}");
}

#[test]
fn graphs_wait_for_what_they_say() {
    let mut t = trace(vec![
        // 0 and 1 in any order on one processor, 2 after 0, 3 as soon as 2 may begin.
        vec![compute(1.0), compute(2.0), send(1, 0, 1e9), send(1, 1, 1e9)],
        vec![receive(Some(0), Some(0)), receive(Some(0), Some(1))],
    ]);
    let dependency = |later, earlier, begun| Dependency {
        later,
        earlier,
        begun,
    };
    t.ranks[0].order = Order::Graph(vec![dependency(2, 0, false), dependency(3, 2, true)]);
    t.ranks[1].order = Order::Graph(Vec::new());
    let found = times(&t);
    // A send needs the processor, which computes for three seconds; then both share the link.
    near(found.by_rank[1], 3.0 + 2.0);
    near(found.by_rank[0], 3.0);
    t.ranks[0].order = Order::Graph(vec![dependency(2, 3, true), dependency(3, 2, true)]);
    let circle = Program::of_trace(&t, None).unwrap_err().to_string();
    assert!(circle.contains("cycl"), "{circle}");
}
