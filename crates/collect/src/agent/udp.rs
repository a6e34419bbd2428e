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

/// The collector's knowledge of this agent.
enum Known {
    /// It has none.
    No,
    /// It was sent a hello and owes a challenge.
    Asked(Instant),
    /// It sent a challenge.
    Challenged(Vec<u8>),
    /// It accepted a hello.
    Yes,
}

/// See the module.
pub struct Packets {
    socket: UdpSocket,
    known: Known,
}

impl Packets {
    pub fn new(to: SocketAddr) -> io::Result<Self> {
        let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any)?;
        socket.connect(to)?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            known: Known::No,
        })
    }

    /// Whether a challenge is due before the next tick.
    pub fn is_busy(&self) -> bool {
        matches!(self.known, Known::Asked(_))
    }

    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends unsent samples with absolute values; a hello, answered by a challenge, precedes them if the collector
    /// does not know this agent.
    pub fn push(
        &mut self,
        hello: &Hello,
        token: Option<&Token>,
        ring: &mut Ring,
    ) -> io::Result<()> {
        self.receive()?;
        if !ring.has_news() {
            return Ok(());
        }
        match &self.known {
            Known::Asked(since) if since.elapsed() < AGAIN => return Ok(()),
            Known::No | Known::Asked(_) => {
                self.known = Known::Asked(Instant::now());
                return self.send(hello, token, &introduction(hello, &[]));
            }
            Known::Challenged(challenge) => {
                let frames = introduction(hello, challenge);
                self.known = Known::Yes;
                ring.restart();
                self.send(hello, token, &frames)?;
            }
            Known::Yes => {}
        }
        let room = LONGEST - datagram::head(hello);
        while ring.has_news() {
            let mut frames = Vec::new();
            ring.next_within(true, room, &mut frames);
            ring.forget();
            self.send(hello, token, &frames)?;
        }
        Ok(())
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut room = [0; 512];
        loop {
            match self.socket.recv(&mut room) {
                Ok(n) => self.answered(&room[..n]),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => self.known = Known::No,
                Err(e) => return Err(e),
            }
        }
    }

    fn answered(&mut self, answer: &[u8]) {
        self.known = match next_frame(answer, answer.len()) {
            Ok(Some((Kind::Challenge, challenge, _))) => Known::Challenged(challenge.to_vec()),
            // A refusal, possibly shortened to the length of the packet.
            _ => Known::No,
        };
    }

    /// Sends frames in as few packets as they fit into.
    fn send(&mut self, hello: &Hello, token: Option<&Token>, frames: &[u8]) -> io::Result<()> {
        let most = LONGEST - datagram::head(hello);
        for part in datagram::parts(frames, most) {
            let mut packet = Vec::new();
            datagram::wrap(&hello.node, hello.start, token, part, &mut packet);
            match self.socket.send(&packet) {
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => self.known = Known::No,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}
