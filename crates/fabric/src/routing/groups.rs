//! Dragonfly routing as weighted path sets: minimal, Valiant, adaptive.

use super::minimal::MinimalPaths;
use super::unroutable::{Dead, Unroutable, hosts_up};
use crate::fabric::{End, Fabric};
use crate::ids::{LinkId, NodeId, RouterId};
use std::collections::BTreeMap;

/// Which paths between groups carry how much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spread {
    /// One global link: local, global, local. All links between the two groups share the traffic in
    /// proportion to their capacity, local legs take shortest paths.
    Minimal,
    /// Through a random other group (Valiant): each intermediate group equally likely, minimal on both
    /// halves.
    Valiant,
    /// What an adaptive router does on average: this share minimal, the rest Valiant. The share depends
    /// on load and bias, so it is a parameter, not a prediction.
    Adaptive(f32),
}

/// Routing on a fabric whose routers have a group as first coordinate.
#[derive(Clone, Debug)]
pub struct GroupPaths {
    spread: Spread,
    group: Vec<u32>,
    groups: Vec<u32>,
    /// Distances within groups only.
    local: MinimalPaths,
    /// Global links that are up, by source and destination group.
    gateways: BTreeMap<(u32, u32), Vec<LinkId>>,
}

impl GroupPaths {
    /// `None` when routers have no coordinates.
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

    /// How traffic spreads.
    pub fn spread(&self) -> Spread {
        self.spread
    }

    /// One line for people.
    pub fn describe(&self) -> String {
        match self.spread {
            Spread::Minimal => "dragonfly minimal, all global links between two groups".into(),
            Spread::Valiant => "dragonfly Valiant, every intermediate group".into(),
            Spread::Adaptive(share) => {
                format!("dragonfly adaptive, {share} minimal and the rest Valiant (assumed share)")
            }
        }
    }

    /// A shortest minimal route's next link, lowest ids first: to the destination within a group, else
    /// by the global link with the fewest hops in all.
    pub fn next(&self, fabric: &Fabric, at: RouterId, to: RouterId) -> Option<LinkId> {
        let (here, there) = (self.group[at.index()], self.group[to.index()]);
        if here == there {
            return self.local.next(fabric, at, to);
        }
        let (_, gate) = self
            .gateways
            .get(&(here, there))?
            .iter()
            .filter_map(|&gate| {
                let (exit, entry) = ends(fabric, gate)?;
                let hops = self.local.distance(at, exit)? + self.local.distance(entry, to)?;
                Some((hops, gate))
            })
            .min()?;
        match ends(fabric, gate) {
            Some((exit, _)) if exit != at => self.local.next(fabric, at, exit),
            _ => Some(gate),
        }
    }

    /// See [`super::Routing::shares`]; links that several paths use stand once, in id order.
    pub fn shares(
        &self,
        fabric: &Fabric,
        from: NodeId,
        to: NodeId,
        out: &mut Vec<(LinkId, f32)>,
    ) -> Result<(), Unroutable> {
        if from == to {
            return Ok(());
        }
        let (source, target) = hosts_up(fabric, from, to)?;
        let mut all = vec![(source.inject, 1.0), (target.eject, 1.0)];
        let (a, b) = (source.router, target.router);
        let share = match self.spread {
            _ if self.group[a.index()] == self.group[b.index()] => 1.0,
            Spread::Minimal => 1.0,
            Spread::Valiant => 0.0,
            Spread::Adaptive(share) => share,
        };
        // Where no other group can serve as intermediate, everything goes the minimal way, and the
        // other way round.
        let mut detour = Vec::new();
        let detoured = share < 1.0 && self.valiant(fabric, a, b, 1.0 - share, &mut detour);
        let minimal_share = if detoured { share } else { 1.0 };
        let direct = minimal_share > 0.0 && self.minimal(fabric, a, b, minimal_share, &mut all);
        if minimal_share > 0.0 && !direct {
            return Err(Unroutable {
                from,
                to,
                at: a,
                reason: Dead::NoEntry,
            });
        }
        if detoured {
            all.append(&mut detour);
        }
        all.sort_by_key(|&(link, _)| link);
        all.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
        out.append(&mut all);
        Ok(())
    }

    /// Adds minimal paths between routers with `weight`; false (and nothing added) when there is none.
    fn minimal(
        &self,
        fabric: &Fabric,
        a: RouterId,
        b: RouterId,
        weight: f32,
        out: &mut Vec<(LinkId, f32)>,
    ) -> bool {
        let pair = (self.group[a.index()], self.group[b.index()]);
        if pair.0 == pair.1 {
            return self.local.spread(fabric, a, b, weight, out);
        }
        let usable: Vec<(LinkId, RouterId, RouterId)> = self
            .gateways
            .get(&pair)
            .into_iter()
            .flatten()
            .filter_map(|&gate| {
                let (exit, entry) = ends(fabric, gate)?;
                self.local
                    .distance(a, exit)
                    .and(self.local.distance(entry, b))?;
                Some((gate, exit, entry))
            })
            .collect();
        let total: f64 = usable
            .iter()
            .map(|(gate, ..)| fabric.link(*gate).capacity().0)
            .sum();
        for &(gate, exit, entry) in &usable {
            let part = weight * (fabric.link(gate).capacity().0 / total) as f32;
            self.local.spread(fabric, a, exit, part, out);
            out.push((gate, part));
            self.local.spread(fabric, entry, b, part, out);
        }
        !usable.is_empty()
    }

    /// Adds Valiant paths with `weight`; false (and nothing added) when no other group can serve.
    fn valiant(
        &self,
        fabric: &Fabric,
        a: RouterId,
        b: RouterId,
        weight: f32,
        out: &mut Vec<(LinkId, f32)>,
    ) -> bool {
        let (ga, gb) = (self.group[a.index()], self.group[b.index()]);
        let through: Vec<u32> = self
            .groups
            .iter()
            .copied()
            .filter(|g| {
                *g != ga
                    && *g != gb
                    && self.gateways.contains_key(&(ga, *g))
                    && self.gateways.contains_key(&(*g, gb))
            })
            .collect();
        // A packet enters the group over any link from the source group and leaves it over any link to
        // the destination group, as long as the legs between them hold.
        let ways: Vec<Vec<Detour>> = through
            .into_iter()
            .map(|g| {
                self.detours(
                    fabric,
                    a,
                    b,
                    &self.gateways[&(ga, g)],
                    &self.gateways[&(g, gb)],
                )
            })
            .filter(|ways| !ways.is_empty())
            .collect();
        for group in &ways {
            let each = weight / (ways.len() * group.len()) as f32;
            for way in group {
                self.local.spread(fabric, a, way.exit, each, out);
                self.local.spread(fabric, way.middle, way.leave, each, out);
                self.local.spread(fabric, way.entry, b, each, out);
                out.extend([(way.first, each), (way.second, each)]);
            }
        }
        !ways.is_empty()
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

/// One way through an intermediate group: local to `exit`, over `first` to `middle`, local to `leave`,
/// over `second` to `entry`, local to the destination.
struct Detour {
    exit: RouterId,
    first: LinkId,
    middle: RouterId,
    leave: RouterId,
    second: LinkId,
    entry: RouterId,
}

/// Routers at the ends of a link between routers.
fn ends(fabric: &Fabric, link: LinkId) -> Option<(RouterId, RouterId)> {
    match (fabric.link(link).from, fabric.link(link).to) {
        (End::Router(a), End::Router(b)) => Some((a, b)),
        _ => None,
    }
}
