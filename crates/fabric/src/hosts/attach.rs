//! Adding the inside of hosts to a fabric.

use super::inside::{Inside, NO, NONE, Seat, Unit};
use super::rails::rails;
use super::ways::Ways;
use super::{HostKind, HostsRecord, Local, UnitSpec};
use crate::bounds::{CAPACITY, MAX_LATENCY, MAX_LINKS, MAX_NODES, MAX_ROUTERS};
use crate::builder::reverse_links;
use crate::error::FabricError;
use crate::fabric::{End, Fabric, Kind, Link, Node, Router};
use crate::ids::{KindId, LinkId, NodeId, RouterId};
use crate::numbers::Numbers;
use crate::units::{BytesPerSecond, Seconds};
use std::collections::HashSet;
use std::sync::Arc;

/// Largest number of ends in a unit: routes between all pairs of places are stored.
pub(super) const MAX_ENDS: usize = 2048;
/// Largest number of links in a unit.
const MAX_INNER_LINKS: usize = 1 << 15;

#[expect(
    clippy::needless_pass_by_value,
    reason = "numbers and literals are passed as they are"
)]
pub(super) fn wrong(
    what: impl Into<String>,
    found: impl ToString,
    expected: impl Into<String>,
) -> FabricError {
    FabricError::OutOfRange {
        what: what.into(),
        found: found.to_string(),
        expected: expected.into(),
    }
}

impl Fabric {
    /// The fabric with described hosts: inner routers, places and links are appended.
    ///
    /// # Errors
    /// Hosts that are already described, a structure that is not consistent, ports that are not endpoints of the
    /// fabric or are used twice, names that exist already.
    pub fn with_hosts(mut self, hosts: HostsRecord) -> Result<Self, FabricError> {
        if self.inside.is_some() {
            return Err(wrong(
                "hosts",
                "a fabric with described hosts",
                "each host once",
            ));
        }
        hosts.kinds.iter().try_for_each(check_kind)?;
        self.check_units(&hosts)?;
        let network = [
            self.routers.len(),
            self.nodes.len(),
            self.links.len(),
            self.kinds.len(),
        ];
        let rails = self.rails_of_units(&hosts.kinds, &hosts.units);
        let mut inside = Inside {
            rule: hosts.rule,
            kinds: hosts
                .kinds
                .into_iter()
                .map(|k| (k.clone(), Ways::of(&k)))
                .collect(),
            units: Vec::with_capacity(hosts.units.len()),
            seats: Vec::new(),
            network,
        };
        for (spec, rails) in hosts.units.into_iter().zip(rails) {
            self.add_unit(&mut inside, spec, rails)?;
        }
        for number in hosts.down {
            let links = self.links.len() - network[2];
            let link = self.links.get_mut(network[2] + number as usize);
            let expected = format!("one of {links} inner links");
            let link = link.ok_or_else(|| wrong("inner link that is down", number, expected))?;
            link.lanes_in_service = 0;
        }
        self.index_inside(&inside)?;
        inside.seats = seats(&self, &inside);
        self.inside = Some(Arc::new(inside));
        self.reverse = reverse_links(&self);
        self.numbers = Numbers::default();
        Ok(self)
    }

    /// The endpoints of every host: those with a host name in common, or if every endpoint has its own, `size`
    /// consecutive ones, which are renamed `h3-r0` of host `h3`.
    ///
    /// # Errors
    /// Hosts of unequal size, or endpoints that `size` does not divide.
    pub(crate) fn grouped(
        &mut self,
        size: u16,
        source: &str,
    ) -> Result<Vec<(String, Vec<NodeId>)>, FabricError> {
        let hosts: Vec<(String, Vec<NodeId>)> = self
            .places_by_host()
            .into_iter()
            .map(|(name, nodes)| (name.to_owned(), nodes))
            .collect();
        let size = usize::from(size);
        if size == 0 || hosts.iter().any(|h| h.1.len() > 1) {
            return match hosts.iter().find(|h| size > 0 && h.1.len() != size) {
                None => Ok(hosts),
                Some((_, nodes)) => {
                    let found = format!("{} endpoints a host", nodes.len());
                    Err(wrong(source, found, format!("{size}, one for each GPU")))
                }
            };
        }
        if !self.nodes.len().is_multiple_of(size) {
            let found = format!("{} endpoints", self.nodes.len());
            return Err(wrong(source, found, format!("whole hosts of {size}")));
        }
        if size == 1 {
            return Ok(hosts);
        }
        let all: Vec<NodeId> = self.node_ids().collect();
        let mut renamed = Vec::new();
        for (h, nodes) in all.chunks(size).enumerate() {
            for (r, &node) in nodes.iter().enumerate() {
                let name = format!("h{h}-r{r}");
                let old = std::mem::replace(&mut self.nodes[node.index()].name, name.clone());
                self.nodes[node.index()].host = format!("h{h}");
                self.node_index.remove(&old);
                self.node_index.insert(name, node);
            }
            renamed.push((format!("h{h}"), nodes.to_vec()));
        }
        Ok(renamed)
    }

    fn check_units(&self, hosts: &HostsRecord) -> Result<(), FabricError> {
        let mut taken = vec![false; self.nodes.len()];
        let (mut routers, mut nodes, mut links) = (0usize, 0usize, 0usize);
        for unit in &hosts.units {
            let name = || format!("host {}", unit.hosts.first().map_or("?", String::as_str));
            let kind = hosts.kinds.get(unit.kind as usize).ok_or_else(|| {
                wrong(name(), format!("kind {}", unit.kind), "a kind of the list")
            })?;
            if unit.hosts.len() != usize::from(kind.hosts) || unit.ports.len() != kind.ports.len() {
                let found = format!("{} hosts, {} ports", unit.hosts.len(), unit.ports.len());
                let expected = format!("{} and {} of {}", kind.hosts, kind.ports.len(), kind.name);
                return Err(wrong(name(), found, expected));
            }
            for &port in &unit.ports {
                match taken.get_mut(port.index()) {
                    Some(used) if !*used => *used = true,
                    _ => return Err(wrong(name(), port, "endpoints of the network, each once")),
                }
            }
            routers += kind.routers.len();
            nodes += kind.own.len();
            links += kind.links.len();
        }
        for (what, count, most) in [
            ("routers", self.routers.len() + routers, MAX_ROUTERS),
            ("nodes", self.nodes.len() + nodes, MAX_NODES),
            ("links", self.links.len() + links, MAX_LINKS),
        ] {
            if count as u64 > most {
                return Err(wrong(
                    what,
                    count,
                    format!("at most {most}, inside of hosts included"),
                ));
            }
        }
        Ok(())
    }

    /// The rail of every port of each unit.
    fn rails_of_units(&self, kinds: &[HostKind], units: &[UnitSpec]) -> Vec<Vec<u16>> {
        let mut hosts: Vec<(&str, Vec<NodeId>)> = Vec::new();
        // By unit, the host and position of every port.
        let mut seats: Vec<Vec<(usize, usize)>> = Vec::new();
        for unit in units {
            let first = hosts.len();
            hosts.extend(unit.hosts.iter().map(|h| (h.as_str(), Vec::new())));
            let on = &kinds[unit.kind as usize].ports;
            let seat = |(&port, &on): (&NodeId, &u16)| {
                let host = first + usize::from(on);
                hosts[host].1.push(port);
                (host, hosts[host].1.len() - 1)
            };
            seats.push(unit.ports.iter().zip(on).map(seat).collect());
        }
        let hosts: Vec<(&str, &[NodeId])> = hosts.iter().map(|h| (h.0, &h.1[..])).collect();
        let rails = rails(&hosts, |n| self.nodes[n.index()].name.as_str());
        let of_unit = |unit: Vec<(usize, usize)>| unit.iter().map(|s| rails[s.0].0[s.1]).collect();
        seats.into_iter().map(of_unit).collect()
    }

    fn add_unit(
        &mut self,
        inside: &mut Inside,
        spec: UnitSpec,
        rails: Vec<u16>,
    ) -> Result<(), FabricError> {
        let kind = &inside.kinds[spec.kind as usize].0;
        let unit = Unit {
            first_own: self.nodes.len() as u32,
            first_router: self.routers.len() as u32,
            first_link: self.links.len() as u32,
            spec,
            rails,
        };
        for (&port, &host) in unit.spec.ports.iter().zip(&kind.ports) {
            self.nodes[port.index()]
                .host
                .clone_from(&unit.spec.hosts[usize::from(host)]);
        }
        for name in &kind.routers {
            self.routers.push(Router {
                name: format!("{} {name}", unit.spec.hosts[0]),
            });
        }
        for link in &kind.links {
            let kind = self.inner_kind(&link.kind)?;
            self.links.push(Link {
                from: unit.end(link.from),
                to: unit.end(link.to),
                kind,
                direction: None,
                nominal: BytesPerSecond(link.capacity_bytes_per_s),
                latency: Seconds(link.latency_seconds),
                lanes: 1,
                lanes_in_service: 1,
            });
        }
        for (number, own) in kind.own.iter().enumerate() {
            let place = Local::Place(number as u16);
            let host = &unit.spec.hosts[usize::from(own.host)];
            let Some((router, inject, eject)) = host_links(kind, place) else {
                return Err(wrong(&own.name, "no link to a router", "one, and one back"));
            };
            self.nodes.push(Node {
                name: format!("{host} {}", own.name),
                host: host.clone(),
                nid: None,
                router: RouterId(unit.first_router + u32::from(router)),
                inject: unit.link(inject),
                eject: unit.link(eject),
            });
        }
        inside.units.push(unit);
        Ok(())
    }

    /// The kind of inner links of a name; they are no hops.
    fn inner_kind(&mut self, name: &str) -> Result<KindId, FabricError> {
        let first = self.kinds.iter().position(|k| k.name == name && k.onboard);
        let taken = self.kinds.iter().any(|k| k.name == name && !k.onboard);
        let name = if taken {
            format!("inner {name}")
        } else {
            name.to_owned()
        };
        let first = first.or_else(|| self.kinds.iter().position(|k| k.name == name));
        if let Some(at) = first {
            return Ok(KindId::of(at));
        }
        if self.kinds.len() >= usize::from(u16::MAX) {
            return Err(wrong(
                "kinds of link",
                self.kinds.len(),
                "fewer than 65,535",
            ));
        }
        self.kinds.push(Kind {
            name,
            onboard: true,
        });
        Ok(KindId::of(self.kinds.len() - 1))
    }

    /// Extends the indices of ends and names by the inside.
    fn index_inside(&mut self, inside: &Inside) -> Result<(), FabricError> {
        let [routers, nodes, links, _] = inside.network;
        let ports = self.port_offsets.last().copied().unwrap_or(0);
        self.port_offsets.resize(self.links.len() + 1, ports);
        let mut out: Vec<Vec<LinkId>> = vec![Vec::new(); self.routers.len() - routers];
        for (at, link) in self.links.iter().enumerate().skip(links) {
            if let End::Router(r) = link.from {
                out[r.index() - routers].push(LinkId::of(at));
            }
        }
        let mut on: Vec<Vec<NodeId>> = vec![Vec::new(); self.routers.len() - routers];
        for (at, node) in self.nodes.iter().enumerate().skip(nodes) {
            on[node.router.index() - routers].push(NodeId::of(at));
        }
        for (out, on) in out.into_iter().zip(on) {
            self.out_links.extend(out);
            self.out_offsets.push(self.out_links.len() as u32);
            self.nodes_of.extend(on);
            self.nodes_of_offsets.push(self.nodes_of.len() as u32);
        }
        for (at, router) in self.routers.iter().enumerate().skip(routers) {
            if self
                .router_index
                .insert(router.name.clone(), RouterId::of(at))
                .is_some()
            {
                let (what, name) = ("router", router.name.clone());
                return Err(FabricError::DuplicateName { what, name });
            }
        }
        for (at, node) in self.nodes.iter().enumerate().skip(nodes) {
            if self
                .node_index
                .insert(node.name.clone(), NodeId::of(at))
                .is_some()
            {
                let (what, name) = ("node", node.name.clone());
                return Err(FabricError::DuplicateName { what, name });
            }
        }
        let mut hosts = HashSet::new();
        let names = inside.units.iter().flat_map(|u| &u.spec.hosts);
        for name in names {
            if !hosts.insert(name.as_str()) {
                let (what, name) = ("host", name.clone());
                return Err(FabricError::DuplicateName { what, name });
            }
        }
        // A host's name means all its places.
        let nodes = &self.nodes;
        self.node_index
            .retain(|name, id| !hosts.contains(name.as_str()) || nodes[id.index()].name == *name);
        Ok(())
    }
}

impl Unit {
    fn end(&self, local: Local) -> End {
        match local {
            Local::Port(p) => End::Node(self.spec.ports[usize::from(p)]),
            Local::Place(p) => End::Node(NodeId(self.first_own + u32::from(p))),
            Local::Router(r) => End::Router(RouterId(self.first_router + u32::from(r))),
        }
    }
}

/// First router of a place, and its links to it and back.
fn host_links(kind: &HostKind, place: Local) -> Option<(u16, u16, u16)> {
    let numbered = || kind.links.iter().zip(0u16..);
    numbered().find_map(|(link, inject)| match link.to {
        Local::Router(router) if link.from == place => {
            let back = |l: &crate::hosts::InnerLink| l.from == link.to && l.to == place;
            let eject = numbered().find(|(l, _)| back(l))?.1;
            Some((router, inject, eject))
        }
        _ => None,
    })
}

/// Rejects a structure with ends out of range or values out of bounds.
fn check_kind(kind: &HostKind) -> Result<(), FabricError> {
    let bad = |what: &str, found: &dyn std::fmt::Display, expected: &str| {
        Err(wrong(format!("{what} of {}", kind.name), found, expected))
    };
    let ends = kind.ports.len() + kind.own.len() + kind.routers.len();
    if ends > MAX_ENDS || kind.links.len() > MAX_INNER_LINKS {
        let found = format!("{ends} with {} links", kind.links.len());
        let expected = format!("at most {MAX_ENDS} with {MAX_INNER_LINKS} links");
        return bad("ends", &found, &expected);
    }
    let hosts = kind.hosts;
    let on = kind
        .ports
        .iter()
        .copied()
        .chain(kind.own.iter().map(|o| o.host));
    if hosts == 0 || on.clone().any(|h| h >= hosts) {
        return bad("hosts", &hosts, "a host for every port and place");
    }
    let known = |end: Local| match end {
        Local::Port(p) => usize::from(p) < kind.ports.len(),
        Local::Place(p) => usize::from(p) < kind.own.len(),
        Local::Router(r) => usize::from(r) < kind.routers.len(),
    };
    let mut seen = HashSet::new();
    for &place in &kind.places {
        let is_place = !matches!(place, Local::Router(_)) && known(place);
        if !is_place || !seen.insert(place) {
            return bad(
                "places",
                &format!("{place:?}"),
                "ports and own places, each once",
            );
        }
    }
    let order: Vec<Option<u16>> = kind.places.iter().map(|&p| kind.host_of(p)).collect();
    let all = (0..kind.own.len() as u16).all(|p| seen.contains(&Local::Place(p)));
    if kind.places.is_empty() || !order.is_sorted() || !all {
        return bad("places", &kind.places.len(), "all own places, host by host");
    }
    for link in &kind.links {
        if !known(link.from) || !known(link.to) || link.from == link.to {
            return bad(
                "link",
                &format!("{:?} to {:?}", link.from, link.to),
                "two ends of the unit",
            );
        }
        if !(CAPACITY.0..=CAPACITY.1).contains(&link.capacity_bytes_per_s) {
            return bad(
                "capacity",
                &link.capacity_bytes_per_s,
                "a rate from 1e-6 to 1e18 B/s",
            );
        }
        if !(0.0..=MAX_LATENCY).contains(&link.latency_seconds) {
            return bad("latency", &link.latency_seconds, "a time from 0 to 1e6 s");
        }
    }
    check_ways(kind)
}

/// Every place that is no port needs ways to a port and back, and to the places that share its port.
fn check_ways(kind: &HostKind) -> Result<(), FabricError> {
    let ways = Ways::of(kind);
    let bad = |place: usize, found: &str, expected: &str| {
        Err(wrong(
            format!("place {place} of {}", kind.name),
            found,
            expected,
        ))
    };
    for place in 0..kind.places.len() {
        let near = ways.near(place);
        let both = near != NO
            && ways.out.get(place, usize::from(near)).is_some()
            && ways.into.get(usize::from(near), place).is_some();
        if !both && !kind.ports.is_empty() {
            return bad(
                place,
                "no way to a port and back",
                "inner links to a port of its host",
            );
        }
        let mut beside = (0..kind.places.len()).filter(|&q| ways.near(q) == near);
        if beside.any(|q| ways.between.get(place, q).is_none()) {
            return bad(
                place,
                "no way to a place of its port",
                "inner links between them",
            );
        }
    }
    Ok(())
}

/// The seat of every node.
fn seats(fabric: &Fabric, inside: &Inside) -> Vec<Seat> {
    let none = Seat {
        unit: NONE,
        place: NO,
        port: NO,
    };
    let mut seats = vec![none; fabric.nodes.len()];
    for (number, unit) in inside.units.iter().enumerate() {
        let kind = &inside.kinds[unit.spec.kind as usize].0;
        for (port, node) in unit.spec.ports.iter().enumerate() {
            let seat = &mut seats[node.index()];
            (seat.unit, seat.port) = (number as u32, port as u16);
        }
        for (place, &end) in kind.places.iter().enumerate() {
            let seat = &mut seats[unit.node(end).index()];
            (seat.unit, seat.place) = (number as u32, place as u16);
        }
    }
    seats
}
