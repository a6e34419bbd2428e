//! Abilities of MPIs as a page.

use hopbyte_job::abilities::Ability;
use std::fmt::Write;

/// A paragraph for each launcher: `yes`, `no` or `-` for a property, what was found, and the words that are needed.
pub fn abilities_text(rows: &[Ability]) -> String {
    let mut page = String::new();
    let mut launcher = "";
    for row in rows {
        if row.launcher != launcher {
            launcher = &row.launcher;
            let _ = writeln!(page, "# {launcher}");
        }
        let state = match row.works {
            Some(true) => "yes",
            Some(false) => "no",
            None => "-",
        };
        let _ = writeln!(page, "{state:4}{:13} {}", row.ability, row.says);
        if !row.flags.is_empty() {
            let _ = writeln!(page, "{:17} with {}", "", row.flags);
        }
    }
    page
}
