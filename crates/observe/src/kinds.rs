//! The formats of every kind of input, for help texts, the book and the fuzz targets.

use crate::known::{Known, names};
use crate::{counters, fabric, placement, trace, traffic};

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
        kind(
            "machines",
            fabric::Format::ALL.map(fabric::Format::known).to_vec(),
        ),
        kind("counters", counters::known_formats().collect()),
        kind("traffic", traffic::known_formats().collect()),
        kind("traces", trace::known_formats().collect()),
        kind("placements", placement::known_formats().collect()),
    ]
}

/// Formats of machines without companion files, for help texts.
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
