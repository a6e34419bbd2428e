//! Load of every link: rates and ratios over a window, with their coverage.

use crate::column::{Column, Missing};
use crate::fabric::Fabric;
use crate::ids::LinkId;
use crate::node_times::TimesOfNodes;
use crate::paths::Paths;
use crate::snapshot::{Increase, Least, LinkCounts, Quantity, Side, Totals};
use std::collections::{BTreeMap, BTreeSet};

/// Load of every directed link over a window.
///
/// For the hop A→B the received bytes, used ratio and input stall come from B's counters, the credit stall from A's
/// (paper 000, V.B); the snapshot has already joined them.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkState {
    /// Length of the window, if known; the median of the links' if devices have their own.
    pub window_seconds: Option<f64>,
    /// Seconds covered by each link's bytes, if known.
    pub window: Column,
    /// Bytes received in the window.
    pub received_bytes: Column,
    /// Bytes that the sending end counts, where it does.
    pub sent_bytes: Column,
    /// Links whose bytes at the two ends are of different times, with those sent and received in the common ones.
    pub uneven: BTreeMap<LinkId, Option<(f64, f64)>>,
    /// Packets received in the window (sent, if only the sender counts them).
    pub packets: Column,
    /// Received bytes over the bytes that the lanes in service could have carried (USED_BW of paper 003, 0..1).
    pub used_ratio: Column,
    /// Share of the window in which arrivals waited in the input queue (INQ_STALL, 0..1).
    pub input_stall_ratio: Column,
    /// Share of the window in which departures lacked credits (CREDIT_STALL, 0..1).
    pub credit_stall_ratio: Column,
    /// Input stall in seconds, mean over the link's ports; needs no window.
    pub input_stall_seconds: Column,
    /// Credit stall in seconds, mean over the link's ports; needs no window.
    pub credit_stall_seconds: Column,
    /// Count or ticks of blocked departures, from sources without times.
    pub credit_stall_count: Column,
    /// Bytes queued for the link at the end of the window.
    pub queued_bytes: Column,
    /// Transmission errors and drops in the window.
    pub errors: Column,
    /// Links that have at least these errors: a counter of them is at its highest value, or was not read.
    pub at_least: BTreeSet<LinkId>,
    /// Those of them that are packets dropped for lack of room, where they are counted apart.
    pub drops: Column,
    /// Times that the link went down in the window, by the end that counts more; both directions have it.
    pub downs: Column,
    /// Lanes in service at the end of the window.
    pub lanes: Column,
    /// Rate while the link's queue was not empty, over its capacity: what it can send (0..1).
    pub served_ratio: Column,
    /// Seconds over which that was measured.
    pub served_seconds: Column,
    /// Rate on which the link's ends agreed, in bytes per second, where one of them says so.
    pub agreed: Column,
    /// Lanes and rates that were lower in a part of the window than they are at its end.
    pub least: Least,
    /// Seconds from the last part of the window with one of these, or in which a link went down, to its end.
    pub ended: Least,
    /// Share of the source's quantities that were read for the link (0..1).
    pub coverage: Vec<f64>,
    /// What transports counted on the paths between nodes.
    pub paths: Paths,
    /// What nodes counted of themselves.
    pub nodes: TimesOfNodes,
}

/// Links that must tell their rate for one to be usual.
const MANY: usize = 16;

impl LinkState {
    /// Number of links of which something was read.
    pub fn links_read(&self) -> usize {
        self.coverage.iter().filter(|&&c| c > 0.0).count()
    }

    /// All values unknown.
    pub fn unknown(fabric: &Fabric) -> Self {
        let n = fabric.links().len();
        Self {
            window_seconds: None,
            window: Column::unknown(n),
            received_bytes: Column::unknown(n),
            sent_bytes: Column::unknown(n),
            uneven: BTreeMap::new(),
            packets: Column::unknown(n),
            used_ratio: Column::unknown(n),
            input_stall_ratio: Column::unknown(n),
            credit_stall_ratio: Column::unknown(n),
            input_stall_seconds: Column::unknown(n),
            credit_stall_seconds: Column::unknown(n),
            credit_stall_count: Column::unknown(n),
            queued_bytes: Column::unknown(n),
            errors: Column::unknown(n),
            at_least: BTreeSet::new(),
            drops: Column::unknown(n),
            downs: Column::unknown(n),
            lanes: Column::unknown(n),
            served_ratio: Column::unknown(n),
            served_seconds: Column::unknown(n),
            agreed: Column::unknown(n),
            least: Least::new(),
            ended: Least::new(),
            coverage: vec![0.0; n],
            paths: Paths::new(),
            nodes: TimesOfNodes::new(),
        }
    }

    /// The state from an increase.
    ///
    /// Ratios divide by the window of the link's own end and by the capacity of the lanes in service, from the
    /// reading if it has them. Without a window they are the source's own ratios, if any, otherwise unknown. A link
    /// without lanes has no used ratio.
    pub fn of_increase(fabric: &Fabric, increase: &Increase) -> Self {
        let window = |side, link| increase.window(side, link);
        let mut state = Self::of(fabric, increase, &window);
        state.uneven = increase.uneven();
        state.window_seconds =
            (state.window.median()).or(increase.window_seconds.filter(|&w| w > 0.0));
        state.least.clone_from(&increase.least);
        state.ended.clone_from(&increase.ended);
        state.paths.clone_from(&increase.paths);
        state.nodes.clone_from(&increase.nodes);
        state
    }

    /// Totals since the counters began, over an unknown time: no ratios except the source's own.
    pub fn of_totals(fabric: &Fabric, totals: &Totals) -> Self {
        Self::of(fabric, totals, &|_, _| None)
    }

    fn of(
        fabric: &Fabric,
        counts: &LinkCounts,
        window: &dyn Fn(Side, LinkId) -> Option<f64>,
    ) -> Self {
        use Quantity as Q;
        let mut state = Self::unknown(fabric);
        state.at_least.clone_from(&counts.at_least);
        // Not every source of load can time a queue, or counts how often a link went down.
        let counters = counts.quantities().filter(|q| !q.is_gauge());
        let counters = counters.filter(|q| !matches!(q, Q::ServedBytes | Q::ServedNs | Q::Downs));
        let mut quantities: Vec<Q> = counters
            .map(|q| match q {
                Q::SentErrors | Q::Drops | Q::SentDrops => Q::Errors,
                other => other,
            })
            .collect();
        quantities.dedup();
        if quantities.is_empty() {
            // A source of ratios alone, such as the release of Blue Waters' metrics.
            quantities = counts.quantities().filter(|q| q.is_ratio()).collect();
        }
        for link in fabric.link_ids() {
            let read = |quantity| counts.read(quantity, link);
            let errors = counts.errors(link);
            let is_known = |q: Q| match q {
                Q::Errors => errors.is_ok(),
                other => read(other).is_ok(),
            };
            let known = quantities.iter().filter(|&&q| is_known(q)).count();
            state.coverage[link.index()] = known as f64 / quantities.len().max(1) as f64;
            // If both ends count, the receiving end is used: bytes that arrived did occupy the link.
            let first = |received: Q, sent: Q| {
                let side = |q: Q| read(q).map(|v| (v, q.side()));
                either(side(received), side(sent))
            };
            let bytes = first(Q::ReceivedBytes, Q::SentBytes);
            let capacity = Some(capacity(fabric, counts, link)).filter(|&c| c > 0.0);
            let input = read(Q::InputStallNs).map(|ns| ns * 1e-9);
            let lost = read(Q::CreditStallBytes)
                .and_then(|bytes| Ok(bytes / capacity.ok_or(Missing::Down)?));
            let credit = either(read(Q::CreditStallNs).map(|ns| ns * 1e-9), lost);
            // Without a window or a capacity there is no ratio.
            let over = |value: f64, side, rate: Option<f64>| {
                let most = window(side, link).zip(rate).map(|(w, rate)| w * rate);
                most.map(|most| value / most).ok_or(Missing::Uncounted)
            };
            let used = bytes.and_then(|(b, side)| over(b, side, capacity));
            let share = |stall: Result<f64, Missing>, side, own| {
                either(stall.and_then(|s| over(s, side, Some(1.0))), read(own))
            };
            let side = bytes.map_or(Side::Arrivals, |(_, side)| side);
            state
                .window
                .set(link, window(side, link).filter(|_| known > 0));
            state.received_bytes.put(link, bytes.map(|(b, _)| b));
            state.sent_bytes.put(link, read(Q::SentBytes));
            let packets = first(Q::ReceivedPackets, Q::SentPackets);
            state.packets.put(link, packets.map(|(p, _)| p));
            state.used_ratio.put(link, either(used, read(Q::UsedRatio)));
            state.input_stall_seconds.put(link, input);
            state.credit_stall_seconds.put(link, credit);
            let inputs = share(input, Side::Arrivals, Q::InputStallRatio);
            state.input_stall_ratio.put(link, inputs);
            let credits = share(credit, Side::Departures, Q::CreditStallRatio);
            state.credit_stall_ratio.put(link, credits);
            state
                .credit_stall_count
                .put(link, read(Q::CreditStallCount));
            state.queued_bytes.put(link, read(Q::QueuedBytes));
            state.errors.put(link, errors);
            state.drops.put(link, counts.drops(link));
            state.downs.put(link, downs(fabric, counts, link));
            state.lanes.put(link, read(Q::Lanes));
            state.agreed.put(link, read(Q::Capacity));
            let seconds = read(Q::ServedNs).map(|ns| ns * 1e-9);
            let served = read(Q::ServedBytes).and_then(|bytes| {
                let most = seconds? * capacity.ok_or(Missing::Down)?;
                Some(bytes / most)
                    .filter(|r| r.is_finite())
                    .ok_or(Missing::Uncounted)
            });
            state
                .served_ratio
                .put(link, either(served, read(Q::ServedRatio)));
            state.served_seconds.put(link, seconds);
        }
        state
    }

    /// Bytes sent and received over a link at the same times, if both of its ends count them.
    pub fn at_both_ends(&self, link: LinkId) -> Option<(f64, f64)> {
        if let Some(&common) = self.uneven.get(&link) {
            return common;
        }
        let sent = self.sent_bytes.get(link)?;
        Some((sent, self.received_bytes.get(link)?))
    }

    /// `≥ ` before errors of a link that may be more, else nothing.
    pub fn at_least(&self, link: LinkId) -> &'static str {
        match self.errors.get(link) {
            Some(_) if self.at_least.contains(&link) => "≥ ",
            _ => "",
        }
    }

    /// Transmission errors of a link, without packets that were dropped for lack of room.
    pub fn damaged(&self, link: LinkId) -> Option<f64> {
        Some(self.errors.get(link)? - self.drops.get(link).unwrap_or(0.0))
    }

    /// Rate on which the ends of each link agreed, as a share of what links of this machine usually have of their nominal
    /// rate: an emulated machine is slower as a whole, and a description may state another rate than the machine has. Few
    /// links tell nothing usual: theirs are shares of the nominal rate. 0 for a link that is down.
    pub fn agreed_shares(&self, fabric: &Fabric) -> Column {
        let share = |l| Some(self.agreed.get(l)? / fabric.link(l).capacity().0);
        let mut known: Vec<f64> = fabric.link_ids().filter_map(share).collect();
        known.retain(|s| s.is_finite() && *s > 0.0);
        known.sort_by(f64::total_cmp);
        let median = known.get(known.len() / 2).copied();
        let usual = median.filter(|_| known.len() >= MANY).unwrap_or(1.0);
        let mut shares = Column::unknown(self.coverage.len());
        for link in fabric.link_ids() {
            let own = share(link).filter(|s| s.is_finite());
            shares.set(link, own.map(|s| s / usual));
        }
        shares
    }

    /// All columns with their names.
    pub fn columns(&self) -> [(&'static str, &Column); 11] {
        [
            ("received_bytes", &self.received_bytes),
            ("packets", &self.packets),
            ("used_ratio", &self.used_ratio),
            ("input_stall_ratio", &self.input_stall_ratio),
            ("credit_stall_ratio", &self.credit_stall_ratio),
            ("input_stall_seconds", &self.input_stall_seconds),
            ("credit_stall_seconds", &self.credit_stall_seconds),
            ("credit_stall_count", &self.credit_stall_count),
            ("queued_bytes", &self.queued_bytes),
            ("errors", &self.errors),
            ("lanes", &self.lanes),
        ]
    }

    /// Names of the missing values of a link, among those that its sources count.
    pub fn missing(&self, link: LinkId) -> impl Iterator<Item = (&'static str, Missing)> {
        self.columns()
            .into_iter()
            .filter_map(move |(name, column)| {
                let why = column.read(link).err()?;
                (why != Missing::Uncounted).then_some((name, why))
            })
    }

    /// Whether any source covers a link, even if none of its values is known.
    pub fn is_spoken_of(&self, link: LinkId) -> bool {
        self.coverage[link.index()] > 0.0 || self.missing(link).next().is_some()
    }

    /// Mean size of the packets of a link in bytes (PACKETSIZE_AVE of LDMS).
    pub fn packet_bytes(&self, link: LinkId) -> Option<f64> {
        let packets = self.packets.get(link).filter(|&p| p > 0.0)?;
        Some(self.received_bytes.get(link)? / packets)
    }
}

/// Times that a link went down. Both directions of a cable do, and an end that restarted counts from zero.
fn downs(fabric: &Fabric, counts: &LinkCounts, link: LinkId) -> Result<f64, Missing> {
    let of = |l| counts.read(Quantity::Downs, l);
    let (own, back) = (of(link), fabric.reverse(link).map(of));
    match (own, back) {
        (Ok(own), Some(Ok(back))) => Ok(own.max(back)),
        (own, back) => either(own, back.unwrap_or(own)),
    }
}

/// The first known value, else the reason of the first that is counted.
fn either<T>(first: Result<T, Missing>, second: Result<T, Missing>) -> Result<T, Missing> {
    match (first, second) {
        (Err(Missing::Uncounted), second) => second,
        (Err(_), Ok(second)) => Ok(second),
        (first, _) => first,
    }
}

/// Capacity of a link in bytes per second, with the lanes in service from the reading, else from the fabric; limited
/// to the rate that a device negotiated.
fn capacity(fabric: &Fabric, counts: &LinkCounts, id: LinkId) -> f64 {
    let link = fabric.link(id);
    let lanes = counts.get(Quantity::Lanes, id);
    let whole = lanes.map_or(link.capacity().0, |lanes| {
        link.nominal.0 * (lanes / f64::from(link.lanes)).min(1.0)
    });
    let negotiated = counts.get(Quantity::Capacity, id);
    negotiated.map_or(whole, |n| whole.min(n))
}
