//! Whether a file that is read again and again has changed.

use std::fs::{File, metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Modification time, inode and size of a file. The kernel's file clock has a granularity of some milliseconds,
/// so a replacement may have the same time.
pub type Stamp = (SystemTime, u64, u64);

/// The present stamp of a file; `None` if it cannot be read.
pub fn stamp(file: &Path) -> Option<Stamp> {
    let about = metadata(file).ok()?;
    if about.is_file() {
        // A file without rights has metadata too.
        File::open(file).ok()?;
    }
    Some((about.modified().ok()?, about.ino(), about.len()))
}

/// Seconds since 1970.
pub fn unix(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0.0, |d| d.as_secs_f64())
}
