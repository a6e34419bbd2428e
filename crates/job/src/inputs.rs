//! Nodes and counters, from the words that name them.

use crate::live;
use anyhow::Result;
use hopbyte_fabric::{Allocation, Fabric, LinkState, Missing, NodeId, Snapshot};
use hopbyte_observe::{CounterOptions, parse_node_list, read_counters};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What counters say of every link.
pub struct Reading {
    /// Rates and ratios.
    pub state: LinkState,
    /// Where it comes from.
    pub source: String,
    /// Rows of the source that named a link of the fabric.
    pub matched: usize,
    /// Rows that named no link of the fabric.
    pub unmatched: usize,
    /// What a person should know before believing it, one sentence each.
    pub notes: Vec<String>,
}

/// Reads counters: increases of several files are added up; of totals, the first and the last file
/// make the increase, and a single one stands for the time since the counters began. `live` is this
/// machine, read twice; a folder is a captured one.
pub fn reading(files: &[PathBuf], fabric: &Fabric, options: &CounterOptions) -> Result<Reading> {
    let mut notes = Vec::new();
    let snapshot = match live::read(files, fabric, options, &mut notes)? {
        Some(snapshot) => snapshot,
        None => read_counters(files, fabric, options)?,
    };
    let state = LinkState::of_increase(fabric, &snapshot);
    notes.extend(lost(&snapshot));
    if state.window_seconds.is_none() && state.used_ratio.known() == 0 {
        let how = if snapshot.cumulative {
            "these are totals since the counters began; give an earlier and a later file"
        } else {
            "give --interval SECONDS"
        };
        notes.push(format!("the window is not known, so ratios are not: {how}"));
    }
    Ok(Reading {
        source: snapshot.source,
        matched: snapshot.matched,
        unmatched: snapshot.unmatched,
        state,
        notes,
    })
}

/// How many values of a reading are not known for a reason, and which reasons.
fn lost(snapshot: &Snapshot) -> Option<String> {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for (.., why) in snapshot.lost() {
        let word = match why {
            Missing::Unread => "could not be read",
            Missing::Reset => "counter began anew",
            Missing::Stuck => "counter stuck at its highest value",
            Missing::Gap => "too long between readings, it may have wrapped",
            Missing::ZeroInterval => "no time passed",
            Missing::Down => "link down",
            _ => "other reasons",
        };
        *reasons.entry(word).or_default() += 1;
    }
    let words: Vec<String> = reasons
        .iter()
        .map(|(why, n)| format!("{n} ({why})"))
        .collect();
    let file = &snapshot.source;
    (!words.is_empty()).then(|| format!("{file}: values not known: {}", words.join(", ")))
}

/// Reads a list of nodes; see [`allocate`].
///
/// # Errors
/// A name is not on the fabric, or named twice.
pub fn nodes(
    list: &str,
    ranks_per_node: Option<u32>,
    tasks: usize,
    fabric: &Fabric,
) -> Result<Allocation> {
    allocate(
        parse_node_list(list, fabric)?,
        ranks_per_node,
        tasks,
        fabric,
    )
}

/// An allocation of nodes, each with its slots where they were given. The others hold `ranks_per_node`, or the
/// fewest that hold all tasks.
///
/// # Errors
/// A node is named twice, or holds no slot.
pub fn allocate(
    nodes: Vec<(NodeId, Option<u32>)>,
    ranks_per_node: Option<u32>,
    tasks: usize,
    fabric: &Fabric,
) -> Result<Allocation> {
    let given: usize = nodes
        .iter()
        .filter_map(|&(_, slots)| slots)
        .map(|s| s as usize)
        .sum();
    let open = nodes.iter().filter(|(_, slots)| slots.is_none()).count();
    let fewest = tasks.saturating_sub(given).div_ceil(open.max(1)).max(1) as u32;
    let slots = ranks_per_node.unwrap_or(fewest);
    let nodes = nodes
        .into_iter()
        .map(|(node, own)| (node, own.unwrap_or(slots)));
    Ok(Allocation::new(fabric, nodes.collect())?)
}
