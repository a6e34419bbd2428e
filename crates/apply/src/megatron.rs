//! Answers for Megatron-LM and NCCL: an order of dimensions with its hosts, and the choice of rings or trees by size.

use crate::advice::Advice;
use crate::error::ApplyError;
use crate::layout::{Job, Layout};
use hopbyte_fabric::NodeId;
use hopbyte_fabric::collective::{Algorithm, Collective, Cost, Operation, Sizes};
use hopbyte_fabric::plan;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

fn inexpressible(format: &'static str, why: impl Into<String>, instead: &str) -> ApplyError {
    ApplyError::Inexpressible {
        what: "placement",
        format,
        why: why.into(),
        instead: instead.into(),
    }
}

fn job<'a>(layout: &Layout<'a>, format: &'static str) -> Result<Job<'a>, ApplyError> {
    let job = layout.launch.job;
    job.ok_or_else(|| {
        inexpressible(
            format,
            "its traffic is not known",
            "write it from a mapping",
        )
    })
}

/// Hosts in the order of ranks, if the ranks with these numbers fill host after host, and its slots in turn.
fn in_turn<'a>(layout: &Layout<'a>, numbers: &[u32]) -> Option<(usize, Vec<&'a str>)> {
    let mut rank_of = vec![0usize; numbers.len()];
    for (rank, &number) in numbers.iter().enumerate() {
        rank_of[number as usize] = rank;
    }
    let first = layout.place[*rank_of.first()?];
    let each = rank_of
        .iter()
        .take_while(|&&r| layout.place[r] == first)
        .count();
    let mut seen = BTreeSet::new();
    let mut hosts = Vec::new();
    for block in rank_of.chunks(each) {
        let place = layout.place[block[0]];
        let turn = |(i, &rank): (usize, &usize)| {
            layout.place[rank] == place && layout.slot[rank] as usize == i
        };
        if block.len() != each || !seen.insert(place) || !block.iter().enumerate().all(turn) {
            return None;
        }
        hosts.push(layout.hosts[place as usize]);
    }
    Some((each, hosts))
}

const NO_PLAN: &str = "its traffic is not a plan";
const MAP_PLAN: &str = "map the traffic plan:dp=D,tp=T,pp=P";

const ORDER: &str = "megatron-order";

/// The plan, the order of dimensions, the GPUs of a host and the hosts, one on a line.
pub(crate) fn order(layout: &Layout<'_>) -> Result<String, ApplyError> {
    let job = job(layout, ORDER)?;
    let mut hosts = None;
    let found = plan::order_with(job.traffic, |numbers| {
        hosts = (numbers.len() == layout.ranks())
            .then(|| in_turn(layout, numbers))
            .flatten();
        hosts.is_some()
    });
    let instead = "rank-gpus gives each rank its place; with --keep hosts there is an order";
    let found = found
        .ok_or_else(|| inexpressible(ORDER, NO_PLAN, MAP_PLAN))?
        .map_err(|e| inexpressible(ORDER, e.to_string(), MAP_PLAN))?;
    let (Some((order, _)), Some((each, hosts))) = (found, hosts) else {
        let why = "no order of dimensions has these ranks on whole hosts in turn";
        return Err(inexpressible(ORDER, why, instead));
    };
    let mut text = String::from(
        "# Megatron-LM: ranks in turn on these hosts have the placement of the plan by this order\n",
    );
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(text, "plan {}\norder {order}\ngpus {each}", job.traffic);
    for host in hosts {
        let _ = writeln!(text, "host {host}");
    }
    Ok(text)
}

pub(crate) fn order_advice(_: &Layout<'_>, _: Option<bool>) -> Advice {
    Advice::new(
        "parallel_state.initialize_model_parallel(…, order='$(awk '$1==\"order\"{print $2}' FILE)') with hosts in the order of FILE",
    )
    .warn(["Megatron-LM's own command has two orders: tp-cp-ep-dp-pp, and tp-cp-ep-pp-dp by --use-tp-pp-dp-mapping"])
}

/// A row of NCCL's tuner file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuned {
    /// Smallest and largest size in bytes.
    pub bytes: (u64, u64),
    /// Ring or tree.
    pub algorithm: Algorithm,
    /// Hosts and ranks of a communicator.
    pub nodes: u32,
    /// Ranks.
    pub ranks: u32,
}

const TUNER: &str = "nccl-tuner";
const HEADER: &str = "# collective,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks";

/// NCCL's algorithms that are compared.
const COMPARED: [(&str, Algorithm); 2] = [("ring", Algorithm::Ring), ("tree", Algorithm::Tree)];

/// Ring or tree for allreduces of the job's communicators on their places, by size, as the example plugin of NCCL
/// (`plugins/tuner/example`) reads it. Communicators of as many hosts and ranks are not told apart: they call at once.
pub(crate) fn tuner(layout: &Layout<'_>) -> Result<String, ApplyError> {
    let job = job(layout, TUNER)?;
    let launch = layout.launch;
    let kinds = plan::reducing_groups(job.traffic)
        .ok_or_else(|| inexpressible(TUNER, NO_PLAN, MAP_PLAN))?
        .map_err(|e| inexpressible(TUNER, e.to_string(), MAP_PLAN))?;
    let groups: Vec<Vec<u32>> = kinds.into_iter().flat_map(|k| k.1).collect();
    let mut kinds: BTreeMap<(u32, u32), Vec<Vec<NodeId>>> = BTreeMap::new();
    for group in groups
        .iter()
        .filter(|g| g.iter().all(|&r| (r as usize) < layout.ranks()))
    {
        let hosts: BTreeSet<u32> = group.iter().map(|&r| layout.place[r as usize]).collect();
        let nodes = group
            .iter()
            .map(|&r| launch.placement.slots()[r as usize].node);
        kinds
            .entry((hosts.len() as u32, group.len() as u32))
            .or_default()
            .push(nodes.collect());
    }
    let mut text = format!("{HEADER}\n");
    for ((nodes, ranks), groups) in kinds {
        // Both times are linear in the size.
        let cost = |algorithm: Algorithm| {
            let operation = |ranks| Operation {
                collective: Collective::Allreduce,
                algorithm,
                ranks,
                root: 0,
                sizes: Sizes::Same(1e9),
                hosts: &[],
            };
            Cost::of(launch.fabric, job.routing, &groups, operation)
        };
        let both = [cost(Algorithm::Ring), cost(Algorithm::Tree)];
        let [Ok(ring), Ok(tree)] = both else {
            let why = format!("{ranks} ranks on {nodes} hosts have no routes between them");
            return Err(inexpressible(TUNER, why, "map again on links that are up"));
        };
        let (latency, bandwidth) = (
            ring.latency - tree.latency,
            (tree.bandwidth - ring.bandwidth) / 1e9,
        );
        let rows: Vec<(u64, u64, &str)> = match (latency > 0.0, bandwidth > 0.0) {
            // Up to this size the shorter way of the tree is worth more than its bytes.
            (true, true) => {
                let at = (latency / bandwidth).min(u64::MAX as f64 / 2.0) as u64;
                vec![(0, at, "tree"), (at + 1, u64::MAX, "ring")]
            }
            (true, false) => vec![(0, u64::MAX, "tree")],
            (false, false) if bandwidth < 0.0 => {
                let at = (latency / bandwidth).min(u64::MAX as f64 / 2.0) as u64;
                vec![(0, at, "ring"), (at + 1, u64::MAX, "tree")]
            }
            (false, _) => vec![(0, u64::MAX, "ring")],
        };
        for (least, most, algorithm) in rows {
            let _ = writeln!(
                text,
                "allreduce,{least},{most},{algorithm},simple,-1,{nodes},{ranks}"
            );
        }
    }
    Ok(text)
}

pub(crate) fn tuner_advice(_: &Layout<'_>, _: Option<bool>) -> Advice {
    Advice::new("NCCL_TUNER_PLUGIN=libnccl-tuner-example.so NCCL_TUNER_CONFIG_FILE=FILE ./app").warn([
        "predicted from the capacities and latencies of links alone: without NCCL's own latencies trees win up to smaller sizes than in a run",
    ])
}

/// Reads the rows of a tuner file; `None` for a line that is none.
pub fn tuned(text: &str) -> Option<Vec<Tuned>> {
    let row = |line: &str| {
        let words: Vec<&str> = line.split(',').collect();
        let [
            "allreduce",
            least,
            most,
            algorithm,
            "simple",
            "-1",
            nodes,
            ranks,
        ] = words[..]
        else {
            return None;
        };
        Some(Tuned {
            bytes: (least.parse().ok()?, most.parse().ok()?),
            algorithm: COMPARED.iter().find(|a| a.0 == algorithm)?.1,
            nodes: nodes.parse().ok()?,
            ranks: ranks.parse().ok()?,
        })
    };
    text.lines()
        .filter(|l| !l.starts_with('#') && !l.is_empty())
        .map(row)
        .collect()
}
