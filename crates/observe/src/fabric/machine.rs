//! A machine as it is read: from which files, and the result.

use crate::text::Text;
use hopbyte_fabric::{Fabric, Routing};
use std::path::PathBuf;

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
    /// Files that the dump names: links of a CODES model.
    pub parts: &'a [Text],
}
