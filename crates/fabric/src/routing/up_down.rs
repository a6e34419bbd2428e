//! Up/down forwarding tables for any switch graph.

use super::tables::ForwardingTables;
use super::together::{TOGETHER, Together};
use crate::fabric::{End, Fabric};
use crate::ids::{NodeId, RouterId};
use rayon::prelude::*;
use std::cmp::Reverse;
use std::collections::VecDeque;

/// Tops that are compared at most to find the one that most routers with nodes can climb to.
const MOST_TOPS: usize = 64;

/// Destinations whose routes are found at a time.
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
        let together = roots.par_chunks(TOGETHER);
        let ways: Vec<Ways> = together.map(|roots| graph.ways(roots, &rank)).collect();
        let to: Vec<usize> = of
            .iter()
            .map(|root| roots.partition_point(|r| r < root))
            .collect();
        // Each router chooses among its own links only.
        let next: Vec<Vec<Option<u16>>> = used
            .par_iter_mut()
            .enumerate()
            .map(|(at, used)| {
                let best = |&to: &usize| {
                    let ways = &ways[to / TOGETHER];
                    graph.best(at, (ways, to % TOGETHER), used)
                };
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

/// Routes to some routers, each a bit.
struct Ways {
    /// By router: those that it reaches.
    reached: Vec<u64>,
    /// By link, in the order of [`Graph::first`]: those to which a route begins there.
    over: Vec<u64>,
}

/// The links in service between routers.
struct Graph<'a> {
    fabric: &'a Fabric,
    /// By router: senders of its incoming links, and the numbers of the links.
    into: Vec<Vec<(u32, u32)>>,
    /// By router: positions of its links in its list, and their receivers.
    out: Vec<Vec<(u16, u32)>>,
    /// By router: number of the first of these links.
    first: Vec<u32>,
    /// By router: neighbours that are joined in both directions.
    both_ways: Vec<Vec<u32>>,
}

impl<'a> Graph<'a> {
    fn new(fabric: &'a Fabric) -> Self {
        let routers = fabric.routers().len();
        let mut into: Vec<Vec<(u32, u32)>> = vec![Vec::new(); routers];
        let mut out: Vec<Vec<(u16, u32)>> = vec![Vec::new(); routers];
        let mut first = Vec::with_capacity(routers);
        let mut links = 0;
        for at in fabric.router_ids() {
            first.push(links);
            for (position, &link) in (0..u16::MAX).zip(fabric.links_from(at)) {
                let link = fabric.link(link);
                if let End::Router(next) = link.to
                    && link.is_up()
                {
                    into[next.index()].push((at.0, links));
                    out[at.index()].push((position, next.0));
                    links += 1;
                }
            }
        }
        let sends = |at: usize, to: u32| out[at].iter().any(|&(_, next)| next == to);
        let mutual = |(at, from): (usize, &Vec<(u32, u32)>)| {
            let mut both: Vec<u32> = from.iter().map(|l| l.0).collect();
            both.dedup();
            both.retain(|&other| sends(at, other));
            both
        };
        let both_ways = into.iter().enumerate().map(mutual).collect();
        Self {
            fabric,
            into,
            out,
            first,
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
                || ends().collect::<Vec<u32>>().chunks(TOGETHER).all(|to| {
                    let reached = self.ways(to, rank).reached;
                    let all = u64::MAX >> (TOGETHER - to.len());
                    ends().all(|r| reached[r as usize] == all)
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

    /// Position of the next link of a router on its route to the router of a bit; `used` counts it.
    fn best(&self, at: usize, (ways, bit): (&Ways, usize), used: &mut [u32]) -> Option<u16> {
        let over = &ways.over[self.first[at] as usize..][..self.out[at].len()];
        let fits = |i: &usize| over[*i] >> bit & 1 == 1;
        // The first of equals.
        let best = (0..over.len()).filter(fits).min_by_key(|&i| used[i])?;
        used[best] += 1;
        Some(self.out[at][best].0)
    }

    /// The shortest routes of all routers to each of at most [`TOGETHER`]. A router with an all-down route takes the
    /// shortest of these, on which its neighbours rely; others go up first.
    fn ways(&self, roots: &[u32], rank: &[u32]) -> Ways {
        let mut searches = Together::new(rank.len());
        let begin = searches.begin(roots.iter().copied());
        let mut over = vec![0; self.out.iter().map(Vec::len).sum()];
        let mut step = |ends: &mut dyn Iterator<Item = &(u32, u64)>, goes_down: bool| {
            let before = |at: u32| {
                let links = self.into[at as usize].iter().copied();
                let here = rank[at as usize];
                links.filter(move |&(from, _)| (rank[from as usize] > here) == goes_down)
            };
            searches.step(ends, before, |link, new| over[link as usize] |= new)
        };
        // All-down: backwards from the roots to ever higher routers, by hops.
        let mut down = vec![begin];
        loop {
            let found = step(&mut down[down.len() - 1].iter(), true);
            if found.is_empty() {
                break;
            }
            down.push(found);
        }
        // Up first: from every router reached to lower ones.
        let (mut hops, mut up) = (0, Vec::new());
        while hops < down.len() || !up.is_empty() {
            up = step(&mut down.get(hops).into_iter().flatten().chain(&up), false);
            hops += 1;
        }
        let reached = searches.reached;
        Ways { reached, over }
    }
}
