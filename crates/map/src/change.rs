//! Link loads, and their changes by a swap.

use crate::graph::Graph;
use crate::paths::Paths;
use crate::threads::each;
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

/// Number of edges from which loads are counted on all threads, and number of partial counts.
const COUNTED: (usize, usize) = (1 << 18, 8);

/// Whether a graph is large enough to be counted on all threads.
pub(crate) fn is_large(graph: &Graph) -> bool {
    graph.ends() >= COUNTED.0
}

/// Sets the link loads to those of the traffic between units, with `place` giving the place of each.
pub(crate) fn count<P: Paths>(
    paths: &P,
    graph: &Graph,
    place: &(impl Fn(u32) -> u32 + Sync),
    load: &mut [f64],
) {
    let units = graph.units();
    load.fill(0.0);
    if !is_large(graph) {
        add(paths, graph, place, 0..units, load);
        return;
    }
    let part = units.div_ceil(COUNTED.1);
    let parts = each(COUNTED.1, &|i| {
        let mut load = vec![0.0; load.len()];
        let range = (i * part).min(units)..((i + 1) * part).min(units);
        add(paths, graph, place, range, &mut load);
        load
    });
    for (link, load) in load.iter_mut().enumerate() {
        *load = parts.iter().map(|p| p[link]).sum();
    }
}

fn add<P: Paths>(
    paths: &P,
    graph: &Graph,
    place: &impl Fn(u32) -> u32,
    units: Range<usize>,
    load: &mut [f64],
) {
    let flows = (units.start as u32..units.end as u32).flat_map(|unit| {
        let sent = graph.edges(unit).iter().filter(|e| e.out > 0.0);
        sent.map(move |e| (place(unit), place(e.to), f64::from(e.out)))
    });
    paths.load(flows, load);
}
