//! Records of earlier runs of one command, kept in a folder.
//!
//! `record/` is the settled record of ranks, `placement.csv` the launcher's own placement. A run in progress has a folder
//! `run-ID/`, the requested placement `run-ID.asked.csv` if there was one, and a lock `run-ID.lock`, which the launched
//! job holds until it ends. `decision` is the outcome of the last search with what it was found for. Every step may be the
//! last: half a run is settled, or removed, by a later one.

use crate::error::{Context, Result, one_line};
use crate::record::merge::{self, Ranks};
use hopbyte_apply::write_atomic;
use hopbyte_fabric::hash::Fnv;
use rustix::fs::{FlockOperation, flock};
use rustix::io::{FdFlags, fcntl_setfd};
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Age of a file that a killed process left half made.
const STALE: Duration = Duration::from_secs(60);

/// Records of one command with one number of ranks.
pub(super) struct Store {
    folder: PathBuf,
    /// The command's identity, for readers of the folder.
    command: String,
}

/// The outcome of a search.
#[derive(Debug, PartialEq)]
pub(super) struct Decision {
    /// Fingerprint of the inputs.
    pub inputs: String,
    /// For the user.
    pub sentence: String,
    /// The requested order; none if the launcher's own is as good.
    pub placement: Option<String>,
}

/// The settled record.
pub(super) struct Record {
    /// Folder of the ranks' files, a TRAFFIC.
    pub folder: PathBuf,
    /// The launcher's own placement of its ranks.
    pub placement: PathBuf,
    /// Hosts by rank, as the launcher placed them without a request.
    pub launched: Vec<String>,
    /// Whether a requested placement was found in it, or it needs no second look.
    pub verified: bool,
}

/// A run that starts.
pub(super) struct Begun {
    /// Folder for the ranks' files.
    pub folder: PathBuf,
    /// Held by the job until its end: not closed on exec.
    _lock: File,
}

impl Store {
    /// The store of a command below `state`; nothing is created before the first run begins.
    pub fn of(state: &Path, parts: &[String]) -> Self {
        let mut hash = Fnv::default();
        parts.iter().for_each(|part| hash.part(part.as_bytes()));
        Self {
            folder: state.join(hash.hex()),
            command: parts.join(" ") + "\n",
        }
    }

    /// Settles the runs that have ended; returns remarks about them.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn settle(&self) -> Result<Vec<String>> {
        let mut ended = Vec::new();
        let entries = match fs::read_dir(&self.folder) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        for entry in entries.flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|e| e == "lock") {
                ended.push(path);
            } else if is_left_behind(&path) {
                let _ = fs::remove_file(&path);
            }
        }
        ended.sort();
        let mut remarks = Vec::new();
        for path in ended {
            let Ok(lock) = File::open(&path) else {
                continue;
            };
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue; // still running
            }
            match self.settle_one(&path.with_extension("")) {
                Ok(remark) => remarks.extend(remark),
                Err(error) => {
                    remarks.push(format!(
                        "an earlier run taught nothing: {}",
                        one_line(&error)
                    ));
                }
            }
            let _ = fs::remove_dir_all(path.with_extension(""));
            let _ = fs::remove_file(asked(&path.with_extension("")));
            let _ = fs::remove_file(&path);
        }
        Ok(remarks)
    }

    /// Makes the record of an ended run the settled one.
    fn settle_one(&self, run: &Path) -> Result<Option<String>> {
        if !run.exists() {
            return Ok(None);
        }
        merge::settle(run)?;
        let ranks = Ranks::read(run)?;
        if let Some(absent) = ranks.absent() {
            return Ok(Some(format!("the last run taught nothing: {absent}")));
        }
        let complete = ranks.incomplete().is_none();
        if !complete && self.record()?.is_some() {
            return Ok(None);
        }
        let remark = verdict(&asked(run), &ranks);
        if !asked(run).exists() {
            write_atomic(&self.folder.join("placement.csv"), &ranks.placement_csv())?;
        }
        let settled = self.folder.join("record");
        let _ = fs::remove_dir_all(&settled);
        if complete && remark.is_some() {
            // A placement was requested and is known to have been followed or not.
            write_atomic(&run.join("verified"), "")?;
        }
        fs::rename(run, &settled)?;
        Ok(remark)
    }

    /// The settled record, if there is one.
    pub fn record(&self) -> Result<Option<Record>> {
        let folder = self.folder.join("record");
        if !folder.exists() {
            return Ok(None);
        }
        let ranks = Ranks::read(&folder)?.hosts_by_rank().len();
        let placement = self.folder.join("placement.csv");
        let text = fs::read_to_string(&placement).unwrap_or_default();
        let launched: Vec<String> = placed(&text).map(|(_, host)| host.to_owned()).collect();
        if ranks == 0 || launched.len() != ranks {
            return Ok(None);
        }
        Ok(Some(Record {
            verified: folder.join("verified").exists(),
            placement,
            launched,
            folder,
        }))
    }

    /// Removes the settled record.
    pub fn forget(&self) {
        let _ = fs::remove_dir_all(self.folder.join("record"));
    }

    /// The outcome of the last search for these inputs.
    pub fn decision(&self, inputs: &str) -> Option<Decision> {
        let text = fs::read_to_string(self.folder.join("decision")).ok()?;
        Decision::read(&text).filter(|d| d.inputs == inputs)
    }

    /// Keeps the outcome of a search.
    pub fn keep(&self, decision: &Decision) -> Result<()> {
        Ok(write_atomic(
            &self.folder.join("decision"),
            &decision.text(),
        )?)
    }

    /// A new run, with the placement requested of it.
    pub fn begin(&self, placement: Option<&str>) -> Result<(Begun, Option<PathBuf>)> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let name = format!("run-{:020}-{}", now.as_nanos(), std::process::id());
        fs::create_dir_all(&self.folder)
            .with_context(|| format!("making {}", self.folder.display()))?;
        let command = self.folder.join("command");
        if !command.exists() {
            write_atomic(&command, &self.command)?;
        }
        let folder = self.folder.join(name);
        // Visible under its name only when it is held, or another run would take this one for ended.
        let fresh = folder.with_extension("new");
        let lock = File::create(&fresh)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(std::io::Error::from)?;
        fcntl_setfd(&lock, FdFlags::empty()).map_err(std::io::Error::from)?;
        fs::rename(&fresh, folder.with_extension("lock"))?;
        fs::create_dir(&folder)?;
        let file = asked(&folder);
        if let Some(text) = placement {
            write_atomic(&file, text)?;
        }
        Ok((
            Begun {
                folder,
                _lock: lock,
            },
            placement.map(|_| file),
        ))
    }
}

impl Decision {
    fn text(&self) -> String {
        let placement = self.placement.as_deref().unwrap_or("");
        format!("{}\n{}\n{placement}", self.inputs, self.sentence)
    }

    fn read(text: &str) -> Option<Self> {
        let (inputs, rest) = text.split_once('\n')?;
        let (sentence, placement) = rest.split_once('\n')?;
        Some(Self {
            inputs: inputs.to_owned(),
            sentence: sentence.to_owned(),
            placement: Some(placement.to_owned()).filter(|p| !p.is_empty()),
        })
    }
}

/// Whether a file was left half made by a process that was killed: temporary, and old.
fn is_left_behind(path: &Path) -> bool {
    let temporary = path.extension().is_some_and(|e| e == "new" || e == "tmp");
    let modified = path.metadata().and_then(|m| m.modified()).ok();
    let age = modified.and_then(|m| m.elapsed().ok());
    temporary && age.is_some_and(|age| age > STALE)
}

impl Begun {
    /// Removes the traces of a run that does not take place.
    pub fn discard(self) {
        let _ = fs::remove_dir(&self.folder);
        let _ = fs::remove_file(asked(&self.folder));
        let _ = fs::remove_file(self.folder.with_extension("lock"));
    }
}

/// The requested placement of a run.
fn asked(run: &Path) -> PathBuf {
    run.with_extension("asked.csv")
}

/// A sentence on a run with a requested placement.
fn verdict(asked: &Path, ranks: &Ranks) -> Option<String> {
    let text = fs::read_to_string(asked).ok()?;
    let hosts = ranks.hosts_by_rank();
    let short = |name: &str| name.split('.').next().unwrap_or(name).to_owned();
    let is_elsewhere =
        |&(rank, host): &(usize, &str)| hosts.get(rank).is_none_or(|h| short(h) != short(host));
    let elsewhere = placed(&text).filter(is_elsewhere).count();
    Some(match elsewhere {
        0 => "the last run was placed as requested".to_owned(),
        n => format!(
            "{n} of {} ranks of the last run were not on their requested nodes",
            hosts.len()
        ),
    })
}

/// Ranks and hosts of `rank,node,slot` lines.
fn placed(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().skip(1).filter_map(|line| {
        let mut cells = line.split(',');
        Some((cells.next()?.parse().ok()?, cells.next()?))
    })
}
