//! Launchers that place every rank individually, and plain files for people and scripts.

use crate::error::ApplyError;
use crate::layout::{Launch, Layout};
use std::fmt::Write;

/// Longest line of a rank order.
const LINE: usize = 80;

/// Ranks in placement order, node by node: rank `order[i]` gets the `i`-th slot of the block layout.
pub(crate) fn rank_order(layout: &Layout<'_>) -> Result<String, ApplyError> {
    let by_place = layout.ranks_by_place();
    let mut left = layout.ranks();
    for (place, ranks) in by_place.iter().enumerate() {
        let default = left.min(layout.slots[place] as usize);
        left -= default;
        if ranks.len() != default {
            return Err(ApplyError::Inexpressible {
                what: "placement",
                format: "mpich-rank-order",
                why: format!(
                    "it permutes the ranks of the default launch, which has {default} on {}, and the placement has {}",
                    layout.hosts[place],
                    ranks.len()
                ),
                instead: "map onto as many slots as there are ranks, or use a launcher that takes a host for each rank".into(),
            });
        }
    }
    let order: Vec<u32> = by_place.into_iter().flatten().collect();
    Ok(comma_lines(&order))
}

/// Numbers joined by commas, on lines of at most [`LINE`] characters, without trailing commas (the format of
/// `grid_order`).
fn comma_lines(numbers: &[u32]) -> String {
    let mut text = String::new();
    let mut width = 0;
    for number in numbers {
        let word = number.to_string();
        if width > 0 && width + 1 + word.len() > LINE {
            text.push('\n');
            width = 0;
        }
        if width > 0 {
            text.push(',');
            width += 1;
        }
        text.push_str(&word);
        width += word.len();
    }
    text.push('\n');
    text
}

/// `rank N=HOST slot=CORE`, one line per rank. Open MPI refuses a line without a slot, and the number of a GPU is no core.
pub(crate) fn rankfile(layout: &Layout<'_>) -> Result<String, ApplyError> {
    if layout.gpus && layout.cores.is_none() {
        return Err(ApplyError::Inexpressible {
            what: "placement on GPUs",
            format: "openmpi-rankfile",
            why: "it names the core of every rank, and the cores near the GPUs are not known"
                .into(),
            instead: "use rank-gpus, or openmpi-hostfile, with which ranks are not bound".into(),
        });
    }
    let mut text = String::new();
    for rank in 0..layout.ranks() {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "rank {rank}={} slot={}",
            layout.host(rank),
            layout.core(rank)
        );
    }
    Ok(text)
}

/// Flux requires every allocated host to have a rank.
pub(crate) fn all_used(layout: &Layout<'_>, format: &'static str) -> Result<(), ApplyError> {
    let by_place = layout.ranks_by_place();
    match by_place.iter().position(Vec::is_empty) {
        None => Ok(()),
        Some(idle) => Err(ApplyError::Inexpressible {
            what: "placement",
            format,
            why: format!(
                "every allocated host must have a rank, and {} has none",
                layout.hosts[idle]
            ),
            instead: "allocate only the nodes that are used".into(),
        }),
    }
}

/// A host for each rank.
pub(crate) fn flux_hosts(layout: &Layout<'_>) -> Result<String, ApplyError> {
    all_used(layout, "flux-hostfile")?;
    host_a_rank(layout)
}

/// One host per line, by rank.
pub(crate) fn host_a_rank(layout: &Layout<'_>) -> Result<String, ApplyError> {
    let text = (0..layout.ranks()).fold(String::new(), |mut text, rank| {
        text.push_str(layout.host(rank));
        text.push('\n');
        text
    });
    Ok(text)
}

/// `rank,node,slot` with a header.
pub(crate) fn csv(launch: &Launch<'_>) -> String {
    let (fabric, placement) = (launch.fabric, launch.placement);
    let mut text = String::from("rank,node,slot\n");
    for (rank, slot) in placement.slots().iter().enumerate() {
        let name = &fabric.node(slot.node).name;
        let name = if name.contains([',', '"', '#', '\n', '\r']) {
            format!("\"{}\"", name.replace('"', "\"\""))
        } else {
            name.clone()
        };
        let _ = writeln!(text, "{rank},{name},{}", slot.slot);
    }
    text
}

/// One JSON object.
pub(crate) fn json(launch: &Launch<'_>) -> String {
    let (fabric, placement) = (launch.fabric, launch.placement);
    let nodes: Vec<_> = launch
        .allocation
        .nodes()
        .iter()
        .map(|&(id, slots)| {
            let node = fabric.node(id);
            serde_json::json!({"node": node.name, "host": node.host, "slots": slots})
        })
        .collect();
    let names = placement.slots().iter().map(|s| &fabric.node(s.node).name);
    let value = serde_json::json!({
        "schema": "hopbyte.placement/1",
        "tasks": placement.tasks(),
        "nodes": nodes,
        "placement": names.collect::<Vec<_>>(),
        "slots": placement.slots().iter().map(|s| s.slot).collect::<Vec<_>>(),
    });
    format!("{value}\n")
}
