//! Traces of PyTorch's profiler (Kineto): a JSON document per rank.
//!
//! Calls are `record_param_comms` events with the argument `Collective name` (PyTorch 2.2 and later), or NCCL's
//! kernels with the same arguments if the host's events are absent: a call appears in both, and is counted once. Kernels
//! of collectives without these arguments (replayed graphs, symmetric memory) have no sizes and are counted in a note.
//!
//! The rank is that of `distributedInfo`, else the number after `rank` in the file's name; a single file without either is
//! taken for rank 0.

use super::names::{Operation, element, operation, size};
use super::{Call, Job, Texts, rank_in, ranks};
use crate::ObserveError;
use crate::text::{Text, whole_value};
use hopbyte_fabric::collective::{Algorithms, Collective};
use hopbyte_fabric::{InputError, Traffic};
use memchr::memmem;
use serde::Deserialize;
use serde::de::{Deserializer, SeqAccess, Visitor};
use serde_json::Value;
use std::fmt;

/// Whether a text is such a trace.
pub(in super::super) fn is(text: &Text) -> bool {
    let head = &text.bytes()[..text.bytes().len().min(1 << 16)];
    let has = |key: &[u8]| memmem::find(head, key).is_some();
    head.trim_ascii_start().starts_with(b"{")
        && (has(b"\"traceEvents\"") || (has(b"\"schemaVersion\"") && has(b"\"deviceProperties\"")))
}

#[derive(Deserialize)]
struct Document {
    #[serde(rename = "distributedInfo")]
    info: Option<Info>,
    #[serde(rename = "traceEvents", deserialize_with = "calls", default)]
    calls: Found,
}

#[derive(Deserialize)]
struct Info {
    rank: Option<u32>,
    world_size: Option<usize>,
    #[serde(default)]
    pg_config: Value,
}

#[derive(Deserialize)]
struct Event {
    #[serde(default)]
    cat: Value,
    #[serde(default)]
    name: Value,
    args: Option<Arguments>,
}

#[derive(Deserialize)]
struct Arguments {
    #[serde(rename = "Collective name")]
    collective: Option<String>,
    #[serde(rename = "In msg nelems", default)]
    input: Value,
    #[serde(rename = "Out msg nelems", default)]
    output: Value,
    #[serde(rename = "In split size", default)]
    split: Value,
    dtype: Option<Value>,
    #[serde(rename = "Group size", default)]
    size: Value,
    #[serde(rename = "Process Group Name", default)]
    name: Value,
    #[serde(rename = "Process Group Description", default)]
    about: Value,
    #[serde(rename = "Process Group Ranks", default)]
    ranks: Value,
    #[serde(rename = "Global rank start", default)]
    start: Value,
    #[serde(rename = "Global rank stride", default)]
    stride: Value,
    #[serde(rename = "Rank", default)]
    rank: Value,
    #[serde(rename = "Src Rank", default)]
    from: Value,
    #[serde(rename = "Dst Rank", default)]
    to: Value,
}

/// The events with a collective's name, and the number of those that lack it.
#[derive(Default)]
struct Found {
    host: Vec<Arguments>,
    device: Vec<Arguments>,
    nameless: u64,
    /// Kernels of NCCL without arguments, and those of [`OTHER_KERNELS`].
    nccl: u64,
    other: u64,
}

/// Parts of the names of kernels that are collectives without NCCL: of PyTorch's symmetric memory and vLLM.
const OTHER_KERNELS: [&str; 4] = [
    "multimem_",
    "one_shot_all_reduce",
    "two_shot_all_reduce",
    "cross_device_reduce",
];

impl Found {
    fn sizeless_kernel(&mut self, name: &str) {
        let is = |part: &&str| name.contains(*part);
        self.nccl += u64::from(["nccl", "rccl"].iter().any(is));
        self.other += u64::from(OTHER_KERNELS.iter().any(is));
    }

    /// Kernels of collectives whose size is not known. Those of NCCL are calls of the host's events where no kernel of the
    /// trace has arguments.
    fn sizeless(&self) -> u64 {
        let is_beside = !self.host.is_empty() && self.device.is_empty();
        self.other + if is_beside { 0 } else { self.nccl }
    }
}

/// Keeps the calls among the events and drops each other event as it is read.
fn calls<'de, D: Deserializer<'de>>(from: D) -> Result<Found, D::Error> {
    struct Events;
    impl<'de> Visitor<'de> for Events {
        type Value = Found;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of events")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Found, A::Error> {
            let mut found = Found::default();
            while let Some(event) = all.next_element::<Event>()? {
                let host = event.name.as_str() == Some("record_param_comms");
                let device = event.cat.as_str() == Some("kernel");
                match event.args {
                    Some(args) if args.collective.is_some() && host => found.host.push(args),
                    Some(args) if args.collective.is_some() && device => found.device.push(args),
                    _ if device => found.sizeless_kernel(event.name.as_str().unwrap_or_default()),
                    _ => found.nameless += u64::from(host),
                }
            }
            Ok(found)
        }
    }
    from.deserialize_seq(Events)
}

pub(in super::super) fn read(
    source: &str,
    texts: Texts<'_>,
    rules: &Algorithms,
) -> Result<Traffic, ObserveError> {
    let (mut job, mut shortened, mut rootless) = (Job::default(), 0, 0);
    let mut nameless: Option<String> = None;
    for (text, before) in texts.zip(0u64..) {
        let text = text?;
        let document: Document = text
            .json("a trace of PyTorch's profiler")
            .map_err(|e| e.hint("was the file copied while it was written?"))?;
        job.lose(SIZELESS, document.calls.sizeless());
        let calls = match document.calls.host.is_empty() {
            false => document.calls.host,
            true => document.calls.device,
        };
        if calls.is_empty() && document.calls.nameless > 0 {
            let found = format!(
                "{} record_param_comms events without sizes",
                document.calls.nameless
            );
            let error = text.error(found, "events with the argument 'Collective name'");
            return Err(error.hint("PyTorch 2.2 and later record it").into());
        }
        let info = document.info.as_ref();
        let rank = info.and_then(|i| i.rank).or_else(|| rank_in(text.file()));
        if rank.is_none() {
            nameless.get_or_insert_with(|| text.file().to_owned());
        }
        if let Some(file) = nameless.as_ref().filter(|_| before > 0) {
            let found = "no rank in distributedInfo, beside files of other ranks";
            let error = InputError::new(file, found, "the process's rank");
            return Err(error
                .hint("or a file name with it, such as rank-3.json")
                .into());
        }
        let rank = rank.unwrap_or(0);
        job.size = job.size.max(info.and_then(|i| i.world_size).unwrap_or(0));
        if !job.file(rank) {
            let found = format!("rank {rank} again");
            return Err(text.error(found, "one file for every rank").into());
        }
        let mut of_rank = OfRank {
            text: &text,
            rank,
            groups: info.map_or(&Value::Null, |i| &i.pg_config),
            shortened: 0,
            rootless: 0,
        };
        for call in &calls {
            of_rank.add(call, &mut job)?;
        }
        shortened += of_rank.shortened;
        rootless += of_rank.rootless;
    }
    job.note(
        u64::from(nameless.is_some()),
        "file that names no rank is taken for that of rank 0",
    );
    job.note(
        rootless,
        "calls have no root in their group: the first member is taken",
    );
    job.lose(
        "of groups whose ranks are shortened in the trace are not in the traffic",
        shortened,
    );
    job.finish(source, rules)
}

/// Reason to leave out calls of which neither size can be read.
const UNKNOWN_SIZE: &str = "of unknown size are not in the traffic";

/// Reason to leave out kernels.
const SIZELESS: &str =
    "in kernels without a size (replayed graphs, symmetric memory) are not in the traffic";

/// Reason to leave out calls of groups that their rank is not in.
const FOREIGN: &str = "of groups without the rank of their file are not in the traffic";

/// The file of a rank.
struct OfRank<'a> {
    text: &'a Text,
    rank: u32,
    groups: &'a Value,
    shortened: u64,
    /// Calls whose root is assumed.
    rootless: u64,
}

impl OfRank<'_> {
    fn add(&mut self, call: &Arguments, job: &mut Job) -> Result<(), ObserveError> {
        let name = call.collective.as_deref().unwrap_or_default();
        let Some(operation) = operation(name) else {
            job.lose(format!("of the unknown kind {name}"), 1);
            return Ok(());
        };
        if operation == Operation::Nothing {
            return Ok(());
        }
        let Some(members) = self.members(call) else {
            self.shortened += 1;
            return Ok(());
        };
        if !members.contains(&self.rank) {
            job.lose(FOREIGN, 1);
            return Ok(());
        }
        let dtype = call.dtype.as_ref().and_then(Value::as_str).unwrap_or("");
        let Some(each) = element(dtype) else {
            job.lose(format!("with elements of the unknown type '{dtype}'"), 1);
            return Ok(());
        };
        let bytes = |value: &Value| Some(whole_value(value)?.saturating_mul(each));
        let sizes = (bytes(&call.input), bytes(&call.output));
        let sizeless = operation == Operation::Collective(Collective::Barrier);
        if sizes == (None, None) && !sizeless {
            job.lose(UNKNOWN_SIZE, 1);
            return Ok(());
        }
        let (input, output) = (sizes.0.unwrap_or(0), sizes.1.unwrap_or(0));
        let message = (input.max(output) as f64, 1);
        let phase = phase(call);
        match operation {
            Operation::Collective(kind) => {
                if let (Collective::Alltoall, Some(parts)) = (kind, parts(&call.split, &members)) {
                    if sizes.0.is_none() {
                        job.lose(UNKNOWN_SIZE, 1);
                        return Ok(());
                    }
                    let all: u64 = parts.iter().sum();
                    for (&to, part) in members.iter().zip(parts) {
                        let share = input as f64 * (part as f64 / all.max(1) as f64);
                        job.sent(&phase, (self.rank, to), (share, 1));
                    }
                    return Ok(());
                }
                let root = whole_value(&call.rank).filter(|&r| r < members.len() as u64);
                let root = root.filter(|_| kind.has_root());
                self.rootless += u64::from(kind.has_root() && root.is_none());
                let root = root.unwrap_or(0) as u32;
                let group = job.group(&members);
                let group = group.ok_or_else(|| self.text.error("groups of a job", "fewer"))?;
                let bytes = size(kind, (input, output), members.len());
                let call = Call {
                    phase,
                    group,
                    kind,
                    root,
                    bytes,
                };
                job.call(call, self.rank, 1);
            }
            Operation::Send => match partner(&call.to) {
                Some(to) => job.sent(&phase, (self.rank, to), message),
                None => job.lose("to an unknown rank are not in the traffic", 1),
            },
            Operation::Receive => match partner(&call.from) {
                Some(from) => job.received(&phase, (from, self.rank), message),
                None => job.lose("from an unknown rank are not in the traffic", 1),
            },
            Operation::Nothing => {}
        }
        Ok(())
    }

    /// World ranks of a call's group: of the configuration, else of the call itself.
    fn members(&self, call: &Arguments) -> Option<Vec<u32>> {
        let named = |group: &&Value| group.get("pg_name") == Some(&call.name);
        let group = self
            .groups
            .as_array()
            .and_then(|all| all.iter().find(named));
        let listed = group.and_then(|g| g.get("ranks")).and_then(Value::as_array);
        let listed: Option<Vec<u32>> = listed.and_then(|l| l.iter().map(partner).collect());
        let count = whole_value(&call.size).unwrap_or(0);
        let whole_group = |l: &Vec<u32>| !l.is_empty() && (count == 0 || l.len() as u64 == count);
        let spaced = || {
            let (start, stride) = (whole_value(&call.start)?, whole_value(&call.stride)?);
            let most = super::MAX_MEMBERS as u64;
            let count = Some(count).filter(|c| (1..=most).contains(c))?;
            let rank = |n: u64| {
                u32::try_from(start.checked_add(n.checked_mul(stride)?)?)
                    .ok()
                    .filter(|r| (*r as usize) < super::MAX_TASKS)
            };
            (0..count).map(rank).collect::<Option<Vec<u32>>>()
        };
        listed
            .filter(whole_group)
            .or_else(|| ranks(call.ranks.as_str()?).filter(whole_group))
            .or_else(spaced)
    }
}

/// The phase of a call: its group's description, else the kind of call.
fn phase(call: &Arguments) -> String {
    let about = call.about.as_str().unwrap_or_default();
    match about {
        "" | "undefined" => call.collective.clone().unwrap_or_default(),
        about => about.to_owned(),
    }
}

fn partner(value: &Value) -> Option<u32> {
    let rank = u32::try_from(whole_value(value)?).ok()?;
    ((rank as usize) < super::MAX_TASKS).then_some(rank)
}

/// The parts of an all-to-all for each member, if they differ.
fn parts(split: &Value, members: &[u32]) -> Option<Vec<u64>> {
    let parts: Vec<u64> = match split {
        Value::String(text) => ranks(text)?.into_iter().map(u64::from).collect(),
        Value::Array(all) => all.iter().map(whole_value).collect::<Option<_>>()?,
        _ => return None,
    };
    (parts.len() == members.len()).then_some(parts)
}
