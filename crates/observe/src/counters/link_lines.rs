//! Hopbyte's own link table: the output of `hopbyte links --json`, one link per line and a summary last; or the same
//! objects over several lines, or in an array, as other programs of JSON write them.

use crate::ObserveError;
use crate::text::{Line, Text, lossy};
use hopbyte_fabric::{
    End, Fabric, Increase, InputError, LinkId, LinkState, Missing, NodeTimes, PathCounts, Quantity,
    Side,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The schema of every line.
const SCHEMA: &str = "hopbyte.link/1";

#[derive(Deserialize)]
struct Schema<'a> {
    #[serde(borrow)]
    schema: std::borrow::Cow<'a, str>,
}

/// Whether a line is an object of the schema, in any layout of JSON: other programs write blanks and another order, an
/// array of all objects, or an object over several lines.
pub(super) fn is_line(content: &[u8]) -> bool {
    match content.first() {
        Some(b'{') => {
            serde_json::from_slice::<Schema<'_>>(content).is_ok_and(|s| s.schema == SCHEMA)
        }
        Some(b'[') => memchr::memmem::find(content, b"\"hopbyte.link/1\"").is_some(),
        Some(b'"') => content.strip_prefix(b"\"schema\"").is_some_and(|rest| {
            let rest = rest.trim_ascii_start().strip_prefix(b":");
            rest.is_some_and(|r| r.trim_ascii_start().starts_with(b"\"hopbyte.link/1\""))
        }),
        _ => false,
    }
}

/// Whether the summary, which ends the table, is its end; `last` is the last line.
pub(super) fn is_ended(text: &Text, last: &[u8]) -> bool {
    if is_document(text) {
        return match document(text) {
            Ok(rows) => rows.last().is_some_and(|r| r.summary.is_some()),
            // The reader tells of a document that is wrong before its end.
            Err(e) => !e.is_eof(),
        };
    }
    serde_json::from_slice::<LinkRow>(last).is_ok_and(|row| row.summary.is_some())
}

/// Whether a text is not one object a line: it begins with an array, or with a part of an object. A whole object need not
/// be right: its line is told then.
pub(super) fn is_document(text: &Text) -> bool {
    let first = text.lines().find(|l| !l.trimmed().is_empty());
    first.is_some_and(|line| {
        let count = |bracket| line.bytes.iter().filter(|&&b| b == bracket).count();
        line.trimmed().starts_with(b"[") || count(b'{') != count(b'}')
    })
}

/// Rows of an array of objects, or of objects over several lines each.
fn document(text: &Text) -> serde_json::Result<Vec<LinkRow>> {
    let bytes = text.bytes();
    match bytes.trim_ascii().first() {
        Some(b'[') => serde_json::from_slice(bytes),
        _ => serde_json::Deserializer::from_slice(bytes)
            .into_iter()
            .collect(),
    }
}

/// The reason of an error of JSON with its column: lines are counted from the beginning of the file.
fn reason(error: &serde_json::Error) -> String {
    let said = error.to_string();
    let at = format!(" at line {} column {}", error.line(), error.column());
    let said = said.strip_suffix(&at).unwrap_or(&said);
    format!("{said} in column {}", error.column())
}

/// Rows with their lines; without one in a document.
type Rows<'a> = Box<dyn Iterator<Item = Result<(Option<Line<'a>>, LinkRow), InputError>> + 'a>;

fn rows(text: &Text) -> Result<Rows<'_>, InputError> {
    if is_document(text) {
        let rows = document(text).map_err(|e| {
            let expected = "JSON objects of links, output of `hopbyte links --json`";
            let error = text.error("JSON that cannot be read", expected);
            error.at(e.line() as u64).hint(reason(&e))
        })?;
        return Ok(Box::new(rows.into_iter().map(|r| Ok((None, r)))));
    }
    let lines = text.lines().filter(|l| !l.trimmed().is_empty());
    Ok(Box::new(lines.map(|line| {
        let row = serde_json::from_slice(line.bytes).map_err(|e| {
            let expected = "one JSON object per line, output of `hopbyte links --json`";
            text.error_at(line, expected).hint(reason(&e))
        })?;
        Ok((Some(line), row))
    })))
}

/// One line: a link, or the summary.
#[derive(Deserialize)]
struct LinkRow {
    link: Option<String>,
    received_bytes: Option<f64>,
    sent_bytes: Option<f64>,
    packets: Option<f64>,
    used_ratio: Option<f64>,
    input_stall_ratio: Option<f64>,
    credit_stall_ratio: Option<f64>,
    input_stall_seconds: Option<f64>,
    credit_stall_seconds: Option<f64>,
    credit_stall_count: Option<f64>,
    queued_bytes: Option<f64>,
    errors: Option<f64>,
    #[serde(default)]
    errors_at_least: bool,
    drops: Option<f64>,
    downs: Option<f64>,
    lanes: Option<f64>,
    agreed_bytes_per_s: Option<f64>,
    served_ratio: Option<f64>,
    served_seconds: Option<f64>,
    processor_wait_ratio: Option<f64>,
    window_seconds: Option<f64>,
    #[serde(default)]
    missing: BTreeMap<String, Missing>,
    path: Option<PathRow>,
    summary: Option<Summary>,
}

/// What a transport counted between two nodes.
#[derive(Deserialize, Serialize)]
struct PathRow {
    from: String,
    to: String,
    sent_bytes: f64,
    packets: f64,
    lost: f64,
}

/// A line about the path between two nodes, as their transports count it.
#[derive(Serialize)]
pub struct PathLine {
    schema: &'static str,
    path: PathRow,
}

impl PathLine {
    /// The lines of all paths.
    pub fn all<'a>(fabric: &'a Fabric, state: &'a LinkState) -> impl Iterator<Item = Self> + 'a {
        let name = |node| fabric.node(node).name.clone();
        let schema = SCHEMA;
        state.paths.iter().map(move |(&(from, to), counts)| Self {
            schema,
            path: PathRow {
                from: name(from),
                to: name(to),
                sent_bytes: counts.sent_bytes,
                packets: counts.packets,
                lost: counts.lost,
            },
        })
    }
}

#[derive(Deserialize)]
struct Summary {
    window_seconds: Option<f64>,
}

/// Reads it as increases over the window that the summary gives.
pub(super) fn read(text: &Text, fabric: &Fabric) -> Result<Vec<Increase>, ObserveError> {
    let names: HashMap<String, LinkId> = fabric
        .link_ids()
        .map(|l| (fabric.link_name(l), l))
        .collect();
    let mut snapshot = Increase::new(fabric, text.file());
    let mut waits = Vec::new();
    let mut seen = HashSet::new();
    for row in rows(text)? {
        let (line, row) = row?;
        if let Some(summary) = row.summary {
            snapshot.window_seconds = summary.window_seconds.filter(|w| w.is_finite() && *w > 0.0);
            continue;
        }
        if let Some(path) = &row.path {
            path.read(fabric, &mut snapshot).map_err(|found| {
                let error = text.error(found, "non-negative values of a path between two nodes");
                line.map_or(error.clone(), |line| error.at(line.number))
            })?;
            continue;
        }
        let Some(link) = row.link.as_ref().and_then(|name| names.get(name)) else {
            snapshot.note_unmatched(row.link.unwrap_or_default());
            continue;
        };
        if !seen.insert(*link) {
            let name = row.link.as_deref().unwrap_or_default();
            let error = text.error(name, "every link once, and the summary last");
            let error = error.hint("the file has several tables: give a file for each");
            return Err(line
                .map_or(error.clone(), |line| error.at(line.number))
                .into());
        }
        snapshot.matched += 1;
        if row.errors_at_least {
            snapshot.at_least.insert(*link);
        }
        if let Some(seconds) = row.window_seconds.filter(|w| w.is_finite() && *w > 0.0) {
            for side in [Side::Arrivals, Side::Departures] {
                snapshot.set_window(side, *link, seconds);
            }
        }
        for (name, quantity, value) in row.values() {
            if let Some(&why) = row.missing.get(name) {
                snapshot.lose(quantity, *link, why);
            }
            let Some(value) = value else { continue };
            if !(value.is_finite() && value >= 0.0) {
                let expected = "non-negative values";
                return Err(match line {
                    Some(line) => text.error(lossy(line.bytes), expected).at(line.number),
                    None => text.error(format!("{name} {value}"), expected),
                }
                .into());
            }
            snapshot.set(quantity, *link, value);
        }
        if let Some(ratio) = row.processor_wait_ratio {
            if !(0.0..=1.0).contains(&ratio) {
                let found = format!("processor_wait_ratio {ratio}");
                let error = text.error(found, "a ratio of 0 to 1");
                return Err(line
                    .map_or(error.clone(), |line| error.at(line.number))
                    .into());
            }
            waits.push((*link, ratio, row.window_seconds));
        }
    }
    for (link, ratio, window) in waits {
        let window = window.or(snapshot.window_seconds).unwrap_or(1.0);
        if let End::Node(node) = fabric.link(link).from {
            let times = NodeTimes {
                waited_seconds: ratio * window,
                window_seconds: window,
            };
            snapshot.nodes.insert(node, times);
        }
    }
    Ok(vec![snapshot])
}

impl PathRow {
    /// Adds it; the error says what was found.
    fn read(&self, fabric: &Fabric, into: &mut Increase) -> Result<(), String> {
        let counts = PathCounts {
            sent_bytes: self.sent_bytes,
            packets: self.packets,
            lost: self.lost,
        };
        let values = [counts.sent_bytes, counts.packets, counts.lost];
        if !values.iter().all(|v| v.is_finite() && *v >= 0.0) {
            return Err(format!("{values:?}"));
        }
        let node = |name: &str| fabric.node_named(name);
        let Some(ends) = node(&self.from).zip(node(&self.to)) else {
            into.note_unmatched(format!("{} to {}", self.from, self.to));
            return Ok(());
        };
        into.paths.entry(ends).or_default().add(&counts);
        Ok(())
    }
}

impl LinkRow {
    /// Field names, their quantities and their values.
    fn values(&self) -> [(&'static str, Quantity, Option<f64>); 17] {
        use Quantity as Q;
        let ns = |seconds: Option<f64>| seconds.map(|s| s * 1e9);
        // Errors of a row include its drops.
        let damaged = self.errors.map(|e| e - self.drops.unwrap_or(0.0));
        [
            ("received_bytes", Q::ReceivedBytes, self.received_bytes),
            ("sent_bytes", Q::SentBytes, self.sent_bytes),
            ("packets", Q::ReceivedPackets, self.packets),
            ("used_ratio", Q::UsedRatio, self.used_ratio),
            (
                "input_stall_ratio",
                Q::InputStallRatio,
                self.input_stall_ratio,
            ),
            (
                "credit_stall_ratio",
                Q::CreditStallRatio,
                self.credit_stall_ratio,
            ),
            (
                "input_stall_seconds",
                Q::InputStallNs,
                ns(self.input_stall_seconds),
            ),
            (
                "credit_stall_seconds",
                Q::CreditStallNs,
                ns(self.credit_stall_seconds),
            ),
            (
                "credit_stall_count",
                Q::CreditStallCount,
                self.credit_stall_count,
            ),
            ("queued_bytes", Q::QueuedBytes, self.queued_bytes),
            ("errors", Q::Errors, damaged),
            ("drops", Q::Drops, self.drops),
            ("downs", Q::Downs, self.downs),
            ("lanes", Q::Lanes, self.lanes),
            ("agreed_bytes_per_s", Q::Capacity, self.agreed_bytes_per_s),
            ("served_ratio", Q::ServedRatio, self.served_ratio),
            ("served_seconds", Q::ServedNs, ns(self.served_seconds)),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Counted;
    use crate::text::Limits;
    use hopbyte_fabric::spec;

    fn read_bytes(bytes: &[u8]) -> Result<Counted, ObserveError> {
        let fabric = spec::fabric("torus:4x4").unwrap();
        let text = Text::from_bytes("lines", bytes, Limits::TEXT).unwrap();
        super::super::counters(&text, &fabric, &super::super::CounterOptions::default())
    }

    #[test]
    fn lines_become_the_state_they_were() {
        let fabric = spec::fabric("torus:4x4").unwrap();
        let text = concat!(
            r#"{"schema":"hopbyte.link/1","link":"r0-0 X+","received_bytes":1.25e9,"sent_bytes":2.5e9,"used_ratio":null,"queued_bytes":9,"errors":7,"errors_at_least":true,"drops":5}"#,
            "\n",
            r#"{"schema":"hopbyte.link/1","link":"r1-0 X+","received_bytes":null,"window_seconds":2.5,"missing":{"received_bytes":"reset"}}"#,
            "\n",
            r#"{"schema":"hopbyte.link/1","link":"r9-9 X+","received_bytes":1}"#,
            "\n",
            r#"{"schema":"hopbyte.link/1","summary":{"window_seconds":0.5,"rows":2}}"#,
            "\n",
        );
        let snapshot = read_bytes(text.as_bytes()).unwrap();
        assert_eq!((snapshot.matched, snapshot.unmatched), (2, 1));
        let state = snapshot.state(&fabric);
        let link = fabric.find_link("r0-0 X+").unwrap();
        // 1.25 GB in half a second over 12.5 GB/s.
        assert_eq!(state.used_ratio.get(link), Some(0.2));
        assert_eq!(state.sent_bytes.get(link), Some(2.5e9));
        assert_eq!(state.credit_stall_ratio.get(link), None);
        assert_eq!(state.queued_bytes.get(link), Some(9.0));
        assert_eq!(state.errors.get(link), Some(7.0));
        assert_eq!(state.at_least(link), "≥ ");
        assert_eq!(state.damaged(link), Some(2.0));
        let lost = fabric.find_link("r1-0 X+").unwrap();
        assert_eq!(state.received_bytes.read(lost), Err(Missing::Reset));
        assert!(state.is_spoken_of(lost));
    }

    #[test]
    fn waiting_for_processors_is_of_the_sending_node() {
        let text = concat!(
            r#"{"schema":"hopbyte.link/1","link":"n0-0->r0-0 host","processor_wait_ratio":0.25}"#,
            "\n",
            r#"{"schema":"hopbyte.link/1","link":"n1-0->r1-0 host","processor_wait_ratio":0.5,"window_seconds":2}"#,
            "\n",
            r#"{"schema":"hopbyte.link/1","summary":{"window_seconds":8,"rows":2}}"#,
            "\n",
        );
        let fabric = spec::fabric("torus:4x4:nodes=1").unwrap();
        let read = |text: &str| {
            let text = Text::from_bytes("lines", text.as_bytes(), Limits::TEXT).unwrap();
            read(&text, &fabric)
        };
        let error = read(&text.replace("0.25", "1.5")).unwrap_err().to_string();
        assert!(
            error.starts_with("lines:1: found processor_wait_ratio 1.5"),
            "{error}"
        );
        let snapshot = &read(text).unwrap()[0];
        let waited = snapshot
            .nodes
            .values()
            .map(|t| (t.waited_seconds, t.window_seconds));
        assert_eq!(waited.collect::<Vec<_>>(), [(2.0, 8.0), (1.0, 2.0)]);
    }

    #[test]
    fn lines_of_other_writers_of_json_are_read() {
        let text = concat!(
            "{ \"link\" : \"r0-0 X+\", \"received_bytes\": 5.0, \"schema\": \"hopbyte.link/1\" }\n",
            "{\"schema\": \"hopbyte.link/1\", \"summary\": {\"window_seconds\": 0.5, \"rows\": 1}}\n",
        );
        assert_eq!(read_bytes(text.as_bytes()).unwrap().matched, 1);
        assert!(read_bytes(b"{\"schema\": \"other/1\", \"link\": \"r0-0 X+\"}").is_err());
    }

    /// Every layout gives the same; no beginning of one gives anything.
    #[test]
    fn documents_of_objects_are_read() {
        let link = r#"{"schema": "hopbyte.link/1", "link": "r0-0 X+", "received_bytes": 5.0}"#;
        let end = r#"{"schema": "hopbyte.link/1", "summary": {"window_seconds": 0.5, "rows": 1}}"#;
        let spread = |s: &str| s.replace(", \"", ",\n  \"").replace("{\"", "{\n  \"");
        let fabric = spec::fabric("torus:4x4").unwrap();
        let x = fabric.find_link("r0-0 X+").unwrap();
        for whole in [
            format!("[{link}, {end}]"),
            format!("[\n{},\n{}\n]\n", spread(link), spread(end)),
            format!("{}\n{}\n", spread(link), spread(end)),
        ] {
            let read = read_bytes(whole.as_bytes()).unwrap();
            assert_eq!(
                read.state(&fabric).used_ratio.get(x),
                Some(5.0 / 0.5 / 12.5e9)
            );
            for length in 0..whole.trim_end().len() {
                assert!(read_bytes(&whole.as_bytes()[..length]).is_err(), "{length}");
            }
        }
        let bad = format!("[{}, {end}]", link.replace("5.0", "-5.0"));
        let error = read_bytes(bad.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("received_bytes -5"), "{error}");
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
        let summary = r#"{"schema":"hopbyte.link/1","summary":{"window_seconds":8,"rows":2}}"#;
        for wrong in ["NaN", "\"x\"", "01"] {
            let row = r#"{"schema":"hopbyte.link/1","link":"r0-0 X+","received_bytes":"#;
            let whole = format!("{row}{wrong}}}\n{summary}\n");
            let error = read_bytes(whole.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("lines:1: found {"), "{error}");
            assert!(error.contains(" in column 6"), "{error}");
            let document = format!("\n[{row}{wrong}}},\n{summary}]\n");
            let error = read_bytes(document.as_bytes()).unwrap_err().to_string();
            assert!(error.starts_with("lines:2: found JSON"), "{error}");
        }
    }
}
