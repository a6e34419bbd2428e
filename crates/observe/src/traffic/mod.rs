//! What does the application send? Traffic matrices from recorders, graphs and sparse matrices.
//!
//! [`read_traffic`] recognises the format from the content. Entries are bytes from the row's task to
//! the column's; what a task sends to itself crosses no link and is dropped; where a source has no
//! weights every entry is one byte. An undirected edge carries its weight each way. Numbers that make
//! no sense (negative, not a number, ranks beyond the header's) are refused where they stand, and
//! sizes before anything is allocated for them.

mod dense;
mod edges;
pub(crate) mod files;
mod formats;
mod matrix_market;
mod metis;
pub(crate) mod prof;
mod profiles;
mod record;
mod scotch;
mod spmv;
mod tar;

use crate::ObserveError;
use crate::text::{Limits, Line, Text, decimal, float, words};
use crate::trace;
use files::Files;
use formats::Format;
pub(crate) use formats::readable;
pub use formats::{format, known_formats};
use hopbyte_fabric::bounds::{MAX_BYTES, MAX_MESSAGES};
use hopbyte_fabric::{Exchange, InputError, Phase, Stencil, Traffic, declared};
pub use spmv::product;

/// Most tasks that traffic may have.
pub const MAX_TASKS: usize = Stencil::MAX_TASKS;

/// Limits of traffic files: matrices have long lines, archives are binary.
pub(crate) const LIMITS: Limits = Limits {
    binary: true,
    ..Limits::ROWS
};

/// Reads traffic from a spec ([`declared::TRAFFIC_SPECS`], or `spmv:RANKS:FILE`), a file, a folder or `*` pattern of files of the
/// ranks, a comma list of them, or an archive of them (`.tar`, compressed or not).
///
/// Formats are those of [`known_formats`], and traces.
pub fn read_traffic(path_or_spec: &str) -> Result<Traffic, ObserveError> {
    if declared::is_traffic_spec(path_or_spec) {
        return Ok(declared::traffic(path_or_spec)?);
    }
    if path_or_spec.starts_with(spmv::START) {
        return spmv::traffic(path_or_spec);
    }
    read_files(path_or_spec, Files::open(path_or_spec)?)
}

/// [`read_traffic`] on one file in memory.
pub fn traffic(text: &Text) -> Result<Traffic, ObserveError> {
    read_files(text.file(), Files::of(text.clone())?)
}

/// Traces are read file by file; of anything else all files together. Where files of other kinds may lie
/// between them, the first one that is a rank's says what counts.
fn read_files(source: &str, mut files: Files) -> Result<Traffic, ObserveError> {
    let mixed = files.mixed();
    while let Some(first) = files.next().transpose()? {
        if let Some(format) = trace::Format::of(&first) {
            return Ok(format.read(source, first, files)?.traffic()?);
        }
        let named = Format::named(&first);
        if mixed && named.is_none_or(|format| !format.of_ranks()) {
            continue;
        }
        let mut texts = vec![first];
        for text in files {
            let text = text?;
            let same = |f: &Format| named.is_some_and(|n| n.known == f.known);
            if !mixed || Format::named(&text).is_some_and(same) {
                texts.push(text);
            }
        }
        return Format::of(&texts[0])?.read(source, &texts);
    }
    Err(files::nothing_known(source).into())
}

fn is_comment(content: &[u8]) -> bool {
    matches!(content.first(), Some(b'#' | b'%'))
}

/// Lines that are neither empty nor comments.
fn content_lines(text: &Text) -> impl Iterator<Item = Line<'_>> {
    text.lines()
        .filter(|l| !l.trimmed().is_empty() && !is_comment(l.trimmed()))
}

/// Fields of a line: between commas, or between blanks where there is no comma. A comma at the end
/// of a line ends nothing.
fn fields(line: Line<'_>) -> impl Iterator<Item = &[u8]> {
    let content = line.trimmed();
    let commas = content.contains(&b',');
    let content = content.strip_suffix(b",").unwrap_or(content);
    let cells = commas.then(|| content.split(|&b| b == b',').map(<[u8]>::trim_ascii));
    let blanks = (!commas).then(|| words(content));
    cells
        .into_iter()
        .flatten()
        .chain(blanks.into_iter().flatten())
}

/// The first line of a text, for errors.
fn line_of(text: &Text) -> String {
    content_lines(text)
        .next()
        .map_or_else(String::new, Line::text)
}

/// A number of bytes: whole or not, but finite and not below zero.
fn bytes(text: &Text, line: Line<'_>, word: &[u8]) -> Result<f64, InputError> {
    let value = match decimal(word) {
        Some(whole) => Some(whole as f64),
        None => float(word),
    };
    value
        .filter(|b| (0.0..=MAX_BYTES).contains(b))
        .ok_or_else(|| {
            let expected = format!("bytes, a number not below zero and at most {MAX_BYTES:e}");
            text.error_in(line, word, expected)
                .hint("traffic has no negative entries; a matrix of coefficients is none")
        })
}

/// A task number below `tasks`.
fn task(text: &Text, line: Line<'_>, word: &[u8], tasks: usize) -> Result<u32, InputError> {
    decimal(word)
        .filter(|&n| n < tasks as u64)
        .map(|n| n as u32)
        .ok_or_else(|| text.error_in(line, word, format!("a rank from 0 to {}", tasks - 1)))
}

/// A number of tasks that a header announces.
fn task_count(text: &Text, line: Line<'_>, word: &[u8]) -> Result<usize, InputError> {
    decimal(word)
        .filter(|n| (1..=MAX_TASKS as u64).contains(n))
        .map(|n| n as usize)
        .ok_or_else(|| text.error_in(line, word, format!("1 to {MAX_TASKS} tasks")))
}

/// A number of messages.
fn messages(text: &Text, line: Line<'_>, word: &[u8]) -> Result<u64, InputError> {
    decimal(word).filter(|&n| n <= MAX_MESSAGES).ok_or_else(|| {
        let expected = format!("a number of messages (a whole number, at most {MAX_MESSAGES})");
        text.error_in(line, word, expected)
    })
}

/// Sender, receiver, bytes, messages.
type Entry = (u32, u32, f64, u64);

/// Traffic of one phase from checked entries.
fn single(text: &Text, tasks: usize, entries: Vec<Entry>) -> Result<Traffic, ObserveError> {
    Ok(Traffic::single(text.file(), Exchange::new(tasks, entries)?))
}

/// Entries by phase, in the order in which phases are first named.
#[derive(Default)]
struct Phases {
    phases: Vec<(String, Vec<Entry>)>,
}

impl Phases {
    fn add(&mut self, phase: &str, entry: Entry) {
        let at = self.phases.iter().position(|(name, _)| name == phase);
        let at = at.unwrap_or_else(|| {
            self.phases.push((phase.to_owned(), Vec::new()));
            self.phases.len() - 1
        });
        self.phases[at].1.push(entry);
    }

    fn is_empty(&self) -> bool {
        self.phases.is_empty()
    }

    fn finish(self, source: &str, tasks: usize) -> Result<Traffic, ObserveError> {
        let mut phases = Vec::new();
        for (name, entries) in self.phases {
            let exchange = Exchange::new(tasks, entries)?;
            phases.push(Phase { name, exchange });
        }
        Ok(Traffic::phased(source, tasks, phases))
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod tool_tests;
