//! Damaged stores on the command line: sound blocks are read, damage is reported, and the exit code is 1.

#![allow(clippy::unwrap_used)]

use hopbyte_collect::block::{Closing, Writer};
use hopbyte_collect::store::{Keeping, Store, logs};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// A store of two logs with ten ticks each.
fn store(folder: &Path) {
    let keeping = Keeping {
        segment_seconds: 9,
        seal: false,
        ..Keeping::default()
    };
    let mut store = Store::open(folder, keeping).unwrap();
    for tick in 1_800_000_000..1_800_000_020 {
        let closing = Closing {
            tick,
            period_ns: 1_000_000_000,
            closed_ns: tick * 1_000_000_000,
            ..Closing::default()
        };
        let mut writer = Writer::default();
        store.append(&closing, writer.close(&closing)).unwrap();
    }
}

fn replay(folder: &Path, options: &[&str]) -> (Output, usize) {
    let done = Command::new(env!("CARGO_BIN_EXE_hopbyte"))
        .args(["--quiet", "replay", folder.to_str().unwrap()])
        .args(options)
        .output()
        .unwrap();
    let lines = done.stdout.iter().filter(|&&b| b == b'\n').count();
    (done, lines)
}

#[test]
fn replay_reads_round_damage_and_says_it() {
    let folder = tempfile::tempdir().unwrap();
    store(folder.path());
    let (sound, lines) = replay(folder.path(), &[]);
    assert_eq!((sound.status.code(), lines), (Some(0), 20));
    let first = &logs(folder.path()).unwrap()[0];
    let whole = fs::read(first).unwrap();
    let stderr = |done: &Output| String::from_utf8_lossy(&done.stderr).into_owned();
    // One bit: the block is rebuilt. As much as a block and its copy: one is lost.
    let both = (whole.len() - 14) / 10;
    for (length, ticks, said) in [(1, 20, "blocks rebuilt"), (both, 19, "1 blocks lost")] {
        let mut bytes = whole.clone();
        let middle = bytes.len() / 2;
        bytes[middle..middle + length]
            .iter_mut()
            .for_each(|b| *b ^= 8);
        fs::write(first, &bytes).unwrap();
        let (done, lines) = replay(folder.path(), &[]);
        assert_eq!((done.status.code(), lines), (Some(1), ticks));
        assert!(stderr(&done).contains(said), "{}", stderr(&done));
        let (done, files) = replay(folder.path(), &["--seal"]);
        assert_eq!((done.status.code(), files), (Some(1), 6));
        assert!(stderr(&done).contains(said), "{}", stderr(&done));
    }
    // A copy counts once; a link to a log that is gone is said.
    fs::write(first, &whole).unwrap();
    fs::copy(first, folder.path().join("backup.log")).unwrap();
    let (done, lines) = replay(folder.path(), &[]);
    assert_eq!((done.status.code(), lines), (Some(0), 20));
    assert!(
        stderr(&done).contains("it is a copy of"),
        "{}",
        stderr(&done)
    );
    fs::remove_file(folder.path().join("backup.log")).unwrap();
    let link = folder.path().join("moved.log");
    std::os::unix::fs::symlink("/nowhere/moved.log", &link).unwrap();
    let (done, lines) = replay(folder.path(), &[]);
    assert_eq!((done.status.code(), lines), (Some(1), 20));
    assert!(
        stderr(&done).contains("moved.log: left out"),
        "{}",
        stderr(&done)
    );
    fs::remove_file(link).unwrap();
    // A log whose writer was killed within a block.
    let last = &logs(folder.path()).unwrap()[1];
    let end = fs::read(last).unwrap();
    let block = (end.len() - 14) / 10;
    fs::write(last, &end[..end.len() - block + 9]).unwrap();
    let (done, lines) = replay(folder.path(), &[]);
    assert_eq!((done.status.code(), lines), (Some(0), 19));
    assert!(
        stderr(&done).contains("bytes of an unfinished last block are left out"),
        "{}",
        stderr(&done)
    );
    fs::write(last, end).unwrap();
    // An unreadable log hides no other.
    fs::write(first, b"hopbyte log 9\n").unwrap();
    let (done, lines) = replay(folder.path(), &[]);
    assert_eq!((done.status.code(), lines), (Some(1), 10));
    let said = stderr(&done);
    assert!(
        said.contains("found a log of version 9, expected version 2 or 3"),
        "{said}"
    );
}
