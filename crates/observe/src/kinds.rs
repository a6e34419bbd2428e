//! The formats of every kind of input, for help texts, the book and the fuzz targets.

use crate::ObserveError;
use crate::known::{Known, names};
use crate::text::{Limits, Text};
use hopbyte_fabric::InputError;
use std::path::Path;

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

/// The error of reading a file as one kind of input; if the file is of another kind, the hint says so.
pub fn of_another_kind(path: &Path, error: ObserveError) -> ObserveError {
    let ObserveError::Input(input) = error else {
        return error;
    };
    let unknown = input.hint.as_ref().is_some_and(|h| h.starts_with(KNOWN));
    match unknown.then(|| Text::read(path, Limits::ANY)) {
        Some(Ok(text)) => advised(input, &text).into(),
        _ => input.into(),
    }
}

/// Begin of the hint of a file in no known format.
const KNOWN: &str = "known formats";

// Traffic and placements have forms as loose as lines of numbers, so that prose may pass for them.
fn advised(error: InputError, text: &Text) -> InputError {
    let machine = || Some(fabric::Format::of(text).ok()?.known());
    let known = machine()
        .map(|k| ("a machine", k))
        .or_else(|| Some(("counters", counters::format(text).ok()?)));
    match known {
        Some((kind, format)) => error.hint(format!(
            "the file is {kind} ({}): are two arguments swapped?",
            format.name
        )),
        None => error,
    }
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
