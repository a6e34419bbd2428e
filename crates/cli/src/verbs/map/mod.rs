//! `hopbyte map TRAFFIC --fabric F --nodes LIST`: places the ranks, with a certificate.

mod question;

use super::apply::refuse;
use crate::args::{launchers, part};
use crate::interrupt;
use crate::output::{Answer, Output, Table, count};
use anyhow::Result;
use hopbyte_apply::{Launcher, Prepared};
use hopbyte_job::mapping::{FEW_RANKS, MAPPING_FILE, Saved, WrittenFiles, check_folder};
use hopbyte_job::spread::{Searched, Spread, Tried, best_of};
use hopbyte_job::{Document, Effort, Mapping, Question, check_ending, search, write_picture};
use hopbyte_map::budget::Stakes;
use hopbyte_view::report::{About, mapping_page};
use hopbyte_view::terminal::{Progress, mapping_text};
use std::path::PathBuf;

/// Question, effort and outputs.
#[derive(clap::Args, Debug)]
pub struct MapArgs {
    /// The question.
    #[command(flatten)]
    question: question::Asked,
    /// Effort of the search.
    #[command(flatten)]
    effort: EffortArgs,
    /// Predict the run time before and after, of a job recorded with --trace
    #[arg(long, help_heading = "Result")]
    predict: bool,
    /// Rates and delays beyond the links for --predict: as for predict
    #[arg(
        long,
        value_name = "NAME|FILE",
        requires = "predict",
        help_heading = "Result"
    )]
    network: Option<String>,
    /// Seeds and parts.
    #[command(flatten)]
    spread: SpreadArgs,
    /// Migration.
    #[command(flatten)]
    moving: Moving,
    /// Print the file of one launcher instead
    #[arg(
        long,
        value_name = "LAUNCHER",
        value_parser = launchers(),
        help_heading = "Result",
        conflicts_with = "json"
    )]
    emit: Option<Launcher>,
    /// Write all launchers' files and the whole answer (mapping.json) into a folder
    #[arg(long, value_name = "FOLDER", help_heading = "Result")]
    out: Option<PathBuf>,
    /// Write a page that compares the placements, or a picture with .svg or .pdf
    #[arg(
        long,
        value_name = "FILE.html|FILE.svg|FILE.pdf",
        help_heading = "Result"
    )]
    report: Option<PathBuf>,
}

/// Effort of the search.
#[derive(clap::Args, Clone, Debug)]
struct EffortArgs {
    /// Search time in seconds; Ctrl-C ends it early and keeps the best placement so far
    #[arg(long, default_value_t = Effort::DEFAULT.seconds, help_heading = "Search")]
    seconds: f64,
    /// Number of swaps in place of a time; the same result on any machine and any number of threads
    #[arg(long, value_name = "N", help_heading = "Search")]
    trials: Option<u64>,
    /// Seed of all random choices
    #[arg(long, default_value_t = Effort::DEFAULT.seed, help_heading = "Search")]
    seed: u64,
    /// Search threads, at most 1024 (0: one per core)
    #[arg(long, default_value_t = Effort::DEFAULT.threads, value_name = "N", help_heading = "Search")]
    threads: usize,
}

impl EffortArgs {
    fn effort(&self) -> Effort {
        Effort {
            seconds: self.seconds,
            trials: self.trials,
            seed: self.seed,
            threads: self.threads,
            stop: Some(interrupt::flag()),
        }
    }
}

/// Number of seeds, and the part of them to search here.
#[derive(clap::Args, Clone, Debug, Default)]
struct SpreadArgs {
    /// Search from so many seeds, --seed and the next, each for the whole --seconds or --trials, and keep the best;
    /// results are kept in --out, from which an interrupted search resumes
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..=1_000_000),
        help_heading = "Search"
    )]
    seeds: Option<u64>,
    /// Only part I of N of the seeds, for array jobs; without it, the parts are gathered
    #[arg(
        long,
        value_name = "I/N",
        value_parser = part,
        requires = "seeds",
        requires = "out",
        conflicts_with_all = ["emit", "report"],
        help_heading = "Search"
    )]
    part: Option<(u64, u64)>,
}

/// Migration of a running job: budget, remaining time and cost.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Moving {
    /// Migration budget: ranks that may change their node
    #[arg(long, value_name = "N", requires = "current", help_heading = "Moving")]
    migration_budget: Option<usize>,
    /// Remaining time of the job without a migration: the advice is to stay if a move does not pay
    #[arg(
        long,
        value_name = "SECONDS",
        requires = "current",
        help_heading = "Moving"
    )]
    remaining: Option<f64>,
    /// Data of a rank that migrates
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 0.0,
        requires = "current",
        help_heading = "Moving"
    )]
    bytes_per_rank: f64,
    /// Share of the remaining time in which ranks wait for messages (1: all of it, the largest possible gain)
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
    /// The migration's stakes, if given.
    fn stakes(&self) -> Option<Stakes> {
        (self.migration_budget.is_some() || self.remaining.is_some()).then_some(Stakes {
            budget: self.migration_budget,
            remaining_seconds: self.remaining,
            communication_ratio: self.communication,
            bytes_per_task: self.bytes_per_rank,
        })
    }
}

/// Maps and prints the certificate.
pub fn run(args: &MapArgs, out: &mut Output) -> Result<Answer> {
    let mut question = args.question.asked()?.read()?;
    question.keep_hosts |= args.emit.is_some_and(Launcher::whole_hosts);
    say_notes(&question, out);
    args.out.as_deref().map(check_folder).transpose()?;
    check_ending("--report", args.report.as_deref(), true)?;
    let Some(mapping) = find(args, &question, out)? else {
        return Ok(Answer::Yes);
    };
    let mut mapping = match args.moving.stakes() {
        Some(stakes) => mapping.weighed(&question, &stakes, &args.effort.effort())?,
        None => mapping,
    };
    question.settle(&mapping.placement)?;
    if args.predict {
        mapping = mapping.timed(&question, args.network.as_deref())?;
    }
    if mapping.certificate.interrupted {
        out.talk("interrupted: this is the best placement so far; Ctrl-C again ends at once");
    }
    match &question.node {
        // A job that may migrate keeps its cores on the nodes that it keeps.
        Some(node) if mapping.migration.is_none() => {
            if let Some(note) = node.arrange(&question, &mut mapping)? {
                out.talk(note);
            }
        }
        _ => {}
    }
    let folder = args.out.as_deref();
    let saved = folder.map(|folder| Saved::save(&question, &mapping, folder));
    // A closed pipe does not keep the files from being written, nor a full disk the answer from being printed.
    let printed = print(args, &question, &mapping, out).and_then(|answer| {
        out.flush()?;
        Ok(answer)
    });
    let complete = write_more(args, &question, &mapping, saved.transpose()?, out)?;
    let answer = printed?;
    Ok(if complete { answer } else { Answer::No })
}

/// Prints the answer.
fn print(
    args: &MapArgs,
    question: &Question,
    mapping: &Mapping,
    out: &mut Output,
) -> Result<Answer> {
    if let Some(launcher) = args.emit {
        let Prepared { text, advice } = mapping.launch(question).prepare(launcher)?;
        if let Some(refusal) = &advice.refused {
            refuse(launcher, refusal, out);
            return Ok(Answer::No);
        }
        out.text(&text)?;
        out.talk(mapping.verdict_text());
    } else if out.json {
        out.object(&Document::of(question, mapping))?;
    } else {
        out.text(&mapping_text(mapping, question, out.colour()))?;
    }
    Ok(Answer::Yes)
}

/// Writes the launchers' files and the page, which may take seconds; false if they are skipped after an interrupt.
fn write_more(
    args: &MapArgs,
    question: &Question,
    mapping: &Mapping,
    saved: Option<Saved<'_>>,
    out: &mut Output,
) -> Result<bool> {
    if saved.is_none() && args.report.is_none() {
        return Ok(true);
    }
    if interrupt::end_at_once() && mapping.placement.tasks() > FEW_RANKS {
        let folder = args.out.iter().map(|folder| {
            let saved = folder.join(MAPPING_FILE);
            format!(
                "the launchers' files (hopbyte apply {} --emit LAUNCHER writes one)",
                saved.display()
            )
        });
        let page = args.report.iter().map(|path| path.display().to_string());
        let skipped: Vec<String> = folder.chain(page).collect();
        out.warn(format!(
            "interrupted, so not written for more than {} ranks: {}",
            count(FEW_RANKS),
            skipped.join(", ")
        ));
        return Ok(false);
    }
    if let (Some(saved), Some(folder)) = (saved, &args.out) {
        let files = saved.launchers()?;
        say_written(&files, out);
        out.talk(format!(
            "wrote {} files into {}",
            files.written.len(),
            folder.display()
        ));
    }
    if let Some(path) = &args.report {
        let page = mapping_page(question, mapping, &About::file(path, &out.command))?;
        write_picture(path, &page)?;
        out.talk(format!("wrote {}", path.display()));
    }
    Ok(true)
}

/// Remarks of the readers of machine and counters.
pub fn say_notes(question: &Question, out: &mut Output) {
    let background = question.background.iter().flat_map(|b| &b.notes);
    for note in question.machine.notes.iter().chain(background) {
        out.talk(note);
    }
    question.allocation_notes().iter().for_each(|n| out.talk(n));
}

/// Searches from one seed or several; `None` if only a part of them was searched.
fn find(args: &MapArgs, question: &Question, out: &mut Output) -> Result<Option<Mapping>> {
    let effort = args.effort.effort();
    let progress = Progress::new(out.quiet);
    let show = |p: hopbyte_map::Progress| {
        progress.show(
            p.done,
            &format!(
                "best {:.4e}, bound {:.4e} (Ctrl-C keeps the best)",
                p.best, p.bound
            ),
        );
    };
    let Some(seeds) = args.spread.seeds else {
        return Ok(Some(search(question, &effort, &show)?));
    };
    let spread = Spread {
        seeds,
        part: args.spread.part,
        folder: args.out.clone(),
    };
    match best_of(
        &spread,
        question,
        &effort,
        &mut |note| out.talk(note),
        &show,
    )? {
        Searched::Whole(mapping) => Ok(Some(*mapping)),
        Searched::Part(tried) => {
            write_tried(&tried, out)?;
            Ok(None)
        }
    }
}

/// Results of the seeds of one part.
fn write_tried(tried: &[Tried], out: &mut Output) -> Result<()> {
    if out.json {
        return Ok(tried.iter().try_for_each(|t| out.object(t))?);
    }
    let objective = tried.first().map_or("objective", |t| &t.objective);
    let mut table = Table::new(&["seed", objective, "ties by", "swaps tried"]);
    for t in tried {
        let (value, tie) = (format!("{:.6e}", t.value), format!("{:.6e}", t.tie));
        let trials = count(usize::try_from(t.trials).unwrap_or(usize::MAX));
        table.row([t.seed.to_string(), value, tie, trials]);
    }
    out.table(&table)?;
    out.talk("the same command without --part gathers the parts and searches from the rest");
    Ok(())
}

/// Launchers without a file, and other remarks on the output.
fn say_written(files: &WrittenFiles, out: &mut Output) {
    for (launcher, refusal) in &files.refused {
        refuse(*launcher, refusal, out);
    }
    files.notes.iter().for_each(|note| out.talk(note));
}
