//! Forwarding tables as a subnet manager installs them.

use crate::fabric::Fabric;
use crate::ids::{LinkId, NodeId, RouterId};

/// No entry.
const EMPTY: u16 = u16::MAX;

/// Next hop by router and destination node. Entries are positions in the router's list of outgoing
/// links, two bytes each.
#[derive(Clone, Debug)]
pub struct ForwardingTables {
    nodes: usize,
    next: Vec<u16>,
}

impl ForwardingTables {
    /// Empty tables for a fabric.
    pub fn new(fabric: &Fabric) -> Self {
        let nodes = fabric.nodes().len();
        Self {
            nodes,
            next: vec![EMPTY; nodes * fabric.routers().len()],
        }
    }

    /// Sets the entry of router `at` for node `to`; false when `link` does not leave `at`.
    pub fn set(&mut self, fabric: &Fabric, at: RouterId, to: NodeId, link: LinkId) -> bool {
        match fabric.links_from(at).iter().position(|&l| l == link) {
            Some(position) if position < EMPTY as usize => {
                self.next[at.index() * self.nodes + to.index()] = position as u16;
                true
            }
            _ => false,
        }
    }

    /// The entry of router `at` for node `to`.
    #[inline]
    pub fn next(&self, fabric: &Fabric, at: RouterId, to: NodeId) -> Option<LinkId> {
        let position = *self.next.get(at.index() * self.nodes + to.index())?;
        fabric.links_from(at).get(position as usize).copied()
    }

    /// Number of filled entries.
    pub fn entries(&self) -> usize {
        self.next.iter().filter(|&&e| e != EMPTY).count()
    }
}
