//! Descents between the runs of a search, for phases that follow one another.

use super::{Found, LAST, Rounds};
use crate::linear::Distances;
use crate::paths::Paths;
use crate::problem::MapError;
use crate::threads::each;
use crate::turns::DESCENT;
use hopbyte_fabric::Placement;

impl<P: Paths, D: Distances> Rounds<'_, P, D> {
    /// A descent from the best placement until the time ends.
    pub(super) fn descend_last(&mut self) -> Result<(), MapError> {
        let Some(descents) = &self.descents else {
            return Ok(());
        };
        let (start, seed) = (self.lowest(), (self.run.options.seed, LAST as u64));
        let most = (u64::MAX, u64::MAX);
        let (place_of, trials) = descents.run(start, most, seed, self.span.stop(self.flag))?;
        self.take(&place_of, trials)?;
        Ok(())
    }

    /// Whether a part of a wave with descents was cut short. Nothing may start from what it has found.
    pub(super) fn is_cut(&self) -> bool {
        self.descents.is_some() && self.left.contains(&0)
    }

    /// Descents before a wave of runs of so many trials, one for each run.
    pub(super) fn descend(&mut self, wave: u32, trials: u64) -> Result<(), MapError> {
        let Some(descents) = &self.descents else {
            return Ok(());
        };
        let planned = (trials as f64 * DESCENT / (1.0 - DESCENT)) as u64;
        let one = |run: usize| {
            let start = match (run + wave as usize) % 2 {
                0 => self.run.best(&self.found),
                _ => self.lowest(),
            };
            let number = u64::from(wave) * self.left.len() as u64 + run as u64;
            let seed = (self.run.options.seed, number);
            descents.run(start, (planned, self.left[run]), seed, self.stop)
        };
        let ends = each(self.left.len(), &one);
        self.spent = self.spent.saturating_add(planned);
        for (run, end) in ends.into_iter().enumerate() {
            let (place_of, trials) = end?;
            self.left[run] = self.left[run].saturating_sub(trials);
            if self.take(&place_of, trials)? {
                self.best_at = self.spent;
            }
        }
        Ok(())
    }

    /// Keeps the end of a descent if it is the best of all; whether it is.
    pub(super) fn take(&mut self, place_of: &[u32], trials: u64) -> Result<bool, MapError> {
        self.found.trials += trials;
        let better = self.run.keep(&mut self.descended, place_of)?;
        Ok(better && self.is_descended())
    }

    /// Whether a descent found the best placement.
    pub(super) fn is_descended(&self) -> bool {
        let objective = &self.run.problem.objective;
        let runs = self.run.cost(&self.found);
        let descended = self.descended.best.as_ref();
        descended.is_some_and(|d| d.1.better_than(runs, objective))
    }

    /// The best placement of runs and descents.
    pub(super) fn lowest(&self) -> &Placement {
        match self.is_descended() {
            true => self.run.best(&self.descended),
            false => self.run.best(&self.found),
        }
    }

    /// The result of runs and descents.
    pub(super) fn end(mut self) -> Found {
        if self.is_descended() {
            self.found.best = self.descended.best;
        }
        self.found
    }
}
