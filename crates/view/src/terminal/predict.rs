//! Predicted run times as a page.

use super::Table;
use hopbyte_fabric::units::{TIMES, count, scale};
use hopbyte_job::predict::Prediction;
use std::fmt::Write as _;

/// Run times and their parts by placement, and the answer.
pub fn predict_text(prediction: &Prediction, colour: bool) -> String {
    let rows = &prediction.placements;
    let longest = rows.iter().map(|r| r.most_seconds).fold(0.0, f64::max);
    let (unit, second) = scale(longest, &TIMES);
    let mut page = format!(
        "# {}: {} ranks, {} calls, {} of them executed\n# {}, network {}: {}\n# {}\n",
        prediction.trace,
        count(prediction.ranks),
        count(prediction.calls as usize),
        count(prediction.executed_calls as usize),
        prediction.machine,
        prediction.network,
        prediction.calibration,
        prediction.interval
    );
    if let Some(seconds) = prediction.recorded_seconds {
        let _ = writeln!(page, "# recorded: {:.4} {unit}", seconds / second);
    }
    let time = format!("run time {unit}");
    let mut table = Table::new(&[
        "<placement",
        &time,
        "<interval",
        "compute",
        "waiting",
        "latency",
        "bandwidth",
        "contention",
        "gain %",
    ]);
    for r in rows {
        let shown = |seconds: f64| format!("{:.4}", seconds / second);
        table.row([
            r.name.clone(),
            shown(r.seconds),
            format!("{} to {}", shown(r.least_seconds), shown(r.most_seconds)),
            shown(r.compute_seconds),
            shown(r.waiting_seconds),
            shown(r.latency_seconds),
            shown(r.bandwidth_seconds),
            shown(r.contention_seconds),
            format!("{:.1}", 100.0 * r.gain_ratio),
        ]);
    }
    page += &table.render(colour);
    let _ = writeln!(page, "\n{}", prediction.sentence);
    page
}
