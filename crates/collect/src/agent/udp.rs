//! Single packets to a collector: a hello with the answer to its challenge, then reports without acknowledgement.

use super::ring::Ring;
use super::sending::introduction;
use crate::datagram::{self, LONGEST};
use crate::wire::{Hello, Kind, Token, next_frame};
use rustix::fd::{AsFd, BorrowedFd};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Time after which an unanswered hello is sent again.
const AGAIN: Duration = Duration::from_millis(500);
/// Unanswered hellos after which another address of the collector's name is tried.
const UNANSWERED: u32 = 10;

/// The collector's knowledge of this agent.
#[derive(Clone, Debug, Default)]
enum Known {
    /// It has none.
    #[default]
    No,
    /// It was sent a hello and owes a challenge.
    Asked(Instant),
    /// It sent a challenge.
    Challenged(Vec<u8>),
    /// It accepted a hello.
    Yes,
}

/// The agent's side without its socket: received packets in, packets to send out.
#[derive(Clone, Debug, Default)]
pub struct Exchange {
    known: Known,
    /// Hellos since the last answer.
    unanswered: u32,
}

impl Exchange {
    /// The next packets to send, none at the end: a hello if the collector does not know this agent, the answer to its
    /// challenge, a report with absolute values.
    pub fn next(
        &mut self,
        hello: &Hello,
        token: Option<&Token>,
        ring: &mut Ring,
        now: Instant,
    ) -> Vec<Vec<u8>> {
        if !ring.has_news() {
            return Vec::new();
        }
        let room = LONGEST - datagram::head(hello);
        let frames = match &self.known {
            Known::Asked(since) if now < *since + AGAIN => return Vec::new(),
            Known::No | Known::Asked(_) => {
                self.known = Known::Asked(now);
                self.unanswered += 1;
                introduction(hello, &[])
            }
            Known::Challenged(challenge) => {
                let frames = introduction(hello, challenge);
                self.known = Known::Yes;
                ring.restart();
                frames
            }
            Known::Yes => {
                let mut frames = Vec::new();
                ring.next_within(true, room, &mut frames);
                ring.forget();
                frames
            }
        };
        let wrap = |part: &[u8]| {
            let mut packet = Vec::new();
            datagram::wrap(&hello.node, hello.start, token, part, &mut packet);
            packet
        };
        // As few packets as the frames fit into.
        datagram::parts(&frames, room)
            .into_iter()
            .map(wrap)
            .collect()
    }

    /// Handles a packet of the collector.
    pub fn answered(&mut self, answer: &[u8]) {
        self.unanswered = 0;
        self.known = match next_frame(answer, answer.len()) {
            Ok(Some((Kind::Challenge, challenge, _))) => Known::Challenged(challenge.to_vec()),
            // A refusal, possibly shortened to the length of the packet.
            _ => Known::No,
        };
    }

    /// The collector's address has no listener.
    fn unheard(&mut self) {
        self.known = Known::No;
    }
}

/// See the module.
pub struct Packets {
    socket: UdpSocket,
    exchange: Exchange,
}

impl Packets {
    pub fn new(to: SocketAddr) -> io::Result<Self> {
        let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any)?;
        socket.connect(to)?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            exchange: Exchange::default(),
        })
    }

    /// Whether a challenge is due before the next tick.
    pub fn is_busy(&self) -> bool {
        matches!(self.exchange.known, Known::Asked(_))
    }

    /// Whether the collector accepted a hello.
    pub fn is_open(&self) -> bool {
        matches!(self.exchange.known, Known::Yes)
    }

    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Receives the collector's answers and sends unsent samples.
    pub fn push(
        &mut self,
        hello: &Hello,
        token: Option<&Token>,
        ring: &mut Ring,
    ) -> io::Result<()> {
        self.receive()?;
        if self.exchange.unanswered > UNANSWERED {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "no collector answers packets",
            ));
        }
        let now = Instant::now();
        loop {
            let packets = self.exchange.next(hello, token, ring, now);
            if packets.is_empty() {
                return Ok(());
            }
            packets.iter().try_for_each(|packet| self.send(packet))?;
        }
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut room = [0; 512];
        loop {
            match self.socket.recv(&mut room) {
                Ok(n) => self.exchange.answered(&room[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => self.exchange.unheard(),
                Err(e) => return Err(e),
            }
        }
    }

    fn send(&mut self, packet: &[u8]) -> io::Result<()> {
        match self.socket.send(packet) {
            Ok(_) => Ok(()),
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
                self.exchange.unheard();
                Ok(())
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(e) => Err(e),
        }
    }
}
