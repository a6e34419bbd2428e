//! Readers of counters, traffic and placements with corrupted input: they read or refuse, and never panic.
//!
//! Seeds are those of the fuzz targets; the changes are pseudo-random and reproducible.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{bent, check_refusal, damaged, seeds};
use hopbyte_fabric::{Fabric, NodeId, spec};
use hopbyte_observe::counters::{CounterOptions, counter_series, jobs};
use hopbyte_observe::fabric::{Companions, read_machine_text};
use hopbyte_observe::placement::placement;
use hopbyte_observe::text::{Limits, Text};
use hopbyte_observe::traffic::traffic;
use hopbyte_observe::{ObserveError, Then, parse_nodes};
use std::sync::{LazyLock, OnceLock};

/// Random changes of each seed.
const BENT: u64 = 2000;

fn text(bytes: &[u8]) -> Result<Text, ObserveError> {
    Text::from_bytes("input", bytes, Limits::ANY)
}

/// Small machines of the seeds, built once.
fn machine(name: &str) -> &'static Fabric {
    static MACHINES: LazyLock<Vec<Fabric>> = LazyLock::new(|| {
        ["gemini:2x2x8", "aries:1x6x16", "torus:4x4"]
            .map(|m| spec::fabric(m).unwrap())
            .into()
    });
    MACHINES.iter().find(|m| m.source() == name).unwrap()
}

/// The subnet of the fabric seeds.
fn subnet() -> &'static Fabric {
    static SUBNET: OnceLock<Fabric> = OnceLock::new();
    SUBNET.get_or_init(|| {
        let dump = include_bytes!("../../../fuzz/seeds/ibnetdiscover/two-switches.txt");
        let text = text(dump).unwrap();
        let machine = read_machine_text(&text, None, Companions::default());
        machine.unwrap().fabric
    })
}

/// Reads counters; link values are never negative, infinite, or above the maximum.
fn counters(fabric: &Fabric, bytes: &[u8]) -> Result<(), ObserveError> {
    let options = CounterOptions {
        node: Some(fabric.node(NodeId(0)).name.clone()),
        ..CounterOptions::default()
    };
    for snapshot in counter_series(&[text(bytes)?], fabric, &options)?.all() {
        let state = snapshot.state(fabric);
        for column in [
            &state.received_bytes,
            &state.packets,
            &state.used_ratio,
            &state.input_stall_ratio,
            &state.credit_stall_ratio,
            &state.lanes,
        ] {
            let fits = |v: &f64| v.is_nan() || (v.is_finite() && *v >= 0.0);
            assert!(column.as_slice().iter().all(fits));
        }
        assert!(state.coverage.iter().all(|c| (0.0..=1.0).contains(c)));
    }
    Ok(())
}

fn read_traffic(bytes: &[u8]) -> Result<(), ObserveError> {
    if let Ok(product) = hopbyte_observe::traffic::product(&text(bytes)?, 2) {
        assert!(product.tasks == 2 && product.total().total_bytes().is_finite());
    }
    let t = traffic(&text(bytes)?)?;
    assert!(t.tasks > 0 && !t.phases.is_empty());
    assert!(t.phases.iter().all(|p| p.exchange.tasks() == t.tasks));
    Ok(())
}

fn read_placement(bytes: &[u8]) -> Result<(), ObserveError> {
    let fabric = machine("gemini:2x2x8");
    let text = text(bytes)?;
    let allocation = parse_nodes("nid[00003,00005]:2", 1, fabric)?;
    let _ = placement(&text, fabric, None);
    let placed = placement(&text, fabric, Some(&allocation))?;
    assert!(placed.placement.tasks() <= placed.allocation.capacity());
    Ok(())
}

type Read = fn(&[u8]) -> Result<(), ObserveError>;

const TARGETS: [(&str, Read); 16] = [
    ("mads", |b| counters(subnet(), b)),
    ("gm", |b| counters(machine("gemini:2x2x8"), b)),
    ("ldms_ls", |b| counters(machine("gemini:2x2x8"), b)),
    ("ldms_csv", |b| counters(machine("gemini:2x2x8"), b)),
    ("gpcdr", |b| counters(machine("gemini:2x2x8"), b)),
    ("registers", |b| counters(machine("gemini:2x2x8"), b)),
    ("openmetrics", |b| counters(machine("gemini:2x2x8"), b)),
    ("prometheus", |b| counters(machine("gemini:2x2x8"), b)),
    ("aries_csv", |b| counters(machine("aries:1x6x16"), b)),
    ("torus_table", |b| counters(machine("torus:4x4"), b)),
    ("link_lines", |b| counters(machine("torus:4x4"), b)),
    ("jobs", |b| {
        jobs(&text(b)?, machine("aries:1x6x16"), Then::Now(0.0)).map(|_| ())
    }),
    ("traffic", read_traffic),
    ("archive", read_traffic),
    ("placement", read_placement),
    ("nodes", |b| {
        let list = String::from_utf8_lossy(b);
        parse_nodes(
            list.trim_start().trim_start_matches('@'),
            1,
            machine("gemini:2x2x8"),
        )
        .map(|_| ())
    }),
];

#[test]
fn bent_inputs_never_panic() {
    for (target, read) in TARGETS {
        let (mut good, mut bad) = (0, 0);
        for (name, seed) in seeds(target) {
            let random = (0..BENT).map(|n| bent(&seed, n));
            let all = damaged(&seed[..seed.len().min(600)]).into_iter();
            for bytes in [seed.clone()].into_iter().chain(all).chain(random) {
                match read(&bytes) {
                    Ok(()) => good += 1,
                    Err(error) => {
                        bad += 1;
                        check_refusal(&error, &format!("{target}/{name}"));
                        // TAU profiles, traces and flight recorders have the rank in the file name or need every rank, and mpiP
                        // reports have no receivers; NVLinks are those of described hosts.
                        let refused = ["profile.", "refused.", "nccl_trace"]
                            .iter()
                            .any(|n| name.starts_with(n))
                            || name.ends_with(".et")
                            || name.ends_with(".hbt")
                            || ["x.0.json", "dcgm.prom"].contains(&name.as_str());
                        assert!(
                            bytes != seed || target == "placement" || refused,
                            "{target}/{name}: {error}"
                        );
                    }
                }
            }
        }
        assert!(good > 0 && bad > 0, "{target}: {good} read, {bad} refused");
        println!("{target}: {good} read, {bad} refused");
    }
}
