//! Runs a scenario and builds its outcome.

use super::result::{HeldBack, Outcome, SCHEMA, sort_of};
use super::stalls::{self, Held};
use super::throttling;
use crate::engine::fluid::{Clock, Sharing};
use crate::engine::loads::{Loads, Transfer};
use crate::engine::network::{Network, Way};
use crate::engine::packet::{Packets, RouterSpec};
use crate::engine::program::{Action, Flows, Program, ProgramTimes, Stream, run_on};
use crate::engine::schedule;
use crate::engine::topobw::{self, Measured, Phase};
use crate::error::ModelError;
use crate::question::level::Level;
use crate::question::limits::positive;
use crate::question::parameters::Parameters;
use crate::question::place::allocate;
use crate::question::placed::Question;
use crate::question::workload::{Phases, Work};
use hopbyte_fabric::wire::Protocol;
use hopbyte_fabric::{Exchange, NodeId, Placement};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of packets of a job at packet level: some days of run time.
const MAX_PACKETS: f64 = 1e11;

impl Question<'_> {
    /// Runs the question.
    pub fn answer(&self) -> Result<Outcome, ModelError> {
        match &self.scenario.protection {
            Some(rules) if self.scenario.level != Level::Packet => throttling::answer(self, rules),
            _ => self.answer_throttled(&BTreeSet::new(), 1.0),
        }
    }

    /// TopoBW (paper 002, III): bandwidth between neighbours among the job's nodes, every pair sending
    /// `bytes`: its phases by name. In grids these are the paper's, elsewhere those of [`schedule`].
    pub fn topobw(&self, bytes: f64) -> Result<Vec<(String, Vec<Measured>)>, ModelError> {
        positive("bytes of a pair", bytes)?;
        let (job, ranks) = (&self.scenario.job, self.placement.slots().len());
        let seed = self.scenario.seed;
        let nodes = allocate(self.fabric, &job.nodes, ranks, job.ranks_per_node, seed)?;
        let takes_part: BTreeSet<NodeId> = nodes.nodes().iter().map(|n| n.0).collect();
        let network = self.network()?;
        let grid = topobw::phases(self.fabric, &|n| takes_part.contains(&n));
        let nodes: Vec<NodeId> = takes_part.iter().copied().collect();
        let between = |phase: &Phase| phase.pairs.iter().any(|p| p.link.is_some());
        let phases = match grid.iter().any(between) {
            true => Box::new(grid.into_iter()),
            false => schedule::phases(self.fabric, self.routing, &nodes)?,
        };
        phases
            .map(|phase| {
                Ok((
                    phase.name.clone(),
                    topobw::measure(&network, &phase, bytes)?,
                ))
            })
            .collect()
    }

    pub(crate) fn answer_throttled(
        &self,
        nodes: &BTreeSet<NodeId>,
        share: f64,
    ) -> Result<Outcome, ModelError> {
        let network = self.network_throttled(nodes, share)?;
        if self.scenario.level == Level::Packet {
            return self.answer_packets(&network);
        }
        match &self.work {
            Work::Program(program) => {
                let nodes: Vec<NodeId> = self.placement.slots().iter().map(|s| s.node).collect();
                let transfers: Vec<Transfer> = program
                    .messages()
                    .map(|(from, to, bytes)| Transfer {
                        from: nodes[from as usize],
                        to: nodes[to as usize],
                        bytes,
                        messages: 1.0,
                    })
                    .collect();
                let loads = self.loads(&network, &transfers)?;
                if self.scenario.level == Level::Static {
                    return Ok(self.outcome(&network, &loads, 1, None));
                }
                let flows = Flows::new(&network, &self.background, self.scenario.tolerance)?;
                let (times, flows) = run_on(flows, &network, program, &nodes)?;
                let others = self.loads(&network, &self.streamed(&flows.streamed()))?;
                let mut outcome = self.outcome(&network, &loads, 1, Some(&times));
                outcome.add_others(&network, &loads, &others);
                if self.scenario.level == Level::Stalls {
                    let mut held = held_of(program, &nodes, &times);
                    let others = flows.streams_held_back();
                    held.extend(self.held_streams(&others, times.seconds));
                    stalls::add(&mut outcome, &network, &mut held, 1.0);
                }
                Ok(outcome)
            }
            Work::Phases(phases) => self.answer_phases(&network, phases),
        }
    }

    /// Transfers of other jobs, which never end, by their bottlenecks.
    fn held_streams(&self, by: &[Option<u32>], seconds: f64) -> Vec<Held> {
        let streams = self.background.iter().zip(by);
        let held = |(&(from, to, ..), &by): (&Stream, &Option<u32>)| Held {
            from,
            to,
            begin: 0.0,
            end: seconds,
            by,
        };
        streams.map(held).collect()
    }

    /// Data moved by other jobs, as transfers.
    fn streamed(&self, moved: &[f64]) -> Vec<Transfer> {
        let streams = self.background.iter().zip(moved);
        let transfer = |(&(from, to, bytes, _), moved): (&Stream, &f64)| Transfer {
            from,
            to,
            bytes,
            messages: moved / bytes,
        };
        streams.map(transfer).collect()
    }

    /// Bytes that other jobs may send while the rank that computes longest does so.
    fn streamed_bytes(&self, network: &Network<'_>, program: &Program) -> f64 {
        let mut computing = vec![0.0; program.ranks()];
        for operation in program.operations() {
            if let Action::Compute { seconds } = operation.action {
                computing[operation.rank as usize] += network.computing.seconds(seconds);
            }
        }
        let mut rates = BTreeMap::<NodeId, f64>::new();
        for &(from, _, _, limit) in &self.background {
            *rates.entry(from).or_default() += limit;
        }
        let rate = |(from, limit): (NodeId, f64)| {
            limit.min(network.capacity_of(self.fabric.node(from).inject))
        };
        let longest = computing.into_iter().fold(0.0, f64::max);
        longest * rates.into_iter().map(rate).sum::<f64>()
    }

    /// Packet level; phases become programs.
    fn answer_packets(&self, network: &Network<'_>) -> Result<Outcome, ModelError> {
        let program = match &self.work {
            Work::Program(program) => program.clone(),
            Work::Phases(phases) => phases.program()?,
        };
        let nodes: Vec<NodeId> = self.placement.slots().iter().map(|s| s.node).collect();
        let spec = RouterSpec::of(&self.parameters).fitted(network);
        let bytes: f64 = program.messages().map(|(.., bytes)| bytes).sum();
        let bytes = bytes + self.streamed_bytes(network, &program);
        let packets = bytes / spec.plain_packet_bytes;
        if packets > MAX_PACKETS {
            let expected = format!("at most {MAX_PACKETS:e} when every packet is followed");
            return Err(ModelError::out_of_range("packets", &packets, expected));
        }
        let mut packets = Packets::new(network, &spec, &self.background)?;
        if let Some(rules) = &self.scenario.protection {
            packets.guard(throttling::guard(self, network, rules)?)?;
        }
        let (times, mut packets) = run_on(packets, network, &program, &nodes)?;
        packets.settle();
        let mut loads = Loads::none(self.fabric);
        for (from, to, bytes) in program.messages() {
            let (from, to) = (nodes[from as usize], nodes[to as usize]);
            if from != to {
                loads.sent_bytes[from.index()] += bytes;
                loads.received_bytes[to.index()] += bytes;
            }
        }
        let counts = packets.link_counts(self.fabric);
        for (load, count) in loads.links.iter_mut().zip(&counts) {
            *load = count.load;
        }
        let mut outcome = self.outcome(network, &loads, 1, Some(&times));
        // Packets ignore both limits; a bound with them could be undercut.
        let parameters = Parameters {
            router_bytes_per_s: None,
            ejection_bytes_per_s: None,
            ..self.parameters.clone()
        };
        let network = Network::new(self.fabric, self.routing, &parameters, network.point);
        (outcome.bound_seconds, outcome.bound_resource) = bound(&network, &loads);
        for link in &mut outcome.links {
            let count = &counts[link.id as usize];
            link.input_stall_ratio = Some(count.input_stall_ratio);
            link.credit_stall_ratio = Some(count.credit_stall_ratio);
        }
        outcome.packet_hops = packets.hops();
        if matches!(self.parameters.protocol, Protocol::Gemini(_)) {
            outcome.tiles = packets.tile_counters(self.fabric);
        }
        outcome.throttled = packets.throttled();
        outcome.held_back.clear();
        Ok(outcome)
    }

    fn loads(&self, network: &Network<'_>, transfers: &[Transfer]) -> Result<Loads, ModelError> {
        Loads::of(network, transfers).map_err(|pair| ModelError::unroutable(self.fabric, &pair))
    }

    fn answer_phases(&self, network: &Network<'_>, phases: &Phases) -> Result<Outcome, ModelError> {
        let (mut all, mut moved) = (Vec::new(), vec![0.0; self.background.len()]);
        let mut held = Vec::new();
        let mut total = ProgramTimes::default();
        for exchange in &phases.exchanges {
            let transfers = between_nodes(exchange, &self.placement);
            if self.scenario.level != Level::Static {
                let busiest = busiest_rank(exchange);
                let seconds = self.phase(network, &transfers, &mut total, &mut moved, &mut held)?;
                total.seconds += busiest * self.parameters.overhead_s / network.point.cpu + seconds;
            }
            all.extend(transfers);
        }
        let loads = self.loads(network, &all)?;
        if self.scenario.level == Level::Static {
            return Ok(self.outcome(network, &loads, phases.iterations, None));
        }
        let rounds = (self.placement.tasks() as f64).log2().ceil();
        let reduction = rounds * self.reduction_round(network)?;
        let computing = network.computing.seconds(phases.compute_s);
        let ranks = self.placement.tasks();
        total.seconds +=
            network.computing.slowest(ranks, computing) + f64::from(phases.reductions) * reduction;
        total.seconds *= f64::from(phases.iterations);
        let mut outcome = self.outcome(network, &loads, phases.iterations, Some(&total));
        // Other jobs continue while this one computes, at the rates that they have beside its messages.
        let others = self.streamed(&moved);
        let mut scaled = loads.clone();
        scaled.scale(phases.iterations.into());
        let mut others = self.loads(network, &others)?;
        others.scale(total.seconds);
        outcome.add_others(network, &scaled, &others);
        if self.scenario.level == Level::Stalls {
            stalls::add(&mut outcome, network, &mut held, phases.iterations.into());
        }
        Ok(outcome)
    }

    /// One round of a reduction: an empty message between two nodes as far apart as the job's first
    /// and its middle one.
    fn reduction_round(&self, network: &Network<'_>) -> Result<f64, ModelError> {
        let tasks = self.placement.tasks() as u32;
        let (from, to) = (self.placement.node(0), self.placement.node(tasks / 2));
        let mut way = Way::default();
        let wire = self.parameters.protocol.wire(8.0);
        let found = network.way(from, to, &wire, 8.0, &mut way);
        found.map_err(|pair| ModelError::unroutable(self.fabric, &pair))?;
        Ok(way.latency_s + 2.0 * self.parameters.overhead_s / network.point.cpu)
    }

    /// Time from the beginning of all transfers to the end of the last one; `streamed` becomes the rates
    /// of other jobs meanwhile.
    fn phase(
        &self,
        network: &Network<'_>,
        transfers: &[Transfer],
        total: &mut ProgramTimes,
        streamed: &mut [f64],
        held: &mut Vec<Held>,
    ) -> Result<f64, ModelError> {
        let mut clock = Clock::new(Sharing::new(network.capacities()), self.scenario.tolerance);
        clock.reserve(transfers.len(), 12 * transfers.len());
        let mut way = Way::default();
        let mut latency = 0.0f64;
        let mut streams = Vec::with_capacity(self.background.len());
        for &(from, to, bytes, limit) in &self.background {
            let wire = self.parameters.protocol.wire(bytes);
            let found = network.way(from, to, &wire, bytes, &mut way);
            found.map_err(|pair| ModelError::unroutable(self.fabric, &pair))?;
            let path = clock.add_path(&way.uses);
            clock.begin(path, f64::INFINITY, limit, u32::MAX);
            streams.push(path);
        }
        for (i, t) in transfers.iter().enumerate() {
            let bytes = t.bytes.max(1.0);
            let wire = self.parameters.protocol.wire(bytes);
            let found = network.way(t.from, t.to, &wire, bytes, &mut way);
            found.map_err(|pair| ModelError::unroutable(self.fabric, &pair))?;
            latency = latency.max(way.latency_s);
            let path = clock.add_path(&way.uses);
            clock.begin(path, t.bytes * t.messages, f64::INFINITY, i as u32);
        }
        // Other jobs run through the whole phase; they are slowest while all of the job's nodes send.
        clock.next_end();
        let others: Vec<Option<u32>> = streams.iter().map(|&p| clock.bottleneck(p)).collect();
        let mut done = Vec::new();
        while clock.next_end().is_some() {
            clock.end_next(&mut done);
        }
        for (rate, &path) in streamed.iter_mut().zip(&streams) {
            *rate = clock.received(path) / clock.now().max(f64::MIN_POSITIVE);
        }
        for d in &done {
            let t = &transfers[d.tag as usize];
            *total.held_back.entry(d.bottleneck).or_default() += t.bytes * t.messages;
            held.push(Held {
                from: t.from,
                to: t.to,
                begin: 0.0,
                end: d.seconds,
                by: d.bottleneck,
            });
        }
        held.extend(self.held_streams(&others, clock.now()));
        total.transfers += done.len() as u64;
        Ok(latency + clock.now())
    }

    fn outcome(
        &self,
        network: &Network<'_>,
        loads: &Loads,
        iterations: u32,
        times: Option<&ProgramTimes>,
    ) -> Outcome {
        let iterations = f64::from(iterations);
        let (bound, resource) = bound(network, loads);
        let bound = bound * iterations;
        let time = times.map_or(bound, |t| t.seconds);
        let mut scaled = loads.clone();
        scaled.scale(iterations);
        Outcome {
            schema: SCHEMA.into(),
            name: self.scenario.name.clone(),
            level: self.scenario.level,
            calibration: self.parameters.calibration.clone(),
            time_seconds: time,
            bound_seconds: bound,
            bound_resource: resource,
            flows: times.map_or(0, |t| t.transfers),
            packet_hops: 0,
            network_bytes: scaled.sent_bytes.iter().sum(),
            held_back: times.map_or_else(Vec::new, |t| held_back(network, &t.held_back)),
            throttled: Vec::new(),
            tiles: Vec::new(),
            links: Outcome::list_links(network, &scaled, time),
        }
    }
}

/// Time and name of the resource that needs longest for its load.
fn bound(network: &Network<'_>, loads: &Loads) -> (f64, String) {
    loads.worst(network).map_or((0.0, String::new()), |w| {
        (w.seconds, network.resource_name(w.resource))
    })
}

/// Transfers of a program that ran.
fn held_of(program: &Program, nodes: &[NodeId], times: &ProgramTimes) -> Vec<Held> {
    let held = |&(send, begin, end, by): &(u32, f64, f64, Option<u32>)| {
        let op = program.operations()[send as usize];
        let to = match op.action {
            Action::Send { to, .. } => to,
            _ => op.rank,
        };
        Held {
            from: nodes[op.rank as usize],
            to: nodes[to as usize],
            begin,
            end,
            by,
        }
    };
    times.by_transfer.iter().map(held).collect()
}

/// Messages between the ranks of two nodes as one transfer, those of a node to itself as well.
fn between_nodes(exchange: &Exchange, placement: &Placement) -> Vec<Transfer> {
    let mut pairs: Vec<(NodeId, NodeId, f64, f64)> = exchange
        .iter()
        .map(|(task, m)| {
            let (from, to) = (placement.node(task), placement.node(m.to));
            (from, to, m.bytes, m.messages.max(1) as f64)
        })
        .collect();
    pairs.sort_by_key(|&(from, to, ..)| (from, to));
    let mut transfers: Vec<Transfer> = Vec::new();
    for (from, to, bytes, messages) in pairs {
        match transfers.last_mut() {
            Some(t) if (t.from, t.to) == (from, to) => {
                t.bytes += bytes;
                t.messages += messages;
            }
            _ => transfers.push(Transfer {
                from,
                to,
                bytes,
                messages,
            }),
        }
    }
    // Up to this point `bytes` was the sum.
    for t in &mut transfers {
        t.bytes /= t.messages;
    }
    transfers
}

/// Number of messages that the busiest rank sends and receives.
fn busiest_rank(exchange: &Exchange) -> f64 {
    let mut messages = vec![0.0f64; exchange.tasks()];
    for (task, m) in exchange.iter() {
        messages[task as usize] += m.messages.max(1) as f64;
        messages[m.to as usize] += m.messages.max(1) as f64;
    }
    messages.into_iter().fold(0.0, f64::max)
}

/// Bytes by their bottleneck, as shares by kind of resource.
fn held_back(network: &Network<'_>, by_resource: &BTreeMap<Option<u32>, f64>) -> Vec<HeldBack> {
    let total: f64 = by_resource.values().sum();
    let mut by_sort: BTreeMap<String, f64> = BTreeMap::new();
    for (resource, bytes) in by_resource {
        *by_sort.entry(sort_of(network, *resource)).or_default() += bytes;
    }
    let mut list: Vec<HeldBack> = by_sort
        .into_iter()
        .map(|(by, bytes)| HeldBack {
            by,
            share: bytes / total.max(f64::MIN_POSITIVE),
        })
        .collect();
    list.sort_by(|a, b| b.share.total_cmp(&a.share));
    list
}
