//! Regular files, opened without waiting.

use std::fs::{File, FileType, Metadata};
use std::io::{self, Seek};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Opens a file for reading: a regular one, or a pipe that is already open (`/dev/stdin`, `/dev/fd/3`).
///
/// # Errors
/// Those of the operating system; [`io::ErrorKind::InvalidInput`] for folders, devices, sockets and named pipes,
/// which are recognised before they are opened.
pub fn open(path: &Path) -> io::Result<File> {
    let (file, _) = opened(path)?.map_err(|found| {
        let said = format!("found {found}, expected a regular file");
        io::Error::new(io::ErrorKind::InvalidInput, said)
    })?;
    Ok(file)
}

/// The open file and its state, or the name of a kind that cannot be opened.
pub(super) fn opened(path: &Path) -> io::Result<Result<(File, Metadata), &'static str>> {
    let kind = std::fs::metadata(path)?.file_type();
    if let Some(found) = refused(path, kind) {
        return Ok(Err(found));
    }
    let mut options = File::options();
    if kind.is_file() {
        // A named pipe that took the file's place since then must not block either.
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
    }
    let file = options.read(true).open(path)?;
    let of_file = file.metadata()?;
    Ok(refused(path, of_file.file_type()).map_or(Ok((file, of_file)), Err))
}

/// Whether a file that was read to its end lost bytes since `begin`, in words. The kernel's own files are shorter than their
/// size, and do not change it.
pub(super) fn shortened(mut file: &File, begin: &Metadata) -> Option<String> {
    let (read, now) = (file.stream_position().ok()?, file.metadata().ok()?);
    let changed = now.len() < begin.len() || now.modified().ok() != begin.modified().ok();
    let size = begin.len();
    (read < size && changed).then(|| format!("{read} of {size} bytes: it was written meanwhile"))
}

/// The name of a kind of file that cannot be opened.
fn refused(path: &Path, kind: FileType) -> Option<&'static str> {
    let is_open = || {
        let folders = ["/dev/fd", "/proc/self/fd"];
        path == Path::new("/dev/stdin") || folders.iter().any(|f| path.starts_with(f))
    };
    if kind.is_file() || (kind.is_fifo() && is_open()) {
        None
    } else if kind.is_dir() {
        Some("a folder")
    } else if kind.is_fifo() {
        Some("a named pipe")
    } else if kind.is_socket() {
        Some("a socket")
    } else {
        Some("a device")
    }
}
