//! hopbyte's own format, the output of `hopbyte fabric convert`: JSON, and the compact binary form.
//!
//! Both hold the complete machine and its routing; see [`hopbyte_fabric::document`] and [`hopbyte_fabric::compact`].
//! Sizes and numbers in them are checked before use.

use super::names::NAME;
use crate::ObserveError;
use crate::text::{Line, Text};
use hopbyte_fabric::compact::{self, Damage};
use hopbyte_fabric::document::{Document, SCHEMA};
use hopbyte_fabric::{Fabric, FabricError, InputError, Routing};
use memchr::memmem;

/// Whether a line names the schema.
pub fn recognise(line: Line<'_>) -> bool {
    memmem::find(line.bytes, b"\"hopbyte.machine/").is_some()
}

/// Whether it is the binary form.
pub fn is_compact(text: &Text) -> bool {
    text.bytes().starts_with(compact::MAGIC)
}

/// Reads the JSON form.
pub fn read(text: &Text) -> Result<(Fabric, Routing), ObserveError> {
    let hint = "fabric convert writes this format; was the file edited or cut?";
    let document: Document = text
        .json(format!("a machine as {SCHEMA}"))
        .map_err(|e| e.hint(hint))?;
    let (fabric, routing) = document.build().map_err(|e| refused(text, &e))?;
    check_names(text, &fabric)?;
    Ok((fabric, routing))
}

/// Reads the binary form.
pub fn read_compact(text: &Text) -> Result<(Fabric, Routing), ObserveError> {
    let read = compact::from_bytes(text.bytes());
    let (fabric, routing) = read.map_err(|damage| match damage {
        Damage::At { at, expected } => text
            .error(format!("something else at byte {at}"), expected)
            .hint("was the file cut or changed on its way? write it again with fabric convert"),
        Damage::Machine(error) => refused(text, &error),
    })?;
    check_names(text, &fabric)?;
    Ok((fabric, routing))
}

/// Names are printed on terminals and written to launchers' files: they must pass the same checks as other readers'
/// names.
fn check_names(text: &Text, fabric: &Fabric) -> Result<(), InputError> {
    let nodes = fabric.nodes().iter().flat_map(|n| [&n.name, &n.host]);
    let kinds = fabric.kinds().iter().map(|k| &k.name);
    let bad = |name: &&String| name.chars().count() > NAME || name.chars().any(char::is_control);
    let mut names = fabric
        .routers()
        .iter()
        .map(|r| &r.name)
        .chain(nodes)
        .chain(kinds);
    match names.find(bad) {
        None => Ok(()),
        Some(name) => {
            let expected = format!("names of at most {NAME} printable characters");
            Err(text.error(name, expected))
        }
    }
}

/// The error of parts that do not form a machine, with the file's name in the place of the machine's.
fn refused(text: &Text, error: &FabricError) -> InputError {
    let whole = "parts of a valid machine";
    match error {
        FabricError::OutOfRange {
            what,
            found,
            expected,
        } => text.error(format!("{what}: {found}"), expected),
        FabricError::Input(inner) => InputError {
            file: text.file().to_owned(),
            ..inner.clone()
        },
        other => match other.to_string().split_once("\nhint: ") {
            Some((said, hint)) => text.error(said, whole).hint(hint),
            None => text.error(other.to_string(), whole),
        },
    }
}
