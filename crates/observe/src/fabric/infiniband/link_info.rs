//! `iblinkinfo`: the ports of every switch and adapter, cabled or not.
//!
//! ```text
//! Switch: 0x0008f105001086a2 leaf one:
//!           11    1[  ] ==( 4X          10.0 Gbps Active/  LinkUp)==>       8    6[  ] "leaf two" ( )
//!           11    4[  ] ==(                Down/ Polling)==>             [  ] "" ( )
//! CA: host HCA-1:
//!       0x0002c9030004829d     78    1[  ] ==( 4X 10.0 Gbps Active/  LinkUp)==>      13    9[  ] "leaf one" ( )
//! ```
//!
//! Ports, including the far ones, are named by LID and number, so the LID identifies a device here. With `-l` every
//! line has GUIDs and descriptions of both ends.

use super::rate::Rate;
use super::{DeviceKind, End, PortKey, Scan, port_number};
use crate::text::{Line, Text, decimal_u32, float, hexadecimal, words};
use hopbyte_fabric::InputError;
use memchr::{memchr, memmem, memrchr};
use std::collections::HashMap;

/// Whether a line is in this format.
pub fn recognise(line: Line<'_>) -> bool {
    memmem::find(line.bytes, b" ==(").is_some() && memmem::find(line.bytes, b")==>").is_some()
}

/// Reads a scan.
pub fn read(text: &Text) -> Result<Scan, InputError> {
    let mut reader = Reader {
        text,
        scan: Scan::new(text),
        by_lid: HashMap::new(),
        head: None,
    };
    for line in text.lines() {
        let trimmed = line.trimmed();
        if trimmed.is_empty() || trimmed.starts_with(b"#") {
            continue;
        }
        if recognise(line) {
            reader.port(line)?;
        } else {
            reader.heading(line)?;
        }
    }
    Ok(reader.scan)
}

struct Reader<'a> {
    text: &'a Text,
    scan: Scan,
    by_lid: HashMap<u32, (u32, bool)>,
    /// Last heading: kind, GUID of a switch, description.
    head: Option<(DeviceKind, Option<u64>, &'a [u8])>,
}

impl<'a> Reader<'a> {
    /// `Switch: 0xGUID DESCRIPTION:` or `CA: DESCRIPTION:`.
    fn heading(&mut self, line: Line<'a>) -> Result<(), InputError> {
        let wrong = || {
            self.text.error_at(
                line,
                "Switch: 0xGUID NAME:, CA: NAME: or a port with ==( … )==>",
            )
        };
        let (kind, rest) = match split_at(line.trimmed(), b": ").ok_or_else(wrong)? {
            (b"Switch", rest) => (DeviceKind::Switch, rest),
            (b"CA" | b"RT" | b"Router", rest) => (DeviceKind::Adapter, rest),
            _ => return Err(wrong()),
        };
        let rest = rest.strip_suffix(b":").unwrap_or(rest);
        let mut parts = words(rest);
        let guid = parts
            .next()
            .filter(|w| w.starts_with(b"0x"))
            .and_then(hexadecimal);
        let name = if guid.is_some() { parts.rest() } else { rest };
        if kind == DeviceKind::Switch && guid.is_none() {
            return Err(wrong());
        }
        self.head = Some((kind, guid, name));
        Ok(())
    }

    fn port(&mut self, line: Line<'a>) -> Result<(), InputError> {
        let wrong = || {
            self.text
                .error_at(line, "LID PORT[ ] ==( STATE )==> LID PORT[ ] \"NAME\"")
        };
        let (near, rest) = split_at(line.bytes, b"==(").ok_or_else(wrong)?;
        let (state, far) = split_at(rest, b")==>").ok_or_else(wrong)?;
        let port = self.near(line, near)?;
        let mut parts = words(state);
        let Some(rate) = parts
            .next()
            .and_then(|width| Rate::of_lane(width, parts.next().and_then(float)))
        else {
            return Ok(()); // down, nothing cabled
        };
        let Some(quote) = memchr(b'"', far) else {
            return Err(wrong());
        };
        let (place, name) = far.split_at(quote);
        let (_, lid, number) = self.place(line, place)?;
        let name = memrchr(b'"', name).map_or(&b""[..], |end| &name[1.min(end)..end]);
        let peer = (self.device(lid, None, None), number);
        self.scan.address(peer, None, Some(lid), 0);
        if !self.by_lid.get(&lid).is_some_and(|&(_, seen)| seen) {
            let name = memchr(b'"', name).map_or(name, |end| &name[..end]);
            self.scan.describe(peer.0, name);
        }
        self.scan.ends.push(End {
            port,
            peer,
            rate,
            line: line.number,
        });
        Ok(())
    }

    /// The port of the line; its device has the last heading's name.
    fn near(&mut self, line: Line<'a>, near: &[u8]) -> Result<PortKey, InputError> {
        let (guid, lid, number) = self.place(line, near)?;
        let Some((kind, head_guid, name)) = self.head else {
            return Err(self.text.error_at(line, "a heading Switch: or CA: first"));
        };
        let device = self.device(lid, Some(kind), head_guid);
        self.scan.describe(device, name);
        let guid = guid.filter(|_| kind != DeviceKind::Switch);
        self.scan.address((device, number), guid, Some(lid), 0);
        Ok((device, number))
    }

    /// Reads `[0xGUID] ["NAME"] LID PORT[  ]`.
    fn place(&self, line: Line<'_>, place: &[u8]) -> Result<(Option<u64>, u32, u16), InputError> {
        let wrong = || self.text.error_in(line, place.trim_ascii(), "LID PORT[ ]");
        let end = memrchr(b'[', place).ok_or_else(wrong)?;
        let parts: Vec<&[u8]> = words(&place[..end]).collect();
        let [.., lid, number] = parts[..] else {
            return Err(wrong());
        };
        let guid = parts[0].strip_prefix(b"0x").and_then(hexadecimal);
        let lid = decimal_u32(lid).ok_or_else(wrong)?;
        Ok((guid, lid, port_number(self.text, line, number)?))
    }

    fn device(&mut self, lid: u32, kind: Option<DeviceKind>, guid: Option<u64>) -> u32 {
        let entry = self.by_lid.get(&lid).copied();
        let device = entry.map_or_else(
            || {
                let first = kind.unwrap_or(DeviceKind::Adapter);
                self.scan.device(first, format!("lid {lid}"), None)
            },
            |(device, _)| device,
        );
        if let Some(kind) = kind {
            let own = &mut self.scan.devices[device as usize];
            if own.kind != DeviceKind::Aggregator {
                own.kind = kind;
            }
            own.guid = guid.or(own.guid);
        }
        let seen = kind.is_some() || entry.is_some_and(|(_, seen)| seen);
        self.by_lid.insert(lid, (device, seen));
        device
    }
}

fn split_at<'a>(text: &'a [u8], at: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let i = memmem::find(text, at)?;
    Some((&text[..i], &text[i + at.len()..]))
}
