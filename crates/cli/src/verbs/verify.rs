//! `hopbyte verify`: compares a prediction with counters.

use crate::args::{CounterArgs, FabricOptions, read_machine};
use crate::output::{Answer, Output};
use anyhow::{Result, bail};
use hopbyte_job::verify::run_time::{self, Ran};
use hopbyte_job::verify::{VerifyReport, bus, predict};
use hopbyte_job::{Document, LinkReading, inputs};
use hopbyte_view::terminal::verify_text;
use std::path::PathBuf;

/// Counters, mapping and tolerance.
#[derive(clap::Args, Debug)]
pub struct VerifyArgs {
    /// Counters of the run after the change, as `hopbyte links` reads them (may be given twice)
    #[arg(long, value_name = "FILE", required_unless_present_any = ["collectives", "run"], help_heading = "Counters")]
    after: Vec<PathBuf>,
    /// Counters of the run before it
    #[arg(long, value_name = "FILE", help_heading = "Counters")]
    before: Vec<PathBuf>,
    /// The mapping of the later run (mapping.json): compares its prediction
    #[arg(long, value_name = "FILE")]
    mapping: Option<PathBuf>,
    /// Logs of NCCL's Inspector, a file or folder: compares the bus bandwidths of the mapping's job
    #[arg(long, value_name = "LOGS", requires = "mapping", conflicts_with_all = ["after", "before"])]
    collectives: Option<String>,
    /// Record of the later run (hopbyte record): compares its run time with the prediction (may be given several times)
    #[arg(long, value_name = "RECORD", requires = "trace", conflicts_with_all = ["after", "before", "collectives"])]
    run: Vec<PathBuf>,
    /// The job: a folder of `hopbyte record --trace`, where run times are kept
    #[arg(long, value_name = "TRACE", requires = "run")]
    trace: Option<String>,
    /// Rates and delays beyond the links, as in `hopbyte predict`
    #[arg(long, value_name = "NAME|FILE", requires = "run")]
    network: Option<String>,
    /// The machine (default: that of the mapping)
    #[arg(
        long,
        value_name = "FABRIC",
        required_unless_present = "mapping",
        help_heading = "Machine"
    )]
    fabric: Option<String>,
    /// Further inputs of the machine.
    #[command(flatten)]
    beside: FabricOptions,
    /// Properties of the counters that their files lack.
    #[command(flatten)]
    about: CounterArgs,
    /// Repetitions of the mapping's traffic in the counters' window
    #[arg(long, value_name = "N", default_value_t = 1.0, conflicts_with_all = ["run", "collectives"])]
    repeats: f64,
    /// Tolerance between predicted and observed, in per cent
    #[arg(long, value_name = "PERCENT", default_value_t = 15.0)]
    tolerance: f64,
}

/// Compares; exit code 1 if the worst link or the run time did not improve, or not as predicted.
pub fn run(args: &VerifyArgs, out: &mut Output) -> Result<Answer> {
    let (repeats, tolerance) = (args.repeats, args.tolerance);
    if !(repeats.is_finite() && repeats > 0.0) {
        bail!("--repeats: found {repeats}, expected a number above zero");
    }
    if !(tolerance.is_finite() && tolerance >= 0.0) {
        bail!("--tolerance: found {tolerance}, expected per cent, zero or more");
    }
    let saved = args
        .mapping
        .as_ref()
        .map(|path| Document::read(path))
        .transpose()?;
    let machine = match (&args.fabric, &saved) {
        (Some(fabric), _) => read_machine(&args.beside.source(fabric), out)?,
        (None, Some(saved)) => read_machine(&saved.machine, out)?,
        (None, None) => bail!("no machine\nhint: give --fabric or --mapping"),
    };
    let fabric = &machine.fabric;
    if let (Some(logs), Some(saved)) = (&args.collectives, &saved) {
        let of = (fabric, &machine.routing);
        let report = bus::compare(of, &saved.placed(fabric)?.1, logs, tolerance)?;
        out.answer(&report, |report, _| report.text())?;
        return Ok(Answer::of(report.as_predicted));
    }
    if let Some(trace) = &args.trace {
        let report = run_time::compare(&Ran {
            trace,
            records: &args.run,
            mapping: saved.as_ref(),
            machine: &machine,
            network: args.network.as_deref(),
            tolerance_percent: tolerance,
        })?;
        report.notes.iter().for_each(|note| out.talk(note));
        out.answer(&report, |report, _| report.text())?;
        return Ok(Answer::of(report.holds()));
    }
    let mut read = |files: &[PathBuf]| -> Result<LinkReading> {
        let reading = inputs::reading(files, fabric, &args.about.options())?;
        reading.notes.iter().for_each(|note| out.talk(note));
        Ok(reading)
    };
    let after = read(&args.after)?;
    let before = (!args.before.is_empty())
        .then(|| read(&args.before))
        .transpose()?;
    let predicted = match &saved {
        Some(saved) => Some(predict(saved, &machine, &after.state, args.repeats)?),
        None => None,
    };
    let report = VerifyReport::new(fabric, before.as_ref(), &after, predicted, args.tolerance);
    out.answer(&report, verify_text)?;
    Ok(Answer::of(report.holds()))
}
