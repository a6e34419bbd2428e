//! `hopbyte view SOURCE… --fabric F`: a page with the machine and the load of its links.

use crate::args::{FabricOption, LiveJobArgs, SourceArgs, TlsFiles};
use crate::output::{Answer, Output};
use anyhow::{Context, Result};
use hopbyte_apply::write_atomic;
use hopbyte_fabric::InputError;
use hopbyte_job::Machine;
use hopbyte_serve::door::Doors;
use hopbyte_serve::http;
use hopbyte_serve::page::Live;
use hopbyte_view::draw::Signs;
use hopbyte_view::report::{ReportInput, html, readings};
use serde::Serialize;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Machine, counters and output.
#[derive(clap::Args, Debug)]
pub struct ViewArgs {
    /// Counters, as `hopbyte links` reads them; without any the machine alone is shown
    #[arg(value_name = "SOURCE", num_args = 0..)]
    sources: Vec<PathBuf>,
    /// The machine.
    #[command(flatten)]
    fabric: FabricOption,
    /// Properties of the counters that their files lack.
    #[command(flatten)]
    counters: SourceArgs,
    /// Title of the page
    #[arg(long, default_value = "", hide_default_value = true)]
    title: String,
    /// The page to write; - for standard output
    #[arg(long, short, value_name = "FILE.html", default_value = "view.html")]
    out: PathBuf,
    /// Serve the page on the loopback address instead, and follow the counters: of a collector, of its store, or of
    /// files as they change
    ///
    /// Prints the address to open, with a token that works once; after each use the next one is printed. Ends with
    /// Ctrl-C.
    #[arg(
        long,
        value_name = "PORT",
        num_args = 0..=1,
        default_missing_value = "0",
        requires = "sources",
        help_heading = "Live"
    )]
    serve: Option<u16>,
    /// Seconds between checks for changed counters
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 2.0,
        requires = "serve",
        help_heading = "Live"
    )]
    every: f64,
    /// Of a store: the first time of the history, in seconds since 1970 (default: ten minutes before its last tick);
    /// the last one is --at
    #[arg(long, value_name = "TIME", requires = "serve", help_heading = "Live")]
    from: Option<f64>,
    #[command(flatten)]
    jobs: LiveJobArgs,
    /// Certificate.
    #[command(flatten, next_help_heading = "Live")]
    tls: TlsFiles,
}

/// The JSON answer.
#[derive(Serialize)]
struct Written<'a> {
    schema: &'static str,
    page: &'a str,
    bytes: usize,
    quantities: Vec<&'a str>,
}

/// Says that a page or picture was written.
pub fn written(page: &Path, bytes: usize, quantities: Vec<&str>, out: &mut Output) -> Result<()> {
    let page = &page.display().to_string();
    if out.json {
        let schema = "hopbyte.view/1";
        out.object(&Written {
            schema,
            page,
            bytes,
            quantities,
        })?;
    } else {
        out.talk(format!("wrote {page}"));
    }
    Ok(())
}

/// Writes the page.
pub fn run(args: &ViewArgs, out: &mut Output) -> Result<Answer> {
    let machine = args.fabric.read(out)?;
    if let Some(port) = args.serve {
        return serve(args, machine, port, out);
    }
    args.jobs.none("--serve, which follows them,")?;
    let mut input = ReportInput {
        title: args.title.clone(),
        fabric: &machine.fabric,
        routing: &machine.routing,
        job: None,
        readings: Vec::new(),
        signs: Signs::of(&machine.fabric, None),
        readings_source: String::new(),
        notes: machine.notes.clone(),
        command: out.command.clone(),
    };
    if !args.sources.is_empty() {
        let read = args.counters.read(&args.sources, &machine.fabric, None)?;
        input.readings = readings::loads(&read.state);
        input.signs = Signs::of(&machine.fabric, Some(&read.state));
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
    let quantities = input.readings.iter().map(|r| r.name.as_str()).collect();
    written(&args.out, page.len(), quantities, out)?;
    Ok(Answer::Yes)
}

/// Address of the page, as JSON.
#[derive(Serialize)]
struct Serving<'a> {
    schema: &'static str,
    url: &'a str,
}

/// Serves the page until the process ends.
fn serve(args: &ViewArgs, machine: Machine, port: u16, out: &mut Output) -> Result<Answer> {
    if !(args.every.is_finite() && (0.05..=86_400.0).contains(&args.every)) {
        let found = args.every.to_string();
        return Err(InputError::new("--every", found, "0.05 to 86400 seconds").into());
    }
    let every = Duration::from_secs_f64(args.every);
    let source = args.counters.follow(&args.sources, args.from, every)?;
    let source = source.with_history().over(args.counters.about.interval)?;
    let jobs = args.jobs.open(&args.sources, &machine)?;
    let (title, command) = (args.title.clone(), out.command.clone());
    let live = Live::begin(machine, source, title, command, jobs)?;
    let doors = Doors {
        identity: args.tls.identity()?,
        ..Doors::default()
    };
    let address = ("--serve", (Ipv4Addr::LOCALHOST, port).into());
    let setup = doors.setup(address, ("--read-token", None), &mut |text| out.warn(text))?;
    let next = |url: &str| eprintln!("hopbyte: signed in; for another browser: {url}");
    let server = http::Server::open(setup)?.sign_in(next);
    let server = server.context("reading randomness for the token")?;
    let url = server.page();
    if out.json {
        let schema = "hopbyte.serving/1";
        out.object(&Serving { schema, url: &url })?;
    } else {
        out.line(&url)?;
        out.talk("open this address in a browser; Ctrl-C ends it");
    }
    out.flush()?;
    server.run(&|request| live.answer(request))?;
    Ok(Answer::Yes)
}
