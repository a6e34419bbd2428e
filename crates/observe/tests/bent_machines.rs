//! Every machine reader with corrupted input: it reads or refuses, and never panics.
//!
//! Seeds are those of the fuzz targets; the changes are pseudo-random and reproducible.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::common::{bent, check_refusal, damaged, seeds};
use hopbyte_fabric::Reach;
use hopbyte_observe::fabric::{Companions, Format, read_machine_text};
use hopbyte_observe::text::{Limits, Text};
use hopbyte_observe::{Machine, ObserveError};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Random changes of each seed.
const BENT: u64 = 2000;

type Read = fn(&[u8]) -> Result<Machine, ObserveError>;

/// Reads with the format given, so that damaged first lines do not hide the reader.
fn as_format(bytes: &[u8], format: Format) -> Result<Machine, ObserveError> {
    let text = Text::from_bytes("input", bytes, Limits::ANY)?;
    read_machine_text(&text, Some(format), Companions::default())
}

/// Role of a corrupted text beside a fixed dump.
enum As {
    Map,
    Tables,
    Names,
}

fn beside(main: &str, role: &As, bytes: &[u8]) -> Result<Machine, ObserveError> {
    let main = match main.split_once('/') {
        Some((target, name)) => {
            let seed = seeds(target).into_iter().find(|(n, _)| n == name);
            seed.unwrap().1
        }
        None => std::fs::read(hopbyte_testdata::own("cray").join(main)).unwrap(),
    };
    let main = Text::from_bytes("main", &main, Limits::ANY)?;
    let text = Text::from_bytes("input", bytes, Limits::TEXT)?;
    let mut with = Companions::default();
    match role {
        As::Map => with.system_map = Some(&text),
        As::Tables => with.routes = std::slice::from_ref(&text),
        As::Names => with.names = Some(&text),
    }
    read_machine_text(&main, None, with)
}

/// With a corrected hash, so that the damage behind it is reached.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    hopbyte_fabric::compact::seal(&mut bytes);
    bytes
}

/// A CODES model with some of its files corrupted.
fn codes(bent: &[(&str, &[u8])]) -> Result<Machine, ObserveError> {
    let file = |name: &str, target: &str, seed: &str| {
        let given = bent
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, b)| b.to_vec());
        let seeds = || seeds(target).into_iter().find(|(n, _)| n == seed);
        let bytes = given.unwrap_or_else(|| seeds().unwrap().1);
        Text::from_bytes(seed, &bytes, Limits::ANY)
    };
    let model = file("", "codes", "plus.conf")?;
    let parts = [
        file("intra", "codes_links", "intra")?,
        file("inter", "codes_links", "inter")?,
    ];
    let with = Companions {
        parts: &parts,
        ..Companions::default()
    };
    read_machine_text(&model, Some(Format::Codes), with)
}

const TARGETS: [(&str, Read); 30] = [
    ("ibnetdiscover", |b| as_format(b, Format::IbRecords)),
    ("ibnetdiscover_ports", |b| as_format(b, Format::IbPorts)),
    ("subnet_list", |b| as_format(b, Format::SubnetList)),
    ("link_info", |b| as_format(b, Format::LinkInfo)),
    ("ibdm_topology", |b| as_format(b, Format::IbdmTopology)),
    ("netloc", |b| as_format(b, Format::Netloc)),
    ("gemini", |b| as_format(b, Format::Gemini)),
    ("aries", |b| as_format(b, Format::Aries)),
    ("system_map", |b| as_format(b, Format::SystemMap)),
    ("system_map", |b| {
        beside("aries/two-groups.txt", &As::Map, b)
    }),
    ("torus_dump", |b| {
        beside("ibnetdiscover/two-switches.txt", &As::Map, b)
    }),
    ("phys_routes", |b| {
        beside("gemini-2x2x8.interconnect.txt.zst", &As::Tables, b)
    }),
    ("slingshot", |b| as_format(b, Format::Slingshot)),
    ("codes", |b| codes(&[("", b)])),
    ("codes_links", |b| codes(&[("intra", b)])),
    ("codes_links", |b| codes(&[("inter", b)])),
    ("hwloc", |b| as_format(b, Format::Hwloc)),
    ("nccl", |b| as_format(b, Format::Nccl)),
    ("lid_matrix", |b| {
        beside("ibnetdiscover/two-switches.txt", &As::Tables, b)
    }),
    ("document", |b| as_format(b, Format::Document)),
    ("compact", |b| as_format(&sealed(b), Format::Compact)),
    ("slurm_conf", |b| as_format(b, Format::SlurmConf)),
    ("slurm_yaml", |b| as_format(b, Format::SlurmYaml)),
    ("flux", |b| as_format(b, Format::Flux)),
    ("kubernetes", |b| as_format(b, Format::Kubernetes)),
    ("topograph_graph", |b| as_format(b, Format::TopographGraph)),
    ("topograph_model", |b| as_format(b, Format::TopographModel)),
    ("scotch_target", |b| as_format(b, Format::ScotchTarget)),
    ("ib_tables", |b| {
        beside("ibnetdiscover/two-switches.txt", &As::Tables, b)
    }),
    ("guid_names", |b| {
        beside("ibnetdiscover/two-switches.txt", &As::Names, b)
    }),
];

#[test]
fn bent_machines_never_panic() {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((target, read)) = TARGETS.get(next.fetch_add(1, Ordering::Relaxed)) {
                    bend(target, *read);
                }
            });
        }
    });
}

fn bend(target: &str, read: Read) {
    let begin = std::time::Instant::now();
    let (mut good, mut bad) = (0, 0);
    for (name, seed) in seeds(target) {
        let random = (0..BENT).map(|n| bent(&seed, n));
        let all = damaged(&seed[..seed.len().min(250)])
            .into_iter()
            .chain(random);
        for bytes in all {
            match read(&bytes) {
                Ok(machine) => {
                    good += 1;
                    use_it(&machine);
                }
                Err(error) => {
                    bad += 1;
                    check_refusal(&error, &format!("{target}/{name}"));
                }
            }
        }
    }
    assert!(bad > 0, "{target}: nothing was refused of {good}");
    let seconds = begin.elapsed().as_secs_f64();
    println!("{target}: {good} read, {bad} refused, {seconds:.1} s");
}

/// A machine that was read is consistent: all pairs have a route or a reason, all names are found.
fn use_it(machine: &Machine) {
    let fabric = &machine.fabric;
    if fabric.nodes().len() <= 32 {
        let reach = Reach::of(fabric, &machine.routing);
        for dead in &reach.unroutable {
            assert!(!dead.describe(fabric).is_empty());
        }
    }
    for node in fabric.node_ids() {
        assert_eq!(fabric.find_node(&fabric.node(node).name).unwrap(), node);
    }
    for link in fabric.link_ids() {
        assert!(!fabric.link_name(link).is_empty());
    }
}

/// Seeds are valid: a fuzzer that starts from refused input explores little.
#[test]
fn seeds_are_read_as_they_are() {
    for (target, read) in TARGETS {
        for (name, seed) in seeds(target) {
            // A map belongs to one machine; tables come in parts.
            let whole = !matches!(target, "system_map" | "codes_links");
            if let (Err(error), true) = (read(&seed), whole) {
                let text = error.to_string();
                // A set of resources without a graph is recognised to say so.
                let expected = ["no entry for any node", "an R without a graph"];
                assert!(
                    expected.iter().any(|e| text.contains(e)),
                    "{target}/{name}: {text}"
                );
            }
        }
    }
}
