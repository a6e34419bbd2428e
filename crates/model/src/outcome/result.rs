//! The outcome of a scenario.

use super::throttled::ThrottleEvent;
use crate::engine::loads::Loads;
use crate::engine::network::{Network, Resource};
use crate::engine::packet::TileCounters;
use crate::question::level::Level;
use hopbyte_fabric::wire::OneWay;
use hopbyte_fabric::{End, Fabric, Increase, LinkId, Quantity};
use serde::{Deserialize, Serialize};

/// Schema string of every outcome.
pub const SCHEMA: &str = "hopbyte.outcome/1";

/// Result of a model for a [`crate::Scenario`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// `SCHEMA`.
    pub schema: String,
    /// The scenario's name.
    pub name: String,
    /// Level of detail.
    pub level: Level,
    /// Source of the network's rates and delays.
    pub calibration: String,
    /// Completion time of the job; for [`Level::Static`] the bound.
    pub time_seconds: f64,
    /// Lower bound of the time for the job's bytes: the most loaded resource's bytes over its capacity.
    pub bound_seconds: f64,
    /// That resource.
    pub bound_resource: String,
    /// Transfers that shared the network.
    pub flows: u64,
    /// Packets times routers on their way, at packet level.
    #[serde(default)]
    pub packet_hops: u64,
    /// Bytes of data that crossed the network.
    pub network_bytes: f64,
    /// Bottlenecks by the bytes that they held back, largest first.
    pub held_back: Vec<HeldBack>,
    /// Events of congestion protection, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub throttled: Vec<ThrottleEvent>,
    /// Load of every link with traffic.
    pub links: Vec<LinkOutcome>,
    /// The counters of the tiles, at packet level on Gemini.
    #[serde(skip)]
    pub tiles: Vec<TileCounters>,
}

/// A kind of resource and its share of the bytes held back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldBack {
    /// Kind of link with its dimension, `injection`, `ejection`, `memory`, or `nothing`.
    pub by: String,
    /// Share of all bytes.
    pub share: f64,
}

/// Load of one link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkOutcome {
    /// Name.
    pub link: String,
    /// Its number in the fabric.
    pub id: u32,
    /// Kind.
    pub kind: String,
    /// Direction on the grid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// Capacity at the operating point.
    pub capacity_bytes_per_s: f64,
    /// Bytes on the wire.
    pub bytes: f64,
    /// Packets and phits.
    pub load: OneWay,
    /// Bytes over the bytes that it could have carried in the time.
    pub used_ratio: f64,
    /// Share of the time that arrivals waited; `null` if the level does not model it.
    pub input_stall_ratio: Option<f64>,
    /// Share of the time that departures lacked credits.
    pub credit_stall_ratio: Option<f64>,
}

impl Outcome {
    /// Links with traffic, busiest first.
    pub(crate) fn list_links(
        network: &Network<'_>,
        loads: &Loads,
        seconds: f64,
    ) -> Vec<LinkOutcome> {
        let fabric = network.fabric;
        let mut links: Vec<LinkOutcome> = fabric
            .link_ids()
            .filter(|id| loads.links[id.index()] != OneWay::default())
            .map(|id| {
                let load = loads.links[id.index()];
                let capacity = network.capacity_of(id);
                let used = load.bytes() / (capacity * seconds);
                LinkOutcome {
                    link: fabric.link_name(id),
                    id: id.0,
                    kind: fabric.kind(id).name.clone(),
                    direction: fabric.link(id).direction.map(|d| d.to_string()),
                    capacity_bytes_per_s: capacity,
                    bytes: load.bytes(),
                    load,
                    used_ratio: if seconds > 0.0 { used } else { 0.0 },
                    input_stall_ratio: None,
                    credit_stall_ratio: None,
                }
            })
            .collect();
        links.sort_by(|a, b| b.used_ratio.total_cmp(&a.used_ratio).then(a.id.cmp(&b.id)));
        links
    }

    /// The job's main bottleneck and its share of the bytes held back: a kind of link, `injection`,
    /// `ejection`, `memory`; `nothing` if the job waits for itself. At levels that do not record
    /// bottlenecks, the kind of the busiest link and its use.
    pub fn binds(&self) -> (&str, f64) {
        let most = self.held_back.first().map(|h| (h.by.as_str(), h.share));
        let busiest = self.links.first().map(|l| (l.kind.as_str(), l.used_ratio));
        most.or(busiest).unwrap_or(("nothing", 0.0))
    }

    /// Adds the loads of other jobs to the links.
    pub(crate) fn add_others(&mut self, network: &Network<'_>, job: &Loads, others: &Loads) {
        let mut all = job.clone();
        all.merge(others);
        self.links = Self::list_links(network, &all, self.time_seconds);
    }

    /// The tiles' counters by the names of the Gemini performance counter daemon, a line each:
    /// `ROUTER GM_r_c_TILE_PERFORMANCE_COUNTERS_k N` (paper 000, Table I and Fig. 1).
    pub fn registers(&self, fabric: &Fabric) -> String {
        let mut lines = String::new();
        for tile in &self.tiles {
            let router = &fabric.router(tile.router).name;
            for (k, value) in tile.values.iter().enumerate() {
                lines.push_str(&format!("{router} {} {value}\n", tile.gpcd_name(k)));
            }
        }
        lines
    }

    /// The outcome as an increase of the machine's counters. Links without traffic are zero; stalls
    /// are present if the level models them. At packet level routers count arrivals: those at nodes are missing.
    pub fn snapshot(&self, fabric: &Fabric) -> Increase {
        let mut snapshot = Increase::new(fabric, format!("model: {}", self.name));
        snapshot.window_seconds = Some(self.time_seconds).filter(|&s| s > 0.0);
        let is_unread = |link: LinkId| {
            let to = fabric.link(link).to;
            self.level == Level::Packet && matches!(to, End::Node(_) | End::Hosts(_))
        };
        for link in fabric.link_ids().filter(|&l| !is_unread(l)) {
            snapshot.set(Quantity::ReceivedBytes, link, 0.0);
            snapshot.set(Quantity::ReceivedPackets, link, 0.0);
        }
        for carried in &self.links {
            let link = LinkId(carried.id);
            snapshot.set(Quantity::ReceivedBytes, link, carried.bytes);
            snapshot.set(Quantity::ReceivedPackets, link, carried.load.packets());
            let ns = |ratio: f64| ratio * self.time_seconds * 1e9;
            if let Some(ratio) = carried.input_stall_ratio {
                snapshot.set(Quantity::InputStallNs, link, ns(ratio));
            }
            if let Some(ratio) = carried.credit_stall_ratio {
                snapshot.set(Quantity::CreditStallNs, link, ns(ratio));
            }
        }
        snapshot
    }
}

/// Name of the kind of a resource, for users.
pub(crate) fn sort_of(network: &Network<'_>, resource: Option<u32>) -> String {
    match resource.map(|r| network.resource(r)) {
        Some(Resource::Link(link)) => network.fabric.kind(link).name.clone(),
        Some(Resource::Injection(_) | Resource::InjectionTogether(_)) => "injection".into(),
        Some(Resource::Ejection(_) | Resource::EjectionTogether(_)) => "ejection".into(),
        Some(Resource::Memory(_)) => "memory".into(),
        None => "nothing".into(),
    }
}
