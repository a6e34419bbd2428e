//! Recorded programs in time, worked out by hand.

#![allow(clippy::unwrap_used, clippy::panic)]

use hopbyte_fabric::collective::{Algorithms, Collective, How};
use hopbyte_fabric::trace::{Call, Dependency, Order, RankTrace};
use hopbyte_fabric::{NodeId, Trace, spec};
use hopbyte_model::network::Network;
use hopbyte_model::parameters::{OperatingPoint, Parameters};
use hopbyte_model::program::{LeftOut, Program, ProgramTimes, Settings, run};

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
        how: How::default(),
        group: 0,
        root: 0,
        bytes,
        row: None,
        request: None,
        neighbors: false,
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

fn asked(from: Option<u32>, request: u32) -> Call {
    Call::Receive {
        from,
        tag: None,
        group: 0,
        request: Some(request),
    }
}

fn begun(kind: Collective, request: u32) -> Call {
    Call::Collective {
        kind,
        how: How::default(),
        group: 0,
        root: 0,
        bytes: 0.0,
        row: None,
        request: Some(request),
        neighbors: false,
    }
}

/// A network on which messages above 100 bytes wait for their receivers.
fn recorded(trace: &Trace) -> (ProgramTimes, LeftOut) {
    let machine = spec::machine("torus:8:link=1,host=1").unwrap();
    let mut parameters = Parameters::plain();
    parameters.eager_bytes = 100.0;
    let point = OperatingPoint {
        latency: 0.0,
        ..OperatingPoint::default()
    };
    let network = Network::new(&machine.fabric, &machine.routing, &parameters, point);
    let marks = vec![Vec::new(); trace.ranks.len()];
    let rules = Algorithms::default();
    let recorded = Program::of_marked(trace, None, &rules, &marks).unwrap();
    let nodes: Vec<NodeId> = (0..trace.ranks.len() as u32).map(NodeId).collect();
    let times = run(&network, &recorded.program, &nodes, &Settings::default()).unwrap();
    (times, recorded.left_out)
}

#[test]
fn ranks_go_on_during_collectives_that_they_wait_for_later() {
    // Rank 0 receives the message, for which rank 1 waits, only after the barrier has begun.
    let barrier = || begun(Collective::Barrier, 3);
    let ended = Call::Wait { request: 3 };
    let t = trace(vec![
        vec![barrier(), compute(1.0), receive(Some(1), None), ended],
        vec![send(0, 0, 1e9), compute(1.0), barrier(), ended],
    ]);
    let (times, left_out) = recorded(&t);
    assert!(left_out.is_empty());
    near(times.by_rank[0], 3.0);
    near(times.by_rank[1], 3.0);
    // The barrier ends during the computation.
    let t = trace(vec![
        vec![barrier(), compute(5.0), ended, compute(1.0)],
        vec![compute(2.0), barrier(), ended],
    ]);
    let (times, _) = recorded(&t);
    near(times.by_rank[0], 6.0);
}

#[test]
fn collectives_of_a_group_match_in_their_order_whichever_is_awaited_first() {
    let reduce = |request| match begun(Collective::Allreduce, request) {
        Call::Collective {
            kind,
            group,
            root,
            row,
            request,
            neighbors,
            ..
        } => Call::Collective {
            kind,
            how: How::default(),
            group,
            root,
            bytes: 1e9,
            row,
            request,
            neighbors,
        },
        other => other,
    };
    let wait = |request| Call::Wait { request };
    let ranks = vec![
        vec![reduce(1), begun(Collective::Barrier, 2), wait(2), wait(1)],
        vec![
            compute(1.0),
            reduce(1),
            collective(Collective::Barrier, 0.0),
            wait(1),
        ],
    ];
    let (times, left_out) = recorded(&trace(ranks));
    assert!(left_out.is_empty());
    near(times.by_rank[0], 2.0);
}

#[test]
fn broadcasts_that_their_root_has_left_do_not_wait_for_each_other() {
    // As two threads call them, each on its own communicator.
    let on = |group| Call::Collective {
        kind: Collective::Broadcast,
        how: How::default(),
        group,
        root: 0,
        bytes: 8.0,
        row: None,
        request: None,
        neighbors: false,
    };
    let mut t = trace(vec![vec![on(0), on(1)], vec![on(1), on(0)]]);
    t.groups.push(vec![0, 1]);
    let (_, left_out) = recorded(&t);
    assert!(left_out.is_empty());
}

#[test]
fn sends_that_nobody_waits_for_end_by_themselves() {
    let buffered = |request| Call::Send {
        to: 0,
        tag: 0,
        group: 0,
        request: Some(request),
        bytes: 1e9,
    };
    let t = trace(vec![
        vec![compute(1.0), receive(Some(1), None), receive(Some(1), None)],
        // The number is used again before the first one has ended.
        vec![buffered(0), buffered(0), compute(0.5)],
    ]);
    let (times, _) = recorded(&t);
    near(times.by_rank[0], 3.0);
}

#[test]
fn cancelled_receives_need_no_message() {
    let t = trace(vec![
        vec![asked(None, 0), Call::Cancel { request: 0 }, compute(1.0)],
        vec![compute(2.0)],
    ]);
    let (times, left_out) = recorded(&t);
    assert!(left_out.is_empty());
    near(times.by_rank[0], 1.0);
    assert!(Program::of_trace(&t, None).is_ok());
}

#[test]
fn receives_from_any_source_take_the_message_that_they_took() {
    let took = |from| Call::Matched {
        request: 0,
        from,
        tag: 0,
    };
    let wait = Call::Wait { request: 0 };
    let first = |from| {
        vec![
            asked(None, 0),
            took(from),
            wait,
            receive(Some(from), Some(1)),
        ]
    };
    // Rank 2 was first, although rank 1 would be matched first.
    let sender = || vec![send(0, 0, 1e9), send(0, 1, 0.0)];
    let later = [vec![compute(10.0)], sender()].concat();
    let t = trace(vec![
        [first(2), vec![compute(1.0)], first(1)].concat(),
        later,
        sender(),
    ]);
    let (times, left_out) = recorded(&t);
    assert!(left_out.is_empty());
    near(times.by_rank[2], 1.0);
    near(times.by_rank[0], 11.0);
}

#[test]
fn a_run_that_ended_had_its_sends_buffered() {
    let both = |other| vec![send(other, 0, 1000.0), receive(Some(other), None)];
    let t = trace(vec![both(1), both(0)]);
    let (times, left_out) = recorded(&t);
    assert!(left_out.is_empty());
    near(times.buffered_bytes, 1000.0);
    near(times.seconds, 1e-6);
    // Sends that find their receivers are as they were.
    let t = trace(vec![vec![send(1, 0, 1000.0)], vec![receive(Some(0), None)]]);
    assert_eq!(recorded(&t).0.buffered_bytes, 0.0);
}

#[test]
fn calls_without_their_counterparts_are_left_out_and_counted() {
    let t = trace(vec![
        vec![
            send(1, 0, 1e9),
            receive(Some(1), None),
            compute(1.0),
            collective(Collective::Barrier, 0.0),
            compute(1.0),
        ],
        vec![compute(3.0)],
    ]);
    let (times, left_out) = recorded(&t);
    let expected = LeftOut {
        sends: 1,
        receives: 1,
        collectives: 1,
    };
    assert_eq!(left_out, expected);
    near(times.by_rank[0], 2.0);
}

#[test]
fn neighbours_wait_for_each_other_alone() {
    let row = |bytes: [f64; 3], seconds| RankTrace {
        calls: vec![
            compute(seconds),
            Call::Collective {
                kind: Collective::Alltoall,
                how: How::default(),
                group: 0,
                root: 0,
                bytes: 0.0,
                row: Some(0),
                request: None,
                neighbors: true,
            },
        ],
        rows: bytes.to_vec(),
        ..RankTrace::default()
    };
    let mut t = trace(vec![Vec::new(); 3]);
    t.ranks = vec![
        row([0.0, 1e9, 0.0], 0.0),
        row([1e9, 0.0, 0.0], 1.0),
        row([0.0; 3], 7.0),
    ];
    let (times, _) = recorded(&t);
    near(times.by_rank[0], 2.0);
    near(times.by_rank[2], 7.0);
}
