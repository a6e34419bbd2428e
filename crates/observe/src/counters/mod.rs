//! What do the counters say? Readings of every network's counters, joined to directed links.
//!
//! [`read_counters`] recognises the format from the content: libgm text (paper 000, Fig. 4), per-link
//! CSV of Aries (AriesNCL as DragonView writes it), link tables of Blue Gene (Boxfish), `ldms_ls -l`, and
//! what `hopbyte links --json` prints.
//! All end in a [`Snapshot`]: bytes, packets and stalls filed under the link they speak of. Whatever
//! a device counts of arrivals belongs to the link that *ends* there, what waits to leave to the link
//! that *begins* there (paper 000, V.B).
//!
//! Counters are compared as the integers they are ([`delta`]): a wrap is resolved, a reset, a stuck
//! counter, a gap and a clock that stands are told apart and never become numbers.

mod aries_csv;
pub mod delta;
mod gemini;
mod gm;
mod gpcdr;
mod jobs;
pub mod join;
mod ldms_ls;
mod link_lines;
pub mod reading;
mod torus_table;

pub use jobs::{Jobs, jobs, read_jobs};

use crate::ObserveError;
use crate::text::{Limits, Line, Text};
use hopbyte_fabric::{Fabric, InputError, Snapshot};
use std::path::Path;

/// What the reader must be told because the file does not say it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CounterOptions {
    /// Length of the interval that increases cover, in seconds, where the source has no clock.
    pub interval_seconds: Option<f64>,
    /// Code region of a Boxfish table. `None`: the whole run, or all regions added up where the table
    /// has no region for the whole run.
    pub region: Option<i64>,
}

/// Reads a file of counters as one snapshot.
///
/// Increases: all records of the file added up. Totals: with one record a device these totals
/// ([`Snapshot::cumulative`]), with several the increase from the first to the last.
/// Errors name file and line; a file none of whose rows names a link of the fabric is refused.
pub fn read_counters(
    path: &Path,
    fabric: &Fabric,
    options: &CounterOptions,
) -> Result<Snapshot, ObserveError> {
    counters(&Text::read(path, Limits::TEXT)?, fabric, options)
}

/// [`read_counters`] on text in memory.
pub fn counters(
    text: &Text,
    fabric: &Fabric,
    options: &CounterOptions,
) -> Result<Snapshot, ObserveError> {
    let mut series = counter_series(text, fabric, options)?.into_iter();
    // The readers refuse files without records.
    let mut sum = series
        .next()
        .unwrap_or_else(|| Snapshot::new(fabric, text.file(), false));
    series.for_each(|next| sum.extend_by(&next));
    Ok(sum)
}

/// Reads a file of counters as a series: one snapshot of increases for every interval it holds. A
/// single record of totals is a series of one snapshot, of totals.
pub fn read_counter_series(
    path: &Path,
    fabric: &Fabric,
    options: &CounterOptions,
) -> Result<Vec<Snapshot>, ObserveError> {
    counter_series(&Text::read(path, Limits::TEXT)?, fabric, options)
}

/// [`read_counter_series`] on text in memory.
pub fn counter_series(
    text: &Text,
    fabric: &Fabric,
    options: &CounterOptions,
) -> Result<Vec<Snapshot>, ObserveError> {
    if let Some(interval) = options.interval_seconds
        && !(interval.is_finite() && interval > 0.0)
    {
        let error = InputError::new("interval", interval.to_string(), "seconds above zero");
        return Err(error.into());
    }
    let mut series = match Format::of(text)? {
        Format::Gm => gm::read(text, fabric)?,
        Format::AriesCsv => vec![aries_csv::read(text, fabric)?],
        Format::TorusTable => vec![torus_table::read(text, fabric, options.region)?],
        Format::LdmsLs => ldms_ls::read(text, fabric)?,
        Format::LinkLines => link_lines::read(text, fabric)?,
    };
    if series.iter().all(|s| s.matched == 0) {
        let rows: usize = series.iter().map(|s| s.unmatched).sum();
        return Err(text
            .error(
                format!("{rows} rows, none of which names a link of the fabric"),
                format!("counters of {}", fabric.source()),
            )
            .hint("do the counters belong to this fabric?")
            .into());
    }
    for snapshot in series.iter_mut().filter(|s| !s.cumulative) {
        snapshot.window_seconds = snapshot.window_seconds.or(options.interval_seconds);
    }
    Ok(series)
}

/// A format of counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Gm,
    AriesCsv,
    TorusTable,
    LdmsLs,
    LinkLines,
}

/// Lines that are looked at to recognise a format.
const LINES: usize = 1000;

impl Format {
    fn of(text: &Text) -> Result<Self, InputError> {
        for line in text.lines().take(LINES) {
            let content = line.trimmed();
            let found = match content {
                [b'(', ..] if gm::is_header(content) => Self::Gm,
                _ if link_lines::is_line(content) => Self::LinkLines,
                _ if content.starts_with(b"sg,") => Self::AriesCsv,
                _ if content.starts_with(b"- [") => Self::TorusTable,
                _ if ldms_ls::is_header(content) => Self::LdmsLs,
                _ => continue,
            };
            return Ok(found);
        }
        let first = text.lines().find(|l| !l.trimmed().is_empty());
        let error = text
            .error(first.map_or_else(String::new, Line::text), "counters")
            .hint(
                "known are libgm text, Aries link CSV, Boxfish link tables, the output of `ldms_ls -l` and that of `hopbyte links --json`",
            );
        Err(first.map_or(error.clone(), |l| error.at(l.number)))
    }
}

/// Cells of a CSV line, without blanks around them.
fn cells(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|&b| b == b',').map(<[u8]>::trim_ascii)
}
