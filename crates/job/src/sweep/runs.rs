//! Runs of a parameter study, several at a time.

use super::journal::{RUN_SCHEMA, RunRecord};
use crate::error::{Context, Result};
use crate::scenario::Asked;
use hopbyte_model::sweep::Point;
use hopbyte_model::{Question, Scenario};
use hopbyte_observe::threads::start_in;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// The runs of a study.
pub struct Work<'a> {
    /// Scenarios, by number.
    pub scenarios: &'a [Scenario],
    /// Their machines and inputs.
    pub asked: &'a [Asked],
    /// Operating points, by number of the run.
    pub points: &'a [Point],
    /// Runs at a time.
    pub jobs: usize,
}

/// Number of this machine's processors, if known.
pub fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

impl Work<'_> {
    /// Runs these points in any order and passes each result on as it completes; `progress` gets the number of
    /// finished runs.
    ///
    /// # Errors
    /// The first error of a run or of `keep`.
    pub fn run(
        &self,
        list: &[u64],
        progress: &dyn Fn(usize),
        mut keep: impl FnMut(RunRecord) -> Result<()>,
    ) -> Result<()> {
        let next = AtomicUsize::new(0);
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let (sender, results) = mpsc::channel();
            let mut started = 0;
            for _ in 0..self.jobs.min(list.len()) {
                let (sender, next, stop) = (sender.clone(), &next, &stop);
                let work = move || {
                    while let Some(&run) = list.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let gone = sender.send(self.one(run)).is_err();
                        if gone || stop.load(Ordering::Relaxed) {
                            return;
                        }
                    }
                };
                // Under a limit on processes the workers that could be started do all runs, or else this thread.
                if start_in(scope, work).is_err() {
                    break;
                }
                started += 1;
            }
            drop(sender);
            let own = if started == 0 { list } else { &[] };
            let results = results
                .into_iter()
                .chain(own.iter().map(|&run| self.one(run)));
            let mut done = 0;
            for result in results {
                let kept = result.and_then(&mut keep);
                if kept.is_err() {
                    stop.store(true, Ordering::Relaxed);
                    return kept;
                }
                done += 1;
                progress(done);
            }
            Ok(())
        })
    }

    fn one(&self, run: u64) -> Result<RunRecord> {
        let point = &self.points[run as usize];
        let scenario = point.scenario(self.scenarios);
        let asked = &self.asked[point.scenario];
        let machine = &asked.machine;
        let question = Question::new(&scenario, &machine.fabric, &machine.routing, &asked.inputs);
        let outcome = question.and_then(|q| q.answer());
        let outcome = outcome.with_context(|| format!("scenario '{}'", scenario.name))?;
        let (binds, binds_ratio) = outcome.binds();
        Ok(RunRecord {
            schema: RUN_SCHEMA.into(),
            run,
            point: point.factors,
            trial: point.trial,
            seed: scenario.seed,
            time_seconds: outcome.time_seconds,
            bound_seconds: outcome.bound_seconds,
            binds: binds.to_owned(),
            binds_ratio,
            bound_resource: outcome.bound_resource,
            network_bytes: outcome.network_bytes,
            flows: outcome.flows,
            scenario: scenario.name,
        })
    }
}
