//! Agents and a collector without sockets, whose values are known from node and sequence number; and the content of a
//! store, compared with these values.

use hopbyte_collect::gather::{Channel, Gathering, Rules};
use hopbyte_collect::store::{Damage, LogReader, Store, logs};
use hopbyte_collect::wire::{Header, Hello, Sampled, put_report, put_source};
use hopbyte_fabric::Quantity;
use hopbyte_observe::counters::reading::{Layout, Port};
use hopbyte_observe::counters::values::Values;
use std::collections::BTreeMap;
use std::path::Path;

pub const SECOND: u64 = 1_000_000_000;

/// The value of a counter.
fn value(node: u64, sequence: u64, counter: u64) -> u64 {
    5_000_000 * node + 1_000 * sequence * (counter + 1) + sequence * sequence % 17
}

struct Node {
    hello: Hello,
    id: u32,
    sequence: u64,
    /// Sequence number and tick of the reports that were not acknowledged.
    pending: Vec<(u64, u64)>,
    base: Option<Values>,
    acknowledged: u64,
}

/// Agents, and the collector's state.
pub struct Fleet {
    nodes: Vec<Node>,
    counters: usize,
    gathering: Gathering,
    /// Whether the store is failing, as the server keeps it.
    failing: bool,
}

impl Fleet {
    pub fn new(nodes: u64, counters: usize, now_ns: u64) -> Self {
        let node = |n: u64| Node {
            hello: Hello {
                node: format!("n{n}"),
                boot: 1,
                start: 100 + n,
                period_ns: SECOND,
            },
            id: 0,
            sequence: 0,
            pending: Vec::new(),
            base: None,
            acknowledged: 0,
        };
        Self {
            nodes: (0..nodes).map(node).collect(),
            counters,
            gathering: Gathering::new(Rules::default(), now_ns),
            failing: false,
        }
    }

    /// The collector starts with a store, and all agents connect.
    pub fn start(&mut self, store: &Store, now_ns: u64) {
        self.gathering = Gathering::new(Rules::default(), now_ns);
        self.failing = false;
        store
            .remembered()
            .for_each(|node| self.gathering.remember(node));
        self.connect(now_ns);
    }

    /// All agents connect, and receive the number of their last stored report.
    fn connect(&mut self, now_ns: u64) {
        for n in 0..self.nodes.len() {
            let hello = self.nodes[n].hello.clone();
            let (id, kept) = self
                .gathering
                .hello(&hello, Channel::Stream(n as u32), now_ns)
                .unwrap();
            let mut layout = Layout::new("", "test");
            let port = Port::Named("eth0".into());
            for c in 0..self.counters {
                layout.counter(&port, format!("c{c}"), Quantity::ReceivedBytes, 1.0);
            }
            let mut body = Vec::new();
            put_source(0, None, &layout, &mut body).unwrap();
            self.gathering.source(id, &body).unwrap();
            let node = &mut self.nodes[n];
            node.pending.retain(|p| p.0 > kept);
            (node.id, node.base) = (id, None);
            for (sequence, tick) in node.pending.clone() {
                self.send(n, sequence, tick, now_ns);
            }
        }
    }

    fn send(&mut self, n: usize, sequence: u64, tick: u64, now_ns: u64) {
        let node = &mut self.nodes[n];
        let mut values = Values::new(self.counters);
        for c in 0..self.counters {
            values.set(c, Some(value(n as u64, sequence, c as u64)));
        }
        let header = Header {
            sequence,
            tick,
            time_ns: tick * SECOND,
            steady_ns: sequence * SECOND,
            ..Header::default()
        };
        let mut body = Vec::new();
        put_report(
            &header,
            [Sampled::new(&values, node.base.as_ref())],
            &mut body,
        );
        node.base = Some(values);
        self.gathering.report(node.id, &body, now_ns).unwrap();
    }

    /// All agents report, and the collector closes a tick. Returns whether it is acknowledged.
    pub fn tick(&mut self, store: &mut Store, now_ns: u64) -> bool {
        for n in 0..self.nodes.len() {
            let node = &mut self.nodes[n];
            node.sequence += 1;
            let (sequence, tick) = (node.sequence, now_ns / SECOND);
            node.pending.push((sequence, tick));
            self.send(n, sequence, tick, now_ns);
        }
        let (closing, block) = self.gathering.close(now_ns);
        if self.failing {
            let recovered = store.probe(&closing, block).is_ok();
            self.gathering.begin_segment();
            self.gathering.next(now_ns, false);
            if recovered {
                self.failing = false;
                self.connect(now_ns);
            }
            return false;
        }
        let stored = store.append(&closing, block);
        self.failing = stored.is_err();
        if stored.as_ref().is_ok_and(|restart| *restart) {
            self.gathering.begin_segment();
        }
        self.gathering.next(now_ns, stored.is_ok());
        if stored.is_ok() {
            for node in &mut self.nodes {
                node.acknowledged = node.pending.last().map_or(node.acknowledged, |p| p.0);
                node.pending.clear();
            }
        }
        stored.is_ok()
    }

    /// The highest acknowledged sequence number of each node.
    pub fn acknowledged(&self) -> Vec<u64> {
        self.nodes.iter().map(|n| n.acknowledged).collect()
    }
}

/// Content of a store.
#[derive(Debug, Default)]
pub struct Content {
    /// How often each report occurs, by node and sequence number, and whether with values.
    pub reports: BTreeMap<(u64, u64), (u32, bool)>,
    pub ticks: Vec<u64>,
    pub damage: Damage,
}

/// Reads all of a store.
pub fn content(folder: &Path) -> Content {
    let mut content = Content::default();
    for log in logs(folder).unwrap() {
        read(&log, &mut content);
    }
    content
}

/// Reads a log. Values are right, or missing.
pub fn read(log: &Path, content: &mut Content) {
    let Ok(mut reader) = LogReader::open(log) else {
        content.damage.unread += 1;
        return;
    };
    while let Some(closing) = reader
        .next_block(|cluster, id, _| {
            let node = cluster.node(id).unwrap();
            let (n, sequence) = (node.start - 100, node.header.sequence);
            let readings: Vec<_> = node.readings(&cluster.shapes).collect();
            let values = readings.iter().flat_map(|r| r.values.iter());
            let known: Vec<(usize, u64)> = values
                .enumerate()
                .filter_map(|(c, v)| Some((c, v?)))
                .collect();
            for (c, found) in &known {
                assert_eq!(
                    *found,
                    value(n, sequence, *c as u64),
                    "n{n}, report {sequence}"
                );
            }
            let entry = content.reports.entry((n, sequence)).or_default();
            entry.0 += 1;
            entry.1 |= !known.is_empty();
        })
        .unwrap()
    {
        content.ticks.push(closing.tick);
    }
    content.damage.add(reader.damage());
}

impl Content {
    /// Every acknowledged report is there, with its values.
    pub fn has_all(&self, acknowledged: &[u64], what: &str) {
        for (n, &last) in (0..).zip(acknowledged) {
            for sequence in 1..=last {
                let found = self.reports.get(&(n, sequence));
                let is_there = found.is_some_and(|f| f.1);
                assert!(
                    is_there,
                    "{what}: n{n}, report {sequence} of {last}: {self:?}"
                );
            }
        }
    }

    /// No report is there twice.
    pub fn has_none_twice(&self, what: &str) {
        let twice = self.reports.iter().find(|(_, found)| found.0 > 1);
        assert_eq!(twice, None, "{what}");
    }
}
