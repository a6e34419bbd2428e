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

/// Damaged copies of some input, always the same: cut at every byte, and every byte changed to each of
/// a few that matter to parsers, lines doubled, dropped and swapped.
pub fn damaged(good: &[u8]) -> Vec<Vec<u8>> {
    let mut copies: Vec<Vec<u8>> = (0..good.len()).map(|n| good[..n].to_vec()).collect();
    for at in 0..good.len() {
        for byte in *b"0-9 ,.\n\t(x\0\xff" {
            let mut copy = good.to_vec();
            copy[at] = byte;
            copies.push(copy);
        }
        let mut long = good[..at].to_vec();
        long.extend_from_slice(b"99999999999999999999");
        long.extend_from_slice(&good[at..]);
        copies.push(long);
    }
    let lines: Vec<&[u8]> = good.split_inclusive(|&b| b == b'\n').collect();
    for i in 0..lines.len() {
        let mut without = lines.clone();
        let line = without.remove(i);
        copies.push(without.concat());
        without.push(line);
        copies.push(without.concat());
        let mut twice = lines.clone();
        twice.insert(i, line);
        copies.push(twice.concat());
    }
    copies
}
