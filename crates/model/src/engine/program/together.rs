//! Loops of ranks that exchange no messages with each other, but may share links while they last.

use hopbyte_fabric::trace::folded::Span;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

/// Share of the longest loop by which others may end earlier or later.
const APART: f64 = 0.01;

/// The executed iterations of a rank's loop.
pub(super) struct Executed {
    /// End of the first.
    pub(super) first: f64,
    /// End of the last.
    pub(super) last: f64,
    /// End of the loop with all its iterations.
    pub(super) end: f64,
}

/// The loop of one part of the ranks, from its first rank to its last.
struct Part {
    executed: [f64; 2],
    end: f64,
    /// Iterations by executed one, after the first.
    factor: f64,
}

/// The loops of all parts, by span.
#[derive(Default)]
pub(super) struct Together {
    parts: BTreeMap<u32, HashMap<u32, Part>>,
}

impl Together {
    pub(super) fn add(&mut self, number: u32, span: &Span, rank: usize, of: &Executed) {
        let (kept, skipped) = (span.kept[rank] as f64, span.skipped[rank] as f64);
        let factor = (kept + skipped - 1.0) / (kept - 1.0).max(1.0);
        let parts = self.parts.entry(number).or_default();
        let part = parts.entry(span.part[rank]).or_insert(Part {
            executed: [of.first, of.last],
            end: of.end,
            factor,
        });
        part.executed[0] = part.executed[0].min(of.first);
        part.executed[1] = part.executed[1].max(of.last);
        part.end = part.end.max(of.end);
        part.factor = part.factor.max(factor);
    }

    /// Whether a loop ends at different times in several parts.
    pub(super) fn is_apart(&self) -> bool {
        self.parts.values().filter(|of| of.len() > 1).any(|of| {
            let ends = of.values().map(|p| p.end);
            let (first, last) = ends.fold((f64::INFINITY, 0.0), |(a, b): (f64, f64), end| {
                (a.min(end), b.max(end))
            });
            let longest = of.values().map(|p| p.end - p.executed[0]);
            last - first > APART * longest.fold(0.0, f64::max)
        })
    }

    /// The time that the left-out iterations take, if any time inside loops passes as many times as these have more.
    pub(super) fn left_out(&self) -> f64 {
        let mut parts: Vec<&Part> = self.parts.values().flat_map(HashMap::values).collect();
        parts.sort_by(|a, b| b.executed[0].total_cmp(&a.executed[0]));
        let mut bounds: Vec<f64> = parts.iter().flat_map(|p| p.executed).collect();
        bounds.sort_by(f64::total_cmp);
        bounds.dedup();
        // By the largest factor of the loops that last.
        let mut lasting: BinaryHeap<(u64, u64)> = BinaryHeap::new();
        let mut sum = 0.0;
        for pair in bounds.windows(2) {
            while let Some(part) = parts.pop_if(|p| p.executed[0] <= pair[0]) {
                // Bits of numbers that are not negative are ordered as they are.
                lasting.push((part.factor.to_bits(), part.executed[1].to_bits()));
            }
            while lasting
                .peek()
                .is_some_and(|l| f64::from_bits(l.1) <= pair[0])
            {
                lasting.pop();
            }
            if let Some(&(factor, _)) = lasting.peek() {
                sum += (f64::from_bits(factor) - 1.0) * (pair[1] - pair[0]);
            }
        }
        sum
    }
}
