//! Loads of many flows over the path sets of dragonflies.
//!
//! All flows between two groups cross the same links between them, with the same shares. So bytes are summed by router and
//! other group, and by pair of groups, and each sum is followed once: a flow costs three additions instead of one for every
//! link of every detour, of which there are thousands ([`Spread::Valiant`]).

use crate::problem::Problem;
use hopbyte_fabric::routing::{GroupPaths, Spread};
use hopbyte_fabric::{RouterId, Routing};

/// Sums for each flow up to which flows are summed; more are looked at in the time of a flow with detours.
const SUMS: (usize, usize) = (4, 64);

/// Sums of the flows of a problem.
pub(crate) struct Crossed<'a> {
    paths: &'a GroupPaths,
    /// Router of every place.
    router: Vec<RouterId>,
    /// By router: its part, its group's first router and size among `order`, and its own position there.
    at: Vec<At>,
    /// Routers by group.
    order: Vec<RouterId>,
    /// Routers of every part.
    members: Vec<Vec<RouterId>>,
    /// Where the sums of routers and parts, of pairs of parts, and of parts and routers begin; and the number of all.
    first: [usize; 3],
    sums: usize,
}

#[derive(Clone, Copy, Default)]
struct At {
    part: usize,
    group: usize,
    size: usize,
    own: usize,
    /// First sum of legs from the router to those of its group.
    local: usize,
}

impl<'a> Crossed<'a> {
    /// `None` unless routes are of this kind, the links of all nodes are up, and flows so many that this is faster.
    pub(crate) fn new(problem: &Problem<'a>, flows: usize) -> Option<Self> {
        let Routing::Groups(paths) = problem.routing else {
            return None;
        };
        let fabric = problem.fabric;
        let nodes = problem.allocation.nodes().iter();
        let nodes: Vec<_> = nodes.map(|n| fabric.node(n.0)).collect();
        let is_up = |link| fabric.link(link).is_up();
        if !nodes.iter().all(|n| is_up(n.inject) && is_up(n.eject)) {
            return None;
        }
        let parts = paths.parts();
        let mut order: Vec<RouterId> = fabric.router_ids().collect();
        order.sort_by_key(|&r| paths.group(r));
        let mut at = vec![At::default(); order.len()];
        let mut members = vec![Vec::new(); parts.iter().max().map_or(0, |&p| p as usize + 1)];
        let mut local = 0;
        let mut group = 0;
        for same in order.chunk_by(|&a, &b| paths.group(a) == paths.group(b)) {
            for (number, router) in same.iter().enumerate() {
                let part = parts[router.index()] as usize;
                members[part].push(*router);
                at[router.index()] = At {
                    part,
                    group,
                    size: same.len(),
                    own: group + number,
                    local,
                };
                local += same.len();
            }
            group += same.len();
        }
        let (routers, parts) = (order.len(), members.len());
        let middle = local + routers.saturating_mul(parts);
        let into = middle + parts * parts;
        let sums = into.saturating_add(routers.saturating_mul(parts));
        let most = match paths.spread() {
            Spread::Minimal => SUMS.0,
            Spread::Valiant | Spread::Adaptive(_) => SUMS.1,
        };
        (sums <= most.saturating_mul(flows)).then(|| Self {
            paths,
            router: nodes.iter().map(|n| n.router).collect(),
            at,
            order,
            members,
            first: [local, middle, into],
            sums,
        })
    }

    /// Sums of no flows.
    pub(crate) fn none(&self) -> Vec<f64> {
        vec![0.0; self.sums]
    }

    /// Sum of the bytes between two routers of a group.
    fn local(&self, a: RouterId, b: RouterId) -> usize {
        let (a, b) = (self.at[a.index()], self.at[b.index()]);
        a.local + b.own - b.group
    }

    /// Sums of the bytes from a router to a part, between parts, and from a part to a router.
    fn far(&self, (a, x): (RouterId, usize), (b, y): (RouterId, usize)) -> [usize; 3] {
        let [out, middle, into] = self.first;
        let (parts, routers) = (self.members.len(), self.order.len());
        let (a, b) = (self.at[a.index()].own, self.at[b.index()].own);
        [
            out + a * parts + y,
            middle + x * parts + y,
            into + x * routers + b,
        ]
    }

    /// Adds a flow between two places.
    #[inline]
    pub(crate) fn add(&self, (a, b): (u32, u32), bytes: f64, sums: &mut [f64]) {
        let [a, b] = [a, b].map(|place| self.router[place as usize]);
        let (from, to) = (self.at[a.index()], self.at[b.index()]);
        if from.group == to.group {
            sums[self.local(a, b)] += bytes;
            return;
        }
        for sum in self.far((a, from.part), (b, to.part)) {
            sums[sum] += bytes;
        }
    }

    /// Adds the sums of all flows to the links between routers; `None` if some flow has no route.
    pub(crate) fn follow(
        &self,
        problem: &Problem<'_>,
        sums: &[f64],
        link_bytes: &mut [f64],
    ) -> Option<()> {
        let fabric = problem.fabric;
        let mut local = sums[..self.first[0]].to_vec();
        for (x, from) in self.members.iter().enumerate() {
            for (y, to) in self.members.iter().enumerate() {
                let bytes = sums[self.far((from[0], x), (to[0], y))[1]];
                if bytes == 0.0 {
                    continue;
                }
                let crossing = self.paths.crossing(fabric, from[0], to[0])?;
                for &(gate, part) in &crossing.gates {
                    link_bytes[gate.index()] += bytes * part;
                }
                for &((a, b), part) in &crossing.through {
                    local[self.local(a, b)] += bytes * part;
                }
                for &a in from {
                    let bytes = sums[self.far((a, x), (to[0], y))[0]];
                    for &(exit, part) in crossing.exits.iter().filter(|_| bytes > 0.0) {
                        local[self.local(a, exit)] += bytes * part;
                    }
                }
                for &b in to {
                    let bytes = sums[self.far((from[0], x), (b, y))[2]];
                    for &(entry, part) in crossing.entries.iter().filter(|_| bytes > 0.0) {
                        local[self.local(entry, b)] += bytes * part;
                    }
                }
            }
        }
        let mut steps = Vec::new();
        for &a in &self.order {
            let at = self.at[a.index()];
            for (number, &b) in self.order[at.group..][..at.size].iter().enumerate() {
                let bytes = local[at.local + number];
                if bytes > 0.0 && !self.paths.inside(fabric, (a, b), bytes, &mut steps) {
                    return None;
                }
            }
            for (link, bytes) in steps.drain(..) {
                link_bytes[link.index()] += bytes;
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::Crossed;
    use crate::paths::tests::{MACHINES, on_some};
    use hopbyte_fabric::random::Random;

    #[test]
    fn sums_of_flows_load_the_links_of_their_routes() {
        let mut checked = 0;
        for machine in MACHINES {
            on_some(machine, |problem, text| {
                let Some(crossed) = Crossed::new(problem, 1 << 20) else {
                    return;
                };
                let fabric = problem.fabric;
                let links = fabric.links().len();
                let (mut sums, mut found) = (crossed.none(), vec![0.0; links]);
                let mut expected = vec![0.0; links];
                let places = problem.allocation.nodes().len();
                let mut rng = Random::new(3);
                for _ in 0..500 {
                    let [a, b] = [(); 2].map(|()| rng.below(places) as u32);
                    let bytes = rng.below(1_000) as f64;
                    crossed.add((a, b), bytes, &mut sums);
                    let [a, b] = [a, b].map(|place| problem.node_at(place));
                    let mut shares = Vec::new();
                    (problem.routing.shares(fabric, a, b, &mut shares)).unwrap();
                    let own = [fabric.node(a).inject, fabric.node(b).eject];
                    shares.retain(|s| !own.contains(&s.0));
                    for (link, share) in shares {
                        expected[link.index()] += bytes * share;
                    }
                }
                crossed.follow(problem, &sums, &mut found).unwrap();
                for (found, expected) in found.iter().zip(&expected) {
                    let near = (found - expected).abs() <= 1e-9 * (1.0 + expected);
                    assert!(near, "{text}: {found} {expected}");
                }
            });
            checked += usize::from(machine.0.starts_with("dragonfly"));
        }
        assert!(checked > 3);
    }
}
