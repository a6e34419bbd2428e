//! Values of files that are replaced under a running program: renewed certificates, new secrets.

use std::fmt;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Minimum time between two looks at the files.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Tells contents of a file apart: device, number, length, time of its last change.
type Stamp = Option<[u64; 5]>;

type Load<T> = Box<dyn Fn(&[PathBuf]) -> io::Result<T> + Send + Sync>;

/// A value that files hold. It is read again when it is used after they changed; while they cannot be read, or do not go
/// together, the earlier value is kept.
pub struct Renewed<T> {
    files: Vec<PathBuf>,
    load: Load<T>,
    held: Mutex<Held<T>>,
}

struct Held<T> {
    value: Arc<T>,
    stamps: Vec<Stamp>,
    looked: Instant,
    /// The last failure, which is said once.
    failure: Option<String>,
    news: Option<String>,
}

impl<T> fmt::Debug for Renewed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Renewed").field(&self.files).finish()
    }
}

impl<T> Renewed<T> {
    /// Reads the files.
    ///
    /// # Errors
    /// Those of `load`.
    pub fn read(
        files: &[&Path],
        load: impl Fn(&[PathBuf]) -> io::Result<T> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let files: Vec<PathBuf> = files.iter().map(|&f| f.to_owned()).collect();
        // Before they are read: a change meanwhile is found later.
        let stamps = files.iter().map(|f| stamp(f)).collect();
        let value = load(&files)?;
        Ok(Self::of(value, files, stamps, Box::new(load)))
    }

    /// A value without files.
    pub fn fixed(value: T) -> Self {
        let load = |_: &[PathBuf]| Err(io::ErrorKind::Unsupported.into());
        Self::of(value, Vec::new(), Vec::new(), Box::new(load))
    }

    fn of(value: T, files: Vec<PathBuf>, stamps: Vec<Stamp>, load: Load<T>) -> Self {
        let held = Held {
            value: Arc::new(value),
            stamps,
            looked: Instant::now(),
            failure: None,
            news: None,
        };
        Self {
            files,
            load,
            held: Mutex::new(held),
        }
    }

    /// The files.
    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    /// The value; the files are looked at if that was not done in the last second.
    pub fn get(&self) -> Arc<T> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.files.is_empty() && held.looked.elapsed() >= LOOK_EVERY {
            self.look(&mut held);
            held.looked = Instant::now();
        }
        held.value.clone()
    }

    fn look(&self, held: &mut Held<T>) {
        let stamps: Vec<Stamp> = self.files.iter().map(|f| stamp(f)).collect();
        if stamps == held.stamps {
            // The earlier files may be back.
            held.failure = None;
            return;
        }
        let names: Vec<String> = self.files.iter().map(|f| f.display().to_string()).collect();
        let names = names.join(" and ");
        match (self.load)(&self.files) {
            Ok(value) => {
                held.value = Arc::new(value);
                held.stamps = stamps;
                held.failure = None;
                held.news = Some(format!("{names}: changed, and read again"));
            }
            Err(error) => {
                let failure = error.to_string();
                if held.failure.as_ref() != Some(&failure) {
                    held.news = Some(format!(
                        "{names}: changed, and not usable: {failure}; the earlier content is used"
                    ));
                    held.failure = Some(failure);
                }
            }
        }
    }

    /// A sentence about the last change, once.
    pub fn news(&self) -> Option<String> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.news.take()
    }
}

fn stamp(file: &Path) -> Stamp {
    let about = std::fs::metadata(file).ok()?;
    let times = [about.mtime() as u64, about.mtime_nsec() as u64];
    Some([about.dev(), about.ino(), about.len(), times[0], times[1]])
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::fs;

    fn number(files: &[PathBuf]) -> io::Result<u32> {
        let text = fs::read_to_string(&files[0])?;
        text.trim().parse().map_err(io::Error::other)
    }

    /// The value as if the last look were a second ago.
    fn later(renewed: &Renewed<u32>) -> u32 {
        renewed.held.lock().unwrap().looked -= LOOK_EVERY;
        *renewed.get()
    }

    #[test]
    fn a_replaced_file_is_read_again_and_an_unusable_one_is_said_once() {
        let folder = tempfile::tempdir().unwrap();
        let (file, next) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&file, "1").unwrap();
        let renewed = Renewed::read(&[&file], number).unwrap();
        assert_eq!((later(&renewed), renewed.news()), (1, None));
        fs::write(&next, "2").unwrap();
        fs::rename(&next, &file).unwrap();
        assert_eq!(*renewed.get(), 1, "not in the same second");
        assert_eq!(later(&renewed), 2);
        assert!(
            renewed
                .news()
                .unwrap()
                .ends_with("a: changed, and read again")
        );
        // Written in place and incomplete, then gone, then whole.
        fs::write(&file, "x").unwrap();
        assert_eq!(later(&renewed), 2);
        let said = renewed.news().unwrap();
        assert!(said.contains("not usable: invalid digit"), "{said}");
        assert_eq!((later(&renewed), renewed.news()), (2, None), "once");
        fs::remove_file(&file).unwrap();
        assert_eq!(later(&renewed), 2);
        assert!(renewed.news().unwrap().contains("No such file"));
        fs::write(&file, "33").unwrap();
        assert_eq!((later(&renewed), renewed.news().is_some()), (33, true));
        assert_eq!(*Renewed::fixed(7u32).get(), 7);
    }
}
