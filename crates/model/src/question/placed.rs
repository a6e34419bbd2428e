//! A scenario on its machine, checked and placed.

use super::level::Level;
use super::parameters::Parameters;
use super::place::{allocate, find_nodes, place};
use super::scenario::{Background, Job, Scenario};
use super::workload::{Input, Work};
use crate::engine::network::Network;
use crate::engine::program::Stream;
use crate::error::ModelError;
use hopbyte_fabric::{Exchange, Fabric, NodeId, Placement, Routing};
use std::collections::BTreeSet;

/// Contents of the files that a scenario names: for the job and for each background job.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    /// Input of the job.
    pub job: Option<Input>,
    /// Inputs of background jobs, by position; missing ones need none.
    pub background: Vec<Option<Input>>,
}

/// A scenario on its machine, checked and placed.
#[derive(Debug)]
pub struct Question<'a> {
    /// The scenario.
    pub scenario: &'a Scenario,
    /// The machine.
    pub fabric: &'a Fabric,
    /// Its routing.
    pub routing: &'a Routing,
    /// Rates and delays.
    pub parameters: Parameters,
    /// The job's workload.
    pub work: Work,
    /// Placement of its ranks.
    pub placement: Placement,
    /// Background traffic.
    pub background: Vec<Stream>,
    /// Index of the other job of each of these.
    background_of: Vec<u32>,
}

/// Weight of an unlimited stream beside others: more than a message of any job.
const STREAM_WEIGHT: f64 = 1e12;
impl<'a> Question<'a> {
    /// Places a scenario on its machine; rejects invalid input.
    pub fn new(
        scenario: &'a Scenario,
        fabric: &'a Fabric,
        routing: &'a Routing,
        inputs: &Inputs,
    ) -> Result<Self, ModelError> {
        scenario.check()?;
        let job = &scenario.job;
        let seed = scenario.seed;
        let (ranks, placement) = seat(fabric, job, inputs.job.as_ref(), seed)?;
        let (mut background, mut background_of) = (Vec::new(), Vec::new());
        for (i, other) in scenario.background.iter().enumerate() {
            let input = inputs.background.get(i).and_then(Option::as_ref);
            background.extend(streams(fabric, other, input, seed)?);
            background_of.resize(background.len(), i as u32);
        }
        Ok(Self {
            scenario,
            fabric,
            routing,
            parameters: scenario.parameters()?,
            work: job
                .workload
                .work(inputs.job.as_ref())?
                .with_noise(scenario.noise, seed, ranks),
            placement,
            background,
            background_of,
        })
    }

    /// The machine at the scenario's operating point, with its slow nodes and balanced injection.
    pub fn network(&self) -> Result<Network<'_>, ModelError> {
        self.network_throttled(&BTreeSet::new(), 1.0)
    }

    /// The same with nodes that keep only a share of their injection.
    pub(crate) fn network_throttled(
        &self,
        nodes: &BTreeSet<NodeId>,
        share: f64,
    ) -> Result<Network<'_>, ModelError> {
        let mut point = self.scenario.point;
        let balanced = self.scenario.balanced_injection;
        // At packet level, balanced injection limits outstanding requests; flows have only a rate.
        if let Some(value) = balanced
            && self.scenario.level != Level::Packet
        {
            point.injection *= value / 100.0;
        }
        let mut network = Network::new(self.fabric, self.routing, &self.parameters, point);
        network.computing = self.scenario.computing();
        network.balanced_injection = balanced;
        for slow in &self.scenario.slow {
            for node in find_nodes(self.fabric, &slow.name)? {
                network.slow_down(node, slow.bytes_per_s);
            }
        }
        nodes.iter().for_each(|&node| network.throttle(node, share));
        Ok(network)
    }

    /// Estimated traffic: application (0 is the job), sender, receiver, weight within the application's own
    /// bytes per second, as far as these are known before a run.
    pub(crate) fn demands(&self) -> Vec<(u32, NodeId, NodeId, f64)> {
        let mut list = Vec::new();
        let node = |task: u32| self.placement.node(task);
        match &self.work {
            Work::Program(program) => {
                let messages = program.messages();
                list.extend(messages.map(|(a, b, bytes)| (0, node(a), node(b), bytes)));
            }
            Work::Phases(phases) => {
                let messages = phases.exchanges.iter().flat_map(Exchange::iter);
                list.extend(messages.map(|(a, m)| (0, node(a), node(m.to), m.bytes)));
            }
        }
        // Demand of an unlimited stream.
        let streams = self.background.iter().zip(&self.background_of);
        list.extend(
            streams
                .map(|(&(from, to, _, limit), &job)| (job + 1, from, to, limit.min(STREAM_WEIGHT))),
        );
        list
    }
}

/// Number of ranks of a job, and their placement on its nodes.
fn seat(
    fabric: &Fabric,
    job: &Job,
    input: Option<&Input>,
    seed: u64,
) -> Result<(usize, Placement), ModelError> {
    let ranks = job.workload.ranks(input)?;
    let allocation = allocate(fabric, &job.nodes, ranks, job.ranks_per_node, seed)?;
    let grid = job.workload.grid();
    let placement = place(
        fabric,
        &allocation,
        &job.placement,
        ranks,
        grid.as_deref(),
        seed,
    )?;
    Ok((ranks, placement))
}

/// The permanent transfers of another job.
fn streams(
    fabric: &Fabric,
    other: &Background,
    input: Option<&Input>,
    seed: u64,
) -> Result<Vec<Stream>, ModelError> {
    let job = other.job();
    let (_, placement) = seat(fabric, &job, input, seed)?;
    let exchange = job.workload.exchange(input)?;
    let limit = other.bytes_per_s.unwrap_or(f64::INFINITY);
    let stream = |(task, m): (u32, &hopbyte_fabric::Message)| {
        let (from, to) = (placement.node(task), placement.node(m.to));
        let bytes = (m.bytes / m.messages.max(1) as f64).max(1.0);
        (from != to).then_some((from, to, bytes, limit))
    };
    Ok(exchange.iter().filter_map(stream).collect())
}
