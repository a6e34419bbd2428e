//! HyperX: routers on a grid, all-to-all along each dimension.

use crate::bounds::{Size, product, sum};
use crate::builder::{FabricBuilder, LinkSpec};
use crate::direction::Direction;
use crate::error::FabricError;
use crate::fabric::{End, Fabric, Family, Shape};
use crate::ids::RouterId;
use crate::units::{BytesPerSecond, Seconds};

/// The size of the fabric that [`build`] creates.
pub(crate) fn size(dims: &[u32], nodes: u32) -> Size {
    let routers = product(dims.iter().map(|&d| u64::from(d)));
    let per_router: u64 = dims.iter().map(|&d| u64::from(d)).sum();
    let hosts = routers.saturating_mul(nodes.into());
    Size {
        routers,
        nodes: hosts,
        links: sum([
            routers.saturating_mul(per_router - dims.len() as u64),
            hosts.saturating_mul(2),
        ]),
        ports: per_router + u64::from(nodes),
    }
}

/// Builds a HyperX (Ahn et al. 2009) with equal links and `nodes` nodes on each router. Routers are named `r0-0`,
/// nodes `r0-0-n1`; kinds have the name of the dimension (`X`, `Y`, …).
pub fn build(
    dims: &[u32],
    nodes: u32,
    link: BytesPerSecond,
    host: BytesPerSecond,
    hop_latency: Seconds,
    source: &str,
) -> Result<Fabric, FabricError> {
    size(dims, nodes).check_distances(source)?;
    let mut b = FabricBuilder::new(Family::HyperX, source);
    let shape = Shape {
        dims: dims.to_vec(),
        wrap: vec![false; dims.len()],
    };
    let routers = shape.positions() as u32;
    b.shape(shape);
    let coord = |r: u32| -> Vec<u32> {
        let mut rest = r;
        let mut c: Vec<u32> = dims
            .iter()
            .rev()
            .map(|d| {
                let at = rest % d;
                rest /= d;
                at
            })
            .collect();
        c.reverse();
        c
    };
    let name = |r: u32| {
        format!(
            "r{}",
            coord(r)
                .iter()
                .map(u32::to_string)
                .collect::<Vec<_>>()
                .join("-")
        )
    };
    for r in 0..routers {
        b.router(name(r), &coord(r));
    }
    let mut stride = routers;
    let mut first_port = 0u16;
    for (dim, &n) in dims.iter().enumerate() {
        stride /= n;
        let kind = b.kind(&Direction::letter(dim).to_string(), false);
        for r in 0..routers {
            let here = r / stride % n;
            for there in (0..n).filter(|&t| t != here) {
                let peer = r + there * stride - here * stride;
                let (from, to) = (End::Router(RouterId(r)), End::Router(RouterId(peer)));
                let id = b.link(LinkSpec::new(from, to, kind, link, hop_latency));
                b.port(id, first_port + there as u16, first_port + here as u16);
            }
        }
        first_port += n as u16;
    }
    let kind = b.kind("host", true);
    for r in 0..routers {
        for n in 0..nodes {
            let node = format!("{}-n{n}", name(r));
            b.node_with_link(node.clone(), node, RouterId(r), kind, host);
        }
    }
    b.finish()
}
