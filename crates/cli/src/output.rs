//! Answers as tables with units in the header, or as JSON; remarks go to standard error.

use hopbyte_fabric::printable;
pub use hopbyte_fabric::units::{TIMES, count, scale};
use hopbyte_job::command_line;
use hopbyte_job::failure::{named, printed};
pub use hopbyte_view::terminal::Table;
use hopbyte_view::terminal::{above_spinner, end_spinner};
use serde::Serialize;
use std::ffi::OsString;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

/// Answer of a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Success, or yes: exit code 0.
    Yes,
    /// No: exit code 1.
    No,
}

impl Answer {
    /// The answer to a question.
    pub fn of(yes: bool) -> Self {
        if yes { Self::Yes } else { Self::No }
    }
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
        end_spinner();
        printed(writeln!(self.out, "{}", printable(text.as_ref())))
    }

    /// Text without a line end added (a launcher's file).
    pub fn text(&mut self, text: &str) -> io::Result<()> {
        self.bytes(text.as_bytes())
    }

    /// A file's content, unchanged.
    pub fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        end_spinner();
        printed(self.out.write_all(bytes))
    }

    /// One JSON object on one line.
    pub fn object(&mut self, value: &impl Serialize) -> io::Result<()> {
        end_spinner();
        printed(serde_json::to_writer(&mut self.out, value).map_err(Into::into))?;
        printed(self.out.write_all(b"\n"))
    }

    /// An answer as one JSON object, or as text, which may be coloured.
    pub fn answer<T: Serialize>(
        &mut self,
        value: &T,
        text: impl FnOnce(&T, bool) -> String,
    ) -> io::Result<()> {
        match self.json {
            true => self.object(value),
            false => self.text(&text(value, self.colour)),
        }
    }

    /// A table.
    pub fn table(&mut self, table: &Table) -> io::Result<()> {
        self.text(&table.render(self.colour))
    }

    /// Whether text is coloured.
    pub fn colour(&self) -> bool {
        self.colour
    }

    /// A remark for the user, on standard error.
    pub fn talk(&mut self, text: impl AsRef<str>) {
        if !self.quiet {
            self.warn(text);
        }
    }

    /// A warning, on standard error also with `--quiet`.
    pub fn warn(&mut self, text: impl AsRef<str>) {
        let text = printable(text.as_ref());
        above_spinner(|| drop(writeln!(io::stderr(), "hopbyte: {text}")));
    }

    /// Flushes the output.
    pub fn flush(&mut self) -> io::Result<()> {
        named(self.out.flush())
    }
}
