//! Rates and delays of a network beyond its links: a preset, a file of `parameters`, or measurements of `hopbyte-probe`.
//!
//! Measurements are the lines of `hopbyte-probe --json` for `latency` (the smallest size), `bandwidth` (the largest) and
//! `rate`, between two nodes and between two ranks of one, and for `allreduce` of all nodes. Half a round trip is the
//! latency, the routers' hops and the overheads at both ends; a rate of messages is an overhead; bytes per second over what
//! the narrowest link of the route could carry are the links' efficiency. A step of an allreduce is a message too: where
//! all ranks take part it is late by the latest of them, and the longer of both latencies counts. What was not measured
//! stays as in the preset, and `calibration` says so.

use crate::error::Result;
use crate::follow::unix;
use crate::settings::Settings;
use hopbyte_fabric::wire::{Packets, Protocol};
use hopbyte_fabric::{Fabric, InputError, LinkId, NodeId};
use hopbyte_model::parameters::{PRESETS, Parameters};
use hopbyte_observe::text::{Limits, Text, lossy};
use serde::Deserialize;
use std::path::Path;

/// The schema of the lines.
pub(crate) const PROBE: &str = "hopbyte-probe-1";

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
        let day = written.map_or(0, |w| unix(w) as u64 / 86_400);
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
    /// When the following were measured (Unix time).
    time_seconds: Option<u64>,
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

/// An allreduce of some bytes by one rank on each of many nodes: median, least and most seconds.
type Together = (Vec<NodeId>, f64, f64, f64);

/// Parameters from the lines of probes, written on a day if they have no time.
fn measured(file: &str, text: &str, fabric: &Fabric, day: &str) -> Result<Parameters> {
    let (mut between, mut inside) = (Found::default(), Found::default());
    let mut nodes: Vec<NodeId> = Vec::new();
    let mut together: Option<Together> = None;
    let mut day = day.to_owned();
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
        if let Some(seconds) = line.time_seconds {
            day = date(seconds / 86_400);
            continue;
        }
        if let Some(run) = line.run {
            let node = |name: &String| fabric.find_node(name).map_err(|e| wrong(&e.to_string()));
            nodes = run.nodes.iter().map(node).collect::<Result<_, _>>()?;
            if nodes.len() < 2 {
                return Err(wrong("a run of two ranks or more").into());
            }
            continue;
        }
        // Pairs are a rank and that of the other half.
        let (Some(&from), Some(&to)) = (nodes.first(), nodes.get(nodes.len() / 2)) else {
            return Err(wrong("a line with the nodes of the run before its results").into());
        };
        if line.wrong_bytes.is_some_and(|w| w > 0.0) {
            return Err(wrong("results without wrong bytes").into());
        }
        let is_pair = matches!(line.probe.as_deref(), Some("latency" | "bandwidth"));
        if is_pair && from != to {
            apart = Some((from, to));
        }
        let into = match from == to {
            true => &mut inside,
            false => &mut between,
        };
        let (bytes, median) = (line.bytes.unwrap_or(0.0), line.median_seconds);
        let least = |median| line.least_seconds.unwrap_or(median);
        let most = |median| line.most_seconds.unwrap_or(median);
        match (line.probe.as_deref(), median, line.bytes_per_second) {
            (Some("latency"), Some(median), _) => {
                let found = (bytes, median, least(median), most(median));
                into.latency = into.latency.filter(|l| l.0 <= bytes).or(Some(found));
            }
            (Some("bandwidth"), _, Some(rate)) => {
                let found = (bytes, rate);
                into.bandwidth = into.bandwidth.filter(|b| b.0 >= bytes).or(Some(found));
            }
            (Some("allreduce"), Some(median), _) if are_apart(&nodes) => {
                let found = (nodes.clone(), median, least(median), most(median));
                let larger = together.take().filter(|t| t.0.len() >= nodes.len());
                together = larger.or(Some(found));
            }
            (Some("rate"), ..) => into.rate = line.messages_per_second.or(into.rate),
            _ => {}
        }
    }
    fill(file, fabric, &day, (between, inside, apart), together)
}

/// Whether more than two ranks are each on a node of their own.
fn are_apart(nodes: &[NodeId]) -> bool {
    let mut sorted = nodes.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    sorted.len() == nodes.len() && nodes.len() > 2
}

/// Delays of the links on a route; none if there is none.
fn hops(fabric: &Fabric, links: &[LinkId]) -> f64 {
    links.iter().map(|&l| fabric.link(l).latency.0).sum()
}

/// The links of a route; none if there is none.
fn route(fabric: &Fabric, from: NodeId, to: NodeId) -> Vec<LinkId> {
    let mut links = Vec::new();
    let routing = hopbyte_fabric::Routing::default_for(fabric);
    match routing.route(fabric, from, to, &mut links) {
        Ok(()) => links,
        Err(_) => Vec::new(),
    }
}

/// Steps of an allreduce by recursive doubling, and the mean delay of the links in one.
fn steps(fabric: &Fabric, nodes: &[NodeId]) -> (f64, f64) {
    let power = nodes.len().ilog2();
    // Ranks beyond a power of two take a step before and one after.
    let beyond = if nodes.len().is_power_of_two() { 0 } else { 2 };
    let of = |k: u32| {
        let to = nodes.get(1usize << k);
        to.map_or(0.0, |&to| hops(fabric, &route(fabric, nodes[0], to)))
    };
    let delay = (0..power).map(of).sum::<f64>() / f64::from(power);
    (f64::from(power + beyond), delay)
}

/// Parameters with what was found between the nodes `apart`, inside a node, and by all together.
fn fill(
    file: &str,
    fabric: &Fabric,
    day: &str,
    (between, inside, apart): (Found, Found, Option<(NodeId, NodeId)>),
    together: Option<Together>,
) -> Result<Parameters> {
    let mut p = Parameters::ethernet();
    let mut said = Vec::new();
    let ms = |seconds: f64| format!("{:.4} ms", 1e3 * seconds);
    if let Some(rate) = between.rate.or(inside.rate) {
        p.overhead_s = 1.0 / rate;
        said.push(format!("overhead {}", ms(p.overhead_s)));
    }
    let links = apart.map_or_else(Vec::new, |(from, to)| route(fabric, from, to));
    let latency = |half: f64, hops: f64, overhead: f64| (half - hops - 2.0 * overhead).max(0.0);
    if let Some((_, median, least, most)) = between.latency {
        p.latency_s = latency(median, hops(fabric, &links), p.overhead_s);
        said.push(format!(
            "half a round trip {} ({} to {})",
            ms(median),
            ms(least),
            ms(most)
        ));
    }
    if let Some((nodes, median, least, most)) = together {
        let (steps, delay) = steps(fabric, &nodes);
        let late = latency(median / steps, delay, p.overhead_s);
        p.latency_s = match between.latency {
            Some(_) => p.latency_s.max(late),
            None => late,
        };
        said.push(format!(
            "a step of an allreduce by {} nodes (recursive doubling assumed) {} ({} to {})",
            nodes.len(),
            ms(median / steps),
            ms(least / steps),
            ms(most / steps)
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
        let expected = "results of latency, bandwidth, rate or allreduce";
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
