//! Capacities of trees whose description has none: full bisection, or as given by the user.

use crate::fabric::{End, Fabric};
use crate::ids::{LinkId, NodeId, RouterId};
use crate::units::BytesPerSecond;
use std::collections::{BTreeMap, VecDeque};

/// Assumed capacities of a tree of switches.
#[derive(Clone, Debug, PartialEq)]
pub struct AssumedRates {
    /// Capacity of a node's link.
    pub host: BytesPerSecond,
    /// Capacities of the cables above switches of each level, from the leaves; levels that are not listed have the
    /// capacity of all nodes below, divided by `uplink_ratio`.
    pub levels: Vec<BytesPerSecond>,
    /// Capacity of the nodes below a switch over that of its uplinks.
    pub uplink_ratio: f64,
    /// Capacity of every node's link by node, if they differ from `host`.
    pub nodes: Vec<BytesPerSecond>,
}

impl AssumedRates {
    /// Full bisection.
    pub fn full(host: BytesPerSecond) -> Self {
        Self {
            host,
            levels: Vec::new(),
            uplink_ratio: 1.0,
            nodes: Vec::new(),
        }
    }

    fn node(&self, node: NodeId) -> BytesPerSecond {
        self.nodes.get(node.index()).copied().unwrap_or(self.host)
    }

    /// The assumption, as a sentence.
    pub fn describe(&self) -> String {
        let above = if self.uplink_ratio > 1.0 {
            format!("{}:1 oversubscribed uplinks", self.uplink_ratio)
        } else {
            "full bisection between switches".to_owned()
        };
        let listed: Vec<String> = self.levels.iter().map(|r| format!("{}", r.gb())).collect();
        let listed = match listed.len() {
            0 => String::new(),
            _ => format!(
                ", but {} GB/s for the cables of the first levels",
                listed.join(", ")
            ),
        };
        let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
        for rate in &self.nodes {
            *counts.entry(rate.0.to_bits()).or_default() += 1;
        }
        let each = |(bits, n): (&u64, &usize)| {
            let gb = BytesPerSecond(f64::from_bits(*bits)).gb();
            format!("{gb} GB/s each way for {n} nodes")
        };
        let hosts = match counts.len() {
            0 => format!("{} GB/s each way for every node", self.host.gb()),
            1 => format!(
                "{} GB/s each way for every node (the adapters of its kind together)",
                self.nodes[0].gb()
            ),
            _ => {
                let all: Vec<String> = counts.iter().map(each).collect();
                format!("{} (the adapters of their kinds together)", all.join(", "))
            }
        };
        format!("the topology has no speeds: {hosts} and {above} are assumed{listed}")
    }
}

impl Fabric {
    /// The fabric with assumed capacities. A switch's level is its distance from the nearest switch with nodes; the
    /// uplinks of a switch share the capacity of the nodes below it. Switches of one level are joined by the smaller of
    /// both sides.
    #[must_use]
    pub fn with_rates(mut self, rates: &AssumedRates) -> Self {
        let level = self.levels();
        let up = |fabric: &Self, link: LinkId| match (fabric.link(link).from, fabric.link(link).to)
        {
            (End::Router(a), End::Router(b)) if level[a.index()] < level[b.index()] => Some((a, b)),
            _ => None,
        };
        let mut order: Vec<RouterId> = self.router_ids().collect();
        order.sort_by_key(|r| level[r.index()]);
        let mut below: Vec<f64> = self
            .router_ids()
            .map(|r| self.nodes_on(r).iter().map(|&n| rates.node(n).0).sum())
            .collect();
        let mut uplinks = vec![0.0f64; order.len()];
        for &router in &order {
            for &link in self.links_from(router) {
                if let Some((a, b)) = up(&self, link) {
                    below[b.index()] += below[a.index()];
                    uplinks[a.index()] += 1.0;
                }
            }
        }
        let share = |r: RouterId| below[r.index()] / uplinks[r.index()].max(1.0);
        for at in 0..self.links.len() {
            let (from, to) = (self.links[at].from, self.links[at].to);
            let (End::Router(a), End::Router(b)) = (from, to) else {
                let end = |end: End| match end {
                    End::Node(node) => Some(node),
                    _ => None,
                };
                let node = end(from).or(end(to));
                self.links[at].nominal = node.map_or(rates.host, |n| rates.node(n));
                continue;
            };
            let (low, high) = if level[a.index()] <= level[b.index()] {
                (a, b)
            } else {
                (b, a)
            };
            let same = level[low.index()] == level[high.index()];
            let nodes = if same {
                below[low.index()].min(below[high.index()])
            } else {
                share(low)
            };
            let listed = rates.levels.get(level[low.index()] as usize);
            let full = BytesPerSecond(nodes.max(rates.host.0) / rates.uplink_ratio);
            self.links[at].nominal = listed.copied().unwrap_or(full);
        }
        self
    }

    /// Distance of every router from the nearest one with nodes.
    fn levels(&self) -> Vec<u32> {
        let mut level = vec![u32::MAX; self.routers.len()];
        let mut queue: VecDeque<RouterId> = self
            .router_ids()
            .filter(|&r| !self.nodes_on(r).is_empty())
            .collect();
        queue.iter().for_each(|r| level[r.index()] = 0);
        while let Some(at) = queue.pop_front() {
            for &link in self.links_from(at) {
                if let End::Router(next) = self.link(link).to
                    && level[next.index()] == u32::MAX
                {
                    level[next.index()] = level[at.index()] + 1;
                    queue.push_back(next);
                }
            }
        }
        level
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec;

    /// Two levels above the leaves: every cable carries its share of the nodes below.
    #[test]
    fn uplinks_carry_the_nodes_below() {
        let fabric = spec::fabric("fattree:down=6x4x2,up=1x2x3").unwrap();
        let rate = |rates: &AssumedRates, from: &str, to: &str| {
            let fabric = fabric.clone().with_rates(rates);
            let end = |name: &str| End::Router(fabric.find_router(name).unwrap());
            let link = fabric
                .links()
                .iter()
                .find(|l| l.from == end(from) && l.to == end(to));
            link.unwrap().nominal.gb()
        };
        let full = AssumedRates::full(BytesPerSecond::from_gb(10.0));
        assert_eq!(rate(&full, "leaf0", "l2-0"), 30.0);
        assert_eq!(rate(&full, "l2-0", "leaf0"), 30.0);
        assert_eq!(rate(&full, "l2-0", "l3-0"), 80.0);
        let half = AssumedRates {
            uplink_ratio: 2.0,
            ..full.clone()
        };
        assert_eq!(rate(&half, "leaf0", "l2-0"), 15.0);
        let listed = AssumedRates {
            levels: vec![BytesPerSecond::from_gb(25.0)],
            ..full
        };
        assert_eq!(rate(&listed, "leaf0", "l2-0"), 25.0);
        assert_eq!(rate(&listed, "l2-0", "l3-0"), 80.0);
        assert!(listed.describe().contains("25 GB/s"));
    }

    /// A ring of switches with nodes keeps one rate.
    #[test]
    fn a_ring_has_the_rate_of_its_nodes() {
        let fabric = spec::fabric("torus:4x2").unwrap();
        let rates = AssumedRates::full(BytesPerSecond::from_gb(5.0));
        let all = fabric.with_rates(&rates);
        assert!(all.links().iter().all(|l| l.nominal.gb() == 5.0));
    }
}
