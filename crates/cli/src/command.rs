//! The command line's definition; help, man pages and completions come from it.

use crate::verbs::Verb;
use clap::Parser;

/// Load of a machine's network, cost of a job's traffic on it, and the mapping that minimises this cost.
#[derive(Debug, Parser)]
#[command(
    name = "hopbyte",
    version,
    propagate_version = true,
    subcommand_required = true
)]
#[command(arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "\
Exit status: 0 done or yes, 1 the answer is no, 2 bad input, 3 the environment lacks something.
Data goes to standard output, talk and progress to standard error.")]
pub struct Cli {
    /// The question to ask.
    #[command(subcommand)]
    pub verb: Verb,
    /// Print JSON (one object, or one per line) with the same fields as the text
    #[arg(long, global = true, help_heading = "Output")]
    pub json: bool,
    /// Print nothing on standard error but errors
    #[arg(long, short, global = true, help_heading = "Output")]
    pub quiet: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
