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
    #![allow(clippy::unwrap_used)]

    use super::Cli;
    use clap::CommandFactory;
    use hopbyte_apply::Launcher;
    use hopbyte_job::Goal;
    use hopbyte_observe::kinds;
    use hopbyte_oracle::Metric;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    /// The long help of a verb.
    fn help(verb: &[&str]) -> String {
        let mut command = Cli::command();
        command.build();
        for name in verb {
            command = command.find_subcommand(name).unwrap().clone();
        }
        let help = command.render_long_help().to_string();
        help.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Fails for a row of a table that a help text does not name.
    #[test]
    fn help_names_every_row_of_the_tables() {
        let rows = |verb: &[&str], names: Vec<&str>| {
            let help = help(verb);
            for name in names {
                assert!(help.contains(name), "{verb:?} does not say {name}: {help}");
            }
        };
        let [machines, counters, traffic, traces, placements] = kinds::kinds().map(|k| {
            let names = k.formats.into_iter().map(|f| f.name);
            names.collect::<Vec<&str>>()
        });
        // Parts of a machine are other options; mpiP is refused.
        let parts = [
            "phys-routes",
            "ibroute",
            "guid2lid",
            "opensm-sl2vl.dump",
            "opensm-torus.dump",
        ];
        let whole = machines.into_iter();
        let whole: Vec<&str> = whole
            .filter(|n| !parts.iter().any(|p| n.contains(p)))
            .collect();
        rows(&["fabric", "show"], whole.clone());
        rows(&["map"], whole);
        rows(&["links"], counters);
        rows(
            &["map"],
            traffic.into_iter().filter(|n| *n != "mpiP").collect(),
        );
        rows(&["map"], traces);
        rows(&["map"], placements);
        rows(&["map"], Goal::ALL.map(Goal::about).into());
        rows(&["map"], Metric::ALL.map(Metric::name).into());
        rows(&["oracle", "query"], Metric::ALL.map(Metric::about).into());
        for verb in [&["map"][..], &["apply"]] {
            rows(verb, Launcher::ALL.map(Launcher::name).into());
            rows(verb, Launcher::ALL.map(Launcher::about).into());
        }
    }
}
