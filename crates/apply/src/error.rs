//! What can go wrong between a placement and a launcher.

use std::path::PathBuf;
use thiserror::Error;

/// Why a launcher's input cannot be written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// A launcher that nobody knows.
    #[error("no launcher '{found}'\nhint: one of {known}")]
    UnknownLauncher {
        /// What was asked for.
        found: String,
        /// The names there are.
        known: String,
    },
    /// A host name that a launcher's file cannot carry safely.
    #[error(
        "host name {found:?} of node {node}: expected letters, digits, '.', '-' and '_' only\nhint: give the hosts their names with --names"
    )]
    HostName {
        /// Node of the fabric.
        node: String,
        /// Its host name.
        found: String,
    },
    /// Two allocated endpoints of one host, which a launcher cannot tell apart.
    #[error(
        "{host} is allocated twice, as {first} and {second}, and {launcher} places by host\nhint: allocate one endpoint of each host"
    )]
    SharedHost {
        /// Host name.
        host: String,
        /// One endpoint.
        first: String,
        /// The other.
        second: String,
        /// The launcher.
        launcher: &'static str,
    },
    /// A format of machines that nobody knows.
    #[error("no format '{found}'\nhint: one of {known}")]
    UnknownFormat {
        /// What was asked for.
        found: String,
        /// The names there are.
        known: String,
    },
    /// A placement or machine that a launcher or format has no words for.
    #[error("{format} cannot express this {what}: {why}\nhint: {instead}")]
    Inexpressible {
        /// "placement" or "machine".
        what: &'static str,
        /// The launcher or format.
        format: &'static str,
        /// What does not fit.
        why: String,
        /// What to do.
        instead: String,
    },
    /// A placement that is not one of the allocation.
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
        /// The system's reason.
        source: std::io::Error,
    },
}
