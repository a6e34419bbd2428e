//! Unicast forwarding tables: `ibroute`, `dump_fts`, `opensm-lfts.dump`.
//!
//! ```text
//! Unicast lids [0x0-0x6a] of switch Lid 60 guid 0x00066a00e30076ab (DESC):        ibroute
//! Unicast lids [0x0-0x66] of switch DR path slid 0; dlid 0; 0,1,3 guid 0x… (DESC): dump_fts
//! Unicast lids [0-102] of switch Lid 6 guid 0x0008f1050010851e ('DESC'):          opensm
//!   Lid  Out   Destination
//!        Port     Info
//! 0x0001 036 : (Channel Adapter portguid 0x0002c90300080d59: 'DESC')              ibroute, dump_fts
//! 0x0001 036 # Channel Adapter portguid 0x0002c90300080d59: 'DESC'                opensm
//! 134 valid lids dumped
//! ```
//!
//! OpenSM's `opensm.fdbs` (and `osm.fdbs`) has the same with hops:
//!
//! ```text
//! dump_ucast_routes: Switch 0x0008f1050010851e              __osm_ucast_mgr_dump_ucast_routes: in old versions
//! LID    : Port : Hops : Optimal
//! 0x0001 : 036  : 02   : yes
//! 0x0002 : UNREACHABLE
//! ```
//!
//! and `guid2lid` lists the LIDs of port GUIDs: `0x0008f1050010851e 0x0006 0x0006`.
//!
//! LIDs are hexadecimal, ports decimal; port 0 is the switch itself. Entries are used unchanged; pairs without an
//! entry have no route.

use super::{Addresses, Messages, Target, guid_text, lid_matrix, service_levels, torus_conf};
use crate::fabric::names::note_of;
use crate::text::{Line, Text, decimal, hexadecimal};
use hopbyte_fabric::routing::{ForwardingTables, position};
use hopbyte_fabric::{Fabric, InputError, NodeId, RouterId};
use std::collections::BTreeSet;

/// Advice for a file that is none.
const TABLES: &str = "forwarding tables come from ibroute, dump_fts or OpenSM's dumps";

/// Whether a line begins a table of this format.
pub fn recognise(line: Line<'_>) -> bool {
    line.trimmed().starts_with(b"Unicast lids [") || is_fdbs(line)
}

/// Heading of a switch in `opensm.fdbs`.
const FDBS: &[u8] = b"dump_ucast_routes: Switch ";

/// Whether a line is such a heading; old versions print the whole name of the function.
fn is_fdbs(line: Line<'_>) -> bool {
    let full = line.bytes.trim_ascii_start();
    let name = full.strip_prefix(b"__").unwrap_or(full);
    let name = name.strip_prefix(b"osm_ucast_mgr_").unwrap_or(name);
    name.starts_with(FDBS)
}

/// Whether a line is one of `guid2lid`: a GUID and its first and last LID.
pub fn recognise_guid2lid(line: Line<'_>) -> bool {
    guid_and_lids(line).is_some()
}

fn guid_and_lids(line: Line<'_>) -> Option<(u64, u32, u32)> {
    let mut words = line.words();
    let guid = words
        .next()
        .filter(|w| w.starts_with(b"0x") && w.len() <= 18)?;
    let mut lid = || {
        let word = words.next().filter(|w| w.starts_with(b"0x"))?;
        hexadecimal(word).and_then(|l| u32::try_from(l).ok())
    };
    let (first, last) = (lid()?, lid()?);
    (words.next().is_none() && first <= last && last - first < 128).then_some((
        hexadecimal(guid)?,
        first,
        last,
    ))
}

/// Other files of OpenSM that are read beside tables.
const COMPANIONS: [fn(Line<'_>) -> bool; 4] = [
    recognise_guid2lid,
    torus_conf::recognise,
    lid_matrix::recognise,
    service_levels::recognise,
];

/// Expected content of a file of routes, and a hint.
const EXPECTED: &str = "forwarding tables";
const HINT: &str = "ibroute, dump_fts and OpenSM (opensm-lfts.dump, opensm.fdbs) write them";

/// Collects the tables of all files.
pub struct TableReader<'a> {
    fabric: &'a Fabric,
    addresses: Addresses,
    /// Target of each 16-bit LID.
    by_lid: Vec<Option<Target>>,
    tables: ForwardingTables,
    seen: Vec<bool>,
    /// Switches with a table that the fabric does not have.
    strangers: BTreeSet<String>,
    /// LIDs in tables that the fabric does not have.
    unknown_lids: BTreeSet<u32>,
    /// LIDs whose GUID differs between the tables and the scan.
    moved: BTreeSet<u32>,
    /// Entries that leave by a port without a cable.
    uncabled: BTreeSet<String>,
    /// LIDs with two entries in one table.
    repeated: BTreeSet<String>,
    /// Whether each LID was met that is a further one of its port.
    further: Vec<bool>,
    /// Tables that end without their entry count.
    cut: Vec<String>,
    /// Whether any file had content that was read.
    read: bool,
}

/// A line of a table that leads to a node.
struct Entry {
    node: NodeId,
    port: u16,
    lid: usize,
    /// Whether the scan has the LID; otherwise the line's GUID gave the node.
    known: bool,
}

/// The switch of the current entries.
struct Section {
    router: Option<RouterId>,
    name: String,
    /// Lines read.
    lines: u64,
    /// Whether a count of the lines must follow.
    counted: bool,
    /// Position among the router's links by port number, plus one; 0 for ports without a cable.
    cables: [u16; 256],
    /// Port by node, plus one; 0 for none.
    ports: Vec<u16>,
}

impl<'a> TableReader<'a> {
    /// Empty tables for a fabric.
    pub fn new(fabric: &'a Fabric, addresses: Addresses) -> Self {
        let mut by_lid = vec![None; 1 << 16];
        for (&lid, &target) in &addresses.lids {
            if let Some(entry) = by_lid.get_mut(lid as usize) {
                *entry = Some(target);
            }
        }
        Self {
            fabric,
            addresses,
            by_lid,
            tables: ForwardingTables::new(fabric),
            seen: vec![false; fabric.routers().len()],
            strangers: BTreeSet::new(),
            unknown_lids: BTreeSet::new(),
            moved: BTreeSet::new(),
            uncabled: BTreeSet::new(),
            repeated: BTreeSet::new(),
            further: vec![false; 1 << 16],
            cut: Vec::new(),
            read: false,
        }
    }

    /// Reads one file: tables, the LIDs of GUIDs for the tables that follow, or the configuration of a torus. Any
    /// other file of a folder is skipped with a note.
    pub fn read(
        &mut self,
        text: &Text,
        of_folder: bool,
        notes: &mut Vec<String>,
    ) -> Result<(), InputError> {
        let is_content = |l: &Line<'_>| {
            !matches!(l.trimmed().first(), None | Some(b'#')) && !Messages::is_one(*l)
        };
        let first = text.lines().find(is_content);
        let is = |recognise: fn(Line<'_>) -> bool| first.is_some_and(recognise);
        if of_folder && !is(recognise) && !COMPANIONS.iter().any(|&recognise| is(recognise)) {
            notes.push(format!("{} holds no forwarding tables", text.file()));
            return Ok(());
        }
        if first.is_none() {
            let found = "an empty file, or comments alone";
            return Err(text.error(found, EXPECTED).hint(HINT));
        }
        self.read = true;
        if is(recognise_guid2lid) {
            return self.read_guid2lid(text);
        }
        if is(torus_conf::recognise) {
            return torus_conf::check(text, self.fabric, &self.addresses, notes);
        }
        if is(lid_matrix::recognise) {
            return lid_matrix::check(text, self.fabric, &self.addresses, notes);
        }
        if is(service_levels::recognise) {
            return service_levels::check(text, self.fabric, &self.addresses, notes);
        }
        self.read_tables(text, notes)
    }

    /// Refuses `files` without any content that was read.
    pub fn check_read(&self, files: &str) -> Result<(), InputError> {
        if self.read {
            return Ok(());
        }
        let found = "files without forwarding tables";
        Err(InputError::new(files, found, EXPECTED).hint(HINT))
    }

    fn read_guid2lid(&mut self, text: &Text) -> Result<(), InputError> {
        for line in text.lines().filter(|l| !l.trimmed().is_empty()) {
            let (guid, first, last) = guid_and_lids(line)
                .ok_or_else(|| text.error_at(line, "0xGUID 0xFIRST-LID 0xLAST-LID"))?;
            if let Some(&target) = self.addresses.guids.get(&guid) {
                for lid in first..=last {
                    if let Some(known) = self.by_lid.get_mut(lid as usize) {
                        known.get_or_insert(target);
                    }
                }
                self.addresses.further.extend(first + 1..=last);
            }
        }
        Ok(())
    }

    fn read_tables(&mut self, text: &Text, notes: &mut Vec<String>) -> Result<(), InputError> {
        let mut section: Option<Section> = None;
        let mut messages = Messages::default();
        // Whether a table of multicast groups is being skipped, and whether a unicast table was ended by its count.
        let (mut multicast, mut ended, mut groups) = (false, false, 0);
        for line in text.lines() {
            let trimmed = line.trimmed();
            if multicast && !recognise(line) {
                multicast = !trimmed.ends_with(b"mlids dumped");
                continue;
            }
            multicast = false;
            match trimmed.first() {
                None | Some(b'#') => {}
                Some(b'0') if section.is_some() && plain_entry(trimmed).is_some() => {
                    self.entry_line(text, line, &mut section)?;
                }
                _ if messages.take(line) => {}
                _ if trimmed.ends_with(b"lids dumped") => {
                    check_count(text, line, section.as_ref().map(|s| s.lines))?;
                    self.close(section.take());
                    ended = true;
                }
                Some(b'M') if trimmed.starts_with(b"Multicast mlids [") => {
                    self.close_cut(section.take());
                    (multicast, groups) = (true, groups + 1);
                }
                // After a whole table nothing but another one belongs to it.
                _ if ended && section.is_none() && !recognise(line) => messages.add(line),
                Some(b'0') => self.entry_line(text, line, &mut section)?,
                Some(b'U' | b'd' | b'o' | b'_') => {
                    self.close_cut(section.take());
                    section = Some(self.heading(text, line)?);
                }
                Some(b'L' | b'P') if is_column_heading(trimmed) => {}
                _ => {
                    let error = text.error_at(line, "an entry such as 0x0001 036");
                    return Err(error.hint(TABLES));
                }
            }
        }
        self.close_cut(section);
        if groups > 0 {
            notes.push(format!(
                "{}: {groups} tables of multicast groups are not read",
                text.file()
            ));
        }
        messages.note(text.file(), notes);
        Ok(())
    }

    fn entry_line(
        &mut self,
        text: &Text,
        line: Line<'_>,
        section: &mut Option<Section>,
    ) -> Result<(), InputError> {
        let Some(section) = section else {
            return Err(text.error_at(line, "a heading 'Unicast lids …' first"));
        };
        section.lines += 1;
        let Some(entry) = self.entry(text, line)? else {
            return Ok(());
        };
        let kept = &mut section.ports[entry.node.index()];
        let further = self.addresses.further.contains(&(entry.lid as u32));
        // Entries ascend, so the first LID of a port that only its GUID identifies is the base LID.
        if further || (!entry.known && *kept != 0) {
            if let Some(met) = self.further.get_mut(entry.lid) {
                *met = true;
            }
            return Ok(());
        }
        let other = std::mem::replace(kept, entry.port + 1);
        if other != 0 && other != entry.port + 1 {
            let node = &self.fabric.node(entry.node).name;
            self.repeated.insert(format!("{node} in {}", section.name));
        }
        Ok(())
    }

    /// Ends a table at the next table or the end of the file.
    fn close_cut(&mut self, section: Option<Section>) {
        let open = section.as_ref().filter(|s| s.counted);
        self.cut.extend(open.map(|s| s.name.clone()));
        self.close(section);
    }

    fn heading(&self, text: &Text, line: Line<'_>) -> Result<Section, InputError> {
        let counted = !is_fdbs(line);
        let guid = guid_after(line.bytes, if counted { b" guid " } else { FDBS })
            .filter(|_| recognise(line))
            .ok_or_else(|| text.error_at(line, "Unicast lids [FIRST-LAST] of switch … guid 0x…"))?;
        let router = match self.addresses.guids.get(&guid) {
            Some(Target::Switch(router)) => Some(*router),
            _ => None,
        };
        let mut cables = [0; 256];
        for &link in router.map_or(&[][..], |r| self.fabric.links_from(r)) {
            let position = router.and_then(|r| position(self.fabric, r, link));
            for pair in self.fabric.ports(link) {
                if let (Some(cable), Some(p)) = (cables.get_mut(usize::from(pair.from)), position) {
                    *cable = p + 1;
                }
            }
        }
        Ok(Section {
            router,
            name: router.map_or_else(|| guid_text(guid), |r| self.fabric.router(r).name.clone()),
            lines: 0,
            counted,
            cables,
            ports: vec![0; self.fabric.nodes().len()],
        })
    }

    /// Reads `0x0001 036 …`: LID, port, and the node it leads to if it is one.
    fn entry(&mut self, text: &Text, line: Line<'_>) -> Result<Option<Entry>, InputError> {
        // Fast path: most lines of a large subnet have a known LID and a port, and no remark.
        if let Some((lid, port)) = plain_entry(line.bytes)
            && let Some(Some(target)) = self.by_lid.get(lid)
        {
            return Ok(match target {
                Target::Node(node) => Some(Entry {
                    node: *node,
                    port,
                    lid,
                    known: true,
                }),
                _ => None,
            });
        }
        let mut words = line.words();
        let lid = words.next().unwrap_or_default();
        let port = words.find(|w| *w != b":").unwrap_or_default();
        let lid = hexadecimal(lid)
            .and_then(|l| u32::try_from(l).ok())
            .ok_or_else(|| text.error_in(line, lid, "a hexadecimal LID such as 0x0001"))?;
        let digits = if port == b"UNREACHABLE" { b"255" } else { port };
        let port = decimal(digits)
            .and_then(|p| u16::try_from(p).ok())
            .filter(|&p| p <= 255)
            .ok_or_else(|| text.error_in(line, port, "a decimal port from 000 to 255"))?;
        let by_lid = self.by_lid.get(lid as usize).copied().flatten();
        let by_guid = guid_after(words.rest(), b"portguid ")
            .and_then(|g| self.addresses.guids.get(&g).copied());
        if let (Some(a), Some(b)) = (by_lid, by_guid)
            && a != b
        {
            self.moved.insert(lid);
        }
        // Switches forward by LID; the GUID is used for scans made before LIDs were assigned.
        match by_lid.or(by_guid) {
            Some(Target::Node(node)) => Ok(Some(Entry {
                node,
                port,
                lid: lid as usize,
                known: by_lid.is_some(),
            })),
            Some(_) => Ok(None),
            None => {
                self.unknown_lids.insert(lid);
                Ok(None)
            }
        }
    }

    /// Stores the entries of a switch.
    fn close(&mut self, section: Option<Section>) {
        let Some(section) = section else { return };
        let Some(router) = section.router else {
            self.strangers.insert(section.name);
            return;
        };
        self.seen[router.index()] = true;
        let entries = section.ports.iter().enumerate();
        for (node, port) in entries.filter_map(|(i, p)| Some((NodeId::of(i), p.checked_sub(1)?))) {
            match section.cables.get(usize::from(port)).copied().unwrap_or(0) {
                // 255 means no route and 0 the switch itself.
                0 if port == 255 || port == 0 => {}
                0 => {
                    self.uncabled.insert(format!("{}[{port}]", section.name));
                }
                position => {
                    self.tables.set_position(router, node, position - 1);
                }
            }
        }
    }

    /// Whether any table was read.
    pub fn has_tables(&self) -> bool {
        !self.strangers.is_empty() || self.seen.contains(&true)
    }

    /// The tables, with notes on missing entries.
    pub fn finish(self, notes: &mut Vec<String>) -> ForwardingTables {
        let list = |set: BTreeSet<String>| set.into_iter().collect::<Vec<_>>();
        let lids = |set: BTreeSet<u32>| set.iter().map(u32::to_string).collect::<Vec<_>>();
        note_of(
            notes,
            &list(self.strangers),
            "forwarding table is",
            "forwarding tables are",
            "of switches that the scan does not list, and ignored",
        );
        note_of(
            notes,
            &lids(self.unknown_lids),
            "LID in the tables is",
            "LIDs in the tables are",
            "not in the scan",
        );
        note_of(
            notes,
            &lids(self.moved),
            "LID belongs",
            "LIDs belong",
            "to another port in the tables than in the scan; the scan counts",
        );
        note_of(
            notes,
            &list(self.uncabled),
            "port is",
            "ports are",
            "used by a table and not cabled",
        );
        note_of(
            notes,
            &list(self.repeated),
            "destination has",
            "destinations have",
            "several entries in one table; the last is used",
        );
        match self.further.iter().filter(|&&met| met).count() {
            0 => {}
            1 => notes.push("the path of 1 further LID of a port (LMC) is not used, that of the base LID is".into()),
            n => notes.push(format!(
                "the paths of {n} further LIDs of ports (LMC) are not used, those of the base LIDs are"
            )),
        }
        note_of(
            notes,
            &self.cut,
            "forwarding table ends",
            "forwarding tables end",
            "without the count of LIDs; were the files cut?",
        );
        let (mut missing, mut incomplete) = (Vec::new(), Vec::new());
        let nodes = self.fabric.nodes().len();
        for router in self.fabric.router_ids() {
            let name = &self.fabric.router(router).name;
            if !self.seen[router.index()] {
                missing.push(name.clone());
                continue;
            }
            let entries = self
                .fabric
                .node_ids()
                .filter(|&n| self.tables.next(self.fabric, router, n).is_some())
                .count();
            if entries < nodes {
                incomplete.push(format!("{name} {entries} of {nodes} nodes"));
            }
        }
        note_of(
            notes,
            &missing,
            "switch has",
            "switches have",
            "no forwarding table: routes over them are unknown",
        );
        note_of(
            notes,
            &incomplete,
            "forwarding table is",
            "forwarding tables are",
            "incomplete: pairs that need the rest have no route",
        );
        self.tables
    }
}

/// `  Lid  Out   Destination`, `       Port     Info`, `LID    : Port : Hops : Optimal`.
fn is_column_heading(trimmed: &[u8]) -> bool {
    trimmed.starts_with(b"Lid  Out")
        || trimmed.starts_with(b"Port ")
        || trimmed.starts_with(b"LID    :")
}

/// `134 valid lids dumped` must equal the number of entries above it; opensm's `102 lids dumped` is the size of the
/// table, in which some LIDs may be unused.
fn check_count(text: &Text, line: Line<'_>, entries: Option<u64>) -> Result<(), InputError> {
    let Some(entries) = entries else {
        return Err(text.error_at(line, "a heading 'Unicast lids …' first"));
    };
    let mut words = line.words();
    let count = words.next().and_then(decimal);
    let valid = words.next() == Some(b"valid");
    match count {
        Some(count) if count == entries || (!valid && count > entries) => Ok(()),
        _ => Err(text
            .error_at(line, format!("the number of entries above, {entries}"))
            .hint("lines of the table are missing or doubled")),
    }
}

/// `0x0001 036` and nothing else: LID and port.
#[inline]
fn plain_entry(line: &[u8]) -> Option<(usize, u16)> {
    let &[b'0', b'x', a, b, c, d, b' ', x, y, z] = line else {
        return None;
    };
    let lid = hexadecimal(&[a, b, c, d])?;
    let port = decimal(&[x, y, z]).filter(|&p| p <= 255)?;
    Some((lid as usize, port as u16))
}

/// The hexadecimal number after a word.
fn guid_after(text: &[u8], word: &[u8]) -> Option<u64> {
    let start = memchr::memmem::find(text, word)? + word.len();
    let rest = text[start..].strip_prefix(b"0x")?;
    let end = rest
        .iter()
        .position(|b| !b.is_ascii_hexdigit())
        .unwrap_or(rest.len());
    hexadecimal(&rest[..end])
}
