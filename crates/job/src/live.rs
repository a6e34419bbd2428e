//! Live counters: of this machine, of its whole InfiniBand fabric, or of captured trees.

use crate::Lacking;
use crate::error::Result;
use hopbyte_fabric::{Fabric, InputError};
use hopbyte_observe::counters::reading::Reading;
use hopbyte_observe::counters::{Counted, CounterOptions, join_readings, sum};
use hopbyte_observe::sources::{Places, Source, Wide, glancing, host_name, open};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Source name of this machine's own counters.
const LIVE: &str = "live";
/// Source name of all ports of the InfiniBand fabric.
const FABRIC_WIDE: &str = "fabric-wide";
/// Default seconds between two readings.
const INTERVAL: f64 = 1.0;
/// Limit of the interval.
const LONGEST: f64 = 86_400.0;

/// Reads live sources and trees; `None` if all sources are counter files. Remarks go to `notes`.
pub fn read(
    sources: &[PathBuf],
    fabric: &Fabric,
    options: &CounterOptions,
    notes: &mut Vec<String>,
) -> Result<Option<Counted>> {
    let (readings, source) = match sources {
        [one] if is_word(one) => (
            between(one, fabric, options, notes)?,
            one.display().to_string(),
        ),
        [_, ..] if sources.iter().all(|s| s.is_dir()) => captured(sources, fabric, options, notes)?,
        _ => return Ok(None),
    };
    Ok(Some(sum(join_readings(
        readings, &source, fabric, options,
    )?)?))
}

fn is_word(source: &PathBuf) -> bool {
    source == Path::new(LIVE) || source == Path::new(FABRIC_WIDE)
}

/// Two readings of all sources, an interval apart.
fn between(
    word: &Path,
    fabric: &Fabric,
    options: &CounterOptions,
    notes: &mut Vec<String>,
) -> Result<Vec<Reading>> {
    let interval = interval(options)?;
    let mut sources = opened(&here(word, fabric, options)?, notes)?;
    let mut readings = sample(&mut sources, notes);
    glancing(&mut sources, interval);
    readings.extend(sample(&mut sources, notes));
    Ok(readings)
}

/// Time between two readings.
fn interval(options: &CounterOptions) -> Result<Duration> {
    let seconds = within_limits(options.interval_seconds.unwrap_or(INTERVAL))?;
    Ok(Duration::from_secs_f64(seconds))
}

/// The seconds of `--interval`.
///
/// # Errors
/// They are not above 0, or longer than a day.
pub fn within_limits(seconds: f64) -> Result<f64> {
    if !(seconds > 0.0 && seconds <= LONGEST) {
        let expected = format!("seconds above zero, at most {LONGEST}");
        return Err(InputError::new("--interval", seconds.to_string(), expected).into());
    }
    Ok(seconds)
}

/// Sources of this machine, or of its whole InfiniBand fabric.
fn here(word: &Path, fabric: &Fabric, options: &CounterOptions) -> Result<Places> {
    let mut places = Places::here("");
    if word == Path::new(FABRIC_WIDE) {
        // Ports of the whole fabric include this host's.
        places.fabric_wide = Some(Wide::All);
        places.root = PathBuf::from("/nonexistent");
    } else {
        places.node = node(Path::new("/"), fabric, options)?;
    }
    Ok(places)
}

/// A live source, or a tree that is updated, read at every interval.
pub struct Watched {
    sources: Vec<Source>,
    interval: Duration,
    last: Option<Instant>,
}

impl Watched {
    /// Opens the sources; `None` if these are files. Remarks go to `notes`.
    pub fn open(
        sources: &[PathBuf],
        fabric: &Fabric,
        options: &CounterOptions,
        notes: &mut Vec<String>,
    ) -> Result<Option<Self>> {
        let places = match sources {
            [one] if is_word(one) => here(one, fabric, options)?,
            // Readings of a tree get this host's time.
            [tree] if tree.is_dir() => Places {
                live: true,
                ..Places::captured(tree, node(tree, fabric, options)?)
            },
            _ => return Ok(None),
        };
        Ok(Some(Self {
            sources: opened(&places, notes)?,
            interval: interval(options)?,
            last: None,
        }))
    }

    /// New readings; `None` before the interval is over.
    pub fn sample(&mut self, notes: &mut Vec<String>) -> Option<Vec<Reading>> {
        if self.last.is_some_and(|last| last.elapsed() < self.interval) {
            return None;
        }
        self.last = Some(Instant::now());
        Some(sample(&mut self.sources, notes))
    }
}

/// One reading of every tree, in order.
fn captured(
    folders: &[PathBuf],
    fabric: &Fabric,
    options: &CounterOptions,
    notes: &mut Vec<String>,
) -> Result<(Vec<Reading>, String)> {
    let mut readings = Vec::new();
    for folder in folders {
        let places = Places::captured(folder, node(folder, fabric, options)?);
        readings.extend(sample(&mut opened(&places, notes)?, notes));
    }
    let ends = match folders {
        [first, .., last] => format!("from {} to {}", first.display(), last.display()),
        _ => folders.iter().map(|f| f.display().to_string()).collect(),
    };
    Ok((readings, ends))
}

/// Owner of the counters: a node or router of the fabric.
fn node(root: &Path, fabric: &Fabric, options: &CounterOptions) -> Result<String> {
    let own = || host_name(root);
    let expected = "proc/sys/kernel/hostname or etc/hostname";
    let hint = "name the node of these counters: --counters-of NODE";
    let name = options.node.clone().or_else(own).ok_or_else(|| {
        InputError::new(root.display().to_string(), "no host name", expected).hint(hint)
    })?;
    let is_known = fabric.router_named(&name).is_some() || fabric.node_named(&name).is_some();
    if !is_known && fabric.ports_of_host(&name).is_empty() {
        let expected = format!("a node of {}", fabric.source());
        return Err(InputError::new(root.display().to_string(), name, expected)
            .hint(hint)
            .into());
    }
    Ok(name)
}

fn opened(places: &Places, notes: &mut Vec<String>) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for source in open(places) {
        match source {
            Ok(source) => {
                for words in source.left_out().sentences() {
                    // Two copies of one machine's tree have equal values.
                    if !notes.contains(&words) {
                        notes.push(words);
                    }
                }
                sources.push(source);
            }
            Err(error) => notes.push(error.to_string().replace('\n', "; ")),
        }
    }
    if sources.iter().all(|s| s.layout().counters.is_empty()) {
        let reasons = std::mem::take(notes).join("\n");
        let reasons = if reasons.is_empty() {
            String::new()
        } else {
            format!(": {reasons}")
        };
        let text = format!("no counters can be read here{reasons}\nhint: hopbyte doctor");
        return Err(Lacking(text).into());
    }
    Ok(sources)
}

fn sample(sources: &mut [Source], notes: &mut Vec<String>) -> Vec<Reading> {
    let mut readings = Vec::new();
    for source in sources {
        match source.sample() {
            Ok(reading) => readings.push(reading.clone()),
            Err(error) => notes.push(error.to_string().replace('\n', "; ")),
        }
    }
    readings
}
