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
/// Formats: dense matrices (blanks or commas), triplets with or without a header, Matrix Market,
/// METIS and Scotch graphs, CSV `src,dst,bytes[,messages]`, NPB `.topo`, Open MPI monitoring `.prof`,
/// records of hopbyte's own recorder, IPM, TAU and mpitrace, and traces.
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
            if !mixed || Format::named(&text) == named {
                texts.push(text);
            }
        }
        return traffic_of(source, &texts);
    }
    Err(files::nothing_known(source).into())
}

/// Traffic of one file, or of the files of all ranks.
fn traffic_of(source: &str, texts: &[Text]) -> Result<Traffic, ObserveError> {
    let Some(first) = texts.first() else {
        return Err(InputError::new(source, "no files", "files of ranks").into());
    };
    let read = match Format::of(first)? {
        Format::Prof => prof::read(source, texts)?,
        Format::Record => record::read(source, texts)?,
        Format::Ipm => profiles::ipm(source, texts)?,
        Format::Tau => profiles::tau(source, texts)?,
        Format::Pattern => profiles::patterns(source, texts)?,
        Format::MpiP => return Err(profiles::refuse_mpip(first)),
        _ if texts.len() > 1 => {
            return Err(first
                .error(
                    line_of(first),
                    "a file of a rank, as one of several files",
                )
                .hint("recorders write a file for every rank (.prof, .hbr, IPM, TAU, mpitrace, traces); give any other file alone")
                .into());
        }
        Format::MatrixMarket => matrix_market::read(first)?,
        Format::Metis => metis::read(first)?,
        Format::Dense => dense::read(first)?,
        Format::Triplets => edges::triplets(first)?,
        Format::Cholmod => edges::cholmod(first)?,
        Format::Topo => edges::topo(first)?,
        Format::EdgeCsv => edges::csv(first)?,
        Format::Scotch => scotch::read(first)?,
        Format::Sparse => return profiles::sparse(first).unwrap_or_else(|| unknown(first)),
    };
    Ok(read)
}

/// A format of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Prof,
    Record,
    MatrixMarket,
    Metis,
    Dense,
    Triplets,
    Cholmod,
    Topo,
    EdgeCsv,
    Scotch,
    Ipm,
    Tau,
    Pattern,
    MpiP,
    Sparse,
}

/// Content that is no traffic.
fn unknown<T>(text: &Text) -> Result<T, ObserveError> {
    Err(text
        .error("binary data (a zero byte)", "traffic")
        .hint("is this the right file?")
        .into())
}

impl Format {
    fn of(text: &Text) -> Result<Self, InputError> {
        match Self::named(text) {
            Some(format) => Ok(format),
            None => Self::of_numbers(text),
        }
    }

    /// Whether every rank has a file of its own.
    fn of_ranks(self) -> bool {
        matches!(
            self,
            Self::Prof | Self::Record | Self::Ipm | Self::Tau | Self::Pattern
        )
    }

    /// Formats whose first lines give their name.
    fn named(text: &Text) -> Option<Self> {
        if text.is_binary() {
            return Some(Self::Sparse);
        }
        for line in text.lines().filter(|l| !l.trimmed().is_empty()) {
            let content = line.trimmed();
            if content.starts_with(b"# POINT TO POINT") {
                return Some(Self::Prof);
            } else if content.starts_with(b"# hopbyte-record") {
                return Some(Self::Record);
            } else if content.starts_with(b"%%MatrixMarket") {
                return Some(Self::MatrixMarket);
            } else if !is_comment(content) {
                return match content {
                    c if profiles::is_mpip(c) => Some(Self::MpiP),
                    c if profiles::is_tau(c) => Some(Self::Tau),
                    c if profiles::is_pattern(c) => Some(Self::Pattern),
                    [b'<', ..] if profiles::is_ipm(text) => Some(Self::Ipm),
                    b"0" if scotch::is_graph(text) => Some(Self::Scotch),
                    _ => None,
                };
            }
        }
        None
    }

    /// Numbers without a name: told apart by the shape of the lines. A square of numbers is a dense
    /// matrix, whatever else it could be.
    fn of_numbers(text: &Text) -> Result<Self, InputError> {
        let unknown = || {
            let error = text.error(line_of(text), "traffic").hint(
                "known are dense matrices, triplets, Matrix Market, METIS and Scotch graphs, CSV src,dst,bytes[,messages], NPB .topo, Open MPI .prof, recorder files, IPM, TAU, mpitrace, and traces (SimGrid, GOAL, DUMPI text)",
            );
            match content_lines(text).next() {
                Some(line) => error.at(line.number),
                None => error,
            }
        };
        let first = content_lines(text).next().ok_or_else(unknown)?;
        let head: Vec<&[u8]> = fields(first).collect();
        let commas = first.bytes.contains(&b',');
        let numbers = head.iter().all(|cell| float(cell).is_some());
        let shape = Shape::of(text);
        match (head.len(), shape.rest) {
            _ if commas && !numbers => Ok(Self::EdgeCsv),
            _ if shape.is_square() => Ok(Self::Dense),
            (3 | 4, _) if commas => Ok(Self::EdgeCsv),
            _ if !numbers => Err(unknown()),
            (2, _) => Ok(Self::Metis),
            (3 | 4, _) if metis::is_graph(text, &head) => Ok(Self::Metis),
            (1, Rest::Same(3)) => Ok(Self::Topo),
            (4, Rest::Same(2 | 3)) => Ok(Self::Cholmod),
            (3, Rest::Same(3) | Rest::None) | (4, Rest::Same(4) | Rest::None) => Ok(Self::Triplets),
            (3 | 4, _) => Ok(Self::Metis),
            (5.., _) => Ok(Self::Dense),
            _ => Err(unknown()),
        }
    }
}

/// Numbers of fields in the lines.
struct Shape {
    lines: usize,
    first: usize,
    rest: Rest,
}

/// How many fields the lines behind the first have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    None,
    Same(usize),
    Ragged,
}

impl Shape {
    fn of(text: &Text) -> Self {
        let mut lines = content_lines(text).map(|line| fields(line).count());
        let mut shape = Self {
            lines: 0,
            first: 0,
            rest: Rest::None,
        };
        if let Some(first) = lines.next() {
            (shape.lines, shape.first) = (1, first);
        }
        for n in lines {
            shape.lines += 1;
            shape.rest = match shape.rest {
                Rest::None => Rest::Same(n),
                Rest::Same(m) if m == n => Rest::Same(n),
                _ => Rest::Ragged,
            };
        }
        shape
    }

    fn is_square(&self) -> bool {
        let same = matches!(self.rest, Rest::Same(n) if n == self.lines);
        self.first == self.lines && (same || self.lines == 1)
    }
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
        None => float(word).filter(|&b| b >= 0.0),
    };
    value.ok_or_else(|| {
        text.error_in(line, word, "bytes, a number not below zero")
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
    decimal(word).ok_or_else(|| text.error_in(line, word, "a number of messages (a whole number)"))
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
