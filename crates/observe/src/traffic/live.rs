//! Counts of ranks that ended without closing their record (`mpi/FORMAT.md`, "A rank that was killed").
//!
//! A running rank counts into a file mapped into its memory, `rank.N.hbr.PID.live`, and appends phases, groups and full
//! tables to `rank.N.hbr.PID.tmp`. Both stay behind when it is killed. [`recover`] makes of them the text of the
//! `rank.N.hbr` that the rank would have written, with the cause of its end.

use crate::ObserveError;
use crate::text::{Limits, Text, lossy};
use hopbyte_fabric::InputError;
use rustix::fs::{FlockOperation, fcntl_lock};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Maximum size in bytes of a file of counts: its tables double, and threads have 2 KiB each.
const MAX_BYTES: u64 = 1 << 30;
const TEXT: Limits = Limits {
    binary: true,
    ..Limits::ROWS
};

/// Offsets of the header's fields, in bytes: `struct hopbyte_live` in `mpi/record/record.h`.
mod at {
    pub const ORDER: usize = 16;
    pub const CURRENT: usize = 24;
    pub const STATES: usize = 32;
    pub const MOVE: usize = 96;
    pub const CAUSE: usize = 176;
    pub const TALLIES: usize = 240;
    pub const CALLS: usize = TALLIES + 16 * super::PIECES;
    pub const THREADS: usize = CALLS + 24;
}
const MAGIC: &[u8; 16] = b"hopbyte-live 1\0\0";
const ORDER: u64 = 0x0102_0304_0506_0708;
const PIECES: usize = 24;
const PHASES: usize = 4096;
/// Bytes of an entry (key, size, bytes, messages), and of a thread's entries.
const ITEM: usize = 32;
const BLOCK: usize = 64 * ITEM;
const ROUNDED: u64 = 1 << 63;
/// How a collective was called: bits of its size, with their words.
const HOW: [(u64, &str); 4] = [
    (1 << 62, "nonblocking"),
    (1 << 61, "persistent"),
    (1 << 60, "ordered"),
    (1 << 59, "in_place"),
];
const EXACT: u64 = (1 << 59) - 1;

/// Names of kinds, by number: `enum hopbyte_kind`.
const KINDS: [&str; 29] = [
    "-",
    "barrier",
    "bcast",
    "reduce",
    "allreduce",
    "scan",
    "exscan",
    "gather",
    "gatherv",
    "scatter",
    "scatterv",
    "allgather",
    "allgatherv",
    "alltoall",
    "alltoallv",
    "alltoallw",
    "reduce_scatter",
    "reduce_scatter_block",
    "neighbor_allgather",
    "neighbor_allgatherv",
    "neighbor_alltoall",
    "neighbor_alltoallv",
    "neighbor_alltoallw",
    "put",
    "get",
    "accumulate",
    "get_accumulate",
    "fetch_and_op",
    "compare_and_swap",
];

/// Signals whose names are written; others by number.
const SIGNALS: [(u64, &str); 9] = [
    (1, "SIGHUP"),
    (2, "SIGINT"),
    (4, "SIGILL"),
    (6, "SIGABRT"),
    (7, "SIGBUS"),
    (8, "SIGFPE"),
    (11, "SIGSEGV"),
    (15, "SIGTERM"),
    (24, "SIGXCPU"),
];

/// Path of the record that a file of counts belongs to: without the process and the extension.
pub fn record_of(live: &Path) -> Option<PathBuf> {
    if live.extension()? != "live" {
        return None;
    }
    let record = live.with_extension("").with_extension("");
    (record.extension()? == "hbr").then_some(record)
}

/// Path for the completed record of a file of counts, which is another if the record of another job has its name; `None`
/// if the rank completed it.
pub fn record_for(live: &Path) -> Option<PathBuf> {
    let record = record_of(live)?;
    if !record.exists() {
        return Some(record);
    }
    let counting = live.with_extension("");
    let process = counting.extension()?.to_str()?;
    let other = record.with_extension(format!("{process}.hbr"));
    let theirs = process_of(&record).is_some_and(|p| p != process);
    (theirs && !other.exists()).then_some(other)
}

/// The process of a record, from its header.
fn process_of(record: &Path) -> Option<String> {
    const HEAD: u64 = 4096;
    let mut head = Vec::new();
    let file = crate::text::open(record).ok()?;
    file.take(HEAD).read_to_end(&mut head).ok()?;
    let head = lossy(&head);
    let mut lines = head.lines();
    lines.find_map(|l| l.strip_prefix("pid\t").map(str::to_owned))
}

/// Files of counts in a folder whose records were not completed, in order of their names.
///
/// # Errors
/// The folder cannot be read.
pub fn left_behind(folder: &Path) -> Result<Vec<PathBuf>, ObserveError> {
    let io = |e| ObserveError::io(folder, e);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if record_for(&path).is_some() {
            found.push(path);
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// Whether the rank that counts into a file still runs, as far as the file system has locks.
///
/// # Errors
/// The file cannot be opened.
pub fn is_running(live: &Path) -> Result<bool, ObserveError> {
    let file = crate::text::open(live).map_err(|e| ObserveError::io(live, e))?;
    let locked = fcntl_lock(&file, FlockOperation::NonBlockingLockShared);
    Ok(matches!(
        locked,
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::ACCESS)
    ))
}

/// The record of a rank that did not complete it, from its file of counts and the text beside it.
///
/// # Errors
/// The rank still runs, a file cannot be read, or is damaged.
pub fn recover(live: &Path) -> Result<Text, ObserveError> {
    let name = live.display().to_string();
    if is_running(live)? {
        return Err(
            InputError::new(name, "a rank that is still running", "one that ended")
                .hint("wait until the job has ended")
                .into(),
        );
    }
    let io = |e| ObserveError::io(live, e);
    let file = crate::text::open(live).map_err(io)?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(io)?;
    let text = Text::read(&live.with_extension("tmp"), TEXT)?;
    let record = complete(&name, bytes, &text)?;
    let record_name = record_of(live).unwrap_or_else(|| live.to_owned());
    Text::from_bytes(record_name.display().to_string(), record.as_bytes(), TEXT)
}

/// The text of the completed record.
fn complete(name: &str, bytes: Vec<u8>, text: &Text) -> Result<String, InputError> {
    let mut counts = Counts::new(name, bytes)?;
    counts.finish_move()?;
    let state = counts.state()?;
    let written = usize::try_from(state.text)
        .ok()
        .and_then(|n| text.bytes().get(..n))
        .filter(|bytes| bytes.starts_with(b"# hopbyte-record 2\n") && bytes.ends_with(b"\n"));
    let Some(written) = written else {
        let found = format!("{} bytes", text.bytes().len());
        let expected = format!("{} bytes of lines, as {name} counted", state.text);
        return Err(text.error(found, expected));
    };
    let mut record = lossy(written).into_owned();
    let groups = definitions(&record, "group\t");
    let phases = definitions(&record, "phase\t").len();
    for (key, [size, bytes, messages]) in counts.items(&state)? {
        let line = Key(key).line(size, bytes, messages, &groups);
        let line = line.filter(|_| Key(key).phase() < phases);
        let expected = "entries with a phase and kind that are defined";
        let Some(line) = line else {
            return Err(counts.wrong(format!("key {key:016x}"), expected));
        };
        record.push_str(&line);
    }
    counts.trailer(phases, &mut record)?;
    let _ = writeln!(record, "end\t{}", record.lines().count());
    Ok(record)
}

/// Second fields of the lines that define phases or groups, in their order.
fn definitions(record: &str, start: &str) -> Vec<String> {
    let ids = record.lines().filter_map(|l| l.strip_prefix(start));
    ids.filter_map(|l| Some(l.split('\t').next()?.to_owned()))
        .collect()
}

/// Numbers and names of the functions that were called.
fn definitions_of_calls(record: &str) -> Vec<(usize, String)> {
    let lines = record.lines().filter_map(|l| l.strip_prefix("call\t"));
    lines
        .filter_map(|l| {
            let (number, name) = l.split_once('\t')?;
            Some((number.parse().ok().filter(|&n| n < 1024)?, name.to_owned()))
        })
        .collect()
}

/// Key of an entry: phase 12 bits, class 3, kind 5, group 16, world rank + 1 28 bits.
#[derive(Clone, Copy)]
struct Key(u64);

impl Key {
    fn phase(self) -> usize {
        (self.0 >> 52) as usize
    }

    /// The line of a count; `None` if the class or kind is unknown.
    fn line(self, size: u64, bytes: u64, messages: u64, groups: &[String]) -> Option<String> {
        let phase = self.phase();
        let kind = KINDS.get((self.0 >> 44 & 31) as usize)?;
        let group = groups.get((self.0 >> 28 & 0xffff) as usize);
        let group = group.map_or("-", String::as_str);
        let rank = (self.0 & 0xfff_ffff) as i64 - 1;
        Some(match self.0 >> 49 & 7 {
            1 => format!("P\t{phase}\t{rank}\t{bytes}\t{messages}\n"),
            2 => format!("C\t{phase}\t{group}\t{kind}\t{rank}\t{bytes}\t{messages}\n"),
            class @ (3 | 6) => {
                let how = HOW.iter().filter(|(bit, _)| size & bit != 0);
                let how = how.map(|h| h.1).collect::<Vec<_>>().join(",");
                let size = match (class, size & ROUNDED) {
                    (6, _) => "-".to_owned(),
                    (_, 0) => (size & EXACT).to_string(),
                    _ => format!("~{}", size & EXACT),
                };
                let start = if how.is_empty() { "" } else { "\t" };
                format!(
                    "K\t{phase}\t{group}\t{kind}\t{rank}\t{size}\t{bytes}\t{messages}{start}{how}\n"
                )
            }
            4 => format!("R\t{phase}\t{kind}\tout\t{rank}\t{bytes}\t{messages}\n"),
            5 => format!("R\t{phase}\t{kind}\tin\t{rank}\t{bytes}\t{messages}\n"),
            _ => return None,
        })
    }
}

struct State {
    text: u64,
    table: u64,
    room: u64,
    emptied: bool,
}

/// A file of counts.
struct Counts<'a> {
    name: &'a str,
    bytes: Vec<u8>,
}

impl<'a> Counts<'a> {
    fn new(name: &'a str, bytes: Vec<u8>) -> Result<Self, InputError> {
        let counts = Self { name, bytes };
        if counts.bytes.len() as u64 > MAX_BYTES {
            return Err(counts.wrong("a larger file", format!("at most {MAX_BYTES} bytes")));
        }
        if !counts.bytes.starts_with(MAGIC) {
            return Err(counts.wrong("another start", "the counts of a rank (hopbyte-live 1)"));
        }
        if counts.number(at::ORDER)? != ORDER {
            return Err(counts.wrong("another byte order", "that of this machine"));
        }
        Ok(counts)
    }

    fn wrong(&self, found: impl AsRef<str>, expected: impl Into<String>) -> InputError {
        InputError::new(self.name, found, expected)
    }

    /// The number at an offset.
    fn number(&self, at: usize) -> Result<u64, InputError> {
        let cell = at.checked_add(8).and_then(|end| self.bytes.get(at..end));
        let cell = cell.and_then(|c| c.try_into().ok());
        cell.map(u64::from_ne_bytes).ok_or_else(|| {
            let found = format!("{} bytes", self.bytes.len());
            self.wrong(found, format!("a number at byte {at}"))
                .hint("was the file copied while it was written?")
        })
    }

    fn seconds(&self, at: usize) -> Result<f64, InputError> {
        Ok(f64::from_bits(self.number(at)?))
    }

    fn state(&self) -> Result<State, InputError> {
        let current = self.number(at::CURRENT)?;
        if current > 1 {
            return Err(self.wrong(format!("state {current}"), "state 0 or 1"));
        }
        let base = at::STATES + 32 * current as usize;
        Ok(State {
            text: self.number(base)?,
            table: self.number(base + 8)?,
            room: self.number(base + 16)?,
            emptied: self.number(base + 24)? != 0,
        })
    }

    /// Completes the move of a slot's counts to the table during which the process was killed.
    fn finish_move(&mut self) -> Result<(), InputError> {
        if self.number(at::MOVE)? == 0 {
            return Ok(());
        }
        let entry = self.number(at::MOVE + 8)?;
        let slot = self.number(at::MOVE + 16)?;
        let item = self.bytes[at::MOVE + 48..at::MOVE + 80].to_vec();
        let mut fresh = [0; ITEM];
        fresh[..16].copy_from_slice(&self.bytes[at::MOVE + 24..at::MOVE + 40]);
        for (to, content) in [(entry, &item[..]), (slot, &fresh[..])] {
            if to == 0 {
                continue;
            }
            let from = usize::try_from(to).unwrap_or(usize::MAX);
            let end = from.saturating_add(ITEM);
            let Some(place) = self.bytes.get_mut(from..end) else {
                return Err(self.wrong(format!("an entry at byte {to}"), "one inside the file"));
            };
            place.copy_from_slice(content);
        }
        Ok(())
    }

    /// Sums by key and size, ascending.
    fn items(&self, state: &State) -> Result<Vec<(u64, [u64; 3])>, InputError> {
        let mut sums: BTreeMap<(u64, u64), [u64; 2]> = BTreeMap::new();
        if state.table != 0 && !state.emptied {
            self.add(state.table, state.room, ITEM, &mut sums)?;
        }
        for piece in 0..PIECES {
            let offset = self.number(at::TALLIES + 16 * piece)?;
            let blocks = self.number(at::TALLIES + 16 * piece + 8)?;
            if offset != 0 {
                self.add(offset, blocks, BLOCK, &mut sums)?;
            }
        }
        Ok(sums
            .into_iter()
            .map(|((key, size), [bytes, messages])| (key, [size, bytes, messages]))
            .collect())
    }

    /// Adds `count` pieces of `each` bytes of entries.
    fn add(
        &self,
        offset: u64,
        count: u64,
        each: usize,
        sums: &mut BTreeMap<(u64, u64), [u64; 2]>,
    ) -> Result<(), InputError> {
        let part = count.checked_mul(each as u64).and_then(|length| {
            let from = usize::try_from(offset).ok()?;
            let end = usize::try_from(offset.checked_add(length)?).ok()?;
            self.bytes.get(from..end)
        });
        let Some(part) = part else {
            let found = format!("{} bytes", self.bytes.len());
            let expected = format!("{count} times {each} bytes from byte {offset}");
            return Err(self
                .wrong(found, expected)
                .hint("was the file copied while it was written?"));
        };
        for item in part.chunks_exact(ITEM) {
            let field = |i: usize| {
                let cell = item[8 * i..8 * i + 8].try_into();
                cell.map_or(0, u64::from_ne_bytes)
            };
            let (key, messages) = (field(0), field(3));
            if key != 0 && messages != 0 {
                let sum = sums.entry((key, field(1))).or_default();
                sum[0] = sum[0].saturating_add(field(2));
                sum[1] = sum[1].saturating_add(messages);
            }
        }
        Ok(())
    }

    /// Times of phases and the end, as far as they are known.
    fn trailer(&self, phases: usize, record: &mut String) -> Result<(), InputError> {
        let stopped = self.seconds(at::CAUSE + 16)?;
        let end = match stopped > 0.0 {
            true => Some(self.seconds(at::CAUSE + 24)?),
            false => self.clock(at::THREADS + 24)?,
        };
        let seen = end.filter(|_| stopped > 0.0);
        let open = self.open_call(seen)?;
        let current = self.number(at::CAUSE + 32)?;
        let since = self.seconds(at::CAUSE + 40)?;
        let times = usize::try_from(self.number(at::CAUSE + 48)?).unwrap_or(usize::MAX);
        let rounded = self.number(at::CAUSE + 56)?;
        for phase in (0..phases.min(PHASES)).take_while(|_| times != 0) {
            let from = times.saturating_add(16 * phase);
            let mut seconds = self.seconds(from)?;
            if let Some(end) = end.filter(|_| phase as u64 == current) {
                seconds += (end - since).max(0.0);
            }
            let entries = self.number(from.saturating_add(8))?;
            let _ = write!(record, "time\t{phase}\t{seconds:.6}\t{entries}");
            if let Some(mut inside) = self.ticks(at::CALLS + 8, 8 * phase)? {
                if let Some((_, Some(waited))) = open
                    && phase as u64 == current
                {
                    inside = (inside + waited).min(seconds);
                }
                let _ = write!(record, "\t{inside:.6}");
            }
            record.push('\n');
        }
        let calls = definitions_of_calls(record);
        for (number, name) in calls {
            let Some(mut inside) = self.ticks(at::CALLS, 16 * number)? else {
                continue;
            };
            if let Some((_, waited)) = open.filter(|open| open.0 == number as u64) {
                inside += waited.unwrap_or(0.0);
                let waited = waited.map_or_else(String::new, |w| format!("\t{w:.6}"));
                let _ = writeln!(record, "inside\t{name}{waited}");
            }
            let calls = usize::try_from(self.number(at::CALLS)?).unwrap_or(usize::MAX);
            let count = self.number(calls.saturating_add(16 * number + 8))?;
            let _ = writeln!(record, "mpi\t{name}\t{count}\t{inside:.6}");
        }
        // Absent in files of older recorders.
        let threads = self.number(at::THREADS).unwrap_or(0);
        if threads > 1 {
            let _ = writeln!(record, "threads\t{threads}");
        }
        if rounded != 0 {
            let _ = writeln!(record, "rounded\t{rounded}");
        }
        if stopped > 0.0 {
            let _ = writeln!(record, "stop\t{stopped:.6}");
        }
        let _ = writeln!(record, "ended\t{}", self.cause()?);
        Ok(())
    }

    /// Monotonic time of the ticks in a field: a rank that is killed gets no moment to look at the clock. `None` if they are
    /// 0, and in files of older recorders.
    fn clock(&self, field: usize) -> Result<Option<f64>, InputError> {
        let first = at::THREADS + 8;
        let Ok(ticks @ 1..) = self.number(field) else {
            return Ok(None);
        };
        let ticks = ticks.saturating_sub(self.number(first)?) as f64;
        let time = self.seconds(first + 8)? + ticks * self.seconds(at::CALLS + 16)?;
        Ok(Some(time).filter(|time| time.is_finite()))
    }

    /// The call in which the rank was at its end, by number, and its seconds in it if its end was seen; of several threads the one
    /// that began a call last.
    fn open_call(&self, end: Option<f64>) -> Result<Option<(u64, Option<f64>)>, InputError> {
        let field = at::THREADS + 24;
        let (Ok(last), Ok(call), Ok(begun)) = (
            self.number(field),
            self.number(field + 8),
            self.number(field + 16),
        ) else {
            return Ok(None);
        };
        if begun <= last {
            return Ok(None);
        }
        let begun = self.clock(field + 16)?;
        let waited = end.zip(begun).map(|(end, begun)| (end - begun).max(0.0));
        Ok(Some((call, waited)))
    }

    /// Seconds of the ticks at an offset of the table to which a field of the header points; `None` in files without it.
    fn ticks(&self, field: usize, offset: usize) -> Result<Option<f64>, InputError> {
        let table = usize::try_from(self.number(field)?).unwrap_or(usize::MAX);
        let tick = self.seconds(at::CALLS + 16)?;
        if table == 0 || !(tick.is_finite() && tick > 0.0) {
            return Ok(None);
        }
        Ok(Some(
            self.number(table.saturating_add(offset))? as f64 * tick,
        ))
    }

    fn cause(&self) -> Result<String, InputError> {
        let detail = self.number(at::CAUSE + 8)?;
        Ok(match self.number(at::CAUSE)? {
            1 => {
                let known = SIGNALS.iter().find(|(n, _)| *n == detail);
                known.map_or_else(
                    || format!("signal {detail}"),
                    |(_, name)| (*name).to_owned(),
                )
            }
            2 => format!("_exit({})", detail as i32),
            3 => format!("quick_exit({})", detail as i32),
            _ => "killed".to_owned(),
        })
    }
}

#[cfg(test)]
#[path = "live_tests.rs"]
mod tests;
