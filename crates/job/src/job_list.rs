//! Jobs and their nodes at a time: a list of a batch system, or the jobs that a store keeps.

use crate::error::Result;
use hopbyte_fabric::Fabric;
use hopbyte_observe::{Jobs, KEPT_JOBS, Stamp, Then, kept_jobs, read_jobs, stamp, unix};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The jobs beside a reading: those of a past time if it is given, else those that ran when the counters were read last,
/// else those that run.
pub fn jobs_then(past: Option<f64>, reading_seconds: Option<f64>) -> Then {
    let now = || unix(SystemTime::now());
    past.map_or_else(
        || Then::Now(reading_seconds.unwrap_or_else(now)),
        Then::Past,
    )
}

/// Where jobs are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobList {
    /// A file as `read_jobs` takes it.
    File(PathBuf),
    /// The folder of a store that keeps them over time.
    Kept(PathBuf),
}

impl JobList {
    /// The given file, else the jobs that the store of the counters keeps.
    pub fn find(file: Option<&PathBuf>, sources: &[PathBuf]) -> Option<Self> {
        let kept = || match sources {
            [folder] if folder.join(KEPT_JOBS).is_file() => Some(Self::Kept(folder.clone())),
            _ => None,
        };
        file.cloned().map(Self::File).or_else(kept)
    }

    /// The file.
    pub fn path(&self) -> PathBuf {
        match self {
            Self::File(file) => file.clone(),
            Self::Kept(folder) => folder.join(KEPT_JOBS),
        }
    }

    /// Whether one content has the jobs of all times.
    pub fn is_over_time(&self) -> bool {
        matches!(self, Self::Kept(_))
    }

    /// Its present stamp.
    pub fn stamp(&self) -> Option<Stamp> {
        stamp(&self.path())
    }

    /// The jobs of a time.
    ///
    /// # Errors
    /// No such list, or one of another machine.
    pub fn read(&self, fabric: &Fabric, then: Then) -> Result<Jobs> {
        let (Then::Past(at) | Then::Now(at) | Then::Live(at)) = then;
        Ok(match self {
            Self::File(file) => read_jobs(file, fabric, then)?,
            Self::Kept(folder) => kept_jobs(folder, fabric, at)?,
        })
    }

    /// Unused parts. Jobs of other times are no remark on a list of all times.
    pub fn notes(&self, jobs: &Jobs) -> Vec<String> {
        let mut jobs = jobs.clone();
        if self.is_over_time() {
            jobs.others = 0;
        }
        let path: &Path = &self.path();
        jobs.notes(path)
    }
}
