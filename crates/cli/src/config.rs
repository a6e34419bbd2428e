//! Options from files: the settings, and those of verbs that a service manager starts.
//!
//! Settings are inserted as the arguments that the command line lacks. `--config FILE` is replaced by the options in FILE, lines of TOML `name = value`; options on the command line
//! override them.

use crate::command::Cli;
use anyhow::Result;
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use hopbyte_job::settings::line::{Verb, complete};
use hopbyte_job::settings::option_words;
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

/// The command line with the settings that its verb lacks, and remarks on them.
pub fn with_settings(arguments: Vec<OsString>) -> Result<(Vec<OsString>, Vec<String>)> {
    let all = Cli::command();
    let (mut command, mut at) = (&all, 1);
    for (i, word) in arguments.iter().enumerate().skip(1) {
        match word.to_str().and_then(|w| command.find_subcommand(w)) {
            Some(next) => (command, at) = (next, i + 1),
            None if word.to_string_lossy().starts_with('-') => {}
            None => break,
        }
    }
    let machine = command.get_arguments().find(|a| a.get_id() == "fabric");
    let machine = machine.map(|a| a.get_long().is_some());
    let verb = Verb {
        name: command.get_name(),
        at,
        machine,
        // Words behind a machine that is left out are taken for it, so that any may be missing.
        lacks: &|words, name| lacks(words, name, machine == Some(false) && name == "fabric"),
    };
    Ok(complete(arguments, &verb)?)
}

/// Whether an argument is not on a command line; `any`: or whether any other that is required is not.
fn lacks(words: &[OsString], name: &str, any: bool) -> bool {
    let missing = match Cli::command().try_get_matches_from(words) {
        Ok(matches) => {
            let leaf = std::iter::successors(Some(&matches), |m| Some(m.subcommand()?.1)).last();
            let source = leaf.and_then(|leaf| leaf.value_source(name));
            return source != Some(ValueSource::CommandLine);
        }
        Err(error) if error.kind() != ErrorKind::MissingRequiredArgument => return false,
        Err(error) => error,
    };
    let listed = match missing.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(listed)) => listed.as_slice(),
        _ => &[],
    };
    let forms = [
        format!("--{name} "),
        format!("<{}>", name.to_ascii_uppercase()),
    ];
    any || listed
        .iter()
        .any(|l| forms.iter().any(|f| l.starts_with(f)))
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
