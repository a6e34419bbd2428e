//! Broken links in the rings of a torus.

use super::dimension_order::DimensionOrder;
use super::unroutable::Dead;
use crate::direction::Direction;
use crate::fabric::{Fabric, Shape};
use crate::ids::LinkId;

/// Broken links by grid position, with prefix counts along each ring, for constant-time queries of whether the path
/// from a to b is open.
#[derive(Clone, Debug)]
pub(super) struct Rings {
    shape: Shape,
    strides: Vec<usize>,
    /// For each position and [`Direction::index`]: number of broken links at lower positions of the same ring (upper
    /// 31 bits) and whether the link from this position is broken (lowest bit).
    breaks: Vec<u32>,
}

impl Rings {
    /// Marks links that are missing or down; a mesh's missing wrap-around counts as broken.
    pub fn new(fabric: &Fabric, shape: &Shape, is_down: impl Fn(LinkId) -> bool) -> Self {
        let ways = 2 * shape.dims.len();
        let mut breaks = vec![1u32; shape.positions() * ways];
        for router in fabric.router_ids() {
            let Some(position) = fabric.coord(router).and_then(|c| shape.position(c)) else {
                continue;
            };
            for &id in fabric.links_from(router) {
                if let Some(direction) = fabric.link(id).direction.filter(|_| !is_down(id)) {
                    breaks[position * ways + direction.index()] = 0;
                }
            }
        }
        let mut strides = vec![1usize; shape.dims.len()];
        for d in (1..shape.dims.len()).rev() {
            strides[d - 1] = strides[d] * shape.dims[d] as usize;
        }
        let mut rings = Self {
            shape: shape.clone(),
            strides,
            breaks,
        };
        rings.run_counts();
        rings
    }

    fn run_counts(&mut self) {
        let ways = 2 * self.shape.dims.len();
        for position in 0..self.shape.positions() {
            for index in 0..ways {
                let stride = self.strides[index / 2];
                if self.coordinate(position, index / 2) > 0 {
                    let before = self.breaks[(position - stride) * ways + index];
                    self.breaks[position * ways + index] += 2 * ((before >> 1) + (before & 1));
                }
            }
        }
    }

    fn coordinate(&self, position: usize, dim: usize) -> u32 {
        (position / self.strides[dim]) as u32 % self.shape.dims[dim]
    }

    /// Broken links from positions `0..upto` of the ring through `base` (its position 0).
    fn broken_below(&self, base: usize, direction: Direction, upto: u32) -> u32 {
        if upto == 0 {
            return 0;
        }
        let dim = direction.dim as usize;
        let last = base + (upto as usize - 1) * self.strides[dim];
        let entry = self.breaks[last * 2 * self.strides.len() + direction.index()];
        (entry >> 1) + (entry & 1)
    }

    /// Whether every link from `here` in `direction` until coordinate `to` is up.
    pub fn is_open(&self, here: &[u32], direction: Direction, to: u32) -> bool {
        let dim = direction.dim as usize;
        let Some(position) = self.shape.position(here) else {
            return false;
        };
        let at = here[dim];
        let base = position - at as usize * self.strides[dim];
        let n = self.shape.dims[dim];
        let below = |upto| self.broken_below(base, direction, upto);
        // Links used start at positions [at, to) going up, (to, at] going down, cyclically.
        let (first, end) = if direction.positive {
            (at, to)
        } else {
            (to + 1, at + 1)
        };
        let broken = if first < end {
            below(end) - below(first)
        } else {
            below(n) - below(first.min(n)) + below(end)
        };
        broken == 0
    }

    /// The direction from coordinate `here` along `dim` to `to`, avoiding breaks; `Err` if the ring is disconnected
    /// between them, `Ok(None)` if they are equal.
    pub fn direction(
        &self,
        order: &DimensionOrder,
        dim: usize,
        (here, to): (&[u32], u32),
    ) -> Result<Option<Direction>, Dead> {
        let Some(short) = order.direction(dim, here[dim], to) else {
            return Ok(None);
        };
        if self.is_open(here, short, to) {
            return Ok(Some(short));
        }
        if self.shape.wrap[dim] && self.is_open(here, short.opposite(), to) {
            return Ok(Some(short.opposite()));
        }
        Err(Dead::NoLink)
    }

    /// Whether the ring through `base` (its position 0) has every link of a healthy one.
    pub fn is_complete(&self, base: usize, dim: usize) -> bool {
        let (n, ways) = (self.shape.dims[dim], 2 * self.shape.dims.len());
        (0..n).all(|c| {
            let at = (base + c as usize * self.strides[dim]) * ways;
            // A line ends on both sides; a ring of one has no links.
            let wraps = self.shape.wrap[dim] && n > 1;
            [(c + 1 < n, true), (c > 0, false)]
                .into_iter()
                .all(|(inner, positive)| {
                    let direction = Direction {
                        dim: dim as u8,
                        positive,
                    };
                    let entry = self.breaks[at + direction.index()];
                    !(inner || wraps) || entry & 1 == 0
                })
        })
    }

    /// Whether all positions of each ring reach each other: at most one joint is broken in each direction, and if in
    /// both then the same one.
    pub fn all_whole(&self) -> bool {
        (0..self.shape.positions()).all(|position| {
            (0..self.shape.dims.len())
                .all(|dim| self.coordinate(position, dim) != 0 || self.is_whole(position, dim))
        })
    }

    fn is_whole(&self, base: usize, dim: usize) -> bool {
        let n = self.shape.dims[dim];
        if n == 1 {
            return true;
        }
        let joints = |positive: bool| {
            let direction = Direction {
                dim: dim as u8,
                positive,
            };
            (0..n)
                .filter(|&c| {
                    self.broken_below(base, direction, c + 1)
                        > self.broken_below(base, direction, c)
                })
                // The joint above position c carries c's upward link and (c+1)'s downward one.
                .map(|c| if positive { c } else { (c + n - 1) % n })
                .collect::<Vec<u32>>()
        };
        let (up, down) = (joints(true), joints(false));
        up.is_empty() || down.is_empty() || (up.len() == 1 && up == down)
    }
}
