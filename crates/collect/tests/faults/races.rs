//! A store is read and sealed by other processes while its collector appends, ends logs, seals them and deletes old ones:
//! every step of the reader meets every action of the writer.

use crate::fleet::{Fleet, SECOND, content};
use crate::{T0, sample};
use hopbyte_collect::store::disk::{Disk, Handle, Os};
use hopbyte_collect::store::{Keeping, Store, logs, seal_all_on};
use hopbyte_collect::stream::Stream;
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// What the collector does in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// A tick.
    Append,
    /// A tick with which the log ends, and is sealed.
    Seal,
    /// The same, after which the first log is old enough to be deleted.
    Delete,
    /// It ends, and starts again.
    Restart,
}

const ACTIONS: [Action; 4] = [
    Action::Append,
    Action::Seal,
    Action::Delete,
    Action::Restart,
];

/// The collector's side.
struct Writer {
    store: Option<Store>,
    fleet: Fleet,
    now: u64,
    keeping: Keeping,
    folder: std::path::PathBuf,
}

impl Writer {
    /// A store of some finished logs and an open one.
    fn new(folder: &Path) -> Self {
        let keeping = Keeping {
            segment_seconds: 3,
            retain_seconds: Some(700),
            ..Keeping::default()
        };
        let now = T0 * SECOND;
        let mut writer = Self {
            store: None,
            fleet: Fleet::new(2, 3, now),
            now,
            keeping,
            folder: folder.to_owned(),
        };
        writer.restart();
        (0..14).for_each(|_| writer.tick(1));
        writer
    }

    fn restart(&mut self) {
        drop(self.store.take());
        // Another process that seals has not locked the folder.
        let store = Store::open(&self.folder, self.keeping.clone()).unwrap();
        self.fleet.start(&store, self.now);
        self.store = Some(store);
    }

    fn tick(&mut self, seconds: u64) {
        self.now += seconds * SECOND;
        let store = self.store.as_mut().unwrap();
        assert!(self.fleet.tick(store, self.now));
        store.notes().for_each(drop);
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Append => self.tick(1),
            Action::Seal => self.tick(4),
            // Gaps of up to ten minutes count as recorded; a log must end afterwards.
            Action::Delete => [400, 400, 4].into_iter().for_each(|s| self.tick(s)),
            Action::Restart => self.restart(),
        }
    }
}

/// What happens once.
type Act = Box<dyn FnOnce() + Send>;

/// The reader's disk, on which the collector acts before the n-th operation.
#[derive(Clone)]
struct Between {
    done: Arc<AtomicU64>,
    at: u64,
    act: Arc<Mutex<Option<Act>>>,
}

impl fmt::Debug for Between {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operation {}", self.at)
    }
}

impl Between {
    fn step(&self) {
        if self.done.fetch_add(1, Ordering::Relaxed) == self.at
            && let Some(act) = self.act.lock().unwrap().take()
        {
            act();
        }
    }

    fn file(&self, inner: Box<dyn Handle>) -> Box<dyn Handle> {
        Box::new(BetweenFile {
            inner,
            disk: self.clone(),
        })
    }
}

impl Disk for Between {
    fn create(&self, path: &Path) -> io::Result<Box<dyn Handle>> {
        self.step();
        Ok(self.file(Os.create(path)?))
    }

    fn open(&self, path: &Path, write: bool) -> io::Result<Box<dyn Handle>> {
        self.step();
        Ok(self.file(Os.open(path, write)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step();
        Os.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step();
        Os.link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step();
        Os.remove(path)
    }

    fn sync_folder(&self, _folder: &Path) -> io::Result<()> {
        Ok(())
    }

    fn now_ns(&self) -> u64 {
        T0 * SECOND
    }
}

#[derive(Debug)]
struct BetweenFile {
    inner: Box<dyn Handle>,
    disk: Between,
}

impl Write for BetweenFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.disk.step();
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Handle for BetweenFile {
    fn read_at(&self, room: &mut [u8], at: u64) -> io::Result<usize> {
        self.disk.step();
        self.inner.read_at(room, at)
    }

    fn is_linked(&self) -> bool {
        self.inner.is_linked()
    }

    fn length(&self) -> io::Result<u64> {
        self.disk.step();
        self.inner.length()
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.inner.cut(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn claim(&self) -> io::Result<bool> {
        self.disk.step();
        self.inner.claim()
    }
}

/// Runs a reader of a store, in which the collector acts before its n-th operation. Returns whether it got that far.
fn meet(action: Action, at: u64, read: impl Fn(Arc<Between>, &Path, &[u64], &str)) -> bool {
    let folder = tempfile::tempdir().unwrap();
    let writer = Arc::new(Mutex::new(Writer::new(folder.path())));
    let before = content(folder.path()).ticks;
    let acting = writer.clone();
    let act = move || acting.lock().unwrap().act(action);
    let disk = Arc::new(Between {
        done: Arc::default(),
        at,
        act: Arc::new(Mutex::new(Some(Box::new(act)))),
    });
    let what = format!("{action:?} before operation {at}");
    read(disk.clone(), folder.path(), &before, &what);
    let reached = disk.act.lock().unwrap().is_none();
    let mut writer = writer.lock().unwrap();
    // The collector seals what is left, and its thread ends.
    writer.tick(4);
    drop(writer.store.take());
    // Whatever the reader did: nothing that was acknowledged is missing, unless it was deleted for its age.
    let first = content(folder.path()).reports.keys().next().copied();
    let found = content(folder.path());
    assert!(found.damage.is_none(), "{what}: {:?}", found.damage);
    found.has_none_twice(&what);
    let oldest = first.map_or(1, |(_, sequence)| sequence);
    for (n, &last) in (0u64..).zip(&writer.fleet.acknowledged()) {
        for sequence in oldest..=last {
            assert!(
                found.reports.contains_key(&(n, sequence)),
                "{what}: n{n}, {sequence}"
            );
        }
    }
    assert_eq!(
        oldest > 1,
        reached && action == Action::Delete,
        "{what}: from report {oldest}"
    );
    // No table is without its log.
    for entry in fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "parquet") {
            let stem = path
                .file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .split('.')
                .next()
                .unwrap();
            let log = folder.path().join(format!("{stem}.log"));
            assert!(log.exists(), "{what}: {} is left over", path.display());
            let file = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
            assert!(file.metadata().num_row_groups() > 0, "{what}");
        }
    }
    reached
}

/// Tries every action before every operation of a reader; returns their number.
fn all(read: impl Fn(Arc<Between>, &Path, &[u64], &str)) -> u64 {
    let mut tried = 0;
    for action in ACTIONS {
        let mut at = 0;
        while meet(action, at, &read) {
            tried += 1;
            at += sample(7) as u64;
        }
    }
    tried
}

#[test]
fn a_replay_meets_a_collector_that_appends_ends_seals_and_deletes() {
    let tried = all(|disk, folder, before, what| {
        let mut stream = Stream::replay_on(disk, folder).unwrap();
        let mut ticks = Vec::new();
        while let Some(closing) = stream.next(|_, _, _| {}).unwrap() {
            ticks.push(closing.tick);
        }
        let (sound, notes) = stream.is_sound();
        assert!(sound, "{what}: {notes:?}");
        assert!(ticks.windows(2).all(|w| w[0] < w[1]), "{what}: {ticks:?}");
        // All ticks from before, without those of a log that was deleted before it was opened.
        let missing = before.iter().filter(|t| !ticks.contains(t)).count();
        assert!(missing == 0 || !notes.is_empty(), "{what}: {ticks:?}");
    });
    println!("{tried} meetings of a replay and a collector");
    assert!(tried > 40, "{tried}");
}

#[test]
fn sealing_meets_a_collector_that_appends_ends_seals_and_deletes() {
    let tried = all(|disk, folder, _, what| {
        let (_, warnings, sound) =
            seal_all_on(&*disk, folder).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(sound, "{what}: {warnings:?}");
        assert!(!logs(folder).unwrap().is_empty());
    });
    println!("{tried} meetings of sealing and a collector");
    assert!(tried > 40, "{tried}");
}
