//! Traces: the operations of every rank in order.
//!
//! [`read_trace`] recognises the format from the content: those of hopbyte's recorder, SimGrid's time-independent
//! traces, GOAL schedules, Chakra's execution traces, and DUMPI traces in the form of `dumpi2ascii`. Files of ranks are read and released one after the other, so only the
//! calls stay in memory. Numbers of ranks are checked against the size of the files before anything is allocated for
//! them.

mod allprof;
mod chakra;
mod dumpi;
mod goal;
pub mod recorded;
mod requests;
mod simgrid;

use crate::ObserveError;
use crate::known::{Known, known, names};
use crate::text::{Line, Text, decimal};
use crate::traffic::files::Files;
use hopbyte_fabric::trace::RankTrace;
use hopbyte_fabric::trace::folded::Folded;
use hopbyte_fabric::{InputError, Trace};
use std::collections::BTreeMap;

/// Maximum number of calls of all ranks together.
const MAX_CALLS: usize = 1 << 28;

/// Reads a trace: a file, a folder or `*` pattern of the ranks' files, a comma list of them, or an
/// archive of them (`.tar`, compressed or not).
///
/// # Errors
/// Files that cannot be read or are not a trace; missing ranks.
pub fn read_trace(name: &str) -> Result<Trace, ObserveError> {
    Ok(read_noted(name)?.0)
}

/// [`read_trace`] with notes on left-out parts.
///
/// # Errors
/// As there.
pub fn read_noted(name: &str) -> Result<(Trace, Vec<String>), ObserveError> {
    if let Some(folded) = recorded::folder(name)? {
        return Ok((folded.unfold(MAX_CALLS as u64)?, folded.notes));
    }
    let mut files = Files::open(name)?;
    match Format::first(&mut files)? {
        Some((format, first)) => Ok((format.read(name, first, files)?, Vec::new())),
        None => Err(InputError::new(name, "no trace", names(known_formats()))
            .hint("binary DUMPI and OTF2 are converted first: see the book's page on traffic")
            .into()),
    }
}

/// [`read_trace`] with loops folded as they were recorded; a trace of another format has none.
///
/// # Errors
/// As there.
pub fn read_folded(name: &str) -> Result<Folded, ObserveError> {
    match recorded::folder(name)? {
        Some(folded) => Ok(folded),
        None => Ok(Folded::of(read_trace(name)?)),
    }
}

/// [`read_trace`] on one file in memory.
///
/// # Errors
/// As there.
pub fn trace(text: &Text) -> Result<Trace, ObserveError> {
    let mut files = Files::of(text.clone())?;
    match Format::first(&mut files)? {
        Some((format, first)) => format.read(text.file(), first, files),
        None => Err(text.error("no trace", "a trace").into()),
    }
}

/// One row of the table of traces.
pub(crate) struct Format {
    pub(crate) known: Known,
    recognise: Recognise,
    read: fn(&str, Texts<'_>) -> Result<Trace, ObserveError>,
}

/// How a format is recognised.
enum Recognise {
    /// Whether a line is in this format; the flag marks the first line that is not a comment.
    Line(fn(Line<'_>, bool) -> bool),
    /// Whether a whole file, which may be binary, is in this format.
    Whole(fn(&Text) -> bool),
}

/// Files of a trace, read one after the other.
type Texts<'a> = &'a mut dyn Iterator<Item = Result<Text, ObserveError>>;

const TABLE: &[Format] = &[
    Format {
        known: known(
            "hopbyte's recorder with --trace (.hbt)",
            "every message and collective in order, loops folded, one file per rank",
            "formats/traffic.md",
            "traffic",
        ),
        recognise: Recognise::Whole(recorded::is),
        read: |source, texts| {
            let texts: Vec<Text> = texts.collect::<Result<_, _>>()?;
            let folded = recorded::read(source, &texts)?;
            Ok(folded.unfold(MAX_CALLS as u64)?)
        },
    },
    Format {
        known: known(
            "DUMPI text",
            "every call with its time, one file per rank",
            "formats/traffic.md",
            "traffic",
        ),
        recognise: Recognise::Line(|line, _| dumpi::begins(line.trimmed())),
        read: |source, texts| dumpi::read(source, texts),
    },
    Format {
        known: known(
            "liballprof trace",
            "every call with its time, one file per rank",
            "formats/traffic.md",
            "traffic",
        ),
        recognise: Recognise::Line(|line, _| allprof::begins(line.trimmed())),
        read: |source, texts| allprof::read(source, texts),
    },
    Format {
        known: known(
            "SimGrid time-independent trace",
            "calls and computing in operations",
            "formats/traffic.md",
            "traffic",
        ),
        recognise: Recognise::Line(|line, first| first && simgrid::begins(line)),
        read: |source, texts| simgrid::read(source, texts),
    },
    Format {
        known: known(
            "GOAL schedule",
            "messages, computing and their order, all ranks in one file",
            "formats/traffic.md",
            "traffic",
        ),
        recognise: Recognise::Line(|line, _| line.words().next() == Some(b"num_ranks")),
        read: |source, texts| match (texts.next(), texts.next()) {
            (Some(text), None) => goal::read(&text?),
            _ => Err(InputError::new(source, "several schedules", "one GOAL file").into()),
        },
    },
    Format {
        known: known(
            "Chakra execution trace",
            "messages, collectives and computing as a graph, one file NAME.RANK.et per rank",
            "formats/traffic.md",
            "traffic",
        ),
        recognise: Recognise::Whole(chakra::is),
        read: |source, texts| chakra::read(source, texts),
    },
];

/// Formats of traces, in the order in which they are tried.
pub fn known_formats() -> impl Iterator<Item = Known> {
    TABLE.iter().map(|f| f.known)
}

/// Number of lines within which a format must be recognised.
const HEAD: usize = 64;

impl Format {
    /// Recognises a format by content; `None` for anything that is not a trace.
    pub(crate) fn of(text: &Text) -> Option<&'static Self> {
        let whole = TABLE.iter().find(|f| match f.recognise {
            Recognise::Whole(is_this) => is_this(text),
            Recognise::Line(_) => false,
        });
        if whole.is_some() || text.is_binary() {
            return whole;
        }
        let mut first = true;
        for line in text.lines().take(HEAD) {
            let content = line.trimmed();
            let comment = content.starts_with(b"#") || content.starts_with(b"//");
            if content.is_empty() || comment {
                continue;
            }
            let found = TABLE.iter().find(|f| match f.recognise {
                Recognise::Line(begins) => begins(line, first),
                Recognise::Whole(_) => false,
            });
            if found.is_some() {
                return found;
            }
            first = false;
        }
        None
    }

    /// The first file that is a trace; other files before it are skipped.
    pub(crate) fn first(files: &mut Files) -> Result<Option<(&'static Self, Text)>, ObserveError> {
        for text in files.by_ref() {
            let text = text?;
            if let Some(format) = Self::of(&text) {
                return Ok(Some((format, text)));
            }
        }
        Ok(None)
    }

    /// Reads the first file and those that follow it; files of another kind are skipped.
    pub(crate) fn read(
        &'static self,
        source: &str,
        first: Text,
        rest: Files,
    ) -> Result<Trace, ObserveError> {
        let same = |t: &Text| Self::of(t).is_some_and(|f| f.known == self.known);
        let rest = rest.filter(|t| t.as_ref().map_or(true, same));
        let mut texts = std::iter::once(Ok(first)).chain(rest);
        (self.read)(source, &mut texts)
    }
}

/// The ranks in order, if all are present.
fn in_order(source: &str, ranks: BTreeMap<u32, RankTrace>) -> Result<Vec<RankTrace>, ObserveError> {
    let tasks = ranks.keys().next_back().map_or(0, |&r| r as usize + 1);
    complete(source, tasks, ranks.keys().copied())?;
    Ok(ranks.into_values().collect())
}

/// Refuses a trace with missing ranks.
fn complete(
    source: &str,
    tasks: usize,
    ranks: impl ExactSizeIterator<Item = u32>,
) -> Result<(), InputError> {
    let found = ranks.len();
    if found == tasks {
        return Ok(());
    }
    let missing = (0u32..).zip(ranks).find(|(want, r)| want != r);
    let missing = missing.map_or(found as u32, |(want, _)| want);
    Err(InputError::new(
        source,
        format!("{found} ranks; rank {missing} is missing"),
        format!("all {tasks} ranks"),
    )
    .hint("give the folder or archive that holds every rank's file"))
}

/// Refuses more calls than the maximum.
fn bounded(text: &Text, calls: usize) -> Result<(), InputError> {
    if calls <= MAX_CALLS {
        return Ok(());
    }
    let expected = format!("at most {MAX_CALLS} calls of all ranks");
    Err(text.error(format!("{calls} calls"), expected))
}

/// A number that may be negative.
fn signed(word: &[u8]) -> Option<i64> {
    match word.strip_prefix(b"-") {
        Some(digits) => decimal(digits)
            .and_then(|n| i64::try_from(n).ok())
            .map(|n| -n),
        None => decimal(word).and_then(|n| i64::try_from(n).ok()),
    }
}

#[cfg(test)]
mod tests;
