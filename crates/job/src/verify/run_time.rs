//! Run times of later runs of a traced job, against their predictions.

use crate::document::Document;
use crate::error::Result;
use crate::machine::Machine;
use crate::predict::{
    Ask, RECORDED, RecordedRun, RunTime, by_rank, keep, predict, recorded_nodes, run_of,
};
use hopbyte_observe::traffic::with_rules;
use serde::Serialize;
use std::fmt::Write;
use std::path::PathBuf;

/// The question.
pub struct Ran<'a> {
    /// The folder of `hopbyte record --trace`.
    pub trace: &'a str,
    /// Records of later runs (`hopbyte record`).
    pub records: &'a [PathBuf],
    /// The mapping that these runs were to have.
    pub mapping: Option<&'a Document>,
    /// The machine.
    pub machine: &'a Machine,
    /// Rates and delays beyond its links, as in [`Ask`].
    pub network: Option<&'a str>,
    /// Largest error of a run time that is as predicted.
    pub tolerance_percent: f64,
}

/// The answer.
#[derive(Debug, Serialize)]
pub struct RunTimeReport {
    schema: &'static str,
    /// Whether every run time is within the tolerance, on the mapping's nodes, and predicted from a complete trace.
    pub as_predicted: bool,
    /// Whether every run with another placement than the recorded one was shorter; absent without such a run.
    pub helped: Option<bool>,
    /// The tolerance.
    pub tolerance_percent: f64,
    /// The trace.
    pub trace: String,
    /// Whether it has every call of every rank.
    pub complete: bool,
    /// Duration of the recorded run.
    pub recorded_seconds: Option<f64>,
    /// Origin of the intervals, from the runs known before these.
    pub interval: String,
    /// The runs.
    pub runs: Vec<Run>,
    /// Whether they are kept beside the trace.
    pub kept: bool,
    /// Caveats.
    pub notes: Vec<String>,
}

/// A run beside its prediction.
#[derive(Debug, Serialize)]
pub struct Run {
    /// Its record.
    pub record: String,
    /// Its duration.
    pub seconds: f64,
    /// The predicted one, of the placement that the run had.
    pub predicted_seconds: f64,
    /// Its interval.
    pub least_seconds: f64,
    /// The same.
    pub most_seconds: f64,
    /// Predicted over measured duration, minus one.
    pub error_percent: f64,
    /// Whether the duration is in the interval.
    pub in_interval: bool,
    /// Ranks on other nodes than the mapping's.
    pub elsewhere: usize,
    /// Reduction of the recorded run's duration, if that run was on this machine and elsewhere: below zero, slower.
    pub gain_percent: Option<f64>,
    /// The predicted one.
    pub predicted_gain_percent: Option<f64>,
}

/// Predicts the placements that runs had from what was known before them, compares their durations, and keeps these
/// beside the trace.
///
/// # Errors
/// As [`predict`]; records without times or nodes; runs or a mapping of another number of ranks.
pub fn compare(ran: &Ran<'_>) -> Result<RunTimeReport> {
    let fabric = &ran.machine.fabric;
    let folder = with_rules(ran.trace).0;
    let before = recorded_nodes(folder, fabric).and_then(Result::ok);
    let mut given = Vec::new();
    given.extend(
        before
            .iter()
            .map(|nodes| (RECORDED.to_owned(), nodes.clone())),
    );
    let measured = ran.records.iter().map(|record| run_of(record, fabric));
    let measured: Vec<RecordedRun> = measured.collect::<Result<_>>()?;
    let placed = |run: &RecordedRun| (run.record.display().to_string(), run.nodes.clone());
    given.extend(measured.iter().map(placed));
    let mapped = ran.mapping.map(|saved| saved.placed(fabric)).transpose()?;
    let mapped = mapped.map(|(_, placement)| by_rank(&placement));
    let prediction = predict(&Ask {
        trace: ran.trace,
        machine: ran.machine,
        network: ran.network,
        placements: &[],
        nodes: None,
        ranks_per_node: None,
        seed: 1,
        collectives: None,
        operations_per_s: None,
        given,
        background: None,
        measured: &[],
    })?;
    let recorded_seconds = prediction.recorded_seconds.filter(|_| before.is_some());
    let rows = &prediction.placements[usize::from(before.is_some())..];
    let one = |(row, run): (&RunTime, &RecordedRun)| {
        let (seconds, nodes) = (run.seconds, &run.nodes);
        let apart = |others: &Vec<_>| nodes.iter().zip(others).filter(|(a, b)| a != b).count();
        let moved = before.as_ref().is_some_and(|b| apart(b) > 0);
        let gain = recorded_seconds.filter(|_| moved);
        Run {
            record: run.record.display().to_string(),
            seconds,
            predicted_seconds: row.seconds,
            least_seconds: row.least_seconds,
            most_seconds: row.most_seconds,
            error_percent: 100.0 * (row.seconds / seconds - 1.0),
            in_interval: (row.least_seconds..=row.most_seconds).contains(&seconds),
            elsewhere: mapped
                .as_ref()
                .map_or(0, |m| apart(m) + m.len().abs_diff(nodes.len())),
            gain_percent: gain.map(|recorded| 100.0 * (1.0 - seconds / recorded)),
            predicted_gain_percent: gain.map(|_| 100.0 * row.gain_ratio),
        }
    };
    let runs: Vec<Run> = rows.iter().zip(&measured).map(one).collect();
    let is_near =
        |run: &Run| run.error_percent.abs() <= ran.tolerance_percent && run.elsewhere == 0;
    let gains = runs.iter().filter_map(|run| run.gain_percent);
    let mut notes = prediction.notes;
    let kept = keep(folder, &measured, fabric, prediction.ranks);
    if let Err(error) = &kept {
        notes.push(format!("the runs are not kept: {error}"));
    }
    Ok(RunTimeReport {
        schema: "hopbyte.verify.run-time/1",
        as_predicted: prediction.complete && runs.iter().all(is_near),
        helped: gains.map(|gain| gain > 0.0).reduce(|a, b| a && b),
        tolerance_percent: ran.tolerance_percent,
        trace: ran.trace.to_owned(),
        complete: prediction.complete,
        recorded_seconds,
        interval: prediction.interval,
        runs,
        kept: kept.is_ok(),
        notes,
    })
}

impl RunTimeReport {
    /// Whether no comparison failed.
    pub fn holds(&self) -> bool {
        self.as_predicted && self.helped != Some(false)
    }

    /// The report for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for run in &self.runs {
            let way = if run.error_percent < 0.0 {
                "short"
            } else {
                "long"
            };
            // Writing to a String cannot fail, here and below.
            let _ = writeln!(
                text,
                "{}: {:.3} s, predicted {:.3} s ({:.3} to {:.3}): {:.1} % too {way}, {} the interval",
                run.record,
                run.seconds,
                run.predicted_seconds,
                run.least_seconds,
                run.most_seconds,
                run.error_percent.abs(),
                if run.in_interval { "inside" } else { "outside" }
            );
            if let (Some(gain), Some(predicted)) = (run.gain_percent, run.predicted_gain_percent) {
                let _ = writeln!(
                    text,
                    "  {gain:+.1} % of the recorded run time saved, predicted {predicted:+.1} %"
                );
            }
            if run.elsewhere > 0 {
                let _ = writeln!(
                    text,
                    "  {} ranks ran on other nodes than the mapping's",
                    run.elsewhere
                );
            }
        }
        let _ = writeln!(text, "interval: {}", self.interval);
        if !self.complete {
            text.push_str("the trace lacks calls, so that its predictions do as well\n");
        }
        let _ = writeln!(
            text,
            "{}the run time is {}as predicted (tolerance {} %)",
            match self.helped {
                Some(true) => "it helped; ",
                Some(false) => "it did not help; ",
                None => "",
            },
            if self.as_predicted { "" } else { "not " },
            self.tolerance_percent
        );
        if self.kept {
            let _ = writeln!(text, "kept in {}: later intervals use it", self.trace);
        }
        text
    }
}
