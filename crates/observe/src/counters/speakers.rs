//! Selection of the ports that supply a node's link counters: one set of rules for files and live sources.
//!
//! | port | used |
//! |---|---|
//! | of a router (direction, tile, host link), of an adapter (InfiniBand, `cxi0`, `mlx5_0/1`) | yes |
//! | of an adapter, without a lane in service | unless another port of the node has the same link |
//! | network interface (`eth0`, `ib0`, `hsn0`) | if the node has no router or adapter port: an adapter's counters include its interfaces, and other interfaces are not part of the fabric |
//! | NVLinks of a GPU | yes, of links inside the host |
//! | virtual interface ([`virtual_interface`]) | never: a physical interface carries its bytes, or none does |
//!
//! A port that the caller maps to a link is always used. The RDMA part of an Ethernet adapter (`eth2/rdma`) is an
//! interface that adds to `eth2`.

use super::ends::{Links, Place, mapped};
use super::join::PortMap;
use super::reading::{Port, Reading};
use hopbyte_fabric::{Fabric, LinkId, Quantity};
use std::collections::{HashMap, HashSet};

/// Class of the device that a port belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Router,
    Adapter,
    Interface,
    /// Of a link inside the host, beside which the others count as without it.
    Inner,
}

/// Suffix of an interface's name for the RDMA traffic of its adapter.
const RDMA: &str = "/rdma";

/// The port of an Ethernet adapter's RDMA traffic, which its interface's counters do not include.
pub(crate) fn rdma_of(interface: &str) -> Port {
    Port::Named(format!("{interface}{RDMA}"))
}

impl Class {
    pub(super) fn of(port: &Port) -> Self {
        let is_cassini = |name: &str| numbered(name, "cxi");
        match port {
            Port::Direction(_) | Port::Host | Port::Tile(_) => Self::Router,
            Port::InfiniBand { .. } => Self::Adapter,
            Port::Named(name) if name.ends_with(RDMA) => Self::Interface,
            Port::Named(name) if name.contains('/') || is_cassini(name) => Self::Adapter,
            Port::Named(_) => Self::Interface,
            Port::Gpu(_) => Self::Inner,
        }
    }

    /// Whether several sources of a node with such ports share one link's traffic.
    pub(super) fn adds_up(self) -> bool {
        matches!(self, Self::Adapter | Self::Interface)
    }
}

/// Prefixes of the names of virtual interfaces, with a description.
const PREFIXES: [(&str, &str); 30] = [
    ("docker", "container bridge"),
    ("podman", "container bridge"),
    ("cni", "container bridge"),
    ("br-", "bridge"),
    ("virbr", "bridge"),
    ("lxc", "bridge"),
    ("lxd", "bridge"),
    ("ovs-", "bridge"),
    ("veth", "container cable"),
    ("cali", "container cable"),
    ("vnet", "virtual machine's cable"),
    ("flannel", "tunnel"),
    ("cilium", "tunnel"),
    ("vxlan", "tunnel"),
    ("gre", "tunnel"),
    ("ip6tnl", "tunnel"),
    ("kube-", "virtual interface"),
    ("nodelocaldns", "virtual interface"),
    ("macv", "virtual interface"),
    ("ipvl", "virtual interface"),
    ("nerdctl", "container bridge"),
    ("vmbr", "bridge"),
    ("weave", "bridge"),
    ("antrea-gw", "bridge"),
    ("ovn-k8s", "virtual interface"),
    ("genev", "tunnel"),
    ("tailscale", "tunnel"),
    ("ip_vti", "tunnel"),
    ("ip6gre", "tunnel"),
    ("erspan", "tunnel"),
];

/// Prefixes of virtual interfaces with names that end in a number.
const NUMBERED: [(&str, &str); 13] = [
    ("lo", "loopback"),
    ("br", "bridge"),
    ("bond", "bond (its members are counted)"),
    ("team", "team (its members are counted)"),
    ("vlan", "VLAN (its interface is counted)"),
    ("tun", "tunnel"),
    ("tunl", "tunnel"),
    ("tap", "tunnel"),
    ("sit", "tunnel"),
    ("wg", "tunnel"),
    ("dummy", "virtual interface"),
    ("ifb", "virtual interface"),
    ("nlmon", "virtual interface"),
];

/// Description of a virtual interface, by its name; `None` for one with hardware behind it.
pub(crate) fn virtual_interface(name: &str) -> Option<&'static str> {
    let vlan = || name.rsplit_once('.').is_some_and(|(_, id)| digits(id));
    match name {
        "lo" => Some("loopback"),
        _ if vlan() => Some("VLAN (its interface is counted)"),
        _ => {
            let starts = PREFIXES.iter().find(|(start, _)| name.starts_with(start));
            let found = starts.or_else(|| NUMBERED.iter().find(|(stem, _)| numbered(name, stem)));
            found.map(|&(_, what)| what)
        }
    }
}

fn numbered(name: &str, stem: &str) -> bool {
    name.strip_prefix(stem).is_some_and(digits)
}

fn digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Ports of a node's sources that are not used, and ports that two sources share.
pub(super) struct Speakers {
    /// Per source and port: the reason why it is not used.
    refused: Vec<Vec<Option<&'static str>>>,
    /// The first source, by name, that has a port.
    first: HashMap<Port, usize>,
}

/// Properties of a port in the first reading.
#[derive(Clone, Copy, Default)]
struct Facts {
    /// A count of bytes was read.
    counts: bool,
    /// Its lanes were read, and none is in service.
    dead: bool,
}

const BESIDE: &str = "network interface beside a fabric adapter";
const INACTIVE: &str = "adapter port without a link, beside one with a link";

impl Speakers {
    /// Applies the rules to the first readings of all sources of a node.
    pub(super) fn of(fabric: &Fabric, firsts: &[&Reading], map: &PortMap) -> Self {
        let facts: Vec<Vec<Facts>> = firsts.iter().map(|r| facts(r)).collect();
        let each = || {
            let sources = firsts.iter().enumerate();
            sources.flat_map(|(s, r)| {
                r.layout
                    .ports
                    .iter()
                    .enumerate()
                    .map(move |(p, port)| (s, p, port))
            })
        };
        let own = |s: usize, port: &Port| mapped(firsts[s], port, map).is_some();
        let device = each().any(|(s, p, port)| {
            let facts = facts[s][p];
            let is_device = matches!(Class::of(port), Class::Router | Class::Adapter);
            is_device && facts.counts && !facts.dead && !own(s, port)
        });
        let mut refused: Vec<Vec<Option<&'static str>>> =
            facts.iter().map(|f| vec![None; f.len()]).collect();
        for (s, p, port) in each().filter(|&(s, _, port)| !own(s, port)) {
            if let (Port::Named(name), Class::Interface) = (port, Class::of(port)) {
                let name = name.strip_suffix(RDMA).unwrap_or(name);
                refused[s][p] = virtual_interface(name).or(device.then_some(BESIDE));
            }
        }
        let links = |s: usize, port: &Port| {
            let place = &Place::of(fabric, &firsts[s].layout);
            Links::of(fabric, place, firsts[s], port, map).departures
        };
        if facts.iter().flatten().any(|f| f.dead) {
            let live: HashSet<LinkId> = each()
                .filter(|&(s, p, _)| {
                    refused[s][p].is_none() && facts[s][p].counts && !facts[s][p].dead
                })
                .flat_map(|(s, _, port)| links(s, port))
                .collect();
            for (s, p, port) in each().filter(|&(s, p, _)| facts[s][p].dead) {
                let is_adapter = Class::of(port) == Class::Adapter;
                if is_adapter && links(s, port).iter().any(|l| live.contains(l)) {
                    refused[s][p] = Some(INACTIVE);
                }
            }
        }
        let mut order: Vec<usize> = (0..firsts.len()).collect();
        order.sort_by_key(|&s| &firsts[s].layout.source);
        let mut first = HashMap::new();
        for s in order {
            for port in &firsts[s].layout.ports {
                first.entry(port.clone()).or_insert(s);
            }
        }
        Self { refused, first }
    }

    /// The reason why a port is not used.
    pub(super) fn refusal(&self, source: usize, port: usize) -> Option<&'static str> {
        self.refused[source][port]
    }

    /// Whether another source of the node has the same port and precedes this one.
    pub(super) fn is_double(&self, source: usize, port: &Port) -> bool {
        self.first.get(port).is_some_and(|&first| first != source)
    }
}

fn facts(reading: &Reading) -> Vec<Facts> {
    let mut facts = vec![Facts::default(); reading.layout.ports.len()];
    for (i, counter) in reading.layout.counters.iter().enumerate() {
        let (of_port, value) = (&mut facts[counter.port as usize], reading.get(i));
        match counter.quantity {
            Quantity::ReceivedBytes | Quantity::SentBytes => of_port.counts |= value.is_some(),
            Quantity::Lanes => of_port.dead |= value == Some(0),
            _ => {}
        }
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_without_hardware_are_known_by_name() {
        for name in [
            "lo",
            "docker0",
            "br0",
            "br-1a2b",
            "virbr0-nic",
            "bond0",
            "eth0.100",
            "veth12ab",
            "tun3",
            "cni0",
            "calif00",
            "wg0",
            "vlan7",
            "ipvlan0",
            "vmbr0",
            "genev_sys_6081",
            "tailscale0",
            "ifb0",
        ] {
            assert!(virtual_interface(name).is_some(), "{name}");
        }
        for name in [
            "eth0",
            "ib0",
            "hsn0",
            "ens1f0np0",
            "enp3s0",
            "ipogif0",
            "brcm0",
            "longif",
            "bondi",
            "tuna",
        ] {
            assert_eq!(virtual_interface(name), None, "{name}");
        }
        let classes =
            ["cxi0", "mlx5_0/1", "eth2/rdma", "cxigen"].map(|n| Class::of(&Port::Named(n.into())));
        let expected = [
            Class::Adapter,
            Class::Adapter,
            Class::Interface,
            Class::Interface,
        ];
        assert_eq!(classes, expected);
    }
}
