//! Transport of a running program's data between nodes: as flows, or packet by packet.

use crate::error::ModelError;
use crate::fluid::{Clock, Done, PathId, Sharing};
use crate::network::{Network, Way};
use hopbyte_fabric::NodeId;
use std::collections::HashMap;

/// Interface between a program and a network.
pub trait Transport {
    /// Whether it says what held a transfer back; transfers are listed then.
    const NAMES_BOTTLENECKS: bool = true;

    /// Whether messages without bytes begin like others, since their delays are those of a packet.
    const MOVES_EMPTY: bool = false;

    /// Current time in seconds.
    fn now(&self) -> f64;

    /// Time from leaving the sender until data begins to arrive, without other traffic and without delays
    /// that [`Transport::begin`] adds.
    fn latency(
        &mut self,
        from: NodeId,
        to: NodeId,
        bytes: f64,
        tag: u32,
    ) -> Result<f64, ModelError>;

    /// Data begins to flow now.
    fn begin(&mut self, from: NodeId, to: NodeId, bytes: f64, tag: u32) -> Result<(), ModelError>;

    /// Continues until data arrives, or until `limit` (seconds; may be infinite) if none arrives before.
    fn run_until(&mut self, limit: f64, done: &mut Vec<Done>);

    /// Whether any data that has begun to flow has not arrived.
    fn is_busy(&self) -> bool;
}

/// Data of another job: sender, receiver, bytes of a message, highest rate.
pub type Stream = (NodeId, NodeId, f64, f64);

/// Flows that share the network.
#[derive(Debug)]
pub struct Flows<'a> {
    network: &'a Network<'a>,
    clock: Clock,
    /// Path and latency by sender, receiver and size; the protocol depends on the size.
    paths: HashMap<(NodeId, NodeId, u64), (PathId, f64)>,
    way: Way,
    /// Paths of the streams.
    streams: Vec<PathId>,
}

impl<'a> Flows<'a> {
    /// A network with no traffic but the streams of other jobs; `tolerance` as in [`Clock::new`].
    pub fn new(
        network: &'a Network<'a>,
        background: &[Stream],
        tolerance: f64,
    ) -> Result<Self, ModelError> {
        let mut flows = Self {
            network,
            clock: Clock::new(Sharing::new(network.capacities()), tolerance),
            paths: HashMap::new(),
            way: Way::default(),
            streams: Vec::with_capacity(background.len()),
        };
        for &(from, to, bytes, limit) in background {
            let (path, _) = flows.path(from, to, bytes)?;
            flows.streams.push(path);
            flows.clock.begin(path, f64::INFINITY, limit, u32::MAX);
        }
        Ok(flows)
    }

    /// Bytes that each stream has moved so far. Equal streams have equal counts.
    pub fn streamed(&self) -> Vec<f64> {
        let received = self.streams.iter().map(|&p| self.clock.received(p));
        received.collect()
    }

    /// Current bottleneck of each stream.
    pub(crate) fn streams_held_back(&self) -> Vec<Option<u32>> {
        let held = self.streams.iter().map(|&p| self.clock.bottleneck(p));
        held.collect()
    }

    fn path(&mut self, from: NodeId, to: NodeId, bytes: f64) -> Result<(PathId, f64), ModelError> {
        let bytes = bytes.max(1.0);
        let key = (from, to, bytes.to_bits());
        if let Some(&known) = self.paths.get(&key) {
            return Ok(known);
        }
        let wire = self.network.parameters.protocol.wire(bytes);
        let way = self.network.way(from, to, &wire, bytes, &mut self.way);
        way.map_err(|pair| ModelError::unroutable(self.network.fabric, &pair))?;
        let path = self.clock.add_path(&self.way.uses);
        let found = (path, self.way.latency_s);
        self.paths.insert(key, found);
        Ok(found)
    }
}

impl Transport for Flows<'_> {
    fn now(&self) -> f64 {
        self.clock.now()
    }

    fn is_busy(&self) -> bool {
        false
    }

    fn latency(
        &mut self,
        from: NodeId,
        to: NodeId,
        bytes: f64,
        _tag: u32,
    ) -> Result<f64, ModelError> {
        Ok(self.path(from, to, bytes)?.1)
    }

    fn begin(&mut self, from: NodeId, to: NodeId, bytes: f64, tag: u32) -> Result<(), ModelError> {
        let (path, _) = self.path(from, to, bytes)?;
        self.clock.begin(path, bytes, f64::INFINITY, tag);
        Ok(())
    }

    fn run_until(&mut self, limit: f64, done: &mut Vec<Done>) {
        // All events of one time come before rates are computed again.
        if limit <= self.clock.now() {
            return;
        }
        match self.clock.next_end() {
            Some(end) if end <= limit => self.clock.end_next(done),
            _ if limit < f64::INFINITY => self.clock.advance_to(limit),
            _ => {}
        }
    }
}
