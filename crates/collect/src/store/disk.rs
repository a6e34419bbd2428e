//! The file operations of a store. Tests put faults between the store and the operating system here.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// File operations and the clock of a store.
pub trait Disk: Send + Sync + Debug {
    /// Creates a file that does not exist, for reading and appending.
    fn create(&self, path: &Path) -> io::Result<Box<dyn Handle>>;
    /// Opens a file, for appending too if `write`.
    fn open(&self, path: &Path, write: bool) -> io::Result<Box<dyn Handle>>;
    /// Renames a file; replaces an existing one.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives a file a second name, which must not exist.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a folder durable.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
    /// Nanoseconds since 1970.
    fn now_ns(&self) -> u64;
}

/// An open file. Writes append.
pub trait Handle: Write + Send + Debug {
    /// Reads at a position; fewer bytes than `room` only at the end of the file.
    fn read_at(&self, room: &mut [u8], at: u64) -> io::Result<usize>;
    /// Whether the file still has a name. Bytes in a deleted file are lost when it is closed.
    fn is_linked(&self) -> bool;
    /// Length in bytes.
    fn length(&self) -> io::Result<u64>;
    /// Shortens the file.
    fn cut(&mut self, length: u64) -> io::Result<()>;
    /// Makes content and length durable.
    fn sync(&mut self) -> io::Result<()>;
    /// Locks the file until the handle is dropped; `false` if another handle has locked it.
    fn claim(&self) -> io::Result<bool>;
}

/// The operating system's files and clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Os;

impl Disk for Os {
    fn create(&self, path: &Path) -> io::Result<Box<dyn Handle>> {
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create_new(true).open(path);
        Ok(Box::new(OsFile(file?)))
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Box<dyn Handle>> {
        let file = OpenOptions::new().read(true).append(write).open(path)?;
        Ok(Box::new(OsFile(file)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }

    fn now_ns(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.unwrap_or(Duration::ZERO).as_nanos() as u64
    }
}

#[derive(Debug)]
struct OsFile(File);

impl Write for OsFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn write_vectored(&mut self, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.0.write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Handle for OsFile {
    fn read_at(&self, room: &mut [u8], at: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < room.len() {
            match self.0.read_at(&mut room[done..], at + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn is_linked(&self) -> bool {
        // Of a file that was deleted on its server, NFS knows nothing.
        self.0.metadata().is_ok_and(|m| m.nlink() > 0)
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn claim(&self) -> io::Result<bool> {
        claim(&self.0)
    }
}

impl Drop for OsFile {
    fn drop(&mut self) {
        release(&self.0);
    }
}

/// Locks a file; `false` if another handle has locked it.
pub(super) fn claim(file: &File) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Unlocks a file. Closing it is not enough: a child process that was forked meanwhile and has not reached its `exec`
/// holds the same open file, and with it the lock.
pub(super) fn release(file: &File) {
    // Fails only for a descriptor that is not open.
    let _ = file.unlock();
}

/// Writes all parts as few calls as possible.
pub(super) fn write_all(file: &mut dyn Handle, parts: &[&[u8]]) -> io::Result<()> {
    let mut slices: Vec<io::IoSlice<'_>> = parts.iter().map(|p| io::IoSlice::new(p)).collect();
    let mut rest = slices.as_mut_slice();
    io::IoSlice::advance_slices(&mut rest, 0);
    while !rest.is_empty() {
        match file.write_vectored(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(n) => io::IoSlice::advance_slices(&mut rest, n),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
