//! Run time of a recorded job under each of several placements.

mod answer;
mod learnt;
mod placed;
mod steady;

pub use learnt::{Measured, RecordedRun, keep, run_of};
pub use placed::{RECORDED, by_rank, recorded_nodes};

use crate::calibration::parameters;
use crate::error::{Result, refuse};
use crate::inputs::LinkReading;
use crate::machine::Machine;
use answer::{buffered, row, sentence, unlike, unmatched, unsteady};
use hopbyte_fabric::collective::Algorithms;
use hopbyte_fabric::trace::folded::Folded;
use hopbyte_fabric::{Fabric, NodeId};
use hopbyte_model::network::Network;
use hopbyte_model::parameters::{OperatingPoint, Parameters};
use hopbyte_observe::kinds::{Content, of_another_kind};
use hopbyte_observe::read_folded;
use hopbyte_observe::trace::recorded;
use hopbyte_observe::traffic::with_rules;
use learnt::Kept;
use placed::{check, placements};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::PathBuf;
use steady::{Job, Steady, collectives, counts_operations, shares};

/// Least share of a link that other jobs leave.
const LEFT: f64 = 0.02;

/// The question.
#[derive(Clone)]
pub struct Ask<'a> {
    /// The trace: a recorded folder, or a trace of another format; `:collectives=RULES` behind it is `collectives`.
    pub trace: &'a str,
    /// The machine.
    pub machine: &'a Machine,
    /// Rates and delays beyond its links: a preset or a file, as in [`crate::calibration`].
    pub network: Option<&'a str>,
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
    /// Placements by name, in place of all the above; the first is what the others are compared with.
    pub given: Vec<(String, Vec<NodeId>)>,
    /// Counters of the links under other jobs' traffic: what they leave of each link.
    pub background: Option<&'a LinkReading>,
    /// Records of later runs (`hopbyte record`), to be kept beside the trace.
    pub measured: &'a [PathBuf],
}

/// Run times.
#[derive(Clone, Debug, Serialize)]
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
    /// Their values.
    pub parameters: Parameters,
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
    /// Measured runs beside their predictions: the recorded one, and those kept beside the trace.
    pub measured: Vec<Measured>,
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
    let (trace, rules) = with_rules(ask.trace);
    if let (Some(rules), Some(other)) = (rules, ask.collectives) {
        refuse!(
            "{}: found --collectives {other} beside :collectives={rules}, expected one of them",
            ask.trace
        );
    }
    if rules.is_some() {
        let own = Ask {
            trace,
            collectives: rules,
            ..ask.clone()
        };
        let source = ask.trace.to_owned();
        return Ok(Prediction {
            trace: source,
            ..predict(&own)?
        });
    }
    if let Some(speed) = ask
        .operations_per_s
        .filter(|s| !(s.is_finite() && *s > 0.0))
    {
        refuse!("--operations-per-second: found {speed}, expected a number above 0");
    }
    let folded = read_folded(ask.trace);
    let folded = folded.map_err(|e| of_another_kind(ask.trace.as_ref(), Content::Trace, e))?;
    let (named, parameters) = parameters(ask.network, &ask.machine.fabric, &ask.machine.routing)?;
    let machine = ask.machine;
    let fabric = &machine.fabric;
    let mut notes = folded.notes.clone();
    if ask.operations_per_s.is_some() && !counts_operations(&folded) {
        notes.push("--operations-per-second has no effect: the trace counts no operations".into());
    }
    let ranks = folded.ranks.len();
    let placed = match ask.given.is_empty() {
        true => placements(ask, ranks, &mut notes)?,
        false => ask.given.clone(),
    };
    check(&placed, ranks, ask.trace)?;
    let rules = match ask.collectives {
        Some(rules) => Algorithms::parse(rules)?,
        None => recorded::algorithms(ask.trace)?.unwrap_or_default(),
    };
    let called = collectives(&folded);
    let of_calls = called.iter().map(|&(kind, how)| rules.for_calls(kind, how));
    let mut doubts: BTreeSet<&str> = of_calls.filter_map(|r| r.doubt()).collect();
    if ask.collectives.is_none() && !called.is_empty() {
        let shared = placed.iter().any(|p| shares(fabric, &p.1));
        doubts.extend(recorded::doubt(ask.trace, shared)?);
    }
    let doubts = doubts.into_iter();
    notes.extend(doubts.map(|d| format!("algorithms of collectives are assumed: {d}")));
    let point = OperatingPoint::default();
    let idle = Network::new(fabric, &machine.routing, &parameters, point);
    let load = ask.background.map(LinkReading::of_loads).transpose()?;
    let busy = load.map(|reading| loaded(&idle, reading, fabric, &mut notes));
    let network = busy.as_ref().unwrap_or(&idle);
    if parameters.queues.is_some() && !machine.routing.is_single_path() {
        notes.push("routes have several paths: messages are flows, not frames in queues".into());
    }
    let runs = ask.measured.iter().map(|record| run_of(record, fabric));
    learnt::keep(ask.trace, &runs.collect::<Result<Vec<_>>>()?, fabric, ranks)?;
    let (kept, elsewhere) = learnt::kept(ask.trace, fabric, ranks)?;
    let recorded_seconds = recorded_seconds(&folded);
    let recorded = recorded_nodes(ask.trace, fabric).and_then(Result::ok);
    let recorded = recorded.filter(|nodes| nodes.len() == ranks);
    let recorded = recorded_seconds.zip(recorded);
    let checks: Vec<Kept> = recorded
        .map(|(seconds, nodes)| (RECORDED.into(), seconds, nodes))
        .into_iter()
        .chain(kept)
        .collect();
    let on_busy = placed.iter().map(|(_, nodes)| (network, &**nodes));
    let on_idle = checks.iter().map(|(_, _, nodes)| (&idle, &**nodes));
    let job = Job {
        fabric,
        folded: &folded,
        rules: &rules,
        operations_per_s: ask.operations_per_s,
    };
    let Steady {
        forecasts,
        executed_calls,
        left_out,
    } = job.forecast(&on_busy.chain(on_idle).collect::<Vec<_>>())?;
    let (found, replayed) = forecasts.split_at(placed.len());
    let measured: Vec<Measured> = (checks.iter().zip(replayed))
        .map(|((run, seconds, _), forecast)| Measured::new(run.clone(), *seconds, forecast))
        .collect();
    let error_ratio = measured.first().map(|m| m.error_ratio);
    if elsewhere > 0 {
        notes.push(format!(
            "{elsewhere} measured runs were on nodes that this machine does not have"
        ));
    }
    let (margins, interval) = learnt::margins(&measured, &parameters.calibration);
    let rows: Vec<RunTime> = (placed.iter().zip(found))
        .map(|((name, nodes), f)| row(name, f, &found[0], *nodes != placed[0].1, margins))
        .collect();
    unsteady(&rows, &mut notes);
    notes.extend(unmatched(left_out));
    notes.extend(buffered(found, parameters.eager_bytes));
    if measured.is_empty() {
        unlike(&folded, recorded_seconds, &rows, &mut notes);
    }
    let candidates = match ask.given.len() {
        0 => ask.placements.len(),
        given => given - 1,
    };
    Ok(Prediction {
        schema: "hopbyte.predict/1",
        trace: ask.trace.to_owned(),
        complete: folded.complete && left_out.is_empty(),
        ranks,
        calls: folded.calls(),
        executed_calls,
        machine: machine.source.words(),
        network: named,
        calibration: parameters.calibration.clone(),
        parameters,
        factors: margins.factors,
        interval,
        recorded_seconds,
        error_ratio,
        measured,
        reference: rows[0].name.clone(),
        sentence: sentence(&rows, &placed, candidates),
        placements: rows,
        notes,
    })
}

/// The network with what other jobs leave of every link.
fn loaded<'a>(
    idle: &Network<'a>,
    reading: &LinkReading,
    fabric: &Fabric,
    notes: &mut Vec<String>,
) -> Network<'a> {
    let mut network = idle.clone();
    let used = &reading.state.used_ratio;
    for link in fabric.link_ids() {
        if let Some(used) = used.get(link) {
            network.degrade(link, (1.0 - used).clamp(LEFT, 1.0));
        }
    }
    notes.push(format!(
        "{} of {} links carry the other traffic of {}",
        used.known(),
        fabric.links().len(),
        reading.source
    ));
    network
}

fn recorded_seconds(folded: &Folded) -> Option<f64> {
    let longest = folded.ranks.iter().map(|r| r.seconds).fold(0.0, f64::max);
    (longest > 0.0 && folded.complete).then_some(longest)
}
