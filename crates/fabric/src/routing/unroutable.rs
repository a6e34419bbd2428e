//! Pairs of nodes without a route.

use crate::fabric::{Fabric, Node};
use crate::ids::{NodeId, RouterId};
use thiserror::Error;

/// Why a pair of nodes has no route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dead {
    /// The router has no entry for the destination.
    NoEntry,
    /// The route uses a link that is down or missing.
    NoLink,
    /// The route loops.
    Loop,
    /// The route ends at another node.
    WrongNode,
}

/// A pair of nodes without a route, and the end of the partial route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no route from node {from} to node {to}: {reason:?} at router {at}")]
pub struct Unroutable {
    /// Source.
    pub from: NodeId,
    /// Destination.
    pub to: NodeId,
    /// Last router of the partial route.
    pub at: RouterId,
    /// The reason.
    pub reason: Dead,
}

impl Unroutable {
    /// The same with the machine's names.
    pub fn describe(&self, fabric: &Fabric) -> String {
        let reason = match self.reason {
            Dead::NoEntry => "has no entry for it, or one into a port without a cable",
            Dead::NoLink => "sends it to a link that is down or not cabled",
            Dead::Loop => "is passed twice (a loop)",
            Dead::WrongNode => "delivers it to another node",
        };
        format!(
            "no route from {} to {}: {} {reason}",
            fabric.node(self.from).name,
            fabric.node(self.to).name,
            fabric.router(self.at).name
        )
    }
}

/// Both ends of a pair of different nodes; their host links must be in service.
pub(super) fn hosts_up(
    fabric: &Fabric,
    from: NodeId,
    to: NodeId,
) -> Result<(&Node, &Node), Unroutable> {
    let (source, target) = (fabric.node(from), fabric.node(to));
    let ends = [
        (source.inject, source.router),
        (target.eject, target.router),
    ];
    match ends
        .into_iter()
        .find(|&(link, _)| !fabric.link(link).is_up())
    {
        Some((_, at)) => Err(Unroutable {
            from,
            to,
            at,
            reason: Dead::NoLink,
        }),
        None => Ok((source, target)),
    }
}
