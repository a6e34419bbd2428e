//! Paper 003 on real kernels: an application on an emulated cluster, a competing one, counters, a new
//! map at run time, and the share of the lost time that is recovered.

mod application;
mod figures;
mod reading;
mod rivals;
mod trial;

pub use figures::{Figure, LabRecord, Method, Trial};

use crate::error::{Context, Result, refuse};
use crate::{Lab, plan, share, system};
use application::{LAUNCHER, Place};
use figures::figures;
use hopbyte_apply::write_atomic;
use hopbyte_fabric::random::Random;
use hopbyte_fabric::{Exchange, NodeId};
use hopbyte_job::Lacking;
use hopbyte_job::record::child::run_for;
use hopbyte_job::record::launch::{Flavour, beside, probe_places};
use hopbyte_job::statistics::median;
use hopbyte_job::{Machine, MachineSource};
use hopbyte_observe::read_traffic;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use trial::{CELLS, NAP, Scene};

/// Products of the recorded run; one more checks the result.
const RECORDED: u64 = 10;
/// Timeout of the recorded run.
const PATIENCE: Duration = Duration::from_secs(240);

/// Settings of the cluster and the measurement.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Spec of the emulated machine; half of its nodes, picked at random, are the application's.
    pub machine: String,
    /// Rate of its links, such as `10mbit`.
    pub rate: String,
    /// Blocks of the application's matrix along X, Y, Z: one per rank, equally many on every node.
    pub grid: String,
    /// Matrix rows per block: neighbours exchange 8 bytes for each.
    pub unknowns: u32,
    /// Streams of datagrams between other nodes, which never pause.
    pub competing: usize,
    /// Share of its sender's link that a stream takes.
    pub competing_share: f64,
    /// Trials, each with other streams.
    pub trials: usize,
    /// Number of the first trial.
    pub first: u64,
    /// Time after which no trial begins, in seconds.
    pub budget: f64,
    /// Folder of the probes, with `ompi` in it; default: installed, or build/probes.
    pub programs: Option<PathBuf>,
    /// Folder of the preload libraries; default: installed, or build/mpi.
    pub libraries: Option<PathBuf>,
}

/// Takes the lab down on every exit path; a watcher does if this process is killed. The lab's name includes this
/// process's number, since the watcher of an earlier demo may still run.
struct Guard(String);

impl Guard {
    fn new() -> Result<Self> {
        let lab = format!("demo{}", std::process::id() % 100_000_000);
        let script = "while kill -0 \"$1\" 2>/dev/null; do sleep 0.5; done; exec \"$2\" --quiet lab down \"$3\"";
        let own = hopbyte_job::program::own().context("finding this program")?;
        let watcher = Command::new("setsid")
            .args(["sh", "-c", script, "sh", &std::process::id().to_string()])
            .arg(own)
            .arg(&lab)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        watcher.context("starting setsid")?;
        Ok(Self(lab))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = system::remove(&self.0);
    }
}

/// Runs the experiment and writes `lab.json` into the folder.
///
/// # Errors
/// No right to create namespaces, no MPI, or a job on the lab that fails.
pub fn run(
    settings: &Settings,
    folder: &Path,
    seed: u64,
    say: &mut dyn FnMut(String),
) -> Result<LabRecord> {
    let rate = plan::rate("--rate", &settings.rate)?;
    let grid: Vec<u32> = settings
        .grid
        .split(',')
        .filter_map(|w| w.parse().ok())
        .collect();
    let ranks = grid.iter().product::<u32>() as usize;
    if grid.len() != 3 || ranks == 0 || settings.trials == 0 {
        refuse!(
            "--grid: found '{}', expected three numbers such as 4,2,2, and at least one trial",
            settings.grid
        );
    }
    let taken = share("--competing-share", settings.competing_share)?;
    system::check_rights()?;
    if Command::new(LAUNCHER)
        .arg("--version")
        .stdout(Stdio::null())
        .status()
        .is_err()
    {
        return Err(Lacking(format!("no {LAUNCHER}\nhint: apt-get install openmpi-bin")).into());
    }
    let own = settings.programs.as_ref().map(|p| p.join("ompi"));
    let places = probe_places(Flavour::Ompi);
    let program = beside("spmv", own.as_deref(), &places, ("make -C probes", None))?;
    std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let folder = folder.canonicalize().context("finding the folder")?;
    let source = MachineSource {
        fabric: settings.machine.clone(),
        ..MachineSource::default()
    };
    let machine = source.read()?;
    let (nodes, others) = halves(&machine, seed);
    if nodes.is_empty() || others.len() < 2 || !ranks.is_multiple_of(nodes.len()) {
        refuse!(
            "--grid: found {ranks} blocks, expected a multiple of the application's {} nodes",
            nodes.len()
        );
    }
    let guard = Guard::new()?;
    let lab = Lab::up(&guard.0, source, &machine, rate)?;
    let place = Place {
        lab: &lab,
        fabric: &machine.fabric,
        ranks_per_node: (ranks / nodes.len()) as u32,
        nodes,
    };
    say(format!(
        "lab up: {}, {} nodes; recording the application",
        settings.machine,
        machine.fabric.nodes().len()
    ));
    let traffic = record(&place, &program, settings, &folder)?;
    let exchange = products_only(&traffic, &folder)?;
    let scene = Scene {
        competing: settings.competing,
        share: taken,
        place,
        others,
        machine: &machine,
        traffic: folder.join("product.csv"),
        folder,
        program,
        exchange,
        seed,
    };
    let (trials, verified) = scene.trials(settings, say)?;
    drop(guard);
    let record = LabRecord {
        schema: "hopbyte.demo.lab/1",
        machine: settings.machine.clone(),
        rate_bits_per_s: rate,
        ranks,
        nodes: scene
            .place
            .nodes
            .iter()
            .map(|&n| machine.fabric.node(n).name.clone())
            .collect(),
        alone_seconds: median(&trials.iter().map(|t| t.alone_seconds).collect::<Vec<_>>()),
        congested_seconds: median(
            &trials
                .iter()
                .map(|t| t.congested_seconds)
                .collect::<Vec<_>>(),
        ),
        figures: figures(&trials),
        verified,
        trials,
    };
    let path = scene.folder.join("lab.json");
    write_atomic(&path, &(serde_json::to_string_pretty(&record)? + "\n"))?;
    Ok(record)
}

/// The application's nodes in order, and the others.
pub fn halves(machine: &Machine, seed: u64) -> (Vec<NodeId>, Vec<NodeId>) {
    let mut nodes: Vec<NodeId> = machine.fabric.node_ids().collect();
    Random::stream(seed, 0).shuffle(&mut nodes);
    let others = nodes.split_off(nodes.len() / 2);
    nodes.sort_unstable();
    (nodes, others)
}

/// Runs a few products under the recorder; returns the record's folder.
fn record(place: &Place, program: &Path, settings: &Settings, folder: &Path) -> Result<PathBuf> {
    let target = folder.join("record");
    let _ = std::fs::remove_dir_all(&target);
    let own = hopbyte_job::program::own().context("finding this program")?;
    let mut before = vec![own.display().to_string(), "--quiet".into(), "record".into()];
    before.extend(["--out".into(), target.display().to_string()]);
    if let Some(libraries) = &settings.libraries {
        let libraries = libraries.canonicalize().context("finding the libraries")?;
        before.extend(["--libraries".into(), libraries.display().to_string()]);
    }
    before.push("--".into());
    let log = folder.join("record.log");
    let file = || std::fs::File::create(&log).with_context(|| format!("writing {}", log.display()));
    let mut command = place.launcher(&before);
    command
        .arg(program)
        .args(["--grid", &settings.grid, "--nap", NAP, "--cells", CELLS])
        .args(["--unknowns", &settings.unknowns.to_string()]);
    command.args(["--iterations", &RECORDED.to_string()]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(file()?);
    let status = run_for(&mut command, Some(PATIENCE))?;
    if !status.is_some_and(|s| s.success()) {
        refuse!(
            "recording the application failed\nhint: see {}",
            log.display()
        );
    }
    Ok(target.join("traffic.csv"))
}

/// The point-to-point messages of one product: the record divided by the products. The plan that neighbours
/// exchange once at the start is included, half a message in eleven.
fn products_only(traffic: &Path, folder: &Path) -> Result<Exchange> {
    let recorded = read_traffic(&traffic.display().to_string())?;
    let Some(main) = recorded.phases.iter().find(|p| p.name == "main") else {
        refuse!("{}: no phase 'main'", traffic.display());
    };
    let count = RECORDED + 1;
    let entries: Vec<(u32, u32, f64, u64)> = (main.exchange.iter())
        .map(|(from, m)| (from, m.to, m.bytes / count as f64, m.messages / count))
        .collect();
    let exchange = Exchange::new(recorded.tasks, entries.iter().copied())?;
    let lines: String = entries
        .iter()
        .map(|(a, b, bytes, n)| format!("{a},{b},{bytes},{n}\n"))
        .collect();
    write_atomic(
        &folder.join("product.csv"),
        &format!("src,dst,bytes,messages\n{lines}"),
    )?;
    Ok(exchange)
}
