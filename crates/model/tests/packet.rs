//! The packet model: what it counts, how it shares links, that it repeats itself.

#![allow(clippy::unwrap_used, clippy::panic)]

use hopbyte_fabric::spec;
use hopbyte_model::network::Network;
use hopbyte_model::packet::{OpenLoop, RouterSpec};
use hopbyte_model::parameters::{OperatingPoint, Parameters};
use hopbyte_model::{Inputs, Level, Outcome, Question, Scenario};

fn answer(level: Level, text: &str) -> Outcome {
    let text = format!(
        "schema = \"hopbyte.scenario/1\"\nname = \"test\"\nfabric = \"gemini:2x2x8\"\nnetwork = \"gemini\"\n{text}"
    );
    let mut scenario = Scenario::parse("test.toml", &text).unwrap();
    scenario.level = level;
    let (fabric, routing) = scenario.machine().unwrap();
    let question = Question::new(&scenario, &fabric, &routing, &Inputs::default()).unwrap();
    question.answer().unwrap()
}

const HALO: &str = "[job]\nranks_per_node = 2\nworkload.halo = { grid = [4, 4, 8], bytes = [3e4] }";

#[test]
fn every_packet_is_counted_where_static_routes_put_it() {
    let (packets, statics) = (answer(Level::Packet, HALO), answer(Level::Static, HALO));
    let network = |o: &Outcome| -> Vec<(u32, [f64; 4])> {
        let links = o.links.iter().filter(|l| l.kind != "host");
        let mut list: Vec<_> = links
            .map(|l| {
                let load = l.load;
                let phits = [load.vc0_phits, load.vc1_phits];
                (
                    l.id,
                    [load.vc0_packets, load.vc1_packets, phits[0], phits[1]],
                )
            })
            .collect();
        list.sort_by_key(|l| l.0);
        list
    };
    assert!(network(&statics).len() > 100);
    assert_eq!(network(&packets), network(&statics));
    assert!(packets.packet_hops > 0);
    assert!(packets.time_seconds > packets.bound_seconds);
}

#[test]
fn flows_and_packets_agree_on_one_message_and_on_a_full_link() {
    let one =
        "[job]\nnodes.named = [\"(0,0,0):0\", \"(1,0,0):0\"]\nworkload.ping-pong = { bytes = 1e6 }";
    let (packets, flows) = (answer(Level::Packet, one), answer(Level::Fluid, one));
    let ratio = packets.time_seconds / flows.time_seconds;
    assert!((0.95..1.05).contains(&ratio), "{ratio}");
    // Two nodes of a router to the two of its X neighbour: one cable for both.
    let shared = "[job]\nnodes.named = [\"(0,0,0)\", \"(1,0,0)\"]\nworkload.synthetic = { ranks = 4, pattern = { shift = 2 }, bytes = 1e6 }";
    let (packets, flows) = (answer(Level::Packet, shared), answer(Level::Fluid, shared));
    let ratio = packets.time_seconds / flows.time_seconds;
    assert!((0.93..1.10).contains(&ratio), "{ratio}");
    let full = packets.links.iter().find(|l| l.kind == "X cable").unwrap();
    assert!(full.used_ratio > 0.85, "{}", full.used_ratio);
}

#[test]
fn a_run_repeats_itself() {
    assert_eq!(answer(Level::Packet, HALO), answer(Level::Packet, HALO));
}

fn open_loop(load: f64) -> hopbyte_model::packet::OpenLoopResult {
    let machine = spec::machine("torus:4x4x4:link=1,host=1").unwrap();
    let parameters = Parameters {
        host_links: false,
        ..Parameters::plain()
    };
    let point = OperatingPoint {
        latency: 0.0,
        ..OperatingPoint::default()
    };
    let network = Network::new(&machine.fabric, &machine.routing, &parameters, point);
    let question = OpenLoop {
        load,
        flits: 4,
        warm_up_cycles: 1000,
        measured_cycles: 2000,
        most_cycles: 20_000,
        seed: 3,
    };
    question
        .run(&network, &RouterSpec::input_queued(4, 8))
        .unwrap()
}

#[test]
fn an_open_loop_delivers_what_is_offered_until_it_is_full() {
    let (low, high) = (open_loop(0.1), open_loop(0.6));
    assert!(low.steady && high.steady);
    assert!((low.accepted - 0.1).abs() < 0.01, "{}", low.accepted);
    assert!((high.accepted - 0.6).abs() < 0.03, "{}", high.accepted);
    // Three hops and the router at home, one cycle of routing, two allocations, four to the next.
    assert!((3.9..4.1).contains(&low.hops), "{}", low.hops);
    assert!(low.latency_cycles < 32.0 && high.latency_cycles > low.latency_cycles + 3.0);
}

#[test]
fn full_rings_do_not_lock() {
    // Everybody half round the Z rings: packets before and behind the dateline fill the same links.
    let half_round = "[job]\nranks_per_node = 2\nworkload.synthetic = { ranks = 32, pattern = { shift = 16 }, bytes = 4e4 }";
    let outcome = answer(Level::Packet, half_round);
    assert!(outcome.time_seconds > outcome.bound_seconds);
}
