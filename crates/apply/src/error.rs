//! Errors of writing a placement or machine.

use hopbyte_fabric::Class;
use std::path::PathBuf;
use thiserror::Error;

/// Why a launcher's file cannot be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// An unknown launcher.
    #[error("no launcher '{found}'\nhint: one of {known}")]
    UnknownLauncher {
        /// The requested name.
        found: String,
        /// The known names.
        known: String,
    },
    /// A host name with characters that a launcher's file cannot carry safely.
    #[error(
        "host name {found:?} of node {node}: expected letters, digits, '.', '-' and '_' only\nhint: give the hosts their names with --names"
    )]
    HostName {
        /// Node of the fabric.
        node: String,
        /// Its host name.
        found: String,
    },
    /// An unknown machine format.
    #[error("no format '{found}'\nhint: one of {known}")]
    UnknownFormat {
        /// The requested name.
        found: String,
        /// The known names.
        known: String,
    },
    /// A placement or machine that the launcher or format cannot express.
    #[error("{format} cannot express this {what}: {why}\nhint: {instead}")]
    Inexpressible {
        /// "placement" or "machine".
        what: &'static str,
        /// The launcher or format.
        format: &'static str,
        /// The reason.
        why: String,
        /// The alternative.
        instead: String,
    },
    /// A placement on a node outside the allocation.
    #[error("rank {rank} is on {node}, which is not in the allocation")]
    OutsideAllocation {
        /// The rank.
        rank: usize,
        /// Its node.
        node: String,
    },
    /// A file that could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
}

impl ApplyError {
    /// Class of the error.
    pub fn class(&self) -> Class {
        match self {
            Self::UnknownLauncher { .. } | Self::UnknownFormat { .. } => Class::UnknownForm,
            Self::HostName { .. } => Class::HostName,
            Self::Inexpressible { .. } => Class::Inexpressible,
            Self::OutsideAllocation { .. } => Class::OtherJob,
            Self::Write { .. } => Class::Write,
        }
    }
}
