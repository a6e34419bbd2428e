//! Description of a supported format, for help, hints, the book and the fuzz targets.
//!
//! Every kind of input has its own table beside its readers (`fabric/formats.rs`, `counters/formats.rs`,
//! `traffic/formats.rs`, `trace/mod.rs`, `placement/mod.rs`); a row is a [`Known`] with the function that recognises
//! the format and the function that reads it.

/// A supported format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Name of the format, as users know it.
    pub name: &'static str,
    /// Its content, in a few words.
    pub about: &'static str,
    /// Page of the book that describes it, below `docs/src`.
    pub page: &'static str,
    /// Fuzz target, with seeds in the folder of this name below `fuzz/seeds`.
    pub fuzz: &'static str,
}

/// A row's descriptions.
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

/// Names in a sentence: `a, b and c`.
pub(crate) fn names(formats: impl Iterator<Item = Known>) -> String {
    let names: Vec<&str> = formats.map(|f| f.name).collect();
    match names.split_last() {
        Some((last, [])) => (*last).into(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}
