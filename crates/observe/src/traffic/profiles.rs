//! Profiles of other tools with senders, receivers and sizes: IPM, TAU, mpitrace; and mpiP, which has no receivers.

use super::entries::{Entry, MAX_TASKS, Phases, messages, task};
use super::prof::complete;
use crate::ObserveError;
use crate::text::{Line, Text, decimal, float, words};
use hopbyte_fabric::{Exchange, InputError, Traffic};
use std::collections::BTreeSet;

/// Calls of IPM whose `orank` is a receiver.
const SENDS: [&[u8]; 10] = [
    b"MPI_Send",
    b"MPI_Bsend",
    b"MPI_Ssend",
    b"MPI_Rsend",
    b"MPI_Isend",
    b"MPI_Ibsend",
    b"MPI_Issend",
    b"MPI_Irsend",
    b"MPI_Sendrecv",
    b"MPI_Sendrecv_replace",
];

/// Whether the text is an mpiP report.
pub(super) fn is_mpip(content: &[u8]) -> bool {
    content.starts_with(b"@ mpiP")
}

/// mpiP aggregates by call site: its reports have no receivers.
pub(super) fn refuse_mpip(text: &Text) -> ObserveError {
    text.error("an mpiP report", "a file with senders and receivers")
        .at(1)
        .hint(
            "mpiP aggregates by call site, without receivers; record the job with hopbyte record, Open MPI's monitoring, IPM or TAU",
        )
        .into()
}

/// Whether a text that begins with a tag is an IPM profile.
pub(super) fn is_ipm(text: &Text) -> bool {
    let head = &text.bytes()[..text.bytes().len().min(4096)];
    let names = [&b"<ipm"[..], b"<task ipm_version"];
    names
        .iter()
        .any(|n| memchr::memmem::find(head, n).is_some())
}

/// The value of an attribute of a tag: `bytes="8192"`.
fn attribute<'a>(tag: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let key = [b" ", name.as_bytes(), b"=\""].concat();
    let at = memchr::memmem::find(tag, &key)? + key.len();
    let end = memchr::memchr(b'"', &tag[at..])?;
    Some(&tag[at..at + end])
}

/// IPM's XML: `<task mpi_rank mpi_size>` with `<hent call bytes orank count>`, bytes per call; one file for all
/// tasks, or a file for each. Collective calls name no peer and are skipped.
pub(super) fn ipm(source: &str, texts: &[Text]) -> Result<Traffic, ObserveError> {
    let mut phases = Phases::default();
    let mut ranks = BTreeSet::new();
    let mut tasks = 0;
    for text in texts {
        let mut rank = None;
        for line in text.lines() {
            let mut rest = line.bytes;
            while let Some(at) = memchr::memchr(b'<', rest) {
                rest = &rest[at..];
                let end = memchr::memchr(b'>', rest).unwrap_or(rest.len());
                let tag = &rest[..end];
                rest = &rest[end..];
                if tag.starts_with(b"<task ") || tag.starts_with(b"<taskcopy ") {
                    let word = attribute(tag, "mpi_rank")
                        .ok_or_else(|| text.error_at(line, "a task with its mpi_rank"))?;
                    let new = task(text, line, word, MAX_TASKS)?;
                    if tag.starts_with(b"<taskcopy ") {
                        return Err(text
                            .error_at(line, "every task's own entries")
                            .hint("IPM left out tasks that behave alike; turn clustering off")
                            .into());
                    }
                    if !ranks.insert(new) {
                        let found = format!("rank {new} once more");
                        return Err(text.error(found, "each rank once").at(line.number).into());
                    }
                    let size = attribute(tag, "mpi_size").and_then(decimal);
                    tasks = tasks.max(size.unwrap_or(0) as usize).max(new as usize + 1);
                    rank = Some(new);
                } else if tag.starts_with(b"</task") {
                    rank = None;
                } else if tag.starts_with(b"<hent ") {
                    let entry = hash_entry(text, line, tag, rank)?;
                    if let Some(entry) = entry {
                        tasks = tasks.max(entry.1 as usize + 1);
                        phases.add("point-to-point", entry);
                    }
                }
            }
        }
        if let Some(rank) = rank {
            let found = format!("the end of the file within rank {rank}");
            let error = text.error(found, "</task>");
            return Err(error.hint("the file was cut, or is being written").into());
        }
    }
    complete(source, tasks, &ranks)?;
    phases.finish(source, tasks)
}

/// A send of `<hent call="MPI_Isend" bytes="8192" orank="3" count="10" …>`.
fn hash_entry(
    text: &Text,
    line: Line<'_>,
    tag: &[u8],
    rank: Option<u32>,
) -> Result<Option<Entry>, InputError> {
    if !attribute(tag, "call").is_some_and(|c| SENDS.contains(&c)) {
        return Ok(None);
    }
    let field = |name: &str| {
        attribute(tag, name).ok_or_else(|| text.error_at(line, format!("an entry with {name}")))
    };
    let rank = rank.ok_or_else(|| text.error_at(line, "a task before its entries"))?;
    let to = field("orank")?;
    if to.starts_with(b"-") {
        return Err(text
            .error_in(line, to, "a rank of the world")
            .hint("IPM can write relative ranks; write absolute ones"));
    }
    let size = field("bytes")?;
    let each = decimal(size).ok_or_else(|| text.error_in(line, size, "bytes of one call"))?;
    let count = messages(text, line, field("count")?)?;
    let to = task(text, line, to, MAX_TASKS)?;
    Ok(Some((rank, to, each as f64 * count as f64, count)))
}

/// Whether a first line belongs to a TAU profile: `12 templated_functions_MULTI_TIME`.
pub(super) fn is_tau(content: &[u8]) -> bool {
    let mut words = words(content);
    words.next().and_then(decimal).is_some()
        && words
            .next()
            .is_some_and(|w| w.starts_with(b"templated_functions"))
}

const TAU_EVENT: &[u8] = b"\"Message size sent to node ";

/// TAU profiles written with `TAU_COMM_MATRIX=1`, a file `profile.RANK.0.0` for each rank: events `"Message size sent
/// to node N" calls max min mean …`. The plain event is the sum of the events by call path (`… : a => b`), which
/// count only if there is no plain one.
pub(super) fn tau(source: &str, texts: &[Text]) -> Result<Traffic, ObserveError> {
    let mut phases = Phases::default();
    let mut ranks = BTreeSet::new();
    let mut tasks = 0;
    for text in texts {
        let rank = tau_rank(text.file()).ok_or_else(|| {
            let found = "no rank in the name";
            text.error(found, "profile.RANK.CONTEXT.THREAD, as TAU names it")
        })?;
        ranks.insert(rank);
        tasks = tasks.max(rank as usize + 1);
        let (mut plain, mut by_path): (Vec<Entry>, Vec<Entry>) = (Vec::new(), Vec::new());
        for line in text.lines() {
            let Some(rest) = line.trimmed().strip_prefix(TAU_EVENT) else {
                continue;
            };
            let expected =
                "\"Message size sent to node N\" and its number, largest, smallest and mean";
            let wrong = || text.error_at(line, expected).hint("was the file cut off?");
            let end = memchr::memchr(b'"', rest).ok_or_else(wrong)?;
            let (name, values) = (&rest[..end], &rest[end + 1..]);
            let node = name.split(|&b| b == b' ').next().unwrap_or_default();
            let values: Vec<f64> = words(values).map_while(float).collect();
            let [count, _, _, mean, ..] = values[..] else {
                return Err(wrong().into());
            };
            if count < 0.0 || mean < 0.0 || count > 1e15 {
                return Err(wrong().into());
            }
            let to = task(text, line, node, MAX_TASKS)?;
            tasks = tasks.max(to as usize + 1);
            let entry = (rank, to, count * mean, count as u64);
            if name.len() == node.len() {
                plain.push(entry);
            } else {
                by_path.push(entry);
            }
        }
        let entries = if plain.is_empty() { by_path } else { plain };
        for entry in entries {
            phases.add("point-to-point", entry);
        }
    }
    if phases.is_empty() {
        return Err(InputError::new(
            source,
            "TAU profiles without sizes of messages",
            "events \"Message size sent to node N\"",
        )
        .hint("run with TAU_COMM_MATRIX=1")
        .into());
    }
    complete(source, tasks, &ranks)?;
    phases.finish(source, tasks)
}

/// `profile.17.0.0` is of rank 17.
fn tau_rank(file: &str) -> Option<u32> {
    let name = file.rsplit(['/', ':']).next()?;
    let mut parts = name.strip_prefix("profile.")?.split('.');
    parts
        .next()?
        .parse()
        .ok()
        .filter(|&r| (r as usize) < MAX_TASKS)
}

/// Whether a first line belongs to a pattern file of mpitrace: `MPI rank 3, host n1`.
pub(super) fn is_pattern(content: &[u8]) -> bool {
    content.starts_with(b"MPI rank ") && memchr::memmem::find(content, b", host ").is_some()
}

/// mpitrace's pattern files (`TRACE_SEND_PATTERN=yes`), one per rank: its line, a header, then `dest bytes count
/// host`. Ranks without a file sent nothing, or were not configured to write one.
pub(super) fn patterns(source: &str, texts: &[Text]) -> Result<Traffic, ObserveError> {
    let mut phases = Phases::default();
    let mut ranks = BTreeSet::new();
    let mut tasks = 0;
    for text in texts {
        let mut rank = None;
        for line in text.lines().filter(|l| !l.trimmed().is_empty()) {
            let words: Vec<&[u8]> = line.words().collect();
            match (rank, &words[..]) {
                (None, [b"MPI", b"rank", word, b"host", ..]) => {
                    let word = word.strip_suffix(b",").unwrap_or(word);
                    let own = task(text, line, word, MAX_TASKS)?;
                    ranks.insert(own);
                    tasks = tasks.max(own as usize + 1);
                    rank = Some(own);
                }
                (Some(_), [b"dest", ..]) => {}
                (Some(own), [to, size, count, ..]) => {
                    let to = task(text, line, to, MAX_TASKS)?;
                    tasks = tasks.max(to as usize + 1);
                    let size = super::entries::bytes(text, line, size)?;
                    phases.add(
                        "point-to-point",
                        (own, to, size, messages(text, line, count)?),
                    );
                }
                _ => {
                    let expected = "MPI rank R, host NAME, then dest bytes count host";
                    return Err(text.error_at(line, expected).into());
                }
            }
        }
    }
    complete(source, tasks, &ranks)?;
    phases.finish(source, tasks)
}

/// Numbers of mpitrace's binary `send_bytes.sparse.JOB`: ranks, then for each rank its peers, each with bytes (a
/// float), messages, rank and padding. `None` for any other content.
pub(super) fn sparse(text: &Text) -> Option<Result<Traffic, ObserveError>> {
    let content = text.bytes();
    let word = |at: usize| -> Option<[u8; 4]> { content.get(at..at + 4)?.try_into().ok() };
    let tasks = u32::from_le_bytes(word(0)?) as usize;
    // Every rank takes at least the count of its peers.
    if tasks == 0 || tasks > MAX_TASKS || content.len() < 4 + 4 * tasks {
        return None;
    }
    let mut entries: Vec<Entry> = Vec::new();
    let mut at = 4;
    for from in 0..tasks as u32 {
        let partners = u32::from_le_bytes(word(at)?);
        at += 4;
        for _ in 0..partners {
            let size = f64::from(f32::from_le_bytes(word(at)?));
            let count = u32::from_le_bytes(word(at + 4)?);
            let to = u32::from_le_bytes(word(at + 8)?);
            if to as usize >= tasks || !(size.is_finite() && size >= 0.0) {
                return None;
            }
            entries.push((from, to, size, u64::from(count)));
            at += 16;
        }
    }
    if at != content.len() {
        return None;
    }
    let exchange = Exchange::new(tasks, entries).map_err(ObserveError::from);
    Some(exchange.map(|e| Traffic::single(text.file(), e)))
}
