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
//! Ports, including the far ones, are named by LID and number, so the LID identifies a device here. With `-l` there
//! are no headings, and every line has port GUIDs and descriptions of both ends:
//!
//! ```text
//! 0x0000000000200001 "      leaf two"      3    7[  ] ==( 4X 2.5 Gbps Active/  LinkUp)==>  0x0000000000200000      2    7[  ] "leaf one" ( )
//! ```
//!
//! All ports of a switch have the switch's GUID, each port of an adapter has its own: a GUID with several ports is a
//! switch.

use super::rate::Rate;
use super::{DeviceKind, End, Messages, PortKey, Scan, port_number};
use crate::fabric::names::note_of;
use crate::text::{Line, Text, decimal_u32, float, hexadecimal, words};
use hopbyte_fabric::InputError;
use memchr::{memchr, memmem, memrchr};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Hints for captures of another part of the fabric.
const ALL_DOWN: &str = "iblinkinfo -d lists the ports that are down; run it without -d";
const NO_LIDS: &str =
    "no subnet manager has assigned LIDs; iblinkinfo -l and ibnetdiscover name the ports by GUID";
const CAS_ONLY: &str =
    "iblinkinfo --cas-only leaves out the cables between switches; run it without the option";

/// Whether a line is in this format.
pub fn recognise(line: Line<'_>) -> bool {
    memmem::find(line.bytes, b" ==(").is_some() && memmem::find(line.bytes, b")==>").is_some()
}

/// Reads a scan.
pub fn read(text: &Text) -> Result<Scan, InputError> {
    let mut messages = Messages::default();
    let content = text.lines().find(|&l| !is_blank(l) && !messages.take(l));
    if content.is_some_and(|l| recognise(l) && is_named(l)) {
        return read_lines(text);
    }
    let mut reader = Reader {
        text,
        scan: Scan::new(text),
        by_lid: HashMap::new(),
        head: None,
        has_switch: false,
        without_lid: 0,
    };
    for line in text.lines() {
        let trimmed = line.trimmed();
        if trimmed.is_empty() || trimmed.starts_with(b"#") {
            continue;
        }
        if reader.scan.messages.take(line) {
            continue;
        }
        if recognise(line) {
            reader.port(line)?;
        } else {
            reader.heading(line)?;
        }
    }
    reader.finish()
}

struct Reader<'a> {
    text: &'a Text,
    scan: Scan,
    by_lid: HashMap<u32, (u32, bool)>,
    /// Last heading: kind, GUID of a switch, description.
    head: Option<(DeviceKind, Option<u64>, &'a [u8])>,
    /// Whether a heading is that of a switch.
    has_switch: bool,
    /// Cabled ports without a LID at one of their ends.
    without_lid: usize,
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
        // Versions before 1.5 of the tool have no colon after the type.
        let mut parts = words(line.trimmed());
        let word = parts.next().unwrap_or_default();
        let rest = parts.rest().trim_ascii();
        let (word, colon) = match word.strip_suffix(b":") {
            Some(word) => (word, true),
            None => (word, false),
        };
        let kind = match word {
            b"Switch" if colon || rest.starts_with(b"0x") => DeviceKind::Switch,
            b"CA" if colon => DeviceKind::Adapter,
            b"RT" | b"Router" if colon => DeviceKind::Router,
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
        self.has_switch |= kind == DeviceKind::Switch;
        self.head = Some((kind, guid, name));
        Ok(())
    }

    /// Checks that the cables of switches are there, and tells switches without a heading from adapters.
    fn finish(mut self) -> Result<Scan, InputError> {
        let expected = "cabled ports of switches";
        if self.scan.ends.is_empty() {
            let (found, hint) = match self.without_lid {
                0 => ("no port with a cable", ALL_DOWN),
                _ => ("cabled ports that all have LID 0", NO_LIDS),
            };
            return Err(self.text.error(found, expected).hint(hint));
        }
        // Adapters alone are refused as such, if all of them have a heading.
        let mut devices = self.by_lid.values();
        if !self.has_switch && devices.any(|&(_, seen)| !seen) {
            let found = "no heading Switch:";
            return Err(self.text.error(found, expected).hint(CAS_ONLY));
        }
        match self.without_lid {
            0 => {}
            1 => self.scan.notes.push(
                "1 cabled port has LID 0 at an end, since no subnet manager set it up, and is left out".into(),
            ),
            n => self.scan.notes.push(format!(
                "{n} cabled ports have LID 0 at an end, since no subnet manager set them up, and are left out"
            )),
        }
        self.tell_switches();
        Ok(self.scan)
    }

    /// A device without a heading is a switch if it has more ports than an adapter, as far as cables show them.
    fn tell_switches(&mut self) {
        let mut far: HashMap<u32, BTreeSet<u16>> = HashMap::new();
        for end in &self.scan.ends {
            far.entry(end.peer.0).or_default().insert(end.peer.1);
        }
        let without = self.by_lid.iter().filter(|(_, (_, seen))| !seen);
        let without: BTreeMap<u32, u32> = without.map(|(&lid, &(d, _))| (d, lid)).collect();
        let mut told = Vec::new();
        for (device, lid) in without {
            let many = |ports: &BTreeSet<u16>| ports.len() > 1 || ports.last() > Some(&2);
            let own = &mut self.scan.devices[device as usize];
            if own.kind == DeviceKind::Adapter && far.get(&device).is_some_and(many) {
                (own.kind, own.lid) = (DeviceKind::Switch, Some(lid));
                told.push(own.description.clone());
            }
        }
        let verb = "no heading (was the file cut?), so only ports at far ends of cables are known";
        note_of(
            &mut self.scan.notes,
            &told,
            "switch has",
            "switches have",
            verb,
        );
    }

    fn port(&mut self, line: Line<'a>) -> Result<(), InputError> {
        let wrong = || {
            self.text
                .error_at(line, "LID PORT[ ] ==( STATE )==> LID PORT[ ] \"NAME\"")
        };
        let (near, rest) = split_at(line.bytes, b"==(").ok_or_else(wrong)?;
        let (state, far) = split_at(rest, b")==>").ok_or_else(wrong)?;
        let port = self.near(line, near)?;
        let Some(rate) = rate_of(state) else {
            return Ok(()); // down, nothing cabled
        };
        if is_unavailable(far) {
            self.scan.messages.add(line);
            return Ok(());
        }
        let Some(quote) = memchr(b'"', far) else {
            return Err(wrong());
        };
        let (place, name) = far.split_at(quote);
        let (_, lid, number) = self.place(line, place)?;
        let Some(port) = port.filter(|_| lid != 0) else {
            self.without_lid += 1;
            return Ok(());
        };
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

    /// The port of the line, unless its LID is 0; its device has the last heading's name.
    fn near(&mut self, line: Line<'a>, near: &[u8]) -> Result<Option<PortKey>, InputError> {
        let (guid, lid, number) = self.place(line, near)?;
        let Some((kind, head_guid, name)) = self.head else {
            return Err(self.text.error_at(line, "a heading Switch: or CA: first"));
        };
        if lid == 0 {
            return Ok(None);
        }
        let device = self.device(lid, Some(kind), head_guid);
        self.scan.describe(device, name);
        let guid = guid.filter(|_| kind != DeviceKind::Switch);
        self.scan.address((device, number), guid, Some(lid), 0);
        Ok(Some((device, number)))
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

fn is_blank(line: Line<'_>) -> bool {
    matches!(line.trimmed().first(), None | Some(b'#'))
}

/// Whether the near port has a description: a line of `-l`.
fn is_named(line: Line<'_>) -> bool {
    split_at(line.bytes, b"==(").is_some_and(|(near, _)| memchr(b'"', near).is_some())
}

/// The port answered for itself, the peer did not.
fn is_unavailable(far: &[u8]) -> bool {
    far.trim_ascii().starts_with(b"\"Port not available\"")
}

/// A port of a line of `-l`.
struct Named<'a> {
    guid: u64,
    lid: u32,
    number: u16,
    name: &'a [u8],
}

/// Reads a scan made with `-l`.
fn read_lines(text: &Text) -> Result<Scan, InputError> {
    let mut scan = Scan::new(text);
    let mut ports: Vec<Named<'_>> = Vec::new();
    let mut cables = Vec::new();
    for line in text.lines() {
        if is_blank(line) || scan.messages.take(line) {
            continue;
        }
        let expected = "0xGUID \"NAME\" LID PORT[ ] ==( STATE )==> 0xGUID LID PORT[ ] \"NAME\"";
        let wrong = || text.error_at(line, expected);
        let (near, rest) = split_at(line.bytes, b"==(").ok_or_else(wrong)?;
        let (state, far) = split_at(rest, b")==>").ok_or_else(wrong)?;
        let (open, close) = (memchr(b'"', near), memrchr(b'"', near));
        let (Some(open), Some(close)) = (open, close.filter(|c| Some(*c) > open)) else {
            return Err(wrong());
        };
        let place = [&near[..open], b" ", &near[close + 1..]].concat();
        let name = near[open + 1..close].trim_ascii();
        ports.push(named(text, line, &place, name)?);
        let Some(rate) = rate_of(state) else {
            continue; // down, nothing cabled
        };
        if is_unavailable(far) {
            scan.messages.add(line);
            continue;
        }
        let (place, name) = far.split_at(memchr(b'"', far).ok_or_else(wrong)?);
        let name = name.split(|&b| b == b'"').nth(1).unwrap_or_default();
        ports.push(named(text, line, place, name.trim_ascii())?);
        cables.push((ports.len() - 2, rate, line.number));
    }
    let mut numbers: HashMap<u64, (u16, bool)> = HashMap::new();
    for port in &ports {
        let (first, several) = numbers.entry(port.guid).or_insert((port.number, false));
        *several |= *first != port.number;
    }
    let mut devices: HashMap<u64, u32> = HashMap::new();
    let keys: Vec<PortKey> = ports
        .iter()
        .map(|port| {
            let device = *devices.entry(port.guid).or_insert_with(|| {
                let is_switch = numbers.get(&port.guid).is_some_and(|n| n.1);
                let kind = if is_switch {
                    DeviceKind::Switch
                } else {
                    DeviceKind::Adapter
                };
                scan.device(kind, super::guid_text(port.guid), Some(port.guid))
            });
            scan.describe(device, port.name);
            let key = (device, port.number);
            scan.address(key, Some(port.guid), Some(port.lid), 0);
            key
        })
        .collect();
    scan.ends
        .extend(cables.into_iter().map(|(i, rate, line)| End {
            port: keys[i],
            peer: keys[i + 1],
            rate,
            line,
        }));
    Ok(scan)
}

/// Reads `0xGUID LID PORT[ ]`.
fn named<'a>(
    text: &Text,
    line: Line<'_>,
    place: &[u8],
    name: &'a [u8],
) -> Result<Named<'a>, InputError> {
    let wrong = || text.error_in(line, place.trim_ascii(), "0xGUID LID PORT[ ]");
    let end = memrchr(b'[', place).ok_or_else(wrong)?;
    let parts: Vec<&[u8]> = words(&place[..end]).collect();
    let [guid, lid, number] = parts[..] else {
        return Err(wrong());
    };
    let guid = guid.starts_with(b"0x").then(|| hexadecimal(guid)).flatten();
    Ok(Named {
        guid: guid.ok_or_else(wrong)?,
        lid: decimal_u32(lid).ok_or_else(wrong)?,
        number: port_number(text, line, number)?,
        name,
    })
}

/// Reads ` 4X 10.0 Gbps Active/ LinkUp`; `None` for a port that is down. Old versions print the width and speed of such
/// a port too. FDR10 is printed as `10.0 Gbps (FDR10)`, QDR as `10.0 Gbps`.
fn rate_of(state: &[u8]) -> Option<Rate> {
    if memmem::find(state, b"Down/").is_some() {
        return None;
    }
    let mut parts = words(state);
    let (width, lane) = (parts.next()?, parts.next().and_then(float));
    if memmem::find(state, b"(FDR10)").is_some() {
        return Rate::parse(width, b"FDR10");
    }
    Rate::of_lane(width, lane)
}

fn split_at<'a>(text: &'a [u8], at: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let i = memmem::find(text, at)?;
    Some((&text[..i], &text[i + at.len()..]))
}
