//! `hopbyte explain`: the class of an error.

use crate::output::{Answer, Output};
use anyhow::Result;
use hopbyte_job::failure::explained;

/// Identifiers.
#[derive(clap::Args, Debug)]
pub struct ExplainArgs {
    /// Identifiers of errors, as in error[HB0201]
    #[arg(value_name = "ID")]
    ids: Vec<String>,
}

/// Prints cause, example and remedy.
pub fn run(args: &ExplainArgs, out: &mut Output) -> Result<Answer> {
    for about in explained(&args.ids)? {
        out.answer(&about, |about, _| about.text(!args.ids.is_empty()))?;
    }
    Ok(Answer::Yes)
}
