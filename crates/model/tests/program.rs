//! Programs in time, worked out by hand.

#![allow(clippy::unwrap_used, clippy::panic)]

use hopbyte_fabric::collective::{Algorithms, Collective, Operation, Sizes};
use hopbyte_fabric::{Fabric, NodeId, Routing, spec};
use hopbyte_model::ModelError;
use hopbyte_model::network::Network;
use hopbyte_model::parameters::{OperatingPoint, Parameters};
use hopbyte_model::program::{Action, Builder, ProgramTimes, Settings, run};

const NS: f64 = 1e-9;

/// Links of 1 GB/s, hosts of 2 GB/s, 100 ns a hop, 1 us a message, 0.2 us of processor at each end.
fn machine() -> (Fabric, Parameters) {
    let fabric = spec::fabric("torus:8:link=1,host=2,latency=100").unwrap();
    let parameters = Parameters {
        latency_s: 1e-6,
        overhead_s: 0.2e-6,
        memory_bytes_per_s: 10e9,
        memory_latency_s: 0.5e-6,
        eager_bytes: 1000.0,
        ..Parameters::plain()
    };
    (fabric, parameters)
}

fn times(
    builder: Builder,
    nodes: &[u32],
    point: OperatingPoint,
) -> Result<ProgramTimes, ModelError> {
    let (fabric, parameters) = machine();
    let routing = Routing::default_for(&fabric);
    let network = Network::new(&fabric, &routing, &parameters, point);
    let nodes: Vec<NodeId> = nodes.iter().copied().map(NodeId).collect();
    run(&network, &builder.finish()?, &nodes, &Settings::default())
}

fn one_message(bytes: f64, nodes: &[u32]) -> f64 {
    let mut b = Builder::new(2);
    b.send(0, 1, bytes, 0);
    b.receive(1, 0, 0);
    times(b, nodes, OperatingPoint::default()).unwrap().seconds
}

fn assert_close(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-12 + 1e-9 * b, "{a} is not {b}");
}

#[test]
fn small_messages_take_overheads_latency_and_bytes() {
    // 200 ns send, 1000 ns latency, 3 hops of 100 ns, 500 B at 1 GB/s, 200 ns receive.
    assert_close(one_message(500.0, &[0, 3]), 2200.0 * NS);
    // Without a hop the host links limit: 2 GB/s.
    assert_close(
        one_message(500.0, &[0, 0]),
        (200.0 + 500.0 + 50.0 + 200.0) * NS,
    );
    assert_close(one_message(0.0, &[0, 1]), 1500.0 * NS);
}

#[test]
fn large_messages_wait_for_the_receiver_and_a_round_trip() {
    // 200 ns, then three latencies of 1100 ns, 2000 B at 1 GB/s, 200 ns.
    assert_close(
        one_message(2000.0, &[0, 1]),
        (200.0 + 3300.0 + 2000.0 + 200.0) * NS,
    );
    let mut b = Builder::new(2);
    b.send(0, 1, 2000.0, 0);
    b.compute(1, 10e-6);
    b.receive(1, 0, 0);
    let t = times(b, &[0, 1], OperatingPoint::default()).unwrap();
    assert_close(t.seconds, (10_000.0 + 2200.0 + 2000.0 + 200.0) * NS);
    // The sender is held up as well.
    assert_close(t.by_rank[0], (10_000.0 + 2200.0 + 2000.0) * NS);
}

/// A large message that both sides post before they compute for 10 us.
fn computing_meanwhile(asynchronous_progress: bool) -> f64 {
    let (fabric, parameters) = machine();
    let parameters = Parameters {
        asynchronous_progress,
        ..parameters
    };
    let routing = Routing::default_for(&fabric);
    let network = Network::new(&fabric, &routing, &parameters, OperatingPoint::default());
    let mut b = Builder::new(2);
    let send = b.unmatched(
        0,
        Action::Send {
            to: 1,
            bytes: 2000.0,
        },
    );
    let receive = b.unmatched(1, Action::Receive { from: 0 });
    b.pair(send, receive);
    for (rank, request) in [(0, send), (1, receive)] {
        b.compute(rank, 10e-6);
        b.wait(rank, request);
    }
    let nodes = [NodeId(0), NodeId(1)];
    let program = b.finish().unwrap();
    let run = run(&network, &program, &nodes, &Settings::default());
    run.unwrap().seconds
}

#[test]
fn large_messages_need_calls_of_both_ranks_without_asynchronous_progress() {
    // Before the computation ends; received for 200 ns after it.
    assert_close(computing_meanwhile(true), 10_200.0 * NS);
    // The receiver answers at 10 us, the sender computed until 10.2; two latencies of 1100 ns, 2000 B at 1 GB/s, 200 ns.
    assert_close(
        computing_meanwhile(false),
        (10_000.0 + 2200.0 + 2000.0 + 200.0) * NS,
    );
}

#[test]
fn what_waits_begins_after_what_it_waits_for() {
    let mut b = Builder::new(3);
    b.compute(0, 5e-6);
    b.send(0, 1, 0.0, 0);
    b.receive(1, 0, 0);
    b.wait_all(1);
    b.compute(1, 1e-6);
    b.send(1, 2, 0.0, 0);
    b.receive(2, 1, 0);
    let t = times(b, &[0, 1, 2], OperatingPoint::default()).unwrap();
    assert_close(t.seconds, (5000.0 + 1500.0 + 1000.0 + 1500.0) * NS);
}

#[test]
fn messages_over_one_link_share_it() {
    // Two of 500 B over one link of 1 GB/s; the second leaves 200 ns later (one processor).
    let mut b = Builder::new(2);
    for tag in 0..2 {
        b.send(0, 1, 500.0, tag);
        b.receive(1, 0, tag);
    }
    let t = times(b, &[0, 1], OperatingPoint::default()).unwrap();
    // From 1300 alone for 200 ns, then shared: 300 left at half speed ends at 2100 with its receive
    // overhead until 2300; the other has 200 left at 2100, ends at 2300, received until 2500.
    assert_close(t.seconds, 2500.0 * NS);
}

#[test]
fn operating_points_scale_what_they_name() {
    let at = |point| {
        let mut b = Builder::new(2);
        b.compute(0, 1e-6);
        b.send(0, 1, 500.0, 0);
        b.receive(1, 0, 0);
        times(b, &[0, 1], point).unwrap().seconds
    };
    let normal = OperatingPoint::default();
    assert_close(at(normal), 3000.0 * NS);
    assert_close(
        at(OperatingPoint {
            link: 0.25,
            ..normal
        }),
        4500.0 * NS,
    );
    // Injection at 2 GB/s does not limit before it is below the link's 1 GB/s.
    assert_close(
        at(OperatingPoint {
            injection: 0.5,
            ..normal
        }),
        3000.0 * NS,
    );
    assert_close(
        at(OperatingPoint {
            injection: 0.25,
            ..normal
        }),
        3500.0 * NS,
    );
    assert_close(
        at(OperatingPoint {
            latency: 2.0,
            ..normal
        }),
        4100.0 * NS,
    );
    assert_close(at(OperatingPoint { cpu: 2.0, ..normal }), 2300.0 * NS);
}

#[test]
fn message_rate_spaces_messages_out() {
    let (fabric, mut parameters) = machine();
    parameters.messages_per_s = Some(1e5);
    parameters.overhead_s = 0.0;
    let routing = Routing::default_for(&fabric);
    let network = Network::new(&fabric, &routing, &parameters, OperatingPoint::default());
    let mut b = Builder::new(2);
    for tag in 0..4 {
        b.send(0, 1, 0.0, tag);
        b.receive(1, 0, tag);
    }
    let t = run(
        &network,
        &b.finish().unwrap(),
        &[NodeId(0), NodeId(1)],
        &Settings::default(),
    )
    .unwrap();
    assert_close(t.seconds, 40_000.0 * NS + 1100.0 * NS);
}

#[test]
fn collectives_take_their_rounds() {
    let seconds = |n: u32, what: &dyn Fn(&mut Builder, &[u32])| {
        let mut b = Builder::new(n as usize);
        let ranks: Vec<u32> = (0..n).collect();
        what(&mut b, &ranks);
        let nodes: Vec<u32> = ranks.iter().map(|r| r % 8).collect();
        times(b, &nodes, OperatingPoint::default()).unwrap().seconds
    };
    let collective = |b: &mut Builder, r: &[u32], collective, bytes| {
        let operation = Operation {
            collective,
            algorithm: Algorithms::default().choose(collective, r.len(), bytes),
            ranks: r.len() as u32,
            root: 0,
            sizes: Sizes::Same(bytes),
            hosts: &[],
        };
        b.collective(r, &operation, 1 << 20).unwrap();
    };
    let barrier = |b: &mut Builder, r: &[u32]| collective(b, r, Collective::Barrier, 0.0);
    // One round of an empty message to a neighbour takes 1500 ns on an idle network.
    let two = seconds(2, &barrier);
    assert_close(two, 1500.0 * NS);
    let rounds = seconds(8, &barrier);
    assert!(
        (3.0 * 1500.0 * NS..=3.0 * 1900.0 * NS).contains(&rounds),
        "{rounds}"
    );
    let allreduce = |b: &mut Builder, r: &[u32]| b.allreduce(r, 8.0).unwrap();
    assert!(seconds(8, &allreduce) < 1.1 * rounds);
    assert!(seconds(7, &allreduce) > seconds(4, &allreduce));
    use Collective::{Allgather, Alltoall, Broadcast, Reduce};
    for what in [Broadcast, Reduce, Allgather] {
        assert!(seconds(6, &|b, r| collective(b, r, what, 100.0)) > 2.0 * 1500.0 * NS);
    }
    // Messages of an all-to-all: every rank to every other once.
    let mut b = Builder::new(5);
    collective(&mut b, &[0, 1, 2, 3, 4], Alltoall, 8.0);
    assert_eq!(b.finish().unwrap().messages().count(), 20);
}

#[test]
fn programs_that_cannot_end_are_refused() {
    let mut b = Builder::new(2);
    b.send(0, 1, 1.0, 0);
    let error = b.finish().unwrap_err().to_string();
    assert!(error.contains("1 sends and 0 receives"), "{error}");
    // Large blocking sends of two ranks to each other.
    let mut b = Builder::new(2);
    for (me, other) in [(0, 1), (1, 0)] {
        b.send(me, other, 5000.0, 0);
        b.wait_all(me);
        b.receive(me, other, 0);
    }
    let error = times(b, &[0, 1], OperatingPoint::default()).unwrap_err();
    assert!(
        matches!(
            error,
            ModelError::Deadlock {
                rank: 0,
                operations: 4,
                ..
            }
        ),
        "{error}"
    );
    assert!(error.to_string().contains("messages of 5000 B"), "{error}");
    let mut b = Builder::new(2);
    for (me, other) in [(0, 1), (1, 0)] {
        b.receive(me, other, 0);
        b.wait_all(me);
        b.send(me, other, 8.0, 0);
    }
    let error = times(b, &[0, 1], OperatingPoint::default()).unwrap_err();
    assert!(!error.to_string().contains("eager_bytes"), "{error}");
    let mut b = Builder::new(1);
    let first = b.free(0, Action::Compute { seconds: 1.0 });
    b.order(first, first);
    assert!(b.finish().unwrap_err().to_string().contains("cycle"));
}
