//! `hopbyte agent`: reads this node's counters every second and pushes them to a collector.

use super::collect::{found, nats, token};
use crate::output::{Answer, Output};
use anyhow::{Context, Result, bail};
use hopbyte_collect::agent::{Options, Subject, Target, work};
use hopbyte_collect::bus::{BLOCKS, check_cluster};
use hopbyte_collect::period_ns;
use hopbyte_collect::tls::Trust;
use hopbyte_collect::wire::check_node;
use hopbyte_observe::sources::host_name;
use std::path::{Path, PathBuf};

/// Sources and destination of an agent.
#[derive(clap::Args, Debug)]
#[command(args_override_self = true)]
pub struct AgentArgs {
    /// Options from a file: lines `name = value` with the names below; the command line overrides them
    #[arg(long, value_name = "FILE")]
    #[allow(dead_code, reason = "read before the command line is parsed")]
    config: Option<PathBuf>,
    /// Collector: HOST:PORT, or udp://HOST:PORT for single packets without acknowledgement
    #[arg(long, value_name = "COLLECTOR", default_value = "127.0.0.1:7667")]
    to: String,
    /// Publish on a NATS server instead: nats://[USER:PASSWORD@]HOST[:PORT], or tls://…
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
    /// Keep reports until a stream of the server has stored them (see `hopbyte collect --jetstream`)
    #[arg(long, requires = "nats", help_heading = "Message bus")]
    jetstream: bool,
    /// Name of this node in the fabric (default: the host name)
    #[arg(long, value_name = "NODE")]
    name: Option<String>,
    /// File with the collector's secret
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,
    /// File of CA certificates (PEM) for the collector or the NATS server: use TLS
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Seconds between readings
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    period: f64,
    /// Backlog of reports while the collector does not answer; older ones are dropped
    #[arg(long, value_name = "N", default_value_t = 60)]
    keep: usize,
    /// Network interfaces to read (default: those with hardware behind them)
    #[arg(long, value_name = "NAME", help_heading = "Sources")]
    interface: Vec<String>,
    /// Further counters: a file of gpcdr's metrics, registers, LDMS or OpenMetrics
    #[arg(long, value_name = "FILE", help_heading = "Sources")]
    file: Vec<PathBuf>,
    /// Read the ports of all InfiniBand switches too, by `hopbyte-mads` or `ibqueryerrors`; one agent of the fabric does it
    #[arg(long, help_heading = "Sources")]
    fabric_wide: bool,
    /// Read a captured tree instead of this machine
    #[arg(long, value_name = "FOLDER", help_heading = "Sources")]
    root: Option<PathBuf>,
    /// Stop after so many ticks
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    ticks: Option<u64>,
}

/// Reads and pushes until stopped; exit code 1 if no report was delivered. Runs as the small agent program if installed.
pub fn run(args: &AgentArgs, out: &mut Output) -> Result<Answer> {
    let node = match &args.name {
        Some(name) => name.clone(),
        None => host_name(Path::new("/")).context("host name")?,
    };
    check_node(&node).map_err(found("--name"))?;
    // Checked here too, so that errors are those of this command.
    args.token.as_deref().map(token).transpose()?;
    args.tls_ca.as_deref().map(Trust::read).transpose()?;
    let options = Options {
        version: env!("CARGO_PKG_VERSION").into(),
        node,
        to: target(args)?,
        token: args.token.clone(),
        tls_ca: args.tls_ca.clone(),
        period_ns: period_ns(args.period)?,
        keep: args.keep,
        root: args.root.clone(),
        interfaces: args.interface.clone(),
        files: args.file.clone(),
        fabric_wide: args.fabric_wide,
        ticks: args.ticks,
        json: out.json,
        quiet: out.quiet,
    };
    // The small agent finds `/dev/null` in the place of a closed output.
    out.json.then(|| out.bytes(b"")).transpose()?;
    become_small(&options)?;
    Ok(Answer::of(work(&options)?))
}

/// Continues as `hopbyte-agent`, if it is beside this program.
fn become_small(options: &Options) -> Result<()> {
    let beside = hopbyte_job::program::own()?.with_file_name("hopbyte-agent");
    if beside.is_file() {
        bail!("{}: {}", beside.display(), options.hand_on(&beside));
    }
    Ok(())
}

fn target(args: &AgentArgs) -> Result<Target> {
    let Some(url) = &args.nats else {
        let to = Target::parse(&args.to)?;
        if matches!(to, Target::Udp(_)) && args.tls_ca.is_some() {
            bail!(
                "--tls-ca: found {}, and packets are signed, not encrypted; expected HOST:PORT",
                args.to
            );
        }
        return Ok(to);
    };
    check_cluster(&args.cluster).map_err(found("--cluster"))?;
    Ok(Target::Bus(Subject {
        url: nats(url, args.tls_ca.is_some())?,
        cluster: args.cluster.clone(),
        block: args.block,
        jetstream: args.jetstream,
    }))
}
