//! Coordinates of tasks and places on a grid, if they have any.

use crate::problem::Problem;
use hopbyte_fabric::{Direction, Exchange};

/// Maximum number of dimensions of grids of tasks and places.
pub(crate) const DIMS: usize = Direction::MAX_DIMENSIONS;

/// A point; dimensions that are not used are 0.
pub(crate) type Point = [f32; DIMS];

/// The point with these first coordinates.
pub(crate) fn point(first: &[f32]) -> Point {
    std::array::from_fn(|d| first.get(d).copied().unwrap_or(0.0))
}

/// Minimum share of the bytes between direct neighbours for a grid to be accepted.
const LOCAL: f64 = 0.5;

/// Maximum number of rank offsets considered.
const OFFSETS: usize = 12;

/// Grids that are compared message by message.
const GRIDS: usize = 8;

/// The grid of tasks on which the traffic is a stencil, row-major, last dimension fastest, found from the rank
/// offsets that carry most bytes. `None` if no grid explains the traffic.
pub(crate) fn task_grid(exchange: &Exchange) -> Option<Vec<u32>> {
    let tasks = exchange.tasks();
    let mut by_offset = vec![0.0f64; tasks + 1];
    for (from, message) in exchange.iter() {
        by_offset[from.abs_diff(message.to) as usize] += message.bytes;
    }
    let total: f64 = by_offset.iter().sum();
    let mut offsets: Vec<usize> = (2..tasks).filter(|&o| by_offset[o] > 0.0).collect();
    offsets.sort_by(|&a, &b| by_offset[b].total_cmp(&by_offset[a]).then(a.cmp(&b)));
    offsets.truncate(OFFSETS);
    offsets.retain(|o| tasks.is_multiple_of(*o));
    offsets.sort_unstable();
    // Chains of strides, each a multiple of the one before.
    let mut chains = vec![vec![1]];
    for &stride in &offsets {
        let fits = |c: &&Vec<usize>| c.len() < DIMS && stride.is_multiple_of(c[c.len() - 1]);
        let longer = chains.iter().filter(fits);
        let longer: Vec<Vec<usize>> = longer
            .map(|c| c.iter().copied().chain([stride]).collect())
            .collect();
        chains.extend(longer);
    }
    let bytes = |chain: &[usize]| -> f64 {
        let ends = chain.iter().skip(1).chain([&tasks]);
        let along = |(&stride, &end): (&usize, &usize)| {
            let wrap = end - stride;
            by_offset[stride] + if wrap > stride { by_offset[wrap] } else { 0.0 }
        };
        chain.iter().zip(ends).map(along).sum()
    };
    chains.retain(|c| c.len() > 1);
    chains.sort_by(|a, b| bytes(b).total_cmp(&bytes(a)).then(a.len().cmp(&b.len())));
    let mut best: Option<(f64, Vec<u32>)> = None;
    for chain in chains.iter().take(GRIDS) {
        // No more bytes than those of the offsets are local.
        let most = bytes(chain) / total;
        if most < LOCAL || best.as_ref().is_some_and(|b| most <= b.0 + 1e-9) {
            break;
        }
        let ends = chain.iter().skip(1).chain([&tasks]);
        let sizes = chain.iter().zip(ends).map(|(a, b)| (b / a) as u32);
        let mut dims: Vec<u32> = sizes.collect();
        dims.reverse();
        let local = neighbours(exchange, &dims) / total;
        if local >= LOCAL && best.as_ref().is_none_or(|b| local > b.0 + 1e-9) {
            best = Some((local, dims));
        }
    }
    best.map(|b| b.1)
}

/// Bytes between neighbours in one dimension of a grid, wrap-around included.
fn neighbours(exchange: &Exchange, dims: &[u32]) -> f64 {
    let is_neighbour = |a: u32, b: u32| {
        let (mut a, mut b, mut steps) = (a, b, 0);
        for &d in dims.iter().rev() {
            let apart = (a % d).abs_diff(b % d);
            steps += apart.min(d - apart);
            a /= d;
            b /= d;
        }
        steps == 1
    };
    exchange
        .iter()
        .filter(|(from, m)| is_neighbour(*from, m.to))
        .map(|(_, m)| m.bytes)
        .sum()
}

/// Coordinates of the tasks of a grid.
pub(crate) fn grid_points(dims: &[u32], tasks: usize) -> Vec<Point> {
    (0..tasks as u32)
        .map(|task| {
            let mut point = [0.0; DIMS];
            let mut rest = task;
            for (c, &d) in point.iter_mut().zip(dims).rev() {
                *c = (rest % d) as f32;
                rest /= d;
            }
            point
        })
        .collect()
}

/// Coordinates of the places on a grid machine. Each ring is cut at the allocation's
/// widest gap. Nodes of one router are adjacent in the last dimension.
pub(crate) fn place_points(problem: &Problem<'_>) -> Option<Vec<Point>> {
    let fabric = problem.fabric;
    let shape = fabric.shape().filter(|s| s.dims.len() <= DIMS)?;
    let nodes = problem.allocation.nodes();
    let mut points = Vec::with_capacity(nodes.len());
    for &(node, _) in nodes {
        let router = fabric.node(node).router;
        let mut point = [0.0; DIMS];
        for (p, &c) in point.iter_mut().zip(fabric.coord(router)?) {
            *p = c as f32;
        }
        let on_router = fabric.nodes_on(router);
        let beside = on_router.iter().position(|&n| n == node).unwrap_or(0);
        point[shape.dims.len() - 1] += 0.5 * beside as f32 / on_router.len() as f32;
        points.push(point);
    }
    for d in (0..shape.dims.len()).filter(|&d| shape.wrap[d]) {
        unroll(&mut points, d, shape.dims[d]);
    }
    Some(points)
}

/// Rotates a ring so that its widest unused stretch is at the end.
fn unroll(points: &mut [Point], d: usize, size: u32) {
    let n = size as usize;
    let mut used = vec![false; n];
    for p in &*points {
        used[p[d] as usize] = true;
    }
    let hole = |start: usize| (0..n).take_while(|k| !used[(start + k) % n]).count();
    let Some(widest) = (0..n).max_by_key(|&s| (hole(s), std::cmp::Reverse(s))) else {
        return;
    };
    let length = hole(widest);
    if length == 0 || length == n {
        return;
    }
    let first = (widest + length) % n;
    for p in points {
        p[d] -= first as f32;
        if p[d] < 0.0 {
            p[d] += size as f32;
        }
    }
}

/// The points with the coordinates' ranks in a reflected Gray code: neighbours on a ring then differ in one binary digit
/// of one coordinate. `None` unless every coordinate has a power of two of values.
pub(crate) fn reflected(points: &[Point]) -> Option<Vec<Point>> {
    let mut found = points.to_vec();
    for d in 0..DIMS {
        let mut values: Vec<f32> = points.iter().map(|p| p[d]).collect();
        values.sort_by(f32::total_cmp);
        values.dedup();
        if !values.len().is_power_of_two() {
            return None;
        }
        for p in &mut found {
            let rank = values.partition_point(|v| *v < p[d]);
            p[d] = (rank ^ (rank >> 1)) as f32;
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopbyte_fabric::declared;

    #[test]
    fn grids_of_any_dimension_show_in_the_traffic() {
        for (text, dims) in [
            ("stencil:8x4:5", &[8, 4][..]),
            ("stencil:16x8x4:27", &[16, 8, 4]),
            ("stencil:4x4x4x4:9:periodic", &[4, 4, 4, 4]),
            ("stencil:4x2x6x2:9", &[4, 2, 6, 2]),
            ("stencil:3x4x2x5x3:11", &[3, 4, 2, 5, 3]),
        ] {
            let exchange = declared::traffic(text).unwrap().total();
            assert_eq!(task_grid(&exchange).as_deref(), Some(dims), "{text}");
        }
    }
}
