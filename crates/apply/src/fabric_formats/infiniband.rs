//! A machine as an InfiniBand subnet: `ibnetdiscover` records, and OpenSM's forwarding tables.
//!
//! `ibsim` reads the first, OpenSM's file engine the second (`opensm -R file -U FILE`), so that any machine can be
//! compared with a real subnet manager.

use super::{Edge, FabricFormat, Vertex, Written, cannot, edges};
use crate::error::ApplyError;
use hopbyte_fabric::infiniband::nearest;
use hopbyte_fabric::units::BytesPerSecond;
use hopbyte_fabric::{Fabric, Link, LinkId, NodeId, RouterId, Routing};
use std::collections::{HashMap, HashSet};
use std::fmt::Write;

/// Largest unicast LID (InfiniBand Architecture Specification 1, 4.1.1).
const LIDS: usize = 0xbfff;
/// Largest port of a switch.
const PORTS: usize = 254;

const SWITCH_GUID: u64 = 0x5000_0000_0000_0000;
const ADAPTER_GUID: u64 = 0xa000_0000_0000_0000;

/// A cabled port.
struct Cable {
    port: u16,
    far: Vertex,
    far_port: u16,
    link: LinkId,
}

/// Ports and cables of every switch, and LIDs.
struct Subnet<'a> {
    fabric: &'a Fabric,
    cables: Vec<Vec<Cable>>,
    /// Whether switches and nodes fit into the unicast LIDs; if not, all LIDs are 0.
    has_lids: bool,
}

impl<'a> Subnet<'a> {
    fn new(fabric: &'a Fabric, format: FabricFormat) -> Result<Self, ApplyError> {
        let all = edges(fabric);
        let numbers = port_numbers(fabric, &all, format)?;
        let mut cables: Vec<Vec<Cable>> = fabric.router_ids().map(|_| Vec::new()).collect();
        for edge in &all {
            let Vertex::Router(router) = edge.from else {
                continue;
            };
            let (ports, back) = (&numbers[&(edge.link, edge.to)], &numbers);
            let reverse = fabric.reverse(edge.link).map(|r| (r, edge.from));
            let far = reverse.and_then(|key| back.get(&key));
            for (i, &port) in ports.iter().enumerate() {
                let far_port = match edge.to {
                    Vertex::Node(_) => 1,
                    Vertex::Router(_) => {
                        let far = far.and_then(|ports| ports.get(i).copied());
                        far.ok_or_else(|| {
                            let name = fabric.link_name(edge.link);
                            cannot(
                                format,
                                format!(
                                    "{name} has no link back, and every cable has both directions"
                                ),
                                "write json or graphml, which can",
                            )
                        })?
                    }
                };
                cables[router.index()].push(Cable {
                    port,
                    far: edge.to,
                    far_port,
                    link: edge.link,
                });
            }
        }
        cables
            .iter_mut()
            .for_each(|list| list.sort_by_key(|c| c.port));
        Ok(Self {
            fabric,
            cables,
            has_lids: fabric.routers().len() + fabric.nodes().len() <= LIDS,
        })
    }

    fn lid(&self, of: Vertex) -> usize {
        match of {
            _ if !self.has_lids => 0,
            Vertex::Router(r) => r.index() + 1,
            Vertex::Node(n) => self.fabric.routers().len() + n.index() + 1,
        }
    }

    fn name(&self, of: Vertex) -> String {
        let name = match of {
            Vertex::Router(r) => &self.fabric.router(r).name,
            Vertex::Node(n) => &self.fabric.node(n).name,
        };
        // Descriptions may hold any character except quotes and line ends.
        let plain = |c: char| if c == '"' || c.is_control() { '\'' } else { c };
        name.chars().map(plain).collect()
    }
}

fn guid(of: Vertex) -> u64 {
    match of {
        Vertex::Router(r) => SWITCH_GUID | (u64::from(r.0) + 1) << 8,
        Vertex::Node(n) => ADAPTER_GUID | (u64::from(n.0) + 1) << 8,
    }
}

/// Cables of a link: one for each pair of ports, at least one.
fn width(fabric: &Fabric, edge: &Edge) -> usize {
    match edge.to {
        Vertex::Router(_) => fabric.ports(edge.link).len().max(1),
        Vertex::Node(_) => 1,
    }
}

/// Ports of every link at its sending router: the machine's own port numbers if they are those of a switch, otherwise
/// counted from 1.
fn port_numbers(
    fabric: &Fabric,
    all: &[Edge],
    format: FabricFormat,
) -> Result<HashMap<(LinkId, Vertex), Vec<u16>>, ApplyError> {
    let mut used: Vec<HashSet<u16>> = fabric.router_ids().map(|_| HashSet::new()).collect();
    let from_router = |e: &&Edge| matches!(e.from, Vertex::Router(_));
    let own = |e: &Edge| {
        fabric
            .ports(e.link)
            .iter()
            .map(|p| p.from)
            .collect::<Vec<u16>>()
    };
    let is_own = all.iter().filter(from_router).all(|edge| {
        let Vertex::Router(router) = edge.from else {
            return true;
        };
        let ports = own(edge);
        let used = &mut used[router.index()];
        ports.len() == width(fabric, edge)
            && ports
                .iter()
                .all(|&p| (1..=PORTS as u16).contains(&p) && used.insert(p))
    });
    let mut next = vec![0u16; fabric.routers().len()];
    let mut numbers = HashMap::with_capacity(all.len());
    for edge in all.iter().filter(from_router) {
        let Vertex::Router(router) = edge.from else {
            continue;
        };
        let ports = if is_own {
            own(edge)
        } else {
            let next = &mut next[router.index()];
            let first = *next + 1;
            *next = next.saturating_add(width(fabric, edge) as u16);
            if usize::from(*next) > PORTS {
                let name = &fabric.router(router).name;
                let why = format!("{name} has more than {PORTS} ports");
                return Err(cannot(format, why, "write json or binary, which can"));
            }
            (first..=*next).collect()
        };
        numbers.insert((edge.link, edge.to), ports);
    }
    Ok(numbers)
}

/// The name of the rate of each of a link's cables, and whether it is close to their capacity.
fn rate(link: &Link, cables: usize) -> (String, bool) {
    let each = BytesPerSecond(link.capacity().0 / cables as f64);
    let lanes = usize::from(link.lanes_in_service);
    let lanes = lanes.is_multiple_of(cables).then_some(lanes / cables);
    // A link of one lane may be one of which the number of lanes is not known.
    let lanes = lanes.filter(|&l| l > 1).and_then(|l| u8::try_from(l).ok());
    let (name, nearest) = nearest(each, lanes);
    (name, (each.0 / nearest.0).ln().abs() < 0.02)
}

/// Writes the subnet.
pub fn subnet(fabric: &Fabric) -> Result<Written, ApplyError> {
    let subnet = Subnet::new(fabric, FabricFormat::Ibnetdiscover)?;
    let mut text = String::new();
    let mut rounded = HashSet::new();
    for (router, cables) in fabric.router_ids().zip(&subnet.cables) {
        let own = Vertex::Router(router);
        let guid_of = guid(own);
        let ports = cables.last().map_or(1, |c| c.port);
        // Writing to a String cannot fail, here and below.
        let _ = write!(
            text,
            "switchguid=0x{guid_of:x}({guid_of:x})\nSwitch\t{ports} \"S-{guid_of:016x}\"\t\t# \"{}\" base port 0 lid {} lmc 0\n",
            subnet.name(own),
            subnet.lid(own)
        );
        for cable in cables {
            let link = fabric.link(cable.link);
            if !link.is_up() {
                continue;
            }
            let ports = match cable.far {
                Vertex::Router(_) => fabric.ports(cable.link).len().max(1),
                Vertex::Node(_) => 1,
            };
            let (rate, near) = rate(link, ports);
            if !near {
                rounded.insert((link.capacity().0 / ports as f64).to_bits());
            }
            let far = guid(cable.far);
            let (letter, port_guid) = match cable.far {
                Vertex::Router(_) => ('S', String::new()),
                Vertex::Node(_) => ('H', format!("({:x})", far + 1)),
            };
            let _ = writeln!(
                text,
                "[{}]\t\"{letter}-{far:016x}\"[{}]{port_guid}\t\t# \"{}\" lid {} {rate}",
                cable.port,
                cable.far_port,
                subnet.name(cable.far),
                subnet.lid(cable.far)
            );
        }
        text.push('\n');
    }
    for (node, port) in node_ports(&subnet) {
        adapter(&mut text, &subnet, node, port);
    }
    let mut lost = vec!["coordinates, latencies and routing are left out".to_owned()];
    if !rounded.is_empty() {
        let count = rounded.len();
        lost.push(format!(
            "{count} capacities were rounded to the nearest InfiniBand rate"
        ));
    }
    if !subnet.has_lids {
        lost.push(format!("no LIDs: InfiniBand has {LIDS} of them"));
    }
    Ok(Written {
        bytes: text.into_bytes(),
        lost,
    })
}

/// The switch port of every node, by node id.
fn node_ports(subnet: &Subnet<'_>) -> Vec<(NodeId, Option<u16>)> {
    let mut ports = vec![None; subnet.fabric.nodes().len()];
    for cable in subnet.cables.iter().flatten() {
        if let Vertex::Node(n) = cable.far {
            ports[n.index()] = Some(cable.port);
        }
    }
    subnet.fabric.node_ids().zip(ports).collect()
}

fn adapter(text: &mut String, subnet: &Subnet<'_>, node: NodeId, port: Option<u16>) {
    let own = Vertex::Node(node);
    let at = subnet.fabric.node(node);
    let router = Vertex::Router(at.router);
    let (guid_of, far) = (guid(own), guid(router));
    let _ = write!(
        text,
        "caguid=0x{guid_of:x}\nCa\t1 \"H-{guid_of:016x}\"\t\t# \"{}\"\n",
        subnet.name(own)
    );
    let link = subnet.fabric.link(at.inject);
    if let Some(port) = port.filter(|_| link.is_up()) {
        let _ = writeln!(
            text,
            "[1]({:x}) \t\"S-{far:016x}\"[{port}]\t\t# lid {} lmc 0 \"{}\" lid {} {}",
            guid_of + 1,
            subnet.lid(own),
            subnet.name(router),
            subnet.lid(router),
            rate(link, 1).0
        );
    }
    text.push('\n');
}

/// Writes the forwarding tables of [`subnet`]'s switches: `opensm-lfts.dump` without comments.
pub fn tables(fabric: &Fabric, routing: &Routing) -> Result<Written, ApplyError> {
    let format = FabricFormat::Lfts;
    let instead = "name a routing with one, such as --routing updown";
    if !routing.is_destination_based() || !routing.is_single_path() {
        let why = format!(
            "a table has one path from a switch to a node, and the machine routes by {}",
            routing.describe()
        );
        return Err(cannot(format, why, instead));
    }
    let subnet = Subnet::new(fabric, format)?;
    if !subnet.has_lids {
        let why = format!("InfiniBand has {LIDS} LIDs for nodes and switches");
        return Err(cannot(
            format,
            why,
            "write binary, which holds tables of any size",
        ));
    }
    let last = fabric.routers().len() + fabric.nodes().len();
    let mut bytes = Vec::new();
    for router in fabric.router_ids() {
        let mut port_of: HashMap<(LinkId, Option<NodeId>), u16> = HashMap::new();
        for cable in subnet.cables[router.index()].iter().rev() {
            let node = match cable.far {
                Vertex::Node(n) => Some(n),
                Vertex::Router(_) => None,
            };
            port_of.insert((cable.link, node), cable.port);
        }
        table(&mut bytes, &subnet, routing, router, &port_of, last);
    }
    Ok(Written::whole(bytes))
}

fn table(
    bytes: &mut Vec<u8>,
    subnet: &Subnet<'_>,
    routing: &Routing,
    router: RouterId,
    port_of: &HashMap<(LinkId, Option<NodeId>), u16>,
    last: usize,
) {
    let own = Vertex::Router(router);
    let heading = format!(
        "Unicast lids [0x0-0x{last:x}] of switch Lid {} guid 0x{:016x} ('{}'):\n",
        subnet.lid(own),
        guid(own),
        subnet.name(own)
    );
    bytes.extend(heading.as_bytes());
    let mut lines = 0;
    for node in subnet.fabric.node_ids() {
        let Ok(link) = routing.next_link(subnet.fabric, router, node) else {
            continue;
        };
        let port = port_of
            .get(&(link, None))
            .or_else(|| port_of.get(&(link, Some(node))));
        if let Some(port) = port {
            entry(bytes, subnet.lid(Vertex::Node(node)), *port);
            lines += 1;
        }
    }
    bytes.extend(format!("{lines} valid lids dumped\n\n").as_bytes());
}

/// `0x0001 036`, without the formatting machinery: there are tens of millions of entries.
fn entry(bytes: &mut Vec<u8>, lid: usize, port: u16) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let hex = |shift: usize| HEX[lid >> shift & 15];
    let digit = |by: u16| b'0' + (port / by % 10) as u8;
    bytes.extend([b'0', b'x', hex(12), hex(8), hex(4), hex(0), b' ']);
    bytes.extend([digit(100), digit(10), digit(1), b'\n']);
}
