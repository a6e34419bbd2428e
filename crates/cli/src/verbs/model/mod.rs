//! `hopbyte model`: what would happen?

mod reproduce;
pub mod run;
mod topobw;

use crate::output::{Answer, Output};
use anyhow::Result;
use clap::Subcommand;

/// Questions to models.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// How long does a job take on a machine at an operating point, and what does each link carry?
    Run(run::RunArgs),
    /// What the papers printed beside what the models say
    Reproduce(reproduce::ReproduceArgs),
    /// What TopoBW would measure between the nodes of a scenario's job, link by link
    Topobw(topobw::TopobwArgs),
}

/// Answers.
pub fn run(verb: &Verb, out: &mut Output) -> Result<Answer> {
    match verb {
        Verb::Run(args) => run::run(args, out),
        Verb::Reproduce(args) => reproduce::run(args, out),
        Verb::Topobw(args) => topobw::run(args, out),
    }
}
