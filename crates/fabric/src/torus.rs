//! Tori and meshes of any dimension, with equal links.

use crate::bounds::{Size, product, sum};
use crate::builder::{FabricBuilder, LinkSpec};
use crate::direction::Direction;
use crate::error::FabricError;
use crate::fabric::{End, Fabric, Family, Shape};
use crate::ids::RouterId;
use crate::units::{BytesPerSecond, Seconds};

/// Parameters of a regular grid network.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// Extent and wrap-around.
    pub shape: Shape,
    /// Nodes on each router.
    pub nodes_per_router: u32,
    /// Capacity of each link between routers, one direction.
    pub link: BytesPerSecond,
    /// Capacity of each node's link, one direction.
    pub host: BytesPerSecond,
    /// Latency of one hop.
    pub hop_latency: Seconds,
}

impl Grid {
    /// The size of the fabric that [`Grid::build`] creates, at most.
    pub(crate) fn size(&self) -> Size {
        let routers = product(self.shape.dims.iter().map(|&d| u64::from(d)));
        let nodes = routers.saturating_mul(self.nodes_per_router.into());
        let ways = 2 * self.shape.dims.len() as u64;
        Size {
            routers,
            nodes,
            links: sum([routers.saturating_mul(ways), nodes.saturating_mul(2)]),
            ports: ways + u64::from(self.nodes_per_router),
        }
    }

    /// Builds it. Routers are named `r0-0-0`, nodes `n0-0-0` (`n0-0-0-1` for several nodes per router); a ring of two
    /// has two cables between its routers, a ring of one none.
    pub fn build(&self, source: &str) -> Result<Fabric, FabricError> {
        self.size().check(source)?;
        let wraps = self.shape.wrap.iter().any(|&w| w);
        let mut b = FabricBuilder::new(if wraps { Family::Torus } else { Family::Mesh }, source);
        b.shape(self.shape.clone());
        let routers = self.shape.positions();
        let cable = b.kind("cable", false);
        for r in 0..routers {
            let coord = self.coord(r);
            b.router(format!("r{}", join(&coord)), &coord);
        }
        for r in 0..routers {
            let coord = self.coord(r);
            for index in 0..2 * coord.len() {
                let direction = Direction::of(index);
                if let Some(far) = self.neighbour(&coord, direction) {
                    let to = End::Router(RouterId::of(far));
                    let from = End::Router(RouterId::of(r));
                    let link = b.link(LinkSpec {
                        direction: Some(direction),
                        ..LinkSpec::new(from, to, cable, self.link, self.hop_latency)
                    });
                    b.port(link, index as u16, direction.opposite().index() as u16);
                }
            }
        }
        let host = b.kind("host", true);
        for r in 0..routers {
            let name = join(&self.coord(r));
            for n in 0..self.nodes_per_router {
                let name = if self.nodes_per_router == 1 {
                    format!("n{name}")
                } else {
                    format!("n{name}-{n}")
                };
                b.node_with_link(name.clone(), name, RouterId::of(r), host, self.host);
            }
        }
        b.finish()
    }

    /// Coordinate of a row-major position.
    fn coord(&self, position: usize) -> Vec<u32> {
        let mut rest = position;
        let mut coord: Vec<u32> = self
            .shape
            .dims
            .iter()
            .rev()
            .map(|&d| {
                let c = (rest % d as usize) as u32;
                rest /= d as usize;
                c
            })
            .collect();
        coord.reverse();
        coord
    }

    fn neighbour(&self, coord: &[u32], direction: Direction) -> Option<usize> {
        let dim = direction.dim as usize;
        let (n, c) = (self.shape.dims[dim], coord[dim]);
        let moved = match (direction.positive, self.shape.wrap[dim]) {
            (_, true) if n == 1 => return None,
            (true, true) => (c + 1) % n,
            (false, true) => (c + n - 1) % n,
            (true, false) => Some(c + 1).filter(|&m| m < n)?,
            (false, false) => c.checked_sub(1)?,
        };
        let mut far = coord.to_vec();
        far[dim] = moved;
        self.shape.position(&far)
    }
}

fn join(coord: &[u32]) -> String {
    coord
        .iter()
        .map(u32::to_string)
        .collect::<Vec<_>>()
        .join("-")
}
