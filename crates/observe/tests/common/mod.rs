//! What several test files need.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use hopbyte_observe::text::{Limits, Text};
use hopbyte_observe::{Machine, MachineFiles, read_machine};
use std::path::{Path, PathBuf};

/// Reads a machine that must be readable, with companions.
pub fn machine(path: &Path) -> Machine {
    machine_of(&MachineFiles::new(path.to_str().unwrap()))
}

/// Reads a machine that must be readable.
pub fn machine_of(files: &MachineFiles) -> Machine {
    read_machine(files).unwrap_or_else(|e| panic!("{}: {e}", files.main))
}

/// A machine from text alone.
pub fn parse(text: &str) -> Result<Machine, String> {
    let text =
        Text::from_bytes("input", text.as_bytes(), Limits::ANY).map_err(|e| e.to_string())?;
    hopbyte_observe::fabric::read_machine_text(&text).map_err(|e| e.to_string())
}

/// Whole decompressed content of a file.
pub fn content(path: &Path) -> String {
    let text = Text::read(path, Limits::TEXT).unwrap();
    String::from_utf8_lossy(text.bytes()).into_owned()
}

/// A scan with its tables given.
pub fn with_routes(main: &Path, routes: &[PathBuf]) -> MachineFiles {
    MachineFiles {
        routes: routes.to_vec(),
        ..MachineFiles::new(main.to_str().unwrap())
    }
}
