//! A log file: a title line, then blocks.

use crate::Refusal;
use crate::block::{Arrival, Closing, Cluster, HEAD, LONGEST_BLOCK, split};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// First line of a log.
const TITLE: &[u8] = b"hopbyte log 2\n";

/// A log that is being written.
#[derive(Debug)]
pub struct Log {
    file: File,
    bytes: u64,
    first_ns: u64,
    last_ns: u64,
}

impl Log {
    /// Creates a log, named after the time of its first tick (nanoseconds since 1970).
    pub fn create(folder: &Path, first_ns: u64) -> io::Result<Self> {
        let mut open = OpenOptions::new();
        open.append(true).create_new(true);
        let seconds = first_ns / 1_000_000_000;
        let name = |n: u32| folder.join(format!("{seconds:011}-{n:02}.log"));
        // After a clock step or a restart within the same tick, an older log must not be overwritten.
        let mut tries = (0..100).map(|n| open.open(name(n)));
        let taken = |found: &io::Result<File>| matches!(found, Err(e) if e.kind() == io::ErrorKind::AlreadyExists);
        let file = tries.find(|found| !taken(found));
        let mut file = file.unwrap_or_else(|| Err(io::ErrorKind::AlreadyExists.into()))?;
        file.write_all(TITLE)?;
        Ok(Self {
            file,
            bytes: TITLE.len() as u64,
            first_ns,
            last_ns: first_ns,
        })
    }

    /// Appends a block in one write.
    pub fn append(&mut self, block: &[u8], now_ns: u64, sync: bool) -> io::Result<()> {
        self.file.write_all(block)?;
        if sync {
            self.file.sync_data()?;
        }
        self.bytes += block.len() as u64;
        self.last_ns = now_ns;
        Ok(())
    }

    /// Length of the log.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Time span of the log.
    pub fn seconds(&self) -> u64 {
        self.last_ns.saturating_sub(self.first_ns) / 1_000_000_000
    }
}

/// Reads a log block by block.
pub struct LogReader {
    /// The state of the cluster after the blocks read so far.
    pub cluster: Cluster,
    path: PathBuf,
    input: BufReader<File>,
    position: u64,
    room: Vec<u8>,
}

impl LogReader {
    /// Opens a log. A file that ends within the title line is an empty log.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut input = BufReader::with_capacity(1 << 20, File::open(path)?);
        let mut title = vec![0; TITLE.len()];
        let n = read_full(&mut input, &mut title)?;
        if title[..n] != TITLE[..n] {
            return Err(invalid(
                path,
                &Refusal::new("a file that is not a hopbyte log"),
            ));
        }
        Ok(Self {
            cluster: Cluster::default(),
            path: path.to_owned(),
            input,
            position: n as u64,
            room: Vec::new(),
        })
    }

    /// The next block's closing, after its reports; `None` at the end. Call again after the log has grown. A
    /// last block that is incomplete because its writer was killed is the end; a block with a wrong checksum
    /// before the end is an error.
    pub fn next_block(
        &mut self,
        report: impl FnMut(&Cluster, u32, Arrival),
    ) -> io::Result<Option<Closing>> {
        let Some(whole) = self.next_bytes()? else {
            self.input.seek(SeekFrom::Start(self.position))?;
            return Ok(None);
        };
        let room = std::mem::take(&mut self.room);
        let entries = split(&room).and_then(|found| match found {
            Some((entries, _)) => self.cluster.read(entries, report).map(Some),
            None => Ok(None),
        });
        self.room = room;
        let closing = entries.map_err(|refusal| invalid(&self.path, &refusal))?;
        self.position += whole;
        Ok(closing)
    }

    fn next_bytes(&mut self) -> io::Result<Option<u64>> {
        self.room.resize(HEAD, 0);
        if read_full(&mut self.input, &mut self.room)? < HEAD {
            return Ok(None);
        }
        let length = u32::from_le_bytes([self.room[0], self.room[1], self.room[2], self.room[3]]);
        let length = length as usize;
        if length > LONGEST_BLOCK {
            return Err(invalid(
                &self.path,
                &Refusal::new("a block that is too long"),
            ));
        }
        let left = fs::metadata(&self.path)?
            .len()
            .saturating_sub(self.position + HEAD as u64);
        if (length as u64) > left {
            return Ok(None);
        }
        self.room.resize(HEAD + length, 0);
        let got = read_full(&mut self.input, &mut self.room[HEAD..])?;
        Ok((got == length).then_some((HEAD + length) as u64))
    }

    /// Whether another complete block follows.
    pub fn has_block(&self) -> bool {
        let mut head = [0; 4];
        let file = self.input.get_ref();
        let length = file
            .read_exact_at(&mut head, self.position)
            .and_then(|()| file.metadata());
        length.is_ok_and(|m| {
            let block = HEAD as u64 + u64::from(u32::from_le_bytes(head));
            m.len() >= self.position + block
        })
    }

    /// Whether the title line was complete when the log was opened.
    pub fn is_titled(&self) -> bool {
        self.position >= TITLE.len() as u64
    }

    /// Path of the log.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes up to the end of the last complete block.
    pub fn position(&self) -> u64 {
        self.position
    }
}

fn invalid(path: &Path, refusal: &Refusal) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("{}: found {refusal}", path.display()),
    )
}

fn read_full(input: &mut impl Read, room: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < room.len() {
        match input.read(&mut room[done..]) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
