//! What is the machine? Fabrics and routing tables from the dumps of the networks' own tools.
//!
//! [`read_machine`] recognises the format from the content. What a dump leaves open is said in
//! [`Machine::notes`], never guessed: pairs that the forwarding tables do not serve have no route.

mod cray;
mod infiniband;
mod recognise;
mod siblings;

use crate::ObserveError;
use crate::text::{Limits, Text, lossy};
use hopbyte_fabric::{Fabric, Family, InputError, Routing, spec};
use recognise::Format;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The files that describe a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineFiles {
    /// A dump, or a spec such as `gemini:16x12x24`.
    pub main: String,
    /// Forwarding tables: files, or folders of them. Empty: looked for beside the dump.
    pub routes: Vec<PathBuf>,
    /// `rtr --system-map` (or an sst-macro node map). `None`: looked for beside the dump.
    pub system_map: Option<PathBuf>,
    /// Names by GUID.
    pub names: Option<PathBuf>,
}

impl MachineFiles {
    /// Only a dump or spec; companions are looked for.
    pub fn new(main: impl Into<String>) -> Self {
        Self {
            main: main.into(),
            ..Self::default()
        }
    }
}

/// A machine as it was read.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Routers, nodes and links.
    pub fabric: Fabric,
    /// How it routes.
    pub routing: Routing,
    /// What was completed, left out, assumed or found beside the dump; one sentence each.
    pub notes: Vec<String>,
}

/// Reads a machine: recognises the format, merges tables and maps, and says what is missing.
pub fn read_machine(files: &MachineFiles) -> Result<Machine, ObserveError> {
    let path = Path::new(&files.main);
    if spec::is_fabric_spec(&files.main) && !path.exists() {
        let described = spec::machine(&files.main)?;
        return with_routing(described.fabric, Some(described.routing), Vec::new(), files);
    }
    let text = Text::read(path, Limits::ANY)?;
    let mut files = files.clone();
    let mut notes = Vec::new();
    let format = Format::of(&text)?;
    siblings::find(path, format, &mut files, &mut notes);
    read_as(&text, format, &files, notes)
}

/// Reads a machine from text in memory, without looking for companions.
pub fn read_machine_text(text: &Text) -> Result<Machine, ObserveError> {
    read_as(
        text,
        Format::of(text)?,
        &MachineFiles::default(),
        Vec::new(),
    )
}

fn read_as(
    text: &Text,
    format: Format,
    files: &MachineFiles,
    mut notes: Vec<String>,
) -> Result<Machine, ObserveError> {
    match format {
        Format::IbRecords => infiniband_machine(infiniband::records::read(text)?, files, notes),
        Format::IbPorts => infiniband_machine(infiniband::port_lines::read(text)?, files, notes),
        Format::Gemini | Format::Aries | Format::SystemMap | Format::NodeMap => {
            let map = files
                .system_map
                .as_deref()
                .map(|path| Text::read(path, Limits::TEXT))
                .transpose()?;
            let fabric = cray::read(text, format, map.as_ref(), &mut notes)?;
            with_routing(fabric, None, notes, files)
        }
        Format::IbTables => Err(text
            .error("forwarding tables", "a machine")
            .hint("give the fabric (ibnetdiscover) and these as its routes")
            .into()),
    }
}

/// A fabric without tables: the given routing, or the family's own (dimension order, dragonfly
/// minimal, all minimal paths).
fn with_routing(
    fabric: Fabric,
    routing: Option<Routing>,
    mut notes: Vec<String>,
    files: &MachineFiles,
) -> Result<Machine, ObserveError> {
    if let Some(path) = files.routes.first() {
        return Err(InputError::new(
            path.display().to_string(),
            "forwarding tables",
            "no tables for this machine",
        )
        .hint("only InfiniBand fabrics take forwarding tables")
        .into());
    }
    let routing = routing.unwrap_or_else(|| Routing::default_for(&fabric));
    if fabric.family() == Family::InfiniBand {
        notes.push("no forwarding tables: all minimal paths are assumed, split by capacity".into());
    }
    Ok(Machine {
        fabric,
        routing,
        notes,
    })
}

fn infiniband_machine(
    scan: infiniband::Scan,
    files: &MachineFiles,
    mut notes: Vec<String>,
) -> Result<Machine, ObserveError> {
    let names = match &files.names {
        Some(path) => infiniband::guid_names::read(&Text::read(path, Limits::TEXT)?)?,
        None => HashMap::new(),
    };
    let (fabric, addresses) = scan.build(&names, &mut notes)?;
    if files.routes.is_empty() {
        return with_routing(fabric, None, notes, files);
    }
    let mut reader = infiniband::tables::TableReader::new(&fabric, &addresses);
    for path in &files.routes {
        for file in files_of(path)? {
            reader.read(&Text::read(&file, Limits::TEXT)?)?;
        }
    }
    let tables = reader.finish(&mut notes);
    if tables.entries() == 0 {
        let path = files.routes[0].display().to_string();
        return Err(
            InputError::new(path, "no entry for any node of the fabric", "its tables")
                .hint("do the tables belong to this fabric?")
                .into(),
        );
    }
    Ok(Machine {
        routing: Routing::Tables(tables),
        fabric,
        notes,
    })
}

/// A file itself, or the files of a folder in the order of their names.
fn files_of(path: &Path) -> Result<Vec<PathBuf>, ObserveError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path).map_err(|e| ObserveError::io(path, e))?;
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|e| ObserveError::io(path, e))?;
        let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if !hidden && entry.path().is_file() {
            files.push(entry.path());
        }
    }
    files.sort_unstable();
    if files.is_empty() {
        return Err(InputError::new(
            path.display().to_string(),
            "an empty folder",
            "files of forwarding tables",
        )
        .into());
    }
    Ok(files)
}

/// Longest name that is taken over from a dump.
const NAME: usize = 256;

/// A name as it may be shown: UTF-8, without control characters, not endless.
fn name(bytes: &[u8]) -> String {
    lossy(bytes)
        .trim()
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .take(NAME)
        .collect()
}

/// Adds a sentence about a list: how many, what of them, and the first few by name.
fn note_of(notes: &mut Vec<String>, list: &[String], one: &str, many: &str, what: &str) {
    const SHOWN: usize = 5;
    if list.is_empty() {
        return;
    }
    let subject = if list.len() == 1 { one } else { many };
    let more = if list.len() > SHOWN { ", …" } else { "" };
    let shown = list[..list.len().min(SHOWN)].join(", ");
    notes.push(format!("{} {subject} {what}: {shown}{more}", list.len()));
}
