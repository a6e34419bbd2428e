//! Logs of NCCL's Inspector (`plugins/profiler/inspector`): JSON lines, a file per process.
//!
//! Ranks are those of a communicator. The largest communicator gives the job's ranks; a process is its host and process
//! number, so that its ranks in other communicators become ranks of the job. Formats up to 4.2 repeat communicator and
//! process on every line, 4.3 writes them once before their calls. Sizes are those of the call's argument `count`: the
//! vector of an all-reduce, the block of a rank of an all-gather or reduce-scatter.

use super::names::{Operation, operation};
use super::{Call, Job, OUTSIDE, Texts};
use crate::ObserveError;
use crate::text::Text;
use hopbyte_fabric::Traffic;
use hopbyte_fabric::collective::{Algorithm, Algorithms, Collective};
use memchr::memmem;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Whether a text is such a log.
pub(in super::super) fn is(text: &Text) -> bool {
    let Some(first) = text.lines().find(|l| !l.trimmed().is_empty()) else {
        return false;
    };
    let has = |key: &str| memmem::find(first.bytes, key.as_bytes()).is_some();
    first.trimmed().starts_with(b"{")
        && (has("\"inspector_output_format_version\"")
            || (has("\"header\"") && has("\"n_ranks\"") && has("\"comm_name\"")))
}

#[derive(Deserialize)]
struct LogRow {
    header: Option<Header>,
    metadata: Option<Metadata>,
    coll_perf: Option<Collected>,
    p2p_perf: Option<Message>,
    dump_stats: Option<Value>,
}

#[derive(Clone, Deserialize)]
struct Header {
    id: Value,
    #[serde(default)]
    comm_name: String,
    rank: u32,
    n_ranks: u32,
}

#[derive(Clone, Deserialize)]
struct Metadata {
    hostname: String,
    pid: u64,
}

#[derive(Deserialize)]
struct Collected {
    coll: String,
    coll_algo: Option<String>,
    coll_sn: Option<u64>,
    coll_msg_size_bytes: u64,
    coll_busbw_gbs: Option<f64>,
}

#[derive(Deserialize)]
struct Message {
    p2p: String,
    p2p_peer: u32,
    p2p_msg_size_bytes: u64,
}

/// A process: host and process number.
type Process = (String, u64);

/// A communicator.
#[derive(Default)]
struct Communicator {
    name: String,
    size: u32,
    /// The process of each rank with a file; several ranks of a process are not told apart.
    processes: BTreeMap<u32, Process>,
    /// Calls by rank, kind and size.
    calls: BTreeMap<(u32, String, u64), u64>,
    /// Messages by rank, kind, partner and size.
    messages: BTreeMap<(u32, String, u32, u64), u64>,
    /// Lowest and highest number of a rank's collective calls, and their count.
    numbers: BTreeMap<u32, (u64, u64, u64)>,
    /// Bus bandwidths by kind, algorithm and size, if they are asked for.
    speeds: BTreeMap<(String, String, u64), Vec<f32>>,
}

/// Communicators with the job's ranks of their members.
type Members<'a> = Vec<(&'a Communicator, Vec<u32>)>;

/// Operation, algorithm, bytes and ranks of calls.
type Kind<'a> = (Collective, &'a str, u64, u32);

/// All logs of a job.
#[derive(Default)]
struct Logs {
    communicators: BTreeMap<String, Communicator>,
    /// Algorithms of each collective.
    algorithms: BTreeMap<Collective, BTreeSet<String>>,
    dropped: u64,
    /// Whether bus bandwidths are kept.
    speeds: bool,
}

/// Collective calls of one kind and size in the communicators that make them, as NCCL's Inspector measured them.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The operation.
    pub collective: Collective,
    /// NCCL's algorithm (`RING`, `TREE`, `NVLS_TREE`), if the logs have it.
    pub algorithm: Option<String>,
    /// Size of the call as the expander takes it: the vector, or the block of a rank.
    pub bytes: u64,
    /// Ranks of the job in each communicator.
    pub groups: Vec<Vec<u32>>,
    /// Measurements of all ranks.
    pub calls: usize,
    /// Their median bus bandwidth, bytes per second.
    pub bus_bytes_per_s: f64,
}

/// What NCCL's Inspector measured in a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measurement {
    /// Host of every rank of the job; `None` for ranks without a log.
    pub hosts: Vec<Option<String>>,
    /// By collective, algorithm, size and number of ranks.
    pub collectives: Vec<Measured>,
    /// Calls without a bus bandwidth, of unknown kinds, or of communicators whose ranks are not known.
    pub left_out: usize,
}

/// Reads the measurements of a job's logs: a file, a folder or a pattern.
///
/// # Errors
/// Files that are no such logs.
pub fn measurement(path: &str) -> Result<Measurement, ObserveError> {
    let mut logs = Logs {
        speeds: true,
        ..Logs::default()
    };
    for text in super::super::files::Files::open(path)? {
        let text = text?;
        if !is(&text) {
            let expected = "logs of NCCL's Inspector (JSON lines with header and metadata)";
            return Err(text.error("another format", expected).into());
        }
        logs.file(&text)?;
    }
    logs.measured(path)
}

pub(in super::super) fn read(
    source: &str,
    texts: Texts<'_>,
    rules: &Algorithms,
) -> Result<Traffic, ObserveError> {
    let mut logs = Logs::default();
    for text in texts {
        logs.file(&text?)?;
    }
    let mut rules = rules.clone();
    for (&kind, names) in &logs.algorithms {
        let Some(name) = names.first().filter(|_| names.len() == 1) else {
            continue;
        };
        let known = match name.as_str() {
            "RING" => Some(Algorithm::Ring),
            "TREE" => Some(Algorithm::Tree),
            _ => None,
        };
        if let Some(algorithm) = known.filter(|a| kind.algorithm(a.name()).is_some()) {
            rules = rules.recorded(kind, algorithm);
        }
    }
    logs.job(source)?.finish(source, &rules)
}

impl Logs {
    fn file(&mut self, text: &Text) -> Result<(), ObserveError> {
        let mut of: Option<(Header, Metadata)> = None;
        for line in text.lines().filter(|l| !l.trimmed().is_empty()) {
            let row: LogRow = serde_json::from_slice(line.trimmed()).map_err(|e| {
                let error = text.error(e.to_string(), "a line of NCCL's Inspector");
                let hint = "the last line of a running job may be cut: copy the file again";
                error.at(line.number).hint(hint)
            })?;
            if let Some(header) = row.header {
                let metadata = row.metadata.or_else(|| of.take().map(|o| o.1));
                of = metadata.map(|m| (header, m));
            }
            let Some((header, process)) = &of else {
                let expected = "communicator and process (header, metadata) before calls";
                return Err(text.error_at(line, expected).into());
            };
            let most = super::MAX_TASKS as u32;
            if header.rank >= header.n_ranks || header.n_ranks > most {
                let found = format!("rank {} of {}", header.rank, header.n_ranks);
                let expected = format!("a rank of at most {most}");
                return Err(text.error(found, expected).at(line.number).into());
            }
            if let Some(stats) = &row.dump_stats {
                self.dropped = self.dropped.saturating_add(dropped(stats));
            }
            let id = match &header.id {
                Value::String(id) => id.clone(),
                other => other.to_string(),
            };
            let comm = self.communicators.entry(id).or_default();
            comm.name.clone_from(&header.comm_name);
            comm.size = comm.size.max(header.n_ranks);
            let own = (process.hostname.clone(), process.pid);
            comm.processes.entry(header.rank).or_insert(own);
            if let Some(call) = row.coll_perf {
                comm.call(header.rank, &call);
                if self.speeds {
                    let key = (
                        call.coll.clone(),
                        call.coll_algo.clone().unwrap_or_default(),
                        call.coll_msg_size_bytes,
                    );
                    let speed = call.coll_busbw_gbs.filter(|s| s.is_finite() && *s > 0.0);
                    comm.speeds
                        .entry(key)
                        .or_default()
                        .push(speed.unwrap_or(0.0) as f32);
                }
                if let (Some(Operation::Collective(kind)), Some(name)) =
                    (operation(&call.coll), call.coll_algo)
                {
                    self.algorithms.entry(kind).or_default().insert(name);
                }
            }
            if let Some(message) = row.p2p_perf {
                let key = (
                    header.rank,
                    message.p2p,
                    message.p2p_peer,
                    message.p2p_msg_size_bytes,
                );
                *comm.messages.entry(key).or_default() += 1;
            }
        }
        Ok(())
    }

    /// The largest communicator, whose ranks are those of the job, and the ranks of the job in each.
    fn world(&self, source: &str) -> Result<(&Communicator, Members<'_>), ObserveError> {
        let world = self
            .communicators
            .values()
            .max_by_key(|c| (c.size, c.calls.len()));
        let Some(world) = world else {
            let found = "no communicator";
            return Err(hopbyte_fabric::InputError::new(source, found, "logs of a job").into());
        };
        let mut rank_of: BTreeMap<&Process, Option<u32>> = BTreeMap::new();
        for (&rank, process) in &world.processes {
            let known = rank_of.entry(process).or_insert(Some(rank));
            if *known != Some(rank) {
                *known = None; // several GPUs of one process
            }
        }
        let members = self.communicators.values().map(|comm| {
            let all = std::ptr::eq(comm, world);
            let members: Vec<u32> = (0..comm.size)
                .map(|rank| match comm.processes.get(&rank) {
                    _ if all => rank,
                    Some(process) => rank_of.get(process).copied().flatten().unwrap_or(OUTSIDE),
                    None => OUTSIDE,
                })
                .collect();
            (comm, members)
        });
        Ok((world, members.collect()))
    }

    /// The measured bus bandwidths.
    fn measured(self, source: &str) -> Result<Measurement, ObserveError> {
        let (world, all) = self.world(source)?;
        let host = |rank: u32| world.processes.get(&rank).map(|p| p.0.clone());
        let mut found = Measurement {
            hosts: (0..world.size).map(host).collect(),
            ..Measurement::default()
        };
        let mut kinds: BTreeMap<Kind<'_>, (Vec<Vec<u32>>, Vec<f32>)> = BTreeMap::new();
        for (comm, members) in all {
            for ((name, algorithm, bytes), speeds) in &comm.speeds {
                let kind = match operation(name) {
                    Some(Operation::Collective(kind)) if !members.contains(&OUTSIDE) => kind,
                    _ => {
                        found.left_out += speeds.len();
                        continue;
                    }
                };
                let known = speeds.iter().copied().filter(|&s| s > 0.0);
                found.left_out += speeds.len() - known.clone().count();
                let own = kinds
                    .entry((kind, algorithm.as_str(), *bytes, comm.size))
                    .or_default();
                own.1.extend(known);
                own.0.push(members.clone());
            }
        }
        for ((collective, algorithm, bytes, _), (groups, mut speeds)) in kinds {
            let calls = speeds.len();
            if calls == 0 {
                continue;
            }
            speeds.sort_unstable_by(f32::total_cmp);
            let median = f64::from(speeds[(calls - 1) / 2]).midpoint(f64::from(speeds[calls / 2]));
            found.collectives.push(Measured {
                collective,
                algorithm: Some(algorithm.to_owned()).filter(|a| !a.is_empty()),
                bytes,
                groups,
                calls,
                bus_bytes_per_s: median * 1e9,
            });
        }
        Ok(found)
    }

    /// The calls with the ranks of the job.
    fn job(self, source: &str) -> Result<Job, ObserveError> {
        let mut job = Job::default();
        let (world, all) = self.world(source)?;
        job.size = world.size as usize;
        for &rank in world.processes.keys() {
            job.file(rank);
        }
        let widest = world.size;
        for (comm, members) in all {
            comm.add(&members, &mut job);
        }
        let gaps: u64 = self.communicators.values().map(Communicator::gaps).sum();
        if self.dropped > 0 {
            job.lose(
                "were dropped by the Inspector before they were written",
                self.dropped,
            );
        }
        if gaps > 0 {
            job.notes.push(format!(
                "{gaps} collective calls are not in the logs: below NCCL_INSPECTOR_DUMP_MIN_SIZE_BYTES, or dropped"
            ));
        }
        job.notes.push(format!(
            "ranks are those of the communicator with {widest} ranks, the largest of {}",
            self.communicators.len()
        ));
        Ok(job)
    }
}

impl Communicator {
    fn call(&mut self, rank: u32, call: &Collected) {
        let key = (rank, call.coll.clone(), call.coll_msg_size_bytes);
        *self.calls.entry(key).or_default() += 1;
        if let Some(number) = call.coll_sn {
            let of = self.numbers.entry(rank).or_insert((number, number, 0));
            *of = (of.0.min(number), of.1.max(number), of.2 + 1);
        }
    }

    /// Number of calls that are missing between the first and the last, of the rank with the most.
    fn gaps(&self) -> u64 {
        let gap = |&(low, high, count): &(u64, u64, u64)| (high - low + 1).saturating_sub(count);
        self.numbers.values().map(gap).max().unwrap_or(0)
    }

    /// Adds the calls of a communicator with these members.
    fn add(&self, members: &[u32], job: &mut Job) {
        let phase = |kind: &str| match self.name.as_str() {
            "" | "unknown" => kind.to_owned(),
            name => name.to_owned(),
        };
        let Some(group) = job.group(members) else {
            job.lose("in too many groups are not in the traffic", 1);
            return;
        };
        for ((at, name, bytes), &count) in &self.calls {
            let rank = members[*at as usize];
            match operation(name) {
                Some(Operation::Collective(kind)) if rank != OUTSIDE => {
                    let call = Call {
                        phase: phase(name),
                        group,
                        kind,
                        root: 0,
                        bytes: *bytes,
                    };
                    job.call(call, rank, count);
                }
                Some(_) => job.lose(LONE, count),
                None => job.lose(format!("of the unknown kind {name}"), count),
            }
        }
        for ((at, name, peer, bytes), &count) in &self.messages {
            let rank = members[*at as usize];
            let peer = members.get(*peer as usize).copied().unwrap_or(OUTSIDE);
            if rank == OUTSIDE || peer == OUTSIDE {
                job.lose(LONE, count);
                continue;
            }
            let sum = (*bytes as f64 * count as f64, count);
            let phase = phase("messages");
            match operation(name) {
                Some(Operation::Send) => job.sent(&phase, (rank, peer), sum),
                Some(Operation::Receive) => job.received(&phase, (peer, rank), sum),
                _ => job.lose(format!("of the unknown kind {name}"), count),
            }
        }
    }
}

/// Reason for the loss of calls of a process without a rank of its own in the largest communicator.
const LONE: &str =
    "of processes that the largest communicator does not tell apart are not in the traffic";

/// Calls that were dropped since the dump before, as `dump_stats` says.
fn dropped(stats: &Value) -> u64 {
    match stats {
        Value::Object(all) => all
            .iter()
            .map(|(key, value)| match value.as_u64() {
                Some(count) if key.ends_with("dropped_since_last_dump") => count,
                _ => dropped(value),
            })
            .fold(0, u64::saturating_add),
        _ => 0,
    }
}
