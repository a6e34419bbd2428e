//! Traffic, nodes and placements that a command line names.

use anyhow::Result;
use hopbyte_fabric::{Allocation, Fabric, NodeId, Traffic, spec};

/// Reads a traffic file or spec.
pub fn traffic(text: &str) -> Result<Traffic> {
    Ok(spec::traffic(text)?)
}

/// Reads a list of nodes. Nodes without a number of slots in the list hold `ranks_per_node`, or the fewest
/// that hold all tasks.
pub fn nodes(
    list: &str,
    ranks_per_node: Option<u32>,
    tasks: usize,
    fabric: &Fabric,
) -> Result<Allocation> {
    let nodes: Vec<NodeId> = if list == "all" {
        fabric.node_ids().collect()
    } else {
        list.split(',')
            .map(|n| fabric.find_node(n))
            .collect::<Result<_, _>>()?
    };
    let slots = ranks_per_node.unwrap_or(tasks.div_ceil(nodes.len().max(1)) as u32);
    Ok(Allocation::new(
        fabric,
        nodes.into_iter().map(|n| (n, slots)).collect(),
    )?)
}
