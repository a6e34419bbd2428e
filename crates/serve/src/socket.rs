//! The path of the oracle's Unix socket.

use crate::error::Result;
use hopbyte_fabric::InputError;
use hopbyte_job::Lacking;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Listens on a socket. A stale socket of a killed oracle is replaced, a live one is not.
///
/// # Errors
/// Another process listens on the socket, or the path cannot be bound.
pub fn bind(path: &Path) -> Result<UnixListener> {
    let name = path.display();
    if let Ok(found) = std::fs::symlink_metadata(path) {
        if !found.file_type().is_socket() {
            let found = format!("a file {name}");
            return Err(InputError::new("--socket", found, "a socket or nothing").into());
        }
        if UnixStream::connect(path).is_ok() {
            return Err(Lacking(format!("{name}: another process listens on it")).into());
        }
        std::fs::remove_file(path)?;
    }
    UnixListener::bind(path).map_err(|e| Lacking(format!("{name}: {e}")).into())
}
