//! One consistent reading of a machine's counters, already joined to directed links.

use crate::fabric::Fabric;
use crate::ids::LinkId;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

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
    /// Bytes that the link could have carried while departures lacked credits (InfiniBand's ticks).
    CreditStallBytes,
    /// Times that departures were held back, or ticks of a length that nobody knows.
    CreditStallCount,
    /// Transmission errors, and packets dropped at either end.
    Errors,
    /// Lanes in service.
    Lanes,
    /// Capacity that the device negotiated, bytes per second.
    Capacity,
    /// Bytes that wait to enter the link.
    QueuedBytes,
    /// USED_BW as the source itself printed it, 0..1 (paper 003).
    UsedRatio,
    /// INQ_STALL as the source itself printed it, 0..1.
    InputStallRatio,
    /// CREDIT_STALL as the source itself printed it, 0..1.
    CreditStallRatio,
}

impl Quantity {
    /// Whether the value is a state of the moment rather than a count that grows.
    pub fn is_gauge(self) -> bool {
        matches!(
            self,
            Self::Lanes
                | Self::Capacity
                | Self::QueuedBytes
                | Self::UsedRatio
                | Self::InputStallRatio
                | Self::CreditStallRatio
        )
    }

    /// Whether it is a share of the window that the source computed.
    pub fn is_ratio(self) -> bool {
        matches!(
            self,
            Self::UsedRatio | Self::InputStallRatio | Self::CreditStallRatio
        )
    }

    /// Whether it is a time that something waited.
    pub fn is_stall(self) -> bool {
        matches!(self, Self::InputStallNs | Self::CreditStallNs)
    }

    /// The end of the link whose device counts it.
    pub fn side(self) -> Side {
        match self {
            Self::SentBytes
            | Self::SentPackets
            | Self::CreditStallNs
            | Self::CreditStallBytes
            | Self::CreditStallCount
            | Self::CreditStallRatio
            | Self::QueuedBytes => Side::Departures,
            _ => Side::Arrivals,
        }
    }
}

/// An end of a directed link, as the place of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The receiving end.
    Arrivals,
    /// The sending end.
    Departures,
}

/// Why a value that should have been read is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Missing {
    /// The source could not read it.
    Unread,
    /// The device began to count anew: another boot, or a fall that is no wrap.
    Reset,
    /// The counter stands at its highest value, where it sticks.
    Stuck,
    /// So much time lies between the readings that the counter may have wrapped unseen.
    Gap,
    /// No time passed between the readings.
    ZeroInterval,
    /// The link has no lane in service.
    Down,
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
    missing: BTreeMap<(Quantity, LinkId), Missing>,
    windows: BTreeMap<Side, Vec<Option<f64>>>,
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
            missing: BTreeMap::new(),
            windows: BTreeMap::new(),
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

    /// Says why a value is not known; clears it if it was set.
    pub fn lose(&mut self, quantity: Quantity, link: LinkId, why: Missing) {
        *self.slot(quantity, link) = None;
        self.missing.insert((quantity, link), why);
    }

    /// Why a value is not known, where the source says.
    pub fn missing(&self, quantity: Quantity, link: LinkId) -> Option<Missing> {
        self.missing.get(&(quantity, link)).copied()
    }

    /// All values that are not known for a reason, in order.
    pub fn lost(&self) -> impl Iterator<Item = (Quantity, LinkId, Missing)> + '_ {
        self.missing.iter().map(|(&(q, l), &why)| (q, l, why))
    }

    /// Sets the interval that the device at one end of a link measured between its own readings,
    /// where devices have clocks of their own.
    pub fn set_window(&mut self, side: Side, link: LinkId, seconds: f64) {
        let links = self.links;
        self.windows
            .entry(side)
            .or_insert_with(|| vec![None; links])[link.index()] = Some(seconds);
    }

    /// Length of the interval that values at one end of a link cover; never zero or less.
    pub fn window(&self, side: Side, link: LinkId) -> Option<f64> {
        let own = self.windows.get(&side).and_then(|w| w[link.index()]);
        own.or(self.window_seconds).filter(|&w| w > 0.0)
    }

    /// Adds the increases of another snapshot of the same fabric, as of the next interval: counts
    /// and windows add up, states are the later ones, and what is not known in one is not known of both.
    pub fn extend_by(&mut self, next: &Self) {
        let quantities: BTreeSet<Quantity> = self.quantities().chain(next.quantities()).collect();
        for quantity in quantities {
            for link in (0..self.links).map(LinkId::of) {
                let sum = match (self.get(quantity, link), next.get(quantity, link)) {
                    (old, new) if quantity.is_gauge() => new.or(old),
                    (Some(old), Some(new)) => Some(old + new),
                    _ => None,
                };
                *self.slot(quantity, link) = sum;
            }
        }
        self.missing.extend(&next.missing);
        for side in [Side::Arrivals, Side::Departures] {
            for link in (0..self.links).map(LinkId::of) {
                let sum = self.window(side, link).zip(next.window(side, link));
                if self.windows.contains_key(&side) || next.windows.contains_key(&side) {
                    self.set_window(side, link, sum.map_or(0.0, |(a, b)| a + b));
                }
            }
        }
        let sum = self.window_seconds.zip(next.window_seconds);
        self.window_seconds = sum.map(|(a, b)| a + b);
        self.time_seconds = next.time_seconds;
        self.matched += next.matched;
        self.unmatched += next.unmatched;
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
