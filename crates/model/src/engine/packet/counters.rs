//! Counters of the simulated machine's tiles.

use super::layout::NODE;
use super::nic::Packets;
use hopbyte_fabric::wire::OneWay;
use hopbyte_fabric::{Fabric, LinkId, NodeId, RouterId};

/// The six fixed counters of a tile, in the order of paper 000, Table I.
#[derive(Clone, Debug, PartialEq)]
pub struct TileCounters {
    /// Router.
    pub router: RouterId,
    /// Tile or port number; on a Gemini row and column are its two octal digits.
    pub tile: u16,
    /// Request phits, response phits, request packets, response packets, cycles of input stall, cycles
    /// of output stall.
    pub values: [u64; 6],
}

impl TileCounters {
    /// Name of a counter as the Gemini performance counter daemon calls it.
    pub fn gpcd_name(&self, counter: usize) -> String {
        format!(
            "GM_{}_{}_TILE_PERFORMANCE_COUNTERS_{counter}",
            self.tile / 8,
            self.tile % 8
        )
    }
}

/// Counters of one link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkCount {
    /// Packets and phits that arrived.
    pub load: OneWay,
    /// Share of the time that arrivals waited, mean over tiles.
    pub input_stall_ratio: f64,
    /// Share of the time that departures lacked credits, mean over tiles.
    pub credit_stall_ratio: f64,
}

impl Packets<'_> {
    /// Counters by link id. Arrivals at nodes have no tile counters; their links stay empty.
    pub fn link_counts(&self, fabric: &Fabric) -> Vec<LinkCount> {
        let engine = self.engine();
        let mut counts = vec![LinkCount::default(); fabric.links().len()];
        let mut wires = vec![0u32; fabric.links().len()];
        let cycles = engine.elapsed().max(1.0);
        // Phits of virtual channels are Gemini's; other networks count bytes.
        let has_channels = engine.spec.networks > 1;
        for (i, input) in engine.layout.ins.iter().enumerate() {
            let count = engine.count(i);
            let link = input.link as usize;
            wires[link] += 1;
            let phits = count.phits.map(|p| p as f64);
            let packets = OneWay {
                vc0_packets: count.packets[0] as f64,
                vc1_packets: count.packets[1] as f64,
                ..OneWay::default()
            };
            counts[link].load += if has_channels {
                OneWay {
                    vc0_phits: phits[0],
                    vc1_phits: phits[1],
                    ..packets
                }
            } else {
                OneWay {
                    plain_bytes: (phits[0] + phits[1]) * engine.spec.phit_bytes,
                    ..packets
                }
            };
            counts[link].input_stall_ratio += engine.input_stall(i) as f64 / cycles;
        }
        for (i, out) in engine.layout.outs.iter().enumerate() {
            let ratio = engine.credit_stall(i) as f64 / cycles;
            counts[out.link as usize].credit_stall_ratio += ratio;
        }
        for (count, &wires) in counts.iter_mut().zip(&wires) {
            count.input_stall_ratio /= f64::from(wires.max(1));
            count.credit_stall_ratio /= f64::from(wires.max(1));
        }
        counts
    }

    /// The counters of every tile with a wire to another router, and of the tiles that nodes send into
    /// (their numbers follow the highest network tile).
    pub fn tile_counters(&self, fabric: &Fabric) -> Vec<TileCounters> {
        let engine = self.engine();
        let mut tiles: std::collections::BTreeMap<(u32, u16), [u64; 6]> =
            std::collections::BTreeMap::new();
        for (i, input) in engine.layout.ins.iter().enumerate() {
            let link = LinkId(input.link);
            let number = match fabric.ports(link).get(usize::from(input.tile)) {
                Some(pair) => pair.to,
                None => host_tile(
                    fabric,
                    engine.layout.outs[input.from as usize].router,
                    input.tile,
                ),
            };
            let count = engine.count(i);
            let values = tiles.entry((input.router, number)).or_default();
            values[0] += count.phits[0];
            values[1] += count.phits[1];
            values[2] += count.packets[0];
            values[3] += count.packets[1];
            values[4] += engine.input_stall(i);
        }
        for (i, out) in engine.layout.outs.iter().enumerate() {
            let Some(pair) = fabric.ports(LinkId(out.link)).get(usize::from(out.tile)) else {
                continue;
            };
            tiles.entry((out.router, pair.from)).or_default()[5] += engine.credit_stall(i);
        }
        tiles
            .into_iter()
            .map(|((router, tile), values)| TileCounters {
                router: RouterId(router),
                tile,
                values,
            })
            .collect()
    }
}

/// Host tiles are numbered by node, one after another: the model has no fixed order for Gemini's middle columns.
fn host_tile(fabric: &Fabric, from: u32, wire: u16) -> u16 {
    /// Host tiles of a Gemini (paper 000, Fig. 3), in octal.
    const HOST: [u16; 8] = [0o23, 0o24, 0o33, 0o34, 0o43, 0o44, 0o53, 0o54];
    let node = NodeId(from & !NODE);
    let on = fabric.nodes_on(fabric.node(node).router);
    let index = on.iter().position(|&n| n == node).unwrap_or(0) * 4 + usize::from(wire);
    HOST.get(index).copied().unwrap_or(1000 + index as u16)
}
