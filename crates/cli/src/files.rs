//! Files that a verb writes: whole or not at all.

use anyhow::{Context, Result};
use std::io::Write;
use std::path::Path;

/// Writes a file under a temporary name in its folder and renames it when all of it is there.
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let place = || format!("writing {}", path.display());
    let folder = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = folder.join(format!(".{name}.{}", std::process::id()));
    let written = std::fs::File::create(&temporary)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written.with_context(place)
}
