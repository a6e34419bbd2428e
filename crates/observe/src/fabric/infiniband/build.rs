//! Builds a fabric from a scan.

use super::node_names::{count, unique_name};
use super::torus_dump::Coordinates;
use super::{Addresses, DeviceKind, End as Listed, Port, PortKey, Scan, Target, guid_text};
use crate::ObserveError;
use crate::fabric::names::note_of;
use hopbyte_fabric::units::Seconds;
use hopbyte_fabric::{
    End, Fabric, FabricBuilder, Family, InputError, LinkSpec, NodeId, RouterId, Shape,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Switch and cable: 100 ns port to port (data sheets of QDR and EDR switches), and five metres of cable at 5 ns/m.
const HOP_LATENCY: Seconds = Seconds(125e-9);
/// The cable alone, to a host.
const CABLE_LATENCY: Seconds = Seconds(25e-9);

/// Endpoint of the fabric for a device port.
#[derive(Clone, Copy)]
enum Place {
    Switch(RouterId),
    Node(NodeId),
    /// An aggregation node or a router to another subnet, at this switch.
    Beside(RouterId),
}

impl Scan {
    /// Checks the cables and builds the fabric. Notes list completed and omitted parts.
    pub fn build(
        mut self,
        given_names: &HashMap<u64, String>,
        coordinates: Option<&Coordinates>,
        notes: &mut Vec<String>,
    ) -> Result<(Fabric, Addresses), ObserveError> {
        self.messages.note(&self.file, notes);
        notes.append(&mut self.notes);
        self.check_ends(notes)?;
        self.apply_names(given_names, notes);
        let unassigned = self.unassigned.iter().map(|&port| self.port_name(port));
        let unassigned: Vec<String> = unassigned.collect();
        let what = "no LID (65535 stands for none): no forwarding table leads there";
        note_of(notes, &unassigned, "port has", "ports have", what);
        let mut b = FabricBuilder::new(Family::InfiniBand, self.file.clone());
        let mut addresses = Addresses::default();
        let coordinates = self.shape(coordinates, &mut b, notes);
        let routers = self.routers(&mut b, coordinates, &mut addresses)?;
        let nodes = self.nodes(&routers, notes);
        let places = self.places(&routers, &nodes);
        let names = self.node_names(&nodes);
        let ends = self.links(&mut b, &places);
        for (i, (key, router)) in nodes.iter().enumerate() {
            let node = NodeId::of(i);
            let (inject, eject) = ends[i];
            let (Some(inject), Some(eject)) = (inject, eject) else {
                continue; // check_ends completed every cable, so both ends are there
            };
            let (name, host) = names[i].clone();
            b.node(name, host, None, *router, inject, eject);
            self.node_addresses(&mut b, &mut addresses, *key, node);
        }
        self.other_addresses(&mut addresses);
        let fabric = b.finish()?;
        addresses.note_shared(&fabric, notes);
        Ok((fabric, addresses))
    }

    /// Addresses of devices that are neither switches nor nodes.
    fn other_addresses(&self, addresses: &mut Addresses) {
        let is_other = |d: u32| {
            let kind = self.devices[d as usize].kind;
            matches!(kind, DeviceKind::Aggregator | DeviceKind::Router)
        };
        let mut ports: Vec<(&PortKey, &Port)> = self.ports.iter().collect();
        ports.sort_unstable_by_key(|(key, _)| **key);
        for (_, port) in ports.into_iter().filter(|(key, _)| is_other(key.0)) {
            addresses.add(port.lid, port.lmc, Target::Other);
            addresses.add_guid(port.guid, Target::Other);
        }
        for (i, device) in self.devices.iter().enumerate() {
            if is_other(i as u32) {
                addresses.add_guid(device.guid, Target::Other);
            }
        }
    }

    /// Every cable has two consistent ends: adds ends that the scan lacks, refuses contradictions, and settles the
    /// rate.
    fn check_ends(&mut self, notes: &mut Vec<String>) -> Result<(), InputError> {
        let mut at: HashMap<PortKey, usize> = HashMap::with_capacity(self.ends.len());
        let mut repeated = Vec::new();
        let mut kept: Vec<Listed> = Vec::with_capacity(self.ends.len());
        for end in &self.ends {
            if end.port == end.peer {
                let found = format!("{} cabled to itself", self.port_name(end.port));
                return Err(InputError::new(&self.file, found, "two ports").at(end.line));
            }
            match at.get(&end.port) {
                None => {
                    at.insert(end.port, kept.len());
                    kept.push(*end);
                }
                Some(&first) if kept[first].peer == end.peer => {
                    repeated.push(self.port_name(end.port));
                }
                Some(&first) => {
                    return Err(self.two_peers(end, &kept[first]));
                }
            }
        }
        let mut one_sided = Vec::new();
        for i in 0..kept.len() {
            let end = kept[i];
            match at.get(&end.peer) {
                Some(&back) if kept[back].peer == end.port => {}
                Some(&back) => return Err(self.two_peers(&end, &kept[back])),
                None => {
                    one_sided.push(self.port_name(end.port));
                    at.insert(end.peer, kept.len());
                    kept.push(Listed {
                        port: end.peer,
                        peer: end.port,
                        ..end
                    });
                }
            }
        }
        self.ends = kept;
        self.settle_rates(&at, notes);
        note_of(notes, &repeated, "port is", "ports are", "listed twice");
        note_of(
            notes,
            &one_sided,
            "cable is",
            "cables are",
            "listed from one end only and assumed complete",
        );
        if one_sided.len() > 1 && one_sided.len() * 8 > self.ends.len() {
            notes.push(
                "more than a quarter of the cables are listed from one end only: was the file cut, or does it list switches alone?"
                    .into(),
            );
        }
        Ok(())
    }

    fn two_peers(&self, end: &Listed, other: &Listed) -> InputError {
        let found = format!(
            "{} cabled to {}",
            self.port_name(end.port),
            self.port_name(end.peer)
        );
        let expected = format!(
            "as on line {}: {} cabled to {}",
            other.line,
            self.port_name(other.port),
            self.port_name(other.peer)
        );
        InputError::new(&self.file, found, expected)
            .at(end.line)
            .hint("was a cable moved during the scan? scan again")
    }

    fn settle_rates(&mut self, at: &HashMap<PortKey, usize>, notes: &mut Vec<String>) {
        let (mut differ, mut unknown) = (Vec::new(), Vec::new());
        for i in 0..self.ends.len() {
            let Some(&back) = at.get(&self.ends[i].peer) else {
                continue;
            };
            let (a, b) = (self.ends[i].rate, self.ends[back].rate);
            let rate = a.agreed(b);
            if i <= back {
                if a != b && a.is_known() && b.is_known() {
                    differ.push(format!("{} {a} / {b}", self.port_name(self.ends[i].port)));
                }
                if !rate.is_known() {
                    unknown.push(self.port_name(self.ends[i].port));
                }
            }
            self.ends[i].rate = rate;
            self.ends[back].rate = rate;
        }
        note_of(
            notes,
            &differ,
            "cable has",
            "cables have",
            "two rates at their ends; the slower one counts",
        );
        note_of(
            notes,
            &unknown,
            "cable has",
            "cables have",
            "no known speed; SDR is assumed",
        );
    }

    /// A port for people: `description[port]`.
    fn port_name(&self, (device, port): PortKey) -> String {
        let device = &self.devices[device as usize];
        let name = if device.description.is_empty() {
            &device.id
        } else {
            &device.description
        };
        format!("{name}[{port}]")
    }

    fn apply_names(&mut self, given: &HashMap<u64, String>, notes: &mut Vec<String>) {
        if given.is_empty() {
            return;
        }
        let mut used = HashSet::new();
        for (i, device) in self.devices.iter_mut().enumerate() {
            let port = self.ports.get(&(i as u32, 1)).and_then(|p| p.guid);
            for guid in [device.guid, port].into_iter().flatten() {
                if let Some(name) = given.get(&guid) {
                    device.description.clone_from(name);
                    used.insert(guid);
                }
            }
        }
        let mut unused: Vec<String> = given
            .keys()
            .filter(|g| !used.contains(g))
            .map(|&g| guid_text(g))
            .collect();
        unused.sort_unstable();
        note_of(
            notes,
            &unused,
            "name is",
            "names are",
            "for GUIDs that the scan does not list",
        );
    }

    /// Declares the grid of a torus, if every switch has a position on it; a dimension wraps round if a cable joins
    /// its ends.
    fn shape<'a>(
        &self,
        coordinates: Option<&'a Coordinates>,
        b: &mut FabricBuilder,
        notes: &mut Vec<String>,
    ) -> Option<&'a Coordinates> {
        let coordinates = coordinates?;
        let place = |device: u32| coordinates.get(&self.devices[device as usize].guid?);
        let without: Vec<String> = (0..self.devices.len() as u32)
            .filter(|&d| self.devices[d as usize].kind == DeviceKind::Switch)
            .filter(|&d| place(d).is_none())
            .map(|d| self.devices[d as usize].description.clone())
            .collect();
        if !without.is_empty() {
            note_of(
                notes,
                &without,
                "switch has",
                "switches have",
                "no coordinate, so none is used",
            );
            return None;
        }
        let mut dims = vec![1; 3];
        for coord in coordinates.values() {
            for (dim, &c) in dims.iter_mut().zip(coord) {
                *dim = (*dim).max(c + 1);
            }
        }
        let closes = |d: usize| {
            let ends = self.ends.iter().map(|e| (place(e.port.0), place(e.peer.0)));
            let mut far = ends.filter_map(|(a, b)| Some(a?[d].abs_diff(b?[d])));
            dims[d] <= 2 || far.any(|far| far + 1 == dims[d])
        };
        b.shape(Shape {
            wrap: (0..3).map(closes).collect(),
            dims: dims.clone(),
        });
        Some(coordinates)
    }

    /// Adds all switches.
    fn routers(
        &self,
        b: &mut FabricBuilder,
        coordinates: Option<&Coordinates>,
        addresses: &mut Addresses,
    ) -> Result<HashMap<u32, RouterId>, InputError> {
        let switches: Vec<u32> = (0..self.devices.len() as u32)
            .filter(|&d| self.devices[d as usize].kind == DeviceKind::Switch)
            .collect();
        if switches.is_empty() {
            let found = format!("{} adapters and no switch", self.devices.len());
            let mut cables: HashMap<u32, usize> = HashMap::new();
            for end in &self.ends {
                *cables.entry(end.port.0).or_default() += 1;
            }
            // An adapter has one or two ports.
            let hint = match cables.values().filter(|&&n| n > 2).count() {
                0 if !cables.is_empty() => "adapters that are cabled to each other are no network to place ranks on".into(),
                0 => "was the scan run on a host whose port is down? run ibnetdiscover where the fabric is up".into(),
                n => format!("{n} of them have more than two cables: the file lists its switches as adapters (CA); their type is SW"),
            };
            return Err(InputError::new(&self.file, found, "at least one switch").hint(hint));
        }
        let described = |&d: &u32| self.devices[d as usize].description.as_str();
        let counts = count(switches.iter().map(described));
        let mut routers = HashMap::with_capacity(switches.len());
        for d in switches {
            let device = &self.devices[d as usize];
            let unique = counts.get(device.description.as_str()) == Some(&1);
            let identity = device.guid.map_or_else(|| device.id.clone(), guid_text);
            let name = unique_name(&device.description, unique, &identity);
            let at = coordinates.and_then(|c| c.get(&device.guid?));
            let router = b.router(name, at.map_or(&[], |c| &c[..]));
            if let Some(guid) = device.guid {
                b.router_alias(guid_text(guid), router);
            }
            for lid in lids(device.lid, device.lmc) {
                b.router_alias(format!("lid:{lid}"), router);
            }
            addresses.add(device.lid, device.lmc, Target::Switch(router));
            addresses.add_guid(device.guid, Target::Switch(router));
            routers.insert(d, router);
        }
        Ok(routers)
    }

    /// Adapter ports that are cabled to a switch, in the order of devices and ports.
    fn nodes(
        &self,
        routers: &HashMap<u32, RouterId>,
        notes: &mut Vec<String>,
    ) -> Vec<(PortKey, RouterId)> {
        let mut cabled: BTreeMap<PortKey, RouterId> = BTreeMap::new();
        let (mut without_switch, mut aggregators) = (Vec::new(), 0);
        let mut subnet_routers = BTreeSet::new();
        for end in &self.ends {
            let kind = self.devices[end.port.0 as usize].kind;
            match (kind, routers.get(&end.peer.0)) {
                (DeviceKind::Switch, _) => {}
                (DeviceKind::Aggregator, _) => aggregators += 1,
                (DeviceKind::Router, _) => {
                    subnet_routers.insert(end.port.0);
                }
                (DeviceKind::Adapter, Some(&router)) => {
                    cabled.insert(end.port, router);
                }
                (DeviceKind::Adapter, None) => without_switch.push(self.port_name(end.port)),
            }
        }
        note_of(
            notes,
            &without_switch,
            "adapter port is",
            "adapter ports are",
            "cabled without a switch and left out",
        );
        if aggregators > 0 {
            notes.push(format!(
                "{aggregators} aggregation nodes inside switches are neither hosts nor nodes; their links are kept"
            ));
        }
        let subnet_routers: Vec<String> = subnet_routers
            .into_iter()
            .map(|d| self.devices[d as usize].description.clone())
            .collect();
        note_of(
            notes,
            &subnet_routers,
            "router to another subnet is",
            "routers to other subnets are",
            "not among the nodes; the links are kept",
        );
        let idle = self
            .devices
            .iter()
            .enumerate()
            .filter(|(i, d)| {
                d.kind == DeviceKind::Adapter
                    && cabled
                        .range((*i as u32, 0)..=(*i as u32, u16::MAX))
                        .next()
                        .is_none()
            })
            .map(|(_, d)| d.description.clone());
        let idle: Vec<String> = idle
            .filter(|d| !without_switch.iter().any(|w| w.starts_with(d.as_str())))
            .collect();
        note_of(
            notes,
            &idle,
            "adapter has",
            "adapters have",
            "no cabled port and are left out",
        );
        cabled.into_iter().collect()
    }

    fn places(
        &self,
        routers: &HashMap<u32, RouterId>,
        nodes: &[(PortKey, RouterId)],
    ) -> HashMap<PortKey, Place> {
        let mut places: HashMap<PortKey, Place> = nodes
            .iter()
            .enumerate()
            .map(|(i, &(key, _))| (key, Place::Node(NodeId::of(i))))
            .collect();
        for end in &self.ends {
            match self.devices[end.port.0 as usize].kind {
                DeviceKind::Switch => {
                    places.insert(end.port, Place::Switch(routers[&end.port.0]));
                }
                DeviceKind::Aggregator | DeviceKind::Router => {
                    if let Some(&router) = routers.get(&end.peer.0) {
                        places.insert(end.port, Place::Beside(router));
                    }
                }
                DeviceKind::Adapter => {}
            }
        }
        places
    }

    pub(super) fn port_of(&self, key: PortKey) -> Port {
        self.ports.get(&key).copied().unwrap_or_default()
    }

    /// Adds one directed link for every end; returns (injection, ejection) by node.
    #[allow(clippy::type_complexity)]
    fn links(
        &self,
        b: &mut FabricBuilder,
        places: &HashMap<PortKey, Place>,
    ) -> Vec<(
        Option<hopbyte_fabric::LinkId>,
        Option<hopbyte_fabric::LinkId>,
    )> {
        let count = places
            .values()
            .filter(|p| matches!(p, Place::Node(_)))
            .count();
        let mut of_node = vec![(None, None); count];
        for end in &self.ends {
            let (Some(&from), Some(&to)) = (places.get(&end.port), places.get(&end.peer)) else {
                continue;
            };
            let is_end =
                |kind| [end.port.0, end.peer.0].map(|d| self.devices[d as usize].kind == kind);
            let name = if is_end(DeviceKind::Aggregator).contains(&true) {
                format!("{} aggregation", end.rate)
            } else if is_end(DeviceKind::Router).contains(&true) {
                format!("{} to other subnets", end.rate)
            } else {
                end.rate.to_string()
            };
            let kind = b.kind(&name, false);
            let latency = match to {
                Place::Switch(_) => HOP_LATENCY,
                _ => CABLE_LATENCY,
            };
            let spec = LinkSpec {
                lanes: u16::from(end.rate.width),
                lanes_in_service: u16::from(end.rate.width),
                ..LinkSpec::new(end_of(from), end_of(to), kind, end.rate.capacity(), latency)
            };
            let link = b.link(spec);
            b.port(link, end.port.1, end.peer.1);
            if let Place::Node(n) = from {
                of_node[n.index()].0 = Some(link);
            }
            if let Place::Node(n) = to {
                of_node[n.index()].1 = Some(link);
            }
        }
        of_node
    }

    fn node_addresses(
        &self,
        b: &mut FabricBuilder,
        addresses: &mut Addresses,
        key: PortKey,
        node: NodeId,
    ) {
        let port = self.port_of(key);
        let device = &self.devices[key.0 as usize];
        for guid in [port.guid, device.guid].into_iter().flatten() {
            b.node_alias(guid_text(guid), node);
            addresses.add_guid(Some(guid), Target::Node(node));
        }
        for lid in lids(port.lid, port.lmc) {
            b.node_alias(format!("lid:{lid}"), node);
        }
        addresses.add(port.lid, port.lmc, Target::Node(node));
    }
}

impl Addresses {
    fn add(&mut self, lid: Option<u32>, lmc: u8, target: Target) {
        for lid in lids(lid, lmc) {
            if *self.lids.entry(lid).or_insert(target) != target {
                self.shared.push((lid, target));
            }
        }
        self.further.extend(lids(lid, lmc).skip(1));
    }

    /// Tells of LIDs that two ports have: the scan was taken while they changed, or is one of two subnets.
    fn note_shared(&self, fabric: &Fabric, notes: &mut Vec<String>) {
        let name = |target: &Target| match *target {
            Target::Switch(router) => fabric.router(router).name.as_str(),
            Target::Node(node) => fabric.node(node).name.as_str(),
            Target::Other => "another device",
        };
        let both = |(lid, second): &(u32, Target)| {
            format!("{lid} ({}, {})", name(&self.lids[lid]), name(second))
        };
        let shared: Vec<String> = self.shared.iter().map(both).collect();
        let what = format!(
            "of two ports in {}, the first of which counts",
            fabric.source()
        );
        note_of(notes, &shared, "LID is", "LIDs are", &what);
    }

    fn add_guid(&mut self, guid: Option<u64>, target: Target) {
        if let Some(guid) = guid {
            self.guids.entry(guid).or_insert(target);
        }
    }
}

/// The 2^lmc LIDs from a base LID.
fn lids(base: Option<u32>, lmc: u8) -> impl Iterator<Item = u32> {
    base.into_iter()
        .flat_map(move |base| (0..1u32 << lmc.min(7)).map(move |i| base.saturating_add(i)))
}

fn end_of(place: Place) -> End {
    match place {
        Place::Switch(router) => End::Router(router),
        Place::Node(node) => End::Node(node),
        Place::Beside(router) => End::Hosts(router),
    }
}
