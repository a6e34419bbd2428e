//! Scenarios: parsing, rejected values, results.

#![allow(clippy::unwrap_used, clippy::panic)]

use hopbyte_model::{Inputs, Level, ModelError, Outcome, Question, Scenario};

fn toml(job: &str, more: &str) -> String {
    format!(
        "schema = \"hopbyte.scenario/1\"\nname = \"test\"\nfabric = \"gemini:4x4x8\"\nnetwork = \"gemini\"\n{more}\n[job]\n{job}\n"
    )
}

const HALO: &str = "ranks_per_node = 4\nworkload.halo = { grid = [8, 8, 8], bytes = [1e6], iterations = 2, compute_s = 0.001 }";

fn answer(text: &str) -> Result<Outcome, ModelError> {
    let scenario = Scenario::parse("test.toml", text)?;
    let (fabric, routing) = scenario.machine()?;
    Question::new(&scenario, &fabric, &routing, &Inputs::default())?.answer()
}

#[test]
fn scenarios_read_back_as_toml_and_json() {
    let more = "down = [\"c0-0c0s0g0 Z+\"]\nslow = [{ name = \"(0,0,0)\", bytes_per_s = 4e9 }]\n[point]\nlink = 0.5\n[parameters]\nlink_efficiency = 0.9";
    let scenario = Scenario::parse("test.toml", &toml(HALO, more)).unwrap();
    let again = Scenario::parse("again", &scenario.to_toml().unwrap()).unwrap();
    assert_eq!(scenario, again);
    let json = serde_json::to_string(&scenario).unwrap();
    assert_eq!(Scenario::parse("json", &json).unwrap(), scenario);
    let parameters = scenario.parameters().unwrap();
    assert_eq!(parameters.link_efficiency, 0.9);
    assert!(parameters.calibration.ends_with("changed in the scenario"));
}

#[test]
fn impossible_scenarios_are_refused_with_their_reason() {
    let cases = [
        (toml(HALO, "point.link = 0.0"), "link"),
        (toml(HALO, "point.cpu = nan"), "cpu"),
        (toml(HALO, "typo = 1"), "typo"),
        (
            toml(HALO, "parameters.link_efficiency = 0.0"),
            "link_efficiency",
        ),
        (toml(HALO, "parameters.lnk = 1.0"), "lnk"),
        (toml(HALO, "balanced_injection = 0.0"), "balanced_injection"),
        (toml(&HALO.replace("1e6", "-1.0"), ""), "bytes"),
        (toml(&HALO.replace("1e6", "1e300"), ""), "up to 1e18"),
        (
            toml(&HALO.replace("1e6", "1e15"), "level = \"packet\""),
            "packets",
        ),
        (
            toml(
                &HALO.replace("iterations", "reductions = 4000000000, iterations"),
                "",
            ),
            "reductions",
        ),
        (
            toml(
                &HALO.replace("iterations = 2", "phases = true, iterations = 4000000000"),
                "level = \"packet\"",
            ),
            "messages",
        ),
        (
            toml(&HALO.replace("[8, 8, 8]", "[1000, 1000, 1000]"), ""),
            "ranks",
        ),
        (
            toml(&HALO.replace("iterations = 2", "iterations = 1000000"), ""),
            "messages",
        ),
        (
            toml(
                &HALO.replace("ranks_per_node = 4", "ranks_per_node = 1"),
                "",
            ),
            "256 nodes",
        ),
        (
            toml(
                &HALO.replace("ranks_per_node = 4", "ranks_per_node = 0"),
                "",
            ),
            "ranks_per_node",
        ),
        (
            toml(
                "workload.all-to-all = { ranks = 1000000000, bytes = 1.0 }",
                "",
            ),
            "ranks",
        ),
        (
            toml(&format!("placement = {{ blocks = [3, 2, 2] }}\n{HALO}"), ""),
            "blocks",
        ),
        (toml("workload.ping-pong = { bytes = inf }", ""), "bytes"),
        (
            toml(HALO, "").replace("gemini:4x4x8", "gemini:9999999x4x8"),
            "routers",
        ),
        (
            toml(HALO, "").replace("gemini:4x4x8", "torus:4x4x4:link=0,host=2"),
            "link",
        ),
        (toml(HALO, "noise = 2.0"), "noise"),
        (toml(HALO, "protection = { throttle = 0.0 }"), "throttle"),
        (
            toml(
                HALO,
                "protection = { throttle = 0.5, stalls_per_forwarded = 1.0 }",
            ),
            "stalls",
        ),
        (
            toml(
                HALO,
                "protection = { throttle = 0.5, unreachable = [\"nobody\"] }",
            ),
            "nobody",
        ),
        (
            toml("nodes.scattered.count = 257\n", "") + HALO,
            "256 nodes",
        ),
        (
            toml(HALO, "").replace("hopbyte.scenario/1", "hopbyte.scenario/9"),
            "schema",
        ),
        (
            toml(HALO, "").replace("network = \"gemini\"", "network = \"tokens\""),
            "seastar",
        ),
    ];
    for (text, word) in cases {
        let error = answer(&text).unwrap_err().to_string();
        assert!(error.contains(word), "{word} not in: {error}\n{text}");
    }
    // An isolated router: reported before the run.
    let cut = toml(HALO, "down = [\"c0-0c0s0g0\"]");
    assert!(
        answer(&cut)
            .unwrap_err()
            .to_string()
            .contains("no route from c0-0c0s0n0")
    );
}

#[test]
fn messages_and_phases_agree_on_a_bulk_exchange() {
    let by_message = answer(&toml(HALO, "")).unwrap();
    let phases = toml(&HALO.replace("iterations", "phases = true, iterations"), "");
    let by_phase = answer(&phases).unwrap();
    let ratio = by_message.time_seconds / by_phase.time_seconds;
    assert!((0.95..1.05).contains(&ratio), "{ratio}");
    assert!((by_message.network_bytes - by_phase.network_bytes).abs() < 1.0);
    // Apart from the envelopes of messages, loads of links are equal.
    let sum = |o: &Outcome| o.links.iter().map(|l| l.bytes).sum::<f64>();
    assert!((sum(&by_message) / sum(&by_phase) - 1.0).abs() < 1e-6);
    assert!(by_message.time_seconds >= by_message.bound_seconds + 0.002);
    assert_eq!(
        answer(&toml(HALO, "")).unwrap(),
        by_message,
        "the same again"
    );
}

#[test]
fn the_static_level_is_the_bound() {
    let outcome = answer(&toml(HALO, "level = \"static\"")).unwrap();
    assert_eq!(outcome.level, Level::Static);
    assert_eq!(
        (outcome.time_seconds, outcome.flows),
        (outcome.bound_seconds, 0)
    );
    // Host links do not limit here: their published capacity is an estimate.
    let network = outcome.links.iter().filter(|l| l.kind != "host");
    assert!(network.map(|l| l.used_ratio).fold(0.0, f64::max) <= 1.0);
}

#[test]
fn other_jobs_and_slow_nodes_take_time() {
    let quiet = answer(&toml(HALO, "")).unwrap().time_seconds;
    let other = "[[background]]\nranks_per_node = 4\nworkload.synthetic = { ranks = 512, pattern = \"uniform\", bytes = 1e6, messages = 4 }";
    let busy = answer(&format!("{}\n{other}", toml(HALO, "")))
        .unwrap()
        .time_seconds;
    assert!(busy > 1.2 * quiet, "{busy} {quiet}");
    let slow = answer(&toml(
        HALO,
        "slow = [{ name = \"(0,0,0):0\", bytes_per_s = 1e8 }]",
    ))
    .unwrap();
    assert!(slow.time_seconds > 2.0 * quiet);
    let shares: f64 = slow.held_back.iter().map(|h| h.share).sum();
    assert!((shares - 1.0).abs() < 1e-9);
}

#[test]
fn outcomes_speak_as_counters_do() {
    let outcome = answer(&toml(HALO, "")).unwrap();
    let scenario = Scenario::parse("test.toml", &toml(HALO, "")).unwrap();
    let (fabric, _) = scenario.machine().unwrap();
    let state = hopbyte_fabric::LinkState::of_increase(&fabric, &outcome.snapshot(&fabric));
    let busiest = &outcome.links[0];
    let used = state
        .used_ratio
        .get(hopbyte_fabric::LinkId(busiest.id))
        .unwrap();
    assert!((used - busiest.used_ratio).abs() < 1e-12);
}

#[test]
fn one_thread_and_two_give_the_same_bytes() {
    let few = HALO.replace("[8, 8, 8]", "[4, 4, 4]");
    let placed = format!("placement = \"random\"\n{few}");
    let phases = placed.replace("iterations", "phases = true, iterations");
    let small = phases
        .replace("1e6", "2e3")
        .replace("iterations = 2", "iterations = 1");
    for (job, level) in [
        (&placed, "static"),
        (&placed, "fluid"),
        (&phases, "fluid"),
        (&phases, "stalls"),
        (&small, "packet"),
    ] {
        let text = toml(job, &format!("noise = 0.1\nseed = 7\nlevel = \"{level}\""));
        let [one, two] = [1, 2].map(|threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
            let outcome = pool.unwrap().install(|| answer(&text)).unwrap();
            serde_json::to_string(&outcome).unwrap()
        });
        assert_eq!(one, two, "{level}");
        let other = answer(&text.replace("seed = 7", "seed = 8")).unwrap();
        assert_ne!(serde_json::to_string(&other).unwrap(), one, "{level}");
    }
}

#[test]
fn protection_throttles_who_floods_and_who_lost_its_controller() {
    let names = |which: u32| {
        let at = |i: u32| format!("\"({},{},{}):{which}\"", i / 8, i / 4 % 2, i % 4);
        (0..32).map(at).collect::<Vec<_>>().join(", ")
    };
    let flooded = |more: &str| {
        let text = format!(
            "schema = \"hopbyte.scenario/1\"\nname = \"t\"\nfabric = \"gemini:4x2x4\"\nnetwork = \"gemini\"\n\
             level = \"stalls\"\n{more}\n[job]\nnodes.named = [{}]\nworkload.halo = {{ grid = [4, 2, 4], bytes = [1e6], \
             iterations = 20, phases = true }}\n[[background]]\nnodes.named = [{}]\nworkload.synthetic = {{ ranks = 32, \
             pattern = \"uniform\", messages = 8, bytes = 1e6 }}\n",
            names(0),
            names(1)
        );
        answer(&text).unwrap()
    };
    let free = flooded("");
    let rules = "period_s = 0.001, throttle = 0.1";
    let saved = flooded(&format!(
        "protection = {{ stalls_per_forwarded = 0.2, {rules} }}"
    ));
    let first = &saved.throttled[0];
    assert_eq!(
        (first.application, first.nodes, first.seconds),
        (Some(1), 32, 0.001)
    );
    assert!(saved.time_seconds < 0.9 * free.time_seconds);
    assert!(saved.time_seconds > 0.001);
    // A threshold that is never reached changes nothing.
    let calm = flooded(&format!(
        "protection = {{ stalls_per_forwarded = 1e9, {rules} }}"
    ));
    assert_eq!(
        (calm.throttled.len(), calm.time_seconds),
        (0, free.time_seconds)
    );
    // A module without a controller throttles its nodes regardless of their traffic, here the victim's.
    let lost = flooded(
        "protection = { unreachable = [\"(0,0,0)\"], patience_s = 0.002, throttle = 0.01 }",
    );
    assert_eq!(
        (lost.throttled[0].application, lost.throttled[0].nodes),
        (None, 2)
    );
    assert!(lost.time_seconds > 1.5 * free.time_seconds);
}

#[test]
fn the_books_page_shows_scenarios_that_are_read() {
    let page =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/formats/scenario.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut lines = 0;
    for block in page.split("```toml\n").skip(1) {
        let block = block.split("```").next().unwrap();
        if block.starts_with("schema") {
            let (fabric, _) = Scenario::parse("page", block).unwrap().machine().unwrap();
            assert!(!fabric.routers().is_empty());
            continue;
        }
        for line in block.lines() {
            let (job, more) = if line.starts_with("workload") {
                (line, "")
            } else {
                ("workload.ping-pong = { bytes = 8 }", line)
            };
            let text = toml(job, &format!("level = \"stalls\"\n{more}"));
            Scenario::parse("page", &text).unwrap_or_else(|e| panic!("{line}: {e}"));
            lines += 1;
        }
    }
    assert!(lines >= 12);
    // Changes by an option are checked after it.
    let guarded = toml(
        HALO,
        "protection = { stalls_per_forwarded = 0.2, throttle = 0.1 }",
    );
    assert!(Scenario::parse("t", &guarded).is_err());
    let mut scenario = Scenario::read("t", &guarded).unwrap();
    scenario.level = Level::Stalls;
    scenario.check().unwrap();
}
