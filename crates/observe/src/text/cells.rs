//! Cells of CSV lines.

use super::lossy;
use memchr::memchr;

/// Cells of a CSV line, without blanks around them. A cell in double quotes may contain commas and loses its quotes;
/// doubled quotes within it stay doubled.
pub fn cells(line: &[u8]) -> Cells<'_> {
    Cells { rest: Some(line) }
}

/// Cells of a CSV line as texts, with doubled quotes within quoted ones halved; `None` if a quote is not closed.
pub fn cell_texts(line: &[u8]) -> Option<Vec<String>> {
    let mut cells = cells(line);
    let mut texts = Vec::new();
    while let Some((cell, quoted)) = cells.take_cell() {
        match quoted {
            true => texts.push(lossy(cell).trim().replace("\"\"", "\"")),
            false if cell.starts_with(b"\"") => return None,
            false => texts.push(lossy(cell).into_owned()),
        }
    }
    Some(texts)
}

/// Iterator over cells, see [`cells`].
#[derive(Clone, Debug)]
pub struct Cells<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Iterator for Cells<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.take_cell().map(|(cell, _)| cell)
    }
}

impl<'a> Cells<'a> {
    /// The next cell, and whether it was in quotes.
    fn take_cell(&mut self) -> Option<(&'a [u8], bool)> {
        let text = self.rest?.trim_ascii_start();
        if let Some(inside) = text.strip_prefix(b"\"") {
            let mut end = 0;
            while let Some(at) = memchr(b'"', &inside[end..]) {
                end += at;
                if inside.get(end + 1) != Some(&b'"') {
                    let behind = inside[end + 1..].trim_ascii_start();
                    if let Some(rest) = behind.strip_prefix(b",") {
                        self.rest = Some(rest);
                        return Some((&inside[..end], true));
                    }
                    if behind.is_empty() {
                        self.rest = None;
                        return Some((&inside[..end], true));
                    }
                    break;
                }
                end += 2;
            }
        }
        // No quotes, or not around a whole cell.
        let comma = memchr(b',', text);
        self.rest = comma.map(|at| &text[at + 1..]);
        Some((text[..comma.unwrap_or(text.len())].trim_ascii_end(), false))
    }
}

/// A line without `# comment`, which begins the line or follows a blank, outside quotes: names such as `leaf#2` are whole.
pub fn without_comment(line: &[u8]) -> &[u8] {
    let mut quote = None;
    for (i, &byte) in line.iter().enumerate() {
        let before = i.checked_sub(1).map(|at| line[at]);
        match (quote, byte) {
            (None, b'#') if before.is_none_or(|b| b.is_ascii_whitespace()) => return &line[..i],
            (None, b'"' | b'\'') if !before.is_some_and(|b| b.is_ascii_alphanumeric()) => {
                quote = Some(byte);
            }
            (Some(open), _) if byte == open => quote = None,
            _ => {}
        }
    }
    line
}
