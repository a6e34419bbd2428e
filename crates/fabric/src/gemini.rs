//! Cray Gemini: capacities, tiles, names and numbers, and the builder of a whole machine.
//!
//! Sources: paper 000 Tables I and II and Figs. 2 and 3, paper 002 II; the naming rules agree with the published
//! system maps of Cielo (16×12×24) and Hopper (17×8×24) for every node.

use crate::bounds::{Size, product};
use crate::builder::{FabricBuilder, LinkSpec};
use crate::direction::Direction;
use crate::error::FabricError;
use crate::fabric::{End, Fabric, Family, Shape};
use crate::ids::RouterId;
use crate::units::{BytesPerSecond, Seconds};

/// The medium of a tile's link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// Inside a module, between its two Geminis.
    Mezzanine,
    /// Inside a cage.
    Backplane,
    /// Between cages or cabinets.
    Cable,
}

impl Carrier {
    /// Parses `LinkType:` values; cables have a length and a dimension after the word (`cable11x`).
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "mezzanine" => Some(Self::Mezzanine),
            "backplane" => Some(Self::Backplane),
            _ => word.starts_with("cable").then_some(Self::Cable),
        }
    }

    /// The value in dumps.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mezzanine => "mezzanine",
            Self::Backplane => "backplane",
            Self::Cable => "cable",
        }
    }

    /// Capacity of one tile, one direction: three lanes at 6.25, 5.0 and 3.125 Gbit/s (paper 000
    /// Table II prints them rounded to 2.34, 1.88 and 1.17 GB/s).
    pub fn tile_capacity(self) -> BytesPerSecond {
        BytesPerSecond(match self {
            Self::Mezzanine => 2.343_75e9,
            Self::Backplane => 1.875e9,
            Self::Cable => 1.171_875e9,
        })
    }
}

/// Capacity of one host tile (paper 000 Table II: 1.33 estimated; its Fig. 4 prints 10.40 for eight).
pub const HOST_TILE: BytesPerSecond = BytesPerSecond(1.3e9);
/// Tiles of the host link.
pub const HOST_TILES: u16 = 8;
/// Lanes of a tile (paper 002, II.C: lane masks have three bits).
pub const LANES_PER_TILE: u16 = 3;
/// Latency of one hop, router and wire: at best 105 ns in the vendor's Gemini white paper.
pub const HOP_LATENCY: Seconds = Seconds(105e-9);

/// Tile groups as on the first Gemini of Cielo (paper 000 Fig. 3). Lists of facing groups are in joint order: `A[i]`
/// is wired to `B[i]`, `C[i]` to `D[i]`, `F[i]` to `E[i]`.
const A: [u16; 8] = [0o41, 0o31, 0o40, 0o30, 0o02, 0o12, 0o03, 0o13];
const B: [u16; 8] = [0o04, 0o05, 0o14, 0o15, 0o36, 0o37, 0o46, 0o47];
const C: [u16; 8] = [0o00, 0o01, 0o10, 0o11, 0o25, 0o26, 0o27, 0o35];
const D: [u16; 8] = [0o32, 0o21, 0o22, 0o20, 0o17, 0o06, 0o16, 0o07];
const E: [u16; 4] = [0o42, 0o50, 0o51, 0o52];
const F: [u16; 4] = [0o45, 0o55, 0o56, 0o57];

/// Names, numbers and wiring of a Gemini machine of a given size, installed as Cray's folded torus.
#[derive(Clone, Debug)]
pub struct Machine {
    dims: [u32; 3],
    /// Cabinet column by x.
    columns: Vec<u32>,
    /// Cabinet row by y / 2.
    rows: Vec<u32>,
    /// A one-cabinet machine, with X across the cages.
    one_cabinet: bool,
}

impl Machine {
    /// `None` unless Y is even and Z is 8, 16 or 24 (two Geminis per module, eight slots per cage, three cages per
    /// cabinet).
    pub fn new(dims: [u32; 3]) -> Option<Self> {
        let [x, y, z] = dims;
        if x == 0 || y == 0 || y % 2 != 0 || !matches!(z, 8 | 16 | 24) {
            return None;
        }
        Some(Self {
            dims,
            columns: folded(x, |c| c % 2 == 1),
            rows: folded(y / 2, |r| r % 2 == 0),
            one_cabinet: y == 2 && z == 8 && x <= 3,
        })
    }

    /// Name of the Gemini at a coordinate.
    pub fn cname(&self, [x, y, z]: [u32; 3]) -> String {
        let (mut cage, mut slot) = (z / 8, z % 8);
        let column = self.columns[x as usize];
        if self.one_cabinet {
            return format!("c0-0c{column}s{slot}g{}", y % 2);
        }
        let ring = y / 2;
        if cage % 2 == 1 {
            slot = 7 - slot;
        }
        if ring % 2 == 1 {
            cage = self.dims[2] / 8 - 1 - cage;
        }
        format!(
            "c{column}-{}c{cage}s{slot}g{}",
            self.rows[ring as usize],
            y % 2
        )
    }

    /// nid of the first of a Gemini's two nodes: the serpentine order of ALPS.
    pub fn nid(&self, [x, y, z]: [u32; 3]) -> u32 {
        let [nx, ny, nz] = self.dims;
        let plane = (nx - x) % nx;
        let line = plane * ny + if plane % 2 == 0 { y } else { ny - 1 - y };
        2 * (line * nz + if line % 2 == 0 { z } else { nz - 1 - z })
    }

    /// Coordinate of a Gemini name or of a node name (`c1-0c2s5g1`, `c1-0c2s5n3`); `None` for other text and places
    /// outside the machine.
    pub fn coordinate(&self, cname: &str) -> Option<[u32; 3]> {
        let (cabinet, rest) = cname.strip_prefix('c')?.split_once('c')?;
        let (column, row) = cabinet.split_once('-')?;
        let (cage, rest) = rest.split_once('s')?;
        let (slot, gemini) = match rest.split_once('g') {
            Some((slot, gemini)) => (slot, gemini.parse().ok().filter(|g| *g < 2)?),
            None => {
                let (slot, node) = rest.split_once('n')?;
                (slot, node.parse::<u32>().ok().filter(|n| *n < 4)? / 2)
            }
        };
        let (column, row): (u32, u32) = (column.parse().ok()?, row.parse().ok()?);
        let (mut cage, mut slot): (u32, u32) = (cage.parse().ok()?, slot.parse().ok()?);
        if slot > 7 {
            return None;
        }
        if self.one_cabinet {
            let x = self.columns.iter().position(|&c| c == cage)? as u32;
            return (column == 0 && row == 0).then_some([x, gemini, slot]);
        }
        let cages = self.dims[2] / 8;
        let x = self.columns.iter().position(|&c| c == column)? as u32;
        let ring = self.rows.iter().position(|&r| r == row)? as u32;
        if cage >= cages {
            return None;
        }
        if ring % 2 == 1 {
            cage = cages - 1 - cage;
        }
        if cage % 2 == 1 {
            slot = 7 - slot;
        }
        Some([x, 2 * ring + gemini, 8 * cage + slot])
    }

    /// Coordinate of the Gemini of a nid.
    pub fn of_nid(&self, nid: u32) -> Option<[u32; 3]> {
        let [nx, ny, nz] = self.dims;
        let (step, line) = (nid / 2, nid / 2 / nz);
        let plane = line / ny;
        if plane >= nx {
            return None;
        }
        let z = if line % 2 == 0 {
            step % nz
        } else {
            nz - 1 - step % nz
        };
        let y = if plane % 2 == 0 {
            line % ny
        } else {
            ny - 1 - line % ny
        };
        Some([(nx - plane) % nx, y, z])
    }

    /// Tiles from `at` in `direction`, in joint order. Which of the two groups of a dimension is the positive one
    /// alternates along the folded cabling.
    fn tiles(&self, direction: Direction, at: u32) -> &'static [u16] {
        let first_up = match direction.dim {
            0 => self.first_x_group_is_up(at),
            1 => return if direction.positive { &F } else { &E },
            _ => (at / 8).is_multiple_of(2),
        };
        match (direction.dim, first_up == direction.positive) {
            (0, true) => &A,
            (0, false) => &B,
            (_, true) => &C,
            (_, false) => &D,
        }
    }

    /// Group A faces lower cabinet columns, B higher ones; at both ends of the fold they are swapped.
    fn first_x_group_is_up(&self, at: u32) -> bool {
        let n = self.dims[0];
        let column = |x: u32| self.columns[(x % n) as usize];
        let (here, up, down) = (column(at), column(at + 1), column(at + n - 1));
        match n {
            2 => at == 0,
            _ if here == 0 => true,
            _ if here == n - 1 => up != n - 2,
            _ => up < down,
        }
    }
}

/// The medium of the joint between `lower` and `lower + 1` along a dimension (paper 000, III).
fn carrier(dim: usize, lower: u32) -> Carrier {
    match dim {
        1 if lower.is_multiple_of(2) => Carrier::Mezzanine,
        2 if !(lower + 1).is_multiple_of(8) => Carrier::Backplane,
        _ => Carrier::Cable,
    }
}

/// Ring order of a folded line of `n` cabinets: 0, then those of one parity in increasing order, then the others in
/// decreasing order.
fn folded(n: u32, upwards: impl Fn(u32) -> bool) -> Vec<u32> {
    let up = (1..n).filter(|&c| upwards(c));
    let down = (1..n).rev().filter(|&c| !upwards(c));
    std::iter::once(0).chain(up).chain(down).collect()
}

/// The size of the fabric that [`build`] creates.
pub(crate) fn size(dims: [u32; 3]) -> Size {
    let routers = product(dims.map(u64::from));
    Size {
        routers,
        nodes: routers.saturating_mul(2),
        links: routers.saturating_mul(6 + 2),
        ports: 48,
    }
}

/// Builds a whole Gemini machine without faults: `X·Y·Z` routers, two nodes each, 40 network tiles. Sizes that do not
/// fit Cray's cabinets use coordinates as names.
pub fn build(dims: [u32; 3], source: &str) -> Result<Fabric, FabricError> {
    size(dims).check(source)?;
    let machine = Machine::new(dims);
    let mut b = FabricBuilder::new(Family::Gemini, source);
    b.shape(Shape {
        dims: dims.to_vec(),
        wrap: vec![true; 3],
    });
    let coords = || {
        (0..dims[0])
            .flat_map(move |x| (0..dims[1]).flat_map(move |y| (0..dims[2]).map(move |z| [x, y, z])))
    };
    for at in coords() {
        let name = machine.as_ref().map_or_else(
            || format!("g{}-{}-{}", at[0], at[1], at[2]),
            |m| m.cname(at),
        );
        b.router(name, &at);
    }
    for (r, at) in coords().enumerate() {
        for index in 0..6 {
            add_link(&mut b, machine.as_ref(), dims, r, at, Direction::of(index));
        }
    }
    let host = b.kind("host", true);
    let capacity = BytesPerSecond(HOST_TILE.0 * f64::from(HOST_TILES));
    for (r, at) in coords().enumerate() {
        let router = RouterId::of(r);
        let (inject, eject) = b.host_link(router, host, capacity, Seconds(0.0));
        for n in 0..2 {
            let (name, nid) = match &machine {
                Some(m) => {
                    let gemini = m.cname(at);
                    let blade = gemini
                        .rsplit_once('g')
                        .map_or(gemini.as_str(), |(blade, _)| blade);
                    (format!("{blade}n{}", 2 * (at[1] % 2) + n), m.nid(at) + n)
                }
                None => (
                    format!("n{}-{}-{}-{n}", at[0], at[1], at[2]),
                    2 * r as u32 + n,
                ),
            };
            b.node(
                name,
                format!("nid{nid:05}"),
                Some(nid),
                router,
                inject,
                eject,
            );
        }
    }
    b.finish()
}

fn add_link(
    b: &mut FabricBuilder,
    machine: Option<&Machine>,
    dims: [u32; 3],
    router: usize,
    at: [u32; 3],
    direction: Direction,
) {
    let dim = direction.dim as usize;
    let n = dims[dim];
    if n == 1 {
        return;
    }
    let mut far = at;
    far[dim] = (at[dim] + if direction.positive { 1 } else { n - 1 }) % n;
    let lower = if direction.positive {
        at[dim]
    } else {
        far[dim]
    };
    let carrier = carrier(dim, lower);
    let tiles: u16 = if dim == 1 { 4 } else { 8 };
    let kind = b.kind(
        &format!("{} {}", Direction::letter(dim), carrier.name()),
        false,
    );
    let to = far.iter().zip(dims).fold(0, |r, (&c, d)| r * d + c);
    let link = b.link(LinkSpec {
        direction: Some(direction),
        lanes: tiles * LANES_PER_TILE,
        lanes_in_service: tiles * LANES_PER_TILE,
        ..LinkSpec::new(
            End::Router(RouterId::of(router)),
            End::Router(RouterId(to)),
            kind,
            BytesPerSecond(carrier.tile_capacity().0 * f64::from(tiles)),
            HOP_LATENCY,
        )
    });
    match machine {
        Some(m) => {
            let near = m.tiles(direction, at[dim]);
            let there = m.tiles(direction.opposite(), far[dim]);
            for (&from, &to) in near.iter().zip(there) {
                b.port(link, from, to);
            }
        }
        None => (0..tiles).for_each(|t| {
            let base = |d: Direction| 8 * d.index() as u16;
            b.port(link, base(direction) + t, base(direction.opposite()) + t);
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cielo_has_the_published_counts_and_capacities() {
        let f = build([16, 12, 24], "gemini:16x12x24").unwrap();
        assert_eq!(
            (f.routers().len(), f.nodes().len(), f.port_count()),
            (4608, 9216, 184_320)
        );
        for id in f.link_ids().filter(|&l| f.is_hop(l)) {
            let link = f.link(id);
            let End::Router(r) = link.from else {
                panic!("{id}")
            };
            let direction = link.direction.unwrap();
            let at = f.coord(r).unwrap()[direction.dim as usize];
            let n = f.shape().unwrap().dims[direction.dim as usize];
            let lower = if direction.positive {
                at
            } else {
                (at + n - 1) % n
            };
            let gb = match direction.dim {
                1 if lower % 2 == 1 => 4.6875,
                2 if lower % 8 != 7 => 15.0,
                _ => 9.375,
            };
            assert_eq!(link.nominal.gb(), gb, "{}", f.link_name(id));
            let back = f.reverse(id).unwrap();
            assert_eq!(f.reverse(back), Some(id));
            assert_eq!(f.link(back).direction, Some(direction.opposite()));
        }
        assert_eq!(
            f.router(f.router_at(&[15, 0, 0]).unwrap()).name,
            "c2-0c0s0g0"
        );
        assert_eq!(f.node(f.find_node("nid00000").unwrap()).name, "c0-0c0s0n0");
    }

    #[test]
    fn names_and_numbers_go_both_ways() {
        for dims in [
            [16, 12, 24],
            [17, 8, 24],
            [2, 2, 8],
            [25, 16, 24],
            [1, 8, 8],
            [3, 2, 8],
            [4, 4, 16],
        ] {
            let m = Machine::new(dims).unwrap();
            for x in 0..dims[0] {
                for y in 0..dims[1] {
                    for z in 0..dims[2] {
                        let at = [x, y, z];
                        assert_eq!(m.coordinate(&m.cname(at)), Some(at), "{dims:?}");
                        assert_eq!(
                            (m.of_nid(m.nid(at)), m.of_nid(m.nid(at) + 1)),
                            (Some(at), Some(at))
                        );
                    }
                }
            }
            assert_eq!(m.of_nid(2 * dims[0] * dims[1] * dims[2]), None);
            for bad in [
                "",
                "c",
                "c0-0",
                "c99-0c0s0g0",
                "c0-0c0s8g0",
                "c0-0c0s0g2",
                "c0-0c0s0n4",
                "c0-0cxs0g0",
            ] {
                assert_eq!(m.coordinate(bad), None, "{bad}");
            }
        }
    }

    #[test]
    fn the_first_tiles_are_those_of_the_paper() {
        // Paper 000 Fig. 2: Z+ l00-l32, l01-l21; X+ l02-l02, l03-l03; X- l04-l41, l05-l31; Z- l06-l26, l07-l35.
        let f = build([16, 12, 24], "gemini:16x12x24").unwrap();
        let r = f.find_router("c0-0c0s0g0").unwrap();
        for (direction, from, to) in [
            ("Z+", 0o00, 0o32),
            ("Z+", 0o01, 0o21),
            ("X+", 0o02, 0o02),
            ("X+", 0o03, 0o03),
            ("X-", 0o04, 0o41),
            ("X-", 0o05, 0o31),
            ("Z-", 0o06, 0o26),
            ("Z-", 0o07, 0o35),
        ] {
            let link = f
                .link_towards(r, Direction::parse(direction).unwrap())
                .unwrap();
            let pair = f.ports(link).iter().find(|p| p.from == from).unwrap();
            assert_eq!(pair.to, to, "{direction} {from:o}");
        }
    }
}
