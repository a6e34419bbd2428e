//! `hopbyte agent`: reads this node's counters every second and pushes them to a collector.

use super::Answer;
use super::collect::{found, period_ns, token};
use crate::failure::Lacking;
use crate::output::Output;
use anyhow::{Context, Result};
use hopbyte_collect::agent::{Agent, Setup, Subject, Target};
use hopbyte_collect::bus::{BLOCKS, Url, check_cluster};
use hopbyte_collect::wire::Header;
use hopbyte_observe::sources::{self, Places};
use serde::Serialize;
use std::path::PathBuf;

/// What to read and where it goes.
#[derive(clap::Args, Debug)]
#[command(args_override_self = true)]
pub struct Args {
    /// Options from a file: lines `name = value` with the names below; words given here override them
    #[arg(long, value_name = "FILE")]
    #[allow(dead_code, reason = "read before the command line is parsed")]
    config: Option<PathBuf>,
    /// Collector: HOST:PORT, or udp://HOST:PORT for single packets that nobody acknowledges
    #[arg(long, value_name = "COLLECTOR", default_value = "127.0.0.1:7667")]
    to: String,
    /// Publish on a NATS server instead: nats://[USER:PASSWORD@]HOST[:PORT]
    #[arg(
        long,
        value_name = "URL",
        conflicts_with = "to",
        help_heading = "Message bus"
    )]
    nats: Option<String>,
    /// Name of the cluster: reports go to the subject hopbyte.CLUSTER.BLOCK
    #[arg(long, default_value = "cluster", help_heading = "Message bus")]
    cluster: String,
    /// Block of neighbouring nodes, 0 to 63 (default: by the number in the node's name)
    #[arg(long, value_name = "N", help_heading = "Message bus",
          value_parser = clap::value_parser!(u32).range(0..i64::from(BLOCKS)))]
    block: Option<u32>,
    /// Keep reports until a stream of the server has them (see `hopbyte collect --jetstream`)
    #[arg(long, requires = "nats", help_heading = "Message bus")]
    jetstream: bool,
    /// Name of this node, as the fabric knows it (default: the host name)
    #[arg(long, value_name = "NODE")]
    name: Option<String>,
    /// File with the collector's secret
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,
    /// Seconds from one reading to the next
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    period: f64,
    /// Reports that wait for a collector that does not answer; older ones are given up
    #[arg(long, value_name = "N", default_value_t = 60)]
    keep: usize,
    /// Network interfaces to read (default: those with hardware behind them)
    #[arg(long, value_name = "NAME", help_heading = "Sources")]
    interface: Vec<String>,
    /// Further counters: gpcdr's metrics, or registers as text
    #[arg(long, value_name = "FILE", help_heading = "Sources")]
    file: Vec<PathBuf>,
    /// Read a captured tree instead of this machine
    #[arg(long, value_name = "FOLDER", help_heading = "Sources")]
    root: Option<PathBuf>,
    /// Stop after so many ticks
    #[arg(long, value_name = "N")]
    ticks: Option<u64>,
}

/// Reads and pushes until it is stopped.
pub fn run(args: &Args, out: &mut Output) -> Result<Answer> {
    let node = match &args.name {
        Some(name) => name.clone(),
        None => host_name()?,
    };
    let mut places = match &args.root {
        Some(root) => Places::captured(root, &node),
        None => Places::here(&node),
    };
    places.interfaces.clone_from(&args.interface);
    places.files.clone_from(&args.file);
    let mut found = Vec::new();
    for source in sources::open(&places) {
        match source {
            Ok(source) => found.push(source),
            Err(error) => out.talk(format!("{error}; the other sources go on")),
        }
    }
    let setup = Setup {
        node,
        to: target(args)?,
        token: args.token.as_deref().map(token).transpose()?,
        period_ns: period_ns(args.period)?,
        keep: args.keep,
    };
    if found.is_empty() {
        let help = "no counters were found; `hopbyte doctor` says what would help";
        return Err(Lacking(help.into()).into());
    }
    for source in &found {
        let counters = source.layout().counters.len();
        out.talk(format!("{}: {counters} counters", source.place()));
    }
    let mut left = args.ticks.unwrap_or(u64::MAX);
    let mut agent = Agent::new(setup, found);
    let start = agent.start();
    let (json, quiet) = (out.json, out.quiet);
    let mut failure = None;
    agent.run(
        |text| {
            if !quiet {
                eprintln!("hopbyte: {text}");
            }
        },
        |header, acknowledged| {
            if json {
                let line = Tick::of(start, header, acknowledged);
                failure = out.object(&line).and_then(|()| out.flush()).err();
            }
            left -= 1;
            left > 0 && failure.is_none()
        },
    )?;
    failure.map_or(Ok(Answer::Yes), |error| Err(error.into()))
}

fn target(args: &Args) -> Result<Target> {
    let Some(url) = &args.nats else {
        return Ok(Target::parse(&args.to));
    };
    check_cluster(&args.cluster).map_err(found("--cluster"))?;
    Ok(Target::Bus(Subject {
        url: Url::parse(url).map_err(found("--nats"))?,
        cluster: args.cluster.clone(),
        block: args.block,
        jetstream: args.jetstream,
    }))
}

/// What `--json` prints for every tick.
#[derive(Serialize)]
struct Tick {
    schema: &'static str,
    start_ns: u64,
    tick: u64,
    sequence: u64,
    acknowledged: u64,
    took_seconds: f64,
    cpu_seconds: f64,
    resident_bytes: u64,
    missed_ticks: u64,
    failed_reads: u64,
    dropped_reports: u64,
}

impl Tick {
    fn of(start_ns: u64, header: &Header, acknowledged: u64) -> Self {
        Self {
            schema: "hopbyte.agent/1",
            start_ns,
            tick: header.tick,
            sequence: header.sequence,
            acknowledged,
            took_seconds: header.took_ns as f64 / 1e9,
            cpu_seconds: header.cost.cpu_us as f64 / 1e6,
            resident_bytes: header.cost.resident_bytes,
            missed_ticks: header.cost.missed_ticks,
            failed_reads: header.cost.failed_reads,
            dropped_reports: header.cost.dropped_reports,
        }
    }
}

fn host_name() -> Result<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").context("host name")?;
    let name = name.trim().to_owned();
    // As clusters name their nodes: without the domain.
    Ok(name.split('.').next().unwrap_or_default().to_owned())
}
