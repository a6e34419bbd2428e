//! The directed links at a port of a device.

use super::gemini;
use super::join::{Mismatch, PortMap};
use super::reading::{Layout, Port, Reading};
use super::speakers::virtual_interface;
use hopbyte_fabric::hosts::HostId;
use hopbyte_fabric::{Fabric, LinkId, NodeId, Quantity, RouterId, Side};

/// Location of a layout's device in the fabric.
pub(super) struct Place {
    router: Option<RouterId>,
    node: Option<NodeId>,
    /// Number of its host among the described ones.
    host: Option<HostId>,
    /// The ports of a host with several and another name than theirs.
    ports: Vec<NodeId>,
}

impl Place {
    pub(super) fn of(fabric: &Fabric, layout: &Layout) -> Self {
        let node = node_of(fabric, &layout.node);
        let router = match &layout.coordinate {
            Some(at) => fabric.router_at(at),
            None => node
                .map(|n| fabric.node(n).router)
                .or_else(|| fabric.router_named(&layout.node)),
        };
        let has_gpus = layout.ports.iter().any(|p| matches!(p, Port::Gpu(_)));
        let inside = fabric.inside().filter(|_| has_gpus);
        let host = inside.and_then(|i| i.host_named(&layout.node));
        let is_host = node.is_none() && router.is_none();
        let ports = is_host.then(|| fabric.ports_of_host(&layout.node));
        Self {
            router,
            node,
            host,
            ports: ports.unwrap_or_default(),
        }
    }

    /// The port of a host that is named after its adapter, as descriptions of InfiniBand are: `host mlx5_0`.
    fn by_adapter(&self, fabric: &Fabric, port: &Port) -> Option<NodeId> {
        let Port::Named(name) = port else { return None };
        let (adapter, _) = name.split_once('/')?;
        let last = |n: NodeId| fabric.node(n).name.rsplit(' ').next();
        let mut own = self
            .ports
            .iter()
            .copied()
            .filter(|&n| last(n) == Some(adapter));
        own.next().filter(|_| own.next().is_none())
    }

    /// The port of an interface by its number among those of the host; none if the host has more or fewer ports, or one
    /// that is named after it.
    pub(super) fn by_order(&self, fabric: &Fabric, layout: &Layout, port: &Port) -> Option<NodeId> {
        if self.ports.is_empty() || self.by_adapter(fabric, port).is_some() {
            return None;
        }
        // Each of a host's Cassini NICs is a source of its own, and numbered in the host.
        if let Port::Named(name) = port
            && let Some(number) = name.strip_prefix("cxi").and_then(|n| n.parse().ok())
        {
            return self.ports.get::<usize>(number).copied();
        }
        let is_real =
            |p: &&Port| matches!(p, Port::Named(name) if virtual_interface(name).is_none());
        let interfaces: Vec<&Port> = layout.ports.iter().filter(is_real).collect();
        let number = interfaces.iter().position(|&p| p == port)?;
        let is_whole = interfaces.len() == self.ports.len();
        is_whole.then(|| self.ports[number])
    }

    /// Names of the ports of a host, for one with another number of interfaces: ` (h0-r0 to h0-r7)`; else empty.
    pub(super) fn ports_in_words(&self, fabric: &Fabric) -> String {
        let name = |n: &NodeId| fabric.node(*n).name.as_str();
        let ends = self.ports.first().zip(self.ports.last());
        ends.map_or(String::new(), |(a, z)| {
            format!(" ({} to {})", name(a), name(z))
        })
    }
}

/// The node of a layout. LDMS names sets after the daemon, host and port number: `nid00062_60020`.
pub(super) fn node_of(fabric: &Fabric, name: &str) -> Option<NodeId> {
    fabric.node_named(name).or_else(|| {
        let (host, port) = name.rsplit_once('_')?;
        port.parse::<u16>().ok()?;
        fabric.node_named(host)
    })
}

/// Links of a port: usually one in each direction.
pub(super) struct Links {
    pub(super) arrivals: Vec<LinkId>,
    pub(super) departures: Vec<LinkId>,
}

impl Links {
    const NONE: Self = Self {
        arrivals: Vec::new(),
        departures: Vec::new(),
    };

    /// The departing links and their reverses.
    pub(super) fn leaving(fabric: &Fabric, departures: Vec<LinkId>) -> Self {
        let arrivals = departures.iter().filter_map(|&l| fabric.reverse(l));
        Self {
            arrivals: arrivals.collect(),
            departures,
        }
    }

    /// The link that leaves a router through a port, and its reverse.
    fn by_port(fabric: &Fabric, router: RouterId, port: u16) -> Self {
        let leaves = |&l: &LinkId| fabric.ports(l).iter().any(|p| p.from == port);
        let links = fabric.links_from(router).iter().copied();
        Self::leaving(fabric, links.filter(leaves).take(1).collect())
    }

    pub(super) fn of(
        fabric: &Fabric,
        place: &Place,
        first: &Reading,
        port: &Port,
        map: &PortMap,
    ) -> Self {
        if let Some(link) = mapped(first, port, map) {
            return Self::leaving(fabric, vec![link]);
        }
        if let Port::Named(name) = port
            && let Some(link) = own_link(fabric, place, first, name)
        {
            return Self::leaving(fabric, vec![link]);
        }
        let at_host = |node: NodeId| Self {
            arrivals: vec![fabric.node(node).eject],
            departures: vec![fabric.node(node).inject],
        };
        let on_router = |router: RouterId| fabric.nodes_on(router).first();
        match (port, place.router) {
            (Port::Direction(d), Some(router)) => gemini::links(fabric, router, *d, first),
            (Port::Tile(tile), Some(router)) => {
                let links = Self::by_port(fabric, router, *tile);
                let is_host = links.departures.is_empty() && gemini::is_host_tile(fabric, *tile);
                match on_router(router) {
                    Some(&node) if is_host => Self::router_side(at_host(node)),
                    _ => links,
                }
            }
            (Port::Host, Some(router)) => {
                on_router(router).map_or(Self::NONE, |&n| Self::router_side(at_host(n)))
            }
            (Port::InfiniBand { guid, port }, _) => {
                let by_guid = cabled(fabric, *guid, *port);
                if !by_guid.departures.is_empty() {
                    return by_guid;
                }
                // A fabric without GUIDs may list the switch or the host by name.
                match fabric.router_named(&first.layout.node) {
                    Some(router) => Self::by_port(fabric, router, *port),
                    None => place.node.map_or(Self::NONE, at_host),
                }
            }
            // The name of a switch with one node also finds the node.
            _ if is_unlisted(fabric, first, port) => Self::NONE,
            (Port::Named(_), _) => {
                let by_adapter = || place.by_adapter(fabric, port);
                let by_order = || place.by_order(fabric, &first.layout, port);
                let node = place.node.or_else(by_adapter).or_else(by_order);
                node.map_or(Self::NONE, at_host)
            }
            (Port::Gpu(number), _) => match &nvlinks(fabric, place, *number)[..] {
                &[link] => Self::leaving(fabric, vec![link]),
                _ => Self::NONE,
            },
            _ => Self::NONE,
        }
    }

    /// The same links seen from the router: hosts' injection is the router's arrivals.
    fn router_side(host: Self) -> Self {
        Self {
            arrivals: host.departures,
            departures: host.arrivals,
        }
    }

    pub(super) fn on(&self, side: Side) -> &[LinkId] {
        match side {
            Side::Arrivals => &self.arrivals,
            Side::Departures => &self.departures,
        }
    }

    /// Whether a record has more lanes than the links have, and not more than the links of both directions of the
    /// dimension: machines whose dimension has size two count both under one name (paper 003 prints 48 lanes for X+),
    /// and a fabric in words may be another than the record's. Refuses more.
    pub(super) fn has_both_ways(
        &self,
        fabric: &Fabric,
        first: &Reading,
        port: &Port,
        p: usize,
    ) -> Result<bool, Mismatch> {
        if matches!(port, Port::InfiniBand { .. } | Port::Named(_)) {
            // A fabric in words may list fewer lanes than a cable has.
            return Ok(false);
        }
        let both = if matches!(port, Port::Direction(_)) {
            2
        } else {
            1
        };
        let all: u64 = self
            .departures
            .iter()
            .map(|&l| u64::from(fabric.link(l).lanes))
            .sum();
        let mut more = false;
        let counters = first.layout.counters.iter().enumerate();
        for (i, _) in
            counters.filter(|(_, c)| c.port as usize == p && c.quantity == Quantity::Lanes)
        {
            if let Some(lanes) = first.get(i).filter(|&lanes| lanes > all) {
                more = true;
                if lanes <= both * all {
                    continue;
                }
                return Err(Mismatch {
                    found: format!("{lanes} lanes at {port} of {}", first.layout.node),
                    expected: format!("at most the {all} that the fabric has there"),
                });
            }
        }
        Ok(more)
    }
}

/// Whether a reading is of a switch, whose named ports have links by a map only.
fn is_switch(fabric: &Fabric, first: &Reading) -> bool {
    let source = first.layout.source.as_str();
    (source == super::snmp::SOURCE || source.starts_with(super::gnmi::SOURCE))
        && fabric.router_named(&first.layout.node).is_some()
}

/// Whether a port has no link because no table of ports says where its cable ends.
pub(super) fn is_unlisted(fabric: &Fabric, first: &Reading, port: &Port) -> bool {
    matches!(port, Port::Named(_)) && is_switch(fabric, first)
}

/// Whether a port is one of an InfiniBand switch of the fabric, whose other ports are known by their numbers.
pub(super) fn is_of_switch(fabric: &Fabric, first: &Reading, port: &Port) -> bool {
    let Port::InfiniBand { guid, port } = port else {
        return false;
    };
    let by_guid = fabric.router_named(&format!("0x{guid:016x}"));
    let switch = by_guid.or_else(|| fabric.router_named(&first.layout.node));
    let has_numbers = |&l: &LinkId| !fabric.ports(l).is_empty();
    *port > 0 && switch.is_some_and(|r| fabric.links_from(r).iter().any(has_numbers))
}

/// The link of this name that begins at the place: ports of emulated machines have the names of links.
fn own_link(fabric: &Fabric, place: &Place, first: &Reading, name: &str) -> Option<LinkId> {
    let reporter = &first.layout.node;
    let sender = name.split_once("->").map(|(sender, _)| sender);
    let own = |n: &NodeId| [&fabric.node(*n).name, &fabric.node(*n).host].contains(&reporter);
    let node = sender.and_then(|s| fabric.node_named(s)).filter(own);
    let leave = place.router.into_iter().flat_map(|router| {
        let nodes = fabric.nodes_on(router).iter();
        let ejects = nodes.map(|&n| fabric.node(n).eject);
        fabric.links_from(router).iter().copied().chain(ejects)
    });
    node.map(|n| fabric.node(n).inject)
        .into_iter()
        .chain(leave)
        .find(|&l| fabric.link_name(l) == name)
}

/// The link that the caller's port map assigns to the port.
pub(super) fn mapped(first: &Reading, port: &Port, map: &PortMap) -> Option<LinkId> {
    if map.is_empty() {
        return None;
    }
    map.get(&(first.layout.node.clone(), port.to_string()))
        .copied()
}

/// NVLinks that leave a GPU; none if the fabric does not describe them.
fn nvlinks(fabric: &Fabric, place: &Place, gpu: u16) -> Vec<LinkId> {
    let inside = fabric.inside().zip(place.host);
    inside.map_or_else(Vec::new, |(inside, host)| {
        inside.links_of_place(host, gpu, "NVLink")
    })
}

/// The reason why the series of a GPU's NVLinks have no link.
pub(super) fn without_nvlink(fabric: &Fabric, place: &Place, port: &Port) -> Option<&'static str> {
    let Port::Gpu(gpu) = *port else { return None };
    Some(match nvlinks(fabric, place, gpu).len() {
        0 => {
            "NVLink series of a GPU whose NVLink the fabric does not have (--hosts describes the inside of hosts)"
        }
        _ => "NVLink series of a GPU with NVLinks to several others, of which it is the sum",
    })
}

/// The links of an InfiniBand port: of a switch, or of a node's adapter.
fn cabled(fabric: &Fabric, guid: u64, port: u16) -> Links {
    let name = format!("0x{guid:016x}");
    // Switches first: the name of a switch with one node also matches the node.
    if let Some(router) = fabric.router_named(&name) {
        return Links::by_port(fabric, router, port);
    }
    let node = fabric.node_named(&name).map(|n| fabric.node(n));
    node.map_or(Links::NONE, |node| Links {
        arrivals: vec![node.eject],
        departures: vec![node.inject],
    })
}

/// The share of a port's value for each of its links: bytes, packets and lanes in proportion to capacity or lanes;
/// stalls summed over a direction's tiles give the mean per tile.
pub(super) fn shares(
    fabric: &Fabric,
    links: &[LinkId],
    port: &Port,
    quantity: Quantity,
) -> Vec<f64> {
    if quantity.is_stall() {
        let tiles: f64 = links.iter().map(|&l| gemini::tiles(fabric, l)).sum();
        let summed = matches!(port, Port::Direction(_) | Port::Host);
        return vec![if summed { 1.0 / tiles } else { 1.0 }; links.len()];
    }
    let weight = |&l: &LinkId| match quantity {
        Quantity::Lanes => f64::from(fabric.link(l).lanes),
        _ => fabric.link(l).nominal.0,
    };
    let is_whole = links.len() == 1 || quantity.is_ratio();
    let all: f64 = links.iter().map(weight).sum();
    links
        .iter()
        .map(|l| if is_whole { 1.0 } else { weight(l) / all })
        .collect()
}
