//! The records of a log: blocks, and parity from which a damaged block is rebuilt.
//!
//! A log is a title line and records. A record is a head of 40 bytes and a payload (little endian):
//!
//! | bytes | field |
//! |---|---|
//! | 8 | marker, by which a reader finds the next record behind damage |
//! | 1 | kind: `B` a block's entries, `P` parity |
//! | 3 | zero |
//! | 4 | number of the block in the log; of parity, of the first block that it covers |
//! | 4, 4 | length and CRC-32 of the payload |
//! | 8 | start of the block's tick, nanoseconds since 1970 |
//! | 4 | serial number of the log in the store |
//! | 4 | CRC-32 of the bytes before |
//!
//! Parity covers the blocks directly before it: their number (1 byte), length and CRC-32 of each, and the
//! exclusive or of their payloads. Version 2 of the format had neither markers nor parity: a block was its length, its
//! CRC-32 and its entries.

use super::disk::Handle;
use crate::block::{self, LONGEST_BLOCK};
use std::io;

/// First lines of a log: this version's, and the one that is still read.
pub(super) const TITLE: &[u8; 14] = b"hopbyte log 3\n";
pub(super) const TITLE_2: &[u8; 14] = b"hopbyte log 2\n";
const MARKER: [u8; 8] = *b"\xb7hopblk\n";
/// Bytes of a head.
pub(super) const HEAD: usize = 40;
/// Maximum number of blocks that share parity.
pub(super) const GROUP: u32 = 8;
/// A block up to this length has parity of its own, which is a copy.
pub(super) const SMALL: usize = 16 << 10;
/// Bytes read at once in the search for a marker.
const WINDOW: usize = 1 << 16;
/// Length of the part of a file that is skipped when it cannot be read.
const SECTOR: u64 = 4096;
/// Length of the part of a file without a title line that is searched for records.
const SEARCH_START: u64 = 16 << 20;
/// Bound on the bytes summed in the search for a block of version 2, which has no marker.
const SEARCH: u64 = 1 << 30;

/// The head of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Head {
    pub parity: bool,
    pub number: u32,
    pub length: u32,
    pub crc: u32,
    pub time_ns: u64,
    pub serial: u32,
}

impl Head {
    pub fn put(&self) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(&MARKER);
        head[8] = if self.parity { b'P' } else { b'B' };
        head[12..16].copy_from_slice(&self.number.to_le_bytes());
        head[16..20].copy_from_slice(&self.length.to_le_bytes());
        head[20..24].copy_from_slice(&self.crc.to_le_bytes());
        head[24..32].copy_from_slice(&self.time_ns.to_le_bytes());
        head[32..36].copy_from_slice(&self.serial.to_le_bytes());
        let crc = crc32fast::hash(&head[..36]);
        head[36..].copy_from_slice(&crc.to_le_bytes());
        head
    }

    fn take(head: &[u8; HEAD]) -> Option<Self> {
        let sound = head[..8] == MARKER && u32_at(head, 36) == crc32fast::hash(&head[..36]);
        let mut time = [0; 8];
        time.copy_from_slice(&head[24..32]);
        let found = Self {
            parity: head[8] == b'P',
            number: u32_at(head, 12),
            length: u32_at(head, 16),
            crc: u32_at(head, 20),
            time_ns: u64::from_le_bytes(time),
            serial: u32_at(head, 32),
        };
        (sound && found.length as usize <= LONGEST_BLOCK + HEAD * 2).then_some(found)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Parity of the blocks since the last parity.
#[derive(Debug, Default)]
pub(super) struct Parity {
    first: u32,
    covered: Vec<(u32, u32)>,
    sum: Vec<u8>,
}

impl Parity {
    /// Adds a block's payload. Returns whether the parity is complete.
    pub fn add(&mut self, head: &Head, payload: &[u8]) -> bool {
        if self.covered.is_empty() {
            self.first = head.number;
            self.sum.clear();
        }
        self.covered.push((head.length, head.crc));
        xor(&mut self.sum, payload);
        payload.len() <= SMALL || self.covered.len() as u32 == GROUP
    }

    /// Whether a block is uncovered by a written parity.
    pub fn is_open(&self) -> bool {
        !self.covered.is_empty()
    }

    /// Forgets the blocks, which were not written or whose parity was.
    pub fn clear(&mut self) {
        self.covered.clear();
    }

    /// The record.
    pub fn record(&self, serial: u32) -> (Head, Vec<u8>) {
        let mut payload = vec![self.covered.len() as u8];
        for (length, crc) in &self.covered {
            payload.extend_from_slice(&length.to_le_bytes());
            payload.extend_from_slice(&crc.to_le_bytes());
        }
        payload.extend_from_slice(&self.sum);
        let head = Head {
            parity: true,
            number: self.first,
            length: payload.len() as u32,
            crc: crc32fast::hash(&payload),
            serial,
            ..Head::default()
        };
        (head, payload)
    }
}

/// `sum` becomes its exclusive or with `bytes`; the shorter one counts as continued by zeroes.
fn xor(sum: &mut Vec<u8>, bytes: &[u8]) {
    let common = sum.len().min(bytes.len());
    let pairs = sum[..common].iter_mut().zip(bytes);
    pairs.for_each(|(s, b)| *s ^= b);
    sum.extend_from_slice(&bytes[common..]);
}

/// Version of a log's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Two,
    Three,
}

/// Found at a position of a log.
pub(super) enum At {
    /// A record, whose payload was read.
    Record(Head),
    /// The end of the file.
    End,
    /// The beginning of a record that the file ends in.
    Short,
    /// Anything else, or an unreadable part.
    Bad,
}

/// The records of a file.
#[derive(Debug)]
pub(super) struct Records {
    pub file: Box<dyn Handle>,
    pub version: Version,
}

/// A block of a group, by its number; `None` if it cannot be rebuilt.
pub(super) type Rebuilt = (u32, Option<Vec<u8>>);

impl Records {
    /// Reads the title line. Returns the records, the position after the title and whether the title is damaged.
    pub fn open(file: Box<dyn Handle>) -> io::Result<Result<(Self, u64, bool), String>> {
        let mut start = [0; TITLE.len() + MARKER.len()];
        let n = file.read_at(&mut start, 0)?;
        let title = &start[..n.min(TITLE.len())];
        let like = |of: &[u8; 14]| title.iter().zip(of).filter(|(a, b)| a == b).count();
        let mut records = Self {
            file,
            version: Version::Three,
        };
        if title == &TITLE[..title.len()] {
            return Ok(Ok((records, title.len() as u64, false)));
        }
        if title == &TITLE_2[..title.len()] && start[title.len()..] != MARKER {
            records.version = Version::Two;
            return Ok(Ok((records, title.len() as u64, false)));
        }
        let at = (TITLE.len() as u64).min(n as u64);
        if n >= TITLE.len() && like(TITLE) + 2 >= TITLE.len() {
            if start[TITLE.len()..] == MARKER {
                return Ok(Ok((records, at, true)));
            }
            records.version = Version::Two;
            if let At::Record(_) = records.at(at, 0, &mut Vec::new()) {
                return Ok(Ok((records, at, true)));
            }
            records.version = Version::Three;
        }
        let version = title.strip_prefix(b"hopbyte log ").and_then(|v| v.first());
        if let Some(&v) = version.filter(|v| v.is_ascii_graphic() && !b"23".contains(v)) {
            return Ok(Err(format!(
                "a log of version {}, expected version 2 or 3: use the hopbyte that wrote it",
                char::from(v)
            )));
        }
        // A lost first page: zeroes after a power cut, or records behind damage.
        let lost = n > 0 && start[..n].iter().all(|&b| b == 0);
        if lost
            || records
                .search_to(0, 0, SEARCH_START, &mut Vec::new())
                .is_some()
        {
            return Ok(Ok((records, at, true)));
        }
        Ok(Err("a file that is not a hopbyte log".to_owned()))
    }

    /// Bytes before a payload.
    pub fn head_bytes(&self) -> u64 {
        match self.version {
            Version::Two => block::HEAD as u64,
            Version::Three => HEAD as u64,
        }
    }

    /// The head at a position, if its record is complete.
    pub fn head(&self, at: u64, number: u32) -> Result<Head, At> {
        let Ok(end) = self.file.length() else {
            return Err(At::Bad);
        };
        if at >= end {
            return Err(At::End);
        }
        let mut head = [0; HEAD];
        let room = &mut head[..self.head_bytes() as usize];
        match self.file.read_at(room, at) {
            Ok(n) if n < room.len() => return Err(At::Short),
            Ok(_) => {}
            Err(_) => return Err(At::Bad),
        }
        let found = match self.version {
            Version::Three => Head::take(&head).ok_or(At::Bad)?,
            // A block has at least its closing.
            Version::Two if !(1..=LONGEST_BLOCK as u32).contains(&u32_at(&head, 0)) => {
                return Err(At::Bad);
            }
            Version::Two => Head {
                number,
                length: u32_at(&head, 0),
                crc: u32_at(&head, 4),
                ..Head::default()
            },
        };
        if at + self.head_bytes() + u64::from(found.length) > end {
            return Err(At::Short);
        }
        Ok(found)
    }

    /// Reads the record at a position. A block of version 2 has no number: it is `number`.
    pub fn at(&self, at: u64, number: u32, payload: &mut Vec<u8>) -> At {
        let head = match self.head(at, number) {
            Ok(head) => head,
            Err(other) => return other,
        };
        if self.payload(at, head.length, head.crc, payload) {
            At::Record(head)
        } else {
            At::Bad
        }
    }

    /// Reads a payload. Returns whether it is complete and has this checksum.
    fn payload(&self, at: u64, length: u32, crc: u32, payload: &mut Vec<u8>) -> bool {
        payload.resize(length as usize, 0);
        let read = self.file.read_at(payload, at + self.head_bytes());
        matches!(read, Ok(n) if n == payload.len()) && crc32fast::hash(payload) == crc
    }

    /// Length of a record.
    pub fn whole(&self, head: &Head) -> u64 {
        self.head_bytes() + u64::from(head.length)
    }

    /// The next sound record at `from` or behind it.
    pub fn search(&self, from: u64, number: u32, payload: &mut Vec<u8>) -> Option<(u64, Head)> {
        self.search_to(from, number, u64::MAX, payload)
    }

    /// [`Records::search`] up to a position.
    fn search_to(
        &self,
        from: u64,
        number: u32,
        to: u64,
        payload: &mut Vec<u8>,
    ) -> Option<(u64, Head)> {
        let mut window = vec![0; WINDOW];
        let (mut at, mut left) = (from, SEARCH);
        loop {
            let end = self.file.length().ok()?;
            if at >= end.min(to) {
                return None;
            }
            let (n, whole) = match self.file.read_at(&mut window, at) {
                Ok(n) => (n, true),
                Err(_) => (self.sector(&mut window, at), false),
            };
            for i in 0..n {
                let here = &window[i..n];
                let plausible = match self.version {
                    Version::Three => {
                        here[0] == MARKER[0] && here.starts_with(&MARKER[..here.len().min(8)])
                    }
                    Version::Two => {
                        let length = here.first_chunk::<9>().map(|h| (u32_at(h, 0), h[8]));
                        let fits = |(l, kind): (u32, u8)| {
                            u64::from(l) <= end - at - i as u64 && b"hnsrc".contains(&kind)
                        };
                        let fits = length.is_some_and(fits);
                        left = left
                            .saturating_sub(length.map_or(0, |l| u64::from(l.0) * u64::from(fits)));
                        fits && left > 0
                    }
                };
                let here = at + i as u64;
                if plausible && let At::Record(head) = self.at(here, number, payload) {
                    return Some((here, head));
                }
            }
            if !whole {
                at = (at / SECTOR + 1) * SECTOR;
            } else if n <= HEAD {
                return None;
            } else {
                // The last bytes may be the first of a head.
                at += (n - HEAD) as u64;
            }
        }
    }

    /// Reads up to the end of a sector, after a longer read failed; 0 if that fails too.
    fn sector(&self, window: &mut [u8], at: u64) -> usize {
        let length = (SECTOR - at % SECTOR) as usize;
        self.file.read_at(&mut window[..length], at).unwrap_or(0)
    }

    /// The blocks from `number` on of the group of the log with a serial number whose parity is at `from` or behind it, and
    /// the end of that group.
    pub fn rebuild(&self, number: u32, from: u64, serial: u32) -> Option<(Vec<Rebuilt>, u64)> {
        let mut payload = Vec::new();
        let mut at = from;
        loop {
            let head = match self.at(at, number, &mut payload) {
                At::Record(head) => head,
                At::Bad => {
                    at = self.search(at + 1, number, &mut payload)?.0;
                    continue;
                }
                At::End | At::Short => return None,
            };
            let count = u32::from(payload.first().copied().unwrap_or(0));
            let covers =
                head.parity && head.number <= number && number < head.number.checked_add(count)?;
            if covers && head.serial == serial {
                let end = at + self.whole(&head);
                return Some((self.group(&head, at, &payload, number)?, end));
            }
            if head.number > number.saturating_add(GROUP) {
                return None;
            }
            at += self.whole(&head);
        }
    }

    fn group(&self, parity: &Head, at: u64, payload: &[u8], from: u32) -> Option<Vec<Rebuilt>> {
        let (&count, rest) = payload.split_first()?;
        let (list, sum) = rest.split_at_checked(usize::from(count) * 8)?;
        let list: Vec<(u32, u32)> = list
            .chunks_exact(8)
            .map(|c| (u32_at(c, 0), u32_at(c, 4)))
            .collect();
        let bytes: u64 = list
            .iter()
            .map(|l| self.head_bytes() + u64::from(l.0))
            .sum();
        let mut at = at.checked_sub(bytes)?;
        let mut blocks: Vec<Rebuilt> = Vec::new();
        let mut sum = sum.to_vec();
        for (&(length, crc), number) in list.iter().zip(parity.number..) {
            let mut block = Vec::new();
            let sound = self.payload(at, length, crc, &mut block);
            if sound {
                xor(&mut sum, &block);
            }
            blocks.push((number, sound.then_some(block)));
            at += self.head_bytes() + u64::from(length);
        }
        let mut bad = blocks.iter_mut().zip(&list).filter(|(b, _)| b.1.is_none());
        if let (Some(((_, block), &(length, crc))), None) = (bad.next(), bad.next()) {
            sum.truncate(length as usize);
            *block = (crc32fast::hash(&sum) == crc).then_some(sum);
        }
        blocks.retain(|b| b.0 >= from);
        Some(blocks)
    }
}
