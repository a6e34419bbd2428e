//! `hopbyte blame SOURCE --fabric F`: the cause of a slow network, from counters, jobs and routes.

use crate::args::LoadArgs;
use crate::output::{Answer, Output};
use anyhow::Result;
use hopbyte_job::blame::{WINDOW, blame};
use hopbyte_view::terminal::blame_text;

/// The counters to read, and the jobs.
#[derive(clap::Args, Debug)]
pub struct BlameArgs {
    /// Machine, counters and jobs.
    #[command(flatten)]
    load: LoadArgs,
}

/// Prints the causes; exit code 1 if there are any.
pub fn run(args: &BlameArgs, out: &mut Output) -> Result<Answer> {
    let (machine, reading, jobs) = args.load.read(true, Some(WINDOW), out)?;
    let fabric = &machine.fabric;
    let state = &reading.state;
    let jobs = jobs.map(|jobs| args.load.attribution(&machine, &reading, &jobs));
    let jobs = jobs.transpose()?;
    let found = blame(fabric, &machine.routing, state, jobs.as_ref())?;
    if out.json {
        out.object(&found)?;
    } else {
        let text = blame_text(&found, out.colour());
        out.text(&text)?;
    }
    Ok(Answer::of(found.causes.is_empty()))
}
