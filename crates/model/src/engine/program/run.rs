//! Runs a program on a network and gives the time of every operation.

use super::earliest::Earliest;
use super::transport::{Flows, Stream, Transport};
use super::{Action, Program};
use crate::error::ModelError;
use crate::fluid::Done;
use crate::network::Network;
use hopbyte_fabric::NodeId;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Settings of a run beside program, placement and network.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Permanent transfers of other jobs.
    pub background: Vec<Stream>,
    /// Share of the time within which ends of transfers count as simultaneous; 0 is exact.
    pub tolerance: f64,
}

/// End times of a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProgramTimes {
    /// End of the last operation.
    pub seconds: f64,
    /// End of each rank's last operation.
    pub by_rank: Vec<f64>,
    /// End of each operation.
    pub by_operation: Vec<f64>,
    /// Bytes of transfers by their bottleneck when they ended, if the transport knows bottlenecks; under `None` those without a bottleneck,
    /// or with an unknown one.
    pub held_back: BTreeMap<Option<u32>, f64>,
    /// Operation, begin and end of every transfer, and its last bottleneck; likewise.
    pub by_transfer: Vec<(u32, f64, f64, Option<u32>)>,
    /// Transfers through network or memory.
    pub transfers: u64,
    /// Largest message beyond the network's eager size that had to be buffered, for the program had ended; 0 for none.
    pub buffered_bytes: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    /// All dependencies of the operation are done.
    Ready(u32),
    /// The same of a computation.
    Compute(u32),
    /// The operation is done.
    Done(u32),
    /// A send's request has arrived at its receiver, which has posted the receive.
    Asked(u32),
    /// The receiver answers: it is in an MPI call.
    Answered(u32),
    /// The answer has arrived at the sender.
    Granted(u32),
    /// The sender sends the data: it is in an MPI call.
    Sent(u32),
    /// The first byte of a send's data would arrive.
    Flow(u32),
}

impl What {
    /// Order of simultaneous events: ends come before begins. Computation occupies a processor after the messages that its
    /// rank begins, or lets go on, before it, and before requests that arrive.
    fn order(self) -> u64 {
        let (kind, id) = match self {
            Self::Done(id) => (0, id),
            Self::Ready(id) => (1, id),
            Self::Answered(id) => (2, id),
            Self::Sent(id) => (3, id),
            Self::Compute(id) => (4, id),
            Self::Asked(id) => (5, id),
            Self::Granted(id) => (6, id),
            Self::Flow(id) => (7, id),
        };
        kind << 32 | u64::from(id)
    }

    fn of_order(order: u64) -> Self {
        let id = order as u32;
        match order >> 32 {
            0 => Self::Done(id),
            1 => Self::Ready(id),
            2 => Self::Answered(id),
            3 => Self::Sent(id),
            4 => Self::Compute(id),
            5 => Self::Asked(id),
            6 => Self::Granted(id),
            _ => Self::Flow(id),
        }
    }
}

/// No event.
const NONE: u64 = u64::MAX;

/// Coming events in order. Most of those of the present moment are begun and handled within it, mostly one at a time.
#[derive(Debug)]
struct Events {
    /// The bits of a time, which is not negative, have its order; below them is that of simultaneous events.
    later: Earliest,
    /// The first event of the present moment, and its others.
    next: u64,
    others: BinaryHeap<Reverse<u64>>,
    /// Before it there are no events.
    present: f64,
}

impl Events {
    fn new() -> Self {
        Self {
            later: Earliest::default(),
            next: NONE,
            others: BinaryHeap::new(),
            present: f64::NEG_INFINITY,
        }
    }

    #[inline]
    fn add(&mut self, seconds: f64, what: What) {
        if seconds <= self.present {
            self.add_now(what.order());
        } else {
            // Not the zero with a sign.
            let bits = (seconds + 0.0).to_bits();
            self.later
                .add(u128::from(bits) << 64 | u128::from(what.order()));
        }
    }

    #[inline]
    fn add_now(&mut self, event: u64) {
        let (first, other) = (event.min(self.next), event.max(self.next));
        self.next = first;
        if other != NONE {
            self.others.push(Reverse(other));
        }
    }

    #[inline]
    fn first(&self) -> Option<f64> {
        let key = self.later.first()?;
        Some(f64::from_bits((key >> 64) as u64))
    }

    /// Begins a moment, that of the first event.
    fn begin(&mut self, seconds: f64) {
        self.present = seconds;
        while let Some(key) = self.later.first() {
            if f64::from_bits((key >> 64) as u64) > seconds {
                return;
            }
            self.later.take_first();
            self.add_now(key as u64);
        }
    }

    /// Takes an event of the moment; at its end there is none.
    #[inline]
    fn take(&mut self) -> Option<What> {
        if self.next == NONE {
            self.present = f64::NEG_INFINITY;
            return None;
        }
        let event = self.next;
        self.next = match self.others.is_empty() {
            true => NONE,
            false => self.others.pop().map_or(NONE, |Reverse(other)| other),
        };
        Some(What::of_order(event))
    }
}

const NOT_YET: f64 = f64::NAN;

/// Bytes of the smallest message.
fn least(messages: &[(u32, f64)]) -> Option<f64> {
    messages.iter().map(|m| m.1).reduce(f64::min)
}

struct Run<'a, T> {
    network: &'a Network<'a>,
    program: &'a Program,
    nodes: &'a [NodeId],
    transport: T,
    events: Events,
    waits: Vec<u32>,
    ended: Vec<f64>,
    /// Time at which a receive was posted, or a send's data arrived.
    posted: Vec<f64>,
    /// Earliest time at which a send that waits for its receiver can leave.
    leaves: Vec<f64>,
    /// Largest message that does not wait.
    eager_bytes: f64,
    /// Time at which a rank's processor and a node's message engine are free.
    processor: Vec<f64>,
    engine: Vec<f64>,
    held_back: BTreeMap<Option<u32>, f64>,
    /// Time at which data of a send began to flow.
    begun: Vec<f64>,
    by_transfer: Vec<(u32, f64, f64, Option<u32>)>,
    transfers: u64,
}

/// Runs a program with rank `i` on `nodes[i]`, its data as flows.
///
/// # Errors
/// See [`run_on`].
pub fn run(
    network: &Network<'_>,
    program: &Program,
    nodes: &[NodeId],
    settings: &Settings,
) -> Result<ProgramTimes, ModelError> {
    let flows = Flows::new(network, &settings.background, settings.tolerance)?;
    Ok(run_on(flows, network, program, nodes)?.0)
}

/// Runs a program over a transport and returns the transport.
///
/// A send occupies the processor for its overhead, then the node's message engine for its share of the
/// message rate; after the latency the data shares the network. Messages up to the eager size leave at
/// once and complete at the sender when they left; larger ones wait until the receiver is ready and for
/// another round trip, and complete with their data. Without asynchronous progress a rank that computes neither answers such
/// a request nor sends the data.
///
/// # Errors
/// Pairs without a route; programs that never end.
pub fn run_on<T: Transport>(
    transport: T,
    network: &Network<'_>,
    program: &Program,
    nodes: &[NodeId],
) -> Result<(ProgramTimes, T), ModelError> {
    let operations = program.operations();
    let mut run = Run {
        network,
        program,
        nodes,
        transport,
        events: Events::new(),
        waits: operations.iter().map(|op| op.waits_for).collect(),
        ended: vec![NOT_YET; operations.len()],
        posted: vec![NOT_YET; operations.len()],
        leaves: vec![NOT_YET; operations.len()],
        eager_bytes: network.parameters.eager_bytes,
        processor: vec![0.0; program.ranks()],
        engine: vec![0.0; network.fabric.nodes().len()],
        held_back: BTreeMap::new(),
        begun: match T::NAMES_BOTTLENECKS {
            true => vec![NOT_YET; operations.len()],
            false => Vec::new(),
        },
        by_transfer: Vec::new(),
        transfers: 0,
    };
    for id in 0..operations.len() as u32 {
        if run.waits[id as usize] == 0 {
            run.ready(id, 0.0);
        }
    }
    run.go()?;
    run.check_all_ended()?;
    let mut by_rank = vec![0.0f64; program.ranks()];
    for (op, &end) in operations.iter().zip(&run.ended) {
        by_rank[op.rank as usize] = by_rank[op.rank as usize].max(end);
    }
    let times = ProgramTimes {
        seconds: by_rank.iter().copied().fold(0.0, f64::max),
        by_rank,
        by_operation: run.ended,
        held_back: run.held_back,
        by_transfer: run.by_transfer,
        transfers: run.transfers,
        buffered_bytes: match run.eager_bytes > network.parameters.eager_bytes {
            true => run.eager_bytes,
            false => 0.0,
        },
    };
    Ok((times, run.transport))
}

impl<T: Transport> Run<'_, T> {
    fn go(&mut self) -> Result<(), ModelError> {
        let mut done: Vec<Done> = Vec::new();
        let mut under_way = 0u64;
        loop {
            let next = self.events.first();
            let Some(limit) = next.or((under_way > 0).then_some(f64::INFINITY)) else {
                if self.program.ended && self.buffer()? {
                    continue;
                }
                return Ok(());
            };
            done.clear();
            self.transport.run_until(limit, &mut done);
            under_way -= done.len() as u64;
            for d in &done {
                self.arrived(d);
            }
            if !done.is_empty() {
                continue;
            }
            if limit == f64::INFINITY {
                // No further arrivals are possible: rates of zero.
                return Ok(());
            }
            self.events.begin(limit);
            while let Some(what) = self.events.take() {
                under_way += self.handle(what, limit)?;
            }
        }
    }

    /// Every rank waits: the smallest of the sends that wait for their receivers, and those up to its size from now on,
    /// are buffered. False if there is none.
    fn buffer(&mut self) -> Result<bool, ModelError> {
        let held = self.held();
        let Some(least) = least(&held) else {
            return Ok(false);
        };
        self.eager_bytes = self.eager_bytes.max(least);
        let last = self.ended.iter().copied().fold(0.0, f64::max);
        let now = last.max(self.transport.now());
        for (id, _) in held.into_iter().filter(|h| h.1 <= least) {
            let leaves = std::mem::replace(&mut self.leaves[id as usize], NOT_YET);
            let latency = self.latency(id)?;
            self.events.add(now, What::Done(id));
            self.events.add(now.max(leaves + latency), What::Flow(id));
        }
        Ok(true)
    }

    /// Sends that wait until their receives are posted, with their bytes.
    fn held(&self) -> Vec<(u32, f64)> {
        let operations = self.program.operations();
        let held = (0u32..).zip(operations).filter(|&(id, operation)| {
            let receive = operation.partner;
            let posted = receive.is_some_and(|r| !self.posted[r.0 as usize].is_nan());
            !self.leaves[id as usize].is_nan() && !posted
        });
        held.filter_map(|(id, operation)| match operation.action {
            Action::Send { bytes, .. } => Some((id, bytes)),
            _ => None,
        })
        .collect()
    }

    fn check_all_ended(&self) -> Result<(), ModelError> {
        let stuck = |end: &&f64| end.is_nan();
        let Some(first) = self.ended.iter().position(|end| end.is_nan()) else {
            return Ok(());
        };
        let seconds = self.ended.iter().copied().fold(0.0, f64::max);
        if self.transport.is_busy() {
            return Err(ModelError::CreditLoop(seconds));
        }
        Err(ModelError::Deadlock {
            rank: self.program.operations()[first].rank,
            operations: self.ended.iter().filter(stuck).count(),
            seconds,
            held_bytes: least(&self.held()),
        })
    }

    /// Handles an event; returns the number of transfers begun.
    fn handle(&mut self, what: What, now: f64) -> Result<u64, ModelError> {
        match what {
            What::Ready(id) | What::Compute(id) => self.begin(id, now)?,
            What::Asked(send) => {
                let receiver = self.receiver(send);
                self.when_free(receiver, now, What::Answered(send));
            }
            What::Answered(send) => {
                let latency = self.latency(send)?;
                self.events.add(now + latency, What::Granted(send));
            }
            What::Granted(send) => {
                let sender = self.program.operations()[send as usize].rank;
                self.when_free(sender, now, What::Sent(send));
            }
            What::Sent(send) => {
                let latency = self.latency(send)?;
                self.events.add(now + latency, What::Flow(send));
            }
            What::Flow(id) => return self.flow(id, now),
            What::Done(id) => {
                self.ended[id as usize] = now;
                let program = self.program;
                for &later in program.next(id) {
                    let waits = &mut self.waits[later as usize];
                    *waits -= 1;
                    if *waits == 0 {
                        self.ready(later, now);
                    }
                }
            }
        }
        Ok(0)
    }

    fn ready(&mut self, id: u32, now: f64) {
        let what = match self.program.operations()[id as usize].action {
            Action::Compute { .. } => What::Compute(id),
            _ => What::Ready(id),
        };
        self.events.add(now, what);
    }

    /// Lets something happen once the rank does not compute.
    fn when_free(&mut self, rank: u32, now: f64, what: What) {
        let free = self.processor[rank as usize];
        self.events.add(now.max(free), what);
    }

    fn receiver(&self, send: u32) -> u32 {
        match self.program.operations()[send as usize].action {
            Action::Send { to, .. } => to,
            _ => self.program.operations()[send as usize].rank,
        }
    }

    /// Occupies the rank's processor from `now` on for messages; returns the end of that time.
    fn occupy(&mut self, rank: u32, now: f64, seconds: f64) -> f64 {
        self.occupy_undisturbed(rank, now, seconds / self.network.point.cpu)
    }

    /// The same for so much time at the operating point, without interruptions.
    fn occupy_undisturbed(&mut self, rank: u32, now: f64, seconds: f64) -> f64 {
        let free = &mut self.processor[rank as usize];
        *free = self.network.computing.end(rank, free.max(now), seconds);
        *free
    }

    fn begin(&mut self, id: u32, now: f64) -> Result<(), ModelError> {
        let operation = self.program.operations()[id as usize];
        let overhead = self.network.parameters.overhead_s;
        match operation.action {
            Action::Compute { seconds } => {
                let seconds = self.network.computing.seconds(seconds);
                let end = self.occupy_undisturbed(operation.rank, now, seconds);
                self.events.add(end, What::Done(id));
            }
            Action::Receive { .. } => {
                self.posted[id as usize] = now;
                if let Some(send) = operation.partner {
                    self.try_rendezvous(send.0, id)?;
                    self.try_receive(id, send.0);
                }
            }
            Action::Send { bytes, .. } => {
                let node = self.nodes[operation.rank as usize];
                let ready = self.occupy(operation.rank, now, overhead);
                let rate = self.network.parameters.messages_per_s;
                let gap = rate.map_or(0.0, |r| 1.0 / (r * self.network.point.message_rate));
                let engine = &mut self.engine[node.index()];
                *engine = engine.max(ready) + gap;
                let leaves = *engine;
                if bytes <= self.eager_bytes {
                    self.events.add(ready, What::Done(id));
                    let latency = self.latency(id)?;
                    self.events.add(leaves + latency, What::Flow(id));
                } else {
                    self.leaves[id as usize] = leaves;
                    if let Some(receive) = operation.partner {
                        self.try_rendezvous(id, receive.0)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Starts the data of a large message once both sides are ready.
    fn try_rendezvous(&mut self, send: u32, receive: u32) -> Result<(), ModelError> {
        let (leaves, posted) = (self.leaves[send as usize], self.posted[receive as usize]);
        if leaves.is_nan() || posted.is_nan() {
            return Ok(());
        }
        // Request to send, clear to send, data.
        let latency = self.latency(send)?;
        let arrives = leaves + latency;
        if self.network.parameters.asynchronous_progress {
            let asked = arrives.max(posted);
            self.events.add(asked + 2.0 * latency, What::Flow(send));
        } else if arrives < posted {
            // The call that posts the receive finds the request.
            self.events.add(posted, What::Answered(send));
        } else {
            self.events.add(arrives, What::Asked(send));
        }
        Ok(())
    }

    /// Ends a receive once it is posted and its data has arrived.
    fn try_receive(&mut self, receive: u32, send: u32) {
        let (posted, arrived) = (self.posted[receive as usize], self.posted[send as usize]);
        if posted.is_nan() || arrived.is_nan() {
            return;
        }
        let rank = self.program.operations()[receive as usize].rank;
        let overhead = self.network.parameters.overhead_s;
        let end = self.occupy(rank, posted.max(arrived), overhead);
        self.events.add(end, What::Done(receive));
    }

    fn ends_of(&self, send: u32) -> (NodeId, NodeId, f64) {
        let operation = self.program.operations()[send as usize];
        let from = self.nodes[operation.rank as usize];
        match operation.action {
            Action::Send { to, bytes } => (from, self.nodes[to as usize], bytes),
            _ => (from, from, 0.0),
        }
    }

    fn latency(&mut self, send: u32) -> Result<f64, ModelError> {
        let (from, to, bytes) = self.ends_of(send);
        self.transport.latency(from, to, bytes, send)
    }

    /// A send's data begins to flow; an empty message has no flow unless it is a packet.
    fn flow(&mut self, send: u32, now: f64) -> Result<u64, ModelError> {
        let (from, to, bytes) = self.ends_of(send);
        self.transfers += 1;
        if bytes == 0.0 && !T::MOVES_EMPTY {
            self.deliver(send, now);
            return Ok(0);
        }
        if T::NAMES_BOTTLENECKS {
            self.begun[send as usize] = now;
        }
        self.transport.begin(from, to, bytes, send)?;
        Ok(1)
    }

    fn arrived(&mut self, done: &Done) {
        if T::NAMES_BOTTLENECKS {
            let (_, _, bytes) = self.ends_of(done.tag);
            *self.held_back.entry(done.bottleneck).or_default() += bytes;
            let begun = self.begun[done.tag as usize];
            let transfer = (done.tag, begun, done.seconds, done.bottleneck);
            self.by_transfer.push(transfer);
        }
        self.deliver(done.tag, done.seconds);
    }

    fn deliver(&mut self, send: u32, now: f64) {
        if !self.leaves[send as usize].is_nan() {
            self.events.add(now, What::Done(send));
        }
        self.posted[send as usize] = now;
        if let Some(receive) = self.program.operations()[send as usize].partner {
            self.try_receive(receive.0, send);
        }
    }
}
