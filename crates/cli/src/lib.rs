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
mod verbs;

use clap::Parser;
use hopbyte_job::standard_input;
use hopbyte_view::terminal::start_spinner;
use std::ffi::OsString;

/// Runs one command line (program name first) and returns its exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    interrupt::outlive_file_limits();
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let json = arguments.iter().take_while(|a| *a != "--");
    let json = json.into_iter().any(|a| a == "--json");
    let read = standard_input(arguments).map_err(Into::into);
    let expanded = read
        .and_then(config::expand)
        .and_then(config::with_settings);
    let (arguments, remarks) = match expanded {
        Ok(expanded) => expanded,
        Err(error) => return failure::report(&error, json),
    };
    let cli = match command::Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(mut error) => {
            remarks
                .iter()
                .for_each(|remark| eprintln!("hopbyte: {remark}"));
            return failure::usage(&mut error, &arguments, json);
        }
    };
    let mut out = output::Output::new(cli.json, cli.quiet, &arguments);
    if !cli.verb.shares_node() {
        hopbyte_map::start_shared_pool();
    }
    if !cli.quiet && cli.verb.is_short() {
        start_spinner(out.command.clone());
    }
    remarks.iter().for_each(|remark| out.talk(remark));
    let result = verbs::run(&cli.verb, &mut out).and_then(|answer| {
        out.flush()?;
        Ok(answer)
    });
    match result {
        Ok(output::Answer::Yes) => failure::DONE,
        Ok(output::Answer::No) => failure::ANSWER_IS_NO,
        Err(error) => {
            drop(out);
            failure::report(&error, cli.json)
        }
    }
}
