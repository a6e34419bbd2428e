//! `hopbyte probe`: measures links and finds the slow component.

use super::record::flavour;
use crate::args::{FabricArgs, FabricOption};
use crate::output::{Answer, Output, Table, count};
use anyhow::{Result, bail};
use clap::Subcommand;
use hopbyte_fabric::{Fabric, NodeId};
use hopbyte_job::Machine;
use hopbyte_job::inputs;
use hopbyte_job::probe::analysis::{Analysis, ComponentRow, DetectableRow, analyse as analysed};
use hopbyte_job::probe::measure::Measurement;
use hopbyte_job::probe::{explain, plan, results};
use hopbyte_job::record::launch::Flavour;
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
    /// Time limit of the job
    #[arg(
        long,
        default_value_t = 600.0,
        value_name = "SECONDS",
        help_heading = "Measurement"
    )]
    deadline: f64,
    /// The launcher's MPI, if it cannot be detected
    #[arg(long, value_parser = flavour(), value_name = "MPI")]
    flavour: Option<Flavour>,
    /// Folder of the probes, with ompi, mpich, abi (default: installed, or build/probes)
    #[arg(long, value_name = "FOLDER")]
    programs: Option<PathBuf>,
    #[command(flatten)]
    measure: Measure,
    /// The launcher with its options, after `--`, without a program
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "LAUNCHER"
    )]
    launcher: Vec<OsString>,
}

/// Runs the command.
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

/// Measures, and analyses the result.
fn measure(args: &Run, out: &mut Output) -> Result<Answer> {
    let machine = args.fabric.read(out)?;
    let nodes = nodes(&args.nodes, &machine.fabric)?;
    let measurement = Measurement {
        launcher: args.launcher.clone(),
        flavour: args.flavour,
        programs: args.programs.clone(),
        output: args.output.clone(),
        bytes: args.bytes.clone(),
        window: args.window,
        trials: args.trials,
        nap: args.nap,
        deadline: args.deadline,
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
    let record = analysed(fabric, routing, &paths, measure.tolerance, &expected);
    let slow = record.slow_paths > 0;
    if out.json {
        out.object(&record)?;
    } else {
        write(&record, out)?;
    }
    Ok(if slow { Answer::No } else { Answer::Yes })
}

/// The analysis in text.
fn write(record: &Analysis, out: &mut Output) -> Result<()> {
    out.line(format!(
        "# {} paths, {} of them slow; {} links between routers were on none",
        count(record.paths),
        count(record.slow_paths),
        count(record.links_not_measured)
    ))?;
    let shown = |d: &DetectableRow| {
        let never = match d.never {
            0 => String::new(),
            n => format!(", never for {} of {}", count(n), count(d.components)),
        };
        format!("{} {:.0} %{never}", d.kind, 100.0 * d.median_share)
    };
    let shown: Vec<String> = record.detectable.iter().map(shown).collect();
    out.line(format!(
        "# found at or below, of full strength (median): {}",
        shown.join("; ")
    ))?;
    let rate = |r: f64| format!("{:.2}", r / 1e6);
    let mut table = Table::new(&[
        "<kind",
        "<mode",
        "paths",
        "expected MB/s",
        "least MB/s",
        "noise %",
    ]);
    for c in &record.classes {
        table.row([
            c.kind.clone(),
            c.mode.clone(),
            count(c.paths),
            rate(c.expected_bytes_per_s),
            rate(c.least_bytes_per_s),
            format!("{:.1}", 100.0 * c.noise),
        ]);
    }
    out.table(&table)?;
    if record.slow_paths == 0 {
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
    for c in &record.components {
        table.row([
            c.kind.into(),
            c.name.clone(),
            count(c.paths),
            rate(c.expected_bytes_per_s),
            rate(c.measured_bytes_per_s),
            c.verdict.clone(),
        ]);
    }
    for p in &record.unexplained {
        table.row([
            "path".into(),
            format!("{} to {}", p.from, p.to),
            "1".into(),
            rate(p.expected_bytes_per_s),
            rate(p.measured_bytes_per_s),
            "slow without an explanation: other paths with the same components are not".into(),
        ]);
    }
    out.table(&table)?;
    for c in record.components.iter().filter(|c| !c.or.is_empty()) {
        out.line(undecided(c))?;
    }
    Ok(())
}

/// What the measurements do not tell apart, and which transfer would.
fn undecided(c: &ComponentRow) -> String {
    let or = c.or.join(" or ");
    let mut text = format!("\ncannot tell {} {} from {or}", c.kind, c.name);
    match &c.next_probe {
        None => text.push_str("; no transfer between two nodes here would"),
        Some(p) if p.from == p.to => {
            text.push_str(&format!(
                "; a transfer between two ranks on {} would",
                p.from
            ));
        }
        Some(p) => {
            let rates = p.if_bytes_per_s.iter().map(|i| {
                let rate = i
                    .bytes_per_s
                    .map_or("-".into(), |r| format!("{:.2}", r / 1e6));
                format!("{rate} MB/s if it is {}", i.component)
            });
            let rates: Vec<String> = rates.collect();
            text.push_str(&format!(
                "; a transfer from {} to {} alone would: {}",
                p.from,
                p.to,
                rates.join(", ")
            ));
        }
    }
    text
}
