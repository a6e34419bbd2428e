//! `ibnetdiscover`: a record for every device.
//!
//! ```text
//! switchguid=0x8f10500200b50(8f10500200b50)
//! Switch  36 "S-0008f10500200b50"   # "leaf 3" enhanced port 0 lid 9 lmc 0
//! [4]     "H-003048c749cd0000"[1](3048c749cd0001)   # "host HCA-1" lid 72 4xDDR
//! [7]     "S-0008f10500108098"[34]  # "spine 1" lid 20 4xQDR
//!
//! caguid=0x3048c749cd0000
//! Ca      1 "H-003048c749cd0000"    # "host HCA-1"
//! [1](3048c749cd0001)  "S-0008f10500200b50"[4]   # lid 72 lmc 0 "leaf 3" lid 9 4xDDR
//! ```
//!
//! ibsim's short form (`Switch 8 "Switch1"`, `[1] "Hca1"[1]`) is the same without GUIDs.

use super::rate::Rate;
use super::{DeviceKind, End, Scan, port_number};
use crate::text::{Line, Text, decimal_u32, hexadecimal, words};
use hopbyte_fabric::InputError;
use memchr::{memchr, memrchr};
use std::borrow::Cow;
use std::collections::HashMap;

/// Words that begin a record.
const HEADS: [(&[u8], DeviceKind); 4] = [
    (b"Switch", DeviceKind::Switch),
    (b"Ca", DeviceKind::Adapter),
    (b"Hca", DeviceKind::Adapter),
    (b"Rt", DeviceKind::Router),
];

/// Whether a line is in this format.
pub fn recognise(line: Line<'_>) -> bool {
    let text = line.bytes;
    text.starts_with(b"vendid=")
        || text.starts_with(b"switchguid=")
        || text.starts_with(b"caguid=")
        || text.starts_with(b"# Topology file: generated on")
        || head(text).is_some_and(|(_, rest)| {
            let mut words = words(rest);
            words.next().and_then(decimal_u32).is_some()
                && words.next().is_some_and(|w| w.starts_with(b"\""))
        })
}

/// Splits `Switch 36 …` into kind and the rest; logs of terminals lose the tab: `Switch36 "S-…"`.
fn head(line: &[u8]) -> Option<(DeviceKind, &[u8])> {
    HEADS.iter().find_map(|&(word, kind)| {
        let rest = line.strip_prefix(word)?;
        let digits = rest.iter().take_while(|b| b.is_ascii_digit()).count();
        let is_count = digits > 0 && rest[digits..].trim_ascii_start().starts_with(b"\"");
        let is_word = rest.first().is_some_and(u8::is_ascii_whitespace);
        (is_word || is_count).then_some((kind, rest))
    })
}

/// Reads a scan.
pub fn read(text: &Text) -> Result<Scan, InputError> {
    let mut reader = Reader {
        text,
        scan: Scan::new(text),
        by_id: HashMap::new(),
        current: None,
        guid: None,
    };
    for line in text.lines() {
        let trimmed = line.trimmed();
        if trimmed.is_empty() || trimmed.starts_with(b"#") {
            continue;
        }
        if reader.scan.messages.take(line) {
            continue;
        }
        reader.line(Line {
            bytes: trimmed,
            ..line
        })?;
    }
    reader.check_records()?;
    Ok(reader.scan)
}

struct Reader<'a> {
    text: &'a Text,
    scan: Scan,
    /// Device by id, and whether its own record was seen.
    by_id: HashMap<Cow<'a, [u8]>, (u32, bool)>,
    current: Option<u32>,
    guid: Option<u64>,
}

impl<'a> Reader<'a> {
    fn line(&mut self, line: Line<'a>) -> Result<(), InputError> {
        if line.bytes.starts_with(b"[") {
            return self.port(line);
        }
        if let Some((kind, rest)) = head(line.bytes) {
            return self.record(line, kind, rest);
        }
        if let Some((key, value)) = split_once(line.bytes, b'=') {
            if matches!(key, b"switchguid" | b"caguid" | b"rtguid") {
                let digits = value.split(|&b| b == b'(').next().unwrap_or_default();
                self.guid = Some(hexadecimal(digits.trim_ascii()).ok_or_else(|| {
                    self.text
                        .error_in(line, value, "a GUID of up to 16 hex digits")
                })?);
                self.current = None;
            }
            return Ok(());
        }
        // Progress of `-v` and the headings of `-g`.
        let headings: [&[u8]; 4] = [b"DR path", b"Chassis", b"Hostname:", b"Non-Chassis"];
        if headings.iter().any(|h| line.bytes.starts_with(h)) {
            return Ok(());
        }
        Err(self.text.error_at(
            line,
            "a record of ibnetdiscover: Switch, Ca, [PORT], KEY=VALUE or #",
        ))
    }

    fn record(
        &mut self,
        line: Line<'a>,
        kind: DeviceKind,
        rest: &'a [u8],
    ) -> Result<(), InputError> {
        let (id, tail) = quoted(rest).ok_or_else(|| {
            self.text
                .error_at(line, "TYPE PORTS \"ID\" # \"DESCRIPTION\"")
        })?;
        let device = self.device(id, Some(kind), line)?;
        if let Some((_, seen)) = self.by_id.get_mut(&full(id)) {
            if *seen {
                return Err(self
                    .text
                    .error_in(line, id, "one record for each device")
                    .hint("are two scans in one file?"));
            }
            *seen = true;
        }
        let own = &mut self.scan.devices[device as usize];
        own.guid = self.guid.take().or(own.guid);
        self.current = Some(device);
        if let Some((description, tail)) = described(tail) {
            self.scan.describe(device, description);
            if kind == DeviceKind::Switch {
                let (lid, lmc) = (value_after(tail, b"lid"), value_after(tail, b"lmc"));
                self.scan
                    .address((device, 0), None, lid, lmc.unwrap_or(0).min(7) as u8);
            }
        }
        Ok(())
    }

    /// `[4] "H-…"[1](GUID) # "DESC" lid 72 4xDDR`; adapters have `(GUID)` after the first bracket.
    fn port(&mut self, line: Line<'a>) -> Result<(), InputError> {
        let expected = "[PORT] \"ID\"[PORT] # …";
        let wrong = || self.text.error_at(line, expected);
        let device = self.current.ok_or_else(|| {
            self.text
                .error_at(line, "a Switch or Ca line before the ports")
        })?;
        let (number, rest) = bracketed(line.bytes, b'[', b']').ok_or_else(wrong)?;
        let (guid, _) = bracketed(rest, b'(', b')').unzip();
        let (id, rest) = quoted(rest).ok_or_else(wrong)?;
        let (far_number, rest) = bracketed(rest, b'[', b']').ok_or_else(wrong)?;
        let (far_guid, rest) = match bracketed(rest, b'(', b')') {
            Some((guid, rest)) => (Some(guid), rest),
            None => (None, rest),
        };
        let port = (device, port_number(self.text, line, number)?);
        let far_number = port_number(self.text, line, far_number)?;
        let peer = (self.device(id, None, line)?, far_number);
        let comment = split_once(rest, b'#').map_or(&b""[..], |(_, c)| c);
        // An adapter's own LID precedes the quoted description, the peer's follows it.
        let own = &comment[..memchr(b'"', comment).unwrap_or(0)];
        let (description, far) = described(comment).unwrap_or((b"", comment));
        // Further fields may follow the rate: `s=4 w=2 v=4` with `--full`, `slot 3 (scp)`.
        let rate = words(far).filter_map(Rate::parse_joined).last();
        if !self.by_id.get(&full(id)).is_some_and(|&(_, seen)| seen) {
            self.scan.describe(peer.0, description);
        }
        let lmc = value_after(own, b"lmc").unwrap_or(0).min(7) as u8;
        self.scan.address(
            port,
            guid.and_then(hexadecimal),
            value_after(own, b"lid"),
            lmc,
        );
        self.scan.address(
            peer,
            far_guid.and_then(hexadecimal),
            value_after(far, b"lid"),
            0,
        );
        self.scan.ends.push(End {
            port,
            peer,
            rate: rate.unwrap_or(Rate::UNKNOWN),
            line: line.number,
        });
        Ok(())
    }

    /// Finds or adds a device; before its record is read, the first letter of its id gives its kind.
    fn device(
        &mut self,
        id: &'a [u8],
        kind: Option<DeviceKind>,
        line: Line<'a>,
    ) -> Result<u32, InputError> {
        let hex = |prefix: &[u8]| id.strip_prefix(prefix).and_then(hexadecimal);
        let by_letter = match id.first_chunk::<2>() {
            Some(b"S-") => Some(DeviceKind::Switch),
            Some(b"H-") => Some(DeviceKind::Adapter),
            Some(b"R-") => Some(DeviceKind::Router),
            _ => None,
        };
        if let Some(&(device, _)) = self.by_id.get(&full(id)) {
            let own = &mut self.scan.devices[device as usize];
            if let Some(kind) = kind {
                if by_letter.is_none() {
                    own.kind = kind;
                } else if (own.kind == DeviceKind::Switch) != (kind == DeviceKind::Switch) {
                    return Err(self.text.error_in(
                        line,
                        id,
                        "S- before a switch's GUID, H- before an adapter's",
                    ));
                }
            }
            return Ok(device);
        }
        let guid = hex(b"S-").or_else(|| hex(b"H-")).or_else(|| hex(b"R-"));
        let first_kind = by_letter.or(kind).unwrap_or(DeviceKind::Adapter);
        if let Some(kind) = kind
            && (first_kind == DeviceKind::Switch) != (kind == DeviceKind::Switch)
        {
            return Err(self.text.error_in(
                line,
                id,
                "S- before a switch's GUID, H- before an adapter's",
            ));
        }
        let device = self
            .scan
            .device(first_kind, crate::fabric::names::name(id), guid);
        self.by_id.insert(full(id), (device, false));
        Ok(device)
    }

    /// A device whose id has no such letter needs its own record to be a switch or an adapter.
    fn check_records(&self) -> Result<(), InputError> {
        let unknown = self
            .by_id
            .iter()
            .filter(|(id, (_, seen))| !seen && !matches!(id.get(..2), Some(b"S-" | b"H-" | b"R-")))
            .map(|(id, _)| id)
            .min();
        match unknown {
            None => Ok(()),
            Some(id) => Err(self
                .text
                .error(crate::text::excerpt(id), "a record for every device")
                .hint("ports are cabled to it, but no Switch, Ca or Hca line describes it; is the file cut?")),
        }
    }
}

/// The id with all digits of its GUID in small letters: `S-8F10500` and `S-0000000008f10500` are one device.
fn full(id: &[u8]) -> Cow<'_, [u8]> {
    let digits = match id.first_chunk::<2>() {
        Some(b"S-" | b"H-" | b"R-")
            if id.len() != 18 || id[2..].iter().any(u8::is_ascii_uppercase) =>
        {
            hexadecimal(&id[2..])
        }
        _ => None,
    };
    match digits {
        Some(guid) => Cow::Owned([&id[..2], format!("{guid:016x}").as_bytes()].concat()),
        None => Cow::Borrowed(id),
    }
}

fn split_once(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let i = memchr(at, text)?;
    Some((&text[..i], &text[i + 1..]))
}

/// The first quoted string and the text after it.
fn quoted(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (_, rest) = split_once(text, b'"')?;
    split_once(rest, b'"')
}

/// A description and the text after it: nothing behind it is quoted, and it may hold quotes of its own.
fn described(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (first, last) = (memchr(b'"', text)?, memrchr(b'"', text)?);
    (first < last).then(|| (&text[first + 1..last], &text[last + 1..]))
}

/// The text in brackets at the beginning (after blanks), and the text after it.
fn bracketed(text: &[u8], open: u8, close: u8) -> Option<(&[u8], &[u8])> {
    let text = text.trim_ascii_start();
    let rest = text.strip_prefix(&[open])?;
    split_once(rest, close)
}

/// The number after a word.
fn value_after(text: &[u8], word: &[u8]) -> Option<u32> {
    let mut words = words(text);
    words.find(|&w| w == word)?;
    words.next().and_then(decimal_u32)
}
