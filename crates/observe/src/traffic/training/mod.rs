//! Calls of training jobs as PyTorch's profiler and flight recorder and NCCL's Inspector record them: one file per
//! process.
//!
//! The ranks of a job run one program, so the file of one member is enough for a group's collective calls. Members
//! without a file are taken to make the same calls; so are groups without any file that lie as a known one does
//! (evenly spaced ranks, as in a mesh of parallel dimensions). Messages are counted at the sender, or at the receiver
//! if the sender has no file. Notes count all of this, and what is missing.

mod flight;
mod inspector;
mod kineto;
mod names;
mod pickle;

pub(super) use flight::{is as is_flight, read as flight};
pub use inspector::{Measured, Measurement, measurement};
pub(super) use inspector::{is as is_inspector, read as inspector};
pub(super) use kineto::{is as is_kineto, read as kineto};

use super::calls::{Alike, Calls, Groups, OUTSIDE, Part, Size};
use super::entries::{MAX_TASKS, Phases};
use super::record::INCOMPLETE;
use crate::ObserveError;
use hopbyte_fabric::bounds::MAX_BYTES;
use hopbyte_fabric::collective::{Algorithms, Collective, How, Library};
use hopbyte_fabric::{InputError, Traffic};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Files of the processes, read one after the other.
pub(super) type Texts<'a> = &'a mut dyn Iterator<Item = Result<crate::text::Text, ObserveError>>;

/// Maximum number of members in all groups together.
const MAX_MEMBERS: usize = 1 << 26;

/// Collective calls that are alike at all members of a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Call {
    phase: String,
    /// Index of the group.
    group: usize,
    kind: Collective,
    /// Position of the root in the group.
    root: u32,
    /// Size as the expander defines it.
    bytes: u64,
}

/// Messages of a pair as its two ends recorded them.
#[derive(Default)]
struct Ends {
    sent: (f64, u64),
    received: (f64, u64),
}

/// What the files of a job hold.
#[derive(Default)]
pub(super) struct Job {
    /// Ranks with a file.
    files: BTreeSet<u32>,
    /// Number of ranks, if a file says it.
    size: usize,
    groups: Vec<Vec<u32>>,
    numbers: HashMap<Vec<u32>, usize>,
    members: usize,
    /// Number of calls by rank.
    calls: BTreeMap<Call, BTreeMap<u32, u64>>,
    messages: BTreeMap<(String, u32, u32), Ends>,
    /// Calls that are not in the traffic, by reason.
    lost: BTreeMap<String, u64>,
    notes: Vec<String>,
}

impl Job {
    /// Adds a rank's file; `false` if the rank has one already.
    fn file(&mut self, rank: u32) -> bool {
        self.files.insert(rank)
    }

    /// The index of a group of world ranks; `None` above the maximum.
    fn group(&mut self, members: &[u32]) -> Option<usize> {
        if let Some(&number) = self.numbers.get(members) {
            return Some(number);
        }
        self.members += members.len();
        if self.members > MAX_MEMBERS {
            return None;
        }
        self.numbers.insert(members.to_vec(), self.groups.len());
        self.groups.push(members.to_vec());
        Some(self.groups.len() - 1)
    }

    fn call(&mut self, call: Call, rank: u32, count: u64) {
        let ranks = self.calls.entry(call).or_default();
        let calls = ranks.entry(rank).or_default();
        *calls = calls.saturating_add(count);
    }

    /// Adds messages of a pair, as its sender recorded them: their bytes together and their number.
    fn sent(&mut self, phase: &str, (from, to): (u32, u32), messages: (f64, u64)) {
        let ends = self.messages.entry((phase.to_owned(), from, to));
        add(&mut ends.or_default().sent, messages);
    }

    /// The same, as its receiver recorded them.
    fn received(&mut self, phase: &str, (from, to): (u32, u32), messages: (f64, u64)) {
        let ends = self.messages.entry((phase.to_owned(), from, to));
        add(&mut ends.or_default().received, messages);
    }

    fn lose(&mut self, reason: impl Into<String>, calls: u64) {
        if calls > 0 {
            *self.lost.entry(reason.into()).or_default() += calls;
        }
    }

    /// A remark on calls of the traffic, if there are any.
    fn note(&mut self, calls: u64, text: &str) {
        if calls > 0 {
            self.notes.push(format!("{calls} {text}"));
        }
    }

    /// The traffic, with collectives expanded by `rules`, or by NCCL's if they name no library.
    fn finish(mut self, source: &str, rules: &Algorithms) -> Result<Traffic, ObserveError> {
        let named = self.groups.iter().flatten().filter(|&&r| r != OUTSIDE);
        let pairs = self.messages.keys().flat_map(|(_, from, to)| [from, to]);
        let highest = named.chain(pairs).chain(&self.files).max();
        let size = self.size.max(highest.map_or(0, |&r| r as usize + 1));
        if size == 0 || size > MAX_TASKS {
            let found = format!("a job of {size} ranks");
            return Err(InputError::new(source, found, format!("1 to {MAX_TASKS}")).into());
        }
        let placed = self.complete(size);
        let mut notes = std::mem::take(&mut self.notes);
        notes.extend(self.missing(size, placed));
        let keys: Vec<String> = (0..self.groups.len()).map(|n| n.to_string()).collect();
        let groups: Groups<'_> = keys.iter().map(String::as_bytes).zip(self.groups).collect();
        let (mut calls, mut phases) = (Calls::default(), Phases::default());
        for (call, ranks) in self.calls {
            let alike = Alike {
                phase: call.phase,
                group: keys[call.group].as_bytes(),
                collective: call.kind,
                root: call.root,
                size: Size::Exact(call.bytes),
                how: How::default(),
            };
            for (rank, calls_made) in ranks {
                let bytes = (call.bytes as f64 * calls_made as f64).min(MAX_BYTES);
                let part = Part {
                    bytes,
                    calls: calls_made,
                };
                calls.add(alike.clone(), rank, part);
            }
        }
        let rules = rules.clone().or(Some(Library::Nccl));
        notes.extend(calls.expand(source, &groups, &rules, &mut phases)?);
        for ((phase, from, to), ends) in self.messages {
            let (bytes, count) = match self.files.contains(&from) {
                true => ends.sent,
                false => ends.received,
            };
            if count > 0 && from != to {
                phases.add(&phase, (from, to, bytes.min(MAX_BYTES), count));
            }
        }
        let mut traffic = phases.finish(source, size)?;
        traffic.notes = notes;
        Ok(traffic)
    }

    /// Gives members and groups without a file the calls of those that have one. Returns the number of such groups.
    fn complete(&mut self, size: usize) -> usize {
        let mut more: BTreeMap<Call, (usize, u64)> = BTreeMap::new();
        let mut first: HashMap<(String, u32, usize), usize> = HashMap::new();
        for (call, ranks) in &mut self.calls {
            let members = &self.groups[call.group];
            let Some(&made) = ranks.values().next() else {
                continue;
            };
            for &member in members.iter().filter(|m| !self.files.contains(m)) {
                if member != OUTSIDE {
                    ranks.entry(member).or_insert(made);
                }
            }
            if let Some(step) = step(members) {
                let like = (call.phase.clone(), step, members.len());
                if *first.entry(like).or_insert(call.group) == call.group {
                    more.insert(call.clone(), (step as usize, made));
                }
            }
        }
        let mut added = BTreeSet::new();
        for (call, (step, made)) in more {
            let count = self.groups[call.group].len();
            if !size.is_multiple_of(step * count) {
                continue;
            }
            for base in (0..size).filter(|base| (base / step).is_multiple_of(count)) {
                let members: Vec<u32> = (0..count).map(|n| (base + n * step) as u32).collect();
                let known = members.iter().any(|m| self.files.contains(m));
                if known {
                    continue;
                }
                let Some(group) = self.group(&members) else {
                    return added.len();
                };
                added.insert(group);
                let call = Call {
                    group,
                    ..call.clone()
                };
                let ranks = members.into_iter().map(|m| (m, made));
                self.calls.entry(call).or_insert_with(|| ranks.collect());
            }
        }
        added.len()
    }

    /// Notes on calls and files that are missing.
    fn missing(&self, size: usize, placed: usize) -> Vec<String> {
        let mut notes = Vec::new();
        let files = self.files.len();
        if self.calls.is_empty() && self.messages.is_empty() {
            notes.push("no collective and no message is in the files".into());
        }
        if files < size {
            let groups = match placed {
                0 => String::new(),
                _ => format!("; {placed} groups are placed as theirs are"),
            };
            notes.push(format!(
                "files of {files} of {size} ranks: members of their groups are taken to make the same calls{groups}"
            ));
            if self.messages.values().any(|m| m.sent.1 + m.received.1 > 0) {
                notes.push(format!(
                    "{INCOMPLETE}messages between ranks without a file are not in the traffic"
                ));
            }
        }
        let told: Vec<String> = self
            .lost
            .iter()
            .map(|(reason, calls)| format!("{calls} calls {reason}"))
            .collect();
        if !told.is_empty() {
            notes.push(format!("{INCOMPLETE}{}", told.join("; ")));
        }
        notes
    }
}

fn add(sum: &mut (f64, u64), (bytes, count): (f64, u64)) {
    *sum = (sum.0 + bytes, sum.1.saturating_add(count));
}

/// The distance of evenly spaced, ascending ranks.
fn step(members: &[u32]) -> Option<u32> {
    let [first, second, ..] = members else {
        return None;
    };
    let step = second.checked_sub(*first).filter(|&s| s > 0)?;
    let even = members
        .windows(2)
        .all(|w| w[1].checked_sub(w[0]) == Some(step));
    // The spacing of a mesh: the first of its ranks begins a block.
    let begins = (*first / step).is_multiple_of(members.len() as u32);
    (even && begins && !members.contains(&OUTSIDE)).then_some(step)
}

/// Numbers in a text such as `[0, 1, 2]`; `None` if it is shortened.
fn ranks(list: &str) -> Option<Vec<u32>> {
    let inner = list.trim().trim_matches(['[', ']', '(', ')']);
    let words = inner.split(',').map(str::trim).filter(|w| !w.is_empty());
    words.map(|w| w.parse().ok()).collect()
}

/// The rank after this word in a file's name: `rank3.json`, `rank-3.pt.trace.json.gz`.
fn rank_in(name: &str) -> Option<u32> {
    let name = name.rsplit('/').next()?;
    name.match_indices("rank").find_map(|(at, word)| {
        let rest = name[at + word.len()..].trim_start_matches(['-', '_', '=', '.']);
        let end = rest.find(|c: char| !c.is_ascii_digit());
        rest[..end.unwrap_or(rest.len())].parse().ok()
    })
}

/// The number at the end of a file's name: `NAME_3`, `NAME.3.json`.
fn number_in(name: &str) -> Option<u32> {
    let name = name.rsplit('/').next()?;
    let stem = name.trim_end_matches(".gz").trim_end_matches(".zst");
    let stem = stem
        .trim_end_matches(".json")
        .trim_end_matches(".pickle")
        .trim_end_matches(".pkl");
    let start = stem.rfind(|c: char| !c.is_ascii_digit())? + 1;
    stem[start..].parse().ok()
}

#[cfg(test)]
mod tests;
