//! Logs end, segments go, and nothing else does.

use super::*;
use crate::block::Writer;

const SECOND: u64 = 1_000_000_000;

/// Appends a block without nodes; returns whether the log ended with it.
fn keep(store: &mut Store, tick: u64) -> bool {
    let closing = closing(tick);
    store
        .append(&closing, Writer::default().close(&closing))
        .unwrap()
}

fn closing(tick: u64) -> Closing {
    Closing {
        tick,
        period_ns: SECOND,
        closed_ns: tick * SECOND + SECOND / 4,
        ..Closing::default()
    }
}

fn ticks_of(log: &Path) -> Vec<u64> {
    let mut log = LogReader::open(log).unwrap();
    let mut ticks = Vec::new();
    while let Some(closing) = log.next_block(|_, _, _| {}).unwrap() {
        ticks.push(closing.tick);
    }
    ticks
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|e| e.unwrap());
    let mut names: Vec<String> = entries
        .map(|e| e.file_name().into_string().unwrap())
        .filter(|n| n != "lock")
        .collect();
    names.sort();
    names
}

#[test]
fn logs_end_by_time_and_by_size() {
    let folder = tempfile::tempdir().unwrap();
    let keeping = Keeping {
        segment_seconds: 3,
        seal: false,
        ..Keeping::default()
    };
    let mut store = Store::open(folder.path(), keeping).unwrap();
    let ended: Vec<bool> = (100..108).map(|t| keep(&mut store, t)).collect();
    let full = [false, false, false, true];
    assert_eq!(ended, [full, full].concat());
    // The clock is set back: an older log of the same second is not overwritten.
    store.keeping.segment_bytes = 1;
    assert!(keep(&mut store, 100));
    drop(store);
    let expected = [
        "00000000100-00.log",
        "00000000100-01.log",
        "00000000104-00.log",
    ];
    assert_eq!(names(folder.path()), expected);
    let ticks = |name: &str| {
        let mut log = LogReader::open(&folder.path().join(name)).unwrap();
        let mut ticks = Vec::new();
        while let Some(closing) = log.next_block(|_, _, _| {}).unwrap() {
            ticks.push(closing.tick);
        }
        ticks
    };
    assert_eq!(ticks(expected[0]), [100, 101, 102, 103]);
    assert_eq!(ticks(expected[1]), [100]);
}

fn tidied(folder: &Path, keeping: &Keeping) -> (Vec<String>, Counts) {
    let status = Status::default();
    let ended = entries(folder).unwrap();
    let notes = tidy(&Os, keeping, ended, &mut Catalogue::default(), &status);
    (notes, status.counts())
}

#[test]
fn what_is_too_old_goes_with_its_parquet_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let keeping = Keeping {
        segment_bytes: 1,
        retain_seconds: Some(20),
        ..Keeping::default()
    };
    let mut store = Store::open(
        folder.path(),
        Keeping {
            retain_seconds: None,
            ..keeping.clone()
        },
    )
    .unwrap();
    for tick in [100, 110, 120, 130] {
        assert!(keep(&mut store, tick), "a log a block");
    }
    // The store's own thread may be faster.
    let status = store.status.clone();
    drop(store);
    let before = status.counts().deleted_segments;
    let foreign = ["00000000100-00.mine.parquet", "notes.txt"];
    for name in foreign {
        fs::write(folder.path().join(name), "mine").unwrap();
    }
    let (notes, counts) = tidied(folder.path(), &keeping);
    // Retention of 20 s before 130: the log of 110 is the oldest one left.
    let segment = |t| {
        [
            "counters.parquet",
            "log",
            "reports.parquet",
            "ticks.parquet",
        ]
        .map(|e| format!("{t:011}-00.{e}"))
    };
    let mut expected: Vec<String> = [110, 120, 130].into_iter().flat_map(segment).collect();
    expected.extend(foreign.map(String::from));
    expected.sort();
    assert_eq!(names(folder.path()), expected);
    assert_eq!(before + counts.deleted_segments, 1);
    assert!(
        before == 1 || notes.iter().any(|n| n.contains("1 segments deleted")),
        "{notes:?}"
    );
    tidied(folder.path(), &keeping);
    assert_eq!(names(folder.path()), expected, "nothing is done twice");
}

#[test]
fn foreign_files_and_names_delete_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let keeping = Keeping {
        segment_bytes: 1,
        retain_seconds: Some(86_400),
        ..Keeping::default()
    };
    let mut store = Store::open(folder.path(), keeping.clone()).unwrap();
    for tick in [100, 110, 120] {
        keep(&mut store, tick);
    }
    // One run with the clock 400 days ahead.
    keep(&mut store, 400 * 86_400);
    drop(store);
    let path = |name: &str| folder.path().join(name);
    fs::write(path("zzz.log"), "").unwrap();
    fs::write(path("99999999999-00.log"), "not a log").unwrap();
    fs::write(path("hopbyte.log"), "hopbyte log 4\n").unwrap();
    fs::rename(path("00000000100-00.log"), path("renamed.log")).unwrap();
    let before = logs(folder.path()).unwrap();
    let mut store = Store::open(folder.path(), keeping).unwrap();
    store.join();
    let notes: Vec<String> = store.notes().collect();
    assert_eq!(logs(folder.path()).unwrap(), before);
    assert_eq!(store.status().counts().deleted_segments, 0);
    for said in [
        "3 segments stay",
        "99999999999-00.log: found a file that is not a hopbyte log",
        "hopbyte.log: found a log of version 4, expected version 2 or 3",
        "days apart",
    ] {
        assert!(notes.iter().any(|n| n.contains(said)), "{said}: {notes:?}");
    }
    assert!(
        path("renamed.ticks.parquet").exists(),
        "its content counts, not its name"
    );
}

#[test]
fn a_damaged_old_log_keeps_no_other_from_being_sealed() {
    let folder = tempfile::tempdir().unwrap();
    let keeping = Keeping {
        segment_seconds: 3,
        seal: false,
        ..Keeping::default()
    };
    let mut store = Store::open(folder.path(), keeping.clone()).unwrap();
    for tick in 100..112 {
        keep(&mut store, tick);
    }
    drop(store);
    let logs = logs(folder.path()).unwrap();
    assert_eq!(logs.len(), 3);
    let whole = fs::read(&logs[0]).unwrap();
    // Blocks in the middle, everything behind the title, and all of it.
    for damaged in [
        whole.len() / 3..whole.len() * 2 / 3,
        14..whole.len(),
        0..whole.len(),
    ] {
        let mut bytes = whole.clone();
        bytes[damaged.clone()].fill(0x5a);
        fs::write(&logs[0], bytes).unwrap();
        let sealing = Keeping {
            seal: true,
            ..keeping.clone()
        };
        let (notes, _) = tidied(folder.path(), &sealing);
        assert!(
            notes.iter().any(|n| n.contains("00000000100-00.log")),
            "{damaged:?}: {notes:?}"
        );
        for log in &logs[1..] {
            let sealed = log.with_extension("ticks.parquet");
            assert!(sealed.exists(), "{damaged:?}: {notes:?}");
            fs::remove_file(sealed).unwrap();
        }
        for parquet in ["counters", "reports", "ticks"] {
            let _ = fs::remove_file(logs[0].with_extension(format!("{parquet}.parquet")));
        }
        let _ = fs::remove_file(logs[0].with_extension("log.damaged"));
    }
}

#[test]
fn copies_of_a_log_are_kept_and_sealed_once() {
    let folder = tempfile::tempdir().unwrap();
    let keeping = Keeping {
        segment_seconds: 3,
        seal: false,
        ..Keeping::default()
    };
    let mut store = Store::open(folder.path(), keeping.clone()).unwrap();
    for tick in 100..112 {
        keep(&mut store, tick);
    }
    drop(store);
    let first = logs(folder.path()).unwrap().remove(0);
    let path = |name: &str| folder.path().join(name);
    fs::copy(&first, path("backup.log")).unwrap();
    // Copied while it was written: shorter, and before the original by its name.
    let whole = fs::read(&first).unwrap();
    fs::write(path("00000000099-00.log"), &whole[..whole.len() / 2]).unwrap();
    std::os::unix::fs::symlink("moved.log", path("link.log")).unwrap();
    let sealing = Keeping {
        seal: true,
        ..keeping
    };
    let (notes, _) = tidied(folder.path(), &sealing);
    for said in [
        "backup.log: left out: it is a copy of",
        "00000000099-00.log: left out: it is a copy of",
        "link.log: left out: No such file",
    ] {
        let found = notes.iter().filter(|n| n.contains(said)).count();
        assert_eq!(found, 1, "{said}: {notes:?}");
    }
    assert!(first.with_extension("ticks.parquet").exists());
    for copy in ["backup", "00000000099-00"] {
        assert!(path(&format!("{copy}.log")).exists());
        assert!(!path(&format!("{copy}.ticks.parquet")).exists());
    }
    let (files, warnings, sound) = seal_all(folder.path()).unwrap();
    assert_eq!((files.len(), warnings.len(), sound), (9, 3, false));
}

/// Two logs in one file: no value is computed from the wrong base, and nothing is dropped without a word.
#[test]
fn blocks_of_another_log_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let keeping = Keeping {
        seal: false,
        ..Keeping::default()
    };
    for ticks in [100..105, 200..208] {
        let mut store = Store::open(folder.path(), keeping.clone()).unwrap();
        for tick in ticks {
            keep(&mut store, tick);
        }
    }
    let found = logs(folder.path()).unwrap();
    let [first, second] = [0, 1].map(|n| fs::read(&found[n]).unwrap());
    for (joined, ticks, lost) in [
        ([&first[..], &second[..]].concat(), [100..105, 205..208], 5),
        (
            [&first[..], &second[14..]].concat(),
            [100..105, 205..208],
            5,
        ),
        ([&second[..], &first[..]].concat(), [200..208, 0..0], 5),
    ] {
        let log = folder.path().join("00000000100-00.log");
        fs::write(&log, &joined).unwrap();
        let mut reader = LogReader::open(&log).unwrap();
        while reader.next_block(|_, _, _| {}).unwrap().is_some() {}
        let damage = reader.damage();
        assert_eq!(damage.lost, lost, "{damage}");
        assert!(damage.to_string().contains("blocks of another log"));
        let ticks: Vec<u64> = ticks.into_iter().flatten().collect();
        assert_eq!(ticks_of(&log), ticks);
        // Repaired, the file says it by the number that is left out.
        let mut store = Store::open(folder.path(), keeping.clone()).unwrap();
        let notes: Vec<String> = store.notes().collect();
        assert!(notes.iter().any(|n| n.contains("another log")), "{notes:?}");
        assert_eq!(ticks_of(&log), ticks);
    }
}

/// The serial number tells the order of logs when a collector starts, whatever the clock did.
#[test]
fn a_log_whose_first_block_is_rebuilt_keeps_its_serial_number() {
    let folder = tempfile::tempdir().unwrap();
    let keeping = Keeping {
        seal: false,
        ..Keeping::default()
    };
    for tick in [100, 200] {
        let mut store = Store::open(folder.path(), keeping.clone()).unwrap();
        keep(&mut store, tick);
        keep(&mut store, tick + 1);
    }
    let log = logs(folder.path()).unwrap().remove(1);
    let mut bytes = fs::read(&log).unwrap();
    bytes[14] ^= 1;
    fs::write(&log, bytes).unwrap();
    assert_eq!(LogReader::open(&log).unwrap().first_serial(), 2);
    let store = Store::open(folder.path(), keeping).unwrap();
    assert_eq!(
        (store.serial, store.status().counts().rebuilt_blocks),
        (2, 1)
    );
    assert_eq!(LogReader::open(&log).unwrap().first_serial(), 2);
    assert_eq!(ticks_of(&log), [200, 201]);
}

/// A log as version 2 wrote it.
fn version_2(ticks: std::ops::Range<u64>) -> Vec<u8> {
    let mut log = b"hopbyte log 2\n".to_vec();
    for tick in ticks {
        log.extend_from_slice(Writer::default().close(&closing(tick)));
    }
    log
}

#[test]
fn logs_of_version_2_are_read_repaired_and_sealed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("00000000100-00.log");
    let whole = version_2(100..120);
    let block = (whole.len() - 14) / 20;
    // In the middle: a flipped bit in each byte of a block, of its length and of its checksum among them.
    for at in 14 + 5 * block..14 + 6 * block {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        fs::write(&path, &bytes).unwrap();
        let keeping = Keeping {
            seal: false,
            ..Keeping::default()
        };
        let mut store = Store::open(folder.path(), keeping).unwrap();
        let notes: Vec<String> = store.notes().collect();
        assert!(notes[0].contains("1 blocks lost"), "{at}: {notes:?}");
        drop(store);
        let kept = ticks_of(&path);
        let expected: Vec<u64> = (100..120).filter(|&t| t != 105).collect();
        assert_eq!(kept, expected, "byte {at}");
        let original = folder.path().join("00000000100-00.log.damaged");
        assert_eq!(fs::read(&original).unwrap(), bytes);
        fs::remove_file(original).unwrap();
    }
    fs::write(&path, &whole).unwrap();
    assert!(seal(&path).unwrap().damage.is_none());
    assert_eq!(ticks_of(&path), (100..120).collect::<Vec<_>>());
}

/// A named pipe or a folder where the store has a file of its own: refused, or left alone, without waiting.
#[test]
fn pipes_in_a_store_stop_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let make = |name: &str| {
        let made = std::process::Command::new("mkfifo")
            .arg(folder.path().join(name))
            .status();
        assert!(made.unwrap().success());
    };
    make("lock");
    let error = Store::open(folder.path(), Keeping::default()).unwrap_err();
    assert!(
        error.to_string().contains("expected a regular file"),
        "{error}"
    );
    fs::remove_file(folder.path().join("lock")).unwrap();
    make("jetstream");
    make("00000000100-00.log");
    make("00000000200-00.ticks.parquet");
    fs::create_dir(folder.path().join("00000000101-00.log")).unwrap();
    let keeping = Keeping {
        segment_bytes: 1,
        retain_seconds: Some(20),
        ..Keeping::default()
    };
    let mut store = Store::open(folder.path(), keeping).unwrap();
    assert!(store.note("jetstream").is_err());
    keep(&mut store, 200);
    store.put_note("jetstream", "1").unwrap();
    assert_eq!(store.note("jetstream").unwrap().as_deref(), Some("1"));
    // The tick is of 1970: the clock is far from it, which is said.
    let notes = store.close();
    let known = ["days apart", "found a named pipe", "found a folder"];
    let is_known = |note: &String| known.iter().any(|k| note.contains(k));
    assert!(notes.iter().all(is_known), "{notes:?}");
    assert!(folder.path().join("00000000200-00.ticks.parquet").is_file());
}

#[test]
fn a_dropped_store_is_unlocked_although_a_child_inherited_its_files() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path(), Keeping::default()).unwrap();
    // As between fork and exec of a child: another descriptor of the same open file.
    let inherited = store.lock.0.try_clone().unwrap();
    drop(store);
    Store::open(folder.path(), Keeping::default()).unwrap();
    drop(inherited);
}

#[test]
fn a_deleted_log_or_folder_is_noticed_at_the_next_tick() {
    for whole in [false, true] {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("store");
        let keeping = Keeping {
            seal: false,
            ..Keeping::default()
        };
        let mut store = Store::open(&folder, keeping.clone()).unwrap();
        keep(&mut store, 100);
        if whole {
            fs::remove_dir_all(&folder).unwrap();
        } else {
            fs::remove_file(&logs(&folder).unwrap()[0]).unwrap();
        }
        let closing = closing(101);
        let mut writer = Writer::default();
        let block = writer.close(&closing);
        let error = store.append(&closing, block).unwrap_err().to_string();
        assert!(error.contains("was deleted"), "{error}");
        if whole {
            assert!(store.probe(&closing, block).is_err());
            let end = store.status().at_end().unwrap_err().to_string();
            assert!(
                end.starts_with("store: 2 ticks are not stored, the last"),
                "{end}"
            );
            fs::create_dir(&folder).unwrap();
        }
        store.probe(&closing, block).unwrap();
        keep(&mut store, 102);
        assert_eq!(ticks_of(&logs(&folder).unwrap()[0]), [102]);
        store.status().at_end().unwrap();
        // No other collector can take it meanwhile.
        assert!(Store::open(&folder, keeping.clone()).is_err());
        drop(store);
        assert!(Store::open(&folder, keeping).is_ok());
    }
}
