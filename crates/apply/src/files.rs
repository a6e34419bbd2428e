//! Files that appear whole or not at all.

use crate::error::ApplyError;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Writes a file under a temporary name beside its place and renames it, so that a launcher never
/// sees half of it. An existing file keeps its permissions; a link is followed.
///
/// # Errors
/// The folder is missing, not writable, or full; nothing is left behind then.
pub fn write_atomic(path: &Path, contents: &(impl AsRef<[u8]> + ?Sized)) -> Result<(), ApplyError> {
    let fail = |source| ApplyError::Write {
        path: path.to_owned(),
        source,
    };
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let temporary = beside(&target).map_err(fail)?;
    let written = fill(&temporary, &target, contents.as_ref());
    if written.is_err() {
        // The first error is the one to tell; the leftover may not even be there.
        let _ = fs::remove_file(&temporary);
    }
    written.map_err(fail)
}

fn fill(temporary: &Path, target: &Path, contents: &[u8]) -> std::io::Result<()> {
    let mut file = File::options()
        .write(true)
        .create_new(true)
        .open(temporary)?;
    file.write_all(contents)?;
    if let Ok(old) = fs::metadata(target) {
        file.set_permissions(old.permissions())?;
    }
    file.sync_all()?;
    fs::rename(temporary, target)
}

/// A name in the same folder that nobody else uses.
fn beside(target: &Path) -> std::io::Result<PathBuf> {
    let name = target.file_name().ok_or_else(|| {
        std::io::Error::new(std::io::ErrorKind::InvalidInput, "this is not a file name")
    })?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}.tmp", std::process::id()));
    Ok(target.with_file_name(hidden))
}
