//! Who is in the application's way? Pairs of other nodes for which the model says that the static map loses time
//! and that another map would win it back: without such a situation a trial has nothing to show.
//!
//! Where two pairs meet they ask a link for more than it carries, and what they queue there stands in everybody's way:
//! a message that crosses it waits for all of it, however small it is. The model is that of the mapper (bytes over the
//! capacity that is left, at the worst link), in which such a link has next to nothing left.

use crate::machine::Machine;
use anyhow::Result;
use hopbyte_fabric::{
    Allocation, Exchange, LinkId, LinkState, NodeId, Placement, Quantity, Snapshot,
};
use hopbyte_map::{Options, Problem, Rng, evaluate, map};

/// Pairings that are looked at for one trial.
const DRAWN: usize = 500;
/// Of those that lose most, as many are looked at with a new map.
const MAPPED: usize = 40;
/// A new map may take this much longer beside the pairs than the static one without them.
const MOST_LEFT: f64 = 1.5;

/// Pairs of nodes that send each other all the time, and what the model says of them, in seconds of the fabric's own
/// capacities: only their ratios count.
#[derive(Clone, Debug)]
pub struct Situation {
    /// The nodes.
    pub pairs: Vec<[NodeId; 2]>,
    /// Links that they ask for more than these carry.
    pub overloaded_links: usize,
    /// Time of a product with the static map, alone.
    pub free: f64,
    /// Beside the pairs.
    pub congested: f64,
    /// Beside the pairs, with a map that knows them.
    pub remapped: f64,
}

impl Situation {
    /// Whether the static map crosses what is overloaded and another one does not.
    fn is_one(&self) -> bool {
        self.overloaded_links > 0
            && self.congested > 2.0 * MOST_LEFT * self.free
            && self.remapped <= MOST_LEFT * self.free
    }
}

/// The application that is in somebody's way.
pub struct Question<'a> {
    /// Machine.
    pub machine: &'a Machine,
    /// What the tasks send each other in one product.
    pub exchange: &'a Exchange,
    /// Their nodes.
    pub allocation: &'a Allocation,
    /// The static map.
    pub placement: &'a Placement,
    /// Nodes that pairs are made of.
    pub others: &'a [NodeId],
    /// Pairs of a situation.
    pub count: usize,
    /// Share of a node's link that a competing node sends at.
    pub share: f64,
}

impl Question<'_> {
    /// The first situation by a seed that is one, else the one with most to win back.
    pub fn situation(&self, seed: u64) -> Result<Situation> {
        let free = self.seconds(&self.problem(None), self.placement)?;
        let mut rng = Rng::new(seed, 1);
        let mut nodes = self.others.to_vec();
        let mut drawn = Vec::new();
        for _ in 0..DRAWN {
            rng.shuffle(&mut nodes);
            let pairs: Vec<[NodeId; 2]> = (nodes.chunks_exact(2).take(self.count))
                .map(|p| [p[0], p[1]])
                .collect();
            let state = self.state(&pairs)?;
            let congested = self.seconds(&self.problem(Some(&state)), self.placement)?;
            drawn.push((congested, pairs, state));
        }
        drawn.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut best: Option<Situation> = None;
        for (congested, pairs, state) in drawn.into_iter().take(MAPPED) {
            let over = |&l: &LinkId| state.used_ratio.get(l).is_some_and(|u| u > 1.0);
            let found = Situation {
                pairs,
                overloaded_links: self.machine.fabric.link_ids().filter(over).count(),
                free,
                congested,
                remapped: self.remapped(&state)?,
            };
            if found.is_one() {
                return Ok(found);
            }
            let gain = |s: &Situation| s.congested - s.remapped;
            if best.as_ref().is_none_or(|b| gain(&found) > gain(b)) {
                best = Some(found);
            }
        }
        best.ok_or_else(|| anyhow::anyhow!("the other nodes make no {} pairs", self.count))
    }

    fn problem<'a>(&'a self, background: Option<&'a LinkState>) -> Problem<'a> {
        let (fabric, routing) = (&self.machine.fabric, &self.machine.routing);
        Problem {
            background,
            ..Problem::new(fabric, routing, self.exchange, self.allocation)
        }
    }

    fn seconds(&self, problem: &Problem<'_>, placement: &Placement) -> Result<f64> {
        Ok(evaluate(problem, placement)?.worst_link_seconds)
    }

    /// What pairs put on the links.
    fn state(&self, pairs: &[[NodeId; 2]]) -> Result<LinkState> {
        let fabric = &self.machine.fabric;
        let mut snapshot = Snapshot::new(fabric, "model: rivals", false);
        snapshot.window_seconds = Some(1.0);
        let mut bytes = vec![0.0; fabric.links().len()];
        let mut route = Vec::new();
        for (from, to) in pairs.iter().flat_map(|&[a, b]| [(a, b), (b, a)]) {
            let rate = fabric.link(fabric.node(from).inject).capacity().0 * self.share;
            route.clear();
            let walked = (self.machine.routing).route(fabric, from, to, &mut route);
            walked.map_err(|e| anyhow::anyhow!("{}", e.describe(fabric)))?;
            for &link in &route {
                bytes[link.index()] += rate;
            }
        }
        for (i, &bytes) in bytes.iter().enumerate() {
            snapshot.set(Quantity::ReceivedBytes, LinkId::of(i), bytes);
        }
        Ok(LinkState::of_increase(fabric, &snapshot))
    }

    /// Time of a product beside what is on the links, with the map that knows it.
    fn remapped(&self, state: &LinkState) -> Result<f64> {
        let problem = self.problem(Some(state));
        let options = Options {
            trials: Some(20_000),
            ..Options::default()
        };
        let (placement, _) = map(&problem, &options, &|_| {})?;
        self.seconds(&problem, &placement)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::MachineSource;
    use crate::output::Output;
    use hopbyte_observe::read_traffic;

    #[test]
    fn situations_lose_time_that_a_map_wins_back() {
        let source = MachineSource {
            fabric: "torus:2x2x8".into(),
            ..MachineSource::default()
        };
        let machine = source.read(&mut Output::silent()).unwrap();
        let exchange = read_traffic("stencil:4x4x4:7").unwrap().total();
        let nodes = (0..32).step_by(2).map(|n| (NodeId(n), 4)).collect();
        let allocation = Allocation::new(&machine.fabric, nodes).unwrap();
        let others: Vec<NodeId> = (1..32).step_by(2).map(NodeId).collect();
        let problem = Problem::new(&machine.fabric, &machine.routing, &exchange, &allocation);
        let options = Options {
            trials: Some(20_000),
            ..Options::default()
        };
        let (placement, _) = map(&problem, &options, &|_| {}).unwrap();
        let question = Question {
            machine: &machine,
            exchange: &exchange,
            allocation: &allocation,
            placement: &placement,
            others: &others,
            count: 4,
            share: 0.7,
        };
        let found = question.situation(1).unwrap();
        assert_eq!(found.pairs, question.situation(1).unwrap().pairs);
        let mut nodes: Vec<NodeId> = found.pairs.iter().flatten().copied().collect();
        nodes.sort_unstable();
        nodes.dedup();
        assert!(nodes.len() == 8 && nodes.iter().all(|n| others.contains(n)));
        assert!(found.is_one(), "{found:?}");
    }
}
