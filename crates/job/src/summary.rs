//! Numbers of a machine, as `fabric show` prints them.

use crate::machine::Machine;
use hopbyte_fabric::hosts::{HostsSummary, Inside};
use hopbyte_fabric::{Family, Shape};
use serde::Serialize;
use std::collections::BTreeMap;

/// Parts of a machine, counted.
#[derive(Serialize)]
pub struct MachineSummary<'a> {
    schema: &'static str,
    /// Source of the description.
    pub source: &'a str,
    family: Family,
    shape: Option<&'a Shape>,
    /// Routing, described.
    pub routing: String,
    /// Routers of the network.
    pub routers: usize,
    /// Endpoints of the network.
    pub nodes: usize,
    /// Described hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<HostsSummary>,
    /// Directed links that are hops.
    pub links: usize,
    /// Host links that are no hops.
    pub host_links: usize,
    /// Link ends of the description.
    pub ports: usize,
    /// Connected parts.
    pub components: usize,
    /// Links by kind.
    pub kinds: BTreeMap<&'a str, KindSummary>,
    notes: &'a [String],
}

/// Links of one kind.
#[derive(Serialize)]
pub struct KindSummary {
    /// Number of directed links.
    pub links: usize,
    /// Their most frequent capacity.
    pub capacity_bytes_per_s: f64,
    /// Whether they are hops.
    pub hop: bool,
}

impl<'a> MachineSummary<'a> {
    /// Counts the parts of a machine.
    pub fn of(machine: &'a Machine) -> Self {
        let (fabric, routing) = (&machine.fabric, &machine.routing);
        let links = fabric.link_ids().filter(|&l| fabric.is_hop(l)).count();
        let onboard = |kind: &str| fabric.kinds().iter().any(|k| k.name == kind && k.onboard);
        let kinds = fabric.kind_summary().into_iter();
        Self {
            schema: "hopbyte.fabric/1",
            source: fabric.source(),
            family: fabric.family(),
            shape: fabric.shape(),
            routing: routing.describe(),
            routers: fabric.network_routers(),
            nodes: fabric.network_nodes(),
            hosts: fabric.inside().map(Inside::summary),
            links,
            host_links: fabric.network_links() - links,
            ports: fabric.port_count(),
            components: fabric.components(),
            notes: &machine.notes,
            kinds: kinds
                .map(|(kind, (links, capacity))| {
                    let row = KindSummary {
                        links,
                        capacity_bytes_per_s: capacity.0,
                        hop: !onboard(kind),
                    };
                    (kind, row)
                })
                .collect(),
        }
    }
}
