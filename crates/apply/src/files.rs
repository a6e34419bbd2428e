//! Atomic writing of files.

use crate::error::ApplyError;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Writes a temporary file in the same folder and renames it, so that readers never see a partial file. An existing
/// file keeps its permissions; symbolic links are followed.
///
/// # Errors
/// The folder is missing, not writable, or full; the temporary file is removed then.
pub fn write_atomic(path: &Path, contents: &(impl AsRef<[u8]> + ?Sized)) -> Result<(), ApplyError> {
    let fail = |source| ApplyError::Write {
        path: path.to_owned(),
        source,
    };
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let temporary = beside(&target).map_err(fail)?;
    let written = fill(&temporary, &target, contents.as_ref());
    if written.is_err() {
        // The first error is the one to report; the temporary file may not exist.
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

/// A unique name in the same folder.
fn beside(target: &Path) -> std::io::Result<PathBuf> {
    let name = target.file_name().ok_or_else(|| {
        std::io::Error::new(std::io::ErrorKind::InvalidInput, "this is not a file name")
    })?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}.tmp", std::process::id()));
    Ok(target.with_file_name(hidden))
}
