//! Names as dumps give them, and sentences about lists of them.

use crate::text::lossy;

/// Longest name that is taken over from a dump.
pub(super) const NAME: usize = 256;

/// A name as it may be shown: UTF-8, without control characters, not endless.
pub(super) fn name(bytes: &[u8]) -> String {
    lossy(bytes)
        .trim()
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .take(NAME)
        .collect()
}

/// Adds a sentence about a list: how many, what of them, and the first few by name.
pub(super) fn note_of(notes: &mut Vec<String>, list: &[String], one: &str, many: &str, what: &str) {
    const SHOWN: usize = 5;
    if list.is_empty() {
        return;
    }
    let subject = if list.len() == 1 { one } else { many };
    let more = if list.len() > SHOWN { ", …" } else { "" };
    let shown = list[..list.len().min(SHOWN)].join(", ");
    notes.push(format!("{} {subject} {what}: {shown}{more}", list.len()));
}
