//! Rates and delays of a network beyond its links: a preset, a file of `parameters`, or measurements of `hopbyte-probe`.
//!
//! Measurements are the lines of `hopbyte-probe calibrate --json`, or of its verbs `latency`, `bandwidth`, `rate`, `allreduce`,
//! `eager` and `progress`, between two nodes and between two ranks of one. Half a round trip is the latency, the links' delays and the
//! overheads at both ends; a rate of messages is an overhead; bytes per second over what the busiest link could carry are the
//! links' efficiency. A step of an allreduce is a message too: where all ranks take part it is late by the latest of them, and
//! the longer of both latencies counts. What was not measured stays as in the preset, and `calibration` says so.

mod fit;
mod lines;

use crate::error::Result;
use crate::settings::Settings;
use hopbyte_fabric::{Fabric, InputError, Routing};
use hopbyte_model::parameters::{PRESETS, Parameters};
use hopbyte_observe::text::{Limits, Text, lossy};
use hopbyte_observe::unix;
use std::path::Path;

pub(crate) use lines::PROBE;

/// The name of a network, or by default that of the settings, or `plain`; and its parameters.
///
/// # Errors
/// No such preset, or a file that is neither TOML of `parameters` nor the lines of a probe.
pub fn parameters(
    network: Option<&str>,
    fabric: &Fabric,
    routing: &Routing,
) -> Result<(String, Parameters)> {
    let named = match network {
        Some(named) => named.to_owned(),
        None => Settings::load()?
            .value("network")
            .map_or_else(|| "plain".to_owned(), String::clone),
    };
    let path = Path::new(&named);
    if PRESETS.contains(&&*named) || !path.exists() {
        let preset = Parameters::preset(&named)?;
        return Ok((named, preset));
    }
    let text = Text::read(path, Limits::TEXT)?;
    let words = lossy(text.bytes()).into_owned();
    let parameters = if words.trim_start().starts_with('{') {
        let written = std::fs::metadata(path).and_then(|m| m.modified());
        let day = written.map_or(0, |w| unix(w) as u64 / 86_400);
        let found = lines::Measurements::read(&named, &words, fabric, &date(day))?;
        fit::fit(&named, &found, fabric, routing)?
    } else {
        toml::from_str(&words).map_err(|e| unlike(text.file(), &words, &e))?
    };
    parameters.check()?;
    Ok((named, parameters))
}

/// A file that has not all parameters of a network, or others: its line, and all that it lacks.
fn unlike(file: &str, words: &str, e: &toml::de::Error) -> InputError {
    let expected = "the parameters of a network (the book's page on scenarios)";
    let mut hint = "`hopbyte predict --json` has all values in use under `parameters`, with `--network ethernet` those of that preset".to_owned();
    let absent = absent(words).unwrap_or_default();
    if e.message().starts_with("missing field") && !absent.is_empty() {
        hint = format!("the file lacks {}; {hint}", absent.join(", "));
    }
    let error = InputError::parsed(file, e.message(), expected);
    let begin = e.span().map_or(0, |span| span.start);
    error.at_byte(words, begin).hint(hint)
}

/// Names of the parameters without a default that a file lacks.
fn absent(words: &str) -> Option<Vec<String>> {
    let given: toml::Table = toml::from_str(words).ok()?;
    let all = toml::Table::try_from(Parameters::plain()).ok()?;
    let has_default = |name: &str| {
        let mut others = all.clone();
        others.remove(name);
        others.try_into::<Parameters>().is_ok()
    };
    let absent = all
        .keys()
        .filter(|name| !given.contains_key(*name) && !has_default(name));
    Some(absent.cloned().collect())
}

/// A day since 1970 as a date (Hinnant's days_from_civil, inverted).
fn date(day: u64) -> String {
    let z = day + 719_468;
    let (era, of_era) = (z / 146_097, z % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let (month, later) = match month < 10 {
        true => (month + 3, 0),
        false => (month - 9, 1),
    };
    format!("{}-{month:02}-{date:02}", era * 400 + year + later)
}
