//! `hopbyte lab agents`: agents on every node and router of a lab.

use super::super::collect::token;
use super::Named;
use crate::output::{Answer, Output, count};
use anyhow::{Result, bail};
use hopbyte_collect::agent::Target;
use hopbyte_collect::period_ns;
use hopbyte_lab::agents::Agents;
use hopbyte_lab::{Lab, system};
use std::path::PathBuf;
use std::time::Duration;

/// Interval between checks that the lab still exists.
const LOOK: Duration = Duration::from_millis(200);

/// See [`super::Verb::Agents`].
#[derive(clap::Args, Debug)]
pub struct AgentsArgs {
    #[command(flatten)]
    lab: Named,
    /// Collector: HOST:PORT, or udp://HOST:PORT for single packets without acknowledgement
    #[arg(long, value_name = "COLLECTOR", default_value = "127.0.0.1:7667")]
    to: String,
    /// File with the collector's secret
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,
    /// Seconds between readings
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    period: f64,
}

/// Reads and pushes until the lab is taken down or the process is stopped.
pub fn run(args: &AgentsArgs, out: &mut Output) -> Result<Answer> {
    let period = Duration::from_nanos(period_ns(args.period)?);
    args.token.as_deref().map(token).transpose()?;
    system::check_rights()?;
    let lab = Lab::open(&args.lab.name)?;
    let fabric = lab.machine()?.fabric;
    let to = Target::parse(&args.to)?;
    let agents = Agents::start(&lab, &fabric, &to, args.token.as_deref(), period)?;
    out.talk(format!(
        "lab '{}': {} agents report to {} until it is taken down",
        lab.name,
        count(agents.count()),
        args.to
    ));
    while lab.is_up() {
        if agents.has_failed() {
            bail!("an agent of lab '{}' ended", lab.name);
        }
        std::thread::sleep(LOOK);
    }
    Ok(Answer::Yes)
}
