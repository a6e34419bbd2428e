//! Dense matrices: n lines of n numbers, between blanks (`.mat`) or commas (CSV, MapLib).

use super::entries::{Entry, MAX_TASKS, bytes, content_lines, fields, single};
use crate::ObserveError;
use crate::text::Text;
use hopbyte_fabric::Traffic;

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
    single(text, tasks, entries)
}
