//! Ends of counter files: a file that is read while it is written, or was cut, must not give numbers that the whole file
//! does not have. `1004998996` cut after `1004` is a number too, and a sum over tiles is lower without the last ones.

use super::{link_lines, openmetrics};
use crate::text::{Line, Text};
use hopbyte_fabric::InputError;

/// How the end of a format is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Its last line has a line end.
    Line,
    /// The same, but every row stands alone: the reader leaves out a last row without a line end.
    Row,
    /// Its last line is the summary of hopbyte's link table.
    Summary,
    /// The last bracket of JSON, which its parser checks.
    Document,
    /// `# EOF` in OpenMetrics; Prometheus text has only the line end.
    Eof,
}

const HINT: &str = "the file was cut, or is being written: read it again when it is complete";

impl End {
    /// Refuses a text whose end is missing.
    pub(super) fn check(self, text: &Text) -> Result<(), InputError> {
        let Some(last) = last_line(text) else {
            return Ok(());
        };
        // A document ends with its last bracket, OpenMetrics with or without a line end.
        let needs_line_end = match self {
            Self::Row | Self::Document => false,
            Self::Summary => !link_lines::is_document(text),
            Self::Eof => !openmetrics::has_eof(text),
            _ => true,
        };
        if needs_line_end && !is_ended(text) {
            let expected = "a line end after the last line";
            return Err(text.error_at(last, expected).hint(HINT));
        }
        match self {
            Self::Summary if !link_lines::is_ended(text, last.trimmed()) => Err(text
                .error_at(last, "the summary as the last line")
                .hint(HINT)),
            Self::Eof if openmetrics::wants_eof(text) && !openmetrics::has_eof(text) => {
                Err(text.error_at(last, "# EOF as the last line").hint(HINT))
            }
            _ => Ok(()),
        }
    }
}

/// Whether the last line has a line end.
pub(super) fn is_ended(text: &Text) -> bool {
    text.bytes().last().is_none_or(|&b| b == b'\n')
}

/// The last line that is not blank.
fn last_line(text: &Text) -> Option<Line<'_>> {
    text.lines().filter(|l| !l.trimmed().is_empty()).last()
}
