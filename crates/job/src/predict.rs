//! Run time of a recorded job under each of several placements.

use crate::error::{Result, refuse};
use crate::inputs;
use crate::machine::Machine;
use hopbyte_fabric::collective::Algorithms;
use hopbyte_fabric::trace::folded::Folded;
use hopbyte_fabric::{Allocation, Fabric, NodeId, Placement};
use hopbyte_model::network::Network;
use hopbyte_model::parameters::{OperatingPoint, PRESETS, Parameters};
use hopbyte_model::place::place;
use hopbyte_model::program::{Forecast, Forecaster};
use hopbyte_model::{ModelError, PlacementRule};
use hopbyte_observe::text::{Limits, Text, lossy};
use hopbyte_observe::trace::recorded;
use hopbyte_observe::{read_folded, read_placement};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Calls of all ranks that a run executes, about; loops are shortened to them.
const AIM: u64 = 250_000;
/// Most calls, where loops cannot be shortened.
const MOST: u64 = 1 << 25;
/// Share of the time within which ends of transfers count as simultaneous.
const TOLERANCE: f64 = 1e-3;
/// Factors on the parts of the run time that depend on the network, where nothing was measured.
const UNCALIBRATED: (f64, f64) = (0.5, 2.0);
/// Differences of run times below which placement does not matter.
const MATTERS: f64 = 0.01;

/// The question.
pub struct Ask<'a> {
    /// The trace: a recorded folder, or a trace of another format.
    pub trace: &'a str,
    /// The machine.
    pub machine: &'a Machine,
    /// Rates and delays beyond its links: a preset, or a TOML file of `parameters`.
    pub network: &'a str,
    /// Files of placements.
    pub placements: &'a [PathBuf],
    /// Nodes of the placements in order and at random; by default those of the recorded run or of the first file.
    pub nodes: Option<&'a str>,
    /// Ranks of each of these nodes.
    pub ranks_per_node: Option<u32>,
    /// Seed of the random placement.
    pub seed: u64,
    /// Algorithms of collectives, if not those of the recorded library.
    pub collectives: Option<&'a str>,
    /// Speed of a processor, for traces that count computation in operations.
    pub operations_per_s: Option<f64>,
}

/// Run times.
#[derive(Debug, Serialize)]
pub struct Prediction {
    /// Version of this form.
    pub schema: &'static str,
    /// The trace.
    pub trace: String,
    /// Whether it has every call of every rank.
    pub complete: bool,
    /// Ranks.
    pub ranks: usize,
    /// Calls of all ranks.
    pub calls: u64,
    /// Calls that each run executed; the other iterations of loops take as long.
    pub executed_calls: u64,
    /// The machine.
    pub machine: String,
    /// Rates and delays beyond its links.
    pub network: String,
    /// Their source.
    pub calibration: String,
    /// Least and most factor on the parts that depend on the network, for the intervals.
    pub factors: (f64, f64),
    /// Origin of the factors.
    pub interval: String,
    /// Duration of the recorded run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_seconds: Option<f64>,
    /// Predicted over recorded duration minus one, where the recorded placement is on this machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_ratio: Option<f64>,
    /// Name of the placement that the others are compared with.
    pub reference: String,
    /// Every placement, the reference first.
    pub placements: Vec<RunTime>,
    /// The answer.
    pub sentence: String,
    /// Caveats.
    pub notes: Vec<String>,
}

/// The run time under one placement.
#[derive(Clone, Debug, Serialize)]
pub struct RunTime {
    /// Its name, or its file.
    pub name: String,
    /// Run time.
    pub seconds: f64,
    /// Its interval.
    pub least_seconds: f64,
    /// The same.
    pub most_seconds: f64,
    /// Computation, mean over ranks.
    pub compute_seconds: f64,
    /// Waiting for other ranks that compute.
    pub waiting_seconds: f64,
    /// Latencies and overheads of messages.
    pub latency_seconds: f64,
    /// Bytes of messages on routes without other traffic.
    pub bandwidth_seconds: f64,
    /// Links that messages share.
    pub contention_seconds: f64,
    /// Change of the iteration times at the end of the executed iterations, extended to the whole run.
    pub unsteady_seconds: f64,
    /// Reduction of the reference's run time; below zero: slower.
    pub gain_ratio: f64,
    /// Its interval.
    pub least_gain_ratio: f64,
    /// The same.
    pub most_gain_ratio: f64,
}

/// Predicts.
///
/// # Errors
/// Files that cannot be read; placements of other numbers of ranks; pairs without a route; programs that never end.
pub fn predict(ask: &Ask<'_>) -> Result<Prediction> {
    if let Some(speed) = ask
        .operations_per_s
        .filter(|s| !(s.is_finite() && *s > 0.0))
    {
        refuse!("--operations-per-second: found {speed}, expected a number above 0");
    }
    let folded = read_folded(ask.trace)?;
    let parameters = parameters(ask.network)?;
    let machine = ask.machine;
    let fabric = &machine.fabric;
    let mut notes = folded.notes.clone();
    let placed = placements(ask, folded.ranks.len(), &mut notes)?;
    let rules = match ask.collectives {
        Some(rules) => Algorithms::parse(rules)?,
        None => recorded::algorithms(ask.trace)?.unwrap_or_default(),
    };
    let short = folded.shorten(AIM, MOST)?;
    let executed_calls = short.trace.ranks.iter().map(|r| r.calls.len() as u64).sum();
    let forecaster = Forecaster::new(&short, &rules, ask.operations_per_s)?;
    let point = OperatingPoint::default();
    let network = Network::new(fabric, &machine.routing, &parameters, point);
    let run = |nodes: &[NodeId]| -> Result<Forecast, ModelError> {
        forecaster.run(&network, nodes, &[], TOLERANCE)
    };
    let mut found = Vec::with_capacity(placed.len());
    for (name, nodes) in &placed {
        found.push((name.as_str(), run(nodes)?));
    }
    let recorded_seconds = recorded_seconds(&folded);
    let replayed = found.first().filter(|f| f.0 == RECORDED).map(|f| f.1);
    let error_ratio = recorded_seconds
        .zip(replayed)
        .map(|(recorded, replay)| replay.seconds / recorded - 1.0);
    let factors = factors(recorded_seconds.zip(replayed));
    let interval = match error_ratio {
        Some(error) => format!(
            "network times between {:.2} and {:.2} of the predicted: the recorded run is predicted {:+.1} % off",
            factors.0,
            factors.1,
            100.0 * error
        ),
        None => format!(
            "network times between half and twice the predicted: assumed, {}",
            match parameters.calibration.as_str() {
                "uncalibrated" => "uncalibrated",
                _ => "no run of this job was measured on this machine",
            }
        ),
    };
    let reference = found[0].1;
    let rows: Vec<RunTime> = found
        .iter()
        .map(|(name, f)| row(name, f, &reference, factors))
        .collect();
    unsteady(&rows, &mut notes);
    if error_ratio.is_none() {
        unlike(&folded, recorded_seconds, &rows, &mut notes);
    }
    Ok(Prediction {
        schema: "hopbyte.predict/1",
        trace: ask.trace.to_owned(),
        complete: folded.complete,
        ranks: folded.ranks.len(),
        calls: short.calls,
        executed_calls,
        machine: machine.source.words(),
        network: ask.network.to_owned(),
        calibration: parameters.calibration.clone(),
        factors,
        interval,
        recorded_seconds,
        error_ratio,
        reference: rows[0].name.clone(),
        sentence: sentence(&rows, ask.placements.len()),
        placements: rows,
        notes,
    })
}

const RECORDED: &str = "as recorded";

/// Rates and delays of a preset, or of a file.
fn parameters(network: &str) -> Result<Parameters> {
    if PRESETS.contains(&network) || !Path::new(network).exists() {
        return Ok(Parameters::preset(network)?);
    }
    let text = Text::read(Path::new(network), Limits::TEXT)?;
    let parameters: Parameters = toml::from_str(&lossy(text.bytes())).map_err(|e| {
        let expected = "the parameters of a network (the book's page on scenarios)";
        text.error(e.message(), expected)
    })?;
    parameters.check()?;
    Ok(parameters)
}

/// Names and nodes by rank of all placements, the reference first.
fn placements(
    ask: &Ask<'_>,
    ranks: usize,
    notes: &mut Vec<String>,
) -> Result<Vec<(String, Vec<NodeId>)>> {
    let fabric = &ask.machine.fabric;
    let given = ask
        .nodes
        .map(|list| inputs::nodes(list, ask.ranks_per_node, ranks, fabric))
        .transpose()?;
    let read = |path: &Path| -> Result<(Allocation, Vec<NodeId>)> {
        let placed = read_placement(path, fabric, given.as_ref())?;
        Ok((placed.allocation, by_rank(&placed.placement)))
    };
    let mut list: Vec<(String, Vec<NodeId>)> = Vec::new();
    let mut allocation = None;
    let own = Path::new(ask.trace).join("placement.csv");
    if own.is_file() {
        match read(&own) {
            Ok((nodes, ranks)) => {
                list.push((RECORDED.to_owned(), ranks));
                allocation = Some(nodes);
            }
            Err(error) => {
                let error = error.to_string();
                let first = error.lines().next().unwrap_or_default();
                notes.push(format!(
                    "the recorded run is no check of this machine: {first}"
                ));
            }
        }
    }
    let mut files = Vec::new();
    for path in ask.placements {
        let (nodes, by_rank) = read(path)?;
        allocation.get_or_insert(nodes);
        files.push((path.display().to_string(), by_rank));
    }
    let allocation = match (given, allocation) {
        (Some(given), _) => given,
        (None, Some(found)) => found,
        (None, None) => first_nodes(fabric, ranks, ask.ranks_per_node)?,
    };
    let rule = |rule| -> Result<Vec<NodeId>> {
        Ok(by_rank(&place(
            fabric,
            &allocation,
            &rule,
            ranks,
            None,
            ask.seed,
        )?))
    };
    list.push(("in order".into(), rule(PlacementRule::Linear)?));
    list.push((
        format!("random, seed {}", ask.seed),
        rule(PlacementRule::Random)?,
    ));
    list.extend(files);
    for (name, nodes) in &list {
        if nodes.len() != ranks {
            let found = nodes.len();
            refuse!(
                "{name}: found {found} ranks, expected {ranks}, as in {}",
                ask.trace
            );
        }
    }
    Ok(list)
}

/// The first nodes of a machine.
fn first_nodes(fabric: &Fabric, ranks: usize, each: Option<u32>) -> Result<Allocation> {
    let nodes = fabric.nodes().len();
    let fewest = ranks.div_ceil(nodes.max(1)).max(1) as u32;
    let each = each.unwrap_or(fewest).max(1);
    let needed = ranks.div_ceil(each as usize).min(nodes);
    let list = (0..needed as u32).map(|n| (NodeId(n), each));
    Ok(Allocation::new(fabric, list.collect())?)
}

fn by_rank(placement: &Placement) -> Vec<NodeId> {
    placement.slots().iter().map(|s| s.node).collect()
}

fn recorded_seconds(folded: &Folded) -> Option<f64> {
    let longest = folded.ranks.iter().map(|r| r.seconds).fold(0.0, f64::max);
    (longest > 0.0 && folded.complete).then_some(longest)
}

/// Factors on the network's parts: so far off as the recorded run's were, to both sides.
fn factors(measured: Option<(f64, Forecast)>) -> (f64, f64) {
    let Some((recorded, forecast)) = measured else {
        return UNCALIBRATED;
    };
    let network = forecast.network_seconds();
    if network <= 0.0 {
        return UNCALIBRATED;
    }
    let off = (recorded - forecast.seconds).abs() / network;
    ((1.0 - off).max(0.0), 1.0 + off)
}

fn row(name: &str, f: &Forecast, reference: &Forecast, factors: (f64, f64)) -> RunTime {
    let at = |f: &Forecast, factor: f64| f.seconds + (factor - 1.0) * f.network_seconds();
    let gain = |factor| 1.0 - at(f, factor) / at(reference, factor);
    let (a, b) = (gain(factors.0), gain(factors.1));
    RunTime {
        name: name.to_owned(),
        seconds: f.seconds,
        least_seconds: at(f, factors.0),
        most_seconds: at(f, factors.1),
        compute_seconds: f.compute_seconds,
        waiting_seconds: f.waiting_seconds,
        latency_seconds: f.latency_seconds,
        bandwidth_seconds: f.bandwidth_seconds,
        contention_seconds: f.contention_seconds,
        unsteady_seconds: f.unsteady_seconds,
        gain_ratio: gain(1.0),
        least_gain_ratio: a.min(b),
        most_gain_ratio: a.max(b),
    }
}

/// A recorded run whose duration is outside every interval.
fn unlike(folded: &Folded, recorded: Option<f64>, rows: &[RunTime], notes: &mut Vec<String>) {
    let Some(recorded) = recorded else { return };
    let least = rows.iter().map(|r| r.least_seconds);
    let most = rows.iter().map(|r| r.most_seconds);
    let interval = least.fold(f64::INFINITY, f64::min)..=most.fold(0.0, f64::max);
    if interval.contains(&recorded) {
        return;
    }
    let mpi: f64 = folded.ranks.iter().map(|r| r.mpi_seconds).sum();
    let all: f64 = folded.ranks.iter().map(|r| r.seconds).sum();
    notes.push(format!(
        "the recorded run took {:.1} times the predicted run time, {:.0} % of it in MPI: compare predictions with each \
         other rather than with the clock, unless that run had another network, its ranks shared cores, or it waited for files",
        recorded / rows[0].seconds.max(f64::MIN_POSITIVE),
        100.0 * mpi / all.max(f64::MIN_POSITIVE),
    ));
}

/// Iteration times that still change.
fn unsteady(rows: &[RunTime], notes: &mut Vec<String>) {
    let share = |r: &RunTime| r.unsteady_seconds / r.seconds.max(f64::MIN_POSITIVE);
    let worst = rows.iter().max_by(|a, b| share(a).total_cmp(&share(b)));
    if let Some(row) = worst.filter(|r| share(r) > 1e-3) {
        notes.push(format!(
            "iterations of {} are not steady where they were cut: {:.1} % of its run time rests on them",
            row.name,
            100.0 * share(row)
        ));
    }
}

/// The answer: of the given placements, or of those in order and at random.
fn sentence(rows: &[RunTime], given: usize) -> String {
    let reference = &rows[0];
    let times = || rows.iter().map(|r| r.seconds);
    let (least, most) = (
        times().fold(f64::INFINITY, f64::min),
        times().fold(0.0, f64::max),
    );
    if most - least < MATTERS * most {
        let share = |seconds: f64| 100.0 * seconds / reference.seconds.max(f64::MIN_POSITIVE);
        return format!(
            "placement does not matter for this job, because {:.1} % of its time is computation, {:.1} % waiting for \
             other ranks and {:.1} % latency and bytes that every placement has; the run times differ by {:.1} %",
            share(reference.compute_seconds),
            share(reference.waiting_seconds),
            share(reference.latency_seconds + reference.bandwidth_seconds),
            100.0 * (most - least) / most
        );
    }
    let files = &rows[rows.len() - given..];
    let candidates = if given > 0 { files } else { &rows[1..] };
    let best = candidates
        .iter()
        .min_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let Some(best) = best else {
        return String::new();
    };
    let percent = |ratio: f64| 100.0 * ratio.abs();
    let (low, high) = (best.least_gain_ratio, best.most_gain_ratio);
    if given == 0 && best.gain_ratio < 0.0 {
        return format!(
            "{} is the fastest of these placements; with {} the job would run {:.1} % ({:.1} to {:.1}) slower",
            reference.name,
            best.name,
            percent(best.gain_ratio),
            -100.0 * high,
            -100.0 * low
        );
    }
    let (word, low, high) = match best.gain_ratio >= 0.0 {
        true => ("faster", low, high),
        false => ("slower", -high, -low),
    };
    format!(
        "the job will run {:.1} % ({:.1} to {:.1}) {word} with {} than {}",
        percent(best.gain_ratio),
        100.0 * low,
        100.0 * high,
        best.name,
        reference.name
    )
}
