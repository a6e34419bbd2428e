//! How long do packets take, and how many get through, when every node sends at a rate?

use super::engine::{Delivered, Engine, Packet};
use super::layout::Layout;
use super::spec::RouterSpec;
use super::wheel::Wheel;
use crate::error::ModelError;
use crate::network::Network;
use crate::random::Random;

/// Every node makes packets at random times for random nodes, itself included, whatever the network
/// does: the usual measurement of a network, as BookSim does it.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenLoop {
    /// Flits that each node makes in a cycle, on average.
    pub load: f64,
    /// Flits of a packet.
    pub flits: u8,
    /// Cycles before measuring, and cycles in which packets are born that are measured.
    pub warm_up_cycles: u64,
    /// Cycles in which packets are born that are measured.
    pub measured_cycles: u64,
    /// The run ends here even if measured packets are still under way (a network that is too full).
    pub most_cycles: u64,
    /// Seed.
    pub seed: u64,
}

/// What came out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OpenLoopResult {
    /// Mean cycles from birth to the arrival of the last flit.
    pub latency_cycles: f64,
    /// Flits that arrived at each node in a cycle while measuring.
    pub accepted: f64,
    /// Routers on a packet's way, on average.
    pub hops: f64,
    /// Cycles that were simulated.
    pub cycles: u64,
    /// Flits times routers that they crossed.
    pub flit_hops: u64,
    /// Whether all measured packets arrived.
    pub steady: bool,
}

impl OpenLoop {
    /// Runs it.
    pub fn run(
        &self,
        network: &Network<'_>,
        spec: &RouterSpec,
    ) -> Result<OpenLoopResult, ModelError> {
        let layout = Layout::new(network, spec)?;
        let nodes = layout.nodes() as u64;
        let mut engine = Engine::new(layout, spec.clone());
        let mut random = Random::new(self.seed);
        let chance = self.load / f64::from(self.flits);
        let mut births = Wheel::new(4096);
        for node in 0..nodes as u32 {
            births.put(gap(&mut random, chance) - 1, node);
        }
        let end = self.warm_up_cycles + self.measured_cycles;
        let measured = self.warm_up_cycles..end;
        let (mut born, mut arrived, mut accepted, mut latency) = (0u64, 0u64, 0u64, 0u64);
        let mut all = 0u64;
        let mut delivered: Vec<Delivered> = Vec::new();
        let (mut newborn, mut idle) = (Vec::new(), Vec::new());
        let mut cycle = 0;
        while cycle < self.most_cycles && !(cycle >= end && arrived == born) {
            let next = [births.next(), engine.next()].into_iter().flatten().min();
            let Some(at) = next else { break };
            cycle = at;
            if births.next() == Some(cycle) {
                births.take(cycle, &mut newborn);
                for &node in &newborn {
                    let mut packet = Packet::new(random.below(nodes) as u32, 0, cycle);
                    packet.flits = self.flits;
                    born += u64::from(measured.contains(&cycle));
                    engine.send(node, packet);
                    births.put(cycle + gap(&mut random, chance), node);
                }
            }
            delivered.clear();
            engine.step(cycle, &mut delivered, &mut idle);
            idle.clear();
            all += delivered.len() as u64;
            for d in &delivered {
                if measured.contains(&d.packet.born) {
                    arrived += 1;
                    latency += cycle - d.packet.born;
                }
                if measured.contains(&cycle) {
                    accepted += u64::from(d.packet.flits);
                }
            }
        }
        Ok(OpenLoopResult {
            latency_cycles: latency as f64 / arrived.max(1) as f64,
            accepted: accepted as f64 / (nodes * self.measured_cycles) as f64,
            hops: engine.packet_hops as f64 / all.max(1) as f64,
            cycles: cycle,
            flit_hops: engine.flit_hops,
            steady: arrived == born,
        })
    }
}

/// Cycles to the next birth: one a cycle with the given chance.
fn gap(random: &mut Random, chance: f64) -> u64 {
    if chance >= 1.0 {
        return 1;
    }
    let u = 1.0 - random.share();
    (u.ln() / (1.0 - chance).ln()).floor() as u64 + 1
}
