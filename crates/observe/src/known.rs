//! A format of an input, as help, hints, the book and the fuzz targets name it.
//!
//! Every kind of input has a table of its own beside its readers (`fabric/formats.rs`, `counters/formats.rs`,
//! `traffic/formats.rs`, `trace/mod.rs`, `placement/mod.rs`); a row is a [`Known`] with how the format is recognised
//! and which function reads it.

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

/// Names in a sentence: `a, b and c`.
pub(crate) fn names(formats: impl Iterator<Item = Known>) -> String {
    let names: Vec<&str> = formats.map(|f| f.name).collect();
    match names.split_last() {
        Some((last, [])) => (*last).into(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}
