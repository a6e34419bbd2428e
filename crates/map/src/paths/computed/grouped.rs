//! Path sets of dragonflies, stored once for every class of pairs.
//!
//! A route between two groups consists of links inside the source's group, which depend on the source's router and the
//! target's group; of links beyond both groups, which depend on the groups; and of links inside the target's group,
//! which depend on the source's group and the target's router. Routes inside a group are stored by pair of routers. A group
//! that failed links divide counts as several, see [`GroupPaths::parts`].

use crate::paths::lists::Lists;
use crate::threads::each;
use hopbyte_fabric::routing::{GroupPaths, merge};
use hopbyte_fabric::{Fabric, LinkId, NodeId, RouterId, Routing};
use std::collections::HashMap;

/// Greatest number of pairs of routers of the same group, and of routers and groups.
const MOST_PAIRS: usize = 1 << 25;

/// See the module documentation. Routers are numbered by their place among the sources.
pub(crate) struct Grouped {
    groups: usize,
    /// Group of every router, its number among those of the group, and the group's first list in `local`.
    place: Vec<Place>,
    /// By router × group, group × group, and group × router.
    out: Lists,
    middle: Lists,
    into: Lists,
    /// By first of the group + number × size of the group + number.
    local: Lists,
    /// Hops of these lists.
    hops: [Vec<f64>; 4],
}

#[derive(Clone, Copy)]
struct Place {
    group: u32,
    /// First list of routes from this router to those of its group.
    first: u32,
    number: u32,
}

/// Numbers of the lists of a pair: inside the group, or out, middle and into.
enum Parts {
    Local(usize),
    Far([usize; 3]),
}

impl Grouped {
    /// `None` if routes are not of this kind, or groups are so many or large that lists would not fit.
    pub(crate) fn new(fabric: &Fabric, routing: &Routing, sources: &[NodeId]) -> Option<Self> {
        let Routing::Groups(paths) = routing else {
            return None;
        };
        let (place, members) = divided(fabric, paths, sources)?;
        let groups = members.len();
        let router = |source: u32| fabric.node(sources[source as usize]).router;
        // No route, no list: see [`Self::joins`]. Two routers of one group differ in nothing else, so that every pair of
        // groups is looked at once.
        let part = |from: usize, to: usize| -> [Lists; 3] {
            let mut lists = [(); 3].map(|()| Lists::new());
            let crossing = (from != to)
                .then(|| paths.crossing(fabric, router(members[from][0]), router(members[to][0])))
                .flatten()
                .unwrap_or_default();
            let mut push = |number: usize, steps: Vec<(LinkId, f64)>| {
                lists[number].push(
                    merged(steps)
                        .into_iter()
                        .map(|(link, share)| (link.0, share)),
                );
            };
            for &a in &members[from] {
                let legs = crossing.exits.iter();
                push(
                    0,
                    inside(fabric, paths, legs.map(|&(exit, s)| ((router(a), exit), s))),
                );
            }
            push(1, crossing.steps(fabric, paths));
            for &b in &members[to] {
                let legs = crossing.entries.iter();
                push(
                    2,
                    inside(
                        fabric,
                        paths,
                        legs.map(|&(entry, s)| ((entry, router(b)), s)),
                    ),
                );
            }
            lists
        };
        let rows = each(groups, &|from| {
            let parts = (0..groups).map(|to| part(from, to));
            parts.collect::<Vec<_>>()
        });
        let (mut out, mut middle, mut into) = (Lists::new(), Lists::new(), Lists::new());
        for place in &place {
            for part in &rows[place.group as usize] {
                out.copy(&part[0], place.number as usize);
            }
        }
        for row in &rows {
            row.iter().for_each(|part| middle.append(&part[1]));
            for place in &place {
                into.copy(&row[place.group as usize][2], place.number as usize);
            }
        }
        let mut local = Lists::new();
        for (from, place) in (0..).zip(&place) {
            for &to in &members[place.group as usize] {
                let leg = [((router(from), router(to)), 1.0)];
                let steps = merged(inside(fabric, paths, leg.into_iter()));
                local.push(steps.into_iter().map(|(link, share)| (link.0, share)));
            }
        }
        let hops = [&out, &middle, &into, &local].map(|lists| {
            let sum = |at: usize| {
                let mut sum = 0.0;
                let is_hop = |l: usize| fabric.is_hop(LinkId::of(l));
                lists.each(at, |l, share| sum += if is_hop(l) { share } else { 0.0 });
                sum
            };
            (0..lists.count()).map(sum).collect()
        });
        Some(Self {
            groups,
            place,
            out,
            middle,
            into,
            local,
            hops,
        })
    }

    /// Whether lists of these ends fit.
    pub(crate) fn fits(fabric: &Fabric, paths: &GroupPaths, sources: &[NodeId]) -> bool {
        divided(fabric, paths, sources).is_some()
    }

    /// Whether there is a route between two routers; one between groups has a link beyond both.
    pub(crate) fn joins(&self, a: u32, b: u32) -> bool {
        match self.parts(a, b) {
            Parts::Local(at) => a == b || !self.local.is_empty(at),
            Parts::Far([_, middle, _]) => !self.middle.is_empty(middle),
        }
    }

    #[inline]
    fn parts(&self, a: u32, b: u32) -> Parts {
        let (from, to) = (self.place[a as usize], self.place[b as usize]);
        match from.group == to.group {
            true => Parts::Local((from.first + to.number) as usize),
            false => {
                let (x, y) = (from.group as usize, to.group as usize);
                Parts::Far([
                    a as usize * self.groups + y,
                    x * self.groups + y,
                    x * self.place.len() + b as usize,
                ])
            }
        }
    }

    /// Calls `f(link, share)` for every link between two routers.
    #[inline]
    pub(crate) fn each(&self, a: u32, b: u32, mut f: impl FnMut(usize, f64)) {
        match self.parts(a, b) {
            Parts::Local(at) => self.local.each(at, f),
            Parts::Far([out, middle, into]) => {
                self.out.each(out, &mut f);
                self.middle.each(middle, &mut f);
                self.into.each(into, f);
            }
        }
    }

    /// Calls `f(link, share)` for the links from each router of one group to each of another; false if they are not in one
    /// group each.
    pub(crate) fn all(&self, from: &[u32], to: &[u32], mut f: impl FnMut(usize, f64)) -> bool {
        let group = |routers: &[u32]| {
            let mut all = routers.iter().map(|&r| self.place[r as usize].group);
            let first = all.next()?;
            all.all(|group| group == first).then_some(first)
        };
        let (Some(x), Some(y)) = (group(from), group(to)) else {
            return false;
        };
        let Parts::Far([_, middle, _]) = self.parts(from[0], to[0]) else {
            return false;
        };
        let (sources, targets) = (from.len() as f64, to.len() as f64);
        for &a in from {
            let out = a as usize * self.groups + y as usize;
            self.out.each(out, |link, share| f(link, share * targets));
        }
        self.middle
            .each(middle, |link, share| f(link, share * sources * targets));
        for &b in to {
            let into = x as usize * self.place.len() + b as usize;
            self.into.each(into, |link, share| f(link, share * sources));
        }
        true
    }

    /// Adds flows, (from, to, bytes), to the loads of links: bytes on a list are summed first, and each list is gone
    /// through once.
    pub(crate) fn load(&self, flows: impl Iterator<Item = (u32, u32, f64)>, load: &mut [f64]) {
        let all = [&self.out, &self.middle, &self.into, &self.local];
        let mut sums = all.map(|lists| vec![0.0; lists.count()]);
        for (a, b, bytes) in flows {
            match self.parts(a, b) {
                Parts::Local(at) => sums[3][at] += bytes,
                Parts::Far(far) => (0..3).for_each(|part| sums[part][far[part]] += bytes),
            }
        }
        for (lists, sums) in all.iter().zip(&sums) {
            for (at, &bytes) in sums.iter().enumerate().filter(|sum| *sum.1 != 0.0) {
                lists.each(at, |link, share| load[link] += bytes * share);
            }
        }
    }

    /// `first` plus the sum of price × share.
    #[inline]
    pub(crate) fn price(&self, (a, b): (u32, u32), prices: &[f64], first: f64) -> f64 {
        match self.parts(a, b) {
            Parts::Local(at) => self.local.price(at, prices, first),
            Parts::Far([out, middle, into]) => {
                let sum = self.out.price(out, prices, first);
                let sum = self.middle.price(middle, prices, sum);
                self.into.price(into, prices, sum)
            }
        }
    }

    /// Hops between two routers.
    #[inline]
    pub(crate) fn hops(&self, a: u32, b: u32) -> f32 {
        let [of_out, of_middle, of_into, of_local] = &self.hops;
        let hops = match self.parts(a, b) {
            Parts::Local(at) => of_local[at],
            Parts::Far([out, middle, into]) => of_out[out] + of_middle[middle] + of_into[into],
        };
        hops as f32
    }
}

/// Links of legs inside groups.
fn inside(
    fabric: &Fabric,
    paths: &GroupPaths,
    legs: impl Iterator<Item = ((RouterId, RouterId), f64)>,
) -> Vec<(LinkId, f64)> {
    let mut steps = Vec::new();
    for (leg, share) in legs {
        paths.inside(fabric, leg, share, &mut steps);
    }
    steps
}

/// Every link once, in order.
fn merged(mut steps: Vec<(LinkId, f64)>) -> Vec<(LinkId, f64)> {
    merge(&mut steps);
    steps
}

/// [`places`] by the parts of groups; `None` if their lists would not fit.
fn divided(
    fabric: &Fabric,
    paths: &GroupPaths,
    sources: &[NodeId],
) -> Option<(Vec<Place>, Vec<Vec<u32>>)> {
    let parts = paths.parts();
    let (place, members) = places(sources, |n| parts[fabric.node(n).router.index()]);
    let pairs: usize = members.iter().map(|m| m.len() * m.len()).sum();
    let fits = pairs.max(sources.len() * members.len()) <= MOST_PAIRS;
    fits.then_some((place, members))
}

/// Places of routers in groups, and the routers of every group.
fn places(sources: &[NodeId], group_of: impl Fn(NodeId) -> u32) -> (Vec<Place>, Vec<Vec<u32>>) {
    let mut numbers: HashMap<u32, u32> = HashMap::new();
    let mut members: Vec<Vec<u32>> = Vec::new();
    let mut place: Vec<Place> = Vec::new();
    for (router, &source) in (0..).zip(sources) {
        let next = members.len() as u32;
        let group = *numbers.entry(group_of(source)).or_insert(next);
        if group == next {
            members.push(Vec::new());
        }
        let members = &mut members[group as usize];
        place.push(Place {
            group,
            first: 0,
            number: members.len() as u32,
        });
        members.push(router);
    }
    let mut first = 0;
    for place in &mut place {
        place.first = first;
        first += members[place.group as usize].len() as u32;
    }
    (place, members)
}
