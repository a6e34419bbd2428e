//! Dimension-order routes on complete grids, in closed form: no data per pair.
//!
//! The links of one ring in one direction have consecutive numbers. So a route is one range of links per
//! dimension, and the price of a range is the difference of two prefix sums. Prefix sums cover the ring twice,
//! so that a range across the wrap-around is contiguous.

use super::{Paths, Prices};
use crate::linear::GridDistances;
use crate::problem::Problem;
use hopbyte_fabric::{Direction, End, LinkId, Routing};
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
}

impl GridPaths {
    /// `None` unless the routing is dimension order over a complete grid: every router present and every link
    /// in service (other cases need the routing's own errors).
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
        if fabric.routers().len() != n
            || shape.dims.iter().any(|&d| d > 2_048)
            || !order.is_healthy()
            || !hosts_up
        {
            return None;
        }
        // Row-major position of every router id, and the inverse.
        let mut position_of = vec![0u32; n];
        let mut router_at = vec![0u32; n];
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
                        let router =
                            hopbyte_fabric::RouterId(router_at[(start + c * stride) as usize]);
                        let direction = Direction {
                            dim: d as u8,
                            positive: !down,
                        };
                        // A mesh has no wrap-around link and a ring of one has no link at all. No route uses
                        // them, so any number will do.
                        let link = order.link(router, direction);
                        let edge = !shape.wrap[d] && c == if down { 0 } else { size - 1 };
                        if link.is_none() && !edge && size > 1 {
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
                    let stretch = match order.direction(d, from, to) {
                        None => Stretch {
                            down: false,
                            start: 0,
                            length: 0,
                        },
                        Some(Direction { positive: true, .. }) => Stretch {
                            down: false,
                            start: from as u16,
                            length: ((to + size - from) % size) as u16,
                        },
                        // Routes in minus direction from c use the links of c, c-1, …: those from to+1 to from.
                        Some(_) => Stretch {
                            down: true,
                            start: ((to + 1) % size) as u16,
                            length: ((from + size - to) % size) as u16,
                        },
                    };
                    let base = if stretch.down { 2 * size as u16 + 1 } else { 0 };
                    dimension
                        .sums
                        .push((base + stretch.start, base + stretch.start + stretch.length));
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
        GridDistances::new(self.coord.clone(), self.dims.iter().map(table))
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
        let mut at = self.position[a];
        for (d, dim) in self.dims.iter().enumerate() {
            let (from, to) = (u32::from(self.coord[a][d]), u32::from(self.coord[b][d]));
            if from == to {
                continue;
            }
            let stretch = dim.stretch[(from * dim.size + to) as usize];
            let line = dim.links_at[at as usize] + if stretch.down { dim.size } else { 0 };
            let mut c = u32::from(stretch.start);
            for _ in 0..stretch.length {
                f((line + c) as usize, 1.0);
                c += 1;
                if c == dim.size {
                    c = 0;
                }
            }
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
