//! Ranks of every node, before and after.

use super::{Job, words};
use hopbyte_fabric::{Fabric, NodeId, Placement};
use std::collections::BTreeMap;

/// Maximum number of rows of the table.
const ROWS: usize = 400;
/// Limit of ranks of a node that are listed one by one.
const SINGLE: usize = 64;
/// Limit of all ranks that are listed one by one.
const ALL_SINGLE: usize = 8192;

/// Ranks by node.
pub fn by_node(placement: &Placement) -> BTreeMap<NodeId, Vec<u32>> {
    let mut nodes: BTreeMap<NodeId, Vec<u32>> = BTreeMap::new();
    for rank in 0..placement.tasks() as u32 {
        nodes.entry(placement.node(rank)).or_default().push(rank);
    }
    nodes
}

/// Nodes of both placements.
pub fn nodes(job: &Job<'_>) -> Vec<NodeId> {
    let mut nodes: Vec<NodeId> = by_node(job.before.placement).into_keys().collect();
    if let Some(after) = &job.after {
        nodes.extend(by_node(after.placement).into_keys());
    }
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}

/// The table of nodes with their ranks.
pub struct RanksTable {
    /// Labels of the placements.
    pub before: String,
    /// See above.
    pub after: Option<String>,
    /// One row per node.
    pub rows: Vec<NodeRow>,
    /// Nodes that are not listed.
    pub more: usize,
}

/// A node with its ranks on either side.
pub struct NodeRow {
    /// Its number.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// Its router.
    pub router: String,
    /// Ranks before, and after.
    pub sides: Vec<Ranks>,
}

/// Ranks of a node.
pub enum Ranks {
    /// No ranks.
    None,
    /// As ranges, if there are many.
    Ranges(String),
    /// One by one, and whether they come from another node.
    Single(Vec<(u32, bool)>),
}

/// The table of a job.
pub fn table(fabric: &Fabric, job: &Job<'_>) -> RanksTable {
    let before = by_node(job.before.placement);
    let after = job.after.as_ref().map(|a| by_node(a.placement));
    let nodes = nodes(job);
    let single = job.before.placement.tasks() <= ALL_SINGLE;
    let row = |&node: &NodeId| {
        let n = fabric.node(node);
        let none = Vec::new();
        let here = before.get(&node).unwrap_or(&none);
        let mut sides = vec![ranks(here, here, single)];
        if let Some(after) = &after {
            sides.push(ranks(after.get(&node).unwrap_or(&none), here, single));
        }
        NodeRow {
            node,
            name: n.name.clone(),
            router: fabric.router(n.router).name.clone(),
            sides,
        }
    };
    RanksTable {
        before: job.before.label.clone(),
        after: job.after.as_ref().map(|side| side.label.clone()),
        rows: nodes.iter().take(ROWS).map(row).collect(),
        more: nodes.len().saturating_sub(ROWS),
    }
}

/// Ranks one by one, marked if they were not `here` before; or ranges, if there are many.
fn ranks(ranks: &[u32], here: &[u32], single: bool) -> Ranks {
    if ranks.is_empty() {
        return Ranks::None;
    }
    if !single || ranks.len() > SINGLE {
        return Ranks::Ranges(words::ranges(ranks).to_string());
    }
    let is_new = |rank: &u32| (*rank, here.binary_search(rank).is_err());
    Ranks::Single(ranks.iter().map(is_new).collect())
}
