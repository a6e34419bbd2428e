//! The store: blocks are appended to a log, which is sealed into Parquet when it is full.
//!
//! A log holds complete blocks. A collector killed during a write leaves a last block with a wrong length or
//! checksum; it is truncated when the store is opened again. Reports are written before they are acknowledged.

mod log;
mod seal;

pub use log::{Log, LogReader};
pub use seal::seal;

use crate::block::{Closing, Cluster};
use crate::node::{NodeState, Shapes};
use crate::wire::Origin;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Parameters of a store.
#[derive(Clone, Debug)]
pub struct Keeping {
    /// Size in bytes at which a log ends.
    pub segment_bytes: u64,
    /// Maximum time span of a log in seconds.
    pub segment_seconds: u64,
    /// Whether every block is synced to the disk before it is acknowledged. Without it a power failure can
    /// lose blocks; a killed process cannot.
    pub sync: bool,
    /// Age in seconds at which a segment, log and Parquet, is deleted; `None`: never.
    pub retain_seconds: Option<u64>,
    /// Whether finished logs are also written as Parquet.
    pub seal: bool,
}

impl Default for Keeping {
    fn default() -> Self {
        Self {
            segment_bytes: 256 << 20,
            segment_seconds: 600,
            sync: false,
            retain_seconds: None,
            seal: true,
        }
    }
}

/// A node as recorded in the last logs.
#[derive(Clone, Debug)]
pub struct Remembered {
    /// State of the node and its agent after the last stored report.
    pub state: NodeState,
    /// The node's sources, each with the bytes of its shape.
    pub sources: Vec<(Origin, Arc<[u8]>)>,
}

impl Remembered {
    fn new(mut state: NodeState, shapes: &Shapes) -> Self {
        let held = std::mem::take(&mut state.sources).into_iter().flatten();
        let sources = held
            .map(|held| (held.origin, shapes.bytes(held.shape).into()))
            .collect();
        Self { state, sources }
    }
}

/// A folder of segments, opened for writing.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    keeping: Keeping,
    log: Option<Log>,
    remembered: Vec<Remembered>,
    sealer: Option<JoinHandle<Vec<String>>>,
    notes: Vec<String>,
    _lock: fs::File,
}

impl Store {
    /// Opens or creates a store. Fails if another process has it open for writing. An incomplete last block
    /// is truncated; logs of earlier processes are not modified otherwise.
    pub fn open(folder: &Path, keeping: Keeping) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let lock = fs::File::create(folder.join("lock"))?;
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive).map_err(
            |_| {
                io::Error::new(
                    io::ErrorKind::AddrInUse,
                    format!(
                        "{}: another collector writes to this store",
                        folder.display()
                    ),
                )
            },
        )?;
        let remembered = remember(folder)?;
        let mut store = Self {
            folder: folder.to_owned(),
            keeping,
            log: None,
            remembered,
            sealer: None,
            notes: Vec::new(),
            _lock: lock,
        };
        store.tidy();
        Ok(store)
    }

    /// Starts a thread that seals finished logs and deletes old ones. One thread at a time: logs that finish
    /// meanwhile are left to the next.
    fn tidy(&mut self) {
        if self.sealer.as_ref().is_some_and(|s| !s.is_finished()) {
            return;
        }
        if let Some(Ok(notes)) = self.sealer.take().map(JoinHandle::join) {
            self.notes.extend(notes);
        }
        // Listed here, so that the list excludes the log that is created next.
        let ended = logs(&self.folder);
        let (folder, keeping) = (self.folder.clone(), self.keeping.clone());
        self.sealer = Some(std::thread::spawn(move || {
            let result = ended.and_then(|ended| tidy(&folder, &keeping, &ended));
            result
                .err()
                .map(|e| format!("store: {e}"))
                .into_iter()
                .collect()
        }));
    }

    /// Messages of the sealing thread.
    pub fn notes(&mut self) -> impl Iterator<Item = String> + '_ {
        self.notes.drain(..)
    }

    /// Nodes as recorded in the last logs, with the sequence number of their last stored report.
    pub fn remembered(&self) -> impl Iterator<Item = &Remembered> {
        self.remembered.iter()
    }

    /// Writes a note beside the logs; replaces an earlier one of that name.
    pub fn put_note(&self, name: &str, text: &str) -> io::Result<()> {
        let temporary = self.folder.join(format!("{name}.part"));
        fs::write(&temporary, text)?;
        fs::rename(&temporary, self.folder.join(name))
    }

    /// Reads a note.
    pub fn note(&self, name: &str) -> io::Result<Option<String>> {
        match fs::read_to_string(self.folder.join(name)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Appends a block. Returns whether the log is full: the next block must begin a segment.
    pub fn append(&mut self, closing: &Closing, block: &[u8]) -> io::Result<bool> {
        let mut log = match self.log.take() {
            Some(log) => log,
            None => Log::create(&self.folder, closing.tick * closing.period_ns)?,
        };
        log.append(block, closing.closed_ns, self.keeping.sync)?;
        let keeping = &self.keeping;
        let full = log.bytes() >= keeping.segment_bytes || log.seconds() >= keeping.segment_seconds;
        self.log = (!full).then_some(log);
        if full {
            self.tidy();
        }
        Ok(full)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // Waiting is optional: an interrupted sealing leaves only temporary names.
        if let Some(sealer) = self.sealer.take() {
            let _ = sealer.join();
        }
    }
}

/// Limits on logs and bytes read at the start to find stored sequence numbers. A collector that is killed
/// repeatedly leaves logs in which some agents did not report.
const LOOK_BACK: usize = 32;
const LOOK_BACK_BYTES: u64 = 1 << 30;

/// Truncates an incomplete last block, and returns nodes as recorded in the last logs.
fn remember(folder: &Path) -> io::Result<Vec<Remembered>> {
    let logs = logs(folder)?;
    let mut nodes: HashMap<Box<str>, Remembered> = HashMap::new();
    let mut bytes = 0;
    for (log, age) in logs.iter().rev().take(LOOK_BACK).zip(0..) {
        let length = fs::metadata(log)?.len();
        bytes += length;
        if age > 0 && bytes > LOOK_BACK_BYTES {
            break;
        }
        let mut reader = LogReader::open(log)?;
        while let Ok(Some(_)) = reader.next_block(|_, _, _| {}) {}
        if age == 0 && reader.position() < length {
            fs::OpenOptions::new()
                .write(true)
                .open(log)?
                .set_len(reader.position())?;
        }
        let Cluster {
            nodes: all, shapes, ..
        } = reader.cluster;
        for node in all.into_iter().flatten() {
            // Without a report the node was only listed as missing.
            if node.header.sequence > 0 {
                let entry = nodes.entry(node.name.clone());
                entry.or_insert_with(|| Remembered::new(node, &shapes));
            }
        }
    }
    Ok(nodes.into_values().collect())
}

/// Seals finished logs, and deletes old ones.
fn tidy(folder: &Path, keeping: &Keeping, ended: &[PathBuf]) -> io::Result<()> {
    let newest = ended.last().map_or(0, |log| started(log));
    for log in ended {
        if keeping
            .retain_seconds
            .is_some_and(|s| started(log) + s < newest)
        {
            delete(folder, log)?;
        } else if keeping.seal && !log.with_extension("ticks.parquet").exists() {
            seal(log)?;
        }
    }
    Ok(())
}

/// The start time in a log's name, in seconds.
fn started(log: &Path) -> u64 {
    let name = log.file_stem().and_then(|n| n.to_str()).unwrap_or_default();
    name.split('-')
        .next()
        .and_then(|s| s.parse().ok())
        .unwrap_or(u64::MAX)
}

/// Deletes a segment; its log last.
fn delete(folder: &Path, log: &Path) -> io::Result<()> {
    let stem = log.file_stem().and_then(|n| n.to_str()).unwrap_or_default();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|n| n.to_str())
            .unwrap_or_default();
        if name
            .strip_prefix(stem)
            .is_some_and(|rest| rest.starts_with('.'))
            && path != log
        {
            fs::remove_file(&path)?;
        }
    }
    fs::remove_file(log)
}

/// Logs of a store, oldest first.
pub fn logs(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut logs = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "log") {
            logs.push(path);
        }
    }
    logs.sort();
    Ok(logs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::Writer;

    const SECOND: u64 = 1_000_000_000;

    /// Appends a block without nodes; returns whether the log ended with it.
    fn keep(store: &mut Store, tick: u64) -> bool {
        let closing = Closing {
            tick,
            period_ns: SECOND,
            closed_ns: tick * SECOND + SECOND / 4,
            ..Closing::default()
        };
        store
            .append(&closing, Writer::default().close(&closing))
            .unwrap()
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().map(|e| e.unwrap());
        let mut names: Vec<String> = entries
            .map(|e| e.file_name().into_string().unwrap())
            .filter(|n| n != "lock")
            .collect();
        names.sort();
        names
    }

    #[test]
    fn logs_end_by_time_and_by_size() {
        let folder = tempfile::tempdir().unwrap();
        let keeping = Keeping {
            segment_seconds: 3,
            seal: false,
            ..Keeping::default()
        };
        let mut store = Store::open(folder.path(), keeping).unwrap();
        let ended: Vec<bool> = (100..108).map(|t| keep(&mut store, t)).collect();
        let full = [false, false, false, true];
        assert_eq!(ended, [full, full].concat());
        // The clock is set back: an older log of the same second is not overwritten.
        store.keeping.segment_bytes = 1;
        assert!(keep(&mut store, 100));
        drop(store);
        let expected = [
            "00000000100-00.log",
            "00000000100-01.log",
            "00000000104-00.log",
        ];
        assert_eq!(names(folder.path()), expected);
        let ticks = |name: &str| {
            let mut log = LogReader::open(&folder.path().join(name)).unwrap();
            let mut ticks = Vec::new();
            while let Some(closing) = log.next_block(|_, _, _| {}).unwrap() {
                ticks.push(closing.tick);
            }
            ticks
        };
        assert_eq!(ticks(expected[0]), [100, 101, 102, 103]);
        assert_eq!(ticks(expected[1]), [100]);
    }

    #[test]
    fn what_is_too_old_goes_with_its_parquet_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let keeping = Keeping {
            segment_bytes: 1,
            retain_seconds: Some(20),
            ..Keeping::default()
        };
        let mut store = Store::open(folder.path(), keeping.clone()).unwrap();
        for tick in [100, 110, 120, 130] {
            assert!(keep(&mut store, tick), "a log a block");
        }
        drop(store);
        fs::write(folder.path().join("notes.txt"), "mine").unwrap();
        tidy(folder.path(), &keeping, &logs(folder.path()).unwrap()).unwrap();
        // Retention of 20 s before 130: the log of 110 is the oldest one left.
        let expected = [
            "00000000110-00.log",
            "00000000110-00.ticks.parquet",
            "00000000120-00.log",
            "00000000120-00.ticks.parquet",
            "00000000130-00.log",
            "00000000130-00.ticks.parquet",
            "notes.txt",
        ];
        assert_eq!(names(folder.path()), expected);
        tidy(folder.path(), &keeping, &logs(folder.path()).unwrap()).unwrap();
        assert_eq!(names(folder.path()), expected, "nothing is done twice");
    }
}
