//! Costs of many pairs as a matrix.

use crate::code::{Code, mean_of};
use crate::costs::RouteCosts;
use crate::grid::Grid;
use crate::metric::{Aggregate, Over};
use crate::tree::{Target, Tree, host_link};
use hopbyte_fabric::{Class, LinkId, NodeId, RouterId, Routing};
use rayon::prelude::*;
use thiserror::Error;

/// Most entries of a matrix (4 bytes each).
const MAX_ENTRIES: usize = 1 << 31;
/// Most entries that are held for [`RouteCosts::routers`]; more come row by row.
const WHOLE: usize = 1 << 28;
/// Entries of the rows that are computed at a time.
const BLOCK: usize = 1 << 24;
/// With fewer nodes than this share of the routers, walking each route is faster than building whole trees.
const WALK_BELOW: usize = 16;

/// Why a matrix could not be computed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OracleError {
    /// The matrix is too large.
    #[error(
        "cost matrix: found {found} x {found} entries, expected at most {MAX_ENTRIES} and as much free memory\nhint: ask among the nodes of a job"
    )]
    TooLarge {
        /// Requested rows.
        found: usize,
    },
    /// The matrix is too large to be held, and its rows cannot be computed one by one.
    #[error(
        "costs of all pairs: found {found} routers ({} GB of costs), expected at most {} where the routes to a router are found together\nhint: ask for the pairs of a job (--pairs FILE); healthy grids and dragonflies have no such limit",
        gb(*.found), WHOLE.isqrt()
    )]
    Together {
        /// Routers.
        found: usize,
    },
}

fn gb(size: usize) -> f64 {
    (4e-8 * (size as f64).powi(2)).round() / 10.0
}

impl OracleError {
    /// Class of the error.
    pub fn class(&self) -> Class {
        match self {
            Self::TooLarge { .. } | Self::Together { .. } => Class::Limit,
        }
    }
}

/// Costs from row to column: NaN is unknown, infinite is no route.
#[derive(Clone, Debug)]
pub struct CostMatrix {
    size: usize,
    values: Vec<f32>,
}

impl CostMatrix {
    fn zeroed(size: usize) -> Result<Self, OracleError> {
        let entries = size.checked_mul(size).filter(|&n| n <= MAX_ENTRIES);
        let mut values = Vec::new();
        match entries {
            Some(n) if values.try_reserve_exact(n).is_ok() => values.resize(n, 0.0),
            _ => return Err(OracleError::TooLarge { found: size }),
        }
        Ok(Self { size, values })
    }

    /// Rows and columns.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The cost from the `from`-th to the `to`-th; `None` if unknown, infinite without a route.
    #[inline]
    pub fn get(&self, from: usize, to: usize) -> Option<f32> {
        let value = self.values[from * self.size + to];
        (!value.is_nan()).then_some(value)
    }

    /// Costs from one to all.
    pub fn row(&self, from: usize) -> &[f32] {
        &self.values[from * self.size..(from + 1) * self.size]
    }

    /// All entries, row by row (the layout of NumPy).
    pub fn as_slice(&self) -> &[f32] {
        &self.values
    }

    /// All entries, row by row, without a copy.
    pub fn into_vec(self) -> Vec<f32> {
        self.values
    }

    /// Share of entries that are known and have a route.
    pub fn coverage(&self) -> f64 {
        let known = self.values.iter().filter(|v| v.is_finite()).count();
        known as f64 / self.values.len().max(1) as f64
    }
}

/// Costs between all routers, held or computed row by row whenever they are asked for.
#[derive(Debug)]
pub struct RouterMatrix<'c, 'a> {
    costs: &'c RouteCosts<'a>,
    whole: Option<CostMatrix>,
}

impl RouterMatrix<'_, '_> {
    /// Rows and columns.
    pub fn size(&self) -> usize {
        self.costs.network_routers()
    }

    /// Whether all entries are held.
    pub fn is_whole(&self) -> bool {
        self.whole.is_some()
    }

    /// Calls `take` with every row in order, until it fails.
    ///
    /// # Errors
    /// Those of `take`.
    pub fn each_row<E>(
        &self,
        mut take: impl FnMut(usize, &[f32]) -> Result<(), E>,
    ) -> Result<(), E> {
        let n = self.size();
        if let Some(whole) = &self.whole {
            return (0..n).try_for_each(|from| take(from, whole.row(from)));
        }
        let block = (BLOCK / n.max(1)).max(1);
        self.costs.on_network(|costs| {
            let grid = costs.router_grid();
            let mut rows = vec![0f32; block * n];
            for first in (0..n).step_by(block) {
                let rows = &mut rows[..block.min(n - first) * n];
                costs.fill_rows(rows, first, grid.as_ref());
                for (at, row) in rows.chunks(n).enumerate() {
                    take(first + at, row)?;
                }
            }
            Ok(())
        })
    }
}

/// A starting point of routes.
struct Source {
    router: RouterId,
    /// Cost code and hops of the injection link.
    inject: (f64, f64),
}

impl RouteCosts<'_> {
    /// Costs between all routers of the network, by [`RouterId`]; only links between routers count. Forwarding tables lead to nodes,
    /// so a router is represented by its first node, and costs to a router without nodes are unknown.
    ///
    /// # Errors
    /// [`OracleError::TooLarge`] for a matrix above the limit.
    pub fn all_routers(&self) -> Result<CostMatrix, OracleError> {
        self.on_network(|costs| {
            let mut matrix = CostMatrix::zeroed(costs.fabric.routers().len())?;
            let grid = costs.router_grid();
            if grid.is_some() || !costs.routes_are_trees() {
                costs.fill_rows(&mut matrix.values, 0, grid.as_ref());
                return Ok(matrix);
            }
            let (values, code) = costs.encoded();
            let targets: Vec<Target> = costs.fabric.router_ids().map(Target::Router).collect();
            Ok(costs.fill_trees(matrix, &targets, &values, code))
        })
    }

    /// The same, without holding more than a gigabyte: the rows of larger matrices are computed as often as they are asked
    /// for.
    ///
    /// # Errors
    /// [`OracleError::Together`] for a large machine on which one row takes as long as all; nothing is computed then.
    pub fn routers(&self) -> Result<RouterMatrix<'_, '_>, OracleError> {
        self.routers_within(WHOLE)
    }

    /// [`RouteCosts::routers`], holding no more than a number of entries.
    fn routers_within(&self, most: usize) -> Result<RouterMatrix<'_, '_>, OracleError> {
        let n = self.network_routers();
        let copies = if self.aggregate == Aggregate::Mean {
            2
        } else {
            1
        };
        let by_row = self.on_network(|costs| costs.has_grid() || !costs.routes_are_trees());
        let entries = n
            .saturating_mul(n)
            .saturating_mul(if by_row { 1 } else { copies });
        let whole = match (entries <= most, by_row) {
            (true, _) => Some(self.all_routers()?),
            (false, true) => None,
            (false, false) => return Err(OracleError::Together { found: n }),
        };
        Ok(RouterMatrix { costs: self, whole })
    }

    fn network_routers(&self) -> usize {
        self.fabric.network_routers()
    }

    /// The costs of the network alone, where hosts have links inside.
    fn on_network<T>(&self, ask: impl FnOnce(&RouteCosts<'_>) -> T) -> T {
        let Routing::Hosts(hosts) = self.routing else {
            return ask(self);
        };
        let network = self.fabric.network();
        let values = self.values[..network.links().len()].into();
        let how = (self.metric, self.aggregate, self.over);
        ask(&RouteCosts::of_values(
            &network,
            &hosts.network,
            values,
            how.0,
            how.1,
            how.2,
        ))
    }

    fn has_grid(&self) -> bool {
        matches!(self.routing, Routing::DimensionOrder(order) if order.is_healthy())
    }

    fn router_grid(&self) -> Option<(Grid, Code)> {
        let (values, code) = self.encoded();
        match self.routing {
            Routing::DimensionOrder(order) if order.is_healthy() => {
                Some((Grid::new(self.fabric, order, &values, code), code))
            }
            _ => None,
        }
    }

    /// Rows from the `first`-th router on, over a grid or by walking every route.
    fn fill_rows(&self, rows: &mut [f32], first: usize, grid: Option<&(Grid, Code)>) {
        match grid {
            Some((grid, code)) => self.fill_grid(rows, first, grid, *code),
            None => {
                let first_node = |r| self.fabric.nodes_on(r).first().copied();
                let nodes: Vec<Option<NodeId>> = self.fabric.router_ids().map(first_node).collect();
                self.fill_walks(rows, first, &nodes);
            }
        }
    }

    /// Costs between nodes, in the order of the list; a node listed twice has two rows.
    ///
    /// # Errors
    /// [`OracleError::TooLarge`] for a matrix above the limit.
    pub fn among(&self, nodes: &[NodeId]) -> Result<CostMatrix, OracleError> {
        let mut matrix = CostMatrix::zeroed(nodes.len())?;
        if let Some((grid, code)) = self.tables(nodes.len() * nodes.len()) {
            let rows = matrix.values.par_chunks_mut(nodes.len().max(1));
            rows.zip(nodes).for_each(|(row, &from)| {
                for (cost, &to) in row.iter_mut().zip(nodes) {
                    *cost = self.look_up(grid, *code, from, to);
                }
            });
            return Ok(matrix);
        }
        if nodes.len() * WALK_BELOW < self.fabric.routers().len() || !self.routes_are_trees() {
            let nodes: Vec<Option<NodeId>> = nodes.iter().copied().map(Some).collect();
            self.fill_walks(&mut matrix.values, 0, &nodes);
            return Ok(matrix);
        }
        let (values, code) = self.encoded();
        let targets: Vec<Target> = nodes.iter().copied().map(Target::Node).collect();
        Ok(self.fill_trees(matrix, &targets, &values, code))
    }

    /// Link values for the kernels; links that are down are infinite.
    pub(crate) fn encoded(&self) -> (Vec<f64>, Code) {
        let code = Code::new(self.metric, self.aggregate);
        let value = |link: LinkId| {
            if self.fabric.link(link).is_up() {
                code.encode(self.values[link.index()])
            } else {
                f64::INFINITY
            }
        };
        (self.fabric.link_ids().map(value).collect(), code)
    }

    /// Whether the routes to one destination form a tree, so that one traversal finds them all. They do not if each
    /// pair chooses its order of dimensions or its intermediate group.
    fn routes_are_trees(&self) -> bool {
        self.routing.is_destination_based() && !matches!(self.routing, Routing::Groups(_))
    }

    /// Rows from the `first`-th node on by walking every route; costs to and from absent nodes are unknown.
    fn fill_walks(&self, rows: &mut [f32], first: usize, nodes: &[Option<NodeId>]) {
        let rows = rows.par_chunks_mut(nodes.len().max(1));
        rows.zip(&nodes[first..]).for_each(|(row, &from)| {
            for (value, &to) in row.iter_mut().zip(nodes) {
                let (Some(from), Some(to)) = (from, to) else {
                    *value = f32::NAN;
                    continue;
                };
                *value = match self.pair(from, to) {
                    Ok(cost) => cost.map_or(f32::NAN, |c| c as f32),
                    Err(_) => f32::INFINITY,
                };
            }
        });
    }

    /// Rows from the `first`-th router on over a grid.
    fn fill_grid(&self, rows: &mut [f32], first: usize, grid: &Grid, code: Code) {
        let mean = self.aggregate == Aggregate::Mean;
        let routes = if self.over == Over::Both { 2.0 } else { 1.0 };
        let buffer = || vec![0.0; grid.positions()];
        let size = self.fabric.routers().len().max(1);
        let rows = rows.par_chunks_mut(size).enumerate();
        rows.for_each_init(
            || (buffer(), buffer()),
            |(costs, hops), (at, row)| {
                let at = grid.position(first + at);
                costs.fill(0.0);
                if self.over != Over::Response {
                    grid.join_requests(at, code, costs);
                }
                if self.over != Over::Request {
                    grid.join_responses(at, code, costs);
                }
                if mean {
                    grid.hops(at, hops);
                    for (cost, &hops) in costs.iter_mut().zip(hops.iter()) {
                        *cost = mean_of(*cost, hops * routes);
                    }
                }
                grid.scatter(costs, |cost| code.decode(cost), row);
            },
        );
    }

    /// Rows by trees. The tree of a target gives the costs of the routes to it from all sources, which is the
    /// target's row of the response matrix.
    fn fill_trees(
        &self,
        mut matrix: CostMatrix,
        targets: &[Target],
        values: &[f64],
        code: Code,
    ) -> CostMatrix {
        let n = matrix.size.max(1);
        let sources: Vec<Source> = targets.iter().map(|&t| self.source(t, values)).collect();
        let new_tree = || Tree::new(self.fabric, self.routing, values, code);
        let fill = |tree: &mut Tree<'_>, to: usize, row: &mut [f32], hops: &mut [f32]| {
            tree.grow(targets[to], sources.iter().map(|s| s.router));
            for (from, source) in sources.iter().enumerate() {
                let same = matches!((targets[from], targets[to]),
                    (Target::Node(a), Target::Node(b)) if a == b);
                let (cost, length) = tree.cost(source.router);
                if !same {
                    row[from] = code.join(source.inject.0, cost) as f32;
                    if let Some(hops) = hops.get_mut(from) {
                        *hops = (source.inject.1 + length) as f32;
                    }
                }
            }
        };
        let rows = matrix.values.par_chunks_mut(n).enumerate();
        let mut lengths = Vec::new();
        if self.aggregate == Aggregate::Mean {
            lengths = vec![0f32; n * n];
            rows.zip(lengths.par_chunks_mut(n))
                .for_each_init(new_tree, |tree, ((i, row), hops)| fill(tree, i, row, hops));
        } else {
            rows.for_each_init(new_tree, |tree, (i, row)| fill(tree, i, row, &mut []));
        }
        self.turn(&mut matrix.values, n, |a, b| {
            code.join(a.into(), b.into()) as f32
        });
        self.turn(&mut lengths, n, |a, b| a + b);
        for (value, &links) in matrix.values.iter_mut().zip(&lengths) {
            *value = mean_of((*value).into(), links.into()) as f32;
        }
        matrix
            .values
            .par_iter_mut()
            .for_each(|value| *value = code.decode(*value));
        matrix
    }

    /// Transposes a matrix of responses.
    fn turn(&self, responses: &mut [f32], n: usize, join: impl Fn(f32, f32) -> f32) {
        if self.over == Over::Response || responses.is_empty() {
            return;
        }
        /// Block size with both triangles in the cache.
        const BLOCK: usize = 64;
        for top in (0..n).step_by(BLOCK) {
            for left in (top..n).step_by(BLOCK) {
                for i in top..(top + BLOCK).min(n) {
                    for j in left.max(i)..(left + BLOCK).min(n) {
                        let (a, b) = (responses[i * n + j], responses[j * n + i]);
                        let both = self.over == Over::Both;
                        responses[i * n + j] = if both { join(a, b) } else { b };
                        responses[j * n + i] = if both { join(b, a) } else { a };
                    }
                }
            }
        }
    }

    fn source(&self, target: Target, values: &[f64]) -> Source {
        match target {
            Target::Router(router) => Source {
                router,
                inject: (0.0, 0.0),
            },
            Target::Node(node) => {
                let node = self.fabric.node(node);
                Source {
                    router: node.router,
                    inject: host_link(self.fabric, values, node.inject),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Metric;
    use hopbyte_fabric::spec;

    /// Rows that are not held are those of the whole matrix, in order; trees are refused.
    #[test]
    fn rows_of_matrices_that_are_not_held() {
        for (text, by_row) in [
            ("torus:4x3x5", true),
            ("torus:3x3:nodes=4,hosts=gh200-quad", true),
            ("dragonfly:5x4:nodes=2", true),
            ("fattree:k=4,levels=3", false),
        ] {
            let machine = spec::machine(text).unwrap();
            for (aggregate, over) in [
                (Aggregate::Sum, Over::Request),
                (Aggregate::Mean, Over::Both),
            ] {
                let (fabric, routing) = (&machine.fabric, &machine.routing);
                let costs = RouteCosts::new(fabric, routing, None, Metric::Hops, aggregate, over);
                let rows = |matrix: &RouterMatrix<'_, '_>| {
                    let mut all = Vec::new();
                    let end: Result<(), ()> = matrix.each_row(|from, row| {
                        assert_eq!(all.len(), from * matrix.size());
                        all.extend(row.iter().map(|v| v.to_bits()));
                        Ok(())
                    });
                    end.unwrap();
                    all
                };
                let whole = costs.routers_within(1 << 20).unwrap();
                assert!(whole.is_whole());
                match costs.routers_within(50) {
                    Ok(part) => {
                        assert!(by_row && !part.is_whole(), "{text}");
                        assert_eq!(rows(&part), rows(&whole), "{text}");
                    }
                    Err(error) => {
                        assert!(
                            !by_row && error.to_string().contains("hint"),
                            "{text}: {error}"
                        );
                    }
                }
            }
        }
    }
}
