//! Counters that are kept open: this machine's, or those of a tree that was captured from one.
//!
//! [`open`] finds what there is; [`Source::sample`] reads all counters of one source as a
//! [`Reading`](crate::counters::reading::Reading),
//! the same that files of counters make, so that everything behind it (increases, links, ratios) is
//! one. Descriptors stay open, so that a sample costs a system call a file, or a few in all for Linux
//! interfaces. A value that could not be read is not known; the source goes on and finds a
//! device that returns. When interfaces come or go, a sample has another
//! [`Layout`](crate::counters::reading::Layout): hold on to the reading's, not to a copy of its names.

mod cxi;
mod doctor;
mod files;
mod infiniband;
mod linux;
mod mads;
mod netlink;
mod places;
mod source;
mod text;
mod tree;

use crate::ObserveError;

pub use doctor::{Finding, State, doctor};
pub use places::{Places, boot, host_name};
pub use source::Source;

/// Opens all sources there are, in the same order every time. A source that is there and cannot be
/// opened is an error beside the others; what is not there is passed over.
pub fn open(places: &Places) -> Vec<Result<Source, ObserveError>> {
    let mut sources = Vec::new();
    for file in &places.files {
        sources.push(text::open(places, file));
    }
    sources.extend(text::found(places));
    sources.extend(cxi::open(places).into_iter().map(Ok));
    sources.extend(infiniband::open(places).into_iter().map(Ok));
    sources.extend(linux::open(places));
    if places.fabric_wide {
        sources.push(mads::open(places));
    }
    sources
}

#[cfg(test)]
mod tests;
