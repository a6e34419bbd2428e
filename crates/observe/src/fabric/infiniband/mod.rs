//! InfiniBand: contents of a subnet scan, and the fabric built from it.
//!
//! All forms of scan (`ibnetdiscover` records, `ibnetdiscover -p`, …) fill a [`Scan`]: devices, and one [`End`] for
//! every listed cabled port. Devices are identified by GUID, never by description, because descriptions can be set
//! freely and are not unique. [`Scan::build`] then makes the [`Fabric`] and the [`Addresses`] that forwarding tables
//! refer to.

mod build;
pub(super) mod guid_names;
pub(super) mod ibdm_topology;
mod lid_matrix;
pub(super) mod link_info;
mod messages;
pub(super) mod netloc;
mod node_names;
pub(super) mod port_lines;
pub(crate) mod rate;
pub(super) mod records;
pub(super) mod service_levels;
pub(super) mod subnet_list;
pub(super) mod tables;
mod torus_conf;
pub(super) mod torus_dump;

use crate::text::{Line, Text};
use hopbyte_fabric::{InputError, NodeId, RouterId};
pub use messages::Messages;
use rate::Rate;
use std::collections::{BTreeSet, HashMap, HashSet};

/// Kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// A switch: a router of the fabric.
    Switch,
    /// A channel adapter: its cabled ports are nodes.
    Adapter,
    /// A router to another subnet; not a host.
    Router,
    /// The adapter inside a switch for in-network aggregation of collectives; not a host.
    Aggregator,
}

/// A switch or adapter.
#[derive(Clone, Debug)]
pub struct Device {
    /// Kind of device.
    pub kind: DeviceKind,
    /// Node GUID if the scan has one (`-p` lists port GUIDs of adapters: see [`Port::guid`]).
    pub guid: Option<u64>,
    /// Identifier of the device in the scan.
    pub id: String,
    /// Its description; empty if it has none.
    pub description: String,
    /// LID of a switch.
    pub lid: Option<u32>,
    /// Log2 of the number of LIDs.
    pub lmc: u8,
}

/// A port of an adapter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Port {
    /// Port GUID.
    pub guid: Option<u64>,
    /// Base LID.
    pub lid: Option<u32>,
    /// Log2 of the number of LIDs.
    pub lmc: u8,
}

/// The LID of a port that has none, the permissive one of the specification.
const UNASSIGNED: u32 = 0xffff;

/// A port by device and number.
pub type PortKey = (u32, u16);

/// One end of a cable as a scan lists it: the far port, the trained rate, and the line of the scan.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// Port of the line.
    pub port: PortKey,
    /// Port at the other end.
    pub peer: PortKey,
    /// Width and speed.
    pub rate: Rate,
    /// Line of the scan.
    pub line: u64,
}

/// A scanned subnet.
#[derive(Clone, Debug)]
pub struct Scan {
    /// File name.
    pub file: String,
    /// Devices in the order of first mention.
    pub devices: Vec<Device>,
    /// Addresses of adapter ports.
    pub ports: HashMap<PortKey, Port>,
    /// Ports to which the subnet manager gave no LID (65535).
    pub unassigned: BTreeSet<PortKey>,
    /// Cabled ports in the order of the file.
    pub ends: Vec<End>,
    /// Warnings and errors of the tool among its output.
    pub messages: Messages,
    /// Notes of the reader.
    pub notes: Vec<String>,
}

/// Target of a LID or GUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A switch.
    Switch(RouterId),
    /// An adapter port.
    Node(NodeId),
    /// Not a node: an aggregation node, or a router to another subnet.
    Other,
}

/// LIDs and GUIDs of a subnet.
#[derive(Clone, Debug, Default)]
pub struct Addresses {
    /// By LID, all those of a port with LMC above 0.
    pub lids: HashMap<u32, Target>,
    /// By node GUID of switches, port GUID and node GUID of adapters.
    pub guids: HashMap<u64, Target>,
    /// LIDs of ports with LMC above 0, without the base LIDs.
    pub further: HashSet<u32>,
    /// LIDs of a further device or port, with the target that does not have them.
    pub shared: Vec<(u32, Target)>,
}

impl Scan {
    /// An empty scan of a file.
    pub fn new(text: &Text) -> Self {
        Self {
            file: text.file().into(),
            devices: Vec::new(),
            ports: HashMap::new(),
            unassigned: BTreeSet::new(),
            ends: Vec::new(),
            messages: Messages::default(),
            notes: Vec::new(),
        }
    }

    /// Adds a device.
    pub fn device(&mut self, kind: DeviceKind, id: String, guid: Option<u64>) -> u32 {
        self.devices.push(Device {
            kind,
            guid,
            id,
            description: String::new(),
            lid: None,
            lmc: 0,
        });
        (self.devices.len() - 1) as u32
    }

    /// Sets a device's description; aggregation nodes are recognised by theirs. An empty description does not replace
    /// an existing one.
    pub fn describe(&mut self, device: u32, description: &[u8]) {
        let device = &mut self.devices[device as usize];
        let description = super::names::name(description);
        if description.is_empty() {
            return;
        }
        if device.kind == DeviceKind::Adapter && description.contains("Aggregation Node") {
            device.kind = DeviceKind::Aggregator;
        }
        device.description = description;
    }

    /// Records the addresses of an adapter's port, or the LID of a switch.
    pub fn address(&mut self, port: PortKey, guid: Option<u64>, lid: Option<u32>, lmc: u8) {
        let device = &mut self.devices[port.0 as usize];
        let is_switch = device.kind == DeviceKind::Switch;
        if lid == Some(UNASSIGNED) {
            let number = if is_switch { 0 } else { port.1 };
            self.unassigned.insert((port.0, number));
        }
        // LID 0 means too that none was assigned.
        let lid = lid.filter(|&l| l != 0 && l != UNASSIGNED);
        if is_switch {
            device.lid = lid.or(device.lid);
            device.lmc = lmc.max(device.lmc);
            return;
        }
        let known = self.ports.entry(port).or_default();
        known.guid = guid.or(known.guid);
        known.lid = lid.or(known.lid);
        known.lmc = lmc.max(known.lmc);
    }
}

/// Whether a line is of `ibhosts` or `ibswitches`: `Ca : 0x0002c90300000300 ports 1 "node031 HCA-1"`.
pub fn is_device_list(line: Line<'_>) -> bool {
    let mut words = line.words();
    matches!(words.next(), Some(b"Ca" | b"Switch" | b"Rt"))
        && words.next() == Some(b":")
        && words.next().is_some_and(|w| w.starts_with(b"0x"))
        && words.next() == Some(b"ports")
}

/// A port number from its digits.
fn port_number(text: &Text, line: Line<'_>, digits: &[u8]) -> Result<u16, InputError> {
    crate::text::decimal(digits)
        .and_then(|n| u16::try_from(n).ok())
        .filter(|&n| n <= 254)
        .ok_or_else(|| text.error_in(line, digits, "a port number from 0 to 254"))
}

/// `0x` and 16 digits, the only form in which GUIDs are written.
pub fn guid_text(guid: u64) -> String {
    format!("0x{guid:016x}")
}
