//! `hopbyte verify`: did it help? Predicted against observed.

use super::Answer;
use crate::args::{CounterArgs, FabricOptions};
use crate::inputs::{self, Reading};
use crate::machine::Machine;
use crate::output::{Output, SIZES, TIMES, Table, scale};
use crate::saved::Saved;
use anyhow::{Result, bail};
use hopbyte_fabric::{Column, Fabric, LinkId, LinkState};
use hopbyte_map::{Problem, evaluate};
use hopbyte_observe::read_traffic;
use serde::Serialize;
use std::path::PathBuf;

/// Links that the text lists.
const LISTED: usize = 8;

/// What to compare.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Counters of the run after the change, as `hopbyte links` reads them (may be given twice)
    #[arg(long, value_name = "FILE", required = true, help_heading = "Counters")]
    after: Vec<PathBuf>,
    /// Counters of the run before it
    #[arg(long, value_name = "FILE", help_heading = "Counters")]
    before: Vec<PathBuf>,
    /// The mapping that the run after used (mapping.json): compares what it predicted
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
    /// What else is known of it.
    #[command(flatten)]
    beside: FabricOptions,
    /// What the counters' files do not say.
    #[command(flatten)]
    about: CounterArgs,
    /// How often the counters' window held what the mapping's traffic is
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    repeats: f64,
    /// How far predicted and observed may lie apart, in per cent
    #[arg(long, value_name = "PERCENT", default_value_t = 15.0)]
    tolerance: f64,
}

/// The answer.
#[derive(Serialize)]
struct Report {
    schema: &'static str,
    /// Whether the worst link needs less time than before.
    helped: Option<bool>,
    /// Whether predicted and observed lie within the tolerance of each other.
    as_predicted: Option<bool>,
    tolerance_percent: f64,
    before: Option<Load>,
    after: Load,
    predicted: Option<Predicted>,
}

/// What a reading amounts to.
#[derive(Clone, Serialize)]
struct Load {
    source: String,
    window_seconds: Option<f64>,
    worst_link_seconds: f64,
    worst_link: Option<String>,
    hop_bytes: f64,
    worst_used_ratio: Option<f64>,
    worst_input_stall_ratio: Option<f64>,
    worst_credit_stall_ratio: Option<f64>,
    coverage: f64,
}

impl Load {
    fn of(fabric: &Fabric, reading: &Reading) -> Self {
        let state = &reading.state;
        let time = |l: LinkId| Some(state.received_bytes.get(l)? / fabric.link(l).capacity().0);
        let worst = fabric
            .link_ids()
            .filter_map(|l| Some((l, time(l)?)))
            .fold(None, |worst: Option<(LinkId, f64)>, next| {
                worst.filter(|w| w.1 >= next.1).or(Some(next))
            });
        let hops = fabric.link_ids().filter(|&l| fabric.is_hop(l));
        let most = |c: &Column| {
            c.as_slice()
                .iter()
                .copied()
                .filter(|v| !v.is_nan())
                .reduce(f64::max)
        };
        Self {
            source: reading.source.clone(),
            window_seconds: state.window_seconds,
            worst_link_seconds: worst.map_or(0.0, |w| w.1),
            worst_link: worst.map(|w| fabric.link_name(w.0)),
            hop_bytes: hops.filter_map(|l| state.received_bytes.get(l)).sum(),
            worst_used_ratio: most(&state.used_ratio),
            worst_input_stall_ratio: most(&state.input_stall_ratio),
            worst_credit_stall_ratio: most(&state.credit_stall_ratio),
            coverage: state.received_bytes.known() as f64 / fabric.links().len().max(1) as f64,
        }
    }
}

/// What the mapping said would be, with the background it knew.
#[derive(Serialize)]
struct Predicted {
    /// Of the placement it returned: bytes over capacity, background included.
    worst_link_seconds: f64,
    worst_link: Option<String>,
    hop_bytes: f64,
    /// Change of the worst link's time that it promised: result over what was before, less 1. Absent
    /// with a background, whose bytes the mapper takes off the capacities and counters add.
    change: Option<f64>,
    /// Sum of differences of all links over the sum observed.
    bytes_apart: f64,
    /// Links where predicted and observed differ most.
    links: Vec<Apart>,
}

/// One link, predicted and observed.
#[derive(Serialize)]
struct Apart {
    link: String,
    predicted_bytes: f64,
    observed_bytes: f64,
}

/// Compares; exit code 1 when it did not help, or was not as predicted.
pub fn run(args: &Args, out: &mut Output) -> Result<Answer> {
    if !(args.repeats.is_finite() && args.repeats > 0.0 && args.tolerance >= 0.0) {
        bail!("--repeats must be above zero and --tolerance not below");
    }
    let saved = args
        .mapping
        .as_ref()
        .map(|path| Saved::read(path))
        .transpose()?;
    let machine = match (&args.fabric, &saved) {
        (Some(fabric), _) => args.beside.source(fabric).read(out)?,
        (None, Some(saved)) => saved.machine.read(out)?,
        (None, None) => bail!("no machine\nhint: give --fabric or --mapping"),
    };
    let fabric = &machine.fabric;
    let mut read = |files: &[PathBuf]| -> Result<Reading> {
        let reading = inputs::reading(files, fabric, &args.about)?;
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
    let report = Report::of(args, fabric, before.as_ref(), &after, predicted);
    if out.json {
        out.object(&report)?;
    } else {
        report.write(out)?;
    }
    let no = report.helped == Some(false) || report.as_predicted == Some(false);
    Ok(if no { Answer::No } else { Answer::Yes })
}

/// Computes again what every link was to carry, and compares with what it carried.
fn predict(
    saved: &Saved,
    machine: &Machine,
    observed: &LinkState,
    repeats: f64,
) -> Result<Predicted> {
    let fabric = &machine.fabric;
    let (allocation, placement) = saved.placed(fabric)?;
    let exchange = read_traffic(&saved.traffic.source)?.total();
    let problem = Problem {
        response_fraction: saved.response_fraction,
        ..Problem::new(fabric, &machine.routing, &exchange, &allocation)
    };
    let mut bytes = evaluate(&problem, &placement)?.link_bytes;
    bytes.iter_mut().for_each(|b| *b *= repeats);
    if let Some(background) = &saved.background {
        let reading = inputs::reading(&background.files, fabric, &background.about())?;
        for (sum, own) in bytes
            .iter_mut()
            .zip(reading.state.received_bytes.as_slice())
        {
            *sum += if own.is_nan() { 0.0 } else { *own };
        }
    }
    let mut links: Vec<(LinkId, f64, f64)> = fabric
        .link_ids()
        .filter_map(|l| Some((l, bytes[l.index()], observed.received_bytes.get(l)?)))
        .collect();
    let all: f64 = links.iter().map(|l| l.2).sum();
    let apart: f64 = links.iter().map(|l| (l.1 - l.2).abs()).sum();
    let hops = links.iter().filter(|l| fabric.is_hop(l.0));
    let hop_bytes = hops.map(|l| l.1).sum();
    let time = |l: &(LinkId, f64, f64)| l.1 / fabric.link(l.0).capacity().0;
    let worst = links.iter().max_by(|a, b| time(a).total_cmp(&time(b)));
    let (worst_link, worst_link_seconds) = (
        worst.map(|l| fabric.link_name(l.0)),
        worst.map_or(0.0, time),
    );
    links.sort_by(|a, b| {
        (b.1 - b.2)
            .abs()
            .total_cmp(&(a.1 - a.2).abs())
            .then(a.0.cmp(&b.0))
    });
    let was = saved.current.unwrap_or(saved.baseline);
    Ok(Predicted {
        worst_link_seconds,
        worst_link,
        hop_bytes,
        change: saved
            .background
            .is_none()
            .then(|| saved.result.worst_link_seconds / was.worst_link_seconds - 1.0),
        bytes_apart: if all > 0.0 { apart / all } else { 0.0 },
        links: links
            .into_iter()
            .take(LISTED)
            .filter(|l| l.1 != l.2)
            .map(|(link, predicted_bytes, observed_bytes)| Apart {
                link: fabric.link_name(link),
                predicted_bytes,
                observed_bytes,
            })
            .collect(),
    })
}

impl Report {
    fn of(
        args: &Args,
        fabric: &Fabric,
        before: Option<&Reading>,
        after: &Reading,
        predicted: Option<Predicted>,
    ) -> Self {
        let before = before.map(|reading| Load::of(fabric, reading));
        let after = Load::of(fabric, after);
        let observed = after.worst_link_seconds;
        let as_predicted = predicted
            .as_ref()
            .map(|p| (p.worst_link_seconds - observed).abs() <= args.tolerance / 100.0 * observed);
        Self {
            schema: "hopbyte.verify/1",
            helped: before.as_ref().map(|b| observed < b.worst_link_seconds),
            as_predicted,
            tolerance_percent: args.tolerance,
            before,
            after,
            predicted,
        }
    }

    fn write(&self, out: &mut Output) -> Result<()> {
        out.line(format!("# after: {}", self.after.source))?;
        if let Some(before) = &self.before {
            out.line(format!("# before: {}", before.source))?;
        }
        self.write_loads(out)?;
        if let Some(predicted) = &self.predicted
            && !predicted.links.is_empty()
        {
            out.line("")?;
            predicted.write(out)?;
        }
        out.line("")?;
        out.line(self.verdict())?;
        Ok(())
    }

    fn write_loads(&self, out: &mut Output) -> Result<()> {
        let most = |value: fn(&Load) -> f64| {
            self.before
                .iter()
                .map(value)
                .fold(value(&self.after), f64::max)
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
        if let Some(before) = &self.before {
            row("before", before);
        }
        row("after", &self.after);
        if let Some(p) = &self.predicted {
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

    fn verdict(&self) -> String {
        let mut words = Vec::new();
        if let (Some(before), Some(helped)) = (&self.before, self.helped) {
            let change = 100.0 * (self.after.worst_link_seconds / before.worst_link_seconds - 1.0);
            let promised = self.predicted.as_ref().and_then(|p| p.change);
            let promised =
                promised.map_or(String::new(), |c| format!(", promised {:+.1} %", 100.0 * c));
            let word = if helped {
                "it helped"
            } else {
                "it did not help"
            };
            words.push(format!("{word}: worst link {change:+.1} %{promised}"));
        }
        if let (Some(p), Some(right)) = (&self.predicted, self.as_predicted) {
            let apart = 100.0 * (p.worst_link_seconds / self.after.worst_link_seconds - 1.0);
            let word = if right { "within" } else { "outside" };
            words.push(format!(
                "the worst link was predicted {apart:+.1} % of what was observed, {word} {} %; bytes of all links differ by {:.1} %",
                self.tolerance_percent,
                100.0 * p.bytes_apart
            ));
        }
        if words.is_empty() {
            words.push("nothing to compare with; give --before or --mapping".into());
        }
        words.join("\n")
    }
}

impl Predicted {
    fn write(&self, out: &mut Output) -> Result<()> {
        let largest = self
            .links
            .iter()
            .map(|l| l.predicted_bytes.max(l.observed_bytes))
            .fold(0.0, f64::max);
        let (size, bytes) = scale(largest, &SIZES);
        let header = [format!("predicted {size}"), format!("observed {size}")];
        let mut table = Table::new(&["<furthest apart", &header[0], &header[1], "difference %"]);
        for l in &self.links {
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
}
