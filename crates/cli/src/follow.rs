//! Files of counters that somebody writes anew: read again when they change.

use crate::args::CounterArgs;
use crate::inputs;
use anyhow::Result;
use hopbyte_fabric::{Fabric, LinkState, Snapshot};
use hopbyte_observe::read_counters;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Files of counters and what was read of them last.
pub struct Files {
    files: Vec<PathBuf>,
    about: CounterArgs,
    changed: Option<Vec<Option<SystemTime>>>,
    /// The last totals, to take the next increase from.
    totals: Option<Snapshot>,
}

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
    pub fn new(files: Vec<PathBuf>, about: CounterArgs) -> Self {
        Self {
            files,
            about,
            changed: None,
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
        let changed: Vec<Option<SystemTime>> = self.files.iter().map(|f| modified(f)).collect();
        if self.changed.as_ref() == Some(&changed) && changed.iter().all(Option::is_some) {
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
            modified: changed.iter().flatten().max().copied(),
            time_seconds: snapshot.time_seconds,
        };
        self.changed = Some(changed);
        self.totals = snapshot.cumulative.then_some(snapshot);
        Ok(Some(change))
    }

    /// All files as one snapshot; totals without a clock get that of the last file written.
    fn read(&self, fabric: &Fabric) -> Result<Snapshot> {
        let options = inputs::counter_options(&self.about);
        let mut snapshot = read_counters(&self.files, fabric, &options)?;
        if snapshot.cumulative && snapshot.time_seconds.is_none() {
            let last = self.files.iter().filter_map(|f| modified(f)).max();
            snapshot.time_seconds = last.map(unix);
        }
        Ok(snapshot)
    }
}

fn modified(file: &Path) -> Option<SystemTime> {
    std::fs::metadata(file).and_then(|m| m.modified()).ok()
}

/// Seconds since 1970.
pub fn unix(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0.0, |d| d.as_secs_f64())
}
