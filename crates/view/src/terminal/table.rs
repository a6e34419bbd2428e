//! Tables in text: aligned columns under a header with units.

use hopbyte_fabric::printable;
use std::fmt::Write;

/// Alignment of a column.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Left,
    Right,
}

/// Rows under a header with units.
pub struct Table {
    header: Vec<(String, Side)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Columns by header; a leading `<` aligns a column left, numbers are aligned right.
    pub fn new(columns: &[&str]) -> Self {
        let side = |&c: &&str| match c.strip_prefix('<') {
            Some(name) => (name.to_owned(), Side::Left),
            None => (c.to_owned(), Side::Right),
        };
        let header = columns.iter().map(side).collect();
        Self {
            header,
            rows: Vec::new(),
        }
    }

    /// Adds a row; missing cells stay empty.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let shown = |cell: String| printable(&cell).into_owned();
        self.rows.push(cells.into_iter().map(shown).collect());
    }

    /// The text; with `colour` the header is bold.
    pub fn render(&self, colour: bool) -> String {
        let mut widths: Vec<usize> = self.header.iter().map(|(h, _)| h.chars().count()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let mut text = String::new();
        let names: Vec<String> = self.header.iter().map(|(h, _)| h.clone()).collect();
        let header = self.aligned(&names, &widths);
        let _ = if colour {
            writeln!(text, "\x1b[1m{header}\x1b[0m")
        } else {
            writeln!(text, "{header}")
        };
        for row in &self.rows {
            let _ = writeln!(text, "{}", self.aligned(row, &widths));
        }
        text
    }

    fn aligned(&self, cells: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for (i, (cell, (&width, &(_, side)))) in cells
            .iter()
            .zip(widths.iter().zip(&self.header))
            .enumerate()
        {
            if i > 0 {
                line.push_str("  ");
            }
            let _ = match side {
                Side::Left => write!(line, "{cell:<width$}"),
                Side::Right => write!(line, "{cell:>width$}"),
            };
        }
        line.truncate(line.trim_end().len());
        line
    }
}

/// `0-3,8,10-11` for sorted numbers.
pub fn ranges(numbers: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &n in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == n => *last = n,
            _ => parts.push((n, n)),
        }
    }
    let words = parts.into_iter().map(|(a, b)| {
        if a == b {
            a.to_string()
        } else {
            format!("{a}-{b}")
        }
    });
    words.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_align_and_have_no_colour_when_piped() {
        let mut t = Table::new(&["<link", "used %"]);
        t.row(["ibcore01[29]".into(), "9.2".into()]);
        t.row(["é".into(), "-".into()]);
        assert_eq!(
            t.render(false),
            "link          used %\nibcore01[29]     9.2\né                  -\n"
        );
        assert!(t.render(true).starts_with("\x1b[1mlink"));
    }

    #[test]
    fn runs_of_ranks_are_short() {
        assert_eq!(ranges(&[0, 1, 2, 3, 8, 10, 11]), "0-3,8,10-11");
        assert_eq!(ranges(&[]), "");
    }
}
