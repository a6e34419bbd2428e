//! Where do the ranks run? Placements from launchers' files, and lists of nodes.
//!
//! [`read_placement`] recognises netloc's `resources.txt`, Open MPI rankfiles, hostfiles (a host for
//! every rank, or `host slots=N`), CSV `rank,node[,slot]`, `MPICH_RANK_ORDER` and hopbyte's own JSON.
//! Without an allocation the nodes are those of the file, in the order in which they are named, with a
//! slot for every rank there.

mod launchers;
mod nodes;

pub use nodes::{host_list, parse_node_list, parse_nodes};

use crate::ObserveError;
use crate::known::{Known, known, names};
use crate::text::{Limits, Line, Text, decimal, decimal_u32, lossy};
use hopbyte_fabric::{Allocation, Fabric, FabricError, InputError, NodeId, Placement, Slot};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// A placement with the allocation it is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Nodes and their slots.
    pub allocation: Allocation,
    /// A slot for every rank.
    pub placement: Placement,
}

/// Reads where every rank runs. `allocation` is the job's, in the launcher's order; a rank order needs
/// it, because it only permutes the ranks of the default launch.
pub fn read_placement(
    path: &Path,
    fabric: &Fabric,
    allocation: Option<&Allocation>,
) -> Result<Placed, ObserveError> {
    placement(&Text::read(path, Limits::TEXT)?, fabric, allocation)
}

/// [`read_placement`] on text in memory.
pub fn placement(
    text: &Text,
    fabric: &Fabric,
    allocation: Option<&Allocation>,
) -> Result<Placed, ObserveError> {
    match Format::of(text)?.read {
        Read::Places(read) => read(text, fabric)?.finish(text, fabric, allocation),
        Read::Whole(read) => read(text, fabric, allocation),
    }
}

/// One row of the table of placements.
struct Format {
    known: Known,
    /// Whether the text is of this format, by its first line; of several rows the first is taken.
    recognise: fn(&Text, Line<'_>) -> bool,
    read: Read,
}

/// What reads a format.
#[derive(Clone, Copy)]
enum Read {
    /// A place by rank; slots are settled afterwards.
    Places(fn(&Text, &Fabric) -> Result<Places, InputError>),
    /// All of it.
    Whole(fn(&Text, &Fabric, Option<&Allocation>) -> Result<Placed, ObserveError>),
}

const PAGE: &str = "launchers.md";

const TABLE: &[Format] = &[
    Format {
        known: known(
            "json",
            "hopbyte's own: what `map --json` and `apply --emit json` print",
            PAGE,
            "placement",
        ),
        recognise: |_, first| first.trimmed().starts_with(b"{"),
        read: Read::Whole(launchers::json),
    },
    Format {
        known: known(
            "rankfile",
            "Open MPI: `rank N=HOST slot=CORE`",
            PAGE,
            "placement",
        ),
        recognise: |_, first| {
            first.words().next() == Some(b"rank") && first.trimmed().contains(&b'=')
        },
        read: Read::Places(launchers::rankfile),
    },
    Format {
        known: known(
            "mpich-rank-order",
            "ranks of the default launch in another order; needs the allocation",
            PAGE,
            "placement",
        ),
        recognise: |text, _| is_rank_order(text),
        read: Read::Whole(launchers::rank_order),
    },
    Format {
        known: known(
            "csv",
            "`rank,node[,slot]`, with or without a header",
            PAGE,
            "placement",
        ),
        recognise: |_, first| first.trimmed().contains(&b','),
        read: Read::Places(launchers::csv),
    },
    Format {
        known: known(
            "netloc resources",
            "hosts, their slots, a core and a rank for each slot",
            PAGE,
            "placement",
        ),
        recognise: |_, first| {
            let words: Vec<&[u8]> = first.words().take(2).collect();
            matches!(words[..], [count, name] if decimal(count).is_some() && !is_option(name))
        },
        read: Read::Places(launchers::resources),
    },
    Format {
        known: known(
            "hostfile",
            "a host a line for every rank in turn, `HOST slots=N` or `HOST:N`",
            PAGE,
            "placement",
        ),
        recognise: |_, _| true,
        read: Read::Places(launchers::hostfile),
    },
];

/// Formats of placements, in the order in which they are tried.
pub fn known_formats() -> impl Iterator<Item = Known> {
    TABLE.iter().map(|f| f.known)
}

/// The format of a text.
pub fn format(text: &Text) -> Result<Known, InputError> {
    Ok(Format::of(text)?.known)
}

impl Format {
    fn of(text: &Text) -> Result<&'static Self, InputError> {
        let first = content_lines(text).next();
        let found = first.and_then(|first| TABLE.iter().find(|f| (f.recognise)(text, first)));
        found.ok_or_else(|| {
            text.error("nothing", "a placement")
                .hint(format!("known are {}", names(known_formats())))
        })
    }
}

/// Whether numbers are a rank order rather than nodes known by number: they are joined by commas, or
/// are all the numbers from 0.
fn is_rank_order(text: &Text) -> bool {
    let is_order = |l: Line<'_>| {
        l.trimmed()
            .iter()
            .all(|b| b.is_ascii_digit() || b", -".contains(b))
    };
    if !content_lines(text).all(is_order) {
        return false;
    }
    if content_lines(text).any(|l| l.bytes.contains(&b',')) {
        return true;
    }
    let mut numbers: Vec<u64> = content_lines(text)
        .filter_map(|l| decimal(l.trimmed()))
        .collect();
    numbers.sort_unstable();
    numbers.len() == content_lines(text).count() && numbers.iter().zip(0..).all(|(&a, b)| a == b)
}

/// Whether a word behind a host is one of a hostfile's options.
fn is_option(word: &[u8]) -> bool {
    word.starts_with(b"slots") || word.starts_with(b"max")
}

/// Lines without comments (`#` to the end of the line) that are not empty.
fn content_lines(text: &Text) -> impl Iterator<Item = Line<'_>> {
    text.lines().filter_map(|line| {
        let end = line.bytes.iter().position(|&b| b == b'#');
        let bytes = &line.bytes[..end.unwrap_or(line.bytes.len())];
        let line = Line { bytes, ..line };
        (!line.trimmed().is_empty()).then_some(line)
    })
}

/// The node of a name, with the place of the name when there is none.
fn node(text: &Text, line: Line<'_>, name: &[u8], fabric: &Fabric) -> Result<NodeId, InputError> {
    let found = fabric.find_node(&lossy(name));
    found.map_err(|e| no_node(text.error_in(line, name, "a node of the fabric"), &e))
}

/// The error of a name that is no node, with what the fabric knows that is like it.
fn no_node(error: InputError, why: &FabricError) -> InputError {
    let why = why.to_string();
    match why.split_once("\nhint: ") {
        Some((_, hint)) => error.hint(hint),
        None => error.hint(why),
    }
}

/// A rank below the limit.
fn rank(text: &Text, line: Line<'_>, word: &[u8]) -> Result<u32, InputError> {
    decimal_u32(word)
        .filter(|&r| (r as usize) < crate::traffic::MAX_TASKS)
        .ok_or_else(|| text.error_in(line, word, "a rank (a whole number)"))
}

/// Where ranks are, before slots are settled.
#[derive(Default)]
struct Places {
    /// By rank: node and, where the file says it, the slot or core there.
    ranks: BTreeMap<u32, (NodeId, Option<u32>)>,
}

impl Places {
    fn add(
        &mut self,
        text: &Text,
        line: Line<'_>,
        rank: u32,
        place: (NodeId, Option<u32>),
    ) -> Result<(), InputError> {
        if self.ranks.insert(rank, place).is_some() {
            let expected = format!("every rank once; rank {rank} came before");
            return Err(text.error_at(line, expected));
        }
        Ok(())
    }

    /// A host for the next rank.
    fn push(&mut self, place: (NodeId, Option<u32>)) {
        self.ranks.insert(self.ranks.len() as u32, place);
    }

    /// Settles the slots. Numbers beyond a node's slots are core numbers, and so are all where there
    /// is no allocation: then their order counts.
    fn finish(
        self,
        text: &Text,
        fabric: &Fabric,
        allocation: Option<&Allocation>,
    ) -> Result<Placed, ObserveError> {
        if let Some(missing) = (0..).zip(self.ranks.keys()).find(|(i, r)| i != *r) {
            let found = format!("{} ranks without rank {}", self.ranks.len(), missing.0);
            return Err(text.error(found, "every rank from 0").into());
        }
        let mut nodes: Vec<NodeId> = Vec::new();
        let mut on_node: HashMap<NodeId, Vec<(Option<u32>, u32)>> = HashMap::new();
        for (&rank, &(node, slot)) in &self.ranks {
            let list = on_node.entry(node).or_insert_with(|| {
                nodes.push(node);
                Vec::new()
            });
            list.push((slot, rank));
        }
        let allocation = match allocation {
            Some(given) => given.clone(),
            None => Allocation::new(
                fabric,
                nodes
                    .iter()
                    .map(|&n| (n, on_node[&n].len() as u32))
                    .collect(),
            )?,
        };
        let mut slots: Vec<Slot> = self
            .ranks
            .values()
            .map(|&(node, _)| Slot { node, slot: 0 })
            .collect();
        for (node, mut ranks) in on_node {
            let room = allocation
                .position(node)
                .map_or(0, |i| allocation.nodes()[i].1);
            let as_said = ranks.iter().all(|(s, _)| s.is_some_and(|s| s < room));
            ranks.sort_unstable();
            for (order, (slot, rank)) in (0..).zip(ranks) {
                let own = slot.filter(|_| as_said).unwrap_or(order);
                slots[rank as usize].slot = own;
            }
        }
        let placement = Placement::new(fabric, &allocation, slots)?;
        Ok(Placed {
            allocation,
            placement,
        })
    }
}

#[cfg(test)]
mod tests;
