//! The logs in the folder of a store, and the other files there that are called like one.

use super::disk::Disk;
use super::reader::LogReader;
use super::record::Head;
use hopbyte_observe::text::open;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Logs of a store, oldest first by their names. Other files may be among them.
pub fn logs(folder: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(entries(folder)?.0)
}

/// [`logs`], and a sentence for everything else that is called `*.log`: links whose file is missing, folders, pipes.
pub(crate) fn entries(folder: &Path) -> io::Result<(Vec<PathBuf>, Vec<String>)> {
    let (mut logs, mut others) = (Vec::new(), Vec::new());
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        if path.extension().is_none_or(|e| e != "log") {
            continue;
        }
        // Opening a FIFO would wait for its writer.
        let is_file = |kind: fs::FileType| kind.is_file() || (kind.is_symlink() && path.is_file());
        if entry.file_type().is_ok_and(is_file) {
            logs.push(path);
        } else if let Err(error) = open(&path) {
            others.push(format!("{}: left out: {error}", path.display()));
        }
    }
    logs.sort();
    others.sort();
    Ok((logs, others))
}

/// The logs of a store with at least one, and warnings about other entries named `*.log`.
pub(crate) fn some_logs(folder: &Path) -> io::Result<(Vec<PathBuf>, Vec<String>)> {
    let (logs, others) = entries(folder)
        .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", folder.display())))?;
    if logs.is_empty() {
        let text = format!(
            "{}: found no logs, expected a store\nhint: `hopbyte collect --store FOLDER` writes one",
            folder.display()
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    Ok((logs, others))
}

/// Times of the last two ticks of a store up to a time, in nanoseconds since 1970; of the only one twice. Only the heads
/// of blocks are read.
pub fn last_ticks(folder: &Path, to_ns: u64) -> io::Result<Option<(u64, u64)>> {
    let mut ticks: Vec<u64> = Vec::new();
    for log in logs(folder)?.iter().rev() {
        let Ok(mut reader) = LogReader::open(log) else {
            continue;
        };
        // Usually the ticks of a log ascend.
        if reader.first().is_some_and(|head| head.time_ns > to_ns) {
            continue;
        }
        let spans = reader.spans(0).into_iter().map(|(tick, _)| tick);
        ticks.extend(spans.filter(|&tick| tick <= to_ns));
        ticks.sort_unstable_by(|a, b| b.cmp(a));
        ticks.dedup();
        ticks.truncate(2);
        if let [last, before] = ticks[..] {
            return Ok(Some((before, last)));
        }
    }
    Ok(ticks.first().map(|&only| (only, only)))
}

/// Leaves out logs that begin with the same block as another one, which is at least as long: they are copies, whose ticks
/// would count twice. Says which.
pub(crate) fn without_copies(
    disk: &dyn Disk,
    logs: &[PathBuf],
    notes: &mut Vec<String>,
) -> Vec<PathBuf> {
    let first = |log: &PathBuf| {
        let reader = LogReader::open_on(disk, log).ok()?;
        Some((reader.first()?, reader.length().ok()?))
    };
    let firsts: Vec<Option<(Head, u64)>> = logs.iter().map(first).collect();
    let mut longest: HashMap<Head, (u64, Reverse<usize>)> = HashMap::new();
    for (at, &first) in firsts.iter().enumerate() {
        if let Some((head, length)) = first {
            let found = longest.entry(head).or_insert((length, Reverse(at)));
            *found = (*found).max((length, Reverse(at)));
        }
    }
    let mut kept = Vec::new();
    for (at, log) in logs.iter().enumerate() {
        let original = firsts[at].and_then(|(head, _)| Some(longest.get(&head)?.1.0));
        match original.filter(|&original| original != at) {
            Some(original) => notes.push(format!(
                "{}: left out: it is a copy of {}",
                log.display(),
                logs[original].display()
            )),
            None => kept.push(log.clone()),
        }
    }
    kept
}
