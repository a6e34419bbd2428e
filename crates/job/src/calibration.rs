//! Rates and delays of a network beyond its links: a preset, a file of `parameters`, or measurements of `hopbyte-probe`.
//!
//! Measurements are the lines of `hopbyte-probe --json` for `latency` (the smallest size), `bandwidth` (the largest) and
//! `rate`, between two nodes and between two ranks of one. Half a round trip is the latency, the routers' hops and the
//! overheads at both ends; a rate of messages is an overhead; bytes per second over what the narrowest link of the route
//! could carry are the links' efficiency. What was not measured stays as in the preset, and `calibration` says so.

use crate::error::Result;
use crate::settings::Settings;
use hopbyte_fabric::wire::{Packets, Protocol};
use hopbyte_fabric::{Fabric, InputError, LinkId, NodeId};
use hopbyte_model::parameters::{PRESETS, Parameters};
use hopbyte_observe::text::{Limits, Text, lossy};
use serde::Deserialize;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// The schema of the lines.
const PROBE: &str = "hopbyte-probe-1";

/// The name of a network, or by default that of the settings, or `plain`; and its parameters.
///
/// # Errors
/// No such preset, or a file that is neither TOML of `parameters` nor the lines of a probe.
pub fn parameters(network: Option<&str>, fabric: &Fabric) -> Result<(String, Parameters)> {
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
        let written = written.ok().and_then(|t| t.duration_since(UNIX_EPOCH).ok());
        let day = written.map_or(0, |w| w.as_secs() / 86_400);
        measured(&named, &words, fabric, &date(day))?
    } else {
        toml::from_str(&words).map_err(|e| {
            let expected = "the parameters of a network (the book's page on scenarios)";
            text.error(e.message(), expected)
        })?
    };
    parameters.check()?;
    Ok((named, parameters))
}

/// A line of a probe; the first of each run names the nodes.
#[derive(Deserialize)]
struct Line {
    schema: String,
    run: Option<Run>,
    probe: Option<String>,
    bytes: Option<f64>,
    median_seconds: Option<f64>,
    least_seconds: Option<f64>,
    most_seconds: Option<f64>,
    bytes_per_second: Option<f64>,
    messages_per_second: Option<f64>,
    wrong_bytes: Option<f64>,
}

#[derive(Deserialize)]
struct Run {
    nodes: Vec<String>,
}

/// Measurements between two nodes, or on one.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    /// Bytes, median, least and most of half a round trip of the smallest message.
    latency: Option<(f64, f64, f64, f64)>,
    /// Bytes and bytes per second of the largest messages.
    bandwidth: Option<(f64, f64)>,
    rate: Option<f64>,
}

/// Parameters from the lines of probes that were written on a day.
fn measured(file: &str, text: &str, fabric: &Fabric, day: &str) -> Result<Parameters> {
    let (mut between, mut inside) = (Found::default(), Found::default());
    let mut ends: Option<(NodeId, NodeId)> = None;
    let mut apart: Option<(NodeId, NodeId)> = None;
    for (number, line) in (1u64..)
        .zip(text.lines())
        .filter(|l| !l.1.trim().is_empty())
    {
        let wrong = |expected: &str| {
            let found: String = line.chars().take(80).collect();
            InputError::new(file, found, expected).at(number)
        };
        let expected = "a line of `hopbyte-probe --json`";
        let read: Option<Line> = serde_json::from_str(line).ok();
        let line = read
            .filter(|l| l.schema == PROBE)
            .ok_or_else(|| wrong(expected))?;
        if let Some(run) = line.run {
            let [from, to] = &run.nodes[..] else {
                return Err(wrong("a run of two ranks").into());
            };
            let node = |name: &String| fabric.find_node(name).map_err(|e| wrong(&e.to_string()));
            ends = Some((node(from)?, node(to)?));
            continue;
        }
        let Some((from, to)) = ends else {
            return Err(wrong("a line with the nodes of the run before its results").into());
        };
        if line.wrong_bytes.is_some_and(|w| w > 0.0) {
            return Err(wrong("results without wrong bytes").into());
        }
        let into = if from == to {
            &mut inside
        } else {
            apart = Some((from, to));
            &mut between
        };
        let (bytes, median) = (line.bytes.unwrap_or(0.0), line.median_seconds);
        match (line.probe.as_deref(), median, line.bytes_per_second) {
            (Some("latency"), Some(median), _) => {
                let least = line.least_seconds.unwrap_or(median);
                let most = line.most_seconds.unwrap_or(median);
                let found = (bytes, median, least, most);
                into.latency = into.latency.filter(|l| l.0 <= bytes).or(Some(found));
            }
            (Some("bandwidth"), _, Some(rate)) => {
                let found = (bytes, rate);
                into.bandwidth = into.bandwidth.filter(|b| b.0 >= bytes).or(Some(found));
            }
            (Some("rate"), ..) => into.rate = line.messages_per_second.or(into.rate),
            _ => {}
        }
    }
    fill(file, fabric, day, between, inside, apart)
}

/// Parameters with what was found; nodes `apart` are those of the measurement between two.
fn fill(
    file: &str,
    fabric: &Fabric,
    day: &str,
    between: Found,
    inside: Found,
    apart: Option<(NodeId, NodeId)>,
) -> Result<Parameters> {
    let mut p = Parameters::ethernet();
    let mut said = Vec::new();
    let ms = |seconds: f64| format!("{:.4} ms", 1e3 * seconds);
    if let Some(rate) = between.rate.or(inside.rate) {
        p.overhead_s = 1.0 / rate;
        said.push(format!("overhead {}", ms(p.overhead_s)));
    }
    let links = apart.map_or_else(Vec::new, |(from, to)| {
        let mut links: Vec<LinkId> = Vec::new();
        let routing = hopbyte_fabric::Routing::default_for(fabric);
        match routing.route(fabric, from, to, &mut links) {
            Ok(()) => links,
            Err(_) => Vec::new(),
        }
    });
    if let Some((_, median, least, most)) = between.latency {
        let hops: f64 = links.iter().map(|&l| fabric.link(l).latency.0).sum();
        p.latency_s = (median - hops - 2.0 * p.overhead_s).max(0.0);
        said.push(format!(
            "half a round trip {} ({} to {})",
            ms(median),
            ms(least),
            ms(most)
        ));
    }
    let narrowest = links.iter().map(|&l| fabric.link(l).capacity().0);
    let narrowest = narrowest.fold(f64::INFINITY, f64::min);
    if let Some((_, rate)) = between.bandwidth.filter(|_| narrowest.is_finite()) {
        let wire = Packets::TCP.bytes_per_byte();
        p.link_efficiency = (rate * wire / narrowest).min(1.0);
        said.push(format!(
            "links {:.1} % full with one stream",
            100.0 * p.link_efficiency
        ));
    }
    if let Some((_, median, ..)) = inside.latency {
        p.memory_latency_s = (median - 2.0 * p.overhead_s).max(0.0);
        said.push(format!("half a round trip on a node {}", ms(median)));
    }
    if let Some((_, rate)) = inside.bandwidth {
        p.memory_bytes_per_s = rate;
        said.push(format!("on a node {:.3} GB/s", 1e-9 * rate));
    }
    if said.is_empty() {
        let expected = "results of latency, bandwidth or rate between two ranks";
        return Err(InputError::new(file, "no such result", expected).into());
    }
    debug_assert!(matches!(p.protocol, Protocol::Packets(_)));
    p.calibration = format!(
        "hopbyte-probe, {day}: {}; frames and windows of TCP, eager limit of Open MPI: assumed",
        said.join(", ")
    );
    Ok(p)
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
