//! Placements of ranks from launchers' files, and lists of nodes.
//!
//! [`read_placement`] recognises netloc's `resources.txt`, Open MPI rankfiles, hostfiles (a host for every rank, or
//! `host slots=N`), CSV `rank,node[,slot]`, `MPICH_RANK_ORDER` and hopbyte's own JSON. Without an allocation the
//! nodes are those of the file, in the order of first mention, with one slot for every rank on them.

mod launchers;
mod nccl;
mod nodes;
mod places;
mod training;

pub(crate) use nodes::Names;
pub use nodes::{deal, host_line, host_list, host_names, parse_node_list, parse_nodes};
pub use places::Placed;

use crate::ObserveError;
use crate::known::{Known, known, names};
use crate::text::{Limits, Line, Text, decimal};
use hopbyte_fabric::{Allocation, Fabric, InputError};
use places::{Places, content_lines};
use std::path::Path;

/// Reads the placement of every rank. `allocation` is the job's, in the launcher's order; a rank order requires it,
/// because it only permutes the ranks of the default launch.
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
    let format = Format::of(text)?;
    let mut placed = match format.read {
        Read::Places(read) => read(text, fabric)?.finish(text, fabric, allocation),
        Read::Whole(read) => read(text, fabric, allocation),
    }?;
    placed.notes.extend(text.unended());
    Ok(placed)
}

/// One row of the table of placements.
struct Format {
    known: Known,
    /// Whether the text is in this format, by its first line; if several rows match, the first one wins.
    recognise: fn(&Text, Line<'_>) -> bool,
    read: Read,
}

/// Reader of a format.
#[derive(Clone, Copy)]
enum Read {
    /// A node by rank; slots are assigned afterwards.
    Places(for<'a> fn(&Text, &'a Fabric) -> Result<Places<'a>, InputError>),
    /// The complete placement.
    Whole(fn(&Text, &Fabric, Option<&Allocation>) -> Result<Placed, ObserveError>),
}

const PAGE: &str = "launchers.md";

const TABLE: &[Format] = &[
    Format {
        known: known(
            "jax",
            "a permutation of `jax.devices()`; needs the allocation",
            PAGE,
            "placement",
        ),
        recognise: |text, _| training::has_key(text, "permutation"),
        read: Read::Whole(training::jax),
    },
    Format {
        known: known(
            "dlrover",
            "DLRover's world with its hosts; needs the allocation",
            PAGE,
            "placement",
        ),
        recognise: |text, _| training::has_key(text, "world"),
        read: Read::Whole(training::dlrover),
    },
    Format {
        known: known(
            "kueue",
            "Kueue's `topologyAssignment`, a pod for every node",
            PAGE,
            "placement",
        ),
        recognise: |_, first| first.trimmed().starts_with(b"topologyAssignment:"),
        read: Read::Places(training::kueue),
    },
    Format {
        known: known(
            "megatron",
            "a plan, its order of dimensions and hosts, as `--emit megatron-order` writes",
            PAGE,
            "placement",
        ),
        recognise: |text, _| text.bytes().starts_with(b"# Megatron-LM"),
        read: Read::Places(training::megatron),
    },
    Format {
        known: known(
            "torchrun",
            "`HOST NODE_RANK GPUS`, GPUs in the order of local ranks",
            PAGE,
            "placement",
        ),
        recognise: |text, first| training::is_torchrun(text, first),
        read: Read::Places(training::torchrun),
    },
    Format {
        known: known(
            "NCCL log",
            "`NCCL_DEBUG=INFO` of all ranks in one file: host and GPU of each",
            PAGE,
            "placement",
        ),
        recognise: |text, _| nccl::is_log(text),
        read: Read::Places(nccl::log),
    },
    Format {
        known: known(
            "nccl-tests",
            "output of nccl-tests: host and GPU of each rank in its header",
            PAGE,
            "placement",
        ),
        recognise: |text, _| nccl::is_table(text),
        read: Read::Places(nccl::table),
    },
    Format {
        known: known(
            "json",
            "hopbyte's own: output of `map --json` and `apply --emit json`",
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
        recognise: |_, first| {
            first.trimmed().contains(&b',') && !first.words().nth(1).is_some_and(is_option)
        },
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
            "one host per line for every rank in turn, `HOST slots=N` or `HOST:N`",
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

/// Formats that lines of any content may pass for.
const LOOSE: [&str; 4] = ["json", "mpich-rank-order", "netloc resources", "hostfile"];

/// The format of a text that states it.
pub(crate) fn distinct(text: &Text) -> Option<Known> {
    let known = format(text).ok()?;
    let first = content_lines(text).next()?;
    let is_list = known.name != "csv" || first.trimmed().starts_with(b"rank,node");
    (is_list && !LOOSE.contains(&known.name)).then_some(known)
}

impl Format {
    fn of(text: &Text) -> Result<&'static Self, InputError> {
        // A table of nccl-tests may end with its header, which is in comments.
        let table = || text.lines().next().filter(|_| nccl::is_table(text));
        let first = content_lines(text).next().or_else(table);
        let found = first.and_then(|first| TABLE.iter().find(|f| (f.recognise)(text, first)));
        found.ok_or_else(|| {
            text.error("nothing", "a placement")
                .hint(format!("known formats: {}", names(known_formats())))
        })
    }
}

/// Whether numbers are a rank order rather than node numbers: they are separated by commas, or are all the numbers
/// from 0.
fn is_rank_order(text: &Text) -> bool {
    let is_order = |l: Line<'_>| {
        l.trimmed()
            .iter()
            .all(|b| b.is_ascii_digit() || b", \t-".contains(b))
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

/// Whether a word after a host is one of a hostfile's options.
fn is_option(word: &[u8]) -> bool {
    // Open MPI's, and those of Hydra, whose bindings and interfaces are no places.
    let options = [&b"slots"[..], b"max", b"binding=", b"ifname=", b"user="];
    options.iter().any(|option| word.starts_with(option))
}

#[cfg(test)]
mod tests;
