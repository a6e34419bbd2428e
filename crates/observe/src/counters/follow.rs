//! Counter files that are rewritten while they are followed.

use super::reading::Reading;
use super::series::{Counted, series};
use super::{Content, CounterOptions, finish, mads, mismatch, open, ports, source, sum};
use crate::ObserveError;
use crate::text::Text;
use hopbyte_fabric::{Fabric, LeftOut};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// State of followed files: the last two readings of every device.
///
/// Increases come from readings, never from totals of links: widths, clocks and limits then apply as in
/// [`super::read_counters`].
#[derive(Debug, Default)]
pub struct Follow {
    devices: BTreeMap<(String, String), Device>,
}

#[derive(Clone, Debug)]
struct Device {
    before: Option<Reading>,
    last: Reading,
}

/// Intervals for which a device without a new reading keeps its last increase.
const KEPT_INTERVALS: u64 = 3;

impl Follow {
    /// Reads the files. Increases are summed. Totals: the first call behaves as [`super::read_counters`], later calls
    /// give each device's increase since its previous reading. A device whose file did not change keeps its last
    /// increase for three of its intervals, then it is left out and counted as such. Readings without a clock get
    /// their file's modification time.
    pub fn read(
        &mut self,
        files: &[impl AsRef<Path>],
        fabric: &Fabric,
        options: &CounterOptions,
    ) -> Result<Counted, ObserveError> {
        let times: Vec<Option<u64>> = files.iter().map(|f| written_ns(f.as_ref())).collect();
        let texts = open(files)?;
        let mut left_out = LeftOut::default();
        let mut readings = Vec::new();
        let mut systems = BTreeMap::new();
        let mut options = Cow::Borrowed(options);
        for (text, time) in texts.iter().zip(times) {
            match Content::of(text, fabric, &options, &mut left_out)? {
                Content::Readings(mut more) => {
                    for reading in &mut more {
                        reading.moment.time_ns = reading.moment.time_ns.or(time);
                    }
                    readings.extend(more);
                }
                Content::Systems(more) => systems.extend(more),
                Content::Ports(rows) => {
                    let map = &mut options.to_mut().ports;
                    ports::add(&rows, fabric, map, &mut left_out);
                }
                Content::Increases(_) => return self.increases(&texts, fabric, &options),
            }
        }
        mads::set_ticks(&mut readings, &systems);
        let mut counted = self.take(readings, &source(&texts), fabric, &options)?;
        counted.counts_mut().left_out.extend(&left_out);
        Ok(counted)
    }

    fn increases(
        &mut self,
        texts: &[Text],
        fabric: &Fabric,
        options: &CounterOptions,
    ) -> Result<Counted, ObserveError> {
        self.devices.clear();
        sum(super::counter_series(texts, fabric, options)?)
    }

    /// The increase of new readings of files or live sources; devices without a new reading contribute their last one.
    pub fn take(
        &mut self,
        readings: Vec<Reading>,
        source: &str,
        fabric: &Fabric,
        options: &CounterOptions,
    ) -> Result<Counted, ObserveError> {
        let mut left_out = LeftOut::default();
        let newest = readings.iter().filter_map(|r| r.moment.time_ns).max();
        let mut read: BTreeMap<(String, String), Vec<Reading>> = BTreeMap::new();
        for reading in readings {
            let id = (reading.layout.node.clone(), reading.layout.source.clone());
            read.entry(id).or_default().push(reading);
        }
        let mut devices = BTreeMap::new();
        let mut chained = Vec::new();
        for (id, mut own) in read {
            own.sort_by_key(|r| r.moment.time_ns);
            let chain = match self.devices.get(&id) {
                Some(device) => device.continued(&own, newest).unwrap_or_else(|last| {
                    left_out.note("device without a new reading", format!("{} {}", id.0, id.1));
                    vec![last]
                }),
                None => own,
            };
            if let [.., last] = &chain[..] {
                let before = chain.len().checked_sub(2).map(|i| chain[i].clone());
                let last = last.clone();
                devices.insert(id, Device { before, last });
            }
            chained.extend(chain);
        }
        let joined = series(fabric, source, chained, &options.ports);
        let joined = joined.map_err(|e| mismatch(source, e))?;
        // Only now: after an error the same files are read again.
        self.devices = devices;
        let mut counted = sum(finish(joined, source, fabric, options)?)?;
        counted.counts_mut().left_out.extend(&left_out);
        Ok(counted)
    }
}

impl Device {
    /// The last known reading followed by the new ones. Without new ones: the last two, or the last alone as an error
    /// if the device has been silent for too long.
    fn continued(&self, own: &[Reading], newest: Option<u64>) -> Result<Vec<Reading>, Reading> {
        let known = own.iter().rposition(|r| *r == self.last);
        let new = own[known.map_or(0, |k| k + 1)..].to_vec();
        let time = |r: &Reading| r.moment.time_ns;
        match &new[..] {
            [] => {
                let Some(before) = &self.before else {
                    return Ok(vec![self.last.clone()]);
                };
                let interval = time(&self.last)
                    .zip(time(before))
                    .map(|(b, a)| b.saturating_sub(a));
                let silent = newest
                    .zip(time(&self.last))
                    .map(|(b, a)| b.saturating_sub(a));
                let is_old = silent.zip(interval).is_some_and(|(silent, interval)| {
                    silent > interval.saturating_mul(KEPT_INTERVALS)
                });
                if is_old {
                    return Err(self.last.clone());
                }
                Ok(vec![before.clone(), self.last.clone()])
            }
            // The clock went back: start anew.
            [first, ..] if time(first) < time(&self.last) => Ok(new),
            _ => Ok(std::iter::once(self.last.clone()).chain(new).collect()),
        }
    }
}

/// Modification time of a file, nanoseconds since 1970.
fn written_ns(file: &Path) -> Option<u64> {
    let modified = std::fs::metadata(file).and_then(|m| m.modified()).ok()?;
    let since = modified.duration_since(UNIX_EPOCH).ok()?;
    u64::try_from(since.as_nanos()).ok()
}
