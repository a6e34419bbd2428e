//! Influx line protocol as ClusterCockpit's collectors write it: totals of network interfaces.
//!
//! `net_bytes_in,cluster=c,hostname=n1,type=node,stype=network,stype-id=eth0 value=1234 1700000000`.
//! Totals become counters like those of an agent. Rates (`net_bytes_in_bw`) and metrics of other subsystems
//! are skipped and counted.

use crate::bytes::is_word;
use crate::wire::check_node;
use hopbyte_fabric::Quantity;

/// Names of totals in cc-metric-collector's `netstat` and `ibstat`, and their quantities.
pub const TOTALS: [(&str, Quantity); 8] = [
    ("net_bytes_in", Quantity::ReceivedBytes),
    ("net_bytes_out", Quantity::SentBytes),
    ("net_pkts_in", Quantity::ReceivedPackets),
    ("net_pkts_out", Quantity::SentPackets),
    ("ib_recv", Quantity::ReceivedBytes),
    ("ib_xmit", Quantity::SentBytes),
    ("ib_recv_pkts", Quantity::ReceivedPackets),
    ("ib_xmit_pkts", Quantity::SentPackets),
];

/// Maximum length of a line.
const LONGEST_LINE: usize = 16 * 1024;

/// A total of a port at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Number of the line, from 1.
    pub line: u32,
    /// Node name.
    pub node: Box<str>,
    /// Port name.
    pub port: Box<str>,
    /// Index in [`TOTALS`].
    pub metric: u8,
    /// The total.
    pub value: u64,
    /// Time of the reading, nanoseconds since 1970, if the line contains one.
    pub time_ns: Option<u64>,
}

/// Maximum number of refusals that are kept as text.
const MOST_REFUSALS: usize = 8;

/// Outcome of a post of lines, or of a part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Number of kept lines, with those of other metrics.
    pub kept: usize,
    /// Number of refused lines.
    pub refused: usize,
    /// The first refusals, with line numbers.
    pub refusals: Vec<String>,
}

impl Verdict {
    /// Counts a refused line.
    pub fn refuse(&mut self, line: u32, why: &dyn std::fmt::Display) {
        self.refused += 1;
        if self.refusals.len() < MOST_REFUSALS {
            self.refusals.push(format!("line {line}: found {why}"));
        }
    }

    /// The first refusal.
    pub fn first(&self) -> &str {
        self.refusals.first().map_or("", String::as_str)
    }
}

/// The totals of a post, and the outcome of all other lines.
pub type Parsed = (Vec<Point>, Verdict);

/// Parses the lines of a post. A bad line does not affect the others.
pub fn parse(text: &str) -> Parsed {
    let (mut points, mut verdict) = (Vec::new(), Verdict::default());
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match point(line, number) {
            Ok(Some(point)) => points.push(point),
            Ok(None) => verdict.kept += 1,
            Err(why) => {
                let shown: String = line.chars().take(60).collect();
                verdict.refuse(number, &format!("{shown:?}, expected {why}"));
            }
        }
    }
    (points, verdict)
}

fn point(line: &str, number: u32) -> Result<Option<Point>, &'static str> {
    const FORM: &str = "NAME,TAG=VALUE… value=NUMBER [TIME]";
    if line.len() > LONGEST_LINE {
        return Err("a shorter line");
    }
    let (head, rest) = cut(line, b' ').ok_or(FORM)?;
    let (fields, time) = cut(rest.trim_start(), b' ').unwrap_or((rest.trim(), ""));
    let (name, mut tags) = cut(head, b',').unwrap_or((head, ""));
    let (mut node, mut port, mut device) = (None, None, None);
    while !tags.is_empty() {
        let (tag, more) = cut(tags, b',').unwrap_or((tags, ""));
        let (key, value) = cut(tag, b'=').ok_or(FORM)?;
        match key {
            "hostname" => node = Some(plain(value)),
            "stype-id" => port = Some(plain(value)),
            "device" => device = Some(plain(value)),
            _ => {}
        }
        tags = more;
    }
    let mut all = fields;
    let mut value = None;
    while !all.is_empty() {
        let (field, more) = cut(all, b',').unwrap_or((all, ""));
        let (key, text) = cut(field, b'=').ok_or(FORM)?;
        if key == "value" {
            value = Some(text);
        }
        all = more;
    }
    let time_ns = match time.trim() {
        "" => None,
        digits => Some(nanoseconds(digits.parse().map_err(|_| "a time in digits")?)),
    };
    let metric = TOTALS.iter().position(|t| t.0 == name);
    let (Some(metric), Some(port)) = (metric, port.or(device)) else {
        return Ok(None);
    };
    let node = node.ok_or("a tag hostname")?;
    check_node(&node).map_err(|_| "a host name of letters, digits, '-', '_', '.' and ':'")?;
    if !is_word(&port) {
        return Err("the name of a port: printable ASCII without quotes");
    }
    let value =
        total(value.ok_or("a field value")?).ok_or("a total: a number that is not negative")?;
    Ok(Some(Point {
        line: number,
        node: node.into(),
        port: port.into(),
        metric: metric as u8,
        value,
        time_ns,
    }))
}

/// Splits at the first separator that is not escaped by a backslash.
fn cut(text: &str, separator: u8) -> Option<(&str, &str)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 1,
            b if b == separator => return Some((&text[..at], &text[at + 1..])),
            _ => {}
        }
        at += 1;
    }
    None
}

/// A tag value without escapes.
fn plain(value: &str) -> String {
    let mut hidden = false;
    value
        .chars()
        .filter(|&c| {
            hidden = c == '\\' && !hidden;
            !hidden
        })
        .collect()
}

/// `12`, `12i`, `12u` or `12.0`.
fn total(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(['i', 'u']);
    if let Ok(whole) = digits.parse() {
        return Some(whole);
    }
    let number: f64 = text.parse().ok()?;
    (number.is_finite() && (0.0..1.8e19).contains(&number)).then_some(number as u64)
}

/// Converts a time in seconds, milli-, micro- or nanoseconds; its magnitude tells the unit.
fn nanoseconds(time: u64) -> u64 {
    let factor = match time {
        0..100_000_000_000 => 1_000_000_000,
        100_000_000_000..100_000_000_000_000 => 1_000_000,
        100_000_000_000_000..100_000_000_000_000_000 => 1000,
        _ => 1,
    };
    time.saturating_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn totals_are_read_and_the_rest_is_counted() {
        let text = "# a comment\n\
            net_bytes_in,cluster=c,hostname=n1,type=node,stype=network,stype-id=eth0 value=12 1700000000\n\
            ib_xmit,hostname=n1,device=mlx5\\ 0,type=node value=7e3,unit=\"x\" 1700000000123\n\
            \n\
            net_pkts_out,hostname=n2,stype-id=eth0 value=18446744073709551615u\n\
            net_bytes_in_bw,hostname=n1,stype-id=eth0 value=1.5 1700000000\n\
            cpu_load,hostname=n1 value=1\n";
        let (points, verdict) = parse(text);
        let point = |line, node: &str, port: &str, metric, value, time_ns| Point {
            line,
            node: node.into(),
            port: port.into(),
            metric,
            value,
            time_ns,
        };
        let expected = [
            point(2, "n1", "eth0", 0, 12, Some(1_700_000_000_000_000_000)),
            point(3, "n1", "mlx5 0", 5, 7000, Some(1_700_000_000_123_000_000)),
            point(5, "n2", "eth0", 3, u64::MAX, None),
        ];
        assert_eq!(points, expected);
        assert_eq!((verdict.kept, verdict.refused), (2, 0));
    }

    #[test]
    fn a_bad_line_is_said_with_its_number_and_the_others_are_kept() {
        let tags = "stype-id=eth0";
        for (line, why) in [
            ("net_bytes_in".to_owned(), "expected NAME,TAG=VALUE"),
            (format!("net_bytes_in,{tags} value=1"), "a tag hostname"),
            (
                format!("net_bytes_in,hostname=../n,{tags} value=1"),
                "a host name",
            ),
            (
                format!("net_bytes_in,hostname=n,{tags} value=-1"),
                "not negative",
            ),
            (
                format!("net_bytes_in,hostname=n,{tags} value=nan"),
                "a total",
            ),
            (
                format!("net_bytes_in,hostname=n,{tags} value=1 soon"),
                "a time",
            ),
            (
                format!("net_bytes_in,hostname=n,{tags} v=1"),
                "a field value",
            ),
        ] {
            // The lines around it are kept.
            let good = format!("net_bytes_in,hostname=n,{tags} value=1\n");
            let (points, verdict) = parse(&format!("{good}{line}\n{good}"));
            let error = verdict.first();
            assert_eq!((points.len(), verdict.refused), (2, 1), "{line}");
            assert!(
                error.starts_with("line 2: found ") && error.contains(why),
                "{error}"
            );
        }
    }

    proptest! {
        #[test]
        fn garbage_never_panics(text: String, head in "net_bytes_in,hostname=n,stype-id=[^\n]{0,20} value=[^\n]{0,20}") {
            let (points, verdict) = parse(&text);
            prop_assert!(points.len() + verdict.kept + verdict.refused <= text.lines().count());
            let _ = parse(&head);
        }
    }
}
