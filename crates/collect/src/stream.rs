//! Blocks from a running collector or from a store at any speed, through one interface.

use crate::block::{Arrival, Closing, Cluster, HEAD, LONGEST_BLOCK, split};
use crate::store::disk::{Disk, Os};
use crate::store::{Damage, LogReader, logs, some_logs, without_copies};
use crate::tls::{TLS_ALERT, Trust, UNANSWERED, Wire};
use crate::wire::{Kind, PREAMBLE, Token, frame, next_frame};
use hopbyte_observe::resolve::addresses;
use std::collections::{HashSet, VecDeque};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

/// A source of blocks.
pub struct Stream {
    way: Way,
    cluster: Cluster,
}

enum Way {
    Collector(Box<Wire>, Vec<u8>),
    Store(Box<Replay>),
}

/// A replay of a store.
struct Replay {
    logs: VecDeque<PathBuf>,
    reader: Option<LogReader>,
    /// Seconds of the store per second; zero: as fast as possible.
    speed: f64,
    /// Time of the first tick's delivery, and the tick's number.
    began: Option<(Instant, u64)>,
    from_ns: u64,
    to_ns: u64,
    /// The store's folder, if the replay waits at its end for new blocks.
    follow: Option<PathBuf>,
    disk: Arc<dyn Disk>,
    /// Logs that were opened, of a store that is followed.
    seen: HashSet<PathBuf>,
    damage: Damage,
    /// Findings about the logs read so far.
    notes: Vec<String>,
}

/// Polling interval of a store that is being written.
const LOOK: Duration = Duration::from_millis(10);
/// How long before the first requested tick a log may have been written for the last time, and be read.
const APART: Duration = Duration::from_secs(86_400);
/// Logs before the end that are read when following a store: the last one may hold a single tick.
const LOOK_BACK: usize = 3;

/// Longest silence of a collector beyond the length of two ticks.
const SILENCE: Duration = Duration::from_secs(10);

/// Maximum length of an answer before the blocks.
const LONGEST_ANSWER: usize = LONGEST_BLOCK + HEAD + 1;

impl Stream {
    /// The blocks of a collector from its next tick on. Reading fails after two ticks and ten seconds of silence.
    pub fn connect(
        address: &str,
        token: Option<&Token>,
        trust: Option<&Trust>,
    ) -> io::Result<Self> {
        let named = |e: io::Error| io::Error::new(e.kind(), format!("collector {address}: {e}"));
        // A name may have addresses on which nothing listens, as localhost has ::1.
        let mut tried = Err(io::ErrorKind::NotFound.into());
        for address in addresses(address).map_err(named)? {
            tried = TcpStream::connect_timeout(&address, Duration::from_secs(5));
            if tried.is_ok() {
                break;
            }
        }
        let socket = tried.map_err(named)?;
        socket.set_read_timeout(Some(SILENCE))?;
        let mut stream = match trust {
            Some(trust) => trust.connect(address, socket)?,
            None => Wire::Plain(socket),
        };
        let mut came = Vec::new();
        let mut proof = Vec::new();
        if let Some(token) = token {
            let closed = if trust.is_none() { UNANSWERED } else { CLOSED };
            let (kind, challenge) = receive(&mut stream, &mut came, closed).map_err(named)?;
            if kind == Kind::Challenge {
                proof = token.proof(&[&challenge, b"viewer"]).to_vec();
            }
        }
        let mut out = PREAMBLE.to_vec();
        frame(&mut out, Kind::Viewer, |b| b.extend_from_slice(&proof));
        stream.write_all(&out).map_err(named)?;
        stream.flush()?;
        Ok(Self {
            way: Way::Collector(Box::new(stream), came),
            cluster: Cluster::default(),
        })
    }

    /// The blocks of a store with ticks between two times (nanoseconds since 1970).
    pub fn replay(folder: &Path, speed: f64, from_ns: u64, to_ns: u64) -> io::Result<Self> {
        let (logs, others) = some_logs(folder)?;
        let mut logs = VecDeque::from(logs);
        // Copies have later times, and clocks differ: a log is read unless it is older by far.
        let from = Duration::from_nanos(from_ns).saturating_sub(APART);
        while logs.len() > 1 && logs.front().is_some_and(|log| written_before(log, from)) {
            logs.pop_front();
        }
        let replay = Replay::of(logs, speed, (from_ns, to_ns));
        Ok(Self::of(replay.once(others)))
    }

    /// The blocks of a store on another disk than the operating system's.
    pub fn replay_on(disk: Arc<dyn Disk>, folder: &Path) -> io::Result<Self> {
        let (logs, others) = some_logs(folder)?;
        let replay = Replay {
            disk,
            ..Replay::of(logs.into(), 0.0, (0, u64::MAX))
        };
        Ok(Self::of(replay.once(others)))
    }

    /// The last blocks of a store.
    pub fn newest(folder: &Path) -> io::Result<Self> {
        let (logs, others) = some_logs(folder)?;
        let mut logs = VecDeque::from(logs);
        logs.drain(..logs.len().saturating_sub(LOOK_BACK));
        let replay = Replay::of(logs, 0.0, (0, u64::MAX));
        Ok(Self::of(replay.once(others)))
    }

    /// The last blocks of a store, then new ones as they are written. Waits if the store is empty or its
    /// folder does not exist yet.
    pub fn follow(folder: &Path) -> Self {
        let mut logs: VecDeque<PathBuf> = logs(folder).unwrap_or_default().into();
        let older = logs.drain(..logs.len().saturating_sub(LOOK_BACK)).collect();
        Self::of(Replay {
            follow: Some(folder.to_owned()),
            seen: older,
            ..Replay::of(logs, 0.0, (0, u64::MAX))
        })
    }

    fn of(replay: Replay) -> Self {
        Self {
            way: Way::Store(Box::new(replay)),
            cluster: Cluster::default(),
        }
    }

    /// Whether the next tick is already available, so that readers can skip this one.
    pub fn is_behind(&self) -> bool {
        match &self.way {
            Way::Collector(_, came) => matches!(next_frame(came, LONGEST_ANSWER), Ok(Some(_))),
            Way::Store(replay) => {
                let more = replay.reader.as_ref().is_some_and(LogReader::has_block);
                replay.speed == 0.0 && (more || !replay.logs.is_empty())
            }
        }
    }

    /// The next tick, after `report` was called for its reports; `None` at the end of a store.
    pub fn next(
        &mut self,
        report: impl FnMut(&Cluster, u32, Arrival),
    ) -> io::Result<Option<Closing>> {
        match &mut self.way {
            Way::Collector(stream, came) => loop {
                let (kind, body) = receive(stream, came, CLOSED)?;
                match kind {
                    Kind::Block => {
                        let block = split(&body).map_err(invalid)?;
                        let (entries, _) = block.ok_or_else(|| invalid("an incomplete block"))?;
                        return self
                            .cluster
                            .read(entries, report)
                            .map(Some)
                            .map_err(invalid);
                    }
                    Kind::No => {
                        let text = String::from_utf8_lossy(&body).into_owned();
                        return Err(io::Error::other(format!("the collector refused {text}")));
                    }
                    Kind::Welcome => {
                        let tick = body.first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
                        // The first block after the one that is open may be the first.
                        let silence = SILENCE + 2 * Duration::from_nanos(tick);
                        stream.socket().set_read_timeout(Some(silence))?;
                    }
                    Kind::Challenge => {
                        let text = "the collector requires a token (--token FILE)";
                        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
                    }
                    _ => {}
                }
            },
            Way::Store(replay) => replay.next(report),
        }
    }

    /// Whether the blocks read so far are sound, and a sentence for every damaged log, once.
    pub fn is_sound(&mut self) -> (bool, Vec<String>) {
        match &mut self.way {
            Way::Store(replay) => {
                let mut all = replay.damage.clone();
                all.add(
                    replay
                        .reader
                        .as_ref()
                        .map_or(&Damage::default(), LogReader::damage),
                );
                (all.is_none(), std::mem::take(&mut replay.notes))
            }
            Way::Collector(..) => (true, Vec::new()),
        }
    }

    /// The state of the cluster after the ticks so far.
    pub fn cluster(&self) -> &Cluster {
        match &self.way {
            Way::Store(replay) => replay.reader.as_ref().map_or(&self.cluster, |r| &r.cluster),
            Way::Collector(..) => &self.cluster,
        }
    }
}

/// Whether a file was last written before a time since 1970.
fn written_before(log: &Path, time: Duration) -> bool {
    let written = std::fs::metadata(log).and_then(|m| m.modified());
    written.is_ok_and(|at| at < UNIX_EPOCH + time)
}

impl Replay {
    fn of(logs: VecDeque<PathBuf>, speed: f64, (from_ns, to_ns): (u64, u64)) -> Self {
        Self {
            logs,
            reader: None,
            speed,
            began: None,
            from_ns,
            to_ns,
            follow: None,
            disk: Arc::new(Os),
            seen: HashSet::new(),
            damage: Damage::default(),
            notes: Vec::new(),
        }
    }

    /// Leaves out copies of logs, and counts what cannot be read as a log.
    fn once(mut self, others: Vec<String>) -> Self {
        self.damage.unread += others.len() as u64;
        self.notes = others;
        self.logs =
            without_copies(&*self.disk, self.logs.make_contiguous(), &mut self.notes).into();
        self
    }

    fn next(
        &mut self,
        mut report: impl FnMut(&Cluster, u32, Arrival),
    ) -> io::Result<Option<Closing>> {
        loop {
            let reader = match &mut self.reader {
                Some(reader) => reader,
                none => {
                    let Some(path) = self.logs.pop_front() else {
                        let Some(folder) = &self.follow else {
                            return Ok(None);
                        };
                        std::thread::sleep(LOOK);
                        let found = logs(folder).unwrap_or_default().into_iter();
                        self.logs = found.filter(|log| !self.seen.contains(log)).collect();
                        continue;
                    };
                    if self.follow.is_some() {
                        self.seen.insert(path.clone());
                    }
                    match LogReader::open_on(&*self.disk, &path) {
                        Ok(reader) => none.insert(reader),
                        // A running collector deletes what is older than its --retain.
                        Err(error) if error.kind() == io::ErrorKind::NotFound => {
                            let text = format!("{}: deleted meanwhile", path.display());
                            self.notes.push(text);
                            continue;
                        }
                        // One unreadable file does not hide the others.
                        Err(error) => {
                            self.damage.unread += 1;
                            self.notes.push(error.to_string());
                            continue;
                        }
                    }
                }
            };
            let Some(closing) = reader.next_block(&mut report)? else {
                if self.turn()? {
                    continue;
                }
                return Ok(None);
            };
            let time_ns = closing.tick.saturating_mul(closing.period_ns);
            if time_ns > self.to_ns {
                return Ok(None);
            }
            if time_ns >= self.from_ns {
                self.wait(time_ns);
                return Ok(Some(closing));
            }
        }
    }

    /// At the end of a log: opens the next one, or waits if the store is being written. `false` at the end
    /// of the store.
    fn turn(&mut self) -> io::Result<bool> {
        if self.logs.is_empty()
            && let (Some(folder), Some(reader)) = (&self.follow, &self.reader)
        {
            // Names are of no help after the clock was set back.
            let newer = logs(folder)?.into_iter();
            let newer: VecDeque<PathBuf> = newer.filter(|log| !self.seen.contains(log)).collect();
            if reader.has_block() {
                // Written between the last read of this log and the start of the newer one.
                return Ok(true);
            }
            if newer.is_empty() {
                if !reader.is_titled() {
                    self.seen.remove(reader.path());
                    self.logs.push_back(reader.path().to_owned());
                    self.reader = None;
                }
                std::thread::sleep(LOOK);
                return Ok(true);
            }
            self.logs = newer;
        }
        if let Some(reader) = self.reader.take() {
            let damage = reader.damage();
            if !damage.is_none() {
                self.notes
                    .push(format!("{}: {damage}", reader.path().display()));
            }
            self.damage.add(damage);
            // A running collector may be about to write the rest.
            let unfinished = damage
                .unfinished()
                .filter(|_| reader.claim().is_ok_and(|is| is));
            let unfinished = unfinished.map(|text| format!("{}: {text}", reader.path().display()));
            self.notes.extend(unfinished);
        }
        Ok(!self.logs.is_empty())
    }

    fn wait(&mut self, time_ns: u64) {
        if self.speed <= 0.0 {
            return;
        }
        let (began, first_ns) = *self.began.get_or_insert((Instant::now(), time_ns));
        let seconds = time_ns.saturating_sub(first_ns) as f64 / 1e9 / self.speed;
        let due = began + Duration::from_secs_f64(seconds.min(1e9));
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
    }
}

#[allow(clippy::needless_pass_by_value, reason = "for `map_err(invalid)`")]
fn invalid(error: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("found {error}"))
}

/// A read that reached its timeout, in words.
fn silent(error: io::Error, timeout: Option<Duration>) -> io::Error {
    use io::ErrorKind::{TimedOut, WouldBlock};
    match error.kind() {
        TimedOut | WouldBlock => {
            let seconds = timeout.unwrap_or(SILENCE).as_secs();
            let text = format!("the collector sent nothing for {seconds} s");
            io::Error::new(TimedOut, text)
        }
        _ => error,
    }
}

/// What is said of a collector that ends a connection.
const CLOSED: &str = "the collector closed the connection";

/// The next frame; `came` holds received bytes. `closed` is said of a connection that ends before it.
fn receive(stream: &mut Wire, came: &mut Vec<u8>, closed: &str) -> io::Result<(Kind, Vec<u8>)> {
    let mut room = vec![0; 256 * 1024];
    loop {
        if came.starts_with(&TLS_ALERT) {
            return Err(io::Error::other(
                "the collector requires TLS (--tls-ca FILE)",
            ));
        }
        if let Some((kind, body, whole)) = next_frame(came, LONGEST_ANSWER).map_err(invalid)? {
            let body = body.to_vec();
            came.drain(..whole);
            return Ok((kind, body));
        }
        let read = stream.read(&mut room);
        let timeout = stream.socket().read_timeout().ok().flatten();
        match read.map_err(|e| silent(e, timeout))? {
            0 => return Err(io::Error::other(closed)),
            n => came.extend_from_slice(&room[..n]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_that_ends_without_a_byte_says_of_whom() {
        for kind in [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut] {
            let error = silent(kind.into(), None);
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert!(
                error
                    .to_string()
                    .starts_with("the collector sent nothing for")
            );
        }
    }
}
