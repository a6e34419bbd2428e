//! Dimension-order routes on grids, in closed form: no data per pair.
//!
//! The links of one ring in one direction have consecutive numbers. So a route is one range of links per
//! dimension, and the price of a range is the difference of two prefix sums. Prefix sums cover the ring twice,
//! so that a range across the wrap-around is contiguous. Where links are down, the range of a pair is looked up in the
//! table of its own ring.

use super::{Paths, Prices};
use crate::linear::GridDistances;
use crate::problem::Problem;
use crate::threads::each;
use hopbyte_fabric::routing::{Dead, DimensionOrder, Leg, Legs, Unroutable};
use hopbyte_fabric::{Direction, End, LinkId, NodeId, RouterId, Routing};
use std::collections::HashMap;

/// Maximum number of dimensions of the closed form; every known torus machine with this routing has fewer.
const DIMS: usize = Direction::MAX_DIMENSIONS;

/// A range of a ring: `length` links from position `start`, in the upper or lower half of the line.
#[derive(Clone, Copy)]
struct Stretch {
    down: bool,
    start: u16,
    length: u16,
}

impl Stretch {
    /// Routes in minus direction from c use the links of c, c-1, …: those from to+1 to from.
    #[inline]
    fn of(size: u32, (from, to): (u32, u32), positive: bool) -> Self {
        let (start, length) = match positive {
            true => (from, to + size - from),
            false => (to + 1, from + size - to),
        };
        let within = |c: u32| if c < size { c } else { c - size } as u16;
        Self {
            down: !positive,
            start: within(start),
            length: within(length),
        }
    }
}

/// One dimension, in routing order.
struct Dimension {
    size: u32,
    /// Distance of neighbours in row-major router positions.
    stride: u32,
    /// First link of the ring through a router position: `size` links in plus direction, then `size` links in
    /// minus.
    links_at: Vec<u32>,
    /// First prefix sum of the ring: 2·size+1 in plus direction, then as many in minus.
    sums_at: Vec<u32>,
    /// By from × size + to.
    stretch: Vec<Stretch>,
    /// Indices of the two prefix sums of a range, relative to the ring's first.
    sums: Vec<(u16, u16)>,
}

impl Dimension {
    /// Indices of the prefix sums of a range.
    #[inline]
    fn sums_of(&self, stretch: Stretch) -> (u16, u16) {
        let base = if stretch.down {
            2 * self.size as u16 + 1
        } else {
            0
        };
        (base + stretch.start, base + stretch.start + stretch.length)
    }

    /// Calls `f` for every link of a range of the ring through a position.
    #[inline]
    fn each(&self, at: u32, stretch: Stretch, mut f: impl FnMut(usize, f64)) {
        let line = self.links_at[at as usize] + if stretch.down { self.size } else { 0 };
        let mut c = u32::from(stretch.start);
        for _ in 0..stretch.length {
            f((line + c) as usize, 1.0);
            c += 1;
            if c == self.size {
                c = 0;
            }
        }
    }
}

/// Location of the prefix sums of a link's ring.
#[derive(Clone, Copy)]
struct RingOf {
    links: u32,
    sums: u32,
    size: u32,
}

/// See the module documentation.
pub(crate) struct GridPaths {
    dims: Vec<Dimension>,
    /// Router position and coordinates in routing order, by place.
    position: Vec<u32>,
    coord: Vec<[u16; DIMS]>,
    inject: Vec<u32>,
    eject: Vec<u32>,
    network_links: usize,
    sums: usize,
    ring_of: Vec<RingOf>,
    ids: Vec<LinkId>,
    broken: Option<Broken>,
}

/// The rings of a grid with breaks.
#[derive(Clone)]
pub(crate) struct Broken {
    legs: Legs,
    /// Number and stride of the dimensions, in the order of [`GridPaths::dims`].
    dims: Vec<(usize, usize)>,
    /// Orders of these; a pair takes the first in which all legs are open.
    orders: Vec<Vec<usize>>,
}

/// Coordinates of a place in routing order, after its position.
type At<'a> = (u32, &'a [u16; DIMS]);

impl Broken {
    fn new(legs: &Legs, order: &DimensionOrder) -> Self {
        let shape = order.shape();
        let stride = |d: usize| shape.dims[d + 1..].iter().map(|&n| n as usize).product();
        let first: Vec<usize> = order.order().iter().map(|&d| usize::from(d)).collect();
        let place = |&d: &u8| first.iter().position(|&f| f == usize::from(d)).unwrap_or(0);
        let orders = order.orders().iter().map(|o| o.iter().map(place).collect());
        Self {
            legs: legs.clone(),
            orders: orders.collect(),
            dims: first.iter().map(|&d| (d, stride(d))).collect(),
        }
    }

    /// Calls `f` for every leg in one of the orders, with its dimension and the position at which it begins; false at a
    /// closed one.
    #[inline]
    fn walk(
        &self,
        order: &[usize],
        (from, a): At<'_>,
        b: &[u16; DIMS],
        mut f: impl FnMut(usize, usize, Leg),
    ) -> bool {
        let mut at = from as usize;
        for &d in order {
            let (x, y) = (usize::from(a[d]), usize::from(b[d]));
            if x == y {
                continue;
            }
            let (dim, stride) = self.dims[d];
            let leg = self.legs.leg(dim, at, x as u32, y as u32);
            if leg.closed {
                return false;
            }
            f(d, at, leg);
            at = at + y * stride - x * stride;
        }
        true
    }

    /// The order of a pair; `None` without a route.
    #[inline]
    fn order(&self, a: At<'_>, b: &[u16; DIMS]) -> Option<&[usize]> {
        if !self.legs.any_closed() {
            return self.orders.first().map(Vec::as_slice);
        }
        let mut orders = self.orders.iter();
        let open = orders.find(|order| self.walk(order, a, b, |_, _, _| {}));
        open.map(Vec::as_slice)
    }

    /// Calls `f` for every leg of a pair.
    #[inline]
    fn each(&self, a: At<'_>, b: &[u16; DIMS], f: impl FnMut(usize, usize, Leg)) {
        if let Some(order) = self.order(a, b) {
            self.walk(order, a, b, f);
        }
    }

    /// Links of a pair between routers.
    #[inline]
    pub(crate) fn hops(&self, a: At<'_>, b: &[u16; DIMS]) -> u32 {
        let mut sum = 0;
        self.each(a, b, |_, _, leg| sum += u32::from(leg.links));
        sum
    }
}

/// The pairs of places of a problem without a route in dimension order; empty where others are not closed forms.
pub(crate) fn unroutable(problem: &Problem<'_>) -> Vec<Unroutable> {
    let fabric = problem.fabric;
    let Routing::DimensionOrder(order) = problem.routing else {
        return Vec::new();
    };
    if !order.legs(fabric).is_some_and(Legs::any_closed) {
        return Vec::new();
    }
    // Nodes of a router stand together.
    let mut nodes: Vec<NodeId> = problem.allocation.nodes().iter().map(|n| n.0).collect();
    nodes.sort_by_key(|&n| (fabric.node(n).router, n));
    let routers: Vec<&[NodeId]> = nodes
        .chunk_by(|&a, &b| fabric.node(a).router == fabric.node(b).router)
        .collect();
    let router_of = |nodes: &[NodeId]| nodes.first().map(|&n| fabric.node(n).router);
    let ends: Vec<(RouterId, &[NodeId])> = routers
        .iter()
        .filter_map(|nodes| Some((router_of(nodes)?, *nodes)))
        .collect();
    let dead = |&(at, sources): &(RouterId, &[NodeId])| {
        let without = ends
            .iter()
            .filter(|&&(to, _)| order.order_for(fabric, at, to).is_none());
        let pairs = without.flat_map(|&(_, targets)| {
            let pair = |from: NodeId| targets.iter().map(move |&to| (from, to));
            sources.iter().flat_map(move |&from| pair(from))
        });
        let dead = pairs.map(|(from, to)| Unroutable {
            from,
            to,
            at,
            reason: Dead::NoLink,
        });
        dead.collect::<Vec<_>>()
    };

    each(ends.len(), &|number| dead(&ends[number])).concat()
}

impl GridPaths {
    /// `None` unless the routing is dimension order over a grid with a route for every pair, and every host link in
    /// service (other cases need the routing's own errors).
    pub(crate) fn new(problem: &Problem<'_>) -> Option<Self> {
        let fabric = problem.fabric;
        let Routing::DimensionOrder(order) = problem.routing else {
            return None;
        };
        let shape = order.shape();
        let n = shape.positions();
        let hosts_up = problem.allocation.nodes().iter().all(|&(node, _)| {
            let node = fabric.node(node);
            fabric.link(node.inject).is_up() && fabric.link(node.eject).is_up()
        });
        if shape.dims.iter().any(|&d| d > 2_048) || !hosts_up {
            return None;
        }
        let broken = match order.is_healthy() {
            true => None,
            false => Some(Broken::new(order.legs(fabric)?, order)),
        };
        if broken.is_some() && !unroutable(problem).is_empty() {
            return None;
        }
        // Row-major position of every router id, and the inverse.
        let mut position_of = vec![0u32; fabric.routers().len()];
        let mut router_at = vec![u32::MAX; n];
        for router in fabric.router_ids() {
            let position = shape.position(fabric.coord(router)?)? as u32;
            position_of[router.index()] = position;
            router_at[position as usize] = router.0;
        }
        let mut paths = Self {
            dims: Vec::new(),
            position: Vec::new(),
            coord: Vec::new(),
            inject: Vec::new(),
            eject: Vec::new(),
            network_links: 0,
            sums: 0,
            ring_of: Vec::new(),
            ids: Vec::new(),
            broken,
        };
        for &d in order.order() {
            let d = d as usize;
            let size = shape.dims[d];
            let stride: u32 = shape.dims[d + 1..].iter().product();
            let mut dimension = Dimension {
                size,
                stride,
                links_at: vec![0; n],
                sums_at: vec![0; n],
                stretch: Vec::with_capacity((size * size) as usize),
                sums: Vec::with_capacity((size * size) as usize),
            };
            for start in (0..n as u32).filter(|p| (p / stride).is_multiple_of(size)) {
                let ring = RingOf {
                    links: paths.ids.len() as u32,
                    sums: paths.sums as u32,
                    size,
                };
                for down in [false, true] {
                    for c in 0..size {
                        let router = RouterId(router_at[(start + c * stride) as usize]);
                        let direction = Direction {
                            dim: d as u8,
                            positive: !down,
                        };
                        // A mesh has no wrap-around link, a ring of one has no link at all, and others may be down.
                        // No route uses them, so any number will do.
                        let exists = router.0 != u32::MAX;
                        let link = order.link(router, direction).filter(|_| exists);
                        let edge = !shape.wrap[d] && c == if down { 0 } else { size - 1 };
                        if link.is_none() && !edge && size > 1 && paths.broken.is_none() {
                            return None;
                        }
                        paths.ids.push(link.unwrap_or(LinkId(u32::MAX)));
                        paths.ring_of.push(ring);
                    }
                }
                paths.sums += 2 * (2 * size as usize + 1);
                for c in 0..size {
                    let at = (start + c * stride) as usize;
                    dimension.links_at[at] = ring.links;
                    dimension.sums_at[at] = ring.sums;
                }
            }
            for from in 0..size {
                for to in 0..size {
                    let positive = order.direction(d, from, to).is_none_or(|d| d.positive);
                    let stretch = Stretch::of(size, (from, to), positive);
                    dimension.sums.push(dimension.sums_of(stretch));
                    dimension.stretch.push(stretch);
                }
            }
            paths.dims.push(dimension);
        }
        paths.network_links = paths.ids.len();
        let mut host: HashMap<LinkId, u32> = HashMap::new();
        for &(node, _) in problem.allocation.nodes() {
            let node = fabric.node(node);
            let mut coord = [0; DIMS];
            let at = fabric.coord(node.router)?;
            for (c, &d) in coord.iter_mut().zip(order.order()) {
                *c = at[d as usize] as u16;
            }
            paths.coord.push(coord);
            paths.position.push(position_of[node.router.index()]);
            for (link, list) in [
                (node.inject, &mut paths.inject),
                (node.eject, &mut paths.eject),
            ] {
                if !matches!(fabric.link(link).from, End::Router(_))
                    && !matches!(fabric.link(link).to, End::Router(_))
                {
                    return None;
                }
                let number = *host.entry(link).or_insert_with(|| {
                    paths.ids.push(link);
                    paths.ids.len() as u32 - 1
                });
                list.push(number);
            }
        }
        Some(paths)
    }

    /// Hops between places as a sum over dimensions.
    pub(crate) fn distances(&self) -> GridDistances {
        let table = |dim: &Dimension| {
            let hops = dim.stretch.iter().map(|s| s.length).collect();
            (dim.size, hops)
        };
        let broken = self.broken.clone().map(|b| (b, self.position.clone()));
        GridDistances::new(self.coord.clone(), self.dims.iter().map(table), broken)
    }

    /// The range of a pair's leg in a dimension.
    #[inline]
    fn stretch(&self, d: usize, (a, b): (usize, usize), leg: Leg) -> Stretch {
        let ends = (u32::from(self.coord[a][d]), u32::from(self.coord[b][d]));
        Stretch::of(self.dims[d].size, ends, leg.positive)
    }

    /// Prefix sums of one ring and direction, twice round, from the price of each link.
    fn resum(prices: &mut [f64], ring: RingOf, value: &impl Fn(usize) -> f64) {
        let size = ring.size as usize;
        for side in 0..2 {
            let first = ring.sums as usize + side * (2 * size + 1);
            let links = ring.links as usize + side * size;
            let mut sum = 0.0;
            prices[first] = 0.0;
            for k in 0..2 * size {
                sum += value(links + if k < size { k } else { k - size });
                prices[first + k + 1] = sum;
            }
        }
    }
}

impl Paths for GridPaths {
    fn links(&self) -> usize {
        self.ids.len()
    }

    fn link(&self, number: usize) -> LinkId {
        self.ids[number]
    }

    #[inline]
    fn each(&self, a: u32, b: u32, mut f: impl FnMut(usize, f64)) {
        if a == b {
            return;
        }
        let (a, b) = (a as usize, b as usize);
        f(self.inject[a] as usize, 1.0);
        if let Some(broken) = &self.broken {
            let from = (self.position[a], &self.coord[a]);
            broken.each(from, &self.coord[b], |d, at, leg| {
                let stretch = self.stretch(d, (a, b), leg);
                self.dims[d].each(at as u32, stretch, &mut f);
            });
            f(self.eject[b] as usize, 1.0);
            return;
        }
        let mut at = self.position[a];
        for (d, dim) in self.dims.iter().enumerate() {
            let (from, to) = (u32::from(self.coord[a][d]), u32::from(self.coord[b][d]));
            if from == to {
                continue;
            }
            dim.each(at, dim.stretch[(from * dim.size + to) as usize], &mut f);
            at = at + to * dim.stride - from * dim.stride;
        }
        f(self.eject[b] as usize, 1.0);
    }

    fn prices(&self) -> Prices {
        Prices(vec![0.0; self.sums + self.ids.len() - self.network_links])
    }

    fn reprice(&self, prices: &mut Prices, changed: &[u32], value: impl Fn(usize) -> f64) {
        let mut last = u32::MAX;
        for &link in changed {
            match self.ring_of.get(link as usize) {
                Some(ring) if ring.links != last => {
                    last = ring.links;
                    Self::resum(&mut prices.0, *ring, &value);
                }
                Some(_) => {}
                None => {
                    prices.0[self.sums + link as usize - self.network_links] = value(link as usize);
                }
            }
        }
    }

    #[inline]
    fn price(&self, prices: &Prices, a: u32, b: u32) -> f64 {
        if a == b {
            return 0.0;
        }
        let (a, b) = (a as usize, b as usize);
        let host = |number: u32| prices.0[self.sums + number as usize - self.network_links];
        let mut sum = host(self.inject[a]) + host(self.eject[b]);
        if let Some(broken) = &self.broken {
            let from = (self.position[a], &self.coord[a]);
            broken.each(from, &self.coord[b], |d, at, leg| {
                let (dim, stretch) = (&self.dims[d], self.stretch(d, (a, b), leg));
                let (start, end) = dim.sums_of(stretch);
                let line = dim.sums_at[at] as usize;
                sum += prices.0[line + end as usize] - prices.0[line + start as usize];
            });
            return sum;
        }
        let mut at = self.position[a];
        for (d, dim) in self.dims.iter().enumerate() {
            let (from, to) = (u32::from(self.coord[a][d]), u32::from(self.coord[b][d]));
            if from == to {
                continue;
            }
            let (start, end) = dim.sums[(from * dim.size + to) as usize];
            let line = dim.sums_at[at as usize] as usize;
            sum += prices.0[line + end as usize] - prices.0[line + start as usize];
            at = at + to * dim.stride - from * dim.stride;
        }
        sum
    }
}
