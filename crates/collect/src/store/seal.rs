//! Sealing of a log into Parquet: three tables, each with the same columns in every segment of every store.
//!
//! | file | a row |
//! |---|---|
//! | `SEGMENT.counters.parquet` | a counter of a port of a node in a tick: the device's total, `NULL` if missing |
//! | `SEGMENT.reports.parquet` | a source of a node in a tick: time of the reading, sequence number, arrival |
//! | `SEGMENT.ticks.parquet` | a tick: when it closed, and missing, late, reset, frozen and failed nodes |

use super::disk::{Disk, Os};
use super::reader::{Damage, LogReader};
use super::table::{Counters, Reports};
use crate::block::{self, Arrival, Closing, Cluster};
use crate::columns::{Output, failed, put, text, time, whole};
use hopbyte_observe::text::open;
use parquet::basic::Repetition;
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::io;
use std::path::{Path, PathBuf};

/// Metadata by which a file is known to hold all ticks of its log: the layout's version and the log's length.
const OF_LOG: &str = "hopbyte.log";

/// The Parquet files of a log.
#[derive(Clone, Debug)]
pub struct Sealed {
    /// Their paths.
    pub files: Vec<PathBuf>,
    /// Damage of the log, whose sound part was written.
    pub damage: Damage,
}

/// Writes the Parquet files of a log beside it, none of a log without ticks. Each is written under a temporary name and renamed; the log is not
/// modified.
///
/// # Errors
/// `WouldBlock`: its collector writes the log, or another process seals it.
pub fn seal(log: &Path) -> io::Result<Sealed> {
    seal_on(&Os, log)
}

/// Seals all logs of a store. Returns the files, warnings, and whether every log is sound. A log that its collector writes
/// is left out.
pub fn seal_all(folder: &Path) -> io::Result<(Vec<PathBuf>, Vec<String>, bool)> {
    seal_all_on(&Os, folder)
}

/// [`seal_all`] on another disk than the operating system's.
pub fn seal_all_on(
    disk: &dyn Disk,
    folder: &Path,
) -> io::Result<(Vec<PathBuf>, Vec<String>, bool)> {
    let (logs, mut warnings) = super::some_logs(folder)?;
    let (mut files, mut sound) = (Vec::new(), warnings.is_empty());
    for log in super::without_copies(disk, &logs, &mut warnings) {
        match seal_on(disk, &log) {
            Ok(sealed) => {
                files.extend(sealed.files);
                if !sealed.damage.is_none() {
                    warnings.push(format!("{}: {}", log.display(), sealed.damage));
                    sound = false;
                }
                let unfinished = sealed.damage.unfinished();
                warnings.extend(unfinished.map(|text| format!("{}: {text}", log.display())));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                warnings.push(format!("{}: left out: {error}", log.display()));
            }
            // A running collector deletes logs older than --retain.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !log.exists() => {
                warnings.push(format!("{}: left out: deleted meanwhile", log.display()));
            }
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                warnings.push(error.to_string());
                sound = false;
            }
            Err(error) => {
                let text = format!("{}: not sealed: {error}", log.display());
                return Err(io::Error::new(error.kind(), text));
            }
        }
    }
    Ok((files, warnings, sound))
}

/// [`seal`] on another disk than the operating system's.
pub(super) fn seal_on(disk: &dyn Disk, log: &Path) -> io::Result<Sealed> {
    let mut reader = LogReader::open_on(disk, log)?;
    if !reader.claim()? {
        let text = "another process writes or seals this log";
        return Err(io::Error::new(io::ErrorKind::WouldBlock, text));
    }
    let about = [(OF_LOG, of_log(reader.length()?))];
    // The period of a collector, and thereby of a log, does not change.
    let mut first = LogReader::open_on(disk, log)?;
    if first.next_entries().is_none() {
        return Ok(Sealed {
            files: Vec::new(),
            damage: first.damage().clone(),
        });
    }
    let found = block::closing(first.entries());
    let period_ns = found.map_or(0, |closing| closing.period_ns);
    let mut counters = Counters::create(disk, log, period_ns, &about)?;
    let mut reports = match Reports::create(disk, log, &about) {
        Ok(reports) => reports,
        Err(error) => {
            counters.output.discard(disk);
            return Err(error);
        }
    };
    let mut ticks = Ticks::default();
    let filled = fill(&mut reader, &mut counters, &mut reports, &mut ticks);
    if let Err(error) = filled {
        counters.output.discard(disk);
        reports.output.discard(disk);
        return Err(error);
    }
    // The ticks are last: they say that the segment is sealed.
    let mut files = match counters.finish(disk) {
        Ok(file) => vec![file],
        Err(error) => {
            reports.output.discard(disk);
            return Err(error);
        }
    };
    files.push(reports.finish(disk)?);
    files.push(ticks.write(disk, log, &about)?);
    Ok(Sealed {
        files,
        damage: reader.damage().clone(),
    })
}

fn fill(
    reader: &mut LogReader,
    counters: &mut Counters,
    reports: &mut Reports,
    ticks: &mut Ticks,
) -> io::Result<()> {
    loop {
        let mut filed = Ok(());
        let closing = reader.next_block(|cluster, id, arrival| {
            if filed.is_ok() {
                filed = file(cluster, id, arrival, counters, reports);
            }
        })?;
        filed?;
        let Some(closing) = closing else {
            return Ok(());
        };
        ticks.add(&closing, &reader.cluster);
    }
}

fn file(
    cluster: &Cluster,
    id: u32,
    came: Arrival,
    counters: &mut Counters,
    reports: &mut Reports,
) -> io::Result<()> {
    let Some(node) = cluster.node(id) else {
        return Ok(());
    };
    for held in node.sources.iter().flatten() {
        let layout = cluster.shapes.layout(held.shape);
        counters.add(id, node, held, layout)?;
        reports.add(node, held, layout, arrival(came))?;
    }
    Ok(())
}

fn of_log(bytes: u64) -> String {
    format!("layout 2, {bytes} bytes")
}

/// Whether all of a log is in Parquet files of this version.
pub(super) fn is_sealed(log: &Path) -> bool {
    let sealed = || {
        let bytes = log.metadata().ok()?.len();
        let file = open(&log.with_extension("ticks.parquet")).ok()?;
        let reader = SerializedFileReader::new(file).ok()?;
        let about = reader.metadata().file_metadata().key_value_metadata()?;
        let of = about.iter().find(|pair| pair.key == OF_LOG)?;
        Some(of.value.as_deref() == Some(&of_log(bytes)))
    };
    sealed().unwrap_or(false)
}

/// Whether a Parquet file was written by hopbyte, in any layout.
pub(super) fn is_table(path: &Path) -> bool {
    let known = || {
        let reader = SerializedFileReader::new(open(path).ok()?).ok()?;
        let about = reader.metadata().file_metadata().key_value_metadata()?;
        Some(about.iter().any(|pair| pair.key.starts_with("hopbyte.")))
    };
    known().unwrap_or(false)
}

fn arrival(arrival: Arrival) -> &'static str {
    match arrival {
        Arrival::OnTime => "on_time",
        Arrival::Late => "late",
        Arrival::Ahead => "ahead",
    }
}

/// Closings of ticks.
#[derive(Default)]
struct Ticks {
    numbers: [Vec<i64>; 6],
    spread: Vec<i64>,
    spread_levels: Vec<i16>,
    lists: [Vec<ByteArray>; 5],
}

impl Ticks {
    fn add(&mut self, closing: &Closing, cluster: &Cluster) {
        let c = closing;
        let time_ns = c.tick.saturating_mul(c.period_ns);
        let numbers = [
            c.tick,
            time_ns,
            c.closed_ns,
            c.expected,
            c.reported,
            c.skipped,
        ];
        for (column, number) in self.numbers.iter_mut().zip(numbers) {
            column.push(number as i64);
        }
        self.spread.extend(c.spread_ns.map(|s| s as i64));
        self.spread_levels.push(i16::from(c.spread_ns.is_some()));
        let names = |ids: &mut dyn Iterator<Item = u32>| {
            let names: Vec<String> = ids.map(|id| cluster.name(id)).collect();
            ByteArray::from(names.join(",").into_bytes())
        };
        let lists = [
            names(&mut c.missing.iter().map(|m| m.0)),
            names(&mut c.late.iter().map(|l| l.node)),
            names(&mut c.reset.iter().copied()),
            names(&mut c.frozen.iter().copied()),
            names(&mut c.failed.iter().copied()),
        ];
        for (column, list) in self.lists.iter_mut().zip(lists) {
            column.push(list);
        }
    }

    fn write(&self, disk: &dyn Disk, log: &Path, about: &[(&str, String)]) -> io::Result<PathBuf> {
        let mut fields = vec![
            whole("tick", Repetition::REQUIRED)?,
            time("time")?,
            time("closed")?,
        ];
        for name in ["expected", "reported", "skipped"] {
            fields.push(whole(name, Repetition::REQUIRED)?);
        }
        fields.push(whole("spread_ns", Repetition::OPTIONAL)?);
        for name in ["missing", "late", "reset", "frozen", "failed"] {
            fields.push(text(name)?);
        }
        let path = log.with_extension("ticks.parquet");
        let mut output = Output::create(disk, &path, fields, about)?;
        let filled = self.put(&mut output);
        output.finish(disk, filled)
    }

    fn put(&self, output: &mut Output) -> io::Result<()> {
        let mut group = output.writer.next_row_group().map_err(failed)?;
        for column in &self.numbers {
            put::<Int64Type>(&mut group, column, None)?;
        }
        put::<Int64Type>(&mut group, &self.spread, Some(&self.spread_levels))?;
        for column in &self.lists {
            put::<ByteArrayType>(&mut group, column, None)?;
        }
        group.close().map_err(failed)?;
        Ok(())
    }
}
