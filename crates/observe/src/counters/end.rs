//! Ends of counter files: a file that is read while it is written, or was cut, must not give numbers that the whole file
//! does not have. `1004998996` cut after `1004` is a number too, and a sum over tiles is lower without the last ones.

use super::{link_lines, openmetrics};
use crate::text::{Line, Text, excerpt};
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
        let last = text.last();
        let is_missing = |end: &str| {
            let line = text.lines().filter(|l| !l.trimmed().is_empty()).last();
            let error = text.error(excerpt(last), end).hint(HINT);
            Err(line.map_or(error.clone(), |l| error.at(l.number)))
        };
        let is_eof = self == Self::Eof && openmetrics::has_eof(text);
        // A document ends with its last bracket, OpenMetrics with or without a line end.
        let needs_line_end = match self {
            Self::Row | Self::Document => false,
            Self::Summary => !link_lines::is_document(text),
            Self::Eof => !is_eof,
            Self::Line => true,
        };
        if last.is_empty() {
            Ok(())
        } else if needs_line_end && !text.is_ended() {
            is_missing("a line end after the last line")
        } else if self == Self::Summary && !link_lines::is_ended(text, last) {
            is_missing("the summary as the last line")
        } else if self == Self::Eof && !is_eof && openmetrics::wants_eof(text) {
            is_missing("# EOF as the last line")
        } else {
            Ok(())
        }
    }
}

/// Whether a line is the last and lacks its line end. Stores write in blocks, so a file that is being written ends in such
/// a row.
pub(super) fn is_unended(text: &Text, line: Line<'_>) -> bool {
    let end = text.bytes().as_ptr_range().end;
    !text.is_ended() && line.bytes.as_ptr_range().end == end
}
