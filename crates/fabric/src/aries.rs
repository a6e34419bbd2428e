//! Cray Aries: names, numbers and capacities.
//!
//! A group is two cabinets: 6 chassis of 16 slots, with one Aries and four nodes per slot. Tiles are green inside a
//! chassis, black between chassis, blue between groups. The naming rules agree with the dumps of Edison, Theta and
//! Mutrino.

use crate::dragonfly::{Arrangement, Dragonfly, LinkClass};
use crate::error::FabricError;
use crate::fabric::{Fabric, Family};
use crate::units::{BytesPerSecond, Seconds};

/// Lanes of a tile.
pub const LANES_PER_TILE: u16 = 3;
/// Capacity of a green or black tile, one direction: three lanes at 14 Gbit/s.
pub const LOCAL_TILE: BytesPerSecond = BytesPerSecond(5.25e9);
/// Capacity of a blue (optical) tile, one direction: three lanes at 12.5 Gbit/s.
pub const GLOBAL_TILE: BytesPerSecond = BytesPerSecond(4.6875e9);
/// Capacity of a node's link, one direction: the maximum rate of PCI Express 3 ×16.
pub const HOST: BytesPerSecond = BytesPerSecond(16e9);
/// Latency of one hop, about 100 ns.
pub const HOP_LATENCY: Seconds = Seconds(100e-9);

/// Cabinets of an Aries machine: names follow from the number of cabinet columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor {
    /// Cabinets in a row.
    pub columns: u32,
}

impl Floor {
    fn groups_in_row(self) -> u32 {
        self.columns.div_ceil(2).max(1)
    }

    /// Name of the Aries at (group, chassis, slot), such as `c1-0c2s5a0`.
    pub fn cname(self, [group, chassis, slot]: [u32; 3]) -> String {
        let per_row = self.groups_in_row();
        let column = 2 * (group % per_row) + chassis / 3;
        format!("c{column}-{}c{}s{slot}a0", group / per_row, chassis % 3)
    }

    /// (group, chassis, slot) of an Aries name or a node name (`c1-0c2s5n3`); `None` for other text.
    pub fn coordinate(self, cname: &str) -> Option<[u32; 3]> {
        let (cabinet, rest) = cname.strip_prefix('c')?.split_once('c')?;
        let (column, row) = cabinet.split_once('-')?;
        let (cage, rest) = rest.split_once('s')?;
        let slot = rest.split(['a', 'n']).next()?;
        let (column, row): (u32, u32) = (column.parse().ok()?, row.parse().ok()?);
        let (cage, slot): (u32, u32) = (cage.parse().ok()?, slot.parse().ok()?);
        let inside = cage < 3 && slot < 16 && column < self.columns && row < 1 << 20;
        inside.then(|| {
            [
                row * self.groups_in_row() + column / 2,
                3 * (column % 2) + cage,
                slot,
            ]
        })
    }
}

/// nid of a node: 384 per group, 64 per chassis, 4 per slot.
pub fn nid([group, chassis, slot]: [u32; 3], node: u32) -> u32 {
    384 * group + 64 * chassis + 4 * slot + node
}

/// (group, chassis, slot) and node of a nid.
pub fn of_nid(nid: u32) -> ([u32; 3], u32) {
    ([nid / 384, nid % 384 / 64, nid % 64 / 4], nid % 4)
}

/// Parameters of an Aries machine: groups, chassis per group, slots per chassis, and blue tiles between any two
/// groups (an even number: a cable carries two to the same router).
pub fn machine(groups: Vec<u32>, chassis: u32, slots: u32, blue_tiles: u32) -> Dragonfly {
    let class = |name, tiles, tile_capacity| LinkClass {
        name,
        tiles,
        lanes_per_tile: LANES_PER_TILE,
        tile_capacity,
    };
    Dragonfly {
        family: Family::Aries,
        groups,
        local: vec![
            (chassis, class("black", 3, LOCAL_TILE)),
            (slots, class("green", 1, LOCAL_TILE)),
        ],
        global_links: blue_tiles / 2,
        global: class("blue", 2, GLOBAL_TILE),
        arrangement: Arrangement::SameChassis,
        nodes_per_router: 4,
        host: HOST,
        hop_latency: HOP_LATENCY,
    }
}

/// Builds an Aries machine with Cray's names for rows of `columns` cabinets.
pub fn build(machine: &Dragonfly, floor: Floor, source: &str) -> Result<Fabric, FabricError> {
    machine.build(source, |coord, node| {
        let &[group, chassis, slot] = coord else {
            return (String::new(), None);
        };
        let at = [group, chassis, slot];
        let name = floor.cname(at);
        match node {
            None => (name, None),
            Some(n) => (
                format!("{}n{n}", name.trim_end_matches("a0")),
                Some(nid(at, n)),
            ),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_go_both_ways() {
        let floor = Floor { columns: 8 };
        for group in [0, 3, 11, 15] {
            for chassis in 0..6 {
                for slot in [0, 7, 15] {
                    let at = [group, chassis, slot];
                    assert_eq!(floor.coordinate(&floor.cname(at)), Some(at));
                    assert_eq!(of_nid(nid(at, 3)), (at, 3));
                }
            }
        }
        // From the interconnect file of Edison: c2-0c0s0a0 is group 1, c2-2c0s0a0 group 9.
        assert_eq!(floor.coordinate("c2-0c0s0a0"), Some([1, 0, 0]));
        assert_eq!(floor.coordinate("c2-2c0s0a0"), Some([9, 0, 0]));
        for bad in [
            "",
            "c",
            "c0-0",
            "c9-0c0s0a0",
            "c0-0c3s0a0",
            "c0-0c0s16a0",
            "c0-0c0sxa0",
        ] {
            assert_eq!(floor.coordinate(bad), None, "{bad}");
        }
    }

    #[test]
    fn an_edison_sized_machine_has_its_links() {
        let m = machine((0..15).collect(), 6, 16, 24);
        let f = build(&m, Floor { columns: 8 }, "aries:15x6x16:blue=24").unwrap();
        assert_eq!((f.routers().len(), f.nodes().len()), (1440, 5760));
        // 15 green, 3 × 5 black and 14 × 24 / 96 blue tiles per router.
        assert_eq!(f.port_count(), 1440 * (15 + 15) + 15 * 14 * 24);
        assert_eq!(f.components(), 1);
    }
}
