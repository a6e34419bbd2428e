//! Counters: readings of every network's counters, joined to directed links.
//!
//! [`read_counters`] recognises the format from the content: libgm text (paper 000, Fig. 4), per-link CSV of Aries
//! (AriesNCL in DragonView's form), link tables of Blue Gene (Boxfish), LDMS (`ldms_ls -l`, `store_csv`), gpcdr
//! metrics, Gemini and Aries registers, OpenMetrics text, answers of Prometheus, `ethtool -S`, `ip -s link`, SNMP, gNMI, and
//! the output of `hopbyte links --json`. All are converted
//! to [`Totals`](hopbyte_fabric::Totals) or an [`Increase`]: bytes, packets and stalls by link. A device's arrival counters belong to the
//! link that *ends* there, its departure stalls to the link that *begins* there (paper 000, V.B).
//!
//! Counters are compared as integers by one function ([`delta::increase`]): it resolves wraps and tells apart resets,
//! stuck counters, gaps and stopped clocks, which never become numbers. The source of each link is selected once, for
//! files and live sources (`speakers`).

pub mod apart;
mod aries_csv;
mod aries_tiles;
mod clean_report;
pub mod delta;
mod end;
mod ends;
mod ethtool;
mod follow;
mod formats;
mod gemini;
mod gm;
mod gnmi;
mod gpcdr;
mod ibswinfo;
mod infiniband_exporters;
mod interfaces;
mod jobs;
pub mod join;
mod ldms_csv;
mod ldms_ls;
mod link_lines;
pub(crate) mod mads;
pub(crate) mod names;
mod nvlink;
mod openmetrics;
pub(crate) mod peers;
mod ports;
pub(crate) mod processors;
mod prometheus;
pub(crate) mod rates;
pub mod reading;
mod registers;
mod series;
mod snmp;
pub(crate) mod speakers;
mod torus_table;
pub mod values;

pub use follow::Follow;
pub use formats::{format, known_formats};
pub use jobs::{
    Jobs, KEPT_JOBS, Listed, Then, jobs, kept_jobs, list_jobs, read_jobs, without_nodes,
};
pub use link_lines::PathLine;
pub use series::{CHANGED, Counted, Series, series};

use self::clean_report::Clean;
use self::formats::{Format, Read};
use self::join::{Mismatch, PortMap};
use self::reading::Reading;
use crate::ObserveError;
use crate::text::{Limits, Line, Text, cells};
use hopbyte_fabric::{Class, Fabric, Increase, InputError, LeftOut, Missing, Quantity};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Settings for values that the file does not contain.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CounterOptions {
    /// Length of the interval that increases cover, in seconds, if the source has no clock.
    pub interval_seconds: Option<f64>,
    /// Code region of a Boxfish table. `None`: the whole run, or the sum of its parts if the table has no region for the
    /// whole run or one with fewer packets than these.
    pub region: Option<i64>,
    /// The node or router of the counters, if the source does not name it.
    pub node: Option<String>,
    /// Links behind ports that no rule matches.
    pub ports: PortMap,
}

/// Reads files of counters as one reading of the links.
///
/// Increases: the sum of all records. Totals: with one record per device these totals ([`Counted::Totals`]), with
/// several (in one file or in all) the increase from the first to the last. Errors name file and line. Files without
/// a row for a link of the fabric are refused, and so are files that mix increases and totals.
pub fn read_counters(
    files: &[impl AsRef<Path>],
    fabric: &Fabric,
    options: &CounterOptions,
) -> Result<Counted, ObserveError> {
    let texts = open(files)?;
    let series = counter_series(&texts, fabric, options)?;
    let mut counted = sum(series)?;
    if let [first, .., last] = &texts[..]
        && counted.source == first.file()
    {
        // Totals name both ends already.
        counted.counts_mut().source = format!("{} to {}, added up", first.file(), last.file());
    }
    Ok(counted)
}

/// [`read_counters`] on one text in memory.
pub fn counters(
    text: &Text,
    fabric: &Fabric,
    options: &CounterOptions,
) -> Result<Counted, ObserveError> {
    sum(counter_series(std::slice::from_ref(text), fabric, options)?)
}

/// The increase over all intervals of a series; totals unchanged.
pub fn sum(series: Series) -> Result<Counted, ObserveError> {
    let series = match series {
        Series::Totals(totals) => return Ok(Counted::Totals(totals)),
        Series::Increases(series) => series,
    };
    let mut series = series.into_iter();
    let mut sum = series
        .next()
        .ok_or_else(|| InputError::new("counters", "no files", "at least one"))?;
    series.for_each(|next| sum.extend_by(&next));
    Ok(Counted::Increase(sum))
}

/// Reads files of counters as a series: an increase for every interval in them, or the totals of devices that were
/// read once.
pub fn read_counter_series(
    files: &[impl AsRef<Path>],
    fabric: &Fabric,
    options: &CounterOptions,
) -> Result<Series, ObserveError> {
    counter_series(&open(files)?, fabric, options)
}

fn open(files: &[impl AsRef<Path>]) -> Result<Vec<Text>, ObserveError> {
    files
        .iter()
        .map(|file| Text::read(file.as_ref(), Limits::TEXT))
        .collect()
}

/// [`read_counter_series`] on text in memory.
pub fn counter_series(
    texts: &[Text],
    fabric: &Fabric,
    options: &CounterOptions,
) -> Result<Series, ObserveError> {
    if let Some(interval) = options.interval_seconds
        && !(interval.is_finite() && interval > 0.0)
    {
        let error = InputError::new("interval", interval.to_string(), "seconds above zero");
        return Err(error.into());
    }
    let mut readings = Vec::new();
    let mut increases = Vec::new();
    let mut left_out = LeftOut::default();
    let mut systems = BTreeMap::new();
    let mut options = Cow::Borrowed(options);
    let mut read = Vec::new();
    let mut clean = Vec::new();
    let headers = |left_out: &LeftOut| {
        let mut counts = left_out.counts();
        counts
            .find(|(why, _)| *why == ldms_csv::NO_ROWS)
            .map_or(0, |(_, n)| n)
    };
    for text in texts {
        let before = headers(&left_out);
        match Content::of(text, fabric, &options, &mut left_out)? {
            Content::Readings(more)
                if more.is_empty() && clean_report::Clean::of(text).is_some() =>
            {
                left_out.note(clean_report::CLEAN, text.file());
                clean.extend(Clean::of(text).map(|report| (readings.len(), report)));
                read.push(text);
            }
            // The others would be taken for all readings, and totals for an increase.
            Content::Readings(more)
                if more.is_empty() && texts.len() > 1 && headers(&left_out) == before =>
            {
                let error = text.error("no values", "a reading beside those of the other files");
                let hint = "the file was cut, or is being written: read it again";
                return Err(error.hint(hint).into());
            }
            Content::Readings(more) => {
                readings.extend(more);
                read.push(text);
            }
            Content::Systems(more) => systems.extend(more),
            Content::Ports(rows) => {
                let map = &mut options.to_mut().ports;
                ports::add(&rows, fabric, map, &mut left_out);
            }
            Content::Increases(more) => {
                increases.extend(more);
                read.push(text);
            }
        }
        if !readings.is_empty() && !increases.is_empty() {
            let error = text.error("increases beside totals", "files of one kind");
            let error = error.hint("increases and totals cannot be added up");
            return Err(error.into());
        }
    }
    // Tables beside the counters are no readings.
    let source = if read.is_empty() {
        source(texts)
    } else {
        source(read)
    };
    if readings.is_empty() && increases.is_empty() && !systems.is_empty() {
        let said: Vec<String> = left_out.sentences().collect();
        let error = InputError::new(&source, "the hardware of a switch", "counters of links");
        let hint = format!(
            "give it beside the switch's counters (perfquery, ibqueryerrors). {}",
            said.join(". ")
        );
        return Err(error.hint(hint.trim_end().to_owned()).into());
    }
    let no_rows = left_out.counts().any(|(why, _)| why == ldms_csv::NO_ROWS);
    if readings.is_empty() && increases.is_empty() && no_rows {
        let error = InputError::new(&source, "a header and no rows", "rows of values below it");
        return Err(error.hint("give the file of the rows too").into());
    }
    if readings.is_empty() && increases.is_empty() && !clean.is_empty() {
        let of = (source.as_str(), options.interval_seconds);
        return Ok(clean_report::alone(clean.len(), of, fabric, &left_out));
    }
    clean_report::add(clean, &mut readings);
    let said: Vec<String> = left_out.sentences().collect();
    if readings.is_empty() && increases.is_empty() && !said.is_empty() {
        let error = InputError::new(&source, "no counters of links", "counters of links");
        return Err(error.hint(said.join(" ")).into());
    }
    mads::set_ticks(&mut readings, &systems);
    let mut series = if increases.is_empty() {
        join_readings(readings, &source, fabric, &options)?
    } else {
        let mut series = finish(Series::Increases(increases), &source, fabric, &options)?;
        drop_impossible(&mut series, fabric);
        series
    };
    if let Some(last) = series.counts_mut().pop() {
        last.left_out.extend(&left_out);
    }
    Ok(series)
}

/// Refuses a code region of counters that have none.
fn without_regions(source: &str, options: &CounterOptions) -> Result<(), InputError> {
    let refused = |region| {
        let found = format!("code region {region} of counters without regions");
        let error = InputError::new(source, found, "a Boxfish link table");
        Err(error.of(Class::Conflict).hint("leave the region out"))
    };
    options.region.map_or(Ok(()), refused)
}

/// Readings of devices, live or from files, as a series (see [`read_counter_series`]).
pub fn join_readings(
    mut readings: Vec<Reading>,
    source: &str,
    fabric: &Fabric,
    options: &CounterOptions,
) -> Result<Series, ObserveError> {
    without_regions(source, options)?;
    if let Some(interval) = options.interval_seconds {
        set_intervals(&mut readings, interval);
    }
    let series = series(fabric, source, readings, &options.ports);
    finish(
        series.map_err(|e| mismatch(source, e))?,
        source,
        fabric,
        options,
    )
}

/// Readings of devices without a clock are an interval apart: wraps, gaps and impossible rates are then recognised as
/// with a clock.
fn set_intervals(readings: &mut [Reading], seconds: f64) {
    let mut devices: BTreeMap<(String, String), Vec<&mut Reading>> = BTreeMap::new();
    for reading in readings {
        let layout = &reading.layout;
        let device = devices.entry((layout.node.clone(), layout.source.clone()));
        device.or_default().push(reading);
    }
    let has_clock = |r: &&mut Reading| r.moment.time_ns.or(r.moment.steady_ns).is_some();
    for device in devices.into_values().filter(|d| !d.iter().any(has_clock)) {
        for (reading, n) in device.into_iter().zip(1u32..) {
            reading.moment.steady_ns = Some((f64::from(n) * seconds * 1e9) as u64);
        }
    }
}

/// The refusal of a line with a counter that an earlier line of the same reading has.
fn twice(text: &Text, line: Line<'_>, first: u64) -> InputError {
    let expected = format!("every counter once, but line {first} has it too");
    let error = text.error_at(line, expected);
    error.hint("a file has one reading: give later ones as files of their own, in order")
}

fn mismatch(source: &str, error: Mismatch) -> InputError {
    InputError::new(source, error.found, error.expected)
        .of(Class::OtherMachine)
        .hint("is this the right fabric?")
}

/// The refusal of counters without a value of a link of the fabric: the rows that name none, and sentences about what was
/// left out.
pub fn without_links(
    source: &str,
    rows: usize,
    mut left_out: Vec<String>,
    fabric: &Fabric,
) -> InputError {
    let found = match rows {
        0 if !left_out.is_empty() => "no row with a value of a link".into(),
        rows => {
            left_out.insert(0, "do the counters belong to this fabric?".into());
            format!("{rows} rows, none of which names a link of the fabric")
        }
    };
    let expected = format!("counters of {}", fabric.source());
    let error = InputError::new(source, found, expected).of(Class::OtherMachine);
    error.hint(left_out.join(" "))
}

/// Refuses counters of another machine and fills in missing settings.
fn finish(
    mut series: Series,
    source: &str,
    fabric: &Fabric,
    options: &CounterOptions,
) -> Result<Series, ObserveError> {
    let counts = series.counts_mut();
    if counts.iter().all(|c| c.matched == 0) {
        let rows: usize = counts.iter().map(|c| c.unmatched).sum();
        let left_out = counts.iter().flat_map(|c| c.left_out.sentences()).collect();
        return Err(without_links(source, rows, left_out, fabric).into());
    }
    if let Series::Increases(all) = &mut series {
        for increase in all {
            increase.window_seconds = increase.window_seconds.or(options.interval_seconds);
        }
    }
    Ok(series)
}

/// Increases that a file gives ready-made are compared with the links' speeds, as [`delta::increase`] does with readings.
fn drop_impossible(series: &mut Series, fabric: &Fabric) {
    let Series::Increases(all) = series else {
        return;
    };
    for increase in all {
        for link in fabric.link_ids() {
            for quantity in [Quantity::ReceivedBytes, Quantity::SentBytes] {
                let value = increase.get(quantity, link);
                let seconds = increase.window(quantity.side(), link);
                let Some((value, seconds)) = value.zip(seconds) else {
                    continue;
                };
                let nominal = fabric.link(link).nominal.0;
                if nominal > 0.0 && value > delta::most_believed(nominal, seconds) {
                    increase.lose(quantity, link, Missing::Reset);
                }
            }
        }
    }
}

/// Description of the origin of totals, for people.
fn source<'a>(texts: impl IntoIterator<Item = &'a Text>) -> String {
    let texts: Vec<&Text> = texts.into_iter().collect();
    match texts[..] {
        [] => "nothing".into(),
        [one] => one.file().into(),
        [first, .., last] => format!("from {} to {}", first.file(), last.file()),
    }
}

/// Content of a counter file.
enum Content {
    /// Totals of devices, at one or several times.
    Readings(Vec<Reading>),
    /// Part numbers of switches by GUID.
    Systems(Vec<(u64, String)>),
    /// Peers of named ports of switches.
    Ports(Vec<ports::Row>),
    /// Increases by link.
    Increases(Vec<Increase>),
}

impl Content {
    /// Reads a text; unused entries are counted in `left_out`.
    fn of(
        text: &Text,
        fabric: &Fabric,
        options: &CounterOptions,
        left_out: &mut LeftOut,
    ) -> Result<Self, ObserveError> {
        let node = options.node.as_deref();
        let read = Format::of(text)?.read;
        if !matches!(read, Read::Regions(_)) {
            without_regions(text.file(), options)?;
        }
        Ok(match read {
            Read::Increases(read) => Self::Increases(read(text, fabric, options)?),
            Read::Regions(read) => Self::Increases(vec![read(text, fabric, options.region)?]),
            Read::Systems(read) => Self::Systems(read(text, left_out)?),
            Read::Ports(read) => Self::Ports(read(text, left_out)?),
            Read::Readings(read) | Read::Devices(read) => {
                Self::Readings(read(text, node, left_out)?)
            }
        })
    }
}

/// The newest totals of one node in a file that is read repeatedly.
pub(crate) fn newest(text: &Text, node: &str) -> Result<Reading, InputError> {
    let Read::Readings(read) = Format::of(text)?.read else {
        let error = text.error("counters of many devices", format!("counters of {node}"));
        return Err(error.hint("hopbyte links FILE --fabric FABRIC reads them"));
    };
    // An agent sends only counters of links; the file's other lines are skipped on every read.
    let mut unused = LeftOut::default();
    let readings = read(text, Some(node), &mut unused)?;
    let nodes: BTreeSet<String> = readings.iter().map(|r| r.layout.node.clone()).collect();
    let ours = |r: &Reading| nodes.len() == 1 || r.layout.node == node;
    let mut ours = readings.into_iter().filter(ours);
    let Some(first) = ours.next() else {
        let few: Vec<&str> = nodes.iter().map(String::as_str).take(3).collect();
        let found = format!("counters of {} nodes ({} …)", nodes.len(), few.join(", "));
        let error = text.error(found, format!("counters of {node}"));
        let hint = "one node is read: --name (of an agent) or --counters-of names it; hopbyte links FILE --fabric FABRIC reads all";
        return Err(error.hint(hint));
    };
    ours.try_fold(first, |newest, next| {
        if newest.layout.source != next.layout.source {
            let found = format!("{} and {}", newest.layout.source, next.layout.source);
            let error = text.error(found, format!("one set of counters of {node}"));
            return Err(error.hint("a file each"));
        }
        let is_newer = next.moment.time_ns >= newest.moment.time_ns;
        Ok(if is_newer { next } else { newest })
    })
}
