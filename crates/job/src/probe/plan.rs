//! Schedule of transfers that covers every link.
//!
//! Neighbours send to each other (paper 002, III): a phase is a set of disjoint pairs of routers,
//! so that no router both sends and receives. If no two routers with nodes are
//! neighbours (switch trees), every ordered pair of nodes is a transfer, by the circle method.

use crate::error::{Result, refuse};
use hopbyte_fabric::{End, Fabric, LinkId, NodeId, RouterId, Routing};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Maximum number of nodes of which every pair is measured: 16.8 million lines, a gigabyte.
const MOST_IN_PAIRS: usize = 4_096;

/// The schedule as `topobw --schedule` reads it.
///
/// # Errors
/// Every pair of too many nodes would have to be measured.
pub fn schedule(fabric: &Fabric, routing: &Routing, nodes: &[NodeId]) -> Result<String> {
    let mut on = vec![Vec::new(); fabric.router_ids().len()];
    for &node in nodes {
        on[fabric.node(node).router.index()].push(node);
    }
    let neighbours = neighbours(fabric, routing, &on);
    if neighbours.is_empty() {
        if nodes.len() > MOST_IN_PAIRS {
            refuse!(
                "{} nodes, of which every pair is measured, as no two routers with nodes are neighbours; expected up to \
                 {MOST_IN_PAIRS}\nhint: --nodes with one node of every switch, then with those of suspect switches",
                nodes.len()
            );
        }
        return Ok(tournament(fabric, nodes));
    }
    let mut text = String::new();
    let mut left = neighbours;
    for phase in 1.. {
        if left.is_empty() {
            break;
        }
        let mut busy = BTreeSet::new();
        let _ = writeln!(text, "phase\tneighbours {phase}");
        left.retain(|(link, pairs)| {
            let ends = ends(fabric, *link);
            if ends.iter().any(|r| busy.contains(r)) {
                return true;
            }
            busy.extend(ends);
            let mode = if pairs.len() > 1 {
                "shared"
            } else {
                "exclusive"
            };
            for &(from, to) in pairs {
                transfer(
                    &mut text,
                    fabric,
                    (from, to),
                    (&fabric.link_name(*link), &fabric.kind(*link).name),
                    mode,
                );
            }
            false
        });
    }
    partners(&mut text, fabric, &on);
    Ok(text)
}

fn transfer(
    text: &mut String,
    fabric: &Fabric,
    pair: (NodeId, NodeId),
    link: (&str, &str),
    mode: &str,
) {
    let [from, to] = [pair.0, pair.1].map(|n| &fabric.node(n).name);
    let _ = writeln!(text, "{from}\t{to}\t{}\t{}\t{mode}", link.0, link.1);
}

fn ends(fabric: &Fabric, link: LinkId) -> Vec<RouterId> {
    let l = fabric.link(link);
    let router = |end| match end {
        End::Router(r) => Some(r),
        _ => None,
    };
    [l.from, l.to].into_iter().filter_map(router).collect()
}

/// Links between routers that both have nodes here (`on`, by router), with a route of that one link, and the pairs of
/// nodes that share it.
fn neighbours(
    fabric: &Fabric,
    routing: &Routing,
    on: &[Vec<NodeId>],
) -> Vec<(LinkId, Vec<(NodeId, NodeId)>)> {
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

/// Nodes of one router (`on`, by router) send to each other in turn: this separates a slow node from its router.
fn partners(text: &mut String, fabric: &Fabric, on: &[Vec<NodeId>]) {
    let most = on.iter().map(Vec::len).max().unwrap_or(0);
    for round in 0..most * most.saturating_sub(1) {
        let _ = writeln!(text, "phase\tpartners {}", round + 1);
        for here in on.iter().filter(|here| here.len() > 1) {
            let (from, to) = (round / (here.len() - 1), round % (here.len() - 1));
            if from < here.len() {
                // Every other node in turn.
                let pair = (here[from], here[to + usize::from(to >= from)]);
                let name = &fabric.router(fabric.node(pair.0).router).name;
                transfer(text, fabric, pair, (name, "same router"), "exclusive");
            }
        }
    }
}

/// Every ordered pair once, one transfer per node and phase.
fn tournament(fabric: &Fabric, nodes: &[NodeId]) -> String {
    let mut text = String::new();
    let places = nodes.len() + nodes.len() % 2;
    for round in 0..places.saturating_sub(1) {
        let opponent = |i: usize| match i {
            0 => 1 + round,
            _ if i == 1 + round => 0,
            _ => 1 + (2 * round + places - 1 - (i - 1)) % (places - 1),
        };
        for back in [false, true] {
            let _ = writeln!(
                text,
                "phase\tround {}{}",
                round + 1,
                if back { " back" } else { "" }
            );
            for i in 0..places {
                let (a, b) = if back {
                    (opponent(i), i)
                } else {
                    (i, opponent(i))
                };
                if i < opponent(i)
                    && let (Some(&from), Some(&to)) = (nodes.get(a), nodes.get(b))
                {
                    let same = fabric.node(from).router == fabric.node(to).router;
                    let kind = if same {
                        "same router"
                    } else {
                        "between routers"
                    };
                    let name = format!("{}->{}", fabric.node(from).name, fabric.node(to).name);
                    transfer(&mut text, fabric, (from, to), (&name, kind), "exclusive");
                }
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopbyte_fabric::spec;
    use std::collections::BTreeMap;

    fn check(machine: &str) -> BTreeMap<String, usize> {
        let m = spec::machine(machine).unwrap();
        let nodes: Vec<NodeId> = m.fabric.node_ids().collect();
        let text = schedule(&m.fabric, &m.routing, &nodes).unwrap();
        let mut kinds = BTreeMap::new();
        let (mut senders, mut receivers, mut seen) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for line in text.lines() {
            let cells: Vec<&str> = line.split('\t').collect();
            if cells[0] == "phase" {
                senders.clear();
                receivers.clear();
                continue;
            }
            let router = |n: &str| m.fabric.node(m.fabric.find_node(n).unwrap()).router;
            if cells[3] != "same router" && cells[3] != "between routers" {
                senders.insert(router(cells[0]));
                receivers.insert(router(cells[1]));
                assert!(senders.is_disjoint(&receivers), "{machine}: {line}");
            }
            assert!(
                seen.insert((cells[0].to_owned(), cells[1].to_owned())),
                "{machine}: {line}"
            );
            *kinds.entry(cells[3].to_owned()).or_insert(0) += 1;
        }
        kinds
    }

    #[test]
    fn every_link_of_a_torus_and_every_pair_of_a_tree() {
        let torus = check("torus:3x4:nodes=2");
        assert_eq!(
            torus.values().copied().collect::<Vec<_>>(),
            [12 * 4 * 2, 12 * 2]
        );
        // Rings of two: one of the two cables carries each direction.
        assert_eq!(check("torus:2x2").values().sum::<usize>(), 4 * 2);
        let tree = check("fattree:down=4x3,up=1x2");
        assert_eq!(tree.values().sum::<usize>(), 12 * 11);
    }

    #[test]
    fn pairs_of_too_many_nodes_are_refused() {
        let m = spec::machine("fattree:down=64x65,up=1x64").unwrap();
        let nodes: Vec<NodeId> = m.fabric.node_ids().collect();
        let plan = |nodes: &[NodeId]| schedule(&m.fabric, &m.routing, nodes);
        let refusal = plan(&nodes).unwrap_err().to_string();
        assert!(refusal.contains("4160 nodes"), "{refusal}");
        assert!(plan(&nodes[..100]).is_ok());
    }
}
