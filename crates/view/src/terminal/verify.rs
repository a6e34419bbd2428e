//! A verified mapping as a page.

use super::Table;
use hopbyte_fabric::units::{SIZES, TIMES, scale};
use hopbyte_job::verify::{Load, Predicted, VerifyReport};
use std::fmt::Write as _;

/// Loads before and after, the prediction, and the verdict.
pub fn verify_text(report: &VerifyReport, colour: bool) -> String {
    let mut page = format!("# after: {}\n", report.after.source);
    if let Some(before) = &report.before {
        let _ = writeln!(page, "# before: {}", before.source);
    }
    if let Some(predicted) = report.predicted.as_ref().filter(|p| p.wire != "payload") {
        let network = predicted.wire;
        let _ = writeln!(page, "# predicted: bytes on the wire, {network}");
    }
    page += &loads(report, colour);
    if let Some(predicted) = &report.predicted
        && !predicted.links.is_empty()
    {
        page.push('\n');
        page += &apart(predicted, colour);
    }
    let _ = writeln!(page, "\n{}", verdict(report));
    page
}

fn loads(report: &VerifyReport, colour: bool) -> String {
    let most = |value: fn(&Load) -> f64| {
        report
            .before
            .iter()
            .map(value)
            .fold(value(&report.after), f64::max)
    };
    let (time, seconds) = scale(most(|l| l.worst_link_seconds), &TIMES);
    let (size, bytes) = scale(most(|l| l.hop_bytes), &SIZES);
    let mut table = Table::new(&[
        "<",
        &format!("worst link {time}"),
        &format!("hop-bytes {size}"),
        "used % (worst)",
        "input stall % (worst)",
        "credit stall % (worst)",
        "<worst link",
    ]);
    let percent = |v: Option<f64>| v.map_or("-".into(), |v| format!("{:.1}", 100.0 * v));
    let mut row = |name: &str, l: &Load| {
        table.row([
            name.to_owned(),
            format!("{:.3}", l.worst_link_seconds / seconds),
            format!("{:.3}", l.hop_bytes / bytes),
            percent(l.worst_used_ratio),
            percent(l.worst_input_stall_ratio),
            percent(l.worst_credit_stall_ratio),
            l.worst_link.clone().unwrap_or_default(),
        ]);
    };
    if let Some(before) = &report.before {
        row("before", before);
    }
    row("after", &report.after);
    if let Some(p) = &report.predicted {
        table.row([
            "predicted".to_owned(),
            format!("{:.3}", p.worst_link_seconds / seconds),
            format!("{:.3}", p.hop_bytes / bytes),
            "-".into(),
            "-".into(),
            "-".into(),
            p.worst_link.clone().unwrap_or_default(),
        ]);
    }
    table.render(colour)
}

fn verdict(report: &VerifyReport) -> String {
    let mut words = Vec::new();
    if let (Some(before), Some(helped)) = (&report.before, report.helped) {
        let change = 100.0 * (report.after.worst_link_seconds / before.worst_link_seconds - 1.0);
        let promised = report.predicted.as_ref().and_then(|p| p.change);
        let promised =
            promised.map_or(String::new(), |c| format!(", promised {:+.1} %", 100.0 * c));
        let word = if helped {
            "it helped"
        } else {
            "it did not help"
        };
        words.push(format!("{word}: worst link {change:+.1} %{promised}"));
    }
    if let (Some(p), Some(right)) = (&report.predicted, report.as_predicted) {
        let apart = 100.0 * (p.worst_link_seconds / report.after.worst_link_seconds - 1.0);
        let word = if right { "within" } else { "outside" };
        words.push(format!(
            "the worst link's predicted time is {apart:+.1} % off the observed one, {word} {} %; bytes of all links differ by {:.1} %",
            report.tolerance_percent,
            100.0 * p.bytes_apart
        ));
    }
    if words.is_empty() {
        words.push("nothing to compare with; give --before or --mapping".into());
    }
    words.join("\n")
}

/// Links with the largest differences between prediction and counters.
fn apart(predicted: &Predicted, colour: bool) -> String {
    let largest = predicted
        .links
        .iter()
        .map(|l| l.predicted_bytes.max(l.observed_bytes))
        .fold(0.0, f64::max);
    let (size, bytes) = scale(largest, &SIZES);
    let header = [format!("predicted {size}"), format!("observed {size}")];
    let mut table = Table::new(&["<furthest apart", &header[0], &header[1], "difference %"]);
    for l in &predicted.links {
        let difference = 100.0 * (l.predicted_bytes / l.observed_bytes - 1.0);
        table.row([
            l.link.clone(),
            format!("{:.3}", l.predicted_bytes / bytes),
            format!("{:.3}", l.observed_bytes / bytes),
            if difference.is_finite() {
                format!("{difference:+.1}")
            } else {
                "-".into()
            },
        ]);
    }
    table.render(colour)
}
