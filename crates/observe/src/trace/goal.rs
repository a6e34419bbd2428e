//! GOAL schedules of LogGOPSim (`spcl/LogGOPSim`, `src/LogGOPSim/txt2bin.re`): `num_ranks N`, then for each rank a
//! block of sends, receives and computation with labels, and the dependencies between them.
//!
//! `requires` waits for the end of another operation, `irequires` for its beginning. `calc` is in nanoseconds.
//! Processors (`cpu`) and adapters (`nic`) of an operation are ignored.

use super::{MAX_CALLS, bounded, complete};
use crate::ObserveError;
use crate::text::{Line, Text, decimal, decimal_u32, lossy};
use hopbyte_fabric::trace::{Call, Dependency, Order, RankTrace};
use hopbyte_fabric::{InputError, Trace};
use std::collections::{BTreeMap, HashMap};

/// Bytes of the shortest block, `rank 0 {}`.
const BLOCK: usize = 9;

pub(super) fn read(text: &Text) -> Result<Trace, ObserveError> {
    let mut schedule = Schedule {
        text,
        tasks: None,
        ranks: BTreeMap::new(),
        open: None,
        calls: 0,
    };
    let mut comment = false;
    let mut last = None;
    for line in text.lines() {
        last = Some(line);
        for part in statements(line.bytes, &mut comment) {
            schedule.statement(line, &part)?;
        }
    }
    let Some(tasks) = schedule.tasks else {
        return Err(text.error("no line num_ranks", "num_ranks N").into());
    };
    if let (Some(block), Some(line)) = (&schedule.open, last) {
        let expected = format!("a closing brace of rank {}", block.rank);
        return Err(text
            .error_at(line, expected)
            .hint("was the file cut off?")
            .into());
    }
    complete(text.file(), tasks, schedule.ranks.keys().copied())?;
    Ok(Trace {
        source: text.file().to_owned(),
        groups: vec![(0..tasks as u32).collect()],
        ranks: schedule.ranks.into_values().collect(),
    })
}

/// Statements of a line: the text between braces, semicolons and comments, and the braces.
fn statements(line: &[u8], comment: &mut bool) -> Vec<Vec<u8>> {
    let mut parts = vec![Vec::new()];
    let mut rest = line;
    while let Some((&byte, after)) = rest.split_first() {
        if *comment {
            *comment = !rest.starts_with(b"*/");
            rest = if *comment { after } else { &rest[2..] };
            continue;
        }
        if rest.starts_with(b"//") {
            break;
        }
        if rest.starts_with(b"/*") {
            *comment = true;
            rest = &rest[2..];
            continue;
        }
        match byte {
            b'{' | b'}' => parts.extend([vec![byte], Vec::new()]),
            b';' => parts.push(Vec::new()),
            // A colon is a separate word.
            b':' => parts.last_mut().into_iter().for_each(|p| p.extend(b" : ")),
            _ => parts.last_mut().into_iter().for_each(|p| p.push(byte)),
        }
        rest = after;
    }
    parts.retain(|p| !p.trim_ascii().is_empty());
    parts
}

/// The block of a rank while it is read.
struct Block {
    rank: u32,
    /// Whether its brace was read.
    begun: bool,
    labels: HashMap<Vec<u8>, u32>,
    calls: Vec<Call>,
    order: Vec<Dependency>,
}

struct Schedule<'a> {
    text: &'a Text,
    tasks: Option<usize>,
    ranks: BTreeMap<u32, RankTrace>,
    open: Option<Block>,
    calls: usize,
}

impl Schedule<'_> {
    fn statement(&mut self, line: Line<'_>, part: &[u8]) -> Result<(), InputError> {
        let text = self.text;
        let words: Vec<&[u8]> = crate::text::words(part).collect();
        match (&mut self.open, &words[..]) {
            (None, [b"num_ranks", n]) => {
                let most = text.bytes().len() / BLOCK + 1;
                let tasks = decimal(n).filter(|n| (1..=most as u64).contains(n));
                let tasks = tasks.ok_or_else(|| {
                    let expected = format!("1 to {most} ranks, as many as the file can hold");
                    text.error_in(line, n, expected)
                })?;
                self.tasks = Some(tasks as usize);
            }
            (None, [b"rank", n]) => self.begin(line, n)?,
            (Some(block), [b"{"]) if !block.begun => block.begun = true,
            (Some(block), [b"}"]) if block.begun => {
                let trace = RankTrace {
                    calls: std::mem::take(&mut block.calls),
                    rows: Vec::new(),
                    order: Order::Graph(std::mem::take(&mut block.order)),
                };
                self.ranks.insert(block.rank, trace);
                self.open = None;
            }
            (Some(block), words) if block.begun => {
                self.calls += block.add(text, line, words, self.tasks.unwrap_or(0))?;
                if self.calls > MAX_CALLS {
                    bounded(text, self.calls)?;
                }
            }
            _ => return Err(text.error_at(line, "num_ranks N, or rank R { … }")),
        }
        Ok(())
    }

    fn begin(&mut self, line: Line<'_>, word: &[u8]) -> Result<(), InputError> {
        let text = self.text;
        let Some(tasks) = self.tasks else {
            return Err(text.error_at(line, "num_ranks N before the first rank"));
        };
        let rank = rank(text, line, word, tasks)?;
        if self.ranks.contains_key(&rank) {
            return Err(text.error_in(line, word, "a rank that had no block yet"));
        }
        self.open = Some(Block {
            rank,
            begun: false,
            labels: HashMap::new(),
            calls: Vec::new(),
            order: Vec::new(),
        });
        Ok(())
    }
}

fn rank(text: &Text, line: Line<'_>, word: &[u8], tasks: usize) -> Result<u32, InputError> {
    decimal_u32(word)
        .filter(|&r| (r as usize) < tasks)
        .ok_or_else(|| text.error_in(line, word, format!("a rank below {tasks}")))
}

impl Block {
    /// Adds an operation or a dependency; returns the number of operations.
    fn add(
        &mut self,
        text: &Text,
        line: Line<'_>,
        words: &[&[u8]],
        tasks: usize,
    ) -> Result<usize, InputError> {
        if let [later, requires @ (b"requires" | b"irequires"), earlier] = words {
            let find = |label: &[u8]| {
                self.labels.get(label).copied().ok_or_else(|| {
                    text.error_in(line, label, "a label of this rank, defined before")
                })
            };
            self.order.push(Dependency {
                later: find(later)?,
                earlier: find(earlier)?,
                begun: requires.starts_with(b"i"),
            });
            return Ok(0);
        }
        let (label, operation) = match words {
            [label, b":", rest @ ..] => (Some(*label), rest),
            rest => (None, rest),
        };
        let at = self.calls.len() as u32;
        self.calls.push(call(text, line, operation, tasks)?);
        if let Some(label) = label
            && self.labels.insert(label.to_vec(), at).is_some()
        {
            let found = format!("label {} once more", lossy(label));
            return Err(text
                .error(found, "one label for each operation")
                .at(line.number));
        }
        Ok(1)
    }
}

/// `send 8b to 1 tag 3`, `recv 8b from 0 tag 3`, `calc 1000`; `cpu` and `nic` may follow.
fn call(text: &Text, line: Line<'_>, words: &[&[u8]], tasks: usize) -> Result<Call, InputError> {
    let form = || {
        text.error_at(
            line,
            "send Nb to RANK [tag T], recv Nb from RANK [tag T], calc N, or A requires B",
        )
    };
    let (kind, rest) = words.split_first().ok_or_else(form)?;
    let (amount, rest) = rest.split_first().ok_or_else(form)?;
    let (digits, rest) = match (amount.strip_suffix(b"b"), rest) {
        (Some(digits), rest) => (digits, rest),
        (None, [b"b", rest @ ..]) => (*amount, rest),
        (None, rest) => (*amount, rest),
    };
    let amount =
        decimal(digits).ok_or_else(|| text.error_in(line, amount, "a whole number"))? as f64;
    if *kind == b"calc" {
        options(text, line, rest)?;
        let seconds = amount * 1e-9;
        return Ok(Call::Compute { seconds });
    }
    let [direction, partner, rest @ ..] = rest else {
        return Err(form());
    };
    let tag = options(text, line, rest)?;
    match (*kind, *direction) {
        (b"send", b"to") => Ok(Call::Send {
            to: rank(text, line, partner, tasks)?,
            tag: tag.ok_or_else(form)?,
            group: 0,
            request: None,
            bytes: amount,
        }),
        (b"recv", b"from") => Ok(Call::Receive {
            from: match *partner {
                b"-1" => None,
                word => Some(rank(text, line, word, tasks)?),
            },
            tag,
            group: 0,
            request: None,
        }),
        _ => Err(form()),
    }
}

/// Tag (0 if absent, `None` for any), `cpu` and `nic`.
fn options(text: &Text, line: Line<'_>, words: &[&[u8]]) -> Result<Option<u32>, InputError> {
    let mut tag = Some(0);
    for pair in words.chunks(2) {
        tag = match pair {
            [b"tag", b"-1"] => None,
            [b"tag", word] => {
                Some(decimal_u32(word).ok_or_else(|| text.error_in(line, word, "a tag, or -1"))?)
            }
            [b"cpu" | b"nic", word] if decimal(word).is_some() => tag,
            _ => return Err(text.error_at(line, "tag T, cpu N or nic N after an operation")),
        };
    }
    Ok(tag)
}
