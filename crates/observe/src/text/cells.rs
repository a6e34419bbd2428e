//! Cells of CSV lines.

use memchr::memchr;

/// Cells of a CSV line, without blanks around them. A cell in double quotes may contain commas and loses its quotes;
/// doubled quotes within it stay doubled.
pub fn cells(line: &[u8]) -> Cells<'_> {
    Cells { rest: Some(line) }
}

/// Iterator over cells, see [`cells`].
#[derive(Clone, Debug)]
pub struct Cells<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Iterator for Cells<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let text = self.rest?.trim_ascii_start();
        if let Some(inside) = text.strip_prefix(b"\"") {
            let mut end = 0;
            while let Some(at) = memchr(b'"', &inside[end..]) {
                end += at;
                if inside.get(end + 1) != Some(&b'"') {
                    let behind = inside[end + 1..].trim_ascii_start();
                    if let Some(rest) = behind.strip_prefix(b",") {
                        self.rest = Some(rest);
                        return Some(&inside[..end]);
                    }
                    if behind.is_empty() {
                        self.rest = None;
                        return Some(&inside[..end]);
                    }
                    break;
                }
                end += 2;
            }
        }
        // No quotes, or not around a whole cell.
        let comma = memchr(b',', text);
        self.rest = comma.map(|at| &text[at + 1..]);
        Some(text[..comma.unwrap_or(text.len())].trim_ascii_end())
    }
}
