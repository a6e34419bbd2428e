//! Output of `topobw --json`.

use super::explain::Path;
use crate::machine::Machine;
use crate::statistics::upper_quartile;
use anyhow::{Context, Result};
use hopbyte_fabric::{InputError, NodeId};
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
    bytes_per_second: Option<f64>,
}

/// Reads results; a path's rate is the upper quartile of its trials. Disturbances lower a measurement: a stalled
/// host spoils some trials, a slow link all of them. The best of three would be biased: beside a stalled partner,
/// a path has the whole of their shared link.
pub fn read(files: &[PathBuf], machine: &Machine) -> Result<Vec<Path>> {
    let fabric = &machine.fabric;
    let mut trials: BTreeMap<(NodeId, NodeId, String, String), Vec<f64>> = BTreeMap::new();
    for file in files {
        let text = Text::read(file, Limits::TEXT)?;
        let text = lossy(text.bytes());
        for (number, line) in (1u64..)
            .zip(text.lines())
            .filter(|(_, l)| !l.trim().is_empty())
        {
            let wrong = |expected: &str| {
                let found: String = line.chars().take(80).collect();
                InputError::new(file.display().to_string(), found, expected).at(number)
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
                    .with_context(|| format!("{}:{number}", file.display()))
            };
            trials
                .entry((node(&from)?, node(&to)?, kind, mode))
                .or_default()
                .push(rate);
        }
    }
    if trials.is_empty() {
        let names: Vec<String> = files.iter().map(|f| f.display().to_string()).collect();
        return Err(
            InputError::new(names.join(", "), "no transfers", "lines of `topobw --json`").into(),
        );
    }
    let mut paths = Vec::new();
    for ((from, to, kind, mode), mut rates) in trials {
        let mut route = Vec::new();
        machine
            .routing
            .route(fabric, from, to, &mut route)
            .map_err(|e| anyhow::anyhow!("{}", e.describe(fabric)))?;
        paths.push(Path {
            from,
            to,
            class: (kind, mode),
            route,
            rate: upper_quartile(&mut rates),
        });
    }
    Ok(paths)
}
