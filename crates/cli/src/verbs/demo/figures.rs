//! What the trials of the experiment say, for scripts and for people.

use crate::output::{Output, Table};
use crate::statistics::{median, median_interval};
use anyhow::Result;
use serde::Serialize;

/// What a remap is based on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// No remap: the best map of a machine that nobody else uses.
    None,
    /// Hops times bytes: the machine without its counters.
    Hops,
    /// The most used link of a route times bytes (paper 003).
    Used,
    /// The most stalled link of a route times bytes (paper 003).
    CreditStall,
    /// Time of the worst link beside the others' load.
    WorstLink,
}

impl Method {
    pub const MAPPED: [Self; 4] = [Self::Hops, Self::Used, Self::CreditStall, Self::WorstLink];

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
    pub alone_seconds: f64,
    pub congested_seconds: f64,
    /// What the model says of both.
    pub alone_predicted_seconds: f64,
    pub congested_predicted_seconds: f64,
    /// Nodes that the streams are between.
    pub streams: Vec<[String; 2]>,
    pub remaps: Vec<Remap>,
    /// Links that streams or the static map put something on, as they are and as the counters have them.
    pub links: Vec<Seen>,
}

/// A link in a trial; ratios are of its rate.
#[derive(Clone, Debug, Serialize)]
pub struct Seen {
    pub link: String,
    /// What the streams put on it.
    pub streams_ratio: f64,
    /// What the counters hold, and what of it is taken for the streams'.
    pub used_ratio: f64,
    pub others_ratio: f64,
    /// Share of the looks at which something waited for it.
    pub waiting_ratio: f64,
    pub drops: u64,
    /// Messages of a product that the static map sends over it, and each method's.
    pub static_messages: f64,
    pub messages: Vec<f64>,
}

/// What came of one method in one trial.
#[derive(Clone, Debug, Serialize)]
pub struct Remap {
    pub method: Method,
    pub product_seconds: f64,
    /// What the model says of it, which knows the streams.
    pub predicted_seconds: f64,
    /// Share of the time lost to the streams that came back, against the static map before and after; above 1 where the
    /// new map is faster beside them than the static one without.
    pub recovered_ratio: Option<f64>,
    /// From the counters to the map.
    pub mapping_seconds: f64,
    /// The blocks' way to their new ranks.
    pub moving_seconds: f64,
    pub moved_blocks: u64,
}

/// A figure over trials.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figure {
    pub method: Method,
    pub product_seconds: f64,
    pub recovered_ratio: f64,
    /// Interval of the median that holds without assumptions, and how surely.
    pub low: f64,
    pub high: f64,
    pub confidence: f64,
}

/// The answer for scripts.
#[derive(Serialize)]
pub struct Record {
    pub schema: &'static str,
    pub machine: String,
    pub rate_bits_per_s: f64,
    pub ranks: usize,
    pub nodes: Vec<String>,
    pub alone_seconds: f64,
    pub congested_seconds: f64,
    pub figures: Vec<Figure>,
    pub verified: bool,
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

impl Record {
    /// Whether the machine's counters were worth it.
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

    /// Trials in which the competing application cost something.
    fn losses(&self) -> usize {
        let any = |t: &&Trial| t.remaps.iter().any(|r| r.recovered_ratio.is_some());
        self.trials.iter().filter(any).count()
    }

    /// The text for people.
    pub fn write(&self, out: &mut Output) -> Result<()> {
        out.line(format!(
            "# {} ranks on {} nodes of {} at {} Mbit/s; {} trials, {} of them with a loss; medians",
            self.ranks,
            self.nodes.len(),
            self.machine,
            self.rate_bits_per_s / 1e6,
            self.trials.len(),
            self.losses()
        ))?;
        let ms = |s: f64| format!("{:.1}", 1e3 * s);
        let mut table = Table::new(&["<product", "ms", "recovered %", "interval", "confidence %"]);
        table.row(["without congestion".into(), ms(self.alone_seconds)]);
        table.row([
            Method::None.words().into(),
            ms(self.congested_seconds),
            "0".into(),
        ]);
        for f in &self.figures {
            table.row([
                f.method.words().into(),
                ms(f.product_seconds),
                format!("{:.0}", 100.0 * f.recovered_ratio),
                format!("{:.0} to {:.0}", 100.0 * f.low, 100.0 * f.high),
                format!("{:.1}", 100.0 * f.confidence),
            ]);
        }
        out.table(&table)?;
        let remaps = self.trials.iter().flat_map(|t| &t.remaps);
        let (mapping, moving): (Vec<f64>, Vec<f64>) = remaps
            .map(|r| (r.mapping_seconds, r.moving_seconds))
            .unzip();
        out.line(format!(
            "\na map took {} ms to find and {} ms to carry out over the shaped links; results {}",
            ms(median(&mapping)),
            ms(median(&moving)),
            if self.verified { "verified" } else { "WRONG" }
        ))?;
        Ok(())
    }
}
