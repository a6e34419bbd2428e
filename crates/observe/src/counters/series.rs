//! Readings of many devices in time order: totals, or increases from reading to reading.

use super::join::{Joint, Mismatch, PortMap, drop_dead_links};
use super::rates;
use super::reading::{Counter, Layout, Reading};
use hopbyte_fabric::{Fabric, Increase, LeftOut, LinkCounts, LinkState, Totals};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Deref;

const APART: &str = "time of a node whose last reading is far from those of the others (a clock that is wrong or was set; its rates may be wrong too)";

/// Reason why values of a port are left out: an increase has only the counters of both readings.
pub const CHANGED: &str = "port whose counters changed between two readings";

/// Counter values of a fabric's links.
#[derive(Clone, Debug, PartialEq)]
pub enum Counted {
    /// Since the counters began.
    Totals(Totals),
    /// Over an interval.
    Increase(Increase),
}

impl Deref for Counted {
    type Target = LinkCounts;

    fn deref(&self) -> &LinkCounts {
        match self {
            Self::Totals(totals) => totals,
            Self::Increase(increase) => increase,
        }
    }
}

impl Counted {
    /// Link state computed from the counters.
    pub fn state(&self, fabric: &Fabric) -> LinkState {
        match self {
            Self::Totals(totals) => LinkState::of_totals(fabric, totals),
            Self::Increase(increase) => LinkState::of_increase(fabric, increase),
        }
    }

    /// The interval that an increase covers, if known.
    pub fn window_seconds(&self) -> Option<f64> {
        match self {
            Self::Totals(_) => None,
            Self::Increase(increase) => increase.window_seconds,
        }
    }

    pub(super) fn counts_mut(&mut self) -> &mut LinkCounts {
        match self {
            Self::Totals(totals) => totals,
            Self::Increase(increase) => increase,
        }
    }
}

/// Counter values per interval.
#[derive(Clone, Debug, PartialEq)]
pub enum Series {
    /// No device was read more than once.
    Totals(Totals),
    /// One for every interval.
    Increases(Vec<Increase>),
}

impl Series {
    /// All records in order.
    pub fn all(self) -> Vec<Counted> {
        match self {
            Self::Totals(totals) => vec![Counted::Totals(totals)],
            Self::Increases(all) => all.into_iter().map(Counted::Increase).collect(),
        }
    }

    /// All values, for code that treats totals and increases alike.
    pub(super) fn counts_mut(&mut self) -> Vec<&mut LinkCounts> {
        match self {
            Self::Totals(totals) => vec![totals],
            Self::Increases(all) => all.iter_mut().map(|i| &mut **i).collect(),
        }
    }
}

/// Readings as a series: totals if every device has one reading, else increases from each reading to the device's
/// next. A second reading of a device begins the next interval; a device without a reading in an interval has a
/// longer interval of its own. Readings and devices that are in no increase are counted in [`LinkCounts::left_out`].
pub fn series(
    fabric: &Fabric,
    source: &str,
    readings: Vec<Reading>,
    map: &PortMap,
) -> Result<Series, Mismatch> {
    let mut devices = Devices::default();
    let mut increases = Vec::new();
    let mut open = HashSet::new();
    let mut rates_left_out = LeftOut::default();
    let readings = rates::totals(readings, &mut rates_left_out);
    for reading in in_time(readings) {
        let id = devices.id(&reading);
        if open.contains(&id) {
            increases.extend(devices.increase(fabric, source, map)?);
            open.clear();
        }
        if devices.take(reading) {
            open.insert(id);
        }
    }
    increases.extend(devices.increase(fabric, source, map)?);
    let mut left_out = devices.left_out(!increases.is_empty());
    let agreed = devices.agreed_time(&mut left_out);
    let Some(last) = increases.last_mut() else {
        let mut totals = devices.totals(fabric, source, map)?;
        totals.left_out.extend(&rates_left_out);
        return Ok(Series::Totals(totals));
    };
    last.left_out.extend(&rates_left_out);
    last.left_out.extend(&left_out);
    last.time_seconds = agreed.or(last.time_seconds);
    Ok(Series::Increases(increases))
}

pub(super) fn in_time(mut readings: Vec<Reading>) -> Vec<Reading> {
    // With a monotonic clock, a wall clock that was set back does not change the order.
    if readings.iter().all(|r| r.moment.steady_ns.is_some()) {
        readings.sort_by_key(|r| r.moment.steady_ns);
    } else {
        readings.sort_by_key(|r| r.moment.time_ns);
    }
    readings
}

/// Position of a source: node by name, source by name.
type Id = (String, String);

/// The latest readings of all devices.
#[derive(Debug, Default)]
pub(super) struct Devices {
    nodes: BTreeMap<String, Node>,
}

/// The sources of a node.
#[derive(Debug, Default)]
struct Node {
    sources: BTreeMap<String, Device>,
    /// The join of the current sources.
    joint: Option<Joint>,
    /// Ports left out by the joins so far, reported once.
    said: LeftOut,
}

/// A source with consecutive readings.
#[derive(Debug)]
struct Device {
    /// First reading with a value, with the current counters.
    first: Option<Reading>,
    before: Option<Reading>,
    last: Reading,
    /// Whether `before` and `last` are new since the last increase.
    fresh: bool,
    /// Readings that had no value.
    empty: usize,
    /// Wall-clock time of the first reading.
    began_ns: Option<u64>,
    /// Ports whose counters changed from one reading to the next: only the counters in both are compared.
    changed: Vec<String>,
    /// Whether it was part of an increase.
    compared: bool,
}

impl Devices {
    fn id(&self, reading: &Reading) -> Id {
        (reading.layout.node.clone(), reading.layout.source.clone())
    }

    /// Takes a reading; returns whether there is an earlier one to compare with.
    pub(super) fn take(&mut self, reading: Reading) -> bool {
        let layout = &reading.layout;
        if !self.nodes.contains_key(&layout.node) {
            self.nodes.insert(layout.node.clone(), Node::default());
        }
        let Some(node) = self.nodes.get_mut(&layout.node) else {
            return false;
        };
        match node.sources.get_mut(&layout.source) {
            Some(device) => {
                let (again, rejoin) = device.take(reading);
                if rejoin {
                    node.joint = None;
                }
                again
            }
            None => {
                node.joint = None;
                let name = layout.source.clone();
                node.sources.insert(name, Device::new(reading));
                false
            }
        }
    }

    /// The increase of all devices that have a new one; `None` if none has.
    pub(super) fn increase(
        &mut self,
        fabric: &Fabric,
        source: &str,
        map: &PortMap,
    ) -> Result<Option<Increase>, Mismatch> {
        let mut increase = Increase::new(fabric, source);
        let mut any = false;
        for node in self.nodes.values_mut() {
            if !node.sources.values().any(|d| d.fresh) {
                continue;
            }
            node.join(fabric, map)?;
            let Some(joint) = &node.joint else { continue };
            let known = node.sources.values_mut().filter(|d| d.first.is_some());
            let pairs: Vec<Option<(&Reading, &Reading)>> = known
                .map(|device| {
                    let fresh = std::mem::take(&mut device.fresh);
                    device.compared |= fresh;
                    let before = device.before.as_ref().filter(|_| fresh)?;
                    Some((before, &device.last))
                })
                .collect();
            joint.file_increase(&pairs, &mut increase);
            any = true;
        }
        drop_dead_links(fabric, &mut increase);
        Ok(any.then_some(increase))
    }

    /// The latest reading of every device.
    pub(super) fn totals(
        &mut self,
        fabric: &Fabric,
        source: &str,
        map: &PortMap,
    ) -> Result<Totals, Mismatch> {
        let mut totals = Totals::new(fabric, source);
        for node in self.nodes.values_mut() {
            node.join(fabric, map)?;
            let Some(joint) = &node.joint else { continue };
            let known = node.sources.values().filter(|d| d.first.is_some());
            let readings: Vec<Option<&Reading>> = known.map(|d| Some(&d.last)).collect();
            joint.file_totals(&readings, &mut totals);
        }
        totals.left_out.extend(&self.left_out(false));
        drop_dead_links(fabric, &mut totals);
        Ok(totals)
    }

    /// Time of the latest reading in seconds, without those of devices whose last one is further from the others' than
    /// most devices were read for: their clocks are wrong or were set.
    fn agreed_time(&self, left_out: &mut LeftOut) -> Option<f64> {
        let sources = self
            .nodes
            .iter()
            .flat_map(|(node, n)| n.sources.values().map(move |d| (node, d)));
        let times: Vec<(&String, u64, u64)> = sources
            .filter_map(|(node, d)| Some((node, d.began_ns?, d.last.moment.time_ns?)))
            .collect();
        let median = |of: fn(&(&String, u64, u64)) -> u64| {
            let mut all: Vec<u64> = times.iter().map(of).collect();
            let middle = all.len().checked_sub(1)? / 2;
            Some(*all.select_nth_unstable(middle).1)
        };
        let (first, last) = (median(|t| t.1)?, median(|t| t.2)?);
        let span = last.saturating_sub(first);
        let is_apart = |time: u64| span > 0 && time.abs_diff(last) > span;
        let apart: BTreeSet<&String> = times
            .iter()
            .filter(|t| is_apart(t.2))
            .map(|t| t.0)
            .collect();
        left_out.note_all(APART, apart.into_iter().cloned());
        let together = times.iter().map(|t| t.2).filter(|&time| !is_apart(time));
        together.max().map(|ns| ns as f64 / 1e9)
    }

    /// Ports, readings and devices that are not used; with `increases` also devices with a single reading.
    pub(super) fn left_out(&self, increases: bool) -> LeftOut {
        let mut all = LeftOut::default();
        for (name, node) in &self.nodes {
            all.extend(&node.said);
            for (source, device) in &node.sources {
                let name = format!("{name} {source}");
                for _ in 0..device.empty {
                    all.note("reading without a value", name.as_str());
                }
                for port in &device.changed {
                    let name = format!("{name} {port}");
                    all.note(CHANGED, name);
                }
                if increases && !device.compared && device.first.is_some() {
                    all.note("device with a single reading", name.as_str());
                }
            }
        }
        all
    }
}

impl Node {
    /// Joins the sources that were read but are not joined yet.
    fn join(&mut self, fabric: &Fabric, map: &PortMap) -> Result<(), Mismatch> {
        if self.joint.is_some() {
            return Ok(());
        }
        let firsts = self.sources.values().filter_map(|d| d.first.as_ref());
        let firsts: Vec<&Reading> = firsts.collect();
        let joint = Joint::new(fabric, &firsts, map)?;
        self.said = joint.left_out.clone();
        self.joint = Some(joint);
        Ok(())
    }
}

impl Device {
    fn new(reading: Reading) -> Self {
        let is_empty = reading.values.known() == 0;
        Self {
            first: (!is_empty).then(|| reading.clone()),
            before: None,
            began_ns: reading.moment.time_ns,
            last: reading,
            fresh: false,
            empty: usize::from(is_empty),
            changed: Vec::new(),
            compared: false,
        }
    }

    /// Whether there is a reading to compare with, and whether the join must be rebuilt.
    fn take(&mut self, reading: Reading) -> (bool, bool) {
        let is_empty = reading.values.known() == 0;
        self.empty += usize::from(is_empty);
        let same = self.last.layout == reading.layout;
        if self.first.is_none() || !same {
            let is_moved = self.last.layout.coordinate != reading.layout.coordinate;
            if !same {
                let changed = changed_ports(&self.last.layout, &reading.layout);
                self.changed.extend(changed);
            }
            let known = self.first.is_some() && !is_empty && !is_moved;
            self.before = known.then(|| self.last.laid_out(&reading.layout));
            (self.before).take_if(|before| before.values.known() == 0);
            self.first = (!is_empty).then(|| reading.clone());
            self.last = reading;
            // Without a counter in common the increase is not known; the later totals are none.
            self.fresh = known;
            return (self.fresh, true);
        }
        self.before = Some(std::mem::replace(&mut self.last, reading));
        self.fresh = true;
        (true, false)
    }
}

/// Names of the ports whose counters are not the same in both layouts.
fn changed_ports(a: &Layout, b: &Layout) -> BTreeSet<String> {
    let counters = |layout: &Layout| -> BTreeSet<(String, String)> {
        let name = |c: &Counter| (layout.ports[c.port as usize].to_string(), c.name.clone());
        layout.counters.iter().map(name).collect()
    };
    let changed = counters(a)
        .symmetric_difference(&counters(b))
        .cloned()
        .collect::<Vec<_>>();
    changed.into_iter().map(|(port, _)| port).collect()
}
