//! One consistent reading of a machine's counters, joined to directed links: [`Totals`] since the counters began, or
//! their [`Increase`] over an interval.

use crate::column::{Column, Missing};
use crate::fabric::Fabric;
use crate::ids::LinkId;
use crate::left_out::LeftOut;
use crate::node_times::TimesOfNodes;
use crate::paths::Paths;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};

/// A counter's quantity, for all networks. Units are part of the meaning.
///
/// Gemini's tiles count phits, packets and input stalls of **arrivals**, and output (credit) stalls of **departures**
/// (paper 000, V.B). A reading assigns each to its directed link: arrivals to the link that ends at the tile, credit
/// stalls to the link that begins there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Quantity {
    /// Bytes received over the link.
    ReceivedBytes,
    /// Packets received over the link.
    ReceivedPackets,
    /// Bytes sent into the link.
    SentBytes,
    /// Packets sent into the link.
    SentPackets,
    /// Nanoseconds that received packets waited in the input queue, mean over the link's ports.
    InputStallNs,
    /// Nanoseconds that packets waited to enter the link for lack of credits, mean over its ports.
    CreditStallNs,
    /// Bytes that the link could have carried while departures lacked credits (InfiniBand's ticks).
    CreditStallBytes,
    /// Count of blocked departures, or ticks of unknown length.
    CreditStallCount,
    /// Transmission errors and dropped packets. Both ends count their own: [`LinkCounts::errors`] is their sum.
    Errors,
    /// Those that the sender counts.
    SentErrors,
    /// Packets dropped for lack of room, where they are counted apart from damaged ones: on a network without credits the
    /// sign of congestion, not of a fault. Part of [`LinkCounts::errors`].
    Drops,
    /// Those that the sender drops.
    SentDrops,
    /// Times that the link went down.
    Downs,
    /// Bytes sent while the queue of the link was not empty, over times in which this is certain.
    ServedBytes,
    /// Nanoseconds of these times, mean over the link's ports.
    ServedNs,
    /// Payload that a node's transport sent to a peer. Of a path, not of a link, as are the next ones.
    PathBytes,
    /// Its packets, with those that it sent again.
    PathPackets,
    /// Packets that it sent again.
    PathResent,
    /// Packets that the peer had already: they were not lost, but late.
    PathDuplicates,
    /// Nanoseconds that the most delayed thread of a node was ready to run and had no processor. Of a node, not of a link.
    ProcessorWaitNs,
    /// Lanes in service.
    Lanes,
    /// Capacity negotiated by the device, bytes per second.
    Capacity,
    /// Bytes queued for the link.
    QueuedBytes,
    /// USED_BW as printed by the source, 0..1 (paper 003).
    UsedRatio,
    /// INQ_STALL as printed by the source, 0..1.
    InputStallRatio,
    /// CREDIT_STALL as printed by the source, 0..1.
    CreditStallRatio,
    /// Rate while the queue was not empty over the capacity, as printed by the source.
    ServedRatio,
}

impl Quantity {
    /// Whether it counts errors or drops.
    pub fn is_errors(self) -> bool {
        matches!(
            self,
            Self::Errors | Self::SentErrors | Self::Drops | Self::SentDrops
        )
    }

    /// Whether the value is a gauge, as opposed to a counter.
    pub fn is_gauge(self) -> bool {
        matches!(
            self,
            Self::Lanes
                | Self::Capacity
                | Self::QueuedBytes
                | Self::UsedRatio
                | Self::InputStallRatio
                | Self::CreditStallRatio
                | Self::ServedRatio
        )
    }

    /// Whether it is a ratio computed by the source.
    pub fn is_ratio(self) -> bool {
        matches!(
            self,
            Self::UsedRatio | Self::InputStallRatio | Self::CreditStallRatio | Self::ServedRatio
        )
    }

    /// Whether it belongs to a path between two nodes.
    pub fn is_of_path(self) -> bool {
        matches!(
            self,
            Self::PathBytes | Self::PathPackets | Self::PathResent | Self::PathDuplicates
        )
    }

    /// Whether it belongs to a node.
    pub fn is_of_node(self) -> bool {
        self == Self::ProcessorWaitNs
    }

    /// Whether it is a stall time.
    pub fn is_stall(self) -> bool {
        matches!(self, Self::InputStallNs | Self::CreditStallNs)
    }

    /// The quantity of a link that a counter at one of its ends has: errors are kept by end.
    pub fn counted_at(self, side: Side) -> Self {
        match (self, side) {
            (Self::Errors, Side::Departures) => Self::SentErrors,
            (Self::Drops, Side::Departures) => Self::SentDrops,
            (other, _) => other,
        }
    }

    /// The end of the link with the counter.
    pub fn side(self) -> Side {
        match self {
            Self::SentBytes
            | Self::SentPackets
            | Self::CreditStallNs
            | Self::CreditStallBytes
            | Self::CreditStallCount
            | Self::CreditStallRatio
            | Self::SentErrors
            | Self::SentDrops
            | Self::ServedBytes
            | Self::ServedNs
            | Self::ServedRatio
            | Self::PathBytes
            | Self::PathPackets
            | Self::PathResent
            | Self::PathDuplicates
            | Self::QueuedBytes => Side::Departures,
            _ => Side::Arrivals,
        }
    }
}

/// The end of a directed link where a counter is located.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The receiving end.
    Arrivals,
    /// The sending end.
    Departures,
}

/// Shorter interval of the ends of a link over the longer one, from which they are the same: two devices are not read at
/// the same moments.
const SAME: f64 = 0.9;

/// Values of one time or interval by quantity and link, with their source.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkCounts {
    /// The source.
    pub source: String,
    /// Time of the reading in seconds (Unix time if the source has a clock).
    pub time_seconds: Option<f64>,
    /// Rows of the source that matched a link of the fabric.
    pub matched: usize,
    /// Rows that matched no link of the fabric.
    pub unmatched: usize,
    /// Other readings left out of the result.
    pub left_out: LeftOut,
    /// Links that have at least the errors given: a counter of them is at its highest value, or was not read.
    pub at_least: BTreeSet<LinkId>,
    links: usize,
    columns: BTreeMap<Quantity, Column>,
}

impl LinkCounts {
    /// Counts a row that names no link of the fabric.
    pub fn note_unmatched(&mut self, name: impl Into<String>) {
        self.unmatched += 1;
        self.left_out.note(LeftOut::NO_LINK, name);
    }

    fn new(fabric: &Fabric, source: String) -> Self {
        Self {
            source,
            time_seconds: None,
            matched: 0,
            unmatched: 0,
            left_out: LeftOut::default(),
            at_least: BTreeSet::new(),
            links: fabric.links().len(),
            columns: BTreeMap::new(),
        }
    }

    /// The value of one quantity on one link.
    pub fn get(&self, quantity: Quantity, link: LinkId) -> Option<f64> {
        self.columns.get(&quantity)?.get(link)
    }

    /// The value of one quantity on one link, or the reason for its absence.
    pub fn read(&self, quantity: Quantity, link: LinkId) -> Result<f64, Missing> {
        let column = self.columns.get(&quantity);
        column.map_or(Err(Missing::Uncounted), |c| c.read(link))
    }

    /// Errors and drops at both ends of a link; of what nothing counts the others.
    pub fn errors(&self, link: LinkId) -> Result<f64, Missing> {
        use Quantity::{Drops, Errors, SentDrops, SentErrors};
        self.added([Errors, SentErrors, Drops, SentDrops], link)
    }

    /// Packets dropped at both ends for lack of room, where they are counted apart.
    pub fn drops(&self, link: LinkId) -> Result<f64, Missing> {
        self.added([Quantity::Drops, Quantity::SentDrops], link)
    }

    fn added<const N: usize>(
        &self,
        quantities: [Quantity; N],
        link: LinkId,
    ) -> Result<f64, Missing> {
        let mut sum = Err(Missing::Uncounted);
        for quantity in quantities {
            sum = match (sum, self.read(quantity, link)) {
                (sum, Err(Missing::Uncounted)) => sum,
                (Err(Missing::Uncounted), one) => one,
                (sum, one) => Ok(sum? + one?),
            };
        }
        sum
    }

    /// Sets a value.
    pub fn set(&mut self, quantity: Quantity, link: LinkId, value: f64) {
        self.put(quantity, link, Ok(value));
    }

    /// Sets a value, or the reason for its absence.
    pub fn put(&mut self, quantity: Quantity, link: LinkId, value: Result<f64, Missing>) {
        let links = self.links;
        let column = self.columns.entry(quantity);
        column
            .or_insert_with(|| Column::unknown(links))
            .put(link, value);
    }

    /// Adds to a value (several rows for one link: tiles, parallel cables).
    pub fn add(&mut self, quantity: Quantity, link: LinkId, value: f64) {
        let sum = self.get(quantity, link).unwrap_or(0.0) + value;
        self.set(quantity, link, sum);
    }

    /// Sets the reason for a missing value; clears the value if it was set.
    pub fn lose(&mut self, quantity: Quantity, link: LinkId, why: Missing) {
        self.put(quantity, link, Err(why));
    }

    /// The reason for a missing value that a source counts.
    pub fn missing(&self, quantity: Quantity, link: LinkId) -> Option<Missing> {
        let why = self.read(quantity, link).err();
        why.filter(|&why| why != Missing::Uncounted)
    }

    /// All missing values that a source counts, in order.
    pub fn lost(&self) -> impl Iterator<Item = (Quantity, LinkId, Missing)> + '_ {
        self.columns.keys().flat_map(move |&quantity| {
            let links = (0..self.links).map(LinkId::of);
            links.filter_map(move |l| Some((quantity, l, self.missing(quantity, l)?)))
        })
    }

    /// Quantities that were read.
    pub fn quantities(&self) -> impl Iterator<Item = Quantity> + '_ {
        self.columns.keys().copied()
    }

    /// A whole column by link id, if the quantity was read.
    pub fn column(&self, quantity: Quantity) -> Option<&Column> {
        self.columns.get(&quantity)
    }
}

/// Counter values at one time, since the devices began to count. The difference of two of them is not an increase:
/// only the original readings have widths, wraps and clocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Totals(LinkCounts);

impl Totals {
    /// Without values.
    pub fn new(fabric: &Fabric, source: impl Into<String>) -> Self {
        Self(LinkCounts::new(fabric, source.into()))
    }
}

/// Increases of counters over an interval, and gauges at its end.
#[derive(Clone, Debug, PartialEq)]
pub struct Increase {
    counts: LinkCounts,
    /// The interval, if known; the maximum if devices have intervals of their own.
    pub window_seconds: Option<f64>,
    windows: BTreeMap<Side, Column>,
    /// Of a sum, links whose ends were not read over the same intervals: bytes sent and received in those that both ends
    /// have.
    uneven: BTreeMap<LinkId, Option<(f64, f64)>>,
    /// Of a sum, lanes and rates that were lower in a part of it than they are at its end.
    pub least: Least,
    /// Of a sum, seconds from the last interval in which a link went down, or had fewer lanes or a lower rate, to its end.
    pub ended: Least,
    /// What transports counted on the paths between nodes.
    pub paths: Paths,
    /// What nodes counted of themselves.
    pub nodes: TimesOfNodes,
}

/// The lowest lanes ([`Quantity::Lanes`]) and rates in bytes per second ([`Quantity::Capacity`]) of links, or times of these.
pub type Least = BTreeMap<(Quantity, LinkId), f64>;

impl Deref for Totals {
    type Target = LinkCounts;

    fn deref(&self) -> &LinkCounts {
        &self.0
    }
}

impl DerefMut for Totals {
    fn deref_mut(&mut self) -> &mut LinkCounts {
        &mut self.0
    }
}

impl Deref for Increase {
    type Target = LinkCounts;

    fn deref(&self) -> &LinkCounts {
        &self.counts
    }
}

impl DerefMut for Increase {
    fn deref_mut(&mut self) -> &mut LinkCounts {
        &mut self.counts
    }
}

impl Increase {
    /// Without values.
    pub fn new(fabric: &Fabric, source: impl Into<String>) -> Self {
        Self {
            counts: LinkCounts::new(fabric, source.into()),
            window_seconds: None,
            windows: BTreeMap::new(),
            uneven: BTreeMap::new(),
            least: Least::new(),
            ended: Least::new(),
            paths: Paths::new(),
            nodes: TimesOfNodes::new(),
        }
    }

    /// Sets the interval that the device at one end of a link measured with its own clock.
    pub fn set_window(&mut self, side: Side, link: LinkId, seconds: f64) {
        let links = self.counts.links;
        let windows = self.windows.entry(side);
        windows
            .or_insert_with(|| Column::unknown(links))
            .set(link, Some(seconds));
    }

    /// Length of the interval for values at one end of a link; positive.
    pub fn window(&self, side: Side, link: LinkId) -> Option<f64> {
        let own = self.own_window(side, link);
        own.or(self.window_seconds).filter(|&w| w > 0.0)
    }

    fn own_window(&self, side: Side, link: LinkId) -> Option<f64> {
        self.windows.get(&side)?.get(link)
    }

    /// Bytes sent and received over a link in the intervals that both of its ends were read over.
    pub fn at_both_ends(&self, link: LinkId) -> Option<(f64, f64)> {
        if let Some(&known) = self.uneven.get(&link) {
            return known;
        }
        let window = |side| self.window(side, link);
        let windows = window(Side::Departures).zip(window(Side::Arrivals));
        let is_same = windows.is_none_or(|(a, b)| a.min(b) >= SAME * a.max(b));
        self.bytes_of_ends(link).filter(|_| is_same)
    }

    /// Bytes that both ends of a link count, whatever their intervals.
    fn bytes_of_ends(&self, link: LinkId) -> Option<(f64, f64)> {
        let sent = self.get(Quantity::SentBytes, link)?;
        Some((sent, self.get(Quantity::ReceivedBytes, link)?))
    }

    /// Links whose bytes at the two ends are of different intervals, with those of the common ones.
    pub fn uneven(&self) -> BTreeMap<LinkId, Option<(f64, f64)>> {
        let links = (0..self.counts.links).map(LinkId::of);
        let common = links.map(|l| (l, self.at_both_ends(l)));
        common
            .filter(|&(l, common)| common != self.bytes_of_ends(l))
            .collect()
    }

    /// Adds the increase over the next interval, of the same fabric: counts and windows are summed, gauges are the
    /// later ones, and a value missing in one interval is missing in the sum.
    ///
    /// A device without values in one of the intervals keeps the counts and the window of the others, so that its
    /// rates stay correct; without a window of its own, its counts become missing ([`Missing::Unread`]).
    pub fn extend_by(&mut self, next: &Self) {
        let quantities: BTreeSet<Quantity> = self.quantities().chain(next.quantities()).collect();
        let links = self.counts.links;
        let both: Vec<_> = (0..links)
            .map(LinkId::of)
            .map(|l| match (self.at_both_ends(l), next.at_both_ends(l)) {
                (Some(a), Some(b)) => Some((a.0 + b.0, a.1 + b.1)),
                (a, b) => a.or(b),
            })
            .collect();
        self.least = self.least_with(next);
        self.ended = self.ended_with(next);
        for &quantity in &quantities {
            for link in (0..links).map(LinkId::of) {
                let sum = self.summed(next, quantity, link);
                self.put(quantity, link, sum);
            }
        }
        for side in [Side::Arrivals, Side::Departures] {
            for link in (0..links).map(LinkId::of) {
                let (old, new) = (self.own_window(side, link), next.own_window(side, link));
                let sum = match (old, new) {
                    (Some(a), Some(b)) => Some(a + b),
                    (old, new) => old.or(new),
                };
                if let Some(seconds) = sum {
                    self.set_window(side, link, seconds);
                }
            }
        }
        for (link, both) in (0..links).map(LinkId::of).zip(both) {
            self.uneven.remove(&link);
            if both != self.at_both_ends(link) {
                self.uneven.insert(link, both);
            }
        }
        let sum = self.window_seconds.zip(next.window_seconds);
        self.window_seconds = sum.map(|(a, b)| a + b);
        self.time_seconds = next.time_seconds;
        self.matched += next.matched;
        self.unmatched += next.unmatched;
        self.left_out.extend(&next.counts.left_out);
        self.counts.at_least.extend(&next.counts.at_least);
        for (&ends, counts) in &next.paths {
            self.paths.entry(ends).or_default().add(counts);
        }
        for (&node, times) in &next.nodes {
            self.nodes.entry(node).or_default().add(times);
        }
    }

    fn least_with(&self, next: &Self) -> Least {
        let mut least = Least::new();
        for quantity in [Quantity::Lanes, Quantity::Capacity] {
            for link in (0..self.counts.links).map(LinkId::of) {
                let lowest = |i: &Self| match i.least.get(&(quantity, link)) {
                    Some(&lowest) => Some(lowest),
                    None => i.get(quantity, link),
                };
                let both = [lowest(self), lowest(next)].into_iter().flatten();
                let last = next.get(quantity, link).or(self.get(quantity, link));
                if let Some((lowest, _)) = both.reduce(f64::min).zip(last).filter(|(a, b)| a < b) {
                    least.insert((quantity, link), lowest);
                }
            }
        }
        least
    }

    /// With the lowest values of the sum.
    fn ended_with(&self, next: &Self) -> Least {
        let window = next.window_seconds.unwrap_or(0.0);
        let last = |i: &Self, (quantity, link): (Quantity, LinkId)| {
            let is_down = quantity == Quantity::Downs && i.get(quantity, link) > Some(0.0);
            let known = i.ended.get(&(quantity, link)).copied();
            known.or(is_down.then_some(0.0))
        };
        let downs = (0..self.counts.links).map(|l| (Quantity::Downs, LinkId::of(l)));
        let all = downs.chain(self.least.keys().copied());
        let of = |key: (Quantity, LinkId)| {
            let [old, new] = [self, next].map(|i| i.get(key.0, key.1).filter(|_| key.0.is_gauge()));
            let rose = old.is_some() && old < new;
            let before = if rose { Some(0.0) } else { last(self, key) };
            let seconds = last(next, key).or(before.map(|s| s + window))?;
            Some((key, seconds))
        };
        all.filter_map(of).collect()
    }

    fn summed(&self, next: &Self, quantity: Quantity, link: LinkId) -> Result<f64, Missing> {
        let (old, new) = (self.read(quantity, link), next.read(quantity, link));
        if quantity.is_gauge() {
            return new.or(old);
        }
        let side = quantity.side();
        let silent = |i: &Self| i.own_window(side, link).is_none();
        match (old, new) {
            (Ok(old), Ok(new)) => Ok(old + new),
            // A counter of errors that became full had at least those seen before.
            (Ok(seen), Err(Missing::Stuck)) | (Err(Missing::Stuck), Ok(seen))
                if quantity.is_errors() && seen > 0.0 =>
            {
                Ok(seen)
            }
            (Err(Missing::Uncounted), Err(why)) => Err(why),
            (Ok(seen), Err(Missing::Uncounted)) if !silent(self) && silent(next) => Ok(seen),
            (Err(Missing::Uncounted), Ok(seen)) if silent(self) && !silent(next) => Ok(seen),
            (Ok(_), Err(Missing::Uncounted)) | (Err(Missing::Uncounted), Ok(_)) => {
                Err(Missing::Unread)
            }
            (Err(why), _) | (_, Err(why)) => Err(why),
        }
    }
}
