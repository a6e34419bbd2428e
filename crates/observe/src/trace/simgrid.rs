//! SimGrid's time-independent traces: `RANK ACTION ARGUMENTS`, a line for each call
//! (`simgrid/simgrid`, `src/smpi/internals/smpi_replay.cpp`).
//!
//! Counts are elements of a datatype, given by its number after them; by default they are doubles if `init` has an
//! argument, else bytes. All calls are in the world: SimGrid's replay supports no other communicator either. `send`,
//! `isend`, `recv` and `irecv` have a tag as their second argument; with two arguments in total, as from old
//! versions, there is none. `sendRecv` has the count and partner of the sent and of the received message, then their
//! datatypes. `test` and `location` are ignored.

use super::requests::Requests;
use super::{MAX_CALLS, bounded, complete, signed};
use crate::ObserveError;
use crate::text::{Line, Text, decimal_u32, float, words};
use crate::traffic::MAX_TASKS;
use hopbyte_fabric::collective::{Collective, How};
use hopbyte_fabric::trace::{Call, RankTrace};
use hopbyte_fabric::{InputError, Trace};
use std::collections::BTreeMap;

const ACTIONS: [&[u8]; 30] = [
    b"init",
    b"finalize",
    b"comm_size",
    b"comm_split",
    b"comm_dup",
    b"send",
    b"isend",
    b"recv",
    b"irecv",
    b"sendRecv",
    b"sendrecv",
    b"test",
    b"wait",
    b"waitall",
    b"compute",
    b"sleep",
    b"location",
    b"barrier",
    b"bcast",
    b"reduce",
    b"allreduce",
    b"alltoall",
    b"alltoallv",
    b"gather",
    b"gatherv",
    b"scatter",
    b"scatterv",
    b"allgather",
    b"allgatherv",
    b"reducescatter",
];

/// Bytes of datatypes by their number, `MPI_DOUBLE` to `MPI_OFFSET`.
const DATATYPES: [u8; 30] = [
    8, 4, 1, 2, 8, 4, 1, 8, 1, 1, 2, 4, 8, 8, 16, 4, 1, 1, 2, 4, 8, 1, 2, 4, 8, 8, 16, 32, 8, 8,
];

/// Whether a line belongs to such a trace.
pub(super) fn begins(line: Line<'_>) -> bool {
    let mut words = line.words();
    let (rank, action) = (words.next(), words.next());
    rank.and_then(rank_of).is_some() && action.is_some_and(is_action)
}

fn is_action(word: &[u8]) -> bool {
    ACTIONS.contains(&word) || matches!(word, b"scan" | b"exscan")
}

/// `3`, or `p3` in old traces.
fn rank_of(word: &[u8]) -> Option<u32> {
    decimal_u32(word.strip_prefix(b"p").unwrap_or(word)).filter(|&r| (r as usize) < MAX_TASKS)
}

pub(super) fn read(
    source: &str,
    texts: impl Iterator<Item = Result<Text, ObserveError>>,
) -> Result<Trace, ObserveError> {
    let mut ranks: BTreeMap<u32, Rank> = BTreeMap::new();
    let mut calls = 0;
    for text in texts {
        let text = text?;
        for line in text.lines() {
            let Some(word) = line.words().next().filter(|w| !w.starts_with(b"#")) else {
                continue;
            };
            let rank = rank_of(word).ok_or_else(|| {
                text.error_in(line, word, "a rank, as the first word of the line")
            })?;
            let state = ranks.entry(rank).or_default();
            let before = state.trace.calls.len() + state.lists.len();
            state.line(&text, line, rank)?;
            calls += state.trace.calls.len() + state.lists.len() - before;
            if calls > MAX_CALLS {
                bounded(&text, calls)?;
            }
        }
    }
    let others = ranks.values().flat_map(|rank| &rank.trace.calls);
    let named = others.filter_map(other).chain(ranks.keys().copied()).max();
    complete(
        source,
        named.map_or(0, |rank| rank as usize + 1),
        ranks.keys().copied(),
    )?;
    let tasks = ranks.len();
    let mut traces = BTreeMap::new();
    let mut cut = None;
    for (rank, mut state) in ranks {
        if state.began && !state.ended {
            cut = cut.or(Some((rank, state.trace.calls.len())));
        }
        state.resolve(source, rank, tasks)?;
        traces.insert(rank, state.trace);
    }
    let ranks: Vec<RankTrace> = traces.into_values().collect();
    if let Some((rank, calls)) = cut {
        let found = format!("the end of rank {rank} after {calls} calls");
        let error = InputError::new(source, found, "finalize, as it began with init");
        return Err(error.hint("was the file cut off?").into());
    }
    Ok(Trace {
        source: source.to_owned(),
        groups: vec![(0..ranks.len() as u32).collect()],
        ranks,
    })
}

/// The other rank that a call names.
fn other(call: &Call) -> Option<u32> {
    match *call {
        Call::Send { to, .. } => Some(to),
        Call::Receive { from, .. } => from,
        Call::Collective { root, .. } => Some(root),
        _ => None,
    }
}

/// A call with a list of counts; its length is known once all ranks are.
struct Listed {
    call: usize,
    line: u64,
    action: &'static [u8],
    /// Position and number of its arguments in [`Rank::lists`].
    at: usize,
    len: usize,
    default: f64,
}

/// State of a rank while its lines are read.
#[derive(Default)]
struct Rank {
    trace: RankTrace,
    /// Whether counts without a datatype are doubles.
    doubles: bool,
    /// Whether `init` and `finalize` were read.
    began: bool,
    ended: bool,
    requests: Requests<(u32, u32, i64)>,
    lists: Vec<f64>,
    listed: Vec<Listed>,
}

/// The arguments of a line.
struct Arguments<'a> {
    text: &'a Text,
    line: Line<'a>,
    words: Vec<&'a [u8]>,
    default: f64,
}

impl<'a> Arguments<'a> {
    fn word(&self, i: usize) -> Result<&'a [u8], InputError> {
        self.words.get(i).copied().ok_or_else(|| {
            let expected = format!("at least {} arguments", i + 1);
            self.text
                .error_at(self.line, expected)
                .hint("was the file cut off?")
        })
    }

    fn amount(&self, i: usize) -> Result<f64, InputError> {
        let word = self.word(i)?;
        float(word)
            .filter(|&v| v >= 0.0)
            .ok_or_else(|| self.wrong(word, "a non-negative number"))
    }

    fn wrong(&self, word: &[u8], expected: &str) -> InputError {
        self.text.error_in(self.line, word, expected)
    }

    fn rank(&self, i: usize) -> Result<u32, InputError> {
        let word = self.word(i)?;
        rank_of(word).ok_or_else(|| self.wrong(word, "a rank"))
    }

    fn root(&self, i: usize) -> Result<u32, InputError> {
        if i < self.words.len() {
            self.rank(i)
        } else {
            Ok(0)
        }
    }

    /// Bytes of the datatype that argument `i` names, or of the default datatype.
    fn datatype(&self, i: usize) -> Result<f64, InputError> {
        let Some(&word) = self.words.get(i) else {
            return Ok(self.default);
        };
        match signed(word) {
            Some(-1) => Ok(self.default),
            Some(n) => usize::try_from(n)
                .ok()
                .and_then(|n| DATATYPES.get(n))
                .map(|&b| f64::from(b))
                .ok_or_else(|| self.wrong(word, "a datatype from 0 to 29")),
            None => Err(self.wrong(word, "the number of a datatype")),
        }
    }

    /// Count `i` in elements of datatype `of`.
    fn bytes(&self, i: usize, of: usize) -> Result<f64, InputError> {
        Ok(self.amount(i)? * self.datatype(of)?)
    }
}

impl Rank {
    fn push(&mut self, call: Call) {
        self.trace.calls.push(call);
    }

    fn collective(&mut self, kind: Collective, root: u32, bytes: f64) {
        self.push(Call::Collective {
            kind,
            how: How::default(),
            group: 0,
            root,
            bytes,
            row: None,
            request: None,
            neighbors: false,
        });
    }

    fn work(&mut self, operations: f64) {
        if operations > 0.0 {
            self.push(Call::Work { operations });
        }
    }

    fn line(&mut self, text: &Text, line: Line<'_>, rank: u32) -> Result<(), InputError> {
        let mut rest = words(line.bytes);
        rest.next();
        let action = rest.next().unwrap_or_default();
        let a = Arguments {
            text,
            line,
            words: rest.collect(),
            default: if self.doubles { 8.0 } else { 1.0 },
        };
        use Collective as C;
        match action {
            b"init" => {
                self.doubles = !a.words.is_empty();
                self.began = true;
            }
            b"finalize" => self.ended = true,
            b"comm_size" | b"comm_split" | b"comm_dup" | b"test" | b"location" => {}
            b"compute" => self.work(a.amount(0)?),
            b"sleep" => {
                let seconds = a.amount(0)?;
                self.push(Call::Compute { seconds });
            }
            b"send" | b"isend" => self.send(&a, rank, action == b"isend")?,
            b"recv" | b"irecv" => self.receive(&a, rank, action == b"irecv")?,
            // Counts and partners of both halves, then their datatypes. Tags are not written: one is taken for all.
            b"sendRecv" | b"sendrecv" => self.exchange(&a)?,
            b"wait" => {
                let tag = signed(a.word(2)?).unwrap_or(0);
                let key = (a.rank(0)?, a.rank(1)?, tag);
                // A test may have ended it already.
                if let Some(request) = self.requests.end(&key) {
                    self.push(Call::Wait { request });
                }
            }
            b"waitall" => {
                self.requests.end_all();
                self.push(Call::WaitAll);
            }
            b"barrier" => self.collective(C::Barrier, 0, 0.0),
            b"bcast" => self.collective(C::Broadcast, a.root(1)?, a.bytes(0, 2)?),
            b"reduce" => {
                self.collective(C::Reduce, a.root(2)?, a.bytes(0, 3)?);
                self.work(a.amount(1)?);
            }
            b"allreduce" | b"scan" | b"exscan" => {
                let kind = if action == b"allreduce" {
                    C::Allreduce
                } else {
                    C::Scan
                };
                self.collective(kind, 0, a.bytes(0, 2)?);
                self.work(a.amount(1)?);
            }
            b"alltoall" => self.collective(C::Alltoall, 0, a.bytes(0, 2)?),
            b"allgather" => self.collective(C::Allgather, 0, a.bytes(0, 2)?),
            b"gather" => self.collective(C::Gather, a.root(2)?, a.bytes(0, 3)?),
            b"scatter" => self.collective(C::Scatter, a.root(2)?, a.bytes(1, 4)?),
            _ => self.listed(&a, action)?,
        }
        Ok(())
    }

    /// Peer, tag and bytes; old traces have no tag.
    fn message(a: &Arguments<'_>) -> Result<(usize, i64), InputError> {
        if a.words.len() < 3 {
            return Ok((1, 0));
        }
        let word = a.word(1)?;
        let tag = signed(word).ok_or_else(|| a.wrong(word, "a tag (a whole number)"))?;
        Ok((2, tag))
    }

    fn send(&mut self, a: &Arguments<'_>, rank: u32, begins: bool) -> Result<(), InputError> {
        let to = a.rank(0)?;
        let (size, tag) = Self::message(a)?;
        let bytes = a.bytes(size, size + 1)?;
        let request = begins.then(|| self.requests.begin((rank, to, tag)));
        self.push(Call::Send {
            to,
            tag: u32::try_from(tag).map_err(|_| a.wrong(b"", "a non-negative tag"))?,
            group: 0,
            request,
            bytes,
        });
        Ok(())
    }

    fn receive(&mut self, a: &Arguments<'_>, rank: u32, begins: bool) -> Result<(), InputError> {
        let word = a.word(0)?;
        // Negative: any source.
        let from = match signed(word) {
            Some(n) if n < 0 => None,
            _ => Some(a.rank(0)?),
        };
        let (_, tag) = Self::message(a)?;
        let key = (from.unwrap_or(u32::MAX), rank, tag);
        let request = begins.then(|| self.requests.begin(key));
        self.push(Call::Receive {
            from,
            tag: u32::try_from(tag).ok(),
            group: 0,
            request,
        });
        Ok(())
    }

    fn exchange(&mut self, a: &Arguments<'_>) -> Result<(), InputError> {
        const TAG: u32 = 0;
        let from = match signed(a.word(3)?) {
            Some(n) if n < 0 => None,
            _ => Some(a.rank(3)?),
        };
        let (to, bytes) = (a.rank(1)?, a.bytes(0, 4)?);
        let key = (from.unwrap_or(u32::MAX), u32::MAX, -1);
        let request = self.requests.begin(key);
        self.push(Call::Receive {
            from,
            tag: Some(TAG),
            group: 0,
            request: Some(request),
        });
        self.push(Call::Send {
            to,
            tag: TAG,
            group: 0,
            request: None,
            bytes,
        });
        self.requests.end(&key);
        self.push(Call::Wait { request });
        Ok(())
    }

    /// A collective with a count for every rank: kept until the number of ranks is known.
    fn listed(&mut self, a: &Arguments<'_>, action: &[u8]) -> Result<(), InputError> {
        let Some(&action) = ACTIONS.iter().find(|&&name| name == action) else {
            return Err(a.wrong(action, "an action of SimGrid's replay").hint(
                "known actions: init, finalize, compute, sends, receives, waits and collectives",
            ));
        };
        let at = self.lists.len();
        for i in 0..a.words.len() {
            let word = a.word(i)?;
            let value = float(word).filter(|&v| v >= -1.0);
            self.lists
                .push(value.ok_or_else(|| a.wrong(word, "a count"))?);
        }
        self.listed.push(Listed {
            call: self.trace.calls.len(),
            line: a.line.number,
            action,
            at,
            len: a.words.len(),
            default: a.default,
        });
        self.collective(Collective::Barrier, 0, 0.0);
        Ok(())
    }

    /// Completes the collectives with lists of `n` counts.
    fn resolve(&mut self, source: &str, rank: u32, n: usize) -> Result<(), InputError> {
        for listed in std::mem::take(&mut self.listed) {
            let list = &self.lists[listed.at..listed.at + listed.len];
            let name = String::from_utf8_lossy(listed.action).into_owned();
            let least = if listed.action == b"alltoallv" {
                2 * n + 2
            } else {
                n + 1
            };
            if list.len() < least {
                let found = format!("rank {rank}: {name} with {} arguments", list.len());
                let expected = format!("at least {least}, counts for {n} ranks");
                return Err(InputError::new(source, found, expected).at(listed.line));
            }
            let of = |i: usize| match list.get(i) {
                Some(&id) if (0.0..30.0).contains(&id) => f64::from(DATATYPES[id as usize]),
                _ => listed.default,
            };
            let root = |i: usize| {
                let root = list.get(i).copied().unwrap_or(0.0);
                let known = root.fract() == 0.0 && (0.0..n as f64).contains(&root);
                let wrong = || {
                    let found = format!("rank {rank}: {name} with the root {root}");
                    InputError::new(source, found, format!("one of {n} ranks")).at(listed.line)
                };
                known.then_some(root as u32).ok_or_else(wrong)
            };
            use Collective as C;
            let mut row = None;
            let (kind, root, bytes) = match listed.action {
                b"gatherv" => (C::Gather, root(n + 1)?, list[0] * of(n + 2)),
                b"scatterv" => (C::Scatter, root(n + 1)?, list[n] * of(n + 3)),
                b"allgatherv" => (C::Allgather, 0, list[0] * of(n + 1)),
                b"alltoallv" => {
                    let size = of(2 * n + 2);
                    row = Some(self.trace.rows.len() as u32);
                    let counts = list[1..=n].iter().map(|c| c.max(0.0) * size);
                    self.trace.rows.extend(counts);
                    (C::Alltoall, 0, 0.0)
                }
                _ => {
                    let own = list.get(rank as usize).copied().unwrap_or(0.0);
                    (C::ReduceScatter, 0, own * of(n + 1))
                }
            };
            self.trace.calls[listed.call] = Call::Collective {
                kind,
                how: How {
                    vector: matches!(kind, C::Allgather | C::ReduceScatter),
                    ..How::default()
                },
                group: 0,
                root,
                bytes: bytes.max(0.0),
                row,
                request: None,
                neighbors: false,
            };
        }
        self.lists = Vec::new();
        Ok(())
    }
}
