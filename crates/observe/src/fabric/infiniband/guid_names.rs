//! Files of names for GUIDs: `H-003048c74e4a0000 host1`, or `0x003048c74e4a0000 "host1 HCA-1"`.
//!
//! The first form accompanies `ibnetdiscover -g` at some sites, the second is OpenSM's node-name map.

use super::guid_text;
use crate::fabric::names::{name, note_of};
use crate::text::{Text, hexadecimal};
use hopbyte_fabric::InputError;
use std::collections::HashMap;

/// Reads names by GUID; `#` begins a comment line. Of two names of a GUID the later one counts, with a note.
pub fn read(text: &Text, notes: &mut Vec<String>) -> Result<HashMap<u64, String>, InputError> {
    let mut names: HashMap<u64, (String, u64)> = HashMap::new();
    let mut repeated = Vec::new();
    for line in text.lines() {
        let trimmed = line.trimmed();
        if trimmed.is_empty() || trimmed.starts_with(b"#") {
            continue;
        }
        let mut words = line.words();
        let word = words.next().unwrap_or_default();
        let digits = match word.first_chunk::<2>() {
            Some(b"S-" | b"H-" | b"R-") => &word[2..],
            _ => word,
        };
        let guid =
            hexadecimal(digits).ok_or_else(|| text.error_in(line, word, "a GUID, then a name"))?;
        let rest = words.rest();
        let quoted = rest
            .strip_prefix(b"\"")
            .and_then(|r| r.split(|&b| b == b'"').next());
        let name = name(quoted.unwrap_or(rest));
        if name.is_empty() {
            return Err(text.error_at(line, "a name behind the GUID"));
        }
        let named = (name.clone(), line.number);
        if let Some((former, first)) = names.insert(guid, named)
            && former != name
        {
            let guid = guid_text(guid);
            let number = line.number;
            repeated.push(format!(
                "{guid} ({former} on line {first}, {name} on line {number})"
            ));
        }
    }
    let what = format!(
        "two names in {}, of which the later one counts",
        text.file()
    );
    note_of(notes, &repeated, "GUID has", "GUIDs have", &what);
    if names.is_empty() {
        return Err(text.error("an empty file, or comments alone", "a GUID, then a name"));
    }
    Ok(names
        .into_iter()
        .map(|(guid, (name, _))| (guid, name))
        .collect())
}
