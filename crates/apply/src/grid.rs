//! Placements that are blocks of a grid of ranks, as Cray's tools express them.

use crate::error::ApplyError;
use crate::layout::Layout;

/// A grid of ranks, its last dimension fastest, divided into equal cells: one per node, in row-major order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cells {
    grid: Vec<usize>,
    cell: Vec<usize>,
}

impl Cells {
    /// The grid of two or three dimensions with cells equal to the nodes' ranks, in this order.
    fn of(order: &[u32], each: usize) -> Option<Self> {
        for dims in [2, 3] {
            for grid in factors(order.len(), dims) {
                let cells = factors(each, dims).into_iter();
                let fits = |c: &Vec<usize>| c.iter().zip(&grid).all(|(c, g)| g % c == 0);
                for cell in cells.filter(fits) {
                    let grid = grid.clone();
                    let cells = Self { grid, cell };
                    if cells.ranks().eq(order.iter().copied()) {
                        return Some(cells);
                    }
                }
            }
        }
        None
    }

    /// Ranks cell by cell, as `grid_order -R` lists them.
    fn ranks(&self) -> impl Iterator<Item = u32> + '_ {
        let counts: Vec<usize> = (self.grid.iter().zip(&self.cell))
            .map(|(g, c)| g / c)
            .collect();
        let cells: usize = counts.iter().product();
        let each: usize = self.cell.iter().product();
        (0..cells).flat_map(move |at| {
            let corner = coordinates(at, &counts);
            (0..each).map(move |inside| {
                let offset = coordinates(inside, &self.cell);
                let mut rank = 0;
                for (d, &length) in self.grid.iter().enumerate() {
                    rank = rank * length + corner[d] * self.cell[d] + offset[d];
                }
                rank as u32
            })
        })
    }
}

/// Coordinates of position `index` in a box, the last dimension fastest.
fn coordinates(mut index: usize, lengths: &[usize]) -> Vec<usize> {
    let mut at = vec![0; lengths.len()];
    for (d, &length) in lengths.iter().enumerate().rev() {
        at[d] = index % length;
        index /= length;
    }
    at
}

/// All factorisations of a number into a given number of factors, in order.
fn factors(n: usize, count: usize) -> Vec<Vec<usize>> {
    if count == 1 {
        return vec![vec![n]];
    }
    let divisors = (1..=n)
        .take_while(|d| d * d <= n)
        .filter(|d| n.is_multiple_of(*d));
    let mut all: Vec<usize> = divisors.flat_map(|d| [d, n / d]).collect();
    all.sort_unstable();
    all.dedup();
    let mut found = Vec::new();
    for first in all {
        for rest in factors(n / first, count - 1) {
            let mut one = vec![first];
            one.extend(rest);
            found.push(one);
        }
    }
    found
}

fn cells(layout: &Layout<'_>, format: &'static str) -> Result<Cells, ApplyError> {
    let by_place = layout.ranks_by_place();
    let each = by_place.first().map_or(0, Vec::len);
    let even = each > 0 && by_place.iter().all(|ranks| ranks.len() == each);
    let order: Vec<u32> = by_place.into_iter().flatten().collect();
    let found = even.then(|| Cells::of(&order, each)).flatten();
    found.ok_or_else(|| ApplyError::Inexpressible {
        what: "placement",
        format,
        why: "it cuts a grid of ranks into equal boxes, one per node and in order, and the placement does not".into(),
        instead: "use mpich-rank-order, which can express any placement of a full launch".into(),
    })
}

fn joined(numbers: &[usize]) -> String {
    let words: Vec<String> = numbers.iter().map(usize::to_string).collect();
    words.join(",")
}

/// The command of Cray's `grid_order` that prints this placement's rank order.
pub(crate) fn grid_order(layout: &Layout<'_>) -> Result<String, ApplyError> {
    let cells = cells(layout, "grid-order")?;
    Ok(format!(
        "grid_order -R -g {} -c {}\n",
        joined(&cells.grid),
        joined(&cells.cell)
    ))
}

/// Options of Cray MPICH's rank reordering method 4: the grid; the library chooses the cells.
pub(crate) fn method_4(layout: &Layout<'_>) -> Result<String, ApplyError> {
    let cells = cells(layout, "mpich-method-4")?;
    Ok(format!(
        "--ndims={} --dims={} --nearest\n",
        cells.grid.len(),
        joined(&cells.grid)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_found_and_nothing_else_is() {
        // Output of `grid_order -R -g 4,4 -c 2,2`.
        let order = [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15];
        let found = Cells::of(&order, 4).unwrap();
        assert_eq!((found.grid, found.cell), (vec![4, 4], vec![2, 2]));
        let swapped = [0, 1, 4, 5, 3, 2, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15];
        assert_eq!(Cells::of(&swapped, 4), None);
        let cube = Cells {
            grid: vec![4, 6, 2],
            cell: vec![2, 3, 1],
        };
        let order: Vec<u32> = cube.ranks().collect();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..48));
        let found = Cells::of(&order, 6).unwrap();
        assert!(found.ranks().eq(order));
    }

    #[test]
    fn factors_are_complete() {
        assert_eq!(factors(4, 2), [[1, 4], [2, 2], [4, 1]]);
        assert_eq!(factors(12, 3).len(), 18);
        assert_eq!(factors(1, 3), [[1, 1, 1]]);
    }
}
