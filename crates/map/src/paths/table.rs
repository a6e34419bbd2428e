//! Routes between routers as stored lists.

use super::lists::Lists;
use super::routers::{Between, Ends};
use crate::problem::{MapError, Problem};
use crate::schedule::Stop;
use crate::threads::each;
use hopbyte_fabric::{LinkId, NodeId, Unroutable};

/// Maximum number of stored links (8 bytes each with their shares), by the estimate from a sample.
pub(super) const MAX_ENTRIES: usize = 1 << 27;

/// The same while they are stored: an estimate that is a little too low must not end in a refusal after the work.
const HARD_LIMIT: usize = MAX_ENTRIES + MAX_ENTRIES / 8;

/// Sources whose lists are made side by side.
const SOURCES: usize = 64;

/// Lists by router and column.
pub(crate) struct Table {
    columns: usize,
    /// By router × columns + column.
    lists: Lists,
    hops: Vec<f32>,
}

/// The lists of one source, and its pairs without a route.
struct Part {
    lists: Lists,
    dead: Vec<Unroutable>,
}

impl Part {
    fn of(problem: &Problem<'_>, nodes: &[NodeId], source: NodeId, targets: &[NodeId]) -> Self {
        let (mut lists, mut dead, mut shares) = (Lists::new(), Vec::new(), Vec::new());
        for &to in targets {
            shares.clear();
            // A place has no route to itself; another place on its router needs the list.
            let from = if source == to {
                neighbour(problem, nodes, to).unwrap_or(source)
            } else {
                source
            };
            let routed = problem
                .routing
                .shares(problem.fabric, from, to, &mut shares);
            dead.extend(routed.err());
            let own = [
                problem.fabric.node(from).inject,
                problem.fabric.node(to).eject,
            ];
            let steps = shares.iter().filter(|step| !own.contains(&step.0));
            lists.push(steps.map(|&(link, share)| (link.0, share)));
        }
        Self { lists, dead }
    }
}

impl Table {
    /// The routes of all pairs; `None` if stopped.
    pub(super) fn new(
        problem: &Problem<'_>,
        ends: &Ends,
        targets: &[NodeId],
        stop: Stop,
    ) -> Result<Option<Self>, MapError> {
        let (mut lists, mut dead) = (Lists::new(), Vec::new());
        for sources in ends.sources.chunks(SOURCES) {
            if stop.is_set() {
                return Ok(None);
            }
            let part = |&from: &NodeId| Part::of(problem, &ends.nodes, from, targets);
            let parts = each(sources.len(), &|number| part(&sources[number]));
            for mut part in parts {
                lists.append(&part.lists);
                if lists.entries() > HARD_LIMIT {
                    return Err(ends.too_large(problem));
                }
                dead.append(&mut part.dead);
            }
        }
        if !dead.is_empty() {
            return Err(MapError::unroutable(problem.fabric, dead));
        }
        let hops = |at: usize| {
            let is_hop = |l: usize| problem.fabric.is_hop(LinkId::of(l));
            let mut sum = 0.0;
            lists.each(at, |l, share| sum += if is_hop(l) { share } else { 0.0 });
            sum as f32
        };
        Ok(Some(Self {
            columns: targets.len(),
            hops: (0..lists.count()).map(hops).collect(),
            lists,
        }))
    }

    /// `list(from, to)` for all pairs of routers; `None` if one is, or if they would take too much memory.
    pub(super) fn among(
        routers: usize,
        mut list: impl FnMut(usize, usize) -> Option<Vec<(u32, f64)>>,
    ) -> Option<Self> {
        let mut lists = Lists::new();
        for from in 0..routers {
            for to in 0..routers {
                lists.push(if from == to {
                    Vec::new()
                } else {
                    list(from, to)?
                });
            }
            if lists.entries() > MAX_ENTRIES {
                return None;
            }
        }
        Some(Self {
            columns: routers,
            lists,
            hops: Vec::new(),
        })
    }

    /// The same with one column per router, given the router of every column; `None` if a route depends on the place on
    /// the target router.
    pub(super) fn merged(&self, router: &[u32], routers: usize) -> Option<Self> {
        let mut members = vec![Vec::new(); routers];
        for (column, &router) in (0..).zip(router) {
            members[router as usize].push(column);
        }
        let at = |from: usize, column: u32| self.at(from as u32, column);
        let same = |from: usize, to: &Vec<u32>| {
            let mut pairs = to.windows(2);
            pairs.all(|pair| self.lists.is_same(at(from, pair[0]), at(from, pair[1])))
        };
        if !(0..routers).all(|from| members.iter().all(|to| same(from, to))) {
            return None;
        }
        let mut merged = Self {
            columns: routers,
            lists: Lists::new(),
            hops: Vec::new(),
        };
        for from in 0..routers {
            for to in &members {
                merged.lists.copy(&self.lists, at(from, to[0]));
                merged.hops.push(self.hops[at(from, to[0])]);
            }
        }
        Some(merged)
    }

    #[inline]
    fn at(&self, router: u32, column: u32) -> usize {
        router as usize * self.columns + column as usize
    }
}

impl Between for Table {
    #[inline]
    fn each(&self, router: u32, column: u32, f: impl FnMut(usize, f64)) {
        self.lists.each(self.at(router, column), f);
    }

    #[inline]
    fn price(&self, (router, column): (u32, u32), prices: &[f64], first: f64) -> f64 {
        self.lists.price(self.at(router, column), prices, first)
    }

    #[inline]
    fn hops(&self, router: u32, column: u32) -> f32 {
        self.hops[self.at(router, column)]
    }

    fn ways_in(&self, router: &[u32], stop: Stop) -> Option<Vec<Vec<u32>>> {
        let routers = (self.lists.count() / self.columns) as u32;
        let links = self.lists.links();
        // Number of lists that contain each link: over all columns, and for the current one with a share of 1.
        let (mut all, mut here) = (vec![0; links], vec![0; links]);
        let mut found: Vec<Vec<u32>> = Vec::with_capacity(self.columns);
        let mut used = Vec::new();
        for (column, &own) in (0..).zip(router) {
            if stop.is_set() {
                return None;
            }
            used.clear();
            for router in (0..routers).filter(|&r| r != own) {
                self.each(router, column, |link, share| {
                    all[link] += 1;
                    if share >= 1.0 {
                        here[link] += 1;
                        used.push(link as u32);
                    }
                });
            }
            used.sort_unstable();
            used.dedup();
            used.retain(|&l| std::mem::take(&mut here[l as usize]) == routers - 1);
            // A copy: the room for all links of all routes is a hundred times that of the few that are kept.
            found.push(used.clone());
        }
        for links in &mut found {
            links.retain(|&l| all[l as usize] == routers - 1);
        }
        Some(found)
    }
}

/// Another allocated node on the same router.
fn neighbour(problem: &Problem<'_>, nodes: &[NodeId], of: NodeId) -> Option<NodeId> {
    let router = problem.fabric.node(of).router;
    nodes
        .iter()
        .copied()
        .find(|&n| n != of && problem.fabric.node(n).router == router)
}
