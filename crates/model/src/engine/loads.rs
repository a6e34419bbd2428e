//! Static loads: exact bytes, phits and packets of static routes on every link, and the time of the
//! most loaded resource.

use crate::network::{Network, Resource, Way};
use hopbyte_fabric::wire::OneWay;
use hopbyte_fabric::{Exchange, Fabric, Increase, LinkId, NodeId, Placement, Quantity, Unroutable};
use rayon::prelude::*;

/// Equal messages from one node to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transfer {
    /// Sender.
    pub from: NodeId,
    /// Receiver.
    pub to: NodeId,
    /// Data of each message.
    pub bytes: f64,
    /// Number of messages.
    pub messages: f64,
}

/// Transfers between the nodes of placed tasks, one for each pair of tasks. Traffic without a message
/// count is one message.
pub fn transfers_of<'a>(
    exchange: &'a Exchange,
    placement: &'a Placement,
) -> impl Iterator<Item = Transfer> + 'a {
    exchange.iter().map(|(task, message)| {
        let messages = message.messages.max(1) as f64;
        Transfer {
            from: placement.node(task),
            to: placement.node(message.to),
            bytes: message.bytes / messages,
            messages,
        }
    })
}

/// Load of every link and node.
#[derive(Clone, Debug, PartialEq)]
pub struct Loads {
    /// Bytes, phits and packets across each link, both kinds of packet, by link id.
    pub links: Vec<OneWay>,
    /// Bytes of data that each node sends to others.
    pub sent_bytes: Vec<f64>,
    /// Bytes of data that each node receives from others.
    pub received_bytes: Vec<f64>,
}

/// The resource with the longest time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worst {
    /// The resource.
    pub resource: u32,
    /// Time for its load: a lower bound for any schedule.
    pub seconds: f64,
}

/// Chunks of transfers are summed separately and added in order, so that the result does not depend on
/// the number of threads.
const CHUNK: usize = 1 << 16;

impl Loads {
    /// Nothing on any link.
    pub fn none(fabric: &Fabric) -> Self {
        Self {
            links: vec![OneWay::default(); fabric.links().len()],
            sent_bytes: vec![0.0; fabric.nodes().len()],
            received_bytes: vec![0.0; fabric.nodes().len()],
        }
    }

    /// Loads of all transfers: requests on the route there, responses on the route back (paper 000,
    /// V.C). A node's transfers to itself cross no link.
    pub fn of(network: &Network<'_>, transfers: &[Transfer]) -> Result<Self, Unroutable> {
        let parts: Vec<Result<Self, Unroutable>> = transfers
            .par_chunks(CHUNK)
            .map(|chunk| {
                let mut loads = Self::none(network.fabric);
                let mut way = Way::default();
                for transfer in chunk {
                    loads.add(network, transfer, &mut way)?;
                }
                Ok(loads)
            })
            .collect();
        let mut total = Self::none(network.fabric);
        for part in parts {
            total.merge(&part?);
        }
        Ok(total)
    }

    fn add(
        &mut self,
        network: &Network<'_>,
        transfer: &Transfer,
        way: &mut Way,
    ) -> Result<(), Unroutable> {
        let Transfer { from, to, .. } = *transfer;
        if from == to {
            return Ok(());
        }
        let wire = network.parameters.protocol.wire(transfer.bytes) * transfer.messages;
        let bytes = transfer.bytes * transfer.messages;
        self.sent_bytes[from.index()] += bytes;
        self.received_bytes[to.index()] += bytes;
        network.find(from, to, way)?;
        self.add_way(way, &wire.forward);
        if wire.backward != OneWay::default() {
            network.find(to, from, way)?;
            self.add_way(way, &wire.backward);
        }
        Ok(())
    }

    fn add_way(&mut self, way: &Way, wire: &OneWay) {
        for &(link, share) in way.shares() {
            self.links[link.index()] += *wire * share;
        }
    }

    /// Multiplies all loads by `times`.
    pub fn scale(&mut self, times: f64) {
        self.links.iter_mut().for_each(|l| *l = *l * times);
        self.sent_bytes.iter_mut().for_each(|b| *b *= times);
        self.received_bytes.iter_mut().for_each(|b| *b *= times);
    }

    /// Adds other loads.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (a, b) in self.links.iter_mut().zip(&other.links) {
            *a += *b;
        }
        for (a, b) in self.sent_bytes.iter_mut().zip(&other.sent_bytes) {
            *a += b;
        }
        for (a, b) in self.received_bytes.iter_mut().zip(&other.received_bytes) {
            *a += b;
        }
    }

    /// Bytes on a resource's wires.
    pub fn bytes_on(&self, network: &Network<'_>, resource: u32) -> f64 {
        let together = |router, bytes: &[f64]| {
            let nodes = network.fabric.nodes_on(router);
            nodes.iter().map(|n| bytes[n.index()]).sum()
        };
        match network.resource(resource) {
            Resource::Link(link) => self.links[link.index()].bytes(),
            Resource::Injection(node) => self.sent_bytes[node.index()],
            Resource::Ejection(node) => self.received_bytes[node.index()],
            Resource::Memory(_) => 0.0,
            Resource::InjectionTogether(router) => together(router, &self.sent_bytes),
            Resource::EjectionTogether(router) => together(router, &self.received_bytes),
        }
    }

    /// The resource with the longest time for its bytes.
    pub fn worst(&self, network: &Network<'_>) -> Option<Worst> {
        let mut worst: Option<Worst> = None;
        for (i, capacity) in network.capacities().iter().enumerate() {
            let resource = i as u32;
            let seconds = self.bytes_on(network, resource) / capacity;
            if seconds > worst.map_or(0.0, |w| w.seconds) {
                worst = Some(Worst { resource, seconds });
            }
        }
        worst
    }

    /// The loads as an increase of the machine's counters over `window_seconds`; stalls are unknown.
    pub fn snapshot(&self, fabric: &Fabric, window_seconds: Option<f64>) -> Increase {
        let mut snapshot = Increase::new(fabric, "model: static loads");
        snapshot.window_seconds = window_seconds;
        for (i, load) in self.links.iter().enumerate() {
            let link = LinkId::of(i);
            snapshot.set(Quantity::ReceivedBytes, link, load.bytes());
            snapshot.set(Quantity::ReceivedPackets, link, load.packets());
        }
        snapshot
    }
}
