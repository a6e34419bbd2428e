//! A machine at an operating point: the limits of a transfer and its route.

use crate::fluid::Use;
use crate::parameters::{OperatingPoint, Parameters};
use crate::question::computing::Computing;
use hopbyte_fabric::bounds::CAPACITY;
use hopbyte_fabric::wire::Wire;
use hopbyte_fabric::{End, Fabric, LinkId, NodeId, RouterId, Routing, Unroutable};

/// No resource.
const NONE: u32 = u32::MAX;

/// Fabric, routing and rates together. Resources are numbered: links with a limit, then the injection
/// of every node, the ejection of every node, the memory of every node.
#[derive(Clone, Debug)]
pub struct Network<'a> {
    /// The machine.
    pub fabric: &'a Fabric,
    /// Routing of all bytes.
    pub routing: &'a Routing,
    /// Rates and delays.
    pub parameters: &'a Parameters,
    /// Operating point.
    pub point: OperatingPoint,
    /// Time of computing.
    pub(crate) computing: Computing,
    /// APRUN_BALANCED_INJECTION, 1 to 100, if set.
    pub balanced_injection: Option<f64>,
    capacities: Vec<f64>,
    /// Resource of a link, if it has a limit.
    of_link: Vec<u32>,
    link_of: Vec<LinkId>,
    injections: u32,
    ejections: u32,
    memories: u32,
    /// Joint injection and ejection of all nodes of each router.
    together_in: u32,
    together_out: u32,
}

/// Kind of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// A directed link.
    Link(LinkId),
    /// Injection of a node.
    Injection(NodeId),
    /// Ejection of a node.
    Ejection(NodeId),
    /// A node's memory.
    Memory(NodeId),
    /// Joint injection of all nodes of a router.
    InjectionTogether(RouterId),
    /// Joint ejection of all nodes of a router.
    EjectionTogether(RouterId),
}

/// Path of one transfer.
#[derive(Clone, Debug, Default)]
pub struct Way {
    /// Capacity of every resource taken for each byte of data.
    pub uses: Vec<Use>,
    /// Time until the first byte arrives on an idle network.
    pub latency_s: f64,
    shares: Vec<(LinkId, f64)>,
    links: Vec<LinkId>,
}

impl<'a> Network<'a> {
    /// Builds the network of a machine. Links that are down have no resource; no route uses them.
    pub fn new(
        fabric: &'a Fabric,
        routing: &'a Routing,
        parameters: &'a Parameters,
        point: OperatingPoint,
    ) -> Self {
        let mut capacities = Vec::with_capacity(fabric.links().len() + 3 * fabric.nodes().len());
        let mut link_of = Vec::with_capacity(fabric.links().len());
        let of_link = fabric
            .link_ids()
            .map(|id| {
                let link = fabric.link(id);
                let hop = fabric.is_hop(id);
                let inner = fabric.is_inner(id);
                if !link.is_up() || !(hop || inner || parameters.host_links) {
                    return NONE;
                }
                let factor = match (hop, inner) {
                    (true, _) => point.link,
                    (_, true) => 1.0,
                    _ => point.injection,
                };
                capacities.push(link.capacity().0 * parameters.link_efficiency * factor);
                link_of.push(id);
                (capacities.len() - 1) as u32
            })
            .collect();
        let nodes = fabric.nodes().len();
        let mut block = |rate: Option<f64>, count: usize| match rate {
            Some(rate) => {
                let start = capacities.len() as u32;
                // Sums over transfers of an unlimited rate (`f64::MAX`) would not be finite.
                capacities.resize(capacities.len() + count, rate.min(CAPACITY.1));
                start
            }
            None => NONE,
        };
        let tuned = |rate: Option<f64>| rate.map(|r| r * point.injection);
        let injections = block(tuned(parameters.injection_bytes_per_s), nodes);
        let ejections = block(tuned(parameters.ejection_bytes_per_s), nodes);
        let memories = block(Some(parameters.memory_bytes_per_s * point.memory), nodes);
        let routers = fabric.routers().len();
        let together_in = block(tuned(parameters.router_bytes_per_s), routers);
        let together_out = block(tuned(parameters.router_bytes_per_s), routers);
        Self {
            fabric,
            routing,
            parameters,
            point,
            computing: Computing::of(&point, 0.0, None, 0),
            balanced_injection: None,
            capacities,
            of_link,
            link_of,
            injections,
            ejections,
            memories,
            together_in,
            together_out,
        }
    }

    /// Capacity of every resource, in bytes per second on its wires (of data for nodes).
    pub fn capacities(&self) -> &[f64] {
        &self.capacities
    }

    /// The resource of a link, if it has a limit.
    pub fn resource_of(&self, link: LinkId) -> Option<u32> {
        let r = self.of_link[link.index()];
        (r != NONE).then_some(r)
    }

    /// The resource of a node's memory.
    pub(crate) fn memory_of(&self, node: NodeId) -> u32 {
        self.memories + node.0
    }

    /// Limits a node's sending and receiving rates, each. No effect without a limit of its own;
    /// links that it shares with others stay as they are.
    pub fn slow_down(&mut self, node: NodeId, bytes_per_s: f64) {
        for start in [self.injections, self.ejections] {
            if start != NONE {
                let capacity = &mut self.capacities[(start + node.0) as usize];
                *capacity = capacity.min(bytes_per_s);
            }
        }
        let fabric = self.fabric;
        for link in [fabric.node(node).inject, fabric.node(node).eject] {
            let r = self.of_link[link.index()];
            let own = matches!(fabric.link(link).from, End::Node(_))
                || matches!(fabric.link(link).to, End::Node(_));
            if r != NONE && own {
                let capacity = &mut self.capacities[r as usize];
                *capacity = capacity.min(bytes_per_s);
            }
        }
    }

    /// Reduces a link to a share of its capacity: lanes out of service, a bad cable.
    pub fn degrade(&mut self, link: LinkId, share: f64) {
        if let Some(resource) = self.resource_of(link) {
            self.capacities[resource as usize] *= share;
        }
    }

    /// Reduces a node's injection to a share of its limit.
    pub(crate) fn throttle(&mut self, node: NodeId, share: f64) {
        if self.injections != NONE {
            self.capacities[(self.injections + node.0) as usize] *= share;
            return;
        }
        if let Some(resource) = self.resource_of(self.fabric.node(node).inject) {
            self.capacities[resource as usize] *= share;
        }
    }

    /// Maximum sending rate of a node, in bytes per second, if anything but its wires limits it.
    pub(crate) fn injection_of(&self, node: NodeId) -> Option<f64> {
        if self.injections != NONE {
            return Some(self.capacities[(self.injections + node.0) as usize]);
        }
        let share = self.host_share(self.fabric.node(node).inject);
        let efficiency = self.parameters.link_efficiency;
        let link = self.capacity_of(self.fabric.node(node).inject) * efficiency;
        (share < 1.0).then_some(share * link)
    }

    /// Receiving rate of a node as a share of a healthy node's.
    pub(crate) fn ejection_share(&self, node: NodeId) -> f64 {
        match self.parameters.ejection_bytes_per_s {
            Some(rate) if self.ejections != NONE => {
                self.capacities[(self.ejections + node.0) as usize] / (rate * self.point.injection)
            }
            _ => self.host_share(self.fabric.node(node).eject),
        }
    }

    /// Remaining share of a host link's capacity.
    fn host_share(&self, link: LinkId) -> f64 {
        let whole = self.capacity_of(link) * self.parameters.link_efficiency;
        let left = self.resource_of(link).map(|r| self.capacities[r as usize]);
        left.map_or(1.0, |left| left / whole)
    }

    /// The resource of a number.
    pub fn resource(&self, index: u32) -> Resource {
        let node = |start: u32| NodeId(index - start);
        match index {
            i if (i as usize) < self.link_of.len() => Resource::Link(self.link_of[i as usize]),
            i if self.together_out != NONE && i >= self.together_out => {
                Resource::EjectionTogether(RouterId(i - self.together_out))
            }
            i if self.together_in != NONE && i >= self.together_in => {
                Resource::InjectionTogether(RouterId(i - self.together_in))
            }
            i if i >= self.memories => Resource::Memory(node(self.memories)),
            i if self.ejections != NONE && i >= self.ejections => {
                Resource::Ejection(node(self.ejections))
            }
            _ => Resource::Injection(node(self.injections)),
        }
    }

    /// Name of a resource for output.
    pub fn resource_name(&self, index: u32) -> String {
        let name = |n: NodeId| self.fabric.node(n).name.clone();
        match self.resource(index) {
            Resource::Link(link) => self.fabric.link_name(link),
            Resource::Injection(n) => format!("{} injection", name(n)),
            Resource::Ejection(n) => format!("{} ejection", name(n)),
            Resource::Memory(n) => format!("{} memory", name(n)),
            Resource::InjectionTogether(r) => {
                format!("{} injection of its nodes", self.fabric.router(r).name)
            }
            Resource::EjectionTogether(r) => {
                format!("{} ejection of its nodes", self.fabric.router(r).name)
            }
        }
    }

    /// Share of its outstanding requests that an interface may use (balanced injection).
    pub(crate) fn injection_share(&self) -> f64 {
        self.balanced_injection.map_or(1.0, |v| v / 100.0)
    }

    /// Raw capacity of a link at this operating point.
    pub(crate) fn capacity_of(&self, link: LinkId) -> f64 {
        let hop = self.fabric.is_hop(link);
        let factor = match (hop, self.fabric.is_inner(link)) {
            (true, _) => self.point.link,
            (_, true) => 1.0,
            _ => self.point.injection,
        };
        self.fabric.link(link).capacity().0 * factor
    }

    /// Packet rate of a link at this operating point.
    pub(crate) fn link_rate(&self, link: LinkId) -> f64 {
        self.capacity_of(link) * self.parameters.link_efficiency
    }

    /// Latency of a hop at this operating point.
    pub(crate) fn hop_latency(&self, link: LinkId) -> f64 {
        let own = self.fabric.link(link).latency.0;
        self.parameters.hop_latency_s.unwrap_or(own) * self.point.latency
    }

    /// Finds the path of messages of `bytes` from one node to another, written into `way`. A node's
    /// messages to itself go through its memory.
    pub fn way(
        &self,
        from: NodeId,
        to: NodeId,
        wire: &Wire,
        bytes: f64,
        way: &mut Way,
    ) -> Result<(), Unroutable> {
        way.uses.clear();
        if from == to {
            way.latency_s = self.parameters.memory_latency_s;
            way.uses.push(Use {
                resource: self.memories + from.0,
                weight: 1.0,
            });
            return Ok(());
        }
        way.latency_s = self.parameters.latency_s * self.point.latency + self.crossing_s(from);
        let together = |start: u32, node: NodeId| Use {
            resource: start + self.fabric.node(node).router.0,
            weight: 1.0,
        };
        if self.together_in != NONE {
            way.uses.push(together(self.together_in, from));
        }
        if self.injections != NONE {
            way.uses.push(Use {
                resource: self.injections + from.0,
                weight: 1.0,
            });
        }
        self.find(from, to, way)?;
        for i in 0..way.shares.len() {
            let (link, share) = way.shares[i];
            way.latency_s += self.hop_latency(link) * share;
        }
        self.add_uses(wire.forward.bytes() / bytes, way);
        let back = wire.backward.bytes() / bytes;
        if back > 0.0 {
            self.find(to, from, way)?;
            self.add_uses(back, way);
        }
        if self.ejections != NONE {
            way.uses.push(Use {
                resource: self.ejections + to.0,
                weight: 1.0,
            });
        }
        if self.together_out != NONE {
            way.uses.push(together(self.together_out, to));
        }
        Ok(())
    }

    /// Additional time of heads, commands and events compared with the full injection bandwidth.
    fn crossing_s(&self, node: NodeId) -> f64 {
        let bytes = self.parameters.host_crossing_bytes;
        if bytes == 0.0 || self.point.injection == 1.0 {
            return 0.0;
        }
        let link = self.fabric.link(self.fabric.node(node).inject).capacity().0;
        let rate = self.parameters.injection_bytes_per_s.unwrap_or(link);
        bytes / rate * (1.0 / self.point.injection - 1.0)
    }

    /// Links from one node to another with their shares of the traffic.
    pub(crate) fn find(&self, from: NodeId, to: NodeId, way: &mut Way) -> Result<(), Unroutable> {
        way.shares.clear();
        if !self.routing.is_single_path() {
            return self.routing.shares(self.fabric, from, to, &mut way.shares);
        }
        way.links.clear();
        self.routing.route(self.fabric, from, to, &mut way.links)?;
        way.shares.extend(way.links.iter().map(|&l| (l, 1.0)));
        Ok(())
    }

    fn add_uses(&self, weight: f64, way: &mut Way) {
        for &(link, share) in &way.shares {
            let resource = self.of_link[link.index()];
            if resource != NONE {
                let weight = (weight * share) as f32;
                way.uses.push(Use { resource, weight });
            }
        }
    }
}

impl Way {
    /// The links that [`Network::find`] found.
    pub(crate) fn shares(&self) -> &[(LinkId, f64)] {
        &self.shares
    }
}
