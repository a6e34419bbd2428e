//! Which files? One, those of a folder or pattern, a list, or the members of an archive.

use super::{LIMITS, tar};
use crate::ObserveError;
use crate::text::Text;
use hopbyte_fabric::InputError;
use std::path::{Path, PathBuf};

/// Endings of the files that recorders write for every rank.
const RANK_FILES: [&str; 2] = ["prof", "hbr"];

/// Opens what a user named; archives are unpacked.
pub(super) fn open(name: &str) -> Result<Vec<Text>, ObserveError> {
    let path = Path::new(name);
    let paths = if path.is_dir() {
        rank_files(path)?
    } else if path.exists() {
        return unpack(Text::read(path, LIMITS)?);
    } else if name.contains(['*', '?']) {
        matching(path)?
    } else if name.contains(',') {
        name.split(',').map(PathBuf::from).collect()
    } else {
        vec![path.to_owned()]
    };
    paths.iter().map(|path| Text::read(path, LIMITS)).collect()
}

/// A file itself, or the files of ranks in an archive.
pub(super) fn unpack(text: Text) -> Result<Vec<Text>, ObserveError> {
    if tar::is_tar(text.bytes()) {
        let mut members = tar::members(&text, LIMITS)?;
        members.retain(|m| ending(Path::new(m.file())).is_some());
        if members.is_empty() {
            return Err(text
                .error(
                    "an archive without files of ranks",
                    "files *.prof or *.hbr in it",
                )
                .into());
        }
        return Ok(members);
    }
    if text.is_binary() {
        return Err(text
            .error(
                "binary data (a zero byte)",
                "text, or a tar archive of rank files",
            )
            .hint("is this the right file?")
            .into());
    }
    Ok(vec![text])
}

/// The ending of a rank's file, if it has one.
fn ending(path: &Path) -> Option<&'static str> {
    let own = path.extension()?.to_str()?;
    RANK_FILES.iter().copied().find(|e| *e == own)
}

/// Files of ranks in a folder, of the one recorder that wrote there.
fn rank_files(folder: &Path) -> Result<Vec<PathBuf>, ObserveError> {
    let all = entries(folder)?;
    for wanted in RANK_FILES {
        let files: Vec<PathBuf> = all
            .iter()
            .filter(|p| ending(p) == Some(wanted))
            .cloned()
            .collect();
        let others = all.iter().filter(|p| ending(p).is_some()).count() - files.len();
        if !files.is_empty() && others == 0 {
            return Ok(files);
        }
    }
    let mixed = all.iter().any(|p| ending(p).is_some());
    let found = if mixed {
        "files of two recorders"
    } else {
        "a folder without *.prof or *.hbr files"
    };
    let file = folder.display().to_string();
    Err(InputError::new(file, found, "the files of one recorder, one a rank").into())
}

/// Files whose names match a pattern with `*` and `?` in its last part.
fn matching(pattern: &Path) -> Result<Vec<PathBuf>, ObserveError> {
    let folder = match pattern.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    let name = pattern
        .file_name()
        .map_or_else(Vec::new, |n| n.as_encoded_bytes().to_vec());
    let mut files = entries(folder)?;
    files.retain(|p| {
        p.file_name()
            .is_some_and(|n| fits(&name, n.as_encoded_bytes()))
    });
    if files.is_empty() {
        let file = pattern.display().to_string();
        let error = InputError::new(file, "no such file", "files that match the pattern");
        return Err(error
            .hint("* and ? stand only in the last part of the path")
            .into());
    }
    Ok(files)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, ObserveError> {
    let read = std::fs::read_dir(folder).map_err(|e| ObserveError::io(folder, e))?;
    let mut files = Vec::new();
    for entry in read {
        let path = entry.map_err(|e| ObserveError::io(folder, e))?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Whether a name fits a pattern of `*` (any run) and `?` (any one byte).
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    // Where to go on after the last star, one byte later each time.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, n));
                p += 1;
            }
            Some(&c) if c == b'?' || c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((after, at)) = star else {
                    return false;
                };
                star = Some((after, at + 1));
                (p, n) = (after, at + 1);
            }
        }
    }
    pattern[p..].iter().all(|&b| b == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_in_a_shell() {
        for (pattern, name, expected) in [
            ("*.prof", "lj.3.prof", true),
            ("*.prof", "lj.3.prof.old", false),
            ("lj.?.prof", "lj.3.prof", true),
            ("lj.?.prof", "lj.33.prof", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b*", "xxbxxaxx", false),
            ("*", "", true),
            ("a", "", false),
        ] {
            assert_eq!(
                fits(pattern.as_bytes(), name.as_bytes()),
                expected,
                "{pattern} {name}"
            );
        }
    }
}
