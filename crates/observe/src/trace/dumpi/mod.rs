//! DUMPI traces in the text form of `dumpi2ascii`, one file per rank (`sstsimulator/sst-dumpi`,
//! `dumpi/bin/dumpi2ascii-callbacks.c`).
//!
//! A call is the line `MPI_Name entering at walltime S.N, …`, a line for each argument, and the line `MPI_Name
//! returning …`. The time between two calls is computation. Sizes of datatypes are at the end of the file.
//! Communicators are resolved from their creation by all their ranks: copies, splits, Cartesian grids and their
//! parts. One-sided operations and files are skipped.

mod call;
mod comms;

use super::{MAX_CALLS, bounded, complete};
use crate::ObserveError;
use crate::text::{Line, Text, decimal, decimal_u32};
use crate::traffic::prof::rank_of_name;
use call::Fields;
use comms::Made;
use hopbyte_fabric::trace::{Call, RankTrace};
use hopbyte_fabric::{InputError, Trace};
use std::collections::{BTreeMap, HashMap};

/// Whether a line begins a call.
pub(super) fn begins(line: &[u8]) -> bool {
    line.starts_with(b"MPI_") && event(line).is_some_and(|e| e.enters)
}

/// Begin or return of a call.
struct Event<'a> {
    name: &'a [u8],
    enters: bool,
    /// Seconds and nanoseconds.
    at: (u64, u64),
}

fn event(line: &[u8]) -> Option<Event<'_>> {
    let mut words = crate::text::words(line);
    let name = words.next().filter(|w| w.starts_with(b"MPI"))?;
    let enters = match words.next()? {
        b"entering" => true,
        b"returning" => false,
        _ => return None,
    };
    if (words.next()?, words.next()?) != (b"at", b"walltime") {
        return None;
    }
    let time = words.next()?.strip_suffix(b",")?;
    let dot = time.iter().position(|&b| b == b'.')?;
    let at = (decimal(&time[..dot])?, decimal(&time[dot + 1..])?);
    Some(Event { name, enters, at })
}

fn seconds_between(from: (u64, u64), to: (u64, u64)) -> f64 {
    (to.0 as f64 - from.0 as f64) + (to.1 as f64 - from.1 as f64) * 1e-9
}

/// Content of one file.
#[derive(Default)]
struct Rank {
    trace: RankTrace,
    /// Its rank in the world, once it is known.
    number: u32,
    /// Rank and size of the world, from the program's queries.
    rank: Option<u32>,
    size: Option<u32>,
    /// Communicators, the first two the world and the rank itself.
    made: Vec<Made>,
    /// Index in `made` of the communicator with a number at present.
    current: HashMap<u32, u32>,
    /// Calls whose sizes are in elements of a datatype: call, datatype, and the number of sizes in
    /// [`RankTrace::rows`] that belong to it.
    typed: Vec<(u32, u32, u32)>,
    /// Reduce-scatters: call, and the range of its counts.
    own_counts: Vec<(u32, usize, usize)>,
    /// Pending requests: the call that began each.
    under_way: HashMap<u32, u32>,
    /// Persistent requests: the call that a start begins, with its datatype.
    persistent: HashMap<u32, (Call, u32)>,
    /// Bytes of datatypes.
    sizes: HashMap<u32, f64>,
}

pub(super) fn read(
    source: &str,
    texts: impl Iterator<Item = Result<Text, ObserveError>>,
) -> Result<Trace, ObserveError> {
    let mut ranks: BTreeMap<u32, Rank> = BTreeMap::new();
    let (mut calls, mut size) = (0, None);
    for text in texts {
        let text = text?;
        let mut state = Rank::parse(&text)?;
        state.resolve_sizes(&text)?;
        let rank = state.rank.or_else(|| rank_of_name(text.file()));
        let Some(rank) = rank else {
            return Err(text
                .error(
                    "neither MPI_Comm_rank nor a number in its name",
                    "the file of a rank",
                )
                .into());
        };
        state.number = rank;
        calls += state.trace.calls.len();
        if calls > MAX_CALLS {
            bounded(&text, calls)?;
        }
        size = size.or(state.size);
        if ranks.insert(rank, state).is_some() {
            let found = format!("rank {rank} once more");
            return Err(text.error(found, "one file for every rank").into());
        }
    }
    let highest = ranks.keys().next_back().map_or(0, |&r| r as usize + 1);
    let tasks = size.map_or(highest, |s| highest.max(s as usize));
    complete(source, tasks, ranks.keys().copied())?;
    let mut ranks: Vec<Rank> = ranks.into_values().collect();
    let groups = comms::resolve(source, &mut ranks)?;
    Ok(Trace {
        source: source.to_owned(),
        ranks: ranks.into_iter().map(|r| r.trace).collect(),
        groups,
    })
}

impl Rank {
    fn parse(text: &Text) -> Result<Self, InputError> {
        let mut state = Self {
            made: vec![Made::world(), Made::itself()],
            current: HashMap::from([(2, 0), (3, 1)]),
            ..Self::default()
        };
        let mut open: Option<(Line<'_>, Fields<'_>)> = None;
        let mut returned = None;
        for line in text.lines() {
            let content = line.trimmed();
            let event = event(content);
            match (&mut open, event) {
                (None, Some(event)) if event.enters => {
                    let gap = returned.map_or(0.0, |last| seconds_between(last, event.at));
                    if gap > 0.0 {
                        state.trace.calls.push(Call::Compute { seconds: gap });
                    }
                    open = Some((line, Fields::new(text, line, event.name)));
                }
                (Some((_, fields)), Some(event)) if !event.enters && event.name == fields.name => {
                    fields.call(&mut state)?;
                    returned = Some(event.at);
                    open = None;
                }
                (_, Some(_)) => {
                    return Err(text.error_at(line, "calls one after the other, each returning"));
                }
                (Some((_, fields)), None) => fields.add(content),
                (None, None) => state.datatype(content),
            }
        }
        if let Some((line, _)) = open {
            return Err(text
                .error_at(line, "the line on which this call returns")
                .hint("was the file cut off?"));
        }
        Ok(state)
    }

    /// `Datatype 9 (MPI_INT) has size 4`, at the end of the file.
    fn datatype(&mut self, content: &[u8]) {
        let words: Vec<&[u8]> = crate::text::words(content).collect();
        if let [b"Datatype", id, .., b"has", b"size", size] = words[..]
            && let (Some(id), Some(size)) = (decimal_u32(id), decimal(size))
        {
            // Old versions report size 0 for a long long.
            let size = if content.ends_with(b"(MPI_LONG_LONG_INT) has size 0") {
                8
            } else {
                size
            };
            self.sizes.insert(id, size as f64);
        }
    }

    /// Turns counts into bytes.
    fn resolve_sizes(&mut self, text: &Text) -> Result<(), InputError> {
        for &(at, datatype, in_rows) in &self.typed {
            let size = *self.sizes.get(&datatype).ok_or_else(|| {
                text.error(
                    format!("datatype {datatype} without a size"),
                    "a line 'Datatype N (NAME) has size S' at the end",
                )
                .hint("dumpi2ascii prints sizes with -a; or was the file cut off?")
            })?;
            match &mut self.trace.calls[at as usize] {
                Call::Send { bytes, .. } => *bytes *= size,
                Call::Collective { bytes, row, .. } => {
                    *bytes *= size;
                    let from = row.unwrap_or(0) as usize;
                    let values = self.trace.rows.get_mut(from..from + in_rows as usize);
                    values.into_iter().flatten().for_each(|b| *b *= size);
                }
                _ => {}
            }
        }
        self.typed = Vec::new();
        Ok(())
    }
}
