//! Which way do bytes go from one node to another?
//!
//! A route is a slice of link ids: the injection link, the links between routers, the ejection
//! link. The request of a transaction takes the route from source to target, the response the
//! static route back, which is another one in general (paper 000, V.C); both carry load.

mod dimension_order;
mod minimal;
mod rings;
mod tables;

pub use dimension_order::DimensionOrder;
pub use minimal::MinimalPaths;
pub use tables::ForwardingTables;

use crate::fabric::{End, Fabric};
use crate::ids::{LinkId, NodeId, RouterId};
use thiserror::Error;

/// How a fabric routes.
#[derive(Clone, Debug)]
pub enum Routing {
    /// One dimension after the other, shorter way round (Gemini, SeaStar, Blue Gene).
    DimensionOrder(DimensionOrder),
    /// Next hop by router and destination, as a subnet manager installed it.
    Tables(ForwardingTables),
    /// All shortest paths, traffic split over them.
    Minimal(MinimalPaths),
}

/// Why a pair of nodes has no route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dead {
    /// The router knows no way to the destination.
    NoEntry,
    /// The way leads over a link that is down or not there.
    NoLink,
    /// The way comes back to a router it passed.
    Loop,
    /// The way ends at another node.
    WrongNode,
}

/// A pair of nodes that has no route, and where the route ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no route from node {from} to node {to}: {reason:?} at router {at}")]
pub struct Unroutable {
    /// Source.
    pub from: NodeId,
    /// Destination.
    pub to: NodeId,
    /// Where the route ends.
    pub at: RouterId,
    /// Why.
    pub reason: Dead,
}

impl Unroutable {
    /// The same in the machine's names.
    pub fn describe(&self, fabric: &Fabric) -> String {
        let reason = match self.reason {
            Dead::NoEntry => "has no entry for it",
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

impl Routing {
    /// The routing that a fabric has when no tables are given: dimension order on a torus or mesh,
    /// otherwise all minimal paths.
    pub fn default_for(fabric: &Fabric) -> Self {
        match DimensionOrder::new(fabric) {
            Some(order) => Self::DimensionOrder(order),
            None => Self::Minimal(MinimalPaths::new(fabric)),
        }
    }

    /// One line for people: the name and what is assumed.
    pub fn describe(&self) -> String {
        match self {
            Self::DimensionOrder(order) => order.describe(),
            Self::Tables(_) => "forwarding tables".into(),
            Self::Minimal(_) => {
                "all minimal paths, split by capacity (assumed: no tables given)".into()
            }
        }
    }

    /// Whether every pair has at most one path, so that [`Routing::route`] says everything.
    pub fn is_single_path(&self) -> bool {
        !matches!(self, Self::Minimal(_))
    }

    /// Whether the next hop depends on router and destination alone, so that all routes to a node form
    /// a tree.
    pub fn is_destination_based(&self) -> bool {
        match self {
            Self::DimensionOrder(order) => order.is_one_order(),
            _ => true,
        }
    }

    /// Appends the links from `from` to `to` to `out`; nothing for a node to itself. With several
    /// paths this is the one with the lowest link ids. On error `out` is as before the call.
    pub fn route(
        &self,
        fabric: &Fabric,
        from: NodeId,
        to: NodeId,
        out: &mut Vec<LinkId>,
    ) -> Result<(), Unroutable> {
        let start = out.len();
        let result = self.walk(fabric, from, to, out);
        if result.is_err() {
            out.truncate(start);
        }
        result
    }

    fn walk(
        &self,
        fabric: &Fabric,
        from: NodeId,
        to: NodeId,
        out: &mut Vec<LinkId>,
    ) -> Result<(), Unroutable> {
        if from == to {
            return Ok(());
        }
        let (source, target) = (fabric.node(from), fabric.node(to));
        let dead = |at, reason| Unroutable {
            from,
            to,
            at,
            reason,
        };
        if !fabric.link(source.inject).is_up() {
            return Err(dead(source.router, Dead::NoLink));
        }
        let order = match self {
            Self::DimensionOrder(order) => order.order_of(fabric, from, to)?,
            _ => 0,
        };
        out.push(source.inject);
        let mut at = source.router;
        for _ in 0..=fabric.routers().len() {
            let link = self
                .next_in(fabric, order, at, to)
                .map_err(|reason| dead(at, reason))?;
            if !fabric.link(link).is_up() {
                return Err(dead(at, Dead::NoLink));
            }
            out.push(link);
            match fabric.link(link).to {
                End::Router(next) => at = next,
                _ if link == target.eject => return Ok(()),
                _ => return Err(dead(at, Dead::WrongNode)),
            }
        }
        Err(dead(at, Dead::Loop))
    }

    /// The link that router `at` uses for packets to node `to` (the first of several). Says nothing
    /// about sources that take another order; see [`Routing::is_destination_based`].
    #[inline]
    pub fn next_link(&self, fabric: &Fabric, at: RouterId, to: NodeId) -> Result<LinkId, Dead> {
        self.next_in(fabric, 0, at, to)
    }

    #[inline]
    fn next_in(
        &self,
        fabric: &Fabric,
        order: usize,
        at: RouterId,
        to: NodeId,
    ) -> Result<LinkId, Dead> {
        let target = fabric.node(to);
        match self {
            Self::Tables(tables) => tables.next(fabric, at, to).ok_or(Dead::NoEntry),
            _ if at == target.router => Ok(target.eject),
            Self::DimensionOrder(routing) => routing.next(fabric, order, at, target.router),
            Self::Minimal(minimal) => minimal.next(fabric, at, target.router).ok_or(Dead::NoEntry),
        }
    }

    /// Appends every link that traffic from `from` to `to` uses, with the share of it (1 on single
    /// paths; shares into the destination sum to 1). On error `out` is as before the call.
    pub fn shares(
        &self,
        fabric: &Fabric,
        from: NodeId,
        to: NodeId,
        out: &mut Vec<(LinkId, f32)>,
    ) -> Result<(), Unroutable> {
        if let Self::Minimal(minimal) = self {
            return minimal.shares(fabric, from, to, out);
        }
        let mut links = Vec::new();
        self.route(fabric, from, to, &mut links)?;
        out.extend(links.into_iter().map(|l| (l, 1.0)));
        Ok(())
    }

    /// Hops of the route: links that count as one ([`Fabric::is_hop`]).
    pub fn hops(&self, fabric: &Fabric, from: NodeId, to: NodeId) -> Result<usize, Unroutable> {
        let mut links = Vec::new();
        self.route(fabric, from, to, &mut links)?;
        Ok(links.iter().filter(|&&l| fabric.is_hop(l)).count())
    }
}
