//! `hopbyte lab background`: competing traffic.

use super::Named;
use crate::output::{Answer, Output, Table, count};
use anyhow::{Result, bail};
use clap::Subcommand;
use hopbyte_lab::background::{self, Flow};
use hopbyte_lab::{Lab, plan, share, system};
use serde::Serialize;

/// Actions on streams.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Start streams of datagrams, each at a fixed rate without congestion control
    Start(Start),
    /// Stop all streams of a lab
    Stop(Named),
    /// List the streams
    List(Named),
    /// Send the streams of `start`
    #[command(hide = true)]
    Send(Send),
}

/// See [`Verb::Start`].
#[derive(clap::Args, Debug)]
pub struct Start {
    #[command(flatten)]
    lab: Named,
    /// Streams, each as sending and receiving node
    #[arg(required = true, value_name = "FROM:TO")]
    flows: Vec<String>,
    /// Rate of each, as a share of its sender's link
    #[arg(long, default_value_t = 0.75, value_name = "SHARE")]
    share: f64,
    /// Rate of each on the wire, such as 8mbit, in place of a share
    #[arg(long, value_name = "RATE", conflicts_with = "share")]
    rate: Option<String>,
}

/// See [`Verb::Send`].
#[derive(clap::Args, Debug)]
pub struct Send {
    #[command(flatten)]
    lab: Named,
    id: u32,
}

/// A stream, for scripts.
#[derive(Serialize)]
struct FlowRow {
    schema: &'static str,
    #[serde(flatten)]
    flow: Flow,
    sends: bool,
}

/// Runs the action.
pub fn run(verb: &Verb, out: &mut Output) -> Result<Answer> {
    let (Verb::Start(Start { lab, .. })
    | Verb::Stop(lab)
    | Verb::List(lab)
    | Verb::Send(Send { lab, .. })) = verb;
    system::check_rights()?;
    let lab = Lab::open(&lab.name)?;
    match verb {
        Verb::Start(args) => start(&lab, args, out),
        Verb::Stop(_) => {
            let streams = background::stop(&lab)?;
            out.talk(format!(
                "lab '{}': {} streams ended",
                lab.name,
                count(streams)
            ));
            Ok(Answer::of(streams > 0))
        }
        Verb::List(_) => list(&lab, out),
        Verb::Send(args) => {
            background::send(&lab, &lab.machine()?.fabric, args.id)?;
            Ok(Answer::Yes)
        }
    }
}

fn start(lab: &Lab, args: &Start, out: &mut Output) -> Result<Answer> {
    let fabric = lab.machine()?.fabric;
    let share = share("--share", args.share)?;
    let rate = match &args.rate {
        Some(text) => Some(plan::rate("--rate", text)?),
        None => None,
    };
    let flow = |text: &String| -> Result<Flow> {
        let Some((from, to)) = text.split_once(':') else {
            bail!("found '{text}', expected the names of two nodes such as n0-0:n1-1");
        };
        let ends = [fabric.find_node(from)?, fabric.find_node(to)?];
        let flow = Flow::of_share(lab, &fabric, ends, share);
        Ok(Flow {
            bits_per_second: rate.unwrap_or(flow.bits_per_second),
            ..flow
        })
    };
    let flows = args.flows.iter().map(flow).collect::<Result<Vec<_>>>()?;
    background::start(lab, &fabric, &flows)?;
    out.talk(format!(
        "lab '{}': {} streams begun; end them with `hopbyte lab background stop --name {0}`",
        lab.name,
        count(flows.len())
    ));
    Ok(Answer::Yes)
}

fn list(lab: &Lab, out: &mut Output) -> Result<Answer> {
    let rows: Vec<FlowRow> = (background::running(lab)?.into_iter())
        .flat_map(|r| {
            r.flows.into_iter().map(move |flow| FlowRow {
                schema: "hopbyte.lab.background/1",
                flow,
                sends: r.sends,
            })
        })
        .collect();
    if out.json {
        rows.iter().try_for_each(|row| out.object(row))?;
        return Ok(Answer::Yes);
    }
    let mut text = Table::new(&["<from", "<to", "Mbit/s", "<state"]);
    for row in &rows {
        text.row([
            row.flow.from.clone(),
            row.flow.to.clone(),
            format!("{:.3}", row.flow.bits_per_second / 1e6),
            if row.sends { "sends" } else { "ended" }.into(),
        ]);
    }
    out.table(&text)?;
    Ok(Answer::Yes)
}
