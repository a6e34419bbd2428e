//! `hopbyte sweep SCENARIO…`: sensitivity of a job to each rate and delay of its machine.

mod show;

use crate::args::part;
use crate::output::{Answer, Output};
use anyhow::Result;
use hopbyte_apply::write_atomic;
use hopbyte_collect::columns::{Column, table};
use hopbyte_fabric::InputError;
use hopbyte_job::scenario::{Asked, level_of, read};
use hopbyte_job::sweep::journal::{self, Journal, RunRecord};
use hopbyte_job::sweep::{identity, runs};
use hopbyte_job::{check_ending, write_picture};
use hopbyte_model::sweep::{Axis, Plan, Point, Run, sensitivities};
use hopbyte_model::{PlacementRule, Scenario};
use hopbyte_view::report::sweep_svg;
use hopbyte_view::terminal::Progress;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Scenarios, axes and outputs.
#[derive(clap::Args, Debug)]
pub struct SweepArgs {
    /// Scenarios: TOML or JSON files; several are compared
    #[arg(value_name = "SCENARIO", required = true)]
    scenarios: Vec<PathBuf>,
    /// Factors on the bandwidth of links between routers (1/4,1/2,3/4,1 when no axis is named)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = factor, help_heading = "Operating points")]
    link: Vec<f64>,
    /// Factors on the bandwidth between nodes and network
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = factor, help_heading = "Operating points")]
    injection: Vec<f64>,
    /// Factors on latencies
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = factor, help_heading = "Operating points")]
    latency: Vec<f64>,
    /// Factors on the message rate of nodes
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = factor, help_heading = "Operating points")]
    message_rate: Vec<f64>,
    /// Factors on the speed of processors
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = factor, help_heading = "Operating points")]
    cpu: Vec<f64>,
    /// Factors on the bandwidth of nodes' memories
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = factor, help_heading = "Operating points")]
    memory: Vec<f64>,
    /// Factors on the length of the scenarios' interruptions (0: none)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = factor, help_heading = "Operating points")]
    interruptions: Vec<f64>,
    /// All combinations of the axes' factors (default: one axis at a time)
    #[arg(long, help_heading = "Operating points")]
    cross: bool,
    /// Runs per point, each with a seed of its own
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Trials")]
    trials: u32,
    /// Placement in place of the scenario's: linear, round-robin, random
    #[arg(long, value_name = "RULE", help_heading = "Trials")]
    placement: Option<String>,
    /// Variation of computing times, standard deviation over mean, in place of the scenario's
    #[arg(long, value_name = "SHARE", help_heading = "Trials")]
    noise: Option<f64>,
    /// Level in place of the scenarios': static, fluid, stalls, packet
    #[arg(long, value_name = "LEVEL")]
    level: Option<String>,
    /// Write all runs as Parquet; a journal is kept beside it, from which a killed sweep resumes
    #[arg(long, short, value_name = "FILE.parquet")]
    out: Option<PathBuf>,
    /// Draw time over each axis
    #[arg(long, value_name = "FILE.svg|FILE.pdf")]
    plot: Option<PathBuf>,
    /// Only part I of N, for array jobs; without it, the parts are gathered
    #[arg(long, value_name = "I/N", value_parser = part, requires = "out")]
    points: Option<(u64, u64)>,
    /// Concurrent runs (default: number of processors)
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
}

/// A factor: `0.25` or `1/4`.
fn factor(text: &str) -> Result<f64, String> {
    let number = |t: &str| t.trim().parse::<f64>().ok().filter(|n| n.is_finite());
    let value = match text.split_once('/') {
        Some((a, b)) => number(a).zip(number(b)).map(|(a, b)| a / b),
        None => number(text),
    };
    value
        .filter(|v| v.is_finite())
        .ok_or_else(|| format!("found '{text}', expected a factor such as 0.25 or 1/4"))
}

/// Default factors: the link bandwidths of paper 001.
const QUARTERS: [f64; 4] = [0.25, 0.5, 0.75, 1.0];

/// Runs the sweep.
pub fn run(args: &SweepArgs, out: &mut Output) -> Result<Answer> {
    check_ending("--plot", args.plot.as_deref(), false)?;
    let plan = args.plan();
    let scenarios = args.scenarios()?;
    let points = plan.points(&scenarios)?;
    let mut asked = Vec::new();
    for scenario in &scenarios {
        let one = Asked::of(scenario)?;
        one.machine.notes.iter().for_each(|note| out.talk(note));
        asked.push(one);
        args.remark(scenario, out)?;
    }
    let id = identity(&plan, &scenarios)?;
    let (mut done, files) = match &args.out {
        Some(path) => {
            let found = journal::read_all(path, &id, points.len() as u64)?;
            (found.done, found.files)
        }
        None => (BTreeMap::new(), Vec::new()),
    };
    let mine = |i: &u64| args.points.is_none_or(|(part, of)| i % of == part - 1);
    let all = points.len() as u64;
    let left: Vec<u64> = (0..all)
        .filter(|i| mine(i) && !done.contains_key(i))
        .collect();
    if !done.is_empty() {
        out.talk(format!("{} of {all} runs were done before", done.len()));
    }
    let mut kept = match &args.out {
        Some(path) if !left.is_empty() => {
            Some(Journal::open(journal::place(path, args.points), &id, all)?)
        }
        _ => None,
    };
    let work = runs::Work {
        scenarios: &scenarios,
        asked: &asked,
        points: &points,
        jobs: args.jobs.unwrap_or_else(runs::processors).max(1),
    };
    let progress = Progress::new(out.quiet);
    let show = |runs: usize| {
        let share = runs as f64 / left.len() as f64;
        progress.show(share, &format!("{runs} of {} runs", left.len()));
    };
    work.run(&left, &show, |record| {
        // Read back from its line, so that a run is the same with and without a journal.
        let line = serde_json::to_string(&record)?;
        if let Some(journal) = &mut kept {
            journal.line(&line)?;
        }
        done.insert(record.run, serde_json::from_str(&line)?);
        Ok(())
    })?;
    if out.json {
        for record in done.values().filter(|r| mine(&r.run)) {
            out.object(record)?;
        }
    }
    // Parts leave gathering to a run without --points, even the part that ends last.
    if (done.len() as u64) < all || args.points.is_some() {
        out.talk(format!(
            "{} of {all} runs are done; without --points the rest is run, and all gathered",
            done.len()
        ));
        return Ok(Answer::Yes);
    }
    finish(args, &plan, &scenarios, &points, &done, out)?;
    if let Some(path) = &args.out {
        for file in files.into_iter().chain([journal::place(path, None)]) {
            let _ = std::fs::remove_file(file);
        }
    }
    Ok(Answer::Yes)
}

fn finish(
    args: &SweepArgs,
    plan: &Plan,
    scenarios: &[Scenario],
    points: &[Point],
    done: &BTreeMap<u64, RunRecord>,
    out: &mut Output,
) -> Result<()> {
    let runs: Vec<Run> = points
        .iter()
        .zip(done.values())
        .map(|(&point, record)| Run {
            point,
            seconds: record.time_seconds,
            binds: record.binds.clone(),
        })
        .collect();
    let found = sensitivities(plan, &runs);
    let answer = show::Sweep {
        scenarios,
        trials: plan.trials,
        found: &found,
    };
    if let Some(path) = &args.out {
        write_runs(path, plan, scenarios, done)?;
        out.talk(format!("{} runs are in {}", done.len(), path.display()));
    }
    if let Some(path) = &args.plot {
        write_picture(path, &sweep_svg(scenarios, &found, &out.command))?;
        out.talk(format!("the picture is in {}", path.display()));
    }
    answer.write(out)
}

fn write_runs(
    path: &Path,
    plan: &Plan,
    scenarios: &[Scenario],
    done: &BTreeMap<u64, RunRecord>,
) -> Result<()> {
    let number = |f: fn(&RunRecord) -> f64| Column::Number(done.values().map(f).collect());
    let whole = |f: fn(&RunRecord) -> u64| Column::Whole(done.values().map(f).collect());
    let text =
        |f: fn(&RunRecord) -> &str| Column::Text(done.values().map(|r| f(r).into()).collect());
    let columns = [
        ("run", whole(|r| r.run)),
        ("scenario", text(|r| &r.scenario)),
        ("link_factor", number(|r| r.point.link)),
        ("injection_factor", number(|r| r.point.injection)),
        ("latency_factor", number(|r| r.point.latency)),
        ("message_rate_factor", number(|r| r.point.message_rate)),
        ("cpu_factor", number(|r| r.point.cpu)),
        ("memory_factor", number(|r| r.point.memory)),
        ("interruptions_factor", number(|r| r.point.interruptions)),
        ("trial", whole(|r| r.trial.into())),
        ("seed", whole(|r| r.seed)),
        ("time_seconds", number(|r| r.time_seconds)),
        ("bound_seconds", number(|r| r.bound_seconds)),
        ("bound_resource", text(|r| &r.bound_resource)),
        ("network_bytes", number(|r| r.network_bytes)),
        ("flows", whole(|r| r.flows)),
        ("binds", text(|r| &r.binds)),
        ("binds_ratio", number(|r| r.binds_ratio)),
    ];
    let texts = scenarios.iter().map(Scenario::to_toml);
    let texts = texts.collect::<Result<Vec<_>, _>>()?;
    let about = [
        ("hopbyte.sweep", serde_json::to_string(plan)?),
        ("hopbyte.scenarios", serde_json::to_string(&texts)?),
    ];
    Ok(write_atomic(path, &table(&columns, &about)?)?)
}

impl SweepArgs {
    fn plan(&self) -> Plan {
        let mut axes: Vec<(Axis, Vec<f64>)> = Axis::ALL
            .into_iter()
            .zip([
                &self.link,
                &self.injection,
                &self.latency,
                &self.message_rate,
                &self.cpu,
                &self.memory,
                &self.interruptions,
            ])
            .filter(|(_, factors)| !factors.is_empty())
            .map(|(axis, factors)| (axis, factors.clone()))
            .collect();
        if axes.is_empty() {
            axes.push((Axis::Link, QUARTERS.to_vec()));
        }
        Plan {
            axes,
            cross: self.cross,
            trials: self.trials,
        }
    }

    fn scenarios(&self) -> Result<Vec<Scenario>> {
        let mut list: Vec<Scenario> = Vec::new();
        for path in &self.scenarios {
            let mut scenario = read(path)?;
            if let Some(level) = &self.level {
                scenario.level = level_of(level)?;
            }
            if let Some(rule) = &self.placement {
                scenario.job.placement = match rule.as_str() {
                    "linear" => PlacementRule::Linear,
                    "round-robin" => PlacementRule::RoundRobin,
                    "random" => PlacementRule::Random,
                    _ => anyhow::bail!(
                        "--placement: found '{rule}', expected linear, round-robin or random"
                    ),
                };
            }
            scenario.noise = self.noise.unwrap_or(scenario.noise);
            scenario.check()?;
            if list.iter().any(|s| s.name == scenario.name) {
                let file = path.display().to_string();
                let error = InputError::new(file, &scenario.name, "a name of its own");
                return Err(error
                    .hint("results are distinguished by the scenario's name")
                    .into());
            }
            list.push(scenario);
        }
        Ok(list)
    }

    /// Reports axes without effect.
    fn remark(&self, scenario: &Scenario, out: &mut Output) -> Result<()> {
        if !self.message_rate.is_empty() && scenario.parameters()?.messages_per_s.is_none() {
            out.talk(format!(
                "{}: no message rate limits this network; parameters.messages_per_s sets one",
                scenario.name
            ));
        }
        Ok(())
    }
}
