//! The transfer that tells components apart which the measurements do not.

use super::component::Component;
use super::explain::{Finding, Suspect};
use hopbyte_fabric::{End, Fabric, LinkId, NodeId, RouterId, Routing};
use std::collections::BTreeSet;

/// Routers searched for nodes.
const ROUTERS: usize = 24;
/// Nodes of a router that take part.
const NODES: usize = 3;

/// A transfer between two nodes, alone, and its rate under each suspect.
#[derive(Clone, Debug, PartialEq)]
pub struct Separation {
    /// Sender.
    pub from: NodeId,
    /// Receiver.
    pub to: NodeId,
    /// Rate in bytes per second if the first-named component is the cause.
    pub rate: f64,
    /// Rates if another one is, in the order of the finding's alternatives.
    pub others: Vec<f64>,
}

/// The transfer whose rate differs for most alternatives by more than `noise` as a share; `None` if it differs for none.
/// `scale` is efficiency and highest rate of [`super::explain::Findings`].
pub fn separating(
    fabric: &Fabric,
    routing: &Routing,
    scale: (f64, f64),
    noise: f64,
    finding: &Finding,
) -> Option<Separation> {
    if finding.or.is_empty() {
        return None;
    }
    let suspects: Vec<Suspect> = std::iter::once(finding.suspect)
        .chain(finding.or.iter().copied())
        .collect();
    let nodes = nodes(fabric, &suspects);
    let mut best: Option<(usize, f64, Separation)> = None;
    let mut route = Vec::new();
    for &from in &nodes {
        for &to in nodes.iter().filter(|&&to| to != from) {
            route.clear();
            if routing.route(fabric, from, to, &mut route).is_err() || route.is_empty() {
                continue;
            }
            let rate = |s: &Suspect| s.rate(fabric, scale, [from, to], &route);
            let first = rate(&finding.suspect);
            let others: Vec<f64> = finding.or.iter().map(rate).collect();
            let apart = |other: &f64| (other / first).ln().abs();
            let told = others.iter().filter(|o| apart(o) > noise).count();
            let most = others.iter().map(apart).fold(0.0, f64::max);
            let better = best.as_ref().is_none_or(|b| (told, most) > (b.0, b.1));
            if told > 0 && better {
                best = Some((
                    told,
                    most,
                    Separation {
                        from,
                        to,
                        rate: first,
                        others,
                    },
                ));
            }
        }
    }
    best.map(|(.., separation)| separation)
}

/// Nodes at the suspects and one router away.
fn nodes(fabric: &Fabric, suspects: &[Suspect]) -> Vec<NodeId> {
    let mut near: Vec<RouterId> = Vec::new();
    let add = |router: RouterId, near: &mut Vec<RouterId>| {
        if near.len() < ROUTERS && !near.contains(&router) {
            near.push(router);
        }
    };
    let router = |end: End| match end {
        End::Router(r) | End::Hosts(r) => r,
        End::Node(n) => fabric.node(n).router,
    };
    let ends = |l: LinkId| [fabric.link(l).from, fabric.link(l).to].map(router);
    for suspect in suspects {
        match suspect.component {
            Component::Link(l) | Component::Cable(l) | Component::HostLink(l) => {
                ends(l).into_iter().for_each(|r| add(r, &mut near));
            }
            Component::Host(n) => add(fabric.node(n).router, &mut near),
            Component::Router(r) => add(r, &mut near),
        }
    }
    for at in near.clone() {
        for &link in fabric.links_from(at) {
            ends(link).into_iter().for_each(|r| add(r, &mut near));
        }
    }
    let of = |r: RouterId| fabric.nodes_on(r).iter().copied().take(NODES);
    let list: BTreeSet<NodeId> = near.into_iter().flat_map(of).collect();
    list.into_iter().collect()
}

/// A part keeps a finding of its own beside the component that contains it if its rates are below this share of the
/// container's. Guessed: a slow router does not slow all of its links alike.
const WORSE: f64 = 0.5;

/// Joins findings at one component, and those at parts of a component that is found as well: the links of a slow router
/// are slow without a fault of theirs. A part that is slower by far keeps its own finding.
pub(super) fn joined(fabric: &Fabric, findings: &[Finding]) -> Vec<Finding> {
    let ratio = |f: &Finding| f.measured / f.expected;
    let into = |i: usize, part: &Finding| {
        findings.iter().enumerate().position(|(j, whole)| {
            let (inner, outer) = (part.suspect.component, whole.suspect.component);
            let same = inner == outer && j < i;
            let inside = inner != outer && outer.contains(fabric, inner);
            // Either is lower where paths share a link.
            let alike =
                ratio(part) >= WORSE * ratio(whole) || part.measured >= WORSE * whole.measured;
            same || (inside && alike)
        })
    };
    let parents: Vec<Option<usize>> = findings
        .iter()
        .enumerate()
        .map(|(i, f)| into(i, f))
        .collect();
    let root = |mut i: usize| {
        while let Some(Some(parent)) = parents.get(i) {
            i = *parent;
        }
        i
    };
    let mut all = findings.to_vec();
    for (i, part) in findings.iter().enumerate() {
        if root(i) != i {
            all[root(i)].paths += part.paths;
        }
    }
    let kept = all
        .into_iter()
        .zip(&parents)
        .filter(|(_, parent)| parent.is_none());
    kept.map(|(finding, _)| finding).collect()
}
