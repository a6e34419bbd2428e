//! Open-loop measurement: latency and throughput of packets when every node sends at a given rate.

use super::flits::Flits;
use super::layout::Layout;
use super::spec::RouterSpec;
use super::wheel::Wheel;
use super::whole::{Engine, Packet};
use crate::error::ModelError;
use crate::network::Network;
use hopbyte_fabric::random::Random;

/// Every node creates packets at random times for random nodes, itself included, regardless of the state of the
/// network: the usual measurement of a network, as in BookSim.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenLoop {
    /// Mean number of flits that each node creates in a cycle.
    pub load: f64,
    /// Flits of a packet; its phits, if packets move whole.
    pub flits: u8,
    /// Warm-up cycles before measuring.
    pub warm_up_cycles: u64,
    /// Cycles of measuring: packets created in these count.
    pub measured_cycles: u64,
    /// Limit of the run, even if measured packets are still in flight (an overloaded network).
    pub most_cycles: u64,
    /// Seed.
    pub seed: u64,
}

/// Result of an open-loop measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OpenLoopResult {
    /// Mean cycles from creation to the arrival of the last flit.
    pub latency_cycles: f64,
    /// Flits that arrived at each node in a cycle while measuring.
    pub accepted: f64,
    /// Mean number of routers on a packet's way.
    pub hops: f64,
    /// Number of simulated cycles.
    pub cycles: u64,
    /// Flits times routers on their way.
    pub flit_hops: u64,
    /// Whether all measured packets arrived.
    pub steady: bool,
}

/// Routers of either kind.
enum Routers {
    Flits(Box<Flits>),
    Whole(Box<Engine>),
}

impl Routers {
    fn new(network: &Network<'_>, spec: &RouterSpec) -> Result<Self, ModelError> {
        let layout = Layout::new(network, spec)?;
        Ok(if spec.output_phits == 0 {
            Self::Flits(Box::new(Flits::new(layout, spec)?))
        } else {
            Self::Whole(Box::new(Engine::new(layout, spec.clone())?))
        })
    }

    fn send(&mut self, node: u32, to: u32, flits: u8, born: u64) {
        match self {
            Self::Flits(routers) => routers.send(node, to, flits, born),
            Self::Whole(routers) => routers.send(node, Packet::new(to, born, flits)),
        }
    }

    fn next(&self) -> Option<u64> {
        match self {
            Self::Flits(routers) => routers.next(),
            Self::Whole(routers) => routers.next(),
        }
    }

    /// Runs a cycle; `births` receives those of packets that arrived.
    fn step(&mut self, cycle: u64, births: &mut Vec<u64>) {
        births.clear();
        match self {
            Self::Flits(routers) => routers.step(cycle, births),
            Self::Whole(routers) => {
                let mut delivered = Vec::new();
                routers.step(cycle, &mut delivered, &mut Vec::new());
                births.extend(delivered.iter().map(|d| d.tag));
            }
        }
    }

    /// Flits and packets times routers on their way.
    fn hops(&self, flits: u8) -> (u64, u64) {
        match self {
            Self::Flits(routers) => (routers.flit_hops, routers.packet_hops),
            Self::Whole(routers) => (routers.packet_hops * u64::from(flits), routers.packet_hops),
        }
    }
}

impl OpenLoop {
    /// Runs the measurement.
    ///
    /// # Errors
    /// Machines that are too large, loads and packets outside the limits of the wires.
    pub fn run(
        &self,
        network: &Network<'_>,
        spec: &RouterSpec,
    ) -> Result<OpenLoopResult, ModelError> {
        self.check()?;
        let mut routers = Routers::new(network, spec)?;
        let nodes = network.fabric.nodes().len() as u64;
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
        let (mut newborn, mut delivered) = (Vec::new(), Vec::new());
        let mut cycle = 0;
        while cycle < self.most_cycles && !(cycle >= end && arrived == born) {
            let birth = births.next();
            let next = [birth, routers.next()].into_iter().flatten().min();
            let Some(at) = next else { break };
            cycle = at;
            if birth == Some(cycle) {
                births.take(cycle, &mut newborn);
                for &node in &newborn {
                    born += u64::from(measured.contains(&cycle));
                    routers.send(node, random.below(nodes as usize) as u32, self.flits, cycle);
                    births.put(cycle + gap(&mut random, chance), node);
                }
            }
            routers.step(cycle, &mut delivered);
            all += delivered.len() as u64;
            if measured.contains(&cycle) {
                accepted += delivered.len() as u64 * u64::from(self.flits);
            }
            for &birth in delivered.iter().filter(|b| measured.contains(b)) {
                arrived += 1;
                latency += cycle - birth;
            }
        }
        let (flit_hops, packet_hops) = routers.hops(self.flits);
        Ok(OpenLoopResult {
            latency_cycles: latency as f64 / arrived.max(1) as f64,
            accepted: accepted as f64 / (nodes * self.measured_cycles) as f64,
            hops: packet_hops as f64 / all.max(1) as f64,
            cycles: cycle,
            flit_hops,
            steady: arrived == born,
        })
    }

    fn check(&self) -> Result<(), ModelError> {
        let out_of_range = ModelError::out_of_range;
        if !(self.load > 0.0 && self.load.is_finite()) {
            return Err(out_of_range("load", &self.load, "flits a cycle, above 0"));
        }
        if self.flits == 0 {
            return Err(out_of_range("flits of a packet", &0, "1 to 255"));
        }
        Ok(())
    }
}

/// Cycles to the next birth: one a cycle with the given chance.
fn gap(random: &mut Random, chance: f64) -> u64 {
    if chance >= 1.0 {
        return 1;
    }
    let u = 1.0 - random.unit();
    (u.ln() / (1.0 - chance).ln()).floor() as u64 + 1
}
