//! Traffic that depends on the placement: collectives that go inside hosts and between them.

use crate::error::Result;
use crate::wire::WireOptions;
use hopbyte_fabric::{Fabric, NodeId, Placement, Traffic};
use hopbyte_observe::{ByHost, read_traffic_by_host};
use std::collections::HashMap;
use std::sync::Arc;

/// How the traffic follows from a placement.
#[derive(Clone)]
pub struct Following {
    /// The record.
    pub record: Arc<ByHost>,
    /// Protocol bytes beside the payload.
    pub wire: WireOptions,
    /// Whether phases overlap.
    pub overlap: bool,
}

impl Following {
    /// The traffic of ranks under a placement.
    ///
    /// # Errors
    /// More messages than an expansion may have.
    pub fn traffic(&self, fabric: &Fabric, placement: &Placement) -> Result<Traffic> {
        let mut traffic = self.record.traffic(hosts_of(fabric, placement))?;
        traffic.in_turn &= !self.overlap;
        Ok(traffic)
    }
}

/// Hosts by rank, by numbers in the order of their first ranks.
pub(crate) fn hosts(fabric: &Fabric, nodes: impl IntoIterator<Item = NodeId>) -> Vec<u32> {
    let mut numbers: HashMap<&str, u32> = HashMap::new();
    (nodes.into_iter())
        .map(|node| {
            let next = numbers.len() as u32;
            *numbers.entry(&fabric.node(node).host).or_insert(next)
        })
        .collect()
}

/// Hosts by rank under a placement.
pub(crate) fn hosts_of(fabric: &Fabric, placement: &Placement) -> Vec<u32> {
    hosts(fabric, placement.slots().iter().map(|s| s.node))
}

/// The traffic of a source for the ranks of a placement.
///
/// # Errors
/// The source cannot be read.
pub(crate) fn traffic_on(source: &str, fabric: &Fabric, placement: &Placement) -> Result<Traffic> {
    let (traffic, by_host) = read_traffic_by_host(source)?;
    Ok(match by_host {
        Some(record) => record.traffic(hosts_of(fabric, placement))?,
        None => traffic,
    })
}
