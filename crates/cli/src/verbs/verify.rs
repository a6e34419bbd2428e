//! `hopbyte verify`: compares a prediction with counters.

use crate::args::{CounterArgs, FabricOptions, read_machine};
use crate::output::{Answer, Output, SIZES, TIMES, Table, scale};
use anyhow::{Result, bail};
use hopbyte_job::verify::{Load, Predicted, VerifyReport, predict};
use hopbyte_job::{Document, LinkReading, inputs};
use std::path::PathBuf;

/// Counters, mapping and tolerance.
#[derive(clap::Args, Debug)]
pub struct VerifyArgs {
    /// Counters of the run after the change, as `hopbyte links` reads them (may be given twice)
    #[arg(long, value_name = "FILE", required = true, help_heading = "Counters")]
    after: Vec<PathBuf>,
    /// Counters of the run before it
    #[arg(long, value_name = "FILE", help_heading = "Counters")]
    before: Vec<PathBuf>,
    /// The mapping of the later run (mapping.json): compares its prediction
    #[arg(long, value_name = "FILE")]
    mapping: Option<PathBuf>,
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
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    repeats: f64,
    /// Tolerance between predicted and observed, in per cent
    #[arg(long, value_name = "PERCENT", default_value_t = 15.0)]
    tolerance: f64,
}

/// Compares; exit code 1 if the worst link did not improve, or not as predicted.
pub fn run(args: &VerifyArgs, out: &mut Output) -> Result<Answer> {
    if !(args.repeats.is_finite() && args.repeats > 0.0 && args.tolerance >= 0.0) {
        bail!("--repeats must be above zero and --tolerance not below");
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
    if out.json {
        out.object(&report)?;
    } else {
        write(&report, out)?;
    }
    Ok(if report.holds() {
        Answer::Yes
    } else {
        Answer::No
    })
}

fn write(report: &VerifyReport, out: &mut Output) -> Result<()> {
    out.line(format!("# after: {}", report.after.source))?;
    if let Some(before) = &report.before {
        out.line(format!("# before: {}", before.source))?;
    }
    if let Some(predicted) = report.predicted.as_ref().filter(|p| p.wire != "payload") {
        let network = predicted.wire;
        out.line(format!("# predicted: bytes on the wire, {network}"))?;
    }
    write_loads(report, out)?;
    if let Some(predicted) = &report.predicted
        && !predicted.links.is_empty()
    {
        out.line("")?;
        write_apart(predicted, out)?;
    }
    out.line("")?;
    out.line(verdict(report))?;
    Ok(())
}

fn write_loads(report: &VerifyReport, out: &mut Output) -> Result<()> {
    let most = |value: fn(&Load) -> f64| {
        report
            .before
            .iter()
            .map(value)
            .fold(value(&report.after), f64::max)
    };
    let (time, seconds) = scale(most(|l| l.worst_link_seconds), &TIMES);
    let (size, bytes) = scale(most(|l| l.hop_bytes), &SIZES);
    let mut table = Table::new(&[
        "<",
        &format!("worst link {time}"),
        &format!("hop-bytes {size}"),
        "used % (worst)",
        "input stall % (worst)",
        "credit stall % (worst)",
        "<worst link",
    ]);
    let percent = |v: Option<f64>| v.map_or("-".into(), |v| format!("{:.1}", 100.0 * v));
    let mut row = |name: &str, l: &Load| {
        table.row([
            name.to_owned(),
            format!("{:.3}", l.worst_link_seconds / seconds),
            format!("{:.3}", l.hop_bytes / bytes),
            percent(l.worst_used_ratio),
            percent(l.worst_input_stall_ratio),
            percent(l.worst_credit_stall_ratio),
            l.worst_link.clone().unwrap_or_default(),
        ]);
    };
    if let Some(before) = &report.before {
        row("before", before);
    }
    row("after", &report.after);
    if let Some(p) = &report.predicted {
        table.row([
            "predicted".to_owned(),
            format!("{:.3}", p.worst_link_seconds / seconds),
            format!("{:.3}", p.hop_bytes / bytes),
            "-".into(),
            "-".into(),
            "-".into(),
            p.worst_link.clone().unwrap_or_default(),
        ]);
    }
    out.table(&table)?;
    Ok(())
}

fn verdict(report: &VerifyReport) -> String {
    let mut words = Vec::new();
    if let (Some(before), Some(helped)) = (&report.before, report.helped) {
        let change = 100.0 * (report.after.worst_link_seconds / before.worst_link_seconds - 1.0);
        let promised = report.predicted.as_ref().and_then(|p| p.change);
        let promised =
            promised.map_or(String::new(), |c| format!(", promised {:+.1} %", 100.0 * c));
        let word = if helped {
            "it helped"
        } else {
            "it did not help"
        };
        words.push(format!("{word}: worst link {change:+.1} %{promised}"));
    }
    if let (Some(p), Some(right)) = (&report.predicted, report.as_predicted) {
        let apart = 100.0 * (p.worst_link_seconds / report.after.worst_link_seconds - 1.0);
        let word = if right { "within" } else { "outside" };
        words.push(format!(
            "the worst link's predicted time is {apart:+.1} % off the observed one, {word} {} %; bytes of all links differ by {:.1} %",
            report.tolerance_percent,
            100.0 * p.bytes_apart
        ));
    }
    if words.is_empty() {
        words.push("nothing to compare with; give --before or --mapping".into());
    }
    words.join("\n")
}

/// Links with the largest differences between prediction and counters.
fn write_apart(predicted: &Predicted, out: &mut Output) -> Result<()> {
    let largest = predicted
        .links
        .iter()
        .map(|l| l.predicted_bytes.max(l.observed_bytes))
        .fold(0.0, f64::max);
    let (size, bytes) = scale(largest, &SIZES);
    let header = [format!("predicted {size}"), format!("observed {size}")];
    let mut table = Table::new(&["<furthest apart", &header[0], &header[1], "difference %"]);
    for l in &predicted.links {
        let difference = 100.0 * (l.predicted_bytes / l.observed_bytes - 1.0);
        table.row([
            l.link.clone(),
            format!("{:.3}", l.predicted_bytes / bytes),
            format!("{:.3}", l.observed_bytes / bytes),
            if difference.is_finite() {
                format!("{difference:+.1}")
            } else {
                "-".into()
            },
        ]);
    }
    out.table(&table)?;
    Ok(())
}
