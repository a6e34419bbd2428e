//! Routes between places of hosts: inside, through the network, inside.

use super::{Dead, Routing, Unroutable};
use crate::fabric::Fabric;
use crate::hosts::{InnerLinks, PortRule};
use crate::ids::{LinkId, NodeId};

/// The routing of a network between hosts, and the choice of their ports.
#[derive(Clone, Debug)]
pub struct HostRouting {
    /// Routing between the endpoints of the network.
    pub network: Routing,
    /// Choice of ports, as in the fabric.
    pub rule: PortRule,
}

impl Routing {
    /// The same between hosts with links inside; [`Routing::network`] is its inverse.
    #[must_use]
    pub fn within(self, rule: PortRule) -> Self {
        Self::Hosts(Box::new(HostRouting {
            network: self,
            rule,
        }))
    }

    /// The routing of the network alone.
    pub fn network(&self) -> &Self {
        match self {
            Self::Hosts(hosts) => &hosts.network,
            _ => self,
        }
    }
}

/// Appends a route of the network.
type Between = fn(&Routing, &Fabric, NodeId, NodeId, &mut Vec<LinkId>) -> Result<(), Unroutable>;

impl HostRouting {
    pub(super) fn is_single_path(&self) -> bool {
        self.rule != PortRule::Striped && self.network.is_single_path()
    }

    pub(super) fn describe(&self) -> String {
        let network = self.network.describe();
        format!(
            "{network}; ports of hosts: {} ({})",
            self.rule,
            self.rule.help()
        )
    }

    /// The first of several routes, with `between` of the network.
    pub(super) fn along(
        &self,
        fabric: &Fabric,
        (from, to): (NodeId, NodeId),
        out: &mut Vec<LinkId>,
        between: Between,
    ) -> Result<(), Unroutable> {
        let Some(inside) = fabric.inside() else {
            return between(&self.network, fabric, from, to, out);
        };
        let mut first = None;
        inside.legs(from, to, |leg| first = first.or(Some(leg)));
        let Some(leg) = first else {
            return Ok(());
        };
        add(fabric, (from, to), leg.out, |l| out.push(l))?;
        if let Some((a, b)) = leg.ports {
            between(&self.network, fabric, a, b, out)?;
        }
        add(fabric, (from, to), leg.into, |l| out.push(l))
    }

    /// See [`Routing::shares`].
    pub(super) fn shares(
        &self,
        fabric: &Fabric,
        from: NodeId,
        to: NodeId,
        out: &mut Vec<(LinkId, f64)>,
    ) -> Result<(), Unroutable> {
        if from == to {
            return Ok(());
        }
        let Some(inside) = fabric.inside() else {
            return self.network.shares(fabric, from, to, out);
        };
        let start = out.len();
        let mut result = Ok(());
        inside.legs(from, to, |leg| {
            if result.is_err() {
                return;
            }
            let part = |l: LinkId, out: &mut Vec<(LinkId, f64)>| out.push((l, leg.share));
            result = add(fabric, (from, to), leg.out, |l| part(l, out));
            if let (Ok(()), Some((a, b))) = (&result, leg.ports) {
                let first = out.len();
                result = self.network.shares(fabric, a, b, out);
                out[first..].iter_mut().for_each(|s| s.1 *= leg.share);
            }
            if result.is_ok() {
                result = add(fabric, (from, to), leg.into, |l| part(l, out));
            }
        });
        if result.is_err() {
            out.truncate(start);
        }
        result
    }
}

/// Adds inner links; those that are down make the pair unroutable.
fn add(
    fabric: &Fabric,
    (from, to): (NodeId, NodeId),
    links: InnerLinks<'_>,
    mut push: impl FnMut(LinkId),
) -> Result<(), Unroutable> {
    for link in links.iter() {
        if !fabric.link(link).is_up() {
            return Err(Unroutable {
                from,
                to,
                at: fabric.node(from).router,
                reason: Dead::NoLink,
            });
        }
        push(link);
    }
    Ok(())
}
