//! Launchers that place runs of ranks on a node, and the loss if a node has several runs.

use crate::error::ApplyError;
use crate::layout::Layout;
use crate::ranks::all_used;
use std::fmt::Write;

/// `host:ranks` for every run of consecutive ranks, in rank order.
pub(crate) fn host_counts(layout: &Layout<'_>) -> Result<String, ApplyError> {
    let text = layout
        .runs()
        .into_iter()
        .fold(String::new(), |mut text, (place, ranks)| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{}:{ranks}", layout.hosts[place as usize]);
            text
        });
    Ok(text)
}

/// Loss with MPICH's Hydra if a node has more than one run of ranks.
pub(crate) fn split_nodes(layout: &Layout<'_>) -> Option<String> {
    let runs = layout.runs();
    let mut places: Vec<u32> = runs.iter().map(|r| r.0).collect();
    places.sort_unstable();
    let nodes = || places.chunk_by(|a, b| a == b);
    let split = nodes().filter(|runs| runs.len() > 1).count();
    (split > 0).then(|| {
        format!(
            "{split} of {} nodes hold ranks that are not neighbours: each run of them becomes a node of its own and shared memory between them is lost",
            nodes().count()
        )
    })
}

/// Flux's task map (RFC 34): blocks of [first node, nodes, ranks each, repeats].
pub(crate) fn task_map(layout: &Layout<'_>) -> Result<String, ApplyError> {
    all_used(layout, "flux-taskmap")?;
    let mut blocks: Vec<[u32; 4]> = Vec::new();
    for (place, ranks) in layout.runs() {
        match blocks.last_mut() {
            Some([first, nodes, each, _]) if *each == ranks && *first + *nodes == place => {
                *nodes += 1;
            }
            _ => blocks.push([place, 1, ranks, 1]),
        }
    }
    Ok(format!(
        "{}\n",
        serde_json::json!({"version": 1, "map": blocks})
    ))
}

/// The nodes in rank order, for launchers that put the same number of ranks on each node in turn: that number and the
/// hosts. `None` if the ranks of a node are not consecutive or the numbers differ.
pub(crate) fn even_blocks<'a>(layout: &Layout<'a>) -> Option<(u32, Vec<&'a str>)> {
    let runs = layout.runs();
    let each = runs.first()?.1;
    let last = runs.len() - 1;
    let even = runs
        .iter()
        .enumerate()
        .all(|(i, r)| r.1 == each || (i == last && r.1 < each));
    (even && split_nodes(layout).is_none()).then(|| {
        let hosts = runs.iter().map(|r| layout.hosts[r.0 as usize]);
        (each, hosts.collect())
    })
}

pub(crate) fn only_blocks(layout: &Layout<'_>, format: &'static str) -> ApplyError {
    let runs = layout.runs();
    let (first, odd) = (runs.first(), runs.iter().find(|r| r.1 != runs[0].1));
    let host = |run: &(u32, u32)| format!("{} has {}", layout.hosts[run.0 as usize], run.1);
    // Hosts are whole, so that no order of them helps.
    let (why, instead) = match (first, odd, split_nodes(layout)) {
        (Some(first), Some(odd), None) => (
            format!(
                "it gives every node the same number of neighbouring ranks, and here {} and {}",
                host(first),
                host(odd)
            ),
            "give every host the same number of ranks (NAME:SLOTS, --ranks-per-node), or use a launcher that takes a host for each rank",
        ),
        _ => (
            "it gives every node the same number of neighbouring ranks, and the placement does not"
                .to_owned(),
            "map with --keep hosts, or use mpich-rank-order with Cray MPICH, or a launcher that takes a host for each rank",
        ),
    };
    ApplyError::Inexpressible {
        what: "placement",
        format,
        why,
        instead: instead.into(),
    }
}

/// Options of PALS `mpiexec`.
pub(crate) fn pals(layout: &Layout<'_>) -> Result<String, ApplyError> {
    let (each, hosts) = even_blocks(layout).ok_or_else(|| only_blocks(layout, "pals"))?;
    Ok(format!("--hosts {} --ppn {each}\n", hosts.join(",")))
}

/// One host per line: node ranks of torchrun, indices of an indexed Kubernetes job.
pub(crate) fn node_order(layout: &Layout<'_>) -> Result<String, ApplyError> {
    let (_, hosts) = even_blocks(layout).ok_or_else(|| only_blocks(layout, "node-order"))?;
    Ok(hosts.join("\n") + "\n")
}

/// Slurm's `plane=N`: blocks of N ranks, dealt to the nodes in turn.
pub(crate) fn plane(layout: &Layout<'_>) -> Result<String, ApplyError> {
    let runs = layout.runs();
    let size = runs.first().map_or(1, |r| r.1) as usize;
    let nodes = layout.hosts.len();
    let cyclic = |(rank, &place): (usize, &u32)| place as usize == rank / size % nodes;
    if layout.place.iter().enumerate().all(cyclic) {
        return Ok(format!("plane={size}\n"));
    }
    Err(ApplyError::Inexpressible {
        what: "placement",
        format: "slurm-plane",
        why: "it deals blocks of one size to the nodes in turn, and the placement does not".into(),
        instead: "use slurm-hostfile, or mpich-rank-order with Cray MPICH".into(),
    })
}
