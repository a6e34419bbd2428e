//! Transport of data as frames that wait in the first-in first-out queues of links.
//!
//! Flows that share links fairly ([`super::Flows`]) answer for long transfers. Messages of some frames do not share: the one
//! that comes first passes first, and a program that sends ahead delays the messages behind it, not those before it. Here
//! every link is a server of frames in the order of their arrival, every connection (a pair of nodes) keeps a limited number of
//! frames under way, and acknowledgements take their own way back. Frames are not lost: queues have no limit.

use super::earliest::Earliest;
use super::transport::{Stream, Transport};
use crate::error::ModelError;
use crate::fluid::Done;
use crate::network::Network;
use crate::parameters::Queues;
use hopbyte_fabric::wire::{Packets, Protocol};
use hopbyte_fabric::{LinkId, NodeId};
use std::collections::VecDeque;

/// Frames of a large message that travel as one, so that a message is at most about this many.
const MOST_FRAMES: f64 = 256.0;
/// Size of a frame of protocols that have none.
const FRAME_BYTES: f64 = 4096.0;

/// A frame arrives at a link of its route, or at its end.
#[derive(Clone, Copy, Debug)]
struct Event {
    when: When,
    frame: Frame,
    /// The link, as an entry of [`Queued::hops`].
    at: u32,
}

/// Events in order of their times, simultaneous ones as they were added. A time is the bits of a number that is not
/// negative, which have its order.
type When = (u64, u64);

/// Bits of a line's number in the key of its first event.
const LINE_BITS: u32 = 24;

/// A line's first event in the order of all lines: its time, its number (no run has as many events), the line.
fn key((bits, number): When, line: u32) -> u128 {
    u128::from(bits) << 64 | u128::from(number << LINE_BITS | u64::from(line))
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    connection: u32,
    wire_bytes: f64,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// Data: bytes, and the message that ends with it.
    Data(f64, Option<u32>),
    /// Data at its end, to be answered: bytes and frames that have arrived, and the message that ends with it.
    Owed(f64, f64, Option<u32>),
    /// An acknowledgement of so many bytes and frames, on the way back.
    Answer(f64, f64),
    /// A datagram of a stream; the next one follows after a time, on the stream's line.
    Datagram(f64, u32),
}

/// A link of a connection's way and its latency; no link at the end of the way.
type Hop = (u32, f64);
const END: u32 = u32::MAX;

/// A link: a bucket of bytes that fills at the link's rate, and frames that wait for it.
#[derive(Clone, Copy, Debug, Default)]
struct Server {
    bytes_per_s: f64,
    /// Time in which it sends a whole bucket.
    bucket_s: f64,
    /// Time at which the bucket is full again.
    full: f64,
    last: f64,
}

impl Server {
    /// When a frame that arrives now has left.
    #[inline]
    fn passes(&mut self, now: f64, bytes: f64, bucket: f64) -> f64 {
        let takes = bytes / self.bytes_per_s;
        let leaves = if bucket > bytes {
            now.max(self.last).max(self.full + takes - self.bucket_s)
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
    /// First entries of the ways there and back.
    there: u32,
    back: u32,
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
    /// The ways of all connections, each with its end.
    hops: Vec<Hop>,
    /// For each node those to others, in order of these.
    between: Vec<Vec<(NodeId, u32)>>,
    /// Coming events by origin, each in order: frames leave a server one after the other. After the servers' lines comes one
    /// for each stream.
    lines: Vec<VecDeque<Event>>,
    /// The first event of every line, as [`key`].
    first: Earliest,
    /// Frames that set out now, in order.
    out: VecDeque<Event>,
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
            bucket_s: rules.burst_bytes / bytes_per_s,
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
        let lines = vec![VecDeque::new(); servers.len()];
        let mut queued = Self {
            network,
            rules,
            packets,
            servers,
            connections: Vec::new(),
            hops: Vec::new(),
            between: vec![Vec::new(); network.fabric.nodes().len()],
            lines,
            first: Earliest::default(),
            out: VecDeque::new(),
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
            let at = queued.connections[connection as usize].there;
            queued.add(line, 0.0, frame, at);
        }
        Ok(queued)
    }

    /// Adds an event to a line, in which none is later.
    #[inline]
    fn add(&mut self, line: u32, seconds: f64, frame: Frame, at: u32) {
        self.number += 1;
        let when = (seconds.to_bits(), self.number);
        let list = &mut self.lines[line as usize];
        let is_first = list.is_empty();
        list.push_back(Event { when, frame, at });
        if is_first {
            self.first.add(key(when, line));
        }
    }

    /// A frame sets out now.
    fn set_out(&mut self, frame: Frame) {
        self.number += 1;
        let connection = &self.connections[frame.connection as usize];
        let at = match frame.what {
            What::Answer(..) => connection.back,
            _ => connection.there,
        };
        let when = (self.now.to_bits(), self.number);
        self.out.push_back(Event { when, frame, at });
    }

    /// Takes the next event, if it is not after `limit`.
    #[inline]
    fn next(&mut self, limit: f64) -> Option<Event> {
        let first = self.first.first().unwrap_or(u128::MAX);
        if self.out.front().is_some_and(|out| key(out.when, 0) < first) {
            return match self.now <= limit {
                true => self.out.pop_front(),
                false => None,
            };
        }
        let seconds = f64::from_bits((first >> 64) as u64);
        if first == u128::MAX || seconds > limit {
            return None;
        }
        self.now = self.now.max(seconds);
        self.first.take_first();
        let line = first as u32 & ((1 << LINE_BITS) - 1);
        let list = &mut self.lines[line as usize];
        let event = list.pop_front();
        if let Some(next) = list.front() {
            self.first.add(key(next.when, line));
        }
        event
    }

    /// The connection of a pair of nodes; a node's messages to itself go through its memory.
    fn connect(&mut self, from: NodeId, to: NodeId) -> Result<u32, ModelError> {
        let list = &self.between[from.index()];
        let place = match list.binary_search_by_key(&to, |known| known.0) {
            Ok(place) => return Ok(list[place].1),
            Err(place) => place,
        };
        let there = self.way(from, to)?;
        let back = self.way(to, from)?;
        let number = self.connections.len() as u32;
        self.connections.push(Connection {
            there,
            back,
            messages: VecDeque::new(),
            window: self.rules.first_window_bytes,
            under_way: 0.0,
            owed: (0.0, 0.0),
        });
        self.between[from.index()].insert(place, (to, number));
        Ok(number)
    }

    /// The first entry of a way.
    fn way(&mut self, from: NodeId, to: NodeId) -> Result<u32, ModelError> {
        let network = self.network;
        let begin = self.hops.len() as u32;
        if from == to {
            self.hops.push((network.memory_of(from), 0.0));
        } else {
            let mut links = Vec::new();
            let found = network.routing.route(network.fabric, from, to, &mut links);
            found.map_err(|pair| ModelError::unroutable(network.fabric, &pair))?;
            let hop = |link: LinkId| Some((network.resource_of(link)?, network.hop_latency(link)));
            self.hops.extend(links.into_iter().filter_map(hop));
        }
        self.hops.push((END, 0.0));
        Ok(begin)
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

    #[inline]
    fn handle(&mut self, event: Event, done: &mut Vec<Done>) {
        let Event { frame, at, .. } = event;
        let (server, latency) = self.hops[at as usize];
        if let What::Datagram(gap, line) = frame.what
            && at == self.connections[frame.connection as usize].there
        {
            self.add(line, self.now + gap, frame, at);
        }
        if server != END {
            self.pass(frame, at, server, latency);
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
            What::Data(bytes, last) => {
                if let Some(what) = self.collect(frame.connection, bytes, last) {
                    self.answer(Frame { what, ..frame }, done);
                }
            }
            What::Owed(..) => self.answer(frame, done),
        }
    }

    /// Data passes the last link of its way, and is to be answered or not.
    fn collect(&mut self, connection: u32, bytes: f64, last: Option<u32>) -> Option<What> {
        let every = self.packets.packets_per_answer;
        let connection = &mut self.connections[connection as usize];
        connection.owed.0 += bytes;
        connection.owed.1 += (bytes / self.packets.data_bytes).ceil().max(1.0);
        let (owed, frames) = connection.owed;
        if last.is_none() && every.is_none_or(|n| frames < n) {
            return None;
        }
        connection.owed = (0.0, 0.0);
        Some(What::Owed(owed, frames, last))
    }

    /// Data that is to be answered arrives.
    fn answer(&mut self, frame: Frame, done: &mut Vec<Done>) {
        let What::Owed(bytes, frames, last) = frame.what else {
            return;
        };
        let every = self.packets.packets_per_answer;
        let answers = every.map_or(1.0, |n| (frames / n).ceil());
        self.set_out(Frame {
            wire_bytes: answers * self.packets.answer_bytes,
            what: What::Answer(bytes, frames),
            ..frame
        });
        if let Some(tag) = last {
            self.busy -= 1;
            done.push(Done {
                tag,
                seconds: self.now,
                bottleneck: None,
            });
        }
    }

    #[inline]
    fn pass(&mut self, mut frame: Frame, at: u32, server: u32, latency: f64) {
        let bucket = self.rules.burst_bytes;
        let leaves = self.servers[server as usize].passes(self.now, frame.wire_bytes, bucket);
        let next = at + 1;
        if self.hops[next as usize].0 == END {
            // Frames of a connection arrive in the order in which they pass here: those that nothing waits for need no event.
            match frame.what {
                What::Data(bytes, last) => match self.collect(frame.connection, bytes, last) {
                    Some(what) => frame.what = what,
                    None => return,
                },
                What::Datagram(..) => return,
                _ => {}
            }
        }
        self.add(server, leaves + latency, frame, next);
    }
}

impl Transport for Queued<'_> {
    const NAMES_BOTTLENECKS: bool = false;

    fn now(&self) -> f64 {
        self.now
    }

    fn is_busy(&self) -> bool {
        self.busy > 0
    }

    fn latency(
        &mut self,
        from: NodeId,
        to: NodeId,
        _bytes: f64,
        _tag: u32,
    ) -> Result<f64, ModelError> {
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
