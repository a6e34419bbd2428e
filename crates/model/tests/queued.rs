//! Frames in the queues of links: first come, first served; windows; buckets; streams of other jobs.

#![allow(clippy::unwrap_used)]

use hopbyte_fabric::wire::{Packets, Protocol};
use hopbyte_fabric::{NodeId, spec};
use hopbyte_model::network::Network;
use hopbyte_model::parameters::{OperatingPoint, Parameters, Queues};
use hopbyte_model::program::{Queued, Stream, Transport};

/// Seconds at which messages of 145 kB (100 full frames) of node 0 arrive: to node 1 first, then to node 2.
fn arrivals(window: f64, burst: f64, streams: &[Stream]) -> Vec<f64> {
    let machine = spec::machine("torus:4x4:link=0.001,host=0.001").unwrap();
    let parameters = Parameters {
        protocol: Protocol::Packets(Packets::TCP),
        ..Parameters::plain()
    };
    let point = OperatingPoint::default();
    let network = Network::new(&machine.fabric, &machine.routing, &parameters, point);
    let rules = Queues {
        first_window_bytes: window,
        window_bytes: window,
        burst_bytes: burst,
    };
    let mut queued = Queued::new(&network, rules, streams).unwrap();
    queued.begin(NodeId(0), NodeId(1), 144_800.0, 1).unwrap();
    queued.begin(NodeId(0), NodeId(2), 144_800.0, 2).unwrap();
    let mut done = Vec::new();
    let mut found = Vec::new();
    while queued.is_busy() {
        queued.run_until(f64::INFINITY, &mut done);
        found.extend(done.drain(..).map(|d| d.seconds));
    }
    found
}

#[test]
fn what_is_queued_first_arrives_first_and_windows_share() {
    let all = arrivals(1e9, 0.0, &[]);
    // 100 frames of 1,514 bytes at 1 MB/s, and two more hops of one frame each.
    assert!((all[0] - 0.1514 - 2.0 * 0.001514).abs() < 1e-5, "{all:?}");
    assert!((all[1] - 0.3028 - 3.0 * 0.001514).abs() < 1e-5, "{all:?}");
    let shared = arrivals(20_000.0, 0.0, &[]);
    assert!(
        shared[0] > 0.28 && (shared[1] - all[1]).abs() < 0.02,
        "{shared:?}"
    );
}

#[test]
fn a_bucket_lets_its_bytes_pass_and_streams_take_their_share() {
    let all = arrivals(1e9, 6400.0, &[]);
    assert!((all[1] - (0.3028 - 0.0064)).abs() < 1e-5, "{all:?}");
    // The first windows pass before the stream; then it takes half of the link.
    let beside = arrivals(20_000.0, 0.0, &[(NodeId(0), NodeId(1), 1448.0, 0.5e6)]);
    assert!((beside[1] / 0.6056 - 1.0).abs() < 0.1, "{beside:?}");
}
