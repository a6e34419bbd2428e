//! `hopbyte oracle`: what does the route between two nodes cost, once or as long as it is asked?

mod query;
mod serve;

use crate::output::{Answer, Output};
use anyhow::Result;
use clap::Subcommand;

/// Questions about routes.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// The cost of the route between two nodes, a list of pairs, or all pairs
    Query(query::Query),
    /// Follow the machine's counters and answer programs: costs of pairs, lists and allocations as of now
    Serve(serve::ServeArgs),
}

/// Answers.
pub fn run(verb: &Verb, out: &mut Output) -> Result<Answer> {
    match verb {
        Verb::Query(query) => query::run(query, out),
        Verb::Serve(args) => serve::run(args, out),
    }
}
