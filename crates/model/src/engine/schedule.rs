//! Phases of TopoBW that cover every link of any machine.
//!
//! Neighbours send to each other (paper 002, III): a phase is a set of disjoint pairs of routers, so that no router both sends
//! and receives. If no two routers with nodes are neighbours (switch trees), every ordered pair of nodes is a transfer, by
//! the circle method. The paper's own steps, for grids, are [`super::topobw::phases`].

use super::topobw::{BETWEEN_ROUTERS, Pair, Phase, SAME_ROUTER};
use crate::error::ModelError;
use hopbyte_fabric::{End, Fabric, InputError, LinkId, NodeId, RouterId, Routing};
use std::collections::BTreeSet;

/// Maximum number of nodes of which every pair is measured.
const MOST_IN_PAIRS: usize = 4_096;

/// The phases between some nodes, in order.
///
/// # Errors
/// Every pair of too many nodes would have to be measured.
pub fn phases<'a>(
    fabric: &'a Fabric,
    routing: &Routing,
    nodes: &'a [NodeId],
) -> Result<Box<dyn Iterator<Item = Phase> + 'a>, ModelError> {
    let mut on = vec![Vec::new(); fabric.router_ids().len()];
    for &node in nodes {
        on[fabric.node(node).router.index()].push(node);
    }
    let neighbours = neighbours(fabric, routing, &on);
    if !neighbours.is_empty() {
        let apart = disjoint(fabric, neighbours).chain(partners(fabric, on));
        return Ok(Box::new(apart));
    }
    if nodes.len() > MOST_IN_PAIRS {
        let found = format!(
            "{} nodes, of which every pair is measured, as no two routers with nodes are neighbours",
            nodes.len()
        );
        let error = InputError::new("topobw", found, format!("up to {MOST_IN_PAIRS}"));
        let hint = "--nodes with one node of every switch, then with those of suspect switches";
        return Err(error.hint(hint).into());
    }
    Ok(Box::new(tournament(fabric, nodes)))
}

type Neighbours = (LinkId, Vec<(NodeId, NodeId)>);

/// Links between routers that both have nodes here (`on`, by router), with a route of that one link, and the pairs of
/// nodes that share it.
fn neighbours(fabric: &Fabric, routing: &Routing, on: &[Vec<NodeId>]) -> Vec<Neighbours> {
    let mut found = Vec::new();
    for link in fabric.link_ids().filter(|&l| fabric.is_hop(l)) {
        let [a, b] = ends(fabric, link)[..] else {
            continue;
        };
        let direct = |&(from, to): &(NodeId, NodeId)| {
            let mut route = Vec::new();
            routing.route(fabric, from, to, &mut route).is_ok()
                && route.get(1) == Some(&link)
                && route.len() == 3
        };
        let (senders, targets) = (&on[a.index()], &on[b.index()]);
        let senders = senders.iter().enumerate();
        let senders =
            senders.filter_map(|(i, &n)| Some((n, *targets.get(i % targets.len().max(1))?)));
        let pairs: Vec<(NodeId, NodeId)> = senders.filter(direct).collect();
        if !pairs.is_empty() {
            found.push((link, pairs));
        }
    }
    found
}

fn ends(fabric: &Fabric, link: LinkId) -> Vec<RouterId> {
    let l = fabric.link(link);
    let router = |end| match end {
        End::Router(r) => Some(r),
        _ => None,
    };
    [l.from, l.to].into_iter().filter_map(router).collect()
}

/// Phases in which no router has two links.
fn disjoint(fabric: &Fabric, mut left: Vec<Neighbours>) -> impl Iterator<Item = Phase> + '_ {
    (1..).map_while(move |number: usize| {
        if left.is_empty() {
            return None;
        }
        let mut busy = BTreeSet::new();
        let mut pairs = Vec::new();
        left.retain(|(link, between)| {
            let ends = ends(fabric, *link);
            if ends.iter().any(|r| busy.contains(r)) {
                return true;
            }
            busy.extend(ends);
            pairs.extend(between.iter().map(|&(from, to)| Pair {
                from,
                to,
                direction: None,
                link: Some(*link),
                kind: fabric.kind(*link).name.clone().into(),
                shared: between.len() > 1,
            }));
            false
        });
        let name = format!("neighbours {number}");
        Some(Phase { name, pairs })
    })
}

/// Nodes of one router (`on`, by router) send to each other in turn: this separates a slow node from its router.
fn partners(fabric: &Fabric, on: Vec<Vec<NodeId>>) -> impl Iterator<Item = Phase> + '_ {
    let most = on.iter().map(Vec::len).max().unwrap_or(0);
    (0..most * most.saturating_sub(1)).map(move |round| {
        let several = on.iter().filter(|here| here.len() > 1);
        let pairs = several.filter_map(|here| {
            let (from, to) = (round / (here.len() - 1), round % (here.len() - 1));
            // Every other node in turn.
            let to = to + usize::from(to >= from);
            (from < here.len()).then(|| pair(fabric, here[from], here[to]))
        });
        Phase {
            name: format!("partners {}", round + 1),
            pairs: pairs.collect(),
        }
    })
}

/// A pair that is not of neighbours.
fn pair(fabric: &Fabric, from: NodeId, to: NodeId) -> Pair {
    let same = fabric.node(from).router == fabric.node(to).router;
    Pair {
        from,
        to,
        direction: None,
        link: None,
        kind: if same { SAME_ROUTER } else { BETWEEN_ROUTERS }.into(),
        shared: false,
    }
}

/// Every ordered pair once, one transfer per node and phase.
fn tournament<'a>(fabric: &'a Fabric, nodes: &'a [NodeId]) -> impl Iterator<Item = Phase> + 'a {
    let places = nodes.len() + nodes.len() % 2;
    let rounds = (0..places.saturating_sub(1)).flat_map(|round| [(round, false), (round, true)]);
    rounds.map(move |(round, back)| {
        let opponent = |i: usize| match i {
            0 => 1 + round,
            _ if i == 1 + round => 0,
            _ => 1 + (2 * round + places - 1 - (i - 1)) % (places - 1),
        };
        let of = |i: usize| {
            let other = opponent(i);
            let (a, b) = if back { (other, i) } else { (i, other) };
            let both = nodes.get(a).zip(nodes.get(b));
            both.filter(|_| i < other)
                .map(|(&from, &to)| pair(fabric, from, to))
        };
        Phase {
            name: format!("round {}{}", round + 1, if back { " back" } else { "" }),
            pairs: (0..places).filter_map(of).collect(),
        }
    })
}
