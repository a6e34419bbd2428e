//! Paper 003 for real: an application on an emulated cluster, another one in its way, counters, a new
//! map while it runs, and the share of the lost time that comes back.

use super::super::Answer;
use super::super::lab::{Window, window_lines};
use super::super::map::{Asked, Effort, Goal, search};
use super::super::record::launch::{beside, run_for};
use super::figures::{Method, Record, Remap, Trial, figures};
use super::job::{Job, LAUNCHER, Place};
use crate::args::FabricOption;
use crate::failure::Lacking;
use crate::lab::{Lab, counters, plan, system};
use crate::machine::{Machine, MachineSource};
use crate::output::Output;
use crate::statistics::median;
use anyhow::{Context, Result, bail};
use hopbyte_apply::write_atomic;
use hopbyte_fabric::{Exchange, LinkId, NodeId, Placement};
use hopbyte_observe::read_traffic;
use hopbyte_oracle::Metric;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The lab's name.
const LAB: &str = "demo";
/// Products of the run that is recorded; one more checks the result.
const RECORDED: u64 = 10;
/// Wire bytes of a payload byte: 1,448 in a frame of 1,514.
const FRAMES: f64 = 1514.0 / 1448.0;
/// Bytes of a message of the competing application.
const COMPETING_BYTES: &str = "500kB";
/// Longest wait for the recorded run.
const PATIENCE: Duration = Duration::from_secs(240);
/// Seconds of counters that a remap is based on.
const READING: Duration = Duration::from_secs(5);
/// A trial in which the competing application cost less than this share has nothing to give back.
const LEAST_LOSS: f64 = 0.05;

/// How the cluster is made and measured.
#[derive(clap::Args, Debug)]
pub struct Settings {
    /// The emulated machine; half of its nodes, picked at random, are the application's
    #[arg(
        long,
        default_value = "torus:2x2x8",
        value_name = "FABRIC",
        help_heading = "Emulated cluster"
    )]
    machine: String,
    /// Rate of its links
    #[arg(
        long,
        default_value = "20mbit",
        value_name = "RATE",
        help_heading = "Emulated cluster"
    )]
    rate: String,
    /// Blocks of the application's matrix along X, Y, Z: a rank each, as many on every node
    #[arg(
        long,
        default_value = "4,4,4",
        value_name = "A,B,C",
        help_heading = "Emulated cluster"
    )]
    grid: String,
    /// Pairs of other nodes that send each other all the time
    #[arg(
        long,
        default_value_t = 8,
        value_name = "N",
        help_heading = "Emulated cluster"
    )]
    competing: usize,
    /// Trials in which something was lost, each with other pairs of competing nodes
    #[arg(
        long = "lab-trials",
        default_value_t = 10,
        value_name = "N",
        help_heading = "Emulated cluster"
    )]
    trials: usize,
    /// Begin no trial after so many seconds
    #[arg(
        long,
        default_value_t = 900.0,
        value_name = "SECONDS",
        help_heading = "Emulated cluster"
    )]
    budget: f64,
    /// Where the probes are: a folder with `ompi` in it (default: installed, or build/probes)
    #[arg(long, value_name = "FOLDER", help_heading = "Emulated cluster")]
    programs: Option<PathBuf>,
    /// Where the preload libraries are (default: installed, or build/recorder)
    #[arg(long, value_name = "FOLDER", help_heading = "Emulated cluster")]
    libraries: Option<PathBuf>,
}

/// Takes the lab down whatever happens; a watcher does when this process is killed.
struct Guard;

impl Guard {
    fn new() -> Result<Self> {
        system::remove(LAB).context("removing what an earlier run left")?;
        let script = "while kill -0 \"$1\" 2>/dev/null; do sleep 0.5; done; exec \"$2\" --quiet lab down \"$3\"";
        let own = std::env::current_exe().context("finding this program")?;
        let watcher = Command::new("setsid")
            .args(["sh", "-c", script, "sh", &std::process::id().to_string()])
            .arg(own)
            .arg(LAB)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        watcher.context("starting setsid")?;
        Ok(Self)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = system::remove(LAB);
    }
}

/// Everything that stays the same over trials.
struct Scene<'a> {
    place: Place<'a>,
    others: Vec<NodeId>,
    machine: &'a Machine,
    folder: PathBuf,
    program: PathBuf,
    /// What the blocks send each other in one product.
    exchange: Exchange,
    traffic: PathBuf,
    products: u64,
    competing: usize,
    seed: u64,
}

/// Runs the experiment. Exit code 1 when neither credit stalls nor our objective gave back half of the lost
/// time and more than hops did.
pub fn run(settings: &Settings, folder: &Path, seed: u64, out: &mut Output) -> Result<Answer> {
    let Some(rate) = plan::parse_rate(&settings.rate) else {
        bail!(
            "--rate: found '{}', expected a rate such as 20mbit",
            settings.rate
        );
    };
    let grid: Vec<u32> = settings
        .grid
        .split(',')
        .filter_map(|w| w.parse().ok())
        .collect();
    let ranks = grid.iter().product::<u32>() as usize;
    if grid.len() != 3 || ranks == 0 || settings.trials == 0 {
        bail!(
            "--grid: found '{}', expected three numbers such as 4,4,4, and at least one trial",
            settings.grid
        );
    }
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
    let places = [
        "libexec/hopbyte/ompi".to_owned(),
        "build/probes/ompi".to_owned(),
    ];
    let program = beside("spmv", own.as_deref(), &places, "make -C probes")?;
    std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let folder = folder.canonicalize().context("finding the folder")?;
    let source = MachineSource {
        fabric: settings.machine.clone(),
        ..MachineSource::default()
    };
    let machine = source.read(&mut Output::silent())?;
    let (nodes, others) = halves(&machine, seed);
    if nodes.is_empty() || others.len() < 2 || !ranks.is_multiple_of(nodes.len()) {
        bail!(
            "--grid: found {ranks} blocks, expected a multiple of the application's {} nodes",
            nodes.len()
        );
    }
    let guard = Guard::new()?;
    let lab = Lab::up(LAB, source, &machine, rate)?;
    let place = Place {
        lab: &lab,
        fabric: &machine.fabric,
        ranks_per_node: (ranks / nodes.len()) as u32,
        nodes,
    };
    out.talk(format!(
        "lab up: {}, {} nodes; recording the application",
        settings.machine,
        machine.fabric.nodes().len()
    ));
    let traffic = record(&place, &program, settings, &folder)?;
    let exchange = products_only(&traffic, &folder)?;
    let scene = Scene {
        products: (12 / u64::from(place.ranks_per_node)).max(4),
        competing: settings.competing,
        place,
        others,
        machine: &machine,
        traffic: folder.join("product.csv"),
        folder,
        program,
        exchange,
        seed,
    };
    let (trials, verified) = scene.trials(settings, out)?;
    drop(guard);
    let record = Record {
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
    if out.json {
        out.object(&record)?;
    } else {
        record.write(out)?;
    }
    Ok(if record.holds() {
        Answer::Yes
    } else {
        Answer::No
    })
}

/// The application's nodes in order, and the others.
fn halves(machine: &Machine, seed: u64) -> (Vec<NodeId>, Vec<NodeId>) {
    let mut nodes: Vec<NodeId> = machine.fabric.node_ids().collect();
    shuffle(&mut nodes, seed);
    let others = nodes.split_off(nodes.len() / 2);
    nodes.sort_unstable();
    (nodes, others)
}

/// Fisher and Yates, with a generator of its own so that a seed means the same everywhere.
fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d;
    for i in (1..items.len()).rev() {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        items.swap(i, (state % (i as u64 + 1)) as usize);
    }
}

/// Runs a few products under the recorder; the record's folder.
fn record(place: &Place, program: &Path, settings: &Settings, folder: &Path) -> Result<PathBuf> {
    let target = folder.join("record");
    let _ = std::fs::remove_dir_all(&target);
    let own = std::env::current_exe().context("finding this program")?;
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
        .args(["--grid", &settings.grid, "--nap", "300"]);
    command.args(["--iterations", &RECORDED.to_string()]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(file()?);
    let status = run_for(&mut command, Some(PATIENCE))?;
    if !status.is_some_and(|s| s.success()) {
        bail!(
            "recording the application failed\nhint: see {}",
            log.display()
        );
    }
    Ok(target.join("traffic.csv"))
}

/// The point-to-point messages of one product: what was recorded, shared out. The plan that neighbours
/// exchange once at the start is in it too, half a message in eleven.
fn products_only(traffic: &Path, folder: &Path) -> Result<Exchange> {
    let recorded = read_traffic(&traffic.display().to_string())?;
    let Some(main) = recorded.phases.iter().find(|p| p.name == "main") else {
        bail!("{}: no phase 'main'", traffic.display());
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

impl Scene<'_> {
    fn trials(&self, settings: &Settings, out: &mut Output) -> Result<(Vec<Trial>, bool)> {
        let (map, stop) = (self.folder.join("map"), self.folder.join("stop"));
        for path in [&map, &stop] {
            let _ = std::fs::remove_file(path);
        }
        let words = |w: &[&str]| w.iter().map(|&w| w.to_owned()).collect::<Vec<String>>();
        let mut program = vec![self.program.display().to_string()];
        program.extend(words(&[
            "--grid",
            &settings.grid,
            "--nap",
            "300",
            "--json",
            "--iterations",
            "100000000",
        ]));
        program.extend(words(&[
            "--remap",
            &map.display().to_string(),
            "--stop",
            &stop.display().to_string(),
        ]));
        let products = self.products.to_string();
        program.extend(words(&[
            "--report-every",
            &products,
            "--check-every",
            &products,
        ]));
        let mut app = Job::start(&self.place, &program, &self.folder.join("application.log"))?;
        app.line(|v| v["record"] == "setup")?;

        let begun = Instant::now();
        let mut trials: Vec<Trial> = Vec::new();
        let lost = |t: &Trial| t.remaps.iter().any(|r| r.recovered_ratio.is_some());
        while trials.iter().filter(|t| lost(t)).count() < settings.trials
            && begun.elapsed().as_secs_f64() < settings.budget
        {
            let trial = self.trial(&mut app, &map, trials.len() as u64)?;
            let best = trial
                .remaps
                .iter()
                .min_by(|a, b| a.product_seconds.total_cmp(&b.product_seconds));
            out.talk(format!(
                "trial {}: {:.1} ms alone, {:.1} congested, best {}",
                trials.len() + 1,
                1e3 * trial.alone_seconds,
                1e3 * trial.congested_seconds,
                best.map_or(String::new(), |b| format!(
                    "{:.1} with {}",
                    1e3 * b.product_seconds,
                    b.method.words()
                )),
            ));
            trials.push(trial);
        }
        write_atomic(&stop, "")?;
        let total = app.line(|v| v["record"] == "total")?;
        Ok((trials, total["verified"] == true))
    }

    /// Alone, then beside others: as launched, and after a remap with each method.
    fn trial(&self, app: &mut Job, map: &Path, number: u64) -> Result<Trial> {
        app.catch_up()?;
        let alone_seconds = app.product_seconds(3, self.products)?;
        let mut others = Vec::new();
        let mut nodes = self.others.clone();
        shuffle(&mut nodes, self.seed.wrapping_add(1000 + number));
        for (i, pair) in nodes.chunks_exact(2).take(self.competing).enumerate() {
            others.push(self.competitor(pair, i)?);
        }
        for other in &mut others {
            other.line(|_| true)?;
        }
        std::thread::sleep(Duration::from_secs(1));
        app.catch_up()?;
        let congested_seconds = app.product_seconds(3, self.products)?;
        let lost = congested_seconds - alone_seconds;
        self.read_counters(congested_seconds)?;
        let mut methods = Method::MAPPED;
        methods.rotate_left(number as usize % Method::MAPPED.len());
        let mut remaps = Vec::new();
        for method in methods {
            let (order, mapping_seconds) = self.mapping(method)?;
            let moved = send(app, map, &order)?;
            let product_seconds = app.product_seconds(3, self.products)?;
            remaps.push(Remap {
                method,
                product_seconds,
                recovered_ratio: (lost > LEAST_LOSS * alone_seconds)
                    .then(|| (congested_seconds - product_seconds) / lost),
                mapping_seconds,
                moving_seconds: moved["move_seconds"].as_f64().unwrap_or(0.0),
                moved_blocks: moved["moved_blocks"].as_u64().unwrap_or(0),
            });
        }
        drop(others);
        let identity: Vec<usize> = (0..self.exchange.tasks()).collect();
        send(app, map, &identity)?;
        Ok(Trial {
            alone_seconds,
            congested_seconds,
            remaps,
        })
    }

    /// Two nodes that send each other all the time.
    fn competitor(&self, pair: &[NodeId], number: usize) -> Result<Job> {
        let nodes = pair.to_vec();
        let place = Place {
            lab: self.place.lab,
            fabric: self.place.fabric,
            nodes,
            ranks_per_node: 1,
        };
        let program = self
            .program
            .with_file_name("hopbyte-probe")
            .display()
            .to_string();
        let mut words = vec![
            program,
            "background".into(),
            "--background".into(),
            "pairs".into(),
        ];
        words.extend([
            "--background-bytes".into(),
            COMPETING_BYTES.into(),
            "--seconds".into(),
            "3000".into(),
        ]);
        words.extend([
            "--nap".into(),
            "300".into(),
            "--deadline".into(),
            "0".into(),
            "--json".into(),
        ]);
        Job::start(
            &place,
            &words,
            &self.folder.join(format!("competing-{number}.log")),
        )
    }

    /// Reads the lab's counters into two files: all that links carry, and what is not the application's.
    fn read_counters(&self, product_seconds: f64) -> Result<()> {
        let (fabric, lab) = (&self.machine.fabric, self.place.lab);
        let loads = counters::watch(lab, fabric, READING)?;
        let own = self.own_bytes()?;
        let window = READING.as_secs_f64();
        let of = |mine: bool| {
            let rows = loads.iter().map(|(&link, load)| {
                let own = own.get(&link).copied().unwrap_or(0.0) * load.seconds / product_seconds;
                let bytes = load.bytes as f64 - if mine { 0.0 } else { own };
                Window {
                    link,
                    seconds: load.seconds,
                    bytes: bytes.max(0.0),
                    packets: load.packets,
                    waiting: load.waiting,
                }
            });
            window_lines(lab, fabric, window, rows)
        };
        write_atomic(&self.folder.join("links.jsonl"), &of(true))?;
        write_atomic(&self.folder.join("others.jsonl"), &of(false))?;
        Ok(())
    }

    /// Bytes on the wire that one product puts on each link, as launched.
    fn own_bytes(&self) -> Result<HashMap<LinkId, f64>> {
        let node = |task: u32| self.place.nodes[task as usize / self.place.ranks_per_node as usize];

        let mut bytes = HashMap::new();
        let mut route = Vec::new();
        for (from, message) in self.exchange.iter() {
            route.clear();
            let (a, b) = (node(from), node(message.to));
            let walked = self
                .machine
                .routing
                .route(&self.machine.fabric, a, b, &mut route);
            walked.map_err(|e| anyhow::anyhow!("{}", e.describe(&self.machine.fabric)))?;
            for &link in &route {
                *bytes.entry(link).or_insert(0.0) += message.bytes * FRAMES;
            }
        }
        Ok(bytes)
    }

    /// The block of every rank by one method, and how long finding it took.
    fn mapping(&self, method: Method) -> Result<(Vec<usize>, f64)> {
        let begun = Instant::now();
        let names: Vec<&str> = self
            .place
            .nodes
            .iter()
            .map(|&n| self.machine.fabric.node(n).name.as_str())
            .collect();
        let (objective, metric, file) = match method {
            Method::WorstLink | Method::Quiet | Method::None => {
                (Goal::WorstLink, Metric::Hops, "others.jsonl")
            }
            Method::Hops => (Goal::RouteCost, Metric::Hops, "links.jsonl"),
            Method::Used => (Goal::RouteCost, Metric::Used, "links.jsonl"),
            Method::CreditStall => (Goal::RouteCost, Metric::CreditStall, "links.jsonl"),
        };
        let asked = Asked {
            traffic: self.traffic.display().to_string(),
            fabric: FabricOption {
                fabric: self.place.lab.machine.fabric.clone(),
                ..FabricOption::default()
            },
            nodes: Some(names.join(",")),
            ranks_per_node: Some(self.place.ranks_per_node),
            background: match method {
                Method::Quiet => Vec::new(),
                _ => vec![self.folder.join(file)],
            },
            objective,
            metric,
            ..Asked::default()
        };
        let question = asked.read(&mut Output::silent())?;
        let effort = Effort {
            seconds: 0.0,
            trials: Some(20_000),
            seed: self.seed,
            threads: 0,
        };
        let mapping = search(&question, &effort, &Output::silent())?;
        Ok((
            self.blocks(&mapping.placement),
            begun.elapsed().as_secs_f64(),
        ))
    }

    /// Which block every rank gets, ranks being numbered node by node.
    fn blocks(&self, placement: &Placement) -> Vec<usize> {
        let per_node = self.place.ranks_per_node as usize;
        let mut blocks = vec![0; placement.tasks()];
        for task in 0..placement.tasks() {
            let slot = placement.slot(task as u32);
            let node = self
                .place
                .nodes
                .iter()
                .position(|&n| n == slot.node)
                .unwrap_or(0);
            blocks[node * per_node + slot.slot as usize] = task;
        }
        blocks
    }
}

/// Gives the running application a map; what it says of the move.
fn send(app: &mut Job, map: &Path, blocks: &[usize]) -> Result<serde_json::Value> {
    let lines = blocks
        .iter()
        .enumerate()
        .map(|(rank, block)| format!("{rank} {block}\n"));
    write_atomic(map, &lines.collect::<String>())?;
    app.line(|v| v["record"] == "migration")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_keeps_everything() {
        let mut items: Vec<u32> = (0..32).collect();
        shuffle(&mut items, 5);
        assert_ne!(items, (0..32).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..32).collect::<Vec<_>>());
    }
}
