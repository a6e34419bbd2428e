//! Output files appear whole or not at all, and replace no devices.

#![allow(clippy::unwrap_used)]

use hopbyte_apply::{Staged, Together, tidy, write_atomic, write_atomic_by};
use std::os::unix::fs::FileTypeExt;

#[test]
fn files_appear_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rankfile");
    write_atomic(&file, "one\n").unwrap();
    write_atomic(&file, "two\n").unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "two\n");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let missing = folder.path().join("no/such/rankfile");
    let error = write_atomic(&missing, "x").unwrap_err();
    assert!(error.to_string().contains("rankfile"), "{error}");
    // A folder in place of the file: refused, without leftovers.
    std::fs::create_dir(folder.path().join("taken")).unwrap();
    assert!(write_atomic(&folder.path().join("taken"), "x").is_err());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}

/// A process ended by a signal leaves no file, where the file system has files without names.
#[test]
fn contents_have_no_name_while_they_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rankfile");
    let has_unnamed = tempfile::tempfile_in(folder.path()).is_ok();
    let mut named = usize::MAX;
    let write = |file: &mut dyn std::io::Write| {
        named = std::fs::read_dir(folder.path()).unwrap().count();
        file.write_all(b"one")
    };
    write_atomic_by(&file, &mut { write }).unwrap();
    assert!(named == 0 && has_unnamed, "{named} names");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "one");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// Names of up to 255 bytes are files' names, although the temporary one is longer.
#[test]
fn the_longest_names_are_written_and_staged_contents_wait() {
    let folder = tempfile::tempdir().unwrap();
    let count = || std::fs::read_dir(folder.path()).unwrap().count();
    for name in ["n".repeat(255), "é".repeat(127), "€".repeat(84)] {
        write_atomic(&folder.path().join(&name), "x").unwrap();
        let _ = std::fs::read(folder.path().join(&name)).unwrap();
    }
    assert_eq!(count(), 3);
    let file = folder.path().join("rankfile");
    let write = |text: &'static str| Staged::write(&file, &mut |f| f.write_all(text.as_bytes()));
    write("one").unwrap().commit().unwrap();
    let staged = write("two").unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "one");
    drop(staged);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "one");
    assert_eq!(count(), 4);
}

#[test]
fn files_that_belong_together_are_all_replaced_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let all = || {
        let files = std::fs::read_dir(folder.path()).unwrap();
        let files = files.map(|f| f.unwrap().path());
        let mut all: Vec<_> = files
            .map(|f| {
                let text = std::fs::read_to_string(&f).unwrap_or_default();
                (f.file_name().unwrap().to_string_lossy().into_owned(), text)
            })
            .collect();
        all.sort();
        all
    };
    let change = |last: &str| {
        let write = |name: &str| Staged::write(&at(name), &mut |f| f.write_all(b"new"));
        let staged = ["old", "added", last].map(|name| write(name).unwrap());
        if last == "folder" {
            std::fs::create_dir(at(last)).unwrap();
        }
        Together::change(|together| {
            assert!(together.remove(&at("gone"))? && !together.remove(&at("absent"))?);
            staged.into_iter().try_for_each(|s| together.replace(s))
        })
    };
    std::fs::write(at("old"), "old").unwrap();
    std::fs::write(at("gone"), "old").unwrap();
    let error = change("folder").unwrap_err().to_string();
    assert!(
        error.contains("folder: ") && !error.contains(" is now "),
        "{error}"
    );
    std::fs::remove_dir(at("folder")).unwrap();
    let files = |files: &[(&str, &str)]| -> Vec<_> {
        let files = files.iter().map(|&(a, b)| (a.to_owned(), b.to_owned()));
        files.collect()
    };
    assert_eq!(all(), files(&[("gone", "old"), ("old", "old")]));
    change("last").unwrap();
    let new = ["added", "last", "old"].map(|name| (name, "new"));
    assert_eq!(all(), files(&new));
}

/// Name of the variable with the folder, and of that with the steps after which the process ends.
const KILLED: [&str; 2] = ["HOPBYTE_TEST_FOLDER", "HOPBYTE_TEST_STEPS"];
const NAMES: [&str; 3] = ["gone", "one", "two"];

/// Replaces `one` and `two` and removes `gone`, as mappings are written; ends as if killed after so many steps.
fn change_until(folder: &std::path::Path, steps: usize) {
    let mut left = steps;
    let mut step = || match left {
        0 => std::process::abort(),
        _ => left -= 1,
    };
    let staged = ["one", "two"].map(|name| {
        step();
        Staged::write(&folder.join(name), &mut |f| f.write_all(b"new")).unwrap()
    });
    let changed = Together::change(|together| {
        step();
        together.remove(&folder.join("gone"))?;
        for file in staged {
            step();
            together.replace(file)?;
        }
        step();
        Ok(())
    });
    changed.unwrap();
}

/// The process that is killed; it is this test itself, without the variables none.
#[test]
fn a_process_that_ends_within_a_change() {
    let [folder, steps] = KILLED.map(std::env::var);
    if let (Ok(folder), Ok(steps)) = (folder, steps) {
        change_until(folder.as_ref(), steps.parse().unwrap());
    }
}

/// Whatever step was the last: every file is whole, none of the new ones is beside one that had to go, and the next run tidies.
#[test]
fn a_change_that_is_killed_at_any_step_leaves_whole_files_which_the_next_one_tidies() {
    let mut hidden = Vec::new();
    for steps in 0..=6 {
        let folder = tempfile::tempdir().unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).ok();
        let count = || std::fs::read_dir(folder.path()).unwrap().count();
        for name in ["gone", "one"] {
            std::fs::write(folder.path().join(name), "old").unwrap();
        }
        // Not of a mapping, and of a process that runs.
        let others = [".other.4194305.old", ".one.1.tmp", ".one.x.tmp", "one.tmp"];
        for name in others {
            std::fs::write(folder.path().join(name), "kept").unwrap();
        }
        let done = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "whole::a_process_that_ends_within_a_change"])
            .env(KILLED[0], folder.path())
            .env(KILLED[1], steps.to_string())
            .output()
            .unwrap();
        assert_eq!(done.status.success(), steps == 6, "{steps}: {done:?}");
        let [gone, one, two] = NAMES.map(read);
        let whole = |text: &Option<String>| matches!(text.as_deref(), None | Some("old" | "new"));
        assert!([&gone, &one, &two].into_iter().all(whole), "{steps}");
        let is_new = |text: &Option<String>| text.as_deref() == Some("new");
        let mixed = gone.is_some() && (is_new(&one) || is_new(&two));
        assert!(one.is_some() && !mixed, "{steps}: {gone:?} {one:?} {two:?}");
        let files = usize::from(gone.is_some()) + 1 + usize::from(two.is_some());
        hidden.push(count() - files - others.len());
        change_until(folder.path(), 9);
        tidy(folder.path(), &NAMES);
        let new = Some("new".to_owned());
        assert_eq!(NAMES.map(read), [None, new.clone(), new], "{steps}");
        assert_eq!(count(), 2 + others.len(), "{steps}");
    }
    // Before each step: contents that wait, and former ones.
    assert_eq!(hidden, [0, 1, 2, 3, 3, 2, 0]);
}

/// A wait without an end would be silent.
#[test]
fn a_pipe_without_a_reader_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let error = write_atomic(&pipe, "lost").unwrap_err().to_string();
    assert!(error.contains("no program opened for reading"), "{error}");
}

/// A renamed file in the place of `/dev/null` would break the machine for every process.
#[test]
fn pipes_are_written_to_and_links_are_followed_but_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let pipe = at("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::read_to_string(pipe).unwrap()
    });
    write_atomic(&pipe, "through").unwrap();
    assert_eq!(reader.join().unwrap(), "through");
    let kind = |name: &str| std::fs::symlink_metadata(at(name)).unwrap().file_type();
    assert!(kind("pipe").is_fifo());

    std::fs::write(at("file"), "old").unwrap();
    std::os::unix::fs::symlink("file", at("link")).unwrap();
    write_atomic(&at("link"), "new").unwrap();
    assert!(kind("link").is_symlink());
    assert_eq!(std::fs::read_to_string(at("file")).unwrap(), "new");

    std::os::unix::fs::symlink("absent", at("dangling")).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    std::fs::create_dir(at("folder")).unwrap();
    for (name, found) in [
        ("dangling", "a symbolic link without a target"),
        ("socket", "a socket"),
        ("folder", "a folder"),
    ] {
        let before = kind(name);
        let error = write_atomic(&at(name), "lost").unwrap_err();
        assert!(error.to_string().contains(found), "{error}");
        assert_eq!(kind(name), before);
    }
    let rest = std::fs::read_dir(folder.path()).unwrap();
    let rest = rest.filter(|e| {
        e.as_ref()
            .unwrap()
            .file_name()
            .to_string_lossy()
            .ends_with(".tmp")
    });
    assert_eq!(rest.count(), 0);
}
