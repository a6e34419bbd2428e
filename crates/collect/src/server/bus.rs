//! A connection to a message bus on which agents publish their reports.

use super::packets::refuse;
use super::{BUS, Server};
use crate::bus::{self, Consumer, Message, Op, Shard, Talk, Url, found};
use crate::bytes::unused;
use crate::datagram;
use crate::gather::Channel;
use crate::lines;
use crate::store::Store;
use crate::tls::Trust;
use rustix::event::epoll::{self, EventData, EventFlags};
use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

/// A collector's parameters of a message bus.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The server.
    pub url: Url,
    /// Trusted certificates, if the server uses TLS.
    pub trust: Option<Trust>,
    /// Name of the cluster.
    pub cluster: String,
    /// The share of the cluster's blocks that this collector gathers.
    pub shard: Shard,
    /// The JetStream stream that stores reports; without one, reports are lost while the collector is down.
    pub stream: Option<String>,
    /// Subject on which other tools publish Influx lines.
    pub lines: Option<String>,
    /// Retention in seconds of a stream that the collector creates; `None`: unlimited.
    pub keep_seconds: Option<u64>,
}

/// The note in a store that contains the last stored sequence of every stream and subject.
const PLACES: &str = "jetstream";
/// Subscription of answers to requests; a subject's subscription is its index.
const ANSWERS: u64 = 1 << 32;
const LINES: u64 = ANSWERS + 1;
/// Maximum number of bytes read before other work of the collector.
const AT_ONCE: usize = 8 << 20;
/// Silence after which the collector sends a ping, and after which it reconnects.
const ASK_NS: u64 = 5_000_000_000;
const GIVE_UP_NS: u64 = 20_000_000_000;
/// Pause between attempts to connect.
const PAUSE_NS: u64 = 1_000_000_000;

/// See the module.
pub struct Bus {
    setup: Setup,
    addresses: Vec<SocketAddr>,
    attempt: usize,
    inbox: String,
    subjects: Vec<String>,
    /// Last received and last stored stream sequence of each subject.
    places: Vec<u64>,
    kept: Vec<u64>,
    line: Option<Line>,
    /// Whether the last failure was printed.
    said: bool,
    /// Earliest time of the next attempt.
    again_ns: u64,
}

/// A connection.
struct Line {
    talk: Talk,
    open: bool,
    /// Whether the socket may hold unread bytes.
    more: bool,
    heard_ns: u64,
    /// Time of the last message from each subject's consumer.
    delivered_ns: Vec<u64>,
    /// Number of confirmed consumers.
    consumers: usize,
}

impl Bus {
    pub fn new(setup: Setup, store: Option<&Store>, has_token: bool) -> io::Result<Self> {
        let wrong = |text: String| io::Error::new(io::ErrorKind::InvalidInput, text);
        let host = &setup.url.address;
        let addresses: Vec<SocketAddr> = host
            .to_socket_addrs()
            .map_err(|e| io::Error::new(e.kind(), format!("{host}: {e}")))?
            .collect();
        if !has_token && addresses.iter().any(|a| !a.ip().is_loopback()) {
            return Err(wrong(format!(
                "reports through {host}, on which others can publish, need a token\n\
                 hint: --token FILE with at least 16 random bytes"
            )));
        }
        let subjects = setup.shard.subjects(&setup.cluster);
        let mut kept = vec![0; subjects.len()];
        match (store, &setup.stream) {
            (Some(store), Some(stream)) => {
                let text = store.note(PLACES)?.unwrap_or_default();
                let known: HashMap<&str, u64> = text.lines().filter_map(place).collect();
                for (kept, subject) in kept.iter_mut().zip(&subjects) {
                    let name = format!("{stream}:{subject}");
                    *kept = known.get(name.as_str()).copied().unwrap_or(0);
                }
            }
            (None, Some(_)) => {
                let text =
                    "--jetstream resumes after the last stored report: it needs --store FOLDER";
                return Err(wrong(text.to_owned()));
            }
            _ => {}
        }
        let mut nonce = [0; 8];
        rustix::rand::getrandom(&mut nonce, rustix::rand::GetRandomFlags::empty())?;
        Ok(Self {
            setup,
            addresses,
            attempt: 0,
            inbox: format!("_INBOX.hopbyte-collect.{:016x}", u64::from_le_bytes(nonce)),
            subjects,
            places: kept.clone(),
            kept,
            line: None,
            said: false,
            again_ns: 0,
        })
    }

    /// Whether to read again without waiting for an event.
    pub fn has_more(&self) -> bool {
        self.line.as_ref().is_some_and(|l| l.more)
    }

    /// Records the received stream sequences as stored.
    pub fn keep_places(&mut self, store: &Store) -> io::Result<()> {
        let Some(stream) = self
            .setup
            .stream
            .as_ref()
            .filter(|_| self.kept != self.places)
        else {
            return Ok(());
        };
        let all = self.subjects.iter().zip(&self.places);
        let lines: Vec<String> = all
            .map(|(subject, place)| format!("{stream}:{subject} {place}\n"))
            .collect();
        store.put_note(PLACES, &lines.concat())?;
        self.kept.clone_from(&self.places);
        Ok(())
    }

    /// Returns to the last stored sequences after a failed write; the messages are delivered again.
    pub fn rewind(&mut self) {
        self.places.clone_from(&self.kept);
        if self.setup.stream.is_some() {
            self.line = None;
        }
    }

    fn fill(&mut self, room: &mut [u8], now: u64) -> io::Result<bool> {
        let Some(line) = &mut self.line else {
            return Ok(false);
        };
        let news = line.talk.receive(room)?;
        if news {
            line.heard_ns = now;
        }
        Ok(news)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.line.as_mut().map_or(Ok(()), |line| line.talk.flush())
    }

    /// The server accepted the connection: subscribe to reports.
    fn opened(&mut self, now: u64) {
        let Some(line) = &mut self.line else { return };
        line.open = true;
        line.delivered_ns = vec![now; self.subjects.len()];
        if let Some(lines) = &self.setup.lines {
            bus::subscribe(lines, LINES, &mut line.talk.goes);
        }
        let Some(stream) = &self.setup.stream else {
            for (subject, id) in self.subjects.iter().zip(0..) {
                bus::subscribe(subject, id, &mut line.talk.goes);
            }
            return;
        };
        bus::subscribe(
            &format!("{}.answer.*", self.inbox),
            ANSWERS,
            &mut line.talk.goes,
        );
        for id in 0..self.subjects.len() as u64 {
            bus::subscribe(&format!("{}.{id}", self.inbox), id, &mut line.talk.goes);
        }
        let (subject, body) = bus::stream(stream, &self.setup.cluster, self.setup.keep_seconds);
        let reply = format!("{}.answer.stream", self.inbox);
        bus::publish(&subject, Some(&reply), body.as_bytes(), &mut line.talk.goes);
    }

    /// Handles a JetStream answer: first to the request for the stream, then to those for its consumers.
    /// Returns whether it was the last one.
    fn answered(&mut self, message: &Message<'_>) -> io::Result<bool> {
        let (Some(line), Some(stream)) = (&mut self.line, &self.setup.stream) else {
            return Ok(false);
        };
        if message.status == Some(503) {
            return Err(io::Error::other("this server has no JetStream"));
        }
        let of_stream = message.subject.ends_with(".stream");
        if let Err(refusal) = bus::acknowledgement(message.payload) {
            // The stream exists with other limits, set by its owner.
            let text = refusal.to_string();
            if !(of_stream && text.contains("already in use")) {
                return Err(io::Error::other(format!("stream {stream}: {text}")));
            }
        }
        if !of_stream {
            line.consumers += 1;
            return Ok(line.consumers == self.subjects.len());
        }
        let all = self.subjects.iter().zip(&self.places).zip(0..);
        for ((filter, place), id) in all {
            let wanted = Consumer {
                stream,
                filter,
                deliver: &format!("{}.{id}", self.inbox),
                from: place + 1,
            };
            let (subject, body) = bus::consumer(&wanted);
            let reply = format!("{}.answer.consumer", self.inbox);
            bus::publish(&subject, Some(&reply), body.as_bytes(), &mut line.talk.goes);
        }
        Ok(false)
    }
}

/// A line of the note: `STREAM:SUBJECT PLACE`.
fn place(line: &str) -> Option<(&str, u64)> {
    let (name, place) = line.split_once(' ')?;
    Some((name, place.parse().ok()?))
}

impl Server {
    /// Connects to the bus when the next attempt is due.
    pub(super) fn attend_bus(&mut self, now: u64) {
        let Some(bus) = &mut self.bus else { return };
        if bus.line.is_some() {
            if bus.has_more() && !self.gathering.is_full() {
                self.bus_news(now);
            }
            return;
        }
        // A clock that was set back must not extend the pause.
        if (1..=PAUSE_NS).contains(&bus.again_ns.saturating_sub(now)) {
            return;
        }
        bus.again_ns = now + PAUSE_NS;
        let address = bus.addresses[bus.attempt % bus.addresses.len().max(1)];
        bus.attempt += 1;
        let begun = crate::agent::connect(address).and_then(|stream| {
            let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
            epoll::add(&self.epoll, &stream, EventData::new_u64(BUS), flags)?;
            Talk::new(stream, &bus.setup.url, bus.setup.trust.as_ref())
        });
        match begun {
            Ok(talk) => {
                bus.line = Some(Line {
                    talk,
                    open: false,
                    more: false,
                    heard_ns: now,
                    delivered_ns: Vec::new(),
                    consumers: 0,
                });
            }
            Err(error) => self.bus_failed(&error),
        }
    }

    fn bus_failed(&mut self, error: &io::Error) {
        let Some(bus) = &mut self.bus else { return };
        bus.line = None;
        // Messages that were received and not stored are delivered again; sequence numbers remove duplicates.
        bus.places.clone_from(&bus.kept);
        if !std::mem::replace(&mut bus.said, true) {
            let text = format!("{:?}: {error}; trying again every second", bus.setup.url);
            self.note(text);
        }
    }

    /// Checks the server's liveness after a tick closed.
    pub(super) fn bus_tick(&mut self, now: u64) {
        let Some(bus) = &mut self.bus else { return };
        let has_stream = bus.setup.stream.is_some();
        let Some(line) = &mut bus.line else { return };
        let silent = now.abs_diff(line.heard_ns);
        // The server sends a heartbeat per consumer every five seconds.
        let heard = line.delivered_ns.iter().min().copied().unwrap_or(now);
        if silent > GIVE_UP_NS || (has_stream && now.abs_diff(heard) > GIVE_UP_NS) {
            let error = io::Error::new(io::ErrorKind::TimedOut, "no messages for 20 s");
            return self.bus_failed(&error);
        }
        if silent > ASK_NS && line.open && line.talk.goes.is_empty() {
            bus::ping(&mut line.talk.goes);
        }
        self.bus_news(now);
    }

    /// Handles received data.
    pub(super) fn bus_news(&mut self, now: u64) {
        let Some(mut bus) = self.bus.take() else {
            return;
        };
        let result = self.bus_read(&mut bus, now);
        self.bus = Some(bus);
        if let Err(error) = result {
            self.bus_failed(&error);
        }
    }

    fn bus_read(&mut self, bus: &mut Bus, now: u64) -> io::Result<()> {
        bus.flush()?;
        let mut taken = 0;
        loop {
            let full = taken > AT_ONCE || self.gathering.is_full();
            if let Some(line) = &mut bus.line {
                line.more = full;
            }
            if full || !bus.fill(&mut self.room, now)? {
                // Progress of a TLS handshake may allow pending writes.
                return bus.flush();
            }
            let line = bus.line.as_mut();
            let came = line.map(|l| std::mem::take(&mut l.talk.came));
            let came = came.unwrap_or_default();
            let mut rest = &came[..];
            while let Some((op, whole)) = bus::next(rest).map_err(found)? {
                rest = &rest[whole..];
                self.bus_said(bus, op, now)?;
            }
            let left = rest.len();
            taken += came.len() - left;
            if let Some(line) = &mut bus.line {
                line.talk.came = unused(came, left);
            }
            bus.flush()?;
        }
    }

    fn bus_said(&mut self, bus: &mut Bus, op: Op<'_>, now: u64) -> io::Result<()> {
        let Some(line) = &mut bus.line else {
            return Ok(());
        };
        match op {
            Op::Info(info) => line
                .talk
                .greet(info, &bus.setup.url, "hopbyte-collect")
                .map(drop),
            Op::Ping => {
                bus::pong(&mut line.talk.goes);
                Ok(())
            }
            Op::Pong if !line.open => {
                bus.opened(now);
                if bus.setup.stream.is_none() {
                    self.bus_ready(bus);
                }
                Ok(())
            }
            Op::Error(text) => Err(io::Error::other(format!("the server refused: {text}"))),
            Op::Message(message) if message.id == ANSWERS => {
                if bus.answered(&message)? {
                    self.bus_ready(bus);
                }
                Ok(())
            }
            Op::Message(message) if message.id == LINES => {
                let text = String::from_utf8_lossy(message.payload);
                self.take_lines(message.subject, lines::parse(&text), now);
                Ok(())
            }
            Op::Message(message) => {
                self.bus_report(bus, &message, now);
                Ok(())
            }
            Op::Pong | Op::Ok => Ok(()),
        }
    }

    fn bus_ready(&mut self, bus: &mut Bus) {
        bus.said = false;
        self.note(format!("{:?}: connected", bus.setup.url));
    }

    fn bus_report(&mut self, bus: &mut Bus, message: &Message<'_>, now: u64) {
        let Some(line) = &mut bus.line else { return };
        let subject = message.id as usize;
        if let Some(heard) = line.delivered_ns.get_mut(subject) {
            *heard = now;
        }
        if message.status.is_some() {
            return;
        }
        let channel = match bus.setup.stream {
            Some(_) => Channel::Log,
            None => Channel::Bus,
        };
        if let Err(refusal) = self.packet(message.payload, channel, now) {
            // A live agent answers the request with its hello.
            if let Ok((_, start, _)) = datagram::unwrap(message.payload, self.token.as_ref()) {
                let mut answer = Vec::new();
                refuse(&refusal, &mut answer);
                bus::publish(
                    &bus::inbox(start, "ask"),
                    None,
                    &answer,
                    &mut line.talk.goes,
                );
            }
            self.note(format!("{}: refused {refusal}", message.subject));
        }
        if let (Some(place), Some(last)) = (
            message.reply.and_then(bus::delivered),
            bus.places.get_mut(subject),
        ) {
            *last = place.max(*last);
        }
    }
}
