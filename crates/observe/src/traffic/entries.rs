//! Traffic entries from files: words to checked numbers, entries to phases.

use crate::ObserveError;
use crate::text::{Limits, Line, Text, cells, decimal, float, words};
use hopbyte_fabric::bounds::{MAX_BYTES, MAX_MESSAGES};
use hopbyte_fabric::{Exchange, InputError, Phase, Stencil, Traffic};

/// Maximum number of tasks.
pub const MAX_TASKS: usize = Stencil::MAX_TASKS;

/// Limits of traffic files: matrices have long lines, archives are binary.
pub(crate) const LIMITS: Limits = Limits {
    binary: true,
    ..Limits::ROWS
};

pub(super) fn is_comment(content: &[u8]) -> bool {
    matches!(content.first(), Some(b'#' | b'%'))
}

/// Lines that are neither empty nor comments.
pub(super) fn content_lines(text: &Text) -> impl Iterator<Item = Line<'_>> {
    text.lines()
        .filter(|l| !l.trimmed().is_empty() && !is_comment(l.trimmed()))
}

/// Fields of a line: separated by commas, or by blanks if there is no comma. A trailing comma is ignored.
pub(super) fn fields(line: Line<'_>) -> impl Iterator<Item = &[u8]> {
    let content = line.trimmed();
    let commas = content.contains(&b',');
    let content = content.strip_suffix(b",").unwrap_or(content);
    let cells = commas.then(|| cells(content));
    let blanks = (!commas).then(|| words(content));
    cells
        .into_iter()
        .flatten()
        .chain(blanks.into_iter().flatten())
}

/// The first line of a text, for errors.
pub(super) fn line_of(text: &Text) -> String {
    content_lines(text)
        .next()
        .map_or_else(String::new, Line::text)
}

/// A finite number, also with an exponent as Fortran writes it: `1.0D+03`.
pub(super) fn real(word: &[u8]) -> Option<f64> {
    float(word).or_else(|| {
        let exponent = word.iter().position(|b| b.eq_ignore_ascii_case(&b'd'))?;
        let mut word = word.to_vec();
        word[exponent] = b'e';
        float(&word)
    })
}

/// A number of bytes: finite and not negative, not necessarily an integer.
pub(super) fn bytes(text: &Text, line: Line<'_>, word: &[u8]) -> Result<f64, InputError> {
    let value = match decimal(word) {
        Some(whole) => Some(whole as f64),
        None => real(word),
    };
    value
        .filter(|b| (0.0..=MAX_BYTES).contains(b))
        .ok_or_else(|| {
            let expected = format!("bytes, a non-negative number and at most {MAX_BYTES:e}");
            let given = std::str::from_utf8(word)
                .ok()
                .and_then(|w| w.parse::<f64>().ok());
            let hint = match given {
                Some(value) if !value.is_finite() => {
                    "every entry is a finite number; a pair that sent nothing is 0, or left out of a list"
                }
                Some(value) if value > MAX_BYTES => {
                    "are these bytes? one message has at most as many"
                }
                Some(_) => {
                    "traffic has no negative entries; a matrix of coefficients is not traffic"
                }
                None => "every entry is a number of bytes, without a unit",
            };
            text.error_in(line, word, expected).hint(hint)
        })
}

/// A task number below `tasks`.
pub(super) fn task(
    text: &Text,
    line: Line<'_>,
    word: &[u8],
    tasks: usize,
) -> Result<u32, InputError> {
    decimal(word)
        .filter(|&n| n < tasks as u64)
        .map(|n| n as u32)
        .ok_or_else(|| text.error_in(line, word, format!("a rank from 0 to {}", tasks - 1)))
}

/// A number of tasks from a header.
pub(super) fn task_count(text: &Text, line: Line<'_>, word: &[u8]) -> Result<usize, InputError> {
    decimal(word)
        .filter(|n| (1..=MAX_TASKS as u64).contains(n))
        .map(|n| n as usize)
        .ok_or_else(|| text.error_in(line, word, format!("1 to {MAX_TASKS} tasks")))
}

/// A number of messages.
pub(super) fn messages(text: &Text, line: Line<'_>, word: &[u8]) -> Result<u64, InputError> {
    decimal(word).filter(|&n| n <= MAX_MESSAGES).ok_or_else(|| {
        let expected = format!("a number of messages (a whole number, at most {MAX_MESSAGES})");
        text.error_in(line, word, expected)
    })
}

/// Sender, receiver, bytes, messages.
pub(super) type Entry = (u32, u32, f64, u64);

/// Traffic of one phase from checked entries.
pub(super) fn single(
    text: &Text,
    tasks: usize,
    entries: Vec<Entry>,
) -> Result<Traffic, ObserveError> {
    Ok(Traffic::single(text.file(), Exchange::new(tasks, entries)?))
}

/// Entries by phase, in the order in which phases are first named.
#[derive(Default)]
pub(super) struct Phases {
    phases: Vec<(String, Vec<Entry>)>,
}

impl Phases {
    /// Reserves a phase's position; without entries it is omitted.
    pub(super) fn name(&mut self, phase: &str) {
        self.at(phase);
    }

    pub(super) fn add(&mut self, phase: &str, entry: Entry) {
        let at = self.at(phase);
        self.phases[at].1.push(entry);
    }

    fn at(&mut self, phase: &str) -> usize {
        let at = self.phases.iter().position(|(name, _)| name == phase);
        at.unwrap_or_else(|| {
            self.phases.push((phase.to_owned(), Vec::new()));
            self.phases.len() - 1
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.phases.is_empty()
    }

    pub(super) fn finish(self, source: &str, tasks: usize) -> Result<Traffic, ObserveError> {
        let mut phases = Vec::new();
        for (name, entries) in self.phases.into_iter().filter(|p| !p.1.is_empty()) {
            let exchange = Exchange::new(tasks, entries)?;
            phases.push(Phase { name, exchange });
        }
        Ok(Traffic::phased(source, tasks, phases))
    }
}
