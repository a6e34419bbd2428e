//! Reads a log block by block, round damage.

use super::disk::{Disk, Handle, Os};
use super::record::{At, Head, Rebuilt, Records, TITLE};
use crate::block::{Arrival, Closing, Cluster};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Damage found in a log. Lost blocks held acknowledged reports; an unfinished last block did not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// Blocks that were damaged and rebuilt from their parity.
    pub rebuilt: u64,
    /// Blocks that are missing.
    pub lost: u64,
    /// Damaged or unreadable bytes that were skipped.
    pub bytes: u64,
    /// Reports behind a lost block whose values build on it: they count as missing.
    pub without_values: u64,
    /// Reason for the first refusal of a block whose checksum is right.
    pub refused: Option<String>,
    /// Damaged or unfinished bytes at the end of the log.
    pub tail: u64,
    /// Whether the tail is damaged: a write that was interrupted leaves no complete record.
    pub bad_tail: bool,
    /// Files that could not be read as logs.
    pub unread: u64,
}

impl Damage {
    /// Whether no byte is damaged.
    pub fn is_none(&self) -> bool {
        self.rebuilt + self.lost + self.bytes + self.unread == 0
            && self.refused.is_none()
            && !self.bad_tail
    }

    /// A sentence about an unfinished last block, if there is one. Its writer was killed, or the file is cut.
    pub fn unfinished(&self) -> Option<String> {
        let text = || {
            format!(
                "{} bytes of an unfinished last block are left out",
                self.tail
            )
        };
        (self.tail > 0 && !self.bad_tail).then(text)
    }

    /// Adds the damage of another log.
    pub fn add(&mut self, other: &Self) {
        self.rebuilt += other.rebuilt;
        self.lost += other.lost;
        self.bytes += other.bytes;
        self.without_values += other.without_values;
        if self.refused.is_none() {
            self.refused.clone_from(&other.refused);
        }
        self.tail += other.tail;
        self.bad_tail |= other.bad_tail;
        self.unread += other.unread;
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "damaged: {} bytes skipped, {} blocks rebuilt from parity, {} blocks lost",
            self.bytes + if self.bad_tail { self.tail } else { 0 },
            self.rebuilt,
            self.lost
        )?;
        if self.bad_tail {
            f.write_str(" before its end, and a damaged end")?;
        }
        if self.without_values > 0 {
            write!(f, "; {} reports without values", self.without_values)?;
        }
        match &self.refused {
            Some(why) => write!(f, "; found {why}"),
            None => Ok(()),
        }
    }
}

/// Reads a log block by block.
pub struct LogReader {
    /// The state of the cluster after the blocks read so far.
    pub cluster: Cluster,
    path: PathBuf,
    records: Records,
    position: u64,
    /// Number of the next block.
    number: u32,
    rebuilt: VecDeque<Rebuilt>,
    room: Vec<u8>,
    damage: Damage,
    /// Serial number of the last block that was read.
    serial: Option<u32>,
    /// Serial number of the first one.
    home: Option<u32>,
    tick_ns: u64,
}

/// Reason for the refusal of a block of another log.
const FOREIGN: &str = "blocks of another log";

impl LogReader {
    /// Opens a log. A file that ends within the title line is an empty log.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::open_on(&Os, path)
    }

    /// Opens a log on another disk than the operating system's.
    pub fn open_on(disk: &dyn Disk, path: &Path) -> io::Result<Self> {
        Self::of(disk.open(path, false)?, path)
    }

    fn of(file: Box<dyn Handle>, path: &Path) -> io::Result<Self> {
        let (records, position, bad_title) = Records::open(file)?.map_err(|what| {
            let text = format!("{}: found {what}", path.display());
            io::Error::new(io::ErrorKind::InvalidData, text)
        })?;
        let damage = Damage {
            bytes: u64::from(bad_title),
            ..Damage::default()
        };
        Ok(Self {
            cluster: Cluster::default(),
            path: path.to_owned(),
            records,
            position,
            number: 0,
            rebuilt: VecDeque::new(),
            room: Vec::new(),
            damage,
            serial: None,
            home: None,
            tick_ns: 0,
        })
    }

    /// The next block's closing, after its reports; `None` at the end. Call again after the log has grown.
    ///
    /// A damaged block is rebuilt from its parity. If it is lost, the reports behind it are passed with missing values
    /// until their node is introduced again; [`LogReader::damage`] counts both. A last block that is incomplete
    /// because its writer was killed is the end.
    pub fn next_block(
        &mut self,
        mut report: impl FnMut(&Cluster, u32, Arrival),
    ) -> io::Result<Option<Closing>> {
        while let Some(number) = self.next_payload() {
            self.pass(number);
            let room = std::mem::take(&mut self.room);
            let closing = self.cluster.read(&room, &mut report);
            self.room = room;
            self.damage.without_values = self.cluster.without_values();
            match closing {
                Ok(closing) => return Ok(Some(closing)),
                Err(refusal) => self.refuse(refusal.to_string()),
            }
        }
        Ok(None)
    }

    /// The next block's number, whose entries are then in [`LogReader::entries`].
    pub(super) fn next_entries(&mut self) -> Option<u32> {
        let number = self.next_payload()?;
        self.pass(number);
        Some(number)
    }

    /// Entries of the block of [`LogReader::next_entries`].
    pub(super) fn entries(&self) -> &[u8] {
        &self.room
    }

    /// Counts the block of [`LogReader::next_entries`] as lost.
    pub(super) fn refuse(&mut self, why: String) {
        self.damage.refused.get_or_insert(why);
        self.damage.lost += 1;
        self.cluster.lose();
    }

    /// Counts the blocks before a block that was read.
    fn pass(&mut self, number: u32) {
        if number > self.number {
            self.damage.lost += u64::from(number - self.number);
            self.cluster.lose();
        }
        self.number = number.saturating_add(1);
    }

    /// Reads the next block into the room.
    fn next_payload(&mut self) -> Option<u32> {
        loop {
            while let Some((number, block)) = self.rebuilt.pop_front() {
                if let Some(block) = block {
                    self.room = block;
                    return Some(number);
                }
            }
            match self.records.at(self.position, self.number, &mut self.room) {
                At::Record(head) => {
                    self.position += self.records.whole(&head);
                    if head.parity {
                        continue;
                    }
                    let follows = head.number >= self.number;
                    self.note_foreign(&head, follows);
                    (self.serial, self.tick_ns) = (Some(head.serial), head.time_ns);
                    if follows {
                        (self.damage.tail, self.damage.bad_tail) = (0, false);
                        return Some(head.number);
                    }
                }
                At::End => return None,
                // The length of a block of version 2 may be damaged: a sound block behind it tells.
                found => {
                    if self.recover() {
                        continue;
                    }
                    let bad = matches!(found, At::Bad);
                    (self.damage.tail, self.damage.bad_tail) = (self.left(), bad);
                    return None;
                }
            }
        }
    }

    /// Counts a block that is of another log than the first ones: logs were joined, or a write went to the wrong place.
    /// Its values do not build on the blocks before.
    fn note_foreign(&mut self, head: &Head, follows: bool) {
        if self.serial.is_some_and(|serial| serial != head.serial) {
            self.damage.refused.get_or_insert(FOREIGN.into());
            self.cluster.lose();
        }
        let home = *self.home.get_or_insert(head.serial);
        self.damage.lost += u64::from(home != head.serial && !follows);
    }

    /// Goes on behind damage: with the blocks of a group that has parity, or at the next sound record. `false` if there
    /// is none.
    fn recover(&mut self) -> bool {
        let (bad, next) = (self.position, self.number + 1);
        let mut room = Vec::new();
        // Usually its length is right.
        let behind = self
            .records
            .head(bad, next)
            .map(|head| bad + self.records.whole(&head));
        let behind = behind
            .ok()
            .and_then(|at| match self.records.at(at, next, &mut room) {
                At::Record(head) => Some((at, head)),
                _ => None,
            });
        let found = behind.or_else(|| self.records.search(bad + 1, next, &mut room));
        let Some((at, head)) = found else {
            return false;
        };
        // Of a log whose first block is rebuilt, its serial number is that of the record behind.
        let serial = *self.serial.get_or_insert(head.serial);
        let intact = !head.parity && head.number == self.number;
        // The group of the next block, or else of the last one before the record that was found.
        let last = if head.parity {
            head.number
        } else {
            head.number.saturating_sub(1)
        };
        let wanted = [self.number, last.max(self.number)].into_iter();
        let mut wanted = wanted.filter(|_| self.is_current() && !intact);
        let group = wanted.find_map(|number| self.records.rebuild(number, at, serial));
        if let Some((blocks, end)) = group {
            // Damage of other blocks of the group is counted with this one's.
            self.damage.bytes += self.damaged(bad, end, &blocks);
            self.position = end;
            self.rebuilt = blocks.into();
            return true;
        }
        self.damage.bytes += at - bad;
        self.position = at;
        if !self.is_current() {
            // Blocks have no numbers: one is lost.
            self.damage.lost += 1;
            self.number = next;
            self.cluster.lose();
        }
        true
    }

    /// Counts rebuilt blocks, and returns the bytes of damaged records between two positions.
    fn damaged(&mut self, from: u64, to: u64, blocks: &[Rebuilt]) -> u64 {
        let (mut at, mut sound, mut bytes) = (from, Vec::new(), to - from);
        let mut room = Vec::new();
        while at < to {
            match self.records.at(at, self.number, &mut room) {
                At::Record(head) => {
                    sound.push((head.parity, head.number));
                    bytes -= self.records.whole(&head).min(bytes);
                    at += self.records.whole(&head);
                }
                _ => match self.records.search(at + 1, self.number, &mut room) {
                    Some((next, _)) => at = next,
                    None => break,
                },
            }
        }
        let rebuilt = blocks
            .iter()
            .filter(|b| b.1.is_some() && !sound.contains(&(false, b.0)));
        self.damage.rebuilt += rebuilt.count() as u64;
        bytes
    }

    fn left(&self) -> u64 {
        let end = self.records.file.length().unwrap_or(self.position);
        end.saturating_sub(self.position)
    }

    /// Whether another complete block follows.
    pub fn has_block(&self) -> bool {
        let mut at = self.position;
        while let Ok(head) = self.records.head(at, self.number) {
            if !head.parity {
                return true;
            }
            at += self.records.whole(&head);
        }
        !self.rebuilt.is_empty()
    }

    /// Start times of the log's ticks in nanoseconds since 1970, as spans whose gaps are at most `gap_ns`, in the order
    /// of the log.
    pub(super) fn spans(&mut self, gap_ns: u64) -> Vec<(u64, u64)> {
        let mut spans: Vec<(u64, u64)> = Vec::new();
        let mut add = |t: u64| match spans.last_mut() {
            Some((from, to))
                if t.saturating_add(gap_ns) >= *from && t <= to.saturating_add(gap_ns) =>
            {
                (*from, *to) = ((*from).min(t), (*to).max(t));
            }
            _ => spans.push((t, t)),
        };
        if self.records.version == super::record::Version::Three {
            let (mut at, mut room) = (self.position, Vec::new());
            loop {
                match self.records.head(at, 0) {
                    Ok(head) => {
                        if !head.parity {
                            add(head.time_ns);
                        }
                        at += self.records.whole(&head);
                    }
                    Err(At::Bad) => match self.records.search(at + 1, 0, &mut room) {
                        Some((next, _)) => at = next,
                        None => return spans,
                    },
                    Err(_) => return spans,
                }
            }
        }
        while self.next_entries().is_some() {
            if let Ok(closing) = crate::block::closing(self.entries()) {
                add(closing.tick.saturating_mul(closing.period_ns));
            }
        }
        spans
    }

    /// Damage so far.
    pub fn damage(&self) -> &Damage {
        &self.damage
    }

    /// Serial number of the log in its store, once a block was read; 0 for logs of version 2.
    pub(super) fn serial(&self) -> u32 {
        self.serial.unwrap_or(0)
    }

    /// The head of the first record, if it is sound: equal in copies of a log.
    pub(super) fn first(&self) -> Option<Head> {
        self.records.head(self.position, 0).ok()
    }

    /// Serial number in the first sound record; 0 without one.
    pub(super) fn first_serial(&self) -> u32 {
        let found = self
            .first()
            .or_else(|| Some(self.records.search(self.position, 0, &mut Vec::new())?.1));
        found.map_or(0, |head| head.serial)
    }

    /// Whether the log is of this version's format.
    pub(super) fn is_current(&self) -> bool {
        self.records.version == super::record::Version::Three
    }

    /// Locks the log until the reader is dropped; `false` if another one reads or writes it under a lock.
    pub(crate) fn claim(&self) -> io::Result<bool> {
        self.records.file.claim()
    }

    /// Length of the file.
    pub(super) fn length(&self) -> io::Result<u64> {
        self.records.file.length()
    }

    /// Whether the title line was complete when the log was opened.
    pub fn is_titled(&self) -> bool {
        self.position >= TITLE.len() as u64
    }

    /// Path of the log.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes up to the end of the last complete record.
    pub fn position(&self) -> u64 {
        self.position
    }
}
