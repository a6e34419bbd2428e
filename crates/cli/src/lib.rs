//! The command line: one module per verb, answers on standard output, remarks on standard error.
//!
//! A library with a three-line `main`, so that the Python package provides the same command without a
//! second program in its wheel.

#![forbid(unsafe_code)]

mod args;
mod command;
mod config;
mod failure;
mod interrupt;
mod output;
mod progress;
mod verbs;

use clap::Parser;
use std::ffi::OsString;

/// Runs one command line (program name first) and returns its exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let expanded = config::expand(arguments.into_iter().collect()).and_then(config::with_machine);
    let (arguments, remark) = match expanded {
        Ok(expanded) => expanded,
        Err(error) => return failure::report(&error),
    };
    let cli = match command::Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // clap reports help and version as errors, which alone go to standard output.
            let code = if error.use_stderr() {
                failure::BAD_INPUT
            } else {
                failure::DONE
            };
            let _ = error.print();
            return code;
        }
    };
    let mut out = output::Output::new(cli.json, cli.quiet, &arguments);
    remark.iter().for_each(|remark| out.talk(remark));
    let result = verbs::run(&cli.verb, &mut out).and_then(|answer| {
        out.flush()?;
        Ok(answer)
    });
    match result {
        Ok(output::Answer::Yes) => failure::DONE,
        Ok(output::Answer::No) => failure::ANSWER_IS_NO,
        Err(error) => failure::report(&error),
    }
}
