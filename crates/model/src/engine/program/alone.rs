//! Transport of data without other traffic: every message has its route to itself, or takes no time.

use super::transport::Transport;
use crate::error::ModelError;
use crate::fluid::Done;
use crate::network::{Network, Way};
use hopbyte_fabric::NodeId;
use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashMap};

/// Duration of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cost {
    /// None.
    Nothing,
    /// Its latency.
    Latency,
    /// Its latency, and its bytes at the rate of the slowest part of its route.
    Bandwidth,
}

/// Messages that do not share anything.
#[derive(Debug)]
pub struct Alone<'a> {
    network: &'a Network<'a>,
    cost: Cost,
    /// By sender, receiver and size.
    known: HashMap<(NodeId, NodeId, u64), Found>,
    way: Way,
    now: f64,
    ends: BinaryHeap<Reverse<End>>,
}

/// Latency, duration and slowest resource of a message.
type Found = (f64, f64, Option<u32>);

#[derive(Clone, Copy, Debug, PartialEq)]
struct End {
    seconds: f64,
    tag: u32,
    bottleneck: Option<u32>,
}

impl Eq for End {}

impl Ord for End {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_time = self.seconds.total_cmp(&other.seconds);
        by_time.then_with(|| self.tag.cmp(&other.tag))
    }
}

impl PartialOrd for End {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<'a> Alone<'a> {
    /// A network without traffic.
    pub fn new(network: &'a Network<'a>, cost: Cost) -> Self {
        Self {
            network,
            cost,
            known: HashMap::new(),
            way: Way::default(),
            now: 0.0,
            ends: BinaryHeap::new(),
        }
    }

    fn find(&mut self, from: NodeId, to: NodeId, bytes: f64) -> Result<Found, ModelError> {
        let bytes = bytes.max(1.0);
        let key = (from, to, bytes.to_bits());
        if let Some(&known) = self.known.get(&key) {
            return Ok(known);
        }
        let wire = self.network.parameters.protocol.wire(bytes);
        let way = self.network.way(from, to, &wire, bytes, &mut self.way);
        way.map_err(|pair| ModelError::unroutable(self.network.fabric, &pair))?;
        // A resource may occur twice: on the way there and back.
        let mut taken: HashMap<u32, f64> = HashMap::new();
        for u in &self.way.uses {
            *taken.entry(u.resource).or_default() += f64::from(u.weight);
        }
        let capacities = self.network.capacities();
        let slowest = taken
            .into_iter()
            .map(|(resource, weight)| (bytes * weight / capacities[resource as usize], resource))
            .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        let found = (
            self.way.latency_s,
            slowest.map_or(0.0, |s| s.0),
            slowest.map(|s| s.1),
        );
        self.known.insert(key, found);
        Ok(found)
    }
}

impl Transport for Alone<'_> {
    fn now(&self) -> f64 {
        self.now
    }

    fn latency(&mut self, from: NodeId, to: NodeId, bytes: f64) -> Result<f64, ModelError> {
        Ok(match self.cost {
            Cost::Nothing => 0.0,
            _ => self.find(from, to, bytes)?.0,
        })
    }

    fn begin(&mut self, from: NodeId, to: NodeId, bytes: f64, tag: u32) -> Result<(), ModelError> {
        let (seconds, bottleneck) = match self.cost {
            Cost::Bandwidth => {
                let (_, seconds, slowest) = self.find(from, to, bytes)?;
                (seconds, slowest)
            }
            _ => (0.0, None),
        };
        self.ends.push(Reverse(End {
            seconds: self.now + seconds,
            tag,
            bottleneck,
        }));
        Ok(())
    }

    fn run_until(&mut self, limit: f64, done: &mut Vec<Done>) {
        let next = self.ends.peek().map(|Reverse(e)| e.seconds);
        let Some(end) = next.filter(|&end| end <= limit) else {
            if limit < f64::INFINITY {
                self.now = self.now.max(limit);
            }
            return;
        };
        self.now = end;
        while let Some(Reverse(e)) = self.ends.peek().filter(|Reverse(e)| e.seconds <= end) {
            done.push(Done {
                tag: e.tag,
                seconds: e.seconds,
                bottleneck: e.bottleneck,
            });
            self.ends.pop();
        }
    }

    fn is_busy(&self) -> bool {
        !self.ends.is_empty()
    }
}
