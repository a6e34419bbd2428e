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
