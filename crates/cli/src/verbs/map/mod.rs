//! `hopbyte map TRAFFIC --fabric F --nodes LIST`: where should the ranks go, and what is it worth?

mod answer;
mod node;
mod question;
mod report;
mod spread;

use super::Answer;
use super::apply::refuse;
use crate::output::Output;
use crate::progress::Progress;
use anyhow::{Context, Result};
use hopbyte_apply::{Launcher, Prepared, write_atomic};
use hopbyte_map::budget::{Stakes, weigh};
use hopbyte_map::{Options, map};
use std::path::{Path, PathBuf};

pub use answer::{Mapping, Record};
pub use question::{Asked, Goal, Question};
pub use report::page;

/// What to map, where, and how hard to look.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// What to map and where.
    #[command(flatten)]
    question: question::Asked,
    /// How hard to look.
    #[command(flatten)]
    effort: Effort,
    /// Where it is looked from.
    #[command(flatten)]
    spread: spread::Spread,
    /// What a move may cost.
    #[command(flatten)]
    moving: Moving,
    /// Print the file of one launcher instead: mpich-rank-order, openmpi-rankfile, openmpi-hostfile,
    /// slurm-hostfile, slurm-plane, hydra-hostfile, intel-machinefile, flux-hostfile, flux-taskmap,
    /// pals, node-order, csv, json
    #[arg(
        long,
        value_name = "LAUNCHER",
        help_heading = "Result",
        conflicts_with = "json"
    )]
    emit: Option<Launcher>,
    /// Write every launcher's file and the whole answer (mapping.json) into a folder
    #[arg(long, value_name = "FOLDER", help_heading = "Result")]
    out: Option<PathBuf>,
    /// Write a page that compares the placements, or with .svg a picture of them
    #[arg(long, value_name = "FILE.html|FILE.svg", help_heading = "Result")]
    report: Option<PathBuf>,
}

/// How hard to look.
#[derive(clap::Args, Clone, Debug)]
pub struct Effort {
    /// Time to search for, in seconds
    #[arg(long, default_value_t = 2.0, help_heading = "Search")]
    pub seconds: f64,
    /// Swaps to try instead of a time; the same on any machine and any number of threads
    #[arg(long, value_name = "N", help_heading = "Search")]
    pub trials: Option<u64>,
    /// Seed of everything random
    #[arg(long, default_value_t = 1, help_heading = "Search")]
    pub seed: u64,
    /// Threads to search on (0: one for every core)
    #[arg(long, default_value_t = 0, value_name = "N", help_heading = "Search")]
    pub threads: usize,
}

/// What a job that runs already may pay to move, and for what.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Moving {
    /// Ranks that may change their node; the best mapping for which so many move
    #[arg(long, value_name = "N", requires = "current", help_heading = "Moving")]
    migration_budget: Option<usize>,
    /// How long the job will still run where it is: the answer is to stay where a move does not pay
    #[arg(
        long,
        value_name = "SECONDS",
        requires = "current",
        help_heading = "Moving"
    )]
    remaining: Option<f64>,
    /// What a rank takes along when it moves
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 0.0,
        requires = "current",
        help_heading = "Moving"
    )]
    bytes_per_rank: f64,
    /// Share of the remaining time in which ranks wait for messages (1: all of it, the most a move can gain)
    #[arg(
        long,
        value_name = "RATIO",
        default_value_t = 1.0,
        requires = "remaining",
        help_heading = "Moving"
    )]
    communication: f64,
}

impl Moving {
    /// Weighs what a search found, where it was asked for.
    fn weigh(&self, question: &Question, found: Mapping) -> Result<Mapping> {
        if self.migration_budget.is_none() && self.remaining.is_none() {
            return Ok(found);
        }
        let stakes = Stakes {
            budget: self.migration_budget,
            remaining_seconds: self.remaining,
            communication_ratio: self.communication,
            bytes_per_task: self.bytes_per_rank,
        };
        let searched = (found.placement, found.certificate);
        let (placement, certificate, migration) = weigh(&question.problem(), searched, &stakes)?;
        Ok(Mapping {
            placement,
            certificate,
            migration: Some(migration),
            seeds: found.seeds,
            inside: None,
        })
    }
}

impl From<&Effort> for Options {
    fn from(effort: &Effort) -> Self {
        Self {
            seconds: effort.seconds,
            trials: effort.trials,
            seed: effort.seed,
            threads: effort.threads,
            ..Self::default()
        }
    }
}

/// Maps, and says what it is worth.
pub fn run(args: &Args, out: &mut Output) -> Result<Answer> {
    let question = args.question.read(out)?;
    let found = match args.spread.asked() {
        true => spread::best_of(
            &args.spread,
            &question,
            &args.effort,
            args.out.as_deref(),
            out,
        )?,
        false => Some(search(&question, &args.effort, out)?),
    };
    let Some(mapping) = found else {
        return Ok(Answer::Yes);
    };
    let mut mapping = args.moving.weigh(&question, mapping)?;
    match &question.node {
        // A job that may move keeps its cores where it keeps its nodes.
        Some(node) if mapping.migration.is_none() => node.arrange(&question, &mut mapping, out)?,
        _ => {}
    }
    if let Some(folder) = &args.out {
        write_files(&question, &mapping, folder, out)?;
    }
    if let Some(path) = &args.report {
        write_atomic(
            path,
            &report::page(&question, &mapping, &out.command, path)?,
        )?;
        out.talk(format!("wrote {}", path.display()));
    }
    if let Some(launcher) = args.emit {
        let Prepared { text, advice } = mapping.launch(&question).prepare(launcher)?;
        if let Some(refusal) = &advice.refused {
            refuse(launcher, refusal, out);
            return Ok(Answer::No);
        }
        out.text(&text)?;
        out.talk(mapping.verdict_text());
    } else if out.json {
        out.object(&mapping.record(&question))?;
    } else {
        mapping.write(&question, out)?;
    }
    Ok(Answer::Yes)
}

/// Searches, with progress on standard error.
pub fn search(question: &Question, effort: &Effort, out: &Output) -> Result<Mapping> {
    let progress = Progress::new(out.quiet);
    let problem = question.problem();
    let (placement, certificate) = map(&problem, &Options::from(effort), &|p| {
        progress.show(
            p.done,
            &format!("best {:.4e}, bound {:.4e}", p.best, p.bound),
        );
    })?;
    Ok(Mapping {
        placement,
        certificate,
        migration: None,
        seeds: 1,
        inside: None,
    })
}

/// Writes `mapping.json` and the files of all launchers that have words for the placement.
pub fn write_files(
    question: &Question,
    mapping: &Mapping,
    folder: &Path,
    out: &mut Output,
) -> Result<Vec<PathBuf>> {
    std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let saved = folder.join("mapping.json");
    // Beside a mapping from before, files that this one has none of would be those of that one.
    let again = saved.exists();
    let (mut written, mut removed) = (Vec::new(), Vec::new());
    for launcher in Launcher::ALL.into_iter().filter(|l| *l != Launcher::Json) {
        let path = folder.join(launcher.file_name());
        match mapping.launch(question).prepare(launcher) {
            Ok(Prepared { text, advice }) => match advice.refused {
                Some(refusal) => refuse(launcher, &refusal, out),
                None => {
                    write_atomic(&path, &text)?;
                    written.push(path);
                    continue;
                }
            },
            Err(_) if launcher.blocks_only() => {}
            Err(error) => out.talk(format!("no {}: {error}", launcher.file_name())),
        }
        if again && path.exists() {
            let name = path.display().to_string();
            std::fs::remove_file(&path).with_context(|| format!("removing {name}"))?;
            removed.push(launcher.file_name());
        }
    }
    if !removed.is_empty() {
        out.talk(format!(
            "removed of an earlier mapping: {}",
            removed.join(", ")
        ));
    }
    let text = serde_json::to_string_pretty(&mapping.record(question))? + "\n";
    write_atomic(&saved, &text)?;
    written.push(saved);
    out.talk(format!(
        "wrote {} files into {}",
        written.len(),
        folder.display()
    ));
    Ok(written)
}
