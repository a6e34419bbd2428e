//! The formats of every kind of input, for help texts, the book and the fuzz targets.

use crate::ObserveError;
use crate::known::{Known, names};
use crate::text::{Limits, Text, lossy};
use hopbyte_fabric::Class;
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

/// Content of a file, for errors of files in each other's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A mapping, as `map --json` prints it.
    Mapping,
    /// Output of `topobw --json`.
    Results,
    /// A machine.
    Machine,
    /// Counters.
    Counters,
    /// A trace.
    Trace,
    /// Traffic between ranks.
    Traffic,
    /// Nodes of ranks.
    Placement,
}

/// Files of a folder or archive that are looked at.
const LOOKED_AT: usize = 8;

/// Size up to which a refused file is read once more to recognise its kind: a small one may unpack to a thousand times as
/// many bytes.
const SMALL: Limits = Limits {
    bytes: 1 << 26,
    ..Limits::ANY
};

/// Begin of hopbyte's own documents that are looked at.
const HEAD: usize = 256;

impl Content {
    fn words(self) -> &'static str {
        match self {
            Self::Mapping => "a mapping",
            Self::Results => "results of a probe",
            Self::Machine => "a machine",
            Self::Counters => "counters",
            Self::Trace => "a trace",
            Self::Traffic => "traffic",
            Self::Placement => "a placement",
        }
    }

    /// Whether this content is read where `wanted` is.
    fn serves(self, wanted: Self) -> bool {
        let also = (self, wanted);
        self == wanted
            || also == (Self::Trace, Self::Traffic)
            || also == (Self::Mapping, Self::Placement)
    }

    /// The content of a text, with the name of its format. Traffic and placements have forms as loose as lines of numbers,
    /// for which prose may pass: these are not recognised.
    fn of(text: &Text) -> Option<(Self, &'static str)> {
        let bytes = text.bytes();
        let head = lossy(&bytes[..bytes.len().min(HEAD)]).replace([' ', '\n'], "");
        let own = |schema: &str| head.contains(&format!("\"schema\":\"{schema}"));
        if own("hopbyte.map/") {
            return Some((Self::Mapping, "hopbyte's own JSON"));
        }
        if own("hopbyte-topobw") {
            return Some((Self::Results, "topobw --json"));
        }
        let machine = fabric::Format::of(text).ok().map(fabric::Format::known);
        let trace = trace::Format::of(text).map(|f| f.known);
        let found = [
            (Self::Machine, machine),
            (Self::Counters, counters::format(text).ok()),
            (Self::Trace, trace),
            (Self::Traffic, traffic::distinct(text)),
            (Self::Placement, placement::distinct(text)),
        ];
        let known = |(content, known): (Self, Option<Known>)| Some((content, known?.name));
        found.into_iter().find_map(known)
    }

    /// The content of a file, or of the first files of a folder or archive.
    fn at(path: &Path) -> Option<(Self, &'static str)> {
        if path.is_file() {
            let text = Text::read(path, SMALL).ok()?;
            if let Some(found) = Self::of(&text) {
                return Some(found);
            }
        }
        let files = traffic::files::Files::open(path.to_str()?).ok()?;
        let texts = files.take(LOOKED_AT).filter_map(Result::ok);
        texts.filter_map(|text| Self::of(&text)).next()
    }
}

/// The error of reading a file as one kind of input; if the file is of another kind, the hint says so.
pub fn of_another_kind(path: &Path, wanted: Content, error: ObserveError) -> ObserveError {
    let ObserveError::Input(input) = error else {
        return error;
    };
    let is_about = input.file.starts_with(&*path.display().to_string());
    if !is_about || !matches!(input.class, Class::Content | Class::NotAFile) {
        return input.into();
    }
    match Content::at(path) {
        Some((found, format)) if !found.serves(wanted) => {
            let kind = if path.is_dir() { "folder" } else { "file" };
            let what = found.words();
            let advice = match (found, wanted) {
                (Content::Traffic, Content::Trace) => {
                    "`hopbyte record --trace` records the order of calls too"
                }
                _ => "are two arguments swapped?",
            };
            let hint = format!("the {kind} is {what} ({format}): {advice}");
            input.hint(hint).into()
        }
        _ => input.into(),
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
