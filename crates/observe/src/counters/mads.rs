//! Ports of a whole InfiniBand fabric, from the output of `ibqueryerrors --data --counters` and `perfquery`.
//!
//! `ibqueryerrors` prints `GUID 0x… port N: [NAME == VALUE (…)]…` under a heading per device, `perfquery` a block of
//! `NAME:....VALUE` per port. Data are in words of four bytes. Extended counters have 64 bits; the older ones have 32
//! bits and saturate, as do `PortXmitWait` and the error counters. `perfquery -E` prints the causes of
//! `PortRcvErrors` (`PortRcvErrorDetails`), which are summed where the sum itself was not printed. Port 255 of
//! `perfquery` is the sum over all ports of a switch, and port 0 its management port: neither has a link.

use super::delta::{Behaviour, Moment};
use super::names;
use super::reading::{Layout, Port, Reading};
use crate::text::{Line, Text, decimal, hexadecimal, lossy};
use hopbyte_fabric::{InputError, LeftOut, Quantity};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Counters: name in the MAD and the kernel's name, in the order of a reading.
const COUNTERS: [(&str, &str); 12] = [
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
];
/// Causes of `PortRcvErrors`, 16 bits each.
const DETAILS: [&str; 6] = [
    "PortLocalPhysicalErrors",
    "PortMalformedPktErrors",
    "PortBufferOverrunErrors",
    "PortDLIDMappingErrors",
    "PortVLMappingErrors",
    "PortLoopingErrors",
];
/// Number of 64-bit counters among them.
const EXTENDED: usize = 4;
/// Last counters of `perfquery`'s blocks, of all versions.
const LAST: [&str; 5] = [
    "PortLoopingErrors",
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

/// Whether a line is the first of such a text.
pub(super) fn is_line(line: &[u8]) -> bool {
    let starts = [
        &b"Data Counters for 0x"[..],
        b"Errors for 0x",
        b"# Port counters: ",
        b"# Port extended counters: ",
        b"# PortRcvErrorDetails counters: ",
    ];
    starts.iter().any(|s| line.starts_with(s))
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
        let system = self.name.rsplit([';', ':']).next().unwrap_or_default();
        let tick = TICKS.iter().find(|(start, _)| system.starts_with(start));
        for (&number, of_port) in &self.ports {
            let port = Port::InfiniBand { guid, port: number };
            if of_port.only_details() {
                for (name, value) in DETAILS.iter().zip(of_port.details) {
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
                if let (Quantity::CreditStallCount, Some(&(_, bytes))) = (counter.quantity, tick) {
                    counter.quantity = Quantity::CreditStallBytes;
                    counter.factor = bytes;
                }
                values.push(of_port.values[i]);
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
            let system = systems.get(guid)?;
            TICKS
                .iter()
                .find(|(start, _)| system.starts_with(start))
                .map(|t| t.1)
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
    /// Name of the heading.
    name: String,
    /// Device and port of the block.
    lid: String,
    port: Option<u16>,
    extended: bool,
    /// Name of the last counter of the block.
    entry: String,
    /// Blocks of port 255 and of port 0.
    sums: usize,
    management: usize,
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
            name: String::new(),
            lid: String::new(),
            port: None,
            extended: false,
            entry: String::new(),
            sums: 0,
            management: 0,
        };
        for line in text.lines() {
            scan.line(line, node)?;
        }
        scan.end()?;
        if scan.devices.is_empty() {
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
            .or_else(|| content.strip_prefix("# PortRcvErrorDetails "));
        if let Some(block) = block.filter(|b| b.contains("counters: ")) {
            self.extended = block.starts_with("extended");
            let lid = block
                .split_once(": Lid ")
                .and_then(|(_, l)| l.split(' ').next());
            let lid = lid.filter(|l| l.bytes().all(|b| b.is_ascii_digit()));
            self.lid = lid.map(|l| format!("lid:{l}")).unwrap_or_default();
            self.port = None;
        } else if content.is_empty() || content.starts_with(['#', '-']) {
            self.port = None;
        } else if content.contains(" for 0x") {
            let name = content.split_once('"').map_or("", |(_, rest)| rest);
            self.name = name.trim_end_matches(['"', ':']).to_owned();
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
            values.take(name.trim(), decimal(digits.as_bytes()).ok_or_else(wrong)?);
        }
        let device = self.devices.entry((guid, String::new())).or_default();
        device.name.clone_from(&self.name);
        let known = device.ports.entry(port).or_default();
        known.extended |= values.extended;
        for (old, new) in known.values.iter_mut().zip(values.values) {
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
            return Ok(());
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
mod tests {
    use super::*;
    use crate::counters::join::PortMap;
    use crate::counters::series;
    use crate::text::Limits;
    use hopbyte_fabric::{LinkId, Missing, Quantity as Q};

    const SUBNET: &str = include_str!("../../../../fuzz/seeds/ibnetdiscover/two-switches.txt");

    fn text(content: &str) -> Text {
        Text::from_bytes("mads", content.as_bytes(), Limits::TEXT).unwrap()
    }

    fn fabric() -> hopbyte_fabric::Fabric {
        let companions = crate::fabric::Companions::default();
        let machine = crate::fabric::read_machine_text(&text(SUBNET), None, companions);
        machine.unwrap().fabric
    }

    /// A switch's port in the form of `ibqueryerrors`.
    fn row(guid: u64, name: &str, port: u16, data: u64, wait: u64, extended: bool) -> String {
        let unicast = if extended {
            "[PortUnicastXmitPkts == 0 (0.000)]"
        } else {
            ""
        };
        format!(
            "Data Counters for 0x{guid:x} \"{name}\"\n   GUID 0x{guid:x} port ALL: [PortXmitWait == 9]\n   \
             GUID 0x{guid:x} port {port}: [PortXmitData == {data} (7.312KB)] [PortXmitWait == {wait}] {unicast}\n\
             \x20        Link info: 1 2[ ] ==( 4X 25 Gbps Active/ LinkUp)==> 0x1 1[ ] \"x\" ( )\n\
             ## Summary: 8 nodes checked, 0 bad nodes found\n"
        )
    }

    #[test]
    fn words_and_ticks_of_a_switch_s_port_are_of_the_link_that_leaves() {
        let fabric = fabric();
        let router = fabric.find_router("leaf two").unwrap();
        let (guid, port) = (2, 4);
        let leaves = |l: &&LinkId| fabric.ports(**l).iter().any(|p| p.from == port);
        let link = *fabric.links_from(router).iter().find(leaves).unwrap();
        let capacity = fabric.link(link).capacity().0;
        // Data for one second, in words; half a second of ticks of eight bytes.
        let (words, ticks) = ((capacity / 4.0) as u64, (capacity / 16.0) as u64);
        let read = |ns, data, wait, name, extended| {
            let text = text(&row(guid, name, port, data, wait, extended));
            readings(&text, None, Moment::at_ns(ns), &mut LeftOut::default())
                .unwrap()
                .remove(0)
        };
        let state = |name, wide| {
            let two = vec![
                read(1_000_000_000, 5, 7, name, wide),
                read(3_000_000_000, 5 + words, 7 + ticks, name, wide),
            ];
            let series = series(&fabric, "t", two, &PortMap::new()).unwrap().all();
            series[0].state(&fabric)
        };
        let quantum = state("MF0;core:MQM8700/U1", true);
        assert_eq!(quantum.used_ratio.get(link), Some(0.5));
        let stall = quantum.credit_stall_ratio.get(link).unwrap();
        assert!((stall - 0.25).abs() < 1e-6, "{stall}");
        let other = state("ibsw01", true);
        assert_eq!(
            other.credit_stall_ratio.get(link),
            None,
            "ticks of unknown length"
        );
        assert_eq!(other.credit_stall_count.get(link), Some(ticks as f64));
        // The older counters saturate at 2^32-1.
        let top = 0xffff_ffff;
        let stuck = [read(1, top, 0, "s", false), read(9, top, 0, "s", false)];
        let stuck = &series(&fabric, "t", stuck.into(), &PortMap::new())
            .unwrap()
            .all()[0];
        assert_eq!(stuck.missing(Q::SentBytes, link), Some(Missing::Stuck));
    }

    #[test]
    fn perfquery_s_blocks_are_of_a_lid() {
        let block = "# Port extended counters: Lid 4 port 1 (CapMask: 0x1300)\nPortSelect:......................1\n\
                     CounterSelect:...................0x0000\nPortXmitData:....................61200\n\
                     PortMulticastRcvPkts:............0\n";
        let one = &readings(
            &text(block),
            Some("leaf0"),
            Moment::default(),
            &mut LeftOut::default(),
        )
        .unwrap()[0];
        assert_eq!(
            (one.layout.node.as_str(), one.get(0)),
            ("leaf0", Some(61200))
        );
        assert!(!one.layout.counters[0].behaviour.sticky);
        let fabric = fabric();
        let block = block
            .replace("Lid 4 port 1", "Lid 2 port 4")
            .replace(".1\n", ".4\n");
        let two = readings(
            &text(&block),
            None,
            Moment::default(),
            &mut LeftOut::default(),
        )
        .unwrap();
        assert_eq!(two[0].layout.node, "lid:2");
        let totals = &series(&fabric, "t", two, &PortMap::new()).unwrap().all()[0];
        let sent = fabric
            .link_ids()
            .find(|&l| totals.get(Q::SentBytes, l).is_some());
        let sent = fabric.link_name(sent.unwrap());
        assert_eq!(sent, "leaf two[4]");
        let nameless = block.replace("Lid 2", "DR path slid 0");
        let error = readings(
            &text(&nameless),
            None,
            Moment::default(),
            &mut LeftOut::default(),
        )
        .unwrap_err();
        assert!(error.to_string().contains("ibqueryerrors"), "{error}");
    }

    #[test]
    fn ports_without_a_link_and_details_of_errors() {
        let block = |kind: &str, port: u16, name: &str, value: u64| {
            format!(
                "# {kind} counters: Lid 2 port {port} (CapMask: 0x1300)\nPortSelect:......................{port}\nCounterSelect:...................0x0000\n{name}:.........{value}\nPortMulticastRcvPkts:....0\n"
            )
        };
        let all = [
            block("Port extended", 0, "PortXmitData", 9),
            block("Port extended", 255, "PortXmitData", 99),
            block("Port extended", 4, "PortXmitData", 5),
        ]
        .concat();
        let mut left_out = LeftOut::default();
        let read = readings(&text(&all), None, Moment::default(), &mut left_out).unwrap();
        assert_eq!(read[0].layout.ports.len(), 1);
        assert_eq!(left_out.counts().map(|(_, n)| n).sum::<usize>(), 2);
        let sum = block("Port extended", 255, "PortXmitData", 99);
        let error = readings(
            &text(&sum),
            None,
            Moment::default(),
            &mut LeftOut::default(),
        )
        .unwrap_err();
        assert!(error.to_string().contains("perfquery -l"), "{error}");
        let details = DETAILS.map(|name| format!("{name}:....2\n")).concat();
        let details = format!(
            "# PortRcvErrorDetails counters: Lid 2 port 4\nPortSelect:......................4\nCounterSelect:...................0x0000\n{details}"
        );
        let read = readings(
            &text(&details),
            None,
            Moment::default(),
            &mut LeftOut::default(),
        )
        .unwrap();
        let fabric = fabric();
        let totals = &series(&fabric, "t", read, &PortMap::new()).unwrap().all()[0];
        let errors: f64 = fabric
            .link_ids()
            .filter_map(|l| totals.get(Q::Errors, l))
            .sum();
        assert_eq!(errors, 12.0);
    }

    #[test]
    fn a_part_number_gives_the_tick() {
        let rows = row(2, "ibsw01", 4, 5, 7, true);
        let mut read = readings(
            &text(&rows),
            None,
            Moment::default(),
            &mut LeftOut::default(),
        )
        .unwrap();
        set_ticks(&mut read, &BTreeMap::from([(2, "MSB7790-ES2F".to_owned())]));
        let wait = read[0]
            .layout
            .counters
            .iter()
            .find(|c| c.name == "port_xmit_wait")
            .unwrap();
        assert_eq!((wait.quantity, wait.factor), (Q::CreditStallBytes, 128.0));
    }

    #[test]
    fn what_is_not_above_zero_is_zero() {
        let rows = row(2, "s", 4, 5, 7, true);
        let read = |zero| reading_of_all(&text(&rows), Moment::default(), zero).unwrap();
        let value = |reading: &Reading, name: &str| {
            let mut counters = reading.layout.counters.iter();
            reading.get(counters.position(|c| c.name == name).unwrap())
        };
        assert_eq!(value(&read(true), "port_xmit_wait"), Some(7));
        assert_eq!(value(&read(true), "symbol_error"), Some(0));
        assert_eq!(
            value(&read(true), "port_rcv_data"),
            None,
            "no error counter"
        );
        assert_eq!(value(&read(false), "symbol_error"), None);
    }

    #[test]
    fn bad_rows_are_named() {
        for (bad, found) in [
            ("GUID 0x1 port x: [A == 1]", "mads:1: found GUID 0x1 port x"),
            ("GUID 0x0 port 1: [A == 1]", "mads:1: found GUID 0x0"),
            (
                "GUID 0x1 port 1: [PortXmitData == -1]",
                "mads:1: found GUID",
            ),
            ("GUID 0x1 port 1: [PortXmitData 1]", "mads:1: found GUID"),
            ("PortSelect:..99999", "mads:1: found 99999"),
            ("## Summary: 0 nodes", "mads: found no port"),
        ] {
            let error =
                readings(&text(bad), None, Moment::default(), &mut LeftOut::default()).unwrap_err();
            assert!(error.to_string().starts_with(found), "{error}");
        }
    }
}
