//! Assignment of tasks to groups of routers that are joined by few links (dragonflies).
//!
//! Traffic between two groups crosses the same few links regardless of the placement inside the groups. So the
//! assignment to groups alone determines the times of the links between groups, and the placement inside a
//! group those of its inner links. Two small searches replace a large one whose trials change loads everywhere.

use crate::near::Near;
use crate::paths::routers::{Between, RouterPaths};
use crate::paths::summed::Summed;
use crate::paths::table::Table;
use crate::problem::Problem;
use crate::schedule::Stop;
use crate::search::{Limits, Weights};
use hopbyte_fabric::{End, Fabric, Family, RouterId};

/// Minimum number of groups, and mean places of each, for which the search by group is worthwhile.
const LEAST: (usize, usize) = (3, 4);

/// Share of the links inside a group that traffic between groups may use: traffic inside the group needs some
/// too, and no assignment is even.
const EVEN: f64 = 0.62;

/// Groups of an allocation's places, and the routes between them.
pub(crate) struct Groups {
    /// Group of every place.
    pub(crate) of: Vec<u32>,
    /// The places of a place's group.
    pub(crate) beside: Near,
    /// Neighbourhoods of single groups.
    pub(crate) alone: Near,
    /// Routes between groups: the links between them, and one aggregate link for all links inside each group.
    pub(crate) paths: Summed<RouterPaths<Table>>,
    /// Weights of these links.
    pub(crate) weights: Weights,
}

impl Groups {
    /// `None` if routers form no groups, or too few, or if stopped.
    pub(crate) fn new<B: Between>(
        problem: &Problem<'_>,
        paths: &RouterPaths<B>,
        stop: Stop,
    ) -> Option<Self> {
        let fabric = problem.fabric;
        // The groups of a HyperX are its longest lines, which are joined by as many links as they have routers.
        if fabric.family() == Family::HyperX {
            return None;
        }
        let router_of = |place: usize| fabric.node(problem.node_at(place as u32)).router;
        let all = of_routers(fabric)?;
        let most = all.iter().max().map_or(0, |&g| g as usize + 1);
        let mut number = vec![u32::MAX; most];
        let mut count = 0;
        let of: Vec<u32> = (0..paths.routers().len())
            .map(|place| {
                let group = &mut number[all[router_of(place).index()] as usize];
                if *group == u32::MAX {
                    *group = count;
                    count += 1;
                }
                *group
            })
            .collect();
        let groups = count as usize;
        if groups < LEAST.0 || of.len() < groups * LEAST.1 {
            return None;
        }
        let links = Joined::new(problem, groups, |router| {
            number[all[router.index()] as usize]
        });
        let paths = Summed::new(links.between(paths, &of, stop)?, groups);
        Some(Self {
            beside: Near::beside(&of),
            alone: Near::beside(&(0..count).collect::<Vec<u32>>()),
            weights: links.weights,
            paths,
            of,
        })
    }
}

/// The group of every router: the first coordinate of a dragonfly, else the groups found by triangles.
pub(crate) fn of_routers(fabric: &Fabric) -> Option<Vec<u32>> {
    match fabric.family() {
        Family::Aries | Family::Slingshot | Family::Dragonfly => fabric
            .router_ids()
            .map(|r| fabric.coord(r)?.first().copied())
            .collect(),
        _ => by_triangles(fabric),
    }
}

/// Groups in which every router is joined to every other, found by their triangles: a link inside a group is
/// part of one triangle with each of the other routers, a link between groups of few. `None` if this gives one
/// group, or routers without a group.
fn by_triangles(fabric: &Fabric) -> Option<Vec<u32>> {
    let next: Vec<Vec<RouterId>> = fabric.router_ids().map(|r| neighbours(fabric, r)).collect();
    let closed = |a: usize, b: RouterId| {
        let many = &next[b.index()];
        next[a]
            .iter()
            .filter(|r| many.binary_search(r).is_ok())
            .count()
    };
    let most: Vec<usize> = (0..next.len())
        .map(|a| next[a].iter().map(|&b| closed(a, b)).max().unwrap_or(0))
        .collect();
    let inside = |a: usize, b: RouterId| {
        let triangles = closed(a, b);
        2 * triangles > most[a].max(most[b.index()])
    };
    let mut group = vec![u32::MAX; next.len()];
    let mut count = 0;
    for first in 0..next.len() {
        if group[first] != u32::MAX {
            continue;
        }
        group[first] = count;
        let mut found = vec![first];
        let mut at = 0;
        while at < found.len() {
            let router = found[at];
            at += 1;
            for &to in &next[router] {
                if group[to.index()] == u32::MAX && inside(router, to) {
                    group[to.index()] = count;
                    found.push(to.index());
                }
            }
        }
        if found.len() < 2 || found.len() == next.len() {
            return None;
        }
        count += 1;
    }
    Some(group)
}

/// Routers at the far ends of a router's links, in order of id.
fn neighbours(fabric: &Fabric, router: RouterId) -> Vec<RouterId> {
    let ends = fabric.links_from(router).iter().map(|&l| fabric.link(l).to);
    let mut list: Vec<RouterId> = ends
        .filter_map(|end| match end {
            End::Router(to) => Some(to).filter(|&to| to != router),
            End::Node(_) | End::Hosts(_) => None,
        })
        .collect();
    list.sort_unstable();
    list.dedup();
    list
}

/// Links between groups and aggregate links inside them, renumbered.
struct Joined {
    /// New number of every link.
    number: Vec<u32>,
    /// Load that a byte on a link of the fabric adds to its aggregate link.
    share: Vec<f64>,
    weights: Weights,
}

impl Joined {
    fn new(problem: &Problem<'_>, groups: usize, group: impl Fn(RouterId) -> u32) -> Self {
        let fabric = problem.fabric;
        let mut ways = Self {
            number: vec![u32::MAX; fabric.links().len()],
            share: vec![1.0; fabric.links().len()],
            weights: Weights {
                seconds_per_byte: vec![0.0; groups],
                counts: vec![true; groups],
                hop: vec![0.0; groups],
                pull: Vec::new(),
                leaves: Vec::new(),
                limits: Limits::NONE,
                floor: 0.0,
            },
        };
        // Number and capacity of the links inside every group.
        let mut inside = vec![(0usize, 0.0f64); groups];
        for link in fabric.link_ids() {
            let (End::Router(from), End::Router(to)) =
                (fabric.link(link).from, fabric.link(link).to)
            else {
                continue;
            };
            let capacity = problem.live_capacity(link);
            let at = group(from);
            if at == group(to) && at != u32::MAX {
                ways.number[link.index()] = at;
                inside[at as usize].0 += 1;
                inside[at as usize].1 += capacity;
            } else {
                ways.number[link.index()] = ways.weights.hop.len() as u32;
                let seconds = if capacity > 0.0 { 1.0 / capacity } else { 0.0 };
                ways.push(seconds, true, 1.0);
            }
        }
        // An excess on the aggregate link weighs as much as the same excess spread evenly over the group's
        // links.
        for (at, (links, capacity)) in inside.into_iter().enumerate() {
            let root = (links.max(1) as f64).sqrt();
            if capacity > 0.0 {
                ways.weights.seconds_per_byte[at] = root / (EVEN * capacity);
            }
            ways.weights.hop[at] = root;
        }
        for link in fabric.link_ids() {
            let number = ways.number[link.index()] as usize;
            if number < groups {
                ways.share[link.index()] = 1.0 / ways.weights.hop[number];
            }
        }
        // The host links of places, which no assignment to groups changes.
        ways.push(0.0, false, 0.0);
        ways.weights.pull.clone_from(&ways.weights.hop);
        ways.weights.leaves = vec![false; ways.weights.hop.len()];
        ways
    }

    fn push(&mut self, seconds: f64, counts: bool, hop: f64) {
        self.weights.seconds_per_byte.push(seconds);
        self.weights.counts.push(counts);
        self.weights.hop.push(hop);
    }

    /// Routes between groups: the mean over their routers.
    fn between<B: Between>(
        &self,
        paths: &RouterPaths<B>,
        of: &[u32],
        stop: Stop,
    ) -> Option<RouterPaths<Table>> {
        let links = self.weights.hop.len();
        let mut places: Vec<Vec<u32>> = Vec::new();
        let mut seen = 0;
        for (place, &router) in paths.routers().iter().enumerate() {
            if of[place] as usize == places.len() {
                places.push(Vec::new());
            }
            // Routers are numbered in the order of their first places.
            if router == seen {
                seen += 1;
                places[of[place] as usize].push(place as u32);
            }
        }
        let mut sums = vec![0.0; links];
        let list = |from: usize, to: usize| {
            if stop.is_set() {
                return None;
            }
            let mut used: Vec<u32> = Vec::new();
            let pairs = (places[from].len() * places[to].len()) as f64;
            paths.all(&places[from], &places[to], |link, share| {
                let number = self.number[link];
                if number != u32::MAX {
                    if sums[number as usize] == 0.0 {
                        used.push(number);
                    }
                    sums[number as usize] += share * self.share[link] / pairs;
                }
            });
            used.sort_unstable();
            let taken = used
                .iter()
                .map(|&l| (l, std::mem::take(&mut sums[l as usize])));
            Some(taken.collect())
        };
        RouterPaths::among(places.len(), links, list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paths::Paths;
    use crate::paths::tests::{on_all, stored};
    use hopbyte_fabric::{Allocation, Exchange, Routing, spec};
    use std::sync::atomic::AtomicBool;

    fn groups_of(text: &str) -> Option<Vec<u32>> {
        by_triangles(&spec::fabric(text).unwrap())
    }

    /// Triangles and coordinates give the same groups; tori, trees and single large groups have none.
    #[test]
    fn groups_show_in_the_links() {
        for text in ["dragonfly:33x8", "dragonfly:9x4:nodes=2", "slingshot:8x16"] {
            let fabric = spec::fabric(text).unwrap();
            assert_eq!(by_triangles(&fabric), of_routers(&fabric), "{text}");
        }
        for text in [
            "torus:4x4x4",
            "torus:3x3",
            "gemini:2x2x8",
            "fattree:k=4,levels=3",
            "slingshot:1x8",
        ] {
            assert_eq!(groups_of(text), None, "{text}");
        }
    }

    /// Lines of a HyperX are no groups, and a search that is stopped waits for none.
    #[test]
    fn groups_are_made_of_dragonflies_unless_stopped() {
        static STOP: AtomicBool = AtomicBool::new(true);
        let flag = Some(&STOP);
        let stopped = Stop { flag, until: None };
        for (machine, stop, found) in [
            ("hyperx:8x4x4", Stop::default(), false),
            ("dragonfly:9x4:nodes=2", Stop::default(), true),
            ("dragonfly:9x4:nodes=2", stopped, false),
        ] {
            let groups = |problem: &Problem<'_>| Groups::new(problem, &stored(problem), stop);
            let made = on_all(machine, &[], |problem| groups(problem).is_some());
            assert_eq!(made, found, "{machine}");
        }
    }

    /// Loads of the links between groups equal those of all routes, for any placement inside the groups.
    #[test]
    fn ways_between_groups_carry_what_routes_carry() {
        for text in ["dragonfly:9x4:nodes=2", "dragonfly:9x4:nodes=2,global=2"] {
            let fabric = spec::fabric(text).unwrap();
            let routing = Routing::default_for(&fabric);
            let nodes = fabric.node_ids().filter(|n| n.0 % 5 != 2).map(|n| (n, 1));
            let allocation = Allocation::new(&fabric, nodes.collect()).unwrap();
            let tasks = allocation.nodes().len() as u32;
            let flows = (0..tasks).map(|t| (t, (7 * t + 11) % tasks, f64::from(t + 1), 1));
            let exchange = Exchange::new(tasks as usize, flows).unwrap();
            let problem = Problem::new(&fabric, &routing, &exchange, &allocation);
            let paths = stored(&problem);
            let groups = Groups::new(&problem, &paths, Stop::default()).unwrap();
            let (mut far, mut near) = (0.0, 0.0);
            for (from, message) in exchange.iter() {
                let (a, b) = (groups.of[from as usize], groups.of[message.to as usize]);
                groups.paths.each(a, b, |link, share| {
                    let hop = groups.weights.hop[link];
                    *if hop == 1.0 { &mut far } else { &mut near } += message.bytes * share * hop;
                });
                paths.each(from, message.to, |link, share| {
                    let link = fabric.link(paths.link(link));
                    if let (End::Router(x), End::Router(y)) = (link.from, link.to) {
                        let apart = fabric.coord(x).unwrap()[0] != fabric.coord(y).unwrap()[0];
                        far -= if apart { message.bytes * share } else { 0.0 };
                    }
                });
            }
            assert!(far.abs() < 1e-6 && near > 0.0, "{text}: {far} {near}");
        }
    }
}
