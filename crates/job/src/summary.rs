//! Numbers of a machine, as `fabric show` prints them.

use crate::machine::Machine;
use hopbyte_fabric::hosts::{HostsSummary, Inside};
use hopbyte_fabric::units::BytesPerSecond;
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
    /// All their capacities, the most frequent first.
    pub capacities: Vec<CapacitySummary>,
    /// Whether they are hops.
    pub hop: bool,
}

/// Links of one kind and capacity.
#[derive(Serialize)]
pub struct CapacitySummary {
    /// Each way.
    pub bytes_per_s: f64,
    /// Number of directed links.
    pub links: usize,
}

impl KindSummary {
    /// A row for each capacity: the links, and the capacity in GB/s. Many different capacities are one row of their range.
    pub fn rows(&self) -> Vec<(usize, String)> {
        const MOST: usize = 6;
        let text = |bytes_per_s: f64| BytesPerSecond(bytes_per_s).gb_text(3);
        let all = || self.capacities.iter().map(|c| c.bytes_per_s);
        if self.capacities.len() > MOST {
            let (least, most) = (all().fold(f64::MAX, f64::min), all().fold(0.0, f64::max));
            return vec![(self.links, format!("{} to {}", text(least), text(most)))];
        }
        let rows = self
            .capacities
            .iter()
            .map(|c| (c.links, text(c.bytes_per_s)));
        rows.collect()
    }
}

impl<'a> MachineSummary<'a> {
    /// Counts the parts of a machine.
    pub fn of(machine: &'a Machine) -> Self {
        let (fabric, routing) = (&machine.fabric, &machine.routing);
        let links = fabric.link_ids().filter(|&l| fabric.is_hop(l)).count();
        let onboard = |kind: &str| fabric.kinds().iter().any(|k| k.name == kind && k.onboard);
        let kinds = fabric.kind_rates().into_iter();
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
                .map(|(kind, rates)| {
                    let capacities = rates.into_iter().map(|(rate, links)| CapacitySummary {
                        bytes_per_s: rate.0,
                        links,
                    });
                    let capacities: Vec<CapacitySummary> = capacities.collect();
                    let row = KindSummary {
                        links: capacities.iter().map(|c| c.links).sum(),
                        capacity_bytes_per_s: capacities.first().map_or(0.0, |c| c.bytes_per_s),
                        capacities,
                        hop: !onboard(kind),
                    };
                    (kind, row)
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(capacities: &[f64]) -> Vec<(usize, String)> {
        let of = |&gb: &f64| CapacitySummary {
            bytes_per_s: gb * 1e9,
            links: 2,
        };
        let kind = KindSummary {
            links: 2 * capacities.len(),
            capacity_bytes_per_s: capacities[0] * 1e9,
            capacities: capacities.iter().map(of).collect(),
            hop: true,
        };
        kind.rows()
    }

    #[test]
    fn a_kind_has_a_row_for_each_capacity_or_their_range() {
        assert_eq!(rows(&[12.5]), [(2, "12.500".to_owned())]);
        let two = [(2, "25.000".to_owned()), (2, "50.000".to_owned())];
        assert_eq!(rows(&[25.0, 50.0]), two);
        let many = [8.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        assert_eq!(rows(&many), [(14, "1.000 to 8.000".to_owned())]);
    }
}
