//! The mapper and the probe analysis for rows of `model reproduce`, since a model depends on neither.

use crate::probe::explain::{Path, TOLERANCE, explain};
use crate::question::route_costs;
use anyhow::{Context, Result};
use hopbyte_fabric::{Fabric, Placement, Routing};
use hopbyte_map::{Objective, Options, Problem, map};
use hopbyte_model::reproduce::{Located, Remap, Tools};
use hopbyte_model::topobw::Measured;
use hopbyte_oracle::Metric;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Trials of a remapping: a number instead of a time, so that every machine finds the same placement.
const TRIALS: u64 = 200_000;

/// The search of `hopbyte map` and the analysis of `hopbyte probe analyse`.
pub const TOOLS: Tools<'static> = Tools {
    remap: &|ask| remap(ask).map_err(|e| e.to_string()),
    locate: &|fabric, routing, pairs| locate(fabric, routing, pairs).map_err(|e| e.to_string()),
};

/// Rows in the order of papers: letters, then numbers.
///
/// # Errors
/// The folder cannot be read.
pub fn row_files(folder: &std::path::Path) -> Result<Vec<PathBuf>> {
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
            let metric: Metric = name.parse().map_err(anyhow::Error::msg)?;
            let state = Some(ask.state);
            Some(route_costs(
                fabric, routing, state, allocation, metric, None,
            )?)
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

/// Probe analysis of a topobw run.
fn locate(fabric: &Fabric, routing: &Routing, measured: &[Measured]) -> Result<Located> {
    let mut paths = Vec::with_capacity(measured.len());
    for m in measured {
        let pair = &m.pair;
        let mut route = Vec::new();
        let found = routing.route(fabric, pair.from, pair.to, &mut route);
        found.map_err(|e| anyhow::anyhow!("{}", e.describe(fabric)))?;
        let mode = if pair.shared { "shared" } else { "exclusive" };
        paths.push(Path {
            from: pair.from,
            to: pair.to,
            class: (pair.kind.clone(), mode.to_owned()),
            route,
            rate: m.bytes_per_s,
        });
    }
    let found = explain(fabric, &paths, TOLERANCE, &BTreeMap::new());
    let components = found.findings.iter().map(|f| f.component);
    Ok(Located {
        components: components
            .map(|c| format!("{} {}", c.kind(), c.name(fabric)))
            .collect(),
        unexplained: (found.unexplained.iter())
            .map(|&i| (paths[i].from, paths[i].to))
            .collect(),
    })
}
