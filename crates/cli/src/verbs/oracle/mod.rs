//! `hopbyte oracle`: costs of routes, by one query or a service.

mod query;
mod serve;

use crate::output::{Answer, Output};
use anyhow::Result;
use clap::Subcommand;

/// Commands of the oracle.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// The cost of the route between two nodes, a list of pairs, or all pairs
    Query(Box<query::Query>),
    /// Follow the machine's counters and serve current costs of pairs, lists and allocations to programs
    Serve(Box<serve::ServeArgs>),
}

/// Runs the command.
pub fn run(verb: &Verb, out: &mut Output) -> Result<Answer> {
    match verb {
        Verb::Query(query) => query::run(query, out),
        Verb::Serve(args) => serve::run(args, out),
    }
}
