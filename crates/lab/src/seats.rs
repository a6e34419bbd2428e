//! Where a fabric's nodes are in a lab: namespaces, interfaces and addresses.
//!
//! A node has a namespace of its own, with one shaped interface. A described host is one namespace with an interface
//! for each of its ports, and an address for each of its places. Bytes between two places of a host use the loopback
//! device, which is not shaped. All others leave by the port that the fabric's rule gives: routes inside the namespace
//! choose it by the addresses of source and target.

use crate::error::{Result, refuse};
use crate::plan::address;
use hopbyte_fabric::hosts::{Inside, PortRule};
use hopbyte_fabric::{Fabric, NodeId};
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

/// Routing table of a host's first place; the others follow.
const FIRST_TABLE: usize = 1000;
/// Priority of the tables of places: after the main table (32,766), which has the routes that all places share.
const AFTER_MAIN: usize = 40_000;
/// Priority of the table of sockets that are bound to no address, where the target does not choose the port: that of the
/// first place.
const UNBOUND: usize = 50_000;

/// A namespace of nodes.
#[derive(Clone, Debug, Default)]
pub struct Home {
    /// Places with an address, in the host's order.
    pub places: Vec<NodeId>,
    /// Endpoints of the network, in the order of their interfaces.
    pub ports: Vec<NodeId>,
}

/// Position of every node.
#[derive(Clone, Debug)]
pub struct Seats {
    /// By node: number of its namespace.
    home: Vec<usize>,
    homes: Vec<Home>,
    /// By node: its endpoint of the network.
    port: Vec<NodeId>,
}

impl Seats {
    /// The positions of a fabric's nodes. Places of a host that only the network joins are nodes like any others.
    pub fn of(fabric: &Fabric) -> Self {
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        let mut seats = Self {
            home: Vec::new(),
            homes: Vec::new(),
            port: Vec::new(),
        };
        let joined = joined_hosts(fabric);
        for node in fabric.node_ids() {
            let next = seats.homes.len();
            let home = match joined.get(fabric.node(node).host.as_str()) {
                Some(true) => *numbers.entry(&fabric.node(node).host).or_insert(next),
                _ => next,
            };
            if home == next {
                seats.homes.push(Home::default());
            }
            seats.home.push(home);
            seats
                .port
                .push(fabric.inside().map_or(node, |i| i.port_of(node)));
            if node.index() < fabric.network_nodes() {
                seats.homes[home].ports.push(node);
            }
        }
        for place in fabric.places() {
            seats.homes[seats.home[place.index()]].places.push(place);
        }
        seats
    }

    /// All namespaces of nodes.
    pub fn homes(&self) -> &[Home] {
        &self.homes
    }

    /// All places with their namespaces.
    pub fn addressed(&self) -> impl Iterator<Item = (&Home, NodeId)> {
        let homes = self.homes.iter();
        homes.flat_map(|home| home.places.iter().map(move |&place| (home, place)))
    }

    /// The namespace of a node.
    pub fn home(&self, node: NodeId) -> &Home {
        &self.homes[self.home[node.index()]]
    }

    /// Whether bytes between two nodes stay inside a namespace.
    pub fn together(&self, a: NodeId, b: NodeId) -> bool {
        self.home[a.index()] == self.home[b.index()]
    }

    /// The endpoint of the network nearest to a node.
    pub fn port(&self, node: NodeId) -> NodeId {
        self.port[node.index()]
    }

    /// The interface of a node's nearest endpoint.
    pub fn interface(&self, node: NodeId) -> String {
        let port = self.port(node);
        let at = self.home(port).ports.iter().position(|&p| p == port);
        format!("eth{}", at.unwrap_or(0))
    }

    /// Commands for `ip -batch` in a host's namespace: addresses of its places, and the routes by which they leave.
    pub fn addresses_and_routes(&self, fabric: &Fabric, home: &Home) -> String {
        let mut text = String::new();
        for &place in &home.places {
            let (address, interface) = (address(place), self.interface(place));
            let _ = writeln!(text, "addr add {address}/32 dev {interface}");
        }
        let Some(&first) = home.places.first() else {
            return text;
        };
        let src = address(first);
        let Some(inside) = fabric.inside().filter(|_| home.ports.len() > 1) else {
            let _ = writeln!(text, "route add default dev eth0 src {src}");
            return text;
        };
        let leaving: Vec<BTreeMap<NodeId, NodeId>> = (home.places.iter())
            .map(|&place| self.exceptions(fabric, inside, place))
            .collect();
        let shared = |to: &NodeId, by: &NodeId| leaving.iter().all(|l| l.get(to) == Some(by));
        for (&to, &by) in leaving[0].iter().filter(|(to, by)| shared(to, by)) {
            // Gloo binds no address when it connects, and answers come back by the port of the one it gets.
            let beside = home.places.iter().find(|&&place| self.port(place) == by);
            let (to, interface) = (address(to), self.interface(by));
            let src = address(*beside.unwrap_or(&first));
            let _ = writeln!(text, "route add {to}/32 dev {interface} src {src}");
        }
        for (k, (&place, leaving)) in home.places.iter().zip(&leaving).enumerate() {
            let (from, table, interface) = (address(place), FIRST_TABLE + k, self.interface(place));
            let _ = writeln!(
                text,
                "route add default dev {interface} src {from} table {table}\n\
                 rule add from {from} lookup {table} priority {AFTER_MAIN}"
            );
            for (&to, &by) in leaving.iter().filter(|(to, by)| !shared(to, by)) {
                let (to, interface) = (address(to), self.interface(by));
                let _ = writeln!(text, "route add {to}/32 dev {interface} table {table}");
            }
        }
        let _ = writeln!(text, "rule add lookup {FIRST_TABLE} priority {UNBOUND}");
        text
    }

    /// The ports by which bytes from a place leave to places of other hosts, where the rule looks at the target.
    fn exceptions(
        &self,
        fabric: &Fabric,
        inside: &Inside,
        from: NodeId,
    ) -> BTreeMap<NodeId, NodeId> {
        let mut leaving = BTreeMap::new();
        if inside.rule() == PortRule::Nearest {
            return leaving;
        }
        for to in fabric.places() {
            if self.together(from, to) || inside.unit_of(to).is_none() {
                continue;
            }
            inside.legs(from, to, |leg| {
                leaving.extend(leg.ports.map(|(port, _)| (to, port)));
            });
        }
        leaving
    }
}

/// Described hosts, and whether inner links join their places.
fn joined_hosts(fabric: &Fabric) -> HashMap<&str, bool> {
    let Some(inside) = fabric.inside() else {
        return HashMap::new();
    };
    let hosts = fabric.places_by_host().into_iter();
    hosts
        .filter(|(_, places)| inside.unit_of(places[0]).is_some())
        .map(|(host, places)| {
            let is_port = |p: &NodeId| p.index() < fabric.network_nodes();
            let alone = places.len() > 1 && !inside.is_joined(places[0], places[1]);
            (host, !(alone && places.iter().all(is_port)))
        })
        .collect()
}

/// Refuses hosts that namespaces cannot stand for.
pub(crate) fn check(fabric: &Fabric) -> Result<()> {
    let Some(inside) = fabric.inside() else {
        return Ok(());
    };
    if inside.rule() == PortRule::Striped {
        refuse!(
            "lab: found hosts whose bytes are striped over all ports, expected one port a connection\n\
             hint: choose the rule nearest or rail, as in hosts=mi300x/rail"
        );
    }
    let hosts = Seats::of(fabric);
    if let Some(home) = hosts.homes().iter().find(|h| h.ports.is_empty()) {
        let place = home.places.first().map(|&p| fabric.node(p).name.clone());
        refuse!(
            "lab: found {} on a host without a port, expected a way into the network",
            place.unwrap_or_default()
        );
    }
    for unit in inside.units() {
        if let [first, second, ..] = &unit.hosts[..] {
            refuse!(
                "lab: found {first} and {second} joined by links inside, expected hosts that only the network joins\n\
                 hint: a kind without a domain of several hosts, such as gh200-quad for gb200-nvl72"
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Naming, Plan};
    use hopbyte_fabric::spec;

    const NETWORK: &str = "fattree:down=2x8,up=1x1,rails=4,link=50,hosts=";

    fn plan(hosts: &str) -> Result<Plan> {
        let machine = spec::machine(&format!("{NETWORK}{hosts}")).unwrap();
        let naming = Naming::new("t", 1.0, &machine.fabric);
        Plan::of(&machine.fabric, &machine.routing, &naming)
    }

    /// Interface of host 0 for an address of a place of another host.
    fn interfaces(plan: &Plan, table: &str) -> Vec<String> {
        let lines = plan.ip["t-n0"].lines();
        let routes = lines.filter(|l| l.starts_with("route add") && l.ends_with(table));
        routes
            .filter_map(|l| l.split_whitespace().nth(4))
            .map(str::to_owned)
            .collect()
    }

    #[test]
    fn a_host_is_one_namespace_and_the_rule_chooses_the_port() {
        let rail = plan("gh200-quad").unwrap();
        // Nine switches and four hosts; eight links between switches and sixteen of ports.
        assert_eq!((rail.places.len(), rail.cables.lines().count()), (13, 24));
        // Twelve places of other hosts, each by its own rail.
        let shared = rail.ip["t-n0"].matches("/32 dev eth").count();
        assert_eq!(shared, 4 + 12);
        for k in 0..4 {
            assert_eq!(
                interfaces(&rail, &format!("table {}", FIRST_TABLE + k)),
                [format!("eth{k}")]
            );
        }
        // By the nearest port every place has one route.
        let nearest = plan("gh200-quad/nearest").unwrap();
        assert_eq!(nearest.ip["t-n0"].matches("/32 dev eth").count(), 4);
        // Chips that only the network joins are nodes.
        assert_eq!(plan("tpu-v4").unwrap().places.len(), 9 + 16);
    }

    #[test]
    fn striped_hosts_and_domains_of_several_are_refused() {
        for (hosts, word) in [
            ("gh200-quad/striped", "striped"),
            ("gb200-nvl72", "joined by links inside"),
        ] {
            assert!(plan(hosts).unwrap_err().to_string().contains(word));
        }
    }
}
