//! Up/down forwarding tables for any switch graph.

use super::tables::ForwardingTables;
use crate::fabric::{End, Fabric};
use crate::ids::{NodeId, RouterId};
use rayon::prelude::*;
use std::cmp::Reverse;
use std::collections::VecDeque;

/// Unreached.
const FAR: u32 = u32::MAX;

/// Tops that are compared at most to find the one that most routers with nodes can climb to.
const MOST_TOPS: usize = 64;

/// Destinations whose distances are held at a time: four bytes a router each.
const DESTINATIONS: usize = 256;

/// Shortest routes without an up link after a down link, which cannot deadlock (Autonet; the idea of OpenSM's updn
/// engine). Up is towards the routers farthest from any node; equal heights are ordered by id. Where that leaves a pair
/// of a connected part without a route, the routers that cannot climb to the part's most reachable top are lowered
/// until they can. Among equally short routes each router takes the link with the fewest destinations so far. Routers
/// without a route keep an empty entry.
pub fn up_down(fabric: &Fabric) -> ForwardingTables {
    let graph = Graph::new(fabric);
    let mut heights = graph.heights();
    let mut rank = ranks(&heights);
    if !graph.connects(&rank) {
        graph.lower(&mut heights, &rank);
        rank = ranks(&heights);
    }
    let mut tables = ForwardingTables::new(fabric);
    // By router and link: destinations so far.
    let links = |out: &Vec<(u16, u32)>| vec![0u32; out.len()];
    let mut used: Vec<Vec<u32>> = graph.out.iter().map(links).collect();
    let nodes: Vec<NodeId> = fabric.node_ids().collect();
    for nodes in nodes.chunks(DESTINATIONS) {
        let mut roots: Vec<u32> = nodes.iter().map(|&n| fabric.node(n).router.0).collect();
        for &node in nodes {
            let about = fabric.node(node);
            tables.set(fabric, about.router, node, about.eject);
        }
        let of: Vec<u32> = roots.clone();
        roots.sort_unstable();
        roots.dedup();
        let distances: Vec<Vec<Far>> = roots
            .par_iter()
            .map(|&root| graph.distances(root, &rank))
            .collect();
        let to: Vec<&Vec<Far>> = of
            .iter()
            .map(|root| &distances[roots.partition_point(|r| r < root)])
            .collect();
        // Each router chooses among its own links only.
        let next: Vec<Vec<Option<u16>>> = used
            .par_iter_mut()
            .enumerate()
            .map(|(at, used)| {
                let best = |far: &&Vec<Far>| graph.best(at as u32, far, &rank, used);
                to.iter().map(best).collect()
            })
            .collect();
        for (at, row) in fabric.router_ids().zip(next) {
            for (&node, position) in nodes.iter().zip(row) {
                if let Some(position) = position {
                    tables.set_position(at, node, position);
                }
            }
        }
    }
    tables
}

/// Positions of the routers in the order of heights, the larger one up; equal heights are ordered by id, the smaller one
/// up.
fn ranks(heights: &[i64]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..heights.len() as u32).collect();
    order.sort_unstable_by_key(|&r| (heights[r as usize], Reverse(r)));
    let mut rank = vec![0; order.len()];
    for (position, router) in (0..).zip(order) {
        rank[router as usize] = position;
    }
    rank
}

/// Hops to a destination, and whether the route only goes down.
#[derive(Clone, Copy)]
struct Far(u32);

impl Far {
    const NONE: Self = Self(FAR);

    fn new(hops: u32, down: bool) -> Self {
        Self(hops << 1 | u32::from(down))
    }

    fn is_none(self) -> bool {
        self.0 == FAR
    }

    fn hops(self) -> u32 {
        self.0 >> 1
    }

    fn is_down(self) -> bool {
        self.0 & 1 == 1
    }
}

/// The links in service between routers.
struct Graph<'a> {
    fabric: &'a Fabric,
    /// By router: senders of its incoming links, once each.
    into: Vec<Vec<u32>>,
    /// By router: positions of its links in its list, and their receivers.
    out: Vec<Vec<(u16, u32)>>,
    /// By router: neighbours that are joined in both directions.
    both_ways: Vec<Vec<u32>>,
}

impl<'a> Graph<'a> {
    fn new(fabric: &'a Fabric) -> Self {
        let routers = fabric.routers().len();
        let mut into: Vec<Vec<u32>> = vec![Vec::new(); routers];
        let mut out: Vec<Vec<(u16, u32)>> = vec![Vec::new(); routers];
        for at in fabric.router_ids() {
            for (position, &link) in (0..u16::MAX).zip(fabric.links_from(at)) {
                let link = fabric.link(link);
                if let End::Router(next) = link.to
                    && link.is_up()
                {
                    into[next.index()].push(at.0);
                    out[at.index()].push((position, next.0));
                }
            }
        }
        into.iter_mut().for_each(Vec::dedup);
        let sends = |at: usize, to: u32| out[at].iter().any(|&(_, next)| next == to);
        let mutual = |(at, from): (usize, &Vec<u32>)| {
            let both = from.iter().copied().filter(|&other| sends(at, other));
            both.collect()
        };
        let both_ways = into.iter().enumerate().map(mutual).collect();
        Self {
            fabric,
            into,
            out,
            both_ways,
        }
    }

    fn has_nodes(&self, r: u32) -> bool {
        !self.fabric.nodes_on(RouterId(r)).is_empty()
    }

    /// Distance from the nearest router with nodes, over all links, so that a failed cable changes no height.
    fn heights(&self) -> Vec<i64> {
        let mut height = vec![i64::MAX; self.into.len()];
        let mut queue: VecDeque<u32> = (0..self.into.len() as u32)
            .filter(|&r| self.has_nodes(r))
            .collect();
        queue.iter().for_each(|&r| height[r as usize] = 0);
        while let Some(at) = queue.pop_front() {
            for &link in self.fabric.links_from(RouterId(at)) {
                if let End::Router(next) = self.fabric.link(link).to
                    && height[next.index()] == i64::MAX
                {
                    height[next.index()] = height[at as usize] + 1;
                    queue.push_back(next.0);
                }
            }
        }
        height
    }

    /// Routers of each connected part.
    fn parts(&self) -> Vec<Vec<u32>> {
        let mut seen = vec![false; self.into.len()];
        let mut parts = Vec::new();
        for first in 0..self.into.len() as u32 {
            if std::mem::replace(&mut seen[first as usize], true) {
                continue;
            }
            let mut part = vec![first];
            let mut next = 0;
            while next < part.len() {
                for &to in &self.both_ways[part[next] as usize] {
                    if !std::mem::replace(&mut seen[to as usize], true) {
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
    fn connects(&self, rank: &[u32]) -> bool {
        self.parts().iter().all(|part| {
            let ends = || part.iter().copied().filter(|&r| self.has_nodes(r));
            let below = self.below_best_top(part, rank);
            let is_below_one_top = ends().all(|r| below.get(r as usize) == Some(&true));
            is_below_one_top
                || ends().all(|to| {
                    let far = self.distances(to, rank);
                    ends().all(|r| !far[r as usize].is_none())
                })
        })
    }

    /// Which routers can climb to the top that most routers with nodes can climb to.
    fn below_best_top(&self, part: &[u32], rank: &[u32]) -> Vec<bool> {
        let is_top = |&r: &u32| {
            let mut neighbours = self.both_ways[r as usize].iter();
            neighbours.all(|&next| rank[next as usize] < rank[r as usize])
        };
        let mut tops: Vec<u32> = part.iter().copied().filter(is_top).collect();
        tops.sort_unstable_by_key(|&r| Reverse(rank[r as usize]));
        let ends: Vec<u32> = part
            .iter()
            .copied()
            .filter(|&r| self.has_nodes(r))
            .collect();
        let (mut best, mut most) = (Vec::new(), None);
        for top in tops.into_iter().take(MOST_TOPS) {
            let below = self.below(top, rank);
            let count = ends.iter().filter(|&&r| below[r as usize]).count();
            if most.is_none_or(|most| count > most) {
                (best, most) = (below, Some(count));
            }
            if count == ends.len() {
                break;
            }
        }
        best
    }

    /// The routers that can climb to `top` by cables that work in both directions.
    fn below(&self, top: u32, rank: &[u32]) -> Vec<bool> {
        let mut below = vec![false; rank.len()];
        below[top as usize] = true;
        let mut queue = VecDeque::from([top]);
        while let Some(at) = queue.pop_front() {
            for &next in &self.both_ways[at as usize] {
                if rank[next as usize] < rank[at as usize] && !below[next as usize] {
                    below[next as usize] = true;
                    queue.push_back(next);
                }
            }
        }
        below
    }

    /// Lowers the routers with nodes that cannot climb to their part's top, and those on their way to it, below all
    /// others: the farther from the rest, the lower. All routers with nodes can then climb to one router.
    fn lower(&self, heights: &mut [i64], rank: &[u32]) {
        for part in self.parts() {
            let below = self.below_best_top(&part, rank);
            let mut towards = vec![None; heights.len()];
            let mut depth = vec![0i64; heights.len()];
            let mut queue: VecDeque<u32> = part
                .iter()
                .copied()
                .filter(|&r| below.get(r as usize) == Some(&true))
                .collect();
            while let Some(at) = queue.pop_front() {
                for &next in &self.both_ways[at as usize] {
                    let index = next as usize;
                    if !below[index] && towards[index].is_none() {
                        towards[index] = Some(at);
                        depth[index] = depth[at as usize] + 1;
                        queue.push_back(next);
                    }
                }
            }
            for &end in part.iter().filter(|&&r| self.has_nodes(r)) {
                let mut at = end;
                while let Some(next) = towards[at as usize] {
                    heights[at as usize] = -depth[at as usize];
                    at = next;
                }
            }
        }
    }

    /// Position of the next link of a router on its route, given all routers' distances; `used` counts it.
    fn best(&self, at: u32, far: &[Far], rank: &[u32], used: &mut [u32]) -> Option<u16> {
        let here = far[at as usize];
        if here.is_none() || here.hops() == 0 {
            return None;
        }
        let mut best: Option<usize> = None;
        for (i, &(_, next)) in self.out[at as usize].iter().enumerate() {
            let there = far[next as usize];
            if there.is_none() || there.hops() + 1 != here.hops() {
                continue;
            }
            // A router with an all-down route must use it: its neighbours rely on it.
            let goes_down = rank[next as usize] < rank[at as usize];
            let fits = (!goes_down || there.is_down()) && (!here.is_down() || goes_down);
            if fits && best.is_none_or(|best| used[i] < used[best]) {
                best = Some(i);
            }
        }
        let best = best?;
        used[best] += 1;
        Some(self.out[at as usize][best].0)
    }

    /// Length of each router's route to `root`, and whether it is all-down. A router with an all-down route takes the
    /// shortest of these; others go up first.
    fn distances(&self, root: u32, rank: &[u32]) -> Vec<Far> {
        let mut far = vec![Far::NONE; rank.len()];
        far[root as usize] = Far::new(0, true);
        // All-down: backwards from the root to ever higher routers.
        let mut down = vec![root];
        let mut next = 0;
        while next < down.len() {
            let at = down[next] as usize;
            next += 1;
            for &previous in &self.into[at] {
                if rank[previous as usize] > rank[at] && far[previous as usize].is_none() {
                    far[previous as usize] = Far::new(far[at].hops() + 1, true);
                    down.push(previous);
                }
            }
        }
        // Up first: from every router reached to lower ones. Both lists are in order of distance, and so is their merge.
        let mut up: Vec<u32> = Vec::new();
        let (mut i, mut j) = (0, 0);
        let hops =
            |list: &[u32], i: usize, far: &[Far]| list.get(i).map(|&r| far[r as usize].hops());
        loop {
            let at = match (hops(&down, i, &far), hops(&up, j, &far)) {
                (None, None) => break,
                (Some(a), b) if b.is_none_or(|b| a <= b) => {
                    i += 1;
                    down[i - 1] as usize
                }
                _ => {
                    j += 1;
                    up[j - 1] as usize
                }
            };
            for &previous in &self.into[at] {
                if rank[previous as usize] < rank[at] && far[previous as usize].is_none() {
                    far[previous as usize] = Far::new(far[at].hops() + 1, false);
                    up.push(previous);
                }
            }
        }
        far
    }
}
