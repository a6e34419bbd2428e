//! A source of counter files with one value each.

use super::files::Kept;
use super::places::{Clock, Places};
use super::source::{Sample, Source, Unreadable};
use crate::counters::reading::{Layout, Reading};
use hopbyte_fabric::LeftOut;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Samples between readings of states that rarely change and are expensive to query (rates, states).
const SELDOM: u32 = 10;

/// The files of a layout's counters.
#[derive(Debug)]
pub(super) struct Tree {
    clock: Clock,
    /// Files of the first counters, which are read every time.
    values: Vec<Kept>,
    /// Files of the last counters, which are read rarely.
    slow: Vec<Slow>,
    turn: u32,
}

impl Sample for Tree {
    fn sample(&mut self, reading: &mut Reading) -> Result<(), Unreadable> {
        reading.moment = self.clock.now();
        let mut known = 0;
        let mut stamp = None;
        for (i, file) in self.values.iter_mut().enumerate() {
            let value = file.stamped();
            known += usize::from(value.is_some());
            stamp = stamp.or(value.and_then(|v| v.time_ns));
            reading.set(i, value.map(|v| v.value));
        }
        // The first of a device's time stamps is used for all: the files are read in quick succession.
        reading.moment.time_ns = stamp.or(reading.moment.time_ns);
        let mut next = self.values.len();
        if self.turn == 0 || known == 0 {
            for slow in &mut self.slow {
                let value = (slow.read)(&mut slow.files);
                known += usize::from(value.is_some());
                (next..next + slow.counters).for_each(|i| reading.set(i, value));
                next += slow.counters;
            }
        }
        self.turn = (self.turn + 1) % SELDOM;
        if known == 0 {
            self.turn = 0;
            return Err(io::Error::from(io::ErrorKind::NotFound).into());
        }
        Ok(())
    }
}

/// A state that a device reports as text.
#[derive(Debug)]
pub(super) struct Slow {
    /// Its files.
    pub(super) files: Vec<Kept>,
    /// Number of consecutive counters that get this value.
    pub(super) counters: usize,
    /// Converts the text to the counter's value.
    pub(super) read: fn(&mut [Kept]) -> Option<u64>,
}

/// A layout with the files of its counters, under construction.
pub(super) struct Builder {
    pub(super) layout: Layout,
    pub(super) values: Vec<PathBuf>,
    pub(super) slow: Vec<Slow>,
    pub(super) left_out: LeftOut,
}

impl Builder {
    pub(super) fn new(places: &Places, source: &str) -> Self {
        Self {
            layout: Layout::new(&places.node, source),
            values: Vec::new(),
            slow: Vec::new(),
            left_out: LeftOut::default(),
        }
    }

    /// Moves gauges behind the counters, in the order of the samples.
    pub(super) fn gauges_last(&mut self) {
        let counters = std::mem::take(&mut self.layout.counters);
        let (fast, late): (Vec<_>, Vec<_>) =
            counters.into_iter().partition(|c| !c.quantity.is_gauge());
        self.layout.counters = fast.into_iter().chain(late).collect();
    }

    /// The source, if it has any counters.
    pub(super) fn build(self, places: &Places, place: String) -> Option<Source> {
        if self.values.is_empty() {
            return None;
        }
        let clock = places.clock();
        let values: Vec<Kept> = self.values.into_iter().map(Kept::new).collect();
        let late: usize = self.slow.iter().map(|s| s.counters).sum();
        debug_assert_eq!(values.len() + late, self.layout.counters.len());
        let tree = Tree {
            clock,
            values,
            slow: self.slow,
            turn: 0,
        };
        Some(Source {
            way: Box::new(tree),
            reading: Reading::new(Arc::new(self.layout), clock.now()),
            place,
            left_out: self.left_out,
        })
    }
}
