//! `hopbyte model`: predictions.

mod reproduce;
pub mod run;
mod topobw;

use crate::output::{Answer, Output};
use anyhow::Result;
use clap::Subcommand;

/// Commands of the model.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run time of a job on a machine at an operating point, and the load of every link
    Run(run::RunArgs),
    /// Published results beside those of the models
    Reproduce(reproduce::ReproduceArgs),
    /// Predicted TopoBW results between the nodes of a scenario's job, link by link
    Topobw(topobw::TopobwArgs),
}

/// Runs the command.
pub fn run(verb: &Verb, out: &mut Output) -> Result<Answer> {
    match verb {
        Verb::Run(args) => run::run(args, out),
        Verb::Reproduce(args) => reproduce::run(args, out),
        Verb::Topobw(args) => topobw::run(args, out),
    }
}
