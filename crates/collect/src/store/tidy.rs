//! Work on finished logs: repair, retention, sealing. One log's failure does not affect the others.

use super::disk::Disk;
use super::reader::LogReader;
use super::repair::repair;
use super::retain::{Ticks, decide, gap_ns};
use super::seal::{is_sealed, is_table, seal_on};
use super::{Keeping, Status, without_copies};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Findings about the logs of a store that are kept from one run to the next.
#[derive(Debug, Default)]
pub(super) struct Catalogue {
    /// Ticks of a log of this length.
    ticks: HashMap<PathBuf, (u64, Ticks)>,
    sealed: HashSet<PathBuf>,
    /// Warnings that were given.
    said: HashSet<String>,
}

/// Deletes old segments, and repairs and seals finished logs. Returns warnings, with those about the list of logs.
pub(super) fn tidy(
    disk: &dyn Disk,
    keeping: &Keeping,
    (ended, mut notes): (Vec<PathBuf>, Vec<String>),
    catalogue: &mut Catalogue,
    status: &Status,
) -> Vec<String> {
    let ended = without_copies(disk, &ended, &mut notes);
    notes
        .iter_mut()
        .for_each(|note| note.insert_str(0, "store: "));
    let mut left: Vec<&PathBuf> = Vec::new();
    for log in &ended {
        match LogReader::open_on(disk, log) {
            Ok(_) => left.push(log),
            Err(error) => notes.push(format!("store: {error}; it stays as it is")),
        }
    }
    if let Some(seconds) = keeping.retain_seconds {
        let deleted = retain(disk, seconds, &left, catalogue, status, &mut notes);
        left.retain(|log| !deleted.contains(*log));
    }
    for log in left.into_iter().filter(|_| keeping.seal) {
        if catalogue.sealed.contains(log) {
            continue;
        }
        match seal_finished(disk, log, status, &mut notes) {
            Ok(()) => drop(catalogue.sealed.insert(log.clone())),
            // `hopbyte replay --seal` is at it.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                status.change(|c| c.unsealed_logs += 1);
                notes.push(format!("store: {}: not sealed: {error}", log.display()));
            }
        }
    }
    notes.retain(|note| catalogue.said.insert(note.clone()));
    notes
}

fn seal_finished(
    disk: &dyn Disk,
    log: &Path,
    status: &Status,
    notes: &mut Vec<String>,
) -> io::Result<()> {
    if is_sealed(log) {
        return Ok(());
    }
    let sealed = seal_on(disk, log)?;
    if !sealed.damage.is_none() {
        notes.extend(mend(disk, log, status));
        // The repaired log has another length.
        seal_on(disk, log)?;
    }
    Ok(())
}

/// Repairs a log; returns a warning.
pub(super) fn mend(disk: &dyn Disk, log: &Path, status: &Status) -> Option<String> {
    let name = log.display();
    match repair(disk, log) {
        Ok(None) => None,
        Ok(Some(found)) => match found.original {
            Some(original) => {
                status.damaged(&found.damage);
                let damage = &found.damage;
                Some(format!(
                    "store: {name}: {damage}; the original is {}",
                    original.display()
                ))
            }
            None => Some(format!(
                "store: {name}: {} bytes of an unfinished last block were cut",
                found.damage.tail
            )),
        },
        Err(error) => {
            status.change(|c| c.damaged_logs += 1);
            Some(format!(
                "store: {name}: damaged, and could not be repaired: {error}"
            ))
        }
    }
}

/// Deletes segments by their age; returns their logs.
fn retain(
    disk: &dyn Disk,
    seconds: u64,
    logs: &[&PathBuf],
    catalogue: &mut Catalogue,
    status: &Status,
    notes: &mut Vec<String>,
) -> HashSet<PathBuf> {
    let segments: Vec<Ticks> = logs
        .iter()
        .map(|log| ticks(disk, log, seconds, catalogue))
        .collect();
    let decision = decide(&segments, seconds);
    let days = seconds as f64 / 86_400.0;
    let newest = segments
        .iter()
        .filter_map(Ticks::last_ns)
        .max()
        .unwrap_or(0);
    let apart = disk.now_ns().abs_diff(newest) / 1_000_000_000;
    if newest > 0 && apart > seconds && apart > 86_400 {
        notes.push(format!(
            "store: the clock and the newest tick are {:.0} days apart; nothing is deleted for that",
            apart as f64 / 86_400.0
        ));
    }
    if decision.doubtful > 0 {
        notes.push(format!(
            "store: {} segments stay, although the newest tick is more than {days} days later: in between nothing \
             was recorded (a pause, or a wrong clock); they go when {days} days are recorded after them",
            decision.doubtful
        ));
    }
    let (mut deleted, mut bytes, mut times) = (HashSet::new(), 0, (u64::MAX, 0));
    for at in decision.delete {
        match delete(disk, logs[at]) {
            // `hopbyte replay --seal` is at it: its tables would be left behind.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(length) => {
                bytes += length;
                let (first, last) = (segments[at].first_ns(), segments[at].last_ns());
                times.0 = times.0.min(first.unwrap_or(u64::MAX));
                times.1 = times.1.max(last.unwrap_or(0));
                catalogue.ticks.remove(logs[at]);
                catalogue.sealed.remove(logs[at]);
                deleted.insert(logs[at].clone());
            }
            Err(error) => notes.push(format!(
                "store: {}: not deleted: {error}",
                logs[at].display()
            )),
        }
    }
    if !deleted.is_empty() {
        status.change(|c| {
            c.deleted_segments += deleted.len() as u64;
            c.deleted_bytes += bytes;
        });
        notes.push(format!(
            "store: {} segments deleted ({bytes} bytes, ticks from {} to {} s since 1970): more than {days} days were \
             recorded after them",
            deleted.len(),
            times.0 / 1_000_000_000,
            times.1 / 1_000_000_000
        ));
    }
    deleted
}

/// The ticks of a log; none if it cannot be read.
fn ticks(disk: &dyn Disk, log: &Path, retain: u64, catalogue: &mut Catalogue) -> Ticks {
    let Ok(mut reader) = LogReader::open_on(disk, log) else {
        return Ticks::default();
    };
    let length = reader.length().unwrap_or(0);
    match catalogue.ticks.get(log) {
        Some((of, ticks)) if *of == length => ticks.clone(),
        _ => {
            let spans = reader.spans(gap_ns(retain));
            let ticks = Ticks { spans };
            catalogue
                .ticks
                .insert(log.to_owned(), (length, ticks.clone()));
            ticks
        }
    }
}

/// Deletes a segment: its Parquet and originals of repairs, then its log. Returns their length.
fn delete(disk: &dyn Disk, log: &Path) -> io::Result<u64> {
    let claimed = LogReader::open_on(disk, log)?;
    if !claimed.claim()? {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    let stem = log.file_stem().and_then(|n| n.to_str()).unwrap_or_default();
    let folder = log.parent().unwrap_or(Path::new("."));
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let rest = name
            .to_str()
            .and_then(|n| n.strip_prefix(stem)?.strip_prefix('.'));
        let belongs = |rest: &str| {
            let name = rest.strip_suffix(".part").unwrap_or(rest);
            let table = ["counters", "reports", "ticks"].map(|t| format!("{t}.parquet"));
            let written = table.iter().any(|t| t == name) || rest.starts_with("log.damaged");
            // Tables of an earlier layout are known by their metadata; other files of that name are not ours.
            written || (rest.ends_with(".parquet") && is_table(&entry.path()))
        };
        if rest.is_some_and(belongs) {
            bytes += entry.metadata().map_or(0, |m| m.len());
            disk.remove(&entry.path())?;
        }
    }
    bytes += fs::metadata(log)?.len();
    disk.remove(log)?;
    Ok(bytes)
}
