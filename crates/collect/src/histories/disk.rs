//! The store of a history: blocks in memory, and files when a collector starts.

use super::world::Digest;
use crate::block::{Closing, Cluster, split};
use crate::gather::Gathering;
use crate::node::NodeState;
use crate::store::{Keeping, LogReader, Remembered, Store, logs};
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// The number of a report: start of its agent, sequence number.
pub type Number = (u64, u64);

/// The value that the agent reads for a report; every fifth cannot be read.
pub fn value((start, sequence): Number) -> Option<u64> {
    let readable = !sequence.is_multiple_of(5);
    readable.then_some(1000 + start % 1_000_000_000 * 7777 + sequence * sequence)
}

/// A block as it is appended.
pub type Block = (Closing, Arc<[u8]>);

/// Time until a tick closes, at most: the next one's deadline, and those of a clock that was set back by less than the
/// collector notices.
const LONGEST_TICK_NS: u64 = 4_000_000_000;

/// Lets time pass until the open tick closes.
pub fn pass(gathering: &Gathering, now: &mut u64) -> Result<(), String> {
    let closes = gathering.closes_ns();
    if closes <= *now + LONGEST_TICK_NS {
        *now = closes.max(*now);
    }
    match gathering.due(*now) {
        true => Ok(()),
        false => Err(format!(
            "no tick closes for {} s",
            (closes - *now) / 1_000_000_000
        )),
    }
}

/// The block of the open tick.
pub fn block(gathering: &mut Gathering, now: &mut u64) -> Result<Block, String> {
    pass(gathering, now)?;
    let (closing, block) = gathering.close(*now);
    Ok((closing, block.into()))
}

/// A segment: its blocks; of the last one perhaps only a part.
#[derive(Clone, Debug, Default)]
struct Segment {
    blocks: Vec<Block>,
    torn: bool,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Disk {
    segments: Vec<Segment>,
    /// State of a reader of the last segment.
    reader: Cluster,
    /// All stored reports.
    pub stored: BTreeMap<Number, Option<u64>>,
}

impl Hash for Disk {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for segment in &self.segments {
            (segment.torn, segment.blocks.len()).hash(state);
            segment.blocks.iter().for_each(|(_, b)| b.hash(state));
        }
    }
}

impl Disk {
    /// Adds to a fingerprint what later steps depend on: all bytes if a collector may still be started on them,
    /// otherwise the stored reports and the state of a reader of the last segment.
    pub fn digest(&self, is_opened_again: bool, digest: &mut Digest) {
        match is_opened_again {
            true => self.hash(&mut digest.0),
            false => {
                self.stored.hash(&mut digest.0);
                let _ = write!(digest, "{:?}", self.reader);
            }
        }
    }
}

impl Default for Disk {
    fn default() -> Self {
        Self {
            segments: vec![Segment::default()],
            reader: Cluster::default(),
            stored: BTreeMap::new(),
        }
    }
}

/// The nodes that a store remembers when it is opened, by the hash of its blocks.
type Opened = HashMap<u64, Arc<Vec<Remembered>>>;

static REMEMBERED: LazyLock<Mutex<Opened>> = LazyLock::new(Mutex::default);

fn remembered() -> MutexGuard<'static, Opened> {
    REMEMBERED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number and the value of a node's last report.
fn last(node: &NodeState) -> (Number, Option<u64>) {
    let value = node.sources[0].as_ref().and_then(|s| s.values.get(0));
    ((node.start, node.header.sequence), value)
}

impl Disk {
    /// Appends a block; its reports are not stored yet, and have the agent's values.
    pub fn append(&mut self, block: Block) -> Result<(), String> {
        let (entries, _) = split(&block.1).unwrap().unwrap();
        let (mut fault, stored) = (None, &mut self.stored);
        let read = self.reader.read(entries, |cluster, id, _| {
            let (number, found) = last(cluster.node(id).unwrap());
            if found != value(number) {
                fault = Some(format!("{number:?} is stored as {found:?}"));
            }
            if stored.insert(number, found).is_some() {
                fault = Some(format!("{number:?} is stored twice"));
            }
        });
        read.map_err(|r| format!("a block that cannot be read: {r}"))?;
        fault.map_or(Ok(()), Err)?;
        if let Some(segment) = self.segments.last_mut() {
            segment.blocks.push(block);
        }
        Ok(())
    }

    /// Appends half a block.
    pub fn tear(&mut self, block: Block) {
        if let Some(segment) = self.segments.last_mut() {
            segment.torn = true;
            segment.blocks.push(block);
        }
    }

    /// The next block begins a segment.
    pub fn end_segment(&mut self) {
        if self.segments.last().is_some_and(|s| !s.blocks.is_empty()) {
            self.segments.push(Segment::default());
        }
        self.reader = Cluster::default();
    }

    /// State that a starting collector remembers. The half of a block is cut.
    pub fn open(&mut self) -> Result<Arc<Vec<Remembered>>, String> {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        let key = hasher.finish();
        let known = remembered().get(&key).cloned();
        let nodes = match known {
            Some(known) => known,
            None => Arc::new(self.written()?),
        };
        remembered().insert(key, nodes.clone());
        for segment in &mut self.segments {
            if std::mem::take(&mut segment.torn) {
                segment.blocks.pop();
            }
        }
        self.end_segment();
        Ok(nodes)
    }

    /// Writes the store to files, opens it, and reads it: it holds the stored reports.
    fn written(&self) -> Result<Vec<Remembered>, String> {
        let folder = tempfile::tempdir().unwrap();
        let keeping = Keeping {
            seal: false,
            ..Keeping::default()
        };
        for segment in self.segments.iter().filter(|s| !s.blocks.is_empty()) {
            let mut store = Store::open(folder.path(), keeping.clone()).unwrap();
            let before = logs(folder.path()).unwrap();
            let length = || {
                let all = logs(folder.path()).unwrap();
                let log = all.into_iter().find(|log| !before.contains(log));
                log.map(|log| (fs::metadata(&log).unwrap().len(), log))
            };
            let mut whole = 0;
            for (closing, block) in &segment.blocks {
                whole = length().map_or(0, |l| l.0);
                store.append(closing, block).unwrap();
            }
            drop(store);
            if let (true, Some((all, log))) = (segment.torn, length()) {
                let log = fs::OpenOptions::new().write(true).open(log).unwrap();
                // Within the block, not within its copy.
                log.set_len(whole + (all - whole) / 4).unwrap();
            }
        }
        let store = Store::open(folder.path(), keeping).unwrap();
        let remembered = store.remembered().cloned().collect();
        drop(store);
        let mut found = BTreeMap::new();
        let mut read = |cluster: &Cluster, id: u32, _| {
            found.extend([last(cluster.node(id).unwrap())]);
        };
        for log in logs(folder.path()).unwrap() {
            let mut reader = LogReader::open(&log).unwrap();
            while reader.next_block(&mut read).unwrap().is_some() {}
        }
        if found != self.stored {
            return Err(format!("the store holds {found:?}, not {:?}", self.stored));
        }
        Ok(remembered)
    }
}
