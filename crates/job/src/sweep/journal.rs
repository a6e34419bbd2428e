//! Journal of finished runs, one line per run, from which a killed sweep resumes.
//!
//! The journals of `OUT` are `OUT.jsonl` and, of its parts, `OUT.IofN.jsonl`. Their first line names the
//! plan; a torn last line, which a kill leaves, is dropped.

use crate::error::{Context, Result};
use hopbyte_fabric::InputError;
use hopbyte_model::parameters::OperatingPoint;
use hopbyte_observe::text::{Limits, Text, lossy};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Schema of a run.
pub const RUN_SCHEMA: &str = "hopbyte.sweep-run/1";

/// Result of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunRecord {
    /// [`RUN_SCHEMA`].
    pub schema: String,
    /// Its number in the plan.
    pub run: u64,
    /// Name of the scenario.
    pub scenario: String,
    /// Factors on rates and delays.
    pub point: OperatingPoint,
    /// Number of the trial, from 0.
    pub trial: u32,
    /// Its seed.
    pub seed: u64,
    /// Completion time of the job.
    pub time_seconds: f64,
    /// Minimum time of the most loaded resource.
    pub bound_seconds: f64,
    /// That resource.
    pub bound_resource: String,
    /// Bytes of data that crossed the network.
    pub network_bytes: f64,
    /// Transfers.
    pub flows: u64,
    /// The largest delay's cause.
    pub binds: String,
    /// Its share of the delays.
    pub binds_ratio: f64,
}

/// First line of a journal.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Head {
    schema: String,
    /// Fingerprint of all inputs that determine the runs' results.
    plan: String,
    runs: u64,
}

/// A journal open for appending.
pub struct Journal {
    path: PathBuf,
    file: File,
}

/// Contents of all journals of a sweep.
#[derive(Default)]
pub struct Found {
    /// Runs by number.
    pub done: BTreeMap<u64, RunRecord>,
    /// The journals' files.
    pub files: Vec<PathBuf>,
}

/// Reads every journal of `out`.
///
/// # Errors
/// A journal belongs to another plan, or is damaged before its last line.
pub fn read_all(out: &Path, plan: &str, runs: u64) -> Result<Found> {
    let mut found = Found::default();
    for path in journals(out)? {
        read(&path, plan, runs, &mut found.done)?;
        found.files.push(path);
    }
    Ok(found)
}

fn journals(out: &Path) -> Result<Vec<PathBuf>> {
    let folder = match out.parent() {
        Some(p) if !p.as_os_str().is_empty() => p,
        _ => Path::new("."),
    };
    let name = out.file_name().unwrap_or_default().to_string_lossy();
    let list = fs::read_dir(folder)
        .with_context(|| format!("{}: no folder for the results", folder.display()))?;
    let mut files = Vec::new();
    for entry in list {
        let entry = entry?;
        let file = entry.file_name();
        let file = file.to_string_lossy();
        let middle = file
            .strip_prefix(&*name)
            .and_then(|rest| rest.strip_suffix(".jsonl"));
        let ours = |m: &str| m.is_empty() || (m.starts_with('.') && m.contains("of"));
        if middle.is_some_and(ours) {
            files.push(folder.join(&*file));
        }
    }
    files.sort();
    Ok(files)
}

fn read(path: &Path, plan: &str, runs: u64, done: &mut BTreeMap<u64, RunRecord>) -> Result<()> {
    let name = path.display().to_string();
    let text = Text::read(path, Limits::TEXT)?;
    let text = lossy(text.bytes());
    // Text after the last line feed is torn.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    for (i, line) in whole.lines().enumerate() {
        let wrong = |found: String, expected: &str, hint: &str| {
            InputError::new(&name, found, expected)
                .at(i as u64 + 1)
                .hint(hint)
        };
        if i == 0 {
            let head: Head = serde_json::from_str(line).map_err(|e| {
                wrong(
                    e.to_string(),
                    "a sweep's journal",
                    "delete it to begin anew",
                )
            })?;
            if head != self::head(plan, runs) {
                let hint = "delete it, or name another --out: scenario, factors, trials or \
                            hopbyte itself changed since";
                return Err(
                    wrong(format!("plan {}", head.plan), &format!("plan {plan}"), hint).into(),
                );
            }
            continue;
        }
        let record: RunRecord = serde_json::from_str(line)
            .map_err(|e| wrong(e.to_string(), "a run of a sweep", "delete that line"))?;
        if record.run >= runs {
            let found = format!("run {}", record.run);
            return Err(wrong(found, &format!("less than {runs}"), "delete that line").into());
        }
        done.insert(record.run, record);
    }
    Ok(())
}

fn head(plan: &str, runs: u64) -> Head {
    Head {
        schema: "hopbyte.sweep-journal/1".into(),
        plan: plan.into(),
        runs,
    }
}

/// Journal of a sweep, or of its part `i` of `n` (from 1).
pub fn place(out: &Path, part: Option<(u64, u64)>) -> PathBuf {
    let mut path = out.as_os_str().to_owned();
    if let Some((i, n)) = part {
        path.push(format!(".{i}of{n}"));
    }
    path.push(".jsonl");
    path.into()
}

impl Journal {
    /// Opens a journal that [`read_all`] has read, to append to it; truncates a torn line.
    pub fn open(path: PathBuf, plan: &str, runs: u64) -> Result<Self> {
        let about = || format!("{}: the sweep's journal", path.display());
        let old = fs::read(&path).unwrap_or_default();
        let whole = old
            .iter()
            .rposition(|&b| b == b'\n')
            .map_or(0, |end| end + 1);
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).open(&path);
        let file = file.with_context(about)?;
        if whole < old.len() {
            file.set_len(whole as u64).with_context(about)?;
        }
        let mut journal = Self { path, file };
        if whole == 0 {
            journal.line(&serde_json::to_string(&head(plan, runs))?)?;
        }
        Ok(journal)
    }

    /// Appends a line; it has been handed to the system when this returns.
    pub fn line(&mut self, line: &str) -> Result<()> {
        let written = self.file.write_all(format!("{line}\n").as_bytes());
        written.with_context(|| format!("{}: the sweep's journal", self.path.display()))
    }
}
