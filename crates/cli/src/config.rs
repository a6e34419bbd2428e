//! Options from files: the configured machine, and those of verbs that a service manager starts.
//!
//! The configured machine is inserted as `--fabric` or first argument, with `--routes`, …, unless the command line names
//! one. `--config FILE` is replaced by the options in FILE, lines of TOML `name = value`; options on the command line
//! override them.

use crate::command::Cli;
use anyhow::Result;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use hopbyte_job::settings::{Settings, option_words};
use std::ffi::OsString;
use std::path::Path;

/// Verbs that take `--config`.
const VERBS: [&str; 2] = ["agent", "collect"];

/// The command line with the options of its configuration file inserted after the verb.
pub fn expand(arguments: Vec<OsString>) -> Result<Vec<OsString>> {
    let verb = arguments.iter().position(|a| VERBS.iter().any(|v| a == v));
    let Some((verb, file)) = verb.zip(file(&arguments)) else {
        return Ok(arguments);
    };
    let text = hopbyte_observe::text::small(Path::new(&file))?;
    let options = option_words(&file, &text)?;
    hopbyte_observe::secret::check_options(Path::new(&file), &options)?;
    let mut all = arguments;
    all.splice(verb + 1..verb + 1, options);
    Ok(all)
}

/// The command line with the options of the configured machine, and a remark on it.
pub fn with_machine(mut arguments: Vec<OsString>) -> Result<(Vec<OsString>, Option<String>)> {
    let Some((place, is_option)) = place_of_machine(&arguments) else {
        return Ok((arguments, None));
    };
    let is_named = match is_option {
        true => arguments.iter().any(|word| {
            let word = word.to_string_lossy();
            word == "--fabric" || word.starts_with("--fabric=")
        }),
        false => !Cli::try_parse_from(&arguments)
            .is_err_and(|error| error.kind() == ErrorKind::MissingRequiredArgument),
    };
    if is_named {
        return Ok((arguments, None));
    }
    let settings = Settings::load()?;
    let Some((fabric, parts, remark)) = settings.machine_options() else {
        return Ok((arguments, None));
    };
    let mut first = OsString::from(if is_option { "--fabric=" } else { "" });
    first.push(fabric);
    arguments.splice(place..place, std::iter::once(first).chain(parts));
    Ok((arguments, Some(remark)))
}

/// The position behind a verb that takes a machine, other than `run`, which reads the settings itself, and whether it takes
/// it as the option `--fabric`.
fn place_of_machine(arguments: &[OsString]) -> Option<(usize, bool)> {
    let all = Cli::command();
    let mut command = &all;
    for (i, word) in arguments.iter().enumerate().skip(1) {
        if let Some(next) = word.to_str().and_then(|w| command.find_subcommand(w)) {
            command = next;
            let machine = command.get_arguments().find(|a| a.get_id() == "fabric");
            if let Some(machine) = machine.filter(|_| command.get_name() != "run") {
                return Some((i + 1, machine.get_long().is_some()));
            }
        } else if !word.to_string_lossy().starts_with('-') {
            return None;
        }
    }
    None
}

fn file(arguments: &[OsString]) -> Option<String> {
    let mut words = arguments.iter().map(|a| a.to_string_lossy());
    while let Some(word) = words.next() {
        match word.strip_prefix("--config") {
            Some("") => return words.next().map(Into::into),
            Some(rest) => {
                if let Some(file) = rest.strip_prefix('=') {
                    return Some(file.to_owned());
                }
            }
            None => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_verbs_that_have_one_read_a_file() {
        let line = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        assert_eq!(expand(line("hopbyte links --config x")).unwrap().len(), 4);
        assert!(expand(line("hopbyte collect --config=/nowhere/x")).is_err());
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "deadline = 200\n").unwrap();
        let text = format!(
            "hopbyte --json collect --config {} --sync",
            file.path().display()
        );
        assert_eq!(expand(line(&text)).unwrap()[3], "--deadline=200");
    }
}
