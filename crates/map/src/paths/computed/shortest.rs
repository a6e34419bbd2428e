//! All shortest paths of any machine, found from the distances of its routers at every use.

use crate::paths::lists::rounded;
use hopbyte_fabric::routing::MinimalPaths;
use hopbyte_fabric::{End, Fabric, RouterId, Routing};

/// Routers of a layer that take no memory of their own.
const FEW: usize = 32;

/// See the module documentation.
pub(crate) struct Shortest<'a> {
    paths: &'a MinimalPaths,
    /// Links in service between routers: those of router r are `begins[r]..begins[r + 1]`, in the router's order.
    begins: Vec<u32>,
    links: Vec<Link>,
    /// Whether all links between routers are hops.
    are_hops: bool,
}

#[derive(Clone, Copy)]
struct Link {
    next: u32,
    id: u32,
    is_hop: bool,
    capacity: f64,
}

/// Routers that are equally far from the target, with their shares.
struct Layer {
    few: [(u32, f64); FEW],
    count: usize,
    more: Vec<(u32, f64)>,
}

impl Layer {
    fn new() -> Self {
        Self {
            few: [(0, 0.0); FEW],
            count: 0,
            more: Vec::new(),
        }
    }

    #[inline]
    fn clear(&mut self) {
        self.count = 0;
        self.more.clear();
    }

    #[inline]
    fn add(&mut self, router: u32, share: f64) {
        let few = &mut self.few[..self.count];
        if let Some(found) = few.iter_mut().chain(&mut self.more).find(|r| r.0 == router) {
            found.1 += share;
        } else if self.count < FEW {
            self.few[self.count] = (router, share);
            self.count += 1;
        } else {
            self.more.push((router, share));
        }
    }

    #[inline]
    fn iter(&self) -> impl Iterator<Item = (u32, f64)> + '_ {
        self.few[..self.count].iter().chain(&self.more).copied()
    }
}

impl<'a> Shortest<'a> {
    /// `None` if routing is not along all shortest paths.
    pub(crate) fn new(fabric: &Fabric, routing: &'a Routing) -> Option<Self> {
        let Routing::Minimal(paths) = routing else {
            return None;
        };
        let (mut begins, mut links, mut are_hops) = (vec![0], Vec::new(), true);
        for router in fabric.router_ids() {
            for &id in fabric.links_from(router) {
                let link = fabric.link(id);
                let End::Router(next) = link.to else { continue };
                if link.is_up() {
                    let is_hop = fabric.is_hop(id);
                    are_hops &= is_hop;
                    links.push(Link {
                        next: next.0,
                        id: id.0,
                        is_hop,
                        capacity: link.capacity().0,
                    });
                }
            }
            begins.push(links.len() as u32);
        }
        Some(Self {
            paths,
            begins,
            links,
            are_hops,
        })
    }

    #[inline]
    fn links_of(&self, router: u32) -> &[Link] {
        let at = router as usize;
        &self.links[self.begins[at] as usize..self.begins[at + 1] as usize]
    }

    /// Calls `f(link, share)` for every link between two routers; not at all without a path.
    #[inline]
    pub(crate) fn each(&self, from: RouterId, to: RouterId, mut f: impl FnMut(usize, f64)) {
        self.walk(from, to, |link, share| f(link.id as usize, rounded(share)));
    }

    #[inline]
    fn walk(&self, from: RouterId, to: RouterId, mut f: impl FnMut(&Link, f64)) {
        let row = self.paths.distances_to(to);
        let far = row[from.index()];
        if far == u16::MAX {
            return;
        }
        let (mut layer, mut next) = (Layer::new(), Layer::new());
        layer.add(from.0, 1.0);
        for far in (0..far).rev() {
            next.clear();
            for (at, share) in layer.iter() {
                let nearer = self
                    .links_of(at)
                    .iter()
                    .filter(|l| row[l.next as usize] == far);
                let total: f64 = nearer.clone().map(|l| l.capacity).sum();
                for link in nearer {
                    let part = share * (link.capacity / total);
                    f(link, part);
                    if far > 0 {
                        next.add(link.next, part);
                    }
                }
            }
            std::mem::swap(&mut layer, &mut next);
        }
    }

    /// Whether there is a path.
    pub(crate) fn joins(&self, from: RouterId, to: RouterId) -> bool {
        self.paths.distance(from, to).is_some()
    }

    /// Hops between two routers; 0 without a path.
    #[inline]
    pub(crate) fn hops(&self, from: RouterId, to: RouterId) -> f32 {
        if self.are_hops {
            return self.paths.distance(from, to).map_or(0.0, f32::from);
        }
        let mut sum = 0.0;
        self.walk(from, to, |link, share| {
            sum += if link.is_hop { rounded(share) } else { 0.0 }
        });
        sum as f32
    }
}
