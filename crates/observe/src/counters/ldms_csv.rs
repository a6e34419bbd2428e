//! LDMS `store_csv` files: a header of metric names, a row for every sample of every producer.
//!
//! `#Time,Time_usec,ProducerName,component_id,job_id,app_id,METRIC[#INSTANCE]…`; Time is seconds with
//! microseconds, or (format 1, `#Time_msec`) milliseconds with the microseconds beside them. Version 2 of LDMS has no producer but a
//! component, which is the nid on Cray machines: `#Time, Time_usec, CompId, METRIC…`, or a pair `METRIC.CompId,
//! METRIC.value` for every metric. The release of Blue Waters has neither: rows are of the router at
//! `nettopo_mesh_coord_X`, `_Y` and `_Z`, and its data files have no header. Metrics of a link are
//! gpcdr's (`X+_traffic (B)`, `traffic_012`), register names, and `NAME#INTERFACE` of Linux interfaces and
//! InfiniBand ports (`rx_bytes#eth0`, `port_xmit_data#mlx5_0.1`). Samplers of lists of records (`procnetdev2`,
//! `slingshot_metrics`) have a row for each record instead, with its interface in the column `name`. Producers are
//! interleaved.

use super::delta::Moment;
use super::end::is_unended;
use super::names::Cassini;
use super::reading::{Layout, Port, Reading};
use super::{gpcdr, names, registers};
use crate::text::{Line, Text, cells, decimal, lossy, whole};
use hopbyte_fabric::{InputError, LeftOut};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Whether a line is the header of such a file.
pub(super) fn is_header(line: &[u8]) -> bool {
    let mut names = cells(line);
    let time = names.next();
    let names: Vec<String> = names.map(|n| lossy(n).into_owned()).collect();
    let has = |wanted: fn(&str) -> bool| names.iter().any(|n| wanted(n));
    let time = time.map(|t| t.strip_prefix(b"#").unwrap_or(t));
    matches!(time, Some(b"Time" | MILLISECONDS | b"timestamp"))
        && (has(|n| NODES.contains(&n) || n.ends_with(".CompId")) || has_place(&names))
}

/// Whether the header gives a router's coordinate.
fn has_place(names: &[String]) -> bool {
    let mut found = [false; 3];
    for dim in names.iter().filter_map(|n| gpcdr::coordinate(n)) {
        found[dim] = true;
    }
    found == [true; 3]
}

/// Header of the Gemini metrics in the release of Blue Waters (doi 10.13012/B2IDB-2921318_V1), whose data files have
/// none: the columns of the `HEADER` beside them.
fn released_header() -> String {
    let mut header = "#Time".to_owned();
    for metric in ["CREDIT_STALL", "INQ_STALL", "USED_BW"] {
        for direction in ["Z-", "Z+", "Y-", "Y+", "X-", "X+"] {
            header += &format!(",{direction}_SAMPLE_GEMINI_LINK_{metric} (% x1e6)");
        }
    }
    header + ",nettopo_mesh_coord_Z,nettopo_mesh_coord_Y,nettopo_mesh_coord_X"
}

/// Whether a line is a row of that release: a time since 1970, 18 percentages, and a coordinate below 1024.
pub(super) fn is_released(line: &[u8]) -> bool {
    let row: Vec<&[u8]> = cells(line).collect();
    let [time, values @ .., z, y, x] = &row[..] else {
        return false;
    };
    time_ns(time, None).is_some_and(|ns| ns > 1_000_000_000_000_000_000)
        && values.len() == 18
        && values.iter().all(|v| whole(v).is_some())
        && [z, y, x].iter().all(|c| whole(c).is_some_and(|c| c < 1024))
}

/// All rows.
pub(super) fn readings(text: &Text, left_out: &mut LeftOut) -> Result<Vec<Reading>, InputError> {
    let mut lines = text.lines().filter(|l| !l.trimmed().is_empty()).peekable();
    let released = released_header();
    let first = *lines
        .peek()
        .ok_or_else(|| text.error("nothing", "a header of metric names"))?;
    let header = if is_released(first.trimmed()) {
        Line {
            number: first.number,
            bytes: released.as_bytes(),
        }
    } else {
        lines.next();
        if is_unended(text, first) {
            let error = text.error_at(first, "a header with a line end");
            return Err(error.hint("the file was cut, or is being written"));
        }
        first
    };
    let columns = Columns::parse(text, header, left_out)?;
    let mut layouts: HashMap<String, Arc<Layout>> = HashMap::new();
    let mut readings: Vec<Reading> = Vec::new();
    // Both nodes of a Gemini report its router: one row for each time. Stores write a row again that they sent twice.
    let mut last: HashMap<(String, String), usize> = HashMap::new();
    let (mut goes_on, mut first_back) = (false, None);
    for line in lines {
        if is_header(line.trimmed()) {
            // Stores that roll over repeat the header.
            continue;
        }
        if is_unended(text, line) {
            left_out.note("unfinished last row", format!("line {}", line.number));
            continue;
        }
        let reading = columns.reading(text, line, &mut layouts)?;
        let (node, source) = (&reading.layout.node, &reading.layout.source);
        let device = (node.clone(), source.clone());
        let what = ["node", "router"][usize::from(columns.by_place)];
        let before = last.get(&device).map(|&before| &readings[before]);
        let same = before.filter(|before| before.moment == reading.moment);
        if same.is_some_and(|b| columns.by_place || b.values == reading.values) {
            let why = format!("row of the same {what} and time as the one before");
            left_out.note(why, node.as_str());
            continue;
        }
        // Sorted among the others, counts after the clock was set back would look like counters that were reset.
        let is_back = before.is_some_and(|b| b.moment.time_ns > reading.moment.time_ns);
        goes_on |= before.is_some() && !is_back;
        if is_back && columns.counts() {
            let why = format!(
                "row with an earlier time than the one before it of its {what} (the clock was set back, or rows are not in order)"
            );
            left_out.note(why, format!("{node}, line {}", line.number));
            first_back.get_or_insert(line);
            continue;
        }
        last.insert(device, readings.len());
        readings.push(reading);
    }
    if let Some(line) = first_back.filter(|_| !goes_on) {
        let error = text.error_at(line, "rows in the order of time, not the newest first");
        return Err(error.hint("sort the rows below the header, for example with sort -n -s"));
    }
    if readings.is_empty() {
        left_out.note(NO_ROWS, text.file());
    }
    Ok(readings)
}

/// Remark on a file of a header alone: the release of Blue Waters has its header in a file of its own.
pub(super) const NO_ROWS: &str = "file with a header and no rows";

/// Column of the producer, or of the component, which is the nid: version 2 has no producers.
const NODES: [&str; 5] = [
    "ProducerName",
    "producer",
    "CompId",
    "comp_id",
    "component_id",
];
/// Name of the first column with `time_format=1`: milliseconds, and the microseconds above them beside.
const MILLISECONDS: &[u8] = b"Time_msec";

/// Column of the interface of a row, in files with a row for each record.
const RECORD: &str = "name";
/// Its port, before a row names it.
const UNNAMED: Port = Port::Named(String::new());

/// Columns that describe the row itself, beside those of [`NODES`].
const ABOUT: [&str; 10] = [
    "#Time",
    "Time",
    "Time_usec",
    "#Time_msec",
    "Time_msec",
    "#timestamp",
    "timestamp",
    "job_id",
    "app_id",
    "instance",
];

/// Column positions.
struct Columns {
    count: usize,
    /// Column that names the producer; `None` if rows are named by their router's coordinate.
    producer: Option<usize>,
    by_place: bool,
    /// Column of a row's interface, of which all counters are.
    record: Option<usize>,
    /// Nanoseconds of a unit of the second column, if that is the fraction of the time.
    fraction: Option<u64>,
    /// Whether the time is in milliseconds.
    millis: bool,
    /// Counters of a producer, without the producer's name.
    layout: Layout,
    /// Column of each counter.
    of: Vec<usize>,
    /// Columns of a router's coordinate.
    coordinate: [Option<usize>; 3],
}

impl Columns {
    fn parse(text: &Text, line: Line<'_>, left_out: &mut LeftOut) -> Result<Self, InputError> {
        let owned: Vec<String> = cells(line.bytes).map(|c| lossy(c).into_owned()).collect();
        let all: Vec<&str> = owned.iter().map(String::as_str).collect();
        if !is_header(line.trimmed()) {
            return Err(text.error_at(line, "#Time,Time_usec,ProducerName,…"));
        }
        let column = |wanted: fn(&str) -> bool| all.iter().position(|n| wanted(n));
        let named = |wanted: &&str| all.iter().position(|n| n == wanted);
        let producer = NODES
            .iter()
            .find_map(named)
            .or_else(|| column(|n| n.ends_with(".CompId")));
        let record = named(&RECORD);
        let fraction = all.get(1).and_then(|n| n.strip_prefix("Time_"));
        let fraction = fraction.map(|unit| fraction_ns(unit).unwrap_or_else(|| largest(text)));
        let mut layout = Layout::new("", "ldms");
        let mut of = registers::add(&mut layout, &all);
        let mut used: HashSet<usize> = of.iter().copied().collect();
        let mut coordinate = [None; 3];
        for (i, name) in all.iter().enumerate() {
            if let Some(dim) = gpcdr::coordinate(name) {
                coordinate[dim] = Some(i);
                used.insert(i);
                continue;
            }
            // `NAME.value` beside `NAME.CompId`.
            let name = &name.strip_suffix(".value").unwrap_or(name);
            let (metric, unit) = name.split_once(" (").unwrap_or((name, ""));
            let added = gpcdr::add(&mut layout, metric, unit).is_ok()
                || instance(&mut layout, name).is_some()
                || (record.is_some() && of_record(&mut layout, name));
            if added {
                of.push(i);
                used.insert(i);
            }
        }
        let about = |name: &str| {
            let is_node = NODES.contains(&name) || name.ends_with(".CompId");
            is_node || ABOUT.contains(&name) || name == RECORD
        };
        let unused = |(i, name): &(usize, &&str)| !used.contains(i) && !about(name);
        for (_, name) in all.iter().enumerate().filter(unused) {
            left_out.note("column that belongs to no link", *name);
        }
        let mut once = HashSet::new();
        if let Some(&again) = of.iter().find(|&&i| !once.insert(all[i])) {
            let expected = "every metric once in the header";
            return Err(text.error_in(line, all[again].as_bytes(), expected));
        }
        if of.is_empty() {
            return Err(text
                .error_at(line, "metrics of a link")
                .hint("known names: gpcdr's (X+_traffic, traffic_012), registers (GM_…, AR_RTR_…), rx_bytes#eth0 and port_xmit_data#mlx5_0.1; rx_bytes beside a column 'name'"));
        }
        let record = record.filter(|_| layout.ports.contains(&UNNAMED));
        Ok(Self {
            count: all.len(),
            producer,
            by_place: producer.is_none(),
            record,
            fraction,
            millis: all
                .first()
                .is_some_and(|t| t.as_bytes().ends_with(MILLISECONDS)),
            layout,
            of,
            coordinate,
        })
    }

    /// Whether it has counters, not ratios and states alone.
    fn counts(&self) -> bool {
        let mut counters = self.layout.counters.iter();
        counters.any(|c| !c.quantity.is_gauge())
    }

    fn reading(
        &self,
        text: &Text,
        line: Line<'_>,
        layouts: &mut HashMap<String, Arc<Layout>>,
    ) -> Result<Reading, InputError> {
        let row: Vec<&[u8]> = cells(line.bytes).collect();
        if row.len() != self.count {
            let found = format!("{} cells", row.len());
            let expected = format!("{}, as in the header", self.count);
            return Err(text.error(found, expected).at(line.number));
        }
        let beside = self.fraction.map(|unit| (row[1], unit));
        let time = match self.millis {
            true => millis_ns(row[0], beside),
            false => time_ns(row[0], beside),
        };
        let time = time.ok_or_else(|| text.error_in(line, row[0], "seconds since 1970"))?;
        let producer = match self.producer {
            Some(column) => lossy(row[column]),
            None => {
                let at: Vec<_> = self
                    .coordinate
                    .iter()
                    .flatten()
                    .map(|&c| lossy(row[c]))
                    .collect();
                format!("({})", at.join(",")).into()
            }
        };
        let record = self.record.map(|column| lossy(row[column]));
        let key = match &record {
            Some(name) => format!("{producer} {name}"),
            None => producer.clone().into_owned(),
        };
        let layout = match layouts.get(&key) {
            Some(layout) => layout.clone(),
            None => {
                let number = |i: usize| whole(row[i]).and_then(|n| u32::try_from(n).ok());
                let at: Option<Vec<u32>> =
                    self.coordinate.iter().map(|c| c.and_then(number)).collect();
                let mut layout = Layout {
                    node: producer.into_owned(),
                    coordinate: at,
                    ..self.layout.clone()
                };
                if let Some(name) = record {
                    layout.source = format!("{} {name}", layout.source);
                    if let Some(port) = layout.ports.iter_mut().find(|p| **p == UNNAMED) {
                        *port = Port::Named(name.into_owned());
                    }
                }
                let layout = Arc::new(layout);
                layouts.insert(key, layout.clone());
                layout
            }
        };
        let mut reading = Reading::new(layout, Moment::at_ns(time));
        for (counter, &column) in self.of.iter().enumerate() {
            let cell = row[column];
            if cell.is_empty() {
                continue;
            }
            let value =
                whole(cell).ok_or_else(|| text.error_in(line, cell, "a count (a whole number)"))?;
            reading.set(counter, Some(value));
        }
        Ok(reading)
    }
}

/// Adds `rx_bytes#eth0` or `port_xmit_data#mlx5_0.1`.
pub(super) fn instance(layout: &mut Layout, name: &str) -> Option<()> {
    let (metric, device) = name.split_once('#')?;
    if let Some((device, port)) = device.rsplit_once('.') {
        let metric = metric.strip_prefix("ib.").unwrap_or(metric);
        let port = Port::Named(format!("{device}/{port}"));
        if names::infiniband(layout, &port, metric, false).is_some() {
            return Some(());
        }
    }
    names::interface(layout, &Port::Named(device.to_owned()), metric).map(|_| ())
}

/// Adds a counter of the interface that each row names. Pauses of Slingshot are in cycles of an unknown clock.
fn of_record(layout: &mut Layout, name: &str) -> bool {
    let is_time = name.contains("pause") || name.contains("stall");
    names::interface(layout, &UNNAMED, name).is_some()
        || (!is_time && names::cxi(layout, &UNNAMED, name, Cassini::ONE).is_some())
}

/// Nanoseconds of a unit by its name in the header, as in `Time_usec`.
fn fraction_ns(unit: &str) -> Option<u64> {
    Some(match unit {
        "msec" | "ms" => 1_000_000,
        "usec" | "us" => 1000,
        "nsec" | "ns" => 1,
        _ => return None,
    })
}

/// The same for a header without a known unit: the largest that keeps all fractions of the file below a second.
fn largest(text: &Text) -> u64 {
    let values = text.lines().filter_map(|line| {
        let cell = cells(line.trimmed()).nth(1)?;
        decimal(cell)
    });
    match values.max() {
        None | Some(0..1000) => 1_000_000,
        Some(1000..1_000_000) => 1000,
        Some(_) => 1,
    }
}

/// The fraction of a time: the next column, and the nanoseconds of its unit.
type Beside<'a> = Option<(&'a [u8], u64)>;

fn beside_ns(beside: Beside<'_>) -> Option<u64> {
    match beside {
        None | Some((b"", _)) => Some(0),
        Some((cell, unit)) => decimal(cell)?.checked_mul(unit),
    }
}

/// `1558387831.001798` (format 0), or seconds with the fraction of the next column.
fn time_ns(time: &[u8], beside: Beside<'_>) -> Option<u64> {
    let (seconds, fraction) = match time.iter().position(|&b| b == b'.') {
        Some(dot) => (&time[..dot], &time[dot + 1..]),
        None => (time, &[][..]),
    };
    let seconds = decimal(seconds)?.checked_mul(1_000_000_000)?;
    let nanos = match fraction.len() {
        0 => beside_ns(beside)?,
        n @ 1..=9 => decimal(fraction)? * 10u64.pow(9 - n as u32),
        _ => return None,
    };
    (nanos < 1_000_000_000).then_some(())?;
    seconds.checked_add(nanos)
}

/// Milliseconds, and the microseconds above them.
fn millis_ns(time: &[u8], beside: Beside<'_>) -> Option<u64> {
    let nanos = decimal(time)?.checked_mul(1_000_000)?;
    nanos.checked_add(beside_ns(beside)?)
}

#[cfg(test)]
mod tests;
