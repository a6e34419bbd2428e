//! Errors of reading inputs.

use hopbyte_fabric::{FabricError, InputError};
use std::io;
use std::path::Path;
use thiserror::Error;

/// Reason why an input could not be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ObserveError {
    /// Error from the operating system: no such file, no permission, a device error.
    #[error("{path}: {source}{}", hint_line(.hint))]
    Io {
        /// File or folder.
        path: String,
        /// The operating system's error.
        source: io::Error,
        /// Suggestion for the user.
        hint: Option<String>,
    },
    /// The content could not be parsed.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The parts were readable but do not form a valid fabric.
    #[error(transparent)]
    Fabric(#[from] FabricError),
}

impl ObserveError {
    /// An error from the operating system.
    pub fn io(path: &Path, source: io::Error) -> Self {
        let hint = match source.kind() {
            io::ErrorKind::NotFound => Some("check the path".to_string()),
            io::ErrorKind::PermissionDenied => {
                Some("the file exists but may not be read by this user".to_string())
            }
            _ => None,
        };
        Self::Io {
            path: path.display().to_string(),
            source,
            hint,
        }
    }
}

fn hint_line(hint: &Option<String>) -> String {
    hint.as_ref()
        .map_or_else(String::new, |hint| format!("\nhint: {hint}"))
}
