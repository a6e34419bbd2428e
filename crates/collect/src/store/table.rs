//! The tables of counters and of reports of a segment.

use super::disk::Disk;
use crate::columns::{Output, Runs, failed, number, put, text, time, whole};
use crate::node::{Held, NodeState};
use crate::shape::quantity_name;
use hopbyte_observe::counters::reading::Layout;
use parquet::basic::Repetition;
use parquet::data_type::Int64Type;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum number of values held before a row group is written.
const MOST_VALUES: usize = 2 << 20;
/// Maximum number of reports held before a row group is written.
const MOST_REPORTS: usize = 1 << 18;

/// Names of nodes by their number. A name may belong to another number later on.
#[derive(Debug, Default)]
struct Names(Vec<Option<Arc<str>>>);

impl Names {
    fn note(&mut self, id: u32, name: &str) {
        let id = id as usize;
        if self.0.len() <= id {
            self.0.resize(id + 1, None);
        }
        if self.0[id].as_deref() != Some(name) {
            self.0[id] = Some(name.into());
        }
    }

    /// A column's numbers of all nodes.
    fn numbers(&self, column: &mut Runs) -> Vec<u32> {
        let words = self
            .0
            .iter()
            .map(|n| n.as_deref().map_or(0, |name| column.word(name)));
        words.collect()
    }
}

/// The reports of the sources of one layout.
#[derive(Debug)]
struct Group {
    layout: Arc<Layout>,
    /// Node, sequence and tick of each report.
    keys: Vec<(u32, u64, u64)>,
    values: Vec<Option<u64>>,
}

/// The table of counters: a row per node, source, port, counter and tick.
pub(super) struct Counters {
    pub(super) output: Output,
    names: Names,
    /// By the address of the layout, which the group keeps.
    groups: HashMap<*const Layout, usize>,
    held: Vec<Group>,
    values: usize,
    period_ns: u64,
}

/// Columns of few distinct values, in the order of the file.
const WORDS: [&str; 5] = ["node", "source", "port", "counter", "quantity"];

impl Counters {
    pub fn create(
        disk: &dyn Disk,
        log: &Path,
        period_ns: u64,
        about: &[(&str, String)],
    ) -> io::Result<Self> {
        let mut fields = WORDS
            .map(text)
            .into_iter()
            .collect::<io::Result<Vec<_>>>()?;
        fields.push(number("factor")?);
        fields.push(whole("bits", Repetition::REQUIRED)?);
        fields.push(whole("tick", Repetition::REQUIRED)?);
        fields.push(time("time")?);
        fields.push(whole("value", Repetition::OPTIONAL)?);
        let path = log.with_extension("counters.parquet");
        Ok(Self {
            output: Output::create(disk, &path, fields, about)?,
            names: Names::default(),
            groups: HashMap::new(),
            held: Vec::new(),
            values: 0,
            period_ns,
        })
    }

    /// Adds the latest report of a source.
    pub fn add(
        &mut self,
        id: u32,
        node: &NodeState,
        held: &Held,
        layout: &Arc<Layout>,
    ) -> io::Result<()> {
        self.names.note(id, &node.name);
        let at = *self.groups.entry(Arc::as_ptr(layout)).or_insert_with(|| {
            self.held.push(Group {
                layout: Arc::clone(layout),
                keys: Vec::new(),
                values: Vec::new(),
            });
            self.held.len() - 1
        });
        let group = &mut self.held[at];
        group
            .keys
            .push((id, node.header.sequence, node.header.tick));
        group.values.extend(held.values.iter());
        self.values += held.values.len();
        if self.values >= MOST_VALUES {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes a row group, counter by counter, then by node and tick: names come in long runs, and a counter's
    /// differences are small.
    fn flush(&mut self) -> io::Result<()> {
        if self.values == 0 {
            return Ok(());
        }
        let mut words: [Runs; 5] = Default::default();
        let (mut factors, mut bits) = (Runs::default(), Runs::default());
        let nodes = self.names.numbers(&mut words[0]);
        let mut numbers: [Vec<i64>; 2] = Default::default();
        let (mut values, mut levels) = (Vec::new(), Vec::new());
        for group in &mut self.held {
            let counters = &group.layout.counters;
            let mut order: Vec<usize> = (0..group.keys.len()).collect();
            order.sort_by_key(|&i| group.keys[i]);
            let rows = order.len() as u32;
            let source = words[1].word(&group.layout.source);
            for (counter, c) in counters.iter().zip(0..) {
                let port = group.layout.ports[usize::from(counter.port)].to_string();
                let names = [port, counter.name.clone(), quantity_name(counter.quantity)];
                for (column, name) in words[2..].iter_mut().zip(names) {
                    let word = column.word(&name);
                    column.push(word, rows);
                }
                words[1].push(source, rows);
                let factor = factors.eight(counter.factor.to_le_bytes());
                factors.push(factor, rows);
                let width = bits.eight(u64::from(counter.behaviour.bits).to_le_bytes());
                bits.push(width, rows);
                for &i in &order {
                    words[0].push(nodes[group.keys[i].0 as usize], 1);
                    let tick = group.keys[i].2;
                    numbers[0].push(tick as i64);
                    numbers[1].push(tick.saturating_mul(self.period_ns) as i64);
                    let value = group.values[i * counters.len() + c];
                    values.extend(value.map(|v| v as i64));
                    levels.push(i16::from(value.is_some()));
                }
            }
            group.keys.clear();
            group.values.clear();
        }
        self.values = 0;
        let columns: Vec<_> = self.output.writer.schema_descr().columns().to_vec();
        let mut group = self.output.writer.next_row_group().map_err(failed)?;
        let few = words.iter().chain([&factors, &bits]);
        for (runs, column) in few.zip(columns) {
            runs.write(&mut group, column)?;
        }
        for column in &numbers {
            put::<Int64Type>(&mut group, column, None)?;
        }
        put::<Int64Type>(&mut group, &values, Some(&levels))?;
        group.close().map_err(failed)?;
        Ok(())
    }

    pub fn finish(mut self, disk: &dyn Disk) -> io::Result<PathBuf> {
        let filled = self.flush();
        self.output.finish(disk, filled)
    }
}

/// The table of reports: a row per node, source and tick.
pub(super) struct Reports {
    pub(super) output: Output,
    words: [Runs; 3],
    numbers: [Vec<i64>; 3],
}

impl Reports {
    pub fn create(disk: &dyn Disk, log: &Path, about: &[(&str, String)]) -> io::Result<Self> {
        let fields = vec![
            text("node")?,
            text("source")?,
            text("arrival")?,
            whole("tick", Repetition::REQUIRED)?,
            time("time")?,
            whole("sequence", Repetition::REQUIRED)?,
        ];
        let path = log.with_extension("reports.parquet");
        Ok(Self {
            output: Output::create(disk, &path, fields, about)?,
            words: Default::default(),
            numbers: Default::default(),
        })
    }

    /// Adds the latest report of a source.
    pub fn add(
        &mut self,
        node: &NodeState,
        held: &Held,
        layout: &Layout,
        arrival: &str,
    ) -> io::Result<()> {
        let words = [&*node.name, &*layout.source, arrival];
        for (column, word) in self.words.iter_mut().zip(words) {
            let number = column.word(word);
            column.push(number, 1);
        }
        let time_ns = node.moment(held).time_ns.unwrap_or(node.header.time_ns);
        let numbers = [node.header.tick, time_ns, node.header.sequence];
        for (column, number) in self.numbers.iter_mut().zip(numbers) {
            column.push(number as i64);
        }
        if self.numbers[0].len() >= MOST_REPORTS {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let words = std::mem::take(&mut self.words);
        let numbers = std::mem::take(&mut self.numbers);
        if numbers[0].is_empty() {
            return Ok(());
        }
        let columns: Vec<_> = self.output.writer.schema_descr().columns().to_vec();
        let mut group = self.output.writer.next_row_group().map_err(failed)?;
        for (runs, column) in words.iter().zip(columns) {
            runs.write(&mut group, column)?;
        }
        for column in &numbers {
            put::<Int64Type>(&mut group, column, None)?;
        }
        group.close().map_err(failed)?;
        Ok(())
    }

    pub fn finish(mut self, disk: &dyn Disk) -> io::Result<PathBuf> {
        let filled = self.flush();
        self.output.finish(disk, filled)
    }
}
