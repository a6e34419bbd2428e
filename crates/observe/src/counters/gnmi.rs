//! gNMI telemetry as JSON: OpenConfig's counters of interfaces, as `gnmic` prints them (`get`, `subscribe`, `--format event`)
//! or as a tree of the model.
//!
//! ```text
//! {"source": "leaf1:57400", "timestamp": 1658000000000000000, "updates": [
//!   {"Path": "interfaces/interface[name=ethernet-1/7]/state/counters",
//!    "values": {"interfaces/interface/state/counters": {"in-octets": "2195783498134"}}}]}
//! ```
//!
//! All these forms name the interface in a path, a tag or beside the counters, and end in the same leaves; so does the
//! protocol's own JSON, with paths as lists (`elem`) and values by type (`uintVal`). Messages may carry one leaf each: a
//! reading of an interface ends where one of its leaves comes again. Its time is that of its first leaf: traffic of another
//! time is left out, for its rate would be wrong. Subinterfaces have the same leaves, and are part of their interface.

use super::delta::Moment;
use super::reading::{Layout, Port, Reading};
use crate::text::{Text, decimal, whole_value};
use hopbyte_fabric::{InputError, LeftOut, Quantity as Q, Side};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

use Side::{Arrivals, Departures};

/// Leaves below `interfaces/interface/state/counters`, all of them in the layout of each interface: a sum with a missing
/// member is missing.
const LEAVES: [(&str, Q, Side); 8] = [
    ("in-octets", Q::ReceivedBytes, Arrivals),
    ("out-octets", Q::SentBytes, Departures),
    ("in-pkts", Q::ReceivedPackets, Arrivals),
    ("out-pkts", Q::SentPackets, Departures),
    ("in-errors", Q::Errors, Arrivals),
    ("in-discards", Q::Errors, Arrivals),
    ("out-errors", Q::Errors, Departures),
    ("out-discards", Q::Errors, Departures),
];

/// Most bytes of such a text: its tree takes ten times as much memory.
const LARGEST: usize = 1 << 27;

/// Start of the source of its layouts, of which each has one interface.
pub(super) const SOURCE: &str = "gnmi ";

/// Reason for leaves that are left out.
const OTHER: &str = "counter that belongs to no link";

/// Containers below an interface that count some of its packets a second time.
const INNER: [&str; 5] = [
    "subinterfaces",
    "subinterface",
    "routed-vlan",
    "ipv4",
    "ipv6",
];

/// Reason for their leaves.
const PART: &str = "counter of a subinterface, whose packets its interface counts too";

/// Nanoseconds between traffic counters of one reading.
const TOGETHER_NS: u64 = 100_000_000;

/// Reason for counters further apart.
const APART: &str = "traffic counter more than 0.1 s from the first counter of its port's reading: its rate is not known";

/// Whether a line has one of the leaves.
pub(super) fn is_line(line: &[u8]) -> bool {
    let has = |word: &str| memchr::memmem::find(line, word.as_bytes()).is_some();
    let json = matches!(line.first(), Some(b'{' | b'[' | b'"'));
    json && (has("in-octets\"") || has("out-octets\""))
}

/// Where a value stands.
#[derive(Clone, Default)]
struct Place {
    source: Option<String>,
    interface: Option<String>,
    time_ns: Option<u64>,
    /// Whether it is below one of [`INNER`].
    is_inner: bool,
    /// Last name of a path as a list.
    last: Option<String>,
}

/// Values of an interface until one of them comes again.
#[derive(Default)]
struct Open {
    values: [Option<u64>; LEAVES.len()],
    time_ns: Option<u64>,
}

/// Readings of all interfaces in the text, of each in the order of its messages.
pub(super) fn readings(
    text: &Text,
    node: Option<&str>,
    left_out: &mut LeftOut,
) -> Result<Vec<Reading>, InputError> {
    let bounded = text.at_most(LARGEST, format!("at most {LARGEST} bytes of telemetry"));
    bounded.map_err(|e| e.hint("split the file between two messages"))?;
    let mut scan = Scan {
        text,
        node,
        left_out,
        open: BTreeMap::new(),
        readings: Vec::new(),
    };
    for message in serde_json::Deserializer::from_slice(text.bytes()).into_iter::<Value>() {
        let message = message.map_err(|e| {
            let error = text.error(e.to_string(), "gNMI messages as JSON");
            error.at(e.line() as u64)
        })?;
        scan.walk(&message, &Place::default())?;
    }
    let open = std::mem::take(&mut scan.open);
    for ((source, interface), values) in open {
        scan.close(&source, &interface, &values);
    }
    if scan.readings.is_empty() {
        let expected = "in-octets and the others below interfaces/interface[name=…]/state/counters";
        return Err(text.error("no counter of an interface", expected));
    }
    Ok(scan.readings)
}

struct Scan<'a> {
    text: &'a Text,
    node: Option<&'a str>,
    left_out: &'a mut LeftOut,
    open: BTreeMap<(String, String), Open>,
    readings: Vec<Reading>,
}

impl Scan<'_> {
    /// Values below a value. The depth is bounded by the parser.
    fn walk(&mut self, value: &Value, place: &Place) -> Result<(), InputError> {
        match value {
            Value::Array(items) => items.iter().try_for_each(|v| self.walk(v, place)),
            Value::Object(fields) => {
                let place = place.below(fields);
                for (key, value) in fields {
                    let place = place.through(key);
                    let leaf = key.rsplit(['/', ':']).next().unwrap_or_default();
                    let listed = place.last.as_deref().filter(|_| leaf.ends_with("Val"));
                    let leaf = listed.unwrap_or(leaf);
                    match value {
                        Value::Array(_) | Value::Object(_) => self.walk(value, &place)?,
                        _ if place.interface.is_some() => self.leaf(leaf, value, &place)?,
                        _ => {}
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn leaf(&mut self, leaf: &str, value: &Value, place: &Place) -> Result<(), InputError> {
        let Some(at) = LEAVES.iter().position(|(name, ..)| *name == leaf) else {
            if leaf.starts_with("in-") || leaf.starts_with("out-") {
                self.left_out.note(OTHER, leaf);
            }
            return Ok(());
        };
        if place.is_inner {
            let name = place.interface.as_deref().unwrap_or_default();
            self.left_out.note(PART, format!("{name} {leaf}"));
            return Ok(());
        }
        let count = match value {
            Value::String(digits) => decimal(digits.as_bytes()),
            other => other.as_u64(),
        };
        let wrong = || self.text.error(format!("{leaf} {value}"), "a count");
        let count = count.ok_or_else(wrong)?;
        let source = place.source.as_deref().or(self.node).ok_or_else(|| {
            let error = self
                .text
                .error("counters of one switch", "its name, source");
            error.hint("name it with --counters-of SWITCH")
        })?;
        let interface = place.interface.clone().unwrap_or_default();
        let key = (source.to_owned(), interface);
        if self.open.get(&key).is_some_and(|o| o.values[at].is_some())
            && let Some(full) = self.open.remove(&key)
        {
            self.close(&key.0, &key.1, &full);
        }
        let open = self.open.entry(key).or_default();
        // The first time: a file that ends earlier has the same.
        open.time_ns = open.time_ns.or(place.time_ns);
        let times = open.time_ns.zip(place.time_ns);
        let is_apart = times.is_some_and(|(first, own)| first.abs_diff(own) > TOGETHER_NS);
        if is_apart && !LEAVES[at].1.is_errors() {
            let interface = place.interface.as_deref().unwrap_or_default();
            self.left_out
                .note(APART, format!("{source} {interface} {leaf}"));
        } else {
            open.values[at] = Some(count);
        }
        Ok(())
    }

    fn close(&mut self, source: &str, interface: &str, open: &Open) {
        let mut layout = Layout::new(source, format!("{SOURCE}{interface}"));
        let port = Port::Named(interface.to_owned());
        for (name, quantity, side) in LEAVES {
            layout.counter(&port, name, quantity, 1.0).side = side;
        }
        let moment = Moment {
            time_ns: open.time_ns,
            ..Moment::default()
        };
        let reading = Reading::of(Arc::new(layout), moment, &open.values);
        self.readings.push(reading);
    }
}

impl Place {
    /// With an object's own fields: source, time, name, path and tags.
    fn below(&self, fields: &Map<String, Value>) -> Self {
        let mut place = self.clone();
        let word = |name: &str| fields.get(name).and_then(Value::as_str);
        let target = || fields.get("prefix")?.get("target")?.as_str();
        if let Some(source) = word("source").or(word("target")).or_else(target) {
            place.source = Some(host(source));
        }
        if let Some(time) = fields.get("timestamp").and_then(whole_value) {
            place.time_ns = Some(time);
        }
        for path in ["prefix", "Path", "path"] {
            if let Some(path) = word(path) {
                place = place.through(path);
            } else if let Some(Value::Array(elements)) =
                fields.get(path).and_then(|p| p.get("elem"))
            {
                place = elements.iter().fold(place, |p, step| p.step(step));
            }
        }
        if let Some(Value::Object(tags)) = fields.get("tags") {
            let tag = |name: &str| tags.get(name).and_then(Value::as_str);
            place.source = tag("source").map(host).or(place.source);
            let name = tag("interface_name").or(tag("name"));
            place.interface = name.map(str::to_owned).or(place.interface);
            place.is_inner |= tags.keys().any(|k| k.starts_with("subinterface"));
        }
        // A tree of the model: `name` beside `state`.
        if let (Some(name), Some(Value::Object(_))) = (word("name"), fields.get("state")) {
            place.interface = Some(name.to_owned());
        }
        place
    }

    /// With the name of an interface in a path.
    fn through(&self, path: &str) -> Self {
        let mut place = self.clone();
        let name = path.split_once("interface[name=");
        if let Some((name, _)) = name.and_then(|(_, rest)| rest.split_once(']')) {
            place.interface = Some(name.to_owned());
        }
        let mut steps = path.split('/').map(plain);
        place.is_inner |= steps.any(|step| INNER.contains(&step));
        place
    }

    /// With a step of a path as a list: a name and perhaps keys.
    fn step(&self, step: &Value) -> Self {
        let mut place = self.clone();
        let name = step.get("name").and_then(Value::as_str).unwrap_or_default();
        let key = step.get("key").and_then(|k| k.get("name")?.as_str());
        if plain(name) == "interface" {
            place.interface = key.map(str::to_owned).or(place.interface);
        }
        place.is_inner |= INNER.contains(&plain(name));
        place.last = Some(plain(name).to_owned());
        place
    }
}

/// The name in a step of a path, without its module and keys.
fn plain(step: &str) -> &str {
    let name = step.split('[').next().unwrap_or_default();
    name.rsplit(':').next().unwrap_or_default()
}

/// An address without its port number.
fn host(source: &str) -> String {
    let is_port = |p: &str| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit());
    match source.rsplit_once(':') {
        Some((host, port)) if is_port(port) => host.trim_matches(['[', ']']).to_owned(),
        _ => source.to_owned(),
    }
}

#[cfg(test)]
mod tests;
