//! The kernel's statistics of a node's interfaces: `/proc/net/dev`, and `ip -s link` as text or JSON; of one node, or the
//! text of many through `pdsh`.
//!
//! ```text
//! n01: 2: eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 qdisc mq state UP mode DEFAULT group default qlen 1000
//! n01:     link/ether 0c:42:a1:00:00:02 brd ff:ff:ff:ff:ff:ff
//! n01:     RX:     bytes packets errors dropped  missed   mcast
//! n01:        2195783498     912      0       0       0       0
//! ```
//!
//! Columns are taken by their heading. Virtual functions of an interface are below it and part of its counts.

use super::delta::Moment;
use super::ethtool::{NO_NODE, prefixed};
use super::names;
use super::reading::{Layout, Port, Reading};
use crate::text::{Line, Text, decimal};
use hopbyte_fabric::{InputError, LeftOut};
use memchr::memmem;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Name of the source.
const SOURCE: &str = "interfaces";
/// Begin of the heading of `/proc/net/dev`.
const TABLE: &str = "Inter-|";
/// Columns of `/proc/net/dev` each way; the first four are read.
const COLUMNS: usize = 8;
/// Names of these.
const READ: [&str; 4] = ["bytes", "packets", "errors", "dropped"];

/// Whether a line begins such statistics.
pub(super) fn is_line(line: &[u8]) -> bool {
    // `ip` prints an empty object for each interface that it was not asked for. `ifindex` is a leaf of OpenConfig too.
    let is_json = matches!(line.first(), Some(b'[' | b'{' | b'"'));
    (is_json && memmem::find(line, b"\"ifname\"").is_some())
        || memmem::find(line, TABLE.as_bytes()).is_some()
        || std::str::from_utf8(line).is_ok_and(|line| interface(line).is_some())
}

/// The node before an interface's first line, if any, and the interface.
fn interface(line: &str) -> Option<(&str, &str)> {
    let (start, _) = line.split_once(": <")?;
    let (start, name) = start.rsplit_once(": ").unwrap_or(("", start));
    let (node, number) = start.rsplit_once(": ").unwrap_or(("", start));
    decimal(number.trim().as_bytes())?;
    Some((node.trim(), name.split('@').next()?))
}

/// The node before the heading of `/proc/net/dev`.
fn table(line: &str) -> Option<&str> {
    let (node, _) = line.split_once(TABLE)?;
    Some(node.trim_end().trim_end_matches(':'))
}

/// One reading of each node.
pub(super) fn readings(
    text: &Text,
    node: Option<&str>,
    _: &mut LeftOut,
) -> Result<Vec<Reading>, InputError> {
    let mut nodes: BTreeMap<String, Node> = BTreeMap::new();
    if text.bytes().trim_ascii_start().starts_with(b"[") {
        nodes.insert(String::new(), Node::of_json(text)?);
    } else {
        for (line, content) in prefixed(text)? {
            let own = interface(&content).map(|found| found.0);
            if let Some(node) = own.or_else(|| table(&content)) {
                nodes.entry(node.to_owned()).or_default();
            }
            let (node, rest) = match content.split_once(": ") {
                Some((first, rest)) if nodes.contains_key(first) => (first, rest.trim_start()),
                _ => ("", &*content),
            };
            if let Some(node) = nodes.get_mut(node) {
                node.take(text, line, rest)?;
            }
        }
    }
    if nodes.values().all(|n| n.values.is_empty()) {
        let error = text.error("no statistics of an interface", "RX and TX counts");
        return Err(error.hint("ip -s link prints them"));
    }
    let read = nodes.into_iter().map(|(prefix, mut read)| {
        let own = Some(prefix).filter(|p| !p.is_empty());
        let name = own.or_else(|| node.map(str::to_owned));
        let missing = || {
            text.error("interfaces of one node", "its name")
                .hint(NO_NODE)
        };
        read.layout.node = name.ok_or_else(missing)?;
        let layout = Arc::new(read.layout);
        Ok(Reading::of(layout, Moment::default(), &read.values))
    });
    read.collect()
}

/// The interfaces of a node while they are read.
struct Node {
    layout: Layout,
    values: Vec<Option<u64>>,
    /// Lines of the interfaces.
    lines: HashMap<String, u64>,
    /// The interface of the next counts.
    interface: Option<String>,
    /// Direction and columns of the next line.
    columns: Option<(&'static str, Vec<String>)>,
    /// Whether rows are those of `/proc/net/dev`.
    is_table: bool,
}

impl Default for Node {
    fn default() -> Self {
        Self {
            layout: Layout::new("", SOURCE),
            values: Vec::new(),
            lines: HashMap::new(),
            interface: None,
            columns: None,
            is_table: false,
        }
    }
}

impl Node {
    fn take(&mut self, text: &Text, line: Line<'_>, content: &str) -> Result<(), InputError> {
        if content.contains(TABLE) {
            self.is_table = true;
            return Ok(());
        }
        if self.is_table {
            return self.row(text, line, content);
        }
        if let Some((direction, columns)) = self.columns.take() {
            let Some(name) = self.interface.clone() else {
                return Ok(());
            };
            let counts: Vec<&str> = content.split_whitespace().collect();
            let named = columns.iter().map(String::as_str).zip(counts);
            return self.counts(text, line, (&name, direction), named);
        }
        if let Some((_, name)) = interface(content) {
            self.begin(text, line, name)?;
            self.interface = Some(name.to_owned());
        } else if content.trim_start().starts_with("vf ") {
            self.interface = None;
        }
        let heading = content.trim_start();
        for (start, direction) in [("RX: ", "rx"), ("TX: ", "tx")] {
            let columns = heading.strip_prefix(start);
            let names = columns.map(|c| c.split_whitespace().map(str::to_owned).collect());
            self.columns = self
                .columns
                .take()
                .or(names.map(|names| (direction, names)));
        }
        Ok(())
    }

    /// A row of `/proc/net/dev`: `eth0: ` and eight counts each way.
    fn row(&mut self, text: &Text, line: Line<'_>, content: &str) -> Result<(), InputError> {
        if content.trim_start().starts_with("face") {
            return Ok(());
        }
        let expected = "an interface and sixteen counts";
        let row = content.rsplit_once(':');
        let (name, counts) = row.ok_or_else(|| text.error_at(line, expected))?;
        let counts: Vec<&str> = counts.split_whitespace().collect();
        if counts.len() != 2 * COLUMNS {
            return Err(text.error_at(line, expected));
        }
        let name = name.trim();
        self.begin(text, line, name)?;
        for (direction, counts) in ["rx", "tx"].into_iter().zip(counts.chunks(COLUMNS)) {
            let named = READ.into_iter().zip(counts.iter().copied());
            self.counts(text, line, (name, direction), named)?;
        }
        Ok(())
    }

    /// Refuses an interface that the node has already.
    fn begin(&mut self, text: &Text, line: Line<'_>, name: &str) -> Result<(), InputError> {
        let first = self.lines.insert(name.to_owned(), line.number);
        first.map_or(Ok(()), |first| Err(super::twice(text, line, first)))
    }

    fn counts<'a>(
        &mut self,
        text: &Text,
        line: Line<'_>,
        (interface, direction): (&str, &str),
        counts: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Result<(), InputError> {
        for (column, count) in counts {
            let number = decimal(count.as_bytes());
            let number =
                number.ok_or_else(|| text.error_in(line, count.as_bytes(), "a whole number"))?;
            self.add(interface, &format!("{direction}_{column}"), number);
        }
        Ok(())
    }

    /// Adds a count, if it is one of a link.
    fn add(&mut self, interface: &str, name: &str, count: u64) {
        let port = Port::Named(interface.to_owned());
        if names::interface(&mut self.layout, &port, name).is_some() {
            self.values.push(Some(count));
        }
    }

    /// The interfaces of `ip -s -json link`.
    fn of_json(text: &Text) -> Result<Self, InputError> {
        let links: Vec<Link> = text.json("the output of ip -s -json link")?;
        let mut node = Self::default();
        for link in links {
            let Some(counts) = link.stats64.or(link.stats) else {
                continue;
            };
            if node.lines.insert(link.ifname.clone(), 0).is_some() {
                let error = text.error(&link.ifname, "every interface once");
                return Err(error.hint("give a file for each moment"));
            }
            for (direction, counts) in [("rx", counts.rx), ("tx", counts.tx)] {
                for (name, count) in counts {
                    if let Some(count) = count.as_u64() {
                        node.add(&link.ifname, &format!("{direction}_{name}"), count);
                    }
                }
            }
        }
        Ok(node)
    }
}

/// An interface in the JSON of `ip`.
#[derive(Deserialize)]
struct Link {
    #[serde(default)]
    ifname: String,
    stats64: Option<Both>,
    stats: Option<Both>,
}

/// Counts by their names.
#[derive(Deserialize)]
struct Both {
    rx: BTreeMap<String, serde_json::Value>,
    tx: BTreeMap<String, serde_json::Value>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Limits;

    const DEV: &str = include_str!("../../../../fuzz/seeds/interfaces/dev.txt");
    const PDSH: &str = include_str!("../../../../fuzz/seeds/interfaces/pdsh.txt");
    const JSON: &str = include_str!("../../../../fuzz/seeds/interfaces/ip.json");

    fn read(content: &str, node: Option<&str>) -> Result<Vec<Reading>, String> {
        let text = Text::from_bytes("f", content.as_bytes(), Limits::TEXT).unwrap();
        readings(&text, node, &mut LeftOut::default()).map_err(|e| e.to_string())
    }

    /// Counts of `eth0` by name.
    fn counts(reading: &Reading) -> BTreeMap<&str, Option<u64>> {
        let layout = &reading.layout;
        let eth0 = |port: u16| layout.ports[usize::from(port)] == Port::Named("eth0".into());
        let counters = layout.counters.iter().enumerate();
        let own = counters.filter(|(_, c)| eth0(c.port));
        own.map(|(i, c)| (c.name.as_str(), reading.get(i)))
            .collect()
    }

    #[test]
    fn the_kernel_s_counts_are_the_same_in_every_form() {
        let forms = [(DEV, Some("n1")), (PDSH, None), (JSON, Some("n1"))];
        let all = forms.map(|(content, node)| read(content, node).unwrap());
        let first = counts(&all[0][0]);
        assert_eq!(first["rx_bytes"], Some(1_003_976_838));
        assert_eq!((first["tx_dropped"], first.len()), (Some(2), 8));
        for (form, reading) in forms.iter().zip(&all) {
            assert_eq!((reading.len(), counts(&reading[0])), (1, first.clone()));
            assert_eq!(reading[0].layout.node, form.1.unwrap_or("nid00000"));
        }
    }

    #[test]
    fn bad_statistics_are_named() {
        let twice = DEV.to_owned() + DEV;
        let quiet = "2: eth0: <UP> mtu 1500\n    link/ether 00:00:00:00:00:00\n".to_owned();
        for (content, node, found) in [
            (
                DEV.to_owned(),
                None,
                "f: found interfaces of one node, expected its name",
            ),
            (twice, Some("n1"), "f:7: found "),
            (
                DEV.replace(" 902711 ", " x "),
                Some("n1"),
                "f:4: found x, expected a whole number",
            ),
            (DEV.replace(" 902711 ", " "), Some("n1"), "f:4: found "),
            (quiet, Some("n1"), "f: found no statistics of an interface"),
            (
                JSON.replace("\"rx\"", "\"r\""),
                Some("n1"),
                "f:1: found missing field",
            ),
        ] {
            let error = read(&content, node).unwrap_err();
            assert!(error.starts_with(found), "{found}: {error}");
        }
    }
}
