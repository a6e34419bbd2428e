//! TopoBW (paper 002, III): the bandwidth between all neighbours, phase by phase.

use crate::error::ModelError;
use crate::fluid::{Clock, Sharing};
use crate::network::{Network, Way};
use hopbyte_fabric::{Direction, Fabric, LinkId, NodeId, RouterId, Shape};
use std::borrow::Cow;

/// Kind of a pair of one router's nodes.
pub const SAME_ROUTER: &str = "same router";
/// Kind of a pair whose routers are no neighbours.
pub const BETWEEN_ROUTERS: &str = "between routers";

/// Two nodes that are measured, and the link between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// Sender.
    pub from: NodeId,
    /// Receiver.
    pub to: NodeId,
    /// Direction between their routers, in a grid.
    pub direction: Option<Direction>,
    /// The link between their routers; `None` on one router, or if they are no neighbours.
    pub link: Option<LinkId>,
    /// Kind of the link between them (`X cable`), [`SAME_ROUTER`] or [`BETWEEN_ROUTERS`].
    pub kind: Cow<'static, str>,
    /// Whether another node of the sender's router sends over the same link at the same time.
    pub shared: bool,
}

/// Pairs that are measured at the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// Dimension and step, such as `X even to odd +`.
    pub name: String,
    /// Pairs.
    pub pairs: Vec<Pair>,
}

/// A pair with its bandwidth.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The pair.
    pub pair: Pair,
    /// Message bytes a second.
    pub bytes_per_s: f64,
}

/// Positions along a ring or line that send at the same time.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Such as `even to odd +`.
    pub name: &'static str,
    /// Whether they send towards higher positions.
    pub positive: bool,
    /// Sender and receiver.
    pub pairs: Vec<(u32, u32)>,
}

/// Steps along a ring or line of `n` (paper 002, Fig. 5): even to odd +, odd to even -, odd to even +,
/// even to odd -; on odd rings the first and the last send to each other. In no step does a position
/// both send and receive.
pub fn steps(n: u32, wraps: bool) -> Vec<Step> {
    let closes = wraps && n.is_multiple_of(2);
    let towards = |even: bool, positive: bool| -> Vec<(u32, u32)> {
        (0..n)
            .filter(|c| c.is_multiple_of(2) == even)
            .filter_map(|c| {
                let to = match (positive, closes) {
                    (true, true) => (c + 1) % n,
                    (true, false) => Some(c + 1).filter(|&t| t < n)?,
                    (false, true) => (c + n - 1) % n,
                    (false, false) => c.checked_sub(1)?,
                };
                Some((c, to))
            })
            .collect()
    };
    if n < 2 {
        return Vec::new();
    }
    let step = |name, positive, pairs| Step {
        name,
        positive,
        pairs,
    };
    let mut steps = vec![
        step("even to odd +", true, towards(true, true)),
        step("odd to even -", false, towards(false, false)),
        step("odd to even +", true, towards(false, true)),
        step("even to odd -", false, towards(true, false)),
    ];
    if wraps && !n.is_multiple_of(2) {
        steps.push(step("last to first +", true, vec![(n - 1, 0)]));
        steps.push(step("first to last -", false, vec![(0, n - 1)]));
    }
    steps.retain(|s| !s.pairs.is_empty());
    steps
}

/// All phases of a grid with the given nodes; other nodes are idle. The nodes of a router are paired
/// with those of its neighbour in order.
pub fn phases(fabric: &Fabric, takes_part: &dyn Fn(NodeId) -> bool) -> Vec<Phase> {
    let Some(shape) = fabric.shape() else {
        return Vec::new();
    };
    let on = |r: RouterId| -> Vec<NodeId> {
        let nodes = fabric.nodes_on(r).iter().copied();
        nodes.filter(|&n| takes_part(n)).collect()
    };
    let mut phases = Vec::new();
    for dim in 0..shape.dims.len() {
        for step in steps(shape.dims[dim], shape.wrap[dim]) {
            let direction = Direction {
                dim: dim as u8,
                positive: step.positive,
            };
            let mut pairs = Vec::new();
            for router in fabric.router_ids() {
                let Some(next) = neighbour(fabric, shape, router, dim, &step.pairs) else {
                    continue;
                };
                let Some(link) = fabric.link_towards(router, direction) else {
                    continue;
                };
                let (senders, receivers) = (on(router), on(next));
                let shared = senders.len().min(receivers.len()) > 1;
                pairs.extend(senders.into_iter().zip(receivers).map(|(from, to)| Pair {
                    from,
                    to,
                    direction: Some(direction),
                    link: Some(link),
                    kind: fabric.kind(link).name.clone().into(),
                    shared,
                }));
            }
            let name = format!("{} {}", Direction::letter(dim), step.name);
            phases.push(Phase { name, pairs });
        }
    }
    let same = fabric.router_ids().filter_map(|r| match on(r)[..] {
        [from, to, ..] => Some(Pair {
            from,
            to,
            direction: None,
            link: None,
            kind: SAME_ROUTER.into(),
            shared: false,
        }),
        _ => None,
    });
    let same: Vec<Pair> = same.collect();
    if !same.is_empty() {
        phases.push(Phase {
            name: "same router".into(),
            pairs: same,
        });
    }
    phases
}

fn neighbour(
    fabric: &Fabric,
    shape: &Shape,
    router: RouterId,
    dim: usize,
    steps: &[(u32, u32)],
) -> Option<RouterId> {
    let mut coord = fabric.coord(router)?.to_vec();
    debug_assert_eq!(coord.len(), shape.dims.len());
    let &(_, to) = steps.iter().find(|s| s.0 == coord[dim])?;
    coord[dim] = to;
    fabric.router_at(&coord)
}

/// Runs a phase: every pair sends `bytes`; its bandwidth is for the time until it ends.
pub fn measure(
    network: &Network<'_>,
    phase: &Phase,
    bytes: f64,
) -> Result<Vec<Measured>, ModelError> {
    let mut clock = Clock::new(Sharing::new(network.capacities()), 0.0);
    let wire = network.parameters.protocol.wire(bytes);
    let mut way = Way::default();
    for (i, pair) in phase.pairs.iter().enumerate() {
        let found = network.way(pair.from, pair.to, &wire, bytes, &mut way);
        found.map_err(|p| ModelError::unroutable(network.fabric, &p))?;
        let path = clock.add_path(&way.uses);
        clock.begin(path, bytes, f64::INFINITY, i as u32);
    }
    let mut done = Vec::new();
    while clock.next_end().is_some() {
        clock.end_next(&mut done);
    }
    done.sort_by_key(|d| d.tag);
    let measured = done.iter().map(|d| Measured {
        pair: phase.pairs[d.tag as usize].clone(),
        bytes_per_s: bytes / d.seconds,
    });
    Ok(measured.collect())
}

/// One line of the program's output (paper 002, Fig. 6).
pub fn line(fabric: &Fabric, m: &Measured, bytes: f64) -> String {
    let (from, to) = (fabric.node(m.pair.from), fabric.node(m.pair.to));
    let nid = |n: Option<u32>| n.map_or("nid?????".into(), |n| format!("nid{n:05}"));
    let direction = m.pair.direction.map_or("Y+".into(), |d| d.to_string());
    let kind = match m.pair.kind.rsplit(' ').next() {
        Some("mezzanine") => 'M',
        Some("backplane") => 'B',
        Some("router") => 'G',
        _ => 'C',
    };
    // Fig. 6 has S for two nodes of one Gemini: the partner takes part, as the receiver.
    let partner = m.pair.shared || m.pair.kind == SAME_ROUTER;
    let shared = if partner { 'S' } else { 'E' };
    format!(
        "{} {direction}{kind}{shared} {} ({} to {}): {:.4} seconds = {:.2} MB/sec",
        from.name,
        to.name,
        nid(from.nid),
        nid(to.nid),
        bytes / m.bytes_per_s,
        m.bytes_per_s / 1e6
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use hopbyte_fabric::spec;
    use proptest::prelude::*;
    use std::collections::{HashMap, HashSet};

    proptest! {
        #[test]
        fn nobody_sends_and_receives_at_once_and_every_link_is_measured_once(n in 2u32..40, wraps: bool) {
            let mut links: HashMap<(u32, bool), u32> = HashMap::new();
            for Step { positive, pairs, .. } in steps(n, wraps) {
                let from: HashSet<u32> = pairs.iter().map(|p| p.0).collect();
                let to: HashSet<u32> = pairs.iter().map(|p| p.1).collect();
                prop_assert!(from.is_disjoint(&to));
                prop_assert_eq!(from.len(), pairs.len());
                for (a, b) in pairs {
                    let step = if positive { (a + 1) % n } else { (a + n - 1) % n };
                    prop_assert_eq!(b, step);
                    *links.entry((a, positive)).or_default() += 1;
                }
            }
            // One link up and one down between neighbours.
            let joints = if wraps { n } else { n - 1 };
            prop_assert_eq!(links.len() as u32, 2 * joints);
            prop_assert!(links.values().all(|&times| times == 1));
        }
    }

    #[test]
    fn phases_of_a_gemini_measure_every_network_link() {
        let fabric = spec::fabric("gemini:3x4x8").unwrap();
        let phases = phases(&fabric, &|_| true);
        // X is an odd ring of three: six phases; Y and Z four each; one on the routers.
        assert_eq!(phases.len(), 6 + 4 + 4 + 1);
        let pairs: usize = phases.iter().map(|p| p.pairs.len()).sum();
        let links = fabric.link_ids().filter(|&l| fabric.is_hop(l)).count();
        assert_eq!(pairs, 2 * links + 96);
        let single = super::phases(&fabric, &|n| n.0 % 2 == 0);
        assert!(single.iter().flat_map(|p| &p.pairs).all(|p| !p.shared));
    }
}
