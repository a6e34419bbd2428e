//! Differences between two readings of one machine.

use crate::fabric::{End, Fabric};
use crate::ids::{LinkId, NodeId, RouterId};
pub use crate::pairing::Rename;
use crate::routing::Routing;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A link that is in both readings but differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkChange {
    /// Name of the link.
    pub link: String,
    /// Capacity before.
    pub capacity_before_bytes_per_s: f64,
    /// Capacity after.
    pub capacity_after_bytes_per_s: f64,
    /// Far end before.
    pub to_before: String,
    /// Far end after.
    pub to_after: String,
}

/// Differences between two fabrics; parts are matched by GUID where both have one, else by name (links by sending end
/// and port).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Diff {
    /// Routers only in the second.
    pub routers_added: Vec<String>,
    /// Routers only in the first.
    pub routers_removed: Vec<String>,
    /// Nodes only in the second.
    pub nodes_added: Vec<String>,
    /// Nodes only in the first.
    pub nodes_removed: Vec<String>,
    /// Links only in the second.
    pub links_added: Vec<String>,
    /// Links only in the first.
    pub links_removed: Vec<String>,
    /// Links that changed capacity or far end.
    pub links_changed: Vec<LinkChange>,
    /// Routers with another name and the same GUID; the other lists have the first name.
    pub routers_renamed: Vec<Rename>,
    /// Nodes with another name and the same GUID.
    pub nodes_renamed: Vec<Rename>,
    /// Next hops (router and destination) that differ, by router.
    pub entries_changed: BTreeMap<String, usize>,
    /// Ordered pairs of nodes in both readings with a changed, new or lost route.
    pub routes_changed: u64,
    /// Ordered pairs of nodes in both readings; 0 if routes were not compared.
    pub pairs_compared: u64,
    /// Whether routes were compared.
    pub routes_compared: bool,
}

impl Diff {
    /// Compares two machines, with their routes if `routes`; the inside of hosts is left out.
    pub fn between(a: (&Fabric, &Routing), b: (&Fabric, &Routing), routes: bool) -> Self {
        if a.0.inside().is_some() || b.0.inside().is_some() {
            let networks = (a.0.network(), b.0.network());
            let (a, b) = ((&*networks.0, a.1.network()), (&*networks.1, b.1.network()));
            return Self::between(a, b, routes);
        }
        let (renamed, renames) = b.0.named_as(a.0);
        let b = (&renamed, b.1);
        let mut diff = Self {
            routers_renamed: renames.routers,
            nodes_renamed: renames.nodes,
            routes_compared: routes,
            ..Self::default()
        };
        (diff.routers_removed, diff.routers_added) = names(a.0, b.0, |f| {
            f.routers().iter().map(|r| r.name.clone()).collect()
        });
        (diff.nodes_removed, diff.nodes_added) = names(a.0, b.0, |f| {
            f.nodes().iter().map(|n| n.name.clone()).collect()
        });
        let links = |f: &Fabric| -> BTreeMap<String, LinkId> {
            f.link_ids().map(|l| (f.link_name(l), l)).collect()
        };
        let (before, after) = (links(a.0), links(b.0));
        diff.links_removed = before
            .keys()
            .filter(|n| !after.contains_key(*n))
            .cloned()
            .collect();
        diff.links_added = after
            .keys()
            .filter(|n| !before.contains_key(*n))
            .cloned()
            .collect();
        let mut same: HashMap<LinkId, LinkId> = HashMap::new();
        for (name, &old) in &before {
            let Some(&new) = after.get(name) else {
                continue;
            };
            let change = LinkChange {
                link: name.clone(),
                capacity_before_bytes_per_s: a.0.link(old).capacity().0,
                capacity_after_bytes_per_s: b.0.link(new).capacity().0,
                to_before: a.0.end_name(a.0.link(old).to),
                to_after: b.0.end_name(b.0.link(new).to),
            };
            if change.to_before == change.to_after {
                same.insert(old, new);
            }
            if change.to_before != change.to_after
                || change.capacity_before_bytes_per_s != change.capacity_after_bytes_per_s
            {
                diff.links_changed.push(change);
            }
        }
        if routes {
            diff.compare_routes(a, b, &same);
        }
        diff
    }

    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        *self
            == Self {
                pairs_compared: self.pairs_compared,
                routes_compared: self.routes_compared,
                ..Self::default()
            }
    }

    fn compare_routes(
        &mut self,
        (a, routing_a): (&Fabric, &Routing),
        (b, routing_b): (&Fabric, &Routing),
        same: &HashMap<LinkId, LinkId>,
    ) {
        let router_in_b: Vec<Option<RouterId>> = a
            .routers()
            .iter()
            .map(|r| b.router_named(&r.name))
            .collect();
        let common: Vec<(NodeId, NodeId)> = a
            .node_ids()
            .filter_map(|n| Some((n, b.node_named(&a.node(n).name)?)))
            .collect();
        let count = common.len() as u64;
        self.pairs_compared = count * count.saturating_sub(1);
        for &(to_a, to_b) in &common {
            // A route differs if the next hop or the remaining route from the next router differs.
            let mut differs: Vec<Option<bool>> = vec![None; a.routers().len()];
            for router in a.router_ids() {
                let mut passed = Vec::new();
                let mut at = router;
                let verdict = loop {
                    if let Some(known) = differs[at.index()] {
                        break known;
                    }
                    // Ends loops: routers on the current path count as unchanged until a difference is found.
                    differs[at.index()] = Some(false);
                    passed.push(at);
                    let Some(at_b) = router_in_b[at.index()] else {
                        break true;
                    };
                    let next_a = routing_a
                        .next_link(a, at, to_a)
                        .ok()
                        .filter(|&l| a.link(l).is_up());
                    let next_b = routing_b
                        .next_link(b, at_b, to_b)
                        .ok()
                        .filter(|&l| b.link(l).is_up());
                    if next_a.and_then(|l| same.get(&l).copied()) != next_b {
                        *self
                            .entries_changed
                            .entry(a.router(at).name.clone())
                            .or_default() += 1;
                        break true;
                    }
                    match next_a.map(|l| a.link(l).to) {
                        Some(End::Router(next)) => at = next,
                        _ => break false,
                    }
                };
                passed
                    .into_iter()
                    .for_each(|r| differs[r.index()] = Some(verdict));
            }
            self.routes_changed += common
                .iter()
                .filter(|&&(from, _)| {
                    from != to_a && differs[a.node(from).router.index()] == Some(true)
                })
                .count() as u64;
        }
    }
}

/// Names only in the first, and only in the second.
fn names(
    a: &Fabric,
    b: &Fabric,
    of: impl Fn(&Fabric) -> BTreeSet<String>,
) -> (Vec<String>, Vec<String>) {
    let (a, b) = (of(a), of(b));
    (
        a.difference(&b).cloned().collect(),
        b.difference(&a).cloned().collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::Fault;
    use crate::spec;

    #[test]
    fn a_lost_cable_and_its_rerouted_pairs_are_named() {
        let whole = spec::machine("torus:4x4").unwrap();
        let same = Diff::between(
            (&whole.fabric, &whole.routing),
            (&whole.fabric, &whole.routing),
            true,
        );
        assert!(same.is_empty());
        assert_eq!(same.pairs_compared, 16 * 15);
        let cut = whole.fabric.find_link("r0-0 X+").unwrap();
        let broken = whole.fabric.clone().with_faults(&[Fault::Cable(cut)]);
        let routing = Routing::default_for(&broken);
        let diff = Diff::between((&whole.fabric, &whole.routing), (&broken, &routing), true);
        let changed: Vec<&str> = diff.links_changed.iter().map(|c| c.link.as_str()).collect();
        assert_eq!(changed, ["r0-0 X+", "r1-0 X-"]);
        // Pairs with a route over the cable, counted by walking all of them.
        let mut used = 0;
        for from in whole.fabric.node_ids() {
            for to in whole.fabric.node_ids() {
                let mut route = Vec::new();
                whole
                    .routing
                    .route(&whole.fabric, from, to, &mut route)
                    .unwrap();
                let back = whole.fabric.reverse(cut).unwrap();
                used += u64::from(route.contains(&cut) || route.contains(&back));
            }
        }
        assert_eq!(diff.routes_changed, used);
        assert!(diff.entries_changed.contains_key("r0-0"));
    }

    /// Two switches and two nodes with GUIDs.
    fn named(routers: [&str; 2], nodes: [&str; 2]) -> Fabric {
        let mut b = crate::FabricBuilder::new(crate::Family::InfiniBand, "x");
        let kind = b.kind("4xQDR", false);
        let ids = routers.map(|name| b.router(name, &[]));
        let mut link = |from, to, ports: (u16, u16)| {
            let (capacity, latency) = (
                crate::units::BytesPerSecond(4e9),
                crate::units::Seconds(1e-7),
            );
            let link = b.link(crate::LinkSpec::new(from, to, kind, capacity, latency));
            b.port(link, ports.0, ports.1);
            link
        };
        link(End::Router(ids[0]), End::Router(ids[1]), (9, 9));
        link(End::Router(ids[1]), End::Router(ids[0]), (9, 9));
        let ends = [0, 1].map(|i| {
            let (node, router) = (End::Node(NodeId::of(i)), End::Router(ids[i]));
            (link(node, router, (1, 1)), link(router, node, (1, 1)))
        });
        for (i, name) in nodes.into_iter().enumerate() {
            let node = b.node(name, name, None, ids[i], ends[i].0, ends[i].1);
            b.node_alias(format!("0x{:016x}", 0x20 + i), node);
            b.router_alias(format!("0x{:016x}", 0x10 + i), ids[i]);
        }
        b.finish().unwrap()
    }

    #[test]
    fn a_renamed_switch_is_the_same_switch() {
        let between = |a: &Fabric, b: &Fabric, routes| {
            let routings = [a, b].map(Routing::default_for);
            Diff::between((a, &routings[0]), (b, &routings[1]), routes)
        };
        let before = named(["leaf 1", "leaf 2"], ["n1", "n2"]);
        let after = named(["leaf 1", "rack 2"], ["n1", "m2"]);
        let diff = between(&before, &after, true);
        let renamed = |before: &str, after: &str| Rename {
            before: before.into(),
            after: after.into(),
        };
        let expected = Diff {
            routers_renamed: vec![renamed("leaf 2", "rack 2")],
            nodes_renamed: vec![renamed("n2", "m2")],
            pairs_compared: 2,
            routes_compared: true,
            ..Diff::default()
        };
        assert_eq!(diff, expected);
        assert!(!diff.is_empty());
        // Names that two parts exchange.
        let swapped = named(["leaf 2", "leaf 1"], ["n2", "n1"]);
        let diff = between(&before, &swapped, true);
        assert_eq!(
            (diff.routers_renamed.len(), diff.nodes_renamed.len()),
            (2, 2)
        );
        assert_eq!((diff.routes_changed, diff.links_changed.len()), (0, 0));
        assert_eq!(between(&before, &before, false).pairs_compared, 0);
    }
}
