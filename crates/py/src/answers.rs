//! Answers of verbs: the record of `--json`, the text of the terminal, and whether the answer is yes.

use crate::errors::{self, HopbyteError, python};
use crate::links::Links;
use crate::machine::Machine;
use crate::mapping::Mapping;
use hopbyte_job::attribution::{Attribution, Recorded};
use hopbyte_job::predict::Ask;
use hopbyte_job::probe::{analysis, explain, results};
use hopbyte_job::scenario::{Changes, outcome, outcome_of};
use hopbyte_job::verify::VerifyReport;
use hopbyte_job::{Document, Jobs, blame as causes, jobs_then, verify as verification};
use hopbyte_observe::read_jobs;
use hopbyte_view::terminal::{blame_text, model_text, predict_text, probe_text, verify_text};
use pyo3::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// JSON, text, and whether the answer is yes.
type Answer = (String, String, bool);

fn answer(record: &impl Serialize, text: String, yes: bool) -> PyResult<Answer> {
    let json = serde_json::to_string(record).map_err(python)?;
    Ok((json, text, yes))
}

/// A mapping of this session, or the file of an earlier one.
#[derive(FromPyObject)]
pub enum Saved {
    /// Of this session.
    Made(Py<Mapping>),
    /// mapping.json.
    File(PathBuf),
}

/// The mapping of an argument, or none.
fn saved(value: &Bound<'_, PyAny>) -> PyResult<Option<Saved>> {
    let expected = "a mapping, or the path of its document";
    value
        .extract()
        .map_err(|_| errors::of_type("mapping", value, expected))
}

#[pyfunction]
#[pyo3(signature = (machine, after, before, mapping, repeats, tolerance))]
pub fn verify(
    machine: &Machine,
    after: &Links,
    before: Option<&Links>,
    #[pyo3(from_py_with = saved)] mapping: Option<Saved>,
    repeats: f64,
    tolerance: f64,
) -> PyResult<Answer> {
    for links in [Some(after), before].into_iter().flatten() {
        of_machine(links, machine)?;
    }
    if !(repeats.is_finite() && repeats > 0.0 && tolerance >= 0.0) {
        let text = format!(
            "found repeats={repeats}, tolerance={tolerance}, expected repeats above zero and a tolerance not below"
        );
        return Err(HopbyteError::new_err(text));
    }
    let state = after.state();
    let (after, before) = (after.loads()?, before.map(Links::loads).transpose()?);
    let saved = match mapping {
        None => None,
        Some(Saved::Made(mapping)) => Some(mapping.get().saved()),
        Some(Saved::File(path)) => Some(Document::read(&path).map_err(python)?),
    };
    let predict = |saved: &Document| verification::predict(saved, &machine.0, state, repeats);
    let predicted = saved.as_ref().map(predict).transpose().map_err(python)?;
    let fabric = machine.fabric();
    let report = VerifyReport::new(fabric, before.as_deref(), &after, predicted, tolerance);
    answer(&report, verify_text(&report, false), report.holds())
}

#[pyfunction]
#[pyo3(signature = (trace, machine, placements, network, nodes, ranks_per_node, seed, collectives, operations_per_second))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
pub fn predict(
    py: Python<'_>,
    trace: &str,
    machine: &Machine,
    placements: Vec<PathBuf>,
    network: &str,
    nodes: Option<&str>,
    #[pyo3(from_py_with = errors::ranks_per_node)] ranks_per_node: Option<u32>,
    #[pyo3(from_py_with = errors::seed)] seed: u64,
    collectives: Option<&str>,
    operations_per_second: Option<f64>,
) -> PyResult<Answer> {
    let ask = Ask {
        trace,
        machine: &machine.0,
        network: Some(network),
        placements: &placements,
        nodes,
        ranks_per_node,
        seed,
        collectives,
        operations_per_s: operations_per_second,
        given: Vec::new(),
        background: None,
        measured: &[],
    };
    let prediction = py.detach(|| hopbyte_job::predict::predict(&ask));
    let prediction = prediction.map_err(python)?;
    let text = predict_text(&prediction, false);
    answer(&prediction, text, prediction.complete)
}

#[pyfunction]
#[pyo3(signature = (name, text, level, link, injection, latency, message_rate, cpu, placement, network))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
pub fn model(
    py: Python<'_>,
    name: &str,
    text: Option<&str>,
    level: Option<&str>,
    link: Option<f64>,
    injection: Option<f64>,
    latency: Option<f64>,
    message_rate: Option<f64>,
    cpu: Option<f64>,
    placement: Option<PathBuf>,
    network: Option<&str>,
) -> PyResult<Answer> {
    let changes = Changes {
        level,
        link,
        injection,
        latency,
        message_rate,
        cpu,
        placement: placement.as_deref(),
        network,
    };
    let result = py.detach(|| match text {
        Some(text) => outcome(name, text, &changes),
        None => outcome_of(Path::new(name), &changes),
    });
    let outcome = result.map_err(python)?;
    answer(&outcome, model_text(&outcome, 10, false).0, true)
}

#[pyfunction]
#[pyo3(signature = (results_of, machine, tolerance, expected))]
pub fn analyse_probe(
    py: Python<'_>,
    results_of: Vec<PathBuf>,
    machine: &Machine,
    tolerance: Option<f64>,
    expected: BTreeMap<String, f64>,
) -> PyResult<Answer> {
    let tolerance = tolerance.unwrap_or(explain::TOLERANCE);
    if !(tolerance > 0.0 && tolerance < 1.0) {
        let text = format!("found tolerance={tolerance}, expected a share between 0 and 1");
        return Err(HopbyteError::new_err(text));
    }
    let paths = results::read(&results_of, &machine.0).map_err(python)?;
    let (fabric, routing) = (machine.fabric(), machine.routing());
    let record = py.detach(|| analysis::analyse(fabric, routing, &paths, tolerance, &expected));
    let record = record.map_err(python)?;
    answer(&record, probe_text(&record, false), record.slow_paths == 0)
}

#[pyfunction]
#[pyo3(signature = (machine, links, jobs, jobs_at, recorded))]
pub fn blame(
    machine: &Machine,
    links: &Links,
    jobs: Option<PathBuf>,
    jobs_at: Option<f64>,
    recorded: Vec<String>,
) -> PyResult<Answer> {
    of_machine(links, machine)?;
    links.loads()?;
    let (fabric, state) = (machine.fabric(), links.state());
    let then = jobs_then(jobs_at, links.reading().time_seconds);
    let jobs = jobs.map(|file| read_jobs(&file, fabric, then));
    let jobs = jobs.transpose().map_err(python)?;
    if jobs.is_none() && !recorded.is_empty() {
        return Err(HopbyteError::new_err(
            "found recorded without jobs, expected both",
        ));
    }
    let by_job = |jobs: Jobs| {
        let known = Recorded::of(&recorded, &jobs, fabric).map_err(python)?;
        Ok::<_, PyErr>(Attribution::of(
            fabric,
            machine.routing(),
            state,
            &jobs,
            known,
        ))
    };
    let jobs = jobs.map(by_job).transpose()?;
    let found = causes::blame(fabric, machine.routing(), state, jobs.as_ref()).map_err(python)?;
    let text = blame_text(&found, false);
    answer(&found, text, found.causes.is_empty())
}

fn of_machine(links: &Links, machine: &Machine) -> PyResult<()> {
    if links.belong_to(machine) {
        return Ok(());
    }
    let text = "the links belong to another machine; load them with the same machine object";
    Err(HopbyteError::new_err(text))
}

/// Identifier, title, cause, example and remedy of the class of an error, or of all.
#[pyfunction]
pub fn explain_errors(ids: Vec<String>) -> PyResult<Vec<(String, String)>> {
    let found = hopbyte_job::failure::explained(&ids).map_err(python)?;
    let one = |about: hopbyte_job::failure::Explained| {
        let json = serde_json::to_string(&about).map_err(python)?;
        Ok((json, about.text(true)))
    };
    found.into_iter().map(one).collect()
}
