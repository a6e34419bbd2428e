//! Gemini's counters: units, tiles, and the links of a router's directions.

use super::ends::Links;
use super::reading::{Port, Reading};
use hopbyte_fabric::{Direction, Fabric, Family, LinkId, Quantity, RouterId};

/// Nanoseconds of a router cycle (800 MHz, paper 000, Table I).
pub(super) const STALL_NS: f64 = 1.25;
/// Bytes of a phit (paper 000, Table I).
pub(super) const PHIT_BYTES: f64 = 3.0;
/// Maximum rate of a direction: 16 mezzanine tiles, more than any direction has.
pub(super) const MOST_BYTES: f64 = 16.0 * 2.343_75e9;
/// Bytes of the smallest packet: 8 phits (paper 000, Table I).
pub(super) const SMALLEST_PACKET: f64 = 24.0;
/// Maximum stall time of 16 tiles per second, in nanoseconds.
pub(super) const MOST_STALL: f64 = 16e9;

/// Number of tiles at either end of a link; eight for the host link, which is in no dump.
pub(super) fn tiles(fabric: &Fabric, link: LinkId) -> f64 {
    match fabric.ports(link).len() {
        0 => f64::from(hopbyte_fabric::gemini::HOST_TILES),
        n => n as f64,
    }
}

/// Whether a tile belongs to the host link (paper 000, Fig. 3: rows 2 to 5, columns 3 and 4).
pub(super) fn is_host_tile(fabric: &Fabric, tile: u16) -> bool {
    fabric.family() == Family::Gemini && (2..6).contains(&(tile / 8)) && matches!(tile % 8, 3 | 4)
}

/// Number of tiles of a router's host link.
pub(super) const HOST_TILES: usize = 8;

/// Links of a direction; empty if the router has no link in it.
///
/// In a dimension of size two both directions lead to the same router, and the machine counts the tiles of both under
/// one of them (paper 003 prints 48 lanes for X+): that record covers two links, the other none.
pub(super) fn links(
    fabric: &Fabric,
    router: RouterId,
    direction: Direction,
    first: &Reading,
) -> Links {
    let directions = if folds(fabric, router, direction.opposite(), first) {
        vec![]
    } else if folds(fabric, router, direction, first) {
        vec![direction, direction.opposite()]
    } else {
        vec![direction]
    };
    let departures = directions
        .iter()
        .filter_map(|&d| fabric.link_towards(router, d));
    Links::leaving(fabric, departures.collect())
}

/// Whether a direction's record includes the tiles of the opposite direction.
fn folds(fabric: &Fabric, router: RouterId, direction: Direction, first: &Reading) -> bool {
    let shape = fabric.shape();
    let length = shape.and_then(|s| s.dims.get(direction.dim as usize));
    let values = |d: Direction| {
        let layout = &first.layout;
        let own = layout.counters.iter().enumerate();
        own.filter(move |(_, c)| layout.ports[c.port as usize] == Port::Direction(d))
            .filter_map(|(i, c)| Some((c.quantity, first.get(i)?)))
            .filter(|(q, _)| !q.is_ratio())
    };
    let silent = |d| values(d).all(|(_, v)| v == 0);
    if length != Some(&2) || silent(direction) || !silent(direction.opposite()) {
        return false;
    }
    let own = fabric
        .link_towards(router, direction)
        .map_or(0, |l| u64::from(fabric.link(l).lanes));
    values(direction)
        .filter(|(q, _)| *q == Quantity::Lanes)
        .all(|(_, lanes)| lanes > own)
}
