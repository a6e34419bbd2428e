//! Trials that are evaluated together, on all threads.

use crate::arrangement::Swap;
use crate::schedule::Schedule;
use crate::threads::each_mut;
use hopbyte_fabric::random::Random;

/// Number of random streams, and trials of each. Fixed, so that the result does not depend on the number of
/// threads.
const SIZE: (usize, usize) = (16, 256);

/// For each stream its scratch data, and the accepted swaps with their cost limits.
pub(crate) struct Batch<W>(Vec<(W, Vec<(Swap, f64)>)>);

impl<W: Send> Batch<W> {
    /// Number of trials in a batch.
    pub(crate) const TRIALS: u64 = (SIZE.0 * SIZE.1) as u64;

    /// `work` creates the scratch data of one stream.
    pub(crate) fn new(work: impl Fn() -> W) -> Self {
        Self((0..SIZE.0).map(|_| (work(), Vec::new())).collect())
    }

    /// Evaluates a batch of swaps against the current arrangement: `candidate` draws one, `judge` returns
    /// whether its cost stays within a limit.
    pub(crate) fn judge(
        &mut self,
        schedule: &Schedule,
        rng: &mut Random,
        candidate: impl Fn(&mut Random) -> Option<Swap> + Sync,
        judge: impl Fn(&mut W, Swap, f64) -> bool + Sync,
    ) {
        let seed = rng.next_u64();
        each_mut(&mut self.0, &|number, (work, found)| {
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

    /// The accepted swaps with their limits, in a deterministic order. Evaluate each again before use: earlier
    /// swaps of the batch may have moved the partner or the neighbours.
    pub(crate) fn taken(&self) -> impl Iterator<Item = (Swap, f64)> {
        self.0.iter().flat_map(|stream| stream.1.iter().copied())
    }
}
