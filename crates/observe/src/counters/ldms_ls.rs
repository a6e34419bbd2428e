//! `ldms_ls -l`: metric sets of Cray's Gemini samplers, as people paste them.
//!
//! A set begins with `HOST/SET: consistent, last update: DATE [Nus]`, followed by one line a metric:
//! `U64 VALUE NAME [(UNIT)]` (older) or `D u64 NAME VALUE` (LDMS 4). The date has no time zone and is
//! taken as UTC. Percentages that LDMS computed itself are kept as it printed them, scaled by the unit
//! beside the name: `(%)` or `(% x1e6)`.

use super::delta::Moment;
use super::gemini::{Metric, Record, Routers, router_of};
use crate::ObserveError;
use crate::text::{Line, Text, decimal, lossy};
use hopbyte_fabric::{Direction, Fabric, InputError, Snapshot};

/// Words of a set's first line.
const UPDATED: &str = "last update:";

/// Whether a line is the first of a set.
pub(super) fn is_header(line: &[u8]) -> bool {
    let line = lossy(line);
    line.contains(UPDATED) && line.contains("consistent")
}

/// Reads all sets of a file.
pub(super) fn read(text: &Text, fabric: &Fabric) -> Result<Vec<Snapshot>, ObserveError> {
    let mut routers = Routers::default();
    let mut set: Option<Set> = None;
    for line in text.lines() {
        let content = line.trimmed();
        if content.is_empty() || content.starts_with(b"#") {
            continue;
        }
        if is_header(content) {
            let next = Set::parse(text, line)?;
            set.replace(next)
                .into_iter()
                .for_each(|s| s.close(fabric, &mut routers));
            continue;
        }
        let Some(set) = &mut set else {
            let expected = "the first line of a set (HOST/SET: consistent, last update: …)";
            return Err(text.error_at(line, expected).into());
        };
        set.take(text, line)?;
    }
    set.into_iter().for_each(|s| s.close(fabric, &mut routers));
    Ok(routers.series(fabric, text.file()).map_err(|e| {
        text.error(e.found, e.expected)
            .hint("is this the right fabric?")
    })?)
}

/// A set while it is read.
struct Set {
    name: String,
    consistent: bool,
    coordinate: [Option<u64>; 3],
    record: Record,
}

impl Set {
    fn parse(text: &Text, line: Line<'_>) -> Result<Self, InputError> {
        let content = line.text();
        let wrong = || {
            text.error_at(line, "HOST/SET: consistent, last update: DATE [Nus]")
                .hint("the date is as `date` prints it: Wed Jan 14 15:08:00 2015")
        };
        let (name, rest) = content.split_once(": ").ok_or_else(wrong)?;
        let (state, date) = rest.split_once(UPDATED).ok_or_else(wrong)?;
        let time_ns = date_ns(date).ok_or_else(wrong)?;
        Ok(Self {
            name: name.trim().to_owned(),
            consistent: !state.contains("inconsistent"),
            coordinate: [None; 3],
            record: Record {
                moment: Moment::at_ns(time_ns),
                ..Record::default()
            },
        })
    }

    /// Takes a metric line; metrics that are none of Gemini's links are passed over.
    fn take(&mut self, text: &Text, line: Line<'_>) -> Result<(), InputError> {
        let wrong = || text.error_at(line, "a metric: TYPE VALUE NAME, or FLAG TYPE NAME VALUE");
        let mut words = line.words();
        let first = words.next().ok_or_else(wrong)?;
        let flagged = matches!(first, b"M" | b"D");
        if flagged {
            words.next().ok_or_else(wrong)?;
        }
        let (one, two) = (
            words.next().ok_or_else(wrong)?,
            words.next().ok_or_else(wrong)?,
        );
        let (value, name) = if flagged { (two, one) } else { (one, two) };
        let unit = lossy(words.rest());
        let name = lossy(name);
        let (name, unit) = match name.split_once("_(") {
            Some((name, unit)) => (name, unit),
            None => (&*name, &*unit),
        };
        let Some(place) = Place::of(name) else {
            return Ok(());
        };
        let value = decimal(value).ok_or_else(|| text.error_in(line, value, "a whole number"))?;
        match place {
            Place::Coordinate(dim) => self.coordinate[dim] = Some(value),
            Place::Count(direction, metric) => {
                self.record.values[direction.index()][metric as usize] = Some(value);
            }
            Place::Printed(direction, percentage) => {
                let ratio = match unit.trim_matches(['(', ')']).trim() {
                    "%" => value as f64 / 100.0,
                    "% x1e6" | "%_x1e6" => value as f64 / 1e8,
                    other => {
                        let expected = "the unit of a percentage, (%) or (% x1e6)";
                        return Err(text.error_in(line, other.as_bytes(), expected));
                    }
                };
                let printed = &mut self.record.printed[direction.index()];
                *match percentage {
                    Percentage::Used => &mut printed.used,
                    Percentage::InputStall => &mut printed.input_stall,
                    Percentage::CreditStall => &mut printed.credit_stall,
                } = Some(ratio);
            }
        }
        Ok(())
    }

    /// Ends the set: hands on what it says of its router, if it says anything consistent.
    fn close(self, fabric: &Fabric, routers: &mut Routers) {
        let says_something = self.record.values.iter().flatten().any(Option::is_some);
        if !says_something {
            return;
        }
        let host = self.name.split('/').next().unwrap_or_default();
        let router = router_of(fabric, self.coordinate, host);
        let record = if self.consistent {
            self.record
        } else {
            Record {
                moment: self.record.moment,
                ..Record::default()
            }
        };
        routers.add(router, &self.name, record);
    }
}

/// What a metric's name stands for.
enum Place {
    Coordinate(usize),
    Count(Direction, Metric),
    Printed(Direction, Percentage),
}

enum Percentage {
    Used,
    InputStall,
    CreditStall,
}

impl Place {
    fn of(name: &str) -> Option<Self> {
        if let Some(dim) = name.strip_prefix("nettopo_mesh_coord_") {
            return ["X", "Y", "Z"]
                .iter()
                .position(|d| *d == dim)
                .map(Self::Coordinate);
        }
        let (direction, metric) = name.split_at_checked(2)?;
        let direction = Direction::parse(direction).filter(|d| d.dim < 3)?;
        let metric = metric.strip_prefix('_')?;
        if let Some(metric) = Metric::parse(metric) {
            return Some(Self::Count(direction, metric));
        }
        let percentage = match metric.strip_prefix("SAMPLE_GEMINI_LINK_")? {
            "USED_BW" => Percentage::Used,
            "INQ_STALL" => Percentage::InputStall,
            "CREDIT_STALL" => Percentage::CreditStall,
            _ => return None,
        };
        Some(Self::Printed(direction, percentage))
    }
}

/// Reads ` Wed Jan 14 15:08:00 2015 [9395us]` as nanoseconds since 1970, taken as UTC. A zone offset
/// (`-0600`) before the brackets is heeded.
fn date_ns(date: &str) -> Option<u64> {
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
