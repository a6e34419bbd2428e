//! Forwarding tables as installed by a subnet manager.

use crate::fabric::Fabric;
use crate::ids::{LinkId, NodeId, RouterId};

/// Next hop by router and destination node. An entry is an index into the router's list of outgoing links: one byte
/// if no router has more than 255 of them, otherwise two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForwardingTables {
    nodes: usize,
    next: Entries,
}

/// Indices plus one, router by router; 0 is no entry, so that empty tables take no memory until they are filled.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Entries {
    Bytes(Vec<u8>),
    Words(Vec<u16>),
}

impl ForwardingTables {
    /// Empty tables for a fabric.
    pub fn new(fabric: &Fabric) -> Self {
        let nodes = fabric.nodes().len();
        let size = nodes * fabric.routers().len();
        let most = fabric.router_ids().map(|r| fabric.links_from(r).len());
        let next = if most.max().unwrap_or(0) <= usize::from(u8::MAX) {
            Entries::Bytes(vec![0; size])
        } else {
            Entries::Words(vec![0; size])
        };
        Self { nodes, next }
    }

    /// Sets the entry of router `at` for node `to`; returns false if `link` does not leave `at`.
    pub fn set(&mut self, fabric: &Fabric, at: RouterId, to: NodeId, link: LinkId) -> bool {
        position(fabric, at, link).is_some_and(|p| self.set_position(at, to, p))
    }

    /// Sets an entry by its [`position`], for readers with one lookup per port; returns false if it is too large.
    #[inline]
    pub fn set_position(&mut self, at: RouterId, to: NodeId, position: u16) -> bool {
        let index = at.index() * self.nodes + to.index();
        let Some(value) = position.checked_add(1) else {
            return false;
        };
        match &mut self.next {
            Entries::Bytes(all) => u8::try_from(value).is_ok_and(|v| {
                all[index] = v;
                true
            }),
            Entries::Words(all) => {
                all[index] = value;
                true
            }
        }
    }

    /// The entry of router `at` for node `to`.
    #[inline]
    pub fn next(&self, fabric: &Fabric, at: RouterId, to: NodeId) -> Option<LinkId> {
        let position = self.position(at, to)?;
        fabric.links_from(at).get(usize::from(position)).copied()
    }

    /// The same as an index into the router's outgoing links.
    #[inline]
    pub fn position(&self, at: RouterId, to: NodeId) -> Option<u16> {
        let index = at.index() * self.nodes + to.index();
        match &self.next {
            Entries::Bytes(all) => u16::from(*all.get(index)?),
            Entries::Words(all) => *all.get(index)?,
        }
        .checked_sub(1)
    }

    /// The row of a router: indices plus one by node, 0 for none.
    pub(crate) fn row(&self, at: RouterId, out: &mut Vec<u16>) {
        let range = at.index() * self.nodes..(at.index() + 1) * self.nodes;
        out.clear();
        match &self.next {
            Entries::Bytes(all) => out.extend(all[range].iter().map(|&v| u16::from(v))),
            Entries::Words(all) => out.extend_from_slice(&all[range]),
        }
    }

    /// Writes a row of [`ForwardingTables::row`]; returns false if a value is too large.
    pub(crate) fn set_row(&mut self, fabric: &Fabric, at: RouterId, row: &[u16]) -> bool {
        let most = row.iter().copied().max().unwrap_or(0);
        if usize::from(most) > fabric.links_from(at).len() || row.len() != self.nodes {
            return false;
        }
        let range = at.index() * self.nodes..(at.index() + 1) * self.nodes;
        match &mut self.next {
            Entries::Bytes(all) => {
                all[range]
                    .iter_mut()
                    .zip(row)
                    .for_each(|(to, &v)| *to = v as u8);
            }
            Entries::Words(all) => all[range].copy_from_slice(row),
        }
        true
    }

    /// Number of filled entries.
    pub fn entries(&self) -> usize {
        match &self.next {
            Entries::Bytes(all) => all.iter().filter(|&&e| e != 0).count(),
            Entries::Words(all) => all.iter().filter(|&&e| e != 0).count(),
        }
    }
}

/// Index of a link among the outgoing links of a router; `None` if it is not one of them.
pub fn position(fabric: &Fabric, at: RouterId, link: LinkId) -> Option<u16> {
    // The list is in id order: the builder groups links in the order of addition.
    let position = fabric.links_from(at).binary_search(&link).ok()?;
    u16::try_from(position).ok().filter(|&p| p < u16::MAX)
}
