//! Words of command lines.

use hopbyte_fabric::{Class, InputError};
use std::ffi::OsString;

/// Quotes a word for a POSIX shell if necessary.
pub fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./,:=@+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// A launch command of [`hopbyte_apply::Advice`] with the actual name of its file.
pub fn with_file(command: &str, name: &str) -> String {
    let name = shell_word(name);
    command
        .replace("=FILE", &format!("={name}"))
        .replace(":FILE", &format!(":{name}"))
        .replace(" FILE", &format!(" {name}"))
}

/// A command line quoted for a shell, program name first.
pub fn command_line(arguments: &[OsString]) -> String {
    let words = arguments
        .iter()
        .skip(1)
        .map(|word| shell_word(&word.to_string_lossy()));
    std::iter::once("hopbyte".to_owned())
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Options of files that are written, for which `-` is no standard input.
const WRITTEN: [&str; 5] = ["--out", "-o", "--to", "--report", "--figures"];

/// The path of standard input.
const STANDARD_INPUT: &str = "/dev/stdin";

/// The command line with `-` as the path of standard input.
///
/// # Errors
/// Several arguments name it; it can be read once.
pub fn standard_input(mut arguments: Vec<OsString>) -> Result<Vec<OsString>, InputError> {
    let mut read = 0;
    for i in 1..own_words(&arguments) {
        let (before, word) = (&arguments[i - 1], &arguments[i]);
        let joined = word.to_str().filter(|word| word.starts_with("--"));
        let (name, value) = match joined.and_then(|word| word.split_once('=')) {
            Some((name, value)) => (name.into(), value.as_ref()),
            None => (before.to_string_lossy(), word.as_os_str()),
        };
        let at = match value.as_encoded_bytes() {
            b"-" => Some(""),
            // A list in a file, such as --nodes @FILE.
            b"@-" => Some("@"),
            _ => None,
        };
        if let Some(at) = at.filter(|_| !WRITTEN.contains(&&*name)) {
            read += 1;
            arguments[i] = match value.len() == word.len() {
                true => format!("{at}{STANDARD_INPUT}").into(),
                false => format!("{name}={at}{STANDARD_INPUT}").into(),
            };
        } else if value == STANDARD_INPUT {
            read += 1;
        }
    }
    if read > 1 {
        let found = format!("{read} inputs from standard input");
        let error = InputError::new("command line", found, "one: it can be read once");
        let hint = "give files for the others, or pipes: <(command)";
        return Err(error.of(Class::Refused).hint(hint));
    }
    Ok(arguments)
}

/// Number of words before those of a job.
fn own_words(arguments: &[OsString]) -> usize {
    let job = |verb: &OsString| verb == "run" || verb == "record";
    let is_option = |word: &OsString| word.as_encoded_bytes().starts_with(b"-");
    let verb = (1..arguments.len()).find(|&i| !is_option(&arguments[i]));
    let end = arguments.iter().position(|a| a == "--");
    end.or(verb.filter(|&i| job(&arguments[i])))
        .unwrap_or(arguments.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dash_is_standard_input_where_a_file_is_read() {
        let line = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        for (typed, read) in [
            ("links - --fabric f", "links /dev/stdin --fabric f"),
            ("links a --fabric=-", "links a --fabric=/dev/stdin"),
            ("map a --out -", "map a --out -"),
            ("map a --nodes @-", "map a --nodes @/dev/stdin"),
            ("map a --down=@-", "map a --down=@/dev/stdin"),
            ("map - --out=-", "map /dev/stdin --out=-"),
            ("run -- cat - -", "run -- cat - -"),
            ("run cat - -", "run cat - -"),
        ] {
            let [typed, read] = [typed, read].map(|text| line(&format!("hopbyte {text}")));
            assert_eq!(standard_input(typed).unwrap(), read);
        }
        for twice in [
            "links - --fabric -",
            "links - --fabric=-",
            "fabric diff - -",
            "links /dev/stdin --fabric -",
        ] {
            let said = standard_input(line(&format!("hopbyte {twice}"))).unwrap_err();
            assert!(
                said.to_string().contains("2 inputs from standard input"),
                "{said}"
            );
        }
    }
}
