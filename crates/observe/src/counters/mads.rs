//! Ports of a whole InfiniBand fabric, from the output of `ibqueryerrors --data --counters` and `perfquery`.
//!
//! `ibqueryerrors` prints `GUID 0x… port N: [NAME == VALUE (…)]…` under a heading per device, `perfquery` a block of
//! `NAME:....VALUE` per port. Data are in words of four bytes. Extended counters have 64 bits; the older ones have 32
//! bits and saturate, as do `PortXmitWait` and the error counters. `perfquery -E` prints the causes of
//! `PortRcvErrors` (`PortRcvErrorDetails`), `-D` those of `PortXmitDiscards` (`PortXmitDiscardDetails`), which are summed where the sum itself was not printed. Port 255 of
//! `perfquery` is the sum over all ports of a switch, and port 0 its management port: neither has a link. `hopbyte-mads` adds
//! state, width and speed of each port to the rows of `ibqueryerrors`.

use super::delta::{Behaviour, Moment};
use super::reading::{Layout, Port, Reading};
use super::{clean_report, names};
use crate::fabric::infiniband::rate::Rate;
use crate::text::{Line, Text, decimal, hexadecimal, lossy};
use hopbyte_fabric::{InputError, LeftOut, Quantity};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Counters: name in the MAD and the kernel's name, in the order of a reading.
const COUNTERS: [(&str, &str); 13] = [
    ("PortXmitData", "port_xmit_data"),
    ("PortRcvData", "port_rcv_data"),
    ("PortXmitPkts", "port_xmit_packets"),
    ("PortRcvPkts", "port_rcv_packets"),
    ("PortXmitWait", "port_xmit_wait"),
    ("SymbolErrorCounter", "symbol_error"),
    ("PortRcvErrors", "port_rcv_errors"),
    ("PortXmitDiscards", "port_xmit_discards"),
    (
        "PortRcvRemotePhysicalErrors",
        "port_rcv_remote_physical_errors",
    ),
    ("PortRcvSwitchRelayErrors", "port_rcv_switch_relay_errors"),
    ("PortXmitConstraintErrors", "port_xmit_constraint_errors"),
    ("PortRcvConstraintErrors", "port_rcv_constraint_errors"),
    ("LinkDownedCounter", "link_downed"),
];
/// Causes of `PortRcvErrors`, and of `PortXmitDiscards`, 16 bits each.
const DETAILS: [&str; 10] = [
    "PortLocalPhysicalErrors",
    "PortMalformedPktErrors",
    "PortBufferOverrunErrors",
    "PortDLIDMappingErrors",
    "PortVLMappingErrors",
    "PortLoopingErrors",
    "PortInactiveDiscards",
    "PortNeighborMTUDiscards",
    "PortSwLifetimeLimitDiscards",
    "PortSwHOQLifetimeLimitDiscards",
];
/// Counters of events of a port's link or software: neither damaged nor dropped packets of the link.
const EVENTS: [&str; 5] = [
    "LinkErrorRecoveryCounter",
    "LocalLinkIntegrityErrors",
    "ExcessiveBufferOverrunErrors",
    "VL15Dropped",
    "QP1Dropped",
];
/// Reason for counters of events.
const EVENT: &str = "count of events of a port (link recovered, buffer overrun, management packet dropped), not added to the errors of its link";
/// Reason for ports that may be missing.
const CUT: &str = "end of an output of ibqueryerrors, without '## Summary': ports may be missing";
/// State of a port that `hopbyte-mads` prints: that of `PortInfo`, and codes of the active width and speed.
const STATES: [&str; 4] = [
    "PortState",
    "LinkWidthActive",
    "LinkSpeedActive",
    "LinkSpeedExtActive",
];
/// Value of `PortState` of a port that carries data.
const ACTIVE: u64 = 4;
/// Number of 64-bit counters among them.
const EXTENDED: usize = 4;
/// Last counters of `perfquery`'s blocks, of all versions.
const LAST: [&str; 6] = [
    "PortLoopingErrors",
    "PortSwHOQLifetimeLimitDiscards",
    "PortXmitWait",
    "PortMulticastRcvPkts",
    "QP1Dropped",
    "VL15Dropped",
];
/// A counter that only the extended set has.
const ONLY_EXTENDED: &str = "PortUnicastXmitPkts";

/// Bytes that a link of four lanes carries in a tick of `PortXmitWait`, by the system type at the start of an NVIDIA
/// switch's description (ibdiagnet manual, *Congestion Assessment*): 8 bytes per port from Quantum on, 32 bytes per
/// lane before.
const TICKS: [(&str, f64); 9] = [
    ("MQM8", 8.0),
    ("CS8", 8.0),
    ("MQM9", 8.0),
    ("CS9", 8.0),
    ("Q3", 8.0),
    ("MSB7", 128.0),
    ("CS7", 128.0),
    ("MSX6", 128.0),
    ("SX6", 128.0),
];

/// Bytes that a link carries in a tick, by a switch's description or part number.
pub(super) fn tick(description: &str) -> Option<f64> {
    let system = description.rsplit([';', ':']).next().unwrap_or_default();
    let known = TICKS.iter().find(|(start, _)| system.starts_with(start));
    known.map(|&(_, bytes)| bytes)
}

/// The kernel's name of a counter, by its name in the MAD in any case.
pub(super) fn kernel_name(mad: &str) -> Option<&'static str> {
    let known = COUNTERS.iter().find(|(m, _)| m.eq_ignore_ascii_case(mad));
    known.map(|&(_, kernel)| kernel)
}

/// The name in the MAD of a counter, by the kernel's.
pub(super) fn mad_name(kernel: &str) -> Option<&'static str> {
    let known = COUNTERS.iter().find(|(_, k)| *k == kernel);
    known.map(|&(mad, _)| mad)
}

/// Whether a line is the first of such a text.
pub(super) fn is_line(line: &[u8]) -> bool {
    let starts = [
        &b"Data Counters for 0x"[..],
        b"Data Counters for \"",
        b"Errors for 0x",
        b"Errors for \"",
        b"# Port counters: ",
        b"# Port extended counters: ",
        b"# PortRcvErrorDetails counters: ",
        b"# PortXmitDiscardDetails counters: ",
    ];
    starts.iter().any(|s| line.starts_with(s)) || clean_report::is_summary(line)
}

/// The kind of a report of `ibqueryerrors` and its device's name, of a heading: `Errors for 0x200070 "name"`, and
/// `Errors for "name"` of an adapter, whose ports have GUIDs of their own.
fn heading(content: &str) -> Option<(&str, &str)> {
    let (kind, device) = content.split_once(" for ")?;
    let (guid, name) = device.split_once('"').unwrap_or((device, ""));
    let is_adapter = guid.is_empty() && matches!(kind, "Errors" | "Data Counters");
    (is_adapter || guid.starts_with("0x")).then(|| (kind, name.trim_end_matches(['"', ':'])))
}

/// A device and the values read for its ports.
#[derive(Clone, Debug, Default, PartialEq)]
struct Device {
    name: String,
    ports: BTreeMap<u16, Values>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Values {
    extended: bool,
    values: [Option<u64>; COUNTERS.len()],
    details: [Option<u64>; DETAILS.len()],
    states: [Option<u64>; STATES.len()],
}

impl Values {
    fn take(&mut self, name: &str, value: u64) {
        self.extended |= name == ONLY_EXTENDED;
        if let Some(i) = COUNTERS.iter().position(|(mad, _)| *mad == name) {
            self.values[i] = Some(value);
        }
        if let Some(i) = DETAILS.iter().position(|mad| *mad == name) {
            self.details[i] = Some(value);
        }
        if let Some(i) = STATES.iter().position(|state| *state == name) {
            self.states[i] = Some(value);
        }
    }

    /// Capacity in bytes per second and lanes in service, if the state is known; a port that is not active has no lane.
    fn trained(&self) -> Option<(Option<u64>, Option<u64>)> {
        let [state, width, speed, extended] = self.states;
        if state? != ACTIVE {
            return Some((None, Some(0)));
        }
        let rate = Rate::of_codes(width?, speed?, extended.unwrap_or(0));
        let capacity = rate.map(|r| r.capacity().0 as u64);
        Some((capacity, rate.map(|r| u64::from(r.width))))
    }

    /// Whether only the causes of receive errors were read.
    fn only_details(&self) -> bool {
        self.values.iter().all(Option::is_none) && self.details.iter().any(Option::is_some)
    }
}

/// One reading of every device in a text. Blocks of `perfquery` name the device by its LID; `node`, if given, names
/// devices without a GUID.
pub(crate) fn readings(
    text: &Text,
    node: Option<&str>,
    moment: Moment,
    left_out: &mut LeftOut,
) -> Result<Vec<Reading>, InputError> {
    let devices = Scan::of(text, node, left_out)?;
    let readings = devices.iter().map(|((guid, name), device)| {
        let node = match guid {
            0 => name.clone(),
            guid => format!("0x{guid:016x}"),
        };
        let mut layout = Layout::new(node, "infiniband");
        let mut values = Vec::new();
        device.add(*guid, &mut layout, &mut values);
        Reading::of(Arc::new(layout), moment, &values)
    });
    Ok(readings.collect())
}

/// All ports of a text as one reading of one source. `ibqueryerrors` lists waits and errors only above a threshold:
/// with a threshold of zero (`above_zero`), values that it does not list are zero.
pub(crate) fn reading_of_all(
    text: &Text,
    moment: Moment,
    above_zero: bool,
) -> Result<Reading, InputError> {
    let devices = Scan::of(text, None, &mut LeftOut::default())?;
    let mut layout = Layout::new("fabric", "ibqueryerrors");
    let mut values = Vec::new();
    for ((guid, _), device) in &devices {
        let first = values.len();
        device.add(*guid, &mut layout, &mut values);
        let of_devices = values[first..].iter_mut().enumerate();
        let counted = of_devices.filter(|(i, _)| i % COUNTERS.len() >= EXTENDED);
        counted.filter(|_| above_zero).for_each(|(_, value)| {
            value.get_or_insert(0);
        });
    }
    Ok(Reading::of(Arc::new(layout), moment, &values))
}

impl Device {
    fn add(&self, guid: u64, layout: &mut Layout, values: &mut Vec<Option<u64>>) {
        let tick = tick(&self.name);
        for (&number, of_port) in &self.ports {
            let port = Port::InfiniBand { guid, port: number };
            if of_port.only_details() {
                // Those of receptions and of discards are printed apart.
                let read = DETAILS.iter().zip(of_port.details);
                for (name, value) in read.filter(|(_, value)| value.is_some()) {
                    let counter = layout.counter(&port, *name, Quantity::Errors, 1.0);
                    counter.behaviour = Behaviour::sticky(16);
                    values.push(value);
                }
                continue;
            }
            for (i, (_, kernel)) in COUNTERS.iter().enumerate() {
                let added = names::infiniband(layout, &port, kernel, false);
                let Some(counter) = added else { continue };
                if i < EXTENDED && !of_port.extended {
                    counter.behaviour = Behaviour::sticky(32);
                }
                // Extended counters of errors have 64 bits too, where a device has them.
                if of_port.values[i].is_some_and(|v| v > counter.behaviour.highest()) {
                    counter.behaviour = Behaviour::PLAIN;
                }
                if let (Quantity::CreditStallCount, Some(bytes)) = (counter.quantity, tick) {
                    counter.quantity = Quantity::CreditStallBytes;
                    counter.factor = bytes;
                }
                values.push(of_port.values[i]);
            }
            if let Some((capacity, lanes)) = of_port.trained() {
                names::both(layout, &port, "rate", Quantity::Capacity, 1.0);
                names::both(layout, &port, "width", Quantity::Lanes, 1.0);
                values.extend([capacity, capacity, lanes, lanes]);
            }
        }
    }
}

/// Sets the tick of `PortXmitWait` on the ports of switches whose part number another file gives (`ibswinfo`).
pub(crate) fn set_ticks(readings: &mut [Reading], systems: &BTreeMap<u64, String>) {
    for reading in readings {
        let ports = reading.layout.ports.clone();
        let tick = |c: &super::reading::Counter| {
            let Port::InfiniBand { guid, .. } = &ports[c.port as usize] else {
                return None;
            };
            tick(systems.get(guid)?)
        };
        let counts = |c: &super::reading::Counter| c.quantity == Quantity::CreditStallCount;
        if !reading
            .layout
            .counters
            .iter()
            .any(|c| counts(c) && tick(c).is_some())
        {
            continue;
        }
        let layout = Arc::make_mut(&mut reading.layout);
        for counter in &mut layout.counters {
            if let Some(bytes) = tick(counter).filter(|_| counts(counter)) {
                counter.quantity = Quantity::CreditStallBytes;
                counter.factor = bytes;
            }
        }
    }
}

/// Devices by GUID, or by name if the GUID is 0.
type Devices = BTreeMap<(u64, String), Device>;

/// Devices of a text while they are read.
struct Scan<'a> {
    text: &'a Text,
    devices: Devices,
    /// Kind and name of the heading.
    kind: String,
    name: String,
    /// Lines of the ports read so far, by kind of heading, device and port.
    seen: HashMap<(String, String, u16), u64>,
    /// Whether the last report of `ibqueryerrors` lacks its summary.
    open: bool,
    /// Device and port of the block.
    lid: String,
    port: Option<u16>,
    extended: bool,
    /// Name of the last counter of the block.
    entry: String,
    /// Blocks of port 255 and of port 0.
    sums: usize,
    management: usize,
    /// Counters of [`EVENTS`] above zero.
    events: Vec<String>,
}

impl<'a> Scan<'a> {
    fn of(
        text: &'a Text,
        node: Option<&str>,
        left_out: &mut LeftOut,
    ) -> Result<Devices, InputError> {
        let mut scan = Self {
            text,
            devices: BTreeMap::new(),
            kind: String::new(),
            name: String::new(),
            seen: HashMap::new(),
            open: false,
            lid: String::new(),
            port: None,
            extended: false,
            entry: String::new(),
            sums: 0,
            management: 0,
            events: Vec::new(),
        };
        for line in text.lines() {
            scan.line(line, node)?;
        }
        scan.end()?;
        if scan.open {
            left_out.note(CUT, text.file());
        }
        for event in &scan.events {
            left_out.note(EVENT, event.as_str());
        }
        if scan.devices.is_empty() && clean_report::Clean::of(text).is_some() {
            return Ok(scan.devices);
        }
        if scan.devices.is_empty() {
            if scan.management > 0 && scan.sums == 0 {
                return Err(text
                    .error("the management port of a switch (port 0)", "ports with a link")
                    .hint("perfquery -l LID prints every port, and ibqueryerrors --data --counters those of the whole fabric"));
            }
            if scan.sums > 0 {
                return Err(text
                    .error("sums over the ports of switches (port 255)", "ports one by one")
                    .hint("perfquery -l LID prints every port, and ibqueryerrors --data --counters those of the whole fabric"));
            }
            return Err(text
                .error("no port", "GUID 0x… port N: [NAME == VALUE …]")
                .hint("print all ports: ibqueryerrors --data --counters"));
        }
        for (guid, name) in scan
            .devices
            .keys()
            .filter(|_| scan.sums + scan.management > 0)
            .take(1)
        {
            let device = if *guid == 0 {
                name.clone()
            } else {
                format!("0x{guid:016x}")
            };
            for _ in 0..scan.sums {
                left_out.note("sum over the ports of a switch (port 255)", device.clone());
            }
            for _ in 0..scan.management {
                left_out.note("management port of a switch (port 0)", device.clone());
            }
        }
        Ok(scan.devices)
    }

    fn line(&mut self, line: Line<'_>, node: Option<&str>) -> Result<(), InputError> {
        let content = lossy(line.trimmed());
        let block = content
            .strip_prefix("# Port ")
            .or_else(|| content.strip_prefix("# PortRcvErrorDetails "))
            .or_else(|| content.strip_prefix("# PortXmitDiscardDetails "));
        if let Some(block) = block.filter(|b| b.contains("counters: ")) {
            self.extended = block.starts_with("extended");
            let kind = content.split_once(':').map_or("", |(kind, _)| kind);
            kind.clone_into(&mut self.kind);
            let lid = block
                .split_once(": Lid ")
                .and_then(|(_, l)| l.split(' ').next());
            let lid = lid.filter(|l| l.bytes().all(|b| b.is_ascii_digit()));
            self.lid = lid.map(|l| format!("lid:{l}")).unwrap_or_default();
            self.port = None;
        } else if content.is_empty() || content.starts_with(['#', '-']) {
            self.port = None;
            self.open &= !content.starts_with("## Summary");
        } else if let Some((kind, name)) = heading(&content) {
            kind.clone_into(&mut self.kind);
            name.clone_into(&mut self.name);
            self.open = true;
        } else if let Some(row) = content.strip_prefix("GUID 0x") {
            self.row(line, row)?;
        } else if let Some((name, value)) = content.split_once(':') {
            self.entry(line, name, value.trim_start_matches('.').trim(), node)?;
        }
        Ok(())
    }

    /// Refuses a block of `perfquery` that ends with the text before its last counter: its errors are a sum, and only
    /// the later counters tell the width of the earlier ones.
    fn end(&self) -> Result<(), InputError> {
        if self.port.is_none() || LAST.contains(&self.entry.as_str()) {
            return Ok(());
        }
        let found = format!("{} as the last counter of a port", self.entry);
        let expected = format!("one of {}", LAST.join(", "));
        let error = self.text.error(found, expected);
        Err(error.hint("the output was cut, or is being written: read it again"))
    }

    /// Refuses a port that was read before: the file has several readings, of which none is later than another.
    fn once(&mut self, line: Line<'_>, device: String, port: u16) -> Result<(), InputError> {
        let port = (self.kind.clone(), device, port);
        let Some(first) = self.seen.insert(port, line.number) else {
            return Ok(());
        };
        let expected = format!("every port once, but this one is on line {first} too");
        let error = self.text.error_at(line, expected);
        Err(error.hint(
            "give a file for each moment, the earliest first, and for each device of perfquery",
        ))
    }

    /// `200070 port 1: [PortXmitData == 1872 (7.312KB)] …`; sums over all ports are skipped.
    fn row(&mut self, line: Line<'_>, row: &str) -> Result<(), InputError> {
        let wrong = || {
            self.text
                .error_at(line, "GUID 0x… port N: [NAME == VALUE …]")
        };
        let (guid, rest) = row.split_once(" port ").ok_or_else(wrong)?;
        let guid = hexadecimal(guid.as_bytes()).filter(|&g| g != 0);
        let guid = guid.ok_or_else(wrong)?;
        let (port, counters) = rest.split_once(':').ok_or_else(wrong)?;
        if port == "ALL" || port == "all" {
            return Ok(());
        }
        let port: u16 = port.trim().parse().map_err(|_| wrong())?;
        let mut values = Values::default();
        for counter in counters.split('[').skip(1) {
            let (name, value) = counter.split_once(" == ").ok_or_else(wrong)?;
            let digits = value.split([' ', ']']).next().unwrap_or_default();
            let (name, value) = (name.trim(), decimal(digits.as_bytes()).ok_or_else(wrong)?);
            values.take(name, value);
            if value > 0 && EVENTS.contains(&name) {
                self.events.push(format!("0x{guid:016x}[{port}] {name}"));
            }
        }
        self.once(line, format!("0x{guid:016x}"), port)?;
        let device = self.devices.entry((guid, String::new())).or_default();
        device.name.clone_from(&self.name);
        let known = device.ports.entry(port).or_default();
        known.extended |= values.extended;
        for (old, new) in known.values.iter_mut().zip(values.values) {
            *old = new.or(*old);
        }
        for (old, new) in known.states.iter_mut().zip(values.states) {
            *old = new.or(*old);
        }
        Ok(())
    }

    /// `PortXmitData:....................31968`, for the port of the current block.
    fn entry(
        &mut self,
        line: Line<'_>,
        name: &str,
        value: &str,
        node: Option<&str>,
    ) -> Result<(), InputError> {
        name.clone_into(&mut self.entry);
        if name == "PortSelect" {
            let port = decimal(value.as_bytes()).and_then(|p| u16::try_from(p).ok());
            let wrong = || self.text.error_in(line, value.as_bytes(), "a port number");
            let port = port.ok_or_else(wrong)?;
            self.sums += usize::from(port == 255);
            self.management += usize::from(port == 0);
            self.port = Some(port).filter(|p| !matches!(p, 0 | 255));
            let device = node.unwrap_or(&self.lid).to_owned();
            return match self.port {
                Some(port) => self.once(line, device, port),
                None => Ok(()),
            };
        }
        if let Some(port) = self.port.filter(|_| EVENTS.contains(&name))
            && decimal(value.as_bytes()).is_some_and(|v| v > 0)
        {
            let device = node.unwrap_or(&self.lid);
            self.events.push(format!("{device}[{port}] {name}"));
        }
        let known = COUNTERS.iter().any(|(mad, _)| *mad == name) || DETAILS.contains(&name);
        let (Some(port), true) = (self.port, known) else {
            return Ok(());
        };
        let own = Some(self.lid.as_str()).filter(|l| !l.is_empty());
        let Some(node) = node.or(own) else {
            return Err(self
                .text
                .error("ports of one device", "the device's name beside them")
                .hint("print all ports with their GUIDs: ibqueryerrors --data --counters"));
        };
        let number = decimal(value.as_bytes());
        let number = number.ok_or_else(|| self.text.error_in(line, value.as_bytes(), "a count"))?;
        let device = self.devices.entry((0, node.to_owned())).or_default();
        let values = device.ports.entry(port).or_default();
        values.extended |= self.extended;
        values.take(name, number);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
