//! Scotch graphs (`.grf`): version 0, vertices and arcs, base and flags, then for each vertex
//! `[label] [weight] degree {[arc weight] neighbour}`. Every edge is two arcs of one weight.

use super::entries::{Entry, bytes, content_lines, single, task_count};
use super::metis::both_ends;
use crate::ObserveError;
use crate::text::{Line, Text, decimal};
use hopbyte_fabric::{InputError, Traffic};
use std::collections::HashMap;

/// Whether the first three lines belong to a Scotch graph: `0`, two counts, base and three flags.
pub(super) fn is_graph(text: &Text) -> bool {
    let mut lines = content_lines(text).map(|l| l.words().collect::<Vec<_>>());
    let (first, counts, base) = (lines.next(), lines.next(), lines.next());
    matches!(first.as_deref(), Some([b"0"]))
        && counts.is_some_and(|c| c.len() == 2)
        && matches!(base.as_deref(), Some([_, flags]) if Flags::parse(flags).is_some())
}

struct Flags {
    labels: bool,
    arc_weights: bool,
    vertex_weights: bool,
}

impl Flags {
    fn parse(word: &[u8]) -> Option<Self> {
        let [labels, arcs, vertices] = word else {
            return None;
        };
        let digit = |b: u8| matches!(b, b'0' | b'1').then_some(b == b'1');
        Some(Self {
            labels: digit(*labels)?,
            arc_weights: digit(*arcs)?,
            vertex_weights: digit(*vertices)?,
        })
    }
}

/// Words with their lines, regardless of line breaks.
struct Stream<'a, I> {
    text: &'a Text,
    words: I,
    last: Option<Line<'a>>,
}

impl<'a, I: Iterator<Item = (Line<'a>, &'a [u8])>> Stream<'a, I> {
    fn word(&mut self, expected: &str) -> Result<(Line<'a>, &'a [u8]), InputError> {
        let Some((line, word)) = self.words.next() else {
            let error = self.text.error("the end of the file", expected);
            let error = self.last.map_or(error.clone(), |l| error.at(l.number));
            return Err(error.hint("was the file cut off?"));
        };
        self.last = Some(line);
        Ok((line, word))
    }

    fn number(&mut self, expected: &str) -> Result<(Line<'a>, u64), InputError> {
        let (line, word) = self.word(expected)?;
        let value = decimal(word).ok_or_else(|| self.text.error_in(line, word, expected))?;
        Ok((line, value))
    }
}

pub(super) fn read(text: &Text) -> Result<Traffic, ObserveError> {
    let words = content_lines(text).flat_map(|l| l.words().map(move |w| (l, w)));
    let mut stream = Stream {
        text,
        words,
        last: None,
    };
    stream.number("0, the version of the format")?;
    let (line, word) = stream.word("the number of vertices")?;
    let tasks = task_count(text, line, word)?;
    if tasks > text.bytes().len() {
        let expected = "no more vertices than the file can hold";
        return Err(text.error_in(line, word, expected).into());
    }
    let (arcs_line, arcs) = stream.number("the number of arcs")?;
    let (_, base) = stream.number("the base, the number of the first vertex")?;
    let (line, word) = stream.word("three flags of 0 or 1")?;
    let flags =
        Flags::parse(word).ok_or_else(|| text.error_in(line, word, "three flags of 0 or 1"))?;
    // If there are labels, neighbours are given by label; all labels are known only at the end.
    let mut numbers: HashMap<u64, u32> = HashMap::new();
    let mut entries: Vec<(u32, u64, f64, Line<'_>)> = Vec::new();
    for vertex in 0..tasks as u32 {
        if flags.labels {
            let (line, label) = stream.number("a vertex's label")?;
            if numbers.insert(label, vertex).is_some() {
                let found = format!("vertex {label} once more");
                return Err(text
                    .error(found, "a label for each vertex")
                    .at(line.number)
                    .into());
            }
        }
        if flags.vertex_weights {
            let (line, word) = stream.word("a vertex's weight")?;
            bytes(text, line, word)?;
        }
        let (_, degree) = stream.number("a vertex's degree")?;
        for _ in 0..degree {
            let weight = if flags.arc_weights {
                let (line, word) = stream.word("an arc's weight")?;
                bytes(text, line, word)?
            } else {
                1.0
            };
            let (line, end) = stream.number("a neighbour")?;
            entries.push((vertex, end, weight, line));
        }
    }
    if let Some((line, word)) = stream.words.next() {
        let expected = format!("no more than {tasks} vertices");
        return Err(text.error_in(line, word, expected).into());
    }
    if arcs != entries.len() as u64 {
        let expected = format!("{} arcs, as many as follow", entries.len());
        return Err(text
            .error(arcs.to_string(), expected)
            .at(arcs_line.number)
            .into());
    }
    let mut list: Vec<Entry> = Vec::with_capacity(entries.len());
    for (from, end, weight, line) in entries {
        let to = if flags.labels {
            numbers.get(&end).copied()
        } else {
            let number = end.checked_sub(base).filter(|&n| n < tasks as u64);
            number.map(|n| n as u32)
        };
        let to = to.filter(|&to| to != from).ok_or_else(|| {
            let found = end.to_string();
            text.error(found, "another vertex of the graph")
                .at(line.number)
        })?;
        list.push((from, to, weight, 0));
    }
    let traffic = single(text, tasks, list)?;
    both_ends(text, &traffic)?;
    Ok(traffic)
}
