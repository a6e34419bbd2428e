//! Verification: a mapping's prediction, and the run before, against the counters of the run after.

pub mod bus;
pub mod run_time;

use crate::by_host::traffic_on;
use crate::document::Document;
use crate::error::Result;
use crate::inputs::{self, LinkReading};
use crate::machine::Machine;
use hopbyte_fabric::{Column, Fabric, LinkId, LinkState};
use hopbyte_map::{Problem, evaluate};
use serde::Serialize;

/// Links that a report lists.
const LISTED: usize = 8;

/// The answer.
#[derive(Serialize)]
pub struct VerifyReport {
    schema: &'static str,
    /// Whether the worst link's time decreased.
    pub helped: Option<bool>,
    /// Whether predicted and observed agree within the tolerance.
    pub as_predicted: Option<bool>,
    /// The tolerance.
    pub tolerance_percent: f64,
    /// The run before, where its counters were given.
    pub before: Option<Load>,
    /// The run after.
    pub after: Load,
    /// The mapping's prediction, where the mapping was given.
    pub predicted: Option<Predicted>,
}

impl VerifyReport {
    /// Compares the counters of a run with those of the run before and with a prediction.
    pub fn new(
        fabric: &Fabric,
        before: Option<&LinkReading>,
        after: &LinkReading,
        predicted: Option<Predicted>,
        tolerance_percent: f64,
    ) -> Self {
        let before = before.map(|reading| Load::of(fabric, reading));
        let after = Load::of(fabric, after);
        let observed = after.worst_link_seconds;
        let as_predicted = predicted.as_ref().map(|p| {
            (p.worst_link_seconds - observed).abs() <= tolerance_percent / 100.0 * observed
        });
        Self {
            schema: "hopbyte.verify/1",
            helped: before.as_ref().map(|b| observed < b.worst_link_seconds),
            as_predicted,
            tolerance_percent,
            before,
            after,
            predicted,
        }
    }

    /// Whether no comparison failed.
    pub fn holds(&self) -> bool {
        self.helped != Some(false) && self.as_predicted != Some(false)
    }
}

/// Summary of a reading.
#[derive(Clone, Serialize)]
pub struct Load {
    /// Source of the counters.
    pub source: String,
    /// Length of their window.
    pub window_seconds: Option<f64>,
    /// Bytes over capacity of the worst link.
    pub worst_link_seconds: f64,
    /// Its name.
    pub worst_link: Option<String>,
    /// Bytes received on links between routers.
    pub hop_bytes: f64,
    /// Largest use of a link.
    pub worst_used_ratio: Option<f64>,
    /// Largest share of the window with arrivals waiting.
    pub worst_input_stall_ratio: Option<f64>,
    /// Largest share of the window without credits.
    pub worst_credit_stall_ratio: Option<f64>,
    /// Share of the links that were read.
    pub coverage: f64,
}

impl Load {
    fn of(fabric: &Fabric, reading: &LinkReading) -> Self {
        let state = &reading.state;
        let time = |l: LinkId| Some(state.received_bytes.get(l)? / fabric.link(l).capacity().0);
        let worst = fabric
            .link_ids()
            .filter_map(|l| Some((l, time(l)?)))
            .fold(None, |worst: Option<(LinkId, f64)>, next| {
                worst.filter(|w| w.1 >= next.1).or(Some(next))
            });
        let hops = fabric.link_ids().filter(|&l| fabric.is_hop(l));
        let most = |c: &Column| {
            c.as_slice()
                .iter()
                .copied()
                .filter(|v| !v.is_nan())
                .reduce(f64::max)
        };
        Self {
            source: reading.source.clone(),
            window_seconds: state.window_seconds,
            worst_link_seconds: worst.map_or(0.0, |w| w.1),
            worst_link: worst.map(|w| fabric.link_name(w.0)),
            // An empty sum of floats is -0.
            hop_bytes: hops
                .filter_map(|l| state.received_bytes.get(l))
                .fold(0.0, |sum, bytes| sum + bytes),
            worst_used_ratio: most(&state.used_ratio),
            worst_input_stall_ratio: most(&state.input_stall_ratio),
            worst_credit_stall_ratio: most(&state.credit_stall_ratio),
            coverage: state.received_bytes.known() as f64 / fabric.links().len().max(1) as f64,
        }
    }
}

/// The mapping's prediction, including its background.
#[derive(Serialize)]
pub struct Predicted {
    /// Of the mapped placement: bytes over capacity, background included.
    pub worst_link_seconds: f64,
    /// The worst link's name.
    pub worst_link: Option<String>,
    /// Bytes times hops.
    pub hop_bytes: f64,
    /// Network whose protocol the bytes include, or `payload`, as in the mapping.
    pub wire: &'static str,
    /// Predicted change of the worst link's time: result over the value before, less 1. Absent
    /// with a background, whose bytes the mapper subtracts from the capacities and counters add.
    pub change: Option<f64>,
    /// Sum of differences of all links over the sum observed.
    pub bytes_apart: f64,
    /// Links where predicted and observed differ most.
    pub links: Vec<Apart>,
}

/// One link, predicted and observed.
#[derive(Serialize)]
pub struct Apart {
    /// Its name.
    pub link: String,
    /// By the mapping.
    pub predicted_bytes: f64,
    /// By the counters.
    pub observed_bytes: f64,
}

/// Recomputes every link's bytes under a stored mapping, and compares them with counters.
///
/// # Errors
/// The mapping is of another machine, or its traffic or background cannot be read again.
pub fn predict(
    saved: &Document,
    machine: &Machine,
    observed: &LinkState,
    repeats: f64,
) -> Result<Predicted> {
    let fabric = &machine.fabric;
    let (allocation, placement) = saved.placed(fabric)?;
    let exchange = traffic_on(&saved.traffic.source, fabric, &placement)?.total();
    let loads = saved.overhead(fabric)?.loads(fabric, &exchange)?;
    let problem = Problem {
        loads: loads.exchange.as_ref(),
        ..Problem::new(fabric, &machine.routing, &exchange, &allocation)
    };
    let mut bytes = evaluate(&problem, &placement)?.link_bytes;
    bytes.iter_mut().for_each(|b| *b *= repeats);
    if let Some(background) = &saved.background {
        let reading = inputs::reading(&background.files, fabric, &background.options())?;
        for (sum, own) in bytes
            .iter_mut()
            .zip(reading.state.received_bytes.as_slice())
        {
            *sum += if own.is_nan() { 0.0 } else { *own };
        }
    }
    let mut links: Vec<(LinkId, f64, f64)> = fabric
        .link_ids()
        .filter_map(|l| Some((l, bytes[l.index()], observed.received_bytes.get(l)?)))
        .collect();
    let all: f64 = links.iter().map(|l| l.2).sum();
    let apart: f64 = links.iter().map(|l| (l.1 - l.2).abs()).sum();
    let hops = links.iter().filter(|l| fabric.is_hop(l.0));
    let hop_bytes = hops.map(|l| l.1).fold(0.0, |sum, bytes| sum + bytes);
    let time = |l: &(LinkId, f64, f64)| l.1 / fabric.link(l.0).capacity().0;
    let worst = links.iter().max_by(|a, b| time(a).total_cmp(&time(b)));
    let (worst_link, worst_link_seconds) = (
        worst.map(|l| fabric.link_name(l.0)),
        worst.map_or(0.0, time),
    );
    links.sort_by(|a, b| {
        (b.1 - b.2)
            .abs()
            .total_cmp(&(a.1 - a.2).abs())
            .then(a.0.cmp(&b.0))
    });
    let was = saved.current.as_ref().unwrap_or(&saved.baseline);
    Ok(Predicted {
        worst_link_seconds,
        worst_link,
        hop_bytes,
        wire: loads.overhead.name(),
        change: saved
            .background
            .is_none()
            .then(|| saved.result.worst_link_seconds / was.worst_link_seconds - 1.0),
        bytes_apart: if all > 0.0 { apart / all } else { 0.0 },
        links: links
            .into_iter()
            .take(LISTED)
            .filter(|l| l.1 != l.2)
            .map(|(link, predicted_bytes, observed_bytes)| Apart {
                link: fabric.link_name(link),
                predicted_bytes,
                observed_bytes,
            })
            .collect(),
    })
}
