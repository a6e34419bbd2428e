//! Runs with more and more iterations of each loop, until run times no longer change.

use crate::error::Result;
use hopbyte_fabric::NodeId;
use hopbyte_fabric::collective::Algorithms;
use hopbyte_fabric::trace::folded::{Folded, Shortened};
use hopbyte_model::network::Network;
use hopbyte_model::program::{Forecast, Forecaster};

/// Calls of all ranks that a run executes, about, and iterations of the loops that are shortened to them.
const FIRST: (u64, u64) = (4_000, 4);
/// The same, until run times are steady.
const MORE: [(u64, u64); 3] = [(16_000, 12), (64_000, 12), (250_000, 12)];
/// Most calls, where loops cannot be shortened.
const MOST: u64 = 1 << 25;
/// Share of a run time by which it may differ from that of fewer iterations, and that may rest on iteration times which
/// still change without such a comparison.
const STEADY: f64 = 1e-3;
/// Share of its duration within which the end of a transfer counts as simultaneous with another.
const TOLERANCE: f64 = 1e-3;

/// A program, and how it is read.
pub(super) struct Job<'a> {
    pub(super) folded: &'a Folded,
    pub(super) rules: &'a Algorithms,
    pub(super) operations_per_s: Option<f64>,
}

/// A network, and nodes by rank.
pub(super) type Placed<'a> = (&'a Network<'a>, &'a [NodeId]);

/// Forecasts, and the calls that each executed.
pub(super) struct Steady {
    pub(super) forecasts: Vec<Forecast>,
    pub(super) executed_calls: u64,
}

impl Job<'_> {
    /// The run time under each placement on its network, all with as many iterations.
    ///
    /// # Errors
    /// More calls than can be executed; see [`Forecaster::new`] and [`Forecaster::run`].
    pub(super) fn forecast(&self, placed: &[Placed<'_>]) -> Result<Steady> {
        let (each, numbers) = distinct(placed);
        let mut found = self.run(&self.shorten(FIRST)?, &each)?;
        for aim in MORE {
            if found.is_unchanged() {
                break;
            }
            let short = self.shorten(aim)?;
            if calls(&short) == found.executed_calls {
                continue;
            }
            let fewer = std::mem::replace(&mut found, self.run(&short, &each)?);
            if found.is_like(&fewer) {
                break;
            }
        }
        found.forecasts = numbers.into_iter().map(|n| found.forecasts[n]).collect();
        Ok(found)
    }

    fn shorten(&self, (aim, kept): (u64, u64)) -> Result<Shortened> {
        Ok(self.folded.shorten(aim, kept, MOST)?)
    }

    fn run(&self, short: &Shortened, placed: &[Placed<'_>]) -> Result<Steady> {
        let forecaster = Forecaster::new(short, self.rules, self.operations_per_s)?;
        Ok(Steady {
            forecasts: forecaster.run_all(placed, &[], TOLERANCE)?,
            executed_calls: calls(short),
        })
    }
}

impl Steady {
    fn is_unchanged(&self) -> bool {
        let unchanged = |f: &Forecast| f.unsteady_seconds <= STEADY * f.seconds;
        self.forecasts.iter().all(unchanged)
    }

    fn is_like(&self, other: &Self) -> bool {
        let like =
            |(a, b): (&Forecast, &Forecast)| (a.seconds - b.seconds).abs() <= STEADY * a.seconds;
        self.forecasts.iter().zip(&other.forecasts).all(like)
    }
}

fn calls(short: &Shortened) -> u64 {
    short.trace.ranks.iter().map(|r| r.calls.len() as u64).sum()
}

/// The different ones among them, and the number of each in these.
fn distinct<'a>(placed: &[Placed<'a>]) -> (Vec<Placed<'a>>, Vec<usize>) {
    let mut found: Vec<Placed<'a>> = Vec::new();
    let mut numbers = Vec::with_capacity(placed.len());
    for &(network, nodes) in placed {
        let known = (found.iter()).position(|f| std::ptr::eq(f.0, network) && f.1 == nodes);
        numbers.push(known.unwrap_or(found.len()));
        if known.is_none() {
            found.push((network, nodes));
        }
    }
    (found, numbers)
}
