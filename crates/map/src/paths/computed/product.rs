//! All shortest paths of machines whose routers are all joined along each dimension (HyperX), in closed form.
//!
//! A shortest path corrects each differing coordinate once, in any order. How traffic splits depends on which coordinates
//! differ, and not on their values, as long as the links of a dimension are equal. So the shares are stored once for every
//! set of dimensions, and a link is found by router, dimension and coordinate.

use crate::paths::lists::rounded;
use hopbyte_fabric::{End, Fabric, Family, NodeId, Routing};

/// Greatest number of dimensions: a path set of six has 192 links.
const DIMS: usize = 6;

/// A link of a path set: a set of coordinates that are corrected before it, the dimension that it corrects, and its share.
struct Step {
    corrected: u8,
    dim: u8,
    share: f64,
}

/// See the module documentation. Routers are numbered by their place among the sources.
pub(crate) struct Product {
    dims: Vec<Dimension>,
    /// Steps by set of differing dimensions.
    steps: Vec<Vec<Step>>,
    /// Links by row-major position × `width` + first of the dimension + coordinate.
    links: Vec<u32>,
    width: u32,
    /// Coordinates and position of every router.
    coord: Vec<[u16; DIMS]>,
    position: Vec<u32>,
}

struct Dimension {
    /// Difference of positions by coordinate.
    stride: u32,
    /// First of its links in a router's row.
    first: u32,
    /// Whether its links are hops.
    is_hop: bool,
}

impl Product {
    /// `None` unless routing is along all shortest paths on a complete machine of this kind, with equal links in each
    /// dimension, all in service.
    pub(crate) fn new(fabric: &Fabric, routing: &Routing, sources: &[NodeId]) -> Option<Self> {
        let shape = fabric.shape()?;
        let n = shape.positions();
        let is_complete = fabric.family() == Family::HyperX
            && matches!(routing, Routing::Minimal(_))
            && fabric.network_routers() == n
            && shape.dims.len() <= DIMS
            && shape.dims.iter().all(|&d| d <= u32::from(u16::MAX));
        if !is_complete {
            return None;
        }
        let mut dims = Vec::new();
        let (mut stride, mut width) = (n as u32, 0);
        for &size in &shape.dims {
            stride /= size;
            dims.push(Dimension {
                stride,
                first: width,
                is_hop: false,
            });
            width += size;
        }
        let mut links = vec![u32::MAX; n * width as usize];
        let mut capacity = vec![None; dims.len()];
        let mut found = 0;
        for router in fabric.router_ids().take(n) {
            let here = fabric.coord(router)?;
            let row = shape.position(here)? * width as usize;
            let mut last = 0;
            for &link in fabric.links_from(router) {
                let about = fabric.link(link);
                let End::Router(to) = about.to else { continue };
                let there = fabric.coord(to)?;
                let mut differing = (0..dims.len()).filter(|&d| here[d] != there[d]);
                let (dim, None) = (differing.next()?, differing.next()) else {
                    return None;
                };
                let at = row + (dims[dim].first + there[dim]) as usize;
                let alike = *capacity[dim].get_or_insert((about.capacity(), fabric.is_hop(link)));
                // In the order of dimensions, in which the routing lists a path set too.
                let fits = alike == (about.capacity(), fabric.is_hop(link)) && dim >= last;
                if !fits || !about.is_up() || links[at] != u32::MAX {
                    return None;
                }
                (links[at], last) = (link.0, dim);
                found += 1;
            }
        }
        let joined: usize = shape.dims.iter().map(|&d| d as usize - 1).sum();
        if found != n * joined {
            return None;
        }
        let rates: Vec<f64> = capacity.iter().map(|c| c.map_or(0.0, |c| c.0.0)).collect();
        for (dim, alike) in dims.iter_mut().zip(&capacity) {
            dim.is_hop = alike.is_some_and(|c| c.1);
        }
        let (mut coord, mut position) = (Vec::new(), Vec::new());
        for &source in sources {
            let at = fabric.coord(fabric.node(source).router)?;
            let mut one = [0; DIMS];
            one.iter_mut().zip(at).for_each(|(to, &c)| *to = c as u16);
            coord.push(one);
            position.push(shape.position(at)? as u32);
        }
        Some(Self {
            steps: (0..1 << dims.len()).map(|set| steps(set, &rates)).collect(),
            dims,
            links,
            width,
            coord,
            position,
        })
    }

    /// Calls `f(link, share)` for every link between two routers.
    #[inline]
    pub(crate) fn each(&self, a: u32, b: u32, mut f: impl FnMut(usize, f64)) {
        let (from, to) = (&self.coord[a as usize], &self.coord[b as usize]);
        // Positions after the correction of each set of coordinates.
        let mut at = [0u32; 1 << DIMS];
        at[0] = self.position[a as usize];
        let mut differing = 0;
        for (d, dim) in self.dims.iter().enumerate() {
            if from[d] != to[d] {
                let by =
                    (u32::from(to[d]).wrapping_sub(u32::from(from[d]))).wrapping_mul(dim.stride);
                for set in 0..1 << d {
                    at[set | 1 << d] = at[set].wrapping_add(by);
                }
                differing |= 1 << d;
            }
        }
        for step in &self.steps[differing] {
            let d = usize::from(step.dim);
            let row = at[usize::from(step.corrected)] * self.width;
            let link = self.links[(row + self.dims[d].first + u32::from(to[d])) as usize];
            f(link as usize, step.share);
        }
    }

    /// Hops between two routers.
    #[inline]
    pub(crate) fn hops(&self, a: u32, b: u32) -> f32 {
        let (from, to) = (&self.coord[a as usize], &self.coord[b as usize]);
        let dims = self.dims.iter().zip(from.iter().zip(to));
        dims.filter(|(dim, (x, y))| dim.is_hop && x != y).count() as f32
    }
}

/// The links of a path set that corrects a set of coordinates, in the order of [`Routing::shares`].
fn steps(differing: usize, rates: &[f64]) -> Vec<Step> {
    let mut all = Vec::new();
    let mut layer = vec![(0usize, 1.0)];
    while layer.first().is_some_and(|&(set, _)| set != differing) {
        let mut next: Vec<(usize, f64)> = Vec::new();
        for (set, share) in layer {
            let left = (0..rates.len()).filter(|d| (differing & !set) >> d & 1 == 1);
            let total: f64 = left.clone().map(|d| rates[d]).sum();
            for d in left {
                let part = share * (rates[d] / total);
                all.push(Step {
                    corrected: set as u8,
                    dim: d as u8,
                    share: rounded(part),
                });
                let then = set | 1 << d;
                match next.iter_mut().find(|(set, _)| *set == then) {
                    Some((_, sum)) => *sum += part,
                    None => next.push((then, part)),
                }
            }
        }
        layer = next;
    }
    all
}
