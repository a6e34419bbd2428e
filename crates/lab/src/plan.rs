//! Plan of a fabric's namespaces, links, addresses and routes.
//!
//! Each router and each node is a network namespace, and each described host with all its places ([`Seats`]); a cable
//! is a veth pair, shaped at both ends, so that each direction has the capacity of its directed link times a scale.
//! Routes are static, one per router and place, from the fabric's own routing.

use crate::error::{Result, refuse};
use crate::seats::{self, Seats};
use hopbyte_fabric::{End, Fabric, LinkId, NodeId, RouterId, Routing};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Most namespaces of one lab.
pub const MAX_PLACES: usize = 1024;
/// Longest wait of a packet in a shaped queue. Networks of this kind have backpressure and no loss: a queue that
/// overflows in every burst would measure TCP's loss recovery.
const QUEUE: &str = "latency 400ms";

/// Names and rates of a lab.
#[derive(Clone, Debug)]
pub struct Naming {
    /// Prefix of all namespaces.
    pub lab: String,
    /// Bits per second for each byte per second of capacity.
    pub scale: f64,
    /// Namespaces and interfaces of nodes.
    pub seats: Seats,
}

impl Naming {
    /// The names of a fabric's lab.
    pub fn new(lab: &str, scale: f64, fabric: &Fabric) -> Self {
        Self {
            lab: lab.into(),
            scale,
            seats: Seats::of(fabric),
        }
    }

    /// Namespace of a router.
    pub fn router(&self, router: RouterId) -> String {
        format!("{}-r{router}", self.lab)
    }

    /// Namespace of a node; that of a host has the number of its first port.
    pub fn node(&self, node: NodeId) -> String {
        let first = self.seats.home(node).ports.first();
        format!("{}-n{}", self.lab, first.unwrap_or(&node))
    }

    /// Network routers of a fabric: switches inside hosts have no namespace.
    fn routers(fabric: &Fabric) -> impl Iterator<Item = RouterId> {
        fabric.router_ids().take(fabric.network_routers())
    }

    /// The sending end of a link: namespace and interface. Links inside hosts have none.
    pub fn sending_end(&self, fabric: &Fabric, link: LinkId) -> Option<(String, String)> {
        if fabric.is_inner(link) {
            return None;
        }
        let l = fabric.link(link);
        match (l.from, l.to) {
            (End::Router(r), End::Router(_)) => Some((self.router(r), format!("l{link}"))),
            (End::Router(r), End::Node(n)) => Some((self.router(r), format!("n{n}"))),
            (End::Node(n), _) => Some((self.node(n), self.seats.interface(n))),
            _ => None,
        }
    }

    /// Rate of a link in bits per second.
    pub fn rate(&self, fabric: &Fabric, link: LinkId) -> u64 {
        (fabric.link(link).capacity().0 * self.scale).round() as u64
    }
}

/// Numbers of a fabric's routers and nodes, or hosts, in words.
pub fn size(fabric: &Fabric) -> String {
    let routers = fabric.network_routers();
    let (seats, ports) = (Seats::of(fabric), fabric.network_nodes());
    let (homes, places) = (seats.homes().len(), fabric.places().len());
    if fabric.inside().is_none() {
        return format!("{routers} routers and {homes} nodes");
    }
    format!("{routers} routers and {homes} hosts with {ports} ports and {places} places")
}

/// IPv4 address of a node.
pub fn address(node: NodeId) -> String {
    let n = node.0 + 1;
    format!("10.77.{}.{}", n >> 8, n & 255)
}

/// Name of a node, as the operating system accepts it: `h0-gpu2` for the place `h0 gpu2`.
pub fn node_name(fabric: &Fabric, node: NodeId) -> String {
    accepted(&fabric.node(node).name.replace(' ', "-"), node)
}

/// Host name in a node's namespace: the host's, if it is described.
pub fn host_name(fabric: &Fabric, seats: &Seats, node: NodeId) -> String {
    let home = seats.home(node);
    if home.places.len() > 1 || home.ports.len() > 1 {
        return accepted(&fabric.node(node).host, home.ports[0]);
    }
    node_name(fabric, node)
}

fn accepted(name: &str, node: NodeId) -> String {
    let valid = name.len() < 64 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if valid {
        name.to_owned()
    } else {
        format!("n{node}")
    }
}

/// Commands for `ip -batch` and `tc -batch`, by namespace; the empty name is the outer one.
#[derive(Debug, Default)]
pub struct Plan {
    /// All namespaces, routers first.
    pub places: Vec<String>,
    /// Cables, created first.
    pub cables: String,
    /// `ip` commands inside each namespace.
    pub ip: BTreeMap<String, String>,
    /// `tc` commands inside each namespace.
    pub tc: BTreeMap<String, String>,
}

impl Plan {
    /// The plan of a whole fabric.
    pub fn of(fabric: &Fabric, routing: &Routing, naming: &Naming) -> Result<Self> {
        seats::check(fabric)?;
        let homes = naming.seats.homes();
        let count = fabric.network_routers() + homes.len();
        if count > MAX_PLACES {
            refuse!("lab: found {count} routers and hosts, expected at most {MAX_PLACES}");
        }
        let routing = routing.network();
        if !(routing.is_single_path() && routing.is_destination_based()) {
            refuse!(
                "lab: found routing '{}', expected one path a pair that depends on the destination alone\n\
                 hint: choose another with --routing, such as updown",
                routing.describe()
            );
        }
        let mut plan = Self {
            places: (Naming::routers(fabric).map(|r| naming.router(r)))
                .chain(homes.iter().map(|h| naming.node(h.ports[0])))
                .collect(),
            ..Self::default()
        };
        plan.add_cables(fabric, naming)?;
        plan.add_hosts(fabric, naming);
        plan.add_routes(fabric, routing, naming);
        Ok(plan)
    }

    fn add_cables(&mut self, fabric: &Fabric, naming: &Naming) -> Result<()> {
        for link in fabric.link_ids().take(fabric.network_links()) {
            if !fabric.link(link).is_between_routers() {
                continue;
            }
            let Some(back) = fabric.reverse(link) else {
                refuse!(
                    "lab: {} has no link back; cables carry both directions",
                    fabric.link_name(link)
                );
            };
            if link < back {
                let ends = [link, back].map(|l| naming.sending_end(fabric, l));
                self.cable(fabric, naming, [link, back], &ends);
            }
        }
        for node in fabric.node_ids().take(fabric.network_nodes()) {
            let n = fabric.node(node);
            // Hosts that share one link on the real router have one each here, of the same capacity.
            let ends = [
                Some((naming.node(node), naming.seats.interface(node))),
                Some((naming.router(n.router), format!("n{node}"))),
            ];
            self.cable(fabric, naming, [n.inject, n.eject], &ends);
        }
        Ok(())
    }

    /// A veth pair. Both ends have the same hardware address and no address resolution, so that routes can
    /// name the interface alone.
    fn cable(
        &mut self,
        fabric: &Fabric,
        naming: &Naming,
        links: [LinkId; 2],
        ends: &[Option<(String, String)>; 2],
    ) {
        let [Some((near, out)), Some((far, back))] = &ends else {
            return;
        };
        let _ = writeln!(
            self.cables,
            "link add {out} netns {near} type veth peer name {back} netns {far}"
        );
        let serial = self.cables.len() as u32;
        let mac = format!(
            "02:77:{:02x}:{:02x}:{:02x}:{:02x}",
            serial >> 24,
            serial >> 16 & 255,
            serial >> 8 & 255,
            serial & 255
        );
        for ((place, interface), link) in ends.iter().flatten().zip(links) {
            let ip = self.ip.entry(place.clone()).or_default();
            let _ = writeln!(ip, "link set dev {interface} address {mac} arp off up");
            let tc = self.tc.entry(place.clone()).or_default();
            let _ = writeln!(
                tc,
                "qdisc add {}",
                shaping(interface, naming.rate(fabric, link))
            );
        }
    }

    fn add_hosts(&mut self, fabric: &Fabric, naming: &Naming) {
        for home in naming.seats.homes() {
            let ip = self.ip.entry(naming.node(home.ports[0])).or_default();
            ip.push_str(&naming.seats.addresses_and_routes(fabric, home));
        }
    }

    fn add_routes(&mut self, fabric: &Fabric, routing: &Routing, naming: &Naming) {
        for (place, route) in routes(fabric, routing, naming) {
            let ip = self.ip.entry(place).or_default();
            let _ = writeln!(ip, "route add {route}");
        }
    }
}

/// All static routes: namespace of the router, and `ADDRESS/32 dev INTERFACE`.
pub fn routes(fabric: &Fabric, routing: &Routing, naming: &Naming) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let (network, routing) = (fabric.network(), routing.network());
    for router in Naming::routers(fabric) {
        for place in fabric.places() {
            let port = naming.seats.port(place);
            let interface = if fabric.node(port).router == router {
                format!("n{port}")
            } else {
                match routing.next_link(&network, router, port) {
                    Ok(link) => format!("l{link}"),
                    Err(_) => continue,
                }
            };
            all.push((
                naming.router(router),
                format!("{}/32 dev {interface}", address(place)),
            ));
        }
    }
    all
}

/// The shaping of an interface, after `qdisc add` or `qdisc change`. The bucket holds the bytes of
/// 2 ms, and at least four full frames.
pub fn shaping(interface: &str, bits_per_second: u64) -> String {
    let burst = (bits_per_second / 8 / 500).max(6400);
    format!("dev {interface} root tbf rate {bits_per_second}bit burst {burst} {QUEUE}")
}

/// Parses a rate option, such as `50mbit`, `1gbit`, `800kbit`, as bits per second.
pub fn rate(option: &str, text: &str) -> Result<f64> {
    let Some(rate) = parse_rate(text) else {
        refuse!("{option}: found '{text}', expected a rate such as 50mbit");
    };
    Ok(rate)
}

fn parse_rate(text: &str) -> Option<f64> {
    let digits = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let number: f64 = text[..digits]
        .parse()
        .ok()
        .filter(|v: &f64| *v > 0.0 && v.is_finite())?;
    let unit = match text[digits..].to_ascii_lowercase().as_str() {
        "" | "bit" => 1.0,
        "kbit" => 1e3,
        "mbit" => 1e6,
        "gbit" => 1e9,
        _ => return None,
    };
    Some(number * unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopbyte_fabric::spec;

    #[test]
    fn a_torus_has_a_pair_a_cable_and_a_route_a_router_and_node() {
        let m = spec::machine("torus:2x2x8:nodes=2").unwrap();
        let naming = Naming::new("t", 50e6 / 12.5e9, &m.fabric);
        let plan = Plan::of(&m.fabric, &m.routing, &naming).unwrap();
        assert_eq!(plan.places.len(), 32 + 64);
        // 32 routers with two links each way in three dimensions, rings of two joined twice; 64 nodes.
        assert_eq!(plan.cables.lines().count(), 32 * 3 + 64);
        let routes: usize = plan
            .ip
            .values()
            .map(|ip| ip.matches("/32 dev").count())
            .sum();
        assert_eq!(routes, 32 * 64 + 64);
        assert!(plan.tc["t-r0"].contains("dev l0 root tbf rate 50000000bit"));
        let many = spec::machine("aries:2x2x4").unwrap();
        assert!(
            Plan::of(&many.fabric, &many.routing, &naming)
                .unwrap_err()
                .to_string()
                .contains("--routing")
        );
    }

    #[test]
    fn rates_are_read() {
        assert_eq!(parse_rate("50mbit"), Some(50e6));
        assert_eq!(parse_rate("1.5Gbit"), Some(1.5e9));
        assert_eq!(
            parse_rate("0mbit")
                .or(parse_rate("x"))
                .or(parse_rate("5mbyte")),
            None
        );
    }
}
