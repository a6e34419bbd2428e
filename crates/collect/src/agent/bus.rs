//! The agent's connection to a message bus: it publishes packets and receives answers in its inbox.

use super::ring::Ring;
use super::sending::{connect, packet};
use crate::bus::{self, Message, Op, Stored, Talk, Url, found};
use crate::bytes::unused;
use crate::datagram;
use crate::tls::Trust;
use crate::wire::{Hello, Kind, Token, next_frame};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The subject on which an agent publishes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// The server.
    pub url: Url,
    /// Name of the cluster.
    pub cluster: String,
    /// Block of the node; by default derived from its name.
    pub block: Option<u32>,
    /// Whether reports wait for the acknowledgement of a JetStream stream.
    pub jetstream: bool,
}

/// Reports after which sources are declared again: a collector that reads a stream's history cannot ask
/// for them.
const INTRODUCE_EVERY: u32 = 64;
/// Maximum number of reports published in one call.
const MOST_AT_ONCE: usize = 32;
/// Timeout of a stream's acknowledgement.
const PATIENCE: Duration = Duration::from_secs(10);
/// The agent's subscription.
const INBOX: u64 = 1;

/// A connection to a server.
pub struct Line {
    pub talk: Talk,
    /// Whether the server accepted the connection.
    open: bool,
    /// Reports since the last declaration of the sources; `None`: declare them with the next report.
    introduced: Option<u32>,
    /// Since when an acknowledgement is pending.
    owed: Option<Instant>,
    /// The last refusal of a collector that was printed.
    refused: String,
}

impl Line {
    pub fn begin(address: SocketAddr, to: &Url, trust: Option<&Trust>) -> io::Result<Self> {
        Ok(Self {
            talk: Talk::new(connect(address)?, to, trust)?,
            open: false,
            introduced: None,
            owed: None,
            refused: String::new(),
        })
    }

    /// Whether the connection has work before the next tick.
    pub fn is_busy(&self) -> bool {
        !self.open || !self.talk.goes.is_empty() || self.owed.is_some()
    }

    /// Handles received data and publishes unsent reports. Returns whether the server just accepted the
    /// connection.
    pub fn converse(
        &mut self,
        to: &Subject,
        hello: &Hello,
        token: Option<&Token>,
        ring: &mut Ring,
        say: &mut impl FnMut(&str),
    ) -> io::Result<bool> {
        let before = self.open;
        self.receive(to, hello, ring, say)?;
        if self.open {
            self.publish(to, hello, token, ring);
        }
        self.talk.flush()?;
        if self.owed.is_some_and(|since| since.elapsed() > PATIENCE) {
            let subject = self.subject(to, hello);
            return Err(io::Error::other(format!(
                "no stream acknowledges reports on {subject}"
            )));
        }
        Ok(self.open && !before)
    }

    /// Whether a report was published on this connection.
    pub fn has_published(&self) -> bool {
        self.introduced.is_some()
    }

    fn subject(&self, to: &Subject, hello: &Hello) -> String {
        let block = to.block.unwrap_or_else(|| bus::block(&hello.node));
        bus::subject(&to.cluster, block)
    }

    fn publish(&mut self, to: &Subject, hello: &Hello, token: Option<&Token>, ring: &mut Ring) {
        let subject = self.subject(to, hello);
        for _ in 0..MOST_AT_ONCE {
            let next = match to.jetstream {
                true => ring.next_in_turn(),
                false => ring.next_sequence(),
            };
            let Some(sequence) = next.filter(|_| self.talk.goes.is_empty()) else {
                break;
            };
            let known = self.introduced.filter(|&n| n < INTRODUCE_EVERY);
            let packet = packet(hello, token, known.is_none(), ring);
            self.introduced = Some(known.map_or(0, |n| n + 1));
            let reply = to
                .jetstream
                .then(|| bus::inbox(hello.start, &sequence.to_string()));
            bus::publish(&subject, reply.as_deref(), &packet, &mut self.talk.goes);
            if to.jetstream {
                self.owed.get_or_insert_with(Instant::now);
            } else {
                ring.forget();
            }
            // Bytes that the socket does not accept now go before the next report.
            if self.talk.flush().is_err() {
                break;
            }
        }
    }

    fn receive(
        &mut self,
        to: &Subject,
        hello: &Hello,
        ring: &mut Ring,
        say: &mut impl FnMut(&str),
    ) -> io::Result<()> {
        let mut room = [0; 2048];
        while self.talk.receive(&mut room)? {
            let came = std::mem::take(&mut self.talk.came);
            let mut rest = &came[..];
            while let Some((op, whole)) = bus::next(rest).map_err(found)? {
                rest = &rest[whole..];
                match op {
                    Op::Info(info) => {
                        if self.talk.greet(info, &to.url, &hello.node)? {
                            let inbox = bus::inbox(hello.start, "*");
                            bus::subscribe(&inbox, INBOX, &mut self.talk.goes);
                        }
                    }
                    Op::Ping => bus::pong(&mut self.talk.goes),
                    Op::Pong => self.open = true,
                    Op::Error(text) => {
                        return Err(io::Error::other(format!("the server refused: {text}")));
                    }
                    Op::Message(message) => self.answer(&message, ring, say)?,
                    Op::Ok => {}
                }
            }
            let left = rest.len();
            self.talk.came = unused(came, left);
        }
        Ok(())
    }

    fn answer(
        &mut self,
        message: &Message<'_>,
        ring: &mut Ring,
        say: &mut impl FnMut(&str),
    ) -> io::Result<()> {
        let of = message.subject.rsplit('.').next().unwrap_or_default();
        let Ok(sequence) = of.parse::<u64>() else {
            // A collector asks for a hello, or refuses the report with a reason.
            self.introduced = None;
            if let Ok(Some((Kind::No, text, _))) = next_frame(message.payload, 4096) {
                let text = String::from_utf8_lossy(text).into_owned();
                if !text.ends_with(datagram::STRANGER) && text != self.refused {
                    say(&format!("the collector refused {text}"));
                    self.refused = text;
                }
            }
            return Ok(());
        };
        if message.status == Some(503) {
            let text = "no stream stores reports of this subject (hopbyte collect --jetstream)";
            return Err(io::Error::other(text));
        }
        match bus::acknowledgement(message.payload) {
            Ok(Stored::Yes) => {
                ring.kept_one(sequence);
                self.owed = ring.has_sent().then(Instant::now);
                Ok(())
            }
            Ok(Stored::No) => Ok(()),
            Err(refusal) => Err(io::Error::other(format!("the stream refused: {refusal}"))),
        }
    }
}
