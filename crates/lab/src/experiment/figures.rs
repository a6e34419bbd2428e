//! Results of the experiment's trials, as JSON and as text.

use hopbyte_job::statistics::{median, median_interval};
use serde::Serialize;

/// Cost model of a remap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// No remap: the best map of an idle machine.
    None,
    /// Hops times bytes: the machine without its counters.
    Hops,
    /// The most used link of a route times bytes (paper 003).
    Used,
    /// The most stalled link of a route times bytes (paper 003).
    CreditStall,
    /// Time of the worst link with the others' load.
    WorstLink,
}

impl Method {
    /// Methods that make a new map.
    pub const MAPPED: [Self; 4] = [Self::Hops, Self::Used, Self::CreditStall, Self::WorstLink];

    /// Name in text output.
    pub fn words(self) -> &'static str {
        match self {
            Self::None => "no remap",
            Self::Hops => "hops",
            Self::Used => "used bandwidth",
            Self::CreditStall => "credit stall",
            Self::WorstLink => "worst link (ours)",
        }
    }
}

/// One trial: times of a product.
#[derive(Clone, Debug, Serialize)]
pub struct Trial {
    /// With the static map, alone: before and after.
    pub alone: [f64; 2],
    /// With the static map, beside the streams: before, between and after the remaps.
    pub beside: Vec<f64>,
    /// Time alone, mean of both.
    pub alone_seconds: f64,
    /// Time beside the streams, median.
    pub congested_seconds: f64,
    /// Prediction of the model for both.
    pub alone_predicted_seconds: f64,
    /// See above.
    pub congested_predicted_seconds: f64,
    /// Endpoints of the streams.
    pub streams: Vec<[String; 2]>,
    /// Result of each method.
    pub remaps: Vec<Remap>,
    /// Links with load from the streams or the static map: actual load and counters.
    pub links: Vec<Seen>,
}

/// A link in a trial; ratios are of its rate.
#[derive(Clone, Debug, Serialize)]
pub struct Seen {
    pub link: String,
    /// Load from the streams.
    pub streams_ratio: f64,
    /// Load from the counters, and the part attributed to the streams.
    pub used_ratio: f64,
    pub others_ratio: f64,
    /// Share of the samples with a nonempty queue.
    pub waiting_ratio: f64,
    pub drops: u64,
    /// Messages of a product that the static map sends over it, and each method's.
    pub static_messages: f64,
    pub messages: Vec<f64>,
}

/// Result of one method in one trial.
#[derive(Clone, Debug, Serialize)]
pub struct Remap {
    pub method: Method,
    pub product_seconds: f64,
    /// Prediction of the model, which includes the streams.
    pub predicted_seconds: f64,
    /// Share of the time lost to the streams that was recovered, against the static map before and after; above 1 if the
    /// new map is faster beside the streams than the static one without them.
    pub recovered_ratio: Option<f64>,
    /// Time from the counters to the map.
    pub mapping_seconds: f64,
    /// Time of the blocks' migration.
    pub moving_seconds: f64,
    pub moved_blocks: u64,
}

/// A figure over trials.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figure {
    /// The method.
    pub method: Method,
    /// Median time of a product.
    pub product_seconds: f64,
    /// Median share of the lost time that was recovered.
    pub recovered_ratio: f64,
    /// Distribution-free confidence interval of the median, its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// Its confidence.
    pub confidence: f64,
}

/// The answer for scripts.
#[derive(Serialize)]
pub struct LabRecord {
    /// Schema of this record.
    pub schema: &'static str,
    /// Spec of the emulated machine.
    pub machine: String,
    /// Rate of its links.
    pub rate_bits_per_s: f64,
    /// Ranks of the application.
    pub ranks: usize,
    /// Its nodes.
    pub nodes: Vec<String>,
    /// Median time of a product alone.
    pub alone_seconds: f64,
    /// Median time of a product beside the streams.
    pub congested_seconds: f64,
    /// Medians by method.
    pub figures: Vec<Figure>,
    /// Whether the application's results were correct to the end.
    pub verified: bool,
    /// Every trial.
    pub trials: Vec<Trial>,
}

/// Medians of each method over trials.
pub fn figures(trials: &[Trial]) -> Vec<Figure> {
    let of = |method| {
        let remaps: Vec<&Remap> = (trials.iter())
            .flat_map(|t| t.remaps.iter().filter(move |r| r.method == method))
            .collect();
        let shares: Vec<f64> = remaps.iter().filter_map(|r| r.recovered_ratio).collect();
        let (low, high, confidence) = median_interval(&shares);
        Figure {
            method,
            product_seconds: median(&remaps.iter().map(|r| r.product_seconds).collect::<Vec<_>>()),
            recovered_ratio: median(&shares),
            low,
            high,
            confidence,
        }
    };
    Method::MAPPED.into_iter().map(of).collect()
}

impl LabRecord {
    /// Whether the map from counters was better than the others.
    pub fn holds(&self) -> bool {
        let share = |m: Method| {
            self.figures
                .iter()
                .find(|f| f.method == m)
                .map_or(0.0, |f| f.recovered_ratio)
        };
        let best = share(Method::CreditStall).max(share(Method::WorstLink));
        self.verified && best >= 0.5 && best > share(Method::Hops)
    }

    /// Trials in which the competing application cost time.
    pub fn losses(&self) -> usize {
        let any = |t: &&Trial| t.remaps.iter().any(|r| r.recovered_ratio.is_some());
        self.trials.iter().filter(any).count()
    }
}
