//! The agent's connection to its collector: TCP with reconnection, single packets, or a message bus.

use super::bus::{Line, Subject};
use super::ring::Ring;
use super::sending::{connect, packet, pause};
use crate::timespec;
use crate::tls::{self, TLS_ALERT, Trust, Wire};
use crate::wire::{Hello, Kind, PREAMBLE, Token, frame, next_frame};
use rustix::event::{PollFd, PollFlags, poll};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::Instant;

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
    pub fn parse(text: &str) -> Self {
        match text.strip_prefix("udp://") {
            Some(address) => Self::Udp(address.to_owned()),
            None => Self::Tcp(text.trim_start_matches("tcp://").to_owned()),
        }
    }

    fn address(&self) -> &str {
        match self {
            Self::Tcp(a) | Self::Udp(a) => a,
            Self::Bus(subject) => &subject.url.address,
        }
    }

    fn resolve(&self) -> io::Result<SocketAddr> {
        let text = self.address();
        let no = || io::Error::new(io::ErrorKind::NotFound, format!("{text} has no address"));
        text.to_socket_addrs()?.next().ok_or_else(no)
    }
}

/// Maximum number of reports sent in one call, so that a backlog does not flood the collector.
const MOST_AT_ONCE: usize = 32;
/// Maximum length of a collector's answer.
const LONGEST_ANSWER: usize = 4096;

enum State {
    /// Waiting until this moment to reconnect.
    Pausing(Instant),
    /// Waiting for the connection, the challenge or the welcome.
    Greeting(Wire),
    /// The collector accepted the agent.
    Open(Wire),
    /// Single packets.
    Packets(UdpSocket, bool),
    /// A message bus.
    Bus(Box<Line>),
}

/// See the module.
pub struct Link {
    target: Target,
    hello: Hello,
    token: Option<Token>,
    trust: Option<Trust>,
    state: State,
    failures: u32,
    /// Received bytes of an incomplete frame.
    came: Vec<u8>,
    /// Bytes that the socket has not accepted yet.
    goes: Vec<u8>,
    greeted: bool,
    /// Whether the TCP connection is established.
    reached: bool,
}

impl Link {
    pub fn new(target: Target, hello: Hello, token: Option<Token>, trust: Option<Trust>) -> Self {
        Self {
            target,
            hello,
            token,
            trust,
            state: State::Pausing(Instant::now()),
            failures: 0,
            came: Vec::new(),
            goes: Vec::new(),
            greeted: false,
            reached: false,
        }
    }

    /// Start of the agent.
    pub fn start(&self) -> u64 {
        self.hello.start
    }

    /// Whether the connection has work before the next tick.
    pub fn is_busy(&self) -> bool {
        match &self.state {
            State::Greeting(_) => true,
            State::Pausing(until) => *until <= Instant::now(),
            State::Open(_) => !self.goes.is_empty(),
            State::Packets(..) => false,
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
            State::Packets(..) => return Ok(false),
            State::Bus(line) => (line.talk.socket(), line.talk.writes()),
            State::Greeting(s) | State::Open(s) => {
                let has_more = !self.goes.is_empty();
                (s.socket(), !self.reached || s.waits_for_room(has_more))
            }
        };
        // Poll for write space only if bytes are pending.
        let mut flags = PollFlags::IN;
        flags.set(PollFlags::OUT, writes);
        let wait = timespec(left_ns);
        match poll(&mut [PollFd::new(stream, flags)], Some(&wait)) {
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
            State::Pausing(_) => Ok(()),
            State::Packets(..) => self.packets(ring),
            State::Greeting(_) | State::Open(_) => self.converse(ring, say),
            State::Bus(_) => self.on_bus(ring, say),
        };
        if let Err(error) = result {
            self.fail(&error, say);
        }
    }

    fn fail(&mut self, error: &io::Error, say: &mut impl FnMut(&str)) {
        // Printed at the first failure only.
        if self.failures == 0 {
            say(&format!(
                "{}: {error}; readings are buffered",
                self.target.address()
            ));
        }
        self.state = State::Pausing(Instant::now() + pause(self.failures));
        self.failures += 1;
    }

    fn begin(&mut self, ring: &mut Ring, say: &mut impl FnMut(&str)) {
        self.came.clear();
        self.goes.clear();
        self.greeted = false;
        self.reached = false;
        ring.anew();
        let state = self.target.resolve().and_then(|address| match self.target {
            Target::Tcp(_) => connect(address).and_then(|socket| {
                let wire = match &self.trust {
                    Some(trust) => trust.connect(self.target.address(), socket)?,
                    None => Wire::Plain(socket),
                };
                Ok(State::Greeting(wire))
            }),
            Target::Udp(_) => {
                let any = if address.is_ipv4() {
                    "0.0.0.0:0"
                } else {
                    "[::]:0"
                };
                let socket = UdpSocket::bind(any)?;
                socket.connect(address)?;
                socket.set_nonblocking(true)?;
                Ok(State::Packets(socket, false))
            }
            Target::Bus(ref to) => Line::begin(address, &to.url, self.trust.as_ref())
                .map(|line| State::Bus(Box::new(line))),
        });
        match state {
            Ok(state) => self.state = state,
            Err(error) => self.fail(&error, say),
        }
    }

    fn on_bus(&mut self, ring: &mut Ring, say: &mut impl FnMut(&str)) -> io::Result<()> {
        if let (State::Bus(line), Target::Bus(to)) = (&mut self.state, &self.target)
            && line.converse(to, &self.hello, self.token.as_ref(), ring, say)?
        {
            say(&format!("{}: connected", to.url.address));
            self.failures = 0;
        }
        Ok(())
    }

    fn converse(&mut self, ring: &mut Ring, say: &mut impl FnMut(&str)) -> io::Result<()> {
        self.receive(ring, say)?;
        if !self.greeted && self.token.is_none() {
            self.greet(None);
        }
        self.flush()?;
        let mut room = MOST_AT_ONCE;
        while matches!(self.state, State::Open(_))
            && self.goes.is_empty()
            && ring.has_news()
            && room > 0
        {
            room -= 1;
            ring.next(false, &mut self.goes);
            self.flush()?;
        }
        Ok(())
    }

    fn greet(&mut self, challenge: Option<&[u8]>) {
        let hello = &self.hello;
        self.goes.extend_from_slice(&PREAMBLE);
        frame(&mut self.goes, Kind::Hello, |out| {
            hello.put(out);
            if let (Some(token), Some(challenge)) = (&self.token, challenge) {
                let start = hello.start.to_le_bytes();
                out.extend_from_slice(&token.proof(&[challenge, hello.node.as_bytes(), &start]));
            }
        });
        self.greeted = true;
    }

    fn receive(&mut self, ring: &mut Ring, say: &mut impl FnMut(&str)) -> io::Result<()> {
        let mut room = [0; 512];
        loop {
            let (State::Greeting(stream) | State::Open(stream)) = &mut self.state else {
                return Ok(());
            };
            let got = match tls::receive(stream, &mut room, &mut self.came)? {
                None => return Ok(()),
                Some(0) if self.greeted => {
                    return Err(io::Error::other("the collector closed the connection"));
                }
                Some(0) => {
                    let text = "the collector closed the connection without an answer; \
                                does it require TLS (--tls-ca FILE)?";
                    return Err(io::Error::other(text));
                }
                Some(n) => n,
            };
            let came = std::mem::take(&mut self.came);
            if came.starts_with(&TLS_ALERT) {
                return Err(io::Error::other(
                    "the collector requires TLS (--tls-ca FILE)",
                ));
            }
            let mut rest = &came[..];
            while let Some((kind, body, whole)) =
                next_frame(rest, LONGEST_ANSWER).map_err(io::Error::other)?
            {
                rest = &rest[whole..];
                self.answer(kind, body, ring, say)?;
            }
            self.came = rest.to_vec();
            // The socket is drained: another read would return no bytes.
            if got < room.len() {
                return Ok(());
            }
        }
    }

    fn answer(
        &mut self,
        kind: Kind,
        body: &[u8],
        ring: &mut Ring,
        say: &mut impl FnMut(&str),
    ) -> io::Result<()> {
        let sequence = || {
            body.first_chunk()
                .map_or(0, |eight| u64::from_le_bytes(*eight))
        };
        match kind {
            Kind::Challenge if self.token.is_none() => Err(io::Error::other(
                "the collector requires a token (--token FILE)",
            )),
            Kind::Challenge => {
                self.greet(Some(body));
                Ok(())
            }
            Kind::Welcome => {
                ring.kept(sequence());
                let state = std::mem::replace(&mut self.state, State::Pausing(Instant::now()));
                if let State::Greeting(stream) = state {
                    self.state = State::Open(stream);
                }
                say(&format!("{}: connected", self.target.address()));
                self.failures = 0;
                Ok(())
            }
            Kind::Acknowledged => {
                ring.kept(sequence());
                Ok(())
            }
            Kind::No => {
                let text = String::from_utf8_lossy(body);
                Err(io::Error::other(format!("the collector refused {text}")))
            }
            other => Err(io::Error::other(format!("the collector sent {other:?}"))),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let (State::Greeting(stream) | State::Open(stream)) = &mut self.state else {
            return Ok(());
        };
        tls::send(stream, &mut self.goes)
    }

    /// Sends unsent samples with absolute values; hello and sources precede them if the collector asked.
    fn packets(&mut self, ring: &mut Ring) -> io::Result<()> {
        let State::Packets(socket, known) = &mut self.state else {
            return Ok(());
        };
        let mut room = [0; 512];
        loop {
            match socket.recv(&mut room) {
                // The collector asks for a hello.
                Ok(_) => *known = false,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => *known = false,
                Err(e) => return Err(e),
            }
        }
        while ring.has_news() {
            let packet = packet(&self.hello, self.token.as_ref(), !*known, ring);
            ring.forget();
            *known = true;
            match socket.send(&packet) {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => *known = false,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(e),
            }
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
