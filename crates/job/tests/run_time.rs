//! Predicted run times: calibrations from probes and files, and measured runs that become intervals.

#![allow(clippy::unwrap_used, clippy::panic)]

use hopbyte_job::MachineSource;
use hopbyte_job::calibration::parameters;
use hopbyte_job::predict::{Ask, predict};
use hopbyte_job::verify::run_time::{Ran, compare};
use hopbyte_model::parameters::Parameters;
use std::fs::{create_dir, write};
use std::path::{Path, PathBuf};

const PROBES: &str = r#"
{"schema":"hopbyte-probe-1","run":{"probe":"latency","ranks":2,"nodes":["n0-0","n0-1"]}}
{"schema":"hopbyte-probe-1","probe":"latency","bytes":8,"median_seconds":5.2e-4,"least_seconds":5e-4,"most_seconds":6e-4,"wrong_bytes":0}
{"schema":"hopbyte-probe-1","probe":"latency","bytes":1024,"median_seconds":9e-4,"wrong_bytes":0}
{"schema":"hopbyte-probe-1","run":{"probe":"bandwidth","ranks":2,"nodes":["n0-0","n0-1"]}}
{"schema":"hopbyte-probe-1","probe":"bandwidth","bytes":65536,"bytes_per_second":1.1e6}
{"schema":"hopbyte-probe-1","run":{"probe":"rate","ranks":2,"nodes":["n0-0","n0-0"]}}
{"schema":"hopbyte-probe-1","probe":"rate","bytes":8,"messages_per_second":1e5}
"#;

fn machine(fabric: &str) -> hopbyte_job::Machine {
    let source = MachineSource {
        fabric: fabric.to_owned(),
        ..MachineSource::default()
    };
    source.read().unwrap()
}

#[test]
fn probes_give_the_parameters_and_their_origin() {
    let machine = machine("torus:4x4:link=0.00125,host=0.00125");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("probes.jsonl");
    write(&path, PROBES.trim_start()).unwrap();
    let (_, found) = parameters(path.to_str(), &machine.fabric).unwrap();
    assert!((found.overhead_s - 1e-5).abs() < 1e-12);
    // Half a round trip without two overheads and the hops.
    assert!(
        found.latency_s > 4.9e-4 && found.latency_s <= 5e-4,
        "{}",
        found.latency_s
    );
    assert!((found.link_efficiency - 1.1 * 1514.0 / 1448.0 / 1.25).abs() < 1e-9);
    assert!(
        found.calibration.starts_with("hopbyte-probe, 20"),
        "{}",
        found.calibration
    );
    assert!(
        found
            .calibration
            .contains("0.5200 ms (0.5000 ms to 0.6000 ms)"),
        "{}",
        found.calibration
    );
    // Where all ranks take part a message takes longer: two steps of an allreduce.
    let nodes: Vec<String> = (0..4).map(|i| format!("\"n{i}-0\"")).collect();
    let time = "{\"schema\":\"hopbyte-probe-1\",\"time_seconds\":1795651200}\n";
    let run = format!(
        "{{\"schema\":\"hopbyte-probe-1\",\"run\":{{\"probe\":\"allreduce\",\"nodes\":[{}]}}}}\n",
        nodes.join(",")
    );
    let result = "{\"schema\":\"hopbyte-probe-1\",\"probe\":\"allreduce\",\"bytes\":8,\"median_seconds\":1.6e-3}\n";
    write(&path, [PROBES.trim_start(), time, &run, result].concat()).unwrap();
    let (_, late) = parameters(path.to_str(), &machine.fabric).unwrap();
    assert!(
        late.latency_s > 7.7e-4 && late.latency_s <= 7.8e-4,
        "{}",
        late.latency_s
    );
    assert!(
        late.calibration.starts_with("hopbyte-probe, 2026-11-26"),
        "{}",
        late.calibration
    );
    // Two ranks of the four on one node: inner messages are no steps between nodes.
    let run = run.replace("n1-0", "n0-0");
    write(&path, [PROBES.trim_start(), &run, result].concat()).unwrap();
    let (_, same) = parameters(path.to_str(), &machine.fabric).unwrap();
    assert_eq!(same.latency_s, found.latency_s);
    write(&path, "{\"schema\":\"hopbyte-topobw-1\"}").unwrap();
    assert!(parameters(path.to_str(), &machine.fabric).is_err());
    write(&path, toml::to_string(&Parameters::ethernet()).unwrap()).unwrap();
    let (_, read) = parameters(path.to_str(), &machine.fabric).unwrap();
    assert_eq!(read, Parameters::ethernet());
}

/// A record of the eight ranks of data/trace-ring that took so many seconds, on the first nodes.
fn record(folder: &Path, seconds: f64) {
    create_dir(folder).unwrap();
    let mut placement = "rank,node\n".to_owned();
    for rank in 0..8 {
        let text = format!(
            "# hopbyte-record 2\nrank\t{rank}\nsize\t8\nhost\tn{}-{}\nspawned\t0\nphase\t0\tmain\n\
             mpi\tMPI_Send\t1\t0.5\ntime\t0\t{seconds}\t1\nended\tfinalize\n",
            rank / 4,
            rank % 4
        );
        write(folder.join(format!("rank.{rank}.hbr")), text).unwrap();
        placement += &format!("{rank},n{}-{}\n", rank / 4, rank % 4);
    }
    write(folder.join("placement.csv"), placement).unwrap();
}

/// A copy of data/trace-ring as `hopbyte record --trace` leaves it.
fn traced(folder: &Path) -> PathBuf {
    let trace = folder.join("trace");
    create_dir(&trace).unwrap();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/trace-ring");
    for entry in std::fs::read_dir(data).unwrap() {
        let from = entry.unwrap().path();
        std::fs::copy(&from, trace.join(from.file_name().unwrap())).unwrap();
    }
    write(trace.join("rank.0.hbr"), "# hopbyte-record 2\n").unwrap();
    trace
}

#[test]
fn verify_compares_with_what_was_known_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let trace = traced(folder.path());
    let machine = machine("torus:4x4");
    let verify = |name: &str, tolerance_percent| {
        compare(&Ran {
            trace: trace.to_str().unwrap(),
            records: &[folder.path().join(name)],
            mapping: None,
            machine: &machine,
            network: None,
            tolerance_percent,
        })
    };
    record(&folder.path().join("first"), 1.3);
    let first = verify("first", 15.0).unwrap();
    let run = &first.runs[0];
    assert!(first.holds() && first.kept && first.interval.contains("assumed"));
    assert!((run.predicted_seconds / 1.3 - 1.0 - run.error_percent / 100.0).abs() < 1e-9);
    // Its own interval is the assumption that was there before it; the next run has the error of the first.
    let off = run.seconds - run.predicted_seconds;
    record(&folder.path().join("second"), 1.3 + off);
    let second = verify("second", 15.0).unwrap();
    assert!(!second.runs[0].in_interval, "{second:?}");
    assert!(
        (second.runs[0].most_seconds - 1.3).abs() < 1e-6,
        "{second:?}"
    );
    // Told apart from a tolerance; a run is kept once.
    assert!(!verify("second", 1.0).unwrap().holds());
    let kept = std::fs::read_to_string(trace.join("measured.csv")).unwrap();
    assert_eq!(kept.lines().count(), 3, "{kept}");
    assert!(verify("third", 15.0).is_err());
}

#[test]
fn measured_runs_are_kept_and_become_the_interval() {
    let folder = tempfile::tempdir().unwrap();
    let trace = traced(folder.path());
    let machine = machine("torus:4x4");
    let ask = |network, measured: &[PathBuf]| {
        predict(&Ask {
            trace: trace.to_str().unwrap(),
            machine: &machine,
            network: Some(network),
            placements: &[],
            nodes: Some("all"),
            ranks_per_node: Some(1),
            seed: 1,
            collectives: None,
            operations_per_s: None,
            given: Vec::new(),
            background: None,
            measured,
        })
    };
    let first = ask("plain", &[]).unwrap();
    assert_eq!((first.factors, first.measured.len()), ((0.5, 2.0), 0));
    let run = folder.path().join("run");
    let in_order = first.placements[0].seconds;
    record(&run, 1.1 * in_order);
    let learnt = ask("plain", std::slice::from_ref(&run)).unwrap();
    assert_eq!(learnt.measured.len(), 1);
    assert!((learnt.measured[0].error_ratio - (1.0 / 1.1 - 1.0)).abs() < 1e-6);
    // The measured run is at the end of the interval of its own placement.
    assert!((learnt.placements[0].most_seconds / (1.1 * in_order) - 1.0).abs() < 1e-6);
    // It is kept, and compared with later models too.
    let later = ask("plain", &[]).unwrap();
    assert_eq!((later.factors, later.measured.len()), (learnt.factors, 1));
    // A run of other ranks is refused.
    std::fs::remove_file(run.join("rank.7.hbr")).unwrap();
    assert!(ask("plain", &[run]).is_err());
}
