//! All shortest paths as one weighted path set.

use super::together::{TOGETHER, Together};
use super::unroutable::{Dead, Unroutable, hosts_up};
use crate::fabric::{End, Fabric};
use crate::ids::{LinkId, NodeId, RouterId};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Distance between disconnected routers.
const FAR: u16 = u16::MAX;

/// Shortest paths between routers over links that are up. Traffic splits at every router over the links of shortest
/// paths, in proportion to their capacity: the expectation of an adaptive minimal router without other traffic, and
/// the usual assumption without tables.
#[derive(Clone, Debug)]
pub struct MinimalPaths {
    routers: usize,
    /// Routers one hop before each, once each.
    into: Vec<Vec<RouterId>>,
    /// Hops to each destination router, destination-major, found when first asked for.
    distance: OnceLock<Arc<Vec<u16>>>,
    /// Links between routers, in service or not, with their receivers: those of router r are
    /// `begins[r]..begins[r + 1]`, in the order of the router's links and by receiver.
    links: Vec<(RouterId, LinkId)>,
    sorted: Vec<(RouterId, LinkId)>,
    begins: Vec<u32>,
}

impl MinimalPaths {
    /// Over all links. Distances between all routers take two bytes per pair, from the first question on.
    pub fn new(fabric: &Fabric) -> Self {
        Self::over(fabric, |_| true)
    }

    /// Distances over the links accepted by `keep`.
    pub fn over(fabric: &Fabric, keep: impl Fn(LinkId) -> bool) -> Self {
        let n = fabric.routers().len();
        let mut into: Vec<Vec<RouterId>> = vec![Vec::new(); n];
        for id in fabric
            .link_ids()
            .filter(|&l| fabric.link(l).is_up() && keep(l))
        {
            if let (End::Router(a), End::Router(b)) = (fabric.link(id).from, fabric.link(id).to) {
                into[b.index()].push(a);
            }
        }
        for list in &mut into {
            list.sort_unstable();
            list.dedup();
        }
        let (links, begins) = links(fabric);
        let mut sorted = links.clone();
        for range in begins.windows(2) {
            let range = range[0] as usize..range[1] as usize;
            sorted[range].sort_by_key(|&(next, _)| next);
        }
        Self {
            routers: n,
            into,
            distance: OnceLock::new(),
            links,
            sorted,
            begins,
        }
    }

    /// All distances. They are found on the thread that asks first: others of its pool may wait for them meanwhile.
    fn all(&self) -> &[u16] {
        let found = self
            .distance
            .get_or_init(|| Arc::new(distances(&self.into)));
        found.as_slice()
    }

    /// Positions of a router's links.
    fn range(&self, at: RouterId) -> Range<usize> {
        self.begins[at.index()] as usize..self.begins[at.index() + 1] as usize
    }

    /// The links in service from a router to a neighbour, in the order of the router's links.
    fn between<'a>(
        &'a self,
        fabric: &'a Fabric,
        at: RouterId,
        to: RouterId,
    ) -> impl Iterator<Item = LinkId> + Clone + 'a {
        let all = &self.sorted[self.range(at)];
        let begin = all.partition_point(|&(next, _)| next < to);
        let count = all[begin..].partition_point(|&(next, _)| next == to);
        let links = all[begin..begin + count].iter().map(|&(_, link)| link);
        links.filter(|&link| fabric.link(link).is_up())
    }

    /// Hops between two routers, or `None` without a path.
    #[inline]
    pub fn distance(&self, from: RouterId, to: RouterId) -> Option<u16> {
        let d = self.all()[to.index() * self.routers + from.index()];
        (d != FAR).then_some(d)
    }

    /// Hops of all routers to one, by router; `u16::MAX` without a path.
    pub fn distances_to(&self, to: RouterId) -> &[u16] {
        &self.all()[to.index() * self.routers..][..self.routers]
    }

    /// Links from `at` on shortest paths to `to`, with their receiving routers.
    pub fn nearer<'a>(
        &'a self,
        fabric: &'a Fabric,
        at: RouterId,
        to: RouterId,
    ) -> impl Iterator<Item = (LinkId, RouterId)> + Clone + 'a {
        let row = &self.all()[to.index() * self.routers..][..self.routers];
        // Never the distance of a router: `FAR` is none, and a router is not nearer to itself.
        let wanted = match row[at.index()] {
            FAR | 0 => None,
            here => Some(here - 1),
        };
        let links = self.links[self.range(at)].iter();
        links
            .filter(move |(next, link)| {
                Some(row[next.index()]) == wanted && fabric.link(*link).is_up()
            })
            .map(|&(next, link)| (link, next))
    }

    /// The link with the lowest id among those on shortest paths.
    pub fn next(&self, fabric: &Fabric, at: RouterId, to: RouterId) -> Option<LinkId> {
        self.nearer(fabric, at, to).map(|(l, _)| l).min()
    }

    /// See [`super::Routing::shares`].
    pub fn shares(
        &self,
        fabric: &Fabric,
        from: NodeId,
        to: NodeId,
        out: &mut Vec<(LinkId, f64)>,
    ) -> Result<(), Unroutable> {
        if from == to {
            return Ok(());
        }
        let (source, target) = hosts_up(fabric, from, to)?;
        if self.distance(source.router, target.router).is_none() {
            return Err(Unroutable {
                from,
                to,
                at: source.router,
                reason: Dead::NoEntry,
            });
        }
        out.push((source.inject, 1.0));
        self.spread(fabric, source.router, target.router, 1.0, out);
        out.push((target.eject, 1.0));
        Ok(())
    }

    /// Adds the links of all shortest paths between two routers, with traffic `weight` split over them; returns false
    /// without a path.
    pub(super) fn spread(
        &self,
        fabric: &Fabric,
        from: RouterId,
        to: RouterId,
        weight: f64,
        out: &mut Vec<(LinkId, f64)>,
    ) -> bool {
        if self.distance(from, to).is_none() {
            return false;
        }
        let mut layer: Vec<(RouterId, f64)> = vec![(from, weight)];
        while layer.first().is_some_and(|&(r, _)| r != to) {
            let mut next_layer: Vec<(RouterId, f64)> = Vec::new();
            // All routers of a layer are equally far from the end. The last hop, often the only one, needs no search.
            if self.distance(layer[0].0, to) == Some(1) {
                for (at, share) in layer {
                    let links = self.between(fabric, at, to);
                    let capacity = |link| fabric.link(link).capacity().0;
                    let total: f64 = links.clone().map(capacity).sum();
                    out.extend(links.map(|link| (link, share * (capacity(link) / total))));
                }
                return true;
            }
            for (at, share) in layer {
                let nearer = self.nearer(fabric, at, to);
                let total: f64 = nearer
                    .clone()
                    .map(|(l, _)| fabric.link(l).capacity().0)
                    .sum();
                for (link, next) in nearer {
                    let part = share * (fabric.link(link).capacity().0 / total);
                    out.push((link, part));
                    match next_layer.iter_mut().find(|(r, _)| *r == next) {
                        Some((_, sum)) => *sum += part,
                        None => next_layer.push((next, part)),
                    }
                }
            }
            layer = next_layer;
        }
        true
    }
}

/// Hops from every router to each, destination-major: breadth-first searches to [`TOGETHER`] destinations at a time.
fn distances(into: &[Vec<RouterId>]) -> Vec<u16> {
    let n = into.len();
    let mut distance = vec![FAR; n * n];
    let mut searches = Together::new(n);
    let before = |at: u32| into[at as usize].iter().map(|from| (from.0, ()));
    for (chunk, rows) in distance.chunks_mut((n * TOGETHER).max(1)).enumerate() {
        let first = chunk * TOGETHER;
        let last = n.min(first + TOGETHER);
        let mut ends = searches.begin((first..last).map(|to| to as u32));
        for hops in 0..FAR {
            for &(from, mut bits) in &ends {
                while bits != 0 {
                    rows[bits.trailing_zeros() as usize * n + from as usize] = hops;
                    bits &= bits - 1;
                }
            }
            ends = searches.step(ends.iter(), before, |(), _| {});
            if ends.is_empty() {
                break;
            }
        }
    }
    distance
}

/// Links between routers by sender, with their receivers, and the position of each sender's first.
fn links(fabric: &Fabric) -> (Vec<(RouterId, LinkId)>, Vec<u32>) {
    let (mut all, mut begins) = (Vec::new(), vec![0]);
    for at in fabric.router_ids() {
        for &link in fabric.links_from(at) {
            if let End::Router(next) = fabric.link(link).to {
                all.push((next, link));
            }
        }
        begins.push(all.len() as u32);
    }
    (all, begins)
}
