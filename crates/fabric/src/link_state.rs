//! What does every link carry? Rates and ratios over a window, with their coverage.

use crate::fabric::Fabric;
use crate::ids::LinkId;
use crate::snapshot::{Missing, Quantity, Side, Snapshot};

/// One value a link; not-a-number inside means "not known" and reads as `None`.
#[derive(Clone, Debug, PartialEq)]
pub struct Column(Vec<f64>);

impl Column {
    /// All unknown.
    pub fn unknown(links: usize) -> Self {
        Self(vec![f64::NAN; links])
    }

    /// The value of a link, if known.
    #[inline]
    pub fn get(&self, link: LinkId) -> Option<f64> {
        let value = self.0[link.index()];
        (!value.is_nan()).then_some(value)
    }

    /// Sets or clears a value.
    pub fn set(&mut self, link: LinkId, value: Option<f64>) {
        self.0[link.index()] = value.unwrap_or(f64::NAN);
    }

    /// The raw array, unknown as not-a-number (the form NumPy and plots want).
    pub fn as_slice(&self) -> &[f64] {
        &self.0
    }

    /// Number of known values.
    pub fn known(&self) -> usize {
        self.0.iter().filter(|v| !v.is_nan()).count()
    }
}

/// Load of every directed link over a window.
///
/// For the hop A→B the received bytes, used ratio and input stall come from B's record, the credit
/// stall from A's (paper 000, V.B); the snapshot has done that join.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkState {
    /// Length of the window, if the source says it.
    pub window_seconds: Option<f64>,
    /// Bytes that arrived in the window.
    pub received_bytes: Column,
    /// Packets that arrived (or, where only the sender counts, were sent) in the window.
    pub packets: Column,
    /// Received bytes over what the lanes in service could have carried (USED_BW of paper 003, 0..1).
    pub used_ratio: Column,
    /// Share of the window that arrivals waited in the input queue (INQ_STALL, 0..1).
    pub input_stall_ratio: Column,
    /// Share of the window that departures lacked credits (CREDIT_STALL, 0..1).
    pub credit_stall_ratio: Column,
    /// Input stall in seconds, mean over the link's ports, known also without a window.
    pub input_stall_seconds: Column,
    /// Credit stall in seconds, mean over the link's ports, known also without a window.
    pub credit_stall_seconds: Column,
    /// Times or ticks that departures were held back, where the source knows no times.
    pub credit_stall_count: Column,
    /// Bytes that waited to enter the link at the end of the window.
    pub queued_bytes: Column,
    /// Transmission errors in the window.
    pub errors: Column,
    /// Lanes in service at the end of the window.
    pub lanes: Column,
    /// Share of the quantities of the source that were read for the link (0..1).
    pub coverage: Vec<f64>,
}

impl LinkState {
    /// Nothing known.
    pub fn unknown(fabric: &Fabric) -> Self {
        let n = fabric.links().len();
        Self {
            window_seconds: None,
            received_bytes: Column::unknown(n),
            packets: Column::unknown(n),
            used_ratio: Column::unknown(n),
            input_stall_ratio: Column::unknown(n),
            credit_stall_ratio: Column::unknown(n),
            input_stall_seconds: Column::unknown(n),
            credit_stall_seconds: Column::unknown(n),
            credit_stall_count: Column::unknown(n),
            queued_bytes: Column::unknown(n),
            errors: Column::unknown(n),
            lanes: Column::unknown(n),
            coverage: vec![0.0; n],
        }
    }

    /// The state that a snapshot of increases describes.
    ///
    /// Ratios divide by the window of the link's own end and by the capacity of the lanes in service,
    /// those of the snapshot where it knows them. Without a window they are the source's own, if it
    /// printed any, else unknown. A link without lanes has no used ratio.
    pub fn of_increase(fabric: &Fabric, snapshot: &Snapshot) -> Self {
        use Quantity as Q;
        let mut state = Self::unknown(fabric);
        state.window_seconds = snapshot.window_seconds.filter(|&w| w > 0.0);
        let quantities: Vec<Q> = snapshot.quantities().filter(|q| !q.is_gauge()).collect();
        for link in fabric.link_ids() {
            let get = |quantity| snapshot.get(quantity, link);
            let read = quantities.iter().filter(|&&q| get(q).is_some()).count();
            state.coverage[link.index()] = read as f64 / quantities.len().max(1) as f64;
            // Where both ends count, the receiving end is the truth: what arrived used the link.
            let first = |received, sent| {
                let side = |q: Q| get(q).map(|v| (v, q.side()));
                side(received).or_else(|| side(sent))
            };
            let bytes = first(Q::ReceivedBytes, Q::SentBytes);
            let input = get(Q::InputStallNs).map(|ns| ns * 1e-9);
            let capacity = Some(capacity(fabric, snapshot, link)).filter(|&c| c > 0.0);
            let lost = || Some(get(Q::CreditStallBytes)? / capacity?);
            let credit = get(Q::CreditStallNs).map(|ns| ns * 1e-9).or_else(lost);
            let used = bytes
                .zip(capacity)
                .and_then(|((b, side), c)| Some(b / (snapshot.window(side, link)? * c)))
                .or_else(|| get(Q::UsedRatio));
            let share = |stall: Option<f64>, side, own| {
                stall
                    .and_then(|s| Some(s / snapshot.window(side, link)?))
                    .or_else(|| get(own))
            };
            state.received_bytes.set(link, bytes.map(|(b, _)| b));
            state.packets.set(
                link,
                first(Q::ReceivedPackets, Q::SentPackets).map(|(p, _)| p),
            );
            state.used_ratio.set(link, used);
            state.input_stall_seconds.set(link, input);
            state.credit_stall_seconds.set(link, credit);
            state
                .input_stall_ratio
                .set(link, share(input, Side::Arrivals, Q::InputStallRatio));
            state
                .credit_stall_ratio
                .set(link, share(credit, Side::Departures, Q::CreditStallRatio));
            state.credit_stall_count.set(link, get(Q::CreditStallCount));
            state.queued_bytes.set(link, get(Q::QueuedBytes));
            state.errors.set(link, get(Q::Errors));
            state.lanes.set(link, get(Q::Lanes));
        }
        state
    }

    /// The state between two cumulative snapshots: increases over the time between them. A value
    /// that fell is a reset or a wrap that the source did not resolve, and stays unknown; so does all
    /// when no time passed.
    pub fn between(fabric: &Fabric, earlier: &Snapshot, later: &Snapshot) -> Self {
        let mut increase = Snapshot::new(fabric, later.source.clone(), false);
        increase.time_seconds = later.time_seconds;
        let interval = earlier
            .time_seconds
            .zip(later.time_seconds)
            .map(|(a, b)| b - a);
        increase.window_seconds = interval;
        for quantity in later.quantities() {
            for link in fabric.link_ids() {
                let (old, new) = (earlier.get(quantity, link), later.get(quantity, link));
                match (old, new) {
                    (_, Some(new)) if quantity.is_gauge() => increase.set(quantity, link, new),
                    (Some(_), Some(_)) if interval.is_some_and(|w| w <= 0.0) => {
                        increase.lose(quantity, link, Missing::ZeroInterval);
                    }
                    (Some(old), Some(new)) if new >= old => increase.set(quantity, link, new - old),
                    (Some(_), Some(_)) => increase.lose(quantity, link, Missing::Reset),
                    _ => {}
                }
            }
        }
        Self::of_increase(fabric, &increase)
    }

    /// Mean size of the packets of a link in bytes (PACKETSIZE_AVE of LDMS).
    pub fn packet_bytes(&self, link: LinkId) -> Option<f64> {
        let packets = self.packets.get(link).filter(|&p| p > 0.0)?;
        Some(self.received_bytes.get(link)? / packets)
    }
}

/// Capacity of a link in bytes per second: with the lanes that the snapshot saw in service, else with
/// those of the fabric, and never more than a device says that it negotiated.
fn capacity(fabric: &Fabric, snapshot: &Snapshot, id: LinkId) -> f64 {
    let link = fabric.link(id);
    let lanes = snapshot.get(Quantity::Lanes, id);
    let whole = lanes.map_or(link.capacity().0, |lanes| {
        link.nominal.0 * (lanes / f64::from(link.lanes)).min(1.0)
    });
    let negotiated = snapshot.get(Quantity::Capacity, id);
    negotiated.map_or(whole, |n| whole.min(n))
}
