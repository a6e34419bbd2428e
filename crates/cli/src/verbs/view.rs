//! `hopbyte view SOURCE… --fabric F`: a page with the machine and the load of its links.

use super::Answer;
use crate::args::FabricOption;
use crate::output::Output;
use crate::readings::ReadingOptions;
use crate::report::{ReportInput, html};
use anyhow::Result;
use hopbyte_apply::write_atomic;
use serde::Serialize;
use std::path::PathBuf;

/// What to show.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Counters: libgm text, Aries link CSV, Blue Gene link tables, `ldms_ls -l`; none shows the machine
    #[arg(value_name = "SOURCE")]
    sources: Vec<PathBuf>,
    /// The machine.
    #[command(flatten)]
    fabric: FabricOption,
    /// What the counters do not say.
    #[command(flatten)]
    readings: ReadingOptions,
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
        command: crate::output::command_line(),
    };
    if !args.sources.is_empty() {
        let readings = args.readings.read(&args.sources, &machine.fabric)?;
        input.readings = readings.loads();
        input.readings_source = readings.words(&machine.fabric);
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
