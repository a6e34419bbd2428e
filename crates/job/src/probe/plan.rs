//! The schedule of a probe as `topobw --schedule` reads it.

use super::predicted::{link_name, mode};
use crate::error::Result;
use hopbyte_fabric::{Fabric, NodeId, Routing};
use hopbyte_model::schedule::phases;
use serde::Serialize;
use std::fmt::Write as _;

/// The transfers of a probe: the answer of `hopbyte probe plan`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// Name and version of this form.
    pub schema: &'static str,
    /// In the order in which they are measured.
    pub phases: Vec<PlannedPhase>,
}

/// Transfers that are measured at the same time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedPhase {
    /// Its name.
    pub name: String,
    /// The transfers.
    pub transfers: Vec<Transfer>,
}

/// A transfer between two nodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Transfer {
    /// Sender.
    pub from: String,
    /// Receiver.
    pub to: String,
    /// The link, the router of both, or the nodes.
    pub link: String,
    /// Kind of link.
    pub kind: String,
    /// Whether it shares the link: `exclusive` or `shared`.
    pub mode: &'static str,
}

/// The transfers that cover every link between some nodes ([`phases`]).
///
/// # Errors
/// Every pair of too many nodes would have to be measured.
pub fn plan(fabric: &Fabric, routing: &Routing, nodes: &[NodeId]) -> Result<Plan> {
    let phases = phases(fabric, routing, nodes)?.map(|phase| {
        let transfers = phase.pairs.iter().map(|pair| {
            let [from, to] = [pair.from, pair.to].map(|n| fabric.node(n).name.clone());
            Transfer {
                from,
                to,
                link: link_name(fabric, pair),
                kind: pair.kind.to_string(),
                mode: mode(pair),
            }
        });
        PlannedPhase {
            transfers: transfers.collect(),
            name: phase.name.to_string(),
        }
    });
    Ok(Plan {
        schema: "hopbyte.probe.plan/1",
        phases: phases.collect(),
    })
}

impl Plan {
    /// As `topobw --schedule` reads it.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for phase in &self.phases {
            let _ = writeln!(text, "phase\t{}", phase.name);
            for t in &phase.transfers {
                let (from, to, link, kind) = (&t.from, &t.to, &t.link, &t.kind);
                let _ = writeln!(text, "{from}\t{to}\t{link}\t{kind}\t{}", t.mode);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopbyte_fabric::spec;
    use std::collections::{BTreeMap, BTreeSet};

    fn check(machine: &str) -> BTreeMap<String, usize> {
        let m = spec::machine(machine).unwrap();
        let nodes: Vec<NodeId> = m.fabric.node_ids().collect();
        let text = plan(&m.fabric, &m.routing, &nodes).unwrap().text();
        let mut kinds = BTreeMap::new();
        let (mut senders, mut receivers, mut seen) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for line in text.lines() {
            let cells: Vec<&str> = line.split('\t').collect();
            if cells[0] == "phase" {
                senders.clear();
                receivers.clear();
                continue;
            }
            let router = |n: &str| m.fabric.node(m.fabric.find_node(n).unwrap()).router;
            if cells[3] != "same router" && cells[3] != "between routers" {
                senders.insert(router(cells[0]));
                receivers.insert(router(cells[1]));
                assert!(senders.is_disjoint(&receivers), "{machine}: {line}");
            }
            assert!(
                seen.insert((cells[0].to_owned(), cells[1].to_owned())),
                "{machine}: {line}"
            );
            *kinds.entry(cells[3].to_owned()).or_insert(0) += 1;
        }
        kinds
    }

    #[test]
    fn every_link_of_a_torus_and_every_pair_of_a_tree() {
        let torus = check("torus:3x4:nodes=2");
        assert_eq!(
            torus.values().copied().collect::<Vec<_>>(),
            [12 * 4 * 2, 12 * 2]
        );
        // Rings of two: one of the two cables carries each direction.
        assert_eq!(check("torus:2x2").values().sum::<usize>(), 4 * 2);
        let tree = check("fattree:down=4x3,up=1x2");
        assert_eq!(tree.values().sum::<usize>(), 12 * 11);
    }

    #[test]
    fn pairs_of_too_many_nodes_are_refused() {
        let m = spec::machine("fattree:down=64x65,up=1x64").unwrap();
        let nodes: Vec<NodeId> = m.fabric.node_ids().collect();
        let of = |nodes: &[NodeId]| plan(&m.fabric, &m.routing, nodes);
        let refusal = of(&nodes).unwrap_err().to_string();
        assert!(refusal.contains("4160 nodes"), "{refusal}");
        assert!(of(&nodes[..100]).is_ok());
    }
}
