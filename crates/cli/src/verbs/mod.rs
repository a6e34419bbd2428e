//! The questions, one a file.

mod agent;
mod apply;
mod collect;
mod demo;
mod doctor;
mod fabric;
mod generate;
mod lab;
mod links;
mod map;
mod model;
mod oracle;
mod probe;
mod record;
mod replay;
mod sweep;
mod verify;
mod view;
mod watch;

use crate::output::{Answer, Output};
use anyhow::Result;
use clap::Subcommand;

/// All verbs, in the order of the loop.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// What is the machine? Which way do bytes go?
    #[command(subcommand)]
    Fabric(fabric::Verb),
    /// Who sends how much to whom? Runs a job with the recorder in it
    Record(record::RecordArgs),
    /// Are the links as fast as they should be? Which component is not?
    #[command(subcommand)]
    Probe(probe::Verb),
    /// What does each link carry? Worst first
    Links(links::LinksArgs),
    /// Which counters can be read here, and what would help?
    Doctor(doctor::DoctorArgs),
    /// Reads this node's counters every second and pushes them to a collector
    Agent(agent::AgentArgs),
    /// What did every node count in this second? Gathers what agents report, says who is missing
    Collect(collect::CollectArgs),
    /// What did the cluster count then? Reads what `collect --store` keeps
    Replay(replay::ReplayArgs),
    /// The cluster now, in a terminal: worst ports, and who is missing
    Watch(watch::WatchArgs),
    /// What does the route between two nodes cost now?
    #[command(subcommand)]
    Oracle(oracle::Verb),
    /// Where should the ranks go, and what is it worth?
    Map(map::MapArgs),
    /// What does the launcher read?
    Apply(apply::ApplyArgs),
    /// Did it help? Predicted against observed
    Verify(verify::VerifyArgs),
    /// What would happen at this operating point?
    #[command(subcommand)]
    Model(model::Verb),
    /// How sensitive is a job to link bandwidth, injection, latency, message rate, processors?
    Sweep(sweep::SweepArgs),
    /// Show me: the machine and its links as a page for the browser
    View(view::ViewArgs),
    /// An emulated cluster on this machine: namespaces wired as a fabric, links shaped (needs root)
    #[command(subcommand)]
    Lab(lab::Verb),
    /// The whole loop, in a minute, on this machine: on captures or on your own files
    Demo(demo::DemoArgs),
    /// Write man pages or shell completions into a folder
    #[command(hide = true)]
    Generate(generate::GenerateArgs),
}

/// Answers one question.
pub fn run(verb: &Verb, out: &mut Output) -> Result<Answer> {
    match verb {
        Verb::Fabric(verb) => fabric::run(verb, out),
        Verb::Record(args) => record::run(args, out),
        Verb::Probe(verb) => probe::run(verb, out),
        Verb::Links(args) => links::run(args, out),
        Verb::Doctor(args) => doctor::run(args, out),
        Verb::Agent(args) => agent::run(args, out),
        Verb::Collect(args) => collect::run(args, out),
        Verb::Replay(args) => replay::run(args, out),
        Verb::Watch(args) => watch::run(args, out),
        Verb::Oracle(verb) => oracle::run(verb, out),
        Verb::Map(args) => map::run(args, out),
        Verb::Apply(args) => apply::run(args, out),
        Verb::Verify(args) => verify::run(args, out),
        Verb::Model(verb) => model::run(verb, out),
        Verb::Sweep(args) => sweep::run(args, out),
        Verb::View(args) => view::run(args, out),
        Verb::Lab(verb) => lab::run(verb, out),
        Verb::Demo(args) => demo::run(args, out),
        Verb::Generate(args) => generate::run(args, out),
    }
}
