//! The agent's side of a connection without its socket: received bytes in, bytes to send out.

use super::ring::Ring;
use crate::bytes::unused;
use crate::tls::TLS_ALERT;
use crate::wire::{Hello, Kind, PREAMBLE, Token, frame, next_frame};
use std::io;

/// Maximum length of a collector's answer.
const LONGEST_ANSWER: usize = 4096;

/// See the module.
#[derive(Clone, Debug)]
pub struct Session {
    pub hello: Hello,
    pub token: Option<Token>,
    /// Received bytes of an incomplete frame.
    pub came: Vec<u8>,
    /// Bytes that the socket has not accepted yet.
    pub goes: Vec<u8>,
    /// Whether the hello was sent.
    greeted: bool,
    /// Whether the collector accepted the agent.
    open: bool,
    /// Whether the collector sent anything over this connection.
    answered: bool,
}

impl Session {
    pub fn new(hello: Hello, token: Option<Token>) -> Self {
        Self {
            hello,
            token,
            came: Vec::new(),
            goes: Vec::new(),
            greeted: false,
            open: false,
            answered: false,
        }
    }

    /// Handles a new connection.
    pub fn anew(&mut self, ring: &mut Ring) {
        self.came.clear();
        self.goes.clear();
        self.greeted = false;
        self.open = false;
        self.answered = false;
        ring.anew();
    }

    /// Whether the collector accepted the agent.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Whether the collector sent anything over this connection.
    pub fn is_answered(&self) -> bool {
        self.answered
    }

    /// Whether the hello was sent.
    pub fn is_greeted(&self) -> bool {
        self.greeted
    }

    /// Sends the hello of an agent without a token; others wait for the challenge.
    pub fn open(&mut self) {
        if !self.greeted && self.token.is_none() {
            self.greet(None);
        }
    }

    /// Adds the next report to the bytes to send, if all earlier ones are sent.
    pub fn offer(&mut self, ring: &mut Ring) -> bool {
        let offers = self.open && self.goes.is_empty() && ring.has_news();
        if offers {
            ring.next(false, &mut self.goes);
        }
        offers
    }

    /// Handles the complete frames of the received bytes.
    pub fn received(&mut self, ring: &mut Ring) -> io::Result<()> {
        let came = std::mem::take(&mut self.came);
        self.answered |= !came.is_empty();
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
            self.answer(kind, body, ring)?;
        }
        let left = rest.len();
        self.came = unused(came, left);
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

    fn answer(&mut self, kind: Kind, body: &[u8], ring: &mut Ring) -> io::Result<()> {
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
                self.open = true;
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
}
