//! Faults between the collector's store and the disk: every byte damaged, every operation failing, power cut after every
//! change, clocks set by 400 days. After each, everything acknowledged and undamaged is read back, and the rest is
//! reported as missing.
//!
//! `HOPBYTE_FAULTS=all cargo test -p hopbyte-collect --test faults` (`make faults`) tries all; otherwise a sample.

#![allow(clippy::unwrap_used, clippy::panic)]

mod disk;
mod fleet;
mod power;
mod races;

use disk::{Change, FAULTS, Fault, Faulty};
use fleet::{Content, Fleet, SECOND, content, read};
use hopbyte_collect::store::{Keeping, Store, logs, repair, seal, seal_all_on};
use parquet::file::reader::{FileReader, SerializedFileReader};
use power::{Loss, cut};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DAY: u64 = 86_400;
const T0: u64 = 1_800_000_000;

/// Whether all faults are tried; of a sample, one in `n`.
fn sample(n: usize) -> usize {
    match std::env::var("HOPBYTE_FAULTS").as_deref() {
        Ok("all") => 1,
        _ => n,
    }
}

/// Prints the number of faults that a test tried (`--nocapture`).
struct Tried(&'static str, u64);

impl Drop for Tried {
    fn drop(&mut self) {
        println!("{} faults: {}", self.1, self.0);
    }
}

fn keeping(sync: bool) -> Keeping {
    Keeping {
        sync,
        seal: false,
        ..Keeping::default()
    }
}

/// Opens a store without waiting for the real disk.
fn opened(folder: &Path, keeping: Keeping) -> Store {
    Store::open_on(Arc::new(Faulty::default()), folder, keeping).unwrap()
}

/// A store of one log. Returns the log's path and the acknowledged reports. `killed`: without the end that a closed store
/// writes.
fn store(
    folder: &Path,
    nodes: u64,
    counters: usize,
    ticks: u64,
    killed: bool,
) -> (PathBuf, Vec<u64>) {
    let now = T0 * SECOND;
    let mut fleet = Fleet::new(nodes, counters, now);
    let mut store = opened(folder, keeping(false));
    fleet.start(&store, now);
    for tick in 1..=ticks {
        assert!(fleet.tick(&mut store, now + tick * SECOND));
    }
    let [log] = <[PathBuf; 1]>::try_from(logs(folder).unwrap()).unwrap();
    if killed {
        let bytes = fs::read(&log).unwrap();
        drop(store);
        fs::write(&log, bytes).unwrap();
    }
    (log, fleet.acknowledged())
}

/// Damages a log at a position; everything is read back before and after the repair.
fn flipped(log: &Path, whole: &[u8], at: usize, mask: u8, acknowledged: &[u64], mend: bool) {
    let what = format!("byte {at} of {} ^ {mask:#x}", whole.len());
    let mut bytes = whole.to_vec();
    bytes[at] ^= mask;
    fs::write(log, &bytes).unwrap();
    let mut found = Content::default();
    read(log, &mut found);
    found.has_all(acknowledged, &what);
    assert!(!found.damage.is_none(), "{what}: unnoticed");
    if !mend {
        return;
    }
    let folder = log.parent().unwrap();
    let mut store = opened(folder, keeping(false));
    let notes: Vec<String> = store.notes().collect();
    assert!(
        notes.iter().any(|n| n.contains("damaged: ")),
        "{what}: {notes:?}"
    );
    assert_eq!(store.status().counts().damaged_logs, 1, "{what}");
    drop(store);
    let original = log.with_extension("log.damaged");
    assert_eq!(
        fs::read(&original).unwrap(),
        bytes,
        "{what}: the original is kept"
    );
    fs::remove_file(original).unwrap();
    let found = content(folder);
    found.has_all(acknowledged, &what);
    assert!(found.damage.is_none(), "{what}: {:?}", found.damage);
}

#[test]
fn a_flipped_bit_in_any_byte_of_a_small_store_loses_nothing_and_is_said() {
    let mut tried = Tried("flipped bits of small stores", 0);
    for killed in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let (log, acknowledged) = store(folder.path(), 3, 5, 12, killed);
        let whole = fs::read(&log).unwrap();
        for at in 0..whole.len() {
            let masks: &[u8] = if sample(2) == 1 {
                &[1, 2, 4, 8, 16, 32, 64, 128, 255]
            } else {
                &[1 << (at % 8)]
            };
            for &mask in masks {
                tried.1 += 1;
                flipped(&log, &whole, at, mask, &acknowledged, at % sample(7) == 0);
            }
        }
    }
}

#[test]
fn a_flipped_bit_in_a_store_of_large_blocks_loses_nothing_once_their_parity_is_written() {
    let mut tried = Tried("flipped bits of a store of large blocks", 0);
    let folder = tempfile::tempdir().unwrap();
    // One group of eight blocks with parity in common, and a shorter one.
    let (log, acknowledged) = store(folder.path(), 24, 400, 11, false);
    let whole = fs::read(&log).unwrap();
    assert!(
        whole.len() > 11 * (16 << 10),
        "blocks have parity in common"
    );
    for at in (0..whole.len()).step_by(sample(5003).max(101)) {
        tried.1 += 1;
        flipped(&log, &whole, at, 1 << (at % 8), &acknowledged, at % 5 == 0);
    }
}

/// Bytes of blocks that were lost, from the first to the last.
#[test]
fn of_lost_blocks_the_rest_is_kept_without_wrong_values() {
    let mut tried = Tried("lost blocks", 0);
    let folder = tempfile::tempdir().unwrap();
    let (log, acknowledged) = store(folder.path(), 3, 5, 150, true);
    let whole = fs::read(&log).unwrap();
    let steps = whole.len() / if sample(2) == 1 { 400 } else { 40 };
    for at in (0..whole.len() - 3000).step_by(steps) {
        tried.1 += 1;
        let mut bytes = whole.clone();
        // A lost sector and more: blocks with their copies.
        bytes[at..at + 3000].fill(0xee);
        fs::write(&log, &bytes).unwrap();
        let mut found = Content::default();
        read(&log, &mut found);
        let damage = found.damage.clone();
        assert!(!damage.is_none(), "{at}");
        let missing: u64 = (1..=150)
            .filter(|&t| !found.ticks.contains(&(T0 + t)))
            .count() as u64;
        if damage.bad_tail {
            assert!(missing > 0, "{at}");
            assert!(found.damage.to_string().contains("a damaged end"));
            continue;
        }
        assert_eq!(missing, damage.lost, "{at}: every lost block is counted");
        let without: u64 = found.reports.values().filter(|r| !r.1).count() as u64;
        let nameless = 3 * 150 - 3 * missing - found.reports.len() as u64;
        assert_eq!(
            damage.without_values,
            without + nameless,
            "{at}: and every report without values"
        );
        // Every 64 blocks all is written anew.
        assert!(
            missing + without.div_ceil(3) < 64 + 24,
            "{at}: {missing} {without}"
        );
        // The repaired store says the same, and a restarted collector acknowledges no less.
        let mut store = opened(folder.path(), keeping(false));
        assert!(store.notes().any(|n| n.contains("blocks lost")));
        assert_eq!(store.status().counts().lost_blocks, damage.lost);
        for node in store.remembered() {
            let n = (node.state.start - 100) as usize;
            assert_eq!(node.state.header.sequence, acknowledged[n]);
        }
        drop(store);
        let again = content(folder.path());
        assert_eq!(again.reports.len(), found.reports.len());
        assert_eq!((again.damage.lost, again.damage.bytes), (damage.lost, 0));
        fs::remove_file(log.with_extension("log.damaged")).unwrap();
    }
}

/// A run with a disk: some ticks, a restart, more ticks. Logs end after a few ticks.
/// Returns the acknowledged reports, and whether the store warned that reports may be stored twice.
fn run(disk: &Faulty, folder: &Path, sync: bool) -> (Vec<u64>, bool) {
    let mut now = T0 * SECOND;
    let mut fleet = Fleet::new(2, 3, now);
    let keeping = Keeping {
        segment_seconds: 4,
        ..keeping(sync)
    };
    let mut warned = false;
    for _ in 0..2 {
        let opened = (0..20).find_map(|_| {
            let shared: Arc<Faulty> = Arc::new(disk.clone());
            Store::open_on(shared, folder, keeping.clone()).ok()
        });
        let mut store = opened.unwrap();
        warned |= store
            .notes()
            .any(|n| n.contains("twice") || n.contains("could not be repaired"));
        fleet.start(&store, now);
        for _ in 0..7 {
            now += SECOND;
            let before = store.status().counts();
            if fleet.tick(&mut store, now) {
                disk.note(Change::Acknowledged(fleet.acknowledged()[0]));
            } else {
                let counts = store.status().counts();
                assert_eq!(
                    counts.unkept_ticks,
                    before.unkept_ticks + 1,
                    "ticks that are not stored are counted"
                );
            }
        }
    }
    (fleet.acknowledged(), warned)
}

#[test]
fn no_failing_operation_loses_or_doubles_what_is_acknowledged() {
    let mut tried = Tried("failing operations", 0);
    let count = {
        let folder = tempfile::tempdir().unwrap();
        let disk = Faulty::default();
        run(&disk, folder.path(), true);
        disk.done()
    };
    assert!(count > 50, "{count} operations");
    for sync in [true, false] {
        for length in [1, 2, 3, 9] {
            for fault in FAULTS {
                for at in (0..count + 5).step_by(sample(5)) {
                    tried.1 += 1;
                    let folder = tempfile::tempdir().unwrap();
                    let disk = Faulty::default();
                    disk.fail(at..at + length, fault);
                    let (acknowledged, warned) = run(&disk, folder.path(), sync);
                    let what = format!("{length} operations from {at} on: {fault:?}, sync {sync}");
                    let found = content(folder.path());
                    found.has_all(&acknowledged, &what);
                    if !warned {
                        found.has_none_twice(&what);
                    }
                    assert!(found.damage.is_none(), "{what}: {:?}", found.damage);
                }
            }
        }
    }
}

#[test]
fn a_disk_that_is_full_for_good_keeps_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let disk = Faulty::default();
    disk.fail(40..u64::MAX, Fault::Short);
    let (acknowledged, _) = run(&disk, folder.path(), false);
    assert!(acknowledged[0] > 0);
    content(folder.path()).has_all(&acknowledged, "full");
}

/// Opens the files after a power cut; returns the content before and after.
fn after_cut(log: &[Change], count: usize, loss: Loss, from: &Path) -> (Content, Content) {
    let folder = tempfile::tempdir().unwrap();
    cut(log, count, loss, from, folder.path());
    let before = content(folder.path());
    let mut store = opened(folder.path(), keeping(true));
    let notes: Vec<String> = store.notes().collect();
    assert!(
        before.damage.is_none() || !notes.is_empty(),
        "{count}, {loss:?}: {before:?}"
    );
    drop(store);
    let after = content(folder.path());
    assert_eq!(after.damage.bytes, 0, "repaired");
    (before, after)
}

fn acknowledged(log: &[Change]) -> u64 {
    let told = log.iter().rev().find_map(|change| match change {
        Change::Acknowledged(sequence) => Some(*sequence),
        _ => None,
    });
    told.unwrap_or(0)
}

#[test]
fn power_cut_after_any_change_loses_nothing_synced() {
    let mut tried = Tried("power cuts, synced", 0);
    let folder = tempfile::tempdir().unwrap();
    let disk = Faulty::default();
    run(&disk, folder.path(), true);
    let log = disk.log();
    let kinds = [Loss::All, Loss::Nothing, Loss::Data, Loss::Names];
    let random = (0..if sample(2) == 1 { 200 } else { 6 }).map(Loss::Random);
    for loss in kinds.into_iter().chain(random) {
        for count in 0..=log.len() {
            tried.1 += 1;
            let last = acknowledged(&log[..count]);
            let what = format!("{count} of {} changes, {loss:?}", log.len());
            let (before, after) = after_cut(&log, count, loss, folder.path());
            before.has_all(&[last, last], &what);
            after.has_all(&[last, last], &what);
            after.has_none_twice(&what);
        }
    }
}

#[test]
fn without_sync_a_kill_loses_nothing_and_a_power_cut_shows_no_wrong_value() {
    let mut tried = Tried("kills and power cuts, not synced", 0);
    let folder = tempfile::tempdir().unwrap();
    let disk = Faulty::default();
    run(&disk, folder.path(), false);
    let log = disk.log();
    let random = (0..if sample(2) == 1 { 300 } else { 8 }).map(Loss::Random);
    for loss in [Loss::Nothing, Loss::Data].into_iter().chain(random) {
        for count in 0..=log.len() {
            tried.1 += 1;
            let (before, after) = after_cut(&log, count, loss, folder.path());
            let what = format!("{count} of {} changes, {loss:?}", log.len());
            let last = match loss {
                Loss::Nothing => acknowledged(&log[..count]),
                _ => 0,
            };
            before.has_all(&[last, last], &what);
            after.has_all(&[last, last], &what);
            after.has_none_twice(&what);
        }
    }
}

#[test]
fn a_torn_write_of_any_length_costs_only_itself() {
    let mut tried = Tried("torn writes", 0);
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = store(folder.path(), 3, 5, 12, true);
    let whole = fs::read(&log).unwrap();
    for length in 0..whole.len() {
        tried.1 += 1;
        fs::write(&log, &whole[..length]).unwrap();
        let mut found = Content::default();
        read(&log, &mut found);
        assert!(found.damage.is_none(), "{length}: a torn tail is no damage");
        let ticks: Vec<u64> = (1..=found.ticks.len() as u64).map(|t| T0 + t).collect();
        assert_eq!(found.ticks, ticks, "{length}");
        if length % sample(5) == 0 {
            drop(opened(folder.path(), keeping(false)));
            let mut again = Content::default();
            read(&log, &mut again);
            assert_eq!(
                (again.ticks, again.damage.tail),
                (ticks, 0),
                "{length}: cut"
            );
            assert_eq!(
                fs::read_dir(folder.path()).unwrap().count(),
                2,
                "the log and the lock"
            );
        }
    }
    let found = content(folder.path());
    assert!(found.ticks.len() >= 11);
}

#[test]
fn clocks_that_are_set_delete_and_double_nothing() {
    let mut tried = Tried("histories of a clock", 0);
    let steps = [-400i64, -1, 1, 30, 400];
    let histories = steps
        .iter()
        .flat_map(|&a| steps.iter().map(move |&b| (a, b)));
    for (first, second) in histories.step_by(sample(3)) {
        tried.1 += 1;
        let folder = tempfile::tempdir().unwrap();
        let disk = Faulty::default();
        let keeping = Keeping {
            retain_seconds: Some(DAY),
            segment_seconds: 3,
            ..Keeping::default()
        };
        let mut now = T0 * SECOND;
        let mut fleet = Fleet::new(2, 3, now);
        let mut said = Vec::new();
        // The clock is set while the collector runs, and while it does not.
        for (step, restart) in [
            (0, true),
            (first, false),
            (second, true),
            (-first - second, false),
            (0, true),
        ] {
            now = now.saturating_add_signed(step * (DAY * SECOND) as i64);
            disk.set_clock(now);
            let mut store =
                Store::open_on(Arc::new(disk.clone()), folder.path(), keeping.clone()).unwrap();
            fleet.start(&store, now);
            for _ in 0..6 {
                now += SECOND;
                assert!(fleet.tick(&mut store, now));
            }
            if !restart {
                now = now.saturating_add_signed(-step * (DAY * SECOND) as i64 / 2);
                disk.set_clock(now);
                for _ in 0..6 {
                    now += SECOND;
                    assert!(fleet.tick(&mut store, now));
                }
            }
            let status = store.status().clone();
            said.extend(store.notes());
            said.extend(store.close());
            assert_eq!(status.counts().deleted_segments, 0);
        }
        let what = format!("{first} and {second} days: {said:?}");
        let found = content(folder.path());
        found.has_all(&fleet.acknowledged(), &what);
        found.has_none_twice(&what);
        assert!(said.iter().all(|n| !n.contains("deleted (")), "{what}");
        let far = first.abs().max(second.abs()) > 1;
        assert!(
            !far || said.iter().any(|n| n.contains("segments stay")),
            "{what}"
        );
    }
}

/// Rows of a segment's Parquet files: counters, reports, ticks.
fn rows(log: &Path) -> Option<[i64; 3]> {
    let rows = |kind: &str| {
        let file = File::open(log.with_extension(format!("{kind}.parquet"))).ok()?;
        let reader = SerializedFileReader::new(file).unwrap();
        Some(reader.metadata().file_metadata().num_rows())
    };
    Some([rows("counters")?, rows("reports")?, rows("ticks")?])
}

#[test]
fn a_failing_operation_of_sealing_leaves_no_partial_file_and_is_made_up_for() {
    let mut tried = Tried("failing operations of sealing", 0);
    let sealing = Keeping::default();
    let origin = tempfile::tempdir().unwrap();
    let (log, _) = store(origin.path(), 3, 5, 12, false);
    let whole = fs::read(&log).unwrap();
    let name = log.file_name().unwrap().to_owned();
    for fault in FAULTS {
        for at in (0..400).step_by(sample(7)) {
            tried.1 += 1;
            let folder = tempfile::tempdir().unwrap();
            let log = folder.path().join(&name);
            fs::write(&log, &whole).unwrap();
            let disk = Faulty::default();
            disk.fail(at..at + 1, fault);
            let opened = Store::open_on(Arc::new(disk.clone()), folder.path(), sealing.clone());
            drop(opened);
            if disk.done() <= at {
                break;
            }
            if let Some(found) = rows(&log) {
                assert_eq!(found, [180, 36, 12], "{fault:?} at {at}");
            }
            let notes = Store::open(folder.path(), sealing.clone()).unwrap().close();
            assert_eq!(
                rows(&log),
                Some([180, 36, 12]),
                "{fault:?} at {at}: {notes:?}"
            );
            let parts = fs::read_dir(folder.path()).unwrap().filter(|e| {
                e.as_ref()
                    .unwrap()
                    .file_name()
                    .to_str()
                    .unwrap()
                    .ends_with(".part")
            });
            assert_eq!(parts.count(), 0, "{fault:?} at {at}");
        }
    }
}

/// `replay --seal` on a full disk: the log is named, and the environment's exit code follows from the kind.
#[test]
fn a_full_disk_is_told_as_such_by_sealing() {
    let folder = tempfile::tempdir().unwrap();
    let (log, _) = store(folder.path(), 3, 5, 12, false);
    let name = log.display().to_string();
    let mut full = 0;
    for at in 0..60 {
        let disk = Faulty::default();
        disk.fail(at..u64::MAX, Fault::Full);
        let Err(error) = seal_all_on(&disk, folder.path()) else {
            continue;
        };
        full += 1;
        assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{at}: {error}");
        assert!(error.to_string().contains(&name), "{at}: {error}");
    }
    assert!(full > 3, "{full}");
}

#[test]
fn a_failing_operation_of_a_repair_leaves_the_log_as_it_was() {
    let mut tried = Tried("failing operations of a repair", 0);
    let origin = tempfile::tempdir().unwrap();
    let (log, acknowledged) = store(origin.path(), 3, 5, 12, true);
    let mut bytes = fs::read(&log).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let name = log.file_name().unwrap().to_owned();
    for fault in FAULTS {
        for at in 0..200 {
            tried.1 += 1;
            let folder = tempfile::tempdir().unwrap();
            let log = folder.path().join(&name);
            fs::write(&log, &bytes).unwrap();
            let disk = Faulty::default();
            disk.fail(at..at + 1, fault);
            let done = repair(&disk, &log);
            if disk.done() <= at {
                break;
            }
            content(folder.path()).has_all(&acknowledged, &format!("{fault:?} at {at}: {done:?}"));
            // An unreadable place is damage as well.
            let again = opened(folder.path(), keeping(false));
            drop(again);
            content(folder.path()).has_all(&acknowledged, &format!("{fault:?} at {at}, again"));
        }
    }
}

#[test]
fn a_log_that_is_written_is_not_sealed_by_others() {
    let folder = tempfile::tempdir().unwrap();
    let now = T0 * SECOND;
    let mut fleet = Fleet::new(3, 5, now);
    let long = Keeping {
        segment_seconds: 20,
        ..Keeping::default()
    };
    let mut store = Store::open(folder.path(), long).unwrap();
    fleet.start(&store, now);
    for tick in 1..=10 {
        assert!(fleet.tick(&mut store, now + tick * SECOND));
    }
    let log = logs(folder.path()).unwrap().remove(0);
    let error = seal(&log).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    assert_eq!(rows(&log), None);
    for tick in 11..=30 {
        assert!(fleet.tick(&mut store, now + tick * SECOND));
        assert_eq!(store.notes().next(), None);
    }
    drop(store);
    // Earlier, a file of the first ten ticks would have stood for the whole log.
    let found = rows(&log).unwrap();
    assert!(found[2] > 20, "{found:?}");
    assert_eq!([found[0], found[1]], [found[2] * 15, found[2] * 3]);
}
