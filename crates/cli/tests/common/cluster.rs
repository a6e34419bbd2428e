//! A store as a collector of a torus writes it, and an oracle that follows it, for tests and benches.

#![allow(clippy::unwrap_used, dead_code)]

use hopbyte_collect::block::{Arrival, Closing, Writer};
use hopbyte_collect::node::NodeState;
use hopbyte_collect::shape;
use hopbyte_collect::store::{Keeping, Store};
use hopbyte_collect::wire::{Header, Origin, Sampled, put_report};
use hopbyte_fabric::{Direction, Fabric, Quantity, RouterId};
use hopbyte_observe::counters::delta::Behaviour;
use hopbyte_observe::counters::reading::{Layout, Port};
use hopbyte_observe::counters::values::Values;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SECOND: u64 = 1_000_000_000;

/// Routers with equal reports: USED_BW of every link in tick `t` is [`level`] of `t`.
pub struct Cluster {
    store: Store,
    names: Vec<String>,
    introduced: bool,
    sequence: u64,
    /// Whether a counter of waiting is at its highest value.
    pub full: bool,
}

/// The used share of every link in a tick.
pub fn level(tick: u64) -> f64 {
    (tick % 997) as f64 / 1000.0
}

impl Cluster {
    /// Opens its store; routers with `silent` true never report.
    pub fn new(folder: &Path, fabric: &Fabric, silent: impl Fn(usize) -> bool) -> Self {
        let keeping = Keeping {
            seal: false,
            ..Keeping::default()
        };
        let routers = (0..fabric.routers().len()).filter(|&r| !silent(r));
        let name = |r: usize| fabric.router(RouterId(r as u32)).name.clone();
        Self {
            store: Store::open(folder, keeping).unwrap(),
            names: routers.map(name).collect(),
            introduced: false,
            sequence: 0,
            full: false,
        }
    }

    /// Stores a tick.
    pub fn tick(&mut self, tick: u64) {
        let mut layout = Layout::new("", "test");
        for d in 0..6 {
            let port = Port::Direction(Direction::of(d));
            layout.counter(&port, format!("used{d}"), Quantity::UsedRatio, 0.001);
        }
        if self.full {
            let port = Port::Direction(Direction::of(0));
            let waits = layout.counter(&port, "waits", Quantity::CreditStallCount, 1.0);
            waits.behaviour = Behaviour::sticky(32);
        }
        let mut shape_bytes = Vec::new();
        shape::put(&layout, &mut shape_bytes).unwrap();
        let mut writer = Writer::default();
        if !self.introduced {
            writer.shape(0, &shape_bytes);
            for (id, name) in (0..).zip(&self.names) {
                writer.node(id, &NodeState::new(name, 1, 1));
                writer.source(id, &Origin::default(), 0);
            }
            self.introduced = true;
        }
        self.sequence += 1;
        let header = Header {
            sequence: self.sequence,
            tick,
            time_ns: tick * SECOND,
            steady_ns: tick * SECOND,
            ..Header::default()
        };
        let mut values = Values::new(layout.counters.len());
        (0..layout.counters.len()).for_each(|i| values.set(i, Some(tick % 997)));
        if self.full {
            values.set(layout.counters.len() - 1, Some(u32::MAX.into()));
        }
        let mut body = Vec::new();
        put_report(&header, [Sampled::new(&values, None)], &mut body);
        for id in 0..self.names.len() as u32 {
            writer.report(id, Arrival::OnTime, &body);
        }
        let closing = Closing {
            tick,
            period_ns: SECOND,
            closed_ns: tick * SECOND,
            expected: self.names.len() as u64,
            reported: self.names.len() as u64,
            ..Closing::default()
        };
        let full = self.store.append(&closing, writer.close(&closing)).unwrap();
        self.introduced &= !full;
    }
}

/// Waits until something holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A running oracle; dropping it kills it.
pub struct Served {
    child: Child,
    /// Its address.
    pub url: String,
}

impl Served {
    /// Starts one and waits until it answers.
    pub fn start(program: &str, words: &[&str]) -> Self {
        let mut child = Command::new(program)
            .args(["--quiet", "oracle", "serve"])
            .args(words)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        let out = child.stdout.take().unwrap();
        BufReader::new(out).read_line(&mut url).unwrap();
        let url = url.trim().to_owned();
        Self { child, url }
    }
}

impl Served {
    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
