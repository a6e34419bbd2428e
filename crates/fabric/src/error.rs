//! Errors with location, found value and expected value.

use crate::class::Class;
use std::borrow::Cow;
use std::fmt;
use thiserror::Error;

/// Longest excerpt of untrusted input in an error.
const EXCERPT: usize = 80;

/// Unreadable input: location, found value, expected value, hint.
///
/// The text form is one line, `FILE:LINE: found …, expected …`, with an optional `hint: …` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputError {
    /// File name, or the name of the argument.
    pub file: String,
    /// Line (from 1), if applicable.
    pub line: Option<u64>,
    /// The found value, shortened and with control characters escaped.
    pub found: Box<str>,
    /// The accepted values.
    pub expected: String,
    /// Advice for the user.
    pub hint: Option<String>,
    /// Class of the error.
    pub class: Class,
}

impl InputError {
    /// An error in `file`: `found` is untrusted and is shortened to a printable excerpt.
    pub fn new(
        file: impl Into<String>,
        found: impl AsRef<str>,
        expected: impl Into<String>,
    ) -> Self {
        let file = file.into();
        // Options are named with their dashes, files and specs are not.
        let class = match file.starts_with("--") {
            true => Class::OptionValue,
            false => Class::Content,
        };
        Self {
            class,
            file,
            line: None,
            found: excerpt(found.as_ref()).into(),
            expected: expected.into(),
            hint: None,
        }
    }

    /// An error of a parser that reports `FOUND, expected WORDS`; without such words, `whole` is what was expected.
    pub fn parsed(file: impl Into<String>, message: &str, whole: impl Into<String>) -> Self {
        match message.split_once(", expected ") {
            Some((found, expected)) => Self::new(file, found, expected),
            None => Self::new(file, message, whole),
        }
    }

    /// The same error at a line (counted from 1).
    #[must_use]
    pub fn at(mut self, line: u64) -> Self {
        self.line = Some(line);
        self
    }

    /// The same error at the line of a byte of `text`.
    #[must_use]
    pub fn at_byte(self, text: &str, byte: usize) -> Self {
        let before = &text.as_bytes()[..byte.min(text.len())];
        self.at(1 + before.iter().filter(|b| **b == b'\n').count() as u64)
    }

    /// The same error in another class than that of its place.
    #[must_use]
    pub fn of(mut self, class: Class) -> Self {
        self.class = class;
        self
    }

    /// The same error with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": found {}, expected {}", self.found, self.expected)?;
        if let Some(hint) = &self.hint {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for InputError {}

/// Text for a terminal: control characters of names from outside, which it would obey, are shown escaped. Line ends and tabs
/// stay.
pub fn printable(text: &str) -> Cow<'_, str> {
    let obeyed = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    if !text.contains(obeyed) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match obeyed(c) {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Shortens untrusted text to at most [`EXCERPT`] printable characters.
fn excerpt(text: &str) -> String {
    let mut out = String::new();
    let mut length = 0;
    for c in text.chars() {
        let escaped = c.is_control() || c == '\u{fffd}';
        let more = if escaped { c.escape_default().len() } else { 1 };
        if length + more > EXCERPT {
            out.push('…');
            break;
        }
        length += more;
        match escaped {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
    }
    if out.is_empty() {
        "nothing".into()
    } else {
        out
    }
}

/// Errors of a fabric, a placement or a traffic matrix.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum FabricError {
    /// Unreadable input.
    #[error(transparent)]
    Input(#[from] InputError),
    /// Two routers or two nodes have the same name.
    #[error("two {what}s have the name '{name}'\nhint: names must be unique; rename one of them")]
    DuplicateName {
        /// "router" or "node".
        what: &'static str,
        /// The name.
        name: String,
    },
    /// An unknown name or number.
    #[error("no {what} '{name}' in {fabric}\nhint: {hint}")]
    Unknown {
        /// "router", "node" or "link".
        what: &'static str,
        /// The requested name.
        name: String,
        /// Source of the fabric.
        fabric: String,
        /// Similar names, or some of the fabric's.
        hint: String,
    },
    /// A name that matches several nodes.
    #[error("'{name}' names {count} nodes, among them {}\nhint: give the full node name", .examples.join(", "))]
    Ambiguous {
        /// The requested name.
        name: String,
        /// Number of matching nodes.
        count: usize,
        /// Some of them.
        examples: Vec<String>,
    },
    /// A value outside its range.
    #[error("{what}: found {found}, expected {expected}")]
    OutOfRange {
        /// The quantity.
        what: String,
        /// The value.
        found: String,
        /// The accepted range.
        expected: String,
    },
}

impl FabricError {
    /// Class of the error.
    pub fn class(&self) -> Class {
        match self {
            Self::Input(input) => input.class,
            Self::DuplicateName { .. } => Class::DuplicateName,
            Self::Unknown { .. } => Class::UnknownName,
            Self::Ambiguous { .. } => Class::AmbiguousName,
            Self::OutOfRange { .. } => Class::OutOfRange,
        }
    }
}

/// Names in place of an unknown one: similar ones, or some of all.
pub(crate) fn names_instead(what: &str, similar: &[String], examples: &[String]) -> String {
    if !similar.is_empty() {
        return format!("there is {}", similar.join(", "));
    }
    let list = match what {
        "node" => "; `hopbyte fabric nodes` lists them",
        _ => "",
    };
    match examples {
        [] => format!("it has no {what}s"),
        some => format!("{what}s are called {}{list}", some.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_no_control_characters() {
        assert_eq!(
            printable("ml\u{1b}[31mx5\r: 3\tü\n"),
            "ml\\u{1b}[31mx5\\r: 3\tü\n"
        );
        assert_eq!(printable("\u{9b}31m"), "\\u{9b}31m");
        assert!(matches!(printable("plain"), Cow::Borrowed(_)));
    }

    #[test]
    fn excerpts_are_short_and_printable() {
        let e = InputError::new("f", "a\u{1}b".to_string() + &"x".repeat(200), "a word").at(3);
        let text = e.to_string();
        assert!(text.starts_with("f:3: found a\\u{1}bxxx"), "{text}");
        assert!(text.len() < 160, "{text}");
        // Escaped characters count as they are shown.
        let e = InputError::new("f", "\u{fffd}".repeat(200), "a word");
        assert!(e.to_string().len() < 160, "{e}");
        assert_eq!(
            InputError::new("f", "", "a word")
                .hint("write one")
                .to_string(),
            "f: found nothing, expected a word\nhint: write one"
        );
    }
}
