//! One source that is kept open.

use crate::ObserveError;
use crate::counters::reading::{Layout, Reading};
use hopbyte_fabric::LeftOut;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Mean time between two pairs of looks at queues: a window of ten seconds has two hundred.
pub const GLANCE: Duration = Duration::from_millis(50);
/// Pairs are this many times closer than they follow each other: what left a queue meanwhile was in it at the first look.
const PAIR: u32 = 16;

/// Time to the next look. It varies, so that iterations of an application are not met at the same moment each time; about
/// every second one is the other of a pair.
pub fn next_glance() -> Duration {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH);
    let ns = clock.unwrap_or_default().subsec_nanos();
    // Fibonacci hashing: its top bits are spread evenly.
    let share = 2.0 * f64::from(ns.wrapping_mul(0x9E37_79B9)) / f64::from(u32::MAX);
    match share < 1.0 {
        true => GLANCE / PAIR,
        false => GLANCE.mul_f64(share - 0.5),
    }
}

/// Counters that are read together.
#[derive(Debug)]
pub struct Source {
    pub(super) way: Box<dyn Sample>,
    pub(super) reading: Reading,
    pub(super) place: String,
    pub(super) left_out: LeftOut,
}

/// Reader of one source.
pub(super) trait Sample: fmt::Debug + Send + Sync {
    /// Reads all counters into the reading.
    fn sample(&mut self, reading: &mut Reading) -> Result<(), Unreadable>;

    /// Looks at what has no counter and is counted by sampling: queues. False if there is nothing of this kind.
    fn glance(&mut self) -> bool {
        false
    }
}

impl Source {
    /// Description of its counters.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.reading.layout
    }

    /// The path it reads, for people.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Interfaces that exist but are not read.
    pub fn left_out(&self) -> &LeftOut {
        &self.left_out
    }

    /// Between readings, after every [`next_glance`]: looks at queues, whose waiting the kernel does not count. False if the source has
    /// none.
    pub fn glance(&mut self) -> bool {
        self.way.glance()
    }

    /// Reads all counters. Values that could not be read are missing in the reading; an error if none could be read
    /// (the next call tries again).
    pub fn sample(&mut self) -> Result<&Reading, ObserveError> {
        self.way
            .sample(&mut self.reading)
            .map_err(|error| match error {
                Unreadable::System(error) => ObserveError::io(Path::new(&self.place), error),
                Unreadable::Content(error) => error,
            })?;
        Ok(&self.reading)
    }
}

/// Sleeps; looks at the queues of the sources meanwhile.
pub fn glancing(sources: &mut [Source], sleep: Duration) {
    let end = Instant::now() + sleep;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let mut queues = false;
        for source in &mut *sources {
            queues |= source.glance();
        }
        let next = next_glance();
        if !queues || left <= next {
            std::thread::sleep(left);
            return;
        }
        std::thread::sleep(next);
    }
}

/// Reason why a sample has no values.
#[derive(Debug)]
pub(super) enum Unreadable {
    System(std::io::Error),
    Content(ObserveError),
}

impl From<std::io::Error> for Unreadable {
    fn from(error: std::io::Error) -> Self {
        Self::System(error)
    }
}
