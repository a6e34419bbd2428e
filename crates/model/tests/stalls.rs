//! Back-pressure of flows against the packet model, on which its two factors were fitted.

#![allow(clippy::unwrap_used, clippy::panic)]

use hopbyte_model::{Inputs, Level, LinkOutcome, Outcome, Question, Scenario};

const CASES: [&str; 2] = [
    "ranks_per_node = 2\nplacement = \"random\"\nworkload.halo = { grid = [8, 8, 8], bytes = [10e3] }",
    "workload.synthetic = { ranks = 256, pattern = \"permutation\", bytes = 100e3 }",
];

fn answer(job: &str, level: Level) -> Outcome {
    let text = format!(
        "schema = \"hopbyte.scenario/1\"\nname = \"test\"\nfabric = \"gemini:4x4x8\"\nnetwork = \"gemini\"\n[job]\n{job}\n"
    );
    let mut scenario = Scenario::parse("test.toml", &text).unwrap();
    scenario.level = level;
    let (fabric, routing) = scenario.machine().unwrap();
    let question = Question::new(&scenario, &fabric, &routing, &Inputs::default()).unwrap();
    question.answer().unwrap()
}

type Stall = fn(&LinkOutcome) -> Option<f64>;

fn mean(outcome: &Outcome, chosen: impl Fn(&LinkOutcome) -> bool, stall: Stall) -> f64 {
    let links = outcome.links.iter().filter(|l| chosen(l));
    let values: Vec<f64> = links.filter_map(stall).collect();
    assert!(!values.is_empty());
    values.iter().sum::<f64>() / values.len() as f64
}

fn along(dim: char) -> impl Fn(&LinkOutcome) -> bool {
    move |l| l.direction.as_ref().is_some_and(|d| d.starts_with(dim))
}

#[test]
fn stalls_lie_where_packets_wait() {
    for job in CASES {
        let (flows, packets) = (answer(job, Level::Stalls), answer(job, Level::Packet));
        let stalls: [Stall; 2] = [|l| l.input_stall_ratio, |l| l.credit_stall_ratio];
        for stall in stalls {
            // X first: packets wait there for Y and Z (paper 000, VI).
            for outcome in [&flows, &packets] {
                let [x, y, z] = ['X', 'Y', 'Z'].map(|d| mean(outcome, along(d), stall));
                assert!(x > y && y > z, "{x} {y} {z}");
            }
            let x = |o| mean(o, along('X'), stall);
            let ratio = x(&flows) / x(&packets);
            assert!((0.4..2.5).contains(&ratio), "{ratio}");
        }
        let host = |o| {
            let into = |l: &LinkOutcome| l.kind == "host" && l.link.ends_with("in");
            mean(o, into, |l| l.input_stall_ratio)
        };
        let ratio = host(&flows) / host(&packets);
        assert!((0.4..2.5).contains(&ratio), "{ratio}");
    }
}
