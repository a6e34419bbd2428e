//! Selection of input files: one file, a folder or pattern, a list, or the members of an archive.

use super::entries::LIMITS;
use super::formats::Format;
use super::{live, profiles, tar};
use crate::ObserveError;
use crate::text::Text;
use crate::trace;
use hopbyte_fabric::InputError;
use std::path::{Component, Path, PathBuf};

/// Extensions of the recorders' files, one per rank.
const RANK_FILES: [&str; 2] = ["prof", "hbr"];

/// Files that a user named, read one after the other.
pub(crate) struct Files {
    texts: std::vec::IntoIter<Text>,
    paths: std::vec::IntoIter<PathBuf>,
    /// Whether only some of them may be rank files and others are skipped.
    mixed: bool,
}

impl Files {
    /// A file, a folder, a pattern or a list; archives are unpacked.
    pub(crate) fn open(name: &str) -> Result<Self, ObserveError> {
        let path = Path::new(name);
        let (paths, mixed) = if path.is_dir() {
            rank_files(path)?
        } else if path.exists() {
            let text = Text::read(path, LIMITS)?;
            match listed(path, &text) {
                Some(paths) => (paths, false),
                None => return Self::of(text),
            }
        } else if name.contains(['*', '?']) {
            (matching(path)?, false)
        } else if name.contains(',') {
            (name.split(',').map(PathBuf::from).collect(), false)
        } else {
            (vec![path.to_owned()], false)
        };
        Ok(Self {
            texts: Vec::new().into_iter(),
            paths: paths.into_iter(),
            mixed,
        })
    }

    /// A file itself, or the files of ranks in an archive.
    pub(crate) fn of(text: Text) -> Result<Self, ObserveError> {
        let (texts, mixed) = unpack(text)?;
        Ok(Self {
            texts: texts.into_iter(),
            paths: Vec::new().into_iter(),
            mixed,
        })
    }

    /// Whether files of other kinds may be among the relevant ones.
    pub(crate) fn mixed(&self) -> bool {
        self.mixed
    }
}

impl Iterator for Files {
    type Item = Result<Text, ObserveError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(text) = self.texts.next() {
            return Some(Ok(text));
        }
        let path = self.paths.next()?;
        Some(match live::record_of(&path) {
            Some(_) => live::recover(&path),
            None => Text::read(&path, LIMITS),
        })
    }
}

/// Files of a list, one name per line, as SimGrid writes beside its traces. Only files below the list's own folder: a
/// list from an untrusted source cannot name others. Names that are relative to another folder are looked for in the
/// list's.
fn listed(list: &Path, text: &Text) -> Option<Vec<PathBuf>> {
    let folder = list.parent()?;
    let mut paths = Vec::new();
    for line in text.lines().filter(|l| !l.trimmed().is_empty()) {
        let name = Path::new(std::str::from_utf8(line.trimmed()).ok()?);
        let below = name
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        let mut path = folder.join(name);
        if !path.is_file()
            && let Some(own) = name.file_name().map(|own| folder.join(own))
            && own.is_file()
        {
            path = own;
        }
        if !below || (paths.is_empty() && !path.is_file()) {
            return None;
        }
        paths.push(path);
    }
    (!paths.is_empty()).then_some(paths)
}

/// Error for a folder or archive without a recognised file.
pub(super) fn nothing_known(source: &str) -> InputError {
    InputError::new(
        source,
        "no file of a rank",
        "*.prof or *.hbr files, IPM, TAU or mpitrace profiles, files of PyTorch or NCCL, or a trace's files",
    )
    .hint("traces are hopbyte's, SimGrid's, liballprof's, DUMPI text, GOAL or Chakra's")
}

/// A file itself, or the files of ranks in an archive, or all its texts.
fn unpack(text: Text) -> Result<(Vec<Text>, bool), ObserveError> {
    if tar::is_tar(text.bytes()) {
        let mut members = tar::members(&text, LIMITS)?;
        let ranks = members
            .iter()
            .any(|m| ending(Path::new(m.file())).is_some());
        members.retain(|m| match ranks {
            true => ending(Path::new(m.file())).is_some(),
            false => {
                !m.is_binary() || trace::Format::of(m).is_some() || Format::of_whole(m).is_some()
            }
        });
        if members.is_empty() {
            return Err(nothing_known(text.file()).into());
        }
        return Ok((members, !ranks));
    }
    let known = || {
        profiles::sparse(&text).is_some()
            || trace::Format::of(&text).is_some()
            || Format::of_whole(&text).is_some()
    };
    if let Some(error) = text.unreadable("traffic").filter(|_| !known()) {
        return Err(error.into());
    }
    if text.is_binary() && !known() {
        return Err(text
            .error(
                "binary data (a zero byte)",
                "text, or a tar archive of rank files",
            )
            .hint("is this the right file?")
            .into());
    }
    Ok((vec![text], false))
}

/// The extension of a rank's file, if it has one.
fn ending(path: &Path) -> Option<&'static str> {
    if live::record_of(path).is_some() {
        return Some("hbr");
    }
    let mut own = path.extension()?.to_str()?;
    if matches!(own, "gz" | "zst") {
        own = Path::new(path.file_stem()?).extension()?.to_str()?;
    }
    RANK_FILES.iter().copied().find(|e| *e == own)
}

/// Extensions of other tools' rank files, besides none.
const OTHER_FILES: [&str; 13] = [
    "txt", "trace", "ti", "dumpi", "goal", "xml", "et", "json", "hbt", "log", "pickle", "pkl",
    "dat",
];

/// Whether a name may be that of a trace or profile, compressed or not.
fn may_be_of_rank(path: &Path) -> bool {
    let name = path
        .file_name()
        .and_then(|n| n.to_str())
        .unwrap_or_default();
    if name.starts_with("profile.") || name.starts_with("pattern.") {
        return true;
    }
    let extension = |p: &Path| p.extension().and_then(|e| e.to_str()).map(str::to_owned);
    let own = match extension(path).as_deref() {
        Some("gz" | "zst") => path.file_stem().and_then(|s| extension(Path::new(s))),
        _ => extension(path),
    };
    own.is_none_or(|e| OTHER_FILES.contains(&e.as_str()))
}

/// Rank files of a folder, all from one recorder; else files that may be from another tool. Ranks that were killed
/// left counts that take the place of their file.
fn rank_files(folder: &Path) -> Result<(Vec<PathBuf>, bool), ObserveError> {
    let mut all = entries(folder)?;
    all.retain(|p| live::record_of(p).is_none());
    let killed = live::left_behind(folder)?;
    if !killed.is_empty() {
        all.retain(|p| ending(p).is_some());
        all.extend(killed);
    }
    for wanted in RANK_FILES {
        let files: Vec<PathBuf> = all
            .iter()
            .filter(|p| ending(p) == Some(wanted))
            .cloned()
            .collect();
        let others = all.iter().filter(|p| ending(p).is_some()).count() - files.len();
        if !files.is_empty() && others == 0 {
            return Ok((files, false));
        }
    }
    let file = folder.display().to_string();
    if all.iter().any(|p| ending(p).is_some()) {
        let expected = "the files of one recorder, one per rank";
        return Err(InputError::new(file, "files of two recorders", expected).into());
    }
    let mut others = all;
    others.retain(|p| may_be_of_rank(p));
    if others.is_empty() {
        return Err(nothing_known(&file).into());
    }
    Ok((others, true))
}

/// Files with names that match a pattern with `*` and `?` in its last part.
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

/// Whether a name matches a pattern of `*` (any run) and `?` (any one byte).
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    // Position to resume after the last star, one byte later each time.
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
