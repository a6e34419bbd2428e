//! Routers as squares with their hosts inside.

use super::svg::{Layer, num};
use super::{Geometry, Looks};
use hopbyte_fabric::{LinkId, RouterId};
use std::fmt::Write;

/// A square as path data.
pub fn square([x, y, w, h]: [f32; 4]) -> String {
    let mut d = String::new();
    let (w, h) = (num(w), num(h));
    let _ = write!(d, "M{} {}h{w}v{h}h-{w}z", num(x), num(y));
    d
}

/// Records the places of a router and its nodes, and fills its square with two meters: the load of its host
/// links into (left) and out of (right) the network. Without loads the square stays empty.
pub fn router(
    looks: &Looks,
    router: RouterId,
    square: [f32; 4],
    layer: &mut Layer,
    geometry: &mut Geometry,
) {
    geometry.routers[router.index()] = square;
    let nodes = looks.fabric.nodes_on(router);
    for n in nodes {
        geometry.nodes[n.index()] = square;
    }
    if nodes.is_empty() || looks.loads.is_none() {
        return;
    }
    let inward: Vec<LinkId> = nodes.iter().map(|&n| looks.fabric.node(n).inject).collect();
    let outward: Vec<LinkId> = nodes.iter().map(|&n| looks.fabric.node(n).eject).collect();
    let [x, y, w, h] = square;
    let (inset, bar) = (0.06 * w, 0.4 * w);
    for (column, links) in [inward, outward].iter().enumerate() {
        let left = x + inset + column as f32 * (bar + 1.5 * inset);
        let meter = [left, y + inset, bar, h - 2.0 * inset];
        layer.meter(looks.worst_mark(links), meter);
        let middle = left + bar / 2.0;
        for link in links {
            geometry.links[link.index()] = [middle, meter[1], middle, meter[1] + meter[3]];
        }
    }
}

/// Whether the router has a node of the job.
pub fn has_job(looks: &Looks, router: RouterId) -> bool {
    let nodes = looks.fabric.nodes_on(router);
    nodes.iter().any(|n| looks.job.contains(n))
}
