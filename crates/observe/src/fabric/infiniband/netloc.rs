//! netloc's node files (`IB-…-nodes.txt`): devices, cables and the path of every pair of hosts.
//!
//! ```text
//! 1                                         version
//! fe80:0000:0000:0000                       subnet
//! ../hwloc                                  folder of the hosts' own topologies
//! 134                                       number of devices
//! 0002:c903:004e:26b1,139,0,0,'host HCA-1',host
//! 0008:f105:0010:8c9e,142,1,1:2,'leaf' ,
//! 0002:c903:004e:26b1,0008:f105:0010:8c9e,8.000000,,1,0,1,36,4x,QDR,8.000000,'host HCA-1' - 'leaf' ,28,
//! host,…                                    partitions
//! 0002:c903:004e:26b1,78e7:d103:0021:5995,0,29
//! ```
//!
//! A device is GUID, LID, type (0 host, 1 switch), partitions, description, host. A line of edges begins with the
//! GUID it leaves from; each edge is the far GUID, total Gbit/s, partitions, number of cables, and for each of them
//! id, near port, far port, width, speed, Gbit/s, descriptions, id of the reverse direction, partitions. A path is
//! two GUIDs and the ids of the cables; the two directions of a pair have separate paths.

use super::rate::Rate;
use super::{Addresses, DeviceKind, End, PortKey, Scan, Target, port_number};
use crate::fabric::names::note_of;
use crate::text::{Line, Lines, Text, decimal, decimal_u32, hexadecimal};
use hopbyte_fabric::routing::ForwardingTables;
use hopbyte_fabric::{Fabric, InputError, LinkId, RouterId};
use std::collections::{BTreeSet, HashMap, HashSet};

/// A scan with its paths.
pub struct Netloc<'a> {
    text: &'a Text,
    /// Devices and cables.
    pub scan: Scan,
    devices: HashMap<u64, u32>,
    /// Sending port by cable id.
    cables: HashMap<u64, PortKey>,
    paths: Lines<'a>,
}

/// Whether these are the first lines: a version, a subnet, a folder, a count, a device.
pub fn recognise(text: &Text) -> bool {
    let lines: Vec<&[u8]> = text.lines().take(5).map(Line::trimmed).collect();
    let [version, subnet, _, count, device] = lines[..] else {
        return false;
    };
    decimal(version).is_some()
        && guid(subnet).is_some()
        && decimal(count).is_some()
        && device.split(|&b| b == b',').next().and_then(guid).is_some()
}

/// Reads `0002:c903:004e:26b1`.
fn guid(word: &[u8]) -> Option<u64> {
    let mut value = 0;
    let mut groups = 0;
    for group in word.split(|&b| b == b':') {
        let part = hexadecimal(group).filter(|_| group.len() == 4)?;
        value = value << 16 | part;
        groups += 1;
    }
    (groups == 4).then_some(value)
}

/// Reads devices and cables; paths are read by [`Netloc::tables`].
pub fn read(text: &Text) -> Result<Netloc<'_>, InputError> {
    let mut lines = text.lines();
    let mut head = |expected| lines.next().ok_or_else(|| text.error("nothing", expected));
    let version = head("version 1")?;
    if version.trimmed() != b"1" {
        return Err(text.error_at(version, "version 1"));
    }
    let (_, _) = (head("a subnet")?, head("a folder")?);
    let count = head("a number of devices")?;
    let count_of_devices =
        decimal(count.trimmed()).ok_or_else(|| text.error_at(count, "a number of devices"))?;
    let mut netloc = Netloc {
        text,
        scan: Scan::new(text),
        devices: HashMap::new(),
        cables: HashMap::new(),
        paths: text.lines(),
    };
    for _ in 0..count_of_devices {
        let line = lines.next().ok_or_else(|| {
            text.error(
                "the end of the file",
                "as many devices as the fourth line says",
            )
            .hint("is the file cut?")
        })?;
        netloc.device(line)?;
    }
    for line in lines.by_ref() {
        let fields = Fields(line.bytes);
        if fields.clone().next().and_then(guid).is_none() {
            break; // partitions
        }
        netloc.edges(line, fields)?;
    }
    netloc.paths = lines;
    Ok(netloc)
}

impl Netloc<'_> {
    fn device(&mut self, line: Line<'_>) -> Result<(), InputError> {
        let mut fields = Fields(line.bytes);
        let mut next = || fields.next().unwrap_or_default();
        let (id, lid, kind, _, description) = (next(), next(), next(), next(), next());
        let kind = match kind {
            b"0" => Some(DeviceKind::Adapter),
            b"1" => Some(DeviceKind::Switch),
            _ => None,
        };
        let (Some(value), Some(lid), Some(kind)) = (guid(id), decimal_u32(lid), kind) else {
            return Err(self
                .text
                .error_at(line, "GUID,LID,0 or 1,PARTITIONS,'DESCRIPTION',HOST"));
        };
        let device = self.scan.device(kind, super::guid_text(value), Some(value));
        if self.devices.insert(value, device).is_some() {
            return Err(self.text.error_in(line, id, "every GUID once"));
        }
        self.scan.describe(device, description);
        // Ports are only named in the lines of cables; until then the LID is stored at port 0.
        self.scan.address((device, 0), Some(value), Some(lid), 0);
        Ok(())
    }

    fn edges(&mut self, line: Line<'_>, mut fields: Fields<'_>) -> Result<(), InputError> {
        let text = self.text;
        let wrong = |found: &[u8], expected: &str| text.error_in(line, found, expected);
        let known = |netloc: &Self, word: &[u8]| {
            let device = guid(word).and_then(|g| netloc.devices.get(&g).copied());
            device.ok_or_else(|| wrong(word, "the GUID of a device above"))
        };
        let from = known(self, fields.next().unwrap_or_default())?;
        while let Some(to) = fields.next().filter(|f| !f.is_empty()) {
            let to = known(self, to)?;
            let mut next = || fields.next().unwrap_or_default();
            let (_, _, count) = (next(), next(), next());
            let count = decimal(count).ok_or_else(|| wrong(count, "a number of cables"))?;
            for _ in 0..count {
                let (id, near, far) = (next(), next(), next());
                let (width, speed) = (next(), next());
                let (_, _, _, _) = (next(), next(), next(), next());
                let id = decimal(id).ok_or_else(|| wrong(id, "a cable's id"))?;
                let rate = Rate::parse(width, speed)
                    .ok_or_else(|| wrong(width, "a link width such as 4x"))?;
                let port = (from, port_number(text, line, near)?);
                let peer = (to, port_number(text, line, far)?);
                let waiting = self.scan.ports.get(&(from, 0)).copied().unwrap_or_default();
                self.scan.address(port, waiting.guid, waiting.lid, 0);
                if self.cables.insert(id, port).is_some() {
                    let id = id.to_string();
                    return Err(wrong(id.as_bytes(), "every cable's id once"));
                }
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

    /// Next hops from the paths. If paths differ by source, the last one is used and a note is added.
    pub fn tables(
        &self,
        fabric: &Fabric,
        addresses: &Addresses,
        notes: &mut Vec<String>,
    ) -> Result<Option<ForwardingTables>, InputError> {
        let mut tables = ForwardingTables::new(fabric);
        let link_of = self.links(fabric, addresses);
        let mut split = BTreeSet::new();
        let mut paths = HashSet::new();
        for line in self.paths.clone() {
            if line.trimmed().is_empty() {
                continue;
            }
            let wrong = |expected| self.text.error_at(line, expected);
            let mut fields = Fields(line.bytes);
            let mut end = || {
                let known = guid(fields.next()?).and_then(|g| addresses.guids.get(&g))?;
                match known {
                    Target::Node(node) => Some(*node),
                    _ => None,
                }
            };
            let (Some(from), Some(to)) = (end(), end()) else {
                return Err(wrong("GUIDs of two hosts, then ids of cables"));
            };
            for id in fields.filter(|f| !f.is_empty()) {
                let link = decimal(id).and_then(|id| link_of.get(&id));
                match link {
                    None => return Err(wrong("ids of cables above")),
                    Some(None) => {} // leaves an adapter
                    Some(Some((router, link))) => {
                        let before = tables.next(fabric, *router, to);
                        if before.is_some_and(|b| b != *link) {
                            split.insert(fabric.router(*router).name.clone());
                        }
                        tables.set(fabric, *router, to, *link);
                    }
                }
            }
            paths.insert((from, to));
        }
        let split: Vec<String> = split.into_iter().collect();
        note_of(
            notes,
            &split,
            "switch sends",
            "switches send",
            "to one host by several routes; the last path is used",
        );
        let nodes = fabric.nodes().len();
        let pairs = nodes * nodes.saturating_sub(1);
        if paths.len() < pairs {
            notes.push(format!(
                "paths of {} of {pairs} pairs of hosts are in the file: was it cut?",
                paths.len()
            ));
        }
        Ok((!paths.is_empty()).then_some(tables))
    }

    /// Router and link by cable id; `None` for cables that leave an adapter.
    fn links(
        &self,
        fabric: &Fabric,
        addresses: &Addresses,
    ) -> HashMap<u64, Option<(RouterId, LinkId)>> {
        let mut by_port = HashMap::new();
        for router in fabric.router_ids() {
            for &link in fabric.links_from(router) {
                for pair in fabric.ports(link) {
                    by_port.insert((router, pair.from), link);
                }
            }
        }
        self.cables
            .iter()
            .map(|(&id, &(device, port))| {
                let guid = self.scan.devices[device as usize].guid;
                let target = guid.and_then(|g| addresses.guids.get(&g));
                let link = match target {
                    Some(&Target::Switch(router)) => {
                        by_port.get(&(router, port)).map(|&l| (router, l))
                    }
                    _ => None,
                };
                (id, link)
            })
            .collect()
    }
}

/// Fields between commas; text between `'` and `'` followed by a comma or blank is one field.
#[derive(Clone)]
struct Fields<'a>(&'a [u8]);

impl<'a> Iterator for Fields<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.0.is_empty() {
            return None;
        }
        let quoted = self.0.starts_with(b"'");
        let mut end = 0;
        loop {
            end += memchr::memchr(b',', &self.0[end..]).unwrap_or(self.0.len() - end);
            let whole = self.0[..end].trim_ascii_end();
            if end == self.0.len() || !quoted || (whole.len() > 1 && whole.ends_with(b"'")) {
                let rest = &self.0[(end + 1).min(self.0.len())..];
                self.0 = rest;
                let field = whole.trim_ascii();
                let inner = field.strip_prefix(b"'").and_then(|f| f.strip_suffix(b"'"));
                return Some(inner.filter(|_| quoted).unwrap_or(field));
            }
            end += 1;
        }
    }
}
