//! Nodes and counters that a command line names.

use crate::args::CounterArgs;
use anyhow::Result;
use hopbyte_fabric::{Allocation, Fabric, InputError, LinkState, Missing, Snapshot};
use hopbyte_observe::{CounterOptions, parse_node_list, read_counters};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

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
/// make the increase, and a single one stands for the time since the counters began.
pub fn reading(files: &[PathBuf], fabric: &Fabric, args: &CounterArgs) -> Result<Reading> {
    let options = CounterOptions {
        interval_seconds: args.interval,
        region: args.region,
    };
    let mut snapshots: Vec<Snapshot> = Vec::new();
    for file in files {
        let next = read_counters(file, fabric, &options)?;
        if let Some(first) = snapshots.first()
            && first.cumulative != next.cumulative
        {
            return Err(mixed(file, next.cumulative).into());
        }
        snapshots.push(next);
    }
    let Some(first) = snapshots.first() else {
        return Err(InputError::new("counters", "", "at least one file of counters").into());
    };
    let state = match (&snapshots[..], first.cumulative) {
        ([_, .., last], true) => between(fabric, first, last, args.interval),
        _ => {
            let mut sum = first.clone();
            snapshots[1..].iter().for_each(|s| sum.extend_by(s));
            LinkState::of_increase(fabric, &sum)
        }
    };
    let mut notes: Vec<String> = snapshots.iter().filter_map(lost).collect();
    if state.window_seconds.is_none() && state.used_ratio.known() == 0 {
        let how = if first.cumulative && files.len() == 1 {
            "these are totals since the counters began; give an earlier and a later file"
        } else {
            "give --interval SECONDS"
        };
        notes.push(format!("the window is not known, so ratios are not: {how}"));
    }
    Ok(Reading {
        source: source(files, first.cumulative),
        matched: snapshots.iter().map(|s| s.matched).sum(),
        unmatched: snapshots.iter().map(|s| s.unmatched).sum(),
        state,
        notes,
    })
}

/// The increase between two readings of totals; `interval` where they have no clock.
fn between(fabric: &Fabric, first: &Snapshot, last: &Snapshot, interval: Option<f64>) -> LinkState {
    let (mut first, mut last) = (first.clone(), last.clone());
    if interval.is_some() {
        (first.time_seconds, last.time_seconds) = (Some(0.0), interval);
    }
    LinkState::between(fabric, &first, &last)
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

fn mixed(file: &Path, totals: bool) -> InputError {
    let (found, expected) = if totals {
        ("totals", "increases, as in the files before")
    } else {
        ("increases", "totals, as in the files before")
    };
    InputError::new(file.display().to_string(), found, expected)
        .hint("read them one at a time: what grew and what there is cannot be added up")
}

fn source(files: &[PathBuf], totals: bool) -> String {
    let name = |p: &PathBuf| p.display().to_string();
    match (files, totals) {
        ([first, .., last], true) => format!("from {} to {}", name(first), name(last)),
        ([first, .., last], false) => format!("{} to {}, added up", name(first), name(last)),
        _ => files.iter().map(name).collect(),
    }
}

/// Reads a list of nodes. Nodes without a number of slots in the list hold `ranks_per_node`, or the
/// fewest that hold all tasks.
pub fn nodes(
    list: &str,
    ranks_per_node: Option<u32>,
    tasks: usize,
    fabric: &Fabric,
) -> Result<Allocation> {
    let nodes = parse_node_list(list, fabric)?;
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
