//! Legs of dimension-order routes on grids with breaks: one look-up each.

use super::DimensionOrder;
use super::rings::Rings;
use crate::direction::Direction;
use crate::fabric::{Fabric, Shape};
use crate::ids::{LinkId, RouterId};
use rayon::prelude::*;

/// Maximum number of stored legs of all rings (four bytes each).
const MOST_LEGS: usize = 1 << 24;

/// Maximum number of pairs of routers that one order does not serve.
const MOST_PAIRS: usize = 1 << 23;

/// No router.
const NONE: u32 = u32::MAX;

/// The part of a route inside one ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leg {
    /// Number of links.
    pub links: u16,
    /// Whether it goes in the positive direction.
    pub positive: bool,
    /// Whether breaks separate its ends.
    pub closed: bool,
}

/// The legs of all rings. Rings without a break share those of their dimension.
#[derive(Clone, Debug)]
pub struct Legs {
    shape: Shape,
    strides: Vec<usize>,
    /// By dimension and position: first of the ring's legs, which are by from × size + to.
    first: Vec<Vec<u32>>,
    legs: Vec<Leg>,
    any_closed: bool,
    /// Grid position of every router, and the router at every position.
    position_of: Vec<u32>,
    router_at: Vec<u32>,
}

impl Legs {
    /// `None` if they would take too much memory, or a router has no position.
    pub(super) fn new(
        fabric: &Fabric,
        order: &DimensionOrder,
        rings: Option<&Rings>,
    ) -> Option<Self> {
        let shape = order.shape().clone();
        let square = |&n: &u32| n as usize * n as usize;
        let sizes: Vec<usize> = shape.dims.iter().map(square).collect();
        let positions = shape.positions();
        if sizes.iter().sum::<usize>() > MOST_LEGS || shape.dims.iter().any(|&n| n > 1 << 15) {
            return None;
        }
        let (mut position_of, mut router_at) = (Vec::new(), vec![NONE; positions]);
        for router in fabric.router_ids() {
            let position = fabric.coord(router).and_then(|c| shape.position(c))?;
            position_of.push(position as u32);
            router_at[position] = router.0;
        }
        let mut strides = vec![1usize; shape.dims.len()];
        for d in (1..strides.len()).rev() {
            strides[d - 1] = strides[d] * shape.dims[d] as usize;
        }
        let mut all = Self {
            first: vec![vec![0; positions]; shape.dims.len()],
            strides,
            legs: Vec::new(),
            any_closed: false,
            position_of,
            router_at,
            shape,
        };
        let mut here = vec![0; all.shape.dims.len()];
        for (dim, size) in sizes.into_iter().enumerate() {
            let n = all.shape.dims[dim];
            let whole = all.legs.len() as u32;
            for (from, to) in pairs(n) {
                all.legs
                    .push(all.leg_of(dim, (from, to), order.direction(dim, from, to)));
            }
            for position in 0..positions {
                let coord = all.coordinate(position, dim);
                if coord > 0 {
                    let base = position - coord as usize * all.strides[dim];
                    all.first[dim][position] = all.first[dim][base];
                    continue;
                }
                let Some(rings) = rings.filter(|r| !r.is_complete(position, dim)) else {
                    all.first[dim][position] = whole;
                    continue;
                };
                if all.legs.len() + size > MOST_LEGS {
                    return None;
                }
                all.first[dim][position] = all.legs.len() as u32;
                all.coordinates(position, &mut here);
                for (from, to) in pairs(n) {
                    here[dim] = from;
                    let leg = match rings.direction(order, dim, (&here, to)) {
                        Ok(direction) => all.leg_of(dim, (from, to), direction),
                        Err(_) => Leg {
                            links: 0,
                            positive: true,
                            closed: true,
                        },
                    };
                    all.any_closed |= leg.closed;
                    all.legs.push(leg);
                }
            }
        }
        Some(all)
    }

    fn leg_of(&self, dim: usize, (from, to): (u32, u32), direction: Option<Direction>) -> Leg {
        let n = self.shape.dims[dim];
        let positive = direction.is_none_or(|d| d.positive);
        let ahead = (to + n - from) % n;
        Leg {
            links: if positive { ahead } else { n - ahead } as u16,
            positive,
            closed: false,
        }
    }

    #[inline]
    fn coordinate(&self, position: usize, dim: usize) -> u32 {
        (position / self.strides[dim]) as u32 % self.shape.dims[dim]
    }

    fn coordinates(&self, position: usize, out: &mut [u32]) {
        for (dim, c) in out.iter_mut().enumerate() {
            *c = self.coordinate(position, dim);
        }
    }

    /// The leg from coordinate `from` to `to` of the ring in dimension `dim` through a position.
    #[inline]
    pub fn leg(&self, dim: usize, position: usize, from: u32, to: u32) -> Leg {
        let at = self.first[dim][position] + from * self.shape.dims[dim] + to;
        self.legs[at as usize]
    }

    /// Whether breaks separate any two positions of a ring.
    pub fn any_closed(&self) -> bool {
        self.any_closed
    }

    /// Grid position of a router, row-major.
    #[inline]
    pub fn position_of(&self, router: RouterId) -> usize {
        self.position_of[router.index()] as usize
    }

    fn router_at(&self, position: usize) -> Option<RouterId> {
        let router = self.router_at[position];
        (router != NONE).then_some(RouterId(router))
    }

    /// The legs of a route in an order, each with its dimension and the position at which it begins; closed ones too.
    #[inline]
    fn walk<'a>(
        &'a self,
        order: &'a [u8],
        (from, source): (usize, &'a [u32]),
        target: &'a [u32],
    ) -> impl Iterator<Item = (usize, usize, Leg)> + 'a {
        let mut at = from;
        order.iter().filter_map(move |&dim| {
            let dim = usize::from(dim);
            let (a, b) = (source[dim], target[dim]);
            if a == b {
                return None;
            }
            let begin = at;
            at = at + b as usize * self.strides[dim] - a as usize * self.strides[dim];
            Some((dim, begin, self.leg(dim, begin, a, b)))
        })
    }

    /// Links of the route between two routers in an order; `None` if a leg is closed.
    #[inline]
    pub(crate) fn links(
        &self,
        order: &[u8],
        source: (usize, &[u32]),
        target: &[u32],
    ) -> Option<u32> {
        let mut sum = 0;
        for (_, _, leg) in self.walk(order, source, target) {
            if leg.closed {
                return None;
            }
            sum += u32::from(leg.links);
        }
        Some(sum)
    }

    /// The link from coordinate `c` of the ring through a position.
    fn link(
        &self,
        order: &DimensionOrder,
        (dim, position): (usize, usize),
        (c, positive): (u32, bool),
    ) -> Option<LinkId> {
        let here = self.coordinate(position, dim) as usize;
        let at = position + c as usize * self.strides[dim] - here * self.strides[dim];
        let direction = Direction {
            dim: dim as u8,
            positive,
        };
        order.link(self.router_at(at)?, direction)
    }

    /// Calls `f` for each link of a leg, with whether the dateline of its ring was crossed.
    fn each_link(
        &self,
        order: &DimensionOrder,
        (dim, begin, leg): (usize, usize, Leg),
        mut f: impl FnMut(LinkId, bool),
    ) {
        let n = self.shape.dims[dim];
        let mut c = self.coordinate(begin, dim);
        let mut crossed = false;
        for _ in 0..leg.links {
            let next = if leg.positive { c + 1 } else { c + n - 1 } % n;
            crossed |= if leg.positive { next < c } else { next > c };
            if let Some(link) = self.link(order, (dim, begin), (c, leg.positive)) {
                f(link, crossed);
            }
            c = next;
        }
    }

    /// The pairs of routers with nodes that the first order does not serve; `None` if they are too many.
    fn unserved(
        &self,
        fabric: &Fabric,
        order: &DimensionOrder,
    ) -> Option<Vec<(RouterId, RouterId)>> {
        let has_nodes = |r: &RouterId| !fabric.nodes_on(*r).is_empty();
        let mut found = Vec::new();
        let order = order.order();
        let mut here = vec![0; order.len()];
        for (k, dim) in order.iter().map(|&d| usize::from(d)).enumerate() {
            let n = self.shape.dims[dim];
            let rings = (0..self.shape.positions()).filter(|&p| self.coordinate(p, dim) == 0);
            for ring in rings {
                self.coordinates(ring, &mut here);
                let closed = pairs(n).filter(|&(a, b)| self.leg(dim, ring, a, b).closed);
                let closed: Vec<(u32, u32)> = closed.collect();
                if closed.is_empty() {
                    continue;
                }
                // Routes reach this ring from any coordinate of the dimensions before, and leave it for any of those
                // after.
                let ends = |c: u32, free: &[u8]| -> Vec<RouterId> {
                    let at = ring + c as usize * self.strides[dim];
                    let ends = self.spread(at, free).into_iter();
                    ends.filter_map(|p| self.router_at(p))
                        .filter(has_nodes)
                        .collect()
                };
                let sources: Vec<_> = (0..n).map(|c| ends(c, &order[..k])).collect();
                let targets: Vec<_> = (0..n).map(|c| ends(c, &order[k + 1..])).collect();
                for (a, b) in closed {
                    for &from in &sources[a as usize] {
                        let (from_at, from_coord) =
                            (self.position_of(from), fabric.coord(from).unwrap_or(&[]));
                        // A pair belongs to its first closed leg.
                        let first = self.walk(&order[..k], (from_at, from_coord), &here);
                        if first.into_iter().any(|(_, _, leg)| leg.closed) {
                            continue;
                        }
                        let pairs = targets[b as usize].iter().map(|&to| (from, to));
                        found.extend(pairs);
                        if found.len() > MOST_PAIRS {
                            return None;
                        }
                    }
                }
            }
        }
        Some(found)
    }

    /// The positions that differ from one in some dimensions only.
    fn spread(&self, at: usize, free: &[u8]) -> Vec<usize> {
        let mut all = vec![at];
        for dim in free.iter().map(|&d| usize::from(d)) {
            let stride = self.strides[dim];
            let zero = |p: usize| p - self.coordinate(p, dim) as usize * stride;
            let line = |p: usize| (0..self.shape.dims[dim] as usize).map(move |c| p + c * stride);
            all = all.into_iter().flat_map(|p| line(zero(p))).collect();
        }
        all
    }

    /// Sums over some dimensions: the value of a position is that of all that differ from it in these.
    fn summed(&self, values: &[f64], over: &[u8]) -> Vec<f64> {
        let mut values = values.to_vec();
        for dim in over.iter().map(|&d| usize::from(d)) {
            let (stride, n) = (self.strides[dim], self.shape.dims[dim] as usize);
            for base in (0..values.len()).filter(|&p| self.coordinate(p, dim) == 0) {
                let line = (0..n).map(|c| base + c * stride);
                let sum: f64 = line.clone().map(|p| values[p]).sum();
                line.for_each(|p| values[p] = sum);
            }
        }
        values
    }

    /// All rings: the dimension, and the position with coordinate 0 in it.
    fn rings(&self) -> Vec<(usize, usize)> {
        let dims = 0..self.shape.dims.len();
        let ring = |dim: usize| {
            let all = 0..self.shape.positions();
            all.filter(move |&p| self.coordinate(p, dim) == 0)
                .map(move |p| (dim, p))
        };
        dims.flat_map(ring).collect()
    }

    /// Pairs of nodes, their own links in service, whose route uses each link between routers, and pairs of routers without
    /// a route. `None` if the first order serves too few pairs for this.
    pub(crate) fn uniform(&self, fabric: &Fabric, order: &DimensionOrder) -> Option<Uniform> {
        let unserved = match self.any_closed {
            true => self.unserved(fabric, order)?,
            false => Vec::new(),
        };
        let is_up = |link: LinkId| fabric.link(link).is_up();
        let mut sending = vec![0f64; self.shape.positions()];
        let mut receiving = sending.clone();
        for node in fabric.nodes() {
            let at = self.position_of(node.router);
            sending[at] += f64::from(u8::from(is_up(node.inject)));
            receiving[at] += f64::from(u8::from(is_up(node.eject)));
        }
        let first = order.order();
        let ends: Vec<(Vec<f64>, Vec<f64>)> = (0..first.len())
            .map(|dim| {
                let k = first
                    .iter()
                    .position(|&d| usize::from(d) == dim)
                    .unwrap_or(0);
                let sources = self.summed(&sending, &first[..k]);
                let targets = self.summed(&receiving, &first[k + 1..]);
                (sources, targets)
            })
            .collect();
        let mut load = vec![0f64; fabric.links().len()];
        // Whole numbers: the same sum in any order.
        let rings = self.rings();
        let parts: Vec<Vec<(LinkId, f64)>> = rings
            .par_iter()
            .map(|&(dim, ring)| {
                let (sources, targets) = &ends[dim];
                let (n, stride) = (self.shape.dims[dim], self.strides[dim]);
                // Changes from one link to the next, by direction.
                let mut change = [vec![0f64; n as usize + 1], vec![0f64; n as usize + 1]];
                for (a, b) in pairs(n).filter(|(a, b)| a != b) {
                    let leg = self.leg(dim, ring, a, b);
                    let at = |c: u32| ring + c as usize * stride;
                    let pairs = sources[at(a)] * targets[at(b)];
                    if leg.closed || pairs == 0.0 {
                        continue;
                    }
                    let change = &mut change[usize::from(!leg.positive)];
                    let begin = if leg.positive { a } else { (b + 1) % n } as usize;
                    let end = begin + usize::from(leg.links);
                    change[begin] += pairs;
                    change[end.min(n as usize)] -= pairs;
                    if end > n as usize {
                        change[0] += pairs;
                        change[end - n as usize] -= pairs;
                    }
                }
                let mut sums = Vec::new();
                for (positive, change) in [true, false].into_iter().zip(&change) {
                    let mut sum = 0.0;
                    for (c, change) in (0..n).zip(change) {
                        sum += change;
                        let link = self.link(order, (dim, ring), (c, positive));
                        sums.extend(link.filter(|_| sum > 0.0).map(|link| (link, sum)));
                    }
                }
                sums
            })
            .collect();
        for (link, pairs) in parts.into_iter().flatten() {
            load[link.index()] += pairs;
        }
        let mut without = Vec::new();
        for (from, to) in unserved {
            let ends = (self.position_of(from), fabric.coord(from).unwrap_or(&[]));
            let target = fabric.coord(to).unwrap_or(&[]);
            let count = sending[ends.0] * receiving[self.position_of(to)];
            let mut add = |order_of: &[u8], pairs: f64| {
                for step in self.walk(order_of, ends, target).filter(|s| !s.2.closed) {
                    self.each_link(order, step, |link, _| load[link.index()] += pairs);
                }
            };
            add(first, -count);
            match order.order_for(fabric, from, to) {
                Some(other) => add(order.order_at(other), count),
                None => without.push((from, to)),
            }
        }
        Some(Uniform { load, without })
    }

    /// Calls `add` for every dependency between channels that the routes of the first order make, and returns the pairs
    /// of routers that need another. Channels are links with whether the dateline was crossed. `None` unless every
    /// router of a complete grid has nodes, so that a route may turn at each.
    pub(super) fn dependencies(
        &self,
        fabric: &Fabric,
        order: &DimensionOrder,
        mut add: impl FnMut((LinkId, usize), (LinkId, usize)),
    ) -> Option<Vec<(RouterId, RouterId)>> {
        let full = fabric.routers().len() == self.shape.positions();
        if !full || fabric.router_ids().any(|r| fabric.nodes_on(r).is_empty()) {
            return None;
        }
        let unserved = self.unserved(fabric, order)?;
        // The channels with which a leg ends and begins at every position, by dimension.
        let none = || vec![Vec::new(); self.shape.positions()];
        let mut ends: Vec<Vec<Vec<(LinkId, usize)>>> =
            self.strides.iter().map(|_| none()).collect();
        let mut begins = ends.clone();
        for (dim, ring) in self.rings() {
            let (n, stride) = (self.shape.dims[dim], self.strides[dim]);
            for a in 0..n {
                let begin = ring + a as usize * stride;
                // Shorter legs are parts of the longest one in their direction.
                let mut longest: [Option<Leg>; 2] = [None; 2];
                for b in (0..n).filter(|&b| b != a) {
                    let leg = self.leg(dim, ring, a, b);
                    if leg.closed {
                        continue;
                    }
                    let (before, crossed) = match leg.positive {
                        true => ((b + n - 1) % n, b < a),
                        false => ((b + 1) % n, b > a),
                    };
                    let last = self.link(order, (dim, ring), (before, leg.positive));
                    if let Some(last) = last {
                        let at = ring + b as usize * stride;
                        insert(&mut ends[dim][at], (last, usize::from(crossed)));
                    }
                    let longest = &mut longest[usize::from(leg.positive)];
                    if longest.is_none_or(|l| l.links < leg.links) {
                        *longest = Some(leg);
                    }
                }
                for leg in longest.into_iter().flatten() {
                    let mut last = None;
                    self.each_link(order, (dim, begin, leg), |link, crossed| {
                        let channel = (link, usize::from(crossed));
                        match last {
                            Some(before) => add(before, channel),
                            None => insert(&mut begins[dim][begin], channel),
                        }
                        last = Some(channel);
                    });
                }
            }
        }
        for (k, &before) in order.order().iter().enumerate() {
            for &after in &order.order()[k + 1..] {
                let turns = ends[usize::from(before)]
                    .iter()
                    .zip(&begins[usize::from(after)]);
                for (into, out) in turns {
                    let all = into.iter().flat_map(|&i| out.iter().map(move |&o| (i, o)));
                    all.for_each(|(i, o)| add(i, o));
                }
            }
        }
        Some(unserved)
    }
}

/// See [`Legs::uniform`].
pub(crate) struct Uniform {
    /// By link.
    pub(crate) load: Vec<f64>,
    /// Pairs of routers without a route.
    pub(crate) without: Vec<(RouterId, RouterId)>,
}

fn pairs(n: u32) -> impl Iterator<Item = (u32, u32)> {
    (0..n).flat_map(move |a| (0..n).map(move |b| (a, b)))
}

fn insert<T: PartialEq>(list: &mut Vec<T>, value: T) {
    if !list.contains(&value) {
        list.push(value);
    }
}
