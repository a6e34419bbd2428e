//! Measurements of a machine as a table.

use super::Table;
use hopbyte_fabric::units::count;
use serde_json::Value;

/// The results of `hopbyte-probe`, a line each.
pub fn calibration_text(results: &[Value], colour: bool) -> String {
    let mut table = Table::new(&[
        "<probe",
        "<pairs",
        "bytes",
        "median us",
        "least us",
        "most us",
        "MB/s",
        "messages/s",
    ]);
    for line in results {
        let number = |name: &str| line[name].as_f64();
        let whole = |name| number(name).map_or("-".into(), |n| count(n as usize));
        let scaled = |name, by| number(name).map_or("-".into(), |n| format!("{:.3}", n * by));
        table.row([
            line["probe"].as_str().unwrap_or_default().to_owned(),
            match (number("partner"), number("pairs")) {
                (Some(partner), _) => format!("ranks 0 and {partner}"),
                (None, Some(pairs)) => count(pairs as usize),
                (None, None) => "-".into(),
            },
            whole("bytes"),
            scaled("median_seconds", 1e6),
            scaled("least_seconds", 1e6),
            scaled("most_seconds", 1e6),
            scaled("bytes_per_second", 1e-6),
            whole("messages_per_second"),
        ]);
    }
    table.render(colour)
}
