//! `ethtool -S`: statistics of one interface by its driver's names, alone or of many nodes through `pdsh`.
//!
//! ```text
//! n01: NIC statistics:
//! n01:      rx_bytes_phy: 2195783498134
//! n01:      rx_prio3_pause_duration: 1720
//! ```
//!
//! Drivers name the counters of the port differently, and many have others of their software beside them, so that a
//! driver is recognised by one of its names. Durations of pauses are microseconds: a pause that the interface received
//! stopped its departures, one that it sent stopped its arrivals. Priorities pause independently, so the longest counts.

use super::delta::{Behaviour, Moment};
use super::names;
use super::reading::{Combine, Layout, Port, Reading};
use crate::text::{Line, Text, decimal, lossy};
use hopbyte_fabric::{InputError, LeftOut, Quantity};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// Names of a driver's counters of the port.
struct Driver {
    /// Whether a name is only this driver's.
    marker: &'static str,
    /// The driver's name, and the kernel's for an interface; errors of several causes are added up.
    counters: &'static [(&'static str, &'static str)],
    /// Durations of received and sent pauses: text before and behind the priority.
    pauses: &'static [(&'static str, &'static str, Quantity)],
}

const RECEIVED: Quantity = Quantity::CreditStallNs;
const SENT: Quantity = Quantity::InputStallNs;

/// Drivers, the most specific first; the last has the kernel's own names, which most older drivers (i40e, ixgbe, mlx4, e1000e)
/// print before any others, so that a list that was cut is not taken for another driver's.
const DRIVERS: [Driver; 8] = [
    // mlx5: https://docs.kernel.org/networking/device_drivers/ethernet/mellanox/mlx5/counters.html
    Driver {
        marker: "rx_bytes_phy",
        counters: &[
            ("rx_bytes_phy", "rx_bytes"),
            ("tx_bytes_phy", "tx_bytes"),
            ("rx_packets_phy", "rx_packets"),
            ("tx_packets_phy", "tx_packets"),
            ("rx_crc_errors_phy", "rx_errors"),
            ("rx_symbol_err_phy", "rx_errors"),
            ("rx_discards_phy", "rx_dropped"),
            ("tx_errors_phy", "tx_errors"),
            ("tx_discards_phy", "tx_dropped"),
        ],
        pauses: &[
            ("rx_prio", "_pause_duration", RECEIVED),
            ("rx_global_pause_duration", "", RECEIVED),
            ("tx_prio", "_pause_duration", SENT),
            ("tx_global_pause_duration", "", SENT),
        ],
    },
    // ice
    Driver {
        marker: "rx_bytes.nic",
        counters: &[
            ("rx_bytes.nic", "rx_bytes"),
            ("tx_bytes.nic", "tx_bytes"),
            ("rx_crc_errors.nic", "rx_errors"),
            ("rx_dropped.nic", "rx_dropped"),
            ("tx_errors.nic", "tx_errors"),
            ("tx_dropped_link_down.nic", "tx_dropped"),
        ],
        pauses: &[],
    },
    // bnxt_en; sums as in its bnxt_get_stats64, tx_err with all causes of transmission errors
    Driver {
        marker: "rx_total_frames",
        counters: &[
            ("rx_bytes", "rx_bytes"),
            ("tx_bytes", "tx_bytes"),
            ("rx_total_frames", "rx_packets"),
            ("tx_total_frames", "tx_packets"),
            ("rx_fcs_err_frames", "rx_errors"),
            ("rx_align_err_frames", "rx_errors"),
            ("rx_undrsz_frames", "rx_errors"),
            ("rx_ovrsz_frames", "rx_errors"),
            ("rx_runt_frames", "rx_errors"),
            ("rx_jbr_frames", "rx_errors"),
            ("rx_stat_discard", "rx_dropped"),
            ("tx_err", "tx_errors"),
            ("tx_stat_discard", "tx_dropped"),
        ],
        pauses: &[
            ("pfc_pri", "_rx_duration_us", RECEIVED),
            ("pfc_pri", "_tx_duration_us", SENT),
        ],
    },
    // hns3: hclge_main.c and hns3_ethtool.c of the kernel
    Driver {
        marker: "mac_rx_total_oct_num",
        counters: &[
            ("mac_rx_total_oct_num", "rx_bytes"),
            ("mac_tx_total_oct_num", "tx_bytes"),
            ("mac_rx_total_pkt_num", "rx_packets"),
            ("mac_tx_total_pkt_num", "tx_packets"),
            ("mac_rx_fcs_err_pkt_num", "rx_errors"),
        ],
        pauses: &[],
    },
    // bnx2, bnx2x
    Driver {
        marker: "rx_error_bytes",
        counters: &[
            ("rx_bytes", "rx_bytes"),
            ("tx_bytes", "tx_bytes"),
            ("rx_crc_errors", "rx_errors"),
            ("rx_discards", "rx_dropped"),
        ],
        pauses: &[],
    },
    // tg3
    Driver {
        marker: "rx_octets",
        counters: &[
            ("rx_octets", "rx_bytes"),
            ("tx_octets", "tx_bytes"),
            ("rx_errors", "rx_errors"),
            ("rx_discards", "rx_dropped"),
            ("tx_errors", "tx_errors"),
            ("tx_discards", "tx_dropped"),
        ],
        pauses: &[],
    },
    // sfc
    Driver {
        marker: "port_rx_bytes",
        counters: &[
            ("port_rx_bytes", "rx_bytes"),
            ("port_tx_bytes", "tx_bytes"),
            ("port_rx_packets", "rx_packets"),
            ("port_tx_packets", "tx_packets"),
            ("port_rx_bad", "rx_errors"),
            ("port_rx_overflow", "rx_dropped"),
        ],
        pauses: &[],
    },
    Driver {
        marker: "rx_errors",
        counters: &[
            ("rx_bytes", "rx_bytes"),
            ("tx_bytes", "tx_bytes"),
            ("rx_packets", "rx_packets"),
            ("tx_packets", "tx_packets"),
            ("rx_errors", "rx_errors"),
            ("rx_dropped", "rx_dropped"),
            ("tx_errors", "tx_errors"),
            ("tx_dropped", "tx_dropped"),
        ],
        pauses: &[],
    },
];

/// First line of each interface.
const HEADING: &[u8] = b"NIC statistics:";

/// Reason for statistics that are left out.
const OTHER: &str = "statistic that belongs to no link";
/// Reason for pauses that are left out.
const CUT: &str = "duration of a pause at the end of the list, where others may be missing";

/// Reason for interfaces of a driver that is not known.
const UNKNOWN: &str = "interface whose driver's counters are not known (its /sys/class/net/INTERFACE/statistics, `ip -s link` and /proc/net/dev have the kernel's)";

/// Reason for lines of nodes without a heading.
const NO_HEADING: &str = "line of a node without the heading 'NIC statistics:'";

/// What to do about statistics without the name of their node.
pub(super) const NO_NODE: &str =
    "name it with --counters-of NODE, or print it before each line as pdsh does";

/// Whether a line is a heading, or in a list without one the counter by which a driver is known.
pub(super) fn is_line(line: &[u8]) -> bool {
    let is_marker = |line: &str| {
        let statistic = line.split_once(": ");
        statistic.is_some_and(|(name, value)| {
            DRIVERS.iter().any(|d| d.marker == name) && decimal(value.as_bytes()).is_some()
        })
    };
    line.ends_with(HEADING) || is_marker(&lossy(line))
}

/// Whether some driver's counter of a port has this name.
fn is_counted(name: &str) -> bool {
    names::DOWNS.contains(&name)
        || DRIVERS.iter().any(|driver| {
            let mut own = driver.counters.iter().map(|(own, _)| *own);
            driver.marker == name || driver.pause(name).is_some() || own.any(|own| own == name)
        })
}

/// One reading of each node, whose interfaces are told apart by their order.
pub(super) fn readings(
    text: &Text,
    node: Option<&str>,
    left_out: &mut LeftOut,
) -> Result<Vec<Reading>, InputError> {
    let mut lists: BTreeMap<String, Vec<Statistics<'_>>> = BTreeMap::new();
    let lines = prefixed(text)?;
    // `sort` and unordered `pdsh` have lines of a node before its heading.
    for prefix in lines.iter().filter_map(|(_, content)| heading(content)) {
        lists
            .entry(prefix.to_owned())
            .or_default()
            .push(Statistics::default());
    }
    let mut headings: BTreeMap<&str, usize> = BTreeMap::new();
    // Text before the heading of an interface without a node is none of its statistics.
    let mut begun = lists.is_empty();
    if begun {
        lists.insert(String::new(), vec![Statistics::default()]);
    }
    for (line, content) in &lines {
        if let Some(prefix) = heading(content) {
            begun |= prefix.is_empty();
            *headings.entry(prefix).or_default() += 1;
            continue;
        }
        let (prefix, rest) = match content.split_once(": ") {
            Some((first, rest)) if lists.contains_key(first) => (first, rest.trim_start()),
            _ => ("", content.as_str()),
        };
        let Some((name, value)) = rest.rsplit_once(':') else {
            continue;
        };
        match lists.get_mut(prefix) {
            Some(lists) if begun || !prefix.is_empty() => {
                let before = headings.get(prefix).copied().unwrap_or(0);
                if before == 0 && lists.len() > 1 {
                    let expected = "the heading of an interface before its statistics";
                    let hint = "lists of several interfaces of a node have to be in order: not sorted, nor by pdsh without `| dshbak`";
                    return Err(text.error_at(*line, expected).hint(hint));
                }
                lists[before.saturating_sub(1)].take(text, *line, name, value.trim())?;
            }
            Some(_) => {}
            None => left_out.note(NO_HEADING, name.split(':').next().unwrap_or_default()),
        }
    }
    check_drivers(text, lists.values().flatten())?;
    let read = lists.into_iter().map(|(prefix, lists)| {
        let own = Some(prefix.as_str()).filter(|p| !p.is_empty());
        let name = own.or(node).ok_or_else(|| {
            text.error("statistics of one interface", "the name of its node")
                .hint(NO_NODE)
        })?;
        let (mut layout, mut values) = (Layout::new(name, "ethtool"), Vec::new());
        for (list, number) in lists.iter().zip(1..) {
            let port = match number {
                1 => "ethtool".to_owned(),
                _ => format!("ethtool {number}"),
            };
            list.add(text, &Port::Named(port), &mut layout, &mut values, left_out)?;
        }
        let has_counters = !layout.counters.is_empty();
        let reading = Reading::of(Arc::new(layout), Moment::default(), &values);
        Ok(has_counters.then_some(reading))
    });
    read.filter_map(Result::transpose).collect()
}

/// Refuses a text without an interface of a known driver.
fn check_drivers<'a>(
    text: &Text,
    mut lists: impl Iterator<Item = &'a Statistics<'a>>,
) -> Result<(), InputError> {
    if lists.any(|list| list.driver().is_some()) {
        return Ok(());
    }
    let markers = DRIVERS.map(|d| d.marker).join(", ");
    let error = text.error("no counter of the port", format!("one of {markers}"));
    Err(error.hint("the counters of this driver are not known; /sys/class/net/INTERFACE/statistics has the kernel's"))
}

/// Node of a heading; empty if it names none.
fn heading(content: &str) -> Option<&str> {
    let start = content.strip_suffix("NIC statistics:")?;
    Some(start.trim_end().trim_end_matches(':'))
}

/// Lines with the node before them as `pdsh` prints it; `dshbak` prints it once, between two rules.
pub(super) fn prefixed(text: &Text) -> Result<Vec<(Line<'_>, String)>, InputError> {
    let is_rule = |line: &[u8]| line.len() > 3 && line.iter().all(|&b| b == b'-');
    let mut lines = Vec::new();
    let mut of_node = String::new();
    // Whether the rule above a node's name was the last line.
    let (mut above, mut below) = (false, false);
    for line in text.lines() {
        let trimmed = line.trimmed();
        match (above, is_rule(trimmed)) {
            (_, true) => (above, below) = (!below, false),
            (true, false) => {
                let name = lossy(trimmed);
                if name.contains([',', '[']) {
                    let error = text.error_at(line, "one node above its statistics");
                    return Err(error.hint("dshbak without -c prints every node on its own"));
                }
                of_node = format!("{name}: ");
                (above, below) = (false, true);
            }
            (false, false) => lines.push((line, format!("{of_node}{}", lossy(trimmed)))),
        }
    }
    Ok(lines)
}

/// Statistics of an interface in their order, with their lines.
#[derive(Default)]
struct Statistics<'a> {
    values: BTreeMap<String, (Line<'a>, String)>,
    last: String,
}

impl<'a> Statistics<'a> {
    fn take(
        &mut self,
        text: &Text,
        line: Line<'a>,
        name: &str,
        value: &str,
    ) -> Result<(), InputError> {
        name.clone_into(&mut self.last);
        let before = self
            .values
            .insert(name.to_owned(), (line, value.to_owned()));
        match before {
            Some(_) if is_counted(name) => Err(text.error_at(line, "every statistic once")),
            _ => Ok(()),
        }
    }

    fn value(&self, text: &Text, name: &str) -> Result<Option<u64>, InputError> {
        let Some((line, value)) = self.values.get(name) else {
            return Ok(None);
        };
        let number = decimal(value.as_bytes());
        let wrong = || text.error_in(*line, value.as_bytes(), "a count");
        Ok(Some(number.ok_or_else(wrong)?))
    }

    fn driver(&self) -> Option<&'static Driver> {
        DRIVERS.iter().find(|d| self.values.contains_key(d.marker))
    }

    /// Adds the counters of the interface.
    fn add(
        &self,
        text: &Text,
        port: &Port,
        layout: &mut Layout,
        values: &mut Vec<Option<u64>>,
        left_out: &mut LeftOut,
    ) -> Result<(), InputError> {
        let Some(driver) = self.driver() else {
            // Its place in the order of the interfaces stays.
            layout.port(port);
            left_out.note(UNKNOWN, format!("{} {port}", layout.node));
            return Ok(());
        };
        let mut used = HashSet::new();
        for &(name, kernel) in driver.counters {
            if let Some(counter) = names::interface(layout, port, kernel) {
                if kernel.ends_with("_errors") {
                    name.clone_into(&mut counter.name);
                }
                values.push(self.value(text, name)?);
                used.insert(name);
            }
        }
        for name in names::DOWNS {
            if let Some(times) = self.value(text, name)? {
                names::downs(layout, port, name);
                values.push(Some(times));
                used.insert(name);
            }
        }
        let is_pause = |name: &str| name.contains("pause") || name.starts_with("pfc_");
        for (name, quantity) in self
            .values
            .keys()
            .filter_map(|n| Some((n, driver.pause(n)?)))
        {
            if is_pause(&self.last) {
                left_out.note(CUT, name.as_str());
                continue;
            }
            let counter = layout.counter(port, name.as_str(), quantity, 1e3);
            counter.combine = Combine::Max;
            counter.behaviour = Behaviour {
                most_per_second: Some(1e6),
                ..Behaviour::PLAIN
            };
            values.push(self.value(text, name)?);
            used.insert(name);
        }
        for name in self.values.keys().filter(|n| !used.contains(n.as_str())) {
            left_out.note(OTHER, name.as_str());
        }
        Ok(())
    }
}

impl Driver {
    /// What a duration of pauses measures.
    fn pause(&self, name: &str) -> Option<Quantity> {
        let is_priority = |text: &str| matches!(text.as_bytes(), [] | [b'0'..=b'7']);
        let mut known = self.pauses.iter();
        let found = known.find(|(start, end, _)| {
            let middle = name.strip_prefix(start).and_then(|n| n.strip_suffix(end));
            middle.is_some_and(is_priority)
        });
        found.map(|&(.., quantity)| quantity)
    }
}

#[cfg(test)]
mod tests;
