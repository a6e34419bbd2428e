//! Escaping of text in templates by the rules of the pictures, so that names have one form.

use crate::draw::escape;
use askama::filters::Escaper;
use std::fmt;

/// The escaper of `askama.toml`.
#[derive(Clone, Copy)]
pub struct Markup;

impl Escaper for Markup {
    fn write_escaped_str<W: fmt::Write>(&self, mut dest: W, string: &str) -> fmt::Result {
        dest.write_str(&escape(string))
    }
}

/// A rendered template. Writing into a string cannot fail, and templates have no filters that do.
pub fn rendered(template: &impl askama::Template) -> String {
    template.render().unwrap_or_default()
}
