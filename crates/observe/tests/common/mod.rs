//! Helpers of several test files.
#![allow(clippy::unwrap_used, clippy::panic)]

use hopbyte_fabric::random::Random;
use hopbyte_observe::fabric::{Companions, read_machine_text};
use hopbyte_observe::text::{Limits, Text};
use hopbyte_observe::{Machine, MachineFiles, ObserveError, read_machine};
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
    read_machine_text(&text, None, Companions::default()).map_err(|e| e.to_string())
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

/// A scan of two switches and two hosts.
pub const SUBNET: &str = include_str!("../../../../fuzz/seeds/ibnetdiscover/two-switches.txt");

/// A table in `ibroute`'s form for the switch `leaf one`.
pub const TABLE: &str = "Unicast lids [0x0-0x4] of switch Lid 1 guid 0x0000000000000001 (leaf one):\n  \
    Lid  Out   Destination\n       Port     Info \n\
    0x0001 000 : (Switch portguid 0x0000000000000001: 'leaf one')\n\
    0x0003 001 : (Channel Adapter portguid 0x0000000000000011: 'h1 HCA-1')\n\
    0x0004 003 : (Channel Adapter portguid 0x0000000000000032: 'h2 HCA-1')\n\
    3 valid lids dumped \n";

/// A text in memory, under a name.
pub fn text(name: &str, content: &str) -> Text {
    Text::from_bytes(name, content.as_bytes(), Limits::ANY).unwrap()
}

/// An InfiniBand scan with tables.
pub fn with_tables(subnet: &str, tables: &str) -> Result<Machine, String> {
    let routes = [text("tables", tables)];
    let with = Companions {
        routes: &routes,
        ..Companions::default()
    };
    read_machine_text(&text("subnet", subnet), None, with).map_err(|e| e.to_string())
}

/// Checks that a refusal says the expected value or a remedy, and is short.
pub fn check_refusal(error: &ObserveError, input: &str) {
    let text = error.to_string();
    let house = text.contains("expected") || text.contains("hint: ");
    assert!(house, "{input}: {text}");
    assert!(text.len() < 1000, "{input}: {text}");
}

/// Damaged copies of an input, reproducible: cut at every byte, every byte changed to each of a few that are special
/// to parsers, lines doubled, dropped and swapped.
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

/// Seeds of a fuzz target, by file name.
pub fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = hopbyte_testdata::workspace()
        .join("fuzz/seeds")
        .join(target);
    let mut seeds: Vec<(String, Vec<u8>)> = std::fs::read_dir(&folder)
        .unwrap_or_else(|e| panic!("{}: {e}", folder.display()))
        .map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, std::fs::read(entry.path()).unwrap())
        })
        .collect();
    seeds.sort();
    seeds
}

/// A copy with several pseudo-random changes, reproducible by number: bytes, numbers and whole words replaced by
/// problematic ones, pieces cut, repeated, moved.
pub fn bent(good: &[u8], number: u64) -> Vec<u8> {
    const TROUBLE: [&[u8]; 16] = [
        b"",
        b"0",
        b"-1",
        b"255",
        b"65535",
        b"65536",
        b"4294967295",
        b"18446744073709551616",
        b"0x",
        b"\"",
        b"'",
        b"(",
        b"\xff\xfe",
        b"\n",
        b"\0",
        b"nan",
    ];
    let mut numbers = Random::stream(0, number);
    let mut random = |below: usize| numbers.below(below);
    let mut copy = good.to_vec();
    for _ in 0..=random(4) {
        let (at, to) = (random(copy.len() + 1), random(copy.len() + 1));
        let (start, end) = (at.min(to), at.max(to).min(at.min(to) + 1 + random(80)));
        let end = end.min(copy.len());
        let piece = copy[start..end].to_vec();
        match random(6) {
            0 => drop(copy.splice(start..end, TROUBLE[random(16)].iter().copied())),
            1 => drop(copy.splice(start..start, piece)),
            2 => drop(copy.drain(start..end)),
            3 => {
                let to = random(copy.len() + 1);
                drop(copy.splice(to..to, piece));
            }
            4 => {
                for byte in &mut copy[start..end] {
                    *byte = random(256) as u8;
                }
            }
            _ => {
                // Replaces one word by a problematic one.
                let blank = |b: &u8| !b.is_ascii_alphanumeric();
                let end = copy[start..]
                    .iter()
                    .position(blank)
                    .map_or(copy.len(), |i| start + i);
                drop(copy.splice(start..end, TROUBLE[random(16)].iter().copied()));
            }
        }
    }
    copy
}
