//! Dimension-order routes between all routers, from tables of ring segments.
//!
//! A route has one segment per dimension, and a segment's cost depends only on its ring and its two ends. With tables
//! of all segment costs, a row of the matrix is the element-wise combination of a few table rows.

use crate::code::Code;
use hopbyte_fabric::routing::DimensionOrder;
use hopbyte_fabric::{Direction, Fabric, RouterId};

/// Marks a grid position without a router.
const NO_ROUTER: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(crate) struct Grid {
    dims: Vec<usize>,
    strides: Vec<usize>,
    order: Vec<usize>,
    /// By dimension: cost from position `p` along the ring to coordinate `t`, at `t * positions + p`.
    segments: Vec<Vec<f64>>,
    /// Of the last dimension, at `p * dims[last] + t`.
    last_by_source: Vec<f64>,
    /// By dimension: hops from coordinate `f` to `t`, at `f * dims + t`.
    hops: Vec<Vec<f64>>,
    /// Router by position, position by router.
    routers: Vec<u32>,
    positions: Vec<usize>,
    /// Coordinates by position: avoids a division per pair.
    coords: Vec<u32>,
}

impl Grid {
    /// Tables from link values by id; infinite for links out of service.
    pub(crate) fn new(fabric: &Fabric, order: &DimensionOrder, values: &[f64], code: Code) -> Self {
        let shape = order.shape();
        let dims: Vec<usize> = shape.dims.iter().map(|&d| d as usize).collect();
        let strides = (0..dims.len())
            .map(|d| dims[d + 1..].iter().product())
            .collect();
        let mut grid = Self {
            strides,
            order: order.order().iter().map(|&d| d as usize).collect(),
            segments: Vec::new(),
            last_by_source: Vec::new(),
            hops: Vec::new(),
            routers: vec![NO_ROUTER; shape.positions()],
            positions: Vec::new(),
            coords: Vec::new(),
            dims,
        };
        for router in fabric.router_ids() {
            // With dimension-order routing every router has a coordinate.
            let at = fabric.coord(router).and_then(|c| shape.position(c));
            let at = at.unwrap_or(0);
            grid.routers[at] = router.0;
            grid.positions.push(at);
        }
        for dim in 0..grid.dims.len() {
            let segments = grid.ring_segments(order, dim, values, code);
            grid.segments.push(segments);
            let hops = grid.ring_hops(order, dim);
            grid.hops.push(hops);
        }
        grid.last_by_source = grid.by_source();
        let places =
            (0..grid.positions()).flat_map(|at| (0..grid.dims.len()).map(move |d| (at, d)));
        grid.coords = places.map(|(at, d)| grid.coord(at, d) as u32).collect();
        grid
    }

    pub(crate) fn positions(&self) -> usize {
        self.routers.len()
    }

    pub(crate) fn position(&self, router: usize) -> usize {
        self.positions[router]
    }

    fn coord(&self, position: usize, dim: usize) -> usize {
        position / self.strides[dim] % self.dims[dim]
    }

    /// Costs of all segments of one dimension, each extended link by link from its source.
    fn ring_segments(
        &self,
        order: &DimensionOrder,
        dim: usize,
        values: &[f64],
        code: Code,
    ) -> Vec<f64> {
        let (n, all, stride) = (self.dims[dim], self.positions(), self.strides[dim]);
        let mut table = vec![0.0; n * all];
        for source in 0..all {
            let from = self.coord(source, dim);
            let ring = source - from * stride;
            for positive in [true, false] {
                let direction = Direction {
                    dim: dim as u8,
                    positive,
                };
                let step = if positive { 1 } else { n - 1 };
                let (mut at, mut cost) = (from, 0.0);
                loop {
                    let next = (at + step) % n;
                    if order.direction(dim, from as u32, next as u32) != Some(direction) {
                        break;
                    }
                    let router = self.routers[ring + at * stride];
                    let link = (router != NO_ROUTER)
                        .then(|| order.link(RouterId(router), direction))
                        .flatten();
                    let value = link.map_or(f64::INFINITY, |l| values[l.index()]);
                    cost = code.join(cost, value);
                    table[next * all + source] = cost;
                    at = next;
                }
            }
        }
        table
    }

    fn ring_hops(&self, order: &DimensionOrder, dim: usize) -> Vec<f64> {
        let n = self.dims[dim];
        let hops = |from: usize, to: usize| match order.direction(dim, from as u32, to as u32) {
            None => 0,
            Some(d) if d.positive => (to + n - from) % n,
            Some(_) => (from + n - to) % n,
        };
        (0..n * n).map(|i| hops(i / n, i % n) as f64).collect()
    }

    fn by_source(&self) -> Vec<f64> {
        let (Some(&n), Some(table)) = (self.dims.last(), self.segments.last()) else {
            return Vec::new();
        };
        let all = self.positions();
        (0..all * n).map(|i| table[i % n * all + i / n]).collect()
    }

    /// Combines the costs of the routes from `a` to every position.
    pub(crate) fn join_requests(&self, a: usize, code: Code, costs: &mut [f64]) {
        let (all, last) = (self.positions(), self.dims.len() - 1);
        let n = self.dims[last];
        for (line, row) in costs.chunks_exact_mut(n).enumerate() {
            let b = line * n;
            // The route's position before each dimension: finished dimensions at b, the others at a.
            let mut at = a;
            let mut moved_last = false;
            let mut scalar = 0.0;
            for &dim in &self.order {
                let to = self.coord(b, dim);
                if dim == last {
                    join_row(row, &self.last_by_source[at * n..at * n + n], code);
                    at -= at % n;
                    moved_last = true;
                } else if moved_last {
                    let from = to * all + at;
                    join_row(row, &self.segments[dim][from..from + n], code);
                } else {
                    scalar = code.join(scalar, self.segments[dim][to * all + at]);
                }
                if dim != last {
                    at = at - self.coord(at, dim) * self.strides[dim] + to * self.strides[dim];
                }
            }
            join_all(row, scalar, code);
        }
    }

    /// Combines the costs of the routes from every position back to `a`.
    pub(crate) fn join_responses(&self, a: usize, code: Code, costs: &mut [f64]) {
        let (all, last) = (self.positions(), self.dims.len() - 1);
        let n = self.dims[last];
        for (line, row) in costs.chunks_exact_mut(n).enumerate() {
            // The route's position before each dimension, for the first source of the line.
            let mut at = line * n;
            let mut moved_last = false;
            let mut scalar = 0.0;
            for &dim in &self.order {
                let to = self.coord(a, dim);
                let from = to * all + at;
                if moved_last {
                    scalar = code.join(scalar, self.segments[dim][from]);
                } else {
                    join_row(row, &self.segments[dim][from..from + n], code);
                }
                moved_last |= dim == last;
                at = at - self.coord(at, dim) * self.strides[dim] + to * self.strides[dim];
            }
            join_all(row, scalar, code);
        }
    }

    /// The cost of the route between two positions.
    pub(crate) fn segment_cost(&self, a: usize, b: usize, code: Code) -> f64 {
        let all = self.positions();
        let (from, to) = (self.coords_of(a), self.coords_of(b));
        let (mut at, mut cost) = (a, 0.0);
        for &dim in &self.order {
            let (from, to) = (from[dim] as usize, to[dim] as usize);
            if from != to {
                cost = code.join(cost, self.segments[dim][to * all + at]);
                at = at + to * self.strides[dim] - from * self.strides[dim];
            }
        }
        cost
    }

    /// The number of links between two positions.
    pub(crate) fn hops_between(&self, a: usize, b: usize) -> f64 {
        let (from, to) = (self.coords_of(a), self.coords_of(b));
        let of = |d: usize| self.hops[d][from[d] as usize * self.dims[d] + to[d] as usize];
        (0..self.dims.len()).map(of).sum()
    }

    fn coords_of(&self, position: usize) -> &[u32] {
        let n = self.dims.len();
        &self.coords[position * n..position * n + n]
    }

    /// Writes the number of links from `a` to every position.
    pub(crate) fn hops(&self, a: usize, hops: &mut [f64]) {
        let last = self.dims.len() - 1;
        let n = self.dims[last];
        let from = self.coord(a, last);
        let ring = &self.hops[last][from * n..from * n + n];
        for (line, row) in hops.chunks_exact_mut(n).enumerate() {
            let others: f64 = (0..last)
                .map(|d| self.hops[d][self.coord(a, d) * self.dims[d] + self.coord(line * n, d)])
                .sum();
            for (hops, along) in row.iter_mut().zip(ring) {
                *hops = others + along;
            }
        }
    }

    /// Writes values by position into a row by router.
    pub(crate) fn scatter(&self, by_position: &[f64], show: impl Fn(f32) -> f32, row: &mut [f32]) {
        for (value, &at) in row.iter_mut().zip(&self.positions) {
            *value = show(by_position[at] as f32);
        }
    }
}

fn join_row(row: &mut [f64], with: &[f64], code: Code) {
    for (cost, &part) in row.iter_mut().zip(with) {
        *cost = code.join(*cost, part);
    }
}

fn join_all(row: &mut [f64], with: f64, code: Code) {
    for cost in row {
        *cost = code.join(*cost, with);
    }
}
