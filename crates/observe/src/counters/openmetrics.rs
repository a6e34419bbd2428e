//! OpenMetrics and Prometheus text from any exporter: metric families of links.
//!
//! Supported are node_exporter's `node_infiniband_*` and `node_network_*`, two exporters of whole InfiniBand fabrics
//! ([`infiniband_exporters`]), NVLink series of dcgm-exporter ([`nvlink`]), and the `hopbyte_port_*` families of `hopbyte
//! collect`. The node is the label `hostname`, `Hostname`, `host`, `node` or `instance`, else the caller's. Values are
//! floating-point numbers and exact up to 2^53.

use super::delta::Moment;
use super::infiniband_exporters::{self, OfPort};
use super::reading::{Layout, Port, Reading};
use super::{names, nvlink};
use crate::text::{Text, lossy};
use hopbyte_fabric::{InputError, LeftOut, Quantity, Side};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// node_exporter's InfiniBand families and the kernel's counters; data are in bytes here, not words.
const INFINIBAND: [(&str, &str); 11] = [
    ("port_data_received_bytes_total", "port_rcv_data"),
    ("port_data_transmitted_bytes_total", "port_xmit_data"),
    ("port_packets_received_total", "port_rcv_packets"),
    ("port_packets_transmitted_total", "port_xmit_packets"),
    ("port_transmit_wait_total", "port_xmit_wait"),
    ("symbol_error_total", "symbol_error"),
    ("port_errors_received_total", "port_rcv_errors"),
    ("port_discards_transmitted_total", "port_xmit_discards"),
    (
        "port_receive_remote_physical_errors_total",
        "port_rcv_remote_physical_errors",
    ),
    (
        "port_receive_switch_relay_errors_total",
        "port_rcv_switch_relay_errors",
    ),
    ("link_downed_total", "link_downed"),
];

/// The same for network devices.
const NETWORK: [(&str, &str); 9] = [
    ("receive_bytes_total", "rx_bytes"),
    ("transmit_bytes_total", "tx_bytes"),
    ("receive_packets_total", "rx_packets"),
    ("transmit_packets_total", "tx_packets"),
    ("receive_errs_total", "rx_errors"),
    ("transmit_errs_total", "tx_errors"),
    ("receive_drop_total", "rx_dropped"),
    ("transmit_drop_total", "tx_dropped"),
    ("carrier_down_changes_total", "carrier_down_count"),
];

/// Suffixes of `hopbyte_port_*`, their quantities, and the factor to our units.
const OURS: [(&str, Quantity, f64); 14] = [
    ("received_bytes_total", Quantity::ReceivedBytes, 1.0),
    ("sent_bytes_total", Quantity::SentBytes, 1.0),
    ("received_packets_total", Quantity::ReceivedPackets, 1.0),
    ("sent_packets_total", Quantity::SentPackets, 1.0),
    ("input_stall_seconds_total", Quantity::InputStallNs, 1e9),
    ("credit_stall_seconds_total", Quantity::CreditStallNs, 1e9),
    ("credit_stalls_total", Quantity::CreditStallCount, 1.0),
    ("errors_total", Quantity::Errors, 1.0),
    ("downs_total", Quantity::Downs, 1.0),
    ("lanes", Quantity::Lanes, 1.0),
    ("sent_lanes", Quantity::Lanes, 1.0),
    ("capacity_bytes_per_second", Quantity::Capacity, 1.0),
    ("sent_capacity_bytes_per_second", Quantity::Capacity, 1.0),
    ("queued_bytes", Quantity::QueuedBytes, 1.0),
];

/// node_exporter's state of an InfiniBand port: 1 down, 2 initialising, 3 armed, 4 active.
const STATE: &str = "node_infiniband_state_id";

/// Starts of the families of other exporters.
const EXPORTERS: [&str; 3] = [
    "node_infiniband_",
    "node_network_",
    infiniband_exporters::PREFIX,
];

/// Reason for samples that are left out.
const OTHER: &str = "sample that belongs to no link";

/// Reason for samples of links that have no number.
const NO_VALUE: &str = "sample without a value (NaN)";

/// Reason for samples that are left out for later ones.
const EARLIER: &str = "earlier sample of a series that has a later one";

/// Reason for error counters that are left out.
const CUT: &str = "error counter of a text without '# EOF', whose end may be missing";

/// Labels that may name the node, the most specific first.
const NODE_LABELS: [&str; 5] = ["hostname", "Hostname", "host", "node", "instance"];

/// Whether a line could be the first of such text.
pub(super) fn is_line(line: &[u8]) -> bool {
    line.starts_with(b"# HELP ") || line.starts_with(b"# TYPE ") || is_sample(line)
}

fn is_sample(line: &[u8]) -> bool {
    let ours = std::iter::once(&"hopbyte_port_");
    let mut prefixes = EXPORTERS.iter().chain(ours);
    prefixes.any(|p| line.starts_with(p.as_bytes())) || nvlink::is_sample(line)
}

/// Whether a text ends with `# EOF`.
pub(super) fn has_eof(text: &Text) -> bool {
    text.last() == b"# EOF"
}

/// Whether a text is OpenMetrics, which ends with `# EOF`: it has units, is a collector's, or declares counters without
/// the `_total` that their samples have. Otherwise it is Prometheus text, which has no mark at its end.
pub(super) fn wants_eof(text: &Text) -> bool {
    // Counters that are declared and have no sample yet.
    let mut declared: HashSet<&[u8]> = HashSet::new();
    text.lines().any(|line| {
        let content = line.trimmed();
        if let Some(rest) = content.strip_prefix(b"# TYPE ") {
            declared.extend(rest.strip_suffix(b" counter"));
        }
        let end = content.iter().position(|b| b"{ ".contains(b));
        let name = &content[..end.unwrap_or(content.len())];
        content.starts_with(b"# UNIT ")
            || content.starts_with(b"hopbyte_port_")
            || name
                .strip_suffix(b"_total")
                .is_some_and(|family| declared.contains(family) && !declared.contains(name))
    })
}

/// Prefix of the families that a Prometheus text may have been cut in: those of its last line. Exporters sort families,
/// so a later one shows that the prefix's are complete.
fn unfinished(text: &Text) -> Option<&'static str> {
    if has_eof(text) {
        return None;
    }
    let words = lossy(text.last());
    let name = words
        .strip_prefix("# HELP ")
        .or_else(|| words.strip_prefix("# TYPE "))
        .unwrap_or(&words);
    let found = EXPORTERS
        .into_iter()
        .find(|prefix| name.starts_with(prefix));
    found.filter(|_| !words.starts_with(infiniband_exporters::LAST))
}

/// Readings of all nodes in one scrape.
pub(super) fn readings(
    text: &Text,
    node: Option<&str>,
    left_out: &mut LeftOut,
) -> Result<Vec<Reading>, InputError> {
    let mut scrapes = Scrapes::new(node, unfinished(text));
    for line in text.lines() {
        let content = line.trimmed();
        if !is_sample(content) {
            if !content.is_empty() && !content.starts_with(b"#") {
                let name = lossy(content);
                let name = name.split(['{', ' ']).next().unwrap_or_default();
                left_out.note(OTHER, name);
            }
            continue;
        }
        let sample = Sample::parse(&lossy(content), line.number)
            .ok_or_else(|| text.error_at(line, "NAME{LABEL=\"VALUE\",…} NUMBER [TIME]"))?;
        let taken = scrapes.take(&sample, left_out);
        taken.map_err(|wrong| match wrong {
            Wrong::Value(expected) => text.error_at(line, expected),
            Wrong::Twice(at) => {
                let expected = format!("one sample of a series, which is on line {at} too");
                let error = text.error_at(line, expected);
                error.hint("give a file for each scrape, the earliest first")
            }
        })?;
    }
    Ok(scrapes.readings(left_out))
}

/// Why a sample is refused.
#[derive(Clone, Copy)]
pub(super) enum Wrong {
    /// Its value, with the accepted ones.
    Value(&'static str),
    /// Its series has an earlier sample, at this place, and their times do not tell which is later.
    Twice(u64),
}

/// Counters of nodes while the samples of one scrape are read.
pub(super) struct Scrapes<'a> {
    node: Option<&'a str>,
    /// Prefix of the families whose end may be missing.
    unfinished: Option<&'static str>,
    nodes: BTreeMap<String, Scrape>,
}

impl<'a> Scrapes<'a> {
    /// `node` is the one of samples that name none.
    pub(super) fn new(node: Option<&'a str>, unfinished: Option<&'static str>) -> Self {
        Self {
            node,
            unfinished,
            nodes: BTreeMap::new(),
        }
    }

    /// Takes a sample; one that is not used is counted.
    pub(super) fn take(&mut self, sample: &Sample, left_out: &mut LeftOut) -> Result<(), Wrong> {
        if !is_sample(sample.name.as_bytes()) {
            left_out.note(OTHER, sample.name.as_str());
            return Ok(());
        }
        let of_port = OfPort::of(&sample.name, |name| sample.label(name));
        let (name, source) = match &of_port {
            Some(of_port) => (of_port.node(), "infiniband"),
            None => {
                let name = sample.node(self.node).unwrap_or("localhost");
                (name.to_owned(), "openmetrics")
            }
        };
        if sample.value.is_nan() {
            left_out.note(NO_VALUE, sample.name.as_str());
        }
        let new = || Scrape::new(name.clone(), source);
        let scrape = self.nodes.entry(name.clone()).or_insert_with(new);
        if nvlink::is_sample(sample.name.as_bytes()) {
            let label = |name: &str| sample.label(name);
            let (name, value) = (&sample.name, sample.value);
            let taken = scrape.nvlink.take(name, value, label, left_out);
            taken.map_err(Wrong::Value)?;
            scrape.time_ns = scrape.time_ns.max(sample.time_ns);
            return Ok(());
        }
        let before = scrape.values.len();
        if scrape.has_taken(sample)? {
            left_out.note(EARLIER, sample.name.as_str());
            return Ok(());
        }
        if !scrape.take(sample, of_port)? {
            left_out.note(OTHER, sample.name.as_str());
            return Ok(());
        }
        let taken = Taken {
            at: sample.at,
            time_ns: sample.time_ns,
            first: before,
        };
        scrape.taken.insert(sample.series(), taken);
        let is_cut = |prefix: &str| sample.name.starts_with(prefix);
        if self.unfinished.is_some_and(is_cut) {
            // Errors are a sum over families, and the next one may be missing.
            let added = scrape.layout.counters[before..].iter();
            for (value, _) in scrape.values[before..]
                .iter_mut()
                .zip(added)
                .filter(|(_, c)| c.quantity == Quantity::Errors)
            {
                *value = None;
                left_out.note(CUT, sample.name.as_str());
            }
        }
        Ok(())
    }

    /// The readings of all nodes that have a counter.
    pub(super) fn readings(self, left_out: &mut LeftOut) -> Vec<Reading> {
        let reading = |mut s: Scrape| {
            s.nvlink.add(&mut s.layout, &mut s.values, left_out);
            let moment = Moment {
                time_ns: s.time_ns,
                ..Moment::default()
            };
            let is_read = !s.values.is_empty();
            is_read.then(|| Reading::of(Arc::new(s.layout), moment, &s.values))
        };
        self.nodes.into_values().filter_map(reading).collect()
    }
}

/// Counters of a node while they are read.
struct Scrape {
    layout: Layout,
    values: Vec<Option<u64>>,
    nvlink: nvlink::Found,
    time_ns: Option<u64>,
    /// Series taken so far, by family and port.
    taken: HashMap<String, Taken>,
}

/// A series: the place and the time of its sample, and its values from the first.
struct Taken {
    at: u64,
    time_ns: Option<u64>,
    first: usize,
}

impl Scrape {
    fn new(node: String, source: &str) -> Self {
        Self {
            layout: Layout::new(node, source),
            values: Vec::new(),
            nvlink: nvlink::Found::default(),
            time_ns: None,
            taken: HashMap::new(),
        }
    }

    /// Whether another sample of the same family and port was taken, which a later one replaces. Other labels do not
    /// tell them apart: two jobs that scrape one exporter read the same counter.
    ///
    /// # Errors
    /// There was one, and their times do not tell which is later.
    fn has_taken(&mut self, sample: &Sample) -> Result<bool, Wrong> {
        let Some(before) = self.taken.get_mut(&sample.series()) else {
            return Ok(false);
        };
        let is_later = match before.time_ns.zip(sample.time_ns) {
            Some((before, time)) if before != time => time > before,
            _ => return Err(Wrong::Twice(before.at)),
        };
        if is_later {
            let first = before.first;
            *before = Taken {
                at: sample.at,
                time_ns: sample.time_ns,
                first,
            };
            let mut one = Self::new(String::new(), "");
            let of_port = OfPort::of(&sample.name, |name| sample.label(name));
            one.take(sample, of_port)?;
            for (value, new) in self.values[first..].iter_mut().zip(one.values) {
                *value = new;
            }
            self.time_ns = self.time_ns.max(sample.time_ns);
        }
        Ok(true)
    }

    /// Whether the sample belongs to a link.
    fn take(&mut self, sample: &Sample, of_port: Option<OfPort>) -> Result<bool, Wrong> {
        let find = |table: &[(&str, &'static str)], prefix: &str| {
            let family = sample.name.strip_prefix(prefix)?;
            table
                .iter()
                .find(|(f, _)| *f == family)
                .map(|&(_, kernel)| kernel)
        };
        let device = sample.label("device").unwrap_or_default();
        let ours = |family: &str| OURS.iter().find(|(name, ..)| *name == family);
        let mut value = sample.value;
        let counter = if let Some(of_port) = of_port {
            of_port.add(&mut self.layout, &sample.name);
            Some(())
        } else if let Some(family) = sample.name.strip_prefix("hopbyte_port_") {
            let port = Port::parse(sample.label("port").unwrap_or_default());
            ours(family).map(|&(name, quantity, units)| {
                // Totals times a factor (flits, words) need not be integers.
                value = (value * units).round();
                let counter = self.layout.counter(&port, name, quantity, 1.0);
                if name.starts_with("sent_") {
                    counter.side = Side::Departures;
                }
            })
        } else if let Some(kernel) = find(&INFINIBAND, "node_infiniband_") {
            let port = sample.label("port").unwrap_or("1");
            let port = Port::Named(format!("{device}/{port}"));
            // Words are already bytes.
            names::infiniband(&mut self.layout, &port, kernel, false).map(|c| c.factor = 1.0)
        } else if let Some(kernel) = find(&NETWORK, "node_network_") {
            let port = Port::Named(device.to_owned());
            names::interface(&mut self.layout, &port, kernel).map(|_| ())
        } else {
            let adapter = || format!("{device}/{}", sample.label("port").unwrap_or("1"));
            let (port, quantity) = match sample.name.as_str() {
                "node_network_speed_bytes" => (device.to_owned(), Quantity::Capacity),
                "node_infiniband_rate_bytes_per_second" => (adapter(), Quantity::Capacity),
                STATE => {
                    // Down, initialising and armed ports have no lane in service; those of others are not known.
                    value = if (1.0..4.0).contains(&value) {
                        0.0
                    } else {
                        -1.0
                    };
                    (adapter(), Quantity::Lanes)
                }
                _ => return Ok(false),
            };
            let port = Port::Named(port);
            names::both(&mut self.layout, &port, &sample.name, quantity, 1.0);
            Some(())
        };
        if counter.is_none() {
            return Ok(false);
        }
        let whole = (0.0..1.8e19).contains(&value) && value.fract() == 0.0;
        let may_lack = sample.name.ends_with("speed_bytes") || sample.name == STATE;
        let unknown = (may_lack && value < 0.0) || value.is_nan();
        if !whole && !unknown {
            return Err(Wrong::Value("a count (a whole number)"));
        }
        let value = whole.then_some(value as u64);
        self.values.resize(self.layout.counters.len(), value);
        self.time_ns = self.time_ns.max(sample.time_ns);
        Ok(true)
    }
}

/// A sample: name, labels, value and perhaps a time.
pub(super) struct Sample {
    /// Number of its line, or of its series in an answer.
    pub(super) at: u64,
    pub(super) name: String,
    pub(super) labels: Labels,
    pub(super) value: f64,
    pub(super) time_ns: Option<u64>,
}

impl Sample {
    fn parse(line: &str, at: u64) -> Option<Self> {
        let end = line.find(|c: char| c == '{' || c.is_whitespace())?;
        let (name, rest) = line.split_at(end);
        let (labels, rest) = match rest.strip_prefix('{') {
            Some(rest) => labels(rest)?,
            None => (Vec::new(), rest),
        };
        let mut words = rest.split_whitespace();
        let value: f64 = words.next()?.parse().ok()?;
        (value.is_finite() || value.is_nan()).then_some(())?;
        let time_ns = match words.next() {
            None | Some("#") => None,
            Some(time) => Some(time_ns(time)?),
        };
        Some(Self {
            at,
            name: name.to_owned(),
            labels,
            value,
            time_ns,
        })
    }

    /// Family, source (of a collector) and port.
    fn series(&self) -> String {
        let label = |names: [&str; 2]| names.iter().find_map(|n| self.label(n)).unwrap_or_default();
        let place = [
            ["source", ""],
            ["guid", "local_guid"],
            ["device", ""],
            ["port", "local_port"],
        ]
        .map(label);
        format!("{} {}", self.name, place.join(" "))
    }

    pub(super) fn label(&self, name: &str) -> Option<&str> {
        let label = self.labels.iter().find(|(n, _)| n == name);
        label.map(|(_, value)| value.as_str())
    }

    /// The node that a label names: an address without its port number.
    fn node<'a>(&'a self, given: Option<&'a str>) -> Option<&'a str> {
        let own = NODE_LABELS.iter().find_map(|l| self.label(l));
        let own = own.map(|name| match name.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) => host,
            _ => name,
        });
        own.or(given)
    }
}

/// Seconds with a fraction (OpenMetrics) or whole milliseconds (Prometheus).
fn time_ns(text: &str) -> Option<u64> {
    if let Ok(ms) = text.parse::<u64>()
        && ms >= 100_000_000_000
    {
        return ms.checked_mul(1_000_000);
    }
    let seconds: f64 = text.parse().ok()?;
    (0.0..1e10)
        .contains(&seconds)
        .then_some((seconds * 1e9) as u64)
}

/// Names and values of labels.
pub(super) type Labels = Vec<(String, String)>;

/// Reads labels after `{`; returns the text after `}`.
fn labels(mut rest: &str) -> Option<(Labels, &str)> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(after) = rest.strip_prefix('}') {
            return Some((labels, after));
        }
        let (name, after) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut chars = after.char_indices();
        let end = loop {
            match chars.next()? {
                (at, '"') => break at + 1,
                (_, '\\') => match chars.next()?.1 {
                    'n' => value.push('\n'),
                    c => value.push(c),
                },
                (_, c) => value.push(c),
            }
        };
        labels.push((name.trim().to_owned(), value));
        rest = &after[end..];
    }
}

#[cfg(test)]
mod tests;
