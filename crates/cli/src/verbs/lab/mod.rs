//! `hopbyte lab`: an emulated cluster on this machine.

mod agents;
mod background;

use crate::args::FabricArgs;
use crate::output::{Answer, Output, Table, count};
use anyhow::{Result, bail};
use clap::Subcommand;
use hopbyte_lab::counters::{self, Load, load_lines};
use hopbyte_lab::{Lab, disturb, labs, plan, share, system};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// Actions on labs. All need root (or a user namespace), and check this before they start.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Build a lab: a namespace for every router, node and described host, a shaped link for every cable
    Up(Up),
    /// Take a lab down, with all its processes
    Down(Down),
    /// Run a command on one of its nodes; launchers start others through $HOPBYTE_LAB_AGENT
    Run(Run),
    /// Slow a link, a node or a router, or restore it with factor 1
    Degrade(Degrade),
    /// Cut a cable and route around it
    Cut(Cut),
    /// Slow all links, or all nodes' links, to a share of their capacity
    Detune(Detune),
    /// Load of every link over a window; with -o as a file that `links` and `map` read
    Counters(Counters),
    /// Agents on every router and node, which report to a collector over a separate network
    Agents(agents::AgentsArgs),
    /// Background traffic: streams between nodes at fixed rates
    #[command(subcommand)]
    Background(background::Verb),
    /// List the labs, half-built ones included
    List,
}

/// A lab by name.
#[derive(clap::Args, Debug)]
pub struct Named {
    /// Name of the lab
    #[arg(long, default_value = "lab", value_name = "NAME")]
    name: String,
}

/// See [`Verb::Up`].
#[derive(clap::Args, Debug)]
pub struct Up {
    #[command(flatten)]
    fabric: FabricArgs,
    #[command(flatten)]
    lab: Named,
    /// Rate of the fastest link between routers; all others are scaled in proportion
    #[arg(long, default_value = "50mbit", value_name = "RATE")]
    rate: String,
}

/// See [`Verb::Down`].
#[derive(clap::Args, Debug)]
pub struct Down {
    /// Name of the lab
    #[arg(default_value = "lab", value_name = "NAME")]
    name: String,
}

/// See [`Verb::Run`].
#[derive(clap::Args, Debug)]
pub struct Run {
    #[command(flatten)]
    lab: Named,
    /// Node, host or place of the command (default: the first)
    #[arg(long, value_name = "NODE")]
    on: Option<String>,
    /// Disturbance, measured: noise=PERIOD:DURATION of every processor, or memory=SHARE that streams leave
    #[arg(long, value_name = "KIND=VALUE")]
    disturb: Vec<String>,
    /// The command, after `--`
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// See [`Verb::Degrade`].
#[derive(clap::Args, Debug)]
pub struct Degrade {
    #[command(flatten)]
    lab: Named,
    /// The link, as `fabric route` names it; or a node or router, for all links at it
    link: String,
    /// Remaining share of its capacity, above 0 (1 restores it)
    factor: f64,
    /// Only the named direction
    #[arg(long)]
    one_way: bool,
}

/// See [`Verb::Cut`].
#[derive(clap::Args, Debug)]
pub struct Cut {
    #[command(flatten)]
    lab: Named,
    /// The link, as `fabric route` names it
    link: String,
    /// Keep the routes, so that traffic over the cable is lost
    #[arg(long)]
    no_reroute: bool,
}

/// See [`Verb::Detune`].
#[derive(clap::Args, Debug)]
pub struct Detune {
    #[command(flatten)]
    lab: Named,
    /// Share of capacity for links between routers
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR")]
    links: f64,
    /// Share of capacity for the nodes' links
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR")]
    injection: f64,
}

/// See [`Verb::Counters`].
#[derive(clap::Args, Debug)]
pub struct Counters {
    #[command(flatten)]
    lab: Named,
    /// Length of the window in seconds
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS")]
    interval: f64,
    /// File to write, in the form that `links`, `map --background` and `verify` read
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Rows to print
    #[arg(long, default_value_t = 20, value_name = "N")]
    top: usize,
}

/// Runs the action.
pub fn run(verb: &Verb, out: &mut Output) -> Result<Answer> {
    match verb {
        Verb::Up(args) => up(args, out),
        Verb::Down(args) => {
            system::check_rights()?;
            let places = system::remove(&args.name)?;
            out.talk(format!(
                "lab '{}': {} namespaces removed",
                args.name,
                count(places)
            ));
            Ok(Answer::of(places > 0))
        }
        Verb::Run(args) => run_inside(args),
        Verb::Degrade(args) => degrade(args, out),
        Verb::Cut(args) => cut(args, out),
        Verb::Detune(args) => detune(args),
        Verb::Counters(args) => show_counters(args, out),
        Verb::Agents(args) => agents::run(args, out),
        Verb::Background(verb) => background::run(verb, out),
        Verb::List => {
            for (name, remark) in labs() {
                out.line(name)?;
                remark.iter().for_each(|remark| out.talk(remark));
            }
            Ok(Answer::Yes)
        }
    }
}

fn up(args: &Up, out: &mut Output) -> Result<Answer> {
    let rate = plan::rate("--rate", &args.rate)?;
    system::check_rights()?;
    let machine = args.fabric.read(out)?;
    let lab = Lab::up(
        &args.lab.name,
        args.fabric.beside.source(&args.fabric.fabric),
        &machine,
        rate,
    )?;
    out.talk(format!(
        "lab '{}': {}; take it down with `hopbyte lab down {0}`",
        lab.name,
        hopbyte_lab::plan::size(&machine.fabric)
    ));
    if out.json {
        out.object(&lab)?;
    }
    Ok(Answer::Yes)
}

fn run_inside(args: &Run) -> Result<Answer> {
    system::check_rights()?;
    let lab = Lab::open(&args.lab.name)?;
    let machine = lab.machine()?;
    let node = match &args.on {
        Some(name) => Lab::place(&machine.fabric, name)?,
        None => machine.fabric.places()[0],
    };
    let command = disturb::command(&args.disturb, &args.command)?;
    let status = lab.run(&machine.fabric, node, &command)?;
    match disturb::status(&args.disturb, status)? {
        0 => Ok(Answer::Yes),
        1 => Ok(Answer::No),
        code => bail!("the command ended with status {code}"),
    }
}

fn degrade(args: &Degrade, out: &mut Output) -> Result<Answer> {
    let factor = share("factor", args.factor)?;
    system::check_rights()?;
    let lab = Lab::open(&args.lab.name)?;
    let fabric = lab.machine()?.fabric;
    for link in hopbyte_lab::links_of(&fabric, &args.link, args.one_way)? {
        lab.set_rate(&fabric, link, factor)?;
        out.talk(format!(
            "{} runs at {factor} of its capacity",
            fabric.link_name(link)
        ));
    }
    Ok(Answer::Yes)
}

fn cut(args: &Cut, out: &mut Output) -> Result<Answer> {
    system::check_rights()?;
    let lab = Lab::open(&args.lab.name)?;
    let mut machine = lab.machine()?;
    lab.cut(&mut machine, &args.link, !args.no_reroute)?;
    out.talk(format!("{} is cut", args.link));
    Ok(Answer::Yes)
}

fn detune(args: &Detune) -> Result<Answer> {
    let (links, injection) = (
        share("--links", args.links)?,
        share("--injection", args.injection)?,
    );
    system::check_rights()?;
    let lab = Lab::open(&args.lab.name)?;
    let fabric = lab.machine()?.fabric;
    lab.detune(&fabric, links, injection)?;
    Ok(Answer::Yes)
}

/// One link's load.
#[derive(Serialize)]
struct LabLinkRow {
    schema: &'static str,
    link: String,
    seconds: f64,
    sent_bytes: u64,
    packets: u64,
    drops: u64,
    used_ratio: f64,
    waiting_ratio: f64,
}

fn show_counters(args: &Counters, out: &mut Output) -> Result<Answer> {
    if !(args.interval > 0.0 && args.interval <= 3600.0) {
        bail!(
            "--interval: found {}, expected seconds above 0 and at most 3600",
            args.interval
        );
    }
    system::check_rights()?;
    let lab = Lab::open(&args.lab.name)?;
    let fabric = lab.machine()?.fabric;
    let increase = counters::watch(&lab, &fabric, Duration::from_secs_f64(args.interval))?;
    let naming = lab.naming(&fabric);
    let mut rows: Vec<LabLinkRow> = fabric
        .link_ids()
        .filter_map(|link| Some((link, Load::of(&increase, link)?)))
        .map(|(link, load)| LabLinkRow {
            schema: "hopbyte.lab.counters/1",
            link: fabric.link_name(link),
            sent_bytes: load.bytes,
            packets: load.packets,
            drops: load.drops,
            seconds: load.seconds,
            used_ratio: load.used(naming.rate(&fabric, link)),
            waiting_ratio: load.waiting,
        })
        .collect();
    rows.sort_by(|a, b| {
        b.used_ratio
            .total_cmp(&a.used_ratio)
            .then_with(|| a.link.cmp(&b.link))
    });
    if let Some(path) = &args.output {
        let lines = load_lines(&lab, &fabric, &increase)?;
        hopbyte_apply::write_atomic(path, &lines)?;
    }
    if out.json {
        rows.iter().try_for_each(|row| out.object(row))?;
        return Ok(Answer::Yes);
    }
    out.line(format!("# lab '{}', {} s", lab.name, args.interval))?;
    let mut text = Table::new(&["<link", "bytes sent", "used %", "waiting %", "drops"]);
    for row in rows.iter().take(args.top) {
        text.row([
            row.link.clone(),
            count(row.sent_bytes as usize),
            format!("{:.1}", 100.0 * row.used_ratio),
            format!("{:.1}", 100.0 * row.waiting_ratio),
            count(row.drops as usize),
        ]);
    }
    out.table(&text)?;
    Ok(Answer::Yes)
}
