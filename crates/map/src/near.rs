//! Neighbouring places of every place.

use crate::problem::Problem;
use hopbyte_fabric::random::Random;
use hopbyte_fabric::{End, RouterId};

/// Maximum number of neighbours in a list.
const MOST: usize = 48;

/// Places with one list of neighbours: those of a router, or of hosts joined by inner links.
fn groups(problem: &Problem<'_>, on_router: &[Vec<u32>]) -> Vec<Vec<u32>> {
    let Some(inside) = problem.fabric.inside() else {
        return on_router
            .iter()
            .filter(|p| !p.is_empty())
            .cloned()
            .collect();
    };
    let mut all: Vec<(Option<u32>, u32)> = (0u32..)
        .zip(problem.allocation.nodes())
        .map(|(place, node)| (inside.unit_of(node.0), place))
        .collect();
    all.sort_unstable();
    all.chunk_by(|a, b| a.0 == b.0 && a.0.is_some())
        .map(|group| group.iter().map(|p| p.1).collect())
        .collect()
}

/// For every place its neighbours, nearest routers first.
pub(crate) struct Near {
    offsets: Vec<u32>,
    places: Vec<u32>,
    list_of: Vec<u32>,
}

impl Near {
    /// Breadth-first search from every allocated router, until enough places are found.
    pub(crate) fn new(problem: &Problem<'_>, rng: &mut Random) -> Self {
        let fabric = problem.fabric;
        let nodes = problem.allocation.nodes();
        let mut on_router: Vec<Vec<u32>> = vec![Vec::new(); fabric.routers().len()];
        for (place, &(node, _)) in nodes.iter().enumerate() {
            on_router[problem.leaf(node).index()].push(place as u32);
        }
        let next: Vec<Vec<RouterId>> = fabric
            .router_ids()
            .map(|r| {
                let ends = fabric.links_from(r).iter().map(|&l| fabric.link(l));
                let mut list: Vec<RouterId> = ends
                    .filter(|l| l.is_up())
                    .filter_map(|l| match l.to {
                        End::Router(to) => Some(to),
                        _ => None,
                    })
                    .collect();
                list.sort_unstable();
                list.dedup();
                list
            })
            .collect();
        let mut near = Self {
            offsets: vec![0],
            places: Vec::new(),
            list_of: vec![0; nodes.len()],
        };
        let mut seen = vec![u32::MAX; fabric.routers().len()];
        for (number, members) in groups(problem, &on_router).into_iter().enumerate() {
            let number = number as u32;
            for &place in &members {
                near.list_of[place as usize] = number;
            }
            let mut ring: Vec<RouterId> = members
                .iter()
                .map(|&p| problem.leaf(nodes[p as usize].0))
                .collect();
            ring.sort_unstable();
            ring.dedup();
            ring.iter().for_each(|r| seen[r.index()] = number);
            if fabric.inside().is_some() {
                near.places.extend(members);
            }
            let start = near.places.len();
            while !ring.is_empty() && near.places.len() - start < MOST {
                let from = near.places.len();
                for r in &ring {
                    near.places.extend(&on_router[r.index()]);
                }
                // The places kept of the last ring must not depend on numbering.
                rng.shuffle(&mut near.places[from..]);
                let mut outer = Vec::new();
                for &to in ring.iter().flat_map(|r| &next[r.index()]) {
                    if seen[to.index()] != number {
                        seen[to.index()] = number;
                        outer.push(to);
                    }
                }
                ring = outer;
            }
            near.places.truncate(start + MOST);
            near.offsets.push(near.places.len() as u32);
        }
        near
    }

    /// Only the places of the same router, given the router of every place.
    pub(crate) fn beside(router: &[u32]) -> Self {
        let routers = router.iter().max().map_or(0, |&r| r as usize + 1);
        let mut near = Self {
            offsets: vec![0; routers + 1],
            places: (0..router.len() as u32).collect(),
            list_of: router.to_vec(),
        };
        near.places.sort_by_key(|&p| router[p as usize]);
        for &r in router {
            near.offsets[r as usize + 1] += 1;
        }
        for r in 0..routers {
            near.offsets[r + 1] += near.offsets[r];
        }
        near
    }

    /// A random place close to `place` (itself included).
    #[inline]
    pub(crate) fn pick(&self, place: u32, rng: &mut Random) -> u32 {
        let list = self.list_of[place as usize] as usize;
        let (start, end) = (self.offsets[list] as usize, self.offsets[list + 1] as usize);
        self.places[start + rng.below(end - start)]
    }
}
