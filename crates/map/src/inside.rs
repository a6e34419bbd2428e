//! Placement of ranks on the slots of their node.
//!
//! The inside of a node is a small network: cores that share a cache, a memory or a package are near each
//! other. Traffic between nodes does not change. [`map`] maps every node's ranks onto its slots; the objective
//! is bytes between them times the hardware levels that they cross.

use crate::mapper::{Options, map};
use crate::problem::{MapError, Objective, Problem};
use hopbyte_fabric::{Allocation, Exchange, Fabric, NodeId, Placement, Routing, Slot};
use rayon::prelude::*;
use std::collections::HashMap;

/// The inside of a node; all nodes are alike.
pub struct Inside<'a> {
    /// Packages, caches and bridges as routers; cores, GPUs and other devices as nodes.
    pub fabric: &'a Fabric,
    /// The routes between them.
    pub routing: &'a Routing,
    /// The core or device of each slot.
    pub slots: &'a [NodeId],
}

/// Bytes from the rank in one slot to the rank in another, added up over all nodes: row by sender, `slots`
/// columns.
pub fn between_slots(exchange: &Exchange, placement: &Placement, slots: usize) -> Vec<f64> {
    let mut bytes = vec![0.0; slots * slots];
    for (from, message) in exchange.iter() {
        let (a, b) = (placement.slot(from), placement.slot(message.to));
        let at = a.slot as usize * slots + b.slot as usize;
        if a.node == b.node && a.slot != b.slot && at < bytes.len() {
            bytes[at] += message.bytes;
        }
    }
    bytes
}

/// Bytes between the ranks of a node by local index: sender, receiver, bits of the number.
type Local = Vec<(u32, u32, u64)>;

/// Reassigns the slots on every node, so that heavily communicating ranks are near each other. Nodes do not
/// change, and the order of ranks stays if nothing better is found.
///
/// # Errors
/// As [`map`]; a node with more slots than [`Inside::slots`] has.
pub fn arrange(
    inside: &Inside<'_>,
    exchange: &Exchange,
    fabric: &Fabric,
    allocation: &Allocation,
    placement: &Placement,
    seed: u64,
) -> Result<Placement, MapError> {
    let mut on: Vec<Vec<u32>> = vec![Vec::new(); allocation.nodes().len()];
    let mut index = vec![0u32; placement.tasks()];
    let place = |task: u32| {
        allocation
            .position(placement.node(task))
            .unwrap_or_default()
    };
    for task in 0..placement.tasks() as u32 {
        let here = &mut on[place(task)];
        index[task as usize] = here.len() as u32;
        here.push(task);
    }
    let mut sent: Vec<Local> = vec![Local::new(); on.len()];
    for (from, message) in exchange.iter() {
        if placement.node(from) == placement.node(message.to) {
            let ends = (index[from as usize], index[message.to as usize]);
            sent[place(from)].push((ends.0, ends.1, message.bytes.to_bits()));
        }
    }
    // Nodes with identical local traffic, frequent in regular grids, are mapped once.
    let mut kinds: HashMap<(&Local, usize), Vec<usize>> = HashMap::new();
    for (place, local) in sent.iter().enumerate().filter(|(_, l)| !l.is_empty()) {
        kinds
            .entry((local, on[place].len()))
            .or_default()
            .push(place);
    }
    let kinds: Vec<((&Local, usize), Vec<usize>)> = kinds.into_iter().collect();
    let found: Vec<Vec<u32>> = kinds
        .par_iter()
        .map(|((local, ranks), _)| on_one(inside, local, *ranks, seed))
        .collect::<Result<_, _>>()?;
    let mut slots: Vec<Slot> = placement.slots().to_vec();
    for ((_, places), order) in kinds.iter().zip(&found) {
        for &place in places {
            for (&task, &slot) in on[place].iter().zip(order) {
                slots[task as usize].slot = slot;
            }
        }
    }
    Ok(Placement::new(fabric, allocation, slots)?)
}

/// Slots for the ranks of a full node.
fn on_one(
    inside: &Inside<'_>,
    local: &Local,
    ranks: usize,
    seed: u64,
) -> Result<Vec<u32>, MapError> {
    let entries = local
        .iter()
        .map(|&(from, to, bits)| (from, to, f64::from_bits(bits), 1));
    let exchange = Exchange::new(ranks, entries)?;
    let rooms = inside.slots.iter().take(ranks).map(|&node| (node, 1));
    let allocation = Allocation::new(inside.fabric, rooms.collect())?;
    let problem = Problem {
        objective: Objective::HopBytes,
        ..Problem::new(inside.fabric, inside.routing, &exchange, &allocation)
    };
    let options = Options {
        trials: Some((64 * ranks as u64 * ranks as u64).clamp(2_000, 200_000)),
        threads: 1,
        seed,
        ..Options::default()
    };
    let (placement, _) = map(&problem, &options, &|_| {})?;
    let slot = |s: &Slot| allocation.position(s.node).unwrap_or_default() as u32;
    Ok(placement.slots().iter().map(slot).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopbyte_fabric::{declared, spec};

    /// Ranks in order on two nodes with `slots` slots each and `node` inside: before and after [`arrange`].
    fn on_two(node: &str, slots: u32, exchange: &Exchange) -> [Placement; 2] {
        let fabric = spec::fabric("torus:2").unwrap();
        let rooms = fabric.node_ids().map(|n| (n, slots)).collect();
        let allocation = Allocation::new(&fabric, rooms).unwrap();
        let placement = Placement::in_order(&allocation, exchange.tasks()).unwrap();
        let node = spec::fabric(node).unwrap();
        let inside = Inside {
            fabric: &node,
            routing: &Routing::default_for(&node),
            slots: &node.node_ids().collect::<Vec<_>>(),
        };
        let arranged = arrange(&inside, exchange, &fabric, &allocation, &placement, 1).unwrap();
        [placement, arranged]
    }

    /// Four ranks on each of two nodes, whose slots form a ring of four: communicating pairs end up adjacent.
    #[test]
    fn ranks_that_talk_are_near() {
        let heavy = [(0, 2), (1, 3), (4, 6), (5, 7)];
        let entries = heavy
            .iter()
            .flat_map(|&(a, b)| [(a, b, 1e6, 1), (b, a, 1e6, 1), (a, (b + 4) % 8, 1e9, 1)]);
        let exchange = Exchange::new(8, entries).unwrap();
        let [placement, arranged] = on_two("torus:4", 4, &exchange);
        let opposite = |p: &Placement| {
            let bytes = between_slots(&exchange, p, 4);
            (0..16)
                .filter(|i| (i / 4) ^ (i % 4) == 2)
                .map(|i| bytes[i])
                .sum::<f64>()
        };
        assert_eq!((opposite(&placement), opposite(&arranged)), (8e6, 0.0));
        for task in 0..8 {
            assert_eq!(arranged.node(task), placement.node(task));
        }
    }

    /// The result is never worse than the order of ranks, and a full node stays full.
    #[test]
    fn order_is_kept_where_it_is_best() {
        let exchange = declared::traffic("stencil:16:3").unwrap().total();
        let [placement, arranged] = on_two("mesh:8", 8, &exchange);
        assert_eq!(arranged, placement);
    }
}
