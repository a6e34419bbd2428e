//! Coordinates of tasks and places on a grid, if they have any.

use crate::problem::Problem;
use hopbyte_fabric::Exchange;

/// A point in up to three dimensions.
pub(crate) type Point = [f32; 3];

/// Minimum share of the bytes between direct neighbours for a grid to be accepted.
const LOCAL: f64 = 0.5;

/// Maximum number of rank offsets considered.
const OFFSETS: usize = 12;

/// The grid of tasks on which the traffic is a stencil, row-major, last dimension fastest, found from the rank
/// offsets that carry most bytes. `None` if no grid explains the traffic.
pub(crate) fn task_grid(exchange: &Exchange) -> Option<Vec<u32>> {
    let tasks = exchange.tasks();
    let mut by_offset = vec![0.0f64; tasks];
    for (from, message) in exchange.iter() {
        by_offset[from.abs_diff(message.to) as usize] += message.bytes;
    }
    let total: f64 = by_offset.iter().sum();
    let mut offsets: Vec<usize> = (1..tasks).filter(|&o| by_offset[o] > 0.0).collect();
    offsets.sort_by(|&a, &b| by_offset[b].total_cmp(&by_offset[a]).then(a.cmp(&b)));
    offsets.truncate(OFFSETS);
    let divides = |a: usize, b: usize| b.is_multiple_of(a) && b > a;
    let mut best: Option<(f64, Vec<u32>)> = None;
    let strides: Vec<usize> = offsets.into_iter().filter(|&o| divides(o, tasks)).collect();
    for &middle in strides.iter().filter(|&&s| s > 1) {
        for &outer in strides.iter().chain([&tasks]) {
            if !divides(middle, outer) {
                continue;
            }
            let mut dims = vec![(outer / middle) as u32, middle as u32];
            if outer < tasks {
                dims.insert(0, (tasks / outer) as u32);
            }
            let local = neighbours(exchange, &dims) / total;
            if local >= LOCAL && best.as_ref().is_none_or(|b| local > b.0 + 1e-9) {
                best = Some((local, dims));
            }
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
            let mut point = [0.0; 3];
            let mut rest = task;
            for (c, &d) in point.iter_mut().zip(dims).rev() {
                *c = (rest % d) as f32;
                rest /= d;
            }
            point
        })
        .collect()
}

/// Coordinates of the places on a grid machine of up to three dimensions. Each ring is cut at the allocation's
/// widest gap. Nodes of one router are adjacent in the last dimension.
pub(crate) fn place_points(problem: &Problem<'_>) -> Option<Vec<Point>> {
    let fabric = problem.fabric;
    let shape = fabric.shape().filter(|s| s.dims.len() <= 3)?;
    let nodes = problem.allocation.nodes();
    let mut points = Vec::with_capacity(nodes.len());
    for &(node, _) in nodes {
        let router = fabric.node(node).router;
        let mut point = [0.0; 3];
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
