//! Readings from other tools' collectors, as lines.

use super::health::Health;
use super::{INLET, Server};
use crate::Refusal;
use crate::gather::{Channel, Gathering};
use crate::lines::{Parsed, Point, TOTALS, Verdict};
use crate::shape::{MOST_COUNTERS, MOST_PORTS};
use crate::wire::{Header, Hello, Sampled, put_report, put_source};
use hopbyte_observe::counters::reading::{Layout, Port};
use hopbyte_observe::counters::values::Values;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Capacity of the queue to the collector, in posts.
const MOST_POSTS: usize = 8;
/// Time that a post waits for the collector.
const PATIENCE: Duration = Duration::from_secs(5);
/// Ticks of silence after which the lines of one moment are considered complete.
const COMPLETE_TICKS: u64 = 2;
/// Moments without a value after which a counter is dropped.
const STALE_MOMENTS: u64 = 10;
/// Bytes of a node and of each of its counters here, for the bound on memory: measured, with the collections' spare room.
const NODE_BYTES: usize = 1500;
const COUNTER_BYTES: usize = 400;

/// A post with the way back of its outcome.
type Post = (Parsed, SyncSender<Verdict>);

/// The sending end of the queue, for other threads.
#[derive(Clone, Debug)]
pub struct Inlet {
    send: SyncSender<Post>,
    wake: Arc<OwnedFd>,
}

impl Inlet {
    /// Hands parsed lines to the collector and waits for their outcome; `None` if it takes none at the moment.
    pub fn give(&self, post: Parsed) -> Option<Verdict> {
        let (reply, outcome) = sync_channel(1);
        self.send.try_send((post, reply)).ok()?;
        // The eventfd counter cannot overflow: every wake-up reads it.
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
        outcome.recv_timeout(PATIENCE).ok()
    }
}

/// The receiving end of the queue, and the nodes named in lines.
pub struct Fed {
    receive: Receiver<Post>,
    wake: Arc<OwnedFd>,
    inlet: Inlet,
    feed: Feed,
}

/// The nodes named in lines, without the queue.
#[derive(Default)]
pub struct Feed {
    nodes: HashMap<Box<str>, Node>,
    /// Sum of [`Node::bytes`].
    bytes: usize,
    lost: Lost,
}

/// Lines that were accepted, and whose report was refused later.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Their number.
    pub lines: usize,
    /// The first refusal.
    pub first: Option<String>,
}

impl Lost {
    fn add(&mut self, lines: usize, why: impl FnOnce() -> String) {
        self.lines += lines;
        if lines > 0 && self.first.is_none() {
            self.first = Some(why());
        }
    }
}

/// State of a node from its lines.
struct Node {
    id: u32,
    layout: Layout,
    at: HashMap<(Box<str>, u8), usize>,
    values: Vec<Option<u64>>,
    /// Sequence number of the report with each counter's last value.
    last: Vec<u64>,
    /// Moment of the values, and arrival time of the last one.
    time_ns: u64,
    heard_ns: u64,
    declared: bool,
    sequence: u64,
    /// Lines since the last report.
    pending: usize,
}

impl Fed {
    pub fn new(epoll: &OwnedFd) -> io::Result<Self> {
        let (send, receive) = sync_channel(MOST_POSTS);
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        epoll::add(epoll, &*wake, EventData::new_u64(INLET), EventFlags::IN)?;
        let inlet = Inlet {
            send,
            wake: wake.clone(),
        };
        Ok(Self {
            receive,
            wake,
            inlet,
            feed: Feed::default(),
        })
    }
}

impl Feed {
    /// Handles the points of a post; those of one node and moment form one report. A refused point does not affect
    /// those of other nodes. Returns the outcome of all lines of the post.
    pub fn take(&mut self, post: Parsed, gathering: &mut Gathering, now: u64) -> Verdict {
        let (mut points, mut verdict) = post;
        // Lines may be sorted by metric: the times of a node follow each other, or its reports would have gaps.
        points.sort_by_key(|point| point.time_ns.unwrap_or(now));
        for point in points {
            let line = point.line;
            match self.take_one(point, gathering, now) {
                Ok(()) => verdict.kept += 1,
                Err(refusal) => verdict.refuse(line, &refusal),
            }
        }
        verdict
    }

    fn take_one(
        &mut self,
        point: Point,
        gathering: &mut Gathering,
        now: u64,
    ) -> Result<(), Refusal> {
        let time_ns = point.time_ns.unwrap_or(now);
        // The collector may have dropped the name, or an agent may have taken it over and left.
        let known = self.nodes.get(&point.node).filter(|n| {
            gathering.members().find(&point.node) == Some(n.id)
                && gathering.channel(n.id) == Channel::Lines
        });
        if known.is_none() {
            let before = self.nodes.remove(&point.node);
            self.bytes -= before.as_ref().map_or(0, Node::bytes);
            let before = before.map_or(0, |n| n.pending);
            self.lost.add(before, || {
                format!("lines of {}, whose name was dropped or taken", point.node)
            });
            gathering.hold_lines(self.bytes);
            let node = Node::new(&point.node, gathering, now)?;
            self.bytes += node.bytes();
            self.nodes.insert(point.node.clone(), node);
        }
        let Some(node) = self.nodes.get_mut(&point.node) else {
            return Ok(());
        };
        let before = node.bytes();
        if node.time_ns != time_ns {
            node.report(gathering, now, &mut self.lost);
            node.time_ns = time_ns;
        }
        node.heard_ns = now;
        let done = node.set(point, gathering);
        // Its report may have dropped counters.
        self.bytes = self.bytes - before + node.bytes();
        gathering.hold_lines(self.bytes);
        done
    }

    /// Reports nodes whose lines are considered complete, and drops silent ones. Returns the accepted lines that were
    /// lost since the last call.
    pub fn tick(&mut self, gathering: &mut Gathering, now: u64) -> Lost {
        let wait_ns = COMPLETE_TICKS * gathering.period_ns();
        for node in self.nodes.values_mut() {
            // The clock may have been set back.
            node.heard_ns = node.heard_ns.min(now);
            if now > node.heard_ns + wait_ns {
                node.report(gathering, now, &mut self.lost);
            }
        }
        let forget_ns = gathering.forget_ns();
        self.nodes.retain(|_, n| now <= n.heard_ns + forget_ns);
        self.bytes = self.nodes.values().map(Node::bytes).sum();
        gathering.hold_lines(self.bytes);
        std::mem::take(&mut self.lost)
    }
}

impl Node {
    fn new(name: &str, gathering: &mut Gathering, now: u64) -> Result<Self, Refusal> {
        let hello = Hello {
            node: name.to_owned(),
            boot: 0,
            start: now,
            period_ns: gathering.period_ns(),
        };
        if let Some(id) = gathering.members().find(name)
            && !matches!(gathering.channel(id), Channel::None | Channel::Lines)
        {
            return Err(Refusal::new(format!(
                "lines of {name}, which an agent reports"
            )));
        }
        let (id, _) = gathering.hello(&hello, Channel::Lines, now)?;
        Ok(Self {
            id,
            layout: Layout::new("", "lines"),
            at: HashMap::new(),
            values: Vec::new(),
            last: Vec::new(),
            time_ns: 0,
            heard_ns: now,
            declared: false,
            sequence: 0,
            pending: 0,
        })
    }

    /// Bytes for the bound on memory.
    fn bytes(&self) -> usize {
        NODE_BYTES + COUNTER_BYTES * self.values.len()
    }

    fn set(&mut self, point: Point, gathering: &Gathering) -> Result<(), Refusal> {
        let (name, quantity) = TOTALS[usize::from(point.metric)];
        let key = (point.port, point.metric);
        let at = match self.at.get(&key) {
            Some(&at) => at,
            None => {
                let (counters, ports) = (self.values.len(), self.layout.ports.len());
                if counters >= MOST_COUNTERS || ports >= MOST_PORTS {
                    return Err(Refusal::new(format!(
                        "one more port than {ports} with {counters} counters, the maximum of a node"
                    )));
                }
                if !gathering.has_room(Channel::Lines) {
                    return Err(Refusal::new(format!(
                        "one more counter of {}, for which no --memory is left",
                        gathering.name(self.id)
                    )));
                }
                self.layout
                    .counter(&Port::parse(&key.0), name, quantity, 1.0);
                self.values.push(None);
                self.last.push(self.sequence);
                self.declared = false;
                self.at.insert(key, counters);
                counters
            }
        };
        self.values[at] = Some(point.value);
        self.last[at] = self.sequence;
        self.pending += 1;
        Ok(())
    }

    /// Drops counters of ports that are gone, when they are a quarter of all.
    fn shed(&mut self) {
        let is_stale = |&&last: &&u64| last + STALE_MOMENTS < self.sequence;
        let stale = self.last.iter().filter(is_stale).count();
        if stale == 0 || 4 * stale < self.last.len() {
            return;
        }
        let mut kept: Vec<_> = self.at.drain().collect();
        kept.retain(|(_, at)| self.last[*at] + STALE_MOMENTS >= self.sequence);
        kept.sort_by_key(|(_, at)| *at);
        self.layout = Layout::new("", "lines");
        let (values, last) = (
            std::mem::take(&mut self.values),
            std::mem::take(&mut self.last),
        );
        for ((port, metric), at) in kept {
            let (name, quantity) = TOTALS[usize::from(metric)];
            self.layout
                .counter(&Port::parse(&port), name, quantity, 1.0);
            self.at.insert((port, metric), self.values.len());
            self.values.push(values[at]);
            self.last.push(last[at]);
        }
        self.declared = false;
    }

    /// Reports the values, if there are any. Lines whose report is refused are lost.
    fn report(&mut self, gathering: &mut Gathering, now: u64, lost: &mut Lost) {
        if let Err(refusal) = self.try_report(gathering, now) {
            lost.add(self.pending, || refusal.to_string());
        }
        self.values.fill(None);
        self.pending = 0;
    }

    fn try_report(&mut self, gathering: &mut Gathering, now: u64) -> Result<(), Refusal> {
        if self.pending == 0 {
            return Ok(());
        }
        if gathering.channel(self.id) != Channel::Lines {
            let name = gathering.name(self.id);
            return Err(Refusal::new(format!(
                "lines of {name}, which an agent reports"
            )));
        }
        self.shed();
        if !self.declared {
            let mut body = Vec::new();
            put_source(0, None, &self.layout, &mut body)?;
            gathering.source(self.id, &body)?;
            self.declared = true;
        }
        self.sequence += 1;
        let header = Header {
            sequence: self.sequence,
            tick: self.time_ns / gathering.period_ns(),
            time_ns: self.time_ns,
            steady_ns: self.time_ns,
            ..Header::default()
        };
        let mut values = Values::new(self.values.len());
        let rows = self.values.iter().enumerate();
        rows.for_each(|(i, value)| values.set(i, *value));
        let mut body = Vec::new();
        put_report(&header, [Sampled::new(&values, None)], &mut body);
        // After a long silence the node's sources were dropped: declare them again.
        gathering
            .report(self.id, &body, now)
            .inspect_err(|_| self.declared = false)
    }
}

impl Server {
    /// The queue's sending end.
    pub fn inlet(&self) -> Inlet {
        self.fed.inlet.clone()
    }

    /// Handles queued lines.
    pub(super) fn inlet_news(&mut self, now: u64) {
        let _ = rustix::io::read(&*self.fed.wake, &mut [0; 8]);
        for _ in 0..MOST_POSTS {
            let Ok((post, reply)) = self.fed.receive.try_recv() else {
                return;
            };
            // The post may have timed out; its lines are kept.
            let _ = reply.try_send(self.take_lines("lines", post, now));
        }
    }

    /// Handles a post, counts its lines, and notes the first refusal.
    pub(super) fn take_lines(&mut self, from: &str, post: Parsed, now: u64) -> Verdict {
        let verdict = self.fed.feed.take(post, &mut self.gathering, now);
        Health::add(&self.health.lines_kept, verdict.kept);
        Health::add(&self.health.lines_refused, verdict.refused);
        if verdict.refused > 0 {
            let (n, first) = (verdict.refused, verdict.first());
            self.note(format!("{from}: refused {n}: {first}"));
        }
        verdict
    }

    pub(super) fn inlet_tick(&mut self, now: u64) {
        let lost = self.fed.feed.tick(&mut self.gathering, now);
        Health::add(&self.health.lines_refused, lost.lines);
        if let Some(first) = lost.first {
            let n = lost.lines;
            self.note(format!("lines: refused {n} that were accepted: {first}"));
        }
    }
}
