//! Spectral bound on the bytes between parts of given sizes, by Donath and Hoffman ("Lower bounds for the
//! partitioning of graphs", IBM J. Res. Dev. 1973): at least half of Σ mᵢ·λᵢ, for descending sizes mᵢ and
//! ascending eigenvalues λᵢ of the traffic's Laplacian.

use crate::graph::Graph;

/// Maximum number of tasks; the time grows with its cube.
const MOST: usize = 512;

/// Eigenvalues are reduced by this share, for rounding errors.
const ROUNDING: f64 = 1e-9;

/// Bisection steps for an eigenvalue: to a quarter of [`ROUNDING`].
const HALVINGS: usize = 32;

/// Smallest eigenvalues of a traffic, ascending.
pub(crate) struct Spectrum(Vec<f64>);

impl Spectrum {
    /// The first `count` eigenvalues; `None` if there are too many tasks.
    pub(crate) fn of(graph: &Graph, count: usize) -> Option<Self> {
        let n = graph.units();
        if n > MOST || n == 0 {
            return None;
        }
        let mut laplacian = vec![vec![0.0; n]; n];
        for (unit, row) in laplacian.iter_mut().enumerate() {
            let others = graph.edges(unit as u32).iter().map(|e| (e.to as usize, e));
            for (to, edge) in others.filter(|(to, _)| *to != unit) {
                let bytes = f64::from(edge.out) + f64::from(edge.back);
                row[to] -= bytes;
                row[unit] += bytes;
            }
        }
        let trace: f64 = (0..n).map(|i| laplacian[i][i]).sum();
        let (diagonal, beside) = tridiagonal(laplacian);
        let values = (0..count.min(n)).map(|k| {
            let value = kth(&diagonal, &beside, k, trace);
            (value - ROUNDING * trace).max(0.0)
        });
        Some(Self(values.collect()))
    }

    /// Minimum bytes, both directions together, between parts of at most the given sizes that contain all
    /// `tasks`.
    pub(crate) fn cut(&self, rooms: &[usize], tasks: usize) -> f64 {
        let mut sizes = rooms.to_vec();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        let mut left = tasks;
        let mut sum = 0.0;
        for (room, value) in sizes.into_iter().zip(&self.0) {
            let size = room.min(left);
            left -= size;
            sum += size as f64 * value;
        }
        // Further eigenvalues are larger than those computed.
        0.5 * (sum + left as f64 * self.0.last().copied().unwrap_or(0.0))
    }
}

/// Diagonal and off-diagonal of a similar tridiagonal matrix (Householder's reduction).
fn tridiagonal(mut a: Vec<Vec<f64>>) -> (Vec<f64>, Vec<f64>) {
    let n = a.len();
    for k in 0..n.saturating_sub(2) {
        let norm = (k + 1..n).map(|i| a[i][k] * a[i][k]).sum::<f64>().sqrt();
        let alpha = if a[k + 1][k] > 0.0 { -norm } else { norm };
        let mut v: Vec<f64> = (0..n).map(|i| if i > k { a[i][k] } else { 0.0 }).collect();
        v[k + 1] -= alpha;
        let square: f64 = v.iter().map(|x| x * x).sum();
        if square <= 0.0 {
            continue;
        }
        let p: Vec<f64> = (0..n)
            .map(|i| 2.0 / square * (k + 1..n).map(|j| a[i][j] * v[j]).sum::<f64>())
            .collect();
        let half = p.iter().zip(&v).map(|(p, v)| p * v).sum::<f64>() / square;
        let q: Vec<f64> = p.iter().zip(&v).map(|(p, v)| p - half * v).collect();
        for i in k..n {
            for j in k..n {
                a[i][j] -= v[i] * q[j] + q[i] * v[j];
            }
        }
    }
    let diagonal = (0..n).map(|i| a[i][i]).collect();
    let beside = (1..n).map(|i| a[i][i - 1]).collect();
    (diagonal, beside)
}

/// The k-th smallest eigenvalue, by bisection on the number of eigenvalues below a value (Sturm's sequence).
fn kth(diagonal: &[f64], beside: &[f64], k: usize, most: f64) -> f64 {
    let tiny = f64::MIN_POSITIVE.sqrt();
    let below = |x: f64| {
        let mut d = 1.0f64;
        let mut count = 0;
        for (i, &a) in diagonal.iter().enumerate() {
            let b = if i > 0 { beside[i - 1] } else { 0.0 };
            d = a - x - b * b / d;
            if d.abs() < tiny {
                d = tiny;
            }
            count += usize::from(d < 0.0);
        }
        count
    };
    let (mut low, mut high) = (0.0, most.max(0.0));
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        if below(middle) > k {
            high = middle;
        } else {
            low = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopbyte_fabric::Exchange;

    #[test]
    fn eigenvalues_of_a_ring_are_known() {
        let ring = (0..12).map(|i| (i, (i + 1) % 12, 1.0, 1));
        let graph = Graph::of_tasks(&Exchange::new(12, ring).unwrap());
        let Spectrum(found) = Spectrum::of(&graph, 12).unwrap();
        let wave = |k: usize| 2.0 - 2.0 * (std::f64::consts::TAU * k as f64 / 12.0).cos();
        let mut expected: Vec<f64> = (0..12).map(wave).collect();
        expected.sort_by(f64::total_cmp);
        for (a, b) in found.iter().zip(&expected) {
            assert!((a - b).abs() < 1e-6, "{a} {b}");
        }
    }

    #[test]
    fn halves_of_a_complete_graph_are_cut_exactly() {
        let pairs =
            (0..8).flat_map(|a| (0..8).filter(move |&b| b != a).map(move |b| (a, b, 1.0, 1)));
        let graph = Graph::of_tasks(&Exchange::new(8, pairs).unwrap());
        // Four tasks on either side: sixteen pairs, a byte each way.
        let cut = Spectrum::of(&graph, 2).unwrap().cut(&[4, 4], 8);
        assert!((cut - 32.0).abs() < 1e-6, "{cut}");
        assert_eq!(Spectrum::of(&graph, 2).unwrap().cut(&[8, 4], 8), 0.0);
    }
}
