//! `hopbyte view SOURCE… --fabric F`: a page with the machine and the load of its links.

use super::Answer;
use crate::args::{CounterArgs, FabricOption};
use crate::inputs;
use crate::output::Output;
use crate::report::{ReportInput, html, readings};
use anyhow::Result;
use hopbyte_apply::write_atomic;
use serde::Serialize;
use std::path::PathBuf;

/// What to show.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Counters, as `hopbyte links` reads them; without any the machine alone is shown
    #[arg(value_name = "SOURCE", num_args = 0..=2)]
    sources: Vec<PathBuf>,
    /// The machine.
    #[command(flatten)]
    fabric: FabricOption,
    /// What the counters do not say.
    #[command(flatten)]
    about: CounterArgs,
    /// Title of the page
    #[arg(long, default_value = "", hide_default_value = true)]
    title: String,
    /// The page to write; - for standard output
    #[arg(long, short, value_name = "FILE.html", default_value = "view.html")]
    out: PathBuf,
}

/// The answer for scripts.
#[derive(Serialize)]
struct Written<'a> {
    schema: &'static str,
    page: &'a str,
    bytes: usize,
    quantities: Vec<&'a str>,
}

/// Writes the page.
pub fn run(args: &Args, out: &mut Output) -> Result<Answer> {
    let machine = args.fabric.read(out)?;
    let mut input = ReportInput {
        title: args.title.clone(),
        fabric: &machine.fabric,
        routing: &machine.routing,
        job: None,
        readings: Vec::new(),
        readings_source: String::new(),
        notes: machine.notes.clone(),
        command: out.command.clone(),
    };
    if !args.sources.is_empty() {
        let read = inputs::reading(&args.sources, &machine.fabric, &args.about)?;
        input.readings = readings::loads(&read.state);
        let rows = (read.matched, read.unmatched);
        input.readings_source = readings::words(&read.state, &read.source, rows);
        input.notes.extend(read.notes);
    }
    let page = html(&input);
    if args.out.as_os_str() == "-" {
        out.text(&page)?;
        return Ok(Answer::Yes);
    }
    write_atomic(&args.out, &page)?;
    let name = args.out.display().to_string();
    if out.json {
        out.object(&Written {
            schema: "hopbyte.view/1",
            page: &name,
            bytes: page.len(),
            quantities: input.readings.iter().map(|r| r.name.as_str()).collect(),
        })?;
    } else {
        out.talk(format!("wrote {name}"));
    }
    Ok(Answer::Yes)
}
