//! Readings from other tools' collectors, as lines.

use super::{INLET, Server};
use crate::Refusal;
use crate::gather::{Channel, Gathering};
use crate::lines::{Point, TOTALS};
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

/// Capacity of the queue to the collector, in batches.
const MOST_BATCHES: usize = 64;
/// Ticks of silence after which the lines of one moment are considered complete.
const COMPLETE_TICKS: u64 = 2;

/// The sending end of the queue, for other threads.
#[derive(Clone, Debug)]
pub struct Inlet {
    send: SyncSender<Vec<Point>>,
    wake: Arc<OwnedFd>,
}

impl Inlet {
    /// Queues lines for the collector; `false` if the queue is full.
    pub fn give(&self, points: Vec<Point>) -> bool {
        let given = self.send.try_send(points).is_ok();
        // The eventfd counter cannot overflow: every wake-up reads it.
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
        given
    }
}

/// The receiving end of the queue, and the nodes named in lines.
pub struct Fed {
    receive: Receiver<Vec<Point>>,
    wake: Arc<OwnedFd>,
    inlet: Inlet,
    feed: Feed,
}

/// The nodes named in lines, without the queue.
#[derive(Default)]
pub struct Feed {
    nodes: HashMap<Box<str>, Node>,
}

/// State of a node from its lines.
struct Node {
    id: u32,
    layout: Layout,
    at: HashMap<(Box<str>, u8), usize>,
    values: Vec<Option<u64>>,
    /// Moment of the values, and arrival time of the last one.
    time_ns: u64,
    heard_ns: u64,
    declared: bool,
    sequence: u64,
}

impl Fed {
    pub fn new(epoll: &OwnedFd) -> io::Result<Self> {
        let (send, receive) = sync_channel(MOST_BATCHES);
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
    /// Handles points; the points of one node and moment form one report.
    pub fn take(
        &mut self,
        points: Vec<Point>,
        gathering: &mut Gathering,
        now: u64,
    ) -> Result<(), Refusal> {
        for point in points {
            let time_ns = point.time_ns.unwrap_or(now);
            if !self.nodes.contains_key(&point.node) {
                let node = Node::new(&point.node, gathering, now)?;
                self.nodes.insert(point.node.clone(), node);
            }
            let Some(node) = self.nodes.get_mut(&point.node) else {
                continue;
            };
            if node.time_ns != time_ns {
                node.report(gathering, now)?;
                node.time_ns = time_ns;
            }
            node.heard_ns = now;
            node.set(point);
        }
        Ok(())
    }

    /// Reports nodes whose lines are considered complete.
    pub fn tick(&mut self, gathering: &mut Gathering, now: u64) -> Result<(), Refusal> {
        let wait_ns = COMPLETE_TICKS * gathering.period_ns();
        let due = |n: &&mut Node| now > n.heard_ns + wait_ns;
        let mut due = self.nodes.values_mut().filter(due);
        due.try_for_each(|node| node.report(gathering, now))
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
        let (id, _) = gathering.hello(&hello, Channel::Lines, now)?;
        Ok(Self {
            id,
            layout: Layout::new("", "lines"),
            at: HashMap::new(),
            values: Vec::new(),
            time_ns: 0,
            heard_ns: now,
            declared: false,
            sequence: 0,
        })
    }

    fn set(&mut self, point: Point) {
        let (name, quantity) = TOTALS[usize::from(point.metric)];
        let layout = &mut self.layout;
        let (values, declared) = (&mut self.values, &mut self.declared);
        let at = *self
            .at
            .entry((point.port, point.metric))
            .or_insert_with_key(|(port, _)| {
                layout.counter(&Port::parse(port), name, quantity, 1.0);
                values.push(None);
                *declared = false;
                values.len() - 1
            });
        self.values[at] = Some(point.value);
    }

    fn report(&mut self, gathering: &mut Gathering, now: u64) -> Result<(), Refusal> {
        if self.values.iter().all(Option::is_none) {
            return Ok(());
        }
        if gathering.channel(self.id) != Channel::Lines {
            self.values.fill(None);
            let name = gathering.name(self.id);
            return Err(Refusal::new(format!(
                "lines of {name}, which an agent reports"
            )));
        }
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
        let rows = self.values.iter_mut().enumerate();
        rows.for_each(|(i, value)| values.set(i, value.take()));
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
        for _ in 0..MOST_BATCHES {
            let Ok(points) = self.fed.receive.try_recv() else {
                return;
            };
            self.take_points(points, now);
        }
    }

    pub(super) fn take_points(&mut self, points: Vec<Point>, now: u64) {
        let taken = self.fed.feed.take(points, &mut self.gathering, now);
        if let Err(refusal) = taken {
            self.note(format!("lines: refused {refusal}"));
        }
    }

    pub(super) fn inlet_tick(&mut self, now: u64) {
        if let Err(refusal) = self.fed.feed.tick(&mut self.gathering, now) {
            self.note(format!("lines: refused {refusal}"));
        }
    }
}
