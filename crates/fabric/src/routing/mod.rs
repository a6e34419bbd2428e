//! Routes between nodes.
//!
//! A route is a slice of link ids: the injection link, the links between routers, the ejection link. The request of a
//! transaction takes the route from source to target, the response the static route back, which generally differs
//! (paper 000, V.C); both carry load.

pub mod dependencies;
mod dimension_order;
mod groups;
mod hosts;
mod legs;
mod mean_hops;
mod minimal;
mod rings;
mod tables;
mod together;
mod tree;
mod unroutable;
mod up_down;

pub use dimension_order::DimensionOrder;
pub use groups::{Crossing, GroupPaths, Spread, merge};
pub use hosts::HostRouting;
pub use legs::{Leg, Legs};
pub use mean_hops::MeanHops;
pub use minimal::MinimalPaths;
pub use tables::{ForwardingTables, position};
pub use tree::TreeRouting;
pub use unroutable::{Dead, Unroutable};
pub use up_down::up_down;

use crate::bounds::{MAX_DISTANCES, MAX_ENTRIES};
use crate::direction::Direction;
use crate::error::{FabricError, InputError};
use crate::fabric::{End, Fabric, Family};
use crate::ids::{LinkId, NodeId, RouterId};

/// The routing of a fabric.
#[derive(Clone, Debug)]
pub enum Routing {
    /// One dimension after the other, in the shorter direction (Gemini, SeaStar, Blue Gene).
    DimensionOrder(DimensionOrder),
    /// Next hop by router and destination, as installed by a subnet manager.
    Tables(ForwardingTables),
    /// Closed-form up/down routing of a pure fat tree.
    Tree(TreeRouting),
    /// All shortest paths, traffic split over them.
    Minimal(MinimalPaths),
    /// Dragonfly paths between groups: minimal, Valiant, adaptive.
    Groups(GroupPaths),
    /// A network between hosts with links inside.
    Hosts(Box<HostRouting>),
}

impl Routing {
    /// Whether routes are those of forwarding tables.
    pub fn is_tables(&self) -> bool {
        matches!(self.network(), Self::Tables(_))
    }

    /// The default routing of a fabric without tables: dimension order (around faults, if any) on a torus or mesh,
    /// minimal between groups on a dragonfly, otherwise all shortest paths.
    pub fn default_for(fabric: &Fabric) -> Self {
        if let Some(inside) = fabric.inside() {
            return Self::default_for(&fabric.network()).within(inside.rule());
        }
        if let Some(order) = DimensionOrder::rerouted(fabric) {
            return Self::DimensionOrder(order);
        }
        let is_dragonfly = matches!(
            fabric.family(),
            Family::Aries | Family::Slingshot | Family::Dragonfly
        );
        match GroupPaths::new(fabric, Spread::Minimal) {
            Some(groups) if is_dragonfly => Self::Groups(groups),
            _ => Self::Minimal(MinimalPaths::new(fabric)),
        }
    }

    /// Routing by name: `dimension-order` (with `:ZYX` for another order), `minimal`, `valiant`,
    /// `adaptive` (with `:SHARE` minimal, default 0.75), `shortest` (all shortest paths), `updown`.
    pub fn named(fabric: &Fabric, name: &str) -> Result<Self, FabricError> {
        if let Some(inside) = fabric.inside() {
            return Ok(Self::named(&fabric.network(), name)?.within(inside.rule()));
        }
        let (kind, option) = name.split_once(':').unwrap_or((name, ""));
        let (routers, nodes) = (fabric.routers().len() as u64, fabric.nodes().len() as u64);
        let is_large = match kind {
            "dimension-order" => false,
            "updown" => routers * nodes > MAX_ENTRIES,
            _ => routers > MAX_DISTANCES,
        };
        if is_large {
            let found = format!("{name} on {routers} routers with {nodes} nodes");
            let expected = format!(
                "at most {MAX_DISTANCES} routers, or {MAX_ENTRIES} entries of routers times nodes for updown"
            );
            return Err(InputError::new("routing", found, expected)
                .hint("dimension-order has no bound of its own")
                .into());
        }
        let spread = match (kind, option) {
            ("minimal", "") => Some(Spread::Minimal),
            ("valiant", "") => Some(Spread::Valiant),
            ("adaptive", "") => Some(Spread::Adaptive(0.75)),
            ("adaptive", share) => share
                .parse()
                .ok()
                .filter(|s: &f64| (0.0..=1.0).contains(s))
                .map(Spread::Adaptive),
            _ => None,
        };
        let routing = match (kind, option) {
            ("dimension-order", "") => DimensionOrder::rerouted(fabric).map(Self::DimensionOrder),
            ("dimension-order", letters) => letters
                .chars()
                .map(|c| Direction::parse(&format!("{c}+")).map(|d| d.dim))
                .collect::<Option<Vec<u8>>>()
                .and_then(|order| DimensionOrder::with_order(fabric, order))
                .map(Self::DimensionOrder),
            ("shortest", "") => Some(Self::Minimal(MinimalPaths::new(fabric))),
            ("updown", "") => Some(Self::Tables(up_down(fabric))),
            // Coordinates of a grid are no groups.
            _ => spread
                .filter(|_| {
                    !matches!(
                        fabric.family(),
                        Family::Gemini | Family::Torus | Family::Mesh
                    )
                })
                .and_then(|s| GroupPaths::new(fabric, s))
                .map(Self::Groups),
        };
        routing.ok_or_else(|| {
            InputError::new("routing", name, "a routing that fits this fabric")
                .hint("dimension-order[:ZYX] on a torus or mesh; minimal, valiant, adaptive[:0.75] on a dragonfly; shortest, updown on any")
                .into()
        })
    }

    /// The routing after links went down: recomputed if the network does so itself; forwarding tables are unchanged,
    /// because the subnet manager's new tables are unknown.
    #[must_use]
    pub fn rerouted(&self, fabric: &Fabric) -> Self {
        match self {
            Self::DimensionOrder(order) => {
                let natural = order.order().is_sorted();
                let again = if natural {
                    DimensionOrder::rerouted(fabric)
                } else {
                    DimensionOrder::with_order(fabric, order.order().to_vec())
                };
                again.map_or_else(|| self.clone(), Self::DimensionOrder)
            }
            Self::Tables(_) => self.clone(),
            Self::Hosts(hosts) => hosts.network.rerouted(&fabric.network()).within(hosts.rule),
            Self::Tree(_) | Self::Minimal(_) => Self::Minimal(MinimalPaths::new(fabric)),
            Self::Groups(groups) => {
                GroupPaths::new(fabric, groups.spread()).map_or_else(|| self.clone(), Self::Groups)
            }
        }
    }

    /// One line: the name and the assumptions.
    pub fn describe(&self) -> String {
        match self {
            Self::DimensionOrder(order) => order.describe(),
            Self::Tables(_) => "forwarding tables".into(),
            Self::Tree(_) => "up/down, destination modulo parents (D-mod-k)".into(),
            Self::Groups(groups) => groups.describe(),
            Self::Hosts(hosts) => hosts.describe(),
            Self::Minimal(_) => {
                "all minimal paths, split by capacity (assumed: no tables given)".into()
            }
        }
    }

    /// Whether every pair has at most one path, so that [`Routing::route`] is complete.
    pub fn is_single_path(&self) -> bool {
        match self {
            Self::Hosts(hosts) => hosts.is_single_path(),
            _ => !matches!(self, Self::Minimal(_) | Self::Groups(_)),
        }
    }

    /// Whether all traffic of a pair takes the same links.
    pub fn has_one_path(&self, fabric: &Fabric, from: NodeId, to: NodeId) -> bool {
        let mut shares = Vec::new();
        let found = self.shares(fabric, from, to, &mut shares);
        self.is_single_path() || found.is_ok() && shares.iter().all(|s| s.1 > 1.0 - 1e-9)
    }

    /// Whether the next hop depends only on router and destination, so that all routes to a node form a tree.
    pub fn is_destination_based(&self) -> bool {
        match self {
            Self::DimensionOrder(order) => order.is_one_order(),
            Self::Hosts(_) => false,
            _ => true,
        }
    }

    /// Appends the links from `from` to `to` to `out`; none if they are equal. Among several paths it chooses the one
    /// with the lowest link ids. On error `out` is unchanged.
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

    /// Appends one path that traffic takes: [`Routing::route`], or a shortest one through another group where no traffic
    /// goes directly.
    ///
    /// # Errors
    /// No route; `out` is unchanged.
    pub fn path(
        &self,
        fabric: &Fabric,
        from: NodeId,
        to: NodeId,
        out: &mut Vec<LinkId>,
    ) -> Result<(), Unroutable> {
        match self {
            Self::Hosts(hosts) => hosts.along(fabric, (from, to), out, Self::path),
            Self::Groups(groups) if from != to => {
                let (source, target) = unroutable::hosts_up(fabric, from, to)?;
                let mut links = vec![source.inject];
                if !groups.detoured(fabric, source.router, target.router, &mut links) {
                    return self.route(fabric, from, to, out);
                }
                links.push(target.eject);
                out.append(&mut links);
                Ok(())
            }
            _ => self.route(fabric, from, to, out),
        }
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
        if let Self::Hosts(hosts) = self {
            return hosts.along(fabric, (from, to), out, Self::route);
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
        if let Self::DimensionOrder(routing) = self {
            let order = routing.order_of(fabric, from, to)?;
            out.push(source.inject);
            routing
                .extend(fabric, order, (source.router, target.router), out)
                .map_err(|(at, reason)| dead(at, reason))?;
            if !fabric.link(target.eject).is_up() {
                return Err(dead(target.router, Dead::NoLink));
            }
            out.push(target.eject);
            return Ok(());
        }
        out.push(source.inject);
        let mut at = source.router;
        for _ in 0..=fabric.routers().len() {
            let link = self
                .next_link(fabric, at, to)
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

    /// The link that router `at` uses for packets to node `to` (the first of several). Not valid for sources that use
    /// another order; see [`Routing::is_destination_based`].
    #[inline]
    pub fn next_link(&self, fabric: &Fabric, at: RouterId, to: NodeId) -> Result<LinkId, Dead> {
        let target = fabric.node(to);
        match self {
            Self::Hosts(hosts) => hosts.network.next_link(fabric, at, to),
            Self::Tables(tables) => tables.next(fabric, at, to).ok_or(Dead::NoEntry),
            _ if at == target.router => Ok(target.eject),
            Self::Tree(tree) => tree.next(fabric, at, to).ok_or(Dead::NoEntry),
            Self::Groups(groups) => groups.next(fabric, at, target.router).ok_or(Dead::NoEntry),
            Self::DimensionOrder(routing) => routing.next(fabric, 0, at, target.router),
            Self::Minimal(minimal) => minimal.next(fabric, at, target.router).ok_or(Dead::NoEntry),
        }
    }

    /// Appends every link for traffic from `from` to `to`, with its share (1 on single paths; shares into the
    /// destination sum to 1). On error `out` is unchanged.
    pub fn shares(
        &self,
        fabric: &Fabric,
        from: NodeId,
        to: NodeId,
        out: &mut Vec<(LinkId, f64)>,
    ) -> Result<(), Unroutable> {
        match self {
            Self::Minimal(minimal) => return minimal.shares(fabric, from, to, out),
            Self::Groups(groups) => return groups.shares(fabric, from, to, out),
            Self::Hosts(hosts) => return hosts.shares(fabric, from, to, out),
            _ => {}
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
