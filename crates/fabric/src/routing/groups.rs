//! Dragonfly routing as weighted path sets: minimal, Valiant, adaptive.

use super::minimal::MinimalPaths;
use super::unroutable::{Dead, Unroutable, hosts_up};
use crate::fabric::{End, Fabric};
use crate::ids::{LinkId, NodeId, RouterId};
use std::collections::BTreeMap;

/// Distribution of traffic over the paths between groups.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spread {
    /// One global link: local, global, local. All links between the two groups share the traffic in
    /// proportion to their capacity, local legs take shortest paths. Routers without such a path between their groups
    /// take those through a third group, as Aries and Slingshot do when the links between two groups have failed.
    Minimal,
    /// Through a random other group (Valiant): uniform choice of intermediate group, minimal in both halves.
    Valiant,
    /// The average behaviour of an adaptive router: this share minimal, the rest Valiant. The share depends on load
    /// and bias, so it is a parameter, not a prediction.
    Adaptive(f64),
}

/// Routing on a fabric with a group as the first coordinate of routers.
#[derive(Clone, Debug)]
pub struct GroupPaths {
    spread: Spread,
    pub(super) group: Vec<u32>,
    pub(super) groups: Vec<u32>,
    /// Distances within groups only.
    pub(super) local: MinimalPaths,
    /// Global links that are up, by source and destination group.
    pub(super) gateways: BTreeMap<(u32, u32), Vec<LinkId>>,
}

impl GroupPaths {
    /// `None` if routers have no coordinates.
    pub fn new(fabric: &Fabric, spread: Spread) -> Option<Self> {
        let group: Vec<u32> = fabric
            .router_ids()
            .map(|r| fabric.coord(r).and_then(|c| c.first().copied()))
            .collect::<Option<_>>()?;
        let mut gateways: BTreeMap<(u32, u32), Vec<LinkId>> = BTreeMap::new();
        for id in fabric.link_ids().filter(|&l| fabric.link(l).is_up()) {
            if let (End::Router(a), End::Router(b)) = (fabric.link(id).from, fabric.link(id).to) {
                let pair = (group[a.index()], group[b.index()]);
                if pair.0 != pair.1 {
                    gateways.entry(pair).or_default().push(id);
                }
            }
        }
        let same_group = |l: LinkId| match (fabric.link(l).from, fabric.link(l).to) {
            (End::Router(a), End::Router(b)) => group[a.index()] == group[b.index()],
            _ => true,
        };
        let local = MinimalPaths::over(fabric, same_group);
        let mut groups = group.clone();
        groups.sort_unstable();
        groups.dedup();
        Some(Self {
            spread,
            group,
            groups,
            local,
            gateways,
        })
    }

    /// The distribution of traffic.
    pub fn spread(&self) -> Spread {
        self.spread
    }

    /// The group of a router: its first coordinate.
    pub fn group(&self, router: RouterId) -> u32 {
        self.group[router.index()]
    }

    /// Part of every router: routers of a group that reach each other inside it, all of the group unless links inside it
    /// are down. The links that a route uses inside the source's group depend on the target's part, not on its router, and
    /// the other way round.
    pub fn parts(&self) -> Vec<u32> {
        let joined = |a, b| self.local.distance(a, b).is_some();
        // The first routers of the parts of every group, with the parts' numbers.
        let mut firsts: BTreeMap<u32, Vec<(RouterId, u32)>> = BTreeMap::new();
        let mut count = 0;
        let part = |router: RouterId| {
            let firsts = firsts.entry(self.group(router)).or_default();
            let both =
                |&&(first, _): &&(RouterId, u32)| joined(first, router) && joined(router, first);
            if let Some(&(_, part)) = firsts.iter().find(both) {
                return part;
            }
            firsts.push((router, count));
            count += 1;
            count - 1
        };
        (0..self.group.len()).map(RouterId::of).map(part).collect()
    }

    /// A one-line description.
    pub fn describe(&self) -> String {
        match self.spread {
            Spread::Minimal => "dragonfly minimal, all global links between two groups".into(),
            Spread::Valiant => "dragonfly Valiant, every intermediate group".into(),
            Spread::Adaptive(share) => {
                format!("dragonfly adaptive, {share} minimal and the rest Valiant (assumed share)")
            }
        }
    }

    /// The next link of a shortest minimal route, lowest ids first: to the destination within a group, otherwise over
    /// the global link that gives the fewest total hops, or over two where groups are not joined.
    pub fn next(&self, fabric: &Fabric, at: RouterId, to: RouterId) -> Option<LinkId> {
        let (here, there) = (self.group[at.index()], self.group[to.index()]);
        if here == there {
            return self.local.next(fabric, at, to);
        }
        let (_, gate) = match self.gate(fabric, (here, there), at, to) {
            Some(direct) => direct,
            None => self.detour(fabric, at, to)?,
        };
        match ends(fabric, gate) {
            Some((exit, _)) if exit != at => self.local.next(fabric, at, exit),
            _ => Some(gate),
        }
    }

    /// The link between two groups with the fewest hops from a router of the first to one of the second, and these.
    fn gate(
        &self,
        fabric: &Fabric,
        groups: (u32, u32),
        at: RouterId,
        to: RouterId,
    ) -> Option<(u16, LinkId)> {
        let hops = |&gate: &LinkId| {
            let (exit, entry) = ends(fabric, gate)?;
            let hops = self.local.distance(at, exit)? + 1 + self.local.distance(entry, to)?;
            Some((hops, gate))
        };
        self.gateways.get(&groups)?.iter().filter_map(hops).min()
    }

    /// The same into a third group, from which a link leads to the second.
    fn detour(&self, fabric: &Fabric, at: RouterId, to: RouterId) -> Option<(u16, LinkId)> {
        let (here, there) = (self.group(at), self.group(to));
        let through = self.groups.iter().filter(|&&g| g != here && g != there);
        let gates = through.filter_map(|&g| Some((g, self.gateways.get(&(here, g))?)));
        let hops = |(g, gate): (u32, LinkId)| {
            let (exit, middle) = ends(fabric, gate)?;
            let rest = self.gate(fabric, (g, there), middle, to)?.0;
            Some((self.local.distance(at, exit)? + 1 + rest, gate))
        };
        let each = gates.flat_map(|(g, gates)| gates.iter().map(move |&gate| (g, gate)));
        each.filter_map(hops).min()
    }

    /// See [`super::Routing::shares`]; links of several paths appear once, in id order.
    pub fn shares(
        &self,
        fabric: &Fabric,
        from: NodeId,
        to: NodeId,
        out: &mut Vec<(LinkId, f64)>,
    ) -> Result<(), Unroutable> {
        if from == to {
            return Ok(());
        }
        let (source, target) = hosts_up(fabric, from, to)?;
        let mut all = vec![(source.inject, 1.0), (target.eject, 1.0)];
        let (a, b) = (source.router, target.router);
        let routed = match self.crossing(fabric, a, b) {
            _ if self.group(a) == self.group(b) => self.local.spread(fabric, a, b, 1.0, &mut all),
            Some(crossing) => {
                for &(exit, part) in &crossing.exits {
                    self.local.spread(fabric, a, exit, part, &mut all);
                }
                all.extend(crossing.steps(fabric, self));
                for &(entry, part) in &crossing.entries {
                    self.local.spread(fabric, entry, b, part, &mut all);
                }
                true
            }
            None => false,
        };
        if !routed {
            return Err(Unroutable {
                from,
                to,
                at: a,
                reason: Dead::NoEntry,
            });
        }
        merge(&mut all);
        out.append(&mut all);
        Ok(())
    }

    /// Adds the links between two routers of a group, with traffic `weight`; false without adding if no path joins them.
    pub fn inside(
        &self,
        fabric: &Fabric,
        (from, to): (RouterId, RouterId),
        weight: f64,
        out: &mut Vec<(LinkId, f64)>,
    ) -> bool {
        self.local.spread(fabric, from, to, weight, out)
    }

    /// The routes between routers of two groups, without their legs to exits and from entries: the same for all routers of
    /// the parts of these ([`GroupPaths::parts`]). `None` in one group, and without a route.
    pub fn crossing(&self, fabric: &Fabric, a: RouterId, b: RouterId) -> Option<Crossing> {
        if self.group(a) == self.group(b) {
            return None;
        }
        let share = match self.spread {
            Spread::Minimal => 1.0,
            Spread::Valiant => 0.0,
            Spread::Adaptive(share) => share,
        };
        // Without a usable intermediate group, all traffic is minimal, and vice versa.
        let mut ways = Vec::new();
        if share < 1.0 {
            ways = self.ways(fabric, a, b);
        }
        let mut gates = Vec::new();
        if share > 0.0 || ways.is_empty() {
            gates = self.usable(fabric, a, b);
        }
        if share >= 1.0 && gates.is_empty() {
            ways = self.ways(fabric, a, b);
        }
        let direct = match (gates.is_empty(), ways.is_empty()) {
            (true, true) => return None,
            (true, false) => 0.0,
            (false, true) => 1.0,
            (false, false) => share,
        };
        let mut found = Crossing::default();
        found.add_direct(fabric, &gates, direct);
        found.add_detours(&mut ways, 1.0 - direct);
        merge(&mut found.exits);
        merge(&mut found.entries);
        Some(found)
    }

    /// The links between two groups over which minimal paths lead, with their ends.
    fn usable(
        &self,
        fabric: &Fabric,
        a: RouterId,
        b: RouterId,
    ) -> Vec<(LinkId, RouterId, RouterId)> {
        let pair = (self.group(a), self.group(b));
        let gates = self.gateways.get(&pair).into_iter().flatten();
        gates
            .filter_map(|&gate| {
                let (exit, entry) = ends(fabric, gate)?;
                self.local
                    .distance(a, exit)
                    .and(self.local.distance(entry, b))?;
                Some((gate, exit, entry))
            })
            .collect()
    }

    /// The paths through every usable other group. A packet enters the group over any link from the source group and
    /// leaves it over any link to the destination group, provided that the local legs exist.
    fn ways(&self, fabric: &Fabric, a: RouterId, b: RouterId) -> Vec<Vec<Detour>> {
        let (ga, gb) = (self.group(a), self.group(b));
        let through = |&g: &u32| {
            let third = g != ga && g != gb;
            let gates = (self.gateways.get(&(ga, g))).zip(self.gateways.get(&(g, gb)));
            gates.filter(|_| third)
        };
        let gates = self.groups.iter().filter_map(through);
        let ways = gates.map(|(into, onward)| self.detours(fabric, a, b, into, onward));
        ways.filter(|ways| !ways.is_empty()).collect()
    }

    /// Appends a shortest of the paths through another group where no traffic goes directly; false without adding where
    /// some does.
    pub(super) fn detoured(
        &self,
        fabric: &Fabric,
        a: RouterId,
        b: RouterId,
        out: &mut Vec<LinkId>,
    ) -> bool {
        let direct = match self.spread {
            Spread::Minimal => true,
            Spread::Valiant => false,
            Spread::Adaptive(share) => share > 0.0,
        };
        if direct || self.group(a) == self.group(b) {
            return false;
        }
        let ways = self.ways(fabric, a, b);
        let hops = |way: &&Detour| {
            let legs = [(a, way.exit), (way.middle, way.leave), (way.entry, b)];
            let hops = legs.map(|(x, y)| self.local.distance(x, y).unwrap_or(u16::MAX));
            hops.map(u32::from).iter().sum::<u32>()
        };
        let Some(way) = ways.iter().flatten().min_by_key(hops) else {
            return false;
        };
        let mut leg = |mut at: RouterId, end: RouterId, gate: Option<LinkId>| {
            while let Some(link) = self.local.next(fabric, at, end) {
                out.push(link);
                let Some((_, next)) = ends(fabric, link) else {
                    break;
                };
                at = next;
            }
            out.extend(gate);
        };
        leg(a, way.exit, Some(way.first));
        leg(way.middle, way.leave, Some(way.second));
        leg(way.entry, b, None);
        true
    }

    fn detours(
        &self,
        fabric: &Fabric,
        a: RouterId,
        b: RouterId,
        into: &[LinkId],
        onward: &[LinkId],
    ) -> Vec<Detour> {
        let joined = |x, y| self.local.distance(x, y).is_some();
        let mut ways = Vec::new();
        for &first in into {
            for &second in onward {
                let (Some((exit, middle)), Some((leave, entry))) =
                    (ends(fabric, first), ends(fabric, second))
                else {
                    continue;
                };
                if joined(a, exit) && joined(middle, leave) && joined(entry, b) {
                    ways.push(Detour {
                        exit,
                        first,
                        middle,
                        leave,
                        second,
                        entry,
                    });
                }
            }
        }
        ways
    }
}

/// Routes between two groups without their first and last legs: shares of the traffic.
#[derive(Clone, Debug, Default)]
pub struct Crossing {
    /// Routers at which it leaves the source's group.
    pub exits: Vec<(RouterId, f64)>,
    /// Links between groups.
    pub gates: Vec<(LinkId, f64)>,
    /// Legs between routers of other groups.
    pub through: Vec<((RouterId, RouterId), f64)>,
    /// Routers at which it enters the target's group.
    pub entries: Vec<(RouterId, f64)>,
}

impl Crossing {
    /// Links beyond both groups, some of them several times.
    pub fn steps(&self, fabric: &Fabric, paths: &GroupPaths) -> Vec<(LinkId, f64)> {
        let mut all = self.gates.clone();
        for &((from, to), part) in &self.through {
            paths.local.spread(fabric, from, to, part, &mut all);
        }
        all
    }

    /// Minimal paths with `weight`, by capacity.
    fn add_direct(&mut self, fabric: &Fabric, gates: &[(LinkId, RouterId, RouterId)], weight: f64) {
        let capacity = |gate: LinkId| fabric.link(gate).capacity().0;
        let total: f64 = gates.iter().map(|(gate, ..)| capacity(*gate)).sum();
        for &(gate, exit, entry) in gates.iter().filter(|_| weight > 0.0) {
            let part = weight * (capacity(gate) / total);
            self.exits.push((exit, part));
            self.gates.push((gate, part));
            self.entries.push((entry, part));
        }
    }

    /// Valiant paths with `weight`: every group with paths as much, and every path of a group.
    fn add_detours(&mut self, ways: &mut [Vec<Detour>], weight: f64) {
        let groups = ways.len();
        for ways in ways.iter_mut().filter(|_| weight > 0.0) {
            let each = weight / (groups * ways.len()) as f64;
            let legs = ways.iter().map(|way| ((way.middle, way.leave), each));
            self.through.extend(legs);
            for same in ways.chunk_by(|a, b| a.first == b.first) {
                let part = each * same.len() as f64;
                self.exits.push((same[0].exit, part));
                self.gates.push((same[0].first, part));
            }
            ways.sort_by_key(|way| way.second);
            for same in ways.chunk_by(|a, b| a.second == b.second) {
                let part = each * same.len() as f64;
                self.entries.push((same[0].entry, part));
                self.gates.push((same[0].second, part));
            }
        }
    }
}

/// Adds up shares of the same link or router, and puts them in order.
pub fn merge<K: Copy + Ord>(all: &mut Vec<(K, f64)>) {
    all.sort_by_key(|&(key, _)| key);
    all.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
}

/// One path through an intermediate group: local to `exit`, over `first` to `middle`, local to `leave`, over `second`
/// to `entry`, local to the destination.
struct Detour {
    exit: RouterId,
    first: LinkId,
    middle: RouterId,
    leave: RouterId,
    second: LinkId,
    entry: RouterId,
}

/// Routers at the ends of a link between routers.
pub(super) fn ends(fabric: &Fabric, link: LinkId) -> Option<(RouterId, RouterId)> {
    match (fabric.link(link).from, fabric.link(link).to) {
        (End::Router(a), End::Router(b)) => Some((a, b)),
        _ => None,
    }
}
