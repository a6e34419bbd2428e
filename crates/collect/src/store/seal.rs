//! Sealing of a log into Parquet: one file per kind of source, with a row per node and tick and a column per
//! counter; and one file with the closings of the ticks.
//!
//! Values are the device's totals, `NULL` if missing. Quantity, unit and width of each column are in the
//! file's metadata (`hopbyte.counters`, JSON).

use super::log::LogReader;
use crate::block::{Arrival, Closing, Cluster};
use crate::columns::{Output, failed, put, text, time, whole};
use crate::shape::quantity_name;
use hopbyte_observe::counters::reading::Layout;
use parquet::basic::Repetition;
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::schema::types::TypePtr;
use serde_json::json;
use std::io;
use std::path::{Path, PathBuf};

/// Maximum number of values held before a row group is written, over all columns of a file.
const MOST_VALUES: usize = 4 << 20;

/// Writes the Parquet files of a log beside it and returns their paths. Each is written under a temporary
/// name and renamed; the log is not modified.
pub fn seal(log: &Path) -> io::Result<Vec<PathBuf>> {
    let mut reader = LogReader::open(log)?;
    let mut tables: Vec<Option<Table>> = Vec::new();
    let mut ticks = Ticks::default();
    let mut names: Vec<String> = Vec::new();
    loop {
        let mut failure = None;
        let closing = reader.next_block(|cluster, node, arrival| {
            let filed = file(log, cluster, node, arrival, &mut tables, &mut names);
            failure = failure.take().or(filed.err());
        })?;
        if let Some(error) = failure {
            return Err(error);
        }
        let Some(closing) = closing else { break };
        ticks.add(&closing, &reader.cluster);
    }
    let mut written = Vec::new();
    for table in tables.into_iter().flatten() {
        written.push(table.finish()?);
    }
    written.push(ticks.write(log)?);
    Ok(written)
}

fn file(
    log: &Path,
    cluster: &Cluster,
    id: u32,
    arrival: Arrival,
    tables: &mut Vec<Option<Table>>,
    names: &mut Vec<String>,
) -> io::Result<()> {
    let Some(node) = cluster.node(id) else {
        return Ok(());
    };
    for held in node.sources.iter().flatten() {
        let shape = held.shape as usize;
        if tables.len() <= shape {
            tables.resize_with(shape + 1, || None);
        }
        let table = match &mut tables[shape] {
            Some(table) => table,
            none => {
                let layout = cluster.shapes.layout(held.shape);
                let name = file_name(&layout.source, names);
                none.insert(Table::create(log, &name, layout)?)
            }
        };
        let moment = node.moment(held);
        let time_ns = moment.time_ns.unwrap_or(node.header.time_ns);
        table.keys.push(Key {
            node: id,
            tick: node.header.tick,
            sequence: node.header.sequence,
            time_ns,
            arrival,
        });
        if table.names.len() <= id as usize {
            table.names.resize(id as usize + 1, ByteArray::from(""));
        }
        if table.names[id as usize].is_empty() {
            table.names[id as usize] = (*node.name).into();
        }
        table.values.extend(held.values.iter());
        if table.values.len() >= MOST_VALUES {
            table.flush()?;
        }
    }
    Ok(())
}

/// A unique file name for a source.
fn file_name(source: &str, names: &mut Vec<String>) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' {
            c
        } else {
            '_'
        }
    };
    let base: String = source.chars().map(plain).collect();
    let same = names.iter().filter(|n| **n == base).count();
    names.push(base.clone());
    if same == 0 {
        base
    } else {
        format!("{base}-{}", same + 1)
    }
}

struct Key {
    node: u32,
    tick: u64,
    sequence: u64,
    time_ns: u64,
    arrival: Arrival,
}

/// A file that is being written.
struct Table {
    output: Output,
    counters: usize,
    keys: Vec<Key>,
    values: Vec<Option<u64>>,
    names: Vec<ByteArray>,
}

impl Table {
    fn create(log: &Path, name: &str, layout: &Layout) -> io::Result<Self> {
        let mut fields = vec![
            text("node")?,
            whole("tick", Repetition::REQUIRED)?,
            time("time")?,
            whole("sequence", Repetition::REQUIRED)?,
            text("arrival")?,
        ];
        let mut about = serde_json::Map::new();
        for counter in &layout.counters {
            let port = &layout.ports[usize::from(counter.port)];
            let column = format!("{port}/{}", counter.name);
            fields.push(whole(&column, Repetition::OPTIONAL)?);
            about.insert(
                column,
                json!({
                    "quantity": quantity_name(counter.quantity),
                    "port": port.to_string(),
                    "factor": counter.factor,
                    "bits": counter.behaviour.bits,
                    "sticky": counter.behaviour.sticky,
                    "departures": counter.side == hopbyte_fabric::Side::Departures,
                }),
            );
        }
        let about = [
            ("hopbyte.source", layout.source.clone()),
            (
                "hopbyte.counters",
                serde_json::Value::Object(about).to_string(),
            ),
        ];
        Ok(Self {
            output: create(log, name, fields, &about)?,
            counters: layout.counters.len(),
            keys: Vec::new(),
            values: Vec::new(),
            names: Vec::new(),
        })
    }

    /// Writes a row group, sorted by node: a counter's differences are small in that order.
    fn flush(&mut self) -> io::Result<()> {
        if self.keys.is_empty() {
            return Ok(());
        }
        let mut order: Vec<usize> = (0..self.keys.len()).collect();
        order.sort_by_key(|&i| (self.keys[i].node, self.keys[i].sequence));
        let keys = || order.iter().map(|&i| &self.keys[i]);
        let mut group = self.output.writer.next_row_group().map_err(failed)?;
        let nodes: Vec<ByteArray> = keys()
            .map(|k| self.names[k.node as usize].clone())
            .collect();
        put::<ByteArrayType>(&mut group, &nodes, None)?;
        let numbers: [fn(&Key) -> u64; 3] = [|k| k.tick, |k| k.time_ns, |k| k.sequence];
        for number in numbers {
            let column: Vec<i64> = keys().map(|k| number(k) as i64).collect();
            put::<Int64Type>(&mut group, &column, None)?;
        }
        let arrivals: Vec<ByteArray> = keys().map(|k| arrival(k.arrival).into()).collect();
        put::<ByteArrayType>(&mut group, &arrivals, None)?;
        for counter in 0..self.counters {
            let column = || {
                order
                    .iter()
                    .map(|&i| self.values[i * self.counters + counter])
            };
            let known: Vec<i64> = column().flatten().map(|v| v as i64).collect();
            let levels: Vec<i16> = column().map(|v| i16::from(v.is_some())).collect();
            put::<Int64Type>(&mut group, &known, Some(&levels))?;
        }
        group.close().map_err(failed)?;
        self.keys.clear();
        self.values.clear();
        Ok(())
    }

    fn finish(mut self) -> io::Result<PathBuf> {
        self.flush()?;
        self.output.finish()
    }
}

/// Creates the Parquet file `name` of a log.
fn create(
    log: &Path,
    name: &str,
    fields: Vec<TypePtr>,
    about: &[(&str, String)],
) -> io::Result<Output> {
    Output::create(
        &log.with_extension(format!("{name}.parquet")),
        fields,
        about,
    )
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

    fn write(&self, log: &Path) -> io::Result<PathBuf> {
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
        let mut output = create(log, "ticks", fields, &[])?;
        let mut group = output.writer.next_row_group().map_err(failed)?;
        for column in &self.numbers {
            put::<Int64Type>(&mut group, column, None)?;
        }
        put::<Int64Type>(&mut group, &self.spread, Some(&self.spread_levels))?;
        for column in &self.lists {
            put::<ByteArrayType>(&mut group, column, None)?;
        }
        group.close().map_err(failed)?;
        output.finish()
    }
}
