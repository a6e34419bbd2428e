//! The placements of a prediction, as nodes by rank.

use super::Ask;
use crate::error::{Result, refuse};
use crate::inputs;
use hopbyte_fabric::{Allocation, Fabric, NodeId, Placement};
use hopbyte_model::PlacementRule;
use hopbyte_model::place::place;
use hopbyte_observe::kinds::{Content, of_another_kind};
use hopbyte_observe::read_placement;
use std::path::Path;

/// Name of the placement of the recorded run.
pub const RECORDED: &str = "as recorded";

/// Names and nodes by rank of all placements, the reference first.
pub(super) fn placements(
    ask: &Ask<'_>,
    ranks: usize,
    notes: &mut Vec<String>,
) -> Result<Vec<(String, Vec<NodeId>)>> {
    let fabric = &ask.machine.fabric;
    let given = ask
        .nodes
        .map(|list| inputs::nodes(list, ask.ranks_per_node, ranks, fabric))
        .transpose()?;
    let mut list: Vec<(String, Vec<NodeId>)> = Vec::new();
    let mut allocation = None;
    match recorded_nodes(ask.trace, fabric, given.as_ref()) {
        Some(Ok((nodes, ranks))) => {
            list.push((RECORDED.to_owned(), ranks));
            allocation = Some(nodes);
        }
        Some(Err(error)) => {
            let error = error.to_string();
            let first = error.lines().next().unwrap_or_default();
            notes.push(format!(
                "the recorded run is no check of this machine: {first}"
            ));
        }
        None => {}
    }
    let mut files = Vec::new();
    for path in ask.placements {
        let (nodes, by_rank) = read(path, fabric, given.as_ref())?;
        allocation.get_or_insert(nodes);
        files.push((path.display().to_string(), by_rank));
    }
    let allocation = match (given, allocation) {
        (Some(given), _) => given,
        (None, Some(found)) => found,
        (None, None) => first_nodes(fabric, ranks, ask.ranks_per_node)?,
    };
    let rule = |rule| -> Result<Vec<NodeId>> {
        Ok(by_rank(&place(
            fabric,
            &allocation,
            &rule,
            ranks,
            None,
            ask.seed,
        )?))
    };
    list.push(("in order".into(), rule(PlacementRule::Linear)?));
    list.push((
        format!("random, seed {}", ask.seed),
        rule(PlacementRule::Random)?,
    ));
    list.extend(files);
    Ok(list)
}

/// Refuses placements of another number of ranks.
pub(super) fn check(list: &[(String, Vec<NodeId>)], ranks: usize, trace: &str) -> Result<()> {
    match list.iter().find(|(_, nodes)| nodes.len() != ranks) {
        Some((name, nodes)) => {
            let found = nodes.len();
            refuse!("{name}: found {found} ranks, expected {ranks}, as in {trace}")
        }
        None => Ok(()),
    }
}

/// Allocation and nodes by rank of a file.
fn read(
    path: &Path,
    fabric: &Fabric,
    given: Option<&Allocation>,
) -> Result<(Allocation, Vec<NodeId>)> {
    let placed = read_placement(path, fabric, given);
    let placed = placed.map_err(|e| of_another_kind(path, Content::Placement, e))?;
    Ok((placed.allocation, by_rank(&placed.placement)))
}

/// Allocation and nodes by rank of the run that a folder of `hopbyte record` has; `None` if it does not say.
pub fn recorded_nodes(
    trace: &str,
    fabric: &Fabric,
    given: Option<&Allocation>,
) -> Option<Result<(Allocation, Vec<NodeId>)>> {
    let own = Path::new(trace).join("placement.csv");
    own.is_file().then(|| read(&own, fabric, given))
}

/// The first nodes of a machine.
fn first_nodes(fabric: &Fabric, ranks: usize, each: Option<u32>) -> Result<Allocation> {
    let nodes = fabric.nodes().len();
    let fewest = ranks.div_ceil(nodes.max(1)).max(1) as u32;
    let each = each.unwrap_or(fewest).max(1);
    let needed = ranks.div_ceil(each as usize).min(nodes);
    let list = (0..needed as u32).map(|n| (NodeId(n), each));
    Ok(Allocation::new(fabric, list.collect())?)
}

/// Nodes by rank.
pub fn by_rank(placement: &Placement) -> Vec<NodeId> {
    placement.slots().iter().map(|s| s.node).collect()
}
