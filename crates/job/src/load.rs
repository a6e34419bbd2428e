//! Running sources of other jobs' load.

use crate::error::Result;
use crate::inputs::LinkReading;
use hopbyte_fabric::Fabric;
use std::fmt;
use std::path::{Path, PathBuf};

/// A running source of other jobs' load.
#[derive(Clone, Debug)]
pub enum Live {
    /// An oracle.
    Oracle {
        /// Its URL, HOST:PORT or socket.
        address: String,
        /// File with its token.
        token: Option<PathBuf>,
    },
    /// A collector.
    Collector {
        /// HOST:PORT.
        address: String,
        /// File with its secret or a read token.
        token: Option<PathBuf>,
        /// File of CA certificates, for TLS.
        tls_ca: Option<PathBuf>,
        /// Its reader.
        read: ReadCollector,
    },
}

/// Reads the load of a collector (address, token, CA certificates, seconds of added ticks), which this crate does not see.
pub type ReadCollector =
    fn(&str, Option<&Path>, Option<&Path>, Option<f64>, &Fabric) -> Result<LinkReading>;

impl fmt::Display for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Oracle { address, .. } => write!(f, "oracle {address}"),
            Self::Collector { address, .. } => write!(f, "collector {address}"),
        }
    }
}
