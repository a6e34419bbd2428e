//! Traffic of applications: matrices from recorders, graphs and sparse matrices.
//!
//! [`read_traffic`] recognises the format from the content. Entries are bytes from the row's task to the column's.
//! Messages of a task to itself cross no link and are dropped; if a source has no weights, every entry is one byte.
//! An undirected edge carries its weight each way. Invalid numbers (negative, not a number, ranks beyond the
//! header's) are refused with their line, and sizes are checked before anything is allocated for them.

pub(crate) mod calls;
mod dense;
mod edges;
mod entries;
pub(crate) mod files;
mod formats;
pub mod live;
mod matrix_market;
mod metis;
pub(crate) mod prof;
mod profiles;
mod qaplib;
pub(crate) mod record;
mod scotch;
mod spmv;
mod tar;
mod training;

use crate::ObserveError;
use crate::text::Text;
use crate::trace;
use files::Files;
use formats::Format;
pub(crate) use formats::{distinct, readable};
pub use formats::{format, known_formats};
use hopbyte_fabric::collective::Algorithms;
use hopbyte_fabric::{Traffic, declared};

#[cfg(test)]
pub(crate) use entries::LIMITS;
pub use entries::MAX_TASKS;
pub use record::{
    ByHost, INCOMPLETE, Others, RankHead, RankTimes, first_ranks, incomplete, unknown,
};
pub use spmv::product;
pub use training::{Measured, Measurement, measurement};

use entries::{content_lines, fields, is_comment, line_of};

/// Reads traffic from a spec ([`declared::TRAFFIC_SPECS`], or `spmv:RANKS:FILE`), a file, a folder or `*` pattern of
/// rank files, a comma-separated list of them, or an archive of them (`.tar`, compressed or not).
///
/// Formats are those of [`known_formats`], and traces. After a record or trace, `:collectives=RULES`
/// ([`Algorithms::parse`]) selects the algorithms that expand collective calls into messages.
pub fn read_traffic(path_or_spec: &str) -> Result<Traffic, ObserveError> {
    Ok(read_traffic_by_host(path_or_spec)?.0)
}

/// [`read_traffic`], and the record where its messages depend on which ranks share a host: the traffic is that of the
/// recorded run.
pub fn read_traffic_by_host(path_or_spec: &str) -> Result<(Traffic, Option<ByHost>), ObserveError> {
    if declared::is_traffic_spec(path_or_spec) {
        return Ok((declared::traffic(path_or_spec)?, None));
    }
    if path_or_spec.starts_with(spmv::START) {
        return Ok((spmv::traffic(path_or_spec)?, None));
    }
    let (path, Some(rules)) = with_rules(path_or_spec) else {
        return read_files(path_or_spec, Files::open(path_or_spec)?, None);
    };
    let rules = Algorithms::parse(rules)?;
    let (mut traffic, by_host) = read_files(path, Files::open(path)?, Some(&rules))?;
    traffic.source = path_or_spec.to_owned();
    Ok((traffic, by_host.map(|record| record.named(path_or_spec))))
}

/// The path of a record or trace, and the choice of algorithms behind it.
pub fn with_rules(source: &str) -> (&str, Option<&str>) {
    match source.rsplit_once(":collectives=") {
        Some((path, rules)) => (path, Some(rules)),
        None => (source, None),
    }
}

/// [`read_traffic`] on one file in memory.
pub fn traffic(text: &Text) -> Result<Traffic, ObserveError> {
    Ok(read_files(text.file(), Files::of(text.clone())?, None)?.0)
}

/// Traces are read file by file, other formats from all files together. If files of other kinds may be among them,
/// the first rank file determines the format.
fn read_files(
    source: &str,
    mut files: Files,
    rules: Option<&Algorithms>,
) -> Result<(Traffic, Option<ByHost>), ObserveError> {
    let mixed = files.mixed();
    while let Some(first) = files.next().transpose()? {
        if let Some(format) = trace::Format::of(&first) {
            let trace = format.read(source, first, files)?;
            let traffic = trace.traffic_by(&rules.cloned().unwrap_or_default())?;
            return Ok((traffic, None));
        }
        let named = Format::named(&first);
        if mixed && named.is_none_or(|format| !format.of_ranks()) {
            continue;
        }
        let format = Format::of(&first)?;
        let same = |t: &Text| Format::named(t).is_some_and(|f| f.known == format.known);
        let rest = files.filter(|t| !mixed || t.as_ref().map_or(true, same));
        let mut texts = std::iter::once(Ok(first)).chain(rest);
        return format.read(source, &mut texts, rules);
    }
    Err(files::nothing_known(source).into())
}

#[cfg(test)]
mod calls_tests;

#[cfg(test)]
mod tests;

#[cfg(test)]
mod tool_tests;
