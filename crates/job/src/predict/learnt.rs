//! Measured runs of a traced job, kept beside its trace: their errors are the intervals of later predictions.

use super::placed::by_rank;
use crate::error::{Context, Result, refuse};
use crate::record::merge::{Ranks, files};
use hopbyte_apply::write_atomic;
use hopbyte_fabric::{Allocation, Fabric, NodeId};
use hopbyte_model::program::Forecast;
use hopbyte_observe::text::{Limits, Text, lossy};
use hopbyte_observe::{read_placement, unix};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The file in the folder of a trace.
const FILE: &str = "measured.csv";
const HEAD: &str = "unix_seconds,run_seconds,nodes";
/// Runs that a prediction compares itself with: the latest.
const MOST: usize = 16;
/// Factors on the parts of the run time that depend on the network, where nothing was measured.
const UNCALIBRATED: (f64, f64) = (0.5, 2.0);

/// Name or time of measurement, duration, nodes by rank.
pub(super) type Kept = (String, f64, Vec<NodeId>);

/// A measured run beside its prediction.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    /// `as recorded`, or the time of its measurement in seconds since 1970.
    pub run: String,
    /// Its duration.
    pub seconds: f64,
    /// The predicted one, of the same placement.
    pub predicted_seconds: f64,
    /// Predicted over measured, minus one.
    pub error_ratio: f64,
    /// Predicted time in the parts that depend on the network.
    #[serde(skip)]
    pub network_seconds: f64,
}

impl Measured {
    pub(super) fn new(run: String, seconds: f64, forecast: &Forecast) -> Self {
        Self {
            run,
            seconds,
            predicted_seconds: forecast.seconds,
            error_ratio: forecast.seconds / seconds - 1.0,
            network_seconds: forecast.network_seconds(),
        }
    }
}

/// A run that `hopbyte record` recorded.
pub struct RecordedRun {
    /// Its folder.
    pub record: PathBuf,
    /// Its duration.
    pub seconds: f64,
    /// Nodes by rank.
    pub nodes: Vec<NodeId>,
}

/// Reads the duration and the placement of a recorded run.
///
/// # Errors
/// The folder has no record of all ranks with times and nodes of this machine.
pub fn run_of(record: &Path, fabric: &Fabric) -> Result<RecordedRun> {
    let ranks = Ranks::read(record)?;
    if let Some(reason) = ranks.unusable() {
        refuse!("{}: {reason}", record.display());
    }
    let Some(times) = ranks.times() else {
        refuse!(
            "{}: no times of the run\nhint: record it with this version of hopbyte",
            record.display()
        );
    };
    if !is_duration(times.seconds) {
        refuse!(
            "{}: found a run of {} s, expected a duration above zero",
            record.display(),
            times.seconds
        );
    }
    let placed = read_placement(&record.join("placement.csv"), fabric, None::<&Allocation>)?;
    Ok(RecordedRun {
        record: record.to_owned(),
        seconds: times.seconds,
        nodes: by_rank(&placed.placement),
    })
}

/// Keeps measured runs beside a trace, each once; later predictions have their errors as intervals.
///
/// # Errors
/// The trace is no folder; ranks of another number.
pub fn keep(trace: &str, runs: &[RecordedRun], fabric: &Fabric, ranks: usize) -> Result<()> {
    if runs.is_empty() {
        return Ok(());
    }
    let folder = Path::new(trace);
    if files(folder).is_ok_and(|f| f.is_empty()) || !folder.is_dir() {
        refuse!(
            "found the trace {trace}, expected a folder of hopbyte record --trace, which keeps measured runs"
        );
    }
    let path = folder.join(FILE);
    let mut known = kept(trace, fabric, ranks)?.0;
    let mut lines = String::new();
    for run in runs {
        let (seconds, nodes) = (run.seconds, &run.nodes);
        if nodes.len() != ranks {
            let found = nodes.len();
            refuse!(
                "{}: found {found} ranks, expected {ranks}, as in {trace}",
                run.record.display()
            );
        }
        let is_same = |k: &Kept| (k.1 - seconds).abs() < 1e-6 && k.2 == *nodes;
        if known.iter().any(is_same) {
            continue;
        }
        let now = unix(SystemTime::now());
        let names: Vec<&str> = nodes.iter().map(|&n| &*fabric.node(n).name).collect();
        lines.push_str(&format!("{now:.3},{seconds:.6},{}\n", names.join("|")));
        known.push((String::new(), seconds, nodes.clone()));
    }
    if lines.is_empty() {
        return Ok(());
    }
    let before = match path.exists() {
        true => std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?,
        false => format!("{HEAD}\n").into_bytes(),
    };
    write_atomic(&path, &[before, lines.into_bytes()].concat())?;
    Ok(())
}

/// Whether a prediction can be compared with a run of this duration.
fn is_duration(seconds: f64) -> bool {
    // Below half a microsecond it is written as zero.
    seconds.is_finite() && seconds >= 5e-7
}

/// The latest kept runs on this machine: time of measurement, duration, nodes by rank; and the number of those on others.
///
/// # Errors
/// A line of the file is not as written.
pub(super) fn kept(trace: &str, fabric: &Fabric, ranks: usize) -> Result<(Vec<Kept>, usize)> {
    let path = Path::new(trace).join(FILE);
    if !path.is_file() {
        return Ok((Vec::new(), 0));
    }
    let text = Text::read(&path, Limits::TEXT)?;
    let (mut found, mut elsewhere) = (Vec::new(), 0);
    for line in text.lines().skip(1) {
        let words = lossy(line.bytes);
        // Names of nodes may have commas.
        let cells: Vec<&str> = words.trim().splitn(3, ',').collect();
        let [when, seconds, nodes] = cells[..] else {
            return Err(text.error_in(line, line.bytes, HEAD).into());
        };
        let Some(seconds) = seconds.parse::<f64>().ok().filter(|s| is_duration(*s)) else {
            return Err(text
                .error_in(line, line.bytes, "a duration above zero")
                .into());
        };
        let nodes: Vec<NodeId> = nodes
            .split('|')
            .filter_map(|n| fabric.node_named(n))
            .collect();
        match nodes.len() == ranks {
            true => found.push((when.to_owned(), seconds, nodes)),
            false => elsewhere += 1,
        }
    }
    found.drain(..found.len().saturating_sub(MOST));
    Ok((found, elsewhere))
}

/// Smallest share of a predicted run time that depends on the network in runs that tell how far off these parts are.
const TELLING: f64 = 0.1;
/// Measured runs from which on their largest error bounds that of a further run, nine times of ten.
const ENOUGH: usize = 9;
/// Ninth tenth of the errors of 162 predictions for six programs, as shares of the network's parts, and of the differences of
/// these errors between two placements of a program (bench/results/predict.md, 26 November 2026; computation from later traces).
const USUAL: f64 = 0.13;
const USUAL_APART: f64 = 0.09;

/// How far off predictions may be.
#[derive(Clone, Copy)]
pub(super) struct Margins {
    /// Factors on the parts that depend on the network.
    pub(super) factors: (f64, f64),
    /// Difference of that factor between two placements.
    pub(super) apart: f64,
    /// Share of the whole run time, to both sides.
    pub(super) rest: f64,
}

/// Margins as wide as the measured runs were off, and their origin in words: in the network's parts, or in the whole run
/// time where these are a small share of it. A few runs do not show how far off the next one is: then at least the usual margins.
pub(super) fn margins(measured: &[Measured], calibration: &str) -> (Margins, String) {
    let tells = |m: &&Measured| m.network_seconds >= TELLING * m.predicted_seconds;
    let off = |m: &Measured| (m.seconds - m.predicted_seconds) / m.network_seconds;
    let rest = |m: &Measured| (m.seconds / m.predicted_seconds.max(f64::MIN_POSITIVE) - 1.0).abs();
    let others = measured.iter().filter(|m| !tells(m));
    let rest = others.map(rest).fold(0.0, f64::max);
    let errors: Vec<f64> = measured.iter().filter(tells).map(off).collect();
    let are_few = errors.len() < ENOUGH;
    let (usual, usual_apart) = if are_few {
        (USUAL, USUAL_APART)
    } else {
        (0.0, 0.0)
    };
    let from_first = errors.iter().map(|e| (e - errors[0]).abs());
    let apart = from_first.fold(usual_apart, f64::max);
    let (factors, mut text) = match errors.iter().map(|e| e.abs()).reduce(f64::max) {
        None => (UNCALIBRATED, assumed(measured, calibration)),
        Some(most) => {
            let most = most.max(usual);
            let factors = ((1.0 - most).max(0.0), 1.0 + most);
            (factors, learnt(measured, are_few, factors, apart))
        }
    };
    if rest > 0.0 {
        text.push_str(&format!(
            "; run times up to {:.1} % off, as those with little time in the network",
            100.0 * rest
        ));
    }
    let margins = Margins {
        factors,
        apart,
        rest,
    };
    (margins, text)
}

/// Origin of the margins where no run tells how far off the network's parts are.
fn assumed(measured: &[Measured], calibration: &str) -> String {
    let why = match (measured, calibration) {
        ([_, ..], _) => "the measured runs spend little time in the network",
        (_, "uncalibrated") => "uncalibrated",
        _ => "no run of this job was measured on this machine",
    };
    format!("network times between half and twice the predicted: assumed, {why}")
}

/// Origin of margins from measured runs.
fn learnt(measured: &[Measured], are_few: bool, factors: (f64, f64), apart: f64) -> String {
    let errors = measured.iter().map(|m| 100.0 * m.error_ratio);
    let runs = match measured {
        [one] => format!(
            "the recorded run is predicted {:+.1} % off",
            100.0 * one.error_ratio
        ),
        _ => format!(
            "{} measured runs are predicted {:+.1} to {:+.1} % off",
            measured.len(),
            errors.clone().fold(f64::INFINITY, f64::min),
            errors.fold(f64::NEG_INFINITY, f64::max)
        ),
    };
    let usual = match are_few {
        true => format!(
            "; fewer than {ENOUGH} runs, so at least {:.0} % and {:.0} %, within which nine of ten runs of other programs were",
            100.0 * USUAL,
            100.0 * USUAL_APART
        ),
        false => String::new(),
    };
    format!(
        "network times between {:.2} and {:.2} of the predicted, {:.0} % apart between placements: {runs}{usual}",
        factors.0,
        factors.1,
        100.0 * apart
    )
}
