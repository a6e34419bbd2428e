//! The store: blocks are appended to a log, which is sealed into Parquet when it is full.
//!
//! Reports are written before they are acknowledged. A collector killed during a write leaves an unfinished last block,
//! which is cut when the store is opened again. A damaged block is rebuilt from its parity or skipped, later blocks are
//! kept, and the original is moved aside ([`repair()`]). Segments are deleted by the ticks they hold ([`retain`]).

pub mod disk;
pub mod jobs;
mod listing;
mod log;
mod reader;
mod record;
mod repair;
pub mod retain;
mod seal;
mod table;
mod tidy;

pub(crate) use listing::{entries, some_logs, without_copies};
pub use listing::{last_ticks, logs};
pub use reader::{Damage, LogReader};
pub use repair::{Repair, repair};
pub use seal::{Sealed, seal, seal_all, seal_all_on};

use self::disk::{Disk, Os};
use self::log::Log;
use self::tidy::{Catalogue, tidy};
use crate::block::{Closing, Cluster};
use crate::node::{NodeState, Shapes};
use crate::wire::Origin;
use hopbyte_observe::threads::start;
use serde::Serialize;
use std::collections::HashMap;
use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Parameters of a store.
#[derive(Clone, Debug)]
pub struct Keeping {
    /// Size in bytes at which a log ends.
    pub segment_bytes: u64,
    /// Maximum time span of a log in seconds.
    pub segment_seconds: u64,
    /// Whether every block, and the name of every log, is synced to the disk before it is acknowledged. Without it a
    /// power failure can lose blocks; a killed process cannot.
    pub sync: bool,
    /// Seconds recorded after a segment, at which it is deleted, log and Parquet; `None`: never.
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

/// Counts of a store since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Ticks that were stored.
    pub ticks: u64,
    /// Ticks that could not be stored.
    pub unkept_ticks: u64,
    /// Whether the last tick could not be stored.
    pub failing: bool,
    /// Damaged blocks that were rebuilt.
    pub rebuilt_blocks: u64,
    /// Damaged blocks that were lost.
    pub lost_blocks: u64,
    /// Damaged logs whose originals were moved aside, or that could not be repaired.
    pub damaged_logs: u64,
    /// Deleted segments, and their bytes.
    pub deleted_segments: u64,
    /// Bytes of deleted segments.
    pub deleted_bytes: u64,
    /// Logs that could not be written as Parquet.
    pub unsealed_logs: u64,
}

/// Counts shared with exports.
#[derive(Clone, Debug, Default)]
pub struct Status(Arc<Mutex<Counts>>);

impl Status {
    /// The counts.
    pub fn counts(&self) -> Counts {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Refuses an end at which ticks are not stored.
    ///
    /// # Errors
    /// The last tick could not be stored.
    pub fn at_end(&self) -> io::Result<()> {
        let counts = self.counts();
        if !counts.failing {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "store: {} ticks are not stored, the last among them, and {} are\nhint: the warnings above have the reason",
            counts.unkept_ticks, counts.ticks
        )))
    }

    fn change(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn damaged(&self, damage: &Damage) {
        self.change(|c| {
            c.rebuilt_blocks += damage.rebuilt;
            c.lost_blocks += damage.lost;
            c.damaged_logs += 1;
        });
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
    fn new(mut state: NodeState, shapes: &Shapes, known: bool) -> Self {
        let held = std::mem::take(&mut state.sources).into_iter().flatten();
        let sources = held
            .filter(|held| known && held.is_declared())
            .map(|held| (held.origin, shapes.bytes(held.shape).into()))
            .collect();
        Self { state, sources }
    }
}

/// A folder of segments, opened for writing.
#[derive(Debug)]
pub struct Store {
    disk: Arc<dyn Disk>,
    folder: PathBuf,
    keeping: Keeping,
    log: Option<Log>,
    serial: u32,
    remembered: Vec<Remembered>,
    sealer: Option<JoinHandle<Vec<String>>>,
    /// Whether a log ended while the thread ran.
    untidy: bool,
    catalogue: Arc<Mutex<Catalogue>>,
    notes: Vec<String>,
    status: Status,
    lock: Lock,
}

impl Store {
    /// Opens or creates a store. Fails if another process has it open for writing. Damaged logs are repaired;
    /// blocks that could not be read or repaired are in [`Store::notes`].
    pub fn open(folder: &Path, keeping: Keeping) -> io::Result<Self> {
        Self::open_on(Arc::new(Os), folder, keeping)
    }

    /// Opens a store on another disk than the operating system's.
    pub fn open_on(disk: Arc<dyn Disk>, folder: &Path, keeping: Keeping) -> io::Result<Self> {
        let is_new = !folder.exists();
        fs::create_dir_all(folder)?;
        if is_new && let Some(parent) = folder.parent().filter(|p| !p.as_os_str().is_empty()) {
            disk.sync_folder(parent)?;
        }
        let lock = Lock::take(folder)?;
        let mut store = Self {
            disk,
            folder: folder.to_owned(),
            keeping,
            log: None,
            serial: 0,
            remembered: Vec::new(),
            sealer: None,
            untidy: false,
            catalogue: Arc::default(),
            notes: Vec::new(),
            status: Status::default(),
            lock,
        };
        store.remember()?;
        store.tidy();
        Ok(store)
    }

    /// Starts a thread that seals finished logs and deletes old ones. One thread at a time: logs that finish
    /// meanwhile are left to the next, which [`Store::notes`] starts.
    fn tidy(&mut self) {
        if self.sealer.as_ref().is_some_and(|s| !s.is_finished()) {
            self.untidy = true;
            return;
        }
        self.untidy = false;
        self.join();
        // Listed here, so that the list excludes the log that is created next.
        let ended = entries(&self.folder);
        let (disk, keeping) = (Arc::clone(&self.disk), self.keeping.clone());
        let (catalogue, status) = (Arc::clone(&self.catalogue), self.status.clone());
        let work = move || {
            let mut catalogue = catalogue.lock().unwrap_or_else(PoisonError::into_inner);
            match ended {
                Ok(ended) => tidy(&*disk, &keeping, ended, &mut catalogue, &status),
                Err(error) => vec![format!("store: {error}")],
            }
        };
        match start(work) {
            Ok(sealer) => self.sealer = Some(sealer),
            // The next segment that ends tries again.
            Err(error) => self.notes.push(format!("store: sealing: {error}")),
        }
    }

    /// Takes the messages of a finished sealing thread.
    fn join(&mut self) {
        match self.sealer.take().map(JoinHandle::join) {
            Some(Ok(notes)) => self.notes.extend(notes),
            Some(Err(_)) => self.notes.push("store: the sealing thread failed".into()),
            None => {}
        }
    }

    /// Warnings: damage, deleted segments, failures of the sealing thread.
    pub fn notes(&mut self) -> impl Iterator<Item = String> + '_ {
        if self.sealer.as_ref().is_some_and(JoinHandle::is_finished) {
            self.join();
            if self.untidy {
                self.tidy();
            }
        }
        self.notes.drain(..)
    }

    /// Ends the log and the sealing thread, and returns the last warnings.
    pub fn close(mut self) -> Vec<String> {
        self.rest();
        std::mem::take(&mut self.notes)
    }

    /// Counts for exports.
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// Nodes as recorded in the last logs, with the sequence number of their last stored report.
    pub fn remembered(&self) -> impl Iterator<Item = &Remembered> {
        self.remembered.iter()
    }

    /// Writes a note beside the logs; replaces an earlier one of that name.
    pub fn put_note(&self, name: &str, text: &str) -> io::Result<()> {
        let temporary = self.folder.join(format!("{name}.part"));
        if temporary.exists() {
            self.disk.remove(&temporary)?;
        }
        let mut file = self.disk.create(&temporary)?;
        disk::write_all(&mut *file, &[text.as_bytes()])?;
        if self.keeping.sync {
            file.sync()?;
        }
        self.disk.rename(&temporary, &self.folder.join(name))?;
        match self.keeping.sync {
            true => self.disk.sync_folder(&self.folder),
            false => Ok(()),
        }
    }

    /// Reads a note.
    pub fn note(&self, name: &str) -> io::Result<Option<String>> {
        let mut text = String::new();
        match hopbyte_observe::text::open(&self.folder.join(name)) {
            Ok(file) => file.take(LONGEST_NOTE).read_to_string(&mut text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        Ok(Some(text))
    }

    /// Appends a block. Returns whether the next block must be self-contained: the log is full, or some blocks long.
    ///
    /// # Errors
    /// The block is not stored, and nothing of it remains in the store.
    pub fn append(&mut self, closing: &Closing, block: &[u8]) -> io::Result<bool> {
        let stored = self.store(closing, block);
        self.status.change(|c| {
            c.ticks += u64::from(stored.is_ok());
            c.unkept_ticks += u64::from(stored.is_err());
            c.failing = stored.is_err();
        });
        stored
    }

    fn store(&mut self, closing: &Closing, block: &[u8]) -> io::Result<bool> {
        let tick_ns = closing.tick.saturating_mul(closing.period_ns);
        let sync = self.keeping.sync;
        let log = self.current(tick_ns)?;
        if let Err(error) = log.append(block, tick_ns, closing.closed_ns, sync) {
            // After a failed sync of a file its later ones prove nothing. A file at a limit on its size takes no more.
            let is_over = sync || error.kind() == io::ErrorKind::FileTooLarge;
            if is_over && log.undo().is_ok() {
                self.log = None;
            }
            return Err(error);
        }
        let (bytes, seconds, restarts) = (log.bytes(), log.seconds(), log.restarts());
        let full = bytes >= self.keeping.segment_bytes || seconds >= self.keeping.segment_seconds;
        if full {
            self.end();
            self.tidy();
        }
        Ok(full || restarts)
    }

    /// The log to append to; a new one begins with a tick.
    ///
    /// # Errors
    /// The log was deleted: the next one begins with a self-contained block, or not at all while the folder is missing.
    fn current(&mut self, tick_ns: u64) -> io::Result<&mut Log> {
        if let Some(deleted) = self.log.as_ref().and_then(Log::deleted) {
            let text = format!(
                "{}: was deleted, and with it the ticks since its beginning",
                deleted.display()
            );
            self.log = None;
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        if self.log.is_none() && !self.lock.is_held() {
            self.lock = Lock::take(&self.folder)?;
        }
        if self.log.is_none() {
            let (disk, sync) = (&*self.disk, self.keeping.sync);
            let log = Log::create(disk, &self.folder, self.serial + 1, tick_ns, sync)?;
            self.serial += 1;
            self.log = Some(log);
        }
        self.log
            .as_mut()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Tests whether a block could be stored, after one could not; keeps nothing of it.
    ///
    /// # Errors
    /// It could not.
    pub fn probe(&mut self, closing: &Closing, block: &[u8]) -> io::Result<()> {
        let sync = self.keeping.sync;
        let log = self.current(closing.tick.saturating_mul(closing.period_ns));
        let probed = log.and_then(|log| log.probe(block, sync));
        self.status.change(|c| {
            c.unkept_ticks += 1;
            c.failing = probed.is_err();
        });
        probed
    }

    /// Ends the log.
    fn end(&mut self) {
        if let Some(mut log) = self.log.take()
            && let Err(error) = log.finish()
        {
            self.notes.push(format!(
                "store: the last blocks of a log have no parity: {error}"
            ));
        }
    }

    /// Ends the log, and waits for the sealing of those that ended before.
    fn rest(&mut self) {
        self.end();
        self.join();
        if self.untidy {
            self.tidy();
            self.join();
        }
    }

    /// Repairs the last logs, and takes the state of their nodes.
    fn remember(&mut self) -> io::Result<()> {
        let mut logs: Vec<(u32, PathBuf)> = Vec::new();
        for path in self::logs(&self.folder)? {
            match LogReader::open_on(&*self.disk, &path) {
                Ok(reader) => logs.push((reader.first_serial(), path)),
                // Foreign files are left out when logs are sealed.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
                Err(error) => self.notes.push(unread(&path, &error)),
            }
        }
        logs.sort();
        self.serial = logs.last().map_or(0, |l| l.0);
        let mut nodes: HashMap<Box<str>, Remembered> = HashMap::new();
        let mut bytes = 0;
        for ((_, log), age) in logs.iter().rev().take(LOOK_BACK).zip(0..) {
            bytes += fs::metadata(log).map_or(0, |m| m.len());
            if age > 0 && bytes > LOOK_BACK_BYTES {
                break;
            }
            let mut reader = match LogReader::open_on(&*self.disk, log) {
                Ok(reader) => reader,
                Err(error) => {
                    self.notes.push(unread(log, &error));
                    continue;
                }
            };
            while reader.next_block(|_, _, _| {})?.is_some() {}
            let damage = reader.damage().clone();
            take_nodes(reader.cluster, &mut nodes);
            if !damage.is_none() || (age == 0 && damage.tail > 0) {
                let note = tidy::mend(&*self.disk, log, &self.status);
                self.notes.extend(note);
            }
        }
        self.remembered = nodes.into_values().collect();
        Ok(())
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // Waiting is optional: an interrupted sealing leaves only temporary names.
        self.rest();
    }
}

/// Limits on logs and bytes read at the start to find stored sequence numbers. A collector that is killed
/// repeatedly leaves logs in which some agents did not report.
const LOOK_BACK: usize = 32;
const LOOK_BACK_BYTES: u64 = 1 << 30;

/// Maximum length of a note.
const LONGEST_NOTE: u64 = 16 << 20;

/// The right to write to a store, until it is dropped.
#[derive(Debug)]
struct Lock(fs::File);

impl Lock {
    fn take(folder: &Path) -> io::Result<Self> {
        let file = lock_file(&folder.join("lock"))?;
        if disk::claim(&file)? {
            return Ok(Self(file));
        }
        let text = format!(
            "{}: another collector writes to this store",
            folder.display()
        );
        Err(io::Error::new(io::ErrorKind::AddrInUse, text))
    }

    /// Whether the lock is still of the folder's file, so that no other collector can take it.
    fn is_held(&self) -> bool {
        self.0.metadata().is_ok_and(|m| m.nlink() > 0)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        disk::release(&self.0);
    }
}

/// Opens or creates the file that a collector locks. A named pipe of that name would wait for its reader.
fn lock_file(path: &Path) -> io::Result<fs::File> {
    let mut options = fs::File::options();
    options.write(true).create(true).truncate(false);
    options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
    let named = |text: String| {
        let text = format!("{}: {text}, expected a regular file", path.display());
        io::Error::new(io::ErrorKind::InvalidInput, text)
    };
    let file = match options.open(path) {
        Ok(file) => file,
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
            return Err(named("found a named pipe or a device".into()));
        }
        Err(error) => return Err(error),
    };
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(named("found another kind of file".into())),
    }
}

/// The collector goes on: losing current reports would cost more.
fn unread(log: &Path, error: &io::Error) -> String {
    format!(
        "store: {}: {error}; reports in it that were not acknowledged may be stored twice",
        log.display()
    )
}

/// Adds the nodes of a log to those of later ones.
fn take_nodes(cluster: Cluster, nodes: &mut HashMap<Box<str>, Remembered>) {
    let known: Vec<bool> = (0..cluster.nodes.len() as u32)
        .map(|id| cluster.is_known(id))
        .collect();
    let Cluster {
        nodes: all, shapes, ..
    } = cluster;
    for (node, known) in all.into_iter().zip(known) {
        let Some(node) = node else { continue };
        // Without a report the node was only listed as missing.
        if node.header.sequence == 0 && node.earlier.is_empty() {
            continue;
        }
        nodes
            .entry(node.name.clone())
            // Of one agent the highest number counts, also in a log of an earlier process.
            .and_modify(|later| later.state.add_older(&node))
            .or_insert_with(|| Remembered::new(node.clone(), &shapes, known));
    }
}

#[cfg(test)]
mod tests;
