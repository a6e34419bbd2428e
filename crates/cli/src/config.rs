//! Options from files: the configured machine, and those of verbs that a service manager starts.
//!
//! The machine of the settings is inserted as `--fabric`, `--routes`, … of verbs with these options, unless the command
//! line names one. `--config FILE` replaces the options in FILE, lines of TOML `name = value`; options on the command
//! line override it.

use crate::command::Cli;
use anyhow::Result;
use clap::CommandFactory;
use hopbyte_fabric::InputError;
use hopbyte_job::settings::Settings;
use std::ffi::OsString;
use std::path::Path;
use toml::{Table, Value};

/// Verbs that take `--config`.
const VERBS: [&str; 2] = ["agent", "collect"];

/// The command line with the options of its configuration file inserted after the verb.
pub fn expand(arguments: Vec<OsString>) -> Result<Vec<OsString>> {
    let verb = arguments.iter().position(|a| VERBS.iter().any(|v| a == v));
    let Some((verb, file)) = verb.zip(file(&arguments)) else {
        return Ok(arguments);
    };
    let text = hopbyte_observe::text::small(Path::new(&file))?;
    let options = options(&file, &text)?;
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
    let settings = Settings::load()?;
    let parts = ["fabric", "routes", "system-map", "names", "hosts"];
    let set = settings.0.iter().filter(|s| parts.contains(&s.name));
    let Some(fabric) = settings.0.iter().find(|s| s.name == "fabric") else {
        return Ok((arguments, None));
    };
    let remark = format!("fabric {} of {}", fabric.values.join(" "), fabric.origin);
    let options = set.flat_map(|s| s.values.iter().map(|v| format!("--{}={v}", s.name).into()));
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

fn options(file: &str, text: &str) -> Result<Vec<OsString>> {
    let table: Table = text.parse().map_err(|e: toml::de::Error| {
        let line = e
            .span()
            .map(|s| text[..s.start].lines().count().max(1) as u64);
        let error = InputError::new(file, e.message(), "lines of TOML, name = value");
        line.map_or(error.clone(), |line| error.at(line))
    })?;
    let mut options = Vec::new();
    for (name, value) in &table {
        let values = match value {
            Value::Array(values) => values.as_slice(),
            one => std::slice::from_ref(one),
        };
        for value in values {
            let option = match value {
                Value::Boolean(false) => continue,
                Value::Boolean(true) => format!("--{name}"),
                Value::String(text) => format!("--{name}={text}"),
                Value::Integer(_) | Value::Float(_) => format!("--{name}={value}"),
                other => {
                    let expected = "a text, a number, true or false, or a list of them";
                    let found = format!("{name} = {other}");
                    return Err(InputError::new(file, found, expected).into());
                }
            };
            options.push(option.into());
        }
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Result<Vec<String>> {
        let options = options("c.toml", text)?;
        Ok(options
            .into_iter()
            .map(|o| o.to_string_lossy().into_owned())
            .collect())
    }

    #[test]
    fn files_become_options() {
        let text = "listen = [\"10.0.0.1:7667\", \"[::1]:7667\"]\nsync = true\nverbose = false\ndeadline = 200\n";
        let expected = [
            "--listen=10.0.0.1:7667",
            "--listen=[::1]:7667",
            "--sync",
            "--deadline=200",
        ];
        let mut got = words(text).unwrap();
        got.sort_by_key(|w| expected.iter().position(|e| e == w));
        assert_eq!(got, expected);
    }

    #[test]
    fn what_is_no_option_is_refused_with_its_line() {
        let error = words("listen = 1\nstore\n").unwrap_err().to_string();
        assert!(error.starts_with("c.toml:2: found"), "{error}");
        assert!(
            words("[a]\nb = 1")
                .unwrap_err()
                .to_string()
                .contains("expected a text")
        );
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
