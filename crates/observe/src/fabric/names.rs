//! Names from dumps, and notes about lists of them.

use crate::text::lossy;

/// Maximum length of a name from a dump.
pub(super) const NAME: usize = 256;

/// A name made safe to print: UTF-8, without control characters, limited length.
pub(super) fn name(bytes: &[u8]) -> String {
    lossy(bytes)
        .trim()
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .take(NAME)
        .collect()
}

/// Adds a note about a list: the count, the remark, and the first few names.
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
