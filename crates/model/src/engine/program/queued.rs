//! Transport of data as frames that wait in the first-in first-out queues of links.
//!
//! Flows that share links fairly ([`super::Flows`]) answer for long transfers. Messages of some frames do not share: the one
//! that comes first passes first, and a program that sends ahead delays the messages behind it, not those before it. Here
//! every link is a server of frames in the order of their arrival, every connection (a pair of nodes) keeps a limited number of
//! frames under way, and acknowledgements take their own way back. Frames are not lost: queues have no limit.

use super::transport::{Stream, Transport};
use crate::error::ModelError;
use crate::fluid::Done;
use crate::network::Network;
use crate::parameters::Queues;
use hopbyte_fabric::wire::{Packets, Protocol};
use hopbyte_fabric::{LinkId, NodeId};
use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BinaryHeap, HashMap, VecDeque};

/// Frames of a large message that travel as one, so that a message is at most about this many.
const MOST_FRAMES: f64 = 256.0;
/// Size of a frame of protocols that have none.
const FRAME_BYTES: f64 = 4096.0;

/// A frame arrives at a link of its route, or at its end.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Event {
    when: When,
    frame: Frame,
    hop: u32,
}

/// Events in order of their times, simultaneous ones as they were added. A time is the bits of a number that is not
/// negative, which have its order.
type When = (u64, u64);

#[derive(Clone, Copy, Debug, PartialEq)]
struct Frame {
    connection: u32,
    wire_bytes: f64,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    /// Data: bytes, and the message that ends with it.
    Data(f64, Option<u32>),
    /// An acknowledgement of so many bytes and frames, on the way back.
    Answer(f64, f64),
    /// A datagram of a stream; the next one follows after a time, on the stream's line.
    Datagram(f64, u32),
}

/// A link: a bucket of bytes that fills at the link's rate, and frames that wait for it.
#[derive(Clone, Copy, Debug, Default)]
struct Server {
    bytes_per_s: f64,
    /// Time at which the bucket is full again.
    full: f64,
    last: f64,
}

impl Server {
    /// When a frame that arrives now has left.
    fn passes(&mut self, now: f64, bytes: f64, bucket: f64) -> f64 {
        let takes = bytes / self.bytes_per_s;
        let leaves = if bucket > bytes {
            now.max(self.last)
                .max(self.full + takes - bucket / self.bytes_per_s)
        } else {
            now.max(self.full) + takes
        };
        self.full = match bucket > bytes {
            true => self.full.max(leaves) + takes,
            false => leaves,
        };
        self.last = leaves;
        leaves
    }
}

#[derive(Debug)]
struct Connection {
    /// Servers on the way there and back, with their hop latencies.
    there: Vec<(u32, f64)>,
    back: Vec<(u32, f64)>,
    /// Messages that have not left yet: bytes left, tag.
    messages: VecDeque<(f64, u32)>,
    window: f64,
    under_way: f64,
    /// Data and frames that arrived and are not acknowledged.
    owed: (f64, f64),
}

/// Frames on a network.
#[derive(Debug)]
pub struct Queued<'a> {
    network: &'a Network<'a>,
    rules: Queues,
    packets: Packets,
    servers: Vec<Server>,
    connections: Vec<Connection>,
    between: HashMap<(NodeId, NodeId), u32>,
    /// Coming events by origin, each in order: frames leave a server one after the other. After the servers' lines come that
    /// of frames that set out, and one for each stream.
    lines: Vec<VecDeque<Event>>,
    /// The first event of every line.
    first: BinaryHeap<Reverse<(When, u32)>>,
    number: u64,
    now: f64,
    busy: u64,
}

impl<'a> Queued<'a> {
    /// An empty network but for the streams of other jobs, which are datagrams at their highest rate. Only for networks
    /// with one path a pair.
    ///
    /// # Errors
    /// Streams without a route.
    pub fn new(
        network: &'a Network<'a>,
        rules: Queues,
        background: &[Stream],
    ) -> Result<Self, ModelError> {
        let server = |&bytes_per_s: &f64| Server {
            bytes_per_s,
            ..Server::default()
        };
        let packets = match network.parameters.protocol {
            Protocol::Packets(packets) => packets,
            ref other => Packets {
                data_bytes: FRAME_BYTES,
                header_bytes: other.wire(FRAME_BYTES).forward.bytes() - FRAME_BYTES,
                padding_bytes: 1.0,
                answer_bytes: 0.0,
                packets_per_answer: None,
            },
        };
        let servers: Vec<Server> = network.capacities().iter().map(server).collect();
        let lines = vec![VecDeque::new(); servers.len() + 1];
        let mut queued = Self {
            network,
            rules,
            packets,
            servers,
            connections: Vec::new(),
            between: HashMap::new(),
            lines,
            first: BinaryHeap::new(),
            number: 0,
            now: 0.0,
            busy: 0,
        };
        for &(from, to, _, bytes_per_s) in background {
            let connection = queued.connect(from, to)?;
            let wire_bytes = packets.data_bytes + packets.header_bytes;
            let line = queued.lines.len() as u32;
            queued.lines.push(VecDeque::new());
            let frame = Frame {
                connection,
                wire_bytes,
                what: What::Datagram(wire_bytes / bytes_per_s, line),
            };
            queued.add(line, 0.0, frame, 0);
        }
        Ok(queued)
    }

    /// Adds an event to a line, in which none is later.
    fn add(&mut self, line: u32, seconds: f64, frame: Frame, hop: u32) {
        self.number += 1;
        let when = (seconds.to_bits(), self.number);
        let list = &mut self.lines[line as usize];
        if list.is_empty() {
            self.first.push(Reverse((when, line)));
        }
        list.push_back(Event { when, frame, hop });
    }

    /// A frame sets out now.
    fn set_out(&mut self, frame: Frame) {
        self.add(self.servers.len() as u32, self.now, frame, 0);
    }

    /// Takes the next event, if it is not after `limit`.
    fn next(&mut self, limit: f64) -> Option<Event> {
        let mut first = self.first.peek_mut()?;
        let Reverse(((bits, _), line)) = *first;
        let seconds = f64::from_bits(bits);
        if seconds > limit {
            return None;
        }
        let list = &mut self.lines[line as usize];
        let event = list.pop_front();
        match list.front() {
            Some(next) => *first = Reverse((next.when, line)),
            None => drop(PeekMut::pop(first)),
        }
        self.now = self.now.max(seconds);
        event
    }

    /// The connection of a pair of nodes; a node's messages to itself go through its memory.
    fn connect(&mut self, from: NodeId, to: NodeId) -> Result<u32, ModelError> {
        if let Some(&known) = self.between.get(&(from, to)) {
            return Ok(known);
        }
        let there = self.servers_between(from, to)?;
        let back = self.servers_between(to, from)?;
        let number = self.connections.len() as u32;
        self.connections.push(Connection {
            there,
            back,
            messages: VecDeque::new(),
            window: self.rules.first_window_bytes,
            under_way: 0.0,
            owed: (0.0, 0.0),
        });
        self.between.insert((from, to), number);
        Ok(number)
    }

    fn servers_between(&self, from: NodeId, to: NodeId) -> Result<Vec<(u32, f64)>, ModelError> {
        let network = self.network;
        if from == to {
            return Ok(vec![(network.memory_of(from), 0.0)]);
        }
        let mut links = Vec::new();
        let found = network.routing.route(network.fabric, from, to, &mut links);
        found.map_err(|pair| ModelError::unroutable(network.fabric, &pair))?;
        let server = |link: LinkId| Some((network.resource_of(link)?, network.hop_latency(link)));
        Ok(links.into_iter().filter_map(server).collect())
    }

    /// Sends frames of a connection while its window allows.
    fn pump(&mut self, number: u32) {
        loop {
            let connection = &mut self.connections[number as usize];
            let Some(front) = connection.messages.front_mut() else {
                return;
            };
            if connection.under_way >= connection.window {
                return;
            }
            let full = self.packets.data_bytes;
            let together = (front.0 / full / MOST_FRAMES).ceil().max(1.0);
            let bytes = front.0.min(full * together);
            front.0 -= bytes;
            let last = (front.0 <= 0.0).then_some(front.1);
            if last.is_some() {
                connection.messages.pop_front();
            }
            connection.under_way += bytes;
            let frames = (bytes / full).ceil().max(1.0);
            let wire_bytes = bytes + frames * self.packets.header_bytes;
            let what = What::Data(bytes, last);
            let frame = Frame {
                connection: number,
                wire_bytes,
                what,
            };
            self.set_out(frame);
        }
    }

    fn handle(&mut self, event: Event, done: &mut Vec<Done>) {
        let Event { frame, hop, .. } = event;
        let connection = &self.connections[frame.connection as usize];
        let route = match frame.what {
            What::Answer(..) => &connection.back,
            _ => &connection.there,
        };
        if let (What::Datagram(gap, line), 0) = (frame.what, hop) {
            let first = route.first().copied();
            self.add(line, self.now + gap, frame, 0);
            if let Some((server, latency)) = first {
                self.pass(frame, 0, server, latency);
            }
            return;
        }
        if let Some(&(server, latency)) = route.get(hop as usize) {
            self.pass(frame, hop, server, latency);
            return;
        }
        match frame.what {
            What::Datagram(..) => {}
            What::Answer(bytes, frames) => {
                let data = self.packets.data_bytes;
                let connection = &mut self.connections[frame.connection as usize];
                connection.under_way -= bytes;
                connection.window =
                    (connection.window + frames * data).min(self.rules.window_bytes);
                self.pump(frame.connection);
            }
            What::Data(bytes, last) => self.receive(frame, bytes, last, done),
        }
    }

    fn receive(&mut self, frame: Frame, bytes: f64, last: Option<u32>, done: &mut Vec<Done>) {
        let every = self.packets.packets_per_answer;
        let connection = &mut self.connections[frame.connection as usize];
        connection.owed.0 += bytes;
        connection.owed.1 += (bytes / self.packets.data_bytes).ceil().max(1.0);
        let (owed, frames) = connection.owed;
        if last.is_some() || every.is_some_and(|n| frames >= n) {
            connection.owed = (0.0, 0.0);
            let answers = every.map_or(1.0, |n| (frames / n).ceil());
            let answer = Frame {
                wire_bytes: answers * self.packets.answer_bytes,
                what: What::Answer(owed, frames),
                ..frame
            };
            self.set_out(answer);
        }
        if let Some(tag) = last {
            self.busy -= 1;
            done.push(Done {
                tag,
                seconds: self.now,
                bottleneck: None,
            });
        }
    }

    fn pass(&mut self, frame: Frame, hop: u32, server: u32, latency: f64) {
        let bucket = self.rules.burst_bytes;
        let leaves = self.servers[server as usize].passes(self.now, frame.wire_bytes, bucket);
        self.add(server, leaves + latency, frame, hop + 1);
    }
}

impl Transport for Queued<'_> {
    fn now(&self) -> f64 {
        self.now
    }

    fn is_busy(&self) -> bool {
        self.busy > 0
    }

    fn latency(&mut self, from: NodeId, to: NodeId, _bytes: f64) -> Result<f64, ModelError> {
        let parameters = self.network.parameters;
        Ok(match from == to {
            true => parameters.memory_latency_s,
            false => parameters.latency_s * self.network.point.latency,
        })
    }

    fn begin(&mut self, from: NodeId, to: NodeId, bytes: f64, tag: u32) -> Result<(), ModelError> {
        let number = self.connect(from, to)?;
        self.busy += 1;
        let connection = &mut self.connections[number as usize];
        connection.messages.push_back((bytes, tag));
        self.pump(number);
        Ok(())
    }

    fn run_until(&mut self, limit: f64, done: &mut Vec<Done>) {
        while limit < f64::INFINITY || self.busy > 0 {
            let Some(event) = self.next(limit) else { break };
            self.handle(event, done);
            if !done.is_empty() {
                return;
            }
        }
        if limit < f64::INFINITY {
            self.now = self.now.max(limit);
        }
    }
}
