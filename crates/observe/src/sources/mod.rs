//! Counters that are kept open: this machine's, or those of a tree that was captured from one.
//!
//! [`open`] finds what there is; [`Source::sample`] reads all counters of one source as a [`Reading`],
//! the same that files of counters make, so that everything behind it (increases, links, ratios) is
//! one. Descriptors stay open, so that a sample costs a system call a file, or a few in all for Linux
//! interfaces. A value that could not be read is not known; the source goes on and finds a
//! device that returns. When interfaces come or go, a sample has another [`Layout`]: hold on to
//! [`Reading::layout`], not to a copy of its names.

mod cxi;
mod doctor;
mod files;
mod infiniband;
mod linux;
mod mads;
mod netlink;
mod text;
mod tree;

use crate::ObserveError;
use crate::counters::delta::Moment;
use crate::counters::reading::{Layout, Reading};
use hopbyte_fabric::LeftOut;
use rustix::time::{ClockId, clock_gettime};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use doctor::{Finding, State, doctor};

/// Where to look and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Root of the file system: `/`, or a folder that holds `sys` (and `proc`) or is itself a copy of
    /// `/sys`.
    pub root: PathBuf,
    /// Name of the node, as the fabric knows it.
    pub node: String,
    /// Whether the root is of a machine that runs now, so that readings are of this host's time. Else
    /// they have only the time that the source itself tells.
    pub live: bool,
    /// Network interfaces to read. Empty: those with hardware behind them, and virtual cables (veth).
    pub interfaces: Vec<String>,
    /// Further files of one node's counters: gpcdr's metrics, registers, LDMS, OpenMetrics.
    pub files: Vec<PathBuf>,
    /// Whether to ask all ports of the InfiniBand fabric, by the program `ibqueryerrors`.
    pub fabric_wide: bool,
}

impl Places {
    /// This machine.
    pub fn here(node: impl Into<String>) -> Self {
        Self {
            live: true,
            ..Self::captured("/", node)
        }
    }

    /// A tree that was copied from a machine or made by hand.
    pub fn captured(root: impl Into<PathBuf>, node: impl Into<String>) -> Self {
        Self {
            root: root.into(),
            node: node.into(),
            live: false,
            interfaces: Vec::new(),
            files: Vec::new(),
            fabric_wide: false,
        }
    }

    /// The copy of `/sys`.
    fn sys(&self) -> PathBuf {
        let sys = self.root.join("sys");
        if sys.is_dir() { sys } else { self.root.clone() }
    }

    /// Whether the kernel can be asked instead of its file system.
    fn is_this_machine(&self) -> bool {
        self.live && self.root == Path::new("/")
    }

    fn clock(&self) -> Clock {
        let boot = files::once(&self.root.join("proc/sys/kernel/random/boot_id"));
        let boot = boot.map(|id| {
            let mut hasher = DefaultHasher::new();
            id.hash(&mut hasher);
            hasher.finish()
        });
        Clock {
            live: self.live,
            boot,
        }
    }
}

/// The name that the machine below a root gives itself, up to the first dot.
pub fn host_name(root: &Path) -> Option<String> {
    let files = ["proc/sys/kernel/hostname", "etc/hostname"];
    let name = files
        .iter()
        .find_map(|file| files::once(&root.join(file)))?;
    let short = name.split('.').next().unwrap_or_default().trim();
    (!short.is_empty()).then(|| short.to_owned())
}

/// What time it is for a source.
#[derive(Clone, Copy, Debug)]
struct Clock {
    live: bool,
    boot: Option<u64>,
}

impl Clock {
    fn now(self) -> Moment {
        let ns = |clock| {
            let time = clock_gettime(clock);
            let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
            seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
        };
        Moment {
            time_ns: self.live.then(|| ns(ClockId::Realtime)),
            steady_ns: self.live.then(|| ns(ClockId::Boottime)),
            boot: self.boot,
        }
    }
}

/// A set of counters that is read together.
#[derive(Debug)]
pub struct Source {
    way: Way,
    reading: Reading,
    place: String,
    left_out: LeftOut,
}

#[derive(Debug)]
enum Way {
    Linux(linux::Linux),
    Tree(tree::Tree),
    Text(text::Text),
    Mads(mads::Mads),
}

impl Source {
    /// What it counts.
    pub fn layout(&self) -> &Arc<Layout> {
        &self.reading.layout
    }

    /// Where it reads, for people.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Interfaces that are there and are not read.
    pub fn left_out(&self) -> &LeftOut {
        &self.left_out
    }

    /// Reads all counters. What could not be read is not known in the reading; an error when nothing
    /// could (the next call tries again).
    pub fn sample(&mut self) -> Result<&Reading, ObserveError> {
        match &mut self.way {
            Way::Linux(linux) => linux.sample(&mut self.reading),
            Way::Tree(tree) => tree.sample(&mut self.reading),
            Way::Text(text) => text.sample(&mut self.reading),
            Way::Mads(mads) => mads.sample(&mut self.reading),
        }
        .map_err(|error| match error {
            Unreadable::System(error) => ObserveError::io(Path::new(&self.place), error),
            Unreadable::Content(error) => error,
        })?;
        Ok(&self.reading)
    }
}

/// Why a sample holds nothing.
#[derive(Debug)]
enum Unreadable {
    System(std::io::Error),
    Content(ObserveError),
}

impl From<std::io::Error> for Unreadable {
    fn from(error: std::io::Error) -> Self {
        Self::System(error)
    }
}

/// Opens all sources there are, in the same order every time. A source that is there and cannot be
/// opened is an error beside the others; what is not there is passed over.
pub fn open(places: &Places) -> Vec<Result<Source, ObserveError>> {
    let mut sources = Vec::new();
    for file in &places.files {
        sources.push(text::open(places, file));
    }
    sources.extend(text::found(places));
    sources.extend(cxi::open(places).into_iter().map(Ok));
    sources.extend(infiniband::open(places).into_iter().map(Ok));
    sources.extend(linux::open(places));
    if places.fabric_wide {
        sources.push(mads::open(places));
    }
    sources
}

#[cfg(test)]
mod tests;
