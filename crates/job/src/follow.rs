//! Counters that are followed: files that are read again when they change, live sources and trees.

use crate::error::Result;
use crate::inputs;
use crate::live::Watched;
use hopbyte_fabric::{Fabric, LinkState};
use hopbyte_observe::counters::{Counted, Follow};
use hopbyte_observe::{CounterOptions, Stamp, stamp};
use std::path::PathBuf;
use std::time::SystemTime;

/// Counter files, or a live source, and their latest readings.
pub struct Files {
    files: Vec<PathBuf>,
    /// The live source, once the kind of the sources is known.
    live: Option<Option<Watched>>,
    about: CounterOptions,
    seen: Option<Vec<Option<Stamp>>>,
    /// Previous readings, the start of the next increase.
    counters: Follow,
}

/// A change of the files.
pub struct Change {
    /// Increase since the previous reading, if the files hold totals.
    pub state: LinkState,
    /// Rows that named a link, and rows that did not.
    pub rows: (usize, usize),
    /// Latest modification time; of a live source none.
    pub modified: Option<SystemTime>,
    /// Time of the reading by the source's own clock.
    pub time_seconds: Option<f64>,
    /// Caveats for the user, one sentence each.
    pub notes: Vec<String>,
}

impl Files {
    /// Files before the first reading.
    pub fn new(files: Vec<PathBuf>, about: CounterOptions) -> Self {
        Self {
            files,
            live: None,
            about,
            seen: None,
            counters: Follow::default(),
        }
    }

    /// Their names.
    pub fn names(&self) -> String {
        let names: Vec<String> = self.files.iter().map(|f| f.display().to_string()).collect();
        names.join(", ")
    }

    /// Reads the files if one has changed, and a live source if its interval is over. A failed read is an error, and is
    /// retried at the next call.
    pub fn look(&mut self, fabric: &Fabric) -> Result<Option<Change>> {
        let mut notes = Vec::new();
        let live = match &mut self.live {
            Some(live) => live,
            none => none.insert(Watched::open(&self.files, fabric, &self.about, &mut notes)?),
        };
        if let Some(live) = live {
            let Some(readings) = live.sample(&mut notes) else {
                return Ok(None);
            };
            let source = self.names();
            let counted = (self.counters).take(readings, &source, fabric, &self.about)?;
            notes.extend(inputs::remarks(&counted));
            return Ok(Some(Change::of(&counted, fabric, None, notes)));
        }
        let seen: Vec<Option<Stamp>> = self.files.iter().map(|f| stamp(f)).collect();
        if self.seen.as_ref() == Some(&seen) && seen.iter().all(Option::is_some) {
            return Ok(None);
        }
        let counted = self.counters.read(&self.files, fabric, &self.about)?;
        let modified = seen.iter().flatten().map(|s| s.0).max();
        self.seen = Some(seen);
        let notes = inputs::remarks(&counted);
        Ok(Some(Change::of(&counted, fabric, modified, notes)))
    }
}

impl Change {
    fn of(
        counted: &Counted,
        fabric: &Fabric,
        modified: Option<SystemTime>,
        notes: Vec<String>,
    ) -> Self {
        Self {
            state: counted.state(fabric),
            rows: (counted.matched, counted.unmatched),
            modified,
            time_seconds: counted.time_seconds,
            notes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopbyte_fabric::spec;

    /// The oracle's service and the live page read here; `links` reports for these two that the counter
    /// was reset.
    #[test]
    fn a_jump_that_no_link_carries_is_no_load() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("metrics");
        let fabric = spec::fabric("gemini:4x4x24").unwrap();
        let about = CounterOptions {
            node: Some("nid00000".into()),
            ..CounterOptions::default()
        };
        let mut files = Files::new(vec![file.clone()], about);
        let mut look = |ms: u64, bytes: u64| {
            let text = format!("timestamp {ms} ms\ntraffic_X+ {bytes} B\n");
            // The kernel's file clock has a granularity of some milliseconds.
            std::thread::sleep(std::time::Duration::from_millis(20));
            std::fs::write(&file, text).unwrap();
            files.look(&fabric).unwrap().unwrap()
        };
        look(1000, 1000);
        let change = look(2000, 1_000_000_000_000_000);
        assert_eq!(change.state.used_ratio.known(), 0);
        assert!(
            change.notes[0].contains("counter was reset"),
            "{:?}",
            change.notes
        );
        let change = look(3000, 1_000_009_375_000_000);
        assert_eq!(change.state.used_ratio.known(), 1);
        let most = change.state.used_ratio.as_slice().iter().copied();
        assert!(most.fold(0.0, f64::max) <= 1.0);
    }

    /// `links` reads a tree, so that services follow one too, by the same rules.
    #[test]
    fn a_tree_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let net = folder.path().join("sys/class/net/eth0/statistics");
        std::fs::create_dir_all(&net).unwrap();
        let fabric = spec::fabric("torus:2x2").unwrap();
        let about = CounterOptions {
            node: Some("n0-0".into()),
            interval_seconds: Some(0.01),
            ..CounterOptions::default()
        };
        let mut files = Files::new(vec![folder.path().to_owned()], about);
        let mut look = |bytes: u64| {
            std::fs::write(net.join("rx_bytes"), bytes.to_string()).unwrap();
            loop {
                if let Some(change) = files.look(&fabric).unwrap() {
                    return change;
                }
            }
        };
        look(1000);
        let change = look(2000);
        assert_eq!(
            change
                .state
                .received_bytes
                .as_slice()
                .iter()
                .copied()
                .fold(0.0, f64::max),
            1000.0
        );
        assert_eq!(change.state.used_ratio.known(), 1);
        let change = look(1_000_000_000_000_000);
        assert_eq!(change.state.used_ratio.known(), 0);
        assert!(change.notes[0].contains("reset"), "{:?}", change.notes);
    }

    #[test]
    fn a_file_in_the_place_of_another_is_read_whatever_its_time() {
        let folder = tempfile::tempdir().unwrap();
        let (file, new) = (folder.path().join("links"), folder.path().join("new"));
        let time = SystemTime::now();
        let write = |used: f64| {
            let line = format!(
                "{{\"schema\":\"hopbyte.link/1\",\"link\":\"r0-0 X+\",\"from\":\"r0-0\",\"to\":\"r1-0\",\"used_ratio\":{used}}}\n\
                 {{\"schema\":\"hopbyte.link/1\",\"summary\":{{}}}}\n"
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
