//! Routes as lists, for forwarding tables and path sets.

use super::{Paths, Prices};
use crate::linear::MatrixDistances;
use crate::problem::{MapError, Problem};
use hopbyte_fabric::{Fabric, LinkId, NodeId, RouterId};
use std::collections::HashMap;

/// Most list entries that are kept (8 bytes each).
const MAX_ENTRIES: usize = 1 << 27;

/// Links from every router of the allocation to every place, and each place's own link into the
/// network. Routes depend on the source's router, not on which of its nodes sends.
pub(crate) struct StoredPaths {
    places: usize,
    source: Vec<u32>,
    inject: Vec<u32>,
    offsets: Vec<u32>,
    steps: Vec<(u32, f32)>,
    fabric_links: usize,
}

impl StoredPaths {
    /// Asks the routing for every pair.
    pub(crate) fn new(problem: &Problem<'_>) -> Result<Self, MapError> {
        let nodes: Vec<NodeId> = problem.allocation.nodes().iter().map(|n| n.0).collect();
        let mut sources: Vec<NodeId> = Vec::new();
        let mut number: HashMap<RouterId, u32> = HashMap::new();
        let source = nodes
            .iter()
            .map(|&n| {
                *number
                    .entry(problem.fabric.node(n).router)
                    .or_insert_with(|| {
                        sources.push(n);
                        sources.len() as u32 - 1
                    })
            })
            .collect();
        let mut paths = Self {
            places: nodes.len(),
            source,
            inject: nodes
                .iter()
                .map(|&n| problem.fabric.node(n).inject.0)
                .collect(),
            offsets: vec![0],
            steps: Vec::new(),
            fabric_links: problem.fabric.links().len(),
        };
        let mut dead = Vec::new();
        let mut shares = Vec::new();
        for &from in &sources {
            for &to in &nodes {
                shares.clear();
                // From a place to itself there is no way; a neighbour on its router needs the list,
                // which then is just the link out to the place.
                let from = if from == to {
                    neighbour(problem, &nodes, to).unwrap_or(from)
                } else {
                    from
                };
                match problem
                    .routing
                    .shares(problem.fabric, from, to, &mut shares)
                {
                    Ok(()) => {}
                    Err(error) => dead.push(error),
                }
                let inject = problem.fabric.node(from).inject;
                let beyond = shares.iter().filter(|step| step.0 != inject);
                let steps = beyond.map(|&(l, s)| (l.0, s));
                paths.steps.extend(steps);
                if paths.steps.len() > MAX_ENTRIES {
                    return Err(MapError::BadOption {
                        what: "allocation",
                        found: format!("{} nodes on {} routers", nodes.len(), sources.len()),
                        expected: "routes that fit in 1 GB: fewer nodes",
                    });
                }
                paths.offsets.push(paths.steps.len() as u32);
            }
        }
        if dead.is_empty() {
            Ok(paths)
        } else {
            Err(MapError::unroutable(problem.fabric, dead))
        }
    }

    /// Hops between all places, as a matrix.
    pub(crate) fn distances(&self, fabric: &Fabric) -> MatrixDistances {
        let places = self.places as u32;
        let hop: Vec<bool> = fabric.link_ids().map(|l| fabric.is_hop(l)).collect();
        let mut cost = Vec::with_capacity(self.places * self.places);
        for a in 0..places {
            for b in 0..places {
                let mut hops = 0.0;
                self.each(a, b, |l, share| hops += if hop[l] { share } else { 0.0 });
                cost.push(hops as f32);
            }
        }
        MatrixDistances {
            places: self.places,
            cost,
        }
    }

    #[inline]
    fn steps(&self, a: u32, b: u32) -> &[(u32, f32)] {
        let at = self.source[a as usize] as usize * self.places + b as usize;
        &self.steps[self.offsets[at] as usize..self.offsets[at + 1] as usize]
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

impl Paths for StoredPaths {
    fn links(&self) -> usize {
        self.fabric_links
    }

    fn link(&self, number: usize) -> LinkId {
        LinkId::of(number)
    }

    fn sole(&self) -> Vec<bool> {
        const NONE: u32 = u32::MAX;
        let mut user = vec![NONE; self.fabric_links];
        let mut several = vec![false; self.fabric_links];
        for (number, range) in self.offsets.windows(2).enumerate() {
            let place = (number % self.places) as u32;
            for &(link, _) in &self.steps[range[0] as usize..range[1] as usize] {
                let (user, several) = (&mut user[link as usize], &mut several[link as usize]);
                *several |= *user != NONE && *user != place;
                *user = place;
            }
        }
        several.iter().map(|s| !s).collect()
    }

    #[inline]
    fn each(&self, a: u32, b: u32, mut f: impl FnMut(usize, f64)) {
        if a == b {
            return;
        }
        f(self.inject[a as usize] as usize, 1.0);
        for &(link, share) in self.steps(a, b) {
            f(link as usize, f64::from(share));
        }
    }

    fn prices(&self) -> Prices {
        Prices(vec![0.0; self.fabric_links])
    }

    fn reprice(&self, prices: &mut Prices, changed: &[u32], value: impl Fn(usize) -> f64) {
        for &link in changed {
            prices.0[link as usize] = value(link as usize);
        }
    }

    #[inline]
    fn price(&self, prices: &Prices, a: u32, b: u32) -> f64 {
        if a == b {
            return 0.0;
        }
        self.steps(a, b).iter().fold(
            prices.0[self.inject[a as usize] as usize],
            |sum, &(l, s)| sum + prices.0[l as usize] * f64::from(s),
        )
    }
}
