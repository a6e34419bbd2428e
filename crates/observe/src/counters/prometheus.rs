//! Answers of Prometheus' HTTP API to queries of the families that [`openmetrics`](super::openmetrics) reads:
//! `/api/v1/query` (a vector, or the matrix of `FAMILY[10m]`) and `/api/v1/query_range` (a matrix).
//!
//! ```text
//! {"status": "success", "data": {"resultType": "matrix", "result": [
//!   {"metric": {"__name__": "node_network_receive_bytes_total", "device": "eth0", "instance": "n1:9100", "job": "node"},
//!    "values": [[1700000000.123, "1500000"], [1700000015.123, "1700000"]]}]}}
//! ```
//!
//! The samples of a target (its labels `instance` and `job`) at one time are a scrape.

use super::openmetrics::{Labels, Sample, Scrapes, Wrong};
use super::reading::{Layout, Reading};
use crate::text::{Text, float};
use hopbyte_fabric::{InputError, LeftOut};
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Most bytes of an answer: its readings take about five times as much memory.
const LARGEST: usize = 1 << 27;

/// Most seconds of a time, as in text.
const LATEST: f64 = 1e10;

const EXPECTED: &str = "a vector or matrix of Prometheus' HTTP API";
const HINT: &str = "query the counters themselves: query={__name__=~\"node_infiniband_.*\"}[5m]";
/// Reasons for series that are left out.
const UNNAMED: &str = "series without the name of a metric (query the counters themselves, no rate() or sum() of them)";
const HISTOGRAM: &str = "native histogram";
const WARNED: &str = "perhaps, of which the server warns";

/// An answer.
#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(borrow)]
    data: Option<Data<'a>>,
    error: Option<String>,
    #[serde(default)]
    warnings: Vec<String>,
}

#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum Data<'a> {
    #[serde(borrow)]
    Vector(Vec<Series<'a>>),
    Matrix(Vec<Series<'a>>),
    Scalar(IgnoredAny),
    String(IgnoredAny),
}

#[derive(Deserialize)]
struct Series<'a> {
    metric: BTreeMap<String, String>,
    #[serde(borrow)]
    value: Option<Point<'a>>,
    #[serde(default)]
    values: Vec<Point<'a>>,
    histogram: Option<IgnoredAny>,
    histograms: Option<IgnoredAny>,
}

/// Unix seconds and a number.
#[derive(Deserialize)]
struct Point<'a>(f64, &'a str);

/// Whether a line begins such an answer, on one line or indented.
pub(super) fn is_line(line: &[u8]) -> bool {
    let line = line.strip_prefix(b"{").unwrap_or(line).trim_ascii_start();
    let value = line
        .strip_prefix(b"\"status\"")
        .map(<[u8]>::trim_ascii_start);
    let value = value.and_then(|rest| rest.strip_prefix(b":"));
    let value = value.map_or(b"".as_slice(), <[u8]>::trim_ascii_start);
    value.starts_with(b"\"success\"") || value.starts_with(b"\"error\"")
}

/// Readings of all nodes, target by target and in the order of their times.
pub(super) fn readings(
    text: &Text,
    node: Option<&str>,
    left_out: &mut LeftOut,
) -> Result<Vec<Reading>, InputError> {
    let bounded = text.at_most(LARGEST, format!("an answer of at most {LARGEST} bytes"));
    bounded.map_err(|e| e.hint("query fewer metrics, or a shorter time"))?;
    let mut samples = Vec::new();
    // Values by target and time, each with its series.
    let mut scrapes: BTreeMap<(String, u64), Vec<(usize, f64)>> = BTreeMap::new();
    for (series, at) in series(text, left_out)?.into_iter().zip(1..) {
        let points = series.value.iter().chain(&series.values);
        let Some(sample) = sample(&series, at, left_out) else {
            continue;
        };
        let target = ["instance", "job"].map(|l| sample.label(l).unwrap_or_default());
        let target = target.join(" ");
        for &Point(seconds, digits) in points {
            let value = float(digits.as_bytes()).filter(|_| (0.0..LATEST).contains(&seconds));
            let value = value.ok_or_else(|| {
                let found = format!("result {at}, {}: [{seconds}, \"{digits}\"]", sample.name);
                text.error(found, "[UNIX SECONDS, \"NUMBER\"]")
            })?;
            let time_ns = (seconds * 1e9) as u64;
            let scrape = scrapes.entry((target.clone(), time_ns)).or_default();
            scrape.push((samples.len(), value));
        }
        samples.push(sample);
    }
    let mut readings = Vec::new();
    let mut layouts: HashMap<String, Arc<Layout>> = HashMap::new();
    for ((target, time_ns), values) in scrapes {
        let mut scrape = Scrapes::new(node, None);
        for (i, value) in values {
            let sample = &mut samples[i];
            (sample.value, sample.time_ns) = (value, Some(time_ns));
            let taken = scrape.take(sample, left_out);
            taken.map_err(|wrong| refusal(text, sample, wrong))?;
        }
        for mut reading in scrape.readings(left_out) {
            let layout = Arc::make_mut(&mut reading.layout);
            // Two targets of a node are read at different times.
            layout.source = format!("{} {target}", layout.source).trim_end().into();
            // Thousands of times share a layout.
            let key = format!("{} {}", layout.node, layout.source);
            let known = layouts.entry(key).or_insert_with(|| reading.layout.clone());
            if *known == reading.layout {
                reading.layout = known.clone();
            } else {
                *known = reading.layout.clone();
            }
            readings.push(reading);
        }
    }
    Ok(readings)
}

/// The series of an answer.
fn series<'a>(text: &'a Text, left_out: &mut LeftOut) -> Result<Vec<Series<'a>>, InputError> {
    let answer: Answer = text.json(EXPECTED)?;
    for warning in answer.warnings {
        left_out.note(WARNED, warning);
    }
    let found = match (answer.error, answer.data) {
        (Some(said), _) => format!("the error '{said}'"),
        (None, Some(Data::Vector(all) | Data::Matrix(all))) if !all.is_empty() => return Ok(all),
        (None, Some(Data::Vector(_) | Data::Matrix(_))) => "no series".into(),
        (None, Some(Data::Scalar(_))) => "a scalar".into(),
        (None, Some(Data::String(_))) => "a string".into(),
        (None, None) => "no data".into(),
    };
    Err(text.error(found, EXPECTED).hint(HINT))
}

/// A series without its values; one that cannot be used is counted.
fn sample(series: &Series<'_>, at: u64, left_out: &mut LeftOut) -> Option<Sample> {
    let Some(name) = series.metric.get("__name__") else {
        left_out.note(UNNAMED, format!("result {at}"));
        return None;
    };
    if series.histogram.is_some() || series.histograms.is_some() {
        left_out.note(HISTOGRAM, name);
        return None;
    }
    let labels: Labels = series.metric.clone().into_iter().collect();
    Some(Sample {
        at,
        name: name.clone(),
        labels,
        value: 0.0,
        time_ns: None,
    })
}

fn refusal(text: &Text, sample: &Sample, wrong: Wrong) -> InputError {
    let found = format!("result {}, {} {}", sample.at, sample.name, sample.value);
    match wrong {
        Wrong::Value(expected) => text.error(found, expected).hint(HINT),
        Wrong::Twice(at) => {
            let expected = format!("one series of a counter, which is result {at} too");
            let hint = "select one of them in the query, by a label that tells them apart";
            text.error(found, expected).hint(hint)
        }
    }
}

#[cfg(test)]
mod tests;
