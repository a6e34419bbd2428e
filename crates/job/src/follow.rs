//! Files of counters that somebody writes anew: read again when they change.

use anyhow::Result;
use hopbyte_fabric::{Fabric, LinkState, Snapshot};
use hopbyte_observe::{CounterOptions, read_counters};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Files of counters and what was read of them last.
pub struct Files {
    files: Vec<PathBuf>,
    about: CounterOptions,
    seen: Option<Vec<Option<Stamp>>>,
    /// The last totals, to take the next increase from.
    totals: Option<Snapshot>,
}

/// When a file was written, its number and its size: the kernel's clock of files stands still for some milliseconds,
/// so that a file which took the place of another may have its time.
type Stamp = (SystemTime, u64, u64);

/// What a change brought.
pub struct Change {
    /// What the links carried since the reading before, where the files hold totals.
    pub state: LinkState,
    /// Rows that named a link, and rows that did not.
    pub rows: (usize, usize),
    /// When the last of the files changed.
    pub modified: Option<SystemTime>,
    /// When it was read by its own clock.
    pub time_seconds: Option<f64>,
}

impl Files {
    /// Files that were not looked at yet.
    pub fn new(files: Vec<PathBuf>, about: CounterOptions) -> Self {
        Self {
            files,
            about,
            seen: None,
            totals: None,
        }
    }

    /// Their names.
    pub fn names(&self) -> String {
        let names: Vec<String> = self.files.iter().map(|f| f.display().to_string()).collect();
        names.join(", ")
    }

    /// Reads them if one has changed. What cannot be read is an error, and looked at again next time.
    pub fn look(&mut self, fabric: &Fabric) -> Result<Option<Change>> {
        let seen: Vec<Option<Stamp>> = self.files.iter().map(|f| stamp(f)).collect();
        if self.seen.as_ref() == Some(&seen) && seen.iter().all(Option::is_some) {
            return Ok(None);
        }
        let snapshot = self.read(fabric)?;
        let state = match &self.totals {
            Some(earlier) if snapshot.cumulative => LinkState::between(fabric, earlier, &snapshot),
            _ => LinkState::of_increase(fabric, &snapshot),
        };
        let change = Change {
            state,
            rows: (snapshot.matched, snapshot.unmatched),
            modified: seen.iter().flatten().map(|s| s.0).max(),
            time_seconds: snapshot.time_seconds,
        };
        self.seen = Some(seen);
        self.totals = snapshot.cumulative.then_some(snapshot);
        Ok(Some(change))
    }

    /// All files as one snapshot; totals without a clock get that of the last file written.
    fn read(&self, fabric: &Fabric) -> Result<Snapshot> {
        let mut snapshot = read_counters(&self.files, fabric, &self.about)?;
        if snapshot.cumulative && snapshot.time_seconds.is_none() {
            let last = self.files.iter().filter_map(|f| stamp(f)).max();
            snapshot.time_seconds = last.map(|s| unix(s.0));
        }
        Ok(snapshot)
    }
}

fn stamp(file: &Path) -> Option<Stamp> {
    let about = std::fs::metadata(file).ok()?;
    Some((about.modified().ok()?, about.ino(), about.len()))
}

/// Seconds since 1970.
pub fn unix(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0.0, |d| d.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopbyte_fabric::spec;

    #[test]
    fn a_file_in_the_place_of_another_is_read_whatever_its_time() {
        let folder = tempfile::tempdir().unwrap();
        let (file, new) = (folder.path().join("links"), folder.path().join("new"));
        let time = SystemTime::now();
        let write = |used: f64| {
            let line = format!(
                "{{\"schema\":\"hopbyte.link/1\",\"link\":\"r0-0 X+\",\"from\":\"r0-0\",\"to\":\"r1-0\",\"used_ratio\":{used}}}\n"
            );
            std::fs::write(&new, line).unwrap();
            std::fs::File::options()
                .write(true)
                .open(&new)
                .and_then(|f| f.set_modified(time))
                .unwrap();
            std::fs::rename(&new, &file).unwrap();
        };
        let fabric = spec::fabric("torus:4x4").unwrap();
        let mut files = Files::new(vec![file.clone()], CounterOptions::default());
        write(0.25);
        assert!(files.look(&fabric).unwrap().is_some());
        assert!(files.look(&fabric).unwrap().is_none());
        write(0.75);
        assert!(files.look(&fabric).unwrap().is_some());
    }
}
