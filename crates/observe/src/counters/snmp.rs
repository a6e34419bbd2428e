//! `snmpwalk` of a switch: the 64-bit counters of IF-MIB's `ifXTable`, with errors and discards of its `ifTable`.
//!
//! ```text
//! SNMPv2-MIB::sysName.0 = STRING: leaf1
//! IF-MIB::ifName.7 = STRING: Ethernet1/7
//! IF-MIB::ifHCInOctets.7 = Counter64: 2195783498134
//! ```
//!
//! Objects may also be numeric (`.1.3.6.1.2.1.31.1.1.1.6.7`, `iso.3.6…`), without their MIB (`-Os`) or with the index in
//! brackets (`-OX`), and values without their type (`-OQ`) and sign (`-Oq`). Several walks may follow each other, of one switch
//! or of many: each starts with `sysUpTime` or `sysName`. The up-time is the clock of a reading. The older 32-bit counters
//! of bytes wrap in seconds and are not read.

use super::delta::{Behaviour, Moment};
use super::names;
use super::reading::{Layout, Port, Reading};
use crate::text::{Line, Text, decimal, lossy};
use hopbyte_fabric::{InputError, LeftOut, Quantity as Q, Side};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A column of the tables of interfaces: name, end of the object identifier behind `1.3.6.1.2.1.`, quantity, side, bits.
type Column = (&'static str, &'static str, Q, Side, u32);

use Side::{Arrivals, Departures};

/// Columns that are read, all of them in the layout of each port: a sum with a missing member is missing.
const COLUMNS: [Column; 13] = [
    ("ifHCInOctets", "31.1.1.1.6", Q::ReceivedBytes, Arrivals, 64),
    ("ifHCOutOctets", "31.1.1.1.10", Q::SentBytes, Departures, 64),
    (
        "ifHCInUcastPkts",
        "31.1.1.1.7",
        Q::ReceivedPackets,
        Arrivals,
        64,
    ),
    (
        "ifHCInMulticastPkts",
        "31.1.1.1.8",
        Q::ReceivedPackets,
        Arrivals,
        64,
    ),
    (
        "ifHCInBroadcastPkts",
        "31.1.1.1.9",
        Q::ReceivedPackets,
        Arrivals,
        64,
    ),
    (
        "ifHCOutUcastPkts",
        "31.1.1.1.11",
        Q::SentPackets,
        Departures,
        64,
    ),
    (
        "ifHCOutMulticastPkts",
        "31.1.1.1.12",
        Q::SentPackets,
        Departures,
        64,
    ),
    (
        "ifHCOutBroadcastPkts",
        "31.1.1.1.13",
        Q::SentPackets,
        Departures,
        64,
    ),
    ("ifInErrors", "2.2.1.14", Q::Errors, Arrivals, 32),
    ("ifInDiscards", "2.2.1.13", Q::Errors, Arrivals, 32),
    ("ifOutErrors", "2.2.1.20", Q::Errors, Departures, 32),
    ("ifOutDiscards", "2.2.1.19", Q::Errors, Departures, 32),
    ("ifHighSpeed", "31.1.1.1.15", Q::Capacity, Departures, 64),
];

/// Columns with names of interfaces, the best first.
const NAMES: [(&str, &str); 2] = [("ifName", "31.1.1.1.1"), ("ifDescr", "2.2.1.2")];

/// Source of its layouts.
pub(super) const SOURCE: &str = "snmp";

/// Reason for objects that are left out.
const OTHER: &str = "object that belongs to no link";
/// Reason for interfaces that are left out.
const NARROW: &str = "interface without 64-bit counters";

/// Whether a line is an object of such a walk.
pub(super) fn is_line(line: &[u8]) -> bool {
    const STARTS: [&[u8]; 7] = [
        b"IF-MIB::",
        b"SNMPv2-MIB::",
        b"DISMAN-EVENT-MIB::",
        b".1.3.6.1.2.1.",
        b"iso.3.6.1.2.1.",
        b"1.3.6.1.2.1.",
        b"RFC1213-MIB::",
    ];
    let Some((object, value)) = halves(line) else {
        return false;
    };
    !value.is_empty() && (STARTS.iter().any(|s| line.starts_with(s)) || is_short(object))
}

/// An object and its value: `OBJECT = VALUE`, or `OBJECT VALUE` (`-Oq`).
fn halves(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let (object, value) = line.split_at(memchr::memchr(b' ', line)?);
    let value = value.trim_ascii_start();
    Some((
        object,
        value.strip_prefix(b"=").unwrap_or(value).trim_ascii_start(),
    ))
}

/// Whether an object of the system or of an interface has no MIB before it (`-Os`): `ifHCInOctets.7`.
fn is_short(object: &[u8]) -> bool {
    let end = object.iter().position(|&b| b == b'.' || b == b'[');
    let (name, index) = object.split_at(end.unwrap_or(object.len()));
    let is_index = index
        .iter()
        .all(|b| b.is_ascii_digit() || b".[]".contains(b));
    let of_system = name == b"sysUpTimeInstance" || name == b"sysName";
    let is_interface = name.starts_with(b"if") && name.get(2).is_some_and(u8::is_ascii_uppercase);
    let is_word = name.iter().all(u8::is_ascii_alphanumeric);
    is_index && (of_system || (is_interface && is_word && index.len() > 1))
}

/// An object: its name or the end of its identifier, and the index behind it.
fn object(line: &str) -> Option<(&str, &str)> {
    let numeric = ["iso.3.6.1.2.1.", ".1.3.6.1.2.1.", "1.3.6.1.2.1."];
    let own = numeric.iter().find_map(|start| line.strip_prefix(start));
    let name = match own {
        Some(numbers) => numbers,
        None => line.split_once("::").map_or(line, |(_, name)| name),
    };
    let in_brackets = || name.strip_suffix(']')?.split_once('[');
    in_brackets()
        .or_else(|| name.rsplit_once('.'))
        .or(Some((name, "")))
}

/// One walk of one switch.
#[derive(Default)]
struct Walk {
    name: Option<String>,
    uptime_ns: Option<u64>,
    /// Names of interfaces by index, with the rank of their column.
    ports: BTreeMap<u32, (usize, String)>,
    values: BTreeMap<(u32, usize), u64>,
}

/// Readings of all walks in the text.
pub(super) fn readings(
    text: &Text,
    node: Option<&str>,
    left_out: &mut LeftOut,
) -> Result<Vec<Reading>, InputError> {
    let mut walks = vec![Walk::default()];
    for line in text.lines() {
        let Some((left, right)) = halves(line.trimmed()).filter(|_| is_line(line.trimmed())) else {
            continue;
        };
        let (left, right) = (lossy(left), lossy(right));
        // An empty text has its type alone.
        let value = right.strip_suffix(':').map_or(&*right, |_| "");
        let value = value.split_once(": ").map_or(value, |(_, value)| value);
        let (column, index) = object(&left).unwrap_or_default();
        let is = |name: &str, numeric: &str| column == name || column == numeric;
        let uptime = is("sysUpTime", "1.3") || left.ends_with("sysUpTimeInstance");
        let sys_name = is("sysName", "1.5");
        if (uptime || sys_name) && walks.last().is_some_and(|w| !w.values.is_empty()) {
            walks.push(Walk::default());
        }
        let Some(walk) = walks.last_mut() else { break };
        if uptime {
            walk.uptime_ns = Some(ticks(value).ok_or_else(|| {
                text.error_in(
                    line,
                    right.as_bytes(),
                    "Timeticks: (HUNDREDTHS) … or D:H:M:S.HUNDREDTHS",
                )
            })?);
        } else if sys_name {
            walk.name = Some(unquoted(value).to_owned()).filter(|name| !name.is_empty());
        } else if let Some(known) = COLUMNS.iter().position(|c| is(c.0, c.1)) {
            walk.take(text, line, known, index, value)?;
        } else if let Some(rank) = NAMES.iter().position(|c| is(c.0, c.1)) {
            let index = number(text, line, index)?;
            let new = (rank, unquoted(value).to_owned());
            if new.1.is_empty() {
                continue;
            }
            let old = walk.ports.entry(index).or_insert_with(|| new.clone());
            if new.0 < old.0 {
                *old = new;
            }
        } else {
            left_out.note(OTHER, &*left);
        }
    }
    let read = walks.iter().filter(|w| !w.values.is_empty());
    let readings: Result<Vec<Reading>, InputError> = read
        .map(|walk| walk.reading(text, node, left_out))
        .collect();
    let readings = readings?;
    if readings.is_empty() {
        let error = text.error("no counter of an interface", "ifHCInOctets and the others");
        return Err(error.hint("walk both tables: snmpwalk … SWITCH ifXTable, and ifTable"));
    }
    Ok(readings)
}

/// `(123456) 0:20:34.56`, `123456`, or `0:0:20:34.56` with days (`-OQ`), in nanoseconds.
fn ticks(value: &str) -> Option<u64> {
    let inner = value
        .strip_prefix('(')
        .and_then(|v| v.split_once(')'))
        .map_or(value, |(v, _)| v);
    let fields = inner.trim().split([':', '.']);
    let fields: Option<Vec<u64>> = fields.map(|f| decimal(f.as_bytes())).collect();
    let hundredths = match fields?[..] {
        [hundredths] => Some(hundredths),
        [days, hours, minutes, seconds, rest] => {
            let parts = [(24, hours), (60, minutes), (60, seconds), (100, rest)];
            let mut parts = parts.into_iter();
            parts.try_fold(days, |sum, (n, part)| sum.checked_mul(n)?.checked_add(part))
        }
        _ => None,
    };
    hundredths?.checked_mul(10_000_000)
}

fn unquoted(value: &str) -> &str {
    let inner = value.strip_prefix('"').and_then(|v| v.strip_suffix('"'));
    inner.unwrap_or(value)
}

fn number(text: &Text, line: Line<'_>, index: &str) -> Result<u32, InputError> {
    let number = decimal(index.as_bytes()).and_then(|n| u32::try_from(n).ok());
    number.ok_or_else(|| text.error_at(line, "an interface's number behind the column"))
}

impl Walk {
    fn take(
        &mut self,
        text: &Text,
        line: Line<'_>,
        column: usize,
        index: &str,
        value: &str,
    ) -> Result<(), InputError> {
        let index = number(text, line, index)?;
        // Some devices add the unit behind the number.
        let digits = value.split(' ').next().unwrap_or_default();
        let count = decimal(digits.as_bytes());
        let count = count.ok_or_else(|| text.error_in(line, value.as_bytes(), "a count"))?;
        if self.values.insert((index, column), count).is_some() {
            let error = text.error_at(line, "every object once in a walk");
            return Err(error.hint("start each walk with sysUpTime, its clock"));
        }
        Ok(())
    }

    fn reading(
        &self,
        text: &Text,
        node: Option<&str>,
        left_out: &mut LeftOut,
    ) -> Result<Reading, InputError> {
        let name = self.name.as_deref().or(node).ok_or_else(|| {
            text.error("counters of one switch", "its name, sysName")
                .hint("name it with --counters-of SWITCH, or walk system too")
        })?;
        let mut layout = Layout::new(name, SOURCE);
        let mut values = Vec::new();
        let indices: BTreeSet<u32> = self.values.keys().map(|&(index, _)| index).collect();
        for index in indices {
            let own = self.ports.get(&index);
            let name = own.map_or_else(|| format!("if{index}"), |(_, name)| name.clone());
            if !self.values.contains_key(&(index, 0)) && !self.values.contains_key(&(index, 1)) {
                left_out.note(NARROW, name);
                continue;
            }
            let port = Port::Named(name);
            for (column, &(name, _, quantity, side, bits)) in COLUMNS.iter().enumerate() {
                let factor = if quantity == Q::Capacity {
                    names::MEGABIT
                } else {
                    1.0
                };
                let counter = layout.counter(&port, name, quantity, factor);
                counter.side = side;
                if bits < 64 {
                    counter.behaviour = Behaviour::bits(bits);
                }
                values.push(self.values.get(&(index, column)).copied());
            }
        }
        let moment = Moment {
            steady_ns: self.uptime_ns,
            ..Moment::default()
        };
        Ok(Reading::of(Arc::new(layout), moment, &values))
    }
}

#[cfg(test)]
mod tests;
