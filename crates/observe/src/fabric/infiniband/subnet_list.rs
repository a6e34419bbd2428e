//! `opensm-subnet.lst`: one line for every end of a cable.
//!
//! ```text
//! { CA Ports:01 SystemGUID:003048c749000003 NodeGUID:003048c749000000 PortGUID:003048c749000001
//!   VenID:0002C9 DevID:6732 Rev:000000A1 {host HCA-1} LID:0060 PN:01 } { SW-SM Ports:24 … {leaf}
//!   LID:0009 PN:0E } PHY=4x LOG=ACT SPD=5
//! ```
//!
//! (one line in the file). LIDs and port numbers are hexadecimal; the speed is in Gbit/s per lane and is missing in
//! dumps of OpenSM before version 3. Types with `-SM` run a subnet manager.

use super::rate::Rate;
use super::{DeviceKind, End, PortKey, Scan};
use crate::text::{Line, Text, float, hexadecimal, words};
use hopbyte_fabric::InputError;
use memchr::memmem;
use std::collections::HashMap;

/// Whether a line is in this format.
pub fn recognise(line: Line<'_>) -> bool {
    let text = line.trimmed();
    text.starts_with(b"{ ")
        && memmem::find(text, b"NodeGUID:").is_some()
        && memmem::find(text, b"} {").is_some()
}

/// Reads a scan.
pub fn read(text: &Text) -> Result<Scan, InputError> {
    let mut scan = Scan::new(text);
    let mut by_guid: HashMap<u64, u32> = HashMap::new();
    for line in text.lines().filter(|l| !l.trimmed().is_empty()) {
        if scan.messages.take(line) {
            continue;
        }
        let expected =
            "{ TYPE … NodeGUID:… PortGUID:… {DESCRIPTION} LID:… PN:… } { … } PHY=4x LOG=ACT";
        let wrong = || text.error_at(line, expected);
        let (near, rest) = Side::parse(line.trimmed()).ok_or_else(wrong)?;
        let (far, rest) = Side::parse(rest).ok_or_else(wrong)?;
        let mut key = |side: &Side<'_>| side.add(&mut scan, &mut by_guid);
        let (Some(port), Some(peer)) = (key(&near), key(&far)) else {
            return Err(wrong().hint("one GUID is a switch's here and an adapter's elsewhere"));
        };
        let value = |name: &[u8]| words(rest).find_map(|w| w.strip_prefix(name));
        if value(b"LOG=") == Some(b"DWN") {
            continue;
        }
        let width = value(b"PHY=").ok_or_else(wrong)?;
        let lane = value(b"SPD=").and_then(float);
        let rate = Rate::of_lane(width, lane)
            .ok_or_else(|| text.error_in(line, width, "a link width such as 4x"))?;
        scan.ends.push(End {
            port,
            peer,
            rate,
            line: line.number,
        });
    }
    Ok(scan)
}

/// One end of a line.
struct Side<'a> {
    kind: DeviceKind,
    node: u64,
    port: u64,
    lid: u32,
    number: u16,
    description: &'a [u8],
}

impl<'a> Side<'a> {
    /// Reads `{ … }` and returns the text after it.
    fn parse(text: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let text = text.trim_ascii_start().strip_prefix(b"{ ")?;
        // The description is in braces of its own and may hold any character.
        let open = memmem::find(text, b" {")?;
        let behind = open + memmem::find(&text[open..], b"} LID:")?;
        let close = behind + 1 + memmem::find(&text[behind + 1..], b" }")?;
        let (head, tail) = (&text[..open], &text[behind + 1..close]);
        let hex = |part: &[u8], name: &[u8]| {
            words(part).find_map(|w| w.strip_prefix(name).and_then(hexadecimal))
        };
        let side = Self {
            kind: match words(head).next()? {
                b"SW" | b"SW-SM" => DeviceKind::Switch,
                b"CA" | b"CA-SM" => DeviceKind::Adapter,
                b"RT" | b"RT-SM" => DeviceKind::Router,
                _ => return None,
            },
            node: hex(head, b"NodeGUID:")?,
            port: hex(head, b"PortGUID:")?,
            lid: hex(tail, b"LID:").and_then(|l| u32::try_from(l).ok())?,
            number: hex(tail, b"PN:")
                .and_then(|p| u16::try_from(p).ok())
                .filter(|&p| p <= 254)?,
            description: &text[open + 2..behind],
        };
        Some((side, &text[close + 2..]))
    }

    /// Finds or adds the device; `None` if it had another kind before.
    fn add(&self, scan: &mut Scan, by_guid: &mut HashMap<u64, u32>) -> Option<PortKey> {
        let device = *by_guid.entry(self.node).or_insert_with(|| {
            scan.device(self.kind, super::guid_text(self.node), Some(self.node))
        });
        let is_switch = scan.devices[device as usize].kind == DeviceKind::Switch;
        scan.describe(device, self.description);
        let key = (device, self.number);
        scan.address(key, Some(self.port), Some(self.lid), 0);
        (is_switch == (self.kind == DeviceKind::Switch)).then_some(key)
    }
}
