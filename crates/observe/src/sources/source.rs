//! One source that is kept open.

use crate::ObserveError;
use crate::counters::reading::{Layout, Reading};
use hopbyte_fabric::LeftOut;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

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
