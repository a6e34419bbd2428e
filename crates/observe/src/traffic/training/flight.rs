//! Dumps of PyTorch's flight recorder (`TORCH_NCCL_TRACE_BUFFER_SIZE`): a file per rank, JSON or a pickle.
//!
//! The recorder holds the last calls of each rank. A pickle is read as data: objects of classes are refused, and
//! nothing of it is run.

use super::names::{Operation, element, operation, size};
use super::{Call, Job, Texts, number_in, rank_in, ranks};
use crate::ObserveError;
use crate::text::Text;
use hopbyte_fabric::collective::Algorithms;
use hopbyte_fabric::{InputError, Traffic};
use memchr::memmem;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Whether a text is such a dump.
pub(in super::super) fn is(text: &Text) -> bool {
    let start = text.bytes().trim_ascii_start();
    let json = start.starts_with(b"{");
    // The start of a pickle of protocol 2 to 5.
    let pickle = matches!(start, [0x80, 2..=5, ..]);
    let has = |key: &str| memmem::find(start, key.as_bytes()).is_some();
    (json || pickle) && has("pg_config") && (has("profiling_name") || has("pg_status"))
}

#[derive(Deserialize)]
struct Dump {
    #[serde(default)]
    pg_config: BTreeMap<String, Group>,
    #[serde(default)]
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    desc: String,
    #[serde(default)]
    ranks: String,
}

#[derive(Deserialize)]
struct Entry {
    record_id: Option<u64>,
    pg_id: Option<u64>,
    process_group: Option<Vec<String>>,
    profiling_name: String,
    #[serde(default)]
    input_sizes: Vec<Vec<u64>>,
    #[serde(default)]
    input_dtypes: Vec<String>,
    #[serde(default)]
    output_sizes: Vec<Vec<u64>>,
    #[serde(default)]
    output_dtypes: Vec<String>,
    state: Option<String>,
}

fn dump(text: &Text) -> Result<Dump, InputError> {
    let wrong = |e: String, line: u64| {
        let error = text.error(e, "a dump of PyTorch's flight recorder");
        let error = error.hint("was the file copied while it was written?");
        match line {
            0 => error,
            line => error.at(line),
        }
    };
    match text.bytes().first() {
        Some(0x80) => super::pickle::parse(text.bytes(), &["frames", "nccl_comm_state"])
            .and_then(|value| serde_json::from_value(value).map_err(|e| e.to_string()))
            .map_err(|e| wrong(e, 0)),
        _ => {
            serde_json::from_slice(text.bytes()).map_err(|e| wrong(e.to_string(), e.line() as u64))
        }
    }
}

pub(in super::super) fn read(
    source: &str,
    texts: Texts<'_>,
    rules: &Algorithms,
) -> Result<Traffic, ObserveError> {
    let mut job = Job::default();
    let (mut earlier, mut open, mut rooted) = (0, 0, 0);
    for text in texts {
        let text = text?;
        let dump = dump(&text)?;
        // The recorder appends the rank to a name that its user may choose.
        let rank = rank_in(text.file()).or_else(|| number_in(text.file()));
        let rank = rank.ok_or_else(|| {
            let error = text.error(
                "no rank in the file's name",
                "a name such as nccl_trace_rank_3",
            );
            error.hint("the dump itself does not hold the rank")
        })?;
        if !job.file(rank) {
            let found = format!("rank {rank} again");
            return Err(text.error(found, "one file for every rank").into());
        }
        earlier += dump
            .entries
            .iter()
            .filter_map(|e| e.record_id)
            .min()
            .unwrap_or(0);
        for entry in &dump.entries {
            open += u64::from(entry.state.as_deref().is_some_and(|s| s != "completed"));
            let members = dump.members(entry).filter(|m| m.contains(&rank));
            let about = dump.group(entry).map_or("", |g| g.desc.as_str());
            rooted += u64::from(add(&mut job, rank, entry, (members, about)));
        }
    }
    job.note(earlier, "earlier calls had left the recorder's buffer");
    job.note(open, "calls had not completed when the recorder was dumped");
    job.note(
        rooted,
        "calls have a root that the recorder does not hold: the first member is taken",
    );
    job.finish(source, rules)
}

impl Dump {
    fn group(&self, entry: &Entry) -> Option<&Group> {
        let name = entry.process_group.as_ref().and_then(|p| p.first());
        let named = name.and_then(|name| self.pg_config.get(name));
        named.or_else(|| self.pg_config.get(&entry.pg_id?.to_string()))
    }

    fn members(&self, entry: &Entry) -> Option<Vec<u32>> {
        let members = ranks(&self.group(entry)?.ranks)?;
        let known = members.iter().all(|&r| (r as usize) < super::MAX_TASKS);
        (known && !members.is_empty()).then_some(members)
    }
}

/// Adds a call of a rank; returns whether its root is assumed.
fn add(
    job: &mut Job,
    rank: u32,
    entry: &Entry,
    (members, about): (Option<Vec<u32>>, &str),
) -> bool {
    let name = entry.profiling_name.as_str();
    let Some(operation) = operation(name) else {
        let kind = name.split_whitespace().next().unwrap_or_default();
        job.lose(format!("of the unknown kind {kind}"), 1);
        return false;
    };
    if operation == Operation::Nothing {
        return false;
    }
    let Some(members) = members else {
        job.lose(
            "of groups that the dump does not list are not in the traffic",
            1,
        );
        return false;
    };
    let bytes = |sizes: &[Vec<u64>], types: &[String]| {
        let tensors = sizes.iter().enumerate().map(|(n, dims)| {
            let each = types.get(n).or(types.first()).and_then(|t| element(t))?;
            dims.iter().try_fold(each, |all, &d| all.checked_mul(d))
        });
        tensors.sum::<Option<u64>>()
    };
    let input = bytes(
        &entry.input_sizes,
        types(&entry.input_dtypes, &entry.output_dtypes),
    );
    let output = bytes(
        &entry.output_sizes,
        types(&entry.output_dtypes, &entry.input_dtypes),
    );
    let (Some(input), Some(output)) = (input, output) else {
        job.lose("with elements of an unknown type", 1);
        return false;
    };
    let kind = name.split_once(':').map_or(name, |(_, rest)| rest);
    let phase = match about {
        "" | "undefined" => kind.split_whitespace().next().unwrap_or_default(),
        about => about,
    };
    match operation {
        Operation::Collective(kind) => {
            let Some(group) = job.group(&members) else {
                job.lose("in too many groups are not in the traffic", 1);
                return false;
            };
            let call = Call {
                phase: phase.to_owned(),
                group,
                kind,
                root: 0,
                bytes: size(kind, (input, output), members.len()),
            };
            job.call(call, rank, 1);
            kind.has_root()
        }
        _ => {
            let bytes = input.max(output) as f64;
            match (operation, partner(name, &members)) {
                (Operation::Send, Some(to)) => job.sent(phase, (rank, to), (bytes, 1)),
                (_, Some(from)) => job.received(phase, (from, rank), (bytes, 1)),
                (_, None) => job.lose("with an unknown partner are not in the traffic", 1),
            }
            false
        }
    }
}

/// Element types of tensors, those of the other side if they have none.
fn types<'a>(own: &'a [String], other: &'a [String]) -> &'a [String] {
    if own.is_empty() { other } else { own }
}

/// The partner in `nccl:send 0->1` or `nccl:recv 1<-0`: positions in the group.
fn partner(name: &str, members: &[u32]) -> Option<u32> {
    let (_, position) = name.split_once("->").or_else(|| name.split_once("<-"))?;
    members.get(position.trim().parse::<usize>().ok()?).copied()
}
