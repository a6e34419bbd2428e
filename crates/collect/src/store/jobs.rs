//! The jobs over time beside the logs of a store: a CSV `job,nodes,start,end` that grows by a line when a job begins, and by
//! one with its end when it has left the list.

use hopbyte_fabric::LeftOut;
use hopbyte_observe::threads::start;
use hopbyte_observe::{
    KEPT_JOBS, Listed, ObserveError, Then, list_jobs, stamp, unix, without_nodes,
};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

const HEADER: &str = "job,nodes,start,end\n";
/// Pause between looks at the list.
const EVERY: Duration = Duration::from_secs(1);
/// Seconds after which jobs that ended before the retained time are removed.
const TIDY_SECONDS: f64 = 86_400.0;

/// Name and hosts of a job.
type Key = (String, String);

/// The jobs of a store.
#[derive(Debug)]
pub struct KeptJobs {
    file: PathBuf,
    retain_seconds: Option<u64>,
    /// Jobs that run, with their start in Unix seconds.
    open: HashMap<Key, f64>,
    tidied: f64,
}

impl KeptJobs {
    /// Continues the table of a store, or begins it. Jobs that ended more than `retain_seconds` ago are removed.
    ///
    /// # Errors
    /// The table cannot be read or written.
    pub fn open(
        folder: &Path,
        retain_seconds: Option<u64>,
        now: f64,
    ) -> Result<Self, ObserveError> {
        let mut kept = Self {
            file: folder.join(KEPT_JOBS),
            retain_seconds,
            open: HashMap::new(),
            tidied: now,
        };
        kept.tidy(now)?;
        Ok(kept)
    }

    /// Takes the list of a time, and returns jobs that run but have no nodes in it: they are not kept.
    ///
    /// # Errors
    /// The table cannot be written; its lines are written with the next list.
    pub fn take(&mut self, listed: &[Listed], now: f64) -> Result<LeftOut, ObserveError> {
        if now - self.tidied >= TIDY_SECONDS {
            self.tidy(now)?;
        }
        let running = (listed.iter()).filter(|j| j.is_of(Then::Live(now)) && !j.hosts.is_empty());
        let running: HashMap<Key, f64> = running
            .map(|j| {
                (
                    key(j),
                    j.start.filter(|s| s.is_finite()).unwrap_or(now).min(now),
                )
            })
            .collect();
        let mut lines = String::new();
        let mut ended: Vec<_> = (self.open.iter())
            .filter(|(key, _)| !running.contains_key(*key))
            .collect();
        ended.sort_by_key(|(key, _)| *key);
        for (key, start) in ended {
            line(&mut lines, key, *start, Some(now));
        }
        let mut begun: Vec<_> = (running.iter())
            .filter(|(key, _)| !self.open.contains_key(*key))
            .collect();
        begun.sort_by_key(|(key, _)| *key);
        for (key, start) in begun {
            line(&mut lines, key, *start, None);
        }
        if !lines.is_empty() {
            let failed = |e| ObserveError::io(&self.file, e);
            let mut file = File::options()
                .append(true)
                .open(&self.file)
                .map_err(failed)?;
            file.write_all(lines.as_bytes()).map_err(failed)?;
        }
        // The start of a job that was known stays: its line has it.
        let starts = std::mem::take(&mut self.open);
        let start = |(key, start): (Key, f64)| {
            let start = starts.get(&key).copied().unwrap_or(start);
            (key, start)
        };
        self.open = running.into_iter().map(start).collect();
        Ok(without_nodes(listed, Then::Live(now)))
    }

    /// Writes the table with one line a job, without those that ended too long ago. A line that a kill cut goes.
    fn tidy(&mut self, now: f64) -> Result<(), ObserveError> {
        let failed = |e| ObserveError::io(&self.file, e);
        let mut jobs = Vec::new();
        if self.file.exists() {
            let content = fs::read(&self.file).map_err(failed)?;
            let end = content
                .iter()
                .rposition(|&b| b == b'\n')
                .map_or(0, |at| at + 1);
            if end < content.len() {
                replace(&self.file, &content[..end]).map_err(failed)?;
            }
            if end > 0 {
                jobs = list_jobs(&self.file)?;
            }
        }
        let oldest = self.retain_seconds.map(|s| now - s as f64);
        jobs.retain(|j| oldest.is_none_or(|oldest| j.end.is_none_or(|end| end >= oldest)));
        let mut text = HEADER.to_owned();
        self.open.clear();
        for job in &jobs {
            let start = job.start.filter(|s| s.is_finite()).unwrap_or(0.0);
            line(&mut text, &key(job), start, job.end);
            if job.end.is_none() {
                self.open.insert(key(job), start);
            }
        }
        self.tidied = now;
        replace(&self.file, text.as_bytes()).map_err(failed)
    }
}

/// Name and hosts as they are written.
fn key(job: &Listed) -> Key {
    let plain = |text: &str| text.replace(['\n', '\r'], " ");
    (plain(&job.id), plain(&job.hosts))
}

fn line(out: &mut String, (id, hosts): &Key, start: f64, end: Option<f64>) {
    let end = end.map_or_else(String::new, |end| format!("{end:.3}"));
    let quoted = |text: &str| text.replace('"', "\"\"");
    let (id, hosts) = (quoted(id), quoted(hosts));
    let _ = writeln!(out, "\"{id}\",\"{hosts}\",{start:.3},{end}");
}

/// Writes a file under another name and renames it.
fn replace(file: &Path, content: &[u8]) -> io::Result<()> {
    let path = file.with_extension("csv.new");
    let mut new = File::create(&path)?;
    new.write_all(content)?;
    // After a power cut the name may else be that of an empty file.
    new.sync_all()?;
    fs::rename(path, file)
}

/// Keeps the jobs of a list in a store, from a thread: the list is read again when it changes. A list or a table that
/// fails is said on standard error; the jobs before stay. Jobs without nodes are said too.
///
/// # Errors
/// The list cannot be read, or the table not begun.
pub fn follow_jobs(
    list: &Path,
    folder: &Path,
    retain_seconds: Option<u64>,
) -> Result<(), ObserveError> {
    let mut kept = KeptJobs::open(folder, retain_seconds, unix(SystemTime::now()))?;
    let list = list.to_owned();
    let mut seen = stamp(&list);
    let mut said = String::new();
    let mut say = move |text: String| {
        if !text.is_empty() && text != said {
            eprintln!("hopbyte: {}", hopbyte_fabric::printable(&text));
        }
        said = text;
    };
    let name = list.display().to_string();
    let words = move |left_out: LeftOut| {
        let words: Vec<String> = left_out.sentences().collect();
        words
            .first()
            .map_or_else(String::new, |_| format!("{name}: {}", words.join("; ")))
    };
    say(words(
        kept.take(&list_jobs(&list)?, unix(SystemTime::now()))?,
    ));
    let follow = move || {
        loop {
            std::thread::sleep(EVERY);
            let now = stamp(&list);
            if now.is_some() && now == seen {
                continue;
            }
            let taken =
                list_jobs(&list).and_then(|listed| kept.take(&listed, unix(SystemTime::now())));
            match taken {
                Ok(left_out) => {
                    seen = now;
                    say(words(left_out));
                }
                Err(error) => say(error.to_string()),
            }
        }
    };
    start(follow).map_err(|e| ObserveError::io(folder, e))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopbyte_fabric::spec;
    use hopbyte_observe::kept_jobs;

    fn listed(jobs: &[(&str, &str)]) -> Vec<Listed> {
        let job = |&(id, hosts): &(&str, &str)| Listed {
            id: id.into(),
            hosts: hosts.into(),
            running: Some(true),
            ..Listed::default()
        };
        jobs.iter().map(job).collect()
    }

    /// A job that ended, one that runs on, and a node that both had; a restart and a cut line change nothing.
    #[test]
    fn jobs_of_a_past_time_are_those_that_ran_then() {
        let folder = tempfile::tempdir().unwrap();
        let fabric = spec::fabric("torus:4x4").unwrap();
        let ids = |at: f64| -> Vec<String> {
            let mut ids = kept_jobs(folder.path(), &fabric, at)
                .unwrap()
                .ids()
                .to_vec();
            ids.sort();
            ids
        };
        let mut kept = KeptJobs::open(folder.path(), None, 90.0).unwrap();
        assert_eq!(ids(95.0), [""; 0]);
        let both = listed(&[("7", "n0-0,n1-0"), ("8", "n2-0")]);
        kept.take(&both, 100.0).unwrap();
        let mut told = both.clone();
        told.extend(listed(&[("6", "")]));
        let left_out = kept.take(&told, 150.0).unwrap();
        let said: Vec<String> = left_out.sentences().collect();
        assert!(
            said[0].contains("no nodes") && said[0].contains('6'),
            "{said:?}"
        );
        kept.take(&listed(&[("8", "n2-0"), ("9", "n0-0")]), 200.0)
            .unwrap();
        drop(kept);
        let table = folder.path().join(KEPT_JOBS);
        let text = fs::read_to_string(&table).unwrap();
        assert_eq!(text.lines().count(), 5, "{text}");
        fs::write(&table, text + "\"10\",\"n3-").unwrap();
        assert_eq!(ids(250.0), ["8", "9"]);
        let mut kept = KeptJobs::open(folder.path(), None, 300.0).unwrap();
        kept.take(&listed(&[("9", "n0-0")]), 310.0).unwrap();
        assert_eq!(ids(99.0), [""; 0]);
        assert_eq!(ids(120.0), ["7", "8"]);
        assert_eq!(ids(250.0), ["8", "9"]);
        assert_eq!(ids(1000.0), ["9"]);
        // Retention counts from the end of a job.
        let mut kept = KeptJobs::open(folder.path(), Some(50), 300.0).unwrap();
        assert_eq!(ids(120.0), ["8"]);
        kept.take(&[], 400.0).unwrap();
        assert_eq!(ids(401.0), [""; 0]);
    }

    #[test]
    fn a_start_that_the_list_has_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let fabric = spec::fabric("torus:4x4").unwrap();
        let mut kept = KeptJobs::open(folder.path(), None, 500.0).unwrap();
        let mut jobs = listed(&[("a \"b\"", "n0-0")]);
        jobs[0].start = Some(400.0);
        kept.take(&jobs, 500.0).unwrap();
        jobs[0].start = Some(401.0);
        kept.take(&jobs, 501.0).unwrap();
        kept.take(&[], 600.0).unwrap();
        let found = kept_jobs(folder.path(), &fabric, 450.0).unwrap();
        assert_eq!(found.ids(), ["a \"b\""]);
        assert_eq!(
            kept_jobs(folder.path(), &fabric, 601.0)
                .unwrap()
                .ids()
                .len(),
            0
        );
    }
}
