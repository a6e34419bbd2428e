//! `hopbyte collect`: gathers the counters of all nodes, tick by tick.

use crate::args::{HttpClients, TlsFiles};
use crate::output::{Answer, Output};
use anyhow::{Context, Result, bail};
use clap::builder::RangedU64ValueParser;
use hopbyte_collect::bus::{Shard, Url, block, check_cluster};
use hopbyte_collect::gather::Rules;
use hopbyte_collect::server::{BusSetup, Server, Setup, Told};
use hopbyte_collect::store::jobs::follow_jobs;
use hopbyte_collect::store::{Keeping, Store};
use hopbyte_collect::tick::TickLine;
use hopbyte_collect::tls::Trust;
use hopbyte_collect::wire::{Token, check_node};
use hopbyte_collect::{Refusal, period_ns};
use hopbyte_observe::{host_names, secret::exposed};
use hopbyte_serve::door::{Doors, readers, unavailable};
use hopbyte_serve::export::{Source, push_lines, serve_metrics, take_lines};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Inputs, outputs and limits of a collector.
#[derive(clap::Args, Debug)]
#[command(args_override_self = true)]
pub struct CollectArgs {
    /// Options from a file: lines `name = value` with the names below; the command line overrides them
    #[arg(long, value_name = "FILE")]
    #[allow(dead_code, reason = "read before the command line is parsed")]
    config: Option<PathBuf>,
    /// Where agents and viewers connect; may be given several times
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7667")]
    listen: Vec<SocketAddr>,
    /// Accept reports in single packets (UDP) too
    #[arg(long, value_name = "ADDRESS:PORT")]
    udp: Option<SocketAddr>,
    /// Subscribe to a NATS server too: nats://[USER:PASSWORD@]HOST[:PORT], or tls://…
    #[arg(long, value_name = "URL", help_heading = "NATS")]
    nats: Option<String>,
    /// File of CA certificates (PEM) for the NATS server: use TLS
    #[arg(long, value_name = "FILE", requires = "nats", help_heading = "NATS")]
    tls_ca: Option<PathBuf>,
    /// Name of the cluster: subject hopbyte.CLUSTER.BLOCK of reports, and label of lines
    #[arg(long, default_value = "cluster", help_heading = "NATS")]
    cluster: String,
    /// Gather a share of the cluster's blocks: 0/4 is the first of four collectors
    #[arg(
        long,
        value_name = "INDEX/COUNT",
        requires = "nats",
        help_heading = "NATS"
    )]
    shard: Option<String>,
    /// Read from a stream of the server, from the end of the store; the stream is created if missing
    #[arg(long, value_name = "STREAM", requires_all = ["nats", "store"], help_heading = "NATS")]
    jetstream: Option<String>,
    /// File with a secret of at least 16 bytes, shared with agents; required beyond this machine
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,
    /// Certificate.
    #[command(flatten)]
    tls: TlsFiles,
    /// Nodes that must report, such as `nid[00001-10000]` or @FILE (default: all that have reported)
    #[arg(long, value_name = "LIST")]
    expect: Option<String>,
    /// Seconds between readings
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    period: f64,
    /// Milliseconds after which a tick closes without the missing reports
    #[arg(
        long,
        value_name = "MS",
        default_value_t = 250,
        value_parser = clap::value_parser!(u64).range(..=86_400_000)
    )]
    deadline: u64,
    /// Stop after so many ticks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    ticks: Option<u64>,
    /// Limit of concurrent connections
    #[arg(
        long,
        value_name = "N",
        default_value_t = 50_000,
        value_parser = RangedU64ValueParser::<usize>::new().range(..=1_000_000),
        help_heading = "Limits"
    )]
    connections: usize,
    /// Limit of memory for names and values, in megabytes
    #[arg(
        long,
        value_name = "MB",
        default_value_t = 2000,
        value_parser = RangedU64ValueParser::<usize>::new().range(..=1_000_000),
        help_heading = "Limits"
    )]
    memory: usize,
    /// Store everything in this folder; reports are acknowledged once stored
    #[arg(long, value_name = "FOLDER", help_heading = "Store")]
    store: Option<PathBuf>,
    /// Keep the jobs over time in the store: a list of Slurm, PBS, Flux or Kubernetes pods, or a CSV `job,node`, read again when it changes
    #[arg(long, value_name = "FILE", requires = "store", help_heading = "Store")]
    jobs: Option<PathBuf>,
    /// Delete a segment when this many days were recorded after it (default: never)
    #[arg(
        long,
        value_name = "DAYS",
        value_parser = clap::value_parser!(u64).range(1..=36_500),
        help_heading = "Store"
    )]
    retain: Option<u64>,
    /// Minutes after which a log ends and is written as Parquet
    #[arg(
        long,
        value_name = "MINUTES",
        default_value_t = 10,
        value_parser = clap::value_parser!(u64).range(..=44_640),
        help_heading = "Store"
    )]
    segment: u64,
    /// Sync every tick to the disk, so that a power failure loses nothing acknowledged
    #[arg(long, help_heading = "Store")]
    sync: bool,
    /// Which closed ticks are printed: all, those with another state of the nodes than the one before, or none
    #[arg(long, default_value = "all", value_parser = ["all", "changes", "none"])]
    print: String,
    /// Serve `GET /metrics` as OpenMetrics text; beyond this machine it needs --read-token, and is TLS with --tls-cert
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "Exports")]
    metrics: Option<SocketAddr>,
    /// Clients over HTTP.
    #[command(flatten, next_help_heading = "Exports")]
    http: HttpClients,
    /// Accept totals of other collectors as Influx lines (ClusterCockpit): POST /write
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "Lines")]
    listen_lines: Option<SocketAddr>,
    /// File of bearer tokens, one per line, that admit to --listen-lines
    #[arg(long, value_name = "FILE", help_heading = "Lines")]
    write_token: Option<PathBuf>,
    /// Accept them from a subject of the NATS server
    #[arg(
        long,
        value_name = "SUBJECT",
        requires = "nats",
        help_heading = "Lines"
    )]
    nats_lines: Option<String>,
    /// Post the rates of every tick as Influx lines, in the form of ClusterCockpit and VictoriaMetrics
    #[arg(long, value_name = "URL", help_heading = "Exports")]
    lines: Option<String>,
}

/// Gathers until stopped.
pub fn run(args: &CollectArgs, out: &mut Output) -> Result<Answer> {
    if let (true, Some(udp)) = (args.tls.is_given(), args.udp) {
        bail!(
            "--tls-cert: found --udp {udp} as well, and packets are signed, not encrypted; \
             expected TCP alone"
        );
    }
    let period_ns = period_ns(args.period)?;
    let deadline_ns = args.deadline * 1_000_000;
    if deadline_ns >= period_ns {
        bail!(
            "--deadline: found {} ms, expected less than a tick (--period), {} s",
            args.deadline,
            args.period
        );
    }
    let mut expected = match &args.expect {
        Some(list) => host_names("--expect", list, &mut |note| out.talk(note))?,
        None => Vec::new(),
    };
    let mut all = expected.iter();
    all.try_for_each(|node| check_node(node).map_err(found("--expect")))?;
    let bus = bus(args)?;
    if let Some(bus) = &bus {
        expected.retain(|node| bus.shard.has(block(node)));
    }
    let setup = Setup {
        listen: args.listen.clone(),
        udp: args.udp,
        identity: args.tls.identity()?,
        bus,
        token: args.token.as_deref().map(token).transpose()?,
        readers: readers(args.http.read_token.as_deref(), args.token.as_deref())?,
        most_connections: args.connections,
        rules: Rules {
            period_ns,
            deadline_ns,
            expected,
            memory_bytes: args.memory * 1_000_000,
            ..Rules::default()
        },
    };
    let keeping = Keeping {
        sync: args.sync,
        segment_seconds: args.segment * 60,
        retain_seconds: args.retain.map(|days| days * 86_400),
        ..Keeping::default()
    };
    let open = |folder: &PathBuf| {
        Store::open(folder, keeping).with_context(|| format!("store {}", folder.display()))
    };
    let store = args.store.as_ref().map(open).transpose()?;
    if let (Some(list), Some(folder)) = (&args.jobs, &args.store) {
        follow_jobs(list, folder, args.retain.map(|days| days * 86_400))?;
    }
    let mut server = Server::new(setup, store).map_err(|e| unavailable(&e))?;
    for address in server.addresses()? {
        out.talk(format!("listening on {address}"));
    }
    export(args, &server, out)?;
    let mut left = args.ticks.unwrap_or(u64::MAX);
    let status = server.store_status();
    let mut failure = None;
    let mut last: Option<TickLine> = None;
    server.run(|told| {
        match told {
            Told::Note(text) => out.talk(text),
            Told::Warning(text) => out.warn(text),
            Told::Closed(closing, gathering, _) => {
                left -= 1;
                let line = TickLine::of(closing, |id| gathering.name(id).to_owned());
                let news = last.as_ref().is_none_or(|last| line.is_news(last));
                if args.print == "all" || (args.print == "changes" && news) {
                    let said = say(&line, out).and_then(|()| out.flush());
                    failure = said.err();
                }
                last = Some(line);
            }
        }
        left > 0 && failure.is_none()
    })?;
    failure.map_or(Ok(()), Err)?;
    status.map_or(Ok(()), |status| status.at_end())?;
    Ok(Answer::Yes)
}

/// An invalid option.
pub fn found(option: &'static str) -> impl Fn(Refusal) -> anyhow::Error {
    move |refusal| anyhow::anyhow!("{option}: found {refusal}")
}

/// The server of a bus; TLS requires its certificates.
pub fn nats(url: &str, has_ca: bool) -> Result<Url> {
    exposed("--nats", url).inspect(|text| eprintln!("hopbyte: {text}"));
    let url = Url::parse(url).map_err(found("--nats"))?;
    match (url.tls, has_ca) {
        (true, false) => bail!("--nats: found {url:?}, which needs --tls-ca FILE"),
        (false, true) => bail!("--tls-ca: found --nats {url:?}, expected tls://HOST"),
        _ => Ok(url),
    }
}

fn bus(args: &CollectArgs) -> Result<Option<BusSetup>> {
    check_cluster(&args.cluster).map_err(found("--cluster"))?;
    let Some(url) = &args.nats else {
        return Ok(None);
    };
    let sound = |s: &&String| s.bytes().all(|b| b.is_ascii_graphic());
    if let Some(subject) = args.nats_lines.as_ref().filter(|s| !sound(s)) {
        bail!("--nats-lines: found {subject:?}, expected a subject such as hpc.metrics");
    }
    if let Some(stream) = &args.jetstream {
        check_cluster(stream).map_err(found("--jetstream"))?;
    }
    let shard = args.shard.as_deref().map_or(Ok(Shard::WHOLE), Shard::parse);
    Ok(Some(BusSetup {
        url: nats(url, args.tls_ca.is_some())?,
        trust: args.tls_ca.as_deref().map(Trust::read).transpose()?,
        cluster: args.cluster.clone(),
        shard: shard.map_err(found("--shard"))?,
        stream: args.jetstream.clone(),
        lines: args.nats_lines.clone(),
        keep_seconds: args.retain.map(|days| days * 86_400),
    }))
}

/// The token in a file.
pub fn token(file: &Path) -> Result<Token> {
    Ok(Token::read(file)?)
}

/// Starts the exporters of the collector.
fn export(args: &CollectArgs, server: &Server, out: &mut Output) -> Result<()> {
    let source = Source {
        address: server.within()?,
        token: args.token.as_deref().map(token).transpose()?,
        store: server.store_status(),
        folder: args.store.clone(),
    };
    let doors = Doors {
        cluster: args.token.as_deref(),
        hosts: &args.http.allow_host,
        identity: args.tls.identity()?,
        plain_within: true,
    };
    if let Some(metrics) = args.metrics {
        let tokens = ("--read-token", args.http.read_token.as_deref());
        let setup = doors.setup(("--metrics", metrics), tokens, &mut |text| out.warn(text))?;
        let served = serve_metrics(setup, source.clone(), server.health());
        out.talk(format!("{}metrics", served.map_err(|e| unavailable(&e))?));
    }
    if let Some(lines) = args.listen_lines {
        let tokens = ("--write-token", args.write_token.as_deref());
        let setup = doors.setup(("--listen-lines", lines), tokens, &mut |text| {
            out.warn(text);
        })?;
        let taken = take_lines(setup, server.inlet()).map_err(|e| unavailable(&e))?;
        out.talk(format!("{taken}write"));
    }
    if let Some(url) = &args.lines {
        push_lines(url, &args.cluster, source, |text| {
            eprintln!("hopbyte: {}", hopbyte_fabric::printable(&text));
        })?;
    }
    Ok(())
}

/// Prints a closed tick.
pub fn say(line: &TickLine, out: &mut Output) -> io::Result<()> {
    if out.json {
        return out.object(line);
    }
    out.line(line.text())
}
