//! Reports of `ibqueryerrors` that list no port: every counter of the fabric is at or below its threshold.
//!
//! ```text
//! ## Summary: 51 nodes checked, 0 bad nodes found
//! ##          681 ports checked, 0 ports have errors beyond threshold
//! ## Thresholds:
//! ## Suppressed:
//! ```
//!
//! Beside reports that list ports, such a report is a reading of these: a counter with neither a threshold nor
//! suppression is zero, the others are not known.

use super::delta::Moment;
use super::mads;
use super::reading::{Port, Reading};
use super::series::Series;
use crate::text::{Text, decimal, lossy};
use hopbyte_fabric::{Fabric, Increase, LeftOut, Quantity, Totals};
use std::collections::BTreeMap;

/// Reason for ports without a value.
pub(super) const CLEAN: &str = "report without a port above its thresholds; the counters of ports that no file lists are not known";

/// What a report says of ports that it does not list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Clean {
    /// Counters with a threshold or suppressed.
    unknown: Vec<String>,
}

/// Whether a line is the summary of a report.
pub(super) fn is_summary(line: &[u8]) -> bool {
    let Some(rest) = line.strip_prefix(b"## Summary: ") else {
        return false;
    };
    let mut words = crate::text::words(rest);
    words.next().and_then(decimal).is_some_and(|n| n > 0)
        && words.next() == Some(b"nodes")
        && words.next() == Some(b"checked,")
}

impl Clean {
    /// The report of a text, if it is one and lists no port.
    pub(super) fn of(text: &Text) -> Option<Self> {
        let mut clean = None;
        for line in text.lines() {
            let line = line.trimmed();
            if is_summary(line) {
                clean.get_or_insert_with(Self::default);
            } else if let Some(rest) = lossy(line).strip_prefix("## ") {
                let named = ["Thresholds:", "Suppressed:"];
                let names = named.iter().find_map(|n| rest.trim_start().strip_prefix(n));
                if let (Some(clean), Some(names)) = (&mut clean, names) {
                    let names = names.split([' ', '[', ']', ',', '=']);
                    let names = names.filter(|n| !n.is_empty()).map(str::to_owned);
                    clean.unknown.extend(names);
                }
            } else if !line.is_empty() && !line.starts_with(b"#") {
                return None;
            }
        }
        clean
    }

    /// Its reading of a device of another report.
    fn reading(&self, like: &Reading) -> Reading {
        let counters = like.layout.counters.iter();
        let values: Vec<Option<u64>> = counters
            .map(|counter| {
                let mad = mads::mad_name(&counter.name)?;
                let is_listed = matches!(
                    counter.quantity,
                    Quantity::Errors
                        | Quantity::Downs
                        | Quantity::CreditStallCount
                        | Quantity::CreditStallBytes
                );
                (is_listed && !self.unknown.iter().any(|u| u == mad)).then_some(0)
            })
            .collect();
        Reading::of(like.layout.clone(), Moment::default(), &values)
    }
}

/// Adds to `readings` those of clean reports, each at its place in the order of the files.
pub(super) fn add(clean: Vec<(usize, Clean)>, readings: &mut Vec<Reading>) {
    let is_report = |r: &&Reading| {
        let ports = &r.layout.ports;
        let is_mad = |p: &Port| matches!(p, Port::InfiniBand { .. });
        !ports.is_empty() && ports.iter().all(is_mad)
    };
    let mut devices: BTreeMap<String, Reading> = BTreeMap::new();
    for reading in readings.iter().filter(is_report) {
        let device = devices.entry(reading.layout.node.clone());
        device.or_insert_with(|| reading.clone());
    }
    for (at, report) in clean.into_iter().rev() {
        let of_devices = devices.values().map(|like| report.reading(like));
        readings.splice(at..at, of_devices.collect::<Vec<_>>());
    }
}

/// The series of clean reports alone: nothing is known of any link.
pub(super) fn alone(
    reports: usize,
    (source, interval): (&str, Option<f64>),
    fabric: &Fabric,
    left_out: &LeftOut,
) -> Series {
    if reports == 1 {
        let mut totals = Totals::new(fabric, source);
        totals.left_out.extend(left_out);
        return Series::Totals(totals);
    }
    let mut increase = Increase::new(fabric, source);
    increase.window_seconds = interval;
    increase.left_out.extend(left_out);
    Series::Increases(vec![increase])
}

#[cfg(test)]
mod tests;
