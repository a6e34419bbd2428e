//! Location and clock of the sources.

use super::files;
use crate::counters::delta::Moment;
use hopbyte_fabric::hash::fnv1a;
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Ports of the whole InfiniBand fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wide {
    /// Of switches: hosts have agents of their own, which would count their ends of the links again.
    Switches,
    /// Of switches and adapters.
    All,
}

/// Root folder, node and selection of sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Root of the file system: `/`, or a folder that holds `sys` (and `proc`) or is itself a copy of
    /// `/sys`.
    pub root: PathBuf,
    /// Name of the node in the fabric.
    pub node: String,
    /// Whether the root belongs to the running machine, so that readings carry this host's time. Otherwise they only
    /// have the source's own time.
    pub live: bool,
    /// Network interfaces to read. Empty: those with hardware behind them, and virtual cables (veth).
    pub interfaces: Vec<String>,
    /// Names of network interfaces in readings, where they are others than the kernel's.
    pub names: BTreeMap<String, String>,
    /// Further files of one node's counters: gpcdr's metrics, registers, LDMS, OpenMetrics.
    pub files: Vec<PathBuf>,
    /// Ports of the InfiniBand fabric to query with management packets.
    pub fabric_wide: Option<Wide>,
    /// Whether to watch only processes of the network namespace, where several nodes are emulated on one machine.
    pub own_processes: bool,
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
            names: BTreeMap::new(),
            files: Vec::new(),
            fabric_wide: None,
            own_processes: false,
        }
    }

    /// The copy of `/sys`.
    pub(super) fn sys(&self) -> PathBuf {
        let sys = self.root.join("sys");
        if sys.is_dir() { sys } else { self.root.clone() }
    }

    /// Whether to query the kernel instead of the file system.
    pub(super) fn is_this_machine(&self) -> bool {
        self.live && self.root == Path::new("/")
    }

    pub(super) fn clock(&self) -> Clock {
        Clock {
            live: self.live,
            boot: boot(&self.root),
        }
    }
}

/// Identity of the current boot of the machine below a root: the 64-bit FNV-1a hash of the kernel's `boot_id`,
/// without its line end. It is part of the wire and store formats.
pub fn boot(root: &Path) -> Option<u64> {
    let id = files::once(&root.join("proc/sys/kernel/random/boot_id"))?;
    Some(fnv1a(id.as_bytes()))
}

/// Host name of the machine below a root, up to the first dot.
pub fn host_name(root: &Path) -> Option<String> {
    let files = ["proc/sys/kernel/hostname", "etc/hostname"];
    let name = files
        .iter()
        .find_map(|file| files::once(&root.join(file)))?;
    let short = name.split('.').next().unwrap_or_default().trim();
    (!short.is_empty()).then(|| short.to_owned())
}

/// Clock of a source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    live: bool,
    boot: Option<u64>,
}

impl Clock {
    pub(super) fn now(self) -> Moment {
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
