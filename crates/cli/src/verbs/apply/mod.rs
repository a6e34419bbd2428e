//! `hopbyte apply MAPPING`: a saved mapping as launcher input, and a check of the launched placement.

mod check;

use crate::args::{launchers, read_machine};
use crate::output::{Answer, Output};
use anyhow::Result;
use hopbyte_apply::{Job, Launch, Launcher, Prepared, Refusal, write_atomic};
use hopbyte_job::{Document, failure::without_json, with_file};
use serde::Serialize;
use std::path::PathBuf;

/// The mapping and the launcher.
#[derive(clap::Args, Debug)]
pub struct ApplyArgs {
    /// Output of `hopbyte map --json`, or the mapping.json of `hopbyte map --out`
    #[arg(value_name = "MAPPING")]
    mapping: PathBuf,
    /// Launcher
    #[arg(long, visible_alias = "launcher", value_name = "LAUNCHER", value_parser = launchers())]
    emit: Option<Launcher>,
    /// Write into this file instead of printing
    #[arg(long, value_name = "FILE", requires = "emit")]
    to: Option<PathBuf>,
    /// Write it even if the launcher would make the run worse than necessary
    #[arg(long, requires = "emit")]
    force: bool,
    /// The machine, if its files have moved
    #[arg(long, value_name = "FABRIC")]
    fabric: Option<String>,
    #[command(flatten)]
    check: check::Settings,
}

/// Launch command of one launcher.
#[derive(Serialize)]
struct Use {
    schema: &'static str,
    launcher: &'static str,
    file_name: &'static str,
    command: Option<String>,
    refused: Option<Refusal>,
    warnings: Vec<String>,
    cannot: Option<String>,
}

/// Prints or writes one launcher's file, or prints the launch commands of all.
pub fn run(args: &ApplyArgs, out: &mut Output) -> Result<Answer> {
    let prints = args.emit.is_some() && args.to.is_none();
    without_json(out.json && prints, "a launcher's file")?;
    let mut saved = Document::read(&args.mapping)?;
    if let Some(fabric) = &args.fabric {
        saved.machine.fabric.clone_from(fabric);
    }
    let machine = read_machine(&saved.machine, out)?;
    let (allocation, placement) = saved.placed(&machine.fabric)?;
    let launch = Launch {
        fabric: &machine.fabric,
        allocation: &allocation,
        placement: &placement,
        mpich: args.check.mpich(),
        cores: saved.cores(),
        job: Some(Job {
            traffic: &saved.traffic.source,
            routing: &machine.routing,
        }),
    };
    let checks = args.check.check || args.check.ran.is_some();
    match args.emit {
        Some(launcher) => {
            if emit(args, launcher, &launch, out)? == Answer::No {
                return Ok(Answer::No);
            }
        }
        None if checks => {}
        None => return list(&launch, out),
    }
    if checks {
        // A rankfile has a core for every rank, as has a mapping with the nodes' inside.
        let cores = launch.cores.is_some() || args.emit.is_some_and(Launcher::names_cores);
        return check::run(&args.check, &launch, cores, out);
    }
    Ok(Answer::Yes)
}

/// Prints or writes one launcher's file, and prints its launch command.
fn emit(
    args: &ApplyArgs,
    launcher: Launcher,
    launch: &Launch<'_>,
    out: &mut Output,
) -> Result<Answer> {
    let Prepared { text, advice } = launch.prepare(launcher)?;
    if let Some(refusal) = &advice.refused {
        if !args.force {
            refuse(launcher, refusal, out);
            return Ok(Answer::No);
        }
        out.talk(format!("note: {}", refusal.why));
    }
    match &args.to {
        Some(path) => {
            write_atomic(path, &text)?;
            out.talk(format!("wrote {}", path.display()));
        }
        None => out.text(&text)?,
    }
    for warning in &advice.warnings {
        out.talk(format!("note: {warning}"));
    }
    if !advice.command.is_empty() {
        let name = args
            .to
            .as_ref()
            .map_or(launcher.file_name().into(), |p| p.display().to_string());
        out.talk(format!(
            "launch with: {}",
            with_file(&advice.command, &name)
        ));
    }
    Ok(Answer::Yes)
}

/// Explains why a file is not written.
pub fn refuse(launcher: Launcher, refusal: &Refusal, out: &mut Output) {
    out.talk(format!("refused: {}: {}", launcher.name(), refusal.why));
    out.talk(format!("instead: {}", refusal.instead));
}

/// Launch commands of all launchers.
fn list(launch: &Launch<'_>, out: &mut Output) -> Result<Answer> {
    let uses = Launcher::ALL.into_iter().map(|launcher| {
        let (known, cannot) = match launch.prepare(launcher) {
            Ok(prepared) => (Some(prepared.advice), None),
            Err(error) => (None, Some(error.to_string())),
        };
        Use {
            schema: "hopbyte.launcher/1",
            launcher: launcher.name(),
            file_name: launcher.file_name(),
            command: known
                .as_ref()
                .map(|a| a.command.clone())
                .filter(|c| !c.is_empty()),
            refused: known.as_ref().and_then(|a| a.refused.clone()),
            warnings: known.map_or(Vec::new(), |a| a.warnings),
            cannot,
        }
    });
    for entry in uses {
        if out.json {
            out.object(&entry)?;
            continue;
        }
        out.line(format!("--emit {}", entry.launcher))?;
        if let Some(command) = entry.command {
            out.line(format!("  {}", with_file(&command, entry.file_name)))?;
        }
        if let Some(refusal) = entry.refused {
            out.line(format!("  refused: {}", refusal.why))?;
            out.line(format!("  instead: {}", refusal.instead))?;
        }
        for line in entry.cannot.iter().flat_map(|c| c.lines()) {
            out.line(format!("  {line}"))?;
        }
        for warning in entry.warnings {
            out.line(format!("  note: {warning}"))?;
        }
    }
    Ok(Answer::Yes)
}
