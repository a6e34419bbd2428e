//! Devices of an InfraGraph document: their parts, and the joins between them.

use crate::fabric::names::name;
use crate::fabric::yaml::Yaml;
use crate::text::Text;
use hopbyte_fabric::InputError;
use std::collections::HashMap;

/// Maximum number of parts of one device.
const MAX_PARTS: usize = 1 << 14;

/// Maximum number of joins in one device.
const MAX_JOINS: usize = 1 << 20;

/// Depth of devices within devices.
const DEPTH: usize = 8;

/// The kind of a part, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Accelerator,
    Adapter,
    Other,
}

/// A part of a device: `cx7.3`, or `cx5.0.port.1` of a device within it.
#[derive(Clone, Debug)]
pub struct Part {
    pub name: String,
    pub kind: Kind,
}

/// A join of two parts.
#[derive(Clone, Debug)]
pub struct Join {
    pub ends: (usize, usize),
    /// Name of the link.
    pub link: String,
    /// Rate each way in GB/s, if the document has one.
    pub rate: Option<f64>,
}

/// A device with the parts of all devices within it.
#[derive(Clone, Debug, Default)]
pub struct Device {
    pub parts: Vec<Part>,
    pub joins: Vec<Join>,
    at: HashMap<String, usize>,
    /// Number and, of a device within, name of each component.
    counts: HashMap<String, (usize, Option<Box<Device>>)>,
}

/// All devices of a document.
pub struct Devices<'a> {
    text: &'a Text,
    listed: HashMap<&'a str, &'a Yaml>,
}

impl<'a> Devices<'a> {
    pub fn of(text: &'a Text, document: &'a Yaml) -> Self {
        let list = document.get("devices").map_or(&[][..], Yaml::items);
        let named = list.iter().filter_map(|d| Some((d.word("name")?, d)));
        Self {
            text,
            listed: named.collect(),
        }
    }

    /// A device with its parts.
    pub fn device(&self, wanted: &str) -> Result<Device, InputError> {
        self.within(wanted, DEPTH)
    }

    fn within(&self, wanted: &str, depth: usize) -> Result<Device, InputError> {
        let text = self.text;
        let listed = self.listed.get(wanted).ok_or_else(|| {
            let found = format!("device '{wanted}'");
            text.error(found, "a device of the list 'devices'")
        })?;
        let depth = depth.checked_sub(1);
        let depth =
            depth.ok_or_else(|| listed.wrong(text, "devices that do not hold themselves"))?;
        let mut device = Device::default();
        for component in listed.get("components").map_or(&[][..], Yaml::items) {
            let own = component.word("name");
            let own = own.ok_or_else(|| component.wrong(text, "a component with a name"))?;
            let count = component.word("count").unwrap_or("1").parse::<usize>().ok();
            let count = count.filter(|c| *c <= MAX_PARTS);
            let expected = format!("a count of at most {MAX_PARTS}");
            let count = count.ok_or_else(|| component.wrong(text, expected))?;
            let inner = match component.word("choice") {
                Some("device") => Some(Box::new(self.within(own, depth)?)),
                _ => None,
            };
            for number in 0..count {
                device.add(own, number, (component, inner.as_deref()));
                if device.parts.len() > MAX_PARTS || device.joins.len() > MAX_JOINS {
                    let expected = format!("at most {MAX_PARTS} parts and {MAX_JOINS} joins");
                    return Err(listed.wrong(text, expected));
                }
            }
            device.counts.insert(own.to_owned(), (count, inner));
        }
        let rates = rates(text, listed)?;
        for edge in listed.get("edges").map_or(&[][..], Yaml::items) {
            let link = edge.word("link").unwrap_or_default().to_owned();
            let rate = rates.get(&link).copied();
            let found = pairs(text, edge, |end| device.find(&path(end)))?;
            for ends in found {
                device.joins.push(Join {
                    ends,
                    link: link.clone(),
                    rate,
                });
            }
            if device.joins.len() > MAX_JOINS {
                return Err(listed.wrong(text, format!("at most {MAX_JOINS} joins")));
            }
        }
        Ok(device)
    }
}

impl Device {
    /// Adds a component, or all parts of a device.
    fn add(&mut self, own: &str, number: usize, (component, inner): (&Yaml, Option<&Self>)) {
        let first = self.parts.len();
        let stem = format!("{}.{number}", name(own.as_bytes()));
        let Some(inner) = inner else {
            let custom = component.get("custom").and_then(|c| c.word("type"));
            let kind = match component.word("choice") {
                Some("xpu" | "npu" | "gpu") => Kind::Accelerator,
                Some("nic") => Kind::Adapter,
                // A port for administration carries no job.
                _ if custom.is_some_and(|t| t.contains("nic") && !t.contains("mgmt")) => {
                    Kind::Adapter
                }
                _ => Kind::Other,
            };
            self.at.insert(stem.clone(), first);
            self.parts.push(Part { name: stem, kind });
            return;
        };
        for part in &inner.parts {
            let name = format!("{stem}.{}", part.name);
            self.at.insert(name.clone(), self.parts.len());
            let kind = part.kind;
            self.parts.push(Part { name, kind });
        }
        let moved = |&(a, b): &(usize, usize)| (a + first, b + first);
        self.joins.extend(inner.joins.iter().map(|join| Join {
            ends: moved(&join.ends),
            ..join.clone()
        }));
    }

    /// The parts of a path with Python's slices: `xpu`, `nic[0]`, `cx5[0:2].port[1]`.
    pub fn find(&self, path: &str) -> Result<Vec<usize>, String> {
        let mut found = vec![String::new()];
        let mut within = self;
        let mut inside = None;
        for element in path.split('.') {
            let (own, slice) = element.split_once('[').unwrap_or((element, ":]"));
            if let Some(device) = inside.take() {
                within = device;
            }
            let known = within.counts.get(own);
            let (count, inner) = known.ok_or_else(|| format!("a component, not '{own}'"))?;
            let numbers = slice.strip_suffix(']').and_then(|s| indices(s, *count));
            let expected = || format!("a slice of {count} parts, not '{element}'");
            let numbers = numbers.ok_or_else(expected)?;
            inside = inner.as_deref();
            let own = name(own.as_bytes());
            let next = found.iter().flat_map(|stem| {
                let dot = if stem.is_empty() { "" } else { "." };
                numbers.iter().map(move |n| (stem, dot, n))
            });
            found = next
                .map(|(stem, dot, n)| format!("{stem}{dot}{own}.{n}"))
                .collect();
            if found.len() > MAX_PARTS {
                return Err(format!("at most {MAX_PARTS} parts"));
            }
        }
        let part = |name: &String| {
            let at = self.at.get(name).copied();
            at.ok_or_else(|| format!("a part, not the whole device '{name}'"))
        };
        found.iter().map(part).collect()
    }
}

/// Positions of a slice of Python's: `3`, `-1`, `0:4`, `::2`.
pub fn indices(slice: &str, count: usize) -> Option<Vec<usize>> {
    let fields: Vec<&str> = slice.split(':').map(str::trim).collect();
    let number = |text: &str| text.parse::<i64>().ok();
    let length = i64::try_from(count).ok()?;
    if let [single] = fields[..] {
        let at = number(single)?;
        let at = if at < 0 { at + length } else { at };
        return (0..length).contains(&at).then(|| vec![at as usize]);
    }
    let end = |text: &str, default: i64| match text {
        "" => Some(default),
        text => {
            let at = number(text)?;
            Some((if at < 0 { at + length } else { at }).clamp(0, length))
        }
    };
    let (from, to, step) = match fields[..] {
        [from, to] => (from, to, ""),
        [from, to, step] => (from, to, step),
        _ => return None,
    };
    let step = if step.is_empty() { 1 } else { number(step)? };
    if step < 1 {
        return None;
    }
    let all = end(from, 0)?..end(to, length)?;
    Some(all.step_by(step as usize).map(|at| at as usize).collect())
}

/// The path of an end to a part, through the device that it is within.
pub fn path(end: &Yaml) -> String {
    let part = end.word("component").unwrap_or_default();
    match end.word("device") {
        Some(within) => format!("{within}.{part}"),
        None => part.to_owned(),
    }
}

/// Pairs of an edge's ends by its scheme, without an end with itself; `find` expands an end.
pub fn pairs<T: Copy + PartialEq>(
    text: &Text,
    edge: &Yaml,
    find: impl Fn(&Yaml) -> Result<Vec<T>, String>,
) -> Result<Vec<(T, T)>, InputError> {
    let expanded = |end: &str| {
        let end = edge.get(end);
        let end = end.ok_or_else(|| edge.wrong(text, "an edge with ep1 and ep2"))?;
        find(end).map_err(|e| end.wrong(text, e))
    };
    let (ones, others) = (expanded("ep1")?, expanded("ep2")?);
    let all: Vec<(T, T)> = match edge.word("scheme") {
        Some("one2one") | None => ones.iter().copied().zip(others.iter().copied()).collect(),
        Some("many2many") => {
            if ones.len().saturating_mul(others.len()) > MAX_JOINS {
                return Err(edge.wrong(text, format!("at most {MAX_JOINS} joins")));
            }
            let with = |&a: &T| others.iter().map(move |&b| (a, b));
            ones.iter().flat_map(with).collect()
        }
        Some(_) => return Err(edge.wrong(text, "the scheme one2one or many2many")),
    };
    Ok(all.into_iter().filter(|(a, b)| a != b).collect())
}

/// Rates of the links of a device or of the document, in GB/s each way; links without one are absent.
pub fn rates(text: &Text, of: &Yaml) -> Result<HashMap<String, f64>, InputError> {
    let mut rates = HashMap::new();
    for link in of.get("links").map_or(&[][..], Yaml::items) {
        let bandwidth = link.get("physical").and_then(|p| p.get("bandwidth"));
        let (Some(own), Some(bandwidth)) = (link.word("name"), bandwidth) else {
            continue;
        };
        let units = [
            ("gigabits_per_second", 0.125),
            ("gigabytes_per_second", 1.0),
        ];
        let found = units
            .iter()
            .find_map(|(unit, each)| Some((bandwidth.word(unit)?, each)));
        let Some((number, each)) = found else {
            continue; // transfers: their width is unknown
        };
        let rate = number.parse::<f64>().ok().map(|r| r * each);
        let rate = rate.filter(|r| (1e-6..1e9).contains(r));
        let rate = rate.ok_or_else(|| bandwidth.wrong(text, "a rate above 0"))?;
        rates.insert(own.to_owned(), rate);
    }
    Ok(rates)
}
