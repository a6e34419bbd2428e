//! Atomic writing of files.

use crate::error::ApplyError;
use hopbyte_fabric::{Class, InputError};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};
use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Writes a temporary file in the same folder and renames it, so that readers never see a partial file. An existing
/// file keeps its permissions; symbolic links are followed. Devices and pipes (`/dev/null`, `/dev/stdout`,
/// `>(command)`) are written to, not replaced.
///
/// # Errors
/// The folder is missing, not writable, or full; the temporary file is removed then. A path that is a folder, a socket
/// or a symbolic link without a target.
pub fn write_atomic(path: &Path, contents: &(impl AsRef<[u8]> + ?Sized)) -> Result<(), ApplyError> {
    write_atomic_by(path, &mut |file| file.write_all(contents.as_ref()))
}

/// Refuses a name that the command line could not give again for reading.
///
/// # Errors
/// Bytes that are not UTF-8.
pub fn readable_name(path: &Path) -> Result<(), InputError> {
    match path.to_str() {
        Some(_) => Ok(()),
        None => {
            let found = format!("{} with bytes that are not UTF-8", path.display());
            let expected = "UTF-8: a machine under another name could not be read";
            Err(InputError::new("--out", found, expected).of(Class::OptionValue))
        }
    }
}

/// [`write_atomic`] of contents that are written piece by piece.
///
/// # Errors
/// Those of [`write_atomic`] and of `contents`.
pub fn write_atomic_by(path: &Path, contents: &mut Contents<'_>) -> Result<(), ApplyError> {
    Staged::write(path, contents)?.commit()
}

/// Writes the contents of a file.
type Contents<'a> = dyn FnMut(&mut dyn Write) -> io::Result<()> + 'a;

/// Complete contents beside their file, which they replace by [`Staged::commit`]; without it they are removed.
pub struct Staged {
    path: PathBuf,
    /// The temporary file and its target; none of a device or pipe, which has its contents already.
    files: Option<(PathBuf, PathBuf)>,
}

impl Staged {
    /// Writes the contents.
    ///
    /// # Errors
    /// Those of [`write_atomic_by`]; the file is as before then.
    pub fn write(path: &Path, contents: &mut Contents<'_>) -> Result<Self, ApplyError> {
        let files = stage(path, contents).map_err(|source| failed(path, source))?;
        let path = path.to_owned();
        Ok(Self { path, files })
    }

    /// Replaces the file.
    ///
    /// # Errors
    /// The folder is not there any more, or not writable.
    pub fn commit(mut self) -> Result<(), ApplyError> {
        let Some((temporary, target)) = &self.files else {
            return Ok(());
        };
        fs::rename(temporary, target).map_err(|source| failed(&self.path, source))?;
        self.files = None;
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if let Some((temporary, _)) = &self.files {
            // The error that led here is the one to report.
            let _ = fs::remove_file(temporary);
        }
    }
}

fn failed(path: &Path, source: io::Error) -> ApplyError {
    let path = path.to_owned();
    ApplyError::Write { path, source }
}

fn stage(path: &Path, contents: &mut Contents<'_>) -> io::Result<Option<(PathBuf, PathBuf)>> {
    let refused = |text| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    let target = match fs::metadata(path).map(|old| old.file_type()) {
        Ok(kind) if kind.is_file() => fs::canonicalize(path)?,
        Ok(kind) if kind.is_dir() => return refused("found a folder, expected a file"),
        Ok(kind) if kind.is_socket() => return refused("found a socket, expected a file"),
        Ok(_) => {
            contents(&mut File::options().write(true).open(path)?)?;
            return Ok(None);
        }
        Err(_) if path.is_symlink() => {
            return refused("found a symbolic link without a target, expected a file");
        }
        Err(_) => path.to_owned(),
    };
    let temporary = beside(&target)?;
    if let Err(error) = fill(&temporary, &target, contents) {
        // The first error is the one to report; the temporary file may not exist.
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    Ok(Some((temporary, target)))
}

/// Writes the contents without a name, so that a process ended by a signal leaves no file, and names them then. Network
/// file systems have only files with names.
fn fill(temporary: &Path, target: &Path, contents: &mut Contents<'_>) -> io::Result<()> {
    let folder = temporary.parent().filter(|f| !f.as_os_str().is_empty());
    let unnamed = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let unnamed = open(folder.unwrap_or(Path::new(".")), unnamed, Mode::from(0o666));
    let is_unnamed = unnamed.is_ok();
    let named = || File::options().write(true).create_new(true).open(temporary);
    let mut file = unnamed.map(File::from).or_else(|_| named())?;
    contents(&mut file)?;
    let permissions = fs::metadata(target).map(|old| old.permissions());
    if let Ok(permissions) = &permissions {
        file.set_permissions(permissions.clone())?;
    }
    file.sync_all()?;
    let from = format!("/proc/self/fd/{}", file.as_raw_fd());
    if !is_unnamed || linkat(CWD, from, CWD, temporary, AtFlags::SYMLINK_FOLLOW).is_ok() {
        return Ok(());
    }
    // Without /proc.
    file.rewind()?;
    let mut copy = named()?;
    io::copy(&mut file, &mut copy)?;
    permissions.map_or(Ok(()), |old| copy.set_permissions(old))?;
    copy.sync_all()
}

/// Bytes of the longest name that a temporary file takes over whole; file systems allow 255 with its number and ending.
const LONGEST_KEPT: usize = 240;

/// A name in the same folder for the contents of a file until they are complete, unique among processes.
///
/// # Errors
/// A path without a file's name.
pub fn beside(target: &Path) -> io::Result<PathBuf> {
    let name = target
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "this is not a file name"))?;
    let mut hidden = std::ffi::OsString::from(".");
    if name.len() <= LONGEST_KEPT {
        hidden.push(name);
    } else {
        // Of at most four bytes each.
        let start = name.to_string_lossy();
        hidden.push(start.chars().take(LONGEST_KEPT / 4).collect::<String>());
    }
    hidden.push(format!(".{}.tmp", std::process::id()));
    Ok(target.with_file_name(hidden))
}
