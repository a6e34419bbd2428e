//! `hopbyte probe`: measures links and finds the slow component.

use super::record::flavour;
use crate::args::{FabricArgs, FabricOption};
use crate::output::{Answer, Output};
use anyhow::{Result, bail};
use clap::Subcommand;
use hopbyte_fabric::{Fabric, NodeId};
use hopbyte_job::Machine;
use hopbyte_job::inputs;
use hopbyte_job::probe::analysis::analyse as analysed;
use hopbyte_job::probe::measure::{Measurement, Probe};
use hopbyte_job::probe::{explain, plan, results};
use hopbyte_job::record::launch::Flavour;
use hopbyte_view::terminal::probe_text;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// Measurement and analysis of links.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Schedule of transfers over every link, for topobw
    Plan(Plan),
    /// Measure every link between a job's nodes with topobw, and analyse the result
    Run(Run),
    /// Find slow paths and the components that explain them; exit code 1 if there are any
    Analyse(Analyse),
}

/// See [`Verb::Plan`].
#[derive(clap::Args, Debug)]
pub struct Plan {
    #[command(flatten)]
    fabric: FabricArgs,
    /// Participating nodes: names, `miriel[063-065]`, `@FILE`, or `all`
    #[arg(long, value_name = "LIST", default_value = "all", help_heading = "Job")]
    nodes: String,
}

/// Thresholds of slow paths.
#[derive(clap::Args, Clone, Debug)]
pub struct Measure {
    /// Smallest slowdown to report, as a share of the expected rate; more where noise requires it
    #[arg(long, default_value_t = explain::TOLERANCE, value_name = "SHARE")]
    tolerance: f64,
    /// Expected rate of a kind of link, `KIND=BYTES_PER_S`, in place of the class's
    #[arg(long, value_name = "KIND=RATE")]
    expected: Vec<String>,
}

/// See [`Verb::Analyse`].
#[derive(clap::Args, Debug)]
pub struct Analyse {
    /// Output of `topobw --json` (`probe run -o`)
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
    /// Participating nodes: names, `miriel[063-065]`, `@FILE`, or `all`; the launcher puts a rank on each
    #[arg(long, value_name = "LIST", default_value = "all", help_heading = "Job")]
    nodes: String,
    /// File for the output of topobw
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
    /// Microseconds that ranks sleep between polls of their messages (emulated clusters)
    #[arg(
        long,
        default_value_t = 0,
        value_name = "US",
        help_heading = "Measurement"
    )]
    nap: u32,
    #[command(flatten)]
    measure: Measure,
    #[command(flatten)]
    probe: ProbeArgs,
}

/// The launch of a probe.
#[derive(clap::Args, Debug)]
pub struct ProbeArgs {
    /// Time limit of the job
    #[arg(long, default_value_t = 600.0, value_name = "SECONDS")]
    deadline: f64,
    /// The launcher's MPI, if it cannot be detected
    #[arg(long, value_parser = flavour(), value_name = "MPI")]
    flavour: Option<Flavour>,
    /// Folder of the probes, with ompi, mpich, abi (default: installed, or build/probes)
    #[arg(long, value_name = "FOLDER")]
    programs: Option<PathBuf>,
    /// The launcher with its options, after `--`, without a program, such as mpirun -np 16 --map-by node
    #[arg(required = true, trailing_var_arg = true, value_name = "LAUNCHER")]
    launcher: Vec<OsString>,
}

impl ProbeArgs {
    /// The same, for the measurement.
    pub fn probe(&self) -> Probe {
        Probe {
            launcher: self.launcher.clone(),
            flavour: self.flavour,
            programs: self.programs.clone(),
            deadline: self.deadline,
        }
    }
}

/// Runs the command.
pub fn run(verb: &Verb, out: &mut Output) -> Result<Answer> {
    match verb {
        Verb::Plan(args) => {
            let machine = args.fabric.read(out)?;
            let nodes = nodes(&args.nodes, &machine.fabric, out)?;
            let plan = plan::plan(&machine.fabric, &machine.routing, &nodes)?;
            out.answer(&plan, |plan, _| plan.text())?;
            Ok(Answer::Yes)
        }
        Verb::Analyse(args) => {
            let machine = args.fabric.read(out)?;
            analyse(&args.results, &machine, &args.measure, out)
        }
        Verb::Run(args) => measure(args, out),
    }
}

fn nodes(list: &str, fabric: &Fabric, out: &mut Output) -> Result<Vec<NodeId>> {
    let allocation = inputs::nodes(list, Some(1), 1, fabric, &mut |note| out.talk(note))?;
    Ok(allocation.nodes().iter().map(|&(n, _)| n).collect())
}

/// Measures, and analyses the result.
fn measure(args: &Run, out: &mut Output) -> Result<Answer> {
    let machine = args.fabric.read(out)?;
    let nodes = nodes(&args.nodes, &machine.fabric, out)?;
    let measurement = Measurement {
        probe: args.probe.probe(),
        output: args.output.clone(),
        bytes: args.bytes.clone(),
        window: args.window,
        trials: args.trials,
        nap: args.nap,
    };
    measurement.run(&machine, &nodes, &mut |text| out.talk(text))?;
    out.talk(format!("wrote {}", args.output.display()));
    analyse(
        std::slice::from_ref(&args.output),
        &machine,
        &args.measure,
        out,
    )
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
    let (fabric, routing) = (&machine.fabric, &machine.routing);
    let record = analysed(fabric, routing, &paths, measure.tolerance, &expected)?;
    let slow = record.slow_paths > 0;
    out.answer(&record, probe_text)?;
    Ok(Answer::of(!slow))
}
