//! Deadlock analysis of a routing: the channel dependency graph and its cycles.
//!
//! A channel is a link with one of its virtual channels. A packet holds one channel while it waits for the next; a
//! cycle of such waits (a credit loop) can deadlock. Without a cycle the routing is deadlock-free (Dally and Seitz
//! 1987).

use super::{ForwardingTables, Routing, position};
use crate::bits::{BitSet, SharedBitSet};
use crate::fabric::{End, Fabric, Link};
use crate::ids::{LinkId, NodeId, RouterId};
use rayon::prelude::*;

/// Parts for parallel processing.
const PARTS: usize = 16;

/// The assumed virtual channels of a routing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VirtualChannels {
    /// One channel (all that forwarding tables define; service levels may add more).
    One,
    /// Two per ring: a packet changes to the second at the ring's wrap-around link, and back on leaving the dimension
    /// (the usual dateline rule of torus routers).
    Dateline,
    /// A new one at each hop (adaptive dragonfly routers); never cyclic.
    PerHop,
}

impl VirtualChannels {
    /// The channels of routers with this routing.
    pub fn of(routing: &Routing) -> Self {
        match routing {
            Routing::Hosts(hosts) => Self::of(&hosts.network),
            Routing::DimensionOrder(_) => Self::Dateline,
            Routing::Tables(_) | Routing::Tree(_) => Self::One,
            Routing::Minimal(_) | Routing::Groups(_) => Self::PerHop,
        }
    }

    /// A one-line description.
    pub fn describe(self) -> &'static str {
        match self {
            Self::One => "one virtual lane for all traffic",
            Self::Dateline => "two virtual channels per ring, changed at the wrap-around link",
            Self::PerHop => "a new virtual channel at each hop",
        }
    }
}

/// Follows all routes and searches for a cycle of channel dependencies: its links, in order, or `None`.
pub fn credit_loop(fabric: &Fabric, routing: &Routing) -> Option<Vec<LinkId>> {
    if let Routing::Hosts(hosts) = routing {
        return credit_loop(&fabric.network(), &hosts.network);
    }
    let channels = VirtualChannels::of(routing);
    if channels == VirtualChannels::PerHop {
        return None;
    }
    let acyclic = match routing {
        // Dimensions come in a fixed order and each ring is cut at its dateline: a route is shorter than the ring and
        // crosses the dateline at most once.
        Routing::DimensionOrder(order) => order.is_one_order(),
        // Never up after down, and links between two levels depend only on those of one side.
        Routing::Tree(_) => true,
        _ => false,
    };
    if acyclic {
        return None;
    }
    let mut graph = Graph::new(fabric);
    if let Routing::Tables(tables) = routing {
        graph.add_tables(tables);
    } else if !graph.add_rings(fabric, routing) {
        graph.add_walks(fabric, routing, channels);
    }
    graph.cycle()
}

/// Dependencies between channels: for each channel (2 × link + virtual channel), one bit per link from its receiving
/// router and virtual channel on it.
struct Graph<'a> {
    fabric: &'a Fabric,
    /// First bit of each channel.
    offsets: Vec<usize>,
    bits: BitSet,
    /// Router at the end of each link.
    routers: Vec<Option<RouterId>>,
}

impl<'a> Graph<'a> {
    fn new(fabric: &'a Fabric) -> Self {
        let mut offsets = vec![0];
        for link in fabric.links() {
            let choices = match link.to {
                End::Router(r) => fabric.links_from(r).len(),
                _ => 0,
            };
            for _ in 0..2 {
                offsets.push(offsets[offsets.len() - 1] + 2 * choices);
            }
        }
        let bits = BitSet::new(offsets[offsets.len() - 1]);
        Self {
            fabric,
            offsets,
            bits,
            routers: fabric.links().iter().map(router_at_end).collect(),
        }
    }

    fn merge(&mut self, parts: &[BitSet]) {
        parts.iter().for_each(|part| self.bits.union_with(part));
    }

    /// Dependencies of all routes, followed one by one.
    fn add_walks(&mut self, fabric: &Fabric, routing: &Routing, channels: VirtualChannels) {
        // One node per router is enough: routes between routers are the same for all of their nodes.
        let ends: Vec<NodeId> = fabric
            .router_ids()
            .filter_map(|r| fabric.nodes_on(r).first().copied())
            .collect();
        let parts: Vec<BitSet> = ends
            .par_chunks(ends.len().div_ceil(PARTS).max(1))
            .map(|sources| {
                let mut part = Graph::new(fabric);
                let mut route = Vec::new();
                for (&from, &to) in sources
                    .iter()
                    .flat_map(|f| ends.iter().map(move |t| (f, t)))
                {
                    route.clear();
                    if routing.route(fabric, from, to, &mut route).is_ok() {
                        part.add_route(fabric, &route, channels);
                    }
                }
                part.bits
            })
            .collect();
        self.merge(&parts);
    }

    fn add(&mut self, from: (LinkId, usize), to: (LinkId, usize)) {
        let End::Router(at) = self.fabric.link(from.0).to else {
            return;
        };
        if let Some(position) = position(self.fabric, at, to.0) {
            let bit = self.offsets[2 * from.0.index() + from.1] + 2 * usize::from(position) + to.1;
            self.bits.insert(bit);
        }
    }

    /// Dependencies on all routes with traffic: row by row, starting at the routers with nodes and following the
    /// traffic.
    fn add_tables(&mut self, tables: &ForwardingTables) {
        let fabric = self.fabric;
        // Rows start at word boundaries: threads work on different routers.
        let row = fabric.nodes().len().next_multiple_of(64);
        let seen = SharedBitSet::new(row * fabric.routers().len());
        let bits = SharedBitSet::new(self.offsets[self.offsets.len() - 1]);
        let begin = |router| begins(fabric, router).map(move |to: NodeId| (router, to));
        for (router, to) in fabric.router_ids().flat_map(begin) {
            seen.insert(router.index() * row + to.index());
        }
        let begin: Vec<RouterId> = fabric.router_ids().collect();
        begin
            .par_iter()
            .for_each_init(Vec::new, |pending, &router| {
                for to in begins(fabric, router) {
                    pending.push((router, to));
                    while let Some((at, to)) = pending.pop() {
                        let Some(step) = self.step(tables, at, to) else {
                            continue;
                        };
                        if let Some(bit) = step.bit {
                            bits.insert(bit);
                        }
                        if seen.insert(step.next.index() * row + to.index()) {
                            pending.push((step.next, to));
                        }
                    }
                }
            });
        self.bits = bits.into_set();
    }

    /// The router after `at` on the way to a node, and the bit of the dependency there.
    #[inline]
    fn step(&self, tables: &ForwardingTables, at: RouterId, to: NodeId) -> Option<Step> {
        let position = usize::from(tables.position(at, to)?);
        let link = *self.fabric.links_from(at).get(position)?;
        let next = self.routers[link.index()]?;
        let position = tables.position(next, to).map(usize::from);
        Some(Step {
            next,
            bit: position.map(|p| self.offsets[2 * link.index()] + 2 * p),
        })
    }

    /// Dependencies of dimension order by its rings, and route by route of the pairs that the first order does not serve;
    /// false if routes cannot be told apart that way.
    fn add_rings(&mut self, fabric: &Fabric, routing: &Routing) -> bool {
        let Routing::DimensionOrder(order) = routing else {
            return false;
        };
        let legs = order.legs(fabric);
        let others =
            legs.and_then(|l| l.dependencies(fabric, order, |from, to| self.add(from, to)));
        let Some(others) = others else {
            return false;
        };
        let mut route = Vec::new();
        let first = |r: RouterId| fabric.nodes_on(r).first().copied();
        for (from, to) in others {
            let (Some(from), Some(to)) = (first(from), first(to)) else {
                continue;
            };
            route.clear();
            if routing.route(fabric, from, to, &mut route).is_ok() {
                self.add_route(fabric, &route, VirtualChannels::Dateline);
            }
        }
        true
    }

    fn add_route(&mut self, fabric: &Fabric, route: &[LinkId], channels: VirtualChannels) {
        let mut previous: Option<(LinkId, usize)> = None;
        let mut crossed = false;
        for &link in route {
            let direction = fabric.link(link).direction;
            let same = previous.is_some_and(|(p, _)| fabric.link(p).direction == direction);
            let dateline = channels == VirtualChannels::Dateline && direction.is_some();
            crossed = dateline && ((same && crossed) || wraps(fabric, link));
            let channel = (link, usize::from(crossed));
            if let Some(previous) = previous {
                self.add(previous, channel);
            }
            previous = Some(channel);
        }
    }

    /// Depth-first search with an explicit stack.
    fn cycle(&self) -> Option<Vec<LinkId>> {
        #[derive(Clone, Copy, PartialEq)]
        enum Mark {
            New,
            Open,
            Done,
        }
        let mut marks = vec![Mark::New; self.offsets.len() - 1];
        for start in 0..marks.len() {
            if marks[start] != Mark::New {
                continue;
            }
            let mut stack = vec![(start, self.offsets[start])];
            marks[start] = Mark::Open;
            while let Some((channel, bit)) = stack.last_mut() {
                let Some(next) = self.next_from(*channel, bit) else {
                    marks[*channel] = Mark::Done;
                    stack.pop();
                    continue;
                };
                match marks[next] {
                    Mark::New => {
                        marks[next] = Mark::Open;
                        stack.push((next, self.offsets[next]));
                    }
                    Mark::Open => {
                        let first = stack.iter().position(|&(c, _)| c == next).unwrap_or(0);
                        return Some(
                            stack[first..]
                                .iter()
                                .map(|&(c, _)| LinkId::of(c / 2))
                                .collect(),
                        );
                    }
                    Mark::Done => {}
                }
            }
        }
        None
    }

    /// The next channel that `channel` depends on, from bit `*bit` on.
    fn next_from(&self, channel: usize, bit: &mut usize) -> Option<usize> {
        while *bit < self.offsets[channel + 1] {
            let here = *bit;
            *bit += 1;
            if self.bits.contains(here) {
                let End::Router(at) = self.fabric.link(LinkId::of(channel / 2)).to else {
                    return None;
                };
                let position = here - self.offsets[channel];
                let link = self.fabric.links_from(at)[position / 2];
                return Some(2 * link.index() + position % 2);
            }
        }
        None
    }
}

/// A step of a route.
struct Step {
    next: RouterId,
    bit: Option<usize>,
}

/// Number of destinations of a router's own nodes: all, except a single node itself.
fn begins(fabric: &Fabric, router: RouterId) -> impl Iterator<Item = NodeId> + use<> {
    let (nodes, own) = match fabric.nodes_on(router) {
        [] => (0, None),
        [only] => (fabric.nodes().len(), Some(*only)),
        _ => (fabric.nodes().len(), None),
    };
    (0..nodes)
        .map(NodeId::of)
        .filter(move |&to| Some(to) != own)
}

fn router_at_end(link: &Link) -> Option<RouterId> {
    match link.to {
        End::Router(r) => Some(r),
        _ => None,
    }
}

/// Whether a link is the wrap-around of its ring.
fn wraps(fabric: &Fabric, link: LinkId) -> bool {
    let link = fabric.link(link);
    let (End::Router(from), End::Router(to), Some(direction)) =
        (link.from, link.to, link.direction)
    else {
        return false;
    };
    let dim = direction.dim as usize;
    let at = |r| fabric.coord(r).map_or(0, |c| c[dim]);
    if direction.positive {
        at(to) < at(from)
    } else {
        at(to) > at(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::tests::some_failed;

    /// Dependencies by rings are those of routes that are followed, but for injection, on which nothing waits.
    #[test]
    fn dependencies_of_grids_with_failed_cables() {
        let mut mixed = 0;
        for seed in 0..60 {
            let (fabric, routing) = some_failed(seed);
            mixed += usize::from(!routing.is_destination_based());
            let mut rings = Graph::new(&fabric);
            assert!(rings.add_rings(&fabric, &routing), "{seed}");
            let mut walks = Graph::new(&fabric);
            walks.add_walks(&fabric, &routing, VirtualChannels::Dateline);
            for link in fabric.link_ids() {
                if !matches!(fabric.link(link).from, End::Router(_)) {
                    continue;
                }
                for channel in [2 * link.index(), 2 * link.index() + 1] {
                    let range = walks.offsets[channel]..walks.offsets[channel + 1];
                    let next = |graph: &Graph<'_>| -> Vec<usize> {
                        let End::Router(at) = fabric.link(link).to else {
                            return Vec::new();
                        };
                        let set = range.clone().filter(|&bit| graph.bits.contains(bit));
                        let to = |bit: usize| fabric.links_from(at)[(bit - range.start) / 2];
                        let inner =
                            |&bit: &usize| matches!(fabric.link(to(bit)).to, End::Router(_));
                        set.filter(inner).collect()
                    };
                    assert_eq!(
                        next(&rings),
                        next(&walks),
                        "{seed}: {}",
                        fabric.link_name(link)
                    );
                }
            }
        }
        assert!(mixed > 10, "{mixed}");
    }
}
