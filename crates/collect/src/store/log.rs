//! A log that is being written.

use super::disk::{Disk, Handle, write_all};
use super::record::{Head, Parity, TITLE};
use crate::block;
use std::io;
use std::path::{Path, PathBuf};

/// A log that is being written.
#[derive(Debug)]
pub(super) struct Log {
    file: Box<dyn Handle>,
    path: PathBuf,
    /// Length up to the end of the last record whose writing succeeded.
    bytes: u64,
    /// Whether bytes of a failed write may follow.
    torn: bool,
    serial: u32,
    number: u32,
    parity: Parity,
    first_ns: u64,
    last_ns: u64,
}

/// Logs of one second: restarts, and a clock that was set back.
const MOST_NAMES: u32 = 10_000;

impl Log {
    /// Creates a log, named after the time of its first tick (nanoseconds since 1970). With `sync` its name is
    /// durable.
    pub fn create(
        disk: &dyn Disk,
        folder: &Path,
        serial: u32,
        first_ns: u64,
        sync: bool,
    ) -> io::Result<Self> {
        let seconds = first_ns / 1_000_000_000;
        let name = |n: u32| folder.join(format!("{seconds:011}-{n:02}.log"));
        // After a clock step or a restart within the same tick, an older log must not be overwritten.
        let mut tries = (0..MOST_NAMES).map(|n| (name(n), disk.create(&name(n))));
        let taken = |(_, found): &(PathBuf, io::Result<Box<dyn Handle>>)| matches!(found, Err(e) if e.kind() == io::ErrorKind::AlreadyExists);
        let found = tries.find(|found| !taken(found));
        let (path, file) = found.ok_or(io::ErrorKind::AlreadyExists)?;
        let mut log = Self::begin(file?, &path, serial, first_ns);
        let begun = log.file.claim().and_then(|_| log.title());
        let begun = begun.and_then(|()| match sync {
            true => log.file.sync().and_then(|()| disk.sync_folder(folder)),
            false => Ok(()),
        });
        if let Err(error) = begun {
            drop(log);
            // An empty log is harmless if this fails as well.
            let _ = disk.remove(&path);
            return Err(error);
        }
        Ok(log)
    }

    /// A log in an empty file.
    pub fn begin(file: Box<dyn Handle>, path: &Path, serial: u32, first_ns: u64) -> Self {
        Self {
            file,
            path: path.to_owned(),
            bytes: 0,
            torn: false,
            serial,
            number: 0,
            parity: Parity::default(),
            first_ns,
            last_ns: first_ns,
        }
    }

    /// Writes the title line.
    pub fn title(&mut self) -> io::Result<()> {
        write_all(&mut *self.file, &[TITLE])?;
        self.bytes = TITLE.len() as u64;
        Ok(())
    }

    /// Appends a block in one write. After an error the log is as before, or the next call repairs it.
    pub fn append(
        &mut self,
        block: &[u8],
        tick_ns: u64,
        now_ns: u64,
        sync: bool,
    ) -> io::Result<()> {
        self.undo()?;
        let entries = &block[block::HEAD..];
        let crc = [block[4], block[5], block[6], block[7]];
        let head = self.head(entries, u32::from_le_bytes(crc), tick_ns);
        self.write(&head, entries, sync)?;
        self.last_ns = now_ns;
        Ok(())
    }

    /// Appends the payload of a block under a number, which must be above the last one.
    pub fn append_as(&mut self, number: u32, entries: &[u8], tick_ns: u64) -> io::Result<()> {
        if number != self.number {
            self.finish()?;
            self.number = number;
        }
        let head = self.head(entries, crc32fast::hash(entries), tick_ns);
        self.write(&head, entries, false)
    }

    fn head(&self, entries: &[u8], crc: u32, time_ns: u64) -> Head {
        Head {
            parity: false,
            number: self.number,
            length: entries.len() as u32,
            crc,
            time_ns,
            serial: self.serial,
        }
    }

    fn write(&mut self, head: &Head, entries: &[u8], sync: bool) -> io::Result<()> {
        let complete = self.parity.add(head, entries);
        let parity = complete.then(|| self.parity.record(self.serial));
        let (parity_head, sum) = parity.map_or((None, Vec::new()), |(h, sum)| (Some(h.put()), sum));
        let block_head = head.put();
        let mut parts = vec![&block_head[..], entries];
        if let Some(head) = &parity_head {
            parts.extend([&head[..], &sum]);
        }
        self.torn = true;
        let written = write_all(&mut *self.file, &parts);
        let written = written.and_then(|()| if sync { self.file.sync() } else { Ok(()) });
        if let Err(error) = written {
            // Earlier blocks of the group keep no parity.
            self.parity.clear();
            // If this fails, the next call tries again.
            let _ = self.undo();
            return Err(error);
        }
        self.torn = false;
        self.bytes += parts.iter().map(|p| p.len() as u64).sum::<u64>();
        self.number += 1;
        if complete {
            self.parity.clear();
        }
        Ok(())
    }

    /// Cuts the rest of a failed write. A complete block that was not acknowledged would be stored twice.
    pub fn undo(&mut self) -> io::Result<()> {
        if self.torn {
            self.file.cut(self.bytes)?;
            self.torn = false;
        }
        Ok(())
    }

    /// Writes a block and cuts it again: whether there is room for it.
    pub fn probe(&mut self, block: &[u8], sync: bool) -> io::Result<()> {
        self.undo()?;
        self.torn = true;
        let written = write_all(&mut *self.file, &[block]);
        let written = written.and_then(|()| if sync { self.file.sync() } else { Ok(()) });
        let cut = self.undo();
        written.and(cut)
    }

    /// Writes the parity of the last blocks.
    pub fn finish(&mut self) -> io::Result<()> {
        self.undo()?;
        if self.parity.is_open() {
            let (head, sum) = self.parity.record(self.serial);
            self.parity.clear();
            let head = head.put();
            self.torn = true;
            write_all(&mut *self.file, &[&head, &sum]).inspect_err(|_| {
                let _ = self.file.cut(self.bytes);
            })?;
            self.torn = false;
            self.bytes += (head.len() + sum.len()) as u64;
        }
        Ok(())
    }

    /// Path of the log, if its file was deleted.
    pub fn deleted(&self) -> Option<&Path> {
        (!self.file.is_linked()).then_some(&self.path)
    }

    /// Makes the log durable.
    pub fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }

    /// Length of the log.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether the next block must be self-contained, so that a lost one costs no more than those up to it.
    pub fn restarts(&self) -> bool {
        self.number.is_multiple_of(RESTART)
    }

    /// Time span of the log.
    pub fn seconds(&self) -> u64 {
        self.last_ns.abs_diff(self.first_ns) / 1_000_000_000
    }
}

/// Blocks from one self-contained block to the next.
const RESTART: u32 = 64;
