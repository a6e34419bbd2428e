//! Records of earlier runs of one command, kept in a folder.
//!
//! `record/` is the settled record of ranks, `placement.csv` the launcher's own placement. A run in progress has a folder
//! `run-ID/`, the requested placement `run-ID.asked.csv` if there was one, and a lock `run-ID.lock`, which the launched
//! job holds until it ends. `decision` is the outcome of the last search with what it was found for. Every step may be the
//! last: half a run is settled, or removed, by a later one. A dry run does the same to a copy.

use crate::error::{Context, Result, one_line};
use crate::record::merge::{self, Ranks};
use hopbyte_apply::{same_host, write_atomic};
use hopbyte_fabric::hash::Fnv;
use rustix::fs::{FlockOperation, flock};
use rustix::io::{FdFlags, fcntl_setfd};
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Age of a file that a killed process left half made.
const STALE: Duration = Duration::from_secs(60);

/// Records of one command with one number of ranks.
pub(super) struct Store {
    folder: PathBuf,
    /// The command's identity, for readers of the folder.
    command: String,
    /// The store's own folder, if `folder` is the copy for a dry run.
    copy_of: Option<PathBuf>,
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
    /// Whether requested placements were not followed, also after the launcher's own was learnt from one.
    pub is_refused: bool,
}

/// A run that starts.
pub(super) struct Begun {
    /// Folder for the ranks' files.
    pub folder: PathBuf,
    /// Held by the job until its end: not closed on exec. A dry run has none.
    lock: Option<File>,
}

impl Store {
    /// The store of a command below `state`; nothing is created before the first run begins.
    pub fn of(state: &Path, parts: &[String]) -> Self {
        let mut hash = Fnv::default();
        parts.iter().for_each(|part| hash.part(part.as_bytes()));
        Self {
            folder: state.join(hash.hex()),
            command: parts.join(" ") + "\n",
            copy_of: None,
        }
    }

    /// A copy for a dry run, in a folder of temporary files that is removed with this value.
    ///
    /// # Errors
    /// The store cannot be read, or the copy not be written.
    pub fn copied(&self) -> Result<Self> {
        let name = format!("hopbyte-{}-{}", since_1970().as_nanos(), std::process::id());
        let copy = std::env::temp_dir().join(name);
        let mut builder = DirBuilder::new();
        let made = builder.mode(0o700).create(&copy);
        made.with_context(|| format!("making {}", copy.display()))?;
        let store = Self {
            folder: copy,
            command: self.command.clone(),
            copy_of: Some(self.folder.clone()),
        };
        for path in self.entries()? {
            let Some(name) = path.file_name() else {
                continue;
            };
            let to = store.folder.join(name);
            let is_run = name.to_string_lossy().starts_with("run-");
            if path.extension().is_some_and(|e| e == "lock") {
                // Settling changes the files of a run that has ended; others are not settled.
                if has_ended(&path).is_some() {
                    copy_files(&path.with_extension(""), &to.with_extension(""))?;
                    copy_file(&path, &to)?;
                }
            } else if path.is_file() {
                copy_file(&path, &to)?;
            } else if !is_run {
                // The settled record: replaced as a whole, never written into.
                symlink(std::path::absolute(&path)?, to)?;
            }
        }
        Ok(store)
    }

    /// Files of the folder; none if it does not exist.
    fn entries(&self) -> Result<Vec<PathBuf>> {
        match fs::read_dir(&self.folder) {
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(Vec::new()),
            other => Ok(other?
                .map(|entry| Ok(entry?.path()))
                .collect::<io::Result<_>>()?),
        }
    }

    /// Settles the runs that have ended; returns remarks about them.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn settle(&self) -> Result<Vec<String>> {
        let mut ended = Vec::new();
        for path in self.entries()? {
            if path.extension().is_some_and(|e| e == "lock") {
                ended.push(path);
            } else if is_left_behind(&path) {
                let _ = fs::remove_file(&path);
            }
        }
        ended.sort();
        let mut remarks = Vec::new();
        for path in ended {
            // Held until the run is settled, so that no other launch settles it too.
            let Some(_lock) = has_ended(&path) else {
                continue;
            };
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
        if let Some(reason) = ranks.unusable() {
            return Ok(Some(format!("the last run taught nothing: {reason}")));
        }
        let complete = ranks.incomplete().is_none();
        if !complete && self.record()?.is_some() {
            return Ok(None);
        }
        let settled = self.folder.join("record");
        let outcome = fs::read_to_string(asked(run)).ok();
        let outcome = outcome.map(|text| Outcome::of(&text, &ranks));
        let failed = outcome.as_ref().is_some_and(|o| o.elsewhere > 0);
        // Another number of ranks on some host: the reordering kept the launcher's own order, which is known from now on.
        let learns = outcome.as_ref().is_none_or(|o| !o.same_counts);
        if learns {
            write_atomic(&self.folder.join("placement.csv"), &ranks.placement_csv())?;
        }
        let is_settled = !(failed && learns) || settled.join("elsewhere").exists();
        if failed {
            write_atomic(&run.join("elsewhere"), "")?;
        }
        let _ = fs::remove_dir_all(&settled);
        if complete && outcome.is_some() && is_settled {
            // A placement was requested and is known to have been followed or not.
            write_atomic(&run.join("verified"), "")?;
        }
        fs::rename(run, &settled)?;
        Ok(outcome.map(|o| o.sentence))
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
            is_refused: ["verified", "elsewhere"]
                .iter()
                .all(|f| folder.join(f).exists()),
            placement,
            launched,
            folder,
        }))
    }

    /// The folder that holds it between runs.
    pub fn path(&self) -> &Path {
        self.copy_of.as_ref().unwrap_or(&self.folder)
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

    /// A new run, with the placement requested of it, and a folder for its record if it `records`; of a dry run the names
    /// alone.
    pub fn begin(
        &self,
        placement: Option<&str>,
        records: bool,
    ) -> Result<(Begun, Option<PathBuf>)> {
        let name = format!("run-{:020}-{}", since_1970().as_nanos(), std::process::id());
        if let Some(own) = &self.copy_of {
            let folder = own.join(name);
            let file = placement.map(|_| asked(&folder));
            return Ok((Begun { folder, lock: None }, file));
        }
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
        if records {
            fs::create_dir(&folder)?;
        }
        let file = asked(&folder);
        if let Some(text) = placement {
            write_atomic(&file, text)?;
        }
        Ok((
            Begun {
                folder,
                lock: Some(lock),
            },
            placement.map(|_| file),
        ))
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if self.copy_of.is_some() {
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

/// The lock of a run that has ended; `None` while it is held.
fn has_ended(lock: &Path) -> Option<File> {
    let file = File::open(lock).ok()?;
    let held = flock(&file, FlockOperation::NonBlockingLockExclusive).is_err();
    (!held).then_some(file)
}

/// Copies a file with its time, by which the age of a record is known.
fn copy_file(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to)?;
    let time = from.metadata()?.modified()?;
    File::open(to)?.set_modified(time)?;
    Ok(())
}

/// Copies the files of a folder, if it exists.
fn copy_files(from: &Path, to: &Path) -> Result<()> {
    if from.is_dir() {
        fs::create_dir(to)?;
        for file in fs::read_dir(from)? {
            let file = file?;
            copy_file(&file.path(), &to.join(file.file_name()))?;
        }
    }
    Ok(())
}

fn since_1970() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default()
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
        if self.lock.is_none() {
            return;
        }
        let _ = fs::remove_dir(&self.folder);
        let _ = fs::remove_file(asked(&self.folder));
        let _ = fs::remove_file(self.folder.with_extension("lock"));
    }
}

/// The requested placement of a run.
fn asked(run: &Path) -> PathBuf {
    run.with_extension("asked.csv")
}

/// A run with a requested placement.
struct Outcome {
    /// Ranks on other hosts.
    elsewhere: usize,
    /// Whether each host had the requested number of ranks.
    same_counts: bool,
    /// For the user.
    sentence: String,
}

impl Outcome {
    fn of(asked: &str, ranks: &Ranks) -> Self {
        let hosts = ranks.hosts_by_rank();
        let wanted: Vec<(usize, &str)> = placed(asked).collect();
        let is_elsewhere =
            |&&(rank, host): &&(usize, &str)| hosts.get(rank).is_none_or(|h| !same_host(h, host));
        let elsewhere = wanted.iter().filter(is_elsewhere).count();
        let counts = |hosts: &mut dyn Iterator<Item = &str>| {
            let mut counts = BTreeMap::new();
            for host in hosts {
                let short = host.split('.').next().unwrap_or(host);
                *counts.entry(short.to_owned()).or_insert(0_usize) += 1;
            }
            counts
        };
        let own = counts(&mut hosts.iter().map(String::as_str));
        let sentence = match elsewhere {
            0 => "the last run was placed as requested".to_owned(),
            _ if wanted.len() != hosts.len() => format!(
                "the last run had {} ranks, not the {} of the order asked for",
                hosts.len(),
                wanted.len()
            ),
            n => format!(
                "{n} of {} ranks of the last run were not on their requested nodes",
                hosts.len()
            ),
        };
        Self {
            elsewhere,
            same_counts: own == counts(&mut wanted.iter().map(|w| w.1)),
            sentence,
        }
    }
}

/// Ranks and hosts of `rank,node,slot` lines.
fn placed(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().skip(1).filter_map(|line| {
        let mut cells = line.split(',');
        Some((cells.next()?.parse().ok()?, cells.next()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store after a run with these hosts by rank, for which an order was asked or not.
    fn ran(store: &Store, hosts: &[&str], asked: Option<&str>) -> Option<String> {
        let (begun, _) = store.begin(asked, true).unwrap();
        for (rank, host) in hosts.iter().enumerate() {
            let text = format!(
                "# hopbyte-record 2\nrank\t{rank}\nsize\t{}\nhost\t{host}\nspawned\t0\nphase\t0\tmain\nended\tfinalize\nend\t7\n",
                hosts.len()
            );
            fs::write(begun.folder.join(format!("rank.{rank}.hbr")), text).unwrap();
        }
        let folder = begun.folder.clone();
        drop(begun);
        // A process that another test starts meanwhile holds the lock until it ends.
        let mut said = Vec::new();
        while folder.exists() {
            said.extend(store.settle().unwrap());
        }
        said.pop()
    }

    #[test]
    fn a_request_that_is_not_followed_teaches_the_launcher_s_counts_and_then_ends() {
        let state = tempfile::tempdir().unwrap();
        let store = Store::of(state.path(), &["command".to_owned()]);
        assert_eq!(ran(&store, &["a", "a", "b", "b"], None), None);
        let asked = "rank,node,slot\n0,a,0\n1,b,0\n2,a,1\n3,b,1\n";
        // The launcher gave other hosts other numbers of ranks: they are known, and the next order is looked at again.
        let said = ran(&store, &["a", "b", "c", "c"], Some(asked)).unwrap();
        assert!(
            said.starts_with("2 of 4 ranks of the last run were not"),
            "{said}"
        );
        let record = store.record().unwrap().unwrap();
        assert_eq!(record.launched, ["a", "b", "c", "c"]);
        assert!(!record.verified && !record.is_refused);
        let asked = asked.replace(",b,", ",c,");
        ran(&store, &["a", "c", "a", "c"], Some(&asked)).unwrap();
        let record = store.record().unwrap().unwrap();
        assert!(record.verified && !record.is_refused);
        // The same numbers in another order, and another number of ranks twice.
        ran(&store, &["a", "a", "c", "c"], Some(&asked)).unwrap();
        assert!(store.record().unwrap().unwrap().is_refused);
        store.forget();
        for is_refused in [false, true] {
            let said = ran(&store, &["a", "a"], Some(&asked)).unwrap();
            assert!(said.contains("had 2 ranks, not the 4"), "{said}");
            assert_eq!(store.record().unwrap().unwrap().is_refused, is_refused);
        }
    }
}
