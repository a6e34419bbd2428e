//! Live counters of this machine, or those of a tree that was captured from one.
//!
//! [`open`] finds the sources; [`Source::sample`] reads all counters of one source as a
//! [`Reading`](crate::counters::reading::Reading), the same type as from files of counters, so that increases, links
//! and ratios share one path. Descriptors stay open: a sample costs one system call per file, or a few in total for
//! Linux interfaces. A value that could not be read is missing; the source continues and finds a device that returns.
//! When interfaces appear or disappear, a sample has another [`Layout`](crate::counters::reading::Layout): use the
//! reading's, not a copy of its names.

mod cxi;
mod doctor;
mod files;
mod infiniband;
mod linux;
mod mads;
mod netlink;
mod places;
mod processors;
mod source;
mod tcp;
mod text;
mod tree;

use crate::ObserveError;

pub use doctor::{Finding, State, doctor};
pub use places::{Places, Wide, boot, host_name};
pub use source::{GLANCE, Source, glancing, next_glance};

/// Opens all sources, in the same order every time. A source that exists but cannot be opened is an error in the
/// list; missing sources are skipped.
pub fn open(places: &Places) -> Vec<Result<Source, ObserveError>> {
    let mut sources = Vec::new();
    for file in &places.files {
        sources.push(text::open(places, file));
    }
    sources.extend(text::found(places));
    sources.extend(cxi::open(places).into_iter().map(Ok));
    sources.extend(infiniband::open(places).into_iter().map(Ok));
    sources.extend(linux::open(places));
    if let Some(wide) = places.fabric_wide {
        sources.push(mads::open(places, wide));
    }
    // Beside an adapter of a fabric, connections are those of another network.
    let plain = |s: &Result<Source, _>| s.as_ref().is_ok_and(|s| s.layout().source == "linux");
    if sources.iter().all(plain) {
        sources.extend(tcp::open(places).map(Ok));
    }
    sources.extend(processors::open(places).map(Ok));
    sources
}

#[cfg(test)]
mod tests;
