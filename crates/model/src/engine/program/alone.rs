//! Transport of data without other traffic: every message has its route to itself, or takes no time.

use super::Program;
use super::transport::Transport;
use crate::error::ModelError;
use crate::fluid::Done;
use crate::network::{Network, Way};
use hopbyte_fabric::NodeId;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Duration of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Cost {
    /// None.
    Nothing,
    /// Its latency.
    Latency,
    /// Its latency, and its bytes at the rate of the slowest part of its route.
    Bandwidth,
}

/// The messages of a program without repetitions.
#[derive(Debug)]
pub(super) struct Messages {
    /// Sender, receiver and size.
    pub(super) different: Vec<(u32, u32, f64)>,
    /// The number among these of every operation that is a send.
    of: Vec<u32>,
}

impl Messages {
    pub(super) fn new(program: &Program) -> Self {
        let mut known: HashMap<(u32, u32, u64), u32> = HashMap::new();
        let mut different = Vec::new();
        let mut of = vec![0; program.operations().len()];
        for (number, message) in of.iter_mut().zip(program.sends()) {
            let Some((from, to, bytes)) = message else {
                continue;
            };
            *number = *known.entry((from, to, bytes.to_bits())).or_insert_with(|| {
                different.push((from, to, bytes));
                different.len() as u32 - 1
            });
        }
        Self { different, of }
    }

    /// Latency and duration of each with rank `i` on `nodes[i]`.
    pub(super) fn costs(
        &self,
        network: &Network<'_>,
        nodes: &[NodeId],
    ) -> Result<Vec<(f64, f64)>, ModelError> {
        let mut way = Way::default();
        let mut taken = Vec::new();
        let each = self.different.iter().map(|&(from, to, bytes)| {
            let (from, to) = (nodes[from as usize], nodes[to as usize]);
            cost(network, from, to, bytes.max(1.0), &mut way, &mut taken)
        });
        each.collect()
    }
}

/// Latency of a message, and its duration on the slowest part of its route.
fn cost(
    network: &Network<'_>,
    from: NodeId,
    to: NodeId,
    bytes: f64,
    way: &mut Way,
    taken: &mut Vec<(u32, f64)>,
) -> Result<(f64, f64), ModelError> {
    let wire = network.parameters.protocol.wire(bytes);
    let found = network.way(from, to, &wire, bytes, way);
    found.map_err(|pair| ModelError::unroutable(network.fabric, &pair))?;
    // A resource may occur twice: on the way there and back.
    taken.clear();
    for u in &way.uses {
        let weight = f64::from(u.weight);
        match taken.iter_mut().find(|t| t.0 == u.resource) {
            Some(known) => known.1 += weight,
            None => taken.push((u.resource, weight)),
        }
    }
    let capacities = network.capacities();
    let seconds = taken
        .iter()
        .map(|&(resource, weight)| bytes * weight / capacities[resource as usize]);
    Ok((way.latency_s, seconds.fold(0.0, f64::max)))
}

/// Messages that do not share anything.
#[derive(Debug)]
pub(super) struct Alone<'a> {
    messages: &'a Messages,
    /// Latency and duration of the different messages.
    costs: &'a [(f64, f64)],
    cost: Cost,
    now: f64,
    /// Ends of messages: time, which is not negative, and message.
    ends: BinaryHeap<Reverse<(u64, u32)>>,
}

impl<'a> Alone<'a> {
    /// A network without traffic; `costs` as [`Messages::costs`] finds them.
    pub(super) fn new(messages: &'a Messages, costs: &'a [(f64, f64)], cost: Cost) -> Self {
        Self {
            messages,
            costs,
            cost,
            now: 0.0,
            ends: BinaryHeap::new(),
        }
    }

    fn of(&self, send: u32) -> (f64, f64) {
        self.costs[self.messages.of[send as usize] as usize]
    }
}

impl Transport for Alone<'_> {
    const NAMES_BOTTLENECKS: bool = false;

    fn now(&self) -> f64 {
        self.now
    }

    fn latency(&mut self, _: NodeId, _: NodeId, _: f64, tag: u32) -> Result<f64, ModelError> {
        Ok(match self.cost {
            Cost::Nothing => 0.0,
            _ => self.of(tag).0,
        })
    }

    fn begin(&mut self, _: NodeId, _: NodeId, _: f64, tag: u32) -> Result<(), ModelError> {
        let seconds = match self.cost {
            Cost::Bandwidth => self.of(tag).1,
            _ => 0.0,
        };
        self.ends
            .push(Reverse(((self.now + seconds).to_bits(), tag)));
        Ok(())
    }

    fn run_until(&mut self, limit: f64, done: &mut Vec<Done>) {
        let end = match self.ends.peek() {
            Some(&Reverse((bits, _))) if f64::from_bits(bits) <= limit => bits,
            _ => {
                if limit < f64::INFINITY {
                    self.now = self.now.max(limit);
                }
                return;
            }
        };
        self.now = f64::from_bits(end);
        while let Some(&Reverse((bits, tag))) = self.ends.peek() {
            if bits > end {
                break;
            }
            self.ends.pop();
            done.push(Done {
                tag,
                seconds: self.now,
                bottleneck: None,
            });
        }
    }

    fn is_busy(&self) -> bool {
        !self.ends.is_empty()
    }
}
