//! Messages as transactions: network interfaces above the routers.

use super::guard::{Guard, Watch};
use super::layout::Layout;
use super::spec::RouterSpec;
use super::whole::{Delivered, Engine, FAR, Packet};
use crate::error::ModelError;
use crate::fluid::Done;
use crate::network::{Network, Way};
use crate::outcome::throttled::ThrottleEvent;
use crate::program::{Stream, Transport};
use hopbyte_fabric::NodeId;
use hopbyte_fabric::wire::Protocol;
use hopbyte_fabric::wire::gemini::{Batch, Side, Transaction};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Tag of transfers of other jobs, which have no receiver to notify.
const STREAM: u32 = u32::MAX;

/// Tag of acknowledgements: their arrival ends nothing.
const ACKNOWLEDGEMENT: u32 = u32::MAX - 1;

/// A message in flight.
#[derive(Clone, Debug)]
struct Message {
    from: u32,
    to: u32,
    tag: u32,
    /// Transactions with data that have not arrived.
    data_left: u64,
    batches: Vec<Batch>,
    /// Phits of a request of each batch.
    phits: Vec<u8>,
    /// Acknowledgements that the receiver sends when the data has arrived.
    answers: f64,
}

/// A message to be sent: requests of each batch with their phits, a limit of its rate in bytes per second, and the number
/// of acknowledgements.
struct Sent {
    ends: (NodeId, NodeId),
    tag: u32,
    batches: Vec<(Batch, u8)>,
    limit: f64,
    answers: f64,
}

/// Pending transactions of an interface.
#[derive(Clone, Copy, Debug)]
struct Job {
    message: u32,
    batch: u8,
    left: u64,
    /// Cycles between transactions of a transfer with a limit, and the earliest cycle of the next one.
    gap: f64,
    next: f64,
}

#[derive(Clone, Debug, Default)]
struct Interface {
    jobs: VecDeque<Job>,
    outstanding: u32,
}

/// The network, packet by packet.
///
/// An interface issues transactions of up to 64 bytes, round robin over its messages, with a bounded number
/// of outstanding requests ([`RouterSpec::window`]) and at most at its injection rate. Responses have
/// priority over requests.
#[derive(Debug)]
pub struct Packets<'a> {
    network: &'a Network<'a>,
    engine: Engine,
    messages: Vec<Message>,
    /// Acknowledgements that have not arrived.
    unanswered: u64,
    interfaces: Vec<Interface>,
    to_try: Vec<u32>,
    window: u32,
    /// Cycles that an interface needs for a byte of data, by node.
    cycles_per_byte: Vec<f64>,
    /// Congestion protection, if enabled.
    watch: Option<Watch>,
    /// Ends of messages within a node.
    local: BinaryHeap<Reverse<(u64, u32)>>,
    memory_free: Vec<f64>,
    delivered: Vec<Delivered>,
    way: Way,
    now: f64,
}

impl<'a> Packets<'a> {
    /// A network with no traffic but the streams of other jobs.
    ///
    /// # Errors
    /// Machines that are too large, routers without queues behind the switch, streams without a route.
    pub fn new(
        network: &'a Network<'a>,
        spec: &RouterSpec,
        background: &[Stream],
    ) -> Result<Self, ModelError> {
        let layout = Layout::new(network, spec)?;
        let nodes = layout.nodes();
        let share = network.injection_share();
        let cycles = |node| {
            let rate = network.injection_of(node);
            rate.map_or(0.0, |r| 1.0 / (r * spec.cycle.0))
        };
        let mut packets = Self {
            network,
            engine: Engine::new(layout, spec.clone())?,
            messages: Vec::new(),
            unanswered: 0,
            interfaces: vec![Interface::default(); nodes],
            to_try: Vec::new(),
            window: ((f64::from(spec.window) * share).round() as u32).max(1),
            cycles_per_byte: network.fabric.node_ids().map(cycles).collect(),
            watch: None,
            local: BinaryHeap::new(),
            memory_free: vec![0.0; nodes],
            delivered: Vec::new(),
            way: Way::default(),
            now: 0.0,
        };
        packets.check_paces(1.0)?;
        for &(from, to, bytes, limit) in background {
            packets.stream(from, to, bytes, limit)?;
        }
        Ok(packets)
    }

    /// Rejects nodes that are so slow at a share of their rate that a packet takes more cycles than can be counted.
    fn check_paces(&self, share: f64) -> Result<(), ModelError> {
        let slowest = self.cycles_per_byte.iter().copied().fold(0.0, f64::max);
        let least = self.engine.spec.plain_packet_bytes / (FAR as f64 * self.cycle());
        let rate = share / (slowest * self.cycle());
        if rate >= least {
            return Ok(());
        }
        let expected = format!("at least {least:.1e} bytes/s when every packet is followed");
        let what = "slowest rate of a node";
        Err(ModelError::out_of_range(
            what,
            &format!("{rate:.1e} bytes/s"),
            expected,
        ))
    }

    /// Enables congestion protection from now on.
    ///
    /// # Errors
    /// Shares of a rate with which packets take too long.
    pub(crate) fn guard(&mut self, guard: Guard) -> Result<(), ModelError> {
        self.check_paces(guard.share)?;
        self.watch = Some(Watch::new(guard, &self.engine));
        Ok(())
    }

    /// Throttling so far.
    pub(crate) fn throttled(&self) -> Vec<ThrottleEvent> {
        let watch = self.watch.as_ref();
        watch.map_or_else(Vec::new, |w| w.events.clone())
    }

    /// Applies the throttling that is due before a cycle.
    fn look_before(&mut self, cycle: u64) {
        let Some(watch) = self.watch.as_mut().filter(|w| w.due() <= cycle) else {
            return;
        };
        let nodes = watch.look(cycle, &self.engine, self.network.fabric);
        let slower = 1.0 / watch.share();
        for node in nodes {
            let cycles = &mut self.cycles_per_byte[node.index()];
            if *cycles == 0.0 {
                // A throttled node keeps a share of the wire's own rate.
                let link = self.network.fabric.node(node).inject;
                *cycles = 1.0 / (self.network.capacity_of(link) * self.engine.spec.cycle.0);
            }
            *cycles *= slower;
        }
    }

    /// Packets times routers on their way so far.
    pub fn hops(&self) -> u64 {
        self.engine.packet_hops
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    fn cycle(&self) -> f64 {
        self.engine.spec.cycle.0
    }

    /// Follows the engine, which counts so many cycles fewer.
    fn recount(&mut self, fewer: u64) {
        if fewer == 0 {
            return;
        }
        let jobs = self.interfaces.iter_mut().flat_map(|i| &mut i.jobs);
        jobs.for_each(|job| job.next -= fewer as f64);
        if let Some(watch) = &mut self.watch {
            watch.recount(fewer);
        }
    }

    /// Transactions of a message of `bytes`, and the phits of each one's request.
    fn batches(&self, bytes: f64) -> Vec<(Batch, u8)> {
        let spec = &self.engine.spec;
        let phits = |bytes: f64| (bytes / spec.phit_bytes).ceil();
        let size = spec.plain_packet_bytes;
        let full = (bytes / size).floor();
        let rest = bytes - full * size;
        let all = match &self.network.parameters.protocol {
            Protocol::Gemini(mpi) => {
                let batches = mpi.batches(bytes).into_iter();
                batches.map(|b| (b, b.phits().0)).collect()
            }
            Protocol::Plain {
                wire_bytes_per_byte,
            } => {
                let of = |bytes: f64| phits(bytes * wire_bytes_per_byte);
                vec![(put(size, full), of(size)), (put(rest, 1.0), of(rest))]
            }
            // Routers of this level move packets of their own size, so that these share the message's bytes on the wire.
            Protocol::Packets(packets) => {
                let total = phits(packets.wire(bytes).forward.bytes());
                let of_rest = if full == 0.0 {
                    total
                } else {
                    (total * rest / bytes).round()
                };
                let of_full = total - of_rest;
                let low = (of_full / full.max(1.0)).floor();
                let more = of_full - low * full;
                vec![
                    (put(size, full - more), low),
                    (put(size, more), low + 1.0),
                    (put(rest, 1.0), of_rest),
                ]
            }
        };
        let sent = all
            .into_iter()
            .filter(|(b, _)| b.bytes > 0.0 && b.count > 0.0);
        sent.map(|(batch, phits)| (batch, whole_phits(phits)))
            .collect()
    }

    /// Queues a message.
    fn add(&mut self, sent: Sent) -> Result<(), ModelError> {
        let (from, to) = sent.ends;
        Layout::check_route(self.network, from, to, &mut self.way)?;
        Layout::check_route(self.network, to, from, &mut self.way)?;
        self.push(sent);
        Ok(())
    }

    /// [`Self::add`] between nodes with routes both ways.
    fn push(&mut self, sent: Sent) {
        let Sent {
            ends: (from, to),
            tag,
            batches,
            limit,
            answers,
        } = sent;
        let (batches, phits): (Vec<Batch>, Vec<u8>) = batches.into_iter().unzip();
        let message = self.messages.len() as u32;
        let endless = tag == STREAM;
        let data = batches
            .iter()
            .filter(|b| b.data)
            .map(|b| b.count as u64)
            .sum();
        for (i, batch) in batches.iter().enumerate() {
            let node = match batch.by {
                Side::Sender => from.0,
                Side::Receiver => to.0,
            };
            let gap = batch.bytes / limit / self.cycle();
            self.interfaces[node as usize].jobs.push_back(Job {
                message,
                batch: i as u8,
                left: if endless {
                    u64::MAX
                } else {
                    batch.count as u64
                },
                gap,
                next: 0.0,
            });
            self.to_try.push(node);
        }
        self.messages.push(Message {
            from: from.0,
            to: to.0,
            tag,
            data_left: data,
            batches,
            phits,
            answers,
        });
    }

    /// A permanent transfer.
    fn stream(
        &mut self,
        from: NodeId,
        to: NodeId,
        bytes: f64,
        limit: f64,
    ) -> Result<(), ModelError> {
        let mut batches = self.batches(bytes);
        batches.retain(|b| b.0.data);
        batches.truncate(1);
        self.add(Sent {
            ends: (from, to),
            tag: STREAM,
            batches,
            limit,
            answers: 0.0,
        })
    }

    /// Issues an interface's next transaction, if it may.
    fn ask(&mut self, node: u32) {
        let interface = &mut self.interfaces[node as usize];
        if interface.outstanding >= self.window || self.engine.waits_at(node, 0) {
            return;
        }
        let now = self.engine.now() as f64;
        let mut soonest = f64::INFINITY;
        for _ in 0..interface.jobs.len() {
            let Some(mut job) = interface.jobs.pop_front() else {
                return;
            };
            if job.next > now {
                soonest = soonest.min(job.next);
                interface.jobs.push_back(job);
                continue;
            }
            let message = &self.messages[job.message as usize];
            let batch = message.batches[usize::from(job.batch)];
            let (to, _) = message.ends(batch.by);
            let phits = message.phits[usize::from(job.batch)];
            job.left -= 1;
            job.next = job.next.max(now - 1.0) + job.gap;
            let tag = tag_of(job.message, job.batch);
            if job.left > 0 {
                interface.jobs.push_back(job);
            }
            let answered = self.engine.spec.networks > 1;
            interface.outstanding += u32::from(answered);
            let mut packet = Packet::new(to, tag, phits);
            if batch.kind == Transaction::Put {
                packet.pace = (batch.bytes * self.cycles_per_byte[node as usize]) as f32;
            }
            self.engine.send(node, packet);
            return;
        }
        if soonest < f64::INFINITY {
            // A reminder that comes too early is followed by another one.
            let soonest = soonest.min(now + FAR as f64);
            self.engine.remind(node, soonest.ceil() as u64);
        }
    }

    /// Sends the acknowledgements of a message that has arrived.
    fn acknowledge(&mut self, ends: (NodeId, NodeId), answers: f64) {
        let Protocol::Packets(packets) = self.network.parameters.protocol else {
            return;
        };
        if answers > 0.0 && packets.answer_bytes > 0.0 {
            let phits = whole_phits((packets.answer_bytes / self.engine.spec.phit_bytes).ceil());
            let batch = (put(packets.answer_bytes, answers), phits);
            self.unanswered += answers as u64;
            self.push(Sent {
                ends,
                tag: ACKNOWLEDGEMENT,
                batches: vec![batch],
                limit: f64::INFINITY,
                answers: 0.0,
            });
        }
    }

    /// Runs on until all acknowledgements have arrived, so that counters include them.
    pub(crate) fn settle(&mut self) {
        while self.unanswered > 0 && self.cycle_before(f64::INFINITY, &mut Vec::new()) {}
    }

    fn take(&mut self, d: &Delivered, done: &mut Vec<Done>) {
        let (message, index, answer) = untag(d.tag);
        let m = &mut self.messages[message as usize];
        let batch = m.batches[usize::from(index)];
        let (target, asker) = m.ends(batch.by);
        // Data arrives with the request of a PUT and with the response to a GET.
        let brings_data = batch.data && (batch.kind == Transaction::Get) == answer;
        if brings_data && m.tag != STREAM {
            m.data_left -= 1;
            if m.tag == ACKNOWLEDGEMENT {
                self.unanswered -= 1;
            } else if m.data_left == 0 {
                done.push(Done {
                    tag: m.tag,
                    seconds: self.engine.seconds(self.engine.now()).max(self.now),
                    bottleneck: None,
                });
                let (back, answers) = ((NodeId(m.to), NodeId(m.from)), m.answers);
                self.acknowledge(back, answers);
            }
        }
        if answer {
            self.interfaces[asker as usize].outstanding -= 1;
            self.to_try.push(asker);
        } else if self.engine.spec.networks > 1 {
            let mut packet = Packet::new(asker, d.tag | ANSWER, whole_phits(batch.phits().1));
            packet.network = 1;
            if batch.kind == Transaction::Get {
                packet.pace = (batch.bytes * self.cycles_per_byte[target as usize]) as f32;
            }
            debug_assert_eq!(target, d.node);
            self.engine.send(d.node, packet);
        }
    }

    /// Runs the next cycle that has an event, if it is before `limit`.
    fn cycle_before(&mut self, limit: f64, done: &mut Vec<Done>) -> bool {
        for i in 0..self.to_try.len() {
            let node = self.to_try[i];
            self.ask(node);
        }
        self.to_try.clear();
        let Some(mut cycle) = self.engine.next() else {
            return false;
        };
        if self.engine.seconds(cycle) > limit {
            return false;
        }
        if cycle >= FAR {
            let fewer = self.engine.recount(cycle);
            self.recount(fewer);
            cycle -= fewer;
        }
        self.look_before(cycle);
        let mut delivered = std::mem::take(&mut self.delivered);
        delivered.clear();
        self.engine.step(cycle, &mut delivered, &mut self.to_try);
        for d in &delivered {
            self.take(d, done);
        }
        self.delivered = delivered;
        true
    }
}

impl Transport for Packets<'_> {
    const MOVES_EMPTY: bool = true;

    fn now(&self) -> f64 {
        self.now
    }

    fn is_busy(&self) -> bool {
        (self.messages.iter()).any(|m| m.tag < ACKNOWLEDGEMENT && m.data_left > 0)
    }

    fn latency(
        &mut self,
        from: NodeId,
        to: NodeId,
        _bytes: f64,
        _tag: u32,
    ) -> Result<f64, ModelError> {
        let parameters = self.network.parameters;
        Ok(if from == to {
            parameters.memory_latency_s
        } else {
            parameters.latency_s * self.network.point.latency
        })
    }

    fn begin(&mut self, from: NodeId, to: NodeId, bytes: f64, tag: u32) -> Result<(), ModelError> {
        if from == to {
            // One copy at a time.
            let free = &mut self.memory_free[from.index()];
            let rate = self.network.parameters.memory_bytes_per_s * self.network.point.memory;
            *free = free.max(self.now) + bytes / rate;
            self.local.push(Reverse((free.to_bits(), tag)));
            return Ok(());
        }
        let batches = self.batches(bytes.max(1.0));
        let answers = match &self.network.parameters.protocol {
            Protocol::Packets(packets) => packets.answers(bytes.max(1.0)),
            _ => 0.0,
        };
        self.add(Sent {
            ends: (from, to),
            tag,
            batches,
            limit: f64::INFINITY,
            answers,
        })
    }

    fn run_until(&mut self, limit: f64, done: &mut Vec<Done>) {
        loop {
            let local = self
                .local
                .peek()
                .map_or(f64::INFINITY, |r| f64::from_bits(r.0.0));
            let until = limit.min(local);
            if self.cycle_before(until, done) {
                if !done.is_empty() {
                    self.now = self.now.max(done[0].seconds);
                    return;
                }
                continue;
            }
            if local <= limit && local < f64::INFINITY {
                if let Some(Reverse((at, tag))) = self.local.pop() {
                    let seconds = f64::from_bits(at);
                    self.now = self.now.max(seconds);
                    done.push(Done {
                        tag,
                        seconds,
                        bottleneck: None,
                    });
                }
            } else if limit < f64::INFINITY {
                self.now = self.now.max(limit);
                let fewer = self.engine.rest_until(self.engine.cycle_at(limit));
                self.recount(fewer);
            }
            return;
        }
    }
}

impl Message {
    /// Requester and target of a batch.
    fn ends(&self, by: Side) -> (u32, u32) {
        match by {
            Side::Sender => (self.to, self.from),
            Side::Receiver => (self.from, self.to),
        }
    }
}

/// Transactions that carry data of the sender.
fn put(bytes: f64, count: f64) -> Batch {
    Batch {
        by: Side::Sender,
        kind: Transaction::Put,
        bytes,
        count,
        in_runs: 0.0,
        data: true,
    }
}

/// A packet has 1 to 255 phits.
fn whole_phits(phits: f64) -> u8 {
    phits.round().clamp(1.0, 255.0) as u8
}

const ANSWER: u64 = 1 << 63;

fn tag_of(message: u32, batch: u8) -> u64 {
    u64::from(message) | u64::from(batch) << 32
}

fn untag(tag: u64) -> (u32, u8, bool) {
    (tag as u32, (tag >> 32) as u8, tag & ANSWER != 0)
}
