//! What can go wrong while reading the world.

use hopbyte_fabric::{FabricError, InputError};
use std::io;
use std::path::Path;
use thiserror::Error;

/// Why something could not be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ObserveError {
    /// The operating system refused: no such file, no permission, a device error.
    #[error("{path}: {source}{}", hint_line(.hint))]
    Io {
        /// File or folder.
        path: String,
        /// What the operating system said.
        source: io::Error,
        /// What the reader of the message can do.
        hint: Option<String>,
    },
    /// The content could not be understood.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The parts were readable and make no fabric.
    #[error(transparent)]
    Fabric(#[from] FabricError),
}

impl ObserveError {
    /// A refusal of the operating system.
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
