//! The described hosts of a fabric, and the position of every node in them.

use super::ways::Ways;
use super::{HostKind, Local, PortRule, UnitSpec};
use crate::ids::{LinkId, NodeId};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;

/// No unit.
pub(super) const NONE: u32 = u32::MAX;

/// A unit, with the first of its parts in the fabric.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Unit {
    pub(super) spec: UnitSpec,
    /// The rail of every port.
    pub(super) rails: Vec<u16>,
    pub(super) first_own: u32,
    pub(super) first_router: u32,
    pub(super) first_link: u32,
}

/// Position of a node: its unit, and its number among the unit's places and ports ([`NO`] if it is none).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Seat {
    pub(super) unit: u32,
    pub(super) place: u16,
    pub(super) port: u16,
}

/// Represents "no place" and "no port" in a [`Seat`].
pub(super) const NO: u16 = u16::MAX;

/// A described host: its unit, and its number in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostId {
    unit: u32,
    host: u16,
}

/// The hosts of a fabric.
#[derive(Clone, Debug, PartialEq)]
pub struct Inside {
    pub(super) rule: PortRule,
    pub(super) kinds: Vec<(HostKind, Ways)>,
    pub(super) units: Vec<Unit>,
    pub(super) seats: Vec<Seat>,
    /// Number of routers, nodes, links and kinds of the network.
    pub(super) network: [usize; 4],
}

impl Inside {
    /// Choice of ports.
    pub fn rule(&self) -> PortRule {
        self.rule
    }

    /// Structures of units, by number.
    pub fn kinds(&self) -> impl ExactSizeIterator<Item = &HostKind> {
        self.kinds.iter().map(|k| &k.0)
    }

    /// Units, by number.
    pub fn units(&self) -> impl ExactSizeIterator<Item = &UnitSpec> {
        self.units.iter().map(|u| &u.spec)
    }

    /// Unit of a node; `None` for nodes without an inside.
    pub fn unit_of(&self, node: NodeId) -> Option<u32> {
        self.seats
            .get(node.index())
            .map(|s| s.unit)
            .filter(|&u| u != NONE)
    }

    /// All places of a unit with their hosts' numbers, host by host.
    pub fn places_of(&self, unit: u32) -> impl Iterator<Item = (NodeId, u16)> + '_ {
        let unit = &self.units[unit as usize];
        let kind = &self.kinds[unit.spec.kind as usize].0;
        kind.places
            .iter()
            .map(|&p| (unit.node(p), kind.host_of(p).unwrap_or(0)))
    }

    /// Ports of a unit.
    pub fn ports_of(&self, unit: u32) -> &[NodeId] {
        &self.units[unit as usize].spec.ports
    }

    /// Whether bytes between two nodes stay on inner links.
    #[inline]
    pub fn is_joined(&self, from: NodeId, to: NodeId) -> bool {
        let (a, b) = (self.seats[from.index()], self.seats[to.index()]);
        if a.unit != b.unit || a.unit == NONE || a.place == NO || b.place == NO {
            return false;
        }
        let ways = &self.kinds[self.units[a.unit as usize].spec.kind as usize].1;
        let way = ways.between.get(usize::from(a.place), usize::from(b.place));
        way.is_some()
    }

    /// The nearest port of a place; any other node is its own.
    pub fn port_of(&self, node: NodeId) -> NodeId {
        let seat = self.seats[node.index()];
        if seat.unit == NONE || seat.place == NO {
            return node;
        }
        let unit = &self.units[seat.unit as usize];
        let ways = &self.kinds[unit.spec.kind as usize].1;
        match ways.near(usize::from(seat.place)) {
            NO => node,
            port => unit.spec.ports[usize::from(port)],
        }
    }

    /// Whether all places are ports without links between them, so that routes are those of the network.
    pub fn is_transparent(&self) -> bool {
        let alone = |(kind, ways): &(HostKind, Ways)| {
            let count = kind.places.len();
            let joined = |p: usize| (0..count).any(|q| q != p && ways.between.get(p, q).is_some());
            kind.own.is_empty() && !(0..count).any(joined)
        };
        self.kinds.iter().all(alone)
    }

    /// Number of a place in its unit, from 0.
    pub fn number_in_unit(&self, node: NodeId) -> Option<u16> {
        let seat = self.seats.get(node.index());
        seat.map(|s| s.place).filter(|&p| p != NO)
    }

    /// Number of a place on its host: that in the names of GPUs (`gpu3`) if each has one, else its position from 0.
    pub fn number_on_host(&self, node: NodeId) -> Option<u32> {
        let seat = self.seats.get(node.index()).filter(|s| s.place != NO)?;
        let kind = &self.kinds[self.units[seat.unit as usize].spec.kind as usize].0;
        if let Some(number) = kind.named_number(usize::from(seat.place)) {
            return Some(number);
        }
        let host = |p: usize| kind.host_of(kind.places[p]);
        let own = host(usize::from(seat.place));
        let before = (0..usize::from(seat.place)).filter(|&p| host(p) == own);
        Some(before.count() as u32)
    }

    /// The host of a name. All names are searched.
    pub fn host_named(&self, name: &str) -> Option<HostId> {
        let mut units = self.units().zip(0..);
        units.find_map(|(spec, unit)| {
            let host = spec.hosts.iter().position(|h| h == name)?;
            Some(HostId {
                unit,
                host: host as u16,
            })
        })
    }

    /// Links of a kind that leave a place, by its number on its host, from 0.
    pub fn links_of_place(&self, of: HostId, number: u16, link_kind: &str) -> Vec<LinkId> {
        let Some(unit) = self.units.get(of.unit as usize) else {
            return Vec::new();
        };
        let kind = &self.kinds[unit.spec.kind as usize].0;
        let mut places = kind.places.iter().copied();
        let own = places
            .by_ref()
            .filter(|&p| kind.host_of(p) == Some(of.host))
            .nth(usize::from(number));
        let links = kind.links.iter().zip(0..);
        links
            .filter(|(l, _)| Some(l.from) == own && l.kind == link_kind)
            .map(|(_, at)| unit.link(at))
            .collect()
    }

    /// Whether tasks can run on a node: ports that are no places take none.
    pub fn is_place(&self, node: NodeId) -> bool {
        let seat = self.seats.get(node.index());
        seat.is_some_and(|s| s.unit == NONE || s.place != NO)
    }

    /// Whether a node takes one task only.
    pub fn is_exclusive(&self, node: NodeId) -> bool {
        let kind = |unit: u32| &self.kinds[self.units[unit as usize].spec.kind as usize].0;
        self.unit_of(node).is_some_and(|u| kind(u).exclusive)
    }
}

impl Unit {
    /// The node of a place or port.
    pub(super) fn node(&self, end: Local) -> NodeId {
        match end {
            Local::Port(p) => self.spec.ports[usize::from(p)],
            Local::Place(p) | Local::Router(p) => NodeId(self.first_own + u32::from(p)),
        }
    }

    /// A link of the unit.
    #[inline]
    pub(super) fn link(&self, number: u16) -> LinkId {
        LinkId(self.first_link + u32::from(number))
    }
}

/// Numbers of a fabric's described hosts, for output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HostsSummary {
    /// Hosts.
    pub hosts: usize,
    /// Hosts, or sets of hosts, joined by inner links.
    pub units: usize,
    /// Places for tasks.
    pub places: usize,
    /// Ports into the network.
    pub ports: usize,
    /// Directed links inside.
    pub inner_links: usize,
    /// Choice of ports.
    pub port_rule: PortRule,
    /// Names of kinds.
    pub kinds: BTreeSet<String>,
}

impl Inside {
    /// The numbers of hosts, places, ports and links.
    pub fn summary(&self) -> HostsSummary {
        let sum = |count: &dyn Fn(&HostKind) -> usize| {
            let units = self.units.iter();
            units
                .map(|u| count(&self.kinds[u.spec.kind as usize].0))
                .sum()
        };
        HostsSummary {
            hosts: sum(&|k| k.hosts.into()),
            units: self.units.len(),
            places: sum(&|k| k.places.len()),
            ports: sum(&|k| k.ports.len()),
            inner_links: sum(&|k| k.links.len()),
            port_rule: self.rule,
            kinds: self.kinds().map(|k| k.name.clone()).collect(),
        }
    }
}

impl fmt::Display for HostsSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds: Vec<&str> = self.kinds.iter().map(String::as_str).collect();
        write!(
            f,
            "{} ({}): {} places, {} ports, {} inner links; ports: {}",
            self.hosts,
            kinds.join(", "),
            self.places,
            self.ports,
            self.inner_links,
            self.port_rule
        )
    }
}
