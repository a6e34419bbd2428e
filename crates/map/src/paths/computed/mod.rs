//! Routes between routers that are computed when needed, or stored once for every class of pairs: for machines whose routes
//! would not fit in memory, or take longer to store.
//!
//! Each form gives the links of [`Routing::shares`] and the same shares.

pub(super) mod grouped;
mod product;
mod shortest;
mod walked;

use self::grouped::Grouped;
use self::product::Product;
use self::shortest::Shortest;
use self::walked::{Rows, Walked};
use super::routers::Between;
use crate::problem::{MapError, Problem};
use crate::schedule::Stop;
use crate::threads::each;
use hopbyte_fabric::routing::Unroutable;
use hopbyte_fabric::{Fabric, NodeId, RouterId, Routing};

/// Numbers of links up to which routes are stored though they could be followed, or found from distances: with more, a
/// search of 100,000 trials on trees and random graphs takes as long or longer, and more memory.
const FEW_STEPS: usize = 1 << 22;
const FEW_LINKS: usize = 1 << 25;

/// Routes from numbered routers to the nodes of numbered columns. Where routes lead to routers, a column has the number of
/// its router.
pub(crate) struct Computed<'a> {
    form: Form<'a>,
    /// Router of every number, node of every column, and the router of that.
    sources: Vec<RouterId>,
    targets: Vec<NodeId>,
    to: Vec<RouterId>,
    /// Hops of single paths.
    rows: Option<Rows>,
}

enum Form<'a> {
    Walked(Walked<'a>),
    Grouped(Box<Grouped>),
    Product(Product),
    Shortest(Shortest<'a>),
}

impl<'a> Computed<'a> {
    /// Routes between the first nodes of routers and the nodes of columns; `None` if the routing has no such form.
    pub(crate) fn new(
        fabric: &'a Fabric,
        routing: &'a Routing,
        (sources, targets): (&[NodeId], &[NodeId]),
    ) -> Option<Self> {
        let form = if let Some(walked) = Walked::new(fabric, routing) {
            Form::Walked(walked)
        } else if let Some(grouped) = Grouped::new(fabric, routing, sources) {
            Form::Grouped(Box::new(grouped))
        } else if let Some(product) = Product::new(fabric, routing, sources) {
            Form::Product(product)
        } else {
            Form::Shortest(Shortest::new(fabric, routing)?)
        };
        let router = |&n: &NodeId| fabric.node(n).router;
        Some(Self {
            form,
            sources: sources.iter().map(router).collect(),
            to: targets.iter().map(router).collect(),
            targets: targets.to_vec(),
            rows: None,
        })
    }

    /// Number of links of all routes up to which a search is faster on stored ones.
    pub(crate) fn most_stored(&self) -> usize {
        match self.form {
            Form::Grouped(_) | Form::Product(_) => 0,
            Form::Walked(_) => FEW_STEPS,
            Form::Shortest(_) => FEW_LINKS,
        }
    }

    /// Checks all routes, and counts the hops of single paths; false if stopped.
    ///
    /// # Errors
    /// Nodes without a route.
    pub(crate) fn check(
        &mut self,
        problem: &Problem<'_>,
        ends: (&[NodeId], &[NodeId]),
        stop: Stop,
    ) -> Result<bool, MapError> {
        if let Form::Walked(walked) = &mut self.form {
            self.rows = walked.rows(ends, stop)?;
            walked.turn(ends.1);
            return Ok(self.rows.is_some());
        }
        match self.dead(problem, ends, stop) {
            dead if dead.is_empty() => Ok(!stop.is_set()),
            dead => Err(MapError::unroutable(problem.fabric, dead)),
        }
    }

    /// Pairs without a route.
    fn dead(
        &self,
        problem: &Problem<'_>,
        (sources, targets): (&[NodeId], &[NodeId]),
        stop: Stop,
    ) -> Vec<Unroutable> {
        let fabric = problem.fabric;
        let is_up = |n: NodeId| {
            let node = fabric.node(n);
            [node.inject, node.eject]
                .iter()
                .all(|&l| fabric.link(l).is_up())
        };
        let up: Vec<bool> = targets.iter().map(|&n| is_up(n)).collect();
        let row = |(from, &source): (usize, &NodeId)| {
            let mut dead = Vec::new();
            let source_up = is_up(source);
            for (to, &target) in targets.iter().enumerate().filter(|_| !stop.is_set()) {
                let joined = match &self.form {
                    Form::Shortest(shortest) => shortest.joins(self.sources[from], self.to[to]),
                    Form::Grouped(grouped) => grouped.joins(from as u32, to as u32),
                    _ => true,
                };
                if source != target && !(source_up && up[to] && joined) {
                    let mut shares = Vec::new();
                    let routed =
                        problem
                            .routing
                            .network()
                            .shares(fabric, source, target, &mut shares);
                    dead.extend(routed.err());
                }
            }
            dead
        };
        each(sources.len(), &|number| row((number, &sources[number]))).concat()
    }
}

impl Between for Computed<'_> {
    #[inline]
    fn each(&self, router: u32, column: u32, f: impl FnMut(usize, f64)) {
        let (from, to) = (router as usize, column as usize);
        match &self.form {
            Form::Walked(walked) => {
                walked.each(self.sources[from], (column, self.targets[to]), f);
            }
            Form::Grouped(grouped) => grouped.each(router, column, f),
            Form::Product(product) => product.each(router, column, f),
            Form::Shortest(shortest) => shortest.each(self.sources[from], self.to[to], f),
        }
    }

    fn load(&self, flows: impl Iterator<Item = (u32, u32, f64)>, load: &mut [f64]) {
        if let Form::Grouped(grouped) = &self.form {
            return grouped.load(flows, load);
        }
        for (a, b, bytes) in flows {
            self.each(a, b, |link, share| load[link] += bytes * share);
        }
    }

    fn all(&self, from: &[u32], to: &[u32], mut f: impl FnMut(usize, f64)) {
        match &self.form {
            Form::Grouped(grouped) if grouped.all(from, to, &mut f) => {}
            _ => from.iter().for_each(|&a| {
                to.iter().for_each(|&b| self.each(a, b, &mut f));
            }),
        }
    }

    #[inline]
    fn price(&self, (router, column): (u32, u32), prices: &[f64], first: f64) -> f64 {
        if let Form::Grouped(grouped) = &self.form {
            return grouped.price((router, column), prices, first);
        }
        let mut sum = first;
        self.each(router, column, |link, share| sum += prices[link] * share);
        sum
    }

    #[inline]
    fn hops(&self, router: u32, column: u32) -> f32 {
        let (from, to) = (router as usize, column as usize);
        match &self.form {
            Form::Walked(_) => self.rows.as_ref().map_or(0.0, |r| r.get(router, column)),
            Form::Grouped(grouped) => grouped.hops(router, column),
            Form::Product(product) => product.hops(router, column),
            Form::Shortest(shortest) => shortest.hops(self.sources[from], self.to[to]),
        }
    }

    fn ways_in(&self, _: &[u32], stop: Stop) -> Option<Vec<Vec<u32>>> {
        match &self.form {
            Form::Walked(walked) => walked.ways_in((&self.sources, &self.targets), stop),
            _ => None,
        }
    }
}
