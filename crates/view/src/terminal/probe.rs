//! The analysis of probes as text.

use super::Table;
use hopbyte_fabric::units::count;
use hopbyte_job::probe::analysis::{Analysis, ComponentRow, DetectableRow};
use std::fmt::Write as _;

/// The analysis in text.
pub fn probe_text(record: &Analysis, colour: bool) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "# {} paths, {} of them slow; {} links between routers were on none",
        count(record.paths),
        count(record.slow_paths),
        count(record.links_not_measured)
    );
    let shown = |d: &DetectableRow| {
        let never = match d.never {
            0 => String::new(),
            n => format!(", never for {} of {}", count(n), count(d.components)),
        };
        format!("{} {:.0} %{never}", d.kind, 100.0 * d.median_share)
    };
    let shown: Vec<String> = record.detectable.iter().map(shown).collect();
    let _ = writeln!(
        out,
        "# found at or below, of full strength (median): {}",
        shown.join("; ")
    );
    let rate = |r: f64| format!("{:.2}", r / 1e6);
    let mut table = Table::new(&[
        "<kind",
        "<mode",
        "paths",
        "expected MB/s",
        "least MB/s",
        "noise %",
    ]);
    for c in &record.classes {
        table.row([
            c.kind.clone(),
            c.mode.clone(),
            count(c.paths),
            rate(c.expected_bytes_per_s),
            rate(c.least_bytes_per_s),
            format!("{:.1}", 100.0 * c.noise),
        ]);
    }
    out.push_str(&table.render(colour));
    if record.slow_paths == 0 {
        out.push_str("\nevery path is as fast as its class\n");
        return out;
    }
    out.push('\n');
    let mut table = Table::new(&[
        "<slow",
        "<name",
        "paths",
        "expected MB/s",
        "measured MB/s",
        "<verdict",
    ]);
    for c in &record.components {
        table.row([
            c.kind.into(),
            c.name.clone(),
            count(c.paths),
            rate(c.expected_bytes_per_s),
            rate(c.measured_bytes_per_s),
            c.verdict.clone(),
        ]);
    }
    for p in &record.unexplained {
        table.row([
            "path".into(),
            format!("{} to {}", p.from, p.to),
            "1".into(),
            rate(p.expected_bytes_per_s),
            rate(p.measured_bytes_per_s),
            "slow without an explanation: other paths with the same components are not".into(),
        ]);
    }
    out.push_str(&table.render(colour));
    for c in record.components.iter().filter(|c| !c.or.is_empty()) {
        let _ = writeln!(out, "{}", undecided(c));
    }
    out
}

/// Components that the measurements do not tell apart, and the transfer that would.
fn undecided(c: &ComponentRow) -> String {
    let or = c.or.join(" or ");
    let mut text = format!("\ncannot tell {} {} from {or}", c.kind, c.name);
    match &c.next_probe {
        None => text.push_str("; no transfer between two nodes here would"),
        Some(p) if p.from == p.to => {
            text.push_str(&format!(
                "; a transfer between two ranks on {} would",
                p.from
            ));
        }
        Some(p) => {
            let rates = p.if_bytes_per_s.iter().map(|i| {
                let rate = i
                    .bytes_per_s
                    .map_or("-".into(), |r| format!("{:.2}", r / 1e6));
                format!("{rate} MB/s if it is {}", i.component)
            });
            let rates: Vec<String> = rates.collect();
            text.push_str(&format!(
                "; a transfer from {} to {} alone would: {}",
                p.from,
                p.to,
                rates.join(", ")
            ));
        }
    }
    text
}
