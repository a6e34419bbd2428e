//! One consistent reading of a machine's counters, already joined to directed links.

use crate::fabric::Fabric;
use crate::ids::LinkId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a counter counts, over all networks. Units are part of the meaning.
///
/// Gemini's tiles count phits, packets and input stalls of what **arrives**, and output (credit)
/// stalls of what waits to **leave** (paper 000, V.B). A snapshot files each under the directed link
/// it speaks of: arrivals under the link that ends at the tile, credit stalls under the link that
/// begins there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Quantity {
    /// Bytes that arrived over the link.
    ReceivedBytes,
    /// Packets that arrived over the link.
    ReceivedPackets,
    /// Bytes sent into the link.
    SentBytes,
    /// Packets sent into the link.
    SentPackets,
    /// Nanoseconds that arrived packets waited in the input queue, mean over the link's ports.
    InputStallNs,
    /// Nanoseconds that packets waited to enter the link for lack of credits, mean over its ports.
    CreditStallNs,
    /// Transmission errors seen at the receiving end.
    Errors,
    /// Lanes in service.
    Lanes,
}

/// Counter values of one moment, or their increase over one interval, by quantity and link.
///
/// A value that was not read is `None`, never zero.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Where it came from.
    pub source: String,
    /// Time of the reading in seconds (Unix time where the source has a clock).
    pub time_seconds: Option<f64>,
    /// For readings that are already differences: the interval they cover, if it is known.
    pub window_seconds: Option<f64>,
    /// Whether values are totals since some start; otherwise they are increases over the window.
    pub cumulative: bool,
    /// Rows of the source that named a link of the fabric, and rows that did not.
    pub matched: usize,
    /// Rows that named no link of the fabric.
    pub unmatched: usize,
    links: usize,
    columns: BTreeMap<Quantity, Vec<Option<f64>>>,
}

impl Snapshot {
    /// An empty snapshot of a fabric.
    pub fn new(fabric: &Fabric, source: impl Into<String>, cumulative: bool) -> Self {
        Self {
            source: source.into(),
            time_seconds: None,
            window_seconds: None,
            cumulative,
            matched: 0,
            unmatched: 0,
            links: fabric.links().len(),
            columns: BTreeMap::new(),
        }
    }

    /// The value of one quantity on one link.
    pub fn get(&self, quantity: Quantity, link: LinkId) -> Option<f64> {
        *self.columns.get(&quantity)?.get(link.index())?
    }

    /// Sets a value.
    pub fn set(&mut self, quantity: Quantity, link: LinkId, value: f64) {
        *self.slot(quantity, link) = Some(value);
    }

    /// Adds to a value (several rows for one link: tiles, parallel cables).
    pub fn add(&mut self, quantity: Quantity, link: LinkId, value: f64) {
        let slot = self.slot(quantity, link);
        *slot = Some(slot.unwrap_or(0.0) + value);
    }

    /// Quantities that were read at all.
    pub fn quantities(&self) -> impl Iterator<Item = Quantity> + '_ {
        self.columns.keys().copied()
    }

    /// A whole column by link id, if the quantity was read.
    pub fn column(&self, quantity: Quantity) -> Option<&[Option<f64>]> {
        self.columns.get(&quantity).map(Vec::as_slice)
    }

    fn slot(&mut self, quantity: Quantity, link: LinkId) -> &mut Option<f64> {
        let links = self.links;
        &mut self
            .columns
            .entry(quantity)
            .or_insert_with(|| vec![None; links])[link.index()]
    }
}
