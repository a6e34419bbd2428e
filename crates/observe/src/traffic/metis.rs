//! METIS graphs: `n m [fmt [ncon]]`, then a line of neighbours for every vertex, from 1. An edge is
//! listed at both ends; each end sends the edge's weight (1 byte without weights) to the other.

use super::edges::from_one;
use super::entries::{Entry, bytes, is_comment, single, task_count};
use crate::ObserveError;
use crate::text::{Line, Text, decimal};
use hopbyte_fabric::{InputError, Traffic};

/// Vertices may have no neighbours, so empty lines after the header count.
fn lines(text: &Text) -> impl Iterator<Item = Line<'_>> {
    text.lines()
        .filter(|l| !is_comment(l.trimmed()))
        .skip_while(|l| l.trimmed().is_empty())
}

/// Whether a header fits the lines: at most as many lines as vertices, and as many words as the edges and weights
/// require. A list of triplets is unlikely to match by accident.
pub(super) fn is_graph(text: &Text, head: &[&[u8]]) -> bool {
    let Some(header) = Header::of(head) else {
        return false;
    };
    let vertices = lines(text).skip(1).zip(1u64..);
    let filled = vertices.filter(|(l, _)| !l.trimmed().is_empty()).last();
    let words: usize = lines(text).skip(1).map(|l| l.words().count()).sum();
    let per_edge = 2 + 2 * u64::from(header.flags.edge_weights);
    let weights = header.vertices.saturating_mul(header.skipped() as u64);
    filled.is_none_or(|(_, number)| number <= header.vertices)
        && words as u64
            == header
                .edges
                .saturating_mul(per_edge)
                .saturating_add(weights)
}

/// `n m [fmt [ncon]]`.
struct Header {
    vertices: u64,
    edges: u64,
    flags: Flags,
    constraints: u64,
}

impl Header {
    fn of(words: &[&[u8]]) -> Option<Self> {
        let [n, m, rest @ ..] = words else {
            return None;
        };
        let (fmt, ncon) = match rest {
            [] => (None, None),
            [fmt] => (Some(fmt), None),
            [fmt, ncon] => (Some(fmt), Some(ncon)),
            _ => return None,
        };
        let flags = fmt.map_or(Some(Flags::default()), |word| Flags::parse(word))?;
        let constraints = match ncon {
            Some(word) => decimal(word).filter(|c| (1..=32).contains(c))?,
            None => 1,
        };
        Some(Self {
            vertices: decimal(n)?,
            edges: decimal(m)?,
            flags,
            constraints,
        })
    }

    /// Words before the neighbours of a vertex.
    fn skipped(&self) -> usize {
        let weights = if self.flags.vertex_weights {
            self.constraints as usize
        } else {
            0
        };
        weights + usize::from(self.flags.sizes)
    }
}

/// Fields of the vertex lines.
#[derive(Clone, Copy, Default)]
struct Flags {
    sizes: bool,
    vertex_weights: bool,
    edge_weights: bool,
}

impl Flags {
    /// Reads `fmt`: up to three digits 0 or 1 for vertex sizes, vertex weights, edge weights.
    fn parse(word: &[u8]) -> Option<Self> {
        if word.is_empty() || word.len() > 3 || !word.iter().all(|b| matches!(b, b'0' | b'1')) {
            return None;
        }
        let digit =
            |from_end: usize| word.len().checked_sub(from_end).map(|i| word[i]) == Some(b'1');
        Some(Self {
            sizes: digit(3),
            vertex_weights: digit(2),
            edge_weights: digit(1),
        })
    }
}

pub(super) fn read(text: &Text) -> Result<Traffic, ObserveError> {
    let mut lines = lines(text);
    let head = lines
        .next()
        .ok_or_else(|| text.error("nothing", "vertices and edges"))?;
    let words: Vec<&[u8]> = head.words().collect();
    let header = Header::of(&words).ok_or_else(|| {
        text.error_at(
            head,
            "vertices, edges, and perhaps a format of 0s and 1s and the weights a vertex",
        )
    })?;
    let tasks = task_count(text, head, words[0])?;
    let mut entries: Vec<Entry> = Vec::new();
    for vertex in 0..tasks {
        let Some(line) = lines.next() else {
            // Empty lines at the end are easily lost; vertices without neighbours do not need them.
            break;
        };
        vertex_line(text, line, (vertex as u32, tasks), &header, &mut entries)?;
    }
    if let Some(line) = lines.find(|l| !l.trimmed().is_empty()) {
        return Err(text
            .error_at(line, format!("no more than {tasks} vertices"))
            .into());
    }
    if entries.len() as u64 != header.edges.saturating_mul(2) {
        return Err(text
            .error_in(
                head,
                words[1],
                format!(
                    "{} edges, half the neighbours that follow",
                    entries.len() / 2
                ),
            )
            .hint("every edge is listed at both ends and counted once")
            .into());
    }
    let traffic = single(text, tasks, entries)?;
    both_ends(text, &traffic)?;
    Ok(traffic)
}

fn vertex_line(
    text: &Text,
    line: Line<'_>,
    (vertex, tasks): (u32, usize),
    header: &Header,
    entries: &mut Vec<Entry>,
) -> Result<(), InputError> {
    let mut words = line.words();
    for word in words.by_ref().take(header.skipped()) {
        bytes(text, line, word)?;
    }
    while let Some(word) = words.next() {
        let neighbour = from_one(text, line, word, tasks)?;
        if neighbour == vertex {
            return Err(text.error_in(line, word, "a neighbour other than the vertex itself"));
        }
        let weight = if header.flags.edge_weights {
            let word = words
                .next()
                .ok_or_else(|| text.error_in(line, word, "a weight after every neighbour"))?;
            bytes(text, line, word)?
        } else {
            1.0
        };
        entries.push((vertex, neighbour, weight, 0));
    }
    Ok(())
}

/// Checks that every edge is listed at both ends with the same weight.
pub(super) fn both_ends(text: &Text, traffic: &Traffic) -> Result<(), InputError> {
    let exchange = &traffic.phases[0].exchange;
    for (from, message) in exchange.iter() {
        let back = exchange.sends(message.to);
        let found = back.binary_search_by_key(&from, |m| m.to);
        if found.is_ok_and(|i| back[i].bytes == message.bytes) {
            continue;
        }
        let (a, b) = (from + 1, message.to + 1);
        return Err(text.error(
            format!("an edge from {a} to {b} of {}", message.bytes),
            format!("the same edge at vertex {b}"),
        ));
    }
    Ok(())
}
