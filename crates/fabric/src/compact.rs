//! The compact binary format of a machine: a few bytes per link, read in milliseconds.
//!
//! After [`MAGIC`] come the parts of a [`Document`] in order, all numbers as LEB128 (seven bits per byte, lowest
//! first), and at the end [`seal`]'s hash of all preceding bytes. Names are stored as the length of the prefix shared
//! with the previous name, and the rest. Capacities and latencies are indices into a table of distinct values. A row
//! of forwarding tables is stored as the difference from the previous row: runs of equal entries, and runs with one
//! new entry. The inside of hosts, if described, follows the routing.

use crate::direction::Direction;
use crate::document::{
    self, Document, EndRecord, KindRecord, LinkRecord, NodeRecord, RouterRecord, RoutingRecord,
    SCHEMA,
};
use crate::error::FabricError;
use crate::fabric::{Fabric, Family, Shape};
use crate::hash::fnv1a;
use crate::routing::{ForwardingTables, Routing};
use std::collections::HashMap;
use thiserror::Error;

mod hosts;

/// The first bytes; the zero byte marks the file as binary.
pub const MAGIC: &[u8; 8] = b"hopb\0fb1";

/// Families by number; the order is part of the format.
const FAMILIES: [Family; 10] = [
    Family::Gemini,
    Family::Aries,
    Family::Torus,
    Family::Mesh,
    Family::InfiniBand,
    Family::Slingshot,
    Family::Dragonfly,
    Family::FatTree,
    Family::HyperX,
    Family::Generic,
];

/// Errors of reading binary content.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Damage {
    /// An unexpected byte.
    #[error("byte {at}: expected {expected}")]
    At {
        /// Offset in bytes.
        at: usize,
        /// The expected content.
        expected: &'static str,
    },
    /// The parts do not form a valid machine.
    #[error(transparent)]
    Machine(#[from] FabricError),
}

/// Writes a machine.
pub fn to_bytes(fabric: &Fabric, routing: &Routing) -> Vec<u8> {
    let hosts = fabric.hosts_record();
    let network = fabric.network();
    let (fabric, routing) = (&*network, routing.network());
    let document = Document::with(fabric, document::rule(routing));
    let mut w = Writer {
        bytes: MAGIC.to_vec(),
        last: Vec::new(),
        floats: HashMap::new(),
    };
    w.parts(&document);
    match (routing, &document.routing) {
        (Routing::Tables(tables), _) => {
            w.number(1);
            w.tables(fabric, tables);
        }
        (_, RoutingRecord::Tree { down, up }) => {
            w.number(2);
            for list in [down, up] {
                w.number(list.len() as u64);
                list.iter().for_each(|&n| w.number(n.into()));
            }
        }
        (_, RoutingRecord::Named(name)) => {
            w.number(0);
            w.text(name);
        }
        // Only forwarding tables are stored as rows.
        (_, RoutingRecord::Tables(_)) => {}
    }
    if let Some(hosts) = hosts {
        w.hosts(&hosts);
    }
    seal(&mut w.bytes);
    w.bytes
}

/// Appends the hash ([`fnv1a`], lowest byte first) that ends a file.
pub fn seal(bytes: &mut Vec<u8>) {
    let hash = fnv1a(bytes);
    bytes.extend_from_slice(&hash.to_le_bytes());
}

/// Reads a machine. Sizes are limited by the remaining bytes.
///
/// # Errors
/// Truncated, damaged or invalid content.
pub fn from_bytes(bytes: &[u8]) -> Result<(Fabric, Routing), Damage> {
    let damage = |at, expected| Damage::At { at, expected };
    if !bytes.starts_with(MAGIC) {
        return Err(damage(0, "the first bytes of a hopbyte machine"));
    }
    let Some((content, hash)) = bytes.split_last_chunk::<8>() else {
        return Err(damage(bytes.len(), "a hash at the end"));
    };
    if u64::from_le_bytes(*hash) != fnv1a(content) || content.len() < MAGIC.len() {
        let expected = "the hash of all before it (the file is cut or damaged)";
        return Err(damage(content.len(), expected));
    }
    let mut r = Reader {
        bytes: content,
        at: MAGIC.len(),
        last: Vec::new(),
        floats: Vec::new(),
    };
    let fabric = r.parts()?.build_fabric()?;
    let routing = match r.below(3, "a kind of routing")? {
        0 => RoutingRecord::Named(r.text()?).build(&fabric)?,
        1 => Routing::Tables(r.tables(&fabric)?),
        _ => {
            let down = r.list(Reader::u32)?;
            let up = r.list(Reader::u32)?;
            RoutingRecord::Tree { down, up }.build(&fabric)?
        }
    };
    if r.at == content.len() {
        return Ok((fabric, routing));
    }
    let hosts = r.hosts()?;
    if r.at != content.len() {
        return Err(r.damage("the end"));
    }
    let rule = hosts.rule;
    Ok((fabric.with_hosts(hosts)?, routing.within(rule)))
}

struct Writer {
    bytes: Vec<u8>,
    last: Vec<u8>,
    floats: HashMap<u64, u64>,
}

impl Writer {
    fn parts(&mut self, document: &Document) {
        let family = FAMILIES.iter().position(|f| *f == document.family);
        self.number(family.unwrap_or(FAMILIES.len() - 1) as u64);
        self.text(&document.source);
        self.shape(document.shape.as_ref());
        self.number(document.kinds.len() as u64);
        for kind in &document.kinds {
            self.text(&kind.name);
            self.number(kind.onboard.into());
        }
        self.number(document.routers.len() as u64);
        for router in &document.routers {
            self.text(&router.name);
            router.coord.iter().for_each(|&c| self.number(c.into()));
            self.texts(&router.aliases);
        }
        self.number(document.links.len() as u64);
        document.links.iter().for_each(|link| self.link(link));
        self.number(document.nodes.len() as u64);
        for node in &document.nodes {
            self.text(&node.name);
            self.text(&node.host);
            self.number(node.nid.map_or(0, |n| u64::from(n) + 1));
            for number in [node.router, node.inject, node.eject] {
                self.number(number.into());
            }
            self.texts(&node.aliases);
        }
    }

    fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn text(&mut self, text: &str) {
        let text = text.as_bytes();
        let shared = self
            .last
            .iter()
            .zip(text)
            .take_while(|(a, b)| a == b)
            .count();
        self.number(shared as u64);
        self.number((text.len() - shared) as u64);
        self.bytes.extend_from_slice(&text[shared..]);
        self.last.clear();
        self.last.extend_from_slice(text);
    }

    fn texts(&mut self, texts: &[String]) {
        self.number(texts.len() as u64);
        texts.iter().for_each(|t| self.text(t));
    }

    /// Index in the table of distinct values; a new value follows its first index.
    fn float(&mut self, value: f64) {
        let bits = value.to_bits();
        let next = self.floats.len() as u64;
        let known = *self.floats.entry(bits).or_insert(next);
        self.number(known);
        if known == next {
            self.bytes.extend_from_slice(&bits.to_le_bytes());
        }
    }

    fn shape(&mut self, shape: Option<&Shape>) {
        let Some(shape) = shape else {
            return self.number(0);
        };
        self.number(shape.dims.len() as u64 + 1);
        for (&dim, &wrap) in shape.dims.iter().zip(&shape.wrap) {
            self.number(u64::from(dim) << 1 | u64::from(wrap));
        }
    }

    fn end(&mut self, end: EndRecord) {
        let (tag, id) = match end {
            EndRecord::Router(r) => (0, r),
            EndRecord::Node(n) => (1, n),
            EndRecord::Hosts(r) => (2, r),
        };
        self.number(u64::from(id) * 3 + tag);
    }

    fn link(&mut self, link: &LinkRecord) {
        self.end(link.from);
        self.end(link.to);
        self.number(link.kind.into());
        let direction = link.direction.as_deref().and_then(Direction::parse);
        self.number(direction.map_or(0, |d| d.index() as u64 + 1));
        self.float(link.capacity_bytes_per_s);
        self.float(link.latency_seconds);
        self.number(link.lanes.into());
        self.number((link.lanes - link.lanes_in_service.min(link.lanes)).into());
        self.number(link.ports.len() as u64);
        for &(from, to) in &link.ports {
            self.number(from.into());
            self.number(to.into());
        }
    }

    /// Rows as differences: a run's length and whether it is new; new runs with their entry.
    fn tables(&mut self, fabric: &Fabric, tables: &ForwardingTables) {
        let mut before = vec![0u16; fabric.nodes().len()];
        let mut row = Vec::new();
        for router in fabric.router_ids() {
            tables.row(router, &mut row);
            let mut at = 0;
            while at < row.len() {
                let rest = row[at..].iter().zip(&before[at..]);
                let same = rest.take_while(|(a, b)| a == b).count();
                let value = row[at];
                let equal = row[at..].iter().take_while(|&&v| v == value).count();
                if same >= equal.min(2) {
                    self.number((same as u64) << 1);
                    at += same;
                } else {
                    self.number((equal as u64) << 1 | 1);
                    self.number(value.into());
                    at += equal;
                }
            }
            std::mem::swap(&mut before, &mut row);
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    last: Vec<u8>,
    floats: Vec<u64>,
}

impl Reader<'_> {
    fn parts(&mut self) -> Result<Document, Damage> {
        let family = FAMILIES[self.below(FAMILIES.len(), "a family")?];
        let source = self.text()?;
        let shape = self.shape()?;
        let dims = shape.as_ref().map_or(0, |s| s.dims.len());
        Ok(Document {
            schema: SCHEMA.into(),
            family,
            source,
            shape,
            kinds: self.list(|r| {
                Ok(KindRecord {
                    name: r.text()?,
                    onboard: r.below(2, "0 or 1")? == 1,
                })
            })?,
            routers: self.list(|r| {
                Ok(RouterRecord {
                    name: r.text()?,
                    coord: (0..dims).map(|_| r.u32()).collect::<Result<_, _>>()?,
                    aliases: r.list(Reader::text)?,
                })
            })?,
            links: self.list(Reader::link)?,
            nodes: self.list(|r| {
                Ok(NodeRecord {
                    name: r.text()?,
                    host: r.text()?,
                    nid: r.u33()?,
                    router: r.u32()?,
                    inject: r.u32()?,
                    eject: r.u32()?,
                    aliases: r.list(Reader::text)?,
                })
            })?,
            routing: RoutingRecord::Named(String::new()),
            hosts: None,
        })
    }

    fn damage(&self, expected: &'static str) -> Damage {
        Damage::At {
            at: self.at,
            expected,
        }
    }

    fn number(&mut self) -> Result<u64, Damage> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = *self
                .bytes
                .get(self.at)
                .ok_or_else(|| self.damage("a number"))?;
            let part = u64::from(byte & 0x7f);
            if part << shift >> shift != part {
                return Err(self.damage("a number of at most 64 bits"));
            }
            value |= part << shift;
            self.at += 1;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(self.damage("a number of at most 64 bits"))
    }

    fn u32(&mut self) -> Result<u32, Damage> {
        let number = self.number()?;
        u32::try_from(number).map_err(|_| self.damage("a number of at most 32 bits"))
    }

    fn u16(&mut self) -> Result<u16, Damage> {
        let number = self.number()?;
        u16::try_from(number).map_err(|_| self.damage("a number of at most 16 bits"))
    }

    /// 0 for none, otherwise the number plus one.
    fn u33(&mut self) -> Result<Option<u32>, Damage> {
        match self.number()? {
            0 => Ok(None),
            n => u32::try_from(n - 1)
                .map(Some)
                .map_err(|_| self.damage("a number of at most 32 bits")),
        }
    }

    fn below(&mut self, limit: usize, expected: &'static str) -> Result<usize, Damage> {
        let number = self.number()?;
        usize::try_from(number)
            .ok()
            .filter(|&n| n < limit)
            .ok_or_else(|| self.damage(expected))
    }

    /// A list; every item takes at least a byte, so its length is bounded by the remaining bytes.
    fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Result<T, Damage>,
    ) -> Result<Vec<T>, Damage> {
        let count = self.below(self.bytes.len() - self.at + 1, "a count that fits the file")?;
        (0..count).map(|_| item(self)).collect()
    }

    fn text(&mut self) -> Result<String, Damage> {
        let shared = self.below(self.last.len() + 1, "a part of the name before")?;
        let more = self.below(self.bytes.len() - self.at + 1, "a name within the file")?;
        self.last.truncate(shared);
        let rest = self.bytes.get(self.at..self.at + more);
        let rest = rest.ok_or_else(|| self.damage("a name within the file"))?;
        self.last.extend_from_slice(rest);
        self.at += more;
        // Shared prefixes could otherwise grow names without bound.
        if self.last.len() > 4096 {
            return Err(self.damage("a name of at most 4096 bytes"));
        }
        String::from_utf8(self.last.clone()).map_err(|_| self.damage("a name in UTF-8"))
    }

    fn float(&mut self) -> Result<f64, Damage> {
        let index = self.below(self.floats.len() + 1, "a known value or a new one")?;
        if index == self.floats.len() {
            let bits = self.bytes[self.at..].first_chunk::<8>();
            let bits = *bits.ok_or_else(|| self.damage("eight bytes of a value"))?;
            self.floats.push(u64::from_le_bytes(bits));
            self.at += 8;
        }
        Ok(f64::from_bits(self.floats[index]))
    }

    fn shape(&mut self) -> Result<Option<Shape>, Damage> {
        let dims = self.below(Direction::MAX_DIMENSIONS + 2, "at most six dimensions")?;
        if dims == 0 {
            return Ok(None);
        }
        let mut shape = Shape {
            dims: Vec::new(),
            wrap: Vec::new(),
        };
        for _ in 1..dims {
            let number = self.number()?;
            let dim = u32::try_from(number >> 1);
            shape
                .dims
                .push(dim.map_err(|_| self.damage("a size of at most 32 bits"))?);
            shape.wrap.push(number & 1 == 1);
        }
        Ok(Some(shape))
    }

    fn end(&mut self) -> Result<EndRecord, Damage> {
        let number = self.number()?;
        let id = u32::try_from(number / 3).map_err(|_| self.damage("an end of at most 32 bits"))?;
        Ok(match number % 3 {
            0 => EndRecord::Router(id),
            1 => EndRecord::Node(id),
            _ => EndRecord::Hosts(id),
        })
    }

    fn link(&mut self) -> Result<LinkRecord, Damage> {
        let (from, to, kind) = (self.end()?, self.end()?, self.u16()?);
        let direction = match self.below(2 * Direction::MAX_DIMENSIONS + 1, "a direction")? {
            0 => None,
            index => Some(Direction::of(index - 1).to_string()),
        };
        let (capacity, latency) = (self.float()?, self.float()?);
        let lanes = self.u16()?;
        let lost = self.below(
            usize::from(lanes) + 1,
            "at most as many lost lanes as lanes",
        )?;
        Ok(LinkRecord {
            from,
            to,
            kind,
            direction,
            capacity_bytes_per_s: capacity,
            latency_seconds: latency,
            lanes,
            lanes_in_service: lanes - lost as u16,
            ports: self.list(|r| Ok((r.u16()?, r.u16()?)))?,
        })
    }

    fn tables(&mut self, fabric: &Fabric) -> Result<ForwardingTables, Damage> {
        document::check_table_size(fabric)?;
        let mut tables = ForwardingTables::new(fabric);
        let mut row = vec![0u16; fabric.nodes().len()];
        for router in fabric.router_ids() {
            let mut at = 0;
            while at < row.len() {
                let number = self.number()?;
                let run = usize::try_from(number >> 1).unwrap_or(usize::MAX);
                if run == 0 || run > row.len() - at {
                    return Err(self.damage("a run within the row"));
                }
                if number & 1 == 1 {
                    row[at..at + run].fill(self.u16()?);
                }
                at += run;
            }
            if !tables.set_row(fabric, router, &row) {
                return Err(self.damage("entries that are links of the router"));
            }
        }
        Ok(tables)
    }
}
