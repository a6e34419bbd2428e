//! `hopbyte oracle serve`: follows the machine's counters and answers queries.

use crate::args::{self, FabricOption, HttpClients, LiveJobArgs, SourceArgs, TlsFiles};
use crate::output::{Answer, Output};
use anyhow::Result;
use hopbyte_fabric::{InputError, printable};
use hopbyte_job::told;
use hopbyte_observe::oracle::{LONGEST_LINE, MOST_PAIRS};
use hopbyte_observe::threads::start_in;
use hopbyte_serve::desk::Desk;
use hopbyte_serve::door::{Doors, unavailable};
use hopbyte_serve::http::Server;
use hopbyte_serve::socket;
use hopbyte_serve::source::{Sink, Source};
use serde::Serialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

/// Sources and addresses of the service.
#[derive(clap::Args, Debug)]
pub struct ServeArgs {
    /// The machine.
    #[command(flatten)]
    fabric: FabricOption,
    /// Counters to follow, as `hopbyte links` reads them: files (read again when they change), live sources (every
    /// --interval), a collector or the folder of its store (a restart resumes at its last tick); without any, hops and
    /// bandwidths only
    #[arg(value_name = "SOURCE", num_args = 0.., long_help = args::counters_help())]
    source: Vec<PathBuf>,
    /// Properties of the counters that their files lack.
    #[command(flatten)]
    counters: SourceArgs,
    /// Replay the store from its start
    #[arg(
        long,
        requires = "source",
        conflicts_with = "at",
        help_heading = "Counters"
    )]
    replay: bool,
    /// Replayed seconds of the store per second
    #[arg(
        long,
        value_name = "X",
        default_value_t = 1.0,
        requires = "replay",
        help_heading = "Counters"
    )]
    speed: f64,
    #[command(flatten)]
    jobs: LiveJobArgs,
    /// Seconds between checks for changed counter files
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 0.05,
        help_heading = "Counters"
    )]
    every: f64,
    /// Clients.
    #[command(flatten, next_help_heading = "Answers")]
    http: HttpClients,
    /// Certificate.
    #[command(flatten, next_help_heading = "Answers")]
    tls: TlsFiles,
    /// Serve HTTP here; beyond this machine it needs --read-token
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:0",
        help_heading = "Answers"
    )]
    listen: SocketAddr,
    /// Serve a Unix socket too; access is by permission of its folder
    #[arg(long, value_name = "PATH", help_heading = "Answers")]
    socket: Option<PathBuf>,
}

/// Addresses of the service, as JSON.
#[derive(Serialize)]
struct Serving<'a> {
    schema: &'static str,
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    socket: Option<&'a Path>,
    version: u64,
}

/// Serves until the process ends.
pub fn run(args: &ServeArgs, out: &mut Output) -> Result<Answer> {
    let machine = args.fabric.read(out)?;
    let source = source(args)?;
    let doors = Doors {
        hosts: &args.http.allow_host,
        identity: args.tls.identity()?,
        ..Doors::default()
    };
    let tokens = ("--read-token", args.http.read_token.as_deref());
    let setup = doors.setup(("--listen", args.listen), tokens, &mut |text| {
        out.warn(text);
    })?;
    let server = Server::open(setup).map_err(|e| unavailable(&e))?;
    let server = server.takes(LONGEST_LINE + 8 * MOST_PAIRS);
    let listener = args.socket.as_deref().map(socket::bind).transpose()?;
    if matches!(source, Source::None) {
        args.jobs.none("a source of counters")?;
    }
    let folder: Vec<PathBuf> = source.store().map(Path::to_owned).into_iter().collect();
    let jobs = args.jobs.open(&folder, &machine)?;
    let desk = Desk::new(&machine, &source.words()).with_jobs(jobs);
    let (tell, followed) = mpsc::channel();
    let quiet = out.quiet;
    std::thread::scope(|scope| {
        let (desk, machine) = (&desk, &machine);
        let say = move |text: &str| {
            if !quiet {
                eprintln!("hopbyte: {}", printable(text));
            }
        };
        let started = start_in(scope, move || desk.attribute(&say));
        let follow = move || {
            let ready = || drop(tell.send(Ok(())));
            if let Err(error) = source.follow(machine, desk, &ready, &say) {
                // Before the first snapshot this ends the command, later it is only reported.
                say(&told(&error));
                desk.fail(&told(&error));
                let _ = tell.send(Err(error));
            }
        };
        let served = || -> Result<()> {
            started.and_then(|_| start_in(scope, follow))?;
            // A store is read to its end first, so that a restart answers from its last tick at once.
            followed.recv().unwrap_or(Ok(()))?;
            announce(args, &server, desk.view().version(), out)?;
            Ok(server.also(listener).run(&|request| desk.http(request))?)
        };
        if let Err(error) = served() {
            // The scope would wait for its threads.
            std::process::exit(crate::failure::report(&error, false).into());
        }
        Ok(Answer::Yes)
    })
}

fn source(args: &ServeArgs) -> Result<Source> {
    if !(args.every.is_finite() && (0.001..=86_400.0).contains(&args.every)) {
        let found = args.every.to_string();
        return Err(InputError::new("--every", found, "0.001 to 86400 seconds").into());
    }
    if !(args.speed.is_finite() && args.speed >= 0.0) {
        return Err(InputError::new("--speed", args.speed.to_string(), "zero or more").into());
    }
    let every = Duration::from_secs_f64(args.every);
    let mut source = args.counters.follow(&args.source, None, every)?;
    if args.replay {
        source = match source {
            Source::Store(folder, _) => Source::Replay(folder, args.speed),
            other => {
                let error = InputError::new("--replay", other.words(), "the folder of a store");
                return Err(error.into());
            }
        };
    }
    Ok(source.over(args.counters.about.interval)?)
}

fn announce(args: &ServeArgs, server: &Server, version: u64, out: &mut Output) -> Result<()> {
    let url = server.url();
    let socket = args.socket.as_deref();
    if out.json {
        out.object(&Serving {
            schema: "hopbyte.serving/1",
            url: &url,
            socket,
            version,
        })?;
    } else {
        out.line(&url)?;
        socket.map_or(Ok(()), |path| out.line(path.display().to_string()))?;
    }
    out.flush()?;
    Ok(())
}
