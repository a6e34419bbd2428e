//! What does every link carry? Rates and ratios over a window, with their coverage.

use crate::fabric::Fabric;
use crate::ids::LinkId;
use crate::snapshot::{Quantity, Snapshot};

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
            used_ratio: Column::unknown(n),
            input_stall_ratio: Column::unknown(n),
            credit_stall_ratio: Column::unknown(n),
            input_stall_seconds: Column::unknown(n),
            credit_stall_seconds: Column::unknown(n),
            coverage: vec![0.0; n],
        }
    }

    /// The state that a snapshot of increases describes. Ratios need a window; without one they
    /// stay unknown.
    pub fn of_increase(fabric: &Fabric, snapshot: &Snapshot) -> Self {
        let mut state = Self::unknown(fabric);
        state.window_seconds = snapshot.window_seconds.filter(|&w| w > 0.0);
        let quantities: Vec<Quantity> = snapshot
            .quantities()
            .filter(|q| *q != Quantity::Lanes)
            .collect();
        for link in fabric.link_ids() {
            let read = quantities
                .iter()
                .filter(|&&q| snapshot.get(q, link).is_some())
                .count();
            state.coverage[link.index()] = read as f64 / quantities.len().max(1) as f64;
            let received = snapshot
                .get(Quantity::ReceivedBytes, link)
                .or_else(|| snapshot.get(Quantity::SentBytes, link));
            let input = snapshot
                .get(Quantity::InputStallNs, link)
                .map(|ns| ns * 1e-9);
            let credit = snapshot
                .get(Quantity::CreditStallNs, link)
                .map(|ns| ns * 1e-9);
            state.received_bytes.set(link, received);
            state.input_stall_seconds.set(link, input);
            state.credit_stall_seconds.set(link, credit);
            if let Some(window) = state.window_seconds {
                let capacity = fabric.link(link).capacity().0;
                let used = received
                    .filter(|_| capacity > 0.0)
                    .map(|b| b / (window * capacity));
                state.used_ratio.set(link, used);
                state.input_stall_ratio.set(link, input.map(|s| s / window));
                state
                    .credit_stall_ratio
                    .set(link, credit.map(|s| s / window));
            }
        }
        state
    }

    /// The state between two cumulative snapshots: increases over the time between them. A value
    /// that fell is a reset or a wrap that the source did not resolve, and stays unknown.
    pub fn between(fabric: &Fabric, earlier: &Snapshot, later: &Snapshot) -> Self {
        let mut increase = Snapshot::new(fabric, later.source.clone(), false);
        increase.time_seconds = later.time_seconds;
        increase.window_seconds = match (earlier.time_seconds, later.time_seconds) {
            (Some(a), Some(b)) if b > a => Some(b - a),
            _ => None,
        };
        for quantity in later.quantities() {
            for link in fabric.link_ids() {
                let (old, new) = (earlier.get(quantity, link), later.get(quantity, link));
                match (quantity, old, new) {
                    (Quantity::Lanes, _, Some(lanes)) => {
                        increase.set(quantity, link, lanes);
                    }
                    (_, Some(old), Some(new)) if new >= old => {
                        increase.set(quantity, link, new - old);
                    }
                    _ => {}
                }
            }
        }
        Self::of_increase(fabric, &increase)
    }
}
