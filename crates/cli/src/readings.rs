//! Counters that a command line names, as the load of every link.

use crate::draw::{LinkLoads, Unit};
use crate::output::count;
use anyhow::Result;
use hopbyte_fabric::{Column, Fabric, InputError, LinkState, Snapshot};
use hopbyte_observe::{CounterOptions, read_counters};
use std::path::{Path, PathBuf};

/// What the files do not say themselves.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct ReadingOptions {
    /// Length of the interval that the counters cover, in seconds, where they do not say it
    #[arg(long, value_name = "SECONDS", help_heading = "Counters")]
    pub interval: Option<f64>,
    /// Code region of a Boxfish link table (default: the whole run)
    #[arg(
        long,
        value_name = "N",
        allow_hyphen_values = true,
        help_heading = "Counters"
    )]
    pub region: Option<i64>,
}

/// Counters of one or several files, joined to links.
pub struct Readings {
    /// The load of every link.
    pub state: LinkState,
    /// Where it comes from.
    pub source: String,
    /// Rows that named a link of the fabric.
    pub matched: usize,
    /// Rows that named none.
    pub unmatched: usize,
}

impl ReadingOptions {
    /// Reads all files: increases are added up; of totals, the first and the last make the increase,
    /// and a single reading of totals stands for the time since the counters began.
    pub fn read(&self, files: &[PathBuf], fabric: &Fabric) -> Result<Readings> {
        let options = CounterOptions {
            interval_seconds: self.interval,
            region: self.region,
        };
        let mut snapshots: Vec<Snapshot> = Vec::new();
        for file in files {
            let next = read_counters(file, fabric, &options)?;
            if let Some(first) = snapshots.first()
                && first.cumulative != next.cumulative
            {
                return Err(mixed(file, next.cumulative).into());
            }
            snapshots.push(next);
        }
        let Some(first) = snapshots.first() else {
            return Err(InputError::new("counters", "", "at least one file of counters").into());
        };
        let (matched, unmatched) = snapshots
            .iter()
            .fold((0, 0), |(m, u), s| (m + s.matched, u + s.unmatched));
        let state = match (&snapshots[..], first.cumulative) {
            ([_, .., last], true) => LinkState::between(fabric, first, last),
            _ => {
                let mut sum = first.clone();
                snapshots[1..].iter().for_each(|s| sum.extend_by(s));
                LinkState::of_increase(fabric, &sum)
            }
        };
        Ok(Readings {
            state,
            source: source(files, first.cumulative),
            matched,
            unmatched,
        })
    }
}

fn mixed(file: &Path, totals: bool) -> InputError {
    let (found, expected) = if totals {
        ("totals", "increases, as in the files before")
    } else {
        ("increases", "totals, as in the files before")
    };
    InputError::new(file.display().to_string(), found, expected)
        .hint("read them one at a time: what grew and what there is cannot be added up")
}

fn source(files: &[PathBuf], totals: bool) -> String {
    let name = |p: &PathBuf| p.display().to_string();
    match (files, totals) {
        ([one], true) => format!("{}: totals since the counters began", name(one)),
        ([first, .., last], true) => format!("from {} to {}", name(first), name(last)),
        ([first, .., last], false) => format!("{} to {}, added up", name(first), name(last)),
        _ => files.iter().map(name).collect(),
    }
}

impl Readings {
    /// Source, window, coverage and join in a sentence or two.
    pub fn words(&self, fabric: &Fabric) -> String {
        let window = self.state.window_seconds.map_or_else(
            || "window not known".to_owned(),
            |w| format!("window {}", hopbyte_fabric::units::Seconds(w)),
        );
        let covered = self.state.coverage.iter().filter(|&&c| c > 0.0).count();
        let mut text = format!(
            "Readings: {}; {window}; {} of {} links read.",
            self.source,
            count(covered),
            count(fabric.links().len())
        );
        if self.unmatched > 0 {
            text.push_str(&format!(
                " {} of {} rows name no link of this machine.",
                count(self.unmatched),
                count(self.matched + self.unmatched)
            ));
        }
        text
    }

    /// What can be drawn, the most telling first: every column that was read, shares where the window
    /// is known, plain numbers where it is not.
    pub fn loads(&self) -> Vec<LinkLoads> {
        let s = &self.state;
        let either = |share: &Column, plain: &Column, name: &str, unit: Unit| {
            if share.known() > 0 {
                LinkLoads::of_column(name, Unit::Ratio, share)
            } else {
                LinkLoads::of_column(name, unit, plain)
            }
        };
        let used = if s.used_ratio.known() > 0 {
            LinkLoads::of_column("used share of capacity", Unit::Ratio, &s.used_ratio)
        } else {
            LinkLoads::of_column("bytes received", Unit::Bytes, &s.received_bytes)
        };
        [
            used,
            either(
                &s.input_stall_ratio,
                &s.input_stall_seconds,
                "input stall",
                Unit::Seconds,
            ),
            either(
                &s.credit_stall_ratio,
                &s.credit_stall_seconds,
                "credit stall",
                Unit::Seconds,
            ),
            LinkLoads::of_column("packets", Unit::Count, &s.packets),
        ]
        .into_iter()
        .filter(|l| l.values().iter().any(|v| !v.is_nan()))
        .collect()
    }
}
