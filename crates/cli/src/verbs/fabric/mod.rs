//! `hopbyte fabric`: the machine itself.

mod check;
mod convert;
mod diff;
mod draw;
mod pairs;
mod route;
mod show;
mod specs;

use crate::output::{Answer, Output};
use anyhow::Result;
use clap::Subcommand;

/// Questions about a machine.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// What is the machine: routers, nodes, links by kind, and how it routes
    Show(show::ShowArgs),
    /// Which links do bytes take from one node to another, and which way do answers come back
    Route(route::RouteArgs),
    /// Which pairs of nodes can talk, and over how many links
    Pairs(pairs::PairsArgs),
    /// Is it sound: connected, routable, free of credit loops, cabled as it should be
    Check(check::CheckArgs),
    /// What changed between two readings: links, nodes, routes
    Diff(diff::DiffArgs),
    /// What does it look like, and where is it loaded: an SVG picture
    Draw(draw::DrawArgs),
    /// Write it in another format: JSON, binary, Graphviz, GraphML, Slurm, SimGrid, InfiniBand
    #[command(visible_alias = "make")]
    Convert(convert::ConvertArgs),
    /// Which machines can be described in a word
    Specs,
}

/// Answers one of them.
pub fn run(verb: &Verb, out: &mut Output) -> Result<Answer> {
    match verb {
        Verb::Show(args) => show::run(args, out),
        Verb::Route(args) => route::run(args, out),
        Verb::Pairs(args) => pairs::run(args, out),
        Verb::Check(args) => check::run(args, out),
        Verb::Diff(args) => diff::run(args, out),
        Verb::Draw(args) => draw::run(args, out),
        Verb::Convert(args) => convert::run(args, out),
        Verb::Specs => specs::run(out),
    }
}
