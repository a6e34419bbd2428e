//! Input shared by the tests of searches.

#![allow(clippy::unwrap_used)]

use hopbyte_fabric::{Allocation, Fabric, NodeId};
use hopbyte_map::Options;

/// Nodes by number, with their slots.
pub fn allocation(fabric: &Fabric, nodes: &[(u32, u32)]) -> Allocation {
    let list = nodes.iter().map(|&(n, c)| (NodeId(n), c)).collect();
    Allocation::new(fabric, list).unwrap()
}

/// A search of a number of trials on two threads.
pub fn quick(seed: u64, trials: u64) -> Options {
    Options {
        trials: Some(trials),
        seed,
        threads: 2,
        ..Options::default()
    }
}
