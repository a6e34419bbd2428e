//! Traffic, nodes, placements and counters that a command line names.

use crate::args::CounterArgs;
use anyhow::{Result, bail};
use hopbyte_fabric::{Allocation, Fabric, LinkState, NodeId, Snapshot};
use hopbyte_observe::{CounterOptions, read_counters};
use std::collections::BTreeMap;
use std::path::PathBuf;

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

/// What counters say of every link.
pub struct Reading {
    /// Rates and ratios.
    pub state: LinkState,
    /// Files it comes from.
    pub source: String,
    /// Rows of the source that named a link of the fabric, and that did not.
    pub matched: usize,
    /// Rows that named no link of the fabric.
    pub unmatched: usize,
    /// Remarks for people.
    pub notes: Vec<String>,
}

/// Reads counters: one file of increases, or an earlier and a later one of totals.
pub fn reading(files: &[PathBuf], fabric: &Fabric, args: &CounterArgs) -> Result<Reading> {
    let options = CounterOptions {
        interval_seconds: args.interval,
        region: args.region,
    };
    let snapshots = files
        .iter()
        .map(|file| read_counters(file, fabric, &options))
        .collect::<Result<Vec<Snapshot>, _>>()?;
    let mut notes = Vec::new();
    let (state, last) = match &snapshots[..] {
        [one] => {
            if one.cumulative {
                notes.push(
                    "these are totals since the counters began; give an earlier and a later file for a window"
                        .into(),
                );
            }
            (LinkState::of_increase(fabric, one), one)
        }
        [earlier, later] if earlier.cumulative && later.cumulative => {
            let mut earlier = earlier.clone();
            let mut later = later.clone();
            if let Some(interval) = args.interval {
                (earlier.time_seconds, later.time_seconds) = (Some(0.0), Some(interval));
            }
            (LinkState::between(fabric, &earlier, &later), &snapshots[1])
        }
        [..] if snapshots.len() == 2 => {
            bail!(
                "two files of counters, of which one holds increases already\nhint: give that one alone"
            )
        }
        _ => bail!(
            "{} files of counters\nhint: give one, or an earlier and a later one",
            files.len()
        ),
    };
    notes.extend(lost(last));
    if state.window_seconds.is_none() && state.used_ratio.known() == 0 {
        notes.push("the window is not known, so ratios are not; give --interval SECONDS".into());
    }
    let names: Vec<String> = files.iter().map(|f| f.display().to_string()).collect();
    Ok(Reading {
        source: names.join(" to "),
        matched: last.matched,
        unmatched: last.unmatched,
        state,
        notes,
    })
}

/// How many values are not known, by reason.
fn lost(snapshot: &Snapshot) -> Option<String> {
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    for (.., why) in snapshot.lost() {
        *reasons
            .entry(format!("{why:?}").to_lowercase())
            .or_default() += 1;
    }
    let words: Vec<String> = reasons
        .iter()
        .map(|(why, n)| format!("{n} {why}"))
        .collect();
    (!words.is_empty()).then(|| format!("values that are not known: {}", words.join(", ")))
}
