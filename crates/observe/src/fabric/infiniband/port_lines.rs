//! `ibnetdiscover -p`: one line for every port.
//!
//! ```text
//! SW   142 36 0x0008f10500108c9e 4x QDR - CA   139  1 0x0002c903004e26b1 ( 'switch' - 'host HCA-1' )
//! SW   142 35 0x0008f10500108c9e 4x ???                                    'switch'
//! ```
//!
//! Type, LID, port number, port GUID, width, speed of a port, then type, LID, port and GUID of the peer port. With
//! `-v`, lines `DR path … -> new …` come first.

use super::rate::Rate;
use super::{DeviceKind, End, PortKey, Scan, port_number};
use crate::text::{Line, Text, Words, decimal_u32, hexadecimal};
use hopbyte_fabric::InputError;
use std::collections::HashMap;

/// Whether a line is in this format.
pub fn recognise(line: Line<'_>) -> bool {
    let mut words = line.words();
    words.next().and_then(kind).is_some()
        && words.next().and_then(decimal_u32).is_some()
        && words.next().and_then(decimal_u32).is_some()
        && words.next().is_some_and(|w| w.starts_with(b"0x"))
}

fn kind(word: &[u8]) -> Option<DeviceKind> {
    match word {
        b"SW" => Some(DeviceKind::Switch),
        b"CA" => Some(DeviceKind::Adapter),
        b"RT" => Some(DeviceKind::Router),
        _ => None,
    }
}

/// Reads a scan.
pub fn read(text: &Text) -> Result<Scan, InputError> {
    let mut reader = Reader {
        text,
        scan: Scan::new(text),
        by_guid: HashMap::new(),
    };
    for line in text.lines() {
        let trimmed = line.trimmed();
        if trimmed.is_empty() || trimmed.starts_with(b"#") || trimmed.starts_with(b"DR path") {
            continue;
        }
        if reader.scan.messages.take(line) {
            continue;
        }
        reader.line(line)?;
    }
    Ok(reader.scan)
}

struct Reader<'a> {
    text: &'a Text,
    scan: Scan,
    by_guid: HashMap<u64, u32>,
}

impl Reader<'_> {
    fn line(&mut self, line: Line<'_>) -> Result<(), InputError> {
        let mut words = line.words();
        let port = self.port(line, &mut words)?;
        let (width, speed) = (
            words.next().unwrap_or_default(),
            words.next().unwrap_or_default(),
        );
        let rate = Rate::parse(width, speed)
            .ok_or_else(|| self.text.error_in(line, width, "a link width such as 4x"))?;
        let rest = words.rest();
        let Some(far) = rest.strip_prefix(b"- ") else {
            // Not cabled: only the description follows.
            self.scan.describe(port.0, unquote(rest));
            return Ok(());
        };
        let mut words = crate::text::words(far);
        let peer = self.port(line, &mut words)?;
        let (near_name, far_name) = descriptions(words.rest()).ok_or_else(|| {
            self.text
                .error_in(line, words.rest(), "( 'DESCRIPTION' - 'DESCRIPTION' )")
        })?;
        self.scan.describe(port.0, near_name);
        self.scan.describe(peer.0, far_name);
        self.scan.ends.push(End {
            port,
            peer,
            rate,
            line: line.number,
        });
        Ok(())
    }

    /// Reads TYPE LID PORT GUID and finds or adds the device. Only port GUIDs of adapters are listed, so each port is
    /// a device here.
    fn port(&mut self, line: Line<'_>, words: &mut Words<'_>) -> Result<PortKey, InputError> {
        let mut next = || words.next().unwrap_or_default();
        let (type_word, lid, number, guid) = (next(), next(), next(), next());
        let wrong = |found, expected: &str| self.text.error_in(line, found, expected);
        let kind = kind(type_word).ok_or_else(|| wrong(type_word, "SW, CA or RT"))?;
        let lid = decimal_u32(lid).ok_or_else(|| wrong(lid, "a decimal LID"))?;
        let number = port_number(self.text, line, number)?;
        let value = hexadecimal(guid)
            .filter(|_| guid.starts_with(b"0x"))
            .ok_or_else(|| wrong(guid, "a GUID of up to 16 hex digits after 0x"))?;
        let device = match self.by_guid.get(&value) {
            Some(&device) => device,
            None => {
                let device = self.scan.device(kind, super::guid_text(value), Some(value));
                self.by_guid.insert(value, device);
                device
            }
        };
        let is_switch = self.scan.devices[device as usize].kind == DeviceKind::Switch;
        if is_switch != (kind == DeviceKind::Switch) {
            return Err(wrong(
                guid,
                "a GUID that is either a switch's or an adapter's",
            ));
        }
        self.scan
            .address((device, number), Some(value), Some(lid), 0);
        Ok((device, number))
    }
}

fn unquote(text: &[u8]) -> &[u8] {
    let text = text.trim_ascii();
    text.strip_prefix(b"'")
        .and_then(|t| t.strip_suffix(b"'"))
        .unwrap_or(text)
}

/// Reads `( 'A' - 'B' )`; descriptions may contain anything else.
fn descriptions(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let inner = text.strip_prefix(b"(")?.strip_suffix(b")")?;
    let inner = inner.trim_ascii().strip_prefix(b"'")?.strip_suffix(b"'")?;
    let middle = memchr::memmem::find(inner, b"' - '")?;
    Some((&inner[..middle], &inner[middle + 5..]))
}
