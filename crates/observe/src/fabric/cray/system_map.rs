//! Positions of nodes: `rtr --system-map`, and sst-macro's node map.
//!
//! ```text
//! NID    NIC-Addr  Node          Gemini         X  Y  Z
//! ----   --------  ------------  ------------   -- -- --
//! 0        0       c0-0c0s0n0    c0-0c0s0g0     0  0  0
//!
//! 6528 4
//! nid00006 0 0 3 0
//! ```
//!
//! On Aries the fourth column is `Aries` and the coordinate `Blue Black Green`. Lines are in any order: a nid follows
//! neither the coordinate nor the line number.

use super::tiles::fills;
use crate::ObserveError;
use crate::fabric::names::{name, note_of};
use crate::text::{Line, Text, decimal, decimal_u32, lossy, words};
use hopbyte_fabric::{Fabric, InputError, RouterId, gemini};
use std::collections::{HashMap, HashSet};

/// A node of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapNode {
    /// Number that the machine's own tools use.
    pub nid: u32,
    /// cname; empty in node maps.
    pub name: String,
    /// cname of its router; empty in node maps.
    pub router: String,
    /// Coordinate of its router.
    pub coord: [u32; 3],
    /// Number among the nodes of its router; only node maps have it.
    pub slot: u32,
    /// Line of the map.
    pub line: u64,
}

/// A whole map.
#[derive(Clone, Debug)]
pub struct SystemMap {
    file: String,
    is_aries: bool,
    /// Nodes in the order of the map.
    pub nodes: Vec<MapNode>,
}

/// Whether a line heads a system map.
pub fn recognise(line: Line<'_>) -> bool {
    let mut words = line.words();
    words.next() == Some(b"NID") && words.next() == Some(b"NIC-Addr")
}

/// Whether a line belongs to a node map: `nid00006 0 0 3 0`.
pub fn recognise_node_map(line: Line<'_>) -> bool {
    node_map_words(line.bytes).is_some()
}

fn node_map_words(line: &[u8]) -> Option<(u32, [u32; 4])> {
    let mut words = words(line);
    let nid = decimal_u32(words.next()?.strip_prefix(b"nid")?)?;
    let mut numbers = [0; 4];
    for number in &mut numbers {
        *number = words.next().and_then(decimal_u32)?;
    }
    words.next().is_none().then_some((nid, numbers))
}

/// Reads either form.
pub fn read(text: &Text) -> Result<SystemMap, InputError> {
    let mut map = SystemMap {
        file: text.file().into(),
        is_aries: false,
        nodes: Vec::new(),
    };
    let mut lines = text.lines().filter(|l| !l.trimmed().is_empty());
    let Some(head) = lines.next() else {
        return Err(text.error("", "a system map (rtr --system-map)"));
    };
    if recognise(head) {
        map.is_aries = head.words().any(|w| w == b"Aries");
        for line in lines.filter(|l| !l.trimmed().starts_with(b"----")) {
            map.nodes.push(system_map_line(text, line)?);
        }
    } else {
        map.read_node_map(text, head, lines)?;
    }
    let mut seen = HashSet::with_capacity(map.nodes.len());
    for node in &map.nodes {
        if !seen.insert(node.nid) {
            let found = format!("nid {} again", node.nid);
            return Err(text.error(found, "every nid once").at(node.line));
        }
    }
    Ok(map)
}

fn system_map_line(text: &Text, line: Line<'_>) -> Result<MapNode, InputError> {
    let mut words = line.words();
    let mut next = || words.next().unwrap_or_default();
    let (nid, _nic, node, router) = (next(), next(), next(), next());
    let coord = [next(), next(), next()].map(decimal_u32);
    match (decimal_u32(nid), coord, words.next()) {
        (Some(nid), [Some(x), Some(y), Some(z)], None) => Ok(MapNode {
            nid,
            name: name(node),
            router: name(router),
            coord: [x, y, z],
            slot: 0,
            line: line.number,
        }),
        _ => Err(text.error_at(line, "NID NIC-ADDRESS NODE ROUTER and three coordinates")),
    }
}

impl SystemMap {
    fn read_node_map<'a>(
        &mut self,
        text: &Text,
        head: Line<'a>,
        lines: impl Iterator<Item = Line<'a>>,
    ) -> Result<(), InputError> {
        let mut words = head.words();
        let numbers = (
            words.next().and_then(decimal),
            words.next().and_then(decimal),
        );
        let ((Some(count), Some(4)), None) = (numbers, words.next()) else {
            return Err(text.error_at(head, "the heading of a system map, or COUNT 4"));
        };
        for line in lines {
            let Some((nid, [x, y, z, slot])) = node_map_words(line.bytes) else {
                return Err(text.error_at(line, "nidNNNNN and four numbers"));
            };
            self.nodes.push(MapNode {
                nid,
                name: String::new(),
                router: String::new(),
                coord: [x, y, z],
                slot,
                line: line.number,
            });
        }
        if self.nodes.len() as u64 != count {
            let found = format!("{} nodes", self.nodes.len());
            return Err(text
                .error(found, format!("{count}, as the first line says"))
                .hint("is the file cut?"));
        }
        Ok(())
    }

    fn error(&self, found: String, expected: impl Into<String>) -> InputError {
        InputError::new(&self.file, found, expected)
    }

    /// The map's nodes on the given routers (name and coordinate by position), in the order of routers and nids.
    /// Names that contradict the map are an error; nodes or routers on one side only are noted. Nodes of node maps
    /// get the names that `cname` builds from the router's name and the node's number on it.
    pub fn nodes_of(
        &self,
        routers: &[(&[u8], [u32; 3])],
        cname: impl Fn(&str, u32) -> String,
        notes: &mut Vec<String>,
    ) -> Result<Vec<(RouterId, MapNode)>, InputError> {
        let positions = routers.iter().enumerate().map(|(i, r)| (r.1, i));
        let at: HashMap<[u32; 3], usize> = positions.collect();
        let mut nodes = Vec::with_capacity(self.nodes.len());
        let mut elsewhere = Vec::new();
        let mut populated = vec![false; routers.len()];
        for node in &self.nodes {
            let Some(&r) = at.get(&node.coord) else {
                elsewhere.push(format!("nid{:05} at {:?}", node.nid, node.coord));
                continue;
            };
            let router = lossy(routers[r].0);
            if !node.router.is_empty() && node.router != router {
                let found = format!("{} at {:?}", node.router, node.coord);
                let expected = format!("{router}, as the interconnect has it");
                return Err(self
                    .error(found, expected)
                    .at(node.line)
                    .hint("do both files belong to one machine?"));
            }
            let mut node = node.clone();
            if node.name.is_empty() {
                node.name = cname(&router, node.slot);
            }
            populated[r] = true;
            nodes.push((RouterId::of(r), node));
        }
        note_of(
            notes,
            &elsewhere,
            "node of the map is",
            "nodes of the map are",
            "on no listed router and left out",
        );
        let empty: Vec<String> = (0..routers.len())
            .filter(|&r| !populated[r])
            .map(|r| lossy(routers[r].0).into_owned())
            .collect();
        note_of(
            notes,
            &empty,
            "router has",
            "routers have",
            "no node in the map",
        );
        if nodes.is_empty() {
            let found = format!("{} nodes, none on these routers", self.nodes.len());
            return Err(self.error(found, "the map of this machine"));
        }
        nodes.sort_by_key(|(router, node)| (*router, node.nid));
        Ok(nodes)
    }

    /// A Gemini machine from its map alone: complete, cabled by Cray's rules, and equal to the map in every name,
    /// number and coordinate.
    pub fn whole_gemini(&self, notes: &mut Vec<String>) -> Result<Fabric, ObserveError> {
        if self.is_aries {
            return Err(self
                .error("the system map of an Aries machine".into(), "its interconnect too")
                .hint("the wiring between groups is in rtr --interconnect; give that, and this as its map")
                .into());
        }
        let mut dims = [1u32; 3];
        for node in &self.nodes {
            for (dim, &c) in dims.iter_mut().zip(&node.coord) {
                *dim = (*dim).max(c.saturating_add(1));
            }
        }
        if self.nodes.is_empty() || !fills(dims, self.nodes.len()) {
            let found = format!("{} nodes on a grid of {dims:?}", self.nodes.len());
            return Err(self.error(found, "a machine that fills its grid").into());
        }
        let fabric = gemini::build(dims, &self.file)?;
        if let Some(node) = self.nodes.iter().find(|n| !agrees(&fabric, n)) {
            let found = format!("nid {} {} at {:?}", node.nid, node.name, node.coord);
            return Err(self
                .error(
                    found,
                    "names and numbers by Cray's rules for a whole Gemini machine",
                )
                .at(node.line)
                .hint("give the machine's interconnect (rtr --interconnect), and this as its map")
                .into());
        }
        let [x, y, z] = dims;
        notes.push(format!(
            "no interconnect: links as in a whole {x}x{y}x{z} Gemini machine"
        ));
        if self.nodes.len() < fabric.nodes().len() {
            notes.push(format!(
                "the map lists {} of {} nodes; all are kept",
                self.nodes.len(),
                fabric.nodes().len()
            ));
        }
        Ok(fabric)
    }
}

/// Whether a fabric has a node with the map's number, names and coordinate.
fn agrees(fabric: &Fabric, node: &MapNode) -> bool {
    fabric
        .node_named(&format!("nid{:05}", node.nid))
        .is_some_and(|id| {
            let known = fabric.node(id);
            fabric.coord(known.router) == Some(&node.coord[..])
                && (node.name.is_empty() || node.name == known.name)
                && (node.router.is_empty() || node.router == fabric.router(known.router).name)
        })
}
