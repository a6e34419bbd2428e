//! Errors of reading inputs.

use hopbyte_fabric::{Class, FabricError, InputError};
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
    /// Class of the error.
    pub fn class(&self) -> Class {
        match self {
            Self::Io { source, .. } => system_class(source.kind()),
            Self::Input(input) => input.class,
            Self::Fabric(error) => error.class(),
        }
    }

    /// An error from the operating system.
    pub fn io(path: &Path, source: io::Error) -> Self {
        let hint = match source.kind() {
            io::ErrorKind::NotFound => {
                let misspelt = path.to_str().and_then(hopbyte_fabric::misspelt);
                Some(misspelt.unwrap_or_else(|| "check the path".into()))
            }
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

/// Class of an error of the operating system.
pub fn system_class(kind: io::ErrorKind) -> Class {
    use io::ErrorKind as K;
    match kind {
        K::NotFound | K::NotADirectory => Class::NoSuchFile,
        K::IsADirectory => Class::NotAFile,
        K::PermissionDenied | K::ReadOnlyFilesystem => Class::Denied,
        K::StorageFull | K::QuotaExceeded | K::FileTooLarge => Class::NoSpace,
        K::InvalidData | K::UnexpectedEof => Class::Content,
        K::InvalidInput => Class::OptionValue,
        K::ConnectionRefused
        | K::ConnectionReset
        | K::ConnectionAborted
        | K::NotConnected
        | K::HostUnreachable
        | K::NetworkUnreachable
        | K::NetworkDown
        | K::TimedOut => Class::Unreachable,
        _ => Class::System,
    }
}

fn hint_line(hint: &Option<String>) -> String {
    hint.as_ref()
        .map_or_else(String::new, |hint| format!("\nhint: {hint}"))
}
