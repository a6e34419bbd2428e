//! Predicted run times: calibrations from probes and files, and measured runs that become intervals.

#![allow(clippy::unwrap_used, clippy::panic)]

use hopbyte_job::calibration::parameters;
use hopbyte_job::predict::{Ask, Prediction, predict};
use hopbyte_job::verify::run_time::{Ran, compare};
use hopbyte_job::{Machine, MachineSource};
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

fn machine(fabric: &str) -> Machine {
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
    let (_, found) = parameters(path.to_str(), &machine.fabric, &machine.routing).unwrap();
    assert!((found.overhead_s - 1e-5).abs() < 1e-12);
    // Half a round trip without two overheads and the hops.
    assert!(
        found.latency_s > 4.9e-4 && found.latency_s <= 5e-4,
        "{}",
        found.latency_s
    );
    // 46 frames of 64 KiB.
    let wire = (65_536.0 + 46.0 * 66.0) / 65_536.0;
    assert!((found.link_efficiency - 1.1 * wire / 1.25).abs() < 1e-9);
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
    let (_, late) = parameters(path.to_str(), &machine.fabric, &machine.routing).unwrap();
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
    let (_, same) = parameters(path.to_str(), &machine.fabric, &machine.routing).unwrap();
    assert_eq!(same.latency_s, found.latency_s);
    write(&path, "{\"schema\":\"hopbyte-topobw-1\"}").unwrap();
    assert!(parameters(path.to_str(), &machine.fabric, &machine.routing).is_err());
    write(&path, toml::to_string(&Parameters::ethernet()).unwrap()).unwrap();
    let (_, read) = parameters(path.to_str(), &machine.fabric, &machine.routing).unwrap();
    assert_eq!(read, Parameters::ethernet());
}

#[test]
fn a_file_with_some_parameters_is_refused_by_name_and_line() {
    let machine = machine("torus:4x4");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("network.toml");
    let refused = |text: &str| {
        write(&path, text).unwrap();
        let found = parameters(path.to_str(), &machine.fabric, &machine.routing);
        found.unwrap_err().to_string()
    };
    let said = refused("latency_s = 1e-6\noverhead_s = 1e-6\n");
    let absent = "hint: the file lacks calibration, eager_bytes, host_links, link_efficiency, memory_bytes_per_s, ";
    assert!(said.contains(absent), "{said}");
    assert!(said.contains("`hopbyte predict --json`"), "{said}");
    // A table within, and a name that is none.
    let whole = toml::to_string(&Parameters::ethernet()).unwrap();
    let queues = whole.lines().position(|l| l == "[queues]").unwrap();
    let lines: Vec<&str> = whole
        .lines()
        .filter(|l| !l.starts_with("window_bytes"))
        .collect();
    let said = refused(&lines.join("\n"));
    assert!(said.contains(&format!(":{}: ", queues + 1)), "{said}");
    assert!(said.contains("`window_bytes`"), "{said}");
    let said = refused(&format!("latency = 1e-6\n{whole}"));
    assert!(
        said.contains(":1: found unknown field `latency`, expected one of"),
        "{said}"
    );
}

/// Lines of one run of `hopbyte-probe calibrate`, as JSON without the schema.
fn calibrated(nodes: &[&str], lines: &[String]) -> String {
    let run = format!("\"run\":{{\"probe\":\"latency\",\"nodes\":{nodes:?}}}");
    let all = std::iter::once(&run).chain(lines);
    all.map(|line| format!("{{\"schema\":\"hopbyte-probe-1\",{line}}}\n"))
        .collect()
}

/// Latency by distance, flows that share a link, a node's rate, and the eager limit.
#[test]
fn one_calibration_has_all_parameters() {
    let machine = machine("torus:8:link=0.00125,host=0.0125");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("machine.jsonl");
    let text = |name: &str, rest: &str| format!("\"probe\":\"{name}\",\"bytes\":8,{rest}");
    let names = ["n0", "n0", "n1", "n2", "n3", "n3"];
    // Two host links, and one link a router.
    let half = |links: u32| 5e-4 + 2e-5 + 1e-4 * f64::from(links);
    let latency = |rank: usize, links| {
        let pair = format!(
            "\"pairs\":1,\"partner\":{rank},\"median_seconds\":{}",
            half(links)
        );
        text("latency", &pair)
    };
    let eager = |bytes: u32, at_least: u8| {
        format!("\"probe\":\"eager\",\"bytes\":{bytes},\"at_least\":{at_least}")
    };
    let flows = |pairs: u32, rate: f64| {
        format!(
            "\"probe\":\"bandwidth\",\"bytes\":1048576,\"pairs\":{pairs},\"bytes_per_second\":{rate}"
        )
    };
    let mut lines = vec![
        text(
            "latency",
            &format!("\"pairs\":1,\"median_seconds\":{}", half(4)),
        ),
        text(
            "latency",
            "\"pairs\":1,\"partner\":1,\"median_seconds\":3e-5",
        ),
        latency(2, 3),
        latency(3, 4),
        latency(4, 5),
        text("rate", "\"pairs\":1,\"messages_per_second\":100000"),
        text("rate", "\"pairs\":3,\"messages_per_second\":120000"),
        flows(1, 0.9e6),
        // n0 to n2, n0 to n3, n1 to n3: all on the link from n1 to n2.
        flows(3, 1.1e6),
        eager(65_480, 0),
    ];
    let read = |lines: &[String]| {
        write(&path, calibrated(&names, lines)).unwrap();
        parameters(path.to_str(), &machine.fabric, &machine.routing)
    };
    let found = read(&lines).unwrap().1;
    assert!((found.overhead_s - 1e-5).abs() < 1e-15);
    assert!(
        (found.hop_latency_s.unwrap() - 1e-4).abs() < 1e-12,
        "{found:?}"
    );
    assert!((found.latency_s - 5e-4).abs() < 1e-12, "{found:?}");
    assert!((found.memory_latency_s - 1e-5).abs() < 1e-12);
    // Two of three pairs are the node's, at 1.2 of the rate of one.
    assert!((found.messages_per_s.unwrap() - 80_000.0).abs() < 1e-6);
    let wire = found.protocol.wire(1_048_576.0).forward.bytes() / 1_048_576.0;
    assert!((found.link_efficiency - 1.1e6 * wire / 1.25e6).abs() < 1e-9);
    assert_eq!(found.eager_bytes, 65_480.0);
    let said = &found.calibration;
    assert!(
        said.contains("full with 3 flows") && said.contains("(routes of 3 to 5 links)"),
        "{said}"
    );
    // No distance tells more than the scatter; no message waits.
    (lines[2], lines[4]) = (latency(2, 5), latency(4, 3));
    lines[9] = eager(1 << 24, 1);
    let found = read(&lines).unwrap().1;
    assert_eq!((found.hop_latency_s, found.eager_bytes), (None, f64::MAX));
    assert!(
        found
            .calibration
            .contains("between routes of 3 and 5 links"),
        "{}",
        found.calibration
    );
    // A rank that the run does not have.
    lines[2] = latency(9, 3);
    assert!(
        read(&lines)
            .unwrap_err()
            .to_string()
            .contains("pairs among the ranks")
    );
}

/// A record of the eight ranks of data/trace-ring that took so many seconds, on the first nodes.
fn record(folder: &Path, seconds: f64) {
    create_dir(folder).unwrap();
    let mut placement = "rank,node\n".to_owned();
    for rank in 0..8 {
        let text = format!(
            "# hopbyte-record 2\nrank\t{rank}\nsize\t8\nhost\tn{}-{}\nspawned\t0\nphase\t0\tmain\n\
             mpi\tMPI_Send\t1\t0.5\ntime\t0\t{seconds}\t1\nended\tfinalize\nend\t9\n",
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
    // Its own interval is the assumption that was there before it; the next run has the error of the first, above the usual one.
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
    assert_eq!(first.parameters, Parameters::plain());
    let run = folder.path().join("run");
    let in_order = first.placements[0].seconds;
    record(&run, 1.1 * in_order);
    let learnt = ask("plain", std::slice::from_ref(&run)).unwrap();
    assert_eq!(learnt.measured.len(), 1);
    assert!((learnt.measured[0].error_ratio - (1.0 / 1.1 - 1.0)).abs() < 1e-6);
    // The measured run is at the end of the interval of its own placement.
    assert!((learnt.placements[0].most_seconds / (1.1 * in_order) - 1.0).abs() < 1e-6);
    // Few runs leave placements apart, and do not make an interval narrower than usual; that of the reference's gain is zero.
    let (reference, random) = (&learnt.placements[0], &learnt.placements[1]);
    let network = random.latency_seconds + random.bandwidth_seconds + random.contention_seconds;
    let width = random.most_gain_ratio - random.least_gain_ratio;
    assert!(width > 2.0 * 0.08 * network / in_order, "{width}");
    let own = (reference.least_gain_ratio, reference.most_gain_ratio);
    assert_eq!(own, (0.0, 0.0));
    assert!(learnt.interval.contains("fewer than 9 runs"));
    // It is kept, and compared with later models too.
    let later = ask("plain", &[]).unwrap();
    assert_eq!((later.factors, later.measured.len()), (learnt.factors, 1));
    // A run without a duration is refused, before it is kept.
    let timeless = folder.path().join("timeless");
    record(&timeless, 0.0);
    let error = ask("plain", std::slice::from_ref(&timeless)).unwrap_err();
    assert!(error.to_string().contains("above zero"), "{error}");
    let kept = std::fs::read_to_string(trace.join("measured.csv")).unwrap();
    assert_eq!(kept.lines().count(), 2, "{kept}");
    // Nine runs make the interval, however narrow.
    let runs: Vec<PathBuf> = (0..9)
        .map(|i| folder.path().join(format!("run{i}")))
        .collect();
    for (i, path) in (0..9).zip(&runs) {
        record(path, (1.001 + 1e-4 * f64::from(i)) * in_order);
    }
    let many = ask("plain", &runs).unwrap();
    assert_eq!(many.factors, learnt.factors);
    std::fs::remove_file(trace.join("measured.csv")).unwrap();
    let many = ask("plain", &runs).unwrap();
    assert!(many.factors.1 < 1.02, "{}", many.interval);
    assert!(!many.interval.contains("fewer than"), "{}", many.interval);
    // A run of other ranks is refused.
    std::fs::remove_file(run.join("rank.7.hbr")).unwrap();
    assert!(ask("plain", &[run]).is_err());
}

/// A launcher's file says where the ranks go, not what the launcher does without it.
#[test]
fn in_order_is_the_machine_s_order_unless_the_launcher_s_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let trace = traced(folder.path());
    let machine = machine("torus:8");
    // The ring of ranks 0, 3, 6, 1, … of every third node.
    let nodes: Vec<String> = (0..8).map(|rank| format!("n{}", 3 * rank % 8)).collect();
    let file = |name: &str, text: String| {
        let path = folder.path().join(name);
        write(&path, text).unwrap();
        path
    };
    let lines = |line: &dyn Fn(usize, &str) -> String| {
        let lines = nodes
            .iter()
            .enumerate()
            .map(|(rank, node)| line(rank, node));
        lines.collect::<String>()
    };
    let csv = lines(&|rank, node| format!("{rank},{node},0\n"));
    let rankfile = file(
        "rankfile",
        lines(&|rank, node| format!("rank {rank}={node} slot=0\n")),
    );
    let files = [
        file("placement.csv", format!("rank,node,slot\n{csv}")),
        file("hydra.hosts", lines(&|_, node| format!("{node}:1\n"))),
        file("hostfile", lines(&|_, node| format!("{node}\n"))),
        rankfile.clone(),
    ];
    let ask = |nodes: Option<&str>, placements: &[PathBuf]| {
        let ask = Ask {
            trace: trace.to_str().unwrap(),
            machine: &machine,
            network: None,
            placements,
            nodes,
            ranks_per_node: nodes.map(|_| 1),
            seed: 1,
            collectives: None,
            operations_per_s: None,
            given: Vec::new(),
            background: None,
            measured: &[],
        };
        predict(&ask).unwrap()
    };
    let assumed = |p: &Prediction| p.notes.iter().any(|n| n.contains("launcher's order"));
    let expected = ask(Some("all"), std::slice::from_ref(&rankfile));
    assert!(!assumed(&expected));
    let gain = |p: &Prediction| p.placements.last().unwrap().gain_ratio;
    assert!(gain(&expected) < -0.02, "{}", expected.sentence);
    for path in files {
        let found = ask(None, std::slice::from_ref(&path));
        assert_eq!(gain(&found), gain(&expected), "{}", path.display());
        assert!(assumed(&found), "{:?}", found.notes);
    }
    // A mapping states the order.
    let rooms: Vec<String> = nodes
        .iter()
        .map(|n| format!("{{\"node\":\"{n}\",\"slots\":1}}"))
        .collect();
    let mapping = format!(
        "{{\"allocation\":[{}],\"placement\":{nodes:?}}}",
        rooms.join(",")
    );
    let found = ask(None, &[file("mapping.json", mapping)]);
    assert!(!assumed(&found));
    let said = "mapping.json and in order are the same placement: every rank is on the same node";
    assert!(found.sentence.ends_with(said), "{}", found.sentence);
    // The recorded run's ranks need not have been in order.
    write(
        trace.join("placement.csv"),
        format!("rank,node,slot\n{csv}"),
    )
    .unwrap();
    let found = ask(None, &[]);
    let [recorded, in_order] = [&found.placements[0], &found.placements[1]];
    assert_eq!(
        (&*recorded.name, &*in_order.name),
        ("as recorded", "in order")
    );
    assert!(
        in_order.gain_ratio > 0.02 && assumed(&found),
        "{}",
        found.sentence
    );
}

/// The prediction of a trace of eight ranks as if another library had written it.
fn by_library(machine: &Machine, network: &str, library: &str, ranks_per_node: u32) -> Prediction {
    let folder = tempfile::tempdir().unwrap();
    let trace = traced(folder.path());
    let first = trace.join("rank.0.hbt");
    let text = std::fs::read_to_string(&first).unwrap();
    let library = format!("size\t8\nlibrary\t{library}\n");
    write(&first, text.replacen("size\t8\n", &library, 1)).unwrap();
    let ask = Ask {
        trace: trace.to_str().unwrap(),
        machine,
        network: Some(network),
        placements: &[],
        nodes: Some("all"),
        ranks_per_node: Some(ranks_per_node),
        seed: 1,
        collectives: None,
        operations_per_s: None,
        given: Vec::new(),
        background: None,
        measured: &[],
    };
    predict(&ask).unwrap()
}

/// `map RECORD:collectives=RULES --predict` asks so.
#[test]
fn algorithms_behind_a_trace_are_those_of_the_option() {
    let machine = machine("torus:4x4");
    let folder = tempfile::tempdir().unwrap();
    let trace = traced(folder.path()).to_str().unwrap().to_owned();
    let by = |trace: &str, rules: Option<&str>| {
        predict(&Ask {
            trace,
            machine: &machine,
            network: Some("plain"),
            placements: &[],
            nodes: Some("all"),
            ranks_per_node: Some(4),
            seed: 1,
            collectives: rules,
            operations_per_s: None,
            given: Vec::new(),
            background: None,
            measured: &[],
        })
    };
    let rules = "allreduce=ring";
    let behind = format!("{trace}:collectives={rules}");
    let (found, own) = (by(&behind, None).unwrap(), by(&trace, Some(rules)).unwrap());
    assert_eq!(found.trace, behind);
    assert_eq!(found.placements[0].seconds, own.placements[0].seconds);
    assert_eq!(found.notes, own.notes);
    let both = by(&behind, Some("mpich")).unwrap_err().to_string();
    assert!(both.contains("expected one of them"), "{both}");
}

/// MPICH goes inside nodes and between them, as this does not: said where ranks share nodes and call collectives.
#[test]
fn collectives_of_mpich_with_several_ranks_a_node_are_assumed() {
    let machine = machine("torus:4x4");
    let said = |ranks_per_node| {
        let library = "MPICH Version: 4.1.2";
        let notes = by_library(&machine, "plain", library, ranks_per_node).notes;
        notes
            .iter()
            .any(|n| n.contains("algorithms of collectives are assumed"))
    };
    assert!(said(4));
    assert!(!said(1));
}

/// Open MPI 5 goes inside nodes and between them where these have several ranks; not with a rank on each.
#[test]
fn algorithms_follow_the_nodes_of_each_placement() {
    let machine = machine("torus:4x4");
    let folder = tempfile::tempdir().unwrap();
    let network = folder.path().join("network.toml");
    let slow = Parameters {
        latency_s: 1e-3,
        ..Parameters::plain()
    };
    write(&network, toml::to_string(&slow).unwrap()).unwrap();
    let predicted = |version: &str, ranks_per_node| {
        let library = format!("Open MPI v{version}, package");
        by_library(
            &machine,
            network.to_str().unwrap(),
            &library,
            ranks_per_node,
        )
    };
    let notes = |p: &Prediction| p.notes.join("\n");
    let (four, five) = (predicted("4.1.4", 4), predicted("5.0.11", 4));
    let close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
    // In order and at random.
    for (four, five) in four.placements.iter().zip(&five.placements) {
        assert!(!close(four.seconds, five.seconds), "{}", five.name);
    }
    assert!(!notes(&five).contains("Open MPI 5"));
    assert!(!notes(&four).contains("Open MPI 5"));
    let (four, five) = (predicted("4.1.4", 1), predicted("5.0.11", 1));
    assert!(close(
        four.placements[0].seconds,
        five.placements[0].seconds
    ));
    assert!(!notes(&five).contains("Open MPI 5"));
    // Nodes with three ranks and two.
    let (four, five) = (predicted("4.1.4", 3), predicted("5.0.11", 3));
    for (four, five) in four.placements.iter().zip(&five.placements) {
        assert!(!close(four.seconds, five.seconds), "{}", five.name);
    }
    assert!(!notes(&five).contains("Open MPI 5"));
}

#[test]
fn a_scenario_says_what_its_trace_leaves_out() {
    let folder = tempfile::tempdir().unwrap();
    let trace = traced(folder.path());
    let first = trace.join("rank.0.hbt");
    let text = std::fs::read_to_string(&first).unwrap();
    write(
        &first,
        text.replace("ended\tfinalize", "untraced\t3\nended\tfinalize"),
    )
    .unwrap();
    let text = format!(
        "schema = \"hopbyte.scenario/1\"\nname = \"a trace\"\nfabric = \"torus:4x4\"\nnetwork = \"plain\"\nlevel = \"fluid\"\n[job]\nnodes = \"all\"\nranks_per_node = 1\n\
         workload.trace = {{ file = \"{}\" }}\n",
        trace.display()
    );
    let scenario = hopbyte_model::Scenario::read("s.toml", &text).unwrap();
    let asked = hopbyte_job::scenario::Asked::of(&scenario).unwrap();
    let notes = asked.machine.notes.join("\n");
    assert!(notes.contains("3 one-sided operations"), "{notes}");
}
