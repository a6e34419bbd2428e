//! Output of `topobw --json`.

use super::explain::Path;
use crate::error::{Context, JobError, Result};
use crate::machine::Machine;
use crate::statistics::upper_quartile;
use hopbyte_fabric::{Fabric, InputError, NodeId, Routing};
use hopbyte_observe::kinds::{Content, of_another_kind};
use hopbyte_observe::text::{Limits, Text, lossy};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A trial of a transfer; the last line of a file is a summary and has none of these.
#[derive(Deserialize)]
struct TrialLine {
    schema: String,
    from: Option<String>,
    to: Option<String>,
    kind: Option<String>,
    mode: Option<String>,
    phase: Option<u32>,
    bytes_per_second: Option<f64>,
}

/// Sender, receiver, kind, mode, phase.
type Key = (NodeId, NodeId, String, String, Option<u32>);

/// Reads results; a path's rate is the upper quartile of its trials. Disturbances lower a measurement: a stalled
/// host spoils some trials, a slow link all of them. The best of three would be biased: beside a stalled partner,
/// a path has the whole of their shared link.
pub fn read(files: &[PathBuf], machine: &Machine) -> Result<Vec<Path>> {
    let texts = files.iter().map(|file| {
        let text = Text::read(file, Limits::TEXT)?;
        Ok((file.display().to_string(), lossy(text.bytes()).into_owned()))
    });
    let texts = texts.collect::<Result<Vec<_>>>()?;
    parse(&texts, &machine.fabric, &machine.routing).map_err(|error| match (error, files) {
        (JobError::Input(e), [file]) => of_another_kind(file, Content::Results, e.into()).into(),
        (other, _) => other,
    })
}

/// The same from texts with their names.
///
/// # Errors
/// A line is no line of `topobw --json`, a node is unknown or has no route.
pub fn parse(texts: &[(String, String)], fabric: &Fabric, routing: &Routing) -> Result<Vec<Path>> {
    let mut trials: BTreeMap<Key, Vec<f64>> = BTreeMap::new();
    // Phases are numbered over all texts: each text has its own.
    let mut phases: BTreeMap<(usize, u32), u32> = BTreeMap::new();
    for (which, (file, text)) in texts.iter().enumerate() {
        for (number, line) in (1u64..)
            .zip(text.lines())
            .filter(|(_, l)| !l.trim().is_empty())
        {
            let wrong = |expected: &str| {
                let found: String = line.chars().take(80).collect();
                InputError::new(file, found, expected).at(number)
            };
            let line: TrialLine = serde_json::from_str(line)
                .ok()
                .filter(|l: &TrialLine| l.schema == "hopbyte-topobw-1")
                .ok_or_else(|| wrong("a line of `topobw --json`"))?;
            let (Some(from), Some(to), Some(kind), Some(mode), Some(rate)) = (
                line.from,
                line.to,
                line.kind,
                line.mode,
                line.bytes_per_second,
            ) else {
                continue;
            };
            if !(rate.is_finite() && rate >= 0.0) {
                return Err(wrong("bytes_per_second, a number not below zero").into());
            }
            let node = |name: &str| {
                fabric
                    .find_node(name)
                    .with_context(|| format!("{file}:{number}"))
            };
            let next = phases.len() as u32;
            let phase = line
                .phase
                .map(|p| *phases.entry((which, p)).or_insert(next));
            trials
                .entry((node(&from)?, node(&to)?, kind, mode, phase))
                .or_default()
                .push(rate);
        }
    }
    if trials.is_empty() {
        let names: Vec<&str> = texts.iter().map(|t| t.0.as_str()).collect();
        return Err(
            InputError::new(names.join(", "), "no transfers", "lines of `topobw --json`").into(),
        );
    }
    let mut paths = Vec::new();
    for ((from, to, kind, mode, phase), mut rates) in trials {
        let mut route = Vec::new();
        routing
            .route(fabric, from, to, &mut route)
            .map_err(|e| JobError::refused(&e.describe(fabric)))?;
        paths.push(Path {
            from,
            to,
            class: (kind, mode),
            phase,
            route,
            rate: upper_quartile(&mut rates),
        });
    }
    Ok(paths)
}
