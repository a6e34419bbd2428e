//! `hopbyte blame SOURCE --fabric F`: the cause of a slow network, from counters, jobs and routes.

use crate::args::{self, FabricOption, JobArgs, SourceArgs};
use crate::output::{Answer, Output};
use anyhow::Result;
use hopbyte_job::attribution::Attribution;
use hopbyte_job::blame::blame;
use hopbyte_view::terminal::blame_text;
use std::path::PathBuf;

/// The counters to read, and the jobs.
#[derive(clap::Args, Debug)]
pub struct BlameArgs {
    /// Counters, as `hopbyte links` reads them
    #[arg(value_name = "SOURCE", required = true, long_help = args::counters_help())]
    source: Vec<PathBuf>,
    /// The machine.
    #[command(flatten)]
    fabric: FabricOption,
    /// Properties of the counters that the file lacks.
    #[command(flatten)]
    counters: SourceArgs,
    /// Jobs and their nodes: names the victims, and the jobs that fill a link
    #[command(flatten)]
    jobs: JobArgs,
}

/// Prints the causes; exit code 1 if there are any.
pub fn run(args: &BlameArgs, out: &mut Output) -> Result<Answer> {
    let machine = args.fabric.read(out)?;
    let fabric = &machine.fabric;
    let reading = args.counters.read(&args.source, fabric)?;
    reading.notes.iter().for_each(|note| out.talk(note));
    let jobs = args.jobs.read(fabric, out)?;
    let state = &reading.state;
    let jobs = jobs.map(|jobs| Attribution::of(fabric, &machine.routing, state, &jobs));
    let found = blame(fabric, state, jobs.as_ref());
    if out.json {
        out.object(&found)?;
    } else {
        let text = blame_text(&found, out.colour());
        out.text(&text)?;
    }
    Ok(match found.causes.is_empty() {
        true => Answer::Yes,
        false => Answer::No,
    })
}
