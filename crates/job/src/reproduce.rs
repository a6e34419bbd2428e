//! The mapper and the probe analysis for rows of `model reproduce`, since a model depends on neither.

use crate::costs::costs_for;
use crate::error::{Context, JobError, Result};
use crate::probe::analysis::analyse;
use crate::probe::explain::TOLERANCE;
use crate::probe::predicted::TopobwRecord;
use crate::probe::results;
use crate::program;
use hopbyte_fabric::{Fabric, Placement, Routing};
use hopbyte_map::{Goal, Objective, Options, Problem, map};
use hopbyte_model::reproduce::{Located, Remap, Tools};
use hopbyte_model::topobw::Measured;
use hopbyte_oracle::Metric;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Trials of a remapping: a number instead of a time, so that every machine finds the same placement.
const TRIALS: u64 = 200_000;

/// The search of `hopbyte map` and the analysis of `hopbyte probe analyse`.
pub const TOOLS: Tools<'static> = Tools {
    remap: &|ask| remap(ask).map_err(|e| e.to_string()),
    locate: &|fabric, routing, pairs| locate(fabric, routing, pairs).map_err(|e| e.to_string()),
};

/// The folder of the rows: the given one, else `scenarios`, or the installed one if that is absent.
pub fn rows(given: Option<&Path>) -> PathBuf {
    if let Some(folder) = given {
        return folder.to_owned();
    }
    let own = PathBuf::from("scenarios");
    let installed = program::places(&["share/hopbyte/scenarios".into(), "scenarios".into()]);
    let found = std::iter::once(own.clone()).chain(installed);
    found.into_iter().find(|f| f.is_dir()).unwrap_or(own)
}

/// Rows in the order of papers: letters, then numbers.
///
/// # Errors
/// The folder cannot be read.
pub fn row_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let list = std::fs::read_dir(folder).with_context(|| {
        format!(
            "{}: no folder of rows\nhint: --from names it; the sources have it as scenarios/",
            folder.display()
        )
    })?;
    let mut files = Vec::new();
    for entry in list {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "toml") {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(JobError::refused(&format!(
            "{}: found no .toml file, expected rows\nhint: the sources have them as scenarios/",
            folder.display()
        )));
    }
    files.sort_by_key(|p| {
        let name = p
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let letter = name.chars().next().unwrap_or(' ');
        let paper = "GDTMR".find(letter).unwrap_or(9);
        (
            paper,
            name[letter.len_utf8()..].parse::<u32>().unwrap_or(0),
            name,
        )
    });
    Ok(files)
}

/// Places a job as `hopbyte map --background` does: by the worst link, or by route costs of a metric.
fn remap(ask: &Remap<'_>) -> Result<Placement> {
    let (fabric, routing, allocation) = (ask.fabric, ask.routing, ask.allocation);
    let costs: Option<Vec<f32>> = match ask.metric {
        "worst-link" => None,
        "uniform" => {
            let n = allocation.nodes().len();
            let apart = (0..n * n).map(|i| if i / n == i % n { 0.0 } else { 1.0 });
            Some(apart.collect())
        }
        name => {
            let metric: Metric = name.parse().map_err(|e: String| JobError::refused(&e))?;
            let state = Some(ask.state);
            let machine = (fabric, routing);
            costs_for(Goal::RouteCost, machine, state, allocation, (metric, None))?
        }
    };
    let problem = Problem {
        background: Some(ask.state),
        current: Some(ask.current),
        objective: costs
            .as_deref()
            .map_or(Objective::WorstLink, Objective::RouteCost),
        ..Problem::new(fabric, routing, ask.exchange, allocation)
    };
    let options = Options {
        trials: Some(TRIALS),
        ..Options::default()
    };
    Ok(map(&problem, &options, &|_| {})?.0)
}

/// Bytes of a transfer in the records.
const BYTES: u64 = 64_000_000;

/// Probe analysis of a topobw run, by way of its output: the lines that `hopbyte probe analyse` reads, and its answer.
fn locate(fabric: &Fabric, routing: &Routing, phases: &[Vec<Measured>]) -> Result<Located> {
    let mut lines = String::new();
    for (phase, measured) in phases.iter().enumerate() {
        for m in measured {
            let record = TopobwRecord::of(fabric, (phase, ""), m, BYTES);
            lines.push_str(&serde_json::to_string(&record)?);
            lines.push('\n');
        }
    }
    let paths = results::parse(&[("model".into(), lines)], fabric, routing)?;
    let found = analyse(fabric, routing, &paths, TOLERANCE, &BTreeMap::new())?;
    let unexplained = found.unexplained.iter();
    Ok(Located {
        components: (found.components.iter())
            .map(|c| format!("{} {}", c.kind, c.name))
            .collect(),
        unexplained: unexplained
            .map(|p| Ok((fabric.find_node(&p.from)?, fabric.find_node(&p.to)?)))
            .collect::<Result<_>>()?,
    })
}
