//! What is the machine? Fabrics and routing tables from the dumps of the networks' own tools.
//!
//! [`read_machine`] recognises the format from the content. What a dump leaves open is said in
//! [`Machine::notes`], never guessed: pairs that the forwarding tables do not serve have no route.

mod cray;
mod infiniband;
mod recognise;
mod siblings;

pub use recognise::Format;

use crate::ObserveError;
use crate::text::{Limits, Text, lossy};
use hopbyte_fabric::{Fabric, InputError, Routing, spec};
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

/// Texts that go with a dump.
#[derive(Clone, Copy, Debug, Default)]
pub struct Companions<'a> {
    /// Forwarding tables.
    pub routes: &'a [Text],
    /// Which node is where.
    pub system_map: Option<&'a Text>,
    /// Names by GUID.
    pub names: Option<&'a Text>,
}

/// Reads a machine: recognises the format, merges tables and maps, and says what is missing.
pub fn read_machine(files: &MachineFiles) -> Result<Machine, ObserveError> {
    let path = Path::new(&files.main);
    if spec::is_fabric_spec(&files.main) && !path.exists() {
        let described = spec::machine(&files.main)?;
        if let Some(path) = files.routes.first() {
            return Err(no_tables_here(&path.display().to_string()).into());
        }
        return Ok(Machine {
            fabric: described.fabric,
            routing: described.routing,
            notes: Vec::new(),
        });
    }
    let text = Text::read(path, Limits::ANY)?;
    let format = Format::of(&text)?;
    let mut files = files.clone();
    let mut notes = Vec::new();
    siblings::find(path, format, &mut files, &mut notes);
    let optional = |path: &Option<PathBuf>| {
        let path = path.as_deref();
        path.map(|p| Text::read(p, Limits::TEXT)).transpose()
    };
    let (map, names) = (optional(&files.system_map)?, optional(&files.names)?);
    let mut paths = Vec::new();
    for path in &files.routes {
        let of_folder = path.is_dir();
        paths.extend(files_of(path)?.into_iter().map(|p| (p, of_folder)));
    }
    let mut routes = paths
        .iter()
        .map(|(path, of_folder)| Ok((Text::read(path, Limits::TEXT)?, *of_folder)));
    let parts = Parts {
        text: &text,
        map: map.as_ref(),
        names: names.as_ref(),
        routes: &mut routes,
        notes,
    };
    parts.read(format)
}

/// Reads a machine from texts in memory; `format` is recognised when it is not given.
pub fn read_machine_text(
    text: &Text,
    format: Option<Format>,
    with: Companions<'_>,
) -> Result<Machine, ObserveError> {
    let format = format.map_or_else(|| Format::of(text), Ok)?;
    let parts = Parts {
        text,
        map: with.system_map,
        names: with.names,
        routes: &mut with.routes.iter().map(|t| Ok((t.clone(), false))),
        notes: Vec::new(),
    };
    parts.read(format)
}

/// A dump and what goes with it; files of tables are read one after the other.
struct Parts<'a> {
    text: &'a Text,
    map: Option<&'a Text>,
    names: Option<&'a Text>,
    /// Each with whether it comes from a folder of files.
    routes: &'a mut dyn Iterator<Item = Result<(Text, bool), ObserveError>>,
    notes: Vec<String>,
}

impl Parts<'_> {
    fn read(mut self, format: Format) -> Result<Machine, ObserveError> {
        let text = self.text;
        match format {
            Format::IbRecords => self.infiniband(infiniband::records::read(text)?),
            Format::IbPorts => self.infiniband(infiniband::port_lines::read(text)?),
            Format::SubnetList => self.infiniband(infiniband::subnet_list::read(text)?),
            Format::LinkInfo => self.infiniband(infiniband::link_info::read(text)?),
            Format::IbdmTopology => self.infiniband(infiniband::ibdm_topology::read(text)?),
            Format::Netloc => self.netloc(),
            Format::Gemini | Format::Aries | Format::SystemMap | Format::NodeMap => {
                let fabric = cray::read(text, format, self.map, &mut self.notes)?;
                self.without_tables(fabric)
            }
            Format::IbTables | Format::GuidLids => Err(text
                .error("forwarding tables or LIDs", "a machine")
                .hint("give the fabric (ibnetdiscover) and these as its routes")
                .into()),
            Format::TorusDump => Err(text
                .error("coordinates of switches", "a machine")
                .hint("give the fabric (ibnetdiscover) and these as its system map")
                .into()),
        }
    }

    /// A fabric without tables routes as its family does: dimension order, dragonfly minimal, all
    /// minimal paths.
    fn without_tables(self, fabric: Fabric) -> Result<Machine, ObserveError> {
        if let Some(table) = self.routes.next() {
            return Err(no_tables_here(table?.0.file()).into());
        }
        Ok(Machine {
            routing: Routing::default_for(&fabric),
            fabric,
            notes: self.notes,
        })
    }

    fn names(&self) -> Result<HashMap<u64, String>, InputError> {
        self.names
            .map_or_else(|| Ok(HashMap::new()), infiniband::guid_names::read)
    }

    /// A netloc file brings its own paths.
    fn netloc(mut self) -> Result<Machine, ObserveError> {
        let read = infiniband::netloc::read(self.text)?;
        let names = self.names()?;
        let (fabric, addresses) = read.scan.clone().build(&names, None, &mut self.notes)?;
        match read.tables(&fabric, &addresses, &mut self.notes)? {
            Some(tables) => Ok(Machine {
                routing: Routing::Tables(tables),
                fabric,
                notes: self.notes,
            }),
            None => self.without_tables(fabric),
        }
    }

    fn infiniband(mut self, scan: infiniband::Scan) -> Result<Machine, ObserveError> {
        let names = self.names()?;
        let coordinates = self.map.map(infiniband::torus_dump::read).transpose()?;
        let (fabric, addresses) = scan.build(&names, coordinates.as_ref(), &mut self.notes)?;
        let mut reader = infiniband::tables::TableReader::new(&fabric, addresses);
        let mut first = None;
        for table in &mut *self.routes {
            let (table, of_folder) = table?;
            reader.read(&table, of_folder, &mut self.notes)?;
            first.get_or_insert_with(|| table.file().to_owned());
        }
        let Some(first) = first.filter(|_| reader.has_tables()) else {
            self.notes.push(
                "no forwarding tables: all minimal paths are assumed, split by capacity".into(),
            );
            return self.without_tables(fabric);
        };
        let tables = reader.finish(&mut self.notes);
        if tables.entries() == 0 {
            return Err(InputError::new(
                first,
                "no entry for any node of the fabric",
                "its tables",
            )
            .hint("do the tables belong to this fabric?")
            .into());
        }
        Ok(Machine {
            routing: Routing::Tables(tables),
            fabric,
            notes: self.notes,
        })
    }
}

fn no_tables_here(file: &str) -> InputError {
    InputError::new(file, "forwarding tables", "none for this machine")
        .hint("only InfiniBand fabrics take forwarding tables")
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
