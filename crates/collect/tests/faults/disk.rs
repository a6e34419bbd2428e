//! A disk with faults, on a real folder: the n-th operation fails, and every change is logged so that a power cut can be
//! replayed at any point.

use hopbyte_collect::store::disk::{Disk, Handle, Os};
use std::io::{self, Error, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Failure of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `ENOSPC`: nothing is written.
    Full,
    /// Half of the bytes are written, then `ENOSPC`.
    Short,
    /// `EIO`.
    Broken,
}

pub const FAULTS: [Fault; 3] = [Fault::Full, Fault::Short, Fault::Broken];

/// A change of the disk.
#[derive(Clone, Debug)]
pub enum Change {
    Create(PathBuf, u64),
    Write(u64, u64, Vec<u8>),
    Cut(u64, u64),
    Rename(PathBuf, PathBuf),
    Link(PathBuf, PathBuf),
    Remove(PathBuf),
    Sync(u64),
    SyncFolder,
    /// The harness acknowledged all ticks up to this one.
    Acknowledged(u64),
}

#[derive(Debug, Default)]
struct Shared {
    /// Operations so far, and which of them fail how.
    done: AtomicU64,
    fails: Mutex<Option<(std::ops::Range<u64>, Fault)>>,
    log: Mutex<Vec<Change>>,
    files: AtomicU64,
    clock_ns: AtomicU64,
}

#[derive(Clone, Debug, Default)]
pub struct Faulty(Arc<Shared>);

impl Faulty {
    /// Operations so far.
    pub fn done(&self) -> u64 {
        self.0.done.load(Ordering::Relaxed)
    }

    /// The operations of a range, counted from the first, fail.
    pub fn fail(&self, range: std::ops::Range<u64>, fault: Fault) {
        *self.0.fails.lock().unwrap() = Some((range, fault));
    }

    pub fn set_clock(&self, ns: u64) {
        self.0.clock_ns.store(ns, Ordering::Relaxed);
    }

    pub fn note(&self, change: Change) {
        self.0.log.lock().unwrap().push(change);
    }

    pub fn log(&self) -> Vec<Change> {
        self.0.log.lock().unwrap().clone()
    }

    fn fault(&self) -> Option<Fault> {
        let at = self.0.done.fetch_add(1, Ordering::Relaxed);
        let fails = self.0.fails.lock().unwrap();
        fails
            .as_ref()
            .filter(|(range, _)| range.contains(&at))
            .map(|f| f.1)
    }

    fn check(&self) -> io::Result<()> {
        self.fault().map_or(Ok(()), |fault| Err(fault.into()))
    }
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Self::from_raw_os_error(match fault {
            Fault::Full | Fault::Short => 28,
            Fault::Broken => 5,
        })
    }
}

impl Disk for Faulty {
    fn create(&self, path: &Path) -> io::Result<Box<dyn Handle>> {
        self.check()?;
        let inner = Os.create(path)?;
        let id = self.0.files.fetch_add(1, Ordering::Relaxed);
        self.note(Change::Create(path.to_owned(), id));
        Ok(Box::new(FaultyFile {
            inner,
            id: Some(id),
            disk: self.clone(),
        }))
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Box<dyn Handle>> {
        self.check()?;
        let inner = Os.open(path, write)?;
        Ok(Box::new(FaultyFile {
            inner,
            id: None,
            disk: self.clone(),
        }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check()?;
        Os.rename(from, to)?;
        self.note(Change::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check()?;
        Os.link(from, to)?;
        self.note(Change::Link(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.check()?;
        Os.remove(path)?;
        self.note(Change::Remove(path.to_owned()));
        Ok(())
    }

    fn sync_folder(&self, _folder: &Path) -> io::Result<()> {
        self.check()?;
        self.note(Change::SyncFolder);
        Ok(())
    }

    fn now_ns(&self) -> u64 {
        self.0.clock_ns.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
struct FaultyFile {
    inner: Box<dyn Handle>,
    /// Number of the file, if this run created it.
    id: Option<u64>,
    disk: Faulty,
}

impl FaultyFile {
    fn note(&self, change: impl FnOnce(u64) -> Change) {
        if let Some(id) = self.id {
            self.disk.note(change(id));
        }
    }
}

impl Write for FaultyFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let part = match self.disk.fault() {
            None => bytes,
            Some(Fault::Short) if bytes.len() > 1 => &bytes[..bytes.len() / 2],
            Some(fault) => return Err(fault.into()),
        };
        let at = self.inner.length()?;
        let n = self.inner.write(part)?;
        self.note(|id| Change::Write(id, at, part[..n].to_vec()));
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Handle for FaultyFile {
    fn read_at(&self, room: &mut [u8], at: u64) -> io::Result<usize> {
        // Reads fail for a broken disk, not for a full one.
        let fails = self.disk.0.fails.lock().unwrap().clone();
        if fails.is_some_and(|f| f.1 == Fault::Broken) {
            self.disk.check()?;
        }
        self.inner.read_at(room, at)
    }

    fn is_linked(&self) -> bool {
        self.inner.is_linked()
    }

    fn length(&self) -> io::Result<u64> {
        self.inner.length()
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.disk.check()?;
        self.inner.cut(length)?;
        self.note(|id| Change::Cut(id, length));
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.disk.check()?;
        self.note(Change::Sync);
        Ok(())
    }

    fn claim(&self) -> io::Result<bool> {
        self.inner.claim()
    }
}
