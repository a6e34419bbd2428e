//! Ranks of a running training job from NCCL's own output: `NCCL_DEBUG=INFO` logs, and the header of nccl-tests.

use super::places::Places;
use crate::text::{Line, Text, decimal_u32, lossy};
use hopbyte_fabric::{Fabric, InputError};
use std::collections::BTreeMap;

/// Number of lines within which a table is recognised.
const HEAD: usize = 4096;

/// Whether a text is a log with lines of NCCL's. Programs print much before the set-up. nccl-tests list every rank
/// themselves, whatever lines of the log follow.
pub(super) fn is_log(text: &Text) -> bool {
    let marked = |l: Line<'_>| memchr::memmem::find(l.bytes, b" NCCL INFO ").is_some();
    let is_whole = || text.lines().any(|l| begun(l).is_some());
    text.lines().any(marked) && (!is_table(text) || is_whole())
}

/// Whether a text is the output of nccl-tests.
pub(super) fn is_table(text: &Text) -> bool {
    text.lines().take(HEAD).any(|l| device(l).is_some())
}

/// A rank, its host and its GPU.
struct Seat<'a> {
    line: Line<'a>,
    rank: u32,
    host: &'a [u8],
    gpu: Option<u32>,
}

/// The number behind a word.
fn after(words: &[&[u8]], name: &[u8]) -> Option<u32> {
    let at = words.iter().position(|w| *w == name)?;
    decimal_u32(words.get(at + 1)?)
}

/// `# Rank 3 Group 0 Pid 81 on HOST device 3 [0x07] NAME`, the group since 2.13.
fn device(line: Line<'_>) -> Option<Seat<'_>> {
    // A launcher may write words of its own in front of the line.
    let start = memchr::memchr(b'#', line.bytes)?;
    let words: Vec<&[u8]> = crate::text::words(&line.bytes[start + 1..]).collect();
    if words.first() != Some(&&b"Rank"[..]) {
        return None;
    }
    let on = words.iter().position(|w| *w == b"on")?;
    Some(Seat {
        line,
        rank: after(&words, b"Rank")?,
        host: words.get(on + 1)?,
        gpu: after(&words, b"device"),
    })
}

/// Reads the header of nccl-tests.
pub(super) fn table<'a>(text: &Text, fabric: &'a Fabric) -> Result<Places<'a>, InputError> {
    let mut places = Places::of(fabric);
    let mut seen: BTreeMap<u32, Seat<'_>> = BTreeMap::new();
    for seat in text.lines().filter_map(device) {
        let spot = places.node(text, seat.line, seat.host)?;
        let rank = checked(text, &seat)?;
        // Outputs of several runs of one job: each has the header.
        if let Some(before) = seen.get(&rank) {
            if (before.host, before.gpu) == (seat.host, seat.gpu) {
                continue;
            }
            let expected = format!(
                "the host and GPU of rank {rank} as on line {}",
                before.line.number
            );
            let error = text.error_at(seat.line, expected);
            return Err(error.hint("outputs of several jobs? give that of one"));
        }
        seen.insert(rank, Seat { ..seat });
        places.add(text, seat.line, rank, (spot, seat.gpu))?;
    }
    Ok(places)
}

/// `HOST:PID:TID [0] NCCL INFO ncclCommInitRank comm 0x… rank 3 nranks 16 cudaDev 3 nvmlDev 3 … commId 0x… - Init …`:
/// the size and name of the communicator, and the seat.
fn begun(line: Line<'_>) -> Option<((u32, Vec<u8>), Seat<'_>)> {
    let words: Vec<&[u8]> = line.words().collect();
    let mark = words.windows(2).position(|w| w == [b"NCCL", b"INFO"])?;
    let host = host_of(&words[..mark])?;
    let words = &words[mark + 2..];
    let (rank, size) = (after(words, b"rank")?, after(words, b"nranks")?);
    let id = words.iter().position(|w| *w == b"commId");
    let id = id.and_then(|at| words.get(at + 1)).map_or(&b""[..], |w| w);
    let gpu = after(words, b"nvmlDev").or_else(|| after(words, b"cudaDev"));
    let seat = Seat {
        line,
        rank,
        host,
        gpu,
    };
    Some(((size, id.to_vec()), seat))
}

/// The host of the words before `NCCL INFO`: that of `HOST:PID:TID [0]`. Launchers write words of theirs before it, some
/// without a space (`[1,0]<stdout>:HOST:…`, `0:HOST:…`), and NCCL a time since 2.25.
fn host_of<'a>(before: &[&'a [u8]]) -> Option<&'a [u8]> {
    let process = match before {
        [.., process, device] if device.first() == Some(&b'[') => process,
        [.., process] => process,
        [] => return None,
    };
    let is_number = |w: &&[u8]| decimal_u32(w).is_some();
    let mut parts = process.rsplitn(3, |&b| b == b':');
    for _ in ["thread", "process"] {
        parts.next().filter(is_number)?;
    }
    let glued = parts.next()?;
    // No character of a host's name ends a launcher's prefix.
    let is_name = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    let start = glued
        .iter()
        .rposition(|b| !is_name(b))
        .map_or(0, |at| at + 1);
    Some(&glued[start..]).filter(|h| !h.is_empty())
}

/// Reads a log: the ranks of the largest communicator, the first of them if there are several.
pub(super) fn log<'a>(text: &Text, fabric: &'a Fabric) -> Result<Places<'a>, InputError> {
    let mut order: Vec<(u32, Vec<u8>)> = Vec::new();
    let mut all: BTreeMap<(u32, Vec<u8>), BTreeMap<u32, Seat<'_>>> = BTreeMap::new();
    for (comm, seat) in text.lines().filter_map(begun) {
        if !all.contains_key(&comm) {
            order.push(comm.clone());
        }
        let ranks = all.entry(comm).or_default();
        // Every rank is named at the start and at the end of its set-up.
        if let Some(before) = ranks.get(&seat.rank) {
            if before.host != seat.host {
                let found = format!("rank {} on {}", seat.rank, lossy(seat.host));
                let expected = format!("{}, as in line {}", lossy(before.host), before.line.number);
                let error = text.error(found, expected).at(seat.line.number);
                return Err(error.hint("logs of several jobs? give those of one"));
            }
            continue;
        }
        ranks.insert(seat.rank, seat);
    }
    let largest = order.iter().map(|c| c.0).max();
    let Some(world) = order.iter().find(|c| Some(c.0) == largest) else {
        let error = text.error("no line of ncclCommInitRank", "NCCL's set-up of the job");
        return Err(error.hint("run with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT (the default)"));
    };
    let (size, ranks) = (world.0, &all[world]);
    if ranks.len() != size as usize {
        if is_table(text) {
            return table(text, fabric);
        }
        let found = format!("{} of {size} ranks", ranks.len());
        let error = text.error(found, "the set-up of every rank");
        return Err(error.hint("put the logs of all processes into one file"));
    }
    let mut places = Places::of(fabric);
    for seat in ranks.values() {
        let spot = places.node(text, seat.line, seat.host)?;
        let rank = checked(text, seat)?;
        places.add(text, seat.line, rank, (spot, seat.gpu))?;
    }
    Ok(places)
}

fn checked(text: &Text, seat: &Seat<'_>) -> Result<u32, InputError> {
    let known = Some(seat.rank).filter(|&r| (r as usize) < crate::traffic::MAX_TASKS);
    known.ok_or_else(|| text.error_at(seat.line, "a rank of a job"))
}
