//! Mean hops of the path sets between groups, for all pairs of nodes.

use super::groups::{GroupPaths, Spread, ends};
use super::{Routing, Unroutable};
use crate::fabric::{Fabric, Node};
use crate::ids::{LinkId, NodeId, RouterId};
use crate::reach::Reach;
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

impl Routing {
    /// Mean hops of the traffic from one node to another: those of its paths, weighted with their shares.
    ///
    /// # Errors
    /// No route.
    pub fn mean_hops(&self, fabric: &Fabric, from: NodeId, to: NodeId) -> Result<f64, Unroutable> {
        let mut shares = Vec::new();
        self.shares(fabric, from, to, &mut shares)?;
        let hops = shares.iter().filter(|s| fabric.is_hop(s.0));
        Ok(hops.map(|s| s.1).sum())
    }
}

impl GroupPaths {
    /// Number of ordered pairs of different nodes by the mean hops of their paths.
    pub fn pairs_by_mean_hops(&self, fabric: &Fabric) -> BTreeMap<MeanHops, u64> {
        let means = Means::of(self, fabric);
        let routers: Vec<Ends> = fabric.router_ids().map(|r| Ends::of(fabric, r)).collect();
        let from = |from: &Ends| {
            let mut counts: BTreeMap<MeanHops, u64> = BTreeMap::new();
            for to in &routers {
                let pairs = from.pairs(to, fabric);
                let Some((a, b)) = from.first[0].zip(to.first[1]) else {
                    continue;
                };
                let between = match &means {
                    _ if from.router == to.router => Some(0.0),
                    Some(means) => means.between(from.router, to.router),
                    None => self.between_routers(fabric, a, b),
                };
                let Some(between) = between else { continue };
                for (own, count) in pairs.into_iter().enumerate().filter(|p| p.1 > 0) {
                    *counts
                        .entry(MeanHops::of(between + own as f64))
                        .or_default() += count;
                }
            }
            counts
        };
        let parts: Vec<BTreeMap<MeanHops, u64>> = routers.par_iter().map(from).collect();
        let mut all = BTreeMap::new();
        for (hops, count) in parts.into_iter().flatten() {
            *all.entry(hops).or_default() += count;
        }
        all
    }

    /// Mean hops between the routers of two nodes, from all paths.
    fn between_routers(&self, fabric: &Fabric, a: NodeId, b: NodeId) -> Option<f64> {
        let mut shares = Vec::new();
        self.shares(fabric, a, b, &mut shares).ok()?;
        let hops = shares
            .iter()
            .filter(|s| fabric.link(s.0).is_between_routers() && fabric.is_hop(s.0));
        Some(hops.map(|s| s.1).sum())
    }
}

/// Hops to a tenth: paths of one pair may differ in length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MeanHops(u32);

impl MeanHops {
    /// Sums that round differently are the same.
    fn of(hops: f64) -> Self {
        Self((hops * 10.0 + 1e-6).round() as u32)
    }
}

impl fmt::Display for MeanHops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", f64::from(self.0) / 10.0)
    }
}

impl Serialize for MeanHops {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl Reach {
    /// Pairs by the mean hops over all of their paths; those of [`Reach::hops`] where all are equally long.
    pub fn by_mean_hops(&self, fabric: &Fabric, routing: &Routing) -> BTreeMap<MeanHops, u64> {
        match routing.network() {
            Routing::Groups(paths) => paths.pairs_by_mean_hops(&fabric.network()),
            _ => (self.hops.iter())
                .map(|(&hops, &count)| (MeanHops(10 * hops as u32), count))
                .collect(),
        }
    }
}

/// The nodes of a router by the hops of their links into the network and out of it; those with links that are down are
/// left out.
struct Ends {
    router: RouterId,
    /// One that sends, and one that receives.
    first: [Option<NodeId>; 2],
    inject: [u64; 2],
    eject: [u64; 2],
}

impl Ends {
    fn of(fabric: &Fabric, router: RouterId) -> Self {
        let count = |link: fn(&Node) -> LinkId| {
            let mut counts = [0; 2];
            let links = fabric
                .nodes_on(router)
                .iter()
                .map(|&n| link(fabric.node(n)));
            for link in links.filter(|&l| fabric.link(l).is_up()) {
                counts[usize::from(fabric.is_hop(link))] += 1;
            }
            counts
        };
        let first = |link: fn(&Node) -> LinkId| {
            let mut nodes = fabric.nodes_on(router).iter().copied();
            nodes.find(|&n| fabric.link(link(fabric.node(n))).is_up())
        };
        Self {
            router,
            first: [first(|n| n.inject), first(|n| n.eject)],
            inject: count(|n| n.inject),
            eject: count(|n| n.eject),
        }
    }

    /// Pairs of different nodes by the hops of their own links.
    fn pairs(&self, to: &Self, fabric: &Fabric) -> [u64; 3] {
        let mut pairs = [0; 3];
        for (i, &a) in self.inject.iter().enumerate() {
            for (j, &b) in to.eject.iter().enumerate() {
                pairs[i + j] += a * b;
            }
        }
        if self.router == to.router {
            for node in fabric.nodes_on(self.router).iter().map(|&n| fabric.node(n)) {
                let links = [node.inject, node.eject];
                if links.iter().all(|&l| fabric.link(l).is_up()) {
                    let own = links.iter().filter(|&&l| fabric.is_hop(l)).count();
                    pairs[own] -= 1;
                }
            }
        }
        pairs
    }
}

/// Mean local hops on the two sides of global links, by which the mean of a path set is a sum of few parts.
struct Means<'a> {
    paths: &'a GroupPaths,
    /// By router and number of the other group: hops to the links to it, and from those that come from it, weighted by
    /// capacity and not.
    out: Vec<[f64; 2]>,
    into: Vec<[f64; 2]>,
    /// By group and other group: hops between links from the one to a third group and from there to the other, summed
    /// over third groups.
    through: Vec<f64>,
}

impl<'a> Means<'a> {
    /// `None` unless all links between routers are hops, groups are whole, and every two are joined: paths may then be
    /// missing for some pairs only.
    fn of(paths: &'a GroupPaths, fabric: &Fabric) -> Option<Self> {
        let groups = &paths.groups;
        let parts = paths.parts().into_iter().max()? as usize + 1;
        let joined = groups.len() * (groups.len() - 1) == paths.gateways.len();
        let mut between = fabric
            .link_ids()
            .filter(|&l| fabric.link(l).is_between_routers());
        if parts != groups.len() || !joined || !between.all(|l| fabric.is_hop(l)) {
            return None;
        }
        let number = |group: u32| groups.partition_point(|&g| g < group);
        let local = |a, b| paths.local.distance(a, b).map(f64::from);
        let (n, routers) = (groups.len(), paths.group.len());
        let (mut out, mut into) = (vec![[0.0; 2]; routers * n], vec![[0.0; 2]; routers * n]);
        let mut through = vec![0.0; n * n];
        let mut members: Vec<Vec<RouterId>> = vec![Vec::new(); n];
        for router in fabric.router_ids() {
            members[number(paths.group(router))].push(router);
        }
        for (&(here, there), gates) in &paths.gateways {
            let capacity = |gate| fabric.link(gate).capacity().0;
            let total: f64 = gates.iter().map(|&gate| capacity(gate)).sum();
            let (a, b) = (number(here), number(there));
            for &gate in gates {
                let (exit, entry) = ends(fabric, gate)?;
                let parts = [capacity(gate) / total, 1.0 / gates.len() as f64];
                for &router in &members[a] {
                    let hops = local(router, exit)?;
                    let at = &mut out[router.index() * n + b];
                    parts
                        .iter()
                        .zip(at)
                        .for_each(|(part, at)| *at += part * hops);
                }
                for &router in &members[b] {
                    let hops = local(entry, router)?;
                    let at = &mut into[router.index() * n + a];
                    parts
                        .iter()
                        .zip(at)
                        .for_each(|(part, at)| *at += part * hops);
                }
            }
            for &third in groups.iter().filter(|&&g| g != here && g != there) {
                let (first, second) = (
                    &paths.gateways[&(here, third)],
                    &paths.gateways[&(third, there)],
                );
                let mut sum = 0.0;
                for &first in first {
                    for &second in second {
                        sum += local(ends(fabric, first)?.1, ends(fabric, second)?.0)?;
                    }
                }
                through[a * n + b] += sum / (first.len() * second.len()) as f64;
            }
        }
        Some(Self {
            paths,
            out,
            into,
            through,
        })
    }

    /// Mean hops between two routers.
    fn between(&self, a: RouterId, b: RouterId) -> Option<f64> {
        let groups = &self.paths.groups;
        let (n, number) = (groups.len(), |r| {
            groups.partition_point(|&g| g < self.paths.group(r))
        });
        let (here, there) = (number(a), number(b));
        if here == there {
            return self.paths.local.distance(a, b).map(f64::from);
        }
        let out = &self.out[a.index() * n..][..n];
        let into = &self.into[b.index() * n..][..n];
        let minimal = out[there][0] + 1.0 + into[here][0];
        let share = match self.paths.spread() {
            _ if n < 3 => 1.0,
            Spread::Minimal => 1.0,
            Spread::Valiant => 0.0,
            Spread::Adaptive(share) => share,
        };
        if share >= 1.0 {
            return Some(minimal);
        }
        let third = |g: &usize| *g != here && *g != there;
        let ends = (0..n).filter(third).map(|g| out[g][1] + into[g][1]);
        let valiant = (ends.sum::<f64>() + self.through[here * n + there]) / (n - 2) as f64 + 2.0;
        Some(share * minimal + (1.0 - share) * valiant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::Fault;
    use crate::random::Random;
    use crate::spec;

    /// Sums of parts are the means of all paths, with and without failed cables.
    #[test]
    fn pairs_by_mean_hops_are_those_of_shares() {
        let mut random = Random::new(3);
        let machines = [
            "slingshot:6x8:nodes=4,global=2",
            "aries:3x2x4:blue=6",
            "dragonfly:2x3:nodes=2",
            "slingshot:4x4:nodes=2",
        ];
        for (text, routing, cuts) in machines.iter().flat_map(|m| {
            let names = ["minimal", "valiant", "adaptive:0.75"];
            names
                .into_iter()
                .flat_map(move |r| [0, 1, 12].map(|cuts| (m, r, cuts)))
        }) {
            let whole = spec::fabric(text).unwrap();
            let links: Vec<LinkId> = whole.link_ids().collect();
            let cut = |_| Fault::Cable(links[random.below(links.len())]);
            let faults: Vec<Fault> = (0..cuts).map(cut).collect();
            let fabric = whole.with_faults(&faults);
            let routing = Routing::named(&fabric, routing).unwrap();
            let Routing::Groups(paths) = &routing else {
                panic!("{text}");
            };
            let mut expected: BTreeMap<MeanHops, u64> = BTreeMap::new();
            let all = || fabric.node_ids();
            for (a, b) in all().flat_map(|a| all().map(move |b| (a, b))) {
                if let (true, Ok(hops)) = (a != b, routing.mean_hops(&fabric, a, b)) {
                    *expected.entry(MeanHops::of(hops)).or_default() += 1;
                }
            }
            let found = paths.pairs_by_mean_hops(&fabric);
            assert_eq!(found, expected, "{text} {} {cuts}", routing.describe());
        }
    }

    /// One path is shown of those that traffic takes.
    #[test]
    fn a_shown_path_is_one_of_the_set() {
        for (text, name) in [
            ("slingshot:6x8:nodes=1,global=2", "valiant"),
            ("aries:3x2x4", "valiant"),
            ("aries:3x2x4", "adaptive:0"),
            ("aries:3x2x4", "adaptive:0.5"),
            ("aries:3x2x4", "minimal"),
            ("dragonfly:2x3", "valiant"),
            ("torus:4x4", "dimension-order"),
        ] {
            let fabric = spec::fabric(text).unwrap();
            let routing = Routing::named(&fabric, name).unwrap();
            let nodes: Vec<NodeId> = fabric.node_ids().step_by(3).collect();
            for (&a, &b) in nodes.iter().flat_map(|a| nodes.iter().map(move |b| (a, b))) {
                let (mut path, mut shares) = (Vec::new(), Vec::new());
                routing.path(&fabric, a, b, &mut path).unwrap();
                routing.shares(&fabric, a, b, &mut shares).unwrap();
                let carries = |l: &LinkId| shares.iter().any(|s| s.0 == *l && s.1 > 0.0);
                assert!(path.iter().all(carries), "{text} {name}");
                let joined = |w: &[LinkId]| fabric.link(w[0]).to == fabric.link(w[1]).from;
                assert!(path.windows(2).all(joined), "{text} {name}");
                assert_eq!(path.is_empty(), a == b);
            }
        }
    }
}
