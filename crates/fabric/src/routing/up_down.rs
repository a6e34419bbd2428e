//! Up/down forwarding tables for any switch graph.

use super::tables::ForwardingTables;
use crate::fabric::{End, Fabric};
use crate::ids::{LinkId, RouterId};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Unreached.
const FAR: u32 = u32::MAX;

/// Shortest routes without an up link after a down link, which cannot deadlock (Autonet; the idea of OpenSM's updn
/// engine). Up is towards the routers farthest from any node; equal ranks are ordered by id. Among equally short
/// routes each router takes the link with the fewest destinations so far. Routers without such a route keep an empty
/// entry.
pub fn up_down(fabric: &Fabric) -> ForwardingTables {
    let rank = ranks(fabric);
    let key = |r: RouterId| (rank[r.index()], Reverse(r.0));
    let mut tables = ForwardingTables::new(fabric);
    let mut into: Vec<Vec<(LinkId, RouterId)>> = vec![Vec::new(); fabric.routers().len()];
    for id in fabric.link_ids().filter(|&l| fabric.link(l).is_up()) {
        if let (End::Router(a), End::Router(b)) = (fabric.link(id).from, fabric.link(id).to) {
            into[b.index()].push((id, a));
        }
    }
    let mut used = vec![0u32; fabric.links().len()];
    for to in fabric.node_ids() {
        let root = fabric.node(to).router;
        let distance = distances(fabric, &into, root, &key);
        tables.set(fabric, root, to, fabric.node(to).eject);
        for at in fabric
            .router_ids()
            .filter(|&r| r != root && distance[r.index()].0 != FAR)
        {
            let (total, only_down) = distance[at.index()];
            let best = fabric
                .links_from(at)
                .iter()
                .copied()
                .filter(|&l| fabric.link(l).is_up())
                .filter(|&l| {
                    let End::Router(next) = fabric.link(l).to else {
                        return false;
                    };
                    let (far, down) = distance[next.index()];
                    // A router with an all-down route must use it: its neighbours rely on it.
                    let goes_down = key(next) < key(at);
                    far != FAR
                        && far + 1 == total
                        && (!goes_down || down)
                        && (!only_down || goes_down)
                })
                .min_by_key(|&l| (used[l.index()], l));
            if let Some(link) = best {
                used[link.index()] += 1;
                tables.set(fabric, at, to, link);
            }
        }
    }
    tables
}

/// Distance of each router from the nearest router with nodes.
fn ranks(fabric: &Fabric) -> Vec<u32> {
    let mut rank = vec![FAR; fabric.routers().len()];
    let mut queue: VecDeque<RouterId> = fabric
        .router_ids()
        .filter(|&r| !fabric.nodes_on(r).is_empty())
        .collect();
    queue.iter().for_each(|r| rank[r.index()] = 0);
    while let Some(at) = queue.pop_front() {
        for &l in fabric.links_from(at) {
            if let End::Router(next) = fabric.link(l).to
                && rank[next.index()] == FAR
            {
                rank[next.index()] = rank[at.index()] + 1;
                queue.push_back(next);
            }
        }
    }
    rank
}

/// Length of each router's route to `root`, and whether it is all-down. A router with an all-down route takes the
/// shortest of these; others go up first.
fn distances<K: Ord>(
    fabric: &Fabric,
    into: &[Vec<(LinkId, RouterId)>],
    root: RouterId,
    key: &impl Fn(RouterId) -> K,
) -> Vec<(u32, bool)> {
    let mut distance = vec![(FAR, false); fabric.routers().len()];
    distance[root.index()] = (0, true);
    // All-down: backwards from the root to ever higher routers.
    let mut queue = VecDeque::from([root]);
    while let Some(at) = queue.pop_front() {
        for &(_, previous) in &into[at.index()] {
            if key(previous) > key(at) && distance[previous.index()].0 == FAR {
                distance[previous.index()] = (distance[at.index()].0 + 1, true);
                queue.push_back(previous);
            }
        }
    }
    // Up first: from every router reached to lower ones, shortest first.
    let mut heap: BinaryHeap<Reverse<(u32, RouterId)>> = fabric
        .router_ids()
        .filter(|r| distance[r.index()].0 != FAR)
        .map(|r| Reverse((distance[r.index()].0, r)))
        .collect();
    while let Some(Reverse((far, at))) = heap.pop() {
        if far > distance[at.index()].0 {
            continue;
        }
        for &(_, previous) in &into[at.index()] {
            let lower = key(previous) < key(at);
            if lower && !distance[previous.index()].1 && far + 1 < distance[previous.index()].0 {
                distance[previous.index()] = (far + 1, false);
                heap.push(Reverse((far + 1, previous)));
            }
        }
    }
    distance
}
