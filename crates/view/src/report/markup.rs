//! Escaping of text in templates by the rules of the pictures, so that names have one form.

use crate::draw::escape;
use askama::filters::Escaper;
use std::borrow::Cow;
use std::fmt::{self, Write as _};

/// The escaper of `askama.toml`.
#[derive(Clone, Copy)]
pub struct Markup;

impl Escaper for Markup {
    fn write_escaped_str<W: fmt::Write>(&self, mut dest: W, string: &str) -> fmt::Result {
        dest.write_str(&escape(&visible(string)))
    }
}

/// Text with bidirectional control characters shown by number: in a name, one would reverse its row.
pub fn visible(text: &str) -> Cow<'_, str> {
    let turns = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if !text.contains(turns) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        // Writing into a string cannot fail.
        let _ = match turns(c) {
            true => write!(out, "‹U+{:04X}›", u32::from(c)),
            false => out.write_char(c),
        };
    }
    Cow::Owned(out)
}

/// A rendered template. Writing into a string cannot fail, and templates have no filters that do.
pub fn rendered(template: &impl askama::Template) -> String {
    template.render().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn what_turns_the_direction_of_writing_is_shown() {
        assert_eq!(visible("r0-\u{202e}RTL X+"), "r0-‹U+202E›RTL X+");
        assert_eq!(visible("شبكة-1"), "شبكة-1");
    }
}
