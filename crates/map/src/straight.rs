//! Loads of many flows in dimension order on a whole grid.
//!
//! A route is one straight leg for each dimension. The bytes of all legs between two routers of a line are summed first,
//! and each sum is followed link by link once: a flow costs an addition for each dimension instead of one for each hop.

use crate::problem::Problem;
use hopbyte_fabric::{Direction, LinkId, Routing};

/// Sums of legs for each flow up to which flows are counted by legs.
const SUMS: usize = 4;

const DIMS: usize = Direction::MAX_DIMENSIONS;

/// A dimension of the grid.
struct Dimension {
    number: u8,
    size: usize,
    stride: usize,
    /// Where its sums begin: by the position of the leg's first router and the coordinate of its last.
    first: usize,
    /// Hops, and whether they go in positive direction, by from × size + to.
    ways: Vec<(u32, bool)>,
}

/// The legs of a problem's routes.
pub(crate) struct Straight {
    /// In the order of the route.
    dims: Vec<Dimension>,
    /// Position of every place's router, and its coordinates in the order of `dims`.
    position: Vec<usize>,
    coord: Vec<[u16; DIMS]>,
    /// Link by position and [`Direction::index`].
    links: Vec<Option<LinkId>>,
    sums: usize,
}

impl Straight {
    /// `None` unless all links of a grid with dimension order are up and the flows are so many that this is faster.
    pub(crate) fn new(problem: &Problem<'_>, flows: usize) -> Option<Self> {
        let fabric = problem.fabric;
        let Routing::DimensionOrder(order) = problem.routing else {
            return None;
        };
        let shape = order.shape();
        let lines: usize = shape.dims.iter().map(|&d| d as usize).sum();
        let sums = shape.positions().saturating_mul(lines);
        if !order.is_healthy() || sums > SUMS * flows {
            return None;
        }
        let mut dims = Vec::new();
        for &number in order.order() {
            let d = usize::from(number);
            let size = shape.dims[d];
            let way = |from: u32, to: u32| match order.direction(d, from, to) {
                None => (0, true),
                Some(way) if way.positive => ((to + size - from) % size, true),
                Some(_) => ((from + size - to) % size, false),
            };
            let pairs = (0..size).flat_map(|from| (0..size).map(move |to| (from, to)));
            let after = |d: &Dimension| d.first + shape.positions() * d.size;
            dims.push(Dimension {
                number,
                size: size as usize,
                stride: shape.dims[d + 1..].iter().product::<u32>() as usize,
                first: dims.last().map_or(0, after),
                ways: pairs.map(|(from, to)| way(from, to)).collect(),
            });
        }
        let mut straight = Self {
            dims,
            position: Vec::new(),
            coord: Vec::new(),
            links: vec![None; shape.positions() * 2 * shape.dims.len()],
            sums,
        };
        for router in fabric.router_ids() {
            let first = shape.position(fabric.coord(router)?)? * 2 * shape.dims.len();
            for way in (0..2 * shape.dims.len()).map(Direction::of) {
                let link = order.link(router, way);
                if link.is_some_and(|l| !fabric.is_hop(l)) {
                    return None;
                }
                straight.links[first + way.index()] = link;
            }
        }
        for &(node, _) in problem.allocation.nodes() {
            let node = fabric.node(node);
            if ![node.inject, node.eject]
                .iter()
                .all(|&l| fabric.link(l).is_up())
            {
                return None;
            }
            straight.place(shape.position(fabric.coord(node.router)?)?);
        }
        Some(straight)
    }

    /// Adds a place on a router.
    fn place(&mut self, position: usize) {
        let mut coord = [0; DIMS];
        for (c, dim) in coord.iter_mut().zip(&self.dims) {
            *c = (position / dim.stride % dim.size) as u16;
        }
        self.position.push(position);
        self.coord.push(coord);
    }

    /// Sums of no flows.
    pub(crate) fn none(&self) -> Vec<f64> {
        vec![0.0; self.sums]
    }

    /// Adds a flow between two places to the sums, and returns its hops between routers.
    #[inline]
    pub(crate) fn add(&self, (a, b): (u32, u32), bytes: f64, sums: &mut [f64]) -> u32 {
        let (a, b) = (a as usize, b as usize);
        let (mut at, mut hops) = (self.position[a], 0);
        for (d, dim) in self.dims.iter().enumerate() {
            let (from, to) = (usize::from(self.coord[a][d]), usize::from(self.coord[b][d]));
            if from != to {
                sums[dim.first + at * dim.size + to] += bytes;
                hops += dim.ways[from * dim.size + to].0;
                at = at + to * dim.stride - from * dim.stride;
            }
        }
        hops
    }

    /// Adds the sums of all flows to the links of their legs.
    pub(crate) fn follow(&self, sums: &[f64], link_bytes: &mut [f64]) {
        let positions = self.links.len() / (2 * self.dims.len()).max(1);
        for dim in &self.dims {
            let sums = sums[dim.first..].chunks(dim.size).take(positions);
            for (at, sums) in sums.enumerate() {
                let legs = sums.iter().enumerate().filter(|leg| *leg.1 > 0.0);
                for (to, &bytes) in legs {
                    self.leg(dim, at, to, |link| link_bytes[link.index()] += bytes);
                }
            }
        }
    }

    /// Calls `f` for every link from a position to a coordinate of its line.
    fn leg(&self, dim: &Dimension, at: usize, to: usize, mut f: impl FnMut(LinkId)) {
        let from = at / dim.stride % dim.size;
        let line = at - from * dim.stride;
        let (hops, positive) = dim.ways[from * dim.size + to];
        let way = Direction {
            dim: dim.number,
            positive,
        };
        let mut c = from;
        for _ in 0..hops {
            let router = line + c * dim.stride;
            if let Some(link) = self.links[router * 2 * self.dims.len() + way.index()] {
                f(link);
            }
            c = match positive {
                true if c + 1 == dim.size => 0,
                true => c + 1,
                false if c == 0 => dim.size - 1,
                false => c - 1,
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Straight;
    use crate::evaluate::evaluate;
    use crate::problem::Problem;
    use hopbyte_fabric::random::Random;
    use hopbyte_fabric::wire::Overhead;
    use hopbyte_fabric::{Allocation, Exchange, NodeId, Placement, Routing, spec};

    #[test]
    fn legs_load_the_links_of_the_routes() {
        for machine in ["gemini:4x3x6", "torus:5x4", "mesh:4x6x3"] {
            let fabric = spec::fabric(machine).unwrap();
            let routing = Routing::default_for(&fabric);
            let nodes = fabric.node_ids().map(|n| (n, 1)).collect();
            let allocation = Allocation::new(&fabric, nodes).unwrap();
            let exchange = Exchange::empty(2);
            let problem = Problem::new(&fabric, &routing, &exchange, &allocation);
            assert!(Straight::new(&problem, 10).is_none(), "walked if few");
            let straight = Straight::new(&problem, 10_000).unwrap();
            let mut sums = straight.none();
            let (mut found, mut expected) = (
                vec![0.0; fabric.links().len()],
                vec![0.0; fabric.links().len()],
            );
            let mut rng = Random::new(3);
            for _ in 0..2_000 {
                let [a, b] = [(); 2].map(|()| rng.below(fabric.nodes().len()) as u32);
                let bytes = rng.below(1_000) as f64;
                let hops = straight.add((a, b), bytes, &mut sums);
                let (a, b) = (problem.node_at(a), problem.node_at(b));
                let mut route = Vec::new();
                routing.route(&fabric, a, b, &mut route).unwrap();
                let (source, target) = (fabric.node(a), fabric.node(b));
                route.retain(|&l| l != source.inject && l != target.eject);
                assert_eq!(hops as usize, route.len());
                route.iter().for_each(|l| expected[l.index()] += bytes);
            }
            straight.follow(&sums, &mut found);
            assert_eq!(found, expected, "{machine}");
        }
    }

    #[test]
    fn many_flows_cost_what_their_routes_cost() {
        for machine in ["gemini:6x5x6", "torus:20x15:nodes=1", "mesh:7x9x5:nodes=1"] {
            let fabric = spec::fabric(machine).unwrap();
            let routing = Routing::default_for(&fabric);
            let n = fabric.nodes().len() as u32;
            let nodes = fabric.node_ids().map(|n| (n, 1)).collect();
            let alloc = Allocation::new(&fabric, nodes).unwrap();
            let pairs = (0..n).flat_map(|a| (0..n).map(move |b| (a, b, f64::from((a * b) % 7), 1)));
            let exchange = Exchange::new(n as usize, pairs).unwrap();
            assert!(exchange.pairs() > 1 << 16, "as many as are counted by legs");
            let loads = Overhead::named("gemini", &fabric).unwrap();
            let loads = loads.loads(&fabric, &exchange).unwrap().exchange.unwrap();
            let mut problem = Problem::new(&fabric, &routing, &exchange, &alloc);
            problem.loads = Some(&loads);
            let placement = Placement::in_order(&alloc, n as usize).unwrap();
            let found = evaluate(&problem, &placement).unwrap();
            let mut link_bytes = vec![0.0; fabric.links().len()];
            let mut hop_bytes = 0.0;
            let mut route = Vec::new();
            for (exchange, is_payload) in [(&exchange, true), (&loads, false)] {
                for (from, message) in exchange.iter() {
                    route.clear();
                    let ends = (NodeId(from), NodeId(message.to));
                    routing.route(&fabric, ends.0, ends.1, &mut route).unwrap();
                    for &link in &route {
                        if !is_payload {
                            link_bytes[link.index()] += message.bytes;
                        } else if fabric.is_hop(link) {
                            hop_bytes += message.bytes;
                        }
                    }
                }
            }
            assert_eq!(found.hop_bytes, hop_bytes, "{machine}");
            let near = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-12 * b;
            assert!(
                found.link_bytes.iter().zip(&link_bytes).all(near),
                "{machine}"
            );
        }
    }
}
