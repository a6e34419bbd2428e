//! Path sets of dragonflies, stored once for every class of pairs.
//!
//! A route between two groups consists of links inside the source's group, which depend on the source's router and the
//! target's group; of links beyond both groups, which depend on the groups; and of links inside the target's group,
//! which depend on the source's group and the target's router. Routes inside a group are stored by pair of routers. A group
//! that failed links divide counts as several, see [`GroupPaths::parts`].

use crate::paths::lists::Lists;
use crate::threads::each;
use hopbyte_fabric::routing::GroupPaths;
use hopbyte_fabric::{End, Fabric, LinkId, NodeId, Routing};
use std::collections::HashMap;

/// Greatest number of pairs of routers of the same group, and of routers and groups.
const MOST_PAIRS: usize = 1 << 25;

/// Rows of lists that are made side by side.
const ROWS: usize = 64;

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

/// A part of a route between two groups.
#[derive(Clone, Copy)]
enum Part {
    All,
    Out,
    Middle,
    Into,
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
        let group_of = |n: NodeId| paths.group(fabric.node(n).router);
        let (place, members) = divided(fabric, paths, sources)?;
        // No route, no list: see [`Self::joins`].
        let steps = |from: NodeId, to: NodeId, part: Part| {
            let mut all = Vec::new();
            if from != to {
                let _ = routing.shares(fabric, from, to, &mut all);
            }
            let own = [fabric.node(from).inject, fabric.node(to).eject];
            let ends = [group_of(from), group_of(to)];
            all.retain(|&(link, _)| {
                let inside = ends.map(|group| is_inside(paths, fabric, link, group));
                let is_in_part = match part {
                    Part::All => true,
                    Part::Out => inside[0],
                    Part::Middle => inside == [false; 2],
                    Part::Into => inside[1],
                };
                is_in_part && !own.contains(&link)
            });
            all
        };
        let groups = members.len();
        let first = |group: usize| sources[members[group][0] as usize];
        let is_in = |router: usize, group: usize| place[router].group as usize == group;
        let out = lists(sources.len(), groups, |router, group| {
            match is_in(router, group) {
                true => Vec::new(),
                false => steps(sources[router], first(group), Part::Out),
            }
        });
        let middle = lists(groups, groups, |from, to| match from == to {
            true => Vec::new(),
            false => steps(first(from), first(to), Part::Middle),
        });
        let into = lists(groups, sources.len(), |group, router| {
            match is_in(router, group) {
                true => Vec::new(),
                false => steps(first(group), sources[router], Part::Into),
            }
        });
        let mut local = Lists::new();
        for (router, &from) in sources.iter().enumerate() {
            for &to in &members[place[router].group as usize] {
                let steps = steps(from, sources[to as usize], Part::All);
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

fn is_inside(paths: &GroupPaths, fabric: &Fabric, link: LinkId, group: u32) -> bool {
    match (fabric.link(link).from, fabric.link(link).to) {
        (End::Router(a), End::Router(b)) => paths.group(a) == group && paths.group(b) == group,
        _ => false,
    }
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

/// Lists by row and column.
fn lists(
    rows: usize,
    columns: usize,
    list: impl Fn(usize, usize) -> Vec<(LinkId, f64)> + Sync,
) -> Lists {
    let mut all = Lists::new();
    let rows: Vec<usize> = (0..rows).collect();
    for part in rows.chunks(ROWS) {
        let row = |&row: &usize| {
            let mut lists = Lists::new();
            for column in 0..columns {
                let steps = list(row, column).into_iter();
                lists.push(steps.map(|(link, share)| (link.0, share)));
            }
            lists
        };
        let made = each(part.len(), &|number| row(&part[number]));
        made.iter().for_each(|lists| all.append(lists));
    }
    all
}
