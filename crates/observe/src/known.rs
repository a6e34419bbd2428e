//! What help, hints, the book and the fuzz targets say of the formats that are read.
//!
//! Every kind of input has a table of its own beside its readers (`fabric/formats.rs`, `counters/formats.rs`,
//! `traffic/formats.rs`, `trace/mod.rs`, `placement/mod.rs`); a row is a [`Known`] with how the format is recognised
//! and which function reads it.

use crate::{counters, fabric, placement, trace, traffic};

/// A format that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Name, as users call the format.
    pub name: &'static str,
    /// What it gives, in a few words.
    pub about: &'static str,
    /// Page of the book that describes it, below `docs/src`.
    pub page: &'static str,
    /// Fuzz target, with seeds in the folder of this name below `fuzz/seeds`.
    pub fuzz: &'static str,
}

/// A row's words.
pub(crate) const fn known(
    name: &'static str,
    about: &'static str,
    page: &'static str,
    fuzz: &'static str,
) -> Known {
    Known {
        name,
        about,
        page,
        fuzz,
    }
}

/// A kind of input.
pub struct Kind {
    /// Its name.
    pub name: &'static str,
    /// Its formats, in the order in which they are tried.
    pub formats: Vec<Known>,
}

/// All kinds of input.
pub fn kinds() -> [Kind; 5] {
    let kind = |name, formats| Kind { name, formats };
    [
        kind("machines", fabric::Format::ALL.map(|f| f.known()).to_vec()),
        kind("counters", counters::known_formats().collect()),
        kind("traffic", traffic::known_formats().collect()),
        kind("traces", trace::known_formats().collect()),
        kind("placements", placement::known_formats().collect()),
    ]
}

/// Names in a sentence: `a, b and c`.
pub(crate) fn names(formats: impl Iterator<Item = Known>) -> String {
    let names: Vec<&str> = formats.map(|f| f.name).collect();
    match names.split_last() {
        Some((last, [])) => (*last).into(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// Formats of a machine by itself, for help texts.
pub fn machines() -> String {
    names(fabric::Format::machines())
}

/// Formats of counters, for help texts.
pub fn counters() -> String {
    names(counters::known_formats())
}

/// Formats of traffic, traces among them, for help texts.
pub fn traffic() -> String {
    names(traffic::readable())
}

/// Formats of placements, for help texts.
pub fn placements() -> String {
    names(placement::known_formats())
}
