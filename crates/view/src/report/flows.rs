//! Node pairs that use a link, and links that a node uses.

use super::{Job, Side};
use hopbyte_fabric::{Fabric, LinkId, NodeId, Routing};
use std::collections::HashMap;

/// Limit of node pairs per link.
const PAIRS: usize = 8;
/// Limit of links per node.
const LINKS: usize = 48;
/// Limit of nodes with links.
const NODES: usize = 2048;

/// Users of links, and links of users, under one placement.
#[derive(Debug, Default)]
pub struct Flows {
    /// Largest (from, to, bytes) of each wanted link.
    pub of_link: HashMap<LinkId, Vec<(NodeId, NodeId, f64)>>,
    /// Most used links of each sending node.
    pub of_node: HashMap<NodeId, Vec<LinkId>>,
}

impl Flows {
    /// Routes the job's bytes under a placement; `wanted` are the links with users to keep. Pairs
    /// without a route are left out: the evaluation has refused or reported them before.
    pub fn of(
        fabric: &Fabric,
        routing: &Routing,
        job: &Job<'_>,
        side: &Side<'_>,
        wanted: &[LinkId],
    ) -> Self {
        let mut users: Vec<Option<Vec<(NodeId, NodeId, f64)>>> = vec![None; fabric.links().len()];
        for link in wanted {
            users[link.index()] = Some(Vec::new());
        }
        let mut of_node = HashMap::new();
        let mut shares = Vec::new();
        let mut used: HashMap<LinkId, f64> = HashMap::new();
        for (from, sent) in pairs(fabric, job, side) {
            let counted = of_node.len() < NODES;
            used.clear();
            for (to, bytes) in sent {
                shares.clear();
                if routing.shares(fabric, from, to, &mut shares).is_err() {
                    continue;
                }
                for &(link, share) in &shares {
                    let part = bytes * share;
                    if let Some(users) = &mut users[link.index()] {
                        users.push((from, to, part));
                    }
                    if counted {
                        *used.entry(link).or_default() += part;
                    }
                }
            }
            if !used.is_empty() {
                let mut list: Vec<(LinkId, f64)> = used.drain().collect();
                list.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
                list.truncate(LINKS);
                of_node.insert(from, list.into_iter().map(|(l, _)| l).collect());
            }
        }
        let of_link = wanted.iter().map(|&link| {
            let mut users = users[link.index()].take().unwrap_or_default();
            users.sort_by(|a, b| b.2.total_cmp(&a.2).then((a.0, a.1).cmp(&(b.0, b.1))));
            users.truncate(PAIRS);
            (link, users)
        });
        Self {
            of_link: of_link.collect(),
            of_node,
        }
    }
}

/// Bytes from each node to each other one, in the order of nodes.
fn pairs(
    fabric: &Fabric,
    job: &Job<'_>,
    side: &Side<'_>,
) -> impl Iterator<Item = (NodeId, Vec<(NodeId, f64)>)> {
    let node = |rank: u32| side.placement.node(rank);
    let mut sent: Vec<Vec<(NodeId, f64)>> = vec![Vec::new(); fabric.nodes().len()];
    for (from, message) in job.exchange.iter() {
        let (from, to) = (node(from), node(message.to));
        if from != to && message.bytes > 0.0 {
            sent[from.index()].push((to, message.bytes));
        }
    }
    let merged = |(from, mut list): (usize, Vec<(NodeId, f64)>)| {
        list.sort_by_key(|s| s.0);
        list.dedup_by(|next, sum| {
            let same = next.0 == sum.0;
            sum.1 += if same { next.1 } else { 0.0 };
            same
        });
        (NodeId::of(from), list)
    };
    sent.into_iter().enumerate().map(merged)
}
