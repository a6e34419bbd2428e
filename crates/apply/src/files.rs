//! Atomic writing of files.

use crate::error::ApplyError;
use hopbyte_fabric::{Class, InputError};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fcntl_setfl, fstat, linkat, open, stat};
use rustix::process::{Pid, test_kill_process};
use std::fs::{self, File};
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Writes a temporary file in the same folder and renames it, so that readers never see a partial file. An existing
/// file keeps its permissions; symbolic links are followed. Devices, pipes and open files (`/dev/null`, `/dev/stdout`,
/// `/dev/fd/3`, `>(command)`) are written to, not replaced.
///
/// # Errors
/// The folder is missing, not writable, or full; the temporary file is removed then. A path that is a folder, a socket
/// or a symbolic link without a target; a pipe that no program reads.
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

/// Files that are replaced and removed together.
#[derive(Default)]
pub struct Together {
    /// Each file, and the place of its former content if there was one.
    changed: Vec<(PathBuf, Option<PathBuf>)>,
}

impl Together {
    /// Runs some work that changes files; if it fails, all of them are as before.
    ///
    /// # Errors
    /// Those of the work; of files that could not be put back, with the places of their contents.
    pub fn change<T>(
        work: impl FnOnce(&mut Self) -> Result<T, ApplyError>,
    ) -> Result<T, ApplyError> {
        let mut together = Self::default();
        match work(&mut together) {
            Ok(done) => {
                for former in together.changed.into_iter().filter_map(|c| c.1) {
                    // The files are as they should be, with one too many beside them.
                    let _ = fs::remove_file(former);
                }
                Ok(done)
            }
            Err(error) => Err(match (together.undo(), error) {
                (Some(left), ApplyError::Write { path, source }) => {
                    let source = io::Error::new(source.kind(), format!("{source}; {left}"));
                    ApplyError::Write { path, source }
                }
                (_, error) => error,
            }),
        }
    }

    /// Replaces a file.
    ///
    /// # Errors
    /// Those of [`Staged::commit`].
    pub fn replace(&mut self, staged: Staged) -> Result<(), ApplyError> {
        let Some((_, target)) = &staged.files else {
            return Ok(());
        };
        let target = target.clone();
        let keep = |former: PathBuf| {
            let linked = fs::hard_link(&target, &former);
            // Some file systems have one name for a file.
            let kept = linked.or_else(|_| fs::copy(&target, &former).map(drop));
            kept.inspect_err(|_| drop(fs::remove_file(&former)))?;
            Ok(former)
        };
        let former = target
            .exists()
            .then(|| hidden(&target, "old").and_then(keep));
        let former = former
            .transpose()
            .map_err(|source| failed(&target, source))?;
        self.changed.push((target, former));
        let replaced = staged.commit();
        if replaced.is_err()
            && let Some((_, former)) = self.changed.pop()
        {
            // It is the file's second name.
            let _ = former.map(fs::remove_file);
        }
        replaced
    }

    /// Removes a file; false if there is none.
    ///
    /// # Errors
    /// The folder may not be written; the path is a folder.
    pub fn remove(&mut self, path: &Path) -> Result<bool, ApplyError> {
        if path.is_dir() && !path.is_symlink() {
            return Err(failed(path, io::ErrorKind::IsADirectory.into()));
        }
        let former = hidden(path, "old").map_err(|source| failed(path, source))?;
        match fs::rename(path, &former) {
            Ok(()) => self.changed.push((path.to_owned(), Some(former))),
            // Another run may have the same folder.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(failed(path, error)),
        }
        Ok(true)
    }

    /// Puts everything back; says what could not be.
    fn undo(self) -> Option<String> {
        let mut left = Vec::new();
        for (path, former) in self.changed.into_iter().rev() {
            let undone = match &former {
                Some(former) => fs::rename(former, &path),
                None => fs::remove_file(&path),
            };
            if undone.is_err() {
                left.push(match former {
                    Some(former) => format!("{} is now {}", path.display(), former.display()),
                    None => format!("{} is new", path.display()),
                });
            }
        }
        (!left.is_empty()).then(|| left.join(", "))
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
    if let Some(file) = &mut already_open(path) {
        contents(file)?;
        return Ok(None);
    }
    let target = match fs::metadata(path).map(|old| old.file_type()) {
        Ok(kind) if kind.is_file() => fs::canonicalize(path)?,
        Ok(kind) if kind.is_dir() => return refused("found a folder, expected a file"),
        Ok(kind) if kind.is_socket() => return refused("found a socket, expected a file"),
        Ok(_) => {
            contents(&mut open_for_reader(path)?)?;
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

/// A file of this process by its name in `/dev` or `/proc`: to replace it would leave the shell's redirection to a file
/// without a name.
fn already_open(path: &Path) -> Option<File> {
    // Not /dev/shm, whose files are ordinary ones.
    let names = ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc"];
    if !names.iter().any(|name| path.starts_with(name)) {
        return None;
    }
    let (found, output) = (stat(path).ok()?, io::stdout());
    let own = fstat(&output).ok();
    if own.is_some_and(|own| (own.st_dev, own.st_ino) == (found.st_dev, found.st_ino)) {
        // With the position up to which it is written.
        return output.as_fd().try_clone_to_owned().ok().map(File::from);
    }
    let file = fs::metadata(path).is_ok_and(|f| f.is_file());
    let appended = || File::options().append(true).open(path).ok();
    file.then(appended).flatten()
}

/// Time for which a named pipe may wait for its reader.
const READER_SECONDS: u64 = 10;

/// Opens a device or pipe.
///
/// # Errors
/// A pipe that no program opens for reading: without a limit on that wait this would be silence without an end.
fn open_for_reader(path: &Path) -> io::Result<File> {
    let begun = Instant::now();
    let at_once = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    loop {
        match open(path, at_once, Mode::empty()) {
            Ok(file) => {
                fcntl_setfl(&file, OFlags::empty())?;
                return Ok(File::from(file));
            }
            Err(error) if error != rustix::io::Errno::NXIO => return Err(error.into()),
            Err(error) if !fs::metadata(path)?.file_type().is_fifo() => return Err(error.into()),
            Err(_) if begun.elapsed() < Duration::from_secs(READER_SECONDS) => {
                sleep(Duration::from_millis(20));
            }
            Err(_) => {
                let text = format!(
                    "found a named pipe that no program opened for reading within {READER_SECONDS} s, expected \
                     its reader; start that first"
                );
                return Err(io::Error::other(text));
            }
        }
    }
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
    hidden(target, "tmp")
}

/// Removes what runs that were killed left in a folder beside files of these names, which are written anew: contents that
/// were not in their place yet, and former ones.
pub fn tidy(folder: &Path, names: &[&str]) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let parts = name.to_str().and_then(left_by);
        if parts.is_some_and(|(name, run)| names.contains(&name) && is_gone(run)) {
            // It is in nobody's way.
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// File and process of a name that [`hidden`] gave.
fn left_by(name: &str) -> Option<(&str, i32)> {
    let whole = name.strip_prefix('.')?;
    let whole = (whole.strip_suffix(".tmp")).or_else(|| whole.strip_suffix(".old"))?;
    let (name, run) = whole.rsplit_once('.')?;
    Some((name, run.parse().ok().filter(|&run| run > 0)?))
}

fn is_gone(process: i32) -> bool {
    let process = Pid::from_raw(process);
    process.is_some_and(|p| test_kill_process(p) == Err(rustix::io::Errno::SRCH))
}

fn hidden(target: &Path, ending: &str) -> io::Result<PathBuf> {
    let name = target
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "this is not a file name"))?;
    let mut whole = std::ffi::OsString::from(".");
    if name.len() <= LONGEST_KEPT {
        whole.push(name);
    } else {
        // Of at most four bytes each.
        let start = name.to_string_lossy();
        whole.push(start.chars().take(LONGEST_KEPT / 4).collect::<String>());
    }
    whole.push(format!(".{}.{ending}", std::process::id()));
    Ok(target.with_file_name(whole))
}
