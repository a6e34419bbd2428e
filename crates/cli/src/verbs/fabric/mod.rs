//! `hopbyte fabric`: the machine itself.

mod check;
mod convert;
mod diff;
mod draw;
mod nodes;
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
    /// Routers, nodes, links by kind, and routing of a machine
    Show(show::ShowArgs),
    /// Names of the nodes, as options and files take them, with their routers
    Nodes(crate::args::FabricArgs),
    /// Request and response route between two nodes
    Route(route::RouteArgs),
    /// Reachable pairs of nodes, and their hops
    Pairs(pairs::PairsArgs),
    /// Check: connected, routable, free of credit loops, cabled as expected
    Check(check::CheckArgs),
    /// Changes between two readings: links, nodes, routes
    Diff(diff::DiffArgs),
    /// Picture of the machine and its load, as SVG
    Draw(draw::DrawArgs),
    /// Convert to another format: JSON, binary, Graphviz, GraphML, Slurm, SimGrid, InfiniBand
    #[command(visible_alias = "make")]
    Convert(convert::ConvertArgs),
    /// Forms of specs and named machines
    Specs,
}

/// Runs the command.
pub fn run(verb: &Verb, out: &mut Output) -> Result<Answer> {
    match verb {
        Verb::Show(args) => show::run(args, out),
        Verb::Nodes(args) => nodes::run(args, out),
        Verb::Route(args) => route::run(args, out),
        Verb::Pairs(args) => pairs::run(args, out),
        Verb::Check(args) => check::run(args, out),
        Verb::Diff(args) => diff::run(args, out),
        Verb::Draw(args) => draw::run(args, out),
        Verb::Convert(args) => convert::run(args, out),
        Verb::Specs => specs::run(out),
    }
}
