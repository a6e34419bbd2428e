//! Matrix Market: coordinate and array matrices; `pattern`, `real` or `integer`; `general` or `symmetric`. Entry (i,
//! j) is the number of bytes from task i to task j; entries of a pattern are one byte. As matrices of coefficients
//! ([`sparse`]) also `complex`, `hermitian` and `skew-symmetric` ones.

use super::edges::{from_one, same_count, square};
use super::entries::{Entry, bytes, real, single};
use crate::ObserveError;
use crate::text::{Line, Text, decimal, lossy};
use hopbyte_fabric::{InputError, Traffic};

pub(super) fn read(text: &Text) -> Result<Traffic, ObserveError> {
    let (kind, head, lines) = open(text, Entries::Bytes)?;
    if kind.dense {
        array(text, &kind, head, lines)
    } else {
        coordinates(text, &kind, head, lines)
    }
}

/// Kind, size line, and the lines after it.
fn open(
    text: &Text,
    entries: Entries,
) -> Result<(Kind, Line<'_>, impl Iterator<Item = Line<'_>>), InputError> {
    let mut lines = text.lines().filter(|l| !l.trimmed().is_empty());
    let banner = lines
        .next()
        .ok_or_else(|| text.error("nothing", "%%MatrixMarket"))?;
    let kind = Kind::parse(text, banner, entries)?;
    let mut lines = lines.filter(|l| !l.trimmed().starts_with(b"%"));
    let head = lines
        .next()
        .ok_or_else(|| text.error_at(banner, "a size line after it"))?;
    Ok((kind, head, lines))
}

/// Positions of a square sparse matrix's entries, without their values.
pub(super) struct Sparse {
    /// Rows, and columns.
    pub rows: usize,
    /// Bytes of a value: 8, or 16 for complex numbers.
    pub value_bytes: f64,
    /// Row and column of each entry; both halves of a symmetric matrix.
    pub entries: Vec<(u32, u32)>,
}

/// Reads a matrix of coefficients.
pub(super) fn sparse(text: &Text) -> Result<Sparse, InputError> {
    let (kind, head, lines) = open(text, Entries::Coefficients)?;
    let words: Vec<&[u8]> = head.words().collect();
    let [rows, columns, count] = words[..] else {
        return Err(text.error_at(head, "rows, columns and entries"));
    };
    let size = decimal(rows).filter(|n| (1..=u64::from(u32::MAX)).contains(n));
    let size = size.ok_or_else(|| text.error_in(head, rows, "1 to 4294967295 rows"))?;
    if decimal(columns) != Some(size) {
        let error = text.error_in(head, columns, format!("{size} columns, as there are rows"));
        return Err(error.hint("repeated products with a vector need a square matrix"));
    }
    let size = size as usize;
    let mut entries = Vec::new();
    let mut found = 0u64;
    for line in lines {
        let words: Vec<&[u8]> = line.words().collect();
        let (i, j) = match words[..] {
            [i, j, ref values @ ..]
                if values.len() == kind.values && values.iter().all(|v| real(v).is_some()) =>
            {
                (i, j)
            }
            _ => {
                let expected = format!("row, column and {} finite numbers", kind.values);
                return Err(text.error_at(line, expected));
            }
        };
        let (i, j) = (
            from_one(text, line, i, size)?,
            from_one(text, line, j, size)?,
        );
        entries.push((i, j));
        if kind.symmetric && i != j {
            entries.push((j, i));
        }
        found += 1;
    }
    same_count(text, head, count, found)?;
    Ok(Sparse {
        rows: size,
        value_bytes: if kind.values == 2 { 16.0 } else { 8.0 },
        entries,
    })
}

/// Meaning of a matrix's entries.
#[derive(Clone, Copy, PartialEq)]
enum Entries {
    /// Bytes that tasks send.
    Bytes,
    /// Coefficients of a matrix-vector product.
    Coefficients,
}

struct Kind {
    dense: bool,
    /// Numbers per entry: none, one, or two if complex.
    values: usize,
    symmetric: bool,
}

impl Kind {
    fn parse(text: &Text, line: Line<'_>, entries: Entries) -> Result<Self, InputError> {
        let coefficients = entries == Entries::Coefficients;
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
            "array" if coefficients => return wrong("array", "coordinate: a sparse matrix"),
            "array" => true,
            other => return wrong(other, "coordinate or array"),
        };
        let values = match field {
            "pattern" if !dense => 0,
            // SciPy writes arrays of unsigned numbers as `unsigned-integer`.
            "real" | "integer" | "unsigned-integer" | "double" => 1,
            "complex" if coefficients => 2,
            other => return wrong(other, "real, integer or pattern entries"),
        };
        let symmetric = match symmetry {
            "general" => false,
            "symmetric" => true,
            "hermitian" | "skew-symmetric" if coefficients => true,
            other => return wrong(other, "general or symmetric"),
        };
        Ok(Self {
            dense,
            values,
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
        let (i, j, value) = match (kind.values, &words[..]) {
            (0, [i, j]) => (i, j, 1.0),
            (1, [i, j, value]) => (i, j, bytes(text, line, value)?),
            (0, _) => return Err(text.error_at(line, "row and column").into()),
            _ => return Err(text.error_at(line, "row, column and value").into()),
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
