//! Up/down forwarding tables for any switch graph.

use super::tables::ForwardingTables;
use crate::fabric::{End, Fabric};
use crate::ids::{LinkId, RouterId};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Unreached.
const FAR: u32 = u32::MAX;

/// Tops that are compared at most to find the one that most routers with nodes can climb to.
const MOST_TOPS: usize = 64;

/// Position in the order of routers, the larger one up: height, then id downwards.
type Key = (i64, Reverse<u32>);

/// Shortest routes without an up link after a down link, which cannot deadlock (Autonet; the idea of OpenSM's updn
/// engine). Up is towards the routers farthest from any node; equal heights are ordered by id. Where that leaves a pair
/// of a connected part without a route, the routers that cannot climb to the part's most reachable top are lowered
/// until they can. Among equally short routes each router takes the link with the fewest destinations so far. Routers
/// without a route keep an empty entry.
pub fn up_down(fabric: &Fabric) -> ForwardingTables {
    let graph = Graph::new(fabric);
    let mut keys = graph.natural_keys();
    if !graph.connects(&keys) {
        graph.lower(&mut keys);
    }
    let mut tables = ForwardingTables::new(fabric);
    let mut used = vec![0u32; fabric.links().len()];
    let mut last = None;
    for to in fabric.node_ids() {
        let root = fabric.node(to).router;
        let distance = match last.take() {
            Some((r, distance)) if r == root => distance,
            _ => graph.distances(root, &keys),
        };
        tables.set(fabric, root, to, fabric.node(to).eject);
        for at in fabric.router_ids().filter(|&r| r != root) {
            if let Some(link) = graph.best(at, &distance, &keys, &used) {
                used[link.index()] += 1;
                tables.set(fabric, at, to, link);
            }
        }
        last = Some((root, distance));
    }
    tables
}

/// The links in service between routers.
struct Graph<'a> {
    fabric: &'a Fabric,
    /// Links into each router, with the sending router.
    into: Vec<Vec<(LinkId, RouterId)>>,
    /// Neighbours that are joined in both directions.
    both_ways: Vec<Vec<RouterId>>,
}

impl<'a> Graph<'a> {
    fn new(fabric: &'a Fabric) -> Self {
        let mut into = vec![Vec::new(); fabric.routers().len()];
        for id in fabric.link_ids().filter(|&l| fabric.link(l).is_up()) {
            if let (End::Router(a), End::Router(b)) = (fabric.link(id).from, fabric.link(id).to) {
                into[b.index()].push((id, a));
            }
        }
        let sends = |at: RouterId, to: RouterId| {
            let is_one =
                |&&l: &&LinkId| fabric.link(l).is_up() && fabric.link(l).to == End::Router(to);
            fabric.links_from(at).iter().any(|l| is_one(&l))
        };
        let neighbours = |(at, links): (usize, &Vec<(LinkId, RouterId)>)| {
            let mut all: Vec<RouterId> = links.iter().map(|&(_, from)| from).collect();
            all.sort_unstable();
            all.dedup();
            all.retain(|&from| sends(RouterId::of(at), from));
            all
        };
        let both_ways = into.iter().enumerate().map(neighbours).collect();
        Self {
            fabric,
            into,
            both_ways,
        }
    }

    /// Links in service from a router, with the receiving router.
    fn from(&self, at: RouterId) -> impl Iterator<Item = (LinkId, RouterId)> + '_ {
        self.fabric
            .links_from(at)
            .iter()
            .filter_map(|&l| match self.fabric.link(l).to {
                End::Router(next) if self.fabric.link(l).is_up() => Some((l, next)),
                _ => None,
            })
    }

    fn has_nodes(&self, r: RouterId) -> bool {
        !self.fabric.nodes_on(r).is_empty()
    }

    /// Heights: distance from the nearest router with nodes, over all links, so that a failed cable changes no height.
    fn natural_keys(&self) -> Vec<Key> {
        let mut height = vec![FAR; self.fabric.routers().len()];
        let mut queue: VecDeque<RouterId> = self
            .fabric
            .router_ids()
            .filter(|&r| self.has_nodes(r))
            .collect();
        queue.iter().for_each(|r| height[r.index()] = 0);
        while let Some(at) = queue.pop_front() {
            for &l in self.fabric.links_from(at) {
                if let End::Router(next) = self.fabric.link(l).to
                    && height[next.index()] == FAR
                {
                    height[next.index()] = height[at.index()] + 1;
                    queue.push_back(next);
                }
            }
        }
        let key = |(id, height): (usize, &u32)| (i64::from(*height), Reverse(id as u32));
        height.iter().enumerate().map(key).collect()
    }

    /// Routers of each connected part.
    fn parts(&self) -> Vec<Vec<RouterId>> {
        let mut seen = vec![false; self.fabric.routers().len()];
        let mut parts = Vec::new();
        for first in self.fabric.router_ids() {
            if std::mem::replace(&mut seen[first.index()], true) {
                continue;
            }
            let mut part = vec![first];
            let mut next = 0;
            while next < part.len() {
                for &to in &self.both_ways[part[next].index()] {
                    if !std::mem::replace(&mut seen[to.index()], true) {
                        part.push(to);
                    }
                }
                next += 1;
            }
            parts.push(part);
        }
        parts
    }

    /// Whether routers with nodes in one part all reach each other. It is enough that they all climb to one top;
    /// otherwise the routes to each are followed.
    fn connects(&self, keys: &[Key]) -> bool {
        self.parts().iter().all(|part| {
            let ends: Vec<RouterId> = part
                .iter()
                .copied()
                .filter(|&r| self.has_nodes(r))
                .collect();
            let is_below_one_top = self
                .below_best_top(part, keys)
                .is_none_or(|below| ends.iter().all(|r| below[r.index()]));
            is_below_one_top
                || ends.iter().all(|&to| {
                    let distance = self.distances(to, keys);
                    ends.iter().all(|r| distance[r.index()].0 != FAR)
                })
        })
    }

    /// Which routers can climb to the top that most routers with nodes can climb to.
    fn below_best_top(&self, part: &[RouterId], keys: &[Key]) -> Option<Vec<bool>> {
        let is_top = |&r: &RouterId| {
            let key = keys[r.index()];
            self.both_ways[r.index()]
                .iter()
                .all(|next| keys[next.index()] < key)
        };
        let mut tops: Vec<RouterId> = part.iter().copied().filter(is_top).collect();
        tops.sort_unstable_by_key(|r| Reverse(keys[r.index()]));
        let ends: Vec<RouterId> = part
            .iter()
            .copied()
            .filter(|&r| self.has_nodes(r))
            .collect();
        let mut best = None;
        let mut most = None;
        for top in tops.into_iter().take(MOST_TOPS) {
            let below = self.below(top, keys);
            let count = ends.iter().filter(|r| below[r.index()]).count();
            if most.is_none_or(|most| count > most) {
                (best, most) = (Some(below), Some(count));
            }
            if count == ends.len() {
                break;
            }
        }
        best
    }

    /// The routers that can climb to `top` by cables that work in both directions.
    fn below(&self, top: RouterId, keys: &[Key]) -> Vec<bool> {
        let mut below = vec![false; keys.len()];
        below[top.index()] = true;
        let mut queue = VecDeque::from([top]);
        while let Some(at) = queue.pop_front() {
            for &next in &self.both_ways[at.index()] {
                if keys[next.index()] < keys[at.index()] && !below[next.index()] {
                    below[next.index()] = true;
                    queue.push_back(next);
                }
            }
        }
        below
    }

    /// Lowers the routers with nodes that cannot climb to their part's top, and those on their way to it, below all
    /// others: the farther from the rest, the lower. All routers with nodes can then climb to one router.
    fn lower(&self, keys: &mut [Key]) {
        for part in self.parts() {
            let Some(below) = self.below_best_top(&part, keys) else {
                continue;
            };
            let mut towards = vec![None; keys.len()];
            let mut depth = vec![0i64; keys.len()];
            let mut queue: VecDeque<RouterId> =
                part.iter().copied().filter(|r| below[r.index()]).collect();
            while let Some(at) = queue.pop_front() {
                for &next in &self.both_ways[at.index()] {
                    if !below[next.index()] && towards[next.index()].is_none() {
                        towards[next.index()] = Some(at);
                        depth[next.index()] = depth[at.index()] + 1;
                        queue.push_back(next);
                    }
                }
            }
            for &end in part.iter().filter(|&&r| self.has_nodes(r)) {
                let mut at = end;
                while let Some(next) = towards[at.index()] {
                    keys[at.index()].0 = -depth[at.index()];
                    at = next;
                }
            }
        }
    }

    /// The next link of a router on its route, given all routers' distances.
    fn best(
        &self,
        at: RouterId,
        distance: &[(u32, bool)],
        keys: &[Key],
        used: &[u32],
    ) -> Option<LinkId> {
        let (total, only_down) = distance[at.index()];
        if total == FAR {
            return None;
        }
        self.from(at)
            .filter(|&(_, next)| {
                let (far, down) = distance[next.index()];
                // A router with an all-down route must use it: its neighbours rely on it.
                let goes_down = keys[next.index()] < keys[at.index()];
                far != FAR && far + 1 == total && (!goes_down || down) && (!only_down || goes_down)
            })
            .map(|(link, _)| link)
            .min_by_key(|&l| (used[l.index()], l))
    }

    /// Length of each router's route to `root`, and whether it is all-down. A router with an all-down route takes the
    /// shortest of these; others go up first.
    fn distances(&self, root: RouterId, keys: &[Key]) -> Vec<(u32, bool)> {
        let mut distance = vec![(FAR, false); keys.len()];
        distance[root.index()] = (0, true);
        // All-down: backwards from the root to ever higher routers.
        let mut reached = vec![root];
        let mut next = 0;
        while next < reached.len() {
            let at = reached[next];
            next += 1;
            for &(_, previous) in &self.into[at.index()] {
                if keys[previous.index()] > keys[at.index()] && distance[previous.index()].0 == FAR
                {
                    distance[previous.index()] = (distance[at.index()].0 + 1, true);
                    reached.push(previous);
                }
            }
        }
        // Up first: from every router reached to lower ones, shortest first.
        let mut heap: BinaryHeap<Reverse<(u32, RouterId)>> = reached
            .iter()
            .map(|&r| Reverse((distance[r.index()].0, r)))
            .collect();
        while let Some(Reverse((far, at))) = heap.pop() {
            if far > distance[at.index()].0 {
                continue;
            }
            for &(_, previous) in &self.into[at.index()] {
                let lower = keys[previous.index()] < keys[at.index()];
                if lower && !distance[previous.index()].1 && far + 1 < distance[previous.index()].0
                {
                    distance[previous.index()] = (far + 1, false);
                    heap.push(Reverse((far + 1, previous)));
                }
            }
        }
        distance
    }
}
