//! Sensitivities computed from sweeps.

#![allow(clippy::unwrap_used)]

use hopbyte_model::Scenario;
use hopbyte_model::sweep::{Axis, Estimate, Plan, Run, sensitivities};

fn scenario(more: &str) -> Scenario {
    let text = format!(
        "schema = \"hopbyte.scenario/1\"\nname = \"s\"\nfabric = \"torus:2x2\"\nnetwork = \"plain\"\n{more}\n\
         [job]\nworkload.ping-pong = {{ bytes = 8.0 }}"
    );
    Scenario::parse("s.toml", &text).unwrap()
}

fn plan(cross: bool, trials: u32) -> Plan {
    Plan {
        axes: vec![
            (Axis::Link, vec![0.25, 0.5, 1.0]),
            (Axis::Latency, vec![1.0, 2.0, 4.0]),
        ],
        cross,
        trials,
    }
}

#[test]
fn plans_list_what_they_say() {
    let asked = [scenario("")];
    assert_eq!(plan(false, 1).points(&asked).unwrap().len(), 5);
    assert_eq!(plan(true, 1).points(&asked).unwrap().len(), 9);
    // Trials that would all have the same result.
    let same = plan(false, 2).points(&asked).unwrap_err().to_string();
    assert!(same.contains("noise"), "{same}");
    let noisy = [scenario("noise = 0.1")];
    let points = plan(false, 2).points(&noisy).unwrap();
    assert_eq!(points.len(), 10);
    let seeds: Vec<u64> = points.iter().map(|p| p.scenario(&noisy).seed).collect();
    assert_eq!(seeds[..4], [0, 1, 0, 1]);
    assert!(plan(false, 0).points(&asked).is_err());
    assert!(plan(false, 1_000_000).points(&noisy).is_err());
    let zero = Plan {
        axes: vec![(Axis::Link, vec![0.0])],
        ..plan(false, 1)
    };
    assert!(zero.points(&asked).is_err());
}

#[test]
fn slopes_are_shares_of_the_time() {
    let noisy = [scenario("noise = 0.1")];
    let plan = plan(false, 3);
    // 60 % of the time depends on links, 10 % on latency; trials differ only in their length.
    let runs: Vec<Run> = plan
        .points(&noisy)
        .unwrap()
        .into_iter()
        .map(|point| Run {
            point,
            seconds: (1.0 + f64::from(point.trial))
                * (0.3 + 0.6 / point.factors.link + 0.1 * point.factors.latency),
            binds: if point.factors.link < 1.0 {
                "X"
            } else {
                "injection"
            }
            .into(),
        })
        .collect();
    let found = sensitivities(&plan, &runs);
    assert_eq!(found.len(), 2);
    for (s, share) in found.iter().zip([0.6, 0.1]) {
        assert!((s.slope.mean - share).abs() < 1e-12);
        // The same in every trial, for an exact estimate.
        assert!(s.slope.high.unwrap() - s.slope.low.unwrap() < 1e-9);
    }
    let quarter = &found[0].factors[0];
    assert_eq!((quarter.factor, quarter.binds.as_str()), (0.25, "X"));
    assert!((quarter.slower_percent.mean - 180.0).abs() < 1e-9);
    assert!((quarter.seconds.mean - 2.0 * 2.8).abs() < 1e-12);
}

#[test]
fn intervals_are_students() {
    // Mean 3, standard deviation 1.5811, t of 4 degrees 2.776.
    let e = Estimate::of(&[1.0, 2.0, 3.0, 4.0, 5.0]);
    assert!((e.mean - 3.0).abs() < 1e-12);
    assert!((e.high.unwrap() - 4.963).abs() < 1e-3 && (e.low.unwrap() - 1.037).abs() < 1e-3);
    assert_eq!(Estimate::of(&[7.0]).low, None);
}
