//! Competing streams: streams between other nodes with which, by the model, the static map loses time
//! and another map would recover it. Without such a situation a trial has no effect to measure.
//!
//! No link is oversubscribed: a stream keeps its rate, and the rest of the link is
//! the application's. The model is that of the mapper: bytes over the remaining capacity at the worst link. On
//! a FIFO queue, products converge to that time: while they are faster, the queue grows and delays
//! the next one.

use crate::error::{LabError, Result};
use hopbyte_fabric::random::Random;
use hopbyte_fabric::{Allocation, Exchange, Increase, LinkState, NodeId, Placement, Quantity};
use hopbyte_job::Machine;
use hopbyte_map::{Options, Problem, evaluate, map};

/// Candidate sets of streams per trial.
const DRAWN: usize = 2000;
/// Candidates with sufficient cost that are evaluated with a new map.
const MAPPED: usize = 40;
/// Smallest slowdown of the static map by the streams,
const LEAST_LOSS: f64 = 2.5;
/// and the largest: the queue of the worst link must not overflow.
const MOST_LOSS: f64 = 3.5;
/// Largest time of a new map beside the streams, relative to the static one without them.
const MOST_LEFT: f64 = 1.25;
/// Headroom of every link when the mapper gets the others' load: on a link used up to the last
/// byte, each message is delayed by the backlog, which bytes over capacity do not include.
pub const HEADROOM: f64 = 0.15;

/// Continuous streams between nodes, and their modelled effect, in seconds of the fabric's own capacities.
#[derive(Clone, Debug)]
pub struct Situation {
    /// Source and target of each stream.
    pub flows: Vec<[NodeId; 2]>,
    /// Share of each link that they use.
    pub taken: Vec<f64>,
    /// Time of a product with the static map, alone.
    pub free: f64,
    /// Beside the streams.
    pub congested: f64,
    /// Beside the streams, with a map computed for them with headroom on every link.
    pub remapped: f64,
}

impl Situation {
    /// Whether the static map crosses the loaded links and another one avoids them.
    fn is_one(&self) -> bool {
        let loss = self.congested / self.free;
        (LEAST_LOSS..=MOST_LOSS).contains(&loss) && self.remapped <= MOST_LEFT * self.free
    }
}

/// The application and the streams' parameters.
pub struct Question<'a> {
    /// Machine.
    pub machine: &'a Machine,
    /// Traffic of one product.
    pub exchange: &'a Exchange,
    /// Their nodes.
    pub allocation: &'a Allocation,
    /// The static map.
    pub placement: &'a Placement,
    /// Nodes available for streams.
    pub others: &'a [NodeId],
    /// Number of streams in a situation.
    pub count: usize,
    /// Share of its node's link that a stream uses.
    pub share: f64,
}

impl Question<'_> {
    /// The first suitable situation by a seed, else the one with the largest recoverable time.
    pub fn situation(&self, seed: u64) -> Result<Situation> {
        let free = self.seconds(&self.problem(None), self.placement)?;
        let mut rng = Random::stream(seed, 1);
        let mut nodes = self.others.to_vec();
        let mut best: Option<Situation> = None;
        let mut mapped = 0;
        for _ in 0..DRAWN {
            rng.shuffle(&mut nodes);
            let flows: Vec<[NodeId; 2]> = (nodes.chunks_exact(2).take(self.count))
                .map(|p| [p[0], p[1]])
                .collect();
            let taken = self.taken(&flows)?;
            if taken.iter().any(|&t| t > 0.95) {
                continue;
            }
            let state = self.state(&taken);
            let congested = self.seconds(&self.problem(Some(&state)), self.placement)?;
            if best.is_some() && !(LEAST_LOSS..=MOST_LOSS).contains(&(congested / free)) {
                continue;
            }
            let found = Situation {
                remapped: self.remapped(&taken)?,
                flows,
                taken,
                free,
                congested,
            };
            if found.is_one() {
                return Ok(found);
            }
            let gain = |s: &Situation| s.congested - s.remapped;
            if best.as_ref().is_none_or(|b| gain(&found) > gain(b)) {
                best = Some(found);
            }
            mapped += 1;
            if mapped > MAPPED {
                break;
            }
        }
        best.ok_or_else(|| {
            LabError::Refused(format!("the other nodes make no {} streams", self.count))
        })
    }

    /// Time of a product with a placement beside a situation's streams, by the model.
    pub fn beside(&self, situation: &Situation, placement: &Placement) -> Result<f64> {
        let state = self.state(&situation.taken);
        self.seconds(&self.problem(Some(&state)), placement)
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

    /// Share of each link that the streams use.
    fn taken(&self, flows: &[[NodeId; 2]]) -> Result<Vec<f64>> {
        let fabric = &self.machine.fabric;
        let mut taken = vec![0.0; fabric.links().len()];
        let mut route = Vec::new();
        for &[from, to] in flows {
            let rate = fabric.link(fabric.node(from).inject).capacity().0 * self.share;
            route.clear();
            let walked = (self.machine.routing).route(fabric, from, to, &mut route);
            walked.map_err(|e| LabError::Refused(e.describe(fabric)))?;
            for &link in &route {
                taken[link.index()] += rate / fabric.link(link).capacity().0;
            }
        }
        Ok(taken)
    }

    /// The same as a reading of the links.
    fn state(&self, taken: &[f64]) -> LinkState {
        let fabric = &self.machine.fabric;
        let mut snapshot = Increase::new(fabric, "model: rivals");
        snapshot.window_seconds = Some(1.0);
        for (link, &taken) in fabric.link_ids().zip(taken) {
            let bytes = taken * fabric.link(link).capacity().0;
            snapshot.set(Quantity::ReceivedBytes, link, bytes);
        }
        LinkState::of_increase(fabric, &snapshot)
    }

    /// Time of a product with the map computed for the streams with headroom, on links that are as much faster.
    fn remapped(&self, taken: &[f64]) -> Result<f64> {
        let taken: Vec<f64> = taken.iter().map(|t| t + HEADROOM).collect();
        let state = self.state(&taken);
        let problem = self.problem(Some(&state));
        let options = Options {
            trials: Some(20_000),
            ..Options::default()
        };
        let (placement, _) = map(&problem, &options, &|_| {})?;
        Ok(self.seconds(&problem, &placement)? * (1.0 - HEADROOM))
    }
}

#[cfg(test)]
mod tests {
    use super::super::halves;
    use super::*;
    use hopbyte_job::MachineSource;
    use hopbyte_observe::read_traffic;

    #[test]
    fn situations_lose_time_that_a_map_wins_back() {
        let source = MachineSource {
            fabric: "torus:2x2x8".into(),
            ..MachineSource::default()
        };
        let machine = source.read().unwrap();
        let exchange = read_traffic("stencil:4x2x2:7").unwrap().total();
        let (nodes, others) = halves(&machine, 1);
        let nodes = nodes.into_iter().map(|n| (n, 1)).collect();
        let allocation = Allocation::new(&machine.fabric, nodes).unwrap();
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
            share: 0.75,
        };
        let found = question.situation(1).unwrap();
        assert_eq!(found.flows, question.situation(1).unwrap().flows);
        let mut nodes: Vec<NodeId> = found.flows.iter().flatten().copied().collect();
        nodes.sort_unstable();
        nodes.dedup();
        assert!(nodes.len() == 8 && nodes.iter().all(|n| others.contains(n)));
        assert!(found.is_one(), "{found:?}");
        assert_eq!(
            question.beside(&found, &placement).unwrap(),
            found.congested
        );
    }
}
