//! Link loads, and their changes by a swap.

use crate::arrangement::Arrangement;
use crate::graph::Graph;
use crate::paths::Paths;
use std::ops::Range;

/// The change of every load by a swap, by index of the load.
pub(crate) struct Change {
    pub(crate) delta: Vec<f64>,
    pub(crate) mark: Vec<bool>,
    pub(crate) touched: Vec<u32>,
}

impl Change {
    pub(crate) fn new(loads: usize) -> Self {
        Self {
            delta: vec![0.0; loads],
            mark: vec![false; loads],
            touched: Vec::new(),
        }
    }

    #[inline]
    pub(crate) fn put(&mut self, number: usize, bytes: f64) {
        if !self.mark[number] {
            self.mark[number] = true;
            self.touched.push(number as u32);
        }
        self.delta[number] += bytes;
    }

    #[inline]
    pub(crate) fn add<P: Paths>(&mut self, paths: &P, from: u32, to: u32, bytes: f64) {
        paths.each(from, to, |link, share| self.put(link, bytes * share));
    }

    pub(crate) fn clear(&mut self) {
        for &link in &self.touched {
            self.delta[link as usize] = 0.0;
            self.mark[link as usize] = false;
        }
        self.touched.clear();
    }
}

/// Adds the traffic of some units to the link loads.
pub(crate) fn count<P: Paths>(
    paths: &P,
    graph: &Graph,
    at: &Arrangement<'_>,
    units: Range<usize>,
    load: &mut [f64],
) {
    for unit in units.start as u32..units.end as u32 {
        let from = at.place(unit);
        for edge in graph.edges(unit).iter().filter(|e| e.out > 0.0) {
            let (to, bytes) = (at.place(edge.to), f64::from(edge.out));
            paths.each(from, to, |l, share| load[l] += bytes * share);
        }
    }
}
