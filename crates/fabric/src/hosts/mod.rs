//! Hosts: places for tasks (GPUs, cores), ports into the network, and the inner links between them.
//!
//! A unit is a set of hosts joined by inner links: one host, or all hosts of an NVLink domain. Units of equal
//! structure share a [`HostKind`], with routes inside the unit computed once. [`Fabric::with_hosts`] appends inner
//! routers, places and links to a fabric: ids of the network's own parts do not change, so its routing stays valid.

mod attach;
mod inside;
mod kinds;
mod legs;
mod rails;
mod ways;

pub use inside::{HostId, HostsSummary, Inside};
pub use kinds::{
    DomainOf, HOST_KINDS, HostShape, HostSpec, Join, Published, describe, describe_shaped,
};
pub use legs::{InnerLinks, Leg};
pub use rails::rails;

use crate::fabric::Fabric;
use crate::ids::{LinkId, NodeId};
use crate::numbers::Numbers;
use inside::NO;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// How a route between two units chooses the ports by which it leaves and enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PortRule {
    /// The port nearest to each place.
    Nearest,
    /// The port nearest to the target, and of the source's host the port of the same number: bytes first cross to
    /// the place of that rail inside the host (PXN of NCCL, `src/graph/paths.cc`).
    Rail,
    /// All ports of the source's host in equal shares, each to the port of its number.
    Striped,
}

impl PortRule {
    /// All rules with their meanings.
    pub const ALL: [(Self, &'static str, &'static str); 3] = [
        (Self::Nearest, "nearest", "each place uses its nearest port"),
        (
            Self::Rail,
            "rail",
            "same rail at both ends, with a hop inside the source's host first (PXN)",
        ),
        (
            Self::Striped,
            "striped",
            "bytes are spread over all ports of the host",
        ),
    ];

    /// Name in specs.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|r| r.0 == self).map_or("", |r| r.1)
    }

    /// Its meaning.
    pub fn help(self) -> &'static str {
        Self::ALL.iter().find(|r| r.0 == self).map_or("", |r| r.2)
    }
}

impl fmt::Display for PortRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PortRule {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL
            .iter()
            .find(|r| r.1 == text)
            .map(|r| r.0)
            .ok_or(())
    }
}

/// An end of an inner link, numbered within its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Local {
    /// A port: an endpoint of the network.
    Port(u16),
    /// A place that is not a port.
    Place(u16),
    /// A switch inside: NVSwitch, PCIe switch, processor package.
    Router(u16),
}

/// A directed link inside a unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InnerLink {
    /// Sending end.
    pub from: Local,
    /// Receiving end.
    pub to: Local,
    /// Kind: `NVLink`, `xGMI`, `PCIe`, `C2C`, `memory`.
    pub kind: String,
    /// Capacity.
    pub capacity_bytes_per_s: f64,
    /// Unloaded latency.
    pub latency_seconds: f64,
}

impl InnerLink {
    /// Whether the link is between GPUs: no way from a GPU to an adapter.
    pub fn joins_gpus(&self) -> bool {
        joins_gpus(&self.kind)
    }
}

/// Whether links of a kind are between GPUs.
pub fn joins_gpus(kind: &str) -> bool {
    ["NVLink", "xGMI"]
        .iter()
        .any(|k| kind.eq_ignore_ascii_case(k))
}

/// A place with a node of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnPlace {
    /// Name within its host (`gpu0`).
    pub name: String,
    /// Its host within the unit.
    pub host: u16,
}

/// The structure of a unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostKind {
    /// Name (`dgx-h100`), or the file it was read from.
    pub name: String,
    /// Hosts that inner links join.
    pub hosts: u16,
    /// Host of each port.
    pub ports: Vec<u16>,
    /// Places that are not ports; each has a link to a router and one back.
    pub own: Vec<OwnPlace>,
    /// All places, host by host: ports (an adapter together with its GPU) and places of [`HostKind::own`].
    pub places: Vec<Local>,
    /// Whether a place takes one task only (a GPU).
    pub exclusive: bool,
    /// Names of the routers.
    pub routers: Vec<String>,
    /// Links.
    pub links: Vec<InnerLink>,
}

impl HostKind {
    /// Host of a place or port.
    pub fn host_of(&self, end: Local) -> Option<u16> {
        match end {
            Local::Port(p) => self.ports.get(usize::from(p)).copied(),
            Local::Place(p) => self.own.get(usize::from(p)).map(|o| o.host),
            Local::Router(_) => None,
        }
    }

    /// The number in the name of a GPU, if all GPUs of its host have different ones.
    fn named_number(&self, place: usize) -> Option<u32> {
        let Some(&Local::Place(at)) = self.places.get(place) else {
            return None;
        };
        let name = |o: &OwnPlace| o.name.strip_prefix("gpu")?.parse::<u32>().ok();
        let own = self.own.get(usize::from(at))?;
        let beside = self.own.iter().filter(|o| o.host == own.host);
        let numbers: Option<Vec<u32>> = beside.map(name).collect();
        let mut numbers = numbers?;
        numbers.sort_unstable();
        name(own).filter(|_| numbers.is_sorted_by(|a, b| a < b))
    }
}

/// The hosts of one unit, and the network's endpoints that are its ports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnitSpec {
    /// Number of its kind.
    pub kind: u32,
    /// Host names.
    pub hosts: Vec<String>,
    /// Ports, in the order of [`HostKind::ports`].
    pub ports: Vec<NodeId>,
}

/// The hosts of a fabric as records, for its own format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostsRecord {
    /// Choice of ports.
    pub rule: PortRule,
    /// Structures, by number.
    pub kinds: Vec<HostKind>,
    /// Units, by number.
    pub units: Vec<UnitSpec>,
    /// Inner links that are down, numbered from the first inner link.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub down: Vec<u32>,
}

impl Fabric {
    /// The hosts with their places, ports and inner links, if they are described.
    pub fn inside(&self) -> Option<&Inside> {
        self.inside.as_deref()
    }

    /// The described hosts as records that [`Fabric::with_hosts`] accepts again.
    pub fn hosts_record(&self) -> Option<HostsRecord> {
        let inside = self.inside()?;
        let inner = self.links[inside.network[2]..].iter();
        Some(HostsRecord {
            rule: inside.rule,
            kinds: inside.kinds().cloned().collect(),
            units: inside.units().cloned().collect(),
            down: (0..)
                .zip(inner)
                .filter(|l| !l.1.is_up())
                .map(|l| l.0)
                .collect(),
        })
    }

    /// Whether a link is inside a unit of hosts.
    #[inline]
    pub fn is_inner(&self, link: LinkId) -> bool {
        self.inside
            .as_ref()
            .is_some_and(|i| link.index() >= i.network[2])
    }

    /// Number of routers of the network, without those inside hosts; they have the lowest ids.
    pub fn network_routers(&self) -> usize {
        self.inside
            .as_ref()
            .map_or(self.routers.len(), |i| i.network[0])
    }

    /// Number of endpoints of the network; they have the lowest node ids.
    pub fn network_nodes(&self) -> usize {
        self.inside
            .as_ref()
            .map_or(self.nodes.len(), |i| i.network[1])
    }

    /// Number of links outside hosts; they have the lowest ids.
    pub fn network_links(&self) -> usize {
        self.inside
            .as_ref()
            .map_or(self.links.len(), |i| i.network[2])
    }

    /// Nodes that can run tasks, host by host: all nodes of a fabric without described hosts.
    pub fn places(&self) -> Vec<NodeId> {
        let Some(inside) = self.inside() else {
            return self.node_ids().collect();
        };
        let units = 0..inside.units.len() as u32;
        let seated = units.flat_map(|u| inside.places_of(u)).map(|p| p.0);
        let alone = self.node_ids().filter(|&n| inside.unit_of(n).is_none());
        seated.chain(alone).collect()
    }

    /// The places meant by the name of a node: itself, or for a port that is no place those nearest to it.
    pub fn places_at(&self, node: NodeId) -> Vec<NodeId> {
        let seat = self
            .inside()
            .and_then(|i| Some((i, *i.seats.get(node.index())?)));
        match seat {
            Some((hosts, seat)) if seat.unit != inside::NONE && seat.place == NO => {
                let unit = &hosts.units[seat.unit as usize];
                let (kind, ways) = &hosts.kinds[unit.spec.kind as usize];
                let near = (0..kind.places.len()).filter(|&p| ways.near(p) == seat.port);
                near.map(|p| unit.node(kind.places[p])).collect()
            }
            _ => vec![node],
        }
    }

    /// Places of every host, by host name, in the order of [`Fabric::places`].
    pub fn places_by_host(&self) -> Vec<(&str, Vec<NodeId>)> {
        let mut hosts: Vec<(&str, Vec<NodeId>)> = Vec::new();
        let mut index = std::collections::HashMap::new();
        for place in self.places() {
            let host = self.node(place).host.as_str();
            let at = *index.entry(host).or_insert_with(|| {
                hosts.push((host, Vec::new()));
                hosts.len() - 1
            });
            hosts[at].1.push(place);
        }
        hosts
    }

    /// The network alone, without the inside of hosts; ids are the same.
    pub fn network(&self) -> Cow<'_, Self> {
        let Some(inside) = self.inside() else {
            return Cow::Borrowed(self);
        };
        let [routers, nodes, links, kinds] = inside.network;
        let ports = self.port_offsets[links] as usize;
        let mut router_index = self.router_index.clone();
        router_index.retain(|_, r| r.index() < routers);
        let mut node_index = self.node_index.clone();
        node_index.retain(|_, n| n.index() < nodes);
        Cow::Owned(Self {
            family: self.family,
            source: self.source.clone(),
            shape: self.shape.clone(),
            routers: self.routers[..routers].to_vec(),
            nodes: self.nodes[..nodes].to_vec(),
            links: self.links[..links].to_vec(),
            kinds: self.kinds[..kinds].to_vec(),
            coords: self.coords.clone(),
            grid: self.grid.clone(),
            ports: self.ports[..ports].to_vec(),
            port_offsets: self.port_offsets[..=links].to_vec(),
            reverse: self.reverse[..links].to_vec(),
            out_links: self.out_links[..self.out_offsets[routers] as usize].to_vec(),
            out_offsets: self.out_offsets[..=routers].to_vec(),
            nodes_of: self.nodes_of[..self.nodes_of_offsets[routers] as usize].to_vec(),
            nodes_of_offsets: self.nodes_of_offsets[..=routers].to_vec(),
            router_index,
            node_index,
            inside: None,
            numbers: Numbers::default(),
        })
    }
}
