//! The agent's main function, for `hopbyte agent` and the small program `hopbyte-agent`.
//!
//! `hopbyte agent` parses the command line and then executes `hopbyte-agent` with the [`Options`], if it is
//! installed beside `hopbyte`. The small program needs less memory: the rest of `hopbyte` is not in the
//! process.

use super::{Agent, Setup, Target};
use crate::tls::Trust;
use crate::wire::{Header, Token};
use hopbyte_fabric::printable;
use hopbyte_observe::sources::{self, Places, Wide};
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The environment variable that passes the options.
pub const HANDED_ON: &str = "HOPBYTE_AGENT_OPTIONS";

/// Options of an agent.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Version of the command that passes them.
    pub version: String,
    /// Name of the node.
    pub node: String,
    /// Destination of reports.
    pub to: Target,
    /// File with the collector's secret.
    pub token: Option<PathBuf>,
    /// File of trusted certificates.
    pub tls_ca: Option<PathBuf>,
    /// Tick length, nanoseconds.
    pub period_ns: u64,
    /// Capacity of the ring in reports, for times without a collector.
    pub keep: usize,
    /// Captured tree to read instead of this machine.
    pub root: Option<PathBuf>,
    /// Network interfaces to read.
    pub interfaces: Vec<String>,
    /// Additional files of counters.
    pub files: Vec<PathBuf>,
    /// Whether the ports of all InfiniBand switches are read.
    pub fabric_wide: bool,
    /// Number of ticks after which the agent stops.
    pub ticks: Option<u64>,
    /// Whether every tick is printed.
    pub json: bool,
    /// Whether other output is suppressed.
    pub quiet: bool,
}

impl Options {
    /// Continues as the small program with these options; returns the reason if it cannot.
    pub fn hand_on(&self, program: &Path) -> io::Error {
        match serde_json::to_string(self) {
            Ok(text) => Command::new(program).env(HANDED_ON, text).exec(),
            Err(error) => error.into(),
        }
    }
}

/// Output of `--json` for every tick.
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

/// Reads and pushes until stopped. Returns whether a report was sent to a collector that accepted this agent.
pub fn work(options: &Options) -> io::Result<bool> {
    let say = |text: &str| {
        if !options.quiet {
            let _ = writeln!(io::stderr(), "hopbyte: {}", printable(text));
        }
    };
    let mut places = match &options.root {
        Some(root) => Places::captured(root, &options.node),
        None => Places::here(&options.node),
    };
    places.interfaces.clone_from(&options.interfaces);
    places.files.clone_from(&options.files);
    places.fabric_wide = options.fabric_wide.then_some(Wide::Switches);
    let mut found = Vec::new();
    for source in sources::open(&places) {
        match source {
            Ok(source) => found.push(source),
            Err(error) => say(&format!("{error}; other sources are still read")),
        }
    }
    if found.is_empty() {
        let help = "no counters were found; `hopbyte doctor` reports the reasons";
        return Err(io::Error::other(help));
    }
    for source in &found {
        let counters = source.layout().counters.len();
        say(&format!("{}: {counters} counters", source.place()));
    }
    let setup = Setup {
        node: options.node.clone(),
        to: options.to.clone(),
        token: options.token.as_deref().map(Token::read).transpose()?,
        trust: options.tls_ca.as_deref().map(Trust::read).transpose()?,
        period_ns: options.period_ns,
        keep: options.keep,
    };
    let mut agent = Agent::new(setup, found);
    let start = agent.start();
    let mut left = options.ticks.unwrap_or(u64::MAX);
    let mut failure: Option<io::Error> = None;
    agent.run(say, |header, acknowledged| {
        if options.json {
            let mut out = io::stdout().lock();
            let line = serde_json::to_writer(&mut out, &Tick::of(start, header, acknowledged));
            let line = line.map_err(io::Error::from);
            failure = line.and_then(|()| writeln!(out)).err();
        }
        left -= 1;
        left > 0 && failure.is_none()
    })?;
    // A reader that leaves has what it wanted.
    if let Some(error) = failure.filter(|e| e.kind() != io::ErrorKind::BrokenPipe) {
        let text = format!("cannot write standard output: {error}");
        return Err(io::Error::new(error.kind(), text));
    }
    let delivered = agent.has_delivered(say)?;
    if !delivered {
        let (address, why) = (agent.address(), agent.why());
        say(&format!("{address}: no report was delivered{why}"));
    }
    Ok(delivered)
}
