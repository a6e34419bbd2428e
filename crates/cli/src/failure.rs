//! Errors as messages for users and exit codes for scripts.

use crate::command::Cli;
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use hopbyte_fabric::{Class, InputError, printable, similar};
use hopbyte_job::causes;
use hopbyte_job::failure::{BAD_INPUT, Failure, ReaderLeft, printed};
use hopbyte_view::terminal::end_spinner;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};

/// Success, or the answer is yes.
pub const DONE: u8 = 0;
/// The question is valid and the answer is no.
pub const ANSWER_IS_NO: u8 = 1;

/// Writes an error to standard error, with `json` also as an object to standard output, and returns its exit code.
///
/// A reader of standard output that left (`hopbyte links … | head`) is not an error.
pub fn report(error: &anyhow::Error, json: bool) -> u8 {
    let closed = causes(error.as_ref())
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| matches!(cause.get_ref(), Some(e) if e.is::<ReaderLeft>()));
    if closed {
        return DONE;
    }
    end_spinner();
    let failure = Failure::of(error.as_ref());
    let _ = writeln!(io::stderr(), "{}", printable(&failure.to_string()));
    object(&failure, json)
}

/// The same for a command line that is not valid; help and version are no errors and go to standard output.
pub fn usage(error: &mut clap::Error, arguments: &[OsString], json: bool) -> u8 {
    suggest(error, arguments);
    let unreadable = arguments.iter().find(|a| a.to_str().is_none());
    if let Some(word) = unreadable.filter(|_| error.kind() == ErrorKind::InvalidUtf8) {
        let found = format!("{} with bytes that are not UTF-8", word.display());
        let error = InputError::new("command line", found, "UTF-8").of(Class::OptionValue);
        let hint = "give a file another name, for example by ln -s";
        return report(&error.hint(hint).into(), json);
    }
    if let Some(error) = negative(error, arguments) {
        return report(&error.into(), json);
    }
    let class = match error.kind() {
        ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand => Class::UnknownWord,
        ErrorKind::MissingRequiredArgument | ErrorKind::MissingSubcommand => Class::MissingArgument,
        ErrorKind::ArgumentConflict => Class::Conflict,
        _ if error.use_stderr() && error.to_string().starts_with("error:") => Class::OptionValue,
        _ => {
            let written = printed(error.print().and_then(|()| io::stdout().flush()));
            let code = if error.use_stderr() { BAD_INPUT } else { DONE };
            return written.map_or_else(|e| report(&e.into(), json), |()| code);
        }
    };
    let plain = error.to_string();
    let message = plain.trim_start_matches("error:").trim().to_owned();
    let failure = Failure::new(class, message);
    let coloured = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let text = match coloured {
        true => error.render().ansi().to_string(),
        false => plain,
    };
    let named = text.replacen("error:", &format!("error[{}]:", failure.id), 1);
    let _ = write!(io::stderr(), "{named}");
    object(&failure, json)
}

/// The error of a negative number, which clap takes for an option.
fn negative(error: &clap::Error, arguments: &[OsString]) -> Option<InputError> {
    let ContextValue::String(word) = error.get(ContextKind::InvalidArg)? else {
        return None;
    };
    // Clap names the first letter alone of words such as -12.
    let is_it = |a: &OsString| {
        let a = a.to_string_lossy();
        a.starts_with(word.as_str()) && a.parse::<f64>().is_ok()
    };
    let at = arguments.iter().position(is_it)?;
    let option = arguments[at.checked_sub(1)?].to_str()?;
    let found = arguments[at].to_string_lossy();
    let unknown = error.kind() == ErrorKind::UnknownArgument && option.starts_with("--");
    unknown.then(|| InputError::new(option, found, "a value that is not negative"))
}

/// Adds similar verbs where clap finds none: it does not see swapped letters in short words.
fn suggest(error: &mut clap::Error, arguments: &[OsString]) {
    let known = error.get(ContextKind::SuggestedSubcommand).is_some();
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return;
    };
    let all = Cli::command();
    let before = arguments.iter().take_while(|a| *a != word.as_str());
    let verb = before.fold(&all, |verb, a| verb.find_subcommand(a).unwrap_or(verb));
    let near = similar(word, verb.get_subcommands().map(clap::Command::get_name));
    if !known && !near.is_empty() {
        let near = ContextValue::Strings(near);
        error.insert(ContextKind::SuggestedSubcommand, near);
    }
}

fn object(failure: &Failure, json: bool) -> u8 {
    if json && let Ok(line) = serde_json::to_string(failure) {
        let _ = writeln!(io::stdout(), "{line}");
    }
    failure.exit
}
