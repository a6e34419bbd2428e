//! The agent's connection to its collector: TCP with reconnection, single packets, or a message bus.

use super::bus::{Line, Subject};
use super::ring::Ring;
use super::sending::{connect, pause};
use super::session::Session;
use super::udp::Packets;
use crate::timespec;
use crate::tls::{self, Trust, Wire};
use crate::wire::{Hello, Token};
use hopbyte_fabric::InputError;
use hopbyte_observe::address::check_address;
use hopbyte_observe::resolve::Lookup;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::AsFd;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Destination of reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Target {
    /// A collector's `HOST:PORT`.
    Tcp(String),
    /// A collector's `HOST:PORT` for packets, without acknowledgements.
    Udp(String),
    /// A subject of a message bus.
    Bus(Subject),
}

impl Target {
    /// `HOST:PORT`, `tcp://HOST:PORT` or `udp://HOST:PORT`.
    ///
    /// # Errors
    /// Another form.
    pub fn parse(text: &str) -> Result<Self, InputError> {
        let (target, address) = match text.strip_prefix("udp://") {
            Some(address) => (Self::Udp(address.to_owned()), address),
            None => {
                let address = text.strip_prefix("tcp://").unwrap_or(text);
                (Self::Tcp(address.to_owned()), address)
            }
        };
        check_address("--to", address).map_err(|e| {
            e.hint("the address of `hopbyte collect`; udp:// before it for single packets")
        })?;
        Ok(target)
    }

    fn address(&self) -> &str {
        match self {
            Self::Tcp(a) | Self::Udp(a) => a,
            Self::Bus(subject) => &subject.url.address,
        }
    }
}

/// Maximum number of reports sent in one call, so that a backlog does not flood the collector.
const MOST_AT_ONCE: usize = 32;

enum State {
    /// Waiting until this moment to reconnect.
    Pausing(Instant),
    /// Waiting for the address of the collector's name.
    Resolving(Lookup),
    /// Waiting for the connection, the challenge or the welcome.
    Greeting(Wire),
    /// The collector accepted the agent.
    Open(Wire),
    /// Single packets.
    Packets(Packets),
    /// A message bus.
    Bus(Box<Line>),
}

/// See the module.
pub struct Link {
    target: Target,
    session: Session,
    trust: Option<Trust>,
    state: State,
    failures: u32,
    /// Whether the TCP connection is established.
    reached: bool,
    /// Whether a report was sent to a collector that accepted this agent.
    delivered: bool,
}

impl Link {
    pub fn new(target: Target, hello: Hello, token: Option<Token>, trust: Option<Trust>) -> Self {
        Self {
            target,
            session: Session::new(hello, token),
            trust,
            state: State::Pausing(Instant::now()),
            failures: 0,
            reached: false,
            delivered: false,
        }
    }

    /// Whether a report was sent to a collector that accepted this agent.
    pub fn has_delivered(&self) -> bool {
        self.delivered
    }

    /// Whether a collector took the connection, which is not TLS, and has said nothing yet.
    pub fn is_unanswered(&self) -> bool {
        let is_plain = matches!(&self.state, State::Greeting(wire) if wire.is_plain());
        is_plain && self.reached && !self.session.is_greeted()
    }

    /// Destination, for messages.
    pub fn address(&self) -> &str {
        self.target.address()
    }

    /// Start of the agent.
    pub fn start(&self) -> u64 {
        self.session.hello.start
    }

    /// Whether the connection has work before the next tick.
    pub fn is_busy(&self) -> bool {
        match &self.state {
            State::Greeting(_) | State::Resolving(_) => true,
            State::Pausing(until) => *until <= Instant::now(),
            State::Open(_) => !self.session.goes.is_empty(),
            State::Packets(packets) => packets.is_busy(),
            State::Bus(line) => line.is_busy(),
        }
    }

    /// Waits for events of the connection for at most `left_ns` and handles them; `true` on timeout.
    pub fn attend(
        &mut self,
        left_ns: u64,
        ring: &mut Ring,
        say: &mut impl FnMut(&str),
    ) -> io::Result<bool> {
        let (stream, writes) = match &self.state {
            State::Pausing(_) => {
                self.begin(ring, say);
                return Ok(false);
            }
            State::Resolving(lookup) => {
                let found = lookup.wait(Duration::from_nanos(left_ns));
                let timed_out = found.is_none();
                if let Some(found) = found {
                    self.resolved(found, say);
                }
                return Ok(timed_out);
            }
            State::Packets(packets) => (packets.socket(), false),
            State::Bus(line) => (line.talk.socket().as_fd(), line.talk.writes()),
            State::Greeting(s) | State::Open(s) => {
                let has_more = !self.session.goes.is_empty();
                let writes = !self.reached || s.waits_for_room(has_more);
                (s.socket().as_fd(), writes)
            }
        };
        // Poll for write space only if bytes are pending.
        let mut flags = PollFlags::IN;
        flags.set(PollFlags::OUT, writes);
        let wait = timespec(left_ns);
        match poll(&mut [PollFd::from_borrowed_fd(stream, flags)], Some(&wait)) {
            Ok(0) => return Ok(true),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if let State::Greeting(wire) = &self.state {
            self.reached = wire.socket().peer_addr().is_ok();
        }
        self.push(ring, say);
        Ok(false)
    }

    /// Handles the collector's answers and sends unsent reports.
    pub fn push(&mut self, ring: &mut Ring, say: &mut impl FnMut(&str)) {
        let result = match &self.state {
            State::Pausing(_) | State::Resolving(_) => Ok(()),
            State::Packets(_) => self.packets(ring),
            State::Greeting(_) | State::Open(_) => self.converse(ring, say),
            State::Bus(_) => self.on_bus(ring, say),
        };
        if let Err(error) = result {
            self.fail(&error, say);
        }
        if let Some(cut) = ring.first_cut() {
            say(&format!(
                "{cut} sources do not fit into a report and are sent as unread"
            ));
        }
    }

    fn fail(&mut self, error: &io::Error, say: &mut impl FnMut(&str)) {
        self.tell(say);
        // Printed at the first failure only.
        if self.failures == 0 {
            let question = match self.session.is_answered() {
                true => "",
                false => ": does a collector run at this address?",
            };
            say(&format!(
                "{}: {error}; readings are buffered, and the connection is tried again{question}",
                self.target.address()
            ));
        }
        self.state = State::Pausing(Instant::now() + pause(self.failures));
        self.failures += 1;
    }

    /// Says that secret or certificates were replaced.
    fn tell(&self, say: &mut impl FnMut(&str)) {
        let token = self.session.token.as_ref().and_then(Token::news);
        let trust = self.trust.as_ref().and_then(Trust::news);
        token.into_iter().chain(trust).for_each(|text| say(&text));
    }

    fn begin(&mut self, ring: &mut Ring, say: &mut impl FnMut(&str)) {
        self.reached = false;
        self.session.anew(ring);
        match Lookup::start(self.target.address()) {
            Ok(lookup) => self.state = State::Resolving(lookup),
            Err(error) => self.fail(&error, say),
        }
    }

    /// Connects to one of the addresses of the collector's name, to another one after a failure.
    fn resolved(&mut self, found: io::Result<Vec<SocketAddr>>, say: &mut impl FnMut(&str)) {
        let address = found.map(|all| all[self.failures as usize % all.len()]);
        let state = address.and_then(|address| match self.target {
            Target::Tcp(_) => connect(address).and_then(|socket| {
                let wire = match &self.trust {
                    Some(trust) => trust.connect(self.target.address(), socket)?,
                    None => Wire::Plain(socket),
                };
                Ok(State::Greeting(wire))
            }),
            Target::Udp(_) => Packets::new(address).map(State::Packets),
            Target::Bus(ref to) => Line::begin(address, &to.url, self.trust.as_ref())
                .map(|line| State::Bus(Box::new(line))),
        });
        match state {
            Ok(state) => self.state = state,
            Err(error) => self.fail(&error, say),
        }
    }

    fn on_bus(&mut self, ring: &mut Ring, say: &mut impl FnMut(&str)) -> io::Result<()> {
        if let (State::Bus(line), Target::Bus(to)) = (&mut self.state, &self.target) {
            let is_new = line.converse(
                to,
                &self.session.hello,
                self.session.token.as_ref(),
                ring,
                say,
            )?;
            if is_new {
                say(&format!("{}: connected", to.url.address));
                self.failures = 0;
            }
            self.delivered |= line.has_published();
        }
        Ok(())
    }

    fn converse(&mut self, ring: &mut Ring, say: &mut impl FnMut(&str)) -> io::Result<()> {
        self.receive(ring, say)?;
        self.session.open();
        self.flush()?;
        let mut room = MOST_AT_ONCE;
        while room > 0 && self.session.offer(ring) {
            room -= 1;
            self.flush()?;
            self.delivered = true;
        }
        Ok(())
    }

    fn receive(&mut self, ring: &mut Ring, say: &mut impl FnMut(&str)) -> io::Result<()> {
        let mut room = [0; 512];
        loop {
            let (State::Greeting(stream) | State::Open(stream)) = &mut self.state else {
                return Ok(());
            };
            let got = match tls::receive(stream, &mut room, &mut self.session.came)? {
                None => return Ok(()),
                Some(0) if self.session.is_greeted() => {
                    return Err(io::Error::other("the collector closed the connection"));
                }
                Some(0) => return Err(io::Error::other(tls::UNANSWERED)),
                Some(n) => n,
            };
            self.session.received(ring)?;
            if self.session.is_open() {
                self.opened(say);
            }
            // The socket is drained: another read would return no bytes.
            if got < room.len() {
                return Ok(());
            }
        }
    }

    /// Notes that the collector accepted the agent.
    fn opened(&mut self, say: &mut impl FnMut(&str)) {
        self.tell(say);
        let state = std::mem::replace(&mut self.state, State::Pausing(Instant::now()));
        self.state = match state {
            State::Greeting(stream) => {
                say(&format!("{}: connected", self.target.address()));
                self.failures = 0;
                State::Open(stream)
            }
            other => other,
        };
    }

    fn flush(&mut self) -> io::Result<()> {
        let (State::Greeting(stream) | State::Open(stream)) = &mut self.state else {
            return Ok(());
        };
        tls::send(stream, &mut self.session.goes)
    }

    fn packets(&mut self, ring: &mut Ring) -> io::Result<()> {
        let State::Packets(packets) = &mut self.state else {
            return Ok(());
        };
        packets.push(&self.session.hello, self.session.token.as_ref(), ring)?;
        if packets.is_open() {
            self.failures = 0;
            self.delivered = true;
        }
        Ok(())
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link")
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}
