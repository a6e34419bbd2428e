//! `hopbyte doctor`: which counters can be read here, and how to enable the others; which memory there is.

use crate::args::LiveArgs;
use crate::output::{Answer, Output, count};
use anyhow::Result;
use hopbyte_job::abilities;
use hopbyte_observe::sources::{Finding, State, doctor};
use serde::Serialize;
use std::path::PathBuf;

/// Places to examine.
#[derive(clap::Args, Debug)]
pub struct DoctorArgs {
    /// Name of the node, if a file has counters of several (default: the machine's own name)
    #[arg(long, value_name = "NODE")]
    name: Option<String>,
    /// Memory instead: kinds, nodes, page sizes, and the requests of jobs that this host can meet
    #[arg(long)]
    memory: bool,
    /// What the MPIs here can do instead: all launchers on the path, or this one
    #[arg(long, value_name = "LAUNCHER", num_args = 0..=1, default_missing_value = "")]
    mpi: Option<PathBuf>,
    /// Places of live counters.
    #[command(flatten)]
    live: LiveArgs,
}

/// One source.
#[derive(Serialize)]
struct SourceRow<'a> {
    schema: &'static str,
    #[serde(flatten)]
    finding: &'a Finding,
}

/// The last line.
#[derive(Serialize)]
struct Last {
    schema: &'static str,
    summary: DoctorSummary,
}

#[derive(Serialize)]
struct DoctorSummary {
    node: String,
    readable: usize,
    unreadable: usize,
    absent: usize,
}

const SCHEMA: &str = "hopbyte.doctor/1";

/// Prints the findings; yes if at least one source is readable.
pub fn run(args: &DoctorArgs, out: &mut Output) -> Result<Answer> {
    if let Some(named) = &args.mpi {
        let rows = abilities::check(named, None, None)?;
        match out.json {
            true => rows.iter().try_for_each(|row| out.object(row))?,
            false => out.text(&hopbyte_view::terminal::abilities_text(&rows))?,
        }
        return Ok([Answer::No, Answer::Yes][usize::from(abilities::launched(&rows))]);
    }
    if args.memory {
        let memory = hopbyte_job::memory::read(&args.live.root)?;
        out.text(&if out.json { memory.json } else { memory.text })?;
        return Ok(Answer::Yes);
    }
    let places = args.live.places(args.name.as_deref());
    let findings = doctor(&places);
    let of = |state| findings.iter().filter(|f| f.state == state).count();
    let summary = DoctorSummary {
        node: places.node.clone(),
        readable: of(State::Readable),
        unreadable: of(State::Unreadable),
        absent: of(State::Absent),
    };
    let answer = Answer::of(summary.readable > 0);
    if out.json {
        for finding in &findings {
            out.object(&SourceRow {
                schema: SCHEMA,
                finding,
            })?;
        }
        out.object(&Last {
            schema: SCHEMA,
            summary,
        })?;
        return Ok(answer);
    }
    out.line(format!(
        "# {}: {} can be read, {} cannot, {} not there",
        summary.node,
        count(summary.readable),
        count(summary.unreadable),
        count(summary.absent),
    ))?;
    for finding in &findings {
        out.text(&hopbyte_job::doctor::text(finding))?;
    }
    Ok(answer)
}
