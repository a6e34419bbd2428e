//! Bytes of pairs of nodes from bytes of links: the pairs of a prior model, changed as little as the links demand.
//!
//! Many pairs explain the same bytes of links. Of these, the one nearest to the prior by relative entropy is taken (Zhang,
//! Roughan, Lund, Donoho, "An information-theoretic approach to traffic matrix estimation", SIGCOMM 2003). Each pass scales every
//! pair by the geometric mean, along its route, of what the links carried and what the pairs put on them
//! (simultaneous multiplicative algebraic reconstruction), which approaches that solution.

/// Most entries of all routes: links of pairs, and sums of their ends.
const MOST: usize = 1 << 21;
/// Most passes, and most entries of all passes: attribution is part of a live answer each second.
const PASSES: usize = 200;
const WORK: usize = 1 << 27;
/// A pass that changes no pair by more than this ends the fit.
const STILL: f64 = 1e-3;
/// Bounds of the factor that a row asks for in a pass.
const STEP: (f64, f64) = (1e-3, 1e3);

/// Rows (links, sums of ends) with their bytes, and pairs with the rows that their bytes count in.
pub(super) struct Fit {
    /// Bytes by row; `None` was not read.
    read: Vec<Option<f64>>,
    /// Number of rows that other traffic may use as well.
    shared: usize,
    prior: Vec<f64>,
    /// Row and share of the pair's bytes, pair after pair.
    entries: Vec<(u32, f32)>,
    /// End of each pair's entries.
    ends: Vec<usize>,
}

impl Fit {
    /// With the bytes of links; `others`: nodes without a job may have sent some of them.
    pub(super) fn new(read: Vec<Option<f64>>, others: bool) -> Self {
        Self {
            shared: if others { read.len() } else { 0 },
            read,
            prior: Vec::new(),
            entries: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Adds a row, of these jobs alone.
    pub(super) fn row(&mut self, bytes: Option<f64>) -> usize {
        self.read.push(bytes);
        self.read.len() - 1
    }

    /// Adds a pair with its bytes by the prior model.
    pub(super) fn pair(&mut self, bytes: f64, rows: impl Iterator<Item = (usize, f64)>) {
        self.prior.push(bytes);
        if !self.is_full() {
            let entries = rows.map(|(row, share)| (row as u32, share as f32));
            self.entries.extend(entries);
        }
        self.ends.push(self.entries.len());
    }

    /// Number of pairs.
    pub(super) fn pairs(&self) -> usize {
        self.prior.len()
    }

    /// Whether there were more entries than are kept.
    pub(super) fn is_full(&self) -> bool {
        self.entries.len() >= MOST
    }

    fn of(&self, pair: usize) -> &[(u32, f32)] {
        let begin = pair.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.entries[begin..self.ends[pair]]
    }

    /// The bytes of each pair by those of the prior.
    pub(super) fn factors(&self) -> Vec<f64> {
        let mut factors = vec![1.0; self.pairs()];
        let mut logs = vec![0.0; self.read.len()];
        for _ in 0..PASSES.min(WORK / self.entries.len().max(1)) {
            let mut put = vec![0.0; self.read.len()];
            for (pair, factor) in factors.iter().enumerate() {
                let bytes = factor * self.prior[pair];
                for &(row, share) in self.of(pair) {
                    put[row as usize] += bytes * f64::from(share);
                }
            }
            for (row, log) in logs.iter_mut().enumerate() {
                *log = match self.read[row] {
                    Some(read) if put[row] > 0.0 => {
                        let most = if row < self.shared { 1.0 } else { STEP.1 };
                        (read / put[row]).clamp(STEP.0, most).ln()
                    }
                    _ => 0.0,
                };
            }
            let mut change: f64 = 0.0;
            for (pair, factor) in factors.iter_mut().enumerate() {
                let known = self
                    .of(pair)
                    .iter()
                    .filter(|e| self.read[e.0 as usize].is_some());
                let (mut sum, mut weight) = (0.0, 0.0);
                for &(row, share) in known {
                    sum += f64::from(share) * logs[row as usize];
                    weight += f64::from(share);
                }
                if weight > 0.0 {
                    *factor *= (sum / weight).exp();
                    change = change.max((sum / weight).abs());
                }
            }
            if change < STILL {
                break;
            }
        }
        factors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two links of two pairs each, and a pair on both.
    fn fit(read: [Option<f64>; 2], others: bool) -> Vec<f64> {
        let mut fit = Fit::new(read.to_vec(), others);
        fit.pair(1.0, [(0, 1.0)].into_iter());
        fit.pair(1.0, [(1, 1.0)].into_iter());
        fit.pair(1.0, [(0, 1.0), (1, 1.0)].into_iter());
        fit.factors()
    }

    #[test]
    fn the_links_then_carry_what_was_read() {
        let found = fit([Some(4.0), Some(1.0)], false);
        assert!((found[0] + found[2] - 4.0).abs() < 0.05, "{found:?}");
        assert!((found[1] + found[2] - 1.0).abs() < 0.05, "{found:?}");
        // The pair on both links is between the pairs on one.
        assert!(found[1] < found[2] && found[2] < found[0], "{found:?}");
    }

    #[test]
    fn unread_links_and_other_traffic_demand_nothing() {
        assert_eq!(fit([None, None], false), [1.0; 3]);
        // More than the pairs may be of others; less must be explained.
        let found = fit([Some(9.0), Some(1.0)], true);
        assert!(
            found[0] <= 1.0 && (found[1] + found[2] - 1.0).abs() < 0.05,
            "{found:?}"
        );
    }
}
