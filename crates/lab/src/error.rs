//! Errors of the lab.

use hopbyte_apply::ApplyError;
use hopbyte_fabric::{FabricError, InputError};
use hopbyte_job::{JobError, Lacking};
use hopbyte_map::MapError;
use hopbyte_observe::ObserveError;
use hopbyte_oracle::OracleError;
use std::io;
use thiserror::Error;

/// Result of a step of the lab.
pub type Result<T, E = LabError> = std::result::Result<T, E>;

/// Why a lab is not built, measured or taken down.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LabError {
    /// Unreadable input: file, line, found, expected, hint.
    #[error("{0}")]
    Input(#[from] InputError),
    /// A machine, placement or traffic that is not valid.
    #[error("{0}")]
    Fabric(#[from] FabricError),
    /// A file that cannot be read.
    #[error("{0}")]
    Observe(#[from] ObserveError),
    /// Route costs that cannot be computed.
    #[error("{0}")]
    Oracle(#[from] OracleError),
    /// A mapping that cannot be searched.
    #[error("{0}")]
    Map(#[from] MapError),
    /// A file that cannot be written.
    #[error("{0}")]
    Apply(#[from] ApplyError),
    /// A step of the loop that failed.
    #[error("{0}")]
    Job(#[from] JobError),
    /// The environment lacks a permission, a device or a program.
    #[error("{0}")]
    Lacking(#[from] Lacking),
    /// A document of the lab that is not the JSON that hopbyte writes.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// The operating system refused.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A lab, link or experiment that is not possible, with the found and the expected value and a hint.
    #[error("{0}")]
    Refused(String),
    /// An error of a named step.
    #[error("{step}")]
    During {
        /// The step, and the file or program that it works on.
        step: String,
        /// Its error.
        source: Box<LabError>,
    },
}

/// Ends a function with [`LabError::Refused`].
macro_rules! refuse {
    ($($message:tt)*) => {
        return Err($crate::error::LabError::Refused(format!($($message)*)))
    };
}
pub(crate) use refuse;

/// Names the step that failed.
pub(crate) trait Context<T> {
    /// The step, if it is cheap to name.
    fn context(self, step: impl Into<String>) -> Result<T>;

    /// The step, named only on failure.
    fn with_context<S: Into<String>>(self, step: impl FnOnce() -> S) -> Result<T>;
}

impl<T, E: Into<LabError>> Context<T> for Result<T, E> {
    fn context(self, step: impl Into<String>) -> Result<T> {
        self.with_context(|| step)
    }

    fn with_context<S: Into<String>>(self, step: impl FnOnce() -> S) -> Result<T> {
        self.map_err(|source| LabError::During {
            step: step().into(),
            source: Box::new(source.into()),
        })
    }
}
