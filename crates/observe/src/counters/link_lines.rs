//! Our own link table: what `hopbyte links --json` prints, one link a line and a summary last.

use crate::ObserveError;
use crate::text::{Text, lossy};
use hopbyte_fabric::{Fabric, LinkId, Quantity, Snapshot};
use serde::Deserialize;
use std::collections::HashMap;

/// How every line begins.
const BEGIN: &[u8] = br#"{"schema":"hopbyte.link/1""#;

pub(super) fn is_line(content: &[u8]) -> bool {
    content.starts_with(BEGIN)
}

/// One line: a link, or the summary.
#[derive(Deserialize)]
struct Row {
    link: Option<String>,
    received_bytes: Option<f64>,
    packets: Option<f64>,
    used_ratio: Option<f64>,
    input_stall_ratio: Option<f64>,
    credit_stall_ratio: Option<f64>,
    input_stall_seconds: Option<f64>,
    credit_stall_seconds: Option<f64>,
    errors: Option<f64>,
    lanes: Option<f64>,
    summary: Option<Summary>,
}

#[derive(Deserialize)]
struct Summary {
    window_seconds: Option<f64>,
}

/// Reads it as increases over the window that the summary gives.
pub(super) fn read(text: &Text, fabric: &Fabric) -> Result<Vec<Snapshot>, ObserveError> {
    let names: HashMap<String, LinkId> = fabric
        .link_ids()
        .map(|l| (fabric.link_name(l), l))
        .collect();
    let mut snapshot = Snapshot::new(fabric, text.file(), false);
    for line in text.lines().filter(|l| !l.trimmed().is_empty()) {
        let row: Row = serde_json::from_slice(line.bytes).map_err(|e| {
            let expected = "one JSON object a line, as `hopbyte links --json` prints it";
            text.error_at(line, expected).hint(e.to_string())
        })?;
        if let Some(summary) = row.summary {
            snapshot.window_seconds = summary.window_seconds.filter(|w| w.is_finite() && *w > 0.0);
            continue;
        }
        let Some(link) = row.link.as_ref().and_then(|name| names.get(name)) else {
            snapshot.unmatched += 1;
            continue;
        };
        snapshot.matched += 1;
        for (quantity, value) in row.values() {
            let Some(value) = value else { continue };
            if !(value.is_finite() && value >= 0.0) {
                let found = lossy(line.bytes);
                return Err(text
                    .error(found, "values not below zero")
                    .at(line.number)
                    .into());
            }
            snapshot.set(quantity, *link, value);
        }
    }
    Ok(vec![snapshot])
}

impl Row {
    fn values(&self) -> [(Quantity, Option<f64>); 9] {
        let ns = |seconds: Option<f64>| seconds.map(|s| s * 1e9);
        [
            (Quantity::ReceivedBytes, self.received_bytes),
            (Quantity::ReceivedPackets, self.packets),
            (Quantity::UsedRatio, self.used_ratio),
            (Quantity::InputStallRatio, self.input_stall_ratio),
            (Quantity::CreditStallRatio, self.credit_stall_ratio),
            (Quantity::InputStallNs, ns(self.input_stall_seconds)),
            (Quantity::CreditStallNs, ns(self.credit_stall_seconds)),
            (Quantity::Errors, self.errors),
            (Quantity::Lanes, self.lanes),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Limits;
    use hopbyte_fabric::{LinkState, spec};

    fn read_bytes(bytes: &[u8]) -> Result<Snapshot, ObserveError> {
        let fabric = spec::fabric("torus:4x4").unwrap();
        let text = Text::from_bytes("lines", bytes, Limits::TEXT).unwrap();
        super::super::counters(&text, &fabric, &super::super::CounterOptions::default())
    }

    #[test]
    fn lines_become_the_state_they_were() {
        let fabric = spec::fabric("torus:4x4").unwrap();
        let text = concat!(
            r#"{"schema":"hopbyte.link/1","link":"r0-0 X+","received_bytes":1.25e9,"used_ratio":null}"#,
            "\n",
            r#"{"schema":"hopbyte.link/1","link":"r9-9 X+","received_bytes":1}"#,
            "\n",
            r#"{"schema":"hopbyte.link/1","summary":{"window_seconds":0.5,"rows":2}}"#,
        );
        let snapshot = read_bytes(text.as_bytes()).unwrap();
        assert_eq!((snapshot.matched, snapshot.unmatched), (1, 1));
        let state = LinkState::of_increase(&fabric, &snapshot);
        let link = fabric.find_link("r0-0 X+").unwrap();
        // 1.25 GB in half a second over 12.5 GB/s.
        assert_eq!(state.used_ratio.get(link), Some(0.2));
        assert_eq!(state.credit_stall_ratio.get(link), None);
    }

    #[test]
    fn bent_lines_are_refused_with_their_number() {
        for bad in [
            "{\"schema\":\"hopbyte.link/1\",\"link\":\"r0-0 X+\"}\nnothing\n",
            "{\"schema\":\"hopbyte.link/1\",\"link\":\"r0-0 X+\"}\n{\"received_bytes\":\n",
            "{\"schema\":\"hopbyte.link/1\",\"link\":\"r0-0 Y+\"}\n{\"link\":\"r0-0 X+\",\"received_bytes\":-1}\n",
        ] {
            let error = read_bytes(bad.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("lines:2: found"), "{error}");
        }
    }
}
