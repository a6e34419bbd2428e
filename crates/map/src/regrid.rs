//! Grids of tasks that are numbered in any order.
//!
//! On a grid without wrap-around a corner has the fewest neighbours. Seen from it, a cell's neighbours on the way back
//! are one step nearer along every dimension in which the cell is not on the corner's side: their greatest coordinates
//! are the cell's. A cell with one such neighbour is on an axis, one step further.

use crate::coords::{DIMS, task_grid};
use crate::graph::Graph;
use hopbyte_fabric::Exchange;

/// Edges of at least this share of the heaviest join neighbours of a grid.
const HEAVY: f32 = 0.5;

/// A grid of tasks.
pub(crate) struct TaskGrid {
    /// Sizes, the last dimension fastest.
    pub(crate) dims: Vec<u32>,
    /// Cell of every task, row-major.
    pub(crate) cell: Vec<u32>,
}

impl TaskGrid {
    /// The grid on which the traffic is a stencil, with tasks in its order or in any other.
    pub(crate) fn of(exchange: &Exchange, graph: &Graph) -> Option<Self> {
        if let Some(dims) = task_grid(exchange) {
            let cell = (0..exchange.tasks() as u32).collect();
            return Some(Self { dims, cell });
        }
        recovered(graph)
    }
}

type Cell = [u32; DIMS];

/// The open grid whose neighbours exchange the heaviest messages; `None` unless every such edge joins neighbours and
/// every cell has a task.
fn recovered(graph: &Graph) -> Option<TaskGrid> {
    let n = graph.units();
    let weight = |u: u32| graph.edges(u).iter().map(|e| e.out + e.back);
    let heaviest = (0..n as u32).flat_map(weight).fold(0.0, f32::max);
    let next: Vec<Vec<u32>> = (0..n as u32)
        .map(|u| {
            let near = graph.edges(u).iter();
            let near = near.filter(|e| e.out + e.back >= HEAVY * heaviest);
            near.map(|e| e.to).collect()
        })
        .collect();
    let corner = (0..n).min_by_key(|&u| next[u].len())?;
    let dimensions = next[corner].len();
    let most = next.iter().map(Vec::len).max()?;
    if !(2..=DIMS).contains(&dimensions) || most > 2 * dimensions {
        return None;
    }
    let mut distance = vec![u32::MAX; n];
    let mut order = vec![corner as u32];
    distance[corner] = 0;
    let mut at = 0;
    while let Some(&u) = order.get(at) {
        at += 1;
        for &to in &next[u as usize] {
            if distance[to as usize] == u32::MAX {
                distance[to as usize] = distance[u as usize] + 1;
                order.push(to);
            }
        }
    }
    if order.len() < n {
        return None;
    }
    let mut cells: Vec<Cell> = vec![[0; DIMS]; n];
    for &u in &order[1..] {
        let nearer = next[u as usize]
            .iter()
            .filter(|&&b| distance[b as usize] < distance[u as usize]);
        let mut back = nearer.map(|&b| cells[b as usize]);
        let first = back.next()?;
        let mut cell = first;
        let mut alone = true;
        for other in back {
            alone = false;
            cell = std::array::from_fn(|d| cell[d].max(other[d]));
        }
        if alone {
            let axis = match distance[u as usize] {
                1 => next[corner].iter().position(|&b| b == u)?,
                _ => (0..DIMS).find(|&d| first[d] > 0)?,
            };
            cell[axis] += 1;
        }
        cells[u as usize] = cell;
    }
    let size = |d: usize| cells.iter().map(|c| c[d]).max().unwrap_or(0) + 1;
    let dims: Vec<u32> = (0..dimensions).map(size).collect();
    if dims.iter().map(|&d| u64::from(d)).product::<u64>() != n as u64 {
        return None;
    }
    let steps = |a: &Cell, b: &Cell| a.iter().zip(b).map(|(x, y)| x.abs_diff(*y)).sum::<u32>();
    let joined = |u: usize| {
        next[u]
            .iter()
            .all(|&to| steps(&cells[u], &cells[to as usize]) == 1)
    };
    let number = |c: &Cell| dims.iter().zip(c).fold(0, |at, (&d, &c)| at * d + c);
    let cell: Vec<u32> = cells.iter().map(number).collect();
    let mut seen = vec![false; n];
    let once = cell
        .iter()
        .all(|&c| !std::mem::replace(&mut seen[c as usize], true));
    (once && (0..n).all(joined)).then_some(TaskGrid { dims, cell })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopbyte_fabric::declared;
    use hopbyte_fabric::random::Random;

    #[test]
    fn a_renumbered_stencil_is_the_same_grid() {
        for text in [
            "stencil:8x8:5",
            "stencil:6x4x5:7",
            "stencil:5x4x3:27",
            "stencil:3x2x4x2:9",
        ] {
            let traffic = declared::traffic(text).unwrap().total();
            let n = traffic.tasks();
            let name = Random::new(7).permutation(n);
            let entries = traffic
                .iter()
                .map(|(a, m)| (name[a as usize], name[m.to as usize], m.bytes, 1));
            let exchange = Exchange::new(n, entries.collect::<Vec<_>>()).unwrap();
            let graph = Graph::of_tasks(&exchange);
            let found = TaskGrid::of(&exchange, &graph).unwrap();
            let mut sizes = found.dims.clone();
            sizes.sort_unstable();
            let words = text.split(':').nth(1).unwrap().split('x');
            let mut expected: Vec<u32> = words.map(|w| w.parse().unwrap()).collect();
            expected.sort_unstable();
            assert_eq!(sizes, expected, "{text}");
        }
    }

    #[test]
    fn other_traffic_is_no_grid() {
        let pairs =
            (0..60u32).flat_map(|t| [(t, (t * 7 + 1) % 60, 8.0, 1), (t, (t + 13) % 60, 8.0, 1)]);
        let exchange = Exchange::new(60, pairs).unwrap();
        assert!(recovered(&Graph::of_tasks(&exchange)).is_none());
        let missing = declared::traffic("stencil:4x4:5").unwrap().total();
        let entries = missing.iter().filter(|(a, m)| *a != 5 || m.to != 6);
        let entries = entries
            .filter(|(a, m)| *a != 6 || m.to != 5)
            .map(|(a, m)| (a, m.to, m.bytes, 1));
        // A hole in the grid is still the grid: every other edge joins neighbours.
        let exchange = Exchange::new(16, entries.collect::<Vec<_>>()).unwrap();
        assert!(recovered(&Graph::of_tasks(&exchange)).is_none_or(|g| g.dims == [4, 4]));
    }
}
