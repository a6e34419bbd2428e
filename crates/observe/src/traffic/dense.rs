//! Dense matrices: n lines of n numbers, between blanks (`.mat`) or commas (CSV, MapLib).

use super::entries::{Entry, MAX_TASKS, bytes, content_lines, fields, single};
use crate::ObserveError;
use crate::text::{Line, Text, decimal};
use hopbyte_fabric::Traffic;
use std::collections::HashSet;

pub(super) fn read(text: &Text) -> Result<Traffic, ObserveError> {
    let tasks = content_lines(text).count();
    let mut entries: Vec<Entry> = Vec::new();
    for (row, line) in content_lines(text).enumerate() {
        let found = fields(line).count();
        if found != tasks || tasks > MAX_TASKS {
            let expected = format!("{tasks} numbers, as many as there are rows");
            return Err(text
                .error(format!("{found} numbers"), expected)
                .at(line.number)
                .hint("a dense matrix is square")
                .into());
        }
        for (column, word) in fields(line).enumerate() {
            let bytes = bytes(text, line, word)?;
            if bytes > 0.0 {
                entries.push((row as u32, column as u32, bytes, 0));
            }
        }
    }
    let mut traffic = single(text, tasks, entries)?;
    traffic.notes.extend(like_a_list(text, tasks));
    Ok(traffic)
}

/// Note on a matrix of as many columns as a list of pairs has, if its first two columns could be ranks.
fn like_a_list(text: &Text, tasks: usize) -> Option<String> {
    if !(3..=4).contains(&tasks) {
        return None;
    }
    let ranks = |line: Line<'_>| {
        let mut ranks = fields(line).map(decimal);
        Some((ranks.next()??, ranks.next()??))
    };
    let mut seen = HashSet::new();
    let is_list = content_lines(text).all(|line| ranks(line).is_some_and(|pair| seen.insert(pair)));
    let columns = ["src,dst,bytes", "src,dst,bytes,messages"][usize::from(tasks == 4)];
    is_list.then(|| {
        format!("read as a matrix of {tasks} x {tasks} tasks; a list of pairs with as many lines as columns needs the header {columns}")
    })
}

/// A matrix with the names of its columns in the first line, behind a cell that is empty or names the index, and those of
/// its rows, the same, in the first column.
pub(super) fn labelled(text: &Text) -> Result<Traffic, ObserveError> {
    let mut lines = content_lines(text);
    let names: Vec<&[u8]> = lines
        .next()
        .map_or_else(Vec::new, |l| fields(l).skip(1).collect());
    let mut entries: Vec<Entry> = Vec::new();
    for (row, line) in lines.enumerate() {
        let mut cells = fields(line);
        let (name, expected) = (cells.next(), names.get(row).copied());
        if name != expected || names.len() > MAX_TASKS {
            let expected = format!(
                "rows in the order of the columns, here {}",
                crate::text::lossy(expected.unwrap_or_default())
            );
            return Err(text.error_at(line, expected).into());
        }
        for (column, word) in cells.enumerate() {
            let bytes = bytes(text, line, word)?;
            if bytes > 0.0 {
                entries.push((row as u32, column as u32, bytes, 0));
            }
        }
    }
    single(text, names.len(), entries)
}
