//! `ldms_ls -l`: metric sets of Cray's Gemini samplers, as pasted from a terminal.
//!
//! A set begins with `HOST/SET: consistent, last update: DATE [Nus]`, followed by one line per metric: `U64 VALUE
//! NAME [(UNIT)]` (older) or `D u64 NAME [(UNIT)] VALUE` (LDMS 4). Lists, their rows and the blocks of `-v` are no metrics.
//! Samplers of interfaces have `rx_bytes#eth0`. The date has no time zone and is read as UTC. Percentages
//! that LDMS computed keep their printed value, scaled by the unit beside the name: `(%)` or `(% x1e6)`.
//!
//! A set of `localhost` is of the router that it names (`aries_rtr_id`), or of the node with the number of its component.

use super::delta::Moment;
use super::gpcdr::{self, NoMetric};
use super::reading::{Layout, Reading};
use super::{ldms_csv, registers};
use crate::text::{Line, Text, decimal, lossy};
use hopbyte_fabric::{InputError, LeftOut};
use std::collections::HashMap;
use std::sync::Arc;

/// Words of a set's first line.
const UPDATED: &str = "last update:";

/// Whether a line is the first of a set.
pub(super) fn is_header(line: &[u8]) -> bool {
    let line = lossy(line);
    line.contains(UPDATED) && line.contains("consistent")
}

/// Whether a line begins a listing without the name of its set, as papers print them: `U64 1 nettopo_mesh_coord_X`.
pub(super) fn is_bare(line: &[u8]) -> bool {
    let mut words = crate::text::words(line);
    let typed = words.next().is_some_and(|w| w.eq_ignore_ascii_case(b"u64"));
    let value = words.next().and_then(decimal);
    typed
        && value.is_some()
        && words
            .next()
            .is_some_and(|n| gpcdr::coordinate(&plain(n)).is_some())
}

/// Whether a set's host is only its own daemon's name for itself: `localhost`, `localhost1`, `localhost_411`.
fn is_local(host: &str) -> bool {
    let rest = host.strip_prefix("localhost");
    rest.is_some_and(|rest| rest.bytes().all(|b| b == b'_' || b.is_ascii_digit()))
}

/// Whether a line begins like a metric.
fn is_metric(line: &[u8]) -> bool {
    let word = crate::text::words(line).next().unwrap_or_default();
    matches!(word, b"M" | b"D") || word.eq_ignore_ascii_case(b"u64")
}

/// A metric's name. Listings that went through Markdown have `\_` for `_`.
fn plain(name: &[u8]) -> String {
    lossy(name).replace("\\_", "_")
}

/// Name, value and unit of a metric's line; `None` if one is missing.
fn metric(line: Line<'_>) -> Option<(&[u8], &[u8], &[u8])> {
    let mut words = line.words();
    if !matches!(words.next()?, b"M" | b"D") {
        let (value, name) = (words.next()?, words.next()?);
        return Some((name, value, words.rest()));
    }
    words.next()?;
    let name = words.next()?;
    // The unit is a part of the name.
    let rest = words.rest().trim_ascii_start();
    let end = rest.iter().position(|&b| b == b')');
    let end = end.filter(|_| rest.starts_with(b"("));
    let (unit, rest) = rest.split_at(end.map_or(0, |end| end + 1));
    let mut words = crate::text::words(rest);
    let value = words.next()?;
    let unit = if unit.is_empty() { words.rest() } else { unit };
    Some((name, value, unit))
}

/// All sets with counters of links.
pub(super) fn readings(text: &Text, left_out: &mut LeftOut) -> Result<Vec<Reading>, InputError> {
    let mut readings = Vec::new();
    let mut set: Option<Set> = None;
    for line in text.lines() {
        let content = line.trimmed();
        if content.is_empty() || content.starts_with(b"#") {
            continue;
        }
        if is_header(content) {
            let closed = set.replace(Set::parse(text, line)?);
            readings.extend(closed.and_then(|set| set.close(left_out)));
            continue;
        }
        if set.is_none() && is_bare(content) {
            set = Some(Set::bare());
        }
        let Some(set) = &mut set else {
            if is_metric(content) {
                let expected = "the first line of a set (HOST/SET: consistent, last update: …)";
                return Err(text.error_at(line, expected));
            }
            // The command as it was typed, the table of sets (`-v`).
            left_out.note("line before the first set", line.text());
            continue;
        };
        set.take(text, line)?;
    }
    readings.extend(set.and_then(|set| set.close(left_out)));
    Ok(readings)
}

/// A set while it is read.
struct Set {
    layout: Layout,
    consistent: bool,
    moment: Moment,
    coordinate: [Option<u32>; 3],
    /// The router of Aries registers, and the component, which is the nid.
    router: Option<String>,
    component: Option<u64>,
    values: Vec<Option<u64>>,
    /// Registers by their names, which are added together: one may stand for another.
    registers: Vec<(String, u64)>,
    /// Lines of the counters.
    lines: HashMap<String, u64>,
}

impl Set {
    /// A set without a name or a date; its coordinate says where it is.
    fn bare() -> Self {
        Self {
            layout: Layout::new("", "ldms"),
            consistent: true,
            moment: Moment::default(),
            coordinate: [None; 3],
            router: None,
            component: None,
            values: Vec::new(),
            registers: Vec::new(),
            lines: HashMap::new(),
        }
    }

    fn parse(text: &Text, line: Line<'_>) -> Result<Self, InputError> {
        let content = line.text();
        let wrong = || {
            text.error_at(line, "HOST/SET: consistent, last update: DATE [Nus]")
                .hint("the date is as `date` prints it: Wed Jan 14 15:08:00 2015")
        };
        let (name, rest) = content.split_once(": ").ok_or_else(wrong)?;
        let (state, date) = rest.split_once(UPDATED).ok_or_else(wrong)?;
        let (host, set) = name.trim().split_once('/').unwrap_or((name.trim(), ""));
        Ok(Self {
            layout: Layout::new(host, set),
            consistent: !state.contains("inconsistent"),
            moment: Moment::at_ns(date_ns(date).ok_or_else(wrong)?),
            coordinate: [None; 3],
            router: None,
            component: None,
            values: Vec::new(),
            registers: Vec::new(),
            lines: HashMap::new(),
        })
    }

    /// Takes a metric line; metrics that do not belong to a link are skipped.
    fn take(&mut self, text: &Text, line: Line<'_>) -> Result<(), InputError> {
        let Some((name, value, unit)) = metric(line) else {
            let is_number = |word: &[u8]| word.eq_ignore_ascii_case(b"u64");
            if line.words().take(2).any(is_number) {
                let expected = "a metric: TYPE VALUE NAME, or FLAG TYPE NAME VALUE";
                return Err(text.error_at(line, expected));
            }
            return Ok(());
        };
        let (name, unit) = (plain(name), lossy(unit));
        let number = || decimal(value).ok_or_else(|| text.error_in(line, value, "a whole number"));
        if let Some(dim) = gpcdr::coordinate(&name) {
            self.coordinate[dim] = u32::try_from(number()?).ok();
            return Ok(());
        }
        match &*name {
            "component_id" => self.component = decimal(value).filter(|&id| id > 0),
            "aries_rtr_id" => {
                let router = lossy(value).trim_matches('"').to_owned();
                self.router = Some(router).filter(|r| !r.is_empty());
            }
            _ => {}
        }
        match gpcdr::add(&mut self.layout, &name, &unit) {
            Ok(()) => self.values.push(Some(number()?)),
            Err(NoMetric::Other) if registers::is_name(&name) => {
                self.registers.push((name.clone(), number()?));
            }
            Err(NoMetric::Other) if ldms_csv::instance(&mut self.layout, &name).is_some() => {
                self.values.push(Some(number()?));
            }
            Err(NoMetric::Other) => return Ok(()),
            Err(NoMetric::Unit) => {
                let expected = "the unit of a percentage, (%) or (% x1e6)";
                return Err(text.error_in(line, unit.as_bytes(), expected));
            }
        }
        let first = self.lines.insert(name, line.number);
        first.map_or(Ok(()), |first| Err(super::twice(text, line, first)))
    }

    /// Ends the set, if it has counters of links. A set that was printed during an update gives a reading without
    /// values.
    fn close(mut self, left_out: &mut LeftOut) -> Option<Reading> {
        let names: Vec<&str> = self.registers.iter().map(|(n, _)| n.as_str()).collect();
        let added = registers::add(&mut self.layout, &names);
        let read = added.iter().map(|&i| Some(self.registers[i].1));
        self.values.extend(read);
        let name = || format!("{}/{}", self.layout.node, self.layout.source);
        if self.values.is_empty() {
            left_out.note("set that belongs to no link", name());
            return None;
        }
        if is_local(&self.layout.node) {
            let component = self.component.map(|id| id.to_string());
            if let Some(node) = self.router.or(component) {
                self.layout.node = node;
            }
        }
        if let [Some(x), Some(y), Some(z)] = self.coordinate {
            self.layout.coordinate = Some(vec![x, y, z]);
            if self.layout.node.is_empty() {
                self.layout.node = format!("({x},{y},{z})");
            }
        }
        let layout = Arc::new(self.layout);
        if self.consistent {
            return Some(Reading::of(layout, self.moment, &self.values));
        }
        Some(Reading::new(layout, self.moment))
    }
}

/// Reads ` Wed Jan 14 15:08:00 2015 [9395us]` as nanoseconds since 1970 in UTC. A zone offset (`-0600`) before the
/// brackets is applied.
pub(super) fn date_ns(date: &str) -> Option<u64> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let mut words = date.split_whitespace().skip(1);
    let month = words.next()?;
    let month = 1 + MONTHS.iter().position(|m| *m == month)? as i64;
    let day: i64 = number(words.next()?, 1..=31)?;
    let mut clock = words.next()?.split(':');
    let hour = number(clock.next()?, 0..=23)?;
    let minute = number(clock.next()?, 0..=59)?;
    let second = number(clock.next()?, 0..=60)?;
    let year = number(words.next()?, 1970..=2400)?;
    let (mut zone, mut micros) = (0, 0);
    for word in words {
        if let Some(us) = word.strip_prefix('[') {
            micros = number(us.strip_suffix("us]")?, 0..=999_999)?;
        } else if let Some(digits) = word.strip_prefix(['+', '-']) {
            let offset = number(digits, 0..=1400)?;
            let seconds = 3600 * (offset / 100) + 60 * (offset % 100);
            zone = if word.starts_with('-') {
                -seconds
            } else {
                seconds
            };
        }
    }
    let seconds = days(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - zone;
    u64::try_from(seconds * 1_000_000 + micros)
        .ok()?
        .checked_mul(1000)
}

fn number(text: &str, range: std::ops::RangeInclusive<i64>) -> Option<i64> {
    text.parse().ok().filter(|n| range.contains(n))
}

/// Days from 1 January 1970 to a date of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that the leap day is the last.
    let year = year - i64::from(month <= 2);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    365 * year + year / 4 - year / 100 + year / 400 + of_year - 719_468
}

#[cfg(test)]
mod tests;
