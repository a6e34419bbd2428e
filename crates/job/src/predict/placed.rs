//! The placements of a prediction, as nodes by rank.

use super::Ask;
use crate::error::{Result, refuse};
use crate::inputs;
use hopbyte_fabric::{Allocation, Fabric, NodeId, Placement};
use hopbyte_model::PlacementRule;
use hopbyte_model::place::place;
use hopbyte_observe::kinds::{Content, of_another_kind};
use hopbyte_observe::{Placed, read_placement};
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
        .map(|list| {
            let say = &mut |note| notes.push(note);
            inputs::nodes(list, ask.ranks_per_node, ranks, fabric, say)
        })
        .transpose()?;
    let mut found: Vec<(String, Placed)> = Vec::new();
    match recorded(ask.trace, fabric, given.as_ref()) {
        Some(Ok(placed)) => found.push((RECORDED.to_owned(), placed)),
        Some(Err(error)) => {
            let error = error.to_string();
            let first = error.lines().next().unwrap_or_default();
            notes.push(format!(
                "the recorded run is no check of this machine: {first}"
            ));
        }
        None => {}
    }
    let with_record = found.len();
    for path in ask.placements {
        let placed = read(path, fabric, given.as_ref())?;
        notes.extend(placed.notes.iter().cloned());
        found.push((path.display().to_string(), placed));
    }
    let allocation = match given {
        Some(given) => given,
        None if found.is_empty() => first_nodes(fabric, ranks, ask.ranks_per_node)?,
        None => launched(&found, fabric, notes)?,
    };
    let mut list: Vec<_> = found
        .into_iter()
        .map(|(name, placed)| (name, by_rank(&placed.placement)))
        .collect();
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
    let usual = [
        ("in order".into(), rule(PlacementRule::Linear)?),
        (
            format!("random, seed {}", ask.seed),
            rule(PlacementRule::Random)?,
        ),
    ];
    list.splice(with_record..with_record, usual);
    Ok(list)
}

/// The nodes of the first placement in the launcher's order: that of a file which states it for these nodes, else the
/// machine's, because the order of a placement's ranks is what the launcher was told and not what it does by itself.
fn launched(
    found: &[(String, Placed)],
    fabric: &Fabric,
    notes: &mut Vec<String>,
) -> Result<Allocation> {
    let by_id = |allocation: &Allocation| {
        let mut nodes = allocation.nodes().to_vec();
        nodes.sort_unstable_by_key(|n| n.0);
        nodes
    };
    let (name, first) = &found[0];
    let sorted = by_id(&first.allocation);
    let stated = found
        .iter()
        .map(|(_, placed)| placed)
        .find(|placed| placed.order_is_known && by_id(&placed.allocation) == sorted);
    if let Some(placed) = stated {
        return Ok(placed.allocation.clone());
    }
    if sorted != first.allocation.nodes() {
        notes.push(format!(
            "{name} does not state the launcher's order of the nodes: in order takes them in the machine's, --nodes gives another"
        ));
    }
    Ok(Allocation::new(fabric, sorted)?)
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

/// Placement of a file.
fn read(path: &Path, fabric: &Fabric, given: Option<&Allocation>) -> Result<Placed> {
    let placed = read_placement(path, fabric, given);
    Ok(placed.map_err(|e| of_another_kind(path, Content::Placement, e))?)
}

/// The placement of the run that a folder of `hopbyte record` has; `None` if it does not say.
fn recorded(trace: &str, fabric: &Fabric, given: Option<&Allocation>) -> Option<Result<Placed>> {
    let own = Path::new(trace).join("placement.csv");
    own.is_file().then(|| read(&own, fabric, given))
}

/// Nodes by rank of the run that a folder of `hopbyte record` has; `None` if it does not say.
pub fn recorded_nodes(trace: &str, fabric: &Fabric) -> Option<Result<Vec<NodeId>>> {
    recorded(trace, fabric, None).map(|read| read.map(|placed| by_rank(&placed.placement)))
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
