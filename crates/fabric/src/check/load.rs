//! Load of uniform traffic on every link.

use super::routers;
use crate::fabric::{End, Fabric, Node};
use crate::ids::{LinkId, NodeId, RouterId};
use crate::routing::{GroupPaths, Routing};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Seconds on each link if every node sends one byte to every other: routes over the link divided by its capacity;
/// infinite on links that are down but on a route.
pub fn uniform_load(fabric: &Fabric, routing: &Routing) -> Vec<f64> {
    if let Routing::Hosts(hosts) = routing {
        return uniform_load(&fabric.network(), &hosts.network);
    }
    let mut total = match grid_load(fabric, routing) {
        Some(load) => load,
        None => walked_load(fabric, routing),
    };
    for (load, link) in total.iter_mut().zip(fabric.links()) {
        if *load > 0.0 {
            *load /= link.capacity().0;
        }
    }
    total
}

/// Routes over every link of a grid in dimension order, ring by ring.
fn grid_load(fabric: &Fabric, routing: &Routing) -> Option<Vec<f64>> {
    let Routing::DimensionOrder(order) = routing else {
        return None;
    };
    let uniform = order.legs(fabric)?.uniform(fabric, order)?;
    let mut load = uniform.load;
    let is_up = |link: LinkId| fabric.link(link).is_up();
    let count = |end: fn(&Node) -> LinkId, nodes: &mut dyn Iterator<Item = &Node>| {
        nodes.filter(|n| is_up(end(n))).count() as f64
    };
    let sending = count(|n| n.inject, &mut fabric.nodes().iter());
    let receiving = count(|n| n.eject, &mut fabric.nodes().iter());
    for node in fabric.nodes() {
        // A node does not send to itself.
        let [out, into] = [node.inject, node.eject].map(is_up);
        let own = if out && into { 1.0 } else { 0.0 };
        if out {
            load[node.inject.index()] += receiving - own;
        }
        if into {
            load[node.eject.index()] += sending - own;
        }
    }
    for (from, to) in uniform.without {
        let on = |r: RouterId| fabric.nodes_on(r).iter().map(|&n| fabric.node(n));
        let (sources, targets) = (
            count(|n| n.inject, &mut on(from)),
            count(|n| n.eject, &mut on(to)),
        );
        for node in on(from).filter(|n| is_up(n.inject)) {
            load[node.inject.index()] -= targets;
        }
        for node in on(to).filter(|n| is_up(n.eject)) {
            load[node.eject.index()] -= sources;
        }
    }
    Some(load)
}

/// Routes over every link, followed one by one or along trees.
fn walked_load(fabric: &Fabric, routing: &Routing) -> Vec<f64> {
    let trees = routing.is_destination_based() && routing.is_single_path();
    let targets: Vec<u32> = if trees {
        0..fabric.nodes().len() as u32
    } else {
        0..fabric.routers().len() as u32
    }
    .collect();
    let parts = match routing {
        Routing::Groups(groups) => Some((groups, Part::of(fabric, groups))),
        _ => None,
    };
    let zero = || vec![0f64; fabric.links().len()];
    // A fixed number of parts, added up in order: identical sums for any number of threads.
    let chunk = targets.len().div_ceil(16).max(1);
    let loads: Vec<Vec<f64>> = targets
        .par_chunks(chunk)
        .map(|targets| {
            let mut load = zero();
            for &to in targets {
                match &parts {
                    _ if trees => add_tree_load(fabric, routing, NodeId(to), &mut load),
                    Some((groups, parts)) => {
                        let to = RouterId(to);
                        let own = |r: &RouterId| groups.group(*r) == groups.group(to);
                        let group = fabric.router_ids().filter(own);
                        add_router_load(fabric, routing, group, to, &mut load);
                        add_group_load(fabric, groups, parts, to, &mut load);
                    }
                    None => {
                        let all = fabric.router_ids();
                        add_router_load(fabric, routing, all, RouterId(to), &mut load);
                    }
                }
            }
            load
        })
        .collect();
    let mut total = zero();
    for load in loads {
        total.iter_mut().zip(load).for_each(|(t, l)| *t += l);
    }
    total
}

/// Nodes with a link in service from them, or to them.
fn in_service(fabric: &Fabric, nodes: &[NodeId], end: fn(&Node) -> LinkId) -> Vec<NodeId> {
    let up = |n: &&NodeId| fabric.link(end(fabric.node(**n))).is_up();
    nodes.iter().filter(up).copied().collect()
}

/// Adds the routes of the nodes of some routers to those of one; the route between two routers is walked once.
fn add_router_load(
    fabric: &Fabric,
    routing: &Routing,
    from: impl Iterator<Item = RouterId>,
    to: RouterId,
    load: &mut [f64],
) {
    let targets = in_service(fabric, fabric.nodes_on(to), |n| n.eject);
    let mut shares = Vec::new();
    for from in from {
        let sources = in_service(fabric, fabric.nodes_on(from), |n| n.inject);
        let pair = sources
            .iter()
            .find_map(|&a| Some((a, *targets.iter().find(|&&b| b != a)?)));
        let Some((a, b)) = pair else { continue };
        shares.clear();
        if routing.shares(fabric, a, b, &mut shares).is_err() {
            continue;
        }
        // A node does not send to itself.
        let others = |n: &NodeId, of: &[NodeId]| (of.len() - usize::from(of.contains(n))) as f64;
        let pairs: f64 = sources.iter().map(|a| others(a, &targets)).sum();
        for &(link, share) in &shares {
            if fabric.link(link).is_between_routers() {
                load[link.index()] += share * pairs;
            }
        }
        for a in &sources {
            load[fabric.node(*a).inject.index()] += others(a, &targets);
        }
        for b in &targets {
            load[fabric.node(*b).eject.index()] += others(b, &sources);
        }
    }
}

/// Nodes of a part of a dragonfly's group, see [`GroupPaths::parts`].
struct Part {
    group: u32,
    senders: Vec<NodeId>,
    receivers: Vec<NodeId>,
}

impl Part {
    fn of(fabric: &Fabric, groups: &GroupPaths) -> Vec<Self> {
        let mut all: BTreeMap<u32, Self> = BTreeMap::new();
        for (router, part) in fabric.router_ids().zip(groups.parts()) {
            let part = all.entry(part).or_insert_with(|| Self {
                group: groups.group(router),
                senders: Vec::new(),
                receivers: Vec::new(),
            });
            let nodes = fabric.nodes_on(router);
            part.senders.extend(in_service(fabric, nodes, |n| n.inject));
            part.receivers
                .extend(in_service(fabric, nodes, |n| n.eject));
        }
        all.into_values().collect()
    }
}

/// Adds the routes between the nodes of a router and those of all other groups of a dragonfly: the links inside the group of the
/// receivers only for receivers on the router, and all others only for senders on it. They are the same for all routers of
/// a part at the other end.
fn add_group_load(
    fabric: &Fabric,
    groups: &GroupPaths,
    parts: &[Part],
    at: RouterId,
    load: &mut [f64],
) {
    let group = groups.group(at);
    let inside = |link: LinkId, group| {
        let ends = routers(fabric.link(link));
        ends.is_some_and(|(a, b)| [a, b].iter().all(|&r| groups.group(r) == group))
    };
    let senders = in_service(fabric, fabric.nodes_on(at), |n| n.inject);
    let receivers = in_service(fabric, fabric.nodes_on(at), |n| n.eject);
    let mut shares = Vec::new();
    for part in parts.iter().filter(|p| p.group != group) {
        let ways = [(&senders, &part.receivers), (&part.senders, &receivers)];
        for (is_to, (from, to)) in [false, true].into_iter().zip(ways) {
            let (Some(&a), Some(&b)) = (from.first(), to.first()) else {
                continue;
            };
            shares.clear();
            if groups.shares(fabric, a, b, &mut shares).is_err() {
                continue;
            }
            let target = if is_to { group } else { part.group };
            let pairs = (from.len() * to.len()) as f64;
            for &(link, share) in &shares {
                let is_between = fabric.link(link).is_between_routers();
                if is_between && inside(link, target) == is_to {
                    load[link.index()] += share * pairs;
                }
            }
            match is_to {
                true => to.iter().for_each(|&b| {
                    load[fabric.node(b).eject.index()] += from.len() as f64;
                }),
                false => from.iter().for_each(|&a| {
                    load[fabric.node(a).inject.index()] += to.len() as f64;
                }),
            }
        }
    }
}

/// Adds the routes of all nodes to one: sources add up along the tree of next hops.
fn add_tree_load(fabric: &Fabric, routing: &Routing, to: NodeId, load: &mut [f64]) {
    let mut through = vec![0f64; fabric.routers().len()];
    let mut next = vec![None; fabric.routers().len()];
    let mut waiting = vec![0u32; fabric.routers().len()];
    for router in fabric.router_ids() {
        let Ok(link) = routing.next_link(fabric, router, to) else {
            continue;
        };
        next[router.index()] = Some(link);
        if let End::Router(r) = fabric.link(link).to {
            waiting[r.index()] += 1;
        }
        for &from in fabric.nodes_on(router).iter().filter(|&&n| n != to) {
            through[router.index()] += 1.0;
            load[fabric.node(from).inject.index()] += 1.0;
        }
    }
    // Routers in topological order, from the leaves of the tree: a router follows all that send through it.
    let mut ready: Vec<_> = fabric
        .router_ids()
        .filter(|r| waiting[r.index()] == 0)
        .collect();
    while let Some(router) = ready.pop() {
        let Some(link) = next[router.index()] else {
            continue;
        };
        load[link.index()] += through[router.index()];
        if let End::Router(r) = fabric.link(link).to {
            through[r.index()] += through[router.index()];
            waiting[r.index()] -= 1;
            if waiting[r.index()] == 0 {
                ready.push(r);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::Fault;
    use crate::faults::tests::some_failed;
    use crate::random::Random;
    use crate::spec;

    /// Loads by parts of groups are those of all pairs of routers, also where links in groups and of nodes have failed.
    #[test]
    fn loads_of_dragonflies_with_failed_links() {
        let mut random = Random::new(5);
        for (seed, name) in ["minimal", "valiant", "adaptive"]
            .repeat(8)
            .iter()
            .enumerate()
        {
            let healthy = spec::fabric("dragonfly:5x4:nodes=2").unwrap();
            let links = healthy.links().len();
            let mut any = || Fault::OneWay(LinkId::of(random.below(links)));
            let down: Vec<Fault> = (0..seed).map(|_| any()).collect();
            let fabric = healthy.with_faults(&down);
            let routing = Routing::named(&fabric, name).unwrap();
            let found = walked_load(&fabric, &routing);
            let mut walked = vec![0.0; links];
            for to in fabric.router_ids() {
                add_router_load(&fabric, &routing, fabric.router_ids(), to, &mut walked);
            }
            for (link, (found, walked)) in found.iter().zip(&walked).enumerate() {
                let name = fabric.link_name(LinkId::of(link));
                assert!(
                    (found - walked).abs() < 1e-9 * (1.0 + walked),
                    "{seed}: {name} {found} {walked}"
                );
            }
        }
    }

    /// Loads by rings are those of routes that are followed.
    #[test]
    fn loads_of_grids_with_failed_cables() {
        let mut mixed = 0;
        for seed in 0..60 {
            let (fabric, routing) = some_failed(seed);
            mixed += usize::from(!routing.is_destination_based());
            let found = grid_load(&fabric, &routing).unwrap();
            let walked = walked_load(&fabric, &routing);
            for (link, (found, walked)) in found.iter().zip(&walked).enumerate() {
                assert_eq!(
                    found,
                    walked,
                    "{seed}: {}",
                    fabric.link_name(LinkId::of(link))
                );
            }
        }
        assert!(mixed > 10, "{mixed}");
    }
}
