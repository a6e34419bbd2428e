//! `rtr --interconnect` of a Gemini machine: one line per tile, 40 network tiles per router.
//!
//! ```text
//! c0-0c0s0g0l00[(0,0,0)] Z+ -> c0-0c0s1g0l32[(0,0,1)] LinkType: backplane
//! c0-0c0s0g0l04[(0,0,0)] X- -> c2-0c0s0g0l41[(15,0,0)] LinkType: cable18x
//! ```
//!
//! Tiles of one router and direction form one link. The direction is read from the line, never derived from the tile:
//! the tile group of the positive direction changes along the folded cabling.

use super::system_map::SystemMap;
use super::tiles::{Joint, Syntax, Tiles};
use crate::ObserveError;
use crate::fabric::names::note_of;
use crate::text::{Line, Text, lossy};
use hopbyte_fabric::gemini::{
    Carrier, HOP_LATENCY, HOST_TILE, HOST_TILES, LANES_PER_TILE, Machine,
};
use hopbyte_fabric::units::{BytesPerSecond, Seconds};
use hopbyte_fabric::{
    Direction, End, Fabric, FabricBuilder, Family, InputError, LinkId, LinkSpec, RouterId, Shape,
};

const SYNTAX: Syntax = Syntax {
    open: b"[(",
    comma: b',',
    close: b')',
    end: b"]",
    expected: "a tile with its coordinate such as c0-0c0s0g0l00[(0,0,0)]",
};

const CARRIERS: [Carrier; 3] = [Carrier::Mezzanine, Carrier::Backplane, Carrier::Cable];

/// Whether a line is in this format.
pub fn recognise(line: Line<'_>) -> bool {
    let mut words = line.words();
    words.next().is_some_and(|w| SYNTAX.parse(w).is_some())
        && words.nth(1) == Some(b"->")
        && words.nth(1) == Some(b"LinkType:")
}

/// Reads a machine; nodes come from the system map, or by Cray's rules: two per router.
pub fn read(
    text: &Text,
    map: Option<&SystemMap>,
    notes: &mut Vec<String>,
) -> Result<Fabric, ObserveError> {
    let mut tiles = Tiles::new(text);
    for line in text.lines() {
        parse_line(text, line, &mut tiles)?;
    }
    let one_way = tiles.check()?;
    note_of(
        notes,
        &one_way,
        "tile is",
        "tiles are",
        "wired to a tile that is not listed itself",
    );
    let dims = tiles.extent()?;
    check_neighbours(text, &tiles, dims)?;
    build(text, &tiles, dims, map, notes)
}

#[inline]
fn parse_line<'a>(text: &'a Text, line: Line<'a>, tiles: &mut Tiles<'a>) -> Result<(), InputError> {
    let mut words = line.words();
    let Some(first) = words.next() else {
        return Ok(());
    };
    if first.starts_with(b"#") {
        return Ok(());
    }
    let from = tiles.source(line, first, &SYNTAX)?;
    let mut next = || words.next().unwrap_or_default();
    let (direction, arrow, to, label, carrier) = (next(), next(), next(), next(), next());
    let wrong = |found: &[u8], expected: &str| text.error_in(line, found, expected);
    let way = match direction {
        [letter @ b'X'..=b'Z', sign @ (b'+' | b'-')] => {
            2 * (letter - b'X') + u8::from(*sign == b'-')
        }
        _ => return Err(wrong(direction, "a direction X+, X-, Y+, Y-, Z+ or Z-")),
    };
    if arrow != b"->" {
        return Err(wrong(arrow, "->"));
    }
    let to = tiles.tile(line, to, &SYNTAX)?;
    if label != b"LinkType:" {
        return Err(wrong(label, "LinkType:"));
    }
    let carrier = match carrier {
        b"mezzanine" => 0,
        b"backplane" => 1,
        c if c.starts_with(b"cable") => 2,
        c => return Err(wrong(c, "mezzanine, backplane or cable…")),
    };
    if let Some(more) = words.next() {
        return Err(wrong(more, "the end of the line"));
    }
    tiles.joints.push(Joint {
        from,
        to,
        way,
        carrier,
        line: line.number as u32,
    });
    Ok(())
}

/// A tile's peer must be the neighbour in its direction, because routes are computed from coordinates.
fn check_neighbours(text: &Text, tiles: &Tiles<'_>, dims: [u32; 3]) -> Result<(), InputError> {
    for joint in &tiles.joints {
        let direction = Direction::of(usize::from(joint.way));
        let dim = usize::from(direction.dim);
        let coord = |router: u32| tiles.routers[router as usize].1.map(u32::from);
        let (here, there) = (coord(joint.from.router), coord(joint.to.router));
        let mut expected = here;
        let step = if direction.positive { 1 } else { dims[dim] - 1 };
        expected[dim] = (here[dim] + step) % dims[dim];
        if there != expected {
            let found = format!("{direction} from {here:?} to {there:?}");
            let expected = format!("the neighbour {expected:?}");
            return Err(text.error(found, expected).at(u64::from(joint.line)));
        }
    }
    Ok(())
}

/// Sums over the tiles of one router and direction.
#[derive(Clone, Copy, Default)]
struct Sum {
    tiles: u16,
    to: u32,
    carrier: u8,
}

fn build(
    text: &Text,
    tiles: &Tiles<'_>,
    dims: [u32; 3],
    map: Option<&SystemMap>,
    notes: &mut Vec<String>,
) -> Result<Fabric, ObserveError> {
    let (order, position) = tiles.by_coordinate();
    let slot = |j: &Joint| position[j.from.router as usize] as usize * 6 + usize::from(j.way);
    let mut sums = vec![Sum::default(); order.len() * 6];
    for joint in &tiles.joints {
        let sum = &mut sums[slot(joint)];
        if sum.tiles > 0 && sum.carrier != joint.carrier {
            let [found, known] = [joint.carrier, sum.carrier].map(|c| CARRIERS[usize::from(c)]);
            let expected = format!("{}, as other tiles of this direction have", known.name());
            let error = text.error(found.name(), expected);
            return Err(error.at(u64::from(joint.line)).into());
        }
        *sum = Sum {
            tiles: sum.tiles + 1,
            to: position[joint.to.router as usize],
            carrier: joint.carrier,
        };
    }
    let mut b = FabricBuilder::new(Family::Gemini, text.file());
    let closes = |d: usize| {
        let at_end = |r: u32| u32::from(tiles.routers[r as usize].1[d]) + 1 == dims[d];
        let mut up = order.iter().zip(sums.chunks_exact(6));
        dims[d] == 1 || up.any(|(&r, sums)| at_end(r) && sums[2 * d].tiles > 0)
    };
    b.shape(Shape {
        wrap: (0..3).map(closes).collect(),
        dims: dims.to_vec(),
    });
    for &r in &order {
        let (name, coord) = tiles.routers[r as usize];
        b.router(lossy(name), &coord.map(u32::from));
    }
    let links = add_links(&mut b, &sums);
    for joint in &tiles.joints {
        b.port(links[slot(joint)], joint.from.tile, joint.to.tile);
    }
    note_partial(tiles, &order, &sums, notes);
    add_nodes(&mut b, tiles, &order, dims, map, notes)?;
    Ok(b.finish()?)
}

/// Adds a link for each router and direction that has tiles; returns it by slot (none for the others).
fn add_links(b: &mut FabricBuilder, sums: &[Sum]) -> Vec<LinkId> {
    let mut links = Vec::with_capacity(sums.len());
    for (slot, sum) in sums.iter().enumerate() {
        if sum.tiles == 0 {
            links.push(LinkId(u32::MAX));
            continue;
        }
        let direction = Direction::of(slot % 6);
        let carrier = CARRIERS[usize::from(sum.carrier)];
        let letter = Direction::letter(usize::from(direction.dim));
        let kind = b.kind(&format!("{letter} {}", carrier.name()), false);
        let lanes = sum.tiles * LANES_PER_TILE;
        links.push(b.link(LinkSpec {
            direction: Some(direction),
            lanes,
            lanes_in_service: lanes,
            ..LinkSpec::new(
                End::Router(RouterId::of(slot / 6)),
                End::Router(RouterId(sum.to)),
                kind,
                BytesPerSecond(carrier.tile_capacity().0 * f64::from(sum.tiles)),
                HOP_LATENCY,
            )
        }));
    }
    links
}

/// Directions that have only some of their tiles: fewer than 8 in X and Z, 4 in Y.
fn note_partial(tiles: &Tiles<'_>, order: &[u32], sums: &[Sum], notes: &mut Vec<String>) {
    let partial: Vec<String> = sums
        .iter()
        .enumerate()
        .filter(|&(slot, sum)| {
            let full = if matches!(slot % 6, 2 | 3) { 4 } else { 8 };
            sum.tiles > 0 && sum.tiles != full
        })
        .map(|(slot, sum)| {
            let name = lossy(tiles.routers[order[slot / 6] as usize].0);
            format!("{name} {} {} tiles", Direction::of(slot % 6), sum.tiles)
        })
        .collect();
    note_of(
        notes,
        &partial,
        "link has",
        "links have",
        "not the usual number of tiles",
    );
}

fn add_nodes(
    b: &mut FabricBuilder,
    tiles: &Tiles<'_>,
    order: &[u32],
    dims: [u32; 3],
    map: Option<&SystemMap>,
    notes: &mut Vec<String>,
) -> Result<(), ObserveError> {
    let host = b.kind("host", true);
    let capacity = BytesPerSecond(HOST_TILE.0 * f64::from(HOST_TILES));
    let routers: Vec<_> = order
        .iter()
        .map(|&r| tiles.routers[r as usize])
        .map(|(name, coord)| (name, coord.map(u32::from)))
        .collect();
    let ends: Vec<_> = (0..order.len())
        .map(|r| b.host_link(RouterId::of(r), host, capacity, Seconds(0.0)))
        .collect();
    if let Some(map) = map {
        for (router, node) in map.nodes_of(&routers, node_name, notes)? {
            let (inject, eject) = ends[router.index()];
            let host = format!("nid{:05}", node.nid);
            b.node(node.name, host, Some(node.nid), router, inject, eject);
        }
        return Ok(());
    }
    let machine = Machine::new(dims).filter(|m| {
        routers
            .iter()
            .all(|&(name, coord)| m.cname(coord).as_bytes() == name)
    });
    notes.push(match machine {
        Some(_) => "no system map: two nodes per Gemini, named and numbered by Cray's rules".into(),
        None => "no system map, and router names that Cray's rules do not explain: two nodes per Gemini, without nids".into(),
    });
    for (r, (name, coord)) in routers.iter().enumerate() {
        for i in 0..2 {
            let name = node_name(&lossy(name), i);
            let nid = machine.as_ref().map(|m| m.nid(*coord) + i);
            let host = nid.map_or_else(|| name.clone(), |nid| format!("nid{nid:05}"));
            let (inject, eject) = ends[r];
            b.node(name, host, nid, RouterId::of(r), inject, eject);
        }
    }
    Ok(())
}

/// cname of a Gemini's node: n0 and n1 of a blade are on g0, n2 and n3 on g1.
fn node_name(gemini: &str, node: u32) -> String {
    match gemini.rsplit_once('g') {
        Some((blade, "1")) => format!("{blade}n{}", 2 + node),
        Some((blade, _)) => format!("{blade}n{node}"),
        None => format!("{gemini}n{node}"),
    }
}
