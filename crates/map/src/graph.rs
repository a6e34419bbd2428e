//! Communication graph: symmetric adjacency with both directions' weights.

use hopbyte_fabric::Exchange;

/// One neighbour of a unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Edge {
    /// The neighbour.
    pub(crate) to: u32,
    /// Bytes to it, on the request route in this direction.
    pub(crate) out: f32,
    /// Bytes from it.
    pub(crate) back: f32,
}

/// Units (tasks or groups of tasks) and the bytes between them.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    /// Tasks in each unit.
    pub(crate) size: Vec<u32>,
    offsets: Vec<usize>,
    edges: Vec<Edge>,
}

impl Graph {
    /// Tasks as units of size 1.
    pub(crate) fn of_tasks(exchange: &Exchange) -> Self {
        let n = exchange.tasks();
        let mut offsets = vec![0usize; n + 1];
        for (from, message) in exchange.iter() {
            offsets[from as usize + 1] += 1;
            offsets[message.to as usize + 1] += 1;
        }
        for i in 0..n {
            offsets[i + 1] += offsets[i];
        }
        let none = Edge {
            to: 0,
            out: 0.0,
            back: 0.0,
        };
        let mut edges = vec![none; offsets[n]];
        let mut at = offsets.clone();
        for (from, message) in exchange.iter() {
            let bytes = message.bytes as f32;
            for (unit, to, out, back) in [
                (from, message.to, bytes, 0.0),
                (message.to, from, 0.0, bytes),
            ] {
                edges[at[unit as usize]] = Edge { to, out, back };
                at[unit as usize] += 1;
            }
        }
        Self::merged(vec![1; n], &offsets, edges)
    }

    /// The graph of groups: `group[unit]` is the number of the unit's group, below `groups`.
    pub(crate) fn quotient(&self, group: &[u32], groups: usize) -> Self {
        let mut size = vec![0u32; groups];
        let mut offsets = vec![0usize; groups + 1];
        for unit in 0..self.units() {
            let g = group[unit] as usize;
            size[g] += self.size[unit];
            let outside = self.edges(unit as u32).iter();
            offsets[g + 1] += outside
                .filter(|e| group[e.to as usize] as usize != g)
                .count();
        }
        for g in 0..groups {
            offsets[g + 1] += offsets[g];
        }
        let none = Edge {
            to: 0,
            out: 0.0,
            back: 0.0,
        };
        let mut edges = vec![none; offsets[groups]];
        let mut at = offsets.clone();
        for unit in 0..self.units() {
            let g = group[unit];
            for edge in self.edges(unit as u32) {
                let to = group[edge.to as usize];
                if to != g {
                    edges[at[g as usize]] = Edge { to, ..*edge };
                    at[g as usize] += 1;
                }
            }
        }
        Self::merged(size, &offsets, edges)
    }

    /// The graph without the lightest edges of every unit. At least `share` of the unit's bytes remain; an edge
    /// remains if either end keeps it.
    pub(crate) fn heaviest(&self, share: f32) -> Self {
        if share >= 1.0 {
            return self.clone();
        }
        let mut least = vec![0.0f32; self.units()];
        let mut weights: Vec<f32> = Vec::new();
        for (unit, least) in least.iter_mut().enumerate() {
            weights.clear();
            weights.extend(self.edges(unit as u32).iter().map(|e| e.out + e.back));
            weights.sort_by(f32::total_cmp);
            let mut drop = (1.0 - share) * weights.iter().sum::<f32>();
            for &w in &weights {
                drop -= w;
                if drop < 0.0 {
                    *least = w;
                    break;
                }
            }
        }
        let mut offsets = vec![0];
        let mut edges = Vec::new();
        for unit in 0..self.units() {
            edges.extend(
                self.edges(unit as u32)
                    .iter()
                    .filter(|e| e.out + e.back >= least[unit].min(least[e.to as usize])),
            );
            offsets.push(edges.len());
        }
        Self {
            size: self.size.clone(),
            offsets,
            edges,
        }
    }

    /// Sorts every unit's edges and merges those to the same neighbour.
    fn merged(size: Vec<u32>, offsets: &[usize], mut edges: Vec<Edge>) -> Self {
        let n = size.len();
        let mut merged_offsets = Vec::with_capacity(n + 1);
        merged_offsets.push(0);
        let mut write = 0;
        for unit in 0..n {
            let (start, end) = (offsets[unit], offsets[unit + 1]);
            edges[start..end].sort_unstable_by_key(|e| e.to);
            let first = write;
            for read in start..end {
                let edge = edges[read];
                if edge.out + edge.back <= 0.0 {
                    continue;
                }
                if write > first && edges[write - 1].to == edge.to {
                    edges[write - 1].out += edge.out;
                    edges[write - 1].back += edge.back;
                } else {
                    edges[write] = edge;
                    write += 1;
                }
            }
            merged_offsets.push(write);
        }
        edges.truncate(write);
        edges.shrink_to_fit();
        Self {
            size,
            offsets: merged_offsets,
            edges,
        }
    }

    /// Number of units.
    pub(crate) fn units(&self) -> usize {
        self.size.len()
    }

    /// Number of edge ends: twice the number of edges.
    pub(crate) fn ends(&self) -> usize {
        self.edges.len()
    }

    /// Bytes of every flow, unit by unit.
    fn flows(&self) -> impl Iterator<Item = f64> {
        let flows = self.edges.iter().map(|e| f64::from(e.out));
        flows.filter(|&bytes| bytes > 0.0)
    }

    /// Byte-weighted mean size of a flow; 1 if there is no traffic.
    pub(crate) fn typical_flow(&self) -> f64 {
        let (sum, squares) = self
            .flows()
            .fold((0.0, 0.0), |(s, q), b| (s + b, q + b * b));
        if sum > 0.0 { squares / sum } else { 1.0 }
    }

    /// Mean size of a flow; 1 if there is no traffic.
    pub(crate) fn mean_flow(&self) -> f64 {
        let (sum, count) = self.flows().fold((0.0, 0usize), |(s, n), b| (s + b, n + 1));
        if count > 0 { sum / count as f64 } else { 1.0 }
    }

    /// Neighbours of a unit, by number.
    #[inline]
    pub(crate) fn edges(&self, unit: u32) -> &[Edge] {
        &self.edges[self.offsets[unit as usize]..self.offsets[unit as usize + 1]]
    }

    /// The edge between two units, if any.
    pub(crate) fn edge(&self, unit: u32, to: u32) -> Option<Edge> {
        let edges = self.edges(unit);
        let at = edges.binary_search_by_key(&to, |e| e.to).ok()?;
        Some(edges[at])
    }

    /// Bytes to and from all neighbours of a unit.
    pub(crate) fn bytes(&self, unit: u32) -> f64 {
        self.edges(unit)
            .iter()
            .map(|e| f64::from(e.out + e.back))
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_symmetric_and_quotients_add_up() {
        let exchange = Exchange::new(
            4,
            [
                (0, 1, 5.0, 1),
                (1, 0, 2.0, 1),
                (1, 2, 4.0, 1),
                (3, 0, 1.0, 1),
            ],
        )
        .unwrap();
        let g = Graph::of_tasks(&exchange);
        assert_eq!(
            g.edges(0)[0],
            Edge {
                to: 1,
                out: 5.0,
                back: 2.0
            }
        );
        assert_eq!(
            g.edges(1)[0],
            Edge {
                to: 0,
                out: 2.0,
                back: 5.0
            }
        );
        assert_eq!(
            g.edges(2),
            [Edge {
                to: 1,
                out: 0.0,
                back: 4.0
            }]
        );
        let q = g.quotient(&[0, 1, 1, 0], 2);
        assert_eq!(q.size, [2, 2]);
        assert_eq!(
            q.edges(0),
            [Edge {
                to: 1,
                out: 5.0,
                back: 2.0
            }]
        );
    }
}
