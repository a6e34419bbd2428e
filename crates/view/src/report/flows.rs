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
        let mut of_link: HashMap<LinkId, Vec<(NodeId, NodeId, f64)>> =
            wanted.iter().map(|&l| (l, Vec::new())).collect();
        let mut of_node: HashMap<NodeId, HashMap<LinkId, f64>> = HashMap::new();
        let mut shares = Vec::new();
        for ((from, to), bytes) in pairs(job, side) {
            shares.clear();
            if routing.shares(fabric, from, to, &mut shares).is_err() {
                continue;
            }
            for &(link, share) in &shares {
                let part = bytes * share;
                if let Some(users) = of_link.get_mut(&link) {
                    users.push((from, to, part));
                }
                if of_node.len() < NODES || of_node.contains_key(&from) {
                    *of_node.entry(from).or_default().entry(link).or_default() += part;
                }
            }
        }
        for users in of_link.values_mut() {
            users.sort_by(|a, b| b.2.total_cmp(&a.2).then((a.0, a.1).cmp(&(b.0, b.1))));
            users.truncate(PAIRS);
        }
        let of_node = of_node
            .into_iter()
            .map(|(node, links)| {
                let mut list: Vec<(LinkId, f64)> = links.into_iter().collect();
                list.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
                list.truncate(LINKS);
                (node, list.into_iter().map(|(l, _)| l).collect())
            })
            .collect();
        Self { of_link, of_node }
    }
}

/// Bytes between pairs of different nodes, in a fixed order.
fn pairs(job: &Job<'_>, side: &Side<'_>) -> Vec<((NodeId, NodeId), f64)> {
    let mut sum: HashMap<(NodeId, NodeId), f64> = HashMap::new();
    for (from, message) in job.exchange.iter() {
        let pair = (side.placement.node(from), side.placement.node(message.to));
        if pair.0 != pair.1 && message.bytes > 0.0 {
            *sum.entry(pair).or_default() += message.bytes;
        }
    }
    let mut list: Vec<_> = sum.into_iter().collect();
    list.sort_by_key(|&(pair, _)| pair);
    list
}
