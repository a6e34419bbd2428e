//! `rtr --interconnect` of an Aries machine: one line per tile, 48 tiles per router.
//!
//! ```text
//! c0-0c0s0a0l00(0:0:0) green -> c0-0c0s6a0l10(0:0:6)
//! c0-0c0s0a0l04(0:0:0) blue -> unused
//! c0-0c0s0a0l50(0:0:0) ptile -> processor
//! ```
//!
//! The coordinate is (group:chassis:slot). Tiles of one pair of routers and colour form one link.

use super::system_map::SystemMap;
use super::tiles::{Joint, Syntax, Tiles};
use crate::ObserveError;
use crate::fabric::names::note_of;
use crate::text::{Line, Text, lossy};
use hopbyte_fabric::aries::{GLOBAL_TILE, HOP_LATENCY, HOST, LOCAL_TILE, nid};
use hopbyte_fabric::units::BytesPerSecond;
use hopbyte_fabric::{
    End, Fabric, FabricBuilder, Family, InputError, LinkId, LinkSpec, RouterId, Shape,
};
use std::collections::HashMap;

const SYNTAX: Syntax = Syntax {
    open: b"(",
    comma: b':',
    close: b')',
    end: b"",
    expected: "a tile with its coordinate such as c0-0c0s0a0l00(0:0:0)",
};

/// Colours of network tiles, with the capacity of one tile.
const COLOURS: [(&str, BytesPerSecond); 3] = [
    ("green", LOCAL_TILE),
    ("black", LOCAL_TILE),
    ("blue", GLOBAL_TILE),
];
/// Lanes of a tile.
const LANES_PER_TILE: u16 = 3;
/// Nodes of an Aries.
const NODES: u32 = 4;

fn colour(word: &[u8]) -> Option<usize> {
    COLOURS.iter().position(|c| c.0.as_bytes() == word)
}

/// Whether a line is in this format.
pub fn recognise(line: Line<'_>) -> bool {
    let mut words = line.words();
    words.next().is_some_and(|w| SYNTAX.parse(w).is_some())
        && words
            .next()
            .is_some_and(|w| w == b"ptile" || colour(w).is_some())
        && words.next() == Some(b"->")
}

/// Reads a machine; nodes come from the system map, or by Cray's rules: four per router.
pub fn read(
    text: &Text,
    map: Option<&SystemMap>,
    notes: &mut Vec<String>,
) -> Result<Fabric, ObserveError> {
    let mut tiles = Tiles::new(text);
    let mut host_tiles: Vec<u32> = Vec::new();
    for line in text.lines() {
        parse_line(text, line, &mut tiles, &mut host_tiles)?;
    }
    host_tiles.resize(tiles.routers.len(), 0);
    let one_way = tiles.check()?;
    note_of(
        notes,
        &one_way,
        "tile is",
        "tiles are",
        "wired to a tile that is not listed itself",
    );
    let dims = tiles.extent()?;
    let (order, position) = tiles.by_coordinate();
    let mut b = FabricBuilder::new(Family::Aries, text.file());
    b.shape(Shape {
        wrap: vec![false; 3],
        dims: dims.to_vec(),
    });
    for &r in &order {
        let (name, coord) = tiles.routers[r as usize];
        b.router(lossy(name), &coord.map(u32::from));
    }
    add_links(&mut b, &tiles, &position);
    let host_tiles: Vec<u32> = order.iter().map(|&r| host_tiles[r as usize]).collect();
    add_nodes(&mut b, &tiles, &order, &host_tiles, map, notes)?;
    Ok(b.finish()?)
}

fn parse_line<'a>(
    text: &'a Text,
    line: Line<'a>,
    tiles: &mut Tiles<'a>,
    host_tiles: &mut Vec<u32>,
) -> Result<(), InputError> {
    let mut words = line.words();
    let Some(first) = words.next() else {
        return Ok(());
    };
    if first.starts_with(b"#") {
        return Ok(());
    }
    let from = tiles.source(line, first, &SYNTAX)?;
    let mut next = || words.next().unwrap_or_default();
    let (colour_word, arrow, to) = (next(), next(), next());
    let wrong = |found: &[u8], expected: &str| text.error_in(line, found, expected);
    if arrow != b"->" {
        return Err(wrong(arrow, "->"));
    }
    if let Some(more) = words.next() {
        return Err(wrong(more, "the end of the line"));
    }
    let way = match (colour_word, to) {
        (b"ptile", b"processor") => {
            host_tiles.resize(tiles.routers.len(), 0);
            host_tiles[from.router as usize] += 1;
            return Ok(());
        }
        (b"ptile", b"unused") => return Ok(()),
        (b"ptile", _) => return Err(wrong(to, "processor or unused")),
        _ => {
            colour(colour_word).ok_or_else(|| wrong(colour_word, "green, black, blue or ptile"))?
        }
    };
    if to == b"unused" {
        return Ok(());
    }
    let far = tiles.tile(line, to, &SYNTAX)?;
    check_colour(
        text,
        line,
        way,
        [from, far].map(|t| tiles.routers[t.router as usize].1),
    )?;
    tiles.joints.push(Joint {
        from,
        to: far,
        way: way as u8,
        carrier: 0,
        line: line.number as u32,
    });
    Ok(())
}

/// The colour must match the position of the far router.
fn check_colour(
    text: &Text,
    line: Line<'_>,
    way: usize,
    [[g, c, s], [fg, fc, fs]]: [[u16; 3]; 2],
) -> Result<(), InputError> {
    let (fits, expected) = match way {
        0 => (
            (g, c) == (fg, fc) && s != fs,
            "green tiles to stay in the chassis",
        ),
        1 => (
            (g, s) == (fg, fs) && c != fc,
            "black tiles to reach the same slot of another chassis",
        ),
        _ => (g != fg, "blue tiles to reach another group"),
    };
    if fits {
        return Ok(());
    }
    Err(text.error_at(line, expected))
}

/// Adds a link for every ordered pair of routers and colour, in the order of routers and tiles.
fn add_links(b: &mut FabricBuilder, tiles: &Tiles<'_>, position: &[u32]) {
    let at = |router: u32| RouterId(position[router as usize]);
    let mut joints: Vec<&Joint> = tiles.joints.iter().collect();
    joints.sort_unstable_by_key(|j| (at(j.from.router), j.from.tile));
    let mut known: HashMap<(RouterId, RouterId, u8), LinkId> = HashMap::with_capacity(joints.len());
    for joint in joints {
        let (from, to) = (at(joint.from.router), at(joint.to.router));
        let (name, capacity) = COLOURS[usize::from(joint.way)];
        let link = *known.entry((from, to, joint.way)).or_insert_with(|| {
            let kind = b.kind(name, false);
            let (from, to) = (End::Router(from), End::Router(to));
            let spec = LinkSpec::new(from, to, kind, capacity, HOP_LATENCY);
            b.link(LinkSpec { lanes: 0, ..spec })
        });
        let sum = b.link_mut(link);
        sum.lanes += LANES_PER_TILE;
        sum.lanes_in_service = sum.lanes;
        sum.nominal.0 = capacity.0 * f64::from(sum.lanes / LANES_PER_TILE);
        b.port(link, joint.from.tile, joint.to.tile);
    }
}

fn add_nodes(
    b: &mut FabricBuilder,
    tiles: &Tiles<'_>,
    order: &[u32],
    host_tiles: &[u32],
    map: Option<&SystemMap>,
    notes: &mut Vec<String>,
) -> Result<(), ObserveError> {
    let host = b.kind("host", true);
    let routers: Vec<_> = order
        .iter()
        .map(|&r| tiles.routers[r as usize])
        .map(|(name, coord)| (name, coord.map(u32::from)))
        .collect();
    let mut add = |name: String, nid: u32, router: RouterId| {
        let id = b.node_with_link(name, format!("nid{nid:05}"), router, host, HOST);
        b.set_nid(id, nid);
    };
    if let Some(map) = map {
        for (router, node) in map.nodes_of(&routers, node_name, notes)? {
            add(node.name, node.nid, router);
        }
        return Ok(());
    }
    notes.push("no system map: four nodes per Aries, named and numbered by Cray's rules".into());
    for (r, (name, coord)) in routers.iter().enumerate() {
        // Two of the eight processor tiles belong to each node.
        for n in 0..NODES.min(host_tiles[r].div_ceil(2)) {
            add(node_name(&lossy(name), n), nid(*coord, n), RouterId::of(r));
        }
    }
    Ok(())
}

/// cname of an Aries' node.
fn node_name(aries: &str, node: u32) -> String {
    format!("{}n{node}", aries.strip_suffix("a0").unwrap_or(aries))
}
