//! Components of a machine that can be slow.

use hopbyte_fabric::{End, Fabric, LinkId, NodeId, RouterId};

/// A component that can be slow, from the most specific to the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Component {
    /// One direction of a link.
    Link(LinkId),
    /// Both directions of a link, the lower of the two.
    Cable(LinkId),
    /// A link between a node and its router, one direction.
    HostLink(LinkId),
    /// A node, sending and receiving.
    Host(NodeId),
    /// A router with everything that crosses it.
    Router(RouterId),
}

impl Component {
    /// All kinds, the most specific first.
    pub const KINDS: [&'static str; 5] = ["link", "cable", "host link", "host", "router"];

    /// Kind, as printed in reports.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Link(_) => Self::KINDS[0],
            Self::Cable(_) => Self::KINDS[1],
            Self::HostLink(_) => Self::KINDS[2],
            Self::Host(_) => Self::KINDS[3],
            Self::Router(_) => Self::KINDS[4],
        }
    }

    /// Its name in the fabric.
    pub fn name(self, fabric: &Fabric) -> String {
        match self {
            Self::Link(l) | Self::Cable(l) | Self::HostLink(l) => fabric.link_name(l),
            Self::Host(n) => fabric.node(n).name.clone(),
            Self::Router(r) => fabric.router(r).name.clone(),
        }
    }

    /// Whether a transfer between two nodes over these links crosses it.
    pub(super) fn is_on(self, fabric: &Fabric, ends: [NodeId; 2], route: &[LinkId]) -> bool {
        match self {
            Self::Link(l) | Self::HostLink(l) => route.contains(&l),
            Self::Cable(l) => route
                .iter()
                .any(|&r| r == l || fabric.reverse(r) == Some(l)),
            Self::Host(n) => ends.contains(&n),
            Self::Router(r) => routers(fabric, route).contains(&r),
        }
    }

    /// Whether this component contains another: a fault of the other would be found inside it.
    pub(super) fn contains(self, fabric: &Fabric, other: Self) -> bool {
        let at = |link: LinkId, end: End| {
            let link = fabric.link(link);
            link.from == end || link.to == end
        };
        match (self, other) {
            _ if self == other => true,
            (Self::Cable(c), Self::Link(l)) => c == l || fabric.reverse(c) == Some(l),
            (Self::Host(n), Self::HostLink(l)) => at(l, End::Node(n)),
            (Self::Router(r), Self::Link(l) | Self::Cable(l) | Self::HostLink(l)) => {
                at(l, End::Router(r))
            }
            (Self::Router(r), Self::Host(n)) => fabric.node(n).router == r,
            _ => false,
        }
    }
}

/// Routers that a route crosses, each once, in order.
pub(super) fn routers(fabric: &Fabric, route: &[LinkId]) -> Vec<RouterId> {
    let mut list = Vec::new();
    for &link in route {
        for end in [fabric.link(link).from, fabric.link(link).to] {
            match end {
                End::Router(r) if !list.contains(&r) => list.push(r),
                _ => {}
            }
        }
    }
    list
}
