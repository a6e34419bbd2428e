//! Options from files: the configured machine, and those of verbs that a service manager starts.
//!
//! The configured machine is inserted as `--fabric`, `--routes`, …, unless the command line names one. `--config FILE`
//! is replaced by the options in FILE, lines of TOML `name = value`; options on the command line override them.

use crate::command::Cli;
use anyhow::Result;
use clap::CommandFactory;
use hopbyte_job::settings::{Settings, option_words};
use std::ffi::OsString;
use std::path::Path;

/// Verbs that take `--config`.
const VERBS: [&str; 2] = ["agent", "collect"];

/// Options of files that are written, for which `-` is no standard input.
const WRITTEN: [&str; 5] = ["--out", "-o", "--to", "--report", "--figures"];

/// The command line with `-` as the path of standard input.
pub fn standard_input(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let own = arguments
        .iter()
        .position(|a| a == "--")
        .unwrap_or(arguments.len());
    for i in 1..own {
        if arguments[i] == "-" && !WRITTEN.iter().any(|w| arguments[i - 1] == *w) {
            arguments[i] = "/dev/stdin".into();
        }
    }
    arguments
}

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
    let named = |word: &OsString| {
        let word = word.to_string_lossy();
        word == "--fabric" || word.starts_with("--fabric=")
    };
    let Some(place) = place_of_machine(&arguments).filter(|_| !arguments.iter().any(named)) else {
        return Ok((arguments, None));
    };
    let Some((options, remark)) = Settings::load()?.machine_options() else {
        return Ok((arguments, None));
    };
    arguments.splice(place..place, options);
    Ok((arguments, Some(remark)))
}

/// The position behind a verb with the option `--fabric`, other than `run`, which reads the settings itself.
fn place_of_machine(arguments: &[OsString]) -> Option<usize> {
    let all = Cli::command();
    let mut command = &all;
    for (i, word) in arguments.iter().enumerate().skip(1) {
        if let Some(next) = word.to_str().and_then(|w| command.find_subcommand(w)) {
            command = next;
            if command.get_name() != "run"
                && command
                    .get_arguments()
                    .any(|a| a.get_long() == Some("fabric"))
            {
                return Some(i + 1);
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
    fn a_dash_is_standard_input_where_a_file_is_read() {
        let line = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let read = "hopbyte links /dev/stdin --fabric f";
        assert_eq!(
            standard_input(line("hopbyte links - --fabric f")),
            line(read)
        );
        for kept in ["hopbyte map a --out -", "hopbyte run -- cat -"] {
            assert_eq!(standard_input(line(kept)), line(kept));
        }
    }

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
