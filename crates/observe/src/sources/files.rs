//! Counter files that hold one value each: opened once, read repeatedly.
//!
//! At most half of the descriptors that the process may have are kept. Files beyond that, such as those of a captured tree
//! of thousands of interfaces, are opened for every reading.

use crate::text::{decimal, open};
use rustix::process::{Resource, getrlimit};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum content of such a file, in bytes.
const LONGEST: usize = 256;

/// Number of files that are kept open.
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// One of the descriptors that may be kept.
#[derive(Debug)]
struct Place;

impl Place {
    fn take() -> Option<Self> {
        static MOST: OnceLock<usize> = OnceLock::new();
        let most = *MOST.get_or_init(|| {
            let limit = getrlimit(Resource::Nofile).current.unwrap_or(1 << 20);
            (limit / 2) as usize
        });
        let taken = KEPT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
            (n < most).then_some(n + 1)
        });
        // Lazily: dropping a place that was not taken would give one back.
        taken.ok().map(|_| Self)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        KEPT.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A file that is kept open and read from its beginning. After a failure it is reopened at the next reading, so that
/// a device that disappeared is found when it returns.
#[derive(Debug)]
pub(super) struct Kept {
    path: PathBuf,
    file: Option<(File, Place)>,
}

/// A value, and its time stamp in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamped {
    pub(super) value: u64,
    /// Nanoseconds since 1970.
    pub(super) time_ns: Option<u64>,
}

impl Kept {
    /// Opens the file, if it exists.
    pub(super) fn new(path: PathBuf) -> Self {
        let file = Place::take().and_then(|place| Some((open(&path).ok()?, place)));
        Self { path, file }
    }

    /// Reads a count.
    pub(super) fn value(&mut self) -> Option<u64> {
        self.stamped().map(|s| s.value)
    }

    /// Reads a count, with its time if the file has one (`VALUE@SECONDS.NANOSECONDS`).
    pub(super) fn stamped(&mut self) -> Option<Stamped> {
        let mut buffer = [0; LONGEST];
        stamped(self.content(&mut buffer).ok()?)
    }

    /// Reads a short text.
    pub(super) fn text(&mut self) -> Option<String> {
        let mut buffer = [0; LONGEST];
        let content = self.content(&mut buffer).ok()?;
        Some(String::from_utf8_lossy(content).trim().to_owned())
    }

    fn content<'a>(&mut self, buffer: &'a mut [u8; LONGEST]) -> io::Result<&'a [u8]> {
        if self.file.is_none() {
            let file = open(&self.path)?;
            match Place::take() {
                Some(place) => self.file = Some((file, place)),
                None => return file.read_at(buffer, 0).map(|length| &buffer[..length]),
            }
        }
        let Some((file, _)) = &self.file else {
            return Err(io::ErrorKind::NotFound.into());
        };
        match file.read_at(buffer, 0) {
            Ok(length) => Ok(&buffer[..length]),
            Err(error) => {
                self.file = None;
                Err(error)
            }
        }
    }
}

/// `17`, or `17@1700000000.000000123`.
fn stamped(content: &[u8]) -> Option<Stamped> {
    let content = content.trim_ascii();
    let Some(at) = content.iter().position(|&b| b == b'@') else {
        let value = decimal(content)?;
        return Some(Stamped {
            value,
            time_ns: None,
        });
    };
    let value = decimal(&content[..at])?;
    let time = &content[at + 1..];
    let dot = time.iter().position(|&b| b == b'.')?;
    let fraction = &time[dot + 1..];
    let nanos = decimal(fraction).filter(|_| fraction.len() == 9)?;
    let seconds = decimal(&time[..dot])?.checked_mul(1_000_000_000)?;
    Some(Stamped {
        value,
        time_ns: Some(seconds.checked_add(nanos)?),
    })
}

/// Reads a small file once.
pub(super) fn once(path: &Path) -> Option<String> {
    Kept::new(path.to_owned()).text()
}

/// Names in a folder, sorted; empty if it cannot be read.
pub(super) fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|e| e.file_name().into_string().ok())
        .collect();
    names.sort_by(|a, b| a.len().cmp(&b.len()).then(a.cmp(b)));
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_written_is_read(value: u64, seconds in 0u64..10_000_000_000, nanos in 0u64..1_000_000_000) {
            let text = format!("{value}@{seconds}.{nanos:09}\n");
            let time_ns = Some(seconds * 1_000_000_000 + nanos);
            prop_assert_eq!(stamped(text.as_bytes()), Some(Stamped { value, time_ns }));
        }

        #[test]
        fn other_bytes_are_no_value(bytes: Vec<u8>) {
            if let Some(read) = stamped(&bytes) {
                let text = String::from_utf8_lossy(&bytes).trim().to_owned();
                prop_assert!(text.starts_with(|c: char| c.is_ascii_digit()), "{text} {read:?}");
            }
        }
    }

    #[test]
    fn values_and_their_times() {
        let at = |value, time_ns| Some(Stamped { value, time_ns });
        assert_eq!(stamped(b"17\n"), at(17, None));
        assert_eq!(
            stamped(b"90049@1700000000.000000123\n"),
            at(90049, Some(1_700_000_000_000_000_123))
        );
        for bad in [
            &b""[..],
            b"x",
            b"-1",
            b"17@",
            b"17@5",
            b"17@5.1",
            b"17@x.000000001",
            b"N/A (no PMA)",
            b"1@99999999999999999999.000000000",
        ] {
            assert_eq!(stamped(bad), None, "{}", String::from_utf8_lossy(bad));
        }
    }

    #[test]
    fn a_file_that_comes_back_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rx_bytes");
        let mut kept = Kept::new(path.clone());
        assert_eq!(kept.value(), None);
        std::fs::write(&path, "17\n").unwrap();
        assert_eq!(kept.value(), Some(17));
        std::fs::write(&path, "18\n").unwrap();
        assert_eq!(kept.value(), Some(18), "the same descriptor");
    }
}
