//! `hopbyte probe`: are the links as fast as they should be? Which component is not?

use super::Answer;
use super::record::flavour;
use crate::args::{FabricArgs, FabricOption};
use crate::output::{Output, Table, count};
use anyhow::{Context, Result, bail};
use clap::Subcommand;
use hopbyte_apply::write_atomic;
use hopbyte_fabric::{Fabric, NodeId};
use hopbyte_job::Machine;
use hopbyte_job::inputs;
use hopbyte_job::probe::explain::{self, Component, Finding, Findings};
use hopbyte_job::probe::{plan, results};
use hopbyte_job::record::launch::{self, Flavour, Launcher};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Measuring links, and understanding what was measured.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Which transfers show every link? A schedule for topobw
    Plan(Plan),
    /// Measure every link between a job's nodes with topobw, and analyse the result
    Run(Run),
    /// What is slow, and which component explains it? Exit code 1 when something is
    Analyse(Analyse),
}

/// See [`Verb::Plan`].
#[derive(clap::Args, Debug)]
pub struct Plan {
    #[command(flatten)]
    fabric: FabricArgs,
    /// Nodes that take part: names, `miriel[063-065]`, `@FILE`, or `all`
    #[arg(long, value_name = "LIST", default_value = "all", help_heading = "Job")]
    nodes: String,
}

/// What counts as slow.
#[derive(clap::Args, Clone, Debug)]
pub struct Measure {
    /// Share below the class's figure that is slow; noise may double it
    #[arg(long, default_value_t = 0.15, value_name = "SHARE")]
    tolerance: f64,
    /// What a kind of link should give, `KIND=BYTES_PER_S`, in place of what its class gave
    #[arg(long, value_name = "KIND=RATE")]
    expected: Vec<String>,
}

/// See [`Verb::Analyse`].
#[derive(clap::Args, Debug)]
pub struct Analyse {
    /// What `topobw --json` printed (`probe run -o`)
    #[arg(required = true, value_name = "RESULT")]
    results: Vec<PathBuf>,
    #[command(flatten)]
    fabric: FabricOption,
    #[command(flatten)]
    measure: Measure,
}

/// See [`Verb::Run`].
#[derive(clap::Args, Debug)]
pub struct Run {
    #[command(flatten)]
    fabric: FabricOption,
    /// Nodes that take part: names, `miriel[063-065]`, `@FILE`, or `all`; the launcher puts a rank on each
    #[arg(long, value_name = "LIST", default_value = "all", help_heading = "Job")]
    nodes: String,
    /// File for what topobw prints
    #[arg(short, long, value_name = "FILE", default_value = "topobw.jsonl")]
    output: PathBuf,
    /// Bytes of a message
    #[arg(
        long,
        default_value = "1MB",
        value_name = "BYTES",
        help_heading = "Measurement"
    )]
    bytes: String,
    /// Messages in flight
    #[arg(
        long,
        default_value_t = 8,
        value_name = "N",
        help_heading = "Measurement"
    )]
    window: u32,
    /// Trials; a path's figure is their upper quartile
    #[arg(
        long,
        default_value_t = 5,
        value_name = "N",
        help_heading = "Measurement"
    )]
    trials: u32,
    /// Microseconds that ranks sleep between two looks at their messages (emulated clusters)
    #[arg(
        long,
        default_value_t = 0,
        value_name = "US",
        help_heading = "Measurement"
    )]
    nap: u32,
    /// End the job after so long
    #[arg(
        long,
        default_value_t = 600.0,
        value_name = "SECONDS",
        help_heading = "Measurement"
    )]
    deadline: f64,
    /// The launcher's MPI, where it does not tell
    #[arg(long, value_parser = flavour(), value_name = "MPI")]
    flavour: Option<Flavour>,
    /// Where the probes are: a folder with ompi, mpich, abi (default: installed, or build/probes)
    #[arg(long, value_name = "FOLDER")]
    programs: Option<PathBuf>,
    #[command(flatten)]
    measure: Measure,
    /// The launcher with its options, behind `--`, without a program
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "LAUNCHER"
    )]
    launcher: Vec<OsString>,
}

/// Does it.
pub fn run(verb: &Verb, out: &mut Output) -> Result<Answer> {
    match verb {
        Verb::Plan(args) => {
            let machine = args.fabric.read(out)?;
            let nodes = nodes(&args.nodes, &machine.fabric)?;
            out.text(&plan::schedule(&machine.fabric, &machine.routing, &nodes))?;
            Ok(Answer::Yes)
        }
        Verb::Analyse(args) => {
            let machine = args.fabric.read(out)?;
            analyse(&args.results, &machine, &args.measure, out)
        }
        Verb::Run(args) => measure(args, out),
    }
}

fn nodes(list: &str, fabric: &Fabric) -> Result<Vec<NodeId>> {
    let allocation = inputs::nodes(list, Some(1), 1, fabric)?;
    Ok(allocation.nodes().iter().map(|&(n, _)| n).collect())
}

/// Runs topobw over the plan and keeps what it prints.
fn measure(args: &Run, out: &mut Output) -> Result<Answer> {
    let machine = args.fabric.read(out)?;
    let nodes = nodes(&args.nodes, &machine.fabric)?;
    if !(args.deadline > 0.0 && args.deadline <= 1e6) {
        bail!(
            "--deadline: found {}, expected seconds above 0",
            args.deadline
        );
    }
    let Some(first) = args.launcher.first() else {
        bail!("no launcher\nhint: hopbyte probe run … -- mpirun -np 16 --map-by node");
    };
    let Some(flavour) = args.flavour.or(Launcher::of(first)?.flavour()) else {
        bail!(
            "{} does not tell which MPI it starts\nhint: give --flavour ompi, mpich or abi",
            first.display()
        );
    };
    let relative = [
        format!("libexec/hopbyte/{}", flavour.name()),
        format!("build/probes/{}", flavour.name()),
    ];
    let own = args.programs.as_ref().map(|p| p.join(flavour.name()));
    let program = launch::beside("topobw", own.as_deref(), &relative, "make -C probes")?;
    let schedule = args.output.with_extension("schedule");
    write_atomic(
        &schedule,
        &plan::schedule(&machine.fabric, &machine.routing, &nodes),
    )?;
    let schedule = schedule.canonicalize().context("finding the schedule")?;
    let mut command = Command::new(first);
    command
        .args(&args.launcher[1..])
        .arg(&program)
        .arg("--schedule")
        .arg(&schedule);
    command.args(["--bytes", &args.bytes, "--window", &args.window.to_string()]);
    command.args([
        "--trials",
        &args.trials.to_string(),
        "--nap",
        &args.nap.to_string(),
        "--json",
    ]);
    let unfinished = args.output.with_extension("tmp");
    let file = std::fs::File::create(&unfinished)
        .with_context(|| format!("writing {}", unfinished.display()))?;
    command.stdin(Stdio::null()).stdout(file);
    out.talk(format!("measuring with {}", program.display()));
    let status = launch::run_for(&mut command, Some(Duration::from_secs_f64(args.deadline)))?;
    match status {
        Some(status) if status.success() => {}
        Some(status) => bail!(
            "topobw ended with {status}; what it printed is in {}",
            unfinished.display()
        ),
        None => bail!("topobw was ended at the deadline of {} s", args.deadline),
    }
    std::fs::rename(&unfinished, &args.output)
        .with_context(|| format!("writing {}", args.output.display()))?;
    out.talk(format!("wrote {}", args.output.display()));
    analyse(
        std::slice::from_ref(&args.output),
        &machine,
        &args.measure,
        out,
    )
}

/// The answer for scripts.
#[derive(Serialize)]
struct Record {
    schema: &'static str,
    paths: usize,
    slow_paths: usize,
    classes: Vec<ClassRow>,
    components: Vec<ComponentRow>,
    unexplained: Vec<PathRow>,
    links_not_measured: usize,
}

#[derive(Serialize)]
struct ClassRow {
    kind: String,
    mode: String,
    paths: usize,
    expected_bytes_per_s: f64,
    least_bytes_per_s: f64,
}

#[derive(Serialize)]
struct ComponentRow {
    name: String,
    kind: &'static str,
    expected_bytes_per_s: f64,
    measured_bytes_per_s: f64,
    verdict: String,
    paths: usize,
    /// Components that the same measurements would show.
    or: Vec<String>,
}

#[derive(Serialize)]
struct PathRow {
    from: String,
    to: String,
    expected_bytes_per_s: f64,
    measured_bytes_per_s: f64,
}

fn analyse(
    files: &[PathBuf],
    machine: &Machine,
    measure: &Measure,
    out: &mut Output,
) -> Result<Answer> {
    if !(measure.tolerance > 0.0 && measure.tolerance < 1.0) {
        bail!(
            "--tolerance: found {}, expected a share between 0 and 1",
            measure.tolerance
        );
    }
    let mut expected = BTreeMap::new();
    for word in &measure.expected {
        let pair = word
            .rsplit_once('=')
            .and_then(|(k, v)| Some((k, v.parse::<f64>().ok()?)));
        let Some((kind, rate)) = pair.filter(|(_, r)| r.is_finite() && *r > 0.0) else {
            bail!("--expected: found '{word}', expected KIND=BYTES_PER_S, such as backplane=5.9e9");
        };
        expected.insert(kind.to_owned(), rate);
    }
    let paths = results::read(files, machine)?;
    let found = explain::explain(&machine.fabric, &paths, measure.tolerance, &expected);
    let record = record(&machine.fabric, &paths, &found);
    let slow = record.slow_paths > 0;
    if out.json {
        out.object(&record)?;
    } else {
        record.write(out)?;
    }
    Ok(if slow { Answer::No } else { Answer::Yes })
}

/// What a measured share of a link's rate says of its lanes: those of paper 002, II.C, where two thirds of
/// a link's rate are left with one lane of three out of service.
fn verdict(fabric: &Fabric, finding: &Finding) -> String {
    let share = finding.measured / finding.expected;
    if let Component::Link(l) | Component::Cable(l) = finding.component {
        let lanes = fabric.link(l).lanes;
        let left = (share * f64::from(lanes)).round();
        if lanes > 1
            && left >= 1.0
            && left < f64::from(lanes)
            && (share - left / f64::from(lanes)).abs() < 0.06
        {
            return format!("slow, as with {left} of {lanes} lanes");
        }
    }
    "slow".into()
}

fn record(fabric: &Fabric, paths: &[explain::Path], found: &Findings) -> Record {
    let class = |p: &explain::Path| found.classes.iter().find(|c| c.name == p.class);
    let slow = paths
        .iter()
        .filter(|p| class(p).is_some_and(|c| p.rate < c.threshold))
        .count();
    let seen: BTreeSet<_> = paths.iter().flat_map(|p| p.route.iter().copied()).collect();
    let hops = fabric.link_ids().filter(|&l| fabric.is_hop(l));
    Record {
        schema: "hopbyte.probe.analyse/1",
        paths: paths.len(),
        slow_paths: slow,
        classes: found
            .classes
            .iter()
            .map(|c| ClassRow {
                kind: c.name.0.clone(),
                mode: c.name.1.clone(),
                paths: c.paths,
                expected_bytes_per_s: c.expected,
                least_bytes_per_s: c.least,
            })
            .collect(),
        components: found
            .findings
            .iter()
            .map(|f| ComponentRow {
                name: f.component.name(fabric),
                kind: f.component.kind(),
                expected_bytes_per_s: f.expected,
                measured_bytes_per_s: f.measured,
                verdict: verdict(fabric, f),
                paths: f.paths,
                or: f
                    .or
                    .iter()
                    .map(|c| format!("{} {}", c.kind(), c.name(fabric)))
                    .collect(),
            })
            .collect(),
        unexplained: found
            .unexplained
            .iter()
            .map(|&i| PathRow {
                from: fabric.node(paths[i].from).name.clone(),
                to: fabric.node(paths[i].to).name.clone(),
                expected_bytes_per_s: class(&paths[i]).map_or(0.0, |c| c.expected),
                measured_bytes_per_s: paths[i].rate,
            })
            .collect(),
        links_not_measured: hops.filter(|l| !seen.contains(l)).count(),
    }
}

impl Record {
    fn write(&self, out: &mut Output) -> Result<()> {
        out.line(format!(
            "# {} paths, {} of them slow; {} links between routers were on none",
            count(self.paths),
            count(self.slow_paths),
            count(self.links_not_measured)
        ))?;
        let rate = |r: f64| format!("{:.2}", r / 1e6);
        let mut table = Table::new(&["<kind", "<mode", "paths", "expected MB/s", "least MB/s"]);
        for c in &self.classes {
            table.row([
                c.kind.clone(),
                c.mode.clone(),
                count(c.paths),
                rate(c.expected_bytes_per_s),
                rate(c.least_bytes_per_s),
            ]);
        }
        out.table(&table)?;
        if self.slow_paths == 0 {
            out.line("\nevery path is as fast as its class")?;
            return Ok(());
        }
        out.line("")?;
        let mut table = Table::new(&[
            "<slow",
            "<name",
            "paths",
            "expected MB/s",
            "measured MB/s",
            "<verdict",
        ]);
        for c in &self.components {
            let mut verdict = c.verdict.clone();
            if !c.or.is_empty() {
                verdict.push_str(&format!(
                    "; or {}, which the same paths would show",
                    c.or.join(", ")
                ));
            }
            table.row([
                c.kind.into(),
                c.name.clone(),
                count(c.paths),
                rate(c.expected_bytes_per_s),
                rate(c.measured_bytes_per_s),
                verdict,
            ]);
        }
        for p in &self.unexplained {
            table.row([
                "path".into(),
                format!("{} to {}", p.from, p.to),
                "1".into(),
                rate(p.expected_bytes_per_s),
                rate(p.measured_bytes_per_s),
                "slow, though others that used the same are not".into(),
            ]);
        }
        out.table(&table)?;
        Ok(())
    }
}
