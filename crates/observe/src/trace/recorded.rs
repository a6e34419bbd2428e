//! Traces of hopbyte's own recorder (`mpi/FORMAT.md`): a folder with one `.hbt` file per rank.

mod groups;
mod lost;

use super::complete;
use crate::ObserveError;
use crate::text::{Limits, Line, Text, decimal, lossy};
use crate::traffic::calls::kind;
use crate::traffic::record::{library_doubt, release};
use groups::Groups;
use hopbyte_fabric::InputError;
use hopbyte_fabric::collective::{Algorithms, Collective, How, Library};
use hopbyte_fabric::trace::Call;
use hopbyte_fabric::trace::folded::{Folded, FoldedRank, Loop, Step};
use lost::Lost;
use std::collections::BTreeMap;
use std::path::Path;

const LIMITS: Limits = Limits {
    binary: true,
    ..Limits::ROWS
};
const CUT_SHORT: &str = "ranks that are killed, as by another's MPI_Abort, before their first MPI call after two seconds leave no trace: record the job again";
/// Deepest loop within loops.
const DEEPEST: usize = 64;
/// Largest number of bytes to members that collectives of one rank may list.
const MAX_ROWS: usize = 1 << 24;

/// Whether a file is a rank's trace.
pub(super) fn is(text: &Text) -> bool {
    text.bytes().starts_with(b"# hopbyte-trace ")
}

/// The trace in a folder; `None` if `name` is no folder, or holds no such files.
///
/// # Errors
/// Files that are damaged, of ranks of different worlds, or missing.
pub fn folder(name: &str) -> Result<Option<Folded>, ObserveError> {
    let path = Path::new(name);
    if !path.is_dir() {
        return Ok(None);
    }
    let io = |e| ObserveError::io(path, e);
    let (mut paths, mut spawned) = (Vec::new(), 0u64);
    for entry in std::fs::read_dir(path).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path.extension().is_some_and(|e| e == "hbt") {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            match name.starts_with("spawned.") {
                true => spawned += 1,
                false => paths.push(path),
            }
        }
    }
    paths.sort();
    let mut texts = Vec::with_capacity(paths.len());
    for path in paths {
        texts.push(Text::read(&path, LIMITS)?);
    }
    if texts.is_empty() {
        return Ok(None);
    }
    let mut folded = read(name, &texts)?;
    if spawned > 0 {
        folded.complete = false;
        folded.notes.push(format!(
            "{spawned} processes that the job started are another world: their traces are left out"
        ));
    }
    Ok(Some(folded))
}

/// Algorithms of collectives as the library that ran the job decides; `None` if the folder has no trace.
///
/// # Errors
/// A file cannot be read.
pub fn algorithms(name: &str) -> Result<Option<Algorithms>, ObserveError> {
    let path = Path::new(name).join("rank.0.hbt");
    if !path.is_file() {
        return Ok(None);
    }
    let text = Text::read(&path, LIMITS)?;
    let mut rules = Algorithms::default();
    for line in text.lines().take_while(|l| l.bytes != b"program") {
        let words: Vec<_> = cells(line).into_iter().map(lossy).collect();
        match &words[..] {
            [key, name, ..] if key == "library" => {
                let major = release(name).map_or(0, |r| r.0);
                rules = rules.or(Library::of_version(name)).of_release(major);
            }
            [key, name, value, ..] if key == "setting" => {
                rules = rules.with_settings([(name.as_ref(), value.as_ref())].into_iter());
            }
            _ => {}
        }
    }
    Ok(Some(rules))
}

/// Why the choices of the job's library may not be the known ones, if they may not; `shared`: of ranks on several nodes,
/// some of them on one. Traces of other tools do not name the library.
///
/// # Errors
/// A file cannot be read.
pub fn doubt(name: &str, shared: bool) -> Result<Option<&'static str>, ObserveError> {
    let path = Path::new(name).join("rank.0.hbt");
    if !path.is_file() {
        return Ok(Some(
            "the trace does not name the library, and MPICH's are taken; --collectives names others",
        ));
    }
    let text = Text::read(&path, LIMITS)?;
    let mut lines = text.lines().take_while(|l| l.bytes != b"program");
    let library = lines.find_map(|line| match cells(line)[..] {
        [b"library", name, ..] => Some(lossy(name)),
        _ => None,
    });
    let known = library.and_then(|name| {
        let library = Library::of_version(&name);
        library_doubt(library, release(&name), shared)
    });
    let rules = algorithms(name)?.unwrap_or_default();
    Ok(known.or_else(|| rules.doubt()))
}

/// Reads the files of all ranks.
///
/// # Errors
/// As for [`folder`].
pub fn read(source: &str, texts: &[Text]) -> Result<Folded, ObserveError> {
    let mut ranks = BTreeMap::new();
    let mut size = None;
    let mut groups = Groups::default();
    for text in texts {
        let n = head(text, b"size")?;
        if *size.get_or_insert(n) != n {
            let found = format!("a world of {n} ranks");
            return Err(text.error(found, "as many as in the other files").into());
        }
        groups.learn(text, n as usize)?;
    }
    let size = size.unwrap_or(0) as usize;
    groups.finish(size);
    let mut lost = Lost::default();
    for text in texts {
        let rank = head(text, b"rank")?;
        if rank >= size as u64 {
            return Err(text
                .error(format!("rank {rank}"), format!("a rank below {size}"))
                .into());
        }
        let mut reader = Reader {
            text,
            rank: rank as u32,
            groups: &mut groups,
            events: Vec::new(),
            rank_trace: FoldedRank::default(),
            stack: vec![(Vec::new(), Vec::new())],
            row: Vec::new(),
            executed: 0,
            lost: &mut lost,
        };
        reader.all()?;
        let whole = reader.rank_trace;
        if ranks.insert(rank as u32, whole).is_some() {
            return Err(text
                .error(format!("rank {rank} once more"), "one file for every rank")
                .into());
        }
    }
    complete(source, size, ranks.keys().copied()).map_err(|e| e.hint(CUT_SHORT))?;
    Ok(Folded {
        source: source.to_owned(),
        ranks: ranks.into_values().collect(),
        groups: groups.lists,
        complete: lost.is_complete(),
        notes: lost.notes(),
    })
}

fn cells(line: Line<'_>) -> Vec<&[u8]> {
    line.bytes.split(|&b| b == b'\t').collect()
}

/// A number of the header.
fn head(text: &Text, key: &[u8]) -> Result<u64, InputError> {
    let first = text.lines().next();
    if first.is_none_or(|l| l.bytes != b"# hopbyte-trace 1") {
        let found = first.map_or_else(String::new, Line::text);
        return Err(text.error(found, "# hopbyte-trace 1"));
    }
    for line in text.lines().take_while(|l| l.bytes != b"program") {
        if let [name, n, ..] = cells(line)[..]
            && name == key
        {
            return decimal(n).ok_or_else(|| text.error_in(line, n, "a whole number"));
        }
    }
    let key = lossy(key);
    Err(text.error(format!("no line '{key}'"), format!("the {key}")))
}

/// Iterations of each execution of a loop.
type Counts = Vec<(u64, u64)>;

/// An event as its line defines it.
#[derive(Clone, Debug)]
struct Event {
    op: Op,
    group: Option<u32>,
    peer: i64,
    tag: i64,
    slot: i64,
    kind: Vec<u8>,
    how: How,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Op {
    Send,
    Receive,
    Wait,
    Cancel,
    Collective,
    Row,
    End,
}

struct Reader<'a> {
    text: &'a Text,
    rank: u32,
    groups: &'a mut Groups,
    events: Vec<Event>,
    rank_trace: FoldedRank,
    /// Open loops: counts and body; the first is the whole program.
    stack: Vec<(Counts, Vec<Step>)>,
    /// Messages of the next collective.
    row: Vec<(u32, f64)>,
    /// Executions of events so far.
    executed: u64,
    lost: &'a mut Lost,
}

impl Reader<'_> {
    fn all(&mut self) -> Result<(), InputError> {
        let (mut inside, mut ended) = (false, false);
        let (mut cut, mut total) = (false, None);
        for line in self.text.lines().skip(1) {
            let cells = cells(line);
            match (inside, &cells[..]) {
                (false, [b"event", rest @ ..]) => self.event(line, rest)?,
                (false, [b"program"]) => inside = true,
                (_, [b"seconds", s, ..]) => self.rank_trace.seconds = self.number(line, s)?,
                (true, [b"(", counts]) => {
                    let cell = counts;
                    let counts = self.counts(line, cell)?;
                    let times = counts.iter().map(|c| c.1).fold(0, u64::saturating_add);
                    let around = self.executions();
                    if times != around {
                        let expected = format!(
                            "iterations of {around} executions, as often as the loop around it iterates"
                        );
                        return Err(self.text.error_in(line, cell, expected));
                    }
                    if self.stack.len() > DEEPEST {
                        return Err(self
                            .text
                            .error_at(line, format!("at most {DEEPEST} loops within each other")));
                    }
                    self.stack.push((counts, Vec::new()));
                }
                (true, [b")"]) => self.close(line)?,
                (true, [b"ended", word, ..]) => {
                    ended = true;
                    match *word {
                        b"finalize" => {}
                        b"running" => self
                            .early("they ended without MPI_Finalize, seconds after the last write"),
                        word => self.early(&format!("ended by {}", lossy(word))),
                    }
                }
                (true, [b"cut", why, ..]) => {
                    cut = true;
                    self.early(&lossy(why));
                }
                (true, [b"rounded", n, ..]) => self.lost.rounded += self.whole(line, n)?,
                (true, [b"untraced", n, ..]) => self.lost.untraced += self.whole(line, n)?,
                (true, [b"threads", ..]) => self.lost.threaded += 1,
                (true, [b"events", n, ..]) => total = Some((line, *n, self.whole(line, n)?)),
                (true, [number, sums @ ..]) => self.call(line, number, sums)?,
                _ => {}
            }
        }
        if !ended || self.stack.len() != 1 {
            return Err(self
                .text
                .error("no line 'ended'", "a complete trace")
                .hint("was the file copied while it was written?"));
        }
        if let Some((line, cell, n)) = total
            && n != self.executed
            && !cut
        {
            let expected = format!("{}, the executions of all events above", self.executed);
            return Err(self.text.error_in(line, cell, expected));
        }
        self.rank_trace.steps = self.stack.pop().map(|s| s.1).unwrap_or_default();
        Ok(())
    }

    fn early(&mut self, why: &str) {
        *self.lost.cut.entry(why.to_owned()).or_default() += 1;
    }

    fn whole(&self, line: Line<'_>, cell: &[u8]) -> Result<u64, InputError> {
        decimal(cell).ok_or_else(|| self.text.error_in(line, cell, "a whole number"))
    }

    fn number(&self, line: Line<'_>, cell: &[u8]) -> Result<f64, InputError> {
        let value = lossy(cell).parse::<f64>().ok();
        value
            .filter(|v| v.is_finite() && *v >= 0.0)
            .ok_or_else(|| self.text.error_in(line, cell, "a number not below zero"))
    }

    fn event(&mut self, line: Line<'_>, cells: &[&[u8]]) -> Result<(), InputError> {
        let wrong = || {
            self.text.error_at(
                line,
                "event, number, operation, phase, group, peer, tag, slot, kind",
            )
        };
        let [number, op, _, group, peer, tag, slot, kind, rest @ ..] = cells else {
            return Err(wrong());
        };
        let communicator = rest.first().map_or(Some(0), |n| decimal(n));
        let op = match *op {
            b"send" => Op::Send,
            b"receive" => Op::Receive,
            b"wait" => Op::Wait,
            b"cancel" => Op::Cancel,
            b"collective" => Op::Collective,
            b"row" => Op::Row,
            b"end" => Op::End,
            _ => return Err(wrong()),
        };
        let signed = |cell: &[u8]| {
            super::signed(cell)
                .filter(|n| (-1..=1 << 30).contains(n))
                .ok_or_else(wrong)
        };
        if decimal(number) != Some(self.events.len() as u64) {
            return Err(wrong());
        }
        let number = communicator.ok_or_else(wrong)?;
        let group = self.groups.by_name.get(*group).copied();
        self.events.push(Event {
            op,
            group: group.map(|g| self.groups.numbered(g, number)),
            peer: signed(peer)?,
            tag: signed(tag)?,
            slot: signed(slot)?,
            kind: kind.to_vec(),
            how: rest.get(1).map_or(How::default(), |words| How::of(words)),
        });
        Ok(())
    }

    /// `5`, `3*2,7`: iterations of each execution.
    fn counts(&self, line: Line<'_>, cell: &[u8]) -> Result<Counts, InputError> {
        let wrong = || {
            self.text
                .error_in(line, cell, "iterations such as 5 or 3*2,7")
        };
        cell.split(|&b| b == b',')
            .map(|part| {
                let mut pieces = part.splitn(2, |&b| b == b'*');
                let count = pieces.next().and_then(decimal).ok_or_else(wrong)?;
                let times = pieces.next().map_or(Some(1), decimal).filter(|&t| t > 0);
                Ok((count, times.ok_or_else(wrong)?))
            })
            .collect()
    }

    fn close(&mut self, line: Line<'_>) -> Result<(), InputError> {
        if self.stack.len() < 2 {
            return Err(self
                .text
                .error_at(line, "the begin of a loop before its end"));
        }
        if let Some((counts, body)) = self.stack.pop() {
            self.push(Step::Loop(Loop { counts, body }));
        }
        Ok(())
    }

    fn push(&mut self, step: Step) {
        if let Some(top) = self.stack.last_mut() {
            top.1.push(step);
        }
    }

    /// Calls of the loop bodies that are open, all executions together.
    fn executions(&self) -> u64 {
        let times = |counts: &[(u64, u64)]| {
            let iterations = counts.iter().map(|c| c.0.saturating_mul(c.1));
            iterations.fold(0, u64::saturating_add)
        };
        self.stack.last().map_or(
            1,
            |(counts, _)| {
                if counts.is_empty() { 1 } else { times(counts) }
            },
        )
    }

    fn call(&mut self, line: Line<'_>, number: &[u8], sums: &[&[u8]]) -> Result<(), InputError> {
        let event = decimal(number)
            .and_then(|n| self.events.get(n as usize))
            .cloned();
        let event =
            event.ok_or_else(|| self.text.error_in(line, number, "the number of an event"))?;
        let value = |i: usize| sums.get(i).map_or(Ok(0.0), |cell| self.number(line, cell));
        let (gap, inside, bytes) = (value(0)? * 1e-9, value(1)? * 1e-9, value(2)?);
        let executions = self.executions();
        self.executed = self.executed.saturating_add(executions);
        self.rank_trace.mpi_seconds += inside * executions as f64;
        if gap > 0.0 {
            self.push(Step::Call(Call::Compute { seconds: gap }));
        }
        let request = u32::try_from(event.slot).ok();
        let peer = u32::try_from(event.peer).ok();
        if peer
            .is_some_and(|p| event.op != Op::Collective && p as usize >= self.groups.lists[0].len())
        {
            return Err(self.text.error_in(line, number, "a peer of the world"));
        }
        let call = match event.op {
            Op::Send => Call::Send {
                to: peer.ok_or_else(|| self.text.error_in(line, number, "a send to a rank"))?,
                tag: event.tag.max(0) as u32,
                group: event.group.unwrap_or(0),
                request,
                bytes,
            },
            Op::Receive => Call::Receive {
                from: peer,
                tag: u32::try_from(event.tag).ok(),
                group: event.group.unwrap_or(0),
                request,
            },
            Op::Wait | Op::Cancel => {
                let request = request.unwrap_or(u32::MAX);
                if let Some(from) = peer {
                    let tag = event.tag.max(0) as u32;
                    self.push(Step::Call(Call::Matched { request, from, tag }));
                }
                match event.op {
                    Op::Wait => Call::Wait { request },
                    _ => Call::Cancel { request },
                }
            }
            Op::Row => {
                self.row.extend(peer.map(|p| (p, bytes)));
                return Ok(());
            }
            Op::End => return Ok(()),
            Op::Collective => {
                let row = std::mem::take(&mut self.row);
                match self.collective(line, &event, bytes, &row)? {
                    Some(call) => call,
                    None => return Ok(()),
                }
            }
        };
        self.push(Step::Call(call));
        Ok(())
    }

    /// A collective call; `None` if its group is not known or has no other member.
    fn collective(
        &mut self,
        line: Line<'_>,
        event: &Event,
        bytes: f64,
        row: &[(u32, f64)],
    ) -> Result<Option<Call>, InputError> {
        let members = event.group.map(|g| (g, &self.groups.lists[g as usize]));
        let Some((group, members)) = members.filter(|(_, m)| m.contains(&self.rank)) else {
            self.lost.collectives += 1;
            return Ok(None);
        };
        let n = members.len();
        if n < 2 {
            return Ok(None);
        }
        let root = event.peer.max(0) as u32;
        if root as usize >= n {
            return Err(self.text.error_at(line, format!("a root below {n}")));
        }
        // Whether blocks go to members directly, and to the neighbours alone.
        let mut how = event.how;
        let (kind, direct, neighbors) = match &event.kind[..] {
            b"gatherv" => (Collective::Gather, false, false),
            b"scatterv" | b"alltoallv" | b"alltoallw" => (Collective::Alltoall, true, false),
            // Between two groups an operation without bytes waits for all of them, as a barrier does.
            b"inter_barrier" => (Collective::Barrier, false, false),
            name if name.starts_with(b"neighbor_") || name.starts_with(b"inter_") => {
                (Collective::Alltoall, true, true)
            }
            name => match kind(name) {
                Some((kind, vector)) => {
                    how.vector = vector;
                    (kind, false, false)
                }
                None => {
                    self.lost.collectives += 1;
                    return Ok(None);
                }
            },
        };
        let start = self.rank_trace.rows.len();
        if direct {
            if start + n > MAX_ROWS {
                let expected = format!("at most {MAX_ROWS} sizes of blocks");
                return Err(self.text.error_at(line, expected));
            }
            let even = if event.tag == 1 {
                bytes / n as f64
            } else {
                0.0
            };
            self.rank_trace.rows.resize(start + n, even);
            for &(member, bytes) in row {
                // A rank may be a neighbour in several directions.
                if let Some(at) = members.iter().position(|&m| m == member) {
                    self.rank_trace.rows[start + at] += bytes;
                }
            }
        }
        Ok(Some(Call::Collective {
            kind,
            how,
            group,
            root: if direct { 0 } else { root },
            bytes,
            row: direct.then_some(start as u32),
            request: u32::try_from(event.slot).ok(),
            neighbors,
        }))
    }
}

#[cfg(test)]
#[path = "recorded_tests.rs"]
mod tests;
