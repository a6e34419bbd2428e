//! The packet model: counters, sharing of links, repeatability.

#![allow(clippy::unwrap_used, clippy::panic)]

use hopbyte_fabric::spec;
use hopbyte_model::network::Network;
use hopbyte_model::packet::{OpenLoop, RouterSpec};
use hopbyte_model::parameters::{OperatingPoint, Parameters};
use hopbyte_model::{Inputs, Level, Outcome, Question, Scenario};

fn answer(level: Level, text: &str) -> Outcome {
    answer_on("gemini:2x2x8", level, text)
}

fn answer_on(fabric: &str, level: Level, text: &str) -> Outcome {
    answer_by("gemini", fabric, level, text)
}

fn plain_on(fabric: &str, level: Level, text: &str) -> Outcome {
    answer_by("plain", fabric, level, text)
}

fn answer_by(network: &str, fabric: &str, level: Level, text: &str) -> Outcome {
    let level = format!("{level:?}").to_lowercase();
    let text = format!(
        "schema = \"hopbyte.scenario/1\"\nname = \"test\"\nlevel = \"{level}\"\nfabric = \"{fabric}\"\n\
         network = \"{network}\"\n{text}"
    );
    let scenario = Scenario::parse("test.toml", &text).unwrap();
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
fn tiles_count_under_the_daemons_names_what_links_carried() {
    let packets = answer(Level::Packet, HALO);
    let fabric = spec::fabric("gemini:2x2x8").unwrap();
    let registers = packets.registers(&fabric);
    let sum = |k: usize| -> f64 {
        let end = format!("TILE_PERFORMANCE_COUNTERS_{k}");
        let of = registers.lines().filter_map(|l| {
            let words: Vec<&str> = l.split(' ').collect();
            assert!(
                words[0].starts_with('c') && words[1].starts_with("GM_"),
                "{l}"
            );
            words[1]
                .ends_with(&end)
                .then(|| words[2].parse::<f64>().unwrap())
        });
        of.sum()
    };
    // Tiles count arrivals; arrivals at nodes have no tile counter.
    let carried =
        |of: fn(&hopbyte_model::LinkOutcome) -> f64| -> f64 { packets.links.iter().map(of).sum() };
    assert_eq!(sum(0), carried(|l| l.load.vc0_phits));
    assert_eq!(sum(1), carried(|l| l.load.vc1_phits));
    assert_eq!(sum(2), carried(|l| l.load.vc0_packets));
    assert_eq!(sum(3), carried(|l| l.load.vc1_packets));
    assert!(sum(0) > 0.0 && sum(4) > 0.0, "input stalls");
    assert!(answer(Level::Fluid, HALO).registers(&fabric).is_empty());
}

#[test]
fn nothing_is_faster_than_the_bound() {
    // Both nodes of every router inject at once, every node receives from two.
    let shift = "[job]\nranks_per_node = 2\nworkload.synthetic = { ranks = 64, pattern = { shift = 1 }, bytes = 1e5 }";
    let hot = "[job]\nworkload.synthetic = { ranks = 16, pattern = { hot-spot = { share = 1.0 } }, bytes = 1e5 }";
    for job in [shift, hot] {
        for level in [Level::Fluid, Level::Stalls, Level::Packet] {
            let o = answer(level, job);
            assert!(o.time_seconds >= o.bound_seconds, "{level:?} {job}");
        }
    }
}

#[test]
fn packets_of_a_dragonfly_do_not_wait_in_a_circle() {
    let all = "[job]\nworkload.all-to-all = { ranks = 60, bytes = 1e4 }";
    for fabric in ["dragonfly:5x4", "slingshot:4x4:nodes=4", "aries:3x1x16"] {
        let [packets, flows] = [Level::Packet, Level::Fluid].map(|l| plain_on(fabric, l, all));
        let ratio = packets.time_seconds / flows.time_seconds;
        assert!((0.9..4.0).contains(&ratio), "{fabric}: {ratio}");
    }
}

#[test]
fn routers_keep_up_with_fast_links() {
    let far = "[job]\nnodes.named = [\"n0-0-0\", \"n2-0-0\"]\nworkload.ping-pong = { bytes = 1e6 }";
    for link in [3, 12, 50, 400] {
        let fabric = format!("torus:4x4x4:link={link},host={link}");
        let [packets, flows] = [Level::Packet, Level::Fluid].map(|l| plain_on(&fabric, l, far));
        let ratio = packets.time_seconds / flows.time_seconds;
        assert!((0.95..1.15).contains(&ratio), "{fabric}: {ratio}");
    }
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
fn empty_messages_take_the_time_of_their_hops() {
    let empty =
        "[job]\nnodes.named = [\"(0,0,0):0\", \"(1,0,0):0\"]\nworkload.ping-pong = { bytes = 0 }";
    let byte = empty.replace("bytes = 0", "bytes = 1");
    let (none, one) = (answer(Level::Packet, empty), answer(Level::Packet, &byte));
    assert!(none.time_seconds > 0.0);
    assert_eq!(none.time_seconds, one.time_seconds);
}

/// A message over k links between routers takes k + 2 delays, and its bytes at the rate of the slowest link.
#[test]
fn flows_and_packets_count_the_delay_of_every_link() {
    for (bytes, delay) in [(1.0, 1e-4), (1.0, 1e-2), (1e6, 1e-4), (1e6, 1e-2)] {
        for hops in 1..=3 {
            let one = format!(
                "parameters.hop_latency_s = {delay}\n[job]\nnodes.named = [\"n0\", \"n{hops}\"]\n\
                 workload.ping-pong = {{ bytes = {bytes} }}"
            );
            let expected = 2.0 * (f64::from(hops + 2) * delay + bytes / 1e9);
            for level in [Level::Fluid, Level::Packet] {
                let found = plain_on("torus:8:link=1,host=1", level, &one).time_seconds;
                assert!(
                    (found / expected - 1.0).abs() < 0.02,
                    "{level:?}, {hops} hops of {delay} s, {bytes} B: {found} s, expected {expected} s"
                );
            }
        }
    }
}

/// 30,000 s are more cycles than a time in fractions of a cycle can hold; of 10^12 s a cycle is less than a time's last bit.
#[test]
fn long_computing_ends() {
    for seconds in [1e4, 3e4, 1e6, 1e9, 1e12, 1e200] {
        let job = format!(
            "[job]\nworkload.halo = {{ grid = [2, 2, 2], bytes = [1e4], iterations = 2, compute_s = {seconds:?} }}"
        );
        let slow = "\n[[background]]\nnodes.first = { count = 2, skip = 8 }\nbytes_per_s = 1e-2\n\
                    workload.synthetic = { ranks = 2, pattern = { shift = 1 }, bytes = 1e3 }";
        for others in ["", slow] {
            if seconds > 1e6 && !others.is_empty() {
                continue;
            }
            let text = format!("{job}{others}");
            let [packets, flows] = [Level::Packet, Level::Fluid].map(|l| answer(l, &text));
            let ratio = packets.time_seconds / flows.time_seconds;
            assert!((ratio - 1.0).abs() < 1e-8, "{seconds} s: {ratio}");
            let sent = |o: &Outcome| {
                let between = o.links.iter().filter(|l| l.kind != "host");
                between.map(|l| l.load.vc0_packets).sum::<f64>()
            };
            let (sent, least) = (sent(&packets), sent(&answer(Level::Static, &job)));
            assert!(
                sent >= least,
                "{seconds} s: {sent} packets, {least} of the job"
            );
        }
    }
}

#[test]
fn what_cannot_be_counted_in_cycles_is_refused() {
    let refused = |text: &str, expected: &str| {
        let text = format!(
            "schema = \"hopbyte.scenario/1\"\nname = \"t\"\nlevel = \"packet\"\nfabric = \"gemini:2x2x4\"\n\
             network = \"gemini\"\n{text}"
        );
        let scenario = Scenario::parse("test.toml", &text).unwrap();
        let (fabric, routing) = scenario.machine().unwrap();
        let question = Question::new(&scenario, &fabric, &routing, &Inputs::default()).unwrap();
        let error = question.answer().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    let job = "[job]\nworkload.halo = { grid = [2, 2, 2], bytes = [1e3], compute_s = 1e6 }";
    let latency = format!("parameters.hop_latency_s = 2\n{job}");
    refused(&latency, "at most 1.250 s when every packet is followed");
    refused(
        &format!("point = {{ link = 1e-9 }}\n{job}"),
        "rate of g0-0-0 X+: found",
    );
    let slow = format!("slow = [{{ name = \"(0,0,0):0\", bytes_per_s = 1e-9 }}]\n{job}");
    refused(&slow, "when every packet is followed");
    let throttled = format!(
        "protection = {{ unreachable = [\"(0,0,0)\"], patience_s = 1e-5, throttle = 1e-13 }}\n{job}"
    );
    refused(&throttled, "slowest rate of a node");
    let others = "[[background]]\nbytes_per_s = 1e9\n\
                  workload.synthetic = { ranks = 16, pattern = { shift = 1 }, bytes = 1e3 }";
    refused(
        &format!("{job}\n{others}"),
        "at most 1e11 when every packet is followed",
    );
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
    // Every node sends half round the Z rings: packets before and after the dateline fill the same links.
    let half_round = "[job]\nranks_per_node = 2\nworkload.synthetic = { ranks = 32, pattern = { shift = 16 }, bytes = 4e4 }";
    let outcome = answer(Level::Packet, half_round);
    assert!(outcome.time_seconds > outcome.bound_seconds);
}

#[test]
fn a_slow_node_sends_slowly_as_it_does_in_flows() {
    let one =
        "[job]\nnodes.named = [\"(0,0,0):0\", \"(1,0,0):0\"]\nworkload.ping-pong = { bytes = 1e6 }";
    let slow = format!("slow = [{{ name = \"(0,0,0):0\", bytes_per_s = 7e8 }}]\n{one}");
    let ratio = |level| answer(level, &slow).time_seconds / answer(level, one).time_seconds;
    let (packets, flows) = (ratio(Level::Packet), ratio(Level::Fluid));
    assert!(packets > 5.0, "{packets}");
    assert!(
        (0.85..1.15).contains(&(packets / flows)),
        "{packets} {flows}"
    );
}

#[test]
fn the_controller_throttles_who_floods_and_modules_throttle_themselves() {
    let names = |which: u32| {
        let at = |i: u32| format!("\"({},{},{}):{which}\"", i / 8, i / 4 % 2, i % 4);
        (0..16).map(at).collect::<Vec<_>>().join(", ")
    };
    // With this seed only the flooding job is above the threshold; with others its victim is too, later.
    let flooded = |rules: &str| {
        let text = format!(
            "{rules}\n[job]\nnodes.named = [{}]\nworkload.halo = {{ grid = [2, 2, 4], \
             bytes = [1e4], iterations = 10, compute_s = 2e-5 }}\n[[background]]\nnodes.named = [{}]\n\
             workload.synthetic = {{ ranks = 16, pattern = \"uniform\", messages = 8, bytes = 1e6, seed = 2 }}\n",
            names(0),
            names(1)
        );
        answer_on("gemini:2x2x4", Level::Packet, &text)
    };
    let free = flooded("");
    let rules = |threshold: f64| {
        flooded(&format!(
            "protection = {{ stalls_per_forwarded = {threshold:?}, period_s = 6e-5, throttle = 0.05 }}"
        ))
    };
    let saved = rules(0.9);
    let first = &saved.throttled[0];
    assert_eq!((first.application, first.nodes), (Some(1), 16));
    assert!(
        (first.seconds / 6e-5).fract().abs() < 1e-6,
        "{}",
        first.seconds
    );
    assert!(first.stalls_per_forwarded > Some(0.9));
    let (a, b) = (saved.time_seconds, free.time_seconds);
    assert!(a < 0.9 * b, "{a} {b}");
    // A threshold that is never reached changes nothing.
    let calm = rules(1e9);
    assert_eq!((calm.throttled.len(), calm.time_seconds), (0, b));
    let lost =
        flooded("protection = { unreachable = [\"(0,0,0)\"], patience_s = 1e-5, throttle = 0.1 }");
    let first = &lost.throttled[0];
    assert_eq!(
        (first.application, first.nodes, first.seconds),
        (None, 2, 1e-5)
    );
    assert!(lost.time_seconds > 1.05 * b, "{} {b}", lost.time_seconds);
}
