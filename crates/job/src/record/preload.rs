//! A preload of the user's in a launch command, beside that of hopbyte.

use super::launch::{find, linked_to};
use crate::error::{Result, refuse};
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// The variable with the libraries that the loader puts in front of a program's.
pub(super) const PRELOAD: &str = "LD_PRELOAD";

/// A word of a command with hopbyte's libraries in front of the user's, if it sets the preload of the ranks; `before` are the
/// words before it, `whole` the preload without a word of the user's.
pub(super) fn with_preload(
    before: &[OsString],
    word: &OsStr,
    ours: &OsStr,
    whole: &OsStr,
) -> Option<OsString> {
    let back = |n: usize| {
        let at = before.len().checked_sub(n);
        at.and_then(|at| before[at].to_str()).unwrap_or("")
    };
    let text = word.to_str()?;
    if back(1) == "-x" && text == PRELOAD {
        return Some([OsStr::new("LD_PRELOAD="), whole].into_iter().collect());
    }
    let pair = ["-genv", "--genv", "-env", "--env"].contains(&back(2)) && back(1) == PRELOAD;
    let start = if pair {
        0
    } else if text.starts_with("LD_PRELOAD=") {
        "LD_PRELOAD=".len()
    } else if text.starts_with("--export=") {
        text.find("LD_PRELOAD=")? + "LD_PRELOAD=".len()
    } else {
        return None;
    };
    let (name, theirs) = text.split_at(start);
    let separator = if theirs.is_empty() { "" } else { ":" };
    let parts = [OsStr::new(name), ours, separator.as_ref(), theirs.as_ref()];
    Some(parts.into_iter().collect())
}

/// Whether a word starts Slurm's srun.
pub(super) fn is_srun(word: &OsStr) -> bool {
    Path::new(word)
        .file_name()
        .is_some_and(|name| name == "srun")
}

/// A word of srun with the variables `names` in its list of those that ranks get, if it is one that lacks some.
pub(super) fn exporting(before: &[OsString], word: &OsStr, names: &[&str]) -> Option<OsString> {
    let joined = word.to_str().and_then(|w| w.strip_prefix("--export="));
    let list = match joined {
        Some(list) => exported(OsStr::new(list), names)?,
        None if before.last()? == "--export" => exported(word, names)?,
        None => return None,
    };
    let is_program = |w: &OsString| linked_to(Path::new(w)).is_some();
    if before.iter().skip(1).any(is_program) {
        return None;
    }
    let option = joined.map_or("", |_| "--export=");
    Some([OsStr::new(option), &list].into_iter().collect())
}

/// A list of variables that srun passes to ranks, with `names`; `None` if it has all, or is none.
pub(super) fn exported(list: &OsStr, names: &[&str]) -> Option<OsString> {
    let list = list.to_str()?;
    let given: Vec<&str> = list.split(',').collect();
    if given.iter().any(|g| g.eq_ignore_ascii_case("ALL")) {
        return None;
    }
    let is_none = |word: &str| ["NONE", "NIL"].iter().any(|n| word.eq_ignore_ascii_case(n));
    let has = |name: &&&str| given.iter().any(|g| g.split('=').next() == Some(**name));
    let all = given.iter().filter(|g| !g.is_empty() && !is_none(g));
    let all: Vec<&str> = all
        .chain(names.iter().filter(|n| !has(n)))
        .copied()
        .collect();
    Some(all.join(",").into())
}

/// Index of the last word of `flux run` that may filter the environment. Its rules are applied in their order, so that the
/// settings after it stay.
pub(super) fn last_rule_of_flux(words: &[OsString]) -> Option<usize> {
    let launcher = Path::new(words.first()?).file_name()?;
    let options = words.iter().enumerate().skip(2);
    let options = options.take_while(|(_, word)| linked_to(Path::new(word)).is_none());
    let rule = |(at, word): (usize, &OsString)| {
        let word = word.to_string_lossy();
        let takes_next = ["--env", "--env-remove", "--env-file"].contains(&&*word);
        word.starts_with("--env")
            .then_some(at + usize::from(takes_next))
    };
    (launcher == "flux").then(|| options.filter_map(rule).last())?
}

/// Refuses files of options under which Open MPI would not preload the recorder.
pub(super) fn open_mpi_files(words: &[OsString], version: u32) -> Result<()> {
    let options = words.iter().skip(1).take_while(|w| find(w).is_none());
    let options: Vec<&OsString> = options.collect();
    for pair in options.windows(2) {
        match pair[0].to_str() {
            Some(option @ ("--app" | "-app")) if version < 5 => refuse!(
                "{option} {}: Open MPI {version} takes all options from this file, and none of hopbyte's\n\
                 hint: write its lines on the command line, with : between them",
                pair[1].display()
            ),
            Some(option @ ("--tune" | "-tune")) => {
                let text = std::fs::read(pair[1]).unwrap_or_default();
                if String::from_utf8_lossy(&text).contains(PRELOAD) {
                    refuse!(
                        "{option} {}: it sets {PRELOAD}, as hopbyte does, and Open MPI takes one of the two\n\
                         hint: give it as -x {PRELOAD}=… on the command line: hopbyte puts its library in front",
                        pair[1].display()
                    );
                }
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_hide_the_preload_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("options");
        let file = file.to_str().unwrap();
        let refused = |option: &str, version: u32| {
            let words = ["mpirun", option, file].map(OsString::from);
            open_mpi_files(&words, version).is_err()
        };
        std::fs::write(file, "--mca btl self\n").unwrap();
        assert!(refused("--app", 4) && !refused("--app", 5) && !refused("--tune", 4));
        std::fs::write(file, "-x LD_PRELOAD=u.so\n").unwrap();
        assert!(refused("--tune", 4) && refused("--tune", 5));
    }
}
