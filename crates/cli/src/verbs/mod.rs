//! The verbs, one module each.

mod agent;
mod apply;
mod blame;
mod calibrate;
mod collect;
mod config;
mod demo;
mod doctor;
mod explain;
mod fabric;
mod generate;
mod lab;
mod links;
mod map;
mod model;
mod oracle;
mod predict;
mod probe;
mod record;
mod replay;
mod run;
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
    /// Topology, routes and checks of a machine
    #[command(subcommand)]
    Fabric(fabric::Verb),
    /// Launch a job with the rank order that its earlier runs have shown to pay
    Run(run::RunArgs),
    /// Run a job with the recorder: traffic between its ranks, and their placement
    Record(record::RecordArgs),
    /// Measure links and find the slow component
    #[command(subcommand)]
    Probe(probe::Verb),
    /// Measure latencies, overheads and rates of the machine, for predictions
    Calibrate(calibrate::CalibrateArgs),
    /// Load of every link, worst first
    Links(links::LinksArgs),
    /// Links, nodes or adapters that slow the network, and the jobs affected; exit code 1 if there are any
    Blame(blame::BlameArgs),
    /// Which counters can be read here, and how to enable the others
    Doctor(doctor::DoctorArgs),
    /// Read this node's counters every second and push them to a collector
    Agent(agent::AgentArgs),
    /// Gather the reports of all agents every second, and list missing nodes
    Collect(collect::CollectArgs),
    /// Replay the ticks that `collect --store` has stored
    Replay(replay::ReplayArgs),
    /// Live view of the cluster in a terminal: worst ports and missing nodes
    Watch(watch::WatchArgs),
    /// Current cost of the route between two nodes
    #[command(subcommand)]
    Oracle(oracle::Verb),
    /// Place the ranks, and certify the gain
    Map(map::MapArgs),
    /// Run time of a recorded job under each of several placements
    Predict(predict::PredictArgs),
    /// Write a mapping as launcher input
    Apply(apply::ApplyArgs),
    /// Compare a prediction with counters
    Verify(verify::VerifyArgs),
    /// Predict the run time at an operating point
    #[command(subcommand)]
    Model(model::Verb),
    /// Sensitivity of a job to link bandwidth, injection, latency, message rate, processors
    Sweep(sweep::SweepArgs),
    /// The machine and its links as a page for the browser
    View(view::ViewArgs),
    /// An emulated cluster on this machine: namespaces wired as a fabric, shaped links (needs root)
    #[command(subcommand)]
    Lab(lab::Verb),
    /// The whole loop in a minute, on captures or on your own files
    Demo(demo::DemoArgs),
    /// Cause of an error by its identifier, an example, and what to do; without one, all identifiers
    Explain(explain::ExplainArgs),
    /// The settings of hopbyte.toml and of HOPBYTE_ variables, and their origin
    Config,
    /// Write man pages or shell completions into a folder
    #[command(hide = true)]
    Generate(generate::GenerateArgs),
}

impl Verb {
    /// Whether it computes and ends by itself, and starts no job that prints.
    pub fn is_short(&self) -> bool {
        let serves = matches!(self, Self::Collect(_) | Self::Watch(_));
        !(self.shares_node() || serves || matches!(self, Self::Demo(_)))
    }

    /// Whether the command shares its nodes with a job.
    pub fn shares_node(&self) -> bool {
        let job = matches!(self, Self::Run(_) | Self::Record(_) | Self::Lab(_));
        let probe = matches!(self, Self::Calibrate(_) | Self::Probe(probe::Verb::Run(_)));
        job || probe || matches!(self, Self::Agent(_))
    }
}

/// Runs a verb.
pub fn run(verb: &Verb, out: &mut Output) -> Result<Answer> {
    match verb {
        Verb::Fabric(verb) => fabric::run(verb, out),
        Verb::Run(args) => run::run(args, out),
        Verb::Record(args) => record::run(args, out),
        Verb::Probe(verb) => probe::run(verb, out),
        Verb::Calibrate(args) => calibrate::run(args, out),
        Verb::Links(args) => links::run(args, out),
        Verb::Blame(args) => blame::run(args, out),
        Verb::Doctor(args) => doctor::run(args, out),
        Verb::Agent(args) => agent::run(args, out),
        Verb::Collect(args) => collect::run(args, out),
        Verb::Replay(args) => replay::run(args, out),
        Verb::Watch(args) => watch::run(args, out),
        Verb::Oracle(verb) => oracle::run(verb, out),
        Verb::Map(args) => map::run(args, out),
        Verb::Predict(args) => predict::run(args, out),
        Verb::Apply(args) => apply::run(args, out),
        Verb::Verify(args) => verify::run(args, out),
        Verb::Model(verb) => model::run(verb, out),
        Verb::Sweep(args) => sweep::run(args, out),
        Verb::View(args) => view::run(args, out),
        Verb::Lab(verb) => lab::run(verb, out),
        Verb::Demo(args) => demo::run(args, out),
        Verb::Explain(args) => explain::run(args, out),
        Verb::Config => config::run(out),
        Verb::Generate(args) => generate::run(args, out),
    }
}
