//! `ibdm` topologies (`.topo`): systems and the cables between their ports.
//!
//! ```text
//! MTS800 SW-2-0-0
//!    P1 -> Cougar H-1 P1
//!    P5 -4x-2.5G-> MTS800 SW-1-0-0 P1
//! ```
//!
//! A line TYPE NAME, then one line per cable: port, width and speed (optional), type, name and port of the far
//! system. There are no GUIDs and no LIDs. The definitions of the types are in separate files (`.ibnl`) that are not
//! read: a type is a switch if any system of the type has its own record or more than two cables; other types are
//! adapters.

use super::rate::Rate;
use super::{DeviceKind, End, PortKey, Scan};
use crate::text::{Line, Text, decimal, float};
use hopbyte_fabric::InputError;
use std::collections::{HashMap, HashSet};

/// Maximum number of an adapter's cables.
const ADAPTER_PORTS: usize = 2;

/// Whether a line is in this format, including cables of systems with several chips (`L1/P3`), which are refused.
pub fn recognise(line: Line<'_>) -> bool {
    let number = |word: &[u8]| port(word.rsplit(|&b| b == b'/').next()?);
    parts(line.bytes).is_some_and(|[near, .., far]| number(near).and(number(far)).is_some())
}

/// Fields of ` P1 -4x-2.5G-> TYPE NAME P3`.
struct Cable<'a> {
    near: u16,
    arrow: &'a [u8],
    kind: &'a [u8],
    name: &'a [u8],
    far: u16,
}

/// Words of a cable: its port, arrow, the far system's type, name and port.
fn parts(line: &[u8]) -> Option<[&[u8]; 5]> {
    let words: Vec<&[u8]> = crate::text::words(line).take(6).collect();
    let words: [&[u8]; 5] = words.try_into().ok()?;
    let is_arrow = words[1].starts_with(b"-") && words[1].ends_with(b"->");
    let is_indented = line.first().is_some_and(u8::is_ascii_whitespace);
    (is_arrow && is_indented).then_some(words)
}

fn cable(line: &[u8]) -> Option<Cable<'_>> {
    let [near, arrow, kind, name, far] = parts(line)?;
    Some(Cable {
        near: port(near)?,
        arrow,
        kind,
        name,
        far: port(far)?,
    })
}

/// Reads `P12`.
fn port(word: &[u8]) -> Option<u16> {
    let number = decimal(word.strip_prefix(b"P")?)?;
    u16::try_from(number).ok().filter(|&n| n <= 254)
}

/// Reads a topology.
pub fn read(text: &Text) -> Result<Scan, InputError> {
    let mut reader = Reader {
        text,
        scan: Scan::new(text),
        systems: HashMap::new(),
        types: Vec::new(),
        switches: HashSet::new(),
        known: HashSet::new(),
        current: None,
    };
    for line in text.lines() {
        let trimmed = line.trimmed();
        if trimmed.is_empty() || trimmed.starts_with(b"#") {
            continue;
        }
        match cable(line.bytes) {
            Some(cable) => reader.cable(line, &cable)?,
            None => reader.heading(line)?,
        }
    }
    Ok(reader.finish())
}

struct Reader<'a> {
    text: &'a Text,
    scan: Scan,
    /// Device by name.
    systems: HashMap<&'a [u8], u32>,
    /// Type by device.
    types: Vec<&'a [u8]>,
    /// Types that are switches.
    switches: HashSet<&'a [u8]>,
    known: HashSet<(PortKey, PortKey)>,
    current: Option<u32>,
}

impl<'a> Reader<'a> {
    fn heading(&mut self, line: Line<'a>) -> Result<(), InputError> {
        let words: Vec<&[u8]> = line.words().take(3).collect();
        let ([kind, name], false) = (&words[..], line.bytes[0].is_ascii_whitespace()) else {
            return Err(self
                .text
                .error_at(line, "TYPE NAME, or a cable P1 -> TYPE NAME P2")
                .hint("ports inside systems of several chips (L1/P3) need .ibnl files and are not read"));
        };
        self.current = Some(self.system(kind, name, line)?);
        self.switches.insert(kind);
        Ok(())
    }

    fn cable(&mut self, line: Line<'a>, cable: &Cable<'a>) -> Result<(), InputError> {
        let Some(here) = self.current else {
            return Err(self
                .text
                .error_at(line, "a line TYPE NAME before its cables"));
        };
        let rate = rate(cable.arrow).ok_or_else(|| {
            self.text
                .error_in(line, cable.arrow, "-> or an arrow such as -4x-2.5G->")
        })?;
        let port = (here, cable.near);
        let peer = (self.system(cable.kind, cable.name, line)?, cable.far);
        // Most topologies list a cable at one end, some at both.
        for (port, peer) in [(port, peer), (peer, port)] {
            if self.known.insert((port, peer)) {
                self.scan.ends.push(End {
                    port,
                    peer,
                    rate,
                    line: line.number,
                });
            }
        }
        Ok(())
    }

    /// Finds or adds a system; a name has only one type.
    fn system(
        &mut self,
        kind: &'a [u8],
        name: &'a [u8],
        line: Line<'_>,
    ) -> Result<u32, InputError> {
        if let Some(&device) = self.systems.get(name) {
            let known = self.types[device as usize];
            if known == kind {
                return Ok(device);
            }
            let expected = format!("{}, its type on an earlier line", crate::text::lossy(known));
            return Err(self.text.error_in(line, kind, expected));
        }
        let id = crate::fabric::names::name(name);
        let device = self.scan.device(DeviceKind::Adapter, id, None);
        self.scan.describe(device, name);
        self.systems.insert(name, device);
        self.types.push(kind);
        Ok(device)
    }

    fn finish(mut self) -> Scan {
        let mut cables: HashMap<u32, usize> = HashMap::new();
        for end in &self.scan.ends {
            *cables.entry(end.port.0).or_default() += 1;
        }
        let many = cables.iter().filter(|&(_, &n)| n > ADAPTER_PORTS);
        self.switches
            .extend(many.map(|(&device, _)| self.types[device as usize]));
        for (device, kind) in self.scan.devices.iter_mut().zip(&self.types) {
            if self.switches.contains(kind) {
                device.kind = DeviceKind::Switch;
            }
        }
        self.scan
    }
}

/// Reads `->` (unknown rate) or `-4x-2.5G->`.
fn rate(arrow: &[u8]) -> Option<Rate> {
    if arrow == b"->" {
        return Some(Rate::UNKNOWN);
    }
    let inner = arrow.strip_prefix(b"-")?.strip_suffix(b"->")?;
    let mut parts = inner.split(|&b| b == b'-');
    let width = parts.next()?;
    let lane = parts.next().map(|s| s.strip_suffix(b"G").unwrap_or(s));
    Rate::of_lane(width, lane.and_then(float))
}
