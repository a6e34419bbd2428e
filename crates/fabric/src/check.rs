//! Checks of a machine: connectivity, routability, credit loops, cabling.

use crate::direction::Direction;
use crate::fabric::{End, Fabric, Link, Node};
use crate::ids::{LinkId, NodeId, RouterId};
use crate::reach::Reach;
use crate::routing::dependencies::{VirtualChannels, credit_loop};
use crate::routing::{DimensionOrder, Routing};
use rayon::prelude::*;
use std::collections::{BTreeMap, HashMap};

/// Largest number of links listed in a finding.
const LISTED: usize = 50;

/// A finding about a fabric.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Category for filters: `disconnected`, `unroutable`, `credit_loop`, `asymmetric_cable`, `link_down`,
    /// `degraded_link`, `slow_link`, `oversubscribed_link`, `isolated_router`, `no_route_order`.
    pub kind: &'static str,
    /// Whether it fails the check.
    pub fatal: bool,
    /// Description, one sentence.
    pub text: String,
    /// The affected links, at most 50.
    pub links: Vec<LinkId>,
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// Pairs, distances, unroutable pairs.
    pub reach: Reach,
    /// Connected parts.
    pub components: usize,
    /// The order of dimensions that routes all pairs, as letters; `None` if there is none or the routing is not
    /// dimension-order.
    pub order: Option<String>,
    /// No credit loop, given `virtual_channels`.
    pub deadlock_free: bool,
    /// The assumed virtual channels.
    pub virtual_channels: VirtualChannels,
    /// All findings, fatal ones first.
    pub findings: Vec<Finding>,
}

impl Check {
    /// Whether every pair has a route and nothing fatal was found.
    pub fn is_sound(&self) -> bool {
        !self.findings.iter().any(|f| f.fatal)
    }

    /// Checks a machine. `healthy` is the same machine before its faults, with its routing, as the reference for
    /// increased loads.
    ///
    /// Links inside hosts are left out: the check is of the network.
    pub fn of(fabric: &Fabric, routing: &Routing, healthy: Option<(&Fabric, &Routing)>) -> Self {
        if let Routing::Hosts(hosts) = routing {
            let before = healthy.map(|(f, r)| (f.network(), r.network()));
            let before = before.as_ref().map(|(f, r)| (&**f, *r));
            return Self::of(&fabric.network(), &hosts.network, before);
        }
        let reach = Reach::of(fabric, routing);
        let components = fabric.components();
        let loop_found = credit_loop(fabric, routing);
        let virtual_channels = VirtualChannels::of(routing);
        let order = match routing {
            Routing::DimensionOrder(order)
                if reach.unroutable_pairs() == 0 && order.is_one_order() =>
            {
                Some(letters(order))
            }
            _ => None,
        };
        let mut findings = cabling(fabric);
        findings.extend(part_findings(fabric, components));
        findings.extend(route_findings(fabric, routing, &reach));
        if let Some(links) = &loop_found {
            let text = format!(
                "credit loop over {} links with {}; safe only if other virtual lanes break it",
                links.len(),
                virtual_channels.describe()
            );
            findings.push(finding("credit_loop", true, text, links.clone()));
        }
        if let Some((before, routing_before)) = healthy {
            findings.extend(oversubscribed(fabric, routing, before, routing_before));
        }
        findings.sort_by_key(|f| !f.fatal);
        let deadlock_free = loop_found.is_none();
        Self {
            reach,
            components,
            order,
            deadlock_free,
            virtual_channels,
            findings,
        }
    }
}

fn finding(kind: &'static str, fatal: bool, text: String, mut links: Vec<LinkId>) -> Finding {
    links.truncate(LISTED);
    Finding {
        kind,
        fatal,
        text,
        links,
    }
}

/// The order of dimensions in letters: `X-Y-Z`.
pub fn letters(order: &DimensionOrder) -> String {
    order
        .order()
        .iter()
        .map(|&d| Direction::letter(d as usize).to_string())
        .collect::<Vec<_>>()
        .join("-")
}

/// Disconnected parts, and routers without a working link.
fn part_findings(fabric: &Fabric, components: usize) -> Vec<Finding> {
    let mut found = Vec::new();
    let alone: Vec<&str> = fabric
        .router_ids()
        .filter(|&r| fabric.routers().len() > 1 && !has_working_router_link(fabric, r))
        .map(|r| fabric.router(r).name.as_str())
        .collect();
    if !alone.is_empty() {
        let examples = alone.iter().take(5).copied().collect::<Vec<_>>().join(", ");
        let text = format!(
            "{} routers without a working link to another: {examples}",
            alone.len()
        );
        found.push(finding("isolated_router", false, text, Vec::new()));
    }
    if components > 1 {
        let text = format!("the fabric has {components} parts without a working link between them");
        found.push(finding(
            "disconnected",
            components > 1 + alone.len(),
            text,
            Vec::new(),
        ));
    }
    found
}

fn has_working_router_link(fabric: &Fabric, router: RouterId) -> bool {
    fabric
        .links_from(router)
        .iter()
        .any(|&l| matches!(fabric.link(l).to, End::Router(_)) && fabric.link(l).is_up())
}

fn route_findings(fabric: &Fabric, routing: &Routing, reach: &Reach) -> Vec<Finding> {
    let mut found = Vec::new();
    if let Some(first) = reach.unroutable.first() {
        let text = format!(
            "{} of {} pairs have no route; first: {}",
            reach.unroutable_pairs(),
            reach.pairs,
            first.describe(fabric)
        );
        found.push(finding("unroutable", true, text, Vec::new()));
    }
    if let Routing::DimensionOrder(order) = routing
        && !order.is_one_order()
    {
        let safety = match order.is_mixed_safely() {
            Some(false) if order.is_unsafe_in_every_order() => {
                ", and every list of orders has a credit loop"
            }
            Some(false) => ", and no list of orders without a credit loop was found",
            Some(true) => "",
            None => {
                ", and lists without a credit loop are not searched for on a machine of this size"
            }
        };
        let text =
            format!("no single order of dimensions routes all pairs; orders are mixed{safety}");
        found.push(finding("no_route_order", false, text, Vec::new()));
    }
    found
}

/// Cables that are one-way, down, degraded, or slower than others of their kind.
fn cabling(fabric: &Fabric) -> Vec<Finding> {
    let usual = fabric.kind_summary();
    // Kinds of InfiniBand are widths and rates, so a cable that came up slower is of another kind than its parallels.
    let mut fastest: HashMap<(RouterId, RouterId), f64> = HashMap::new();
    for link in fabric.links() {
        let Some(ends) = routers(link) else { continue };
        let of_pair = fastest.entry(ends).or_default();
        *of_pair = of_pair.max(link.nominal.0);
    }
    let parallel = |link: &Link| routers(link).and_then(|ends| fastest.get(&ends)).copied();
    let adapters = usual_rates(fabric);
    let mut lists: BTreeMap<&'static str, Vec<LinkId>> = BTreeMap::new();
    for id in fabric.link_ids() {
        let link = fabric.link(id);
        let back = fabric.reverse(id).map(|b| fabric.link(b));
        if !link.is_up() {
            lists.entry("link_down").or_default().push(id);
        } else if link.lanes_in_service < link.lanes {
            lists.entry("degraded_link").or_default().push(id);
        }
        if back.is_none_or(|b| b.nominal != link.nominal || b.is_up() != link.is_up()) {
            lists.entry("asymmetric_cable").or_default().push(id);
        }
        let of_kind = usual.get(fabric.kind(id).name.as_str()).map(|(_, c)| c.0);
        if [of_kind, parallel(link), adapters.get(&id).copied()]
            .into_iter()
            .flatten()
            .any(|c| link.nominal.0 < c * 0.999)
        {
            lists.entry("slow_link").or_default().push(id);
        }
    }
    let text = |kind| match kind {
        "link_down" => "links are down",
        "degraded_link" => "links run with lanes missing",
        "asymmetric_cable" => "links have no equal link back over the same ports",
        _ => {
            "links are slower than most of their kind, another between the same routers, or the same adapter of other hosts"
        }
    };
    lists
        .into_iter()
        .map(|(kind, links)| {
            let example = links
                .first()
                .map_or(String::new(), |&l| fabric.link_name(l));
            finding(
                kind,
                false,
                format!("{} {}, among them {example}", links.len(), text(kind)),
                links,
            )
        })
        .collect()
}

/// Fewest hosts, and their share among those with as many adapters, whose rates are usual.
const ALIKE: (usize, f64) = (3, 0.75);

/// The usual rates of the links of hosts with several adapters: those of most hosts with as many, the fastest first. An
/// adapter that trained to half of its width or speed is of another kind than its neighbours. A host whose adapters are all
/// slower is of another generation.
fn usual_rates(fabric: &Fabric) -> HashMap<LinkId, f64> {
    let mut hosts: BTreeMap<&str, Vec<&Node>> = BTreeMap::new();
    for node in fabric.nodes() {
        hosts.entry(&node.host).or_default().push(node);
    }
    let rate = |node: &Node| fabric.link(node.inject).nominal.0;
    let mut alike: HashMap<usize, HashMap<Vec<u64>, usize>> = HashMap::new();
    for nodes in hosts.values_mut() {
        nodes.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
        let rates = nodes.iter().map(|n| rate(n).to_bits()).collect();
        *alike
            .entry(nodes.len())
            .or_default()
            .entry(rates)
            .or_default() += 1;
    }
    let mut usual = HashMap::new();
    for nodes in hosts.values().filter(|nodes| nodes.len() > 1) {
        let of_size = &alike[&nodes.len()];
        let all: usize = of_size.values().sum();
        let is_usual =
            |&(_, &n): &(&Vec<u64>, &usize)| n >= ALIKE.0 && n as f64 >= ALIKE.1 * all as f64;
        let Some((rates, _)) = of_size.iter().find(is_usual) else {
            continue;
        };
        if rate(nodes[0]).to_bits() != rates[0] {
            continue;
        }
        for (node, &rate) in nodes.iter().zip(rates) {
            usual.extend([node.inject, node.eject].map(|l| (l, f64::from_bits(rate))));
        }
    }
    usual
}

/// Both ends of a link between routers.
fn routers(link: &Link) -> Option<(RouterId, RouterId)> {
    match (link.from, link.to) {
        (End::Router(from), End::Router(to)) => Some((from, to)),
        _ => None,
    }
}

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
    let zero = || vec![0f64; fabric.links().len()];
    // A fixed number of parts, added up in order: identical sums for any number of threads.
    let chunk = targets.len().div_ceil(16).max(1);
    let parts: Vec<Vec<f64>> = targets
        .par_chunks(chunk)
        .map(|targets| {
            let mut load = zero();
            for &to in targets {
                if trees {
                    add_tree_load(fabric, routing, NodeId(to), &mut load);
                } else {
                    add_router_load(fabric, routing, RouterId(to), &mut load);
                }
            }
            load
        })
        .collect();
    let mut total = zero();
    for part in parts {
        total.iter_mut().zip(part).for_each(|(t, p)| *t += p);
    }
    total
}

/// Adds the routes of all nodes to the nodes of one router; the route between two routers is walked once.
fn add_router_load(fabric: &Fabric, routing: &Routing, to: RouterId, load: &mut [f64]) {
    let mut shares = Vec::new();
    for from in fabric.router_ids() {
        let (sources, targets) = (fabric.nodes_on(from), fabric.nodes_on(to));
        let pair = sources
            .iter()
            .find_map(|&a| Some((a, *targets.iter().find(|&&b| b != a)?)));
        let Some((a, b)) = pair else { continue };
        shares.clear();
        if routing.shares(fabric, a, b, &mut shares).is_err() {
            continue;
        }
        let own = if from == to { sources.len() } else { 0 };
        let pairs = (sources.len() * targets.len() - own) as f64;
        for &(link, share) in &shares {
            if fabric.link(link).is_between_routers() {
                load[link.index()] += share * pairs;
            }
        }
        for &a in sources {
            load[fabric.node(a).inject.index()] += pairs / sources.len() as f64;
        }
        for &b in targets {
            load[fabric.node(b).eject.index()] += pairs / targets.len() as f64;
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

/// Links with a longer time for uniform traffic than the healthy machine's slowest link.
fn oversubscribed(
    fabric: &Fabric,
    routing: &Routing,
    before: &Fabric,
    routing_before: &Routing,
) -> Option<Finding> {
    let was = uniform_load(before, routing_before);
    let is = uniform_load(fabric, routing);
    let worst = was.iter().copied().fold(0.0, f64::max);
    let mut links: Vec<LinkId> = fabric
        .link_ids()
        .filter(|l| is[l.index()] > worst * 1.001 && is[l.index()] > was[l.index()] * 1.001)
        .collect();
    links.sort_by(|a, b| is[b.index()].total_cmp(&is[a.index()]).then(a.cmp(b)));
    let first = *links.first()?;
    let text = format!(
        "{} links exceed the previous highest load under uniform traffic; {} carries {:.2} times that load",
        links.len(),
        fabric.link_name(first),
        is[first.index()] / worst
    );
    Some(finding("oversubscribed_link", false, text, links))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::tests::some_failed;

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
