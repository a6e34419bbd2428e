//! `hopbyte oracle serve`: follows the machine's counters and answers queries.

use crate::args::{CounterArgs, FabricOption, HttpClients, TlsFiles};
use crate::output::{Answer, Output};
use anyhow::{Result, bail};
use hopbyte_job::Machine;
use hopbyte_lab::Lab;
use hopbyte_observe::counters::join::PortMap;
use hopbyte_observe::oracle::{LONGEST_LINE, MOST_PAIRS};
use hopbyte_serve::desk::Desk;
use hopbyte_serve::door::{Doors, unavailable};
use hopbyte_serve::http::Server;
use hopbyte_serve::socket;
use hopbyte_serve::source::{Access, Collector, Range, Sink, Source};
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
    /// Follow counter files, as `hopbyte links` reads them; they are read again when they change
    #[arg(long, value_name = "FILE", group = "from", help_heading = "Counters")]
    counters: Vec<PathBuf>,
    /// Properties of the counters that their files lack.
    #[command(flatten)]
    about: CounterArgs,
    /// Follow the folder of `hopbyte collect --store`; a restart resumes at its last tick
    #[arg(long, value_name = "FOLDER", group = "from", help_heading = "Counters")]
    store: Option<PathBuf>,
    /// Follow a running collector
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        group = "from",
        help_heading = "Counters"
    )]
    collector: Option<String>,
    /// The collector's data comes from `hopbyte lab agents` of this lab
    #[arg(
        long,
        value_name = "NAME",
        requires = "collector",
        help_heading = "Counters"
    )]
    lab: Option<String>,
    /// File of CA certificates (PEM) for the collector: use TLS
    #[arg(
        long,
        value_name = "FILE",
        requires = "collector",
        help_heading = "Counters"
    )]
    tls_ca: Option<PathBuf>,
    /// Replay a store from its start
    #[arg(long, value_name = "FOLDER", group = "from", help_heading = "Counters")]
    replay: Option<PathBuf>,
    /// Replayed seconds of the store per second
    #[arg(
        long,
        value_name = "X",
        default_value_t = 1.0,
        requires = "replay",
        help_heading = "Counters"
    )]
    speed: f64,
    /// Seconds between checks for changed counter files
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 0.05,
        help_heading = "Counters"
    )]
    every: f64,
    /// File with the collector's secret, or with one of its read tokens
    #[arg(long, value_name = "FILE", help_heading = "Counters")]
    token: Option<PathBuf>,
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
    let source = source(args, &machine)?;
    let doors = Doors {
        cluster: None,
        hosts: &args.http.allow_host,
        identity: args.tls.identity()?,
        plain_within: false,
    };
    let tokens = ("--read-token", args.http.read_token.as_deref());
    let setup = doors.setup(("--listen", args.listen), tokens, &mut |text| {
        out.warn(text);
    })?;
    let server = Server::open(setup).map_err(|e| unavailable(&e))?;
    let mut server = server.takes(LONGEST_LINE + 8 * MOST_PAIRS);
    let listener = args.socket.as_deref().map(socket::bind).transpose()?;
    let desk = Desk::new(&machine, &source.words());
    let (tell, told) = mpsc::channel();
    let quiet = out.quiet;
    std::thread::scope(|scope| {
        let (desk, machine) = (&desk, &machine);
        scope.spawn(move || {
            let say = |text: &str| {
                if !quiet {
                    eprintln!("hopbyte: {text}");
                }
            };
            let ready = || drop(tell.send(Ok(())));
            if let Err(error) = source.follow(machine, desk, &ready, &say) {
                // Before the first snapshot this ends the command, later it is only reported.
                say(&format!("{error:#}"));
                desk.fail(&format!("{error:#}"));
                let _ = tell.send(Err(error));
            }
        });
        // A store is read to its end first, so that a restart answers from its last tick at once.
        if let Ok(Err(error)) = told.recv() {
            let code = crate::failure::report(&error);
            std::process::exit(code.into());
        }
        announce(args, &server, desk.view().version(), out)?;
        if let Some(listener) = listener {
            server = server.also(listener);
        }
        server.run(&|request| desk.http(request))?;
        Ok(Answer::Yes)
    })
}

fn source(args: &ServeArgs, machine: &Machine) -> Result<Source> {
    if !(args.every.is_finite() && (0.001..=86_400.0).contains(&args.every)) {
        bail!(
            "--every: found {}, expected 0.001 to 86400 seconds",
            args.every
        );
    }
    if !(args.speed.is_finite() && args.speed >= 0.0) {
        bail!("--speed: found {}, expected zero or more", args.speed);
    }
    let every = Duration::from_secs_f64(args.every);
    Ok(match (&args.store, &args.collector, &args.replay) {
        (Some(folder), ..) => Source::Store(folder.clone(), Range::default()),
        (_, Some(address), _) => Source::Collector(Box::new(Collector {
            address: address.clone(),
            access: Access::read(args.token.as_deref(), args.tls_ca.as_deref())?,
            ports: ports(args.lab.as_deref(), machine)?,
        })),
        (.., Some(folder)) => Source::Replay(folder.clone(), args.speed),
        _ if args.counters.is_empty() => Source::None,
        _ => Source::files(args.counters.clone(), args.about.options(), every),
    })
}

/// Links of a lab's routers by interface; empty without a lab.
fn ports(lab: Option<&str>, machine: &Machine) -> Result<PortMap> {
    let Some(name) = lab else {
        return Ok(PortMap::new());
    };
    let lab = Lab::open(name)?;
    let emulated = lab.machine()?.fabric;
    if emulated.fingerprint() != machine.fabric.fingerprint() {
        bail!("--lab: found '{name}', which emulates another machine than --fabric");
    }
    Ok(lab.ports(&emulated))
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
