//! Answers as tables with units in the header, or as JSON; remarks go to standard error.

pub use hopbyte_fabric::units::{SIZES, TIMES, count, scale};
use hopbyte_job::shell_word;
use serde::Serialize;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

/// Answer of a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Success, or yes: exit code 0.
    Yes,
    /// No: exit code 1.
    No,
}

/// Output of a verb.
pub struct Output {
    /// Whether the answer is JSON.
    pub json: bool,
    /// Whether remarks are printed.
    pub quiet: bool,
    /// The command line of this run.
    pub command: String,
    colour: bool,
    out: BufWriter<Stdout>,
}

impl Output {
    /// Standard output; colour only on a terminal that supports it.
    pub fn new(json: bool, quiet: bool, arguments: &[OsString]) -> Self {
        let stdout = io::stdout();
        let colour = stdout.is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Self {
            json,
            quiet,
            command: command_line(arguments),
            colour,
            out: BufWriter::new(stdout),
        }
    }

    /// One line of text.
    pub fn line(&mut self, text: impl AsRef<str>) -> io::Result<()> {
        writeln!(self.out, "{}", text.as_ref())
    }

    /// Text without a line end added (a launcher's file).
    pub fn text(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())
    }

    /// A file's content, unchanged.
    pub fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)
    }

    /// One JSON object on one line.
    pub fn object(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, value)?;
        self.out.write_all(b"\n")
    }

    /// A table.
    pub fn table(&mut self, table: &Table) -> io::Result<()> {
        let text = table.render(self.colour);
        self.text(&text)
    }

    /// A remark for the user, on standard error.
    pub fn talk(&mut self, text: impl AsRef<str>) {
        if !self.quiet {
            let _ = writeln!(io::stderr(), "hopbyte: {}", text.as_ref());
        }
    }

    /// Flushes the output.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

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
        self.rows.push(cells.into_iter().collect());
    }

    fn render(&self, colour: bool) -> String {
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

/// A command line quoted for a shell, program name first.
pub fn command_line(arguments: &[OsString]) -> String {
    let words = arguments
        .iter()
        .skip(1)
        .map(|word| shell_word(&word.to_string_lossy()));
    std::iter::once("hopbyte".to_owned())
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
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
}
