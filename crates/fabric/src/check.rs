//! Checks of a machine: connectivity, routability, credit loops, cabling.

use crate::direction::Direction;
use crate::fabric::{End, Fabric, Link, Node};
use crate::ids::{LinkId, RouterId};
use crate::reach::Reach;
use crate::routing::dependencies::{VirtualChannels, credit_loop};
use crate::routing::{DimensionOrder, Routing};
use std::collections::{BTreeMap, HashMap};

pub use load::uniform_load;

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

mod load;
