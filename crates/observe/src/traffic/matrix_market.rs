//! Matrix Market: coordinate and array matrices; `pattern`, `real` or `integer`; `general` or
//! `symmetric`. Entry (i, j) is what task i sends to task j; entries of a pattern are one byte.

use super::edges::{from_one, same_count, square};
use super::{Entry, bytes, single};
use crate::ObserveError;
use crate::text::{Line, Text, lossy};
use hopbyte_fabric::{InputError, Traffic};

pub(super) fn read(text: &Text) -> Result<Traffic, ObserveError> {
    let mut lines = text.lines().filter(|l| !l.trimmed().is_empty());
    let banner = lines
        .next()
        .ok_or_else(|| text.error("nothing", "%%MatrixMarket"))?;
    let kind = Kind::parse(text, banner)?;
    let mut lines = lines.filter(|l| !l.trimmed().starts_with(b"%"));
    let head = lines
        .next()
        .ok_or_else(|| text.error_at(banner, "a size line behind it"))?;
    if kind.dense {
        array(text, &kind, head, lines)
    } else {
        coordinates(text, &kind, head, lines)
    }
}

struct Kind {
    dense: bool,
    pattern: bool,
    symmetric: bool,
}

impl Kind {
    fn parse(text: &Text, line: Line<'_>) -> Result<Self, InputError> {
        let words: Vec<String> = line
            .words()
            .map(|w| lossy(w).to_ascii_lowercase())
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let ["%%matrixmarket", "matrix", format, field, symmetry] = words[..] else {
            let expected = "%%MatrixMarket matrix FORMAT FIELD SYMMETRY";
            return Err(text.error_at(line, expected));
        };
        let wrong =
            |word: &str, expected: &str| Err(text.error_in(line, word.as_bytes(), expected));
        let dense = match format {
            "coordinate" => false,
            "array" => true,
            other => return wrong(other, "coordinate or array"),
        };
        let pattern = match field {
            "pattern" if !dense => true,
            "real" | "integer" | "double" => false,
            other => return wrong(other, "real, integer or pattern entries"),
        };
        let symmetric = match symmetry {
            "general" => false,
            "symmetric" => true,
            other => return wrong(other, "general or symmetric"),
        };
        Ok(Self {
            dense,
            pattern,
            symmetric,
        })
    }
}

fn coordinates<'a>(
    text: &Text,
    kind: &Kind,
    head: Line<'a>,
    lines: impl Iterator<Item = Line<'a>>,
) -> Result<Traffic, ObserveError> {
    let words: Vec<&[u8]> = head.words().collect();
    let [rows, columns, count] = words[..] else {
        return Err(text.error_at(head, "rows, columns and entries").into());
    };
    let tasks = square(text, head, rows, columns)?;
    let mut entries: Vec<Entry> = Vec::new();
    let mut found = 0u64;
    for line in lines {
        let words: Vec<&[u8]> = line.words().collect();
        let (i, j, value) = match (kind.pattern, &words[..]) {
            (true, [i, j]) => (i, j, 1.0),
            (false, [i, j, value]) => (i, j, bytes(text, line, value)?),
            (true, _) => return Err(text.error_at(line, "row and column").into()),
            (false, _) => return Err(text.error_at(line, "row, column and value").into()),
        };
        let (i, j) = (
            from_one(text, line, i, tasks)?,
            from_one(text, line, j, tasks)?,
        );
        entries.push((i, j, value, 0));
        if kind.symmetric && i != j {
            entries.push((j, i, value, 0));
        }
        found += 1;
    }
    same_count(text, head, count, found)?;
    single(text, tasks, entries)
}

/// Values column by column; of a symmetric matrix from the diagonal down.
fn array<'a>(
    text: &Text,
    kind: &Kind,
    head: Line<'a>,
    lines: impl Iterator<Item = Line<'a>>,
) -> Result<Traffic, ObserveError> {
    let words: Vec<&[u8]> = head.words().collect();
    let [rows, columns] = words[..] else {
        return Err(text.error_at(head, "rows and columns").into());
    };
    let tasks = square(text, head, rows, columns)?;
    let mut entries: Vec<Entry> = Vec::new();
    let (mut i, mut j) = (0, 0);
    for line in lines {
        for word in line.words() {
            if j == tasks {
                return Err(text
                    .error_at(line, "no more values than the size says")
                    .into());
            }
            let value = bytes(text, line, word)?;
            if value > 0.0 {
                entries.push((i as u32, j as u32, value, 0));
                if kind.symmetric && i != j {
                    entries.push((j as u32, i as u32, value, 0));
                }
            }
            i += 1;
            if i == tasks {
                j += 1;
                i = if kind.symmetric { j } else { 0 };
            }
        }
    }
    if j < tasks {
        let expected = format!("values for {tasks} columns");
        let error = text.error_at(head, expected);
        return Err(error.hint("was the file cut off?").into());
    }
    single(text, tasks, entries)
}
