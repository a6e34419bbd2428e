//! Trials that are judged together, on all threads.

use crate::arrangement::Swap;
use crate::schedule::Schedule;
use hopbyte_fabric::random::Random;
use rayon::prelude::*;

/// Streams of random numbers, and trials of each. Fixed, so that the result does not depend on the number
/// of threads.
const SIZE: (usize, usize) = (16, 256);

/// For each stream what its trials work with, and the swaps that it found with the most that each may cost.
pub(crate) struct Batch<W>(Vec<(W, Vec<(Swap, f64)>)>);

impl<W: Send> Batch<W> {
    /// Trials of a batch.
    pub(crate) const TRIALS: u64 = (SIZE.0 * SIZE.1) as u64;

    /// `work` is what the trials of one stream share.
    pub(crate) fn new(work: impl Fn() -> W) -> Self {
        Self((0..SIZE.0).map(|_| (work(), Vec::new())).collect())
    }

    /// Judges a batch of swaps against things as they are: `candidate` finds one, `judge` says whether it costs
    /// no more than a limit.
    pub(crate) fn judge(
        &mut self,
        schedule: &Schedule,
        rng: &mut Random,
        candidate: impl Fn(&mut Random) -> Option<Swap> + Sync,
        judge: impl Fn(&mut W, Swap, f64) -> bool + Sync,
    ) {
        let seed = rng.next_u64();
        let each = self.0.par_iter_mut().enumerate();
        each.for_each(|(number, (work, found))| {
            let mut rng = Random::stream(seed, number as u64);
            found.clear();
            for _ in 0..SIZE.1 {
                let Some(swap) = candidate(&mut rng) else {
                    continue;
                };
                let limit = schedule.limit(&mut rng);
                if judge(work, swap, limit) {
                    found.push((swap, limit));
                }
            }
        });
    }

    /// The swaps that may be done, with their limits, in an order that is always the same. They are to be
    /// judged again: who was there, and the partners, may have moved by then.
    pub(crate) fn taken(&self) -> impl Iterator<Item = (Swap, f64)> {
        self.0.iter().flat_map(|stream| stream.1.iter().copied())
    }
}
