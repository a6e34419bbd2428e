//! Errors of the servers and of their sources.

use hopbyte_fabric::InputError;
use hopbyte_job::{JobError, Lacking};
use std::io;
use thiserror::Error;

/// Result of opening or reading a source, or of opening a server.
pub type Result<T, E = ServeError> = std::result::Result<T, E>;

/// Why a server or its source does not start or ends.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// An option or input that is refused: place, found, expected, hint.
    #[error("{0}")]
    Input(#[from] InputError),
    /// Counters that cannot be read.
    #[error("{0}")]
    Job(#[from] JobError),
    /// The environment lacks an address, a permission or a device.
    #[error("{0}")]
    Lacking(#[from] Lacking),
    /// The operating system, a collector or a store refused.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The first reading failed; the text is the one that viewers get.
    #[error("{0}")]
    Reading(String),
}

impl From<ServeError> for JobError {
    fn from(error: ServeError) -> Self {
        match error {
            ServeError::Input(e) => e.into(),
            ServeError::Job(e) => e,
            ServeError::Lacking(e) => e.into(),
            ServeError::Io(e) => e.into(),
            ServeError::Reading(text) => Self::refused(&text),
        }
    }
}
